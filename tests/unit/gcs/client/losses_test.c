/* What has been lost is read when somebody asks, once for all who ask, and believed for a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/client/losses.h"

#define ROWS_MAX 8
#define SHARDS 2u
#define PAGE 2u
#define RETENTION_NS (3600 * MOB_SEC)

/* ---- a control store in the test's hands: it stands in for the calls that losses.c makes ---- */

struct mob_gcs {
    uint64_t epoch, chain_epoch;
    char rows[ROWS_MAX][256];
    uint32_t row_count, lists;
    bool refuses;
    /* the question */
    uint64_t after;
    mob_gcs_done_fn *done;
    void *arg;
};
static struct mob_gcs shards[SHARDS];

uint32_t mob_gcs_shard_count(const struct mob_gcs *gcs)
{
    return gcs == &shards[0] ? SHARDS : 1;
}

struct mob_gcs *mob_gcs_shard(struct mob_gcs *gcs, uint32_t shard)
{
    (void)gcs;
    return &shards[shard];
}

void mob_gcs_chain(const struct mob_gcs *gcs, struct mob_gcs_config *out)
{
    *out = (struct mob_gcs_config){.epoch = gcs->chain_epoch};
}

void mob_gcs_position(const struct mob_gcs *gcs, struct mob_gcs_position *out)
{
    *out = (struct mob_gcs_position){.epoch = gcs->epoch};
}

enum mob_status mob_gcs_list(
    struct mob_gcs *gcs, const struct mob_gcs_list *list, mob_gcs_done_fn *done, void *arg)
{
    assert_int_equal(list->table, MOB_GCS_LOSSES);
    assert_null(gcs->done);
    if (gcs->refuses)
        return MOB_QUEUE_FULL;
    gcs->after = 0;
    for (uint32_t i = 0; i < list->after_length; i++)
        gcs->after = gcs->after << 8 | ((const uint8_t *)list->after)[i];
    gcs->done = done;
    gcs->arg = arg;
    return MOB_OK;
}

/* Row i has the key i + 1. */
static void answer(struct mob_gcs *gcs, enum mob_status status)
{
    uint8_t keys[PAGE][8] = {{0}};
    struct mob_gcs_kv kvs[PAGE];
    struct mob_gcs_answer said = {.status = status, .kvs = kvs};
    for (uint64_t i = gcs->after; status == MOB_OK && i < gcs->row_count && said.kv_count < PAGE; i++) {
        struct mob_gcs_kv *kv = &kvs[said.kv_count];
        keys[said.kv_count][7] = (uint8_t)(i + 1);
        *kv = (struct mob_gcs_kv){.key = keys[said.kv_count++],
            .key_length = 8,
            .value = (const uint8_t *)gcs->rows[i],
            .value_length = (uint32_t)strlen(gcs->rows[i])};
    }
    said.next = status == MOB_OK && gcs->after + said.kv_count < gcs->row_count;
    mob_gcs_done_fn *done = gcs->done;
    assert_non_null(done);
    gcs->done = NULL;
    gcs->lists++;
    done(gcs->arg, &said);
}

static void answer_all(void)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        while (shards[i].done)
            answer(&shards[i], MOB_OK);
}

static int64_t ago(int64_t ns)
{
    return mob_wall_now() - ns;
}

static void lose(uint32_t shard, const char *kind, int64_t wall_ns)
{
    snprintf(shards[shard].rows[shards[shard].row_count++], sizeof shards[shard].rows[0],
        "{\"kind\":\"%s\",\"known_wall_ns\":5,\"missing\":null,\"wall_ns\":%lld}", kind, (long long)wall_ns);
}

/* ---- who waits ---- */

struct heard {
    struct mob_losses_wait wait;
    int times;
    enum mob_status status;
};

static void hear(struct mob_losses_wait *wait, enum mob_status status)
{
    struct heard *heard = (struct heard *)wait;
    heard->times++;
    heard->status = status;
}

static struct mob_losses *begin(void)
{
    struct mob_losses *losses;
    memset(shards, 0, sizeof shards);
    shards[0].epoch = shards[1].epoch = 1;
    assert_int_equal(mob_losses_create(&shards[0], RETENTION_NS, &losses), MOB_OK);
    return losses;
}

