/* Reading lineage for one operation: groups of 256 neighbours, one after the other, into one lineage_set.
 *
 *   struct reading *reading = reading_begin(flight, on_group);
 *   if (!reading_group(reading, id.stream, id.index >> MOB_GROUP_SHIFT)) ...   // it is there already
 *   static void on_group(struct reading *reading, enum mob_status status) { ...; reading_end(reading); }
 *
 * `done` comes once for each group that reading_group started, never inside of it unless the control store
 * refuses the question. The engine's thread only.
 */
#ifndef MOB_SERVER_API_ENGINE_READING_H
#define MOB_SERVER_API_ENGINE_READING_H

#include "server/api/engine_inner.h"

struct reading {
    struct flight *flight;
    struct lineage_set *set;
    struct mob_stream stream;
    uint32_t group, limit; /* limit: of the next page's blocks; 0: as many as it holds */
    struct {
        struct mob_actor_id actor;
        uint64_t position, until, back; /* in blocks from `until` */
        bool old; /* in the group of the creation, where edges lay before they had groups of their own */
    } edge; /* that is looked for */
    void (*done)(struct reading *reading, enum mob_status status);
    bool (*has_enough)(const struct reading *reading); /* asked after each block; NULL: read to the end */
    void *context; /* the operation's own; not freed here */
};

/* Never NULL. Freed with reading_end. */
struct reading *reading_begin(
    struct flight *flight, void (*done)(struct reading *reading, enum mob_status status), void *context);
void reading_end(struct reading *reading);
/* True: `done` will be called, with MOB_OK also for a group that no log knows; false: it was read before. */
bool reading_group(struct reading *reading, struct mob_stream stream, uint32_t group);
/* The same, of the blocks behind this position only. */
bool reading_group_behind(
    struct reading *reading, struct mob_stream stream, uint32_t group, uint64_t position);
/* Only those of this group's tasks that the set wants, out of the blocks behind this position, few at a time
 * at first: for a search that `has_enough` soon. The group counts as not read. */
void reading_tasks_behind(
    struct reading *reading, struct mob_stream stream, uint32_t group, uint64_t position);
/* The stateful edge of an actor's call, looked for backwards from block `until`, since an actor of millions
 * of calls has too many to read them all. True: `done` will be called; false: it is in the set, or in no log.
 */
bool reading_edge(struct reading *reading, struct mob_actor_id actor, uint64_t position, uint64_t until);

/* Of a list: the row of a task whose spec is known, as far as that goes, and what its completion adds. Gives.
 */
json_t *engine_record_row(struct engine *engine, const struct task_record *record);
void engine_record_end(const struct task_record *record, json_t *row);

#endif
