/* Suite http: tasks submitted over HTTP by wrk. docs/performance.md says what each row does. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/harness.h"

#define CONNECTIONS 16
#define BATCH_ROWS 1000
#define FINISH_TIMEOUT_NS (120ll * 1000000000)

/* wrk asks for one request that it never sends, to look at it: number 0. */
#define FIRST "-1"

/* Each request has a number of its own, so the sum of `total` answers is known. `keep` answers at random are
 * written: a reservoir. */
static const char task_script[] =
    "local issued, head, idle, kept = " FIRST ", '', '', {}\n"
    "function init(args)\n"
    "  idle = wrk.format('GET', '/livez')\n"
    "  wrk.headers['Content-Type'] = 'application/json'\n"
    "  wrk.headers['Prefer'] = 'wait=20'\n"
    "  local body = '{\"function\":\"noop.echo\",\"arguments\":[0000000000]}'\n"
    "  head = wrk.format('POST', '/api/v1/tasks', nil, body):sub(1, -#body - 1)\n"
    "  math.randomseed(now())\n"
    "end\n"
    "function request()\n"
    "  if issued == total then return idle end\n"
    "  issued = issued + 1\n"
    "  if issued == 1 then first = now() end\n"
    "  return head .. string.format('{\"function\":\"noop.echo\",\"arguments\":[%10d]}', issued)\n"
    "end\n"
    "function response(status, headers, body)\n"
    "  local result = body:match('\"result\":(%d+)')\n"
    "  if result then\n"
    "    counted, sum = counted + 1, sum + tonumber(result)\n"
    "    local at = counted <= keep and counted or math.random(counted)\n"
    "    if at <= keep then kept[at] = body end\n"
    "    if counted == total then\n"
    "      finish()\n"
    "      local out = io.open(directory .. '/answers', 'w')\n"
    "      out:write(table.concat(kept, '\\n'), '\\n')\n"
    "      out:close()\n"
    "    end\n"
    "  elseif body ~= 'ok\\n' then bad = bad + 1 end\n"
    "end\n";

/* Every answer is kept: the ids of all tasks. */
static const char batch_script[] =
    "local issued, requests, idle, out = " FIRST ", {}, '', nil\n"
    "function init(args)\n"
    "  idle = wrk.format('GET', '/livez')\n"
    "  wrk.headers['Content-Type'] = 'application/json'\n"
    "  for i = 1, total do\n"
    "    local rows = {}\n"
    "    for k = 1, 1000 do rows[k] = '[' .. (i * 1000 + k) .. ']' end\n"
    "    local body = '{\"function\":\"noop.echo\",\"rows\":[' .. table.concat(rows, ',') .. ']}'\n"
    "    requests[i] = wrk.format('POST', '/api/v1/tasks:batch', nil, body)\n"
    "  end\n"
    "  requests[0] = requests[1]\n"
    "  out = io.open(directory .. '/answers', 'w')\n"
    "end\n"
    "function request()\n"
    "  if issued == total then return idle end\n"
    "  issued = issued + 1\n"
    "  if issued == 1 then first = now() end\n"
    "  return requests[issued]\n"
    "end\n"
    "function response(status, headers, body)\n"
    "  if status == 202 then\n"
    "    counted = counted + 1\n"
    "    out:write(body, '\\n')\n"
    "    if counted == total then out:close(); finish() end\n"
    "  elseif body ~= 'ok\\n' then bad = bad + 1 end\n"
    "end\n";

static FILE *open_answers(struct bench *b)
{
    char path[320];
    snprintf(path, sizeof path, "%s/answers", b->directory);
    return fopen(path, "r");
}

/* ---- one task a request ---- */

static void sample_tasks(struct bench *b, struct bench_samples *samples)
{
    char *line = NULL;
    size_t capacity = 0;
    FILE *f = open_answers(b);
    while (f && getline(&line, &capacity, f) > 0) {
        json_t *answer = json_loads(line, 0, NULL);
        const char *task = json_string_value(json_object_get(answer, "id"));
        const char *object = json_string_value(json_array_get(json_object_get(answer, "returns"), 0));
        int64_t result = json_integer_value(json_object_get(answer, "result"));
        if (task && object)
            bench_sample_offer_ids(samples, task, object, result, result);
        json_decref(answer);
    }
    free(line);
    if (f)
        fclose(f);
}

static void http_task(struct bench *b)
{
    static struct bench_samples samples;
    char script[sizeof task_script + 128];
    const double total = b->options.quick ? 2000 : 200000;
    snprintf(script, sizeof script, "total, keep = %.0f, %d\n%s", total, BENCH_SAMPLES, task_script);
    const struct bench_load load = {.script = script,
        .path = "/api/v1/tasks",
        .connections = CONNECTIONS,
        .seconds_max = b->options.quick ? 20 : 120};
    struct bench_load_result result;
    if (!bench_load(b, "http_task", &load, &result))
        return;
    if (result.counted != total || result.sum != total * (total + 1) / 2) {
        bench_miss(b, "http_task", "the number or the sum of all results is wrong");
        return;
    }
    char extra[48];
    snprintf(extra, sizeof extra, "\"stolen_percent\": %.2f", result.stolen_percent);
    bench_samples_init(&samples, "noop.echo");
    sample_tasks(b, &samples);
    if (bench_samples_check(b, "http_task", &samples, b->options.quick ? 1 : 2))
        bench_row(b,
            &(struct bench_row){.name = "http_task",
                .value = total / ((double)(result.last_ns - result.first_ns) / 1e9),
                .unit = "1/s",
                .baseline = b->http_rate,
                .against = "GET /livez a second",
                .n = total,
                .p50_us = result.p50_us,
                .p99_us = result.p99_us,
                .commit = "committed",
                .extra = extra});
}

