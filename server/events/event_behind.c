/* Readers whose place is older than the ring: they wait for a slot, are given the past in it, and go on with
 * the ring when they have come there. All but the functions of the source with the lock held.
 */
#include "server/events/event_hub.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"

/* Until its reader has taken some of what a full stream holds, or the store can be asked again. */
#define PAUSE_NS (50 * MOB_MS)

static void enqueue(struct watcher *w, int64_t not_before_ns)
{
    struct mob_events *hub = w->hub;
    w->behind = WATCHER_QUEUED;
    w->not_before_ns = not_before_ns;
    w->ready_next = NULL;
    if (hub->queue_end)
        hub->queue_end->ready_next = w;
    else
        hub->queue = w;
    hub->queue_end = w;
}

static void dequeue(struct watcher *w)
{
    struct mob_events *hub = w->hub;
    struct watcher *before = NULL;
    for (struct watcher *at = hub->queue; at != w; at = at->ready_next)
        before = at;
    *(before ? &before->ready_next : &hub->queue) = w->ready_next;
    if (hub->queue_end == w)
        hub->queue_end = before;
    w->ready_next = NULL;
}

static void leave_slot(struct watcher *w)
{
    w->hub->behind[w->slot] = NULL;
    w->behind = WATCHER_LIVE;
}

void mob_event_behind_unlink(struct watcher *w)
{
    if (w->behind == WATCHER_QUEUED)
        dequeue(w);
    else
        leave_slot(w);
}

static bool mob_event_behind_ring(const struct watcher *w)
{
    const struct mob_events *hub = w->hub;
    for (uint32_t i = 0; i < hub->source.shards; i++)
        if (mob_event_before(w->cursor.at[i], hub->ring_from[i]))
            return true;
    return false;
}

/* Another gateway was faster, or what it has seen was lost: whoever reads the log can tell. */
static bool is_ahead(const struct watcher *w)
{
    for (uint32_t i = 0; i < w->hub->source.shards; i++)
        if (w->cursor.at[i].seq > w->hub->passed[i])
            return true;
    return false;
}

void mob_event_lag(struct watcher *w)
{
    w->lagging = false;
    enqueue(w, mob_now() + PAUSE_NS);
    w->hub->source.behind(w->hub->source.cls);
}

/* What the ring has. A stream that is full takes the rest later. False: the watcher is gone. */
static bool give_ring(struct watcher *w)
{
    if (!mob_event_give_from_ring(w))
        return false;
    if (w->lagging)
        mob_event_lag(w);
    return true;
}

void mob_event_join(struct watcher *w)
{
    struct mob_events *hub = w->hub;
    if (!mob_event_behind_ring(w) && !is_ahead(w)) {
        give_ring(w);
        return;
    }
    enqueue(w, 0);
    hub->source.behind(hub->source.cls);
}

/* What the hub has passed it has seen, but for what did not fit. One that is ahead (the log was lost from
 * somewhere on) is told by whoever reads the log. */
void mob_event_fall_behind(struct watcher *w, uint32_t shard, struct mob_event_place from)
{
    bool all_seen = !w->lagging && (w->stream || w->count < w->limit);
    if (all_seen) {
        struct mob_event_position seen;
        mob_event_position_of(w, &seen);
        w->cursor = seen;
    }
    struct mob_event_place at = w->cursor.at[shard];
    if (!mob_event_before(at, from) && !mob_event_before(from, at))
        return;
    mob_event_leave_ready(w);
    w->lagging = false; /* it is given again what it lacks */
    enqueue(w, 0);
    w->hub->source.behind(w->hub->source.cls);
    if (w->request && w->count > 0)
        mob_event_answer_poll(w, false);
}

/* --- the source --- */

/* Takes the first whose time has come from the queue; *wake_ns_out: when the next one's will have. */
static struct watcher *take_first(struct mob_events *hub, int64_t now_ns, int64_t *wake_ns_out)
{
    struct watcher *w = hub->queue;
    *wake_ns_out = INT64_MAX;
    for (; w && w->not_before_ns > now_ns; w = w->ready_next)
        *wake_ns_out = w->not_before_ns < *wake_ns_out ? w->not_before_ns : *wake_ns_out;
    if (w) {
        dequeue(w);
        w->behind = WATCHER_LIVE;
    }
    return w;
}

