/* The log is closed under "depends on" (ARCHITECTURE "Tickets"): whatever the order in which clients publish
 * and passes come, nothing stands in it before what it needs; so a crash after any block leaves no task
 * without the tasks whose results it takes. Random interleavings by seed; MOBULA_SEED=n replays one. */
#include "tests/unit/runtime/node/node_fixture.h"

enum { DRIVERS = 3, ROUNDS = 120, PUBLISHED_MAX = DRIVERS * ROUNDS * 4, SEEDS = 60 };

struct published {
    struct mob_task_id task, needs; /* zero: nothing */
    uint32_t logged; /* 1 + its place in the log */
};
static struct published all[PUBLISHED_MAX];
static uint32_t count;

static struct published *find(struct mob_task_id task)
{
    for (uint32_t i = 0; i < count; i++)
        if (mob_task_id_eq(all[i].task, task))
            return &all[i];
    return NULL;
}

/* Of another client, or its own; the newest of all every second time. */
static void publish(struct nx_driver *driver, uint64_t seed)
{
    struct mob_spec_head head = nx_next(driver, MOB_KIND_TASK);
    struct published *p = &all[count];
    *p = (struct published){.task = head.task};
    if (count > 0 && rand() % 4) {
        p->needs = all[rand() % 2 ? count - 1 : (uint32_t)rand() % count].task;
        struct mob_object_id input = mob_object_of(p->needs, 0);
        nx_spec(driver->store, &head, &input);
    } else {
        nx_spec(driver->store, &head, NULL);
    }
    if (++count == PUBLISHED_MAX)
        fail_msg("seed %llu: too many", (unsigned long long)seed);
}

static void check_log(uint64_t seed)
{
    static struct mob_zone_map zone;
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    uint32_t place = 0;
    for (uint32_t b = 0; b < FAKE.block_count; b++) {
        struct mob_block_header header;
        struct mob_entry entry;
        enum mob_status status =
            mob_block_open(decoder, FAKE.blocks[b].bytes, FAKE.blocks[b].length, &header, &zone);
        while (status == MOB_OK && (status = mob_block_next(decoder, &entry)) == MOB_OK) {
            struct published *p = entry.type == MOB_ENTRY_SPEC ? find(entry.spec.head.task) : NULL;
            if (!p)
                continue;
            p->logged = ++place;
            const struct published *needed = mob_task_id_is_zero(p->needs) ? NULL : find(p->needs);
            if (needed && !needed->logged)
                fail_msg(
                    "seed %llu: block %u has a task before the one it needs", (unsigned long long)seed, b);
        }
        assert_int_equal(status, MOB_CLOSED);
    }
    assert_int_equal(place, count); /* and all of it is there */
    mob_block_decoder_destroy(decoder);
}

static void run_seed(uint64_t seed)
{
    struct nx nx;
    struct nx_driver drivers[DRIVERS];
    srand((unsigned)seed);
    count = 0;
    nx_open(&nx, 0);
    for (int d = 0; d < DRIVERS; d++)
        nx_connect(&nx, &drivers[d], NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int n = rand() % 6; n > 0; n--)
            publish(&drivers[rand() % DRIVERS], seed);
        if (rand() % 3)
            nx_turn(&nx, 1);
    }
    nx_settle(&nx);
    check_log(seed);
    for (int d = 0; d < DRIVERS; d++)
        nx_disconnect(&drivers[d]);
    nx_close(&nx);
}

static void nothing_is_in_the_log_before_what_it_needs(void **state)
{
    (void)state;
    const char *seed = getenv("MOBULA_SEED");
    if (seed)
        run_seed(strtoull(seed, NULL, 10));
    for (uint64_t i = 1; !seed && i <= SEEDS; i++)
        run_seed(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_in_the_log_before_what_it_needs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
