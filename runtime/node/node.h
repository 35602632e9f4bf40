/* mobula-node: the process that wires segment, local scheduler, worker pool, lineage log and actors of one
 * machine.
 *
 * One thread, one loop (node.c: node_loop). Each pass takes what the clients published (intake.c), in ticket
 * order, appends it to the lineage log, feeds the local scheduler, carries out its decisions (dispatch.c),
 * and tells clients what became ready (notices.c). Here are the node itself, its jobs, workers and clients;
 * tasks are in task.h. Everything here is private to runtime/node; all functions are for the node's thread.
 */
#ifndef MOB_RUNTIME_NODE_NODE_H
#define MOB_RUNTIME_NODE_NODE_H

#include <sys/types.h>

#include "common/base/listener.h"
#include "common/wire/record.h"
#include "common/wire/session.h"
#include "gcs/client/client.h"
#include "gcs/life/node_life.h"
#include "runtime/node/job_list.h"
#include "runtime/node/driver_process.h"
#include "runtime/node/lineage_log.h"
#include "runtime/node/room_pool.h"
#include "runtime/node/shadow_table.h"
#include "runtime/node/strangers.h"
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
    uint32_t dead_actors_max; /* that are remembered; 0 = the default (actors.h) */
    int64_t look_up_patience_ns; /* with a lineage that does not answer (directory.h); 0 = the default */
};

enum job_state { JOB_RUNNING = 1, JOB_GRACE = 2, JOB_ENDED = 3 };
/* So long may a driver stay away before its job ends, if it can come back: under its idempotency key, or as
 * the process that it is after a restart of the node. */
#define NODE_DRIVER_GRACE_NS (600 * 1000000000ll)
#define JOB_NO_NUMBER UINT16_MAX
#define NODE_JOB_BUCKETS 1024u
struct node_job {
    struct node_job *next, *prev; /* of those that run, or of those that have ended */
    struct node_job *next_of_bucket; /* of the index by id */
    struct mob_job_id id;
    char ns[MOB_NAMESPACE_MAX];
    char name[64];
    enum job_state state;
    bool standing, detached, deleted;
    bool ageing, aged; /* its lineage is being dropped; is all gone */
    bool dropped; /* some of it went, since the last turn */
    bool calls; /* has called actors, since the node started */
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
    int64_t ageing_end_wall_ns; /* the end of its for which lineage is being dropped */
    uint64_t submitted, finished, failed;
    struct mob_task_id root;
};

/* A function or actor class that tasks may name. */
struct node_function {
    struct node_function *next, *next_named;
    struct mob_function_id id;
    struct mob_module_hash module;
    char *name; /* "module.function" */
    char *signature; /* of a class: "constructor\nmethod signature\n..." */
    uint16_t kind; /* enum mob_task_kind: TASK or ACTOR_CREATE */
    uint16_t method_count;
    uint16_t flags; /* as its module gives them: MOB_FUNCTION_DETERMINISTIC */
    uint8_t *reads; /* of a class: bit i of byte i / 8 says that method i is read-only; NULL = none is */
    uint32_t reads_bytes;
    uint32_t number; /* dense, for the workers' sets of known functions */
    bool newest;
    bool leaving; /* its module is being deleted: no new task gets it */
    bool gone; /* it was; the record stays, since ended tasks and actors may point to it */
};

struct node_task; /* task.h */
struct node_task_extra;
struct node_template;

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
    bool comes_again; /* so it said before its session was over: MOB_SESSION_AGAIN */
    bool ending; /* closing, and its end stands in the lane */
    bool damaged; /* its ring gave what does not parse, or cannot be answered: the rest is not taken */
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
struct below_due;
struct below_facts;
struct function_table;
struct deployment;
struct watch_table;
struct actor_table;
struct borrow_table;
struct durable_puts;
struct awaited_puts;
struct checkpoint_wait;
struct checkpoint_reading;
struct checkpoint_sweep;
struct large_hashes;
struct recovery;
struct lane;
struct node_stored_return;
struct known_table;
struct mob_losses;
struct known_question;
struct row_write;
struct row_first;
/* row_writes.h */
struct row_writes {
    struct row_write *first, **end;
    struct row_first *firsts, **firsts_end; /* what the log waits for, the oldest first */
};
struct group_read;
/* Reads of the lineage: those that run, and those that wait for their turn. */
struct group_reads {
    struct group_read *first, **end;
    struct group_read *failed, **failed_end; /* to be asked again, the earliest first */
    struct group_read *all; /* asked for and not ended */
    uint32_t running;
    bool unavailable; /* the last that ended a read: nobody reads PostgreSQL for the control store */
};

