/* Random nested programs on workers that this test plays, record by record, in a random order: whatever the
 * node lets run on top of what, each task runs once, and all come to their end.
 *
 * MOBULA_TEST_SEEDS = how many programs, MOBULA_TEST_SEED = the first (a failing one is printed).
 */
#include "runtime/node/take_back.h"
#include "tests/unit/runtime/node/node_fixture.h"

enum {
    TASKS_MAX = 4096,
    SPECS_MAX = 2048,
    FRAMES_MAX = 8,
    CHILDREN_MAX = 4,
    DEPTH = 4,
    ROOTS = 5,
    TAKE_BACK_EVERY = 60, /* steps: what is taken back is sent again, and has to be read */
    STEPS_MAX = 400000
};

/* ---- chance ---- */

static uint64_t chance;

static uint32_t draw(uint32_t n)
{
    chance = chance * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(chance >> 33) % n;
}

/* ---- tasks ---- */

struct task {
    struct mob_task_id id;
    uint32_t depth, runs;
    bool ended;
};
static struct task tasks[TASKS_MAX];
static uint32_t task_count;

static struct task *task_of(struct mob_task_id id)
{
    for (uint32_t i = 0; i < task_count; i++)
        if (mob_task_id_eq(tasks[i].id, id))
            return &tasks[i];
    fail_msg("a task that nobody submitted");
    return NULL;
}

static void note_task(struct mob_task_id id, uint32_t depth)
{
    assert_true(task_count < TASKS_MAX);
    tasks[task_count++] = (struct task){.id = id, .depth = depth};
}

/* ---- workers ---- */

struct frame { /* of one task on a worker's stack */
    struct mob_spec_head head;
    uint32_t gets; /* so far */
    struct mob_task_id needs[CHILDREN_MAX + 1]; /* in the order in which they are got */
    uint32_t need_count;
    bool waits, blocked, refused;
    uint32_t suspended; /* number; 0 = not, or answered */
};
struct sim_worker {
    struct mob_spec_head slots[MOB_HEAD_SLOTS]; /* heads that siblings repeat */
    struct nx_worker at; /* .head: of the last spec in its ring */
    struct mob_spec_head specs[SPECS_MAX];
    uint32_t spec_begin, spec_end;
    uint32_t revokes, suspends, number;
    struct mob_in_nest nest;
    struct frame frames[FRAMES_MAX];
    uint32_t depth; /* frames in use */
};
static struct sim_worker *workers[FAKE_WORKERS_MAX];
static uint32_t worker_count;
static struct nx nx;
static struct nx_driver driver;
static uint32_t on_top, most_levels, taken_back; /* of all programs: that it was tried at all */

static bool there(struct mob_task_id id)
{
    struct mob_object_info info;
    return mob_store_object_info(nx.node->store, mob_object_of(id, 0), &info) && info.sealed;
}

/* What stands behind that task is others' now. */
static void take_back(struct sim_worker *w, const uint8_t *body)
{
    struct mob_task_id last;
    memcpy(&last, body, sizeof last);
    uint32_t end = w->spec_begin;
    for (uint32_t i = w->spec_begin; i < w->spec_end; i++)
        if (mob_task_id_eq(w->specs[i].task, last))
            end = i + 1;
    taken_back += w->spec_end - end;
    w->spec_end = end;
}

static void take_record(struct sim_worker *w, const struct mob_record *record, const uint8_t *body)
{
    struct mob_in_spec in;
    switch (record->type) {
    case MOB_IN_SPEC:
        memcpy(&w->at.head, body + sizeof in, sizeof w->at.head);
        w->slots[record->aux % MOB_HEAD_SLOTS] = w->at.head;
        break;
    case MOB_IN_SIBLING:
        w->at.head = w->slots[record->aux % MOB_HEAD_SLOTS];
        memcpy(&w->at.head.task.index, body + 8, 4);
        break;
    case MOB_IN_REVOKED:
        assert_true(w->revokes-- > 0);
        return;
    case MOB_IN_NEST:
        assert_true(w->suspends-- > 0);
        memcpy(&w->nest, body, sizeof w->nest);
        if (w->nest.status == MOB_OK)
            w->spec_begin = w->spec_end;
        return;
    case MOB_IN_TAKEN_BACK:
        take_back(w, body);
        return;
    default:
        return;
    }
    if (w->revokes > 0)
        return;
    assert_true(w->spec_end < SPECS_MAX);
    w->specs[w->spec_end++] = w->at.head;
}

