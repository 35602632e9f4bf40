#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sdk/c/call.h"
#include "tests/support/fake_node.h"

static struct fake_node node;
static struct mob_client *client;
static const struct mob_function *same;

static int set_up(void **state)
{
    (void)state;
    fake_node_open(&node, MOB_CLIENT_DRIVER, 1u << 20);
    client = fake_node_driver(&node);
    same = fake_function(client, "same", "i64 v -> i64");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fake_node_close(&node);
    return 0;
}

static struct mob_future *submit(int64_t v)
{
    struct mob_future *future = NULL;
    assert_int_equal(mob_submit_function(client, same, MOB_ARGS(mob_i64(v)), NULL, &future), MOB_OK);
    return future;
}

static void drain(void)
{
    while (fake_node_take(&node)) {
    }
}

static int64_t get(struct mob_future *future)
{
    int64_t v = -1;
    assert_int_equal(mob_get_i64(future, 0, &v), MOB_OK);
    return v;
}

static void a_notice_settles_the_future_of_its_child(void **state)
{
    (void)state;
    struct mob_future *a = submit(1), *b = submit(2);
    int64_t v;
    assert_int_equal(mob_get_i64(b, 0, &v), MOB_TIMEOUT);
    fake_node_ready_i64(&node, mob_future_object(b), 20);
    assert_int_equal(get(b), 20);
    assert_int_equal(mob_get_i64(a, 0, &v), MOB_TIMEOUT);
    fake_node_ready_i64(&node, mob_future_object(b), 30); /* told twice: the first stands */
    fake_node_ready_i64(&node, mob_future_object(a), 10);
    assert_int_equal(get(a), 10);
    assert_int_equal(get(b), 20);
}

static void handles_cost_16_bytes_and_come_back(void **state)
{
    (void)state;
    enum { ROUNDS = 40, WINDOW = 2500 };
    static struct mob_future *futures[WINDOW];
    uint32_t regions = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WINDOW; i++) {
            futures[i] = submit(i);
            if (i % 500 == 0)
                drain();
        }
        drain();
        for (int i = 0; i < WINDOW; i++) {
            fake_node_ready_i64(&node, mob_future_object(futures[i]), i);
            assert_int_equal(get(futures[i]), i);
            mob_release(futures[i]);
        }
        if (round == 0)
            regions = client->region_count;
    }
    assert_int_equal(client->region_count, regions); /* chunks are used again */
    assert_int_equal((uint8_t *)(futures[1]) - (uint8_t *)(futures[0]), 16);
}

static void notices_for_released_futures_are_ignored(void **state)
{
    (void)state;
    struct mob_future *a = submit(1), *b = submit(2);
    struct mob_object_id id = mob_future_object(a);
    mob_release(a);
    fake_node_ready_i64(&node, id, 5);
    id.task.index = 1000000;
    fake_node_ready_i64(&node, id, 5);
    fake_node_ready_i64(&node, mob_future_object(b), 6);
    assert_int_equal(get(b), 6);
}

static void larger_results_are_copied_out_of_the_ring(void **state)
{
    (void)state;
    struct mob_future *future = submit(1);
    struct mob_value *value, *again;
    const void *data;
    size_t size;
    char text[300];
    memset(text, 'q', sizeof text);
    fake_node_ready(&node, mob_future_object(future), MOB_OK, MOB_TYPE_UTF8, text, sizeof text);
    assert_int_equal(mob_get(future, 0, &value), MOB_OK);
    assert_int_equal(mob_get(future, 0, &again), MOB_OK);
    mob_release(future); /* the values stay */
    mob_value_release(again);
    assert_int_equal(mob_value_data(value, &data, &size), MOB_OK);
    assert_int_equal(size, sizeof text);
    assert_memory_equal(data, text, size);
    mob_value_release(value);
}

