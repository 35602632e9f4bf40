/* The public C API against a real node: every call once, and the errors that a user meets first. */
#include <mobula/mobula.h>

#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define SECONDS 1000000000ll
#define PATIENCE (60 * SECONDS)

static struct node_box box;
static struct mob_client *client;

#define FAILS(call, expected) assert_string_equal(mob_status_code(call), mob_status_code(expected))

static int set_up(void **state)
{
    (void)state;
    static const char *const args[] = {"--worker-memory-bytes", "1GiB", NULL};
    client = driver_box_start(&box, args, "probe");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    driver_box_stop(&box, client);
    return 0;
}

static int64_t call_i64(const char *function, struct mob_args args)
{
    struct mob_future *future;
    int64_t v = -1;
    OK(mob_submit(client, function, args, NULL, &future));
    OK(mob_get_i64(future, PATIENCE, &v));
    mob_release(future);
    return v;
}

/* ---- demands ---- */

/* More of each than the scheduler has numbers at a time. */
static void demands_of_thousands_of_kinds_run(void **state)
{
    (void)state;
    enum { DEMANDS = 6000, WINDOW = 500, NAMES = 150 };
    static struct mob_future *futures[WINDOW];
    struct mob_resource need = {.name = "memory"};
    struct mob_submit_options options = {
        .struct_size = sizeof options, .resources = &need, .resource_count = 1};
    for (int64_t i = 0, v; i < DEMANDS + WINDOW; i++) {
        if (i >= WINDOW) {
            OK(mob_get_i64(futures[i % WINDOW], PATIENCE, &v));
            assert_int_equal(v, i - WINDOW);
            mob_release(futures[i % WINDOW]);
        }
        need.amount = (double)(1000 + i);
        if (i < DEMANDS)
            OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i)), &options, &futures[i % WINDOW]));
    }
    for (int i = 0; i < NAMES; i++) { /* nobody has these, so they wait until they are cancelled */
        char name[32];
        struct mob_value *value;
        snprintf(name, sizeof name, "device-%d", i);
        need = (struct mob_resource){name, 1};
        OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i)), &options, &futures[0]));
        OK(mob_cancel(futures[0], true));
        FAILS(mob_get(futures[0], PATIENCE, &value), MOB_CANCELLED);
        mob_release(futures[0]);
    }
}

/* ---- values ---- */

static void scalars_come_back(void **state)
{
    (void)state;
    assert_int_equal(call_i64("probe.echo_i64", MOB_ARGS(mob_i64(INT64_MIN))), INT64_MIN);
    assert_int_equal(call_i64("probe.sum_all", MOB_NO_ARGS), 0);
    assert_int_equal(call_i64("probe.sum_all", MOB_ARGS(mob_i64(1), mob_i64(2), mob_i64(39))), 42);
    assert_int_equal(call_i64("probe.optional", MOB_ARGS(mob_i64(5))), 5);
}

static void texts_and_bytes_of_any_size_come_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, 8, 9, 23, 24, 25, 1023, 1024, 1025, 4096, 65536, 65537, 1 << 20, 5 << 20};
    uint8_t *bytes = malloc(5 << 20);
    for (size_t i = 0; i < 5 << 20; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct mob_future *future;
        struct mob_value *value;
        const void *data;
        size_t size;
        OK(mob_submit(client, "probe.echo_bytes", MOB_ARGS(mob_bytes(bytes, sizes[i])), NULL, &future));
        OK(mob_get(future, PATIENCE, &value));
        OK(mob_value_data(value, &data, &size));
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(data, bytes, size);
        assert_string_equal(mob_value_type(value), "bytes");
        mob_value_release(value);
        mob_release(future);
    }
    free(bytes);
}

static void tensors_of_texts_have_elements_of_any_length(void **state)
{
    (void)state;
    static const char texts[] = "\1\0\0\0a\0\0\0\0\3\0\0\0bcd";
    struct mob_tensor x = {.dtype = MOB_BYTES, .dims = 1, .shape = {3}, .data = texts}, y;
    struct mob_future *future;
    struct mob_value *value;
    OK(mob_put(client, mob_tensor(x), &future));
    OK(mob_get(future, PATIENCE, &value));
    OK(mob_value_tensor(value, &y));
    assert_int_equal(y.dtype, MOB_BYTES);
    assert_int_equal(y.shape[0], 3);
    assert_memory_equal(y.data, texts, sizeof texts - 1);
    mob_value_release(value);
    mob_release(future);
}

static void tensors_are_read_in_place(void **state)
{
    (void)state;
    float x[6] = {1, 2, 3, 4, 5, 6};
    struct mob_future *future;
    struct mob_value *value;
    struct mob_tensor y;
    OK(mob_submit(client, "probe.scale", MOB_ARGS(mob_tensor_f32(x, 2, 3), mob_f64(0.5)), NULL, &future));
    OK(mob_get(future, PATIENCE, &value));
    OK(mob_value_tensor(value, &y));
    assert_int_equal(y.dims, 2);
    assert_int_equal(y.shape[1], 3);
    assert_int_equal(y.dtype, MOB_F32);
    assert_true(fabsf(((const float *)y.data)[5] - 3.0f) < 1e-6f);
    mob_value_release(value);
    mob_release(future);
}

