/* Inside of the local scheduler: the structures that its files share. Nothing outside runtime/sched includes
 * this.
 *
 * Everything is linked by u32 numbers instead of pointers: records of the node live in chunks (a record never
 * moves), all else in pools (arrays that may move when they grow: keep numbers across calls, not pointers). 0
 * is nil.
 */
#ifndef MOB_RUNTIME_SCHED_LOCAL_INNER_H
#define MOB_RUNTIME_SCHED_LOCAL_INNER_H

#include "common/base/log.h"

#include "common/base/clock.h"
#include "runtime/sched/local.h"

/* 1024 records of about 100 bytes: 100 KiB is the least that a node with one task takes. */
#define SCHED_CHUNK_SHIFT 10u
#define SCHED_CHUNK (1u << SCHED_CHUNK_SHIFT)
/* A lane that was passed over for so long keeps what it lacks free for itself (see local_pick.c). */
#define SCHED_STARVE_NS MOB_SEC
/* Dependents looked at per object when tasks follow their producer; more would make broadcasts quadratic. */
#define SCHED_FOLLOW_SCAN 64u
/* Missing inputs of a follower that are checked one by one. */
#define SCHED_FOLLOW_INPUTS 4u
/* Workers started ahead of the CPUs while actors are made: a creation is short, starting a process is not. 16
 * x 1 ms of starting hide behind each other; 16 idle processes are what it may cost for nothing. */
#define SCHED_SPAWN_AHEAD 16u
#define SCHED_STRIDE (1u << 20)
/* Records given back whose numbers are kept in an array, the newest last: more would be cold in any cache. */
#define SCHED_SPARES 1024u
#define SCHED_SPARE_AHEAD 4u /* so many of them are fetched before their turn comes */
/* Number of a tree: 0 = none (a root, or a driver's), 1 = what found no lane, or whose root is not known. */
#define SCHED_TREE_SHARED 1u
/* Roots go without a turn for 2^n rounds at most. */
#define SCHED_HOLD_SHIFT_MAX 10u
/* Lanes that may be of trees; the others are for roots, and for what the trees beyond them share. */
#define SCHED_TREE_LANES_MAX (MOB_SCHED_LANES_MAX - 5535u)
/* When there are no more, unused lanes are collected only if there are so many of them. */
#define SCHED_SWEEP_WORTH 1024u
/* Tasks that may follow their producers into a worker's hands before others get a turn there. */
#define SCHED_FOLLOW_RUN 1024u
#define SCHED_NIL16 0xffffu

/* marks of a task */
enum {
    MARK_CALL = 1, /* actor call: `lane` is the actor */
    MARK_NESTED = 2, /* submitted by a task */
    MARK_EDGES = 4, /* inputs are a list of edges in `place`; else one input, embedded */
    MARK_AWAITED = 8, /* somebody waits for an output */
    MARK_KIDS = 16, /* `waits` counts children */
    MARK_STOPPING = 32, /* was asked to stop */
    MARK_OVERDUE = 64, /* because of its deadline */
    MARK_KILLED = 128 /* KILL was decided */
};

/* flags of a task, beside enum mob_sched_flag */
enum {
    FLAG_CANCEL_KIN = 128, /* cancelled with its descendants: so is what it submits from now on */
};

/* Array of fixed-size records with a free list through their first word. */
struct sched_pool {
    uint8_t *base;
    uint32_t size, capacity, fresh, free_head, live;
};
/* Robin Hood table of numbers. distance[i] = 0: empty; else 1 + how far entry i is from its home, which is as
 * good as a tag: entries with another home are never looked at. Homes are kept in order, so a search stops
 * early and erasing needs no tombstones. Any capacity, growth by half: 8 to 12 bytes an entry. */
struct sched_map {
    uint32_t *slots;
    uint16_t *distance;
    uint32_t capacity, used;
};

