/* The schema: applied to an empty database, to an old one, once; another program's database is refused. The
 * old one is tests/golden/postgres (MOBULA_GOLDEN_WRITE=1 makes it when it is missing, and changes none).
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/wire/block.h"
#include "gcs/flush/cold.h"
#include "gcs/flush/migrate.h"
#include "gcs/flush/watermark.h"
#include "gcs/flush/writer.h"
#include "tests/support/gcs_box.h"
#include "tests/support/pg_box.h"

static struct pg_box box;
static struct mob_database *db;

static int set_up(void **state)
{
    (void)state;
    if (!pg_box_available())
        return 0;
    pg_box_init(&box);
    pg_box_start(&box);
    db = pg_box_open(&box);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (db == NULL)
        return 0;
    mob_database_close(db);
    db = NULL;
    pg_box_fini(&box);
    return 0;
}

#define NEEDS_POSTGRES() \
    (void)state; \
    if (db == NULL) \
    skip()

static int known(void)
{
    int n = 0;
    while (mob_migrations[n].version != 0)
        n++;
    return n;
}

static void an_empty_database_gets_everything_once(void **state)
{
    NEEDS_POSTGRES();
    int from = -1, to = -1;
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(from, 0);
    assert_int_equal(to, known());
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.bucket"), 0);
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(from, known());
    assert_int_equal(to, known());
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.migration"), known());
}

/* The first migration is what old databases have: they must keep what is in them. */
static void an_old_database_is_brought_up_with_what_is_in_it(void **state)
{
    NEEDS_POSTGRES();
    struct mob_migration more[64] = {{0}};
    int n = known(), from, to;
    assert_in_range(n, 1, 60);
    more[0] = mob_migrations[0];
    assert_int_equal(mob_migrate(db, more, &from, &to), MOB_OK);
    assert_int_equal(mob_database_run(db, "INSERT INTO mobula.watermark VALUES (3, 77, 1)"), MOB_OK);
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(from, 1);
    assert_int_equal(to, n);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.node_log"), 0); /* 0004 */
    /* and by migrations of tomorrow */
    memcpy(more, mob_migrations, (size_t)n * sizeof more[0]);
    static const char next[] = "ALTER TABLE mobula.watermark ADD COLUMN tomorrow integer DEFAULT 5";
    more[n] = (struct mob_migration){n + 1, "tomorrow", next, sizeof next - 1};
    assert_int_equal(mob_migrate(db, more, &from, &to), MOB_OK);
    assert_int_equal(from, n);
    assert_int_equal(to, n + 1);
    assert_int_equal(pg_box_number(db, "SELECT upto + tomorrow FROM mobula.watermark WHERE shard = 3"), 82);
    /* which the program of today refuses, and leaves alone */
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_VERSION);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.migration"), n + 1);
}

/* 0005: each configuration that is there names the last start before it, of its own shard. */
static void configurations_learn_when_their_chain_was_started(void **state)
{
    NEEDS_POSTGRES();
    struct mob_migration before[64] = {{0}};
    int from, to;
    assert_true(known() >= 5);
    memcpy(before, mob_migrations, 4 * sizeof before[0]);
    assert_int_equal(mob_migrate(db, before, &from, &to), MOB_OK);
    assert_int_equal(mob_database_run(db,
                         "INSERT INTO mobula.chain_epoch (shard, epoch, term, start, members) "
                         "SELECT s, e, 1, s = 0 AND e IN (3, 6) OR s = 1 AND e = 2, '\\x0102030405060708' "
                         "FROM generate_series(0, 2) s, generate_series(1, 7) e"),
        MOB_OK);
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.chain_epoch"), 21);
    assert_int_equal(pg_box_number(db,
                         "SELECT count(*) FROM mobula.chain_epoch WHERE started <> CASE shard "
                         "WHEN 0 THEN CASE WHEN epoch < 3 THEN 0 WHEN epoch < 6 THEN 3 ELSE 6 END "
                         "WHEN 1 THEN CASE WHEN epoch < 2 THEN 0 ELSE 2 END ELSE 0 END"),
        0);
}

