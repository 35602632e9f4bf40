/* Whom an event belongs to: function and actor of its task, from the spec.
 *
 * Specs that came by are remembered (recent_specs.h). Those that are not there are looked for in the lineage
 * (engine_specs.h), all that a block lacks at once; what was read for a block stays until it is done, and
 * what came by in that reading is remembered too: a group's page has up to 256 neighbours, whose ends follow.
 * The engine's thread only.
 *
 *   event_specs_want(specs, task);                  // each that !event_specs_know()
 *   event_specs_read(specs, &block, then, arg);     // and in then(): they are known
 *   event_specs_block_end(specs);
 */
#ifndef MOB_SERVER_API_ENGINE_EVENT_SPECS_H
#define MOB_SERVER_API_ENGINE_EVENT_SPECS_H

#include "server/api/engine_inner.h"
#include "server/api/recent_specs.h"

/* A committed block; its bytes are borrowed. */
struct event_block {
    uint32_t shard;
    uint64_t seq;
    const uint8_t *bytes;
    size_t length;
    bool recut; /* a part of one that was flushed */
};

/* Keeps the engine. NULL: out of memory. */
struct event_specs *event_specs_create(struct engine *engine);
void event_specs_destroy(struct event_specs *specs);
void event_specs_note(struct event_specs *specs, const struct mob_spec_head *head);
/* False: not known. */
bool event_spec_of(const struct event_specs *specs, struct mob_task_id task, struct event_spec *spec_out);
/* Known, or read without being found: there is nothing to wait for. */
bool event_specs_know(const struct event_specs *specs, struct mob_task_id task);
/* For the next read. */
void event_specs_want(struct event_specs *specs, struct mob_task_id task);
/* Reads what is wanted, for this block, then calls `then` once: inside of this call only if there was nothing
 * to ask for, or the control store refuses the question. */
void event_specs_read(
    struct event_specs *specs, const struct event_block *block, void (*then)(void *arg), void *arg);
/* What was read is not needed any more; what is being read will be nobody's (`then` comes all the same). */
void event_specs_block_end(struct event_specs *specs);

#endif
