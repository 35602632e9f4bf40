/* Ends the logs of a node whose process is gone: asks the control store for the live incarnations and seals
 * each.
 *
 * The supervisor calls this when it has seen the process end and before it starts another; on one machine it
 * plays the part that the master has in a cluster. Non-blocking, in the caller's loop; while the control
 * store is away it waits.
 */
#ifndef MOB_CLI_NODE_SEAL_H
#define MOB_CLI_NODE_SEAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define NODE_SEAL_LIVE_MAX \
    64 /* incarnations that can be live at once: one for each node that died unsealed */

struct mob_gcs;
struct node_seal {
    uv_poll_t poll;
    uv_timer_t timer;
    struct mob_gcs *gcs; /* NULL = at rest */
    unsigned handles; /* still to be closed */
    uint64_t live[NODE_SEAL_LIVE_MAX];
    uint32_t live_count, sealed_count;
    uint32_t outstanding;
    bool finished, again, stepping;
    void (*done)(struct node_seal *seal);
};

/* `done` comes once, when nothing is live any more. False: at work already, or out of memory. */
bool node_seal_start(
    struct node_seal *seal, uv_loop_t *loop, const char *gcs_socket, void (*done)(struct node_seal *));
/* Gives up; `done` does not come. */
void node_seal_stop(struct node_seal *seal);

#endif
