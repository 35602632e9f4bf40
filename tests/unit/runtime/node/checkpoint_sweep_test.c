/* Rows of checkpoints stay as long as something may need them, and then go. */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/actor_record.h"
#include "runtime/node/checkpoint_sweep.h"
#include "runtime/node/jobs.h"
#include "runtime/node/row_writes.h"

struct world {
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor;
};

static bool row_is_there(enum mob_gcs_table table, struct mob_actor_id id)
{
    int row = fake_row_of(table, &id, sizeof id);
    return row >= 0 && FAKE.rows[row].value;
}

static bool kept(const struct world *w)
{
    return row_is_there(MOB_GCS_CHECKPOINTS, w->actor);
}

/* The state behind the call that it has just run; its row is on its way. */
static void checkpoint(struct world *w)
{
    uint8_t body[64];
    int64_t state = 6;
    struct mob_return_view view = {
        .type = MOB_TYPE_I64, .size = sizeof state, .payload = (const uint8_t *)&state};
    struct mob_out_checkpoint head = {.actor = w->actor, .position = w->worker.position};
    uint32_t bytes = mob_return_encode(body, 0, sizeof body, &view);
    nx_publish(w->worker.store, MOB_OUT_CHECKPOINT, &head, sizeof head, body, bytes);
    nx_settle(&w->nx);
}

static void call(struct world *w)
{
    nx_call(&w->driver, w->actor);
    nx_await_task(&w->nx, &w->worker);
    nx_complete(&w->worker, 1, MOB_OK);
    nx_settle(&w->nx);
}

/* An actor in the worker's hands, that has run a call. */
static void create(struct world *w)
{
    uint32_t started = w->nx.node->pool->started_count;
    w->actor = nx_create(&w->driver);
    nx_await_creation(&w->nx, &w->worker, started);
    nx_complete(&w->worker, 0, MOB_OK);
    call(w);
}

static void open_checkpointed(struct world *w)
{
    *w = (struct world){0};
    nx_open_with(&w->nx, 2, &w->driver);
    create(w);
    checkpoint(w);
    assert_true(kept(w));
}

static void end_actor(struct world *w)
{
    enum mob_status status = node_actor_kill(w->nx.node, w->actor, true);
    assert_true(status == MOB_OK || status == MOB_FINISHED); /* with its job */
    nx_settle(&w->nx);
    nx_kill(&w->nx, &w->worker);
    nx_settle(&w->nx);
    assert_false(row_is_there(MOB_GCS_ACTORS, w->actor));
}

static void lose_lineage(struct world *w)
{
    nx_settle(&w->nx);
    nx_cut(FAKE.block_count);
}

static void turn_until(struct world *w, bool (*condition)(const struct world *w))
{
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !condition(w); nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
}

static bool looks(const struct world *w)
{
    return checkpoint_sweep_next(w->nx.node) == INT64_MAX;
}

static bool rests(const struct world *w)
{
    return !looks(w);
}

static bool is_gone(const struct world *w)
{
    return !kept(w);
}

/* A look at all rows, from its beginning to its end. */
static void look(struct world *w)
{
    turn_until(w, rests);
    checkpoint_sweep_due(w->nx.node);
    turn_until(w, looks);
    turn_until(w, rests);
}

static void a_dead_actors_row_goes_with_its_lineage(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    end_actor(&w);
    look(&w);
    assert_true(kept(&w)); /* results of its calls may have to be made again */
    lose_lineage(&w);
    look(&w);
    assert_false(kept(&w));
    assert_int_equal(FAKE.value_bytes_listed, 0);
    nx_close_with(&w.nx, &w.driver);
}

static void a_living_actors_row_stays_without_its_lineage(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    lose_lineage(&w);
    look(&w);
    assert_true(kept(&w));
    uint32_t started = w.nx.node->pool->started_count;
    nx_kill(&w.nx, &w.worker);
    nx_await_creation(&w.nx, &w.worker, started);
    nx_complete(&w.worker, 0, MOB_OK);
    nx_call(&w.driver, w.actor);
    nx_await_task(&w.nx, &w.worker);
    assert_int_equal(w.worker.position, 1); /* and not 0: it began with the checkpoint */
    nx_let_go(&w.worker);
    nx_close_with(&w.nx, &w.driver);
}

