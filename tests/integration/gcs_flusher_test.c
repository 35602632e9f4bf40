/* mobula-flush between a member and a real PostgreSQL: killed, stopped, overtaken, and without a database for
 * a while; every task is there once afterwards. ctest: timeout=300 long
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/process.h"
#include "common/wire/block.h"
#include "tests/support/flush_box.h"
#include "tests/support/xorshift.h"

#define DEADLINE_NS (90 * MOB_SEC)
#define TASKS_BLOCK 100u
#define BLOCKS_MAX 100000u
#define STREAMS 4u

static struct fixture {
    struct gcs_box gcs_box;
    struct pg_box pg_box;
    struct flush_box flush_box;
    struct mob_gcs *gcs;
    struct mob_gcs_log *log;
    struct mob_database *db;
    pid_t flusher;
    uint64_t incarnation, acked, appended;
    uint8_t *seen; /* of each task: specs, and finals << 4 */
    uint64_t memory_most;
    bool small_disk; /* is mounted under PostgreSQL */
} f;

static int64_t soon(void)
{
    return mob_now() + DEADLINE_NS;
}
static void on_acked(void *arg, uint64_t count)
{
    (void)arg;
    f.acked = count;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    (void)arg;
    free(block);
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    (void)cut;
    fail_msg("sealed: %s", mob_status_code(why));
}

static int set_up(void **state)
{
    (void)state;
    memset(&f, 0, sizeof f);
    if (!pg_box_available())
        return 0;
    pg_box_init(&f.pg_box);
    pg_box_start(&f.pg_box);
    f.db = pg_box_open(&f.pg_box);
    gcs_box_init(&f.gcs_box, NULL);
    f.flush_box = (struct flush_box){
        .gcs = &f.gcs_box, .pg = &f.pg_box, .batch_bytes = "64KiB", .delay_ms = "50", .hot_percent = "0"};
    f.seen = calloc(BLOCKS_MAX, TASKS_BLOCK);
    return 0;
}

static bool shell(const char *words, const char *of)
{
    char command[512];
    snprintf(command, sizeof command, "%s %s", words, of);
    return system(command) == 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (f.db == NULL)
        return 0;
    gcs_box_end(&f.flusher, SIGKILL);
    mob_gcs_destroy(f.gcs);
    gcs_box_fini(&f.gcs_box);
    mob_database_close(f.db);
    if (f.small_disk) {
        pg_box_end(&f.pg_box, SIGINT);
        (void)shell("umount -l", f.pg_box.data);
    }
    pg_box_fini(&f.pg_box);
    free(f.seen);
    return 0;
}

#define NEEDS_POSTGRES() \
    (void)state; \
    if (f.db == NULL) \
    skip()

static void start(const char *failpoints)
{
    const struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, NULL};
    gcs_box_start(&f.gcs_box);
    f.flusher = flush_box_spawn(&f.flush_box, failpoints);
    f.gcs = gcs_box_client(&f.gcs_box);
    assert_int_equal(mob_gcs_node_register_wait(f.gcs, "node-a", soon(), &f.incarnation), MOB_OK);
    assert_int_equal(mob_gcs_log_open(f.gcs, f.incarnation, 0, &events, &f.log), MOB_OK);
}

static void step(void)
{
    struct mob_gcs_position at;
    mob_gcs_step(f.gcs, mob_now());
    mob_gcs_position(f.gcs, &at);
    f.memory_most = at.memory_bytes > f.memory_most ? at.memory_bytes : f.memory_most;
    struct pollfd p = {.fd = mob_gcs_fd(f.gcs), .events = POLLIN};
    poll(&p, 1, 5);
}

struct slot {
    struct mob_gcs_block block;
    uint8_t bytes[65536];
};

/* Block n holds specs of TASKS_BLOCK tasks and the completions of those of block n - STREAMS. */
static void append(uint32_t blocks)
{
    static uint8_t bytes[65536];
    for (uint32_t i = 0; i < blocks; i++) {
        uint64_t n = f.appended++, pair = n / 2;
        struct gcs_block_spec spec = {.job = 1,
            .stream = (uint8_t)(pair % STREAMS),
            .first_index = (uint32_t)(pair / STREAMS) * TASKS_BLOCK,
            .tasks = TASKS_BLOCK,
            .specs = n % 2 == 0,
            .finals = n % 2 == 1,
            .failed = pair % 7 == 0,
            .function = 1,
            .incarnation = f.incarnation,
            .sequence = n};
        uint32_t length = gcs_block_make(&spec, bytes, sizeof bytes);
        struct slot *slot = malloc(offsetof(struct slot, bytes) + length);
        memcpy(slot->bytes, bytes, length);
        slot->block.bytes = slot->bytes;
        slot->block.length = length;
        assert_int_equal(mob_gcs_log_append(f.log, &slot->block), MOB_OK);
        if (n % 32 == 0)
            step();
    }
}

static void wait_acked(void)
{
    for (int64_t deadline = soon(); f.acked < f.appended; step())
        assert_true(mob_now() < deadline);
}

