/* Costs of the store's paths, each beside the primitive that bounds it. One client and the node in one
 * process, which is what one core sees; figures across processes are in mobula-bench.
 *
 *   store-bench [seconds per row, default 0.5]
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/store/store.h"

static int64_t row_ns = MOB_SEC / 2;

static void row(const char *name, const char *unit, double value, double baseline)
{
    printf("{\"name\":\"store_%s\",\"value\":%.3f,\"unit\":\"%s\"", name, value, unit);
    if (baseline > 0)
        printf(",\"baseline\":%.3f,\"ratio\":%.3f", baseline, value / baseline);
    printf("}\n");
    fflush(stdout);
}

static struct mob_object_id id_of(uint64_t round, uint32_t i)
{
    struct mob_object_id id = {0};
    memcpy(id.task.stream.b, &round, sizeof round);
    id.task.index = i;
    return id;
}

struct rig {
    struct mob_store *store;
    struct mob_store_client *client;
    uint32_t slot;
};

static struct rig rig_open(uint64_t bytes, enum mob_client_kind kind)
{
    struct rig rig = {0};
    struct mob_store_options options = {
        .struct_size = sizeof options, .segment_bytes = bytes, .incarnation = 1};
    struct mob_client_options client = {.kind = kind};
    MOB_ASSERT(mob_store_create(&options, &rig.store) == MOB_OK);
    MOB_ASSERT(mob_store_client_open(rig.store, &client, &rig.slot) == MOB_OK);
    MOB_ASSERT(mob_store_attach(mob_store_memfd(rig.store), mob_store_eventfd(rig.store), rig.slot,
                   &rig.client) == MOB_OK);
    return rig;
}

static void rig_close(struct rig *rig)
{
    mob_store_detach(rig->client);
    mob_store_destroy(rig->store);
}

static uint64_t drain(struct mob_store *store)
{
    uint64_t taken = 0;
    uint32_t slot, damaged;
    struct mob_record record;
    const uint8_t *body;
    mob_store_pass_begin(store);
    while (mob_store_next(store, &slot, &record, &body, &damaged))
        taken++;
    mob_store_pass_end(store);
    return taken;
}

static void bench_ring_one_thread(void)
{
    struct rig rig = rig_open(64 << 20, MOB_CLIENT_WORKER);
    int64_t publish_ns = 0, take_ns = 0;
    uint64_t records = 0;
    while (publish_ns + take_ns < row_ns) {
        int64_t t0 = mob_thread_cpu_now();
        for (int i = 0; i < 1024; i++) {
            uint8_t *body = mob_store_out_reserve(rig.client, 48);
            memset(body, i, 48);
            mob_store_out_commit(rig.client, MOB_OUT_EVENT, 0, 0, 48);
        }
        int64_t t1 = mob_thread_cpu_now();
        records += drain(rig.store);
        take_ns += mob_thread_cpu_now() - t1;
        publish_ns += t1 - t0;
    }
    row("publish", "ns", (double)publish_ns / (double)records, 0);
    row("take", "ns", (double)take_ns / (double)records, 0);
    rig_close(&rig);
}

static void *publisher(void *arg)
{
    struct rig *rig = arg;
    int64_t end = mob_now() + row_ns;
    uint64_t records = 0;
    while ((records & 1023) != 0 || mob_now() < end) {
        uint8_t *body = mob_store_out_reserve(rig->client, 48);
        if (!body) {
            mob_store_sleep(rig->client, mob_now() + MOB_MS, NULL, NULL);
            continue;
        }
        memset(body, 1, 48);
        mob_store_out_commit(rig->client, MOB_OUT_EVENT, 0, 0, 48);
        records++;
    }
    return (void *)records; // NOLINT
}

static void bench_ring_two_threads(void)
{
    struct rig rig = rig_open(64 << 20, MOB_CLIENT_WORKER);
    pthread_t thread;
    int64_t start = mob_now();
    MOB_ASSERT(pthread_create(&thread, NULL, publisher, &rig) == 0);
    uint64_t taken = 0;
    while (mob_now() < start + row_ns)
        taken += drain(rig.store);
    double seconds = (double)(mob_now() - start) / 1e9;
    void *published;
    while (pthread_tryjoin_np(thread, &published) != 0)
        taken += drain(rig.store);
    row("stream", "1/s", (double)taken / seconds, 0);
    rig_close(&rig);
}

/* put_small + seal, get, then the node's commit and sweep; the table recycles all the time. */
static void bench_small(void)
{
    struct rig rig = rig_open(1ull << 30, MOB_CLIENT_WORKER);
    enum { RUN = 10000 };
    static struct mob_object_id ids[RUN]; /* as they come out of records */
    int64_t put_ns = 0, get_ns = 0, commit_ns = 0, sweep_ns = 0;
    uint64_t objects = 0;
    for (uint64_t round = 1; put_ns + get_ns + commit_ns + sweep_ns < 4 * row_ns; round++) {
        for (uint32_t i = 0; i < RUN; i++)
            ids[i] = id_of(round, i);
        int64_t t0 = mob_thread_cpu_now();
        for (uint32_t i = 0; i < RUN; i++) {
            struct mob_object_ref ref;
            int64_t n = i;
            MOB_ASSERT(mob_store_put_small(rig.client, ids[i], MOB_TYPE_I64, &n, 8, &ref) == MOB_OK);
            mob_store_object_seal(rig.client, ref);
        }
        int64_t t1 = mob_thread_cpu_now();
        for (uint32_t i = 0; i < RUN; i++) {
            enum mob_value_type type;
            uint8_t small[MOB_OBJECT_INLINE_MAX];
            const void *bytes;
            uint64_t size;
            struct mob_object_ref pin;
            MOB_ASSERT(
                mob_store_object_get(rig.client, ids[i], false, &type, small, &bytes, &size, &pin) == MOB_OK);
        }
        int64_t t2 = mob_thread_cpu_now();
        for (uint32_t i = 0; i < RUN; i++)
            mob_store_object_committed(rig.store, ids[i], true);
        int64_t t3 = mob_thread_cpu_now();
        while (mob_store_maintain(rig.store, MOB_MS)) {
        }
        int64_t t4 = mob_thread_cpu_now();
        put_ns += t1 - t0;
        get_ns += t2 - t1;
        commit_ns += t3 - t2;
        sweep_ns += t4 - t3;
        objects += RUN;
    }
    double n = (double)objects;
    row("put_small_seal", "1/s", n * 1e9 / (double)put_ns, 0);
    row("get_inline", "1/s", n * 1e9 / (double)get_ns, 0);
    row("commit", "ns", (double)commit_ns / n, 0);
    row("sweep", "ns", (double)sweep_ns / n, 0);
    rig_close(&rig);
}

