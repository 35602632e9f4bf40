#include "common/wire/completion.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

struct return_head {
    uint32_t slot;
    uint8_t type, flags;
    uint16_t zero;
    uint64_t size;
};
_Static_assert(sizeof(struct return_head) == 16, "return layout");

static bool return_ok(const struct return_head *r)
{
    if (r->zero != 0 || (r->flags & ~(MOB_RETURN_STORED | MOB_RETURN_HASH_LATER)) != 0)
        return false;
    if (r->flags & MOB_RETURN_STORED)
        return r->type > MOB_TYPE_NONE && r->type < MOB_TYPE_COUNT;
    uint64_t most = r->type == MOB_TYPE_ERROR ? MOB_ERROR_BYTES_MAX : MOB_RESULT_INLINE_MAX;
    return r->flags == 0 && r->size <= most && mob_value_small_ok(r->type, r->size);
}

/* Bytes after the return's head. */
static uint64_t return_tail_bytes(const struct return_head *r)
{
    return r->flags & MOB_RETURN_STORED ? sizeof(struct mob_hash128) : mob_round_up(r->size, 8);
}

static bool is_one_i64(const uint8_t *body)
{
    static const uint8_t shape[16] = {0, 0, 0, 0, MOB_TYPE_I64, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0};
    return memcmp(body, shape, sizeof shape) == 0;
}

static bool padding_is_zero(const uint8_t *from, const uint8_t *to)
{
    while (from < to)
        if (*from++ != 0)
            return false;
    return true;
}

static bool body_ok(const uint8_t *body, uint32_t body_bytes, uint16_t return_count)
{
    if (return_count == 1 && body_bytes == 24 && is_one_i64(body))
        return true;
    const uint8_t *at = body, *end = body + body_bytes;
    for (uint16_t i = 0; i < return_count; i++) {
        struct return_head r;
        if ((size_t)(end - at) < sizeof r)
            return false;
        memcpy(&r, at, sizeof r);
        at += sizeof r;
        if (!return_ok(&r) || return_tail_bytes(&r) > (uint64_t)(end - at))
            return false;
        if ((r.flags & MOB_RETURN_STORED) == 0 && !padding_is_zero(at + r.size, at + return_tail_bytes(&r)))
            return false;
        at += return_tail_bytes(&r);
    }
    return at == end;
}

enum mob_status mob_completion_open(const void *bytes, size_t length, struct mob_completion *out)
{
    struct mob_completion_head head;
    if (length < sizeof head)
        return MOB_TRUNCATED;
    memcpy(&head, bytes, sizeof head);
    if (head.version != MOB_COMPLETION_VERSION) {
        MOB_LOG_WARN(
            "wire", "completion_version", "found=%u supported=%u", head.version, MOB_COMPLETION_VERSION);
        return MOB_VERSION;
    }
    if (head.reserved != 0 || head.body_bytes % 8 != 0)
        return MOB_CORRUPT;
    if (head.body_bytes > length - sizeof head)
        return MOB_TRUNCATED;
    const uint8_t *body = (const uint8_t *)bytes + sizeof head;
    if (!body_ok(body, head.body_bytes, head.return_count))
        return MOB_CORRUPT;
    *out = (struct mob_completion){head, body};
    return MOB_OK;
}

bool mob_completion_next(const struct mob_completion *c, uint32_t *at, struct mob_return_view *out)
{
    struct return_head r;
    if (*at >= c->head.body_bytes || c->head.body_bytes - *at < sizeof r)
        return false;
    memcpy(&r, c->body + *at, sizeof r);
    const uint8_t *rest = c->body + *at + sizeof r;
    *out = (struct mob_return_view){r.slot, (enum mob_value_type)r.type, r.flags, r.size, {0, 0}, NULL};
    if (r.flags & MOB_RETURN_STORED)
        memcpy(&out->hash, rest, sizeof out->hash);
    else
        out->payload = rest;
    *at += (uint32_t)(sizeof r + return_tail_bytes(&r));
    return true;
}

uint32_t mob_return_encode(uint8_t *body, uint32_t used, uint32_t capacity, const struct mob_return_view *r)
{
    struct return_head head = {r->slot, (uint8_t)r->type, r->flags, 0, r->size};
    if (!return_ok(&head) || used > capacity)
        return 0;
    uint64_t tail = return_tail_bytes(&head);
    if (sizeof head + tail > capacity - used)
        return 0;
    uint8_t *at = body + used;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    if (r->flags & MOB_RETURN_STORED) {
        memcpy(at, &r->hash, sizeof r->hash);
    } else if (r->size > 0) {
        memset(at + tail - 8, 0, 8);
        memcpy(at, r->payload, r->size);
    }
    return used + (uint32_t)(sizeof head + tail);
}
