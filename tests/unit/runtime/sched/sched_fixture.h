/* A scheduler with one job, two CPUs and a few names, and what it decided. For the tests in this folder. */
#ifndef MOB_TESTS_UNIT_RUNTIME_SCHED_FIXTURE_H
#define MOB_TESTS_UNIT_RUNTIME_SCHED_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "runtime/sched/local.h"

#define FX_LOG 8192u

struct fx_record {
    struct mob_sched_task sched;
    uint32_t generation;
    uint64_t position; /* of an actor call */
};
struct fx {
    struct mob_sched *s;
    uint16_t job, cpu1, cpu0; /* classes: one CPU, nothing */
    uint16_t quick, slow; /* functions: measured at 1 us; not measured */
    int64_t now;
    uint32_t next_root;
    uint64_t next_position; /* of the next actor call that is new */
    struct mob_decision log[FX_LOG]; /* of the last fx_decide */
    uint32_t count;
    bool auto_spawn;
    uint16_t next_worker;
};

static inline struct mob_stream fx_stream(uint32_t a, uint32_t b)
{
    struct mob_stream stream = {{0}};
    memcpy(stream.b, &a, sizeof a);
    memcpy(stream.b + 4, &b, sizeof b);
    return stream;
}

static inline struct mob_stream fx_children_of(void *arg, const struct mob_sched_task *task)
{
    (void)arg;
    return fx_stream(task->handle, 1 + ((const struct fx_record *)(const void *)task)->generation);
}

static inline uint64_t fx_position_of(void *arg, const struct mob_sched_task *call)
{
    (void)arg;
    return ((const struct fx_record *)(const void *)call)->position;
}

static inline void fx_check(const struct fx *fx)
{
    const char *bad = mob_sched_check(fx->s);
    if (bad)
        fail_msg("invariant: %s", bad);
}

static inline void fx_open_with(struct fx *fx, struct mob_sched_options options)
{
    memset(fx, 0, sizeof *fx);
    fx->now = MOB_SEC;
    options.struct_size = sizeof options;
    options.record_bytes = sizeof(struct fx_record);
    options.cpu = options.cpu ? options.cpu : 2 * MOB_SCHED_UNIT;
    options.children_of = fx_children_of;
    options.position_of = fx_position_of;
    assert_int_equal(mob_sched_create(&options, &fx->s), MOB_OK);
    assert_int_equal(mob_sched_job_open(fx->s, 1, &fx->job), MOB_OK);
    struct mob_sched_demand cpu = {MOB_SCHED_CPU, MOB_SCHED_UNIT};
    assert_int_equal(mob_sched_class(fx->s, 1, &cpu, 1, &fx->cpu1), MOB_OK);
    assert_int_equal(mob_sched_class(fx->s, 1, NULL, 0, &fx->cpu0), MOB_OK);
    fx->quick = mob_sched_function(fx->s, (struct mob_function_id){{1}});
    fx->slow = mob_sched_function(fx->s, (struct mob_function_id){{2}});
}

static inline void fx_open(struct fx *fx)
{
    fx_open_with(fx, (struct mob_sched_options){0});
}

static inline void fx_close(struct fx *fx)
{
    fx_check(fx);
    mob_sched_destroy(fx->s);
}

static inline void fx_worker(struct fx *fx, uint16_t worker)
{
    assert_int_equal(mob_sched_worker_added(fx->s, worker, 1, fx->now), MOB_OK);
}

static inline void fx_open_with_worker(struct fx *fx)
{
    fx_open(fx);
    fx_worker(fx, 0);
}

/* Defaults for what is left out: a root task of one CPU that is not measured. */
static inline struct mob_sched_task *fx_submit(struct fx *fx, struct mob_sched_submit in)
{
    struct fx_record *t = mob_sched_task_alloc(fx->s);
    assert_non_null(t);
    if (in.parent)
        in.id = (struct mob_task_id){fx_children_of(NULL, in.parent), in.id.index};
    else if (mob_task_id_is_zero(in.id))
        in.id = (struct mob_task_id){fx_stream(0, 0), fx->next_root++};
    in.function = in.function ? in.function : fx->slow;
    t->position = fx->next_position++;
    assert_int_equal(mob_sched_submit(fx->s, &t->sched, &in, fx->now), MOB_OK);
    return &t->sched;
}

