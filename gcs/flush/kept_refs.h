/* What calls that are repeated need beside themselves (kept.h): the groups of their children, which are found
 * there and do not run again, and what their arguments refer to: of a result whose bytes are in its
 * completion, and of a put, that is its own group. A result that stood in the store is made again by its
 * task, or by its actor's calls, so what these need is needed as well, and so on, KEPT_REFS_DEPTH_MAX tasks
 * deep.
 *
 *   for each call: kept_refs_add(refs, call);
 *   kept_refs_follow(refs, &needs);      // and again, when calls of actors that it gives have been added
 *   while (kept_refs_next_actor(refs, &actor)) ...
 *
 * Reads groups by 64 together, each once for all that is wanted of it a step of the depth. One thread;
 * blocks.
 */
#ifndef MOB_GCS_FLUSH_KEPT_REFS_H
#define MOB_GCS_FLUSH_KEPT_REFS_H

#include "gcs/flush/kept.h"

#define KEPT_REFS_DEPTH_MAX 64u

struct kept_refs;
/* NULL when out of memory. Keeps `gcs`. */
struct kept_refs *kept_refs_create(struct mob_gcs *gcs);
void kept_refs_destroy(struct kept_refs *refs);
/* This task, a call or a creation, runs again. */
MOB_MUST_USE enum mob_status kept_refs_add(struct kept_refs *refs, struct mob_task_id task);
/* Adds the groups that are needed for that. An answer that is missing is an error. */
MOB_MUST_USE enum mob_status kept_refs_follow(struct kept_refs *refs, struct kept_needs *needs);
/* Actors that would have to make results again, each once; those that have been read are named first. */
MOB_MUST_USE enum mob_status kept_refs_actor_read(struct kept_refs *refs, struct mob_actor_id actor);
bool kept_refs_next_actor(struct kept_refs *refs, struct mob_actor_id *actor_out);

#endif
