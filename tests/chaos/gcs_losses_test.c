/* ctest: timeout=300
 * Both members of a chain are killed, with their Redis, and neither disk has the newest part of what was
 * acknowledged: what may be missing is named, by incarnation, first missing block and time, nothing else is
 * missing, and nobody waits for it.
 *
 * One seed; MOBULA_CHAOS_SEEDS=20 so many, from MOBULA_CHAOS_SEED on. Durability is `no` and `everysec` by
 * turns; masters have their table in PostgreSQL in two of four, where there is one.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "tests/support/chain_box.h"
#include "tests/support/pg_box.h"
#include "tests/support/xorshift.h"

#define PATIENCE_NS (60 * MOB_SEC)
#define BLOCKS_MAX 2000u
#define BLOCKS_A_PUT 10u
#define TASKS 16u

static struct scene {
    uint64_t seed, random;
    bool postgres;
    struct pg_box pg;
    struct chain_box box;
    struct mob_gcs *gcs;
    struct mob_gcs_log *log;
    uint64_t incarnation, appended, acked, released, puts;
    uint64_t hashes[BLOCKS_MAX];
    bool sealed;
    enum mob_status why;
    uint64_t cut;
    int64_t killed_wall_ns;
} s;

static uint64_t below(uint64_t n)
{
    return xorshift(&s.random) % n;
}

static void on_acked(void *arg, uint64_t count)
{
    (void)arg;
    s.acked = count;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    (void)arg;
    s.released++;
    free(block);
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    s.sealed = true;
    s.why = why;
    s.cut = cut;
}

static void scene_open(uint64_t seed)
{
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, NULL};
    s = (struct scene){.seed = seed, .random = XORSHIFT_SEED * (1 + seed)};
    chain_box_init(&s.box, 2, 2, seed % 2 == 0 ? "everysec" : "no");
    s.postgres = seed / 2 % 2 == 0 && pg_box_available();
    if (s.postgres) {
        pg_box_init(&s.pg);
        pg_box_start(&s.pg);
        s.box.postgres = s.pg.data;
    }
    chain_box_start(&s.box);
    assert_true(chain_box_wait_length(&s.box, 2, mob_now() + PATIENCE_NS));
    s.gcs = chain_box_client(&s.box);
    assert_int_equal(
        mob_gcs_node_register_wait(s.gcs, "node", mob_now() + PATIENCE_NS, &s.incarnation), MOB_OK);
    assert_int_equal(mob_gcs_log_open(s.gcs, s.incarnation, 0, &events, &s.log), MOB_OK);
}

static void scene_close(void)
{
    mob_gcs_destroy(s.gcs);
    chain_box_fini(&s.box);
    if (s.postgres)
        pg_box_fini(&s.pg);
}

/* ---- what is acknowledged ---- */

static void append_block(void)
{
    struct gcs_block_spec spec = gcs_block_nth(s.incarnation, s.appended, TASKS);
    struct mob_gcs_block *block = gcs_block_new(&spec);
    s.hashes[s.appended++] = mob_hash64(block->bytes, block->length);
    assert_int_equal(mob_gcs_log_append(s.log, block), MOB_OK);
}

static void until_durable(void)
{
    for (int64_t deadline = mob_now() + PATIENCE_NS; s.released < s.appended;) {
        gcs_box_step(s.gcs, 10);
        if (mob_now() > deadline)
            fail_msg("seed %lu: %lu of %lu blocks are durable", (unsigned long)s.seed,
                (unsigned long)s.released, (unsigned long)s.appended);
    }
}

/* The value is its number, behind the blocks that were acknowledged before. */
static void put_number(void)
{
    uint64_t value = ++s.puts;
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = "number",
        .key_length = 6,
        .value = &value,
        .value_length = sizeof value,
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(s.gcs, &put, mob_now() + PATIENCE_NS, NULL), MOB_OK);
}

static void acknowledge(uint64_t blocks)
{
    while (s.appended < blocks) {
        for (uint32_t i = 0; i < BLOCKS_A_PUT; i++)
            append_block();
        for (int64_t deadline = mob_now() + PATIENCE_NS; s.acked < s.appended; gcs_box_step(s.gcs, 10))
            assert_true(mob_now() < deadline);
        put_number();
    }
    until_durable();
}

