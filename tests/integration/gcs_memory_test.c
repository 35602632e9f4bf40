/* ctest: timeout=120
 * Memory of a chain's members is not the same in all: the caps count the fullest one, wherever it is.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/shard/redis_conf.h"
#include "gcs/shard/redis_link.h"
#include "tests/support/chain_box.h"

#define DEADLINE (mob_now() + 30 * MOB_SEC)
#define FILLERS 4
#define FILLER_BYTES (10u << 20)

static struct mob_gcs *open_chain(struct chain_box *box, uint32_t members)
{
    chain_box_init(box, members, members, "everysec");
    box->soft_bytes = "20000000";
    box->hard_bytes = "30000000";
    box->lease_ms = 900; /* nobody dies here, nor is to be taken for dead */
    box->suspicion_ms = 1000;
    chain_box_start(box);
    assert_true(chain_box_wait_length(box, members, DEADLINE));
    return chain_box_client(box);
}

static redisContext *redis_of(const struct gcs_box *member)
{
    char path[128], socket[128], password[160];
    snprintf(path, sizeof path, "%s/" MOB_REDIS_PASSWORD_NAME, member->directory);
    snprintf(socket, sizeof socket, "%s/" MOB_REDIS_SOCKET_NAME, member->directory);
    assert_int_equal(mob_redis_password_read(path, password, sizeof password), MOB_OK);
    struct mob_redis_options options = {socket, MOB_REDIS_USER, password};
    redisContext *redis;
    assert_int_equal(mob_redis_connect(&options, &redis), MOB_OK);
    return redis;
}

/* What is no row of anybody's, behind the member's back. */
static void fill(redisContext *redis)
{
    char *bytes = calloc(FILLER_BYTES, 1);
    assert_non_null(bytes);
    for (int i = 0; i < FILLERS; i++) {
        redisReply *reply = redisCommand(redis, "SET filler-%d %b", i, bytes, (size_t)FILLER_BYTES);
        assert_non_null(reply);
        assert_int_equal(reply->type, REDIS_REPLY_STATUS);
        freeReplyObject(reply);
    }
    free(bytes);
}

static void make_room(redisContext *redis)
{
    for (int i = 0; i < FILLERS; i++) {
        redisReply *reply = redisCommand(redis, "UNLINK filler-%d", i);
        assert_non_null(reply);
        assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
        assert_int_equal(reply->integer, 1);
        freeReplyObject(reply);
    }
}

static enum mob_status put(struct mob_gcs *gcs)
{
    struct mob_gcs_put one = {.table = MOB_GCS_KV,
        .key = "k",
        .key_length = 1,
        .value = "v",
        .value_length = 1,
        .if_version = MOB_GCS_ANY_VERSION};
    return mob_gcs_put_wait(gcs, &one, DEADLINE, NULL);
}

static void wait_until_put(struct mob_gcs *gcs, enum mob_status wanted)
{
    enum mob_status status = put(gcs);
    for (int64_t deadline = DEADLINE; status != wanted; status = put(gcs)) {
        assert_true(status == MOB_OK || status == MOB_GCS_FULL);
        assert_true(mob_now() < deadline);
        poll(NULL, 0, 5);
    }
}

static struct mob_gcs_position position(struct mob_gcs *gcs)
{
    struct mob_gcs_position at;
    mob_gcs_position(gcs, &at);
    return at;
}

/* The others go on measuring themselves, and saying that they have room: that changes nothing. */
static void stays_full(struct mob_gcs *gcs)
{
    for (int64_t until = mob_now() + 3 * MOB_SEC; mob_now() < until; poll(NULL, 0, 5)) {
        assert_int_equal(put(gcs), MOB_GCS_FULL);
        struct mob_gcs_position at = position(gcs);
        if (!at.pressure || at.memory_bytes <= at.memory_hard_bytes)
            fail_msg("it holds %llu bytes, with caps of %llu and %llu", (unsigned long long)at.memory_bytes,
                (unsigned long long)at.memory_soft_bytes, (unsigned long long)at.memory_hard_bytes);
    }
}

/* Of a chain of so many, the one at a place. */
static void one_is_full(uint32_t members, uint32_t place)
{
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, members);
    int head = chain_box_place(&box, false), tail = chain_box_place(&box, true);
    int slot = place == 0 ? head : place == members - 1 ? tail : 3 - head - tail;
    assert_true(slot >= 0 && slot < (int)members);
    assert_int_equal(put(gcs), MOB_OK);
    assert_false(position(gcs).pressure);
    redisContext *redis = redis_of(&box.member[slot]);
    fill(redis);
    wait_until_put(gcs, MOB_GCS_FULL);
    stays_full(gcs);
    make_room(redis);
    wait_until_put(gcs, MOB_OK);
    for (int64_t deadline = DEADLINE; position(gcs).pressure; gcs_box_step(gcs, 5))
        assert_true(mob_now() < deadline);
    assert_int_equal(put(gcs), MOB_OK);
    redisFree(redis);
    mob_gcs_destroy(gcs);
    chain_box_fini(&box);
}

static void a_tail_alone_above_the_cap_counts(void **state)
{
    (void)state;
    one_is_full(2, 1);
}

static void a_head_alone_above_the_cap_counts(void **state)
{
    (void)state;
    one_is_full(2, 0);
}

/* No client has a link to it. */
static void a_middle_alone_above_the_cap_counts(void **state)
{
    (void)state;
    one_is_full(3, 1);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_alone_above_the_cap_counts),
        cmocka_unit_test(a_head_alone_above_the_cap_counts),
        cmocka_unit_test(a_middle_alone_above_the_cap_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
