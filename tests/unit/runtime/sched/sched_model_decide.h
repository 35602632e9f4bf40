/* Decisions of the real scheduler, checked against the model. Part of the property test's model. */
#ifndef MOB_TESTS_UNIT_RUNTIME_SCHED_MODEL_DECIDE_H
#define MOB_TESTS_UNIT_RUNTIME_SCHED_MODEL_DECIDE_H

#include "tests/unit/runtime/sched/sched_model.h"

/* ---- what was decided ---- */

static void announce(struct model *m, struct mob_task_id id)
{
    for (uint32_t slot = 0; slot < 2; slot++) {
        struct mob_object_id object = mob_object_of(id, slot);
        uint32_t woken = m_object_ready(m, object);
        M_CHECK(m, mob_sched_object_ready(m->s, object) == woken);
    }
}

static void end_task(struct model *m, int t)
{
    struct mob_task_id id = m->task[t].id;
    m->task[t].state = M_DONE;
    mob_sched_task_free(m->s, &m->task[t].rec->sched);
    m->task[t].rec = NULL;
    announce(m, id);
}

static void call_remove(struct model *m, int t)
{
    struct m_actor *a = &m->actor[m->task[t].actor];
    for (int i = 0; i < a->count; i++)
        if (a->queue[i] == t) {
            memmove(&a->queue[i], &a->queue[i + 1], (size_t)(a->count - i - 1) * sizeof a->queue[0]);
            a->count--;
        }
}

static void queue_remove(struct model *m, int t)
{
    struct m_task *x = &m->task[t];
    if (x->actor >= 0) {
        call_remove(m, t);
    } else if (x->state == M_READY) {
        m_remove(&m->lane[x->lane], m_index(&m->lane[x->lane], t));
    }
    m_drop_edges(m, t);
}

static void expect_fail(struct model *m, int t, enum mob_status status)
{
    m->task[t].state = M_FAILING;
    m->task[t].expected = status;
}

/* Times that have come: at most one, because the test steps from one to the next. */
static void run_times(struct model *m)
{
    m->late_group = 0;
    for (int t = 0; t < m->tasks; t++) {
        struct m_task *x = &m->task[t];
        bool queued = x->state == M_WAITING || x->state == M_DELAYED || x->state == M_READY;
        if (queued && x->deadline && x->deadline <= m->now) {
            queue_remove(m, t);
            expect_fail(m, t, MOB_DEADLINE);
        } else if (x->state == M_DELAYED && x->wake <= m->now) {
            x->wake = 0;
            if (x->missing)
                x->state = M_WAITING;
            else
                m_ready(m, t);
        } else if ((x->state == M_OUT || x->state == M_BLOCKED) && x->deadline && x->deadline <= m->now) {
            x->deadline = 0;
            x->overdue = !x->stopping;
            x->stopping = true;
        }
    }
}

static void check_dispatch(struct model *m, const struct mob_decision *d)
{
    int t = m_of(m, d->task);
    M_CHECK(m, t >= 0);
    struct m_task *x = &m->task[t];
    struct m_worker *w = &m->worker[d->worker];
    M_CHECK(m, w->alive && !w->leaving && !w->blocked);
    if (x->untold) { /* told again after the ring was full */
        M_CHECK(m, x->state == M_OUT && x->worker == d->worker);
        x->untold = false;
        return;
    }
    M_CHECK(m, x->state == M_READY || x->state == M_WAITING); /* so: once per attempt */
    M_CHECK(m, w->count < (int)MOB_SCHED_BATCH_MAX);
    struct mob_object_id object;
    for (int i = 0; m_is_missing(m, t, &object, i); i++) {
        int producer = m_find(m, object.task);
        M_CHECK(m, producer >= 0 && m_place(w, producer) >= 0);
    }
    if (x->actor >= 0) {
        struct m_actor *a = &m->actor[x->actor];
        M_CHECK(m, w->actor == x->actor && a->queue[0] == t);
        call_remove(m, t);
    } else {
        int class_id = m->lane[x->lane].class_id;
        M_CHECK(m, !w->actor_kept && (w->count == 0 || (w->class_id == class_id && !x->create)));
        if (w->count == 0)
            M_CHECK(m, m->was_idle[d->worker]);
        w->class_id = class_id;
        if (x->state == M_READY)
            m->told[m->told_count++] = t;
    }
    x->worker = d->worker;
    x->runs++;
    x->state = M_OUT;
    w->batch[w->count++] = t;
}

/* Ready tasks that went must be the first of their lane, and each worker got them in order. */
static void check_order(struct model *m)
{
    for (int k = 0; k < m->lanes; k++) {
        struct m_lane *l = &m->lane[k];
        int went = 0, last[M_WORKERS];
        memset(last, -1, sizeof last);
        for (int i = 0; i < m->told_count; i++) {
            struct m_task *x = &m->task[m->told[i]];
            if (x->lane != k)
                continue;
            int at = m_index(l, m->told[i]);
            M_CHECK(m, at > last[x->worker]);
            last[x->worker] = at;
            went++;
        }
        for (int i = 0; i < m->told_count; i++)
            if (m->task[m->told[i]].lane == k)
                M_CHECK(m, m_index(l, m->told[i]) < went);
        while (went--)
            m_remove(l, 0);
    }
}