static void an_error_is_told_with_its_causes(void **state)
{
    (void)state;
    struct mob_future *future = submit(1);
    uint8_t cause[256], error[512];
    struct mob_error_link inner = {.status = MOB_WORKER_DIED,
        .message = "killed",
        .message_bytes = 6,
        .detail = "last \"line\"\n",
        .detail_bytes = 12,
        .signal = 9};
    struct mob_error_link outer = {
        .status = MOB_DEPENDENCY_FAILED, .message = "an input", .message_bytes = 8};
    uint32_t cause_bytes = mob_error_encode(cause, sizeof cause, &inner, NULL, 0);
    uint32_t bytes = mob_error_encode(error, sizeof error, &outer, cause, cause_bytes);
    int64_t v;
    fake_node_ready(&node, mob_future_object(future), MOB_DEPENDENCY_FAILED, MOB_TYPE_ERROR, error, bytes);
    assert_int_equal(mob_get_i64(future, 0, &v), MOB_DEPENDENCY_FAILED);
    assert_string_equal(mob_client_error(client), "an input");
    const char *json = mob_future_error(future);
    assert_non_null(strstr(json, "\"cause\":{\"code\":\"worker-died\""));
    assert_non_null(strstr(json, "\"signal\":9"));
    assert_non_null(strstr(json, "\"log\":\"last \\\"line\\\"\\n\""));
}

static int64_t next_watched(struct mob_object_id id)
{
    int64_t count = 0;
    while (fake_node_take(&node))
        count += node.record.type == MOB_OUT_WATCH &&
            mob_object_id_eq(*(const struct mob_object_id *)node.body, id);
    return count;
}

/* The node's word that the control store does not answer, say, is told, and is no outcome: who asks again
 * gets what there is then. An outcome stays. */
static void what_could_not_be_looked_up_is_asked_for_again(void **state)
{
    (void)state;
    struct mob_future *future = submit(1);
    struct mob_object_id id = mob_future_object(future);
    int64_t v;
    for (int i = 0; i < 2; i++) {
        drain();
        fake_node_ready(&node, id, MOB_UNAVAILABLE, MOB_TYPE_ERROR, NULL, 0);
        assert_int_equal(mob_get_i64(future, i == 0 ? 0 : MOB_SEC, &v), MOB_UNAVAILABLE);
        assert_non_null(strstr(mob_client_error(client), "cannot be reached now"));
        assert_non_null(strstr(mob_future_error(future), "\"unavailable\""));
        assert_int_equal(next_watched(id), 0);
        assert_int_equal(mob_get_i64(future, 0, &v), MOB_TIMEOUT);
        assert_int_equal(next_watched(id), 1);
    }
    fake_node_ready_i64(&node, id, 7);
    assert_int_equal(get(future), 7);
    struct mob_future *lost = submit(2);
    fake_node_ready(&node, mob_future_object(lost), MOB_OBJECT_LOST, MOB_TYPE_ERROR, NULL, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mob_get_i64(lost, 0, &v), MOB_OBJECT_LOST);
    assert_int_equal(next_watched(mob_future_object(lost)), 0);
}

static void a_failures_words_are_read_decoded(void **state)
{
    (void)state;
    static const char said[] = "no \"gym\"\nh\xc3\xa9l\xc3\xa9";
    char words[64], few[12];
    uint8_t error[256];
    struct mob_future *future = submit(1);
    struct mob_error_link link = {
        .status = MOB_TASK_FAILED, .message = said, .message_bytes = sizeof said - 1};
    uint32_t bytes = mob_error_encode(error, sizeof error, &link, NULL, 0);
    fake_node_ready(&node, mob_future_object(future), MOB_TASK_FAILED, MOB_TYPE_ERROR, error, bytes);
    int64_t v;
    assert_int_equal(mob_get_i64(future, 0, &v), MOB_TASK_FAILED);
    const char *json = mob_future_error(future);
    assert_true(mob_json_text_field(json, "message", words, sizeof words));
    assert_string_equal(words, said);
    assert_true(mob_json_text_field(json, "message", few, sizeof few));
    assert_string_equal(few, "no \"gym\"\nh"); /* half a character is none */
    assert_false(mob_json_text_field(json, "mess", words, sizeof words));
    assert_false(mob_json_text_field(json, "signal", words, sizeof words));
}

static void a_tail_call_takes_the_other_objects_value(void **state)
{
    (void)state;
    struct mob_future *outer = submit(1), *inner = submit(2);
    struct mob_object_id other = mob_object_of((struct mob_task_id){.index = 77}, 3);
    struct mob_object_id id = mob_future_object(inner);
    fake_node_ready(&node, mob_future_object(outer), MOB_OK, MOB_TYPE_FUTURE, &id, sizeof id);
    fake_node_ready(&node, mob_future_object(inner), MOB_OK, MOB_TYPE_FUTURE, &other, sizeof other);
    assert_false(mob_ready(outer));
    bool watched = false;
    while (fake_node_take(&node))
        watched |= node.record.type == MOB_OUT_WATCH && memcmp(node.body, &other, sizeof other) == 0;
    assert_true(watched);
    fake_node_ready_i64(&node, other, 99);
    assert_int_equal(get(outer), 99);
    assert_int_equal(get(inner), 99);
}

