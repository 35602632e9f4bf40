/* Records of the rings between a client (worker, driver, gateway) and its node.
 *
 * Both rings are single-producer single-consumer byte rings (runtime/store/ring.c) of records: this 16-byte
 * header, then the body, padded to 8. A record never wraps (the producer inserts MOB_REC_PAD). Outbound
 * records carry a ticket (causal order across rings); inbound ones carry 0. A consumer copies the header,
 * range-checks, then uses.
 *
 * "-> reply" marks requests that are answered by a MOB_IN_REPLY with the same request number, or by several,
 * one behind the other, whose payloads together are the reply.
 */
#ifndef MOB_COMMON_WIRE_RECORD_H
#define MOB_COMMON_WIRE_RECORD_H

#include "common/wire/completion.h"
#include "common/wire/spec.h"

struct mob_record {
    uint32_t bytes; /* whole record with this header and padding; multiple of 8, at least 16 */
    uint8_t type; /* enum mob_out_record or mob_in_record */
    uint8_t flags;
    uint16_t aux; /* meaning depends on the type; else 0 */
    uint64_t ticket;
};
_Static_assert(sizeof(struct mob_record) == 16, "record header layout");
#define MOB_REC_PAD 0
/* A leading part of the body of the record that follows it: how records travel that are larger than half of
 * their ring. */
#define MOB_REC_PART 255
#define MOB_RECORD_MAX (96u * 1024u)
/* Heads that siblings repeat stand in slots, so many for each ring. A whole spec says in `aux` into which it
 * goes, a sibling out of which its head comes. Whoever sends chooses the slots; what stood in one before is
 * gone. */
#define MOB_HEAD_SLOTS 64u

enum mob_out_record {
    MOB_OUT_SPEC = 1, /* i64 submitted_ns | spec head (128) | tail; aux = head slot */
    MOB_OUT_SIBLING = 2, /* i64 submitted_ns | u32 index | u32 caller_seq | tail; aux = head slot */
    MOB_OUT_PUT = 3, /* struct mob_out_put, then the inline value (small form payload) if any */
    MOB_OUT_COMPLETION = 4, /* struct mob_completion_head | returns; aux = MOB_COMPLETION_SHORT: struct
                               mob_completion_word */
    MOB_OUT_YIELD = 5, /* struct mob_out_yield | one return: one item of a generator */
    MOB_OUT_OUTCOME = 6, /* struct mob_out_outcome | payload: logged nondeterminism of a running task */
    MOB_OUT_EVENT = 7, /* struct mob_out_event | type text | JSON */
    MOB_OUT_BLOCKED = 8, /* task id: the worker waits in get/wait and gives back its CPU */
    MOB_OUT_UNBLOCKED = 9, /* task id: it goes on */
    MOB_OUT_WATCH =
        10, /* n x object id (aux = n): MOB_IN_READY for each once it is ready (for a driver: committed) */
    MOB_OUT_RELEASE =
        11, /* n x object id (aux = n): this client's handles are gone; flags: mob_release_flag */
    MOB_OUT_REQUEST = 12, /* struct mob_out_request | payload -> reply */
    MOB_OUT_CANCEL = 13, /* struct mob_out_cancel */
    MOB_OUT_SUSPENDED = 14, /* struct mob_out_suspended | n x object id (aux = n) -> MOB_IN_NEST: the task
                               cannot go on before each of these is there */
    MOB_OUT_CHECKPOINT = 15 /* struct mob_out_checkpoint | one return: the actor's state between two calls */
};
/* In aux of MOB_OUT_SPEC and MOB_OUT_SIBLING. The id follows from an idempotency key, so it may be in the
 * lineage already: it is looked up, and what is there is this very submission. Its submitter has compared the
 * requests: deadlines and trace contexts differ between two of them that are the same. Only of a gateway. */
#define MOB_SPEC_KEYED 0x8000u /* beside the head slot */
#define MOB_COMPLETION_SHORT 1u /* in aux of MOB_OUT_COMPLETION */
enum mob_release_flag {
    MOB_RELEASE_UNLOGGED = 1 /* gateway: inputs and outputs of inference calls, which nobody else knows */
};

