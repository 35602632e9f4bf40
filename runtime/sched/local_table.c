/* Records, pools, and the table from id to record. */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

/* ---- records ---- */

static bool chunk_add(struct mob_sched *s)
{
    if (s->chunk_count == s->chunk_capacity) {
        uint32_t capacity = s->chunk_capacity ? 2 * s->chunk_capacity : 16;
        uint8_t **chunks = realloc(s->chunks, capacity * sizeof *chunks);
        if (!chunks)
            return false;
        s->chunks = chunks;
        s->chunk_capacity = capacity;
    }
    /* a record whose size is a number of half lines lies in as few lines as it can */
    size_t bytes = ((size_t)SCHED_CHUNK * s->stride + 63) & ~(size_t)63;
    uint8_t *chunk = aligned_alloc(64, bytes);
    if (!chunk)
        return false;
    s->chunks[s->chunk_count++] = chunk;
    return true;
}

/* One that was given back; 0 = there is none. The array says which ones come next, the list only which one: a
 * record of it has to come from memory before the next one's number is known. */
static uint32_t take_free(struct mob_sched *s)
{
    if (s->spare_count > 0) {
        uint32_t handle = s->spares[--s->spare_count];
        if (s->spare_count >= SCHED_SPARE_AHEAD)
            sched_fetch(s, s->spares[s->spare_count - SCHED_SPARE_AHEAD]);
        return handle;
    }
    uint32_t handle = s->free_head;
    if (handle) {
        s->free_head = task_at(s, handle)->next;
        if (s->free_head)
            sched_fetch(s, s->free_head);
    }
    return handle;
}

void *mob_sched_task_alloc(struct mob_sched *s)
{
    if (s->allocated >= s->options.tasks_max)
        return NULL;
    uint32_t handle = take_free(s);
    if (!handle) {
        if (s->fresh >> SCHED_CHUNK_SHIFT == s->chunk_count && !chunk_add(s))
            return NULL;
        handle = s->fresh++;
    }
    struct mob_sched_task *t = task_at(s, handle);
    memset(t, 0, s->stride);
    t->handle = handle;
    s->allocated++;
    s->by_state[MOB_SCHED_NEW]++;
    return t;
}

void mob_sched_task_free(struct mob_sched *s, struct mob_sched_task *t)
{
    MOB_ASSERT(t->state == MOB_SCHED_NEW || t->state == MOB_SCHED_DONE);
    s->by_state[t->state]--;
    t->state = MOB_SCHED_NEW;
    memset(&t->id, 0, sizeof t->id);
    if (s->spare_count < SCHED_SPARES) {
        s->spares[s->spare_count++] = t->handle;
    } else {
        t->next = s->free_head;
        s->free_head = t->handle;
    }
    s->allocated--;
}

struct mob_sched_task *mob_sched_task_of(const struct mob_sched *s, uint32_t handle)
{
    MOB_ASSERT(handle && handle < s->fresh);
    return task_at(s, handle);
}

/* ---- pools ---- */

uint32_t sched_pool_take(struct sched_pool *p)
{
    uint32_t number = p->free_head;
    if (number) {
        memcpy(&p->free_head, pool_at(p, number), sizeof p->free_head);
    } else {
        if (p->fresh >= p->capacity) {
            uint32_t capacity = p->capacity ? p->capacity + p->capacity / 2 : 64;
            void *base = capacity < EDGE_BIT ? realloc(p->base, (size_t)capacity * p->size) : NULL;
            if (!base)
                return 0;
            p->base = base;
            p->capacity = capacity;
            p->fresh = p->fresh ? p->fresh : 1;
        }
        number = p->fresh++;
    }
    memset(pool_at(p, number), 0, p->size);
    p->live++;
    return number;
}

void sched_pool_give(struct sched_pool *p, uint32_t number)
{
    MOB_ASSERT(number && p->live);
    memcpy(pool_at(p, number), &p->free_head, sizeof p->free_head);
    p->free_head = number;
    p->live--;
}

/* ---- maps ---- */

static bool map_resize(
    const struct mob_sched *s, struct sched_map *m, uint32_t capacity, sched_home_of home_of)
{
    struct sched_map bigger = {.capacity = capacity};
    bigger.slots = malloc(capacity * sizeof *bigger.slots);
    bigger.distance = calloc(capacity, sizeof *bigger.distance);
    if (!bigger.slots || !bigger.distance) {
        free(bigger.slots);
        free(bigger.distance);
        return false;
    }
    /* Old slots are in the order of their homes, so the new ones are written in order too. */
    for (uint32_t i = 0; i < m->capacity; i++)
        if (m->distance[i])
            sched_map_insert(&bigger, home_of(s, &bigger, m->slots[i]), m->slots[i]);
    free(m->slots);
    free(m->distance);
    *m = bigger;
    return true;
}

bool sched_map_reserve(const struct mob_sched *s, struct sched_map *m, sched_home_of home_of)
{
    if (m->used < m->capacity / 4 * 3)
        return true;
    return map_resize(s, m, m->capacity ? m->capacity + m->capacity / 2 : 64, home_of);
}

