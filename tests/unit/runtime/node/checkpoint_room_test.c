/* An actor that restarts from a large checkpoint while the store is full, or from one that cannot be read. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "common/wire/checkpoint_row.h"
#include "runtime/node/actor_record.h"
#include "runtime/node/state_json.h"
#include "runtime/node/task.h"

enum { CHECKPOINT_BYTES = 900 << 10, PIECE_BYTES = 500 << 10, PIECES_MAX = 200 };

struct world {
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor;
    struct mob_object_ref pieces[PIECES_MAX];
    uint32_t piece_count;
};

static void *make(struct mob_store_client *store, struct mob_object_id id, uint32_t payload_bytes,
    struct mob_object_ref *ref_out, uint64_t *size_out)
{
    void *full;
    uint8_t *payload;
    assert_int_equal(mob_value_full_size(payload_bytes, 0, 0, size_out), MOB_OK);
    if (mob_store_object_create(store, id, *size_out, ref_out, &full) != MOB_OK)
        return NULL;
    assert_int_equal(
        mob_value_init(full, *size_out, MOB_TYPE_BYTES, payload_bytes, NULL, 0, NULL, 0, &payload), MOB_OK);
    return payload;
}

/* The state behind the call that it has just run. */
static void checkpoint(struct world *w)
{
    struct mob_object_ref ref;
    uint64_t size;
    uint8_t body[128];
    struct mob_object_id id = mob_object_of(w->worker.head.task, MOB_SLOT_CHECKPOINT);
    uint8_t *state = make(w->worker.store, id, CHECKPOINT_BYTES, &ref, &size);
    assert_non_null(state);
    memset(state, 6, CHECKPOINT_BYTES);
    struct mob_return_view view = {.type = MOB_TYPE_BYTES, .flags = MOB_RETURN_STORED, .size = size};
    struct mob_out_checkpoint head = {.actor = w->actor, .position = w->worker.position};
    uint32_t bytes = mob_return_encode(body, 0, sizeof body, &view);
    nx_publish(w->worker.store, MOB_OUT_CHECKPOINT, &head, sizeof head, body, bytes);
    mob_store_object_seal(w->worker.store, ref);
    nx_settle(&w->nx);
    assert_true(fake_row_of(MOB_GCS_CHECKPOINTS, &w->actor, sizeof w->actor) >= 0);
}

/* An actor with a call and a checkpoint behind it. */
static void open_checkpointed(struct world *w)
{
    *w = (struct world){0};
    nx_open_with(&w->nx, 1, &w->driver);
    w->actor = nx_create(&w->driver);
    nx_turn(&w->nx, 5);
    nx_worker(&w->nx, &w->worker);
    nx_await_task(&w->nx, &w->worker);
    nx_complete(&w->worker, 0, MOB_OK);
    nx_call(&w->driver, w->actor);
    nx_await_task(&w->nx, &w->worker);
    nx_complete(&w->worker, 1, MOB_OK);
    nx_turn(&w->nx, 5);
    checkpoint(w);
}

static struct mob_object_id restored(const struct world *w)
{
    return mob_object_of(w->actor.creation, MOB_SLOT_CHECKPOINT);
}

/* Room for a worker, but in no piece that would hold the checkpoint. */
static void fill(struct world *w)
{
    uint64_t size;
    for (; w->piece_count < PIECES_MAX; w->piece_count++)
        if (!make(w->driver.store, mob_object_of(w->driver.welcome.root, MOB_SLOT_PUT | w->piece_count),
                PIECE_BYTES, &w->pieces[w->piece_count], &size))
            break;
    assert_in_range(w->piece_count, 64, PIECES_MAX - 1);
    for (uint32_t i = 0; i < w->piece_count; i += 4)
        mob_store_object_abort(w->driver.store, w->pieces[i]);
}

static void let_go(struct world *w)
{
    for (uint32_t i = 0; i < w->piece_count; i++)
        if (i % 4 != 0)
            mob_store_object_abort(w->driver.store, w->pieces[i]);
}

static bool is_there(const struct world *w)
{
    struct mob_object_info info;
    return mob_store_object_info(w->nx.node->store, restored(w), &info) && info.sealed;
}

/* The creation in the hands of the next worker. */
static void take_creation(struct world *w, uint32_t started)
{
    nx_await_creation(&w->nx, &w->worker, started);
}

static void assert_why(const struct world *w)
{
    const struct node_task *creation = node_task_find(w->nx.node, w->actor.creation);
    assert_non_null(creation); /* it waits */
    json_t *why = node_task_why_json(w->nx.node, creation);
    assert_string_equal(json_string_value(json_object_get(why, "reason")), "checkpoint-room");
    assert_int_equal(json_integer_value(json_object_get(why, "needed_bytes")), CHECKPOINT_BYTES);
    assert_int_equal(json_integer_value(json_object_get(why, "input_count")), 1);
    json_decref(why);
}

