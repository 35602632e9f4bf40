/* Decoder: completions. */
#include "common/wire/block_format.h"

static struct worker_context *worker_context_of(struct mob_block_decoder *d)
{
    struct predictors *p = &d->p;
    uint8_t byte = *d->at++;
    uint32_t slot = byte & ~CONTEXT_NEW & 0xff;
    if (slot >= WORKER_CONTEXTS)
        return NULL;
    if (byte & CONTEXT_NEW) {
        uint32_t worker;
        d->at = get_u32(d->at, &worker);
        block_worker_context_start(p, slot);
        p->workers[slot].head.worker = worker;
    } else if ((p->worker_used >> slot & 1) == 0) {
        return NULL;
    }
    p->worker_last = slot;
    return &p->workers[slot];
}

static const uint8_t *get_completion_fields(
    struct predictors *p, const uint8_t *at, struct mob_completion_head *h, uint64_t *mask_out)
{
    uint64_t mask, v;
    at = get_varint(at, &mask);
    if (mask == 0 || mask >= COMPLETION_FIELDS)
        return NULL;
    if (mask & COMPLETION_FLAGS)
        h->flags = *at++;
    if (mask & COMPLETION_STATUS)
        at = get_u16(at, &h->status);
    if (mask & COMPLETION_TASK && !(at = get_task_id(p, at, &h->task)))
        return NULL;
    if (mask & COMPLETION_PEAK)
        at = get_u32(at, &h->peak_kb);
    if (mask & COMPLETION_POSITION) {
        at = get_zigzag(at, &v);
        h->position += v;
    }
    if (mask & COMPLETION_ATTEMPT)
        at = get_u32(at, &h->attempt);
    if (mask & COMPLETION_GENERATION)
        at = get_u32(at, &h->generation);
    if (mask & COMPLETION_ACTOR && !(at = get_task_id(p, at, &h->actor.creation)))
        return NULL;
    if (mask & COMPLETION_INCARNATION)
        at = get_u32(at, &h->incarnation);
    *mask_out = mask;
    return at;
}

static const uint8_t *get_odd_times(const uint8_t *at, uint64_t before[TIMES], uint64_t times[TIMES])
{
    uint8_t known = *at++;
    for (int i = 0; i < TIMES; i++) {
        uint64_t v;
        times[i] = 0;
        if ((known >> i & 1) == 0)
            continue;
        at = get_zigzag(at, &v);
        times[i] = before[i] += v;
    }
    return at;
}

static inline const uint8_t *get_micro(const uint8_t *at, struct worker_context *c, uint64_t times[TIMES])
{
    uint64_t first, second;
    at = get_varint(at, &first);
    second = first & 3;
    if (second == 3) {
        at = get_varint(at, &second);
        second += 3;
    }
    c->ready_us += unzigzag(first >> 2);
    c->gap_us += unzigzag(second);
    times[READY] = times[SUBMITTED] + c->ready_us * 1000;
    times[DISPATCHED] = times[READY] + c->gap_us * 1000;
    return at;
}

static inline const uint8_t *get_times(
    const uint8_t *at, uint8_t bits, struct worker_context *c, uint64_t times[TIMES])
{
    uint64_t v, *before = c->times;
    if (bits & TIME_ODD)
        return get_odd_times(at, before, times);
    at = get_zigzag(at, &v);
    times[SUBMITTED] = before[SUBMITTED] + v;
    if (bits & TIME_MICRO) {
        at = get_micro(at, c, times);
    } else {
        times[READY] = before[READY];
        times[DISPATCHED] = before[DISPATCHED];
        if ((bits & TIME_READY_SAME) == 0) {
            at = get_zigzag(at, &v);
            times[READY] += v;
        }
        if ((bits & TIME_DISPATCHED_SAME) == 0) {
            at = get_zigzag(at, &v);
            times[DISPATCHED] = times[READY] + v;
        }
    }
    times[STARTED] = before[FINISHED];
    if ((bits & TIME_STARTED_NEXT) == 0) {
        at = get_zigzag(at, &v);
        times[STARTED] += v;
    }
    at = get_zigzag(at, &v);
    times[FINISHED] = times[STARTED] + v;
    memcpy(before, times, TIMES * sizeof *times);
    return at;
}

/* Times and CPU into the head; then the returns. */
static const uint8_t *get_clocks(
    const uint8_t *at, uint8_t bits, struct worker_context *c, struct mob_completion_head *h)
{
    uint64_t times[TIMES], v;
    at = get_times(at, bits, c, times);
    h->submitted_ns = (int64_t)times[SUBMITTED];
    h->ready_ns = (int64_t)times[READY];
    h->dispatched_ns = (int64_t)times[DISPATCHED];
    h->started_ns = (int64_t)times[STARTED];
    h->finished_ns = (int64_t)times[FINISHED];
    uint64_t run = times[FINISHED] - times[STARTED];
    if (bits & TIME_CPU_IS_RUN) {
        h->cpu_ns = (int64_t)run;
    } else if (bits & TIME_CPU_ZERO) {
        h->cpu_ns = 0;
    } else {
        at = get_zigzag(at, &v);
        h->cpu_ns = (int64_t)(run + v);
    }
    return at;
}

static bool get_body(
    struct mob_block_decoder *d, struct worker_context *c, unsigned mode, struct mob_completion *out)
{
    static const uint8_t one_i64[16] = {0, 0, 0, 0, MOB_TYPE_I64, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0};
    out->body = d->scratch;
    if (mode == RETURN_ONE_I64) {
        uint64_t v;
        d->at = get_zigzag(d->at, &v);
        c->i64 += v;
        memcpy(d->scratch, one_i64, sizeof one_i64);
        memcpy(d->scratch + sizeof one_i64, &c->i64, 8);
        out->head.return_count = 1;
        out->head.body_bytes = 24;
        return true;
    }
    out->head.return_count = 0;
    out->head.body_bytes = 0;
    if (mode == RETURN_NONE)
        return true;
    uint32_t count;
    d->at = get_u32(d->at, &count);
    if (mode != RETURN_LIST || count > UINT16_MAX)
        return false;
    out->head.return_count = (uint16_t)count;
    return block_decode_returns(d, count, &out->head.body_bytes);
}

bool block_decode_completion(struct mob_block_decoder *d, uint8_t first, struct mob_entry *out)
{
    struct predictors *p = &d->p;
    uint8_t bits = *d->at++;
    if (first & ENTRY_CONTEXT && !worker_context_of(d))
        return false;
    struct worker_context *c = &p->workers[p->worker_last];
    uint64_t position_before = c->head.position, mask = 0, v;
    uint32_t index_before = c->head.task.index;
    c->head.position += c->position_step;
    const uint8_t *at = d->at;
    if (first & ENTRY_HEAD && !(at = get_completion_fields(p, at, &c->head, &mask)))
        return false;
    c->position_step = c->head.position - position_before;
    if ((mask & COMPLETION_TASK) == 0) {
        c->head.task.index = index_before + 1;
        if ((bits & TIME_INDEX_NEXT) == 0) {
            at = get_zigzag(at, &v);
            c->head.task.index += (uint32_t)v;
        }
    }
    out->completion.head = c->head;
    d->at = get_clocks(at, bits, c, &out->completion.head);
    return get_body(d, c, first >> ENTRY_MODE_SHIFT, &out->completion);
}
