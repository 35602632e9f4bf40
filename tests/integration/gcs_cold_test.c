/* Batches into a real PostgreSQL and back: every read of flushed lineage against a list of what was written.
 * ctest: timeout=300 long
 */
#include <pthread.h>
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
#include "common/wire/bucket.h"
#include "gcs/flush/cold.h"
#include "gcs/flush/cold_inner.h"
#include "gcs/flush/migrate.h"
#include "gcs/flush/watermark.h"
#include "gcs/flush/writer.h"
#include "tests/support/gcs_box.h"
#include "tests/support/pg_box.h"
#include "tests/support/wire_samples.h"

enum { BLOCKS_MAX = 1200, ENTRIES_MAX = 200000, SHARD = 3 };
#define DAY_NS (86400ll * 1000000000)
#define FIRST_DAY 20400

/* One logged entry, as the test knows it. */
struct logged {
    uint64_t digest; /* of what it says */
    uint64_t seq;
    struct mob_job_id job;
    struct mob_task_id task;
    uint8_t type;
    bool failed; /* a final completion that was no success */
    int64_t wall_ns; /* of a completion */
    struct mob_function_id function; /* of a spec */
};
struct source {
    uint8_t *bytes;
    uint32_t length;
    uint64_t seq;
};
static struct fixture {
    struct pg_box box;
    struct mob_database *db;
    struct mob_writer_state *writer;
    struct mob_cold *cold;
    struct source blocks[BLOCKS_MAX];
    uint32_t count;
    struct logged *entries;
    uint32_t entry_count;
    uint64_t batches[BLOCKS_MAX]; /* ends */
    uint32_t batch_count;
    struct mob_block_decoder *decoder;
    struct mob_block_encoder *encoder, *alone;
    bool skipped;
} f;

/* ---- what was logged ---- */

/* The entry in a block of its own, whose bytes depend on nothing else. */
static uint64_t digest_of(const struct mob_entry *e)
{
    static struct sample_entry copy;
    static uint8_t bytes[MOB_BLOCK_BYTES_MAX];
    struct mob_block_header h = {.ns = "d"};
    copy.entry = *e;
    if (e->type == MOB_ENTRY_SPEC)
        memcpy(copy.tail, e->spec.tail, e->spec.tail_bytes);
    else if (e->type == MOB_ENTRY_COMPLETION)
        memcpy(copy.body, e->completion.body, e->completion.head.body_bytes);
    else if (e->type == MOB_ENTRY_YIELD)
        copy.entry.payload_bytes = mob_return_encode(copy.payload, 0, sizeof copy.payload, &e->ret);
    else if (e->type != MOB_ENTRY_PUT && e->payload_bytes > 0)
        memcpy(copy.payload, e->payload, e->payload_bytes);
    mob_block_begin(f.alone, &h);
    assert_int_equal(sample_add(f.alone, &copy), MOB_OK);
    uint32_t length = mob_block_end(f.alone, bytes);
    return mob_hash64(bytes, length);
}

/* Decodes a block into a list of what it says. */
static uint32_t entries_of(const uint8_t *bytes, uint32_t length, uint64_t seq, struct logged *out)
{
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    struct mob_block_header h;
    uint32_t n = 0;
    assert_int_equal(mob_block_open(f.decoder, bytes, length, &h, &zone), MOB_OK);
    for (;; n++) {
        memset(&entry, 0, sizeof entry);
        if (mob_block_next(f.decoder, &entry) != MOB_OK)
            return n;
        const struct mob_completion_head *c = &entry.completion.head;
        bool final = entry.type == MOB_ENTRY_COMPLETION && (c->flags & MOB_COMPLETION_FINAL) != 0;
        out[n] = (struct logged){.digest = digest_of(&entry),
            .seq = seq,
            .job = h.job,
            .task = sample_group(&entry),
            .type = (uint8_t)entry.type,
            .failed = final && c->status != MOB_OK};
        if (entry.type == MOB_ENTRY_COMPLETION)
            out[n].wall_ns = (int64_t)((uint64_t)c->finished_ns + (uint64_t)h.wall_ns - (uint64_t)h.mono_ns);
        if (entry.type == MOB_ENTRY_SPEC)
            out[n].function = entry.spec.head.function;
    }
}

static void log_block(const uint8_t *bytes, uint32_t length)
{
    assert_in_range(f.count, 0, BLOCKS_MAX - 1);
    struct source *s = &f.blocks[f.count];
    /* other operations lie between blocks */
    s->seq = f.count == 0 ? 5 : f.blocks[f.count - 1].seq + 1 + f.count % 3;
    s->bytes = malloc(length);
    s->length = length;
    memcpy(s->bytes, bytes, length);
    f.count++;
    assert_in_range(f.entry_count, 0, ENTRIES_MAX - MOB_BLOCK_ENTRIES_MAX);
    f.entry_count += entries_of(bytes, length, s->seq, f.entries + f.entry_count);
}

static void log_tasks(struct gcs_block_spec spec)
{
    static uint8_t bytes[MOB_BLOCK_BYTES_MAX];
    spec.incarnation = 9;
    spec.sequence = f.count;
    spec.mono_ns = 1000000000;
    if (spec.wall_ns == 0)
        spec.wall_ns = FIRST_DAY * DAY_NS;
    log_block(bytes, gcs_block_make(&spec, bytes, sizeof bytes));
}

