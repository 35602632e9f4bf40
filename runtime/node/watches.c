#include "runtime/node/watches.h"

#include <stdlib.h>

#include "common/base/log.h"

struct watch_table *watch_table_create(void)
{
    struct watch_table *table = calloc(1, sizeof *table);
    MOB_ASSERT(table);
    table->mask = WATCH_BUCKETS_MIN - 1;
    table->buckets = calloc(WATCH_BUCKETS_MIN, sizeof *table->buckets);
    MOB_ASSERT(table->buckets);
    return table;
}

void watch_table_destroy(struct watch_table *table)
{
    if (!table)
        return;
    for (uint32_t i = 0; i <= table->mask; i++)
        while (table->buckets[i]) {
            struct watch *next = table->buckets[i]->next;
            free(table->buckets[i]);
            table->buckets[i] = next;
        }
    free(table->buckets);
    free(table);
}

static struct watch **bucket_of(const struct watch_table *table, struct mob_object_id id)
{
    return &table->buckets[(mob_task_id_mix(id.task) ^ id.slot) & table->mask];
}

static void resize(struct watch_table *table, uint32_t buckets)
{
    struct watch_table other = {.mask = buckets - 1, .count = table->count};
    other.buckets = calloc(buckets, sizeof *other.buckets);
    if (!other.buckets)
        return; /* longer chains, or emptier ones; still right */
    for (uint32_t i = 0; i <= table->mask; i++)
        while (table->buckets[i]) {
            struct watch *watch = table->buckets[i];
            table->buckets[i] = watch->next;
            struct watch **to = bucket_of(&other, watch->id);
            watch->next = *to;
            *to = watch;
        }
    free(table->buckets);
    *table = other;
}

/* Far below where it grows, so that a number that goes up and down does not move it each time. */
static void shrink(struct watch_table *table)
{
    uint32_t buckets = table->mask + 1;
    while (buckets > WATCH_BUCKETS_MIN && table->count < buckets / 8)
        buckets /= 2;
    if (buckets <= table->mask)
        resize(table, buckets);
}

struct watch *watch_table_add(
    struct watch_table *table, struct mob_object_id id, uint32_t slot, uint32_t session)
{
    struct watch *watch = malloc(sizeof *watch);
    MOB_ASSERT(watch);
    if (table->count > table->mask)
        resize(table, 2 * (table->mask + 1));
    struct watch **bucket = bucket_of(table, id);
    *watch = (struct watch){.next = *bucket, .id = id, .slot = slot, .session = session};
    *bucket = watch;
    table->count++;
    return watch;
}

/* The link to it, or to where the chain ends. */
static struct watch **find(const struct watch_table *table, struct mob_object_id id)
{
    struct watch **at = bucket_of(table, id);
    while (*at && !mob_object_id_eq((*at)->id, id))
        at = &(*at)->next;
    return at;
}

static void remove_at(struct watch_table *table, struct watch **at)
{
    struct watch *watch = *at;
    *at = watch->next;
    free(watch);
    table->count--;
}

bool watch_table_has(const struct watch_table *table, struct mob_object_id id)
{
    return table->count > 0 && *find(table, id) != NULL;
}

bool watch_table_take(struct watch_table *table, struct mob_object_id id, struct watch *watch_out)
{
    struct watch **at = find(table, id);
    if (!*at)
        return false;
    *watch_out = **at;
    remove_at(table, at);
    shrink(table);
    return true;
}

void watch_table_drop(struct watch_table *table, uint32_t slot, uint32_t session)
{
    if (table->count == 0)
        return;
    for (uint32_t i = 0; i <= table->mask; i++)
        for (struct watch **at = &table->buckets[i]; *at;) {
            if ((*at)->slot == slot && (*at)->session == session)
                remove_at(table, at);
            else
                at = &(*at)->next;
        }
    shrink(table);
}
