/* What a worker does with its specs: values, failures, actors, blocking, replays. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/unit/runtime/worker/worker_fixture.h"

/* ---- plain tasks ---- */

static void a_task_runs_and_its_result_is_sealed(void **state)
{
    (void)state;
    struct mob_spec_head head = head_of("probe.echo_i64", 1);
    struct mob_in_spec in = {0};
    give_spec(&in, &head, 41);
    step_all();
    take_completion();
    assert_int_equal(completion.head.status, MOB_OK);
    assert_true(completion.head.finished_ns >= completion.head.started_ns);
    assert_int_equal(returned_i64(), 41);
    struct mob_object_info info;
    assert_true(mob_store_object_info(node.store, mob_object_of(head.task, 0), &info));
    assert_true(info.sealed);
    assert_int_equal(info.type, MOB_TYPE_I64);
}

/* The node compares it with its log, however large it is, and seals it. */
static void what_is_made_again_is_left_to_the_node(void **state)
{
    (void)state;
    struct mob_in_spec in = {.flags = MOB_IN_SPEC_REMAKES};
    static const int64_t bytes[] = {8, 5000, 3 << 20};
    for (int i = 0; i < 3; i++) {
        struct mob_spec_head head = head_of(i == 0 ? "probe.echo_i64" : "probe.big", 1);
        struct mob_object_id id = mob_object_of(head.task, 0);
        struct mob_object_info info;
        struct mob_return_view view;
        uint32_t at = 0;
        give_spec(&in, &head, bytes[i]);
        step_all();
        take_completion();
        assert_int_equal(completion.head.status, MOB_OK);
        assert_true(mob_completion_next(&completion, &at, &view));
        assert_true(mob_store_object_info(node.store, id, &info));
        assert_false(info.sealed);
        assert_int_equal(mob_store_seal_published(node.store, id, node.slot), MOB_OK);
        assert_true(mob_store_object_info(node.store, id, &info));
        assert_true(info.sealed);
        assert_true(i == 0 || mob_hash128_eq(info.hash, view.hash));
        assert_true(i == 0 || (view.hash.lo | view.hash.hi) != 0);
    }
}

static void siblings_repeat_the_head(void **state)
{
    (void)state;
    struct mob_spec_head head = head_of("probe.echo_i64", 1);
    struct mob_in_spec in = {0};
    give_spec(&in, &head, 0);
    for (uint32_t i = 1; i < 10; i++) {
        _Alignas(8) uint8_t tail[256];
        struct {
            uint64_t position;
            uint32_t index, seq;
        } sibling = {0, head.task.index + i, 0};
        uint32_t bytes = tail_of_i64(tail, i);
        fake_node_give(&node, MOB_IN_SIBLING, &sibling, sizeof sibling, tail, bytes, NULL, 0);
    }
    step_all();
    for (uint32_t i = 0; i < 10; i++) {
        take_completion();
        assert_int_equal(completion.head.task.index, head.task.index + i);
        assert_int_equal(returned_i64(), i);
    }
}

static void give_sibling(uint32_t index, int64_t argument)
{
    _Alignas(8) uint8_t tail[256];
    struct {
        uint64_t position;
        uint32_t index, seq;
    } sibling = {0, index, 0};
    uint32_t bytes = tail_of_i64(tail, argument);
    fake_node_give(&node, MOB_IN_SIBLING, &sibling, sizeof sibling, tail, bytes, NULL, 0);
}

/* Two functions, two streams, in turn; half of the siblings go through the stash. */
static void siblings_repeat_the_head_of_their_slot(void **state)
{
    (void)state;
    static const uint16_t slots[2] = {3, MOB_HEAD_SLOTS - 1};
    struct mob_spec_head heads[2] = {head_of("probe.echo_i64", 1), head_of("probe.fails", 1)};
    struct mob_in_spec in = {0};
    heads[1].task.stream.b[0] = 77;
    for (uint32_t i = 0; i < 20; i++) {
        node.give_aux = slots[i % 2];
        if (i < 2)
            give_spec(&in, &heads[i], i);
        else
            give_sibling(100 + i, i);
        if (i % 4 >= 2)
            assert_true(mob_client_pump(worker.client) > 0);
    }
    node.give_aux = 0;
    step_all();
    for (uint32_t i = 0; i < 20; i++) {
        take_completion();
        assert_true(mob_stream_eq(completion.head.task.stream, heads[i % 2].task.stream));
        assert_int_equal(completion.head.task.index, i < 2 ? heads[i].task.index : 100 + i);
        assert_int_equal(completion.head.status, i % 2 == 0 ? MOB_OK : MOB_TASK_FAILED);
        if (i % 2 == 0)
            assert_int_equal(returned_i64(), i);
    }
}

