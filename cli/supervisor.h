/* The supervisor of a private cluster: starts its processes, keeps them running, stops them in order.
 *
 * One thread, one libuv loop, no timer while everything is ready. Each process is in one of the states below;
 * what may follow what is in supervisor.c. It dies with its children: they have SIGKILL as their death
 * signal, and a group each. When mobula-node has ended, its log is sealed before the next incarnation begins,
 * so no two of one node are ever live: by the master that the node enrolls at (gcs/life/node_life.h), or,
 * where there is none, by the supervisor before it starts the process again (node_seal.h). Order of stopping:
 * gateway, node, master, control store, Redis; PostgreSQL beside them once no master is left; each has its
 * time, then it is killed, which loses nothing that was acknowledged. PostgreSQL, and the flusher that moves
 * lineage there, stand beside the others: the cluster is ready without them, and their deaths are nobody
 * else's; only masters, which have their table there, wait for PostgreSQL when the cluster starts. The
 * flusher starts when PostgreSQL is ready for the first time. All functions are for the thread of the loop.
 */
#ifndef MOB_CLI_SUPERVISOR_H
#define MOB_CLI_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "cli/backoff.h"
#include "cli/log_file.h"
#include "cli/node_seal.h"
#include "cli/ready_probe.h"
#include "cli/state_dir.h"
#include "cli/system_user.h"
#include "common/settings/settings.h"

/* In the order in which they are started; stopped in the opposite order. */
enum supervised {
    SUPERVISED_POSTGRES,
    SUPERVISED_FLUSH, /* one of each shard (--gcs-shards); up to here: beside the others */
    SUPERVISED_REDIS =
        SUPERVISED_FLUSH + STATE_SHARDS_MAX, /* of each member (--gcs-replicas) of each shard */
    SUPERVISED_GCS = SUPERVISED_REDIS + STATE_SHARDS_MAX * STATE_REPLICAS_MAX,
    SUPERVISED_MASTER = SUPERVISED_GCS + STATE_SHARDS_MAX * STATE_REPLICAS_MAX, /* of each shard */
    SUPERVISED_NODE = SUPERVISED_MASTER + STATE_SHARDS_MAX,
    SUPERVISED_GATEWAY,
    SUPERVISED_COUNT
};

enum process_state {
    PROCESS_DOWN, /* not started yet, or stopped for good */
    PROCESS_PREPARING, /* PostgreSQL: its data directory is being made by another program, which is `pid` */
    PROCESS_SEALING, /* the node: the log of its last incarnation is being sealed */
    PROCESS_STARTING, /* runs, not ready */
    PROCESS_READY,
    PROCESS_WAITING, /* died; starts again when its pause is over */
    PROCESS_STOPPING
};

/* Where a program finds its own directory: descriptor 3 of Redis and PostgreSQL. */
#define SUPERVISED_DIRECTORY "/proc/self/fd/3"
#define SUPERVISED_LINE_MAX 256 /* of the last log line that is kept to say why something died */
#define SUPERVISOR_FAILURES_MAX 5 /* unready deaths that end an `up` that was never ready */
#define SUPERVISOR_ADDRESS_FAILURES \
    2 /* unready ends by itself, not by a signal, after which the gateway gives up the address that it had \
       */
#define SUPERVISOR_READ_MAX 16384
#define SUPERVISOR_NOTICE_MAX 1024
#define SUPERVISOR_STATUS_MAX (SUPERVISED_COUNT * 1024) /* the file that says how the cluster is */

struct supervisor;
struct process {
    struct supervisor *supervisor;
    enum supervised which;
    enum process_state state;
    bool enabled; /* else it stays down, and nobody is told of it */
    struct system_user user;
    pid_t pid; /* 0 = does not run */
    uint64_t start_time; /* of the pid: mob_process_started */
    uint32_t starts; /* restarts = starts - 1 */
    uint32_t unready_deaths; /* in a row, without being ready in between */
    uint32_t unready_exits; /* of these, without a signal */
    int64_t started_ns, started_wall_ns;
    struct backoff backoff;
    uv_timer_t timer; /* pause before a start, or patience with a stop */
    uv_pipe_t output; /* stdout and stderr of each that is started; one pipe for all of them */
    int output_fd; /* its writing end; -1 = no pipe */
    struct log_file log;
    char last_line[SUPERVISED_LINE_MAX]; /* of the one that runs or, when none does, that ran last */
    char last_words[SUPERVISED_LINE_MAX]; /* the last line of the one before it */
    char last_exit[64]; /* "exit status 1", "signal 9" */
};

