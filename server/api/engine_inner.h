/* Inside of the production engine: what its files share. Everything in the engine's thread unless it says
 * otherwise.
 */
#ifndef MOB_SERVER_API_ENGINE_INNER_H
#define MOB_SERVER_API_ENGINE_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include <mobula/mobula.h>

#include "common/wire/block.h"
#include "gcs/client/client.h"
#include "sdk/c/embed.h"
#include "server/api/engine.h"
#include "server/api/engine_runtime.h"
#include "server/api/lineage.h"

#define ENGINE_JOBS_MAX 64
#define ENGINE_TIMERS_MAX 65536
#define ENGINE_DROPS_MAX 256u
/* Results up to this size go into JSON answers; larger ones are read at /objects/{id}/data. */
#define ENGINE_JSON_VALUE_MAX (256u << 10)
#define ENGINE_TROUBLE_BYTES 160u
#define ENGINE_ARGUMENT_BYTES_MAX (64u << 20)

struct engine;
struct errands;
struct job_errand;
struct room_wait;
struct whole;

/* Work for a thread beside the engine's (engine_errands.c). Its owner frees it, in `done` or later. */
struct errand {
    struct errand *next;
    void (*run)(struct errand *errand); /* in that thread */
    void (*done)(struct errand *errand); /* then, in the engine's */
};

/* An operation on its way through the runtime. */
struct flight {
    struct engine *engine;
    struct mob_engine_op *op;
    struct mob_client *client;
    struct flight *all_next, *all_prev; /* of the engine */
    struct flight *next; /* of an ack group */
    struct mob_future
        *future; /* what it waits for, owned; of a wait, and of what a batch submitted: futures */
    struct mob_future **futures;
    struct mob_waiter waiter, *waiters; /* on them; other flights may wait for the same object */
    struct mob_actor *actor;
    size_t ready_count;
    int64_t deadline_ns;
    size_t timer; /* place in the heap + 1; 0: none */
    void (*on_deadline)(struct flight *flight);
    unsigned step; /* of multi-step operations */
    void (*start)(struct flight *flight); /* when its key is claimed */
    struct mob_put_buffer *put; /* of a put that has not ended */
    void (*then)(struct flight *flight); /* when it has, or when the function of this name is known: */
    char *learns; /* owned */
    struct mob_task_id key_root; /* `keyed`: whose children its submissions are */
    bool keyed, key_again; /* again: an earlier run may have made them */
    void *context; /* the operation's own */
    struct more_returns *more; /* of a submission that waits for several */
    size_t next_item, submitted; /* of a batch: those before it are submitted, or failed; so many futures */
    uint64_t names_seen; /* of an actor's creation: engine->names_given when its name was asked for */
    bool claims_name; /* of an actor's creation: it was published under a name, which another may have got */
    bool acked, ack_wanted;
    bool end_asked; /* it was refused as of an ended job, and the acknowledgement tells */
    const char *ended; /* of a cancel that finds its task ended: how */
    struct batch *batch; /* of an inference call that has left */
};

/* A pinned value that a reply still sends from: comes back from any thread. */
struct pinned {
    struct pinned *next;
    struct engine *engine;
    struct mob_value *value;
    struct mob_client *client; /* `drop`: the object is nobody's any more when the value is let go */
    struct mob_object_id object;
    bool drop;
};

struct ack_group {
    struct engine *engine;
    struct flight *first;
    struct ack_group *next; /* that was asked for later */
    int64_t asked_ns;
};

struct session {
    struct mob_job_id job;
    struct mob_client *client;
    struct flight *to_ack; /* published since the last request for an acknowledgement */
    struct mob_object_id drops[ENGINE_DROPS_MAX]; /* of inference calls that have ended */
    uint32_t drop_count;
    bool in_epoll, ended;
};

struct function_name {
    struct function_name *next; /* of its bucket */
    struct mob_function_id id;
    char *name, *signature, *module_hash;
    bool is_class;
};

struct function_cache;
struct mob_losses;
struct held_block;
struct event_specs;
struct key_sweep;

#define ENGINE_KNOWN_ACTORS 1024 /* direct-mapped */
struct known_actor {
    struct mob_actor_id id;
    char class_name[256];
};

#define ENGINE_KNOWN_NODES 256u /* direct-mapped, by incarnation */
struct known_node {
    uint64_t incarnation;
    char name[MOB_GCS_NAME_MAX + 1u];
};

/* Where the engine's thread sleeps (engine_sleep.c). */
struct engine_rest {
    _Atomic int state;
    struct mob_client *bell_of; /* on whose doorbell; NULL: on `bell` */
    _Atomic uint32_t bell;
    _Atomic uint32_t readable; /* a descriptor is, and the engine has not read it yet */
    int stop_fd;
    pthread_t thread; /* waits for descriptors */
};