static void a_result_written_in_place_is_large(void **state)
{
    (void)state;
    struct mob_future *future;
    struct mob_value *value;
    const void *data;
    size_t size;
    OK(mob_submit(client, "probe.big", MOB_ARGS(mob_i64(3000000)), NULL, &future));
    OK(mob_get(future, PATIENCE, &value));
    OK(mob_value_data(value, &data, &size));
    assert_int_equal(size, 3000000);
    assert_int_equal(((const uint8_t *)data)[2999999], (uint8_t)(2999999 * 7));
    mob_value_release(value);
    mob_release(future);
}

static void puts_are_read_back_and_passed_on(void **state)
{
    (void)state;
    struct mob_future *small, *large, *sum;
    struct mob_value *value;
    const void *data;
    size_t size;
    char text[10000];
    memset(text, 'x', sizeof text);
    OK(mob_put(client, mob_i64(40), &small));
    OK(mob_put(client, mob_bytes(text, sizeof text), &large));
    assert_int_equal(call_i64("probe.sum_all", MOB_ARGS(mob_ref(small), mob_i64(2))), 42);
    OK(mob_submit(client, "probe.echo_bytes", MOB_ARGS(mob_ref(large)), NULL, &sum));
    OK(mob_get(sum, PATIENCE, &value));
    OK(mob_value_data(value, &data, &size));
    assert_int_equal(size, sizeof text);
    mob_value_release(value);
    OK(mob_get(large, PATIENCE, &value));
    OK(mob_value_data(value, &data, &size));
    assert_memory_equal(data, text, sizeof text);
    mob_value_release(value);
    OK(mob_flush(client, PATIENCE));
    mob_release(small);
    mob_release(large);
    mob_release(sum);
}

static void a_put_without_a_copy(void **state)
{
    (void)state;
    struct mob_put_buffer *buffer;
    struct mob_future *future;
    struct mob_value *value;
    const void *bytes;
    size_t size;
    void *data;
    OK(mob_put_begin(client, 200000, &data, &buffer));
    memset(data, 7, 200000);
    OK(mob_put_finish(buffer, &future));
    OK(mob_get(future, PATIENCE, &value));
    OK(mob_value_data(value, &bytes, &size));
    assert_int_equal(size, 200000);
    assert_int_equal(((const uint8_t *)bytes)[199999], 7);
    mob_value_release(value);
    mob_release(future);
    OK(mob_put_begin(client, 200000, &data, &buffer));
    mob_put_abort(buffer);
}

static void a_promise_is_waited_for(void **state)
{
    (void)state;
    struct mob_future *promise, *sum;
    int64_t v;
    OK(mob_promise(client, &promise));
    OK(mob_submit(client, "probe.sum_all", MOB_ARGS(mob_ref(promise), mob_i64(1)), NULL, &sum));
    FAILS(mob_get_i64(sum, SECONDS / 20, &v), MOB_TIMEOUT);
    FAILS(mob_fulfil(sum, mob_i64(7)), MOB_INVALID); /* what a task returns is not anybody's to give */
    OK(mob_fulfil(promise, mob_i64(9)));
    FAILS(mob_fulfil(promise, mob_i64(8)), MOB_FINISHED);
    OK(mob_get_i64(sum, PATIENCE, &v));
    assert_int_equal(v, 10);
    mob_release(promise);
    mob_release(sum);
}

static void several_returns_are_several_futures(void **state)
{
    (void)state;
    enum { N = 3000 };
    static struct mob_future *futures[N];
    struct mob_submit_options options = {.struct_size = sizeof options, .num_returns = N};
    OK(mob_submit(client, "probe.many", MOB_ARGS(mob_i64(N)), &options, futures));
    for (int64_t i = 0; i < N; i++) {
        int64_t v;
        OK(mob_get_i64(futures[i], PATIENCE, &v));
        assert_int_equal(v, i * i);
        mob_release(futures[i]);
    }
}

/* As of tasks. What cannot be is refused, and is no call. */
static void a_call_gives_as_many_returns_as_are_wanted(void **state)
{
    (void)state;
    enum { N = 40 };
    struct mob_future *futures[N] = {NULL};
    struct mob_actor *actor;
    struct mob_submit_options options = {.struct_size = sizeof options, .num_returns = N};
    int64_t v;
    OK(mob_actor_create(client, "probe.Account", MOB_ARGS(mob_i64(7)), NULL, &actor));
    OK(mob_actor_call(actor, "many", MOB_ARGS(mob_i64(N)), &options, futures));
    for (int64_t i = 0; i < N; i++) {
        OK(mob_get_i64(futures[i], PATIENCE, &v));
        assert_int_equal(v, i * i);
        mob_release(futures[i]);
    }
    FAILS(mob_actor_call(actor, "add", MOB_ARGS(mob_i64(1)), &options, futures), MOB_INVALID);
    assert_non_null(strstr(mob_client_error(client), "i64 n -> i64"));
    options.num_returns = 1; /* as many as it has */
    OK(mob_actor_call(actor, "total", MOB_NO_ARGS, &options, futures));
    OK(mob_get_i64(futures[0], PATIENCE, &v));
    assert_int_equal(v, 7);
    mob_release(futures[0]);
    OK(mob_actor_kill(actor, true));
    mob_actor_release(actor);
}

