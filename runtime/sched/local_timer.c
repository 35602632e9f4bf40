/* Times of the few tasks that have any: not-before, deadline, back-off, grace before a kill. A binary heap
 * over extra records; tasks without times never touch it. */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

static inline struct sched_extra *extra_at(const struct mob_sched *s, uint32_t number)
{
    return pool_at(&s->extras, number);
}

static int64_t due(const struct sched_extra *e)
{
    int64_t wake = e->wake ? e->wake : MOB_FOREVER_NS;
    int64_t deadline = e->deadline ? e->deadline : MOB_FOREVER_NS;
    return wake < deadline ? wake : deadline;
}

static void heap_put(struct mob_sched *s, uint32_t at, uint32_t number)
{
    s->heap[at] = number;
    extra_at(s, number)->heap_at = at + 1;
}

static void heap_sift(struct mob_sched *s, uint32_t at)
{
    uint32_t number = s->heap[at];
    int64_t when = due(extra_at(s, number));
    while (at && due(extra_at(s, s->heap[(at - 1) / 2])) > when) {
        heap_put(s, at, s->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->heap_count)
            break;
        if (child + 1 < s->heap_count &&
            due(extra_at(s, s->heap[child + 1])) < due(extra_at(s, s->heap[child])))
            child++;
        if (due(extra_at(s, s->heap[child])) >= when)
            break;
        heap_put(s, at, s->heap[child]);
        at = child;
    }
    heap_put(s, at, number);
}

static void heap_remove(struct mob_sched *s, uint32_t number)
{
    uint32_t at = extra_at(s, number)->heap_at;
    if (!at)
        return;
    extra_at(s, number)->heap_at = 0;
    uint32_t last = s->heap[--s->heap_count];
    if (last != number) {
        heap_put(s, at - 1, last);
        heap_sift(s, at - 1);
    }
}

struct sched_extra *sched_extra_of(struct mob_sched *s, struct mob_sched_task *t)
{
    if (t->extra)
        return extra_at(s, t->extra);
    /* Room in the heap for every record, so that scheduling one cannot fail. */
    if (s->extras.live + 1 >= s->heap_capacity) {
        uint32_t capacity = s->heap_capacity ? s->heap_capacity + s->heap_capacity / 2 : 64;
        uint32_t *heap = realloc(s->heap, capacity * sizeof *heap);
        if (!heap)
            return NULL;
        s->heap = heap;
        s->heap_capacity = capacity;
    }
    uint32_t number = sched_pool_take(&s->extras);
    if (!number)
        return NULL;
    t->extra = number;
    extra_at(s, number)->task = t->handle;
    return extra_at(s, number);
}

void sched_extra_schedule(struct mob_sched *s, struct mob_sched_task *t)
{
    struct sched_extra *e = extra_at(s, t->extra);
    if (due(e) == MOB_FOREVER_NS) {
        heap_remove(s, t->extra);
    } else if (e->heap_at) {
        heap_sift(s, e->heap_at - 1);
    } else {
        s->heap[s->heap_count] = t->extra;
        heap_sift(s, s->heap_count++);
    }
}

void sched_extra_free(struct mob_sched *s, struct mob_sched_task *t)
{
    heap_remove(s, t->extra);
    sched_pool_give(&s->extras, t->extra);
    t->extra = 0;
}

/* The record goes when nothing in it is left to remember. */
static void extra_settle(struct mob_sched *s, struct mob_sched_task *t)
{
    struct sched_extra *e = extra_at(s, t->extra);
    if (!e->wake && !e->deadline && !e->backoff_initial && !e->backoff_max)
        sched_extra_free(s, t);
    else
        sched_extra_schedule(s, t);
}

void sched_stop(struct mob_sched *s, struct mob_sched_task *t, bool force, int64_t now)
{
    bool asked = t->marks & MARK_STOPPING;
    t->marks |= MARK_STOPPING;
    if (t->state == MOB_SCHED_DISPATCHED && !worker_runs(worker_at(s, t->worker), t))
        sched_hurry(s, t->worker); /* then it ends now, and not when its turn comes */
    if (!asked)
        sched_note_push(s,
            (struct sched_note){.kind = MOB_DECIDE_STOP,
                .task = t->handle,
                .worker = t->worker,
                .status = t->marks & MARK_OVERDUE ? MOB_DEADLINE : MOB_CANCELLED});
    struct sched_extra *e = sched_extra_of(s, t);
    if (!e)
        return; /* asked, at least */
    int64_t grace = force ? 0 : s->options.kill_grace_ns;
    int64_t kill_at = grace > MOB_FOREVER_NS - now ? 0 : now + grace;
    if (!asked || force)
        e->wake = kill_at;
    e->deadline = 0;
    sched_extra_schedule(s, t);
}

static void kill_due(struct mob_sched *s, struct mob_sched_task *t)
{
    struct sched_extra *e = extra_at(s, t->extra);
    if (t->state == MOB_SCHED_DISPATCHED && !worker_runs(worker_at(s, t->worker), t)) {
        /* It has not started: its worker ends it when its turn comes, which is no reason to kill that worker
         * now. */
        e->wake = s->now + 100 * MOB_MS;
        sched_extra_schedule(s, t);
        return;
    }
    e->wake = 0;
    extra_settle(s, t);
    if (!(t->marks & MARK_KILLED))
        sched_note_push(
            s, (struct sched_note){.kind = MOB_DECIDE_KILL, .task = t->handle, .worker = t->worker});
    t->marks |= MARK_KILLED;
}

static void wake_due(struct mob_sched *s, struct mob_sched_task *t)
{
    extra_at(s, t->extra)->wake = 0;
    extra_settle(s, t);
    MOB_ASSERT(t->state == MOB_SCHED_DELAYED);
    s->late_family = 0;
    if (t->waits)
        sched_set_state(s, t, MOB_SCHED_WAITING);
    else
        sched_become_ready(s, t);
}

void sched_timers_run(struct mob_sched *s, int64_t now)
{
    while (s->heap_count && due(extra_at(s, s->heap[0])) <= now) {
        struct sched_extra *e = extra_at(s, s->heap[0]);
        struct mob_sched_task *t = task_at(s, e->task);
        bool runs = t->state == MOB_SCHED_DISPATCHED || t->state == MOB_SCHED_BLOCKED;
        if (e->deadline && e->deadline <= now) {
            if (!runs) {
                sched_fail(s, t, MOB_DEADLINE);
                continue;
            }
            e->deadline = 0;
            extra_settle(s, t);
            if (!(t->marks & MARK_STOPPING))
                t->marks |= MARK_OVERDUE;
            sched_stop(s, t, false, now);
        } else if (runs) {
            kill_due(s, t);
        } else {
            wake_due(s, t);
        }
    }
}
