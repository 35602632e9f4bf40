#include "server/api/idempotency.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "server/api/problem.h"

struct entry {
    struct entry *chain; /* of its bucket */
    struct entry *older, *newer; /* by start: expiry takes the oldest */
    struct mob_hash128 scope; /* of principal, method, path and key */
    struct mob_module_hash body; /* BLAKE2b-256: another body must not pass for this one */
    bool running;
    int64_t started_ns;
    int status;
    char *headers;
    size_t headers_length;
    char *answer;
    size_t answer_length;
};

struct mob_idempotency {
    pthread_mutex_t lock;
    struct entry **buckets;
    size_t bucket_count, entries_max, count, bytes;
    struct entry *oldest, *newest;
};

enum mob_status mob_idempotency_create(size_t entries_max, struct mob_idempotency **table_out)
{
    struct mob_idempotency *table = calloc(1, sizeof *table);
    if (!table)
        return MOB_NO_MEMORY;
    table->entries_max = entries_max ? entries_max : MOB_IDEMPOTENCY_ENTRIES_DEFAULT;
    table->bucket_count = 16384;
    table->buckets = calloc(table->bucket_count, sizeof(struct entry *));
    if (!table->buckets) {
        free(table);
        return MOB_NO_MEMORY;
    }
    pthread_mutex_init(&table->lock, NULL);
    *table_out = table;
    return MOB_OK;
}

static struct entry **bucket_of(struct mob_idempotency *table, struct mob_hash128 scope)
{
    return &table->buckets[scope.lo % table->bucket_count];
}

static void forget(struct mob_idempotency *table, struct entry *entry)
{
    struct entry **at = bucket_of(table, entry->scope);
    while (*at != entry)
        at = &(*at)->chain;
    *at = entry->chain;
    *(entry->older ? &entry->older->newer : &table->oldest) = entry->newer;
    *(entry->newer ? &entry->newer->older : &table->newest) = entry->older;
    table->count--;
    table->bytes -= entry->answer_length + entry->headers_length;
    free(entry->headers);
    free(entry->answer);
    free(entry);
}

void mob_idempotency_destroy(struct mob_idempotency *table)
{
    if (!table)
        return;
    while (table->oldest)
        forget(table, table->oldest);
    free(table->buckets);
    pthread_mutex_destroy(&table->lock);
    free(table);
}

static struct mob_hash128 scope_of(
    const struct mob_http_request *request, const char *principal, const char *key)
{
    struct mob_text text = {0};
    mob_text_put(&text, principal, strlen(principal) + 1);
    mob_text_puts(&text, mob_http_method_name(request->method));
    mob_text_put(&text, "", 1);
    mob_text_put(&text, request->path, strlen(request->path) + 1);
    mob_text_puts(&text, key);
    struct mob_hash128 hash = mob_hash128(text.bytes, text.length);
    mob_text_fini(&text);
    return hash;
}

static void replay(struct mob_http_request *request, const struct entry *entry)
{
    for (size_t at = 0; at < entry->headers_length;) {
        const char *name = entry->headers + at;
        const char *value = name + strlen(name) + 1;
        mob_http_reply_header(request, name, value);
        at = (size_t)(value - entry->headers) + strlen(value) + 1;
    }
    mob_http_reply_header(request, "Idempotent-Replayed", "true");
    mob_http_reply(request, entry->status, NULL, entry->answer, entry->answer_length);
}

static void expire(struct mob_idempotency *table, int64_t now_ns)
{
    while (table->oldest && !table->oldest->running &&
        now_ns - table->oldest->started_ns > (int64_t)MOB_IDEMPOTENCY_LIFE_S * MOB_SEC)
        forget(table, table->oldest);
}

static struct entry *add(
    struct mob_idempotency *table, struct mob_hash128 scope, struct mob_module_hash body, int64_t now_ns)
{
    if (table->count == table->entries_max || table->bytes > MOB_IDEMPOTENCY_BYTES_MAX)
        return NULL;
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    struct entry **bucket = bucket_of(table, scope);
    *entry = (struct entry){.chain = *bucket,
        .older = table->newest,
        .scope = scope,
        .body = body,
        .running = true,
        .started_ns = now_ns};
    *bucket = entry;
    *(table->newest ? &table->newest->newer : &table->oldest) = entry;
    table->newest = entry;
    table->count++;
    return entry;
}

bool mob_idempotency_begin(
    struct mob_idempotency *table, struct mob_http_request *request, const char *principal, int64_t now_ns)
{
    const char *key = mob_http_header(request, "Idempotency-Key");
    if (!key)
        return true;
    if (*key == 0 || strlen(key) > MOB_IDEMPOTENCY_KEY_MAX) {
        mob_problem_replyf(
            request, MOB_BAD_REQUEST, "Idempotency-Key must have 1 to %d bytes", MOB_IDEMPOTENCY_KEY_MAX);
        return false;
    }
    struct mob_hash128 scope = scope_of(request, principal, key);
    struct mob_module_hash body = mob_module_hash(request->body ? request->body : "", request->body_length);
    bool run = false;
    pthread_mutex_lock(&table->lock);
    expire(table, now_ns);
    struct entry *entry = *bucket_of(table, scope);
    while (entry && !mob_hash128_eq(entry->scope, scope))
        entry = entry->chain;
    if (!entry) {
        entry = add(table, scope, body, now_ns);
        request->idempotency = entry;
        run = entry != NULL;
        if (!run)
            mob_problem_replyf(
                request, MOB_QUEUE_FULL, "%zu idempotency keys are kept already", table->count);
    } else if (memcmp(&entry->body, &body, sizeof body) != 0) {
        mob_problem_replyf(request, MOB_INVALID, "this Idempotency-Key was used with another body");
    } else if (entry->running) {
        mob_problem_reply(request,
            &(struct mob_problem){.http = 409,
                .status = MOB_AGAIN,
                .detail = "the first request with this Idempotency-Key is still running"});
    } else {
        replay(request, entry);
    }
    pthread_mutex_unlock(&table->lock);
    return run;
}

void mob_idempotency_finish(struct mob_idempotency *table, struct mob_http_request *request, int64_t now_ns)
{
    struct entry *entry = request->idempotency;
    if (!entry)
        return;
    request->idempotency = NULL;
    (void)now_ns;
    const struct mob_http_reply *reply = &request->reply;
    bool keep = reply->status < 500 && reply->status != 429 && reply->status != 408 && !reply->stream &&
        reply->body_length <= MOB_IDEMPOTENCY_BODY_MAX;
    pthread_mutex_lock(&table->lock);
    entry->running = false;
    entry->status = reply->status;
    if (keep) {
        entry->headers = malloc(reply->headers_length + 1);
        entry->answer = malloc(reply->body_length + 1);
        keep = entry->headers && entry->answer;
    }
    if (keep) {
        if (reply->headers_length > 0)
            memcpy(entry->headers, reply->headers, reply->headers_length);
        if (reply->body_length > 0)
            memcpy(entry->answer, reply->body, reply->body_length);
        entry->headers_length = reply->headers_length;
        entry->answer_length = reply->body_length;
        table->bytes += entry->headers_length + entry->answer_length;
    } else {
        forget(table, entry);
    }
    pthread_mutex_unlock(&table->lock);
}
