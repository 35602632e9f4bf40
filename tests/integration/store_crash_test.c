/* ctest: timeout=600 long
 *
 * A client may die at any instruction. A child runs a script of everything that a client does to the segment
 * and is killed before its first store to it, before its second, and so on to the last; then at random
 * moments from outside. Between its last store and its death a neighbour acts, another client of another
 * process: it reads what is there, makes objects, the victim's among them, and keeps pins over the death. The
 * script passes every store that a client can execute, or the test fails and names those it never came to.
 * After each death the node drains what was published, seals it and closes the client: no leaked pin, block,
 * entry or ring slot, nothing half-made visible, others unharmed. The same store serves all deaths, so what
 * leaks adds up.
 *
 * MOB_CRASH_SEED and MOB_CRASH_KILLS set the random part.
 */
#include "tests/integration/store_crash_script.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/support/xorshift.h"

/* Sanitizers look at memory, and take ten times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { KILLS = 300 };
#else
enum { KILLS = 2000 };
#endif
enum {
    SEGMENT_BYTES = 6 << 20,
    SURVIVOR_STREAM = 2000,
    NEIGHBOUR_STREAM = 4000,
    NEIGHBOURS_OWN = 8, /* all kinds */
    SITES_MAX = 512
};

struct world {
    struct mob_store *store;
    struct mob_store_client *observer; /* lives in the node's process; reads what is visible */
    uint32_t observer_slot;
    uint32_t baseline_free; /* units */
    bool published[IDS];
};

/* ---- what the node does ---- */

static void world_open(struct world *world, struct mob_store *store)
{
    *world = (struct world){.store = store};
    world->observer_slot = test_open(store, MOB_CLIENT_DRIVER);
    world->observer = test_attach(store, world->observer_slot);
    for (uint32_t i = 0; i < OTHERS; i++)
        test_put(world->observer, test_id(1, i, 0), 100 + i * 30000, (uint8_t)i);
    uint32_t slot = test_open(store, MOB_CLIENT_WORKER);
    struct mob_store_client *dead = test_attach(store, slot);
    test_put(dead, test_id(1, OTHERS, 0), ORPHAN_SIZE - MOB_VALUE_HEADER_BYTES, 1);
    mob_store_detach(dead);
    mob_store_client_close(store, slot);
}

static void pass(struct world *world, uint32_t stream)
{
    uint32_t slot, damaged;
    struct mob_record record;
    const uint8_t *body;
    mob_store_pass_begin(world->store);
    while (mob_store_next(world->store, &slot, &record, &body, &damaged)) {
        struct mob_out_put put;
        assert_int_equal(MOB_OUT_PUT, record.type);
        memcpy(&put, body, sizeof put);
        enum mob_status status = mob_store_seal_published(world->store, put.id, slot);
        assert_status(MOB_OK, status);
        if (mob_object_id_eq(put.id, test_id(stream, put.id.task.index, 0)))
            world->published[put.id.task.index] = true;
    }
    assert_int_equal(UINT32_MAX, damaged);
    mob_store_pass_end(world->store);
}

static void expect_content(const struct test_got *got, uint32_t index)
{
    if (kind_of(index) == SMALL) {
        int64_t n;
        memcpy(&n, got->small, sizeof n);
        assert_int_equal((int64_t)index * 7, n);
        return;
    }
    struct mob_value_view value;
    assert_status(MOB_OK, mob_value_open(got->bytes, got->size, &value));
    assert_int_equal(payload_of(index), value.payload_bytes);
    for (uint64_t at = 0; at < value.payload_bytes; at += kind_of(index) == LARGE ? 997 : 1)
        assert_int_equal((uint8_t)index, value.payload[at]);
}

/* Published ones are there and whole, the others are not there at all. */
static void expect_visible(struct world *world, uint32_t stream, uint32_t indices)
{
    for (uint32_t i = 0; i < indices; i++) {
        struct test_got got = test_get(world->observer, test_id(stream, i, 0));
        assert_status(world->published[i] ? MOB_OK : MOB_NOT_FOUND, got.status);
        if (got.status == MOB_OK) {
            expect_content(&got, i);
            mob_store_object_release(world->observer, got.pin);
        }
    }
}

