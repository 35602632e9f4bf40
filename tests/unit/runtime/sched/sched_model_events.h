/* Events, told to the real scheduler and to the model. Part of the property test's model. */
#ifndef MOB_TESTS_UNIT_RUNTIME_SCHED_MODEL_EVENTS_H
#define MOB_TESTS_UNIT_RUNTIME_SCHED_MODEL_EVENTS_H

#include "tests/unit/runtime/sched/sched_model_decide.h"

static const int64_t initial_backoff = 10 * MOB_MS;

/* ---- what happens ---- */

static int pick_running(struct model *m, enum m_state state)
{
    int found = -1;
    uint32_t seen = 0;
    for (int w = 0; w < M_WORKERS; w++) {
        const struct m_worker *x = &m->worker[w];
        if (x->alive && x->count && m->task[x->batch[0]].state == state && !m->task[x->batch[0]].untold &&
            m_random(m, ++seen) == 0)
            found = x->batch[0];
    }
    return found;
}

/* It has been submitted. */
static void entered(struct model *m, int t)
{
    struct m_task *x = &m->task[t];
    if (x->parent >= 0 && m->task[x->parent].kin_cancelled) {
        m_drop_edges(m, t);
        expect_fail(m, t, MOB_CANCELLED);
        return;
    }
    if (x->actor >= 0)
        m->actor[x->actor].queue[m->actor[x->actor].count++] = t;
    x->state = x->wake ? M_DELAYED : x->missing ? M_WAITING : M_READY;
    if (x->state != M_READY || x->actor >= 0)
        return;
    m->late_group = 0;
    if (x->parent >= 0)
        m_push_child(m, t, x->parent);
    else
        m_ready(m, t);
}

static void submit(struct model *m, int parent, int actor, bool create)
{
    if (m->tasks == M_TASKS ||
        (parent >= 0 && m->task[parent].missing)) /* that one waits for its arguments */
        return;
    int t = m->tasks++;
    struct m_task *x = &m->task[t];
    *x = (struct m_task){
        .parent = parent, .actor = actor, .worker = -1, .create = create, .nested = parent >= 0};
    int job = (int)m_random(m, (uint32_t)m->jobs), class_id = (int)m_random(m, create ? 2 : M_CLASSES);
    int priority = m_random(m, 4) ? 0 : (int)m_random(m, 3) - 1;
    bool alike = m->alike && parent >= 0 && m->task[parent].actor < 0;
    if (alike) {
        job = m->lane[m->task[parent].lane].job;
        class_id = m->lane[m->task[parent].lane].class_id;
    }
    x->id = parent >= 0
        ? (struct mob_task_id){fx_stream((uint32_t)parent, 1), (uint32_t)m->task[parent].kids++}
        : (struct mob_task_id){fx_stream(1u << 20, 0), (uint32_t)t};
    x->lane = actor >= 0 ? 0 : m_lane_of(m, job, class_id, priority, create, m_tree_below(m, parent));
    struct mob_object_id missing[M_INPUTS];
    uint32_t inputs = alike || m_random(m, 3) ? 0 : 1 + m_random(m, M_INPUTS);
    for (uint32_t i = 0; i < inputs; i++) {
        int producer = (int)m_random(m, (uint32_t)t + 1);
        if (producer == t || m->task[producer].state == M_DONE || producer == parent)
            continue; /* nothing to wait for */
        missing[x->missing] = mob_object_of(m->task[producer].id, m_random(m, 2));
        m->edge[m->edges].task = t;
        m->edge[m->edges++].object = missing[x->missing++];
        M_CHECK(m, m->edges < M_EDGES);
    }
    x->retries = m_random(m, 3) ? (int)m_random(m, 3) : -1;
    x->on_error = m_random(m, 2);
    x->wake = alike || m_random(m, 8) ? 0 : m->now + 1 + m_random(m, 3000000);
    x->deadline = m_random(m, 10) ? 0 : m->now + 1 + m_random(m, 20000000);
    x->rec = mob_sched_task_alloc(m->s);
    struct mob_sched_submit in = {.id = x->id,
        .parent = parent >= 0 ? &m->task[parent].rec->sched : NULL,
        .missing = missing,
        .missing_count = (uint32_t)x->missing,
        .job = m->job[job],
        .class_id = m->class_id[class_id],
        .function = m->function[m_random(m, 3)],
        .priority = (int16_t)priority,
        .actor = actor >= 0 ? (uint32_t)actor + 1 : 0,
        .flags =
            (uint8_t)((x->on_error ? MOB_SCHED_RETRY_ON_ERROR : 0) | (create ? MOB_SCHED_ACTOR_CREATE : 0)),
        .max_retries = x->retries,
        .not_before = x->wake,
        .deadline = x->deadline};
    M_CHECK(m, mob_sched_submit(m->s, &x->rec->sched, &in, m->now) == MOB_OK);
    m->newest = in;
    entered(m, t);
}

