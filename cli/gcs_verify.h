/* `mobula gcs verify`: what its parts share (gcs_verify.c: the member that answers; gcs_verify_members.c: all
 * members against each other; gcs_verify_cold.c: PostgreSQL by itself and against the member). One thread.
 */
#ifndef MOB_CLI_GCS_VERIFY_H
#define MOB_CLI_GCS_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cmd_gcs.h"
#include "common/wire/block.h"

#define VERIFY_FIGURES_MAX 256
#define VERIFY_NAMED_MAX 20u /* things that are wrong, of each kind; the rest is counted */

struct verify_sums {
    uint64_t blocks, specs, finals, failed, others, damaged;
};
struct verify {
    struct gcs_call *g;
    struct mob_block_decoder *decoder;
    struct mob_block_encoder *encoder; /* of one entry, to compare it */
    struct verify_sums here, flushed;
    uint64_t lookups, lookups_failed;
    int failed_checks;
};

/* A line of the answer; counts what is not good. */
void verify_say(struct verify *v, bool good, const char *what, const char *figures);
void verify_add_entry(struct verify_sums *s, const struct mob_entry *e);
/* Digest of what an entry says, wherever it stands. */
uint64_t verify_digest(struct verify *v, const struct mob_entry *e);

/* False: a member does not answer. */
bool verify_members(struct verify *v);
/* Batches, rows and failures against each other; `flushed`: up to where the members have nothing. */
bool verify_database(struct verify *v, uint64_t flushed, bool gone);

#endif
