/* Node and clients as threads over one mapping: what thread sanitizers can see of the segment's protocols,
 * and races that need real concurrency. A lost wake-up shows as a time-out. ctest: threads */
#include "tests/unit/runtime/store/store_support.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "common/base/clock.h"

enum { RECORDS = 20000, PINGS = 3000, IDS = 2000, CREATORS = 3, READERS = 2, EVICT_ROUNDS = 4000 };
static const int64_t lost_ns = 20 * MOB_SEC;

static struct mob_store_client *inside(struct mob_store *store, enum mob_client_kind kind)
{
    struct mob_store_client *client = NULL;
    assert_status(MOB_OK, mob_store_attach_inside(store, test_open(store, kind), &client));
    return client;
}

/* ---- rings, both sides asleep as often as they can ---- */

static void *publish_all(void *arg)
{
    struct mob_store_client *client = arg;
    for (uint32_t i = 0; i < RECORDS;) {
        struct mob_piece piece = {&i, sizeof i};
        if (mob_store_publish(client, MOB_OUT_EVENT, 0, 0, &piece, 1) == MOB_OK)
            i++;
        else if (mob_store_sleep(client, mob_now() + lost_ns, NULL, NULL) != MOB_OK)
            return (void *)"lost wake-up of a client that waits for space";
        if (i % 512 == 0)
            sched_yield();
    }
    return NULL;
}

/* Sleep as the node's loop does. */
static bool node_sleep(struct mob_store *store)
{
    mob_store_announce_sleep(store);
    bool woken = true;
    if (!mob_store_has_news(store)) {
        struct pollfd pollfd = {.fd = mob_store_eventfd(store), .events = POLLIN};
        woken = poll(&pollfd, 1, (int)(lost_ns / MOB_MS)) == 1;
    }
    mob_store_announce_awake(store);
    return woken;
}

static void nobody_sleeps_through_news(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct mob_store_client *clients[2] = {
        inside(store, MOB_CLIENT_WORKER), inside(store, MOB_CLIENT_DRIVER)};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, publish_all, clients[i]));
    uint32_t expected[2] = {0, 0};
    uint64_t last_ticket = 0;
    while (expected[0] + expected[1] < 2 * RECORDS) {
        uint32_t slot, damaged, taken = 0;
        struct mob_record record;
        const uint8_t *body;
        mob_store_pass_begin(store);
        while (mob_store_next(store, &slot, &record, &body, &damaged)) {
            uint32_t n;
            memcpy(&n, body, sizeof n);
            assert_true(slot < 2);
            assert_int_equal(expected[slot], n);
            assert_true(taken == 0 || record.ticket > last_ticket);
            last_ticket = record.ticket;
            expected[slot]++;
            taken++;
        }
        assert_int_equal(UINT32_MAX, damaged);
        mob_store_pass_end(store);
        mob_store_ack(store, 1, mob_store_taken(store, 1));
        if (taken == 0 && expected[0] + expected[1] < 2 * RECORDS)
            assert_true(node_sleep(store));
    }
    for (int i = 0; i < 2; i++) {
        void *problem;
        pthread_join(threads[i], &problem);
        assert_null(problem);
        mob_store_detach(clients[i]);
    }
    mob_store_destroy(store);
}

static void *answer_all(void *arg)
{
    struct mob_store_client *client = arg;
    for (uint32_t i = 0; i < PINGS; i++) {
        struct mob_record record;
        const uint8_t *body;
        while (!(body = mob_store_in_peek(client, &record)))
            if (mob_store_sleep(client, mob_now() + lost_ns, NULL, NULL) != MOB_OK)
                return (void *)"lost wake-up of a client that waits for records";
        struct mob_piece piece = {body, 4};
        if (mob_store_publish(client, MOB_OUT_EVENT, 0, 0, &piece, 1) != MOB_OK)
            return (void *)"no room";
        mob_store_in_pop(client);
        mob_store_in_release(client);
    }
    return NULL;
}

/* ---- a second thread sleeps for the owner ---- */

struct watcher {
    struct mob_store_client *client;
    sem_t arm, woke;
    _Atomic bool stop;
    uint32_t looks; /* whether to go on; each 100 ms */
};

static bool goes_on(void *arg)
{
    struct watcher *w = arg;
    w->looks++;
    return !w->stop;
}

static void *watch(void *arg)
{
    struct watcher *w = arg;
    for (;;) {
        sem_wait(&w->arm);
        if (w->stop)
            return NULL;
        enum mob_status status = mob_store_watch(w->client, &w->stop, goes_on, w);
        (void)status; /* the owner looks for itself */
        sem_post(&w->woke);
    }
}

