/* Who finds out that a node is dead, has its log sealed and gives out the next incarnation: nodes that enroll
 * at the master of a chain of two. Real processes. ctest: timeout=240
 *
 * The short set takes a few seconds; MOBULA_TEST_ALL=1 adds those that wait for a master's lease to run out.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/chain_box.h"
#include "tests/support/driver.h"
#include "tests/support/pg_box.h"

#define PATIENCE (60 * MOB_SEC)
#define DEADLINE (mob_now() + PATIENCE)
#define FENCED 3 /* exit status of a node whose incarnation is over */

static struct chain_box box;
static struct mob_client *client;
static struct mob_gcs *gcs; /* of the test's main thread */
static char node_dir[128];

/* ---- nodes ---- */

static pid_t spawn_node_in(const char *directory)
{
    const char *binaries = getenv("MOBULA_BIN_DIR");
    char program[512], worker[512], log[160];
    snprintf(program, sizeof program, "%s/mobula-node", binaries == NULL ? "build/release/bin" : binaries);
    snprintf(worker, sizeof worker, "%s/mobula-worker", binaries == NULL ? "build/release/bin" : binaries);
    snprintf(log, sizeof log, "%s/node.log", directory);
    const char *argv[] = {program, "--dir", directory, "--gcs-socket", box.clients, "--masters",
        box.masters_flag, "--worker-binary", worker, "--segment-bytes", "134217728", "--slots", "2",
        "--spill-quota-bytes", "0", NULL};
    pid_t parent = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (getppid() != parent || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(1);
    execv(program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static pid_t spawn_node(void)
{
    return spawn_node_in(node_dir);
}

static bool says(const char *path, const char *text)
{
    char line[1024];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return found;
}

static bool is_ready(uint64_t incarnation)
{
    char path[160], text[64];
    snprintf(path, sizeof path, "%s/node.log", node_dir);
    snprintf(text, sizeof text, "node ready incarnation=%lu ", incarnation);
    return says(path, text);
}

/* ---- logs, as the chain has them ---- */

struct logs {
    struct mob_gcs_incarnation rows[16];
    uint32_t count;
};

/* What ended of the chain is started again while it does not answer. */
static struct logs logs_of(struct mob_gcs *with)
{
    struct logs logs = {.count = 0};
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result;
    assert_int_equal(mob_gcs_incarnations(with, 0, mob_gcs_sync_done, &sync), MOB_OK);
    int64_t deadline = DEADLINE;
    enum mob_status status = MOB_TIMEOUT;
    while (status == MOB_TIMEOUT && mob_now() < deadline) {
        status = mob_gcs_sync_wait(with, &sync, mob_now() + MOB_SEC, &result);
        chain_box_tend(&box);
    }
    assert_int_equal(status, MOB_OK);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
    for (; logs.count < a->incarnation_count && logs.count < 16; logs.count++)
        logs.rows[logs.count] = a->incarnations[logs.count];
    mob_gcs_result_destroy(result);
    return logs;
}

/* Every one but the newest is over, and never two live. */
static void check_one_lives(const struct logs *logs, uint64_t newest)
{
    for (uint32_t i = 0; i < logs->count; i++)
        assert_int_equal(logs->rows[i].state == MOB_GCS_LIVE, logs->rows[i].id == newest);
    assert_true(logs->count > 0 && logs->rows[logs->count - 1].id == newest);
}

/* The newest live incarnation whose node is ready; what ended of the chain is started again meanwhile, and so
 * is the node `again`, which gives up when it gets no incarnation in half a minute. NULL: there is none. */
static uint64_t wait_for_node_after(struct mob_gcs *with, uint64_t old, pid_t *again)
{
    for (int64_t deadline = DEADLINE;; poll(NULL, 0, 10)) {
        struct logs logs = logs_of(with);
        uint64_t newest = logs.count > 0 ? logs.rows[logs.count - 1].id : 0;
        if (newest > old && is_ready(newest)) {
            check_one_lives(&logs, newest);
            return newest;
        }
        if (mob_now() > deadline)
            fail_msg("no node after incarnation %lu; the newest is %lu", old, newest);
        chain_box_tend(&box);
        if (again != NULL && gcs_box_ended(again))
            *again = spawn_node();
    }
}

static struct mob_gcs_incarnation wait_until_sealed(struct mob_gcs *with, uint64_t incarnation)
{
    for (int64_t deadline = DEADLINE;; poll(NULL, 0, 10)) {
        struct logs logs = logs_of(with);
        for (uint32_t i = 0; i < logs.count; i++)
            if (logs.rows[i].id == incarnation && logs.rows[i].state != MOB_GCS_LIVE)
                return logs.rows[i];
        if (mob_now() > deadline)
            fail_msg("incarnation %lu is not sealed", incarnation);
    }
}

/* ---- the stage ---- */

static pid_t node;
static uint64_t incarnation;

static void open_stage(struct pg_box *pg, uint32_t masters)
{
    chain_box_init(&box, 2, 2, "everysec");
    box.silence_ms = 1500;
    box.masters = masters;
    box.postgres = pg == NULL ? NULL : pg->data;
    snprintf(node_dir, sizeof node_dir, "%s/node", box.directory);
    assert_int_equal(mkdir(node_dir, 0700), 0);
    gcs_box_write_identity(node_dir);
    chain_box_start(&box);
    gcs = chain_box_client(&box);
    node = spawn_node();
    incarnation = wait_for_node_after(gcs, 0, &node);
    setenv("MOBULA_DIR", node_dir, 1);
    client = driver_connect(NULL);
    driver_deploy(client, "probe");
}

static void close_stage(void)
{
    mob_disconnect(client);
    assert_int_equal(gcs_box_end(&node, SIGTERM), 0);
    wait_until_sealed(gcs, incarnation); /* it said that it left, and nobody waited until it was silent */
    mob_gcs_destroy(gcs);
    chain_box_fini(&box);
}

static void replace_killed_node(void)
{
    gcs_box_end(&node, SIGKILL);
    node = spawn_node();
    incarnation = wait_for_node_after(gcs, incarnation, &node);
}

static void work(int count)
{
    enum { MAX = 200 };
    struct mob_future *futures[MAX];
    int64_t v;
    assert_true(count <= MAX);
    for (int i = 0; i < count; i++)
        OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i)), NULL, &futures[i]));
    for (int i = 0; i < count; i++) {
        OK(mob_get_i64(futures[i], PATIENCE, &v));
        assert_int_equal(v, i);
        mob_release(futures[i]);
    }
}