static void a_call_refuses_what_only_tasks_can_have(void **state)
{
    (void)state;
    struct mob_actor *actor;
    struct mob_future *future;
    const struct mob_resource gpu = {"GPU", 1};
    const struct {
        const char *field;
        struct mob_submit_options options;
    } rows[] = {{"cpus", {.cpus = 2}}, {"resources", {.resources = &gpu, .resource_count = 1}},
        {"retry_on_error", {.retry_on_error = true}}, {"deterministic", {.deterministic = true}},
        {"restart_on_divergence", {.restart_on_divergence = true}}};
    OK(mob_actor_create(client, "probe.Account", MOB_ARGS(mob_i64(7)), NULL, &actor));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mob_submit_options options = rows[i].options;
        options.struct_size = sizeof options;
        FAILS(mob_actor_call(actor, "add", MOB_ARGS(mob_i64(1)), &options, &future), MOB_INVALID);
        assert_non_null(strstr(mob_client_error(client), rows[i].field));
    }
    int64_t v;
    OK(mob_actor_call(actor, "total", MOB_NO_ARGS, NULL, &future));
    OK(mob_get_i64(future, PATIENCE, &v));
    assert_int_equal(v, 7);
    mob_release(future);
    OK(mob_actor_kill(actor, true));
    mob_actor_release(actor);
}

/* Each is small enough to travel with the completion, all together are not. */
static void many_returns_of_some_hundred_bytes(void **state)
{
    (void)state;
    enum { N = 1000, BYTES = 900 };
    static struct mob_future *futures[N];
    struct mob_submit_options options = {.struct_size = sizeof options, .num_returns = N};
    OK(mob_submit(client, "probe.many_texts", MOB_ARGS(mob_i64(N), mob_i64(BYTES)), &options, futures));
    for (int i = 0; i < N; i++) {
        struct mob_value *value;
        const void *data;
        size_t size;
        char expected[BYTES + 1];
        snprintf(expected, sizeof expected, "%0*d", BYTES, i);
        OK(mob_get(futures[i], PATIENCE, &value));
        OK(mob_value_data(value, &data, &size));
        assert_int_equal(size, BYTES);
        assert_memory_equal(data, expected, BYTES);
        mob_value_release(value);
        mob_release(futures[i]);
    }
}

static void ten_thousand_references_are_arguments(void **state)
{
    (void)state;
    enum { N = 10000 };
    static struct mob_future *futures[N];
    static struct mob_arg args[N];
    struct mob_future *sum;
    int64_t v;
    for (int i = 0; i < N; i++) {
        OK(mob_put(client, mob_i64(i), &futures[i]));
        args[i] = mob_ref(futures[i]);
    }
    OK(mob_submit(client, "probe.sum_all", (struct mob_args){args, N}, NULL, &sum));
    OK(mob_get_i64(sum, PATIENCE, &v));
    assert_int_equal(v, (int64_t)N * (N - 1) / 2);
    for (int i = 0; i < N; i++)
        mob_release(futures[i]);
    mob_release(sum);
}

static void a_generator_gives_items_one_by_one(void **state)
{
    (void)state;
    struct mob_future *stream, *item;
    OK(mob_submit(client, "probe.counts", MOB_ARGS(mob_i64(50)), NULL, &stream));
    for (int64_t i = 0; i < 50; i++) {
        int64_t v;
        OK(mob_stream_next(stream, PATIENCE, &item));
        OK(mob_get_i64(item, PATIENCE, &v));
        assert_int_equal(v, i * 10);
        mob_release(item);
    }
    FAILS(mob_stream_next(stream, PATIENCE, &item), MOB_NOT_FOUND);
    mob_release(stream);
}

static void a_generator_that_fails_gives_its_items_first(void **state)
{
    (void)state;
    struct mob_future *stream, *item;
    OK(mob_submit(client, "probe.counts_down", MOB_ARGS(mob_i64(5), mob_i64(1), mob_i64(10)), NULL, &stream));
    for (int i = 0; i < 5; i++) {
        struct mob_value *value;
        assert_string_equal(mob_future_error(stream), "{}"); /* items come before it */
        OK(mob_stream_next(stream, PATIENCE, &item));
        OK(mob_get(item, PATIENCE, &value));
        mob_value_release(value);
        mob_release(item);
    }
    FAILS(mob_stream_next(stream, PATIENCE, &item), MOB_TASK_FAILED);
    assert_non_null(strstr(mob_client_error(client), "nothing is left of 5"));
    assert_non_null(strstr(mob_future_error(stream), "\"code\":\"task-failed\""));
    assert_non_null(strstr(mob_future_error(stream), "nothing is left of 5"));
    FAILS(mob_stream_next(stream, PATIENCE, &item), MOB_TASK_FAILED);
    mob_release(stream);
}

static void note_end(struct mob_future *stream, void *arg)
{
    *(struct mob_future **)arg = stream;
}

