#include "server/http/http.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "server/http/park.h"
#include "server/http/stream.h"
#include "server/http/text.h"

struct mob_http_request *mob_http_request_create(const char *target, size_t length)
{
    if (length > MOB_HTTP_TARGET_BYTES_MAX)
        return NULL;
    struct mob_http_request *request = calloc(1, sizeof *request + length + 1);
    if (!request)
        return NULL;
    request->target = (char *)(request + 1);
    memcpy(request->target, target, length);
    request->path = request->target;
    request->query = request->target + length;
    char *question = memchr(request->target, '?', length);
    if (question) {
        *question = 0;
        request->query = question + 1;
    }
    request->body_limit = SIZE_MAX;
    request->fd = -1;
    request->started_ns = mob_now();
    atomic_init(&request->references, 1);
    return request;
}

void mob_http_hold(struct mob_http_request *request)
{
    atomic_fetch_add_explicit(&request->references, 1, memory_order_relaxed);
}

void mob_http_release(struct mob_http_request *request)
{
    if (!request || atomic_fetch_sub_explicit(&request->references, 1, memory_order_acq_rel) != 1)
        return;
    mob_http_reply_reset(request);
    if (request->state_free)
        request->state_free(request->state);
    free(request->segment_memory);
    free(request->body);
    free(request);
}

static uint32_t request_prefix;

static void choose_request_prefix(void)
{
    struct mob_task_id random = mob_root_id_random();
    memcpy(&request_prefix, &random, sizeof request_prefix);
}

void mob_http_request_id(char out[MOB_HTTP_REQUEST_ID_MAX])
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Atomic uint64_t next;
    static const char digits[] = "0123456789abcdef";
    pthread_once(&once, choose_request_prefix);
    uint64_t n = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
    memcpy(out, "req-", 4);
    for (int i = 0; i < 8; i++)
        out[4 + i] = digits[request_prefix >> (4 * i) & 15];
    for (int i = 0; i < 12; i++)
        out[12 + i] = digits[n >> (4 * (11 - i)) & 15];
    out[24] = 0;
}

static const char *const method_names[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "OTHER"};

enum mob_http_method mob_http_method_of(const char *text)
{
    for (int i = 0; i < MOB_HTTP_OTHER; i++)
        if (strcmp(text, method_names[i]) == 0)
            return (enum mob_http_method)i;
    return MOB_HTTP_OTHER;
}

const char *mob_http_method_name(enum mob_http_method method)
{
    return method_names[method];
}