static void a_foreign_future_is_watched_once(void **state)
{
    (void)state;
    struct mob_object_id id = mob_object_of((struct mob_task_id){.index = 5}, 1);
    char text[MOB_TEXT_ID_MAX];
    struct mob_future *a, *b;
    int64_t v;
    mob_object_id_format(id, text);
    assert_int_equal(mob_future_from_id(client, text, &a), MOB_OK);
    assert_int_equal(mob_future_from_id(client, text, &b), MOB_OK);
    assert_ptr_equal(a, b);
    assert_int_equal(mob_get_i64(a, 0, &v), MOB_TIMEOUT);
    assert_int_equal(mob_get_i64(a, 0, &v), MOB_TIMEOUT);
    assert_true(fake_node_take(&node));
    assert_int_equal(node.record.type, MOB_OUT_WATCH);
    assert_false(fake_node_take(&node));
    fake_node_ready_i64(&node, id, 8);
    assert_int_equal(get(b), 8);
    mob_release(a);
    assert_int_equal(get(b), 8);
    mob_release(b);
    assert_int_equal(client->general_count, 0);
}

static void missed_notices_are_asked_for_again(void **state)
{
    (void)state;
    struct mob_future *futures[3000];
    for (int i = 0; i < 3000; i++) {
        futures[i] = submit(i);
        if (i % 500 == 0)
            drain();
    }
    drain();
    fake_node_ready_i64(&node, mob_future_object(futures[7]), 7);
    fake_node_give(&node, MOB_IN_MISSED, NULL, 0, NULL, 0, NULL, 0);
    mob_client_pump(client);
    uint32_t asked = 0;
    while (fake_node_take(&node)) {
        assert_int_equal(node.record.type, MOB_OUT_WATCH);
        asked += node.record.aux;
    }
    assert_int_equal(asked, 2999); /* all but the one that is ready */
}

static void called(struct mob_future *future, void *arg)
{
    *(int64_t *)arg += get(future);
}

static void callbacks_run_in_step_and_not_before(void **state)
{
    (void)state;
    struct mob_future *a = submit(1), *b = submit(2);
    int64_t sum = 0;
    fake_node_ready_i64(&node, mob_future_object(a), 1);
    assert_int_equal(get(a), 1);
    assert_int_equal(mob_on_ready(a, called, &sum), MOB_OK);
    assert_int_equal(mob_on_ready(b, called, &sum), MOB_OK);
    assert_int_equal(sum, 0);
    assert_int_equal(mob_client_step(client), 0);
    assert_int_equal(sum, 1);
    fake_node_ready_i64(&node, mob_future_object(b), 40);
    assert_int_equal(mob_client_step(client), 1);
    assert_int_equal(sum, 41);
}

static void one_listener_leaves_the_others_hear(void **state)
{
    (void)state;
    struct mob_object_id id = mob_object_of((struct mob_task_id){.index = 5}, 1);
    char text[MOB_TEXT_ID_MAX];
    struct mob_future *handles[5];
    struct mob_waiter waiters[5] = {0};
    int64_t heard[5] = {0};
    mob_object_id_format(id, text);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(mob_future_from_id(client, text, &handles[i]), MOB_OK);
        assert_int_equal(mob_listen(handles[i], &waiters[i], called, &heard[i]), MOB_OK);
    }
    mob_unlisten(client, &waiters[1]); /* before it is ready */
    mob_release(handles[1]);
    fake_node_ready_i64(&node, id, 8);
    mob_client_pump(client);
    mob_unlisten(client, &waiters[0]); /* callbacks are due: the last of them, */
    mob_release(handles[0]);
    mob_unlisten(client, &waiters[3]); /* and one in the middle */
    mob_release(handles[3]);
    mob_client_step(client);
    int64_t wanted[5] = {0, 0, 8, 0, 8};
    for (int i = 0; i < 5; i++)
        assert_int_equal(heard[i], wanted[i]);
    mob_unlisten(client, &waiters[2]); /* it has heard: nothing to do */
    assert_int_equal(mob_listen(handles[2], &waiters[2], called, &heard[2]), MOB_OK);
    mob_client_step(client);
    assert_int_equal(heard[2], 16);
    mob_release(handles[2]);
    mob_release(handles[4]);
    assert_int_equal(client->general_count, 0);
}

