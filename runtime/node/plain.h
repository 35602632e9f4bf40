/* Plain tasks, as most tasks are: one return, first attempt, nothing about them needs a look into a table.
 * Their ends are taken here with each question asked once; what is not plain takes the general way
 * (complete.c), with the same outcome.
 */
#ifndef MOB_RUNTIME_NODE_PLAIN_H
#define MOB_RUNTIME_NODE_PLAIN_H

#include "runtime/node/node.h"

/* A worker's completion record of a plain task that it runs, which ended well with a small value of eight
 * bytes. False: it is none such, and nothing was done. */
bool node_complete_plain(
    struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes);

#endif
