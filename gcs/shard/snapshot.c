/* The state that the chain's tables do not hold, for a joiner (snapshot_load.c): blocks, large values, who
 * the clients are, what was flushed. Rows are read from Redis once that has all that was applied when they
 * were asked for; what changes meanwhile comes to the joiner in the log. */
#include <stdlib.h>

#include "common/base/failpoint.h"
#include "gcs/chain/chain_rows.h"
#include "gcs/shard/snapshot_rows.h"

/* What a cursor begins with; the rest says behind what. */
enum part { PART_BLOCKS = 1, PART_VALUES, PART_IDENTITIES, PART_COLD };

#define BATCH_BYTES MOB_CHAIN_SNAPSHOT_BYTES
#define FETCHES_MAX 256u
#define IDENTITIES_AT_ONCE 1024u
#define COLD_AT_ONCE 8192u
#define LOST_PAUSE_NS MOB_SEC /* before rows are read again of which Redis lacks one */

/* A row that Redis is asked for, as the tables had it. */
struct row_fetch {
    uint64_t seq; /* a block; 0: a value */
    uint64_t version; /* of a value */
    uint32_t length; /* in Redis */
    uint8_t key[MOB_REDIS_KEY_MAX];
    uint32_t key_length; /* with kind and table */
};
/* One batch on its way. */
struct batch {
    struct mob_shard *shard;
    uint64_t joiner, token;
    uint64_t stored, restarts; /* what Redis had when it was asked, and which Redis */
    bool lost; /* it lacks a row that it had */
    struct row_fetch fetches[FETCHES_MAX];
    uint32_t fetch_count;
    uint8_t cursor[MOB_CHAIN_CURSOR_MAX];
    uint32_t cursor_bytes;
    uint8_t *rows;
    struct mob_writer writer;
};

static struct batch *batch_create(struct mob_shard *sh)
{
    struct batch *b = calloc(1, sizeof *b);
    MOB_ASSERT(b != NULL);
    b->shard = sh;
    b->joiner = sh->member.rows.joiner;
    b->token = sh->member.rows.token;
    b->stored = sh->store.stored;
    b->restarts = sh->store.restarts;
    b->rows = malloc(MOB_CHAIN_SNAPSHOT_MAX);
    MOB_ASSERT(b->rows != NULL);
    b->writer = mob_writer_of(b->rows, MOB_CHAIN_SNAPSHOT_MAX);
    return b;
}

static void batch_give(struct batch *b)
{
    struct mob_shard *sh = b->shard;
    struct mob_chain_rows rows = {.joiner = b->joiner,
        .token = b->token,
        .rows = b->rows,
        .row_bytes = (uint32_t)mob_writer_length(&b->writer),
        .cursor = b->cursor,
        .cursor_bytes = b->cursor_bytes};
    MOB_ASSERT(!b->writer.failed);
    struct mob_rows_ask *ask = &sh->member.rows;
    if (ask->joiner == b->joiner && ask->token == b->token)
        *ask = (struct mob_rows_ask){0};
    mob_chain_on_rows(sh->chain, &rows);
    serve_actions(sh);
    free(b->rows);
    free(b);
}

static void cursor_set(struct batch *b, enum part part, const void *after, uint32_t length)
{
    MOB_ASSERT(1u + length <= sizeof b->cursor);
    b->cursor[0] = (uint8_t)part;
    if (length > 0)
        memcpy(b->cursor + 1, after, length);
    b->cursor_bytes = 1u + length;
}

/* ---- from Redis ---- */

static bool is_as_picked(const struct row_fetch *f, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_STRING || (size_t)reply->len != f->length)
        return false;
    return f->seq != 0 || memcmp(&f->version, reply->str, sizeof f->version) == 0;
}