/* engine_silence.c: how long the control store has not answered though its links are up */
struct engine_silence {
    bool asked[MOB_GCS_SHARDS_MAX]; /* a write of ours waits there */
    int64_t acked_ns; /* when the node last said that something is acknowledged, or cannot be */
    _Atomic int64_t since_ns; /* 0: it answers, or has not been asked */
};

struct engine {
    struct mob_engine base;
    struct mob_engine_runtime_options options;
    pthread_t thread;
    int epoll_fd; /* of what comes seldom */
    struct engine_rest rest;
    _Atomic(struct mob_engine_op *) inbox;
    _Atomic(struct pinned *) returned;
    _Atomic uint32_t queued;
    _Atomic bool stopping, is_ready;
    struct ack_group *acks,
        **acks_end; /* that were asked for, the oldest first; the end only while there is one */
    _Atomic int64_t unacked_since_ns; /* that was asked; 0: nothing waits */
    _Atomic bool events_wanted;
    _Atomic bool events_behind; /* a reader of the past is there */
    _Atomic bool events_unwanted;
    struct session sessions[ENGINE_JOBS_MAX + 1]; /* the first is the standing job's */
    size_t session_count;
    int64_t retry_connect_ns, next_second_ns, sweep_keys_ns;
    struct mob_gcs *gcs;
    struct mob_losses *losses; /* of it; engine_lost.c */
    int64_t gcs_next_ns, alive_checked_ns;
    struct engine_silence silence;
    int64_t away_asked_ns; /* engine_away.c */
    char away_why[200];
    bool away_asked;
    bool alive;
    bool gcs_up;
    _Atomic int64_t gcs_away_since_ns; /* 0: gcs_up */
    struct flight **timers;
    size_t timer_count;
    struct flight *all;
    size_t flights;
    struct function_cache *functions;
    bool closing;
    struct event_source {
        struct engine *engine;
        struct mob_gcs_sub *subscription; /* NULL: none */
    } event_sources[MOB_GCS_SHARDS_MAX]; /* the shards */
    uint64_t events_serial; /* of the newest wish for events */
    struct held_block *held, **held_end; /* blocks of the subscription that wait, for the first one's needs */
    size_t held_count;
    uint64_t held_serial; /* of what was asked for the first one, which is */
    bool held_waits; /* on its way */
    struct event_specs *event_specs;
    struct history *history; /* engine_history.c */
    int64_t history_next_ns; /* to look for readers of the past; INT64_MAX: when there is one */
    struct key_sweep *key_sweep;
    uint64_t key_bytes_swept, key_bytes_since; /* engine_keys.c */
    struct mob_block_decoder *event_decoder, *decoder;
    struct engine_models *models;
    struct known_actor actors[ENGINE_KNOWN_ACTORS];
    struct known_node nodes[ENGINE_KNOWN_NODES];
    struct errands *errands;
    struct job_errand *joins; /* on their way */
    struct { /* engine_room.c */
        struct room_wait *first, *last;
        const struct flight *trying; /* the first one's, while it tries; */
        bool missed; /* it found none */
    } room;
    struct { /* engine_whole.c */
        struct whole *first, *last;
        uint32_t running, waiting;
        int64_t rests_until_ns;
    } wholes;
    int64_t store_looked_ns; /* whether the control store takes writes (engine_ready.c); 0: not yet */
    bool store_looking;
    char store_trouble[ENGINE_TROUBLE_BYTES]; /* what was found then; "": it does */
    uint64_t names_given; /* to actors, by creations that were published */
    uint64_t worked; /* counts what was done, to know when to sleep */
};