static void give_cancel(struct mob_task_id task)
{
    fake_node_give(&node, MOB_IN_CANCEL, &task, sizeof task, NULL, 0, NULL, 0);
    mob_store_in_urgent(node.store, node.slot);
    mob_store_in_flush(node.store, node.slot);
}

/* Behind others in the ring, and the cancel behind all of them: nothing of it runs, and nobody else is
 * concerned. So many that no table of a fixed size would hold them. */
static void what_is_cancelled_before_its_turn_does_not_run(void **state)
{
    (void)state;
    enum { COUNT = 700 };
    struct mob_spec_head head = head_of("probe.echo_i64", 1), late = head_of("probe.echo_i64", 1);
    struct mob_in_spec in = {0};
    late.deadline_wall_ns = mob_wall_now() - MOB_SEC;
    give_spec(&in, &late, 5);
    give_cancel(late.task);
    give_spec(&in, &head, 0);
    head.task.index = 1000;
    for (uint32_t i = 1; i < COUNT; i++)
        give_sibling(head.task.index + i, i);
    for (uint32_t i = 1; i < COUNT; i++)
        if (i % 3 != 0)
            give_cancel((struct mob_task_id){head.task.stream, head.task.index + i});
    step_all();
    assert_failed(MOB_DEADLINE, mob_status_text(MOB_DEADLINE));
    assert_int_equal(completion.head.started_ns, 0);
    take_completion();
    for (uint32_t i = 1; i < COUNT; i++) {
        if (i % 3 != 0)
            assert_failed(MOB_CANCELLED, mob_status_text(MOB_CANCELLED));
        else
            take_completion();
        assert_int_equal(completion.head.task.index, 1000 + i);
        assert_int_equal(completion.head.started_ns == 0, i % 3 != 0);
        if (i % 3 == 0)
            assert_int_equal(returned_i64(), i);
    }
    assert_false(mob_store_in_has_urgent(worker.client->store));
}

/* `begun_out`: of all that it was given. */
static void take_back_behind(struct mob_task_id last, uint64_t *begun_out)
{
    void *body =
        mob_store_in_halt(node.store, node.slot, MOB_IN_TAKEN_BACK, (uint32_t)sizeof last, begun_out);
    assert_non_null(body);
    memcpy(body, &last, sizeof last);
    mob_store_in_flush(node.store, node.slot);
}

/* Of what is taken back only the heads count: for what stays, and for what comes later. */
static void what_is_taken_back_does_not_run(void **state)
{
    (void)state;
    struct mob_spec_head first = head_of("probe.echo_i64", 1), second = head_of("probe.fails", 1);
    struct mob_in_spec in = {0};
    uint64_t begun;
    give_spec(&in, &first, 1);
    assert_true(mob_worker_step(&worker)); /* its function */
    assert_true(mob_worker_step(&worker));
    assert_true(mob_worker_step(&worker));
    take_completion();
    give_sibling(100, 2);
    give_sibling(101, 3);
    give_spec(&in, &second, 4); /* into the same slot */
    give_sibling(102, 5);
    take_back_behind((struct mob_task_id){first.task.stream, 100}, &begun);
    assert_int_equal(begun, 1);
    give_sibling(103, 6); /* of the second */
    step_all();
    take_completion();
    assert_int_equal(completion.head.task.index, 100);
    assert_int_equal(completion.head.status, MOB_OK);
    assert_int_equal(returned_i64(), 2);
    take_completion();
    assert_int_equal(completion.head.task.index, 103);
    assert_int_equal(completion.head.status, MOB_TASK_FAILED);
    assert_false(fake_node_take(&node));
    take_back_behind(first.task, &begun); /* it has nothing */
    assert_int_equal(begun, 3);
    give_sibling(100, 7); /* and here it comes again */
    step_all();
    take_completion();
    assert_int_equal(completion.head.task.index, 100);
}

