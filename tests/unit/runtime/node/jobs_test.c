/* Jobs of drivers that come and go, and drivers whose names cannot be shown. */
#include "tests/unit/runtime/node/node_fixture.h"

#include <sys/wait.h>

#include "runtime/node/jobs.h"
#include "runtime/node/task.h"

static struct node_job *open_job(struct nx *nx, const char *name)
{
    struct node_job_options options = {.ns = "default", .name = name, .root = mob_root_id_random()};
    struct node_job *job = node_job_open(nx->node, &options);
    assert_non_null(job);
    return job;
}

/* Without its row: the stand-in of the control store keeps few. */
static struct node_job *add_job(struct nx *nx)
{
    struct node_job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->id = (struct mob_job_id){mob_root_id_random().stream};
    job->weight = 1;
    job->sched_job = JOB_NO_NUMBER;
    job_list_push(&nx->node->jobs, job);
    return job;
}

static void more_jobs_than_the_scheduler_has_numbers(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    struct mob_spec_head head = nx_next(&driver, MOB_KIND_TASK);
    struct mob_object_id missing = mob_object_of(mob_root_id_random(), 0);
    nx_spec(driver.store, &head, &missing);
    nx_turn(&nx, 3);
    struct node_job *busy = node_job_by_id(nx.node, driver.welcome.job);
    assert_non_null(busy);
    uint16_t kept = busy->sched_job, number;
    assert_int_not_equal(kept, JOB_NO_NUMBER);
    for (uint32_t i = 0; i < MOB_SCHED_JOBS_MAX + 10; i++)
        assert_int_equal(node_job_number(nx.node, add_job(&nx), &number), MOB_OK);
    assert_int_equal(busy->sched_job, kept); /* its task is there yet */
    nx_close_with(&nx, &driver);
}

/* Found by its id among others, and ended when its driver, which may come back under its key, stays away;
 * then nothing wakes the node for it. */
static void one_of_many_is_found_and_ends_with_its_grace(void **state)
{
    (void)state;
    enum { MANY = 40 };
    struct nx nx;
    struct nx_driver driver;
    struct mob_job_id ids[MANY];
    nx_open(&nx, 0);
    nx_key = "one of many";
    nx_connect(&nx, &driver, NULL);
    nx_key = "";
    for (int i = 0; i < MANY; i++)
        ids[i] = open_job(&nx, "one of many")->id;
    for (int i = 0; i < MANY; i++) {
        const struct node_job *job = node_job_by_id(nx.node, ids[i * 7 % MANY]);
        assert_non_null(job);
        assert_memory_equal(&job->id, &ids[i * 7 % MANY], sizeof ids[0]);
    }
    assert_null(node_job_by_id(nx.node, (struct mob_job_id){mob_root_id_random().stream}));
    assert_false(node_has_timers(nx.node));
    struct node_job *left = node_job_by_id(nx.node, driver.welcome.job);
    nx_disconnect(&driver);
    nx_turn(&nx, 3);
    assert_int_equal(left->state, JOB_GRACE);
    assert_true(node_has_timers(nx.node));
    nx.node->now_ns = left->grace_until_ns - 1;
    node_jobs_tick(nx.node);
    assert_true(left->state == JOB_GRACE && node_has_timers(nx.node));
    nx.node->now_ns++;
    node_jobs_tick(nx.node);
    assert_int_equal(left->state, JOB_ENDED);
    node_jobs_tick(nx.node);
    assert_false(node_has_timers(nx.node));
    nx_close(&nx);
}

/* Nobody can ask for its tasks any more: they end with it, and the row says so. */
static void without_a_key_a_job_ends_with_its_session(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver, next;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver);
    nx_turn(&nx, 3);
    assert_non_null(node_task_find(nx.node, task));
    struct node_job *job = node_job_by_id(nx.node, driver.welcome.job);
    nx_disconnect(&driver);
    nx_turn(&nx, 3);
    assert_int_equal(job->state, JOB_ENDED);
    assert_null(node_task_find(nx.node, task));
    assert_false(node_has_timers(nx.node));
    nx_settle(&nx);
    nx_restart(&nx, 0);
    job = node_job_by_id(nx.node, driver.welcome.job);
    assert_non_null(job);
    assert_int_equal(job->state, JOB_ENDED);
    nx_connect(&nx, &next, NULL);
    assert_memory_not_equal(&next.welcome.job, &driver.welcome.job, sizeof next.welcome.job);
    nx_close_with(&nx, &next);
}

