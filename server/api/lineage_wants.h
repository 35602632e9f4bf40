/* Which groups, and which single tasks, a lineage_set takes out of blocks: a hash set, since it is asked for
 * every entry of every block. One owner; grows without bound but that of whoever fills it. Out of memory ends
 * the process.
 *
 *   struct lineage_wants wants = {0};
 *   lineage_wants_add(&wants, LINEAGE_WANTS_GROUP, id.stream, id.index >> MOB_GROUP_SHIFT);
 *   if (lineage_wants(&wants, id)) ...
 *   lineage_wants_fini(&wants);
 */
#ifndef MOB_SERVER_API_LINEAGE_WANTS_H
#define MOB_SERVER_API_LINEAGE_WANTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/id.h"

enum lineage_wants_kind { LINEAGE_WANTS_GROUP = 1, LINEAGE_WANTS_TASK = 2 };

struct lineage_wants {
    struct lineage_want {
        struct mob_stream stream;
        uint32_t number; /* of the group, or the task's index */
        uint32_t kind; /* 0: free */
    } * slots;
    size_t capacity, count, tasks;
};

void lineage_wants_fini(struct lineage_wants *w);
/* False: it was there before. */
bool lineage_wants_add(
    struct lineage_wants *w, enum lineage_wants_kind kind, struct mob_stream stream, uint32_t number);
/* Itself, or its group. */
bool lineage_wants(const struct lineage_wants *w, struct mob_task_id id);

#endif
