/* The C API for embedders: what a program of this tree that serves many callers from one thread (the gateway)
 * needs beside <mobula/mobula.h>. Not installed, and without a stable ABI: it changes with its users.
 *
 * The public API is written for programs that may wait. Here stands what lets a loop never wait: it sleeps on
 * the node's doorbell together with its own news, asks the node with a callback, hears of futures that other
 * listeners wait for too, and is told that the store is full instead of waiting for room. And what a gateway
 * may and a driver may not: ids that follow from an idempotency key, objects and calls that no log knows.
 *
 * Threads: a client belongs to one thread, and so does everything here, except mob_client_poke (any thread)
 * and mob_put_write (the one thread that the buffer was handed to). Callbacks run in that thread, from
 * mob_client_turn and mob_client_step, never inside the call that asked for them. Nothing here blocks.
 *
 *     mob_client_own_loop(client);                           once
 *     for (;;) {
 *         mob_client_turn(client);                           answers, callbacks
 *         ... own work ...
 *         mob_client_step(client);                           before sleeping: releases go, the node is looked
 * at mob_client_sleep(client, deadline, has_news, me);  mob_client_poke from others ends it
 *     }
 */
#ifndef MOB_SDK_C_EMBED_H
#define MOB_SDK_C_EMBED_H

#include <mobula/mobula.h>

#include "common/base/id.h"
#include "common/wire/record.h"
#include "common/wire/signature.h"

/* Values of arguments above this are put first and passed by id. */
#define MOB_ARG_VALUE_INLINE_MAX 1024u

/* ---- the loop ---- */

/* This client's owner sleeps with mob_client_sleep. As with an fd, nothing waits for room in the ring: calls
 * that find it full give MOB_QUEUE_FULL. */
void mob_client_own_loop(struct mob_client *client);
/* Reads the inbound ring and runs the callbacks that are due, without a system call. Returns how many records
 * there were. */
uint32_t mob_client_turn(struct mob_client *client);
/* Until the node rings, somebody pokes, or the deadline (mob_now). `has_news` is asked once, after the sleep
 * was announced: what was stored before the poke that ended it is seen there. */
void mob_client_sleep(struct mob_client *client, int64_t deadline_ns, bool (*has_news)(void *arg), void *arg);
/* Any thread, while the owner is in mob_client_sleep or on its way there. */
void mob_client_poke(struct mob_client *client);
/* Is the node that this session is with still there? A system call. */
bool mob_client_alive(struct mob_client *client);
/* The session moved to a new node, and that one has no such job, or it has ended: nothing here works again.
 */
bool mob_client_refused(const struct mob_client *client);
/* As mob_disconnect, without waiting for what was published: of a job that has ended. */
void mob_client_abandon(struct mob_client *client);

/* ---- questions to the node ---- */

/* `payload` is borrowed until it returns, and has a NUL behind its last byte. MOB_CLOSED: the session ended
 * first. */
typedef void mob_answer_fn(void *arg, enum mob_status status, const char *payload, size_t bytes);
/* Asks one question of the session's protocol (common/wire/record.h). `payload` is copied. MOB_QUEUE_FULL,
 * MOB_NO_MEMORY: not asked, no answer comes. */
MOB_MUST_USE enum mob_status mob_ask(struct mob_client *client, enum mob_request_op op, const void *payload,
    uint32_t bytes, mob_answer_fn *answer, void *arg);
/* Is anything asked that has not been answered? */
bool mob_asks_pending(const struct mob_client *client);
/* No answer to what has been asked so far comes any more; `forgotten` is called for each, to free `arg`. */
void mob_asks_forget(struct mob_client *client, void (*forgotten)(mob_answer_fn *answer, void *arg));
/* What has been asked so far is answered with this status by the next mob_client_turn: of a session that the
 * node refuses (mob_client_refused). */
void mob_asks_fail(struct mob_client *client, enum mob_status status);
/* A text field of a JSON object, decoded; what does not fit into `size` - 1 bytes is cut off between two
 * characters. False: not there, or no text. */
bool mob_json_text_field(const char *json, const char *key, char *out, size_t size);

/* ---- room in the store ---- */

