/* The node's side of the worker pool: a zygote forks workers and reports their ends (ARCHITECTURE
 * "Processes").
 *
 * Linked by mobula-node; everything for the node's thread; nothing blocks but create. The zygote is a small
 * process, so forking it is cheap (LIMITS: 0.16 ms); it dies with the node and workers die with it.
 */
#ifndef MOB_RUNTIME_WORKER_POOL_H
#define MOB_RUNTIME_WORKER_POOL_H

#include <sys/types.h>

#include "common/wire/session.h"

struct mob_pool;
struct mob_pool_options {
    size_t struct_size;
    const char *worker_binary; /* mobula-worker; copies */
    const char *directory; /* state directory: modules/ and logs/workers/ in it; copies */
    int memfd, eventfd; /* of the segment; keeps */
    uint64_t address_space_max; /* RLIMIT_AS of a worker in bytes; 0 = none */
    uint64_t log_bytes_max; /* of a worker's log file; 0 = 1 MiB */
};
/* Starts the zygote. MOB_IO, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_pool_create(
    const struct mob_pool_options *options, struct mob_pool **pool_out);
/* Kills the zygote and with it all workers. NULL is fine. */
void mob_pool_destroy(struct mob_pool *pool);
/* Readable: call mob_pool_next until it gives false. */
int mob_pool_fd(const struct mob_pool *pool);
/* Asks for a worker; STARTED or FAILED follows. `worker` is the node's number, free again after EXITED or
 * FAILED. */
MOB_MUST_USE enum mob_status mob_pool_spawn(
    struct mob_pool *pool, uint32_t worker, const struct mob_session_welcome *welcome);
enum mob_pool_event_kind { MOB_POOL_STARTED = 1, MOB_POOL_EXITED, MOB_POOL_FAILED, MOB_POOL_ZYGOTE_DIED };
struct mob_pool_event {
    enum mob_pool_event_kind kind;
    uint32_t worker;
    pid_t pid;
    int wait_status; /* EXITED: as waitpid gives it */
    uint64_t max_rss_kb;
};
bool mob_pool_next(struct mob_pool *pool, struct mob_pool_event *event_out);
/* Last lines of a worker's log into `out` (NUL-terminated); returns the length. */
size_t mob_pool_log_tail(struct mob_pool *pool, uint32_t worker, int lines, char *out, size_t capacity);

#endif
