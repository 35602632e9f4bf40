/* Workers: batches, what they hold, idle and hungry ones, blocking, death. */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

/* ---- resources ---- */

static void add_taken(struct mob_sched *s, const struct sched_worker *w, int sign, bool cpu, bool rest)
{
    const struct sched_class *c = &s->classes[w->class_id];
    for (uint32_t i = 0; i < c->count; i++)
        if (c->demands[i].kind == MOB_SCHED_CPU ? cpu : rest)
            s->kinds[c->demands[i].kind].taken += sign * c->demands[i].amount;
    s->dirty = true;
}

/* Count what w holds now as not coming back by itself, or no longer. */
static void set_stuck(struct mob_sched *s, struct sched_worker *w, bool stuck)
{
    if (w->stuck == stuck)
        return;
    w->stuck = stuck;
    const struct sched_class *c = &s->classes[w->class_id];
    for (uint32_t i = 0; i < c->count; i++)
        if (c->demands[i].kind != MOB_SCHED_CPU || w->holds_cpu)
            s->kinds[c->demands[i].kind].stuck += (stuck ? 1 : -1) * c->demands[i].amount;
}

static void cpu_give(struct mob_sched *s, struct sched_worker *w)
{
    if (w->holds_cpu)
        add_taken(s, w, -1, true, false);
    w->holds_cpu = false;
}

static void release(struct mob_sched *s, struct sched_worker *w)
{
    set_stuck(s, w, false);
    cpu_give(s, w);
    if (w->holds)
        add_taken(s, w, -1, false, true);
    w->holds = false;
}

/* ---- lists of workers ---- */

void sched_idle_remove(struct mob_sched *s, uint16_t worker)
{
    struct sched_worker *w = worker_at(s, worker);
    struct sched_runtime *r = &s->runtimes[w->runtime];
    if (w->prev != SCHED_NIL16)
        worker_at(s, w->prev)->next = w->next;
    else
        r->idle_head = w->next;
    if (w->next != SCHED_NIL16)
        worker_at(s, w->next)->prev = w->prev;
    else
        r->idle_tail = w->prev;
    r->idle--;
}

/* The newest first: its caches are warm, and the oldest can be reaped. */
static void idle_add(struct mob_sched *s, uint16_t worker, int64_t now)
{
    struct sched_worker *w = worker_at(s, worker);
    struct sched_runtime *r = &s->runtimes[w->runtime];
    w->state = WORKER_IDLE;
    w->since = now;
    w->prev = SCHED_NIL16;
    w->next = r->idle_head;
    if (w->next != SCHED_NIL16)
        worker_at(s, w->next)->prev = worker;
    else
        r->idle_tail = worker;
    r->idle_head = worker;
    r->idle++;
    s->dirty = true;
}

void sched_hungry_remove(struct mob_sched *s, uint16_t worker)
{
    struct sched_worker *w = worker_at(s, worker);
    if (!w->hungry)
        return;
    if (w->hungry_prev != SCHED_NIL16)
        worker_at(s, w->hungry_prev)->hungry_next = w->hungry_next;
    else
        s->classes[w->class_id].hungry = w->hungry_next;
    if (w->hungry_next != SCHED_NIL16)
        worker_at(s, w->hungry_next)->hungry_prev = w->hungry_prev;
    w->hungry = false;
}

/* Half empty workers are hungry: they are refilled before they run dry. */
void sched_hungry_update(struct mob_sched *s, uint16_t worker)
{
    struct sched_worker *w = worker_at(s, worker);
    bool hungry = w->state == WORKER_BUSY && !w->solo && w->below_count == 0 &&
        worker_load(w) <= MOB_SCHED_BATCH_MAX / 2 && !w->no_room &&
        w->estimate_sum <= s->options.batch_ns_max / 2;
    if (!hungry) {
        sched_hungry_remove(s, worker);
        return;
    }
    if (w->follow != w->tail)
        sched_follow_mark(s, worker);
    if (w->hungry)
        return;
    struct sched_class *c = &s->classes[w->class_id];
    w->hungry = true;
    w->hungry_prev = SCHED_NIL16;
    w->hungry_next = c->hungry;
    if (c->hungry != SCHED_NIL16)
        worker_at(s, c->hungry)->hungry_prev = worker;
    c->hungry = worker;
    s->dirty = true;
}