/* Blocks of `tasks` specs, each followed some blocks later by their completions; a few fail. */
static void log_pairs(uint8_t job, uint8_t stream, uint32_t pairs, uint32_t tasks, int32_t day)
{
    for (uint32_t i = 0; i < pairs + 2; i++) {
        struct gcs_block_spec spec = {.job = job,
            .stream = stream,
            .tasks = tasks,
            .function = (uint8_t)(job + stream % 2),
            .wall_ns = (FIRST_DAY + day) * DAY_NS + i * 1000000000ll};
        if (i < pairs) {
            spec.first_index = i * tasks;
            spec.specs = true;
            log_tasks(spec);
        }
        if (i >= 2) {
            spec.specs = false;
            spec.finals = true;
            spec.first_index = (i - 2) * tasks;
            spec.failed = i % 5 == 0 ? 2 : 0;
            log_tasks(spec);
        }
    }
}

/* Entries of every type. */
static void log_random(uint64_t seed, uint32_t blocks)
{
    static uint8_t bytes[MOB_BLOCK_BYTES_MAX];
    struct sample_world world;
    struct sample_entry *sample = malloc(sizeof *sample);
    sample_world_init(&world, seed);
    for (uint32_t i = 0; i < blocks; i++) {
        struct mob_block_header h = {.incarnation = 4,
            .sequence = i,
            .job = gcs_block_job(200),
            .ns = "default",
            .wall_ns = FIRST_DAY * DAY_NS + 77,
            .mono_ns = 33};
        mob_block_begin(f.encoder, &h);
        for (int k = 0; k < 60; k++) {
            sample_any(&world, sample);
            if (sample_add(f.encoder, sample) != MOB_OK)
                break;
        }
        log_block(bytes, mob_block_end(f.encoder, bytes));
    }
    free(sample);
}

/* ---- flushing ---- */

static enum mob_status write_batch(
    struct mob_database *db, struct mob_writer_state *w, uint32_t from, uint32_t to, uint64_t after)
{
    struct mob_flush_block *list = calloc(to - from, sizeof *list);
    for (uint32_t i = from; i < to; i++)
        list[i - from] = (struct mob_flush_block){f.blocks[i].seq, f.blocks[i].bytes, f.blocks[i].length};
    struct mob_flush_batch batch = {
        .after = after, .upto = f.blocks[to - 1].seq, .epoch = 1, .blocks = list, .count = to - from};
    struct mob_flush_written written;
    enum mob_status status = mob_flush_write(w, db, &batch, &written);
    free(list);
    return status;
}

static void flush_rest(uint32_t blocks_a_batch)
{
    uint32_t from = 0;
    uint64_t upto = f.batch_count == 0 ? 0 : f.batches[f.batch_count - 1];
    while (from < f.count && f.blocks[from].seq <= upto)
        from++;
    for (uint32_t to; from < f.count; from = to) {
        to = from + blocks_a_batch < f.count ? from + blocks_a_batch : f.count;
        assert_int_equal(write_batch(f.db, f.writer, from, to, upto), MOB_OK);
        upto = f.batches[f.batch_count++] = f.blocks[to - 1].seq;
    }
}

static int set_up(void **state)
{
    (void)state;
    memset(&f, 0, sizeof f);
    if (!pg_box_available()) {
        f.skipped = true;
        return 0;
    }
    int from, to;
    pg_box_init(&f.box);
    pg_box_start(&f.box);
    f.db = pg_box_open(&f.box);
    f.writer = mob_flush_writer_create(SHARD);
    f.cold = mob_cold_create(SHARD);
    f.entries = calloc(ENTRIES_MAX, sizeof *f.entries);
    f.decoder = mob_block_decoder_create();
    f.encoder = mob_block_encoder_create();
    f.alone = mob_block_encoder_create();
    uint64_t upto, epoch;
    if (mob_migrate(f.db, mob_migrations, &from, &to) != MOB_OK ||
        mob_watermark_read(f.db, SHARD, &upto, &epoch) != MOB_OK || upto != 0)
        return -1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (f.skipped)
        return 0;
    for (uint32_t i = 0; i < f.count; i++)
        free(f.blocks[i].bytes);
    free(f.entries);
    mob_cold_destroy(f.cold);
    mob_flush_writer_destroy(f.writer);
    mob_block_decoder_destroy(f.decoder);
    mob_block_encoder_destroy(f.encoder);
    mob_block_encoder_destroy(f.alone);
    mob_database_close(f.db);
    pg_box_fini(&f.box);
    return 0;
}

#define NEEDS_POSTGRES() \
    (void)state; \
    if (f.skipped) \
    skip()

/* ---- reading ---- */

static struct logged *got; /* ENTRIES_MAX */
static uint32_t got_count, got_blocks, got_pages;

static struct mob_gcs_group_key asked[MOB_GCS_GROUPS_MAX]; /* of MOB_GCS_Q_GROUPS */
static uint32_t asked_count;

static void read_all(struct mob_gcs_cold_get q)
{
    if (got == NULL)
        got = calloc(ENTRIES_MAX, sizeof *got);
    got_count = got_blocks = got_pages = 0;
    do {
        struct mob_gcs_cold_answer answer;
        enum mob_status status = mob_cold_read_groups(f.cold, f.db, &q, asked, asked_count, &answer);
        assert_string_equal(mob_status_code(status), "ok");
        for (uint32_t i = 0; i < answer.block_count; i++) {
            const struct mob_gcs_block_row *row = &answer.blocks[i];
            got_count += entries_of(row->bytes, row->length, row->seq, got + got_count);
            got_blocks++;
        }
        assert_in_range(++got_pages, 1, 10000);
        assert_true(answer.next == 0 || answer.next != q.get.position); /* it goes on */
        q.get.position = answer.next;
    } while (q.get.position != 0);
}

static int by_digest(const void *a, const void *b)
{
    uint64_t x = ((const struct logged *)a)->digest, y = ((const struct logged *)b)->digest;
    return (x > y) - (x < y);
}