/* A stream is no value, and what stands behind its last item is none: who needs it is told so. */
static void what_a_stream_does_not_give_is_no_argument(void **state)
{
    (void)state;
    struct mob_future *stream, *item, *future;
    char id[MOB_TEXT_ID_MAX];
    int64_t v;
    OK(mob_submit(client, "probe.counts", MOB_ARGS(mob_i64(0)), NULL, &stream));
    FAILS(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_ref(stream)), NULL, &future), MOB_INVALID);
    FAILS(mob_put(client, mob_ref(stream), &future), MOB_INVALID);
    mob_future_id(stream, id); /* of its first item */
    OK(mob_future_from_id(client, id, &item));
    OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_ref(item)), NULL, &future));
    FAILS(mob_get_i64(future, PATIENCE, &v), MOB_DEPENDENCY_FAILED);
    FAILS(mob_get_i64(item, PATIENCE, &v), MOB_NOT_FOUND);
    mob_release(future);
    mob_release(item);
    mob_release(stream);
}

/* Its future is ready when the generator has ended, whether or not anybody took the items. */
static void the_end_of_a_stream_is_waited_for(void **state)
{
    (void)state;
    struct mob_future *first, *second, *ended = NULL, *ready;
    struct mob_waitset *set;
    OK(mob_submit(client, "probe.counts_down", MOB_ARGS(mob_i64(20), mob_i64(1), mob_i64(1)), NULL, &first));
    OK(mob_submit(client, "probe.counts", MOB_ARGS(mob_i64(300)), NULL, &second));
    OK(mob_on_ready(first, note_end, &ended));
    OK(mob_waitset_create(client, &set));
    OK(mob_waitset_add(set, second));
    OK(mob_waitset_next(set, PATIENCE, &ready));
    assert_ptr_equal(ready, second);
    for (int i = 0; !ended && i < 30000; i++) {
        mob_client_step(client);
        usleep(1000);
    }
    assert_ptr_equal(ended, first);
    OK(mob_stream_next(second, 0, &ready)); /* the items are there */
    mob_release(ready);
    mob_waitset_destroy(set);
    mob_release(first);
    mob_release(second);
}

/* ---- errors ---- */

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    struct mob_future *future;
    FAILS(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_utf8("x")), NULL, &future), MOB_TYPE_MISMATCH);
    assert_non_null(strstr(mob_client_error(client), "v"));
    FAILS(mob_submit(client, "probe.echo_i64", MOB_NO_ARGS, NULL, &future), MOB_TYPE_MISMATCH);
    FAILS(mob_submit(client, "probe.no_such", MOB_NO_ARGS, NULL, &future), MOB_NOT_FOUND);
    FAILS(mob_future_from_id(client, "obj_?", &future), MOB_INVALID);
}

/* Over 1 KiB they go by reference, which fits every type. */
static void a_large_tensor_is_checked_when_it_is_submitted(void **state)
{
    (void)state;
    static float x[400 * 4];
    struct mob_future *future;
    struct mob_tensor wide = {.dtype = MOB_F64, .dims = 1, .shape = {800}, .data = x};
    FAILS(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_tensor_f32(x, 400, 4)), NULL, &future),
        MOB_TYPE_MISMATCH);
    assert_string_equal(mob_client_error(client), "argument 0 (v): expected i64, found tensor");
    FAILS(mob_submit(client, "probe.scale", MOB_ARGS(mob_tensor(wide), mob_f64(1)), NULL, &future),
        MOB_TYPE_MISMATCH);
    assert_string_equal(
        mob_client_error(client), "argument 0 (x): expected tensor<f32>, found tensor<f64>[800]");
    FAILS(mob_submit(client, "probe.rows", MOB_ARGS(mob_tensor_f32(x, 400, 4), mob_tensor_f32(x, 399, 0)),
              NULL, &future),
        MOB_TYPE_MISMATCH);
    assert_string_equal(
        mob_client_error(client), "argument 1 (w): expected tensor<f32>[n] n=400, found tensor<f32>[399]");
    assert_int_equal(
        call_i64("probe.rows", MOB_ARGS(mob_tensor_f32(x, 400, 4), mob_tensor_f32(x, 400, 0))), 400);
}

static void assert_refused_when_known(struct mob_future *future, const char *words)
{
    struct mob_value *value;
    FAILS(mob_get(future, PATIENCE, &value), MOB_TYPE_MISMATCH);
    if (strstr(mob_future_error(future), words) == NULL)
        fail_msg("%s does not say %s", mob_future_error(future), words);
    mob_release(future);
}

/* What a reference stands for is known where the task runs: its function does not begin with anything else
 * than it declares. */
