/* Row gcs_find_http: what gcs_find measures below, through a gateway. The tasks go the way of any lineage: a
 * log of blocks into the control store, its flusher moves them to the cluster's PostgreSQL, and when the
 * members hold none of them any more the gateway is asked. Every answer is compared with what was logged. */
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "bench/find_corpus.h"
#include "bench/flush_rows.h"
#include "cli/state_dir.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/client/client_sync.h"
#include "tests/support/xorshift.h"

#define DAY_NS (86400 * MOB_SEC)
#define WINDOW 4096u /* blocks that are not durable yet: a few seconds of them */
#define LOGGED_NS (1800 * MOB_SEC)
#define LOOKS_MAX 1000
#define PAGES_MAX 200
#define WALK_PAGE 10 /* rows of a page, where a list is read to its end */
#define EDGE_US 1000 /* an hour begins so long before the end of its first task */

struct slot {
    struct mob_gcs_block block;
    struct slot *next;
    uint8_t bytes[FIND_BLOCK_BYTES_MAX];
};

struct store {
    struct bench *b; /* the cluster */
    const char *row;
    struct find_corpus corpus;
    struct mob_cluster_id cluster;
    struct mob_gcs *gcs;
    struct mob_gcs_log *log;
    struct mob_block_encoder *encoder;
    struct slot *free;
    uint64_t incarnation, appended, released;
    bool sealed;
};

/* ---- logging them ---- */

static void on_acked(void *arg, uint64_t count)
{
    (void)arg;
    (void)count;
}

static void on_released(void *arg, struct mob_gcs_block *block)
{
    struct store *s = arg;
    struct slot *slot = (struct slot *)block;
    slot->next = s->free;
    s->free = slot;
    s->released++;
}

static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)why;
    (void)cut;
    ((struct store *)arg)->sealed = true;
}

static void append(struct store *s, uint64_t task)
{
    static uint8_t whole[MOB_BLOCK_BYTES_MAX];
    struct slot *slot = s->free;
    if (slot)
        s->free = slot->next;
    else
        slot = malloc(sizeof *slot);
    MOB_ASSERT(slot != NULL);
    const struct mob_block_header header = {
        .cluster = s->cluster, .incarnation = s->incarnation, .sequence = s->appended};
    uint32_t length = find_corpus_block(&s->corpus, s->encoder, &header, task, whole);
    memcpy(slot->bytes, whole, length);
    slot->block = (struct mob_gcs_block){.bytes = slot->bytes, .length = length};
    MOB_ASSERT(mob_gcs_log_append(s->log, &slot->block) == MOB_OK); /* far from keep_bytes_max */
    s->appended++;
}

static void wait_store(struct store *s, int milliseconds)
{
    struct pollfd p = {.fd = mob_gcs_fd(s->gcs), .events = POLLIN};
    poll(&p, 1, milliseconds);
    mob_gcs_step(s->gcs, mob_now());
}

static bool log_all(struct store *s)
{
    int64_t deadline = mob_now() + LOGGED_NS;
    for (uint64_t task = 0; !s->sealed && mob_now() < deadline;) {
        for (; task < s->corpus.tasks && s->appended - s->released < WINDOW; task += FIND_BLOCK_TASKS)
            append(s, task);
        if (task >= s->corpus.tasks && s->released == s->appended)
            return true;
        wait_store(s, 100);
    }
    return false;
}

static bool read_stats(struct store *s, struct mob_gcs_stats *out)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    bool ok = mob_gcs_stats(s->gcs, mob_gcs_sync_done, &sync) == MOB_OK &&
        mob_gcs_sync_wait(s->gcs, &sync, mob_now() + 30 * MOB_SEC, &result) == MOB_OK;
    if (ok)
        *out = *mob_gcs_result_answer(result)->stats;
    mob_gcs_result_destroy(result);
    return ok;
}

