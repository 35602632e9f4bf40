/* A node's life, as others know it: where its incarnation comes from, and who finds out that it is dead.
 *
 * In a cluster with masters the node enrolls at the master of its home shard, which gives out the
 * incarnation, and a thread of its own then beats there each MOB_NODE_LIFE_BEAT_NS (gcs/chain/node_watch.h
 * has what the master makes of it). The thread does not speak for a loop that has not come back from one pass
 * for MOB_NODE_LIFE_HUNG_NS. Without masters the incarnation is registered at the control store directly, and
 * whoever started the node's process has its log sealed when that has ended (cli/node_seal.h).
 *
 *   mob_node_life_begin(&options, gcs, deadline, &life, &incarnation);
 *   mob_node_life_at(life, now);            // each pass of the loop; 0: it is about to sleep
 *   when mob_node_life_fd() is readable: mob_node_life_over() says that the incarnation is over
 *   mob_node_life_end(life, true);          // its log is acknowledged, and ends here
 *
 * All functions are for the thread that owns the node's loop. Being told that it is over is a courtesy: what
 * protects the others is that the sealed log takes nothing any more.
 */
#ifndef MOB_GCS_LIFE_NODE_LIFE_H
#define MOB_GCS_LIFE_NODE_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/mac.h"
#include "gcs/client/client.h"

#define MOB_NODE_LIFE_BEAT_NS (200 * 1000000ll) /* 15 in the time after which silence is death */
#define MOB_NODE_LIFE_HUNG_NS (5 * 1000000000ll)
#define MOB_NODE_LIFE_MASTERS_MAX 3u /* of one shard */

struct mob_node_life_options {
    const char *node; /* its name in the cluster; copied */
    const char *masters; /* of each shard with commas, shards with semicolons; copied. NULL: there are none */
    struct mob_cluster_id cluster;
    uint8_t secret[MOB_MAC_KEY_BYTES];
};

struct mob_node_life;
/* Blocks until the incarnation is given out. MOB_TIMEOUT; MOB_SEALED: it was declared dead at once, start
 * again; MOB_EXISTS: a living node has this name; MOB_INVALID; or what the control store answers. Gives
 * (end).
 */
MOB_MUST_USE enum mob_status mob_node_life_begin(const struct mob_node_life_options *options,
    struct mob_gcs *gcs, int64_t deadline_ns, struct mob_node_life **life_out, uint64_t *incarnation_out);
/* `leaves`: the masters are told that the log ends here. NULL is fine. */
void mob_node_life_end(struct mob_node_life *life, bool leaves);
/* Readable when it is over; -1 without masters. Stays the life's. */
int mob_node_life_fd(const struct mob_node_life *life);
bool mob_node_life_over(const struct mob_node_life *life);
/* Progress of the loop: the pass that begins, by mob_now(); 0 = asleep. NULL is fine. */
void mob_node_life_at(struct mob_node_life *life, int64_t now_ns);

#endif
