/* One client of several shards over real processes: who gets what, what is read from all, and that one
 * shard's trouble is not the others'. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/gcs_box.h"

#define DEADLINE_NS (60 * MOB_SEC)
#define SHARDS 2u

struct log {
    struct mob_gcs_log *log;
    uint64_t incarnation, acked, appended;
};
struct fixture {
    struct gcs_box box[SHARDS];
    struct mob_gcs *gcs;
    enum mob_status link;
    uint32_t link_changes;
    struct log logs[2];
};

static int64_t soon(void)
{
    return mob_now() + DEADLINE_NS;
}

static void on_link(void *arg, enum mob_status status)
{
    struct fixture *f = arg;
    f->link = status;
    f->link_changes++;
}
static void on_acked(void *arg, uint64_t count)
{
    ((struct log *)arg)->acked = count;
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    (void)why;
    (void)cut;
}

static struct mob_gcs *client_in(
    struct fixture *f, uint32_t first, uint32_t second, int watch_fd, uint64_t watch_data)
{
    char paths[256];
    struct mob_gcs *gcs = NULL;
    snprintf(paths, sizeof paths, "%s;%s", f->box[first].socket, f->box[second].socket);
    struct mob_gcs_options options = {
        .socket_path = paths, .secret = gcs_box_secret, .on_link = on_link, .arg = f};
    options.watch_fd = watch_fd;
    options.watch_data = watch_data;
    assert_int_equal(mob_gcs_create(&options, &gcs), MOB_OK);
    return gcs;
}

static struct mob_gcs *client(struct fixture *f, uint32_t first, uint32_t second)
{
    return client_in(f, first, second, 0, 0);
}

static struct fixture *start(void)
{
    static const char *const numbers[SHARDS] = {"0", "1"};
    struct fixture *f = calloc(1, sizeof *f);
    f->link = MOB_UNAVAILABLE;
    for (uint32_t i = 0; i < SHARDS; i++) {
        gcs_box_init(&f->box[i], NULL);
        f->box[i].args[0] = "--shard";
        f->box[i].args[1] = numbers[i];
        gcs_box_start(&f->box[i]);
    }
    f->gcs = client(f, 0, 1);
    return f;
}

static void finish(struct fixture *f)
{
    mob_gcs_destroy(f->gcs);
    for (uint32_t i = 0; i < SHARDS; i++)
        gcs_box_fini(&f->box[i]);
    free(f);
}

static void step(struct fixture *f)
{
    gcs_box_step(f->gcs, 5);
}

static struct mob_gcs_put put_of(const char *key, const char *value, uint64_t if_version)
{
    return (struct mob_gcs_put){.table = MOB_GCS_KV,
        .key = key,
        .key_length = (uint32_t)strlen(key),
        .value = value,
        .value_length = (uint32_t)strlen(value),
        .if_version = if_version};
}

static uint64_t put(struct fixture *f, const char *key, const char *value)
{
    uint64_t version = 0;
    struct mob_gcs_put p = put_of(key, value, MOB_GCS_ANY_VERSION);
    assert_int_equal(mob_gcs_put_wait(f->gcs, &p, soon(), &version), MOB_OK);
    return version;
}

static struct mob_gcs_result *answer(
    struct fixture *f, enum mob_status submitted, struct mob_gcs_sync *sync, enum mob_status expected)
{
    struct mob_gcs_result *result = NULL;
    assert_string_equal(mob_status_code(submitted), "ok");
    enum mob_status status = mob_gcs_sync_wait(f->gcs, sync, soon(), &result);
    assert_string_equal(mob_status_code(status), mob_status_code(expected));
    return result;
}

static uint64_t keys_of(struct fixture *f, uint32_t shard)
{
    return gcs_box_stats(mob_gcs_shard(f->gcs, shard)).keys;
}

/* The name of the n-th key that the shard has. */
static void key_in(struct fixture *f, uint32_t shard, unsigned n, char out[32])
{
    for (unsigned i = 0;; i++) {
        snprintf(out, 32, "in-%u-%u", shard, i);
        if (mob_gcs_key_shard(f->gcs, MOB_GCS_KV, out, (uint32_t)strlen(out)) == shard && n-- == 0)
            return;
    }
}

