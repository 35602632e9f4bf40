/* The local scheduler: which task runs on which worker of this node, and when (ARCHITECTURE "A task's way",
 * 2).
 *
 * A pure core: events in, decisions out. No clock (`now` is monotonic ns and never goes back), no sockets,
 * threads or segment. One owner, the node's thread; nothing blocks. After a group of events, take the
 * decisions:
 *
 *     struct node_task { struct mob_sched_task sched; ... };             // options.record_bytes = sizeof it
 *     struct node_task *t = mob_sched_task_alloc(s);                      // zeroed; handles are stable
 *     mob_sched_submit(s, &t->sched, &(struct mob_sched_submit){.id = id, .job = job, .class_id = c}, now);
 *     mob_sched_object_ready(s, object);                   // for each object somebody may wait for
 *
 *     for (struct mob_decision d; mob_sched_next(s, now, &d);)
 *         act(&d);
 *
 *     mob_sched_finished(s, &t->sched, MOB_OK, run_ns, now); // then mob_sched_task_free when done with it
 *
 * Rules
 *  - States: see mob_sched_state. A task that waits costs sizeof(struct mob_sched_task) = 52 bytes and at
 * most 12 in the id table; one not-ready input costs nothing more, several cost 20 bytes each until the task
 * is ready.
 *  - Order. Jobs share by weighted round robin (deficits counted in tasks). Within a job the highest priority
 * goes first; lanes of equal priority take turns. What drivers submit (roots) is one FIFO lane for each (job,
 * class, priority); the descendants of a root are its tree, which has lanes of its own, so that no tree can
 * starve the others or the roots. In a tree, what a running task submits is a family: FIFO inside, families
 * are stacked, the newest on top. When a task blocks, its families move to the top. Nested tasks released by
 * an object become a new family on top. All this is O(1), and a nested program needs memory for its depth and
 * not its breadth; so that this holds for many programs at once, roots get few turns while
 * MOB_SCHED_TREES_AT_ONCE trees or more have work (docs/adr/fair-trees.md).
 *  - Resources. A worker holds the demand of its batch's class while the batch is not empty. A blocked worker
 * gives back its CPU (not the rest); when it goes on it takes the CPU at once, even below zero: dispatches
 * wait until the sum is positive again, so over-commitment is at most the CPU of the workers that were
 * blocked. An actor's creation takes its demand; afterwards the worker keeps all but the CPU (with
 * MOB_SCHED_HOLD_CPU: all) until it is gone.
 *  - Batches. A worker gets several tasks of one class only as far as their estimated run times (mean + 4
 * deviations per function, unknown = long) sum up to batch_ns_max; queue shares are split between the workers
 * that could run them, unless the share is not worth a wake. A task whose only missing inputs come from tasks
 * in one worker's batch follows them there. A batch's first task is the one that runs, the others have not
 * started, as far as is known. When an estimate was wrong and the first runs for take_back_ns, the others go
 * back to the queue.
 */
#ifndef MOB_RUNTIME_SCHED_LOCAL_H
#define MOB_RUNTIME_SCHED_LOCAL_H

#include "common/base/id.h"

/* Limits. Task handles are 24 bits of 2^24 - 1 records (index 0 is nil): 16 M tasks x (52 + 12) bytes = 1
 * GiB. */
#define MOB_SCHED_TASKS_MAX 16777215u
/* Numbers of workers are the node's; the segment has MOB_STORE_CLIENTS_MAX = 4094 clients. */
#define MOB_SCHED_WORKERS_MAX 4096u
/* Tasks that one worker holds, the running one first. */
#define MOB_SCHED_BATCH_MAX 1024u
#define MOB_SCHED_BLOCKED_MAX_DEFAULT 2048u
#define MOB_SCHED_NEST_MAX 64u
/* Failures of a task that may be others' fault; what still fails then pays for it: it may be what kills them.
 */
