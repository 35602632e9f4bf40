#include "bench/gcs_putter.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/block_load.h"
#include "common/base/clock.h"
#include "common/base/log.h"

#define KEY_BYTES 25

static bool open_chain(
    struct chain_box *box, uint32_t members, uint32_t shard, struct fault_proxy *proxy, bool realtime)
{
    setenv("MOBULA_GCS_HARD_BYTES", "8000000000", 1);
    setenv("MOBULA_GCS_SOFT_BYTES", "8000000000", 1);
    chain_box_init(box, members, members, BENCH_DURABILITY);
    box->lease_ms = realtime ? 10 : 90;
    box->suspicion_ms = realtime ? 12 : 100;
    box->shard = shard;
    if (proxy != NULL)
        chain_box_proxied(box, proxy);
    chain_box_start(box);
    return chain_box_wait_length(box, members, mob_now() + GCS_START_NS);
}

bool gcs_chain_open(struct chain_box *box, uint32_t members)
{
    return open_chain(box, members, 0, NULL, true);
}

bool gcs_chain_open_proxied(struct chain_box *box, uint32_t members, struct fault_proxy *proxy, bool realtime)
{
    return open_chain(box, members, 0, proxy, realtime);
}

bool gcs_chain_open_shard(struct chain_box *box, uint32_t members, uint32_t shard)
{
    return open_chain(box, members, shard, NULL, true);
}

static void on_put(void *arg, const struct mob_gcs_answer *a)
{
    struct gcs_putter *p = arg;
    p->answered = true;
    if (a->status != MOB_OK)
        fprintf(stderr, "mobula-bench: a put was answered with %s\n", mob_status_code(a->status));
    p->failed |= a->status != MOB_OK;
    p->version = a->version;
}

static void begin(struct gcs_putter *p, uint64_t number, uint64_t if_version)
{
    static uint8_t value[GCS_PUTTER_VALUE_BYTES];
    char key[KEY_BYTES + 1];
    snprintf(key, sizeof key, "key-%020llu", (unsigned long long)number % 20000);
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = key,
        .key_length = KEY_BYTES,
        .value = value,
        .value_length = GCS_PUTTER_VALUE_BYTES,
        .if_version = if_version};
    p->answered = false;
    if (mob_gcs_put(p->gcs, &put, on_put, p) != MOB_OK)
        p->failed = true;
}

void gcs_putter_begin(struct gcs_putter *p, uint64_t number)
{
    begin(p, number, MOB_GCS_ANY_VERSION);
}

static void finish(struct gcs_putter *p)
{
    if (!p->failed && mob_gcs_run_until(p->gcs, &p->answered, MOB_FOREVER_NS) != MOB_OK)
        p->failed = true;
}

void gcs_putter_put(struct gcs_putter *p, uint64_t number)
{
    gcs_putter_begin(p, number);
    finish(p);
}

void gcs_putter_put_next(struct gcs_putter *p, uint64_t number, uint64_t if_version)
{
    begin(p, number, if_version);
    finish(p);
}

/* Its sockets are in `epoll_fd`, with `number` as their data. */
static struct mob_gcs *client_of(const char *clients, int epoll_fd, uint32_t number)
{
    struct mob_gcs *gcs = NULL;
    struct mob_gcs_options options = {
        .socket_path = clients, .secret = gcs_box_secret, .watch_fd = epoll_fd, .watch_data = number};
    MOB_ASSERT(mob_gcs_create(&options, &gcs) == MOB_OK);
    return gcs;
}

double gcs_putters_rate(const char *clients, double seconds, bool *failed_out)
{
    static struct gcs_putter putters[GCS_CONNECTIONS];
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    uint64_t number = 0, done = 0;
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++) {
        putters[i] = (struct gcs_putter){.gcs = client_of(clients, epoll_fd, i)};
        gcs_putter_put(&putters[i], number++);
    }
    int64_t begin = bench_now(), end = begin + (int64_t)(seconds * 1e9);
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++) {
        gcs_putter_begin(&putters[i], number++);
        mob_gcs_step(putters[i].gcs, mob_now());
    }
    while (bench_now() < end) {
        struct epoll_event events[GCS_CONNECTIONS];
        int n = epoll_wait(epoll_fd, events, GCS_CONNECTIONS, 100);
        for (int i = 0; i < n; i++) {
            struct gcs_putter *p = &putters[events[i].data.u64];
            mob_gcs_step(p->gcs, mob_now());
            if (!p->answered)
                continue;
            done++;
            gcs_putter_begin(p, number++);
            mob_gcs_send(p->gcs);
        }
    }
    double rate = (double)done / ((double)(bench_now() - begin) / 1e9);
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++) {
        *failed_out |= putters[i].failed;
        mob_gcs_destroy(putters[i].gcs);
    }
    close(epoll_fd);
    return rate;
}

void gcs_chain_cpu_now(struct chain_box *box, struct gcs_chain_cpu *out)
{
    int head = chain_box_place(box, false), tail = chain_box_place(box, true);
    if (head < 0 || tail < 0)
        return;
    *out = (struct gcs_chain_cpu){.client = (double)mob_thread_cpu_now(),
        .head = (double)gcs_box_cpu_ns(box->member[head].gcs),
        .head_store = (double)gcs_box_cpu_ns(box->member[head].redis),
        .tail = (double)gcs_box_cpu_ns(box->member[tail].gcs),
        .tail_store = (double)gcs_box_cpu_ns(box->member[tail].redis)};
}

struct gcs_chain_cpu gcs_chain_cpu_each(
    const struct gcs_chain_cpu *before, const struct gcs_chain_cpu *after, double puts)
{
    if (puts <= 0)
        return (struct gcs_chain_cpu){0};
    return (struct gcs_chain_cpu){.client = (after->client - before->client) / puts,
        .head = (after->head - before->head) / puts,
        .head_store = (after->head_store - before->head_store) / puts,
        .tail = (after->tail - before->tail) / puts,
        .tail_store = (after->tail_store - before->tail_store) / puts};
}

void gcs_chain_fill(struct chain_box *box, uint64_t bytes)
{
    struct block_load load;
    block_load_open(&load, chain_box_client(box), 32, 400);
    while (load.acked * load.length < bytes)
        block_load_run(&load, 0.02);
    block_load_wait(&load, true);
    mob_gcs_destroy(load.gcs);
    block_load_fini(&load);
}