static void expect_others_unharmed(struct world *world)
{
    for (uint32_t i = 0; i < OTHERS; i++) {
        struct test_got got = test_get(world->observer, test_id(1, i, 0));
        assert_status(MOB_OK, got.status);
        struct mob_value_view value;
        assert_status(MOB_OK, mob_value_open(got.bytes, got.size, &value));
        assert_int_equal(100 + i * 30000, value.payload_bytes);
        assert_int_equal(i, value.payload[value.payload_bytes - 1]);
        mob_store_object_release(world->observer, got.pin);
    }
    assert_int_equal(0, mob_pins_count(world->store));
}

static void forget_published(struct world *world, uint32_t stream)
{
    for (uint32_t i = 0; i < IDS; i++)
        if (world->published[i])
            assert_status(MOB_OK, mob_store_object_delete(world->store, test_id(stream, i, 0)));
    memset(world->published, 0, sizeof world->published);
}

static uint32_t free_units(const struct mob_store *store)
{
    uint32_t units;
    mob_extent_largest(&store->view, &units);
    return units;
}

/* ---- the neighbour ---- */

struct neighbour {
    struct mob_store_client *client;
    uint32_t slot;
    struct test_got held[OTHERS / 2];
    bool made[NEIGHBOURS_OWN];
    bool acted;
};

/* Whatever the victim was about to do: what is seen of it is whole. */
static void look_at_the_victims(struct neighbour *n)
{
    for (uint32_t i = 0; i < 256; i++) {
        struct test_got got = test_get(n->client, test_id(VICTIM_STREAM, i, 0));
        if (got.status != MOB_OK) {
            assert_true(got.status == MOB_NOT_FOUND || got.status == MOB_NOT_READY);
            continue;
        }
        expect_content(&got, i);
        mob_store_object_release(n->client, got.pin);
    }
}

static void try_the_victims_ids(struct neighbour *n)
{
    for (uint32_t i = 0; i < 48; i++) {
        struct mob_object_ref ref;
        enum mob_status status = make(n->client, test_id(VICTIM_STREAM, i, 0), &ref);
        if (status == MOB_OK)
            mob_store_object_abort(n->client, ref);
        else
            assert_true(status == MOB_EXISTS || status == MOB_STORE_FULL);
    }
}

/* Of one half it publishes and seals, of the other it thinks better. */
static void make_its_own(struct neighbour *n)
{
    for (uint32_t i = 0; i < NEIGHBOURS_OWN; i++) {
        struct mob_object_ref ref;
        struct mob_object_id id = test_id(NEIGHBOUR_STREAM, i, 0);
        enum mob_status status = make(n->client, id, &ref);
        if (status != MOB_OK) {
            assert_status(MOB_STORE_FULL, status);
        } else if (i % 2 == 0) {
            mob_store_object_abort(n->client, ref);
        } else {
            assert_true(publish(n->client, id));
            assert_status(MOB_OK, mob_store_object_seal(n->client, ref));
            n->made[i] = true;
        }
    }
}

/* Before the victim comes, which may leave no room for it. */
static void neighbour_comes(struct world *world, struct neighbour *n)
{
    *n = (struct neighbour){.slot = test_open(world->store, MOB_CLIENT_WORKER)};
    n->client = test_attach(world->store, n->slot);
}

static void neighbour_acts(struct neighbour *n)
{
    n->acted = true;
    for (uint32_t i = 0; i < OTHERS / 2; i++) {
        n->held[i] = test_get(n->client, test_id(1, i, 0));
        assert_status(MOB_OK, n->held[i].status);
    }
    look_at_the_victims(n);
    try_the_victims_ids(n);
    make_its_own(n);
}