#define MOB_SCHED_UNPAID_MAX 16u
#define MOB_SCHED_JOBS_MAX 4096u
#define MOB_SCHED_LANES_MAX 65535u /* u16 in each task; lanes without tasks are used again */
/* Trees of a job that take equal turns with its roots; each one more halves the roots' turns. */
#define MOB_SCHED_TREES_AT_ONCE 16u
#define MOB_SCHED_CLASSES_MAX 4096u /* distinct demands at a time */
#define MOB_SCHED_RESOURCES_MAX 64u /* distinct names at a time */
#define MOB_SCHED_DEMANDS_MAX 8u /* resources in one demand */
#define MOB_SCHED_FUNCTIONS_MAX 65535u /* with a run time estimate of their own; the rest share number 0 */
#define MOB_SCHED_ACTORS_MAX 65535u
#define MOB_SCHED_RUNTIMES_MAX 4u /* enum mob_runtime_kind */
#define MOB_SCHED_WHY_INPUTS 16u
#define MOB_SCHED_UNIT 10000 /* one CPU, GPU, ... */

enum mob_sched_state {
    MOB_SCHED_NEW = 0, /* allocated, not submitted */
    MOB_SCHED_WAITING, /* for inputs */
    MOB_SCHED_DELAYED, /* until a time: not-before, or back-off of a retry */
    MOB_SCHED_READY, /* queued */
    MOB_SCHED_DISPATCHED, /* in a worker's batch */
    MOB_SCHED_BLOCKED, /* its worker waits in get or wait, or runs what it waits for on top of it */
    MOB_SCHED_DONE, /* the core has forgotten it; only mob_sched_task_free is left */
    MOB_SCHED_STATE_COUNT
};

/* First member of the node's task record. Private but `id`; the core links records and never copies them. */
struct mob_sched_task {
    struct mob_task_id id;
    uint32_t handle; /* stable while allocated; mob_sched_task_of() */
    uint32_t next,
        prev; /* READY and actor calls: queue. Otherwise with one missing input: that object's list */
    uint32_t place; /* READY: family. One missing input: wait object. Several: list of edges */
    uint32_t waits; /* inputs that are missing. Once started: number of children */
    uint16_t lane, function;
    uint8_t state; /* enum mob_sched_state; written by set_state(), and by local_series.c for many at once */
    uint8_t flags;
    int16_t retries_left; /* -1 = for ever */
    uint16_t worker; /* DISPATCHED, BLOCKED: its worker. Actor calls that are queued: nothing */
    uint8_t failures; /* for the back-off; saturates */
    uint8_t marks;
    uint32_t extra; /* times, actor: record of the few tasks that have any; 0 = none */
};
_Static_assert(sizeof(struct mob_sched_task) == 52, "a waiting task costs 52 bytes here");

struct mob_sched; /* opaque */

/* Children of one task: the ids (stream, 0 .. count - 1). */
struct mob_sched_kin {
    struct mob_stream stream;
    uint32_t count;
    bool sparse; /* `count` is not known, or not all: ids further on may live, behind gaps */
};

