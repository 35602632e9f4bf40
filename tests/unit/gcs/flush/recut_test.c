/* Re-cut blocks: every entry of the log is in the rows once, with its place, sorted by task; rows hold what
 * their summaries say; what fails and which streams there are is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gcs/flush/recut.h"
#include "tests/support/wire_samples.h"

enum { BLOCKS_MAX = 64, ROWS_MAX = 256, TOLD_MAX = 16384 };
#define DAY_NS (86400ll * 1000000000)
#define FIRST_SEQ 1000u

struct source {
    uint8_t *bytes;
    uint32_t length, entries;
    bool seen[MOB_BLOCK_ENTRIES_MAX];
};
struct row {
    uint8_t *payload;
    struct mob_recut_row row;
};
struct fixture {
    struct mob_recut *recut;
    struct mob_block_encoder *encoder;
    struct mob_block_decoder *decoder, *original;
    struct mob_bucket_reader *reader;
    struct sample_entry *sample;
    struct source sources[BLOCKS_MAX];
    uint32_t count;
    struct row rows[ROWS_MAX];
    uint32_t row_count;
    struct mob_recut_failure failures[TOLD_MAX];
    uint32_t failure_count;
    struct mob_stream streams[TOLD_MAX];
    uint32_t stream_count;
    uint32_t blocks_cut; /* seen by check_rows */
    enum mob_status refuse; /* what the row callback returns */
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->recut = mob_recut_create();
    f->encoder = mob_block_encoder_create();
    f->decoder = mob_block_decoder_create();
    f->original = mob_block_decoder_create();
    f->reader = mob_bucket_reader_create();
    f->sample = calloc(1, sizeof *f->sample);
    for (int i = 0; i < BLOCKS_MAX; i++)
        f->sources[i].bytes = malloc(MOB_BLOCK_BYTES_MAX);
    *state = f;
    return f->recut && f->encoder && f->decoder && f->original && f->reader && f->sample ? 0 : -1;
}

static void forget_rows(struct fixture *f)
{
    for (uint32_t i = 0; i < f->row_count; i++)
        free(f->rows[i].payload);
    f->row_count = f->failure_count = f->stream_count = 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    forget_rows(f);
    mob_recut_destroy(f->recut);
    mob_block_encoder_destroy(f->encoder);
    mob_block_decoder_destroy(f->decoder);
    mob_block_decoder_destroy(f->original);
    mob_bucket_reader_destroy(f->reader);
    for (int i = 0; i < BLOCKS_MAX; i++)
        free(f->sources[i].bytes);
    free(f->sample);
    free(f);
    return 0;
}

static enum mob_status on_row(void *arg, const struct mob_recut_row *row)
{
    struct fixture *f = arg;
    assert_in_range(f->row_count, 0, ROWS_MAX - 1);
    struct row *kept = &f->rows[f->row_count++];
    kept->row = *row;
    kept->payload = malloc(row->payload_bytes);
    memcpy(kept->payload, row->payload, row->payload_bytes);
    return f->refuse;
}

static enum mob_status on_failure(void *arg, const struct mob_recut_failure *failure)
{
    struct fixture *f = arg;
    assert_in_range(f->failure_count, 0, TOLD_MAX - 1);
    f->failures[f->failure_count++] = *failure;
    return MOB_OK;
}

static enum mob_status on_stream(void *arg, int32_t day, struct mob_stream stream)
{
    struct fixture *f = arg;
    (void)day;
    assert_in_range(f->stream_count, 0, TOLD_MAX - 1);
    f->streams[f->stream_count++] = stream;
    return MOB_OK;
}

static enum mob_status finish(struct fixture *f)
{
    forget_rows(f);
    struct mob_recut_events events = {on_row, on_failure, on_stream, f};
    return mob_recut_finish(f->recut, &events);
}

static struct mob_block_header header_of(uint8_t job, uint64_t incarnation, uint64_t number, int64_t wall_ns)
{
    struct mob_block_header h = {.incarnation = incarnation,
        .sequence = number,
        .ns = "default",
        .wall_ns = wall_ns,
        .mono_ns = 1000000};
    memset(&h.job, job, sizeof h.job);
    memset(&h.cluster, 9, sizeof h.cluster);
    return h;
}

static void end_source(struct fixture *f)
{
    struct source *s = &f->sources[f->count];
    s->entries = mob_block_entries(f->encoder);
    s->length = mob_block_end(f->encoder, s->bytes);
    memset(s->seen, 0, sizeof s->seen);
    f->count++;
}