static void wait_sets_forget_released_futures(void **state)
{
    (void)state;
    struct mob_waitset *set;
    struct mob_future *futures[4], *ready;
    assert_int_equal(mob_waitset_create(client, &set), MOB_OK);
    for (int i = 0; i < 4; i++) {
        futures[i] = submit(i);
        assert_int_equal(mob_waitset_add(set, futures[i]), MOB_OK);
    }
    fake_node_ready_i64(&node, mob_future_object(futures[2]), 2);
    fake_node_ready_i64(&node, mob_future_object(futures[0]), 0);
    mob_client_pump(client);
    mob_release(futures[2]); /* ready and not taken */
    mob_release(futures[3]); /* pending */
    assert_int_equal(mob_waitset_next(set, 0, &ready), MOB_OK);
    assert_ptr_equal(ready, futures[0]);
    assert_int_equal(mob_waitset_next(set, 0, &ready), MOB_TIMEOUT);
    fake_node_ready_i64(&node, mob_future_object(futures[1]), 1);
    assert_int_equal(mob_waitset_next(set, 0, &ready), MOB_OK);
    assert_int_equal(mob_waitset_next(set, 0, &ready), MOB_NOT_FOUND);
    futures[0] = submit(9);
    assert_int_equal(mob_waitset_add(set, futures[0]), MOB_OK);
    mob_waitset_destroy(set);
    fake_node_ready_i64(&node, mob_future_object(futures[0]), 9);
    assert_int_equal(get(futures[0]), 9);
}

static struct mob_future *submit_stream(void)
{
    struct mob_future *stream = NULL;
    const struct mob_function *f = fake_function(client, "counts", "-> stream i64");
    assert_int_equal(mob_submit_function(client, f, MOB_NO_ARGS, NULL, &stream), MOB_OK);
    return stream;
}

static void end_stream(struct mob_future *stream)
{
    struct mob_in_ready last = {.id = mob_future_object(stream), .flags = MOB_READY_LAST};
    fake_node_give(&node, MOB_IN_READY, &last, sizeof last, NULL, 0, NULL, 0);
    mob_client_pump(client);
}

static void nothing_of_a_released_future_stays_in_a_wait_set(void **state)
{
    (void)state;
    enum { N = 3000 };
    static struct mob_future *futures[N];
    struct mob_waitset *set, *other;
    int64_t sum = 0;
    assert_int_equal(mob_waitset_create(client, &set), MOB_OK);
    assert_int_equal(mob_waitset_create(client, &other), MOB_OK);
    for (int i = 0; i < N; i++) {
        futures[i] = submit(i);
        assert_int_equal(mob_waitset_add(set, futures[i]), MOB_OK);
        assert_int_equal(mob_waitset_add(other, futures[i]), MOB_OK);
        assert_int_equal(mob_on_ready(futures[i], called, &sum), MOB_OK);
        drain();
    }
    for (int i = 0; i < N / 2; i++) {
        fake_node_ready_i64(&node, mob_future_object(futures[i]), i);
        mob_client_pump(client);
    }
    for (int i = 0; i < N; i++) /* ready and not taken, then pending */
        mob_release(futures[i]);
    assert_null(set->ready_head);
    assert_null(set->members);
    assert_null(other->ready_head);
    assert_null(client->ready_head);
    assert_ptr_equal(set->ready_tail, &set->ready_head);
    mob_client_step(client);
    assert_int_equal(sum, 0);
    mob_waitset_destroy(set);
    mob_waitset_destroy(other);
}

