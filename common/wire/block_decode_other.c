/* Decoder: everything but specs and completions. */
#include "common/wire/block_format.h"

#include "common/base/bytes.h"

/* Borrows `bytes` bytes; false when they are not there. */
static bool take(struct mob_block_decoder *d, uint64_t bytes, const uint8_t **out)
{
    if (d->at > d->end || bytes > (size_t)(d->end - d->at))
        return false;
    *out = d->at;
    d->at += bytes;
    return true;
}

static bool get_task(struct mob_block_decoder *d, struct mob_task_id *out)
{
    const uint8_t *at = get_task_id(&d->p, d->at, out);
    if (at)
        d->at = at;
    return at != NULL;
}

/* What block_encode_return wrote; the slot is the caller's. *first_out = the item's flags. */
static bool get_return(struct mob_block_decoder *d, struct mob_return_view *out, uint8_t *first_out)
{
    if (d->at >= d->end)
        return false;
    uint8_t first = *d->at++;
    uint32_t fixed;
    *out = (struct mob_return_view){.type = (enum mob_value_type)(first & ITEM_TYPE_MASK)};
    out->flags = (uint8_t)((first & ITEM_STORED ? MOB_RETURN_STORED : 0) |
        (first & ITEM_HASH_LATER ? MOB_RETURN_HASH_LATER : 0));
    if (first & ITEM_STORED || !block_fixed_bytes(out->type, &fixed))
        d->at = get_varint(d->at, &out->size);
    else
        out->size = fixed;
    const uint8_t *bytes;
    if (!take(d, first & ITEM_STORED ? sizeof out->hash : out->size, &bytes))
        return false;
    if (first & ITEM_STORED)
        memcpy(&out->hash, bytes, sizeof out->hash);
    else
        out->payload = bytes;
    *first_out = first;
    return true;
}

bool block_decode_returns(struct mob_block_decoder *d, uint32_t count, uint32_t *bytes_out)
{
    uint32_t used = 0, expected = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct mob_return_view r;
        uint8_t first;
        if (!get_return(d, &r, &first))
            return false;
        r.slot = expected;
        if (first & ITEM_SLOT)
            d->at = get_u32(d->at, &r.slot);
        expected = r.slot + 1;
        used = mob_return_encode(d->scratch, used, MOB_RECORD_MAX, &r);
        if (used == 0)
            return false;
    }
    *bytes_out = used;
    return true;
}

static bool get_put(struct mob_block_decoder *d, uint8_t first, struct mob_entry *out)
{
    struct mob_out_put *put = &out->put;
    *put = (struct mob_out_put){0};
    uint64_t difference;
    if (!get_task(d, &put->id.task))
        return false;
    d->at = get_zigzag(d->at, &difference);
    put->id.slot = d->p.put_slot + (uint32_t)difference;
    d->p.put_slot = put->id.slot + 1;
    put->type = *d->at++;
    put->flags = *d->at++;
    d->at = get_varint(d->at, &put->size);
    const uint8_t *hash;
    if (first & PUT_HASHED) {
        if (!take(d, sizeof put->hash, &hash))
            return false;
        memcpy(&put->hash, hash, sizeof put->hash);
    }
    out->payload = NULL;
    out->payload_bytes = 0;
    if (first & PUT_INLINE) {
        if (put->size > MOB_PUT_INLINE_MAX || !take(d, put->size, &out->payload))
            return false;
        out->payload_bytes = put->inline_bytes = (uint32_t)put->size;
    }
    if (first & PUT_HASH_DERIVED) {
        if ((first & PUT_INLINE) == 0 || put->size > MOB_RESULT_INLINE_MAX)
            return false;
        put->hash = mob_hash128(out->payload, put->size);
    }
    return put->type > MOB_TYPE_NONE && put->type < MOB_TYPE_COUNT;
}

static bool get_yield(struct mob_block_decoder *d, struct mob_entry *out)
{
    uint32_t slot;
    uint8_t first;
    if (!get_task(d, &out->yield.task))
        return false;
    d->at = get_u32(d->at, &out->yield.attempt);
    d->at = get_u32(d->at, &out->yield.item);
    d->at = get_u32(d->at, &slot);
    if (!get_return(d, &out->ret, &first) || first & ITEM_SLOT)
        return false;
    out->ret.slot = slot;
    return mob_return_encode(d->scratch, 0, MOB_RECORD_MAX, &out->ret) > 0;
}

static bool get_payload(struct mob_block_decoder *d, struct mob_entry *out)
{
    d->at = get_u32(d->at, &out->payload_bytes);
    return take(d, out->payload_bytes, &out->payload);
}