/* Until the member has no block left: the flusher of such a cluster leaves nothing there. */
static bool wait_moved(struct store *s)
{
    int64_t deadline = mob_now() + LOGGED_NS;
    struct mob_gcs_stats stats = {.blocks = 1};
    while (stats.blocks > 0 && mob_now() < deadline && read_stats(s, &stats))
        wait_store(s, 100);
    return stats.blocks == 0;
}

/* ---- asking for them ---- */

static json_t *get(struct bench *b, const char *path, double *us_out)
{
    int64_t begin = bench_now();
    char *text = bench_http(b, "GET", path, NULL);
    *us_out = (double)(bench_now() - begin) / 1e3;
    json_t *out = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return out;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_task(const struct store *s, const json_t *row, uint64_t task)
{
    char id[MOB_ID_TEXT_MAX], function[32];
    mob_task_id_format(find_corpus_task(&s->corpus, task), id);
    snprintf(function, sizeof function, "hundred.f%u", find_corpus_function(task));
    return strcmp(text_at(row, "id"), id) == 0 && strcmp(text_at(row, "function"), function) == 0 &&
        strcmp(text_at(row, "state"), find_corpus_fails(&s->corpus, task) ? "failed" : "finished") == 0 &&
        json_integer_value(json_object_get(row, "finished_us")) ==
        find_corpus_finished_ns(&s->corpus, task) / 1000;
}

/* Random tasks by id, each with its argument. */
static bool find_tasks(struct store *s, double *us, int count)
{
    uint64_t random = XORSHIFT_SEED;
    for (int i = 0; i < count; i++) {
        char path[128], id[MOB_ID_TEXT_MAX];
        uint64_t task = xorshift(&random) % s->corpus.tasks;
        snprintf(path, sizeof path, "/api/v1/tasks/%s",
            mob_task_id_format(find_corpus_task(&s->corpus, task), id));
        json_t *row = get(s->b, path, &us[i]);
        const json_t *argument = json_array_get(json_object_get(row, "arguments"), 0);
        bool ok = row && is_task(s, row, task) && json_integer_value(argument) == (json_int_t)task;
        json_decref(row);
        if (!ok) {
            fprintf(stderr, "mobula-bench: %s is not task %llu\n", path, (unsigned long long)task);
            return false;
        }
    }
    return true;
}

/* One page under `path`; the rows are those tasks, in this order. `cursor_out` (may be NULL): the next
 * page's, or NULL; free it. */
static bool check_page(
    struct store *s, const char *path, const uint64_t *tasks, int count, double *us, char **cursor_out)
{
    json_t *page = get(s->b, path, us);
    const json_t *items = json_object_get(page, "items");
    bool ok = json_is_array(items) && json_array_size(items) == (size_t)count;
    for (int k = 0; ok && k < count; k++)
        ok = is_task(s, json_array_get(items, (size_t)k), tasks[k]);
    const char *cursor = json_string_value(json_object_get(page, "next_cursor"));
    if (cursor_out)
        *cursor_out = cursor ? strdup(cursor) : NULL;
    else
        ok = ok && !cursor; /* the page was all */
    json_decref(page);
    if (!ok)
        fprintf(stderr, "mobula-bench: %s does not give the %d tasks that failed\n", path, count);
    return ok;
}

/* The first page of the failed tasks of a function in an hour that has some. */
static bool find_failures(struct store *s, double *us, int count, double *rows_out)
{
    const struct find_corpus *c = &s->corpus;
    uint64_t per_hour = c->tasks / FIND_HOURS, rows = 0;
    MOB_ASSERT(per_hour > 0);
    for (int i = 0; i < count; i++) {
        uint64_t failure = find_corpus_failure(c, (uint64_t)i), expected[FIND_PAGE];
        uint64_t from = failure / per_hour * per_hour;
        uint32_t function = find_corpus_function(failure);
        char path[400];
        snprintf(path, sizeof path,
            "/api/v1/tasks?filter=state:failed%%20AND%%20function:hundred.f%u%%20AND%%20finished_us:%%3E=%lld"
            "%%20AND%%20finished_us:%%3C%lld&limit=%d",
            function, (long long)(find_corpus_finished_ns(c, from) / 1000 - EDGE_US),
            (long long)(find_corpus_finished_ns(c, from + per_hour) / 1000 - EDGE_US), FIND_PAGE);
        int n = find_corpus_failures(c, function, from, from + per_hour, expected);
        MOB_ASSERT(n > 0 && n < FIND_PAGE); /* so there is no second page */
        if (!check_page(s, path, expected, n, &us[i], NULL))
            return false;
        rows += (uint64_t)n;
    }
    *rows_out = (double)rows;
    return true;
}

/* All of a function's failures, as far as FIND_PAGE goes, by cursors. */
static bool walk_failures(struct store *s)
{
    uint64_t expected[FIND_PAGE];
    uint32_t function = find_corpus_function(find_corpus_failure(&s->corpus, 0));
    int n = find_corpus_failures(&s->corpus, function, 0, s->corpus.tasks, expected), at = 0;
    char *cursor = NULL;
    bool ok = true;
    do {
        char path[300];
        double us;
        int rows = n - at < WALK_PAGE ? n - at : WALK_PAGE;
        snprintf(path, sizeof path,
            "/api/v1/tasks?filter=state:failed%%20AND%%20function:hundred.f%u&limit=%d%s%s", function,
            WALK_PAGE, cursor ? "&cursor=" : "", cursor ? cursor : "");
        free(cursor);
        ok = check_page(s, path, expected + at, rows, &us, &cursor);
        at += rows;
    } while (ok && cursor && at < n);
    free(cursor);
    return ok && at == n;
}

/* ---- the cluster ---- */

static bool learn_functions(struct store *s)
{
    double us;
    size_t i;
    json_t *row, *answer = get(s->b, "/api/v1/functions?limit=1000", &us);
    uint32_t known = 0;
    json_array_foreach(json_object_get(answer, "items"), i, row)
    {
        unsigned n = FIND_FUNCTIONS;
        if (sscanf(text_at(row, "name"), "hundred.f%2u", &n) == 1 && n < FIND_FUNCTIONS &&
            mob_function_id_parse(text_at(row, "id"), &s->corpus.functions[n]) == MOB_OK)
            known++;
    }
    json_decref(answer);
    return known == FIND_FUNCTIONS;
}

static bool open_store(struct store *s)
{
    char addresses[STATE_ADDRESSES_MAX], module[600];
    uint8_t secret[STATE_SECRET_BYTES];
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, s};
    const struct mob_gcs_options options = {
        .socket_path = state_gcs_addresses(s->b->directory, addresses), .secret = secret};
    struct mob_gcs_options mine = options;
    snprintf(module, sizeof module, "%s/hundred.so", s->b->options.modules);
    s->encoder = mob_block_encoder_create();
    if (!s->encoder || !bench_upload(s->b, module) || !learn_functions(s) ||
        state_dir_cluster(s->b->directory, &s->cluster) != MOB_OK ||
        state_dir_secret(s->b->directory, secret) != MOB_OK)
        return false;
    mine.cluster = s->cluster;
    return mob_gcs_create(&mine, &s->gcs) == MOB_OK &&
        mob_gcs_node_register_wait(s->gcs, "corpus", mob_now() + 30 * MOB_SEC, &s->incarnation) == MOB_OK &&
        mob_gcs_log_open(s->gcs, s->incarnation, 0, &events, &s->log) == MOB_OK;
}