struct mob_sched_options {
    size_t struct_size;
    uint32_t record_bytes; /* of the node's task record, >= sizeof(struct mob_sched_task) */
    uint32_t tasks_max; /* 0 = MOB_SCHED_TASKS_MAX */
    uint32_t running_max; /* worker processes that are not blocked; 0 = 16 per CPU (tiny demands) */
    uint32_t blocked_max; /* 0 = MOB_SCHED_BLOCKED_MAX_DEFAULT */
    uint32_t nest_max; /* tasks below another one on a worker's stack; 0 = none, at most MOB_SCHED_NEST_MAX */
    uint32_t idle_keep; /* idle workers that are never reaped; 0 = one per CPU */
    int64_t cpu, gpu,
        memory; /* totals in 1/MOB_SCHED_UNIT (memory: of one byte x UNIT, see MOB_SCHED_MEMORY) */
    int64_t batch_ns_max; /* 0 = 500 us of estimated work in one worker's hands */
    int64_t wake_worth_ns; /* 0 = 50 us: less work is not worth another worker's wake */
    int64_t take_back_ns; /* 0 = 10 ms, at least batch_ns_max: a task that runs for longer keeps nothing
                             behind it */
    int64_t reap_after_ns; /* 0 = 10 s idle */
    int64_t kill_grace_ns; /* 0 = 5 s from "asked to stop" to "killed"; MOB_FOREVER_NS = never */
    int64_t backoff_initial_ns; /* 0 = 10 ms, doubled up to ... */
    int64_t backoff_max_ns; /* 0 = 10 s */
    uint32_t forward_threshold; /* queued tasks of a lane above which it forwards; 0 = never by length */
    bool may_forward; /* there is a global scheduler: FORWARD decisions */
    bool refuse_unsatisfiable; /* else such a task stays queued, with its why */
    /* Stream of a started task's children, for recursive cancel; NULL = only the task itself. */
    struct mob_stream (*children_of)(void *arg, const struct mob_sched_task *task);
    /* Position of an actor call in its actor's order (GCS.md "stateful edge"); the same for as long as the
     * core has the call. Several may have one: their order among themselves is nobody's matter. NULL = calls
     * go in the order of submission, and there are no replays. */
    uint64_t (*position_of)(void *arg, const struct mob_sched_task *call);
    /* Has this task ended, but not what it became (it returned the future of another, a tail call)? Then its
     * children, for recursive cancel. NULL = there are none of that kind. */
    bool (*continued)(void *arg, struct mob_task_id id, struct mob_sched_kin *kin_out);
    /* The last missing input of a task has come, and no worker has the task: it is queued after this returns,
     * unless it is delayed. NULL = nobody asks. It calls nothing of the core. (A task that follows its
     * producers into a batch is dispatched without that.) */
    void (*inputs_came)(void *arg, struct mob_sched_task *task);
    void *arg;
};

/* MOB_INVALID, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_sched_create(
    const struct mob_sched_options *options, struct mob_sched **sched_out);
void mob_sched_destroy(struct mob_sched *s);

/* ---- records and ids ---- */
/* A zeroed record of record_bytes; NULL = tasks_max reached (MOB_QUEUE_FULL) or no memory. */
void *mob_sched_task_alloc(struct mob_sched *s);
/* NEW or DONE only. */
void mob_sched_task_free(struct mob_sched *s, struct mob_sched_task *task);
/* Submitted, and its outcome is not told yet: it may be DONE only until its FAIL or FORWARD comes. NULL =
 * unknown here. */
struct mob_sched_task *mob_sched_find(const struct mob_sched *s, struct mob_task_id id);
/* From a handle that is still allocated. */
struct mob_sched_task *mob_sched_task_of(const struct mob_sched *s, uint32_t handle);
/* All submitted tasks, in no order; start with *at = 0, NULL = end. Meanwhile any of them may end, be
 * cancelled or freed. */
struct mob_sched_task *mob_sched_each(const struct mob_sched *s, uint32_t *at);

/* ---- names that are looked up once and then are numbers ---- */
#define MOB_SCHED_CPU 0u
#define MOB_SCHED_GPU 1u
#define MOB_SCHED_MEMORY 2u /* amounts are bytes x MOB_SCHED_UNIT */
/* Of one resource in one demand, and what a node may have of it: 9e14 whole ones (900 TB of memory). */
#define MOB_SCHED_AMOUNT_MAX (900000000000000ll * MOB_SCHED_UNIT)
/* Number of a resource name; "CPU", "GPU" and "memory" are there. It is good until the next mob_sched_class,
 * and from then on as long as there is a demand for it, or some of it here. MOB_QUEUE_FULL: so many others
 * are in use, MOB_SCHED_RESOURCES_MAX. */
MOB_MUST_USE enum mob_status mob_sched_resource(
    struct mob_sched *s, const char *name, size_t length, uint16_t *kind_out);
