/* The state directory of a private cluster: which file is what, its making, and who runs in it.
 *
 *   DIR/mobula.conf                      settings, if the user wrote any
 *   DIR/version                          layout of all this
 *   DIR/cluster-id, cluster-secret       16 and 32 random bytes, made once (0600)
 *   DIR/token                            API key, made by the gateway (0600)
 *   DIR                                  locked (flock) by the supervisor for as long as it lives
 *   DIR/supervisor.pid                   `pid starttime` of it, written again when somebody removes it
 *   DIR/supervisor.json                  what it supervises, replaced at each change
 *   DIR/settings.json                    what it was started with (running_settings.h)
 *   DIR/gateway.addr, node.sock, gcs.sock   made by each daemon when it is ready
 *   DIR/gcs.sock.callers                 of a lone member: which processes may have what its disk lacks
 *   DIR/gcs.sock.stored                  of a lone member: that its store has had data
 * (gcs/shard/store_note.h) DIR/gcs/                             Redis: configuration, socket, append-only
 * file DIR/gcs-1.sock, gcs-1/ and so on     the same of the other members of a chain (--gcs-replicas)
 *   DIR/gcs-replicas                     how many members each chain has had (replicas.h)
 *   DIR/gcs-shards                       how many chains there are (--gcs-shards), when it is not one
 *   DIR/gcs-s1.sock, gcs-s1-1/ and so on members of the other chains: -sSHARD of the second and later ones
 *   DIR/master.sock                      of the chain's master
 *   DIR/replace.sock                     the master says here which member's process is to be ended
 *   DIR/pg/                              PostgreSQL: data directory, configuration, socket
 *   DIR/flush.ready                      made by mobula-flush when it is at work
 *   DIR/logs/NAME.log                    one for each process
 *
 * All 0700 or 0600. gcs/ and pg/ are those programs' own when they run under users of their own
 * (system_user.h). Functions with an `error` buffer write one sentence into it when they fail. One thread.
 */
#ifndef MOB_CLI_STATE_DIR_H
#define MOB_CLI_STATE_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/id.h"
#include "common/base/status.h"

#define STATE_PATH_MAX 512
#define STATE_ERROR_MAX 640
/* A unix socket's path has 107 bytes; the longest name in the directory is gcs-1/redis.sock. */
#define STATE_DIR_LENGTH_MAX (107u - sizeof "/gcs-1/redis.sock")
/* And with several shards. */
#define STATE_DIR_LENGTH_SHARDS_MAX (107u - sizeof "/gcs-s1-1/redis.sock")

#define STATE_VERSION_TEXT "mobula state 1"
#define STATE_SECRET_BYTES 32
#define STATE_CLUSTER_ID_NAME "cluster-id"
#define STATE_SECRET_NAME "cluster-secret"
#define STATE_PID_NAME "supervisor.pid"
#define STATE_STATUS_NAME "supervisor.json"
#define STATE_SETTINGS_NAME "settings.json"
#define STATE_ADDRESS_NAME "gateway.addr"
#define STATE_TOKEN_NAME "token"
#define STATE_GCS_DIR_NAME "gcs"
#define STATE_SHARDS_NAME "gcs-shards"
#define STATE_REPLICAS_NAME "gcs-replicas"
#define STATE_TABLE_FILE_NAME "master.table" /* of earlier versions */
#define STATE_SHARDS_MAX 4
#define STATE_REPLICAS_MAX 3 /* members of each chain */
#define STATE_NAME_MAX 48
#define STATE_ADDRESSES_MAX 2048 /* of all members of all shards */
_Static_assert(STATE_SHARDS_MAX *STATE_REPLICAS_MAX * 108 < STATE_ADDRESSES_MAX, "paths of sockets");
#define STATE_REPLACE_SOCKET_NAME "replace.sock"
#define STATE_POSTGRES_DIR_NAME "pg"
#define STATE_POSTGRES_NEW_DIR_NAME "pg.new" /* while it is being made */
#define STATE_NODE_SOCKET_NAME "node.sock"
#define STATE_LOGS_NAME "logs"

