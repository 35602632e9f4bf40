/* How flushed lineage lies in PostgreSQL: tables are of days, not of jobs, and a look-up by id goes to the
 * one of its day.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/block.h"
#include "gcs/flush/cold.h"
#include "gcs/flush/migrate.h"
#include "gcs/flush/watermark.h"
#include "gcs/flush/writer.h"
#include "tests/support/gcs_box.h"
#include "tests/support/pg_box.h"

enum { SHARD = 2, BATCH_BLOCKS = 250, TASKS = 3, FIRST_DAY = 20400 };
#define DAY_NS (86400ll * 1000000000)
#define TABLES \
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace " \
    "WHERE n.nspname = 'mobula' AND c.relkind IN ('r', 'p')"
static struct fixture {
    bool skipped;
    struct pg_box box;
    struct mob_database *db;
    struct mob_writer_state *writer;
    struct mob_cold *cold;
    struct mob_flush_block blocks[BATCH_BLOCKS];
    uint32_t count; /* not flushed yet */
    uint64_t seq, flushed;
} f;

static int set_up(void **state)
{
    (void)state;
    uint64_t upto, epoch;
    int from, to;
    memset(&f, 0, sizeof f);
    f.skipped = !pg_box_available();
    if (f.skipped)
        return 0;
    pg_box_init(&f.box);
    pg_box_start(&f.box);
    f.db = pg_box_open(&f.box);
    f.writer = mob_flush_writer_create(SHARD);
    f.cold = mob_cold_create(SHARD);
    return mob_migrate(f.db, mob_migrations, &from, &to) == MOB_OK &&
            mob_watermark_read(f.db, SHARD, &upto, &epoch) == MOB_OK
        ? 0
        : -1;
}

static int tear_down(void **state)
{
    (void)state;
    if (f.skipped)
        return 0;
    mob_cold_destroy(f.cold);
    mob_flush_writer_destroy(f.writer);
    mob_database_close(f.db);
    pg_box_fini(&f.box);
    return 0;
}

#define NEEDS_POSTGRES() \
    (void)state; \
    if (f.skipped) \
    skip()

static void flush(void)
{
    struct mob_flush_batch batch = {
        .after = f.flushed, .upto = f.seq, .epoch = 1, .blocks = f.blocks, .count = f.count};
    struct mob_flush_written written;
    if (f.count == 0)
        return;
    assert_int_equal(mob_flush_write(f.writer, f.db, &batch, &written), MOB_OK);
    for (uint32_t i = 0; i < f.count; i++)
        free((void *)(uintptr_t)f.blocks[i].bytes);
    f.count = 0;
    f.flushed = f.seq;
}

/* A job of one stream that ran a few tasks. */
static void log_job(uint32_t job, int32_t day)
{
    static uint8_t bytes[MOB_BLOCK_BYTES_MAX];
    struct gcs_block_spec spec = {.incarnation = 9,
        .sequence = f.seq,
        .job = (uint16_t)job,
        .stream = 1,
        .tasks = TASKS,
        .specs = true,
        .finals = true,
        .function = 3,
        .mono_ns = 1000000000,
        .wall_ns = (FIRST_DAY + day) * DAY_NS + job * 1000000ll};
    uint32_t length = gcs_block_make(&spec, bytes, sizeof bytes);
    uint8_t *copy = malloc(length);
    memcpy(copy, bytes, length);
    f.blocks[f.count++] = (struct mob_flush_block){++f.seq, copy, length};
    if (f.count == BATCH_BLOCKS)
        flush();
}

/* Blocks that hold the job's tasks. */
static uint32_t look_up(uint32_t job)
{
    struct mob_gcs_cold_get q = {.upto = f.flushed,
        .get = {.query = MOB_GCS_Q_GROUP, .stream = gcs_block_stream((uint16_t)job, 1), .group = 0}};
    struct mob_gcs_cold_answer answer;
    uint32_t blocks = 0;
    do {
        assert_string_equal(mob_status_code(mob_cold_read(f.cold, f.db, &q, &answer)), "ok");
        blocks += answer.block_count;
        q.get.position = answer.next;
    } while (answer.next != 0);
    return blocks;
}

static void a_thousand_small_jobs_are_one_table_and_few_rows(void **state)
{
    enum { JOBS = 1000 };
    NEEDS_POSTGRES();
    log_job(0, 0);
    flush();
    int64_t tables = pg_box_number(f.db, TABLES);
    for (uint32_t job = 1; job < JOBS; job++)
        log_job(job, 0);
    flush();
    assert_int_equal(pg_box_number(f.db, TABLES), tables);
    assert_in_range(pg_box_number(f.db, "SELECT count(*) FROM mobula.bucket"), 1, JOBS / 20);
    assert_int_equal(pg_box_number(f.db, "SELECT sum(specs)::bigint FROM mobula.bucket"), JOBS * TASKS);
    assert_int_equal(pg_box_number(f.db, "SELECT count(DISTINCT job) FROM mobula.job_day"), JOBS);
    for (uint32_t job = 0; job < JOBS; job += 37)
        assert_in_range(look_up(job), 1, 2);
    /* nor is a job that comes on another day one table more than the day */
    log_job(1, 1);
    flush();
    int64_t of_a_day = pg_box_number(f.db, TABLES) - tables;
    log_job(2, 2);
    log_job(3, 2);
    flush();
    assert_int_equal(pg_box_number(f.db, TABLES), tables + 2 * of_a_day);
}

/* Scans of the tables of a day, or of all days (negative), counted by PostgreSQL itself; its counters take
 * what this connection did when they are told to. */
static int64_t scans(int32_t day)
{
    static const char sql[] =
        "SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0)::bigint FROM pg_stat_user_tables WHERE "
        "schemaname = 'mobula' AND relname LIKE 'bucket_d%' AND ($1 < 0 OR relname = 'bucket_d' || $1)";
    struct mob_database_result *rows = NULL;
    struct mob_database_param p;
    assert_int_equal(mob_database_query(f.db, "SELECT pg_stat_force_next_flush()", NULL, 0, NULL), MOB_OK);
    assert_int_equal(mob_database_query(f.db, "SELECT 1", NULL, 0, NULL), MOB_OK);
    assert_int_equal(mob_database_query(f.db, sql, mob_param_i32(&p, day), 1, &rows), MOB_OK);
    int64_t count = mob_database_number(rows, 0, 0);
    mob_database_result_destroy(rows);
    return count;
}

static void a_look_up_by_id_reads_the_table_of_its_day(void **state)
{
    enum { DAYS = 6, JOBS_A_DAY = 20, LOOK_UPS = 15 };
    NEEDS_POSTGRES();
    for (int32_t day = 0; day < DAYS; day++)
        for (uint32_t k = 0; k < JOBS_A_DAY; k++)
            log_job((uint32_t)day * JOBS_A_DAY + k, day);
    flush();
    for (int32_t day = 0; day < DAYS; day++) {
        int64_t before = scans(-1), of_day = scans(FIRST_DAY + day);
        for (uint32_t k = 0; k < LOOK_UPS; k++)
            assert_in_range(look_up((uint32_t)day * JOBS_A_DAY + k), 1, 2);
        int64_t here = scans(FIRST_DAY + day) - of_day;
        assert_true(here >= LOOK_UPS); /* so they are counted */
        assert_int_equal(scans(-1) - before, here);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_thousand_small_jobs_are_one_table_and_few_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_look_up_by_id_reads_the_table_of_its_day, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
