/* Who asked for which object and was not told yet: object id -> clients. A chained hash table, an entry a
 * watch, which is as large as what is watched: who goes through all of it (watch_table_drop) does not pay for
 * what once was. One owner; out of memory for a watch ends the process.
 *
 *   struct watch *watch = watch_table_add(table, id, slot, session);
 *   struct watch taken;
 *   while (watch_table_take(table, id, &taken)) ...    // the newest first
 */
#ifndef MOB_RUNTIME_NODE_WATCHES_H
#define MOB_RUNTIME_NODE_WATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"

struct watch {
    struct watch *next;
    struct mob_object_id id;
    uint32_t slot, session; /* of the client */
    uint32_t request; /* with is_request: reply to it instead of a notice */
    bool is_request;
};
struct watch_table {
    struct watch **buckets;
    uint32_t mask; /* buckets - 1 */
    uint32_t count;
};
#define WATCH_BUCKETS_MIN 1024u

struct watch_table *watch_table_create(void);
void watch_table_destroy(struct watch_table *table);
/* The table's; the caller fills in the rest. */
struct watch *watch_table_add(
    struct watch_table *table, struct mob_object_id id, uint32_t slot, uint32_t session);
bool watch_table_has(const struct watch_table *table, struct mob_object_id id);
/* Out of the table. False: there is none of this object. */
bool watch_table_take(struct watch_table *table, struct mob_object_id id, struct watch *watch_out);
/* All of a client. */
void watch_table_drop(struct watch_table *table, uint32_t slot, uint32_t session);

#endif
