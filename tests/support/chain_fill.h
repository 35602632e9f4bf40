/* Log blocks that make a chain large, and whether all of them are there later. One thread.
 *
 *   chain_fill_open(&fill, &box);
 *   while (!chain_fill_step(&fill, 512 << 20)) ...something else for a moment
 *   ... a fault ...
 *   if (chain_fill_check(&fill, &box, deadline)[0] != 0) ...    // what is wrong
 *   chain_fill_close(&fill);
 */
#ifndef MOB_TESTS_SUPPORT_CHAIN_FILL_H
#define MOB_TESTS_SUPPORT_CHAIN_FILL_H

#include "tests/support/chain_box.h"

#define CHAIN_FILL_BLOCKS_MAX 40000u

struct chain_fill {
    struct mob_gcs *gcs; /* until all is durable */
    struct mob_gcs_log *log;
    uint64_t incarnation, appended, acked, released, bytes;
    uint64_t *hashes; /* of each block */
    char wrong[160];
};

void chain_fill_open(struct chain_fill *f, struct chain_box *box);
/* Appends what fits into the log's window, if fewer than `bytes` were. True: as many are, all of them
 * durable, and their client is gone; or something is wrong. */
bool chain_fill_step(struct chain_fill *f, uint64_t bytes);
/* Reads all of them. "" = each is there once, as it was. */
const char *chain_fill_check(struct chain_fill *f, struct chain_box *box, int64_t deadline_ns);
void chain_fill_close(struct chain_fill *f);

#endif
