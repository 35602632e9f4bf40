/* Queues of ready tasks: jobs -> lanes -> base FIFO and stack of families. */
#include "runtime/sched/local_inner.h"

static inline struct sched_family *family_at(const struct mob_sched *s, uint32_t number)
{
    return pool_at(&s->families, number);
}

/* ---- lists of tasks ---- */

static void list_push_back(struct mob_sched *s, uint32_t *head, uint32_t *tail, struct mob_sched_task *t)
{
    t->next = 0;
    t->prev = *tail;
    if (*tail)
        task_at(s, *tail)->next = t->handle;
    else
        *head = t->handle;
    *tail = t->handle;
}

static void list_push_front(struct mob_sched *s, uint32_t *head, uint32_t *tail, struct mob_sched_task *t)
{
    t->prev = 0;
    t->next = *head;
    if (*head)
        task_at(s, *head)->prev = t->handle;
    else
        *tail = t->handle;
    *head = t->handle;
}

static void list_remove(struct mob_sched *s, uint32_t *head, uint32_t *tail, struct mob_sched_task *t)
{
    if (t->prev)
        task_at(s, t->prev)->next = t->next;
    else
        *head = t->next;
    if (t->next)
        task_at(s, t->next)->prev = t->prev;
    else
        *tail = t->prev;
    t->next = t->prev = 0;
}

/* ---- which jobs and lanes have work ---- */

static void job_activate(struct mob_sched *s, uint16_t job)
{
    struct sched_job *j = &s->jobs[job];
    if (j->active)
        return;
    /* Sleeping earns nothing: it starts level with the job that was served last. */
    if (j->pass < s->virtual_pass)
        j->pass = s->virtual_pass;
    j->active = true;
    j->prev = SCHED_NIL16;
    j->next = s->active;
    if (s->active != SCHED_NIL16)
        s->jobs[s->active].prev = job;
    s->active = job;
}

static void job_deactivate(struct mob_sched *s, uint16_t job)
{
    struct sched_job *j = &s->jobs[job];
    if (j->prev != SCHED_NIL16)
        s->jobs[j->prev].next = j->next;
    else
        s->active = j->next;
    if (j->next != SCHED_NIL16)
        s->jobs[j->next].prev = j->prev;
    j->active = false;
}

/* Behind all of its priority; from the end, for mostly there is one priority. */
static void lane_list(struct mob_sched *s, uint16_t lane)
{
    struct sched_lane *l = &s->lanes[lane];
    struct sched_job *j = &s->jobs[l->job];
    uint16_t prev = j->last, next = SCHED_NIL16;
    while (prev != SCHED_NIL16 && s->lanes[prev].priority < l->priority) {
        next = prev;
        prev = s->lanes[prev].prev;
    }
    l->prev = prev;
    l->next = next;
    *(prev != SCHED_NIL16 ? &s->lanes[prev].next : &j->first) = lane;
    *(next != SCHED_NIL16 ? &s->lanes[next].prev : &j->last) = lane;
    l->listed = true;
    j->trees += l->tree != 0;
}

static void lane_unlist(struct mob_sched *s, uint16_t lane)
{
    struct sched_lane *l = &s->lanes[lane];
    struct sched_job *j = &s->jobs[l->job];
    *(l->prev != SCHED_NIL16 ? &s->lanes[l->prev].next : &j->first) = l->next;
    *(l->next != SCHED_NIL16 ? &s->lanes[l->next].prev : &j->last) = l->prev;
    l->listed = false;
    j->trees -= l->tree != 0;
}

void sched_lane_rotate(struct mob_sched *s, uint16_t lane)
{
    if (!s->lanes[lane].listed || (s->lanes[lane].prev == SCHED_NIL16 && s->lanes[lane].next == SCHED_NIL16))
        return;
    lane_unlist(s, lane);
    lane_list(s, lane);
}

static void lane_grew(struct mob_sched *s, uint16_t lane)
{
    s->dirty = true;
    if (s->lanes[lane].count++ == 0) {
        lane_list(s, lane);
        job_activate(s, s->lanes[lane].job);
    }
}

static void lane_shrank(struct mob_sched *s, uint16_t lane)
{
    struct sched_lane *l = &s->lanes[lane];
    if (--l->count == 0) {
        l->passed_over = 0;
        lane_unlist(s, lane);
        if (s->jobs[l->job].first == SCHED_NIL16)
            job_deactivate(s, l->job);
    }
}

/* ---- families ---- */

static void family_stack(struct mob_sched *s, uint32_t number)
{
    struct sched_family *f = family_at(s, number);
    struct sched_lane *l = &s->lanes[f->lane];
    f->above = 0;
    f->below = l->top;
    if (l->top)
        family_at(s, l->top)->above = number;
    l->top = number;
}

