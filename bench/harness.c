#include "bench/harness.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/http_client.h"

extern char **environ;

int64_t bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void bench_row(struct bench *b, const struct bench_row *row)
{
    double ratio = row->baseline > 0 ? row->value / row->baseline : 0;
    if (b->options.json) {
        printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"baseline\":%.6g,\"ratio\":%.6g,\"n\":%.0f,"
               "\"p50_us\":%.4g,\"p99_us\":%.4g,\"against\":\"%s\",\"durability\":\"everysec\",\"commit\":\"%"
               "s\"}\n",
            row->name, row->value, row->unit, row->baseline, ratio, row->n, row->p50_us, row->p99_us,
            row->against ? row->against : "", row->commit ? row->commit : "");
    } else {
        printf("%-22s %14.4g %-8s", row->name, row->value, row->unit);
        if (row->baseline > 0)
            printf("  %8.3g x %s", ratio, row->against);
        if (row->p50_us > 0)
            printf("  p50 %.3g us p99 %.3g us", row->p50_us, row->p99_us);
        if (row->n > 0)
            printf("  n=%.0f", row->n);
        printf("\n");
    }
    fflush(stdout);
}

void bench_miss(struct bench *b, const char *name, const char *why)
{
    b->misses++;
    fprintf(stderr, "mobula-bench: %s not measured: %s\n", name, why);
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

static int run(char *const argv[])
{
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO); /* stdout is for rows */
    int failed = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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

bool bench_cluster_start(struct bench *b, const char *const *extra_flags)
{
    char program[600];
    char *argv[32];
    int n = 0;
    snprintf(b->directory, sizeof b->directory, "/tmp/mobula-bench.XXXXXX");
    if (!mkdtemp(b->directory))
        return false;
    snprintf(program, sizeof program, "%s/mobula", b->options.binaries);
    argv[n++] = program;
    argv[n++] = (char *)"up";
    argv[n++] = (char *)"--detach";
    argv[n++] = (char *)"--dir";
    argv[n++] = b->directory;
    for (int i = 0; extra_flags && extra_flags[i] && n < 31; i++)
        argv[n++] = (char *)(uintptr_t)extra_flags[i];
    argv[n] = NULL;
    if (run(argv) != 0) {
        fprintf(stderr, "mobula-bench: the cluster did not start; its logs are in %s/logs\n", b->directory);
        return false;
    }
    b->running = true;
    return read_line(b->directory, "gateway.addr", b->address, sizeof b->address) &&
        read_line(b->directory, "token", b->token, sizeof b->token);
}

void bench_cluster_stop(struct bench *b)
{
    char program[600];
    if (!b->running)
        return;
    snprintf(program, sizeof program, "%s/mobula", b->options.binaries);
    char *down[] = {program, (char *)"down", (char *)"--dir", b->directory, NULL};
    run(down);
    char *remove[] = {(char *)"/bin/rm", (char *)"-rf", b->directory, NULL};
    if (strncmp(b->directory, "/tmp/mobula-bench.", 18) == 0 && !getenv("MOBULA_BENCH_KEEP"))
        run(remove);
    b->running = false;
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
    char path[64], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f)) {
        char *after = strrchr(line, ')');
        if (after)
            sscanf(after + 1, " %*c %d", &parent);
    }
    if (f)
        fclose(f);
    return parent;
}

static bool in_cluster(int pid, const char *directory)
{
    for (int depth = 0; pid > 1 && depth < 6; depth++, pid = parent_of(pid))
        if (pid != getpid() && command_names(pid, directory))
            return true;
    return false;
}

static double process_pss(int pid)
{
    char path[64], line[512];
    double bytes = 0;
    bool segment = false;
    snprintf(path, sizeof path, "/proc/%d/smaps", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to, kb;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2)
            segment = strstr(line, "memfd:") != NULL;
        else if (!segment && sscanf(line, "Pss: %lu kB", &kb) == 1)
            bytes += (double)kb * 1024;
    }
    if (f)
        fclose(f);
    return bytes;
}