/* The tables, which are never behind Redis, still have what it does not have any more. */
static bool is_lost(const struct batch *b, const struct row_fetch *f)
{
    const struct mob_shard *sh = b->shard;
    if (f->seq != 0) {
        const struct mob_index_slot *slot = mob_index_slot(sh->index, mob_index_after(sh->index, f->seq - 1));
        return slot != NULL && slot->seq == f->seq;
    }
    struct mob_state_key key;
    return mob_chain_version_seq(f->version) <= b->stored &&
        mob_state_get(sh->state, f->key[1], f->key + 2, f->key_length - 2, &key) && key.version == f->version;
}

static void write_block(struct batch *b, uint64_t seq, const redisReply *reply)
{
    size_t length = sizeof seq + (size_t)reply->len;
    uint8_t *row = malloc(length);
    MOB_ASSERT(row != NULL);
    memcpy(row, &seq, sizeof seq);
    memcpy(row + sizeof seq, reply->str, (size_t)reply->len);
    mob_chain_row_write(&b->writer, ROW_BLOCK, row, (uint32_t)length);
    free(row);
}

static void write_value(struct batch *b, const struct row_fetch *f, const redisReply *reply)
{
    struct mob_gcs_kv kv = {.key = f->key + 2,
        .key_length = f->key_length - 2,
        .version = f->version,
        .value = (const uint8_t *)reply->str + sizeof kv.version,
        .value_length = f->length - (uint32_t)sizeof kv.version};
    mob_chain_row_write_key(&b->writer, f->key[1], &kv);
}

static void on_fetched(void *arg, const redisReply *reply, uint32_t index)
{
    struct batch *b = arg;
    const struct row_fetch *f = &b->fetches[index];
    if (reply->type == REDIS_REPLY_ERROR)
        return; /* the batch has failed */
    if (is_as_picked(f, reply)) {
        if (f->seq != 0)
            write_block(b, f->seq, reply);
        else
            write_value(b, f, reply);
        return;
    }
    if (b->lost || b->restarts != b->shard->store.restarts || !is_lost(b, f))
        return; /* gone since, or written anew: the log says so */
    b->lost = true;
    MOB_LOG_ERROR("gcs", "snapshot_row_lost",
        "joiner=%llx block=%llu table=%u version=%llu why=\"this member's Redis lacks what it had\"",
        (unsigned long long)b->joiner, (unsigned long long)f->seq, f->seq != 0 ? 0 : f->key[1],
        (unsigned long long)f->version);
}

void snapshot_disown(struct mob_shard *sh)
{
    if (!member_is_spare(sh) || sh->member.disowned)
        return;
    sh->member.disowned = true;
    life_set_synced(sh, false);
}

static void end_disowned(struct mob_shard *sh)
{
    struct mob_member *m = &sh->member;
    if (!member_is_spare(sh))
        m->disowned = false; /* the others have gone meanwhile */
    else if (sh->store.stored_passes >= m->life_pass)
        sh->failure = MOB_CORRUPT;
}

static void on_fetch_done(void *arg, struct mob_redis_batch *batch, enum mob_status status)
{
    (void)batch;
    struct batch *b = arg;
    struct mob_shard *sh = b->shard;
    bool another = b->restarts != sh->store.restarts; /* it is still being told what it lacks */
    sh->member.rows.fetching = false;
    if (status == MOB_OK && !sh->stopping && !b->lost && !another) {
        batch_give(b);
        return;
    }
    if (b->lost) { /* a joiner would be a synced member without that row */
        sh->member.rows.again_ns = sh->now_ns + LOST_PAUSE_NS;
        snapshot_disown(sh);
    }
    free(b->rows); /* the question stands */
    free(b);
}

static void fetch(struct batch *b)
{
    struct mob_redis_batch *batch = mob_redis_batch_create();
    for (uint32_t i = 0; i < b->fetch_count; i++) {
        mob_redis_command(batch, 2);
        mob_redis_arg(batch, "GET", 3);
        mob_redis_arg(batch, b->fetches[i].key, b->fetches[i].key_length);
    }
    batch->arg = b;
    batch->reply = on_fetched;
    batch->done = on_fetch_done;
    b->shard->member.rows.fetching = true;
    store_read(b->shard, batch);
}

