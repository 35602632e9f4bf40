/* Answers: why a task waits, statistics. */
#include "runtime/sched/local_inner.h"

/* Counting what is ahead stops here: the answer is "at least". */
#define WHY_STEPS 100000u

static uint32_t ahead_in_list(const struct mob_sched *s, const struct mob_sched_task *t)
{
    uint32_t count = 0;
    for (uint32_t at = t->prev; at && count < WHY_STEPS; at = task_at(s, at)->prev)
        count++;
    return count;
}

static uint32_t ahead_in_lane(const struct mob_sched *s, const struct mob_sched_task *t)
{
    uint32_t count = ahead_in_list(s, t), steps = 0;
    for (uint32_t f = s->lanes[t->lane].top; f && f != t->place && steps < WHY_STEPS; steps++) {
        const struct sched_family *family = pool_at(&s->families, f);
        count += family->count;
        f = family->below;
    }
    return count;
}

static void why_inputs(const struct mob_sched *s, const struct mob_sched_task *t, struct mob_why *why)
{
    why->reason = MOB_WHY_INPUTS;
    why->input_count = t->waits;
    if (!(t->marks & MARK_EDGES)) {
        why->inputs[0] = ((const struct sched_object *)pool_at(&s->objects, t->place))->id;
        return;
    }
    uint32_t shown = 0;
    for (uint32_t number = t->place; number && shown < MOB_SCHED_WHY_INPUTS;) {
        const struct sched_edge *e = pool_at(&s->edges, number);
        if (e->object)
            why->inputs[shown++] = ((const struct sched_object *)pool_at(&s->objects, e->object))->id;
        number = e->sibling;
    }
}

static void why_queued(const struct mob_sched *s, const struct mob_sched_task *t, struct mob_why *why)
{
    uint16_t class_id = s->lanes[t->lane].class_id;
    const struct sched_class *c = &s->classes[class_id];
    uint16_t kind = MOB_SCHED_CPU;
    bool unsatisfiable = mob_sched_class_check(s, class_id, &kind) != MOB_OK, lacks = unsatisfiable;
    for (uint32_t i = 0; i < c->count && !lacks; i++) {
        const struct sched_kind *k = &s->kinds[c->demands[i].kind];
        lacks = k->total - k->taken < c->demands[i].amount;
        kind = c->demands[i].kind;
    }
    why->ahead = ahead_in_lane(s, t);
    why->resource = kind;
    why->total = s->kinds[kind].total;
    why->free = why->total - s->kinds[kind].taken;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->demands[i].kind == kind)
            why->needed = c->demands[i].amount;
    if (unsatisfiable)
        why->reason = MOB_WHY_UNSATISFIABLE;
    else if (why->ahead)
        why->reason = MOB_WHY_QUEUED;
    else
        why->reason = lacks ? MOB_WHY_RESOURCES : MOB_WHY_WORKERS;
}

static void why_call(const struct mob_sched *s, const struct mob_sched_task *t, struct mob_why *why)
{
    const struct sched_actor *a = &s->actors[t->lane];
    why->ahead = ahead_in_list(s, t);
    if (a->worker == SCHED_NIL16) {
        why->reason = MOB_WHY_ACTOR_PENDING;
        return;
    }
    why->worker = a->worker;
    why->ahead += worker_load(worker_at(s, a->worker));
    why->reason = MOB_WHY_ACTOR_ORDER;
}

static void why_dispatched(const struct mob_sched *s, const struct mob_sched_task *t, struct mob_why *why)
{
    const struct sched_worker *w = worker_at(s, t->worker);
    why->worker = t->worker;
    why->since = w->since;
    for (uint32_t i = 0; t->state == MOB_SCHED_BLOCKED && i < w->below_count; i++)
        if (w->below[i].task == t->handle) {
            why->since = w->below[i].since;
            return;
        }
    for (uint32_t at = w->head; worker_place(w, at)->task != t->handle; at++)
        why->ahead++;
    why->reason = why->ahead ? MOB_WHY_BATCH : MOB_WHY_RUNNING;
}

