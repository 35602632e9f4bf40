/* Reading back over HTTP what a run has made: a task counts only with its own id, spec, object and
 * completion. */
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench/harness.h"
#include "cli/http_client.h"
#include "common/base/id.h"

#define WHY_MAX 1024
#define QUICK_SAMPLES 50
#define ANSWER_TIMEOUT_NS (30ll * 1000000000)

static char *exchange(struct bench *b, struct http_request *request)
{
    static struct http_response response;
    char *answer = NULL;
    request->address = b->address;
    request->token = b->token;
    request->timeout_ns = ANSWER_TIMEOUT_NS;
    if (http_exchange(request, &response) == MOB_OK && response.status / 100 == 2 && response.body)
        answer = strdup(response.body);
    else if (response.body)
        fprintf(stderr, "mobula-bench: %s %s: %d %.200s\n", request->method, request->path, response.status,
            response.body);
    http_response_fini(&response);
    return answer;
}

char *bench_http(struct bench *b, const char *method, const char *path, const char *body)
{
    struct http_request request = {.method = method,
        .path = path,
        .content_type = body ? "application/json" : NULL,
        .body = body,
        .body_length = body ? strlen(body) : 0};
    return exchange(b, &request);
}

bool bench_upload(struct bench *b, const char *file)
{
    enum { MODULE_BYTES_MAX = 4 << 20 };
    FILE *f = fopen(file, "rb");
    char *bytes = f ? malloc(MODULE_BYTES_MAX) : NULL;
    size_t n = bytes ? fread(bytes, 1, MODULE_BYTES_MAX, f) : 0;
    struct http_request request = {.method = "POST",
        .path = "/api/v1/functions",
        .content_type = "application/octet-stream",
        .body = bytes,
        .body_length = n};
    char *answer = n > 0 ? exchange(b, &request) : NULL;
    bool ok = answer != NULL;
    if (f)
        fclose(f);
    free(bytes);
    free(answer);
    return ok;
}

static json_t *get_json(struct bench *b, const char *path)
{
    char *text = bench_http(b, "GET", path, NULL);
    json_t *out = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return out;
}

/* ---- the sample ---- */

