/* Whom an event belongs to: function and actor of its task, from the spec.
 *
 * Specs that came by are remembered in a table of fixed size, where a newer one may take an older one's
 * place. One that is not there is read from the lineage with all of its group (256 neighbours); those that
 * were read stay until the block in hand is done. The engine's thread only.
 */
#ifndef MOB_SERVER_API_ENGINE_EVENT_SPECS_H
#define MOB_SERVER_API_ENGINE_EVENT_SPECS_H

#include "server/api/engine_inner.h"

struct event_spec {
    struct mob_task_id task;
    struct mob_function_id function;
    struct mob_actor_id actor; /* that it is a call of, or makes; zero: none */
};

/* Keeps the engine. NULL: out of memory. */
struct event_specs *event_specs_create(struct engine *engine);
void event_specs_destroy(struct event_specs *specs);
void event_specs_note(struct event_specs *specs, const struct mob_spec_head *head);
/* NULL: not known. Borrowed until the next note or read. */
const struct event_spec *event_spec_of(const struct event_specs *specs, struct mob_task_id task);
/* Known, or read without being found: there is nothing to wait for. */
bool event_specs_know(const struct event_specs *specs, struct mob_task_id task);
/* Reads the group of this task, then calls `then` once, never inside of this call unless the control store
 * refuses the question. */
void event_specs_read(struct event_specs *specs, struct mob_task_id task, void (*then)(void *arg), void *arg);
/* What was read is not needed any more. */
void event_specs_block_end(struct event_specs *specs);

#endif