static void a_destroyed_wait_set_leaves_its_futures(void **state)
{
    (void)state;
    struct mob_waitset *set, *other;
    struct mob_future *stream = submit_stream(), *pending = submit(1), *ready = submit(2), *given;
    assert_int_equal(mob_waitset_create(client, &set), MOB_OK);
    assert_int_equal(mob_waitset_create(client, &other), MOB_OK);
    assert_int_equal(mob_waitset_add(set, stream), MOB_OK);
    assert_int_equal(mob_waitset_add(set, pending), MOB_OK);
    assert_int_equal(mob_waitset_add(other, pending), MOB_OK);
    assert_int_equal(mob_waitset_add(set, ready), MOB_OK);
    fake_node_ready_i64(&node, mob_future_object(ready), 2);
    mob_client_pump(client);
    mob_waitset_destroy(set);
    assert_null(stream->as.stream->waiters);
    end_stream(stream);
    fake_node_ready_i64(&node, mob_future_object(pending), 1);
    assert_int_equal(mob_waitset_next(other, 0, &given), MOB_OK);
    assert_ptr_equal(given, pending);
    assert_int_equal(mob_waitset_next(other, 0, &given), MOB_NOT_FOUND);
    mob_waitset_destroy(other);
    assert_int_equal(get(ready), 2);
    assert_int_equal(mob_stream_next(stream, 0, &given), MOB_NOT_FOUND);
}

static void a_released_tail_call_takes_nothing(void **state)
{
    (void)state;
    struct mob_future *outer = submit(1), *inner = submit(2);
    struct mob_object_id outer_id = mob_future_object(outer), id = mob_future_object(inner);
    fake_node_ready(&node, outer_id, MOB_OK, MOB_TYPE_FUTURE, &id, sizeof id);
    mob_client_pump(client);
    mob_release(outer);
    fake_node_ready_i64(&node, id, 7);
    assert_int_equal(get(inner), 7);
    assert_null(mob_future_find_child(client, outer_id.task)); /* its place is nobody's, still */
}

/* ---- a wait set in a task that runs again ---- */

static void log_next(struct mob_call *call, uint32_t sequence, const struct mob_future *future)
{
    struct mob_object_id id = future == NULL ? (struct mob_object_id){0} : mob_future_object(future);
    struct mob_logged_outcome **last = &call->outcomes;
    while (*last != NULL)
        last = &(*last)->next;
    *last = calloc(1, sizeof **last + sizeof id);
    assert_non_null(*last);
    (*last)->head.sequence = sequence;
    (*last)->head.kind = MOB_OUTCOME_WAIT;
    (*last)->head.payload_bytes = future == NULL ? 0 : sizeof id;
    memcpy((*last)->payload, &id, sizeof id);
}

static void a_replayed_wait_set_gives_the_first_runs_order(void **state)
{
    (void)state;
    enum { N = 5 };
    static struct mob_call call;
    struct mob_waitset *set;
    struct mob_future *futures[N], *stream = submit_stream(), *alone = submit(9), *given;
    int order[N] = {3, 1, 4, 0, 2};
    assert_int_equal(mob_waitset_create(client, &set), MOB_OK);
    assert_int_equal(mob_waitset_add(set, stream), MOB_OK);
    for (int i = 0; i < N; i++) {
        futures[i] = submit(i);
        assert_int_equal(mob_waitset_add(set, futures[i]), MOB_OK);
        fake_node_ready_i64(&node, mob_future_object(futures[i]), i);
        mob_client_pump(client);
    }
    end_stream(stream);
    memset(&call, 0, sizeof call);
    for (uint32_t i = 0; i < N; i++)
        log_next(&call, i, futures[order[i]]);
    log_next(&call, N, NULL);
    log_next(&call, N + 1, stream);
    log_next(&call, N + 2, alone);
    client->worker = true;
    client->call = &call;
    for (int i = 0; i < N; i++) {
        assert_int_equal(mob_waitset_next(set, 0, &given), MOB_OK);
        assert_ptr_equal(given, futures[order[i]]);
        assert_null(mob_told_find(given, set)); /* it has left the queue, wherever it stood in it */
    }
    assert_int_equal(mob_waitset_next(set, 0, &given), MOB_TIMEOUT); /* as in the first run */
    assert_int_equal(mob_waitset_next(set, 0, &given), MOB_OK);
    assert_ptr_equal(given, stream);
    assert_null(set->members);
    assert_int_equal(mob_waitset_next(set, 0, &given), MOB_REPLAY_DIVERGED); /* never added */
    client->call = NULL;
    client->worker = false;
    mob_waitset_destroy(set);
}

static void the_wait_sets_of_a_task_go_with_it(void **state)
{
    (void)state;
    struct mob_waitset *set;
    assert_int_equal(mob_waitset_create(client, &set), MOB_OK);
    assert_int_equal(mob_waitset_add(set, submit(1)), MOB_OK);
    mob_client_leave(client, false);
    assert_null(client->sets);
}