/* What it made and holds is as it was, the victim's death notwithstanding. */
static void neighbour_leaves(struct world *world, struct neighbour *n)
{
    for (uint32_t i = 0; i < NEIGHBOURS_OWN; i++) {
        struct test_got got = test_get(world->observer, test_id(NEIGHBOUR_STREAM, i, 0));
        assert_status(n->made[i] ? MOB_OK : MOB_NOT_FOUND, got.status);
        if (got.status != MOB_OK)
            continue;
        expect_content(&got, i);
        mob_store_object_release(world->observer, got.pin);
        assert_status(MOB_OK, mob_store_object_delete(world->store, test_id(NEIGHBOUR_STREAM, i, 0)));
    }
    for (uint32_t i = 0; n->acted && i < OTHERS / 2; i++) {
        struct mob_value_view value;
        assert_status(MOB_OK, mob_value_open(n->held[i].bytes, n->held[i].size, &value));
        assert_int_equal(i, value.payload[value.payload_bytes - 1]);
        mob_store_object_release(n->client, n->held[i].pin);
    }
    mob_store_detach(n->client);
    mob_store_client_close(world->store, n->slot);
}

static void after_death(struct world *world, const uint32_t slots[2], uint32_t stream, uint32_t indices,
    struct neighbour *neighbour)
{
    mob_store_announce_awake(world->store);
    for (int i = 0; i < 2; i++)
        mob_store_client_ended(world->store, slots[i]);
    pass(world, stream);
    for (int i = 0; i < 2; i++)
        mob_store_client_close(world->store, slots[i]);
    assert_store_ok(world->store);
    neighbour_leaves(world, neighbour);
    assert_store_ok(world->store);
    expect_visible(world, stream, indices);
    expect_others_unharmed(world);
    forget_published(world, stream);
    assert_store_ok(world->store);
    assert_int_equal(world->baseline_free, free_units(world->store));
}

static void send_inbound(struct mob_store *store, uint32_t slot)
{
    uint64_t begun;
    for (int i = 0; i < 2; i++)
        memset(mob_store_in_reserve(store, slot, MOB_IN_STOP, 0, 0, 100), i, 100);
    memset(mob_store_in_halt(store, slot, MOB_IN_TAKEN_BACK, 16, &begun), 0, 16);
    mob_store_in_flush(store, slot);
}

static struct mob_store_client *attach(struct world *world, uint32_t slot)
{
    struct mob_store_client *client;
    CHILD_CHECK(mob_store_attach(
                    mob_store_memfd(world->store), mob_store_eventfd(world->store), slot, &client) == MOB_OK);
    return client;
}

/* So that a record of the script does not fit before the end of its ring, and goes round. */
static void near_the_rings_end(struct world *world, uint32_t slot)
{
    struct mob_store_client *client = test_attach(world->store, slot);
    struct mob_out_put put = {.id = test_id(1, 0, 0)};
    struct mob_piece piece = {&put, sizeof put};
    while (client->out.head < client->out.size - 2 * (sizeof(struct mob_record) + sizeof put))
        assert_status(MOB_OK, mob_store_publish(client, MOB_OUT_PUT, 0, 0, &piece, 1));
    mob_store_detach(client);
    pass(world, VICTIM_STREAM);
}

/* Of the life that nobody kills. In memory that both processes see. */
struct counted {
    uint64_t passages;
    uint64_t at_site[SITES_MAX];
};

static void count_sites(struct counted *counted)
{
    size_t count;
    struct mob_segment_site *const *sites = mob_segment_sites(&count);
    CHILD_CHECK(count <= SITES_MAX);
    for (size_t i = 0; i < count; i++)
        counted->at_site[i] = sites[i]->passages;
    counted->passages = mob_segment_passages();
}

/* One life: killed before passage n; UINT64_MAX = not at all, then *counted_out. Returns whether it was
 * killed. */
