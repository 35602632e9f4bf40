/* Inside of the C API: what the files of sdk/c and, through call.h, the worker (runtime/worker) share. Not
 * installed; what others of this tree may use stands in embed.h.
 *
 * One struct mob_client serves both sides. A driver owns its session (socket, segment) and may move to
 * another segment when its node died; a worker's client is the running task's view of the node, and its
 * `family` is that task. One thread per client; nothing here locks.
 *
 * Futures are small on purpose: a driver may hold a million. The future of a child's first return is a
 * 16-byte slot in a chunk, found from the child index without a hash; every other future (further returns,
 * puts, foreign ids, stream items) is 48 bytes and sits in a hash map. A chunk is aligned to its size, so a
 * future finds its client by masking.
 */
#ifndef MOB_SDK_C_CLIENT_H
#define MOB_SDK_C_CLIENT_H

#include <mobula/mobula.h>

#include "common/base/bytes.h"
#include "common/base/log.h"
#include "common/base/near_clock.h"
#include "common/wire/record.h"
#include "common/wire/session.h"
#include "runtime/store/store.h"
#include "sdk/c/embed.h"
#include "sdk/c/function.h"

#define MOB_PENDING_REQUESTS_MAX 4096u
/* A driver that cannot publish for this long gets MOB_QUEUE_FULL. */
#define MOB_PUBLISH_PATIENCE_NS (30 * MOB_SEC)
#define MOB_RELEASE_BATCH 64u
/* More than this is let go at once: memory that was just used is warm. */
#define MOB_RELEASE_BYTES (512u << 10)
#define MOB_TAIL_CALLS_MAX 64 /* behind one id in the store; the node resolves longer chains */
#define MOB_WAIT_LOGGED_MAX \
    65536u /* futures of one wait inside a task: its outcome is one record of bits \
            */

/* ------------------------------------------------------------------------------------------------ futures */

enum mob_future_where {
    MOB_WHERE_SLOT, /* up to 8 bytes, in `as` */
    MOB_WHERE_BLOCK, /* as.block */
    MOB_WHERE_STORE, /* look it up by id */
    MOB_WHERE_OTHER /* in the store under the object id in as.block (tail call) */
};
#define MOB_FUTURE_COUNTED 1u /* mob_wait counts it down when it becomes ready */
#define MOB_FUTURE_WAITED 2u /* as.waiter is a list of waiters */
#define MOB_FUTURE_WATCHED 4u /* the node was asked, or tells by itself */
#define MOB_FUTURE_ALIAS 8u /* takes the value of another one (tail call) */
#define MOB_FUTURE_NOT_NOW \
    16u /* failed since the node can say nothing of it now, and that was told: the next get asks again */
#define MOB_FUTURE_TOLD \
    64u /* what stands in the store may be another submission's: the node compares and tells */
#define MOB_FUTURE_ESCAPED \
    128u /* others may know its id, or a replay will need its value: that its handle goes says nothing */

struct mob_block { /* a value outside of the store */
    uint32_t refs;
    uint32_t bytes;
    uint8_t payload[];
};
struct mob_stream_state {
    uint32_t next; /* item that mob_stream_next gives next */
    uint32_t seen; /* futures of the items from `next` to this one are the stream's */
    uint32_t last; /* no item at or above; UINT32_MAX = not known yet */
    enum mob_status status; /* of the generator when `last` is known */
    bool pulls; /* items are asked for one by one: notices may have been left out, */
    uint32_t pulled; /* up to this one */
    struct mob_waiter *waiters; /* for the end */
};
struct mob_future {
    union {
        int64_t i64; /* MOB_WHERE_STORE: bytes of the object, 0 when not known */
        double f64;
        uint8_t bytes[8];
        struct mob_block *block;
        struct mob_waiter *waiter;
        struct mob_stream_state *stream;
    } as;
    uint8_t state; /* enum mob_future_state */
    uint8_t type; /* enum mob_value_type, when ready */
    uint8_t where; /* enum mob_future_where */
    uint8_t flags;
    uint16_t status; /* enum mob_status, when failed */
    uint16_t size; /* bytes in `as` */
};
_Static_assert(sizeof(struct mob_future) == 16, "a driver holds a million of these");

