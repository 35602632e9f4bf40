/* The schema: applied to an empty database, to an old one, once; another program's database is refused. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/flush/migrate.h"
#include "tests/support/pg_box.h"

static struct pg_box box;
static struct mob_database *db;

static int set_up(void **state)
{
    (void)state;
    if (!pg_box_available())
        return 0;
    pg_box_init(&box);
    pg_box_start(&box);
    db = pg_box_open(&box);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (db == NULL)
        return 0;
    mob_database_close(db);
    db = NULL;
    pg_box_fini(&box);
    return 0;
}

#define NEEDS_POSTGRES() \
    (void)state; \
    if (db == NULL) \
    skip()

static int known(void)
{
    int n = 0;
    while (mob_migrations[n].version != 0)
        n++;
    return n;
}

static void an_empty_database_gets_everything_once(void **state)
{
    NEEDS_POSTGRES();
    int from = -1, to = -1;
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(from, 0);
    assert_int_equal(to, known());
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.bucket"), 0);
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(from, known());
    assert_int_equal(to, known());
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.migration"), known());
}

/* The first migration is what old databases have: they must keep what is in them. */
static void an_old_database_is_brought_up_with_what_is_in_it(void **state)
{
    NEEDS_POSTGRES();
    struct mob_migration more[64] = {{0}};
    int n = known(), from, to;
    assert_in_range(n, 1, 60);
    more[0] = mob_migrations[0];
    assert_int_equal(mob_migrate(db, more, &from, &to), MOB_OK);
    assert_int_equal(mob_database_run(db, "INSERT INTO mobula.watermark VALUES (3, 77, 1)"), MOB_OK);
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(from, 1);
    assert_int_equal(to, n);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.node_log"), 0); /* 0004 */
    /* and by migrations of tomorrow */
    memcpy(more, mob_migrations, (size_t)n * sizeof more[0]);
    static const char next[] = "ALTER TABLE mobula.watermark ADD COLUMN tomorrow integer DEFAULT 5";
    more[n] = (struct mob_migration){n + 1, "tomorrow", next, sizeof next - 1};
    assert_int_equal(mob_migrate(db, more, &from, &to), MOB_OK);
    assert_int_equal(from, n);
    assert_int_equal(to, n + 1);
    assert_int_equal(pg_box_number(db, "SELECT upto + tomorrow FROM mobula.watermark WHERE shard = 3"), 82);
    /* which the program of today refuses, and leaves alone */
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_VERSION);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.migration"), n + 1);
}

/* 0005: each configuration that is there names the last start before it, of its own shard. */
static void configurations_learn_when_their_chain_was_started(void **state)
{
    NEEDS_POSTGRES();
    struct mob_migration before[64] = {{0}};
    int from, to;
    assert_true(known() >= 5);
    memcpy(before, mob_migrations, 4 * sizeof before[0]);
    assert_int_equal(mob_migrate(db, before, &from, &to), MOB_OK);
    assert_int_equal(mob_database_run(db,
                         "INSERT INTO mobula.chain_epoch (shard, epoch, term, start, members) "
                         "SELECT s, e, 1, s = 0 AND e IN (3, 6) OR s = 1 AND e = 2, '\\x0102030405060708' "
                         "FROM generate_series(0, 2) s, generate_series(1, 7) e"),
        MOB_OK);
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.chain_epoch"), 21);
    assert_int_equal(pg_box_number(db,
                         "SELECT count(*) FROM mobula.chain_epoch WHERE started <> CASE shard "
                         "WHEN 0 THEN CASE WHEN epoch < 3 THEN 0 WHEN epoch < 6 THEN 3 ELSE 6 END "
                         "WHEN 1 THEN CASE WHEN epoch < 2 THEN 0 ELSE 2 END ELSE 0 END"),
        0);
}

static void other_contents_of_a_number_are_refused(void **state)
{
    NEEDS_POSTGRES();
    int from, to;
    static const char text[] = "CREATE TABLE mobula.other (a integer)";
    struct mob_migration other[] = {{1, "other", text, sizeof text - 1}, {0, NULL, NULL, 0}};
    assert_int_equal(mob_migrate(db, other, &from, &to), MOB_OK);
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_CORRUPT);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM pg_tables WHERE schemaname = 'mobula'"), 2);
}

static void one_that_fails_half_way_leaves_nothing(void **state)
{
    NEEDS_POSTGRES();
    int from, to;
    static const char good[] = "CREATE TABLE mobula.a (x integer)",
                      bad[] = "CREATE TABLE mobula.b (x integer); SELECT 1 / 0";
    struct mob_migration list[] = {
        {1, "good", good, sizeof good - 1}, {2, "bad", bad, sizeof bad - 1}, {0, NULL, NULL, 0}};
    assert_int_equal(mob_migrate(db, list, &from, &to), MOB_IO);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.migration"), 1);
    assert_int_equal(
        pg_box_number(db, "SELECT count(*) FROM pg_tables WHERE schemaname = 'mobula' AND tablename = 'b'"),
        0);
    list[1] = (struct mob_migration){2, "repaired", good, 0};
    static const char repaired[] = "CREATE TABLE mobula.b (x integer)";
    list[1].sql = repaired;
    list[1].length = sizeof repaired - 1;
    assert_int_equal(mob_migrate(db, list, &from, &to), MOB_OK);
    assert_int_equal(from, 1);
}

static void two_at_once_take_turns(void **state)
{
    NEEDS_POSTGRES();
    pid_t children[6];
    for (int i = 0; i < 6; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct mob_database *own = pg_box_open(&box);
            int from, to;
            _exit(mob_migrate(own, mob_migrations, &from, &to) == MOB_OK ? 0 : 1);
        }
    }
    for (int i = 0; i < 6; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.migration"), known());
}

static void it_belongs_to_one_cluster(void **state)
{
    NEEDS_POSTGRES();
    int from, to;
    struct mob_cluster_id mine = {{1, 2, 3}}, other = {{4}};
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(mob_migrate_claim(db, mine), MOB_OK);
    assert_int_equal(mob_migrate_claim(db, mine), MOB_OK);
    assert_int_equal(mob_migrate_claim(db, other), MOB_DENIED);
}

static void a_connection_that_ended_is_told_as_such(void **state)
{
    NEEDS_POSTGRES();
    assert_int_equal(mob_database_run(db, "BEGIN"), MOB_OK);
    pg_box_end(&box, SIGKILL);
    /* What serves this connection is another process than the one that was killed, and ends when it notices.
     */
    enum mob_status status;
    for (int64_t deadline = mob_now() + 60 * MOB_SEC; (status = mob_database_run(db, "SELECT 1")) == MOB_OK;
         poll(NULL, 0, 5))
        assert_true(mob_now() < deadline);
    assert_int_equal(status, MOB_UNAVAILABLE);
    assert_false(mob_database_good(db));
    mob_database_rollback(db); /* and nothing more */
    pg_box_start(&box);
    struct mob_database *again = pg_box_open(&box);
    assert_int_equal(pg_box_number(again, "SELECT 41 + 1::bigint"), 42);
    mob_database_close(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_database_gets_everything_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_old_database_is_brought_up_with_what_is_in_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(configurations_learn_when_their_chain_was_started, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_contents_of_a_number_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_fails_half_way_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_at_once_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_belongs_to_one_cluster, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_connection_that_ended_is_told_as_such, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
