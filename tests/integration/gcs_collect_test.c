/* ctest: timeout=200
 * Whom a sole member that restarted waits for: those who may have what its disk lacks, and nobody else. The
 * end of its Redis' file is cut off, as if it had never reached the disk.
 */
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/client/member_link.h"
#include "tests/support/chain_box.h"
#include "tests/support/raw_reader.h"

#define DEADLINE_NS (60 * MOB_SEC)
#define LONG "60000" /* ms: who waits for that is not quick */
#define SHORT_MS 1000
#define PUTS 3u
#define BLOCKS 3u
#define FIRST_CLIENT (MOB_GCS_CLIENT_BIT | 1ull << 40 | 1) /* opened in epoch 1, at position 1 */

static struct gcs_box box;

static void begin(const char *collect_ms, const char *flag, const char *value)
{
    gcs_box_init(&box, "everysec");
    box.args[0] = "--gcs-collect-ms";
    box.args[1] = collect_ms;
    box.args[2] = flag;
    box.args[3] = value;
    gcs_box_start(&box);
}

static void put(struct mob_gcs *gcs, uint64_t value)
{
    struct mob_gcs_put one = {.table = MOB_GCS_KV,
        .key = "k",
        .key_length = 1,
        .value = &value,
        .value_length = sizeof value,
        .if_version = UINT64_MAX};
    assert_int_equal(mob_gcs_put_wait(gcs, &one, mob_now() + DEADLINE_NS, NULL), MOB_OK);
}

/* Another process that was answered, and is killed. */
static void one_calls_and_dies(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        put(gcs_box_client(&box), 1);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static const char *file_of_redis(const struct gcs_box *of, off_t *bytes_out)
{
    static char path[256];
    char pattern[128];
    glob_t found;
    struct stat st;
    snprintf(pattern, sizeof pattern, "%s/appendonlydir/*.incr.aof", of->directory);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    snprintf(path, sizeof path, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    assert_int_equal(stat(path, &st), 0);
    *bytes_out = st.st_size;
    return path;
}

static void kill_both(void)
{
    gcs_box_end(&box.gcs, SIGKILL);
    gcs_box_end(&box.redis, SIGKILL);
}

/* The power goes, and with it what was written since the file was so long. */
static void lose_behind(off_t before)
{
    off_t after;
    kill_both();
    const char *path = file_of_redis(&box, &after);
    assert_true(after > before);
    assert_int_equal(truncate(path, before), 0);
}

/* How often a line with `event` is in the member's log. It answers nobody while it collects. */
static unsigned logged(const char *event)
{
    char path[128], line[1024], wanted[64];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/gcs.log", box.directory);
    snprintf(wanted, sizeof wanted, " gcs %s ", event);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, wanted) != NULL;
    fclose(file);
    return count;
}

static void await_logged(const char *event, unsigned count)
{
    for (int64_t deadline = mob_now() + DEADLINE_NS; logged(event) < count; poll(NULL, 0, 5))
        if (mob_now() > deadline)
            fail_msg("not %u of %s in its log", count, event);
}

/* Both start again. How long until it has collected. */
static int64_t collects_for(void)
{
    unsigned before = logged("collected");
    int64_t begin = mob_now();
    gcs_box_spawn_redis(&box);
    gcs_box_spawn_gcs(&box);
    await_logged("collected", before + 1);
    return mob_now() - begin;
}

/* This process calls on the member. */
static void call(void)
{
    struct mob_member_link *link;
    struct mob_gcs_stats stats;
    assert_int_equal(gcs_box_member(box.socket, 0, &link), MOB_OK);
    assert_int_equal(mob_member_stats(link, &stats), MOB_OK);
    mob_member_close(link);
}

/* All LOSSES as one text; how many. */
static uint32_t losses(char text[2048])
{
    struct mob_gcs *gcs = gcs_box_client(&box);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    const struct mob_gcs_list list = {.table = MOB_GCS_LOSSES};
    assert_int_equal(mob_gcs_list(gcs, &list, mob_gcs_sync_done, &sync), MOB_OK);
    assert_int_equal(mob_gcs_sync_wait(gcs, &sync, mob_now() + DEADLINE_NS, &result), MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
    uint32_t count = a->kv_count;
    text[0] = 0;
    for (uint32_t i = 0; i < count; i++)
        snprintf(text + strlen(text), 2048 - strlen(text), "%.*s\n", (int)a->kvs[i].value_length,
            (const char *)a->kvs[i].value);
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(gcs);
    return count;
}

static void when_all_who_called_are_over_nobody_is_waited_for_and_they_are_named(void **state)
{
    char text[2048];
    (void)state;
    begin(LONG, NULL, NULL);
    one_calls_and_dies();
    kill_both();
    int64_t took = collects_for();
    if (took > 30 * MOB_SEC)
        fail_msg("it served after %lld ms", (long long)(took / MOB_MS));
    uint32_t count = losses(text);
    if (count != 1 || strstr(text, "\"kind\":\"client\"") == NULL ||
        strstr(text, "\"first_missing\":2,\"missing\":null") == NULL)
        fail_msg("%u losses: %s", count, text);
    gcs_box_fini(&box);
}

static void waits_its_time(void)
{
    int64_t took = collects_for();
    if (took < SHORT_MS * MOB_MS)
        fail_msg("it served after %lld ms", (long long)(took / MOB_MS));
    gcs_box_fini(&box);
}

static void after_another_boot_others_may_come(void **state)
{
    char path[128];
    uint8_t byte;
    (void)state;
    begin("1000", NULL, NULL);
    one_calls_and_dies();
    kill_both();
    snprintf(path, sizeof path, "%s.callers", box.socket);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, 20), 1);
    byte ^= 1; /* of the boot that it is from */
    assert_int_equal(pwrite(fd, &byte, 1, 20), 1);
    close(fd);
    waits_its_time();
}