void sched_untold_mark(struct mob_sched *s, uint16_t worker)
{
    struct sched_worker *w = worker_at(s, worker);
    if (w->untold || w->no_room)
        return;
    w->untold = true;
    w->untold_next = SCHED_NIL16;
    if (s->untold != SCHED_NIL16)
        worker_at(s, s->untold_tail)->untold_next = worker;
    else
        s->untold = worker;
    s->untold_tail = worker;
}

/* ---- batches ---- */

void sched_worker_take(struct mob_sched *s, uint16_t worker, const struct sched_lane *lane)
{
    struct sched_worker *w = worker_at(s, worker);
    MOB_ASSERT(w->state == WORKER_IDLE && w->head == w->tail);
    sched_idle_remove(s, worker);
    w->state = WORKER_BUSY;
    w->class_id = lane->class_id;
    w->solo = lane->create;
    w->holds = w->holds_cpu = true;
    add_taken(s, w, 1, true, true);
    s->classes[w->class_id].busy++;
    s->creating_count += w->solo;
}

/* It makes no actor (any more). */
static void solo_end(struct mob_sched *s, struct sched_worker *w)
{
    s->creating_count -= w->solo;
    w->solo = false;
}

void sched_worker_append(struct mob_sched *s, uint16_t worker, struct mob_sched_task *t)
{
    struct sched_worker *w = worker_at(s, worker);
    MOB_ASSERT(worker_load(w) < MOB_SCHED_BATCH_MAX);
    uint32_t estimate = sched_estimate(s, t->function);
    if (w->head == w->tail)
        w->since = s->now;
    else
        sched_piled_mark(s, worker);
    *worker_place(w, w->tail++) = (struct sched_place){t->handle, estimate};
    w->estimate_sum += estimate;
    t->worker = worker;
    s->dispatched++;
    sched_set_state(s, t, MOB_SCHED_DISPATCHED);
    sched_untold_mark(s, worker);
}

void sched_worker_prepend(struct mob_sched *s, uint16_t worker, struct mob_sched_task *t)
{
    struct sched_worker *w = worker_at(s, worker);
    MOB_ASSERT(worker_load(w) < MOB_SCHED_BATCH_MAX);
    uint32_t estimate = sched_estimate(s, t->function);
    *worker_place(w, --w->head) = (struct sched_place){t->handle, estimate};
    if (worker_load(w) > 1)
        sched_piled_add(s, worker);
    w->estimate_sum += estimate;
    w->follow = w->tail;
}

/* Out of the ring; the ones behind move up. */
static void ring_remove(struct sched_worker *w, const struct mob_sched_task *t)
{
    uint32_t at = w->head;
    while (worker_place(w, at)->task != t->handle) {
        at++;
        MOB_ASSERT(at != w->tail);
    }
    w->estimate_sum -= worker_place(w, at)->estimate_ns;
    if (at == w->head) {
        w->head++;
        if ((int32_t)(w->told - w->head) < 0)
            w->told = w->head;
        if ((int32_t)(w->follow - w->head) < 0)
            w->follow = w->head;
        return;
    }
    w->told -= (int32_t)(w->told - at) > 0;
    w->follow -= (int32_t)(w->follow - at) > 0;
    for (w->tail--; at != w->tail; at++)
        *worker_place(w, at) = *worker_place(w, at + 1);
}

/* The batch is empty. */
static void run_dry(
    struct mob_sched *s, uint16_t worker, const struct mob_sched_task *t, int64_t now, bool keeps)
{
    struct sched_worker *w = worker_at(s, worker);
    if (w->state == WORKER_ACTOR) {
        sched_actor_mark(s, w->actor - 1);
        return;
    }
    if (w->below_count) {
        sched_nest_resume(s, worker);
        return;
    }
    solo_end(s, w);
    if (w->state != WORKER_BUSY)
        return;
    sched_hungry_remove(s, worker);
    s->classes[w->class_id].busy--;
    if (keeps) {
        if (!(t->flags & MOB_SCHED_HOLD_CPU))
            cpu_give(s, w);
        set_stuck(s, w, true);
        w->state = WORKER_ACTOR;
        s->actor_worker_count++;
        if (w->actor)
            sched_actor_mark(s, w->actor - 1);
        return;
    }
    release(s, w);
    idle_add(s, worker, now);
}