struct node {
    struct node_options options;
    struct mob_cluster_id cluster;
    uint64_t incarnation;
    struct mob_node_life *life; /* where that comes from, and who finds out that it is over */
    int epoll_fd, signal_fd;
    struct mob_listener listener;
    struct node_strangers strangers;
    struct mob_store *store;
    struct mob_sched *sched;
    struct mob_pool *pool;
    struct mob_gcs *gcs;
    struct mob_losses *losses; /* of it: what an id that nobody knows may have been in */
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
    struct job_list jobs; /* that have not ended */
    struct job_list
        ended_jobs; /* thousands, until their retention is over: deleted ones first, then by end */
    struct node_job *job_buckets[NODE_JOB_BUCKETS]; /* both by id */
    bool jobs_in_grace; /* perhaps; never false when there is one */
    struct node_job *last_job; /* last found */
    struct function_table *functions;
    struct deployment *deployments; /* on their way */
    struct registration *registrations; /* those whose modules were described, in their order */
    struct watch_table *watches;
    struct alias_table *aliases;
    struct borrow_table *borrows;
    struct node_promise *promises;
    uint32_t promise_count;
    struct actor_table *actors;
    struct actor_refs *actor_refs;
    struct shadow_table shadows;
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
    struct checkpoint_sweep *checkpoint_sweep;
    struct large_hashes *large_hashes;
    struct recovery *recovery;
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
    uint32_t quiet_passes; /* without records, one after the other */
    uint64_t passes, submitted, finished, failed, retried, duplicates;
    struct below *below; /* cancels of what runs below ended tasks; NULL = none */
    struct below_due *below_due; /* tasks whose cancel is to reach below ended ones, by the next walk */
    uint32_t below_due_count, below_due_capacity;
    uint32_t below_due_looked; /* so many of them wait for a walk that is under way */
    struct below_facts *below_facts; /* of the walk before; NULL = none */
};

/* session.c: drivers and the gateway */
MOB_MUST_USE enum mob_status node_listen(struct node *node);
void node_accept(struct node *node);
void node_accept_tick(struct node *node);
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

/* cancel.c */
/* A client asks for it. Of one that has ended by itself what runs below it is cancelled (cancel_below.h). */
void node_cancel(struct node *node, const struct node_client *client, const struct mob_out_cancel *cancel);
/* A restart of the node knows it: of what lives below then nothing runs. */
void node_cancel_log(struct node *node, const struct node_job *job, const struct mob_out_cancel *cancel);
/* The scheduler asks a worker to stop this task: if that is for a cancel, a restart of the node knows it too.
 */
void node_cancel_note_stop(struct node *node, struct node_task *task, enum mob_status why);

/* promises.c: puts whose values come later */
bool node_promise_make(struct node *node, const struct node_client *client, struct mob_object_id id);
bool node_promised(const struct node *node, struct mob_object_id id);
void node_promise_kept(struct node *node, struct mob_object_id id);
void node_promises_broken(struct node *node, const struct node_client *client);

/* node_events.c: deaths and starts, in the log */
void node_event_worker_died(struct node *node, uint32_t serial, pid_t pid, const char *why);
void node_event_worker_started(struct node *node, uint32_t serial, pid_t pid);
/* After the logs before this one are sealed: `previous` is the last of them (0: none), with so many blocks.
 */
struct mob_recover_row;
/* All that it left has an owner: this incarnation. */
void node_event_recovered(struct node *node, const struct mob_recover_row *row);
void node_event_started(struct node *node, uint64_t previous, uint64_t blocks, int64_t deadline);
void node_event_stopped(struct node *node);

/* actor_table.c */
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
