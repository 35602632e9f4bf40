/* Suite serve: a policy network, 1024-64-64-16, that answers requests. docs/performance.md says what each row
 * does. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "bench/harness.h"

#define SECOND 1000000000ll
#define CONNECTIONS 16
#define BODIES 8 /* different requests */
#define STATE_FLOATS 1024
#define OUTPUTS 16
#define ROWS_MAX 64
#define CALL_ROWS 64
#define CALL_WINDOW 8
#define MODEL_SEED 1

/* Sends the bodies in turn, each with its number as the request's id, which the answer repeats: an answer is
 * wrong unless it is what the model says about the body of that number. `sum`: how many of the bodies were
 * answered. */
static const char infer_script[] =
    "local requests, next, expected, seen = {}, 0, {}, {}\n"
    "local function read(name)\n"
    "  local f = io.open(directory .. name, 'rb')\n"
    "  local content = f:read('*a')\n"
    "  f:close()\n"
    "  return content\n"
    "end\n"
    "function init(args)\n"
    "  wrk.headers['Content-Type'] = 'application/octet-stream'\n"
    "  wrk.headers['Inference-Header-Content-Length'] = tostring(head)\n"
    "  for i = 0, bodies - 1 do\n"
    "    requests[i] = wrk.format('POST', '/v2/models/bench_mlp/infer', nil, read('/body' .. i))\n"
    "    expected[tostring(i)] = read('/expected' .. i)\n"
    "  end\n"
    "end\n"
    "function request()\n"
    "  next = (next + 1) % bodies\n"
    "  return requests[next]\n"
    "end\n"
    "function response(status, headers, body)\n"
    "  counted = counted + 1\n"
    "  local id = body:sub(1, -size - 1):match('\"id\":\"(%d+)\"')\n"
    "  if not id or body:sub(-size) ~= expected[id] then bad = bad + 1; return end\n"
    "  if not seen[id] then seen[id] = true; sum = sum + 1 end\n"
    "end\n";

static void fill_states(float *states, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        states[i] = (float)(seed >> 40) * 0x1p-23f - 1.0f;
    }
}

static bool write_file(
    struct bench *b, const char *name, const void *head, size_t head_bytes, const void *data, size_t bytes)
{
    char path[320];
    snprintf(path, sizeof path, "%s/%s", b->directory, name);
    FILE *f = fopen(path, "wb");
    bool ok = f && (head_bytes == 0 || fwrite(head, 1, head_bytes, f) == head_bytes) &&
        fwrite(data, 1, bytes, f) == bytes;
    if (f)
        ok &= fclose(f) == 0;
    return ok;
}

/* What the model's actor says about the same states, without HTTP. */
static bool ask_actor(
    struct mob_client *client, const char *actor_id, const float *states, int rows, float *out)
{
    struct mob_actor *actor;
    struct mob_future *future;
    struct mob_value *value;
    struct mob_tensor tensor;
    if (mob_actor_from_id(client, actor_id, &actor) != MOB_OK)
        return false;
    bool ok = mob_actor_call(actor, "infer", MOB_ARGS(mob_tensor_f32(states, rows, STATE_FLOATS)), NULL,
                  &future) == MOB_OK;
    if (ok) {
        ok = mob_get(future, 30 * SECOND, &value) == MOB_OK;
        if (ok) {
            ok = mob_value_tensor(value, &tensor) == MOB_OK && tensor.shape[0] == rows &&
                tensor.shape[1] == OUTPUTS;
            if (ok)
                memcpy(out, tensor.data, (size_t)rows * OUTPUTS * sizeof *out);
            mob_value_release(value);
        }
        mob_release(future);
    }
    mob_actor_release(actor);
    return ok;
}

/* The length of every body's JSON head; 0 after a failure. */
static int write_bodies(struct bench *b, struct mob_client *client, const char *actor, int rows)
{
    static float states[ROWS_MAX * STATE_FLOATS], expected[ROWS_MAX * OUTPUTS];
    char head[512], name[24];
    size_t bytes = (size_t)rows * STATE_FLOATS * sizeof *states;
    int length = 0;
    _Static_assert(BODIES <= 10, "all heads have one length");
    for (int i = 0; i < BODIES; i++) {
        length = snprintf(head, sizeof head,
            "{\"id\":\"%d\",\"inputs\":[{\"name\":\"state\",\"datatype\":\"FP32\",\"shape\":[%d,%d],"
            "\"parameters\":{\"binary_data_size\":%zu}}],\"parameters\":{\"binary_data_output\":true}}",
            i, rows, STATE_FLOATS, bytes);
        fill_states(states, (size_t)rows * STATE_FLOATS, (uint64_t)i + 1);
        if (!ask_actor(client, actor, states, rows, expected))
            return 0;
        snprintf(name, sizeof name, "body%d", i);
        if (!write_file(b, name, head, (size_t)length, states, bytes))
            return 0;
        snprintf(name, sizeof name, "expected%d", i);
        if (!write_file(b, name, NULL, 0, expected, (size_t)rows * OUTPUTS * sizeof *expected))
            return 0;
    }
    return length;
}

