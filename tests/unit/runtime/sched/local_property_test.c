/* Random programs against the naive model: DAGs with nested tasks, actors, retries, deadlines; random
 * completions, blocking, deaths, cancels, times and resources. One seed a run; MOBULA_SEED=n replays one.
 * ctest: timeout=300 */
#include <stdlib.h>

#include "tests/unit/runtime/sched/sched_model_events.h"

#define RUNS 2000
#define EVENTS 120

static struct mob_stream children_of(void *arg, const struct mob_sched_task *task)
{
    struct model *m = arg;
    return fx_stream((uint32_t)m_of(m, task), 1);
}

static bool continued(void *arg, struct mob_task_id id, struct mob_sched_kin *kin_out)
{
    struct model *m = arg;
    for (int t = 0; t < m->tasks; t++)
        if (m->task[t].state == M_DONE && m->task[t].continued && mob_task_id_eq(m->task[t].id, id)) {
            *kin_out = (struct mob_sched_kin){fx_stream((uint32_t)t, 1), (uint32_t)m->task[t].kids, false};
            return true;
        }
    return false;
}

/* Cancels a task that has ended and left its outcome to others. */
static void cancel_continued(struct model *m)
{
    int t = m->tasks ? (int)m_random(m, (uint32_t)m->tasks) : 0;
    struct mob_sched_kin kin;
    if (m->tasks && continued(m, m->task[t].id, &kin)) {
        mob_sched_cancel_kin(m->s, &kin, false, m->now);
        cancel_kin(m, t);
        m->task[t].continued = m_random(m, 2); /* what it became may be there now */
    }
}

static int random_task(struct model *m)
{
    int t = m->tasks ? (int)m_random(m, (uint32_t)m->tasks) : 0;
    return m->tasks && m->task[t].state != M_DONE && m->task[t].state != M_NONE ? t : -1;
}

/* It makes some and waits for one of them, or for anything. */
static void await_children(struct model *m, int running)
{
    m->alike = m_random(m, 8) > 0;
    for (uint32_t i = 1 + m_random(m, 3); i > 0; i--)
        submit(m, running, -1, false);
    m->alike = false;
    if (m_random(m, 4) == 0)
        settle(m); /* some of them begin elsewhere */
    if (m->task[running].state != M_OUT || m->task[running].untold)
        return;
    int t = m_random(m, 4) ? m->tasks - 1 : random_task(m);
    if (t >= 0 && m->task[t].state != M_DONE && m->worker[m->task[running].worker].batch[0] == running)
        nest(m, running, t);
}

/* One, or one and siblings of it. */
static void submit_some(struct model *m, int parent)
{
    int before = m->tasks;
    submit(m, parent, -1, false);
    if (m->tasks > before && m_random(m, 4) == 0)
        submit_siblings(m, 1 + m_random(m, 8));
}

