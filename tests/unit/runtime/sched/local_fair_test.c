/* Turns between trees and roots: nobody is shut out, and programs end before too many are begun. */
#include "tests/unit/runtime/sched/sched_fixture.h"

#include <stdlib.h>

enum { TREES = MOB_SCHED_TREES_AT_ONCE };

/* Of the rounds of runaway trees, whose number doubles with each of MORE: with sanitizers they took minutes
 * on a machine with other work. */
#ifdef __SANITIZE_ADDRESS__
enum { MORE = 3, ROOTS = 20 };
#else
enum { MORE = 4, ROOTS = 50 };
#endif

/* The one task that this round of decisions dispatched. */
static struct mob_sched_task *next_task(struct fx *fx)
{
    fx_decide(fx);
    struct mob_decision *d = fx_of_kind(fx, MOB_DECIDE_DISPATCH);
    assert_non_null(d);
    return d->task;
}

static bool is_root(const struct mob_sched_task *t)
{
    return mob_stream_eq(t->id.stream, fx_stream(0, 0));
}

static void trees_and_roots_take_turns(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    struct mob_sched_task *root = fx_task(&fx);
    assert_ptr_equal(next_task(&fx), root);
    for (uint32_t i = 0; i < 50; i++)
        fx_child(&fx, root, i);
    for (int i = 0; i < 50; i++)
        fx_task(&fx);
    fx_finish(&fx, root, MOB_OK);
    for (int i = 0; i < 100; i++) {
        struct mob_sched_task *t = next_task(&fx);
        assert_int_equal(is_root(t), i % 2);
        fx_finish(&fx, t, MOB_OK);
    }
    fx_close(&fx);
}

/* Records are used again here, and children are named after them: each parent is a generation of its own. */
static void begins(struct mob_sched_task *parent)
{
    static uint32_t generation;
    ((struct fx_record *)parent)->generation = ++generation;
}

/* Each of its tasks makes two more. */
static void run_of_a_runaway(struct fx *fx, struct mob_sched_task *t)
{
    begins(t);
    fx_child(fx, t, 0);
    fx_child(fx, t, 1);
    fx_finish(fx, t, MOB_OK);
}

static void a_runaway_tree_leaves_others_every_second_turn(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    run_of_a_runaway(&fx, (fx_task(&fx), next_task(&fx)));
    for (int i = 0; i < 500; i++)
        fx_task(&fx);
    int roots = 0;
    for (int i = 0; i < 1001; i++) {
        struct mob_sched_task *t = next_task(&fx);
        roots += is_root(t);
        if (is_root(t))
            fx_finish(&fx, t, MOB_OK);
        else
            run_of_a_runaway(&fx, t);
    }
    assert_int_equal(roots, 500);
    fx_close(&fx);
}

static void many_runaway_trees_hold_roots_back_and_never_shut_them_out(void **state)
{
    (void)state;
    enum { ROUND = TREES + MORE };
    struct fx fx;
    fx_open_with_worker(&fx);
    for (int i = 0; i < ROUND; i++) /* the queue is empty when each begins: nothing holds it back */
        fx_task(&fx);
    int begun = 0, since = 0, longest = 0;
    for (int i = 0; begun < ROUND; i++) {
        struct mob_sched_task *t = next_task(&fx);
        begun += is_root(t);
        run_of_a_runaway(&fx, t);
        assert_true(i < 10000);
    }
    for (int i = 0; i < ROOTS; i++)
        fx_task(&fx);
    for (int roots = 0; roots < ROOTS; since++) {
        struct mob_sched_task *t = next_task(&fx);
        if (!is_root(t)) {
            run_of_a_runaway(&fx, t);
            continue;
        }
        fx_finish(&fx, t, MOB_OK);
        longest = since > longest ? since : longest;
        since = 0;
        roots++;
    }
    /* 2^MORE rounds in which a tree goes instead, then its turn */
    assert_in_range(longest, (1 << MORE) * ROUND, ((1 << MORE) + 1) * (ROUND + 1));
    fx_close(&fx);
}

