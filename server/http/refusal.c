#include "server/http/refusal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "server/http/http.h"

#define DRAIN_READS 64 /* of 4 KiB: enough patience behind a refusal */

static const struct {
    const char *reason;
    int http;
    enum mob_status status;
} kinds[] = {
    {"Request Timeout", 408, MOB_TIMEOUT}, {"Content Too Large", 413, MOB_TOO_LARGE},
    {"URI Too Long", 414, MOB_BAD_REQUEST}, {"Request Header Fields Too Large", 431, MOB_HEADERS_TOO_LARGE},
    {"Service Unavailable", 503, MOB_UNAVAILABLE}, {"HTTP Version Not Supported", 505, MOB_BAD_REQUEST},
    {"Bad Request", 400, MOB_BAD_REQUEST}, /* and all others */
};

static size_t kind_of(int http)
{
    size_t k = 0;
    while (kinds[k].http != 400 && kinds[k].http != http)
        k++;
    return k;
}

size_t mob_http_refusal_body(
    struct mob_http_refusal refusal, const char *request_id, char out[MOB_HTTP_REFUSAL_BYTES_MAX])
{
    size_t k = kind_of(refusal.status);
    const char *code = mob_status_code(kinds[k].status);
    int n = snprintf(out, MOB_HTTP_REFUSAL_BYTES_MAX,
        "{\"type\":\"urn:mobula:error:%s\",\"title\":\"%s\",\"status\":%d,\"code\":\"%s\",\"detail\":\"%."
        "200s\","
        "\"request_id\":\"%s\",\"retryable\":%s}\n",
        code, mob_status_text(kinds[k].status), kinds[k].http, code, refusal.why, request_id,
        mob_status_retryable(kinds[k].status) ? "true" : "false");
    MOB_ASSERT(n > 0 && n < MOB_HTTP_REFUSAL_BYTES_MAX);
    return (size_t)n;
}

void mob_http_refusal_send(int fd, struct mob_http_refusal refusal)
{
    char body[MOB_HTTP_REFUSAL_BYTES_MAX], all[2 * MOB_HTTP_REFUSAL_BYTES_MAX], id[MOB_HTTP_REQUEST_ID_MAX];
    mob_http_request_id(id);
    size_t k = kind_of(refusal.status), length = mob_http_refusal_body(refusal, id, body);
    int n = snprintf(all, sizeof all,
        "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n"
        "Request-Id: %s\r\n%sConnection: close\r\n\r\n%s",
        kinds[k].http, kinds[k].reason, length, id,
        mob_status_retryable(kinds[k].status) ? "Retry-After: 1\r\n" : "", body);
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
