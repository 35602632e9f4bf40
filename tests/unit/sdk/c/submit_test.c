#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/fake_node.h"

static struct fake_node node;
static struct mob_client *client;

static int set_up(void **state)
{
    (void)state;
    fake_node_open(&node, MOB_CLIENT_DRIVER, 1u << 20);
    client = fake_node_driver(&node);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_node_close(&node);
    return 0;
}

static struct mob_future *submit(
    const struct mob_function *f, struct mob_args args, const struct mob_submit_options *options)
{
    struct mob_future *future = NULL;
    assert_int_equal(mob_submit_function(client, f, args, options, &future), MOB_OK);
    return future;
}

/* Head and checked tail of the record taken last, whichever form it has. */
static struct mob_spec_head head_taken;
static const uint8_t *tail_taken;
static uint32_t tail_bytes_taken;

static struct mob_spec_head slots_taken[MOB_HEAD_SLOTS];

static void take_any_task(void)
{
    uint16_t args;
    assert_true(fake_node_take(&node));
    assert_true(node.record.type == MOB_OUT_SPEC || node.record.type == MOB_OUT_SIBLING);
    assert_true(node.record.aux < MOB_HEAD_SLOTS);
    if (node.record.type == MOB_OUT_SPEC) {
        memcpy(&head_taken, node.body + 8, sizeof head_taken);
        slots_taken[node.record.aux] = head_taken;
        tail_taken = node.body + 8 + sizeof head_taken;
        tail_bytes_taken = node.bytes - 8 - (uint32_t)sizeof head_taken;
    } else {
        head_taken = slots_taken[node.record.aux];
        memcpy(&head_taken.task.index, node.body + 8, 4);
        memcpy(&head_taken.caller_seq, node.body + 12, 4);
        tail_taken = node.body + 16;
        tail_bytes_taken = node.bytes - 16;
    }
    assert_int_equal(mob_spec_tail_check(tail_taken, tail_bytes_taken, &args), MOB_OK);
}

static void take_task(uint8_t type)
{
    take_any_task();
    assert_int_equal(node.record.type, type);
}

static void the_second_of_equals_is_a_sibling(void **state)
{
    (void)state;
    const struct mob_function *add = fake_function(client, "add", "i64 a, i64 b -> i64");
    for (int i = 0; i < 5; i++)
        submit(add, MOB_ARGS(mob_i64(i), mob_i64(-1)), NULL);
    for (uint32_t i = 0; i < 5; i++) {
        struct mob_arg_view arg;
        int64_t v;
        take_task(i == 0 ? MOB_OUT_SPEC : MOB_OUT_SIBLING);
        assert_int_equal(head_taken.task.index, i);
        struct mob_tail_iter it = mob_spec_args(tail_taken);
        assert_true(mob_tail_next_arg(&it, &arg));
        memcpy(&v, arg.payload, sizeof v);
        assert_int_equal(v, i);
        assert_true(mob_tail_next_arg(&it, &arg));
        assert_false(mob_tail_next_arg(&it, &arg));
    }
    assert_int_equal(head_taken.attempt, 1);
    assert_int_equal(head_taken.num_returns, 1);
    assert_int_equal(head_taken.cpu, 10000);
    assert_int_equal(head_taken.max_retries, 3);
}

static void other_options_begin_a_new_spec(void **state)
{
    (void)state;
    const struct mob_function *f = fake_function(client, "f", "-> i64"),
                              *g = fake_function(client, "g", "-> i64");
    struct mob_submit_options low = {.struct_size = sizeof low, .priority = -3, .max_retries = MOB_NO_RETRY};
    submit(f, MOB_NO_ARGS, NULL);
    submit(f, MOB_NO_ARGS, &low);
    submit(f, MOB_NO_ARGS, &low);
    submit(g, MOB_NO_ARGS, &low);
    submit(f, MOB_NO_ARGS, NULL);
    take_task(MOB_OUT_SPEC);
    take_task(MOB_OUT_SPEC);
    assert_int_equal(head_taken.priority, -3);
    assert_int_equal(head_taken.max_retries, 0);
    take_task(MOB_OUT_SIBLING);
    take_task(MOB_OUT_SPEC);
    take_task(MOB_OUT_SPEC);
    assert_int_equal(head_taken.task.index, 4);
}

