/* Mobula's public C API, for drivers (programs that submit work) and for function modules (the work).
 *
 *   static enum mob_status add(struct mob_call *call) {                         // arith.c: a module
 *       return mob_return_i64(call, mob_arg_i64(call, 0) + mob_arg_i64(call, 1));
 *   }
 *   MOB_MODULE("arith", MOB_FUNCTION("add", add, "i64 a, i64 b -> i64"))
 *
 *   mob_connect(NULL, &client);                                                  // a driver
 *   mob_submit(client, "arith.add", MOB_ARGS(mob_i64(1), mob_i64(2)), NULL, &future);
 *   mob_get_i64(future, MOB_FOREVER, &sum);
 *
 * Conventions: every call that can fail returns enum mob_status (0 = MOB_OK); outputs come last and are
 * written only on success; after a failure mob_client_error() gives a sentence that says what to do. Handles
 * are opaque. Options structs start with `struct_size` (= sizeof): what is zero behind it has its default,
 * and the shorter structs of older headers are fine; a struct_size of 0, or one beyond what this library
 * knows, is MOB_INVALID. Options are checked before anything is sent: MOB_INVALID, and mob_client_error()
 * names the field and its bounds. A pointer that is NULL where that is not said to be fine is MOB_INVALID
 * too, or nothing, from what gives no status; without a client mob_client_error(NULL) says which. Times are
 * nanoseconds; a negative time-out or MOB_FOREVER waits for ever. A client and everything made from it belong
 * to one thread of one process; open one client a thread, and in a child of fork(2) another one: with the
 * parent's both would write into one ring, and get wrong results. Values are immutable. Usable from C++.
 *
 * Inside a function, mob_call_client(call) is the client of the running task: what it submits is a child of
 * that task (the papers' nested remote functions), and its ids are the same when the task is run again after
 * a crash. What a function does must depend on its arguments and on this API only; for time and randomness
 * use mob_clock_ns() and mob_random(), whose values are logged.
 */
#ifndef MOBULA_MOBULA_H
#define MOBULA_MOBULA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mobula/log_level.h>
#include <mobula/status.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

#define MOB_API __attribute__((visibility("default")))
#define MOB_FOREVER INT64_MAX
#define MOB_TEXT_ID_MAX 48 /* bytes of any id in text form, with its NUL */

struct mob_client; /* a driver's session, or a running task's view of the node */
struct mob_future; /* a value that will exist: one return of one task, or a put */
struct mob_actor; /* handle of an actor */
struct mob_value; /* bytes of a ready object, read-only, in place in shared memory */
struct mob_call; /* the running call, inside a function */
struct mob_waitset;

/* ---- connecting ---- */

struct mob_connect_options {
    size_t struct_size;
    const char *directory; /* state directory of the cluster; default $MOBULA_DIR, else ~/.mobula */
    const char *name_space; /* default "default" */
    const char *job_name; /* shown in lists; default the program's name */
    const char
        *idempotency_key; /* a driver restarted under the same key finds its futures: its job stays for
                             ten minutes after its session. NULL = a new job, which ends with the
                             session: unfinished tasks are cancelled, actors that are not detached end */
    bool standing_job; /* join the namespace's standing job instead of opening one (the gateway does) */
    bool read_local; /* get() may return values whose lineage is not acknowledged yet. For
                        embedded use; a crash of the node may then make the same future resolve again. */
    bool detached; /* the job goes on when this session ends */
    int64_t timeout_ns; /* for connecting; 0 = 10 s */
    bool gateway; /* the session of a gateway: may cancel, kill and query any job of the namespace */
    uint32_t job_weight; /* the job's share of task starts against other jobs that have work, 1..1000; 0 =
                            100, or, of a job that is joined again, as it was */
    const char *join_job; /* with `gateway`: id of an open job that this session submits to as well, under ids
                             of its own. MOB_NOT_FOUND; MOB_FINISHED: it has ended */
};
/* Blocks until connected. MOB_UNAVAILABLE when no node answers, MOB_VERSION, MOB_DENIED. */
MOB_API MOB_MUST_USE enum mob_status mob_connect(
    const struct mob_connect_options *options, struct mob_client **client_out);