static void wait_counts_what_is_ready(void **state)
{
    (void)state;
    struct mob_future *futures[10];
    bool ready[10];
    size_t count;
    for (int i = 0; i < 10; i++)
        futures[i] = submit(i);
    fake_node_ready_i64(&node, mob_future_object(futures[3]), 3);
    fake_node_ready_i64(&node, mob_future_object(futures[8]), 8);
    assert_int_equal(mob_wait(futures, 10, 2, MOB_FOREVER, ready, &count), MOB_OK);
    assert_int_equal(count, 2);
    assert_true(ready[3] && ready[8] && !ready[0]);
    assert_int_equal(mob_wait(futures, 10, 3, 1000, ready, &count), MOB_OK);
    assert_int_equal(count, 2);
    assert_int_equal(mob_wait(futures, 10, 11, 0, ready, &count), MOB_INVALID);
}

static uint32_t watches_asked(void)
{
    uint32_t asked = 0;
    while (fake_node_take(&node))
        asked += node.record.type == MOB_OUT_WATCH;
    return asked;
}

static struct mob_future *foreign(uint32_t index)
{
    struct mob_object_id id = mob_object_of((struct mob_task_id){.index = index}, 1);
    char text[MOB_TEXT_ID_MAX];
    struct mob_future *future = NULL;
    mob_object_id_format(id, text);
    assert_int_equal(mob_future_from_id(client, text, &future), MOB_OK);
    return future;
}

static void a_wait_asks_for_each_future_once(void **state)
{
    (void)state;
    struct mob_future *futures[3] = {foreign(5), submit(1), foreign(6)};
    bool ready[3];
    size_t count;
    drain();
    assert_int_equal(mob_wait(futures, 3, 1, 0, ready, &count), MOB_OK); /* who only polls asks, too */
    assert_int_equal(count, 0);
    assert_int_equal(watches_asked(), 2);
    assert_int_equal(mob_wait(futures, 3, 1, 1000, ready, &count), MOB_OK);
    assert_int_equal(count, 0);
    fake_node_ready_i64(&node, mob_future_object(futures[2]), 8);
    assert_int_equal(mob_wait(futures, 3, 1, 0, ready, &count), MOB_OK);
    assert_int_equal(count, 1);
    assert_true(ready[2]);
    assert_int_equal(watches_asked(), 0);
}

static void what_a_full_ring_kept_from_being_asked_is_asked_for_later(void **state)
{
    (void)state;
    struct mob_future *future = foreign(5);
    enum mob_status status = MOB_OK;
    bool ready;
    size_t count;
    client->own_loop = true; /* does not wait for room */
    while (status == MOB_OK)
        status = mob_client_watch(client, (struct mob_object_id){0});
    assert_int_equal(status, MOB_QUEUE_FULL);
    assert_int_equal(mob_wait(&future, 1, 1, 0, &ready, &count), MOB_QUEUE_FULL);
    drain();
    assert_int_equal(mob_wait(&future, 1, 1, 0, &ready, &count), MOB_OK);
    assert_int_equal(watches_asked(), 1);
    client->own_loop = false;
}

static void stream_items_wait_for_their_turn(void **state)
{
    (void)state;
    struct mob_future *stream = submit_stream(), *item;
    struct mob_object_id id = mob_future_object(stream);
    assert_int_equal(mob_stream_next(stream, 0, &item), MOB_TIMEOUT);
    for (uint32_t i = 0; i < 3; i++) {
        id.slot = i;
        fake_node_ready_i64(&node, id, i * 11);
    }
    struct mob_in_ready last = {.id = {id.task, 3}, .flags = MOB_READY_LAST};
    fake_node_give(&node, MOB_IN_READY, &last, sizeof last, NULL, 0, NULL, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mob_stream_next(stream, 0, &item), MOB_OK);
        assert_int_equal(get(item), i * 11);
        mob_release(item);
    }
    assert_int_equal(mob_stream_next(stream, 0, &item), MOB_NOT_FOUND);
    mob_release(stream);
}

static bool asked_for(struct mob_object_id id)
{
    struct mob_object_id asked;
    bool found = false;
    while (fake_node_take(&node))
        for (uint32_t at = 0; node.record.type == MOB_OUT_WATCH && at + sizeof asked <= node.bytes;
             at += (uint32_t)sizeof asked) {
            memcpy(&asked, node.body + at, sizeof asked);
            found |= mob_object_id_eq(asked, id);
        }
    return found;
}