void sched_map_shrink(const struct mob_sched *s, struct sched_map *m, sched_home_of home_of)
{
    /* Failure only keeps the memory. */
    if (m->capacity > 4096 && m->used < m->capacity / 8)
        (void)map_resize(s, m, m->capacity / 4, home_of);
}

void sched_map_insert(struct sched_map *m, uint32_t home, uint32_t number)
{
    uint32_t i = home, distance = 1;
    while (m->distance[i] >= distance) {
        i = map_next(m, i);
        distance++;
    }
    /* From here on everybody moves up by one, to the next hole. */
    while (m->distance[i]) {
        uint32_t number_moved = m->slots[i], distance_moved = m->distance[i];
        MOB_ASSERT(distance < UINT16_MAX);
        m->slots[i] = number;
        m->distance[i] = (uint16_t)distance;
        number = number_moved;
        distance = distance_moved + 1;
        i = map_next(m, i);
    }
    MOB_ASSERT(distance < UINT16_MAX);
    m->slots[i] = number;
    m->distance[i] = (uint16_t)distance;
    m->used++;
}

void sched_map_erase(struct sched_map *m, uint32_t home, uint32_t number)
{
    uint32_t i = home;
    for (uint32_t distance = 1; m->distance[i] != distance || m->slots[i] != number; distance++) {
        MOB_ASSERT(m->distance[i] >= distance); /* it is there */
        i = map_next(m, i);
    }
    for (uint32_t j = map_next(m, i); m->distance[j] > 1; j = map_next(m, j)) {
        m->slots[i] = m->slots[j];
        m->distance[i] = (uint16_t)(m->distance[j] - 1);
        i = j;
    }
    m->distance[i] = 0;
    m->used--;
}

/* ---- ids ---- */

static uint32_t id_home_of(const struct mob_sched *s, const struct sched_map *m, uint32_t number)
{
    return map_home(m, task_at(s, number)->id, 0);
}

struct mob_sched_task *mob_sched_find(const struct mob_sched *s, struct mob_task_id id)
{
    const struct sched_map *m = &s->ids;
    if (!m->used)
        return NULL;
    uint32_t i = map_home(m, id, 0);
    for (uint32_t distance = 1; m->distance[i] >= distance; distance++) {
        if (m->distance[i] == distance) {
            struct mob_sched_task *t = task_at(s, m->slots[i]);
            if (mob_task_id_eq(t->id, id))
                return t;
        }
        i = map_next(m, i);
    }
    return NULL;
}

void mob_sched_find_fetch(const struct mob_sched *s, struct mob_task_id id)
{
    const struct sched_map *m = &s->ids;
    if (!m->used)
        return;
    uint32_t home = map_home(m, id, 0);
    __builtin_prefetch(&m->distance[home]);
    __builtin_prefetch(&m->slots[home]);
}

/* Of neighbours mostly the place behind. */
static uint32_t home_behind(
    const struct sched_map *m, struct mob_task_id id, struct mob_task_id before, uint32_t home_before)
{
    bool near = id.index == before.index + 1 && id.index % MAP_NEIGHBOURS != 0;
    return near && mob_stream_eq(id.stream, before.stream) ? map_next(m, home_before) : map_home(m, id, 0);
}

bool sched_ids_add(struct mob_sched *s, struct mob_sched_task *t)
{
    if (!sched_map_reserve(s, &s->ids, id_home_of))
        return false;
    sched_map_insert(&s->ids, map_home(&s->ids, t->id, 0), t->handle);
    return true;
}

uint32_t sched_ids_add_run(struct mob_sched *s, struct mob_sched_task *const *tasks, uint32_t count)
{
    struct sched_map *m = &s->ids;
    uint32_t home = 0, done = 0, capacity = 0;
    for (; done < count; done++, capacity = m->capacity) {
        if (!sched_map_reserve(s, m, id_home_of))
            break;
        struct mob_task_id id = tasks[done]->id;
        home = m->capacity == capacity ? home_behind(m, id, tasks[done - 1]->id, home) : map_home(m, id, 0);
        sched_map_insert(m, home, tasks[done]->handle);
    }
    return done;
}

uint32_t sched_ids_remove_next(
    struct mob_sched *s, const struct mob_sched_task *t, const struct mob_sched_task *before, uint32_t home)
{
    struct sched_map *m = &s->ids;
    home = before ? home_behind(m, t->id, before->id, home) : map_home(m, t->id, 0);
    sched_map_erase(m, home, t->handle);
    return home;
}

void sched_ids_shrink(struct mob_sched *s)
{
    if (s->ids.used < s->ids.capacity / 8)
        sched_map_shrink(s, &s->ids, id_home_of);
}

void sched_ids_remove(struct mob_sched *s, struct mob_sched_task *t)
{
    (void)sched_ids_remove_next(s, t, NULL, 0);
    sched_ids_shrink(s);
}

struct mob_sched_task *mob_sched_each(const struct mob_sched *s, uint32_t *at)
{
    /* By record and not by the table, in which entries move when one goes. */
    while (++*at < s->fresh) {
        struct mob_sched_task *t = task_at(s, *at);
        if (t->state != MOB_SCHED_NEW && t->state != MOB_SCHED_DONE)
            return t;
    }
    --*at;
    return NULL;
}