static int64_t read_all(struct mob_losses *losses)
{
    struct heard heard = {.wait = {.done = hear}};
    int64_t at = -1;
    assert_int_equal(mob_losses_read(losses, &heard.wait), MOB_OK);
    assert_int_equal(heard.times, 0);
    answer_all();
    assert_int_equal(heard.times, 1);
    assert_int_equal(heard.status, MOB_OK);
    assert_true(mob_losses_known(losses, &at));
    assert_int_equal(at, mob_losses_last(losses));
    return at;
}

/* ---- tests ---- */

static void nothing_is_known_before_it_was_read(void **state)
{
    (void)state;
    int64_t at;
    struct mob_losses *losses = begin();
    assert_false(mob_losses_known(losses, &at));
    assert_int_equal(read_all(losses), 0);
    mob_losses_destroy(losses);
}

static void newest_of_all_shards_counts(void **state)
{
    (void)state;
    struct mob_losses *losses = begin();
    int64_t newest = ago(MOB_SEC);
    lose(0, "log", ago(20 * MOB_SEC));
    lose(1, "store", ago(30 * MOB_SEC));
    lose(1, "hole", newest);
    lose(1, "log", ago(10 * MOB_SEC)); /* on another page */
    assert_int_equal(read_all(losses), newest);
    assert_int_equal(shards[1].lists, 2);
    mob_losses_destroy(losses);
}

static void no_log_stands_in_what_a_client_lost(void **state)
{
    (void)state;
    struct mob_losses *losses = begin();
    lose(0, "client", ago(MOB_SEC));
    assert_int_equal(read_all(losses), 0);
    mob_losses_destroy(losses);
}

static void what_would_have_aged_out_does_not_count(void **state)
{
    (void)state;
    struct mob_losses *losses = begin();
    lose(0, "log", ago(RETENTION_NS + MOB_LOSSES_RESERVE_NS + MOB_SEC));
    assert_int_equal(read_all(losses), 0);
    mob_losses_destroy(losses);
    losses = begin();
    int64_t at = ago(RETENTION_NS + MOB_LOSSES_RESERVE_NS - 60 * MOB_SEC);
    lose(0, "log", at);
    assert_int_equal(read_all(losses), at);
    mob_losses_destroy(losses);
}

