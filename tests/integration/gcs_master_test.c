/* ctest: timeout=180
 * Where masters agree, in both of its forms; and a chain whose master has its table in PostgreSQL: while that
 * is down data flows and nothing is reconfigured.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/master/table.h"
#include "tests/support/chain_box.h"
#include "tests/support/pg_box.h"

#define DEADLINE (mob_now() + 30 * MOB_SEC)

static struct mob_table_answer ask(struct mob_table *table, struct mob_table_question q)
{
    struct mob_table_answer a;
    static uint64_t tag;
    q.tag = ++tag;
    assert_true(mob_table_ask(table, &q));
    int64_t deadline = DEADLINE;
    while (!mob_table_answer(table, &a)) {
        struct pollfd p = {.fd = mob_table_fd(table), .events = POLLIN};
        poll(&p, 1, 100);
        assert_true(mob_now() < deadline);
    }
    assert_int_equal(a.tag, q.tag);
    return a;
}

static enum mob_status set_row(struct mob_table *table, struct mob_master_row from, struct mob_master_row to)
{
    return ask(table, (struct mob_table_question){.op = MOB_TABLE_SET_ROW, .old_row = from, .row = to})
        .status;
}

static enum mob_status insert(struct mob_table *table, uint64_t epoch, uint64_t term, uint64_t member)
{
    struct mob_gcs_config config = {
        .epoch = epoch, .term = term, .count = 2, .started = epoch - 1, .members = {member, member + 1}};
    return ask(table, (struct mob_table_question){.op = MOB_TABLE_INSERT, .config = config}).status;
}

static struct mob_node_log log_of(const char *node, uint64_t incarnation, uint32_t state, uint64_t cut)
{
    struct mob_node_log log = {.incarnation = incarnation,
        .start = incarnation << 40 | 1ull << 63,
        .pid = 7,
        .cut = cut,
        .state = state};
    snprintf(log.node, sizeof log.node, "%s", node);
    return log;
}

static enum mob_status set_log(
    struct mob_table *table, uint64_t term, uint32_t old_state, const struct mob_node_log log)
{
    return ask(table,
        (struct mob_table_question){
            .op = MOB_TABLE_SET_LOG, .row = {term, 0}, .old_state = old_state, .log = log})
        .status;
}

static uint32_t home_of(struct mob_table *table, uint64_t term, const char *node)
{
    struct mob_table_answer a = ask(table,
        (struct mob_table_question){
            .op = MOB_TABLE_HOME, .row = {term, 0}, .log = log_of(node, 0, 0, 0), .shards = 3});
    assert_int_equal(a.status, MOB_OK);
    return a.home;
}

/* Term 2 is the present one, and `other` its master. */
static void check_nodes(struct mob_table *one, struct mob_table *other)
{
    struct mob_table_question logs = {.op = MOB_TABLE_LOGS};
    struct mob_table_answer a = ask(one, logs);
    assert_int_equal(a.status, MOB_OK);
    assert_int_equal(a.log_count, 0);
    free(a.logs);
    assert_int_equal(set_log(one, 1, 0, log_of("a", 5, 1, 0)), MOB_CONFLICT); /* its term is over */
    assert_int_equal(set_log(other, 2, 0, log_of("a", 5, 1, 0)), MOB_OK);
    assert_int_equal(set_log(other, 2, 0, log_of("a", 5, 1, 0)), MOB_CONFLICT); /* it is there */
    assert_int_equal(set_log(other, 2, 0, log_of("a", 6, 1, 0)), MOB_CONFLICT); /* one of a node lives */
    assert_int_equal(set_log(other, 2, 0, log_of("b", 7, 1, 0)), MOB_OK);
    assert_int_equal(set_log(one, 1, 1, log_of("a", 5, 2, 0)), MOB_CONFLICT);
    assert_int_equal(set_log(other, 2, 2, log_of("a", 5, 3, 44)), MOB_CONFLICT); /* it is not dead */
    assert_int_equal(set_log(other, 2, 1, log_of("a", 5, 2, 0)), MOB_OK);
    assert_int_equal(set_log(other, 2, 1, log_of("a", 5, 2, 0)), MOB_CONFLICT); /* that was decided */
    assert_int_equal(set_log(other, 2, 0, log_of("a", 6, 1, 0)), MOB_CONFLICT); /* it is not sealed */
    assert_int_equal(set_log(other, 2, 2, log_of("a", 5, 3, 44)), MOB_OK);
    assert_int_equal(set_log(other, 2, 0, log_of("a", 6, 1, 0)), MOB_OK);
    a = ask(one, logs);
    assert_int_equal(a.status, MOB_OK);
    assert_int_equal(a.log_count, 3);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < a.log_count; i++) {
        struct mob_node_log is = a.logs[i],
                            expected = is.incarnation == 5 ? log_of("a", 5, 3, 44)
            : is.incarnation == 6                          ? log_of("a", 6, 1, 0)
                                                           : log_of("b", 7, 1, 0);
        assert_memory_equal(&is, &expected, sizeof is);
        seen |= 1u << is.incarnation;
    }
    assert_int_equal(seen, 1u << 5 | 1u << 6 | 1u << 7);
    free(a.logs);
    /* homes are spread, and stay, whoever asks */
    assert_int_equal(home_of(other, 2, "a"), 0);
    assert_int_equal(home_of(other, 2, "b"), 1);
    assert_int_equal(home_of(other, 2, "c"), 2);
    assert_int_equal(home_of(one, 1, "b"), 1);
    assert_int_equal(ask(one,
                         (struct mob_table_question){
                             .op = MOB_TABLE_HOME, .row = {1, 0}, .log = log_of("d", 0, 0, 0), .shards = 3})
                         .status,
        MOB_CONFLICT);
}

