#include "tests/support/wire_samples.h"

#include <string.h>

uint64_t sample_u64(struct sample_rng *r)
{
    uint64_t x = r->state += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

uint32_t sample_below(struct sample_rng *r, uint32_t n)
{
    return (uint32_t)(sample_u64(r) % n);
}

bool sample_one_in(struct sample_rng *r, uint32_t n)
{
    return sample_below(r, n) == 0;
}

uint64_t sample_number(struct sample_rng *r)
{
    bool any = sample_one_in(r, 8);
    uint64_t v = sample_u64(r);
    return any ? v : v >> (8 * (4 + sample_below(r, 4)));
}

void sample_bytes(struct sample_rng *r, void *out, size_t n)
{
    uint8_t *p = out;
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)sample_u64(r);
}

static struct mob_hash128 sample_hash(struct sample_rng *r)
{
    struct mob_hash128 h;
    h.lo = sample_u64(r);
    h.hi = sample_u64(r);
    return h;
}

static struct mob_task_id sample_task(struct sample_world *w)
{
    struct mob_task_id id = {.index = sample_below(&w->rng, 3000)};
    struct sample_rng stream = {sample_below(&w->rng, w->streams)};
    sample_bytes(&stream, &id.stream, sizeof id.stream);
    if (sample_one_in(&w->rng, 50))
        id.index = (uint32_t)sample_u64(&w->rng);
    return id;
}

void sample_world_init(struct sample_world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->rng.state = seed;
    w->streams = 1 + sample_below(&w->rng, sample_one_in(&w->rng, 2) ? 3 : 200);
    w->workers = 1 + sample_below(&w->rng, sample_one_in(&w->rng, 2) ? 3 : 200);
    w->now = (int64_t)(sample_u64(&w->rng) >> 10);
    w->spec.version = MOB_SPEC_VERSION;
    w->spec.kind = MOB_KIND_TASK;
    w->spec.runtime = MOB_RUNTIME_C;
    w->spec.num_returns = 1;
    w->spec.attempt = 1;
    w->spec.task = sample_task(w);
    w->completion.version = MOB_COMPLETION_VERSION;
    w->completion.flags = MOB_COMPLETION_FINAL;
    w->completion.task = w->spec.task;
}

static int64_t tick(struct sample_world *w)
{
    return w->now += sample_below(&w->rng, sample_one_in(&w->rng, 10) ? 100000000 : 500);
}

/* ---- specs ---- */

static void change_spec_head(struct sample_world *w)
{
    struct sample_rng *r = &w->rng;
    struct mob_spec_head *h = &w->spec;
    switch (sample_below(r, 16)) {
    case 0:
        h->kind = (uint8_t)(1 + sample_below(r, 4));
        h->runtime = (uint8_t)(1 + sample_below(r, 3));
        break;
    case 1:
        h->num_returns = (uint16_t)sample_number(r);
        break;
    case 2:
        h->flags = (uint16_t)sample_u64(r);
        break;
    case 3:
        h->parent = sample_task(w);
        break;
    case 4:
        sample_bytes(r, &h->job, sizeof h->job);
        break;
    case 5:
        memset(&h->function, (int)sample_below(r, 30), sizeof h->function);
        break;
    case 6:
        h->actor.creation = sample_task(w);
        break;
    case 7:
        h->generation = (uint32_t)sample_number(r);
        break;
    case 8:
        h->max_retries = (int32_t)(sample_number(r) & INT32_MAX) - 1;
        break;
    case 9:
        h->priority = (int16_t)sample_u64(r);
        break;
    case 10:
        h->method = (uint16_t)sample_number(r);
        break;
    case 11:
        h->cpu = (uint32_t)sample_number(r);
        break;
    case 12:
        h->attempt = (uint32_t)sample_number(r);
        break;
    case 13:
        h->deadline_wall_ns = (int64_t)sample_u64(r);
        break;
    case 14:
        h->not_before_wall_ns = (int64_t)sample_u64(r);
        break;
    default:
        h->caller_seq = (uint32_t)sample_number(r);
        break;
    }
}

