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
    uint64_t sealed; /* the newest incarnation whose log was sealed here */
    const char *const *args; /* more flags of mobula-node, NULL-terminated; NULL = none */
};

/* Starts everything and waits until the node accepts sessions. Aborts on failure, after printing the node's
 * log. */
void node_box_start(struct node_box *box, int slots);
void node_box_start_with(struct node_box *box, int slots, const char *const *args);
/* Only the node, after node_box_kill: the next incarnation on the same directory. */
void node_box_restart(struct node_box *box);
/* The next incarnation with these MOBULA_FAILPOINTS, until SIGKILL has ended it: where they say. */
void node_box_restart_to_die(struct node_box *box, const char *failpoints);
void node_box_kill(struct node_box *box);
/* Starts what is not running, in the supervisor's order; for kills of several processes at once. */
void node_box_revive(struct node_box *box);
/* SIGTERM, then how long it took to end, ns; its wait status in *status_out. */
int64_t node_box_end(struct node_box *box, int *status_out);
/* The node's zygote and workers: processes below it, oldest first. Returns how many there are. */
int node_box_zygote(const struct node_box *box, pid_t *zygote_out);
int node_box_workers(const struct node_box *box, pid_t *pids_out, int max);
void node_box_print_log(const struct node_box *box);
/* Ends all processes and removes the directory. */
void node_box_stop(struct node_box *box);

#endif
