/* Actors: calls of one actor go to its worker strictly in the order of their positions (GCS.md "Actors,
 * exactly once", 3).
 *
 * One queue. A new call has the highest position so far and goes to the end; one that has its position
 * already (a replay, or a call that a worker's end gave back) takes its place among those that wait, whatever
 * is there. The head goes when its inputs are ready, or are made by calls before it in the worker's batch;
 * nothing overtakes it.
 */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

static uint64_t position_of(const struct mob_sched *s, uint32_t call)
{
    return s->options.position_of(s->options.arg, task_at(s, call));
}

/* Behind `after`, 0 = first. */
static void insert(struct mob_sched *s, struct mob_sched_task *t, uint32_t after)
{
    struct sched_actor *a = &s->actors[t->lane];
    uint32_t *from_before = after ? &task_at(s, after)->next : &a->head;
    t->prev = after;
    t->next = *from_before;
    *from_before = t->handle;
    *(t->next ? &task_at(s, t->next)->prev : &a->tail) = t->handle;
    a->count++;
}

/* The last call in the queue below its position; found from `from` on, which is not above it, or 0. */
static uint32_t place_of(const struct mob_sched *s, const struct mob_sched_task *t, uint32_t from)
{
    const struct sched_actor *a = &s->actors[t->lane];
    uint64_t position = position_of(s, t->handle);
    uint32_t after = from, next = from ? task_at(s, from)->next : a->head;
    while (next && position_of(s, next) < position) {
        after = next;
        next = task_at(s, next)->next;
    }
    return after;
}

void sched_actor_append(struct mob_sched *s, struct mob_sched_task *t)
{
    struct sched_actor *a = &s->actors[t->lane];
    if (t->flags & MOB_SCHED_REPLAY) {
        MOB_ASSERT(s->options.position_of);
        /* replays come in order, so the place of the one before is where to look */
        bool behind = a->placed && position_of(s, a->placed) <= position_of(s, t->handle);
        insert(s, t, place_of(s, t, behind ? a->placed : 0));
        a->placed = t->handle;
    } else {
        insert(s, t, a->tail);
    }
    sched_actor_mark(s, t->lane);
}

void sched_actor_put_back(struct mob_sched *s, struct mob_sched_task *t)
{
    struct sched_actor *a = &s->actors[t->lane];
    insert(s, t, s->options.position_of ? place_of(s, t, 0) : 0);
    if (a->closed)
        sched_fail(s, t, (enum mob_status)a->close_status);
    else
        sched_actor_mark(s, t->lane);
}

void sched_actor_remove(struct mob_sched *s, struct mob_sched_task *t)
{
    struct sched_actor *a = &s->actors[t->lane];
    *(t->prev ? &task_at(s, t->prev)->next : &a->head) = t->next;
    *(t->next ? &task_at(s, t->next)->prev : &a->tail) = t->prev;
    if (a->placed == t->handle)
        a->placed = t->prev;
    t->next = t->prev = 0;
    a->count--;
    sched_actor_mark(s, t->lane); /* the next may be the head now */
}

void sched_actor_mark(struct mob_sched *s, uint32_t actor)
{
    struct sched_actor *a = &s->actors[actor];
    if (a->listed)
        return;
    a->listed = true;
    a->next = s->actor_list;
    s->actor_list = (uint16_t)actor;
}

static void release_calls(struct mob_sched *s, struct sched_actor *a)
{
    if (a->worker == SCHED_NIL16)
        return;
    struct sched_worker *w = worker_at(s, a->worker);
    while (w->state == WORKER_ACTOR && worker_load(w) < MOB_SCHED_BATCH_MAX && !w->no_room) {
        if (!a->head)
            return;
        struct mob_sched_task *t = task_at(s, a->head);
        bool goes = t->state == MOB_SCHED_READY ||
            (t->state == MOB_SCHED_WAITING && sched_inputs_in_batch(s, t, a->worker));
        if (!goes)
            return;
        sched_actor_remove(s, t);
        sched_worker_append(s, a->worker, t);
    }
}