/* A waiter whose memory is ours: a member of a wait set, a callback, or a future that takes another one's
 * outcome. Once it is in a ready queue, its future finds it here; from the beginning, the future it is for
 * (`alias`), and its set. So none of them looks through a list for it. */
struct mob_told {
    struct mob_waiter waiter; /* first: a waiter that is not borrowed is one of these */
    struct mob_told *next_of_future, **place_of_future; /* in its chunk's `told`; NULL: not there */
    struct mob_told *next_of_set, **place_of_set;
};

struct mob_general_future {
    struct mob_future future;
    struct mob_object_id id;
    uint32_t refs;
    struct mob_general_future *next; /* hash chain, or free list */
};
_Static_assert(sizeof(struct mob_general_future) == 48, "size of a general future");

#define MOB_CHUNK_BYTES 16384u
#define MOB_CHUNK_HEADER_BYTES 64u
#define MOB_CHUNK_SLOTS ((MOB_CHUNK_BYTES - MOB_CHUNK_HEADER_BYTES) / sizeof(struct mob_future))
struct mob_chunk {
    struct mob_client *client;
    struct mob_family *family; /* NULL: general futures */
    struct mob_chunk *next; /* free list, or the client's general chunks */
    uint32_t first; /* child index of slot 0 */
    uint32_t issued; /* slots handed out so far, from 0 */
    uint32_t live; /* handles */
    struct mob_told **told; /* of each slot, what it must take along when it goes (settle.c); NULL: of none */
};
_Static_assert(sizeof(struct mob_chunk) <= MOB_CHUNK_HEADER_BYTES, "chunk header");

/* Children of one (task, generation, continuation). */
struct mob_family {
    struct mob_stream stream;
    bool known; /* stream is computed at the first child: leaves never pay for it */
    uint32_t base; /* chunk number of chunks[0] */
    uint32_t chunk_count; /* chunks that exist or existed from `base` */
    uint32_t capacity;
    struct mob_chunk **chunks; /* NULL where all handles are gone */
    uint32_t live; /* chunks not NULL */
    struct mob_family *older;
};

static inline struct mob_chunk *mob_chunk_of(const struct mob_future *future)
{
    return (struct mob_chunk *)((uintptr_t)future & ~(uintptr_t)(MOB_CHUNK_BYTES - 1));
}
static inline struct mob_future *mob_chunk_slot(struct mob_chunk *chunk, uint32_t i)
{
    return (struct mob_future *)((uint8_t *)chunk + MOB_CHUNK_HEADER_BYTES) + i;
}
static inline struct mob_client *mob_future_client(const struct mob_future *future)
{
    return mob_chunk_of(future)->client;
}
static inline bool mob_future_settled(const struct mob_future *future)
{
    return future->state == MOB_FUTURE_READY || future->state == MOB_FUTURE_FAILED;
}
/* What wait waits for: the outcome, or of a stream the end. */
static inline bool mob_future_decided(const struct mob_future *future)
{
    return mob_future_settled(future) ||
        (future->state == MOB_FUTURE_STREAM && future->as.stream->last != UINT32_MAX);
}

/* ------------------------------------------------------------------------------------------------ the client
 */

struct mob_pending_request {
    uint32_t request;
    uint16_t op;
    bool done;
    bool abandoned; /* a fetch whose asker waits no longer: goes with its reply, or serves the next asker */
    enum mob_status status;
    uint8_t *payload; /* of the reply; owned */
    uint32_t payload_bytes;
    uint8_t *sent; /* what was asked, for the next node when this one dies; owned */
    uint32_t sent_bytes;
    mob_answer_fn *callback;
    void *arg;
    struct mob_pending_request *next;
};

/* What stands in a head slot of the outbound ring (record.h), which siblings repeat. */
struct mob_head_slot {
    struct mob_spec_head head; /* index and caller_seq: 0 */
    bool valid;
    const struct mob_actor *user; /* whose calls have it */
    /* Its head is that of this function or method with default options, for as long as the client's
     * plain_epoch is the one here. */
    const struct mob_signature_info *plain;
    uint64_t plain_epoch;
};