/* ---- a database as version 1 left it, with rows in every table ---- */

enum { OLD_SHARD = 3, TODAYS_SHARD = 4, BLOCKS = 8, LAST_SEQ = 5 + 3 * (BLOCKS - 1) };
#define DAY_NS (86400ll * 1000000000)
static const char *const tables_of_1[] = {
    "cluster", "watermark", "batch", "gap", "bucket", "stream_day", "failure", "job_day", "job_gone"};
#define TABLES_OF_1 (sizeof tables_of_1 / sizeof tables_of_1[0])

/* Two jobs on two days, some tasks of which fail: always the same bytes. */
static void write_blocks(uint32_t shard)
{
    static uint8_t bytes[BLOCKS][MOB_BLOCK_BYTES_MAX];
    struct mob_flush_block blocks[BLOCKS];
    struct mob_writer_state *writer = mob_flush_writer_create(shard);
    uint64_t upto, epoch;
    assert_int_equal(mob_watermark_read(db, shard, &upto, &epoch), MOB_OK);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct gcs_block_spec spec = {.incarnation = 9,
            .sequence = i,
            .job = (uint16_t)(1 + i / 4),
            .stream = (uint8_t)(1 + i / 4),
            .first_index = i / 2 * 50,
            .tasks = 50,
            .specs = i % 2 == 0,
            .finals = i % 2 == 1,
            .failed = i % 2 == 1 ? 3 : 0,
            .function = (uint8_t)(1 + i / 4),
            .wall_ns = (20400 + i / 4) * DAY_NS,
            .mono_ns = 1000000000};
        blocks[i] = (struct mob_flush_block){
            .seq = 5 + 3 * i, .bytes = bytes[i], .length = gcs_block_make(&spec, bytes[i], sizeof bytes[i])};
    }
    for (uint32_t from = 0; from < BLOCKS; from += BLOCKS / 2) {
        struct mob_flush_batch batch = {.after = from == 0 ? 0 : blocks[from - 1].seq,
            .upto = blocks[from + BLOCKS / 2 - 1].seq,
            .epoch = 1,
            .blocks = blocks + from,
            .count = BLOCKS / 2};
        struct mob_flush_written written;
        assert_int_equal(mob_flush_write(writer, db, &batch, &written), MOB_OK);
    }
    mob_flush_writer_destroy(writer);
}

/* ---- what blocks say, in whichever version of the format ---- */

static uint64_t add_zone(uint64_t digest, const struct mob_zone_map *zone)
{
    uint64_t sums[] = {digest, mob_hash64(zone, offsetof(struct mob_zone_map, functions)),
        mob_hash64(zone->functions, zone->function_count * sizeof *zone->functions)};
    assert_true(zone->function_count <= MOB_ZONE_FUNCTIONS_MAX);
    digest = mob_hash64(sums, sizeof sums);
    for (uint32_t i = 0; i < zone->group_count; i++) {
        const struct mob_zone_group *g = &zone->groups[i];
        uint64_t parts[] = {
            digest, mob_hash64(&g->stream, sizeof g->stream), g->group, g->specs, g->finals, g->others};
        digest = mob_hash64(parts, sizeof parts);
    }
    return digest;
}

