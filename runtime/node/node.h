/* mobula-node: the process that wires segment, local scheduler, worker pool, lineage log and actors of one
 * machine.
 *
 * One thread, one loop (node.c: node_loop). Each pass takes what the clients published (intake.c), in ticket
 * order, appends it to the lineage log, feeds the local scheduler, carries out its decisions (dispatch.c),
 * and tells clients what became ready (notices.c). Everything here is private to runtime/node; all functions
 * are for the node's thread.
 */
#ifndef MOB_RUNTIME_NODE_NODE_H
#define MOB_RUNTIME_NODE_NODE_H

#include <sys/types.h>

#include "common/wire/record.h"
#include "common/wire/session.h"
#include "gcs/client/client.h"
#include "gcs/life/node_life.h"
#include "runtime/node/driver_process.h"
#include "runtime/node/lineage_log.h"
#include "runtime/node/room_pool.h"
#include "runtime/sched/local.h"
#include "runtime/store/store.h"
#include "runtime/worker/pool.h"

#define NODE_NOBODY UINT32_MAX
#define NODE_PATH_MAX 512
#define NODE_RESOURCES_TEXT_MAX 512

struct node_options {
    char directory[NODE_PATH_MAX];
    char gcs_socket[NODE_PATH_MAX];
    char worker_binary[NODE_PATH_MAX];
    char spill_directory[NODE_PATH_MAX];
    char resources[NODE_RESOURCES_TEXT_MAX]; /* "GPU=1,disk=2.5"; CPU comes from `slots` */
    char name[64];
    const char *masters; /* of each shard (gcs/life/node_life.h); NULL = there are none */
    uint64_t segment_bytes, spill_quota_bytes;
    uint64_t worker_memory_bytes; /* address space of one worker besides the segment; 0 = no limit */
    uint64_t retention_s; /* lineage of ended jobs, and of finished tasks of standing ones */
    uint32_t slots, blocked_max, nest_max, idle_reap_ms;
    int64_t take_back_ns; /* 0 = the scheduler's default */
};

enum job_state { JOB_RUNNING = 1, JOB_GRACE = 2, JOB_ENDED = 3 };
/* So long may a driver stay away before its job ends, if it can come back: under its idempotency key, or as
 * the process that it is after a restart of the node. */
#define NODE_DRIVER_GRACE_NS (600 * 1000000000ll)
#define JOB_NO_NUMBER UINT16_MAX
#define NODE_JOB_BUCKETS 1024u
struct node_job {
    struct node_job *next, *next_of_bucket; /* of all; of the index by id */
    struct mob_job_id id;
    char ns[MOB_NAMESPACE_MAX];
    char name[64];
    enum job_state state;
    bool standing, detached, deleted;
    bool ageing, aged; /* its lineage is being dropped; is all gone */
    uint32_t users; /* templates and actors that point to it: node_job_hold */
    bool over_http; /* opened by a gateway: its sessions come and go, and it ends when told */
    bool keyed; /* a driver that starts again finds it by its key */
    struct driver_process driver; /* of one that is not keyed */
    uint16_t sched_job; /* number in the scheduler, JOB_NO_NUMBER while it has none: node_job_number */
    uint32_t weight;
    uint32_t sessions; /* connected, gateways' too */
    uint32_t drivers; /* of these, drivers' */
    uint32_t next_child; /* standing and resumed jobs: first child index not yet used */
    int64_t grace_until_ns;
    int64_t started_wall_ns, ended_wall_ns;
    uint64_t submitted, finished, failed;
    struct mob_task_id root;
};

/* A function or actor class that tasks may name. */
struct node_function {
    struct node_function *next;
    struct mob_function_id id;
    struct mob_module_hash module;
    char *name; /* "module.function" */
    char *signature; /* of a class: "constructor\nmethod signature\n..." */
    uint16_t kind; /* enum mob_task_kind: TASK or ACTOR_CREATE */
    uint16_t method_count;
    uint32_t number; /* dense, for the workers' sets of known functions */
    bool newest;
    bool leaving; /* its module is being deleted: no new task gets it */
    bool gone; /* it was; the record stays, since ended tasks and actors may point to it */
};