/* ---- a node that is declared dead and is not ---- */

struct replacing {
    pid_t next;
    uint64_t incarnation;
    struct mob_gcs_incarnation cut, after;
    int zombie_status;
};

/* While the test's thread works through the node. It stays until the end of the stage: what it started dies
 * with it. */
static void *stop_and_replace(void *arg)
{
    struct replacing *r = arg;
    struct mob_gcs *own = chain_box_client(&box);
    kill(node, SIGSTOP);
    r->cut = wait_until_sealed(own, incarnation);
    r->next = spawn_node();
    r->incarnation = wait_for_node_after(own, incarnation, NULL);
    kill(node, SIGCONT);
    waitpid(node, &r->zombie_status, 0);
    r->after = wait_until_sealed(own, incarnation);
    mob_gcs_destroy(own);
    poll(NULL, 0, 0);
    return NULL;
}

static void *replacer_main(void *arg)
{
    struct replacing *r = arg;
    stop_and_replace(r);
    int status;
    waitpid(r->next, &status, 0); /* until the stage is closed */
    return (void *)(intptr_t)status;
}

static void a_stopped_node_is_replaced_and_its_zombie_ends(void **state)
{
    (void)state;
    enum { N = 4000, WINDOW = 400 };
    static struct mob_future *futures[WINDOW];
    static struct replacing r;
    pthread_t replacer;
    open_stage(NULL, 1);
    uint64_t first = incarnation;
    work(100);
    bool started = false;
    int done = 0;
    int64_t v;
    /* Until the next incarnation has done as many: the rest of the load is its. */
    for (int i = 0; done < N || r.incarnation == 0 || done < 2 * N; i++) {
        if (i >= WINDOW) {
            OK(mob_get_i64(futures[i % WINDOW], PATIENCE, &v));
            assert_int_equal(v, i - WINDOW);
            mob_release(futures[i % WINDOW]);
            done++;
        }
        OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i)), NULL, &futures[i % WINDOW]));
        if (!started && done >= N / 4) {
            started = true;
            assert_int_equal(pthread_create(&replacer, NULL, replacer_main, &r), 0);
        }
    }
    for (int64_t deadline = DEADLINE; r.after.id == 0; poll(NULL, 0, 5))
        assert_true(mob_now() < deadline);
    assert_true(WIFEXITED(r.zombie_status));
    assert_int_equal(WEXITSTATUS(r.zombie_status), FENCED);
    assert_int_equal(r.after.blocks, r.cut.blocks); /* it appended nothing */
    assert_true(r.cut.blocks > 0);
    assert_true(r.incarnation > first);
    incarnation = r.incarnation;
    struct logs logs = logs_of(gcs);
    check_one_lives(&logs, incarnation);
    work(100);
    mob_disconnect(client);
    void *status;
    kill(r.next, SIGTERM);
    pthread_join(replacer, &status);
    assert_int_equal((intptr_t)status, 0);
    wait_until_sealed(gcs, incarnation);
    mob_gcs_destroy(gcs);
    chain_box_fini(&box);
}