/* ---- calls ---- */

static struct mob_actor *make_actor(void)
{
    static const struct mob_method_entry methods[] = {{.name = "inc", .signature = "i64 by -> i64"},
        {.name = "name", .signature = "utf8 name -> i64"}, {.name = NULL}};
    return fake_actor(client, methods);
}

static void calls_on_actors_in_turn_are_siblings(void **state)
{
    (void)state;
    enum { ACTORS = 32, CALLS = 10 };
    struct mob_actor *actors[ACTORS];
    struct mob_future *future;
    for (int i = 0; i < ACTORS; i++)
        actors[i] = make_actor();
    for (int i = 0; i < ACTORS; i++)
        take_any_task();
    const struct mob_function *add = fake_function(client, "add", "i64 a -> i64");
    for (uint32_t call = 0; call < CALLS; call++) {
        for (int i = 0; i < ACTORS; i++)
            assert_int_equal(
                mob_actor_call(actors[i], "inc", MOB_ARGS(mob_i64(call)), NULL, &future), MOB_OK);
        submit(add, MOB_ARGS(mob_i64(1)), NULL); /* has a slot of its own */
        for (int i = 0; i < ACTORS; i++) {
            take_task(call == 0 ? MOB_OUT_SPEC : MOB_OUT_SIBLING);
            assert_int_equal(head_taken.kind, MOB_KIND_ACTOR_CALL);
            assert_true(mob_actor_id_eq(head_taken.actor, mob_actor_identity(actors[i])));
            assert_int_equal(head_taken.caller_seq, call);
        }
        take_task(call == 0 ? MOB_OUT_SPEC : MOB_OUT_SIBLING);
        assert_int_equal(head_taken.kind, MOB_KIND_TASK);
    }
}

/* More actors than slots, two methods, tasks and a new parent in between: whatever form a call has, it is the
 * call that was meant. */
static void calls_are_what_was_meant_with_more_actors_than_slots(void **state)
{
    (void)state;
    enum { ACTORS = MOB_HEAD_SLOTS + 20, CALLS = 20000 };
    static struct mob_actor *actors[ACTORS];
    static uint32_t calls[ACTORS];
    uint32_t seed = 7, index = ACTORS, siblings = 0;
    struct mob_task_id parent = client->parent;
    for (int i = 0; i < ACTORS; i++) {
        actors[i] = make_actor();
        calls[i] = 0;
    }
    for (int i = 0; i < ACTORS; i++)
        take_any_task();
    const struct mob_function *add = fake_function(client, "add", "i64 a -> i64");
    for (int i = 0; i < CALLS; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t of = (i / 1000 % 2 == 0 ? ACTORS : 20), a = (seed >> 8) % of, kind = (seed >> 24) % 8;
        struct mob_future *future;
        if (i % 5000 == 4999) {
            parent.index++;
            mob_client_leave(client, true);
            mob_client_enter(client, parent, 0, client->job);
            memset(calls, 0, sizeof calls);
            index = 0;
        }
        if (kind == 0)
            future = submit(add, MOB_ARGS(mob_i64(1)), NULL);
        else
            assert_int_equal(mob_actor_call(actors[a], kind == 1 ? "name" : "inc",
                                 kind == 1 ? MOB_ARGS(mob_utf8("n")) : MOB_ARGS(mob_i64(1)), NULL, &future),
                MOB_OK);
        mob_release(future);
        take_any_task();
        siblings += node.record.type == MOB_OUT_SIBLING;
        assert_int_equal(head_taken.task.index, index++);
        assert_true(mob_task_id_eq(head_taken.parent, parent));
        assert_int_equal(head_taken.kind, kind == 0 ? MOB_KIND_TASK : MOB_KIND_ACTOR_CALL);
        if (kind == 0)
            continue;
        assert_true(mob_actor_id_eq(head_taken.actor, mob_actor_identity(actors[a])));
        assert_int_equal(head_taken.method, kind == 1);
        assert_int_equal(head_taken.caller_seq, calls[a]++);
    }
    assert_in_range(siblings, CALLS / 4, CALLS * 9 / 10);
}

