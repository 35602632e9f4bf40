/* Inside a function: events, progress and spans. */
#include "sdk/c/call.h"

#include <stdio.h>

#include "common/wire/json_text.h"

#define EVENT_TYPE_MAX 255u
#define EVENT_JSON_MAX 65536u

static enum mob_status check(
    struct mob_client *client, const char *type, size_t type_bytes, const char *json, size_t json_bytes)
{
    struct json_slice whole = {json, json == NULL ? NULL : json + json_bytes}, value;
    if (type_bytes == 0 || type_bytes > EVENT_TYPE_MAX || !json_utf8_ok(type, type_bytes))
        return mob_client_fail(client, MOB_INVALID,
            "the type of an event, or the name of a span, has 1 to %u bytes of UTF-8", EVENT_TYPE_MAX);
    if (json_bytes > EVENT_JSON_MAX)
        return mob_client_fail(client, MOB_TOO_LARGE, "an event's JSON has up to %u bytes", EVENT_JSON_MAX);
    if (json != NULL && json_whole(whole, &value) == JSON_NONE)
        return mob_client_fail(
            client, MOB_INVALID, "what was given as an event's JSON is not JSON: \"%.60s\"", json);
    return MOB_OK;
}

static enum mob_status publish(
    struct mob_call *call, const char *type, const char *json, int64_t at_ns, int64_t span_ns)
{
    MOB_GIVEN(call->client, type);
    size_t type_bytes = strlen(type), json_bytes = json == NULL ? 0 : strlen(json);
    enum mob_status status = check(call->client, type, type_bytes, json, json_bytes);
    if (status != MOB_OK)
        return status;
    struct mob_out_event head = {.task = call->head.task,
        .at_ns = at_ns,
        .span_ns = span_ns,
        .type_bytes = (uint32_t)type_bytes,
        .json_bytes = (uint32_t)json_bytes,
        .attempt = call->head.attempt};
    if (call->head.kind == MOB_KIND_ACTOR_CALL) {
        head.position = call->in.position;
        head.incarnation = call->in.incarnation;
    }
    uint32_t bytes = (uint32_t)(sizeof head + type_bytes + json_bytes);
    void *body;
    status = mob_client_reserve(call->client, bytes, &body);
    if (status != MOB_OK)
        return status;
    struct mob_writer w = mob_writer_of(body, bytes);
    mob_write_bytes(&w, &head, sizeof head);
    mob_write_bytes(&w, type, type_bytes);
    mob_write_bytes(&w, json, json_bytes);
    mob_client_commit(call->client, MOB_OUT_EVENT, 0, bytes);
    return MOB_OK;
}

enum mob_status mob_event(struct mob_call *call, const char *type, const char *json)
{
    MOB_GIVEN(NULL, call);
    return publish(call, type, json == NULL ? "{}" : json, mob_now(), 0);
}

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* `text` as the inside of a JSON string, cut where `out` is full; bytes that are not UTF-8 are replaced. */
static void escape(const char *text, size_t bytes, char *out, size_t size)
{
    size_t n = 0;
    for (size_t at = 0; at < bytes && n + 7 < size;) {
        uint8_t c = (uint8_t)text[at];
        size_t sequence = json_utf8_sequence(text + at, bytes - at);
        if (c == '"' || c == '\\') {
            out[n++] = '\\';
            out[n++] = (char)c;
        } else if (c < 32) {
            n += (size_t)snprintf(out + n, size - n, "\\u%04x", c);
        } else {
            const char *from = sequence == 0 ? REPLACEMENT : text + at;
            size_t take = sequence == 0 ? sizeof REPLACEMENT - 1 : sequence;
            memcpy(out + n, from, take);
            n += take;
        }
        at += sequence == 0 ? 1 : sequence;
    }
    out[n] = 0;
}

enum mob_status mob_progress(struct mob_call *call, double fraction, const char *message)
{
    MOB_GIVEN(NULL, call);
    char text[512], json[640];
    if (!(fraction >= 0 && fraction <= 1)) /* nor NaN */
        return mob_client_fail(
            call->client, MOB_INVALID, "the fraction of a progress is %g, and may be 0 to 1", fraction);
    escape(message == NULL ? "" : message, message == NULL ? 0 : strlen(message), text, sizeof text);
    snprintf(json, sizeof json, "{\"fraction\":%.6g,\"message\":\"%s\"}", fraction, text);
    return publish(call, "progress", json, mob_now(), 0);
}

void mob_call_log_event(struct mob_call *call, const char *text, uint32_t bytes)
{
    char escaped[7 * 1024], json[8 * 1024];
    size_t seen = strnlen(text, bytes < 1024 ? bytes : 1024);
    escape(text, seen, escaped, sizeof escaped);
    snprintf(json, sizeof json, "{\"text\":\"%s\"}", escaped);
    enum mob_status status = publish(call, "log", json, mob_now(), 0);
    (void)status; /* the log file has it */
}

int64_t mob_span_begin(struct mob_call *call)
{
    (void)call;
    return mob_now();
}

enum mob_status mob_span_end(struct mob_call *call, int64_t begin, const char *name)
{
    MOB_GIVEN(NULL, call);
    MOB_GIVEN(call->client, name);
    int64_t span = mob_now() - begin;
    if (begin <= 0 || span < 0)
        return mob_client_fail(call->client, MOB_INVALID, "the begin of a span is what mob_span_begin gave");
    return publish(call, name, NULL, begin, span > 0 ? span : 1);
}
