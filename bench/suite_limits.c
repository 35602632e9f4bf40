/* Suite limits: the primitives that everything is built on, on this machine, in this run (LIMITS). */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/harness.h"

enum { RING_SLOTS = 4096, ROUNDS = 5 };

static void clock_read(struct bench *b)
{
    double ns[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        const int n = 1000000;
        int64_t begin = bench_now();
        for (int i = 0; i < n; i++)
            (void)bench_now();
        ns[r] = (double)(bench_now() - begin) / n;
    }
    b->clock_ns = bench_median(ns, ROUNDS);
    bench_row(b, &(struct bench_row){.name = "limit_clock", .value = b->clock_ns, .unit = "ns", .n = ROUNDS});
}

static void locked_add(struct bench *b)
{
    double ns[ROUNDS];
    static _Atomic uint64_t counter;
    for (int r = 0; r < ROUNDS; r++) {
        const int n = 5000000;
        int64_t begin = bench_now();
        for (int i = 0; i < n; i++)
            atomic_fetch_add(&counter, 1);
        ns[r] = (double)(bench_now() - begin) / n;
    }
    b->locked_add_ns = bench_median(ns, ROUNDS);
    bench_row(b,
        &(struct bench_row){
            .name = "limit_locked_add", .value = b->locked_add_ns, .unit = "ns", .n = ROUNDS});
}

/* GB/s of one memcpy between two distinct warm buffers. */
static double copy_rate(size_t bytes, int rounds)
{
    double rates[64];
    char *from = aligned_alloc(4096, bytes), *to = aligned_alloc(4096, bytes);
    if (!from || !to)
        return 0;
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int r = 0; r < rounds; r++) {
        int64_t begin = bench_now();
        memcpy(to, from, bytes);
        __asm__ volatile("" ::"r"(to) : "memory");
        rates[r] = (double)bytes / (double)(bench_now() - begin);
    }
    free(from);
    free(to);
    return bench_median(rates, rounds);
}

static void copies(struct bench *b)
{
    b->memcpy_1m_gbs = copy_rate(1 << 20, 51);
    b->memcpy_100m_gbs = copy_rate(100000000, b->options.quick ? 3 : 11);
    bench_row(b,
        &(struct bench_row){.name = "limit_memcpy_1m", .value = b->memcpy_1m_gbs, .unit = "GB/s", .n = 51});
    bench_row(b,
        &(struct bench_row){
            .name = "limit_memcpy_100m", .value = b->memcpy_100m_gbs, .unit = "GB/s", .n = 11});
}

/* Single-producer single-consumer ring in shared memory, 64-byte entries, two processes that yield when
 * stuck. */
struct ring {
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) unsigned char slots[RING_SLOTS][64];
};

static void produce(struct ring *ring, uint64_t count)
{
    unsigned char entry[64] = {0};
    for (uint64_t i = 0; i < count; i++) {
        while (i - atomic_load_explicit(&ring->head, memory_order_acquire) >= RING_SLOTS)
            sched_yield();
        memcpy(entry, &i, sizeof i);
        memcpy(ring->slots[i % RING_SLOTS], entry, sizeof entry);
        atomic_store_explicit(&ring->tail, i + 1, memory_order_release);
    }
}

static void consume(struct ring *ring, uint64_t count, uint64_t *sum)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t v;
        while (atomic_load_explicit(&ring->tail, memory_order_acquire) <= i)
            sched_yield();
        memcpy(&v, ring->slots[i % RING_SLOTS], sizeof v);
        *sum += v;
        atomic_store_explicit(&ring->head, i + 1, memory_order_release);
    }
}

static void ring_rate(struct bench *b)
{
    const uint64_t count = b->options.quick ? 2000000 : 20000000;
    struct ring *ring = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED)
        return;
    memset(ring, 0, sizeof *ring);
    pid_t child = fork();
    if (child == 0) {
        produce(ring, count);
        _exit(0);
    }
    uint64_t sum = 0;
    int64_t begin = bench_now();
    consume(ring, count, &sum);
    double seconds = (double)(bench_now() - begin) / 1e9;
    waitpid(child, NULL, 0);
    munmap(ring, sizeof *ring);
    if (sum != count * (count - 1) / 2) {
        bench_miss(b, "limit_ring", "the sum is wrong");
        return;
    }
    b->ring_msgs = (double)count / seconds;
    bench_row(b,
        &(struct bench_row){.name = "limit_ring", .value = b->ring_msgs, .unit = "1/s", .n = (double)count});
}