enum mob_in_record {
    MOB_IN_SPEC = 1, /* struct mob_in_spec | spec head | tail; aux = head slot: run this */
    MOB_IN_SIBLING = 2, /* u64 position | u32 index | u32 caller_seq | tail; aux = head slot */
    MOB_IN_READY = 3, /* struct mob_in_ready | inline payload: a future this client waits for or submitted */
    MOB_IN_REPLY = 4, /* struct mob_in_reply | payload */
    MOB_IN_CANCEL = 5, /* task id: asked to stop */
    MOB_IN_OUTCOME = 6, /* struct mob_out_outcome | payload: precedes the MOB_IN_SPEC of a replay */
    MOB_IN_STOP = 7, /* finish what runs, then leave */
    MOB_IN_ACKED = 8, /* u64 log position: everything this client published before ticket is committed */
    MOB_IN_FUNCTION = 9, /* struct mob_in_function | name text: precedes the first spec that needs it */
    MOB_IN_MISSED =
        10, /* the ring was full: notices were left out; MOB_OUT_WATCH again what you still wait for */
    MOB_IN_REVOKED =
        11, /* answer to MOB_OUT_BLOCKED: specs before this marker that have not started are taken back */
    MOB_IN_NEST = 12, /* struct mob_in_nest: answer to MOB_OUT_SUSPENDED */
    MOB_IN_READY_RUN = 13, /* struct mob_in_ready_run | n payloads of 8 bytes (aux = n): as n MOB_IN_READY */
    MOB_IN_TAKEN_BACK = 14 /* task id: specs behind that task's and before this marker are taken back */
};
/* Rules between node and worker:
 *  - Specs in the inbound ring run in order. A worker that publishes MOB_OUT_BLOCKED drops every spec it has
 * not started and every one it reads until the matching MOB_IN_REVOKED: the node gives them to others. After
 * the task that blocked is done it takes what comes behind the marker.
 *  - Without being asked the node takes back what stands behind a task that has begun: it says how far the
 * worker may go (mob_store_in_halt), and the worker reads that before it begins anything else. The task that
 * MOB_IN_TAKEN_BACK names, or one before it, is the last that it had begun.
 *  - A worker that publishes MOB_OUT_SUSPENDED starts no spec until its MOB_IN_NEST: that may take back what
 * it has not started. It publishes MOB_OUT_BLOCKED for the same wait when the answer is no, or too late, and
 * MOB_OUT_UNBLOCKED when the task goes on before its suspension was answered, or though another task was
 * given to it. What was to run on top then runs after it.
 *  - A client gets MOB_IN_READY for every return of what it submitted itself (workers: as soon as it is
 * there; drivers: committed), without asking. For any other object it publishes MOB_OUT_WATCH. */
struct mob_out_suspended {
    struct mob_task_id task;
    uint32_t number; /* of the suspension, the client's */
    uint32_t zero;
};
_Static_assert(sizeof(struct mob_out_suspended) == 24, "suspension layout");
#define MOB_SUSPENDED_IDS_MAX 8u
/* `status` MOB_OK: specs before this marker that have not started are taken back, and the next one, of
 * `task`, runs on top of the task that is suspended, if it still is. Else nothing has changed. */
struct mob_in_nest {
    struct mob_task_id task;
    uint32_t number;
    uint32_t status; /* enum mob_status */
};
_Static_assert(sizeof(struct mob_in_nest) == 24, "nest marker layout");
struct mob_in_function {
    struct mob_function_id function;
    struct mob_module_hash module;
};
/* Body of MOB_IN_SPEC before the spec head. */
struct mob_in_spec {
    uint64_t position; /* of an actor call */
    uint32_t incarnation; /* of the actor */
    uint32_t flags; /* MOB_IN_SPEC_* */
};
#define MOB_IN_SPEC_LOOK_UP 2u /* not a first attempt under first attempts: children may be known already */
#define MOB_IN_SPEC_RESTORE 4u /* actor: argument 0 is the checkpoint, run the restore hook */
/* It has ended before, and its log says what it gives: the worker leaves its returns unsealed, with their
 * hashes however large they are, and the node seals what is the same. */
#define MOB_IN_SPEC_REMAKES 8u