void mob_sched_why(const struct mob_sched *s, const struct mob_sched_task *t, struct mob_why *why)
{
    *why = (struct mob_why){.state = (enum mob_sched_state)t->state, .stopping = t->marks & MARK_STOPPING};
    switch ((enum mob_sched_state)t->state) {
    case MOB_SCHED_WAITING:
        why_inputs(s, t, why);
        return;
    case MOB_SCHED_DELAYED:
        why->reason = MOB_WHY_DELAYED;
        why->until = t->extra ? ((const struct sched_extra *)pool_at(&s->extras, t->extra))->wake : 0;
        return;
    case MOB_SCHED_READY:
        if (t->marks & MARK_CALL)
            why_call(s, t, why);
        else
            why_queued(s, t, why);
        return;
    case MOB_SCHED_DISPATCHED:
        why_dispatched(s, t, why);
        return;
    case MOB_SCHED_BLOCKED:
        why_dispatched(s, t, why);
        why->reason = MOB_WHY_BLOCKED;
        return;
    case MOB_SCHED_DONE:
        why->reason = MOB_WHY_DONE;
        return;
    case MOB_SCHED_NEW:
    case MOB_SCHED_STATE_COUNT:
        return;
    }
}

const char *mob_why_text(enum mob_why_reason reason)
{
    static const char *const words[] = {[MOB_WHY_UNKNOWN] = "unknown",
        [MOB_WHY_INPUTS] = "inputs",
        [MOB_WHY_DELAYED] = "delayed",
        [MOB_WHY_RESOURCES] = "resources",
        [MOB_WHY_UNSATISFIABLE] = "unsatisfiable",
        [MOB_WHY_QUEUED] = "queued",
        [MOB_WHY_WORKERS] = "workers",
        [MOB_WHY_ACTOR_ORDER] = "actor-order",
        [MOB_WHY_ACTOR_PENDING] = "actor-pending",
        [MOB_WHY_BATCH] = "batch",
        [MOB_WHY_RUNNING] = "running",
        [MOB_WHY_BLOCKED] = "blocked",
        [MOB_WHY_DONE] = "done"};
    return (size_t)reason < sizeof words / sizeof *words ? words[reason] : words[0];
}

static uint64_t pool_bytes(const struct sched_pool *p)
{
    return (uint64_t)p->capacity * p->size;
}

static uint64_t map_bytes(const struct sched_map *m)
{
    return (uint64_t)m->capacity * (sizeof *m->slots + sizeof *m->distance);
}

void mob_sched_stats(const struct mob_sched *s, struct mob_sched_stats *out)
{
    *out = (struct mob_sched_stats){.tasks = s->ids.used,
        .workers = s->worker_count,
        .blocked = s->blocked_count,
        .actors = s->actor_worker_count,
        .wait_objects = s->objects.live,
        .edges = s->edges.live,
        .families = s->families.live,
        .timers = s->heap_count,
        .dispatched = s->dispatched,
        .finished = s->finished,
        .retried = s->retried,
        .revoked = s->revoked,
        .followed = s->followed,
        .spawned = s->spawned,
        .nested = s->nested};
    memcpy(out->by_state, s->by_state, sizeof out->by_state);
    for (uint32_t i = 0; i < MOB_SCHED_RUNTIMES_MAX; i++) {
        out->idle += s->runtimes[i].idle;
        out->starting += s->runtimes[i].starting;
    }
    uint32_t other = out->idle + out->blocked + out->actors + s->leaving_count;
    out->busy = out->workers > other ? out->workers - other : 0;
    for (uint32_t i = 0; i < s->job_count; i++)
        out->jobs += s->jobs[i].used;
    for (uint32_t i = 0; i < s->lane_count; i++)
        out->lanes += s->lanes[i].used;
    out->bytes = (uint64_t)s->chunk_count * SCHED_CHUNK * s->stride + map_bytes(&s->ids) +
        map_bytes(&s->waits) + pool_bytes(&s->objects) + pool_bytes(&s->edges) + pool_bytes(&s->families) +
        pool_bytes(&s->extras);
}

uint32_t mob_sched_batch(
    const struct mob_sched *s, uint16_t worker, struct mob_sched_task **tasks_out, uint32_t max)
{
    const struct sched_worker *w = worker_at(s, worker);
    if (w->state == WORKER_NONE)
        return 0;
    for (uint32_t i = 0; i < worker_load(w) && i < max; i++)
        tasks_out[i] = task_at(s, worker_place(w, w->head + i)->task);
    return worker_load(w);
}

void mob_sched_batch_fetch(const struct mob_sched *s, uint16_t worker, uint32_t count)
{
    const struct sched_worker *w = worker_at(s, worker);
    if (w->state == WORKER_NONE)
        return;
    for (uint32_t i = 0; i < worker_load(w) && i < count; i++)
        sched_fetch(s, worker_place(w, w->head + i)->task);
}
