/* Completions and the error chain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/completion.h"
#include "tests/support/wire_samples.h"

static _Alignas(8) uint8_t record[sizeof(struct mob_completion_head) + SAMPLE_BODY_MAX];

static void random_completions_round_trip(void **state)
{
    (void)state;
    static struct sample_entry s;
    struct sample_world world;
    struct mob_completion c;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        sample_world_init(&world, seed);
        sample_completion(&world, &s);
        const struct mob_completion_head *head = &s.entry.completion.head;
        memcpy(record, head, sizeof *head);
        memcpy(record + sizeof *head, s.body, head->body_bytes);
        size_t length = sizeof *head + head->body_bytes;
        assert_int_equal(mob_completion_open(record, length, &c), MOB_OK);
        assert_memory_equal(&c.head, head, sizeof *head);
        struct mob_return_view r;
        uint32_t at = 0, returns = 0;
        while (mob_completion_next(&c, &at, &r))
            returns++;
        assert_int_equal(returns, head->return_count);
        assert_int_equal(at, head->body_bytes);
        assert_int_equal(mob_completion_open(record, length - 1, &c), MOB_TRUNCATED);
    }
}

static struct mob_completion_head head_with(uint32_t body_bytes, uint16_t returns)
{
    return (struct mob_completion_head){
        .version = MOB_COMPLETION_VERSION, .return_count = returns, .body_bytes = body_bytes};
}

static void damaged_returns_are_refused(void **state)
{
    (void)state;
    struct mob_completion c;
    uint8_t *body = record + sizeof c.head;
    struct mob_return_view r = {.type = MOB_TYPE_UTF8, .size = 5, .payload = (const uint8_t *)"hello"};
    uint32_t bytes = mob_return_encode(body, 0, 64, &r);
    struct mob_completion_head head = head_with(bytes, 1);
    memcpy(record, &head, sizeof head);
    assert_int_equal(mob_completion_open(record, sizeof head + bytes, &c), MOB_OK);
    static const struct {
        uint32_t at;
        uint8_t value;
        const char *what;
    } changes[] = {{4, 99, "type"}, {5, 0x80, "flags"}, {6, 1, "not zero"}, {8, 20, "size"},
        {14, 1, "huge size"}, {23, 1, "padding"}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint8_t before = body[changes[i].at];
        body[changes[i].at] = changes[i].value;
        if (mob_completion_open(record, sizeof head + bytes, &c) == MOB_OK)
            fail_msg("accepted: %s", changes[i].what);
        body[changes[i].at] = before;
    }
    head.return_count = 2;
    memcpy(record, &head, sizeof head);
    assert_int_equal(mob_completion_open(record, sizeof head + bytes, &c), MOB_CORRUPT);
    head = head_with(bytes, 1);
    head.version = 7;
    memcpy(record, &head, sizeof head);
    assert_int_equal(mob_completion_open(record, sizeof head + bytes, &c), MOB_VERSION);
}

static void inline_returns_have_a_limit(void **state)
{
    (void)state;
    static uint8_t body[8192], payload[8192];
    struct mob_return_view r = {.type = MOB_TYPE_BYTES, .size = MOB_RESULT_INLINE_MAX, .payload = payload};
    assert_int_not_equal(mob_return_encode(body, 0, sizeof body, &r), 0);
    r.size++;
    assert_int_equal(mob_return_encode(body, 0, sizeof body, &r), 0);
    r.size = MOB_RESULT_INLINE_MAX;
    assert_int_equal(mob_return_encode(body, 0, 1024, &r), 0);
    r.type = MOB_TYPE_ERROR;
    r.size = MOB_ERROR_BYTES_MAX;
    assert_int_not_equal(mob_return_encode(body, 0, sizeof body, &r), 0);
}

static struct mob_error_link link_of(
    enum mob_status status, uint32_t index, const char *message, const char *detail)
{
    return (struct mob_error_link){.status = status,
        .task = {.index = index},
        .message = message,
        .message_bytes = (uint32_t)strlen(message),
        .detail = detail,
        .detail_bytes = (uint32_t)strlen(detail)};
}

static void error_chain_keeps_its_links_newest_first(void **state)
{
    (void)state;
    uint8_t a[MOB_ERROR_BYTES_MAX], b[MOB_ERROR_BYTES_MAX];
    struct mob_error_link root = link_of(MOB_WORKER_DIED, 1, "killed by signal 11", "line 1\nline 2"),
                          links[4];
    root.signal = 11;
    uint32_t n = mob_error_encode(a, sizeof a, &root, NULL, 0);
    struct mob_error_link outer = link_of(MOB_DEPENDENCY_FAILED, 2, "argument 0 failed", "");
    uint32_t m = mob_error_encode(b, sizeof b, &outer, a, n);
    assert_int_equal(mob_error_decode(b, m, links, 4), 2);
    assert_int_equal(links[0].status, MOB_DEPENDENCY_FAILED);
    assert_int_equal(links[0].task.index, 2);
    assert_int_equal(links[1].status, MOB_WORKER_DIED);
    assert_int_equal(links[1].signal, 11);
    assert_memory_equal(links[1].message, "killed by signal 11", links[1].message_bytes);
    assert_memory_equal(links[1].detail, "line 1\nline 2", links[1].detail_bytes);
}

static void long_chain_keeps_newest_and_root(void **state)
{
    (void)state;
    uint8_t value[MOB_ERROR_BYTES_MAX];
    char detail[3000];
    memset(detail, 'd', sizeof detail - 1);
    detail[sizeof detail - 1] = '\0';
    struct mob_error_link links[MOB_ERROR_LINKS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < 40; i++) {
        struct mob_error_link l = link_of(i == 0 ? MOB_WORKER_DIED : MOB_DEPENDENCY_FAILED, i, "why", detail);
        n = mob_error_encode(value, sizeof value, &l, i > 0 ? value : NULL, n);
        assert_in_range(n, 1, MOB_ERROR_BYTES_MAX);
        int count = mob_error_decode(value, n, links, MOB_ERROR_LINKS_MAX);
        assert_in_range(count, 1, MOB_ERROR_LINKS_MAX);
        assert_int_equal(links[0].task.index, i);
        assert_int_equal(links[count - 1].task.index, 0);
        assert_int_equal(links[count - 1].status, MOB_WORKER_DIED);
    }
}

static void cut_texts_end_at_a_character(void **state)
{
    (void)state;
    uint8_t value[64];
    struct mob_error_link links[1],
        l = link_of(MOB_TASK_FAILED, 1, "aaaaaaaaaaaaaaaaaaaaaa\xc3\xa9\xc3\xa9", "");
    uint32_t n = mob_error_encode(value, sizeof value, &l, NULL, 0);
    assert_in_range(n, 1, sizeof value);
    assert_int_equal(mob_error_decode(value, n, links, 1), 1);
    assert_int_equal(links[0].message_bytes, 24); /* one whole character fits, half of the next does not */
    n = mob_error_encode(value, 63, &l, NULL, 0);
    assert_int_equal(mob_error_decode(value, n, links, 1), 1);
    assert_int_equal(links[0].message_bytes, 22);
    assert_int_equal(mob_error_encode(value, 20, &l, NULL, 0), 0);
}

