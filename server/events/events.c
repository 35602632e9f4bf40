#include "server/events/event_hub.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "server/http/stream.h"
#include "server/http/text.h"

static unsigned bucket_of(const char *key)
{
    return *key ? (unsigned)(mob_hash64(key, strlen(key)) % (MOB_EVENTS_BUCKETS - 1)) + 1 : 0;
}

/* --- life --- */

enum mob_status mob_events_create(const struct mob_events_source *source, struct mob_events **hub_out)
{
    struct mob_events *hub = calloc(1, sizeof *hub);
    if (!hub)
        return MOB_NO_MEMORY;
    hub->ring = calloc(MOB_EVENTS_RING_MAX, sizeof(struct kept *));
    if (!hub->ring) {
        free(hub);
        return MOB_NO_MEMORY;
    }
    MOB_ASSERT(source->shards > 0 && source->shards <= MOB_EVENTS_SHARDS_MAX);
    hub->source = *source;
    pthread_mutex_init(&hub->lock, NULL);
    *hub_out = hub;
    return MOB_OK;
}

static void drop_oldest(struct mob_events *hub)
{
    struct kept *kept = hub->ring[hub->ring_begin];
    struct mob_event_place *from = &hub->ring_from[kept->event.shard];
    if (mob_event_before(*from, kept->event.place))
        *from = kept->event.place;
    hub->ring_bytes -= kept->bytes;
    hub->ring_begin = (hub->ring_begin + 1) % MOB_EVENTS_RING_MAX;
    hub->ring_count--;
    free(kept);
}

void mob_event_leave_ready(struct watcher *w)
{
    for (struct watcher **at = &w->hub->ready; *at && w->count > 0; at = &(*at)->ready_next)
        if (*at == w) {
            *at = w->ready_next;
            break;
        }
}

void mob_event_unlink(struct watcher *w)
{
    struct mob_events *hub = w->hub;
    *(w->prev ? &w->prev->next : &hub->buckets[w->bucket]) = w->next;
    if (w->next)
        w->next->prev = w->prev;
    if (w->behind != WATCHER_LIVE)
        mob_event_behind_unlink(w);
    else
        mob_event_leave_ready(w);
    if (--hub->watchers == 0)
        hub->idle_since_ns = mob_now();
    mob_text_fini(&w->found);
    mob_http_stream_release(w->stream);
    mob_http_release(w->request);
    free(w);
}

void mob_events_close(struct mob_events *hub)
{
    pthread_mutex_lock(&hub->lock);
    hub->closed = true;
    for (unsigned b = 0; b < MOB_EVENTS_BUCKETS; b++) {
        for (struct watcher *w = hub->buckets[b], *next; w; w = next) {
            next = w->next;
            if (!w->stream)
                continue; /* the park thread answers it */
            mob_http_stream_end(w->stream);
            mob_event_unlink(w);
        }
    }
    pthread_mutex_unlock(&hub->lock);
}

