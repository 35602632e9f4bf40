/* Actors in the control store: the creation's spec in a row of ACTORS, so that the next incarnation of the
 * node finds it, and the name's row in NAMES.
 *
 * A new actor's row is sent before the block that has its creation, so a creation in the log has a row; every
 * other change goes behind what was logged before it, so no row says more than the log. What the control
 * store has no place for at the moment is kept and sent later, in order. Node thread only; private to actors.
 */
#ifndef MOB_RUNTIME_NODE_ACTOR_ROWS_H
#define MOB_RUNTIME_NODE_ACTOR_ROWS_H

#include "runtime/node/actor_record.h"

/* And no checkpoint, if one of its id was before. */
void actor_row_new(struct node *node, const struct node_actor *actor);
/* Its incarnation or its restarts are others. */
void actor_row_change(struct node *node, const struct node_actor *actor);
/* It has ended. The row of its name stays when another living actor has that. */
void actor_row_remove(struct node *node, const struct node_actor *actor);
/* Its creation is in no log: nothing waits for that, least of all what its driver writes when it creates it
 * again. Its name's row, which would have come behind the creation, is not its own. */
void actor_row_forget(struct node *node, const struct node_actor *actor);
/* The log of an earlier incarnation says that it lives: its name's row may not have been written yet. */
void actor_row_back(struct node *node, const struct node_actor *actor);

#endif
