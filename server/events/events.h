/* The event hub: what the control store commits, given to whoever waits for it.
 *
 *   mob_events_create(&(struct mob_events_source){cls, shards, want, stop, behind}, &hub);
 *   engine thread: mob_events_started(hub, seqs); mob_events_publish(hub, &event); mob_events_pass(hub, 0,
 * seq); a route:       mob_events_poll(hub, request, &filter, after, limit, deadline)   or
 * mob_events_stream(..)
 *
 * A place (block, entry) is one in the commit order of a shard of the store; a position has a place in each,
 * and is opaque text outside. Order is guaranteed within a shard, and so within a node's log; between shards
 * events come as they are heard of. A reader that comes back with a position hears all that is behind it in
 * each shard, and nothing twice, whatever happened to other shards meanwhile. Nothing is decoded
 * while nobody watches: `want` tells the source that events are wanted, and it delivers from then on, in
 * order. Recent events stay in a ring for those who come back for more. For a reader whose place is older
 * than that the source reads the log page by page (mob_events_behind_*), for each by itself, so that others
 * do not wait for it; when it has come to the ring it goes on with that. A reader whose place is gone gets
 * `gap`. Per-task events reach only watchers that filter by job, function, task or actor. Threads: all
 * functions from any; publish, started, pass, gap and behind_* from one. The source's callbacks run under the
 * hub's lock and must only post a message. Limits: below; a stream that does not keep up misses events and is
 * told so.
 */
#ifndef MOB_SERVER_EVENTS_EVENTS_H
#define MOB_SERVER_EVENTS_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "server/http/http.h"
#include "server/http/text.h"

#define MOB_EVENTS_RING_MAX 65536
#define MOB_EVENTS_RING_BYTES_MAX (32u << 20)
#define MOB_EVENTS_WATCHERS_MAX 16384
#define MOB_EVENTS_POLL_MAX 1000
#define MOB_EVENTS_SHARDS_MAX 4u /* each waiting reader has a place in each */
#define MOB_EVENTS_POSITION_TEXT_MAX 160
#define MOB_EVENTS_TOPICS_MAX 8
#define MOB_EVENTS_HEARTBEAT_S 15
#define MOB_EVENTS_SOURCE_S 1
/* With no watcher left the source is told to stop after this: a client between two polls still finds its
 * place. */
#define MOB_EVENTS_GRACE_S 60

/* Packed, since ten thousand readers that wait have one in each shard. */
struct __attribute__((packed, aligned(4))) mob_event_place {
    uint64_t seq; /* of the block */
    uint32_t index; /* of the entry in it */
};
struct mob_event_position {
    uint32_t shards;
    struct mob_event_place at[MOB_EVENTS_SHARDS_MAX];
};

struct mob_event {
    uint32_t shard;
    struct mob_event_place place;
    int64_t wall_us;
    const char *type; /* "task.finished", "actor.died", "progress", a function's own */
    const char *subject; /* id in text form */
    const char *task, *job, *function, *actor; /* for filters; NULL or "" when it has none */
    const char *call; /* of an actor's call "module.Class.method", where `function` is the class */
    const char *data; /* JSON, or NULL for {}; text that is none is given as {"text": ...} */
    bool per_task;
    /* Of what a function sent, whose data is its own: which attempt did, and an actor's call's turn. 0: none
     * (unknown of what an older version logged). */
    uint32_t attempt, incarnation;
    uint64_t actor_position; /* with an incarnation */
};

struct mob_event_filter {
    unsigned topic_count;
    char key[96]; /* "task:task_..", "job:..", "function:..", "actor:.."; "" = only what is not per task */
    char topics[MOB_EVENTS_TOPICS_MAX][32]; /* type prefixes; none = all */
};

struct mob_events_source {
    void *cls;
    uint32_t shards; /* of the store, 1 to MOB_EVENTS_SHARDS_MAX */
    /* Deliver from now on, and say with mob_events_started where that is. */
    void (*want)(void *cls);
    void (*stop)(void *cls);
    void (*behind)(void *cls); /* there is something for mob_events_behind_take */
};