void sched_actors_release(struct mob_sched *s)
{
    while (s->actor_list != SCHED_NIL16) {
        struct sched_actor *a = &s->actors[s->actor_list];
        s->actor_list = a->next;
        /* `listed` until done, so that taking calls out does not list it again. */
        release_calls(s, a);
        a->listed = false;
    }
}

enum mob_status mob_sched_actor_open(struct mob_sched *s, uint32_t *actor_out)
{
    uint32_t i;
    if (s->actor_free) {
        i = s->actor_free - 1;
        s->actor_free = s->actors[i].count;
    } else {
        if (s->actor_count == MOB_SCHED_ACTORS_MAX)
            return MOB_QUEUE_FULL;
        if (s->actor_count == s->actor_capacity) {
            uint32_t capacity = s->actor_capacity ? 2 * s->actor_capacity : 16;
            struct sched_actor *actors = realloc(s->actors, capacity * sizeof *actors);
            if (!actors)
                return MOB_NO_MEMORY;
            s->actors = actors;
            s->actor_capacity = capacity;
        }
        i = s->actor_count++;
        s->actors[i] = (struct sched_actor){0};
    }
    struct sched_actor *a = &s->actors[i];
    /* A number that is used again may still be in the list of actors to look at. */
    *a = (struct sched_actor){.used = true, .worker = SCHED_NIL16, .listed = a->listed, .next = a->next};
    *actor_out = i + 1;
    return MOB_OK;
}

enum mob_status mob_sched_actor_up(struct mob_sched *s, uint32_t actor, uint16_t worker)
{
    if (actor == 0 || actor > s->actor_count || worker >= MOB_SCHED_WORKERS_MAX)
        return MOB_INVALID;
    struct sched_actor *a = &s->actors[actor - 1];
    struct sched_worker *w = worker_at(s, worker);
    if (!a->used || a->closed)
        return MOB_NOT_FOUND;
    if (a->worker != SCHED_NIL16 || w->actor || (w->state != WORKER_ACTOR && w->state != WORKER_BUSY))
        return MOB_CONFLICT;
    a->worker = worker;
    w->actor = actor;
    sched_actor_mark(s, actor - 1);
    return MOB_OK;
}

static void actor_free(struct mob_sched *s, uint32_t actor)
{
    struct sched_actor *a = &s->actors[actor - 1];
    MOB_ASSERT(a->count == 0);
    a->used = false;
    a->count = s->actor_free;
    s->actor_free = actor;
}

void sched_actor_lost_worker(
    struct mob_sched *s, uint32_t actor, uint16_t worker, const struct mob_sched_task *running, bool unpaid)
{
    struct sched_actor *a = &s->actors[actor - 1];
    a->worker = SCHED_NIL16;
    if (a->closed) {
        actor_free(s, actor);
        return;
    }
    uint32_t task = running && running->state == MOB_SCHED_READY ? running->handle : 0;
    sched_note_push(s,
        (struct sched_note){
            .kind = MOB_DECIDE_ACTOR_DOWN, .actor = actor, .task = task, .worker = worker, .unpaid = unpaid});
}

void mob_sched_actor_close(struct mob_sched *s, uint32_t actor, enum mob_status status)
{
    MOB_ASSERT(actor && actor <= s->actor_count);
    struct sched_actor *a = &s->actors[actor - 1];
    if (!a->used || a->closed)
        return;
    a->closed = true;
    a->close_status = (uint16_t)status;
    if (a->worker != SCHED_NIL16) {
        struct sched_worker *w = worker_at(s, a->worker);
        bool running = w->told != w->head;
        sched_worker_revoke(s, a->worker, running);
        if (w->state == WORKER_ACTOR || w->state == WORKER_ACTOR_BLOCKED)
            s->actor_worker_count--;
        if (w->state == WORKER_BUSY) { /* its creation has not finished: it ends with it */
            sched_hungry_remove(s, a->worker);
            s->classes[w->class_id].busy--;
        }
        w->state = WORKER_LEAVING;
        s->leaving_count++;
        sched_note_push(s, (struct sched_note){.kind = MOB_DECIDE_REAP, .worker = a->worker});
    }
    while (a->head)
        sched_fail(s, task_at(s, a->head), status);
    if (a->worker == SCHED_NIL16)
        actor_free(s, actor);
}
