/* Where ids lie in the object table. */
#include "tests/unit/runtime/store/store_support.h"

static uint32_t place_of(const struct mob_view *view, struct mob_object_id id)
{
    return mob_key_index(view, mob_object_key(view, id), 0, 0);
}

/* 64 entries are a page: one entry of the TLB serves a run. */
static void a_run_of_siblings_has_a_page_of_entries_to_itself(void **state)
{
    (void)state;
    struct mob_store *store = test_store(64 << 20, NULL, 0);
    for (uint32_t stream = 1; stream < 50; stream++)
        for (uint32_t run = 0; run < 4; run++) {
            uint64_t seen = 0;
            uint32_t page = place_of(&store->view, test_id(stream, run * MOB_RUN_ENTRIES, 0)) / 64;
            for (uint32_t i = 0; i < MOB_RUN_ENTRIES; i++) {
                uint32_t at = place_of(&store->view, test_id(stream, run * MOB_RUN_ENTRIES + i, 0));
                assert_int_equal(page, at / 64);
                seen |= 1ull << at % 64;
            }
            assert_true(seen == UINT64_MAX);
        }
    mob_store_destroy(store);
}

/* Its first task, and the first of its returns that has a run of its own. */
static struct mob_object_id in_run(uint32_t stream, uint32_t run, bool of_returns)
{
    return of_returns ? test_id(stream, 5, run * MOB_RUN_ENTRIES + 1)
                      : test_id(stream, run * MOB_RUN_ENTRIES, 0);
}

/* Else results of one driver push each other out of their places in a table that is half empty. */
static void runs_of_a_stream_take_each_page_once_before_any_again(void **state)
{
    (void)state;
    enum { PAGES = 1024 };
    const struct mob_view view = {
        .entries = PAGES * MOB_RUN_ENTRIES, .group_mask = PAGES * MOB_RUN_GROUPS - 1};
    for (uint32_t stream = 1; stream < 50; stream++)
        for (int of_returns = 0; of_returns < 2; of_returns++) {
            bool seen[PAGES] = {false};
            for (uint32_t run = 0; run < PAGES; run++) {
                uint32_t page = place_of(&view, in_run(stream, run, of_returns)) / MOB_RUN_ENTRIES;
                assert_in_range(page, 0, PAGES - 1);
                if (seen[page])
                    fail_msg("stream %u comes to page %u again with its run %u", stream, page, run);
                seen[page] = true;
            }
        }
}

/* With one step for all, two that meet once would meet in every run. */
static void streams_that_meet_in_a_page_part_again(void **state)
{
    (void)state;
    enum { PAGES = 1024, STREAMS = 200, RUNS = 100 };
    const struct mob_view view = {
        .entries = PAGES * MOB_RUN_ENTRIES, .group_mask = PAGES * MOB_RUN_GROUPS - 1};
    uint32_t together = 0;
    for (uint32_t a = 0; a < STREAMS; a++)
        for (uint32_t b = a + 1; b < STREAMS; b++) {
            uint32_t apart[2]; /* in pages, in the first run and in the last */
            for (uint32_t i = 0; i < 2; i++)
                apart[i] = (place_of(&view, in_run(a, i * RUNS, false)) / MOB_RUN_ENTRIES -
                               place_of(&view, in_run(b, i * RUNS, false)) / MOB_RUN_ENTRIES) %
                    PAGES;
            together += apart[0] == apart[1];
        }
    assert_in_range(together, 0, STREAMS * STREAMS / 2 / 50); /* of as many by chance 1 in 512 */
}

/* Most tasks have a child or two: they must not crowd in the first group of each page. */
static void short_runs_use_all_groups_of_a_page(void **state)
{
    (void)state;
    enum { STREAMS = 8000 };
    struct mob_store *store = test_store(64 << 20, NULL, 0);
    uint32_t in_group[MOB_RUN_GROUPS] = {0};
    for (uint32_t stream = 0; stream < STREAMS; stream++)
        in_group[place_of(&store->view, test_id(stream, 0, 0)) / MOB_GROUP_ENTRIES % MOB_RUN_GROUPS]++;
    for (uint32_t i = 0; i < MOB_RUN_GROUPS; i++)
        assert_in_range(in_group[i], STREAMS / MOB_RUN_GROUPS * 8 / 10, STREAMS / MOB_RUN_GROUPS * 12 / 10);
    mob_store_destroy(store);
}

/* A window with a group twice would be full while half of it is free. */
static void a_window_has_each_group_once_in_tables_of_all_sizes(void **state)
{
    (void)state;
    for (uint32_t entries = MOB_WINDOW_ENTRIES; entries <= 1u << 16; entries *= 2) {
        struct mob_view view = {.entries = entries, .group_mask = entries / MOB_GROUP_ENTRIES - 1};
        for (uint32_t group = 0; group <= view.group_mask; group += 7) {
            struct mob_object_key key = {.group = group};
            static uint8_t seen[(1u << 16) / MOB_GROUP_ENTRIES];
            memset(seen, 0, sizeof seen);
            for (uint32_t i = 0; i < MOB_WINDOW_GROUPS; i++) {
                uint32_t at = mob_key_group(&view, key, i);
                assert_true(at <= view.group_mask);
                assert_int_equal(0, seen[at]++);
            }
        }
    }
}

/* Whole runs: what does not find its own page moves to that of the next run, where it may, too. */
static void runs_fill_the_table_to_its_mark(void **state)
{
    (void)state;
    struct mob_store *store = test_store(64 << 20, NULL, 0);
    struct mob_store_client *client = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    uint32_t streams = store->view.entries / 8 * 5 / MOB_RUN_ENTRIES;
    for (uint32_t stream = 0; stream < streams; stream++)
        for (uint32_t i = 0; i < MOB_RUN_ENTRIES; i++)
            test_put_i64(client, test_id(stream, i, 0), stream);
    for (uint32_t stream = 0; stream < streams; stream++)
        for (uint32_t i = 0; i < MOB_RUN_ENTRIES; i++)
            assert_status(MOB_OK, test_get(client, test_id(stream, i, 0)).status);
    assert_status(MOB_NOT_FOUND, test_get(client, test_id(streams, 0, 0)).status);
    assert_store_ok(store);
    mob_store_detach(client);
    mob_store_destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_of_siblings_has_a_page_of_entries_to_itself),
        cmocka_unit_test(runs_of_a_stream_take_each_page_once_before_any_again),
        cmocka_unit_test(streams_that_meet_in_a_page_part_again),
        cmocka_unit_test(short_runs_use_all_groups_of_a_page),
        cmocka_unit_test(a_window_has_each_group_once_in_tables_of_all_sizes),
        cmocka_unit_test(runs_fill_the_table_to_its_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
