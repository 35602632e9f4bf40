/* A task's arguments and options come back from its record as they were, in whichever form it keeps them; the
 * objects among them are counted. */
#include "runtime/node/borrowed.h"
#include "runtime/node/task.h"
#include "tests/unit/runtime/node/node_fixture.h"

enum { TAIL_ROOM = 256, TAILS = 11, SIBLINGS = 3 };

static const char TEXT[160] = "a text";

struct tail {
    _Alignas(8) uint8_t bytes[TAIL_ROOM];
    uint32_t length;
    bool shared; /* more than a word */
};

static void build(struct tail *tail, int kind)
{
    const int64_t word = 0x0123456789abcdef;
    const double real = -0.0;
    const uint8_t yes = 1;
    struct mob_tail_builder b;
    mob_tail_begin(&b, tail->bytes, sizeof tail->bytes);
    if (kind == 1 || kind == 6 || kind == 7)
        mob_tail_add_value(&b, MOB_TYPE_I64, &word, sizeof word);
    if (kind == 2)
        mob_tail_add_value(&b, MOB_TYPE_F64, &real, sizeof real);
    if (kind == 3)
        mob_tail_add_value(&b, MOB_TYPE_BOOL, &yes, sizeof yes);
    if (kind == 4) /* as long as a word, and none */
        mob_tail_add_value(&b, MOB_TYPE_UTF8, "8 bytes!", 8);
    if (kind == 5)
        mob_tail_add_ref(&b, mob_object_of((struct mob_task_id){.index = 7}, 1));
    if (kind == 6)
        mob_tail_add_value(&b, MOB_TYPE_I64, &word, sizeof word);
    if (kind == 7)
        mob_tail_add_ext(&b, MOB_EXT_NAME, "seven", 5);
    if (kind == 8) /* no argument, and as long as a word */
        mob_tail_add_ext(&b, MOB_EXT_NAME, "eight", 5);
    if (kind == 9) /* longer than the rooms that tails are mostly in */
        mob_tail_add_value(&b, MOB_TYPE_UTF8, TEXT, sizeof TEXT);
    for (uint32_t i = 0; kind == 10 && i < 3; i++)
        mob_tail_add_ref(&b, mob_object_of((struct mob_task_id){.index = i}, i));
    tail->length = mob_tail_end(&b);
    tail->shared = kind != 1 && kind != 2;
    assert_true(tail->length > 0);
}

static void assert_tail(const struct node_task *task, const struct tail *tail)
{
    struct node_tail_room room;
    uint32_t bytes;
    const uint8_t *got = node_task_tail(task, &room, &bytes);
    assert_int_equal(bytes, tail->length);
    assert_memory_equal(got, tail->bytes, bytes);
    assert_int_equal(got != (const uint8_t *)room.words, tail->shared);
}

static struct node_template *a_template(struct nx *nx, const struct tail *tail)
{
    struct mob_spec_head head =
        nx_head((struct mob_task_id){.index = 3}, (struct mob_job_id){.root = {.b = {1}}}, 0, MOB_KIND_TASK);
    struct node_template *template = node_template_make(nx->node, &head, tail->bytes, nx->node->jobs.first);
    assert_non_null(template);
    return template;
}

/* Siblings share what is longer than a word; each is destroyed at another time, with and without the record
 * of what few tasks have. */
static void a_tail_comes_back_as_it_was(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 1, &driver);
    for (int kind = 0; kind < TAILS; kind++) {
        struct tail tail;
        struct node_task *tasks[SIBLINGS];
        build(&tail, kind);
        struct node_template *template = a_template(&nx, &tail);
        for (uint32_t i = 0; i < SIBLINGS; i++) {
            struct mob_task_id id = {template->head.task.stream, i};
            tasks[i] = node_task_create(nx.node, template, id, tail.bytes, tail.length);
            assert_non_null(tasks[i]);
            assert_tail(tasks[i], &tail);
        }
        node_template_drop(nx.node, template);
        assert_null(node_extra_of(tasks[1]));
        node_task_extra(nx.node, tasks[1])->position = UINT64_MAX;
        assert_tail(tasks[1], &tail);
        assert_int_equal(node_task_attempt(tasks[1]), 1);
        node_task_destroy(nx.node, tasks[0]);
        assert_tail(tasks[1], &tail);
        node_task_destroy(nx.node, tasks[1]);
        assert_tail(tasks[2], &tail);
        node_task_destroy(nx.node, tasks[2]);
    }
    nx_close_with(&nx, &driver);
}

