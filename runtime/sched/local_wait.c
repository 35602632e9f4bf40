/* Who waits for which object.
 *
 * A task with one missing input is itself the link in that object's list (next, prev; `place` = the object);
 * a task with several, and every actor call (whose links are its actor's queue), has one pool edge per input,
 * listed in `place`.
 */
#include "runtime/sched/local_inner.h"

static inline struct sched_object *object_at(const struct mob_sched *s, uint32_t number)
{
    return pool_at(&s->objects, number);
}
static inline struct sched_edge *edge_at(const struct mob_sched *s, uint32_t ref)
{
    return pool_at(&s->edges, ref & ~EDGE_BIT);
}

uint32_t sched_edge_task(const struct mob_sched *s, uint32_t ref)
{
    return ref & EDGE_BIT ? edge_at(s, ref)->task : ref;
}

uint32_t sched_edge_next(const struct mob_sched *s, uint32_t ref)
{
    return ref & EDGE_BIT ? edge_at(s, ref)->next : task_at(s, ref)->next;
}

static void edge_set_next(struct mob_sched *s, uint32_t ref, uint32_t next)
{
    if (ref & EDGE_BIT)
        edge_at(s, ref)->next = next;
    else
        task_at(s, ref)->next = next;
}

static void edge_set_prev(struct mob_sched *s, uint32_t ref, uint32_t prev)
{
    if (ref & EDGE_BIT)
        edge_at(s, ref)->prev = prev;
    else
        task_at(s, ref)->prev = prev;
}

/* ---- objects ---- */

static uint32_t object_home(const struct sched_map *m, struct mob_object_id id)
{
    return map_home(m, id.task, id.slot);
}

static uint32_t object_home_of(const struct mob_sched *s, const struct sched_map *m, uint32_t number)
{
    return object_home(m, object_at(s, number)->id);
}

uint32_t sched_wait_find(const struct mob_sched *s, struct mob_object_id id)
{
    const struct sched_map *m = &s->waits;
    if (!m->used)
        return 0;
    uint32_t i = object_home(m, id);
    for (uint32_t distance = 1; m->distance[i] >= distance; distance++) {
        if (m->distance[i] == distance && mob_object_id_eq(object_at(s, m->slots[i])->id, id))
            return m->slots[i];
        i = map_next(m, i);
    }
    return 0;
}

/* Also tells the producer, if it is known here, that somebody waits. 0 = no memory. */
static uint32_t object_get(struct mob_sched *s, struct mob_object_id id)
{
    /* Runs of tasks wait for the same object. */
    if (s->last_object && mob_object_id_eq(object_at(s, s->last_object)->id, id))
        return s->last_object;
    uint32_t number = sched_wait_find(s, id);
    if (!number) {
        if (!sched_map_reserve(s, &s->waits, object_home_of))
            return 0;
        number = sched_pool_take(&s->objects);
        if (!number)
            return 0;
        object_at(s, number)->id = id;
        sched_map_insert(&s->waits, object_home(&s->waits, id), number);
        struct mob_sched_task *producer = mob_sched_find(s, id.task);
        if (producer)
            producer->marks |= MARK_AWAITED;
    }
    s->last_object = number;
    return number;
}

static void object_drop(struct mob_sched *s, uint32_t number)
{
    if (s->last_object == number)
        s->last_object = 0;
    sched_map_erase(&s->waits, object_home(&s->waits, object_at(s, number)->id), number);
    sched_pool_give(&s->objects, number);
    if (s->waits.used < s->waits.capacity / 8)
        sched_map_shrink(s, &s->waits, object_home_of);
}

static void list_append(struct mob_sched *s, uint32_t number, uint32_t ref)
{
    struct sched_object *o = object_at(s, number);
    edge_set_next(s, ref, 0);
    edge_set_prev(s, ref, o->tail);
    if (o->tail)
        edge_set_next(s, o->tail, ref);
    else
        o->head = ref;
    o->tail = ref;
    o->count++;
}

static void list_remove(struct mob_sched *s, uint32_t number, uint32_t ref)
{
    struct sched_object *o = object_at(s, number);
    uint32_t next = sched_edge_next(s, ref);
    uint32_t prev = ref & EDGE_BIT ? edge_at(s, ref)->prev : task_at(s, ref)->prev;
    if (prev)
        edge_set_next(s, prev, next);
    else
        o->head = next;
    if (next)
        edge_set_prev(s, next, prev);
    else
        o->tail = prev;
    if (--o->count == 0)
        object_drop(s, number);
}

