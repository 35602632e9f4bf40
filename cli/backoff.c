#include "cli/backoff.h"

uint32_t backoff_after_death(struct backoff *backoff, int64_t lived_ns)
{
    if (lived_ns >= BACKOFF_LIVED_NS)
        backoff->failures = 0;
    uint32_t before = backoff->failures;
    if (backoff->failures < UINT32_MAX)
        backoff->failures++;
    if (before == 0)
        return 0;
    uint64_t pause_ms = BACKOFF_FIRST_MS;
    for (uint32_t i = 1; i < before && pause_ms < BACKOFF_MAX_MS; i++)
        pause_ms *= 2;
    return (uint32_t)(pause_ms < BACKOFF_MAX_MS ? pause_ms : BACKOFF_MAX_MS);
}