static void serve_http(
    struct bench *b, struct mob_client *client, const char *row, const char *actor, int rows)
{
    char script[sizeof infer_script + 256];
    int head = write_bodies(b, client, actor, rows);
    size_t bytes = (size_t)rows * OUTPUTS * sizeof(float);
    if (head == 0) {
        bench_miss(b, row, "the model's actor does not answer");
        return;
    }
    snprintf(
        script, sizeof script, "head, bodies, size = %d, %d, %zu\n%s", head, BODIES, bytes, infer_script);
    const struct bench_load load = {.script = script,
        .path = "/v2/models/bench_mlp/infer",
        .connections = CONNECTIONS,
        .seconds_max = b->options.quick ? 1 : 10};
    struct bench_load_result result;
    if (!bench_load(b, row, &load, &result))
        return;
    if (result.sum != BODIES || result.counted < result.requests) {
        bench_miss(b, row, "not every request has an answer that was compared");
        return;
    }
    double copied = rows == 1 ? b->http_rate : b->tcp_gbs * 1e9 / (STATE_FLOATS * sizeof(float));
    bench_row(b,
        &(struct bench_row){.name = row,
            .value = result.requests * rows / result.seconds,
            .unit = "1/s",
            .baseline = copied,
            .against = rows == 1 ? "GET /livez a second" : "states a second through loopback TCP",
            .n = result.requests * rows,
            .p50_us = result.p50_us,
            .p99_us = result.p99_us,
            .commit = "none"});
}

static void serve_inproc(struct bench *b, struct mob_client *client)
{
    struct mob_actor *model, *caller;
    struct mob_future *future;
    struct mob_value *value;
    const void *data;
    size_t size;
    int64_t rounds = b->options.quick ? 200 : 20000;
    BENCH_TRY(b, "serve_4k_inproc",
        mob_actor_create(client, "mlp.Mlp", MOB_ARGS(mob_i64(MODEL_SEED), mob_null()), NULL, &model));
    BENCH_TRY(b, "serve_4k_inproc",
        mob_actor_create(client, "mlp.Caller", MOB_ARGS(mob_actor_handle(model)), NULL, &caller));
    BENCH_TRY(b, "serve_4k_inproc",
        mob_actor_call(caller, "run",
            MOB_ARGS(mob_i64(rounds), mob_i64(CALL_ROWS), mob_i64(CALL_WINDOW), mob_i64(MODEL_SEED)), NULL,
            &future));
    enum mob_status status = mob_get(future, 300 * SECOND, &value);
    if (status != MOB_OK) {
        bench_miss(b, "serve_4k_inproc", mob_future_error(future));
        return;
    }
    BENCH_TRY(b, "serve_4k_inproc", mob_value_data(value, &data, &size));
    json_t *report = json_loadb(data, size, 0, NULL);
    double states = json_number_value(json_object_get(report, "states"));
    double rate = json_number_value(json_object_get(report, "states_per_s"));
    const json_t *wrong = json_object_get(report, "wrong");
    bool right = json_is_integer(wrong) && json_integer_value(wrong) == 0;
    json_decref(report);
    mob_value_release(value);
    mob_release(future);
    BENCH_TRY(b, "serve_4k_inproc", mob_actor_kill(caller, true));
    BENCH_TRY(b, "serve_4k_inproc", mob_actor_kill(model, true));
    mob_actor_release(caller);
    mob_actor_release(model);
    if (!right) {
        bench_miss(b, "serve_4k_inproc", "an answer is not what the model says");
        return;
    }
    bench_row(b,
        &(struct bench_row){.name = "serve_4k_inproc",
            .value = rate,
            .unit = "1/s",
            .baseline = b->memcpy_1m_gbs * 1e9 / (STATE_FLOATS * sizeof(float)),
            .against = "states a second through memcpy",
            .n = states,
            .commit = "local"});
}

/* The id of the endpoint's actor; false after bench_miss. */
static bool deploy_endpoint(struct bench *b, char actor_out[MOB_TEXT_ID_MAX])
{
    char *text = bench_http(b, "PUT", "/api/v1/endpoints/bench_mlp",
        "{\"class\":\"mlp.Mlp\",\"arguments\":[1,null],\"max_batch_size\":64,\"max_queue_delay_us\":0}");
    json_t *endpoint = text ? json_loads(text, 0, NULL) : NULL;
    const char *actor = json_string_value(json_object_get(endpoint, "actor"));
    snprintf(actor_out, MOB_TEXT_ID_MAX, "%s", actor ? actor : "");
    json_decref(endpoint);
    free(text);
    if (!actor_out[0])
        bench_miss(b, "serve_4k", "the endpoint was not made");
    return actor_out[0] != '\0';
}

void suite_serve(struct bench *b)
{
    struct mob_client *client = bench_connect(b);
    char actor[MOB_TEXT_ID_MAX];
    if (!client || !bench_deploy_everywhere(b, client, "mlp")) {
        bench_miss(b, "serve", "the cluster cannot be used");
        mob_disconnect(client);
        return;
    }
    bench_wait_warm(client);
    bench_http_baseline(b);
    if (deploy_endpoint(b, actor)) {
        if (bench_wanted(b, "serve_4k"))
            serve_http(b, client, "serve_4k", actor, 1);
        if (bench_wanted(b, "serve_4k_b64"))
            serve_http(b, client, "serve_4k_b64", actor, 64);
    }
    if (bench_wanted(b, "serve_4k_inproc"))
        serve_inproc(b, client);
    free(bench_http(b, "DELETE", "/api/v1/endpoints/bench_mlp", NULL));
    mob_disconnect(client);
}
