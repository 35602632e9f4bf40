/* ctest: timeout=120
 * A chain of two members as processes, with their own Redis and a master: writes, reads, streams, and what
 * happens when one of them is killed.
 */
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/shard/redis_conf.h"
#include "gcs/shard/redis_keys.h"
#include "gcs/shard/redis_link.h"
#include "tests/support/chain_box.h"
#include "tests/support/raw_reader.h"
#include "tests/support/scratch.h"

#define DEADLINE (mob_now() + 30 * MOB_SEC)

/* As many members as there are processes, all of which serve; a client. */
static struct mob_gcs *open_chain(struct chain_box *box, uint32_t members)
{
    chain_box_init(box, members, members, "everysec");
    chain_box_start(box);
    assert_true(chain_box_wait_length(box, members, DEADLINE));
    return chain_box_client(box);
}

static void close_chain(struct chain_box *box, struct mob_gcs *gcs)
{
    mob_gcs_destroy(gcs);
    chain_box_fini(box);
}

static void put_number(struct mob_gcs *gcs, uint32_t key, uint32_t value)
{
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = &key,
        .key_length = sizeof key,
        .value = &value,
        .value_length = sizeof value,
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &put, DEADLINE, NULL), MOB_OK);
}

static uint32_t get_number(struct mob_gcs *gcs, uint32_t key)
{
    struct mob_gcs_result *result;
    uint32_t value = 0;
    assert_int_equal(mob_gcs_get_wait(gcs, MOB_GCS_KV, &key, sizeof key, DEADLINE, &result), MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
    assert_int_equal(a->kv_count, 1);
    memcpy(&value, a->kvs[0].value, sizeof value);
    mob_gcs_result_destroy(result);
    return value;
}

/* i + 1 under each key i. */
static void put_numbers(struct mob_gcs *gcs, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++)
        put_number(gcs, i, i + 1);
}

static void two_members_take_writes_and_answer_reads(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 2);
    for (uint32_t i = 0; i < 200; i++)
        put_number(gcs, i, i * 3);
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(get_number(gcs, i), i * 3);
    close_chain(&box, gcs);
}

/* Kills one member; what was written is there, and the chain is whole again with the member's next life. */
static void kill_one(bool tail)
{
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 2);
    put_numbers(gcs, 0, 100);
    int slot = chain_box_place(&box, tail);
    assert_true(slot >= 0);
    gcs_box_end(&box.member[slot].gcs, SIGKILL);
    put_numbers(gcs, 100, 200);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    put_numbers(gcs, 200, 300);
    /* the other one goes, too: what is left is the member that joined */
    gcs_box_end(&box.member[1 - slot].gcs, SIGKILL);
    gcs_box_end(&box.member[1 - slot].redis, SIGKILL);
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(get_number(gcs, i), i + 1);
    close_chain(&box, gcs);
}

static void a_killed_head_is_replaced(void **state)
{
    (void)state;
    kill_one(false);
}

static void a_killed_tail_is_replaced(void **state)
{
    (void)state;
    kill_one(true);
}

/* ---- bounds ---- */

/* The largest value under the longest key is in one batch of the snapshot that the joiner takes. */
static void the_largest_value_comes_with_a_snapshot(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 2);
    static uint8_t key[MOB_GCS_KEY_MAX], value[MOB_GCS_VALUE_MAX];
    memset(key, 'k', sizeof key);
    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (uint8_t)(i * i >> 7);
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = key,
        .key_length = sizeof key,
        .value = value,
        .value_length = sizeof value,
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &put, DEADLINE, NULL), MOB_OK);
    int slot = chain_box_place(&box, true);
    assert_true(slot >= 0);
    gcs_box_end(&box.member[slot].gcs, SIGKILL);
    put_number(gcs, 1, 1);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    gcs_box_end(&box.member[1 - slot].gcs, SIGKILL); /* what is left is the member that joined */
    gcs_box_end(&box.member[1 - slot].redis, SIGKILL);
    struct mob_gcs_result *result;
    assert_int_equal(mob_gcs_get_wait(gcs, MOB_GCS_KV, key, sizeof key, DEADLINE, &result), MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
    assert_int_equal(a->kv_count, 1);
    assert_int_equal(a->kvs[0].value_length, sizeof value);
    assert_memory_equal(a->kvs[0].value, value, sizeof value);
    mob_gcs_result_destroy(result);
    close_chain(&box, gcs);
}

