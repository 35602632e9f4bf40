/* Random programs (tasks, nested tasks, actor calls by the driver and by tasks, puts, errors, large results)
 * under random kill -9 of the node, its workers and zygote, the control store and its Redis, the driver,
 * alone and together: every result is that of a sequential run. The driver is a process of its own; this one
 * is the supervisor and the killer.
 *
 * MOBULA_CHAOS_SEEDS = how many programs (default 5, with sanitizers 2), MOBULA_CHAOS_SEED = the first (a
 * failing one is printed). ctest: timeout=300
 */
#include <mobula/mobula.h>

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/modules/chaos_model.h"
#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define SECONDS 1000000000ll
#define PATIENCE patience()

enum { NODES_MAX = 400, NODES_MIN = 80, ACTORS = 3, REFS_MAX = 3, BIG_BYTES = 150000, KILLS = 14 };

/* With the default, a task that four of the kills hit ends as worker-died, as it should. */
static const struct mob_submit_options outlives_kills = {
    .struct_size = sizeof outlives_kills, .max_retries = KILLS};

static int64_t patience(void)
{
    const char *seconds = getenv("MOBULA_CHAOS_PATIENCE");
    return (seconds != NULL ? atoll(seconds) : 100) * SECONDS;
}

struct random {
    uint64_t state;
};
static uint32_t draw(struct random *r, uint32_t n)
{
    r->state = r->state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(r->state >> 33) % n;
}

/* ---- the driver: a program and its sequential run ---- */

enum kind { MIX, SLOW, NEST, BLOB, STASH, PUT, PUT_LARGE, TRIP, STEP, OWN, KINDS };
static const char *const kind_names[] = {
    "mix", "slow", "nest", "blob", "stash", "put", "put-large", "trip", "step", "own-actor"};
struct dag_node {
    enum kind kind;
    int actor; /* of a step */
    int64_t input;
    struct mob_future *future;
    bool fails;
    int64_t value;
};
struct program {
    struct random random;
    struct mob_client *client;
    struct dag_node nodes[NODES_MAX];
    int count;
    struct mob_actor *actors[ACTORS];
    int64_t actor_state[ACTORS];
};

static void must(struct program *p, enum mob_status status, const char *what)
{
    if (status == MOB_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, mob_status_code(status),
        p->client == NULL ? mob_connect_error() : mob_client_error(p->client));
    _exit(1);
}

/* State of an actor after the steps up to `last`, with step `left_out` left out and `twice` done twice. */
static int64_t retold(const struct program *p, int last, int left_out, int twice)
{
    int64_t state = chaos_mix(p->nodes[last].actor, 0);
    for (int i = 0; i <= last; i++) {
        const struct dag_node *node = &p->nodes[i];
        if (node->kind != STEP || node->actor != p->nodes[last].actor || node->fails || i == left_out)
            continue;
        state = chaos_mix(state, node->input);
        if (i == twice)
            state = chaos_mix(state, node->input);
    }
    return state;
}

/* The same, with step `moved` done after step `behind`. */
static int64_t retold_moved(const struct program *p, int last, int moved, int behind)
{
    int64_t state = chaos_mix(p->nodes[last].actor, 0);
    for (int i = 0; i <= last; i++) {
        const struct dag_node *node = &p->nodes[i];
        bool done = node->kind == STEP && node->actor == p->nodes[last].actor && !node->fails;
        if (done && i != moved)
            state = chaos_mix(state, node->input);
        if (i == last && behind == -1)
            return state;
        if (i == behind)
            state = chaos_mix(state, p->nodes[moved].input);
    }
    return state;
}

