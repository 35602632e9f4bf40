/* Futures: where they live and how an id finds them. See client.h. */
#include "sdk/c/client.h"

#include <stdlib.h>
#include <sys/mman.h>

#define REGION_BYTES (64u * MOB_CHUNK_BYTES)
#define GENERAL_FIRST 64u /* lists of general futures; as many as there are, when there are more */

/* Regions are mapped, not malloc'ed: an aligned malloc of a megabyte would waste up to another one. */
static bool regions_grow(struct mob_client *client)
{
    void **regions = realloc(client->regions, (client->region_count + 1) * sizeof *regions);
    if (regions == NULL)
        return false;
    client->regions = regions;
    uint8_t *map = mmap(
        NULL, REGION_BYTES + MOB_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return false;
    uint8_t *begin = (uint8_t *)mob_round_up((uintptr_t)map, MOB_CHUNK_BYTES);
    if (begin > map)
        munmap(map, (size_t)(begin - map));
    uint8_t *end = map + REGION_BYTES + MOB_CHUNK_BYTES;
    if (begin + REGION_BYTES < end)
        munmap(begin + REGION_BYTES, (size_t)(end - begin) - REGION_BYTES);
    regions[client->region_count++] = begin;
    for (uint32_t i = REGION_BYTES / MOB_CHUNK_BYTES; i-- > 0;) {
        struct mob_chunk *chunk = (struct mob_chunk *)(begin + (size_t)i * MOB_CHUNK_BYTES);
        chunk->next = client->free_chunks;
        client->free_chunks = chunk;
    }
    return true;
}

static struct mob_chunk *chunk_take(struct mob_client *client, struct mob_family *family, uint32_t first)
{
    if (client->free_chunks == NULL && !regions_grow(client))
        return NULL;
    struct mob_chunk *chunk = client->free_chunks;
    client->free_chunks = chunk->next;
    *chunk = (struct mob_chunk){.client = client, .family = family, .first = first};
    return chunk;
}

static void chunk_give(struct mob_client *client, struct mob_chunk *chunk)
{
    free(chunk->told);
    chunk->told = NULL;
    chunk->next = client->free_chunks;
    client->free_chunks = chunk;
}

static bool mob_family_know(struct mob_client *client)
{
    struct mob_family *family = client->family;
    if (!family->known) {
        family->stream =
            mob_stream_of_children(client->parent, client->parent_generation, client->continuation);
        family->known = true;
    }
    return family->known;
}

/* The current family is over: the next child opens a new one. Handles of the old one stay valid. */
static bool family_replace(struct mob_client *client)
{
    struct mob_family *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL)
        return false;
    fresh->older = client->family;
    client->family = fresh;
    return true;
}

static bool family_continue(struct mob_client *client)
{
    if (client->next_child <= MOB_CHILD_INDEX_MAX)
        return true;
    if (!family_replace(client))
        return false;
    client->continuation++;
    client->next_child = 0;
    client->plain_epoch++; /* the stream is part of the head */
    return true;
}

/* Chunks in front whose handles are all gone leave the directory. */
static void family_trim(struct mob_family *family)
{
    uint32_t gone = 0;
    while (gone < family->chunk_count && family->chunks[gone] == NULL)
        gone++;
    if (gone < 64 || gone < family->chunk_count / 2)
        return;
    memmove(family->chunks, family->chunks + gone, (family->chunk_count - gone) * sizeof(struct mob_chunk *));
    family->base += gone;
    family->chunk_count -= gone;
}

static struct mob_chunk *family_chunk_add(struct mob_client *client, uint32_t number)
{
    struct mob_family *family = client->family;
    family_trim(family);
    if (family->chunk_count == 0)
        family->base = number;
    uint32_t place = number - family->base;
    if (place >= family->capacity) {
        uint32_t capacity = family->capacity == 0 ? 16 : family->capacity * 2;
        struct mob_chunk **chunks = realloc(family->chunks, capacity * sizeof(struct mob_chunk *));
        if (chunks == NULL)
            return NULL;
        family->chunks = chunks;
        family->capacity = capacity;
    }
    struct mob_chunk *chunk = chunk_take(client, family, number * (uint32_t)MOB_CHUNK_SLOTS);
    if (chunk == NULL)
        return NULL;
    /* A counter that did not start at a chunk's first slot: the slots before are nobody's. */
    chunk->issued = client->next_child - chunk->first;
    memset(mob_chunk_slot(chunk, 0), 0, chunk->issued * sizeof(struct mob_future));
    MOB_ASSERT(place == family->chunk_count);
    family->chunks[family->chunk_count++] = chunk;
    family->live++;
    return chunk;
}

