/* Results of an actor's calls that are lost and made again, by its restart or by its shadow: they are what
 * the log says they were, or an error. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/actor_record.h"
#include "runtime/node/task.h"

enum { BYTES = 5000 };

struct world {
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor;
    struct mob_object_id id; /* result of the call */
};

static void start_worker(struct world *w, uint32_t started)
{
    nx_await_creation(&w->nx, &w->worker, started);
    nx_complete(&w->worker, 0, MOB_OK);
}

/* First byte of the object as whoever else runs on the node sees it now; -1 = there is nothing to see. */
static int seen(struct world *w, struct mob_object_id id)
{
    enum mob_value_type type;
    uint8_t small[MOB_OBJECT_INLINE_MAX];
    const void *bytes;
    uint64_t size;
    struct mob_object_ref pin;
    struct mob_value_view view;
    if (mob_store_object_get(w->driver.store, id, false, &type, small, &bytes, &size, &pin) != MOB_OK)
        return -1;
    if (pin.entry == UINT32_MAX)
        return small[0];
    assert_int_equal(mob_value_open(bytes, size, &view), MOB_OK);
    int byte = view.payload[0];
    mob_store_object_release(w->driver.store, pin);
    return type == MOB_TYPE_ERROR ? -1 : byte;
}

/* The first run's worker seals what it made; one that makes it again leaves that to the node. */
static void end_made(struct world *w, struct mob_object_ref ref)
{
    bool again = w->worker.head.attempt > 1;
    assert_int_equal((w->worker.flags & MOB_IN_SPEC_REMAKES) != 0, again);
    if (!again)
        mob_store_object_seal(w->worker.store, ref);
}

/* What the worker does at the end of the call: when an earlier run's bytes are there, it only says what its
 * own would be. */
