#include "bench/find_corpus.h"

#include <string.h>

#include "common/base/log.h"

#define DAY_NS (86400ll * 1000000000)
#define MONO_NS DAY_NS /* of each block's header: any time since a boot */

static struct mob_stream stream_of(const struct find_corpus *c, uint64_t job)
{
    struct mob_stream s = {{'f', c->tag}};
    uint64_t mixed = (job + 1) * 0x9e3779b97f4a7c15ull;
    memcpy(s.b + 4, &mixed, 8);
    return s;
}

struct mob_task_id find_corpus_task(const struct find_corpus *c, uint64_t task)
{
    uint64_t per_job = c->tasks / c->jobs;
    return (struct mob_task_id){stream_of(c, task / per_job), (uint32_t)(task % per_job)};
}

uint32_t find_corpus_function(uint64_t task)
{
    uint64_t mixed = task * 0xbf58476d1ce4e5b9ull;
    return (uint32_t)((mixed >> 32) % FIND_FUNCTIONS);
}

bool find_corpus_fails(const struct find_corpus *c, uint64_t task)
{
    uint64_t mixed = (task + 7) * 0x94d049bb133111ebull;
    return (mixed ^ mixed >> 31) % c->one_in == 0;
}

int64_t find_corpus_finished_ns(const struct find_corpus *c, uint64_t task)
{
    return c->first_wall_ns + (int64_t)((double)task / (double)c->tasks * FIND_HOURS / 24 * (double)DAY_NS);
}

static void add_task(
    const struct find_corpus *c, struct mob_block_encoder *encoder, uint64_t task, int64_t finished_ns)
{
    _Alignas(8) uint8_t tail[256], body[64];
    int64_t argument = (int64_t)task;
    struct mob_tail_builder builder;
    mob_tail_begin(&builder, tail, sizeof tail);
    mob_tail_add_value(&builder, MOB_TYPE_I64, &argument, sizeof argument);
    struct mob_spec_head head = {.version = MOB_SPEC_VERSION,
        .kind = MOB_KIND_TASK,
        .runtime = MOB_RUNTIME_C,
        .num_returns = 1,
        .task = find_corpus_task(c, task),
        .function = c->functions[find_corpus_function(task)],
        .max_retries = 3,
        .cpu = 10000,
        .attempt = 1};
    head.job.root = head.task.stream;
    struct mob_return_view ret = {
        .type = MOB_TYPE_I64, .size = sizeof argument, .payload = (const uint8_t *)&argument};
    struct mob_completion_head end = {.version = MOB_COMPLETION_VERSION,
        .flags = MOB_COMPLETION_FINAL,
        .status = find_corpus_fails(c, task) ? MOB_TASK_FAILED : MOB_OK,
        .return_count = 1,
        .task = head.task,
        .attempt = 1,
        .worker = 1000 + (uint32_t)(task % 2),
        .submitted_ns = finished_ns - 3000,
        .ready_ns = finished_ns - 2500,
        .dispatched_ns = finished_ns - 2000,
        .started_ns = finished_ns - 1000,
        .finished_ns = finished_ns,
        .body_bytes = mob_return_encode(body, 0, sizeof body, &ret)};
    MOB_ASSERT(
        mob_block_add_spec(encoder, &head, tail, mob_tail_end(&builder), finished_ns - 3000) == MOB_OK &&
        mob_block_add_completion(encoder, &end, body) == MOB_OK);
}

uint32_t find_corpus_block(const struct find_corpus *c, struct mob_block_encoder *encoder,
    const struct mob_block_header *header, uint64_t from, uint8_t *out)
{
    struct mob_block_header whole = *header;
    whole.version = MOB_BLOCK_VERSION;
    whole.job.root = find_corpus_task(c, from).stream;
    memcpy(whole.ns, "default", sizeof "default");
    whole.wall_ns = find_corpus_finished_ns(c, from);
    whole.mono_ns = MONO_NS;
    mob_block_begin(encoder, &whole);
    for (uint64_t task = from; task < from + FIND_BLOCK_TASKS; task++)
        add_task(c, encoder, task, find_corpus_finished_ns(c, task) - whole.wall_ns + MONO_NS);
    uint32_t length = mob_block_end(encoder, out);
    MOB_ASSERT(length <= FIND_BLOCK_BYTES_MAX);
    return length;
}

uint64_t find_corpus_failure(const struct find_corpus *c, uint64_t i)
{
    uint64_t task = (i + 1) * 0x9e3779b97f4a7c15ull % c->tasks;
    for (uint64_t n = 0; n < c->tasks && !find_corpus_fails(c, task); n++)
        task = (task + 1) % c->tasks;
    return task;
}

int find_corpus_failures(
    const struct find_corpus *c, uint32_t function, uint64_t from, uint64_t to, uint64_t out[FIND_PAGE])
{
    int n = 0;
    for (uint64_t task = to < c->tasks ? to : c->tasks; task-- > from && n < FIND_PAGE;)
        if (find_corpus_fails(c, task) && find_corpus_function(task) == function)
            out[n++] = task;
    return n;
}
