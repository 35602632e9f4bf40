/* Task specs (ARCHITECTURE "A task's way").
 *
 * A spec is a 128-byte fixed head ++ a tail (arguments, then tagged extensions). Siblings (same parent,
 * function and options) share the head except `task.index`; rings and lineage blocks exploit that. The tail
 * is 8-aligned:
 *
 *   u16 arg_count | u16 flags | u32 tail_bytes          (tail_bytes counts this word too, multiple of 8)
 *   arg_count x arg:  u8 kind | u8 type | u16 zero | u32 payload_bytes | payload padded to 8
 *                     kind 0 = inline value, 1 = object reference (payload = 20-byte id)
 *   extensions until the end: u16 tag | u16 zero | u32 payload_bytes | payload padded to 8
 *
 * An argument list over MOB_SPEC_ARGS_INLINE_MAX is cut: the rest is in argument pages, which are puts of the
 * submitting task with ids (task, MOB_SLOT_ARG_PAGE | page) of THIS task, type bytes, <= 64 KiB each, holding
 * whole args in order; the extension MOB_EXT_ARG_PAGES says how many pages and arguments. Unknown extensions
 * are copied unchanged. The digest is derived (mob_spec_digest), never stored: XXH3-128 over what must be
 * equal when a known id comes again: head without attempt, and tail. Pure, thread-safe.
 */
#ifndef MOB_COMMON_WIRE_SPEC_H
#define MOB_COMMON_WIRE_SPEC_H

#include "common/wire/value.h"

#define MOB_SPEC_VERSION 1
#define MOB_SPEC_TAIL_MAX (MOB_SPEC_ARGS_INLINE_MAX + 4096u) /* arguments + extensions */
#define MOB_RETURNS_MAX 3000u /* one record names them all: its 96 KiB, 32 bytes each, and the heads */
#define MOB_RETURNS_STREAM 0xffffu /* generator: results appear one by one */

enum mob_task_kind {
    MOB_KIND_TASK = 1,
    MOB_KIND_ACTOR_CREATE = 2,
    MOB_KIND_ACTOR_CALL = 3,
    MOB_KIND_ROOT = 4
};
enum mob_runtime_kind { MOB_RUNTIME_C = 1, MOB_RUNTIME_PYTHON = 2, MOB_RUNTIME_WS = 3 };
enum mob_spec_flag {
    MOB_SPEC_RETRY_ON_ERROR = 1,
    MOB_SPEC_RESTART_ON_DIVERGENCE = 2,
    MOB_SPEC_DETACHED = 4,
    MOB_SPEC_DETERMINISTIC = 8,
    MOB_SPEC_READ_ONLY = 16, /* actor method that is declared so, says its host: its call has no edge */
    MOB_SPEC_UNLOGGED = 32 /* inference call: no id in the GCS, counters only */
};

struct mob_spec_head {
    uint16_t version; /* MOB_SPEC_VERSION */
    uint8_t kind; /* enum mob_task_kind */
    uint8_t runtime; /* enum mob_runtime_kind */
    uint16_t num_returns;
    uint16_t flags; /* enum mob_spec_flag */
    struct mob_task_id task;
    struct mob_task_id parent;
    struct mob_job_id job;
    struct mob_function_id function;
    struct mob_actor_id actor; /* calls: the callee; otherwise zero */
    uint32_t generation; /* of the task itself: 0, +1 for each retry after an application error */
    int32_t max_retries; /* or max_restarts of an actor; -1 = for ever */
    int16_t priority; /* higher first; 0 default */
    uint16_t method; /* index of the actor method */
    uint32_t cpu; /* 1/10000 CPU; others in MOB_EXT_RESOURCES */
    uint32_t attempt; /* 1 = first */
    int64_t deadline_wall_ns; /* 0 = none */
    int64_t not_before_wall_ns; /* 0 = at once */
    uint32_t caller_seq; /* actor calls: position in this caller's order, from 0 */
    uint32_t reserved; /* zero */
};
_Static_assert(sizeof(struct mob_spec_head) == 128, "spec head layout");

#define MOB_RESOURCE_NAME_MAX 63u /* bytes */
enum mob_spec_ext {
    MOB_EXT_RESOURCES = 1, /* repeated: u32 amount in 1/10000 ++ name bytes */
    MOB_EXT_LABEL = 2, /* key NUL value */
    MOB_EXT_TRACEPARENT = 3, /* W3C trace context text */
    MOB_EXT_NAME = 4, /* display name of a task, registered name of an actor */
    MOB_EXT_ARG_PAGES = 5, /* u32 pages ++ u32 total_args */
    MOB_EXT_BACKOFF = 6, /* u64 initial ns ++ u64 max ns ++ u32 factor in 1/1000 */
    MOB_EXT_CHECKPOINT = 7, /* u32 every n calls */
    MOB_EXT_WIDE_RESOURCES = 9, /* repeated: u64 amount in 1/10000 ++ name bytes: what RESOURCES cannot say */
    MOB_EXT_CONTAINS = 8 /* object ids mentioned inside inline JSON arguments, 20 bytes each */
};