/* What is answered and not durable yet, which a client keeps, is not what its limit counts. */
static void who_waits_for_each_answer_meets_no_limit(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 1);
    put_numbers(gcs, 0, 2 * MOB_GCS_OPS_MAX); /* a fraction of the second after which they are durable */
    assert_int_equal(get_number(gcs, 2 * MOB_GCS_OPS_MAX - 1), 2 * MOB_GCS_OPS_MAX);
    close_chain(&box, gcs);
}

/* ---- a member whose Redis lost something ---- */

#define LARGE_BYTES 4096u /* more than the tables hold: it is in Redis only */

static void put_large(struct mob_gcs *gcs, uint32_t key, uint8_t fill)
{
    uint8_t value[LARGE_BYTES];
    memset(value, fill, sizeof value);
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = &key,
        .key_length = sizeof key,
        .value = value,
        .value_length = sizeof value,
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(gcs, &put, DEADLINE, NULL), MOB_OK);
}

static void check_large(struct mob_gcs *gcs, uint32_t key, uint8_t fill)
{
    struct mob_gcs_result *result;
    assert_int_equal(mob_gcs_get_wait(gcs, MOB_GCS_KV, &key, sizeof key, DEADLINE, &result), MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
    assert_int_equal(a->kv_count, 1);
    assert_int_equal(a->kvs[0].value_length, LARGE_BYTES);
    assert_int_equal(a->kvs[0].value[LARGE_BYTES - 1], fill);
    mob_gcs_result_destroy(result);
}

/* Those of the keys from 0 to count - 1, each with bytes of its own; but not that of `lost`. */
#define NONE UINT32_MAX

static void put_larges(struct mob_gcs *gcs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        put_large(gcs, i, (uint8_t)(i + 1));
}

static void check_larges(struct mob_gcs *gcs, uint32_t count, uint32_t lost)
{
    for (uint32_t i = 0; i < count; i++)
        if (i != lost)
            check_large(gcs, i, (uint8_t)(i + 1));
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

/* Takes a row away behind the member's back, as soon as it is there. */
static void lose(const struct gcs_box *member, const uint8_t *row, size_t row_length)
{
    redisContext *redis = redis_of(member);
    long long gone = 0;
    for (int64_t deadline = DEADLINE; gone == 0; poll(NULL, 0, 5)) {
        redisReply *reply = redisCommand(redis, "UNLINK %b", row, row_length);
        assert_non_null(reply);
        assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
        gone = reply->integer;
        freeReplyObject(reply);
        assert_true(mob_now() < deadline);
    }
    redisFree(redis);
}

/* Where Redis has a value. */
struct large_row {
    uint8_t bytes[2 + sizeof(uint32_t)];
};
static struct large_row row_of_large(uint32_t key)
{
    struct large_row row = {{'k', MOB_GCS_KV}};
    memcpy(row.bytes + 2, &key, sizeof key);
    return row;
}

static void lose_large(const struct gcs_box *member, uint32_t key)
{
    struct large_row row = row_of_large(key);
    lose(member, row.bytes, sizeof row.bytes);
}

/* Who is not the tail writes its rows behind the answer: a member that is killed then never has them. */
static void wait_for_large(const struct gcs_box *member, uint32_t key)
{
    redisContext *redis = redis_of(member);
    struct large_row row = row_of_large(key);
    int type = REDIS_REPLY_NIL;
    for (int64_t deadline = DEADLINE; type == REDIS_REPLY_NIL; poll(NULL, 0, 5)) {
        redisReply *reply = redisCommand(redis, "GET %b", row.bytes, sizeof row.bytes);
        assert_non_null(reply);
        type = reply->type;
        freeReplyObject(reply);
        assert_true(mob_now() < deadline);
    }
    assert_int_equal(type, REDIS_REPLY_STRING);
    redisFree(redis);
}

#define BLOCKS 3u

static void on_acked(void *arg, uint64_t count)
{
    *(bool *)arg = count == BLOCKS;
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    fail_msg("sealed at %llu: %s", (unsigned long long)cut, mob_status_code(why));
}

static void append_blocks(struct mob_gcs *gcs)
{
    static bool all_acked;
    uint64_t incarnation;
    struct mob_gcs_log *log;
    struct mob_gcs_log_events events = {on_acked, gcs_block_released, on_sealed, &all_acked};
    all_acked = false;
    assert_int_equal(mob_gcs_node_register_wait(gcs, "node", DEADLINE, &incarnation), MOB_OK);
    assert_int_equal(mob_gcs_log_open(gcs, incarnation, 0, &events, &log), MOB_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct gcs_block_spec spec = {.incarnation = incarnation,
            .sequence = i,
            .job = 1,
            .stream = 1,
            .first_index = i,
            .tasks = 1,
            .specs = true};
        assert_int_equal(mob_gcs_log_append(log, gcs_block_new(&spec)), MOB_OK);
    }
    assert_int_equal(mob_gcs_run_until(gcs, &all_acked, DEADLINE), MOB_OK);
}

/* What one member has; the place of the last one. */
static uint32_t blocks_of(const struct gcs_box *member, uint64_t *last_out)
{
    struct mob_member_link *link;
    struct mob_gcs_block_row *rows = calloc(MOB_GCS_ROWS_MAX, sizeof *rows);
    uint32_t count = 0;
    uint64_t next;
    assert_non_null(rows);
    assert_int_equal(gcs_box_member(member->socket, 0, &link), MOB_OK);
    assert_int_equal(mob_member_scan(link, 0, 0, rows, &count, &next), MOB_OK);
    if (count > 0)
        *last_out = rows[count - 1].seq;
    mob_member_close(link);
    free(rows);
    return count;
}

/* In all its lives. */
static uint32_t says(const struct gcs_box *member, const char *text)
{
    char path[128], line[1024];
    snprintf(path, sizeof path, "%s/gcs.log", member->directory);
    FILE *file = fopen(path, "re");
    uint32_t times = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        times += strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return times;
}

static void fail_with_log(const struct gcs_box *member)
{
    char path[128], line[1024];
    snprintf(path, sizeof path, "%s/gcs.log", member->directory);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        fputs(line, stderr);
    fail_msg("the log above does not say what it is to");
}

static void wait_until_says(struct chain_box *box, int slot, const char *text)
{
    for (int64_t deadline = DEADLINE; says(&box->member[slot], text) == 0; poll(NULL, 0, 10)) {
        assert_true(mob_now() < deadline);
        chain_box_tend(box);
    }
}

static void wait_until_stopped(pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int64_t deadline = DEADLINE; state != 'T'; poll(NULL, 0, 1)) {
        assert_true(mob_now() < deadline);
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
    }
}

/* What Redis gathers of one command for its file it copies again and again as it grows, so one of a hundred
 * MiB took seconds, and as many clients' requests wait behind it. A store that is slow while a snapshot comes
 * is given it in commands of a bounded size all the same. */
static void a_snapshot_is_stored_in_bounded_commands(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 2);
    put_larges(gcs, 1000);
    int slot = chain_box_place(&box, true);
    assert_true(slot >= 0);
    struct gcs_box *joiner = &box.member[slot];
    gcs_box_end(&joiner->gcs, SIGKILL);
    put_number(gcs, 1000, 7); /* the other one is alone */
    joiner->failpoints = "gcs.joiner_rows=stop@1";
    chain_box_start_member(&box, (uint32_t)slot);
    wait_until_stopped(joiner->gcs);
    kill(joiner->redis, SIGSTOP);
    kill(joiner->gcs, SIGCONT);
    wait_until_says(&box, slot, "snapshot_taken");
    kill(joiner->redis, SIGCONT);
    joiner->failpoints = NULL;
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    assert_in_range(gcs_box_largest_command(joiner), 64u << 10, (1u << 20) + (64u << 10));
    assert_true(gcs_box_file_bytes(joiner) > 1000 * LARGE_BYTES);
    close_chain(&box, gcs);
}