static void close_store(struct store *s)
{
    mob_gcs_destroy(s->gcs);
    mob_block_encoder_destroy(s->encoder);
    for (struct slot *slot = s->free, *next; slot; slot = next) {
        next = slot->next;
        free(slot);
    }
}

static void tell(struct store *s, struct bench *to, const char *page_row, double *us, int looks,
    double *page_us, int pages, double rows)
{
    char extra[160];
    double page_p50 = bench_percentile(page_us, pages, 50), p50 = bench_percentile(us, looks, 50);
    double live_us[101];
    for (int i = 0; i < 101; i++)
        json_decref(get(s->b, "/api/v1/nodes", &live_us[i]));
    double smallest = bench_percentile(live_us, 101, 50);
    snprintf(extra, sizeof extra, "\"chain\":%d,\"tasks\":%llu,\"rows\":%.0f", s->b->replicas,
        (unsigned long long)s->corpus.tasks, rows);
    if (strcmp(page_row, "gcs_find_http_failed") == 0)
        bench_row(to,
            &(struct bench_row){.name = "gcs_find_http",
                .unit = "us",
                .value = p50,
                .baseline = smallest,
                .against = "GET /nodes, from the node's memory",
                .n = looks,
                .p50_us = p50,
                .p99_us = bench_percentile(us, looks, 99),
                .extra = extra});
    bench_row(to,
        &(struct bench_row){.name = page_row,
            .unit = "us",
            .value = page_p50,
            .baseline = smallest,
            .against = "GET /nodes, from the node's memory",
            .n = pages,
            .p50_us = page_p50,
            .p99_us = bench_percentile(page_us, pages, 99),
            .extra = extra});
}

