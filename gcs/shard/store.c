/* Passes of writes to Redis. What is small and changes often goes to the journal (journal.c), in one APPEND
 * that says the position, too; blocks and other rows are one MSET, with the position. Each is atomic, one
 * command in the append-only file, one answer; a pass that has both, or deletions, is MULTI, MSET, APPEND,
 * UNLINK, EXEC. Large passes are pipelined, small ones wait for each other (store_pass_waits). When Redis
 * comes back after its death the chain gives what it lacks again.
 */
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>

#include "common/base/log_value.h"
#include "common/base/failpoint.h"

#define REFUSED_PAUSE_NS (500 * MOB_MS) /* before Redis is tried again that refused a pass */

/* ---- building a pass ---- */

static void pass_done(void *arg, struct mob_redis_batch *batch, enum mob_status status);
static void pass_reply(void *arg, const redisReply *reply, uint32_t index);

size_t store_open_bytes(const struct mob_shard *sh)
{
    return sh->store.open == NULL ? 0 : sh->store.open->bytes + sh->store.journal.open_length;
}

uint64_t store_open_pass(const struct mob_shard *sh)
{
    return sh->store.closed_passes + 1;
}

static struct mob_redis_batch *open_pass(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    if (st->open == NULL) {
        st->open = mob_redis_batch_create();
        st->open->done = pass_done;
        st->open->reply = pass_reply;
        st->open->arg = sh;
        st->open_ns = sh->now_ns;
        mob_redis_mset_begin(st->open);
        st->open_pairs = st->open_deletes = st->open_logs = 0;
        st->delete_bytes = 0;
    }
    return st->open;
}

static void set_pair(
    struct mob_shard *sh, const void *key, size_t key_length, const void *value, size_t length)
{
    struct mob_redis_batch *b = open_pass(sh);
    mob_redis_arg(b, key, key_length);
    mob_redis_arg(b, value, length);
    sh->store.open_pairs++;
}

static void delete_key(struct mob_shard *sh, const void *key, size_t length)
{
    struct mob_store *st = &sh->store;
    open_pass(sh);
    uint16_t n = (uint16_t)length;
    if (st->delete_bytes + sizeof n + length > st->delete_capacity) {
        st->delete_capacity = st->delete_capacity * 2 + 4096;
        st->deletes = realloc(st->deletes, st->delete_capacity);
        MOB_ASSERT(st->deletes != NULL);
    }
    memcpy(st->deletes + st->delete_bytes, &n, sizeof n);
    memcpy(st->deletes + st->delete_bytes + sizeof n, key, length);
    st->delete_bytes += sizeof n + length;
    st->open_deletes++;
}

void store_set(struct mob_shard *sh, const void *key, size_t key_length, const void *value, size_t length)
{
    if (sh->store.link != NULL)
        set_pair(sh, key, key_length, value, length);
}

void store_delete(struct mob_shard *sh, const void *key, size_t length)
{
    delete_key(sh, key, length);
}

/* How many blocks each touched log has, once a pass. */
static void put_logs(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    for (uint32_t i = 0; i < st->open_logs; i++) {
        uint8_t key[9];
        mob_redis_key(key, 'i', st->open_log[i].id);
        set_pair(sh, key, sizeof key, &st->open_log[i], sizeof st->open_log[i]);
    }
    st->open_logs = 0;
}

/* As the entry left it: the tables may be further on when entries are written again. */
static void touch_log(
    struct mob_shard *sh, uint64_t incarnation, enum mob_gcs_incarnation_state state, uint64_t blocks)
{
    struct mob_store *st = &sh->store;
    uint32_t i = 0;
    while (i < st->open_logs && st->open_log[i].id != incarnation)
        i++;
    if (i == sizeof st->open_log / sizeof st->open_log[0]) {
        put_logs(sh);
        i = 0;
    }
    if (i == st->open_logs) {
        st->open_log[i] = *mob_state_incarnation(sh->state, incarnation); /* for its name */
        st->open_logs++;
    }
    st->open_log[i].state = state;
    st->open_log[i].blocks = blocks;
}

