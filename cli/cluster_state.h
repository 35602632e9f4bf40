/* What a supervisor says about its cluster: DIR/supervisor.json, read back, and which of its processes have
 * ended since. One thread: it keeps what it reads. */
#ifndef MOB_CLI_CLUSTER_STATE_H
#define MOB_CLI_CLUSTER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

#define CLUSTER_PROCESSES_MAX 40

/* State of a process that the file does not know to have ended; "ready" is "degraded" then. */
#define CLUSTER_PROCESS_GONE "gone"

struct cluster_process {
    char name[24], state[16], last_exit[64], last_line[256];
    int pid;
    uint64_t start_time; /* with the pid it names the process: mob_process_started */
    uint32_t restarts;
    int64_t started_us;
};
struct cluster_state {
    char state[16]; /* starting, ready, degraded, stopping */
    char address[64];
    int pid;
    int64_t started_us; /* wall clock */
    int count;
    struct cluster_process processes[CLUSTER_PROCESSES_MAX];
};

/* MOB_NOT_FOUND: no file, so nothing runs; MOB_CORRUPT; MOB_IO. */
MOB_MUST_USE enum mob_status cluster_state_read(const char *directory, struct cluster_state *out);
/* The same as JSON, malloc'ed; NULL when it cannot be read. */
char *cluster_state_json(const char *directory);
/* Ends processes that a killed supervisor of this directory left, if there are any. For the holder of the
 * lock. */
void cluster_end_leftovers(const char *directory);

#endif