/* The only one that is left lacks a value. Nobody becomes a member without it: the chain stays alone and says
 * so, until the value is written again. */
static void a_hole_in_the_only_store_is_not_copied(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 2);
    put_larges(gcs, 8);
    int tail = chain_box_place(&box, true), left = 1 - tail;
    assert_true(tail >= 0);
    lose_large(&box.member[left], 5);
    gcs_box_end(&box.member[tail].gcs, SIGKILL);
    put_number(gcs, 100, 7); /* the other one is alone now */
    wait_until_says(&box, left, "snapshot_row_lost");
    check_larges(gcs, 8, 5);
    put_large(gcs, 5, 99);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    gcs_box_end(&box.member[left].gcs, SIGKILL);
    gcs_box_end(&box.member[left].redis, SIGKILL);
    check_larges(gcs, 8, 5);
    check_large(gcs, 5, 99);
    close_chain(&box, gcs);
}

/* The same, and the value is given up: the store does not start, until a person says that it is to; then it
 * is whole without it, and others join. */
static void a_hole_in_the_only_store_can_be_given_up(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs_result *result = NULL;
    struct mob_gcs *gcs = open_chain(&box, 2);
    put_larges(gcs, 4);
    int tail = chain_box_place(&box, true), left = 1 - tail;
    assert_true(tail >= 0);
    lose_large(&box.member[left], 2);
    gcs_box_end(&box.member[tail].gcs, SIGKILL);
    put_number(gcs, 100, 7);
    wait_until_says(&box, left, "snapshot_row_lost");
    gcs_box_end(&box.member[left].gcs, SIGKILL);
    wait_until_says(&box, left, "store_lacks_values values=1 goes_on=0");
    box.start_without_all = true;
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    check_larges(gcs, 4, 2);
    uint32_t lost = 2;
    assert_int_equal(mob_gcs_get_wait(gcs, MOB_GCS_KV, &lost, sizeof lost, DEADLINE, &result), MOB_NOT_FOUND);
    close_chain(&box, gcs);
}