/* What the control store had no room for when it happened. */
static void rows_of_jobs_wait_for_room(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open(&nx, 0);
    FAKE.full = true;
    nx_connect(&nx, &driver, NULL);
    nx_submit(&driver);
    nx_turn(&nx, 3);
    assert_int_equal(fake_row_of(MOB_GCS_JOBS, &driver.welcome.job, sizeof driver.welcome.job), -1);
    FAKE.full = false;
    nx_turn(&nx, 1);
    assert_int_not_equal(fake_row_of(MOB_GCS_JOBS, &driver.welcome.job, sizeof driver.welcome.job), -1);
    FAKE.full = true;
    nx_disconnect(&driver);
    nx_turn(&nx, 3);
    assert_int_equal(node_job_by_id(nx.node, driver.welcome.job)->state, JOB_ENDED);
    FAKE.full = false;
    nx_settle(&nx);
    nx_restart(&nx, 0);
    assert_int_equal(node_job_by_id(nx.node, driver.welcome.job)->state, JOB_ENDED);
    nx_close(&nx);
}

/* As a driver that found what the node tells it in the segment written over. */
static void let_go(struct nx *nx, struct nx_driver *driver)
{
    static const uint8_t again = MOB_SESSION_AGAIN;
    assert_int_equal(send(driver->sock, &again, sizeof again, MSG_NOSIGNAL), sizeof again);
    assert_int_equal(shutdown(driver->sock, SHUT_WR), 0);
    nx_turn(nx, 3);
    assert_int_equal(recv(driver->sock, &(uint8_t){0}, 1, MSG_DONTWAIT), 0); /* the node let go of it, too */
}

/* It had not waited for the welcome any longer, which came all the same just before it closed. */
static void job_waits_for_a_driver_that_has_not_read_its_welcome(void **state)
{
    (void)state;
    static const uint8_t byte = MOB_SESSION_AGAIN;
    struct nx nx;
    struct nx_driver driver, late, again;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver);
    nx_turn(&nx, 3);
    const struct node_job *job = node_job_by_id(nx.node, driver.welcome.job);
    let_go(&nx, &driver);
    nx_hello(&nx, &late, &driver);
    assert_int_equal(job->state, JOB_RUNNING);
    assert_int_equal(send(late.sock, &byte, sizeof byte, MSG_NOSIGNAL), sizeof byte);
    close(late.sock);
    nx_turn(&nx, 3);
    assert_int_equal(job->state, JOB_GRACE);
    assert_non_null(node_task_find(nx.node, task));
    nx_connect(&nx, &again, &driver);
    assert_int_equal(job->state, JOB_RUNNING);
    nx_disconnect(&again);
    nx_disconnect(&driver);
    nx_close(&nx);
}

static void job_waits_for_a_driver_that_comes_again(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver, again;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver);
    nx_turn(&nx, 3);
    const struct node_job *job = node_job_by_id(nx.node, driver.welcome.job);
    let_go(&nx, &driver);
    node_jobs_tick(nx.node);
    assert_int_equal(job->state, JOB_GRACE);
    assert_non_null(node_task_find(nx.node, task));
    nx_connect(&nx, &again, &driver);
    assert_memory_equal(&again.welcome.job, &driver.welcome.job, sizeof again.welcome.job);
    assert_int_equal(job->state, JOB_RUNNING);
    assert_non_null(node_task_find(nx.node, task));
    nx_disconnect(&driver);
    nx_disconnect(&again); /* without a word: a good-bye */
    nx_turn(&nx, 3);
    assert_int_equal(job->state, JOB_ENDED);
    assert_null(node_task_find(nx.node, task));
    nx_close(&nx);
}