/* A random block of `world`: entries of a few streams. */
static void random_block(struct fixture *f, struct sample_world *world, const struct mob_block_header *header)
{
    uint32_t wanted = sample_below(&world->rng, MOB_BLOCK_ENTRIES_MAX + 1);
    mob_block_begin(f->encoder, header);
    for (uint32_t i = 0; i < wanted; i++) {
        sample_any(world, f->sample);
        if (sample_add(f->encoder, f->sample) != MOB_OK)
            break;
    }
    end_source(f);
}

/* A log of several jobs, incarnations and days. */
static void random_log(struct fixture *f, uint64_t seed)
{
    struct sample_world worlds[3];
    struct sample_rng rng = {seed};
    uint64_t numbers[3] = {0};
    for (uint64_t i = 0; i < 3; i++)
        sample_world_init(&worlds[i], seed * 10 + i);
    uint32_t wanted = 1 + sample_below(&rng, BLOCKS_MAX - 1), jobs = 1 + sample_below(&rng, 3);
    f->count = 0;
    while (f->count < wanted) {
        uint32_t job = sample_below(&rng, jobs), incarnation = sample_one_in(&rng, 6);
        int64_t wall = 20000 * DAY_NS + (sample_one_in(&rng, 10) ? DAY_NS : 0) + sample_below(&rng, 50000);
        struct mob_block_header h = header_of((uint8_t)job, 5 + incarnation, numbers[incarnation]++, wall);
        random_block(f, &worlds[job], &h);
    }
}

static void add_all(struct fixture *f)
{
    mob_recut_begin(f->recut);
    for (uint32_t i = 0; i < f->count; i++)
        assert_int_equal(
            mob_recut_add(f->recut, FIRST_SEQ + i, f->sources[i].bytes, f->sources[i].length), MOB_OK);
}

static void original_entry(struct fixture *f, struct mob_bucket_origin at, struct mob_entry *out,
    struct mob_block_header *header_out)
{
    static struct mob_zone_map zone;
    assert_in_range(at.seq, FIRST_SEQ, FIRST_SEQ + f->count - 1);
    const struct source *s = &f->sources[at.seq - FIRST_SEQ];
    assert_int_equal(mob_block_open(f->original, s->bytes, s->length, header_out, &zone), MOB_OK);
    for (uint32_t i = 0; i <= at.ordinal; i++) {
        memset(out, 0, sizeof *out);
        assert_int_equal(mob_block_next(f->original, out), MOB_OK);
    }
}

static bool stream_was_told(const struct fixture *f, struct mob_stream stream)
{
    for (uint32_t i = 0; i < f->stream_count; i++)
        if (mob_stream_eq(f->streams[i], stream))
            return true;
    return false;
}

/* Checks one block of a row; marks its entries as seen. */
static void check_block(struct fixture *f, const struct row *row, const struct mob_bucket_block *b)
{
    struct mob_block_header header, original;
    static struct mob_zone_map zone;
    static struct mob_entry entry, want;
    struct mob_bucket_origin origins[MOB_BLOCK_ENTRIES_MAX];
    struct mob_task_id before = {0};
    assert_int_equal(mob_block_open(f->decoder, b->bytes, b->length, &header, &zone), MOB_OK);
    assert_int_equal(mob_bucket_origins(b, origins, header.entry_count), MOB_OK);
    if (!row->row.shared)
        assert_memory_equal(&header.job, &row->row.job, sizeof header.job);
    for (uint32_t i = 0; i < header.entry_count; i++) {
        memset(&entry, 0, sizeof entry);
        assert_int_equal(mob_block_next(f->decoder, &entry), MOB_OK);
        original_entry(f, origins[i], &want, &original);
        const char *field = sample_difference(&want, &entry);
        if (field)
            fail_msg("entry of type %d: %s differs", (int)want.type, field);
        struct source *s = &f->sources[origins[i].seq - FIRST_SEQ];
        assert_false(s->seen[origins[i].ordinal]);
        s->seen[origins[i].ordinal] = true;
        assert_int_equal(header.incarnation, original.incarnation);
        assert_memory_equal(&header.job, &original.job, sizeof header.job);
        int64_t drift = (header.wall_ns - header.mono_ns) - (original.wall_ns - original.mono_ns);
        assert_int_equal(drift, 0);
        assert_int_equal(original.wall_ns / DAY_NS, row->row.day);
        struct mob_task_id task = sample_group(&entry);
        struct mob_bucket_key x = mob_bucket_key(before.stream, before.index),
                              y = mob_bucket_key(task.stream, task.index);
        if (!b->whole)
            assert_true(memcmp(&x, &y, sizeof x) <= 0);
        before = task;
        if (!mob_task_id_is_zero(task))
            assert_true(stream_was_told(f, task.stream));
    }
}