static void what_a_reference_stands_for_is_checked_too(void **state)
{
    (void)state;
    static float x[400 * 3];
    struct mob_future *text, *matrix, *few, *future;
    OK(mob_put(client, mob_utf8("not a number"), &text));
    OK(mob_put(client, mob_tensor_f32(x, 400, 3), &matrix));
    OK(mob_put(client, mob_tensor_f32(x, 2, 3), &few));
    OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_ref(text)), NULL, &future));
    assert_refused_when_known(future, "argument 0 (v): expected i64, found utf8");
    OK(mob_submit(client, "probe.rows", MOB_ARGS(mob_ref(matrix), mob_tensor_f32(x, 400, 0)), NULL, &future));
    assert_refused_when_known(
        future, "argument 0 (x): expected tensor<f32>[n,4] n=400, found tensor<f32>[400,3]");
    OK(mob_submit(client, "probe.scale", MOB_ARGS(mob_ref(few), mob_f64(2)), NULL, &future));
    mob_release(text);
    text = future; /* a future of a task, as well as what was put */
    OK(mob_submit(client, "probe.rows", MOB_ARGS(mob_ref(text), mob_tensor_f32(x, 2, 0)), NULL, &future));
    assert_refused_when_known(future, "expected tensor<f32>[n,4] n=2, found tensor<f32>[2,3]");
    struct mob_arg many[300];
    for (size_t i = 0; i < 300; i++)
        many[i] = i == 299 ? mob_ref(matrix) : mob_i64(1); /* on a page of arguments */
    OK(mob_submit(client, "probe.sum_all", (struct mob_args){many, 300}, NULL, &future));
    assert_refused_when_known(future, "argument 299: expected i64, found tensor");
    mob_release(text);
    mob_release(matrix);
    mob_release(few);
}

static void a_failed_task_tells_its_reason(void **state)
{
    (void)state;
    struct mob_future *future, *next;
    int64_t v;
    OK(mob_submit(client, "probe.fails", MOB_ARGS(mob_i64(7)), NULL, &future));
    FAILS(mob_get_i64(future, PATIENCE, &v), MOB_TASK_FAILED);
    assert_string_equal(mob_client_error(client), "asked to fail with 7");
    assert_non_null(strstr(mob_future_error(future), "\"message\":\"asked to fail with 7\""));
    OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_ref(future)), NULL, &next));
    FAILS(mob_get_i64(next, PATIENCE, &v), MOB_DEPENDENCY_FAILED);
    assert_non_null(strstr(mob_future_error(next), "asked to fail with 7"));
    mob_release(future);
    mob_release(next);
    OK(mob_submit(client, "probe.returns_text", MOB_NO_ARGS, NULL, &future));
    FAILS(mob_get_i64(future, PATIENCE, &v), MOB_TYPE_MISMATCH);
    mob_release(future);
}

static void a_crash_costs_one_worker_and_is_told(void **state)
{
    (void)state;
    struct mob_submit_options once = {.struct_size = sizeof once, .max_retries = MOB_NO_RETRY};
    struct mob_future *future;
    int64_t v;
    OK(mob_submit(client, "probe.crashes", MOB_NO_ARGS, &once, &future));
    FAILS(mob_get_i64(future, PATIENCE, &v), MOB_WORKER_DIED);
    const char *error = mob_future_error(future);
    assert_non_null(strstr(error, "\"signal\":11"));
    assert_non_null(strstr(error, "about to crash"));
    mob_release(future);
    OK(mob_submit(client, "probe.exits", MOB_ARGS(mob_i64(3)), &once, &future));
    FAILS(mob_get_i64(future, PATIENCE, &v), MOB_WORKER_DIED);
    mob_release(future);
    assert_int_equal(call_i64("probe.echo_i64", MOB_ARGS(mob_i64(1))), 1);
}

/* `worker-memory-bytes` ends it, not the machine's memory. */
static void endless_allocation_costs_one_worker(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* no limit with sanitizers */
#endif
    struct mob_submit_options once = {.struct_size = sizeof once, .max_retries = MOB_NO_RETRY};
    struct mob_future *future;
    int64_t v;
    OK(mob_submit(client, "probe.devours", MOB_NO_ARGS, &once, &future));
    FAILS(mob_get_i64(future, PATIENCE, &v), MOB_WORKER_DIED);
    assert_non_null(strstr(mob_future_error(future), "\"signal\":11"));
    assert_non_null(strstr(mob_future_error(future), "about to take all memory"));
    mob_release(future);
    assert_int_equal(call_i64("probe.echo_i64", MOB_ARGS(mob_i64(1))), 1);
}

static void a_running_task_is_cancelled(void **state)
{
    (void)state;
    struct mob_future *future;
    int64_t v;
    OK(mob_submit(client, "probe.sleeps", MOB_ARGS(mob_i64(20000)), NULL, &future));
    FAILS(mob_get_i64(future, SECONDS / 5, &v), MOB_TIMEOUT);
    assert_false(mob_ready(future));
    OK(mob_cancel(future, false));
    FAILS(mob_get_i64(future, PATIENCE, &v), MOB_CANCELLED);
    mob_release(future);
}

/* The root ends at once with the future of another task, whose inputs grow for ever. */
static void cancel_follows_tail_calls(void **state)
{
    (void)state;
    struct mob_future *future;
    int64_t v;
    OK(mob_submit(client, "probe.tree", MOB_ARGS(mob_i64(100)), NULL, &future));
    FAILS(mob_get_i64(future, SECONDS / 2, &v), MOB_TIMEOUT);
    OK(mob_cancel(future, false));
    FAILS(mob_get_i64(future, PATIENCE, &v), MOB_CANCELLED);
    mob_release(future);
    assert_int_equal(call_i64("probe.tree", MOB_ARGS(mob_i64(5))), 32); /* nothing is in its way */
}

/* ---- waiting ---- */