static void extensions_are_in_the_tail(void **state)
{
    (void)state;
    const char *labels[] = {"team=rl"};
    struct mob_resource gpu = {"GPU", 0.5};
    struct mob_submit_options options = {.struct_size = sizeof options,
        .name = "shown",
        .resources = &gpu,
        .resource_count = 1,
        .labels = labels,
        .label_count = 1,
        .traceparent = "00-ab-cd-01",
        .cpus = -1};
    submit(fake_function(client, "f", "-> i64"), MOB_NO_ARGS, &options);
    take_task(MOB_OUT_SPEC);
    struct mob_ext_view ext;
    assert_int_equal(head_taken.cpu, 0);
    assert_true(mob_spec_find_ext(tail_taken, MOB_EXT_NAME, &ext));
    assert_memory_equal(ext.payload, "shown", 5);
    assert_true(mob_spec_find_ext(tail_taken, MOB_EXT_LABEL, &ext));
    assert_memory_equal(ext.payload, "team\0rl", 7);
    assert_true(mob_spec_find_ext(tail_taken, MOB_EXT_RESOURCES, &ext));
    uint32_t amount;
    memcpy(&amount, ext.payload, 4);
    assert_int_equal(amount, 5000);
    assert_memory_equal(ext.payload + 4, "GPU", 3);
    assert_true(mob_spec_find_ext(tail_taken, MOB_EXT_TRACEPARENT, &ext));
}

static void an_older_options_struct_is_read_as_far_as_it_goes(void **state)
{
    (void)state;
    struct mob_submit_options options = {
        .struct_size = offsetof(struct mob_submit_options, priority), .max_retries = -1, .priority = 9};
    submit(fake_function(client, "f", "-> i64"), MOB_NO_ARGS, &options);
    take_task(MOB_OUT_SPEC);
    assert_int_equal(head_taken.max_retries, -1);
    assert_int_equal(head_taken.priority, 0);
}

static void wrong_arguments_leave_no_trace(void **state)
{
    (void)state;
    const struct mob_function *add = fake_function(client, "add", "i64 first, i64 second -> i64");
    struct mob_future *future;
    assert_int_equal(mob_submit_function(client, add, MOB_ARGS(mob_i64(1), mob_utf8("x")), NULL, &future),
        MOB_TYPE_MISMATCH);
    assert_non_null(strstr(mob_client_error(client), "second"));
    assert_int_equal(
        mob_submit_function(client, add, MOB_ARGS(mob_i64(1)), NULL, &future), MOB_TYPE_MISMATCH);
    assert_false(fake_node_take(&node));
    submit(add, MOB_ARGS(mob_i64(1), mob_i64(2)), NULL);
    take_task(MOB_OUT_SPEC);
    assert_int_equal(head_taken.task.index, 0);
}

static void refused(const struct mob_submit_options *options, const char *what)
{
    struct mob_future *future;
    const struct mob_function *f = fake_function(client, "f", "-> i64");
    assert_int_equal(mob_submit_function(client, f, MOB_NO_ARGS, options, &future), MOB_INVALID);
    assert_non_null(strstr(mob_client_error(client), what));
    assert_false(fake_node_take(&node));
}