/* `asks`: from now on no call on this client waits for room: what finds none gives MOB_STORE_FULL, and its
 * caller asks for room and calls again. (A session that moves to another node's segment still waits there.)
 */
void mob_client_asks_room(struct mob_client *client, bool asks);
/* For what found none last; the answer is MOB_OK when there is, or what stands in the way with its numbers as
 * text. Somebody else may take it first. */
MOB_MUST_USE enum mob_status mob_ask_room(struct mob_client *client, mob_answer_fn *answer, void *arg);

/* mob_put in steps: prepare, room (again until it is MOB_OK), write, end; or drop at any time between them.
 * The value, and what it points to, must stay until the end. A key (mob_client_key) is taken by the first. */
MOB_MUST_USE enum mob_status mob_put_prepare(
    struct mob_client *client, const struct mob_arg *value, struct mob_put_buffer **buffer_out);
/* That mob_put_write will copy; 0: the value goes with the record. */
uint64_t mob_put_bytes(const struct mob_put_buffer *buffer);
MOB_MUST_USE enum mob_status mob_put_room(struct mob_put_buffer *buffer); /* MOB_STORE_FULL */
/* Copies the bytes. One thread, which may be another than the client's, whose next step comes after it. */
void mob_put_write(struct mob_put_buffer *buffer);
/* Publishes and seals; frees the buffer. MOB_QUEUE_FULL. */
MOB_MUST_USE enum mob_status mob_put_end(struct mob_put_buffer *buffer, struct mob_future **future_out);
void mob_put_drop(struct mob_put_buffer *buffer); /* NULL is fine */

/* ---- futures ---- */

enum mob_future_state {
    MOB_FUTURE_FREE, /* the slot has no handle (never had, or released) */
    MOB_FUTURE_PENDING,
    MOB_FUTURE_READY,
    MOB_FUTURE_FAILED,
    MOB_FUTURE_STREAM /* of a generator: items have futures of their own */
};
struct mob_future_look {
    enum mob_future_state state;
    enum mob_status status; /* when failed */
    enum mob_value_type type; /* when ready */
    bool at_hand; /* ready, and the value came with the notice: mob_value_of_future gives it at once */
    bool own_bytes; /* ready, and its bytes are in the store under its own id */
    struct mob_object_id bytes; /* ready and not at hand: the object whose bytes are its value (tail calls) */
};
struct mob_future_look mob_future_look(const struct mob_future *future);
struct mob_object_id mob_future_object(const struct mob_future *future);
/* Ask the node about it, once, unless it tells by itself. */
enum mob_status mob_future_watch(struct mob_client *client, struct mob_future *future);
/* Of a generator that has ended: how many items it gave, and its status. */
enum mob_status mob_stream_outcome(const struct mob_future *stream, uint32_t *count_out);

/* Memory of one who listens; zeros at first. Its members are the API's. */
struct mob_waiter {
    struct mob_waiter *next; /* of the same future; later: in the ready queue */
    struct mob_waiter **place; /* what points here in that list; NULL: in none */
    struct mob_future *future;
    struct mob_waitset *set; /* or NULL: */
    void (*callback)(struct mob_future *, void *); /* or NULL: */
    struct mob_future *alias; /* gets the same outcome */
    void *arg;
    bool borrowed; /* its memory is the listener's */
};
/* As mob_on_ready, for one of several users of a future: it can be taken back, which must be done before the
 * listener's handle is released. Keeps `waiter` until the callback runs or mob_unlisten(). */
MOB_MUST_USE enum mob_status mob_listen(struct mob_future *future, struct mob_waiter *waiter,
    void (*callback)(struct mob_future *, void *), void *arg);
/* The callback does not come any more. Also when it has come, or nothing was listened to (a waiter of zeros).
 */
void mob_unlisten(struct mob_client *client, struct mob_waiter *waiter);

/* ---- values ---- */

struct mob_value_look {
    enum mob_value_type type;
    const uint8_t *payload; /* until the value is released */
    uint64_t bytes;
};
struct mob_value_look mob_value_look(const struct mob_value *value);
/* XXH3-128 of the content, which the store and the log keep: the payload, and before it the table of what it
 * refers to, if it refers to objects or actors. False: the store has none of this value (a small one). */
