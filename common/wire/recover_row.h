/* The RECOVER record: who recovers a sealed log of a node, and how far that is (GCS.md "Node logs and the
 * cut"). A row of MOB_GCS_NODES for each such log, changed by compare-and-set only. What it means, from when
 * to when it is there: docs/adr/recovery-without-relogging.md. Pure.
 */
#ifndef MOB_COMMON_WIRE_RECOVER_ROW_H
#define MOB_COMMON_WIRE_RECOVER_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_RECOVER_ROW_VERSION 1
#define MOB_RECOVER_PREFIX "recover/"
#define MOB_RECOVER_KEY_BYTES (sizeof MOB_RECOVER_PREFIX - 1 + 8)

enum mob_recover_state {
    MOB_RECOVER_RUNS = 1, /* not all that it left unfinished has a live owner yet */
    MOB_RECOVER_ENDED = 2 /* it has: the recoverer, for as long as that lives */
};
/* What keeps the recoverer from going on. */
enum mob_recover_waits { MOB_RECOVER_WAITS_NOT = 0, MOB_RECOVER_WAITS_POSTGRES = 1 };
struct mob_recover_row {
    uint16_t version;
    uint16_t state; /* enum mob_recover_state */
    uint32_t tasks; /* that it left unfinished; known when ENDED */
    uint64_t incarnation; /* whose log it is */
    uint64_t by; /* the incarnation that recovers it */
    uint64_t taken_from; /* the one that did before, and died; 0: nobody */
    int64_t since_wall_ns; /* of this state, by the recoverer's clock */
    uint32_t takeovers; /* how many recoverers died of it */
    uint32_t waits_for; /* enum mob_recover_waits, of one that RUNS */
};
_Static_assert(sizeof(struct mob_recover_row) == 48, "layout in the control store");

/* The prefix, then the incarnation with its highest byte first, so that a list is in their order. */
void mob_recover_key(uint64_t incarnation, uint8_t key_out[MOB_RECOVER_KEY_BYTES]);
/* Whose log it is; 0: it is no such key. */
uint64_t mob_recover_of_key(const void *key, uint32_t length);
/* MOB_TRUNCATED, MOB_VERSION (a later one wrote it), MOB_CORRUPT. */
MOB_MUST_USE enum mob_status mob_recover_row_open(
    const void *bytes, size_t length, struct mob_recover_row *row_out);
/* An incarnation recovers, and seals where that was not done, the logs of its node that are earlier than its
 * own. A later one means that it is over itself, and has not heard of it yet. */
static inline bool mob_recover_is_earlier(uint64_t log, uint64_t own)
{
    return log < own;
}
/* The record of this log is `held`: may `row->by` take it over? MOB_OK: from an incarnation before it, which
 * is dead and sealed by then, and `row` says so; or it is its own. MOB_SEALED: never from a later one. */
MOB_MUST_USE enum mob_status mob_recover_row_take_over(
    struct mob_recover_row *row, const struct mob_recover_row *held);
/* "running", "ended". */
const char *mob_recover_state_text(uint16_t state);

#endif