static void close_pass(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    struct mob_redis_batch *b = st->open;
    if (b == NULL)
        return;
    put_logs(sh);
    /* With masters it is told by the newest entry how far a store is; else it is the chain's own epoch. */
    uint64_t epoch = shard_has_masters(sh) ? st->open_epoch : mob_chain_epoch(sh->chain);
    struct mob_redis_position position = {.epoch = epoch, .seq = st->open_seq};
    journal_name(sh);
    bool journal = st->journal.open_length > 0;
    if (!journal || st->open_pairs > 0 || st->open_deletes > 0)
        set_pair(sh, "s", 1, &position, sizeof position);
    bool multi = st->open_deletes > 0 || (journal && st->open_pairs > 0);
    mob_redis_mset_end(b, st->open_pairs, multi);
    journal_close(sh, b, &position);
    if (st->open_deletes > 0) {
        mob_redis_command(b, 1 + st->open_deletes);
        mob_redis_arg(b, "UNLINK", 6);
        for (size_t at = 0; at < st->delete_bytes;) {
            uint16_t n;
            memcpy(&n, st->deletes + at, sizeof n);
            mob_redis_arg(b, st->deletes + at + sizeof n, n);
            at += sizeof n + n;
        }
    }
    if (multi) {
        mob_redis_command(b, 1);
        mob_redis_arg(b, "EXEC", 4);
    }
    b->seq = st->open_seq;
    b->number = ++st->closed_passes;
    st->open = NULL;
    if (st->closed.last != NULL)
        st->closed.last->next = b;
    else
        st->closed.first = b;
    st->closed.last = b;
}

/* A pass sets before it deletes, so a set behind a deletion begins the next. */
void store_before_set(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    if (st->open != NULL && (st->open_deletes > 0 || store_open_bytes(sh) > PASS_BYTES_MAX))
        close_pass(sh);
}

static void put_block(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    struct mob_redis_block head = {
        .epoch = mob_chain_epoch(sh->chain), .incarnation = e->client, .number = e->number};
    uint8_t key[9];
    open_pass(sh);
    touch_log(sh, e->client, MOB_GCS_LIVE, e->request);
    if (e->seq <= sh->flushed.stored)
        return; /* of a joiner's log, and flushed before its snapshot ended: its FLUSH deletes nothing */
    mob_redis_key(key, 'b', e->seq);
    struct mob_redis_batch *b = open_pass(sh);
    mob_redis_arg(b, key, sizeof key);
    mob_redis_arg_ref(b, &head, sizeof head, e->body, e->body_bytes);
    sh->store.open_pairs++;
}

static size_t kv_key(uint8_t out[MOB_REDIS_KEY_MAX], const struct mob_chain_entry *e)
{
    out[0] = 'k';
    out[1] = e->table;
    memcpy(out + 2, e->body, e->key_length);
    return 2u + e->key_length;
}

static void journal_row(struct mob_shard *sh, uint8_t kind, const uint8_t *key, size_t length)
{
    struct mob_journal_row row = {.kind = kind, .key = key, .key_length = (uint32_t)length};
    journal_add(sh, &row, NULL, 0);
}

/* What the tables do not hold is read under its own key. */
static void put_value(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    uint8_t key[MOB_REDIS_KEY_MAX];
    size_t key_length = kv_key(key, e);
    uint32_t length = e->body_bytes - e->key_length;
    struct mob_redis_batch *b = open_pass(sh);
    if (length <= MOB_STATE_INLINE_MAX) {
        struct mob_journal_row row = {.kind = MOB_JOURNAL_SET,
            .key = key,
            .key_length = (uint32_t)key_length,
            .value = e->body + e->key_length,
            .value_length = length};
        journal_add(sh, &row, &e->version, sizeof e->version);
        return;
    }
    mob_redis_arg(b, key, key_length);
    mob_redis_arg_ref(b, &e->version, sizeof e->version, e->body + e->key_length, length);
    sh->store.open_pairs++;
    journal_row(sh, MOB_JOURNAL_OUTSIDE, key, key_length);
}

