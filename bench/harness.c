#include "bench/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/smaps.h"
#include "common/base/process.h"

extern char **environ;

int64_t bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void print_number(const char *name, double value, bool there)
{
    if (there)
        printf(",\"%s\":%.6g", name, value);
    else
        printf(",\"%s\":null", name);
}

bool bench_told(const struct bench *b, const char *name)
{
    for (int i = 0; i < b->told_count; i++)
        if (strcmp(b->told[i], name) == 0)
            return true;
    return false;
}

static void tell(struct bench *b, const char *name)
{
    if (!bench_told(b, name) && b->told_count < BENCH_ROWS_MAX)
        b->told[b->told_count++] = name;
}

void bench_row(struct bench *b, const struct bench_row *row)
{
    tell(b, row->name);
    bool has_baseline = row->baseline > 0;
    double ratio = has_baseline ? row->value / row->baseline : 0;
    if (b->options.json) {
        printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"", row->name, row->value, row->unit);
        print_number("baseline", row->baseline, has_baseline);
        print_number("ratio", ratio, has_baseline);
        printf(",\"n\":%.0f", row->n);
        print_number("p50_us", row->p50_us, row->p50_us > 0);
        print_number("p99_us", row->p99_us, row->p99_us > 0);
        printf(",\"against\":\"%s\",\"durability\":\"%s\",\"commit\":\"%s\"%s%s}\n",
            row->against ? row->against : "", BENCH_DURABILITY, row->commit ? row->commit : "none",
            row->extra ? "," : "", row->extra ? row->extra : "");
    } else {
        printf("%-22s %12.4g %-8s", row->name, row->value, row->unit);
        if (has_baseline)
            printf("  %8.3g x %s", ratio, row->against);
        if (row->p50_us > 0)
            printf("  p50 %.3g us p99 %.3g us", row->p50_us, row->p99_us);
        printf("  n=%.0f%s%s\n", row->n, row->extra ? " " : "", row->extra ? row->extra : "");
    }
    fflush(stdout);
}

bool bench_wanted(const struct bench *b, const char *row)
{
    for (int i = 0; i < b->options.only_count; i++)
        if (strcmp(b->options.only[i], row) == 0)
            return true;
    return b->options.only_count == 0;
}

void bench_miss(struct bench *b, const char *name, const char *why)
{
    tell(b, name);
    b->misses++;
    fprintf(stderr, "mobula-bench: %s not measured: %s\n", name, why);
}