static void event(struct model *m)
{
    uint32_t kind = m_random(m, 100);
    int running = pick_running(m, M_OUT), blocked = pick_running(m, M_BLOCKED), t;
    if (kind < 25) {
        submit_some(m, -1);
    } else if (kind < 40) {
        submit_some(m, running);
    } else if (kind < 44) {
        open_actor(m);
    } else if (kind < 50) {
        int a = (int)m_random(m, 3);
        if (m->actor[a].open)
            submit(m, running, a, false);
    } else if (kind < 74) {
        if (running >= 0 && m_random(m, 3) == 0)
            finish_run(m, running);
        else if (running >= 0)
            finish(m, running,
                m->task[running].stopping ? MOB_CANCELLED
                    : m_random(m, 5)      ? MOB_OK
                                          : MOB_TASK_FAILED);
    } else if (kind < 79) {
        if (running >= 0)
            await_children(m, running);
    } else if (kind < 83) {
        if (running >= 0)
            block(m, running);
    } else if (kind < 88) {
        if (blocked >= 0)
            unblock(m, blocked);
        else if ((t = pick_below(m)) >= 0 && m_random(m, 2))
            unblock(m, t);
        else if (t >= 0 && m_random(m, 2))
            block(m, t);
        else if (t >= 0)
            finish(m, t, m->task[t].stopping ? MOB_CANCELLED : MOB_OK);
    } else if (kind < 91) {
        if (blocked >= 0 && m_random(m, 3) == 0)
            worker_dies(m, m->task[blocked].worker);
        else if (running >= 0)
            worker_dies(m, m->task[running].worker);
    } else if (kind < 94) {
        if ((t = random_task(m)) >= 0 && !m->task[t].create) {
            bool recursive = m_random(m, 2);
            mob_sched_cancel(m->s, &m->task[t].rec->sched, false, recursive, m->now);
            cancel_model(m, t, recursive);
        }
        cancel_continued(m);
    } else if (kind < 96) {
        uint32_t k = m_random(m, M_KINDS);
        m->total[k] = (int64_t)(2 + m_random(m, 3)) * MOB_SCHED_UNIT;
        mob_sched_resource_total(m->s, (uint16_t)k, m->total[k]);
    } else if (kind < 97) {
        no_room(m);
        if ((t = random_task(m)) >= 0 && m->task[t].untold) { /* it has not left the node */
            mob_sched_cancel(m->s, &m->task[t].rec->sched, false, false, m->now);
            cancel_model(m, t, false);
        }
    } else if (kind < 99) {
        close_actor(m);
    } else {
        leave(m);
    }
}

/* To `until`, stopping at each time on the way: so that no two come at once. */
static void pass_time(struct model *m, int64_t until)
{
    for (;;) {
        int64_t next = until;
        for (int t = 0; t < m->tasks; t++) {
            const struct m_task *x = &m->task[t];
            if (x->state == M_NONE || x->state == M_DONE)
                continue;
            if (x->deadline && x->deadline > m->now && x->deadline < next)
                next = x->deadline;
            if (x->state == M_DELAYED && x->wake > m->now && x->wake < next)
                next = x->wake;
        }
        m->now = next;
        settle(m);
        if (next == until)
            return;
    }
}

static void told_again(struct model *m)
{
    for (int w = 0; w < M_WORKERS; w++)
        if (m->worker[w].alive)
            mob_sched_room(m->s, (uint16_t)w);
}

/* With workers that live and do not fail, everything ends. */
static void run_to_the_end(struct model *m)
{
    m->ending = true;
    for (int k = 0; k < M_KINDS; k++) {
        m->total[k] = 4 * MOB_SCHED_UNIT;
        mob_sched_resource_total(m->s, (uint16_t)k, m->total[k]);
    }
    for (int round = 0; round < 4 * M_TASKS; round++) {
        int left = 0, t;
        told_again(m);
        leave(m);
        pass_time(m, m->now + 1 + m_random(m, 1000));
        for (t = 0; t < m->tasks; t++)
            left += m->task[t].state != M_DONE;
        if (!left)
            return;
        if ((t = pick_running(m, M_BLOCKED)) >= 0) {
            unblock(m, t);
        } else if ((t = pick_running(m, M_OUT)) >= 0) {
            finish(m, t, m->task[t].stopping ? MOB_CANCELLED : MOB_OK);
        } else {
            pass_time(m, m->now + 11 * MOB_SEC);
            /* Calls of actors whose creation failed: the node would close them. */
            for (int a = 0; a < 3; a++)
                while (m->actor[a].open && m->actor[a].worker < 0 && m->actor[a].count) {
                    int call = m->actor[a].queue[0];
                    mob_sched_cancel(m->s, &m->task[call].rec->sched, false, false, m->now);
                    cancel_model(m, call, false);
                }
        }
    }
    M_FAIL(m, "it does not end");
}

static uint64_t nested, taken_back, together, ended_together; /* in all runs */

