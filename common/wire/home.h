/* Which of the S shards of a control store is responsible for what (docs/gcs.md "Shards"): keys by a hash,
 * the logs of a node at their home, which each incarnation's id names. Pure, so that all who route by it, and
 * the simulator, do it in one way.
 *
 *   id = mob_home_first_id(at_least, home, shards);   // whoever registers an incarnation
 *   home = mob_home_of_id(id, shards);                // whoever asks for its log
 *
 * `shards` below 2 means one, whose number is 0.
 */
#ifndef MOB_COMMON_WIRE_HOME_H
#define MOB_COMMON_WIRE_HOME_H

#include <stdint.h>

/* Where an incarnation has its log, its seal and its cut. */
uint32_t mob_home_of_id(uint64_t incarnation, uint64_t shards);
/* The lowest id from `at_least` on that names this home: so ids of different shards differ without asking
 * anybody. */
uint64_t mob_home_first_id(uint64_t at_least, uint64_t home, uint64_t shards);
/* Where a key of a table (enum mob_gcs_table) is. The hash is part of what data directories hold: another one
 * would look for keys where they are not. */
uint32_t mob_home_of_key(uint32_t table, const void *key, uint32_t key_length, uint64_t shards);
/* Where a new node goes: the first of those that are home to the fewest; counts[shards]. */
uint32_t mob_home_with_fewest(const uint64_t *counts, uint32_t shards);

#endif