/* As it stands when the node that started last has looked after its jobs once. */
static struct node_job *job_after_tick(struct nx *nx, const struct nx_driver *driver)
{
    struct node_job *job = node_job_by_id(nx->node, driver->welcome.job);
    assert_non_null(job);
    node_jobs_tick(nx->node);
    return job;
}

/* The driver is this process. */
static void a_living_driver_without_a_key_keeps_its_job_over_a_restart(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver, again;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver);
    nx_settle(&nx);
    nx_restart(&nx, 0);
    assert_int_equal(job_after_tick(&nx, &driver)->state, JOB_GRACE);
    nx_connect(&nx, &again, &driver);
    assert_memory_equal(&again.welcome.job, &driver.welcome.job, sizeof again.welcome.job);
    assert_int_equal(job_after_tick(&nx, &driver)->state, JOB_RUNNING);
    assert_non_null(node_task_find(nx.node, task));
    nx_disconnect(&driver);
    nx_disconnect(&again);
    nx_turn(&nx, 3);
    assert_int_equal(job_after_tick(&nx, &driver)->state, JOB_ENDED);
    nx_close(&nx);
}

static struct driver_process ended_process(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct driver_process process = driver_process_of(ends[0]); /* of this one: pid and start */
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(process.pid, getpid());
    assert_false(driver_process_gone(process));
    process.pid = fork();
    if (process.pid == 0)
        _exit(0);
    assert_true(process.pid > 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)process.pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(driver_process_gone(process)); /* a zombie */
    assert_int_equal(waitpid(process.pid, NULL, 0), process.pid);
    assert_true(driver_process_gone(process));
    return process;
}

/* Killed while the node was away, too: nobody closes a session then. */
static void a_driver_that_died_with_its_node_leaves_nothing_running(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver);
    nx_turn(&nx, 3);
    struct node_job *job = node_job_by_id(nx.node, driver.welcome.job);
    job->driver = ended_process();
    node_job_save(nx.node, job);
    nx_settle(&nx);
    nx_restart(&nx, 0);
    assert_non_null(node_task_find(nx.node, task));
    assert_int_equal(job_after_tick(&nx, &driver)->state, JOB_ENDED);
    nx_turn(&nx, 3);
    assert_null(node_task_find(nx.node, task));
    nx_close_with(&nx, &driver);
}

/* It said that it comes again, and died. */
static void job_does_not_wait_for_a_process_that_ended(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver);
    nx_turn(&nx, 3);
    let_go(&nx, &driver);
    struct node_job *job = job_after_tick(&nx, &driver);
    assert_int_equal(job->state, JOB_GRACE);
    job->driver = ended_process();
    assert_int_equal(job_after_tick(&nx, &driver)->state, JOB_ENDED);
    nx_turn(&nx, 3);
    assert_null(node_task_find(nx.node, task));
    nx_close_with(&nx, &driver);
}

/* Another process has its number now. */
static void a_pid_that_was_given_out_again_is_nobodys(void **state)
{
    (void)state;
    struct driver_process other = {getpid(), 1};
    assert_true(driver_process_gone(other));
    other.started = 0;
    assert_false(driver_process_gone(other));
    other.pid = 0;
    assert_false(driver_process_gone(other));
}

/* The row came to the control store, the cancels did not: the node died in between. */
static void tasks_of_an_ended_job_do_not_run_after_a_restart(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 0, &driver);
    struct mob_task_id task = nx_submit(&driver);
    nx_settle(&nx);
    struct node_job *job = node_job_by_id(nx.node, driver.welcome.job);
    job->state = JOB_ENDED;
    node_job_save(nx.node, job);
    nx_restart(&nx, 0);
    nx_turn(&nx, 3);
    assert_null(node_task_find(nx.node, task));
    nx_close_with(&nx, &driver);
}

