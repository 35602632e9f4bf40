/* Calls of methods that only read (GCS.md "Actors", 7): they stand among the others, take no position and no
 * edge, are replayed by nobody, and what they gave is told again, or made again from the state that they saw.
 */
#include "tests/unit/runtime/node/node_fixture.h"

#include "runtime/node/actor_record.h"

enum { BYTES = 5000 };

struct world {
    struct nx nx;
    struct nx_driver driver;
    struct nx_worker worker;
    struct mob_actor_id actor;
    bool slow_reads;
};

/* The next task is this one, at this position. */
static void take_call(struct world *w, struct mob_task_id call, uint64_t position)
{
    nx_await_task(&w->nx, &w->worker);
    assert_int_equal(w->worker.head.kind, MOB_KIND_ACTOR_CALL);
    assert_int_equal(w->worker.head.task.index, call.index);
    assert_int_equal(w->worker.position, position);
}

static void run(struct world *w, struct mob_task_id call, uint64_t position)
{
    take_call(w, call, position);
    nx_complete(&w->worker, call.index, MOB_OK);
    nx_settle(&w->nx);
}

static void start_worker(struct world *w, uint32_t started)
{
    nx_await_creation(&w->nx, &w->worker, started);
    nx_complete(&w->worker, 0, MOB_OK);
    nx_settle(&w->nx);
}

static void open_world(struct world *w)
{
    *w = (struct world){0};
    nx_open_with(&w->nx, 2, &w->driver);
    w->actor = nx_create(&w->driver);
    start_worker(w, 0);
}

static void close_world(struct world *w)
{
    nx_let_go(&w->worker);
    nx_close_with(&w->nx, &w->driver);
}

static struct mob_task_id called(struct world *w, uint64_t position)
{
    struct mob_task_id call = nx_call(&w->driver, w->actor);
    run(w, call, position);
    return call;
}

static struct mob_task_id was_read(struct world *w, uint64_t behind)
{
    struct mob_task_id call = nx_read(&w->driver, w->actor);
    run(w, call, behind);
    return call;
}

/* The worker dies, and another one is the actor now. */
static void lose_worker(struct world *w)
{
    uint32_t started = w->nx.node->pool->started_count;
    nx_kill(&w->nx, &w->worker);
    start_worker(w, started);
}

/* And its memory. */
static void lose_node(struct world *w)
{
    nx_let_go(&w->worker);
    nx_end(&w->nx);
    nx_disconnect(&w->driver);
    nx_start(&w->nx, 2);
    FAKE.hold_reads = w->slow_reads; /* what the next node asks for when it is up */
    nx_connect(&w->nx, &w->driver, NULL);
}

static void nothing_runs(struct world *w)
{
    nx_settle(&w->nx);
    assert_false(nx_take_task(&w->worker));
}

/* ---- what the log says ---- */

struct told {
    struct mob_task_id task;
    uint32_t edges, specs, ends;
    uint16_t flags;
    uint64_t position;
};

static void note(void *arg, const struct mob_entry *e)
{
    struct told *told = arg;
    if (e->type == MOB_ENTRY_SPEC && mob_task_id_eq(e->spec.head.task, told->task)) {
        told->specs++;
        told->flags = e->spec.head.flags;
    } else if ((e->type == MOB_ENTRY_EDGE || e->type == MOB_ENTRY_SKIP) &&
        mob_task_id_eq(e->edge.task, told->task)) {
        told->edges++;
    } else if (e->type == MOB_ENTRY_COMPLETION && mob_task_id_eq(e->completion.head.task, told->task) &&
        (e->completion.head.flags & MOB_COMPLETION_FINAL)) {
        told->ends++;
        told->position = e->completion.head.position;
    }
}

static void assert_logged(struct mob_task_id task, bool reads, uint64_t position)
{
    struct told told = {.task = task};
    nx_each_entry(note, &told);
    assert_int_equal(told.specs, 1);
    assert_int_equal(told.ends, 1);
    assert_int_equal(told.edges, !reads);
    assert_int_equal((told.flags & MOB_SPEC_READ_ONLY) != 0, reads);
    assert_int_equal(told.position, position);
}

static void what_reads_has_no_edge(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    struct mob_task_id first = called(&w, 0), read = was_read(&w, 1), again = was_read(&w, 1);
    struct mob_task_id second = called(&w, 1), last = was_read(&w, 2);
    assert_logged(first, false, 0);
    assert_logged(read, true, 1);
    assert_logged(again, true, 1);
    assert_logged(second, false, 1);
    assert_logged(last, true, 2);
    assert_int_equal(node_actor_find(w.nx.node, w.actor)->life.next_position, 2);
    close_world(&w);
}