static int sibling_of(struct model *m, int first)
{
    int t = m->tasks++, parent = m->task[first].parent;
    struct m_task *x = &m->task[t];
    const struct m_task *like = &m->task[first];
    *x = (struct m_task){.parent = parent,
        .actor = like->actor,
        .worker = -1,
        .nested = like->nested,
        .lane = like->lane,
        .on_error = like->on_error,
        .retries = m->newest.max_retries};
    x->id = parent >= 0
        ? (struct mob_task_id){fx_stream((uint32_t)parent, 1), (uint32_t)m->task[parent].kids++}
        : (struct mob_task_id){fx_stream(1u << 20, 0), (uint32_t)t};
    x->rec = mob_sched_task_alloc(m->s);
    x->rec->sched.id = x->id;
    return t;
}

/* Siblings of the newest task, which needs nothing and nothing happened since: what the scheduler does not
 * take in one go is submitted one by one. */
static void submit_siblings(struct model *m, uint32_t count)
{
    int first = m->tasks - 1;
    struct mob_sched_submit in = m->newest;
    struct mob_sched_task *tasks[8];
    if (first < 0 || in.missing_count || in.not_before || in.deadline || m->task[first].create ||
        m->tasks + (int)count > M_TASKS)
        return;
    for (uint32_t i = 0; i < count; i++)
        tasks[i] = &m->task[sibling_of(m, first)].rec->sched;
    bool plain = m->task[first].state == M_READY && m->task[first].actor < 0;
    for (uint32_t i = 0; i < count;) {
        uint32_t done =
            mob_sched_submit_more(m->s, &m->task[first + (int)i].rec->sched, tasks + i, count - i, in.parent);
        M_CHECK(m, done == 0 || (plain && done == count - i));
        m->together += done;
        if (done == 0) {
            in.id = tasks[i]->id;
            M_CHECK(m, mob_sched_submit(m->s, tasks[i], &in, m->now) == MOB_OK);
        }
        for (uint32_t end = i + (done ? done : 1); i < end; i++)
            entered(m, first + 1 + (int)i);
    }
}

/* In front of its actor's queue; of a closed actor it fails. */
static void call_put_back(struct model *m, int t)
{
    struct m_actor *a = &m->actor[m->task[t].actor];
    if (!a->open) {
        m_drop_edges(m, t);
        expect_fail(m, t, MOB_ACTOR_DIED);
        return;
    }
    memmove(&a->queue[1], &a->queue[0], (size_t)a->count++ * sizeof a->queue[0]);
    a->queue[0] = t;
}

static bool model_retries(struct model *m, int t, bool pays, int64_t now)
{
    struct m_task *x = &m->task[t];
    if ((pays && x->retries == 0) || x->stopping)
        return false;
    x->retries -= x->retries > 0 && pays;
    m_drop_edges(m, t);
    int64_t wait = initial_backoff;
    for (int i = 0; i < x->failures && wait < 10 * MOB_SEC; i++)
        wait *= 2;
    x->failures++;
    x->wake = now + (wait < 10 * MOB_SEC ? wait : 10 * MOB_SEC);
    x->state = M_DELAYED;
    if (x->actor >= 0)
        call_put_back(m, t);
    return true;
}

static int actor_of_create(const struct model *m, int t)
{
    for (int a = 0; a < M_ACTORS; a++)
        if (m->actor[a].open && m->actor[a].create == t)
            return a;
    return -1;
}

