/* The local scheduler's rules once more, as naively as possible: flat arrays, everything searched. The
 * property test compares the real one with it. */
#ifndef MOB_TESTS_UNIT_RUNTIME_SCHED_MODEL_H
#define MOB_TESTS_UNIT_RUNTIME_SCHED_MODEL_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/runtime/sched/sched_fixture.h"

#define M_TASKS 512
#define M_EDGES 4096
#define M_LANES 256
#define M_WORKERS 512
#define M_INPUTS 6
#define M_ACTORS 16
#define M_CLASSES 4
#define M_KINDS 4
#define M_NEST 3

enum m_state { M_NONE, M_WAITING, M_DELAYED, M_READY, M_OUT, M_BLOCKED, M_FAILING, M_DONE };
struct m_task {
    struct fx_record *rec;
    struct mob_task_id id;
    enum m_state state;
    int parent, lane, worker, actor; /* -1 = none; actor of a call */
    int missing, retries, failures, kids, runs;
    bool nested, on_error, create, stopping, overdue, untold;
    bool kin_cancelled; /* what it submits from now on is cancelled too */
    bool continued; /* DONE, but not what it became */
    bool killed; /* its worker was to be killed for it */
    bool kept; /* it may have begun, when its worker was asked */
    int64_t deadline, wake;
    enum mob_status expected; /* FAILING */
};
struct m_entry { /* a place in a lane; groups are families, 0 = the base */
    int task, group;
};
struct m_lane {
    int job, class_id, priority, count;
    int tree; /* -1: roots; else which run of which root its tasks descend from */
    bool create;
    int64_t lacks_since;
    struct m_entry entry[M_TASKS];
};
struct m_worker {
    bool alive, leaving, actor_kept;
    int count, actor; /* batch; actor whose instance it keeps, -1 */
    int batch[MOB_SCHED_BATCH_MAX];
    int class_id; /* held while count > 0, or kept */
    bool blocked;
    int below[M_NEST], below_count; /* wait for the one above them, which batch[0] is */
};
struct m_actor {
    bool open, closing; /* closing: its worker is still there */
    int worker, create, count;
    int queue[M_TASKS];
};
struct model {
    struct mob_sched *s;
    uint64_t seed, random;
    int64_t now;
    struct m_task task[M_TASKS];
    int tasks, lanes, next_group, edges, jobs;
    struct m_lane lane[M_LANES];
    struct {
        int task;
        struct mob_object_id object;
    } edge[M_EDGES];
    int group_owner[M_TASKS * 8], group_run[M_TASKS * 8]; /* parent and which run of it */
    struct m_worker worker[M_WORKERS];
    struct m_actor actor[M_ACTORS];
    uint16_t job[4], class_id[M_CLASSES];
    uint16_t function[3];
    int64_t demand[M_CLASSES][M_KINDS], total[M_KINDS];
    int late_group, late_lane;
    int told[M_TASKS], told_count;
    bool was_idle[M_WORKERS], ending;
    bool alike; /* children are of their parent's kind, and ready */
    int kill[M_WORKERS], kills;
    uint64_t taken_back;
    uint64_t together, ended_together; /* submitted with the one before, ended with it */
    struct mob_sched_submit newest; /* how the newest task was submitted */
};

#define M_FAIL(m, ...) \
    do { \
        print_error("replay with MOBULA_SEED=%llu\n", (unsigned long long)(m)->seed); \
        fail_msg(__VA_ARGS__); \
        abort(); /* not reached; the compiler does not know */ \
    } while (0)
