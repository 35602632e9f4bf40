/* wire-bench [--json]: what the formats of common/wire cost. Every figure is checked by decoding what was
 * encoded.
 *
 * `lineage_pair` is the log of tasks_async: sibling specs with one i64, completions with one i64 from two
 * workers that come a window later, all times, blocks of 256 entries. Its baseline is a copy of the same
 * structs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/block.h"
#include "common/wire/json_value.h"

enum { TASKS = 1 << 19, WINDOW = 10000, WORKERS = 2, BATCH = 64, ROUNDS = 7, PASS_TASKS = 128 };

static struct mob_spec_head head_of_siblings(void)
{
    struct mob_spec_head head = {
        .version = MOB_SPEC_VERSION, .kind = MOB_KIND_TASK, .runtime = MOB_RUNTIME_C};
    head.num_returns = 1;
    head.parent = mob_root_id_random();
    head.task.stream = mob_stream_of_children(head.parent, 0, 0);
    head.job.root = head.parent.stream;
    memset(head.function.b, 7, sizeof head.function.b);
    head.max_retries = 3;
    head.cpu = 10000;
    head.attempt = 1;
    return head;
}

/* Of the whole run, made before anything is measured. */
struct run {
    struct mob_spec_head head;
    uint8_t (*tails)[24];
    int64_t *submitted;
    struct mob_completion_head *completions; /* in the order of their arrival */
    uint8_t (*bodies)[24];
};

static uint32_t noise(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33) % below;
}

static void fill_completion(
    struct run *r, uint32_t place, uint32_t index, uint32_t worker, int64_t *free_at, uint64_t *seed)
{
    struct mob_completion_head *c = &r->completions[place];
    *c = (struct mob_completion_head){.version = MOB_COMPLETION_VERSION, .flags = MOB_COMPLETION_FINAL};
    c->return_count = 1;
    c->task = r->head.task;
    c->task.index = index;
    c->attempt = 1;
    c->worker = 4000 + worker;
    /* as the node keeps and the worker takes them: whole microseconds after submission; one clock reading
     * between two tasks of a batch; cpu = wall for what is shorter than a clock of it */
    int64_t pass = r->submitted[index - index % PASS_TASKS + PASS_TASKS - 1] + 700;
    c->submitted_ns = r->submitted[index];
    c->ready_ns = c->submitted_ns + (pass - c->submitted_ns) / 1000 * 1000;
    c->dispatched_ns = c->ready_ns + 3000 + 1000 * (int64_t)(noise(seed, 8) == 0);
    bool first_of_batch = index % BATCH == 0;
    c->started_ns = first_of_batch ? (*free_at > pass ? *free_at : pass) + 300 + noise(seed, 900) : *free_at;
    c->finished_ns = c->started_ns + 90 + noise(seed, 120);
    c->cpu_ns = c->finished_ns - c->started_ns;
    *free_at = c->finished_ns;
    c->body_bytes = 24;
    int64_t value = index;
    struct mob_return_view view = {
        .slot = 0, .type = MOB_TYPE_I64, .size = 8, .payload = (const uint8_t *)&value};
    if (mob_return_encode(r->bodies[place], 0, 24, &view) != 24)
        abort();
}

static void make_run(struct run *r)
{
    uint64_t seed = 42;
    int64_t now = 5000 * MOB_SEC, free_at[WORKERS] = {0};
    r->head = head_of_siblings();
    r->tails = calloc(TASKS, sizeof *r->tails);
    r->submitted = calloc(TASKS, sizeof *r->submitted);
    r->completions = calloc(TASKS, sizeof *r->completions);
    r->bodies = calloc(TASKS, sizeof *r->bodies);
    for (uint32_t i = 0; i < TASKS; i++) {
        struct mob_tail_builder b;
        int64_t value = i;
        mob_tail_begin(&b, r->tails[i], 24);
        mob_tail_add_value(&b, MOB_TYPE_I64, &value, 8);
        if (mob_tail_end(&b) != 24)
            abort();
        r->submitted[i] = now += 250 + noise(&seed, 200);
    }
    /* batches of 64 go to the workers in turn, and their completions come back interleaved */
    uint32_t place = 0;
    for (uint32_t from = 0; from < TASKS; from += BATCH * WORKERS)
        for (uint32_t i = 0; i < BATCH; i++)
            for (uint32_t w = 0; w < WORKERS; w++)
                fill_completion(r, place++, from + w * BATCH + i, w, &free_at[w], &seed);
}