/* Both died; the head, which comes first among equals, lacks a value and was told to go on without it, and
 * dies once more before it is decided who begins: the other one begins, which has the value. */
static void a_store_that_lacks_a_value_stays_the_shortest(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 2);
    put_larges(gcs, 4);
    int head = chain_box_place(&box, false);
    uint64_t epoch = chain_box_config(&box, 0).epoch;
    assert_true(head >= 0);
    wait_for_large(&box.member[head], 3); /* the last, so all */
    gcs_box_end(&box.master[0], SIGKILL); /* nobody is left out */
    gcs_box_end(&box.member[1 - head].gcs, SIGKILL);
    gcs_box_end(&box.member[head].gcs, SIGKILL);
    lose_large(&box.member[head], 2);
    box.start_without_all = true;
    chain_box_start_member(&box, (uint32_t)head);
    for (int64_t deadline = DEADLINE; says(&box.member[head], "store_lacks_values values=1 goes_on=1") == 0;
         poll(NULL, 0, 10))
        assert_true(mob_now() < deadline);
    gcs_box_end(&box.member[head].gcs, SIGKILL);
    for (int64_t deadline = DEADLINE; chain_box_config(&box, 0).epoch == epoch; poll(NULL, 0, 10)) {
        assert_true(mob_now() < deadline);
        chain_box_tend(&box);
    }
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    check_larges(gcs, 4, NONE);
    close_chain(&box, gcs);
}

static void kill_member(struct gcs_box *member)
{
    gcs_box_end(&member->gcs, SIGKILL);
    gcs_box_end(&member->redis, SIGKILL);
}

/* What Redis keeps of a member: taken away, or put back in the place of what is there. */
static void move_files(const struct gcs_box *member, bool back)
{
    char there[128], away[128];
    snprintf(there, sizeof there, "%s/appendonlydir", member->directory);
    snprintf(away, sizeof away, "%s/away", member->directory);
    assert_true(!back || scratch_remove(there));
    assert_int_equal(rename(back ? away : there, back ? there : away), 0);
}

