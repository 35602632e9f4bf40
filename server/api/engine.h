/* What the HTTP routes ask of the runtime: one asynchronous operation at a time, never a blocking call.
 *
 *   struct mob_engine_op *op = mob_engine_op_create(MOB_ENGINE_SUBMIT, done, request);
 *   op->submit.function = strdup("arith.add"); op->submit.arguments = json_incref(args);
 *   mob_engine_post(engine, op);                  // takes op; `done(op)` comes later, exactly once
 *
 * The production engine (engine_runtime.c) is a client of the runtime through sdk/c and gcs/client: one
 * thread owns both connections, an eventfd mailbox carries operations to it, and it wakes once for a batch.
 * Tests of the HTTP layer have a fake engine. An engine that has lost the runtime answers MOB_UNAVAILABLE and
 * reconnects by itself.
 *
 * Threads: mob_engine_post and mob_engine_ready from any; callbacks run in the engine's thread and must not
 * block. Ownership: post takes the op; the callback `done` takes it back and frees it with
 * mob_engine_op_destroy. All strings and JSON in an op are the op's own. JSON values passed in belong to the
 * op alone (jansson's counters are not atomic in all builds), so build them for it. Limits:
 * MOB_ENGINE_QUEUE_MAX operations in the mailbox, then MOB_QUEUE_FULL at once.
 */
#ifndef MOB_SERVER_API_ENGINE_H
#define MOB_SERVER_API_ENGINE_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/status.h"
#include "common/wire/option_bounds.h"
#include "server/http/text.h"
#include "server/serve/batch.h"
#include "server/serve/infer.h"
#include "server/serve/model.h"

/* 16,384 requests in flight, each at most one op in the mailbox, twice for slack. */
#define MOB_ENGINE_QUEUE_MAX 32768
#define MOB_ENGINE_BATCH_MAX 1000
#define MOB_ENGINE_WAIT_IDS_MAX 10000

enum mob_engine_verb {
    MOB_ENGINE_SUBMIT, /* submit */
    MOB_ENGINE_BATCH, /* batch */
    MOB_ENGINE_OBJECT_GET, /* object: state, and value if ready; waits until `wait_deadline_ns` for ready */
    MOB_ENGINE_OBJECT_WAIT, /* wait */
    MOB_ENGINE_OBJECT_PUT, /* put: done when the GCS has acknowledged it */
    MOB_ENGINE_OBJECT_DELETE, /* id */
    MOB_ENGINE_TASK_CANCEL, /* id */
    MOB_ENGINE_ACTOR_DELETE, /* id */
    MOB_ENGINE_FUNCTION_PUT, /* upload */
    MOB_ENGINE_FUNCTION_DELETE, /* query.id: a module's hash, or name@hash */
    MOB_ENGINE_JOB_OPEN, /* job */
    MOB_ENGINE_JOB_END, /* id, purge */
    MOB_ENGINE_ENDPOINT_PUT, /* endpoint */
    MOB_ENGINE_ENDPOINT_DELETE,
    MOB_ENGINE_INFER, /* infer: a read-only actor call; its bodies never enter the GCS */
    /* The rest answer with JSON text in op->json: the item itself, or {"items":[..],"next_cursor":..,..} */
    MOB_ENGINE_DESCRIBE, /* query: one item of a kind by id or name */
    MOB_ENGINE_LIST, /* query */
    MOB_ENGINE_WHY, /* query.id: why this task waits */
    MOB_ENGINE_ITEMS, /* query: items of a generator from the cursor on; waits for the next one */
    MOB_ENGINE_LINEAGE, /* query: tree of producers, depth-bounded, paged */
    MOB_ENGINE_TIMELINE, /* query: Chrome trace JSON */
    MOB_ENGINE_LOGS, /* query: bytes of a task's or actor's log from query.offset, in op->json */
    MOB_ENGINE_CLUSTER, /* resources total and free */
    MOB_ENGINE_METRICS, /* of the control store, as text in op->json */
    MOB_ENGINE_READY, /* fails with why the control store takes no writes, as far as its tails know */
    MOB_ENGINE_KEY_KEEP /* key: its answer is kept */
};