/* engine_flight.c */
struct flight *flight_create(struct engine *engine, struct mob_engine_op *op);
/* Answers its operation and frees it. */
void flight_done(struct flight *flight);
void flight_fail(struct flight *flight, enum mob_status status, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* engine_lost.c: neither the node nor a log knows it: MOB_NOT_FOUND "no such `what`", or MOB_LOST_UNCOMMITTED
 * when the control store has named a loss that it may have been in. `what` stays. */
void flight_fail_unknown(struct flight *flight, const char *what);
/* With the node's reply to a question that failed: words. */
void flight_fail_reply(struct flight *flight, enum mob_status status, const char *text, size_t size);
/* Done, with this as its JSON. Takes value. */
void flight_done_json(struct flight *flight, json_t *value);
/* Calls back when flight->future is ready, unless the flight has ended before. */
MOB_MUST_USE enum mob_status flight_listen(
    struct flight *flight, void (*callback)(struct mob_future *future, void *flight));
/* mob_query_async for a flight, which is the callback's argument. */
void flight_ask(struct flight *flight, const char *what, const char *subject,
    void (*callback)(void *arg, enum mob_status, const char *json, size_t size));
void flight_set_deadline(
    struct flight *flight, int64_t deadline_ns, void (*on_deadline)(struct flight *flight));
void flight_clear_deadline(struct flight *flight);
void engine_run_deadlines(struct engine *engine, int64_t now);

/* engine_sleep.c */
MOB_MUST_USE enum mob_status engine_rest_start(struct engine *engine);
void engine_rest_stop(struct engine *engine); /* `stopping` is set */
/* Any thread: there is something new in what engine_sleep looks at. */
void engine_ring(struct engine *engine);
void engine_sleep(struct engine *engine, int64_t deadline_ns);
/* A descriptor is readable; then, that it has been read. */
bool engine_descriptor_news(struct engine *engine);
void engine_descriptors_read(struct engine *engine);

/* engine_errands.c */
MOB_MUST_USE enum mob_status engine_errands_start(struct engine *engine);
void engine_errand(struct engine *engine, struct errand *errand);
bool engine_errands_news(const struct engine *engine);
void engine_errands_step(struct engine *engine);
/* What was begun ends, and is done, before this returns. */
void engine_errands_stop(struct engine *engine);
void engine_errands_end(struct engine *engine);

/* engine_room.c */
/* The store was full for this flight: `again` when there is room, and so on, or `refused` with the node's
 * words (NULL: the flight fails with them). */
void flight_want_room(struct flight *flight, void (*again)(struct flight *flight),
    void (*refused)(struct flight *flight, enum mob_status status, const char *text, size_t size));
/* Does somebody wait for room, and is it not his turn to try now? */
bool engine_room_is_awaited(const struct engine *engine);
void engine_room_end(struct engine *engine);

/* engine_puts.c */
/* Puts the value, of which what it points to stays until `then`; flight->future is the put's. */
void engine_put(struct flight *flight, const struct mob_arg *value, void (*then)(struct flight *flight));
void engine_start_object_put(struct flight *flight);

/* engine_jobs.c */
void engine_start_job_open(struct flight *flight);
void engine_start_job_end(struct flight *flight);
void engine_job_has_ended(struct flight *flight);
/* There is no session of this job: calls `then` when there is one, or fails the flight. */
void engine_job_join(struct flight *flight, struct mob_job_id id, void (*then)(struct flight *flight));
/* Once a second: sessions of jobs that have ended go. */
void engine_jobs_tick(struct engine *engine);

/* engine_runtime.c */
/* Done when everything its session published so far is acknowledged: `flight->acked`, then flight_acked. */
void flight_want_ack(struct flight *flight);
void engine_ask_for_acks(struct engine *engine, int64_t now); /* for all that want one */
void engine_forget_acks(mob_answer_fn *answer, void *arg); /* for mob_asks_forget: frees if it is its own */
void engine_watch_session(struct engine *engine, struct session *session);
struct session *engine_session(struct engine *engine, bool has_job, struct mob_job_id job);
/* The error of a call on `client` that failed. */
void flight_fail_client(struct flight *flight, enum mob_status status, const char *pointer);
/* The same of a submission: MOB_TYPE_MISMATCH points at the argument that is meant, others at `pointer`. */
void flight_fail_submission(struct flight *flight, enum mob_status status, const char *pointer);

/* engine_keys.c */
/* Calls `start` when the operation's key is this operation's, unless that ends the flight. */
void engine_key_claim(struct flight *flight, void (*start)(struct flight *flight));
void engine_start_key_keep(struct flight *flight);
/* Around each submission or put of an operation that may have a key. */
void engine_key_use(const struct flight *flight, uint32_t index);
void engine_key_unused(const struct flight *flight);
/* Drops rows of keys that are old; now and then. */
void engine_keys_sweep(struct engine *engine, int64_t now);
/* Behind the end of the control store's client. */
void engine_keys_end(struct engine *engine);

/* engine_tasks.c */
void engine_start_submit(struct flight *flight);
void engine_start_batch(struct flight *flight);
void engine_acked(struct flight *flight);

/* engine_ends.c */
void engine_start_cancel(struct flight *flight);
void engine_start_actor_delete(struct flight *flight);

/* engine_objects.c */
void engine_start_object_get(struct flight *flight);
void engine_start_object_delete(struct flight *flight);
/* The node has nothing of this id, and no log knows it. */
bool engine_never_was(struct mob_future *future);
/* It is told as failed because the node can say nothing of it now: the control store does not answer, or the
 * object store is full. */
bool engine_not_now(struct mob_future *future);
/* Fills the error of an op from a failed future. */
void engine_future_error(struct mob_engine_op *op, struct mob_future *future);
void engine_drop_returned(struct engine *engine);
/* A value that another thread may read until it gives it back (from any thread). */
struct pinned *engine_pin(struct engine *engine, struct mob_value *value);
void engine_give_back(struct pinned *pinned);

/* engine_wait.c */
void engine_start_object_wait(struct flight *flight);
/* Frees what it would have been answered with, if it was a wait that asked. */
void engine_wait_forget(mob_answer_fn *answer, void *arg);

/* engine_values.c */
struct argument_memory; /* what converted arguments borrow from */
struct argument_memory *argument_memory_create(void);
void argument_memory_destroy(struct argument_memory *memory);
/* JSON arguments to values by a signature. The error is set in `error` with the pointer `prefix`/i. */
enum mob_status engine_arguments(struct mob_client *client, const struct mob_signature *signature,
    const json_t *array, const char *prefix, struct argument_memory *memory, struct mob_args *out,
    struct mob_engine_error *error);
/* JSON text of a value, NULL if it is too large. */
char *engine_value_json(const struct mob_value *value);
const char *engine_media_of(enum mob_value_type type);
enum mob_status engine_npy_to_tensor(const void *bytes, size_t size, struct mob_tensor *out);

/* engine_functions.c: names and signatures of functions, kept here because the log has ids only */
void engine_start_function_put(struct flight *flight);
void engine_start_function_delete(struct flight *flight);
/* The node's functions are read again; then (may be NULL) `then` is called, exactly once unless the engine
 * ends; at once if the node cannot be asked. */
void engine_functions_refresh(struct engine *engine, void (*then)(void *arg), void *arg);
void engine_functions_end(struct engine *engine);
/* Asks the node for the function or class of this name, if it was not asked a moment ago; then calls `then`,
 * which may resolve it without waiting. */
void engine_function_learn(struct flight *flight, const char *name, void (*then)(struct flight *flight));
/* NULL: not known here. */
const struct function_name *engine_function_of(struct engine *engine, struct mob_function_id id);
/* Every function of this name, and classes of whose methods it may be one, of those that are known here: the
 * first `max` of them; how many there are. Letter case does not matter, as in filters. */
size_t engine_functions_named(
    struct engine *engine, const char *name, struct mob_function_id *out, size_t max);
/* Not known here, and reading again may help: the node was not asked since, or not for a while. */
bool engine_function_is_missing(struct engine *engine, struct mob_function_id id);

/* engine_queries.c: the node's answers, and rows of the control store */
void engine_start_describe(struct flight *flight);
void engine_start_list(struct flight *flight);
void engine_start_why(struct flight *flight);
void engine_start_cluster(struct flight *flight);
/* engine_find.c: was this id ever? The node is asked, then the log. `found` is called once, unless the
 * control store does not answer, which ends the flight; all that it is given is borrowed until it returns. */
enum engine_known {
    ENGINE_NEVER,
    ENGINE_UNFINISHED, /* the node has it, or the log has its spec and no final completion */
    ENGINE_FINISHED
};
enum engine_find_how {
    ENGINE_FIND_LIVE, /* for what only a live task can: the log is read if the node does not have it */
    ENGINE_FIND_RECORD,
    ENGINE_FIND_CALLS /* of an actor's creation: its record, and the edges of its calls */
};
struct engine_found {
    enum engine_known known;
    const json_t *live; /* the node's word; NULL: it does not have it */
    const struct task_record *record; /* NULL: in no log, or not read */
    const struct lineage_set *set;
};
void engine_find(struct flight *flight, struct mob_task_id id, enum engine_find_how how,
    void (*found)(struct flight *flight, const struct engine_found *found));
/* The same for an object: the record of its task, with what the log knows of this put. */
void engine_find_object(struct flight *flight, struct mob_object_id id,
    void (*found)(struct flight *flight, const struct engine_found *found));
/* What was found is no actor: another task, or nothing (flight_fail_unknown). */
void engine_fail_no_actor(struct flight *flight, const struct engine_found *found);
/* Is (or was) this id an actor's creation? */
bool engine_is_actor(const struct engine_found *found);
void engine_describe_task(struct flight *flight, struct mob_task_id id);
/* Of an actor that the node does not know any more: what the log says of it. */
void engine_describe_ended_actor(struct flight *flight, struct mob_actor_id id);

/* engine_nodes.c */
/* NULL: not known, or not yet. */
const char *engine_node_name(const struct engine *engine, uint64_t incarnation);
/* Asks for it, then calls `then` once, perhaps inside of this call; it may still be unknown. */
/* In words, while the node is not connected. */
const char *engine_away_why(struct engine *engine);
void engine_node_learn(struct engine *engine, uint64_t incarnation, void (*then)(void *arg), void *arg);

/* engine_silence.c: once a second, behind the control store's step */
void engine_silence_tick(struct engine *engine, int64_t now);

/* engine_items.c */
void engine_start_items(struct flight *flight);
/* The items of the generator that this flight submitted, and which has ended, as a JSON array; NULL: they are
 * too many or too large for it. `then` frees it. */
#define ENGINE_STREAM_VALUES_MAX 1000u
void engine_stream_values(
    struct flight *flight, uint32_t count, void (*then)(struct flight *flight, char *json));
/* engine_lineage.c */
struct lineage_names engine_names(struct engine *engine);
enum { ENGINE_FULL_NAME_MAX = 640 };
/* "module.function", and of an actor's call "module.Class.method"; "" when it is not known. */
void engine_full_name(struct engine *engine, struct mob_function_id id, uint8_t kind, uint16_t method,
    char *out, size_t capacity);
void engine_start_lineage(struct flight *flight);

/* engine_lists.c: tasks, and objects */
void engine_list_tasks(struct flight *flight);
/* The same, but children of a task from the log, too. */
void engine_list_log(struct flight *flight);
/* engine_children.c: false, and nothing was done: it is not a list of a task's children, or one that goes on
 * in the log */
bool engine_list_children(struct flight *flight);
/* engine_failures.c: false, and nothing was done: it is not a list of failed or cancelled tasks, newest first
 */
bool engine_list_failures(struct flight *flight);
/* engine_timeline.c */
void engine_start_timeline(struct flight *flight);

/* engine_metrics.c */
void engine_start_metrics(struct flight *flight);

/* engine_ready.c */
void engine_start_ready(struct flight *flight);

/* engine_logs.c */
void engine_start_logs(struct flight *flight);

/* engine_events.c */
void engine_events_step(struct engine *engine);
void engine_events_unsubscribe(struct engine *engine);
/* Blocks that are held back are dropped. */
void engine_events_end(struct engine *engine);

/* engine_history.c */
MOB_MUST_USE enum mob_status engine_history_create(struct engine *engine);
void engine_history_destroy(struct engine *engine);
void engine_history_step(struct engine *engine, int64_t now_ns);

/* engine_models.c */
enum mob_status engine_models_create(struct engine *engine);
void engine_models_destroy(struct engine *engine);
void engine_start_endpoint_put(struct flight *flight);
void engine_start_endpoint_delete(struct flight *flight);
/* engine_batches.c */
void engine_start_infer(struct flight *flight);
/* Lets batches leave; returns when to be called again. */
int64_t engine_models_step(struct engine *engine, int64_t now_ns);
/* Reads the endpoints that there are, unless it was done. To be called again until it is. */
void engine_models_load(struct engine *engine);
bool engine_models_loaded(const struct engine *engine);
/* engine_orphans.c: about once a second. */
void engine_orphans_tick(struct engine *engine, int64_t now);
/* They have not been read yet: the flight has failed, with MOB_UNAVAILABLE. */
bool engine_models_unknown(struct flight *flight);
/* Array of all endpoints; a new reference. */
json_t *engine_models_json(struct engine *engine);

/* engine_infer.c: one call of a model's actor for a batch of requests. */
struct engine_infer_call {
    struct engine *engine;
    struct mob_client *client;
    const struct mob_infer_request *const *requests;
    size_t request_count;
    uint32_t tensor_count;
    uint64_t rows;
    bool batched;
    /* its own */
    struct mob_object_id inputs[MOB_MODEL_TENSORS_MAX];
    uint32_t input_count;
    struct mob_future *refs[MOB_MODEL_TENSORS_MAX];
};
enum mob_status engine_infer_send(struct engine_infer_call *call, struct mob_actor *actor,
    const struct mob_function *class, struct mob_future **futures_out);
/* When the call has ended: its inputs go. */
void engine_infer_drop(struct engine_infer_call *call);
/* Nobody needs this input or output any more: the node hears of it with the next flush, once a round. */
void engine_infer_drop_object(struct engine *engine, struct mob_client *client, struct mob_object_id id);
void engine_infer_flush_drops(struct engine *engine);
void engine_ignore_reply(void *arg, enum mob_status status, const char *text, size_t size);

#endif