/* Queued, waiting and calls of another's actor; the other's stay. */
static void what_a_job_has_ends_with_it_among_others(void **state)
{
    (void)state;
    enum { EACH = 20 };
    struct nx nx;
    struct nx_driver mine, other;
    struct mob_task_id gone[3 * EACH / 2], kept[3 * EACH / 2];
    nx_open(&nx, 0);
    nx_connect(&nx, &mine, NULL);
    nx_connect(&nx, &other, NULL);
    struct mob_actor_id actor = nx_create(&other);
    nx_turn(&nx, 3);
    struct mob_object_id missing = mob_object_of(mob_root_id_random(), 0);
    for (int i = 0; i < 3 * EACH; i++) {
        struct nx_driver *driver = i % 2 ? &mine : &other;
        struct mob_task_id *place = i % 2 ? &gone[i / 2] : &kept[i / 2];
        if (i % 3 == 0) {
            *place = nx_submit(driver);
        } else if (i % 3 == 1) {
            *place = nx_call(driver, actor);
        } else {
            struct mob_spec_head head = nx_next(driver, MOB_KIND_TASK);
            nx_spec(driver->store, &head, &missing);
            *place = head.task;
        }
        nx_turn(&nx, 1);
    }
    nx_turn(&nx, 3);
    for (int i = 0; i < 3 * EACH / 2; i++)
        assert_true(node_task_find(nx.node, gone[i]) && node_task_find(nx.node, kept[i]));
    node_job_end(nx.node, node_job_by_id(nx.node, mine.welcome.job), true);
    nx_turn(&nx, 3);
    for (int i = 0; i < 3 * EACH / 2; i++) {
        assert_null(node_task_find(nx.node, gone[i]));
        assert_non_null(node_task_find(nx.node, kept[i]));
    }
    nx_disconnect(&mine);
    nx_disconnect(&other);
    nx_close(&nx);
}

static void end_at(struct nx *nx, struct node_job *job, int64_t ended_wall_ns)
{
    node_job_end(nx->node, job, true);
    job_list_remove(&nx->node->ended_jobs, job);
    job->ended_wall_ns = ended_wall_ns;
    job_list_insert(&nx->node->ended_jobs, job);
    node_job_save(nx->node, job);
}

static void age_now(struct nx *nx)
{
    nx->node->next_age_ns = 0;
    node_jobs_age(nx->node);
    nx_turn(nx, 2);
}

/* Whoever looks for one that runs does not come by those that have ended; who looks for old ones stops at
 * the first that is not. */
static void ended_jobs_stand_apart_in_the_order_of_their_ends(void **state)
{
    (void)state;
    enum { ENDED = 6 };
    static const int64_t old_ns[ENDED] = {4000, 1000, 0, 5000, 3000, 2000}; /* 0: now */
    struct nx nx;
    struct node_job *jobs[ENDED];
    struct mob_job_id ids[ENDED];
    nx_open(&nx, 0);
    struct mob_job_id running = open_job(&nx, "runs")->id;
    for (int i = 0; i < ENDED; i++) {
        jobs[i] = open_job(&nx, "ends");
        ids[i] = jobs[i]->id;
    }
    for (int i = 0; i < ENDED; i++)
        end_at(&nx, jobs[i], old_ns[i] ? old_ns[i] : mob_wall_now());
    for (int restarts = 0; restarts < 2; restarts++) {
        for (const struct node_job *job = nx.node->jobs.first; job; job = job->next)
            assert_int_not_equal(job->state, JOB_ENDED);
        int count = 0;
        int64_t last_ns = 0;
        for (const struct node_job *job = nx.node->ended_jobs.first; job; job = job->next, count++) {
            assert_int_equal(job->state, JOB_ENDED);
            assert_true(job->ended_wall_ns >= last_ns);
            last_ns = job->ended_wall_ns;
        }
        assert_int_equal(count, ENDED);
        nx_settle(&nx);
        nx_end(&nx);
        nx_start(&nx, 0);
    }
    age_now(&nx); /* drops what they left, and then they go */
    assert_non_null(node_job_by_id(nx.node, ids[0]));
    age_now(&nx);
    for (int i = 0; i < ENDED; i++) {
        const struct node_job *job = node_job_by_id(nx.node, ids[i]);
        assert_int_equal(job != NULL, old_ns[i] == 0);
    }
    assert_non_null(node_job_by_id(nx.node, running));
    nx_close(&nx);
}

