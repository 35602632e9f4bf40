#include "common/wire/value.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

static const char *const type_names[MOB_TYPE_COUNT] = {
    [MOB_TYPE_NONE] = "none",
    [MOB_TYPE_NULL] = "null",
    [MOB_TYPE_BYTES] = "bytes",
    [MOB_TYPE_UTF8] = "utf8",
    [MOB_TYPE_JSON] = "json",
    [MOB_TYPE_I64] = "i64",
    [MOB_TYPE_F64] = "f64",
    [MOB_TYPE_BOOL] = "bool",
    [MOB_TYPE_TENSOR] = "tensor",
    [MOB_TYPE_TABLE] = "table",
    [MOB_TYPE_PICKLE5] = "pickle5",
    [MOB_TYPE_ERROR] = "error",
    [MOB_TYPE_ACTOR] = "actor",
    [MOB_TYPE_FUTURE] = "future",
};

const char *mob_value_type_name(enum mob_value_type type)
{
    return (unsigned)type < MOB_TYPE_COUNT ? type_names[type] : "unknown";
}

bool mob_value_small_ok(unsigned type, uint64_t payload_bytes)
{
    switch (type) {
    case MOB_TYPE_NULL:
        return payload_bytes == 0;
    case MOB_TYPE_I64:
    case MOB_TYPE_F64:
        return payload_bytes == 8;
    case MOB_TYPE_BOOL:
        return payload_bytes == 1;
    case MOB_TYPE_ACTOR:
        return payload_bytes == sizeof(struct mob_actor_id);
    case MOB_TYPE_FUTURE:
        return payload_bytes == sizeof(struct mob_object_id);
    default:
        return type > MOB_TYPE_NONE && type < MOB_TYPE_COUNT;
    }
}

/* Where the payload starts. Cannot overflow: both counts are 32 bits wide. */
static uint64_t payload_offset(uint32_t object_refs, uint32_t actor_refs)
{
    uint64_t table = (uint64_t)object_refs * sizeof(struct mob_object_id) +
        (uint64_t)actor_refs * sizeof(struct mob_actor_id);
    return mob_round_up(MOB_VALUE_HEADER_BYTES + table, MOB_VALUE_ALIGN);
}

enum mob_status mob_value_full_size(
    uint64_t payload_bytes, uint32_t object_refs, uint32_t actor_refs, uint64_t *size_out)
{
    uint64_t size;
    if (mob_add_overflows(payload_offset(object_refs, actor_refs), payload_bytes, &size) || size > INT64_MAX)
        return MOB_TOO_LARGE;
    *size_out = size;
    return MOB_OK;
}

enum mob_status mob_value_init(void *buffer, uint64_t size, enum mob_value_type type, uint64_t payload_bytes,
    const struct mob_object_id *object_refs, uint32_t object_ref_count, const struct mob_actor_id *actor_refs,
    uint32_t actor_ref_count, uint8_t **payload_out)
{
    uint64_t needed;
    enum mob_status status = mob_value_full_size(payload_bytes, object_ref_count, actor_ref_count, &needed);
    if (status != MOB_OK)
        return status;
    if (size < needed || !mob_value_small_ok(type, payload_bytes))
        return MOB_INVALID;
    uint64_t offset = needed - payload_bytes;
    struct mob_value_header header = {
        .magic = MOB_VALUE_MAGIC,
        .version = MOB_VALUE_VERSION,
        .type = (uint8_t)type,
        .payload_bytes = payload_bytes,
        .object_refs = object_ref_count,
        .actor_refs = actor_ref_count,
        .payload_offset = offset,
    };
    uint8_t *base = buffer;
    memcpy(base, &header, sizeof header);
    uint64_t objects = (uint64_t)object_ref_count * sizeof *object_refs;
    uint64_t actors = (uint64_t)actor_ref_count * sizeof *actor_refs;
    if (objects > 0)
        memcpy(base + sizeof header, object_refs, objects);
    if (actors > 0)
        memcpy(base + sizeof header + objects, actor_refs, actors);
    uint64_t written = sizeof header + objects + actors;
    memset(base + written, 0, offset - written);
    *payload_out = base + offset;
    return MOB_OK;
}

/* The zero padding between table and payload is hashed too, so that one pass over contiguous bytes does. */
static struct mob_hash128 hash_of(const uint8_t *base, const struct mob_value_header *header)
{
    uint64_t end = header->payload_offset + header->payload_bytes;
    return mob_hash128(base + MOB_VALUE_HEADER_BYTES, end - MOB_VALUE_HEADER_BYTES);
}

void mob_value_hash(void *buffer)
{
    struct mob_value_header header;
    memcpy(&header, buffer, sizeof header);
    header.hash = hash_of(buffer, &header);
    header.flags |= MOB_VALUE_HASHED;
    memcpy(buffer, &header, sizeof header);
}

/* Copies the header first: the bytes may be in memory that others write. */
static enum mob_status check_header(const void *buffer, uint64_t size, struct mob_value_header *out)
{
    if (size < sizeof *out)
        return MOB_TRUNCATED;
    memcpy(out, buffer, sizeof *out);
    if (out->magic != MOB_VALUE_MAGIC)
        return MOB_CORRUPT;
    if (out->version != MOB_VALUE_VERSION) {
        MOB_LOG_WARN("wire", "value_version", "found=%u supported=%u", out->version, MOB_VALUE_VERSION);
        return MOB_VERSION;
    }
    if (!mob_value_small_ok(out->type, out->payload_bytes) || (out->flags & ~MOB_VALUE_HASHED) != 0 ||
        (out->reserved[0] | out->reserved[1]) != 0 ||
        out->payload_offset != payload_offset(out->object_refs, out->actor_refs))
        return MOB_CORRUPT;
    uint64_t end;
    if (mob_add_overflows(out->payload_offset, out->payload_bytes, &end))
        return MOB_CORRUPT;
    return end > size ? MOB_TRUNCATED : MOB_OK;
}

enum mob_status mob_value_open(const void *buffer, uint64_t size, struct mob_value_view *out)
{
    struct mob_value_header header;
    enum mob_status status = check_header(buffer, size, &header);
    if (status != MOB_OK)
        return status;
    const uint8_t *base = buffer;
    const uint8_t *table = base + sizeof header;
    *out = (struct mob_value_view){
        .type = (enum mob_value_type)header.type,
        .payload = base + header.payload_offset,
        .payload_bytes = header.payload_bytes,
        .object_refs = table,
        .object_ref_count = header.object_refs,
        .actor_refs = table + (uint64_t)header.object_refs * sizeof(struct mob_object_id),
        .actor_ref_count = header.actor_refs,
        .hash = header.hash,
    };
    return MOB_OK;
}

enum mob_status mob_value_verify(const void *buffer, uint64_t size)
{
    struct mob_value_header header;
    enum mob_status status = check_header(buffer, size, &header);
    if (status != MOB_OK || (header.flags & MOB_VALUE_HASHED) == 0)
        return status;
    return mob_hash128_eq(hash_of(buffer, &header), header.hash) ? MOB_OK : MOB_CORRUPT;
}
