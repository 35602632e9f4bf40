/* What the functions of the module "chaos" compute, for those who check them without a cluster. */
#ifndef MOB_TESTS_MODULES_CHAOS_MODEL_H
#define MOB_TESTS_MODULES_CHAOS_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* splitmix64 of both. */
static inline int64_t chaos_mix(int64_t a, int64_t b)
{
    uint64_t z = (uint64_t)a * 0x9e3779b97f4a7c15ull + (uint64_t)b + 0x632be59bd9b4e019ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (int64_t)((z ^ (z >> 31)) >> 1);
}

static inline void chaos_fill(int64_t seed, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)((uint64_t)seed * 31 + i * 7 + (i >> 8));
}

static inline int64_t chaos_digest(const uint8_t *bytes, size_t size, int64_t seed)
{
    uint64_t sum = (uint64_t)size;
    for (size_t i = 0; i < size; i++)
        sum = sum * 1099511628211ull + bytes[i];
    return chaos_mix((int64_t)(sum >> 1), seed);
}

/* chaos.nest(seed, width, depth) */
static inline int64_t chaos_nest(int64_t seed, int64_t width, int64_t depth)
{
    int64_t result = chaos_mix(seed, depth);
    for (int64_t i = 0; i < width; i++)
        result = chaos_mix(result,
            depth > 0 ? chaos_nest(chaos_mix(seed, i), width, depth - 1) : chaos_mix(chaos_mix(seed, i), 1));
    return result;
}

/* chaos.own_actor(seed, calls, ...): every other call takes the result of a task. */
static inline int64_t chaos_own_actor(int64_t seed, int64_t calls)
{
    int64_t state = chaos_mix(seed, 0);
    for (int64_t i = 0; i < calls; i++)
        state = chaos_mix(state, i % 2 == 0 ? i : chaos_mix(chaos_mix(seed, i), 1));
    return state;
}

#endif