static void damaged_errors_are_refused(void **state)
{
    (void)state;
    uint8_t value[256];
    struct mob_error_link links[4], l = link_of(MOB_TASK_FAILED, 1, "no", "detail");
    uint32_t n = mob_error_encode(value, sizeof value, &l, NULL, 0);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(mob_error_decode(value, i, links, 4), -1);
    assert_int_equal(mob_error_decode(value, n + 1, links, 4), -1);
    value[0] = 2;
    assert_int_equal(mob_error_decode(value, n, links, 4), -1);
    value[0] = 1;
    value[2] = 17;
    assert_int_equal(mob_error_decode(value, n, links, 4), -1);
}

static void short_form_says_the_same_as_the_long_one(void **state)
{
    (void)state;
    struct mob_completion_word word = {.task = {.index = 7},
        .generation = 3,
        .type = MOB_TYPE_F64,
        .started_ns = 5,
        .finished_ns = 9,
        .cpu_ns = 2,
        .value = 0x0123456789abcdefull};
    memset(&word.task.stream, 0x5a, sizeof word.task.stream);
    struct mob_completion_word opened;
    assert_int_equal(mob_completion_word_open(&word, sizeof word, &opened), MOB_OK);
    struct mob_return_word place;
    struct mob_completion whole = mob_completion_of_word(&opened, &place), read;
    uint8_t bytes[sizeof whole.head + sizeof place];
    memcpy(bytes, &whole.head, sizeof whole.head);
    memcpy(bytes + sizeof whole.head, whole.body, whole.head.body_bytes);
    assert_int_equal(whole.head.body_bytes, sizeof place);
    assert_int_equal(mob_completion_open(bytes, sizeof bytes, &read), MOB_OK);
    assert_true(mob_task_id_eq(read.head.task, word.task));
    assert_int_equal(read.head.status, MOB_OK);
    assert_int_equal(read.head.flags, MOB_COMPLETION_FINAL);
    assert_int_equal(read.head.attempt, 1);
    assert_int_equal(read.head.generation, 3);
    assert_int_equal(read.head.started_ns, 5);
    assert_int_equal(read.head.finished_ns, 9);
    assert_int_equal(read.head.cpu_ns, 2);
    struct mob_return_view r;
    uint32_t at = 0;
    assert_true(mob_completion_next(&read, &at, &r));
    assert_int_equal(r.type, MOB_TYPE_F64);
    assert_int_equal(r.slot, 0);
    assert_int_equal(r.size, 8);
    assert_memory_equal(r.payload, &word.value, 8);
    assert_false(mob_completion_next(&read, &at, &r));
}

static void damaged_short_forms_are_refused(void **state)
{
    (void)state;
    struct mob_completion_word good = {.type = MOB_TYPE_I64}, bad, out;
    uint8_t longer[sizeof good + 8] = {0};
    memcpy(longer, &good, sizeof good);
    for (uint32_t bytes = 0; bytes < sizeof good; bytes++)
        assert_int_equal(mob_completion_word_open(&good, bytes, &out), MOB_TRUNCATED);
    assert_int_equal(mob_completion_word_open(longer, sizeof longer, &out), MOB_CORRUPT);
    for (uint32_t type = 0; type <= UINT8_MAX; type++) {
        bad = good;
        bad.type = (uint8_t)type;
        assert_int_equal(mob_completion_word_open(&bad, sizeof bad, &out),
            type == MOB_TYPE_I64 || type == MOB_TYPE_F64 ? MOB_OK : MOB_CORRUPT);
    }
    for (uint32_t i = 0; i < sizeof bad.zero; i++) {
        bad = good;
        bad.zero[i] = 1;
        assert_int_equal(mob_completion_word_open(&bad, sizeof bad, &out), MOB_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_completions_round_trip),
        cmocka_unit_test(damaged_returns_are_refused),
        cmocka_unit_test(inline_returns_have_a_limit),
        cmocka_unit_test(error_chain_keeps_its_links_newest_first),
        cmocka_unit_test(long_chain_keeps_newest_and_root),
        cmocka_unit_test(cut_texts_end_at_a_character),
        cmocka_unit_test(damaged_errors_are_refused),
        cmocka_unit_test(short_form_says_the_same_as_the_long_one),
        cmocka_unit_test(damaged_short_forms_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