static void post(struct mob_store *store, uint32_t number)
{
    void *body = mob_store_in_reserve(store, 0, MOB_IN_REPLY, 0, 0, sizeof number);
    assert_non_null(body);
    memcpy(body, &number, sizeof number);
    mob_store_in_flush(store, 0);
}

/* The owner takes what is there also while its watcher sleeps, and does not touch what the watcher reads. */
static void a_watcher_is_woken_by_each_record(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct watcher w = {.client = inside(store, MOB_CLIENT_DRIVER)};
    pthread_t thread;
    sem_init(&w.arm, 0, 0);
    sem_init(&w.woke, 0, 0);
    assert_int_equal(0, pthread_create(&thread, NULL, watch, &w));
    bool armed = false;
    for (uint32_t i = 0; i < PINGS; i++) {
        if (!armed)
            sem_post(&w.arm);
        armed = true;
        post(store, i);
        if (i % 2 == 0) {
            struct timespec late;
            clock_gettime(CLOCK_REALTIME, &late);
            late.tv_sec += lost_ns / MOB_SEC;
            if (sem_timedwait(&w.woke, &late) != 0)
                fail_msg("record %u woke nobody", i);
            armed = false;
        }
        struct mob_record record;
        uint32_t got;
        const uint8_t *body = mob_store_in_peek(w.client, &record);
        assert_non_null(body);
        memcpy(&got, body, sizeof got);
        assert_int_equal(i, got);
        mob_store_in_pop(w.client);
        mob_store_in_release(w.client);
        armed = armed && sem_trywait(&w.woke) != 0;
    }
    w.stop = true;
    sem_post(&w.arm);
    assert_int_equal(0, pthread_join(thread, NULL));
    sem_destroy(&w.arm);
    sem_destroy(&w.woke);
    mob_store_detach(w.client);
    mob_store_destroy(store);
}

/* On a slow machine its time to look may come first, so one of many tries has to do. */
static void a_watcher_is_stopped_by_a_poke_before_it_looks(void **state)
{
    (void)state;
    enum { TRIES = 100 };
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct watcher w = {.client = inside(store, MOB_CLIENT_DRIVER), .looks = 1};
    sem_init(&w.woke, 0, 0);
    for (int i = 0; i < TRIES && w.looks > 0; i++) {
        pthread_t thread;
        sem_init(&w.arm, 0, 1);
        w.stop = false;
        w.looks = 0;
        assert_int_equal(0, pthread_create(&thread, NULL, watch, &w));
        while (MOB_SEG_LOAD_SC(&w.client->seg_client->asleep) == 0)
            sched_yield();
        w.stop = true;
        mob_store_poke(w.client);
        sem_post(&w.arm);
        assert_int_equal(0, pthread_join(thread, NULL));
        sem_destroy(&w.arm);
    }
    assert_int_equal(0, w.looks);
    assert_status(
        MOB_UNAVAILABLE, mob_store_watch(w.client, &w.stop, goes_on, &w)); /* stopped before it sleeps */
    assert_int_equal(0, w.looks);
    sem_destroy(&w.woke);
    mob_store_detach(w.client);
    mob_store_destroy(store);
}

static void ping_pong_never_stalls(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct mob_store_client *client = inside(store, MOB_CLIENT_WORKER);
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, answer_all, client));
    for (uint32_t i = 0; i < PINGS; i++) {
        void *body = mob_store_in_reserve(store, 0, MOB_IN_REPLY, 0, 0, 4);
        assert_non_null(body);
        memcpy(body, &i, 4);
        mob_store_in_flush(store, 0);
        uint32_t slot, damaged, got = UINT32_MAX;
        while (got == UINT32_MAX) {
            struct mob_record record;
            const uint8_t *answer;
            mob_store_pass_begin(store);
            while (mob_store_next(store, &slot, &record, &answer, &damaged))
                memcpy(&got, answer, 4);
            mob_store_pass_end(store);
            if (got == UINT32_MAX)
                assert_true(node_sleep(store));
        }
        assert_int_equal(i, got);
    }
    void *problem;
    pthread_join(thread, &problem);
    assert_null(problem);
    mob_store_detach(client);
    mob_store_destroy(store);
}

/* ---- objects ---- */

struct creator {
    struct mob_store_client *client;
    uint32_t won;
    const char *problem;
    struct mob_object_ref refs[IDS];
    bool mine[IDS];
};

static void *create_all(void *arg)
{
    struct creator *creator = arg;
    for (uint32_t i = 0; i < IDS; i++) {
        int64_t n = i;
        enum mob_status status = mob_store_put_small(
            creator->client, test_id(5, i, 0), MOB_TYPE_I64, &n, sizeof n, &creator->refs[i]);
        if (status != MOB_OK && status != MOB_EXISTS)
            creator->problem = mob_status_code(status);
        creator->mine[i] = status == MOB_OK;
        creator->won += status == MOB_OK;
    }
    return NULL;
}