static void add_random_arg(struct sample_world *w, struct mob_tail_builder *b)
{
    static const uint8_t fixed[MOB_TYPE_COUNT] = {[MOB_TYPE_I64] = 8,
        [MOB_TYPE_F64] = 8,
        [MOB_TYPE_BOOL] = 1,
        [MOB_TYPE_ACTOR] = 16,
        [MOB_TYPE_FUTURE] = 20};
    struct sample_rng *r = &w->rng;
    uint8_t payload[64];
    if (sample_one_in(r, 3)) {
        struct mob_object_id id = {.task = sample_task(w)};
        id.slot = (uint32_t)sample_number(r);
        mob_tail_add_typed_ref(b, (enum mob_value_type)sample_below(r, MOB_TYPE_COUNT), id);
        return;
    }
    enum mob_value_type type = (enum mob_value_type)(1 + sample_below(r, MOB_TYPE_COUNT - 1));
    uint32_t bytes = type == MOB_TYPE_NULL ? 0 : fixed[type] ? fixed[type] : sample_below(r, sizeof payload);
    uint64_t small = sample_number(r);
    sample_bytes(r, payload, sizeof payload);
    memcpy(payload, &small, sizeof small);
    mob_tail_add_value(b, type, payload, bytes);
}

static uint32_t random_tail(struct sample_world *w, uint8_t *out)
{
    struct sample_rng *r = &w->rng;
    struct mob_tail_builder b;
    uint64_t value = sample_number(r);
    mob_tail_begin(&b, out, SAMPLE_TAIL_MAX);
    if (!sample_one_in(r, 3)) {
        mob_tail_add_value(&b, MOB_TYPE_I64, &value, 8);
    } else {
        uint32_t args = sample_below(r, sample_one_in(r, 8) ? 60 : 4), exts = sample_below(r, 3);
        for (uint32_t i = 0; i < args; i++)
            add_random_arg(w, &b);
        uint8_t text[40];
        memset(text, 'x', sizeof text);
        for (uint32_t i = 0; i < exts; i++) { /* 1000 and up: tags that nobody knows */
            uint16_t tag = (uint16_t)(1000 + sample_below(r, 2));
            mob_tail_add_ext(&b, tag, text, sample_below(r, sizeof text));
        }
    }
    uint32_t bytes = mob_tail_end(&b);
    if (sample_one_in(r, 40)) /* flags that nobody knows */
        out[2] = 1;
    return bytes;
}

void sample_spec(struct sample_world *w, struct sample_entry *out)
{
    struct sample_rng *r = &w->rng;
    if (sample_one_in(r, 4))
        change_spec_head(w);
    w->spec.task.index++;
    if (sample_one_in(r, 10))
        w->spec.task = sample_task(w);
    w->spec.caller_seq += w->spec.kind == MOB_KIND_ACTOR_CALL;
    out->entry.type = MOB_ENTRY_SPEC;
    out->entry.submitted_ns = sample_one_in(r, 30) ? 0 : tick(w);
    out->entry.spec.head = w->spec;
    out->entry.spec.tail = out->tail;
    out->entry.spec.tail_bytes = random_tail(w, out->tail);
    memcpy(&out->entry.spec.arg_count, out->tail, 2);
}

/* ---- completions ---- */

static void change_completion_head(struct sample_world *w)
{
    struct sample_rng *r = &w->rng;
    struct mob_completion_head *h = &w->completion;
    switch (sample_below(r, 8)) {
    case 0:
        h->flags = (uint8_t)sample_below(r, 4);
        break;
    case 1:
        h->status = (uint16_t)sample_below(r, MOB_STATUS_COUNT);
        break;
    case 2:
        h->attempt = (uint32_t)sample_number(r);
        break;
    case 3:
        h->generation = (uint32_t)sample_number(r);
        break;
    case 4:
        h->peak_kb = (uint32_t)sample_number(r);
        break;
    case 5:
        h->actor.creation = sample_task(w);
        break;
    case 6:
        h->position = sample_number(r);
        break;
    default:
        h->incarnation = (uint32_t)sample_number(r);
        break;
    }
}

static void random_times(struct sample_world *w, struct mob_completion_head *h)
{
    struct sample_rng *r = &w->rng;
    int64_t *times[] = {&h->submitted_ns, &h->ready_ns, &h->dispatched_ns, &h->started_ns, &h->finished_ns};
    h->submitted_ns = w->now - sample_below(r, 100000);
    if (!sample_one_in(r, 3))
        h->ready_ns = h->dispatched_ns = tick(w);
    if (sample_one_in(r, 2)) { /* as the node keeps them */
        h->ready_ns = h->submitted_ns + 1000 * (int64_t)sample_below(r, sample_one_in(r, 5) ? 100000 : 5);
        h->dispatched_ns = h->ready_ns + 1000 * (int64_t)sample_below(r, sample_one_in(r, 5) ? 100000 : 5);
    }
    h->started_ns = h->finished_ns + (sample_one_in(r, 2) ? 0 : sample_below(r, 100));
    h->finished_ns = h->started_ns + sample_below(r, sample_one_in(r, 10) ? 1000000000 : 500);
    for (int i = 0; i < 5; i++) {
        if (sample_one_in(r, 40))
            *times[i] = 0;
        if (sample_one_in(r, 100))
            *times[i] = (int64_t)sample_u64(r);
    }
    uint64_t run = (uint64_t)h->finished_ns - (uint64_t)h->started_ns;
    h->cpu_ns = sample_one_in(r, 3) ? 0 : sample_one_in(r, 2) ? (int64_t)run : (int64_t)sample_number(r);
}