/* What was read is exactly what `wanted` says of all that was logged. `only`: of what was read, too. */
static void compare(bool (*wanted)(const struct logged *, const void *), const void *arg, bool only)
{
    struct logged *want = malloc(ENTRIES_MAX * sizeof *want);
    uint32_t n = 0, m = 0;
    for (uint32_t i = 0; i < f.entry_count; i++)
        if (wanted(&f.entries[i], arg))
            want[n++] = f.entries[i];
    for (uint32_t i = 0; i < got_count; i++)
        if (!only || wanted(&got[i], arg))
            got[m++] = got[i];
    if (n > 0)
        qsort(want, n, sizeof *want, by_digest);
    if (m > 0)
        qsort(got, m, sizeof *got, by_digest);
    if (m != n)
        print_message("read %u, expected %u\n", m, n);
    assert_int_equal(m, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(got[i].digest, want[i].digest);
        assert_memory_equal(&got[i].job, &want[i].job, sizeof want[i].job);
    }
    free(want);
}

static bool any(const struct logged *e, const void *arg)
{
    (void)e;
    (void)arg;
    return true;
}
struct range {
    uint64_t above, upto;
};
static bool in_range(const struct logged *e, const void *arg)
{
    const struct range *r = arg;
    return e->seq > r->above && e->seq <= r->upto;
}

static struct mob_gcs_cold_get scan_of(bool down)
{
    struct mob_gcs_cold_get q = {.upto = f.batches[f.batch_count - 1],
        .get = {.tag = 7, .query = MOB_GCS_Q_SCAN, .newest_first = down}};
    return q;
}

static void some_log(void)
{
    log_pairs(1, 1, 40, 100, 0);
    log_random(5, 30);
    log_pairs(2, 2, 10, 30, 1);
    log_pairs(3, 3, 3, 10, 1);
    log_pairs(4, 4, 3, 10, 2);
    log_pairs(1, 5, 60, 60, 2);
    log_random(6, 20);
}

/* ---- tests ---- */

static void everything_comes_back_once(void **state)
{
    NEEDS_POSTGRES();
    some_log();
    flush_rest(37);
    for (int down = 0; down < 2; down++) {
        struct mob_gcs_cold_get q = scan_of(down);
        q.get.limit = 50;
        read_all(q);
        compare(any, NULL, false);
        assert_in_range(got_pages, 3, 1000);
    }
    /* what a batch says of itself is what its buckets have */
    static const char wrong[] = "SELECT count(*) FROM mobula.batch t JOIN LATERAL (SELECT sum(b.specs) "
                                "AS specs, sum(b.finals) AS "
                                "finals, sum(b.failed) AS failed, sum(b.others) AS others, count(*) AS "
                                "buckets FROM mobula.bucket b "
                                "WHERE b.shard = t.shard AND b.upto = t.upto) s ON (t.specs, t.finals, "
                                "t.failed, t.others, t.buckets) "
                                "IS DISTINCT FROM (s.specs, s.finals, s.failed, s.others, s.buckets)";
    assert_int_equal(pg_box_number(f.db, wrong), 0);
    assert_int_equal(pg_box_number(f.db, "SELECT sum(blocks) FROM mobula.batch"), f.count);
}

/* A reader goes on from any position, wherever in a batch it lies, and sees each entry once. */
static void positions_inside_of_batches_are_exact(void **state)
{
    NEEDS_POSTGRES();
    some_log();
    flush_rest(23);
    uint64_t last = f.blocks[f.count - 1].seq;
    for (uint32_t i = 0; i < 25; i++) {
        uint64_t p = 1 + (uint64_t)i * 7919 % last;
        struct mob_gcs_cold_get up = scan_of(false), down = scan_of(true);
        up.get.position = mob_gcs_cold_position(p, 0);
        read_all(up);
        compare(in_range, &(struct range){p, last}, false);
        down.get.position = mob_gcs_cold_position(p, MOB_GCS_COLD_ROW_MAX);
        read_all(down);
        compare(in_range, &(struct range){0, p - 1}, false);
        /* and not above what the members still have */
        up.upto = f.batches[i % f.batch_count];
        up.get.position = 0;
        read_all(up);
        compare(in_range, &(struct range){0, up.upto}, false);
    }
}

static void *hold_batches(void *arg)
{
    struct mob_database *db = arg;
    usleep(300000);
    assert_int_equal(mob_database_run(db, "COMMIT"), MOB_OK);
    return NULL;
}

/* A PostgreSQL that takes longer to say where to begin than a page may take: the scan goes on, it does not
 * end. */
static void a_slow_postgres_ends_no_scan(void **state)
{
    NEEDS_POSTGRES();
    struct mob_database *other = pg_box_open(&f.box);
    pthread_t holder;
    some_log();
    flush_rest(23);
    assert_int_equal(mob_database_run(other, "BEGIN"), MOB_OK);
    assert_int_equal(mob_database_run(other, "LOCK TABLE mobula.batch IN ACCESS EXCLUSIVE MODE"), MOB_OK);
    assert_int_equal(pthread_create(&holder, NULL, hold_batches, other), 0);
    read_all(scan_of(false));
    pthread_join(holder, NULL);
    compare(in_range, &(struct range){0, f.blocks[f.count - 1].seq}, false);
    mob_database_close(other);
}

static bool of_group(const struct logged *e, const void *arg)
{
    const struct mob_task_id *id = arg;
    return e->type != MOB_ENTRY_JOB && mob_stream_eq(e->task.stream, id->stream) &&
        e->task.index >> 8 == id->index >> 8;
}

