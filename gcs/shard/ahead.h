/* A member's tables are larger than any cache, and an entry that waits for its row costs more than what is
 * done there. So the keys of what has been received are asked for before the first of them is taken: their
 * misses overlap. The bytes are not checked yet, so it is a guess; what comes of it is time. Pure, nothing is
 * kept.
 *
 *   struct ahead ahead = {.count = 0};
 *   ahead_look(&ahead, bytes, length);    // of each connection that has sent something
 *   ahead_ask(&ahead, state);             // while those bytes are still there
 */
#ifndef MOB_GCS_SHARD_AHEAD_H
#define MOB_GCS_SHARD_AHEAD_H

#include <stddef.h>
#include <stdint.h>

#include "gcs/chain/state.h"

struct ahead {
    struct mob_state_ahead keys[MOB_STATE_AHEAD];
    size_t count;
};
/* Adds the keys of the PUTs and UPDs (gcs_frame.h) that stand there one behind the other, as long as there is
 * room; borrows from them. How many frames it passed. */
uint32_t ahead_look(struct ahead *a, const uint8_t *bytes, size_t length);
void ahead_ask(const struct ahead *a, const struct mob_state *state);

#endif