#define PARENT_UNKNOWN UINT32_MAX
#define PARENT_NONE (UINT32_MAX - 1) /* a driver's */
/* What siblings share: the head of their specs, kept once. */
struct node_template {
    struct mob_spec_head head; /* task.index, attempt, caller_seq: of the first */
    struct node_function *function;
    struct node_job *job;
    uint32_t refs;
    uint32_t parent_handle; /* of the parent's task record; checked when used */
    uint16_t sched_class;
    uint16_t sched_function;
    uint8_t in_slot; /* head slot of the worker that got it last; checked when used */
    enum mob_status refused; /* not MOB_OK: its resources cannot be expressed here */
    bool plain; /* its tasks are logged, and have one return: plain.h */
    struct node_tail *last_tail; /* of the newest sibling: equal ones share it */
};

/* A tail that is more than a word, or that several share. */
struct node_tail {
    uint32_t refs;
    uint32_t bytes;
    uint64_t zero;
    uint8_t data[] __attribute__((aligned(8)));
};

/* A task's arguments and options, or its extra record, which has them then: struct node_task.form says which.
 */
union node_task_own {
    uint64_t word; /* one argument of eight bytes, and nothing else: mob_spec_tail_is_word */
    struct node_tail *shared;
    struct node_task_extra *extra;
};

/* What few tasks have: retries, actor calls. */
struct node_task_extra {
    union node_task_own tail;
    uint32_t attempt, generation, caller_seq, incarnation;
    uint64_t position; /* of an actor call, from 0 */
    uint32_t yielded; /* items of a generator, of all attempts */
    uint32_t retries_spent; /* of max_retries, under earlier incarnations of the node */
    bool repeats; /* this attempt repeats one of its generation */
    bool diverged; /* ... and asked for something else than that one */
    uint32_t items; /* of one that is `logged`: that are in the log */
    bool logged; /* runs again, with its outcome in the log: that stands, whatever this run gives */
    bool compared; /* ... by value, with this digest (remade.h): an actor that gives another is none */
    struct mob_hash128 digest;
    bool shadow; /* of an actor's shadow (shadow.h): nothing of it is committed or told but its results */
    uint32_t stored_count;
    struct node_stored_return *stored; /* what a run that makes lost objects again must give; remade.c */
};

/* A task that is not finished. */
struct node_task {
    struct mob_sched_task sched; /* first: the scheduler links it */
    uint32_t submitter_session;
    struct node_template *template;
    int64_t submitted_ns;
    uint32_t ready_us, dispatched_us; /* after submitted_ns: node_elapsed_us. TASK_INPUTS_MISSING: not yet */
    uint16_t submitter; /* client slot; TASK_NO_SUBMITTER */
    uint8_t flags; /* TASK_* */
    uint8_t form; /* of the tail: TASK_TAIL_SHARED, or the type of its word. TASK_HAS_EXTRA: there is one */
    union node_task_own own;
} __attribute__((aligned(32))); /* wherever one begins in a chunk, it lies in two lines and not in three */
_Static_assert(sizeof(struct node_task) == 96, "a queued task is small");
#define TASK_NO_SUBMITTER UINT16_MAX
#define TASK_INPUTS_MISSING UINT32_MAX
#define TASK_TAIL_SHARED MOB_TYPE_NONE
#define TASK_HAS_EXTRA 0x80u
_Static_assert(MOB_TYPE_COUNT <= TASK_HAS_EXTRA, "types and that flag have a byte together");
/* NULL: first attempt, generation 0, no actor call. */
static inline struct node_task_extra *node_extra_of(const struct node_task *task)
{
    return task->form & TASK_HAS_EXTRA ? task->own.extra : NULL;
}