/* Heads of the specs in the outbound ring, so that siblings can be sent again when their spec is gone from
 * the ring. */
struct mob_sent_head {
    uint64_t position;
    uint32_t slot;
    struct mob_spec_head head;
};

struct mob_old_store { /* the segment of a node that died, mapped for as long as somebody reads or writes it
                        */
    struct mob_store_client *store;
    uint32_t users; /* values that are held, objects that are being made */
    struct mob_old_store *next;
};

/* An object that is being made: between its creation and its seal the node may die, and the session move to
 * another segment. */
struct mob_making {
    struct mob_making *next;
    struct mob_object_id id;
    struct mob_store_client *store; /* that has it */
    struct mob_object_ref ref;
    void *full; /* `full_bytes` of it */
    uint64_t full_bytes;
    bool exists; /* in the segment that the session moved to: made by somebody else */
};

/* What belongs to the running task and not to its process: put aside while another task runs on top of it
 * (level.c). The same members of struct mob_client are the running task's. */
struct mob_level {
    bool look_up, rewatch, in_callbacks;
    struct mob_task_id parent;
    uint32_t parent_generation, continuation, next_child, next_put, put_continuation;
    struct mob_family *family;
    struct mob_job_id job;
    struct mob_call *call;
    uint64_t call_epoch;
    struct mob_general_future **general;
    uint32_t general_mask, general_count;
    struct mob_waiter *ready_head, **ready_tail;
    struct mob_waitset *sets;
    uint32_t wait_hits, rewatch_chunk;
    struct mob_actor *actors;
    struct mob_value *used_values;
    char *error_json;
    uint32_t cause_bytes;
    uint8_t cause[1024];
    char error[512];
};

struct mob_client {
    bool worker; /* else a driver (or the gateway) */
    bool look_up; /* the running task is not a first attempt: its children may be known already */
    bool committed_only;
    bool resuming;
    bool lost; /* the node is gone, and there is no other yet */
    bool pumping;
    struct mob_store_client *store;
    int sock, memfd, eventfd;
    int64_t seen_alive_ns; /* when the node was looked at last by a caller that does not sleep */

    /* Whose children these are. */
    struct mob_task_id parent;
    uint32_t parent_generation;
    uint32_t continuation;
    uint32_t next_child;
    uint32_t next_put;
    uint32_t put_continuation;
    struct mob_family *family;
    struct mob_job_id job;
    struct mob_client_key {
        bool set, again; /* what is submitted or put next has an id that follows from a key: mob_client_key */
        struct mob_task_id root;
        uint32_t index;
    } key;
    struct mob_call *call; /* worker: what runs */
    uint64_t call_epoch; /* of the running task, */
    uint64_t epochs_given; /* which counts tasks */
    struct mob_level **levels; /* [0 .. level_count - 1]: tasks that wait below the running one; those behind
                                  are empty and used again */
    uint32_t level_count, levels_made;
    uint32_t suspensions; /* numbers of MOB_OUT_SUSPENDED */

    struct mob_head_slot heads[MOB_HEAD_SLOTS]; /* an actor's calls have one of their own, others the first */
    uint32_t next_head_slot;
    uint64_t plain_epoch; /* changes with parent, stream and functions */
    struct mob_sent_head *sent_heads; /* driver */
    uint32_t sent_head_count, sent_head_capacity;

    struct mob_chunk *free_chunks;
    struct mob_chunk *general_chunks;
    struct mob_general_future *free_general;
    struct mob_general_future **general; /* hash map */
    uint32_t general_mask, general_count;
    void **regions;
    uint32_t region_count;

    struct mob_waiter *ready_head, **ready_tail; /* callbacks that are due */
    struct mob_waitset *sets;
    uint32_t settled; /* futures that became ready, ever (wraps) */
    uint32_t wait_hits; /* counted down by mob_wait */
    bool in_callbacks;

