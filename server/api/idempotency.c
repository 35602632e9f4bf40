#include "server/api/idempotency.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "server/api/problem.h"

struct entry {
    struct entry *chain; /* of its bucket */
    struct entry *older, *newer; /* by start: expiry takes the oldest */
    struct mob_module_hash
        scope; /* of principal, method, path and key; BLAKE2b-256: no other may pass for it, */
    struct mob_module_hash body; /* nor another body */
    bool running;
    bool decided; /* the control store has given the key to this body */
    bool again; /* an earlier run made what its answer tells of */
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
    int64_t life_ns;
    struct entry *oldest, *newest;
};

enum mob_status mob_idempotency_create(
    size_t entries_max, int64_t life_ns, struct mob_idempotency **table_out)
{
    struct mob_idempotency *table = calloc(1, sizeof *table);
    if (!table)
        return MOB_NO_MEMORY;
    table->entries_max = entries_max ? entries_max : MOB_IDEMPOTENCY_ENTRIES_DEFAULT;
    table->life_ns = life_ns > 0 ? life_ns : (int64_t)MOB_IDEMPOTENCY_LIFE_S * MOB_SEC;
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

static struct entry **bucket_of(struct mob_idempotency *table, struct mob_module_hash scope)
{
    uint32_t mix;
    memcpy(&mix, scope.b, sizeof mix); /* a hash already */
    return &table->buckets[mix % table->bucket_count];
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

static struct mob_module_hash scope_of(
    const struct mob_http_request *request, const char *principal, const char *key)
{
    struct mob_text text = {0};
    mob_text_put(&text, principal, strlen(principal) + 1);
    mob_text_puts(&text, mob_http_method_name(request->method));
    mob_text_put(&text, "", 1);
    mob_text_put(&text, request->path, strlen(request->path) + 1);
    mob_text_puts(&text, key);
    struct mob_module_hash hash = mob_module_hash(text.bytes, text.length);
    mob_text_fini(&text);
    return hash;
}

static void reply_headers(struct mob_http_request *request, const char *headers, size_t length)
{
    for (size_t at = 0; at < length;) {
        const char *name = headers + at;
        const char *value = name + strlen(name) + 1;
        mob_http_reply_header(request, name, value);
        at = (size_t)(value - headers) + strlen(value) + 1;
    }
}

static void replay(struct mob_http_request *request, const struct entry *entry)
{
    reply_headers(request, entry->headers, entry->headers_length);
    mob_http_reply_header(request, "Idempotent-Replayed", "true");
    mob_http_reply(request, entry->status, NULL, entry->answer, entry->answer_length);
}

static void expire(struct mob_idempotency *table, int64_t now_ns)
{
    while (table->oldest && !table->oldest->running && now_ns - table->oldest->started_ns > table->life_ns)
        forget(table, table->oldest);
}

static bool is_full(const struct mob_idempotency *table)
{
    return table->count >= table->entries_max || table->bytes > MOB_IDEMPOTENCY_BYTES_MAX;
}

/* Of those that have ended the oldest go: their keys are decided, so the control store knows them. */
static void make_room(struct mob_idempotency *table)
{
    for (struct entry *entry = table->oldest, *newer; entry && is_full(table); entry = newer) {
        newer = entry->newer;
        if (!entry->running)
            forget(table, entry);
    }
}

static struct entry *add(
    struct mob_idempotency *table, struct mob_module_hash scope, struct mob_module_hash body, int64_t now_ns)
{
    make_room(table);
    if (is_full(table))
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

static struct entry *find(struct mob_idempotency *table, const struct mob_module_hash *scope)
{
    struct entry *entry = *bucket_of(table, *scope);
    while (entry && memcmp(&entry->scope, scope, sizeof *scope) != 0)
        entry = entry->chain;
    return entry;
}

/* A proxy and a client that each put one in do not mean the same. */
static bool has_several_keys(const struct mob_http_request *request)
{
    unsigned count = 0;
    for (unsigned i = 0; i < request->header_count; i++)
        count += strcasecmp(request->headers[i].name, "Idempotency-Key") == 0;
    return count > 1;
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
    if (has_several_keys(request)) {
        mob_problem_replyf(request, MOB_BAD_REQUEST, "more than one Idempotency-Key");
        return false;
    }
    struct mob_module_hash scope = scope_of(request, principal, key);
    struct mob_module_hash body = mob_module_hash(request->body ? request->body : "", request->body_length);
    bool run = false;
    pthread_mutex_lock(&table->lock);
    expire(table, now_ns);
    struct entry *entry = find(table, &scope);
    if (!entry) {
        entry = add(table, scope, body, now_ns);
        request->idempotency = entry;
        run = entry != NULL;
        if (!run)
            mob_problem_replyf(
                request, MOB_QUEUE_FULL, "%zu requests with an Idempotency-Key are running", table->count);
    } else if (entry->decided && memcmp(&entry->body, &body, sizeof body) != 0) {
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

void mob_idempotency_decided(
    struct mob_idempotency *table, const struct mob_module_hash *scope, const struct mob_module_hash *body)
{
    pthread_mutex_lock(&table->lock);
    struct entry *entry = find(table, scope);
    if (entry && memcmp(&entry->body, body, sizeof *body) == 0)
        entry->decided = true;
    pthread_mutex_unlock(&table->lock);
}

static bool is_kept(const struct mob_http_reply *reply)
{
    return reply->status < 500 && reply->status != 429 && reply->status != 408 && !reply->stream &&
        reply->body_length <= MOB_IDEMPOTENCY_BODY_MAX;
}

void mob_idempotency_finish(struct mob_idempotency *table, struct mob_http_request *request, int64_t now_ns)
{
    struct entry *entry = request->idempotency;
    if (!entry)
        return;
    request->idempotency = NULL;
    (void)now_ns;
    const struct mob_http_reply *reply = &request->reply;
    bool again = entry->again;
    pthread_mutex_lock(&table->lock);
    bool keep = entry->decided && is_kept(reply);
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
    if (again)
        mob_http_reply_header(request, "Idempotent-Replayed", "true");
}

void mob_idempotency_forget(struct mob_idempotency *table, struct mob_http_request *request)
{
    if (!request->idempotency)
        return;
    pthread_mutex_lock(&table->lock);
    forget(table, request->idempotency);
    pthread_mutex_unlock(&table->lock);
    request->idempotency = NULL;
}

bool mob_idempotency_key(const struct mob_http_request *request, struct mob_module_hash *scope_out,
    struct mob_module_hash *body_out)
{
    const struct entry *entry = request->idempotency;
    if (!entry)
        return false;
    *scope_out = entry->scope;
    *body_out = entry->body;
    return true;
}

/* --- answers in the control store: u32 status, u32 bytes of headers, headers as in the reply, body --- */

struct kept_answer {
    uint32_t status, headers_length;
};

uint8_t *mob_idempotency_encode(const struct mob_http_request *request, size_t *length_out)
{
    const struct mob_http_reply *reply = &request->reply;
    struct kept_answer head = {(uint32_t)reply->status, (uint32_t)reply->headers_length};
    size_t length = sizeof head + reply->headers_length + reply->body_length;
    if (!request->idempotency || !is_kept(reply) || length > MOB_IDEMPOTENCY_ROW_MAX)
        return NULL;
    uint8_t *out = malloc(length);
    if (!out)
        return NULL;
    memcpy(out, &head, sizeof head);
    if (reply->headers_length > 0)
        memcpy(out + sizeof head, reply->headers, reply->headers_length);
    if (reply->body_length > 0)
        memcpy(out + sizeof head + reply->headers_length, reply->body, reply->body_length);
    *length_out = length;
    return out;
}

void mob_idempotency_mark(struct mob_http_request *request)
{
    struct entry *entry = request->idempotency;
    if (entry)
        entry->again = true;
}

bool mob_idempotency_restore(struct mob_http_request *request, const uint8_t *bytes, size_t length)
{
    struct kept_answer head;
    if (length < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    const char *headers = (const char *)bytes + sizeof head;
    if (head.headers_length > length - sizeof head || head.status < 200 || head.status > 599 ||
        (head.headers_length > 0 && headers[head.headers_length - 1] != 0))
        return false;
    reply_headers(request, headers, head.headers_length);
    mob_http_reply(request, (int)head.status, NULL, headers + head.headers_length,
        length - sizeof head - head.headers_length);
    return true;
}
