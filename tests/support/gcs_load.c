#include "tests/support/gcs_load.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "tests/support/gcs_box.h"
#include "tests/support/xorshift.h"

#define TASKS GCS_LOAD_TASKS
#define BLOCK_BYTES 2048u
#define TEND_NS (5 * MOB_MS)

__attribute__((format(printf, 2, 3))) static void wrong(struct gcs_load *l, const char *format, ...)
{
    if (l->wrong[0] != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(l->wrong, sizeof l->wrong, format, arguments);
    va_end(arguments);
}

uint64_t gcs_load_random(struct gcs_load *l)
{
    return xorshift(&l->random);
}

/* ---- keys ---- */

static void on_answer(void *arg, const struct mob_gcs_answer *a)
{
    struct gcs_load_client *c = arg;
    struct gcs_load *l = c->load;
    const struct gcs_op *op = &l->history.ops[c->op];
    uint64_t value = 0;
    bool absent = !op->put && a->status == MOB_NOT_FOUND;
    c->busy = false;
    c->next_ns = mob_now() + (int64_t)(gcs_load_random(l) % (uint64_t)(l->options.think_ns_max + 1));
    if (a->status != MOB_OK && !absent) {
        wrong(l, "client %u: %s was answered with %s", c->number, op->put ? "a put" : "a get",
            mob_status_code(a->status));
        return;
    }
    if (!op->put && !absent) {
        if (a->kvs[0].value_length != sizeof value) {
            wrong(l, "a value of %u bytes was read", a->kvs[0].value_length);
            return;
        }
        memcpy(&value, a->kvs[0].value, sizeof value);
    }
    gcs_history_return(&l->history, c->op, GCS_OP_DONE, value);
    l->answered++;
    int64_t now = mob_now();
    if (now - l->progress_ns > l->longest_ns)
        l->longest_ns = now - l->progress_ns;
    l->progress_ns = now;
}

static void begin(struct gcs_load_client *c, bool put, uint32_t key)
{
    struct gcs_load *l = c->load;
    char name[16];
    gcs_history_key(key, name);
    struct gcs_op op = {.client = c->number, .key = key, .put = put};
    if (put)
        op.value = (uint64_t)c->number << 32 | ++c->values;
    c->op = gcs_history_call(&l->history, &op);
    c->busy = true;
    struct mob_gcs_put request = {.table = MOB_GCS_KV,
        .key = name,
        .key_length = (uint32_t)strlen(name),
        .value = &op.value,
        .value_length = sizeof op.value,
        .if_version = MOB_GCS_ANY_VERSION};
    enum mob_status status = put
        ? mob_gcs_put(c->gcs, &request, on_answer, c)
        : mob_gcs_get(c->gcs, MOB_GCS_KV, name, (uint32_t)strlen(name), on_answer, c);
    if (status != MOB_OK)
        wrong(l, "client %u: a request was refused: %s", c->number, mob_status_code(status));
}

static void begin_any(struct gcs_load_client *c)
{
    struct gcs_load *l = c->load;
    uint64_t random = gcs_load_random(l);
    uint32_t at = (uint32_t)(random >> 8) % GCS_LOAD_KEYS;
    if (l->key_ops[at]++ >= GCS_LOAD_KEY_OPS) {
        l->keys[at] = l->next_key++;
        l->key_ops[at] = 1;
    }
    begin(c, (random >> 40) % 2 == 0, l->keys[at]);
}

static void on_link(void *arg, enum mob_status status)
{
    struct gcs_load_client *c = arg;
    c->link = status;
}

static void client_begin(struct gcs_load *l, struct gcs_load_client *c)
{
    struct mob_gcs_options options = {
        .socket_path = l->options.sockets, .secret = gcs_box_secret, .on_link = on_link, .arg = c};
    *c = (struct gcs_load_client){.load = l, .number = ++l->next_number, .link = MOB_AGAIN};
    MOB_ASSERT(mob_gcs_create(&options, &c->gcs) == MOB_OK);
}

void gcs_load_crash_client(struct gcs_load *l, uint32_t i)
{
    mob_gcs_destroy(l->clients[i].gcs);
    client_begin(l, &l->clients[i]);
}

/* ---- blocks ---- */

static void on_acked(void *arg, uint64_t count)
{
    struct gcs_load *l = arg;
    if (count <= l->acked || count > l->appended)
        wrong(l, "blocks acknowledged: %llu, after %llu of %llu", (unsigned long long)count,
            (unsigned long long)l->acked, (unsigned long long)l->appended);
    l->acked = count;
}

static void on_released(void *arg, struct mob_gcs_block *block)
{
    struct gcs_load *l = arg;
    l->released++;
    free(block);
}

static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    wrong(arg, "the log was sealed: %s, cut %llu", mob_status_code(why), (unsigned long long)cut);
}

