/* Completions: how a task ended (ARCHITECTURE "A task's way", 5).
 *
 * In a worker's outbound ring and, with the node's times added, as an entry of the lineage log:
 *
 *   struct mob_completion_head (fixed) ++ return_count x return:
 *     u32 slot | u8 type | u8 flags | u16 zero | u64 size | hash128 (only MOB_RETURN_STORED) | inline payload
 * padded to 8
 *
 * An inline return carries its payload (size <= MOB_RESULT_INLINE_MAX); a stored one is a sealed full value
 * in the object table under (task, slot) with this size and hash. A failed task has one return of type
 * MOB_TYPE_ERROR in slot 0 and every other slot reads as the same error. Times are monotonic ns of the
 * machine, 0 = unknown.
 */
#ifndef MOB_COMMON_WIRE_COMPLETION_H
#define MOB_COMMON_WIRE_COMPLETION_H

#include "common/wire/value.h"

#define MOB_COMPLETION_VERSION 1

enum mob_completion_flag {
    MOB_COMPLETION_FINAL = 1, /* no further attempt follows: this is the task's outcome */
    MOB_COMPLETION_WILL_RETRY = 2, /* an attempt that failed; another follows */
    /* With WILL_RETRY: at no cost of max_retries. It had no part in its worker's end, or starts over after a
     * replay that differed. Logs from before this flag have none: there each counts. */
    MOB_COMPLETION_UNPAID = 4
};

struct mob_completion_head {
    uint16_t version; /* MOB_COMPLETION_VERSION */
    uint8_t flags; /* enum mob_completion_flag */
    uint8_t reserved;
    uint16_t status; /* enum mob_status: MOB_OK or why it failed */
    uint16_t return_count;
    struct mob_task_id task;
    uint32_t attempt;
    uint32_t generation;
    uint32_t worker; /* worker process id on its node */
    uint32_t peak_kb; /* peak resident memory; 0 = not measured (tasks under 1 ms) */
    int64_t submitted_ns, ready_ns, dispatched_ns, started_ns, finished_ns;
    int64_t cpu_ns;
    struct mob_actor_id actor; /* of an actor call, else zero */
    uint64_t position; /* of an actor call: its place in the actor's order (stateful edge) */
    uint32_t incarnation; /* of the actor */
    uint32_t body_bytes; /* of the returns that follow, multiple of 8 */
};
_Static_assert(sizeof(struct mob_completion_head) == 120, "completion head layout");

enum mob_return_flag { MOB_RETURN_STORED = 1, MOB_RETURN_HASH_LATER = 2 };

/* How an inline return of eight bytes lies in the body. */
struct mob_return_word {
    uint32_t slot;
    uint8_t type, flags;
    uint16_t zero;
    uint64_t size; /* 8 */
    uint64_t value;
};
_Static_assert(sizeof(struct mob_return_word) == 24, "layout of returns");
/* In a ring: a first attempt that ended well with one result of eight bytes, as most do. What a completion
 * says beside this is 0, or known to the node from the task. */
struct mob_completion_word {
    struct mob_task_id task;
    uint32_t generation;
    uint8_t type; /* MOB_TYPE_I64 or MOB_TYPE_F64 */
    uint8_t zero[3];
    int64_t started_ns, finished_ns, cpu_ns;
    uint64_t value;
};
_Static_assert(sizeof(struct mob_completion_word) == 56, "short completion layout");
struct mob_return_view {
    uint32_t slot;
    enum mob_value_type type;
    uint8_t flags;
    uint64_t size; /* payload bytes if inline, bytes of the full value if stored */
    struct mob_hash128 hash; /* stored only */
    const uint8_t *payload; /* inline only */
};
struct mob_completion {
    struct mob_completion_head head;
    const uint8_t *body;
};

MOB_MUST_USE enum mob_status mob_completion_open(
    const void *bytes, size_t length, struct mob_completion *out);
/* The short form, checked. MOB_TRUNCATED, MOB_CORRUPT. */
MOB_MUST_USE static inline enum mob_status mob_completion_word_open(
    const void *bytes, size_t length, struct mob_completion_word *out)
{
    if (length < sizeof *out)
        return MOB_TRUNCATED;
    struct mob_completion_word word;
    memcpy(&word, bytes, sizeof word);
    if (length != sizeof word || (word.type != MOB_TYPE_I64 && word.type != MOB_TYPE_F64) ||
        (word.zero[0] | word.zero[1] | word.zero[2]) != 0)
        return MOB_CORRUPT;
    *out = word;
    return MOB_OK;
}
/* The same in full; `body_out` is the completion's body. */
static inline struct mob_completion mob_completion_of_word(
    const struct mob_completion_word *word, struct mob_return_word *body_out)
{
    *body_out =
        (struct mob_return_word){.type = word->type, .size = sizeof word->value, .value = word->value};
    return (struct mob_completion){
        .head = {.version = MOB_COMPLETION_VERSION,
            .flags = MOB_COMPLETION_FINAL,
            .status = MOB_OK,
            .return_count = 1,
            .task = word->task,
            .attempt = 1,
            .generation = word->generation,
            .started_ns = word->started_ns,
            .finished_ns = word->finished_ns,
            .cpu_ns = word->cpu_ns,
            .body_bytes = sizeof *body_out},
        .body = (const uint8_t *)body_out,
    };
}
/* Walk the returns of an opened completion: start with *at = 0. */
bool mob_completion_next(const struct mob_completion *c, uint32_t *at, struct mob_return_view *out);
/* Append one return to `body`, returns the new length or 0 when it does not fit. */
uint32_t mob_return_encode(uint8_t *body, uint32_t used, uint32_t capacity, const struct mob_return_view *r);

/* Payload of MOB_TYPE_ERROR: status, where, and the chain of causes, newest first (at most 16 links, 4 KiB).
 */
struct mob_error_link {
    enum mob_status status;
    struct mob_task_id task;
    const char *message; /* borrowed, not NUL-terminated */
    uint32_t message_bytes;
    const char *detail; /* last log lines, traceback; may be empty */
    uint32_t detail_bytes;
    int32_t signal; /* of a dead worker, else 0 */
};
#define MOB_ERROR_LINKS_MAX 16
/* An inline return of this type may be larger than MOB_RESULT_INLINE_MAX. */
#define MOB_ERROR_BYTES_MAX 4096u
/* New error value = `link` in front of `cause` (an encoded error value or NULL). Cut to fit `capacity`. */
uint32_t mob_error_encode(
    void *out, uint32_t capacity, const struct mob_error_link *link, const void *cause, uint32_t cause_bytes);
/* Fills up to `max` links; returns their number, -1 when corrupt. */
int mob_error_decode(const void *payload, uint64_t bytes, struct mob_error_link *links_out, int max);

#endif