static void keys_are_spread_and_listed_in_order(void **state)
{
    (void)state;
    struct fixture *f = start();
    char key[32], before[32] = "";
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "key-%03d", i);
        put(f, key, key);
    }
    uint64_t on[SHARDS] = {keys_of(f, 0), keys_of(f, 1)};
    assert_int_equal(on[0] + on[1], 300);
    assert_true(on[0] > 100 && on[1] > 100);
    uint32_t total = 0;
    struct mob_gcs_list list = {.table = MOB_GCS_KV, .prefix = "key-", .prefix_length = 4, .limit = 7};
    for (uint64_t next = 1; next != 0;) {
        struct mob_gcs_sync sync = {0};
        list.after = before;
        list.after_length = (uint32_t)strlen(before);
        struct mob_gcs_result *r =
            answer(f, mob_gcs_list(f->gcs, &list, mob_gcs_sync_done, &sync), &sync, MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        assert_in_range(a->kv_count, 1, 7);
        for (uint32_t i = 0; i < a->kv_count; i++) {
            snprintf(key, sizeof key, "key-%03u", total++);
            assert_int_equal(a->kvs[i].key_length, strlen(key));
            assert_memory_equal(a->kvs[i].key, key, strlen(key));
            assert_memory_equal(a->kvs[i].value, key, strlen(key));
            memcpy(before, key, sizeof before);
        }
        next = a->next;
        mob_gcs_result_destroy(r);
    }
    assert_int_equal(total, 300);
    finish(f);
}

/* With their values a page would be full behind the second of a shard. */
static void keys_of_large_values_come_in_one_page(void **state)
{
    (void)state;
    enum { KEYS = 6 };
    struct fixture *f = start();
    char *large = calloc(1, MOB_GCS_VALUE_MAX);
    uint64_t versions[KEYS];
    for (uint32_t i = 0; i < KEYS; i++) {
        char key[32];
        snprintf(key, sizeof key, "large-%u", i);
        struct mob_gcs_put p = put_of(key, "", MOB_GCS_ANY_VERSION);
        p.value = large;
        p.value_length = MOB_GCS_VALUE_MAX;
        assert_int_equal(mob_gcs_put_wait(f->gcs, &p, soon(), &versions[i]), MOB_OK);
    }
    free(large);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_list list = {
        .table = MOB_GCS_KV, .prefix = "large-", .prefix_length = 6, .keys_only = true};
    struct mob_gcs_result *r =
        answer(f, mob_gcs_list(f->gcs, &list, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
    assert_int_equal(a->kv_count, KEYS);
    assert_int_equal(a->next, 0);
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(a->kvs[i].key[6], '0' + i);
        assert_int_equal(a->kvs[i].value_length, 0);
        assert_int_equal(a->kvs[i].version, versions[i]);
    }
    mob_gcs_result_destroy(r);
    finish(f);
}

static void compare_and_set_holds_on_each_shard(void **state)
{
    (void)state;
    struct fixture *f = start();
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        char key[32];
        uint64_t seen = 0;
        key_in(f, shard, 0, key);
        uint64_t v1 = put(f, key, "one");
        struct mob_gcs_put p = put_of(key, "two", 0);
        assert_int_equal(mob_gcs_put_wait(f->gcs, &p, soon(), &seen), MOB_CONFLICT);
        assert_int_equal(seen, v1);
        p.if_version = v1;
        assert_int_equal(mob_gcs_put_wait(f->gcs, &p, soon(), &seen), MOB_OK);
        struct mob_gcs_result *r = NULL;
        assert_int_equal(
            mob_gcs_get_wait(f->gcs, MOB_GCS_KV, key, (uint32_t)strlen(key), soon(), &r), MOB_OK);
        assert_memory_equal(mob_gcs_result_answer(r)->kvs[0].value, "two", 3);
        mob_gcs_result_destroy(r);
        p.if_version = seen;
        struct mob_gcs_sync sync = {0};
        mob_gcs_result_destroy(
            answer(f, mob_gcs_delete(f->gcs, &p, mob_gcs_sync_done, &sync), &sync, MOB_OK));
        assert_int_equal(keys_of(f, shard), 0);
    }
    finish(f);
}

static uint64_t registered(struct fixture *f, const char *name)
{
    uint64_t incarnation = 0;
    assert_int_equal(mob_gcs_node_register_wait(f->gcs, name, soon(), &incarnation), MOB_OK);
    return incarnation;
}