/* A driver comes back under its key to what had ended long ago, while that is being dropped: what it does now
 * is dropped in its turn, and the job is not forgotten before. */
static void a_job_that_runs_again_ages_again(void **state)
{
    (void)state;
    struct nx nx;
    nx_open(&nx, 0);
    struct node_job *job = open_job(&nx, "again");
    struct mob_job_id id = job->id;
    end_at(&nx, job, 1000);
    nx.node->next_age_ns = 0;
    node_jobs_age(nx.node); /* not answered yet */
    node_job_rejoined(nx.node, job, true, (struct driver_process){0});
    assert_null(nx.node->ended_jobs.first);
    nx_turn(&nx, 2);
    age_now(&nx);
    assert_ptr_equal(node_job_by_id(nx.node, id), job);
    end_at(&nx, job, 2000);
    age_now(&nx);
    assert_ptr_equal(node_job_by_id(nx.node, id), job);
    age_now(&nx);
    assert_null(node_job_by_id(nx.node, id));
    nx_close(&nx);
}

static void names_are_cut_between_characters(void **state)
{
    (void)state;
    struct nx nx;
    char name[80];
    nx_open(&nx, 0);
    memset(name, 'a', 62);
    memcpy(name + 62, "\xc3\xa9", 3); /* 64 bytes: the last character has no room */
    struct node_job *job = open_job(&nx, name);
    assert_int_equal(strlen(job->name), 62);
    assert_string_equal(open_job(&nx,
                            "a\xff"
                            "b")
                            ->name,
        "a?b");
    char *list = node_jobs_json(nx.node);
    assert_non_null(strstr(list, "a?b"));
    free(list);
    nx_close(&nx);
}

static void names_that_are_not_utf8_are_refused(void **state)
{
    (void)state;
    struct mob_session_hello hello = {.magic = MOB_SESSION_MAGIC,
                                 .version = MOB_SESSION_VERSION,
                                 .kind = MOB_CLIENT_DRIVER},
                             out;
    char detail[MOB_SESSION_DETAIL];
    assert_int_equal(mob_session_hello_decode(&hello, sizeof hello, &out, detail), MOB_OK);
    memcpy(hello.job_name, "a\xff", 2);
    assert_int_equal(mob_session_hello_decode(&hello, sizeof hello, &out, detail), MOB_INVALID);
    hello.job_name[0] = 0;
    memcpy(hello.ns, "\xc3", 1);
    assert_int_equal(mob_session_hello_decode(&hello, sizeof hello, &out, detail), MOB_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_jobs_than_the_scheduler_has_numbers),
        cmocka_unit_test(one_of_many_is_found_and_ends_with_its_grace),
        cmocka_unit_test(without_a_key_a_job_ends_with_its_session),
        cmocka_unit_test(rows_of_jobs_wait_for_room),
        cmocka_unit_test(job_waits_for_a_driver_that_comes_again),
        cmocka_unit_test(job_waits_for_a_driver_that_has_not_read_its_welcome),
        cmocka_unit_test(job_does_not_wait_for_a_process_that_ended),
        cmocka_unit_test(a_living_driver_without_a_key_keeps_its_job_over_a_restart),
        cmocka_unit_test(a_driver_that_died_with_its_node_leaves_nothing_running),
        cmocka_unit_test(a_pid_that_was_given_out_again_is_nobodys),
        cmocka_unit_test(tasks_of_an_ended_job_do_not_run_after_a_restart),
        cmocka_unit_test(what_a_job_has_ends_with_it_among_others),
        cmocka_unit_test(ended_jobs_stand_apart_in_the_order_of_their_ends),
        cmocka_unit_test(a_job_that_runs_again_ages_again),
        cmocka_unit_test(names_are_cut_between_characters),
        cmocka_unit_test(names_that_are_not_utf8_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
