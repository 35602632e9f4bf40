/* Inside of the event hub: shared by events.c (its life, source and routes), event_deliver.c (giving to
 * watchers) and event_behind.c (those that are behind). All with the hub's lock held.
 */
#ifndef MOB_SERVER_EVENTS_EVENT_HUB_H
#define MOB_SERVER_EVENTS_EVENT_HUB_H

#include <pthread.h>

#include "server/events/events.h"
#include "server/http/stream.h"
#include "server/http/text.h"

#define MOB_EVENTS_BUCKETS 4096 /* of watchers by filter key */

/* A long-poll or a stream that waits. In one bucket by its key, so that an event finds its watchers and no
 * others. */
struct watcher {
    struct watcher *next, *prev;
    struct mob_events *hub;
    struct mob_http_request *request; /* long-poll */
    struct mob_http_stream *stream; /* or stream */
    void (*send)(struct mob_http_request *request);
    struct mob_event_filter *filter; /* behind it: only its topics that are used */
    struct mob_event_position cursor; /* the last event it has seen */
    unsigned bucket;
    bool placed; /* the cursor is set */
    bool lagging; /* stream: the event that was given last did not fit */
    bool at_once; /* long-poll that does not wait for news: for its place only, and for the past */
    /* Reads the past: waits for a slot, or is in one. It gets no event of the present then. */
    enum { WATCHER_LIVE, WATCHER_QUEUED, WATCHER_READS } behind;
    unsigned slot;
    int64_t not_before_ns; /* queued: it was not read on then, or there was no room for more */
    unsigned limit, count;
    struct mob_text found; /* long-poll: events that it will be answered with */
    struct watcher *ready_next; /* in the hub's list of polls that have something; queued: behind the next */
};

struct kept {
    struct mob_event event; /* its texts are behind it */
    size_t bytes;
    char *json; /* what is behind its position, which is the reader's */
};

struct mob_events {
    pthread_mutex_t lock;
    struct mob_events_source source;
    struct watcher *buckets[MOB_EVENTS_BUCKETS];
    unsigned watchers;
    struct kept **ring;
    size_t ring_begin, ring_count, ring_bytes;
    /* Of each shard: */
    struct mob_event_place ring_from[MOB_EVENTS_SHARDS_MAX]; /* the ring has all behind this */
    uint64_t passed[MOB_EVENTS_SHARDS_MAX]; /* published so far */
    struct watcher *ready;
    struct watcher *behind[MOB_EVENTS_BEHIND_MAX]; /* that are read for; NULL: free */
    struct watcher *queue, *queue_end; /* that wait for it */
    bool wanted, started, closed;
    int64_t idle_since_ns, last_heartbeat_ns;
};

static inline bool mob_event_before(struct mob_event_place a, struct mob_event_place b)
{
    return a.seq != b.seq ? a.seq < b.seq : a.index < b.index;
}
static inline struct mob_event_place mob_event_end_of(uint64_t seq)
{
    return (struct mob_event_place){seq, UINT32_MAX};
}
/* What the hub has passed was looked at for this watcher, too: where it is now. */
void mob_event_position_of(const struct watcher *w, struct mob_event_position *out);

/* A copy with its JSON text, one allocation (free with free()). NULL: out of memory. */
struct kept *mob_event_keep(const struct mob_event *event);
/* Gives one event if the watcher has not seen it and wants it. False: its reader has left, and it is
 * unlinked. */
bool mob_event_give(struct watcher *w, const struct kept *kept);
/* False: as above. */
bool mob_event_give_from_ring(struct watcher *w);
/* Takes the text. False: as above. */
bool mob_event_write_to_stream(struct watcher *w, struct mob_text *text);
void mob_event_build_poll_reply(struct watcher *w, bool gap);
/* Answers if nobody else does; then the watcher is unlinked. */
void mob_event_answer_poll(struct watcher *w, bool gap);
/* Answers a poll that has something, or that has all there is now and does not wait for more. */
void mob_event_answer_if_due(struct watcher *w);
void mob_event_unlink(struct watcher *w);
void mob_event_leave_ready(struct watcher *w); /* it may be in that list */
/* False: as above. */
bool mob_event_tell_gap(struct watcher *w, uint32_t shard, uint64_t from_seq);

/* The source runs, and the watcher is placed: gives what the ring has, or has the past read first. */
void mob_event_join(struct watcher *w);
/* Something did not fit into a stream: it goes on behind what did, when its reader has taken some of it. */
void mob_event_lag(struct watcher *w);
/* It lacks what is before `from`: goes on with the log from where it is, at once when it has something to be
 * answered with. */
void mob_event_fall_behind(struct watcher *w, uint32_t shard, struct mob_event_place from);
void mob_event_behind_unlink(struct watcher *w);

#endif