struct blocks {
    uint8_t *bytes;
    uint32_t *sizes;
    uint32_t count;
    uint64_t total;
};

static void close_block(
    struct mob_block_encoder *e, struct blocks *out, struct mob_block_header *header, int64_t now)
{
    if (mob_block_entries(e) > 0) {
        out->sizes[out->count] = mob_block_end(e, out->bytes + out->total);
        out->total += out->sizes[out->count++];
        header->sequence++;
    }
    header->mono_ns = now;
    mob_block_begin(e, header);
}

static void encode_all(const struct run *r, struct mob_block_encoder *e, struct blocks *out)
{
    struct mob_block_header header = {
        .version = MOB_BLOCK_VERSION, .incarnation = 9, .job = r->head.job, .ns = "default"};
    struct mob_spec_head head = r->head;
    out->count = 0;
    out->total = 0;
    close_block(e, out, &header, r->submitted[0]);
    for (uint32_t i = 0; i < TASKS + WINDOW; i++) {
        if (mob_block_entries(e) + 2 > MOB_BLOCK_ENTRIES_MAX)
            close_block(e, out, &header, r->submitted[i < TASKS ? i : TASKS - 1]);
        head.task.index = i;
        if (i < TASKS && mob_block_add_spec(e, &head, r->tails[i], 24, r->submitted[i]) != MOB_OK)
            abort();
        if (i >= WINDOW &&
            mob_block_add_completion(e, &r->completions[i - WINDOW], r->bodies[i - WINDOW]) != MOB_OK)
            abort();
    }
    close_block(e, out, &header, 0);
}

/* The decoded entries, compared when `check`. */
static uint64_t decode_all(
    const struct run *r, struct mob_block_decoder *d, const struct blocks *blocks, bool check)
{
    struct mob_block_header header;
    static struct mob_zone_map zone;
    static struct mob_entry entry;
    uint64_t at = 0, sum = 0;
    uint32_t specs = 0, completions = 0;
    for (uint32_t b = 0; b < blocks->count; b++) {
        if (mob_block_open(d, blocks->bytes + at, blocks->sizes[b], &header, &zone) != MOB_OK)
            abort();
        at += blocks->sizes[b];
        enum mob_status status;
        while ((status = mob_block_next(d, &entry)) == MOB_OK) {
            sum += (uint64_t)entry.type;
            if (!check)
                continue;
            if (entry.type == MOB_ENTRY_SPEC) {
                struct mob_spec_head want = r->head;
                want.task.index = specs;
                MOB_ASSERT(memcmp(&entry.spec.head, &want, sizeof want) == 0);
                MOB_ASSERT(entry.submitted_ns == r->submitted[specs] && entry.spec.tail_bytes == 24);
                MOB_ASSERT(memcmp(entry.spec.tail, r->tails[specs], 24) == 0);
                specs++;
            } else {
                MOB_ASSERT(memcmp(&entry.completion.head, &r->completions[completions],
                               sizeof *r->completions) == 0);
                MOB_ASSERT(memcmp(entry.completion.body, r->bodies[completions], 24) == 0);
                completions++;
            }
        }
        if (status != MOB_CLOSED)
            abort();
    }
    MOB_ASSERT(!check || (specs == TASKS && completions == TASKS));
    return sum;
}

static double peek_all(const struct blocks *blocks)
{
    struct mob_block_header header;
    static struct mob_zone_map zone;
    uint64_t at = 0;
    int64_t start = mob_now();
    for (uint32_t b = 0; b < blocks->count; b++) {
        if (mob_block_peek(blocks->bytes + at, blocks->sizes[b], &header, &zone) != MOB_OK)
            abort();
        at += blocks->sizes[b];
    }
    return (double)(mob_now() - start) / blocks->count;
}

