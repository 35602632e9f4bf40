/* Invariants of the local scheduler, counted again from scratch. For tests. */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

#define CHECK(condition, text) \
    do { \
        if (!(condition)) \
            return text; \
    } while (0)

static const char *check_resources(const struct mob_sched *s)
{
    int64_t taken[MOB_SCHED_RESOURCES_MAX] = {0}, stuck[MOB_SCHED_RESOURCES_MAX] = {0};
    for (uint32_t i = 0; i < MOB_SCHED_WORKERS_MAX; i++) {
        const struct sched_worker *w = &s->workers[i];
        if (w->state == WORKER_NONE || !w->holds) {
            CHECK(!w->holds_cpu && !w->stuck, "a worker without a class holds something");
            continue;
        }
        const struct sched_class *c = &s->classes[w->class_id];
        CHECK(c->used, "a worker holds a class that nobody has");
        for (uint32_t k = 0; k < c->count; k++) {
            int64_t amount = c->demands[k].kind != MOB_SCHED_CPU || w->holds_cpu ? c->demands[k].amount : 0;
            taken[c->demands[k].kind] += amount;
            stuck[c->demands[k].kind] += w->stuck ? amount : 0;
        }
    }
    for (uint32_t k = 0; k < s->kind_count; k++) {
        CHECK(taken[k] == s->kinds[k].taken, "taken is not what workers hold");
        CHECK(stuck[k] == s->kinds[k].stuck, "stuck is not what blocked workers and actors hold");
    }
    return NULL;
}

static const char *check_worker(const struct mob_sched *s, uint16_t worker)
{
    const struct sched_worker *w = worker_at(s, worker);
    uint32_t load = worker_load(w);
    int64_t estimate = 0;
    CHECK(load <= MOB_SCHED_BATCH_MAX, "a batch is too long");
    CHECK(
        w->told - w->head <= load && w->follow - w->head <= load, "told or follow lie outside of the batch");
    for (uint32_t at = w->head; at != w->tail; at++) {
        const struct mob_sched_task *t = task_at(s, worker_place(w, at)->task);
        bool blocked = w->state == WORKER_BLOCKED || w->state == WORKER_ACTOR_BLOCKED;
        estimate += worker_place(w, at)->estimate_ns;
        CHECK(t->worker == worker, "a task in a batch has another worker");
        CHECK(t->state == MOB_SCHED_DISPATCHED || t->state == MOB_SCHED_BLOCKED,
            "a task in a batch is not dispatched");
        CHECK(!blocked || (t->state == MOB_SCHED_BLOCKED && load == 1),
            "a blocked worker has one blocked task");
    }
    for (uint32_t i = 0; i < w->below_count; i++) {
        const struct mob_sched_task *t = task_at(s, w->below[i].task);
        CHECK(
            t->state == MOB_SCHED_BLOCKED && t->worker == worker, "a task below another one is not blocked");
    }
    CHECK(!w->below_count || (load && (w->state == WORKER_BUSY || w->state == WORKER_BLOCKED) && !w->hungry),
        "something lies below nothing");
    CHECK(w->below_count <= s->options.nest_max, "too many tasks are on top of each other");
    CHECK(estimate == w->estimate_sum, "the batch's estimates do not sum up");
    CHECK((w->state == WORKER_BUSY) <= (load > 0), "a busy worker has nothing to do");
    CHECK((w->state == WORKER_IDLE || w->state == WORKER_NONE) <= (load == 0), "an idle worker has tasks");
    CHECK(
        (w->state == WORKER_BUSY || w->state == WORKER_BLOCKED) <= w->holds, "a busy worker holds no class");
    CHECK(w->hungry <= (w->state == WORKER_BUSY), "a hungry worker is not busy");
    CHECK((load > 1) <= w->piled, "what stands behind a long task will never be taken back");
    CHECK((w->told != w->tail) <= (w->untold || w->no_room || w->state == WORKER_LEAVING),
        "a dispatch will never be told");
    return NULL;
}

static const char *check_workers(const struct mob_sched *s)
{
    uint32_t count[WORKER_LEAVING + 1] = {0}, idle = 0;
    for (uint32_t i = 0; i < MOB_SCHED_WORKERS_MAX; i++) {
        count[s->workers[i].state]++;
        const char *bad = s->workers[i].state == WORKER_NONE ? NULL : check_worker(s, (uint16_t)i);
        if (bad)
            return bad;
    }
    for (uint32_t r = 0; r < MOB_SCHED_RUNTIMES_MAX; r++) {
        uint32_t listed = 0;
        for (uint16_t w = s->runtimes[r].idle_head; w != SCHED_NIL16; w = worker_at(s, w)->next)
            listed++;
        CHECK(listed == s->runtimes[r].idle, "the idle list has another length");
        idle += listed;
    }
    CHECK(idle == count[WORKER_IDLE], "idle workers are not listed");
    CHECK(count[WORKER_BLOCKED] == s->blocked_count, "blocked workers are miscounted");
    CHECK(count[WORKER_LEAVING] == s->leaving_count, "leaving workers are miscounted");
    CHECK(
        count[WORKER_ACTOR] + count[WORKER_ACTOR_BLOCKED] == s->actor_worker_count, "actors are miscounted");
    CHECK(s->worker_count == MOB_SCHED_WORKERS_MAX - count[WORKER_NONE], "workers are miscounted");
    return NULL;
}