static void run_call(struct world *w, uint8_t with)
{
    static uint8_t own[BYTES + 256] __attribute__((aligned(64)));
    struct mob_object_ref ref;
    void *full;
    uint8_t *payload;
    uint64_t size;
    nx_await_task(&w->nx, &w->worker);
    assert_true(mob_task_id_eq(w->worker.head.task, w->id.task));
    assert_int_equal(mob_value_full_size(BYTES, 0, 0, &size), MOB_OK);
    bool made = mob_store_object_create(w->worker.store, w->id, size, &ref, &full) == MOB_OK;
    if (!made)
        full = own;
    assert_int_equal(mob_value_init(full, size, MOB_TYPE_BYTES, BYTES, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, with, BYTES);
    mob_value_hash(full);
    struct mob_return_view view = {.type = MOB_TYPE_BYTES,
        .flags = MOB_RETURN_STORED,
        .size = size,
        .hash = mob_hash128(payload, BYTES)};
    int before = seen(w, w->id);
    nx_publish_completion(&w->worker, &view, MOB_OK);
    if (made)
        end_made(w, ref);
    if (w->worker.head.attempt > 1)
        assert_int_equal(seen(w, w->id), before);
    nx_settle(&w->nx);
}

static void open_called(struct world *w)
{
    *w = (struct world){0};
    nx_open_with(&w->nx, 1, &w->driver);
    w->actor = nx_create(&w->driver);
    start_worker(w, 0);
    w->id = mob_object_of(nx_call(&w->driver, w->actor), 0);
    run_call(w, 3);
}

static void close_world(struct world *w)
{
    nx_let_go(&w->worker);
    nx_close_with(&w->nx, &w->driver);
}

static enum mob_status until_told(struct world *w)
{
    enum mob_status status;
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !nx_told(w->driver.store, w->id, &status);
         nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
    return status;
}

static int first_byte(struct world *w)
{
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    struct mob_value_view view;
    if (mob_store_object_bytes(w->nx.node->store, w->id, true, &type, &bytes, &size) != MOB_OK)
        return -1;
    assert_int_equal(mob_value_open(bytes, size, &view), MOB_OK);
    return type == MOB_TYPE_BYTES ? view.payload[0] : -1;
}

static void lose_node(struct world *w)
{
    nx_let_go(&w->worker);
    nx_end(&w->nx);
    nx_disconnect(&w->driver);
    nx_start(&w->nx, 1);
    nx_connect(&w->nx, &w->driver, NULL);
}

/* What a run says that makes a lost result again, when the first said 3: whoever waits is told, and has. */
static const struct again {
    uint8_t with;
    enum mob_status told;
    int byte;
} AGAIN[] = {{3, MOB_OK, 3}, {4, MOB_REPLAY_DIVERGED, -1}};

/* The replay of its restart makes them. */
static void a_restart_after_the_nodes_end(void **state)
{
    (void)state;
    struct world w;
    open_called(&w);
    for (const struct again *again = AGAIN; again < AGAIN + 2; again++) {
        lose_node(&w);
        start_worker(&w, 0);
        nx_watch(w.driver.store, w.id);
        run_call(&w, again->with);
        assert_int_equal(until_told(&w), again->told);
        assert_int_equal(first_byte(&w), again->byte);
    }
    close_world(&w);
}

/* The bytes of the first run are there: they are what everybody gets, whatever a replay says. */
static void a_restart_beside_the_first_bytes(void **state)
{
    (void)state;
    struct world w;
    open_called(&w);
    uint32_t started = w.nx.node->pool->started_count;
    nx_kill(&w.nx, &w.worker);
    start_worker(&w, started);
    run_call(&w, 4);
    nx_watch(w.driver.store, w.id);
    assert_int_equal(until_told(&w), MOB_OK);
    assert_int_equal(first_byte(&w), 3);
    close_world(&w);
}

/* Of an actor that is dead. */
static void a_shadow(void **state)
{
    (void)state;
    struct world w;
    open_called(&w);
    assert_int_equal(node_actor_kill(w.nx.node, w.actor, true), MOB_OK);
    nx_settle(&w.nx);
    for (const struct again *again = AGAIN; again < AGAIN + 2; again++) {
        lose_node(&w);
        nx_watch(w.driver.store, w.id);
        start_worker(&w, 0);
        run_call(&w, again->with);
        assert_int_equal(until_told(&w), again->told);
        assert_int_equal(first_byte(&w), again->byte);
    }
    close_world(&w);
}

/* ---- a task of several returns ---- */

enum { SMALL_SLOT = 2, RETURNS = 3, LARGE_BYTES = 2 << 20 };

static struct mob_object_id return_of(const struct world *w, uint32_t slot)
{
    return mob_object_of(w->id.task, slot);
}

/* Of `bytes` bytes `with`, unsealed, named in the body of a completion. */
static uint32_t make_full(struct world *w, uint32_t slot, uint32_t bytes, uint8_t with,
    struct mob_object_ref *ref_out, uint8_t *body, uint32_t used)
{
    void *full;
    uint8_t *payload;
    struct mob_value_header header;
    uint64_t size;
    bool large = bytes > BYTES, again = w->worker.head.attempt > 1;
    assert_int_equal(mob_value_full_size(bytes, 0, 0, &size), MOB_OK);
    assert_int_equal(
        mob_store_object_create(w->worker.store, return_of(w, slot), size, ref_out, &full), MOB_OK);
    assert_int_equal(mob_value_init(full, size, MOB_TYPE_BYTES, bytes, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, with, bytes);
    if (!large || again)
        mob_value_hash(full);
    memcpy(&header, full, sizeof header);
    struct mob_return_view view = {.slot = slot,
        .type = MOB_TYPE_BYTES,
        .flags = MOB_RETURN_STORED | (large ? MOB_RETURN_HASH_LATER : 0),
        .size = size,
        .hash = header.hash};
    return mob_return_encode(body, used, 256, &view);
}

/* Up to where the worker might die: BYTES and LARGE_BYTES of these bytes, and a word in the completion. */
static void end_three(struct world *w, const uint8_t with[RETURNS])
{
    struct mob_object_ref refs[RETURNS];
    uint8_t body[256] __attribute__((aligned(8)));
    int64_t word = with[SMALL_SLOT];
    struct mob_return_view view = {
        .slot = SMALL_SLOT, .type = MOB_TYPE_I64, .size = sizeof word, .payload = (const uint8_t *)&word};
    nx_await_task(&w->nx, &w->worker);
    assert_true(mob_task_id_eq(w->worker.head.task, w->id.task));
    struct mob_completion_head head = nx_completion(&w->worker, MOB_OK, RETURNS);
    head.body_bytes = make_full(w, 0, BYTES, with[0], &refs[0], body, 0);
    head.body_bytes = make_full(w, 1, LARGE_BYTES, with[1], &refs[1], body, head.body_bytes);
    bool made = mob_store_put_small(w->worker.store, return_of(w, SMALL_SLOT), MOB_TYPE_I64, &word,
                    sizeof word, &refs[SMALL_SLOT]) == MOB_OK; /* else the log's is there */
    head.body_bytes = mob_return_encode(body, head.body_bytes, sizeof body, &view);
    nx_publish(w->worker.store, MOB_OUT_COMPLETION, &head, sizeof head, body, head.body_bytes);
    for (uint32_t slot = 0; slot < RETURNS; slot++)
        if (slot != SMALL_SLOT || made)
            end_made(w, refs[slot]);
}

static void start_plain_worker(struct world *w)
{
    for (int64_t end = mob_now() + NX_PATIENCE_NS; w->nx.node->pool->started_count == 0; nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
    nx_worker(&w->nx, &w->worker);
}

/* Its returns are lost, and wanted; the worker of the next node has ended it again, so that nothing of it is
 * to be seen yet. */
static void open_three(struct world *w, const uint8_t again[RETURNS])
{
    static const uint8_t first[RETURNS] = {3, 4, 5};
    *w = (struct world){0};
    nx_open_with(&w->nx, 1, &w->driver);
    struct mob_spec_head head = nx_next(&w->driver, MOB_KIND_TASK);
    head.num_returns = RETURNS;
    nx_spec(w->driver.store, &head, NULL);
    w->id = mob_object_of(head.task, 0);
    start_plain_worker(w);
    end_three(w, first);
    struct mob_object_info info;
    for (int64_t end = mob_now() + NX_PATIENCE_NS;; nx_settle(&w->nx)) {
        bool there = mob_store_object_info(w->nx.node->store, return_of(w, 1), &info);
        if (there && info.committed) /* behind its hash */
            break;
        assert_true(mob_now() < end);
    }
    lose_node(w);
    for (uint32_t slot = 0; slot < RETURNS; slot++)
        nx_watch(w->driver.store, return_of(w, slot));
    start_plain_worker(w);
    end_three(w, again);
    assert_int_equal(seen(w, return_of(w, 0)), -1);
    assert_int_equal(seen(w, return_of(w, 1)), -1);
    int small = seen(w, return_of(w, SMALL_SLOT)); /* the log's, if it is there by now */
    assert_true(small == -1 || small == first[SMALL_SLOT]);
}

static enum mob_status told_of(struct world *w, uint32_t slot)
{
    w->id = return_of(w, slot);
    return until_told(w);
}

static void several_returns_that_are_the_same(void **state)
{
    (void)state;
    struct world w;
    open_three(&w, (const uint8_t[]){3, 4, 5});
    nx_settle(&w.nx);
    assert_int_equal(seen(&w, return_of(&w, 0)), 3);
    assert_int_equal(seen(&w, return_of(&w, 1)), 4);
    assert_int_equal(told_of(&w, 0), MOB_OK);
    assert_null(mob_store_check(w.nx.node->store));
    close_world(&w);
}

static void several_returns_one_of_which_is_another(void **state)
{
    (void)state;
    struct world w;
    open_three(&w, (const uint8_t[]){3, 9, 5});
    nx_settle(&w.nx);
    assert_int_equal(seen(&w, return_of(&w, 0)), -1);
    assert_int_equal(seen(&w, return_of(&w, 1)), -1);
    assert_int_equal(told_of(&w, 0), MOB_REPLAY_DIVERGED);
    assert_null(mob_store_check(w.nx.node->store));
    close_world(&w);
}

/* What is in the log is not made again: it is read there. */
static void a_word_of_the_log_among_several_returns(void **state)
{
    (void)state;
    struct world w;
    open_three(&w, (const uint8_t[]){3, 4, 9});
    nx_settle(&w.nx);
    assert_int_equal(seen(&w, return_of(&w, 0)), 3);
    nx_watch(w.driver.store, return_of(&w, SMALL_SLOT));
    assert_int_equal(told_of(&w, SMALL_SLOT), MOB_OK);
    assert_int_equal(seen(&w, w.id), 5);
    close_world(&w);
}

/* Its completion is in the ring, and its returns are the node's. */
static void a_worker_that_dies_before_they_are_compared(void **state)
{
    (void)state;
    static const uint8_t again[2][RETURNS] = {{3, 4, 5}, {9, 4, 5}};
    for (int other = 0; other < 2; other++) {
        struct world w;
        open_three(&w, again[other]);
        nx_kill(&w.nx, &w.worker);
        nx_settle(&w.nx);
        assert_int_equal(seen(&w, return_of(&w, 0)), other ? -1 : 3);
        assert_int_equal(seen(&w, return_of(&w, 1)), other ? -1 : 4);
        assert_int_equal(told_of(&w, 0), other ? MOB_REPLAY_DIVERGED : MOB_OK);
        assert_null(mob_store_check(w.nx.node->store));
        nx_close_with(&w.nx, &w.driver);
    }
}

/* ---- items ---- */

static void publish_item(struct world *w, uint32_t item, const struct mob_return_view *view)
{
    uint8_t body[256];
    struct mob_out_yield head = {
        .task = w->worker.head.task, .attempt = w->worker.head.attempt, .item = item};
    uint32_t bytes = mob_return_encode(body, 0, sizeof body, view);
    nx_publish(w->worker.store, MOB_OUT_YIELD, &head, sizeof head, body, bytes);
}

static void yield_word(struct world *w, uint32_t item, int64_t word)
{
    struct mob_object_ref ref;
    struct mob_return_view view = {
        .slot = item, .type = MOB_TYPE_I64, .size = sizeof word, .payload = (const uint8_t *)&word};
    bool made = mob_store_put_small(
                    w->worker.store, return_of(w, item), MOB_TYPE_I64, &word, sizeof word, &ref) == MOB_OK;
    publish_item(w, item, &view);
    if (made)
        end_made(w, ref);
}

static void yield_bytes(struct world *w, uint32_t item, uint8_t with)
{
    struct mob_object_ref ref;
    uint8_t body[256];
    struct mob_completion one = {.head = {.return_count = 1}, .body = body};
    struct mob_return_view view;
    uint32_t at = 0;
    one.head.body_bytes = make_full(w, item, BYTES, with, &ref, body, 0);
    assert_true(mob_completion_next(&one, &at, &view));
    publish_item(w, item, &view);
    end_made(w, ref);
}

static void end_stream(struct world *w, enum mob_status status)
{
    struct mob_completion_head head = nx_completion(&w->worker, MOB_OK, 0);
    if (status == MOB_OK)
        nx_publish(w->worker.store, MOB_OUT_COMPLETION, &head, sizeof head, NULL, 0);
    else
        nx_complete(&w->worker, 0, status);
    nx_settle(&w->nx);
}

enum { ITEMS = 3 };

static void watch_items(struct world *w)
{
    for (uint32_t slot = 0; slot <= ITEMS; slot++)
        nx_watch(w->driver.store, return_of(w, slot));
}

/* In the order in which they come. */
static void all_told(struct world *w, enum mob_status status_out[ITEMS + 1])
{
    bool told[ITEMS + 1] = {false};
    uint32_t left = ITEMS + 1;
    struct mob_record record;
    const uint8_t *body;
    for (int64_t end = mob_now() + NX_PATIENCE_NS; left > 0; nx_turn(&w->nx, 1)) {
        assert_true(mob_now() < end);
        while ((body = mob_store_in_peek(w->driver.store, &record)) != NULL) {
            struct mob_in_ready ready = {0};
            if (record.type == MOB_IN_READY)
                memcpy(&ready, body, sizeof ready);
            if (mob_task_id_eq(ready.id.task, w->id.task) && ready.id.slot <= ITEMS) {
                left -= !told[ready.id.slot];
                told[ready.id.slot] = true;
                status_out[ready.id.slot] = (enum mob_status)ready.status;
            }
            mob_store_in_pop(w->driver.store);
        }
        mob_store_in_release(w->driver.store);
    }
}

/* Each item is compared by itself, and those of the log are read there. */
static void items_that_are_not_the_first_ones(void **state)
{
    (void)state;
    struct world w = {0};
    enum mob_status told[ITEMS + 1];
    nx_open_with(&w.nx, 1, &w.driver);
    struct mob_spec_head head = nx_next(&w.driver, MOB_KIND_TASK);
    head.num_returns = MOB_RETURNS_STREAM;
    nx_spec(w.driver.store, &head, NULL);
    w.id = mob_object_of(head.task, 0);
    start_plain_worker(&w);
    nx_await_task(&w.nx, &w.worker);
    yield_bytes(&w, 0, 3);
    yield_word(&w, 1, 5);
    yield_bytes(&w, 2, 4);
    end_stream(&w, MOB_OK);
    lose_node(&w);
    watch_items(&w);
    start_plain_worker(&w);
    nx_await_task(&w.nx, &w.worker);
    yield_bytes(&w, 0, 3);
    yield_word(&w, 1, 9);
    yield_bytes(&w, 2, 9);
    assert_int_equal(seen(&w, return_of(&w, 0)), -1);
    assert_int_not_equal(seen(&w, return_of(&w, 1)), 9);
    assert_int_equal(seen(&w, return_of(&w, 2)), -1);
    end_stream(&w, MOB_OK);
    all_told(&w, told);
    assert_int_equal(told[0], MOB_OK);
    assert_int_equal(seen(&w, return_of(&w, 0)), 3);
    assert_int_equal(told[1], MOB_OK);
    assert_int_equal(seen(&w, return_of(&w, 1)), 5);
    assert_int_equal(told[2], MOB_REPLAY_DIVERGED);
    assert_int_equal(seen(&w, return_of(&w, 2)), -1);
    assert_int_equal(told[3], MOB_OK); /* the end */
    assert_null(mob_store_check(w.nx.node->store));
    close_world(&w);
}

/* The replay of an actor's generator comes to nothing: who waits for its items gets those of the log. */
static void items_of_a_replay_that_fails_early(void **state)
{
    (void)state;
    struct world w = {0};
    enum mob_status told[ITEMS + 1];
    nx_open_with(&w.nx, 1, &w.driver);
    w.actor = nx_create(&w.driver);
    start_worker(&w, 0);
    struct mob_spec_head call = nx_next(&w.driver, MOB_KIND_ACTOR_CALL);
    call.actor = w.actor;
    call.num_returns = MOB_RETURNS_STREAM;
    nx_spec(w.driver.store, &call, NULL);
    w.id = mob_object_of(call.task, 0);
    nx_await_task(&w.nx, &w.worker);
    for (uint32_t item = 0; item < ITEMS; item++)
        yield_word(&w, item, item);
    end_stream(&w, MOB_TASK_FAILED);
    lose_node(&w);
    start_worker(&w, 0);
    watch_items(&w);
    nx_await_task(&w.nx, &w.worker);
    assert_true(mob_task_id_eq(w.worker.head.task, call.task));
    yield_word(&w, 0, 0);
    end_stream(&w, MOB_TASK_FAILED);
    all_told(&w, told);
    for (uint32_t item = 0; item < ITEMS; item++)
        assert_int_equal(told[item], MOB_OK);
    assert_int_equal(told[ITEMS], MOB_TASK_FAILED);
    close_world(&w);
}

/* ---- outcomes that are in the log: no replay changes them, nor may one keep them from who waits ---- */

/* The call ends with `status`, as the test's worker says. */
static void end_call(struct world *w, enum mob_status status)
{
    nx_await_task(&w->nx, &w->worker);
    assert_true(mob_task_id_eq(w->worker.head.task, w->id.task));
    nx_complete(&w->worker, 7, status);
    nx_settle(&w->nx);
}

/* A call that ended so, and the next node, whose replay of it has not begun. */
static void open_replaying(struct world *w, enum mob_status status, struct mob_spec_head *call_out)
{
    *w = (struct world){0};
    nx_open_with(&w->nx, 1, &w->driver);
    w->actor = nx_create(&w->driver);
    start_worker(w, 0);
    *call_out = nx_next(&w->driver, MOB_KIND_ACTOR_CALL);
    call_out->actor = w->actor;
    nx_spec(w->driver.store, call_out, NULL);
    w->id = mob_object_of(call_out->task, 0);
    end_call(w, status);
    assert_int_equal(until_told(w), status);
    struct nx_driver before = w->driver;
    nx_let_go(&w->worker);
    nx_restart(&w->nx, 1);
    nx_connect(&w->nx, &w->driver, &before);
    nx_disconnect(&before);
    start_worker(w, 0);
    nx_turn(&w->nx, 5);
    assert_non_null(node_task_find(w->nx.node, w->id.task));
}

static void a_watch_of_a_call_that_fails_again(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_TASK_FAILED, &call);
    nx_watch(w.driver.store, w.id);
    nx_turn(&w.nx, 5);
    end_call(&w, MOB_TASK_FAILED);
    assert_int_equal(until_told(&w), MOB_TASK_FAILED);
    close_world(&w);
}

/* A driver that had the notice before the node's end asks for the error's text. */
static void a_fetch_of_a_call_that_fails_again(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    struct mob_record record;
    struct mob_in_reply reply = {0};
    const uint8_t *body;
    open_replaying(&w, MOB_TASK_FAILED, &call);
    struct mob_out_request head = {.op = MOB_REQ_FETCH, .request = 9, .payload_bytes = sizeof w.id};
    nx_publish(w.driver.store, MOB_OUT_REQUEST, &head, sizeof head, &w.id, sizeof w.id);
    nx_turn(&w.nx, 5);
    end_call(&w, MOB_TASK_FAILED);
    for (int64_t end = mob_now() + NX_PATIENCE_NS; reply.request != 9; nx_turn(&w.nx, 1)) {
        assert_true(mob_now() < end);
        while ((body = mob_store_in_peek(w.driver.store, &record)) != NULL) {
            if (record.type == MOB_IN_REPLY)
                memcpy(&reply, body, sizeof reply);
            mob_store_in_pop(w.driver.store);
        }
        mob_store_in_release(w.driver.store);
    }
    assert_int_equal(reply.status, MOB_TASK_FAILED);
    close_world(&w);
}

static void a_call_that_fails_again_and_comes_again(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_TASK_FAILED, &call);
    nx_spec(w.driver.store, &call, NULL);
    nx_turn(&w.nx, 5);
    assert_int_equal(w.nx.node->duplicates, 1);
    end_call(&w, MOB_TASK_FAILED);
    assert_int_equal(until_told(&w), MOB_TASK_FAILED);
    close_world(&w);
}

static void an_input_that_fails_again(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_TASK_FAILED, &call);
    struct mob_spec_head next = nx_next(&w.driver, MOB_KIND_TASK);
    nx_spec(w.driver.store, &next, &w.id);
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !node_task_find(w.nx.node, next.task); nx_turn(&w.nx, 1))
        assert_true(mob_now() < end); /* it is looked up first */
    const struct node_task *waiting = node_task_find(w.nx.node, next.task);
    assert_int_equal(waiting->sched.state, MOB_SCHED_WAITING);
    end_call(&w, MOB_TASK_FAILED);
    for (int64_t end = mob_now() + NX_PATIENCE_NS; waiting->sched.state == MOB_SCHED_WAITING;
         nx_turn(&w.nx, 1))
        assert_true(mob_now() < end); /* a worker gets it, and finds the error */
    close_world(&w);
}