static bool live_and_die(struct world *world, uint64_t n, struct counted *counted_out)
{
    struct mob_client_options options = {
        .kind = MOB_CLIENT_WORKER, .out_ring_bytes = OUT_RING_BYTES, .in_ring_bytes = 4096, .pins_max = 16};
    uint32_t slots[2]; /* the victim's and its rival's, which is of the same process */
    struct neighbour neighbour;
    neighbour_comes(world, &neighbour);
    for (int i = 0; i < 2; i++)
        assert_status(MOB_OK, mob_store_client_open(world->store, &options, &slots[i]));
    near_the_rings_end(world, slots[0]);
    send_inbound(world->store, slots[0]);
    mob_epoch_advance(world->store); /* what it reads was not read in this one */
    mob_store_announce_sleep(world->store);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct rival rival = {.client = attach(world, slots[1])};
        struct mob_store_client *client = attach(world, slots[0]);
        mob_segment_stop_at(n);
        script(client, &rival);
        if (counted_out)
            count_sites(counted_out);
        _exit(0);
    }
    int status;
    assert_int_equal(pid, waitpid(pid, &status, WUNTRACED));
    if (WIFSTOPPED(status)) {
        neighbour_acts(&neighbour);
        if (n % 2 == 0)
            pass(world, VICTIM_STREAM); /* the node, too, comes by before it hears of the death, or after */
        kill(pid, SIGKILL);
        assert_int_equal(pid, waitpid(pid, &status, 0));
    }
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        fail_msg("passage %llu: child ended with status %x", (unsigned long long)n, status);
    after_death(world, slots, VICTIM_STREAM, 256, &neighbour);
    return killed;
}

/* What only the node executes, whose death ends the segment. By function: all its stores. */
static const struct {
    const char *function, *why;
} of_the_node[] = {
    {"map_segment", "a segment begins"},
    {"mob_segment_prefault_main", "its pages are touched"},
    {"mob_store_destroy", "and its end"},
    {"reset_shared", "a slot of the client table"},
    {"mob_store_client_open", ""},
    {"mob_store_client_close", ""},
    {"mob_store_announce_sleep", "its own sleep"},
    {"mob_store_announce_awake", ""},
    {"mob_bell_ring", "it wakes clients"},
    {"push_piece", "inbound rings"},
    {"publish", ""},
    {"mob_ring_commit_run", ""},
    {"mob_store_in_halt", ""},
    {"mob_store_pass_begin", "it reads outbound rings"},
    {"release", ""},
    {"seal_entry", "objects of published records, and its own"},
    {"mob_store_drop_published", "what was made again otherwise than before"},
    {"mob_store_object_committed", ""},
    {"commit_sealed", ""},
    {"mob_store_object_bytes", ""},
    {"mob_store_object_put", ""},
    {"mob_entry_set_hash", "hashes that come later"},
    {"mob_evict_mark", "eviction"},
    {"revert_if_victim", ""},
    {"mob_entry_drop", ""},
    {"mob_spill_restore", ""},
    {"sweep_tags", "the sweep of what is old"},
    {"spare", ""},
    {"mob_sweep_make_old", ""},
    {"mob_epoch_advance", ""},
    {"mob_slab_disown", "chunks of clients"},
    {"mob_slab_reclaim", ""},
};
enum { OF_THE_NODE = sizeof of_the_node / sizeof of_the_node[0] };

static bool is_of_the_node(const struct mob_segment_site *site, size_t *which_out)
{
    for (size_t i = 0; i < OF_THE_NODE; i++)
        if (strcmp(of_the_node[i].function, site->function) == 0) {
            *which_out = i;
            return true;
        }
    return false;
}

/* Every store that a client can execute was executed, and the list of the others is true. */
static void expect_every_site(
    struct mob_segment_site *const *sites, size_t count, const struct counted *counted)
{
    bool known[OF_THE_NODE] = {false};
    size_t wrong = 0, passed = 0, which;
    for (size_t i = 0; i < count; i++) {
        bool nodes = is_of_the_node(sites[i], &which);
        passed += counted->at_site[i] > 0;
        if (nodes)
            known[which] = true;
        if (nodes == (counted->at_site[i] == 0))
            continue;
        wrong++;
        print_error("%s:%d: %s: %s\n", sites[i]->file, sites[i]->line, sites[i]->function,
            nodes ? "said to be the node's, and the client passed it" : "the script never passes it");
    }
    for (size_t i = 0; i < OF_THE_NODE; i++)
        if (!known[i]) {
            wrong++;
            print_error("%s: stores nothing; strike it off the node's list\n", of_the_node[i].function);
        }
    print_message("%zu of %zu places that store are a client's\n", passed, count);
    assert_int_equal(0, wrong);
}