static void random_return(struct sample_world *w, struct sample_entry *out, uint32_t slot, uint32_t *used)
{
    struct sample_rng *r = &w->rng;
    struct mob_return_view view = {.slot = sample_one_in(r, 20) ? (uint32_t)sample_u64(r) : slot};
    uint8_t payload[600];
    sample_bytes(r, payload, sizeof payload);
    view.payload = payload;
    if (sample_one_in(r, 3)) {
        view.type = MOB_TYPE_TENSOR;
        view.flags = MOB_RETURN_STORED | (sample_one_in(r, 2) ? MOB_RETURN_HASH_LATER : 0);
        view.size = sample_u64(r);
        view.hash = sample_hash(r);
    } else {
        view.type = sample_one_in(r, 2) ? MOB_TYPE_I64 : sample_one_in(r, 2) ? MOB_TYPE_UTF8 : MOB_TYPE_NULL;
        view.size = view.type == MOB_TYPE_I64 ? 8 : view.type == MOB_TYPE_UTF8 ? sample_below(r, 600) : 0;
    }
    *used = mob_return_encode(out->body, *used, SAMPLE_BODY_MAX, &view);
}

void sample_completion(struct sample_world *w, struct sample_entry *out)
{
    struct sample_rng *r = &w->rng;
    struct mob_completion_head *h = &w->completion;
    if (sample_one_in(r, 5))
        change_completion_head(w);
    h->task.index++;
    if (sample_one_in(r, 10))
        h->task = sample_task(w);
    h->worker = 4000 + sample_below(r, w->workers);
    random_times(w, h);
    uint32_t used = 0;
    h->return_count = 1;
    if (!sample_one_in(r, 3)) {
        uint64_t value = sample_number(r);
        struct mob_return_view one = {.type = MOB_TYPE_I64, .size = 8, .payload = (const uint8_t *)&value};
        used = mob_return_encode(out->body, 0, SAMPLE_BODY_MAX, &one);
    } else {
        h->return_count = (uint16_t)sample_below(r, 5);
        for (uint32_t i = 0; i < h->return_count; i++)
            random_return(w, out, i, &used);
    }
    h->body_bytes = used;
    out->entry.type = MOB_ENTRY_COMPLETION;
    out->entry.completion.head = *h;
    out->entry.completion.body = out->body;
}

/* ---- the others ---- */

static void sample_put(struct sample_world *w, struct sample_entry *out)
{
    struct sample_rng *r = &w->rng;
    struct mob_out_put *p = &out->entry.put;
    *p = (struct mob_out_put){.type = MOB_TYPE_BYTES};
    p->id.task = sample_task(w);
    p->id.slot = MOB_SLOT_PUT | sample_below(r, 1000);
    p->flags = (uint8_t)sample_below(r, 2);
    out->entry.payload = NULL;
    if (sample_one_in(r, 2)) {
        p->size = sample_u64(r);
        p->hash = sample_hash(r);
        return;
    }
    p->size = p->inline_bytes = sample_below(r, 3000);
    sample_bytes(r, out->payload, p->size);
    out->entry.payload = out->payload;
    if (!sample_one_in(r, 3))
        p->hash = mob_hash128(out->payload, p->size);
    out->entry.payload_bytes = p->inline_bytes;
}

static void sample_yield(struct sample_world *w, struct sample_entry *out)
{
    struct mob_entry *e = &out->entry;
    struct mob_completion one = {.body = out->body};
    uint32_t used = 0, at = 0;
    e->yield.task = sample_task(w);
    e->yield.attempt = (uint32_t)sample_number(&w->rng);
    e->yield.item = sample_below(&w->rng, 100);
    random_return(w, out, e->yield.item, &used);
    one.head.body_bytes = used;
    (void)mob_completion_next(&one, &at, &e->ret);
    memcpy(out->payload, out->body, used);
    e->payload_bytes = used;
}