static void on_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct gcs_load *l = arg;
    if (row->incarnation != l->incarnation)
        return;
    if (l->resynced && row->number > l->followed)
        l->followed = row->number;
    l->resynced = false;
    bool good = row->number == l->followed && row->number < l->appended &&
        mob_hash64(row->bytes, row->length) == l->hashes[row->number];
    if (!good)
        wrong(l, "the stream gives block %llu where %llu follows, or another content",
            (unsigned long long)row->number, (unsigned long long)l->followed);
    l->followed++;
}

static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    struct gcs_load *l = arg;
    l->resynced = true;
    if (!l->options.flushed)
        wrong(l, "a hole in the stream: after %llu, before %llu", (unsigned long long)after,
            (unsigned long long)next);
}

static void append_block(struct gcs_load *l)
{
    struct gcs_block_spec spec = gcs_block_nth(l->incarnation, l->appended, TASKS);
    struct mob_gcs_block *block = gcs_block_new(&spec);
    l->hashes[l->appended] = mob_hash64(block->bytes, block->length);
    l->appended++;
    enum mob_status status = mob_gcs_log_append(l->log, block);
    if (status != MOB_OK)
        wrong(l, "a block was refused: %s", mob_status_code(status));
}

static void log_open(struct gcs_load *l)
{
    struct mob_gcs_options options = {.socket_path = l->options.sockets, .secret = gcs_box_secret};
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, l};
    struct mob_gcs_sub_events stream = {on_block, on_resync, l};
    struct mob_gcs_sub *sub;
    int64_t deadline = mob_now() + 40 * MOB_SEC;
    l->hashes = calloc(GCS_LOAD_BLOCKS_MAX, sizeof *l->hashes);
    MOB_ASSERT(mob_gcs_create(&options, &l->writer) == MOB_OK);
    MOB_ASSERT(mob_gcs_create(&options, &l->follower) == MOB_OK);
    if (mob_gcs_node_register_wait(l->writer, "node", deadline, &l->incarnation) != MOB_OK) {
        wrong(l, "no incarnation");
        return;
    }
    MOB_ASSERT(mob_gcs_log_open(l->writer, l->incarnation, 0, &events, &l->log) == MOB_OK);
    MOB_ASSERT(mob_gcs_subscribe(l->follower, 0, &stream, &sub) == MOB_OK);
}

/* ---- the loop ---- */

static void submit(struct gcs_load *l, int64_t now)
{
    while (l->log != NULL && l->appended - l->acked < l->options.window &&
        l->appended - l->released < 16 * (uint64_t)l->options.window && l->appended < GCS_LOAD_BLOCKS_MAX)
        append_block(l);
    for (uint32_t i = 0; i < l->client_count; i++)
        if (!l->clients[i].busy && now >= l->clients[i].next_ns)
            begin_any(&l->clients[i]);
}

static void step(struct gcs_load *l, bool submits)
{
    struct pollfd fds[GCS_LOAD_CLIENTS_MAX + 2];
    int64_t now = mob_now(), next = now + 5 * MOB_MS;
    nfds_t n = 0;
    if (submits)
        submit(l, now);
    for (uint32_t i = 0; i < l->client_count + 2; i++) {
        struct mob_gcs *gcs = i < l->client_count ? l->clients[i].gcs
            : i == l->client_count                ? l->writer
                                                  : l->follower;
        if (gcs == NULL)
            continue;
        int64_t at = mob_gcs_step(gcs, mob_now());
        next = at < next ? at : next;
        if (i < l->client_count && submits && !l->clients[i].busy && l->clients[i].next_ns < next)
            next = l->clients[i].next_ns;
        fds[n++] = (struct pollfd){.fd = mob_gcs_fd(gcs), .events = POLLIN};
    }
    if (l->options.tend != NULL && now - l->tended_ns > TEND_NS) {
        l->options.tend(l->options.arg);
        l->tended_ns = now;
    }
    int64_t left = next - mob_now();
    struct timespec pause = {0, left > 0 ? left : 0};
    ppoll(fds, n, &pause, NULL);
}

void gcs_load_init(struct gcs_load *l, const struct gcs_load_options *options)
{
    *l = (struct gcs_load){.options = *options, .random = options->seed * 2 + 1};
    if (l->options.think_ns_max == 0)
        l->options.think_ns_max = 2 * MOB_MS;
    l->client_count = options->clients == 0 ? 6 : options->clients;
    MOB_ASSERT(l->client_count <= GCS_LOAD_CLIENTS_MAX);
    for (uint32_t i = 0; i < GCS_LOAD_KEYS; i++)
        l->keys[i] = l->next_key++;
    for (uint32_t i = 0; i < 8; i++)
        gcs_load_random(l);
    for (uint32_t i = 0; i < l->client_count; i++)
        client_begin(l, &l->clients[i]);
    if (options->window > 0)
        log_open(l);
    l->progress_ns = mob_now();
}

