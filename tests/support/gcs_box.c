#include "tests/support/gcs_box.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "common/wire/block.h"
#include "common/wire/completion.h"
#include "tests/support/scratch.h"

#define READY_NS (30 * MOB_SEC)
#define ANSWER_NS (40 * MOB_SEC)

static void die(const char *what, const char *of)
{
    fprintf(stderr, "gcs_box: %s: %s: %s\n", what, of, strerror(errno));
    abort();
}

static const char *binary(char *out, size_t capacity, const char *name)
{
    const char *directory = getenv("MOBULA_BIN_DIR");
    snprintf(out, capacity, "%s/%s", directory == NULL ? "build/release/bin" : directory, name);
    return out;
}

static pid_t spawn(const struct gcs_box *box, const char *name, char *const argv[])
{
    char log[128];
    snprintf(log, sizeof log, "%s/%s.log", box->directory, name);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        die("fork", name);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        _exit(126);
    dup2(fd, 1);
    dup2(fd, 2);
    setenv("MOBULA_FAILPOINTS", box->failpoints == NULL ? "" : box->failpoints, 1);
    execvp(argv[0], argv);
    _exit(127);
}

const uint8_t gcs_box_secret[32] = "thirty-two bytes for all tests..";

static void write_file(const char *directory, const char *name, const void *bytes, size_t length)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, length) != (ssize_t)length)
        die("identity", path);
    close(fd);
}

void gcs_box_write_identity(const char *directory)
{
    static const struct mob_cluster_id zero;
    write_file(directory, "cluster-id", &zero, sizeof zero);
    write_file(directory, "cluster-secret", gcs_box_secret, sizeof gcs_box_secret);
}

void gcs_box_init(struct gcs_box *box, const char *durability)
{
    *box = (struct gcs_box){.durability = durability == NULL ? "everysec" : durability};
    scratch_make(box->directory, sizeof box->directory, "mob-gcs");
    snprintf(box->socket, sizeof box->socket, "%s/gcs.sock", box->directory);
    gcs_box_configure(box);
}

void gcs_box_configure(struct gcs_box *box)
{
    gcs_box_write_identity(box->directory);
    char program[512];
    char *argv[] = {(char *)(uintptr_t)binary(program, sizeof program, "mobula-gcs"), "--dir", box->directory,
        "--redis-conf", box->directory, NULL};
    pid_t pid = spawn(box, "conf", argv);
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0)
        die("configuration", program);
}

void gcs_box_spawn_redis(struct gcs_box *box)
{
    char conf[128];
    snprintf(conf, sizeof conf, "%s/redis.conf", box->directory);
    char *argv[] = {"redis-server", conf, NULL};
    box->redis = spawn(box, "redis", argv);
}

void gcs_box_spawn_gcs(struct gcs_box *box)
{
    char path[512], secret[96];
    snprintf(secret, sizeof secret, "%s/cluster-secret", box->directory);
    const char *program = box->program != NULL ? box->program : binary(path, sizeof path, "mobula-gcs");
    char *argv[12 + GCS_BOX_ARGS_MAX] = {(char *)(uintptr_t)program, "--dir", box->directory, "--socket",
        box->socket, "--redis-dir", box->directory, "--secret-file", secret, "--gcs-durability",
        (char *)(uintptr_t)box->durability};
    for (int i = 0; i < GCS_BOX_ARGS_MAX && box->args[i] != NULL; i++)
        argv[11 + i] = (char *)(uintptr_t)box->args[i];
    box->gcs = spawn(box, "gcs", argv);
}

static bool accepts(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return good;
}

static void wait_ready(const char *path)
{
    for (int64_t deadline = mob_now() + READY_NS; !accepts(path); poll(NULL, 0, 2))
        if (mob_now() > deadline)
            die("not ready", path);
}

void gcs_box_start_redis(struct gcs_box *box)
{
    char path[96];
    snprintf(path, sizeof path, "%s/redis.sock", box->directory);
    gcs_box_spawn_redis(box);
    wait_ready(path);
}

void gcs_box_start_gcs(struct gcs_box *box)
{
    unlink(box->socket);
    gcs_box_spawn_gcs(box);
    wait_ready(box->socket);
}

void gcs_box_start(struct gcs_box *box)
{
    gcs_box_start_redis(box);
    gcs_box_start_gcs(box);
}

int gcs_box_end(pid_t *pid, int signal)
{
    int status = 0;
    if (*pid <= 0)
        return 0;
    kill(*pid, signal);
    if (waitpid(*pid, &status, 0) != *pid)
        die("waitpid", "");
    *pid = 0;
    return status;
}