/* What the node has of it. Less than is taken: dispatches wait. */
void mob_sched_resource_total(struct mob_sched *s, uint16_t kind, int64_t total);
void mob_sched_resource_get(const struct mob_sched *s, uint16_t kind, int64_t *total_out, int64_t *free_out);
/* NUL-terminated, NULL past the last: to list them. Empty: nobody has that number now. */
const char *mob_sched_resource_name(const struct mob_sched *s, uint16_t kind);

struct mob_sched_demand {
    uint16_t kind;
    int64_t amount;
};
/* Number of a demand set (order and duplicates do not matter). MOB_INVALID: amounts, or the sum of
 * duplicates, beyond 0..MOB_SCHED_AMOUNT_MAX. MOB_QUEUE_FULL: MOB_SCHED_CLASSES_MAX others are in use. The
 * number is the caller's until mob_sched_class_release, and as long as a task or worker has it. */
MOB_MUST_USE enum mob_status mob_sched_class(struct mob_sched *s, uint8_t runtime,
    const struct mob_sched_demand *demands, uint32_t count, uint16_t *class_out);
void mob_sched_class_release(struct mob_sched *s, uint16_t class_id);
/* MOB_UNSATISFIABLE while the totals are below the demand. */
enum mob_status mob_sched_class_check(const struct mob_sched *s, uint16_t class_id, uint16_t *kind_out);

/* A job's number; weight 1..MOB_SCHED_WEIGHT_MAX is its share of dispatches against other jobs that have
 * work. MOB_QUEUE_FULL, MOB_INVALID. */
#define MOB_SCHED_WEIGHT_MAX 1000u
MOB_MUST_USE enum mob_status mob_sched_job_open(struct mob_sched *s, uint32_t weight, uint16_t *job_out);
/* Another share from now on. MOB_INVALID. */
MOB_MUST_USE enum mob_status mob_sched_job_weight(struct mob_sched *s, uint16_t job, uint32_t weight);
/* No task of it is left, so that closing it ends it at once. */
bool mob_sched_job_idle(const struct mob_sched *s, uint16_t job);
/* Those tasks of a job that live, to cancel them: others' are passed by, and when all that are left are
 * stopping already the walk ends, wherever it is. Actor calls are in no job here: with `calls` it gives all
 * of them, whosesoever, and goes through everything. Between two of them nothing may happen but recursive
 * cancels.
 *
 *   struct mob_sched_job_walk walk = mob_sched_job_walk(s, job, calls);
 *   while ((task = mob_sched_job_next(s, &walk))) ...
 */
struct mob_sched_job_walk {
    uint32_t at; /* record */
    uint32_t last; /* given; 0 = none yet */
    uint32_t living; /* of the job, or more */
    uint32_t stopping; /* of those that were given: cancelled while they run */
    uint16_t job;
    bool calls;
};
#define MOB_SCHED_NO_JOB UINT16_MAX /* for a walk: calls only */
struct mob_sched_job_walk mob_sched_job_walk(const struct mob_sched *s, uint16_t job, bool calls);
struct mob_sched_task *mob_sched_job_next(const struct mob_sched *s, struct mob_sched_job_walk *walk);
/* The number is used again after its last task. */
void mob_sched_job_close(struct mob_sched *s, uint16_t job);
/* Number for run time estimates; never fails (0 = shared). */
uint16_t mob_sched_function(struct mob_sched *s, struct mob_function_id function);
/* A task of this function returned the future of another task: what needs its results does not follow it from
 * now on, or its worker would block there. (Found out by itself, one blocked worker later, when nobody
 * tells.) */
void mob_sched_function_defers(struct mob_sched *s, uint16_t function);