static void failures_carry_their_reason(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head head = head_of("probe.fails", 1);
    give_spec(&in, &head, 3);
    head = head_of("probe.returns_text", 1);
    give_spec(&in, &head, 3);
    head = head_of("probe.no_such", 1);
    give_spec(&in, &head, 3);
    head = head_of("probe.echo_i64", 1);
    head.function.b[0] ^= 1;
    give_spec(&in, &head, 3);
    step_all();
    assert_failed(MOB_TASK_FAILED, "asked to fail with 3");
    assert_failed(MOB_TYPE_MISMATCH, "declared as i64");
    assert_failed(MOB_NOT_FOUND, "no function no_such");
    assert_failed(MOB_NOT_FOUND, "no module");
}

static void returns_are_what_was_declared(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head head = head_of("probe.returns_shape", 1);
    give_spec(&in, &head, 2);
    head = head_of("probe.returns_shape", 1);
    give_spec(&in, &head, 3);
    head = head_of("probe.returns_buffer", 1);
    give_spec(&in, &head, 0);
    step_all();
    take_completion();
    assert_int_equal(completion.head.status, MOB_OK);
    assert_failed(MOB_TYPE_MISMATCH, "expected tensor<f32>[2], found tensor<f32>[3]");
    assert_failed(MOB_TYPE_MISMATCH, "declared as i64, and bytes was returned");
}

static void a_changed_module_file_is_refused(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    char name[64], path[256];
    mob_base32_encode(hash.b, sizeof hash.b, name);
    snprintf(path, sizeof path, "%s/modules/%s.so", directory, name);
    FILE *file = fopen(path, "ab");
    fputc(0, file);
    fclose(file);
    struct mob_spec_head head = head_of("probe.echo_i64", 1);
    give_spec(&in, &head, 3);
    step_all();
    assert_failed(MOB_CORRUPT, "not what its name says");
}

static void a_reference_is_read_from_the_store(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head head = head_of("probe.echo_i64", 1);
    struct mob_object_id id = mob_object_of((struct mob_task_id){.index = 1000}, 0);
    struct mob_object_id tail_call = mob_object_of((struct mob_task_id){.index = 1001}, 0);
    int64_t v = 77;
    assert_int_equal(mob_store_object_put(node.store, id, MOB_TYPE_I64, true, &v, sizeof v), MOB_OK);
    assert_int_equal(
        mob_store_object_put(node.store, tail_call, MOB_TYPE_FUTURE, true, &id, sizeof id), MOB_OK);
    _Alignas(8) uint8_t tail[256];
    struct mob_tail_builder b;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_ref(&b, tail_call);
    uint32_t bytes = mob_tail_end(&b);
    fake_node_give(&node, MOB_IN_SPEC, &in, sizeof in, &head, sizeof head, tail, bytes);
    step_all();
    take_completion();
    assert_int_equal(returned_i64(), 77);
}

/* A node in a store without room: what it has brought back is gone before the worker comes to look. */
struct crowded {
    struct mob_object_id id;
    uint32_t fetches; /* the last of them finds it */
    atomic_bool over; /* the worker asks no more */
};

static void *answer_fetches(void *arg)
{
    struct crowded *crowded = arg;
    for (uint32_t left = crowded->fetches; left > 0 && !crowded->over;) {
        struct mob_out_request request;
        if (!fake_node_take(&node)) {
            sched_yield();
            continue;
        }
        if (node.record.type != MOB_OUT_REQUEST)
            continue;
        memcpy(&request, node.body, sizeof request);
        assert_int_equal(request.op, MOB_REQ_FETCH);
        int64_t v = 78;
        if (--left == 0)
            assert_int_equal(
                mob_store_object_put(node.store, crowded->id, MOB_TYPE_I64, true, &v, sizeof v), MOB_OK);
        struct mob_in_reply reply = {.request = request.request, .status = MOB_OK};
        fake_node_give(&node, MOB_IN_REPLY, &reply, sizeof reply, NULL, 0, NULL, 0);
    }
    return NULL;
}

static void an_input_that_goes_again_and_again_is_waited_for(void **state)
{
    (void)state;
    struct crowded crowded = {mob_object_of((struct mob_task_id){.index = 1002}, 0), 12, false};
    struct mob_in_spec in = {0};
    struct mob_spec_head head = head_of("probe.echo_i64", 1);
    _Alignas(8) uint8_t tail[256];
    struct mob_tail_builder b;
    pthread_t thread;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_ref(&b, crowded.id);
    uint32_t bytes = mob_tail_end(&b);
    fake_node_give(&node, MOB_IN_SPEC, &in, sizeof in, &head, sizeof head, tail, bytes);
    assert_int_equal(pthread_create(&thread, NULL, answer_fetches, &crowded), 0);
    step_all();
    crowded.over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    take_completion();
    assert_int_equal(completion.head.status, MOB_OK);
    assert_int_equal(returned_i64(), 78);
}