struct sched_edge { /* one of several missing inputs of a task */
    uint32_t task, object, next, prev, sibling;
};
/* A list of waiters mixes embedded edges (the task's handle) and pool edges (this bit | number). */
#define EDGE_BIT 0x80000000u
struct sched_object { /* an object somebody waits for */
    uint32_t head, tail;
    struct mob_object_id id;
    uint32_t count;
};
struct sched_family {
    uint32_t head, tail, count, above, below, sibling; /* sibling: next family of the same parent */
    uint16_t lane, worker; /* worker that runs the parent, SCHED_NIL16 = it has ended */
};
struct sched_extra {
    int64_t deadline, wake, backoff_initial, backoff_max; /* wake: not-before, or kill time; 0 = none */
    uint32_t task, heap_at; /* heap_at: 1 + position, 0 = not in the heap */
};
struct sched_class {
    struct mob_sched_demand demands[MOB_SCHED_DEMANDS_MAX];
    uint64_t mask; /* of kinds */
    int64_t cpu;
    uint32_t busy; /* workers that hold it and are not blocked */
    uint32_t users; /* who may submit with it: mob_sched_class without mob_sched_class_release */
    uint16_t hungry; /* list of workers with room for more of this class */
    uint8_t count, runtime;
    bool used;
};
struct sched_lane {
    uint32_t refs, count;
    uint32_t head, tail; /* base FIFO */
    uint32_t top; /* family stack */
    uint32_t tree; /* 0: roots, and no families */
    uint32_t
        fetched; /* newest queued record that was fetched ahead of its turn, a hint; 0 = begin at the front */
    uint16_t job, class_id;
    uint16_t next, prev; /* in the job's list of lanes with work, by priority */
    int16_t priority;
    bool create, listed, used;
    uint16_t held_rounds; /* roots: turns that went to trees instead */
    int64_t passed_over; /* since when it lacked resources; 0 = not */
};
struct sched_job {
    uint64_t pass;
    uint32_t weight, stride, dispatched;
    uint32_t lanes, lanes_live; /* in use; with tasks */
    uint32_t trees; /* lanes of trees with work */
    uint16_t first, last; /* lanes with work, highest priority first */
    uint16_t last_lane; /* cache of the last look-up */
    uint16_t next, prev; /* jobs with work */
    bool open, used, active;
};
enum worker_state {
    WORKER_NONE = 0,
    WORKER_IDLE,
    WORKER_BUSY,
    WORKER_BLOCKED,
    WORKER_ACTOR, /* keeps an instance; its batch holds calls */
    WORKER_ACTOR_BLOCKED, /* the call waits */
    WORKER_LEAVING /* told to leave */
};
struct sched_place {
    uint32_t task, estimate_ns;
};
struct sched_below { /* a task that waits for the one above it on the same stack */
    uint32_t task;
    int64_t since;
};
struct sched_worker {
    struct sched_place *ring; /* MOB_SCHED_BATCH_MAX, by absolute position modulo */
    uint32_t head, tail; /* running .. behind the last */
    uint32_t told, follow; /* next to tell the node; next whose dependents may follow */
    int64_t estimate_sum, since;
    uint32_t families; /* of the running task */
    uint32_t tree; /* of the running task's descendants, if it is a root and has any */
    uint32_t follow_run; /* tasks that followed since it was last filled from a queue */
    struct sched_below *below; /* on its stack, below the running task; [0] at the bottom; nest_max places */
    uint32_t actor;
    uint16_t ended; /* function of the task that ended here last, if with success; else 0 */
    uint16_t class_id;
    uint16_t next, prev; /* idle list */
    uint16_t hungry_next, hungry_prev; /* of its class */
    uint16_t untold_next, follow_next, piled_next;
    uint8_t state, runtime;
    uint8_t below_count;
    bool holds, holds_cpu, stuck; /* its class's demand; its CPU; counted in sched_kind.stuck */
    bool hungry, untold, following, no_room;
    bool piled, hurry; /* in the list of those with tasks behind the first; one of these is to stop */
    int64_t asked; /* TAKE_BACK was decided last */
    bool solo; /* makes an actor: nothing joins that batch */
};
struct sched_actor {
    uint32_t head, tail, count;
    uint32_t placed; /* the call that took its place last, or one before it; 0 = none */
    uint16_t worker, next;
    uint16_t close_status;
    bool used, listed, closed; /* closed: the number is free when the worker has gone */
};
struct sched_function {
    struct mob_function_id id;
    uint32_t mean_ns, deviation_ns;
    uint32_t
        estimate_ns; /* mean + 4 deviations, at most batch_ns_max, which is what not measured ones have */
    bool measured, defers; /* defers: its tasks end before their results are there */
};
struct sched_note { /* a decision that is not about a DONE task */
    uint32_t task, actor;
    uint16_t worker, status;
    uint8_t kind;
    bool unpaid; /* of RETRY and ACTOR_DOWN */
};
struct sched_runtime {
    uint16_t idle_head, idle_tail; /* newest, oldest */
    uint32_t idle, starting, failures;
    int64_t spawn_after;
};
struct sched_kind {
    char name[64];
    int64_t total, taken;
    int64_t stuck; /* held by actors and blocked tasks: comes back only after others have run */
};