/* A spec in place: the head is copied (aligned), the tail borrowed. */
struct mob_spec {
    struct mob_spec_head head;
    const uint8_t *tail;
    uint32_t tail_bytes;
    uint16_t arg_count; /* those inline */
};
struct mob_arg_view {
    bool is_ref;
    enum mob_value_type type; /* of an inline value */
    struct mob_object_id ref;
    const uint8_t *payload;
    uint32_t payload_bytes;
};
struct mob_ext_view {
    uint16_t tag;
    const uint8_t *payload;
    uint32_t payload_bytes;
};
/* Walk over a checked tail. */
struct mob_tail_iter {
    const uint8_t *at, *end;
    uint16_t args_left;
};

/* Check the whole tail once (counts, paddings, sizes, value sizes: i64/f64 8, bool 1). */
MOB_MUST_USE enum mob_status mob_spec_tail_check(
    const uint8_t *tail, uint32_t tail_bytes, uint16_t *arg_count_out);
/* A tail of MOB_SPEC_WORD_TAIL bytes, as most are: one argument, a value of eight bytes (i64 or f64), no
 * extension. Then it is whole. */
#define MOB_SPEC_WORD_TAIL 24u
static inline bool mob_spec_tail_is_word(const uint64_t tail[3])
{
    /* u16 args 1 | u16 flags 0 | u32 24, then u8 inline | u8 type | u16 0 | u32 8 */
    uint64_t types = (uint64_t)UINT8_MAX << 8, type = tail[1] >> 8 & UINT8_MAX;
    return tail[0] == (1 | (uint64_t)MOB_SPEC_WORD_TAIL << 32) && (tail[1] & ~types) == 8ull << 32 &&
        (type == MOB_TYPE_I64 || type == MOB_TYPE_F64);
}
/* Of such a tail, and such a tail from its argument's type and payload. */
static inline enum mob_value_type mob_spec_word_type(const uint64_t word_tail[3])
{
    return (enum mob_value_type)(word_tail[1] >> 8 & UINT8_MAX);
}
static inline void mob_spec_word_tail(enum mob_value_type type, uint64_t payload, uint64_t tail_out[3])
{
    tail_out[0] = 1 | (uint64_t)MOB_SPEC_WORD_TAIL << 32;
    tail_out[1] = (uint64_t)type << 8 | 8ull << 32;
    tail_out[2] = payload;
}
/* Head ++ tail as in a ring record or file. MOB_VERSION, MOB_TRUNCATED, MOB_CORRUPT. */
MOB_MUST_USE enum mob_status mob_spec_open(const void *bytes, size_t length, struct mob_spec *out);
struct mob_tail_iter mob_spec_args(const uint8_t *checked_tail);
bool mob_tail_next_arg(struct mob_tail_iter *it, struct mob_arg_view *out);
/* After the args: the extensions. */
bool mob_tail_next_ext(struct mob_tail_iter *it, struct mob_ext_view *out);
/* First extension with this tag; false when absent. */
bool mob_spec_find_ext(const uint8_t *checked_tail, uint16_t tag, struct mob_ext_view *out);
/* How many argument pages go with it; 0: all arguments are in the tail. */
uint32_t mob_spec_arg_pages(const uint8_t *checked_tail);
/* The next object that an argument of a page refers to: `page` is its payload, *at begins with 0. False:
 * there is none behind there. */
bool mob_arg_page_next_ref(const uint8_t *page, uint64_t bytes, uint64_t *at, struct mob_object_id *ref_out);
struct mob_hash128 mob_spec_digest(
    const struct mob_spec_head *head, const uint8_t *tail, uint32_t tail_bytes);

/* Building a tail. `w` over an 8-aligned buffer of MOB_SPEC_TAIL_MAX bytes. Args first, then extensions. */
struct mob_tail_builder {
    uint8_t *base;
    uint32_t used, capacity;
    uint16_t arg_count;
    bool failed, in_exts;
};
void mob_tail_begin(struct mob_tail_builder *b, void *buffer, uint32_t capacity);
void mob_tail_add_value(
    struct mob_tail_builder *b, enum mob_value_type type, const void *payload, uint32_t bytes);
void mob_tail_add_ref(struct mob_tail_builder *b, struct mob_object_id id);
/* With the type that the object is known to have. */
void mob_tail_add_typed_ref(struct mob_tail_builder *b, enum mob_value_type type, struct mob_object_id id);
void mob_tail_add_ext(struct mob_tail_builder *b, uint16_t tag, const void *payload, uint32_t bytes);
/* Bytes used; 0 when it did not fit. */
uint32_t mob_tail_end(struct mob_tail_builder *b);

#endif