static bool master_says(const struct chain_box *box, const char *text)
{
    char path[128], line[1024];
    bool said = false;
    snprintf(path, sizeof path, "%s/master.0.log", box->directory);
    FILE *file = fopen(path, "re");
    while (file != NULL && !said && fgets(line, sizeof line, file) != NULL)
        said = strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return said;
}

/* Nothing is served from an empty store; the master says what helps. Between the two kills it may have made a
 * configuration of the second one alone. */
static void a_chain_whose_stores_are_all_empty_waits_for_their_files(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 2);
    put_number(gcs, 1, 7);
    for (int slot = 0; slot < 2; slot++) {
        kill_member(&box.member[slot]);
        move_files(&box.member[slot], false);
    }
    for (int64_t deadline = DEADLINE; !master_says(&box, "waits_for_members"); poll(NULL, 0, 10)) {
        assert_true(mob_now() < deadline);
        chain_box_tend(&box);
    }
    assert_true(master_says(&box, "no member that is here has a store"));
    assert_true(master_says(&box, "put back the files of Redis (appendonlydir)"));
    uint64_t epoch = chain_box_config(&box, 0).epoch;
    for (int slot = 0; slot < 2; slot++) {
        kill_member(&box.member[slot]);
        move_files(&box.member[slot], true);
    }
    assert_int_equal(chain_box_config(&box, 0).epoch, epoch);
    for (int64_t deadline = DEADLINE; chain_box_config(&box, 0).epoch == epoch; poll(NULL, 0, 10)) {
        assert_true(mob_now() < deadline);
        chain_box_tend(&box);
    }
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    assert_int_equal(get_number(gcs, 1), 7);
    close_chain(&box, gcs);
}

/* One of two lacks a block and is asked for all it has: it ends, and takes all from the other one. */
static void who_lacks_what_others_have_begins_anew(void **state)
{
    (void)state;
    struct chain_box box;
    uint64_t last = 0;
    uint8_t row[9];
    struct mob_gcs *gcs = open_chain(&box, 3);
    append_blocks(gcs);
    int head = chain_box_place(&box, false), tail = chain_box_place(&box, true), middle = 3 - head - tail;
    assert_int_equal(blocks_of(&box.member[tail], &last), BLOCKS);
    mob_redis_key(row, 'b', last);
    lose(&box.member[middle], row, sizeof row);
    gcs_box_end(&box.member[tail].gcs, SIGKILL);
    put_number(gcs, 100, 7); /* two are left */
    assert_true(chain_box_wait_length(&box, 3, DEADLINE));
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(blocks_of(&box.member[i], &last), BLOCKS);
    if (says(&box.member[middle], "snapshot_row_lost") == 0)
        fail_with_log(&box.member[middle]);
    close_chain(&box, gcs);
}

static void on_streamed(void *arg, const struct mob_gcs_block_row *row)
{
    (void)row;
    ++*(uint32_t *)arg;
}
static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    (void)arg;
    fail_msg("resync behind %llu, at %llu", (unsigned long long)after, (unsigned long long)next);
}

static void step(struct chain_box *box, struct mob_gcs *gcs)
{
    mob_gcs_step(gcs, mob_now());
    struct pollfd p = {.fd = mob_gcs_fd(gcs), .events = POLLIN};
    poll(&p, 1, 5);
    chain_box_tend(box);
}

/* The tail lacks a block that somebody is to be streamed: it ends, and the stream goes on at the other one.
 */
