/* The park thread: deadlines of parked requests, and clients that leave while parked.
 *
 * A front makes one list for each of its threads; a request goes in and out in that thread only, and the park
 * thread looks through the lists at most every 100 ms, sooner when a nearer deadline was parked. A socket
 * joins the disconnect watch only after it was parked for a second, so that short waits cost no system call.
 * Idle with nothing parked and no connection, it sleeps for ever. Threads: as each function says. Limits:
 * MOB_PARK_LISTS_MAX lists.
 */
#ifndef MOB_SERVER_HTTP_PARK_H
#define MOB_SERVER_HTTP_PARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/http.h"

#define MOB_PARK_LISTS_MAX 64

struct mob_parker;

struct mob_parker_options {
    /* Runs about once a second while any connection is open (mob_parker_busy) or any request parked: fronts
     * check their connections' deadlines there. */
    void (*tick)(void *cls, int64_t now_ns);
    void *tick_cls;
    /* Asked while any request is parked, each time that deadlines are looked at: do requests have their
     * sooner one (park_hurried_ns) now? NULL: never. */
    bool (*hurries)(void *cls);
    void *hurries_cls;
};
/* Starts the thread, in which both run. Copies. */
MOB_MUST_USE enum mob_status mob_parker_start(
    const struct mob_parker_options *options, struct mob_parker **parker_out);
/* Joins the thread; all lists must be empty. NULL is allowed. */
void mob_parker_stop(struct mob_parker *parker);
/* A list of this parker's; before requests arrive. NULL when MOB_PARK_LISTS_MAX is reached. Freed with the
 * parker. */
struct mob_http_park_list *mob_parker_list(struct mob_parker *parker);
/* Connections exist, so the tick must run. Any thread. */
void mob_parker_busy(struct mob_parker *parker, int connections_delta);
/* From now on every parked request is answered with 503 + Retry-After, in the park thread, and one that would
 * park is at once, in its own; for shutdown. */
void mob_parker_flush(struct mob_parker *parker);
size_t mob_parker_count(const struct mob_parker *parker);

/* 503 + Retry-After, by whoever owns its answer. */
void mob_park_answer_closing(struct mob_http_request *request);
/* The front's thread: in (from mob_http_park) and out (after it was answered or is gone). Before `in` it asks
 * for a place. False: the parker flushes, and nothing may be suspended any more. */
MOB_MUST_USE bool mob_park_enter(struct mob_http_park_list *list);
void mob_park_insert(struct mob_http_request *request);
void mob_park_remove(struct mob_http_request *request);

#endif
