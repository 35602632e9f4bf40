/* The node's pool of worker processes.
 *
 * A zygote (`mobula-worker --zygote`) is spawned once and forks the workers, so that a start costs a fork of
 * a small process. Workers die with the zygote, the zygote with the node's thread that made the pool. Nothing
 * here blocks but create and destroy: poll mob_pool_fd for reading, then call mob_pool_step until it gives
 * false. A zygote that died is replaced at the next step, after MOB_POOL_EXITED was given for each of its
 * workers.
 *
 * One thread. Limits: MOB_POOL_WORKERS_MAX workers; a worker's log is two files of `log_bytes_max` at most,
 * and those of the last MOB_POOL_OLD_LOGS workers that ended are kept.
 *
 *   mob_pool_start(pool, 7, &welcome, memfd, eventfd);
 *   while (mob_pool_step(pool, &event)) ...
 */
#ifndef MOB_RUNTIME_WORKER_POOL_H
#define MOB_RUNTIME_WORKER_POOL_H

#include <sys/types.h>

#include "common/wire/session.h"

#define MOB_POOL_WORKERS_MAX 4094u
#define MOB_POOL_OLD_LOGS 256u

struct mob_pool_options {
    size_t struct_size;
    const char *worker_path; /* of the executable; NULL = mobula-worker beside this one's file */
    const char *state_dir; /* modules/ in it holds the module files */
    const char *log_dir; /* NULL = state_dir/logs; made if missing */
    uint64_t log_bytes_max; /* of one file; 0 = 1 MiB */
    uint64_t address_space_bytes; /* of a worker beside the segment (RLIMIT_AS); 0 = no limit, as with
                                     sanitizers */
    int oom_score_adj; /* 0 = 500: the kernel picks a worker before anything else */
};

struct mob_pool;
enum mob_pool_event_kind { MOB_POOL_STARTED = 1, MOB_POOL_EXITED = 2 };
struct mob_pool_event {
    enum mob_pool_event_kind kind;
    uint32_t worker;
    pid_t pid;
    int wait_status; /* as of waitpid; of a worker whose zygote died: killed by SIGKILL */
    bool with_zygote; /* EXITED: the zygote died, and so it had to */
    uint64_t max_rss_kb;
};

/* Spawns the zygote. MOB_NOT_FOUND: no worker executable. MOB_IO. */
MOB_MUST_USE enum mob_status mob_pool_create(
    const struct mob_pool_options *options, struct mob_pool **pool_out);
/* Ends every worker (SIGKILL) and the zygote. NULL is fine. */
void mob_pool_destroy(struct mob_pool *pool);
int mob_pool_fd(const struct mob_pool *pool);
/* Fork a worker with this number (of no other running worker) and hand it the welcome and copies of both
 * descriptors. STARTED or EXITED follows. MOB_AGAIN: the zygote is busy, try again after a step. */
MOB_MUST_USE enum mob_status mob_pool_start(struct mob_pool *pool, uint32_t worker,
    const struct mob_session_welcome *welcome, int memfd, int eventfd);
bool mob_pool_step(struct mob_pool *pool, struct mob_pool_event *event_out);

/* Logs (stdout and stderr of a worker). */
/* The last `lines` lines, at most `size` - 1 bytes and a NUL; returns the length. */
size_t mob_pool_log_tail(struct mob_pool *pool, uint32_t worker, unsigned lines, char *out, size_t size);
struct mob_pool_output {
    struct mob_task_id task;
    uint32_t attempt; /* 0: of all that this worker ran */
    uint32_t worker;
    bool runs; /* it is what the worker runs now: what it wrote around stdio is nobody else's */
};
/* What one task wrote in a worker, from `offset` of it on; returns the bytes copied. *total_out: bytes there
 * are, so far if it runs. */
size_t mob_pool_log_read(struct mob_pool *pool, const struct mob_pool_output *output, uint64_t offset,
    void *out, size_t size, uint64_t *total_out);
/* The worker has died, in this attempt of this task: what nobody has noted was the task's. */
void mob_pool_log_died(struct mob_pool *pool, uint32_t worker, struct mob_task_id task, uint32_t attempt);
/* Cut files that user code filled behind the library's back. Once a second is enough. */
void mob_pool_check_logs(struct mob_pool *pool);

#endif