static void a_client_may_die_between_any_two_stores(void **state)
{
    (void)state;
    size_t count;
    struct mob_segment_site *const *sites = mob_segment_sites(&count);
    if (count == 0)
        skip(); /* a release build: no store is a failpoint */
    struct world world;
    world_open(&world, test_store(SEGMENT_BYTES, NULL, 0));
    world.baseline_free = free_units(world.store);
    struct counted *counted =
        mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(counted != MAP_FAILED);
    assert_false(live_and_die(&world, UINT64_MAX, counted));
    uint64_t total = counted->passages;
    expect_every_site(sites, count, counted);
    munmap(counted, sizeof *counted);
    print_message("%llu stores, killed before each\n", (unsigned long long)total);
    for (uint64_t n = 1; n <= total; n++)
        assert_true(live_and_die(&world, n, NULL));
    mob_store_detach(world.observer);
    mob_store_destroy(world.store);
}

/* ---- SIGKILL from outside ---- */

struct shared {
    _Atomic uint32_t started, pause, paused;
};

static uint32_t random_next(uint64_t *seed)
{
    return (uint32_t)(xorshift(seed) >> 24);
}

/* Random operations for ever. The victim makes each index once; the survivor, whose objects are dropped,
 * again. */
static void random_life(
    struct mob_store_client *client, uint32_t stream, uint64_t seed, struct shared *shared)
{
    struct test_got held[8];
    struct mob_object_ref open[8];
    uint32_t held_count = 0, open_count = 0, next = 0;
    for (;;) {
        if (shared && atomic_load(&shared->pause)) {
            atomic_store(&shared->paused, 1);
            while (atomic_load(&shared->pause))
                sched_yield();
            atomic_store(&shared->paused, 0);
        }
        uint32_t dice = random_next(&seed) % 100;
        struct mob_object_id id = test_id(stream, next % IDS, 0);
        struct mob_object_ref ref;
        if (dice < 45 && (shared || next < IDS)) {
            enum mob_status status = make(client, id, &ref);
            CHILD_CHECK(status == MOB_OK || status == MOB_STORE_FULL || (shared && status == MOB_EXISTS));
            next += status != MOB_STORE_FULL;
            if (status != MOB_OK) {
                sched_yield();
            } else if (dice < 30) {
                while (!publish(client, id))
                    mob_store_sleep(client, mob_now() + MOB_MS, NULL, NULL);
                CHILD_CHECK(mob_store_object_seal(client, ref) == MOB_OK);
            } else if (dice < 38 || open_count == 8) {
                mob_store_object_abort(client, ref);
            } else {
                open[open_count++] = ref;
            }
        } else if (dice < 50 && open_count > 0) {
            mob_store_object_abort(client, open[--open_count]);
        } else if (dice < 80 && held_count < 8) {
            held[held_count] = test_get(client, test_id(1, random_next(&seed) % OTHERS, 0));
            CHILD_CHECK(held[held_count].status == MOB_OK);
            held_count++;
        } else if (held_count > 0) {
            mob_store_object_release(client, held[--held_count].pin);
        }
    }
}

static pid_t start_life(
    struct world *world, uint32_t slot, uint32_t stream, uint64_t seed, struct shared *shared)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct mob_store_client *client;
    CHILD_CHECK(mob_store_attach(
                    mob_store_memfd(world->store), mob_store_eventfd(world->store), slot, &client) == MOB_OK);
    atomic_store(&shared->started, 1);
    random_life(client, stream, seed, stream == SURVIVOR_STREAM ? shared : NULL);
    _exit(0);
}

