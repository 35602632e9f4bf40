/* Idempotency keys in the control store: what was asked under a key, and what was answered.
 *
 * A row stands before anything is made (compare and set: absent -> fingerprint of the body), and gets the
 * answer when there is one. A gateway that finds the row of another one, or its own from before it died,
 * refuses another body, gives the answer that is kept, or runs the request again: all ids of the request
 * follow from the key (cluster secret, namespace, scope, period), so the second run finds what the first one
 * made. A row is good for `idempotency_ns`; after that the key may stand for something new, whose ids differ
 * by the period.
 *
 * Rows stay in memory, where lineage is moved to PostgreSQL: so all of them together may take a share of the
 * soft cap, above which new keys are refused (429) and requests without one go on. What they take is counted
 * by each gateway: those that the last sweep saw, whoever made them, and its own since.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"

#define ROW_VERSION 1u
#define ROW_KEY_BYTES (sizeof prefix - 1 + sizeof(struct mob_module_hash))
#define SWEEP_NS (3600 * MOB_SEC)
#define SWEEP_AGAIN_NS (60 * MOB_SEC) /* while there is no room: some may have become old */
#define SHARE_OF_CAP 4u /* rows may take a quarter of the soft cap */
#define ROW_OVERHEAD 300u /* of a row beside its bytes, which are in Redis and in the member */
#define CLAIM_TRIES 4u /* against others that claim and sweep the same key */

static const char prefix[] = "idempotency/";

struct key_row {
    uint32_t version;
    uint32_t answer_bytes; /* behind it; 0: none is kept */
    int64_t made_wall_ns;
    uint64_t period; /* part of the ids that follow from the key */
    struct mob_module_hash body; /* of the first request */
};

/* --- rows --- */

static void row_key(const struct mob_engine_key *key, uint8_t out[static ROW_KEY_BYTES])
{
    memcpy(out, prefix, sizeof prefix - 1);
    memcpy(out + sizeof prefix - 1, key->scope.b, sizeof key->scope.b);
}

static bool row_open(const struct mob_gcs_kv *kv, struct key_row *row_out, const uint8_t **answer_out)
{
    if (kv->value_length < sizeof *row_out)
        return false;
    memcpy(row_out, kv->value, sizeof *row_out);
    *answer_out = kv->value + sizeof *row_out;
    return row_out->version == ROW_VERSION && row_out->answer_bytes <= kv->value_length - sizeof *row_out;
}

static enum mob_status put_row(struct engine *engine, const struct mob_engine_key *key, uint64_t if_version,
    mob_gcs_done_fn *done, void *arg)
{
    uint8_t name[ROW_KEY_BYTES];
    struct key_row row = {.version = ROW_VERSION,
        .answer_bytes = (uint32_t)key->answer_length,
        .made_wall_ns = key->made_wall_ns,
        .period = key->period,
        .body = key->body};
    uint8_t *value = malloc(sizeof row + key->answer_length);
    MOB_ASSERT(value != NULL);
    memcpy(value, &row, sizeof row);
    if (key->answer_length > 0)
        memcpy(value + sizeof row, key->answer, key->answer_length);
    row_key(key, name);
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = name,
        .key_length = sizeof name,
        .value = value,
        .value_length = (uint32_t)(sizeof row + key->answer_length),
        .if_version = if_version};
    enum mob_status status = mob_gcs_put(engine->gcs, &put, done, arg);
    free(value);
    return status;
}

/* --- room for them --- */

static uint64_t row_cost(size_t value_bytes)
{
    return 2 * (ROW_KEY_BYTES + value_bytes) + ROW_OVERHEAD;
}

/* For all shards together; no limit while the control store has not said its cap. */
static uint64_t room_for_rows(struct engine *engine)
{
    struct mob_gcs_position at;
    mob_gcs_position(engine->gcs, &at);
    uint64_t caps = (uint64_t)at.memory_soft_bytes * mob_gcs_shard_count(engine->gcs);
    return caps > 0 ? caps / SHARE_OF_CAP : UINT64_MAX;
}

static bool is_full(struct engine *engine)
{
    return engine->key_bytes_swept + engine->key_bytes_since >= room_for_rows(engine);
}

static void refuse_new(struct flight *flight)
{
    struct engine *engine = flight->engine;
    int64_t again_ns = mob_now() + SWEEP_AGAIN_NS;
    engine->sweep_keys_ns = engine->sweep_keys_ns < again_ns ? engine->sweep_keys_ns : again_ns;
    flight->op->error.retry_after_s = SWEEP_AGAIN_NS / MOB_SEC;
    flight_fail(flight, MOB_QUEUE_FULL, NULL,
        "the idempotency keys of the last %lld s take a quarter of gcs-soft-bytes: send this without one, "
        "lower idempotency-s, or raise gcs-soft-bytes",
        (long long)(engine->options.idempotency_ns / MOB_SEC));
}