struct mob_sched {
    struct mob_sched_options options;
    int64_t now; /* of the last call */
    /* records */
    uint8_t **chunks;
    uint32_t chunk_count, chunk_capacity, fresh, free_head, stride, allocated;
    uint32_t spares[SCHED_SPARES], spare_count; /* free records; the others are a list from free_head on */
    struct sched_map ids;
    /* waits */
    struct sched_pool objects, edges;
    struct sched_map waits;
    uint32_t last_object; /* cache: the wait object of the last edge */
    /* queues */
    struct sched_pool families, extras;
    struct sched_lane *lanes;
    uint32_t lane_count, lane_capacity, lane_free;
    uint32_t lanes_unused; /* used ones without tasks */
    uint32_t trees_given; /* numbers of trees */
    uint16_t *lane_slots;
    uint32_t lane_slot_count;
    struct sched_job *jobs;
    uint32_t job_count;
    uint16_t active; /* ring of jobs with work */
    uint64_t virtual_pass;
    uint32_t late_family; /* of what the current event releases */
    bool dirty; /* something may be dispatched */
    bool met_ended; /* mob_sched_cancel_met_ended */
    /* names */
    struct sched_kind *kinds;
    uint32_t kind_count;
    uint64_t kinds_asked; /* since the last mob_sched_class: no class names them yet */
    struct sched_class *classes;
    uint32_t class_count, classes_free; /* numbers given out so far; those of them that nobody has now */
    struct sched_function *functions;
    uint32_t function_count, function_capacity, function_slot_count;
    uint16_t *function_slots;
    /* workers */
    struct sched_worker *workers;
    struct sched_runtime runtimes[MOB_SCHED_RUNTIMES_MAX];
    uint16_t untold, untold_tail, following, piled;
    int64_t piled_due; /* none of the list is to be asked before */
    uint32_t worker_count, blocked_count, actor_worker_count, leaving_count;
    uint32_t reap_now; /* idle workers that end before their time */
    uint32_t creating_count; /* workers that make an actor now */
    uint32_t spawn_want[MOB_SCHED_RUNTIMES_MAX];
    uint64_t reserved; /* kinds kept for lanes that starve */
    int64_t reserved_until; /* then the first of them lets others go on; MOB_FOREVER_NS = nothing is kept */
    bool no_refill; /* a lane waits for what refilled workers would hold on to */
    struct sched_actor *actors;
    uint32_t actor_count, actor_capacity, actor_free;
    uint16_t actor_list; /* with calls that may go */
    /* time */
    uint32_t *heap;
    uint32_t heap_count, heap_capacity;
    /* decisions that wait for mob_sched_next */
    struct sched_note *notes;
    uint32_t note_head, note_count, note_capacity;
    uint32_t failed_head, failed_tail; /* DONE tasks, linked by next; status in `worker` */
    uint32_t by_state[MOB_SCHED_STATE_COUNT];
    uint64_t dispatched, finished, retried, revoked, followed, spawned, nested;
};