/* ---- tasks ---- */
enum mob_sched_flag {
    MOB_SCHED_RETRY_ON_ERROR = 1,
    MOB_SCHED_ACTOR_CREATE =
        2, /* takes a whole worker and keeps it (mob_sched_actor_up or finished with an error) */
    MOB_SCHED_HOLD_CPU = 4, /* of an actor: the CPU was asked for by name and is held while it lives */
    MOB_SCHED_REPLAY = 8, /* actor call that had its position before: takes its place among those that wait */
    MOB_SCHED_REPEATS = 32, /* its outcome is known, and what it does is part of an actor's state: it is not
                               to be cancelled */
    MOB_SCHED_SPENDS = 64, /* actor call that no replay needs: the death of the worker that ran it takes one
                              of its retries, whatever restarts the actor has left */
    MOB_SCHED_RAN = 16 /* it may have run before, so that there may be children of it that it has not
                          submitted again: a recursive cancel looks for them */
};
struct mob_sched_submit {
    struct mob_task_id id; /* not known here: mob_sched_find first */
    struct mob_sched_task *parent; /* the task that runs and submits it; NULL = a driver or HTTP */
    const struct mob_object_id *missing; /* borrowed: inputs that are not ready; may repeat */
    uint32_t missing_count;
    uint16_t job, class_id, function;
    int16_t priority; /* higher first */
    uint32_t actor; /* of a call: mob_sched_actor_open; 0 = none. Calls are released by position; a new one
                       has the highest */
    uint8_t flags; /* enum mob_sched_flag */
    int32_t max_retries; /* -1 = for ever; spent by worker deaths, and errors with RETRY_ON_ERROR */
    int64_t not_before, deadline; /* monotonic; 0 = none */
    int64_t backoff_initial_ns, backoff_max_ns; /* 0 = options */
    uint32_t failures; /* runs that ended badly before it came here: it waits as the retry after the last */
};
/* Keeps `task` until DONE. MOB_QUEUE_FULL, MOB_NO_MEMORY, MOB_UNSATISFIABLE (only if refused), MOB_EXISTS,
 * MOB_NOT_FOUND (job, class or actor): then the task stays NEW. */
MOB_MUST_USE enum mob_status mob_sched_submit(
    struct mob_sched *s, struct mob_sched_task *task, const struct mob_sched_submit *in, int64_t now);
/* Siblings of `first`, which was just submitted: as mob_sched_submit of each with the same `in` but for the
 * id, which stands in the record, as long as they go where it went. `parent` is that of `in`. Returns how
 * many; the others stay NEW. */
uint32_t mob_sched_submit_more(struct mob_sched *s, const struct mob_sched_task *first,
    struct mob_sched_task *const *tasks, uint32_t count, struct mob_sched_task *parent);
/* The object can be read (a value or an error). Unknown ids cost one look-up. Returns how many inputs it was.
 * Tell it before mob_sched_finished of its producer or after, both are fine. */
uint32_t mob_sched_object_ready(struct mob_sched *s, struct mob_object_id object);
/* Is it a missing input of some task? One look-up. */
bool mob_sched_object_awaited(const struct mob_sched *s, struct mob_object_id object);
/* Does any task miss any input? */
bool mob_sched_awaits_any(const struct mob_sched *s);
/* A hint that this task is looked for soon: fetches its place in the table of ids. */
void mob_sched_find_fetch(const struct mob_sched *s, struct mob_task_id id);
/* A hint that this object is ready soon: fetches where a task that waits for it would stand. */
void mob_sched_object_fetch(const struct mob_sched *s, struct mob_object_id object);
/* A second hint, when the first has had time: fetches what stands there. */
void mob_sched_object_fetch_more(const struct mob_sched *s, struct mob_object_id object);
enum mob_sched_after {
    MOB_SCHED_FINAL, /* the task is DONE: this was its outcome */
    MOB_SCHED_RETRY /* it is DELAYED: another attempt follows (next generation after an error) */
};
/* A worker completed the task. `status` MOB_OK, or why it failed; `run_ns` < 0 = not measured. */
enum mob_sched_after mob_sched_finished(
    struct mob_sched *s, struct mob_sched_task *task, enum mob_status status, int64_t run_ns, int64_t now);
/* The first tasks of this worker's batch completed well, one after the other: as mob_sched_finished of each
 * with MOB_OK, in one go. Returns how many of the `count` are DONE: fewer, or none, where one needs more than
 * that.
 */
uint32_t mob_sched_finished_run(
    struct mob_sched *s, uint16_t worker, const int64_t *run_ns, uint32_t count, int64_t now);
