/* Streams of committed blocks. A subscriber is a position; it is fed while its connection's buffer has room,
 * from the entries that are kept until durable, or from Redis when it is further behind. So a slow reader
 * costs no memory.
 */
#include "gcs/chain/chain_stream.h"
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>

#define FETCH_AT_ONCE 32u
#define MISSES_MAX 16u /* in a row; then a block that Redis lost is asked for each second */

/* One fetch from Redis for a subscriber; outlives it. */
struct sub_fetch {
    struct mob_shard *shard;
    struct subscription *sub; /* NULL: gone */
    uint32_t count;
    uint64_t stored, restarts; /* what Redis had when it was asked, and which Redis */
    uint64_t missing; /* a block that is not there: dropped since, look again; 0: none */
    struct mob_gcs_block_row rows[FETCH_AT_ONCE];
};

static void send_block(struct subscription *sub, const struct mob_gcs_block_row *row)
{
    struct mob_gcs_sub_head head = {.tag = sub->tag, .after = sub->after};
    uint32_t body = MOB_GCS_BLOCK_ROW_HEAD + row->length;
    uint8_t *at = conn_frame_begin(sub->conn, sizeof head, body);
    if (at == NULL)
        return;
    memcpy(at, &head, sizeof head);
    mob_gcs_block_row_encode(row, at + sizeof head);
    memcpy(at + sizeof head + MOB_GCS_BLOCK_ROW_HEAD, row->bytes, row->length);
    conn_frame_end(sub->conn, MOB_GCS_BLOCK, 0, sizeof head, body);
    sub->after = row->seq;
    sub->misses = 0;
}

static void on_fetched(void *arg, const redisReply *reply, uint32_t index)
{
    struct sub_fetch *f = arg;
    struct mob_gcs_block_row row = f->rows[index];
    if (f->sub == NULL || f->missing != 0)
        return;
    if (reply->type != REDIS_REPLY_STRING ||
        (size_t)reply->len != row.length + sizeof(struct mob_redis_block)) {
        f->missing = row.seq;
        return;
    }
    row.bytes = (const uint8_t *)reply->str + sizeof(struct mob_redis_block);
    send_block(f->sub, &row);
}

/* The first block behind `after`, at `*at_out` in the index; NULL: there is none. */
static const struct mob_index_slot *first_behind(const struct mob_shard *sh, uint64_t after, uint32_t *at_out)
{
    const struct mob_index_slot *slot = NULL;
    uint32_t at = mob_index_after(sh->index, after);
    while (at < mob_index_end(sh->index) && (slot = mob_index_slot(sh->index, at)) == NULL)
        at++;
    *at_out = at;
    return slot;
}

/* The index still has it, so it was not dropped: Redis has lost it, or gives it a moment later. */
static void note_missing(const struct sub_fetch *f)
{
    struct mob_shard *sh = f->shard;
    struct subscription *sub = f->sub;
    uint32_t at;
    const struct mob_index_slot *slot = first_behind(sh, sub->after, &at);
    if (slot == NULL || slot->seq != f->missing || ++sub->misses < MISSES_MAX)
        return;
    sub->again_ns = sh->now_ns + MOB_SEC;
    MOB_LOG_ERROR("gcs", "stream_row_lost", "seq=%llu why=\"this member's Redis lacks what it had\"",
        (unsigned long long)f->missing);
    if (f->missing <= f->stored && f->restarts == sh->store.restarts)
        snapshot_disown(sh);
}

static void on_fetch_done(void *arg, struct mob_redis_batch *batch, enum mob_status status)
{
    (void)batch;
    (void)status;
    struct sub_fetch *f = arg;
    if (f->sub != NULL) {
        f->sub->fetching = false;
        if (f->missing != 0)
            note_missing(f);
    }
    free(f);
}

static void fetch(struct mob_shard *sh, struct subscription *sub, uint32_t from)
{
    struct sub_fetch *f = calloc(1, sizeof *f);
    MOB_ASSERT(f != NULL);
    f->shard = sh;
    f->sub = sub;
    f->stored = sh->store.stored;
    f->restarts = sh->store.restarts;
    struct mob_redis_batch *batch = mob_redis_batch_create();
    for (uint32_t at = from; at < mob_index_end(sh->index) && f->count < FETCH_AT_ONCE; at++) {
        const struct mob_index_slot *slot = mob_index_slot(sh->index, at);
        if (slot == NULL)
            continue;
        if (slot->seq > mob_chain_committed(sh->chain) || mob_chain_kept(sh->chain, slot->seq) != NULL)
            break;
        uint8_t key[9];
        mob_redis_key(key, 'b', slot->seq);
        mob_redis_command(batch, 2);
        mob_redis_arg(batch, "GET", 3);
        mob_redis_arg(batch, key, sizeof key);
        f->rows[f->count++] = (struct mob_gcs_block_row){.seq = slot->seq,
            .incarnation = slot->incarnation,
            .number = slot->number,
            .length = slot->length};
    }
    if (f->count == 0) {
        free(f);
        mob_redis_batch_destroy(batch);
        return;
    }
    sub->fetching = true;
    batch->arg = f;
    batch->reply = on_fetched;
    batch->done = on_fetch_done;
    store_read(sh, batch);
}