struct mob_future *mob_future_new_child(struct mob_client *client, uint32_t *index_out)
{
    if (!family_continue(client) || !mob_family_know(client))
        return NULL;
    struct mob_family *family = client->family;
    uint32_t index = client->next_child;
    uint32_t number = index / (uint32_t)MOB_CHUNK_SLOTS;
    uint32_t place = number - family->base;
    struct mob_chunk *chunk;
    if (family->chunk_count == 0 || place >= family->chunk_count) {
        chunk = family_chunk_add(client, number);
        if (chunk == NULL)
            return NULL;
    } else {
        chunk = family->chunks[place];
    }
    struct mob_future *future = mob_chunk_slot(chunk, chunk->issued++);
    *future = (struct mob_future){.state = MOB_FUTURE_PENDING, .flags = MOB_FUTURE_WATCHED};
    if (client->look_up)
        future->flags |= MOB_FUTURE_TOLD;
    chunk->live++;
    client->next_child = index + 1;
    *index_out = index;
    return future;
}

struct mob_future *mob_families_find(struct mob_family *newest, struct mob_task_id task)
{
    for (struct mob_family *family = newest; family != NULL; family = family->older) {
        if (!family->known || !mob_stream_eq(family->stream, task.stream))
            continue;
        uint32_t number = task.index / (uint32_t)MOB_CHUNK_SLOTS;
        uint32_t place = number - family->base;
        if (number < family->base || place >= family->chunk_count || family->chunks[place] == NULL)
            return NULL;
        struct mob_chunk *chunk = family->chunks[place];
        uint32_t i = task.index - chunk->first;
        if (i >= chunk->issued)
            return NULL;
        struct mob_future *future = mob_chunk_slot(chunk, i);
        return future->state == MOB_FUTURE_FREE ? NULL : future;
    }
    return NULL;
}

struct mob_future *mob_future_find_child(struct mob_client *client, struct mob_task_id task)
{
    return mob_families_find(client->family, task);
}

/* ---- general futures ---- */

static uint64_t object_mix(struct mob_object_id id)
{
    uint64_t x = (mob_task_id_mix(id.task) + id.slot) * 0x9e3779b97f4a7c15ull;
    return x ^ (x >> 32);
}

static void general_grow(struct mob_client *client)
{
    uint32_t mask = client->general_mask * 2 + 1;
    struct mob_general_future **table = calloc((size_t)mask + 1, sizeof(struct mob_general_future *));
    if (table == NULL)
        return; /* longer chains, still right */
    for (uint32_t i = 0; i <= client->general_mask; i++) {
        struct mob_general_future *next;
        for (struct mob_general_future *g = client->general[i]; g != NULL; g = next) {
            next = g->next;
            struct mob_general_future **place = &table[object_mix(g->id) & mask];
            g->next = *place;
            *place = g;
        }
    }
    free(client->general);
    client->general = table;
    client->general_mask = mask;
}

static bool general_refill(struct mob_client *client)
{
    struct mob_chunk *chunk = chunk_take(client, NULL, 0);
    if (chunk == NULL)
        return false;
    chunk->next = client->general_chunks;
    client->general_chunks = chunk;
    struct mob_general_future *slots = (struct mob_general_future *)mob_chunk_slot(chunk, 0);
    uint32_t count = (MOB_CHUNK_BYTES - MOB_CHUNK_HEADER_BYTES) / sizeof *slots;
    for (uint32_t i = count; i-- > 0;) {
        slots[i].future.state = MOB_FUTURE_FREE;
        slots[i].refs = 0;
        slots[i].next = client->free_general;
        client->free_general = &slots[i];
    }
    return true;
}

struct mob_general_future *mob_general_find(
    struct mob_general_future *const *table, uint32_t mask, struct mob_object_id id)
{
    struct mob_general_future *g = table[object_mix(id) & mask];
    while (g != NULL && !mob_object_id_eq(g->id, id))
        g = g->next;
    return g;
}

struct mob_general_future *mob_future_find_general(struct mob_client *client, struct mob_object_id id)
{
    return client->general_count == 0 ? NULL : mob_general_find(client->general, client->general_mask, id);
}

