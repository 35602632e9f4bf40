/* Values: immutable, typed byte strings (ARCHITECTURE "Values").
 *
 * Two forms:
 *  - small: {type, payload} inside specs, completions, ring records and object-table entries; no references
 * inside.
 *  - full: a 64-byte header, a table of the object ids and actor ids inside, then the payload, 64-byte
 * aligned, so that tensors are read in place. Full values live in the segment, in spill files and in the GCS.
 * Nothing is found by scanning a payload. Pure, thread-safe.
 */
#ifndef MOB_COMMON_WIRE_VALUE_H
#define MOB_COMMON_WIRE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "common/base/id.h"
#include "common/base/status.h"

#define MOB_VALUE_VERSION 1
#define MOB_VALUE_HEADER_BYTES 64
#define MOB_VALUE_ALIGN 64
/* A result up to this size travels in its completion and is kept in lineage; so is a put up to PUT_INLINE. */
#define MOB_RESULT_INLINE_MAX 1024u
#define MOB_PUT_INLINE_MAX 65536u
/* Arguments of one spec up to this many bytes stay inline; longer lists continue in argument pages. */
#define MOB_SPEC_ARGS_INLINE_MAX 4096u

/* Numbers are on the wire and in lineage: append only. */
enum mob_value_type {
    MOB_TYPE_NONE = 0, /* no value yet */
    MOB_TYPE_NULL = 1,
    MOB_TYPE_BYTES = 2,
    MOB_TYPE_UTF8 = 3,
    MOB_TYPE_JSON = 4,
    MOB_TYPE_I64 = 5,
    MOB_TYPE_F64 = 6,
    MOB_TYPE_BOOL = 7,
    MOB_TYPE_TENSOR = 8, /* Arrow IPC Tensor message ++ body; see tensor.h */
    MOB_TYPE_TABLE = 9, /* Arrow IPC stream */
    MOB_TYPE_PICKLE5 = 10,
    MOB_TYPE_ERROR = 11, /* see error_value in completion.h */
    MOB_TYPE_ACTOR = 12, /* an actor handle: 16-byte actor id */
    MOB_TYPE_FUTURE = 13, /* tail call: the value is what that object (20-byte id) becomes */
    MOB_TYPE_COUNT
};

/* Layout of the full header; exactly 64 bytes in shared memory and on disk. */
struct mob_value_header {
    uint32_t magic; /* MOB_VALUE_MAGIC */
    uint16_t version;
    uint8_t type; /* enum mob_value_type */
    uint8_t flags;
    uint64_t payload_bytes;
    struct mob_hash128 hash; /* XXH3-128 of table ++ payload; zero until MOB_VALUE_HASHED */
    uint32_t object_refs; /* ids in the table: object ids (20 B each), then actor ids (16 B each) */
    uint32_t actor_refs;
    uint64_t payload_offset; /* from the header's start; multiple of MOB_VALUE_ALIGN */
    uint64_t reserved[2]; /* zero */
};
_Static_assert(sizeof(struct mob_value_header) == MOB_VALUE_HEADER_BYTES, "value header layout");
#define MOB_VALUE_MAGIC 0x564c424du /* "MBLV" */
#define MOB_VALUE_HASHED 1u

/* A checked view of a value in either form; borrows the bytes it was opened on. */
struct mob_value_view {
    enum mob_value_type type;
    const uint8_t *payload;
    uint64_t payload_bytes;
    const uint8_t *object_refs; /* packed struct mob_object_id, unaligned */
    uint32_t object_ref_count;
    const uint8_t *actor_refs; /* packed struct mob_actor_id, unaligned */
    uint32_t actor_ref_count;
    struct mob_hash128 hash; /* of the full form; zero in the small form or while not hashed */
};

/* Bytes of a full value with these parts; MOB_TOO_LARGE on overflow. */
MOB_MUST_USE enum mob_status mob_value_full_size(
    uint64_t payload_bytes, uint32_t object_refs, uint32_t actor_refs, uint64_t *size_out);
/* Write header and tables into `buffer` of mob_value_full_size() bytes; `*payload_out` is where the payload
 * goes. */
MOB_MUST_USE enum mob_status mob_value_init(void *buffer, uint64_t size, enum mob_value_type type,
    uint64_t payload_bytes, const struct mob_object_id *object_refs, uint32_t object_ref_count,
    const struct mob_actor_id *actor_refs, uint32_t actor_ref_count, uint8_t **payload_out);
/* Hash table ++ payload into the header. Call once, after the payload is written and before sealing. */
void mob_value_hash(void *buffer);
/* Check every field against `size`, then give the view. MOB_CORRUPT, MOB_VERSION, MOB_TRUNCATED. */
MOB_MUST_USE enum mob_status mob_value_open(const void *buffer, uint64_t size, struct mob_value_view *out);
/* Whether the stored hash (if any) matches. */
MOB_MUST_USE enum mob_status mob_value_verify(const void *buffer, uint64_t size);
/* Whether a value of `type` may have that many bytes: i64 and f64 8, bool 1, null 0, handles their ids. False
 * also for MOB_TYPE_NONE and for types that this version does not know. */
bool mob_value_small_ok(unsigned type, uint64_t payload_bytes);
/* Name as in signatures and JSON: "i64", "utf8", ... */
const char *mob_value_type_name(enum mob_value_type type);

#endif