void gcs_load_for(struct gcs_load *l, int64_t ns)
{
    for (int64_t deadline = mob_now() + ns; l->wrong[0] == 0 && mob_now() < deadline;)
        step(l, true);
}

void gcs_load_steps(struct gcs_load *l, uint64_t steps, int64_t patience_ns)
{
    uint64_t answers = l->answered + steps, blocks = l->log == NULL ? 0 : l->acked + steps;
    int64_t deadline = mob_now() + patience_ns;
    while (l->wrong[0] == 0 && (l->answered < answers || l->acked < blocks)) {
        if (mob_now() > deadline)
            wrong(l, "stuck: %llu answers of %llu, %llu blocks of %llu", (unsigned long long)l->answered,
                (unsigned long long)answers, (unsigned long long)l->acked, (unsigned long long)blocks);
        step(l, true);
    }
}

static bool settled(const struct gcs_load *l)
{
    bool busy = l->acked < l->appended || (l->followed < l->appended && !l->options.flushed);
    for (uint32_t i = 0; i < l->client_count; i++)
        busy |= l->clients[i].busy;
    return !busy;
}

static void settle(struct gcs_load *l, int64_t deadline)
{
    while (l->wrong[0] == 0 && !settled(l)) {
        uint32_t waiting = 0;
        for (uint32_t i = 0; i < l->client_count; i++)
            waiting += l->clients[i].busy;
        if (mob_now() > deadline)
            wrong(l, "not settled: %u requests, blocks acked %llu followed %llu of %llu", waiting,
                (unsigned long long)l->acked, (unsigned long long)l->followed,
                (unsigned long long)l->appended);
        step(l, false);
    }
}

/* Each block of the log by its number. */
static void read_log(struct gcs_load *l, struct mob_gcs *gcs, int64_t deadline)
{
    uint64_t number = 0, next = 0;
    bool found = false;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *result = NULL;
        enum mob_status status = mob_gcs_log_read(gcs, l->incarnation, next, mob_gcs_sync_done, &sync);
        if (status == MOB_OK)
            status = mob_gcs_sync_wait(gcs, &sync, deadline, &result);
        if (status != MOB_OK) {
            wrong(l, "the log cannot be read: %s", mob_status_code(status));
            return;
        }
        const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < a->block_count; i++, number++) {
            const struct mob_gcs_block_row *row = &a->blocks[i];
            if (l->options.flushed && !found)
                number = row->number;
            found = true;
            if (row->number != number || number >= l->appended ||
                mob_hash64(row->bytes, row->length) != l->hashes[number])
                wrong(l, "the log has block %llu at place %llu, or another content",
                    (unsigned long long)row->number, (unsigned long long)number);
        }
        next = a->next;
        mob_gcs_result_destroy(result);
    } while (next != 0 && l->wrong[0] == 0);
    if (number != l->appended && (found || !l->options.flushed))
        wrong(l, "%llu blocks acknowledged, %llu there", (unsigned long long)l->appended,
            (unsigned long long)number);
}

void gcs_load_finish(struct gcs_load *l, int64_t patience_ns)
{
    int64_t deadline = mob_now() + patience_ns;
    settle(l, deadline);
    /* A client that knows nothing reads every key once more: its reads are part of the history. */
    for (uint32_t i = 0; i < l->client_count; i++) {
        mob_gcs_destroy(l->clients[i].gcs);
        l->clients[i].gcs = NULL;
    }
    l->client_count = 1;
    client_begin(l, &l->clients[0]);
    for (uint32_t key = 0; key < l->next_key && l->wrong[0] == 0; key++) {
        begin(&l->clients[0], false, key);
        settle(l, deadline);
    }
    if (l->log != NULL && l->wrong[0] == 0)
        read_log(l, l->clients[0].gcs, deadline);
    gcs_history_check(&l->history, &l->verdict);
    if (l->verdict.violated)
        wrong(l, "key %u: its history is not linearizable", l->verdict.key);
    if (l->verdict.given_up * 10 > l->verdict.keys)
        wrong(l, "%zu of %zu histories were too long to decide", l->verdict.given_up, l->verdict.keys);
}

void gcs_load_fini(struct gcs_load *l)
{
    for (uint32_t i = 0; i < l->client_count; i++)
        mob_gcs_destroy(l->clients[i].gcs);
    mob_gcs_destroy(l->writer);
    mob_gcs_destroy(l->follower);
    gcs_history_fini(&l->history);
    free(l->hashes);
}