static void wait_gives_the_first_of_many(void **state)
{
    (void)state;
    struct mob_future *futures[3];
    bool ready[3];
    size_t count;
    OK(mob_submit(client, "probe.sleeps", MOB_ARGS(mob_i64(2000)), NULL, &futures[0]));
    OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(1)), NULL, &futures[1]));
    OK(mob_submit(client, "probe.sleeps", MOB_ARGS(mob_i64(2000)), NULL, &futures[2]));
    OK(mob_wait(futures, 3, 1, PATIENCE, ready, &count));
    assert_int_equal(count, 1);
    assert_true(ready[1]);
    OK(mob_wait(futures, 3, 3, SECONDS / 20, ready, &count));
    assert_int_equal(count, 1);
    OK(mob_cancel(futures[0], true));
    OK(mob_cancel(futures[2], true));
    OK(mob_wait(futures, 3, 3, PATIENCE, ready, &count));
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++)
        mob_release(futures[i]);
}

/* More than the ring holds watches of: what becomes known while they are sent counts, too. */
static void wait_counts_many_that_ended_before(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    static struct mob_future *futures[MANY];
    static bool ready[MANY];
    char id[MOB_TEXT_ID_MAX];
    size_t count;
    for (int i = 0; i < MANY; i++)
        OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i)), NULL, &futures[i]));
    OK(mob_wait(futures, MANY, MANY, PATIENCE, ready, &count));
    for (int i = 0; i < MANY; i++) {
        mob_future_id(futures[i], id);
        mob_release(futures[i]);
        OK(mob_future_from_id(client, id, &futures[i]));
    }
    OK(mob_wait(futures, MANY, MANY, MOB_FOREVER, ready, &count));
    assert_int_equal(count, MANY);
    for (int i = 0; i < MANY; i++)
        mob_release(futures[i]);
}

static void a_future_that_is_given_twice_counts_twice(void **state)
{
    (void)state;
    struct mob_future *futures[3];
    bool ready[3];
    size_t count;
    OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(1)), NULL, &futures[0]));
    OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(2)), NULL, &futures[1]));
    futures[2] = futures[0];
    OK(mob_wait(futures, 3, 3, MOB_FOREVER, ready, &count));
    assert_int_equal(count, 3);
    mob_release(futures[0]);
    mob_release(futures[1]);
}

static void a_wait_set_gives_each_future_once(void **state)
{
    (void)state;
    enum { N = 2000 };
    struct mob_waitset *set;
    struct mob_future *future;
    int64_t sum = 0, v;
    OK(mob_waitset_create(client, &set));
    for (int i = 0; i < N; i++) {
        OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i)), NULL, &future));
        OK(mob_waitset_add(set, future));
    }
    for (int i = 0; i < N; i++) {
        OK(mob_waitset_next(set, PATIENCE, &future));
        OK(mob_get_i64(future, 0, &v));
        sum += v;
        mob_release(future);
    }
    FAILS(mob_waitset_next(set, PATIENCE, &future), MOB_NOT_FOUND);
    assert_int_equal(sum, (int64_t)N * (N - 1) / 2);
    mob_waitset_destroy(set);
}

/* With what it holds: a leak of it fails this program where leaks are looked for. */
static void a_wait_set_goes_with_its_client(void **state)
{
    (void)state;
    struct mob_client *mine = driver_connect(NULL);
    struct mob_waitset *set;
    struct mob_future *futures[2], *ready;
    driver_assert_ok(mine, mob_waitset_create(mine, &set), "create", __LINE__);
    for (int i = 0; i < 2; i++) {
        driver_assert_ok(mine, mob_submit(mine, "probe.echo_i64", MOB_ARGS(mob_i64(i)), NULL, &futures[i]),
            "submit", __LINE__);
        driver_assert_ok(mine, mob_waitset_add(set, futures[i]), "add", __LINE__);
    }
    driver_assert_ok(mine, mob_waitset_next(set, PATIENCE, &ready), "next", __LINE__);
    mob_disconnect(mine);
}

static void count_ready(struct mob_future *future, void *arg)
{
    int64_t v;
    if (mob_get_i64(future, 0, &v) == MOB_OK)
        *(int64_t *)arg += v;
    mob_release(future);
}

static void an_event_loop_is_woken_by_the_fd(void **state)
{
    (void)state;
    struct mob_client *loop;
    struct mob_future *future;
    int64_t sum = 0;
    assert_int_equal(mob_connect(NULL, &loop), MOB_OK);
    int fd = mob_client_fd(loop);
    assert_true(fd >= 0);
    for (int i = 1; i <= 100; i++) {
        assert_int_equal(mob_submit(loop, "probe.echo_i64", MOB_ARGS(mob_i64(i)), NULL, &future), MOB_OK);
        assert_int_equal(mob_on_ready(future, count_ready, &sum), MOB_OK);
        assert_true(sum < 5050);
    }
    while (sum < 5050) {
        struct pollfd p = {fd, POLLIN, 0};
        assert_int_equal(poll(&p, 1, 30000), 1);
        mob_client_step(loop);
    }
    assert_int_equal(sum, 5050);
    mob_disconnect(loop);
}

/* ---- nested ---- */