static void sample_edge(struct sample_world *w, struct mob_entry_edge *edge)
{
    struct sample_rng *r = &w->rng;
    if (sample_one_in(r, 4)) {
        w->edge = (struct mob_entry_edge){.incarnation = 2};
        w->edge.actor.creation = sample_task(w);
        w->edge.position = sample_number(r);
    }
    w->edge.position++;
    *edge = w->edge;
    edge->task = sample_task(w);
}

static void sample_with_payload(struct sample_world *w, struct sample_entry *out)
{
    struct sample_rng *r = &w->rng;
    struct mob_entry *e = &out->entry;
    e->payload = out->payload;
    e->payload_bytes = sample_below(r, 300);
    sample_bytes(r, out->payload, e->payload_bytes);
    if (e->type == MOB_ENTRY_OUTCOME) {
        e->outcome.task = sample_task(w);
        e->outcome.generation = 1;
        e->outcome.sequence = sample_below(r, 99);
        e->outcome.kind = (uint16_t)(1 + sample_below(r, 5));
        e->outcome.payload_bytes = e->payload_bytes;
    } else if (e->type == MOB_ENTRY_EVENT) {
        e->event.task = sample_task(w);
        e->event.at_ns = tick(w);
        e->event.span_ns = (int64_t)sample_number(r);
        e->event.type_bytes = e->payload_bytes / 3;
        e->event.attempt = sample_one_in(r, 3) ? sample_below(r, UINT32_MAX) : sample_below(r, 3);
        if (sample_one_in(r, 3)) {
            e->event.incarnation = 1 + sample_below(r, 4);
            e->event.position = sample_number(r);
        }
        e->event.json_bytes = e->payload_bytes - e->event.type_bytes;
    }
}

void sample_any(struct sample_world *w, struct sample_entry *out)
{
    struct sample_rng *r = &w->rng;
    struct mob_entry *e = &out->entry;
    memset(e, 0, sizeof *e);
    e->type = sample_one_in(r, 4) ? (enum mob_entry_type)(3 + sample_below(r, 10))
                                  : (enum mob_entry_type)(1 + sample_below(r, 2));
    switch (e->type) {
    case MOB_ENTRY_SPEC:
        sample_spec(w, out);
        break;
    case MOB_ENTRY_COMPLETION:
        sample_completion(w, out);
        break;
    case MOB_ENTRY_PUT:
        sample_put(w, out);
        break;
    case MOB_ENTRY_YIELD:
        sample_yield(w, out);
        break;
    case MOB_ENTRY_OUTCOME:
    case MOB_ENTRY_EVENT:
    case MOB_ENTRY_JOB:
        sample_with_payload(w, out);
        break;
    case MOB_ENTRY_SKIP:
    case MOB_ENTRY_EDGE:
        sample_edge(w, &e->edge);
        e->edge.reason = e->type == MOB_ENTRY_SKIP ? sample_below(r, MOB_STATUS_COUNT) : 0;
        break;
    case MOB_ENTRY_ACTOR:
        e->actor.actor.creation = sample_task(w);
        e->actor.event = 1 + sample_below(r, 4);
        e->actor.position = sample_number(r);
        e->actor.incarnation = sample_below(r, 9);
        break;
    case MOB_ENTRY_HASH:
        e->hash.id.task = sample_task(w);
        e->hash.id.slot = sample_below(r, 9);
        e->hash.hash = sample_hash(r);
        break;
    case MOB_ENTRY_CANCEL:
        e->cancel.task = sample_task(w);
        e->cancel.force = sample_below(r, 2);
        e->cancel.recursive = sample_below(r, 2);
        break;
    }
}

enum mob_status sample_add(struct mob_block_encoder *e, const struct sample_entry *s)
{
    const struct mob_entry *v = &s->entry;
    const uint8_t *payload = s->payload;
    switch (v->type) {
    case MOB_ENTRY_SPEC:
        return mob_block_add_spec(e, &v->spec.head, s->tail, v->spec.tail_bytes, v->submitted_ns);
    case MOB_ENTRY_COMPLETION:
        return mob_block_add_completion(e, &v->completion.head, s->body);
    case MOB_ENTRY_PUT:
        return mob_block_add_put(e, &v->put, v->payload);
    case MOB_ENTRY_YIELD:
        return mob_block_add_other(e, v->type, &v->yield, sizeof v->yield, payload, v->payload_bytes);
    case MOB_ENTRY_OUTCOME:
        return mob_block_add_other(e, v->type, &v->outcome, sizeof v->outcome, payload, v->payload_bytes);
    case MOB_ENTRY_EVENT:
        return mob_block_add_other(e, v->type, &v->event, sizeof v->event, payload, v->payload_bytes);
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
        return mob_block_add_other(e, v->type, &v->edge, sizeof v->edge, NULL, 0);
    case MOB_ENTRY_ACTOR:
        return mob_block_add_other(e, v->type, &v->actor, sizeof v->actor, NULL, 0);
    case MOB_ENTRY_HASH:
        return mob_block_add_other(e, v->type, &v->hash, sizeof v->hash, NULL, 0);
    case MOB_ENTRY_CANCEL:
        return mob_block_add_other(e, v->type, &v->cancel, sizeof v->cancel, NULL, 0);
    case MOB_ENTRY_JOB:
        return mob_block_add_other(e, v->type, NULL, 0, payload, v->payload_bytes);
    }
    return MOB_INVALID;
}

