/* The index of actors' names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "runtime/node/actor_names.h"

enum { MANY = 10000 };

static struct node_job FIRST = {.ns = "first"}, SECOND = {.ns = "second"};

static struct node_actor named(struct node_job *job, const char *name)
{
    struct node_actor actor = {.job = job};
    snprintf(actor.name, sizeof actor.name, "%s", name);
    return actor;
}

static void name_is_its_namespaces(void **state)
{
    (void)state;
    struct actor_names *names = actor_names_create();
    struct node_actor a = named(&FIRST, "counter"), b = named(&SECOND, "counter"),
                      nameless = named(&FIRST, "");
    actor_names_add(names, &a);
    actor_names_add(names, &b);
    actor_names_add(names, &nameless);
    assert_ptr_equal(actor_names_find(names, "first", "counter"), &a);
    assert_ptr_equal(actor_names_find(names, "second", "counter"), &b);
    assert_null(actor_names_find(names, "third", "counter"));
    assert_null(actor_names_find(names, "first", ""));
    actor_names_remove(names, &nameless);
    actor_names_remove(names, &a);
    actor_names_remove(names, &a);
    assert_null(actor_names_find(names, "first", "counter"));
    assert_ptr_equal(actor_names_find(names, "second", "counter"), &b);
    actor_names_destroy(names);
}

/* As between the node's start and the reading of its log. */
static void of_two_under_one_name_the_other_stays(void **state)
{
    (void)state;
    struct actor_names *names = actor_names_create();
    struct node_actor a = named(&FIRST, "counter"), b = named(&FIRST, "counter");
    actor_names_add(names, &a);
    actor_names_add(names, &b);
    actor_names_remove(names, &b);
    assert_ptr_equal(actor_names_find(names, "first", "counter"), &a);
    actor_names_remove(names, &a);
    assert_null(actor_names_find(names, "first", "counter"));
    actor_names_destroy(names);
}

/* Each name is looked for before it is taken and after it is free again, as at an actor's creation and end.
 */
static void many_that_come_and_go_cost_a_few_looks_each(void **state)
{
    (void)state;
    struct actor_names *names = actor_names_create();
    struct node_actor *all = calloc(MANY, sizeof *all);
    assert_non_null(all);
    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "actor-%u", i);
        all[i] = named(i % 2 ? &FIRST : &SECOND, name);
        assert_null(actor_names_find(names, all[i].job->ns, name));
        actor_names_add(names, &all[i]);
    }
    for (uint32_t i = 0; i < MANY; i++)
        assert_ptr_equal(actor_names_find(names, all[i].job->ns, all[i].name), &all[i]);
    for (uint32_t i = 0; i < MANY; i++) {
        actor_names_remove(names, &all[i]);
        assert_null(actor_names_find(names, all[i].job->ns, all[i].name));
    }
    assert_in_range(actor_names_looked_at(names), 1, 8 * MANY);
    actor_names_destroy(names);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_is_its_namespaces),
        cmocka_unit_test(of_two_under_one_name_the_other_stays),
        cmocka_unit_test(many_that_come_and_go_cost_a_few_looks_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