    bool rewatch; /* notices were left out: ask again, from this child on */
    uint32_t rewatch_chunk;
    struct mob_object_id releases[MOB_RELEASE_BATCH];
    uint32_t release_count;
    uint64_t release_bytes; /* in the store, of these */

    struct mob_pending_request *requests;
    uint32_t next_request, request_count;
    uint32_t replies; /* of mob_query_async, whose callbacks are due */

    struct mob_function *functions; /* list; small hash in front */
    struct mob_function *function_hash[256];
    struct mob_actor *actors;
    struct mob_value *free_values, *used_values;
    struct mob_old_store *old_stores;
    struct mob_making *making; /* all there are, */
    struct mob_making making_now; /* and the one of the call that runs */

    struct mob_near_clock clock; /* of submissions */

    struct mob_event_fd *event_fd;
    int64_t ring_marked_ns; /* when a mark was last put for calls that are not logged */
    bool
        asks_room; /* its owner asks for room in the store and does not wait for it (mob_client_asks_room), */
    struct {
        uint64_t bytes;
        struct mob_object_id id;
    } room_missed; /* for this, last */
    bool refused; /* the node has no such job any more (mob_client_refused) */
    bool own_loop; /* its owner sleeps on the doorbell itself (mob_client_own_loop) */
    int64_t alive_checked_ns; /* own_loop: when the session was last looked at */
    void *owner; /* the worker */
    uint8_t cause[1024]; /* encoded error of the failed future that was asked for last */
    uint32_t cause_bytes;
    struct mob_inbox_hooks *hooks; /* worker: what to do with records that only workers get */
    struct mob_session_hello hello;
    struct mob_session_welcome welcome;
    char *error_json; /* of mob_future_error */
    char directory[256];
    char error[512];
};

/* A worker's part of reading the inbound ring; the sdk calls it for records that are not for futures. */
struct mob_waitset {
    struct mob_client *client;
    struct mob_waitset *next, **previous;
    struct mob_told *members;
    struct mob_waiter *ready_head, **ready_tail; /* of these, the ones that were not taken yet */
};

struct mob_inbox_hooks {
    void (*record)(struct mob_client *client, const struct mob_record *record, const uint8_t *body);
    void (*blocked)(struct mob_client *client); /* MOB_OUT_BLOCKED is about to be published */
    /* May the running task be suspended? Then MOB_OUT_SUSPENDED is about to be published. */
    bool (*suspends)(struct mob_client *client);
    /* The answer to this suspension: MOB_AGAIN = it has not come, or not all of it; MOB_CONFLICT = no; MOB_OK
     * = a task has run on top, and the suspension is over. */
    enum mob_status (*on_top)(struct mob_client *client, uint32_t number);
};

struct mob_value {
    struct mob_client *client;
    struct mob_value *next, **previous; /* in used_values */
    enum mob_value_type type;
    const uint8_t *payload;
    uint64_t payload_bytes;
    struct mob_object_ref pin;
    bool pinned;
    struct mob_store_client *store;
    struct mob_block *block;
    uint8_t small[MOB_OBJECT_INLINE_MAX < 16 ? 16 : MOB_OBJECT_INLINE_MAX];
};

/* value.c: one user of a dead node's segment less; it is unmapped with the last. */
void mob_old_store_release(struct mob_client *client, const struct mob_store_client *store);