static void groups_come_back_whole(void **state)
{
    NEEDS_POSTGRES();
    some_log();
    flush_rest(11);
    for (uint32_t i = 0; i < f.entry_count; i++) {
        if (i % 97 != 0 && !(f.entries[i].type == MOB_ENTRY_PUT && i % 7 == 0))
            continue;
        struct mob_task_id id = f.entries[i].task;
        struct mob_gcs_cold_get q = {.upto = f.batches[f.batch_count - 1],
            .get = {.query = MOB_GCS_Q_GROUP, .stream = id.stream, .group = id.index >> 8}};
        if (f.entries[i].type == MOB_ENTRY_JOB || mob_task_id_is_zero(id))
            continue;
        read_all(q);
        compare(of_group, &id, true);
        assert_in_range(got_blocks, 1, 200);
    }
    struct mob_gcs_cold_get none = {.upto = 1u << 20, .get = {.query = MOB_GCS_Q_GROUP, .stream = {{9, 9}}}};
    read_all(none);
    assert_int_equal(got_blocks, 0);
}

static bool of_asked(const struct logged *e, const void *arg)
{
    bool is = false;
    for (uint32_t i = 0; i < asked_count; i++) {
        struct mob_task_id id = {asked[i].stream, asked[i].group << 8};
        is |= of_group(e, &id);
    }
    return is && arg == NULL;
}

static void several_groups_come_back_whole_in_one_read(void **state)
{
    NEEDS_POSTGRES();
    some_log();
    flush_rest(11);
    uint32_t alone = 0;
    for (uint32_t i = 0; i < f.entry_count && asked_count < MOB_GCS_GROUPS_MAX - 1; i += 89)
        if (f.entries[i].type != MOB_ENTRY_JOB && !mob_task_id_is_zero(f.entries[i].task))
            asked[asked_count++] =
                (struct mob_gcs_group_key){f.entries[i].task.stream, f.entries[i].task.index >> 8};
    asked[asked_count++] = (struct mob_gcs_group_key){{{9, 9}}, 0}; /* there is none */
    assert_in_range(asked_count, 10, MOB_GCS_GROUPS_MAX);
    struct mob_gcs_cold_get q = {.upto = f.batches[f.batch_count - 1], .get = {.query = MOB_GCS_Q_GROUPS}};
    read_all(q);
    compare(of_asked, NULL, true);
    uint32_t together = got_pages;
    for (uint32_t i = 0, count = asked_count; i < count; i++) {
        asked_count = 0; /* it has no groups but its own */
        read_all((struct mob_gcs_cold_get){.upto = q.upto,
            .get = {.query = MOB_GCS_Q_GROUP, .stream = asked[i].stream, .group = asked[i].group}});
        asked_count = count;
        alone += got_pages;
    }
    assert_in_range(together, 1, alone / 4);
    struct mob_gcs_cold_answer answer;
    asked_count = 0;
    assert_int_equal(mob_cold_read(f.cold, f.db, &q, &answer), MOB_INVALID);
}

/* On more days than one statement names, and the later a block was committed, the less that says of its day.
 */
static void a_group_on_many_days_comes_back_whole(void **state)
{
    NEEDS_POSTGRES();
    enum { DAYS = 150 };
    for (uint32_t i = 0; i < DAYS; i++)
        log_tasks((struct gcs_block_spec){.job = 1,
            .stream = 1,
            .tasks = 1,
            .first_index = i,
            .specs = true,
            .finals = true,
            .function = 1,
            .wall_ns = (FIRST_DAY + i * 59 % DAYS) * DAY_NS});
    flush_rest(20);
    assert_int_equal(pg_box_number(f.db, "SELECT count(DISTINCT day) FROM mobula.stream_day"), DAYS);
    struct mob_task_id id = {.stream = gcs_block_stream(1, 1), .index = 0};
    read_all((struct mob_gcs_cold_get){.upto = f.batches[f.batch_count - 1],
        .get = {.query = MOB_GCS_Q_GROUP, .stream = id.stream, .group = 0}});
    for (uint32_t i = 0, batch = 0; i < got_count; i++) { /* batch after batch, whichever days they are on */
        while (f.batches[batch] < got[i].seq)
            batch++;
        assert_true(batch == 0 || got[i].seq > f.batches[batch - 1]);
    }
    assert_in_range(got_pages, 2, DAYS);
    compare(of_group, &id, false);
    uint32_t pages = got_pages;
    asked[0] = (struct mob_gcs_group_key){id.stream, 0};
    asked_count = 1;
    read_all(
        (struct mob_gcs_cold_get){.upto = f.batches[f.batch_count - 1], .get = {.query = MOB_GCS_Q_GROUPS}});
    asked_count = 0;
    assert_int_equal(got_pages, pages);
    compare(of_group, &id, false);
}

struct terms {
    const struct mob_job_id *job;
    const struct mob_function_id *function;
    int64_t from, to;
};
static bool of_job(const struct logged *e, const void *arg)
{
    return memcmp(&e->job, ((const struct terms *)arg)->job, sizeof e->job) == 0;
}
static bool spec_of_function(const struct logged *e, const void *arg)
{
    const struct terms *t = arg;
    return e->type == MOB_ENTRY_SPEC && memcmp(&e->function, t->function, sizeof e->function) == 0;
}
static bool finished_between(const struct logged *e, const void *arg)
{
    const struct terms *t = arg;
    return e->type == MOB_ENTRY_COMPLETION && e->wall_ns >= t->from && e->wall_ns < t->to;
}