static void who_lacks_what_is_streamed_begins_anew(void **state)
{
    (void)state;
    struct chain_box box;
    uint64_t last = 0;
    uint8_t row[9];
    uint32_t count = 0;
    struct mob_gcs_sub_events events = {on_streamed, on_resync, &count};
    struct mob_gcs_sub *sub = NULL;
    struct mob_gcs *gcs = open_chain(&box, 2);
    append_blocks(gcs);
    int tail = chain_box_place(&box, true);
    const struct gcs_box *member = &box.member[tail];
    assert_int_equal(blocks_of(member, &last), BLOCKS);
    mob_redis_key(row, 'b', last);
    lose(member, row, sizeof row);
    for (int64_t deadline = DEADLINE; says(member, "stream_row_lost") == 0;
         assert_true(mob_now() < deadline)) {
        if (count == BLOCKS) { /* it still had it in memory, since it may not be on its disk */
            mob_gcs_unsubscribe(sub);
            sub = NULL;
            count = 0;
        }
        if (sub == NULL)
            assert_int_equal(mob_gcs_subscribe(gcs, 0, &events, &sub), MOB_OK);
        step(&box, gcs);
    }
    for (int64_t deadline = DEADLINE; count < BLOCKS; step(&box, gcs))
        assert_true(mob_now() < deadline);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(blocks_of(&box.member[i], &last), BLOCKS);
    mob_gcs_unsubscribe(sub);
    close_chain(&box, gcs);
}

/* Starts it; its process. */
static pid_t join_until_it_asks(struct chain_box *box, int slot)
{
    uint32_t before = says(&box->member[slot], "to=joining");
    chain_box_start_member(box, (uint32_t)slot);
    for (int64_t deadline = DEADLINE; says(&box->member[slot], "to=joining") == before; poll(NULL, 0, 10))
        assert_true(mob_now() < deadline);
    poll(NULL, 0, 1200); /* it has asked for rows by then, or the test shows nothing */
    return box->member[slot].gcs;
}

/* Rows are still being read for a joiner that has died when the next one asks: it gets its answer behind
 * them, and does not wait until it gives up. */
static void a_joiner_behind_one_that_died_is_answered(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 2);
    put_large(gcs, 1, 1);
    int slot = chain_box_place(&box, true), left = 1 - slot;
    gcs_box_end(&box.member[slot].gcs, SIGKILL);
    put_number(gcs, 100, 7); /* one is left */
    kill(box.member[left].redis, SIGSTOP);
    (void)join_until_it_asks(&box, slot);
    gcs_box_end(&box.member[slot].gcs, SIGKILL);
    pid_t joiner = join_until_it_asks(&box, slot);
    kill(box.member[left].redis, SIGCONT);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    assert_int_equal(box.member[slot].gcs, joiner); /* it did not end */
    gcs_box_end(&box.member[left].gcs, SIGKILL);
    check_large(gcs, 1, 1);
    close_chain(&box, gcs);
}

/* Both died, and the one that starts the chain again waits for a client that lives. Who asks it something in
 * the meantime is refused, and not kept waiting: behind the question may stand what the member waits for. */
static void who_asks_a_member_that_collects_is_refused(void **state)
{
    (void)state;
    struct chain_box box;
    char value[RAW_READER_VALUE_MAX + 1u];
    struct raw_reader *reader;
    struct mob_gcs *gcs = open_chain(&box, 2);
    put_number(gcs, 1, 7);
    for (int slot = 0; slot < 2; slot++)
        gcs_box_end(&box.member[slot].gcs, SIGKILL);
    int starts = -1;
    for (int64_t deadline = DEADLINE; starts < 0; poll(NULL, 0, 10)) {
        assert_true(mob_now() < deadline);
        chain_box_tend(&box); /* the client is not stepped, so it comes to nobody */
        for (int slot = 0; slot < 2; slot++)
            starts = says(&box.member[slot], "to=collecting") > 0 ? slot : starts;
    }
    assert_int_equal(raw_reader_open(box.member[starts].socket, &reader), MOB_OK);
    assert_int_equal(raw_reader_get(reader, "key", value), MOB_WRONG_EPOCH);
    assert_int_equal(says(&box.member[starts], "from=collecting"), 0); /* it still does */
    raw_reader_close(reader);
    assert_int_equal(get_number(gcs, 1), 7);
    close_chain(&box, gcs);
}

