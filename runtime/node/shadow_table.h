/* Shadows (shadow.h) by the actor that they are of, and those whose tasks have all ended, the first of them
 * first. Entries are embedded in what they are of. One owner; out of memory ends the process.
 *
 *   shadow_table_add(&table, &shadow->entry, id);
 *   struct shadow_entry *entry = shadow_table_find(&table, id);
 *   shadow_table_ended(&table, &shadow->entry);
 *   while ((entry = shadow_table_take_ended(&table))) ...
 */
#ifndef MOB_RUNTIME_NODE_SHADOW_TABLE_H
#define MOB_RUNTIME_NODE_SHADOW_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"

struct shadow_entry {
    struct mob_actor_id id;
    struct shadow_entry *next, *prev; /* of all */
    struct shadow_entry *next_of_bucket, *next_ended;
    bool ended; /* waits to be taken */
};
/* Zero is empty. */
struct shadow_table {
    struct shadow_entry *first; /* of all, by `next` */
    struct shadow_entry **buckets;
    uint32_t bucket_count, count;
    struct shadow_entry *ended_first, *ended_last;
};

/* Of the table itself, which is empty. */
void shadow_table_fini(struct shadow_table *table);
void shadow_table_add(struct shadow_table *table, struct shadow_entry *entry, struct mob_actor_id id);
/* Not of one that waits to be taken. */
void shadow_table_remove(struct shadow_table *table, struct shadow_entry *entry);
/* NULL: there is none. */
struct shadow_entry *shadow_table_find(const struct shadow_table *table, struct mob_actor_id id);
/* It waits to be taken. */
void shadow_table_ended(struct shadow_table *table, struct shadow_entry *entry);
/* It stays in the table. NULL: none has ended. */
struct shadow_entry *shadow_table_take_ended(struct shadow_table *table);

#endif