static void tasks_submit_tasks(void **state)
{
    (void)state;
    assert_int_equal(call_i64("probe.nested_sum", MOB_ARGS(mob_i64(500))), 500 * 501 / 2);
    assert_int_equal(call_i64("probe.deep", MOB_ARGS(mob_i64(30))), 31);
    assert_int_equal(call_i64("probe.tree", MOB_ARGS(mob_i64(8))), 256);
    assert_int_equal(call_i64("probe.in_any_order", MOB_NO_ARGS), 99 * 100 / 2);
    assert_true(call_i64("probe.first_of", MOB_ARGS(mob_i64(3))) >= 3);
    assert_int_equal(call_i64("probe.reports", MOB_NO_ARGS), 1);
}

static void a_task_may_return_what_it_put(void **state)
{
    (void)state;
    struct mob_future *future;
    struct mob_value *value;
    const void *data;
    size_t size;
    OK(mob_submit(client, "probe.puts_value", MOB_NO_ARGS, NULL, &future));
    OK(mob_get(future, PATIENCE, &value));
    OK(mob_value_data(value, &data, &size));
    assert_int_equal(size, 4096);
    assert_int_equal(((const char *)data)[4095], 'p');
    mob_value_release(value);
    mob_release(future);
}

static void a_task_knows_its_id(void **state)
{
    (void)state;
    struct mob_future *future;
    struct mob_value *value;
    const void *data;
    size_t size;
    char id[MOB_TEXT_ID_MAX];
    OK(mob_submit(client, "probe.about", MOB_NO_ARGS, NULL, &future));
    mob_future_task_id(future, id);
    OK(mob_get(future, PATIENCE, &value));
    OK(mob_value_data(value, &data, &size));
    assert_int_equal(size, strlen(id));
    assert_memory_equal(data, id, size);
    mob_value_release(value);
    mob_release(future);
}

/* ---- actors ---- */

static void an_actor_keeps_its_state_and_order(void **state)
{
    (void)state;
    struct mob_actor *actor;
    struct mob_future *futures[200], *sum;
    int64_t v;
    OK(mob_actor_create(client, "probe.Account", MOB_ARGS(mob_i64(1000)), NULL, &actor));
    for (int i = 0; i < 200; i++)
        OK(mob_actor_call(actor, "add", MOB_ARGS(mob_i64(i)), NULL, &futures[i]));
    int64_t expected = 1000;
    for (int i = 0; i < 200; i++) {
        expected += i;
        OK(mob_get_i64(futures[i], PATIENCE, &v));
        assert_int_equal(v, expected);
        mob_release(futures[i]);
    }
    OK(mob_submit(client, "probe.calls_actor", MOB_ARGS(mob_actor_handle(actor), mob_i64(50)), NULL, &sum));
    OK(mob_get_i64(sum, PATIENCE, &v));
    assert_int_equal(v, expected + 50);
    FAILS(mob_actor_call(actor, "no_such", MOB_NO_ARGS, NULL, &sum), MOB_NOT_FOUND);
    OK(mob_actor_kill(actor, true));
    mob_actor_release(actor);
}

static void a_named_actor_is_found(void **state)
{
    (void)state;
    struct mob_actor_options options = {.struct_size = sizeof options, .name = "the account"};
    struct mob_actor *actor, *found;
    struct mob_future *future, *created;
    int64_t v;
    OK(mob_actor_create(client, "probe.Account", MOB_ARGS(mob_i64(5)), &options, &actor));
    OK(mob_actor_created(actor, &created));
    struct mob_value *value;
    OK(mob_get(created, PATIENCE, &value));
    assert_string_equal(mob_value_type(value), "null");
    mob_value_release(value);
    FAILS(mob_actor_create(client, "probe.Account", MOB_ARGS(mob_i64(5)), &options, &found), MOB_EXISTS);
    OK(mob_actor_find(client, "the account", &found));
    OK(mob_actor_call(found, "total", MOB_NO_ARGS, NULL, &future));
    OK(mob_get_i64(future, PATIENCE, &v));
    assert_int_equal(v, 5);
    mob_release(future);
    FAILS(mob_actor_find(client, "nobody", &found), MOB_NOT_FOUND);
    OK(mob_actor_kill(actor, true));
}

static void an_actor_comes_back_with_its_state(void **state)
{
    (void)state;
    struct mob_actor_options options = {
        .struct_size = sizeof options, .max_restarts = 3, .checkpoint_every = 3};
    struct mob_actor *actor;
    struct mob_future *future;
    int64_t v;
    OK(mob_actor_create(client, "probe.Account", MOB_ARGS(mob_i64(0)), &options, &actor));
    for (int i = 0; i < 10; i++) {
        OK(mob_actor_call(actor, "add", MOB_ARGS(mob_i64(1)), NULL, &future));
        OK(mob_get_i64(future, PATIENCE, &v));
        assert_int_equal(v, i + 1);
        mob_release(future);
    }
    char json[64], id[MOB_TEXT_ID_MAX], *text;
    mob_actor_id(actor, id);
    OK(mob_query(client, "actor", id, PATIENCE, &text));
    const char *pid = strstr(text, "\"pid\":");
    snprintf(json, sizeof json, "%.20s", pid == NULL ? "" : pid);
    free(text);
    int number = 0;
    if (sscanf(json, "\"pid\":%d", &number) == 1 && number > 1)
        assert_int_equal(kill(number, SIGKILL), 0);
    OK(mob_actor_call(actor, "add", MOB_ARGS(mob_i64(1)), NULL, &future));
    OK(mob_get_i64(future, PATIENCE, &v));
    assert_int_equal(v, 11);
    mob_release(future);
    OK(mob_actor_kill(actor, true));
}