/* What it gave stands, though its actor dies before it is repeated. */
static void a_watch_of_a_call_whose_actor_dies(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_OK, &call);
    nx_watch(w.driver.store, w.id);
    nx_turn(&w.nx, 5);
    assert_int_equal(node_actor_kill(w.nx.node, w.actor, true), MOB_OK);
    nx_kill(&w.nx, &w.worker);
    assert_int_equal(until_told(&w), MOB_OK);
    nx_close_with(&w.nx, &w.driver);
}

/* The other one ends the actor; who waits gets the first. */
static void a_watch_of_a_call_that_gives_another_value(void **state)
{
    (void)state;
    struct world w;
    struct mob_spec_head call;
    open_replaying(&w, MOB_OK, &call);
    nx_watch(w.driver.store, w.id);
    nx_turn(&w.nx, 5);
    nx_await_task(&w.nx, &w.worker);
    nx_complete(&w.worker, 8, MOB_OK);
    nx_settle(&w.nx);
    assert_int_equal(until_told(&w), MOB_OK);
    assert_int_equal(node_actor_find(w.nx.node, w.actor)->life.death, MOB_NONDETERMINISTIC);
    close_world(&w);
}

/* ---- puts ---- */

static struct mob_object_id put_of(const struct world *w, uint32_t counter)
{
    return mob_object_of(w->id.task, MOB_SLOT_PUT | counter);
}