bool gcs_box_ended(pid_t *pid)
{
    if (*pid > 0 && waitpid(*pid, NULL, WNOHANG) == *pid)
        *pid = 0;
    return *pid <= 0;
}

void gcs_box_fini(struct gcs_box *box)
{
    gcs_box_end(&box->gcs, SIGKILL);
    gcs_box_end(&box->redis, SIGKILL);
    if (getenv("MOBULA_KEEP") == NULL)
        (void)scratch_remove(box->directory); /* what a process writes while it is killed may stay */
}

static void newest_file(const struct gcs_box *box, char path[160], struct stat *out)
{
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/appendonlydir/*.incr.aof", box->directory);
    if (glob(pattern, 0, NULL, &found) != 0)
        die("no file", pattern);
    snprintf(path, 160, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    if (stat(path, out) != 0)
        die("stat", path);
}

uint64_t gcs_box_file_bytes(const struct gcs_box *box)
{
    char path[160];
    struct stat st;
    newest_file(box, path, &st);
    return (uint64_t)st.st_size;
}

/* Past one command of the protocol's ("*N", then N times "$BYTES" and the bytes); false: it does not end
 * here.
 */
static bool skip_command(FILE *file)
{
    unsigned arguments;
    unsigned long bytes;
    if (fscanf(file, "*%u\r\n", &arguments) != 1)
        return false;
    for (; arguments > 0; arguments--)
        if (fscanf(file, "$%lu", &bytes) != 1 || fseek(file, 2 + (long)bytes + 2, SEEK_CUR) != 0)
            return false;
    return true;
}

uint64_t gcs_box_largest_command(const struct gcs_box *box)
{
    char path[160];
    struct stat st;
    newest_file(box, path, &st);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        die("open", path);
    long largest = 0;
    for (long begin = 0; skip_command(file) && ftell(file) <= st.st_size; begin = ftell(file))
        if (ftell(file) - begin > largest)
            largest = ftell(file) - begin;
    fclose(file);
    return (uint64_t)largest;
}

uint64_t gcs_box_cut_file(const struct gcs_box *box, uint64_t bytes)
{
    char path[160];
    struct stat st;
    newest_file(box, path, &st);
    off_t left = st.st_size > (off_t)bytes ? st.st_size - (off_t)bytes : 0;
    if (truncate(path, left) != 0)
        die("truncate", path);
    return (uint64_t)(st.st_size - left);
}

struct mob_gcs *gcs_box_client(struct gcs_box *box)
{
    struct mob_gcs *gcs;
    struct mob_gcs_options options = {.socket_path = box->socket, .secret = gcs_box_secret};
    if (mob_gcs_create(&options, &gcs) != MOB_OK)
        die("client", box->socket);
    return gcs;
}

enum mob_status gcs_box_member(const char *socket, uint32_t shard, struct mob_member_link **link_out)
{
    struct mob_member_options options = {.path = socket, .shard = shard, .secret = gcs_box_secret};
    return mob_member_open(&options, link_out);
}

void gcs_box_step(struct mob_gcs *gcs, int wait_ms)
{
    mob_gcs_step(gcs, mob_now());
    struct pollfd p = {.fd = mob_gcs_fd(gcs), .events = POLLIN};
    poll(&p, 1, wait_ms);
}

struct mob_gcs_stats gcs_box_stats(struct mob_gcs *gcs)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    if (mob_gcs_stats(gcs, mob_gcs_sync_done, &sync) != MOB_OK ||
        mob_gcs_sync_wait(gcs, &sync, mob_now() + ANSWER_NS, &result) != MOB_OK)
        die("figures", "of a control store");
    struct mob_gcs_stats stats = *mob_gcs_result_answer(result)->stats;
    mob_gcs_result_destroy(result);
    return stats;
}

int64_t gcs_box_cpu_ns(pid_t pid)
{
    struct mob_process process;
    (void)mob_process_look(pid, &process);
    return process.cpu_ns;
}

/* ---- blocks ---- */

struct mob_job_id gcs_block_job(uint16_t job)
{
    return (struct mob_job_id){{{(uint8_t)job, 'j', 'o', 'b', (uint8_t)(job >> 8)}}};
}

struct mob_stream gcs_block_stream(uint16_t job, uint8_t stream)
{
    return (struct mob_stream){{(uint8_t)job, stream, 's', 't', 'r', 'e', 'a', 'm', (uint8_t)(job >> 8)}};
}

struct mob_function_id gcs_block_function(uint8_t function)
{
    return (struct mob_function_id){{function, (uint8_t)(function * 7), 'f', 'n'}};
}

