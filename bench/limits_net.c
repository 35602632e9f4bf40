/* Suite limits, continued: loopback TCP, and a private redis-server with the append-only file that the
 * cluster's has. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/harness.h"

#define VALUE_BYTES 512
#define BLOCK_TASKS 64
#define SPEC_BYTES 200

/* ---- TCP ---- */

static int connected_pair(int *peer_out)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = -1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
        (fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        *peer_out = accept(listener, NULL, NULL);
    if (listener >= 0)
        close(listener);
    return fd;
}

void bench_limits_tcp(struct bench *b)
{
    enum { CHUNK = 1 << 18 };
    const int64_t bytes = b->options.quick ? 100000000 : 2000000000;
    static char chunk[CHUNK];
    int peer = -1, fd = connected_pair(&peer);
    if (fd < 0 || peer < 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        for (int64_t sent = 0; sent < bytes;) {
            ssize_t n = write(peer, chunk, CHUNK);
            if (n <= 0)
                break;
            sent += n;
        }
        _exit(0);
    }
    close(peer);
    int64_t received = 0, begin = bench_now();
    for (ssize_t n; (n = read(fd, chunk, CHUNK)) > 0;)
        received += n;
    double seconds = (double)(bench_now() - begin) / 1e9;
    close(fd);
    waitpid(child, NULL, 0);
    if (received < bytes)
        return;
    b->tcp_gbs = (double)received / seconds / 1e9;
    bench_row(b,
        &(struct bench_row){
            .name = "limit_tcp_stream", .value = b->tcp_gbs, .unit = "GB/s", .n = (double)received});
}

/* ---- a small request and its answer ---- */

enum { RPC_BYTES = 100 };

static bool send_all(int fd, const char *bytes)
{
    return write(fd, bytes, RPC_BYTES) == RPC_BYTES;
}

static bool receive_all(int fd, char *bytes)
{
    return recv(fd, bytes, RPC_BYTES, MSG_WAITALL) == RPC_BYTES;
}

/* Takes both ends. */
static void small_rpc(struct bench *b, const char *row, int fd, int peer)
{
    enum { N = 2000 };
    static double us[N];
    char bytes[RPC_BYTES] = {0};
    int done = 0;
    pid_t child = fork();
    if (child == 0) {
        close(fd);
        while (receive_all(peer, bytes) && send_all(peer, bytes))
            continue;
        _exit(0);
    }
    close(peer);
    for (; child > 0 && done < N; done++) {
        int64_t begin = bench_now();
        if (!send_all(fd, bytes) || !receive_all(fd, bytes))
            break;
        us[done] = (double)(bench_now() - begin) / 1e3;
    }
    close(fd);
    if (child > 0)
        waitpid(child, NULL, 0);
    if (done < N) {
        bench_miss(b, row, "the other end went away");
        return;
    }
    double p50 = bench_percentile(us, N, 50);
    bench_row(b,
        &(struct bench_row){.name = row,
            .value = p50,
            .unit = "us",
            .n = N,
            .p50_us = p50,
            .p99_us = bench_percentile(us, N, 99)});
}

void bench_limits_rpc(struct bench *b)
{
    int ends[2], peer = -1, fd = connected_pair(&peer);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0)
        small_rpc(b, "limit_rpc_unix", ends[0], ends[1]);
    if (fd >= 0 && peer >= 0)
        small_rpc(b, "limit_rpc_tcp", fd, peer);
}

/* ---- Redis ---- */

static double used_memory(redisContext *redis)
{
    redisReply *reply = redisCommand(redis, "INFO memory");
    const char *at = reply && reply->str ? strstr(reply->str, "used_memory:") : NULL;
    double bytes = at ? atof(at + 12) : 0;
    freeReplyObject(reply);
    return bytes;
}

static bool set_ok(redisReply *reply)
{
    bool ok = reply && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return ok;
}

static void one_at_a_time(struct bench *b, redisContext *redis)
{
    enum { N_MAX = 5000 };
    static double us[N_MAX];
    static const char value[VALUE_BYTES] = {'v'};
    int n = b->options.quick ? 500 : N_MAX;
    for (int i = 0; i < n; i++) {
        int64_t begin = bench_now();
        if (!set_ok(redisCommand(redis, "SET one:%d %b", i, value, (size_t)VALUE_BYTES)))
            return;
        us[i] = (double)(bench_now() - begin) / 1e3;
    }
    b->redis_set_us = bench_percentile(us, n, 50);
    bench_row(b,
        &(struct bench_row){.name = "limit_redis_set",
            .value = b->redis_set_us,
            .unit = "us",
            .n = n,
            .p50_us = b->redis_set_us,
            .p99_us = bench_percentile(us, n, 99)});
}