/* ---- the parts ---- */

/* The index may be ahead of Redis by what this turn of the loop has applied. That is not for the snapshot: it
 * began earlier, so the joiner gets it in the log. A block that Redis does not have yet must not be picked
 * either, since what is left out in front of one that is sent counts as dropped (index_entry). */
static void pick_blocks(struct batch *b, uint64_t after)
{
    const struct mob_index *ix = b->shard->index;
    const uint64_t stored = b->shard->store.stored;
    bool more = false; /* for the next batch */
    size_t bytes = 0;
    for (uint32_t at = mob_index_after(ix, after); at < mob_index_end(ix); at++) {
        const struct mob_index_slot *slot = mob_index_slot(ix, at);
        if (slot == NULL)
            continue;
        if (slot->seq > stored)
            break;
        /* The last one may be as large as a frame is. */
        more = b->fetch_count == FETCHES_MAX || (b->fetch_count > 0 && bytes + slot->length > BATCH_BYTES);
        if (more)
            break;
        bytes += slot->length + 64u;
        struct row_fetch *f = &b->fetches[b->fetch_count++];
        f->seq = after = slot->seq;
        f->length = slot->length + (uint32_t)sizeof(struct mob_redis_block);
        mob_redis_key(f->key, 'b', slot->seq);
        f->key_length = 9;
    }
    if (more)
        cursor_set(b, PART_BLOCKS, &after, sizeof after);
    else
        cursor_set(b, PART_VALUES, NULL, 0);
}

/* Values that are too large for the tables. */
static void pick_values(struct batch *b, const uint8_t *after, uint32_t length)
{
    uint8_t last[1 + MOB_GCS_KEY_MAX];
    struct mob_state_key key;
    size_t bytes = 0;
    memcpy(last, after, length);
    while (mob_state_after(b->shard->state, last, length, &key)) {
        bool full = b->fetch_count == FETCHES_MAX ||
            (b->fetch_count > 0 && key.value == NULL && bytes + key.value_length > BATCH_BYTES);
        if (full) {
            cursor_set(b, PART_VALUES, last, length);
            return;
        }
        memcpy(last, key.bytes, key.length);
        length = key.length;
        if (key.value != NULL)
            continue;
        bytes += key.value_length + 600u;
        struct row_fetch *f = &b->fetches[b->fetch_count++];
        f->key[0] = 'k';
        memcpy(f->key + 1, key.bytes, key.length);
        f->key_length = 1 + key.length;
        f->version = key.version;
        f->length = key.value_length + (uint32_t)sizeof key.version;
    }
    cursor_set(b, PART_IDENTITIES, NULL, 0);
}

static void write_identities(struct batch *b, uint32_t from)
{
    const struct mob_shard *sh = b->shard;
    uint32_t at = from;
    for (; at < sh->attached_count && at < from + IDENTITIES_AT_ONCE; at++) {
        struct {
            uint64_t client;
            struct mob_redis_identity identity;
        } row = {sh->attached[at].client, sh->attached[at].identity};
        if (!sh->attached[at].nonce && row.identity.pid != 0)
            mob_chain_row_write(&b->writer, ROW_IDENTITY, &row, sizeof row);
    }
    if (from == 0 && sh->store.meta.base_count > 0)
        mob_chain_row_write(&b->writer, ROW_BASES, sh->store.meta.bases,
            sh->store.meta.base_count * (uint32_t)sizeof sh->store.meta.bases[0]);
    if (at < sh->attached_count) /* its order changes: one that is missed is waited for like a stranger */
        cursor_set(b, PART_IDENTITIES, &at, sizeof at);
    else
        cursor_set(b, PART_COLD, NULL, 0);
}

static void cold_forget(struct mob_member *m)
{
    free(m->cold);
    m->cold = NULL;
    m->cold_count = 0;
    m->cold_joiner = 0;
}