static void add_spec(
    struct mob_block_encoder *e, const struct gcs_block_spec *spec, uint32_t index, int64_t now)
{
    _Alignas(8) uint8_t buffer[1024];
    static const uint8_t zeros[512];
    struct mob_tail_builder tail;
    mob_tail_begin(&tail, buffer, sizeof buffer);
    int64_t argument = index;
    if (spec->argument_bytes > 0)
        mob_tail_add_value(&tail, MOB_TYPE_BYTES, zeros, spec->argument_bytes);
    else
        mob_tail_add_value(&tail, MOB_TYPE_I64, &argument, sizeof argument);
    uint32_t bytes = mob_tail_end(&tail);
    struct mob_spec_head head = {.version = MOB_SPEC_VERSION,
        .kind = MOB_KIND_TASK,
        .runtime = MOB_RUNTIME_C,
        .num_returns = 1,
        .task = {gcs_block_stream(spec->job, spec->stream), index},
        .job = gcs_block_job(spec->job),
        .function = gcs_block_function(spec->function),
        .max_retries = 3,
        .cpu = 10000,
        .attempt = 1};
    MOB_ASSERT(mob_block_add_spec(e, &head, buffer, bytes, now + (int64_t)index * 350) == MOB_OK);
}

static void add_final(
    struct mob_block_encoder *e, const struct gcs_block_spec *spec, uint32_t index, int64_t now)
{
    uint8_t body[256];
    int64_t value = index;
    bool fails = index - spec->first_index < spec->failed;
    struct mob_return_view ret = {
        .type = MOB_TYPE_I64, .size = sizeof value, .payload = (const uint8_t *)&value};
    uint32_t bytes = mob_return_encode(body, 0, sizeof body, &ret);
    int64_t t = now + (int64_t)index * 350;
    struct mob_completion_head head = {.version = MOB_COMPLETION_VERSION,
        .flags = MOB_COMPLETION_FINAL,
        .status = fails ? MOB_TASK_FAILED : MOB_OK,
        .return_count = 1,
        .task = {gcs_block_stream(spec->job, spec->stream), index},
        .attempt = 1,
        .worker = 1000 + (index / 64) % 2,
        .submitted_ns = t,
        .ready_ns = t + 1000,
        .dispatched_ns = t + 5000 + index % 100,
        .started_ns = t + 9000 + index % 300,
        .finished_ns = t + 9200 + index % 500,
        .cpu_ns = 150 + index % 50,
        .body_bytes = bytes};
    MOB_ASSERT(mob_block_add_completion(e, &head, body) == MOB_OK);
}

uint32_t gcs_block_make(const struct gcs_block_spec *spec, uint8_t *out, uint32_t capacity)
{
    static struct mob_block_encoder *e;
    static uint8_t whole[MOB_BLOCK_BYTES_MAX];
    if (e == NULL)
        e = mob_block_encoder_create();
    int64_t now = spec->mono_ns == 0 ? mob_now() : spec->mono_ns,
            wall = spec->wall_ns == 0 ? mob_wall_now() : spec->wall_ns;
    struct mob_block_header header = {.version = MOB_BLOCK_VERSION,
        .incarnation = spec->incarnation,
        .sequence = spec->sequence,
        .job = gcs_block_job(spec->job),
        .ns = "default",
        .wall_ns = wall,
        .mono_ns = now};
    mob_block_begin(e, &header);
    for (uint32_t i = 0; i < spec->tasks && spec->specs; i++)
        add_spec(e, spec, spec->first_index + i, now);
    for (uint32_t i = 0; i < spec->tasks && spec->finals; i++)
        add_final(e, spec, spec->first_index + i, now);
    uint32_t length = mob_block_end(e, whole);
    MOB_ASSERT(length <= capacity);
    memcpy(out, whole, length);
    return length;
}

struct gcs_block_spec gcs_block_nth(uint64_t incarnation, uint64_t n, uint32_t tasks)
{
    return (struct gcs_block_spec){.incarnation = incarnation,
        .sequence = n,
        .job = 1,
        .stream = 1,
        .first_index = (uint32_t)(n * tasks),
        .tasks = tasks,
        .specs = true,
        .finals = n % 3 != 0};
}

struct mob_gcs_block *gcs_block_new(const struct gcs_block_spec *spec)
{
    static uint8_t bytes[MOB_BLOCK_BYTES_MAX];
    uint32_t length = gcs_block_make(spec, bytes, sizeof bytes);
    struct mob_gcs_block *block = malloc(sizeof *block + length);
    MOB_ASSERT(block != NULL);
    memcpy(block + 1, bytes, length);
    *block = (struct mob_gcs_block){.bytes = block + 1, .length = length};
    return block;
}

void gcs_block_released(void *arg, struct mob_gcs_block *block)
{
    (void)arg;
    free(block);
}
