/* Ids and their text form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/id.h"
#include "tests/support/wire_samples.h"

static void every_kind_of_id_comes_back_from_its_text(void **state)
{
    (void)state;
    struct sample_rng rng = {1};
    char text[MOB_ID_TEXT_MAX];
    for (int i = 0; i < 1000; i++) {
        struct mob_task_id task, task_back;
        struct mob_object_id object, object_back;
        struct mob_actor_id actor, actor_back;
        struct mob_job_id job, job_back;
        struct mob_function_id function, function_back;
        sample_bytes(&rng, &task, sizeof task);
        sample_bytes(&rng, &object, sizeof object);
        sample_bytes(&rng, &actor, sizeof actor);
        sample_bytes(&rng, &job, sizeof job);
        sample_bytes(&rng, &function, sizeof function);
        assert_int_equal(mob_task_id_parse(mob_task_id_format(task, text), &task_back), MOB_OK);
        assert_memory_equal(&task, &task_back, sizeof task);
        assert_int_equal(mob_object_id_parse(mob_object_id_format(object, text), &object_back), MOB_OK);
        assert_memory_equal(&object, &object_back, sizeof object);
        assert_true(strlen(text) < MOB_ID_TEXT_MAX);
        assert_int_equal(mob_actor_id_parse(mob_actor_id_format(actor, text), &actor_back), MOB_OK);
        assert_memory_equal(&actor, &actor_back, sizeof actor);
        assert_int_equal(mob_job_id_parse(mob_job_id_format(job, text), &job_back), MOB_OK);
        assert_memory_equal(&job, &job_back, sizeof job);
        assert_int_equal(
            mob_function_id_parse(mob_function_id_format(function, text), &function_back), MOB_OK);
        assert_memory_equal(&function, &function_back, sizeof function);
    }
}

static void base32_has_the_alphabet_of_rfc_4648_without_padding(void **state)
{
    (void)state;
    char text[32];
    static const struct {
        const char *bytes, *text;
    } vectors[] = {{"", ""}, {"f", "my"}, {"fo", "mzxq"}, {"foo", "mzxw6"}, {"foob", "mzxw6yq"},
        {"fooba", "mzxw6ytb"}, {"foobar", "mzxw6ytboi"}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        size_t length = strlen(vectors[i].bytes);
        uint8_t back[8] = {0};
        size_t n = mob_base32_encode((const uint8_t *)vectors[i].bytes, length, text);
        assert_int_equal(n, strlen(vectors[i].text));
        assert_string_equal(text, vectors[i].text);
        assert_int_equal(mob_base32_decode(text, n, back, length), MOB_OK);
        assert_memory_equal(back, vectors[i].bytes, length);
    }
}

static void one_id_has_one_text(void **state)
{
    (void)state;
    uint8_t back[2];
    assert_int_equal(mob_base32_decode("mzxq", 4, back, 2), MOB_OK);
    assert_int_equal(mob_base32_decode("mzxr", 4, back, 2), MOB_INVALID); /* bits in the padding */
    assert_int_equal(mob_base32_decode("MZXQ", 4, back, 2), MOB_INVALID);
    assert_int_equal(mob_base32_decode("mzx", 3, back, 2), MOB_INVALID);
    assert_int_equal(mob_base32_decode("mzxq=", 5, back, 2), MOB_INVALID);
    assert_int_equal(mob_base32_decode("mz1q", 4, back, 2), MOB_INVALID);
}

static void text_of_another_kind_or_length_is_refused(void **state)
{
    (void)state;
    struct mob_task_id task = {.index = 5}, back;
    struct mob_object_id object;
    char text[MOB_ID_TEXT_MAX], longer[MOB_ID_TEXT_MAX + 2];
    mob_task_id_format(task, text);
    assert_int_equal(mob_object_id_parse(text, &object), MOB_INVALID);
    snprintf(longer, sizeof longer, "%sa", text);
    assert_int_equal(mob_task_id_parse(longer, &back), MOB_INVALID);
    snprintf(longer, sizeof longer, "%s ", text);
    assert_int_equal(mob_task_id_parse(longer, &back), MOB_INVALID);
    text[strlen(text) - 1] = '\0';
    assert_int_equal(mob_task_id_parse(text, &back), MOB_INVALID);
    assert_int_equal(mob_task_id_parse("", &back), MOB_INVALID);
    assert_int_equal(mob_task_id_parse("task_", &back), MOB_INVALID);
}

static void failed_parse_leaves_the_output_alone(void **state)
{
    (void)state;
    struct mob_task_id id = {.index = 77};
    assert_int_equal(mob_task_id_parse("task_nonsense", &id), MOB_INVALID);
    assert_int_equal(id.index, 77);
}

