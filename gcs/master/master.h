/* The master of a shard's chain as a process: members report to it, it makes configurations in a table where
 * masters agree (table.h), tells members, grants the tail's read lease, and has dead members replaced. Nodes
 * whose home is this shard enroll at it and beat; it has the logs of dead ones sealed and gives out the next
 * incarnation.
 *
 * What it decides is gcs/chain/membership.h and gcs/chain/node_watch.h; several may run, and one is active.
 * One loop on the calling thread, at real-time priority where that is allowed, and the table's thread.
 */
#ifndef MOB_GCS_MASTER_MASTER_H
#define MOB_GCS_MASTER_MASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/status.h"

struct mob_master_options {
    const char *listen; /* address for members */
    const char *postgres; /* folder of its socket; NULL: `file` */
    const char *file;
    const char *replace_socket; /* datagrams to whoever starts members: what to end; NULL: nobody */
    struct mob_cluster_id cluster;
    uint8_t secret[32];
    const char *gcs_socket; /* clients' sockets of the shard's members, with commas; NULL: no nodes enroll */
    uint32_t shard, shards, replicas;
    int64_t lease_ns, suspicion_ns, gather_ns;
    int64_t silence_ns; /* of a node, after which it is dead */
    bool start_without_all; /* after everything died: GCS.md 8 */
    const int *stop_fd; /* readable = return */
};
/* Blocks until stopped. */
MOB_MUST_USE enum mob_status mob_master_run(const struct mob_master_options *options);

#endif