/* SETs a second with `window` unanswered; 0 on failure. */
static double pipelined(
    redisContext *redis, const char *prefix, const char *value, size_t bytes, int n, int window)
{
    void *reply;
    int64_t begin = bench_now();
    for (int sent = 0, got = 0; got < n; got++) {
        for (; sent < n && sent - got < window; sent++)
            redisAppendCommand(redis, "SET %s:%d %b", prefix, sent, value, bytes);
        if (redisGetReply(redis, &reply) != REDIS_OK || !set_ok(reply))
            return 0;
    }
    return n / ((double)(bench_now() - begin) / 1e9);
}

static void measure_redis(struct bench *b, redisContext *redis)
{
    static char block[BLOCK_TASKS * SPEC_BYTES];
    int n = b->options.quick ? 20000 : 400000, blocks = b->options.quick ? 500 : 10000;
    one_at_a_time(b, redis);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)(i * 31);
    b->redis_set_rate = pipelined(redis, "many", block, VALUE_BYTES, n, 128);
    bench_row(b,
        &(struct bench_row){
            .name = "limit_redis_pipeline", .value = b->redis_set_rate, .unit = "1/s", .n = n});
    double before = used_memory(redis);
    b->redis_block_tasks = BLOCK_TASKS * pipelined(redis, "block", block, sizeof block, blocks, 32);
    b->redis_block_bytes = (used_memory(redis) - before) / ((double)blocks * BLOCK_TASKS);
    bench_row(b,
        &(struct bench_row){.name = "limit_redis_specs",
            .value = b->redis_block_tasks,
            .unit = "1/s",
            .n = (double)blocks * BLOCK_TASKS});
    bench_row(b,
        &(struct bench_row){.name = "limit_redis_spec_bytes",
            .value = b->redis_block_bytes,
            .unit = "B",
            .n = (double)blocks * BLOCK_TASKS});
}

static redisContext *connect_redis(const char *socket_path)
{
    for (int i = 0; i < 1000; i++) {
        redisContext *redis = redisConnectUnix(socket_path);
        if (redis && !redis->err) {
            redisReply *pong = redisCommand(redis, "PING");
            bool ok = pong && pong->type == REDIS_REPLY_STATUS;
            freeReplyObject(pong);
            if (ok)
                return redis;
        }
        if (redis)
            redisFree(redis);
        usleep(2000);
    }
    return NULL;
}

static void remove_directory(char *directory)
{
    char *argv[] = {(char *)"/bin/rm", (char *)"-rf", directory, NULL};
    bench_run(argv, NULL, 0);
}

/* It ends when the bench does, however that ends; -1: it could not be started. */
static pid_t start_with_us(char *const argv[])
{
    pid_t bench = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nowhere = open("/dev/null", O_WRONLY);
    if (getppid() == bench && nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0)
        execv(argv[0], argv);
    _exit(127);
}

void bench_limits_redis(struct bench *b)
{
    char directory[] = "/tmp/mobula-bench-redis.XXXXXX", program[512], socket_path[64];
    if (!bench_find_program("redis-server", program, sizeof program) || !mkdtemp(directory)) {
        bench_miss(b, "limit_redis_set", "redis-server is not installed");
        return;
    }
    snprintf(socket_path, sizeof socket_path, "%s/socket", directory);
    char *argv[] = {program, (char *)"--port", (char *)"0", (char *)"--unixsocket", socket_path,
        (char *)"--unixsocketperm", (char *)"600", (char *)"--save", (char *)"", (char *)"--appendonly",
        (char *)"yes", (char *)"--appendfsync", (char *)BENCH_DURABILITY,
        (char *)"--auto-aof-rewrite-percentage", (char *)"0", (char *)"--dir", directory,
        (char *)"--loglevel", (char *)"warning", NULL};
    bench_remove_at_stop(directory);
    int64_t begin = bench_now();
    pid_t pid = start_with_us(argv);
    redisContext *redis = pid < 0 ? NULL : connect_redis(socket_path);
    if (redis) {
        b->redis_start_s = (double)(bench_now() - begin) / 1e9;
        bench_row(b,
            &(struct bench_row){.name = "limit_redis_start", .value = b->redis_start_s, .unit = "s", .n = 1});
        b->redis_idle_mb = bench_process_pss(pid) / 1e6;
        bench_row(b,
            &(struct bench_row){.name = "limit_redis_idle", .value = b->redis_idle_mb, .unit = "MB", .n = 1});
        measure_redis(b, redis);
        redisFree(redis);
    } else {
        bench_miss(b, "limit_redis_set", "the private redis-server does not answer");
    }
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    remove_directory(directory);
}