/* The survivor's objects are committed and dropped as they come; it never finds the store full for long. */
static void pass_all(struct world *world)
{
    uint32_t slot, damaged;
    struct mob_record record;
    const uint8_t *body;
    mob_store_pass_begin(world->store);
    while (mob_store_next(world->store, &slot, &record, &body, &damaged)) {
        struct mob_out_put put;
        memcpy(&put, body, sizeof put);
        assert_status(MOB_OK, mob_store_seal_published(world->store, put.id, slot));
        if (mob_object_id_eq(put.id, test_id(VICTIM_STREAM, put.id.task.index, 0))) {
            world->published[put.id.task.index] = true;
        } else {
            mob_store_object_committed(world->store, put.id, true);
            assert_status(MOB_OK, mob_store_object_delete(world->store, put.id));
        }
    }
    assert_int_equal(UINT32_MAX, damaged);
    mob_store_pass_end(world->store);
}

static void pause_survivor(struct world *world, struct shared *shared, pid_t survivor)
{
    atomic_store(&shared->pause, 1);
    while (!atomic_load(&shared->paused)) {
        assert_int_equal(0, waitpid(survivor, NULL, WNOHANG)); /* unharmed by the deaths around it */
        pass_all(world); /* it may wait for ring space */
        sched_yield();
    }
}

static void go_on(struct shared *shared)
{
    atomic_store(&shared->pause, 0);
    while (atomic_load(&shared->paused))
        sched_yield();
}

static void kill_one_at_random(struct world *world, struct shared *shared, pid_t survivor, uint64_t *seed)
{
    struct mob_client_options options = {
        .kind = MOB_CLIENT_WORKER, .out_ring_bytes = 4096, .in_ring_bytes = 4096, .pins_max = 16};
    uint32_t slot;
    enum mob_status status = mob_store_client_open(world->store, &options, &slot);
    assert_status(MOB_OK, status);
    atomic_store(&shared->started, 0);
    pid_t pid = start_life(world, slot, VICTIM_STREAM, random_next(seed) | 1u, shared);
    while (!atomic_load(&shared->started))
        sched_yield();
    int64_t end = mob_now() + random_next(seed) % 400 * MOB_US;
    do {
        pass_all(world);
    } while (mob_now() < end);
    kill(pid, SIGKILL);
    int how;
    assert_int_equal(pid, waitpid(pid, &how, 0));
    assert_true(WIFSIGNALED(how));
    assert_int_equal(SIGKILL, WTERMSIG(how));

    mob_store_client_ended(world->store, slot);
    pause_survivor(world, shared, survivor);
    pass_all(world);
    mob_store_client_close(world->store, slot);
    assert_store_ok(world->store);
    expect_visible(world, VICTIM_STREAM, 64);
    forget_published(world, VICTIM_STREAM);
    assert_store_ok(world->store);
    go_on(shared);
}

static uint64_t setting(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : fallback;
}

static void clients_killed_from_outside_leave_nothing(void **state)
{
    (void)state;
    uint64_t seed = setting("MOB_CRASH_SEED", 0x9e3779b97f4a7c15ull),
             kills = setting("MOB_CRASH_KILLS", KILLS);
    print_message("seed %llx, %llu kills\n", (unsigned long long)seed, (unsigned long long)kills);
    struct world world;
    world_open(&world, test_store(SEGMENT_BYTES * 2, NULL, 0));
    struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    uint32_t survivor_slot = test_open(world.store, MOB_CLIENT_WORKER);
    pid_t survivor = start_life(&world, survivor_slot, SURVIVOR_STREAM, 77, shared);
    for (uint64_t i = 0; i < kills; i++)
        kill_one_at_random(&world, shared, survivor, &seed);
    kill(survivor, SIGKILL);
    int how;
    waitpid(survivor, &how, 0);
    assert_int_equal(SIGKILL, WIFSIGNALED(how) ? WTERMSIG(how) : -1);
    mob_store_client_ended(world.store, survivor_slot);
    pass_all(&world);
    mob_store_client_close(world.store, survivor_slot);
    assert_store_ok(world.store);
    expect_others_unharmed(&world);
    struct mob_store_stats stats;
    mob_store_stats(world.store, &stats);
    assert_int_equal(OTHERS + 1, stats.objects);
    munmap(shared, 4096);
    mob_store_detach(world.observer);
    mob_store_destroy(world.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_may_die_between_any_two_stores),
        cmocka_unit_test(clients_killed_from_outside_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