/* After notices were left out, or at the next node, items come when they are asked for: each asks for the
 * next, though nobody takes them. */
static void the_end_of_a_stream_is_heard_after_notices_were_missed(void **state)
{
    (void)state;
    struct mob_future *stream = submit_stream(), *ready;
    struct mob_object_id id = mob_future_object(stream);
    struct mob_waitset *set;
    assert_int_equal(mob_waitset_create(client, &set), MOB_OK);
    assert_int_equal(mob_waitset_add(set, stream), MOB_OK);
    fake_node_give(&node, MOB_IN_MISSED, NULL, 0, NULL, 0, NULL, 0);
    for (id.slot = 0; id.slot < 3; id.slot++) {
        mob_client_pump(client);
        assert_true(asked_for(id));
        fake_node_ready_i64(&node, id, id.slot);
    }
    mob_client_pump(client);
    assert_true(asked_for(id));
    assert_int_equal(mob_waitset_next(set, 0, &ready), MOB_TIMEOUT);
    struct mob_in_ready last = {.id = id, .flags = MOB_READY_LAST};
    fake_node_give(&node, MOB_IN_READY, &last, sizeof last, NULL, 0, NULL, 0);
    assert_int_equal(mob_waitset_next(set, 0, &ready), MOB_OK);
    assert_ptr_equal(ready, stream);
    mob_waitset_destroy(set);
    mob_release(stream);
}

static void wait_waits_for_the_end_of_a_stream(void **state)
{
    (void)state;
    struct mob_future *both[] = {submit_stream(), submit(1)};
    bool ready[2];
    size_t count;
    fake_node_ready_i64(&node, mob_future_object(both[1]), 1);
    assert_int_equal(mob_wait(both, 2, 2, 10 * MOB_MS, ready, &count), MOB_OK);
    assert_int_equal(count, 1);
    assert_false(ready[0]);
    assert_false(mob_ready(both[0]));
    end_stream(both[0]);
    assert_true(mob_ready(both[0]));
    assert_int_equal(mob_wait(both, 2, 2, 0, ready, &count), MOB_OK);
    assert_int_equal(count, 2);
    assert_true(ready[0]);
    mob_release(both[0]);
    mob_release(both[1]);
}

static void a_put_is_ready_at_once(void **state)
{
    (void)state;
    struct mob_future *small, *large;
    struct mob_value *value;
    struct mob_out_put put;
    uint8_t bytes[2000] = {7};
    assert_int_equal(mob_put(client, mob_i64(5), &small), MOB_OK);
    assert_int_equal(mob_put(client, mob_bytes(bytes, sizeof bytes), &large), MOB_OK);
    assert_int_equal(get(small), 5);
    assert_int_equal(mob_get(large, 0, &value), MOB_OK);
    mob_value_release(value);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(fake_node_take(&node));
        assert_int_equal(node.record.type, MOB_OUT_PUT);
        memcpy(&put, node.body, sizeof put);
        assert_int_equal(put.id.slot, MOB_SLOT_PUT | i);
        assert_int_equal(put.inline_bytes, i == 0 ? 8 : sizeof bytes);
    }
}

/* What was ready may be lost, and come again as something else: then an error stands in its place. */
static void a_ready_value_that_became_an_error_fails(void **state)
{
    (void)state;
    struct mob_future *future;
    struct mob_value *value;
    static const uint8_t bytes[2000] = {7};
    uint8_t error[256], full[1024] __attribute__((aligned(64))), *at;
    uint64_t size;
    struct mob_error_link link = {.status = MOB_REPLAY_DIVERGED, .message = "others", .message_bytes = 6};
    uint32_t error_bytes = mob_error_encode(error, sizeof error, &link, NULL, 0);
    assert_int_equal(mob_put(client, mob_bytes(bytes, sizeof bytes), &future), MOB_OK);
    assert_int_equal(mob_get(future, 0, &value), MOB_OK);
    mob_value_release(value);
    mob_store_object_free(node.store, mob_future_object(future));
    assert_int_equal(mob_value_full_size(error_bytes, 0, 0, &size), MOB_OK);
    assert_true(size <= sizeof full);
    assert_int_equal(mob_value_init(full, size, MOB_TYPE_ERROR, error_bytes, NULL, 0, NULL, 0, &at), MOB_OK);
    memcpy(at, error, error_bytes);
    mob_value_hash(full);
    assert_int_equal(
        mob_store_object_put(node.store, mob_future_object(future), MOB_TYPE_ERROR, false, full, size),
        MOB_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(mob_get(future, 0, &value), MOB_REPLAY_DIVERGED);
        assert_string_equal(mob_client_error(client), "others");
    }
    mob_release(future);
}