/* Why this thread's last mob_connect failed, one sentence. */
MOB_API const char *mob_connect_error(void);
/* Flushes, then leaves. Futures, actors, values and wait sets of this client are gone, and its job ends
 * unless it is `detached`, standing, or has an idempotency_key. NULL is fine. */
MOB_API void mob_disconnect(struct mob_client *client);
/* What went wrong in the last failed call on this client, one sentence; never NULL. Valid until the next
 * call. NULL: of this thread's last call that had no client, because it was given NULL in the place of one.
 */
MOB_API const char *mob_client_error(const struct mob_client *client);
/* Id of the job that this client submits to, as text. */
MOB_API void mob_client_job(const struct mob_client *client, char text_out[MOB_TEXT_ID_MAX]);

/* Event-loop form: poll `fd` for reading, then step. The descriptor is the client's, the same each time and
 * gone with it; -1: out of memory, descriptors or threads. step never blocks, runs the on_ready callbacks,
 * and returns how many futures became ready. */
MOB_API int mob_client_fd(struct mob_client *client);
MOB_API int mob_client_step(struct mob_client *client);
/* Wait until everything submitted and put so far is acknowledged by the GCS. MOB_REPLAY_DIVERGED: in a task
 * with restart_on_divergence that runs again and asked for something else than before. */
MOB_API MOB_MUST_USE enum mob_status mob_flush(struct mob_client *client, int64_t timeout_ns);

/* ---- arguments ---- */

enum mob_tensor_dtype { /* of tensors; the numbers of common/wire/tensor.h */
    MOB_BOOL8 = 1,
    MOB_U8 = 2,
    MOB_U16 = 3,
    MOB_U32 = 4,
    MOB_U64 = 5,
    MOB_I8 = 6,
    MOB_I16 = 7,
    MOB_I32 = 8,
    MOB_I64 = 9,
    MOB_F16 = 10,
    MOB_BF16 = 11,
    MOB_F32 = 12,
    MOB_F64 = 13,
    MOB_BYTES = 14 /* texts, or any bytes: each element is a uint32_t, its length, and so many bytes */
};
#define MOB_TENSOR_DIMS_MAX 8u
struct mob_tensor {
    enum mob_tensor_dtype dtype;
    int32_t dims;
    int64_t shape[MOB_TENSOR_DIMS_MAX];
    const void *data; /* row-major, contiguous; of MOB_BYTES one element right behind the other, unaligned */
};

/* One argument or return value; borrowed until the call it is passed to returns. */
struct mob_arg {
    int kind; /* internal */
    union {
        int64_t i64;
        double f64;
        bool boolean;
        struct {
            const void *data;
            size_t size;
        } bytes;
        struct mob_tensor tensor;
        const struct mob_future *future;
        const struct mob_actor *actor;
    } as;
};
MOB_API struct mob_arg mob_i64(int64_t v);
MOB_API struct mob_arg mob_f64(double v);
MOB_API struct mob_arg mob_bool(bool v);
MOB_API struct mob_arg mob_null(void);
/* Text that is not UTF-8 is no value (MOB_INVALID where it is used): other bytes go by mob_bytes. */
MOB_API struct mob_arg mob_utf8(const char *text);
MOB_API struct mob_arg mob_utf8_of(const char *text, size_t size); /* which may hold NULs */
MOB_API struct mob_arg mob_json(const char *text);
MOB_API struct mob_arg mob_bytes(const void *data, size_t size);
MOB_API struct mob_arg mob_tensor(struct mob_tensor tensor);
MOB_API struct mob_arg mob_tensor_f32(const float *data, int64_t rows, int64_t columns); /* columns 0 = 1-D */
MOB_API struct mob_arg mob_ref(const struct mob_future *future); /* pass by reference: the task waits for it;
                                                                    not a stream, whose items may be */
MOB_API struct mob_arg mob_actor_handle(const struct mob_actor *actor);

struct mob_args {
    const struct mob_arg *items;
    size_t count;
};
/* A list of arguments for one call: it is gone at the end of the expression that it stands in. */
#ifndef __cplusplus
#define MOB_ARGS(...) \
    ((struct mob_args){(const struct mob_arg[]){__VA_ARGS__}, \
        sizeof((const struct mob_arg[]){__VA_ARGS__}) / sizeof(struct mob_arg)})