static struct mob_gcs_result *wait_answer(enum mob_status submitted, struct mob_gcs_sync *sync)
{
    struct mob_gcs_result *result = NULL;
    assert_int_equal(submitted, MOB_OK);
    assert_int_equal(mob_gcs_sync_wait(f.gcs, sync, soon(), &result), MOB_OK);
    return result;
}

static struct mob_gcs_stats stats(void)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *r = wait_answer(mob_gcs_stats(f.gcs, mob_gcs_sync_done, &sync), &sync);
    struct mob_gcs_stats s = *mob_gcs_result_answer(r)->stats;
    mob_gcs_result_destroy(r);
    return s;
}

/* Until every block is in PostgreSQL and gone from the member. */
static void wait_flushed(void)
{
    for (int64_t deadline = soon(); stats().blocks > 0; poll(NULL, 0, 10)) {
        assert_true(mob_now() < deadline);
        step();
    }
}

static void take_block(const struct mob_gcs_block_row *row, struct mob_block_decoder *decoder)
{
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    struct mob_block_header header;
    enum mob_status status = mob_block_open(decoder, row->bytes, row->length, &header, &zone);
    while (status == MOB_OK && (status = mob_block_next(decoder, &entry)) == MOB_OK) {
        bool spec = entry.type == MOB_ENTRY_SPEC;
        struct mob_task_id task = spec ? entry.spec.head.task : entry.completion.head.task;
        size_t at = (size_t)task.index * STREAMS + task.stream.b[1];
        assert_in_range(at, 0, (size_t)BLOCKS_MAX * TASKS_BLOCK - 1);
        f.seen[at] = (uint8_t)(f.seen[at] + (spec ? 1 : 16));
    }
    assert_int_equal(status, MOB_CLOSED);
}

/* A scan over everything, wherever it is: each spec and each completion once. */
static void all_is_there_once(bool newest_first)
{
    struct mob_gcs_scan scan = {.newest_first = newest_first};
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    uint64_t pairs = f.appended / 2;
    memset(f.seen, 0, (size_t)BLOCKS_MAX * TASKS_BLOCK);
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = wait_answer(mob_gcs_scan(f.gcs, &scan, mob_gcs_sync_done, &sync), &sync);
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++)
            take_block(&a->blocks[i], decoder);
        scan.position = a->next;
        mob_gcs_result_destroy(r);
    } while (scan.position != 0);
    mob_block_decoder_destroy(decoder);
    for (uint64_t pair = 0; pair < pairs; pair++)
        for (uint32_t i = 0; i < TASKS_BLOCK; i++) {
            size_t at = (size_t)(pair / STREAMS * TASKS_BLOCK + i) * STREAMS + pair % STREAMS;
            if (f.seen[at] != 0x11)
                fail_msg("task %u of pair %lu: %u specs, %u completions", i, (unsigned long)pair,
                    f.seen[at] & 15u, f.seen[at] >> 4);
        }
}

/* The rows of PostgreSQL by themselves: batches without holes, and their sums. */
static void database_is_whole(void)
{
    assert_int_equal(
        pg_box_number(f.db, "SELECT sum(specs)::bigint FROM mobula.batch"), f.appended / 2 * TASKS_BLOCK);
    assert_int_equal(
        pg_box_number(f.db, "SELECT sum(specs)::bigint FROM mobula.bucket"), f.appended / 2 * TASKS_BLOCK);
    assert_int_equal(
        pg_box_number(f.db, "SELECT sum(finals)::bigint FROM mobula.bucket"), f.appended / 2 * TASKS_BLOCK);
    assert_int_equal(pg_box_number(f.db,
                         "SELECT count(*) FROM mobula.batch b WHERE after <> 0 AND NOT EXISTS "
                         "(SELECT FROM mobula.batch a WHERE a.upto = b.after)"),
        0);
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.gap"), 0);
    assert_int_equal(
        pg_box_number(f.db, "SELECT upto - (SELECT max(upto) FROM mobula.batch) FROM mobula.watermark"), 0);
}

static void check_everything(void)
{
    wait_acked();
    wait_flushed();
    all_is_there_once(false);
    all_is_there_once(true);
    database_is_whole();
    struct mob_gcs_stats s = stats();
    assert_int_equal(s.cold_groups, 0); /* nothing is unfinished */
    assert_true(s.cold_reads > 0);
}

/* ---- tests ---- */

static void blocks_move_and_every_read_finds_them(void **state)
{
    NEEDS_POSTGRES();
    start(NULL);
    append(600);
    check_everything();
    append(600);
    check_everything();
}

/* Each end of a flusher in turn: a new one begins where the watermark is. */
/* One flusher after the other, each with a failpoint at which it dies. */
static void flushers_die(const char *const *ends, size_t count, const uint32_t *blocks)
{
    start(ends[0]);
    for (size_t i = 0; i < count; i++) {
        append(blocks[i]);
        wait_acked();
        for (int64_t deadline = soon(); !gcs_box_ended(&f.flusher); step())
            assert_true(mob_now() < deadline);
        f.flusher = flush_box_spawn(&f.flush_box, i + 1 < count ? ends[i + 1] : NULL);
    }
    append(100);
    check_everything();
}

