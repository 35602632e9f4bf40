/* Encoder: frame, specs and completions. The other entries are in block_encode_other.c. */
#include "common/wire/block_format.h"

#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

struct mob_block_encoder *mob_block_encoder_create(void)
{
    struct mob_block_encoder *e = malloc(sizeof *e);
    if (!e)
        return NULL;
    block_zone_init(&e->zone);
    mob_block_begin(e, &(struct mob_block_header){0});
    return e;
}

void mob_block_encoder_destroy(struct mob_block_encoder *e)
{
    free(e);
}

void mob_block_begin(struct mob_block_encoder *e, const struct mob_block_header *header)
{
    e->header = *header;
    e->header.ns[sizeof e->header.ns - 1] = '\0';
    e->entry_count = 0;
    e->at = e->bytes;
    block_predictors_init(&e->p, header);
    block_zone_begin(&e->zone);
}

uint32_t mob_block_entries(const struct mob_block_encoder *e)
{
    return e->entry_count;
}

uint32_t mob_block_bytes(const struct mob_block_encoder *e)
{
    return (uint32_t)(e->at - e->bytes) + (uint32_t)sizeof(struct block_front) + 64 +
        e->zone.map.group_count * 8;
}

uint32_t mob_block_end(struct mob_block_encoder *e, uint8_t *out)
{
    const struct mob_block_header *h = &e->header;
    uint32_t ns_bytes = (uint32_t)strlen(h->ns);
    uint32_t front_bytes = (uint32_t)sizeof(struct block_front) + ns_bytes;
    struct block_front front = {
        .magic = BLOCK_MAGIC,
        .version = MOB_BLOCK_VERSION,
        .front_bytes = (uint16_t)front_bytes,
        .entries_bytes = (uint32_t)(e->at - e->bytes),
        .entry_count = e->entry_count,
        .ns_bytes = ns_bytes,
        .cluster = h->cluster,
        .incarnation = h->incarnation,
        .sequence = h->sequence,
        .job = h->job,
        .wall_ns = h->wall_ns,
        .mono_ns = h->mono_ns,
    };
    memcpy(out + sizeof front, h->ns, ns_bytes);
    front.zone_bytes = block_zone_encode(&e->zone, h->mono_ns, out + front_bytes);
    front.entries_crc = mob_crc32c(e->bytes, front.entries_bytes);
    memcpy(out, &front, sizeof front);
    front.front_crc = mob_crc32c(out + BLOCK_CRC_FROM, front_bytes + front.zone_bytes - BLOCK_CRC_FROM);
    memcpy(out + offsetof(struct block_front, front_crc), &front.front_crc, sizeof front.front_crc);
    memcpy(out + front_bytes + front.zone_bytes, e->bytes, front.entries_bytes);
    uint32_t total = front_bytes + front.zone_bytes + front.entries_bytes;
    MOB_ASSERT(total <= MOB_BLOCK_BYTES_MAX);
    return total;
}

/* ---- specs ---- */

/* All 64-bit words of two heads differ only where `task.index` and `caller_seq` are. */
static inline bool spec_is_sibling(const struct mob_spec_head *a, const struct mob_spec_head *b)
{
    const uint8_t *x = (const uint8_t *)a, *y = (const uint8_t *)b;
    uint64_t other = (load64(x + 16) ^ load64(y + 16)) & UINT32_MAX; /* stream's end, before the index */
    other |= (load64(x + 120) ^ load64(y + 120)) & ~(uint64_t)UINT32_MAX; /* reserved, after caller_seq */
    other |= (load64(x) ^ load64(y)) | (load64(x + 8) ^ load64(y + 8));
    for (unsigned i = 24; i < 120; i += 8)
        other |= load64(x + i) ^ load64(y + i);
    return other == 0;
}
_Static_assert(
    offsetof(struct mob_spec_head, task.index) == 20 && offsetof(struct mob_spec_head, caller_seq) == 120,
    "spec_is_sibling knows the layout");

/* u8 inline | u8 i64 | u16 0 | u32 8 */
#define ONE_I64_ARG (MOB_TYPE_I64 << 8 | 8ull << 32)

static bool tail_is_one_i64(const uint8_t *tail, uint32_t tail_bytes)
{
    /* u16 args 1 | u16 flags 0 | u32 24, then the argument */
    return tail_bytes == 24 && load64(tail) == (1 | 24ull << 32) && load64(tail + 8) == ONE_I64_ARG;
}