static void family_unstack(struct mob_sched *s, uint32_t number)
{
    struct sched_family *f = family_at(s, number);
    if (f->above)
        family_at(s, f->above)->below = f->below;
    else
        s->lanes[f->lane].top = f->below;
    if (f->below)
        family_at(s, f->below)->above = f->above;
}

/* New, on top of its lane; 0 = no memory. */
static uint32_t family_new(struct mob_sched *s, uint16_t lane)
{
    uint32_t number = sched_pool_take(&s->families);
    if (!number)
        return 0;
    struct sched_family *f = family_at(s, number);
    f->lane = lane;
    f->worker = SCHED_NIL16;
    family_stack(s, number);
    return number;
}

static void family_end(struct mob_sched *s, uint32_t number)
{
    struct sched_family *f = family_at(s, number);
    family_unstack(s, number);
    if (f->worker != SCHED_NIL16) {
        /* A parent has one family per lane: nearly always one. */
        uint32_t *at = &worker_at(s, f->worker)->families;
        while (*at != number)
            at = &family_at(s, *at)->sibling;
        *at = f->sibling;
    }
    if (s->late_family == number)
        s->late_family = 0;
    sched_pool_give(&s->families, number);
}

/* Without memory for a family a task goes to the front of the base: the order suffers, nothing else. */
static void family_push(struct mob_sched *s, uint32_t number, struct mob_sched_task *t, bool front)
{
    t->place = number;
    if (!number) {
        struct sched_lane *l = &s->lanes[t->lane];
        list_push_front(s, &l->head, &l->tail, t);
    } else {
        struct sched_family *f = family_at(s, number);
        f->count++;
        if (front)
            list_push_front(s, &f->head, &f->tail, t);
        else
            list_push_back(s, &f->head, &f->tail, t);
    }
    lane_grew(s, t->lane);
}

void sched_families_to_top(struct mob_sched *s, struct sched_worker *w)
{
    for (uint32_t f = w->families; f; f = family_at(s, f)->sibling) {
        family_unstack(s, f);
        family_stack(s, f);
    }
}

void sched_families_detach(struct mob_sched *s, struct sched_worker *w)
{
    for (uint32_t f = w->families; f; f = family_at(s, f)->sibling)
        family_at(s, f)->worker = SCHED_NIL16;
    w->families = 0;
}

/* ---- tasks ---- */

void sched_queue_push(struct mob_sched *s, struct mob_sched_task *t)
{
    if (!(t->marks & MARK_NESTED)) {
        struct sched_lane *l = &s->lanes[t->lane];
        t->place = 0;
        list_push_back(s, &l->head, &l->tail, t);
        lane_grew(s, t->lane);
        return;
    }
    /* What one event releases of a lane stays together. */
    if (!s->late_family || family_at(s, s->late_family)->lane != t->lane)
        s->late_family = family_new(s, t->lane);
    family_push(s, s->late_family, t, false);
}

void sched_queue_push_child(
    struct mob_sched *s, struct mob_sched_task *t, const struct mob_sched_task *parent)
{
    uint16_t worker = parent->worker;
    struct sched_worker *w = worker_at(s, worker);
    uint32_t number = w->families;
    while (number && family_at(s, number)->lane != t->lane)
        number = family_at(s, number)->sibling;
    if (!number && (number = family_new(s, t->lane))) {
        struct sched_family *f = family_at(s, number);
        f->worker = worker;
        f->sibling = w->families;
        w->families = number;
    }
    family_push(s, number, t, false);
}

void sched_queue_push_front(struct mob_sched *s, struct mob_sched_task *t, uint32_t *revoked_family)
{
    if (t->marks & MARK_NESTED) {
        if (!*revoked_family || family_at(s, *revoked_family)->lane != t->lane)
            *revoked_family = family_new(s, t->lane);
        family_push(s, *revoked_family, t, true);
    } else {
        family_push(s, 0, t, true);
    }
}

struct mob_sched_task *sched_queue_peek(const struct mob_sched *s, const struct sched_lane *l)
{
    return task_at(s, l->top ? family_at(s, l->top)->head : l->head);
}

void sched_queue_remove(struct mob_sched *s, struct mob_sched_task *t)
{
    uint16_t lane = t->lane;
    uint32_t number = t->place;
    if (!number) {
        list_remove(s, &s->lanes[lane].head, &s->lanes[lane].tail, t);
    } else {
        struct sched_family *f = family_at(s, number);
        list_remove(s, &f->head, &f->tail, t);
        t->place = 0;
        if (--f->count == 0)
            family_end(s, number);
    }
    lane_shrank(s, lane);
}