/* Flags of struct node_task. */
enum {
    TASK_LOOK_UP = 1, /* not a first attempt under first attempts: its children's ids are looked up first */
    TASK_REMAKE =
        2, /* runs again only to make its objects (or an actor) again: the first completion stands */
    TASK_UNLOGGED = 4,
    TASK_BORROWS = 8, /* its arguments are counted (borrowed.h) */
    TASK_ACTOR_CREATE = 16,
    TASK_ACTOR_CALL = 32,
    TASK_NO_OUTCOMES = 128, /* the lineage was read: it logged none */
    TASK_RESTORE = 64 /* an actor's creation from its checkpoint */
};

enum worker_state { WORKER_STARTING = 1, WORKER_READY = 2, WORKER_STOPPING = 3 };
struct node_actor;
struct outcome_read;
struct node_worker {
    uint32_t number; /* handle in the scheduler; used again */
    uint32_t serial; /* of the process; never used again */
    uint32_t slot;
    pid_t pid;
    enum worker_state state;
    struct node_sent_head {
        struct node_template *template; /* holds it; NULL = none that siblings may repeat */
        uint32_t incarnation;
    } sent[MOB_HEAD_SLOTS]; /* what stands in the head slots of its inbound ring */
    uint32_t next_slot;
    uint64_t ended; /* completions of it that were taken, of whatever attempts */
    bool no_room; /* its ring was full */
    struct outcome_read *held, *held_last; /* dispatched, not sent yet */
    struct node_actor *actor;
    struct mob_object_id *needs; /* of the tasks below the running one, by level: suspended.c; or NULL */
    uint8_t *functions_known; /* bit set by node_function.number */
    uint32_t functions_known_bytes;
    const char *kill_reason; /* we killed it: why */
    char kill_text[160]; /* the reason, when it has numbers */
    enum mob_status kill_status;
    int64_t started_ns;
};

/* Of submissions that wait in the lane: what the last MOB_OUT_SPEC among them into a head slot says of its
 * siblings behind it. */
struct node_foreseen {
    bool spec, look_up;
    struct mob_stream stream;
};

/* A client slot that is in use. */
struct node_client {
    uint32_t slot;
    uint32_t session; /* grows each time the slot is given out */
    uint16_t kind; /* enum mob_client_kind */
    uint16_t zero;
    uint32_t flags; /* enum mob_session_flag */
    int fd; /* session socket; -1 for workers */
    pid_t pid;
    struct node_job *job;
    struct mob_task_id root;
    struct node_template *templates[MOB_HEAD_SLOTS]; /* of its outbound ring's head slots */
    struct mob_stream stream; /* of the newest spec in this ring, and the index that follows it */
    uint32_t next_index;
    uint64_t acked_queued; /* ring position whose acknowledgement is queued or done */
    struct waiting *waiting, *waiting_last; /* its records in the lane; none: NULL */
    struct node_foreseen foreseen[MOB_HEAD_SLOTS];
    bool flush_due, missed, read_local;
    bool closing; /* its process has ended, or its session is over */
    bool ending; /* closing, and its end stands in the lane */
    bool damaged; /* its ring gave what does not parse: the rest is not taken */
    struct kept_reply *replies, **replies_end; /* that its full ring had no room for; empty: NULL */
    uint32_t replies_bytes;
    bool look_up; /* its root was there before: ids may be in the lineage already, */
    struct mob_stream fresh_stream; /* but for those of this stream from */
    uint32_t fresh_index; /* this index on: it had not used them when it came back */
    struct node_worker *worker;
};

struct node_promise;
struct put_sweep;
struct below;
struct shadow;
struct function_table;
struct deployment;
struct watch_table;
struct actor_table;
struct borrow_table;
struct durable_puts;
struct awaited_puts;
struct checkpoint_wait;
struct checkpoint_reading;
struct large_hashes;
struct lane;
struct node_stored_return;
struct known_table;
struct known_question;
struct row_write;
/* Rows of actors that the control store has no place for yet. */
struct row_writes {
    struct row_write *first, **end;
};
struct group_read;
/* Reads of the lineage: those that run, and those that wait for their turn. */
struct group_reads {
    struct group_read *first, **end;
    struct group_read *all; /* asked for and not ended */
    uint32_t running;
};