/* The fetches that were asked for since; the number of the last one's request in *request_out. */
static int fetches_asked(struct mob_object_id id, uint32_t *request_out)
{
    int count = 0;
    while (fake_node_take(&node)) {
        struct mob_out_request request;
        if (node.record.type != MOB_OUT_REQUEST)
            continue;
        memcpy(&request, node.body, sizeof request);
        assert_int_equal(request.op, MOB_REQ_FETCH);
        assert_memory_equal(node.body + sizeof request, &id, sizeof id);
        *request_out = request.request;
        count++;
    }
    return count;
}

static void answer_request(uint32_t request)
{
    struct mob_in_reply reply = {.request = request, .status = MOB_OK};
    fake_node_give(&node, MOB_IN_REPLY, &reply, sizeof reply, NULL, 0, NULL, 0);
}

/* Its bytes have left the store, and the node takes its time to bring them back. */
static void a_get_of_what_is_to_be_fetched_ends_in_time(void **state)
{
    (void)state;
    static const uint8_t bytes[2000] = {7};
    struct mob_future *future;
    struct mob_value *value = NULL;
    uint32_t request = 0;
    assert_int_equal(mob_put(client, mob_bytes(bytes, sizeof bytes), &future), MOB_OK);
    struct mob_object_id id = mob_future_object(future);
    drain();
    mob_store_object_free(node.store, id);
    for (int polls = 0; polls < 5; polls++)
        assert_int_equal(mob_get(future, 1000, &value), MOB_TIMEOUT);
    assert_null(value);
    assert_int_equal(fetches_asked(id, &request), 1); /* the others wait for the same */
    assert_int_equal(mob_store_object_put(node.store, id, MOB_TYPE_I64, true, bytes, 8), MOB_OK);
    answer_request(request);
    assert_int_equal(mob_get(future, 1000, &value), MOB_OK);
    mob_value_release(value);
    mob_client_pump(client);
    assert_int_equal(client->request_count, 0); /* nobody waited for the reply any more */
    mob_store_object_free(node.store, id);
    assert_int_equal(mob_get(future, 1000, &value), MOB_TIMEOUT);
    assert_int_equal(fetches_asked(id, &request), 1);
    answer_request(request);
    assert_int_equal(mob_get(future, 1000, &value), MOB_TIMEOUT); /* gone again meanwhile */
    assert_int_equal(client->request_count, 1);
    mob_release(future);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_notice_settles_the_future_of_its_child),
        TEST(handles_cost_16_bytes_and_come_back),
        TEST(notices_for_released_futures_are_ignored),
        TEST(larger_results_are_copied_out_of_the_ring),
        TEST(an_error_is_told_with_its_causes),
        TEST(what_could_not_be_looked_up_is_asked_for_again),
        TEST(a_failures_words_are_read_decoded),
        TEST(a_tail_call_takes_the_other_objects_value),
        TEST(a_foreign_future_is_watched_once),
        TEST(missed_notices_are_asked_for_again),
        TEST(callbacks_run_in_step_and_not_before),
        TEST(one_listener_leaves_the_others_hear),
        TEST(wait_sets_forget_released_futures),
        TEST(nothing_of_a_released_future_stays_in_a_wait_set),
        TEST(a_destroyed_wait_set_leaves_its_futures),
        TEST(a_released_tail_call_takes_nothing),
        TEST(a_replayed_wait_set_gives_the_first_runs_order),
        TEST(the_wait_sets_of_a_task_go_with_it),
        TEST(wait_counts_what_is_ready),
        TEST(a_wait_asks_for_each_future_once),
        TEST(what_a_full_ring_kept_from_being_asked_is_asked_for_later),
        TEST(stream_items_wait_for_their_turn),
        TEST(the_end_of_a_stream_is_heard_after_notices_were_missed),
        TEST(wait_waits_for_the_end_of_a_stream),
        TEST(a_put_is_ready_at_once),
        TEST(a_ready_value_that_became_an_error_fails),
        TEST(a_get_of_what_is_to_be_fetched_ends_in_time),
    };
    return cmocka_run_group_tests_name("sdk/c/future", tests, NULL, NULL);
}