/* A driver's small puts as they are: client and node on two threads, the node seals, commits a little later,
 * and sweeps. */
struct putter {
    struct rig *rig;
    int64_t cpu_ns;
    uint64_t puts;
};

static void *put_all(void *arg)
{
    struct putter *putter = arg;
    struct mob_store_client *client = putter->rig->client;
    int64_t end = mob_now() + 2 * row_ns, cpu = mob_thread_cpu_now();
    for (uint32_t i = 0; (i & 1023u) != 0 || mob_now() < end; i++) {
        struct mob_out_put put = {
            .id = {.slot = MOB_SLOT_PUT | i}, .type = MOB_TYPE_I64, .size = 8, .inline_bytes = 8};
        int64_t n = i;
        struct mob_object_ref ref;
        struct mob_piece pieces[2] = {{&put, sizeof put}, {&n, sizeof n}};
        enum mob_status made = mob_store_put_small(client, put.id, MOB_TYPE_I64, &n, sizeof n, &ref);
        while (mob_store_publish(client, MOB_OUT_PUT, 0, 0, pieces, 2) != MOB_OK)
            mob_store_sleep(client, mob_now() + MOB_MS, NULL, NULL);
        if (made == MOB_OK)
            mob_store_object_seal(client, ref);
        putter->puts++;
    }
    putter->cpu_ns = mob_thread_cpu_now() - cpu;
    return NULL;
}

static uint64_t seal_and_commit(
    struct mob_store *store, uint32_t slot, struct mob_object_id *later, uint64_t done)
{
    enum { LATER = 4096 };
    uint32_t from, damaged;
    struct mob_record record;
    const uint8_t *body;
    mob_store_pass_begin(store);
    while (mob_store_next(store, &from, &record, &body, &damaged)) {
        struct mob_object_id *oldest = &later[done % LATER];
        if (done >= LATER)
            mob_store_object_committed(store, *oldest, true);
        memcpy(oldest, body, sizeof *oldest);
        mob_store_seal_published(store, *oldest, from);
        done++;
    }
    mob_store_pass_end(store);
    mob_store_ack(store, slot, mob_store_taken(store, slot));
    return done;
}

static void bench_put_pipeline(void)
{
    static struct mob_object_id later[4096];
    struct rig rig = rig_open(4ull << 30, MOB_CLIENT_DRIVER);
    struct putter putter = {.rig = &rig};
    pthread_t thread;
    int64_t start = mob_now(), cpu = mob_thread_cpu_now();
    MOB_ASSERT(pthread_create(&thread, NULL, put_all, &putter) == 0);
    uint64_t done = 0;
    while (pthread_tryjoin_np(thread, NULL) != 0) {
        uint64_t before = done;
        done = seal_and_commit(rig.store, rig.slot, later, done);
        if (done == before)
            sched_yield();
    }
    cpu = mob_thread_cpu_now() - cpu;
    row("put_pipeline", "1/s", (double)done * 1e9 / (double)(mob_now() - start), 0);
    row("put_pipeline_client", "ns", (double)putter.cpu_ns / (double)putter.puts, 0);
    row("put_pipeline_node", "ns", (double)cpu / (double)done, 0);
    rig_close(&rig);
}