struct mob_future *mob_future_new_general(struct mob_client *client, struct mob_object_id id, bool watched)
{
    if (client->free_general == NULL && !general_refill(client))
        return NULL;
    if (client->general_count > client->general_mask)
        general_grow(client);
    struct mob_general_future *g = client->free_general;
    client->free_general = g->next;
    g->future = (struct mob_future){.state = MOB_FUTURE_PENDING, .flags = watched ? MOB_FUTURE_WATCHED : 0};
    g->id = id;
    g->refs = 1;
    struct mob_general_future **place = &client->general[object_mix(id) & client->general_mask];
    g->next = *place;
    *place = g;
    client->general_count++;
    return &g->future;
}

static void general_remove(struct mob_client *client, struct mob_general_future *g)
{
    struct mob_general_future **place = &client->general[object_mix(g->id) & client->general_mask];
    while (*place != g)
        place = &(*place)->next;
    *place = g->next;
    client->general_count--;
    g->future.state = MOB_FUTURE_FREE;
    g->next = client->free_general;
    client->free_general = g;
}

/* ---- ids and release ---- */

struct mob_object_id mob_future_object(const struct mob_future *future)
{
    const struct mob_chunk *chunk = mob_chunk_of(future);
    if (chunk->family == NULL)
        return ((const struct mob_general_future *)future)->id;
    uint32_t i = (uint32_t)(future - mob_chunk_slot((struct mob_chunk *)chunk, 0));
    return mob_object_of((struct mob_task_id){chunk->family->stream, chunk->first + i}, 0);
}

/* The future's memory is ours, whatever its user may do with the handle. */
void mob_future_escapes(const struct mob_future *future)
{
    ((struct mob_future *)future)->flags |= MOB_FUTURE_ESCAPED;
}

void mob_future_id(const struct mob_future *future, char text_out[MOB_TEXT_ID_MAX])
{
    if (text_out == NULL)
        return;
    text_out[0] = 0;
    if (future == NULL)
        return;
    mob_future_escapes(future);
    mob_object_id_format(mob_future_object(future), text_out);
}

void mob_future_task_id(const struct mob_future *future, char text_out[MOB_TEXT_ID_MAX])
{
    if (text_out == NULL)
        return;
    text_out[0] = 0;
    if (future == NULL)
        return;
    mob_future_escapes(future);
    mob_task_id_format(mob_future_object(future).task, text_out);
}

enum mob_status mob_future_from_id(
    struct mob_client *client, const char *object_id, struct mob_future **future_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, object_id);
    MOB_GIVEN(client, future_out);
    struct mob_object_id id;
    if (mob_object_id_parse(object_id, &id) != MOB_OK)
        return mob_client_fail(client, MOB_INVALID, "\"%.60s\" is not an object id (obj_...)", object_id);
    struct mob_general_future *g = mob_future_find_general(client, id);
    if (g != NULL) {
        g->refs++;
        *future_out = &g->future;
        return MOB_OK;
    }
    struct mob_future *future = mob_future_new_general(client, id, false);
    if (future == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    mob_future_escapes(future);
    *future_out = future;
    return MOB_OK;
}

/* With the items that came and were not taken. */
static void stream_drop(struct mob_future *stream)
{
    struct mob_stream_state *state = stream->as.stream;
    struct mob_object_id id = mob_future_object(stream);
    mob_waiters_drop(state->waiters);
    for (id.slot = state->next; id.slot < state->seen; id.slot++) {
        struct mob_general_future *g = mob_future_find_general(mob_future_client(stream), id);
        if (g != NULL)
            mob_release(&g->future);
    }
    free(state);
}

/* What hangs on a future besides its slot. */
static void future_drop(struct mob_future *future)
{
    mob_told_release(mob_future_client(future), future, true);
    if (future->flags & MOB_FUTURE_WAITED) {
        mob_waiters_drop(future->as.waiter);
        future->flags &= (uint8_t)~MOB_FUTURE_WAITED;
    } else if (future->state == MOB_FUTURE_STREAM) {
        stream_drop(future);
    } else if (mob_future_settled(future) && future->where != MOB_WHERE_SLOT &&
        future->where != MOB_WHERE_STORE && --future->as.block->refs == 0) {
        free(future->as.block);
    }
}

static void chunk_free_if_done(struct mob_chunk *chunk)
{
    if (chunk->live > 0 || chunk->issued < MOB_CHUNK_SLOTS)
        return;
    struct mob_family *family = chunk->family;
    uint32_t number = chunk->first / (uint32_t)MOB_CHUNK_SLOTS;
    family->chunks[number - family->base] = NULL;
    family->live--;
    chunk_give(chunk->client, chunk);
}

