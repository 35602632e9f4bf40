/* Where a chain begins of which no store is left (GCS.md 8, "after everything died"): behind all that was
 * ever given out, so that nobody's id, version or position is taken for another's, and no block has a
 * position that the database has already. Nobody knows how far it had come, so there is plenty between. Pure.
 */
#ifndef MOB_GCS_CHAIN_BEGINNING_H
#define MOB_GCS_CHAIN_BEGINNING_H

#include "gcs/chain/incarnation.h"

/* An epoch has room for 256 incarnations (for 32 where there are eight shards), and one that lasts may have
 * given out those of the next ones, too: here a million. */
#define MOB_BEGINNING_EPOCHS (1ull << 12)
/* Since the database last heard of the chain: hours at the highest rate. */
#define MOB_BEGINNING_SEQ_BITS 32u

struct mob_beginning {
    uint64_t epoch,
        seq; /* of a store without anything; its chain has a later epoch, its first entry seq + 1 */
};
/* `epoch`: of the last configuration. `newest_log`: the newest incarnation that anybody knows. `seq`: the
 * chain had come at least so far, by the database and by who spoke last. Positions grow with epochs, too:
 * where there is no database, the next beginning of this kind is still behind this one. */
static inline struct mob_beginning mob_beginning_behind(uint64_t epoch, uint64_t newest_log, uint64_t seq)
{
    uint64_t of_logs = mob_chain_epoch_above(newest_log);
    uint64_t next = (epoch > of_logs ? epoch : of_logs) + MOB_BEGINNING_EPOCHS;
    uint64_t by_epoch = next / MOB_BEGINNING_EPOCHS << MOB_BEGINNING_SEQ_BITS;
    uint64_t by_seq = seq + (1ull << MOB_BEGINNING_SEQ_BITS);
    return (struct mob_beginning){.epoch = next, .seq = by_seq > by_epoch ? by_seq : by_epoch};
}

#endif