/* The block's summary, and its header and entries as the encoder of today writes them. */
static uint64_t add_block(uint64_t digest, const struct mob_gcs_block_row *row)
{
    static uint8_t again[MOB_BLOCK_BYTES_MAX];
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    struct mob_block_encoder *encoder = mob_block_encoder_create();
    struct mob_block_header header;
    enum mob_status status;
    memset(&zone, 0, sizeof zone);
    assert_int_equal(mob_block_open(decoder, row->bytes, row->length, &header, &zone), MOB_OK);
    mob_block_begin(encoder, &header);
    while ((status = mob_block_next(decoder, &entry)) == MOB_OK) {
        const struct mob_spec *spec = &entry.spec;
        assert_true(entry.type == MOB_ENTRY_SPEC || entry.type == MOB_ENTRY_COMPLETION);
        assert_int_equal(entry.type == MOB_ENTRY_SPEC
                ? mob_block_add_spec(encoder, &spec->head, spec->tail, spec->tail_bytes, entry.submitted_ns)
                : mob_block_add_completion(encoder, &entry.completion.head, entry.completion.body),
            MOB_OK);
    }
    assert_int_equal(status, MOB_CLOSED);
    assert_int_equal(mob_block_entries(encoder), header.entry_count);
    uint32_t length = mob_block_end(encoder, again);
    uint64_t parts[] = {add_zone(digest, &zone), row->seq, mob_hash64(again, length)};
    mob_block_encoder_destroy(encoder);
    mob_block_decoder_destroy(decoder);
    return mob_hash64(parts, sizeof parts);
}

/* Of all blocks that the question gives, page by page, with their positions; *blocks_out: how many. */
static uint64_t read_blocks(uint32_t shard, struct mob_gcs_get get, uint32_t *blocks_out)
{
    struct mob_cold *cold = mob_cold_create(shard);
    struct mob_gcs_cold_get q = {.upto = LAST_SEQ, .get = get};
    uint64_t digest = 0;
    *blocks_out = 0;
    do {
        struct mob_gcs_cold_answer answer;
        assert_string_equal(mob_status_code(mob_cold_read(cold, db, &q, &answer)), "ok");
        for (uint32_t i = 0; i < answer.block_count; i++)
            digest = add_block(digest, &answer.blocks[i]);
        *blocks_out += answer.block_count;
        q.get.position = answer.next;
        q.get.prefix_length = answer.tie;
    } while (q.get.position != 0);
    mob_cold_destroy(cold);
    return digest;
}

/* PROGRAM at the test's database, with ARGUMENTS that end with the path. */
static void run_tool(const char *program, const char *arguments, const char *path)
{
    char command[4096];
    snprintf(command, sizeof command, "%s -h %s -p 1 -U mobula -d postgres %s %s", program, box.data,
        arguments, path);
    assert_int_equal(system(command), 0);
}

static void make_golden(const char *path)
{
    struct mob_migration first[2] = {mob_migrations[0], {0}};
    struct mob_cluster_id cluster;
    int from, to;
    memset(&cluster, 7, sizeof cluster);
    assert_int_equal(mob_migrate(db, first, &from, &to), MOB_OK);
    assert_int_equal(mob_migrate_claim(db, cluster), MOB_OK);
    write_blocks(OLD_SHARD);
    assert_int_equal(mob_watermark_gap(db, OLD_SHARD, 1, 3), MOB_OK);
    assert_int_equal(mob_database_run(db, "INSERT INTO mobula.job_gone (job) VALUES ('\\x09')"), MOB_OK);
    /* later tools write lines of their own, which earlier ones do not understand */
    run_tool("pg_dump", "--schema=mobula --inserts --no-owner | grep -v '^[\\\\]' >", path);
    assert_int_equal(mob_database_run(db, "DROP SCHEMA mobula CASCADE"), MOB_OK);
}

static void count_rows(int64_t counts[TABLES_OF_1])
{
    char sql[100];
    for (size_t i = 0; i < TABLES_OF_1; i++) {
        snprintf(sql, sizeof sql, "SELECT count(*) FROM mobula.%s", tables_of_1[i]);
        counts[i] = pg_box_number(db, sql);
        if (counts[i] == 0)
            fail_msg("%s has no rows", tables_of_1[i]);
    }
}

static void load_version_1(void)
{
    const char *source = getenv("MOBULA_SOURCE_DIR");
    char path[2048];
    snprintf(path, sizeof path, "%s/tests/golden/postgres/v1.sql", source == NULL ? "." : source);
    if (access(path, R_OK) != 0 && getenv("MOBULA_GOLDEN_WRITE") != NULL)
        make_golden(path);
    run_tool("psql -X -q -v ON_ERROR_STOP=1", "-o /dev/null -f", path);
}