#define MOB_NO_ARGS ((struct mob_args){NULL, 0})
#else
static inline struct mob_args mob_args_of_list(const std::initializer_list<struct mob_arg> &list)
{
    return mob_args{list.begin(), list.size()};
}
#define MOB_ARGS(...) (mob_args_of_list({__VA_ARGS__}))
#define MOB_NO_ARGS (mob_args{nullptr, 0})
#endif

/* ---- tasks ---- */

struct mob_resource {
    const char *name; /* "CPU", "GPU", "memory" (bytes) or any name the node declares; 1 to 63 bytes */
    double amount; /* 0, or 1/10000 up to 9e14 ("CPU": 429,496), in steps of 1/10000 */
};
struct mob_submit_options {
    size_t struct_size;
    const char *name; /* display name, 1 to 256 bytes of UTF-8 */
    double cpus; /* 0 = the default (1 for tasks and for placing an actor); negative = none; up to 429,496 */
    const struct mob_resource *resources; /* up to 8, CPU among them */
    size_t resource_count;
    int max_retries; /* 0 = default 3; -1 = for ever; MOB_NO_RETRY = none; up to 1,000,000 */
    bool retry_on_error; /* also when the function returned an error */
    int64_t backoff_initial_ns, backoff_max_ns; /* 0 = 10 ms, 10 s; doubles */
    int64_t timeout_ns; /* deadline from now, not negative; 0 or MOB_FOREVER = none */
    int64_t delay_ns; /* not before now + delay, not negative */
    int priority; /* higher first within the job; -32,768 to 32,767 */
    bool deterministic; /* results may be dropped and re-made from lineage */
    bool restart_on_divergence;
    const char *const *labels; /* "key=value", up to 511 bytes of UTF-8 each */
    size_t label_count;
    const char *traceparent; /* W3C trace context */
    uint32_t num_returns; /* of a function or method with variadic returns (`-> i64...`): how many; 0 = as
                             declared */
};
#define MOB_NO_RETRY (-2)

/* Submit a task: returns at once. `function` is "module.function", or "module.function@hash" to pin. One
 * future per declared return is written to futures_out[0..n-1] (one for a stream: see mob_stream_next).
 * Arguments are checked against the signature: MOB_TYPE_MISMATCH names the argument. MOB_NOT_FOUND: no such
 * function (deployed?). MOB_INVALID: an option out of bounds, a resource named twice, an argument that is no
 * value (text that is not UTF-8, or not JSON, say). MOB_TOO_LARGE: labels and resources, together up to 4
 * KiB. MOB_GCS_FULL, MOB_QUEUE_FULL: backpressure, try again. */
MOB_API MOB_MUST_USE enum mob_status mob_submit(struct mob_client *client, const char *function,
    struct mob_args args, const struct mob_submit_options *options, struct mob_future **futures_out);
/* A resolved function, to save the look-up by name in a loop. Lives as long as the client. */
struct mob_function;
MOB_API MOB_MUST_USE enum mob_status mob_function_find(
    struct mob_client *client, const char *function, const struct mob_function **function_out);
/* As mob_submit. */
MOB_API MOB_MUST_USE enum mob_status mob_submit_function(struct mob_client *client,
    const struct mob_function *function, struct mob_args args, const struct mob_submit_options *options,
    struct mob_future **futures_out);
/* Its signature as text, which lives as long as the client. */
MOB_API const char *mob_function_signature(const struct mob_function *function);
/* Ask a task to stop; `force` kills its worker at once. Its descendants are cancelled too, also if it has
 * ended by itself before (what lives below it then; it stays as it is), and so is what it became if it has
 * ended with the future of another task. Its futures become errors. Returns at once; what
 * is unknown or has ended already is no error. MOB_UNAVAILABLE. */
MOB_API MOB_MUST_USE enum mob_status mob_cancel(struct mob_future *future, bool force);

/* ---- futures ---- */