struct mob_out_put {
    struct mob_object_id id;
    uint8_t type; /* enum mob_value_type */
    uint8_t flags;
    uint16_t zero;
    uint64_t size; /* payload bytes when inline, bytes of the full value in the store otherwise */
    struct mob_hash128 hash;
    uint32_t inline_bytes; /* == size when it travels here, 0 when it is in the store */
    uint32_t zero2;
};
#define MOB_PUT_HASH_LATER 1u /* over 1 MiB: the node computes the hash, as an entry of its own */
#define MOB_PUT_PROMISE 2u /* no value yet: a put with this id follows from the same client */
#define MOB_PUT_DELETED \
    4u /* in the log only: what was put under this id is gone for good; type null, size 0 */
_Static_assert(sizeof(struct mob_out_put) == 56, "put record layout");

struct mob_out_yield {
    struct mob_task_id task;
    uint32_t attempt;
    uint32_t item; /* from 0; object slot of the item */
};
/* Kinds of logged outcomes of the API inside a task, in program order (`sequence` from 0 per attempt's
 * generation). */
enum mob_outcome_kind {
    MOB_OUTCOME_WAIT = 1,
    MOB_OUTCOME_TIMEOUT = 2,
    MOB_OUTCOME_CLOCK = 3,
    MOB_OUTCOME_RANDOM = 4,
    MOB_OUTCOME_NAME = 5
};
struct mob_out_outcome {
    struct mob_task_id task;
    uint32_t generation;
    uint32_t sequence;
    uint16_t kind;
    uint16_t zero;
    uint32_t payload_bytes;
};
struct mob_out_event {
    struct mob_task_id task;
    int64_t at_ns;
    int64_t span_ns; /* > 0: a named span that began at_ns */
    uint32_t type_bytes;
    uint32_t json_bytes;
    uint64_t position; /* of an actor's call, as its completion will say */
    uint32_t incarnation;
    uint32_t attempt; /* which sent it; 0: of no task, or logged by a version that did not say */
};
/* An actor's worker takes a checkpoint by itself after every n-th call (MOB_EXT_CHECKPOINT of the creation).
 * A value that is not inline is the object (task of the call at `position`, MOB_SLOT_CHECKPOINT). */
struct mob_out_checkpoint {
    struct mob_actor_id actor;
    uint64_t position; /* of the last call in it */
    uint32_t incarnation;
    uint32_t zero;
};
#define MOB_SLOT_CHECKPOINT 0xbfffffffu
struct mob_out_cancel {
    struct mob_task_id task;
    uint32_t force; /* 1 = kill the worker when it does not stop by itself */
    uint32_t recursive;
};

