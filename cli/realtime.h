/* Whether heartbeats may have the real-time priority that short leases need (GCS.md "Detection"), and the
 * times that follow from it. Members and their master agree on these.
 */
#ifndef MOB_CLI_REALTIME_H
#define MOB_CLI_REALTIME_H

#include <stdbool.h>

struct realtime_times {
    unsigned lease_ms, suspicion_ms;
};

/* Tried, in a thread that ends with it, since a container may forbid it to root, too. */
bool realtime_is_allowed(void);
struct realtime_times realtime_times(bool allowed);

#endif