struct node {
    struct node_options options;
    struct mob_cluster_id cluster;
    uint64_t incarnation;
    struct mob_node_life *life; /* where that comes from, and who finds out that it is over */
    int epoll_fd, listen_fd, signal_fd;
    struct mob_store *store;
    struct mob_sched *sched;
    struct mob_pool *pool;
    struct mob_gcs *gcs;
    struct lineage_log *log;
    struct node_client *clients[MOB_STORE_CLIENTS_MAX + 2];
    uint32_t sessions_given;
    uint32_t client_top; /* slots at or above it are not in use */
    uint32_t closing_clients; /* sockets that ended */
    bool said_stopped; /* node.stopped is in the log */
    uint32_t missed_clients; /* rings that were full */
    uint8_t secret[32]; /* of the cluster; keys the roots of named drivers */
    struct node_worker **workers; /* by number */
    uint32_t worker_capacity, workers_alive, workers_started;
    uint32_t workers_lost; /* died, and no other has started since */
    uint32_t no_room_workers;
    uint32_t spawns_due; /* asked for while the zygote was busy */
    bool stacks; /* some worker has tasks below the running one, as of the last tick */
    struct {
        const char *reason;
        enum mob_status status; /* why we killed it, or MOB_WORKER_DIED */
        struct mob_task_id task; /* that it ran, or zero */
        int signal;
        uint32_t serial; /* of the worker: its log files */
        char message[160], log[1024];
    } death; /* of the worker whose end is being handled */
    struct {
        int64_t since_ns; /* nothing moved since then; 0 = it did */
        uint64_t ended; /* what had ended then */
    } crowded; /* crowded.c */
    struct node_job *jobs; /* ended ones too, thousands of them, until their retention is over */
    struct node_job *job_buckets[NODE_JOB_BUCKETS]; /* the same by id */
    bool jobs_in_grace; /* perhaps; never false when there is one */
    struct node_job *last_job; /* last found */
    struct function_table *functions;
    struct deployment *deployments; /* on their way */
    struct watch_table *watches;
    struct alias_table *aliases;
    struct borrow_table *borrows;
    struct node_promise *promises;
    uint32_t promise_count;
    struct actor_table *actors;
    struct shadow *shadows;
    struct known_table *known;
    struct value_cache *values; /* that look-ups came by */
    struct group_reads reads;
    struct row_writes row_writes;
    struct durable_puts *puts;
    struct put_sweep *put_sweep; /* NULL = none runs */
    int64_t next_put_age_ns;
    struct awaited_puts *awaited;
    struct checkpoint_wait *checkpoint_waits;
    struct checkpoint_reading *checkpoint_reads; /* that failed: asked again with the next tick */
    struct large_hashes *large_hashes;
    struct lane *lane;
    struct node_client *intake_client; /* whose record is being taken, */
    uint64_t intake_from; /* its ring position: it may be in no block yet, */
    struct known_question *intake_question; /* and what it waits for; NULL = nothing */
    uint32_t *flush_slots; /* inbound rings with unpublished records */
    uint32_t flush_count;
    struct room_pool templates, tails, extras; /* task.c */
    int64_t now_ns; /* of this pass */
    struct node_precedence {
        bool may, taken;
        uint32_t records; /* a pass with any, averaged and scaled */
    } precedence;
    bool stopping, sealed, ready;
    uint32_t deploying, undeploying;
    bool acks_due; /* records of drivers were taken that no block has closed behind */
    int64_t stop_deadline_ns;
    int64_t next_gcs_ns, next_tick_ns, next_age_ns, next_audit_ns;
    uint64_t passes, submitted, finished, failed, retried, duplicates;
    struct below *below; /* cancels of what runs below ended tasks; NULL = none */
};

/* node.c */
void node_request_stop(struct node *node);