/* A call of an actor that had its position before. */
static inline struct mob_sched_task *fx_replay(struct fx *fx, uint32_t actor, uint64_t position)
{
    uint64_t next = fx->next_position;
    fx->next_position = position;
    struct mob_sched_task *t =
        fx_submit(fx, (struct mob_sched_submit){.actor = actor, .flags = MOB_SCHED_REPLAY});
    fx->next_position = next;
    return t;
}

static inline struct mob_sched_task *fx_task(struct fx *fx)
{
    return fx_submit(fx, (struct mob_sched_submit){.class_id = fx->cpu1});
}

static inline struct mob_sched_task *fx_child(struct fx *fx, struct mob_sched_task *parent, uint32_t index)
{
    return fx_submit(
        fx, (struct mob_sched_submit){.parent = parent, .id.index = index, .class_id = fx->cpu1});
}

/* All decisions there are now, into fx->log; workers are started at once when auto_spawn. */
static inline uint32_t fx_decide(struct fx *fx)
{
    fx->count = 0;
    while (mob_sched_next(fx->s, fx->now, &fx->log[fx->count])) {
        struct mob_decision *d = &fx->log[fx->count++];
        assert_true(fx->count < FX_LOG);
        for (uint32_t i = 0; d->kind == MOB_DECIDE_SPAWN && fx->auto_spawn && i < d->count; i++)
            assert_int_equal(mob_sched_worker_added(fx->s, fx->next_worker++, d->runtime, fx->now), MOB_OK);
    }
    fx_check(fx);
    return fx->count;
}

/* The last fx_decide's decision about this task, NULL = none. */
static inline struct mob_decision *fx_about(struct fx *fx, const struct mob_sched_task *task)
{
    for (uint32_t i = 0; i < fx->count; i++)
        if (fx->log[i].task == task)
            return &fx->log[i];
    return NULL;
}

static inline struct mob_decision *fx_of_kind(struct fx *fx, enum mob_decision_kind kind)
{
    for (uint32_t i = 0; i < fx->count; i++)
        if (fx->log[i].kind == kind)
            return &fx->log[i];
    return NULL;
}

static inline void fx_expect_dispatch(struct fx *fx, const struct mob_sched_task *task)
{
    struct mob_decision *d = fx_about(fx, task);
    assert_non_null(d);
    assert_int_equal(d->kind, MOB_DECIDE_DISPATCH);
}

static inline void fx_expect_fail(struct fx *fx, const struct mob_sched_task *task, enum mob_status status)
{
    struct mob_decision *d = fx_about(fx, task);
    assert_non_null(d);
    assert_int_equal(d->kind, MOB_DECIDE_FAIL);
    assert_int_equal(d->status, status);
    assert_int_equal(task->state, MOB_SCHED_DONE);
}

static inline enum mob_sched_after fx_finish(
    struct fx *fx, struct mob_sched_task *task, enum mob_status status)
{
    (void)mob_sched_object_ready(fx->s, mob_object_of(task->id, 0));
    enum mob_sched_after after = mob_sched_finished(fx->s, task, status, -1, fx->now);
    if (after == MOB_SCHED_FINAL)
        mob_sched_task_free(fx->s, task);
    return after;
}

/* The scheduler learns that `quick` takes `run_ns`; needs an idle worker. */
static inline void fx_measure_as(struct fx *fx, int64_t run_ns)
{
    for (int i = 0; i < 40; i++) {
        struct mob_sched_task *t =
            fx_submit(fx, (struct mob_sched_submit){.class_id = fx->cpu1, .function = fx->quick});
        fx_decide(fx);
        assert_int_equal(t->state, MOB_SCHED_DISPATCHED);
        assert_int_equal(mob_sched_finished(fx->s, t, MOB_OK, run_ns, fx->now), MOB_SCHED_FINAL);
        mob_sched_task_free(fx->s, t);
    }
    fx_decide(fx);
}

static inline void fx_measure(struct fx *fx)
{
    fx_measure_as(fx, MOB_US);
}

#endif
