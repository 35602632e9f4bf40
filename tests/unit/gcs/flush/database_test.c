/* gcs/flush/database.h without a PostgreSQL; with one: integration/gcs_flusher. */
#include "gcs/flush/database.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"

static uint32_t told;

static void count_refusals(void *arg, enum mob_log_level level, const char *line, size_t bytes)
{
    (void)arg;
    (void)level;
    (void)bytes;
    told += strstr(line, "postgres_refuses") != NULL;
}

static void nobody_is_there(const char *directory)
{
    struct mob_database *db;
    assert_int_equal(mob_database_open_soon(directory, &db), MOB_UNAVAILABLE);
}

static void the_same_refusal_is_told_once(void **state)
{
    (void)state;
    mob_log_set_sink(count_refusals, NULL);
    for (int i = 0; i < 5; i++)
        nobody_is_there("/nowhere/one");
    assert_int_equal(told, 1);
    nobody_is_there("/nowhere/two"); /* another reason */
    assert_int_equal(told, 2);
    mob_log_set_sink(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_refusal_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
