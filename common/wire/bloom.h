/* Small Bloom filters as byte strings of any length: a set that may say "perhaps" of what is not in it, and
 * never "no" of what is.
 *
 * 10 bits a member and 4 probes: about one in a hundred is wrong. Bit i is bit i % 8 of byte i / 8, which is
 * what get_bit() of PostgreSQL calls it, and probe k is (a + k * b) % bits, so that a query there can do what
 * mob_bloom_has does here. No bytes: everything is perhaps in it. Pure.
 */
#ifndef MOB_COMMON_WIRE_BLOOM_H
#define MOB_COMMON_WIRE_BLOOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOB_BLOOM_PROBES 4u
#define MOB_BLOOM_BITS_EACH 10u

/* Of one member: two numbers below 2^31. */
struct mob_bloom_hash {
    uint32_t a, b;
};

/* From 64 well mixed bits. */
static inline struct mob_bloom_hash mob_bloom_hash(uint64_t mixed)
{
    return (struct mob_bloom_hash){(uint32_t)mixed & INT32_MAX, ((uint32_t)(mixed >> 32) & INT32_MAX) | 1u};
}
/* Bytes of a filter for `members`, a multiple of 8. */
static inline size_t mob_bloom_bytes(size_t members)
{
    return (members * MOB_BLOOM_BITS_EACH + 63) / 64 * 8;
}
static inline uint64_t mob_bloom_bit(struct mob_bloom_hash h, unsigned probe, size_t bytes)
{
    return (h.a + (uint64_t)probe * h.b) % (bytes * 8);
}
static inline void mob_bloom_add(uint8_t *filter, size_t bytes, struct mob_bloom_hash h)
{
    for (unsigned k = 0; bytes > 0 && k < MOB_BLOOM_PROBES; k++) { /* an empty filter has everything */
        uint64_t bit = mob_bloom_bit(h, k, bytes);
        filter[bit / 8] = (uint8_t)(filter[bit / 8] | 1u << bit % 8);
    }
}
static inline bool mob_bloom_has(const uint8_t *filter, size_t bytes, struct mob_bloom_hash h)
{
    for (unsigned k = 0; bytes > 0 && k < MOB_BLOOM_PROBES; k++) {
        uint64_t bit = mob_bloom_bit(h, k, bytes);
        if ((filter[bit / 8] >> bit % 8 & 1) == 0)
            return false;
    }
    return true;
}

#endif