/* Waits until ready, then gives the value in place (pinned until mob_value_release). A failed task gives its
 * status (MOB_TASK_FAILED, MOB_WORKER_DIED, MOB_DEPENDENCY_FAILED, MOB_CANCELLED, ...) and no value; the
 * chain of causes is in mob_future_error. MOB_TIMEOUT, also when the bytes of what is ready have left memory
 * and are not brought back (from disk, or made again) in that time; they come all the same. With a time-out
 * of 0 what is not ready is MOB_TIMEOUT at once, and what is has a second for that. MOB_UNAVAILABLE,
 * MOB_STORE_FULL: it cannot be looked up or brought back now; the next get asks again. A worker that waits
 * here gives back its CPU. */
MOB_API MOB_MUST_USE enum mob_status mob_get(
    struct mob_future *future, int64_t timeout_ns, struct mob_value **value_out);
/* The same for one number, with nothing to release. MOB_TYPE_MISMATCH: the value is of another type. */
MOB_API MOB_MUST_USE enum mob_status mob_get_i64(
    struct mob_future *future, int64_t timeout_ns, int64_t *value_out);
MOB_API MOB_MUST_USE enum mob_status mob_get_f64(
    struct mob_future *future, int64_t timeout_ns, double *value_out);
/* Error of a failed future as JSON: {"code","message","retryable","task","signal","log","cause":{...}}, the
 * form in which the gateway tells failures too. Valid until release or the next error. */
MOB_API const char *mob_future_error(struct mob_future *future);
/* Ready already? Never blocks. */
MOB_API bool mob_ready(struct mob_future *future);
/* The papers' wait: the first k of n, or what is ready at the time-out. ready_out[i] is set for each of the
 * n; returns MOB_OK also at the time-out; *count_out says how many are ready. A future that stands in the
 * array twice counts twice. Each call reads the whole array: for many waits over the same futures use a
 * waitset. */
MOB_API MOB_MUST_USE enum mob_status mob_wait(struct mob_future *const *futures, size_t n, size_t k,
    int64_t timeout_ns, bool *ready_out, size_t *count_out);
/* Wait set: add futures once, then take them as they become ready; O(1) a completion. A task that runs again
 * is given them in the order of its first run. What is released leaves its sets; a set that is destroyed
 * leaves its futures, and destroying NULL is fine. All are of the set's client. MOB_NO_MEMORY. */
MOB_API MOB_MUST_USE enum mob_status mob_waitset_create(
    struct mob_client *client, struct mob_waitset **set_out);
MOB_API MOB_MUST_USE enum mob_status mob_waitset_add(struct mob_waitset *set, struct mob_future *future);
MOB_API MOB_MUST_USE enum mob_status mob_waitset_next(struct mob_waitset *set, int64_t timeout_ns,
    struct mob_future **ready_out); /* MOB_TIMEOUT; MOB_NOT_FOUND: empty */
MOB_API void mob_waitset_destroy(struct mob_waitset *set);
/* Called from mob_client_step (or a blocking call) on the client's thread, once, never from inside this call.
 */
MOB_API MOB_MUST_USE enum mob_status mob_on_ready(
    struct mob_future *future, void (*callback)(struct mob_future *, void *), void *arg);
/* Drop the handle: a hint, the object can be asked for again by id. Once for each time it was given. NULL is
 * fine. */
MOB_API void mob_release(struct mob_future *future);
MOB_API void mob_future_id(const struct mob_future *future, char text_out[MOB_TEXT_ID_MAX]); /* obj_... */
MOB_API void mob_future_task_id(
    const struct mob_future *future, char text_out[MOB_TEXT_ID_MAX]); /* task_... */
/* A future of this client for any object that has an id. Whether there is one is asked when it is waited for:
 * of what no log knows mob_get gives MOB_NOT_FOUND, or MOB_LOST_UNCOMMITTED when the control store has lost
 * what it may have been in. MOB_INVALID: the text is no object's id. */
MOB_API MOB_MUST_USE enum mob_status mob_future_from_id(
    struct mob_client *client, const char *object_id, struct mob_future **future_out);
/* Store a value; returns at once. It is in the GCS (or safe on disk) before anything that depends on it
 * leaves the node; mob_flush waits for it. MOB_INVALID: a reference, or no value (text that is not JSON, a
 * tensor without data). MOB_STORE_FULL, with the numbers, when the node could make no room; MOB_QUEUE_FULL,
 * MOB_UNAVAILABLE, MOB_NO_MEMORY. */
