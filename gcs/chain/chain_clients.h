/* The (client, request) table of a chain: who has been answered what. Bounded: MOB_CHAIN_CLIENTS_MAX clients
 * with MOB_GCS_WINDOW replies each. Internal to gcs/chain; one owner.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_CLIENTS_H
#define MOB_GCS_CHAIN_CHAIN_CLIENTS_H

#include <stdbool.h>

#include "common/base/status.h"
#include "common/wire/gcs_msg.h"

struct mob_chain_client {
    uint64_t id;
    uint64_t last; /* newest applied request */
    uint64_t collected; /* newest collected one, while collecting */
    uint64_t before; /* collecting: old seq of the next request that was answered, while they are sorted */
    bool provisional; /* collecting: its OPEN was lost and comes again */
    struct mob_gcs_reply replies[MOB_GCS_WINDOW]; /* by request % window; seq 0 = none; request 0: its OPEN's,
                                                     whose version is the nonce */
};
struct mob_chain_clients {
    struct mob_chain_client **slots; /* open addressing, at most half full */
    size_t capacity, count;
    uint64_t digest; /* sum over clients and replies: equal tables, equal digests */
};

void mob_chain_clients_fini(struct mob_chain_clients *t);
struct mob_chain_client *mob_chain_clients_find(const struct mob_chain_clients *t, uint64_t id);
/* New, with last = 0. MOB_NO_MEMORY, MOB_QUEUE_FULL. */
MOB_MUST_USE enum mob_status mob_chain_clients_add(
    struct mob_chain_clients *t, uint64_t id, struct mob_chain_client **client_out);
/* The client that an OPEN with this nonce made, as long as it keeps the reply. Looks through all of them. */
struct mob_chain_client *mob_chain_clients_opened(const struct mob_chain_clients *t, uint64_t nonce);
void mob_chain_clients_remove(struct mob_chain_clients *t, uint64_t id);
/* The client's newest request is `last`, which may be lower than before while a joiner replays. */
void mob_chain_client_set_last(struct mob_chain_clients *t, struct mob_chain_client *client, uint64_t last);
void mob_chain_client_set_reply(
    struct mob_chain_clients *t, struct mob_chain_client *client, const struct mob_gcs_reply *reply);
/* As if it had just been added. */
void mob_chain_client_reset(struct mob_chain_clients *t, struct mob_chain_client *client);
/* Up to `max` clients with ids above `after`, in order; for walking a table that changes in between. */
size_t mob_chain_clients_after(
    const struct mob_chain_clients *t, uint64_t after, const struct mob_chain_client **out, size_t max);

#endif
