/* Which living actor has a name: an index of the node's named actors by namespace and name, so that finding,
 * taking and freeing a name costs the same however many actors there are. Two actors may be there under one
 * name while the node reads after its start which of them lives; any of the two is found then.
 *
 * Actors are borrowed: they are taken out before they go. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_ACTOR_NAMES_H
#define MOB_RUNTIME_NODE_ACTOR_NAMES_H

#include "runtime/node/actor_record.h"

struct actor_names;

struct actor_names *actor_names_create(void);
void actor_names_destroy(struct actor_names *names);
/* One without a name is left out. */
void actor_names_add(struct actor_names *names, struct node_actor *actor);
/* Nothing when it is not in the index. */
void actor_names_remove(struct actor_names *names, struct node_actor *actor);
/* NULL: nobody has it. */
struct node_actor *actor_names_find(struct actor_names *names, const char *ns, const char *name);
/* Actors that were looked at so far, by all calls together. */
uint64_t actor_names_looked_at(const struct actor_names *names);

#endif