static void of_many_creators_of_one_id_one_wins(void **state)
{
    (void)state;
    struct mob_store_options options = {
        .struct_size = sizeof options, .segment_bytes = 4 << 20, .object_entries = 4096};
    struct mob_store *store;
    assert_status(MOB_OK, mob_store_create(&options, &store));
    struct creator *creators = calloc(CREATORS, sizeof *creators);
    pthread_t threads[CREATORS];
    for (int i = 0; i < CREATORS; i++) {
        creators[i].client = inside(store, MOB_CLIENT_WORKER);
        assert_int_equal(0, pthread_create(&threads[i], NULL, create_all, &creators[i]));
    }
    uint32_t won = 0;
    for (int i = 0; i < CREATORS; i++) {
        pthread_join(threads[i], NULL);
        assert_null(creators[i].problem);
        won += creators[i].won;
        for (uint32_t j = 0; j < IDS; j++)
            if (creators[i].mine[j])
                assert_status(MOB_OK, mob_store_object_seal(creators[i].client, creators[i].refs[j]));
    }
    assert_int_equal(IDS, won);
    assert_store_ok(store);
    for (int i = 0; i < CREATORS; i++)
        mob_store_detach(creators[i].client);
    free(creators);
    mob_store_destroy(store);
}

struct reader {
    struct mob_store_client *client;
    _Atomic bool *stop;
    uint64_t full, inlined;
    const char *problem;
};

/* Bytes that are pinned do not change; a small value is never half of one and half of another. */
static void *read_all(void *arg)
{
    struct reader *reader = arg;
    for (uint32_t i = 0; !atomic_load(reader->stop); i++) {
        struct test_got got = test_get(reader->client, test_id(6, i % 4, 0));
        if (got.status == MOB_OK) {
            const uint8_t *payload = (const uint8_t *)got.bytes + MOB_VALUE_HEADER_BYTES;
            uint8_t first = payload[0];
            for (uint64_t at = 0; at < got.size - MOB_VALUE_HEADER_BYTES; at++)
                if (payload[at] != first)
                    reader->problem = "pinned bytes changed";
            reader->full++;
            mob_store_object_release(reader->client, got.pin);
        }
        got = test_get(reader->client, test_id(7, i % 4, 0));
        if (got.status == MOB_OK) {
            uint64_t words[3];
            memcpy(words, got.small, sizeof words);
            if (words[0] != words[1] || words[1] != words[2])
                reader->problem = "torn small value";
            reader->inlined++;
        }
    }
    return NULL;
}

static void readers_never_see_bytes_that_are_going(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct mob_store_client *maker = inside(store, MOB_CLIENT_WORKER);
    _Atomic bool stop = false;
    struct reader readers[READERS] = {0};
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.client = inside(store, MOB_CLIENT_WORKER), .stop = &stop};
        assert_int_equal(0, pthread_create(&threads[i], NULL, read_all, &readers[i]));
    }
    uint64_t pinned = 0, n = 0;
    int64_t end = mob_now() + 20 * MOB_SEC;
    for (bool enough = false; !enough && mob_now() < end; n++) {
        uint32_t i = (uint32_t)n % 4;
        struct mob_object_ref ref;
        if (test_create(maker, test_id(6, i, 0), 300, (uint8_t)n, &ref) == MOB_OK)
            mob_store_object_seal(maker, ref);
        pinned += mob_store_object_delete(store, test_id(6, i, 0)) == MOB_AGAIN;
        uint64_t words[3] = {n, n, n};
        if (mob_store_put_small(maker, test_id(7, i, 0), MOB_TYPE_BYTES, words, sizeof words, &ref) == MOB_OK)
            mob_store_object_seal(maker, ref);
        if (n % 3 == 0)
            mob_store_object_delete(store, test_id(7, i, 0));
        enough = n > EVICT_ROUNDS && pinned > 0;
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_null(readers[i].problem);
    }
    print_message("%llu rounds, %llu found pinned, %llu full and %llu small reads\n", (unsigned long long)n,
        (unsigned long long)pinned, (unsigned long long)readers[0].full,
        (unsigned long long)readers[0].inlined);
    assert_store_ok(store);
    for (int i = 0; i < READERS; i++)
        mob_store_detach(readers[i].client);
    mob_store_detach(maker);
    mob_store_destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_sleeps_through_news),
        cmocka_unit_test(ping_pong_never_stalls),
        cmocka_unit_test(a_watcher_is_woken_by_each_record),
        cmocka_unit_test(a_watcher_is_stopped_by_a_poke_before_it_looks),
        cmocka_unit_test(of_many_creators_of_one_id_one_wins),
        cmocka_unit_test(readers_never_see_bytes_that_are_going),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