static void finish(struct model *m, int t, enum mob_status status)
{
    struct m_task *x = &m->task[t];
    struct m_worker *w = &m->worker[x->worker];
    int worker = x->worker;
    bool again = status && x->on_error && x->retries != 0 && !x->stopping;
    again = again && (x->actor < 0 || m->actor[x->actor].open);
    if (status == MOB_OK && m_random(m, 2)) /* results may be told before or after */
        announce(m, x->id);
    if (m_below_top(m, t))
        m_resume(m, w);
    w->blocked = false;
    m_take_out(m, w, 0);
    bool keeps = x->create && status == MOB_OK;
    int64_t run = m_random(m, 20) ? 200 + m_random(m, 2000) : m_random(m, 30000000);
    enum mob_sched_after after =
        mob_sched_finished(m->s, &x->rec->sched, status, m_random(m, 8) ? run : -1, m->now);
    M_CHECK(m, (after == MOB_SCHED_RETRY) == again);
    for (int i = 0; i < w->count; i++) /* whoever was not told is told again now */
        M_CHECK(m, m->task[w->batch[i]].state == M_OUT);
    if (keeps) {
        w->actor_kept = true;
        int a = actor_of_create(m, t);
        w->leaving = a < 0; /* it was closed meanwhile */
        if (a >= 0) {
            w->actor = a;
            m->actor[a].worker = worker;
            M_CHECK(m, mob_sched_actor_up(m->s, (uint32_t)a + 1, (uint16_t)worker) == MOB_OK);
        }
    }
    if (again) {
        M_CHECK(m, model_retries(m, t, true, m->now));
        return;
    }
    m_drop_edges(m, t);
    x->continued = status == MOB_OK && m_random(m, 3) == 0;
    end_task(m, t);
}

/* The first ones of a batch, the running one and some behind it, end well without a word in between. */
static void finish_run(struct model *m, int running)
{
    struct m_worker *w = &m->worker[m->task[running].worker];
    int worker = m->task[running].worker, ended[8];
    int64_t run_ns[8];
    uint32_t count = 1 + m_random(m, 8), told = 0;
    while (told < count && told < (uint32_t)w->count && !m->task[w->batch[told]].untold)
        told++;
    for (uint32_t i = 0; i < told; i++)
        run_ns[i] = m_random(m, 8) ? 200 + (int64_t)m_random(m, 2000) : -1;
    uint32_t done = mob_sched_finished_run(m->s, (uint16_t)worker, run_ns, told, m->now);
    M_CHECK(m, done <= told);
    M_CHECK(m, done == 0 || (!w->below_count && !w->blocked && !m->task[running].create));
    m->ended_together += done > 1 ? done - 1 : 0;
    for (uint32_t i = 0; i < done; i++) {
        ended[i] = w->batch[0];
        M_CHECK(m, !m->task[ended[i]].missing);
        m_take_out(m, w, 0);
    }
    for (uint32_t i = 0; i < done; i++) {
        m_drop_edges(m, ended[i]);
        m->task[ended[i]].continued = m_random(m, 3) == 0;
        end_task(m, ended[i]);
    }
    if (done == 0)
        finish(m, running, m->task[running].stopping ? MOB_CANCELLED : MOB_OK);
}

/* Back to the front, in order. `from`: the first that had not started. */
static void revoke(struct model *m, struct m_worker *w, int from)
{
    int group = 0, group_lane = -1;
    for (int i = w->count - 1; i >= from; i--) {
        int t = w->batch[i];
        struct m_task *x = &m->task[t];
        x->untold = false;
        x->worker = -1;
        if (x->stopping) {
            m_drop_edges(m, t);
            expect_fail(m, t, x->overdue ? MOB_DEADLINE : MOB_CANCELLED);
            continue;
        }
        x->state = x->missing ? M_WAITING : M_READY;
        if (x->actor >= 0) {
            call_put_back(m, t);
        } else if (!x->missing) {
            struct m_lane *l = &m->lane[x->lane];
            int base = m_first_of(l, 0);
            if (!x->nested) {
                m_insert(l, base < 0 ? l->count : base, t, 0);
            } else if (group_lane != x->lane) {
                group = m_new_group(m, -1);
                group_lane = x->lane;
                m_insert(l, 0, t, group);
            } else {
                m_insert(l, m_first_of(l, group), t, group);
            }
        }
    }
    w->count = from;
}

static void block(struct model *m, int t)
{
    struct m_task *x = &m->task[t];
    struct m_worker *w = &m->worker[x->worker];
    if (m_below_top(m, t))
        m_resume(m, w);
    uint32_t revoked, expected = (uint32_t)w->count - 1;
    M_CHECK(m, mob_sched_blocked(m->s, &x->rec->sched, &revoked, m->now) == MOB_OK);
    M_CHECK(m, revoked == expected);
    revoke(m, w, 1);
    m_blocked_to_top(m, t);
    x->state = M_BLOCKED;
    w->blocked = true;
}