enum mob_engine_kind {
    MOB_ITEM_TASK,
    MOB_ITEM_OBJECT,
    MOB_ITEM_ACTOR,
    MOB_ITEM_FUNCTION,
    MOB_ITEM_JOB,
    MOB_ITEM_NODE,
    MOB_ITEM_ENDPOINT
};

/* A failed operation, or a failed task. Strings may be NULL. */
struct mob_engine_error {
    enum mob_status status;
    char *detail; /* one sentence with the numbers in it */
    char *pointer; /* JSON pointer into the request body, for 422 */
    char *failure_json; /* of the task or object that it tells of, as in common/wire/failure_json.h */
    unsigned retry_after_s;
};

/* Options of a task or of an actor's creation; zero means default. Quantities in 1/10000. */
struct mob_engine_resource {
    char *name;
    uint64_t amount;
};
struct mob_engine_options {
    char *name;
    char *idempotency_key;
    char *actor_name; /* actor creation: claim this name */
    bool return_existing; /* actor creation: if_exists=return */
    bool detached;
    uint32_t num_returns; /* 0: as the signature says */
    int32_t max_retries; /* meaningful if has_max_retries */
    bool has_max_retries, retry_on_error;
    int32_t max_restarts;
    bool has_max_restarts;
    int32_t priority;
    int64_t timeout_ms, delay_ms; /* from now; 0: none */
    int64_t backoff_initial_ms, backoff_max_ms; /* between retries; 0: the default */
    bool deterministic, restart_on_divergence;
    uint32_t checkpoint_every; /* actor creation */
    struct mob_engine_resource *resources;
    size_t resource_count;
    char *labels[MOB_LABELS_MAX]; /* key=value */
    size_t label_count;
    struct mob_job_id job; /* zero: the namespace's standing job */
    bool has_job;
    char traceparent[56]; /* W3C trace context, "": none */
};

enum mob_engine_object_state {
    MOB_OBJ_PENDING,
    MOB_OBJ_READY,
    MOB_OBJ_FAILED,
    MOB_OBJ_EVICTED,
    MOB_OBJ_RECONSTRUCTING,
    MOB_OBJ_LOST
};
const char *mob_engine_object_state_name(enum mob_engine_object_state state);

/* A committed value. The payload is borrowed until `release(release_cls)`, which may run in any thread; NULL
 * release: it lives in the op. */
struct mob_engine_value {
    enum mob_engine_object_state state;
    const char *type; /* "i64", "utf8", "tensor", ...; static */
    const char *media_type; /* of the raw payload; static */
    const void *payload;
    size_t size;
    uint64_t hash_lo, hash_hi; /* XXH3-128 of the payload, where it is wanted and known; else 0 */
    void (*release)(void *cls);
    void *release_cls;
    char *json; /* the value as JSON when it has such a form and was asked for, else NULL */
};

struct mob_engine_op;
struct mob_http_request;
struct flight;

enum mob_engine_call { MOB_CALL_TASK, MOB_CALL_ACTOR_CREATE, MOB_CALL_ACTOR_METHOD };

struct mob_engine_submit {
    enum mob_engine_call call;
    char *function; /* "module.name[@hash]", an actor class, or a method's name */
    struct mob_actor_id actor; /* of a method call */
    json_t *arguments; /* array; {"$object": "obj_.."} is an object id */
    struct mob_engine_options options;
    int64_t wait_deadline_ns; /* 0: done when the GCS has acknowledged the spec. Else done when the result is
                                 there, or then, with value.state MOB_OBJ_PENDING */
    /* out */
    bool accepted; /* acknowledged: an error is the task's own, not the submission's */
    struct mob_task_id task;
    uint32_t return_count;
    bool is_stream,
        stream_ended; /* a generator: how many items it gave is in return_count when it has ended */
    bool existed; /* a named actor that was there already */
    struct mob_engine_value value; /* when it waited: of the first return, as JSON if it has that form */
    char *results_json; /* of a task with several returns: all of them, what is too large by its id */
};