MOB_API MOB_MUST_USE enum mob_status mob_put(
    struct mob_client *client, struct mob_arg value, struct mob_future **future_out);
/* A future now, its value later: tasks may wait for it before it is there. Only this client can fulfil it,
 * once; when the session ends without, whoever waits gets MOB_OBJECT_LOST. mob_fulfil: errors as mob_put;
 * MOB_FINISHED: it has its value; MOB_INVALID too for a future that is no promise. */
MOB_API MOB_MUST_USE enum mob_status mob_promise(struct mob_client *client, struct mob_future **future_out);
MOB_API MOB_MUST_USE enum mob_status mob_fulfil(struct mob_future *future, struct mob_arg value);
/* A put of `size` bytes without a copy: write into *data_out, then mob_put_finish or mob_put_abort, after
 * either of which the buffer is gone. Errors as mob_put. */
struct mob_put_buffer;
MOB_API MOB_MUST_USE enum mob_status mob_put_begin(
    struct mob_client *client, size_t size, void **data_out, struct mob_put_buffer **buffer_out);
MOB_API MOB_MUST_USE enum mob_status mob_put_finish(
    struct mob_put_buffer *buffer, struct mob_future **future_out);
MOB_API void mob_put_abort(struct mob_put_buffer *buffer);
/* Next item of a generator task's stream; MOB_NOT_FOUND after the last, the generator's error if it failed,
 * which mob_future_error(stream) has from then on.
 * The stream itself is ready (mob_ready, mob_wait, mob_on_ready, wait sets) when the generator has ended;
 * mob_get of it is MOB_INVALID. */
MOB_API MOB_MUST_USE enum mob_status mob_stream_next(
    struct mob_future *stream, int64_t timeout_ns, struct mob_future **item_out);

/* Values. Accessors give MOB_TYPE_MISMATCH when the value is of another type. Data stays valid until release.
 */
MOB_API const char *mob_value_type(const struct mob_value *value); /* "i64", "tensor", ... */
MOB_API MOB_MUST_USE enum mob_status mob_value_i64(const struct mob_value *value, int64_t *out);
MOB_API MOB_MUST_USE enum mob_status mob_value_f64(const struct mob_value *value, double *out);
MOB_API MOB_MUST_USE enum mob_status mob_value_bool(const struct mob_value *value, bool *out);
MOB_API MOB_MUST_USE enum mob_status mob_value_data(const struct mob_value *value, const void **data_out,
    size_t *size_out); /* bytes, utf8, json, table, pickle5 */
MOB_API MOB_MUST_USE enum mob_status mob_value_tensor(const struct mob_value *value, struct mob_tensor *out);
/* A handle of the client's own, to be released. */
MOB_API MOB_MUST_USE enum mob_status mob_value_actor(
    struct mob_client *client, const struct mob_value *value, struct mob_actor **actor_out);
MOB_API void mob_value_release(struct mob_value *value);

/* ---- actors ---- */

struct mob_actor_options {
    size_t struct_size;
    const char *name; /* registered in the namespace; 1 to 127 bytes of UTF-8 */
    bool return_if_exists; /* with a name: give the living one instead of MOB_EXISTS */
    bool detached; /* outlives the job */
    int max_restarts; /* 0 = none, -1 = for ever; up to 1,000,000 */
    int checkpoint_every; /* calls, up to 1,000,000,000; 0 = never; needs the class' checkpoint/restore hooks
                           */
    double cpus; /* to be placed: 0 = 1 */
    const struct mob_resource *resources;
    size_t resource_count;
    const char *traceparent; /* W3C trace context, of the creation */
};
/* `cls` is "module.Class". Returns at once, with a name after one question to the node; creation waits for
 * resources. MOB_NOT_FOUND: no such class. MOB_INVALID: a function and no class, or an option out of bounds.
 * MOB_EXISTS: an actor of that name lives, and return_if_exists is not set. Else as mob_submit; what goes
 * wrong later is the error of mob_actor_created's future. */
MOB_API MOB_MUST_USE enum mob_status mob_actor_create(struct mob_client *client, const char *cls,
    struct mob_args args, const struct mob_actor_options *options, struct mob_actor **actor_out);