/* The class says it, and not who calls. */
static void a_caller_does_not_decide_what_reads(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    struct mob_spec_head head = nx_next(&w.driver, MOB_KIND_ACTOR_CALL);
    head.actor = w.actor;
    head.flags = MOB_SPEC_READ_ONLY;
    nx_spec(w.driver.store, &head, NULL);
    run(&w, head.task, 0);
    assert_logged(head.task, false, 0);
    close_world(&w);
}

/* One that is cancelled leaves nothing for replays to pass over. */
static void what_reads_and_is_cancelled_has_no_edge(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    struct mob_object_id never = mob_object_of(w.driver.welcome.root, MOB_SLOT_PUT | 9);
    nx_promise(&w.driver, never);
    struct mob_spec_head head = nx_next(&w.driver, MOB_KIND_ACTOR_CALL);
    head.actor = w.actor;
    head.method = 1;
    nx_spec(w.driver.store, &head, &never);
    struct mob_out_cancel cancel = {.task = head.task};
    nx_publish(w.driver.store, MOB_OUT_CANCEL, &cancel, sizeof cancel, NULL, 0);
    nx_settle(&w.nx);
    assert_logged(head.task, true, 0);
    called(&w, 0);
    close_world(&w);
}

/* Its end is written after it came, so what acknowledges that says that the log was nobody else's since. */
static void what_was_read_is_told_when_its_end_is_acknowledged(void **state)
{
    (void)state;
    struct world w;
    enum mob_status status;
    open_world(&w);
    FAKE.hold_acks = true;
    struct mob_task_id read = was_read(&w, 0);
    assert_false(nx_told(w.driver.store, mob_object_of(read, 0), &status));
    FAKE.hold_acks = false;
    nx_settle(&w.nx);
    assert_true(nx_told(w.driver.store, mob_object_of(read, 0), &status));
    assert_int_equal(status, MOB_OK);
    close_world(&w);
}

/* ---- over deaths ---- */

static void a_restart_repeats_no_reads(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    struct mob_task_id first = called(&w, 0), read = was_read(&w, 1), second = called(&w, 1);
    (void)was_read(&w, 2);
    for (int again = 0; again < 2; again++) {
        if (again == 0) {
            lose_worker(&w);
        } else {
            lose_node(&w);
            start_worker(&w, 0);
        }
        run(&w, first, 0);
        run(&w, second, 1);
        nothing_runs(&w);
    }
    enum mob_status status;
    nx_watch(w.driver.store, mob_object_of(read, 0));
    nx_settle(&w.nx);
    assert_true(nx_told(w.driver.store, mob_object_of(read, 0), &status));
    assert_int_equal(status, MOB_OK);
    nothing_runs(&w);
    close_world(&w);
}

/* It runs again on the state that it would have seen, before what came behind it. */
static void a_read_that_dies_runs_again_in_its_place(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    struct mob_task_id first = called(&w, 0), second = called(&w, 1);
    struct mob_task_id reads[2] = {nx_read(&w.driver, w.actor), nx_read(&w.driver, w.actor)};
    struct mob_task_id behind = nx_call(&w.driver, w.actor);
    nx_settle(&w.nx);
    take_call(&w, reads[0], 2);
    lose_worker(&w);
    run(&w, first, 0);
    run(&w, second, 1);
    run(&w, reads[0], 2);
    run(&w, reads[1], 2);
    run(&w, behind, 2);
    assert_logged(reads[0], true, 2);
    close_world(&w);
}

/* Else it would take one worker after the other with it. */
static void a_read_that_ends_its_workers_gives_up(void **state)
{
    (void)state;
    struct world w;
    enum mob_status status;
    open_world(&w);
    struct mob_task_id read = nx_read(&w.driver, w.actor);
    for (int deaths = 0; deaths < 4; deaths++) { /* three retries */
        take_call(&w, read, 0);
        uint32_t started = w.nx.node->pool->started_count;
        struct node_actor *actor = node_actor_find(w.nx.node, w.actor);
        actor->life.failures = 0; /* no back-off: time is real */
        nx_kill(&w.nx, &w.worker);
        start_worker(&w, started);
    }
    nx_settle(&w.nx);
    assert_true(nx_told(w.driver.store, mob_object_of(read, 0), &status));
    assert_int_equal(status, MOB_WORKER_DIED);
    called(&w, 0);
    close_world(&w);
}

