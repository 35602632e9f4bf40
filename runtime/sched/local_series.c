/* Runs: siblings that are submitted one after the other, tasks that go from a queue to a worker one after the
 * other, and tasks of one batch that end one after the other.
 * What each of them does to the lists and counts of the scheduler is the same as for one; what is asked once
 * for all of them is asked here once. Whatever is not as it mostly is ends a run, and is done one by one.
 */
#include "runtime/sched/local_inner.h"

/* ---- submission ---- */

/* It is queued because nothing held it up, as the newest of its list, and another sibling would be, too. */
static bool may_be_repeated(const struct mob_sched *s, const struct mob_sched_task *t)
{
    const struct sched_lane *l = &s->lanes[t->lane];
    if (t->state != MOB_SCHED_READY || t->marks & MARK_CALL || t->extra || t->next ||
        t->flags & MOB_SCHED_ACTOR_CREATE || s->options.may_forward)
        return false;
    if (!(t->marks & MARK_NESTED))
        return t->place == 0 && l->tail == t->handle;
    /* a family of a running parent: what is released otherwise makes a family of its own each time */
    const struct sched_family *f = t->place ? pool_at(&s->families, t->place) : NULL;
    return f && f->tail == t->handle && f->worker != SCHED_NIL16;
}

static void copy_of(struct mob_sched_task *t, const struct mob_sched_task *first)
{
    t->flags = first->flags;
    t->marks = first->marks;
    t->retries_left = first->retries_left;
    t->function = first->function;
    t->lane = first->lane;
    t->place = first->place;
    t->worker = SCHED_NIL16;
    t->state = MOB_SCHED_READY;
}

uint32_t mob_sched_submit_more(struct mob_sched *s, const struct mob_sched_task *first,
    struct mob_sched_task *const *tasks, uint32_t count, struct mob_sched_task *parent)
{
    if (count == 0 || !may_be_repeated(s, first) || (parent && !(parent->marks & MARK_KIDS)))
        return 0;
    struct sched_lane *l = &s->lanes[first->lane];
    struct sched_family *f = first->place ? pool_at(&s->families, first->place) : NULL;
    uint32_t *tail = f ? &f->tail : &l->tail;
    uint32_t done = sched_ids_add_run(s, tasks, count);
    for (uint32_t i = 0; i < done; i++) {
        struct mob_sched_task *t = tasks[i];
        MOB_ASSERT(t->state == MOB_SCHED_NEW);
        copy_of(t, first);
        t->prev = *tail;
        task_at(s, *tail)->next = t->handle;
        *tail = t->handle;
        if (parent && t->id.index >= parent->waits)
            parent->waits = t->id.index + 1;
    }
    if (f)
        f->count += done;
    l->count += done;
    l->refs += done;
    s->by_state[MOB_SCHED_NEW] -= done;
    s->by_state[MOB_SCHED_READY] += done;
    return done;
}

/* ---- from a queue to a worker ---- */

/* How many tasks the list has whose front is that of its lane. */
static uint32_t in_front(const struct mob_sched *s, const struct sched_lane *l)
{
    return l->top ? ((struct sched_family *)pool_at(&s->families, l->top))->count : l->count;
}

uint32_t sched_queue_give(struct mob_sched *s, uint16_t lane, uint16_t worker, uint32_t limit)
{
    enum { WORTH_IT = 3 };
    struct sched_lane *l = &s->lanes[lane];
    struct sched_worker *w = worker_at(s, worker);
    struct sched_family *f = l->top ? pool_at(&s->families, l->top) : NULL;
    uint32_t left = in_front(s, l), load = worker_load(w), given = 0;
    uint32_t *head = f ? &f->head : &l->head;
    if (left < WORTH_IT)
        return 0;
    if (load == 0)
        w->since = s->now;
    for (; given < limit && left - given > 1 && load + given < MOB_SCHED_BATCH_MAX; given++) {
        struct mob_sched_task *t = task_at(s, *head);
        uint32_t estimate = sched_estimate(s, t->function);
        if (load + given > 0 && w->estimate_sum + estimate > s->options.batch_ns_max)
            break;
        MOB_ASSERT(t->state == MOB_SCHED_READY);
        *worker_place(w, w->tail++) = (struct sched_place){t->handle, estimate};
        w->estimate_sum += estimate;
        *head = t->next;
        t->next = t->prev = t->place = 0;
        t->worker = worker;
        t->state = MOB_SCHED_DISPATCHED;
    }
    task_at(s, *head)->prev = 0;
    l->count -= given;
    if (f)
        f->count -= given;
    s->by_state[MOB_SCHED_READY] -= given;
    s->by_state[MOB_SCHED_DISPATCHED] += given;
    s->dispatched += given;
    if (load + given > 1)
        sched_piled_mark(s, worker);
    if (given > 0)
        sched_untold_mark(s, worker);
    return given;
}

/* ---- ends ---- */

static void retire_ended(struct mob_sched *s, struct mob_sched_task *t)
{
    if (!(t->marks & MARK_CALL)) {
        if (s->lanes[t->lane].refs > 1)
            s->lanes[t->lane].refs--;
        else
            sched_lane_release(s, t->lane);
    }
    t->state = MOB_SCHED_DONE;
}

/* It stands in front, and nothing about it needs more than to go. */
static bool ends_plainly(const struct mob_sched_task *t)
{
    bool misses_inputs = t->waits && !(t->marks & MARK_KIDS);
    return t->state == MOB_SCHED_DISPATCHED && !t->extra && !misses_inputs &&
        !(t->flags & MOB_SCHED_ACTOR_CREATE);
}

uint32_t mob_sched_finished_run(
    struct mob_sched *s, uint16_t worker, const int64_t *run_ns, uint32_t count, int64_t now)
{
    struct sched_worker *w = worker_at(s, worker);
    bool usual = (w->state == WORKER_BUSY || w->state == WORKER_ACTOR) && !w->below_count && !w->no_room &&
        !w->solo && !s->note_count;
    const struct mob_sched_task *before = NULL;
    uint32_t done = 0, home = 0;
    if (!usual || w->head == w->tail || !ends_plainly(task_at(s, worker_place(w, w->head)->task)))
        return 0;
    s->now = now;
    s->late_family = 0;
    if (w->families)
        sched_families_detach(s, w);
    for (; done < count && w->head != w->tail; done++) {
        const struct sched_place *place = worker_place(w, w->head);
        struct mob_sched_task *t = task_at(s, place->task);
        if (!ends_plainly(t))
            break;
        if (run_ns[done] >= 0)
            sched_measure(s, t->function, run_ns[done]);
        w->ended = t->function;
        w->estimate_sum -= place->estimate_ns;
        w->head++;
        retire_ended(s, t);
        home = sched_ids_remove_next(s, t, before, home);
        before = t;
    }
    sched_ids_shrink(s);
    s->by_state[MOB_SCHED_DISPATCHED] -= done;
    s->by_state[MOB_SCHED_DONE] += done;
    s->finished += done;
    sched_worker_ran(s, worker, now);
    return done;
}
