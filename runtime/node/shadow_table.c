#include "runtime/node/shadow_table.h"

#include <stdlib.h>

#include "common/base/log.h"

enum { BUCKETS_MIN = 64 };

void shadow_table_fini(struct shadow_table *table)
{
    MOB_ASSERT(table->count == 0);
    free(table->buckets);
    *table = (struct shadow_table){0};
}

static struct shadow_entry **bucket_of(const struct shadow_table *table, struct mob_actor_id id)
{
    return &table->buckets[mob_task_id_mix(id.creation) & (table->bucket_count - 1)];
}

static void into_bucket(struct shadow_table *table, struct shadow_entry *entry)
{
    struct shadow_entry **bucket = bucket_of(table, entry->id);
    entry->next_of_bucket = *bucket;
    *bucket = entry;
}

static void grow(struct shadow_table *table)
{
    free(table->buckets);
    table->bucket_count = table->bucket_count ? 2 * table->bucket_count : BUCKETS_MIN;
    table->buckets = calloc(table->bucket_count, sizeof *table->buckets);
    MOB_ASSERT(table->buckets);
    for (struct shadow_entry *entry = table->first; entry; entry = entry->next)
        into_bucket(table, entry);
}

void shadow_table_add(struct shadow_table *table, struct shadow_entry *entry, struct mob_actor_id id)
{
    if (table->count == table->bucket_count)
        grow(table);
    *entry = (struct shadow_entry){.id = id, .next = table->first};
    if (table->first)
        table->first->prev = entry;
    table->first = entry;
    into_bucket(table, entry);
    table->count++;
}

void shadow_table_remove(struct shadow_table *table, struct shadow_entry *entry)
{
    MOB_ASSERT(!entry->ended);
    struct shadow_entry **at = bucket_of(table, entry->id);
    while (*at != entry)
        at = &(*at)->next_of_bucket;
    *at = entry->next_of_bucket;
    if (entry->prev)
        entry->prev->next = entry->next;
    else
        table->first = entry->next;
    if (entry->next)
        entry->next->prev = entry->prev;
    table->count--;
}

struct shadow_entry *shadow_table_find(const struct shadow_table *table, struct mob_actor_id id)
{
    struct shadow_entry *entry = table->count > 0 ? *bucket_of(table, id) : NULL;
    while (entry && !mob_actor_id_eq(entry->id, id))
        entry = entry->next_of_bucket;
    return entry;
}

void shadow_table_ended(struct shadow_table *table, struct shadow_entry *entry)
{
    MOB_ASSERT(!entry->ended);
    entry->ended = true;
    entry->next_ended = NULL;
    if (table->ended_first)
        table->ended_last->next_ended = entry;
    else
        table->ended_first = entry;
    table->ended_last = entry;
}

struct shadow_entry *shadow_table_take_ended(struct shadow_table *table)
{
    struct shadow_entry *entry = table->ended_first;
    if (entry) {
        table->ended_first = entry->next_ended;
        entry->ended = false;
    }
    return entry;
}
