/* Task specs: tails, extensions, digests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/spec.h"
#include "tests/support/wire_samples.h"

static _Alignas(8) uint8_t tail[MOB_SPEC_TAIL_MAX];
static _Alignas(8) uint8_t record[sizeof(struct mob_spec_head) + MOB_SPEC_TAIL_MAX];

static struct mob_spec_head plain_head(void)
{
    return (struct mob_spec_head){.version = MOB_SPEC_VERSION,
        .kind = MOB_KIND_TASK,
        .runtime = MOB_RUNTIME_C,
        .num_returns = 1,
        .attempt = 1};
}

static size_t make_record(const struct mob_spec_head *head, uint32_t tail_bytes)
{
    memcpy(record, head, sizeof *head);
    memcpy(record + sizeof *head, tail, tail_bytes);
    return sizeof *head + tail_bytes;
}

static void random_specs_round_trip(void **state)
{
    (void)state;
    static struct sample_entry s;
    struct sample_world world;
    struct mob_spec spec;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        sample_world_init(&world, seed);
        sample_spec(&world, &s);
        memcpy(tail, s.tail, s.entry.spec.tail_bytes);
        size_t bytes = make_record(&s.entry.spec.head, s.entry.spec.tail_bytes);
        assert_int_equal(mob_spec_open(record, bytes, &spec), MOB_OK);
        assert_memory_equal(&spec.head, &s.entry.spec.head, sizeof spec.head);
        assert_int_equal(spec.tail_bytes, s.entry.spec.tail_bytes);
        assert_int_equal(spec.arg_count, s.entry.spec.arg_count);
        struct mob_tail_iter it = mob_spec_args(spec.tail);
        struct mob_arg_view arg;
        uint32_t args = 0;
        while (mob_tail_next_arg(&it, &arg))
            args++;
        assert_int_equal(args, spec.arg_count);
    }
}

static void arguments_come_back_in_order(void **state)
{
    (void)state;
    struct mob_tail_builder b;
    struct mob_arg_view arg;
    struct mob_object_id id = {{{{9}}, 12}, 3};
    int64_t number = -5;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_I64, &number, 8);
    mob_tail_add_ref(&b, id);
    mob_tail_add_value(&b, MOB_TYPE_UTF8, "hello", 5);
    mob_tail_add_value(&b, MOB_TYPE_NULL, NULL, 0);
    uint32_t bytes = mob_tail_end(&b);
    uint16_t count;
    assert_int_equal(mob_spec_tail_check(tail, bytes, &count), MOB_OK);
    assert_int_equal(count, 4);
    struct mob_tail_iter it = mob_spec_args(tail);
    assert_true(mob_tail_next_arg(&it, &arg));
    assert_int_equal(arg.type, MOB_TYPE_I64);
    assert_memory_equal(arg.payload, &number, 8);
    assert_true(mob_tail_next_arg(&it, &arg));
    assert_true(arg.is_ref);
    assert_true(mob_object_id_eq(arg.ref, id));
    assert_true(mob_tail_next_arg(&it, &arg));
    assert_int_equal(arg.payload_bytes, 5);
    assert_memory_equal(arg.payload, "hello", 5);
    assert_true(mob_tail_next_arg(&it, &arg));
    assert_int_equal(arg.type, MOB_TYPE_NULL);
    assert_false(mob_tail_next_arg(&it, &arg));
}

static void extensions_are_found_and_unknown_ones_kept(void **state)
{
    (void)state;
    struct mob_tail_builder b;
    struct mob_ext_view ext;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_UTF8, "x", 1);
    mob_tail_add_ext(&b, 4711, "from the future", 15);
    mob_tail_add_ext(&b, MOB_EXT_NAME, "sum", 3);
    uint32_t bytes = mob_tail_end(&b);
    uint16_t count;
    assert_int_equal(mob_spec_tail_check(tail, bytes, &count), MOB_OK);
    assert_true(mob_spec_find_ext(tail, MOB_EXT_NAME, &ext));
    assert_int_equal(ext.payload_bytes, 3);
    assert_memory_equal(ext.payload, "sum", 3);
    assert_true(mob_spec_find_ext(tail, 4711, &ext));
    assert_memory_equal(ext.payload, "from the future", 15);
    assert_false(mob_spec_find_ext(tail, MOB_EXT_LABEL, &ext));
}

/* A page has whole arguments, as a tail has behind its first word. What is cut short has none there. */
static void references_of_a_page_are_found(void **state)
{
    (void)state;
    const struct mob_object_id refs[] = {{{{{1}}, 2}, 3}, {{{{4}}, 5}, 6}};
    const int64_t value = 7;
    struct mob_tail_builder b;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_I64, &value, sizeof value);
    mob_tail_add_ref(&b, refs[0]);
    mob_tail_add_value(&b, MOB_TYPE_UTF8, "odd", 3);
    mob_tail_add_ref(&b, refs[1]);
    const uint32_t bytes = mob_tail_end(&b) - 8;
    for (uint32_t length = 0; length <= bytes; length++) {
        struct mob_object_id found;
        uint64_t at = 0;
        uint32_t count = 0;
        uint8_t *page = malloc(length + 1); /* so that a sanitizer sees a read behind it */
        assert_non_null(page);
        memcpy(page, tail + 8, length);
        for (; mob_arg_page_next_ref(page, length, &at, &found); count++)
            assert_true(count < 2 && mob_object_id_eq(found, refs[count]));
        assert_true(at <= length);
        assert_int_equal(count, (length >= 48) + (length == bytes));
        free(page);
    }
    assert_int_equal(mob_spec_arg_pages(tail), 0);
    const uint32_t pages[] = {3, 100};
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_ext(&b, MOB_EXT_ARG_PAGES, pages, sizeof pages);
    assert_true(mob_tail_end(&b) > 0);
    assert_int_equal(mob_spec_arg_pages(tail), 3);
}