static void scans_by_job_function_and_time_miss_nothing(void **state)
{
    NEEDS_POSTGRES();
    some_log();
    flush_rest(19);
    read_all(scan_of(false));
    uint32_t all = got_count;
    for (int down = 0; down < 2; down++) {
        struct mob_gcs_cold_get q = scan_of(down);
        struct mob_job_id job = gcs_block_job(2);
        q.get.job = job;
        read_all(q);
        compare(of_job, &(struct terms){.job = &job}, false);
        q = scan_of(down);
        struct mob_function_id function = gcs_block_function(2);
        q.get.function = function;
        read_all(q);
        assert_in_range(got_count, 1, all - 1);
        compare(spec_of_function, &(struct terms){.function = &function}, true);
        q = scan_of(down);
        struct terms t = {
            .from = (FIRST_DAY + 1) * DAY_NS + 2000000000, .to = (FIRST_DAY + 1) * DAY_NS + 9000000000};
        q.get.from_wall_ns = t.from;
        q.get.to_wall_ns = t.to;
        read_all(q);
        assert_in_range(got_count, 1, all / 2);
        compare(finished_between, &t, true);
    }
    struct mob_gcs_cold_get q = scan_of(true);
    q.get.job = gcs_block_job(99);
    read_all(q);
    assert_int_equal(got_blocks, 0);
}

/* Reads failures page by page, and checks that each is whole, that pages are in order of their ends, and that
 * none is missing.
 */
static void check_failures(struct mob_gcs_cold_get q, uint32_t want)
{
    bool down = q.get.newest_first;
    int64_t before = down ? INT64_MAX : INT64_MIN, last = before;
    uint32_t seen = 0;
    static struct logged some[4096];
    do {
        struct mob_gcs_cold_answer answer;
        assert_int_equal(mob_cold_read(f.cold, f.db, &q, &answer), MOB_OK);
        uint32_t n = 0;
        for (uint32_t i = 0; i < answer.block_count; i++)
            n += entries_of(answer.blocks[i].bytes, answer.blocks[i].length, answer.blocks[i].seq, some + n);
        for (uint32_t i = 0; i < n; i++) {
            if (!some[i].failed)
                continue;
            uint32_t specs = 0;
            for (uint32_t k = 0; k < n; k++)
                specs += some[k].type == MOB_ENTRY_SPEC && mob_task_id_eq(some[k].task, some[i].task);
            assert_int_equal(specs, 1);
            int64_t at_us = some[i].wall_ns / 1000; /* as fine as the index is */
            assert_true(down ? at_us <= before : at_us >= before);
            last = (down ? at_us < last : at_us > last) ? at_us : last;
            seen++;
        }
        before = last;
        q.get.position = answer.next;
        q.get.prefix_length = answer.tie;
    } while (q.get.position != 0);
    assert_int_equal(seen, want);
}

static void failures_have_an_index_of_their_own(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(1, 1, 60, 50, 0); /* functions 2 and, for even streams, 1 */
    log_pairs(1, 2, 60, 50, 1);
    log_pairs(5, 3, 30, 20, 1);
    flush_rest(13); /* most specs are in an earlier batch than their completions */
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.failure WHERE function IS NULL"), 0);
    uint32_t all = 0, of_one = 0;
    for (uint32_t i = 0; i < f.entry_count; i++) {
        all += f.entries[i].failed;
        of_one += f.entries[i].failed && mob_stream_eq(f.entries[i].task.stream, gcs_block_stream(1, 2));
    }
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.failure"), all);
    assert_in_range(of_one, 10, all - 10);
    for (int down = 0; down < 2; down++) {
        struct mob_gcs_cold_get q = scan_of(down);
        q.get.failed = 1;
        check_failures(q, all);
        q.get.limit = 3;
        check_failures(q, all);
        q.get.function = gcs_block_function(1);
        check_failures(q, of_one);
        q.get.job = gcs_block_job(5);
        check_failures(q, 0);
        q.get.function = (struct mob_function_id){0};
        q.get.job = gcs_block_job(1);
        q.get.from_wall_ns = (FIRST_DAY + 1) * DAY_NS;
        q.get.to_wall_ns = INT64_MAX;
        check_failures(q, of_one);
    }
}

/* A job that is cancelled ends with thousands of tasks in the same microsecond. */
static void failures_of_one_moment_come_once_each(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(1, 1, 60, 50, 0);
    flush_rest(13);
    int64_t all = pg_box_number(f.db, "SELECT count(*) FROM mobula.failure");
    assert_in_range(all, 20, 4000);
    assert_int_equal(
        mob_database_run(
            f.db, "UPDATE mobula.failure SET finished_us = (SELECT min(finished_us) FROM mobula.failure)"),
        MOB_OK);
    for (int down = 0; down < 2; down++) {
        struct mob_gcs_cold_get q = scan_of(down);
        static struct mob_task_id tasks[4096];
        static struct logged some[4096];
        uint32_t seen = 0;
        q.get.failed = 1;
        q.get.limit = 3;
        do {
            struct mob_gcs_cold_answer answer;
            assert_int_equal(mob_cold_read(f.cold, f.db, &q, &answer), MOB_OK);
            for (uint32_t i = 0; i < answer.block_count; i++) {
                uint32_t n =
                    entries_of(answer.blocks[i].bytes, answer.blocks[i].length, answer.blocks[i].seq, some);
                for (uint32_t k = 0; k < n; k++)
                    if (some[k].failed && seen < 4096)
                        tasks[seen++] = some[k].task;
            }
            q.get.position = answer.next;
            q.get.prefix_length = answer.tie;
        } while (q.get.position != 0);
        assert_int_equal(seen, all);
        for (uint32_t i = 0; i < seen; i++)
            for (uint32_t k = 0; k < i; k++)
                assert_false(mob_task_id_eq(tasks[i], tasks[k]));
    }
}