static void a_nodes_logs_have_one_home_and_nodes_are_spread(void **state)
{
    (void)state;
    struct fixture *f = start();
    uint64_t a1 = registered(f, "a"), b1 = registered(f, "b"), cut = 1;
    uint32_t home_a = mob_gcs_home_shard(f->gcs, a1), home_b = mob_gcs_home_shard(f->gcs, b1);
    assert_int_not_equal(home_a, home_b);
    assert_int_equal(mob_gcs_log_seal_wait(f->gcs, a1, soon(), &cut), MOB_OK);
    assert_int_equal(cut, 0);
    uint64_t a2 = registered(f, "a"), b2 = registered(f, "b");
    assert_int_equal(mob_gcs_home_shard(f->gcs, a2), home_a);
    assert_int_equal(mob_gcs_home_shard(f->gcs, b2), home_b);
    assert_true(a2 > a1 && b2 > b1 && a2 != b2);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r =
        answer(f, mob_gcs_incarnations(f->gcs, 0, mob_gcs_sync_done, &sync), &sync, MOB_OK);
    const struct mob_gcs_answer *all = mob_gcs_result_answer(r);
    assert_int_equal(all->incarnation_count, 4);
    assert_int_equal(all->next, 0);
    for (uint32_t i = 0; i < 4; i++) {
        const struct mob_gcs_incarnation *row = &all->incarnations[i];
        assert_true(i == 0 || row[-1].id < row->id);
        assert_int_equal(row->state, row->id == a1 ? MOB_GCS_SEALED : MOB_GCS_LIVE);
        assert_string_equal(row->name, row->id == a1 || row->id == a2 ? "a" : "b");
    }
    mob_gcs_result_destroy(r);
    finish(f);
}

static void open_logs(struct fixture *f)
{
    static const char *const names[2] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        struct log *log = &f->logs[i];
        struct mob_gcs_log_events events = {on_acked, gcs_block_released, on_sealed, log};
        log->incarnation = registered(f, names[i]);
        assert_int_equal(mob_gcs_log_open(f->gcs, log->incarnation, 0, &events, &log->log), MOB_OK);
    }
}

static void append(struct log *log, struct gcs_block_spec spec)
{
    spec.incarnation = log->incarnation;
    spec.sequence = log->appended++;
    assert_int_equal(mob_gcs_log_append(log->log, gcs_block_new(&spec)), MOB_OK);
}

static void wait_acked(struct fixture *f)
{
    int64_t deadline = soon();
    for (; f->logs[0].acked < f->logs[0].appended || f->logs[1].acked < f->logs[1].appended; step(f))
        assert_true(mob_now() < deadline);
}

/* Every block of a group, over its pages; how many of each log, in the order of that log. */
static void read_group(struct fixture *f, struct mob_stream stream, bool unfinished, uint32_t counts[2])
{
    uint64_t position = 0, before = 0;
    counts[0] = counts[1] = 0;
    do {
        struct mob_gcs_sync sync = {0};
        enum mob_status status = unfinished
            ? mob_gcs_unfinished(f->gcs, 0, position, mob_gcs_sync_done, &sync)
            : mob_gcs_group_blocks(f->gcs, stream, 0, position, mob_gcs_sync_done, &sync);
        struct mob_gcs_result *r = answer(f, status, &sync, MOB_OK);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++) {
            const struct mob_gcs_block_row *row = &a->blocks[i];
            struct log *log = &f->logs[row->incarnation == f->logs[1].incarnation];
            assert_int_equal(row->incarnation, log->incarnation);
            assert_int_equal(row->number, counts[log - f->logs]++);
            assert_true(row->seq > before);
            before = row->seq;
        }
        position = a->next;
        mob_gcs_result_destroy(r);
    } while (position != 0);
}

static uint32_t scanned(struct fixture *f, uint32_t shard)
{
    uint32_t count = 0;
    struct mob_gcs_scan scan = {.shard = shard, .newest_first = true};
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r =
            answer(f, mob_gcs_scan(f->gcs, &scan, mob_gcs_sync_done, &sync), &sync, MOB_OK);
        count += mob_gcs_result_answer(r)->block_count;
        scan.position = mob_gcs_result_answer(r)->next;
        mob_gcs_result_destroy(r);
    } while (scan.position != 0);
    return count;
}