static void digest_ignores_the_attempt_and_nothing_else(void **state)
{
    (void)state;
    struct mob_spec_head head = plain_head();
    struct mob_tail_builder b;
    int64_t number = 1;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_I64, &number, 8);
    uint32_t bytes = mob_tail_end(&b);
    struct mob_hash128 digest = mob_spec_digest(&head, tail, bytes);
    head.attempt = 9;
    assert_true(mob_hash128_eq(digest, mob_spec_digest(&head, tail, bytes)));
    for (size_t i = 0; i < sizeof head; i++) {
        struct mob_spec_head other = head;
        ((uint8_t *)&other)[i] ^= 1;
        bool in_attempt =
            i >= offsetof(struct mob_spec_head, attempt) && i < offsetof(struct mob_spec_head, attempt) + 4;
        assert_int_equal(mob_hash128_eq(digest, mob_spec_digest(&other, tail, bytes)), in_attempt);
    }
    for (uint32_t i = 8; i < bytes; i++) {
        tail[i] ^= 1;
        assert_false(mob_hash128_eq(digest, mob_spec_digest(&head, tail, bytes)));
        tail[i] ^= 1;
    }
}

static void builder_fails_when_it_does_not_fit(void **state)
{
    (void)state;
    struct mob_tail_builder b;
    static uint8_t big[MOB_SPEC_TAIL_MAX];
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_BYTES, big, MOB_SPEC_TAIL_MAX - 16);
    assert_int_equal(mob_tail_end(&b), MOB_SPEC_TAIL_MAX);
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_BYTES, big, MOB_SPEC_TAIL_MAX - 15);
    mob_tail_add_value(&b, MOB_TYPE_NULL, NULL, 0);
    assert_int_equal(mob_tail_end(&b), 0);
    mob_tail_begin(&b, tail, 4);
    assert_int_equal(mob_tail_end(&b), 0);
}

static void builder_refuses_arguments_behind_extensions_and_wrong_sizes(void **state)
{
    (void)state;
    struct mob_tail_builder b;
    int32_t small = 1;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_ext(&b, MOB_EXT_NAME, "a", 1);
    mob_tail_add_value(&b, MOB_TYPE_NULL, NULL, 0);
    assert_int_equal(mob_tail_end(&b), 0);
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_I64, &small, 4);
    assert_int_equal(mob_tail_end(&b), 0);
}

static void damaged_tails_are_refused(void **state)
{
    (void)state;
    struct mob_tail_builder b;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_UTF8, "hello", 5);
    mob_tail_add_ext(&b, MOB_EXT_NAME, "a", 1);
    uint32_t bytes = mob_tail_end(&b);
    uint16_t count;
    static const struct {
        uint32_t at;
        uint8_t value;
        const char *what;
    } changes[] = {
        {0, 2, "more arguments than there are"},
        {4, 8, "shorter than it is"},
        {5, 1, "longer than it is"},
        {8, 2, "unknown kind"},
        {9, 99, "unknown type"},
        {10, 1, "not zero"},
        {12, 200, "payload past the end"},
        {15, 255, "huge payload"},
        {21, 1, "padding"},
        {26, 1, "not zero in an extension"},
        {28, 9, "extension past the end"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint8_t before = tail[changes[i].at];
        tail[changes[i].at] = changes[i].value;
        if (mob_spec_tail_check(tail, bytes, &count) == MOB_OK)
            fail_msg("accepted: %s", changes[i].what);
        tail[changes[i].at] = before;
    }
    assert_int_equal(mob_spec_tail_check(tail, bytes, &count), MOB_OK);
    for (uint32_t n = 0; n < bytes; n++)
        assert_int_not_equal(mob_spec_tail_check(tail, n, &count), MOB_OK);
}

static void heads_of_another_version_or_kind_are_refused(void **state)
{
    (void)state;
    struct mob_tail_builder b;
    struct mob_spec spec;
    mob_tail_begin(&b, tail, sizeof tail);
    uint32_t bytes = mob_tail_end(&b);
    struct mob_spec_head head = plain_head();
    size_t length = make_record(&head, bytes);
    assert_int_equal(mob_spec_open(record, length, &spec), MOB_OK);
    for (size_t n = 0; n < length; n++)
        assert_int_equal(mob_spec_open(record, n, &spec), MOB_TRUNCATED);
    head.version = 2;
    make_record(&head, bytes);
    assert_int_equal(mob_spec_open(record, length, &spec), MOB_VERSION);
    head = plain_head();
    head.kind = 9;
    make_record(&head, bytes);
    assert_int_equal(mob_spec_open(record, length, &spec), MOB_CORRUPT);
    head = plain_head();
    head.max_retries = -2;
    make_record(&head, bytes);
    assert_int_equal(mob_spec_open(record, length, &spec), MOB_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_specs_round_trip),
        cmocka_unit_test(arguments_come_back_in_order),
        cmocka_unit_test(extensions_are_found_and_unknown_ones_kept),
        cmocka_unit_test(references_of_a_page_are_found),
        cmocka_unit_test(digest_ignores_the_attempt_and_nothing_else),
        cmocka_unit_test(builder_fails_when_it_does_not_fit),
        cmocka_unit_test(builder_refuses_arguments_behind_extensions_and_wrong_sizes),
        cmocka_unit_test(damaged_tails_are_refused),
        cmocka_unit_test(heads_of_another_version_or_kind_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