static void a_flusher_that_dies_anywhere_leaves_nothing_out(void **state)
{
    static const char *const ends[] = {"flush.before_commit=kill@2", "flush.after_commit=kill@1",
        "flush.after_commit=kill@3", "flush.before_flush=kill@2", "flush.before_commit=kill@1"};
    static const uint32_t blocks[] = {300, 300, 300, 300, 300};
    NEEDS_POSTGRES();
    flushers_die(ends, sizeof ends / sizeof ends[0], blocks);
}

/* In the log of all flushers. */
static uint32_t said(const char *text)
{
    char path[128], line[1024];
    uint32_t count = 0;
    snprintf(path, sizeof path, "%s/flush.log", f.gcs_box.directory);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        count += strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return count;
}

static void wait_said(const char *text, uint32_t times)
{
    for (int64_t deadline = soon(); said(text) < times; step())
        if (mob_now() > deadline)
            fail_msg("said %u times and not %u: %s (%s)", said(text), times, text, f.gcs_box.directory);
}

/* Where it stops, whether its successor ends its connection, and what it says of it when it goes on. */
static const struct zombie {
    const char *point;
    bool connection_ends;
    const char *says;
} zombies[] = {
    /* inside of the transaction, where it holds the watermark's row */
    {"flush.before_commit", true, "sql=\"COMMIT\""},
    /* before it, where nobody can tell: its compare-and-set finds no row */
    {"flush.before_watermark", false, "flush overtaken shard=0"},
};

/* It is continued when its successor has gone on. */
static void one_is_a_zombie(const struct zombie *how, uint32_t passage, uint32_t before, uint32_t meanwhile)
{
    char stops[64];
    snprintf(stops, sizeof stops, "%s=stop@%u", how->point, passage);
    start(stops);
    append(before);
    wait_acked();
    for (int64_t deadline = soon(); !mob_process_is_stopped(f.flusher); step())
        assert_true(mob_now() < deadline);
    pid_t zombie = f.flusher;
    f.flusher = flush_box_spawn(&f.flush_box, NULL);
    append(meanwhile);
    wait_acked();
    wait_flushed(); /* by the successor, behind the zombie's lock if it has one */
    assert_int_equal(said("transaction_ended") > 0, how->connection_ends);
    int64_t batches = pg_box_number(f.db, "SELECT count(*) FROM mobula.batch");
    uint32_t before_it = said(how->says);
    kill(zombie, SIGCONT);
    wait_said(how->says, before_it + 1); /* the successor has nothing to write, so it is the zombie */
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.batch"), batches);
    append(meanwhile);
    check_everything();
    append(100);
    check_everything();
    gcs_box_end(&zombie, SIGKILL);
}

static void a_zombie_does_no_harm(void **state)
{
    NEEDS_POSTGRES();
    one_is_a_zombie(&zombies[0], 3, 300, 300);
}

static void an_overtaken_one_finds_no_row(void **state)
{
    NEEDS_POSTGRES();
    one_is_a_zombie(&zombies[1], 3, 300, 300);
}

/* All processes of PostgreSQL stop, or its first one dies and the others with it. */
static void postgres_goes(int round)
{
    mob_database_close(f.db);
    f.db = NULL;
    if (round == 1)
        pg_box_signal_all(&f.pg_box, SIGSTOP);
    else
        pg_box_end_all(&f.pg_box, round == 0 ? SIGQUIT : SIGKILL);
}

static void postgres_comes_back(int round)
{
    if (round == 1)
        pg_box_signal_all(&f.pg_box, SIGCONT);
    else
        pg_box_spawn(&f.pg_box);
    f.db = pg_box_open(&f.pg_box);
}

#define AWAY_BLOCKS 8000 /* that come meanwhile, all the time */

/* While PostgreSQL is away the member keeps everything that comes. */
static void blocks_come_while_it_is_away(int64_t away_ns)
{
    uint64_t gone_at = stats().applied, before = f.appended;
    for (int64_t begin = mob_now(), now = begin; now - begin < away_ns; now = mob_now()) {
        if (f.appended < before + (uint64_t)(AWAY_BLOCKS * ((double)(now - begin) / (double)away_ns)))
            append(20);
        step();
    }
    wait_acked();
    struct mob_gcs_stats s = stats();
    if (s.flushed > gone_at || s.applied <= gone_at)
        fail_msg("gone at %lu, and flushed up to %lu of %lu", (unsigned long)gone_at,
            (unsigned long)s.flushed, (unsigned long)s.applied);
}

static void postgres_may_be_away(void **state)
{
    NEEDS_POSTGRES();
    const char *seconds = getenv("MOBULA_TEST_AWAY_S"); /* ./dev test --long: 60 */
    int64_t away = (seconds == NULL ? 1 : atoi(seconds)) * MOB_SEC;
    start(NULL);
    for (int round = 0; round < 3; round++) {
        append(300);
        postgres_goes(round);
        blocks_come_while_it_is_away(away);
        postgres_comes_back(round);
        append(100);
        check_everything();
    }
}