/* A million of them wait in 96 MB: two cache lines each at most, wherever in its chunk a record lies. */
static void a_record_lies_in_two_lines(void **state)
{
    (void)state;
    struct nx nx;
    struct tail tail;
    struct nx_driver driver;
    nx_open_with(&nx, 1, &driver);
    build(&tail, 1);
    struct node_template *template = a_template(&nx, &tail);
    struct node_task *tasks[8];
    for (uint32_t i = 0; i < 8; i++) {
        tasks[i] =
            node_task_create(nx.node, template, (struct mob_task_id){.index = i}, tail.bytes, tail.length);
        uintptr_t first = (uintptr_t)tasks[i] / 64, last = ((uintptr_t)(tasks[i] + 1) - 1) / 64;
        assert_int_equal(last - first, 1);
    }
    for (uint32_t i = 0; i < 8; i++)
        node_task_destroy(nx.node, tasks[i]);
    node_template_drop(nx.node, template);
    nx_close_with(&nx, &driver);
}

enum { OBJECTS = 400, TAKERS = 500, STEPS = 6000 };

/* Two different ones for each taker, so that an object has several. */
static struct mob_object_id taken_by(uint32_t taker, uint32_t which)
{
    uint32_t number = which == 0 ? taker % OBJECTS : (taker * 7 + 1) % OBJECTS;
    return mob_object_of((struct mob_task_id){{.b = {(uint8_t)(number % 5)}}, number}, 0);
}

/* Tasks come and go in any order; an object is borrowed as long as one of them takes it. */
static void what_tasks_take_is_borrowed_until_the_last_has_ended(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open_with(&nx, 1, &driver);
    struct tail none;
    build(&none, 0);
    struct node_template *template = a_template(&nx, &none);
    struct node_task *takers[TAKERS] = {NULL};
    uint32_t seed = 7;
    for (uint32_t step = 0; step < STEPS + TAKERS; step++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t taker = step < STEPS ? (seed >> 8) % TAKERS : step - STEPS;
        if (takers[taker]) {
            node_task_destroy(nx.node, takers[taker]);
            takers[taker] = NULL;
        } else if (step < STEPS) {
            struct tail tail;
            struct mob_tail_builder b;
            mob_tail_begin(&b, tail.bytes, sizeof tail.bytes);
            mob_tail_add_ref(&b, taken_by(taker, 0));
            mob_tail_add_ref(&b, taken_by(taker, 1));
            tail.length = mob_tail_end(&b);
            takers[taker] = node_task_create(
                nx.node, template, (struct mob_task_id){.index = taker}, tail.bytes, tail.length);
            assert_non_null(takers[taker]);
            node_borrow(nx.node, takers[taker]);
        }
        if (step % 100 != 0 && step != STEPS + TAKERS - 1)
            continue;
        bool borrowed[OBJECTS] = {false};
        for (uint32_t i = 0; i < TAKERS; i++)
            for (uint32_t which = 0; takers[i] && which < 2; which++)
                borrowed[taken_by(i, which).task.index] = true;
        for (uint32_t i = 0; i < OBJECTS; i++)
            assert_int_equal(borrowed[i], node_borrowed(nx.node, taken_by(i, 0)));
    }
    node_template_drop(nx.node, template);
    nx_close_with(&nx, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_comes_back_as_it_was),
        cmocka_unit_test(a_record_lies_in_two_lines),
        cmocka_unit_test(what_tasks_take_is_borrowed_until_the_last_has_ended),
    };
    return cmocka_run_group_tests_name("task_tail", tests, NULL, NULL);
}
