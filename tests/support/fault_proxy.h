/* Stands between processes that speak over sockets, unix or TCP, and spoils what passes: seeded delays,
 * slices, resets, flipped bytes, pieces that come twice or in another order, and processes that are cut off
 * in one direction. A piece is what one read gave, so a doubled or reordered piece is often a whole frame.
 *
 *   proxy = fault_proxy_create(seed);
 *   fault_proxy_route(proxy, "/dir/link.proxied", "/dir/link");     // connect to the first, reach the second
 *   fault_proxy_route_net(proxy, "127.0.0.1:4711", told);          // connect to what was told, reach that
 *   fault_proxy_set(proxy, &(struct fault_rates){.slice = 100});    // of 1,000,000 pieces
 *   fault_proxy_mute(proxy, pid);                                   // nothing that it sends arrives
 *
 * A thread of its own; the functions are for any one other thread. What is on its way to or from a muted
 * process waits, and goes on when it is heard again. Whose process an end is, is known of unix sockets only:
 * TCP cannot be muted, deafened or severed.
 */
#ifndef MOB_TESTS_SUPPORT_FAULT_PROXY_H
#define MOB_TESTS_SUPPORT_FAULT_PROXY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FAULT_ROUTES_MAX 32u
#define FAULT_MUTED_MAX 4u
#define FAULT_ADDRESS_MAX 32u /* 127.0.0.1 and a port */

/* Each of 1,000,000 pieces. */
struct fault_rates {
    uint32_t delay, slice, reset, corrupt, twice, reorder;
    uint32_t delay_us_max;
};
struct fault_counts {
    uint64_t connections, pieces, delays, slices, resets, corrupts, twices, reorders;
};

struct fault_proxy;
struct fault_proxy *fault_proxy_create(uint64_t seed);
/* At the priority of heartbeats, where that is allowed: a bench's links are to be down, not slow. */
void fault_proxy_realtime(struct fault_proxy *p);
void fault_proxy_destroy(struct fault_proxy *p); /* NULL is fine */
void fault_proxy_route(struct fault_proxy *p, const char *from, const char *to);
/* To a port of 127.0.0.1, from a free one, which is written out. */
void fault_proxy_route_net(struct fault_proxy *p, const char *to, char from_out[FAULT_ADDRESS_MAX]);
void fault_proxy_set(struct fault_proxy *p, const struct fault_rates *rates);
/* Nothing that this process sends arrives any more; `deaf`: nothing arrives at it. Both: a partition. */
void fault_proxy_mute(struct fault_proxy *p, pid_t pid);
void fault_proxy_deafen(struct fault_proxy *p, pid_t pid);
/* Nothing passes between these two any more, while the others hear both. One pair; its connections stay open.
 */
void fault_proxy_sever(struct fault_proxy *p, pid_t one, pid_t other);
/* Everybody is heard again. */
void fault_proxy_heal(struct fault_proxy *p);
/* Of what passed unix sockets, or TCP. */
void fault_proxy_counts(struct fault_proxy *p, bool over_tcp, struct fault_counts *out);

#endif