static uint32_t spec_difference(const struct mob_spec_head *h, const struct spec_context *c)
{
    const struct mob_spec_head *b = &c->head;
    uint32_t mask = 0;
    mask |= h->kind != b->kind || h->runtime != b->runtime ? SPEC_KIND : 0;
    mask |= h->num_returns != b->num_returns ? SPEC_RETURNS : 0;
    mask |= h->flags != b->flags ? SPEC_FLAGS : 0;
    if (!mob_stream_eq(h->task.stream, b->task.stream))
        mask |= SPEC_TASK;
    else
        mask |= h->task.index != b->task.index + 1 ? SPEC_INDEX : 0;
    mask |= h->caller_seq != b->caller_seq + c->seq_step ? SPEC_SEQ : 0;
    mask |= !mob_actor_id_eq(h->actor, b->actor) ? SPEC_ACTOR : 0;
    mask |= h->method != b->method ? SPEC_METHOD : 0;
    mask |= !mob_task_id_eq(h->parent, b->parent) ? SPEC_PARENT : 0;
    mask |= memcmp(&h->function, &b->function, sizeof h->function) != 0 ? SPEC_FUNCTION : 0;
    mask |= memcmp(&h->job, &b->job, sizeof h->job) != 0 ? SPEC_JOB : 0;
    mask |= h->generation != b->generation ? SPEC_GENERATION : 0;
    mask |= h->max_retries != b->max_retries ? SPEC_RETRIES : 0;
    mask |= h->priority != b->priority ? SPEC_PRIORITY : 0;
    mask |= h->cpu != b->cpu ? SPEC_CPU : 0;
    mask |= h->attempt != b->attempt ? SPEC_ATTEMPT : 0;
    mask |= h->deadline_wall_ns != b->deadline_wall_ns ? SPEC_DEADLINE : 0;
    mask |= h->not_before_wall_ns != b->not_before_wall_ns ? SPEC_NOT_BEFORE : 0;
    return mask;
}

static uint8_t *put_spec_rare_fields(
    uint8_t *at, uint32_t mask, const struct mob_spec_head *h, const struct mob_spec_head *before)
{
    if (mask & SPEC_JOB) {
        memcpy(at, &h->job, sizeof h->job);
        at += sizeof h->job;
    }
    if (mask & SPEC_GENERATION)
        at = put_varint(at, h->generation);
    if (mask & SPEC_RETRIES)
        at = put_zigzag(at, (uint64_t)h->max_retries);
    if (mask & SPEC_PRIORITY)
        at = put_zigzag(at, (uint64_t)h->priority);
    if (mask & SPEC_CPU)
        at = put_varint(at, h->cpu);
    if (mask & SPEC_ATTEMPT)
        at = put_varint(at, h->attempt);
    if (mask & SPEC_DEADLINE)
        at = put_zigzag(at, (uint64_t)h->deadline_wall_ns - (uint64_t)before->deadline_wall_ns);
    if (mask & SPEC_NOT_BEFORE)
        at = put_zigzag(at, (uint64_t)h->not_before_wall_ns - (uint64_t)before->not_before_wall_ns);
    return at;
}

static uint8_t *put_spec_fields(struct predictors *p, uint8_t *at, uint32_t mask,
    const struct mob_spec_head *h, const struct spec_context *c)
{
    at = put_varint(at, mask);
    if (mask & SPEC_KIND) {
        *at++ = h->kind;
        *at++ = h->runtime;
    }
    if (mask & SPEC_RETURNS)
        at = put_varint(at, h->num_returns);
    if (mask & SPEC_FLAGS)
        at = put_varint(at, h->flags);
    if (mask & SPEC_TASK)
        at = put_task_id(p, at, h->task);
    if (mask & SPEC_INDEX)
        at = put_zigzag(at, (uint64_t)(int64_t)(int32_t)(h->task.index - (c->head.task.index + 1)));
    if (mask & SPEC_SEQ)
        at = put_zigzag(at, (uint64_t)(int64_t)(int32_t)(h->caller_seq - (c->head.caller_seq + c->seq_step)));
    if (mask & SPEC_ACTOR)
        at = put_task_id(p, at, h->actor.creation);
    if (mask & SPEC_METHOD)
        at = put_varint(at, h->method);
    if (mask & SPEC_PARENT)
        at = put_task_id(p, at, h->parent);
    if (mask & SPEC_FUNCTION)
        at = put_function(p, at, &h->function);
    return put_spec_rare_fields(at, mask, h, &c->head);
}

