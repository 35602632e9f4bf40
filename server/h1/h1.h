/* HTTP/1.1 by libmicrohttpd, the only place that sees it.
 *
 *   mob_h1_start(&(struct mob_h1_options){.threads = 2, .service = router, .on_closed = ..}, &h1);
 *   edge front = {h1, mob_h1_adopt};
 *
 * N one-thread daemons without a listen socket; a connection goes to the one with the fewest. The edge has
 * checked the first head of each connection; the heads that follow on it are checked here, before the
 * handler. Every phase of a connection (idle, head, body, answer) has an absolute deadline, kept by us,
 * because the library's time-out only measures inactivity and stops while a connection is suspended. It ends
 * what its client holds up: bytes that wait here to be read, or an answer that its client has room for, are
 * our own delay. Who is late with the rest of a request is told so by 408. Threads: start, stop and adopt
 * from any; the service's callbacks run in the daemons' threads.
 */
#ifndef MOB_SERVER_H1_H1_H
#define MOB_SERVER_H1_H1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "server/http/http.h"

#define MOB_H1_THREADS_MAX 16
#define MOB_H1_CONNECTION_MEMORY_BYTES 8192
/* Of that the head of an answer has at least so much: a request whose head leaves less is 431. Longest are
 * those of bytes with tag, range, digests and rates. */
#define MOB_H1_REPLY_HEAD_BYTES 1024
/* Deadlines. A body or an answer may take 20 s plus its length at 64 KiB/s. */
#define MOB_H1_IDLE_S 75
#define MOB_H1_HEAD_MS 10000
#define MOB_H1_TRANSFER_BASE_S 20
#define MOB_H1_TRANSFER_MIN_BYTES_PER_S 65536
/* What is read and thrown away behind an early refusal, to keep the connection usable. */
#define MOB_H1_DISCARD_BYTES_MAX (1024 * 1024)

struct mob_h1;

struct mob_h1_options {
    unsigned threads, connections_max;
    int head_timeout_ms; /* 0: MOB_H1_HEAD_MS */
    struct mob_http_service service;
    /* A connection that was adopted has ended; any daemon's thread. */
    void (*on_closed)(void *cls, const struct sockaddr *address);
    void *on_closed_cls;
};

MOB_MUST_USE enum mob_status mob_h1_start(const struct mob_h1_options *options, struct mob_h1 **h1_out);
/* Takes the descriptor. False: not taken. `cls` is the struct mob_h1. */
bool mob_h1_adopt(void *cls, int fd, const struct sockaddr *address, socklen_t length);
size_t mob_h1_parked(const struct mob_h1 *h1);
/* Answers the parked with 503, waits until none is suspended, ends the threads. The edge must have stopped,
 * and every stream must have been ended. NULL is allowed. */
void mob_h1_stop(struct mob_h1 *h1);

#endif
