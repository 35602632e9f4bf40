#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/lineage_tree.h"
#include "common/base/id.h"

static char tasks[4][MOB_ID_TEXT_MAX], objects[4][MOB_ID_TEXT_MAX];

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct mob_task_id id = {.index = i};
        mob_task_id_format(id, tasks[i]);
        mob_object_id_format(mob_object_of(id, 0), objects[i]);
    }
    return 0;
}

static const json_t *child(const json_t *node, size_t index)
{
    return json_array_get(json_object_get(node, "children"), index);
}

static void assert_task(const json_t *node, int number)
{
    assert_string_equal(json_string_value(json_object_get(node, "task")), tasks[number]);
}

static void a_diamond_has_its_shared_input_once(void **state)
{
    (void)state;
    json_t *nodes = json_pack("[{s:s,s:[s,s]},{s:s,s:[s]},{s:s,s:[s]},{s:s,s:[]}]", "task", tasks[0],
        "inputs", objects[1], objects[2], "task", tasks[1], "inputs", objects[3], "task", tasks[2], "inputs",
        objects[3], "task", tasks[3], "inputs");
    json_t *root = lineage_tree(nodes);
    assert_task(root, 0);
    assert_task(child(root, 0), 1);
    assert_task(child(child(root, 0), 0), 3);
    assert_null(json_object_get(child(child(root, 0), 0), "above"));
    assert_task(child(child(root, 1), 0), 3);
    assert_true(json_is_true(json_object_get(child(child(root, 1), 0), "above")));
    json_decref(root);
    json_decref(nodes);
}

static void what_is_not_in_the_list_is_further(void **state)
{
    (void)state;
    json_t *nodes = json_pack("[{s:s,s:[s,s],s:s}]", "task", tasks[0], "inputs", objects[1], "no object",
        "stateful_parent", tasks[2]);
    json_t *root = lineage_tree(nodes);
    assert_int_equal(json_array_size(json_object_get(root, "children")), 1);
    assert_int_equal(json_integer_value(json_object_get(child(root, 0), "further")), 2);
    json_decref(root);
    json_decref(nodes);
}

static void a_task_that_needs_itself_ends(void **state)
{
    (void)state;
    json_t *nodes = json_pack("[{s:s,s:[s]}]", "task", tasks[0], "inputs", objects[0]);
    json_t *root = lineage_tree(nodes);
    assert_true(json_is_true(json_object_get(child(root, 0), "above")));
    json_decref(root);
    json_decref(nodes);
}

static void nothing_makes_no_tree(void **state)
{
    (void)state;
    json_t *nodes = json_array();
    assert_null(lineage_tree(nodes));
    assert_null(lineage_tree(NULL));
    json_decref(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_diamond_has_its_shared_input_once, setup),
        cmocka_unit_test_setup(what_is_not_in_the_list_is_further, setup),
        cmocka_unit_test_setup(a_task_that_needs_itself_ends, setup),
        cmocka_unit_test_setup(nothing_makes_no_tree, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
