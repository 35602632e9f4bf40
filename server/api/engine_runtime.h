/* The production engine: a client of the runtime through sdk/c and of the control store through gcs/client.
 *
 * One thread owns both connections and everything here. It takes operations from a lock-free mailbox, many at
 * a time; publishes what they submit; asks for one acknowledgement for all of a round; and looks a few times
 * more before it sleeps, since a wake-up costs more than a look. It starts without a runtime, answers
 * MOB_UNAVAILABLE until there is one, and connects again by itself.
 */
#ifndef MOB_SERVER_API_ENGINE_RUNTIME_H
#define MOB_SERVER_API_ENGINE_RUNTIME_H

#include "server/api/engine.h"

struct mob_events;
struct mob_serve;

struct mob_engine_runtime_options {
    const char *directory; /* state directory of the cluster; must outlive the engine */
    const char *gcs_socket; /* the same */
    struct mob_cluster_id cluster;
    const uint8_t *secret; /* the cluster's, as gcs/client takes it; must outlive the engine */
    struct mob_events *events;
    struct mob_serve *serve;
    int64_t idempotency_ns; /* how long an Idempotency-Key stands for its request */
    int64_t retention_ns; /* how long lineage is kept for certain, from its making on */
};

MOB_MUST_USE enum mob_status mob_engine_runtime_start(
    const struct mob_engine_runtime_options *options, struct mob_engine **engine_out);

#endif
