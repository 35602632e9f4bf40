/* What the arguments of actors' calls refer to, and a replay needs as well: whose lineage that is, and since
 * when, is looked up in the log, once before anything of it goes, and told to the actor (actor_needs.h).
 *
 * A result whose bytes are in its completion, and a put, need their own lineage. A result that stood in the
 * store is made again after the node's end, so what its task's arguments refer to is needed, too, and so on,
 * REF_DEPTH_MAX tasks deep; of a job that can end all that there is of it is kept then. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_ACTOR_REFS_H
#define MOB_RUNTIME_NODE_ACTOR_REFS_H

#include "runtime/node/node.h"

struct actor_refs;
struct actor_refs *actor_refs_create(void);
void actor_refs_destroy(struct actor_refs *refs);

/* This task's arguments belong to the call at `position`: the call itself, or the actor's creation (0). */
void actor_refs_note(struct node *node, struct mob_actor_id actor, uint64_t position, struct mob_task_id task,
    const uint8_t *tail);
/* True: the actors know of all that was noted until now. False: `done` is called when they do, or with the
 * control store's error when that could not be told; when the node ends before, `drop`. */
bool actor_refs_settle(
    struct node *node, void (*done)(void *arg, enum mob_status status), void (*drop)(void *arg), void *arg);

#endif