static void it_comes_when_there_is_room(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    fill(&w);
    uint32_t started = w.nx.node->pool->started_count;
    nx_kill(&w.nx, &w.worker);
    nx_settle(&w.nx);
    assert_why(&w);
    assert_false(is_there(&w));
    w.nx.node->next_tick_ns = 0;
    nx_turn(&w.nx, 2);
    assert_false(is_there(&w)); /* tried in vain */
    assert_int_equal(w.nx.node->pool->started_count, started);
    let_go(&w);
    w.nx.node->next_tick_ns = 0;
    take_creation(&w, started);
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    struct mob_value_view view;
    assert_int_equal(
        mob_store_object_bytes(w.nx.node->store, restored(&w), false, &type, &bytes, &size), MOB_OK);
    assert_int_equal(mob_value_open(bytes, size, &view), MOB_OK);
    assert_int_equal(view.payload_bytes, CHECKPOINT_BYTES);
    assert_int_equal(view.payload[0], 6);
    assert_int_equal(view.payload[CHECKPOINT_BYTES - 1], 6);
    nx_complete(&w.worker, 0, MOB_OK);
    nx_settle(&w.nx);
    assert_int_equal(node_actor_find(w.nx.node, w.actor)->life.state, MOB_ACTOR_ALIVE);
    nx_call(&w.driver, w.actor);
    nx_await_task(&w.nx, &w.worker);
    assert_int_equal(w.worker.position, 1); /* what it covers is not replayed */
    nx_let_go(&w.worker);
    nx_close_with(&w.nx, &w.driver);
}

/* A control store that cannot say whether there is a checkpoint has not said that there is none. */
static void a_read_that_fails_is_asked_again(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    uint32_t started = w.nx.node->pool->started_count;
    FAKE.checkpoint_reads = MOB_UNAVAILABLE;
    nx_kill(&w.nx, &w.worker);
    nx_settle(&w.nx);
    w.nx.node->next_tick_ns = 0;
    nx_turn(&w.nx, 2); /* asked in vain */
    assert_int_equal(w.nx.node->pool->started_count, started);
    FAKE.checkpoint_reads = MOB_OK;
    w.nx.node->next_tick_ns = 0;
    take_creation(&w, started);
    nx_complete(&w.worker, 0, MOB_OK);
    nx_settle(&w.nx);
    nx_call(&w.driver, w.actor);
    nx_await_task(&w.nx, &w.worker);
    assert_int_equal(w.worker.position, 1); /* and not 0: it began with the checkpoint */
    FAKE.checkpoint_reads = MOB_UNAVAILABLE;
    nx_kill(&w.nx, &w.worker);
    nx_settle(&w.nx); /* the node ends while it asks */
    assert_non_null(w.nx.node->checkpoint_reads);
    nx_close_with(&w.nx, &w.driver);
}

static bool version_was_logged;

static void watch_log(void *arg, enum mob_log_level level, const char *line, size_t bytes)
{
    (void)arg, (void)bytes;
    if (strstr(line, "checkpoint_version checkpoint=2 supported=1"))
        version_was_logged = level == MOB_LOG_LEVEL_ERROR;
}

/* The actor's checkpoint becomes one of the next version. */
static void make_newer(const struct world *w)
{
    uint16_t newer = MOB_CHECKPOINT_ROW_VERSION + 1;
    int row = fake_row_of(MOB_GCS_CHECKPOINTS, &w->actor, sizeof w->actor);
    memcpy(FAKE.rows[row].value, &newer, sizeof newer);
}

/* It was written by a newer program, so what it says of the state is not known here: the actor ends, and says
 * why. */
static void one_of_an_unknown_version_is_refused(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    make_newer(&w);
    uint32_t started = w.nx.node->pool->started_count;
    version_was_logged = false;
    mob_log_set_sink(watch_log, NULL);
    nx_kill(&w.nx, &w.worker);
    nx_settle(&w.nx);
    mob_log_set_sink(NULL, NULL);
    const struct node_actor *actor = node_actor_find(w.nx.node, w.actor);
    assert_int_equal(actor->life.state, MOB_ACTOR_DEAD);
    assert_string_equal(actor->why, "its checkpoint is of version 2, and this node reads 1");
    assert_true(version_was_logged);
    assert_null(node_task_find(w.nx.node, w.actor.creation));
    assert_int_equal(w.nx.node->pool->started_count, started); /* no call of it runs again */
    nx_close_with(&w.nx, &w.driver);
}

/* The same one is met by the node after this one. */
static void a_restarted_node_refuses_it_too(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    make_newer(&w);
    nx_end(&w.nx);
    nx_let_go(&w.worker);
    nx_start(&w.nx, 0);
    nx_turn(&w.nx, 5);
    const struct node_actor *actor = node_actor_find(w.nx.node, w.actor);
    assert_int_equal(actor->life.state, MOB_ACTOR_DEAD);
    assert_string_equal(actor->why, "its checkpoint is of version 2, and this node reads 1");
    nx_close_with(&w.nx, &w.driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_when_there_is_room),
        cmocka_unit_test(a_read_that_fails_is_asked_again),
        cmocka_unit_test(one_of_an_unknown_version_is_refused),
        cmocka_unit_test(a_restarted_node_refuses_it_too),
    };
    return cmocka_run_group_tests_name("node checkpoint room", tests, NULL, NULL);
}
