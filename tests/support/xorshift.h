/* The random numbers of tests and benchmarks: repeatable, so that a failing seed can be run again.
 * Source: G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003 (64 bits, shifts 13, 7,
 * 17). */
#ifndef MOB_TESTS_SUPPORT_XORSHIFT_H
#define MOB_TESTS_SUPPORT_XORSHIFT_H

#include <stdint.h>

/* A state to begin with where no seed is asked for. */
#define XORSHIFT_SEED 88172645463325252ull

/* The next number; *state is a seed other than 0 (which gives only 0), and changes. */
static inline uint64_t xorshift(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