static uint32_t list_length(
    const struct mob_sched *s, uint32_t head, uint32_t tail, uint32_t place, uint32_t lane)
{
    uint32_t length = 0, prev = 0;
    for (uint32_t at = head; at; at = task_at(s, at)->next) {
        const struct mob_sched_task *t = task_at(s, at);
        if (t->prev != prev || t->state != MOB_SCHED_READY || t->place != place || t->lane != lane)
            return UINT32_MAX;
        prev = at;
        length++;
    }
    return prev == tail ? length : UINT32_MAX;
}

static const char *check_lanes(const struct mob_sched *s)
{
    uint64_t queued = 0;
    uint32_t families = 0;
    for (uint32_t i = 0; i < s->lane_count; i++) {
        const struct sched_lane *l = &s->lanes[i];
        if (!l->used)
            continue;
        CHECK(s->classes[l->class_id].used, "a lane is of a class that nobody has");
        uint32_t count = list_length(s, l->head, l->tail, 0, i);
        CHECK(count != UINT32_MAX, "a base queue is broken");
        for (uint32_t f = l->top, above = 0; f; families++) {
            const struct sched_family *family = pool_at(&s->families, f);
            CHECK(family->lane == i && family->above == above, "a family stack is broken");
            CHECK(family->count && list_length(s, family->head, family->tail, f, i) == family->count,
                "a family is broken");
            count += family->count;
            above = f;
            f = family->below;
        }
        CHECK(count == l->count, "a lane is miscounted");
        CHECK(
            l->listed == (count > 0) && (!count || s->jobs[l->job].active), "a lane with work is not listed");
        queued += count;
    }
    CHECK(families == s->families.live, "a family is in no lane");
    for (uint32_t i = 0; i < s->actor_count; i++) {
        const struct sched_actor *a = &s->actors[i];
        uint32_t count = 0, prev = 0;
        if (!a->used)
            continue;
        for (uint32_t at = a->head; at; prev = at, at = task_at(s, at)->next, count++) {
            queued += task_at(s, at)->state == MOB_SCHED_READY;
            CHECK(task_at(s, at)->prev == prev, "an actor's queue is broken");
            CHECK(!s->options.position_of || !prev ||
                    s->options.position_of(s->options.arg, task_at(s, prev)) <=
                        s->options.position_of(s->options.arg, task_at(s, at)),
                "an actor's calls are not in the order of their positions");
        }
        CHECK(count == a->count && prev == a->tail, "an actor's queue is miscounted");
    }
    CHECK(queued == s->by_state[MOB_SCHED_READY], "a ready task is in no queue");
    return NULL;
}

static const char *check_waits(const struct mob_sched *s)
{
    uint64_t listed = 0, missing = 0;
    for (uint32_t i = 0; i < s->waits.capacity; i++) {
        if (!s->waits.distance[i])
            continue;
        const struct sched_object *o = pool_at(&s->objects, s->waits.slots[i]);
        uint32_t count = 0;
        for (uint32_t ref = o->head; ref; ref = sched_edge_next(s, ref), count++) {
            const struct mob_sched_task *t = task_at(s, sched_edge_task(s, ref));
            CHECK(t->waits && !(t->marks & MARK_KIDS), "a task that waits for nothing is in a wait list");
        }
        CHECK(count == o->count && count, "a wait list is miscounted");
        listed += count;
    }
    CHECK(s->waits.used == s->objects.live, "a wait object is not in the table");
    uint32_t at = 0;
    for (struct mob_sched_task *t; (t = mob_sched_each(s, &at));) {
        missing += t->marks & MARK_KIDS ? 0 : t->waits;
        CHECK((t->state == MOB_SCHED_WAITING) <= (t->waits > 0), "a task waits for nothing");
        CHECK((t->state == MOB_SCHED_READY) <= (t->waits == 0), "a ready task misses inputs");
        CHECK(mob_sched_find(s, t->id) == t, "a task is not found by its id");
    }
    CHECK(listed == missing, "wait lists and missing inputs differ");
    return NULL;
}

static const char *check_counts(const struct mob_sched *s)
{
    uint32_t by_state[MOB_SCHED_STATE_COUNT] = {0}, at = 0, extras = 0;
    for (struct mob_sched_task *t; (t = mob_sched_each(s, &at));) {
        by_state[t->state]++;
        extras += t->extra != 0;
    }
    for (uint32_t i = MOB_SCHED_WAITING; i < MOB_SCHED_DONE; i++)
        CHECK(by_state[i] == s->by_state[i], "tasks are miscounted");
    CHECK(
        by_state[MOB_SCHED_DONE] == 0 && by_state[MOB_SCHED_NEW] == 0, "a task that is done is still known");
    CHECK(extras == s->extras.live, "a record of times is nobody's");
    uint32_t failing = 0; /* DONE and not told: still known by their ids */
    for (uint32_t t = s->failed_head; t; t = task_at(s, t)->next, failing++)
        CHECK(mob_sched_find(s, task_at(s, t)->id) == task_at(s, t), "a failing task is not found by its id");
    CHECK(s->ids.used + s->by_state[MOB_SCHED_NEW] + s->by_state[MOB_SCHED_DONE] == s->allocated + failing,
        "a record leaks");
    for (uint32_t i = 0; i < s->heap_count; i++) {
        const struct sched_extra *e = pool_at(&s->extras, s->heap[i]);
        CHECK(e->heap_at == i + 1, "the timer heap is broken");
    }
    return NULL;
}

const char *mob_sched_check(const struct mob_sched *s)
{
    const char *(*const checks[])(const struct mob_sched *) = {
        check_counts, check_resources, check_workers, check_lanes, check_waits};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const char *bad = checks[i](s);
        if (bad)
            return bad;
    }
    return NULL;
}