void bench_void(struct bench *b, const char *name, const char *why)
{
    tell(b, name);
    fprintf(stderr, "mobula-bench: %s is void: %s\n", name, why);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(double *values, int n, double percent)
{
    if (n == 0)
        return 0;
    qsort(values, (size_t)n, sizeof *values, compare);
    int i = (int)(percent / 100 * (n - 1) + 0.5);
    return values[i];
}

double bench_median(double *values, int n)
{
    return bench_percentile(values, n, 50);
}

/* ---- the cluster ---- */

bool bench_find_program(const char *name, char *path_out, size_t capacity)
{
    const char *path = getenv("PATH");
    char copy[4096], *save = NULL;
    snprintf(copy, sizeof copy, "%s", path ? path : "/usr/local/bin:/usr/bin:/bin");
    for (char *at = strtok_r(copy, ":", &save); at; at = strtok_r(NULL, ":", &save)) {
        if ((size_t)snprintf(path_out, capacity, "%s/%s", at, name) < capacity && access(path_out, X_OK) == 0)
            return true;
    }
    return false;
}

static void read_all(int fd, char *out, size_t capacity)
{
    size_t at = 0;
    char rest[4096];
    for (;;) {
        bool full = at + 1 >= capacity;
        ssize_t n = read(fd, full ? rest : out + at, full ? sizeof rest : capacity - 1 - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        if (!full)
            at += (size_t)n;
    }
    out[at] = '\0';
}

int bench_run(char *const argv[], char *out, size_t capacity)
{
    pid_t pid;
    int status = 0, ends[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    if (out && pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    /* our own stdout is for rows */
    posix_spawn_file_actions_adddup2(&actions, out ? ends[1] : STDERR_FILENO, STDOUT_FILENO);
    int failed = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (out) {
        close(ends[1]);
        if (!failed)
            read_all(ends[0], out, capacity);
        close(ends[0]);
    }
    if (failed)
        return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- being stopped: what runs for us, and its directories, go with us ---- */

enum { STOP_DIRECTORIES = 2 };
static char stop_program[600], stop_cluster[256], stop_directories[STOP_DIRECTORIES][256];

static void run_at_stop(char *const argv[])
{
    pid_t pid = fork();
    if (pid == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

static void on_stop(int number)
{
    static volatile sig_atomic_t entered;
    (void)number;
    if (!entered) {
        entered = 1;
        char *down[] = {stop_program, (char *)"down", (char *)"--dir", stop_cluster, NULL};
        if (stop_cluster[0])
            run_at_stop(down);
        for (int i = 0; i < STOP_DIRECTORIES; i++) {
            char *remove[] = {(char *)"/bin/rm", (char *)"-rf", stop_directories[i], NULL};
            if (stop_directories[i][0])
                run_at_stop(remove);
        }
    }
    _exit(130);
}

void bench_remove_at_stop(const char *directory)
{
    static int next;
    if (!getenv("MOBULA_BENCH_KEEP"))
        snprintf(stop_directories[next], sizeof stop_directories[next], "%s", directory);
    next = (next + 1) % STOP_DIRECTORIES; /* the newest ones: no more exist at a time */
    signal(SIGINT, on_stop);
    signal(SIGTERM, on_stop);
}

static void stop_with_us(const char *program, const char *directory)
{
    snprintf(stop_program, sizeof stop_program, "%s", program);
    snprintf(stop_cluster, sizeof stop_cluster, "%s", directory);
    bench_remove_at_stop(directory);
}

static bool read_line(const char *directory, const char *name, char *out, size_t capacity)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "r");
    bool ok = f && fgets(out, (int)capacity, f);
    if (f)
        fclose(f);
    if (ok)
        out[strcspn(out, "\r\n")] = '\0';
    return ok;
}

/* A third of what memory is free, since other programs may need theirs, and at most 4 GiB, which every row
 * fits into. */
static unsigned long segment_mib(bool quick)
{
    char line[256];
    unsigned long free_kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lu kB", &free_kib) == 1)
            break;
    if (f)
        fclose(f);
    unsigned long mib = free_kib / 1024 / 3, most = quick ? 1024 : 4096;
    return mib > most ? most : mib < 256 ? 256 : mib;
}

bool bench_cluster_again(struct bench *b)
{
    char program[600], segment[32], nest_max[16], replicas[16];
    snprintf(program, sizeof program, "%s/mobula", b->options.binaries);
    snprintf(segment, sizeof segment, "%luMiB", segment_mib(b->options.quick));
    snprintf(nest_max, sizeof nest_max, "%d", b->nest_max);
    snprintf(replicas, sizeof replicas, "%d", b->replicas > 0 ? b->replicas : 1);
    char *argv[] = {program, (char *)"up", (char *)"--detach", (char *)"--dir", b->directory,
        (char *)"--segment-bytes", segment, (char *)"--gcs-durability", (char *)BENCH_DURABILITY,
        (char *)"--nest-max", nest_max, (char *)"--postgres", (char *)(b->postgres ? "on" : "off"),
        (char *)"--gcs-replicas", replicas, NULL};
    if (bench_run(argv, NULL, 0) != 0) {
        fprintf(stderr, "mobula-bench: the cluster did not start; its logs are in %s/logs\n", b->directory);
        return false;
    }
    b->running = true;
    return read_line(b->directory, "gateway.addr", b->address, sizeof b->address) &&
        read_line(b->directory, "token", b->token, sizeof b->token);
}

bool bench_cluster_start(struct bench *b)
{
    char program[600];
    snprintf(b->directory, sizeof b->directory, "/tmp/mobula-bench.XXXXXX");
    if (!mkdtemp(b->directory))
        return false;
    snprintf(program, sizeof program, "%s/mobula", b->options.binaries);
    stop_with_us(program, b->directory);
    return bench_cluster_again(b);
}

void bench_cluster_down(struct bench *b)
{
    char program[600];
    if (!b->running)
        return;
    snprintf(program, sizeof program, "%s/mobula", b->options.binaries);
    char *down[] = {program, (char *)"down", (char *)"--dir", b->directory, NULL};
    bench_run(down, NULL, 0);
    b->running = false;
}

void bench_flush_nothing(void)
{
    setenv("MOBULA_FLUSH_DELAY_MS", "1h", 1);
    setenv("MOBULA_FLUSH_BATCH_BYTES", "256MiB", 1); /* more than a run has */
}

void bench_flush_again(void)
{
    unsetenv("MOBULA_FLUSH_DELAY_MS");
    unsetenv("MOBULA_FLUSH_BATCH_BYTES");
}

void bench_cluster_stop(struct bench *b)
{
    if (!b->running)
        return; /* what never ran keeps its logs */
    bench_cluster_down(b);
    char *remove[] = {(char *)"/bin/rm", (char *)"-rf", b->directory, NULL};
    if (strncmp(b->directory, "/tmp/mobula-bench.", 18) == 0 && !getenv("MOBULA_BENCH_KEEP"))
        bench_run(remove, NULL, 0);
}

struct mob_client *bench_connect(struct bench *b)
{
    struct mob_connect_options options = {
        .struct_size = sizeof options, .directory = b->directory, .job_name = "bench"};
    struct mob_client *client = NULL;
    enum mob_status status = mob_connect(&options, &client);
    if (status != MOB_OK)
        fprintf(stderr, "mobula-bench: no connection to %s: %s\n", b->directory, mob_status_code(status));
    return client;
}

void bench_wait_warm(struct mob_client *client)
{
    for (int i = 0; client && i < 600; i++) {
        if (bench_stat(client, "store.warm_bytes") >= bench_stat(client, "store.segment_bytes") * 0.98)
            return;
        usleep(100000);
    }
}

bool bench_deploy(struct bench *b, struct mob_client *client, const char *module)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s.so", b->options.modules, module);
    enum mob_status status = mob_deploy(client, path, NULL);
    if (status != MOB_OK)
        fprintf(stderr, "mobula-bench: deploying %s: %s (%s)\n", path, mob_status_code(status),
            mob_client_error(client));
    return status == MOB_OK;
}

bool bench_deploy_everywhere(struct bench *b, struct mob_client *client, const char *module)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s.so", b->options.modules, module);
    return bench_upload(b, path) && bench_deploy(b, client, module);
}

/* ---- what processes use ---- */

/* Does this process belong to the cluster? Its command line names the state directory, or an ancestor's does.
 */
static bool command_names(int pid, const char *directory)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[n] = '\0';
    return strstr(text, directory) != NULL;
}

static int parent_of(int pid)
{
    struct mob_process process;
    (void)mob_process_look(pid, &process);
    return process.parent;
}

static bool in_cluster(int pid, const char *directory)
{
    for (int depth = 0; pid > 1 && depth < 6; depth++, pid = parent_of(pid))
        if (pid != getpid() && command_names(pid, directory))
            return true;
    return false;
}

double bench_process_pss(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps", pid);
    FILE *f = fopen(path, "r");
    double bytes = f ? bench_smaps_pss(f) : 0;
    if (f)
        fclose(f);
    return bytes;
}

/* CPU seconds that it used. */
static double bench_process_cpu(int pid)
{
    struct mob_process process;
    (void)mob_process_look(pid, &process);
    return (double)process.cpu_ns / 1e9;
}

static bool is_program(int pid, const char *program)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *f = fopen(path, "r");
    bool is = f && fgets(name, sizeof name, f) && strncmp(name, program, strlen(program)) == 0;
    if (f)
        fclose(f);
    return is;
}

/* Memory figures are without PostgreSQL, whose buffers are its own affair. */
static double pss_of(int pid, const char *program)
{
    bool counts = program ? is_program(pid, program) : !is_program(pid, "postgres");
    return counts ? bench_process_pss(pid) : 0;
}

static double cpu_of(int pid, const char *program)
{
    (void)program;
    return bench_process_cpu(pid);
}

static double sum_over_cluster(
    struct bench *b, double (*of)(int pid, const char *program), const char *program)
{
    double total = 0;
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    while (proc && (entry = readdir(proc))) {
        int pid = atoi(entry->d_name);
        if (pid > 1 && in_cluster(pid, b->directory))
            total += of(pid, program);
    }
    if (proc)
        closedir(proc);
    return total;
}

double bench_memory(struct bench *b)
{
    return sum_over_cluster(b, pss_of, NULL);
}

double bench_program_memory(struct bench *b, const char *program)
{
    return sum_over_cluster(b, pss_of, program);
}

double bench_cpu_seconds(struct bench *b)
{
    return sum_over_cluster(b, cpu_of, NULL);
}

double bench_stat(struct mob_client *client, const char *path)
{
    char *text = NULL, copy[128], *save = NULL;
    if (mob_query(client, "stats", "", 5 * 1000000000ll, &text) != MOB_OK)
        return -1;
    json_t *root = json_loads(text, 0, NULL), *at = root;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strtok_r(copy, ".", &save); key && at; key = strtok_r(NULL, ".", &save))
        at = json_object_get(at, key);
    double value = at ? json_number_value(at) : -1;
    json_decref(root);
    free(text);
    return value;
}
