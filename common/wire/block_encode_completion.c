/* Encoder: completions. */
#include "common/wire/block_format.h"

#include "common/base/bytes.h"

static bool body_is_one_i64(const struct mob_completion_head *h, const uint8_t *body)
{
    /* u32 slot 0 | u8 i64 | u8 flags 0 | u16 0, then u64 size 8 */
    return h->body_bytes == 24 && load64(body) == (uint64_t)MOB_TYPE_I64 << 32 && load64(body + 8) == 8;
}

static uint32_t difference(const struct mob_completion_head *h, const struct worker_context *c)
{
    const struct mob_completion_head *b = &c->head;
    uint32_t mask = 0;
    mask |= h->flags != b->flags ? COMPLETION_FLAGS : 0;
    mask |= h->status != b->status ? COMPLETION_STATUS : 0;
    mask |= !mob_stream_eq(h->task.stream, b->task.stream) ? COMPLETION_TASK : 0;
    mask |= h->peak_kb != b->peak_kb ? COMPLETION_PEAK : 0;
    mask |= h->position != b->position + c->position_step ? COMPLETION_POSITION : 0;
    mask |= h->attempt != b->attempt ? COMPLETION_ATTEMPT : 0;
    mask |= h->generation != b->generation ? COMPLETION_GENERATION : 0;
    mask |= !mob_actor_id_eq(h->actor, b->actor) ? COMPLETION_ACTOR : 0;
    mask |= h->incarnation != b->incarnation ? COMPLETION_INCARNATION : 0;
    return mask;
}

/* No difference, told by few words: all but the index, the times and the place among an actor's calls. */
static inline bool same_but_counters(const struct mob_completion_head *h, const struct worker_context *c)
{
    const uint8_t *x = (const uint8_t *)h, *y = (const uint8_t *)&c->head;
    uint64_t other = load64(x) ^ load64(y); /* up to return_count */
    other |= (load64(x + 8) ^ load64(y + 8)) | ((load64(x + 16) ^ load64(y + 16)) & UINT32_MAX); /* stream */
    other |= (load64(x + 24) ^ load64(y + 24)) | (load64(x + 32) ^ load64(y + 32)); /* attempt .. peak_kb */
    other |= (load64(x + 88) ^ load64(y + 88)) | (load64(x + 96) ^ load64(y + 96)); /* actor */
    other |= load64(x + 112) ^ load64(y + 112); /* incarnation, body_bytes */
    return other == 0 && h->position == c->head.position + c->position_step;
}
_Static_assert(offsetof(struct mob_completion_head, task) == 8 &&
        offsetof(struct mob_completion_head, attempt) == 24 &&
        offsetof(struct mob_completion_head, submitted_ns) == 40 &&
        offsetof(struct mob_completion_head, actor) == 88 &&
        offsetof(struct mob_completion_head, incarnation) == 112,
    "same_but_counters knows the layout");

static uint8_t *put_fields(struct predictors *p, uint8_t *at, uint32_t mask,
    const struct mob_completion_head *h, const struct worker_context *c)
{
    at = put_varint(at, mask);
    if (mask & COMPLETION_FLAGS)
        *at++ = h->flags;
    if (mask & COMPLETION_STATUS)
        at = put_varint(at, h->status);
    if (mask & COMPLETION_TASK)
        at = put_task_id(p, at, h->task);
    if (mask & COMPLETION_PEAK)
        at = put_varint(at, h->peak_kb);
    if (mask & COMPLETION_POSITION)
        at = put_zigzag(at, h->position - (c->head.position + c->position_step));
    if (mask & COMPLETION_ATTEMPT)
        at = put_varint(at, h->attempt);
    if (mask & COMPLETION_GENERATION)
        at = put_varint(at, h->generation);
    if (mask & COMPLETION_ACTOR)
        at = put_task_id(p, at, h->actor.creation);
    if (mask & COMPLETION_INCARNATION)
        at = put_varint(at, h->incarnation);
    return at;
}

static void times_of(const struct mob_completion_head *h, uint64_t times[TIMES])
{
    times[SUBMITTED] = (uint64_t)h->submitted_ns;
    times[READY] = (uint64_t)h->ready_ns;
    times[DISPATCHED] = (uint64_t)h->dispatched_ns;
    times[STARTED] = (uint64_t)h->started_ns;
    times[FINISHED] = (uint64_t)h->finished_ns;
}