/* Programs of a task that makes `width` children and waits for them. */
static uint32_t most_programs_at_once(uint32_t programs, uint32_t width)
{
    static uint32_t left[4096]; /* by handle of the root: children that have not ended */
    struct fx fx;
    uint32_t begun = 0, most = 0, revoked;
    fx_open(&fx);
    fx.auto_spawn = true;
    memset(left, 0, sizeof left);
    for (uint32_t i = 0; i < programs; i++)
        fx_task(&fx);
    for (uint32_t ended = 0; ended < programs;) {
        fx_decide(&fx);
        uint32_t told = fx.count;
        for (uint32_t i = 0; i < told; i++) {
            struct mob_sched_task *t = fx.log[i].task;
            if (fx.log[i].kind != MOB_DECIDE_DISPATCH)
                continue;
            if (is_root(t)) {
                assert_true(t->handle < 4096);
                begins(t);
                for (uint32_t k = 0; k < width; k++)
                    fx_child(&fx, t, k);
                left[t->handle] = width;
                assert_int_equal(mob_sched_blocked(fx.s, t, &revoked, fx.now), MOB_OK);
                begun++;
                most = begun > most ? begun : most;
                continue;
            }
            uint32_t handle;
            memcpy(&handle, t->id.stream.b, sizeof handle); /* fx_children_of */
            fx_finish(&fx, t, MOB_OK);
            if (--left[handle])
                continue;
            struct mob_sched_task *root = mob_sched_task_of(fx.s, handle);
            mob_sched_unblocked(fx.s, root, fx.now);
            fx_finish(&fx, root, MOB_OK);
            begun--;
            ended++;
        }
    }
    fx_close(&fx);
    return most;
}

static void programs_end_before_too_many_are_begun(void **state)
{
    (void)state;
    /* Where each program adds its width of turns, roots get one turn in 2^n: n is about its logarithm. */
    assert_in_range(most_programs_at_once(100, 8), 2, TREES + 3);
    assert_in_range(most_programs_at_once(60, 64), TREES, TREES + 6);
    assert_in_range(most_programs_at_once(40, 512), TREES, TREES + 9);
}

static void long_tasks_get_a_worker_beside_a_tree_of_short_ones(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_worker(&fx, 1);
    fx_measure(&fx);
    struct mob_sched_task *root =
        fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .function = fx.quick});
    fx_decide(&fx);
    uint32_t children = 0;
    for (; children < 5000; children++)
        fx_submit(&fx,
            (struct mob_sched_submit){
                .parent = root, .id.index = children, .class_id = fx.cpu1, .function = fx.quick});
    fx_decide(&fx);
    struct mob_sched_task *slow = fx_task(&fx), *batch[MOB_SCHED_BATCH_MAX];
    int64_t begin = fx.now;
    while (slow->state != MOB_SCHED_DISPATCHED) {
        /* Both workers end a task a microsecond, and the tree always has more. */
        fx.now += MOB_US;
        for (uint16_t w = 0; w < 2; w++)
            for (uint32_t n = mob_sched_batch(fx.s, w, batch, 1); n; n = 0)
                if (batch[0] != root)
                    mob_sched_finished(fx.s, batch[0], MOB_OK, MOB_US, fx.now),
                        mob_sched_task_free(fx.s, batch[0]);
        fx_submit(&fx,
            (struct mob_sched_submit){
                .parent = root, .id.index = children++, .class_id = fx.cpu1, .function = fx.quick});
        fx.count = 0;
        while (mob_sched_next(fx.s, fx.now, &fx.log[0])) {
        }
        assert_true(fx.now - begin < 50 * MOB_MS);
    }
    fx_close(&fx);
}

static void a_chain_without_end_lets_others_in(void **state)
{
    (void)state;
    struct fx fx;
    fx_open_with_worker(&fx);
    fx_measure(&fx);
    struct mob_task_id before = {{{0}}, 0};
    struct mob_sched_task *batch[1], *other = NULL;
    uint32_t ended = 0;
    for (uint32_t length = 0; !other || other->state != MOB_SCHED_DISPATCHED; length++) {
        struct mob_object_id input = mob_object_of(before, 0);
        before = (struct mob_task_id){fx_stream(7, 7), length};
        fx_submit(&fx,
            (struct mob_sched_submit){.id = before,
                .class_id = fx.cpu1,
                .function = fx.quick,
                .missing = &input,
                .missing_count = length > 0});
        if (length == 300)
            other = fx_submit(&fx, (struct mob_sched_submit){.class_id = fx.cpu1, .function = fx.quick});
        while (mob_sched_next(fx.s, fx.now, &fx.log[0])) {
        }
        fx.now += MOB_US;
        if (length > 200 && mob_sched_batch(fx.s, 0, batch, 1)) {
            fx_finish(&fx, batch[0], MOB_OK);
            ended++;
        }
        assert_true(ended < 3000);
    }
    fx_close(&fx);
}

static void lanes_of_trees_that_have_ended_are_used_again(void **state)
{
    (void)state;
    struct fx fx;
    struct mob_sched_stats stats;
    fx_open_with_worker(&fx);
    for (int i = 0; i < 3000; i++) {
        fx_task(&fx);
        struct mob_sched_task *root = next_task(&fx), *child = fx_child(&fx, root, 0);
        fx_finish(&fx, root, MOB_OK);
        assert_ptr_equal(next_task(&fx), child);
        fx_finish(&fx, child, MOB_OK);
    }
    mob_sched_stats(fx.s, &stats);
    assert_true(stats.lanes <= 64);
    fx_close(&fx);
}