void bench_samples_init(struct bench_samples *s, const char *function)
{
    memset(s, 0, sizeof *s);
    s->function = function;
    s->random = (uint64_t)bench_now();
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

static struct bench_sample *place(struct bench_samples *s)
{
    s->seen++;
    if (s->count < BENCH_SAMPLES)
        return &s->items[s->count++];
    uint64_t at = next_random(&s->random) * s->seen >> 31; /* of 31 random bits, without a division */
    if (at >= BENCH_SAMPLES)
        return NULL;
    s->items[at] = (struct bench_sample){0};
    return &s->items[at];
}

void bench_sample_offer(struct bench_samples *s, struct mob_future *future, int64_t argument, int64_t result)
{
    struct bench_sample *item = place(s);
    if (!item)
        return;
    mob_future_task_id(future, item->task);
    mob_future_id(future, item->object);
    item->argument = argument;
    item->result = result;
}

void bench_sample_offer_needing(
    struct bench_samples *s, struct mob_future *future, struct mob_future *needed, int64_t result)
{
    struct bench_sample *item = place(s);
    if (!item)
        return;
    mob_future_task_id(future, item->task);
    mob_future_id(future, item->object);
    mob_future_id(needed, item->needs);
    item->result = result;
}

void bench_sample_offer_ids(
    struct bench_samples *s, const char *task, const char *object, int64_t argument, int64_t result)
{
    struct bench_sample *item = place(s);
    if (!item)
        return;
    snprintf(item->task, sizeof item->task, "%s", task);
    snprintf(item->object, sizeof item->object, "%s", object);
    item->argument = argument;
    item->result = result;
}

/* ---- one task ---- */

struct finding {
    char why[WHY_MAX];
};

__attribute__((format(printf, 3, 4))) static bool wrong(
    struct finding *f, const json_t *what, const char *format, ...)
{
    char *text = what ? json_dumps(what, JSON_COMPACT) : NULL;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(f->why, sizeof f->why, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof f->why)
        snprintf(f->why + n, sizeof f->why - (size_t)n, ": %.900s", text ? text : "no answer");
    free(text);
    return false;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_number(const json_t *value, int64_t expected)
{
    return json_is_integer(value) && json_integer_value(value) == expected;
}

static bool times_in_order(const json_t *task)
{
    static const char *const names[] = {
        "submitted_us", "inputs_ready_us", "dispatched_us", "started_us", "finished_us"};
    json_int_t before = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *at = json_object_get(task, names[i]);
        if (!json_is_integer(at) || json_integer_value(at) < before)
            return false;
        before = json_integer_value(at);
    }
    return true;
}

static void note_worker(struct bench_samples *s, const json_t *task)
{
    long long id = json_integer_value(json_object_get(task, "worker"));
    for (int i = 0; i < s->workers; i++)
        if (s->worker_ids[i] == id)
            return;
    if (s->workers < 64)
        s->worker_ids[s->workers++] = id;
}

static bool argument_fits(
    const struct bench_samples *s, const struct bench_sample *sample, const json_t *task)
{
    const json_t *arguments = json_object_get(task, "arguments");
    if (s->many_arguments) /* what is in argument pages is not shown, and the answer says so */
        return json_array_size(arguments) == (size_t)sample->argument ||
            (json_array_size(arguments) > 0 && json_is_true(json_object_get(task, "arguments_truncated")));
    const json_t *first = json_array_get(arguments, 0);
    const char *object = sample->needs[0] ? sample->needs : s->argument_object;
    return object ? strcmp(text_at(first, "$ref"), object) == 0 : is_number(first, sample->argument);
}

/* State, function, times and worker of any finished task. */
static bool check_record(struct bench_samples *s, const char *id, const json_t *task, struct finding *f)
{
    if (strcmp(text_at(task, "id"), id) != 0 || strcmp(text_at(task, "state"), "finished") != 0)
        return wrong(f, task, "task %s is not finished", id);
    if (strcmp(text_at(task, "function"), s->function) != 0)
        return wrong(f, task, "task %s is not of %s", id, s->function);
    if (!times_in_order(task))
        return wrong(f, task, "times of %s are not in order", id);
    if (!json_is_integer(json_object_get(task, "worker")))
        return wrong(f, task, "task %s names no worker", id);
    note_worker(s, task);
    return true;
}

static bool check_task(
    struct bench *b, struct bench_samples *s, const struct bench_sample *sample, struct finding *f)
{
    char path[128];
    snprintf(path, sizeof path, "/api/v1/tasks/%s", sample->task);
    json_t *task = get_json(b, path);
    bool ok = check_record(s, sample->task, task, f);
    if (ok && !argument_fits(s, sample, task))
        ok = wrong(f, task, "argument of %s is not %lld", sample->task, (long long)sample->argument);
    bool found = false;
    size_t i;
    json_t *each;
    json_array_foreach(json_object_get(task, "returns"), i, each) found |=
        strcmp(text_at(each, "id"), sample->object) == 0 &&
        is_number(json_object_get(each, "value"), sample->result);
    if (ok && !found)
        ok = wrong(f, task, "task %s does not return %lld in %s", sample->task, (long long)sample->result,
            sample->object);
    json_decref(task);
    return ok;
}

static bool check_object(struct bench *b, const struct bench_sample *sample, struct finding *f)
{
    char path[128];
    snprintf(path, sizeof path, "/api/v1/objects/%s", sample->object);
    json_t *object = get_json(b, path);
    bool ok = strcmp(text_at(object, "state"), "ready") == 0 &&
        strcmp(text_at(object, "task"), sample->task) == 0 &&
        is_number(json_object_get(object, "value"), sample->result);
    if (!ok)
        wrong(f, object, "object %s is not %lld of %s", sample->object, (long long)sample->result,
            sample->task);
    json_decref(object);
    return ok;
}

static bool check_lineage(
    struct bench *b, const struct bench_samples *s, const struct bench_sample *sample, struct finding *f)
{
    char path[160];
    snprintf(path, sizeof path, "/api/v1/objects/%s/lineage?depth=1&limit=2", sample->object);
    json_t *lineage = get_json(b, path);
    const json_t *first = json_array_get(json_object_get(lineage, "nodes"), 0);
    bool ok = strcmp(text_at(first, "task"), sample->task) == 0 &&
        strcmp(text_at(first, "function"), s->function) == 0 &&
        strcmp(text_at(first, "state"), "finished") == 0;
    if (!ok)
        wrong(f, lineage, "lineage of %s does not begin with %s", sample->object, sample->task);
    json_decref(lineage);
    return ok;
}

/* The reservoir's places are not alike: one of the first tasks stays in its own or leaves. */
static const struct bench_sample *draw(struct bench_samples *s, int i)
{
    int other = i + (int)(next_random(&s->random) % (uint64_t)(s->count - i));
    struct bench_sample drawn = s->items[other];
    s->items[other] = s->items[i];
    s->items[i] = drawn;
    return &s->items[i];
}

bool bench_samples_check(struct bench *b, const char *row, struct bench_samples *s, int workers_min)
{
    struct finding f;
    int limit = b->options.quick && s->count > QUICK_SAMPLES ? QUICK_SAMPLES : s->count;
    for (int i = 0; i < limit; i++) {
        const struct bench_sample *sample = draw(s, i);
        if (!check_task(b, s, sample, &f) || !check_object(b, sample, &f) ||
            !check_lineage(b, s, sample, &f)) {
            bench_miss(b, row, f.why);
            return false;
        }
    }
    if (b->options.quick && workers_min > 1) /* a short run may be over before a second one takes part */
        workers_min = 1;
    if (limit == 0 || s->workers < workers_min) {
        snprintf(f.why, sizeof f.why, "%d tasks were read back, of %d worker processes; expected at least %d",
            limit, s->workers, workers_min);
        bench_miss(b, row, f.why);
        return false;
    }
    return true;
}

void bench_note_worker(struct bench *b, struct bench_samples *s, const char *id)
{
    char path[128];
    snprintf(path, sizeof path, "/api/v1/tasks/%s", id);
    json_t *task = get_json(b, path);
    if (json_is_integer(json_object_get(task, "worker")))
        note_worker(s, task);
    json_decref(task);
}

/* ---- tasks of a list ---- */

static bool result_fits(enum bench_result expected, const struct bench_sample *sample)
{
    switch (expected) {
    case BENCH_RESULT_ECHO:
        return sample->argument == sample->result;
    case BENCH_RESULT_LEAVES:
        return sample->result == 1ll << sample->argument;
    }
    return false;
}

static bool check_listed(
    struct bench *b, struct bench_samples *s, const char *id, enum bench_result expected, struct finding *f)
{
    char path[128];
    snprintf(path, sizeof path, "/api/v1/tasks/%s", id);
    json_t *task = get_json(b, path);
    const json_t *returned = json_array_get(json_object_get(task, "returns"), 0);
    const json_t *argument = json_array_get(json_object_get(task, "arguments"), 0);
    bool ok = check_record(s, id, task, f);
    struct bench_sample sample = {.argument = json_integer_value(argument),
        .result = json_integer_value(json_object_get(returned, "value"))};
    snprintf(sample.task, sizeof sample.task, "%s", id);
    snprintf(sample.object, sizeof sample.object, "%s", text_at(returned, "id"));
    if (ok && (!json_is_integer(argument) || !json_is_integer(json_object_get(returned, "value"))))
        ok = wrong(f, task, "task %s has no argument or no result", id);
    if (ok && !result_fits(expected, &sample))
        ok = wrong(f, task, "result of %s does not fit its argument", id);
    json_decref(task);
    return ok && check_object(b, &sample, f) && check_lineage(b, s, &sample, f);
}

/* Offers every listed task of the sample's function; false when a page does not come. */
static bool offer_listed(struct bench *b, const char *filter, struct bench_samples *s)
{
    char path[512], cursor[256] = "";
    do {
        snprintf(path, sizeof path, "/api/v1/tasks?limit=200&filter=%s%s%s", filter,
            cursor[0] ? "&cursor=" : "", cursor);
        json_t *list = get_json(b, path), *item;
        size_t i;
        if (!list)
            return false;
        json_array_foreach(json_object_get(list, "items"), i, item)
        {
            if (strcmp(text_at(item, "function"), s->function) == 0)
                bench_sample_offer_ids(s, text_at(item, "id"), "", 0, 0);
        }
        snprintf(cursor, sizeof cursor, "%s", text_at(list, "next_cursor"));
        json_decref(list);
    } while (cursor[0]);
    return true;
}

bool bench_list_check(struct bench *b, const char *row, const char *filter, struct bench_samples *s,
    uint64_t listed, enum bench_result expected)
{
    struct finding f = {"the list does not come"};
    bool ok = offer_listed(b, filter, s);
    if (ok && s->seen != listed) {
        snprintf(f.why, sizeof f.why, "%llu tasks of %s were listed, expected %llu",
            (unsigned long long)s->seen, filter, (unsigned long long)listed);
        ok = false;
    }
    int wanted = b->options.quick && s->count > QUICK_SAMPLES ? QUICK_SAMPLES : s->count;
    for (int i = 0; ok && i < wanted; i++)
        ok = check_listed(b, s, draw(s, i)->task, expected, &f);
    if (!ok)
        bench_miss(b, row, f.why);
    return ok;
}

/* Of its first attempt. */
static struct mob_task_id child_of(struct mob_task_id parent, uint32_t index)
{
    return (struct mob_task_id){.stream = mob_stream_of_children(parent, 0, 0), .index = index};
}

/* The others' ids differ in the index. */
static bool first_child(const char *parent, struct mob_task_id *out, struct finding *f)
{
    struct mob_task_id id;
    if (mob_task_id_parse(parent, &id) != MOB_OK)
        return wrong(f, NULL, "%s is no task's id", parent);
    *out = child_of(id, 0);
    return true;
}

bool bench_children_check(struct bench *b, const char *row, const char *parent, struct bench_samples *s,
    int64_t children, int wanted, enum bench_result expected)
{
    struct finding f;
    struct mob_task_id id;
    bool ok = first_child(parent, &id, &f);
    if (b->options.quick && wanted > QUICK_SAMPLES)
        wanted = QUICK_SAMPLES;
    for (int i = 0; ok && i < wanted; i++) {
        char text[MOB_TEXT_ID_MAX];
        id.index = (uint32_t)(next_random(&s->random) % (uint64_t)children);
        ok = check_listed(b, s, mob_task_id_format(id, text), expected, &f);
    }
    if (!ok)
        bench_miss(b, row, f.why);
    return ok;
}

bool bench_children_compare(struct bench *b, const char *row, const char *parent, struct bench_samples *s,
    int n, const int64_t *indices, int64_t argument, const int64_t *results)
{
    struct finding f;
    struct mob_task_id id;
    bool ok = first_child(parent, &id, &f);
    for (int i = 0; ok && i < n; i++) {
        struct bench_sample sample = {.argument = argument, .result = results[i]};
        id.index = (uint32_t)indices[i];
        mob_task_id_format(id, sample.task);
        mob_object_id_format(mob_object_of(id, 0), sample.object);
        ok =
            check_task(b, s, &sample, &f) && check_object(b, &sample, &f) && check_lineage(b, s, &sample, &f);
    }
    if (!ok)
        bench_miss(b, row, f.why);
    return ok;
}

/* ---- a tree ---- */

/* A noop.tree task, or the sum whose future it returned. */
struct tree_task {
    struct mob_task_id tree; /* of the sum: whose child it is */
    bool is_sum;
    int depth;
};

enum { TREE_SUM = 2 }; /* the children of an inner task: left, right, sum */

/* Of the 3 x 2^depth - 2 tasks below and with `root`: first the leaves, then each inner one and its sum. */
static struct tree_task tree_task_at(struct mob_task_id root, int depth, uint64_t number)
{
    const uint64_t leaves = 1ull << depth;
    struct tree_task t = {.tree = root, .depth = depth};
    uint64_t place = leaves + number; /* in a heap: 1 is the root, behind n come 2n and 2n + 1 */
    if (number >= leaves) {
        place = (number - leaves) / 2 + 1;
        t.is_sum = (number - leaves) % 2 == 1;
    }
    for (int level = 62 - __builtin_clzll(place); level >= 0; level--, t.depth--)
        t.tree = child_of(t.tree, (uint32_t)(place >> level & 1));
    return t;
}

static bool is_result_of(const char *object, struct mob_task_id task)
{
    char expected[MOB_TEXT_ID_MAX];
    return strcmp(object, mob_object_id_format(mob_object_of(task, 0), expected)) == 0;
}

static bool tree_arguments_fit(const struct tree_task *t, const json_t *task)
{
    const json_t *arguments = json_object_get(task, "arguments");
    if (!t->is_sum)
        return is_number(json_array_get(arguments, 0), t->depth);
    for (uint32_t i = 0; i < 2; i++)
        if (!is_result_of(text_at(json_array_get(arguments, i), "$ref"), child_of(t->tree, i)))
            return false;
    return true;
}

/* An inner task's result is what its sum's is. */
static bool tree_result_fits(const struct tree_task *t, const struct bench_sample *sample, const json_t *task)
{
    const json_t *returned = json_array_get(json_object_get(task, "returns"), 0);
    if (strcmp(text_at(returned, "id"), sample->object) != 0)
        return false;
    if (!t->is_sum && t->depth > 0)
        return is_result_of(text_at(returned, "becomes"), child_of(t->tree, TREE_SUM));
    return is_number(json_object_get(returned, "value"), sample->result);
}

static bool check_tree_task(
    struct bench *b, struct bench_samples *s, const struct tree_task *t, struct finding *f)
{
    const struct mob_task_id id = t->is_sum ? child_of(t->tree, TREE_SUM) : t->tree;
    struct bench_sample sample = {.result = 1ll << t->depth};
    char path[128];
    mob_task_id_format(id, sample.task);
    mob_object_id_format(mob_object_of(id, 0), sample.object);
    s->function = t->is_sum ? "noop.sum" : "noop.tree";
    snprintf(path, sizeof path, "/api/v1/tasks/%s", sample.task);
    json_t *task = get_json(b, path);
    bool ok = check_record(s, sample.task, task, f);
    if (ok && !tree_arguments_fit(t, task))
        ok = wrong(f, task, "arguments of %s are not those of its place", sample.task);
    if (ok && !tree_result_fits(t, &sample, task))
        ok = wrong(f, task, "result of %s is not that of its place", sample.task);
    json_decref(task);
    return ok && check_object(b, &sample, f) && check_lineage(b, s, &sample, f);
}

bool bench_tree_check(struct bench *b, const char *row, const char *root, int depth, int wanted)
{
    static struct bench_samples s;
    struct finding f;
    struct mob_task_id id;
    bench_samples_init(&s, "");
    if (b->options.quick && wanted > QUICK_SAMPLES)
        wanted = QUICK_SAMPLES;
    bool ok = mob_task_id_parse(root, &id) == MOB_OK || wrong(&f, NULL, "%s is no task's id", root);
    for (int i = 0; i < wanted && ok; i++) {
        const struct tree_task t = tree_task_at(id, depth, next_random(&s.random) % ((3ull << depth) - 2));
        ok = check_tree_task(b, &s, &t, &f);
    }
    if (!ok)
        bench_miss(b, row, f.why);
    else if (s.workers < 2 && !b->options.quick)
        bench_miss(b, row, "fewer than two worker processes took part");
    return ok && (s.workers >= 2 || b->options.quick);
}