/* The same for an attempt that repeated another one and asked for something else, when its task starts over
 * then: another attempt follows unless it is being stopped. No retry is spent: the death that made it repeat
 * has cost one. */
enum mob_sched_after mob_sched_diverged(
    struct mob_sched *s, struct mob_sched_task *task, int64_t run_ns, int64_t now);
/* Forget a task that is not running, without a decision (its outcome came from elsewhere). MOB_CONFLICT: it
 * runs. */
MOB_MUST_USE enum mob_status mob_sched_drop(struct mob_sched *s, struct mob_sched_task *task);
/* Queued: FAIL(MOB_CANCELLED) follows. Running: STOP, then after the grace (force: at once) KILL. Recursive:
 * its descendants known here too, also those below tasks that have ended and are continued by others; and
 * what a running one submits from now on fails at once. Below a task that has ended with a value of its own
 * nothing is found here (mob_sched_cancel_met_ended). Returns how many tasks were concerned. */
uint32_t mob_sched_cancel(
    struct mob_sched *s, struct mob_sched_task *task, bool force, bool recursive, int64_t now);
/* The same for the descendants of a task that has ended. */
uint32_t mob_sched_cancel_kin(struct mob_sched *s, const struct mob_sched_kin *kin, bool force, int64_t now);
/* Did the last recursive cancel come to children that have ended with values of their own? Then more may live
 * below those, and below them only. */
bool mob_sched_cancel_met_ended(const struct mob_sched *s);
/* Answers TAKE_BACK: `begun` tasks of the worker's batch have begun, or may have; it begins no others of
 * them. Those go back to the front in order, and fail if they were to stop. At least the first stays. Returns
 * how many went. */
uint32_t mob_sched_take_back(struct mob_sched *s, uint16_t worker, uint32_t begun, int64_t now);
/* How many children a task has submitted, of this attempt; also when it is DONE. */
uint32_t mob_sched_children(const struct mob_sched_task *task);

/* The task's worker waits: its CPU is free, what it had not started goes back to the front in order (the node
 * sends MOB_IN_REVOKED); *revoked_out of them. MOB_TOO_MANY_BLOCKED: nothing changed, fail the wait.
 * MOB_CONFLICT: not running. */
MOB_MUST_USE enum mob_status mob_sched_blocked(
    struct mob_sched *s, struct mob_sched_task *task, uint32_t *revoked_out, int64_t now);
/* It goes on. The CPU is taken at once. Of a task with another on top of it: that one has not started, and
 * runs after it, unless it blocks. */
void mob_sched_unblocked(struct mob_sched *s, struct mob_sched_task *task, int64_t now);
/* The running task cannot go on before `awaited` has ended, and that one is queued: its worker runs it now,
 * on top of the task, which is BLOCKED until then. No CPU changes hands, and no worker counts as blocked.
 * What the worker had not started goes back, as with mob_sched_blocked, then a DISPATCH follows.
 * MOB_CONFLICT, and nothing has changed: one of them is an actor's, they are of different trees, jobs or
 * demands, or demand more than CPU; it has failed before, or may not be run again (a crash of the upper one
 * costs both their attempt, though only the one that ran a retry); or as many as nest_max are below already.
 */
MOB_MUST_USE enum mob_status mob_sched_nest(struct mob_sched *s, struct mob_sched_task *task,
    struct mob_sched_task *awaited, uint32_t *revoked_out, int64_t now);
/* Does it wait below another one that has started, as far as is known? Then nothing can come from it. */
bool mob_sched_buried(const struct mob_sched *s, const struct mob_sched_task *task);

/* ---- workers ---- */
/* A process of this runtime is there and idle. `worker` < MOB_SCHED_WORKERS_MAX is the node's number, free to
 * be used again after mob_sched_worker_gone. Answers one SPAWN (or none: pre-started). MOB_EXISTS,
 * MOB_INVALID. */