static bool get_outcome(struct mob_block_decoder *d, struct mob_entry *out)
{
    uint32_t kind;
    if (!get_task(d, &out->outcome.task))
        return false;
    d->at = get_u32(d->at, &out->outcome.generation);
    d->at = get_u32(d->at, &out->outcome.sequence);
    d->at = get_u32(d->at, &kind);
    out->outcome.kind = (uint16_t)kind;
    out->outcome.zero = 0;
    if (!get_payload(d, out))
        return false;
    out->outcome.payload_bytes = out->payload_bytes;
    return kind <= UINT16_MAX;
}

static bool get_event(struct mob_block_decoder *d, uint8_t first, struct mob_entry *out)
{
    uint64_t at_ns, span_ns;
    out->event = (struct mob_out_event){0};
    if (!get_task(d, &out->event.task))
        return false;
    d->at = get_zigzag(d->at, &at_ns);
    d->at = get_zigzag(d->at, &span_ns);
    if (first & EVENT_ATTEMPT)
        d->at = get_u32(d->at, &out->event.attempt);
    if (first & EVENT_OF_CALL) {
        d->at = get_u32(d->at, &out->event.incarnation);
        d->at = get_varint(d->at, &out->event.position);
    }
    d->at = get_u32(d->at, &out->event.type_bytes);
    out->event.at_ns = (int64_t)(d->p.base_ns + at_ns);
    out->event.span_ns = (int64_t)span_ns;
    if (!get_payload(d, out) || out->event.type_bytes > out->payload_bytes)
        return false;
    out->event.json_bytes = out->payload_bytes - out->event.type_bytes;
    return true;
}

static bool get_edge(struct mob_block_decoder *d, uint8_t first, struct mob_entry *out)
{
    struct predictors *p = &d->p;
    uint32_t slot = *d->at++;
    if (slot >= EDGE_CONTEXTS)
        return false;
    struct edge_context *c = &p->edges[slot];
    if (first & EDGE_NEW) {
        *c = (struct edge_context){0};
        if (!get_task(d, &c->actor.creation))
            return false;
        p->edge_used |= 1ull << slot;
    } else if ((p->edge_used >> slot & 1) == 0) {
        return false;
    }
    uint64_t step = 1;
    if (first & EDGE_JUMP) {
        d->at = get_zigzag(d->at, &step);
        d->at = get_u32(d->at, &c->incarnation);
    }
    c->position += step;
    out->edge =
        (struct mob_entry_edge){.actor = c->actor, .position = c->position, .incarnation = c->incarnation};
    if (!get_task(d, &out->edge.task))
        return false;
    if (out->type == MOB_ENTRY_SKIP)
        d->at = get_u32(d->at, &out->edge.reason);
    return true;
}

static bool get_actor(struct mob_block_decoder *d, struct mob_entry *out)
{
    out->actor = (struct mob_entry_actor){0};
    if (!get_task(d, &out->actor.actor.creation))
        return false;
    d->at = get_u32(d->at, &out->actor.incarnation);
    d->at = get_u32(d->at, &out->actor.event);
    d->at = get_varint(d->at, &out->actor.position);
    d->at = get_u32(d->at, &out->actor.reason);
    return true;
}

static bool get_hash(struct mob_block_decoder *d, struct mob_entry *out)
{
    const uint8_t *hash;
    out->hash = (struct mob_entry_hash){0};
    if (!get_task(d, &out->hash.id.task))
        return false;
    d->at = get_u32(d->at, &out->hash.id.slot);
    if (!take(d, sizeof out->hash.hash, &hash))
        return false;
    memcpy(&out->hash.hash, hash, sizeof out->hash.hash);
    return true;
}

static bool get_cancel(struct mob_block_decoder *d, struct mob_entry *out)
{
    if (!get_task(d, &out->cancel.task))
        return false;
    d->at = get_u32(d->at, &out->cancel.force);
    d->at = get_u32(d->at, &out->cancel.recursive);
    return true;
}

bool block_decode_other(struct mob_block_decoder *d, uint8_t first, struct mob_entry *out)
{
    out->payload = NULL;
    out->payload_bytes = 0;
    switch ((unsigned)out->type) {
    case MOB_ENTRY_PUT:
        return get_put(d, first, out);
    case MOB_ENTRY_YIELD:
        return get_yield(d, out);
    case MOB_ENTRY_OUTCOME:
        return get_outcome(d, out);
    case MOB_ENTRY_EVENT:
        return get_event(d, first, out);
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
        return get_edge(d, first, out);
    case MOB_ENTRY_ACTOR:
        return get_actor(d, out);
    case MOB_ENTRY_HASH:
        return get_hash(d, out);
    case MOB_ENTRY_CANCEL:
        return get_cancel(d, out);
    case MOB_ENTRY_JOB:
        return get_payload(d, out);
    default:
        return false;
    }
}
