/* What a member tells subscribers of its committed blocks (GCS.md "Protocol" 5): the decisions, without
 * sockets, store or index, so that the simulator runs the same ones as gcs/shard.
 *
 * A subscriber is a position: it has had all blocks up to `after` of the history of `epoch`. Thread-safe:
 * nothing is kept.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_STREAM_H
#define MOB_GCS_CHAIN_CHAIN_STREAM_H

#include "gcs/chain/chain.h"

/* A chain that was started again after everything died: from `epoch` on the history is that of before only up
 * to `seq`. */
struct mob_chain_stream_base {
    uint64_t epoch, seq;
};

/* Only a tail serves streams: a joiner has not all blocks yet, and others do not know what is committed. Nor
 * may one that was left out and has not heard of it: to who comes from a newer `epoch` (UINT64_MAX: from
 * none) it would call void what it never had. */
bool mob_chain_stream_may_serve(const struct mob_chain *c, uint64_t epoch);

/* Up to where a position of `epoch` means what it meant there; `applied`: by this member. */
uint64_t mob_chain_stream_end(
    const struct mob_chain_stream_base *bases, uint32_t count, uint64_t epoch, uint64_t applied);

enum mob_chain_stream_step {
    MOB_CHAIN_STREAM_WAIT = 0,
    MOB_CHAIN_STREAM_HOLE, /* RESYNC: blocks up to `flushed` are not here any more */
    MOB_CHAIN_STREAM_BLOCK /* the one at `next_seq` */
};
/* `next_seq`: the first block behind `after` that the member has, 0: none. */
enum mob_chain_stream_step mob_chain_stream_next(
    uint64_t after, uint64_t next_seq, uint64_t committed, uint64_t flushed);

#endif