struct supervisor {
    uv_loop_t loop;
    const struct mob_settings *settings;
    const char *directory;
    char binaries[STATE_PATH_MAX - 32]; /* where this executable and the daemons are */
    char cluster[40]; /* its id, in hex */
    char listen[64]; /* once the gateway has an address, it keeps it over restarts */
    struct process processes[SUPERVISED_COUNT];
    uv_signal_t signals[4];
    uv_timer_t watch; /* looks who is ready; runs only while somebody is not */
    int64_t watch_since_ns;
    int lock_fd; /* of the state directory */
    uv_fs_event_t files; /* of it: whoever removes the pid file does not hide who runs */
    uv_timer_t mending; /* the pid file is written again then; runs only while something is wrong there */
    bool realtime; /* heartbeats may have real-time priority */
    uint32_t shards, replicas; /* chains of the control store, and members of each */
    char gcs_addresses[STATE_ADDRESSES_MAX]; /* of all of them, as clients take it */
    char shard_addresses[STATE_SHARDS_MAX][STATE_PATH_MAX]; /* of each shard's */
    char masters[STATE_SHARDS_MAX * STATE_PATH_MAX]; /* of all shards, as nodes take it */
    uv_poll_t replace; /* the master says whom to end */
    int replace_fd; /* -1 = no chain */
    struct node_seal seal;
    struct ready_probe probe;
    struct log_file own_log; /* of a detached supervisor: its stderr */
    int64_t started_ns, started_wall_ns;
    bool was_ready, stopping, failed;
    int64_t stop_began_ns;
    bool only_beside_left; /* of what is being stopped */
    bool stale; /* somebody became ready since the status was written */
    char failure[SUPERVISOR_NOTICE_MAX]; /* told when everything has stopped */
    void (*notice)(void *arg, const char *text); /* NULL once it was called */
    void *notice_arg;
    char read_buffer[SUPERVISOR_READ_MAX];
};

struct supervisor_options {
    const struct mob_settings *settings; /* keeps */
    void (*notice)(void *arg, const char *text); /* once: "ready", or a sentence about why not */
    void *arg;
    int lock_fd; /* of the directory: state_dir_lock; keeps */
    const struct log_file *own_log; /* copies; where stderr goes when detached; NULL = a terminal */
};

/* Runs until told to stop (SIGTERM, SIGINT) or until the cluster cannot be started. The directory is prepared
 * and locked, and clean again when this returns. MOB_OK after a stop; MOB_UNAVAILABLE when it never became
 * ready. Blocks. */
MOB_MUST_USE enum mob_status supervisor_run(const struct supervisor_options *options);

/* ---- between supervisor*.c ---- */
/* supervisor.c */
void process_start(struct process *process);
void supervisor_stop(struct supervisor *supervisor, int signal_number);
/* Takes note of every child that has ended. */
void supervisor_reap(struct supervisor *supervisor);
/* All others are ready. */
bool supervisor_serves(const struct supervisor *supervisor);
/* supervisor_life.c: the folder of this executable. MOB_IO. MOB_NOT_FOUND, after a message: the program of
 * one that is enabled. */
MOB_MUST_USE enum mob_status supervisor_find_binaries(struct supervisor *supervisor);
/* supervisor_log.c and supervisor_spawn.c */
const char *process_name(enum supervised which);
const char *process_state_name(enum process_state state);
/* supervisor_spawn.c: forks and executes; MOB_IO when there is no process. In PROCESS_PREPARING what makes
 * the data directory. */
MOB_MUST_USE enum mob_status process_spawn(struct process *process);
/* Whether what it makes when it is ready is there. */
bool process_made_its_file(const struct process *process);
void process_remove_its_file(const struct process *process);
/* Where `name` would be executed from; false if nowhere. */
bool process_find_binary(
    const struct supervisor *supervisor, enum supervised which, char path[STATE_PATH_MAX]);
/* supervisor_chain.c: the processes of shards, each a chain of one or several members */
/* What it is, without whose: one of the names of enum supervised. */
enum supervised process_kind(enum supervised which);
bool process_is_redis(enum supervised which);
bool process_is_gcs(enum supervised which);
uint32_t process_shard(enum supervised which); /* 0 = the first shard's, or of none */
/* The file or folder that is a member's, or a shard's: state_member_name. */
char *process_file(enum supervised which, const char *kind, const char *suffix, char out[STATE_NAME_MAX]);
void chain_choose(struct supervisor *supervisor); /* who of them runs */
/* Then masters find out that a node is dead and have its log sealed; else the supervisor does (node_seal.h).
 */
bool chain_has_masters(const struct supervisor *supervisor);
/* A child may have been stopped: a flusher that stays so is ended and starts again, and of a chain a master
 * or a Redis. */
void supervisor_note_stopped(struct supervisor *supervisor);
MOB_MUST_USE enum mob_status chain_prepare(struct supervisor *supervisor);
void chain_fini(struct supervisor *supervisor);
/* supervisor_postgres.c */
/* Is there a data directory? */
bool postgres_is_made(const struct supervisor *supervisor);
/* Where `program` of the fitting version is; false, with the place in `path`, when it is not there. */
bool postgres_find(const struct supervisor *supervisor, const char *program, char path[STATE_PATH_MAX]);
/* An empty directory for initdb, and what it made becoming the data directory. */
MOB_MUST_USE enum mob_status postgres_prepare(struct process *process);
MOB_MUST_USE enum mob_status postgres_prepared(struct process *process);
/* Writes the configuration into the data directory. */
MOB_MUST_USE enum mob_status postgres_configure(struct process *process);
bool postgres_is_ready(const struct process *process);
/* supervisor_log.c */
MOB_MUST_USE enum mob_status process_log_open(struct process *process);
void process_log_close(struct process *process);
/* Writes DIR/supervisor.json. */
void supervisor_write_status(struct supervisor *supervisor);
/* To whoever started us, if he has not been told yet. */
void supervisor_notify(struct supervisor *supervisor, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
