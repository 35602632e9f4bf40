/* Tasks that follow their producers into a worker's batch before their inputs are there.
 *
 * A worker runs its batch in order, so a task whose only missing inputs come from tasks before it in the same
 * batch finds them when its turn comes. A chain of a million tasks needs one round trip per batch then, not
 * one per task. A follower keeps its place in the lists of what it waits for: if the batch is revoked it
 * waits as before. A worker that takes a follower whose input did not come (its producer is retried, or
 * returned another task's future) blocks, as in get; functions that return futures are remembered, and
 * nothing follows them again. Only what waits for a first return (slot 0) is found when a batch is filled.
 */
#include "runtime/sched/local_inner.h"

static bool made_in_batch(const struct mob_sched *s, uint32_t object, uint16_t worker)
{
    const struct sched_object *o = pool_at(&s->objects, object);
    if (o->id.slot & MOB_SLOT_PUT)
        return false;
    const struct mob_sched_task *producer = mob_sched_find(s, o->id.task);
    return producer && producer->state == MOB_SCHED_DISPATCHED && producer->worker == worker &&
        !s->functions[producer->function].defers;
}

bool sched_inputs_in_batch(const struct mob_sched *s, const struct mob_sched_task *t, uint16_t worker)
{
    if (t->waits > SCHED_FOLLOW_INPUTS)
        return false;
    if (!(t->marks & MARK_EDGES))
        return made_in_batch(s, t->place, worker);
    for (uint32_t number = t->place; number;) {
        const struct sched_edge *e = pool_at(&s->edges, number);
        if (e->object && !made_in_batch(s, e->object, worker))
            return false;
        number = e->sibling;
    }
    return true;
}

/* Room for t behind what this worker has; long or unmeasured tasks never follow. */
static bool may_follow(
    const struct mob_sched *s, const struct mob_sched_task *t, const struct sched_worker *w)
{
    if (t->state != MOB_SCHED_WAITING || t->marks & MARK_CALL || w->state != WORKER_BUSY || w->solo ||
        w->below_count || w->no_room)
        return false;
    const struct sched_lane *l = &s->lanes[t->lane];
    if (w->follow_run >= SCHED_FOLLOW_RUN && s->active != SCHED_NIL16)
        return false; /* a chain without an end would keep this worker from everybody who is queued */
    return l->class_id == w->class_id && !l->create && worker_load(w) < MOB_SCHED_BATCH_MAX &&
        w->estimate_sum + sched_estimate(s, t->function) <= s->options.batch_ns_max && !worker_lags(s, w);
}

static void follow(struct mob_sched *s, struct mob_sched_task *t, uint16_t worker)
{
    s->followed++;
    worker_at(s, worker)->follow_run++;
    s->jobs[s->lanes[t->lane].job].pass += s->jobs[s->lanes[t->lane].job].stride;
    sched_worker_append(s, worker, t);
    sched_hungry_update(s, worker);
}

/* The batch was full when a dependent of one of its last tasks came: look at that task again when there is
 * room. */
static void look_again(struct mob_sched *s, uint16_t worker, const struct mob_sched_task *producer)
{
    struct sched_worker *w = worker_at(s, worker);
    for (uint32_t at = w->tail, steps = 0; at != w->head && steps < 8; steps++)
        if (worker_place(w, --at)->task == producer->handle) {
            if ((int32_t)(w->follow - at) > 0)
                w->follow = at;
            return;
        }
}

void sched_follow_at_submit(struct mob_sched *s, struct mob_sched_task *t)
{
    if (t->marks & MARK_CALL)
        return;
    uint32_t object = t->place;
    if (t->marks & MARK_EDGES)
        object = ((struct sched_edge *)pool_at(&s->edges, t->place))->object;
    const struct sched_object *o = pool_at(&s->objects, object);
    if (o->id.slot & MOB_SLOT_PUT)
        return;
    struct mob_sched_task *producer = mob_sched_find(s, o->id.task);
    if (!producer || producer->state != MOB_SCHED_DISPATCHED)
        return;
    uint16_t worker = producer->worker;
    if (!may_follow(s, t, worker_at(s, worker)))
        look_again(s, worker, producer);
    else if (sched_inputs_in_batch(s, t, worker))
        follow(s, t, worker);
}

void sched_follow_mark(struct mob_sched *s, uint16_t worker)
{
    struct sched_worker *w = worker_at(s, worker);
    if (w->following)
        return;
    w->following = true;
    w->follow_next = s->following;
    s->following = worker;
}

/* Dependents of one task of the batch. False: no room for more. */
static bool follow_task(struct mob_sched *s, uint16_t worker, const struct mob_sched_task *producer)
{
    uint32_t object = sched_wait_find(s, mob_object_of(producer->id, 0));
    if (!object)
        return true;
    uint32_t ref = ((struct sched_object *)pool_at(&s->objects, object))->head;
    for (uint32_t seen = 0; ref && seen < SCHED_FOLLOW_SCAN; seen++) {
        struct mob_sched_task *t = task_at(s, sched_edge_task(s, ref));
        struct sched_worker *w = worker_at(s, worker);
        if (worker_load(w) == MOB_SCHED_BATCH_MAX)
            return false;
        if (may_follow(s, t, w) && sched_inputs_in_batch(s, t, worker))
            follow(s, t, worker);
        ref = sched_edge_next(s, ref);
    }
    return true;
}

void sched_follow_scan(struct mob_sched *s, uint16_t worker)
{
    struct sched_worker *w = worker_at(s, worker);
    if (!s->waits.used) {
        w->follow = w->tail;
        return;
    }
    while (w->state == WORKER_BUSY && w->follow != w->tail) {
        const struct mob_sched_task *t = task_at(s, worker_place(w, w->follow)->task);
        if (t->marks & MARK_AWAITED && !follow_task(s, worker, t))
            return;
        w->follow++;
    }
}