static void stop_server_processes(const char *of, char pids[256])
{
    char sql[256];
    snprintf(sql, sizeof sql,
        "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
        "application_name = '%s'",
        of);
    struct mob_database_result *rows = NULL;
    assert_int_equal(mob_database_query_once(f.db, sql, NULL, 0, &rows), MOB_OK);
    assert_false(mob_database_null(rows, 0, 0));
    size_t length;
    const uint8_t *bytes = mob_database_bytes(rows, 0, 0, &length);
    assert_true(length < 256);
    memcpy(pids, bytes, length);
    pids[length] = 0;
    mob_database_result_destroy(rows);
    for (char *end = pids; *end != 0;)
        assert_int_equal(kill((pid_t)strtol(end, &end, 10), SIGSTOP), 0);
}

static bool all_have_ended(const char *pids)
{
    bool all = true;
    for (char *end = (char *)(uintptr_t)pids; *end != 0;)
        all = mob_process_started((pid_t)strtol(end, &end, 10)) == 0 && all;
    return all;
}

/* Those of the readers, then the writer's: other processes take their place, and they end. */
static void server_processes_may_be_stopped(void **state)
{
    NEEDS_POSTGRES();
    char readers[256], writer[256];
    start(NULL);
    append(300);
    check_everything();
    stop_server_processes("mobula", readers);
    for (int64_t deadline = soon(); !all_have_ended(readers); all_is_there_once(false))
        assert_true(mob_now() < deadline);
    stop_server_processes("mobula-flush-0", writer);
    append(600);
    check_everything();
    for (int64_t deadline = soon(); !all_have_ended(writer); poll(NULL, 0, 20))
        assert_true(mob_now() < deadline);
}

/* More than fits between the two processes. */
static void a_copy_does_not_wait_for_a_stopped_server(void **state)
{
    static const uint8_t bytes[1 << 16];
    NEEDS_POSTGRES();
    struct mob_database *db = pg_box_open(&f.pg_box);
    mob_database_leave_stopped(db);
    assert_int_equal(mob_database_run(db, "CREATE TEMP TABLE copied (b bytea)"), MOB_OK);
    for (int stops = 0; stops < 2; stops++) {
        pid_t server = (pid_t)pg_box_number(db, "SELECT pg_backend_pid()");
        assert_int_equal(mob_copy_begin(db, "COPY copied FROM STDIN (FORMAT binary)"), MOB_OK);
        if (stops)
            assert_int_equal(kill(server, SIGSTOP), 0);
        for (int i = 0; i < 100; i++) {
            mob_copy_row(db, 1);
            mob_copy_bytes(db, bytes, sizeof bytes);
        }
        assert_int_equal(mob_copy_end(db), stops ? MOB_UNAVAILABLE : MOB_OK);
        if (!stops)
            assert_int_equal(pg_box_number(db, "SELECT count(*) FROM copied"), 100);
    }
    mob_database_close(db);
}

/* PostgreSQL's directory on a disk of its own; false: not allowed. */
static bool move_to_small_disk(void)
{
    char moved[128], copy[300];
    struct stat owner;
    snprintf(moved, sizeof moved, "%s.moved", f.pg_box.data);
    pg_box_end(&f.pg_box, SIGINT);
    assert_int_equal(stat(f.pg_box.data, &owner), 0);
    assert_int_equal(rename(f.pg_box.data, moved) | mkdir(f.pg_box.data, 0700), 0);
    if (!shell("mount -t tmpfs -o size=128m tmpfs 2>/dev/null", f.pg_box.data)) {
        assert_int_equal(rmdir(f.pg_box.data) | rename(moved, f.pg_box.data), 0);
        print_message("needs the right to mount\n");
        return false;
    }
    snprintf(copy, sizeof copy, "%s/. %s", moved, f.pg_box.data);
    assert_true(shell("cp -a", copy));
    assert_true(shell("rm -rf", moved));
    assert_int_equal(chmod(f.pg_box.data, 0700) | chown(f.pg_box.data, owner.st_uid, owner.st_gid), 0);
    return true;
}

static uint32_t writes_failed(void)
{
    char path[128], line[1024];
    uint32_t count = 0;
    snprintf(path, sizeof path, "%s/flush.log", f.gcs_box.directory);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, "session_ended why=write") != NULL;
    fclose(file);
    return count;
}

/* Nothing that PostgreSQL has no room for leaves the member, which goes on taking what comes; and all goes on
 * when there is room, also when PostgreSQL ended because of it. */