/* session.c: drivers and the gateway */
MOB_MUST_USE enum mob_status node_listen(struct node *node);
void node_accept(struct node *node);
void node_hello(struct node *node, int fd);
void node_session_readable(struct node *node, struct node_client *client);
void node_client_end(struct node *node, struct node_client *client, const char *why);
struct node_client *node_client_add(struct node *node, uint32_t slot, enum mob_client_kind kind);
struct node_client *node_client_at(struct node *node, uint32_t slot);
/* Same client as when `session` was noted? */
bool node_client_is(struct node *node, uint32_t slot, uint32_t session);
void node_sessions_close(struct node *node);

/* intake.c: one outbound record. False: it waits for node->intake_question, and nothing was done. */
bool node_intake(
    struct node *node, struct node_client *client, const struct mob_record *record, const uint8_t *body);
/* The same for what most records are, beginnings and ends of plain tasks (plain.h), which wait for nothing:
 * for the first ones of a run, as far as they are such. Returns how many. */
uint32_t node_intake_plain(struct node *node, struct node_client *client, const struct mob_store_run *run);
/* The question that a record will ask when its turn comes, asked ahead; NULL = none. */
struct known_question *node_foresee(
    struct node *node, struct node_client *client, const struct mob_record *record, const uint8_t *body);
/* A driver's ring gave bytes that do not parse: its session ends. */
void node_client_damaged(struct node *node, struct node_client *client);

/* task.c: records of unfinished tasks */
/* Gives a reference. `refused` says whether its tasks can run here. */
struct node_template *node_template_make(
    struct node *node, const struct mob_spec_head *head, const uint8_t *tail, struct node_job *job);
/* Unless it has it: it may have been deployed since the head came. */
void node_template_find_function(struct node *node, struct node_template *template);
void node_template_hold(struct node_template *template);
void node_template_drop(struct node *node, struct node_template *template); /* NULL: nothing */
/* Into a head slot: takes `template` (NULL: empties it), and drops what stood there. */
void node_template_place(struct node *node, struct node_template **slot, struct node_template *template);
/* NULL = too many tasks. Holds the template. */
struct node_task *node_task_create(struct node *node, struct node_template *template, struct mob_task_id id,
    const uint8_t *tail, uint32_t tail_bytes);
void node_task_destroy(struct node *node, struct node_task *task);
/* What all tasks hold, at the node's own end; their records go with the scheduler. */
void node_tasks_free(struct node *node);
/* Memory of templates, tails and extras; nothing holds one any more. */
void node_task_rooms_free(struct node *node);
struct node_task_extra *node_task_extra(
    struct node *node, struct node_task *task); /* made when it has none */

uint32_t node_task_attempt(const struct node_task *task);
uint32_t node_task_generation(const struct node_task *task);
bool node_task_is_shadow(const struct node_task *task);
/* Of a word it is made in `room`; else it stays until the task is destroyed. */
struct node_tail_room {
    uint64_t words[MOB_SPEC_WORD_TAIL / 8];
};
const uint8_t *node_task_tail(const struct node_task *task, struct node_tail_room *room, uint32_t *bytes_out);
void node_task_head(const struct node_task *task, struct mob_spec_head *head_out);
struct node_task *node_task_find(struct node *node, struct mob_task_id id);

/* 0 to TASK_INPUTS_MISSING - 1; saturating. */
uint32_t node_elapsed_us(int64_t from_ns, int64_t to_ns);

/* The running task that submits; NULL for drivers, and when it has ended. */
struct node_task *node_template_parent(struct node *node, struct node_template *template);

/* submit.c: a spec enters the node; `keyed`: MOB_SPEC_KEYED. False: it waits for node->intake_question, and
 * nothing was done. */
bool node_submit(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes,
    bool keyed);
/* May this id be in the lineage (ARCHITECTURE "Ownership")? `parent` is NULL for drivers. */
bool node_looks_up(const struct node_client *client, const struct node_task *parent, struct mob_task_id task);
/* No log knows it. Roots meet the control store's soft cap. */
void node_submit_fresh(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes);
/* submit_known.c: one whose id may be in the lineage. False as above. */
bool node_submit_looked_up(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes,
    bool keyed);
