/* ctest: timeout=180
 * Clients that write as fast as they can while a member joins a chain: it gets in, and each of them goes on.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/client/member_link.h"
#include "tests/support/chain_box.h"

#define WRITERS 60
#define DEADLINE (mob_now() + 60 * MOB_SEC)
#define LARGE_BYTES (512u << 10)
#define LARGE_COUNT 150u /* values, a batch of the snapshot each */
#define SLOW_ROWS "gcs.joiner_rows=delay:25" /* so it takes some 4 s */
#define VALUE_BYTES (16u << 10) /* of a writer: more than a joiner's log may grow by, on any machine */
#define LOOK_NS (20 * MOB_MS)

/* One put in flight. */
struct writer {
    struct mob_gcs *gcs;
    uint32_t key;
    bool answered;
    uint64_t answers;
};

static void on_answer(void *arg, const struct mob_gcs_answer *a)
{
    struct writer *w = arg;
    assert_int_equal(a->status, MOB_OK);
    w->answered = true;
    w->answers++;
}

static void put(struct writer *w)
{
    static const uint8_t value[VALUE_BYTES];
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = &w->key,
        .key_length = sizeof w->key,
        .value = value,
        .value_length = sizeof value,
        .if_version = MOB_GCS_ANY_VERSION};
    w->answered = false;
    assert_int_equal(mob_gcs_put(w->gcs, &put, on_answer, w), MOB_OK);
    mob_gcs_send(w->gcs);
}

struct writers {
    struct writer each[WRITERS];
    int epoll_fd;
    struct mob_gcs *asks;
    bool source_seen;
};

static void open_writers(struct writers *all, struct chain_box *box)
{
    *all = (struct writers){.epoll_fd = epoll_create1(EPOLL_CLOEXEC), .asks = chain_box_client(box)};
    for (uint32_t i = 0; i < WRITERS; i++) {
        struct writer *w = &all->each[i];
        struct mob_gcs_options options = {.socket_path = box->clients,
            .secret = gcs_box_secret,
            .watch_fd = all->epoll_fd,
            .watch_data = i};
        *w = (struct writer){.key = i};
        assert_int_equal(mob_gcs_create(&options, &w->gcs), MOB_OK);
        put(w);
    }
}

static void turn(struct writers *all)
{
    struct epoll_event events[WRITERS];
    (void)epoll_wait(all->epoll_fd, events, WRITERS, 1);
    for (uint32_t i = 0; i < WRITERS; i++) { /* all: one that has lost its link waits for a time */
        struct writer *w = &all->each[i];
        mob_gcs_step(w->gcs, mob_now());
        if (w->answered)
            put(w);
    }
}

/* What the tail says of the join. */
static void note_source(struct writers *all)
{
    all->source_seen |= gcs_box_stats(all->asks).joiner != 0;
}

/* How long its clients have waited, says the head. */
static uint64_t paced_ms(struct chain_box *box)
{
    struct mob_member_link *link;
    struct mob_gcs_stats stats;
    int head = chain_box_place(box, false);
    assert_int_equal(gcs_box_member(box->member[head].socket, 0, &link), MOB_OK);
    assert_int_equal(mob_member_stats(link, &stats), MOB_OK);
    mob_member_close(link);
    return stats.paced_ms;
}

static void write_until_length(struct writers *all, struct chain_box *box, uint32_t length)
{
    int64_t deadline = DEADLINE, look = 0;
    while (mob_now() < look || !chain_box_wait_length(box, length, mob_now() - 1)) {
        if (mob_now() >= look) {
            look = mob_now() + LOOK_NS;
            note_source(all);
        }
        assert_true(mob_now() < deadline);
        turn(all);
    }
}

static void close_writers(struct writers *all)
{
    for (uint32_t i = 0; i < WRITERS; i++)
        mob_gcs_destroy(all->each[i].gcs);
    mob_gcs_destroy(all->asks);
    close(all->epoll_fd);
}

static void fill(struct chain_box *box)
{
    struct mob_gcs *gcs = chain_box_client(box);
    uint8_t *value = calloc(1, LARGE_BYTES);
    for (uint32_t i = 0; i < LARGE_COUNT; i++) {
        uint32_t key = 1000 + i;
        struct mob_gcs_put large = {.table = MOB_GCS_KV,
            .key = &key,
            .key_length = sizeof key,
            .value = value,
            .value_length = LARGE_BYTES,
            .if_version = MOB_GCS_ANY_VERSION};
        assert_int_equal(mob_gcs_put_wait(gcs, &large, DEADLINE, NULL), MOB_OK);
    }
    free(value);
    mob_gcs_destroy(gcs);
}