/* As a worker does: sealed at once by a first run only. */
static void put_full(struct world *w, uint32_t counter, uint32_t bytes, uint8_t with)
{
    struct mob_object_ref ref;
    void *full;
    uint8_t *payload;
    struct mob_value_header header;
    uint64_t size;
    struct mob_object_id id = put_of(w, counter);
    bool large = bytes > BYTES, again = w->worker.head.attempt > 1;
    assert_int_equal(mob_value_full_size(bytes, 0, 0, &size), MOB_OK);
    assert_int_equal(mob_store_object_create(w->worker.store, id, size, &ref, &full), MOB_OK);
    assert_int_equal(mob_value_init(full, size, MOB_TYPE_BYTES, bytes, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, with, bytes);
    if (!large || again)
        mob_value_hash(full);
    memcpy(&header, full, sizeof header);
    struct mob_out_put put = {.id = id,
        .type = MOB_TYPE_BYTES,
        .flags = large ? MOB_PUT_HASH_LATER : 0,
        .size = size,
        .hash = header.hash};
    nx_publish(w->worker.store, MOB_OUT_PUT, &put, sizeof put, NULL, 0);
    end_made(w, ref);
}

enum { PUTS = 3, LARGE_PUT = 2 };

/* What is zero it does not put. */
static void run_putter(struct world *w, const uint8_t with[PUTS])
{
    nx_await_task(&w->nx, &w->worker);
    assert_true(mob_task_id_eq(w->worker.head.task, w->id.task));
    for (uint32_t i = 0; i < PUTS; i++)
        if (with[i])
            put_full(w, i, i == LARGE_PUT ? LARGE_BYTES : BYTES, with[i]);
    nx_turn(&w->nx, 5);
}

/* Its puts are lost with the node, and asked for; its task has put them again. */
static void open_putter(struct world *w, const uint8_t again[PUTS])
{
    *w = (struct world){0};
    nx_open_with(&w->nx, 1, &w->driver);
    w->id = mob_object_of(nx_submit(&w->driver), 0);
    start_plain_worker(w);
    run_putter(w, (const uint8_t[]){3, 4, 5});
    nx_complete(&w->worker, 0, MOB_OK);
    nx_settle(&w->nx); /* else its task has not ended for the log, and only runs again */
    struct mob_object_info info;
    for (int64_t end = mob_now() + NX_PATIENCE_NS;; nx_settle(&w->nx)) {
        bool there = mob_store_object_info(w->nx.node->store, put_of(w, LARGE_PUT), &info);
        if (there && info.committed) /* behind its hash */
            break;
        assert_true(mob_now() < end);
    }
    lose_node(w);
    for (uint32_t i = 0; i < PUTS; i++)
        nx_watch(w->driver.store, put_of(w, i));
    start_plain_worker(w);
    run_putter(w, again);
}

/* In whatever order they are told. */
static void puts_told(struct world *w, enum mob_status status_out[PUTS])
{
    bool told[PUTS] = {false};
    struct mob_record record;
    const uint8_t *body;
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !(told[0] && told[1] && told[2]); nx_turn(&w->nx, 1)) {
        assert_true(mob_now() < end);
        while ((body = mob_store_in_peek(w->driver.store, &record)) != NULL) {
            struct mob_in_ready ready = {0};
            if (record.type == MOB_IN_READY)
                memcpy(&ready, body, sizeof ready);
            for (uint32_t i = 0; i < PUTS; i++)
                if (mob_object_id_eq(ready.id, put_of(w, i)) && !told[i]) {
                    told[i] = true;
                    status_out[i] = (enum mob_status)ready.status;
                }
            mob_store_in_pop(w->driver.store);
        }
        mob_store_in_release(w->driver.store);
    }
}