static void put_effect(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    uint8_t key[MOB_REDIS_KEY_MAX];
    switch ((enum mob_gcs_op)e->op) {
    case MOB_GCS_OP_APPEND:
        put_block(sh, e);
        break;
    case MOB_GCS_OP_PUT:
    case MOB_GCS_OP_LOSS:
        put_value(sh, e);
        break;
    case MOB_GCS_OP_DELETE:
        journal_row(sh, MOB_JOURNAL_GONE, key, kv_key(key, e));
        break;
    case MOB_GCS_OP_REGISTER:
        touch_log(sh, e->number, MOB_GCS_LIVE, 0);
        break;
    case MOB_GCS_OP_SEAL:
        touch_log(sh, e->target, e->version != 0 ? MOB_GCS_RECOVERED : MOB_GCS_SEALED, e->number);
        store_forget(sh, e->target);
        break;
    case MOB_GCS_OP_RECOVERED:
        touch_log(sh, e->target, MOB_GCS_RECOVERED, e->number);
        break;
    case MOB_GCS_OP_JOB_DROP:
        for (size_t i = 0; i < e->drop_count; i++) {
            mob_redis_key(key, 'b', e->drops[i]);
            delete_key(sh, key, 9);
        }
        break;
    case MOB_GCS_OP_EXPIRE:
        store_forget(sh, e->target);
        break;
    case MOB_GCS_OP_OPEN: {
        struct mob_redis_identity identity = attach_opened(sh, e->target, e->number);
        mob_redis_key(key, 'c', e->number);
        set_pair(sh, key, 9, &identity, sizeof identity);
        break;
    }
    case MOB_GCS_OP_FLUSH:
        flushed_store(sh, e);
        break;
    case MOB_GCS_OPS:
        MOB_ASSERT(false);
    }
}

static size_t reply_key(uint8_t out[10], uint64_t client, uint64_t request)
{
    mob_redis_key(out, 'r', client);
    out[9] = (uint8_t)(request % MOB_GCS_WINDOW);
    return 10;
}

void store_entry(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    /* While Redis is away nothing is queued: the chain gives all that it lacks when it is back. */
    if (sh->store.link == NULL)
        return;
    store_before_set(sh);
    open_pass(sh);
    uint64_t keeper = mob_chain_entry_keeper(e);
    if ((keeper & MOB_GCS_CLIENT_BIT) != 0) {
        struct mob_gcs_reply reply = mob_chain_reply_of(e);
        uint8_t key[10];
        struct mob_journal_row row = {
            .kind = MOB_JOURNAL_SET, .key = key, .key_length = (uint32_t)reply_key(key, keeper, e->request)};
        journal_add(sh, &row, &reply, sizeof reply);
    }
    if (e->status == MOB_OK)
        put_effect(sh, e);
    sh->store.open_seq = e->seq;
    sh->store.open_epoch = e->epoch;
}

void store_position(struct mob_shard *sh, uint64_t epoch, uint64_t seq)
{
    if (sh->store.link == NULL)
        return;
    store_before_set(sh);
    open_pass(sh);
    sh->store.open_epoch = epoch;
    sh->store.open_seq = seq;
}

/* Those that were not sent. */
static void drop_passes(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    mob_redis_batch_destroy(st->open);
    st->open = NULL;
    for (struct mob_redis_batch *b = st->closed.first, *next; b != NULL; b = next) {
        next = b->next;
        mob_redis_batch_destroy(b);
    }
    st->closed = (struct pass_queue){0};
    journal_reset(sh);
}

/* What was not sent yet is void with the rest; FLUSHDB stands in a batch of its own, between the passes. */
void store_wipe(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    drop_passes(sh);
    st->void_passes = st->closed_passes;
    st->stored = st->open_seq = st->open_epoch = 0;
    sh->durable.synced = 0;
    sh->durable.void_sync = sh->durable.busy;
    sh->durable.wiped = true;
    sh->durable.aof_bytes = 0; /* not known yet */
    if (st->link == NULL)
        return;
    struct mob_redis_batch *wipe = mob_redis_batch_create();
    wipe->done = pass_done;
    wipe->reply = pass_reply;
    wipe->arg = sh;
    wipe->number = ++st->closed_passes;
    st->void_passes = wipe->number;
    mob_redis_command(wipe, 2);
    mob_redis_arg(wipe, "FLUSHDB", 7);
    mob_redis_arg(wipe, "ASYNC", 5);
    mob_redis_command(wipe, 3);
    mob_redis_arg(wipe, "SET", 3);
    mob_redis_arg(wipe, "format", 6);
    mob_redis_arg(wipe, MOB_REDIS_FORMAT, sizeof MOB_REDIS_FORMAT - 1);
    st->passes++;
    mob_redis_submit(st->link, wipe);
    store_meta(sh);
}