/* Logs of several pages: a page ends at 1,024 blocks. */
static void a_group_is_read_from_all_logs(void **state)
{
    (void)state;
    enum { BLOCKS = 1100 };
    struct fixture *f = start();
    uint32_t counts[2];
    open_logs(f);
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < 2; k++) {
            if (k == 1 && i >= 40) /* the other has one page */
                continue;
            append(&f->logs[k],
                (struct gcs_block_spec){
                    .job = 1, .stream = 1, .first_index = (uint32_t)(i % 100), .tasks = 1, .specs = true});
        }
    wait_acked(f);
    read_group(f, gcs_block_stream(1, 1), false, counts);
    assert_int_equal(counts[0], BLOCKS);
    assert_int_equal(counts[1], 40);
    read_group(f, gcs_block_stream(1, 1), true, counts);
    assert_int_equal(counts[0], BLOCKS);
    assert_int_equal(counts[1], 40);
    read_group(f, gcs_block_stream(1, 9), false, counts); /* no such group */
    assert_int_equal(counts[0] + counts[1], 0);
    assert_int_equal(scanned(f, mob_gcs_home_shard(f->gcs, f->logs[0].incarnation)), BLOCKS);
    assert_int_equal(scanned(f, mob_gcs_home_shard(f->gcs, f->logs[1].incarnation)), 40);
    struct mob_gcs_sync sync = {0};
    mob_gcs_result_destroy(answer(
        f, mob_gcs_log_read(f->gcs, f->logs[1].incarnation, 0, mob_gcs_sync_done, &sync), &sync, MOB_OK));
    uint64_t dropped = 0;
    for (bool more = true; more;) {
        sync = (struct mob_gcs_sync){0};
        struct mob_gcs_result *r =
            answer(f, mob_gcs_job_drop(f->gcs, gcs_block_job(1), false, INT64_MAX, mob_gcs_sync_done, &sync),
                &sync, MOB_OK);
        dropped += mob_gcs_result_answer(r)->number;
        more = mob_gcs_result_answer(r)->next != 0;
        mob_gcs_result_destroy(r);
    }
    assert_int_equal(dropped, BLOCKS + 40);
    finish(f);
}

static void one_shard_down_does_not_stop_the_others(void **state)
{
    (void)state;
    struct fixture *f = start();
    char here[32], away[32];
    key_in(f, 0, 0, here);
    key_in(f, 1, 0, away);
    put(f, here, "before");
    put(f, away, "before");
    assert_int_equal(f->link, MOB_OK);
    assert_int_equal(gcs_box_end(&f->box[1].gcs, SIGKILL), SIGKILL);
    struct mob_gcs_sync wanted = {0}, listed = {0};
    struct mob_gcs_put p = put_of(away, "meanwhile", MOB_GCS_ANY_VERSION);
    struct mob_gcs_list list = {.table = MOB_GCS_KV};
    assert_int_equal(mob_gcs_put(f->gcs, &p, mob_gcs_sync_done, &wanted), MOB_OK);
    assert_int_equal(mob_gcs_list(f->gcs, &list, mob_gcs_sync_done, &listed), MOB_OK);
    for (int i = 0; i < 100; i++)
        put(f, here, "meanwhile");
    for (int64_t deadline = soon(); f->link != MOB_UNAVAILABLE; step(f))
        assert_true(mob_now() < deadline);
    assert_false(mob_gcs_connected(f->gcs));
    assert_true(mob_gcs_connected(mob_gcs_shard(f->gcs, 0)));
    assert_false(wanted.done);
    assert_false(listed.done);
    gcs_box_start_gcs(&f->box[1]);
    mob_gcs_result_destroy(answer(f, MOB_OK, &wanted, MOB_OK));
    struct mob_gcs_result *r = answer(f, MOB_OK, &listed, MOB_OK);
    assert_int_equal(mob_gcs_result_answer(r)->kv_count, 2);
    mob_gcs_result_destroy(r);
    assert_int_equal(f->link, MOB_OK);
    finish(f);
}

static void shards_in_another_order_are_refused(void **state)
{
    (void)state;
    struct fixture *f = start();
    mob_gcs_destroy(f->gcs);
    f->link_changes = 0;
    f->gcs = client(f, 1, 0);
    for (int64_t deadline = soon(); f->link_changes == 0; step(f))
        assert_true(mob_now() < deadline);
    assert_string_equal(mob_status_code(f->link), mob_status_code(MOB_MISDIRECTED));
    assert_false(mob_gcs_connected(f->gcs));
    finish(f);
}

static void what_waits_goes_with_its_client(void **state)
{
    (void)state;
    struct fixture *f = start();
    char key[32];
    key_in(f, 0, 0, key);
    put(f, key, "there");
    assert_int_equal(gcs_box_end(&f->box[1].gcs, SIGKILL), SIGKILL);
    struct mob_gcs_sync listed = {0}, made = {0}, read = {0}, known = {0};
    struct mob_gcs_list list = {.table = MOB_GCS_KV};
    assert_int_equal(mob_gcs_list(f->gcs, &list, mob_gcs_sync_done, &listed), MOB_OK);
    assert_int_equal(mob_gcs_node_register(f->gcs, "a", mob_gcs_sync_done, &made), MOB_OK);
    assert_int_equal(mob_gcs_incarnations(f->gcs, 0, mob_gcs_sync_done, &known), MOB_OK);
    assert_int_equal(
        mob_gcs_group_blocks(f->gcs, gcs_block_stream(1, 1), 0, 0, mob_gcs_sync_done, &read), MOB_OK);
    put(f, key, "the other has answered by then");
    assert_false(listed.done || made.done || read.done || known.done);
    finish(f); /* the leak checker looks */
}