/* The id comes of a key, and no lineage knows it any more; nor has anybody looked at the row since. */
static void an_actor_whose_id_comes_again_begins_anew(void **state)
{
    (void)state;
    struct world w = {0};
    nx_open_with(&w.nx, 2, &w.driver);
    w.actor = (struct mob_actor_id){{mob_stream_of_children(w.driver.welcome.root, 0, 0), w.driver.next}};
    fake_gcs_set(MOB_GCS_CHECKPOINTS, &w.actor, sizeof w.actor, "another's state", 15);
    create(&w);
    assert_false(kept(&w));
    checkpoint(&w);
    assert_true(kept(&w)); /* its own */
    nx_let_go(&w.worker);
    nx_close_with(&w.nx, &w.driver);
}

/* The control store has no room for rows for so long that they are not waited for; and then for this first.
 */
static void what_removes_another_ones_state_does_not_come_behind_its_own(void **state)
{
    (void)state;
    struct world w = {0};
    nx_open_with(&w.nx, 2, &w.driver);
    nx_settle(&w.nx);
    FAKE.full = true;
    w.actor = nx_create(&w.driver);
    assert_true(nx_worker_takes(&w.nx, &w.worker));
    nx_complete(&w.worker, 0, MOB_OK);
    nx_turn(&w.nx, 20);
    call(&w);
    checkpoint(&w);
    w.nx.node->now_ns = row_writes_patience_end(w.nx.node);
    row_writes_step(w.nx.node);
    lineage_log_pump(w.nx.node->log, w.nx.node->now_ns, LOG_TURN_FLUSH);
    FAKE.full = false;
    mob_gcs_step(w.nx.node->gcs, w.nx.node->now_ns);
    lineage_log_pump(w.nx.node->log, w.nx.node->now_ns, LOG_TURN_FLUSH);
    assert_true(row_writes_waiting(w.nx.node));
    assert_true(kept(&w));
    nx_settle(&w.nx);
    assert_false(row_writes_waiting(w.nx.node));
    assert_true(kept(&w));
    nx_let_go(&w.worker);
    nx_close_with(&w.nx, &w.driver);
}

/* Whose row this node cannot read, or whose it is not: it lives as long as the control store says so. */
static void a_row_of_an_actor_that_is_not_here_stays_with_its_actors(void **state)
{
    (void)state;
    struct world w = {.actor = {{{{'e', 'l', 's', 'e'}}, 7}}};
    nx_open_with(&w.nx, 0, &w.driver);
    fake_gcs_set(MOB_GCS_CHECKPOINTS, &w.actor, sizeof w.actor, "state", 5);
    fake_gcs_set(MOB_GCS_ACTORS, &w.actor, sizeof w.actor, "another version's", 17);
    look(&w);
    assert_true(kept(&w));
    fake_gcs_set(MOB_GCS_ACTORS, &w.actor, sizeof w.actor, NULL, 0);
    look(&w);
    assert_false(kept(&w));
    nx_close_with(&w.nx, &w.driver);
}

/* As when it was killed between an actor's row and its checkpoint's. */
static void what_a_killed_node_has_left_goes_when_the_next_starts(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    end_actor(&w);
    lose_lineage(&w);
    assert_true(kept(&w));
    nx_restart(&w.nx, 2);
    turn_until(&w, is_gone);
    nx_close_with(&w.nx, &w.driver);
}

static void a_checkpoint_that_is_written_over_it_meanwhile_stays(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    end_actor(&w);
    lose_lineage(&w);
    turn_until(&w, rests);
    FAKE.hold_reads = true;
    checkpoint_sweep_due(w.nx.node);
    for (int64_t end = mob_now() + NX_PATIENCE_NS; fake_gcs_reads_waiting(w.nx.node->gcs) == 0;
         nx_turn(&w.nx, 1))
        assert_true(mob_now() < end);
    fake_gcs_set(MOB_GCS_CHECKPOINTS, &w.actor, sizeof w.actor, "newer", 5); /* it has been listed */
    FAKE.hold_reads = false;
    turn_until(&w, rests);
    assert_true(kept(&w));
    look(&w);
    assert_false(kept(&w));
    nx_close_with(&w.nx, &w.driver);
}

static void a_lineage_that_does_not_answer_has_not_let_go_of_it(void **state)
{
    (void)state;
    struct world w;
    nx_look_up_patience_ns = 1;
    open_checkpointed(&w);
    end_actor(&w);
    lose_lineage(&w);
    FAKE.group_reads = MOB_UNAVAILABLE;
    look(&w);
    assert_true(kept(&w));
    assert_true(checkpoint_sweep_next(w.nx.node) < mob_now() + 600 * MOB_SEC); /* it is asked again */
    FAKE.group_reads = MOB_OK;
    nx_restart(&w.nx, 2);
    turn_until(&w, is_gone);
    nx_look_up_patience_ns = 0;
    nx_close_with(&w.nx, &w.driver);
}