void mob_events_destroy(struct mob_events *hub)
{
    if (!hub)
        return;
    for (unsigned b = 0; b < MOB_EVENTS_BUCKETS; b++)
        for (struct watcher *w = hub->buckets[b], *next; w; w = next) {
            next = w->next;
            mob_event_unlink(w);
        }
    while (hub->ring_count > 0)
        drop_oldest(hub);
    free(hub->ring);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

/* --- the source --- */

uint32_t mob_events_shards(const struct mob_events *hub)
{
    return hub->source.shards;
}

static void place_at_newest(const struct mob_events *hub, struct watcher *w)
{
    for (uint32_t i = 0; i < hub->source.shards; i++)
        w->cursor.at[i] = mob_event_end_of(hub->passed[i]);
    w->placed = true;
}

void mob_events_started(struct mob_events *hub, const uint64_t *seqs)
{
    pthread_mutex_lock(&hub->lock);
    while (hub->ring_count > 0)
        drop_oldest(hub);
    for (uint32_t i = 0; i < hub->source.shards; i++) {
        hub->ring_from[i] = mob_event_end_of(seqs[i]);
        hub->passed[i] = seqs[i];
    }
    hub->started = true;
    for (unsigned b = 0; b < MOB_EVENTS_BUCKETS; b++)
        for (struct watcher *w = hub->buckets[b], *next; w; w = next) {
            next = w->next;
            bool waits = w->request != NULL; /* a stream may leave while it is given something */
            if (!w->placed)
                place_at_newest(hub, w);
            else if (w->behind == WATCHER_LIVE)
                mob_event_join(w);
            if (waits)
                mob_event_answer_if_due(w);
        }
    pthread_mutex_unlock(&hub->lock);
}

static void give_bucket(struct mob_events *hub, const char *kind, const char *id, const struct kept *kept)
{
    char key[96];
    if (kind && (!id || !*id))
        return;
    if (snprintf(key, sizeof key, "%s%s%s", kind ? kind : "", kind ? ":" : "", kind ? id : "") >=
        (int)sizeof key)
        return;
    for (struct watcher *w = hub->buckets[bucket_of(key)], *next; w; w = next) {
        next = w->next;
        bool live = w->behind == WATCHER_LIVE && strcmp(w->filter->key, key) == 0;
        if (live && mob_event_give(w, kept) && w->lagging)
            mob_event_lag(w);
    }
}

void mob_events_publish(struct mob_events *hub, const struct mob_event *event)
{
    struct kept *kept = mob_event_keep(event);
    if (!kept)
        return;
    pthread_mutex_lock(&hub->lock);
    if (!event->per_task)
        give_bucket(hub, NULL, NULL, kept);
    give_bucket(hub, "task", event->task, kept);
    give_bucket(hub, "job", event->job, kept);
    give_bucket(hub, "function", event->function, kept);
    give_bucket(hub, "function", event->call, kept);
    give_bucket(hub, "actor", event->actor, kept);
    while (hub->ring_count == MOB_EVENTS_RING_MAX ||
        (hub->ring_count > 0 && hub->ring_bytes + kept->bytes > MOB_EVENTS_RING_BYTES_MAX))
        drop_oldest(hub);
    hub->ring[(hub->ring_begin + hub->ring_count++) % MOB_EVENTS_RING_MAX] = kept;
    hub->ring_bytes += kept->bytes;
    pthread_mutex_unlock(&hub->lock);
}

void mob_events_pass(struct mob_events *hub, uint32_t shard, uint64_t seq)
{
    pthread_mutex_lock(&hub->lock);
    hub->passed[shard] = seq;
    for (struct watcher *w = hub->ready, *next; w; w = next) {
        next = w->ready_next;
        mob_event_answer_poll(w, false);
    }
    pthread_mutex_unlock(&hub->lock);
}

bool mob_event_tell_gap(struct watcher *w, uint32_t shard, uint64_t from_seq)
{
    struct mob_text t = {0};
    char from[MOB_EVENTS_POSITION_TEXT_MAX], to[MOB_EVENTS_POSITION_TEXT_MAX];
    struct mob_event_position before = w->cursor;
    before.at[shard] = mob_event_end_of(from_seq);
    mob_event_position_format(&before, from);
    mob_event_position_format(&w->cursor, to);
    mob_text_printf(&t, "event: gap\ndata: {\"from\":\"%s\",\"to\":\"%s\"}\n\n", from, to);
    return mob_event_write_to_stream(w, &t);
}

void mob_events_missed(struct mob_events *hub, uint32_t shard, uint64_t to_seq)
{
    struct mob_event_place from = mob_event_end_of(to_seq - 1);
    pthread_mutex_lock(&hub->lock);
    for (unsigned b = 0; b < MOB_EVENTS_BUCKETS; b++)
        for (struct watcher *w = hub->buckets[b], *next; w; w = next) {
            next = w->next;
            if (w->placed && w->behind == WATCHER_LIVE)
                mob_event_fall_behind(w, shard, from);
        }
    hub->passed[shard] = to_seq - 1;
    if (mob_event_before(hub->ring_from[shard], from))
        hub->ring_from[shard] = from;
    pthread_mutex_unlock(&hub->lock);
}

static void heartbeat(struct mob_events *hub)
{
    for (unsigned b = 0; b < MOB_EVENTS_BUCKETS; b++) {
        for (struct watcher *w = hub->buckets[b], *next; w; w = next) {
            next = w->next;
            if (!w->stream)
                continue;
            struct mob_text t = {0};
            char position[MOB_EVENTS_POSITION_TEXT_MAX];
            struct mob_event_position at = w->cursor;
            mob_event_position_of(w, &at);
            mob_event_position_format(&at, position);
            if (w->placed)
                mob_text_printf(
                    &t, "id: %s\nevent: bookmark\ndata: {\"position\":\"%s\"}\n\n", position, position);
            else
                mob_text_puts(&t, ": waiting\n\n");
            if (mob_event_write_to_stream(w, &t))
                w->lagging = false; /* no event was left out */
        }
    }
}

void mob_events_tick(struct mob_events *hub, int64_t now_ns)
{
    pthread_mutex_lock(&hub->lock);
    if (now_ns - hub->last_heartbeat_ns > MOB_EVENTS_HEARTBEAT_S * MOB_SEC) {
        hub->last_heartbeat_ns = now_ns;
        heartbeat(hub);
    }
    if (hub->wanted && hub->watchers == 0 && now_ns - hub->idle_since_ns > MOB_EVENTS_GRACE_S * MOB_SEC) {
        hub->wanted = hub->started = false;
        while (hub->ring_count > 0)
            drop_oldest(hub);
        hub->source.stop(hub->source.cls);
    }
    pthread_mutex_unlock(&hub->lock);
}

/* --- routes --- */

/* Lock held. Links a new watcher and places it; what the ring has for it is given at once. NULL:
 * MOB_QUEUE_FULL. */
static struct watcher *add_watcher(
    struct mob_events *hub, const struct mob_event_filter *filter, const struct mob_event_position *after)
{
    if (hub->closed || hub->watchers == MOB_EVENTS_WATCHERS_MAX)
        return NULL;
    size_t filter_bytes =
        offsetof(struct mob_event_filter, topics) + filter->topic_count * sizeof filter->topics[0];
    struct watcher *w = calloc(1, sizeof *w + filter_bytes);
    if (!w)
        return NULL;
    w->hub = hub;
    w->filter = (struct mob_event_filter *)(w + 1);
    memcpy(w->filter, filter, filter_bytes);
    w->bucket = bucket_of(filter->key);
    w->next = hub->buckets[w->bucket];
    if (w->next)
        w->next->prev = w;
    hub->buckets[w->bucket] = w;
    hub->watchers++;
    w->cursor.shards = hub->source.shards;
    if (after) {
        w->cursor = *after;
        w->placed = true;
    } else if (hub->started) {
        place_at_newest(hub, w);
    }
    return w;
}

/* Lock held. Sees to it that the source delivers; gives what is there. */
static void connect_watcher(struct mob_events *hub, struct watcher *w)
{
    if (!hub->wanted) {
        hub->wanted = true;
        hub->source.want(hub->source.cls);
    } else if (hub->started) {
        mob_event_join(w);
    }
}

static void poll_timed_out(struct mob_http_request *request)
{
    struct watcher *w = request->state;
    struct mob_events *hub = w->hub;
    pthread_mutex_lock(&hub->lock);
    mob_event_build_poll_reply(w, false);
    w->send(request);
    mob_event_unlink(w);
    pthread_mutex_unlock(&hub->lock);
}

static void poll_gone(struct mob_http_request *request)
{
    struct watcher *w = request->state;
    struct mob_events *hub = w->hub;
    pthread_mutex_lock(&hub->lock);
    mob_event_unlink(w);
    pthread_mutex_unlock(&hub->lock);
}

enum mob_status mob_events_poll(struct mob_events *hub, struct mob_http_request *request,
    const struct mob_event_filter *filter, const struct mob_event_position *after, unsigned limit,
    int64_t deadline_ns, void (*send)(struct mob_http_request *request))
{
    pthread_mutex_lock(&hub->lock);
    struct watcher *w = add_watcher(hub, filter, after);
    if (!w) {
        pthread_mutex_unlock(&hub->lock);
        return MOB_QUEUE_FULL;
    }
    w->request = request;
    w->send = send;
    w->limit = limit;
    w->at_once = deadline_ns == 0;
    request->state = w;
    request->on_gone = poll_gone;
    if (w->at_once)
        deadline_ns = mob_deadline_after(MOB_EVENTS_SOURCE_S * MOB_SEC);
    mob_http_park(request, deadline_ns, poll_timed_out); /* its reference is the watcher's */
    connect_watcher(hub, w);
    if (hub->started || w->count > 0)
        mob_event_answer_if_due(w);
    pthread_mutex_unlock(&hub->lock);
    return MOB_OK;
}

enum mob_status mob_events_stream(struct mob_events *hub, struct mob_http_request *request,
    const struct mob_event_filter *filter, const struct mob_event_position *after,
    void (*send)(struct mob_http_request *request))
{
    struct mob_http_stream *stream = mob_http_stream_create(request, 200, "text/event-stream");
    if (!stream)
        return MOB_NO_MEMORY;
    pthread_mutex_lock(&hub->lock);
    struct watcher *w = add_watcher(hub, filter, after);
    if (w) {
        w->stream = stream;
        mob_http_reply_header(request, "Cache-Control", "no-store");
        enum mob_status first = mob_http_stream_write(stream, ": mobula events\n\n", 17);
        (void)first; /* a comment only; one that has left is noticed with the next */
        connect_watcher(hub, w);
    } else {
        mob_http_stream_release(stream);
        mob_http_reply_reset(request);
    }
    pthread_mutex_unlock(&hub->lock);
    if (!w)
        return MOB_QUEUE_FULL;
    send(request);
    return MOB_OK;
}
