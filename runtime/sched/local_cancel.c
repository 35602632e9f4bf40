/* Cancel: queued tasks go at once, running ones are asked and then killed; children are found by their ids,
 * which are (stream of the parent, 0 .. n), so that no task carries a list for it. A child that has ended may
 * be continued by a task of its own (a tail call): the node knows, and its children are looked at as well.
 */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

/* A task that is tried again counts the children of this attempt only; the first one's may live. Ids are
 * dense, so a gap of this many finished neighbours ends the search then. */
#define CANCEL_GAP 1024u

struct walk {
    struct mob_sched_kin *kin; /* children that are still to be looked at */
    uint32_t kin_count, kin_capacity;
    uint32_t *started; /* tasks to be asked to stop, parents before children */
    uint32_t started_count, started_capacity;
    uint32_t found;
};

/* One more place in an array that grows; NULL = no memory. */
static void *walk_place(void **array, uint32_t *count, uint32_t *capacity, size_t size)
{
    if (*count == *capacity) {
        uint32_t more = *capacity ? 2 * *capacity : 64;
        void *bigger = realloc(*array, more * size);
        if (!bigger)
            return NULL;
        *array = bigger;
        *capacity = more;
    }
    return (char *)*array + (*count)++ * size;
}

/* Without memory they run on. */
static void walk_kin(struct walk *walk, const struct mob_sched_kin *kin)
{
    void *array = walk->kin;
    struct mob_sched_kin *place = walk_place(&array, &walk->kin_count, &walk->kin_capacity, sizeof *place);
    walk->kin = array;
    if (place)
        *place = *kin;
}

static bool walk_started(struct walk *walk, const struct mob_sched_task *t)
{
    void *array = walk->started;
    uint32_t *place =
        walk_place(&array, &walk->started_count, &walk->started_capacity, sizeof *walk->started);
    walk->started = array;
    if (place)
        *place = t->handle;
    return place != NULL;
}

/* Not told to its worker yet: it can still be taken out. */
static bool untold(const struct mob_sched *s, const struct mob_sched_task *t)
{
    const struct sched_worker *w = worker_at(s, t->worker);
    for (uint32_t at = w->told; at != w->tail; at++)
        if (worker_place(w, at)->task == t->handle)
            return true;
    return false;
}

static void cancel_one(struct mob_sched *s, struct mob_sched_task *t, bool force, int64_t now)
{
    switch ((enum mob_sched_state)t->state) {
    case MOB_SCHED_WAITING:
    case MOB_SCHED_DELAYED:
    case MOB_SCHED_READY:
        sched_fail(s, t, MOB_CANCELLED);
        return;
    case MOB_SCHED_DISPATCHED:
        if (untold(s, t)) {
            sched_worker_remove(s, t, now, false);
            sched_fail(s, t, MOB_CANCELLED);
            return;
        }
        sched_stop(s, t, force, now);
        return;
    case MOB_SCHED_BLOCKED:
        sched_stop(s, t, force, now);
        return;
    case MOB_SCHED_NEW:
    case MOB_SCHED_DONE:
    case MOB_SCHED_STATE_COUNT:
        return;
    }
}

uint32_t mob_sched_children(const struct mob_sched_task *t)
{
    return t->marks & MARK_KIDS ? t->waits : 0;
}

/* Has it run, so that there may be children? */
static bool started(const struct mob_sched_task *t)
{
    return t->state == MOB_SCHED_DISPATCHED || t->state == MOB_SCHED_BLOCKED || t->failures ||
        t->flags & MOB_SCHED_RAN;
}

static void visit(struct mob_sched *s, struct walk *walk, struct mob_sched_task *t, bool force, int64_t now)
{
    if (t->state == MOB_SCHED_DONE || t->flags & MOB_SCHED_REPEATS)
        return; /* failed in this pass already, or in no need of it: it only repeats */
    walk->found++;
    if (!started(t)) {
        cancel_one(s, t, force, now);
        return;
    }
    if (t->flags & FLAG_CANCEL_KIN && !force)
        return; /* and so were its descendants; no more have come */
    t->flags |= FLAG_CANCEL_KIN;
    struct mob_sched_kin kin = {s->options.children_of(s->options.arg, t), mob_sched_children(t),
        t->failures > 0 || t->flags & MOB_SCHED_RAN};
    walk_kin(walk, &kin);
    if (!walk_started(walk, t))
        cancel_one(s, t, force, now);
}

