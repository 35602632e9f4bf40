/* What all suites of mobula-bench share: a cluster of their own, rows of results, checks over HTTP.
 *
 * Every figure stands beside a primitive measured in the same run (`baseline`), because machines differ and
 * are shared. One thread.
 */
#ifndef MOB_BENCH_HARNESS_H
#define MOB_BENCH_HARNESS_H

#include <mobula/mobula.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_DURABILITY "everysec"

#define BENCH_ROWS_MAX 128

#define BENCH_ONLY_MAX 64

struct bench_options {
    bool json, quick;
    int runs; /* of each cell of gcs_failover; 0 = its own number */
    const char *only[BENCH_ONLY_MAX]; /* these rows, which may measure others with them */
    int only_count; /* 0: all */
    char binaries[512]; /* build/<preset>/bin */
    char modules[512];
};
struct bench {
    struct bench_options options;
    char directory[256]; /* state directory of the cluster */
    char address[64], token[256];
    bool running;
    int nest_max; /* of clusters that are started: 0 = no task runs on the stack of the one that waits for it
                   */
    int replicas; /* of clusters that are started: members of the control store's chain; 0 = 1, as the rows
                     are stated */
    bool postgres; /* of clusters that are started: with a PostgreSQL, as by default; the rows have none */
    int misses; /* rows that could not be measured or whose check failed */
    const char *told[BENCH_ROWS_MAX]; /* the rows with a figure or a miss, each once */
    int told_count;
    /* Primitives of this run, the baselines; 0 = not measured. */
    double clock_ns, locked_add_ns, memcpy_1m_gbs, memcpy_100m_gbs, ring_msgs, socket_rtt_us, fork_us;
    double tcp_gbs, redis_set_us, redis_set_rate, redis_block_tasks, redis_block_bytes, redis_start_s,
        redis_idle_mb;
    double http_rate; /* the gateway's smallest answer, measured when a suite needs it */
};
struct bench_row {
    const char *name, *unit;
    double value, baseline; /* baseline 0 = none */
    const char *against; /* what the baseline is */
    double n, p50_us, p99_us; /* 0 = does not apply */
    const char
        *commit; /* "committed": counted when the GCS has it; "local": before; "none": nothing to commit */
    const char *extra; /* more JSON members, without the comma; NULL = none */
};

int64_t bench_now(void);
/* Prints it. Keeps `row->name` (a literal). */
void bench_row(struct bench *b, const struct bench_row *row);
/* A row that has no figure: says why, counts as a miss. Keeps `name`. */
void bench_miss(struct bench *b, const char *name, const char *why);
/* A row that ran and has no figure, because the machine stood still now and then: says so, is no miss. */
void bench_void(struct bench *b, const char *name, const char *why);
/* There was a bench_row, a bench_miss or a bench_void of it. */
bool bench_told(const struct bench *b, const char *name);
double bench_median(double *values, int n);
/* Sorts; percent 0..100. */
double bench_percentile(double *values, int n, double percent);

bool bench_wanted(const struct bench *b, const char *row);

/* Start a cluster in a fresh directory; false after a message. */
bool bench_cluster_start(struct bench *b);
/* The same in the directory that is there, after bench_cluster_down. */
bool bench_cluster_again(struct bench *b);
void bench_cluster_down(struct bench *b);
/* Until _again, clusters that are started write nothing of a run to PostgreSQL: their flusher waits for more
 * of it. */
void bench_flush_nothing(void);
void bench_flush_again(void);
/* Also removes the directory. */
void bench_cluster_stop(struct bench *b);
struct mob_client *bench_connect(struct bench *b);
/* Until the segment's pages have been touched in the background, which takes a core while it lasts; a minute
 * at most. */
void bench_wait_warm(struct mob_client *client);
bool bench_deploy(struct bench *b, struct mob_client *client, const char *module);
/* Over HTTP too: the gateway then knows the names at once. */
bool bench_deploy_everywhere(struct bench *b, struct mob_client *client, const char *module);

/* Proportional set size of one process without the segment. */
double bench_process_pss(int pid);
/* Summed over the cluster's processes, without PostgreSQL's. Bytes. */
double bench_memory(struct bench *b);
/* Of the cluster's processes of one program, by the begin of its name. */
double bench_program_memory(struct bench *b, const char *program);
double bench_cpu_seconds(struct bench *b);
/* Number at `path` ("gcs.memory_bytes") in the node's stats; -1 when there is none. */
double bench_stat(struct mob_client *client, const char *path);

/* ---- programs: spawned without a shell ---- */

/* Runs to its end; its standard output goes to standard error, or to `out` (NUL-terminated, cut). The exit
 * status, or -1. */
int bench_run(char *const argv[], char *out, size_t capacity);
/* The first of these in PATH; false when it is not installed. */
bool bench_find_program(const char *name, char *path_out, size_t capacity);

/* ---- load over HTTP (load.c) ---- */

