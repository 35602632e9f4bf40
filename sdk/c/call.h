/* A running call: what mob_arg_*, mob_return_* and the worker share. One per worker, used again for each
 * task. */
#ifndef MOB_SDK_C_CALL_H
#define MOB_SDK_C_CALL_H

#include "sdk/c/client.h"

struct mob_call_arg {
    enum mob_value_type type;
    bool pinned;
    bool in_place; /* payload == small */
    const uint8_t *payload;
    uint64_t bytes;
    struct mob_object_ref pin;
    uint8_t small[MOB_OBJECT_INLINE_MAX];
};
struct mob_call_return {
    enum mob_value_type type; /* MOB_TYPE_NONE = not set yet */
    bool stored; /* a full value in the store, unsealed */
    bool exists; /* made by an earlier run: nothing to seal */
    struct mob_object_ref ref;
    uint8_t *payload; /* stored: in the segment */
    uint64_t bytes;
    void *full; /* stored: its header */
    uint64_t full_bytes;
    struct mob_hash128 hash;
    uint8_t small[MOB_OBJECT_INLINE_MAX < 24 ? 24 : MOB_OBJECT_INLINE_MAX];
};
struct mob_logged_outcome {
    struct mob_logged_outcome *next;
    struct mob_out_outcome head;
    uint8_t payload[];
};
#define MOB_CALL_ARGS_FEW 16u
#define MOB_CALL_RETURNS_FEW 4u
#define MOB_CALL_MESSAGE_MAX 1024u

struct mob_call {
    struct mob_client *client;
    struct mob_spec_head head;
    struct mob_in_spec in;
    uint8_t *tail; /* private copy */
    uint32_t tail_bytes;

    struct mob_call_arg few_args[MOB_CALL_ARGS_FEW];
    struct mob_call_arg *args;
    uint32_t arg_count, arg_capacity;
    uint32_t pinned_args;
    struct mob_call_arg *pages; /* argument pages that are held */
    uint32_t page_count;

    struct mob_call_return few_returns[MOB_CALL_RETURNS_FEW];
    struct mob_call_return *returns;
    uint32_t return_count, return_capacity;
    uint32_t yielded;

    const struct mob_module *module; /* of the running function */
    struct mob_module_hash module_hash;
    const struct mob_signature_info *signature;
    void **self; /* the actor's instance, in the worker */

    enum mob_status failure; /* decided by the API; wins over what the function returns */
    bool failed_by_function; /* mob_fail was called */
    bool cancelled;
    bool checkpoint; /* the checkpoint hook runs */
    const uint8_t *cause; /* encoded error of an argument */
    uint32_t cause_bytes;
    char message[MOB_CALL_MESSAGE_MAX];

    uint32_t sequence; /* of logged outcomes */
    struct mob_logged_outcome *outcomes; /* of the run that is repeated, in order */
    uint64_t random_state;
};

/* The first failure stands. */
enum mob_status mob_call_fail(struct mob_call *call, enum mob_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Undo what was made for returns. */
void mob_call_abort_returns(struct mob_call *call);
/* A return's record form, at `out`; its length. What has over `inline_max` bytes (up to
 * MOB_RESULT_INLINE_MAX) and stands in the store is only named. */
uint32_t mob_call_return_encode(
    const struct mob_call_return *r, uint32_t slot, uint32_t inline_max, uint8_t *out, uint32_t capacity);
/* Hash what is stored, or leave it to the node when it is large; not when it is to be compared. */
void mob_call_return_finish(const struct mob_call *call, struct mob_call_return *r);
/* The node compares the call's returns with its log, and seals them. */
static inline bool mob_call_remakes(const struct mob_call *call)
{
    return call->in.flags & MOB_IN_SPEC_REMAKES;
}

/* call_events.c: what the task wrote, as an event of type "log". */
void mob_call_log_event(struct mob_call *call, const char *text, uint32_t bytes);

#endif
