/* Finding tasks that are only in PostgreSQL: 30 days, 10,000 jobs, 100 functions, one failure in 1,000 or in
 * 1,000,000, evenly spread. Every answer is compared with what was written. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/find_corpus.h"
#include "bench/flush_rows.h"
#include "common/base/log.h"
#include "common/wire/block.h"
#include "gcs/flush/cold.h"
#include "gcs/flush/migrate.h"
#include "gcs/flush/watermark.h"
#include "gcs/flush/writer.h"
#include "tests/support/xorshift.h"

#define BATCH_BLOCKS 1024u
#define FIRST_WALL_NS (20000 * 86400ll * 1000000000)

struct finding {
    struct bench *b;
    struct mob_database *db;
    struct mob_writer_state *writer;
    struct mob_cold *cold;
    struct mob_block_encoder *encoder;
    struct find_corpus corpus;
    uint32_t shard;
    uint64_t seq, watermark;
    uint8_t *bytes; /* of a batch */
    struct mob_flush_block blocks[BATCH_BLOCKS];
};

static enum mob_status write_all(struct finding *f)
{
    enum mob_status status = MOB_OK;
    const struct find_corpus *c = &f->corpus;
    for (uint64_t task = 0; task < c->tasks && status == MOB_OK;) {
        struct mob_flush_batch batch = {.after = f->watermark, .epoch = 1, .blocks = f->blocks};
        struct mob_flush_written written;
        size_t used = 0;
        for (; task < c->tasks && batch.count < BATCH_BLOCKS; task += FIND_BLOCK_TASKS) {
            struct mob_block_header header = {.incarnation = 1, .sequence = f->seq};
            uint32_t length = find_corpus_block(c, f->encoder, &header, task, f->bytes + used);
            f->blocks[batch.count++] =
                (struct mob_flush_block){.seq = ++f->seq, .bytes = f->bytes + used, .length = length};
            used += length;
        }
        batch.upto = f->watermark = f->seq;
        status = mob_flush_write(f->writer, f->db, &batch, &written);
    }
    return status;
}

/* *place_out: of its end among all ends of the answer, from 1 on. */
static bool has_task(
    const struct mob_gcs_cold_answer *a, struct mob_task_id wanted, bool failed, uint32_t *place_out)
{
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    struct mob_block_header header;
    struct mob_block_decoder *decoder = mob_block_decoder_create();
    int found = 0;
    uint32_t ends = 0;
    for (uint32_t i = 0; i < a->block_count; i++) {
        enum mob_status status =
            mob_block_open(decoder, a->blocks[i].bytes, a->blocks[i].length, &header, &zone);
        while (status == MOB_OK && (status = mob_block_next(decoder, &entry)) == MOB_OK) {
            bool spec = entry.type == MOB_ENTRY_SPEC && mob_task_id_eq(entry.spec.head.task, wanted);
            bool end = entry.type == MOB_ENTRY_COMPLETION &&
                mob_task_id_eq(entry.completion.head.task, wanted) &&
                (entry.completion.head.status != MOB_OK) == failed;
            found |= spec ? 1 : end ? 2 : 0;
            ends += entry.type == MOB_ENTRY_COMPLETION;
            if (end)
                *place_out = ends;
        }
    }
    mob_block_decoder_destroy(decoder);
    return found == 3;
}

static int count_failed(const struct mob_gcs_cold_answer *a)
{
    struct mob_block_header header;
    static struct mob_zone_map zone;
    int n = 0;
    for (uint32_t i = 0; i < a->block_count; i++)
        if (mob_block_peek(a->blocks[i].bytes, a->blocks[i].length, &header, &zone) == MOB_OK)
            n += (int)zone.failed;
    return n;
}

/* Random tasks by id. */
static bool find_tasks(struct finding *f, double *us, int count)
{
    uint64_t random = XORSHIFT_SEED;
    for (int i = 0; i < count; i++) {
        uint64_t task = xorshift(&random) % f->corpus.tasks;
        struct mob_task_id id = find_corpus_task(&f->corpus, task);
        struct mob_gcs_cold_get q = {.upto = f->watermark,
            .get = {.query = MOB_GCS_Q_GROUP, .stream = id.stream, .group = id.index >> MOB_GROUP_SHIFT}};
        struct mob_gcs_cold_answer a;
        uint32_t place;
        int64_t begin = bench_now();
        enum mob_status status = mob_cold_read(f->cold, f->db, &q, &a);
        us[i] = (double)(bench_now() - begin) / 1e3;
        if (status != MOB_OK || !has_task(&a, id, find_corpus_fails(&f->corpus, task), &place))
            return false;
    }
    return true;
}