/* Of all threads of a process: how many may use one core only, and how many more. */
static void count_bound(pid_t pid, uint32_t *bound_out, uint32_t *free_out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    *bound_out = *free_out = 0;
    assert_non_null(tasks);
    for (struct dirent *one; (one = readdir(tasks)) != NULL;) {
        cpu_set_t cpus;
        if (one->d_name[0] == '.' || sched_getaffinity(atoi(one->d_name), sizeof cpus, &cpus) != 0)
            continue;
        if (CPU_COUNT(&cpus) == 1)
            ++*bound_out;
        else
            ++*free_out;
    }
    closedir(tasks);
}

/* Its loop works on the cores that it was given; heartbeats and the thread that syncs go where there is room.
 */
static void a_members_loop_stays_on_its_cores(void **state)
{
    (void)state;
    struct chain_box box;
    cpu_set_t allowed;
    char core[16];
    uint32_t bound, others;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    if (CPU_COUNT(&allowed) < 2)
        skip();
    int cpu = sched_getcpu();
    assert_true(cpu >= 0);
    snprintf(core, sizeof core, "%d", cpu);
    setenv("MOBULA_GCS_CPUS", core, 1);
    struct mob_gcs *gcs = open_chain(&box, 1);
    unsetenv("MOBULA_GCS_CPUS");
    put_number(gcs, 1, 7);
    assert_int_equal(sched_getaffinity(box.member[0].gcs, sizeof allowed, &allowed), 0);
    assert_true(CPU_COUNT(&allowed) == 1 && CPU_ISSET((unsigned)cpu, &allowed));
    count_bound(box.member[0].gcs, &bound, &others);
    assert_int_equal(bound, 1);
    assert_true(others >= 2);
    close_chain(&box, gcs);
}

/* Its loop does not look again and again whether it can send what its Redis, which does not answer, takes no
 * more of. */
static void a_head_whose_redis_stands_still_rests(void **state)
{
    (void)state;
    struct chain_box box;
    struct mob_gcs *gcs = open_chain(&box, 2);
    const struct gcs_box *head = &box.member[chain_box_place(&box, false)];
    put_number(gcs, 0, 7);
    for (int64_t until = mob_now() + 1500 * MOB_MS; mob_now() < until;)
        gcs_box_step(gcs, 5); /* a sync each second: while one is under way its loop waits for answers */
    kill(head->redis, SIGSTOP);
    for (uint32_t i = 0; i < 50; i++, poll(NULL, 0, 1))
        put_number(gcs, i, 7);
    int64_t used = gcs_box_cpu_ns(head->gcs), since = mob_now();
    poll(NULL, 0, 1000);
    used = gcs_box_cpu_ns(head->gcs) - used;
    since = mob_now() - since;
    print_message("used %lld of %lld us\n", (long long)used / 1000, (long long)since / 1000);
    assert_true(used < since / 20);
    kill(head->redis, SIGCONT);
    put_number(gcs, 1, 8);
    close_chain(&box, gcs);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_members_take_writes_and_answer_reads),
        cmocka_unit_test(a_killed_head_is_replaced),
        cmocka_unit_test(a_killed_tail_is_replaced),
        cmocka_unit_test(the_largest_value_comes_with_a_snapshot),
        cmocka_unit_test(who_waits_for_each_answer_meets_no_limit),
        cmocka_unit_test(a_snapshot_is_stored_in_bounded_commands),
        cmocka_unit_test(a_hole_in_the_only_store_is_not_copied),
        cmocka_unit_test(a_hole_in_the_only_store_can_be_given_up),
        cmocka_unit_test(a_store_that_lacks_a_value_stays_the_shortest),
        cmocka_unit_test(a_chain_whose_stores_are_all_empty_waits_for_their_files),
        cmocka_unit_test(who_lacks_what_others_have_begins_anew),
        cmocka_unit_test(who_lacks_what_is_streamed_begins_anew),
        cmocka_unit_test(a_joiner_behind_one_that_died_is_answered),
        cmocka_unit_test(who_asks_a_member_that_collects_is_refused),
        cmocka_unit_test(a_members_loop_stays_on_its_cores),
        cmocka_unit_test(a_head_whose_redis_stands_still_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