static void read_some(struct sim_worker *w, uint32_t most)
{
    struct mob_record record;
    const uint8_t *body;
    for (uint32_t n = most; n > 0 && (body = mob_store_in_peek(w->at.store, &record)) != NULL; n--) {
        take_record(w, &record, body);
        mob_store_in_pop(w->at.store);
    }
    mob_store_in_release(w->at.store);
}

/* At a random place: what was there comes last. */
static void add_need(struct frame *f, struct mob_task_id task)
{
    uint32_t place = draw(f->need_count + 1);
    f->needs[f->need_count++] = f->needs[place];
    f->needs[place] = task;
}

/* The first of its specs begins; not before it has read what the node wants it to read first. */
static bool begins(struct sim_worker *w)
{
    if (mob_store_in_begin(w->at.store))
        return true;
    read_some(w, UINT32_MAX);
    return false;
}

/* Children of the task, each of which may need the one before it. */
static void start(struct sim_worker *w)
{
    struct frame *f = &w->frames[w->depth++];
    *f = (struct frame){.head = w->specs[w->spec_begin++]};
    struct task *task = task_of(f->head.task);
    assert_int_equal(task->runs++, 0);
    uint32_t depth = task->depth;
    uint32_t children = depth == 0 ? 0 : draw(CHILDREN_MAX + 1);
    for (uint32_t i = 0; i < children; i++) {
        struct mob_spec_head head = nx_head(f->head.task, driver.welcome.job, i, MOB_KIND_TASK);
        struct mob_object_id before = mob_object_of(head.task, 0);
        before.task.index = i - 1;
        note_task(head.task, depth - 1);
        nx_spec(w->at.store, &head, i > 0 && draw(3) == 0 ? &before : NULL);
        add_need(f, head.task);
    }
    /* It knows the id of the one that was submitted before it, and waits for that one, too. */
    if (depth < DEPTH && f->head.task.index > 0 && draw(3) == 0)
        add_need(f, (struct mob_task_id){f->head.task.stream, f->head.task.index - 1});
}

static void end(struct sim_worker *w)
{
    struct frame *f = &w->frames[--w->depth];
    struct nx_worker as = w->at;
    as.head = f->head;
    task_of(f->head.task)->ended = true;
    nx_complete(&as, 1, MOB_OK);
    if (w->depth > 0) { /* the one below looks again, and may ask again */
        w->frames[w->depth - 1].suspended = 0;
        w->frames[w->depth - 1].refused = false;
    }
}

static void publish_id(struct sim_worker *w, uint8_t type, struct mob_task_id id)
{
    nx_publish(w->at.store, type, &id, sizeof id, NULL, 0);
}

static void ask(struct sim_worker *w, struct frame *f, struct mob_task_id needed)
{
    struct mob_out_suspended head = {.task = f->head.task, .number = ++w->number};
    struct mob_object_id id = mob_object_of(needed, 0);
    struct mob_piece pieces[] = {{&head, sizeof head}, {&id, sizeof id}};
    assert_int_equal(mob_store_publish(w->at.store, MOB_OUT_SUSPENDED, 0, 1, pieces, 2), MOB_OK);
    f->suspended = w->number;
    w->suspends++;
}

static void wait_on(struct sim_worker *w, struct frame *f, struct mob_task_id needed)
{
    bool answered = f->suspended != 0 && w->nest.number == f->suspended;
    if (answered && w->nest.status != MOB_OK) {
        f->suspended = 0;
        f->refused = true;
    } else if (answered && w->spec_begin < w->spec_end && w->depth < FRAMES_MAX &&
        mob_task_id_eq(w->specs[w->spec_begin].task, w->nest.task)) {
        if (!begins(w))
            return;
        on_top++;
        start(w);
        most_levels = w->depth > most_levels ? w->depth : most_levels;
    } else if (!f->blocked && f->suspended == 0 && !f->refused && w->revokes == 0 && draw(4) > 0) {
        ask(w, f, needed);
    } else if (!f->blocked && draw(f->suspended != 0 ? 30 : 3) == 0) {
        publish_id(w, MOB_OUT_BLOCKED, f->head.task);
        w->spec_begin = w->spec_end;
        w->revokes++;
        f->blocked = true;
        f->suspended = 0;
    }
}