/* ---- two processes under one name ---- */

static void the_second_of_two_living_nodes_is_refused(void **state)
{
    (void)state;
    char second_dir[160], path[192];
    open_stage(NULL, 1);
    snprintf(second_dir, sizeof second_dir, "%s/second", box.directory);
    assert_int_equal(mkdir(second_dir, 0700), 0);
    gcs_box_write_identity(second_dir);
    snprintf(path, sizeof path, "%s/node.log", second_dir);
    pid_t second = spawn_node_in(second_dir);
    for (int64_t deadline = DEADLINE; !gcs_box_ended(&second); poll(NULL, 0, 10)) {
        work(5);
        assert_true(mob_now() < deadline);
    }
    assert_true(says(path, "name_is_taken"));
    assert_true(says(path, "start_failed status=already-exists"));
    work(50); /* the first has noticed nothing */
    struct logs logs = logs_of(gcs);
    assert_int_equal(logs.count, 1);
    check_one_lives(&logs, incarnation);
    replace_killed_node(); /* and when it is gone its name is free */
    work(50);
    close_stage();
}

/* ---- masters that die at it ---- */

/* The node dies, and its master while it deals with that. */
static void master_dies_at(const char *failpoint)
{
    struct logs before;
    open_stage(NULL, 1);
    work(50);
    gcs_box_end(&box.master[0], SIGTERM);
    box.master_failpoints[0] = failpoint;
    chain_box_start_master(&box, 0);
    box.master_failpoints[0] = NULL; /* of the next one, which chain_box_tend starts */
    pid_t first = box.master[0];
    uint64_t old = incarnation;
    replace_killed_node();
    assert_true(box.master[0] != first); /* it died of it */
    work(50);
    before = logs_of(gcs);
    assert_int_equal(before.rows[before.count - 2].id, old);
    /* Everything of the chain dies: what starts again knows from the master what was sealed. */
    for (uint32_t i = 0; i < box.members; i++) {
        gcs_box_end(&box.member[i].gcs, SIGKILL);
        gcs_box_end(&box.member[i].redis, SIGKILL);
    }
    char text[64];
    bool told = false;
    snprintf(text, sizeof text, "sealed_before incarnation=%lu cut=%lu", old,
        before.rows[before.count - 2].blocks);
    for (int64_t deadline = DEADLINE; !told; poll(NULL, 0, 10)) {
        chain_box_tend(&box);
        for (uint32_t i = 0; i < box.members; i++) {
            char path[160];
            snprintf(path, sizeof path, "%s/gcs.log", box.member[i].directory);
            told = told || says(path, text);
        }
        assert_true(mob_now() < deadline);
    }
    assert_true(chain_box_wait_length(&box, 2, DEADLINE));
    work(50);
    struct logs after = logs_of(gcs);
    check_one_lives(&after, incarnation);
    assert_int_equal(after.rows[after.count - 2].blocks, before.rows[before.count - 2].blocks);
    close_stage();
}

static void a_master_that_dies_before_it_records_is_followed(void **state)
{
    (void)state;
    master_dies_at("master.node_decided=kill@1");
}

static void a_master_that_dies_before_it_seals_is_followed(void **state)
{
    (void)state;
    master_dies_at("master.node_noted=kill@1");
}

static void a_master_that_dies_before_it_records_the_cut_is_followed(void **state)
{
    (void)state;
    master_dies_at("master.node_sealed=kill@1");
}

