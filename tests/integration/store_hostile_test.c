/* ctest: timeout=300
 *
 * A hostile client writes random bytes anywhere into the segment while the node runs all its functions: no
 * crash, no hang, no access outside. First in turns (a seed replays exactly), then truly at the same time,
 * from another thread.
 *
 * MOB_HOSTILE_SEED, MOB_HOSTILE_RUNS.
 */
#include "tests/fuzz/segment_harness.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/xorshift.h"

enum { RUNS = 1500, STEP_BYTES = 16, CONCURRENT_MS = 2000 };

static uint64_t random_next(uint64_t *seed)
{
    return xorshift(seed) * 0x2545f4914f6cdd1dull;
}

static uint64_t setting(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : fallback;
}

static void random_steps(struct harness *h, uint64_t *seed, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t bytes[STEP_BYTES / 8] = {random_next(seed), random_next(seed)};
        struct mob_reader in = mob_reader_of(bytes, sizeof bytes);
        harness_step(h, &in);
    }
}

static void random_writes_anywhere_do_not_harm_the_node(void **state)
{
    (void)state;
    uint64_t seed = setting("MOB_HOSTILE_SEED", 0x1234567), runs = setting("MOB_HOSTILE_RUNS", RUNS);
    for (uint64_t run = 0; run < runs; run++) {
        uint64_t run_seed = (seed + run) * 0x9e3779b97f4a7c15ull | 1u;
        struct harness h;
        harness_open(&h);
        random_steps(&h, &run_seed, 300);
        harness_close(&h);
    }
}

struct attacker {
    const struct harness *h;
    uint64_t seed;
    _Atomic bool stop;
};

static void *attack(void *arg)
{
    struct attacker *attacker = arg;
    while (!atomic_load_explicit(&attacker->stop, memory_order_relaxed)) {
        uint64_t a = random_next(&attacker->seed), b = random_next(&attacker->seed);
        harness_write(attacker->h, (uint8_t)a, (uint32_t)(a >> 16), b, (uint8_t)(a >> 8));
    }
    return NULL;
}

static void a_concurrent_writer_does_not_harm_the_node(void **state)
{
    (void)state;
    uint64_t seed = setting("MOB_HOSTILE_SEED", 0x1234567) | 1u;
    for (int64_t end = mob_now() + CONCURRENT_MS * MOB_MS; mob_now() < end;) {
        struct harness h;
        harness_open(&h);
        struct attacker attacker = {.h = &h, .seed = random_next(&seed) | 1u};
        pthread_t thread;
        assert_int_equal(0, pthread_create(&thread, NULL, attack, &attacker));
        for (uint32_t i = 0; i < 2000; i++) {
            uint64_t bytes[STEP_BYTES / 8] = {random_next(&seed), random_next(&seed)};
            uint8_t op = (uint8_t)(112 + bytes[0] % 144); /* the node's part only */
            if (op >= 248 && op < 252)
                continue; /* the writer looks at the clients' private numbers */
            memcpy(bytes, &op, 1);
            struct mob_reader in = mob_reader_of(bytes, sizeof bytes);
            harness_step(&h, &in);
        }
        atomic_store(&attacker.stop, true);
        pthread_join(thread, NULL);
        harness_close(&h);
    }
}

int main(void)
{
    mob_log_threshold = MOB_LOG_LEVEL_ERROR + 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_writes_anywhere_do_not_harm_the_node),
        cmocka_unit_test(a_concurrent_writer_does_not_harm_the_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
