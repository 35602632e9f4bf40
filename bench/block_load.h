/* A load of real log blocks on a control store: one log, so many blocks unacknowledged. One thread. */
#ifndef MOB_BENCH_BLOCK_LOAD_H
#define MOB_BENCH_BLOCK_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "gcs/client/client_sync.h"

#define BLOCK_LOAD_TASKS 128u /* specs, and as many completions */

struct block_load {
    struct mob_gcs *gcs;
    struct mob_gcs_log *log;
    uint64_t window, released, acked, appended;
    uint8_t *template_bytes;
    uint32_t length; /* of a block */
    struct block_load_slot *free;
};
/* Registers a log of the client's, whose blocks have arguments of so many bytes (0: one i64). */
void block_load_open(struct block_load *r, struct mob_gcs *gcs, uint64_t window, uint32_t argument_bytes);
/* Appends for so long, then until all is acknowledged. */
void block_load_run(struct block_load *r, double seconds);
void block_load_wait(struct block_load *r, bool durable);
/* After the client was destroyed. */
void block_load_fini(struct block_load *r);

#endif
