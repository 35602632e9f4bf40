/* Rows of the journal that a later row has replaced are passed over; no other ever is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gcs/shard/journal_touched.h"

static void add(struct mob_touched *t, const char *key, uint64_t version)
{
    struct mob_touched_row row = {
        .key = (const uint8_t *)key, .key_length = (uint32_t)strlen(key), .version = version};
    mob_touched_add(t, &row, 1);
}

/* "key=version" of each row that the oldest segment has left. */
static const char *left(const struct mob_touched *t)
{
    static char text[256];
    struct mob_touched_row row;
    size_t used = 0;
    text[0] = '\0';
    for (size_t at = 0; mob_touched_left(t, &at, &row);)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s=%llu", used > 0 ? " " : "",
            (int)row.key_length, (const char *)row.key, (unsigned long long)row.version);
    return text;
}

static void a_row_goes_when_a_later_one_has_its_key(void **state)
{
    (void)state;
    struct mob_touched t = {.first = 1};
    mob_touched_begin(&t);
    add(&t, "ka", 5);
    add(&t, "kb", 6);
    add(&t, "kc", 0);
    add(&t, "ka", 7);
    assert_string_equal(left(&t), "kb=6 kc=0 ka=7");
    mob_touched_begin(&t);
    add(&t, "kb", 8);
    assert_string_equal(left(&t), "kc=0 ka=7");
    mob_touched_drop(&t);
    assert_int_equal(t.first, 2);
    assert_string_equal(left(&t), "kb=8");
    mob_touched_begin(&t);
    add(&t, "kc", 9); /* the one before it is gone with its segment */
    assert_string_equal(left(&t), "kb=8");
    mob_touched_fini(&t);
}

/* ---- against a model ---- */

enum { KEYS = 3000, SEGMENTS = 40, ROWS_A_SEGMENT = 400, HELD = 8 };

struct model_row {
    uint32_t key;
    bool replaced;
};
struct model {
    struct model_row rows[SEGMENTS][ROWS_A_SEGMENT];
    struct model_row *newest[KEYS];
};

static void key_name(char out[16], uint32_t number)
{
    snprintf(out, 16, "k%u", number);
}

/* A random number of rows at a time. */
static void fill_segment(struct mob_touched *t, struct model *m, uint32_t segment)
{
    struct mob_touched_row together[MOB_TOUCHED_TOGETHER];
    char keys[MOB_TOUCHED_TOGETHER][16];
    mob_touched_begin(t);
    for (uint32_t i = 0, count = 0; i < ROWS_A_SEGMENT; i++) {
        struct model_row *row = &m->rows[segment][i];
        row->key = (uint32_t)rand() % KEYS;
        if (m->newest[row->key] != NULL)
            m->newest[row->key]->replaced = true;
        m->newest[row->key] = row;
        key_name(keys[count], row->key);
        together[count] = (struct mob_touched_row){.key = (const uint8_t *)keys[count],
            .key_length = (uint32_t)strlen(keys[count]),
            .version = segment * 1000ull + i};
        if (++count == MOB_TOUCHED_TOGETHER || rand() % 16 == 0 || i == ROWS_A_SEGMENT - 1) {
            mob_touched_add(t, together, count);
            count = 0;
        }
    }
}

/* What is left is a part of the segment in its order, with all that was not replaced. Returns how many were
 * passed over. */
static uint32_t check_oldest(const struct mob_touched *t, const struct model *m, uint32_t segment)
{
    struct mob_touched_row row;
    size_t at = 0;
    uint32_t passed = 0;
    bool more = mob_touched_left(t, &at, &row);
    for (uint32_t i = 0; i < ROWS_A_SEGMENT; i++) {
        bool here = more && row.version == segment * 1000ull + i;
        char key[16];
        key_name(key, m->rows[segment][i].key);
        if (here) {
            assert_int_equal(row.key_length, strlen(key));
            assert_memory_equal(row.key, key, row.key_length);
            more = mob_touched_left(t, &at, &row);
        } else {
            passed++;
            if (!m->rows[segment][i].replaced)
                fail_msg("row %u of segment %u is the newest of its key and was passed over", i, segment);
        }
    }
    assert_false(more);
    return passed;
}

static void only_replaced_rows_are_passed_over(void **state)
{
    (void)state;
    struct mob_touched t = {.first = 0xfffffff0ull}; /* the places' numbers wrap meanwhile */
    struct model *m = calloc(1, sizeof *m);
    uint32_t passed = 0, replaced = 0;
    srand(7);
    for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
        fill_segment(&t, m, segment);
        if (segment < HELD)
            continue;
        passed += check_oldest(&t, m, segment - HELD);
        for (uint32_t i = 0; i < ROWS_A_SEGMENT; i++)
            replaced += m->rows[segment - HELD][i].replaced;
        mob_touched_drop(&t);
    }
    /* Places that two keys share lose one of them now and then. */
    if (passed * 10 < replaced * 7 || passed > replaced)
        fail_msg("%u rows were passed over of %u that were replaced", passed, replaced);
    mob_touched_fini(&t);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_goes_when_a_later_one_has_its_key),
        cmocka_unit_test(only_replaced_rows_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