static void of_two_flushers_one_inserts(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(1, 1, 20, 40, 0);
    assert_int_equal(write_batch(f.db, f.writer, 0, 10, 0), MOB_OK);
    /* It believes that nothing was flushed, or holds the same batch: the zombie's case. */
    assert_int_equal(write_batch(f.db, f.writer, 0, 20, 0), MOB_CONFLICT);
    assert_int_equal(write_batch(f.db, f.writer, 10, 20, 7), MOB_CONFLICT);
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.batch"), 1);
    assert_int_equal(pg_box_number(f.db, "SELECT sum(blocks) FROM mobula.batch"), 10);
    uint64_t upto, epoch;
    assert_int_equal(mob_watermark_read(f.db, SHARD, &upto, &epoch), MOB_OK);
    assert_int_equal(upto, f.blocks[9].seq);
    /* A later epoch moved it: the earlier one's flusher inserts nothing, at the right position even. */
    assert_int_equal(mob_database_run(f.db, "UPDATE mobula.watermark SET epoch = 2"), MOB_OK);
    assert_int_equal(write_batch(f.db, f.writer, 10, 20, upto), MOB_CONFLICT);
    assert_int_equal(mob_database_run(f.db, "UPDATE mobula.watermark SET epoch = 1"), MOB_OK);
    assert_int_equal(write_batch(f.db, f.writer, 10, 20, upto), MOB_OK);
    f.batches[0] = f.blocks[9].seq;
    f.batches[1] = f.blocks[19].seq;
    f.batch_count = 2;
    read_all(scan_of(false));
    compare(in_range, &(struct range){0, f.batches[1]}, false);
}

static void *write_same(void *arg)
{
    struct mob_database *db = pg_box_open(&f.box);
    struct mob_writer_state *w = mob_flush_writer_create(SHARD);
    *(enum mob_status *)arg = write_batch(db, w, 0, f.count, 0);
    mob_flush_writer_destroy(w);
    mob_database_close(db);
    return NULL;
}

static void two_at_once_insert_once(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(1, 1, 60, 100, 0);
    pthread_t threads[3];
    enum mob_status results[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_same, &results[i]), 0);
    int good = 0, conflicts = 0;
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        good += results[i] == MOB_OK;
        conflicts += results[i] == MOB_CONFLICT;
    }
    assert_int_equal(good, 1);
    assert_int_equal(conflicts, 2);
    f.batches[f.batch_count++] = f.blocks[f.count - 1].seq;
    read_all(scan_of(false));
    compare(any, NULL, false);
}

/* PostgreSQL dies somewhere in a batch: all of it is there or nothing. */
static void a_killed_postgres_has_a_batch_or_not(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(1, 1, 100, 120, 0);
    uint32_t from = 0, done = 0;
    uint64_t upto = 0, epoch, rng = 7;
    while (from < f.count) {
        uint32_t to = from + 20 < f.count ? from + 20 : f.count;
        pid_t killer = -1;
        rng = rng * 6364136223846793005ull + 1442695040888963407ull;
        if (done < 12 && (killer = fork()) == 0) {
            usleep((useconds_t)((rng >> 33) % 15000));
            kill(f.box.pid, SIGKILL);
            _exit(0);
        }
        enum mob_status status = write_batch(f.db, f.writer, from, to, upto);
        if (killer > 0) {
            waitpid(killer, NULL, 0);
            pg_box_end(&f.box, SIGKILL); /* it is dead already */
            pg_box_start(&f.box);
            mob_database_close(f.db);
            f.db = pg_box_open(&f.box);
            done++;
        }
        assert_true(status == MOB_OK || status == MOB_UNAVAILABLE);
        uint64_t before = upto;
        assert_int_equal(mob_watermark_read(f.db, SHARD, &upto, &epoch), MOB_OK);
        assert_true(upto == before || upto == f.blocks[to - 1].seq);
        assert_true(status != MOB_OK || upto == f.blocks[to - 1].seq);
        if (upto != before) {
            f.batches[f.batch_count++] = upto;
            from = to;
        }
    }
    read_all(scan_of(false));
    compare(any, NULL, false);
}

static void a_damaged_block_is_named_and_the_others_are_there(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(1, 1, 10, 50, 0);
    uint64_t bad = f.blocks[4].seq;
    f.blocks[4].bytes[f.blocks[4].length - 7] ^= 0x20;
    flush_rest(40);
    read_all(scan_of(false));
    uint32_t without = 0;
    for (uint32_t i = 0; i < f.entry_count; i++)
        if (f.entries[i].seq != bad)
            f.entries[without++] = f.entries[i];
    f.entry_count = without;
    compare(any, NULL, false);
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.gap WHERE upto - after = 1"), 1);
    assert_int_equal(pg_box_number(f.db, "SELECT upto FROM mobula.gap"), (int64_t)bad);
}

static void deleted_jobs_are_not_given(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(3, 3, 2, 10, 0); /* small: shares buckets */
    log_pairs(4, 4, 2, 10, 0);
    flush_rest(100);
    struct mob_job_id gone = gcs_block_job(3);
    struct mob_database_param p;
    mob_param_bytes(&p, &gone, sizeof gone);
    assert_int_equal(
        mob_database_query(f.db, "INSERT INTO mobula.job_gone (job) VALUES ($1)", &p, 1, NULL), MOB_OK);
    struct mob_gcs_cold_get q = scan_of(false);
    read_all(q);
    uint32_t left = 0;
    for (uint32_t i = 0; i < f.entry_count; i++)
        if (!mob_stream_eq(f.entries[i].job.root, gone.root))
            f.entries[left++] = f.entries[i];
    assert_in_range(left, 1, f.entry_count - 1);
    f.entry_count = left;
    compare(any, NULL, false);
}

/* The list of them is as long as days are kept: it is read when it has changed, not each time that it is
 * looked whether it has. */
