/* A worker process: one client of the segment that runs what its inbound ring says, in order. Private to
 * runtime/worker (and its tests, which run one in a thread).
 *
 * While a task waits (in get or wait) the ring is read on, because the notice it waits for lies behind specs
 * that have not started. Those are kept aside in the stash and run later; when the worker gives its CPU back
 * it forgets them, for the node gives them to others (record.h). One that the waiting task needs may run on
 * top of it, in a frame of its own (nest.c).
 */
#ifndef MOB_RUNTIME_WORKER_WORKER_H
#define MOB_RUNTIME_WORKER_WORKER_H

#include "common/base/near_clock.h"
#include "runtime/worker/module_cache.h"
#include "runtime/worker/zygote.h"
#include "sdk/c/call.h"

#define MOB_HINTS 64u /* values of arguments that the node sent ahead */
#define MOB_HINT_BYTES 1024u
#define MOB_NEST_MAX 64u /* tasks below another one on a stack: MOB_SCHED_NEST_MAX of the node */
#define MOB_STASH_MAX (16u << 20)

struct mob_hint {
    struct mob_object_id id;
    enum mob_value_type type;
    uint32_t bytes;
    uint8_t *payload; /* owned */
};

struct mob_worker_actor {
    bool lives;
    struct mob_actor_id id;
    void *instance;
    const struct mob_loaded_function *function;
    uint32_t checkpoint_every;
};

/* A task that runs, or waits for the one above it on the same stack. */
struct mob_frame {
    struct mob_call call;
    /* Its CPU time so far, and since when it has run without another one on top. */
    int64_t cpu_ns, piece_from_ns;
    uint32_t peak_kb; /* of its pieces so far */
    uint8_t tail[MOB_SPEC_TAIL_MAX + 64];
};

struct mob_worker {
    struct mob_client *client;
    struct mob_frame *frame; /* frames[depth] */
    struct mob_call *call; /* &frame->call */
    struct mob_frame *frames[MOB_NEST_MAX + 1]; /* made when first used */
    uint32_t depth; /* tasks below the running one */
    uint32_t nest_max;
    uint32_t number;
    bool stopping;
    uint32_t revokes; /* MOB_OUT_BLOCKED without its MOB_IN_REVOKED yet */
    uint32_t suspends; /* MOB_OUT_SUSPENDED without its MOB_IN_NEST yet: no spec starts meanwhile */
    struct mob_in_nest nest; /* the newest answer */

    struct mob_worker_head {
        struct mob_in_spec in;
        struct mob_spec_head head;
    } heads[MOB_HEAD_SLOTS]; /* of the MOB_IN_SPECs that were taken, for their siblings */

    uint8_t *stash; /* records, in order */
    uint32_t stash_begin, stash_end, stash_capacity;

    struct mob_module_cache modules;
    struct mob_worker_actor actor;
    struct mob_logged_outcome *outcomes; /* for tasks to be repeated, in order of arrival */
    struct mob_logged_outcome **outcomes_tail;
    struct mob_hint hints[MOB_HINTS];
    uint32_t next_hint;

    int64_t finished_ns; /* of the task before, if this one follows without a pause; else 0 */
    struct mob_near_clock clock; /* begins and ends of tasks */
    int64_t cpu_mark_ns; /* thread CPU time, last read */
    int64_t cpu_short_ns; /* wall time of short tasks since then: their CPU time */
    uint64_t log_written;
    uint32_t unreleased; /* records since the ring's space was given back */
};

MOB_MUST_USE enum mob_status mob_worker_init(struct mob_worker *worker, const char *state_dir,
    const struct mob_session_welcome *welcome, int memfd, int eventfd);
void mob_worker_fini(struct mob_worker *worker);
/* Take what is there and run it; false when there was nothing. */
bool mob_worker_step(struct mob_worker *worker);

/* worker.c: the first spec of the stash, which is not empty and has begun (mob_store_in_begin). */
void mob_worker_run_stashed(struct mob_worker *worker);
/* Its task; false when there is none. */
bool mob_worker_stashed_task(struct mob_worker *worker, struct mob_task_id *task_out);
/* The ring is read as far as the node wants it to be before anything else begins. */
void mob_worker_read_urgent(struct mob_worker *worker);
/* What has not started is taken back. */
void mob_worker_forget_stash(struct mob_worker *worker);

/* nest.c: a task on top of the one that waits for it. */
MOB_MUST_USE enum mob_status mob_frame_open(struct mob_worker *worker);
void mob_frames_free(struct mob_worker *worker);
/* For struct mob_inbox_hooks. */
bool mob_worker_suspends(struct mob_client *client);
enum mob_status mob_worker_on_top(struct mob_client *client, uint32_t number);
void mob_worker_take_nest(struct mob_worker *worker, const uint8_t *body, uint32_t bytes);

/* run_task.c */
/* The running task pauses: what it used and wrote so far is its own. */
void mob_worker_pause_task(struct mob_worker *worker);
void mob_worker_resume_task(struct mob_worker *worker);
/* Copies what it is given. */
void mob_worker_run_task(struct mob_worker *worker, const struct mob_in_spec *in,
    const struct mob_spec_head *head, const uint8_t *tail, uint32_t tail_bytes);
/* Cancelled, or past its deadline, before it began: it ends as that, and nothing of it runs. */
void mob_worker_end_unstarted(struct mob_worker *worker, const struct mob_in_spec *in,
    const struct mob_spec_head *head, const uint8_t *tail, uint32_t tail_bytes);
void mob_worker_destroy_actor(struct mob_worker *worker);
/* load_args.c: the arguments of worker->call. MOB_OK or why the task cannot run; the reason is in the call.
 */
enum mob_status mob_worker_load_args(struct mob_worker *worker);
void mob_worker_drop_args(struct mob_worker *worker);
/* complete.c */
struct mob_task_times {
    int64_t started_ns, finished_ns, cpu_ns;
    uint32_t peak_kb;
};
void mob_worker_complete(struct mob_worker *worker, const struct mob_task_times *times);
void mob_worker_checkpoint(struct mob_worker *worker);

#endif