static void behind_a_forwarded_socket_others_may_come(void **state)
{
    (void)state;
    begin("1000", "--socket-advertised", "elsewhere");
    one_calls_and_dies();
    kill_both();
    waits_its_time();
}

static void while_somebody_lives_who_called_others_may_come(void **state)
{
    (void)state;
    begin("1000", NULL, NULL);
    one_calls_and_dies();
    call();
    kill_both();
    waits_its_time();
}

/* Everything that this one was answered, its opening included, is lost, and all in the tables are dead. */
static struct mob_gcs *one_that_is_in_no_table(void)
{
    off_t before;
    one_calls_and_dies();
    gcs_box_end(&box.gcs, SIGTERM); /* so that all of that is in the file */
    gcs_box_start_gcs(&box);
    call();
    file_of_redis(&box, &before);
    struct mob_gcs *gcs = gcs_box_client(&box);
    for (uint64_t i = 1; i <= PUTS; i++)
        put(gcs, 10 * i);
    lose_behind(before);
    return gcs;
}

static uint64_t value_now(struct mob_gcs *gcs)
{
    struct mob_gcs_result *result = NULL;
    uint64_t value;
    assert_int_equal(mob_gcs_get_wait(gcs, MOB_GCS_KV, "k", 1, mob_now() + DEADLINE_NS, &result), MOB_OK);
    memcpy(&value, mob_gcs_result_answer(result)->kvs[0].value, sizeof value);
    mob_gcs_result_destroy(result);
    return value;
}

