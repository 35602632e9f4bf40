/* The journal's bytes are stored, so they stay what they are; what is damaged is not read as something else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gcs/shard/journal_rows.h"
#include "gcs/shard/redis_keys.h"

/* Two passes: a value and a deletion; a value that is outside, and a client that is gone. */
static const uint8_t golden[] = {
    /* 63 bytes, epoch 3, seq 5 */
    0x3f, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
    /* SET k 1 "ab" = version 5, "v" */
    1, 0, 4, 0, 9, 0, 0, 0, 'k', 1, 'a', 'b', 5, 0, 0, 0, 0, 0, 0, 0, 'v',
    /* GONE k 1 "abcdefgh" */
    2, 0, 10, 0, 0, 0, 0, 0, 'k', 1, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h',
    /* 53 bytes, epoch 3, seq 7 */
    0x35, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
    /* OUTSIDE k 1 "ab" */
    3, 0, 4, 0, 0, 0, 0, 0, 'k', 1, 'a', 'b',
    /* GONE c 0x80...01 */
    2, 0, 9, 0, 0, 0, 0, 0, 'c', 0x80, 0, 0, 0, 0, 0, 0, 1};

static size_t encode(uint8_t *out)
{
    static const uint8_t value[] = {5, 0, 0, 0, 0, 0, 0, 0, 'v'};
    static const uint8_t client[] = {'c', 0x80, 0, 0, 0, 0, 0, 0, 1};
    const struct mob_journal_row rows[2][2] = {
        {{MOB_JOURNAL_SET, (const uint8_t *)"k\1ab", value, 4, sizeof value},
            {MOB_JOURNAL_GONE,
                (const uint8_t *)"k\1"
                                 "abcdefgh",
                NULL, 10, 0}},
        {{MOB_JOURNAL_OUTSIDE, (const uint8_t *)"k\1ab", NULL, 4, 0},
            {MOB_JOURNAL_GONE, client, NULL, sizeof client, 0}}};
    size_t at = 0;
    for (uint64_t p = 0; p < 2; p++) {
        size_t begin = at;
        at += MOB_JOURNAL_PASS_BYTES;
        for (int i = 0; i < 2; i++) {
            const struct mob_journal_row *row = &rows[p][i];
            mob_journal_row_encode(row, out + at);
            memcpy(out + at + MOB_JOURNAL_ROW_BYTES, row->key, row->key_length);
            at += MOB_JOURNAL_ROW_BYTES + row->key_length;
            if (row->value_length > 0)
                memcpy(out + at, row->value, row->value_length);
            at += row->value_length;
        }
        struct mob_journal_pass pass = {
            .epoch = 3, .seq = 5 + 2 * p, .length = at - begin - MOB_JOURNAL_PASS_BYTES};
        mob_journal_pass_encode(&pass, out + begin);
    }
    return at;
}

/* Rows that could be read until the end or the first bad byte. */
static enum mob_status walk(const uint8_t *bytes, size_t length, uint32_t *rows_out)
{
    struct mob_journal_pass pass;
    struct mob_journal_row row;
    enum mob_status status;
    *rows_out = 0;
    for (size_t at = 0; (status = mob_journal_pass_next(bytes, length, &at, &pass)) == MOB_OK;) {
        for (size_t i = 0; (status = mob_journal_row_next(&pass, &i, &row)) == MOB_OK;)
            ++*rows_out;
        if (status != MOB_FINISHED)
            return status;
    }
    return status;
}

static void the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    uint8_t out[256];
    assert_int_equal(encode(out), sizeof golden);
    assert_memory_equal(out, golden, sizeof golden);
}

static void rows_come_back(void **state)
{
    (void)state;
    uint32_t rows;
    struct mob_journal_pass pass;
    struct mob_journal_row row;
    size_t at = 0, i = 0;
    assert_int_equal(walk(golden, sizeof golden, &rows), MOB_FINISHED);
    assert_int_equal(rows, 4);
    assert_int_equal(mob_journal_pass_next(golden, sizeof golden, &at, &pass), MOB_OK);
    assert_int_equal(pass.epoch, 3);
    assert_int_equal(pass.seq, 5);
    assert_int_equal(mob_journal_row_next(&pass, &i, &row), MOB_OK);
    assert_int_equal(row.kind, MOB_JOURNAL_SET);
    assert_int_equal(row.key_length, 4);
    assert_memory_equal(row.key, "k\1ab", 4);
    assert_int_equal(row.value_length, 9);
    assert_int_equal(row.value[8], 'v');
}

static void what_is_cut_off_is_corrupt(void **state)
{
    (void)state;
    uint32_t rows;
    for (size_t length = 1; length < sizeof golden; length++) {
        uint8_t *exact = malloc(length); /* so that a sanitizer sees a read behind the end */
        assert_non_null(exact);
        memcpy(exact, golden, length);
        assert_int_equal(walk(exact, length, &rows), length == 63 ? MOB_FINISHED : MOB_CORRUPT);
        free(exact);
    }
}

/* No byte of a head may be anything: it is read whole, or refused, and never behind the end. */
static void damaged_heads_are_not_followed(void **state)
{
    (void)state;
    uint32_t rows;
    for (size_t i = 0; i < sizeof golden; i++)
        for (unsigned value = 0; value < 256; value++) {
            uint8_t *copy = malloc(sizeof golden);
            assert_non_null(copy);
            memcpy(copy, golden, sizeof golden);
            copy[i] = (uint8_t)value;
            enum mob_status status = walk(copy, sizeof golden, &rows);
            assert_true(status == MOB_FINISHED || status == MOB_CORRUPT);
            bool is_length = i < 4; /* of a pass; that of a row may swallow the next one */
            if (is_length && value != golden[i])
                assert_int_equal(status, MOB_CORRUPT);
            free(copy);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_the_format),
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(what_is_cut_off_is_corrupt),
        cmocka_unit_test(damaged_heads_are_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
