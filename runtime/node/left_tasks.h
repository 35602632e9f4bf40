/* The cut, as a new incarnation of the node reads it: what the logs before it say of each task that may have
 * been left (GCS.md "Node logs and the cut"). Filled from blocks in any order; recover.c reads them, and runs
 * what has not finished.
 *
 *   left_tasks_init(&left);
 *   left_tasks_note_block(&left, row);          // all of a block
 *   left_tasks_note_groups(&left, row, groups, count);   // of groups that are read whole; left.reading
 * counts
 *                                                        // these readings
 *   t = left_tasks_find(&left, id);
 *   left_tasks_fini(&left);
 *
 * One thread, before the node listens. Bounded by what was unfinished, and the groups that it is in.
 */
#ifndef MOB_RUNTIME_NODE_LEFT_TASKS_H
#define MOB_RUNTIME_NODE_LEFT_TASKS_H

#include "common/wire/block.h"
#include "gcs/client/client.h"

/* Where in the logs an entry stands. Logs are in ticket order, an incarnation's after those before it, so a
 * caller's submissions stand in the order in which it made them. */
struct log_place {
    uint64_t incarnation, block;
    uint32_t entry;
};

/* A return that is another task's object. */
struct left_tail {
    struct left_tail *next;
    struct mob_object_id id, target;
};

/* Was a task above it cancelled with all below? */
enum above { ABOVE_UNKNOWN = 0, ABOVE_LIVES, ABOVE_CANCELLED };

/* A task of the cut, in a hash table by id. */
struct left_task {
    struct left_task *next;
    struct mob_task_id id;
    bool finished, cancelled, cancelled_kin, outcomes, climbed;
    enum above above;
    uint32_t attempt; /* the last that ended; 0: none */
    uint32_t retries_spent, counted_in; /* in this reading (left_tasks.reading) of its group */
    uint64_t owner; /* the incarnation that logged it, or else the spec */
    int64_t submitted_wall_ns;
    struct log_place place; /* of its spec; `incarnation` is right also when it was read from PostgreSQL */
    struct left_tail *tails; /* of one that has finished */
    uint32_t generation; /* of its completion */
    uint32_t tail_bytes;
    struct mob_spec_head *spec; /* followed by its tail; NULL = only its completion was seen so far */
};
struct checked_groups {
    struct mob_task_id *keys; /* stream and group number; index UINT32_MAX = free */
    uint32_t mask, count;
};
struct left_tasks {
    struct left_task **buckets;
    uint32_t mask, count;
    struct mob_block_decoder *decoder;
    struct log_place at; /* of the entry in hand */
    uint32_t reading; /* counts those of whole groups: an entry may come in several of them */
    bool singly; /* the control store is of a version that gives one group at a time */
    struct checked_groups checked; /* groups that were read whole */
};

/* Never fails: without memory the process ends. */
void left_tasks_init(struct left_tasks *left);
void left_tasks_fini(struct left_tasks *left);
/* NULL: nothing was said of it. */
struct left_task *left_tasks_find(const struct left_tasks *left, struct mob_task_id id);
void left_tasks_note_block(struct left_tasks *left, const struct mob_gcs_block_row *row);
/* What a block says of the tasks of some groups (left_tasks_group_of), which are in the order of
 * left_tasks_by_group; its other groups are read when it is their turn. */
void left_tasks_note_groups(struct left_tasks *left, const struct mob_gcs_block_row *row,
    const struct mob_task_id *groups, uint32_t count);
/* For qsort: neighbours lie together in PostgreSQL, too. */
int left_tasks_by_group(const void *a, const void *b);
/* The stream and number of the group that this task is in. */
struct mob_task_id left_tasks_group_of(struct mob_task_id id);
/* True once for each group: it is to be read whole. */
bool left_tasks_first_time(struct left_tasks *left, struct mob_task_id group);

#endif
