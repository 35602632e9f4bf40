/* Between the pool and its zygote, and between the zygote and a worker's main. Private to runtime/worker. */
#ifndef MOB_RUNTIME_WORKER_ZYGOTE_H
#define MOB_RUNTIME_WORKER_ZYGOTE_H

#include "common/wire/session.h"

/* The zygote's end of the socket pair. */
#define MOB_ZYGOTE_FD 3

struct mob_worker_config {
    char state_dir[256];
    char log_dir[256];
    uint64_t log_bytes_max;
    uint64_t address_space_bytes;
    int oom_score_adj;
};

struct mob_zygote_request { /* with memfd and eventfd */
    uint32_t worker;
    uint32_t zero;
    struct mob_session_welcome welcome;
};
struct mob_zygote_report {
    uint32_t kind; /* enum mob_pool_event_kind */
    uint32_t worker;
    int32_t pid;
    int32_t wait_status;
    uint64_t max_rss_kb;
};

/* Serve until the pool's end closes. `parent` is the node's process id. Never returns. */
_Noreturn void mob_zygote_run(const struct mob_worker_config *config, int parent);
/* worker.c: a worker's life. Returns its exit status. */
int mob_worker_run(const struct mob_worker_config *config, const struct mob_session_welcome *welcome,
    int memfd, int eventfd);

#endif
