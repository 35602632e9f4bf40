#include "bench/gcs_putter.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/block_load.h"
#include "common/base/clock.h"
#include "common/base/log.h"

#define KEY_BYTES 25
#define KEYS_A_SHARD 20000u /* so that each shard has as many, however many there are */
#define GENERATOR_LOOK_NS (100 * MOB_US)
#define ANSWER_NS (60 * MOB_SEC) /* a chain that has lost all its members would never answer */

bool gcs_chain_open(struct chain_box *box, const struct gcs_chain *chain)
{
    setenv("MOBULA_GCS_HARD_BYTES", "8000000000", 1);
    setenv("MOBULA_GCS_SOFT_BYTES", "8000000000", 1);
    chain_box_init(box, chain->members, chain->members, BENCH_DURABILITY);
    box->lease_ms = chain->normal ? 90 : 10;
    box->suspicion_ms = chain->normal ? 100 : 12;
    box->shard = chain->shard;
    box->postgres = chain->postgres;
    if (chain->proxy != NULL)
        chain_box_proxied(box, chain->proxy);
    chain_box_start(box);
    return chain_box_wait_length(box, chain->members, mob_now() + GCS_START_NS);
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

/* "key-" and 20 digits. By hand: the generator shares two cores with what it measures. */
static void write_key(char out[KEY_BYTES], uint64_t number)
{
    memset(out, '0', KEY_BYTES);
    memcpy(out, "key-", 4);
    for (size_t at = KEY_BYTES - 1; number > 0; number /= 10)
        out[--at] = (char)('0' + number % 10);
    out[KEY_BYTES - 1] = '\0';
}

static void begin(struct gcs_putter *p, uint64_t number, uint64_t if_version)
{
    static uint8_t value[GCS_PUTTER_VALUE_BYTES];
    char key[KEY_BYTES];
    write_key(key, number % (KEYS_A_SHARD * mob_gcs_shard_count(p->gcs)));
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

static void gcs_putter_begin(struct gcs_putter *p, uint64_t number)
{
    begin(p, number, MOB_GCS_ANY_VERSION);
}

static void finish(struct gcs_putter *p)
{
    if (!p->failed && mob_gcs_run_until(p->gcs, &p->answered, mob_now() + ANSWER_NS) != MOB_OK)
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
static struct mob_gcs *client_of(const struct gcs_putters_options *o, int epoll_fd, uint32_t number)
{
    struct mob_gcs *gcs = NULL;
    struct mob_gcs_options options = {.socket_path = o->clients,
        .shard = o->shard,
        .secret = gcs_box_secret,
        .watch_fd = epoll_fd,
        .watch_data = number};
    MOB_ASSERT(mob_gcs_create(&options, &gcs) == MOB_OK);
    return gcs;
}

/* Since these processes began; leaves `*out` when the chain has no head and tail. */
static void cpu_now(struct chain_box *box, struct gcs_chain_cpu *out)
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

static void cpu_add(
    struct gcs_chain_cpu *sum, const struct gcs_chain_cpu *before, const struct gcs_chain_cpu *after)
{
    sum->client += after->client - before->client;
    sum->head += after->head - before->head;
    sum->head_store += after->head_store - before->head_store;
    sum->tail += after->tail - before->tail;
    sum->tail_store += after->tail_store - before->tail_store;
}

int gcs_generator_wait(int epoll_fd, struct mob_yielder *yielder, struct epoll_event *events_out)
{
    int64_t look_until_ns = mob_now() + GENERATOR_LOOK_NS;
    int n;
    do
        n = epoll_wait(epoll_fd, events_out, GCS_CONNECTIONS, 0);
    while (n == 0 && mob_now() < look_until_ns && mob_yield_seldom_long(yielder));
    return n != 0 ? n : epoll_wait(epoll_fd, events_out, GCS_CONNECTIONS, 100);
}

struct gcs_putters {
    struct gcs_putter each[GCS_CONNECTIONS];
    int epoll_fd;
    uint64_t number; /* of the next put */
    double *us; /* noted there; NULL: not */
    int *count, max;
    struct mob_yielder yielder;
};

static void next_put(struct gcs_putters *all, struct gcs_putter *p, int64_t now_ns)
{
    p->begun_ns = now_ns;
    gcs_putter_begin(p, all->number++);
    mob_gcs_send(p->gcs);
}

void gcs_putters_begin(struct gcs_putters *all)
{
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++)
        next_put(all, &all->each[i], mob_now());
}

uint64_t gcs_putters_turn(struct gcs_putters *all)
{
    struct epoll_event events[GCS_CONNECTIONS];
    uint64_t answers = 0;
    int n = gcs_generator_wait(all->epoll_fd, &all->yielder, events);
    for (int i = 0; i < n; i++) {
        struct gcs_putter *p = &all->each[events[i].data.u64];
        int64_t now_ns = mob_now();
        mob_gcs_step(p->gcs, now_ns);
        if (!p->answered)
            continue;
        if (all->us != NULL && *all->count < all->max)
            all->us[(*all->count)++] = (double)(now_ns - p->begun_ns) / 1e3;
        answers++;
        next_put(all, p, now_ns);
    }
    return answers;
}

void gcs_putters_note(struct gcs_putters *all, double *us, int *count, int max)
{
    all->us = us;
    all->count = count;
    all->max = max;
}

static bool all_answered(struct gcs_putters *all)
{
    int64_t deadline = mob_now() + GCS_START_NS;
    uint32_t answered = 0;
    while (answered < GCS_CONNECTIONS && mob_now() < deadline) {
        struct pollfd any = {.fd = all->epoll_fd, .events = POLLIN};
        poll(&any, 1, 1); /* some wait for a time, not for a socket */
        answered = 0;
        for (uint32_t i = 0; i < GCS_CONNECTIONS; i++) {
            mob_gcs_step(all->each[i].gcs, mob_now());
            answered += all->each[i].answered;
        }
    }
    return answered == GCS_CONNECTIONS;
}

struct gcs_putters *gcs_putters_open(const struct gcs_putters_options *options)
{
    struct gcs_putters *all = calloc(1, sizeof *all);
    MOB_ASSERT(all != NULL);
    all->number = (uint64_t)options->generator * KEYS_A_SHARD;
    all->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++) {
        all->each[i] = (struct gcs_putter){.gcs = client_of(options, all->epoll_fd, i)};
        gcs_putter_begin(&all->each[i], all->number++);
    }
    if (all_answered(all))
        return all;
    gcs_putters_close(all);
    return NULL;
}

double gcs_putters_run(struct gcs_putters *all, double seconds, uint64_t *puts_out)
{
    uint64_t done = 0;
    int64_t begin = bench_now(), end = begin + (int64_t)(seconds * 1e9);
    gcs_putters_begin(all);
    while (bench_now() < end)
        done += gcs_putters_turn(all);
    *puts_out = done;
    return (double)done / ((double)(bench_now() - begin) / 1e9);
}

bool gcs_putters_close(struct gcs_putters *all)
{
    bool failed = false;
    for (uint32_t i = 0; i < GCS_CONNECTIONS; i++) {
        failed |= all->each[i].failed;
        mob_gcs_destroy(all->each[i].gcs);
    }
    close(all->epoll_fd);
    free(all);
    return !failed;
}

double gcs_putters_rate(
    struct chain_box *box, const char *clients, double seconds, struct gcs_putters_sum *sum)
{
    struct gcs_chain_cpu before = {0}, after = {0};
    struct gcs_putters_options options = {.clients = clients, .shard = box->shard};
    struct gcs_putters *all = gcs_putters_open(&options);
    uint64_t puts = 0;
    if (all == NULL) {
        sum->failed = true;
        return 0;
    }
    cpu_now(box, &before);
    double rate = gcs_putters_run(all, seconds, &puts);
    cpu_now(box, &after);
    cpu_add(&sum->cpu, &before, &after);
    sum->puts += puts;
    sum->failed |= !gcs_putters_close(all);
    return rate;
}

struct gcs_chain_cpu gcs_putters_each(const struct gcs_putters_sum *sum)
{
    double puts = (double)sum->puts;
    if (sum->puts == 0)
        return (struct gcs_chain_cpu){0};
    return (struct gcs_chain_cpu){.client = sum->cpu.client / puts,
        .head = sum->cpu.head / puts,
        .head_store = sum->cpu.head_store / puts,
        .tail = sum->cpu.tail / puts,
        .tail_store = sum->cpu.tail_store / puts};
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
