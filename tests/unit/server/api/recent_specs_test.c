/* Which of many specs are still known, and that the ones noted last are. */
#include "server/api/recent_specs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NEIGHBOURS 256u

static struct event_spec spec_of(uint32_t stream, uint32_t index)
{
    struct event_spec spec = {0};
    memcpy(&spec.task.stream, &stream, sizeof stream);
    spec.task.index = index;
    memcpy(&spec.function, &index, sizeof index);
    return spec;
}

static void note(struct recent_specs *recent, uint32_t stream, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        struct event_spec spec = spec_of(stream, i);
        recent_specs_note(recent, &spec);
    }
}

static uint32_t known(const struct recent_specs *recent, uint32_t stream, uint32_t first, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t i = first; i < first + count; i++) {
        struct event_spec wanted = spec_of(stream, i);
        const struct event_spec *found = recent_specs_find(recent, wanted.task);
        n += found != NULL && memcmp(found, &wanted, sizeof wanted) == 0;
    }
    return n;
}

static void what_was_not_noted_is_not_there(void **state)
{
    struct recent_specs *recent = *state;
    note(recent, 1, 0, NEIGHBOURS);
    assert_null(recent_specs_find(recent, spec_of(1, NEIGHBOURS).task));
    assert_null(recent_specs_find(recent, spec_of(2, 1).task));
}

static void the_newer_one_stays(void **state)
{
    struct recent_specs *recent = *state;
    struct event_spec first = spec_of(1, 1), second = spec_of(1, 1);
    memset(&second.actor, 7, sizeof second.actor);
    recent_specs_note(recent, &first);
    recent_specs_note(recent, &second);
    const struct event_spec *found = recent_specs_find(recent, first.task);
    assert_non_null(found);
    assert_memory_equal(found, &second, sizeof second);
}

/* Half as many as there is room for: of one stream, and a few of each of many. */
static void half_of_a_table_is_kept_but_for_some(void **state)
{
    const uint32_t half = RECENT_SPECS_SETS * RECENT_SPECS_WAYS / 2;
    struct recent_specs *recent = *state;
    uint32_t kept = 0;
    for (uint32_t stream = 1; stream <= half / 8; stream++)
        note(recent, stream, 0, 4);
    note(recent, 9, 1000, half / 2);
    for (uint32_t stream = 1; stream <= half / 8; stream++)
        kept += known(recent, stream, 0, 4);
    kept += known(recent, 9, 1000, half / 2);
    assert_in_range(kept, half - half / 50, half);
}

/* Those of a page that was read again are all known while the next few thousand come by. */
static void neighbours_noted_again_outlast_older_ones(void **state)
{
    struct recent_specs *recent = *state;
    note(recent, 1, 0, NEIGHBOURS);
    note(recent, 2, 0, RECENT_SPECS_SETS * 2);
    note(recent, 1, 0, NEIGHBOURS); /* of the same places, and now the newest */
    note(recent, 3, 0, RECENT_SPECS_SETS * 4);
    assert_in_range(known(recent, 1, 0, NEIGHBOURS), NEIGHBOURS - NEIGHBOURS / 20, NEIGHBOURS);
}

static void more_than_there_is_room_for_leaves_the_newest(void **state)
{
    const uint32_t all = RECENT_SPECS_SETS * RECENT_SPECS_WAYS;
    struct recent_specs *recent = *state;
    note(recent, 1, 0, 4 * all);
    assert_int_equal(known(recent, 1, 4 * all - NEIGHBOURS, NEIGHBOURS), NEIGHBOURS);
    assert_int_equal(known(recent, 1, 0, NEIGHBOURS), 0);
}

static int make(void **state)
{
    *state = recent_specs_create();
    return *state ? 0 : 1;
}

static int end(void **state)
{
    recent_specs_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_not_noted_is_not_there, make, end),
        cmocka_unit_test_setup_teardown(the_newer_one_stays, make, end),
        cmocka_unit_test_setup_teardown(half_of_a_table_is_kept_but_for_some, make, end),
        cmocka_unit_test_setup_teardown(neighbours_noted_again_outlast_older_ones, make, end),
        cmocka_unit_test_setup_teardown(more_than_there_is_room_for_leaves_the_newest, make, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