/* ---- records, pools, maps (local_table.c) ---- */
static inline struct mob_sched_task *task_at(const struct mob_sched *s, uint32_t handle)
{
    uint8_t *chunk = s->chunks[handle >> SCHED_CHUNK_SHIFT];
    return (struct mob_sched_task *)(void *)(chunk + (size_t)(handle & (SCHED_CHUNK - 1)) * s->stride);
}
/* A record is soon read, and written: have its lines come meanwhile. Any number that was ever given out will
 * do. */
static inline void sched_fetch(const struct mob_sched *s, uint32_t handle)
{
    const uint8_t *record = (const uint8_t *)task_at(s, handle);
    __builtin_prefetch(record, 1);
    __builtin_prefetch(record + 64, 1);
}
static inline void *pool_at(const struct sched_pool *p, uint32_t number)
{
    return p->base + (size_t)number * p->size;
}
uint32_t sched_pool_take(struct sched_pool *p); /* zeroed; 0 = no memory */
void sched_pool_give(struct sched_pool *p, uint32_t number);

enum { MAP_NEIGHBOURS = 8 }; /* of a stream: their homes lie side by side */
static inline uint32_t map_home(const struct sched_map *m, struct mob_task_id id, uint32_t slot)
{
    uint64_t x = (mob_stream_mix(id.stream) + id.index / MAP_NEIGHBOURS + ((uint64_t)slot << 40)) *
        0x9e3779b97f4a7c15ull;
    uint64_t home = ((x >> 32) * m->capacity >> 32) + id.index % MAP_NEIGHBOURS;
    return (uint32_t)(home < m->capacity ? home : home - m->capacity);
}
static inline uint32_t map_next(const struct sched_map *m, uint32_t i)
{
    return i + 1 < m->capacity ? i + 1 : 0;
}
/* Where the key of number n lies, from the record itself (for growth). */
typedef uint32_t (*sched_home_of)(const struct mob_sched *s, const struct sched_map *m, uint32_t number);
bool sched_map_reserve(const struct mob_sched *s, struct sched_map *m, sched_home_of home_of);
void sched_map_insert(struct sched_map *m, uint32_t home, uint32_t number);
void sched_map_erase(struct sched_map *m, uint32_t home, uint32_t number);
void sched_map_shrink(const struct mob_sched *s, struct sched_map *m, sched_home_of home_of);

bool sched_ids_add(struct mob_sched *s, struct mob_sched_task *t);
void sched_ids_remove(struct mob_sched *s, struct mob_sched_task *t);
/* The same for tasks that follow each other, which mostly are neighbours. Gives how many were added: fewer,
 * no memory. */
uint32_t sched_ids_add_run(struct mob_sched *s, struct mob_sched_task *const *tasks, uint32_t count);
/* `before` is NULL, or was removed by the call before this one, which gave `home`. When all are removed:
 * shrink.
 */
uint32_t sched_ids_remove_next(
    struct mob_sched *s, const struct mob_sched_task *t, const struct mob_sched_task *before, uint32_t home);
void sched_ids_shrink(struct mob_sched *s);

/* ---- states (local.c) ---- */
void sched_set_state(struct mob_sched *s, struct mob_sched_task *t, enum mob_sched_state state);
void sched_become_ready(struct mob_sched *s, struct mob_sched_task *t);
void sched_fail(struct mob_sched *s, struct mob_sched_task *t, enum mob_status status);
/* An attempt ended badly: DELAYED and true, or false when it is to pay with a retry and has none left. */
bool sched_retry(struct mob_sched *s, struct mob_sched_task *t, bool pays, int64_t now);
void sched_note_push(struct mob_sched *s, struct sched_note note);
/* It has gone: there is nobody to tell to leave, and the number may soon be another's. */
void sched_notes_forget_worker(struct mob_sched *s, uint16_t worker);

