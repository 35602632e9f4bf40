/* A driver's session with its node: one exchange on the node's socket, then shared memory. */
#include "sdk/c/options.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log_value.h"
#include "common/base/unix_socket.h"
#include "common/wire/utf8.h"

#define CONNECT_TIMEOUT_NS (10 * MOB_SEC)
#define RETRY_MS 20
#define WELCOME_PATIENCE_NS (5 * MOB_SEC)

static int remaining_ms(int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return -1;
    int64_t left = (deadline_ns - mob_now() + MOB_MS - 1) / MOB_MS;
    return left < 0 ? 0 : left > 1000000 ? 1000000 : (int)left;
}

static int open_socket(struct mob_client *client, enum mob_status *status_out)
{
    struct sockaddr_un address;
    char path[sizeof client->directory + sizeof MOB_NODE_SOCKET_NAME];
    snprintf(path, sizeof path, "%s/" MOB_NODE_SOCKET_NAME, client->directory);
    if (mob_unix_address(path, &address) != MOB_OK) {
        *status_out = mob_client_fail(
            client, MOB_TOO_LARGE, "the path \"%.80s...\" is too long for a socket", client->directory);
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        *status_out = mob_client_fail(client, MOB_IO, "no socket: %s", strerror(errno));
        return -1;
    }
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int reason = errno;
    close(fd);
    *status_out = reason == EACCES || reason == EPERM
        ? mob_client_fail(client, MOB_DENIED, "no permission for %s", address.sun_path)
        : mob_client_fail(
              client, MOB_UNAVAILABLE, "no node answers at %s: is the cluster up?", address.sun_path);
    return -1;
}

/* The welcome comes with the memfd and the eventfd. */
static enum mob_status receive_welcome(struct mob_client *client, int sock, int fds[2])
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    uint8_t sent[sizeof client->welcome];
    struct iovec iov = {sent, sizeof sent};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    fds[0] = fds[1] = -1;
    ssize_t n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(2 * sizeof(int)))
        memcpy(fds, CMSG_DATA(c), 2 * sizeof(int));
    enum mob_status status = mob_session_welcome_decode(sent, n < 0 ? 0 : (size_t)n, &client->welcome);
    if (status == MOB_INVALID)
        return mob_client_fail(client, MOB_UNAVAILABLE, "the node ended the session before it began");
    if (status != MOB_OK)
        return mob_client_fail(client, MOB_VERSION, "the node speaks session version %u, this library %u",
            client->welcome.version, MOB_SESSION_VERSION);
    if (client->welcome.status != MOB_OK)
        return mob_client_fail(
            client, (enum mob_status)client->welcome.status, "the node refused: %s", client->welcome.detail);
    if (fds[0] < 0 || fds[1] < 0)
        return mob_client_fail(client, MOB_CORRUPT, "the node sent no segment");
    return MOB_OK;
}

/* One try. A node that listens answers soon, so it is waited for whatever the deadline says. */
static enum mob_status exchange(struct mob_client *client, int64_t deadline_ns)
{
    int64_t patience = mob_deadline_after(WELCOME_PATIENCE_NS);
    if (deadline_ns < patience)
        deadline_ns = patience;
    enum mob_status status;
    int sock = open_socket(client, &status);
    if (sock < 0)
        return status;
    struct pollfd p = {sock, POLLIN, 0};
    int fds[2] = {-1, -1};
    client->hello.pid = (uint32_t)getpid();
    if (send(sock, &client->hello, sizeof client->hello, MSG_NOSIGNAL) != (ssize_t)sizeof client->hello)
        status = mob_client_fail(client, MOB_UNAVAILABLE, "the node ended the session before it began");
    else if (poll(&p, 1, remaining_ms(deadline_ns)) <= 0)
        status = mob_client_fail(client, MOB_TIMEOUT, "the node did not answer in time");
    else
        status = receive_welcome(client, sock, fds);
    struct mob_store_client *store = NULL;
    if (status == MOB_OK) {
        status = mob_store_attach(fds[0], fds[1], client->welcome.slot, &store);
        if (status != MOB_OK)
            mob_client_fail(client, status, "the segment cannot be mapped: %s", mob_status_text(status));
    }
    if (status != MOB_OK) {
        if (client->resuming) /* the node may open it all the same, later than it was waited for */
            mob_session_comes_again(sock);
        close(sock);
        if (fds[0] >= 0)
            close(fds[0]);
        if (fds[1] >= 0)
            close(fds[1]);
        return status;
    }
    client->sock = sock;
    client->memfd = fds[0];
    client->eventfd = fds[1];
    client->store = store;
    return MOB_OK;
}

