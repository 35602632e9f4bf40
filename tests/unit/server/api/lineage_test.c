/* Records of tasks whose spec and completion lie in blocks of two nodes' lives, with clocks that have nothing
 * in common: the record is the same in whatever order the blocks are read. */
#include "server/api/lineage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/wire_samples.h"

struct block {
    struct mob_block_header header;
    uint8_t bytes[MOB_BLOCK_BYTES_MAX];
    uint32_t length;
};

static struct block submitted,
    ended; /* wall 1,000 and 9,000 s from the monotonic clock, within a microsecond */
static struct sample_entry spec, completion;

static void make_block(struct block *block, const struct sample_entry *entry)
{
    struct mob_block_encoder *encoder = mob_block_encoder_create();
    assert_non_null(encoder);
    mob_block_begin(encoder, &block->header);
    assert_int_equal(sample_add(encoder, entry), MOB_OK);
    block->length = mob_block_end(encoder, block->bytes);
    mob_block_encoder_destroy(encoder);
}

static int make_blocks(void **state)
{
    (void)state;
    struct sample_world world;
    sample_world_init(&world, 7);
    sample_spec(&world, &spec);
    spec.entry.spec.head.kind = MOB_KIND_TASK;
    spec.entry.spec.head.attempt = 1;
    spec.entry.submitted_ns = 50 * 1000000000ll + 999;
    sample_completion(&world, &completion);
    struct mob_completion_head *head = &completion.entry.completion.head;
    head->task = spec.entry.spec.head.task;
    head->flags |= MOB_COMPLETION_FINAL;
    head->submitted_ns = spec.entry.submitted_ns;
    head->started_ns = 60 * 1000000000ll;
    head->finished_ns = 61 * 1000000000ll;
    submitted.header =
        (struct mob_block_header){.incarnation = 1, .wall_ns = 1000 * 1000000000ll + 100, .mono_ns = 100};
    ended.header =
        (struct mob_block_header){.incarnation = 2, .wall_ns = 9000 * 1000000000ll + 201, .mono_ns = 200};
    make_block(&submitted, &spec);
    make_block(&ended, &completion);
    return 0;
}

static const char *no_name(void *cls, struct mob_function_id id)
{
    (void)cls;
    (void)id;
    return NULL;
}

static const char *no_method(
    void *cls, struct mob_function_id id, uint16_t method, char *out, size_t capacity)
{
    (void)cls;
    (void)id;
    (void)method;
    (void)out;
    (void)capacity;
    return NULL;
}

static const char *node_name(void *cls, uint64_t incarnation)
{
    (void)cls;
    return incarnation == 2 ? "second" : "first";
}

static char *record_of(const struct block *const *blocks, size_t count)
{
    static const struct lineage_names names = {
        .function = no_name, .hash = no_name, .method = no_method, .node = node_name};
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    struct lineage_set *set = lineage_set_create();
    struct mob_text text = {0};
    size_t length;
    assert_non_null(decoder);
    lineage_set_want_task(set, spec.entry.spec.head.task);
    for (size_t i = 0; i < count; i++)
        lineage_set_block(set, decoder, i, blocks[i]->bytes, blocks[i]->length);
    const struct task_record *record = lineage_set_find(set, spec.entry.spec.head.task);
    assert_non_null(record);
    task_record_write(record, &names, NULL, &text);
    lineage_set_destroy(set);
    mob_block_decoder_destroy(decoder);
    return mob_text_take(&text, &length);
}

static void times_are_by_the_clocks_of_their_blocks(void **state)
{
    (void)state;
    const struct block *const orders[2][2] = {{&submitted, &ended}, {&ended, &submitted}};
    for (int i = 0; i < 2; i++) {
        char *text = record_of(orders[i], 2);
        assert_non_null(strstr(text, "\"submitted_us\":1050000000,"));
        assert_non_null(strstr(text, "\"started_us\":9060000000,"));
        assert_non_null(strstr(text, "\"finished_us\":9061000000,"));
        assert_non_null(strstr(text, "\"node\":\"second\",\"node_incarnation\":2,"));
        free(text);
    }
}

static void what_has_not_ended_has_the_clocks_of_its_spec(void **state)
{
    (void)state;
    const struct block *const blocks[] = {&submitted};
    char *text = record_of(blocks, 1);
    assert_non_null(strstr(text, "\"submitted_us\":1050000000,"));
    assert_non_null(strstr(text, "\"node\":\"first\",\"node_incarnation\":1,"));
    free(text);
}

/* The block with its spec is gone. */
static void without_a_spec_the_completion_says_when_it_was_submitted(void **state)
{
    (void)state;
    const struct block *const blocks[] = {&ended};
    char *text = record_of(blocks, 1);
    assert_non_null(strstr(text, "\"submitted_us\":9050000001,"));
    free(text);
}

static void count_spec(void *arg, const struct mob_spec_head *head)
{
    unsigned *count = arg;
    if (mob_task_id_eq(head->task, spec.entry.spec.head.task))
        ++*count;
}

/* Who asked for one task of a group learns whom its neighbours belong to. */
static void specs_are_told_of_whether_wanted_or_not(void **state)
{
    (void)state;
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    struct lineage_set *set = lineage_set_create();
    unsigned count = 0;
    assert_non_null(decoder);
    lineage_set_each_spec(set, count_spec, &count);
    lineage_set_block(set, decoder, 1, submitted.bytes, submitted.length);
    lineage_set_block(set, decoder, 2, ended.bytes, ended.length);
    assert_int_equal(count, 1);
    assert_null(lineage_set_find(set, spec.entry.spec.head.task));
    lineage_set_each_spec(set, NULL, NULL);
    lineage_set_block(set, decoder, 1, submitted.bytes, submitted.length);
    assert_int_equal(count, 1);
    lineage_set_destroy(set);
    mob_block_decoder_destroy(decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_by_the_clocks_of_their_blocks),
        cmocka_unit_test(what_has_not_ended_has_the_clocks_of_its_spec),
        cmocka_unit_test(without_a_spec_the_completion_says_when_it_was_submitted),
        cmocka_unit_test(specs_are_told_of_whether_wanted_or_not),
    };
    return cmocka_run_group_tests(tests, make_blocks, NULL);
}