/* The node forgets small values by itself; only bytes in the store are worth a notice. */
static void let_go(struct mob_client *client, const struct mob_future *future)
{
    if (future->where == MOB_WHERE_STORE && future->state == MOB_FUTURE_READY &&
        !(client->worker && (future->flags & MOB_FUTURE_ESCAPED)))
        mob_client_release_id(client, mob_future_object(future), (uint64_t)future->as.i64);
}

void mob_release(struct mob_future *future)
{
    if (future == NULL)
        return;
    struct mob_chunk *chunk = mob_chunk_of(future);
    struct mob_client *client = chunk->client;
    MOB_ASSERT(future->state != MOB_FUTURE_FREE);
    struct mob_general_future *g = chunk->family == NULL ? (struct mob_general_future *)future : NULL;
    bool last = g == NULL || --g->refs == 0;
    if (!last) {
        mob_told_release(client, future, false);
        return;
    }
    if (g != NULL) {
        let_go(client, future);
        future_drop(future);
        general_remove(client, g);
        return;
    }
    let_go(client, future);
    future_drop(future);
    future->state = MOB_FUTURE_FREE;
    chunk->live--;
    chunk_free_if_done(chunk);
}

/* ---- all of them ---- */

bool mob_futures_open(
    struct mob_family **family_out, struct mob_general_future ***general_out, uint32_t *general_mask_out)
{
    struct mob_family *family = calloc(1, sizeof *family);
    struct mob_general_future **general = calloc(GENERAL_FIRST, sizeof(struct mob_general_future *));
    if (family == NULL || general == NULL) {
        free(family);
        free(general);
        return false;
    }
    *family_out = family;
    *general_out = general;
    *general_mask_out = GENERAL_FIRST - 1;
    return true;
}

static void family_clear(struct mob_client *client, struct mob_family *family)
{
    for (uint32_t c = 0; c < family->chunk_count; c++) {
        struct mob_chunk *chunk = family->chunks[c];
        if (chunk == NULL)
            continue;
        for (uint32_t i = 0; i < chunk->issued && chunk->live > 0; i++) {
            struct mob_future *future = mob_chunk_slot(chunk, i);
            if (future->state == MOB_FUTURE_FREE)
                continue;
            future_drop(future);
            chunk->live--;
        }
        chunk_give(client, chunk);
    }
    family->chunk_count = 0;
    family->base = 0;
    family->live = 0;
    family->known = false;
}

static void families_drop_older(struct mob_client *client)
{
    while (client->family->older != NULL) {
        struct mob_family *older = client->family->older;
        client->family->older = older->older;
        family_clear(client, older);
        free(older->chunks);
        free(older);
    }
}

void mob_futures_clear(struct mob_client *client)
{
    mob_ready_clear(client);
    families_drop_older(client);
    family_clear(client, client->family);
    for (uint32_t i = 0; client->general_count > 0 && i <= client->general_mask; i++)
        while (client->general[i] != NULL) {
            future_drop(&client->general[i]->future);
            general_remove(client, client->general[i]);
        }
}

void mob_families_retire(struct mob_client *client)
{
    struct mob_family **place = &client->family->older;
    while (*place != NULL) { /* those without handles go */
        struct mob_family *older = *place;
        uint32_t handles = 0;
        for (uint32_t c = 0; c < older->chunk_count; c++)
            handles += older->chunks[c] == NULL ? 0 : older->chunks[c]->live;
        if (handles > 0) {
            place = &older->older;
            continue;
        }
        *place = older->older;
        family_clear(client, older);
        free(older->chunks);
        free(older);
    }
    uint32_t handles = 0;
    for (uint32_t c = 0; c < client->family->chunk_count; c++)
        handles += client->family->chunks[c] == NULL ? 0 : client->family->chunks[c]->live;
    if (handles == 0 || !family_replace(client))
        family_clear(client, client->family);
}

void mob_futures_free(struct mob_client *client)
{
    mob_futures_clear(client);
    free(client->family->chunks);
    free(client->family);
    free(client->general);
    for (struct mob_chunk *chunk = client->general_chunks; chunk != NULL; chunk = chunk->next)
        free(chunk->told);
    for (uint32_t i = 0; i < client->region_count; i++)
        munmap(client->regions[i], REGION_BYTES);
    free(client->regions);
}