enum mob_status mob_session_open(struct mob_client *client, int64_t deadline_ns)
{
    for (;;) {
        enum mob_status status = exchange(client, deadline_ns);
        if (status != MOB_UNAVAILABLE)
            return status;
        if (mob_now() + RETRY_MS * MOB_MS >= deadline_ns)
            return status;
        poll(NULL, 0, RETRY_MS); /* the node may be about to start */
    }
}

void mob_session_comes_again(int sock)
{
    static const uint8_t again = MOB_SESSION_AGAIN;
    ssize_t sent = send(sock, &again, sizeof again, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* the node is gone, or was told before */
}

static void let_go(int sock)
{
    mob_session_comes_again(sock);
    shutdown(sock, SHUT_WR);
}

/* Nothing comes on the socket after the welcome: readable means that the node is gone. With rings that do not
 * parse the node is told to end this session, and when it has taken what it can still read it closes its end
 * as well. */
bool mob_session_alive(void *arg)
{
    struct mob_client *client = arg;
    if (client->sock < 0)
        return true; /* a worker ends with its node, by signal */
    if (mob_store_rings_damaged(client->store))
        let_go(client->sock);
    struct pollfd p = {client->sock, POLLIN, 0};
    if (poll(&p, 1, 0) <= 0)
        return true;
    char byte;
    return recv(client->sock, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

static enum mob_status copy_text(
    struct mob_client *client, char *to, size_t size, const char *text, const char *what)
{
    if (text == NULL)
        return MOB_OK;
    if (strlen(text) >= size)
        return mob_client_fail(client, MOB_TOO_LARGE, "the %s is longer than %zu bytes", what, size - 1);
    memcpy(to, text, strlen(text) + 1);
    return MOB_OK;
}

/* Names are shown in JSON. */
static enum mob_status copy_name(
    struct mob_client *client, char *to, size_t size, const char *text, const char *what)
{
    if (!json_utf8_ok(text, strlen(text)))
        return mob_client_fail(client, MOB_INVALID, "the %s is not UTF-8", what);
    return copy_text(client, to, size, text, what);
}

static enum mob_status find_directory(struct mob_client *client, const char *given)
{
    const char *directory = given != NULL ? given : getenv("MOBULA_DIR");
    if (directory != NULL)
        return copy_text(
            client, client->directory, sizeof client->directory, directory, "state directory's path");
    const char *home = getenv("HOME");
    int n = snprintf(client->directory, sizeof client->directory, "%s/.mobula", home == NULL ? "" : home);
    return n > 0 && (size_t)n < sizeof client->directory
        ? MOB_OK
        : mob_client_fail(client, MOB_TOO_LARGE, "the home directory's path is too long");
}

static enum mob_status prepare(struct mob_client *client, const struct mob_connect_options *options)
{
    struct mob_session_hello *hello = &client->hello;
    *hello = (struct mob_session_hello){
        .magic = MOB_SESSION_MAGIC, .version = MOB_SESSION_VERSION, .kind = MOB_CLIENT_DRIVER};
    if (options->standing_job)
        hello->flags |= MOB_SESSION_STANDING_JOB;
    if (options->read_local)
        hello->flags |= MOB_SESSION_READ_LOCAL;
    if (options->detached)
        hello->flags |= MOB_SESSION_DETACHED;
    if (options->gateway) {
        hello->flags |= MOB_SESSION_GATEWAY;
        hello->kind = MOB_CLIENT_GATEWAY;
    }
    if (options->job_weight > MOB_JOB_WEIGHT_MAX)
        return mob_client_fail(client, MOB_INVALID, "a job's weight is 1 to %u", MOB_JOB_WEIGHT_MAX);
    if (options->join_job != NULL)
        hello->flags |= MOB_SESSION_JOIN;
    hello->job_weight = options->job_weight;
    client->committed_only = !options->read_local;
    enum mob_status status = find_directory(client, options->directory);
    if (status == MOB_OK)
        status = copy_name(client, hello->ns, sizeof hello->ns,
            options->name_space == NULL ? "default" : options->name_space, "namespace");
    const char *job = options->join_job != NULL ? options->join_job : options->job_name;
    if (job == NULL) /* a program may have any name */
        json_utf8_copy(hello->job_name, sizeof hello->job_name, program_invocation_short_name);
    else if (status == MOB_OK)
        status = copy_name(client, hello->job_name, sizeof hello->job_name, job, "job's name");
    if (status == MOB_OK)
        status = copy_text(client, hello->idempotency_key, sizeof hello->idempotency_key,
            options->idempotency_key, "idempotency key");
    return status;
}

/* A gateway's session of a job has a root of its own, by which a later node cannot know the job: it joins it
 * by name. */
static void rejoin_by_id(struct mob_client *client)
{
    struct mob_session_hello *hello = &client->hello;
    if (!(hello->flags & MOB_SESSION_GATEWAY) || (hello->flags & MOB_SESSION_STANDING_JOB))
        return;
    hello->flags |= MOB_SESSION_JOIN;
    memset(hello->idempotency_key, 0, sizeof hello->idempotency_key);
    mob_job_id_format(client->welcome.job, hello->job_name);
}

/* Why the last mob_connect of this thread failed: there is no client yet that could say it. */
static _Thread_local char connect_error[512] = "mob_connect has not been called";

const char *mob_connect_error(void)
{
    return connect_error;
}

enum mob_status mob_connect(const struct mob_connect_options *given, struct mob_client **client_out)
{
    if (client_out == NULL) {
        snprintf(connect_error, sizeof connect_error, "client_out is NULL");
        return mob_say_null(NULL, "client_out");
    }
    struct mob_connect_options options = {0};
    if (given != NULL)
        memcpy(&options, given, given->struct_size < sizeof options ? given->struct_size : sizeof options);
    struct mob_client *client = mob_client_new();
    if (client == NULL)
        return MOB_NO_MEMORY;
    enum mob_status status =
        given == NULL ? MOB_OK : mob_options_size_check(client, given->struct_size, sizeof options);
    if (status == MOB_OK)
        status = prepare(client, &options);
    if (status == MOB_OK)
        status = mob_session_open(
            client, mob_deadline_after(options.timeout_ns == 0 ? CONNECT_TIMEOUT_NS : options.timeout_ns));
    if (status != MOB_OK) {
        memcpy(connect_error, client->error, sizeof connect_error);
        mob_client_free(client);
        return status;
    }
    mob_client_enter(client, client->welcome.root, client->welcome.generation, client->welcome.job);
    client->next_child = client->welcome.next_child;
    rejoin_by_id(client);
    *client_out = client;
    return MOB_OK;
}

void mob_disconnect(struct mob_client *client)
{
    if (client == NULL)
        return;
    if (mob_session_alive(client) && mob_client_flush_releases(client) == MOB_OK &&
        mob_flush(client, CONNECT_TIMEOUT_NS) != MOB_OK)
        MOB_LOG_WARN("sdk", "disconnected_unflushed", "reason=\"%s\"", MOB_LOG_VALUE(client->error));
    mob_client_free(client);
}
