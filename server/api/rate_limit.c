#include "server/api/rate_limit.h"

#include "common/base/clock.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t seconds_up(int64_t ns)
{
    return (uint32_t)((ns + MOB_SEC - 1) / MOB_SEC);
}

void mob_rate_limit_init(struct mob_rate_limit *limit, uint32_t rate, uint32_t burst)
{
    *limit = (struct mob_rate_limit){0};
    if (rate == 0)
        return;
    rate = least(rate, MOB_RATE_LIMIT_MAX);
    limit->burst = least(burst ? burst : rate, MOB_RATE_BURST_MAX);
    limit->each_ns = MOB_SEC / rate;
    limit->whole_ns = limit->each_ns * limit->burst;
    limit->window_s = seconds_up(limit->whole_ns);
}

bool mob_rate_limit_take(const struct mob_rate_limit *limit, struct mob_rate_bucket *bucket, int64_t now_ns,
    struct mob_rate_left *left_out)
{
    /* Relaxed: the number stands for itself, nothing is published with it. */
    int64_t before = atomic_load_explicit(&bucket->full_at_ns, memory_order_relaxed), after;
    do {
        after = (before > now_ns ? before : now_ns) + limit->each_ns;
        if (after - now_ns > limit->whole_ns) {
            int64_t wait_ns = after - now_ns - limit->whole_ns;
            *left_out = (struct mob_rate_left){
                .full_in_s = seconds_up(before - now_ns), .retry_after_s = seconds_up(wait_ns)};
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &bucket->full_at_ns, &before, after, memory_order_relaxed, memory_order_relaxed));
    *left_out =
        (struct mob_rate_left){.requests = (uint32_t)((limit->whole_ns - (after - now_ns)) / limit->each_ns),
            .full_in_s = seconds_up(after - now_ns)};
    return true;
}
