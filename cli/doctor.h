/* `mobula doctor`: whether this machine, and what runs in the state directory, is as Mobula needs it.
 *
 * Looking and judging are apart. doctor_look_* fill in what was found and decide nothing; doctor_judge_* are
 * pure: from what was found to lines of (verdict, what, what follows, what to do). One thread; looking
 * blocks, for some seconds at most, and leaves nothing behind.
 */
#ifndef MOB_CLI_DOCTOR_H
#define MOB_CLI_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/cluster_state.h"
#include "cli/realtime.h"
#include "cli/state_dir.h"

enum doctor_verdict { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

#define DOCTOR_CHECKS_MAX 96
#define DOCTOR_TEXT_MAX 400
#define DOCTOR_FILES_MAX 24
#define DOCTOR_PROGRAMS_MAX 10
#define DOCTOR_MEMBERS_MAX (STATE_SHARDS_MAX * STATE_REPLICAS_MAX)

struct doctor_check {
    const char *name;
    enum doctor_verdict verdict;
    char found[DOCTOR_TEXT_MAX], means[DOCTOR_TEXT_MAX],
        todo[DOCTOR_TEXT_MAX]; /* the last two of what is ok: "" */
};
struct doctor_report {
    struct doctor_check checks[DOCTOR_CHECKS_MAX];
    int count;
};
/* The worst of all; DOCTOR_OK when there is none. */
enum doctor_verdict doctor_worst(const struct doctor_report *report);
const char *doctor_verdict_name(enum doctor_verdict verdict);

/* ---- what was found ---- */

/* What will be needed, from the settings: of the running cluster, or of the next start. */
struct doctor_wants {
    uint32_t shards, replicas;
    bool postgres, runs; /* runs: what it needs it has taken already */
    uint64_t segment_bytes, soft_bytes, hard_bytes, spill_bytes, slots, blocked_max;
};
struct doctor_machine {
    bool realtime;
    uint64_t rtprio_limit;
    uint64_t cores;
    uint64_t memory_bytes, available_bytes; /* of a cgroup, when that has less */
    uint64_t files_soft, files_hard; /* RLIMIT_NOFILE */
    int segment_errno; /* of a memfd as large as the segment, sealed as the store does it; 0: it can be made
                        */
    const char *segment_step; /* what of it failed */
    const char *kernel_lacks; /* the first feature that is missing; NULL: none */
    int64_t mono_step_ns, boot_step_ns; /* between two readings with some microseconds between them */
    int64_t boot_minus_mono_ns, resolution_ns, wall_ns;
};
struct doctor_file { /* one that is nobody else's to read */
    char name[STATE_NAME_MAX];
    unsigned mode; /* of permissions */
    bool is_directory, foreign; /* foreign: neither ours nor of the user that is to have it */
    int64_t bytes, bytes_wanted; /* wanted: -1 = any */
};
struct doctor_program {
    const char *name;
    char path[STATE_PATH_MAX], version[96];
    bool found;
};
struct doctor_directory {
    char path[STATE_PATH_MAX]; /* as was asked for */
    char looked_at[STATE_PATH_MAX]; /* it, or the nearest one above it that is there */
    bool exists, writable;
    uint64_t free_bytes;
    int64_t sync_ns; /* median of a few, each of 4 KiB that were appended; -1: could not be measured */
    int sync_errno;
    struct doctor_file files[DOCTOR_FILES_MAX];
    int file_count;
    char layout[64]; /* of the version file; "": there is none */
    char postgres_made[16], postgres_have[16]; /* major versions: of its data directory, of the programs */
    char shape[STATE_ERROR_MAX]; /* why its number of chains and members does not fit; "": it does */
    bool pid_file, pid_lives; /* of a supervisor */
    int leftovers; /* processes of a supervisor that is no more */
    const char *user_lacks; /* a system user that is not there; NULL: none */
    struct doctor_program programs[DOCTOR_PROGRAMS_MAX];
    int program_count;
};
struct doctor_member {
    char name[STATE_NAME_MAX], state[16], store[16];
    uint32_t shard;
    enum mob_status status; /* of asking it */
    bool realtime;
    uint64_t lease_ms, suspicion_ms, redis_bytes, member_bytes, soft_bytes, hard_bytes, losses;
    bool watermark_known;
    uint64_t behind; /* blocks that PostgreSQL lacks */
};
struct doctor_cluster {
    bool runs, unreadable; /* unreadable: a supervisor, and no word of it that can be read */
    struct cluster_state state;
    int64_t wall_us;
    bool gateway_ready;
    bool postgres_silent; /* it takes connections, and says nothing: stopped, or its disk hangs */
    struct doctor_member members[DOCTOR_MEMBERS_MAX];
    int member_count;
};

/* cmd_doctor.c's looks. `settings` are complete. */
void doctor_look_machine(const struct doctor_wants *wants, struct doctor_machine *out);
void doctor_look_directory(
    const struct mob_settings *settings, const struct doctor_wants *wants, struct doctor_directory *out);
void doctor_look_cluster(struct cli_call *call, struct doctor_cluster *out);

/* Each adds its lines. */
void doctor_judge_machine(
    const struct doctor_machine *m, const struct doctor_wants *wants, struct doctor_report *out);
void doctor_judge_directory(
    const struct doctor_directory *d, const struct doctor_wants *wants, struct doctor_report *out);
void doctor_judge_cluster(
    const struct doctor_cluster *c, const struct doctor_wants *wants, struct doctor_report *out);

/* For those: adds a line and gives it back; the texts are printf's. Full: the last one is written over. */
struct doctor_check *doctor_add(struct doctor_report *out, const char *name, enum doctor_verdict verdict,
    const char *found, ...) __attribute__((format(printf, 4, 5)));
void doctor_means(struct doctor_check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_todo(struct doctor_check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "3.4 GiB", "12 MiB"; a buffer of its own for each of eight calls in a row. */
const char *doctor_bytes(uint64_t bytes);

#endif