/* A known id came with other content: its submitter hears it. */
void node_tell_diverged(struct node *node, struct node_client *client, const struct mob_spec_head *head);
/* A task whose spec is in the lineage already runs (again): recovery, re-making, restart of an actor. */
MOB_MUST_USE enum mob_status node_resubmit(struct node *node, const struct mob_spec *spec,
    int64_t submitted_ns, uint8_t flags, struct node_task **task_out);
/* The failure of an input, of its worker, or a refusal is its outcome. `cause` = error value it comes from,
 * or NULL. */
void node_task_fail(struct node *node, struct node_task *task, enum mob_status status, const char *message,
    const uint8_t *cause, uint32_t cause_bytes, int signal, const char *detail);

/* A logged submission that is not taken: its task ends with an error that says why. MOB_AGAIN: it enters
 * later.
 */
void node_submit_refused(struct node *node, struct node_task *task, enum mob_status status);
/* A resubmitted task enters: inputs, actor order, scheduler. */
void node_enter(struct node *node, struct node_task *task);
void node_fail_without_record(struct node *node, uint32_t slot, uint32_t session,
    const struct mob_spec_head *spec, enum mob_status status, const char *message);

/* An object that became ready on this node. `small` is its payload when that is at hand (and small). */
struct ready_object {
    struct mob_object_id id;
    enum mob_status status;
    enum mob_value_type type;
    uint8_t flags;
    bool remakeable, committed;
    uint64_t size;
    const uint8_t *small; /* NULL when it is only in the store */
};

/* A root that is not taken at all: only its submitter hears of it. */
void node_refuse_root(struct node *node, struct node_client *client, const struct mob_spec_head *spec,
    enum mob_status status, const char *message);

/* alias.c: tail calls. A task ended with the future of another: `id` becomes what `target` becomes. */
#define NODE_CHILDREN_UNKNOWN UINT32_MAX
struct node_tail_call {
    struct mob_object_id id, target;
    uint32_t submitter, session; /* of `id`; NODE_NOBODY */
    struct node_job *job; /* NULL = not known */
    uint32_t generation, children; /* of the task that ended; NODE_CHILDREN_UNKNOWN */
};
void node_alias(struct node *node, const struct node_tail_call *call);
struct alias_table;
struct alias_table *alias_table_create(void);
void alias_table_destroy(struct alias_table *table);
/* A hint that this object is ready soon: fetches where what stands for it would be. */
void node_alias_fetch(const struct node *node, struct mob_object_id id);
/* A second hint, when the first has had time: fetches what stands there. */
void node_alias_fetch_more(const struct node *node, struct mob_object_id id);
/* Does anything stand for it, and wait? */
bool node_alias_awaits(const struct node *node, struct mob_object_id id);
/* `object` became ready: so do those that stand for it. */
void node_alias_ready(struct node *node, const struct ready_object *object);
/* The first return of a task that has ended and that is not ready yet, because what it became is not; NULL.
 */
const struct node_tail_call *node_tail_call_of(const struct node *node, struct mob_task_id task);
/* What this object becomes, if it stands for another one; else false. */
bool node_tail_target(const struct node *node, struct mob_object_id id, struct mob_object_id *target_out);
/* A cancel goes from such tasks to their children and to what they became, and meets each of them once: */
void node_tail_walk_begin(struct node *node);
/* ... the ids of its children; false = it is none such, or was met in this walk, */
bool node_tail_walk_kin(const struct node *node, struct mob_task_id task, struct mob_sched_kin *kin_out);
/* ... and the tasks that it became, as far as they were not given in this walk. At most `max`: call again. */
uint32_t node_tail_walk_targets(
    const struct node *node, struct mob_task_id task, struct mob_task_id *targets_out, uint32_t max);

/* cancel.c */
/* A client asks for it. Of one that has ended by itself what runs below it is cancelled (cancel_below.h). */
void node_cancel(struct node *node, const struct node_client *client, const struct mob_out_cancel *cancel);
/* The scheduler asks a worker to stop this task: if that is for a cancel, a restart of the node knows it too.
 */
