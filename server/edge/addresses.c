#include "server/edge/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

struct key {
    uint64_t high, low;
    bool loopback;
};

static struct key key_of(const struct sockaddr *address)
{
    struct key key = {0};
    if (address->sa_family == AF_INET) {
        uint32_t v4 = ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
        key.high = 0xffff;
        key.low = (uint64_t)v4 + 1; /* never zero: zero marks an empty slot */
        key.loopback = v4 >> 24 == 127;
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)address;
        memcpy(&key.high, v6->sin6_addr.s6_addr, 8);
        key.low = 1;
        key.loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    } else {
        key.loopback = true;
    }
    return key;
}

static uint32_t home(const struct mob_addresses *table, uint64_t high, uint64_t low)
{
    uint64_t x = (high * 0x9e3779b97f4a7c15ull) ^ low;
    x *= 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(x >> 32) & (table->capacity - 1);
}

enum mob_status mob_addresses_init(
    struct mob_addresses *table, uint32_t connections_max, uint32_t per_address_max)
{
    table->capacity = 16;
    while (table->capacity < 2 * connections_max)
        table->capacity *= 2;
    table->per_address_max = per_address_max;
    table->slots = calloc(table->capacity, sizeof *table->slots);
    if (!table->slots)
        return MOB_NO_MEMORY;
    pthread_mutex_init(&table->lock, NULL);
    return MOB_OK;
}

void mob_addresses_fini(struct mob_addresses *table)
{
    if (!table->slots)
        return;
    pthread_mutex_destroy(&table->lock);
    free(table->slots);
    table->slots = NULL;
}

/* The key's slot, or the empty slot where it would go. */
static uint32_t find(const struct mob_addresses *table, const struct key *key)
{
    uint32_t at = home(table, key->high, key->low);
    while (table->slots[at].count > 0 &&
        (table->slots[at].high != key->high || table->slots[at].low != key->low))
        at = (at + 1) & (table->capacity - 1);
    return at;
}

bool mob_addresses_enter(struct mob_addresses *table, const struct sockaddr *address)
{
    struct key key = key_of(address);
    if (key.loopback)
        return true;
    pthread_mutex_lock(&table->lock);
    struct mob_address_slot *slot = &table->slots[find(table, &key)];
    bool ok = slot->count < table->per_address_max;
    if (ok) {
        slot->high = key.high;
        slot->low = key.low;
        slot->count++;
    }
    pthread_mutex_unlock(&table->lock);
    return ok;
}

/* Closes the hole at `at`: moves back every later entry of the run that may not stay behind a hole. */
static void shift_back(struct mob_addresses *table, uint32_t at)
{
    uint32_t mask = table->capacity - 1;
    for (uint32_t next = (at + 1) & mask; table->slots[next].count > 0; next = (next + 1) & mask) {
        uint32_t wanted = home(table, table->slots[next].high, table->slots[next].low);
        if (((next - wanted) & mask) < ((next - at) & mask))
            continue;
        table->slots[at] = table->slots[next];
        table->slots[next].count = 0;
        at = next;
    }
}

void mob_addresses_leave(struct mob_addresses *table, const struct sockaddr *address)
{
    struct key key = key_of(address);
    if (key.loopback)
        return;
    pthread_mutex_lock(&table->lock);
    uint32_t at = find(table, &key);
    MOB_ASSERT(table->slots[at].count > 0);
    if (--table->slots[at].count == 0)
        shift_back(table, at);
    pthread_mutex_unlock(&table->lock);
}