static void one_that_is_in_no_table_has_its_time(void **state)
{
    (void)state;
    begin("4000", NULL, NULL);
    struct mob_gcs *gcs = one_that_is_in_no_table();
    gcs_box_spawn_redis(&box);
    gcs_box_spawn_gcs(&box);
    await_logged("collecting", 1);
    for (int64_t until = mob_now() + 500 * MOB_MS; mob_now() < until; poll(NULL, 0, 5)) /* it is slow */
        assert_int_equal(logged("collected"), 0);
    assert_int_equal(value_now(gcs), 10 * PUTS);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

/* The Redis that it was connected to has not all that was answered, though it never ended. */
static void a_member_that_dies_while_it_collects_collects_again(void **state)
{
    (void)state;
    begin("4000", NULL, NULL);
    struct mob_gcs *gcs = one_that_is_in_no_table();
    gcs_box_spawn_redis(&box);
    gcs_box_spawn_gcs(&box);
    await_logged("collecting", 1);
    gcs_box_end(&box.gcs, SIGKILL);
    gcs_box_spawn_gcs(&box);
    await_logged("collecting", 2);
    assert_int_equal(logged("collected"), 0);
    assert_int_equal(value_now(gcs), 10 * PUTS);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

/* What it wrote first of all is on the disk, or a power cut would leave a store that seems whole. */
static void a_member_that_has_begun_is_not_taken_for_one_that_stopped(void **state)
{
    (void)state;
    begin("200", NULL, NULL);
    one_calls_and_dies();
    assert_int_equal(gcs_box_end(&box.gcs, SIGTERM), 0);
    box.failpoints = "gcs.before_exec=kill@1";
    gcs_box_spawn_gcs(&box);
    box.failpoints = NULL;
    for (int64_t deadline = mob_now() + DEADLINE_NS; !gcs_box_ended(&box.gcs); poll(NULL, 0, 5))
        assert_true(mob_now() < deadline);
    gcs_box_end(&box.redis, SIGKILL);
    collects_for();
    gcs_box_fini(&box);
}

static void one_that_comes_too_late_is_named(void **state)
{
    char text[2048], wanted[64];
    (void)state;
    begin("200", NULL, NULL);
    struct mob_gcs *gcs = one_that_is_in_no_table();
    collects_for();
    snprintf(wanted, sizeof wanted, "\"first_missing\":1,\"missing\":%u,", PUTS);
    losses(text);
    assert_null(strstr(text, wanted));
    for (int64_t deadline = mob_now() + DEADLINE_NS; strstr(text, wanted) == NULL; losses(text)) {
        if (mob_now() > deadline)
            fail_msg("no %s in %s", wanted, text);
        gcs_box_step(gcs, 10);
    }
    assert_int_equal(value_now(gcs), 1); /* what there is goes on */
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

/* ---- who is over, and who only listened ---- */

struct owner {
    uint64_t acked, released, cut;
    bool sealed;
};

static void on_acked(void *arg, uint64_t count)
{
    ((struct owner *)arg)->acked = count;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    ((struct owner *)arg)->released++;
    free(block);
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    struct owner *owner = arg;
    assert_int_equal(why, MOB_SEALED);
    owner->sealed = true;
    owner->cut = cut;
}

/* Just now, so the file is not synced again for a second. */
static void await_synced(struct mob_gcs *gcs)
{
    struct mob_gcs_stats stats;
    put(gcs, 1);
    do
        stats = gcs_box_stats(gcs);
    while (stats.durable < stats.applied);
}

/* The owner of a log, whose opening is on the disk, and whose blocks are behind `before_out` of the file. */
static struct mob_gcs *one_with_blocks(struct owner *owner, off_t *before_out)
{
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, owner};
    struct mob_gcs_log *log;
    uint64_t incarnation;
    struct mob_gcs *gcs = gcs_box_client(&box);
    assert_int_equal(mob_gcs_node_register_wait(gcs, "n", mob_now() + DEADLINE_NS, &incarnation), MOB_OK);
    gcs_box_end(&box.gcs, SIGTERM); /* so that all of that is in the file */
    gcs_box_start_gcs(&box);
    call();
    await_synced(gcs);
    file_of_redis(&box, before_out);
    assert_int_equal(mob_gcs_log_open(gcs, incarnation, 0, &events, &log), MOB_OK);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct gcs_block_spec spec = gcs_block_nth(incarnation, i, 1);
        assert_int_equal(mob_gcs_log_append(log, gcs_block_new(&spec)), MOB_OK);
    }
    return gcs;
}

static void await_count(struct mob_gcs *gcs, const uint64_t *count)
{
    for (int64_t deadline = mob_now() + DEADLINE_NS; *count < BLOCKS; gcs_box_step(gcs, 10))
        assert_true(mob_now() < deadline);
}

/* All of them are durable, so it keeps none; and the disk has none of them. */
static struct mob_gcs *one_whose_blocks_are_lost(struct owner *owner)
{
    off_t before;
    struct mob_gcs *gcs = one_with_blocks(owner, &before);
    await_count(gcs, &owner->released);
    lose_behind(before);
    return gcs;
}

/* It is told at once that its log has ended, and would send nothing more in the 10 s for which a process that
 * runs is waited for. */
static void a_log_that_has_ended_is_not_waited_for(void **state)
{
    struct owner owner = {0};
    char text[2048];
    (void)state;
    begin("200", NULL, NULL);
    struct mob_gcs *gcs = one_whose_blocks_are_lost(&owner);
    gcs_box_spawn_redis(&box);
    gcs_box_spawn_gcs(&box);
    for (int64_t deadline = mob_now() + DEADLINE_NS; logged("collected") == 0; gcs_box_step(gcs, 10))
        assert_true(mob_now() < deadline);
    assert_true(owner.sealed);
    assert_int_equal(owner.cut, 0);
    assert_int_equal(logged("client_absent"), 0);
    uint32_t count = losses(text);
    if (count != 1 || strstr(text, "\"kind\":\"log\"") == NULL ||
        strstr(text, "\"first_missing\":0,\"missing\":3") == NULL)
        fail_msg("%u losses: %s", count, text);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

static uint64_t drop_job(struct mob_gcs *gcs)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    struct gcs_block_spec first = gcs_block_nth(1, 0, 1);
    assert_int_equal(
        mob_gcs_job_drop(gcs, gcs_block_job(first.job), false, INT64_MAX, mob_gcs_sync_done, &sync), MOB_OK);
    assert_int_equal(mob_gcs_sync_wait(gcs, &sync, mob_now() + DEADLINE_NS, &result), MOB_OK);
    uint64_t number = mob_gcs_result_answer(result)->number;
    mob_gcs_result_destroy(result);
    return number;
}

/* Blocks and the drop of their job, all answered and none on the disk: they come back in the same start, and
 * the drop is for these blocks. False: they were on the disk already, so there was nothing to come back. */
static bool drops_what_comes_back(void)
{
    struct owner owner = {0};
    off_t before;
    begin("200", NULL, NULL);
    struct mob_gcs *gcs = one_with_blocks(&owner, &before);
    await_count(gcs, &owner.acked);
    assert_int_equal(drop_job(gcs), BLOCKS);
    lose_behind(before);
    bool kept = owner.released == 0;
    gcs_box_spawn_redis(&box);
    gcs_box_spawn_gcs(&box);
    for (int64_t deadline = mob_now() + DEADLINE_NS; logged("collected") == 0; gcs_box_step(gcs, 10))
        assert_true(mob_now() < deadline);
    struct mob_gcs_stats stats = gcs_box_stats(gcs);
    if (kept && stats.blocks != 0)
        fail_msg("%llu blocks of a job that was dropped", (unsigned long long)stats.blocks);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
    return kept;
}

static void a_drop_that_comes_back_takes_the_blocks_that_do(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++)
        if (drops_what_comes_back())
            return;
    fail_msg("each time the disk was faster");
}

