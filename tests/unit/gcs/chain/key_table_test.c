/* Rows are found after any series of additions and removals, and the buckets follow their number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gcs/chain/key_table.h"

#define ROWS 5000

struct row {
    struct key_link link; /* the first */
    uint32_t hash;
    bool there;
};

static uint64_t rng = 99;
static uint32_t random_number(void)
{
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(rng >> 32);
}

static bool found(const struct key_table *t, const struct row *row)
{
    for (struct key_link *l = key_table_first(t, row->hash); l != NULL; l = l->next)
        if (l == &row->link)
            return true;
    return false;
}

static void flip(struct key_table *t, struct row *row)
{
    if (row->there)
        key_table_remove(t, &row->link);
    else
        key_table_add(t, &row->link, row->hash);
    row->there = !row->there;
}

static size_t buckets_for(size_t rows)
{
    size_t segments = rows <= KEY_TABLE_SEGMENT ? 1 : (rows + KEY_TABLE_SEGMENT - 1) / KEY_TABLE_SEGMENT;
    return segments * KEY_TABLE_SEGMENT;
}

static void check_all(const struct key_table *t, const struct row *row)
{
    size_t there = 0;
    for (size_t i = 0; i < ROWS; i++) {
        assert_int_equal(found(t, &row[i]), row[i].there);
        there += row[i].there;
    }
    assert_int_equal(t->rows, there);
    assert_int_equal(key_table_bytes(t), buckets_for(there) * sizeof(struct key_link *));
}

/* Every tenth hash is another row's as well. */
static void fill(struct row *row)
{
    for (size_t i = 0; i < ROWS; i++)
        row[i] = (struct row){.hash = i % 10 == 9 ? row[i - 1].hash : random_number()};
}

static void rows_are_found_while_buckets_are_split_and_joined(void **state)
{
    (void)state;
    static struct row row[ROWS];
    struct key_table t;
    assert_true(key_table_init(&t));
    fill(row);
    for (size_t i = 0; i < ROWS; i++) {
        flip(&t, &row[i]);
        assert_true(found(&t, &row[i]));
        if (i % 499 == 0)
            check_all(&t, row);
    }
    for (size_t i = 0; i < 20000; i++) {
        flip(&t, &row[random_number() % ROWS]);
        if (i % 499 == 0)
            check_all(&t, row);
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (row[i].there)
            flip(&t, &row[i]);
        if (i % 499 == 0)
            check_all(&t, row);
    }
    check_all(&t, row);
    key_table_fini(&t);
}

static void a_cleared_table_is_as_new(void **state)
{
    (void)state;
    static struct row row[ROWS];
    struct key_table t;
    assert_true(key_table_init(&t));
    for (int round = 0; round < 2; round++) {
        fill(row);
        for (size_t i = 0; i < ROWS; i++)
            flip(&t, &row[i]);
        check_all(&t, row);
        key_table_clear(&t);
        assert_null(key_table_first(&t, row[0].hash));
        assert_int_equal(key_table_bytes(&t), KEY_TABLE_SEGMENT * sizeof(struct key_link *));
    }
    key_table_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_found_while_buckets_are_split_and_joined),
        cmocka_unit_test(a_cleared_table_is_as_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
