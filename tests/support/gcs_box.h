/* A control store of its own for a test or a bench: redis-server and mobula-gcs in a fresh folder, to be
 * killed at will. Binaries come from MOBULA_BIN_DIR; redis-server from PATH. Everything ends with the calling
 * process. One thread.
 */
#ifndef MOB_TESTS_SUPPORT_GCS_BOX_H
#define MOB_TESTS_SUPPORT_GCS_BOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gcs/client/client_sync.h"
#include "gcs/client/member_link.h"

#define GCS_BOX_ARGS_MAX 24

struct gcs_box {
    char directory[64]; /* mkdtemp */
    char socket[96];
    const char *program; /* that is run; NULL: mobula-gcs of MOBULA_BIN_DIR */
    const char *durability; /* "everysec" */
    const char *args[GCS_BOX_ARGS_MAX]; /* more flags of mobula-gcs, NULL-terminated */
    const char *failpoints; /* MOBULA_FAILPOINTS of mobula-gcs, NULL = none */
    pid_t redis, gcs;
    uint64_t kills;
};

/* The secret of every control store of a test; their cluster's id is zero, as of gcs_block_make's blocks. */
extern const uint8_t gcs_box_secret[32];
/* DIR/cluster-id and DIR/cluster-secret, as node and gateway look for them. */
void gcs_box_write_identity(const char *directory);

/* Writes the configuration; starts nothing. durability NULL = everysec. */
void gcs_box_init(struct gcs_box *box, const char *durability);
/* The configuration again, when something was mounted on the folder. */
void gcs_box_configure(struct gcs_box *box);
/* fork and exec; returns when it accepts connections (polled), or fails the test. */
void gcs_box_start_redis(struct gcs_box *box);
void gcs_box_start_gcs(struct gcs_box *box);
/* As before, without waiting that it is ready. */
void gcs_box_spawn_redis(struct gcs_box *box);
void gcs_box_spawn_gcs(struct gcs_box *box);
void gcs_box_start(struct gcs_box *box);
/* signal, then wait until it is gone; its exit status as wait() gives it. */
int gcs_box_end(pid_t *pid, int signal);
/* True when it ended by itself; reaps it. */
bool gcs_box_ended(pid_t *pid);
/* Kills both, removes the folder (kept when MOBULA_KEEP is set). */
void gcs_box_fini(struct gcs_box *box);
/* Of the newest file that Redis appends to. */
uint64_t gcs_box_file_bytes(const struct gcs_box *box);
/* Of the whole commands in it, the one with most bytes. */
uint64_t gcs_box_largest_command(const struct gcs_box *box);
/* As if the machine's power had failed: the newest part of that file never reached the disk. Returns how much
 * that is. */
uint64_t gcs_box_cut_file(const struct gcs_box *box, uint64_t bytes);
struct mob_gcs *gcs_box_client(struct gcs_box *box);
/* What there is for the client now, then up to `wait_ms` for more. */
void gcs_box_step(struct mob_gcs *gcs, int wait_ms);
/* mob_member_open with the secret of all boxes. */
MOB_MUST_USE enum mob_status gcs_box_member(
    const char *socket, uint32_t shard, struct mob_member_link **link_out);
/* What the control store says of itself, or fails the test. */
struct mob_gcs_stats gcs_box_stats(struct mob_gcs *gcs);
/* utime + stime of a process, ns. */
int64_t gcs_box_cpu_ns(pid_t pid);

/* A block of `tasks` specs and, if `finished`, their completions, of tasks (stream, first_index...). Returns
 * its length. */
struct gcs_block_spec {
    uint64_t incarnation, sequence;
    uint16_t job; /* in its id */
    uint8_t stream;
    uint32_t first_index, tasks;
    bool specs, finals;
    uint32_t failed; /* of the completions */
    uint8_t function;
    uint32_t argument_bytes; /* 0 = one i64 */
    int64_t wall_ns, mono_ns; /* 0 = now */
};
uint32_t gcs_block_make(const struct gcs_block_spec *spec, uint8_t *out, uint32_t capacity);
/* The n-th block of a log of one stream, `tasks` of it in each: one block in three leaves them unfinished. */
struct gcs_block_spec gcs_block_nth(uint64_t incarnation, uint64_t n, uint32_t tasks);
/* A block as a log takes it, in memory of its own: free() it, or let the log do it (its event `released`). */
struct mob_gcs_block *gcs_block_new(const struct gcs_block_spec *spec);
void gcs_block_released(void *arg, struct mob_gcs_block *block);
struct mob_job_id gcs_block_job(uint16_t job);
struct mob_stream gcs_block_stream(uint16_t job, uint8_t stream);
struct mob_function_id gcs_block_function(uint8_t function);

#endif