static void unblock(struct model *m, int t)
{
    mob_sched_unblocked(m->s, &m->task[t].rec->sched, m->now);
    if (m_below_top(m, t)) {
        m_resume(m, &m->worker[m->task[t].worker]);
        return;
    }
    m->task[t].state = M_OUT;
    m->worker[m->task[t].worker].blocked = false;
}

/* May c run on top of t, which runs? */
static bool may_nest(const struct model *m, int t, int c)
{
    const struct m_task *x = &m->task[t], *y = &m->task[c];
    const struct m_worker *w = &m->worker[x->worker];
    if (c == t || x->actor >= 0 || y->actor >= 0 || w->actor_kept || x->create || y->create ||
        w->below_count == M_NEST)
        return false;
    bool behind = y->state == M_OUT && y->worker == x->worker && !y->missing && m_place(w, c) > 0;
    if ((y->state != M_READY && !behind) || y->failures || !x->retries || !y->retries || x->stopping ||
        y->stopping)
        return false;
    const struct m_lane *lower = &m->lane[x->lane], *upper = &m->lane[y->lane];
    int tree = lower->tree >= 0 ? lower->tree : t * 1000 + x->runs;
    return lower->job == upper->job && lower->class_id == upper->class_id && upper->class_id == 0 &&
        upper->tree == tree;
}

static void nest(struct model *m, int t, int c)
{
    struct m_worker *w = &m->worker[m->task[t].worker];
    uint32_t revoked = 0;
    bool fits = may_nest(m, t, c);
    enum mob_status status =
        mob_sched_nest(m->s, &m->task[t].rec->sched, &m->task[c].rec->sched, &revoked, m->now);
    M_CHECK(m, (status == MOB_OK) == fits);
    if (!fits)
        return;
    M_CHECK(m, revoked == (uint32_t)w->count - 1);
    revoke(m, w, 1);
    m_blocked_to_top(m, t);
    for (int group = 1; group <= m->next_group; group++) /* what it makes later is a family of its own */
        if (m->group_owner[group] == t)
            m->group_owner[group] = -1;
    m_remove(&m->lane[m->task[c].lane], m_index(&m->lane[m->task[c].lane], c));
    w->below[w->below_count++] = t;
    m->task[t].state = M_BLOCKED;
    w->batch[0] = c;
    m->task[c].state = M_OUT;
    m->task[c].worker = m->task[t].worker;
    m->task[c].runs++;
    m->task[c].untold = true; /* the decision comes */
}

/* A task that waits below another one, and is directly below. */
static int pick_below(struct model *m)
{
    int found = -1;
    uint32_t seen = 0;
    for (int i = 0; i < M_WORKERS; i++) {
        const struct m_worker *w = &m->worker[i];
        if (w->alive && w->below_count && m_below_top(m, w->below[w->below_count - 1]) &&
            m_random(m, ++seen) == 0)
            found = w->below[w->below_count - 1];
    }
    return found;
}

/* A task that had started is lost with its worker. */
static void lose(struct model *m, int t, bool pays, int64_t now)
{
    struct m_task *x = &m->task[t];
    pays |= x->failures >= (int)MOB_SCHED_UNPAID_MAX;
    x->worker = -1;
    if (x->stopping) {
        m_drop_edges(m, t);
        expect_fail(m, t, x->overdue ? MOB_DEADLINE : MOB_CANCELLED);
    } else if (x->actor >= 0) {
        m_drop_edges(m, t);
        x->state = M_READY;
        call_put_back(m, t);
    } else if (!model_retries(m, t, pays, now)) {
        m_drop_edges(m, t);
        expect_fail(m, t, MOB_WORKER_DIED);
    }
}