/* How the text of a flush begins that has ids of puts. */
#define MOB_FLUSH_NOT_KEPT "not kept on disk: "
/* Requests: rare control operations, answered from the node's tables or the GCS. */
enum mob_request_op {
    MOB_REQ_FUNCTION = 1, /* name text, "module.function[@hash]" -> struct mob_function_info ++ signature text
                             ++ uint32_t flags */
    MOB_REQ_DEPLOY = 2, /* object id of a bytes value with the module file -> JSON */
    MOB_REQ_FLUSH = 3, /* -> when everything this client published before is committed; MOB_DISK_FULL or
                        * MOB_IO: but for puts that could not be kept, the text has their ids */
    MOB_REQ_NAME = 4, /* actor name -> actor id */
    MOB_REQ_ACTOR_KILL = 5, /* actor id | u32 no_restart */
    MOB_REQ_ACTOR_STATE = 6, /* actor id -> JSON */
    MOB_REQ_WHY = 7, /* task id -> JSON "why does it wait" */
    MOB_REQ_TASK = 8, /* task id -> JSON live state */
    MOB_REQ_STATS = 9, /* -> JSON: node, resources, queues, workers, store, log */
    MOB_REQ_JOB = 10, /* JSON {op: open|close|list, ...} -> JSON */
    MOB_REQ_SPACE = 11, /* u64 bytes | object id -> when the store has room for it; MOB_STORE_FULL,
                           MOB_DISK_FULL with the numbers as text */
    MOB_REQ_FETCH = 12, /* object id -> when its bytes are in the store (restored or re-made) */
    MOB_REQ_DELETE =
        13, /* object id | u32 for good (absent: 0) -> bytes dropped; a put for good: committed */
    MOB_REQ_LOGS =
        14, /* struct mob_log_question -> u64 bytes there are (so far) | those from its offset on */
    MOB_REQ_LIVE_TASKS = 15, /* JSON filter -> JSON list of tasks not finished */
    MOB_REQ_UNDEPLOY =
        16, /* hash of a module, or "name@hash" -> when it is gone, or MOB_IN_USE and by whom */
    /* 17: task ids -> one byte each; not any more */
    MOB_REQ_KEYED_ROOT =
        18, /* gateway: an idempotency key in its scope, text -> the root id that stands for it */
    MOB_REQ_LIVE = 19 /* task ids -> struct mob_live_task each */
};
/* What a task wrote to stdout and stderr. */
struct mob_log_question {
    struct mob_task_id task;
    struct mob_actor_id actor; /* that it is a call of, or whose creation it is; else zero */
    uint64_t offset; /* of its output */
    uint32_t max; /* bytes */
    uint32_t worker; /* it ran in, as its completion says, or MOB_LOG_NO_WORKER */
    uint32_t attempt; /* whose output is asked for; 0: of all that this worker ran */
    uint32_t zero;
};
#define MOB_LOG_NO_WORKER UINT32_MAX
/* What a task that has not ended does now, as the node's scheduler sees it. */
enum mob_live_state {
    MOB_LIVE_NOT = 0, /* ended, or not this node's */
    MOB_LIVE_WAITING, /* for inputs */
    MOB_LIVE_DELAYED, /* until a time */
    MOB_LIVE_READY, /* queued for resources */
    MOB_LIVE_RUNNING,
    MOB_LIVE_BLOCKED, /* in get or wait */
    MOB_LIVE_CONTINUED, /* it ended with a tail call, whose result is to be its own */
    MOB_LIVE_STATES
};
struct mob_live_task {
    int64_t started_us; /* since 1970: of this attempt; 0: it has not begun */
    uint32_t attempt; /* that runs or comes next; 0 of one that is not live, or continued */
    uint32_t worker; /* whose it is, where has_worker says so */
    uint8_t state; /* enum mob_live_state */
    uint8_t has_worker;
    uint8_t zero[6];
};
_Static_assert(sizeof(struct mob_live_task) == 24, "wire");
struct mob_out_request {
    uint32_t request; /* client's number, unique among its outstanding ones */
    uint16_t op; /* enum mob_request_op */
    uint16_t zero;
    uint32_t payload_bytes;
    uint32_t zero2;
};
struct mob_in_reply {
    uint32_t request;
    uint16_t status; /* enum mob_status */
    uint16_t more; /* 1: its payload goes on in the next reply with this number */
    uint32_t payload_bytes;
    uint32_t zero2;
};
struct mob_function_info {
    struct mob_function_id function;
    struct mob_module_hash module;
    uint16_t kind; /* enum mob_task_kind: TASK for a function, ACTOR_CREATE for a class */
    uint16_t method_count; /* of a class; the text lists "name signature" per line: first the constructor */
    uint32_t
        signature_bytes; /* of the text; behind it the flags of the entry, which older nodes do not send */
};

/* A future became ready. With inline_bytes == size the payload follows (small form); otherwise look in the
 * store. */
struct mob_in_ready {
    struct mob_object_id id;
    uint16_t status; /* enum mob_status of the producing task */
    uint8_t type; /* enum mob_value_type */
    uint8_t flags; /* MOB_READY_* */
    uint64_t size;
    uint32_t inline_bytes;
    uint32_t zero;
};
/* Return 0 of `n` tasks of one stream, from index `first` on; each ended well. */
struct mob_in_ready_run {
    struct mob_stream stream;
    uint32_t first;
    uint8_t type; /* enum mob_value_type, of eight bytes */
    uint8_t flags; /* MOB_READY_* */
    uint16_t zero;
    uint32_t zero2;
};
_Static_assert(sizeof(struct mob_in_ready_run) == 24, "layout of runs of ready records");
#define MOB_READY_COMMITTED 1u
#define MOB_READY_LAST 2u /* generator: no item at or above this slot */
_Static_assert(sizeof(struct mob_in_ready) == 40, "ready record layout");

#endif