static void a_read_that_had_not_ended_runs_in_the_next_node(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    struct mob_task_id first = called(&w, 0), read = nx_read(&w.driver, w.actor);
    nx_settle(&w.nx);
    lose_node(&w);
    start_worker(&w, 0);
    run(&w, first, 0);
    run(&w, read, 1);
    assert_logged(read, true, 1);
    called(&w, 1);
    close_world(&w);
}

/* ---- lost results ---- */

/* The worker's task ends with BYTES times this byte, which it seals, unless it makes it again. */
static void end_large(struct world *w, uint8_t with)
{
    static uint8_t own[BYTES + 256] __attribute__((aligned(64)));
    struct mob_object_id id = mob_object_of(w->worker.head.task, 0);
    struct mob_object_ref ref;
    void *full;
    uint8_t *payload;
    uint64_t size;
    assert_int_equal(mob_value_full_size(BYTES, 0, 0, &size), MOB_OK);
    bool made = mob_store_object_create(w->worker.store, id, size, &ref, &full) == MOB_OK;
    if (!made)
        full = own;
    assert_int_equal(mob_value_init(full, size, MOB_TYPE_BYTES, BYTES, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, with, BYTES);
    mob_value_hash(full);
    struct mob_return_view view = {.type = MOB_TYPE_BYTES,
        .flags = MOB_RETURN_STORED,
        .size = size,
        .hash = mob_hash128(payload, BYTES)};
    nx_publish_completion(&w->worker, &view, MOB_OK);
    if (made && !(w->worker.flags & MOB_IN_SPEC_REMAKES))
        mob_store_object_seal(w->worker.store, ref);
    nx_settle(&w->nx);
}

static struct mob_task_id large_was_read(struct world *w, uint64_t behind, uint8_t with)
{
    struct mob_task_id call = nx_read(&w->driver, w->actor);
    take_call(w, call, behind);
    end_large(w, with);
    return call;
}

static void assert_made(struct world *w, struct mob_task_id call, uint8_t with)
{
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    struct mob_value_view view;
    enum mob_status status;
    struct mob_object_id id = mob_object_of(call, 0);
    for (int64_t end = mob_now() + NX_PATIENCE_NS; !nx_told(w->driver.store, id, &status); nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
    assert_int_equal(status, MOB_OK);
    assert_int_equal(mob_store_object_bytes(w->nx.node->store, id, true, &type, &bytes, &size), MOB_OK);
    assert_int_equal(mob_value_open(bytes, size, &view), MOB_OK);
    assert_int_equal(view.payload[0], with);
}

/* By the actor itself, whose replay has not come past it. */
static void a_lost_read_is_made_by_the_replay(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    struct mob_task_id first = called(&w, 0), read = large_was_read(&w, 1, 7), second = called(&w, 1);
    lose_node(&w);
    nx_watch(w.driver.store, mob_object_of(read, 0));
    nx_settle(&w.nx);
    start_worker(&w, 0);
    run(&w, first, 0);
    take_call(&w, read, 1);
    end_large(&w, 7);
    assert_made(&w, read, 7);
    run(&w, second, 1);
    nothing_runs(&w);
    close_world(&w);
}

/* By a shadow, which runs what stood before it, and nothing else: the actor is past it, or dead. */
static void a_lost_read_is_made_by_a_shadow(void **state)
{
    (void)state;
    for (int dead = 0; dead < 2; dead++) {
        struct world w;
        open_world(&w);
        struct mob_task_id first = called(&w, 0), read = large_was_read(&w, 1, 7), second = called(&w, 1);
        struct nx_worker actors = {0};
        if (dead)
            assert_int_equal(node_actor_kill(w.nx.node, w.actor, true), MOB_OK);
        nx_settle(&w.nx);
        lose_node(&w);
        uint32_t started = 0;
        if (!dead) {
            start_worker(&w, 0);
            run(&w, first, 0);
            run(&w, second, 1);
            actors = w.worker;
            started = w.nx.node->pool->started_count;
        }
        nx_watch(w.driver.store, mob_object_of(read, 0));
        start_worker(&w, started);
        run(&w, first, 0);
        take_call(&w, read, 1);
        end_large(&w, 7);
        assert_made(&w, read, 7);
        nothing_runs(&w);
        if (!dead)
            nx_let_go(&actors);
        close_world(&w);
    }
}

/* What stood before it is the actor's own to repeat until then: no call runs under one id twice. */
static void a_shadow_waits_until_the_actor_has_repeated_its_calls(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    struct mob_task_id first = called(&w, 0), read = large_was_read(&w, 1, 7), second = called(&w, 1);
    lose_node(&w);
    start_worker(&w, 0); /* both are sent */
    uint32_t started = w.nx.node->pool->started_count;
    nx_watch(w.driver.store, mob_object_of(read, 0));
    nx_settle(&w.nx);
    assert_int_equal(w.nx.node->pool->started_count, started);
    run(&w, first, 0);
    run(&w, second, 1);
    struct nx_worker actors = w.worker;
    start_worker(&w, started);
    run(&w, first, 0);
    take_call(&w, read, 1);
    end_large(&w, 7);
    assert_made(&w, read, 7);
    nx_let_go(&actors);
    close_world(&w);
}

/* The value is what it was when it was told, or an error. */
static void a_lost_read_that_comes_to_something_else_is_told(void **state)
{
    (void)state;
    struct world w;
    enum mob_status status;
    open_world(&w);
    struct mob_task_id first = called(&w, 0), read = large_was_read(&w, 1, 7);
    lose_node(&w);
    nx_watch(w.driver.store, mob_object_of(read, 0));
    nx_settle(&w.nx);
    start_worker(&w, 0);
    run(&w, first, 0);
    take_call(&w, read, 1);
    end_large(&w, 8);
    assert_true(nx_told(w.driver.store, mob_object_of(read, 0), &status));
    assert_int_equal(status, MOB_REPLAY_DIVERGED);
    assert_int_equal(node_actor_find(w.nx.node, w.actor)->life.state, MOB_ACTOR_ALIVE);
    close_world(&w);
}

static uint32_t reads_waiting(const struct world *w)
{
    uint32_t count = 0;
    for (const struct fake_op *op = w->nx.node->gcs->ops; op; op = op->next)
        count += op->kind == FAKE_READ && !op->all;
    return count;
}

/* The second of two questions is answered: what the creation did before, which the worker waits for. The
 * first, of the input that is missing, is not. */
static void answer_behind_first(struct world *w)
{
    for (int64_t end = mob_now() + NX_PATIENCE_NS; reads_waiting(w) < 2; nx_turn(&w->nx, 1))
        assert_true(mob_now() < end);
    fake_gcs_answer_read(w->nx.node->gcs, 1);
}

/* A call whose argument is what was read before it: the replay cannot go on without, and has it from its own
 * worker, or, when that is past the read by the time it is asked for, from a shadow that runs beside it. */
static void a_replay_that_needs_a_lost_read_goes_on(void **state)
{
    (void)state;
    for (int past = 0; past < 2; past++) {
        struct world w;
        open_world(&w);
        struct mob_task_id first = called(&w, 0), read = large_was_read(&w, 1, 7), second = called(&w, 1);
        struct mob_object_id result = mob_object_of(read, 0);
        struct mob_spec_head head = nx_next(&w.driver, MOB_KIND_ACTOR_CALL);
        head.actor = w.actor;
        nx_spec(w.driver.store, &head, &result);
        run(&w, head.task, 2);
        w.slow_reads = past;
        lose_node(&w);
        struct nx_worker actors = {0};
        if (past) {
            answer_behind_first(&w);
            start_worker(&w, 0);
            run(&w, first, 0);
            run(&w, second, 1);
            nothing_runs(&w);
            FAKE.hold_reads = false;
            actors = w.worker;
            start_worker(&w, w.nx.node->pool->started_count);
        } else {
            nx_settle(&w.nx);
            start_worker(&w, 0);
        }
        run(&w, first, 0);
        take_call(&w, read, 1);
        end_large(&w, 7);
        if (past) {
            nothing_runs(&w); /* of the shadow */
            nx_let_go(&w.worker);
            w.worker = actors;
        } else {
            run(&w, second, 1);
        }
        run(&w, head.task, 2);
        nothing_runs(&w);
        close_world(&w);
    }
}

/* ---- logs of before ---- */

static void with_the_flag(struct mob_block_encoder *encoder, const struct mob_entry *e)
{
    struct mob_spec_head head;
    enum mob_status status = MOB_INVALID;
    if (e->type == MOB_ENTRY_SPEC) {
        head = e->spec.head;
        if (head.kind == MOB_KIND_ACTOR_CALL && head.method == 1)
            head.flags |= MOB_SPEC_READ_ONLY;
        status = mob_block_add_spec(encoder, &head, e->spec.tail, e->spec.tail_bytes, e->submitted_ns);
    } else if (e->type == MOB_ENTRY_COMPLETION) {
        status = mob_block_add_completion(encoder, &e->completion.head, e->completion.body);
    } else if (e->type == MOB_ENTRY_EDGE) {
        status = mob_block_add_edge(encoder, &e->edge);
    } else if (e->type == MOB_ENTRY_ACTOR) {
        status = mob_block_add_other(encoder, e->type, &e->actor, sizeof e->actor, NULL, 0);
    } else if (e->type == MOB_ENTRY_EVENT) {
        status =
            mob_block_add_other(encoder, e->type, &e->event, sizeof e->event, e->payload, e->payload_bytes);
    } else if (e->type == MOB_ENTRY_JOB) {
        status = mob_block_add_other(encoder, e->type, NULL, 0, e->payload, e->payload_bytes);
    }
    if (status != MOB_OK)
        fail_msg("entry of type %d: %d", (int)e->type, (int)status);
}

/* The logs say of calls of method 1 that they only read, beside their edges: as callers of one module had it.
 */
static void flag_calls_in_logs(void)
{
    static struct mob_zone_map zone;
    static uint8_t bytes[MOB_BLOCK_BYTES_MAX];
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    struct mob_block_encoder *encoder = mob_block_encoder_create();
    for (uint32_t i = 0; i < FAKE.block_count; i++) {
        struct fake_block *block = &FAKE.blocks[i];
        struct mob_block_header header;
        struct mob_entry entry;
        assert_int_equal(mob_block_open(decoder, block->bytes, block->length, &header, &zone), MOB_OK);
        mob_block_begin(encoder, &header);
        while (mob_block_next(decoder, &entry) == MOB_OK)
            with_the_flag(encoder, &entry);
        block->length = mob_block_end(encoder, bytes);
        free(block->bytes);
        block->bytes = malloc(block->length);
        memcpy(block->bytes, bytes, block->length);
    }
    mob_block_decoder_destroy(decoder);
    mob_block_encoder_destroy(encoder);
}

/* Calls of a method that was not known to read when they came: they have edges, and are replayed by them,
 * whatever the class or the flag of their specs says by now. */
static void edges_of_before_are_replayed(void **state)
{
    (void)state;
    for (int flagged = 0; flagged < 2; flagged++) {
        struct world w = {0};
        nx_open(&w.nx, 2);
        nx_end(&w.nx);
        nx_deploy("t.Actor", MOB_KIND_ACTOR_CREATE, 1, NX_CLASS);
        nx_start(&w.nx, 2);
        nx_connect(&w.nx, &w.driver, NULL);
        w.actor = nx_create(&w.driver);
        start_worker(&w, 0);
        struct mob_task_id first = called(&w, 0), read = was_read(&w, 1), second = called(&w, 2);
        struct mob_task_id large = nx_read(&w.driver, w.actor);
        take_call(&w, large, 3);
        end_large(&w, 5);
        struct mob_task_id unfinished = nx_read(&w.driver, w.actor);
        nx_settle(&w.nx);
        assert_logged(read, false, 1);
        if (flagged)
            flag_calls_in_logs();
        nx_deploy("t.Actor", MOB_KIND_ACTOR_CREATE, 2, NX_CLASS);
        lose_node(&w);
        nx_watch(w.driver.store, mob_object_of(large, 0));
        start_worker(&w, 0);
        run(&w, first, 0);
        run(&w, read, 1);
        run(&w, second, 2);
        take_call(&w, large, 3);
        end_large(&w, 5);
        assert_made(&w, large, 5);
        run(&w, unfinished, 4);
        struct mob_task_id now = was_read(&w, 5);
        assert_logged(now, true, 5);
        called(&w, 5);
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_reads_has_no_edge),
        cmocka_unit_test(a_caller_does_not_decide_what_reads),
        cmocka_unit_test(what_reads_and_is_cancelled_has_no_edge),
        cmocka_unit_test(what_was_read_is_told_when_its_end_is_acknowledged),
        cmocka_unit_test(a_restart_repeats_no_reads),
        cmocka_unit_test(a_read_that_dies_runs_again_in_its_place),
        cmocka_unit_test(a_read_that_ends_its_workers_gives_up),
        cmocka_unit_test(a_read_that_had_not_ended_runs_in_the_next_node),
        cmocka_unit_test(a_lost_read_is_made_by_the_replay),
        cmocka_unit_test(a_lost_read_is_made_by_a_shadow),
        cmocka_unit_test(a_shadow_waits_until_the_actor_has_repeated_its_calls),
        cmocka_unit_test(a_lost_read_that_comes_to_something_else_is_told),
        cmocka_unit_test(a_replay_that_needs_a_lost_read_goes_on),
        cmocka_unit_test(edges_of_before_are_replayed),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
