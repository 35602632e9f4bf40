/* ctest: timeout=200
 * A lone member whose Redis comes back without anything, because its files were removed or could not be
 * read: it is not taken for a new store. Nothing is served until the files are back, or a person says that
 * what they had is lost.
 */
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
#include "gcs/shard/store_note.h"
#include "tests/support/gcs_box.h"
#include "tests/support/scratch.h"

#define DEADLINE_NS (60 * MOB_SEC)
#define CLUSTER "00000000000000000000000000000000"
#define OTHER_CLUSTER "000102030405060708090a0b0c0d0e0f"

static struct gcs_box box;

static void set_cluster(const char *cluster)
{
    static const char *const args[] = {"--gcs-collect-ms", "200", "--cluster"};
    memset(box.args, 0, sizeof box.args);
    memcpy(box.args, args, sizeof args);
    box.args[3] = cluster;
}

static void begin(void)
{
    gcs_box_init(&box, "everysec");
    set_cluster(CLUSTER);
    gcs_box_start(&box);
}

static void let_it_go_on(void)
{
    box.args[4] = "--gcs-start-without-all";
    box.args[5] = "on";
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

/* By a client of its own; 0: there is none. */
static uint64_t value_now(void)
{
    struct mob_gcs *gcs = gcs_box_client(&box);
    struct mob_gcs_result *result = NULL;
    uint64_t value = 0;
    enum mob_status status = mob_gcs_get_wait(gcs, MOB_GCS_KV, "k", 1, mob_now() + DEADLINE_NS, &result);
    if (status == MOB_OK)
        memcpy(&value, mob_gcs_result_answer(result)->kvs[0].value, sizeof value);
    else
        assert_int_equal(status, MOB_NOT_FOUND);
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(gcs);
    return value;
}

static struct mob_gcs_stats stats_now(void)
{
    struct mob_gcs *gcs = gcs_box_client(&box);
    struct mob_gcs_stats stats = gcs_box_stats(gcs);
    mob_gcs_destroy(gcs);
    return stats;
}

/* By somebody who is no client, and leaves nothing there. */
static void look(void)
{
    struct mob_member_link *link;
    struct mob_gcs_stats stats;
    assert_int_equal(gcs_box_member(box.socket, 0, &link), MOB_OK);
    assert_int_equal(mob_member_stats(link, &stats), MOB_OK);
    assert_int_equal(stats.applied, 0);
    mob_member_close(link);
}

static void await_durable(struct mob_gcs *gcs)
{
    struct mob_gcs_stats s = gcs_box_stats(gcs);
    for (uint64_t all = s.applied; s.durable < all; s = gcs_box_stats(gcs))
        gcs_box_step(gcs, 10);
}

static void kill_both(void)
{
    gcs_box_end(&box.gcs, SIGKILL);
    gcs_box_end(&box.redis, SIGKILL);
}

static void stop_both(void)
{
    assert_int_equal(gcs_box_end(&box.gcs, SIGTERM), 0);
    gcs_box_end(&box.redis, SIGKILL);
}

static const char *path_of(const char *name)
{
    static char paths[4][160];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", box.directory, name);
    return path;
}

/* With what Redis keeps there, so that it can be put back. */
static void take_files_away(const char *to)
{
    assert_int_equal(rename(path_of("appendonlydir"), path_of(to)), 0);
}

static void put_files_back(const char *from)
{
    if (access(path_of("appendonlydir"), F_OK) == 0)
        assert_true(scratch_remove(path_of("appendonlydir")));
    assert_int_equal(rename(path_of(from), path_of("appendonlydir")), 0);
}

static unsigned logged(const char *text)
{
    char line[2048];
    unsigned count = 0;
    FILE *file = fopen(path_of("gcs.log"), "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

/* It ends by itself, and says why. */
static void refuses_with(const char *event)
{
    unsigned before = logged(event);
    int status = 0;
    gcs_box_spawn_gcs(&box);
    for (int64_t deadline = mob_now() + DEADLINE_NS; waitpid(box.gcs, &status, WNOHANG) == 0;
         poll(NULL, 0, 5))
        if (mob_now() > deadline)
            fail_msg("it serves, or hangs; applied=%llu", (unsigned long long)stats_now().applied);
    box.gcs = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(logged(event), before + 1);
}

static void refuses(void)
{
    refuses_with(" store_is_empty ");
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

static void assert_store_named(void)
{
    char text[2048];
    losses(text);
    if (strstr(text, "{\"kind\":\"store\",\"epoch\":1,") == NULL)
        fail_msg("the store is not named in: %s", text);
}

/* One value is there, and on the disk; the member and its Redis live. */
static struct mob_gcs *one_value(uint64_t value)
{
    struct mob_gcs *gcs = gcs_box_client(&box);
    put(gcs, value);
    await_durable(gcs);
    return gcs;
}

/* By another process, which is over: nobody is waited for because of it. */
static void one_value_of_the_dead(uint64_t value)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)one_value(value);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void emptied_while_everything_was_down_it_is_not_served(void **state)
{
    (void)state;
    begin();
    one_value_of_the_dead(7);
    kill_both();
    take_files_away("away");
    gcs_box_start_redis(&box);
    refuses();
    refuses(); /* and does not take what the first one left there for a store */
    gcs_box_end(&box.redis, SIGKILL);
    put_files_back("away");
    gcs_box_start(&box);
    assert_int_equal(value_now(), 7);
    gcs_box_fini(&box);
}

static void emptied_after_a_clean_stop_it_is_not_served(void **state)
{
    char text[2048];
    (void)state;
    begin();
    one_value_of_the_dead(7);
    stop_both();
    take_files_away("away");
    gcs_box_start_redis(&box);
    refuses();
    gcs_box_end(&box.redis, SIGKILL);
    put_files_back("away");
    gcs_box_start(&box);
    assert_int_equal(value_now(), 7);
    assert_int_equal(losses(text), 0);
    gcs_box_fini(&box);
}

static void emptied_under_a_member_that_lives_it_is_not_served(void **state)
{
    (void)state;
    begin();
    one_value_of_the_dead(7);
    gcs_box_end(&box.redis, SIGKILL);
    take_files_away("away");
    gcs_box_start_redis(&box);
    for (int64_t deadline = mob_now() + DEADLINE_NS; !gcs_box_ended(&box.gcs); poll(NULL, 0, 5))
        assert_true(mob_now() < deadline);
    assert_int_equal(logged(" redis_lost_durable "), 1);
    refuses();
    gcs_box_end(&box.redis, SIGKILL);
    put_files_back("away");
    gcs_box_start(&box);
    assert_int_equal(value_now(), 7);
    gcs_box_fini(&box);
}

static struct mob_store_facts noted(void)
{
    struct mob_store_facts facts;
    assert_int_equal(mob_store_note_look(box.socket, &facts), MOB_OK);
    return facts;
}

/* What a supervisor shows of it, and what others than the member read, say what there was and what helps;
 * until it serves, and while it still asks its clients. */
static void it_says_what_there_was_and_what_can_be_done(void **state)
{
    (void)state;
    begin();
    struct mob_gcs *gcs = one_value(7);
    for (int64_t deadline = mob_now() + DEADLINE_NS; noted().keys == 0; gcs_box_step(gcs, 10))
        assert_true(mob_now() < deadline); /* it is brought up to date, though nobody writes */
    kill_both();
    take_files_away("away");
    gcs_box_start_redis(&box);
    refuses();
    assert_int_equal(logged("mobula-gcs: Redis is empty, and had data: epoch 1, seq "), 1);
    assert_int_equal(logged(" 0 logs, 1 clients, 1 keys at "), 2); /* and in the line of the event */
    assert_int_equal(logged("Put its files back; or start with nothing: gcs-start-without-all on"), 2);
    assert_int_not_equal(noted().refused_wall_ns, 0);
    gcs_box_end(&box.redis, SIGKILL);
    put_files_back("away");
    gcs_box_start(&box);
    assert_int_equal(logged(" collected "), 0); /* its client lives, and is not heard */
    assert_int_equal(noted().refused_wall_ns, 0);
    put(gcs, 8);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

static void set_version_of_note(char digit)
{
    FILE *file = fopen(path_of("gcs.sock.stored"), "r+e");
    assert_non_null(file);
    assert_int_equal(fseek(file, strlen("mobula stored "), SEEK_SET), 0);
    assert_int_equal(fputc(digit, file), digit);
    assert_int_equal(fclose(file), 0);
}

/* Also with all that was stored: what a later program says there is not written over. */
static void a_note_of_a_later_version_is_refused(void **state)
{
    (void)state;
    begin();
    one_value_of_the_dead(7);
    stop_both();
    set_version_of_note('2');
    gcs_box_start_redis(&box);
    refuses_with(" note_version_unknown ");
    assert_int_equal(logged(" found=2 known=1 "), 1);
    assert_int_equal(logged(" is of version 2, and this program knows version 1. "), 2);
    assert_int_equal(logged("mobula-gcs: The note of what its Redis has "), 1);
    set_version_of_note('1');
    gcs_box_start_gcs(&box);
    assert_int_equal(value_now(), 7);
    gcs_box_fini(&box);
}

/* Both a client that lives and what nobody can tell of any more; and the next start knows it, too. */
static void given_up_it_begins_with_nothing_and_names_what_is_lost(void **state)
{
    char text[2048];
    (void)state;
    begin();
    struct mob_gcs *gcs = one_value(7);
    uint64_t before = gcs_box_stats(gcs).applied;
    kill_both();
    take_files_away("away");
    gcs_box_start_redis(&box);
    refuses();
    let_it_go_on();
    gcs_box_start_gcs(&box);
    assert_int_equal(value_now(), 0);
    assert_store_named();
    for (int64_t deadline = mob_now() + DEADLINE_NS; losses(text) < 2; gcs_box_step(gcs, 10))
        if (mob_now() > deadline)
            fail_msg("its client is not named: %s", text);
    if (strstr(text, "\"kind\":\"client\"") == NULL ||
        strstr(text, "\"first_missing\":1,\"missing\":1,") == NULL)
        fail_msg("its client is not named: %s", text);
    put(gcs, 8);
    await_durable(gcs);
    struct mob_gcs_stats after = gcs_box_stats(gcs);
    assert_true(after.applied > before && after.epoch == 2);
    assert_int_equal(after.losses, 2);
    mob_gcs_destroy(gcs);
    stop_both();
    set_cluster(CLUSTER);
    gcs_box_start(&box);
    assert_int_equal(value_now(), 8);
    assert_store_named();
    gcs_box_fini(&box);
}

/* Killed before the first entry of the new history: what the old one was is known all the same. */
static void a_second_death_right_after_it_was_given_up_forgets_nothing(void **state)
{
    (void)state;
    begin();
    one_value_of_the_dead(7);
    kill_both();
    take_files_away("away");
    let_it_go_on();
    gcs_box_start(&box);
    kill_both();
    set_cluster(CLUSTER);
    gcs_box_start(&box);
    assert_store_named();
    struct mob_gcs *gcs = one_value(8);
    assert_true(gcs_box_stats(gcs).epoch > 2); /* of a start from a store that may lack something */
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

/* No two blocks ever have one position, or a database that has the first would not take the second. */
static void positions_and_epochs_are_not_given_out_again(void **state)
{
    uint64_t applied = 0, epoch = 0;
    (void)state;
    begin();
    for (unsigned i = 0; i < 3; i++) {
        char away[8];
        struct mob_gcs *gcs = one_value(i + 1);
        struct mob_gcs_stats s = gcs_box_stats(gcs);
        assert_true(s.applied > applied && s.epoch > epoch);
        applied = s.applied;
        epoch = s.epoch;
        mob_gcs_destroy(gcs);
        kill_both();
        snprintf(away, sizeof away, "away.%u", i);
        take_files_away(away);
        let_it_go_on();
        gcs_box_start(&box);
    }
    gcs_box_fini(&box);
}

static uint64_t register_some(struct mob_gcs *gcs, unsigned count)
{
    uint64_t incarnation = 0;
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(
            mob_gcs_node_register_wait(gcs, "node", mob_now() + DEADLINE_NS, &incarnation), MOB_OK);
    return incarnation;
}

/* However many there were in one epoch. A node of before would write into the log of another one, and its own
 * would be read for that one's. */
static void incarnations_are_not_given_out_again(void **state)
{
    (void)state;
    begin();
    struct mob_gcs *gcs = gcs_box_client(&box);
    uint64_t last = register_some(gcs, 300);
    for (int64_t deadline = mob_now() + DEADLINE_NS; noted().newest_log < last; gcs_box_step(gcs, 10))
        assert_true(mob_now() < deadline);
    last = register_some(gcs, 100); /* which the note need not know */
    mob_gcs_destroy(gcs);
    kill_both();
    take_files_away("away");
    let_it_go_on();
    gcs_box_start(&box);
    gcs = gcs_box_client(&box);
    assert_true(register_some(gcs, 1) > last);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

static void nor_by_a_backup_of_before_they_were(void **state)
{
    (void)state;
    begin();
    one_value_of_the_dead(7);
    stop_both();
    char copy[400];
    snprintf(copy, sizeof copy, "cp -r %s %s", path_of("appendonlydir"), path_of("backup"));
    assert_int_equal(system(copy), 0);
    gcs_box_start(&box);
    struct mob_gcs *gcs = gcs_box_client(&box);
    uint64_t last = register_some(gcs, 300);
    mob_gcs_destroy(gcs);
    stop_both();
    put_files_back("backup");
    gcs_box_start(&box);
    gcs = gcs_box_client(&box);
    assert_true(register_some(gcs, 1) > last);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

static void one_that_never_had_anything_is_a_new_one(void **state)
{
    char text[2048];
    (void)state;
    begin();
    look();
    kill_both();
    take_files_away("away");
    gcs_box_start(&box);
    assert_int_equal(value_now(), 0);
    assert_int_equal(losses(text), 0);
    gcs_box_fini(&box);
}

/* Somebody made a new cluster in the folder, and left the file of the old one there. */
static void one_of_another_cluster_is_a_new_one(void **state)
{
    struct mob_store_facts facts;
    (void)state;
    begin();
    one_value_of_the_dead(7);
    kill_both();
    take_files_away("away");
    set_cluster(OTHER_CLUSTER);
    gcs_box_start_redis(&box);
    gcs_box_start_gcs(&box);
    gcs_box_end(&box.gcs, SIGTERM);
    assert_int_equal(logged(" note_of_another "), 1);
    assert_int_equal(logged(" store_is_empty "), 0);
    assert_int_equal(mob_store_note_look(box.socket, &facts), MOB_OK);
    gcs_box_fini(&box);
}

/* Its first second is lost with the power: Redis has the beginning of the store, and none of what was
 * answered. Its clients are asked, as after any such loss. */
static void one_that_lost_its_first_moments_asks_its_clients(void **state)
{
    (void)state;
    gcs_box_init(&box, "everysec");
    set_cluster(CLUSTER);
    gcs_box_start_redis(&box);
    box.failpoints = "gcs.before_exec=kill@1"; /* so that only what is synced before it serves is there */
    gcs_box_spawn_gcs(&box);
    box.failpoints = NULL;
    for (int64_t deadline = mob_now() + DEADLINE_NS; !gcs_box_ended(&box.gcs); poll(NULL, 0, 5))
        assert_true(mob_now() < deadline);
    uint64_t begun = gcs_box_file_bytes(&box);
    gcs_box_start_gcs(&box);
    struct mob_gcs *gcs = gcs_box_client(&box);
    put(gcs, 7);
    kill_both();
    (void)gcs_box_cut_file(&box, gcs_box_file_bytes(&box) - begun);
    gcs_box_spawn_redis(&box);
    gcs_box_spawn_gcs(&box);
    put(gcs, 8);
    assert_int_equal(logged(" collected "), 1);
    assert_int_equal(gcs_box_stats(gcs).epoch, 2);
    mob_gcs_destroy(gcs);
    gcs_box_fini(&box);
}

/* What was written since it was made is missing in it, though it was of a store that had stopped cleanly. */
static void a_backup_of_a_clean_stop_is_not_taken_for_all_there_was(void **state)
{
    (void)state;
    begin();
    one_value_of_the_dead(7);
    stop_both();
    char copy[400];
    snprintf(copy, sizeof copy, "cp -r %s %s", path_of("appendonlydir"), path_of("backup"));
    assert_int_equal(system(copy), 0);
    gcs_box_start(&box);
    one_value_of_the_dead(8);
    assert_int_equal(gcs_box_end(&box.gcs, SIGTERM), 0);
    assert_int_equal(logged(" collected "), 0);
    gcs_box_end(&box.redis, SIGKILL);
    put_files_back("backup");
    gcs_box_start(&box);
    assert_int_equal(value_now(), 7);
    assert_int_equal(logged(" collected "), 1);
    gcs_box_fini(&box);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emptied_while_everything_was_down_it_is_not_served),
        cmocka_unit_test(emptied_after_a_clean_stop_it_is_not_served),
        cmocka_unit_test(emptied_under_a_member_that_lives_it_is_not_served),
        cmocka_unit_test(it_says_what_there_was_and_what_can_be_done),
        cmocka_unit_test(a_note_of_a_later_version_is_refused),
        cmocka_unit_test(given_up_it_begins_with_nothing_and_names_what_is_lost),
        cmocka_unit_test(a_second_death_right_after_it_was_given_up_forgets_nothing),
        cmocka_unit_test(positions_and_epochs_are_not_given_out_again),
        cmocka_unit_test(incarnations_are_not_given_out_again),
        cmocka_unit_test(nor_by_a_backup_of_before_they_were),
        cmocka_unit_test(one_that_never_had_anything_is_a_new_one),
        cmocka_unit_test(one_of_another_cluster_is_a_new_one),
        cmocka_unit_test(one_that_lost_its_first_moments_asks_its_clients),
        cmocka_unit_test(a_backup_of_a_clean_stop_is_not_taken_for_all_there_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