static double copy_all(const struct run *r)
{
    static struct mob_entry ring[256];
    int64_t start = mob_now();
    for (uint32_t i = 0; i < TASKS; i++) {
        struct mob_entry *e = &ring[i % 256];
        e->spec.head = r->head;
        e->completion.head = r->completions[i];
        memcpy(&e->put, r->tails[i], 24);
        __asm__ volatile("" : : "r"(e) : "memory");
    }
    return (double)(mob_now() - start) / TASKS;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_row(bool json, const char *name, double *values, int n, const char *unit, double baseline)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    double value = values[n / 2];
    if (json)
        printf("{\"name\":\"%s\",\"value\":%.2f,\"unit\":\"%s\",\"baseline\":%.2f,\"ratio\":%.2f,\"n\":%d}\n",
            name, value, unit, baseline, baseline > 0 ? value / baseline : 0, n);
    else
        printf("%-24s %10.2f %s\n", name, value, unit);
}

/* Per call, of what every submission passes; the row's number says which. */
enum { CALL_OPEN, CALL_DIGEST, CALL_SIGNATURE, CALL_JSON, CALLS };

static double call_all(const struct run *r, int what)
{
    static const char text[] = "i64 a -> i64", json[] = "123456";
    uint8_t record[sizeof r->head + 24];
    struct mob_signature signature;
    struct mob_json_value value = {0};
    struct mob_spec spec;
    MOB_ASSERT(mob_signature_parse(text, sizeof text - 1, &signature, NULL) == MOB_OK);
    memcpy(record, &r->head, sizeof r->head);
    int64_t start = mob_now();
    for (uint32_t i = 0; i < TASKS; i++) {
        enum mob_status status = MOB_OK;
        struct mob_hash128 digest = {1, 1};
        memcpy(record + sizeof r->head, r->tails[i], 24);
        if (what == CALL_OPEN)
            status = mob_spec_open(record, sizeof record, &spec);
        else if (what == CALL_DIGEST)
            digest = mob_spec_digest(&r->head, r->tails[i], 24);
        else if (what == CALL_SIGNATURE)
            status = mob_signature_check_tail(&signature, r->tails[i], true, NULL);
        else
            status = mob_value_from_json(
                json, sizeof json - 1, &signature, &signature.params[0], 4096, &value, NULL);
        MOB_ASSERT(status == MOB_OK && (digest.lo | digest.hi) != 0);
    }
    mob_json_value_fini(&value);
    return (double)(mob_now() - start) / TASKS;
}

int main(int argc, char **argv)
{
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    struct run r;
    struct blocks blocks = {malloc((size_t)TASKS * 64), calloc(TASKS, 4), 0, 0};
    struct mob_block_encoder *e = mob_block_encoder_create();
    struct mob_block_decoder *d = mob_block_decoder_create();
    double copy[ROUNDS], encode[ROUNDS], decode[ROUNDS], peek[ROUNDS], bytes[1];
    make_run(&r);
    encode_all(&r, e, &blocks);
    decode_all(&r, d, &blocks, true);
    for (int i = 0; i < ROUNDS; i++) {
        copy[i] = copy_all(&r);
        int64_t start = mob_now();
        encode_all(&r, e, &blocks);
        encode[i] = (double)(mob_now() - start) / TASKS;
        start = mob_now();
        decode_all(&r, d, &blocks, false);
        decode[i] = (double)(mob_now() - start) / TASKS;
        peek[i] = peek_all(&blocks);
    }
    bytes[0] = (double)blocks.total / TASKS;
    print_row(json, "wire_copy_pair", copy, ROUNDS, "ns", 0);
    print_row(json, "wire_encode_pair", encode, ROUNDS, "ns", copy[ROUNDS / 2]);
    print_row(json, "wire_decode_pair", decode, ROUNDS, "ns", copy[ROUNDS / 2]);
    print_row(json, "wire_peek_block", peek, ROUNDS, "ns", copy[ROUNDS / 2]);
    print_row(json, "wire_bytes_pair", bytes, 1, "bytes", 0);
    static const char *const names[CALLS] = {
        "wire_spec_open", "wire_spec_digest", "wire_signature_check", "wire_json_i64"};
    for (int what = 0; what < CALLS; what++) {
        double calls[ROUNDS];
        for (int i = 0; i < ROUNDS; i++)
            calls[i] = call_all(&r, what);
        print_row(json, names[what], calls, ROUNDS, "ns", copy[ROUNDS / 2]);
    }
    mob_block_encoder_destroy(e);
    mob_block_decoder_destroy(d);
    return 0;
}