MOB_MUST_USE enum mob_status mob_sched_worker_added(
    struct mob_sched *s, uint16_t worker, uint8_t runtime, int64_t now);
/* Room is wanted: so many workers that are idle, above idle_keep, end as soon as there are any, and not only
 * when reap_after_ns is over. Takes the place of what an earlier call left. */
void mob_sched_reap_now(struct mob_sched *s, uint32_t count);
/* `count` asked for by SPAWN will not come. It asks again after the back-off. */
void mob_sched_spawn_failed(struct mob_sched *s, uint8_t runtime, uint32_t count, int64_t now);
/* The process ended and its ring was drained. Its running task: RETRY or FAIL follows (MOB_WORKER_DIED, or
 * MOB_CANCELLED or MOB_DEADLINE if it was killed for that); the others go back to the front. Of an actor:
 * ACTOR_DOWN follows, its calls go back to the front of its queue. `unblamed`: it ended for nothing that it
 * ran, so nothing pays with a retry, and a task without any runs again, too; but for one that has failed
 * MOB_SCHED_UNPAID_MAX times. */
void mob_sched_worker_gone(struct mob_sched *s, uint16_t worker, bool unblamed, int64_t now);

/* The worker's inbound ring has no room for this task, told by DISPATCH in this group of decisions: it and
 * what follows it stay that worker's, and are told again after its next completion, or mob_sched_room.
 * Whoever calls this calls mob_sched_room when the ring has emptied: a worker that was told nothing completes
 * nothing. */
void mob_sched_no_room(struct mob_sched *s, const struct mob_sched_task *task);
void mob_sched_room(struct mob_sched *s, uint16_t worker);

/* ---- actors: calls in order to one worker ---- */
MOB_MUST_USE enum mob_status mob_sched_actor_open(struct mob_sched *s, uint32_t *actor_out);
/* Its creation has finished with MOB_OK on this worker (call it before or after mob_sched_finished of the
 * creation, in the same pass): calls flow. */
MOB_MUST_USE enum mob_status mob_sched_actor_up(struct mob_sched *s, uint32_t actor, uint16_t worker);
/* Calls that wait fail with `status`; the number is used again. The worker, if any, gets REAP. */
void mob_sched_actor_close(struct mob_sched *s, uint32_t actor, enum mob_status status);

/* ---- decisions ---- */
enum mob_decision_kind {
    MOB_DECIDE_DISPATCH = 1, /* task to worker; `last`: nothing more for this worker now, wake it */
    MOB_DECIDE_FAIL, /* task is DONE: its outcome is `status` */
    MOB_DECIDE_RETRY, /* task's attempt ended by `status`; it is DELAYED until its next one */
    MOB_DECIDE_TAKE_BACK, /* of worker: find out what it has begun, then mob_sched_take_back. Its first task
                             runs for long, or one behind that is to stop. Who cannot find out does nothing:
                             it is asked again */
    MOB_DECIDE_STOP, /* ask worker to stop task (MOB_IN_CANCEL); status: MOB_CANCELLED or MOB_DEADLINE */
    MOB_DECIDE_KILL, /* kill worker: task did not stop */
    MOB_DECIDE_SPAWN, /* start `count` workers of `runtime` */
    MOB_DECIDE_REAP, /* tell worker to leave (MOB_IN_STOP); mob_sched_worker_gone follows */
    MOB_DECIDE_ACTOR_DOWN, /* actor lost its worker; task (may be NULL) is the call that ran and is queued
                              again */
    MOB_DECIDE_FORWARD /* task is DONE here: give it to a global scheduler */
};
struct mob_decision {
    enum mob_decision_kind kind;
    enum mob_status status;
    struct mob_sched_task *task;
    uint32_t actor;
    uint32_t count;
    uint16_t worker;
    uint8_t runtime;
    bool last;
    bool unpaid; /* RETRY: it took none of the task's retries. ACTOR_DOWN: it is to take no restart */
};
/* Next decision; false = none until another event or timer. Every event may be called between two of them. */
bool mob_sched_next(struct mob_sched *s, int64_t now, struct mob_decision *decision_out);
/* After a DISPATCH to `worker`: the tasks of the next decisions, at most `max`, as far as those are DISPATCH
 * to it, too. 0: mob_sched_next says what comes. */