bool mob_events_behind_take(struct mob_events *hub, unsigned slot, int64_t now_ns,
    struct mob_events_behind *out, int64_t *wake_ns_out)
{
    pthread_mutex_lock(&hub->lock);
    MOB_ASSERT(hub->behind[slot] == NULL);
    struct watcher *w = take_first(hub, now_ns, wake_ns_out);
    while (w && hub->started && !mob_event_behind_ring(w) && !is_ahead(w)) { /* it waited for room only */
        if (give_ring(w))
            mob_event_answer_if_due(w);
        w = take_first(hub, now_ns, wake_ns_out);
    }
    if (w) {
        w->behind = WATCHER_READS;
        w->slot = slot;
        hub->behind[slot] = w;
        out->at = w->cursor;
        memcpy(out->key, w->filter->key, sizeof out->key);
    }
    pthread_mutex_unlock(&hub->lock);
    return w != NULL;
}

/* Answers what is a poll and has something. False: it is not here any more. */
static bool answer_poll(struct mob_events *hub, unsigned slot, bool gap)
{
    struct watcher *w = hub->behind[slot];
    if (w && w->request && (gap || w->count > 0))
        mob_event_answer_poll(w, gap);
    /* One that is about to be answered elsewhere is unlinked there. */
    return w && hub->behind[slot] == w;
}

static bool give(struct mob_events *hub, unsigned slot, const struct mob_event *event)
{
    struct watcher *w = hub->behind[slot];
    if (!w)
        return false;
    if (!mob_event_before(w->cursor.at[event->shard], event->place) || !mob_event_matches(w->filter, event))
        return true;
    struct kept *kept = mob_event_keep(event);
    if (!kept)
        return true;
    bool there = mob_event_give(w, kept);
    free(kept);
    if (!there)
        return false;
    if (w->request)
        return w->count < w->limit || answer_poll(hub, slot, false);
    if (!w->lagging)
        return true;
    w->lagging = false; /* it is given again */
    leave_slot(w);
    enqueue(w, mob_now() + PAUSE_NS);
    return false;
}

bool mob_events_behind_give(struct mob_events *hub, unsigned slot, const struct mob_event *event)
{
    pthread_mutex_lock(&hub->lock);
    bool there = give(hub, slot, event);
    pthread_mutex_unlock(&hub->lock);
    return there;
}

bool mob_events_behind_pass(struct mob_events *hub, unsigned slot, uint32_t shard, uint64_t seq)
{
    pthread_mutex_lock(&hub->lock);
    struct watcher *w = hub->behind[slot];
    /* A full answer that is on its way already ends where it is full. */
    bool full = w && w->request && w->count == w->limit;
    if (w && !full && mob_event_before(w->cursor.at[shard], mob_event_end_of(seq)))
        w->cursor.at[shard] = mob_event_end_of(seq);
    pthread_mutex_unlock(&hub->lock);
    return w != NULL;
}

/* Again later, when it does not fit. */
static void tell_gap(struct watcher *w, uint32_t shard, struct mob_event_place before)
{
    w->lagging = false;
    if (!mob_event_tell_gap(w, shard, before.seq) || !w->lagging)
        return;
    w->cursor.at[shard] = before;
    leave_slot(w);
    mob_event_lag(w);
}

bool mob_events_behind_gap(struct mob_events *hub, unsigned slot, uint32_t shard, uint64_t to_seq)
{
    pthread_mutex_lock(&hub->lock);
    struct watcher *w = hub->behind[slot];
    bool there = w != NULL;
    if (w) {
        struct mob_event_place before = w->cursor.at[shard];
        w->cursor.at[shard] = mob_event_end_of(to_seq > 0 ? to_seq - 1 : 0);
        if (w->stream)
            tell_gap(w, shard, before);
        else if (answer_poll(hub, slot, true)) /* it is being answered without: the next one is told */
            w->cursor.at[shard] = before;
        there = hub->behind[slot] == w;
    }
    pthread_mutex_unlock(&hub->lock);
    return there;
}

bool mob_events_behind_turn(struct mob_events *hub, unsigned slot, int64_t now_ns)
{
    pthread_mutex_lock(&hub->lock);
    bool there = answer_poll(hub, slot, false);
    struct watcher *w = hub->behind[slot];
    if (there && hub->started && !mob_event_behind_ring(w)) {
        leave_slot(w);
        if (give_ring(w))
            mob_event_answer_if_due(w);
        there = false;
    } else if (there && hub->queue && hub->queue->not_before_ns <= now_ns) { /* others wait */
        leave_slot(w);
        enqueue(w, 0);
        there = false;
    }
    pthread_mutex_unlock(&hub->lock);
    return there;
}

void mob_events_behind_pause(struct mob_events *hub, unsigned slot, int64_t now_ns)
{
    pthread_mutex_lock(&hub->lock);
    struct watcher *w = hub->behind[slot];
    if (w) {
        leave_slot(w);
        enqueue(w, now_ns + PAUSE_NS);
    }
    pthread_mutex_unlock(&hub->lock);
}