#define M_CHECK(m, condition) \
    do { \
        if (!(condition)) \
            M_FAIL(m, "violated: %s (line %d)", #condition, __LINE__); \
    } while (0)

static inline uint32_t m_random(struct model *m, uint32_t below)
{
    m->random = m->random * 6364136223846793005ull + 1442695040888963407ull;
    uint64_t x = m->random ^ m->random >> 33;
    return (uint32_t)((x >> 16) % below);
}

/* ---- lanes ---- */

static inline void m_insert(struct m_lane *l, int at, int task, int group)
{
    memmove(&l->entry[at + 1], &l->entry[at], (size_t)(l->count - at) * sizeof l->entry[0]);
    l->entry[at] = (struct m_entry){task, group};
    l->count++;
}

static inline int m_index(const struct m_lane *l, int task)
{
    for (int i = 0; i < l->count; i++)
        if (l->entry[i].task == task)
            return i;
    return -1;
}

static inline void m_remove(struct m_lane *l, int at)
{
    memmove(&l->entry[at], &l->entry[at + 1], (size_t)(l->count - at - 1) * sizeof l->entry[0]);
    l->count--;
}

static inline int m_first_of(const struct m_lane *l, int group)
{
    for (int i = 0; i < l->count; i++)
        if (l->entry[i].group == group)
            return i;
    return -1;
}

static inline int m_lane_of(struct model *m, int job, int class_id, int priority, bool create, int tree)
{
    int i = 0;
    for (; i < m->lanes; i++)
        if (m->lane[i].job == job && m->lane[i].class_id == class_id && m->lane[i].priority == priority &&
            m->lane[i].create == create && m->lane[i].tree == tree)
            return i;
    M_CHECK(m, m->lanes < M_LANES);
    m->lane[i] = (struct m_lane){
        .job = job, .class_id = class_id, .priority = priority, .create = create, .tree = tree};
    m->lanes++;
    return i;
}

/* Children of a nested task are of its tree; a root, or an actor's call, begins one with each run. */
static inline int m_tree_below(const struct model *m, int parent)
{
    if (parent < 0)
        return -1;
    const struct m_task *p = &m->task[parent];
    if (p->actor < 0 && m->lane[p->lane].tree >= 0)
        return m->lane[p->lane].tree;
    return parent * 1000 + p->runs;
}

static inline int m_new_group(struct model *m, int owner)
{
    int group = ++m->next_group;
    M_CHECK(m, group < M_TASKS * 8);
    m->group_owner[group] = owner;
    m->group_run[group] = owner >= 0 ? m->task[owner].runs : 0;
    return group;
}

/* Released by an event: roots to the end, nested ones as a new group on top, together with their neighbours.
 */
static inline void m_push_released(struct model *m, int t)
{
    struct m_lane *l = &m->lane[m->task[t].lane];
    if (!m->task[t].nested) {
        m_insert(l, l->count, t, 0);
        return;
    }
    if (!m->late_group || m->late_lane != m->task[t].lane) {
        m->late_lane = m->task[t].lane;
        m->late_group = m_new_group(m, -1);
        m_insert(l, 0, t, m->late_group);
        return;
    }
    int at = m_first_of(l, m->late_group);
    while (at < l->count && l->entry[at].group == m->late_group)
        at++;
    m_insert(l, at, t, m->late_group);
}

static inline void m_push_child(struct model *m, int t, int parent)
{
    struct m_lane *l = &m->lane[m->task[t].lane];
    for (int i = l->count - 1; i >= 0; i--) {
        int group = l->entry[i].group;
        if (group && m->group_owner[group] == parent && m->group_run[group] == m->task[parent].runs) {
            m_insert(l, i + 1, t, group);
            return;
        }
    }
    m_insert(l, 0, t, m_new_group(m, parent));
}

static inline void m_blocked_to_top(struct model *m, int parent)
{
    for (int k = 0; k < m->lanes; k++) {
        struct m_lane *l = &m->lane[k];
        int top = 0;
        for (int i = 0; i < l->count; i++) {
            struct m_entry e = l->entry[i];
            if (!e.group || m->group_owner[e.group] != parent ||
                m->group_run[e.group] != m->task[parent].runs)
                continue;
            m_remove(l, i);
            m_insert(l, top++, e.task, e.group);
        }
    }
}

/* ---- inputs ---- */

static inline void m_ready(struct model *m, int t)
{
    m->task[t].state = M_READY;
    if (m->task[t].actor < 0)
        m_push_released(m, t);
}

static inline void m_drop_edges(struct model *m, int t)
{
    int kept = 0;
    for (int i = 0; i < m->edges; i++)
        if (m->edge[i].task != t)
            m->edge[kept++] = m->edge[i];
    m->edges = kept;
    m->task[t].missing = 0;
}

static inline uint32_t m_object_ready(struct model *m, struct mob_object_id object)
{
    uint32_t count = 0;
    int kept = 0, woken[M_EDGES];
    for (int i = 0; i < m->edges; i++) {
        if (mob_object_id_eq(m->edge[i].object, object))
            woken[count++] = m->edge[i].task;
        else
            m->edge[kept++] = m->edge[i];
    }
    m->edges = kept;
    m->late_group = 0;
    for (uint32_t i = 0; i < count; i++)
        if (--m->task[woken[i]].missing == 0 && m->task[woken[i]].state == M_WAITING)
            m_ready(m, woken[i]);
    m->late_group = 0;
    return count;
}

static inline bool m_is_missing(const struct model *m, int t, struct mob_object_id *object_out, int nth)
{
    for (int i = 0; i < m->edges; i++)
        if (m->edge[i].task == t && nth-- == 0) {
            *object_out = m->edge[i].object;
            return true;
        }
    return false;
}

static inline int m_find(const struct model *m, struct mob_task_id id)
{
    for (int i = 0; i < m->tasks; i++)
        if (m->task[i].state != M_NONE && m->task[i].state != M_DONE && mob_task_id_eq(m->task[i].id, id))
            return i;
    return -1;
}

static inline int m_of(const struct model *m, const struct mob_sched_task *t)
{
    for (int i = 0; i < m->tasks; i++)
        if (m->task[i].rec && &m->task[i].rec->sched == t)
            return i;
    return -1;
}

/* ---- resources ---- */

/* CPU of blocked workers is free; kept workers of actors hold no CPU. */
static inline int64_t m_taken(const struct model *m, int kind)
{
    int64_t taken = 0;
    for (int w = 0; w < M_WORKERS; w++) {
        const struct m_worker *x = &m->worker[w];
        bool holds = x->alive && (x->actor_kept || (x->count > 0));
        if (holds && (kind != 0 || (!x->actor_kept && !x->blocked)))
            taken += m->demand[x->class_id][kind];
    }
    return taken;
}

static inline bool m_fits(const struct model *m, int class_id)
{
    for (int k = 0; k < M_KINDS; k++)
        if (m->demand[class_id][k] && m->total[k] - m_taken(m, k) < m->demand[class_id][k])
            return false;
    return true;
}

static inline bool m_is_idle(const struct m_worker *w)
{
    return w->alive && !w->leaving && !w->actor_kept && w->count == 0;
}

static inline int m_place(const struct m_worker *w, int t)
{
    for (int i = 0; i < w->count; i++)
        if (w->batch[i] == t)
            return i;
    return -1;
}

/* The uppermost of those below runs again, before the batch. */
static inline void m_resume(struct model *m, struct m_worker *w)
{
    int t = w->below[--w->below_count];
    memmove(&w->batch[1], &w->batch[0], (size_t)w->count++ * sizeof w->batch[0]);
    w->batch[0] = t;
    m->task[t].state = M_OUT;
}

static inline void m_take_out(struct model *m, struct m_worker *w, int at)
{
    memmove(&w->batch[at], &w->batch[at + 1], (size_t)(w->count - at - 1) * sizeof w->batch[0]);
    if (--w->count == 0 && w->below_count)
        m_resume(m, w);
}

/* Directly below what its worker computes. */
static inline bool m_below_top(const struct model *m, int t)
{
    const struct m_worker *w = &m->worker[m->task[t].worker];
    return m->task[t].state == M_BLOCKED && !w->blocked && w->below_count &&
        w->below[w->below_count - 1] == t && !m->task[w->batch[0]].kids;
}

#endif
