/* What the lineage knows of whole groups, for a moment: a group that is looked up again and again, as when a
 * chain of its tasks is made again one by one, is read once.
 *
 * A few groups; the oldest goes. What this node logs of a group ends what is remembered of it. Node thread
 * only; private to known.c.
 */
#ifndef MOB_RUNTIME_NODE_KNOWN_GROUPS_H
#define MOB_RUNTIME_NODE_KNOWN_GROUPS_H

#include "runtime/node/known.h"

struct known_group;
struct known_groups;
struct known_groups *known_groups_create(void);
void known_groups_destroy(struct known_groups *groups);

/* A read of this group begins. NULL: it was not read lately, and is not remembered. Else give it each entry
 * of the read, then end it. */
struct known_group *known_groups_begin(struct known_groups *groups, struct mob_stream stream, uint32_t group);
void known_group_entry(
    struct known_group *group, const struct mob_entry *entry, const struct mob_block_header *block);
void known_groups_end(struct known_groups *groups, struct known_group *group, bool whole);
/* Spec, completion and outcomes of this task, borrowed until the next call; all NULL = no log knows it. NULL:
 * its group is not remembered. */
const struct known *known_groups_find(struct known_groups *groups, struct mob_task_id task);
bool known_groups_any(const struct known_groups *groups);
void known_groups_logged(struct known_groups *groups, struct mob_task_id task);
/* Lineage was deleted. */
void known_groups_clear(struct known_groups *groups);

#endif