/* One is stopped, another decides, and the first goes on with what it believed. */
static void of_two_masters_one_decides(void **state)
{
    (void)state;
    char path[160];
    open_stage(NULL, 2);
    snprintf(path, sizeof path, "%s/master.0.log", box.directory);
    uint32_t active = says(path, " master active ") ? 0 : 1, other = 1 - active;
    snprintf(path, sizeof path, "%s/master.%u.log", box.directory, other);
    work(50);
    kill(box.master[active], SIGSTOP);
    for (int64_t deadline = DEADLINE; !says(path, " master active "); poll(NULL, 0, 20))
        assert_true(mob_now() < deadline);
    uint64_t old = incarnation;
    gcs_box_end(&node, SIGKILL);
    kill(box.master[active], SIGCONT); /* as if it were still the master: the node is dead for it, too */
    node = spawn_node();
    incarnation = wait_for_node_after(gcs, incarnation, &node);
    work(50);
    wait_until_sealed(gcs, old);
    /* and the other way round: the row of the table, not the process, is what counts */
    replace_killed_node();
    work(50);
    struct logs logs = logs_of(gcs);
    check_one_lives(&logs, incarnation);
    close_stage();
}

/* ---- PostgreSQL ---- */

static int64_t count(struct pg_box *pg, const char *sql)
{
    struct mob_database *db = pg_box_open(pg);
    int64_t n = pg_box_number(db, sql);
    mob_database_close(db);
    return n;
}

/* Without the table nobody may decide: the log stays as it is, no other incarnation begins, what others do
 * goes on. */
static void without_postgres_a_dead_node_waits(void **state)
{
    (void)state;
    static struct pg_box pg;
    if (!pg_box_available())
        skip();
    pg_box_init(&pg);
    pg_box_start(&pg);
    open_stage(&pg, 1);
    work(50);
    assert_int_equal(count(&pg, "SELECT count(*) FROM mobula.node_home WHERE shard = 0"), 1);
    assert_int_equal(count(&pg, "SELECT incarnation FROM mobula.node_log WHERE state = 1"), incarnation);
    pg_box_end(&pg, SIGQUIT);
    work(50); /* the node itself needs no PostgreSQL */
    uint64_t old = incarnation;
    gcs_box_end(&node, SIGKILL);
    node = spawn_node();
    uint32_t key = 1;
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = &key,
        .key_length = sizeof key,
        .value = &key,
        .value_length = sizeof key,
        .if_version = MOB_GCS_ANY_VERSION};
    for (int64_t end = mob_now() + 2 * box.silence_ms * MOB_MS; mob_now() < end; poll(NULL, 0, 20)) {
        assert_int_equal(mob_gcs_put_wait(gcs, &put, DEADLINE, NULL), MOB_OK);
        struct logs logs = logs_of(gcs);
        check_one_lives(&logs, old);
    }
    pg_box_start(&pg);
    incarnation = wait_for_node_after(gcs, old, &node);
    work(50);
    assert_int_equal(count(&pg, "SELECT incarnation FROM mobula.node_log WHERE state = 1"), incarnation);
    struct mob_gcs_incarnation cut = wait_until_sealed(gcs, old);
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT cut FROM mobula.node_log WHERE incarnation = %lu AND state = 3", old);
    assert_int_equal(count(&pg, sql), cut.blocks);
    close_stage();
    pg_box_fini(&pg);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_node_is_replaced_and_its_zombie_ends),
        cmocka_unit_test(the_second_of_two_living_nodes_is_refused),
        cmocka_unit_test(without_postgres_a_dead_node_waits),
    };
    const struct CMUnitTest all[] = {
        cmocka_unit_test(a_stopped_node_is_replaced_and_its_zombie_ends),
        cmocka_unit_test(the_second_of_two_living_nodes_is_refused),
        cmocka_unit_test(without_postgres_a_dead_node_waits),
        cmocka_unit_test(a_master_that_dies_before_it_records_is_followed),
        cmocka_unit_test(a_master_that_dies_before_it_seals_is_followed),
        cmocka_unit_test(a_master_that_dies_before_it_records_the_cut_is_followed),
        cmocka_unit_test(of_two_masters_one_decides),
    };
    return getenv("MOBULA_TEST_ALL") == NULL ? cmocka_run_group_tests(tests, NULL, NULL)
                                             : cmocka_run_group_tests(all, NULL, NULL);
}
