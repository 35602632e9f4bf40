/* Inside of the HTTP/1.1 front: connections (h1.c) and the requests on them (h1_exchange.c). */
#ifndef MOB_SERVER_H1_H1_INNER_H
#define MOB_SERVER_H1_H1_INNER_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>

#include "common/base/clock.h"
#include "server/h1/h1.h"
#include "server/http/park.h"

/* A poll has Host, Authorization and one or two more; a request with more has them on the heap. Small, since
 * each of thousands of parked requests has this room. */
#define INLINE_HEADERS 4

struct shard;

/* Where a connection is: its thread moves it along, and the sweep ends what is late. */
enum h1_phase {
    H1_BETWEEN, /* no request on it */
    H1_READING, /* one has begun and is not all there */
    H1_HANDLING, /* it is ours */
    H1_SENDING, /* its answer is with the library */
    H1_LATE /* its client was told so by the sweep; nothing else may be sent */
};

struct connection {
    struct connection *next, *prev;
    struct shard *shard;
    struct MHD_Connection *mhd;
    struct exchange *exchange; /* the request on it */
    struct sockaddr_in6 address; /* IPv4 fits too */
    int fd;
    _Atomic int64_t deadline_ns;
    _Atomic int phase; /* enum h1_phase */
    bool left; /* sweep: its client was seen to send nothing more, with no request of it to be answered */
    unsigned left_requests; /* sweep: how many had begun then */
    bool held_up; /* sweep: it was late, and seen to wait for its client */
    bool behind_said; /* sweep: that its thread has not come to it for long */
    bool expired; /* sweep: shut down already */
    _Atomic unsigned requests; /* begun on this connection; read by who says that it is behind */
};

/* One request and what this front needs beside it. */
struct exchange {
    struct mob_http_request *request;
    struct connection *connection;
    struct mob_http_header inline_headers[INLINE_HEADERS], *headers;
    size_t body_capacity;
    uint32_t discarded; /* little more than MOB_H1_DISCARD_BYTES_MAX */
    uint16_t memory_used; /* of the connection's, for the head */
    uint16_t header_room;
    const char *raw_target; /* where the library has it, only to compare addresses */
    size_t raw_target_length;
    bool refused; /* answered before the library has read its head; nothing else is sent */
    bool target_ok, begun, queued, suspended, discarding;
};

struct shard {
    struct mob_h1 *h1;
    struct MHD_Daemon *daemon;
    struct mob_http_park_list *park_list;
    pthread_mutex_t lock; /* of the list; the sweep holds it while it touches a socket */
    struct connection *connections;
    _Atomic unsigned count;
};

struct mob_h1 {
    struct mob_h1_options options;
    struct mob_parker *parker;
    struct shard shards[MOB_H1_THREADS_MAX];
    unsigned shard_count;
};

void h1_set_deadline(struct connection *connection, int64_t milliseconds);
/* The next phase of a connection, by its thread. False: it was too late, and is ended. */
bool h1_enter(struct connection *connection, enum h1_phase phase);
/* Called by the library with the raw target of each request, before its headers are parsed. */
void *h1_on_target(void *cls, const char *target, struct MHD_Connection *mhd);
bool h1_answered(const struct mob_http_request *request);
void h1_refuse(struct mob_http_request *request, int status, const char *why);
/* h1_library.c: the library's own MHD_queue_response. */
enum MHD_Result h1_library_queue(struct MHD_Connection *mhd, unsigned status, struct MHD_Response *response);
/* The head is complete: checks it, and lets the service see it. */
void h1_begin(struct exchange *exchange, const char *method, const char *version);
enum MHD_Result h1_queue_answer(struct exchange *exchange);

#endif