static void a_value_that_was_sent_ahead_is_used(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_object_id id = mob_object_of((struct mob_task_id){.index = 2000}, 0);
    fake_node_ready_i64(&node, id, 78); /* it is not in the store */
    struct mob_spec_head head = head_of("probe.echo_i64", 1);
    _Alignas(8) uint8_t tail[256];
    struct mob_tail_builder b;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_ref(&b, id);
    uint32_t bytes = mob_tail_end(&b);
    fake_node_give(&node, MOB_IN_SPEC, &in, sizeof in, &head, sizeof head, tail, bytes);
    step_all();
    take_completion();
    assert_int_equal(returned_i64(), 78);
}

static void a_stream_publishes_its_items(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head head = head_of("probe.counts", MOB_RETURNS_STREAM);
    give_spec(&in, &head, 4);
    step_all();
    for (uint32_t i = 0; i < 4; i++) {
        struct mob_out_yield yield;
        assert_true(fake_node_take(&node));
        assert_int_equal(node.record.type, MOB_OUT_YIELD);
        memcpy(&yield, node.body, sizeof yield);
        assert_int_equal(yield.item, i);
    }
    take_completion();
    assert_int_equal(completion.head.status, MOB_OK);
}

/* ---- children and waiting ---- */

/* Plays the node while the worker waits inside a task: called by the yield of its waiting loop through a
 * thread would be another test's matter; here everything it needs is in its ring before it starts. */
static void results_that_wait_behind_other_specs_are_found(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head parent = head_of("probe.nested_sum", 1), other = head_of("probe.echo_i64", 1);
    give_spec(&in, &parent, 3);
    give_spec(&in, &other, 500); /* not started while the parent waits */
    struct mob_stream stream = mob_stream_of_children(parent.task, 0, 0);
    for (uint32_t i = 0; i < 3; i++)
        fake_node_ready_i64(&node, mob_object_of((struct mob_task_id){stream, i}, 0), i + 1);
    step_all();
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(fake_node_take(&node));
        assert_int_equal(node.record.type, i == 0 ? MOB_OUT_SPEC : MOB_OUT_SIBLING);
    }
    take_completion();
    assert_true(mob_task_id_eq(completion.head.task, parent.task));
    assert_int_equal(returned_i64(), 6);
    take_completion();
    assert_true(mob_task_id_eq(completion.head.task, other.task));
    assert_int_equal(returned_i64(), 500);
}

static void specs_before_the_marker_are_dropped(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head parent = head_of("probe.echo_i64", 1), taken_back = head_of("probe.echo_i64", 1);
    struct mob_spec_head kept = head_of("probe.echo_i64", 1);
    worker.client->call = worker.call; /* as if the first were running and blocked */
    worker.client->hooks->blocked(worker.client);
    worker.client->call = NULL;
    give_spec(&in, &parent, 1);
    give_spec(&in, &taken_back, 2);
    fake_node_give(&node, MOB_IN_REVOKED, NULL, 0, NULL, 0, NULL, 0);
    struct {
        uint64_t position;
        uint32_t index, seq;
    } sibling = {0, kept.task.index, 0};
    _Alignas(8) uint8_t tail[256];
    uint32_t bytes = tail_of_i64(tail, 3);
    fake_node_give(&node, MOB_IN_SIBLING, &sibling, sizeof sibling, tail, bytes, NULL, 0);
    step_all();
    take_completion();
    assert_true(mob_task_id_eq(completion.head.task, kept.task));
    assert_int_equal(returned_i64(), 3);
    assert_false(fake_node_take(&node));
}

/* A worker whose outbound ring is full again and again: specs come while it waits, faster than it runs them.
 */