/* The fewest answers of a client in `*least_out`, the most in `*most_out`, since `before`. */
static void compare(
    const struct writers *all, const uint64_t *before, uint64_t *least_out, uint64_t *most_out)
{
    *least_out = UINT64_MAX;
    *most_out = 0;
    for (uint32_t i = 0; i < WRITERS; i++) {
        uint64_t answers = all->each[i].answers - before[i];
        *least_out = answers < *least_out ? answers : *least_out;
        *most_out = answers > *most_out ? answers : *most_out;
    }
}

/* A member of a chain of `members` is killed and joins as a new one. */
static void join_beside_writers(uint32_t members)
{
    static struct writers all;
    struct chain_box box;
    uint64_t before[WRITERS], least, most;
    chain_box_init(&box, members, members, "everysec");
    chain_box_start(&box);
    assert_true(chain_box_wait_length(&box, members, DEADLINE));
    fill(&box);
    open_writers(&all, &box);
    int slot = chain_box_place(&box, true);
    gcs_box_end(&box.member[slot].gcs, SIGKILL);
    write_until_length(&all, &box, members - 1);
    for (uint32_t i = 0; i < WRITERS; i++)
        before[i] = all.each[i].answers;
    box.member[slot].failpoints = SLOW_ROWS;
    chain_box_start_member(&box, (uint32_t)slot);
    write_until_length(&all, &box, members);
    compare(&all, before, &least, &most);
    uint64_t paced = paced_ms(&box);
    print_message("answers of a client: %lu to %lu; paced %lu ms\n", least, most, paced);
    assert_true(all.source_seen);
    assert_true(paced > 0);
    close_writers(&all);
    chain_box_fini(&box);
    assert_true(least > 0);
    assert_true(most <= 3 * least);
}

static void clients_of_the_source_share_what_may_be_written(void **state)
{
    (void)state;
    join_beside_writers(2);
}

/* They write to the head, and the tail is the source. */
static void clients_of_the_head_share_what_may_be_written(void **state)
{
    (void)state;
    join_beside_writers(3);
}

static void put_some(struct mob_gcs *gcs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mob_gcs_put one = {.table = MOB_GCS_KV,
            .key = &i,
            .key_length = sizeof i,
            .value = &i,
            .value_length = sizeof i,
            .if_version = MOB_GCS_ANY_VERSION};
        assert_int_equal(mob_gcs_put_wait(gcs, &one, DEADLINE, NULL), MOB_OK);
    }
}

static struct mob_gcs_stats stats_of(struct mob_member_link *link)
{
    struct mob_gcs_stats stats;
    assert_int_equal(mob_member_stats(link, &stats), MOB_OK);
    return stats;
}

/* It has taken the snapshot, which is on its disk, and no master is there that would append it. Its Redis
 * stands still, and it goes on saying what it has. */
static void nobody_waits_for_a_joiner_whose_redis_hangs(void **state)
{
    struct chain_box box;
    struct mob_member_link *link;
    (void)state;
    chain_box_init(&box, 2, 2, "everysec");
    chain_box_start(&box);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    fill(&box);
    struct mob_gcs *gcs = chain_box_client(&box);
    int slot = chain_box_place(&box, true);
    gcs_box_end(&box.member[slot].gcs, SIGKILL);
    assert_true(chain_box_wait_length(&box, 1, DEADLINE));
    box.member[slot].failpoints = SLOW_ROWS; /* so that the masters end before it has all */
    chain_box_start_member(&box, (uint32_t)slot);
    for (int64_t deadline = DEADLINE; gcs_box_stats(gcs).joiner == 0; gcs_box_step(gcs, 5))
        assert_true(mob_now() < deadline);
    for (uint32_t i = 0; i < box.masters; i++)
        gcs_box_end(&box.master[i], SIGKILL);
    assert_int_equal(gcs_box_member(box.member[slot].socket, 0, &link), MOB_OK);
    for (int64_t deadline = DEADLINE; stats_of(link).applied == 0; gcs_box_step(gcs, 5))
        assert_true(mob_now() < deadline);
    uint64_t syncs = stats_of(link).syncs;
    for (int64_t deadline = DEADLINE; stats_of(link).syncs < syncs + 2; gcs_box_step(gcs, 5)) {
        put_some(gcs, 1);
        assert_true(mob_now() < deadline);
    }
    assert_int_equal(kill(box.member[slot].redis, SIGSTOP), 0);
    int64_t begun = mob_now();
    put_some(gcs, 1000);
    print_message("1000 puts: %ld ms\n", (long)((mob_now() - begun) / MOB_MS));
    mob_member_close(link);
    mob_gcs_destroy(gcs);
    chain_box_fini(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_of_the_source_share_what_may_be_written),
        cmocka_unit_test(clients_of_the_head_share_what_may_be_written),
        cmocka_unit_test(nobody_waits_for_a_joiner_whose_redis_hangs),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests_name("gcs_join_pace", tests, NULL, NULL);
}
