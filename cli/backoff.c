#include "cli/backoff.h"

uint32_t backoff_after_death(struct backoff *backoff, int64_t lived_ns)
{
    int64_t twice_ns = (int64_t)backoff->longest_ms * 2000000;
    if (lived_ns >= (twice_ns > BACKOFF_LIVED_NS ? twice_ns : BACKOFF_LIVED_NS))
        backoff->failures = 0;
    uint32_t before = backoff->failures;
    if (backoff->failures < UINT32_MAX)
        backoff->failures++;
    if (before == 0)
        return 0;
    uint64_t pause_ms = BACKOFF_FIRST_MS;
    for (uint32_t i = 1; i < before && pause_ms < backoff->longest_ms; i++)
        pause_ms *= 2;
    return (uint32_t)(pause_ms < backoff->longest_ms ? pause_ms : backoff->longest_ms);
}