/* What it gives after all migrations is what the writer and the reader of today make of the same blocks, but
 * for the version of the format in which they were written. */
static void a_database_of_version_1_is_read_as_one_of_today(void **state)
{
    NEEDS_POSTGRES();
    int from, to;
    int64_t before[TABLES_OF_1], after[TABLES_OF_1];
    load_version_1();
    count_rows(before);
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(from, 1);
    assert_int_equal(to, known());
    count_rows(after);
    assert_memory_equal(before, after, sizeof before);
    struct mob_cluster_id cluster;
    memset(&cluster, 7, sizeof cluster);
    assert_int_equal(mob_migrate_claim(db, cluster), MOB_OK);
    cluster.b[0] = 8;
    assert_int_equal(mob_migrate_claim(db, cluster), MOB_DENIED);
    uint64_t upto, epoch;
    assert_int_equal(mob_watermark_read(db, OLD_SHARD, &upto, &epoch), MOB_OK);
    assert_int_equal(upto, LAST_SEQ);
    write_blocks(TODAYS_SHARD);
    const struct mob_gcs_get questions[] = {{.query = MOB_GCS_Q_SCAN},
        {.query = MOB_GCS_Q_SCAN, .newest_first = 1}, {.query = MOB_GCS_Q_SCAN, .failed = 1},
        {.query = MOB_GCS_Q_SCAN, .job = gcs_block_job(2)},
        {.query = MOB_GCS_Q_SCAN, .function = gcs_block_function(1)}, {.query = MOB_GCS_Q_HISTORY},
        {.query = MOB_GCS_Q_GROUP, .stream = gcs_block_stream(1, 1)}};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        uint32_t of_old, of_today;
        uint64_t old = read_blocks(OLD_SHARD, questions[i], &of_old),
                 today = read_blocks(TODAYS_SHARD, questions[i], &of_today);
        if (old != today || of_old != of_today || of_old == 0)
            fail_msg("question %zu: %u blocks of the old database, %u of today's", i, of_old, of_today);
    }
}

/* 0007: batches of a database in which jobs were deleted note what they lack by now, and only those: where
 * nothing was deleted, what is missing stays missed. */
static void batches_learn_what_they_have_lost(void **state)
{
    NEEDS_POSTGRES();
    struct mob_migration before[64] = {{0}};
    int from, to;
    assert_true(known() >= 7);
    memcpy(before, mob_migrations, 6 * sizeof before[0]);
    for (int deleted = 0; deleted < 2; deleted++) {
        assert_int_equal(mob_migrate(db, before, &from, &to), MOB_OK);
        write_blocks(OLD_SHARD);
        assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.batch"), 2);
        assert_int_equal(
            mob_database_run(db,
                "DELETE FROM mobula.bucket WHERE day = 20400; DELETE FROM mobula.failure WHERE day = 20400"),
            MOB_OK);
        if (deleted)
            assert_int_equal(
                mob_database_run(db, "INSERT INTO mobula.job_gone (job) VALUES ('\\x09')"), MOB_OK);
        assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
        assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.deleted"), deleted);
        assert_int_equal(
            pg_box_number(db,
                "SELECT count(*) FROM mobula.deleted d JOIN mobula.batch t USING (shard, upto) WHERE "
                "(t.buckets, t.specs, t.finals, t.failed, t.others, t.failed) = (d.buckets, d.specs, "
                "d.finals, d.failed, d.others, d.failures) AND d.specs = 100 AND d.failed = 6"),
            deleted);
        /* its days are not known any more: all that there are */
        assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.job_gone_day"), 2 * deleted);
        assert_int_equal(mob_database_run(db, "DROP SCHEMA mobula CASCADE"), MOB_OK);
    }
}