/* --- claiming --- */

static void claim(struct flight *flight, uint64_t if_version);

static void fail(struct flight *flight, enum mob_status status)
{
    flight_fail(flight, mob_status_retryable(status) ? status : MOB_UNAVAILABLE, NULL,
        "the control store does not take the idempotency key");
}

static void on_root(void *arg, enum mob_status status, const char *bytes, size_t size)
{
    struct flight *flight = arg;
    if (status != MOB_OK || size != sizeof flight->key_root) {
        flight_fail_reply(flight, status == MOB_OK ? MOB_INTERNAL : status, NULL, 0);
        return;
    }
    memcpy(&flight->key_root, bytes, sizeof flight->key_root);
    flight->keyed = true;
    flight->engine->worked++;
    (void)MOB_FAILPOINT("gateway.key_claimed");
    flight->start(flight);
}

/* The key is ours: which ids follow from it? */
static void ask_root(struct flight *flight)
{
    const struct mob_engine_key *key = flight->op->key;
    char text[128];
    size_t n = mob_base32_encode(key->scope.b, sizeof key->scope.b, text);
    snprintf(text + n, sizeof text - n, ":%llu", (unsigned long long)key->period);
    enum mob_status status =
        mob_ask(flight->client, MOB_REQ_KEYED_ROOT, text, (uint32_t)strlen(text), on_root, flight);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
}

/* The key is this body's. */
static void decided(const struct mob_engine_key *key)
{
    if (key->decided)
        key->decided(key);
}

static bool is_old(const struct engine *engine, int64_t made_wall_ns)
{
    return mob_wall_now() - made_wall_ns > engine->options.idempotency_ns;
}

static void take_answer(struct flight *flight, const uint8_t *answer, size_t length)
{
    struct mob_engine_key *key = flight->op->key;
    key->answer = malloc(length);
    MOB_ASSERT(key->answer != NULL);
    memcpy(key->answer, answer, length);
    key->answer_length = length;
    key->replayed = true;
    flight_done(flight);
}

static void on_row(void *arg, const struct mob_gcs_answer *answer)
{
    struct flight *flight = arg;
    struct mob_engine_key *key = flight->op->key;
    struct key_row row;
    const uint8_t *kept;
    flight->engine->worked++;
    if (answer->status == MOB_NOT_FOUND) { /* swept a moment ago */
        claim(flight, 0);
        return;
    }
    if (answer->status != MOB_OK || answer->kv_count == 0 || !row_open(&answer->kvs[0], &row, &kept)) {
        fail(flight, answer->status);
        return;
    }
    if (is_old(flight->engine, row.made_wall_ns)) {
        key->period = row.period >= key->period ? row.period + 1 : key->period;
        claim(flight, answer->kvs[0].version);
        return;
    }
    key->made_wall_ns = row.made_wall_ns;
    key->period = row.period;
    if (memcmp(&row.body, &key->body, sizeof key->body) != 0) {
        key->other_body = true;
        flight_fail(flight, MOB_INVALID, NULL, "this Idempotency-Key was used with another body");
        return;
    }
    flight->key_again = key->again = true;
    decided(key);
    if (row.answer_bytes > 0)
        take_answer(flight, kept, row.answer_bytes);
    else
        ask_root(flight);
}

static enum mob_status look_up(struct flight *flight)
{
    uint8_t name[ROW_KEY_BYTES];
    row_key(flight->op->key, name);
    return mob_gcs_get(flight->engine->gcs, MOB_GCS_KV, name, sizeof name, on_row, flight);
}

static void on_claimed(void *arg, const struct mob_gcs_answer *answer)
{
    struct flight *flight = arg;
    flight->engine->worked++;
    if (answer->status == MOB_OK) {
        flight->engine->key_bytes_since += row_cost(sizeof(struct key_row));
        decided(flight->op->key);
        ask_root(flight);
        return;
    }
    enum mob_status status = answer->status;
    if (status == MOB_CONFLICT && flight->step++ < CLAIM_TRIES)
        status = look_up(flight);
    if (status != MOB_OK)
        fail(flight, status);
}

static void claim(struct flight *flight, uint64_t if_version)
{
    if (if_version == 0 && is_full(flight->engine)) {
        refuse_new(flight);
        return;
    }
    flight->op->key->made_wall_ns = mob_wall_now();
    enum mob_status status = put_row(flight->engine, flight->op->key, if_version, on_claimed, flight);
    if (status != MOB_OK)
        fail(flight, status);
}

