/* Cancels from far up a tree whose upper levels have ended, over the end of the node. ctest: timeout=300
 */
#include "tests/chaos/restart_fixture.h"

/* More than a node that starts used to look at; each level's task is alone in its group. */
enum { LEVELS = 1100 };

static char key[32];

struct tree {
    char top[MOB_TEXT_ID_MAX], leaf[MOB_TEXT_ID_MAX];
};

_Static_assert(MOB_TEXT_ID_MAX == 48, "so much is read below");
static void read_leaf(char id_out[MOB_TEXT_ID_MAX])
{
    char line[512] = "";
    FILE *file = fopen(trace, "r");
    assert_non_null(file);
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = sscanf(line, "leaf %47s", id_out) == 1;
    fclose(file);
    assert_true(found);
}

/* A session of its own, whose job lives on without a driver. All but the last level have ended. */
static struct tree grow(int tails)
{
    struct tree tree;
    struct mob_future *top;
    static int sessions;
    snprintf(key, sizeof key, "cancels %d", sessions++);
    mob_disconnect(client);
    connect_with(key);
    unlink(trace);
    OK(mob_submit(client, "chaos.descends",
        MOB_ARGS(mob_utf8(trace), mob_utf8(gate), mob_i64(LEVELS), mob_i64(tails)), NULL, &top));
    mob_future_id(top, tree.top);
    wait_for_lines("leaf", 1);
    OK(mob_flush(client, PATIENCE));
    read_leaf(tree.leaf);
    mob_release(top);
    return tree;
}

static void cancel(const char *object)
{
    struct mob_future *future;
    OK(mob_future_from_id(client, object, &future));
    OK(mob_cancel(future, false));
    mob_release(future);
}

static void next_node(void)
{
    mob_disconnect(client);
    kill_node();
    connect_with(key);
}

/* It would run until the gate is open. */
static void assert_leaf_is_cancelled(const struct tree *tree)
{
    for (int64_t deadline = mob_now() + PATIENCE;; poll(NULL, 0, 5)) {
        char *json = NULL;
        enum mob_status status = mob_query(client, "task", tree->leaf, PATIENCE, &json);
        free(json);
        if (status == MOB_NOT_FOUND)
            return;
        if (mob_now() > deadline)
            fail_msg("%s below %s runs", tree->leaf, tree->top);
    }
}

static void cancel_after_a_restart_finds_the_deepest(void **state)
{
    (void)state;
    for (int tails = 0; tails < 3; tails++) {
        struct tree tree = grow(tails);
        next_node();
        cancel(tree.top);
        assert_leaf_is_cancelled(&tree);
    }
}

/* Acknowledged: the node may die before it has found what that cancel is for. */
static void cancel_before_a_restart_finds_the_deepest(void **state)
{
    (void)state;
    for (int tails = 0; tails < 3; tails++) {
        struct tree tree = grow(tails);
        cancel(tree.top);
        OK(mob_flush(client, PATIENCE));
        next_node();
        assert_leaf_is_cancelled(&tree);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel_after_a_restart_finds_the_deepest),
        cmocka_unit_test(cancel_before_a_restart_finds_the_deepest),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST")); /* one of them */
    return cmocka_run_group_tests_name("cancel_restart", tests, set_up, tear_down);
}