/* ---- waits (local_wait.c) ---- */
/* Once, when the task is submitted. */
enum mob_status sched_wait_add(
    struct mob_sched *s, struct mob_sched_task *t, const struct mob_object_id *missing, uint32_t count);
void sched_wait_drop(struct mob_sched *s, struct mob_sched_task *t);
uint32_t sched_wait_find(const struct mob_sched *s, struct mob_object_id id);
/* First edge of an object's list and the next one; 0 = end. */
uint32_t sched_edge_task(const struct mob_sched *s, uint32_t ref);
uint32_t sched_edge_next(const struct mob_sched *s, uint32_t ref);

/* ---- names (local_name.c) ---- */
void sched_names_fini(struct mob_sched *s);
struct sched_lane_key {
    uint16_t job, class_id;
    int16_t priority;
    bool create;
    uint32_t tree;
};
enum mob_status sched_lane_get(struct mob_sched *s, const struct sched_lane_key *key, uint16_t *lane_out);
void sched_lanes_sweep(struct mob_sched *s);
/* local_unused.c */
void sched_classes_sweep(struct mob_sched *s);
void sched_kinds_sweep(struct mob_sched *s);
bool sched_lane_is(const struct sched_lane *lane, const struct sched_lane_key *key);
/* Tasks come into a lane and leave it for good. */
void sched_lane_hold(struct mob_sched *s, uint16_t lane);
void sched_lane_release(struct mob_sched *s, uint16_t lane);
bool sched_class_fits(const struct mob_sched *s, const struct sched_class *c);
/* How many more workers could hold it now. */
uint32_t sched_class_fit_count(const struct mob_sched *s, const struct sched_class *c);
static inline uint32_t sched_estimate(const struct mob_sched *s, uint16_t function)
{
    return s->functions[function].estimate_ns;
}
void sched_measure(struct mob_sched *s, uint16_t function, int64_t run_ns);

/* ---- queues (local_queue.c) ---- */
void sched_queue_push(struct mob_sched *s, struct mob_sched_task *t);
void sched_queue_push_front(struct mob_sched *s, struct mob_sched_task *t, uint32_t *revoked_family);
struct mob_sched_task *sched_queue_peek(const struct mob_sched *s, const struct sched_lane *lane);
void sched_queue_remove(struct mob_sched *s, struct mob_sched_task *t);
/* A nested task that is ready at its submission, or when what it waits for came. */
void sched_queue_push_child(
    struct mob_sched *s, struct mob_sched_task *t, const struct mob_sched_task *parent);
/* From the front of its lane to the worker's batch, while others of the same list stay behind; at most
 * `limit`, and as far as the worker's time goes. Returns how many: 0 says nothing about the first
 * (local_series.c). */
uint32_t sched_queue_give(struct mob_sched *s, uint16_t lane, uint16_t worker, uint32_t limit);
void sched_families_to_top(struct mob_sched *s, struct sched_worker *w);
void sched_families_detach(struct mob_sched *s, struct sched_worker *w);
void sched_lane_rotate(struct mob_sched *s, uint16_t lane);

/* ---- workers (local_worker.c) ---- */
static inline struct sched_worker *worker_at(const struct mob_sched *s, uint16_t worker)
{
    return &s->workers[worker];
}
static inline uint32_t worker_load(const struct sched_worker *w)
{
    return w->tail - w->head;
}
static inline struct sched_place *worker_place(const struct sched_worker *w, uint32_t at)
{
    return &w->ring[at & (MOB_SCHED_BATCH_MAX - 1)];
}
static inline bool worker_runs(const struct sched_worker *w, const struct mob_sched_task *t)
{
    return w->head != w->tail && worker_place(w, w->head)->task == t->handle;
}
void sched_worker_take(struct mob_sched *s, uint16_t worker, const struct sched_lane *lane);
void sched_worker_append(struct mob_sched *s, uint16_t worker, struct mob_sched_task *t);
/* Take a task out of its worker's batch, at any place; the worker becomes idle, hungry, or (`keeps`) an
 * actor's. */
