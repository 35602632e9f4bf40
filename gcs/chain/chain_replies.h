/* The replies that the machine keeps of its clients, for an owner whose store writes them down later than
 * they were made (gcs/shard/journal.c). */
#ifndef MOB_GCS_CHAIN_CHAIN_REPLIES_H
#define MOB_GCS_CHAIN_CHAIN_REPLIES_H

#include "gcs/chain/chain.h"

/* Of the request that was last in `slot` (its number modulo MOB_GCS_WINDOW); NULL: none. Valid until the next
 * event. */
const struct mob_gcs_reply *mob_chain_reply(const struct mob_chain *c, uint64_t client, uint64_t slot);
/* While loading: the client was expired behind what was loaded of it. */
void mob_chain_load_forget(struct mob_chain *c, uint64_t client);

#endif