static void a_stash_that_is_never_empty_uses_its_room_again(void **state)
{
    (void)state;
    enum { ROUNDS = 30000, TEXT = 600 };
    char text[TEXT];
    memset(text, 'x', sizeof text);
    struct mob_in_spec in = {0};
    struct mob_spec_head head = head_of("probe.echo_i64", 1);
    uint64_t pushed = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        _Alignas(8) uint8_t tail[1024];
        struct mob_tail_builder b;
        int64_t argument = i;
        mob_tail_begin(&b, tail, sizeof tail);
        mob_tail_add_value(&b, MOB_TYPE_I64, &argument, sizeof argument);
        mob_tail_add_ext(&b, MOB_EXT_NAME, text, sizeof text);
        uint32_t bytes = mob_tail_end(&b);
        head.task.index = i;
        fake_node_give(&node, MOB_IN_SPEC, &in, sizeof in, &head, sizeof head, tail, bytes);
        assert_true(mob_client_pump(worker.client) > 0);
        pushed += bytes;
        if (i < 3)
            continue; /* so many always wait */
        assert_true(mob_worker_step(&worker));
        take_completion();
        assert_int_equal(returned_i64(), i - 3);
    }
    assert_true(pushed > MOB_STASH_MAX);
    assert_true(worker.stash_capacity <= 1u << 16);
}

/* ---- replay ---- */

static void give_outcome(const struct mob_spec_head *head, uint32_t sequence, enum mob_outcome_kind kind,
    const void *payload, uint32_t bytes)
{
    struct mob_out_outcome outcome = {
        .task = head->task, .sequence = sequence, .kind = (uint16_t)kind, .payload_bytes = bytes};
    fake_node_give(&node, MOB_IN_OUTCOME, &outcome, sizeof outcome, payload, bytes, NULL, 0);
}

static void outcomes_are_logged_and_read_back(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head head = head_of("probe.reports", 1);
    struct mob_out_outcome outcome;
    uint32_t logged = 0;
    give_spec(&in, &head, 0);
    step_all();
    while (fake_node_take(&node) && node.record.type != MOB_OUT_COMPLETION)
        if (node.record.type == MOB_OUT_OUTCOME) {
            memcpy(&outcome, node.body, sizeof outcome);
            assert_int_equal(outcome.sequence, logged);
            assert_int_equal(outcome.kind, logged == 0 ? MOB_OUTCOME_CLOCK : MOB_OUTCOME_RANDOM);
            logged++;
        }
    assert_int_equal(logged, 3);
    /* Again, with a log in which both random numbers are equal: the function then returns 0. */
    int64_t clock = 1, random = 5;
    head.attempt = 2;
    give_outcome(&head, 0, MOB_OUTCOME_CLOCK, &clock, sizeof clock);
    give_outcome(&head, 1, MOB_OUTCOME_RANDOM, &random, sizeof random);
    give_outcome(&head, 2, MOB_OUTCOME_RANDOM, &random, sizeof random);
    give_spec(&in, &head, 0);
    step_all();
    uint32_t again = 0;
    while (fake_node_take(&node) && node.record.type != MOB_OUT_COMPLETION)
        again += node.record.type == MOB_OUT_OUTCOME;
    assert_int_equal(again, 0);
    open_completion();
    assert_int_equal(returned_i64(), 0);
}

/* A batch that its worker gave back unstarted is sent again, its outcomes in front of it. */
static void outcomes_that_came_twice_are_used_once(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head head = head_of("probe.reports", 1);
    int64_t clock = 1, random = 5;
    head.attempt = 2;
    for (int times = 0; times < 2; times++) {
        give_outcome(&head, 0, MOB_OUTCOME_CLOCK, &clock, sizeof clock);
        give_outcome(&head, 1, MOB_OUTCOME_RANDOM, &random, sizeof random);
    }
    give_outcome(&head, 2, MOB_OUTCOME_RANDOM, &random, sizeof random);
    give_spec(&in, &head, 0);
    step_all();
    while (fake_node_take(&node) && node.record.type != MOB_OUT_COMPLETION)
        assert_int_not_equal(node.record.type, MOB_OUT_OUTCOME);
    open_completion();
    assert_int_equal(returned_i64(), 0);
}

static void another_order_of_outcomes_is_a_divergence(void **state)
{
    (void)state;
    struct mob_in_spec in = {0};
    struct mob_spec_head head = head_of("probe.reports", 1);
    uint8_t bits = 1;
    give_outcome(&head, 0, MOB_OUTCOME_WAIT, &bits, 1);
    give_spec(&in, &head, 0);
    step_all();
    assert_failed(MOB_REPLAY_DIVERGED, "outcome");
    head = head_of("probe.echo_i64", 1);
    give_outcome(&head, 0, MOB_OUTCOME_WAIT, &bits, 1);
    give_spec(&in, &head, 0);
    step_all();
    assert_failed(MOB_REPLAY_DIVERGED, "asked for more");
}