/* A batch may be asked for again, also after the answer to the first question has left, and whoever has that
 * goes on in the same list: so it stays as it is for as long as this joiner's attempt. */
static void write_cold(struct batch *b, uint32_t from)
{
    struct mob_member *m = &b->shard->member;
    if (m->cold_joiner != b->joiner || m->cold_token != b->token) {
        cold_forget(m);
        m->cold = mob_index_cold_groups(b->shard->index, false, &m->cold_count);
        m->cold_upto = b->shard->flushed.applied;
        m->cold_joiner = b->joiner;
        m->cold_token = b->token;
    }
    uint32_t n = 0;
    if (m->cold_count > from)
        n = m->cold_count - from < COLD_AT_ONCE ? (uint32_t)(m->cold_count - from) : COLD_AT_ONCE;
    if (n > 0)
        mob_chain_row_write(&b->writer, ROW_COLD, m->cold + from, n * (uint32_t)sizeof *m->cold);
    from += n;
    if (from < m->cold_count) {
        cursor_set(b, PART_COLD, &from, sizeof from);
        return;
    }
    mob_chain_row_write(&b->writer, ROW_COLD_UPTO, &m->cold_upto, sizeof m->cold_upto);
    b->cursor_bytes = 0; /* that was all */
}

void snapshot_fini(struct mob_shard *sh)
{
    cold_forget(&sh->member);
}

/* While rows are fetched, for a joiner that has died meanwhile, say, another one's question waits for its
 * turn: the chain hands it on once. */
void snapshot_ask(struct mob_shard *sh, const struct mob_gcs_link_msg *m)
{
    struct mob_rows_ask *ask = &sh->member.rows;
    bool again = ask->joiner == m->from && ask->token == m->link.token;
    if ((ask->fetching && again) || m->body_bytes > sizeof ask->cursor)
        return;
    *ask = (struct mob_rows_ask){.joiner = m->from,
        .token = m->link.token,
        .gate = mob_chain_applied(sh->chain),
        .again_ns = ask->again_ns,
        .fetching = ask->fetching,
        .cursor_bytes = m->body_bytes};
    if (m->body_bytes > 0)
        memcpy(ask->cursor, m->body, m->body_bytes);
}

void snapshot_step(struct mob_shard *sh)
{
    struct mob_rows_ask *ask = &sh->member.rows;
    uint64_t joiner = 0, lag;
    bool joins = mob_chain_join(sh->chain, &joiner, &lag);
    if (sh->member.cold_joiner != 0 && joiner != sh->member.cold_joiner)
        cold_forget(&sh->member);
    if (sh->member.disowned)
        end_disowned(sh);
    if (sh->member.disowned || ask->joiner == 0 || ask->fetching)
        return;
    if (!joins || joiner != ask->joiner) { /* it asks no more */
        *ask = (struct mob_rows_ask){0};
        return;
    }
    if (sh->store.stored < ask->gate || sh->now_ns < ask->again_ns)
        return;
    (void)MOB_FAILPOINT("gcs.source_rows");
    struct batch *b = batch_create(sh);
    uint8_t part = ask->cursor_bytes == 0 ? PART_BLOCKS : ask->cursor[0];
    uint32_t length = ask->cursor_bytes == 0 ? 0 : ask->cursor_bytes - 1, count = 0;
    uint64_t seq = 0;
    if (length == sizeof seq)
        memcpy(&seq, ask->cursor + 1, sizeof seq);
    if (length == sizeof count)
        memcpy(&count, ask->cursor + 1, sizeof count);
    switch (part) {
    case PART_BLOCKS:
        pick_blocks(b, seq);
        break;
    case PART_VALUES:
        pick_values(b, ask->cursor + 1, length <= 1 + MOB_GCS_KEY_MAX ? length : 0);
        break;
    case PART_IDENTITIES:
        write_identities(b, count);
        break;
    case PART_COLD:
    default:
        write_cold(b, count);
        break;
    }
    if (b->fetch_count > 0)
        fetch(b);
    else
        batch_give(b);
}
