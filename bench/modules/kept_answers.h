/* Which of its calls' answers noop.actor_caller keeps, for whoever compares them with the log afterwards. */
#ifndef MOB_BENCH_KEPT_ANSWERS_H
#define MOB_BENCH_KEPT_ANSWERS_H

#include <stdint.h>

/* Number `k` of `kept` calls out of `n`, kept <= n: one at random from each of `kept` equal parts, so they
 * ascend. `seed` is any number. */
static inline int64_t kept_answer_index(int64_t n, int64_t kept, uint64_t seed, int64_t k)
{
    const int64_t from = n * k / kept, to = n * (k + 1) / kept;
    uint64_t random = (seed + (uint64_t)k) * 0x9e3779b97f4a7c15ull; /* splitmix64 */
    random = (random ^ random >> 30) * 0xbf58476d1ce4e5b9ull;
    random = (random ^ random >> 27) * 0x94d049bb133111ebull;
    return from + (int64_t)((random ^ random >> 31) % (uint64_t)(to - from));
}

#endif