static void the_list_of_deleted_jobs_is_read_when_it_changed(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(3, 3, 2, 10, 0);
    flush_rest(100);
    read_all(scan_of(false));
    uint32_t all = got_count;
    struct mob_job_id gone = gcs_block_job(3);
    struct mob_database_param p;
    mob_param_bytes(&p, &gone, sizeof gone);
    assert_int_equal(
        mob_database_run(f.db, "ALTER TABLE mobula.job_gone DISABLE TRIGGER job_gone_inserted"), MOB_OK);
    assert_int_equal(
        mob_database_query(f.db, "INSERT INTO mobula.job_gone (job) VALUES ($1)", &p, 1, NULL), MOB_OK);
    f.cold->gone_ns = 1; /* it is time to look */
    read_all(scan_of(false));
    assert_int_equal(got_count, all);
    assert_int_not_equal(f.cold->gone_ns, 1);
    assert_int_equal(
        mob_database_run(f.db, "ALTER TABLE mobula.job_gone ENABLE TRIGGER job_gone_inserted"), MOB_OK);
    assert_int_equal(mob_database_run(f.db, "INSERT INTO mobula.job_gone (job) VALUES ('\\x09')"), MOB_OK);
    f.cold->gone_ns = 1;
    read_all(scan_of(false));
    assert_int_equal(got_count, 0);
}

/* ---- in commit order ---- */

static uint32_t got_holes; /* pages that say that something is gone */

/* What was read is what `wanted` says, entry by entry in the order of the log, in blocks as they were. */
static void read_history(
    struct mob_gcs_cold_get q, bool (*wanted)(const struct logged *, const void *), const void *arg)
{
    uint32_t at = 0, pages = 0;
    struct logged *entries = calloc(MOB_BLOCK_ENTRIES_MAX, sizeof *entries);
    got_holes = 0;
    q.get.query = MOB_GCS_Q_HISTORY;
    do {
        struct mob_gcs_cold_answer answer;
        assert_string_equal(mob_status_code(mob_cold_read(f.cold, f.db, &q, &answer)), "ok");
        got_holes += answer.tie;
        for (uint32_t i = 0; i < answer.block_count; i++) {
            const struct mob_gcs_block_row *row = &answer.blocks[i];
            uint32_t count = entries_of(row->bytes, row->length, row->seq, entries);
            for (uint32_t k = 0; k < count; k++, at++) {
                while (at < f.entry_count && !wanted(&f.entries[at], arg))
                    at++;
                assert_in_range(at, 0, f.entry_count - 1);
                assert_int_equal(row->seq, f.entries[at].seq);
                assert_int_equal(entries[k].digest, f.entries[at].digest);
                assert_int_equal(entries[k].wall_ns, f.entries[at].wall_ns);
            }
            assert_true(at == f.entry_count || f.entries[at].seq != row->seq); /* the whole block */
        }
        assert_in_range(++pages, 1, 10000);
        assert_true(answer.next == 0 || answer.next != q.get.position);
        q.get.position = answer.next;
    } while (q.get.position != 0);
    while (at < f.entry_count && !wanted(&f.entries[at], arg))
        at++;
    assert_int_equal(at, f.entry_count);
    got_pages = pages;
    free(entries);
}

static void history_is_the_log_as_it_was_committed(void **state)
{
    NEEDS_POSTGRES();
    some_log();
    flush_rest(37);
    uint64_t last = f.blocks[f.count - 1].seq;
    struct mob_gcs_cold_get q = scan_of(false);
    read_history(q, any, NULL);
    assert_int_equal(got_holes, 0);
    q.get.limit = 7;
    read_history(q, any, NULL);
    assert_in_range(got_pages, f.count / 37, f.count);
    for (uint32_t i = 0; i < 25; i++) { /* from anywhere, up to what the members still have */
        struct range r = {1 + (uint64_t)i * 7919 % last, f.batches[(i * 5) % f.batch_count]};
        q.upto = r.upto;
        q.get.position = mob_gcs_cold_position(r.above, 0);
        read_history(q, in_range, &r);
        assert_int_equal(got_holes, 0);
    }
    q = scan_of(false);
    for (uint8_t job = 1; job <= 4; job++) {
        q.get.job = gcs_block_job(job);
        read_history(q, of_job, &(struct terms){.job = &q.get.job});
        assert_int_equal(got_holes, 0);
    }
}

static bool on_kept_days(const struct logged *e, const void *arg)
{
    return e->seq > *(const uint64_t *)arg;
}

static void history_says_which_of_it_is_gone(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(1, 1, 10, 50, 0);
    flush_rest(40);
    uint64_t first_day = f.blocks[f.count - 1].seq;
    log_pairs(2, 2, 10, 50, 1);
    flush_rest(40);
    char sql[256];
    snprintf(sql, sizeof sql, "DROP TABLE mobula.bucket_d%d; DELETE FROM mobula.batch WHERE day_max = %d",
        FIRST_DAY, FIRST_DAY);
    assert_int_equal(mob_database_run(f.db, sql), MOB_OK);
    struct mob_gcs_cold_get q = scan_of(false);
    read_history(q, on_kept_days, &first_day);
    assert_int_equal(got_holes, 1);
    q.get.position = mob_gcs_cold_position(first_day, 0);
    read_history(q, on_kept_days, &first_day);
    assert_int_equal(got_holes, 0);
    /* And when nothing is left at all. */
    snprintf(sql, sizeof sql, "DROP TABLE mobula.bucket_d%d; DELETE FROM mobula.batch", FIRST_DAY + 1);
    assert_int_equal(mob_database_run(f.db, sql), MOB_OK);
    read_history(q, on_kept_days, &f.blocks[f.count - 1].seq);
    assert_int_equal(got_holes, 1);
}