/* ---- the loss ---- */

static void all_die_and_disks_lack_the_newest(void)
{
    int first = (int)below(2);
    struct timespec gap = {0, (long)below(5000000)};
    s.killed_wall_ns = mob_wall_now();
    gcs_box_end(&s.box.member[first].gcs, SIGKILL);
    nanosleep(&gap, NULL);
    gcs_box_end(&s.box.member[1 - first].gcs, SIGKILL);
    for (uint32_t i = 0; i < 2; i++) {
        struct gcs_box *m = &s.box.member[i];
        char path[128];
        gcs_box_end(&m->redis, SIGKILL);
        snprintf(path, sizeof path, "%s/redis.sock", m->directory);
        unlink(path);
        uint64_t bytes = gcs_box_file_bytes(m);
        assert_true(gcs_box_cut_file(m, bytes / 20 + below(bytes / 3)) > 0);
    }
}

/* Its log ends where the chain has no more of it, and its owner hears so. */
static void until_sealed(void)
{
    for (uint32_t i = 0; i < 2; i++)
        chain_box_start_member(&s.box, i);
    for (int64_t deadline = mob_now() + PATIENCE_NS; !s.sealed; gcs_box_step(s.gcs, 10)) {
        chain_box_tend(&s.box);
        if (mob_now() > deadline)
            fail_msg("seed %lu: the log goes on, or its owner hears nothing (%s)", (unsigned long)s.seed,
                s.box.directory);
    }
    assert_int_equal(s.why, MOB_SEALED);
    if (s.cut >= s.acked)
        fail_msg("seed %lu: cut %lu of %lu: nothing is missing", (unsigned long)s.seed, (unsigned long)s.cut,
            (unsigned long)s.acked);
}

static struct mob_gcs_result *answer(
    struct mob_gcs *gcs, enum mob_status submitted, struct mob_gcs_sync *sync)
{
    struct mob_gcs_result *result = NULL;
    assert_int_equal(submitted, MOB_OK);
    assert_int_equal(mob_gcs_sync_wait(gcs, sync, mob_now() + PATIENCE_NS, &result), MOB_OK);
    return result;
}

/* All blocks in front of the cut, as they were. */
static void the_rest_is_there(struct mob_gcs *gcs)
{
    uint64_t number = 0;
    for (uint64_t next = 0;;) {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *result =
            answer(gcs, mob_gcs_log_read(gcs, s.incarnation, next, mob_gcs_sync_done, &sync), &sync);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < a->block_count; i++, number++) {
            assert_int_equal(a->blocks[i].number, number);
            assert_true(mob_hash64(a->blocks[i].bytes, a->blocks[i].length) == s.hashes[number]);
        }
        next = a->next;
        mob_gcs_result_destroy(result);
        if (next == 0)
            break;
    }
    assert_int_equal(number, s.cut);
}

static uint64_t number_now(struct mob_gcs *gcs)
{
    struct mob_gcs_result *result = NULL;
    uint64_t value = 0;
    assert_int_equal(
        mob_gcs_get_wait(gcs, MOB_GCS_KV, "number", 6, mob_now() + PATIENCE_NS, &result), MOB_OK);
    memcpy(&value, mob_gcs_result_answer(result)->kvs[0].value, sizeof value);
    mob_gcs_result_destroy(result);
    return value;
}

/* The member waits for what this client keeps, as it does for any whose process runs; and the client may have
 * to attach once more, when a refusal of an earlier try comes behind its attachment. So it goes on until its
 * question is answered, which is when the member has collected. */
static void until_collected(void)
{
    (void)number_now(s.gcs);
}

static bool has_field(const char *json, const char *name, uint64_t *out)
{
    char text[64];
    snprintf(text, sizeof text, "\"%s\":", name);
    const char *at = strstr(json, text);
    return at != NULL && sscanf(at + strlen(text), "%lu", out) == 1;
}

