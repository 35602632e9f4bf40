/* Tasks on top of each other: a task that cannot go on before another one has ended lets its worker run that
 * one, on the same stack. So a nested program needs neither a switch to another process nor one more blocked
 * worker for each level.
 *
 * Only the upper one is in the worker's batch; those below are BLOCKED and wait in `below`, without counting
 * as blocked workers, for their worker computes. When the batch is empty the uppermost of them is the one
 * that runs. While there are any, nothing else joins the batch.
 */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

/* A death costs both: neither may be one that must not run twice. After a first failure it runs alone. */
static bool may_share_a_fate(const struct mob_sched_task *t)
{
    return !(t->marks & (MARK_CALL | MARK_STOPPING)) && t->retries_left != 0;
}

static bool fits_on_top(
    const struct mob_sched *s, const struct mob_sched_task *below, const struct mob_sched_task *t)
{
    const struct sched_worker *w = worker_at(s, below->worker);
    /* Behind it in the same batch: queued as soon as that goes back. */
    bool behind = t->state == MOB_SCHED_DISPATCHED && t->worker == below->worker && t != below &&
        !(t->waits && !(t->marks & MARK_KIDS));
    if (!(t->state == MOB_SCHED_READY || behind) || t->failures || !may_share_a_fate(t) ||
        !may_share_a_fate(below))
        return false;
    const struct sched_lane *upper = &s->lanes[t->lane], *lower = &s->lanes[below->lane];
    const struct sched_class *c = &s->classes[upper->class_id];
    /* The lower one gives back its CPU and nothing else: of CPU alone the upper one finds as much as it
     * needs. */
    return upper->class_id == lower->class_id && upper->job == lower->job && !upper->create &&
        !lower->create && !(c->mask & ~(1ull << MOB_SCHED_CPU)) && upper->tree &&
        upper->tree == (lower->tree ? lower->tree : w->tree);
}

enum mob_status mob_sched_nest(struct mob_sched *s, struct mob_sched_task *task,
    struct mob_sched_task *awaited, uint32_t *revoked_out, int64_t now)
{
    if (task->state == MOB_SCHED_BLOCKED)
        mob_sched_unblocked(s, task, now); /* as mob_sched_blocked */
    if (task->state != MOB_SCHED_DISPATCHED || !worker_runs(worker_at(s, task->worker), task))
        return MOB_CONFLICT;
    uint16_t worker = task->worker;
    struct sched_worker *w = worker_at(s, worker);
    if (w->state != WORKER_BUSY || w->solo || w->below_count >= s->options.nest_max ||
        !fits_on_top(s, task, awaited))
        return MOB_CONFLICT;
    if (!w->below && !(w->below = calloc(s->options.nest_max, sizeof *w->below)))
        return MOB_CONFLICT;
    s->now = now;
    s->late_family = 0;
    *revoked_out = sched_worker_revoke(s, worker, 1);
    sched_families_to_top(s, w);
    sched_families_detach(s, w);
    sched_hungry_remove(s, worker);
    w->below[w->below_count++] = (struct sched_below){task->handle, w->since};
    w->estimate_sum = 0;
    w->head = w->told = w->follow = w->tail;
    sched_set_state(s, task, MOB_SCHED_BLOCKED);
    sched_queue_remove(s, awaited);
    sched_worker_append(s, worker, awaited);
    s->nested++;
    s->dirty = true;
    return MOB_OK;
}

void sched_nest_resume(struct mob_sched *s, uint16_t worker)
{
    struct sched_worker *w = worker_at(s, worker);
    struct sched_below below = w->below[--w->below_count];
    struct mob_sched_task *t = task_at(s, below.task);
    MOB_ASSERT(t->state == MOB_SCHED_BLOCKED && t->worker == worker);
    sched_families_detach(s, w);
    sched_set_state(s, t, MOB_SCHED_DISPATCHED);
    sched_worker_prepend(s, worker, t);
    w->since = below.since; /* mostly long ago, so that nothing is queued behind it before it has ended */
    if (worker_load(w) > 1 && task_at(s, worker_place(w, w->head + 1)->task)->marks & MARK_STOPPING)
        sched_hurry(s, worker); /* it was asked to stop as the one that runs, and stands behind now */
}

uint32_t mob_sched_below(
    const struct mob_sched *s, uint16_t worker, struct mob_sched_task **tasks_out, uint32_t max)
{
    const struct sched_worker *w = worker_at(s, worker);
    if (w->state == WORKER_NONE)
        return 0;
    for (uint32_t i = 0; i < w->below_count && i < max; i++)
        tasks_out[i] = task_at(s, w->below[i].task);
    return w->below_count;
}

bool mob_sched_buried(const struct mob_sched *s, const struct mob_sched_task *t)
{
    if (t->state != MOB_SCHED_BLOCKED)
        return false;
    const struct sched_worker *w = worker_at(s, t->worker);
    if (!worker_has_below(w, t))
        return false;
    /* The one on top is known to have started? */
    return w->below[w->below_count - 1].task != t->handle || w->state != WORKER_BUSY ||
        task_at(s, worker_place(w, w->head)->task)->marks & MARK_KIDS;
}
