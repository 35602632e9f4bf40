/* A node with its control store in a fresh directory, for tests: real processes, started and killed at will.
 */
#ifndef MOB_TESTS_SUPPORT_NODE_BOX_H
#define MOB_TESTS_SUPPORT_NODE_BOX_H

#include "tests/support/gcs_box.h"

struct node_box {
    struct gcs_box gcs;
    char directory[96]; /* of the node: $MOBULA_DIR of its clients */
    pid_t node;
    int slots;
    uint64_t incarnation; /* of the node that runs, or ran last */
};

/* Starts everything and waits until the node accepts sessions. Aborts on failure, after printing the node's
 * log. */
void node_box_start(struct node_box *box, int slots);
/* Only the node, after node_box_kill: the next incarnation on the same directory. */
void node_box_restart(struct node_box *box);
void node_box_kill(struct node_box *box);
/* Ends all processes and removes the directory. */
void node_box_stop(struct node_box *box);

#endif