/* ---- comparing ---- */

#define SAME(field) (memcmp(&want->field, &got->field, sizeof want->field) == 0)

static const char *return_difference(const struct mob_return_view *want, const struct mob_return_view *got)
{
    bool is_inline = (want->flags & MOB_RETURN_STORED) == 0;
    if (want->slot != got->slot || want->type != got->type || want->flags != got->flags ||
        want->size != got->size)
        return "ret";
    if (!mob_hash128_eq(want->hash, got->hash))
        return "ret.hash";
    return is_inline && want->size > 0 && memcmp(want->payload, got->payload, want->size) != 0 ? "ret.payload"
                                                                                               : NULL;
}

static const char *payload_difference(const struct mob_entry *want, const struct mob_entry *got)
{
    if (want->payload_bytes != got->payload_bytes || (want->payload != NULL) != (got->payload != NULL))
        return "payload_bytes";
    return want->payload_bytes > 0 && memcmp(want->payload, got->payload, want->payload_bytes) != 0
        ? "payload"
        : NULL;
}

const char *sample_difference(const struct mob_entry *want, const struct mob_entry *got)
{
    if (want->type != got->type)
        return "type";
    switch (want->type) {
    case MOB_ENTRY_SPEC:
        if (!SAME(spec.head) || want->submitted_ns != got->submitted_ns)
            return SAME(spec.head) ? "submitted_ns" : "spec.head";
        if (want->spec.tail_bytes != got->spec.tail_bytes || want->spec.arg_count != got->spec.arg_count)
            return "spec.tail_bytes";
        return memcmp(want->spec.tail, got->spec.tail, want->spec.tail_bytes) != 0 ? "spec.tail" : NULL;
    case MOB_ENTRY_COMPLETION:
        if (!SAME(completion.head))
            return "completion.head";
        return memcmp(want->completion.body, got->completion.body, want->completion.head.body_bytes) != 0
            ? "body"
            : NULL;
    case MOB_ENTRY_PUT:
        return SAME(put) ? payload_difference(want, got) : "put";
    case MOB_ENTRY_YIELD:
        return SAME(yield) ? return_difference(&want->ret, &got->ret) : "yield";
    case MOB_ENTRY_OUTCOME:
        return SAME(outcome) ? payload_difference(want, got) : "outcome";
    case MOB_ENTRY_EVENT:
        return SAME(event) ? payload_difference(want, got) : "event";
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
        return SAME(edge) ? NULL : "edge";
    case MOB_ENTRY_ACTOR:
        return SAME(actor) ? NULL : "actor";
    case MOB_ENTRY_HASH:
        return SAME(hash) ? NULL : "hash";
    case MOB_ENTRY_CANCEL:
        return SAME(cancel) ? NULL : "cancel";
    case MOB_ENTRY_JOB:
        return payload_difference(want, got);
    }
    return "type";
}

struct mob_task_id sample_group(const struct mob_entry *e)
{
    switch (e->type) {
    case MOB_ENTRY_SPEC:
        return e->spec.head.task;
    case MOB_ENTRY_COMPLETION:
        return e->completion.head.task;
    case MOB_ENTRY_PUT:
        return mob_put_group(e->put.id);
    case MOB_ENTRY_YIELD:
        return e->yield.task;
    case MOB_ENTRY_OUTCOME:
        return e->outcome.task;
    case MOB_ENTRY_EVENT:
        return e->event.task;
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
        return mob_edge_group(e->edge.actor);
    case MOB_ENTRY_ACTOR:
        return e->actor.actor.creation;
    case MOB_ENTRY_HASH:
        return mob_put_group(e->hash.id);
    case MOB_ENTRY_CANCEL:
        return e->cancel.task;
    case MOB_ENTRY_JOB:
        break;
    }
    return (struct mob_task_id){0};
}
