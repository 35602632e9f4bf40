#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/api/scan_cursor.h"

#define LIST 0x1234567890abcdefull

static const struct scan_mark marks[MOB_GCS_SHARDS_MAX] = {
    {.kind = SCAN_MARK_BLOCK, .position = UINT64_MAX, .index = SCAN_MARK_WHOLE, .time_ns = INT64_MAX},
    {.kind = SCAN_MARK_FLUSHED,
        .position = UINT64_MAX,
        .index = UINT32_MAX,
        .incarnation = UINT64_MAX,
        .number = UINT64_MAX,
        .cut_seq = UINT64_MAX,
        .cut_entries = UINT32_MAX,
        .time_ns = INT64_MIN},
    {.kind = SCAN_MARK_END},
    {.kind = SCAN_MARK_FLUSHED, .position = 1},
};

static void what_was_written_is_read(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MOB_GCS_SHARDS_MAX; count++) {
        char text[SCAN_CURSOR_MAX];
        struct scan_mark read[MOB_GCS_SHARDS_MAX];
        scan_cursor_write(marks, count, LIST, text);
        assert_true(scan_cursor_read(text, LIST, read, count));
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(read[i].kind, marks[i].kind);
            assert_true(read[i].position == marks[i].position && read[i].number == marks[i].number);
            assert_true(read[i].incarnation == marks[i].incarnation && read[i].cut_seq == marks[i].cut_seq);
            assert_true(read[i].index == marks[i].index && read[i].cut_entries == marks[i].cut_entries);
            assert_true(read[i].time_ns == marks[i].time_ns);
        }
        assert_false(scan_cursor_read(text, LIST + 1, read, count)); /* another list's */
        if (count > 1)
            assert_false(scan_cursor_read(text, LIST, read, count - 1));
        if (count < MOB_GCS_SHARDS_MAX)
            assert_false(scan_cursor_read(text, LIST, read, count + 1));
    }
}

/* The longest one has room. */
static void the_longest_fits(void **state)
{
    (void)state;
    struct scan_mark longest[MOB_GCS_SHARDS_MAX];
    char text[SCAN_CURSOR_MAX];
    for (uint32_t i = 0; i < MOB_GCS_SHARDS_MAX; i++)
        longest[i] = marks[1];
    scan_cursor_write(longest, MOB_GCS_SHARDS_MAX, LIST, text);
    assert_in_range(strlen(text), 300, SCAN_CURSOR_MAX - 1);
}

/* Every byte changed, every byte left out: never taken for a place. */
static void what_was_changed_is_refused(void **state)
{
    (void)state;
    static const char others[] = "0123456789abcdef.-c";
    char text[SCAN_CURSOR_MAX], changed[SCAN_CURSOR_MAX];
    struct scan_mark read[MOB_GCS_SHARDS_MAX];
    scan_cursor_write(marks, 3, LIST, text);
    for (size_t i = 0; i < strlen(text); i++) {
        for (const char *c = others; *c != '\0'; c++) {
            memcpy(changed, text, sizeof changed);
            changed[i] = *c;
            assert_true(changed[i] == text[i] || !scan_cursor_read(changed, LIST, read, 3));
        }
        snprintf(changed, sizeof changed, "%.*s%s", (int)i, text, text + i + 1);
        assert_false(scan_cursor_read(changed, LIST, read, 3));
    }
    static const char *const bad[] = {"", "1.2", "e", "00000000.-e-e-e", "-e-e-e", "zzzzzzzz.-e-e-e"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(scan_cursor_read(bad[i], LIST, read, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(the_longest_fits),
        cmocka_unit_test(what_was_changed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