void sched_worker_remove(struct mob_sched *s, struct mob_sched_task *t, int64_t now, bool keeps)
{
    uint16_t worker = t->worker;
    struct sched_worker *w = worker_at(s, worker);
    if (worker_runs(w, t)) {
        if (w->families)
            sched_families_detach(s, w);
        if (w->below_count == 0) /* else the tree is that of the task at the bottom */
            w->tree = 0;
        w->since = now;
    }
    ring_remove(w, t);
    if (w->no_room) {
        w->no_room = false;
        if (w->told != w->tail)
            sched_untold_mark(s, worker);
    }
    if (w->head == w->tail)
        run_dry(s, worker, t, now, keeps);
    else if (w->state == WORKER_ACTOR)
        sched_actor_mark(s, w->actor - 1);
    else if (worker_load(w) <= MOB_SCHED_BATCH_MAX / 2 && (!w->hungry || w->follow != w->tail))
        sched_hungry_update(s, worker);
}

void sched_worker_ran(struct mob_sched *s, uint16_t worker, int64_t now)
{
    struct sched_worker *w = worker_at(s, worker);
    MOB_ASSERT(w->below_count == 0 && !w->no_room);
    w->tree = 0;
    w->since = now;
    if ((int32_t)(w->told - w->head) < 0)
        w->told = w->head;
    if ((int32_t)(w->follow - w->head) < 0)
        w->follow = w->head;
    if (w->head == w->tail)
        run_dry(s, worker, NULL, now, false);
    else if (w->state == WORKER_ACTOR)
        sched_actor_mark(s, w->actor - 1);
    else if (worker_load(w) <= MOB_SCHED_BATCH_MAX / 2 && (!w->hungry || w->follow != w->tail))
        sched_hungry_update(s, worker);
}

static void put_back(struct mob_sched *s, struct mob_sched_task *t, uint32_t *family)
{
    bool waits = t->waits && !(t->marks & MARK_KIDS);
    t->worker = SCHED_NIL16;
    s->revoked++;
    if (t->marks & MARK_STOPPING) {
        sched_fail(s, t, t->marks & MARK_OVERDUE ? MOB_DEADLINE : MOB_CANCELLED);
        return;
    }
    sched_set_state(s, t, waits ? MOB_SCHED_WAITING : MOB_SCHED_READY);
    if (t->marks & MARK_CALL)
        sched_actor_put_back(s, t);
    else if (!waits)
        sched_queue_push_front(s, t, family);
}

uint32_t sched_worker_revoke(struct mob_sched *s, uint16_t worker, uint32_t keep)
{
    struct sched_worker *w = worker_at(s, worker);
    uint32_t count = 0, family = 0;
    for (; worker_load(w) > keep; count++) {
        struct sched_place *p = worker_place(w, --w->tail);
        w->estimate_sum -= p->estimate_ns;
        put_back(s, task_at(s, p->task), &family);
    }
    if ((int32_t)(w->told - w->tail) > 0)
        w->told = w->tail;
    if ((int32_t)(w->follow - w->tail) > 0)
        w->follow = w->tail;
    w->no_room = false;
    return count;
}

void mob_sched_no_room(struct mob_sched *s, const struct mob_sched_task *t)
{
    if (t->state != MOB_SCHED_DISPATCHED)
        return;
    struct sched_worker *w = worker_at(s, t->worker);
    uint32_t at = w->told;
    do
        at--;
    while (worker_place(w, at)->task != t->handle && at != w->head);
    MOB_ASSERT(worker_place(w, at)->task == t->handle);
    w->told = at;
    w->no_room = true;
    sched_hungry_remove(s, t->worker);
}

void mob_sched_room(struct mob_sched *s, uint16_t worker)
{
    struct sched_worker *w = worker_at(s, worker);
    if (w->state == WORKER_NONE || !w->no_room)
        return;
    w->no_room = false;
    if (w->told != w->tail)
        sched_untold_mark(s, worker);
    sched_hungry_update(s, worker);
}

/* ---- blocking ---- */