static void other_contents_of_a_number_are_refused(void **state)
{
    NEEDS_POSTGRES();
    int from, to;
    static const char text[] = "CREATE TABLE mobula.other (a integer)";
    struct mob_migration other[] = {{1, "other", text, sizeof text - 1}, {0, NULL, NULL, 0}};
    assert_int_equal(mob_migrate(db, other, &from, &to), MOB_OK);
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_CORRUPT);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM pg_tables WHERE schemaname = 'mobula'"), 2);
}

static void one_that_fails_half_way_leaves_nothing(void **state)
{
    NEEDS_POSTGRES();
    int from, to;
    static const char good[] = "CREATE TABLE mobula.a (x integer)",
                      bad[] = "CREATE TABLE mobula.b (x integer); SELECT 1 / 0";
    struct mob_migration list[] = {
        {1, "good", good, sizeof good - 1}, {2, "bad", bad, sizeof bad - 1}, {0, NULL, NULL, 0}};
    assert_int_equal(mob_migrate(db, list, &from, &to), MOB_IO);
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.migration"), 1);
    assert_int_equal(
        pg_box_number(db, "SELECT count(*) FROM pg_tables WHERE schemaname = 'mobula' AND tablename = 'b'"),
        0);
    list[1] = (struct mob_migration){2, "repaired", good, 0};
    static const char repaired[] = "CREATE TABLE mobula.b (x integer)";
    list[1].sql = repaired;
    list[1].length = sizeof repaired - 1;
    assert_int_equal(mob_migrate(db, list, &from, &to), MOB_OK);
    assert_int_equal(from, 1);
}

static void two_at_once_take_turns(void **state)
{
    NEEDS_POSTGRES();
    pid_t children[6];
    for (int i = 0; i < 6; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct mob_database *own = pg_box_open(&box);
            int from, to;
            _exit(mob_migrate(own, mob_migrations, &from, &to) == MOB_OK ? 0 : 1);
        }
    }
    for (int i = 0; i < 6; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(pg_box_number(db, "SELECT count(*) FROM mobula.migration"), known());
}

static void it_belongs_to_one_cluster(void **state)
{
    NEEDS_POSTGRES();
    int from, to;
    struct mob_cluster_id mine = {{1, 2, 3}}, other = {{4}};
    assert_int_equal(mob_migrate(db, mob_migrations, &from, &to), MOB_OK);
    assert_int_equal(mob_migrate_claim(db, mine), MOB_OK);
    assert_int_equal(mob_migrate_claim(db, mine), MOB_OK);
    assert_int_equal(mob_migrate_claim(db, other), MOB_DENIED);
}

static void a_connection_that_ended_is_told_as_such(void **state)
{
    NEEDS_POSTGRES();
    assert_int_equal(mob_database_run(db, "BEGIN"), MOB_OK);
    pg_box_end(&box, SIGKILL);
    /* What serves this connection is another process than the one that was killed, and ends when it notices.
     */
    enum mob_status status;
    for (int64_t deadline = mob_now() + 60 * MOB_SEC; (status = mob_database_run(db, "SELECT 1")) == MOB_OK;
         poll(NULL, 0, 5))
        assert_true(mob_now() < deadline);
    assert_int_equal(status, MOB_UNAVAILABLE);
    assert_false(mob_database_good(db));
    mob_database_rollback(db); /* and nothing more */
    pg_box_start(&box);
    struct mob_database *again = pg_box_open(&box);
    assert_int_equal(pg_box_number(again, "SELECT 41 + 1::bigint"), 42);
    mob_database_close(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_database_gets_everything_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_old_database_is_brought_up_with_what_is_in_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_database_of_version_1_is_read_as_one_of_today, set_up, tear_down),
        cmocka_unit_test_setup_teardown(configurations_learn_when_their_chain_was_started, set_up, tear_down),
        cmocka_unit_test_setup_teardown(batches_learn_what_they_have_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_contents_of_a_number_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_fails_half_way_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_at_once_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_belongs_to_one_cluster, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_connection_that_ended_is_told_as_such, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
