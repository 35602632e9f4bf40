/* Plain tasks, as most tasks are: at most one small argument and no objects, one return, first attempt,
 * nothing about them needs a look into a table. Their beginnings and ends are taken here with each question
 * asked once, for all records of a run (mob_store_next_run) that it is the same for; what is not plain takes
 * the general way (submit.c, complete.c), with the same outcome.
 */
#ifndef MOB_RUNTIME_NODE_PLAIN_H
#define MOB_RUNTIME_NODE_PLAIN_H

#include "runtime/node/node.h"

/* The siblings of `template` in a run of records, which their submitter may submit: the first ones, as far as
 * they are plain and new. Returns how many; with the others nothing was done. */
uint32_t node_submit_plain(struct node *node, struct node_client *client, struct node_template *template,
    const struct mob_store_run *run);
/* Short completion records (struct mob_completion_word) in a run: of the first ones, as far as they are of
 * plain tasks that the worker runs. Returns how many; with the others nothing was done. */
uint32_t node_complete_plain(struct node *node, struct node_client *client, const struct mob_store_run *run);

#endif
