#include "cli/http_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cli/ready_probe.h"
#include "common/base/clock.h"

enum { READ_BYTES = 65536, CHUNK_LINE_MAX = 256 };

struct exchange {
    const struct http_request *request;
    struct http_response *response;
    int fd;
    int64_t deadline_ns;
    char buffer[READ_BYTES]; /* what was read and not yet taken: [at, end) */
    size_t at, end;
    size_t body_capacity;
};

static enum mob_status wait_for(struct exchange *x, short events)
{
    for (;;) {
        int64_t left_ns = x->deadline_ns == INT64_MAX ? INT64_MAX : x->deadline_ns - mob_now();
        if (left_ns <= 0)
            return MOB_TIMEOUT;
        int64_t left_ms = left_ns / MOB_MS + 1;
        struct pollfd poller = {.fd = x->fd, .events = events};
        int ready = poll(&poller, 1, left_ns == INT64_MAX ? -1 : left_ms > 1000000 ? 1000000 : (int)left_ms);
        if (ready > 0)
            return MOB_OK;
        if (ready < 0 && errno != EINTR)
            return MOB_UNAVAILABLE;
    }
}

static enum mob_status open_connection(struct exchange *x)
{
    struct sockaddr_storage address;
    if (!ready_probe_address(x->request->address, &address))
        return MOB_UNAVAILABLE;
    x->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (x->fd < 0)
        return MOB_UNAVAILABLE;
    socklen_t length =
        address.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (connect(x->fd, (struct sockaddr *)&address, length) == 0)
        return MOB_OK;
    if (errno != EINPROGRESS)
        return MOB_UNAVAILABLE;
    enum mob_status status = wait_for(x, POLLOUT);
    int error = 0;
    length = sizeof error;
    if (status == MOB_OK && (getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0))
        status = MOB_UNAVAILABLE;
    return status;
}

static enum mob_status send_all(struct exchange *x, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(x->fd, bytes, length, MSG_NOSIGNAL);
        if (sent > 0) {
            x->response->sent = true;
            bytes += sent;
            length -= (size_t)sent;
            continue;
        }
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            enum mob_status status = wait_for(x, POLLOUT);
            if (status != MOB_OK)
                return status;
            continue;
        }
        return MOB_UNAVAILABLE; /* it may have answered before it had read all: the caller looks */
    }
    return MOB_OK;
}

static enum mob_status send_request(struct exchange *x)
{
    const struct http_request *request = x->request;
    char head[8192];
    int length = snprintf(head, sizeof head,
        "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nUser-Agent: mobula-cli\r\n%s", request->method,
        request->path, request->address, request->headers ? request->headers : "");
    if (length > 0 && (size_t)length < sizeof head && request->token)
        length += snprintf(
            head + length, sizeof head - (size_t)length, "Authorization: Bearer %s\r\n", request->token);
    if (length > 0 && (size_t)length < sizeof head && request->content_type)
        length += snprintf(head + length, sizeof head - (size_t)length,
            "Content-Type: %s\r\nContent-Length: %zu\r\n", request->content_type, request->body_length);
    if (length > 0 && (size_t)length < sizeof head)
        length += snprintf(head + length, sizeof head - (size_t)length, "\r\n");
    if (length < 0 || (size_t)length >= sizeof head)
        return MOB_TOO_LARGE;
    enum mob_status status = send_all(x, head, (size_t)length);
    if (status == MOB_OK && request->body_length > 0)
        status = send_all(x, request->body, request->body_length);
    return status;
}

/* Reads more behind what is there. MOB_CLOSED at the end. */
static enum mob_status fill(struct exchange *x)
{
    if (x->at == x->end)
        x->at = x->end = 0;
    for (;;) {
        ssize_t got = recv(x->fd, x->buffer + x->end, sizeof x->buffer - x->end, 0);
        if (got > 0) {
            x->end += (size_t)got;
            return MOB_OK;
        }
        if (got == 0)
            return MOB_CLOSED;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return MOB_UNAVAILABLE;
        enum mob_status status = wait_for(x, POLLIN);
        if (status != MOB_OK)
            return status;
    }
}

/* The head, with NUL for each line's end. */
static enum mob_status read_head(struct exchange *x)
{
    struct http_response *response = x->response;
    size_t n = 0;
    for (;;) {
        while (x->at < x->end) {
            if (n + 1 >= sizeof response->head)
                return MOB_TOO_LARGE;
            response->head[n++] = x->buffer[x->at++];
            if (n >= 4 && memcmp(response->head + n - 4, "\r\n\r\n", 4) == 0)
                goto complete;
        }
        enum mob_status status = fill(x);
        if (status != MOB_OK)
            return status == MOB_CLOSED ? MOB_UNAVAILABLE : status;
    }
complete:
    response->head_length = n;
    for (size_t i = 0; i + 1 < n; i++)
        if (response->head[i] == '\r' && response->head[i + 1] == '\n')
            response->head[i] = response->head[i + 1] = '\0';
    if (strncmp(response->head, "HTTP/1.", 7) != 0 || strlen(response->head) < 12)
        return MOB_CORRUPT;
    response->status = atoi(response->head + 9);
    return response->status >= 100 && response->status <= 599 ? MOB_OK : MOB_CORRUPT;
}

const char *http_header(const struct http_response *response, const char *name)
{
    size_t length = strlen(name);
    const char *end = response->head + response->head_length;
    for (const char *line = response->head; line < end; line += strlen(line) + 1) {
        if (strncasecmp(line, name, length) != 0 || line[length] != ':')
            continue;
        const char *value = line + length + 1;
        return value + strspn(value, " \t");
    }
    return NULL;
}