/* As a client does that takes the member for the tail of the chain of before, and dies. What it was answered
 * may be missing all the same. */
static void one_that_only_listened_and_went_is_named(void **state)
{
    char text[2048], wanted[96];
    struct raw_reader *raw;
    (void)state;
    begin("4000", NULL, NULL);
    one_calls_and_dies();
    call();
    kill_both();
    gcs_box_spawn_redis(&box);
    gcs_box_spawn_gcs(&box);
    await_logged("collecting", 1);
    for (int64_t deadline = mob_now() + DEADLINE_NS; raw_reader_open(box.socket, &raw) != MOB_OK;
         poll(NULL, 0, 5))
        assert_true(mob_now() < deadline); /* it says so before it listens */
    assert_int_equal(raw_reader_listen(raw, FIRST_CLIENT), MOB_OK);
    raw_reader_close(raw);
    await_logged("collected", 1);
    uint32_t count = losses(text);
    snprintf(wanted, sizeof wanted, "\"client\":\"%llx\",\"first_missing\":2,\"missing\":null",
        (unsigned long long)FIRST_CLIENT);
    if (count != 1 || strstr(text, wanted) == NULL)
        fail_msg("%u losses: %s", count, text);
    gcs_box_fini(&box);
}

/* Both members' files end before it was opened, and nobody else lives. */
static void a_chain_gives_one_that_is_in_no_table_its_time(void **state)
{
    static struct chain_box chain;
    off_t before[2], after;
    (void)state;
    chain_box_init(&chain, 2, 2, NULL);
    chain_box_start(&chain);
    assert_true(chain_box_wait_length(&chain, 2, mob_now() + DEADLINE_NS));
    struct mob_gcs *first = chain_box_client(&chain);
    put(first, 1);
    assert_int_equal(value_now(first), 1);
    for (int i = 0; i < 2; i++)
        file_of_redis(&chain.member[i], &before[i]);
    mob_gcs_destroy(first);
    struct mob_gcs *gcs = chain_box_client(&chain);
    for (uint64_t i = 1; i <= PUTS; i++)
        put(gcs, 10 * i);
    for (int i = 0; i < 2; i++) {
        gcs_box_end(&chain.member[i].gcs, SIGKILL);
        gcs_box_end(&chain.member[i].redis, SIGKILL);
    }
    for (int i = 0; i < 2; i++) {
        const char *path = file_of_redis(&chain.member[i], &after);
        assert_true(after > before[i]);
        assert_int_equal(truncate(path, before[i]), 0);
    }
    chain_box_tend(&chain);
    assert_int_equal(value_now(gcs), 10 * PUTS);
    mob_gcs_destroy(gcs);
    chain_box_fini(&chain);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when_all_who_called_are_over_nobody_is_waited_for_and_they_are_named),
        cmocka_unit_test(after_another_boot_others_may_come),
        cmocka_unit_test(behind_a_forwarded_socket_others_may_come),
        cmocka_unit_test(while_somebody_lives_who_called_others_may_come),
        cmocka_unit_test(one_that_is_in_no_table_has_its_time),
        cmocka_unit_test(a_member_that_dies_while_it_collects_collects_again),
        cmocka_unit_test(a_member_that_has_begun_is_not_taken_for_one_that_stopped),
        cmocka_unit_test(a_chain_gives_one_that_is_in_no_table_its_time),
        cmocka_unit_test(one_that_comes_too_late_is_named),
        cmocka_unit_test(a_log_that_has_ended_is_not_waited_for),
        cmocka_unit_test(a_drop_that_comes_back_takes_the_blocks_that_do),
        cmocka_unit_test(one_that_only_listened_and_went_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
