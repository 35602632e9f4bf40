#include "common/wire/home.h"

#include "common/base/hash.h"

uint32_t mob_home_of_id(uint64_t incarnation, uint64_t shards)
{
    return shards < 2 ? 0 : (uint32_t)(incarnation % shards);
}

uint64_t mob_home_first_id(uint64_t at_least, uint64_t home, uint64_t shards)
{
    return shards < 2 ? at_least : at_least + (home + shards - at_least % shards) % shards;
}

uint32_t mob_home_of_key(uint32_t table, const void *key, uint32_t key_length, uint64_t shards)
{
    return shards < 2 ? 0 : (uint32_t)((mob_hash64(key, key_length) + (uint64_t)table) % shards);
}

uint32_t mob_home_with_fewest(const uint64_t *counts, uint32_t shards)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < shards; i++)
        if (counts[i] < counts[best])
            best = i;
    return best;
}
