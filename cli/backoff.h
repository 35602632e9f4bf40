/* When to start again what died: the first time at once, then after a pause that doubles up to a bound. A
 * process that lived for a while starts over. Pure.
 */
#ifndef MOB_CLI_BACKOFF_H
#define MOB_CLI_BACKOFF_H

#include <stdint.h>

#define BACKOFF_FIRST_MS 100u
/* Who lived for so long starts over; for twice the longest pause if that is more, or it could never be
 * forgiven. */
#define BACKOFF_LIVED_NS (10ll * 1000000000ll)

struct backoff {
    uint32_t longest_ms; /* pause; the setting restart-pause-max-ms */
    uint32_t failures; /* in a row */
};

/* It died after `lived_ns`: the pause before the next start, in ms. */
uint32_t backoff_after_death(struct backoff *backoff, int64_t lived_ns);

#endif