/* ---- a thousand tasks a request ---- */

/* When the node has finished `finished` tasks and the GCS has all that its log held then; 0 after a time-out.
 * The log of a node is one sequence: what is put now stands in it behind the last completion, and is
 * acknowledged after it. */
static int64_t wait_committed(struct mob_client *client, double finished)
{
    int64_t deadline = bench_now() + FINISH_TIMEOUT_NS;
    while (bench_stat(client, "finished") < finished) {
        if (bench_now() > deadline)
            return 0;
        usleep(1000);
    }
    struct mob_future *behind;
    if (mob_put(client, mob_i64(0), &behind) != MOB_OK)
        return 0;
    mob_release(behind);
    return mob_flush(client, deadline - bench_now()) == MOB_OK ? bench_now() : 0;
}

/* Futures of one answer's items, all watched at once. How many there are, and why not all. */
static size_t open_items(struct mob_client *client, const json_t *items, struct mob_future **futures)
{
    size_t n = 0;
    for (; n < json_array_size(items) && n < BATCH_ROWS; n++) {
        const char *object =
            json_string_value(json_array_get(json_object_get(json_array_get(items, n), "returns"), 0));
        if (!object || mob_future_from_id(client, object, &futures[n]) != MOB_OK) {
            fprintf(stderr, "mobula-bench: an item of a batch: %s\n", mob_client_error(client));
            return n;
        }
    }
    return n;
}

static bool take_item(
    struct mob_future *future, const json_t *item, struct bench_samples *samples, double *sum)
{
    int64_t result = 0;
    const char *object = json_string_value(json_array_get(json_object_get(item, "returns"), 0));
    enum mob_status status = mob_get_i64(future, FINISH_TIMEOUT_NS, &result);
    if (status != MOB_OK) {
        fprintf(stderr, "mobula-bench: result %s: %s\n", object, mob_status_code(status));
        return false;
    }
    *sum += (double)result;
    bench_sample_offer_ids(samples, json_string_value(json_object_get(item, "id")), object, result, result);
    return true;
}

/* Takes one answer's results through the API (which gives committed ones only), adds them up, offers samples.
 */
static bool take_batch(
    struct mob_client *client, const char *line, struct bench_samples *samples, double *count, double *sum)
{
    static struct mob_future *futures[BATCH_ROWS];
    static bool ready[BATCH_ROWS];
    json_t *answer = json_loads(line, 0, NULL);
    const json_t *items = json_object_get(answer, "items");
    size_t n = open_items(client, items, futures), there = 0;
    bool ok =
        n == BATCH_ROWS && mob_wait(futures, n, n, FINISH_TIMEOUT_NS, ready, &there) == MOB_OK && there == n;
    for (size_t i = 0; i < n; i++) {
        ok = ok && take_item(futures[i], json_array_get(items, i), samples, sum);
        mob_release(futures[i]);
    }
    *count += (double)n;
    json_decref(answer);
    return ok;
}

static bool take_batches(
    struct bench *b, struct mob_client *client, struct bench_samples *samples, double *count, double *sum)
{
    char *line = NULL;
    size_t capacity = 0;
    FILE *f = open_answers(b);
    bool ok = f != NULL;
    for (ssize_t n; ok && (n = getline(&line, &capacity, f)) > 0;)
        ok = n == 1 ||
            take_batch(client, line, samples, count, sum); /* an answer ends with a newline of its own */
    free(line);
    if (f)
        fclose(f);
    return ok;
}

static void http_batch(struct bench *b, struct mob_client *client)
{
    static struct bench_samples samples;
    char script[sizeof batch_script + 128];
    const double batches = b->options.quick ? 20 : 1000, total = batches * BATCH_ROWS;
    snprintf(script, sizeof script, "total = %.0f\n%s", batches, batch_script);
    const struct bench_load load = {.script = script,
        .path = "/api/v1/tasks:batch",
        .connections = CONNECTIONS,
        .seconds_max = b->options.quick ? 20 : 120};
    struct bench_load_result result;
    double before = bench_stat(client, "finished");
    if (!bench_load(b, "http_batch", &load, &result))
        return;
    int64_t end = wait_committed(client, before + total);
    if (result.counted != batches || end == 0) {
        bench_miss(b, "http_batch", "not all batches were answered and finished in time");
        return;
    }
    double count = 0, sum = 0;
    bench_samples_init(&samples, "noop.echo");
    if (!take_batches(b, client, &samples, &count, &sum) || count != total ||
        sum != batches * (batches + 1) / 2 * 1e6 + batches * 500500) {
        bench_miss(b, "http_batch", "the number or the sum of all results is wrong");
        return;
    }
    if (bench_samples_check(b, "http_batch", &samples, b->options.quick ? 1 : 2))
        bench_row(b,
            &(struct bench_row){.name = "http_batch",
                .value = total / ((double)(end - result.first_ns) / 1e9),
                .unit = "1/s",
                .baseline = b->ring_msgs,
                .against = "ring messages/s",
                .n = total,
                .p50_us = result.p50_us,
                .p99_us = result.p99_us,
                .commit = "committed"});
}

void suite_http(struct bench *b)
{
    struct mob_client *client = bench_connect(b);
    if (!client || !bench_deploy_everywhere(b, client, "noop")) {
        bench_miss(b, "http", "the cluster cannot be used");
        mob_disconnect(client);
        return;
    }
    bench_wait_warm(client);
    bench_http_baseline(b);
    if (bench_wanted(b, "http_task"))
        http_task(b);
    if (bench_wanted(b, "http_batch"))
        http_batch(b, client);
    mob_disconnect(client);
}