struct mob_events;
MOB_MUST_USE enum mob_status mob_events_create(
    const struct mob_events_source *source, struct mob_events **hub_out);
/* Ends all streams; later watchers are refused. Before the fronts stop. */
void mob_events_close(struct mob_events *hub);
void mob_events_destroy(struct mob_events *hub);

/* --- the source --- */

/* Delivery begins behind these blocks, one of each shard. */
void mob_events_started(struct mob_events *hub, const uint64_t *seqs);
void mob_events_publish(struct mob_events *hub, const struct mob_event *event);
/* Everything up to this block has been published: answers polls that have something. */
void mob_events_pass(struct mob_events *hub, uint32_t shard, uint64_t seq);
/* The source could not follow, and goes on at `to_seq`: who has not seen what is before it is given that as
 * one whose place is older than what the hub keeps, and told when it is gone there as well. */
void mob_events_missed(struct mob_events *hub, uint32_t shard, uint64_t to_seq);
/* About once a second: heartbeats, and the end of the grace. */
void mob_events_tick(struct mob_events *hub, int64_t now_ns);

/* --- readers that are behind what the ring has. The source gives them the past, each in a slot; the others
 * wait for their turn. What returns false says that the slot is free again: the reader has what it asked for,
 * has left, or has come to the ring, from where it goes on without a gap --- */

#define MOB_EVENTS_BEHIND_MAX 4u

struct mob_events_behind {
    struct mob_event_position at; /* the last event that it has seen, or the end of a block */
    char key[96]; /* its filter's, struct mob_event_filter: what does not match need not be read */
};
/* The next of them into a free slot. False: there is none, or not before *wake_ns_out (INT64_MAX: none). */
bool mob_events_behind_take(struct mob_events *hub, unsigned slot, int64_t now_ns,
    struct mob_events_behind *out, int64_t *wake_ns_out);
/* An event of the past, in order in its shard; what the reader has seen is passed over. */
bool mob_events_behind_give(struct mob_events *hub, unsigned slot, const struct mob_event *event);
/* All up to this block was given. */
bool mob_events_behind_pass(struct mob_events *hub, unsigned slot, uint32_t shard, uint64_t seq);
/* What is behind its place and before `to_seq` is gone; its place is there then, also when that is before it.
 */
bool mob_events_behind_gap(struct mob_events *hub, unsigned slot, uint32_t shard, uint64_t to_seq);
/* A page has ended. */
bool mob_events_behind_turn(struct mob_events *hub, unsigned slot, int64_t now_ns);
/* The past cannot be read now: it waits again. The slot is free. */
void mob_events_behind_pause(struct mob_events *hub, unsigned slot, int64_t now_ns);

/* --- routes --- */

/* Answers now, or parks until there is something or `deadline_ns`; 0: gives what there is now, after waiting
 * for the source at most MOB_EVENTS_SOURCE_S. `after` NULL: from now on. MOB_QUEUE_FULL: too many watchers,
 * not answered. */
MOB_MUST_USE enum mob_status mob_events_poll(struct mob_events *hub, struct mob_http_request *request,
    const struct mob_event_filter *filter, const struct mob_event_position *after, unsigned limit,
    int64_t deadline_ns, void (*send)(struct mob_http_request *request));
/* Answers with an endless text/event-stream. */
MOB_MUST_USE enum mob_status mob_events_stream(struct mob_events *hub, struct mob_http_request *request,
    const struct mob_event_filter *filter, const struct mob_event_position *after,
    void (*send)(struct mob_http_request *request));

uint32_t mob_events_shards(const struct mob_events *hub); /* that its positions have */
void mob_event_position_format(
    const struct mob_event_position *position, char out[MOB_EVENTS_POSITION_TEXT_MAX]);
MOB_MUST_USE enum mob_status mob_event_position_parse(const char *text, struct mob_event_position *out);
/* An event's data as JSON on one line. It may come from a module that wrote its ring itself, past the checks
 * of the C API, and must not break what stands around it, for readers of all other events: text that is not
 * JSON becomes {"text": "..."}. */
void mob_event_data_write(struct mob_text *t, const char *data);
bool mob_event_matches(const struct mob_event_filter *filter, const struct mob_event *event);

#endif