static void check_fresh(struct model *m)
{
    for (int w = 0; w < M_WORKERS; w++) {
        struct m_worker *x = &m->worker[w];
        if (!m->was_idle[w] || !x->alive || x->count == 0)
            continue;
        struct m_lane *l = &m->lane[m->task[x->batch[0]].lane];
        for (int k = 0; k < M_KINDS; k++)
            if (m->demand[x->class_id][k])
                M_CHECK(m, m_taken(m, k) <= m->total[k]);
        for (int i = 0; i < m->lanes; i++)
            if (m->lane[i].job == l->job && m->lane[i].class_id == l->class_id &&
                m->lane[i].create == l->create)
                M_CHECK(m, m->lane[i].count == 0 || m->lane[i].priority <= l->priority);
    }
}

/* Nobody is idle while there is something to do, but for what is kept for those who starve. */
static void check_work(struct model *m)
{
    bool idle = false, starving = false;
    for (int w = 0; w < M_WORKERS; w++)
        idle |= m_is_idle(&m->worker[w]);
    for (int k = 0; k < m->lanes; k++) {
        struct m_lane *l = &m->lane[k];
        if (!l->count || m_fits(m, l->class_id))
            l->lacks_since = 0;
        else if (!l->lacks_since)
            l->lacks_since = m->now;
        starving |= l->lacks_since && m->now - l->lacks_since >= MOB_SEC / 2;
    }
    for (int k = 0; k < m->lanes && !starving; k++)
        M_CHECK(m, !(m->lane[k].count && idle && m_fits(m, m->lane[k].class_id)));
    for (int a = 0; a < M_ACTORS; a++) {
        struct m_actor *x = &m->actor[a];
        if (!x->open || x->worker < 0 || !x->count)
            continue;
        struct m_worker *w = &m->worker[x->worker];
        M_CHECK(m, w->blocked || m->task[x->queue[0]].state != M_READY || w->count > 0);
    }
}

static void revoke(struct model *m, struct m_worker *w, int from);

/* The worker has begun its first task, or some more that are as good as ended. */
static void take_back(struct model *m, int worker)
{
    struct m_worker *w = &m->worker[worker];
    M_CHECK(m, w->alive && !w->leaving && !w->blocked && w->count > 1);
    M_CHECK(m, m->told_count == 0);
    if (m_random(m, 8) == 0 && !m->ending)
        return; /* it cannot be asked now */
    int begun = m_random(m, 3) ? (int)m_random(m, 2) : (int)m_random(m, (uint32_t)w->count + 2);
    int stay = begun < 1 ? 1 : begun < w->count ? begun : w->count;
    uint32_t went = mob_sched_take_back(m->s, (uint16_t)worker, (uint32_t)begun, m->now);
    M_CHECK(m, went == (uint32_t)(w->count - stay));
    m->taken_back += went;
    for (int i = 0; i < stay; i++)
        m->task[w->batch[i]].kept = true;
    revoke(m, w, stay);
}

static void on_decision(struct model *m, const struct mob_decision *d)
{
    int t = d->task ? m_of(m, d->task) : -1;
    switch (d->kind) {
    case MOB_DECIDE_DISPATCH:
        check_dispatch(m, d);
        return;
    case MOB_DECIDE_FAIL:
        M_CHECK(m, t >= 0 && m->task[t].state == M_FAILING);
        M_CHECK(m, m->task[t].expected == d->status);
        end_task(m, t); /* while decisions are taken: what waited for it becomes ready */
        return;
    case MOB_DECIDE_RETRY:
        M_CHECK(m, t >= 0 && m->task[t].failures > 0);
        return;
    case MOB_DECIDE_TAKE_BACK:
        take_back(m, d->worker);
        return;
    case MOB_DECIDE_STOP:
    case MOB_DECIDE_KILL:
        M_CHECK(m, t >= 0 && m->task[t].stopping && m->task[t].worker == d->worker);
        if (d->kind == MOB_DECIDE_KILL)
            m->kill[m->kills++] = d->worker;
        if (d->kind == MOB_DECIDE_KILL)
            m->task[t].killed = true;
        return;
    case MOB_DECIDE_SPAWN:
        if (m_random(m, 8) == 0 && !m->ending) {
            mob_sched_spawn_failed(m->s, d->runtime, d->count, m->now);
            return;
        }
        for (uint32_t i = 0; i < d->count; i++) {
            int w = 0;
            while (w < M_WORKERS && m->worker[w].alive)
                w++;
            M_CHECK(m, w < M_WORKERS);
            m->worker[w] = (struct m_worker){.alive = true, .actor = -1};
            m->was_idle[w] = true;
            M_CHECK(m, mob_sched_worker_added(m->s, (uint16_t)w, 1, m->now) == MOB_OK);
        }
        return;
    case MOB_DECIDE_REAP:
        M_CHECK(m, m->worker[d->worker].leaving || m_is_idle(&m->worker[d->worker]));
        m->worker[d->worker].leaving = true;
        return;
    case MOB_DECIDE_ACTOR_DOWN:
        M_CHECK(m, m->actor[d->actor - 1].worker < 0);
        return;
    case MOB_DECIDE_FORWARD:
        M_FAIL(m, "forwarded without a global scheduler");
    }
}

static void worker_dies(struct model *m, int worker);

static void settle(struct model *m)
{
    run_times(m);
    do {
        struct mob_decision d;
        m->told_count = m->kills = 0;
        for (int w = 0; w < M_WORKERS; w++)
            m->was_idle[w] = m_is_idle(&m->worker[w]);
        while (mob_sched_next(m->s, m->now, &d))
            on_decision(m, &d);
        check_order(m);
        check_fresh(m);
        for (int i = 0; i < m->kills; i++)
            if (m->worker[m->kill[i]].alive) /* not for another one on the same stack */
                worker_dies(m, m->kill[i]);
    } while (m->kills);
    for (int t = 0; t < m->tasks; t++)
        M_CHECK(m, m->task[t].state != M_FAILING);
    check_work(m);
}

#endif