/* A batch that lost one of its days still has the others. */
static void history_of_a_batch_that_lost_a_day_has_the_rest(void **state)
{
    NEEDS_POSTGRES();
    log_pairs(1, 1, 4, 50, 0);
    uint64_t first_day = f.blocks[f.count - 1].seq;
    log_pairs(2, 2, 4, 50, 1);
    flush_rest(1000);
    char sql[256];
    snprintf(sql, sizeof sql, "DROP TABLE mobula.bucket_d%d", FIRST_DAY);
    assert_int_equal(mob_database_run(f.db, sql), MOB_OK);
    read_history(scan_of(false), on_kept_days, &first_day);
    assert_int_equal(got_holes, 1);
    /* Who was told goes on right before the first block that is there, and is not told for ever. */
    uint32_t next = 0;
    while (f.blocks[next].seq <= first_day)
        next++;
    struct mob_gcs_cold_get q = scan_of(false);
    q.get.position = mob_gcs_cold_position(f.blocks[next].seq - 1, 0);
    read_history(q, on_kept_days, &first_day);
    assert_int_equal(got_holes, 0);
}

static bool not_of_job_2(const struct logged *e, const void *arg)
{
    struct mob_job_id two = gcs_block_job(2);
    const struct range *r = arg;
    return !mob_stream_eq(e->job.root, two.root) && e->seq > r->above && e->seq <= r->upto;
}

/* As the flusher deletes it (gcs_flusher): a job with rows of its own, or one that shares them. */
static void delete_job_2(void)
{
    static const char *const statements[] = {
        "INSERT INTO mobula.hole (shard, upto, job, day, seq_min, seq_max) "
        "SELECT shard, upto, job, day, min(seq_min), max(seq_max) FROM mobula.bucket WHERE job = $1 "
        "GROUP BY shard, upto, job, day",
        "DELETE FROM mobula.bucket WHERE job = $1", "INSERT INTO mobula.job_gone (job) VALUES ($1)"};
    struct mob_job_id gone = gcs_block_job(2);
    struct mob_database_param p;
    mob_param_bytes(&p, &gone, sizeof gone);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        assert_int_equal(mob_database_query(f.db, statements[i], &p, 1, NULL), MOB_OK);
}

/* A deleted job in the middle of others is told once, on the page behind what was before it: to who resumes
 * before it, or in it, and to nobody else. */
static void a_deleted_job_is_told(uint32_t pairs, uint32_t tasks, bool shares)
{
    log_pairs(1, 1, pairs, tasks, 0);
    uint64_t before = f.blocks[f.count - 1].seq;
    log_pairs(2, 2, pairs, tasks, 0);
    uint64_t last = f.blocks[f.count - 1].seq;
    log_pairs(3, 3, pairs, tasks, 0);
    flush_rest(1000);
    assert_int_equal(pg_box_number(f.db, "SELECT count(*) FROM mobula.bucket WHERE job IS NULL") > 0, shares);
    struct mob_gcs_cold_get q = scan_of(false);
    struct range r = {0, q.upto};
    read_history(q, any, NULL);
    assert_int_equal(got_holes, 0);
    delete_job_2();
    mob_cold_destroy(f.cold); /* a reader knows for a while who was not deleted */
    f.cold = mob_cold_create(SHARD);
    for (uint32_t limit = 3; limit <= 100; limit += 97) {
        q.get.limit = limit;
        for (uint32_t i = 0; i < f.count; i++) {
            bool missing = i + 1 < f.count && f.blocks[i + 1].seq > before && f.blocks[i + 1].seq <= last;
            r.above = f.blocks[i].seq;
            q.get.position = mob_gcs_cold_position(r.above, 0);
            read_history(q, not_of_job_2, &r);
            assert_int_equal(got_holes, missing || r.above < before);
        }
    }
    q = scan_of(false);
    q.get.position = mob_gcs_cold_position(before, 0);
    q.upto = last; /* all that is asked for is gone */
    read_history(q, not_of_job_2, &(struct range){before, last});
    assert_int_equal(got_holes, 1);
    for (uint8_t job = 1; job <= 3; job++) {
        q = scan_of(false);
        q.get.job = gcs_block_job(job);
        r = (struct range){job == 2 ? UINT64_MAX : 0, UINT64_MAX};
        read_history(q, job == 2 ? not_of_job_2 : of_job,
            job == 2 ? (const void *)&r : &(struct terms){.job = &q.get.job});
        assert_int_equal(got_holes, job == 2);
    }
}

static void history_says_where_a_deleted_job_was(void **state)
{
    NEEDS_POSTGRES();
    a_deleted_job_is_told(30, 50, false);
}

static void history_says_where_a_deleted_job_shared_rows(void **state)
{
    NEEDS_POSTGRES();
    a_deleted_job_is_told(2, 10, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everything_comes_back_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(positions_inside_of_batches_are_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_postgres_ends_no_scan, set_up, tear_down),
        cmocka_unit_test_setup_teardown(groups_come_back_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(several_groups_come_back_whole_in_one_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_group_on_many_days_comes_back_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scans_by_job_function_and_time_miss_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_have_an_index_of_their_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_of_one_moment_come_once_each, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_two_flushers_one_inserts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_at_once_insert_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_killed_postgres_has_a_batch_or_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_block_is_named_and_the_others_are_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deleted_jobs_are_not_given, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_list_of_deleted_jobs_is_read_when_it_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(history_is_the_log_as_it_was_committed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(history_says_which_of_it_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(history_of_a_batch_that_lost_a_day_has_the_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(history_says_where_a_deleted_job_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(history_says_where_a_deleted_job_shared_rows, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
