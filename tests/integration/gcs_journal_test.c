/* ctest: timeout=300
 * What goes to the journal of a member's store (gcs/shard/journal.c) is there after every kind of end: small
 * values, large ones beside them, deletions, replies, clients that are gone; while its oldest segments go,
 * and from a store of a version that had none. Seeded (MOBULA_SEED).
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/shard/redis_conf.h"
#include "gcs/shard/redis_keys.h"
#include "gcs/shard/redis_link.h"
#include "tests/support/gcs_box.h"
#include "tests/support/xorshift.h"

#define DEADLINE_NS (60 * MOB_SEC)
#define KEYS 300u
#define IN_FLIGHT 32u
#define LARGE_BYTES 3000u /* of these the tables keep the length only */
#define INLINE_BYTES 1024u

static uint64_t seed = 1;
static uint32_t below(uint32_t n)
{
    return (uint32_t)(xorshift(&seed) % n);
}

/* What a key is to have; `fill` is each byte of the value. */
struct model {
    bool exists;
    uint64_t version;
    uint32_t length;
    uint8_t fill;
};
struct world {
    struct gcs_box box;
    struct mob_gcs *gcs;
    struct model keys[KEYS];
    uint32_t pending;
};
struct operation {
    struct world *world;
    uint32_t key;
    struct model after;
};

static uint32_t key_of(uint32_t i, char out[32])
{
    return (uint32_t)snprintf(out, 32, "key-%u", i);
}

static void on_done(void *arg, const struct mob_gcs_answer *a)
{
    struct operation *op = arg;
    struct model *m = &op->world->keys[op->key];
    if (op->after.exists)
        assert_int_equal(a->status, MOB_OK);
    else
        assert_int_equal(a->status, m->exists ? MOB_OK : MOB_NOT_FOUND);
    *m = op->after;
    m->version = a->version;
    op->world->pending--;
    free(op);
}

static uint32_t some_length(void)
{
    switch (below(8)) {
    case 0:
        return LARGE_BYTES;
    case 1:
        return INLINE_BYTES +
            below(2); /* the last one that the tables hold, and the first that they do not */
    default:
        return below(400);
    }
}

static void operate(struct world *w)
{
    static uint8_t value[LARGE_BYTES];
    char key[32];
    struct operation *op = malloc(sizeof *op);
    assert_non_null(op);
    *op = (struct operation){.world = w, .key = below(KEYS)};
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = key,
        .key_length = key_of(op->key, key),
        .if_version = MOB_GCS_ANY_VERSION};
    w->pending++;
    if (below(5) == 0) {
        assert_int_equal(mob_gcs_delete(w->gcs, &put, on_done, op), MOB_OK);
        return;
    }
    op->after = (struct model){.exists = true, .length = some_length(), .fill = (uint8_t)below(256)};
    memset(value, op->after.fill, op->after.length);
    put.value = value;
    put.value_length = op->after.length;
    assert_int_equal(mob_gcs_put(w->gcs, &put, on_done, op), MOB_OK);
}

static void operate_many(struct world *w, uint32_t count)
{
    int64_t deadline = mob_now() + DEADLINE_NS;
    while (count > 0 || w->pending > 0) {
        for (; count > 0 && w->pending < IN_FLIGHT; count--)
            operate(w);
        bool never = false;
        (void)!mob_gcs_run_until(w->gcs, &never, mob_now() + MOB_MS);
        if (mob_now() > deadline)
            fail_msg("%u operations have no answer", w->pending);
    }
}

static void check(struct world *w)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        struct mob_gcs_result *result = NULL;
        const struct model *m = &w->keys[i];
        char key[32];
        enum mob_status status =
            mob_gcs_get_wait(w->gcs, MOB_GCS_KV, key, key_of(i, key), mob_now() + DEADLINE_NS, &result);
        assert_int_equal(status, m->exists ? MOB_OK : MOB_NOT_FOUND);
        if (m->exists) {
            const struct mob_gcs_kv *kv = &mob_gcs_result_answer(result)->kvs[0];
            assert_int_equal(kv->version, m->version);
            assert_int_equal(kv->value_length, m->length);
            for (uint32_t b = 0; b < m->length; b++)
                assert_int_equal(((const uint8_t *)kv->value)[b], m->fill);
        }
        mob_gcs_result_destroy(result);
    }
}

