/* The options of a spec as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/wire/spec_json.h"

static _Alignas(8) uint8_t tail[MOB_SPEC_TAIL_MAX];

static struct mob_tail_builder begin(void)
{
    struct mob_tail_builder b;
    int64_t argument = 7;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_I64, &argument, sizeof argument);
    return b;
}

static void add_resource(struct mob_tail_builder *b, const char *name, uint64_t amount, bool wide)
{
    uint8_t payload[64];
    size_t head = wide ? sizeof amount : sizeof(uint32_t);
    memcpy(payload, &amount, head);
    memcpy(payload + head, name, strlen(name));
    mob_tail_add_ext(
        b, wide ? MOB_EXT_WIDE_RESOURCES : MOB_EXT_RESOURCES, payload, (uint32_t)(head + strlen(name)));
}

static void reads(const struct mob_spec_head *head, struct mob_tail_builder *b, const char *wanted)
{
    char *json = NULL;
    uint64_t length = 0;
    assert_true(mob_tail_end(b) > 0);
    assert_int_equal(mob_spec_options_json(head, tail, &json, &length), MOB_OK);
    assert_string_equal(json, wanted);
    assert_int_equal(length, strlen(wanted));
    free(json);
}

static void a_plain_task_has_its_defaults(void **state)
{
    (void)state;
    struct mob_tail_builder b = begin();
    struct mob_spec_head head = {.kind = MOB_KIND_TASK, .num_returns = 1, .max_retries = 3, .cpu = 10000};
    reads(&head, &b, "{\"priority\":0,\"max_retries\":3,\"resources\":{\"CPU\":1},\"num_returns\":1}");
}

static void amounts_are_exact_and_sums(void **state)
{
    (void)state;
    struct mob_tail_builder b = begin();
    struct mob_spec_head head = {.kind = MOB_KIND_TASK, .num_returns = MOB_RETURNS_STREAM, .cpu = 2500};
    add_resource(&b, "GPU", 1, false);
    add_resource(&b, "memory", 9000000000000000001ull, true);
    add_resource(&b, "GPU", 9999, false);
    add_resource(&b, "\"odd\"", 15000, false);
    reads(&head, &b,
        "{\"priority\":0,\"max_retries\":0,\"resources\":{\"CPU\":0.25,\"GPU\":1,"
        "\"memory\":900000000000000.0001,\"\\\"odd\\\"\":1.5}}");
}

static void all_that_was_asked_for_is_there(void **state)
{
    (void)state;
    struct mob_tail_builder b = begin();
    struct mob_spec_head head = {.kind = MOB_KIND_TASK,
        .num_returns = 2,
        .max_retries = -1,
        .priority = -5,
        .flags = MOB_SPEC_RETRY_ON_ERROR | MOB_SPEC_RESTART_ON_DIVERGENCE | MOB_SPEC_DETERMINISTIC,
        .deadline_wall_ns = 1700000000123456789,
        .not_before_wall_ns = 1600000000000001000};
    uint64_t backoff[2] = {1000000, 2000000000};
    uint8_t payload[20] = {0};
    memcpy(payload, backoff, sizeof backoff);
    mob_tail_add_ext(&b, MOB_EXT_BACKOFF, payload, sizeof payload);
    mob_tail_add_ext(&b, MOB_EXT_NAME, "train", 5);
    mob_tail_add_ext(&b, MOB_EXT_LABEL, "team\0rl", 7);
    mob_tail_add_ext(&b, MOB_EXT_LABEL, "empty\0", 6);
    mob_tail_add_ext(&b, MOB_EXT_LABEL, "no end", 6);
    mob_tail_add_ext(&b, MOB_EXT_TRACEPARENT, "00-ab", 5);
    reads(&head, &b,
        "{\"priority\":-5,\"max_retries\":-1,\"resources\":{\"CPU\":0},\"num_returns\":2,"
        "\"deadline_us\":1700000000123456,\"not_before_us\":1600000000000001,\"retry_on_error\":true,"
        "\"restart_on_divergence\":true,\"deterministic\":true,\"backoff_initial_us\":1000,"
        "\"backoff_max_us\":2000000,\"name\":\"train\",\"labels\":{\"team\":\"rl\",\"empty\":\"\"},"
        "\"traceparent\":\"00-ab\"}");
}

static void an_actor_restarts_and_a_call_has_no_resources(void **state)
{
    (void)state;
    struct mob_tail_builder b = begin();
    uint32_t every = 10;
    struct mob_spec_head head = {.kind = MOB_KIND_ACTOR_CREATE,
        .num_returns = 1,
        .max_retries = 2,
        .flags = MOB_SPEC_DETACHED,
        .cpu = 10000};
    mob_tail_add_ext(&b, MOB_EXT_CHECKPOINT, &every, sizeof every);
    reads(&head, &b,
        "{\"priority\":0,\"max_restarts\":2,\"checkpoint_every\":10,\"resources\":{\"CPU\":1},\"detached\":"
        "true}");
    b = begin();
    head = (struct mob_spec_head){.kind = MOB_KIND_ACTOR_CALL, .num_returns = 1, .flags = MOB_SPEC_READ_ONLY};
    reads(&head, &b, "{\"priority\":0,\"max_retries\":0,\"num_returns\":1,\"read_only\":true}");
}

static void words_of_the_greatest_tail_fit(void **state)
{
    (void)state;
    struct mob_tail_builder b;
    static char name[MOB_SPEC_TAIL_MAX];
    memset(name, 1, sizeof name); /* six bytes of JSON each */
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_ext(&b, MOB_EXT_NAME, name, sizeof tail - 24);
    assert_true(mob_tail_end(&b) > sizeof tail - 32);
    struct mob_spec_head head = {.kind = MOB_KIND_TASK, .num_returns = 1};
    char *json = NULL;
    uint64_t length = 0;
    assert_int_equal(mob_spec_options_json(&head, tail, &json, &length), MOB_OK);
    assert_true(length > 6 * (sizeof tail - 24));
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_plain_task_has_its_defaults),
        cmocka_unit_test(amounts_are_exact_and_sums), cmocka_unit_test(all_that_was_asked_for_is_there),
        cmocka_unit_test(an_actor_restarts_and_a_call_has_no_resources),
        cmocka_unit_test(words_of_the_greatest_tail_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