/* One function with rows of arguments, or items of their own. */
struct mob_engine_batch {
    char *function; /* with rows */
    json_t *rows; /* array of argument arrays, or NULL */
    json_t *items; /* array of {function, arguments, options}, or NULL */
    struct mob_engine_options options;
    /* results in order; `errors` is NULL when all were accepted */
    size_t count;
    struct mob_task_id *tasks;
    uint32_t *return_counts;
    struct mob_engine_error *errors;
};

struct mob_engine_object {
    struct mob_object_id id;
    int64_t wait_deadline_ns; /* 0: no waiting */
    bool want_json, want_payload;
    struct mob_engine_value value;
};

struct mob_engine_wait {
    struct mob_object_id *ids;
    size_t count, num_returns;
    int64_t deadline_ns;
    bool *ready; /* filled by the engine */
};

struct mob_engine_put {
    char *type; /* value type: "bytes", "json", "table", "tensor", "pickle5", "utf8" */
    const void *payload; /* borrowed from the parked request until done */
    size_t size;
    char *idempotency_key;
    bool has_job;
    struct mob_job_id job;
    struct mob_object_id id; /* out */
    size_t value_bytes; /* out: of the object, which for npy is another form of the same numbers */
};

struct mob_engine_upload {
    char *name;
    const void *bytes; /* borrowed from the parked request until done */
    size_t size;
    bool created; /* out: false if that hash was there */
};

struct mob_engine_job {
    char *name, *metadata_json;
    uint32_t weight;
    bool detached;
    struct mob_job_id id; /* out */
};

struct mob_engine_endpoint {
    char *name, *actor_class;
    json_t *arguments;
    uint32_t max_batch_size, max_queue_delay_us; /* 1 and 0: no batching */
    uint32_t timeout_ms; /* for a call */
    bool only_new, only_existing; /* it must not be there yet, or must be */
    bool created, other_than_wanted; /* out; the latter: nothing was done, for one of the two */
};

/* One call of a model: its request, parsed (server/serve/infer.h). Calls of a model that wait together run as
 * one batch. */
struct mob_engine_infer {
    struct mob_model *model; /* held */
    struct mob_infer_request *request; /* the op's own */
    struct mob_batch_entry entry; /* the batcher's */
    struct flight *flight; /* the engine's */
    struct mob_infer_tensor *outputs; /* out: by the model's output order; data belongs to `result` */
    struct mob_infer_result *result; /* out: held; shared by the calls of one batch */
};

#define MOB_CURSOR_TAG_MAX 9 /* cursor.h; with its NUL */

struct mob_engine_query {
    enum mob_engine_kind kind;
    char *id; /* text form or name */
    char *filter, *sort;
    char *cursor; /* without its tag; out: of the next page, with it (mob_engine_next_cursor) */
    uint64_t scope; /* of its cursors (cursor.h) */
    uint32_t limit, depth;
    uint64_t offset;
    int64_t from_us, to_us, wait_deadline_ns;
    bool follow, force;
    bool purge; /* of a job that has ended: its history */
    uint32_t attempt; /* of a task's log; 0: all */
    uint64_t total; /* out: size of a log */
    bool ended; /* out: the log will not grow */
};

/* The Idempotency-Key of an operation. The engine claims it before it begins, and all ids that the operation
 * makes follow from it: run again, by this process or another, it finds what it made. */
struct mob_engine_key {
    struct mob_module_hash scope; /* of principal, method, path and key */
    struct mob_module_hash body; /* of the request's body */
    /* In the engine's thread, before anything is made: the control store has given the key to this body. */
    void (*decided)(const struct mob_engine_key *key);
    void *decided_cls;
    /* out */
    bool other_body; /* the operation failed with MOB_INVALID: the key stands for another request */
    bool again; /* it was claimed before, for the same body */
    bool replayed; /* nothing was run: `answer` is what was answered before */
    uint8_t *answer; /* owned. Of MOB_ENGINE_KEY_KEEP: in */
    size_t answer_length;
    /* the engine's */
    uint64_t period;
    int64_t made_wall_ns;
};

