/* Ids of incarnations of nodes: which one a registration gets. Pure. */
#ifndef MOB_GCS_CHAIN_INCARNATION_H
#define MOB_GCS_CHAIN_INCARNATION_H

#include "common/wire/home.h"

#define MOB_CHAIN_INCARNATION_SHIFT 8u

/* Behind `last`, which this chain knows, and naming its home. Ids are never used again, also when their
 * registration was lost with everything: the chain that started again has another epoch. */
static inline uint64_t mob_chain_next_incarnation(
    uint64_t last, uint64_t epoch, uint64_t home, uint64_t shards)
{
    uint64_t base = ((epoch - 1) << MOB_CHAIN_INCARNATION_SHIFT) + 1;
    return mob_home_first_id(last + 1 > base ? last + 1 : base, home, shards);
}

/* The first epoch in which a chain that knows none of them gives out only ids above this one. */
static inline uint64_t mob_chain_epoch_above(uint64_t incarnation)
{
    uint64_t each = 1ull << MOB_CHAIN_INCARNATION_SHIFT;
    return (incarnation + each - 1) / each + 1;
}

#endif
