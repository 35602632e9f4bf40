/* Sockets of links: unix for one machine, TCP between machines. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/unix_socket.h"
#include "gcs/link/link_internal.h"

#define BACKLOG 64
#define SOCKET_BUFFER_BYTES (4 << 20)

union any_address {
    struct sockaddr any;
    struct sockaddr_un path;
    struct sockaddr_storage room;
};

static enum mob_status path_address(const char *text, union any_address *out, socklen_t *length_out)
{
    *length_out = sizeof out->path;
    return mob_unix_address(text, &out->path);
}

/* The resolver takes none for 0, and the rest of 70000. */
static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 5 && text[digits] == 0 && strtol(text, NULL, 10) <= UINT16_MAX;
}

/* Numbers only: a name would block in the resolver. */
static enum mob_status net_address(const char *text, union any_address *out, socklen_t *length_out)
{
    char host[MOB_GCS_ADDRESS_MAX];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof host || !is_port(colon + 1))
        return MOB_INVALID;
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return MOB_INVALID;
    memcpy(&out->room, found->ai_addr, found->ai_addrlen);
    *length_out = found->ai_addrlen;
    freeaddrinfo(found);
    return MOB_OK;
}

static enum mob_status parse(const char *text, union any_address *out, socklen_t *length_out)
{
    *out = (union any_address){0};
    return text[0] == '/' ? path_address(text, out, length_out) : net_address(text, out, length_out);
}

static int make_socket(const union any_address *address)
{
    return socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

void link_tune(int fd)
{
    int one = 1, size = SOCKET_BUFFER_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* refused by unix sockets */
}

enum mob_status mob_link_listen(const char *text, struct mob_listener *listener_out)
{
    union any_address address;
    socklen_t length;
    enum mob_status status = parse(text, &address, &length);
    if (status != MOB_OK)
        return status;
    int fd = make_socket(&address), one = 1;
    if (fd < 0)
        return MOB_IO;
    if (address.any.sa_family == AF_UNIX)
        unlink(address.path.sun_path); /* of a process that was killed */
    else
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    mode_t mask = umask(0177);
    int bound = bind(fd, &address.any, length);
    umask(mask);
    if (bound != 0 || listen(fd, BACKLOG) != 0) {
        MOB_LOG_ERROR("gcs", "link_listen_failed", "address=%s errno=%d", text, errno);
        close(fd);
        return MOB_IO;
    }
    mob_listener_init(listener_out, fd);
    return MOB_OK;
}

enum mob_status link_connect(const char *text, int *fd_out)
{
    union any_address address;
    socklen_t length;
    enum mob_status status = parse(text, &address, &length);
    if (status != MOB_OK)
        return status;
    int fd = make_socket(&address);
    if (fd < 0)
        return MOB_IO;
    if (connect(fd, &address.any, length) != 0 && errno != EINPROGRESS) {
        close(fd);
        return MOB_UNAVAILABLE;
    }
    link_tune(fd);
    *fd_out = fd;
    return MOB_OK;
}