static uint8_t *put_arg(struct predictors *p, struct spec_context *c, uint8_t *at, uint32_t number,
    const struct mob_arg_view *arg)
{
    if (arg->is_ref) {
        *at++ = (uint8_t)(ITEM_REF | arg->type);
        at = put_task_id(p, at, arg->ref.task);
        return put_varint(at, arg->ref.slot);
    }
    *at++ = (uint8_t)arg->type;
    if (arg->type == MOB_TYPE_I64) {
        uint64_t value = load64(arg->payload);
        uint64_t *before = &c->i64s[number % CONTEXT_I64S];
        at = put_zigzag(at, value - *before);
        *before = value;
        return at;
    }
    if (!block_fixed_bytes(arg->type, NULL))
        at = put_varint(at, arg->payload_bytes);
    memcpy(at, arg->payload, arg->payload_bytes);
    return at + arg->payload_bytes;
}

/* 0 = none, 1 = as before, else words + 1 and the words. */
static uint8_t *put_exts(struct spec_context *c, uint8_t *at, const uint8_t *exts, uint32_t bytes)
{
    if (bytes == 0) {
        *at++ = 0;
        return at;
    }
    if (bytes == c->ext_bytes && memcmp(exts, c->exts, bytes) == 0) {
        *at++ = 1;
        return at;
    }
    at = put_varint(at, bytes / 8 + 1);
    memcpy(at, exts, bytes);
    if (bytes <= CONTEXT_EXT_MAX) {
        memcpy(c->exts, exts, bytes);
        c->ext_bytes = bytes;
    }
    return at + bytes;
}

static uint8_t *put_tail(struct predictors *p, struct spec_context *c, uint8_t *at, uint8_t *first,
    const uint8_t *tail, uint32_t tail_bytes)
{
    uint16_t flags;
    memcpy(&flags, tail + 2, sizeof flags);
    if (flags != 0) {
        *first |= TAIL_RAW << ENTRY_MODE_SHIFT;
        at = put_varint(at, tail_bytes);
        memcpy(at, tail, tail_bytes);
        return at + tail_bytes;
    }
    if (tail_bytes == 8) {
        *first |= TAIL_EMPTY << ENTRY_MODE_SHIFT;
        return at;
    }
    *first |= TAIL_ARGS << ENTRY_MODE_SHIFT;
    struct mob_tail_iter it = mob_spec_args(tail);
    struct mob_arg_view arg;
    at = put_varint(at, it.args_left);
    for (uint32_t i = 0; mob_tail_next_arg(&it, &arg); i++)
        at = put_arg(p, c, at, i, &arg);
    return put_exts(c, at, it.at, (uint32_t)(it.end - it.at));
}

static void add_spec_in_full(struct mob_block_encoder *e, const struct mob_spec_head *head,
    const uint8_t *tail, uint32_t tail_bytes, int64_t submitted_ns, uint32_t slot)
{
    struct predictors *p = &e->p;
    uint8_t *first = e->at, *at = first + 1;
    *first = MOB_ENTRY_SPEC;
    bool is_new = (p->spec_used >> slot & 1) == 0;
    if (is_new || slot != p->spec_last) {
        *first |= ENTRY_CONTEXT;
        *at++ = (uint8_t)(slot | (is_new ? CONTEXT_NEW : 0));
        if (is_new)
            block_spec_context_start(p, slot);
        p->spec_last = slot;
    }
    struct spec_context *c = &p->specs[slot];
    uint32_t mask = spec_difference(head, c);
    if (mask != 0) {
        *first |= ENTRY_HEAD;
        at = put_spec_fields(p, at, mask, head, c);
    }
    at = put_zigzag(at, (uint64_t)submitted_ns - p->submitted);
    p->submitted = (uint64_t)submitted_ns;
    if (tail_is_one_i64(tail, tail_bytes)) {
        at = put_zigzag(at, load64(tail + 16) - c->i64s[0]);
        c->i64s[0] = load64(tail + 16);
    } else {
        at = put_tail(p, c, at, first, tail, tail_bytes);
    }
    c->seq_step = head->caller_seq - c->head.caller_seq;
    c->head = *head;
    block_zone_function(&e->zone, head->function);
    e->at = at;
}

