/* The gateway's list of lineage nodes, breadth first, as the tree that people read. */
#ifndef MOB_CLI_LINEAGE_TREE_H
#define MOB_CLI_LINEAGE_TREE_H

#include <jansson.h>

/* `nodes`: [{task, depth, function, kind, state, inputs: [object ids], stateful_parent}, ...]. Gives the
 * first one with what it was made from in `children`; each node stands where it was first used, and is an
 * entry with `above` elsewhere. One entry `further` counts a node's inputs that are not in the list. NULL:
 * the list is empty, or out of memory. */
json_t *lineage_tree(const json_t *nodes);

#endif