/* Calls of one caller run in the order in which they were made. Options: those of a task, but cpus,
 * resources, retry_on_error, deterministic and restart_on_divergence, which are MOB_INVALID. MOB_NOT_FOUND:
 * no such method, or no such actor. Else as mob_submit. That the actor is dead is no error of this call but
 * of its future: MOB_ACTOR_DIED. */
MOB_API MOB_MUST_USE enum mob_status mob_actor_call(struct mob_actor *actor, const char *method,
    struct mob_args args, const struct mob_submit_options *options, struct mob_future **futures_out);
/* The living actor of that name in the client's namespace. MOB_NOT_FOUND; MOB_UNAVAILABLE. */
MOB_API MOB_MUST_USE enum mob_status mob_actor_find(
    struct mob_client *client, const char *name, struct mob_actor **actor_out);
/* MOB_INVALID: the text is no actor's id. Whether there is such an actor is not asked. */
MOB_API MOB_MUST_USE enum mob_status mob_actor_from_id(
    struct mob_client *client, const char *actor_id, struct mob_actor **actor_out);
/* Ends the actor's worker at once. As after a crash, it then restarts while max_restarts lasts, and its call
 * runs again; with `no_restart` it is dead for good, its name is free, and its calls end with MOB_ACTOR_DIED.
 * Returns when that is acknowledged by the GCS. MOB_NOT_FOUND: never was; MOB_FINISHED: dead already. */
MOB_API MOB_MUST_USE enum mob_status mob_actor_kill(struct mob_actor *actor, bool no_restart);
MOB_API void mob_actor_id(const struct mob_actor *actor, char text_out[MOB_TEXT_ID_MAX]);
/* The future of the creation itself (null value): ready when the constructor has returned. */
MOB_API MOB_MUST_USE enum mob_status mob_actor_created(
    struct mob_actor *actor, struct mob_future **future_out);
/* Drop the handle; the actor lives on. NULL is fine. */
MOB_API void mob_actor_release(struct mob_actor *actor);

/* ---- inside a function ---- */

/* `call`, its client and what the accessors give are there until the function returns, and belong to the
 * thread that it runs on. */
MOB_API struct mob_client *mob_call_client(struct mob_call *call);
MOB_API size_t mob_arg_count(const struct mob_call *call);
/* Typed access. The signature was checked at submission; a by-reference argument is its value here. A wrong
 * type or index ends the task with a typed error after it returns; the accessor gives 0 / NULL. */
MOB_API int64_t mob_arg_i64(struct mob_call *call, size_t i);
MOB_API double mob_arg_f64(struct mob_call *call, size_t i);
MOB_API bool mob_arg_bool(struct mob_call *call, size_t i);
MOB_API bool mob_arg_is_null(struct mob_call *call, size_t i);
/* Of an `any`: "i64", "utf8", ..., as mob_value_type; "null" also of one that was left out. */
MOB_API const char *mob_arg_type(const struct mob_call *call, size_t i);
/* No NUL ends the text, and it may hold some: its length is in `*size_out`. */
MOB_API const char *mob_arg_utf8(struct mob_call *call, size_t i, size_t *size_out);
MOB_API const void *mob_arg_bytes(struct mob_call *call, size_t i, size_t *size_out);
MOB_API struct mob_tensor mob_arg_tensor(struct mob_call *call, size_t i);
MOB_API struct mob_actor *mob_arg_actor(struct mob_call *call, size_t i); /* borrowed */
/* Returns: index 0 unless the signature declares several. Copies. Each returns MOB_OK so that `return
 * mob_return_*` reads well. */
MOB_API enum mob_status mob_return_i64(struct mob_call *call, int64_t v);
MOB_API enum mob_status mob_return_f64(struct mob_call *call, double v);
MOB_API enum mob_status mob_return(struct mob_call *call, struct mob_arg v);
MOB_API enum mob_status mob_return_at(struct mob_call *call, size_t index, struct mob_arg v);
/* Large results without a copy: write into the returned buffer before the function returns. NULL when the
 * store is full. */