static void world_open(struct world *w)
{
    static const char *const flags[] = {
        "--gcs-collect-ms", "300", "--gcs-soft-bytes", "8MiB", "--gcs-hard-bytes", "1GiB"};
    *w = (struct world){0};
    gcs_box_init(&w->box, "everysec");
    memcpy(w->box.args, flags, sizeof flags); /* a small cap: a small journal */
}

static void world_close(struct world *w)
{
    mob_gcs_destroy(w->gcs);
    gcs_box_fini(&w->box);
}

/* ---- its Redis, read past the member ---- */

static redisContext *redis_of(const struct gcs_box *box)
{
    char path[128], socket[128], password[160];
    snprintf(path, sizeof path, "%s/" MOB_REDIS_PASSWORD_NAME, box->directory);
    snprintf(socket, sizeof socket, "%s/" MOB_REDIS_SOCKET_NAME, box->directory);
    assert_int_equal(mob_redis_password_read(path, password, sizeof password), MOB_OK);
    struct mob_redis_options options = {socket, MOB_REDIS_USER, password};
    redisContext *redis = NULL;
    for (int64_t deadline = mob_now() + DEADLINE_NS; redis == NULL && mob_now() < deadline;)
        (void)!mob_redis_connect(&options, &redis);
    assert_non_null(redis);
    return redis;
}

static redisReply *ask(redisContext *redis, const char *command, const void *key, size_t length)
{
    char format[64];
    snprintf(format, sizeof format, "%s %%b", command);
    redisReply *reply = redisCommand(redis, format, key, length);
    assert_non_null(reply);
    return reply;
}

static void set(redisContext *redis, const void *key, size_t key_length, const void *value, size_t length)
{
    redisReply *reply = redisCommand(redis, "SET %b %b", key, key_length, value, length);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_STATUS);
    freeReplyObject(reply);
}

static uint64_t first_segment(redisContext *redis)
{
    uint64_t first = 0;
    redisReply *reply = ask(redis, "GET", "J", 1);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_int_equal(reply->len, sizeof first);
    memcpy(&first, reply->str, sizeof first);
    freeReplyObject(reply);
    return first;
}

static bool format_is(redisContext *redis, const char *format)
{
    redisReply *reply = ask(redis, "GET", "format", 6);
    bool is = reply->type == REDIS_REPLY_STRING && strcmp(reply->str, format) == 0;
    freeReplyObject(reply);
    return is;
}

static bool is_there(redisContext *redis, char kind, uint64_t number)
{
    uint8_t key[9];
    mob_redis_key(key, kind, number);
    redisReply *reply = ask(redis, "GET", key, sizeof key);
    bool is = reply->type == REDIS_REPLY_STRING;
    freeReplyObject(reply);
    return is;
}

/* ---- the tests ---- */

/* Clients that come, write and go: their replies must go with them. */
static void visit(struct world *w)
{
    struct mob_gcs *gcs = gcs_box_client(&w->box);
    uint64_t version;
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = "visitors",
        .key_length = 8,
        .value = "x",
        .value_length = 1,
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &put, mob_now() + DEADLINE_NS, &version), MOB_OK);
    assert_int_equal(mob_gcs_leave_wait(gcs, mob_now() + DEADLINE_NS), MOB_OK);
    mob_gcs_destroy(gcs);
}

/* The member alone dies, and its Redis goes on: nothing can be missing, so the tables are the same to the
 * bit.
 */
static void member_dies(struct world *w)
{
    for (int i = 0; i < 3; i++)
        visit(w);
    struct mob_gcs_stats before, again;
    do { /* visitors are expired a moment later */
        before = gcs_box_stats(w->gcs);
        again = gcs_box_stats(w->gcs);
    } while (before.clients != 1 || before.applied != again.applied);
    gcs_box_end(&w->box.gcs, SIGKILL);
    gcs_box_start_gcs(&w->box);
    struct mob_gcs_stats after = gcs_box_stats(w->gcs);
    assert_int_equal(after.epoch, before.epoch);
    assert_int_equal(after.applied, before.applied);
    assert_int_equal(after.keys, before.keys);
    assert_int_equal(after.clients, before.clients);
    assert_int_equal(after.state_digest, before.state_digest);
}