/* DIR/NAME into `out` (STATE_PATH_MAX bytes); cut if too long, which state_dir_prepare has excluded. Returns
 * `out`. */
char *state_path(const char *directory, const char *name, char *out);

/* What belongs to one chain or member: KIND, KIND-sSHARD, KIND-REPLICA or KIND-sSHARD-REPLICA, where the
 * first of each has no number, then `suffix`. Returns `out` (STATE_NAME_MAX bytes). */
char *state_member_name(
    const char *kind, uint32_t shard, uint32_t replica, const char *suffix, char out[STATE_NAME_MAX]);
/* How many shards the directory has been made for; 0: it has no control store yet. MOB_CORRUPT. */
MOB_MUST_USE enum mob_status state_dir_shards(const char *directory, uint32_t *out);
/* May it be one of `shards`? MOB_CONFLICT: it has another number of them; MOB_TOO_LARGE: path; MOB_CORRUPT.
 */
MOB_MUST_USE enum mob_status state_dir_check_shards(
    const char *directory, uint32_t shards, char error[STATE_ERROR_MAX]);
/* Makes it one of `shards`. As the check, with nothing changed; MOB_IO. For the holder of the lock. */
MOB_MUST_USE enum mob_status state_dir_set_shards(
    const char *directory, uint32_t shards, char error[STATE_ERROR_MAX]);
/* Sockets of the members of the control store that are there, as gcs/client takes them; of a shard's first
 * when none of it is. Returns `out` (STATE_ADDRESSES_MAX bytes). */
char *state_gcs_addresses(const char *directory, char *out);

/* Makes the directories. MOB_DENIED: it is not ours; MOB_TOO_LARGE: path; MOB_IO. */
MOB_MUST_USE enum mob_status state_dir_prepare(const char *directory, char error[STATE_ERROR_MAX]);
/* Makes what is made once, or checks it. Only for the holder of the lock. MOB_VERSION: another layout;
 * MOB_IO. */
MOB_MUST_USE enum mob_status state_dir_init(const char *directory, char error[STATE_ERROR_MAX]);
/* Removes sockets and addresses that a dead cluster left. Only for the holder of the lock. */
void state_dir_clean(const char *directory);

/* Reads the cluster's id. MOB_NOT_FOUND, MOB_CORRUPT. */
MOB_MUST_USE enum mob_status state_dir_cluster(const char *directory, struct mob_cluster_id *out);
/* Reads the cluster's secret. MOB_NOT_FOUND (or not ours to read), MOB_CORRUPT. */
MOB_MUST_USE enum mob_status state_dir_secret(const char *directory, uint8_t out[STATE_SECRET_BYTES]);

/* Becomes the supervisor of this directory: locks it and writes the pid file. The lock ends with the
 * descriptor. MOB_EXISTS: somebody holds it. MOB_IO. */
MOB_MUST_USE enum mob_status state_dir_lock(const char *directory, int *fd_out, char error[STATE_ERROR_MAX]);
/* Is the directory that was locked still the one of this name, and not removed? */
bool state_dir_is(const char *directory, int lock_fd);
/* For the holder of the lock: this process is it. MOB_IO. */
MOB_MUST_USE enum mob_status state_dir_write_pid(const char *directory);
/* Is a supervisor alive there? Its pid, checked by start time, or 0: none, or a stale file. */
pid_t state_dir_supervisor(const char *directory);

/* Reads a small file as one line of text, without its newline. MOB_NOT_FOUND, MOB_TOO_LARGE, MOB_IO. */
MOB_MUST_USE enum mob_status state_read_line(const char *path, char *out, size_t capacity);
/* Replaces a file by rename, so that a reader sees the old or the new. */
MOB_MUST_USE enum mob_status state_write(const char *path, const void *text, size_t length);
/* It has ended, is on its way there, or was sent a SIGKILL that it has not got to yet. */
bool state_process_ends(pid_t pid);

#endif