static void a_full_disk_under_postgres_loses_nothing(void **state)
{
    char filler[128];
    NEEDS_POSTGRES();
    start(NULL);
    append(300);
    check_everything();
    f.small_disk = move_to_small_disk();
    pg_box_start(&f.pg_box);
    mob_database_close(f.db);
    f.db = pg_box_open(&f.pg_box);
    if (!f.small_disk)
        skip();
    snprintf(filler, sizeof filler, "%s/filler", f.pg_box.data);
    (void)shell("head -c 200M /dev/zero 2>/dev/null >", filler); /* as much as there is room for */
    for (int64_t deadline = soon(); writes_failed() < 2; step()) {
        assert_true(mob_now() < deadline);
        if (f.appended < 3000)
            append(20);
    }
    wait_acked();
    assert_true(stats().blocks > 0);
    assert_int_equal(unlink(filler), 0);
    if (gcs_box_ended(&f.pg_box.pid))
        pg_box_spawn(&f.pg_box);
    mob_database_close(f.db);
    f.db = pg_box_open(&f.pg_box);
    append(100);
    check_everything();
}

/* The member with its Redis dies under the flusher. */
static void a_member_may_die(void **state)
{
    NEEDS_POSTGRES();
    start(NULL);
    for (int round = 0; round < 4; round++) {
        append(400);
        gcs_box_end(&f.gcs_box.gcs, SIGKILL);
        if (round % 2 == 1) {
            gcs_box_end(&f.gcs_box.redis, SIGKILL);
            gcs_box_start_redis(&f.gcs_box);
        }
        gcs_box_start_gcs(&f.gcs_box);
        append(100);
        check_everything();
    }
}

/* What is not asked for under the cap stays; above it the oldest goes, and memory stays below. With
 * MOBULA_TEST_ALL=1 twice as much of everything. */
static void memory_stays_under_its_cap(void **state)
{
    NEEDS_POSTGRES();
    f.flush_box = (struct flush_box){
        .gcs = &f.gcs_box, .pg = &f.pg_box, .batch_bytes = "1MiB", .delay_ms = "200", .hot_percent = "50"};
    uint32_t times = getenv("MOBULA_TEST_ALL") == NULL ? 1 : 2;
    const char *caps[] = {"--gcs-soft-bytes", times == 1 ? "8MiB" : "16MiB", "--gcs-hard-bytes",
        times == 1 ? "11MiB" : "22MiB"};
    memcpy(f.gcs_box.args, caps, sizeof caps);
    start(NULL);
    append(200);
    wait_acked();
    for (int64_t deadline = soon(), rows = 0; rows == 0; step()) {
        assert_true(mob_now() < deadline);
        if (pg_box_number(f.db, "SELECT count(*) FROM pg_tables WHERE tablename = 'batch'") == 1)
            rows = pg_box_number(f.db, "SELECT coalesce(sum(blocks), 0)::bigint / 200 FROM mobula.batch");
    }
    assert_int_equal(stats().flushed, 0); /* in both places: there is room */
    /* Several times the cap. The log is refused at the hard cap and tries again, so all of it comes through.
     */
    while (f.appended < times * 45000) {
        append(1000);
        while (f.appended - f.acked > 2000)
            step();
    }
    wait_acked();
    struct mob_gcs_stats s = stats();
    printf("most memory %lu MiB, flushed %lu of %lu, %lu bytes appended\n", f.memory_most >> 20,
        (unsigned long)s.flushed, (unsigned long)s.applied, (unsigned long)s.append_bytes);
    assert_true(s.append_bytes > 4 * times * (11u << 20));
    assert_true(f.memory_most < (times * 11 + 4)
            << 20); /* the cap, and what a second brings between two measurements */
    assert_true(s.flushed > 0 && s.flushed < s.applied);
    all_is_there_once(false);
}

/* Another cluster's database, and a newer program's, are refused: nothing is written, and it ends. */
static void a_foreign_database_is_refused(void **state)
{
    NEEDS_POSTGRES();
    start(NULL);
    append(100);
    check_everything();
    gcs_box_end(&f.flusher, SIGTERM);
    static const char *const changes[] = {"UPDATE mobula.cluster SET id = decode(repeat('ab', 16), 'hex')",
        "INSERT INTO mobula.migration (version, name, digest) SELECT max(version) + 1, 'later', 'x' FROM "
        "mobula.migration"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mob_database_run(f.db, changes[i]), MOB_OK);
        int64_t batches = pg_box_number(f.db, "SELECT count(*) FROM mobula.batch");
        append(100);
        wait_acked();
        f.flusher = flush_box_spawn(&f.flush_box, NULL);
        int status = gcs_box_end(&f.flusher, 0); /* by itself */
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 3);
        assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.batch"), batches);
    }
}

static void put_job(uint8_t job, const char *state, int64_t ended_us)
{
    char text[128];
    struct mob_job_id id = gcs_block_job(job);
    snprintf(
        text, sizeof text, "{\"state\":\"%s\",\"standing\":false,\"ended_us\":%ld}", state, (long)ended_us);
    struct mob_gcs_put put = {.table = MOB_GCS_JOBS,
        .key = &id,
        .key_length = sizeof id,
        .value = text,
        .value_length = (uint32_t)strlen(text),
        .if_version = MOB_GCS_ANY_VERSION};
    assert_int_equal(mob_gcs_put_wait(f.gcs, &put, soon(), NULL), MOB_OK);
}

