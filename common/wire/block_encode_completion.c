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

/* Offsets in microseconds as differences to the worker's last ones; mostly one byte: the second one's zigzag
 * in the low two bits of the first, 3 = it follows. */
static inline uint8_t *put_offsets(uint8_t *at, uint64_t ready_difference, uint64_t gap_difference)
{
    uint64_t first = zigzag(ready_difference), second = zigzag(gap_difference);
    at = put_varint(at, first << 2 | (second < 3 ? second : 3));
    return second < 3 ? at : put_varint(at, second - 3);
}

/* False when the times are finer than microseconds. */
static inline bool put_micro(uint8_t **at, const uint64_t times[TIMES], struct worker_context *c)
{
    uint64_t ready = times[READY] - times[SUBMITTED], gap = times[DISPATCHED] - times[READY];
    if (ready % 1000 != 0 || gap % 1000 != 0 || ready >= MICRO_OFFSET_MAX || gap >= MICRO_OFFSET_MAX)
        return false;
    *at = put_offsets(*at, ready / 1000 - c->ready_us, gap / 1000 - c->gap_us);
    c->ready_us = ready / 1000;
    c->gap_us = gap / 1000;
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

static inline uint8_t *put_run(
    uint8_t *at, uint8_t *bits, uint64_t started, uint64_t finished, uint64_t finished_before)
{
    if (started == finished_before)
        *bits |= TIME_STARTED_NEXT;
    else
        at = put_zigzag(at, started - finished_before);
    return put_zigzag(at, finished - started);
}

static inline uint8_t *put_cpu(uint8_t *at, uint8_t *bits, uint64_t cpu, uint64_t run)
{
    if (cpu == run)
        *bits |= TIME_CPU_IS_RUN;
    else if (cpu == 0)
        *bits |= TIME_CPU_ZERO;
    else
        at = put_zigzag(at, cpu - run);
    return at;
}

/* Sets the bits in *bits. Everything relative to what is nearest in time. */
static inline uint8_t *put_times(
    uint8_t *at, uint8_t *bits, const struct mob_completion_head *h, struct worker_context *c)
{
    uint64_t times[TIMES];
    times_of(h, times);
    if (__builtin_expect(
            times[0] == 0 || times[1] == 0 || times[2] == 0 || times[3] == 0 || times[4] == 0, 0)) {
        *bits |= TIME_ODD;
        at = put_odd_times(at, times, c->times);
    } else {
        at = put_zigzag(at, times[SUBMITTED] - c->times[SUBMITTED]);
        at = put_queue_times(at, bits, times, c);
        at = put_run(at, bits, times[STARTED], times[FINISHED], c->times[FINISHED]);
        memcpy(c->times, times, sizeof times);
    }
    return put_cpu(at, bits, (uint64_t)h->cpu_ns, times[FINISHED] - times[STARTED]);
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

/* ---- runs ---- */

/* What a worker's context says of the last of a run: not in memory, which each byte that is coded might
 * change.
 */
struct run {
    uint64_t submitted, ready, dispatched, finished;
    uint64_t ready_us, gap_us, value;
    uint32_t index;
    int64_t longest;
};

/* Of a worker's last completion, if one with this head differs from it in index, times and value only. */
static struct worker_context *context_of_alike(
    struct mob_block_encoder *e, const struct mob_completion_head *head)
{
    struct predictors *p = &e->p;
    uint32_t slot = head->worker % WORKER_CONTEXTS;
    struct worker_context *c = &p->workers[slot];
    bool alike = slot == p->worker_last && (p->worker_used >> slot & 1) != 0 && c->position_step == 0 &&
        same_but_counters(head, c);
    return alike ? c : NULL;
}

/* The node's times are known, and such that put_micro would take them; the worker's follow those of the one
 * before. */
static inline bool codes_shortly(
    const struct mob_completion_word *word, const struct mob_queue_times *times, uint64_t finished_before)
{
    return word->type == MOB_TYPE_I64 && times->submitted_ns > 0 && times->ready_us <= times->dispatched_us &&
        times->dispatched_us < MICRO_OFFSET_MAX / 1000 && word->started_ns >= (int64_t)finished_before &&
        word->finished_ns >= word->started_ns;
}

static inline uint8_t *put_short(uint8_t *at, struct run *run, const struct mob_completion_word *word,
    const struct mob_queue_times *queued)
{
    uint8_t *first = at, bits = 0;
    uint64_t submitted = (uint64_t)queued->submitted_ns, started = (uint64_t)word->started_ns;
    uint64_t finished = (uint64_t)word->finished_ns, ready_us = queued->ready_us;
    uint64_t gap_us = queued->dispatched_us - queued->ready_us;
    uint64_t ready = submitted + ready_us * 1000, dispatched = ready + gap_us * 1000;
    at += 2;
    if (word->task.index == run->index + 1)
        bits |= TIME_INDEX_NEXT;
    else
        at = put_zigzag(at, (uint64_t)(int64_t)(int32_t)(word->task.index - (run->index + 1)));
    at = put_zigzag(at, submitted - run->submitted);
    if (ready == run->ready && dispatched == run->dispatched) {
        bits |= TIME_READY_SAME | TIME_DISPATCHED_SAME;
    } else {
        bits |= TIME_MICRO;
        at = put_offsets(at, ready_us - run->ready_us, gap_us - run->gap_us);
        run->ready_us = ready_us;
        run->gap_us = gap_us;
    }
    at = put_run(at, &bits, started, finished, run->finished);
    at = put_cpu(at, &bits, (uint64_t)word->cpu_ns, finished - started);
    at = put_zigzag(at, word->value - run->value);
    first[0] = MOB_ENTRY_COMPLETION;
    first[1] = bits;
    int64_t ran = word->finished_ns - word->started_ns;
    *run = (struct run){submitted, ready, dispatched, finished, run->ready_us, run->gap_us, word->value,
        word->task.index, ran > run->longest ? ran : run->longest};
    return at;
}

static struct run run_begins(const struct worker_context *c)
{
    return (struct run){c->times[SUBMITTED], c->times[READY], c->times[DISPATCHED], c->times[FINISHED],
        c->ready_us, c->gap_us, c->i64, c->head.task.index, 0};
}

static void run_ends(struct worker_context *c, const struct run *run, int64_t started_ns)
{
    const uint64_t times[TIMES] = {
        run->submitted, run->ready, run->dispatched, (uint64_t)started_ns, run->finished};
    memcpy(c->times, times, sizeof times);
    c->head.task.index = run->index;
    c->ready_us = run->ready_us;
    c->gap_us = run->gap_us;
    c->i64 = run->value;
}

/* Those of one stream and generation that are as the worker's last one but for index, times and value.
 * Returns how many there are, and fit for certain. */
static uint32_t add_next_ends(struct mob_block_encoder *e, const struct mob_completion_head *head,
    const struct mob_completion_word *words, const struct mob_queue_times *times, uint32_t count)
{
    struct worker_context *c = context_of_alike(e, head);
    uint32_t room = block_room_of_short(e), limit = count < room ? count : room, done = 0;
    if (!c || (int64_t)c->times[FINISHED] <= 0)
        return 0;
    struct run run = run_begins(c);
    struct mob_zone_group *group = NULL;
    uint8_t *at = e->at;
    for (; done < limit; done++) {
        const struct mob_completion_word *word = &words[done];
        if (!mob_stream_eq(word->task.stream, head->task.stream) || word->generation != head->generation ||
            !codes_shortly(word, &times[done], run.finished))
            break;
        at = put_short(at, &run, word, &times[done]);
        if (!group || group->group != word->task.index >> MOB_GROUP_SHIFT)
            group = block_zone_group(&e->zone, word->task, &e->zone.last_final);
        group->finals++;
    }
    if (done == 0)
        return 0;
    struct mob_zone_map *map = &e->zone.map;
    run_ends(c, &run, words[done - 1].started_ns);
    e->at = at;
    e->entry_count += done;
    map->finals += done;
    map->longest_ns = run.longest > map->longest_ns ? run.longest : map->longest_ns;
    block_zone_time(&e->zone, words[0].finished_ns);
    block_zone_time(&e->zone, words[done - 1].finished_ns);
    return done;
}

static struct mob_completion in_full(const struct mob_completion_word *word,
    const struct mob_queue_times *times, uint32_t worker, struct mob_return_word *body_out)
{
    struct mob_completion full = mob_completion_of_word(word, body_out);
    struct mob_completion_head *head = &full.head;
    head->worker = worker;
    head->submitted_ns = times->submitted_ns;
    uint64_t submitted = (uint64_t)times->submitted_ns; /* a client's: any bit pattern */
    head->ready_ns =
        times->ready_us == UINT32_MAX ? 0 : (int64_t)(submitted + (uint64_t)times->ready_us * 1000);
    head->dispatched_ns = (int64_t)(submitted + (uint64_t)times->dispatched_us * 1000);
    return full;
}

uint32_t mob_block_add_completions(struct mob_block_encoder *e, uint32_t worker,
    const struct mob_completion_word *words, const struct mob_queue_times *times, uint32_t count)
{
    uint32_t done = 0;
    while (done < count) {
        struct mob_return_word body;
        struct mob_completion next = in_full(&words[done], &times[done], worker, &body);
        uint32_t some = add_next_ends(e, &next.head, words + done, times + done, count - done);
        if (some == 0) {
            if (mob_block_add_completion(e, &next.head, next.body) != MOB_OK)
                break;
            some = 1;
        }
        done += some;
    }
    return done;
}