/* Its row is written when nobody remembers the actor, and everything has been looked at. */
static void a_checkpoint_that_comes_late_leaves_no_row(void **state)
{
    (void)state;
    struct world w = {0};
    nx_dead_actors_max = 1;
    nx_open_with(&w.nx, 2, &w.driver);
    create(&w);
    FAKE.hold_acks = true;
    call(&w);
    checkpoint(&w);
    for (int i = 0; i < 2; i++) {
        struct mob_actor_id other = i == 0 ? w.actor : nx_create(&w.driver);
        nx_settle(&w.nx);
        assert_int_equal(node_actor_kill(w.nx.node, other, true), MOB_OK);
    }
    nx_settle(&w.nx);
    assert_null(node_actor_find(w.nx.node, w.actor));
    look(&w);
    assert_false(kept(&w));
    nx_cut(FAKE.block_count);
    FAKE.hold_acks = false;
    turn_until(&w, kept);
    turn_until(&w, is_gone);
    nx_let_go(&w.worker);
    nx_dead_actors_max = 0;
    nx_close_with(&w.nx, &w.driver);
}

static void age(struct world *w)
{
    w->nx.node->next_age_ns = 0;
    nx_turn(&w->nx, 5);
}

/* Retention is told that something went; nobody else says so. */
static void its_row_goes_when_a_block_of(struct world *w, struct mob_job_id job)
{
    end_actor(w);
    w->nx.node->options.retention_s = 0;
    lose_lineage(w);
    age(w);
    assert_true(checkpoint_sweep_next(w->nx.node) > mob_now() + 600 * MOB_SEC); /* nothing went */
    assert_true(kept(w));
    FAKE.dropped = job;
    age(w);
    age(w);
    turn_until(w, is_gone);
    nx_close_with(&w->nx, &w->driver);
}

static void what_ages_is_followed_by_a_look(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    its_row_goes_when_a_block_of(&w, mob_job_system());
}

static void what_ages_of_an_ended_job_is_too(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    struct node_job *job = node_job_by_id(w.nx.node, w.driver.welcome.job);
    node_job_end(w.nx.node, job, true);
    its_row_goes_when_a_block_of(&w, job->id);
}

/* The node was killed when its job's end was written, and the actor's was not. */
static void an_actor_that_ended_with_its_job_leaves_no_row(void **state)
{
    (void)state;
    struct world w;
    open_checkpointed(&w);
    FAKE.hold_acks = true;
    node_job_end(w.nx.node, node_job_by_id(w.nx.node, w.driver.welcome.job), true);
    nx_turn(&w.nx, 3);
    assert_true(row_is_there(MOB_GCS_ACTORS, w.actor));
    nx_end(&w.nx);
    nx_let_go(&w.worker);
    FAKE.hold_acks = false;
    nx_start(&w.nx, 2);
    nx_settle(&w.nx);
    assert_null(node_actor_find(w.nx.node, w.actor));
    assert_false(row_is_there(MOB_GCS_ACTORS, w.actor));
    assert_true(kept(&w)); /* its lineage is there */
    lose_lineage(&w);
    look(&w);
    assert_false(kept(&w));
    nx_close_with(&w.nx, &w.driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_actors_row_goes_with_its_lineage),
        cmocka_unit_test(a_living_actors_row_stays_without_its_lineage),
        cmocka_unit_test(an_actor_whose_id_comes_again_begins_anew),
        cmocka_unit_test(what_removes_another_ones_state_does_not_come_behind_its_own),
        cmocka_unit_test(a_row_of_an_actor_that_is_not_here_stays_with_its_actors),
        cmocka_unit_test(what_a_killed_node_has_left_goes_when_the_next_starts),
        cmocka_unit_test(a_checkpoint_that_is_written_over_it_meanwhile_stays),
        cmocka_unit_test(a_lineage_that_does_not_answer_has_not_let_go_of_it),
        cmocka_unit_test(a_checkpoint_that_comes_late_leaves_no_row),
        cmocka_unit_test(what_ages_is_followed_by_a_look),
        cmocka_unit_test(what_ages_of_an_ended_job_is_too),
        cmocka_unit_test(an_actor_that_ended_with_its_job_leaves_no_row),
    };
    return cmocka_run_group_tests_name("checkpoint sweep", tests, NULL, NULL);
}