static void what_was_answered_is_there_after_every_end(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w);
    gcs_box_start(&w.box);
    w.gcs = gcs_box_client(&w.box);
    for (int round = 0; round < 8; round++) {
        operate_many(&w, 700);
        switch (round % 4) {
        case 0:
            member_dies(&w);
            break;
        case 1: /* Redis: what it had not got is given to it again */
            gcs_box_end(&w.box.redis, SIGKILL);
            gcs_box_start_redis(&w.box);
            break;
        case 2: /* both: clients are asked for what they keep */
            gcs_box_end(&w.box.gcs, SIGKILL);
            gcs_box_end(&w.box.redis, SIGKILL);
            gcs_box_start(&w.box);
            break;
        default: /* a clean stop */
            assert_int_equal(gcs_box_end(&w.box.gcs, SIGTERM), 0);
            gcs_box_end(&w.box.redis, SIGTERM);
            gcs_box_start(&w.box);
            break;
        }
        check(&w);
    }
    redisContext *redis = redis_of(&w.box);
    uint64_t first = first_segment(redis);
    assert_true(first > 1); /* segments have gone */
    for (uint64_t n = 1; n < first; n++)
        assert_false(is_there(redis, 'j', n));
    assert_true(is_there(redis, 'j', first));
    assert_true(format_is(redis, MOB_REDIS_FORMAT));
    redisFree(redis);
    world_close(&w);
}

/* Rows as format 2 has them: they are read, the journal stands over them, and the store then says so. */
static void a_store_without_a_journal_is_taken_over(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w);
    gcs_box_start_redis(&w.box);
    redisContext *redis = redis_of(&w.box);
    struct mob_redis_position position = {.epoch = 1, .seq = 9};
    uint8_t value[8 + 5] = {7}, key[2 + 32] = {'k', MOB_GCS_KV};
    memcpy(value + 8, "hello", 5);
    set(redis, "format", 6, "mobula-gcs 2", 12);
    set(redis, "s", 1, &position, sizeof position);
    for (uint32_t i = 1; i <= 3; i++) {
        uint32_t length = key_of(i, (char *)(key + 2));
        set(redis, key, 2 + length, value, sizeof value);
    }
    gcs_box_start_gcs(&w.box);
    w.gcs = gcs_box_client(&w.box);
    uint64_t version;
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = "key-2",
        .key_length = 5,
        .value = "later",
        .value_length = 5,
        .if_version = 7};
    assert_int_equal(mob_gcs_put_wait(w.gcs, &put, mob_now() + DEADLINE_NS, &version), MOB_OK);
    assert_true(version > 9);
    gcs_box_end(&w.box.gcs, SIGKILL);
    gcs_box_start_gcs(&w.box);
    static const char *const values[] = {"hello", "later", "hello"};
    for (uint32_t i = 0; i < 3; i++) {
        struct mob_gcs_result *result = NULL;
        key_of(i + 1, (char *)(key + 2));
        assert_int_equal(
            mob_gcs_get_wait(w.gcs, MOB_GCS_KV, key + 2, 5, mob_now() + DEADLINE_NS, &result), MOB_OK);
        assert_int_equal(mob_gcs_result_answer(result)->kvs[0].version, i == 1 ? version : 7);
        assert_memory_equal(mob_gcs_result_answer(result)->kvs[0].value, values[i], 5);
        mob_gcs_result_destroy(result);
    }
    assert_true(format_is(redis, MOB_REDIS_FORMAT));
    redisFree(redis);
    world_close(&w);
}

static void wait_until_it_ends(struct gcs_box *box)
{
    int64_t deadline = mob_now() + DEADLINE_NS;
    while (!gcs_box_ended(&box->gcs) && mob_now() < deadline)
        poll(NULL, 0, 5);
    assert_true(mob_now() < deadline);
}

/* What cannot be read is not served as if it were not there. */
static void a_journal_that_is_no_journal_is_refused(void **state)
{
    (void)state;
    static struct world w;
    world_open(&w);
    gcs_box_start(&w.box);
    w.gcs = gcs_box_client(&w.box);
    operate_many(&w, 20);
    mob_gcs_destroy(w.gcs);
    gcs_box_end(&w.box.gcs, SIGKILL);
    redisContext *redis = redis_of(&w.box);
    uint8_t key[9];
    mob_redis_key(key, 'j', first_segment(redis));
    redisReply *reply = ask(redis, "GET", key, sizeof key);
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    set(redis, key, sizeof key, reply->str, (size_t)reply->len - 1); /* its last byte is missing */
    freeReplyObject(reply);
    redisFree(redis);
    gcs_box_spawn_gcs(&w.box);
    wait_until_it_ends(&w.box);
    w.gcs = NULL;
    world_close(&w);
}

/* ---- a store that lacks what it had ---- */