static void append_old(uint8_t job, uint8_t stream, int days_ago, bool ends)
{
    static uint8_t bytes[65536];
    struct gcs_block_spec spec = {.job = job,
        .stream = stream,
        .tasks = 50,
        .specs = true,
        .finals = ends,
        .function = 1,
        .incarnation = f.incarnation,
        .sequence = f.appended++,
        .wall_ns = mob_wall_now() - days_ago * 86400 * MOB_SEC};
    uint32_t length = gcs_block_make(&spec, bytes, sizeof bytes);
    struct slot *slot = malloc(offsetof(struct slot, bytes) + length);
    memcpy(slot->bytes, bytes, length);
    slot->block.bytes = slot->bytes;
    slot->block.length = length;
    assert_int_equal(mob_gcs_log_append(f.log, &slot->block), MOB_OK);
}

#define DAYS_THERE "SELECT count(*) FROM pg_inherits WHERE inhparent = 'mobula.bucket'::regclass"

static void wait_number(const char *sql, int64_t wanted)
{
    for (int64_t deadline = soon(); pg_box_number(f.db, sql) != wanted; step())
        if (mob_now() > deadline)
            fail_msg("%s: %ld, not %ld", sql, (long)pg_box_number(f.db, sql), (long)wanted);
}

/* A day goes when it is old and nothing of it is needed: not for a running job, a job that ended a moment
 * ago, an unfinished task, or a live actor. */
static void days_go_when_nobody_needs_them(void **state)
{
    NEEDS_POSTGRES();
    int64_t long_ago = mob_wall_now() / 1000 - 20 * 86400 * 1000000ll;
    start(NULL);
    put_job(1, "ended", long_ago);
    put_job(2, "running", 0);
    put_job(3, "ended", mob_wall_now() / 1000 - 3600 * 1000000ll);
    struct mob_actor_id actor = {{gcs_block_stream(1, 9), 7}};
    struct mob_gcs_put put = {
        .table = MOB_GCS_ACTORS, .key = &actor, .key_length = sizeof actor, .value = "{}", .value_length = 2};
    assert_int_equal(mob_gcs_put_wait(f.gcs, &put, soon(), NULL), MOB_OK);
    append_old(1, 1, 20, true); /* goes */
    append_old(1, 2, 18, true); /* goes */
    append_old(2, 1, 16, true); /* its job runs */
    append_old(3, 1, 14, true); /* its job ended an hour ago */
    append_old(1, 3, 12, false); /* unfinished */
    append_old(1, 9, 10, true); /* an actor */
    append_old(1, 5, 8, true); /* goes */
    append_old(1, 4, 0, true);
    wait_acked();
    wait_flushed();
    wait_number(DAYS_THERE, 5);
    assert_int_equal(pg_box_number(f.db, "SELECT sum(specs)::bigint FROM mobula.bucket"), 5 * 50);
    assert_int_equal(pg_box_number(f.db, "SELECT count(DISTINCT day) FROM mobula.stream_day"), 5);
    /* What nobody needs any more goes, too. */
    put_job(2, "ended", long_ago);
    put_job(3, "ended", long_ago);
    put.if_version = MOB_GCS_ANY_VERSION;
    struct mob_gcs_sync sync = {0};
    mob_gcs_result_destroy(wait_answer(mob_gcs_delete(f.gcs, &put, mob_gcs_sync_done, &sync), &sync));
    wait_number(DAYS_THERE, 2);
    /* And a day that has gone comes back when something is logged with its clock. */
    append_old(2, 7, 20, false);
    wait_acked();
    wait_flushed();
    wait_number(DAYS_THERE, 3);
}

static void delete_job(uint8_t number)
{
    struct mob_job_id job = gcs_block_job(number);
    uint8_t key[sizeof MOB_GCS_KEY_FLUSH_GONE - 1 + sizeof job];
    memcpy(key, MOB_GCS_KEY_FLUSH_GONE, sizeof MOB_GCS_KEY_FLUSH_GONE - 1);
    memcpy(key + sizeof MOB_GCS_KEY_FLUSH_GONE - 1, &job, sizeof job);
    struct mob_gcs_put put = {
        .table = MOB_GCS_KV, .key = key, .key_length = sizeof key, .value = "1", .value_length = 1};
    assert_int_equal(mob_gcs_put_wait(f.gcs, &put, soon(), NULL), MOB_OK);
    for (int64_t deadline = soon(), status = MOB_OK; status != MOB_NOT_FOUND; step()) { /* its row goes */
        struct mob_gcs_result *row = NULL; /* the flusher may be slower than this look */
        assert_true(mob_now() < deadline);
        status = mob_gcs_get_wait(f.gcs, MOB_GCS_KV, key, sizeof key, soon(), &row);
        mob_gcs_result_destroy(row);
    }
}