static void visit_children(
    struct mob_sched *s, struct walk *walk, struct mob_sched_kin kin, bool force, int64_t now)
{
    uint32_t gap_max = kin.sparse ? CANCEL_GAP : 0;
    for (uint32_t i = 0, gap = 0; (i < kin.count || gap < gap_max) && i <= MOB_CHILD_INDEX_MAX; i++, gap++) {
        struct mob_task_id id = {kin.stream, i};
        struct mob_sched_task *child = mob_sched_find(s, id);
        struct mob_sched_kin below;
        if (child) {
            gap = 0;
            visit(s, walk, child, force, now);
        } else if (s->options.continued && s->options.continued(s->options.arg, id, &below)) {
            gap = 0;
            walk_kin(walk, &below);
        } else if (i < kin.count || kin.sparse) {
            s->met_ended = true;
        }
    }
}

/* Down to the last descendant, then all that were started: nobody submits in between. */
static uint32_t run_walk(struct mob_sched *s, struct walk *walk, bool force, int64_t now)
{
    for (uint32_t i = 0; i < walk->kin_count; i++)
        visit_children(s, walk, walk->kin[i], force, now);
    for (uint32_t i = 0; i < walk->started_count; i++)
        cancel_one(s, task_at(s, walk->started[i]), force, now);
    free(walk->kin);
    free(walk->started);
    return walk->found;
}

uint32_t mob_sched_cancel(
    struct mob_sched *s, struct mob_sched_task *task, bool force, bool recursive, int64_t now)
{
    s->met_ended = false;
    if (task->state == MOB_SCHED_NEW || task->state == MOB_SCHED_DONE || task->flags & MOB_SCHED_REPEATS)
        return 0;
    s->now = now;
    if (!recursive || !s->options.children_of) {
        cancel_one(s, task, force, now);
        return 1;
    }
    struct walk walk = {0};
    visit(s, &walk, task, force, now);
    return run_walk(s, &walk, force, now);
}

uint32_t mob_sched_cancel_kin(struct mob_sched *s, const struct mob_sched_kin *kin, bool force, int64_t now)
{
    s->now = now;
    s->met_ended = false;
    if (!s->options.children_of)
        return 0;
    struct walk walk = {0};
    walk_kin(&walk, kin);
    return run_walk(s, &walk, force, now);
}

bool mob_sched_cancel_met_ended(const struct mob_sched *s)
{
    return s->met_ended;
}

/* ---- all of a job ---- */

#define WALK_AHEAD 16u /* records that are fetched before their turn */

static uint32_t living_of(const struct mob_sched *s, uint16_t job)
{
    uint32_t living = 0;
    for (uint32_t i = 0; job != MOB_SCHED_NO_JOB && i < s->lane_count; i++)
        if (s->lanes[i].used && s->lanes[i].job == job)
            living += s->lanes[i].refs;
    return living;
}

struct mob_sched_job_walk mob_sched_job_walk(const struct mob_sched *s, uint16_t job, bool calls)
{
    return (struct mob_sched_job_walk){.living = living_of(s, job), .job = job, .calls = calls};
}

/* What runs may have had children, which ended with the cancel. What was passed over, by the caller or since
 * it only repeats, is not counted: others may still end it. */
static void note_last(const struct mob_sched *s, struct mob_sched_job_walk *walk)
{
    if (walk->last == 0)
        return;
    const struct mob_sched_task *t = task_at(s, walk->last);
    if (t->state == MOB_SCHED_DONE) {
        walk->living -= !(t->marks & MARK_CALL);
    } else {
        walk->living = living_of(s, walk->job);
        walk->stopping += !(t->marks & MARK_CALL) && t->flags & FLAG_CANCEL_KIN;
    }
}

static bool is_of_walk(
    const struct mob_sched *s, const struct mob_sched_job_walk *walk, const struct mob_sched_task *t)
{
    if (t->state == MOB_SCHED_NEW || t->state == MOB_SCHED_DONE)
        return false;
    return t->marks & MARK_CALL ? walk->calls : s->lanes[t->lane].job == walk->job;
}

struct mob_sched_task *mob_sched_job_next(const struct mob_sched *s, struct mob_sched_job_walk *walk)
{
    note_last(s, walk);
    walk->last = 0;
    if (!walk->calls && walk->stopping >= walk->living)
        return NULL;
    while (++walk->at < s->fresh) {
        if (walk->at + WALK_AHEAD < s->fresh)
            __builtin_prefetch(task_at(s, walk->at + WALK_AHEAD));
        struct mob_sched_task *t = task_at(s, walk->at);
        if (is_of_walk(s, walk, t)) {
            walk->last = t->handle;
            return t;
        }
    }
    --walk->at;
    return NULL;
}