static void explain_step(const struct program *p, int last, int64_t value)
{
    for (int i = 0; i <= last; i++) {
        const struct dag_node *node = &p->nodes[i];
        if (node->kind != STEP || node->actor != p->nodes[last].actor)
            continue;
        char id[MOB_TEXT_ID_MAX];
        mob_future_task_id(node->future, id);
        fprintf(stderr, "step %d of actor %d: %s input %lld %s%s\n", i, node->actor, id,
            (long long)node->input, node->fails ? "fails" : "", mob_ready(node->future) ? "ready" : "");
        for (int j = i + 1; j <= last; j++)
            if (retold_moved(p, last, i, j) == value)
                fprintf(stderr, "as if step %d had come after step %d\n", i, j);
    }
    for (int i = last + 1; i < p->count; i++) {
        const struct dag_node *node = &p->nodes[i];
        if (node->kind == STEP && node->actor == p->nodes[last].actor)
            fprintf(stderr, "later step %d: %s\n", i, node->fails ? "fails" : "");
        if (chaos_mix(chaos_mix(retold(p, last, last, -1), node->input), p->nodes[last].input) == value)
            fprintf(stderr, "as if step %d had come before it\n", i);
    }
    for (int i = 0; i <= last; i++) {
        if (retold(p, last, i, -1) == value)
            fprintf(stderr, "as if actor %d had not done step %d\n", p->nodes[last].actor, i);
        if (retold(p, last, -1, i) == value)
            fprintf(stderr, "as if actor %d had done step %d twice\n", p->nodes[last].actor, i);
        if (chaos_mix(chaos_mix(p->nodes[last].actor, 0), p->nodes[i].input) == value &&
            p->nodes[i].kind == STEP)
            fprintf(stderr, "as if actor %d had done step %d only\n", p->nodes[last].actor, i);
    }
}

static void check(struct program *p, int i)
{
    struct dag_node *node = &p->nodes[i];
    int64_t value = 0;
    enum mob_status status = mob_get_i64(node->future, PATIENCE, &value);
    bool good = node->fails ? status == MOB_TASK_FAILED || status == MOB_DEPENDENCY_FAILED
                            : status == MOB_OK && value == node->value;
    if (good)
        return;
    char id[MOB_TEXT_ID_MAX], *why = NULL;
    mob_future_task_id(node->future, id);
    fprintf(stderr, "node %d (%s, %s): %s %lld instead of %s %lld: %s\n", i, kind_names[node->kind], id,
        mob_status_code(status), (long long)value, node->fails ? "failure" : "OK", (long long)node->value,
        status != MOB_OK && status != MOB_TIMEOUT ? mob_future_error(node->future) : "");
    if (status == MOB_OK && node->kind == STEP)
        explain_step(p, i, value);
    if (status == MOB_TIMEOUT && mob_query(p->client, "why", id, 5 * SECONDS, &why) == MOB_OK)
        fprintf(stderr, "why: %s\n", why);
    if (status == MOB_TIMEOUT && mob_query(p->client, "stats", NULL, 5 * SECONDS, &why) == MOB_OK)
        fprintf(stderr, "stats: %s\n", why);
    _exit(1);
}

/* Bytes become an i64 by another task. */
static void digest_of(struct program *p, struct dag_node *node, struct mob_future *bytes, int64_t seed)
{
    static uint8_t model[BIG_BYTES];
    chaos_fill(seed, model, sizeof model);
    node->value = chaos_digest(model, sizeof model, seed);
    must(p,
        mob_submit(p->client, "chaos.digest", MOB_ARGS(mob_ref(bytes), mob_i64(seed)), &outlives_kills,
            &node->future),
        "digest");
    mob_release(bytes);
}

static void submit_mix(struct program *p, struct dag_node *node, int64_t seed)
{
    struct mob_arg args[1 + REFS_MAX] = {mob_i64(seed)};
    uint32_t refs = p->count == 0 ? 0 : draw(&p->random, REFS_MAX + 1);
    int64_t value = seed;
    for (uint32_t i = 0; i < refs; i++) {
        struct dag_node *input = &p->nodes[draw(&p->random, (uint32_t)p->count)];
        args[1 + i] = mob_ref(input->future);
        node->fails |= input->fails;
        value = chaos_mix(value, input->value);
    }
    node->value = chaos_mix(value, 1);
    must(p,
        mob_submit(p->client, "chaos.mix", (struct mob_args){args, 1 + refs}, &outlives_kills, &node->future),
        "mix");
}

static void submit_step(struct program *p, struct dag_node *node, int64_t seed)
{
    uint32_t a = draw(&p->random, ACTORS);
    struct dag_node *input = p->count == 0 ? NULL : &p->nodes[draw(&p->random, (uint32_t)p->count)];
    struct mob_arg arg = input == NULL ? mob_i64(seed) : mob_ref(input->future);
    must(p, mob_actor_call(p->actors[a], "step", (struct mob_args){&arg, 1}, NULL, &node->future), "step");
    node->fails = input != NULL && input->fails;
    node->actor = (int)a;
    node->input = input == NULL ? seed : input->value;
    if (!node->fails) /* a call that does not run changes nothing */
        p->actor_state[a] = chaos_mix(p->actor_state[a], input == NULL ? seed : input->value);
    node->value = p->actor_state[a];
}