/* Pages of the log in its order that say that something is gone; 0: of all jobs. */
static uint32_t holes_of(uint8_t job, uint32_t *blocks_out)
{
    struct mob_gcs_scan scan = {.history = true};
    uint32_t holes = 0;
    if (job != 0)
        scan.job = gcs_block_job(job);
    *blocks_out = 0;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = wait_answer(mob_gcs_scan(f.gcs, &scan, mob_gcs_sync_done, &sync), &sync);
        const struct mob_gcs_answer *answer = mob_gcs_result_answer(r);
        holes += answer->tie != 0;
        *blocks_out += answer->block_count;
        scan.position = answer->next;
        mob_gcs_result_destroy(r);
    } while (scan.position != 0);
    return holes;
}

/* Batches some of whose days are there, of which something is neither there nor noted as gone. */
#define NOT_ACCOUNTED \
    "SELECT count(*) FROM mobula.batch t, LATERAL (SELECT count(*) AS buckets, coalesce(sum(specs), 0) AS " \
    "s, " \
    "coalesce(sum(finals), 0) AS n, coalesce(sum(others), 0) AS o FROM mobula.bucket WHERE shard = t.shard " \
    "AND upto = t.upto AND day < 2000000) b, LATERAL (SELECT coalesce(sum(buckets), 0) AS buckets, " \
    "coalesce(sum(specs), 0) AS s, coalesce(sum(finals), 0) AS n, coalesce(sum(others), 0) AS o FROM " \
    "mobula.deleted WHERE shard = t.shard AND upto = t.upto) d WHERE (b.buckets > 0 OR t.day_min < " \
    "t.day_max) AND (t.buckets, t.specs, t.finals, t.others) <> (b.buckets + d.buckets, b.s + d.s, b.n + " \
    "d.n, b.o + d.o)"

/* Jobs 1 and 2 have rows of their own, 3 and 4 share theirs; 1 and 3 are deleted. */
static void deleted_jobs_leave_no_rows(void **state)
{
    NEEDS_POSTGRES();
    start(NULL);
    wait_number("SELECT count(*) FROM pg_tables WHERE tablename = 'job_gone'", 1);
    for (uint8_t i = 0; i < 30; i++)
        for (uint8_t job = 1; job <= 4; job++)
            if (job <= 2 || i < 3)
                append_old(job, i, 0, true);
    wait_acked();
    wait_flushed();
    uint32_t blocks;
    assert_int_equal(holes_of(0, &blocks), 0);
    assert_int_equal(blocks, 66);
    delete_job(1);
    delete_job(3);
    wait_number("SELECT count(*) FROM mobula.job_gone", 2);
    wait_number("SELECT count(*) FROM mobula.job_day", 2);
    assert_int_equal(pg_box_number(f.db, NOT_ACCOUNTED), 0);
    /* a few may have shared rows in another batch */
    assert_in_range(pg_box_number(f.db, "SELECT sum(specs)::bigint FROM mobula.deleted"), 15 * 50, 30 * 50);
    uint64_t specs[2] = {0};
    for (int64_t until = mob_now() + 3 * MOB_SEC; mob_now() < until; poll(NULL, 0, 50))
        step(); /* readers look at the list of deleted jobs every two seconds */
    for (uint8_t i = 1; i <= 2; i++) {
        struct mob_gcs_scan scan = {.job = gcs_block_job(i)};
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = wait_answer(mob_gcs_scan(f.gcs, &scan, mob_gcs_sync_done, &sync), &sync);
        specs[i - 1] = mob_gcs_result_answer(r)->block_count;
        mob_gcs_result_destroy(r);
    }
    assert_int_equal(specs[0], 0);
    assert_true(specs[1] > 0);
    /* who follows the log is told, unless it is about jobs that are all there */
    assert_true(holes_of(0, &blocks) > 0);
    assert_int_equal(blocks, 33);
    for (uint8_t job = 1; job <= 4; job++) {
        bool gone = job % 2 == 1;
        assert_int_equal(holes_of(job, &blocks) > 0, gone);
        assert_int_equal(blocks, gone ? 0 : job == 2 ? 30 : 3);
    }
}

/* Job 5 is deleted: known as such for as long as one of its days is there, which job 6 needs. The batch lies
 * on other days, too, and notes what it loses. */