static void a_failed_constructor_is_told(void **state)
{
    (void)state;
    struct mob_actor *actor;
    struct mob_future *created;
    struct mob_value *value;
    OK(mob_actor_create(client, "probe.Account", MOB_ARGS(mob_i64(-1)), NULL, &actor));
    OK(mob_actor_created(actor, &created));
    FAILS(mob_get(created, PATIENCE, &value), MOB_TASK_FAILED);
    mob_release(created);
}

/* ---- questions ---- */

static void a_job_has_the_weight_that_its_driver_gives_it(void **state)
{
    (void)state;
    struct mob_connect_options options = {
        .struct_size = sizeof options, .directory = box.directory, .job_name = "weighed", .job_weight = 1001};
    struct mob_client *other;
    FAILS(mob_connect(&options, &other), MOB_INVALID);
    assert_non_null(strstr(mob_connect_error(), "1 to 1000"));
    options.job_weight = 7;
    OK(mob_connect(&options, &other));
    char id[MOB_TEXT_ID_MAX], expected[128], *jobs = NULL;
    mob_client_job(other, id);
    OK(mob_query(client, "job", "{\"op\":\"list\"}", PATIENCE, &jobs));
    const char *at = strstr(jobs, id);
    assert_non_null(at);
    snprintf(expected, sizeof expected, "\"weight\":7,");
    const char *weight = strstr(at, "\"weight\":");
    assert_non_null(weight);
    assert_memory_equal(weight, expected, strlen(expected));
    free(jobs);
    mob_disconnect(other);
}

static void questions_are_answered(void **state)
{
    (void)state;
    char *json;
    OK(mob_query(client, "stats", NULL, PATIENCE, &json));
    assert_int_equal(json[0], '{');
    free(json);
    FAILS(mob_query(client, "the weather", NULL, PATIENCE, &json), MOB_NOT_FOUND);
    FAILS(mob_query(client, "task", "no id", PATIENCE, &json), MOB_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demands_of_thousands_of_kinds_run),
        cmocka_unit_test(scalars_come_back),
        cmocka_unit_test(texts_and_bytes_of_any_size_come_back),
        cmocka_unit_test(tensors_of_texts_have_elements_of_any_length),
        cmocka_unit_test(tensors_are_read_in_place),
        cmocka_unit_test(a_result_written_in_place_is_large),
        cmocka_unit_test(puts_are_read_back_and_passed_on),
        cmocka_unit_test(a_put_without_a_copy),
        cmocka_unit_test(a_promise_is_waited_for),
        cmocka_unit_test(several_returns_are_several_futures),
        cmocka_unit_test(a_call_gives_as_many_returns_as_are_wanted),
        cmocka_unit_test(a_call_refuses_what_only_tasks_can_have),
        cmocka_unit_test(many_returns_of_some_hundred_bytes),
        cmocka_unit_test(ten_thousand_references_are_arguments),
        cmocka_unit_test(a_generator_gives_items_one_by_one),
        cmocka_unit_test(a_generator_that_fails_gives_its_items_first),
        cmocka_unit_test(the_end_of_a_stream_is_waited_for),
        cmocka_unit_test(what_a_stream_does_not_give_is_no_argument),
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(a_large_tensor_is_checked_when_it_is_submitted),
        cmocka_unit_test(what_a_reference_stands_for_is_checked_too),
        cmocka_unit_test(a_failed_task_tells_its_reason),
        cmocka_unit_test(a_crash_costs_one_worker_and_is_told),
        cmocka_unit_test(endless_allocation_costs_one_worker),
        cmocka_unit_test(a_running_task_is_cancelled),
        cmocka_unit_test(cancel_follows_tail_calls),
        cmocka_unit_test(wait_gives_the_first_of_many),
        cmocka_unit_test(a_future_that_is_given_twice_counts_twice),
        cmocka_unit_test(wait_counts_many_that_ended_before),
        cmocka_unit_test(a_wait_set_gives_each_future_once),
        cmocka_unit_test(a_wait_set_goes_with_its_client),
        cmocka_unit_test(an_event_loop_is_woken_by_the_fd),
        cmocka_unit_test(tasks_submit_tasks),
        cmocka_unit_test(a_task_may_return_what_it_put),
        cmocka_unit_test(a_task_knows_its_id),
        cmocka_unit_test(an_actor_keeps_its_state_and_order),
        cmocka_unit_test(a_named_actor_is_found),
        cmocka_unit_test(an_actor_comes_back_with_its_state),
        cmocka_unit_test(a_failed_constructor_is_told),
        cmocka_unit_test(a_job_has_the_weight_that_its_driver_gives_it),
        cmocka_unit_test(questions_are_answered),
    };
    return cmocka_run_group_tests_name("sdk_api", tests, set_up, tear_down);
}