static void run_seed(struct model *m, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    m->seed = m->random = seed;
    m->now = MOB_SEC;
    for (int i = 0; i < 4; i++)
        m_random(m, 2);
    struct mob_sched_options options = {.struct_size = sizeof options,
        .record_bytes = sizeof(struct fx_record),
        .running_max = 400,
        .reap_after_ns = 1000 * MOB_SEC,
        .kill_grace_ns = 5 * MOB_MS,
        .nest_max = M_NEST,
        .children_of = children_of,
        .continued = continued,
        .arg = m};
    M_CHECK(m, mob_sched_create(&options, &m->s) == MOB_OK);
    uint16_t kind;
    M_CHECK(m, mob_sched_resource(m->s, "extra", 5, &kind) == MOB_OK && kind == 3);
    for (int k = 0; k < M_KINDS; k++) {
        m->total[k] = (int64_t)(2 + m_random(m, 3)) * MOB_SCHED_UNIT;
        mob_sched_resource_total(m->s, (uint16_t)k, m->total[k]);
    }
    m->jobs = 1 + (int)m_random(m, 3);
    for (int j = 0; j < m->jobs; j++)
        M_CHECK(m, mob_sched_job_open(m->s, 1 + m_random(m, 9), &m->job[j]) == MOB_OK);
    for (int c = 0; c < M_CLASSES; c++) {
        struct mob_sched_demand d[2] = {
            {MOB_SCHED_CPU, c == 3 ? 2 * MOB_SCHED_UNIT : MOB_SCHED_UNIT}, {3, c * 2500}};
        m->demand[c][0] = d[0].amount;
        m->demand[c][3] = d[1].amount;
        M_CHECK(m, mob_sched_class(m->s, 1, d, 2, &m->class_id[c]) == MOB_OK);
    }
    for (int f = 0; f < 3; f++)
        m->function[f] = mob_sched_function(m->s, (struct mob_function_id){{(uint8_t)(1 + f)}});
    for (int i = 0; i < EVENTS; i++) {
        pass_time(m, m->now + 1 + m_random(m, m_random(m, 10) ? 2000 : 2000000));
        event(m);
        const char *bad = i % 4 ? NULL : mob_sched_check(m->s);
        if (bad)
            M_FAIL(m, "invariant: %s", bad);
        if (m_random(m, 3)) /* several events in one pass */
            settle(m);
    }
    run_to_the_end(m);
    struct mob_sched_stats stats;
    mob_sched_stats(m->s, &stats);
    const char *bad = mob_sched_check(m->s);
    if (bad)
        M_FAIL(m, "invariant: %s", bad);
    nested += stats.nested;
    taken_back += m->taken_back;
    together += m->together;
    ended_together += m->ended_together;
    M_CHECK(m, stats.tasks == 0 && stats.wait_objects == 0 && stats.edges == 0 && stats.families == 0);
    mob_sched_destroy(m->s);
}

static void random_programs_behave_as_the_model(void **state)
{
    (void)state;
    struct model *m = malloc(sizeof *m);
    assert_non_null(m);
    const char *seed = getenv("MOBULA_SEED"), *runs = getenv("MOBULA_RUNS");
    if (seed) {
        run_seed(m, strtoull(seed, NULL, 10));
    } else {
        uint64_t count = runs ? strtoull(runs, NULL, 10) : RUNS;
        for (uint64_t i = 1; i <= count; i++)
            run_seed(m, i);
        print_message("%llu random programs, seeds 1..%llu; %llu tasks ran on top of others, %llu were taken "
                      "back, %llu "
                      "were submitted with the one before and %llu ended with it\n",
            (unsigned long long)count, (unsigned long long)count, (unsigned long long)nested,
            (unsigned long long)taken_back, (unsigned long long)together, (unsigned long long)ended_together);
        assert_true(nested > count / 4); /* else this run has shown nothing about them */
        assert_true(taken_back > count / 4);
        assert_true(together > count && ended_together > count / 4);
    }
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs_behave_as_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