/* Two masters at one table. */
static void check_table(const struct mob_table_options *options)
{
    struct mob_table *one, *other;
    assert_int_equal(mob_table_create(options, &one), MOB_OK);
    assert_int_equal(mob_table_create(options, &other), MOB_OK);
    struct mob_table_answer a = ask(one, (struct mob_table_question){.op = MOB_TABLE_ROW});
    assert_int_equal(a.status, MOB_OK);
    assert_int_equal(a.row.term, 0);
    assert_int_equal(ask(one, (struct mob_table_question){.op = MOB_TABLE_NEWEST}).config.epoch, 0);
    struct mob_master_row none = {0, 0}, first = {1, 0}, beat = {1, 1}, second = {2, 0};
    assert_int_equal(set_row(one, none, first), MOB_OK);
    assert_int_equal(set_row(other, none, first), MOB_CONFLICT);
    assert_int_equal(set_row(one, first, beat), MOB_OK);
    assert_int_equal(insert(one, 1, 1, 10), MOB_OK);
    assert_int_equal(insert(other, 1, 1, 20), MOB_CONFLICT); /* the epoch is made */
    assert_int_equal(set_row(other, beat, second), MOB_OK);
    assert_int_equal(insert(one, 2, 1, 30), MOB_CONFLICT); /* its term is over */
    assert_int_equal(insert(other, 2, 2, 40), MOB_OK);
    assert_int_equal(insert(other, 2, 2, 50), MOB_CONFLICT);
    a = ask(one, (struct mob_table_question){.op = MOB_TABLE_NEWEST});
    assert_int_equal(a.status, MOB_OK);
    assert_int_equal(a.config.epoch, 2);
    assert_int_equal(a.config.term, 2);
    assert_int_equal(a.config.count, 2);
    assert_int_equal(a.config.members[0], 40);
    assert_int_equal(a.config.members[1], 41);
    assert_int_equal(a.config.start, 0);
    assert_int_equal(a.config.started, 1);
    struct mob_gcs_config start = {
        .epoch = 3, .term = 2, .count = 1, .start = 1, .started = 3, .members = {50}};
    struct mob_table_question insert_start = {.op = MOB_TABLE_INSERT, .config = start};
    assert_int_equal(ask(other, insert_start).status, MOB_OK);
    a = ask(one, (struct mob_table_question){.op = MOB_TABLE_NEWEST});
    assert_memory_equal(&a.config, &start, sizeof start);
    check_nodes(one, other);
    mob_table_destroy(one);
    mob_table_destroy(other);
}