static uint32_t spec_slot(const struct mob_spec_head *head)
{
    return (uint32_t)(mob_stream_mix(head->task.stream) >> 60);
}

enum mob_status mob_block_add_spec(struct mob_block_encoder *e, const struct mob_spec_head *head,
    const uint8_t *tail, uint32_t tail_bytes, int64_t submitted_ns)
{
    enum mob_status status = block_room(e, tail_bytes);
    if (status != MOB_OK)
        return status;
    add_spec_in_full(e, head, tail, tail_bytes, submitted_ns, spec_slot(head));
    e->entry_count++;
    block_zone_group(&e->zone, head->task, &e->zone.last_spec)->specs++;
    e->zone.map.specs++;
    block_zone_time(&e->zone, submitted_ns);
    return MOB_OK;
}

/* `count` neighbours from `first` on. */
static void note_siblings(struct zone_builder *z, struct mob_task_id first, uint32_t count)
{
    z->map.specs += count;
    while (count > 0) {
        uint32_t left = (1u << MOB_GROUP_SHIFT) - (first.index & ((1u << MOB_GROUP_SHIFT) - 1));
        uint32_t some = count < left ? count : left;
        struct mob_zone_group *group = block_zone_group(z, first, &z->last_spec);
        group->specs = (uint16_t)(group->specs + some);
        first.index += some;
        count -= some;
    }
}

/* Those that differ from the spec before them in nothing but what counts up, time and value; each has a time,
 * in their order, and an i64. Returns how many there are, and fit for certain. */
static uint32_t add_next_siblings(struct mob_block_encoder *e, const struct mob_spec_head *head,
    const struct mob_sibling_word *siblings, uint32_t count)
{
    struct predictors *p = &e->p;
    uint32_t slot = spec_slot(head), room = block_room_of_short(e), limit = count < room ? count : room;
    struct spec_context *c = &p->specs[slot];
    if (slot != p->spec_last || (p->spec_used >> slot & 1) == 0 || !spec_is_sibling(head, &c->head))
        return 0;
    const struct mob_task_id first = {head->task.stream, c->head.task.index + 1};
    uint32_t index = c->head.task.index, seq = c->head.caller_seq, step = c->seq_step, done = 0;
    uint64_t submitted = p->submitted, value = c->i64s[0];
    uint8_t *at = e->at;
    for (; done < limit; done++) {
        const struct mob_sibling_word *s = &siblings[done];
        if (s->index != index + 1 || s->caller_seq != seq + step || s->tail[1] != ONE_I64_ARG ||
            s->submitted_ns <= 0 || (done > 0 && (uint64_t)s->submitted_ns < submitted))
            break;
        *at++ = MOB_ENTRY_SPEC;
        at = put_zigzag(at, (uint64_t)s->submitted_ns - submitted);
        at = put_zigzag(at, s->tail[2] - value);
        index = s->index;
        seq = s->caller_seq;
        submitted = (uint64_t)s->submitted_ns;
        value = s->tail[2];
    }
    if (done == 0)
        return 0;
    mob_sibling_head(&c->head, index, seq);
    p->submitted = submitted;
    c->i64s[0] = value;
    e->at = at;
    e->entry_count += done;
    note_siblings(&e->zone, first, done);
    block_zone_time(&e->zone, siblings[0].submitted_ns);
    block_zone_time(&e->zone, siblings[done - 1].submitted_ns);
    return done;
}

uint32_t mob_block_add_specs(struct mob_block_encoder *e, const struct mob_spec_head *head,
    const struct mob_sibling_word *siblings, uint32_t count)
{
    struct mob_spec_head own = *head;
    uint32_t done = 0;
    while (done < count) {
        const struct mob_sibling_word *s = &siblings[done];
        uint32_t some = add_next_siblings(e, &own, s, count - done);
        if (some == 0) {
            mob_sibling_head(&own, s->index, s->caller_seq);
            if (mob_block_add_spec(e, &own, (const uint8_t *)s->tail, sizeof s->tail, s->submitted_ns) !=
                MOB_OK)
                break;
            some = 1;
        }
        done += some;
    }
    return done;
}