void node_cancel_note_stop(struct node *node, struct node_task *task, enum mob_status why);

/* promises.c: puts whose values come later */
bool node_promise_make(struct node *node, const struct node_client *client, struct mob_object_id id);
bool node_promised(const struct node *node, struct mob_object_id id);
void node_promise_kept(struct node *node, struct mob_object_id id);
void node_promises_broken(struct node *node, const struct node_client *client);

/* complete.c */
/* An attempt ended with its worker; the scheduler runs the task again. */
void node_attempt_lost(struct node *node, struct node_task *task);
void node_complete(struct node *node, struct node_client *client, const struct mob_completion *completion);
/* A hint that this task ends now: who waits for its result and what it took are looked up in tables that are
 * larger than the cache when many wait. Fetched here, they have come by the end of the completion. */
void node_complete_fetch(const struct node *node, const struct node_task *task);
/* A second one, when the first has had time. */
void node_complete_fetch_more(const struct node *node, const struct node_task *task);
void node_yielded(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes);
/* Tell dependents, watchers and the submitter (NODE_NOBODY = none). Whether the submitter has its notice now.
 */
bool node_object_ready(
    struct node *node, const struct ready_object *object, uint32_t submitter, uint32_t session);

/* The same for return 0 of `count` neighbours that ended well, values of eight bytes, whose completions were
 * logged; `slot` is that of their submitter, `task` the first. */
void node_results_ready(
    struct node *node, const struct log_result *first, const uint64_t *values, uint32_t count);
/* The node's times, and an actor call's place, into the head of a worker's completion. */
void node_fill_times(const struct node_task *task, struct mob_completion_head *head);
/* Of the task that ran when the worker ended whose death is handled: on which worker, and from when, which is
 * its dispatch as far as the node knows, since the worker took its start along. Nothing for any other. */
void node_fill_death(const struct node *node, const struct node_task *task, struct mob_completion_head *head);

/* notices.c: MOB_IN_* to clients */
void node_run_effect(void *node, const struct effect *effect);
void node_fetch_effect(void *node, const struct effect *effect); /* lineage_log.h, fetch_effect */
void node_before_block_close(void *node);
/* The same for records that went into no block: a driver that only asks gets its ring back, too. */
void node_acknowledge_rings(struct node *node);
/* False: its ring is full, and it will ask. */
bool node_notice_ready(struct node *node, uint32_t slot, const struct ready_object *object);
void node_watch(struct node *node, struct node_client *client, struct mob_object_id id);
/* As a watch, but answered by a reply: a fetch. */
void node_watch_request(
    struct node *node, struct node_client *client, struct mob_object_id id, uint32_t request);
/* The same when its making is under way. */
void node_watch_made(struct node *node, struct node_client *client, struct mob_object_id id);
/* Has a client asked for it that was not told yet? */
bool node_watched(const struct node *node, struct mob_object_id id);
void node_unwatch_client(struct node *node, struct node_client *client);
void node_reply(struct node *node, uint32_t slot, uint32_t session, uint32_t request, enum mob_status status,
    const void *payload, uint32_t bytes);
void node_flush_rings(struct node *node);
void node_mark_flush(struct node *node, struct node_client *client);
void *node_in_reserve(
    struct node *node, struct node_client *client, uint8_t type, uint8_t flags, uint16_t aux, uint32_t bytes);
/* The same for what must arrive, in this place. NULL = the client does not read at all. */
void *node_in_append(
    struct node *node, struct node_client *client, uint8_t type, uint8_t flags, uint16_t aux, uint32_t bytes);
void node_missed_retry(struct node *node);
/* What is owed to a client that ends. */
void node_notices_forget(struct node *node, struct node_client *client);
struct watch_table *watch_table_create(void);
void watch_table_destroy(struct watch_table *table);