static void masters_agree_in_a_file(void **state)
{
    (void)state;
    char directory[] = "/tmp/mob-table-XXXXXX", path[64], lock[80], nodes[80];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/table", directory);
    snprintf(lock, sizeof lock, "%s.lock", path);
    snprintf(nodes, sizeof nodes, "%s.nodes", path);
    check_table(&(struct mob_table_options){.file = path});
    /* a file without one good slot is not believed */
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    for (long slot = 0; slot < 3; slot++) {
        fseek(file, slot * 4096 + 40, SEEK_SET);
        fputc('x', file);
    }
    fclose(file);
    struct mob_table *table;
    assert_int_equal(mob_table_create(&(struct mob_table_options){.file = path}, &table), MOB_OK);
    assert_int_equal(ask(table, (struct mob_table_question){.op = MOB_TABLE_ROW}).status, MOB_CORRUPT);
    mob_table_destroy(table);
    unlink(path);
    unlink(lock);
    unlink(nodes);
    rmdir(directory);
}

static void masters_agree_in_postgres(void **state)
{
    (void)state;
    static struct pg_box pg;
    if (!pg_box_available())
        skip();
    pg_box_init(&pg);
    pg_box_start(&pg);
    check_table(&(struct mob_table_options){.postgres = pg.data});
    pg_box_fini(&pg);
}

static pid_t server_of(struct mob_database *db, const char *name)
{
    char sql[160];
    snprintf(sql, sizeof sql,
        "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE application_name = '%s'", name);
    pid_t pid = (pid_t)pg_box_number(db, sql);
    assert_true(pid > 0);
    return pid;
}

static bool realtime_is_allowed(void)
{
    struct sched_param high = {.sched_priority = 1}, normal = {.sched_priority = 0};
    return sched_setscheduler(0, SCHED_FIFO, &high) == 0 && sched_setscheduler(0, SCHED_OTHER, &normal) == 0;
}

/* Of a master only, so that its INSERT does not wait for a core; and not of what the server starts later. */
static void the_servers_process_of_a_master_has_its_priority(void **state)
{
    (void)state;
    static struct pg_box pg;
    struct mob_table *table;
    if (!pg_box_available() || !realtime_is_allowed())
        skip();
    pg_box_init(&pg);
    pg_box_start(&pg);
    struct mob_table_options options = {.postgres = pg.data};
    struct mob_database *db = pg_box_open(&pg);
    assert_int_equal(mob_table_create(&options, &table), MOB_OK);
    assert_int_equal(ask(table, (struct mob_table_question){.op = MOB_TABLE_ROW}).status, MOB_OK);
    pid_t own = server_of(db, "mobula-master-0"), other = server_of(db, "mobula");
    assert_int_equal(sched_getscheduler(own), SCHED_FIFO | SCHED_RESET_ON_FORK);
    assert_int_equal(sched_getscheduler(other), SCHED_OTHER);
    assert_int_equal(sched_getscheduler(pg.pid), SCHED_OTHER);
    mob_table_destroy(table);
    mob_database_close(db);
    pg_box_fini(&pg);
}

/* Until it is done: what is unknown or was not answered in time is asked again, as masters do. */
static void take_row(struct mob_table *table, struct mob_master_row to)
{
    int64_t deadline = DEADLINE;
    struct mob_table_answer a = {.row = {0, 0}};
    while (a.row.term != to.term) {
        assert_true(mob_now() < deadline);
        a = ask(table, (struct mob_table_question){.op = MOB_TABLE_ROW});
        if (a.status == MOB_OK && a.row.term != to.term)
            (void)set_row(table, a.row, to);
    }
}