/* One byte there and back between two processes over a unix socket: what a wake across processes costs at
 * least. */
static void socket_round_trip(struct bench *b)
{
    int fds[2];
    enum { N = 5000 };
    static double us[N];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(fds[0]);
        while (read(fds[1], &byte, 1) == 1 && write(fds[1], &byte, 1) == 1)
            continue;
        _exit(0);
    }
    close(fds[1]);
    for (int i = 0; i < N; i++) {
        char byte = 'x';
        int64_t begin = bench_now();
        if (write(fds[0], &byte, 1) != 1 || read(fds[0], &byte, 1) != 1)
            break;
        us[i] = (double)(bench_now() - begin) / 1e3;
    }
    close(fds[0]);
    waitpid(child, NULL, 0);
    double p50 = bench_percentile(us, N, 50);
    b->socket_rtt_us = p50;
    bench_row(b,
        &(struct bench_row){.name = "limit_socket_rtt",
            .value = p50,
            .unit = "us",
            .n = N,
            .p50_us = p50,
            .p99_us = bench_percentile(us, N, 99)});
}

/* ---- processes ---- */

static void forks(struct bench *b)
{
    enum { N = 200 };
    double us[N];
    for (int i = 0; i < N; i++) {
        int64_t begin = bench_now();
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0)
            return;
        waitpid(child, NULL, 0);
        us[i] = (double)(bench_now() - begin) / 1e3;
    }
    b->fork_us = bench_percentile(us, N, 50);
    bench_row(b,
        &(struct bench_row){.name = "limit_fork",
            .value = b->fork_us,
            .unit = "us",
            .n = N,
            .p50_us = b->fork_us,
            .p99_us = bench_percentile(us, N, 99)});
}

/* A sleeper of another process, through a futex-like wake: a byte in a pipe each way. */
static void pipe_round_trip(struct bench *b)
{
    enum { N = 5000 };
    static double us[N];
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(there[1]);
        while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
            continue;
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    int done = 0;
    for (; done < N; done++) {
        char byte = 'x';
        int64_t begin = bench_now();
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            break;
        us[done] = (double)(bench_now() - begin) / 1e3;
    }
    close(there[1]);
    close(back[0]);
    waitpid(child, NULL, 0);
    double p50 = bench_percentile(us, done, 50);
    bench_row(b,
        &(struct bench_row){.name = "limit_pipe_rtt",
            .value = p50,
            .unit = "us",
            .n = done,
            .p50_us = p50,
            .p99_us = bench_percentile(us, done, 99)});
}

/* One byte through an eventfd and back out of it, in one thread: what ringing a doorbell costs. */
static void doorbell(struct bench *b)
{
    enum { N = 200000 };
    int fd = eventfd(0, EFD_CLOEXEC);
    uint64_t one = 1;
    if (fd < 0)
        return;
    int64_t begin = bench_now();
    for (int i = 0; i < N; i++)
        if (write(fd, &one, sizeof one) != sizeof one || read(fd, &one, sizeof one) != sizeof one)
            break;
    double ns = (double)(bench_now() - begin) / N;
    close(fd);
    bench_row(b, &(struct bench_row){.name = "limit_eventfd", .value = ns, .unit = "ns", .n = N});
}

/* What the first touch of shared memory costs: the segment is touched ahead for this reason. */
static void first_touch(struct bench *b)
{
    size_t bytes = b->options.quick ? 32u << 20 : 256u << 20;
    int fd = memfd_create("mobula-bench", MFD_CLOEXEC);
    char *at = fd >= 0 && ftruncate(fd, (off_t)bytes) == 0
        ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return;
    int64_t begin = bench_now();
    for (size_t i = 0; i < bytes; i += 4096)
        at[i] = 1;
    double rate = (double)bytes / (double)(bench_now() - begin);
    munmap(at, bytes);
    bench_row(b,
        &(struct bench_row){.name = "limit_first_touch", .value = rate, .unit = "GB/s", .n = (double)bytes});
}

void suite_limits(struct bench *b)
{
    clock_read(b);
    locked_add(b);
    copies(b);
    first_touch(b);
    bench_limits_calls(b);
    bench_limits_wakes(b);
    ring_rate(b);
    doorbell(b);
    pipe_round_trip(b);
    socket_round_trip(b);
    forks(b);
    bench_limits_spawn(b);
    bench_limits_rpc(b);
    bench_limits_tcp(b);
    bench_limits_redis(b);
}
