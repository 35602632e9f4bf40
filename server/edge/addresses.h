/* How many connections each peer address has: a fixed open-addressing table, linear probing, no tombstones
 * (deletion shifts back). IPv4 is v4-mapped; IPv6 counts by /64, which is what one customer gets.
 * Thread-safe.
 */
#ifndef MOB_SERVER_EDGE_ADDRESSES_H
#define MOB_SERVER_EDGE_ADDRESSES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/status.h"

struct mob_address_slot {
    uint64_t high, low;
    uint32_t count;
};

struct mob_addresses {
    pthread_mutex_t lock;
    struct mob_address_slot *slots;
    uint32_t capacity; /* power of two, twice the connections that can exist */
    uint32_t per_address_max;
};

MOB_MUST_USE enum mob_status mob_addresses_init(
    struct mob_addresses *table, uint32_t connections_max, uint32_t per_address_max);
void mob_addresses_fini(struct mob_addresses *table);
/* Counts one more; false when the address has its maximum. Loopback is never refused. */
bool mob_addresses_enter(struct mob_addresses *table, const struct sockaddr *address);
void mob_addresses_leave(struct mob_addresses *table, const struct sockaddr *address);

#endif