static void puts_that_are_the_same(void **state)
{
    (void)state;
    struct world w;
    open_putter(&w, (const uint8_t[]){3, 4, 5});
    enum mob_status told[PUTS];
    puts_told(&w, told);
    for (uint32_t i = 0; i < PUTS; i++) {
        assert_int_equal(seen(&w, put_of(&w, i)), 3 + (int)i);
        assert_int_equal(told[i], MOB_OK);
    }
    nx_complete(&w.worker, 0, MOB_OK);
    nx_settle(&w.nx);
    assert_null(mob_store_check(w.nx.node->store));
    close_world(&w);
}

static void puts_that_are_others(void **state)
{
    (void)state;
    for (uint32_t other = 0; other < PUTS; other++) {
        struct world w;
        uint8_t again[PUTS] = {3, 4, 5};
        again[other] = 9;
        open_putter(&w, again);
        enum mob_status told[PUTS];
        puts_told(&w, told);
        for (uint32_t i = 0; i < PUTS; i++) {
            assert_int_equal(seen(&w, put_of(&w, i)), i == other ? -1 : 3 + (int)i);
            assert_int_equal(told[i], i == other ? MOB_REPLAY_DIVERGED : MOB_OK);
        }
        nx_complete(&w.worker, 0, MOB_OK);
        nx_settle(&w.nx);
        assert_int_equal(seen(&w, put_of(&w, other)), -1);
        assert_null(mob_store_check(w.nx.node->store));
        close_world(&w);
    }
}

