/* The replicated tables of a shard that are not blocks: keys with versions, and node incarnations.
 *
 * Pure: no clock, socket or Redis. A member changes them only by applying the resolved effects of the chain's
 * entries in seq order (chain.h), or while loading. Values up to MOB_STATE_INLINE_MAX are held here; of
 * larger ones only the length, the bytes are in the member's store. One owner, no locks. Limits:
 * MOB_STATE_KEYS_MAX, _INCARNATIONS_MAX.
 */
#ifndef MOB_GCS_CHAIN_STATE_H
#define MOB_GCS_CHAIN_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/gcs_msg.h"

#define MOB_STATE_INLINE_MAX 1024u
#define MOB_STATE_AHEAD 16u
#define MOB_STATE_KEYS_MAX (4u << 20)
#define MOB_STATE_INCARNATIONS_MAX (1u << 20)

struct mob_state;

/* A key as it is kept; `bytes` is the table's number, then the key. */
struct mob_state_key {
    uint64_t version;
    const uint8_t *bytes;
    uint32_t length; /* with the table byte */
    uint32_t value_length;
    const uint8_t *value; /* NULL when it is larger than MOB_STATE_INLINE_MAX */
};

/* NULL when out of memory. */
struct mob_state *mob_state_create(void);
void mob_state_destroy(struct mob_state *s);
size_t mob_state_keys(const struct mob_state *s);
size_t mob_state_incarnations(const struct mob_state *s);
/* Bytes of heap held. */
size_t mob_state_bytes(const struct mob_state *s);

/* False when there is none; `out` borrows until the next change. */
bool mob_state_get(
    const struct mob_state *s, uint8_t table, const uint8_t *key, uint32_t length, struct mob_state_key *out);
/* The first key of `table` above `after` (from the start when after_length is 0) that starts with `prefix`.
 */
bool mob_state_next(const struct mob_state *s, uint8_t table, const uint8_t *prefix, uint32_t prefix_length,
    const uint8_t *after, uint32_t after_length, struct mob_state_key *out);
/* Asks memory for what the next operation on each of these keys reads and writes, so that their misses
 * overlap: the rows are scattered, and each takes three accesses that wait for one another. Changes nothing;
 * a key that is not there, or is no key at all, costs time only. `count` at most MOB_STATE_AHEAD. */
struct mob_state_ahead {
    const uint8_t *key;
    uint32_t length; /* at most MOB_GCS_KEY_MAX */
    uint8_t table;
};
void mob_state_prefetch(const struct mob_state *s, const struct mob_state_ahead *keys, size_t count);
/* Copies. MOB_NO_MEMORY, MOB_GCS_FULL (MOB_STATE_KEYS_MAX). */
MOB_MUST_USE enum mob_status mob_state_set(struct mob_state *s, uint8_t table, const struct mob_gcs_kv *kv);
void mob_state_remove(struct mob_state *s, uint8_t table, const uint8_t *key, uint32_t length);

/* The first key of any table above `after` (with its table byte; 0 bytes = from the start). */
bool mob_state_after(
    const struct mob_state *s, const uint8_t *after, uint32_t length, struct mob_state_key *out);

/* NULL when unknown. Borrowed until the next register. */
const struct mob_gcs_incarnation *mob_state_incarnation(const struct mob_state *s, uint64_t id);
/* The oldest above `after`, or NULL. */
const struct mob_gcs_incarnation *mob_state_incarnation_next(const struct mob_state *s, uint64_t after);
uint64_t mob_state_incarnation_last(const struct mob_state *s);
/* Adds one with a higher id than all before, or sets one that is there. MOB_NO_MEMORY, MOB_GCS_FULL;
 * MOB_CONFLICT for an unknown id below others. */
MOB_MUST_USE enum mob_status mob_state_register(struct mob_state *s, const struct mob_gcs_incarnation *row);

/* All blocks with seq <= upto are in PostgreSQL and gone from here; only grows. */
uint64_t mob_state_flushed(const struct mob_state *s);
void mob_state_set_flushed(struct mob_state *s, uint64_t upto);
/* Of everything above, in whatever order it came to be: equal contents, equal digests. O(1). */
uint64_t mob_state_digest(const struct mob_state *s);
/* Forgets everything. */
void mob_state_clear(struct mob_state *s);

#endif