bool mob_value_stored_hash(const struct mob_value *value, struct mob_hash128 *hash_out);
/* Of a future that is ready, without logging. */
MOB_MUST_USE enum mob_status mob_value_of_future(struct mob_future *future, struct mob_value **value_out);
/* What the store has now. MOB_NOT_FOUND, MOB_NOT_READY: *id is then the object that is missing
 * (MOB_REQ_FETCH brings it); MOB_NO_MEMORY. Follows tail calls. */
MOB_MUST_USE enum mob_status mob_value_of_object(
    struct mob_client *client, struct mob_object_id *id, struct mob_value **value_out);
MOB_MUST_USE enum mob_status mob_tensor_decode(
    const uint8_t *payload, uint64_t bytes, struct mob_tensor *out);

/* ---- functions ---- */

struct mob_callable { /* borrows from its function or class, which lives as long as the client */
    const char *text;
    const struct mob_signature *signature;
    uint16_t num_returns; /* MOB_RETURNS_STREAM for a generator */
};
const char *mob_function_name(const struct mob_function *function);
bool mob_function_is_class(const struct mob_function *function);
struct mob_callable mob_function_callable(const struct mob_function *function);
/* False: the class has no such method. */
bool mob_method_callable(const struct mob_function *class, const char *method, struct mob_callable *out);
/* Will mob_function_find answer from what is known here for a while yet? */
bool mob_function_is_fresh(struct mob_client *client, const char *name);
/* Takes the node's answer to MOB_REQ_FUNCTION, asked with this name: mob_function_find has it from then on.
 */
enum mob_status mob_function_learn(
    struct mob_client *client, const char *name, const uint8_t *reply, uint32_t bytes);
/* Names may mean something else now: each is asked for again when it is used. */
void mob_functions_distrust(struct mob_client *client);

/* ---- ids that follow from a key ---- */

/* The next submission (task, actor, call) of this client is child `index` of `root`, which stands for an
 * idempotency key, and the next put is its first. `again`: an earlier process may have submitted it, so the
 * node looks it up first, and takes what it finds for this submission. Good for one; NULL: none after all.
 * Such a generator has no stream of items here. */
void mob_client_key(struct mob_client *client, const struct mob_task_id *root, uint32_t index, bool again);
struct mob_task_id mob_key_child(struct mob_task_id root, uint32_t index);

/* ---- tasks and actors ---- */

/* mob_cancel for a task of which there is no future here. */
MOB_MUST_USE enum mob_status mob_cancel_task(struct mob_client *client, struct mob_task_id task, bool force);
/* A handle; there is one per actor and client. NULL: out of memory. */
struct mob_actor *mob_actor_of_id(struct mob_client *client, struct mob_actor_id id);
/* Of an actor that was made elsewhere: known, it is not asked for. */
void mob_actor_set_class(struct mob_actor *actor, const struct mob_function *cls);
struct mob_actor_id mob_actor_identity(const struct mob_actor *actor);
/* mob_actor_create without its look-up of options->name, for which it waits: the caller has asked the node
 * (MOB_REQ_NAME), and the name is free. */
MOB_MUST_USE enum mob_status mob_actor_create_unasked(struct mob_client *client,
    const struct mob_function *class, struct mob_args args, const struct mob_actor_options *options,
    struct mob_actor **actor_out);

/* ---- inference: bodies that enter no log (ARCHITECTURE "Output commit") ---- */

/* An object in the store that only calls of mob_call_unlogged may use. `write` fills the payload before this
 * returns. MOB_STORE_FULL. */
MOB_MUST_USE enum mob_status mob_put_unlogged(struct mob_client *client, enum mob_value_type type,
    uint64_t bytes, void (*write)(void *arg, uint8_t *payload), void *arg, struct mob_object_id *id_out);
/* A read-only call of an actor that is lost with the node. */
MOB_MUST_USE enum mob_status mob_call_unlogged(struct mob_actor *actor, const struct mob_function *class,
    const char *method, struct mob_args args, struct mob_future **futures_out);
/* Nobody needs these inputs and outputs of such calls any more. False: no room in the ring now. */
bool mob_drop_unlogged(struct mob_client *client, const struct mob_object_id *ids, uint32_t count);

#endif