struct bench_load {
    const char *script; /* Lua for wrk, after the prelude (load.c) */
    const char *path;
    int connections, seconds_max;
};
struct bench_load_result {
    double requests, seconds, p50_us, p99_us, failed; /* failed: socket errors, time-outs, status not 2xx */
    double counted, sum, bad; /* what the script counted */
    int64_t first_ns, last_ns; /* bench_now at its first request and last answer; 0 = it did not say */
    double stolen_percent; /* of all cores' time meanwhile, the hypervisor gave to others */
};
/* Runs wrk, one thread. False after a message. The scripts' file of answers is <directory>/answers. */
bool bench_load(
    struct bench *b, const char *row, const struct bench_load *load, struct bench_load_result *out);
/* The gateway's smallest answer under the same load: sets http_rate. Measured again for up to a minute while
 * the hypervisor stops the machine. */
void bench_http_baseline(struct bench *b);

/* ---- reading back over HTTP (readback.c) ---- */

#define BENCH_SAMPLES 1000
struct bench_sample {
    char task[MOB_TEXT_ID_MAX], object[MOB_TEXT_ID_MAX];
    char needs[MOB_TEXT_ID_MAX]; /* its first argument is this object by reference; "" = a number */
    int64_t argument, result;
};
/* A reservoir: each task that was offered is in it with the same probability. Offering one costs a few
 * nanoseconds; ids are asked for only of those that get in, so every task of a run can be offered. */
struct bench_samples {
    const char *function; /* expected name of each task's function */
    const char *argument_object; /* the argument is this object by reference; NULL = the number itself */
    bool many_arguments; /* only their count is compared, with `argument` */
    struct bench_sample items[BENCH_SAMPLES];
    uint64_t seen;
    int count;
    uint64_t random;
    int workers; /* distinct worker processes, after the check */
    long long worker_ids[64];
};
void bench_samples_init(struct bench_samples *s, const char *function);
/* Offer one finished task; `future` is still held. */
void bench_sample_offer(struct bench_samples *s, struct mob_future *future, int64_t argument, int64_t result);
/* One whose first argument is the result of `needed`, which is still held, too. */
void bench_sample_offer_needing(
    struct bench_samples *s, struct mob_future *future, struct mob_future *needed, int64_t result);
void bench_sample_offer_ids(
    struct bench_samples *s, const char *task, const char *object, int64_t argument, int64_t result);
/* Read each over HTTP and compare function, argument, result, object, times, worker and lineage; at least
 * `workers_min` worker processes took part. False after bench_miss. */
bool bench_samples_check(struct bench *b, const char *row, struct bench_samples *s, int workers_min);
enum bench_result { BENCH_RESULT_ECHO, BENCH_RESULT_LEAVES }; /* = argument; = 2^argument */
/* The same for random ones of the tasks that the list gives under `filter` and that are of the sample's
 * function, of which there are `listed`. */
bool bench_list_check(struct bench *b, const char *row, const char *filter, struct bench_samples *s,
    uint64_t listed, enum bench_result expected);
/* The same for `wanted` random children of a task that has `children` of them and nothing else: their ids
 * count up. */
bool bench_children_check(struct bench *b, const char *row, const char *parent, struct bench_samples *s,
    int64_t children, int wanted, enum bench_result expected);
/* The same for `n` chosen children: child indices[i] has `argument` and returned results[i]. */
bool bench_children_compare(struct bench *b, const char *row, const char *parent, struct bench_samples *s,
    int n, const int64_t *indices, int64_t argument, const int64_t *results);
/* Adds the worker that ran this task. */
void bench_note_worker(struct bench *b, struct bench_samples *s, const char *task);
/* The same for `wanted` random tasks of the tree of noop.tree whose root is this task, their sums among them.
 */
bool bench_tree_check(struct bench *b, const char *row, const char *root, int depth, int wanted);
/* A JSON answer of the gateway (free with free()), NULL unless the status is 2xx. */
char *bench_http(struct bench *b, const char *method, const char *path, const char *body);
bool bench_upload(struct bench *b, const char *module_file);

#define BENCH_TRY(b, row, expression) \
    do { \
        enum mob_status bench_status_ = (expression); \
        if (bench_status_ != MOB_OK) { \
            char bench_why_[512]; \
            snprintf(bench_why_, sizeof bench_why_, "%s: %s", #expression, mob_status_code(bench_status_)); \
            bench_miss(b, row, bench_why_); \
            return; \
        } \
    } while (0)

/* Wakes, system calls, yields, a line between two cores, allocation, new processes (limits_wake.c). */
void bench_limits_calls(struct bench *b);
void bench_limits_wakes(struct bench *b);
void bench_limits_spawn(struct bench *b);
/* When the bench itself is stopped (SIGINT, SIGTERM), the directory goes, unless MOBULA_BENCH_KEEP is set. */
void bench_remove_at_stop(const char *directory);
/* Baselines that need sockets and a private redis-server (limits_net.c). */
void bench_limits_tcp(struct bench *b);
void bench_limits_rpc(struct bench *b);
void bench_limits_redis(struct bench *b);

/* `mobula-bench gcs-history ...` (gcs_history_run.c): its exit status. */
int bench_gcs_history(struct bench *b, int argc, char **argv);

void suite_limits(struct bench *b);
void suite_gcs(struct bench *b);
void suite_core(struct bench *b);
void suite_store(struct bench *b);
void suite_http(struct bench *b);
void suite_serve(struct bench *b);
void suite_flush(struct bench *b);

#endif