/* ---- actors ---- */

static struct mob_spec_head call_of(const struct mob_spec_head *create, uint16_t method)
{
    struct mob_spec_head head = *create;
    head.kind = MOB_KIND_ACTOR_CALL;
    head.actor.creation = create->task;
    head.task.index = next_index++;
    head.method = method;
    return head;
}

static void an_actor_lives_in_its_worker(void **state)
{
    (void)state;
    struct mob_spec_head create = head_of("probe.Account", 1);
    struct mob_in_spec in = {0};
    _Alignas(8) uint8_t tail[256];
    struct mob_tail_builder b;
    int64_t start = 100;
    uint32_t every = 2;
    create.kind = MOB_KIND_ACTOR_CREATE;
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_I64, &start, sizeof start);
    mob_tail_add_ext(&b, MOB_EXT_CHECKPOINT, &every, sizeof every);
    uint32_t bytes = mob_tail_end(&b);
    fake_node_give(&node, MOB_IN_SPEC, &in, sizeof in, &create, sizeof create, tail, bytes);
    step_all();
    take_completion();
    assert_int_equal(completion.head.status, MOB_OK);
    for (uint64_t position = 0; position < 2; position++) {
        struct mob_spec_head call = call_of(&create, 0);
        in.position = position;
        give_spec(&in, &call, 5);
    }
    step_all();
    take_completion();
    assert_int_equal(returned_i64(), 105);
    take_completion();
    assert_int_equal(returned_i64(), 110);
    struct mob_out_checkpoint checkpoint;
    int64_t saved;
    assert_true(fake_node_take(&node));
    assert_int_equal(node.record.type, MOB_OUT_CHECKPOINT);
    memcpy(&checkpoint, node.body, sizeof checkpoint);
    memcpy(&saved, node.body + sizeof checkpoint + 16, sizeof saved);
    assert_int_equal(checkpoint.position, 1);
    assert_int_equal(saved, 110);
    struct mob_spec_head wrong = call_of(&create, 9);
    give_spec(&in, &wrong, 5);
    step_all();
    assert_failed(MOB_NOT_FOUND, "no method 9");
}

static void a_restored_actor_goes_on(void **state)
{
    (void)state;
    struct mob_spec_head create = head_of("probe.Account", 1);
    struct mob_in_spec in = {.flags = MOB_IN_SPEC_RESTORE, .incarnation = 1};
    create.kind = MOB_KIND_ACTOR_CREATE;
    give_spec(&in, &create, 110); /* argument 0 is the checkpoint */
    struct mob_spec_head call = call_of(&create, 1);
    in = (struct mob_in_spec){.position = 2, .incarnation = 1};
    give_spec(&in, &call, 0);
    step_all();
    take_completion();
    take_completion();
    assert_int_equal(returned_i64(), 110);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_task_runs_and_its_result_is_sealed),
        TEST(what_is_made_again_is_left_to_the_node),
        TEST(siblings_repeat_the_head),
        TEST(siblings_repeat_the_head_of_their_slot),
        TEST(what_is_cancelled_before_its_turn_does_not_run),
        TEST(what_is_taken_back_does_not_run),
        TEST(failures_carry_their_reason),
        TEST(returns_are_what_was_declared),
        TEST(a_changed_module_file_is_refused),
        TEST(a_reference_is_read_from_the_store),
        TEST(an_input_that_goes_again_and_again_is_waited_for),
        TEST(a_value_that_was_sent_ahead_is_used),
        TEST(a_stream_publishes_its_items),
        TEST(results_that_wait_behind_other_specs_are_found),
        TEST(specs_before_the_marker_are_dropped),
        TEST(a_stash_that_is_never_empty_uses_its_room_again),
        TEST(outcomes_are_logged_and_read_back),
        TEST(outcomes_that_came_twice_are_used_once),
        TEST(another_order_of_outcomes_is_a_divergence),
        TEST(an_actor_lives_in_its_worker),
        TEST(a_restored_actor_goes_on),
    };
    return cmocka_run_group_tests_name("runtime/worker", tests, NULL, NULL);
}