/* One process of the server, not all of it: its connection would wait for ever, and with the row in its hands
 * it would keep every master out. */
static void a_stopped_process_of_the_server_keeps_no_master_out(void **state)
{
    (void)state;
    static struct pg_box pg;
    struct mob_table *one, *other;
    if (!pg_box_available())
        skip();
    pg_box_init(&pg);
    pg_box_start(&pg);
    struct mob_table_options options = {.postgres = pg.data};
    struct mob_master_row none = {0, 0}, first = {1, 0}, second = {2, 0};
    struct mob_database *db = pg_box_open(&pg), *holder = pg_box_open(&pg);
    assert_int_equal(mob_table_create(&options, &one), MOB_OK);
    assert_int_equal(set_row(one, none, first), MOB_OK);
    pid_t stopped = server_of(db, "mobula-master-0");
    assert_int_equal(kill(stopped, SIGSTOP), 0);
    struct mob_table_question look = {.op = MOB_TABLE_ROW};
    assert_int_equal(ask(one, look).status, MOB_UNAVAILABLE);
    struct mob_table_answer a = ask(one, look); /* by another process */
    assert_int_equal(a.status, MOB_OK);
    assert_int_equal(a.row.term, 1);
    assert_int_equal(kill(stopped, SIGCONT), 0);

    assert_int_equal(mob_table_create(&options, &other), MOB_OK);
    assert_int_equal(mob_database_run(holder,
                         "SET application_name = 'mobula-master-0'; BEGIN; "
                         "UPDATE mobula.master SET beat = beat + 1 WHERE shard = 0"),
        MOB_OK);
    stopped = (pid_t)pg_box_number(db, "SELECT max(pid) FROM pg_stat_activity WHERE state LIKE 'idle in%'");
    assert_true(stopped > 0);
    assert_int_equal(kill(stopped, SIGSTOP), 0);
    take_row(other, second);
    assert_int_not_equal(mob_database_run(holder, "COMMIT"), MOB_OK); /* it can do nothing more */
    a = ask(one, look);
    assert_int_equal(a.row.term, second.term);
    mob_table_destroy(one);
    mob_table_destroy(other);
    mob_database_close(holder);
    mob_database_close(db);
    pg_box_fini(&pg);
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

static void expect_number(struct mob_gcs *gcs, uint32_t key, uint32_t expected)
{
    struct mob_gcs_result *result;
    uint32_t value = 0;
    assert_int_equal(mob_gcs_get_wait(gcs, MOB_GCS_KV, &key, sizeof key, DEADLINE, &result), MOB_OK);
    memcpy(&value, mob_gcs_result_answer(result)->kvs[0].value, sizeof value);
    assert_int_equal(value, expected);
    mob_gcs_result_destroy(result);
}

static void without_postgres_data_flows_and_nothing_is_reconfigured(void **state)
{
    (void)state;
    static struct pg_box pg;
    static struct chain_box box;
    if (!pg_box_available())
        skip();
    pg_box_init(&pg);
    pg_box_start(&pg);
    chain_box_init(&box, 2, 2, "everysec");
    box.postgres = pg.data;
    chain_box_start(&box);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    struct mob_gcs *gcs = chain_box_client(&box);
    for (uint32_t i = 0; i < 50; i++)
        put_number(gcs, i, i + 1);
    pg_box_end(&pg, SIGQUIT);
    /* the master's lease runs out, and with it the tail's: reads go through the chain */
    for (int64_t end = mob_now() + 4 * MOB_SEC; mob_now() < end;) {
        put_number(gcs, 1000, (uint32_t)(end & 0xffff));
        expect_number(gcs, 1000, (uint32_t)(end & 0xffff));
        expect_number(gcs, 49, 50);
    }
    /* the tail dies: nobody can say who is in the chain now */
    gcs_box_end(&box.member[chain_box_place(&box, true)].gcs, SIGKILL);
    uint32_t key = 2000, value = 7;
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = &key,
        .key_length = sizeof key,
        .value = &value,
        .value_length = sizeof value,
        .if_version = MOB_GCS_ANY_VERSION};
    struct mob_gcs_sync sync = {0};
    assert_int_equal(mob_gcs_put(gcs, &put, mob_gcs_sync_done, &sync), MOB_OK);
    assert_int_equal(mob_gcs_sync_wait(gcs, &sync, mob_now() + 1 * MOB_SEC, NULL), MOB_TIMEOUT);
    pg_box_start(&pg);
    assert_int_equal(mob_gcs_sync_wait(gcs, &sync, DEADLINE, NULL), MOB_OK);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    expect_number(gcs, key, value);
    for (uint32_t i = 0; i < 50; i++)
        expect_number(gcs, i, i + 1);
    mob_gcs_destroy(gcs);
    /* every epoch is there once, in the table */
    struct mob_database *db = pg_box_open(&pg);
    int64_t newest = pg_box_number(db, "SELECT max(epoch) FROM mobula.chain_epoch");
    assert_int_equal(newest, pg_box_number(db, "SELECT count(*) FROM mobula.chain_epoch"));
    assert_true(newest >= 3);
    mob_database_close(db);
    chain_box_fini(&box);
    pg_box_fini(&pg);
}

