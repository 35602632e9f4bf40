/* Inside a function: events, progress and spans. */
#include "sdk/c/call.h"

#include <stdio.h>

#define EVENT_TYPE_MAX 255u
#define EVENT_JSON_MAX 65536u

static enum mob_status publish(
    struct mob_call *call, const char *type, const char *json, int64_t at_ns, int64_t span_ns)
{
    size_t type_bytes = strlen(type), json_bytes = json == NULL ? 0 : strlen(json);
    if (type_bytes == 0 || type_bytes > EVENT_TYPE_MAX || json_bytes > EVENT_JSON_MAX)
        return mob_client_fail(call->client, MOB_TOO_LARGE,
            "an event has a type of 1 to %u bytes and JSON up to %u", EVENT_TYPE_MAX, EVENT_JSON_MAX);
    struct mob_out_event head = {.task = call->head.task,
        .at_ns = at_ns,
        .span_ns = span_ns,
        .type_bytes = (uint32_t)type_bytes,
        .json_bytes = (uint32_t)json_bytes};
    uint32_t bytes = (uint32_t)(sizeof head + type_bytes + json_bytes);
    void *body;
    enum mob_status status = mob_client_reserve(call->client, bytes, &body);
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
    return publish(call, type, json == NULL ? "{}" : json, mob_now(), 0);
}

/* `text` as the inside of a JSON string. */
static void escape(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; *text != 0 && n + 7 < size; text++) {
        uint8_t c = (uint8_t)*text;
        if (c == '"' || c == '\\') {
            out[n++] = '\\';
            out[n++] = (char)c;
        } else if (c < 32) {
            n += (size_t)snprintf(out + n, size - n, "\\u%04x", c);
        } else {
            out[n++] = (char)c;
        }
    }
    out[n] = 0;
}

enum mob_status mob_progress(struct mob_call *call, double fraction, const char *message)
{
    char text[512], json[640];
    escape(message == NULL ? "" : message, text, sizeof text);
    snprintf(json, sizeof json, "{\"fraction\":%.6g,\"message\":\"%s\"}", fraction, text);
    return publish(call, "progress", json, mob_now(), 0);
}

void mob_call_log_event(struct mob_call *call, const char *text, uint32_t bytes)
{
    char copy[1025], escaped[7 * 1024], json[8 * 1024];
    memcpy(copy, text, bytes < 1024 ? bytes : 1024);
    copy[bytes < 1024 ? bytes : 1024] = 0;
    escape(copy, escaped, sizeof escaped);
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
    int64_t span = mob_now() - begin;
    return publish(call, name, NULL, begin, span > 0 ? span : 1);
}
