/* A listening socket that says no, too, when its process may open no more descriptors: it keeps a spare one,
 * and gives that up to take whoever connects and close the connection. Left in the backlog, they would wait
 * for an answer that does not come, and a loop that polls the socket would turn without end.
 *
 *   mob_listener_init(&listener, fd);          // fd: listening, not blocking
 *   while ((fd = mob_listener_take(&listener, now_ns)) >= 0) ...
 *   poll mob_listener_poll_fd(&listener, now_ns), or watch listener.fd for edges and take once a second, too
 *
 * One owner, no locks; never blocks.
 */
#ifndef MOB_COMMON_BASE_LISTENER_H
#define MOB_COMMON_BASE_LISTENER_H

#include <stdint.h>

/* Whoever connects waits so long, when another thread took even the spare descriptor. */
#define MOB_LISTENER_REST_NS (100 * 1000000ll)

struct mob_listener {
    int fd; /* 0 or less: not open */
    int spare_fd; /* less than 0: lost to another thread; it is opened again as soon as it can be */
    int64_t rest_until_ns;
};

/* Takes the descriptor. */
void mob_listener_init(struct mob_listener *listener, int fd);
/* Closes it; NULL and zero are fine. */
void mob_listener_fini(struct mob_listener *listener);
/* The next of those who connect, close-on-exec and not blocking; -1: none. Those for whom there is no
 * descriptor see the connection end. */
int mob_listener_take(struct mob_listener *listener, int64_t now_ns);
/* What to poll; -1 while there is nothing that it could take them with. */
int mob_listener_poll_fd(const struct mob_listener *listener, int64_t now_ns);

#endif