void sched_worker_remove(struct mob_sched *s, struct mob_sched_task *t, int64_t now, bool keeps);
/* The first of its batch, one or more, ended plainly and are out of it (local_series.c). */
void sched_worker_ran(struct mob_sched *s, uint16_t worker, int64_t now);
/* What has not started goes back: everything behind `keep` places. Returns how many. */
uint32_t sched_worker_revoke(struct mob_sched *s, uint16_t worker, uint32_t keep);
/* Put a task in front of the batch: it runs. */
void sched_worker_prepend(struct mob_sched *s, uint16_t worker, struct mob_sched_task *t);
void sched_idle_remove(struct mob_sched *s, uint16_t worker);
void sched_hungry_update(struct mob_sched *s, uint16_t worker);
void sched_hungry_remove(struct mob_sched *s, uint16_t worker);
void sched_untold_mark(struct mob_sched *s, uint16_t worker);
/* The running task has been at it for longer than any batch should last: nothing is queued behind it. */
static inline bool worker_lags(const struct mob_sched *s, const struct sched_worker *w)
{
    return s->now - w->since > s->options.batch_ns_max;
}

/* ---- taking back (local_take_back.c) ---- */
/* Something stands behind the first of its batch. */
void sched_piled_add(struct mob_sched *s, uint16_t worker);
static inline void sched_piled_mark(struct mob_sched *s, uint16_t worker)
{
    if (!worker_at(s, worker)->piled)
        sched_piled_add(s, worker);
}
/* A task of its batch that is not known to have begun is to stop. */
void sched_hurry(struct mob_sched *s, uint16_t worker);
bool sched_next_take_back(struct mob_sched *s, int64_t now, struct mob_decision *d);

/* ---- tasks on top of each other (local_nest.c) ---- */
/* It waits, and another runs on top of it. */
static inline bool worker_has_below(const struct sched_worker *w, const struct mob_sched_task *t)
{
    for (uint32_t i = w->below_count; i > 0; i--)
        if (w->below[i - 1].task == t->handle)
            return true;
    return false;
}
/* The uppermost of those that wait is the one that runs again, before what is in the batch. */
void sched_nest_resume(struct mob_sched *s, uint16_t worker);

/* ---- following (local_follow.c) ---- */
/* Are all inputs that t misses made by tasks in this worker's batch? */
bool sched_inputs_in_batch(const struct mob_sched *s, const struct mob_sched_task *t, uint16_t worker);
void sched_follow_at_submit(struct mob_sched *s, struct mob_sched_task *t);
void sched_follow_mark(struct mob_sched *s, uint16_t worker);
void sched_follow_scan(struct mob_sched *s, uint16_t worker);

/* ---- actors (local_actor.c) ---- */
void sched_actor_append(struct mob_sched *s, struct mob_sched_task *t);
void sched_actor_remove(struct mob_sched *s, struct mob_sched_task *t);
void sched_actor_lost_worker(
    struct mob_sched *s, uint32_t actor, uint16_t worker, const struct mob_sched_task *running, bool unpaid);
void sched_actor_put_back(struct mob_sched *s, struct mob_sched_task *t); /* to its place */
void sched_actor_mark(struct mob_sched *s, uint32_t actor);
void sched_actors_release(struct mob_sched *s); /* calls whose turn it is go to their worker's batch */

/* ---- time (local_timer.c) ---- */
struct sched_extra *sched_extra_of(struct mob_sched *s, struct mob_sched_task *t); /* NULL = no memory */
void sched_extra_schedule(struct mob_sched *s, struct mob_sched_task *t);
void sched_extra_free(struct mob_sched *s, struct mob_sched_task *t);
void sched_timers_run(struct mob_sched *s, int64_t now);
/* Ask a started or dispatched task to stop; KILL after the grace. */
void sched_stop(struct mob_sched *s, struct mob_sched_task *t, bool force, int64_t now);

#endif
