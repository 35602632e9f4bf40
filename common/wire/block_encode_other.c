/* Encoder: everything but specs and completions. */
#include "common/wire/block_format.h"

#include "common/base/bytes.h"

static uint8_t *put_raw(uint8_t *at, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(at, bytes, n);
    return at + n;
}

/* An entry that is about a task (or about none: a zero id). */
static void note(struct mob_block_encoder *e, struct mob_task_id task)
{
    e->entry_count++;
    e->zone.map.others++;
    if (!mob_task_id_is_zero(task))
        block_zone_group(&e->zone, task, &e->zone.last_spec)->others++;
}

/* An entry that is about an object. */
static void note_object(struct mob_block_encoder *e, struct mob_object_id id)
{
    struct zone_builder *z = &e->zone;
    if (!mob_put_has_group(id)) {
        note(e, id.task);
        return;
    }
    if (!mob_task_id_eq(z->putter, id.task)) {
        z->putter = id.task;
        z->puts = mob_stream_of_puts(id.task);
    }
    e->entry_count++;
    z->map.others++;
    block_zone_group(z, (struct mob_task_id){z->puts, id.slot & ~MOB_SLOT_PUT}, &z->last_put)->others++;
}

enum mob_status mob_block_add_put(
    struct mob_block_encoder *e, const struct mob_out_put *put, const uint8_t *inline_payload)
{
    bool is_inline = inline_payload != NULL;
    if (put->inline_bytes != (is_inline ? put->size : 0) || put->inline_bytes > MOB_PUT_INLINE_MAX)
        return MOB_INVALID;
    enum mob_status status = block_room(e, put->inline_bytes);
    if (status != MOB_OK)
        return status;
    uint8_t *first = e->at, *at = first + 1;
    *first = MOB_ENTRY_PUT;
    at = put_task_id(&e->p, at, put->id.task);
    at = put_zigzag(at, (uint64_t)(int64_t)(int32_t)(put->id.slot - e->p.put_slot));
    e->p.put_slot = put->id.slot + 1;
    *at++ = put->type;
    *at++ = put->flags;
    at = put_varint(at, put->size);
    static const struct mob_hash128 none;
    if (!mob_hash128_eq(put->hash, none)) {
        /* the hash of small contents is cheaper to compute again than to keep */
        if (is_inline && put->size <= MOB_RESULT_INLINE_MAX &&
            mob_hash128_eq(put->hash, mob_hash128(inline_payload, put->size))) {
            *first |= PUT_HASH_DERIVED;
        } else {
            *first |= PUT_HASHED;
            at = put_raw(at, &put->hash, sizeof put->hash);
        }
    }
    if (is_inline) {
        *first |= PUT_INLINE;
        at = put_raw(at, inline_payload, put->inline_bytes);
    }
    e->at = at;
    note_object(e, put->id);
    return MOB_OK;
}

static uint8_t *put_payload(uint8_t *at, const uint8_t *payload, uint32_t bytes)
{
    return put_raw(put_varint(at, bytes), payload, bytes);
}

static uint8_t *put_edge(struct predictors *p, uint8_t *first, const struct mob_entry_edge *edge)
{
    uint8_t *at = first + 1;
    uint32_t slot = (uint32_t)(mob_task_id_mix(edge->actor.creation) >> 58);
    struct edge_context *c = &p->edges[slot];
    if ((p->edge_used >> slot & 1) == 0 || !mob_actor_id_eq(c->actor, edge->actor)) {
        *first |= EDGE_NEW;
        *at++ = (uint8_t)slot;
        at = put_task_id(p, at, edge->actor.creation);
        *c = (struct edge_context){.actor = edge->actor};
        p->edge_used |= 1ull << slot;
    } else {
        *at++ = (uint8_t)slot;
    }
    if (edge->position != c->position + 1 || edge->incarnation != c->incarnation) {
        *first |= EDGE_JUMP;
        at = put_zigzag(at, edge->position - c->position);
        at = put_varint(at, edge->incarnation);
    }
    c->position = edge->position;
    c->incarnation = edge->incarnation;
    return put_task_id(p, at, edge->task);
}

/* The one return of a yield, as mob_return_encode wrote it. False when it is not one. */
static bool yield_return(const uint8_t *payload, uint32_t bytes, struct mob_return_view *out)
{
    struct mob_completion_head head = {
        .version = MOB_COMPLETION_VERSION, .return_count = 1, .body_bytes = bytes};
    struct mob_completion c = {head, payload};
    uint32_t at = 0;
    return mob_completion_next(&c, &at, out) && at == bytes;
}

static uint8_t *put_yield(
    struct predictors *p, uint8_t *at, const struct mob_out_yield *v, const struct mob_return_view *r)
{
    at = put_task_id(p, at, v->task);
    at = put_varint(at, v->attempt);
    at = put_varint(at, v->item);
    at = put_varint(at, r->slot);
    return block_encode_return(at, r);
}

static uint8_t *put_outcome(struct predictors *p, uint8_t *at, const struct mob_out_outcome *v)
{
    at = put_task_id(p, at, v->task);
    at = put_varint(at, v->generation);
    at = put_varint(at, v->sequence);
    return put_varint(at, v->kind);
}

static uint8_t *put_event(struct predictors *p, uint8_t *first, const struct mob_out_event *v)
{
    uint8_t *at = put_task_id(p, first + 1, v->task);
    at = put_zigzag(at, (uint64_t)v->at_ns - p->base_ns);
    at = put_zigzag(at, (uint64_t)v->span_ns);
    if (v->attempt != 0) {
        *first |= EVENT_ATTEMPT;
        at = put_varint(at, v->attempt);
    }
    if (v->incarnation != 0 || v->position != 0) {
        *first |= EVENT_OF_CALL;
        at = put_varint(put_varint(at, v->incarnation), v->position);
    }
    return put_varint(at, v->type_bytes);
}

