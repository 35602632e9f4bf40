#include "gcs/chain/chain_stream.h"

#include "gcs/chain/chain_rules.h"

bool mob_chain_stream_may_serve(const struct mob_chain *c, uint64_t epoch)
{
    bool newer = epoch != UINT64_MAX && epoch > mob_chain_epoch(c);
    return (mob_chain_is_tail(c) && !newer) || !MOB_RULE(STREAM_TAIL);
}

uint64_t mob_chain_stream_end(
    const struct mob_chain_stream_base *bases, uint32_t count, uint64_t epoch, uint64_t applied)
{
    uint64_t end = applied;
    for (uint32_t i = 0; i < count && MOB_RULE(STREAM_HISTORY); i++)
        if (bases[i].epoch > epoch && bases[i].seq < end)
            end = bases[i].seq;
    return end;
}

enum mob_chain_stream_step mob_chain_stream_next(
    uint64_t after, uint64_t next_seq, uint64_t committed, uint64_t flushed)
{
    if (after < flushed && MOB_RULE(STREAM_HOLE))
        return MOB_CHAIN_STREAM_HOLE;
    return next_seq == 0 || next_seq > committed ? MOB_CHAIN_STREAM_WAIT : MOB_CHAIN_STREAM_BLOCK;
}