static void submit_one(struct program *p)
{
    struct dag_node *node = &p->nodes[p->count];
    int64_t seed = (int64_t)draw(&p->random, 1 << 30);
    static uint8_t bytes[BIG_BYTES];
    struct mob_future *future;
    *node = (struct dag_node){.kind = draw(&p->random, 4) == 0 ? MIX : (enum kind)draw(&p->random, KINDS)};
    switch (node->kind) {
    case SLOW:
        node->value = chaos_mix(seed, 1);
        must(p,
            mob_submit(p->client, "chaos.slow", MOB_ARGS(mob_i64(seed), mob_i64(draw(&p->random, 40))),
                &outlives_kills, &node->future),
            "slow");
        break;
    case NEST: {
        int64_t width = 1 + draw(&p->random, 4), depth = draw(&p->random, 3);
        node->value = chaos_nest(seed, width, depth);
        must(p,
            mob_submit(p->client, "chaos.nest", MOB_ARGS(mob_i64(seed), mob_i64(width), mob_i64(depth)),
                &outlives_kills, &node->future),
            "nest");
        break;
    }
    case BLOB:
    case STASH:
        must(p,
            mob_submit(p->client, node->kind == BLOB ? "chaos.blob" : "chaos.stash",
                MOB_ARGS(mob_i64(seed), mob_i64(BIG_BYTES)), &outlives_kills, &future),
            "bytes");
        digest_of(p, node, future, seed);
        break;
    case PUT:
        node->value = seed;
        must(p, mob_put(p->client, mob_i64(seed), &node->future), "put");
        break;
    case PUT_LARGE:
        chaos_fill(seed, bytes, sizeof bytes);
        must(p, mob_put(p->client, mob_bytes(bytes, sizeof bytes), &future), "large put");
        digest_of(p, node, future, seed);
        break;
    case TRIP:
        node->fails = true;
        must(p, mob_submit(p->client, "chaos.trip", MOB_ARGS(mob_i64(seed)), &outlives_kills, &node->future),
            "trip");
        break;
    case STEP:
        submit_step(p, node, seed);
        break;
    case OWN: {
        int64_t calls = 1 + draw(&p->random, 12), every = draw(&p->random, 2) * 3;
        node->value = chaos_own_actor(seed, calls);
        must(p,
            mob_submit(p->client, "chaos.own_actor", MOB_ARGS(mob_i64(seed), mob_i64(calls), mob_i64(every)),
                &outlives_kills, &node->future),
            "own actor");
        break;
    }
    case MIX:
    case KINDS:
    default:
        submit_mix(p, node, seed);
    }
    p->count++;
}

static int drive(uint64_t seed, int nodes)
{
    static struct program program;
    struct program *p = &program;
    p->random.state = seed;
    char key[32];
    snprintf(key, sizeof key, "chaos %llu", (unsigned long long)seed);
    /* the node may be dead at this moment; a driver that was killed finds under its key what it had done */
    struct mob_connect_options options = {
        .struct_size = sizeof options, .timeout_ns = PATIENCE, .idempotency_key = key};
    must(p, mob_connect(&options, &p->client), "connect");
    for (int a = 0; a < ACTORS; a++) {
        struct mob_actor_options actor = {
            .struct_size = sizeof actor, .max_restarts = -1, .checkpoint_every = a == 0 ? 0 : 5};
        must(p, mob_actor_create(p->client, "chaos.Chain", MOB_ARGS(mob_i64(a)), &actor, &p->actors[a]),
            "actor");
        p->actor_state[a] = chaos_mix(a, 0);
    }
    while (p->count < nodes) {
        submit_one(p);
        if (draw(&p->random, 12) == 0)
            check(p, (int)draw(&p->random, (uint32_t)p->count));
    }
    for (int i = 0; i < p->count; i++)
        check(p, i);
    mob_disconnect(p->client);
    return 0;
}

/* ---- the killer ---- */