uint32_t mob_sched_next_of(
    struct mob_sched *s, uint16_t worker, struct mob_sched_task **tasks_out, uint32_t max);
/* When mob_sched_next wants to be called though nothing happened; MOB_FOREVER_NS (INT64_MAX) = not at all. */
int64_t mob_sched_next_timer(const struct mob_sched *s);

/* ---- answers ---- */
enum mob_why_reason {
    MOB_WHY_UNKNOWN = 0,
    MOB_WHY_INPUTS, /* inputs[], input_count */
    MOB_WHY_DELAYED, /* until */
    MOB_WHY_RESOURCES, /* resource: needed, free, total */
    MOB_WHY_UNSATISFIABLE, /* same: the node never has that much */
    MOB_WHY_QUEUED, /* ahead (of its lane), at least */
    MOB_WHY_WORKERS, /* first in line; all workers are busy or starting */
    MOB_WHY_ACTOR_ORDER, /* ahead calls of its actor come first */
    MOB_WHY_ACTOR_PENDING, /* the actor has no worker yet */
    MOB_WHY_BATCH, /* on worker, `ahead` tasks before it */
    MOB_WHY_RUNNING, /* on worker, since */
    MOB_WHY_BLOCKED, /* on worker, since: waits in get or wait */
    MOB_WHY_DONE
};
struct mob_why {
    enum mob_why_reason reason;
    enum mob_sched_state state;
    struct mob_object_id inputs[MOB_SCHED_WHY_INPUTS];
    uint32_t input_count; /* all, also those that inputs[] has no room for */
    uint32_t ahead;
    uint16_t resource; /* number; mob_sched_resource_name */
    uint16_t worker;
    int64_t needed, free, total;
    int64_t until, since;
    bool stopping; /* cancel or deadline: asked to stop */
};
void mob_sched_why(const struct mob_sched *s, const struct mob_sched_task *task, struct mob_why *why_out);
/* Stable word of a reason: "inputs", "resources", ... */
const char *mob_why_text(enum mob_why_reason reason);

struct mob_sched_stats {
    uint32_t tasks, by_state[MOB_SCHED_STATE_COUNT];
    uint32_t workers, idle, busy, blocked, actors, starting;
    uint32_t jobs, lanes, families, wait_objects, edges, timers;
    uint64_t dispatched, finished, retried, revoked, followed, spawned, nested;
    uint64_t bytes; /* memory of the core, records included */
};
void mob_sched_stats(const struct mob_sched *s, struct mob_sched_stats *stats_out);
/* Worker's batch, running task first; returns its size. For answers and tests. */
uint32_t mob_sched_batch(
    const struct mob_sched *s, uint16_t worker, struct mob_sched_task **tasks_out, uint32_t max);
/* Its first `count` tasks are looked at soon: fetches their records. */
void mob_sched_batch_fetch(const struct mob_sched *s, uint16_t worker, uint32_t count);
/* A task that ends, or has ended by mob_sched_finished_run and is not freed yet: fetches a record that is
 * dispatched soon. Which one comes after it stands in that record, so a call finds it only when some other
 * work lies between it and the last one. */
void mob_sched_fetch_queued(struct mob_sched *s, const struct mob_sched_task *ended);
/* So many of its batch were told by DISPATCH, the first ones; 0 = nothing can be taken back from it now. */
uint32_t mob_sched_told(const struct mob_sched *s, uint16_t worker);
/* Tasks that wait below the one that runs there, the bottom first; returns how many. */
uint32_t mob_sched_below(
    const struct mob_sched *s, uint16_t worker, struct mob_sched_task **tasks_out, uint32_t max);
/* Invariants over everything, O(all); NULL or a static text of the first violation. For tests. */
const char *mob_sched_check(const struct mob_sched *s);

#endif