/* Whoever waits for one is told when the task ends without it: that it is not the same function's any more,
 * or why the task has failed this time. */
static void puts_that_do_not_come(void **state)
{
    (void)state;
    static const enum mob_status ends[] = {MOB_OK, MOB_TASK_FAILED};
    for (size_t end = 0; end < sizeof ends / sizeof *ends; end++) {
        struct world w;
        open_putter(&w, (const uint8_t[]){3, 0, 0});
        nx_complete(&w.worker, 0, ends[end]);
        enum mob_status told[PUTS];
        puts_told(&w, told);
        assert_int_equal(told[0], MOB_OK);
        assert_int_equal(seen(&w, put_of(&w, 0)), 3);
        for (uint32_t i = 1; i < PUTS; i++) {
            assert_int_equal(told[i], ends[end] == MOB_OK ? MOB_REPLAY_DIVERGED : ends[end]);
            assert_int_equal(seen(&w, put_of(&w, i)), -1);
        }
        assert_null(mob_store_check(w.nx.node->store));
        close_world(&w);
    }
}

/* A call's puts, made again by its actor's restart or by a shadow: they are what they were, or are told. */
static void puts_of_a_call(void **state)
{
    (void)state;
    static const uint8_t again[] = {3, 4, 0}; /* the same, others, none */
    for (size_t i = 0; i < 2 * sizeof again; i++) {
        bool dead = i % 2;
        uint8_t with = again[i / 2];
        struct world w = {0};
        nx_open_with(&w.nx, 1, &w.driver);
        w.actor = nx_create(&w.driver);
        start_worker(&w, 0);
        w.id = mob_object_of(nx_call(&w.driver, w.actor), 0);
        nx_await_task(&w.nx, &w.worker);
        put_full(&w, 0, BYTES, 3);
        nx_complete(&w.worker, 1, MOB_OK);
        nx_settle(&w.nx);
        if (dead)
            assert_int_equal(node_actor_kill(w.nx.node, w.actor, true), MOB_OK);
        nx_settle(&w.nx);
        lose_node(&w);
        w.id = put_of(&w, 0);
        nx_watch(w.driver.store, w.id);
        start_worker(&w, 0);
        nx_await_task(&w.nx, &w.worker);
        assert_true(mob_task_id_eq(w.worker.head.task, w.id.task));
        if (with)
            put_full(&w, 0, BYTES, with);
        nx_complete(&w.worker, 1, MOB_OK);
        assert_int_equal(until_told(&w), with == 3 ? MOB_OK : MOB_REPLAY_DIVERGED);
        assert_int_equal(first_byte(&w), with == 3 ? 3 : -1);
        nx_settle(&w.nx);
        assert_null(mob_store_check(w.nx.node->store));
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_after_the_nodes_end),
        cmocka_unit_test(a_restart_beside_the_first_bytes),
        cmocka_unit_test(a_shadow),
        cmocka_unit_test(several_returns_that_are_the_same),
        cmocka_unit_test(several_returns_one_of_which_is_another),
        cmocka_unit_test(a_word_of_the_log_among_several_returns),
        cmocka_unit_test(a_worker_that_dies_before_they_are_compared),
        cmocka_unit_test(puts_that_are_the_same),
        cmocka_unit_test(puts_that_are_others),
        cmocka_unit_test(puts_that_do_not_come),
        cmocka_unit_test(puts_of_a_call),
        cmocka_unit_test(items_that_are_not_the_first_ones),
        cmocka_unit_test(items_of_a_replay_that_fails_early),
        cmocka_unit_test(a_watch_of_a_call_that_fails_again),
        cmocka_unit_test(a_fetch_of_a_call_that_fails_again),
        cmocka_unit_test(a_call_that_fails_again_and_comes_again),
        cmocka_unit_test(an_input_that_fails_again),
        cmocka_unit_test(a_watch_of_a_call_whose_actor_dies),
        cmocka_unit_test(a_watch_of_a_call_that_gives_another_value),
    };
    return cmocka_run_group_tests_name("node remade", tests, NULL, NULL);
}