void engine_key_claim(struct flight *flight, void (*start)(struct flight *flight))
{
    struct mob_engine_key *key = flight->op->key;
    flight->start = start;
    /* So a lost row (gateway and control store killed in the same unsynced second) does not lose the ids. */
    key->period = (uint64_t)(mob_wall_now() / flight->engine->options.idempotency_ns);
    if (!is_full(flight->engine)) {
        claim(flight, 0);
        return;
    }
    enum mob_status status = look_up(flight); /* one that is known is answered as ever */
    if (status != MOB_OK)
        fail(flight, status);
}

/* --- keeping the answer --- */

void engine_start_key_keep(struct flight *flight)
{
    enum mob_status status = put_row(flight->engine, flight->op->key, MOB_GCS_ANY_VERSION, NULL, NULL);
    if (status == MOB_OK)
        flight->engine->key_bytes_since += 2 * flight->op->key->answer_length;
    else /* the next run finds out by itself */
        MOB_LOG_WARN("engine", "answer_not_kept", "code=%s", mob_status_code(status));
    flight_done(flight);
}

/* --- ids of keyed work --- */

void engine_key_use(const struct flight *flight, uint32_t index)
{
    mob_client_key(flight->client, flight->keyed ? &flight->key_root : NULL, index, flight->key_again);
}

void engine_key_unused(const struct flight *flight)
{
    mob_client_key(flight->client, NULL, 0, false);
}

/* --- old rows go --- */

struct key_sweep {
    struct engine *engine;
    bool running;
    uint64_t bytes; /* of rows that stay */
    uint8_t after[ROW_KEY_BYTES];
    uint32_t after_length;
};

static void on_rows(void *arg, const struct mob_gcs_answer *answer);

static void read_rows(struct key_sweep *sweep)
{
    struct mob_gcs_list list = {.table = MOB_GCS_KV,
        .prefix = prefix,
        .prefix_length = sizeof prefix - 1,
        .after = sweep->after,
        .after_length = sweep->after_length};
    sweep->running = mob_gcs_list(sweep->engine->gcs, &list, on_rows, sweep) == MOB_OK;
}

static void drop_if_old(struct key_sweep *sweep, const struct mob_gcs_kv *kv)
{
    struct engine *engine = sweep->engine;
    struct key_row row;
    const uint8_t *answer;
    if (row_open(kv, &row, &answer) && !is_old(engine, row.made_wall_ns)) {
        sweep->bytes += row_cost(kv->value_length);
        return;
    }
    struct mob_gcs_put del = {
        .table = MOB_GCS_KV, .key = kv->key, .key_length = kv->key_length, .if_version = kv->version};
    if (mob_gcs_delete(engine->gcs, &del, NULL, NULL) != MOB_OK)
        MOB_LOG_WARN("engine", "key_not_dropped", "bytes=%u", kv->value_length);
}

static void on_rows(void *arg, const struct mob_gcs_answer *answer)
{
    struct key_sweep *sweep = arg;
    for (uint32_t i = 0; answer->status == MOB_OK && i < answer->kv_count; i++)
        drop_if_old(sweep, &answer->kvs[i]);
    const struct mob_gcs_kv *last =
        answer->status == MOB_OK && answer->kv_count > 0 ? &answer->kvs[answer->kv_count - 1] : NULL;
    if (!last || answer->next == 0 || last->key_length != sizeof sweep->after) {
        sweep->running = false;
        if (answer->status == MOB_OK)
            sweep->engine->key_bytes_swept = sweep->bytes;
        return;
    }
    memcpy(sweep->after, last->key, last->key_length);
    sweep->after_length = last->key_length;
    read_rows(sweep);
}

void engine_keys_sweep(struct engine *engine, int64_t now)
{
    if (now < engine->sweep_keys_ns || !engine->gcs_up)
        return;
    int64_t life = engine->options.idempotency_ns;
    engine->sweep_keys_ns = now + (life < SWEEP_NS ? life : SWEEP_NS);
    if (!engine->key_sweep)
        engine->key_sweep = calloc(1, sizeof *engine->key_sweep);
    MOB_ASSERT(engine->key_sweep != NULL);
    if (engine->key_sweep->running)
        return;
    *engine->key_sweep = (struct key_sweep){.engine = engine};
    engine->key_bytes_swept += engine->key_bytes_since; /* until the sweep has seen them */
    engine->key_bytes_since = 0;
    read_rows(engine->key_sweep);
}

void engine_keys_end(struct engine *engine)
{
    free(engine->key_sweep); /* the control store's client is gone: nobody calls back */
}