/* dispatch.c: the scheduler's decisions. True: enough for one pass, there are more. */
bool node_dispatch(struct node *node);
void node_dispatch_all(struct node *node);
/* Its ring was full: tried again as soon as it has room. */
void node_worker_no_room(struct node *node, struct node_worker *worker);
/* Into the worker's inbound ring. False = no room. */
bool node_send_task(struct node *node, struct node_client *client, struct node_task *task);

/* outcomes.c: a task that runs again is sent behind its logged outcomes, and what is dispatched after it
 * behind it. */
void node_send_in_order(struct node *node, struct node_client *client, struct node_task *task);
/* Sends those at the head whose outcomes are there. */
void node_send_held(struct node *node, struct node_worker *worker);
void node_worker_abandon_held(struct node_worker *worker);

/* workers.c */
void node_worker_spawn(struct node *node, uint32_t count);
void node_pool_step(struct node *node);
void node_worker_reap(struct node *node, uint32_t number);
/* Ends it with SIGKILL; the status and reason are those of the task that it ran. */
void node_worker_kill(
    struct node *node, struct node_worker *worker, enum mob_status status, const char *reason);
struct node_worker *node_worker_at(struct node *node, uint32_t number);
void node_worker_knows(struct node_worker *worker, uint32_t function_number);
/* Their records, at the node's own end, before the control store's client goes: what is still being read for
 * them is abandoned, and ends with it. */
void node_workers_free(struct node *node);
/* Markers that did not fit into a worker's ring. */
void node_workers_tick(struct node *node);
/* Heads of this job's tasks that workers were sent are kept for siblings no longer. */
void node_workers_forget_job(struct node *node, const struct node_job *job);
/* crowded.c: a worker could not be started because the segment has no room; one blocked more than may. */
void node_workers_crowded(struct node *node);
void node_worker_over_bound(struct node *node, struct node_worker *worker);
/* Of the worker whose end is being handled: gives the message, the signal and its last log lines (NULL, 0:
 * not asked for). */
const char *node_death_notice(struct node *node, int *signal_out, char *detail, size_t capacity);

/* node_events.c: deaths and starts, in the log */
void node_event_worker_died(struct node *node, uint32_t serial, pid_t pid, const char *why);
void node_event_worker_started(struct node *node, uint32_t serial, pid_t pid);
/* After the logs before this one are sealed: `previous` is the last of them (0: none), with so many blocks.
 */
void node_event_started(struct node *node, uint64_t previous, uint64_t blocks, int64_t deadline);
void node_event_stopped(struct node *node);

/* actors.c */
struct actor_table *actor_table_create(void);
void actor_table_destroy(struct actor_table *table);

/* Anything that the once-a-second tick is for? An idle node without it sleeps for ever. */
bool node_has_timers(const struct node *node);
MOB_MUST_USE enum mob_status node_pool_open(struct node *node);
/* Log bytes of a task or actor: answered when they were read. */
void node_logs(
    struct node *node, struct node_client *client, uint32_t request, const uint8_t *payload, uint32_t bytes);

/* requests.c */
void node_request(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes);

/* resolve.c: objects whose bytes are not here: directory look-up, restore, re-making from lineage */
/* Make the object ready here, or fail it; watchers and dependents hear of it through node_object_ready. */
void node_resolve(struct node *node, struct mob_object_id id);
/* A value from its bytes, into the store: in its entry when it is small. MOB_EXISTS, MOB_STORE_FULL. */
MOB_MUST_USE enum mob_status node_restore_value(struct node *node, struct mob_object_id id,
    enum mob_value_type type, const uint8_t *payload, uint64_t bytes);

/* fetch.c: reply to `request` once the object's bytes are in the store (or it cannot be). */
/* What a record that was taken names, and its maker has not sealed yet. False: there is nothing to seal. */
bool node_seal_for_maker(struct node *node, struct mob_object_id id);
void node_fetch(struct node *node, struct node_client *client, uint32_t request, struct mob_object_id id);

/* recover.c: what earlier incarnations left */
enum mob_status node_recover(struct node *node);

#endif
