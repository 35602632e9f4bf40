/* Asks a gateway, without blocking, whether it is ready: GET /readyz, status 200. One question at a time. */
#ifndef MOB_CLI_READY_PROBE_H
#define MOB_CLI_READY_PROBE_H

#include <stdbool.h>
#include <uv.h>

struct ready_probe {
    uv_tcp_t socket;
    uv_connect_t connect;
    uv_write_t write;
    bool busy; /* from start until the handle is closed */
    char request[256];
    char answer[16]; /* "HTTP/1.1 200" */
    size_t length;
    void (*done)(struct ready_probe *probe, bool ready);
    void *arg;
};

/* `address` as "127.0.0.1:8080" or "[::1]:8080". `done` comes later, exactly once, unless this returns false:
 * busy, or no address. */
bool ready_probe_start(struct ready_probe *probe, uv_loop_t *loop, const char *address,
    void (*done)(struct ready_probe *, bool));
/* Parses such an address into a socket address; false if it is none. */
bool ready_probe_address(const char *text, struct sockaddr_storage *out);

#endif