static double process_cpu(int pid)
{
    char path[64], line[1024];
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f)) {
        char *after = strrchr(line, ')');
        if (after)
            sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    }
    if (f)
        fclose(f);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double sum_over_cluster(struct bench *b, double (*of)(int pid))
{
    double total = 0;
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    while (proc && (entry = readdir(proc))) {
        int pid = atoi(entry->d_name);
        if (pid > 1 && in_cluster(pid, b->directory))
            total += of(pid);
    }
    if (proc)
        closedir(proc);
    return total;
}

double bench_memory(struct bench *b, bool with_this_process)
{
    return sum_over_cluster(b, process_pss) + (with_this_process ? process_pss(getpid()) : 0);
}

double bench_cpu_seconds(struct bench *b)
{
    return sum_over_cluster(b, process_cpu);
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

/* ---- reading back ---- */

void bench_sample_offer(struct bench_samples *s, struct mob_future *future, int64_t argument, int64_t result)
{
    int slot = s->count;
    s->seen++;
    if (s->count == BENCH_SAMPLES) {
        s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
        uint64_t at = (s->random >> 33) % s->seen;
        if (at >= BENCH_SAMPLES)
            return;
        slot = (int)at;
    } else {
        s->count++;
    }
    mob_future_task_id(future, s->items[slot].task);
    mob_future_id(future, s->items[slot].object);
    s->items[slot].argument = argument;
    s->items[slot].result = result;
}

static json_t *get_json(struct bench *b, const char *path)
{
    static struct http_response response;
    struct http_request request = {.address = b->address,
        .token = b->token,
        .method = "GET",
        .path = path,
        .timeout_ns = 10ll * 1000000000};
    json_t *out = NULL;
    if (http_exchange(&request, &response) == MOB_OK && response.status == 200 && response.body)
        out = json_loadb(response.body, response.body_length, 0, NULL);
    http_response_fini(&response);
    return out;
}

static bool check_one(
    struct bench *b, const struct bench_sample *sample, long long *worker_out, char *why, size_t capacity)
{
    char path[128];
    snprintf(path, sizeof path, "/api/v1/tasks/%s", sample->task);
    json_t *task = get_json(b, path);
    const char *state = task ? json_string_value(json_object_get(task, "state")) : NULL;
    json_t *worker = task ? json_object_get(task, "worker") : NULL;
    *worker_out = worker ? json_integer_value(worker) : -1;
    bool ok = state && (strcmp(state, "FINISHED") == 0 || strcmp(state, "finished") == 0);
    if (!ok)
        snprintf(why, capacity, "task %s reads as %s", sample->task, state ? state : "nothing");
    json_decref(task);
    if (!ok)
        return false;
    snprintf(path, sizeof path, "/api/v1/objects/%s", sample->object);
    json_t *object = get_json(b, path);
    json_t *value = object ? json_object_get(object, "value") : NULL;
    ok = value && json_is_integer(value) && json_integer_value(value) == sample->result;
    if (!ok) {
        char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
        snprintf(why, capacity, "object %s is %s, expected %lld", sample->object, text ? text : "absent",
            (long long)sample->result);
        free(text);
    }
    json_decref(object);
    return ok;
}

bool bench_samples_check(struct bench *b, const char *row, struct bench_samples *s, int workers_min)
{
    long long workers[64];
    int worker_count = 0, limit = b->options.quick && s->count > 50 ? 50 : s->count;
    char why[1024];
    for (int i = 0; i < limit; i++) {
        long long worker;
        if (!check_one(b, &s->items[i], &worker, why, sizeof why)) {
            bench_miss(b, row, why);
            return false;
        }
        int known = 0;
        while (known < worker_count && workers[known] != worker)
            known++;
        if (known == worker_count && worker_count < 64)
            workers[worker_count++] = worker;
    }
    if (worker_count < workers_min) {
        snprintf(why, sizeof why, "%d worker processes took part, expected at least %d", worker_count,
            workers_min);
        bench_miss(b, row, why);
        return false;
    }
    return true;
}
