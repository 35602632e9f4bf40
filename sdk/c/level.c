/* Tasks on top of each other in one worker (docs/adr/nested-stack.md): while one waits for what another
 * makes, its part of the client stands aside, and the other one's is in its place. Chunks of futures,
 * functions, rings and requests are the process' and stay.
 *
 * Lists whose first element points back to the client stay right: nobody but their owner changes them, and it
 * runs only when they are in their place again.
 */
#include "sdk/c/client.h"

#include <stdlib.h>

#define SWAP(member) \
    do { \
        __typeof__(client->member) other = client->member; \
        client->member = level->member; \
        level->member = other; \
    } while (0)

static void swap_ready(struct mob_client *client, struct mob_level *level)
{
    bool client_empty = client->ready_head == NULL, level_empty = level->ready_head == NULL;
    SWAP(ready_head);
    SWAP(ready_tail);
    if (level_empty) /* of an empty queue the tail is its own head */
        client->ready_tail = &client->ready_head;
    if (client_empty)
        level->ready_tail = &level->ready_head;
}

static void swap_texts(struct mob_client *client, struct mob_level *level)
{
    if (client->cause_bytes > 0 || level->cause_bytes > 0)
        for (size_t i = 0; i < sizeof client->cause; i++)
            SWAP(cause[i]);
    SWAP(cause_bytes);
    if (client->error[0] != 0 || level->error[0] != 0)
        for (size_t i = 0; i < sizeof client->error; i++)
            SWAP(error[i]);
    SWAP(error_json);
}

static void exchange(struct mob_client *client, struct mob_level *level)
{
    SWAP(look_up);
    SWAP(rewatch);
    SWAP(in_callbacks);
    SWAP(parent);
    SWAP(parent_generation);
    SWAP(continuation);
    SWAP(next_child);
    SWAP(next_put);
    SWAP(put_continuation);
    SWAP(family);
    SWAP(job);
    SWAP(call);
    SWAP(call_epoch);
    SWAP(general);
    SWAP(general_mask);
    SWAP(general_count);
    SWAP(sets);
    SWAP(wait_hits);
    SWAP(rewatch_chunk);
    SWAP(actors);
    SWAP(used_values);
    swap_ready(client, level);
    swap_texts(client, level);
    client->plain_epoch++; /* the parent is part of the head */
}

static struct mob_level *level_new(void)
{
    struct mob_level *level = calloc(1, sizeof *level);
    if (level == NULL)
        return NULL;
    if (!mob_futures_open(&level->family, &level->general, &level->general_mask)) {
        free(level);
        return NULL;
    }
    level->ready_tail = &level->ready_head;
    return level;
}

enum mob_status mob_level_push(struct mob_client *client)
{
    MOB_ASSERT(!client->pumping);
    if (client->level_count == client->levels_made) {
        struct mob_level **levels =
            realloc(client->levels, (client->levels_made + 1) * sizeof(struct mob_level *));
        if (levels == NULL)
            return MOB_NO_MEMORY;
        client->levels = levels;
        levels[client->levels_made] = level_new();
        if (levels[client->levels_made] == NULL)
            return MOB_NO_MEMORY;
        client->levels_made++;
    }
    exchange(client, client->levels[client->level_count++]);
    return MOB_OK;
}

void mob_level_pop(struct mob_client *client)
{
    MOB_ASSERT(client->level_count > 0);
    exchange(client, client->levels[--client->level_count]);
}

static bool knows(const struct mob_level *level, const struct mob_in_ready *ready)
{
    return mob_families_find(level->family, ready->id.task) != NULL ||
        (level->general_count > 0 &&
            mob_general_find(level->general, level->general_mask, ready->id) != NULL);
}

void mob_levels_on_ready(struct mob_client *client, const struct mob_in_ready *ready, const uint8_t *payload)
{
    uint32_t count = client->level_count;
    for (uint32_t i = 0; i < count; i++) {
        struct mob_level *level = client->levels[i];
        if (!knows(level, ready))
            continue;
        exchange(client, level);
        client->level_count = 0; /* its own future only */
        mob_client_on_ready(client, ready, payload);
        client->level_count = count;
        exchange(client, level);
    }
}

void mob_levels_missed(struct mob_client *client)
{
    for (uint32_t i = 0; i < client->level_count; i++) {
        client->levels[i]->rewatch = true;
        client->levels[i]->rewatch_chunk = 0;
    }
}

void mob_levels_free(struct mob_client *client)
{
    MOB_ASSERT(client->level_count == 0);
    while (client->levels_made > 0) { /* empty ones */
        struct mob_level *level = client->levels[--client->levels_made];
        free(level->family->chunks);
        free(level->family);
        free(level->general);
        free(level->error_json);
        free(level);
    }
    free(client->levels);
    client->levels = NULL;
}