void store_client_rows(
    struct mob_shard *sh, uint64_t client, const struct mob_gcs_reply *replies, uint32_t count)
{
    if ((client & MOB_GCS_CLIENT_BIT) == 0 || sh->store.link == NULL)
        return; /* a log: its row and its blocks say all */
    uint8_t key[10];
    struct mob_redis_identity unknown = {0};
    mob_redis_key(key, 'c', client);
    set_pair(sh, key, 9, &unknown, sizeof unknown);
    for (uint32_t i = 0; i < count; i++)
        set_pair(sh, key, reply_key(key, client, replies[i].request), &replies[i], sizeof replies[i]);
}

void store_identity(struct mob_shard *sh, const struct attached *a)
{
    if (sh->store.link == NULL)
        return;
    store_before_set(sh);
    uint8_t key[9];
    mob_redis_key(key, 'c', a->client);
    set_pair(sh, key, sizeof key, &a->identity, sizeof a->identity);
}

void store_forget(struct mob_shard *sh, uint64_t client)
{
    if (sh->store.link == NULL)
        return;
    uint8_t key[10];
    for (uint32_t slot = 0; slot < MOB_GCS_WINDOW && (client & MOB_GCS_CLIENT_BIT) != 0; slot++)
        delete_key(sh, key, reply_key(key, client, slot));
    mob_redis_key(key, 'c', client);
    delete_key(sh, key, 9);
    if ((client & MOB_GCS_CLIENT_BIT) != 0)
        journal_row(sh, MOB_JOURNAL_GONE, key, 9);
}

void store_meta(struct mob_shard *sh)
{
    store_before_set(sh);
    set_pair(sh, "m", 1, &sh->store.meta, sizeof sh->store.meta);
}

/* ---- passes under way ---- */

static void pass_reply(void *arg, const redisReply *reply, uint32_t index)
{
    (void)index;
    struct mob_shard *sh = arg;
    /* An EXEC of which a command failed answers an array with the error inside. */
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_ERROR) {
            MOB_LOG_ERROR("gcs", "redis_exec_failed", "error=\"%s\"", MOB_LOG_VALUE(reply->element[i]->str));
            sh->failure = MOB_IO;
        }
}

static void pass_done(void *arg, struct mob_redis_batch *batch, enum mob_status status)
{
    struct mob_shard *sh = arg;
    struct mob_store *st = &sh->store;
    st->passes--;
    if (status == MOB_UNAVAILABLE)
        return;
    if (status != MOB_OK) {
        /* Refused (its disk is full, it is out of memory): nothing behind it may count. Connect again, and
         * retry. */
        st->retry_ns = sh->now_ns + REFUSED_PAUSE_NS;
        st->broken = st->refuses = true;
        return;
    }
    st->refuses = false;
    (void)MOB_FAILPOINT("gcs.after_exec");
    if (batch->number > st->stored_passes)
        st->stored_passes = batch->number;
    if (batch->seq > st->stored && batch->number > st->void_passes)
        st->stored = batch->seq;
    durable_stored(sh, batch->bytes);
}

void store_flush(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    if (st->link == NULL || st->hold || st->broken)
        return;
    while (st->passes < PASSES_MAX) {
        if (st->closed.first == NULL && store_pass_waits(sh))
            return;
        if (st->closed.first == NULL) {
            journal_trim(sh);
            close_pass(sh);
        }
        struct mob_redis_batch *b = st->closed.first;
        if (b == NULL || !noted_before(sh, b->seq))
            return;
        st->closed.first = b->next;
        if (b->next == NULL)
            st->closed.last = NULL;
        st->passes++;
        (void)MOB_FAILPOINT("gcs.before_exec");
        mob_redis_submit(st->link, b);
    }
}

bool store_idle(const struct mob_shard *sh)
{
    const struct mob_store *st = &sh->store;
    return st->link != NULL && st->passes == 0 && st->open == NULL && st->closed.first == NULL;
}

void store_drop_unsent(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    drop_passes(sh); /* the next connection reads what there is */
    MOB_ASSERT(st->passes == 0);
}