/* ---- tasks ---- */

static bool edge_add(struct mob_sched *s, struct mob_sched_task *t, struct mob_object_id id)
{
    uint32_t object = object_get(s, id);
    uint32_t number = object ? sched_pool_take(&s->edges) : 0;
    if (!number) {
        if (object && object_at(s, object)->count == 0)
            object_drop(s, object);
        return false;
    }
    struct sched_edge *e = edge_at(s, number);
    e->task = t->handle;
    e->object = object;
    e->sibling = t->place;
    t->place = number;
    t->waits++;
    list_append(s, object, EDGE_BIT | number);
    return true;
}

enum mob_status sched_wait_add(
    struct mob_sched *s, struct mob_sched_task *t, const struct mob_object_id *missing, uint32_t count)
{
    MOB_ASSERT(t->waits == 0);
    if (count == 1 && !(t->marks & MARK_CALL)) {
        uint32_t object = object_get(s, missing[0]);
        if (!object)
            return MOB_NO_MEMORY;
        t->place = object;
        t->waits = 1;
        list_append(s, object, t->handle);
        return MOB_OK;
    }
    t->marks |= MARK_EDGES;
    t->place = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!edge_add(s, t, missing[i])) {
            sched_wait_drop(s, t);
            return MOB_NO_MEMORY;
        }
    return MOB_OK;
}

void sched_wait_drop(struct mob_sched *s, struct mob_sched_task *t)
{
    if (!(t->marks & MARK_EDGES)) {
        if (t->waits)
            list_remove(s, t->place, t->handle);
    } else {
        while (t->place) {
            uint32_t number = t->place;
            struct sched_edge *e = edge_at(s, number);
            t->place = e->sibling;
            if (e->object) /* else it has come */
                list_remove(s, e->object, EDGE_BIT | number);
            sched_pool_give(&s->edges, number);
        }
        t->marks &= (uint8_t)~MARK_EDGES;
    }
    t->waits = 0;
    t->place = 0;
}

static void input_came(struct mob_sched *s, struct mob_sched_task *t)
{
    MOB_ASSERT(t->waits && !(t->marks & MARK_KIDS));
    if (--t->waits)
        return;
    if (t->marks & MARK_EDGES)
        sched_wait_drop(s, t); /* gives the edges back */
    t->place = 0;
    if (s->options.inputs_came && (t->state == MOB_SCHED_WAITING || t->state == MOB_SCHED_DELAYED))
        s->options.inputs_came(s->options.arg, t);
    if (t->state == MOB_SCHED_WAITING)
        sched_become_ready(s, t);
}

bool mob_sched_object_awaited(const struct mob_sched *s, struct mob_object_id id)
{
    return sched_wait_find(s, id) != 0;
}

bool mob_sched_awaits_any(const struct mob_sched *s)
{
    return s->waits.used > 0;
}

void mob_sched_object_fetch(const struct mob_sched *s, struct mob_object_id id)
{
    const struct sched_map *m = &s->waits;
    if (!m->used)
        return;
    uint32_t home = object_home(m, id);
    __builtin_prefetch(&m->distance[home]);
    __builtin_prefetch(&m->slots[home]);
}

void mob_sched_object_fetch_more(const struct mob_sched *s, struct mob_object_id id)
{
    const struct sched_map *m = &s->waits;
    if (!m->used)
        return;
    uint32_t home = object_home(m, id);
    if (m->distance[home])
        __builtin_prefetch(object_at(s, m->slots[home]));
}

uint32_t mob_sched_object_ready(struct mob_sched *s, struct mob_object_id id)
{
    uint32_t number = sched_wait_find(s, id);
    if (!number)
        return 0;
    struct sched_object *o = object_at(s, number);
    uint32_t ref = o->head, count = o->count;
    /* Out of the table first: what becomes ready must not find it again. */
    object_drop(s, number);
    s->late_family = 0;
    while (ref) {
        uint32_t next = sched_edge_next(s, ref);
        struct mob_sched_task *t = task_at(s, sched_edge_task(s, ref));
        if (ref & EDGE_BIT)
            edge_at(s, ref)->object = 0;
        input_came(s, t);
        ref = next;
    }
    s->late_family = 0;
    return count;
}