/* Each failure that was told is in the row that was told with it. */
static void check_failures(struct fixture *f)
{
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    for (uint32_t i = 0; i < f->failure_count; i++) {
        const struct mob_recut_failure *told = &f->failures[i];
        struct mob_bucket_block b;
        struct mob_block_header h;
        uint32_t blocks, found = 0;
        assert_in_range(told->row, 0, f->row_count - 1);
        const struct row *row = &f->rows[told->row];
        assert_int_equal(row->row.day, told->day);
        assert_int_equal(mob_bucket_open(f->reader, row->payload, row->row.payload_bytes, &blocks), MOB_OK);
        while (mob_bucket_next(f->reader, &b)) {
            assert_int_equal(mob_block_open(f->decoder, b.bytes, b.length, &h, &zone), MOB_OK);
            while (mob_block_next(f->decoder, &entry) == MOB_OK)
                found += entry.type == MOB_ENTRY_COMPLETION &&
                    mob_task_id_eq(entry.completion.head.task, told->task);
        }
        assert_true(found > 0);
    }
}

static void check_rows(struct fixture *f)
{
    static bool position[BLOCKS_MAX];
    memset(position, 0, sizeof position);
    for (uint32_t i = 0; i < f->row_count; i++) {
        const struct row *row = &f->rows[i];
        uint32_t blocks;
        struct mob_bucket_block b;
        assert_int_equal(mob_bucket_open(f->reader, row->payload, row->row.payload_bytes, &blocks), MOB_OK);
        while (mob_bucket_next(f->reader, &b)) {
            assert_in_range(b.seq, FIRST_SEQ, FIRST_SEQ + f->count - 1);
            assert_false(position[b.seq - FIRST_SEQ]); /* no two blocks have one position */
            position[b.seq - FIRST_SEQ] = true;
            check_block(f, row, &b);
            f->blocks_cut += !b.whole;
        }
    }
    check_failures(f);
    for (uint32_t i = 0; i < f->count; i++)
        for (uint32_t k = 0; k < f->sources[i].entries; k++)
            if (!f->sources[i].seen[k])
                fail_msg("block %u entry %u is in no row", i, k);
}

static void every_entry_is_in_the_rows_once(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        random_log(f, seed);
        add_all(f);
        assert_int_equal(finish(f), MOB_OK);
        check_rows(f);
    }
    assert_in_range(f->blocks_cut, 200, 100000); /* else this has shown nothing */
}

/* ---- siblings: what tasks_async makes ---- */

static struct mob_stream stream_of(uint8_t n)
{
    struct mob_stream s;
    memset(&s, n, sizeof s);
    return s;
}

static void add_spec(struct fixture *f, uint8_t job, uint8_t stream, uint32_t index, uint8_t function)
{
    struct mob_spec_head h = {
        .version = MOB_SPEC_VERSION, .kind = MOB_KIND_TASK, .runtime = 1, .num_returns = 1, .attempt = 1};
    _Alignas(8) uint8_t tail[64];
    struct mob_tail_builder b;
    int64_t value = index;
    memset(&h.job, job, sizeof h.job);
    memset(&h.function, function, sizeof h.function);
    h.task = (struct mob_task_id){stream_of(stream), index};
    mob_tail_begin(&b, tail, sizeof tail);
    mob_tail_add_value(&b, MOB_TYPE_I64, &value, sizeof value);
    uint32_t bytes = mob_tail_end(&b);
    assert_int_equal(mob_block_add_spec(f->encoder, &h, tail, bytes, 2000000 + index), MOB_OK);
}

static void add_final(struct fixture *f, uint8_t stream, uint32_t index, enum mob_status status)
{
    struct mob_completion_head h = {.version = MOB_COMPLETION_VERSION,
        .flags = MOB_COMPLETION_FINAL,
        .status = (uint16_t)status,
        .task = {stream_of(stream), index},
        .attempt = 1,
        .worker = 7,
        .submitted_ns = 2000000 + index,
        .started_ns = 3000000 + index,
        .finished_ns = 4000000 + index};
    assert_int_equal(mob_block_add_completion(f->encoder, &h, NULL), MOB_OK);
}