static void on_put(void *arg, const struct mob_gcs_answer *a)
{
    assert_int_equal(a->status, MOB_OK);
    ++*(uint32_t *)arg;
}

/* Only the set says who is to be stepped: a client that is never named would never be answered. */
static void step_named(int set, struct mob_gcs **clients, int64_t deadline_ns)
{
    struct epoll_event events[8];
    assert_true(mob_now() < deadline_ns);
    int n = epoll_wait(set, events, 8, 5);
    for (int i = 0; i < n; i++) {
        assert_in_range(events[i].data.u64, 1, 2);
        mob_gcs_step(clients[events[i].data.u64 - 1], mob_now());
    }
}

static void clients_in_one_set_are_named_by_it(void **state)
{
    (void)state;
    struct fixture *f = start();
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct mob_gcs *clients[2];
    for (uint64_t i = 0; i < 2; i++) {
        clients[i] = client_in(f, 0, 1, set, i + 1);
        assert_int_equal(mob_gcs_fd(clients[i]), set);
        assert_int_equal(mob_gcs_connect_wait(clients[i], soon()), MOB_OK);
    }
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t answers[2] = {0, 0};
        for (uint32_t i = 0; i < 2; i++)
            for (uint32_t k = 0; k < 8; k++) {
                char key[16];
                snprintf(key, sizeof key, "%u-%u", i, k);
                struct mob_gcs_put p = put_of(key, "value", MOB_GCS_ANY_VERSION);
                assert_int_equal(mob_gcs_put(clients[i], &p, on_put, &answers[i]), MOB_OK);
                mob_gcs_send(clients[i]);
            }
        for (int64_t deadline = soon(); answers[0] < 8 || answers[1] < 8;)
            step_named(set, clients, deadline);
        /* New sockets, in the same set under the same names. */
        gcs_box_end(&f->box[1].gcs, SIGKILL);
        gcs_box_start_gcs(&f->box[1]);
        for (uint32_t i = 0; i < 2; i++) {
            while (mob_gcs_connected(clients[i]))
                mob_gcs_step(clients[i], mob_now());
            assert_int_equal(mob_gcs_connect_wait(clients[i], soon()), MOB_OK);
        }
    }
    for (uint32_t i = 0; i < 2; i++)
        mob_gcs_destroy(clients[i]);
    struct epoll_event left;
    assert_int_equal(epoll_wait(set, &left, 1, 0), 0); /* it is the caller's still, and empty */
    close(set);
    finish(f);
}

static void what_is_of_one_shard_is_not_asked_of_all(void **state)
{
    (void)state;
    struct fixture *f = start();
    struct mob_gcs_sub_events events = {0};
    struct mob_gcs_sub *sub = NULL;
    struct mob_gcs_flush flush = {0};
    struct mob_gcs_scan scan = {.shard = SHARDS};
    assert_int_equal(mob_gcs_stats(f->gcs, NULL, NULL), MOB_INVALID);
    assert_int_equal(mob_gcs_subscribe(f->gcs, 0, &events, &sub), MOB_INVALID);
    assert_int_equal(mob_gcs_flush(f->gcs, &flush, NULL, NULL), MOB_INVALID);
    assert_int_equal(mob_gcs_scan(f->gcs, &scan, NULL, NULL), MOB_INVALID);
    finish(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_spread_and_listed_in_order),
        cmocka_unit_test(keys_of_large_values_come_in_one_page),
        cmocka_unit_test(compare_and_set_holds_on_each_shard),
        cmocka_unit_test(a_nodes_logs_have_one_home_and_nodes_are_spread),
        cmocka_unit_test(a_group_is_read_from_all_logs),
        cmocka_unit_test(one_shard_down_does_not_stop_the_others),
        cmocka_unit_test(shards_in_another_order_are_refused),
        cmocka_unit_test(what_waits_goes_with_its_client),
        cmocka_unit_test(clients_in_one_set_are_named_by_it),
        cmocka_unit_test(what_is_of_one_shard_is_not_asked_of_all),
    };
    return cmocka_run_group_tests_name("gcs_shards", tests, NULL, NULL);
}
