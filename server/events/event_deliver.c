#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/events/event_hub.h"

/* --- events to text --- */

static void write_json(struct mob_text *t, const struct mob_event *event)
{
    char stamp[40];
    time_t seconds = (time_t)(event->wall_us / 1000000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
    mob_text_printf(t, "\",\"time\":\"%s.%06dZ\",\"type\":", stamp, (int)(event->wall_us % 1000000));
    mob_text_json_cstring(t, event->type);
    mob_text_puts(t, ",\"subject\":");
    mob_text_json_cstring(t, event->subject ? event->subject : "");
    if (event->job && *event->job) {
        mob_text_puts(t, ",\"job\":");
        mob_text_json_cstring(t, event->job);
    }
    if (event->attempt != 0)
        mob_text_printf(t, ",\"attempt\":%u", event->attempt);
    if (event->incarnation != 0)
        mob_text_printf(t, ",\"incarnation\":%u,\"actor_position\":%llu", event->incarnation,
            (unsigned long long)event->actor_position);
    mob_text_puts(t, ",\"data\":");
    mob_event_data_write(t, event->data ? event->data : "{}");
    mob_text_putc(t, '}');
}

static char *append_text(char **at, const char *text)
{
    char *begin = *at;
    size_t n = text ? strlen(text) + 1 : 1;
    memcpy(begin, text ? text : "", n);
    *at += n;
    return begin;
}

struct kept *mob_event_keep(const struct mob_event *event)
{
    struct mob_text json = {0};
    write_json(&json, event);
    const char *texts[] = {
        event->type, event->subject, event->task, event->job, event->function, event->call, event->actor};
    size_t bytes = sizeof(struct kept) + json.length + 1;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        bytes += texts[i] ? strlen(texts[i]) + 1 : 1;
    struct kept *kept = json.failed ? NULL : malloc(bytes);
    if (kept) {
        char *at = (char *)(kept + 1);
        kept->bytes = bytes;
        kept->event = *event;
        kept->event.data = NULL;
        kept->event.type = append_text(&at, event->type);
        kept->event.subject = append_text(&at, event->subject);
        kept->event.task = append_text(&at, event->task);
        kept->event.job = append_text(&at, event->job);
        kept->event.function = append_text(&at, event->function);
        kept->event.call = append_text(&at, event->call);
        kept->event.actor = append_text(&at, event->actor);
        kept->json = at;
        memcpy(at, json.bytes, json.length);
        at[json.length] = 0;
    }
    mob_text_fini(&json);
    return kept;
}

/* --- giving events to watchers; all with the lock held --- */

/* Where a watcher is that has seen this event. */
static struct mob_event_position position_after(const struct watcher *w, const struct kept *kept)
{
    struct mob_event_position position = w->cursor;
    position.at[kept->event.shard] = kept->event.place;
    return position;
}

static void write_event(struct mob_text *t, const struct kept *kept, const char *position)
{
    mob_text_puts(t, "{\"position\":\"");
    mob_text_puts(t, position);
    mob_text_puts(t, kept->json);
}

static void write_frame(struct mob_text *t, const struct kept *kept, const struct mob_event_position *after)
{
    char position[MOB_EVENTS_POSITION_TEXT_MAX];
    mob_event_position_format(after, position);
    mob_text_puts(t, "id: ");
    mob_text_puts(t, position);
    mob_text_puts(t, "\nevent: ");
    for (const char *c = kept->event.type; *c; c++)
        if (*c != '\n' && *c != '\r')
            mob_text_putc(t, *c);
    mob_text_puts(t, "\ndata: ");
    write_event(t, kept, position);
    mob_text_puts(t, "\n\n");
}

/* False: the reader has left, the watcher is gone. */
bool mob_event_write_to_stream(struct watcher *w, struct mob_text *t)
{
    enum mob_status status =
        t->failed ? MOB_QUEUE_FULL : mob_http_stream_write(w->stream, t->bytes, t->length);
    mob_text_fini(t);
    if (status == MOB_CLOSED) {
        mob_event_unlink(w);
        return false;
    }
    w->lagging |= status != MOB_OK;
    return true;
}

static bool give_to_stream(struct watcher *w, const struct kept *kept)
{
    struct mob_text t = {0};
    struct mob_event_position after = position_after(w, kept);
    w->lagging = false;
    write_frame(&t, kept, &after);
    bool there = mob_event_write_to_stream(w, &t);
    if (there && !w->lagging)
        w->cursor = after;
    return there;
}

bool mob_event_give(struct watcher *w, const struct kept *kept)
{
    if (!w->placed || !mob_event_before(w->cursor.at[kept->event.shard], kept->event.place) ||
        !mob_event_matches(w->filter, &kept->event))
        return true;
    if (w->stream)
        return give_to_stream(w, kept);
    if (w->count == w->limit)
        return true;
    char position[MOB_EVENTS_POSITION_TEXT_MAX];
    w->cursor = position_after(w, kept);
    mob_event_position_format(&w->cursor, position);
    mob_text_puts(&w->found, w->count > 0 ? "," : "");
    write_event(&w->found, kept, position);
    if (w->count++ == 0 && w->behind == WATCHER_LIVE) {
        w->ready_next = w->hub->ready;
        w->hub->ready = w;
    }
    return true;
}

void mob_event_position_of(const struct watcher *w, struct mob_event_position *out)
{
    *out = w->cursor;
    if (w->behind != WATCHER_LIVE)
        return;
    for (uint32_t i = 0; i < out->shards; i++)
        if (mob_event_before(out->at[i], mob_event_end_of(w->hub->passed[i])))
            out->at[i] = mob_event_end_of(w->hub->passed[i]);
}

void mob_event_build_poll_reply(struct watcher *w, bool gap)
{
    struct mob_text t = {0};
    mob_text_puts(&t, "{\"events\":[");
    mob_text_put(&t, w->found.bytes ? w->found.bytes : "", w->found.length);
    mob_text_puts(&t, "],\"position\":");
    if (w->placed) {
        char position[MOB_EVENTS_POSITION_TEXT_MAX];
        /* Everything up to the end of the last block was looked at, unless the answer is full. */
        struct mob_event_position at = w->cursor;
        if (w->count < w->limit)
            mob_event_position_of(w, &at);
        mob_event_position_format(&at, position);
        mob_text_printf(&t, "\"%s\"", position);
    } else {
        mob_text_puts(&t, "null");
    }
    mob_text_puts(&t, gap ? ",\"gap\":true}\n" : "}\n");
    mob_http_reply_text(w->request, 200, "application/json", &t);
    mob_http_reply_header(w->request, "Cache-Control", "no-store");
}

void mob_event_answer_poll(struct watcher *w, bool gap)
{
    if (!mob_http_claim(w->request))
        return; /* its time-out or its end unlinks it */
    mob_event_build_poll_reply(w, gap);
    w->send(w->request);
    mob_event_unlink(w);
}

void mob_event_answer_if_due(struct watcher *w)
{
    bool has_all = w->at_once && w->placed && w->behind == WATCHER_LIVE;
    if (w->request && (w->count > 0 || has_all))
        mob_event_answer_poll(w, false);
}

bool mob_event_give_from_ring(struct watcher *w)
{
    for (size_t i = 0; i < w->hub->ring_count && !w->lagging; i++)
        if (!mob_event_give(w, w->hub->ring[(w->hub->ring_begin + i) % MOB_EVENTS_RING_MAX]))
            return false;
    return true;
}