static void all_who_wait_share_a_reading(void **state)
{
    (void)state;
    struct mob_losses *losses = begin();
    struct heard heard[3] = {{.times = 0}};
    for (int i = 0; i < 3; i++) {
        heard[i].wait.done = hear;
        assert_int_equal(mob_losses_read(losses, &heard[i].wait), MOB_OK);
    }
    answer(&shards[0], MOB_OK);
    assert_int_equal(heard[0].times, 0);
    answer(&shards[1], MOB_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(heard[i].times, 1);
    assert_int_equal(shards[0].lists, 1);
    mob_losses_destroy(losses);
}

static void only_new_rows_are_read_again_of_the_same_chain(void **state)
{
    (void)state;
    struct mob_losses *losses = begin();
    struct heard heard = {.wait = {.done = hear}};
    int64_t later = ago(0);
    lose(0, "log", ago(20 * MOB_SEC));
    read_all(losses);
    lose(0, "log", later);
    assert_int_equal(mob_losses_read(losses, &heard.wait), MOB_OK);
    assert_int_equal(shards[0].after, 1);
    answer_all();
    assert_int_equal(mob_losses_last(losses), later);
    mob_losses_destroy(losses);
}

/* It may have lost rows, and given their keys to others. */
static void another_chain_is_read_from_its_beginning(void **state)
{
    (void)state;
    int64_t at;
    struct mob_losses *losses = begin();
    struct heard heard = {.wait = {.done = hear}};
    lose(0, "log", ago(20 * MOB_SEC));
    read_all(losses);
    shards[0].row_count = 0;
    shards[0].epoch = 2;
    assert_false(mob_losses_known(losses, &at));
    assert_int_equal(mob_losses_read(losses, &heard.wait), MOB_OK);
    assert_int_equal(shards[0].after, 0);
    answer_all();
    assert_true(mob_losses_known(losses, &at));
    assert_int_equal(at, 0);
    shards[1].chain_epoch = 7; /* a master makes these */
    assert_false(mob_losses_known(losses, &at));
    mob_losses_destroy(losses);
}

static void chain_that_changes_while_it_is_read_is_read_again(void **state)
{
    (void)state;
    struct mob_losses *losses = begin();
    struct heard heard = {.wait = {.done = hear}};
    assert_int_equal(mob_losses_read(losses, &heard.wait), MOB_OK);
    shards[0].epoch = 2;
    answer(&shards[0], MOB_OK);
    int64_t lost = ago(MOB_SEC);
    lose(0, "log", lost);
    answer_all();
    assert_int_equal(heard.times, 1);
    assert_int_equal(mob_losses_last(losses), lost);
    mob_losses_destroy(losses);
}

static void error_is_told_and_nothing_is_known(void **state)
{
    (void)state;
    int64_t at;
    struct mob_losses *losses = begin();
    struct heard heard = {.wait = {.done = hear}};
    assert_int_equal(mob_losses_read(losses, &heard.wait), MOB_OK);
    answer(&shards[0], MOB_UNAVAILABLE);
    answer(&shards[1], MOB_OK);
    assert_int_equal(heard.times, 1);
    assert_int_equal(heard.status, MOB_UNAVAILABLE);
    assert_false(mob_losses_known(losses, &at));
    shards[0].refuses = true;
    assert_int_equal(mob_losses_read(losses, &heard.wait), MOB_QUEUE_FULL);
    shards[0].refuses = false;
    shards[1].refuses = true; /* what was asked is waited for */
    assert_int_equal(mob_losses_read(losses, &heard.wait), MOB_OK);
    answer_all();
    assert_int_equal(heard.times, 2);
    assert_int_equal(heard.status, MOB_QUEUE_FULL);
    mob_losses_destroy(losses);
}

static void who_waits_at_the_end_is_told(void **state)
{
    (void)state;
    struct mob_losses *losses = begin();
    struct heard heard = {.wait = {.done = hear}};
    assert_int_equal(mob_losses_read(losses, &heard.wait), MOB_OK);
    mob_losses_destroy(losses);
    assert_int_equal(heard.times, 1);
    assert_int_equal(heard.status, MOB_CLOSED);
    mob_losses_destroy(NULL);
}

static void rows_of_any_form_are_read(void **state)
{
    (void)state;
    char text[MOB_LOSSES_TEXT_MAX];
    char long_row[4096];
    memset(long_row, 'x', sizeof long_row);
    assert_int_equal(mob_losses_row_time(NULL, 0), 0);
    assert_int_equal(mob_losses_row_time("{}", 2), 0);
    assert_int_equal(mob_losses_row_time(long_row, sizeof long_row), 0);
    assert_int_equal(mob_losses_row_time("\"wall_ns\":", 10), 0);
    assert_int_equal(mob_losses_row_time("{\"kind\":\"later\",\"wall_ns\":12}", 29), 12);
    assert_string_equal(mob_losses_text("task", 1000000000 * MOB_SEC, text),
        "no log knows this task; the control store named a loss of acknowledged records at "
        "2001-09-09T01:46:40Z, and it may have been among them: see `mobula gcs status`");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_before_it_was_read),
        cmocka_unit_test(newest_of_all_shards_counts),
        cmocka_unit_test(no_log_stands_in_what_a_client_lost),
        cmocka_unit_test(what_would_have_aged_out_does_not_count),
        cmocka_unit_test(all_who_wait_share_a_reading),
        cmocka_unit_test(only_new_rows_are_read_again_of_the_same_chain),
        cmocka_unit_test(another_chain_is_read_from_its_beginning),
        cmocka_unit_test(chain_that_changes_while_it_is_read_is_read_again),
        cmocka_unit_test(error_is_told_and_nothing_is_known),
        cmocka_unit_test(who_waits_at_the_end_is_told),
        cmocka_unit_test(rows_of_any_form_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
