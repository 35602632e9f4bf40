/* Cancel: queued tasks go at once, running ones are asked and then killed; children are found by their ids,
 * which are (stream of the parent, 0 .. n), so that no task carries a list for it. */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

/* A task that is tried again counts the children of this attempt only; the first one's may live. Ids are
 * dense, so a gap of this many finished neighbours ends the search then. */
#define CANCEL_GAP 1024u

struct walk {
    uint32_t *handles; /* started tasks whose children are still to be looked at */
    uint32_t count, capacity;
};

static void walk_push(struct walk *w, const struct mob_sched_task *t)
{
    if (w->count == w->capacity) {
        uint32_t capacity = w->capacity ? 2 * w->capacity : 64;
        uint32_t *handles = realloc(w->handles, capacity * sizeof *handles);
        if (!handles)
            return; /* its children run on */
        w->handles = handles;
        w->capacity = capacity;
    }
    w->handles[w->count++] = t->handle;
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

static uint32_t cancel_children(
    struct mob_sched *s, struct mob_sched_task *parent, struct walk *walk, bool force, int64_t now)
{
    struct mob_stream stream = s->options.children_of(s->options.arg, parent);
    uint32_t count = parent->marks & MARK_KIDS ? parent->waits : 0, found = 0, gap = 0;
    uint32_t gap_max = parent->failures ? CANCEL_GAP : 0;
    for (uint32_t i = 0; (i < count || gap < gap_max) && i <= MOB_CHILD_INDEX_MAX; i++, gap++) {
        struct mob_sched_task *child = mob_sched_find(s, (struct mob_task_id){stream, i});
        if (!child)
            continue;
        gap = 0;
        found++;
        if (child->state == MOB_SCHED_DISPATCHED || child->state == MOB_SCHED_BLOCKED || child->failures)
            walk_push(walk, child);
        else
            cancel_one(s, child, force, now);
    }
    return found;
}

uint32_t mob_sched_cancel(
    struct mob_sched *s, struct mob_sched_task *task, bool force, bool recursive, int64_t now)
{
    if (task->state == MOB_SCHED_NEW || task->state == MOB_SCHED_DONE)
        return 0;
    s->now = now;
    uint32_t found = 1;
    if (recursive && s->options.children_of) {
        struct walk walk = {0};
        walk_push(&walk, task);
        /* The list is both what is left to visit and, behind, what is to be cancelled: parents before
         * children. */
        for (uint32_t i = 0; i < walk.count; i++)
            found += cancel_children(s, task_at(s, walk.handles[i]), &walk, force, now);
        for (uint32_t i = 1; i < walk.count; i++)
            cancel_one(s, task_at(s, walk.handles[i]), force, now);
        free(walk.handles);
    }
    cancel_one(s, task, force, now);
    return found;
}
