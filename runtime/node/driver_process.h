/* The process behind a driver's session, recognised after a restart of the node: a driver without a key comes
 * back as the same process or not at all. Any thread; one small file of /proc is read. */
#ifndef MOB_RUNTIME_NODE_DRIVER_PROCESS_H
#define MOB_RUNTIME_NODE_DRIVER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct driver_process {
    int32_t pid; /* 0 = not known: of another pid namespace, or of a row that does not say */
    uint64_t started; /* clock ticks from the machine's start to its own, so that a pid given out again is
                         another process; 0 = not known */
};

/* Of the peer of a connected unix socket, as the kernel says. */
struct driver_process driver_process_of(int socket);
/* Whether it has surely ended; false when that cannot be known. */
bool driver_process_gone(struct driver_process process);

#endif