static void run(struct sim_worker *w)
{
    struct frame *f = &w->frames[w->depth - 1];
    if (f->gets == f->need_count) {
        end(w);
        return;
    }
    struct mob_task_id needed = f->needs[f->gets];
    if (!there(needed)) {
        wait_on(w, f, needed);
        return;
    }
    if (f->blocked || f->suspended != 0)
        publish_id(w, MOB_OUT_UNBLOCKED, f->head.task);
    f->blocked = f->refused = false;
    f->suspended = 0;
    f->gets++;
}

static void step(struct sim_worker *w)
{
    read_some(w, draw(4));
    if (w->depth > 0)
        run(w);
    else if (w->suspends == 0 && w->spec_begin < w->spec_end && begins(w))
        start(w);
}

static void meet_new_workers(void)
{
    struct mob_pool *pool = nx.node->pool;
    for (; worker_count < pool->started_count; worker_count++) {
        struct sim_worker *w = calloc(1, sizeof *w);
        assert_non_null(w);
        assert_int_equal(mob_store_attach(mob_store_memfd(nx.node->store), mob_store_eventfd(nx.node->store),
                             pool->started[worker_count].welcome.slot, &w->at.store),
            MOB_OK);
        workers[worker_count] = w;
    }
}

/* ---- programs ---- */

static bool all_ended(void)
{
    for (uint32_t i = 0; i < task_count; i++)
        if (!tasks[i].ended)
            return false;
    return true;
}

static void run_program(uint64_t seed)
{
    chance = seed * 77 + 13;
    task_count = worker_count = 0;
    nx_nest_max = 1 + draw(FRAMES_MAX - 2);
    nx_open(&nx, 1 + draw(3));
    nx_connect(&nx, &driver, NULL);
    for (uint32_t i = 0; i < ROOTS; i++)
        note_task(nx_submit(&driver), DEPTH);
    uint32_t steps = 0;
    for (; steps < STEPS_MAX && !all_ended(); steps++) {
        meet_new_workers();
        if (worker_count == 0 || draw(4) == 0)
            nx_turn(&nx, 1);
        else if (draw(TAKE_BACK_EVERY) == 0)
            node_take_back(nx.node, draw(worker_count));
        else
            step(workers[draw(worker_count)]);
    }
    nx_turn(&nx, 3);
    struct mob_sched_stats stats;
    mob_sched_stats(nx.node->sched, &stats);
    if (!all_ended() || stats.tasks > 0)
        fail_msg("seed %llu: %u of %u tasks are left after %u steps, %u of them blocked",
            (unsigned long long)seed, stats.tasks, task_count, steps, stats.by_state[MOB_SCHED_BLOCKED]);
    const char *wrong = mob_sched_check(nx.node->sched);
    if (wrong)
        fail_msg("seed %llu: %s", (unsigned long long)seed, wrong);
    for (uint32_t i = 0; i < worker_count; i++) {
        nx_let_go(&workers[i]->at);
        free(workers[i]);
    }
    nx_close_with(&nx, &driver);
}

static void random_programs_come_to_their_end(void **state)
{
    (void)state;
    const char *seeds = getenv("MOBULA_TEST_SEEDS"), *first = getenv("MOBULA_TEST_SEED");
    uint64_t count = seeds ? strtoull(seeds, NULL, 10) : 40, from = first ? strtoull(first, NULL, 10) : 1;
    for (uint64_t seed = from; seed < from + count; seed++)
        run_program(seed);
    if (count >= 40) {
        assert_true(on_top > 500);
        assert_true(most_levels > 3);
        assert_true(taken_back > 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs_come_to_their_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