static void more_trees_than_lanes_share_one(void **state)
{
    (void)state;
    enum { MANY = MOB_SCHED_LANES_MAX + 3000 };
    struct fx fx;
    struct mob_object_id gate = {{fx_stream(6, 6), 1}, 0};
    fx_open_with_worker(&fx);
    for (int i = 0; i < MANY; i++) {
        struct mob_sched_task *root = fx_task(&fx);
        while (mob_sched_next(fx.s, fx.now, &fx.log[0])) {
        }
        begins(root);
        fx_submit(&fx,
            (struct mob_sched_submit){
                .parent = root, .class_id = fx.cpu1, .missing = &gate, .missing_count = 1});
        fx_finish(&fx, root, MOB_OK);
    }
    fx_check(&fx);
    assert_int_equal(mob_sched_object_ready(fx.s, gate), MANY);
    struct mob_sched_task *running;
    for (int ended = 0; ended < 200; ended++) { /* each pass looks at the lanes of all */
        while (mob_sched_next(fx.s, fx.now, &fx.log[0])) {
        }
        assert_int_equal(mob_sched_batch(fx.s, 0, &running, 1), 1);
        fx_finish(&fx, running, MOB_OK);
    }
    fx_check(&fx);
    fx_close(&fx);
}

/* ---- turns, once more and naively ---- */

#define MODEL_TREES 64
struct turns {
    int list[MODEL_TREES + 1], count; /* who has work, next first: -1 = roots, else the tree */
    int queued[MODEL_TREES + 1]; /* [0] = roots */
    uint32_t held;
};

static void turns_add(struct turns *t, int who)
{
    if (t->queued[who + 1]++ == 0)
        t->list[t->count++] = who;
}

static void turns_take(struct turns *t, int at, bool served)
{
    int who = t->list[at];
    memmove(&t->list[at], &t->list[at + 1], (size_t)(--t->count - at) * sizeof t->list[0]);
    if (served)
        t->queued[who + 1]--;
    if (t->queued[who + 1])
        t->list[t->count++] = who;
}

static int turns_next(struct turns *t)
{
    int trees = t->count - (t->queued[0] > 0);
    int at = 0, who = t->list[0];
    if (who >= 0) {
        turns_take(t, 0, true);
        return who;
    }
    bool hold = trees >= TREES && t->held < 1u << (trees - TREES < 10 ? trees - TREES : 10);
    if (hold) {
        at = 1;
        who = t->list[1];
        turns_take(t, at, true);
        turns_take(t, 0, false);
        t->held++;
        return who;
    }
    turns_take(t, 0, true);
    t->held = 0;
    return who;
}

static void turns_are_those_of_the_model(void **state)
{
    (void)state;
    static int tree_of[1 << 16]; /* by handle */
    for (uint32_t seed = 1; seed <= 60; seed++) {
        struct fx fx;
        struct turns turns = {0};
        fx_open_with_worker(&fx);
        srand(seed);
        int trees = 0;
        uint32_t steps = 400;
        while (steps-- > 0 || turns.count) {
            while (steps < 400 && trees < MODEL_TREES && rand() % 3 == 0) {
                tree_of[fx_task(&fx)->handle] = trees++;
                turns_add(&turns, -1);
            }
            if (!turns.count)
                continue;
            int who = turns_next(&turns);
            struct mob_sched_task *t = next_task(&fx);
            int tree = tree_of[t->handle];
            if (is_root(t) ? who != -1 : who != tree)
                fail_msg("seed %u: the turn was %d's, not %s of %d", seed, who,
                    is_root(t) ? "a root" : "the tree", tree);
            int children = steps < 400 ? rand() % 4 : 0;
            begins(t);
            for (int i = 0; i < children; i++) {
                tree_of[fx_child(&fx, t, (uint32_t)i)->handle] = tree;
                turns_add(&turns, tree);
            }
            fx_finish(&fx, t, MOB_OK);
            if (steps > 400)
                steps = 0;
        }
        fx_close(&fx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_and_roots_take_turns),
        cmocka_unit_test(a_runaway_tree_leaves_others_every_second_turn),
        cmocka_unit_test(many_runaway_trees_hold_roots_back_and_never_shut_them_out),
        cmocka_unit_test(programs_end_before_too_many_are_begun),
        cmocka_unit_test(long_tasks_get_a_worker_beside_a_tree_of_short_ones),
        cmocka_unit_test(a_chain_without_end_lets_others_in),
        cmocka_unit_test(lanes_of_trees_that_have_ended_are_used_again),
        cmocka_unit_test(more_trees_than_lanes_share_one),
        cmocka_unit_test(turns_are_those_of_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