static void deleted_jobs_are_forgotten_with_their_days(void **state)
{
    NEEDS_POSTGRES();
    int64_t long_ago = mob_wall_now() / 1000 - 20 * 86400 * 1000000ll;
    start(NULL);
    wait_number("SELECT count(*) FROM pg_tables WHERE tablename = 'job_gone'", 1);
    put_job(1, "ended", long_ago);
    put_job(5, "ended", long_ago);
    put_job(6, "running", 0);
    append_old(5, 1, 20, true);
    append_old(6, 1, 20, true);
    append_old(1, 1, 18, true); /* goes */
    append_old(1, 2, 0, true);
    wait_acked();
    wait_flushed();
    wait_number(DAYS_THERE, 2);
    assert_int_equal(pg_box_number(f.db, NOT_ACCOUNTED), 0);
    delete_job(5);
    wait_number("SELECT count(*) FROM mobula.job_gone_day", 1);
    assert_int_equal(pg_box_number(f.db, NOT_ACCOUNTED), 0);
    assert_int_equal(
        mob_database_run(f.db, "UPDATE mobula.job_gone SET gone_at = now() - interval '2 days'"), MOB_OK);
    int64_t version = pg_box_number(f.db, "SELECT version FROM mobula.job_gone_version");
    append_old(1, 3, 16, true); /* goes: the days were looked at */
    wait_acked();
    wait_flushed();
    wait_number("SELECT count(*) FROM mobula.batch WHERE upto = (SELECT upto FROM mobula.watermark)", 1);
    wait_number(DAYS_THERE, 2);
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.job_gone"), 1);
    assert_int_equal(pg_box_number(f.db, "SELECT version FROM mobula.job_gone_version"), version);
    put_job(6, "ended", long_ago);
    wait_number(DAYS_THERE, 1);
    wait_number("SELECT count(*) FROM mobula.job_gone", 0);
    assert_true(pg_box_number(f.db, "SELECT version FROM mobula.job_gone_version") > version);
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.job_gone_day"), 0);
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.hole"), 0);
    assert_int_equal(pg_box_number(f.db, NOT_ACCOUNTED), 0);
}

/* ---- the same by a seed: ./dev test --long ---- */

static uint32_t below(uint64_t *random, uint32_t n)
{
    return (uint32_t)(xorshift(random) >> 33) % n;
}

/* The fault is after COMMIT and before FLUSH in two of three. */
static void flushers_die_by_seed(void **state)
{
    enum { DEATHS = 4 };
    static const char *const points[] = {"flush.after_commit", "flush.before_flush", "flush.before_commit"};
    char texts[DEATHS][40];
    const char *ends[DEATHS];
    uint32_t blocks[DEATHS];
    uint64_t random = XORSHIFT_SEED * (1 + (uint64_t)(uintptr_t)*state);
    NEEDS_POSTGRES();
    for (int i = 0; i < DEATHS; i++) {
        snprintf(texts[i], sizeof texts[i], "%s=kill@%u", points[below(&random, 3)], 1 + below(&random, 3));
        ends[i] = texts[i];
        blocks[i] = 2 * (150 + below(&random, 100));
        print_message("%s behind %u blocks\n", texts[i], blocks[i]);
    }
    flushers_die(ends, DEATHS, blocks);
}

static void one_is_a_zombie_by_seed(void **state)
{
    uint64_t seed = (uint64_t)(uintptr_t)*state, random = XORSHIFT_SEED * (1 + seed);
    const struct zombie *how = &zombies[seed % 2];
    NEEDS_POSTGRES();
    uint32_t passage = 1 + below(&random, 4);
    uint32_t before = 2 * (150 + below(&random, 100)), meanwhile = 2 * (20 + below(&random, 200));
    print_message(
        "%s, passage %u, %u blocks before and twice %u after it\n", how->point, passage, before, meanwhile);
    one_is_a_zombie(how, passage, before, meanwhile);
}

static int run_seeds(uint32_t first, uint32_t count)
{
    enum { SEEDS_MAX = 1000 };
    static struct CMUnitTest tests[2 * SEEDS_MAX];
    static char names[2 * SEEDS_MAX][48];
    const char *only = getenv("MOBULA_CHAOS_FAULT");
    size_t n = 0;
    for (uint32_t i = 0; i < 2 * count && i < 2 * SEEDS_MAX; i++) {
        bool zombie = i % 2 != 0;
        const char *fault = zombie ? "flusher_is_a_zombie" : "flusher_dies";
        if (only != NULL && strcmp(only, fault) != 0)
            continue;
        snprintf(names[n], sizeof names[n], "%s, seed %u", fault, first + i / 2);
        tests[n] = (struct CMUnitTest){.name = names[n],
            .test_func = zombie ? one_is_a_zombie_by_seed : flushers_die_by_seed,
            .setup_func = set_up,
            .teardown_func = tear_down,
            .initial_state = (void *)(uintptr_t)(first + i / 2)};
        n++;
    }
    return _cmocka_run_group_tests("gcs_flusher", tests, n, NULL, NULL);
}

int main(void)
{
    const char *seeds = getenv("MOBULA_CHAOS_SEEDS"), *first = getenv("MOBULA_CHAOS_SEED");
    if (seeds != NULL)
        return run_seeds(
            first == NULL ? 1 : (uint32_t)strtoul(first, NULL, 10), (uint32_t)strtoul(seeds, NULL, 10));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_move_and_every_read_finds_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flusher_that_dies_anywhere_leaves_nothing_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_zombie_does_no_harm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_overtaken_one_finds_no_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(postgres_may_be_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(server_processes_may_be_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_copy_does_not_wait_for_a_stopped_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_under_postgres_loses_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_may_die, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_stays_under_its_cap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_foreign_database_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(days_go_when_nobody_needs_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deleted_jobs_leave_no_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deleted_jobs_are_forgotten_with_their_days, set_up, tear_down),
    };
    if (getenv("MOBULA_TEST_ONLY") != NULL)
        cmocka_set_test_filter(getenv("MOBULA_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