static const char *kill_something(struct node_box *box, pid_t driver, struct random *r)
{
    pid_t pids[64];
    switch (draw(r, 11)) {
    case 0:
    case 1:
    case 2: {
        int n = node_box_workers(box, pids, 64);
        if (n > 0)
            kill(pids[draw(r, (uint32_t)n)], SIGKILL);
        return "worker";
    }
    case 3:
        if (node_box_zygote(box, pids) == 1)
            kill(pids[0], SIGKILL);
        return "zygote";
    case 4:
    case 5:
        node_box_kill(box);
        node_box_revive(box);
        return "node";
    case 6:
        gcs_box_end(&box->gcs.gcs, SIGKILL);
        gcs_box_spawn_gcs(&box->gcs);
        return "gcs";
    case 7:
        gcs_box_end(&box->gcs.redis, SIGKILL);
        gcs_box_spawn_redis(&box->gcs);
        return "redis";
    case 8:
        gcs_box_end(&box->gcs.gcs, SIGKILL);
        node_box_kill(box);
        node_box_revive(box);
        return "gcs and node";
    case 9:
        kill(driver, SIGKILL);
        return "driver";
    default:
        node_box_kill(box);
        gcs_box_end(&box->gcs.gcs, SIGKILL);
        gcs_box_end(&box->gcs.redis, SIGKILL);
        node_box_revive(box);
        return "everything";
    }
}

/* What ended by itself is started again, as the supervisor does; a node must not. */
static bool supervise(struct node_box *box)
{
    if (gcs_box_ended(&box->node)) {
        print_error("the node ended by itself\n");
        return false;
    }
    if (gcs_box_ended(&box->gcs.redis))
        gcs_box_spawn_redis(&box->gcs);
    if (gcs_box_ended(&box->gcs.gcs))
        gcs_box_spawn_gcs(&box->gcs);
    return true;
}

static pid_t start_driver(uint64_t seed, int nodes)
{
    pid_t parent = getpid(), driver = fork();
    if (driver == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? drive(seed, nodes) : 1);
    }
    return driver;
}

/* The driver's exit status; after kill -9 it is started again. */
static bool driver_ended(pid_t *driver, uint64_t seed, int nodes, int *status_out)
{
    if (waitpid(*driver, status_out, WNOHANG) != *driver)
        return false;
    if (!WIFSIGNALED(*status_out) || WTERMSIG(*status_out) != SIGKILL)
        return true;
    *driver = start_driver(seed, nodes);
    return false;
}

static void one_seed(uint64_t seed, int kills_max)
{
    struct node_box box;
    char killed[512] = "";
    struct random random = {seed * 77 + 5};
    int nodes = NODES_MIN + (int)draw(&random, NODES_MAX - NODES_MIN);
    /* Tasks on the stack of those that wait for them, in every other program. */
    static const char *const nesting[] = {"--nest-max", "8", NULL};
    /* In every third, workers lose their core between publishing a completion and sealing its value. */
    if (seed % 3 == 2)
        setenv("MOBULA_FAILPOINTS", "worker.before_seal=delay:10", 1);
    else
        unsetenv("MOBULA_FAILPOINTS");
    node_box_start_with(&box, 2, seed % 2 ? nesting : NULL);
    struct mob_client *client = driver_connect(NULL);
    driver_deploy(client, "chaos");
    mob_disconnect(client);
    pid_t driver = start_driver(seed, nodes);
    int status = -1, kills = 0;
    bool alive = true;
    while (alive && !driver_ended(&driver, seed, nodes, &status)) {
        poll(NULL, 0, (int)draw(&random, 150));
        alive = supervise(&box);
        if (!alive || kills >= kills_max)
            continue;
        const char *what = kill_something(&box, driver, &random);
        snprintf(killed + strlen(killed), sizeof killed - strlen(killed), " %s,", what);
        kills++;
    }
    if (!alive) {
        kill(driver, SIGKILL);
        waitpid(driver, NULL, 0);
    }
    bool good = alive && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!good) {
        print_error("seed %llu failed (status %d) after%s\n", (unsigned long long)seed, status, killed);
        if (getenv("MOBULA_SHOW_LOGS") != NULL)
            node_box_print_log(&box);
    }
    node_box_stop(&box);
    assert_true(good);
}

static void programs_under_kills_equal_their_sequential_run(void **state)
{
    (void)state;
    const char *seeds = getenv("MOBULA_CHAOS_SEEDS"), *first = getenv("MOBULA_CHAOS_SEED");
    const char *kills = getenv("MOBULA_CHAOS_KILLS"), *sanitize = getenv("MOBULA_SANITIZE");
    uint64_t from = first == NULL ? 1 : strtoull(first, NULL, 10);
    uint64_t count = sanitize != NULL && *sanitize ? 2 : 5;
    if (seeds != NULL)
        count = strtoull(seeds, NULL, 10);
    for (uint64_t seed = from; seed < from + count; seed++)
        one_seed(seed, kills == NULL ? KILLS : atoi(kills));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_under_kills_equal_their_sequential_run),
    };
    return cmocka_run_group_tests_name("dag_kill", tests, NULL, NULL);
}