struct named {
    uint32_t logs, clients;
    uint64_t first_block; /* of the log */
    uint64_t first_put, puts; /* that are missing, of the client */
};

static uint64_t field(const char *json, const char *name)
{
    uint64_t value = 0;
    if (!has_field(json, name, &value))
        fail_msg("no %s in %s", name, json);
    return value;
}

static void take(struct named *named, const char *json)
{
    uint64_t incarnation;
    assert_in_range(
        field(json, "wall_ns"), (uint64_t)s.killed_wall_ns, (uint64_t)mob_wall_now()); /* of this restart */
    if (has_field(json, "incarnation", &incarnation)) {
        assert_int_equal(incarnation, s.incarnation);
        named->first_block = field(json, "first_missing");
        named->logs++;
    } else if (strstr(json, "\"kind\":\"client\"") != NULL) {
        named->first_put = field(json, "first_missing") - 1; /* its first request was the registration */
        named->puts = field(json, "missing");
        named->clients++;
    }
}

static struct named all_named(struct mob_gcs *gcs)
{
    struct named named = {0};
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_list list = {.table = MOB_GCS_LOSSES};
    struct mob_gcs_result *result = answer(gcs, mob_gcs_list(gcs, &list, mob_gcs_sync_done, &sync), &sync);
    const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
    for (uint32_t i = 0; i < a->kv_count; i++) {
        char text[512];
        snprintf(text, sizeof text, "%.*s", (int)a->kvs[i].value_length, (const char *)a->kvs[i].value);
        print_message("  named: %s\n", text);
        take(&named, text);
    }
    mob_gcs_result_destroy(result);
    return named;
}

/* Both are, once, and end at the same place of the history: put n came behind BLOCKS_A_PUT * n blocks. A put
 * that its client still had is there, whatever is missing before it. */
static void it_is_named(struct mob_gcs *gcs)
{
    struct named n = all_named(gcs);
    uint64_t number = number_now(gcs), last = n.first_put - 1;
    print_message("seed %lu: %lu of %lu blocks are left, puts up to %lu of %lu, the newest %lu\n",
        (unsigned long)s.seed, (unsigned long)s.cut, (unsigned long)s.acked, (unsigned long)last,
        (unsigned long)s.puts, (unsigned long)number);
    assert_int_equal(n.logs, 1);
    assert_int_equal(n.clients, 1);
    assert_int_equal(n.first_block, s.cut);
    assert_in_range(s.cut, BLOCKS_A_PUT * last, BLOCKS_A_PUT * (last + 1));
    assert_int_equal(number, n.first_put + n.puts <= s.puts ? s.puts : last);
}

static void what_is_lost_is_named(void **state)
{
    scene_open((uint64_t)(uintptr_t)*state);
    acknowledge(300 + below(10) * 50);
    all_die_and_disks_lack_the_newest();
    until_sealed();
    until_collected();
    struct mob_gcs *gcs = chain_box_client(&s.box);
    the_rest_is_there(gcs);
    it_is_named(gcs);
    put_number(); /* its client goes on */
    assert_int_equal(number_now(gcs), s.puts);
    mob_gcs_destroy(gcs);
    scene_close();
}

int main(void)
{
    enum { SEEDS_MAX = 200 };
    static struct CMUnitTest tests[SEEDS_MAX];
    static char names[SEEDS_MAX][48];
    const char *count = getenv("MOBULA_CHAOS_SEEDS"), *from = getenv("MOBULA_CHAOS_SEED");
    size_t n = count == NULL ? 1 : strtoul(count, NULL, 10);
    uint64_t first = from == NULL ? 1 : strtoull(from, NULL, 10);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < n && i < SEEDS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "what_is_lost_is_named, seed %lu", (unsigned long)(first + i));
        tests[i] = (struct CMUnitTest){.name = names[i],
            .test_func = what_is_lost_is_named,
            .initial_state = (void *)(uintptr_t)(first + i)};
    }
    return _cmocka_run_group_tests("gcs_losses", tests, n < SEEDS_MAX ? n : SEEDS_MAX, NULL, NULL);
}
