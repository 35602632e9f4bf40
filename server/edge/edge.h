/* The edge: accepts connections, looks at their first bytes without taking them, and hands each to a front.
 *
 *   struct mob_edge_options options = {.host = "127.0.0.1", .port = 0, .connections_max = 16384};
 *   mob_edge_open(&options, front, &edge);       // bound and listening; mob_edge_port() tells the port
 *   mob_edge_start(edge);                        // accepts from now on
 *
 * One thread with an edge-triggered epoll: peeked data stays in the socket, so level-triggered would spin.
 * What the head check refuses is answered and closed here (server/http/head.h). HTTP/1.1 goes to the front
 * given; the first byte of TLS and the HTTP/2 preface are recognised and closed until their fronts are there.
 * Limits: connections_max in all, per_address_max for one address (loopback excepted: every local client
 * shares it); SNIFF_TIMEOUT for the first head, one FIFO of deadlines.
 */
#ifndef MOB_SERVER_EDGE_EDGE_H
#define MOB_SERVER_EDGE_EDGE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_EDGE_SNIFF_TIMEOUT_MS 10000
#define MOB_EDGE_LINGER_MS 1000

struct mob_edge;

/* Where connections go. `adopt` takes the descriptor; false: it could not, and has not closed it. */
struct mob_edge_front {
    void *cls;
    bool (*adopt)(void *cls, int fd, const struct sockaddr *address, socklen_t length);
};

struct mob_edge_options {
    const char *host; /* numeric IPv4 or IPv6 address */
    uint16_t port; /* 0: any free one */
    unsigned connections_max, per_address_max;
    int sniff_timeout_ms; /* 0: the default */
};

/* MOB_IO: address in use or not ours; MOB_INVALID: not numeric. */
MOB_MUST_USE enum mob_status mob_edge_open(
    const struct mob_edge_options *options, struct mob_edge_front front, struct mob_edge **edge_out);
MOB_MUST_USE enum mob_status mob_edge_start(struct mob_edge *edge);
uint16_t mob_edge_port(const struct mob_edge *edge);
/* A front tells that a connection it adopted has ended. Any thread. */
void mob_edge_connection_closed(struct mob_edge *edge, const struct sockaddr *address);
/* Connections that are open now, all fronts together. */
unsigned mob_edge_connections(const struct mob_edge *edge);
uint64_t mob_edge_accepted_total(const struct mob_edge *edge);
uint64_t mob_edge_refused_total(const struct mob_edge *edge);
/* Stops accepting and closes what is not handed over yet; the thread has ended when it returns. Twice is
 * once. */
void mob_edge_stop(struct mob_edge *edge);
/* After all fronts have stopped. NULL is allowed. */
void mob_edge_destroy(struct mob_edge *edge);

#endif