/* Blocks of specs, and behind each the completions of the block of specs before. */
static void sibling_log(struct fixture *f, uint8_t job, uint8_t stream, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        struct mob_block_header h = header_of(job, 5, f->count, 20000 * DAY_NS + i);
        h.mono_ns += i; /* one clock */
        mob_block_begin(f->encoder, &h);
        for (uint32_t k = 0; k < 128; k++)
            add_spec(f, job, stream, i * 128 + k, 1);
        for (uint32_t k = 0; i > 0 && k < 128; k++)
            add_final(f, stream, (i - 1) * 128 + 127 - k, MOB_OK); /* finished in another order */
        end_source(f);
    }
}

static void siblings_become_few_rows_of_narrow_ranges(void **state)
{
    struct fixture *f = *state;
    f->count = 0;
    sibling_log(f, 1, 40, 60);
    add_all(f);
    assert_int_equal(finish(f), MOB_OK);
    check_rows(f);
    assert_in_range(f->row_count, 2, 8);
    uint32_t containing = 0;
    struct mob_bucket_key key = mob_bucket_key(stream_of(40), 30 * 128 + 5);
    for (uint32_t i = 0; i < f->row_count; i++) {
        const struct mob_bucket_summary *s = &f->rows[i].row.summary;
        containing += memcmp(&s->first, &key, sizeof key) <= 0 && memcmp(&s->last, &key, sizeof key) >= 0;
        assert_false(f->rows[i].row.shared);
        assert_int_equal(f->rows[i].row.day, 20000);
        assert_int_equal(s->time_min_ns / DAY_NS, 20000);
    }
    assert_in_range(containing, 1, 2); /* its group may lie in two */
}

static void a_large_job_has_rows_of_its_own_and_small_ones_share(void **state)
{
    struct fixture *f = *state;
    f->count = 0;
    sibling_log(f, 1, 40, 2);
    sibling_log(f, 2, 41, 40);
    sibling_log(f, 3, 42, 2);
    add_all(f);
    assert_int_equal(finish(f), MOB_OK);
    check_rows(f);
    uint32_t own = 0;
    for (uint32_t i = 0; i < f->row_count; i++) {
        const struct mob_recut_row *row = &f->rows[i].row;
        struct mob_job_id second;
        memset(&second, 2, sizeof second);
        bool is_second = memcmp(&row->job, &second, sizeof second) == 0;
        own += !row->shared && is_second;
        /* the first and third are not neighbours of the order: each has a row before and behind the second */
        assert_true(is_second || row->summary.blocks <= 4);
    }
    assert_true(own >= 1);
    f->count = 0;
    sibling_log(f, 1, 40, 2);
    sibling_log(f, 3, 42, 2);
    add_all(f);
    assert_int_equal(finish(f), MOB_OK);
    check_rows(f);
    assert_int_equal(f->row_count, 1);
    assert_true(f->rows[0].row.shared);
}

static void a_class_with_a_large_block_stays_as_it_is(void **state)
{
    struct fixture *f = *state;
    static uint8_t content[60000];
    struct mob_block_header h = header_of(1, 5, 0, 20000 * DAY_NS);
    struct mob_out_put put = {.id = {{stream_of(9), 3}, MOB_SLOT_PUT},
        .type = MOB_TYPE_BYTES,
        .size = sizeof content,
        .inline_bytes = sizeof content};
    f->count = 0;
    sibling_log(f, 1, 40, 3);
    h.sequence = f->count;
    mob_block_begin(f->encoder, &h);
    assert_int_equal(mob_block_add_put(f->encoder, &put, content), MOB_OK);
    add_final(f, 40, 1, MOB_WORKER_DIED);
    end_source(f);
    add_all(f);
    assert_int_equal(finish(f), MOB_OK);
    check_rows(f);
    uint32_t blocks = 0, whole = 0, count;
    for (uint32_t i = 0; i < f->row_count; i++) {
        struct mob_bucket_block b;
        assert_int_equal(
            mob_bucket_open(f->reader, f->rows[i].payload, f->rows[i].row.payload_bytes, &count), MOB_OK);
        for (; mob_bucket_next(f->reader, &b); blocks++)
            whole += b.whole;
    }
    assert_int_equal(blocks, f->count);
    assert_int_equal(whole, f->count);
    assert_int_equal(f->failure_count, 1); /* told all the same, with a spec that stands elsewhere */
    assert_false(f->failures[0].has_function);
    struct mob_function_id function, want;
    memset(&want, 1, sizeof want);
    assert_int_equal(mob_recut_function(f->recut, f->failures[0].task, &function), MOB_OK);
    assert_memory_equal(&function, &want, sizeof want);
}