struct mob_engine_op {
    struct mob_engine_op *next; /* the mailbox's */
    enum mob_engine_verb verb;
    struct mob_engine_key *key; /* owned; NULL: none */
    void (*done)(struct mob_engine_op *op);
    void *context;
    void (*answer)(
        struct mob_http_request *request, struct mob_engine_op *op); /* the route's, used by `done` */
    bool answers_errors; /* `answer` runs for a failed op too */
    _Atomic bool abandoned; /* nobody waits any more; the engine may finish it early with MOB_CANCELLED */
    struct mob_engine_error error; /* status MOB_OK on success */
    struct mob_text json;
    union {
        struct mob_engine_submit submit;
        struct mob_engine_batch batch;
        struct mob_engine_object object;
        struct mob_engine_wait wait;
        struct mob_engine_put put;
        struct mob_engine_upload upload;
        struct mob_engine_job job;
        struct mob_engine_endpoint endpoint;
        struct mob_engine_infer infer;
        struct mob_engine_query query;
    };
};

struct mob_engine;
struct mob_engine_ops {
    void (*post)(struct mob_engine *engine, struct mob_engine_op *op);
    bool (*ready)(struct mob_engine *engine);
    int64_t (*unacked_since)(struct mob_engine *engine);
    int64_t (*store_away_since)(struct mob_engine *engine);
    /* The event hub's wishes (server/events): must only post a message. */
    void (*events_want)(struct mob_engine *engine);
    void (*events_behind)(struct mob_engine *engine);
    void (*events_stop)(struct mob_engine *engine);
    void (*stop)(struct mob_engine *engine); /* answers all, joins its thread, frees itself */
};
/* Implementations embed this as their first member. */
struct mob_engine {
    const struct mob_engine_ops *ops;
};

static inline void mob_engine_post(struct mob_engine *engine, struct mob_engine_op *op)
{
    engine->ops->post(engine, op);
}
/* Connected to a node and to the GCS. Any thread. */
/* When the oldest write was published that the control store has not acknowledged (monotonic); 0: there is
 * none. */
static inline int64_t mob_engine_unacked_since(struct mob_engine *engine)
{
    return engine->ops->unacked_since(engine);
}

/* Since when no link leads to (a shard of) the control store, or nobody there answers what waits for it,
 * reads or writes (monotonic); 0: it is there. Any thread. */
static inline int64_t mob_engine_store_away_since(struct mob_engine *engine)
{
    return engine->ops->store_away_since(engine);
}

static inline bool mob_engine_ready(struct mob_engine *engine)
{
    return engine->ops->ready(engine);
}

struct mob_engine_op *mob_engine_op_create(
    enum mob_engine_verb verb, void (*done)(struct mob_engine_op *), void *context);
void mob_engine_op_destroy(struct mob_engine_op *op);
/* Sets the error; formats the detail. Pointer may be NULL. First error wins. */
void mob_engine_op_fail(struct mob_engine_op *op, enum mob_status status, const char *pointer,
    const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The query's cursor becomes its tag and `own`, which is taken; NULL: there is no next page. */
void mob_engine_next_cursor(struct mob_engine_query *query, char *own);
/* A page of a list that is read out of the log. How many there are in all is known when it is the first page
 * and the last. Borrows the items; takes `next`, the engine's own part of the next cursor. */
json_t *mob_engine_page(struct mob_engine_query *query, json_t *items, char *next, bool truncated);
/* What stands before the engine's own part of a cursor of this query. */
void mob_engine_cursor_tag(
    const struct mob_engine_query *query, const char *own, char out[MOB_CURSOR_TAG_MAX]);

#endif