/* Ends the master, starts the next, and says how long it was until the chain took a write. */
static int64_t time_without_master(struct chain_box *box, int64_t number)
{
    gcs_box_end(&box->master[0], SIGTERM);
    int64_t stopped = mob_now();
    chain_box_start_master(box, 0);
    gcs_box_end(&box->member[0].gcs, SIGKILL);
    chain_box_start_member(box, 0);
    struct mob_gcs *gcs = chain_box_client(box);
    put_number(gcs, number, 2);
    mob_gcs_destroy(gcs);
    return mob_now() - stopped;
}

/* A master that is stopped says so, and the next one does not wait for the 3 s of its lease: if it did, no
 * attempt could be quicker, and one of several is, however busy the machine. */
static void a_stopped_master_leaves_at_once(void **state)
{
    (void)state;
    static struct chain_box box;
    int64_t quickest = INT64_MAX;
    chain_box_init(&box, 1, 1, "everysec");
    chain_box_start(&box);
    assert_true(chain_box_wait_length(&box, 1, DEADLINE));
    for (int64_t i = 1; i <= 5 && quickest >= 2900 * MOB_MS; i++) {
        int64_t took = time_without_master(&box, i);
        quickest = took < quickest ? took : quickest;
    }
    assert_true(quickest < 2900 * MOB_MS);
    chain_box_fini(&box);
}

/* A master that was stopped while it changed the file holds its lock. */
static void a_master_that_was_stopped_in_a_change_keeps_nobody_out(void **state)
{
    (void)state;
    struct chain_box box;
    char path[128];
    int status = 0;
    chain_box_init(&box, 2, 2, "everysec");
    snprintf(path, sizeof path, "%s.lock", box.table);
    pid_t stopped = fork();
    if (stopped == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fd < 0 || fcntl(fd, F_SETLK, &lock) != 0)
            _exit(1);
        raise(SIGSTOP);
        _exit(2); /* it went on */
    }
    assert_int_equal(waitpid(stopped, &status, WUNTRACED), stopped);
    assert_true(WIFSTOPPED(status));
    chain_box_start(&box);
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    assert_int_equal(waitpid(stopped, &status, 0), stopped);
    assert_true(WIFSIGNALED(status));
    chain_box_fini(&box);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masters_agree_in_a_file),
        cmocka_unit_test(masters_agree_in_postgres),
        cmocka_unit_test(the_servers_process_of_a_master_has_its_priority),
        cmocka_unit_test(a_stopped_process_of_the_server_keeps_no_master_out),
        cmocka_unit_test(a_stopped_master_leaves_at_once),
        cmocka_unit_test(a_master_that_was_stopped_in_a_change_keeps_nobody_out),
        cmocka_unit_test(without_postgres_data_flows_and_nothing_is_reconfigured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
