/* The (client, request) table of a chain: who has been answered what. Bounded: MOB_CHAIN_CLIENTS_MAX clients
 * with MOB_GCS_WINDOW replies each. Internal to gcs/chain; one owner.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_CLIENTS_H
#define MOB_GCS_CHAIN_CHAIN_CLIENTS_H

#include "common/base/status.h"
#include "common/wire/gcs_msg.h"

struct mob_chain_client {
    uint64_t id;
    uint64_t last; /* newest applied request */
    uint64_t collected; /* newest collected one, while collecting */
    struct mob_gcs_reply replies[MOB_GCS_WINDOW]; /* by request % window; request 0 = none */
};
struct mob_chain_clients {
    struct mob_chain_client **slots; /* open addressing, at most half full */
    size_t capacity, count;
};

void mob_chain_clients_fini(struct mob_chain_clients *t);
struct mob_chain_client *mob_chain_clients_find(const struct mob_chain_clients *t, uint64_t id);
/* New, with last = 0. MOB_NO_MEMORY, MOB_QUEUE_FULL. */
MOB_MUST_USE enum mob_status mob_chain_clients_add(
    struct mob_chain_clients *t, uint64_t id, struct mob_chain_client **client_out);
void mob_chain_clients_remove(struct mob_chain_clients *t, uint64_t id);

#endif