/* client.c: writes the sentence about a failure; the macro gives the status back. */
void mob_client_say(struct mob_client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline enum mob_status mob_status_of(enum mob_status status)
{
    return status;
}
#define mob_client_fail(client, status, ...) (mob_client_say((client), __VA_ARGS__), mob_status_of(status))

/* client.c: MOB_INVALID, and the sentence that `what` is NULL, in the client, or, when that is what is
 * missing, in this thread's mob_client_error(NULL). */
enum mob_status mob_say_null(struct mob_client *client, const char *what);
/* At the entry of public calls: leaves the call with MOB_INVALID when a pointer is NULL that must not be. */
#define MOB_GIVEN(client, pointer) \
    do { \
        if (__builtin_expect((pointer) == NULL, 0)) \
            return mob_say_null((client), #pointer); \
    } while (0)
#define MOB_GIVEN_CLIENT(client) MOB_GIVEN(NULL, client)

/* client.c */
struct mob_client *mob_client_new(void);
void mob_client_free(struct mob_client *client);
/* Worker: a new task runs; and has ended (frees what it left behind unless `keep`: an actor may hold
 * futures). */
void mob_client_enter(
    struct mob_client *client, struct mob_task_id task, uint32_t generation, struct mob_job_id job);
void mob_client_leave(struct mob_client *client, bool keep);
/* CLOCK_MONOTONIC, as near_clock.h says. */
static inline int64_t mob_client_now(struct mob_client *client)
{
    return mob_near_now(&client->clock);
}

/* future.c */
struct mob_future *mob_future_new_child(struct mob_client *client, uint32_t *index_out);
struct mob_future *mob_future_new_general(struct mob_client *client, struct mob_object_id id, bool hashed);
struct mob_general_future *mob_future_find_general(struct mob_client *client, struct mob_object_id id);
struct mob_future *mob_future_find_child(struct mob_client *client, struct mob_task_id task);
struct mob_future *mob_families_find(struct mob_family *newest, struct mob_task_id task);
struct mob_general_future *mob_general_find(
    struct mob_general_future *const *table, uint32_t mask, struct mob_object_id id);
/* An empty family and an empty table of general futures; false = out of memory. */
bool mob_futures_open(
    struct mob_family **family_out, struct mob_general_future ***general_out, uint32_t *general_mask_out);
/* Its value may be asked for when its handle is gone. */
void mob_future_escapes(const struct mob_future *future);
void mob_futures_clear(struct mob_client *client);
void mob_families_retire(struct mob_client *client);
void mob_futures_free(struct mob_client *client);

/* settle.c: a future becomes ready. */
/* Error of a stream whose items are all taken and whose generator failed, as JSON; else "{}". */
const char *mob_stream_error(struct mob_future *stream);
void mob_future_settle(struct mob_client *client, struct mob_future *future, enum mob_status status,
    enum mob_value_type type, const uint8_t *payload, uint64_t size, bool inlined);
void mob_client_on_ready(struct mob_client *client, const struct mob_in_ready *ready, const uint8_t *payload);
/* The outcome of a settled future becomes another's. False: out of memory. */
bool mob_future_copy(struct mob_future *to, const struct mob_future *from);
void mob_run_callbacks(struct mob_client *client);
/* A waiter that is ours and whose turn will not come: out of all lists, and free. */
void mob_told_forget(struct mob_client *client, struct mob_told *told);
/* A handle of the future is let go, so what is due about it is not given any more; but who listens with
 * memory of its own has a handle of its own. `last`: it was the last handle, and what would have set the
 * future ready goes as well. */
void mob_told_release(struct mob_client *client, struct mob_future *future, bool last);
/* A future goes, and these are what waited for it. */
void mob_waiters_drop(struct mob_waiter *waiters);
/* The entry of this future in the queue of this set; NULL: there is none. */
struct mob_told *mob_told_find(struct mob_future *future, const struct mob_waitset *set);
void mob_ready_clear(struct mob_client *client);
/* The first of a queue that is not empty leaves it. One of ours is then in no list. */
struct mob_waiter *mob_ready_pop(struct mob_waiter **head, struct mob_waiter ***tail);
enum mob_status mob_future_add_waiter(struct mob_future *future, struct mob_waitset *set,
    void (*callback)(struct mob_future *, void *), struct mob_future *alias, void *arg);

/* level.c: another task runs on top of the running one, and has ended. Push: MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_level_push(struct mob_client *client);
void mob_level_pop(struct mob_client *client);
/* A notice, for those below the running task. */
void mob_levels_on_ready(struct mob_client *client, const struct mob_in_ready *ready, const uint8_t *payload);
/* Notices were left out: each asks again when it is its turn. */
void mob_levels_missed(struct mob_client *client);
void mob_levels_free(struct mob_client *client);

/* inbox.c */
/* Take what the inbound ring holds; returns the number of records. Never blocks. */
uint32_t mob_client_pump(struct mob_client *client);
/* A worker cannot come again in another session, as drivers do: the node puts another in its place, and its
 * task runs again as after any death. */
void mob_client_end_damaged_worker(struct mob_client *client);
/* One record, which the caller has peeked and will pop. */
void mob_client_take(struct mob_client *client, const struct mob_record *record, const uint8_t *body);
/* Of a stream whose items are asked for one by one: asks for the next. Never waits. */
void mob_stream_pull_on(struct mob_client *client, struct mob_future *stream);

/* waiting.c: how a client waits for anything. */
struct mob_waiting {
    struct mob_client *client;
    int64_t deadline_ns;
    uint32_t turns, all_turns;
    bool blocked; /* the node was told */
    /* Futures that must all be there before the task goes on; NULL = it may go on for another reason. */
    struct mob_future *const *needs;
    size_t need_count;
    uint32_t suspended; /* number of the suspension that is not over; 0 = none */
    bool refused; /* nothing could run on top */
};
struct mob_waiting mob_waiting_begin(struct mob_client *client, int64_t timeout_ns);
/* Of a task: it cannot go on before all of these are there, so one that makes them may run on top of it. */
void mob_waiting_needs(struct mob_waiting *waiting, struct mob_future *const *futures, size_t count);
/* One turn: read the ring, then poll, yield, or sleep. MOB_OK = look again; MOB_TIMEOUT, MOB_UNAVAILABLE. */
enum mob_status mob_waiting_turn(struct mob_waiting *waiting);
void mob_waiting_end(struct mob_waiting *waiting);
enum mob_status mob_future_await(struct mob_future *future, int64_t timeout_ns);
/* Is it in the store already? Settles it then. */
bool mob_future_probe(struct mob_client *client, struct mob_future *future);
enum mob_status mob_client_watch(struct mob_client *client, struct mob_object_id id);

/* publish.c: the outbound ring. */
/* Room for a record with this body; waits for it. Commit with mob_client_commit. */
enum mob_status mob_client_reserve(struct mob_client *client, uint32_t body_bytes, void **body_out);
void mob_client_commit(struct mob_client *client, uint8_t type, uint16_t aux, uint32_t body_bytes);
enum mob_status mob_client_publish(struct mob_client *client, uint8_t type, uint16_t aux, const void *a,
    uint32_t a_bytes, const void *b, uint32_t b_bytes);
/* The handle of an object of so many bytes in the store is gone. */
void mob_client_release_id(struct mob_client *client, struct mob_object_id id, uint64_t bytes);
enum mob_status mob_client_flush_releases(struct mob_client *client);

/* get.c: what the node says to be in the store may leave it again before it is looked at. */
#define MOB_LOOKS_PATIENCE_NS (10 * MOB_SEC)
/* A get with time-out 0 of what is ready waits so long for its bytes. */
#define MOB_POLL_PATIENCE_NS MOB_SEC
struct mob_looks { /* zeroed */
    uint32_t count;
    int64_t give_up_ns;
};
/* After a look with this outcome: true = ask the node for it (MOB_REQ_FETCH) and look again. The first looks
 * follow each other, later ones come after pauses that grow, for so long. */
bool mob_look_again(struct mob_looks *looks, enum mob_status status);

/* query.c: requests. */
enum mob_status mob_request_start(struct mob_client *client, enum mob_request_op op, const void *a,
    uint32_t a_bytes, const void *b, uint32_t b_bytes, struct mob_pending_request **request_out);
/* Send and wait; the reply's payload is malloc'ed, with a NUL behind it. */
enum mob_status mob_request(struct mob_client *client, enum mob_request_op op, const void *payload,
    uint32_t bytes, int64_t timeout_ns, uint8_t **reply_out, uint32_t *reply_bytes_out);
/* The bytes of this object into the store; then look there. MOB_TIMEOUT with nothing answered: the deadline
 * (0: one look) has passed, and the bytes come all the same. Who asks once more waits for the same reply, so
 * that polls do not heap up at the node. Errors as the node's reply. */
enum mob_status mob_fetch(
    struct mob_client *client, struct mob_object_id id, int64_t deadline_ns, bool *answered_out);
void mob_client_on_reply(struct mob_client *client, const struct mob_in_reply *reply, const uint8_t *payload);
void mob_requests_run(struct mob_client *client);
void mob_requests_free(struct mob_client *client);
enum mob_status mob_requests_resend(struct mob_client *client);

/* connect.c, resume.c */
enum mob_status mob_session_open(struct mob_client *client, int64_t deadline_ns);
bool mob_session_alive(void *client);
/* Before the end of a session whose job is to go on in another one: a node that hears nothing but the end
 * takes it for that of the job. */
void mob_session_comes_again(int sock);
enum mob_status mob_client_resume(struct mob_client *client, int64_t deadline_ns);
/* waiting.c: for callers that do not sleep. Looks after the node ten times a second at most; true = it was
 * gone, and the session is with the next one. */
bool mob_session_recheck(struct mob_client *client);
void mob_client_note_spec(
    struct mob_client *client, uint32_t slot, const struct mob_spec_head *head, uint64_t position);

/* submit.c */
struct mob_submission {
    const struct mob_function *function;
    enum mob_task_kind kind;
    struct mob_actor_id actor;
    uint16_t method;
    uint16_t num_returns;
    uint32_t caller_seq;
    int32_t max_retries;
    uint32_t cpu;
    uint16_t flags;
    const struct mob_signature_info *signature;
    struct mob_args args;
    const struct mob_submit_options *options;
    const struct mob_actor_options *actor_options;
    bool plain; /* everything but the arguments follows from `signature` */
    uint32_t head_slot;
};
enum mob_status mob_submission_publish(
    struct mob_client *client, const struct mob_submission *submission, struct mob_future **futures_out);
/* Heeds the option num_returns, of a function or method of this name. MOB_INVALID: its signature cannot have
 * so many. */
enum mob_status mob_submission_returns(
    struct mob_client *client, struct mob_submission *submission, const char *name);

/* encode.c: one argument or return value as a small or full value. */
struct mob_encoded {
    enum mob_value_type type;
    bool is_ref;
    struct mob_object_id ref;
    const void *payload; /* may point into `scratch` or the argument */
    uint64_t bytes; /* of the whole value */
    uint8_t scratch[24];
    const struct mob_tensor *tensor; /* the payload is made by mob_encoded_write */
    uint64_t tensor_head_bytes;
};
enum mob_status mob_encode(const struct mob_arg *arg, struct mob_encoded *out);
void mob_encoded_write(const struct mob_encoded *value, uint8_t *payload_out);

/* put.c */
enum mob_status mob_put_encoded(
    struct mob_client *client, struct mob_object_id id, const struct mob_encoded *value);
enum mob_status mob_store_room(struct mob_client *client, struct mob_object_id id, uint64_t size,
    struct mob_object_ref *ref_out, void **bytes_out);
struct mob_object_id mob_next_put(struct mob_client *client);

/* value.c */
struct mob_value *mob_value_new(struct mob_client *client);
/* Follows tail calls; *id is then the object that holds the bytes, or the one that is missing. */
enum mob_status mob_value_read(struct mob_client *client, struct mob_object_id *id, struct mob_value *value);
void mob_values_free(struct mob_client *client);

/* actor.c */
void mob_actors_next_caller(struct mob_client *client);
void mob_actors_free(struct mob_client *client);

/* loop.c */
void mob_event_fd_free(struct mob_client *client);
/* Returns when the helper thread has let go of the segment; the node is dead. */
void mob_event_fd_quiesce(struct mob_client *client);
void mob_event_fd_wait(struct mob_client *client, int timeout_ms);

/* outcome.c: logged nondeterminism. True: `payload` was filled from the log of the first run. */
bool mob_outcome_replay(struct mob_client *client, enum mob_outcome_kind kind, void *payload, uint32_t bytes,
    uint32_t *bytes_out);
void mob_outcome_log(
    struct mob_client *client, enum mob_outcome_kind kind, const void *payload, uint32_t bytes);

static inline bool mob_in_task(const struct mob_client *client)
{
    return client->worker && client->call != NULL;
}

#endif