static enum mob_status read_key(struct mob_gcs *gcs, const char *key, uint32_t *length_out)
{
    struct mob_gcs_result *result = NULL;
    enum mob_status status =
        mob_gcs_get_wait(gcs, MOB_GCS_KV, key, (uint32_t)strlen(key), mob_now() + DEADLINE_NS, &result);
    if (status == MOB_OK)
        *length_out = mob_gcs_result_answer(result)->kvs[0].value_length;
    mob_gcs_result_destroy(result);
    return status;
}

static void write_key(struct mob_gcs *gcs, const char *key, uint32_t length)
{
    static const uint8_t value[LARGE_BYTES];
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = key,
        .key_length = (uint32_t)strlen(key),
        .value = value,
        .value_length = length,
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &put, mob_now() + DEADLINE_NS, NULL), MOB_OK);
}

static void lose_key(struct gcs_box *box, const char *name)
{
    redisContext *redis = redis_of(box);
    uint8_t key[2 + 32] = {'k', MOB_GCS_KV};
    memcpy(key + 2, name, strlen(name));
    redisReply *reply = ask(redis, "UNLINK", key, 2 + strlen(name));
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    redisFree(redis);
}

static int said(const struct gcs_box *box, const char *text)
{
    char path[128], line[1024];
    int times = 0;
    snprintf(path, sizeof path, "%s/gcs.log", box->directory);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        times += strstr(line, text) != NULL;
    fclose(file);
    return times;
}

/* It names what is missing and does not start, since a person may still have it. Told to go on without it, it
 * does so for good; what was deleted, or written since, is missed by nobody. */
static void a_store_that_lacks_a_value_starts_when_a_person_says_so(void **state)
{
    (void)state;
    static struct world w;
    uint32_t length = 0;
    world_open(&w);
    gcs_box_start(&w.box);
    w.gcs = gcs_box_client(&w.box);
    write_key(w.gcs, "deleted", LARGE_BYTES);
    struct mob_gcs_put deleted = {
        .table = MOB_GCS_KV, .key = "deleted", .key_length = 7, .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_delete(w.gcs, &deleted, NULL, NULL), MOB_OK);
    write_key(w.gcs, "small", 5);
    write_key(w.gcs, "kept", LARGE_BYTES);
    write_key(w.gcs, "lost", LARGE_BYTES);
    write_key(w.gcs, "lost", LARGE_BYTES - 1);
    gcs_box_end(&w.box.gcs, SIGKILL);
    lose_key(&w.box, "lost");
    gcs_box_spawn_gcs(&w.box);
    wait_until_it_ends(&w.box);
    assert_int_equal(said(&w.box, "stored_value_lost table=1 key=\"lost\""), 1);
    assert_int_equal(said(&w.box, "stored_value_lost"), 1);
    assert_int_equal(said(&w.box, "store_lacks_values values=1 goes_on=0"), 1);
    w.box.args[0] = "--gcs-start-without-all";
    w.box.args[1] = "on";
    gcs_box_start_gcs(&w.box);
    assert_int_equal(said(&w.box, "store_lacks_values values=1 goes_on=1"), 1);
    assert_int_equal(read_key(w.gcs, "lost", &length), MOB_NOT_FOUND);
    assert_int_equal(read_key(w.gcs, "small", &length), MOB_OK);
    assert_int_equal(read_key(w.gcs, "kept", &length), MOB_OK);
    assert_int_equal(length, LARGE_BYTES);
    gcs_box_end(&w.box.gcs, SIGKILL);
    w.box.args[0] = w.box.args[1] = NULL;
    gcs_box_start_gcs(&w.box); /* it was said once */
    assert_int_equal(read_key(w.gcs, "lost", &length), MOB_NOT_FOUND);
    write_key(w.gcs, "lost", LARGE_BYTES);
    gcs_box_end(&w.box.gcs, SIGKILL);
    gcs_box_start_gcs(&w.box);
    assert_int_equal(read_key(w.gcs, "lost", &length), MOB_OK);
    assert_int_equal(length, LARGE_BYTES);
    world_close(&w);
}

int main(void)
{
    const char *text = getenv("MOBULA_SEED");
    seed = text == NULL ? 20250214 : strtoull(text, NULL, 10) | 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_answered_is_there_after_every_end),
        cmocka_unit_test(a_store_without_a_journal_is_taken_over),
        cmocka_unit_test(a_journal_that_is_no_journal_is_refused),
        cmocka_unit_test(a_store_that_lacks_a_value_starts_when_a_person_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