static void measure(struct store *s, struct bench *to, const char *page_row)
{
    static double us[LOOKS_MAX], page_us[PAGES_MAX];
    int looks = to->options.quick ? LOOKS_MAX / 5 : LOOKS_MAX;
    int pages = to->options.quick ? PAGES_MAX / 5 : PAGES_MAX;
    double rows = 0;
    struct mob_gcs_stats before, after;
    if (!log_all(s) || !wait_moved(s)) {
        bench_miss(to, page_row, s->sealed ? "the log was sealed" : "not all tasks came to PostgreSQL");
        return;
    }
    fprintf(stderr, "mobula-bench: %llu tasks are in PostgreSQL\n", (unsigned long long)s->corpus.tasks);
    bool found = read_stats(s, &before) && find_tasks(s, us, looks) && walk_failures(s) &&
        find_failures(s, page_us, pages, &rows) && read_stats(s, &after);
    if (!found)
        bench_miss(to, page_row, "a task was not found, or a page is not what was logged");
    else if (after.cold_reads - before.cold_reads < (uint64_t)(looks + pages))
        bench_miss(to, page_row, "not every answer came from PostgreSQL");
    else
        tell(s, to, page_row, us, looks, page_us, pages, rows);
}

static void one_run(struct bench *b, const char *page_row, uint64_t one_in)
{
    struct bench fresh = {.options = b->options, .postgres = true, .replicas = 2};
    struct store s = {.b = &fresh};
    s.corpus = (struct find_corpus){.tag = 'h',
        .tasks = b->options.quick ? 100000 : 10000000,
        .jobs = b->options.quick ? 100 : 10000,
        .one_in = one_in,
        .first_wall_ns = mob_wall_now() - 30 * DAY_NS};
    setenv("MOBULA_RETENTION_S", "960h", 1); /* longer than the tasks are old */
    setenv("MOBULA_FLUSH_HOT_PERCENT", "0", 1);
    setenv("MOBULA_FLUSH_DELAY_MS", "500", 1);
    bool up = bench_cluster_start(&fresh);
    unsetenv("MOBULA_RETENTION_S");
    unsetenv("MOBULA_FLUSH_HOT_PERCENT");
    unsetenv("MOBULA_FLUSH_DELAY_MS");
    if (up && open_store(&s))
        measure(&s, b, page_row);
    else
        bench_miss(b, page_row, "no cluster");
    close_store(&s);
    bench_cluster_stop(&fresh);
}

void bench_find_http(struct bench *b)
{
    one_run(b, "gcs_find_http_failed", 1000);
    one_run(b, "gcs_find_http_rare", b->options.quick ? 20000 : 1000000);
}