static enum mob_status deliver(struct exchange *x, const char *bytes, size_t length)
{
    struct http_response *response = x->response;
    if (x->request->sink && response->status / 100 == 2) {
        response->taken = true;
        return x->request->sink(x->request->arg, bytes, length) ? MOB_OK : MOB_IO;
    }
    if (response->body_length + length > HTTP_BODY_MAX)
        return MOB_TOO_LARGE;
    if (response->body_length + length + 1 > x->body_capacity) {
        size_t capacity = (response->body_length + length + 1) * 2;
        char *body = realloc(response->body, capacity);
        if (!body)
            return MOB_NO_MEMORY;
        response->body = body;
        x->body_capacity = capacity;
    }
    memcpy(response->body + response->body_length, bytes, length);
    response->body_length += length;
    response->body[response->body_length] = '\0';
    return MOB_OK;
}

/* `length` bytes, or everything up to the end of the connection when it is UINT64_MAX. */
static enum mob_status read_plain(struct exchange *x, uint64_t length)
{
    while (length > 0) {
        if (x->at == x->end) {
            enum mob_status status = fill(x);
            if (status == MOB_CLOSED)
                return length == UINT64_MAX ? MOB_OK : MOB_UNAVAILABLE;
            if (status != MOB_OK)
                return status;
        }
        size_t here = x->end - x->at;
        if (here > length)
            here = (size_t)length;
        enum mob_status status = deliver(x, x->buffer + x->at, here);
        if (status != MOB_OK)
            return status;
        x->at += here;
        if (length != UINT64_MAX)
            length -= here;
    }
    return MOB_OK;
}

/* One line without its CRLF. */
static enum mob_status read_line(struct exchange *x, char out[CHUNK_LINE_MAX])
{
    size_t n = 0;
    for (;;) {
        if (x->at == x->end) {
            enum mob_status status = fill(x);
            if (status != MOB_OK)
                return status == MOB_CLOSED ? MOB_UNAVAILABLE : status;
        }
        char c = x->buffer[x->at++];
        if (c == '\n') {
            out[n > 0 && out[n - 1] == '\r' ? n - 1 : n] = '\0';
            return MOB_OK;
        }
        if (n + 1 >= CHUNK_LINE_MAX)
            return MOB_CORRUPT;
        out[n++] = c;
    }
}

static enum mob_status read_chunked(struct exchange *x)
{
    char line[CHUNK_LINE_MAX];
    for (;;) {
        enum mob_status status = read_line(x, line);
        if (status != MOB_OK)
            return status;
        char *end;
        errno = 0;
        unsigned long long length = strtoull(line, &end, 16);
        if (end == line || errno != 0 || length > INT64_MAX)
            return MOB_CORRUPT;
        if (length == 0)
            break;
        status = read_plain(x, length);
        if (status == MOB_OK)
            status = read_line(x, line);
        if (status != MOB_OK)
            return status;
    }
    for (;;) { /* trailers, up to an empty line */
        enum mob_status status = read_line(x, line);
        if (status != MOB_OK || line[0] == '\0')
            return status;
    }
}

static enum mob_status read_answer(struct exchange *x)
{
    enum mob_status status;
    do /* 1xx answers come before the one that counts */
        status = read_head(x);
    while (status == MOB_OK && x->response->status / 100 == 1);
    if (status != MOB_OK)
        return status;
    const char *coding = http_header(x->response, "Transfer-Encoding");
    const char *length = http_header(x->response, "Content-Length");
    if (strcmp(x->request->method, "HEAD") == 0 || x->response->status == 204 || x->response->status == 304)
        return MOB_OK;
    if (coding)
        return strcasecmp(coding, "chunked") == 0 ? read_chunked(x) : MOB_CORRUPT;
    if (!length)
        return read_plain(x, UINT64_MAX);
    char *end;
    errno = 0;
    unsigned long long n = strtoull(length, &end, 10);
    return end == length || *end != '\0' || errno != 0 || n > INT64_MAX ? MOB_CORRUPT : read_plain(x, n);
}

enum mob_status http_exchange(const struct http_request *request, struct http_response *response)
{
    response->status = 0;
    response->head_length = response->body_length = 0;
    response->body = NULL;
    response->sent = response->taken = false;
    struct exchange *x = malloc(sizeof *x);
    if (!x)
        return MOB_NO_MEMORY;
    x->request = request;
    x->response = response;
    x->fd = -1;
    x->at = x->end = x->body_capacity = 0;
    x->deadline_ns = request->timeout_ns > 0 ? mob_deadline_after(request->timeout_ns) : INT64_MAX;
    enum mob_status status = open_connection(x);
    if (status == MOB_OK) {
        /* A server that refuses a large body answers early and closes: its answer is worth more than our
         * error. */
        enum mob_status sent = send_request(x);
        status = sent == MOB_OK || (sent == MOB_UNAVAILABLE && response->sent) ? read_answer(x) : sent;
    }
    if (x->fd >= 0)
        close(x->fd);
    free(x);
    return status;
}

void http_response_fini(struct http_response *response)
{
    if (!response)
        return;
    free(response->body);
    response->body = NULL;
}

bool http_encode(const char *text, char *out, size_t capacity)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
    size_t n = 0;
    for (; *text; text++) {
        bool keep = strchr(plain, *text) != NULL;
        if (n + (keep ? 1 : 3) >= capacity)
            return false;
        if (keep)
            out[n++] = *text;
        else
            n += (size_t)snprintf(out + n, 4, "%%%02X", (unsigned char)*text);
    }
    out[n] = '\0';
    return true;
}
