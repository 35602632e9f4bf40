#include "cli/ready_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ready_probe_address(const char *text, struct sockaddr_storage *out)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof host)
        return false;
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0' || port == 0 || port > 65535)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    size_t length = strlen(host);
    if (host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        return uv_ip6_addr(host + 1, (int)port, (struct sockaddr_in6 *)out) == 0;
    }
    /* what listens everywhere is reached here */
    return uv_ip4_addr(
               strcmp(host, "0.0.0.0") == 0 ? "127.0.0.1" : host, (int)port, (struct sockaddr_in *)out) == 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct ready_probe *probe = handle->data;
    probe->busy = false;
    probe->done(probe, probe->length >= 12 && memcmp(probe->answer + 9, "200", 3) == 0);
}

static void finish(struct ready_probe *probe)
{
    if (!uv_is_closing((uv_handle_t *)&probe->socket))
        uv_close((uv_handle_t *)&probe->socket, on_closed);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct ready_probe *probe = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(probe->answer + probe->length, (unsigned)(sizeof probe->answer - probe->length));
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    struct ready_probe *probe = stream->data;
    (void)buffer;
    if (length > 0)
        probe->length += (size_t)length;
    if (length < 0 || probe->length >= 12)
        finish(probe);
}

static void on_written(uv_write_t *write, int status)
{
    struct ready_probe *probe = write->handle->data;
    if (status != 0)
        finish(probe);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct ready_probe *probe = connect->handle->data;
    uv_buf_t buffer = uv_buf_init(probe->request, (unsigned)strlen(probe->request));
    if (status != 0 || uv_read_start(connect->handle, give_buffer, on_read) != 0 ||
        uv_write(&probe->write, connect->handle, &buffer, 1, on_written) != 0)
        finish(probe);
}

bool ready_probe_start(
    struct ready_probe *probe, uv_loop_t *loop, const char *address, void (*done)(struct ready_probe *, bool))
{
    struct sockaddr_storage socket_address;
    if (probe->busy || !ready_probe_address(address, &socket_address) ||
        uv_tcp_init(loop, &probe->socket) != 0)
        return false;
    probe->socket.data = probe;
    probe->busy = true;
    probe->length = 0;
    probe->done = done;
    snprintf(probe->request, sizeof probe->request,
        "GET /readyz HTTP/1.1\r\nHost: %.64s\r\nConnection: close\r\n\r\n", address);
    if (uv_tcp_connect(&probe->connect, &probe->socket, (struct sockaddr *)&socket_address, on_connected) !=
        0)
        finish(probe);
    return true;
}