enum mob_status mob_sched_blocked(
    struct mob_sched *s, struct mob_sched_task *t, uint32_t *revoked_out, int64_t now)
{
    if (t->state == MOB_SCHED_BLOCKED)
        mob_sched_unblocked(s, t, now); /* what it was given to run on top of it is not what it waits for */
    if (t->state != MOB_SCHED_DISPATCHED || !worker_runs(worker_at(s, t->worker), t))
        return MOB_CONFLICT;
    uint16_t worker = t->worker;
    struct sched_worker *w = worker_at(s, worker);
    s->now = now;
    s->late_family = 0;
    if (w->state == WORKER_BUSY) {
        if (s->blocked_count >= s->options.blocked_max)
            return MOB_TOO_MANY_BLOCKED;
        s->blocked_count++;
        sched_hungry_remove(s, worker);
        w->state = WORKER_BLOCKED;
        s->classes[w->class_id].busy--;
        cpu_give(s, w);
        set_stuck(s, w, true);
    } else if (w->state == WORKER_ACTOR) {
        w->state = WORKER_ACTOR_BLOCKED;
    }
    /* A follower whose input did not come though the task before it ended well. */
    if (t->waits && !(t->marks & MARK_KIDS) && w->ended)
        s->functions[w->ended].defers = true;
    *revoked_out = sched_worker_revoke(s, worker, 1);
    sched_families_to_top(s, w);
    sched_set_state(s, t, MOB_SCHED_BLOCKED);
    s->dirty = true;
    return MOB_OK;
}

void mob_sched_unblocked(struct mob_sched *s, struct mob_sched_task *t, int64_t now)
{
    if (t->state != MOB_SCHED_BLOCKED)
        return;
    struct sched_worker *w = worker_at(s, t->worker);
    s->now = now;
    if (w->below_count && worker_has_below(w, t)) {
        if (!mob_sched_buried(s, t))
            sched_nest_resume(s, t->worker);
        return;
    }
    sched_set_state(s, t, MOB_SCHED_DISPATCHED);
    if (w->state == WORKER_LEAVING)
        return;
    if (w->state == WORKER_ACTOR_BLOCKED) {
        w->state = WORKER_ACTOR;
        sched_actor_mark(s, w->actor - 1);
        return;
    }
    MOB_ASSERT(w->state == WORKER_BLOCKED);
    s->blocked_count--;
    set_stuck(s, w, false);
    w->state = WORKER_BUSY;
    s->classes[w->class_id].busy++;
    w->holds_cpu = true;
    add_taken(s, w, 1, true, false);
    /* Not hungry: who blocks once may block again. Its `since` is old, so nothing follows it either. */
}

/* ---- life ---- */

enum mob_status mob_sched_worker_added(struct mob_sched *s, uint16_t worker, uint8_t runtime, int64_t now)
{
    if (worker >= MOB_SCHED_WORKERS_MAX || runtime >= MOB_SCHED_RUNTIMES_MAX)
        return MOB_INVALID;
    struct sched_worker *w = worker_at(s, worker);
    if (w->state != WORKER_NONE)
        return MOB_EXISTS;
    if (!w->ring)
        w->ring = malloc(MOB_SCHED_BATCH_MAX * sizeof *w->ring);
    if (!w->ring)
        return MOB_NO_MEMORY;
    s->now = now;
    w->runtime = runtime;
    w->head = w->tail = w->told = w->follow = 0;
    w->estimate_sum = 0;
    w->actor = w->tree = w->follow_run = w->below_count = 0;
    w->ended = 0;
    w->asked = 0;
    s->worker_count++;
    struct sched_runtime *r = &s->runtimes[runtime];
    if (r->starting)
        r->starting--;
    r->failures = 0;
    idle_add(s, worker, now);
    return MOB_OK;
}

void mob_sched_reap_now(struct mob_sched *s, uint32_t count)
{
    s->reap_now = count;
    s->dirty = true;
}

void mob_sched_spawn_failed(struct mob_sched *s, uint8_t runtime, uint32_t count, int64_t now)
{
    MOB_ASSERT(runtime < MOB_SCHED_RUNTIMES_MAX);
    struct sched_runtime *r = &s->runtimes[runtime];
    r->starting -= count < r->starting ? count : r->starting;
    uint32_t shift = r->failures < 7 ? r->failures++ : 7;
    r->spawn_after = now + ((100 * MOB_MS) << shift);
    s->dirty = true;
}

