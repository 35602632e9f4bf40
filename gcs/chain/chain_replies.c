#include "gcs/chain/chain_replies.h"

#include "gcs/chain/chain_internal.h"

const struct mob_gcs_reply *mob_chain_reply(const struct mob_chain *c, uint64_t client, uint64_t slot)
{
    const struct mob_chain_client *row = mob_chain_clients_find(&c->clients, client);
    if (row == NULL || row->replies[slot % MOB_GCS_WINDOW].seq == 0)
        return NULL;
    return &row->replies[slot % MOB_GCS_WINDOW];
}

void mob_chain_load_forget(struct mob_chain *c, uint64_t client)
{
    mob_chain_clients_remove(&c->clients, client);
}