static void child_streams_differ_by_parent_generation_and_continuation(void **state)
{
    (void)state;
    struct mob_task_id a = {.index = 1}, b = {.index = 2};
    struct mob_stream base = mob_stream_of_children(a, 0, 0);
    assert_true(mob_stream_eq(base, mob_stream_of_children(a, 0, 0)));
    assert_false(mob_stream_eq(base, mob_stream_of_children(b, 0, 0)));
    assert_false(mob_stream_eq(base, mob_stream_of_children(a, 1, 0)));
    assert_false(mob_stream_eq(base, mob_stream_of_children(a, 0, 1)));
}

static void puts_past_the_256th_have_groups_of_their_own(void **state)
{
    (void)state;
    struct mob_task_id task = {{{1, 2, 3}}, 700}, other = {{{1, 2, 3}}, 701};
    struct mob_object_id put = mob_object_of(task, MOB_SLOT_PUT | 255u);
    assert_false(mob_put_has_group(put));
    assert_true(mob_task_id_eq(mob_put_group(put), task));
    assert_true(mob_task_id_eq(mob_put_group(mob_object_of(task, 1000)), task)); /* a return, not a put */
    put.slot = MOB_SLOT_PUT | 256u;
    assert_true(mob_put_has_group(put));
    struct mob_task_id group = mob_put_group(put);
    assert_int_equal(group.index >> MOB_GROUP_SHIFT, 1);
    assert_true(mob_stream_eq(group.stream, mob_stream_of_puts(task)));
    assert_false(mob_stream_eq(mob_stream_of_puts(task), mob_stream_of_puts(other)));
    assert_false(mob_stream_eq(mob_stream_of_puts(task), mob_stream_of_children(task, 0, 0)));
    put.slot = MOB_SLOT_ARG_PAGE | 5u;
    assert_false(mob_put_has_group(put));
    assert_true(mob_task_id_eq(mob_put_group(put), task)); /* of the task whose argument it is */
    put.slot = MOB_SLOT_PUT | MOB_CHILD_INDEX_MAX;
    assert_int_equal(mob_put_group(put).index, MOB_CHILD_INDEX_MAX);
}

static void each_actor_has_a_group_for_its_edges(void **state)
{
    (void)state;
    struct mob_task_id creation = {{{1, 2, 3}}, 700};
    for (uint32_t a = 512; a < 768; a++) {
        struct mob_task_id one = mob_edge_group((struct mob_actor_id){{creation.stream, a}});
        assert_int_equal(one.index >> MOB_GROUP_SHIFT, 2);
        assert_false(mob_stream_eq(one.stream, creation.stream));
        for (uint32_t b = 512; b < a; b++)
            assert_false(mob_stream_eq(
                one.stream, mob_edge_group((struct mob_actor_id){{creation.stream, b}}).stream));
    }
    struct mob_task_id far = mob_edge_group((struct mob_actor_id){{creation.stream, 700 + 256}});
    assert_int_equal(far.index >> MOB_GROUP_SHIFT, 3);
}

static void keyed_roots_depend_on_every_part(void **state)
{
    (void)state;
    uint8_t secret[32] = {1}, other[32] = {2};
    struct mob_task_id id = mob_root_id_keyed(secret, "ns", "alice", "key");
    assert_true(mob_task_id_eq(id, mob_root_id_keyed(secret, "ns", "alice", "key")));
    assert_false(mob_task_id_eq(id, mob_root_id_keyed(other, "ns", "alice", "key")));
    assert_false(mob_task_id_eq(id, mob_root_id_keyed(secret, "nsa", "lice", "key")));
    assert_false(mob_task_id_eq(id, mob_root_id_keyed(secret, "ns", "alicek", "ey")));
    assert_false(mob_task_id_eq(mob_root_id_random(), mob_root_id_random()));
}

static void mixes_spread_neighbours(void **state)
{
    (void)state;
    uint32_t buckets[256] = {0};
    struct mob_task_id id = {.stream = {{1, 2, 3}}};
    for (id.index = 0; id.index < 65536; id.index++)
        buckets[mob_task_id_mix(id) % 256]++;
    for (int i = 0; i < 256; i++)
        assert_in_range(buckets[i], 100, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_id_comes_back_from_its_text),
        cmocka_unit_test(base32_has_the_alphabet_of_rfc_4648_without_padding),
        cmocka_unit_test(one_id_has_one_text),
        cmocka_unit_test(text_of_another_kind_or_length_is_refused),
        cmocka_unit_test(failed_parse_leaves_the_output_alone),
        cmocka_unit_test(child_streams_differ_by_parent_generation_and_continuation),
        cmocka_unit_test(each_actor_has_a_group_for_its_edges),
        cmocka_unit_test(puts_past_the_256th_have_groups_of_their_own),
        cmocka_unit_test(keyed_roots_depend_on_every_part),
        cmocka_unit_test(mixes_spread_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
