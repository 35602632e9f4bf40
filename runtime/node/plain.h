/* Plain tasks, as most tasks are: at most one small argument and no objects, one return, first attempt,
 * nothing about them needs a look into a table. Their beginnings and ends are taken here with each question
 * asked once; what is not plain takes the general way (submit.c, complete.c), with the same outcome.
 */
#ifndef MOB_RUNTIME_NODE_PLAIN_H
#define MOB_RUNTIME_NODE_PLAIN_H

#include "runtime/node/node.h"

/* What a sibling's record says beside its head. */
struct plain_sibling {
    int64_t submitted_ns;
    uint32_t index, caller_seq;
    uint64_t tail[3]; /* of one argument of eight bytes */
};
/* A checked sibling of `template`, whose submitter may submit it. False: it is not plain, or its id may be
 * known, and nothing was done. */
bool node_submit_plain(struct node *node, struct node_client *client, struct node_template *template,
    const struct plain_sibling *sibling);
/* A worker's short completion record (struct mob_completion_word) of a plain task that it runs. False: it is
 * none such, and nothing was done. */
bool node_complete_plain(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes);

#endif