/* The node ends a session whose records make no sense, and with it what else the driver had submitted. */
static void senseless_options_leave_no_trace(void **state)
{
    (void)state;
    struct mob_resource bad[] = {
        {"GPU", -1}, {"GPU", NAN}, {"GPU", INFINITY}, {"", 1}, {NULL, 1}, {"r\xff", 1}, {"CPU", 1e6}};
    const char *labels[] = {"no equals sign"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(
            &(struct mob_submit_options){
                .struct_size = sizeof(struct mob_submit_options), .resources = &bad[i], .resource_count = 1},
            i < 3        ? "GPU"
                : i == 6 ? "cpus"
                         : "name");
    refused(&(struct mob_submit_options){.struct_size = sizeof(struct mob_submit_options), .max_retries = -7},
        "max_retries");
    refused(
        &(struct mob_submit_options){.struct_size = sizeof(struct mob_submit_options), .cpus = NAN}, "cpus");
    refused(&(struct mob_submit_options){.struct_size = sizeof(struct mob_submit_options), .name = "a\xff"},
        "UTF-8");
    refused(
        &(struct mob_submit_options){
            .struct_size = sizeof(struct mob_submit_options), .labels = labels, .label_count = 1},
        "key=value");
}

static void a_task_has_eight_resources_and_cpu_is_one(void **state)
{
    (void)state;
    struct mob_resource nine[9] = {
        {"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}, {"f", 1}, {"g", 1}, {"h", 1}, {"CPU", 2}};
    struct mob_submit_options options = {
        .struct_size = sizeof options, .resources = nine, .resource_count = 8};
    refused(&options, "up to 8 resources, CPU among them, and these are 9");
    options.resource_count = 9;
    refused(&options, "these are 9");
    nine[8].amount = 0;
    submit(fake_function(client, "f", "-> i64"), MOB_NO_ARGS, &options);
    take_any_task();
    assert_int_equal(head_taken.cpu, 0);
    options.resource_count = 8;
    options.cpus = -1;
    submit(fake_function(client, "f", "-> i64"), MOB_NO_ARGS, &options);
    take_any_task();
    options =
        (struct mob_submit_options){.struct_size = sizeof options, .resources = nine, .resource_count = 7};
    submit(fake_function(client, "f", "-> i64"), MOB_NO_ARGS, &options);
    take_any_task();
}

static void options_have_bounds(void **state)
{
    (void)state;
#define ROW(word, ...) \
    { \
        {.struct_size = sizeof(struct mob_submit_options), __VA_ARGS__}, word \
    }
    static char name[300];
    memset(name, 'n', 257);
    static struct mob_resource tiny = {"GPU", 1e-5}, vast = {"memory", 1e15};
    static struct mob_resource twice[] = {{"GPU", 1}, {"lathe", 1}, {"GPU", 2}};
    const struct {
        struct mob_submit_options options;
        const char *word;
    } rows[] = {{{.struct_size = 0}, "struct_size"}, {{.struct_size = 4}, "struct_size"},
        {{.struct_size = 4096}, "struct_size"}, ROW("priority", .priority = 100000),
        ROW("priority", .priority = -32769), ROW("max_retries", .max_retries = 1000001),
        ROW("timeout_ns", .timeout_ns = -1), ROW("delay_ns", .delay_ns = -1), ROW("cpus", .cpus = 1e-5),
        ROW("GPU", .resources = &tiny, .resource_count = 1),
        ROW("memory", .resources = &vast, .resource_count = 1),
        ROW("\"GPU\" is named twice", .resources = twice, .resource_count = 3),
        ROW("429496.7295", .cpus = 429497), ROW("name", .name = name)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(&rows[i].options, rows[i].word);
    struct mob_resource most = {"memory", 9e14};
    struct mob_submit_options fine = {.struct_size = sizeof fine,
        .priority = 32767,
        .max_retries = 1000000,
        .cpus = 1e-4,
        .resources = &most,
        .resource_count = 1,
        .name = name + 1};
    submit(fake_function(client, "f", "-> i64"), MOB_NO_ARGS, &fine);
    take_task(MOB_OUT_SPEC);
    assert_int_equal(head_taken.cpu, 1);
    assert_int_equal(head_taken.priority, 32767);
}

static void text_that_is_not_utf8_is_no_value(void **state)
{
    (void)state;
    struct mob_future *future;
    const struct mob_function *f = fake_function(client, "f", "utf8 text -> i64");
    assert_int_equal(mob_submit_function(client, f, MOB_ARGS(mob_utf8("a\xff")), NULL, &future), MOB_INVALID);
    assert_non_null(strstr(mob_client_error(client), "not UTF-8"));
    assert_false(fake_node_take(&node));
    submit(f, MOB_ARGS(mob_utf8("a\xc3\xa9")), NULL);
    take_task(MOB_OUT_SPEC);
}

static void text_that_is_not_json_is_no_value(void **state)
{
    (void)state;
    const struct mob_function *f = fake_function(client, "f", "json v -> i64");
    struct mob_future *future;
    const char *bad[] = {"{bad", "", "{}{}", NULL};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(
            mob_submit_function(client, f, MOB_ARGS(mob_json(bad[i])), NULL, &future), MOB_INVALID);
        assert_int_equal(mob_put(client, mob_json(bad[i]), &future), MOB_INVALID);
        assert_non_null(strstr(mob_client_error(client), "JSON"));
        assert_false(fake_node_take(&node));
    }
    submit(f, MOB_ARGS(mob_json("{\"good\": [1]}")), NULL);
    take_task(MOB_OUT_SPEC);
}

static void a_resource_may_be_gigabytes(void **state)
{
    (void)state;
    struct mob_resource memory = {"memory", 5e9};
    struct mob_submit_options options = {
        .struct_size = sizeof options, .resources = &memory, .resource_count = 1};
    const struct mob_function *f = fake_function(client, "f", "-> i64");
    for (int i = 0; i < 2; i++) { /* never a sibling: the node keeps no extensions with heads */
        struct mob_ext_view ext;
        uint64_t amount;
        submit(f, MOB_NO_ARGS, &options);
        take_task(MOB_OUT_SPEC);
        assert_true(mob_spec_find_ext(tail_taken, MOB_EXT_WIDE_RESOURCES, &ext));
        assert_int_equal(ext.payload_bytes, sizeof amount + 6);
        memcpy(&amount, ext.payload, sizeof amount);
        assert_int_equal(amount, 50000000000000);
        assert_memory_equal(ext.payload + sizeof amount, "memory", 6);
    }
}

static void times_that_never_come_are_not_in_the_past(void **state)
{
    (void)state;
    const struct mob_function *f = fake_function(client, "f", "-> i64");
    struct mob_submit_options options = {.struct_size = sizeof options, .timeout_ns = MOB_FOREVER};
    submit(f, MOB_NO_ARGS, &options);
    take_any_task();
    assert_int_equal(head_taken.deadline_wall_ns, 0);
    options = (struct mob_submit_options){
        .struct_size = sizeof options, .timeout_ns = INT64_MAX - 1, .delay_ns = INT64_MAX};
    submit(f, MOB_NO_ARGS, &options);
    take_any_task();
    assert_int_equal(head_taken.deadline_wall_ns, INT64_MAX);
    assert_int_equal(head_taken.not_before_wall_ns, INT64_MAX);
}

static void large_values_are_put_and_passed_by_id(void **state)
{
    (void)state;
    uint8_t bytes[5000] = {1, 2, 3};
    struct mob_arg_view arg;
    struct mob_out_put put;
    submit(fake_function(client, "f", "bytes b -> i64"), MOB_ARGS(mob_bytes(bytes, sizeof bytes)), NULL);
    assert_true(fake_node_take(&node));
    assert_int_equal(node.record.type, MOB_OUT_PUT);
    memcpy(&put, node.body, sizeof put);
    assert_int_equal(put.size, sizeof bytes);
    assert_int_equal(put.inline_bytes, sizeof bytes);
    take_task(MOB_OUT_SPEC);
    struct mob_tail_iter it = mob_spec_args(tail_taken);
    assert_true(mob_tail_next_arg(&it, &arg));
    assert_true(arg.is_ref);
    assert_true(mob_object_id_eq(arg.ref, put.id));
}

static void text_may_hold_nuls(void **state)
{
    (void)state;
    struct mob_arg_view arg;
    submit(fake_function(client, "f", "utf8 text -> i64"), MOB_ARGS(mob_utf8_of("a\0b", 3)), NULL);
    take_task(MOB_OUT_SPEC);
    struct mob_tail_iter it = mob_spec_args(tail_taken);
    assert_true(mob_tail_next_arg(&it, &arg));
    assert_int_equal(arg.type, MOB_TYPE_UTF8);
    assert_int_equal(arg.payload_bytes, 3);
    assert_memory_equal(arg.payload, "a\0b", 3);
}

static void long_lists_go_on_in_pages(void **state)
{
    (void)state;
    enum { N = 9000 };
    static struct mob_arg args[N];
    struct mob_ext_view ext;
    uint32_t pages[2], in_pages = 0, count = 0;
    for (int i = 0; i < N; i++)
        args[i] = mob_i64(i);
    submit(fake_function(client, "f", "i64... -> i64"), (struct mob_args){args, N}, NULL);
    struct mob_object_id page_ids[8];
    while (fake_node_take(&node) && node.record.type == MOB_OUT_PUT) {
        struct mob_out_put put;
        memcpy(&put, node.body, sizeof put);
        assert_int_equal(put.id.slot, MOB_SLOT_ARG_PAGE | count);
        page_ids[count++] = put.id;
        in_pages += (uint32_t)put.size / 16;
    }
    uint16_t inline_args;
    tail_taken = node.body + 8 + sizeof head_taken;
    memcpy(&head_taken, node.body + 8, sizeof head_taken);
    assert_int_equal(
        mob_spec_tail_check(tail_taken, node.bytes - 8 - (uint32_t)sizeof head_taken, &inline_args), MOB_OK);
    assert_true(mob_spec_find_ext(tail_taken, MOB_EXT_ARG_PAGES, &ext));
    memcpy(pages, ext.payload, sizeof pages);
    assert_int_equal(pages[0], count);
    assert_int_equal(pages[1], N);
    assert_int_equal(inline_args + in_pages, N);
    for (uint32_t i = 0; i < count; i++)
        assert_true(mob_task_id_eq(page_ids[i].task, head_taken.task));
}

static void counters_go_on_in_a_continued_stream(void **state)
{
    (void)state;
    const struct mob_function *f = fake_function(client, "f", "i64 v -> i64");
    struct mob_future *futures[4];
    struct mob_stream first;
    client->next_child = MOB_CHILD_INDEX_MAX - 1;
    for (int i = 0; i < 4; i++)
        futures[i] = submit(f, MOB_ARGS(mob_i64(i)), NULL);
    take_task(MOB_OUT_SPEC);
    first = head_taken.task.stream;
    assert_int_equal(head_taken.task.index, MOB_CHILD_INDEX_MAX - 1);
    take_task(MOB_OUT_SIBLING);
    assert_int_equal(head_taken.task.index, MOB_CHILD_INDEX_MAX);
    take_task(MOB_OUT_SPEC);
    assert_int_equal(head_taken.task.index, 0);
    struct mob_stream continued = mob_stream_of_children(client->parent, 0, 1);
    assert_memory_equal(&head_taken.task.stream, &continued, sizeof continued);
    take_task(MOB_OUT_SIBLING);
    for (int i = 0; i < 4; i++) {
        struct mob_object_id id = mob_future_object(futures[i]);
        assert_memory_equal(&id.task.stream, i < 2 ? &first : &continued, sizeof first);
        fake_node_ready_i64(&node, id, 100 + i);
    }
    for (int i = 0; i < 4; i++) {
        int64_t v;
        assert_int_equal(mob_get_i64(futures[i], 0, &v), MOB_OK);
        assert_int_equal(v, 100 + i);
        mob_release(futures[i]);
    }
}

/* The slots behind the last one are those of a checkpoint and of argument pages. */
static void puts_go_on_in_a_continued_stream(void **state)
{
    (void)state;
    static const struct {
        uint32_t generation, first, count;
    } cases[] = {{0, 0, MOB_PUTS_OF_FIRST_GENERATION},
        {1, MOB_PUTS_OF_FIRST_GENERATION, MOB_PUTS_OF_GENERATION},
        {MOB_PUT_GENERATIONS, 0x3fe00000u, MOB_PUTS_OF_GENERATION}, {MOB_PUT_GENERATIONS + 1, 0, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t generation = cases[c].generation, left = cases[c].count ? 2 : 0;
        struct mob_stream continued = mob_stream_of_children(client->parent, generation, 1);
        client->parent_generation = generation;
        client->put_continuation = 0;
        client->next_put = cases[c].count - left;
        for (uint32_t i = 0; i < 4; i++) {
            struct mob_object_id id = mob_next_put(client);
            assert_true((id.slot & MOB_SLOT_ARG_PAGE) == MOB_SLOT_PUT && id.slot != MOB_SLOT_CHECKPOINT);
            if (i < left) {
                assert_true(mob_task_id_eq(id.task, client->parent));
                assert_int_equal(id.slot, MOB_SLOT_PUT | (cases[c].first + cases[c].count - 2 + i));
                assert_int_equal(mob_put_generation(id.slot), generation);
            } else {
                assert_true(mob_task_id_eq(id.task, (struct mob_task_id){continued, MOB_CONTINUED_CHILD}));
                assert_int_equal(id.slot, MOB_SLOT_PUT | (i - left));
            }
        }
    }
    client->parent_generation = client->put_continuation = client->next_put = 0;
}

static void a_full_ring_is_no_loss(void **state)
{
    (void)state;
    const struct mob_function *f = fake_function(client, "f", "i64 v -> i64");
    client->event_fd = (struct mob_event_fd *)client; /* of an event loop: must not wait */
    struct mob_future *future;
    enum mob_status status;
    uint32_t submitted = 0, taken = 0;
    while ((status = mob_submit_function(client, f, MOB_ARGS(mob_i64(1)), NULL, &future)) == MOB_OK)
        submitted++;
    assert_int_equal(status, MOB_QUEUE_FULL);
    while (fake_node_take(&node))
        taken++;
    assert_int_equal(taken, submitted);
    client->event_fd = NULL;
    future = submit(f, MOB_ARGS(mob_i64(1)), NULL);
    assert_int_equal(mob_future_object(future).task.index, submitted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_second_of_equals_is_a_sibling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_options_begin_a_new_spec, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_on_actors_in_turn_are_siblings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            calls_are_what_was_meant_with_more_actors_than_slots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(extensions_are_in_the_tail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_older_options_struct_is_read_as_far_as_it_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_arguments_leave_no_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(senseless_options_leave_no_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_task_has_eight_resources_and_cpu_is_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(options_have_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(text_that_is_not_utf8_is_no_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(text_that_is_not_json_is_no_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_resource_may_be_gigabytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(times_that_never_come_are_not_in_the_past, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_values_are_put_and_passed_by_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(text_may_hold_nuls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_lists_go_on_in_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(counters_go_on_in_a_continued_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(puts_go_on_in_a_continued_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_ring_is_no_loss, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("sdk/c/submit", tests, NULL, NULL);
}