/* A byte with a bit for each known time, then each as a difference to the worker's last known one. */
static uint8_t *put_odd_times(uint8_t *at, const uint64_t times[TIMES], uint64_t before[TIMES])
{
    uint8_t *known = at++;
    *known = 0;
    for (int i = 0; i < TIMES; i++) {
        if (times[i] == 0)
            continue;
        *known |= (uint8_t)(1u << i);
        at = put_zigzag(at, times[i] - before[i]);
        before[i] = times[i];
    }
    return at;
}

/* Both offsets as differences to the worker's last ones; mostly one byte: the second one's zigzag in the low
 * two bits of the first, 3 = it follows. False when the times are finer than microseconds. */
static inline bool put_micro(uint8_t **at, const uint64_t times[TIMES], struct worker_context *c)
{
    uint64_t ready = times[READY] - times[SUBMITTED], gap = times[DISPATCHED] - times[READY];
    if (ready % 1000 != 0 || gap % 1000 != 0 || ready >= MICRO_OFFSET_MAX || gap >= MICRO_OFFSET_MAX)
        return false;
    uint64_t first = zigzag(ready / 1000 - c->ready_us), second = zigzag(gap / 1000 - c->gap_us);
    c->ready_us = ready / 1000;
    c->gap_us = gap / 1000;
    *at = put_varint(*at, first << 2 | (second < 3 ? second : 3));
    if (second >= 3)
        *at = put_varint(*at, second - 3);
    return true;
}

static inline uint8_t *put_queue_times(
    uint8_t *at, uint8_t *bits, const uint64_t times[TIMES], struct worker_context *c)
{
    const uint64_t *before = c->times;
    bool ready_same = times[READY] == before[READY],
         dispatched_same = times[DISPATCHED] == before[DISPATCHED];
    if (!(ready_same && dispatched_same) && put_micro(&at, times, c)) {
        *bits |= TIME_MICRO;
        return at;
    }
    if (ready_same)
        *bits |= TIME_READY_SAME;
    else
        at = put_zigzag(at, times[READY] - before[READY]);
    if (dispatched_same)
        *bits |= TIME_DISPATCHED_SAME;
    else
        at = put_zigzag(at, times[DISPATCHED] - times[READY]);
    return at;
}

/* Sets the bits in *bits. Everything relative to what is nearest in time. */
static inline uint8_t *put_times(
    uint8_t *at, uint8_t *bits, const struct mob_completion_head *h, struct worker_context *c)
{
    uint64_t times[TIMES], cpu = (uint64_t)h->cpu_ns;
    times_of(h, times);
    uint64_t run = times[FINISHED] - times[STARTED];
    if (__builtin_expect(
            times[0] == 0 || times[1] == 0 || times[2] == 0 || times[3] == 0 || times[4] == 0, 0)) {
        *bits |= TIME_ODD;
        at = put_odd_times(at, times, c->times);
    } else {
        at = put_zigzag(at, times[SUBMITTED] - c->times[SUBMITTED]);
        at = put_queue_times(at, bits, times, c);
        if (times[STARTED] == c->times[FINISHED])
            *bits |= TIME_STARTED_NEXT;
        else
            at = put_zigzag(at, times[STARTED] - c->times[FINISHED]);
        at = put_zigzag(at, run);
        memcpy(c->times, times, sizeof times);
    }
    if (cpu == run)
        *bits |= TIME_CPU_IS_RUN;
    else if (cpu == 0)
        *bits |= TIME_CPU_ZERO;
    else
        at = put_zigzag(at, cpu - run);
    return at;
}

uint8_t *block_encode_return(uint8_t *at, const struct mob_return_view *r)
{
    *at++ = (uint8_t)(r->type | (r->flags & MOB_RETURN_STORED ? ITEM_STORED : 0) |
        (r->flags & MOB_RETURN_HASH_LATER ? ITEM_HASH_LATER : 0));
    uint32_t fixed;
    bool stored = (r->flags & MOB_RETURN_STORED) != 0;
    if (stored || !block_fixed_bytes(r->type, &fixed))
        at = put_varint(at, r->size);
    if (stored) {
        memcpy(at, &r->hash, sizeof r->hash);
        return at + sizeof r->hash;
    }
    if (r->size > 0)
        memcpy(at, r->payload, r->size);
    return at + r->size;
}

