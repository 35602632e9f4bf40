/* Specs of tasks whose ends are known, read out of the log for one request. The spec of what has ended may be
 * in any block before its end, and a task's group (256 neighbours) may have left something in hundreds of
 * blocks, so a group is not read whole for one of them: its first blocks are looked at, which hold it when
 * all were submitted together, or when they are few, then those before the end, further and further back, and
 * only then the rest. What else is wanted is taken out of every block that comes by, and none is decoded
 * twice in one search.
 *
 *   struct spec_search *search = spec_search_create(engine);
 *   spec_search_want(search, task);
 *   spec_search_block(search, row);                 // each block that is at hand anyway
 *   spec_search_seek(search, task, position);       // for those that were not in them
 *   spec_search_read(search, done, arg);            // and in done(): spec_search_find(search, task)
 *
 * The engine's thread only. Not to be destroyed while it reads, but in `done`.
 */
#ifndef MOB_SERVER_API_ENGINE_SPECS_H
#define MOB_SERVER_API_ENGINE_SPECS_H

#include "server/api/engine_inner.h"

struct spec_search;
/* Never NULL; keeps `engine`. */
struct spec_search *spec_search_create(struct engine *engine);
void spec_search_destroy(struct spec_search *search);
/* From here on it is taken out of blocks that come by. */
void spec_search_want(struct spec_search *search, struct mob_task_id task);
/* Tells of every spec that comes by, also of those that nobody wants: neighbours may be asked for next.
 * `head` is borrowed. NULL: not any more. */
void spec_search_each(
    struct spec_search *search, void (*each)(void *arg, const struct mob_spec_head *head), void *arg);
/* Takes what is wanted out of a block of the log. */
void spec_search_block(struct spec_search *search, const struct mob_gcs_block_row *row);
/* Wants it, and the next reading looks for it. `position`: of the block with its end, as group reads give it
 * (mob_gcs_shard_position); 0 when that is not known, or was flushed. */
void spec_search_seek(struct spec_search *search, struct mob_task_id task, uint64_t position);
/* Reads what was sought and is not there. `done` comes once, maybe before this returns; MOB_OK also when the
 * log does not have all of them. */
void spec_search_read(struct spec_search *search, void (*done)(void *arg, enum mob_status status), void *arg);
/* NULL: its spec is not known. Lives as long as the search. */
const struct task_record *spec_search_find(const struct spec_search *search, struct mob_task_id task);

#endif