static void bench_1k(void)
{
    struct rig rig = rig_open(1ull << 30, MOB_CLIENT_WORKER);
    enum { RUN = 2000, BYTES = 1024 };
    static uint8_t source[BYTES];
    int64_t ns = 0;
    uint64_t objects = 0, size;
    MOB_ASSERT(mob_value_full_size(BYTES, 0, 0, &size) == MOB_OK);
    for (uint64_t round = 1; ns < row_ns; round++) {
        int64_t t0 = mob_thread_cpu_now();
        for (uint32_t i = 0; i < RUN; i++) {
            struct mob_object_ref ref, pin;
            void *bytes;
            const void *got;
            uint8_t *payload, small[MOB_OBJECT_INLINE_MAX];
            enum mob_value_type type;
            uint64_t got_size;
            struct mob_object_id id = id_of(round, i);
            MOB_ASSERT(mob_store_object_create(rig.client, id, size, &ref, &bytes) == MOB_OK);
            MOB_ASSERT(
                mob_value_init(bytes, size, MOB_TYPE_BYTES, BYTES, NULL, 0, NULL, 0, &payload) == MOB_OK);
            memcpy(payload, source, BYTES);
            MOB_ASSERT(mob_store_object_seal(rig.client, ref) == MOB_OK);
            MOB_ASSERT(
                mob_store_object_get(rig.client, id, false, &type, small, &got, &got_size, &pin) == MOB_OK);
            mob_store_object_release(rig.client, pin);
        }
        ns += mob_thread_cpu_now() - t0;
        objects += RUN;
        for (uint32_t i = 0; i < RUN; i++)
            MOB_ASSERT(mob_store_object_delete(rig.store, id_of(round, i)) == MOB_OK);
    }
    row("1k_create_seal_get_release", "1/s", (double)objects * 1e9 / (double)ns, 0);
    rig_close(&rig);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
    return v[n / 2];
}

static void *warm_buffer(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    MOB_ASSERT(p != MAP_FAILED);
    memset(p, 1, bytes);
    return p;
}

static void bench_large(void)
{
    enum { ROUNDS = 9 };
    const uint64_t payload_bytes = 100 * 1000 * 1000;
    struct rig rig = rig_open(512ull << 20, MOB_CLIENT_DRIVER);
    uint8_t *source = warm_buffer(payload_bytes), *target = warm_buffer(payload_bytes);
    double put[ROUNDS], copy[ROUNDS], get[ROUNDS];
    uint64_t size, got_size;
    MOB_ASSERT(mob_value_full_size(payload_bytes, 0, 0, &size) == MOB_OK);
    for (uint32_t i = 0; i < ROUNDS + 1; i++) { /* the first one warms the segment */
        uint32_t at = i == 0 ? 0 : i - 1;
        struct mob_object_id id = id_of(1, i);
        struct mob_object_ref ref, pin;
        void *bytes;
        uint8_t *payload;
        int64_t t0 = mob_now();
        MOB_ASSERT(mob_store_object_create(rig.client, id, size, &ref, &bytes) == MOB_OK);
        MOB_ASSERT(
            mob_value_init(bytes, size, MOB_TYPE_BYTES, payload_bytes, NULL, 0, NULL, 0, &payload) == MOB_OK);
        memcpy(payload, source, payload_bytes);
        MOB_ASSERT(mob_store_object_seal(rig.client, ref) == MOB_OK);
        int64_t t1 = mob_now();
        memcpy(target, source, payload_bytes);
        int64_t t2 = mob_now();
        enum mob_value_type type;
        uint8_t small[MOB_OBJECT_INLINE_MAX];
        const void *got;
        MOB_ASSERT(
            mob_store_object_get(rig.client, id, false, &type, small, &got, &got_size, &pin) == MOB_OK);
        int64_t t3 = mob_now();
        mob_store_object_release(rig.client, pin);
        MOB_ASSERT(mob_store_object_delete(rig.store, id) == MOB_OK);
        put[at] = (double)payload_bytes / (double)(t1 - t0);
        copy[at] = (double)payload_bytes / (double)(t2 - t1);
        get[at] = (double)(t3 - t2) / 1e3;
    }
    row("put_large", "GB/s", median(put, ROUNDS), median(copy, ROUNDS));
    row("get_large", "us", median(get, ROUNDS), 0);
    munmap(source, payload_bytes);
    munmap(target, payload_bytes);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        row_ns = (int64_t)(atof(argv[1]) * 1e9);
    bench_ring_one_thread();
    bench_ring_two_threads();
    bench_small();
    bench_put_pipeline();
    bench_1k();
    bench_large();
    return 0;
}
