/* Shared by pool.c and pool_logs.c. */
#ifndef MOB_RUNTIME_WORKER_POOL_INTERNAL_H
#define MOB_RUNTIME_WORKER_POOL_INTERNAL_H

#include "runtime/worker/pool.h"
#include "runtime/worker/zygote.h"

struct mob_pool_worker {
    uint32_t number;
    pid_t pid; /* 0 until it is reported */
};
struct mob_pool {
    struct mob_worker_config config;
    char worker_path[512];
    pid_t zygote; /* 0 = it died and is not replaced yet */
    int poll_fd; /* of the node's loop; holds `fd`, which is another one for each zygote */
    int fd;
    struct mob_pool_worker *workers;
    uint32_t count, capacity;
    uint32_t ended[MOB_POOL_OLD_LOGS]; /* whose logs are still there */
    uint32_t ended_next, ended_count;
};

/* A worker ended: its log stays, the log of the one that ended longest ago goes. */
void mob_pool_log_ended(struct mob_pool *pool, uint32_t worker);

#endif
