/* Ends the logs of a node whose process is gone: asks the control store for the live incarnations and seals
 * each.
 *
 * The supervisor does this when it has seen the process end and before it starts another; on one machine it
 * plays the part that the master has in a cluster. Non-blocking, in the caller's loop; while the control
 * store is away it waits.
 *
 *   node_seal_start(&seal, loop, &(struct node_seal_options){directory, sockets}, on_sealed); // once at a
 * time
 */
#ifndef MOB_CLI_NODE_SEAL_H
#define MOB_CLI_NODE_SEAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct mob_gcs;
struct mob_gcs_answer;

struct node_seal {
    struct mob_gcs *gcs; /* NULL = at rest */
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned closing; /* handles still to be closed */
    bool finished; /* says the step that runs: end when it returns */
    bool stopped; /* the caller gave up: no callback */
    uint32_t outstanding, sealed_count;
    uint64_t after; /* incarnations up to here are sealed */
    int64_t look_at_ns; /* after a failure: when to look again; 0 = no such plan */
    void (*done)(struct node_seal *seal);
};

struct node_seal_options {
    const char *directory; /* with the cluster's id and secret */
    const char *gcs_socket; /* as gcs/client takes it */
};
/* `done` comes once, later, when nothing is live any more. False: at work already, out of memory, or without
 * the cluster's secret. */
bool node_seal_start(struct node_seal *seal, uv_loop_t *loop, const struct node_seal_options *options,
    void (*done)(struct node_seal *));
/* Gives up; `done` does not come. Fine at rest. */
void node_seal_stop(struct node_seal *seal);

#endif
