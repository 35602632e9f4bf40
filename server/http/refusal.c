#include "server/http/refusal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define DRAIN_READS 64 /* of 4 KiB: enough patience behind a refusal */

static const struct {
    int status;
    const char *reason, *code;
} kinds[] = {
    {408, "Request Timeout", "timeout"}, {413, "Content Too Large", "too-large"},
    {414, "URI Too Long", "bad-request"}, {431, "Request Header Fields Too Large", "headers-too-large"},
    {503, "Service Unavailable", "unavailable"}, {505, "HTTP Version Not Supported", "bad-request"},
    {400, "Bad Request", "bad-request"}, /* and all others */
};

static size_t kind_of(int status)
{
    size_t k = 0;
    while (kinds[k].status != 400 && kinds[k].status != status)
        k++;
    return k;
}

size_t mob_http_refusal_body(struct mob_http_refusal refusal, char out[MOB_HTTP_REFUSAL_BYTES_MAX])
{
    size_t k = kind_of(refusal.status);
    int n = snprintf(out, MOB_HTTP_REFUSAL_BYTES_MAX,
        "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"code\":\"%s\",\"detail\":\"%.200s\","
        "\"retryable\":%s}\n",
        kinds[k].reason, kinds[k].status, kinds[k].code, refusal.why,
        refusal.status == 503 ? "true" : "false");
    return (size_t)n;
}

void mob_http_refusal_send(int fd, struct mob_http_refusal refusal)
{
    char body[MOB_HTTP_REFUSAL_BYTES_MAX], all[2 * MOB_HTTP_REFUSAL_BYTES_MAX];
    size_t k = kind_of(refusal.status), length = mob_http_refusal_body(refusal, body);
    int n = snprintf(all, sizeof all,
        "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n%s"
        "Connection: close\r\n\r\n%s",
        kinds[k].status, kinds[k].reason, length, refusal.status == 503 ? "Retry-After: 1\r\n" : "", body);
    ssize_t sent = send(fd, all, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
    shutdown(fd, SHUT_WR);
}

bool mob_http_drain(int fd)
{
    char sink[4096];
    for (int i = 0; i < DRAIN_READS; i++) {
        ssize_t n = recv(fd, sink, sizeof sink, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return true;
        if (n < 0 && errno == EAGAIN)
            return false;
    }
    return true;
}