static uint8_t *put_actor(struct predictors *p, uint8_t *at, const struct mob_entry_actor *v)
{
    at = put_task_id(p, at, v->actor.creation);
    at = put_varint(at, v->incarnation);
    at = put_varint(at, v->event);
    at = put_varint(at, v->position);
    return put_varint(at, v->reason);
}

/* What the types' fixed structs are, in one place of memory. */
union fixed {
    struct mob_out_yield yield;
    struct mob_out_outcome outcome;
    struct mob_out_event event;
    struct mob_entry_edge edge;
    struct mob_entry_actor actor;
    struct mob_entry_hash hash;
    struct mob_out_cancel cancel;
};

static const uint8_t fixed_bytes_of[16] = {
    [MOB_ENTRY_YIELD] = sizeof(struct mob_out_yield),
    [MOB_ENTRY_OUTCOME] = sizeof(struct mob_out_outcome),
    [MOB_ENTRY_EVENT] = sizeof(struct mob_out_event),
    [MOB_ENTRY_EDGE] = sizeof(struct mob_entry_edge),
    [MOB_ENTRY_SKIP] = sizeof(struct mob_entry_edge),
    [MOB_ENTRY_ACTOR] = sizeof(struct mob_entry_actor),
    [MOB_ENTRY_HASH] = sizeof(struct mob_entry_hash),
    [MOB_ENTRY_CANCEL] = sizeof(struct mob_out_cancel),
};

/* Whether the payload is what the fixed part says. */
static bool payload_ok(enum mob_entry_type type, const union fixed *v, uint32_t payload_bytes)
{
    if (type == MOB_ENTRY_OUTCOME)
        return v->outcome.payload_bytes == payload_bytes;
    if (type == MOB_ENTRY_EVENT)
        return (uint64_t)v->event.type_bytes + v->event.json_bytes == payload_bytes;
    return type == MOB_ENTRY_JOB || type == MOB_ENTRY_YIELD || payload_bytes == 0;
}

static uint8_t *put_fixed(struct predictors *p, uint8_t *first, enum mob_entry_type type,
    const union fixed *v, struct mob_task_id *task_out)
{
    uint8_t *at = first + 1;
    switch ((unsigned)type) {
    case MOB_ENTRY_OUTCOME:
        *task_out = v->outcome.task;
        return put_outcome(p, at, &v->outcome);
    case MOB_ENTRY_EVENT:
        *task_out = v->event.task;
        return put_event(p, first, &v->event);
    case MOB_ENTRY_SKIP:
        *task_out = mob_edge_group(v->edge.actor);
        return put_varint(put_edge(p, first, &v->edge), v->edge.reason);
    case MOB_ENTRY_ACTOR:
        *task_out = v->actor.actor.creation;
        return put_actor(p, at, &v->actor);
    case MOB_ENTRY_HASH:
        *task_out = v->hash.id.task;
        at = put_varint(put_task_id(p, at, v->hash.id.task), v->hash.id.slot);
        return put_raw(at, &v->hash.hash, sizeof v->hash.hash);
    case MOB_ENTRY_CANCEL:
        *task_out = v->cancel.task;
        at = put_varint(put_task_id(p, at, v->cancel.task), v->cancel.force);
        return put_varint(at, v->cancel.recursive);
    default: /* a job has no fixed part */
        return at;
    }
}

enum mob_status mob_block_add_edge(struct mob_block_encoder *e, const struct mob_entry_edge *edge)
{
    enum mob_status status = block_room(e, 0);
    if (status != MOB_OK)
        return status;
    *e->at = MOB_ENTRY_EDGE;
    e->at = put_edge(&e->p, e->at, edge);
    e->entry_count++;
    e->zone.map.others++;
    /* indexed under the actor: a replay reads them all */
    block_zone_group(&e->zone, mob_edge_group(edge->actor), &e->zone.last_edge)->others++;
    return MOB_OK;
}

enum mob_status mob_block_add_other(struct mob_block_encoder *e, enum mob_entry_type type, const void *fixed,
    uint32_t fixed_bytes, const uint8_t *payload, uint32_t payload_bytes)
{
    union fixed v = {0};
    struct mob_return_view r = {0};
    if (type < MOB_ENTRY_YIELD || type > MOB_ENTRY_JOB || fixed_bytes != fixed_bytes_of[type])
        return MOB_INVALID;
    if (fixed_bytes > 0)
        memcpy(&v, fixed, fixed_bytes);
    if (!payload_ok(type, &v, payload_bytes))
        return MOB_INVALID;
    if (type == MOB_ENTRY_EDGE)
        return mob_block_add_edge(e, &v.edge);
    if (type == MOB_ENTRY_YIELD && !yield_return(payload, payload_bytes, &r))
        return MOB_INVALID;
    enum mob_status status = block_room(e, payload_bytes);
    if (status != MOB_OK)
        return status;
    struct mob_task_id task = {0};
    *e->at = (uint8_t)type;
    if (type == MOB_ENTRY_YIELD) {
        task = v.yield.task;
        e->at = put_yield(&e->p, e->at + 1, &v.yield, &r);
    } else {
        uint8_t *at = put_fixed(&e->p, e->at, type, &v, &task);
        if (type == MOB_ENTRY_OUTCOME || type == MOB_ENTRY_EVENT || type == MOB_ENTRY_JOB)
            at = put_payload(at, payload, payload_bytes);
        e->at = at;
    }
    if (type == MOB_ENTRY_HASH)
        note_object(e, v.hash.id);
    else
        note(e, task);
    return MOB_OK;
}
