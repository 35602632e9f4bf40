/* `mobula gcs verify`: what its parts share (gcs_verify.c: the whole; gcs_verify_members.c: digests of all
 * members; gcs_verify_blocks.c: their blocks; gcs_verify_index.c: their indices; gcs_verify_chain.c: what a
 * client is given, also by group;
 * gcs_verify_cold.c: PostgreSQL by itself; gcs_verify_both.c: PostgreSQL against the member). One thread.
 *
 * Others may write meanwhile. So everything is compared as of a position, what is found is looked at again
 * until it stays so, and what could not be compared is said to be that.
 */
#ifndef MOB_CLI_GCS_VERIFY_H
#define MOB_CLI_GCS_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cmd_gcs.h"
#include "common/base/clock.h"
#include "common/wire/block.h"

#define VERIFY_FIGURES_MAX 256
#define VERIFY_NAMED_MAX 20u /* things that are wrong, of each kind; the rest is counted */
#define VERIFY_PAUSE_NS (100 * MOB_MS) /* before something is looked at again */
#define VERIFY_AGAIN_MANY 1000u /* more than so many things are looked at a few times only */

struct verify_sums {
    uint64_t blocks, specs, finals, failed, others, damaged;
};
enum verify_verdict { VERIFY_GOOD, VERIFY_BAD, VERIFY_NOT_COMPARED };
struct verify {
    struct gcs_call *g;
    struct mob_block_decoder *decoder;
    struct mob_block_encoder *encoder; /* of one entry, to compare it */
    struct verify_sums here, flushed; /* as a client is given them */
    struct verify_sums visible; /* of the batches up to `flushed_upto`, what is to be given of them */
    uint64_t flushed_upto; /* by the members, when this began */
    /* Positions of the blocks that a member had when it had applied known_upto. */
    uint64_t *known;
    size_t known_count;
    uint64_t known_upto;
    int failed_checks, not_compared;
};

/* A line of the answer; counts what is not good. */
void verify_say(struct verify *v, enum verify_verdict verdict, const char *what, const char *figures);
void verify_add_entry(struct verify_sums *s, const struct mob_entry *e);
void verify_pause(void);
/* Whether `count` things that seem wrong are looked at once more, after so many times of at most `most`. */
bool verify_again(size_t count, unsigned times, unsigned most);

/* False: a member does not answer. */
bool verify_members(struct verify *v);
/* What a client is given of the log, and the index. False: the chain does not answer. */
bool verify_chain(struct verify *v);
/* Batches, rows and failures against each other. False: PostgreSQL does not answer. */
bool verify_database(struct verify *v);
/* What is in the member and in PostgreSQL, entry by entry. False: one of them does not answer. */
bool verify_both(struct verify *v);

#endif