/* A call that would end its actor's workers one after the other, while others wait for it. */
static bool call_gives_up(struct mob_sched_task *t, bool pays)
{
    if (!(t->flags & MOB_SCHED_SPENDS) || t->retries_left < 0 || !pays)
        return false;
    if (t->retries_left == 0)
        return true;
    t->retries_left--;
    return false;
}

/* A task that had started when its worker died. `pays`: with one of its retries, as it does anyway when it
 * has failed too often to be without blame. */
static void lost_running(struct mob_sched *s, struct mob_sched_task *t, bool pays, int64_t now)
{
    pays |= t->failures >= MOB_SCHED_UNPAID_MAX;
    if (t->state == MOB_SCHED_BLOCKED)
        sched_set_state(s, t, MOB_SCHED_DISPATCHED);
    if (t->marks & MARK_STOPPING) {
        sched_fail(s, t, t->marks & MARK_OVERDUE ? MOB_DEADLINE : MOB_CANCELLED);
        return;
    }
    if (t->marks & MARK_CALL && call_gives_up(t, pays)) {
        sched_fail(s, t, MOB_WORKER_DIED);
        return;
    }
    if (t->marks & MARK_CALL) { /* the actor's restart decides */
        t->marks &= (uint8_t)~MARK_KIDS;
        t->waits = 0;
        t->worker = SCHED_NIL16;
        sched_set_state(s, t, MOB_SCHED_READY);
        sched_actor_put_back(s, t); /* fails there, if the actor is closed */
        return;
    }
    if (sched_retry(s, t, pays, now))
        sched_note_push(s,
            (struct sched_note){
                .kind = MOB_DECIDE_RETRY, .task = t->handle, .status = MOB_WORKER_DIED, .unpaid = !pays});
    else
        sched_fail(s, t, MOB_WORKER_DIED);
}

/* Those that waited below the running task. They had no part in its crash; if the worker was killed for one
 * of them, the others, and the running one, have no part in that. */
static bool killed_for_one_below(const struct mob_sched *s, const struct sched_worker *w)
{
    for (uint32_t i = 0; i < w->below_count; i++)
        if (task_at(s, w->below[i].task)->marks & MARK_KILLED)
            return true;
    return false;
}

void mob_sched_worker_gone(struct mob_sched *s, uint16_t worker, bool unblamed, int64_t now)
{
    struct sched_worker *w = worker_at(s, worker);
    MOB_ASSERT(worker < MOB_SCHED_WORKERS_MAX && w->state != WORKER_NONE);
    s->now = now;
    s->late_family = 0;
    bool running = w->told != w->head;
    if (w->state == WORKER_IDLE)
        sched_idle_remove(s, worker);
    if (w->state == WORKER_BUSY)
        s->classes[w->class_id].busy--;
    if (w->state == WORKER_BLOCKED)
        s->blocked_count--;
    if (w->state == WORKER_ACTOR || w->state == WORKER_ACTOR_BLOCKED)
        s->actor_worker_count--;
    if (w->state == WORKER_LEAVING)
        s->leaving_count--;
    solo_end(s, w);
    sched_notes_forget_worker(s, worker);
    sched_hungry_remove(s, worker);
    sched_families_detach(s, w);
    release(s, w);
    sched_worker_revoke(s, worker, running);
    struct mob_sched_task *t = running ? task_at(s, worker_place(w, w->head)->task) : NULL;
    uint32_t actor = w->actor, below_count = w->below_count;
    bool innocent = unblamed || killed_for_one_below(s, w);
    w->head = w->tail = w->told = w->follow = 0;
    w->state = WORKER_NONE;
    w->actor = w->below_count = 0;
    s->worker_count--;
    s->dirty = true;
    if (t)
        lost_running(s, t, !innocent, now);
    for (uint32_t i = below_count; i > 0; i--) {
        bool ran = !t && i == below_count; /* the one on top had not been told */
        /* They come back in this order. */
        int64_t then = now + (int64_t)(1 + below_count - i);
        lost_running(s, task_at(s, w->below[i - 1].task), !innocent && ran, then);
    }
    if (actor)
        sched_actor_lost_worker(s, actor, worker, t, unblamed);
}