const char *mob_http_header(const struct mob_http_request *request, const char *name)
{
    for (unsigned i = 0; i < request->header_count; i++)
        if (strcasecmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    return NULL;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

enum mob_status mob_http_decode(const char *text, size_t length, bool plus_is_space, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < length ? hex_digit(text[i + 1]) : -1;
            int low = i + 2 < length ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return MOB_INVALID;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if ((unsigned char)c < 0x20 || c == 0x7f)
            return MOB_INVALID;
        out[n++] = c;
    }
    out[n] = 0;
    return MOB_OK;
}

enum mob_status mob_http_query(
    const struct mob_http_request *request, const char *name, char *out, size_t capacity)
{
    size_t name_length = strlen(name);
    for (const char *at = request->query; *at;) {
        size_t length = strcspn(at, "&");
        if (length >= name_length && memcmp(at, name, name_length) == 0 &&
            (length == name_length || at[name_length] == '=')) {
            const char *value = length == name_length ? at + length : at + name_length + 1;
            size_t value_length = (size_t)(at + length - value);
            if (value_length >= capacity)
                return MOB_INVALID;
            return mob_http_decode(value, value_length, true, out);
        }
        at += length;
        at += *at == '&';
    }
    return MOB_NOT_FOUND;
}

bool mob_http_media_is(const char *media, const char *type)
{
    if (!media)
        return false;
    size_t length = strcspn(media, "; \t");
    return length == strlen(type) && strncasecmp(media, type, length) == 0;
}

/* --- answering --- */

bool mob_http_claim(struct mob_http_request *request)
{
    int parked = MOB_HTTP_PARKED;
    return atomic_compare_exchange_strong(&request->status, &parked, MOB_HTTP_CLAIMED);
}

bool mob_http_is_gone(const struct mob_http_request *request)
{
    return atomic_load(&request->status) == MOB_HTTP_GONE;
}

void mob_http_reply_header(struct mob_http_request *request, const char *name, const char *value)
{
    struct mob_http_reply *reply = &request->reply;
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return;
    size_t name_size = strlen(name) + 1, value_size = strlen(value) + 1;
    size_t need = reply->headers_length + name_size + value_size;
    if (need > MOB_HTTP_REPLY_HEADERS_BYTES_MAX)
        return;
    if (need > reply->headers_capacity) {
        size_t capacity = need < 256 ? 256 : need * 2;
        char *grown = realloc(reply->headers, capacity);
        if (!grown)
            return;
        reply->headers = grown;
        reply->headers_capacity = capacity;
    }
    memcpy(reply->headers + reply->headers_length, name, name_size);
    memcpy(reply->headers + reply->headers_length + name_size, value, value_size);
    reply->headers_length = need;
}

void mob_http_reply_headerf(struct mob_http_request *request, const char *name, const char *format, ...)
{
    char value[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    if (n >= 0 && (size_t)n < sizeof value)
        mob_http_reply_header(request, name, value);
}

void mob_http_reply_borrow(struct mob_http_request *request, int status, const char *type, const void *body,
    size_t length, void (*body_free)(void *cls), void *cls)
{
    struct mob_http_reply *reply = &request->reply;
    MOB_ASSERT(reply->body_free == NULL);
    reply->status = status;
    reply->body = body;
    reply->body_length = length;
    reply->body_free = body_free;
    reply->body_cls = cls;
    if (type)
        mob_http_reply_header(request, "Content-Type", type);
}

void mob_http_reply_take(
    struct mob_http_request *request, int status, const char *type, char *body, size_t length)
{
    if (!body) {
        mob_http_reply_borrow(request, 503, NULL, "", 0, NULL, NULL);
        return;
    }
    mob_http_reply_borrow(request, status, type, body, length, free, body);
}

void mob_http_reply_text(
    struct mob_http_request *request, int status, const char *type, struct mob_text *text)
{
    size_t length = 0;
    char *body = mob_text_take(text, &length);
    mob_http_reply_take(request, status, type, body, length);
}

void mob_http_reply(
    struct mob_http_request *request, int status, const char *type, const void *body, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy && length > 0)
        memcpy(copy, body, length);
    mob_http_reply_take(request, status, type, copy, length);
}

void mob_http_reply_reset(struct mob_http_request *request)
{
    struct mob_http_reply *reply = &request->reply;
    if (reply->body_free)
        reply->body_free(reply->body_cls);
    if (reply->stream)
        mob_http_stream_release(reply->stream);
    free(reply->headers);
    *reply = (struct mob_http_reply){0};
}

void mob_http_send(struct mob_http_request *request)
{
    MOB_ASSERT(request->reply.status != 0);
    int before = atomic_exchange(&request->status, MOB_HTTP_ANSWERED);
    MOB_ASSERT(before == MOB_HTTP_CLAIMED || before == MOB_HTTP_HANDLING || before == MOB_HTTP_READING);
    if (before == MOB_HTTP_CLAIMED)
        request->front->resume(request);
}

void mob_http_park(struct mob_http_request *request, int64_t deadline_ns,
    void (*on_timeout)(struct mob_http_request *request))
{
    MOB_ASSERT(atomic_load(&request->status) == MOB_HTTP_HANDLING);
    request->park_deadline_ns = deadline_ns;
    request->on_timeout = on_timeout;
    mob_http_hold(request);
    if (!mob_park_enter(request->park_list)) {
        mob_park_answer_closing(request);
        return;
    }
    /* Suspended first: once the status says PARKED, anyone may resume. */
    request->front->suspend(request);
    atomic_store(&request->status, MOB_HTTP_PARKED);
    mob_park_insert(request);
}