/* The first page of the failed tasks of a function in an hour that has some; complete and in order. */
static bool find_failures(struct finding *f, double *us, int count, double *rows_out)
{
    const struct find_corpus *c = &f->corpus;
    uint64_t per_hour = c->tasks / FIND_HOURS, rows = 0;
    MOB_ASSERT(per_hour > 0); /* the smallest run has hundreds */
    for (int i = 0; i < count; i++) {
        uint64_t failure = find_corpus_failure(c, (uint64_t)i), expected[FIND_PAGE];
        uint64_t from = failure / per_hour * per_hour;
        uint32_t function = find_corpus_function(failure);
        struct mob_gcs_cold_get q = {.upto = f->watermark,
            .get = {.query = MOB_GCS_Q_SCAN,
                .failed = 1,
                .newest_first = 1,
                .limit = FIND_PAGE,
                .function = c->functions[function],
                .from_wall_ns = find_corpus_finished_ns(c, from),
                .to_wall_ns = find_corpus_finished_ns(c, from + per_hour) - 1000}};
        struct mob_gcs_cold_answer a;
        int64_t begin = bench_now();
        enum mob_status status = mob_cold_read(f->cold, f->db, &q, &a);
        us[i] = (double)(bench_now() - begin) / 1e3;
        int n = find_corpus_failures(c, function, from, from + per_hour, expected);
        if (status != MOB_OK || count_failed(&a) != n)
            return false;
        uint32_t before = 0, place = 0;
        for (int k = 0; k < n; k++, before = place)
            if (!has_task(&a, find_corpus_task(c, expected[k]), true, &place) || place <= before)
                return false;
        rows += (uint64_t)n;
    }
    *rows_out = (double)rows;
    return true;
}

static bool open_finding(struct finding *f, const char *directory)
{
    int from, to;
    char socket[300];
    snprintf(socket, sizeof socket, "%s/pg", directory);
    f->writer = mob_flush_writer_create(f->shard);
    f->cold = mob_cold_create(f->shard);
    f->encoder = mob_block_encoder_create();
    f->bytes = malloc((size_t)BATCH_BLOCKS * FIND_BLOCK_BYTES_MAX + MOB_BLOCK_BYTES_MAX);
    uint64_t upto, epoch;
    return f->writer && f->cold && f->encoder && f->bytes && mob_database_open(socket, &f->db) == MOB_OK &&
        mob_migrate(f->db, mob_migrations, &from, &to) == MOB_OK &&
        mob_database_query_once(f->db, "SELECT 1", NULL, 0, NULL) == MOB_OK &&
        mob_watermark_read(f->db, f->shard, &upto, &epoch) == MOB_OK;
}

static void close_finding(struct finding *f)
{
    mob_flush_writer_destroy(f->writer);
    mob_cold_destroy(f->cold);
    mob_block_encoder_destroy(f->encoder);
    mob_database_close(f->db);
    free(f->bytes);
    f->writer = NULL;
    f->cold = NULL;
    f->encoder = NULL;
    f->db = NULL;
    f->bytes = NULL;
}

static void measure(struct finding *f, const char *failed_row)
{
    enum { LOOKS = 1000, PAGES = 200 };
    static double us[LOOKS], page_us[PAGES];
    double rows = 0;
    char extra[160];
    int64_t begin = bench_now();
    if (write_all(f) != MOB_OK) {
        bench_miss(f->b, failed_row, "not written");
        return;
    }
    double seconds = (double)(bench_now() - begin) / 1e9;
    if (!find_tasks(f, us, LOOKS) || !find_failures(f, page_us, PAGES, &rows)) {
        bench_miss(f->b, failed_row, "a task was not found, or a page is not what was written");
        return;
    }
    if (f->corpus.one_in == 1000)
        bench_row(f->b,
            &(struct bench_row){.name = "gcs_find",
                .unit = "us",
                .value = bench_percentile(us, LOOKS, 50),
                .baseline = f->b->socket_rtt_us,
                .against = "a round trip through a socket",
                .n = LOOKS,
                .p50_us = bench_percentile(us, LOOKS, 50),
                .p99_us = bench_percentile(us, LOOKS, 99)});
    snprintf(extra, sizeof extra, "\"tasks\":%llu,\"rows\":%.0f,\"written_per_s\":%.0f",
        (unsigned long long)f->corpus.tasks, rows, (double)f->corpus.tasks / seconds);
    bench_row(f->b,
        &(struct bench_row){.name = failed_row,
            .unit = "us",
            .value = bench_percentile(page_us, PAGES, 50),
            .n = PAGES,
            .p50_us = bench_percentile(page_us, PAGES, 50),
            .p99_us = bench_percentile(page_us, PAGES, 99),
            .extra = extra});
}

void bench_flush_find(struct bench *b)
{
    static struct finding f;
    struct bench fresh = {.options = b->options, .postgres = true};
    bool up = bench_cluster_start(&fresh);
    for (uint32_t i = 0; i < 2 && up; i++) {
        f = (struct finding){.b = b, .shard = 100 + i};
        f.corpus = (struct find_corpus){.tag = (uint8_t)f.shard,
            .tasks = b->options.quick ? 300000 : 10000000,
            .jobs = b->options.quick ? 300 : 10000,
            .one_in = i == 0 ? 1000 : 1000000,
            .first_wall_ns = FIRST_WALL_NS};
        for (uint32_t n = 0; n < FIND_FUNCTIONS; n++)
            f.corpus.functions[n] = (struct mob_function_id){{(uint8_t)n, 'f'}};
        for (int tries = 0; tries < 300 && !f.db && !open_finding(&f, fresh.directory); tries++) {
            close_finding(&f);
            usleep(100000);
        }
        if (f.db)
            measure(&f, i == 0 ? "gcs_find_failed" : "gcs_find_failed_rare");
        else
            bench_miss(b, "gcs_find", "no PostgreSQL");
        close_finding(&f);
    }
    if (!up)
        bench_miss(b, "gcs_find", "no cluster");
    bench_cluster_stop(&fresh);
}