static void send_hole(struct subscription *sub, uint64_t after, uint64_t next)
{
    struct mob_gcs_sub_head hole = {.tag = sub->tag, .after = after, .next = next};
    conn_send(sub->conn, MOB_GCS_RESYNC, 0, &hole, sizeof hole);
    sub->after = next - 1;
}

static void feed(struct mob_shard *sh, struct subscription *sub)
{
    while (!sub->fetching && sh->now_ns >= sub->again_ns && !sub->conn->closing &&
        conn_out_bytes(sub->conn) < SUB_OUT_BYTES) {
        uint32_t at;
        const struct mob_index_slot *slot = first_behind(sh, sub->after, &at);
        enum mob_chain_stream_step step = mob_chain_stream_next(
            sub->after, slot == NULL ? 0 : slot->seq, mob_chain_committed(sh->chain), sh->flushed.applied);
        if (step == MOB_CHAIN_STREAM_WAIT)
            return;
        if (step == MOB_CHAIN_STREAM_HOLE) {
            /* A subscriber that is so far behind reads it otherwise. */
            send_hole(sub, sub->after, sh->flushed.applied + 1);
            continue;
        }
        MOB_ASSERT(slot != NULL);
        const struct mob_chain_entry *kept = mob_chain_kept(sh->chain, slot->seq);
        if (kept == NULL) {
            fetch(sh, sub, at);
            return;
        }
        struct mob_gcs_block_row row = {.seq = slot->seq,
            .incarnation = slot->incarnation,
            .number = slot->number,
            .bytes = kept->body,
            .length = slot->length};
        send_block(sub, &row);
    }
}

void subscribe_feed(struct mob_shard *sh)
{
    for (uint32_t i = 0; i < sh->sub_count; i++)
        feed(sh, sh->subs[i]);
}

/* Where the history that the subscriber saw ends: positions of an epoch that was followed by a loss may be
 * void. */
static uint64_t history_end(const struct mob_shard *sh, uint64_t epoch)
{
    struct mob_chain_stream_base bases[MOB_REDIS_BASES_MAX];
    uint32_t count = shard_bases(sh, bases);
    return mob_chain_stream_end(bases, count, epoch, mob_chain_applied(sh->chain));
}

void subscribe_serve(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_shard *sh = c->shard;
    struct mob_gcs_sub_head head;
    if (mob_gcs_sub_head_decode(frame->head, frame->head_bytes, &head) != MOB_OK ||
        sh->sub_count == SUBS_MAX) {
        conn_close(c, MOB_BAD_REQUEST);
        return;
    }
    if (shard_has_masters(sh) &&
        !mob_chain_stream_may_serve(
            sh->chain, frame->epoch)) { /* a joiner knows nothing yet, and would see a hole */
        member_refuse(c, frame);
        return;
    }
    struct subscription *sub = calloc(1, sizeof *sub);
    MOB_ASSERT(sub != NULL);
    *sub = (struct subscription){.conn = c, .tag = head.tag, .after = head.after};
    uint64_t end = history_end(sh, frame->epoch);
    if (head.after == UINT64_MAX) {
        uint64_t now = mob_chain_committed(sh->chain);
        send_hole(sub, now, now + 1);
    } else if (head.after > end) {
        send_hole(sub, head.after, end + 1);
    }
    sh->subs[sh->sub_count++] = sub;
}

static void forget_fetch(struct mob_redis_batch *batch, const struct subscription *sub)
{
    for (; batch != NULL; batch = batch->next)
        if (batch->done == on_fetch_done && ((struct sub_fetch *)batch->arg)->sub == sub)
            ((struct sub_fetch *)batch->arg)->sub = NULL;
}

static void remove_at(struct mob_shard *sh, uint32_t i)
{
    struct subscription *sub = sh->subs[i];
    if (sub->fetching) {
        forget_fetch(sh->store.kept_reads, sub);
        if (sh->store.link != NULL)
            forget_fetch(mob_redis_link_batches(sh->store.link), sub);
    }
    free(sub);
    sh->subs[i] = sh->subs[--sh->sub_count];
}

void unsubscribe_serve(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_sub_head head;
    if (mob_gcs_sub_head_decode(frame->head, frame->head_bytes, &head) != MOB_OK) {
        conn_close(c, MOB_BAD_REQUEST);
        return;
    }
    for (uint32_t i = c->shard->sub_count; i-- > 0;)
        if (c->shard->subs[i]->conn == c && c->shard->subs[i]->tag == head.tag)
            remove_at(c->shard, i);
}

void subscribe_gone(struct conn *c)
{
    for (uint32_t i = c->shard->sub_count; i-- > 0;)
        if (c->shard->subs[i]->conn == c)
            remove_at(c->shard, i);
}

void subscribe_fini(struct mob_shard *sh)
{
    while (sh->sub_count > 0)
        remove_at(sh, 0);
}