MOB_API void *mob_return_buffer(struct mob_call *call, size_t index, size_t size);
/* Tail call: the result is what that future becomes. */
MOB_API enum mob_status mob_return_future(struct mob_call *call, struct mob_future *future);
MOB_API enum mob_status mob_yield(struct mob_call *call, struct mob_arg item); /* next item of a `stream T` */
/* End as an application error with this message. `return mob_fail(call, "no such %s", x);` */
MOB_API enum mob_status mob_fail(struct mob_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* About the call. */
MOB_API void mob_call_task_id(const struct mob_call *call, char text_out[MOB_TEXT_ID_MAX]);
MOB_API uint32_t mob_call_attempt(const struct mob_call
        *call); /* 1 = the first; more after an end of the node, also of what had not begun */
MOB_API int64_t mob_call_deadline_ns(const struct mob_call *call); /* wall clock; 0 = none */
MOB_API bool mob_call_cancelled(struct mob_call *call); /* looks; a long function asks now and then */
MOB_API void *mob_call_self(struct mob_call *call); /* the actor's instance */
MOB_API void mob_call_set_self(struct mob_call *call, void *instance); /* in a constructor or restore hook */
/* Logged, so that a replay sees the same. */
MOB_API int64_t mob_clock_ns(struct mob_call *call); /* wall clock */
MOB_API uint64_t mob_random(struct mob_call *call);
/* Seen in /events and /timeline. MOB_INVALID: a type or name that is not 1 to 255 bytes of UTF-8, text that
 * is not JSON, a fraction outside 0..1, a begin that is none; MOB_TOO_LARGE: JSON over 64 KiB. json NULL is
 * {}; a message is cut after 500 bytes. mob_span_begin gives nanoseconds of the monotonic clock, for
 * mob_span_end of the same task. */
MOB_API enum mob_status mob_event(struct mob_call *call, const char *type, const char *json);
MOB_API enum mob_status mob_progress(struct mob_call *call, double fraction, const char *message);
MOB_API int64_t mob_span_begin(struct mob_call *call);
MOB_API enum mob_status mob_span_end(struct mob_call *call, int64_t begin, const char *name);

/* ---- logging ---- */

/* One line, `time level text`, of at most 2,046 bytes; line ends in the text become blanks. Levels below the
 * threshold cost nothing. `call`: the running call, in a function: the line is output of its task like what
 * it writes to stderr, read with `mobula logs`, over HTTP while the task runs, and in its event log. NULL, in
 * a driver: it goes where the library's own lines go. Any thread. */
MOB_API void mob_log(struct mob_call *call, enum mob_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What is logged at all: MOB_LOG_LEVEL_DEBUG, _INFO, _WARN or _ERROR and above. At first it is what the
 * environment says in MOBULA_LOG (debug, info, warn, error), else INFO; workers have their node's. Any
 * thread; for the whole process. */
MOB_API void mob_set_log_level(enum mob_log_level least);
/* Gets the lines of this process, the library's own (`time level module event key=value ...`) and those of
 * mob_log(NULL, ...), instead of stderr: without line end, with a NUL behind it, valid until it returns. It
 * is called from whatever thread logs, also threads of the library, one call at a time, and must call nothing
 * of this API but mob_log and mob_set_log_handler; what it logs itself goes to stderr. NULL = stderr again.
 * When this returns the handler before is not called any more. For drivers: a worker's lines belong to its
 * log. */
typedef void mob_log_handler(void *arg, enum mob_log_level level, const char *line, size_t bytes);
MOB_API void mob_set_log_handler(mob_log_handler *handler, void *arg);

/* ---- modules ---- */

#define MOB_ABI 1
#if defined(__x86_64__)
#define MOB_MACHINE "x86_64"
#elif defined(__aarch64__)
#define MOB_MACHINE "aarch64"
#else
#error "unsupported machine"
#endif

typedef enum mob_status (*mob_function_main)(struct mob_call *call);
struct mob_method_entry {
    const char *name;
    mob_function_main main;
    const char *signature;
    unsigned
        flags; /* MOB_METHOD_READ_ONLY: it leaves the instance as it is, and no restart repeats its calls */
};
#define MOB_METHOD_READ_ONLY 1u
struct mob_function_entry {
    const char *name;
    mob_function_main main; /* of a class: the constructor */
    const char *signature; /* grammar: docs/signatures.md */
    const struct mob_method_entry *methods; /* NULL for a function; ended by a NULL name */
    void (*destroy)(void *instance);
    /* Hooks, NULL when absent. checkpoint returns the state with mob_return(); restore finds it as argument
     * 0. */
    mob_function_main checkpoint;
    mob_function_main restore;
    unsigned flags; /* MOB_FUNCTION_DETERMINISTIC: the option `deterministic` of each task of it */
};
#define MOB_FUNCTION_DETERMINISTIC 1u
struct mob_module {
    uint32_t abi;
    uint32_t struct_size;
    const char *machine;
    const char *name;
    const struct mob_function_entry *functions; /* ended by a NULL name */
};

extern MOB_API const struct mob_module mob_module_v1;

#ifndef __cplusplus
#define MOB_FUNCTION(name_, main_, signature_) \
    { \
        .name = (name_), .main = (main_), .signature = (signature_) \
    }
#define MOB_METHOD(name_, main_, signature_) \
    { \
        .name = (name_), .main = (main_), .signature = (signature_) \
    }
#define MOB_METHODS(...) ((const struct mob_method_entry[]){__VA_ARGS__, {.name = NULL}})
#define MOB_ACTOR_CLASS(name_, create_, signature_, destroy_, ...) \
    { \
        .name = (name_), .main = (create_), .signature = (signature_), .methods = MOB_METHODS(__VA_ARGS__), \
        .destroy = (destroy_) \
    }
/* Define exactly once in a module. */
#define MOB_MODULE(module_name, ...) \
    static const struct mob_function_entry mob_module_functions_[] = {__VA_ARGS__, {.name = NULL}}; \
    MOB_API const struct mob_module mob_module_v1 = { \
        MOB_ABI, sizeof(struct mob_module), MOB_MACHINE, module_name, mob_module_functions_};
#else /* without compound literals and designators, which C++ has not or not in this place */
#define MOB_FUNCTION(name_, main_, signature_) \
    mob_function_entry \
    { \
        (name_), (main_), (signature_), nullptr, nullptr, nullptr, nullptr, 0 \
    }
#define MOB_METHOD(name_, main_, signature_) \
    mob_method_entry \
    { \
        (name_), (main_), (signature_), 0 \
    }
#define MOB_METHODS(...) \
    ([]() -> const mob_method_entry * { \
        static const mob_method_entry methods_[] = {__VA_ARGS__, {nullptr, nullptr, nullptr, 0}}; \
        return methods_; \
    }())
#define MOB_ACTOR_CLASS(name_, create_, signature_, destroy_, ...) \
    mob_function_entry \
    { \
        (name_), (create_), (signature_), MOB_METHODS(__VA_ARGS__), (destroy_), nullptr, nullptr, 0 \
    }
#define MOB_MODULE(module_name, ...) \
    static const mob_function_entry mob_module_functions_[] = { \
        __VA_ARGS__, {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0}}; \
    const mob_module mob_module_v1 = { \
        MOB_ABI, sizeof(mob_module), MOB_MACHINE, module_name, mob_module_functions_};
#endif

/* Deploy a module file: functions are known to the cluster under "module.function" at once. `hash_out` (65
 * bytes, may be NULL) gets the content hash. Needs the deploy role over HTTP; a local driver has it.
 * MOB_ABI_MISMATCH. */
MOB_API MOB_MUST_USE enum mob_status mob_deploy(struct mob_client *client, const char *path, char *hash_out);
MOB_API MOB_MUST_USE enum mob_status mob_deploy_bytes(
    struct mob_client *client, const void *bytes, size_t size, char *hash_out);

/* ---- operations ---- */

/* Control questions, answered as JSON text (free with free()): `what` is "stats", "why", "task", "actor",
 * "job", "live-tasks"; `subject` an id, name or JSON filter. For tools and the gateway. */
MOB_API MOB_MUST_USE enum mob_status mob_query(
    struct mob_client *client, const char *what, const char *subject, int64_t timeout_ns, char **json_out);
/* The same without blocking: callback from mob_client_step (or a blocking call), once; `json` is valid until
 * it returns. MOB_CLOSED: the client was disconnected first. */
MOB_API MOB_MUST_USE enum mob_status mob_query_async(struct mob_client *client, const char *what,
    const char *subject, void (*callback)(void *arg, enum mob_status, const char *json, size_t size),
    void *arg);

#ifdef __cplusplus
}
#endif
#endif