/* Slots mostly count up from 0, so only one that does not is coded. */
static uint8_t *put_returns(uint8_t *at, const struct mob_completion_head *h, const uint8_t *body)
{
    struct mob_completion c = {*h, body};
    struct mob_return_view r;
    uint32_t from = 0, expected = 0;
    at = put_varint(at, h->return_count);
    while (mob_completion_next(&c, &from, &r)) {
        uint8_t *first = at;
        at = block_encode_return(at, &r);
        if (r.slot != expected) {
            *first |= ITEM_SLOT;
            at = put_varint(at, r.slot);
        }
        expected = r.slot + 1;
    }
    return at;
}

/* First byte, context and head; leaves e->at behind them and the time bits' place in *bits_out. */
static struct worker_context *begin(
    struct mob_block_encoder *e, const struct mob_completion_head *h, uint8_t **bits_out)
{
    struct predictors *p = &e->p;
    uint8_t *first = e->at, *at = first + 2;
    uint32_t slot = h->worker % WORKER_CONTEXTS;
    bool is_new = (p->worker_used >> slot & 1) == 0 || p->workers[slot].head.worker != h->worker;
    *first = MOB_ENTRY_COMPLETION;
    first[1] = 0;
    if (is_new || slot != p->worker_last) {
        *first |= ENTRY_CONTEXT;
        *at++ = (uint8_t)(slot | (is_new ? CONTEXT_NEW : 0));
    }
    if (is_new) {
        at = put_varint(at, h->worker);
        block_worker_context_start(p, slot);
        p->workers[slot].head.worker = h->worker;
    }
    p->worker_last = slot;
    struct worker_context *c = &p->workers[slot];
    uint32_t mask = same_but_counters(h, c) ? 0 : difference(h, c);
    if (mask != 0) {
        *first |= ENTRY_HEAD;
        at = put_fields(p, at, mask, h, c);
    }
    if (mask & COMPLETION_TASK || h->task.index == c->head.task.index + 1)
        first[1] |= TIME_INDEX_NEXT;
    else
        at = put_zigzag(at, (uint64_t)(int64_t)(int32_t)(h->task.index - (c->head.task.index + 1)));
    if (mask != 0) {
        c->position_step = h->position - c->head.position;
        c->head = *h;
    } else {
        c->position_step = h->position - c->head.position;
        c->head.position = h->position;
        c->head.task.index = h->task.index;
    }
    e->at = at;
    *bits_out = first + 1;
    return c;
}

static void note(struct zone_builder *z, const struct mob_completion_head *h)
{
    struct mob_zone_group *group = block_zone_group(z, h->task, &z->last_final);
    if (h->flags & MOB_COMPLETION_FINAL) {
        group->finals++;
        z->map.finals++;
        z->map.failed += h->status != MOB_OK;
    } else {
        group->others++;
        z->map.others++;
    }
    block_zone_time(z, h->finished_ns);
    int64_t run = (int64_t)((uint64_t)h->finished_ns - (uint64_t)h->started_ns);
    if (h->started_ns != 0 && h->finished_ns != 0 && run > z->map.longest_ns)
        z->map.longest_ns = run;
}

enum mob_status mob_block_add_completion(
    struct mob_block_encoder *e, const struct mob_completion_head *h, const uint8_t *body)
{
    enum mob_status status = h->body_bytes > MOB_RECORD_MAX ? MOB_TOO_LARGE : block_room(e, h->body_bytes);
    if (status != MOB_OK)
        return status;
    uint8_t *first = e->at, *bits;
    struct worker_context *c = begin(e, h, &bits);
    uint8_t *at = put_times(e->at, bits, h, c);
    if (body_is_one_i64(h, body)) {
        uint64_t value = load64(body + 16);
        at = put_zigzag(at, value - c->i64);
        c->i64 = value;
    } else if (h->return_count == 0) {
        *first |= RETURN_NONE << ENTRY_MODE_SHIFT;
    } else {
        *first |= RETURN_LIST << ENTRY_MODE_SHIFT;
        at = put_returns(at, h, body);
    }
    e->at = at;
    e->entry_count++;
    note(&e->zone, h);
    return MOB_OK;
}