static void worker_dies(struct model *m, int worker)
{
    struct m_worker *w = &m->worker[worker];
    bool unblamed = m_random(m, 4) == 0;
    mob_sched_worker_gone(m->s, (uint16_t)worker, unblamed, m->now);
    int running = w->count && !m->task[w->batch[0]].untold ? w->batch[0] : -1;
    revoke(m, w, running >= 0);
    int actor = w->actor, below[M_NEST], below_count = w->below_count;
    bool innocent = unblamed;
    memcpy(below, w->below, sizeof below);
    for (int i = 0; i < below_count; i++)
        innocent |= m->task[below[i]].killed;
    *w = (struct m_worker){.actor = -1};
    if (actor >= 0)
        m->actor[actor].worker = -1;
    if (running >= 0)
        lose(m, running, !innocent, m->now);
    for (int i = below_count; i > 0; i--)
        lose(m, below[i - 1], !innocent && running < 0 && i == below_count, m->now + 1 + below_count - i);
    if (actor >= 0 && !m->actor[actor].open)
        m->actor[actor].closing = false;
    else if (actor >= 0) { /* it gets a new creation */
        m->actor[actor].create = m->tasks;
        if (m->tasks < M_TASKS)
            submit(m, -1, -1, true);
    }
}

static void cancel_model(struct model *m, int t, bool recursive);

static void cancel_kin(struct model *m, int t)
{
    for (int c = 0; c < m->tasks; c++) {
        if (m->task[c].parent != t)
            continue;
        if (m->task[c].state == M_DONE && m->task[c].continued)
            cancel_kin(m, c);
        else if (m->task[c].state != M_DONE && m->task[c].state != M_FAILING)
            cancel_model(m, c, true);
    }
}

static void cancel_model(struct model *m, int t, bool recursive)
{
    struct m_task *x = &m->task[t];
    bool started = x->state == M_OUT || x->state == M_BLOCKED || x->failures;
    if (recursive && started) {
        x->kin_cancelled = true;
        cancel_kin(m, t);
    }
    if (x->state == M_OUT && x->untold) {
        struct m_worker *w = &m->worker[x->worker];
        m_take_out(m, w, m_place(w, t));
        m_drop_edges(m, t);
        expect_fail(m, t, MOB_CANCELLED);
    } else if (x->state == M_OUT || x->state == M_BLOCKED) {
        x->stopping = true;
        x->deadline = 0;
    } else if (x->state == M_WAITING || x->state == M_READY || x->state == M_DELAYED) {
        queue_remove(m, t);
        expect_fail(m, t, MOB_CANCELLED);
    }
}

static void no_room(struct model *m)
{
    int w = (int)m_random(m, M_WORKERS);
    while (w < M_WORKERS && m->worker[w].count < 2)
        w++;
    if (w == M_WORKERS || m->worker[w].blocked || m->worker[w].leaving)
        return;
    int from = 1 + (int)m_random(m, (uint32_t)m->worker[w].count - 1);
    if (m->task[m->worker[w].batch[from]].untold)
        return;
    mob_sched_no_room(m->s, &m->task[m->worker[w].batch[from]].rec->sched);
    for (int i = from; i < m->worker[w].count; i++)
        m->task[m->worker[w].batch[i]].untold = true;
}

static void open_actor(struct model *m)
{
    int open = 0;
    for (int a = 0; a < M_ACTORS; a++)
        open += m->actor[a].open || m->actor[a].closing;
    if (open >= 3)
        return;
    uint32_t number;
    M_CHECK(m, mob_sched_actor_open(m->s, &number) == MOB_OK && number <= M_ACTORS);
    struct m_actor *a = &m->actor[number - 1];
    M_CHECK(m, !a->open && !a->closing);
    *a = (struct m_actor){.open = true, .worker = -1, .create = m->tasks};
    submit(m, -1, -1, true);
}

static void close_actor(struct model *m)
{
    int number = (int)m_random(m, 3);
    struct m_actor *a = &m->actor[number];
    if (!a->open)
        return;
    mob_sched_actor_close(m->s, (uint32_t)number + 1, MOB_ACTOR_DIED);
    a->open = false;
    if (a->worker >= 0) {
        struct m_worker *w = &m->worker[a->worker];
        a->closing = w->leaving = true;
        revoke(m, w, w->count && !m->task[w->batch[0]].untold);
    }
    while (a->count) {
        int t = a->queue[0];
        queue_remove(m, t);
        expect_fail(m, t, MOB_ACTOR_DIED);
    }
}

/* Workers that were told to leave, and have nothing to do any more, leave. */
static void leave(struct model *m)
{
    for (int w = 0; w < M_WORKERS; w++)
        if (m->worker[w].alive && m->worker[w].leaving && m->worker[w].count == 0)
            worker_dies(m, w);
}

#endif