static void failures_are_told_with_their_function(void **state)
{
    struct fixture *f = *state;
    f->count = 0;
    struct mob_block_header h = header_of(1, 5, 0, 20000 * DAY_NS + 5000000);
    mob_block_begin(f->encoder, &h);
    for (uint32_t i = 0; i < 20; i++)
        add_spec(f, 1, 50, i, (uint8_t)(i % 2 + 1));
    end_source(f);
    h.sequence = 1;
    mob_block_begin(f->encoder, &h);
    for (uint32_t i = 20; i-- > 0;)
        add_final(f, 50, i, i % 5 == 0 ? MOB_TASK_FAILED : MOB_OK);
    add_final(f, 51, 77, MOB_CANCELLED); /* its spec was flushed long ago */
    end_source(f);
    add_all(f);
    assert_int_equal(finish(f), MOB_OK);
    check_rows(f);
    assert_int_equal(f->failure_count, 5);
    for (uint32_t i = 0; i < 4; i++) {
        const struct mob_recut_failure *told = &f->failures[i];
        assert_int_equal(told->task.index, i * 5);
        assert_true(told->has_function);
        assert_int_equal(told->function.b[0], i * 5 % 2 + 1);
        assert_int_equal(told->status, MOB_TASK_FAILED);
        assert_int_equal(told->seq, FIRST_SEQ + 1);
        assert_int_equal(told->finished_wall_ns, h.wall_ns - h.mono_ns + 4000000 + i * 5);
    }
    assert_int_equal(f->failures[4].status, MOB_CANCELLED);
    assert_false(f->failures[4].has_function);
    struct mob_function_id function;
    assert_int_equal(mob_recut_function(f->recut, f->failures[4].task, &function), MOB_NOT_FOUND);
}

static void midnight_parts_rows(void **state)
{
    struct fixture *f = *state;
    f->count = 0;
    static const int64_t walls[] = {-1, 0, DAY_NS - 1, DAY_NS, -DAY_NS, -DAY_NS - 1};
    static const int32_t days[] = {-1, 0, 0, 1, -1, -2};
    for (uint32_t i = 0; i < 6; i++) {
        struct mob_block_header h = header_of(1, 5, i, walls[i]);
        mob_block_begin(f->encoder, &h);
        add_spec(f, 1, 50, i, 1);
        end_source(f);
    }
    add_all(f);
    assert_int_equal(finish(f), MOB_OK);
    uint32_t by_day[4] = {0};
    for (uint32_t i = 0; i < f->row_count; i++)
        by_day[f->rows[i].row.day + 2] += f->rows[i].row.summary.specs;
    uint32_t want[4] = {0};
    for (uint32_t i = 0; i < 6; i++)
        want[days[i] + 2]++;
    assert_memory_equal(by_day, want, sizeof want);
}

static void damage_ends_it_and_the_next_cut_is_clean(void **state)
{
    struct fixture *f = *state;
    f->count = 0;
    sibling_log(f, 1, 40, 4);
    struct source *last = &f->sources[3];
    last->bytes[last->length - 5] ^= 1; /* in the entries: the front is right */
    add_all(f);
    assert_int_equal(finish(f), MOB_CORRUPT);
    last->bytes[last->length - 5] ^= 1;
    add_all(f);
    f->refuse = MOB_UNAVAILABLE;
    assert_int_equal(finish(f), MOB_UNAVAILABLE);
    assert_int_equal(f->row_count, 1); /* and no more is told after that */
    f->refuse = MOB_OK;
    add_all(f);
    assert_int_equal(finish(f), MOB_OK);
    check_rows(f);
}

static void nothing_gives_nothing(void **state)
{
    struct fixture *f = *state;
    f->count = 0;
    add_all(f);
    assert_int_equal(finish(f), MOB_OK);
    assert_int_equal(f->row_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_entry_is_in_the_rows_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(siblings_become_few_rows_of_narrow_ranges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_large_job_has_rows_of_its_own_and_small_ones_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_class_with_a_large_block_stays_as_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_are_told_with_their_function, set_up, tear_down),
        cmocka_unit_test_setup_teardown(midnight_parts_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_ends_it_and_the_next_cut_is_clean, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_gives_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
