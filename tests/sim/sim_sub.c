/* Streams of committed blocks: the member's side with the decisions of gcs/chain/chain_stream.h, as gcs/shard
 * has it, and the subscriber's, as gcs/client has it. */
#include <stdlib.h>

#include "tests/sim/sim_internal.h"

#define AGAIN_NS (12 * SIM_MS) /* nothing heard for so long: as if the link had broken */
#define FEED_AT_ONCE 8u

/* ---- the member ---- */

static struct sim_msg *frame_to(struct sim *s, struct sim_member *m, struct sim_subscriber *sub, uint8_t type,
    const void *body, uint32_t n)
{
    (void)s;
    struct sim_msg *msg = sim_msg_create(type, m->slot, sub->node, body, n);
    msg->tag = sub->tag;
    msg->epoch = mob_chain_epoch(m->chain);
    msg->a = sub->after;
    msg->b = sub->sent++;
    return msg;
}

static void send_hole(struct sim *s, struct sim_member *m, struct sim_subscriber *sub, uint64_t next)
{
    struct sim_msg *msg = frame_to(s, m, sub, SIM_RESYNC, NULL, 0);
    msg->c = next;
    sub->after = next - 1;
    sim_send(s, msg);
}

void sim_owner_subscribe(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    SIM_TRACE(s, "%u <- %u SUB after %llu of epoch %lld: %s, bases %u", m->slot, msg->from,
        (unsigned long long)msg->a, (long long)msg->b,
        mob_chain_stream_may_serve(m->chain, msg->b) ? "served" : "not served", m->memory.base_count);
    if (!mob_chain_stream_may_serve(m->chain, msg->b))
        return; /* the subscriber asks again, where it then believes the tail to be */
    struct sim_subscriber *sub = NULL;
    for (uint32_t i = 0; i < m->sub_count; i++) /* the attempt before, of the same client */
        if (m->subs[i].node == msg->from && m->subs[i].tag >> 32 == msg->tag >> 32)
            sub = &m->subs[i];
    if (sub != NULL && sub->tag >= msg->tag)
        return; /* came late, or twice */
    if (sub == NULL && m->sub_count == SIM_SUBS_MAX)
        return;
    if (sub == NULL)
        sub = &m->subs[m->sub_count++];
    *sub = (struct sim_subscriber){.node = msg->from, .tag = msg->tag, .after = msg->a};
    uint64_t end =
        mob_chain_stream_end(m->memory.bases, m->memory.base_count, msg->b, mob_chain_applied(m->chain));
    if (sub->after > end)
        send_hole(s, m, sub, end + 1);
}

static const struct sim_block *first_behind(const struct sim_member *m, uint64_t after)
{
    size_t low = 0, high = m->memory.block_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->memory.blocks[middle].seq <= after)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->memory.block_count ? &m->memory.blocks[low] : NULL;
}

static void feed(struct sim *s, struct sim_member *m, struct sim_subscriber *sub)
{
    for (uint32_t i = 0; i < FEED_AT_ONCE; i++) {
        const struct sim_block *b = first_behind(m, sub->after);
        enum mob_chain_stream_step step = mob_chain_stream_next(
            sub->after, b == NULL ? 0 : b->seq, mob_chain_committed(m->chain), m->memory.notes.upto);
        if (step == MOB_CHAIN_STREAM_WAIT)
            return;
        if (step == MOB_CHAIN_STREAM_HOLE) {
            send_hole(s, m, sub, m->memory.notes.upto + 1);
            continue;
        }
        MOB_ASSERT(b != NULL);
        struct sim_msg *msg = frame_to(s, m, sub, SIM_BLOCK, b, sizeof *b);
        sub->after = b->seq;
        sim_send(s, msg);
    }
}

void sim_owner_feed(struct sim *s, struct sim_member *m)
{
    for (uint32_t i = 0; i < m->sub_count; i++)
        feed(s, m, &m->subs[i]);
}

void sim_owner_stats(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    if (!mob_chain_is_tail(m->chain))
        return;
    struct sim_msg *answer = sim_msg_create(SIM_STATS_ANSWER, m->slot, msg->from, NULL, 0);
    answer->tag = msg->tag;
    answer->epoch = mob_chain_epoch(m->chain);
    answer->a = mob_chain_durable(m->chain);
    answer->b = m->memory.notes.upto;
    answer->c = m->memory.notes.rows;
    sim_send(s, answer);
}

/* ---- the subscriber ---- */

void sim_sub_start(struct sim *s, struct sim_client *c, struct sim_sub *sub, uint64_t after)
{
    uint64_t kind = sub == &c->watch ? 1 : 2;
    sim_sub_stop(sub);
    *sub = (struct sim_sub){.on = true,
        .of_flusher = kind == 2,
        .after = after,
        .epoch = UINT64_MAX,
        .tag = kind << 32 | (uint32_t)(sub->tag > 0 ? sub->tag + 1 : (uint64_t)s->now / SIM_US),
        .at = 255,
        .heard_at = s->now - AGAIN_NS};
}

void sim_sub_stop(struct sim_sub *sub)
{
    free(sub->blocks);
    free(sub->holes);
    uint64_t tag = sub->tag;
    *sub = (struct sim_sub){.tag = tag};
}

static void ask(struct sim *s, struct sim_client *c, struct sim_sub *sub)
{
    uint64_t tail = c->config.members[c->config.count - 1];
    struct sim_msg *msg = sim_msg_create(SIM_SUB, c->number, sim_node_of_member(tail), NULL, 0);
    msg->tag = ++sub->tag;
    msg->a = sub->after;
    msg->b = sub->epoch;
    sub->got = 0;
    sub->heard_at = s->now;
    sim_send(s, msg);
}

void sim_sub_tick(struct sim *s, struct sim_client *c, struct sim_sub *sub)
{
    if (c->config.epoch != 0 && s->now - sub->heard_at > AGAIN_NS)
        ask(s, c, sub);
}

void sim_sub_config(struct sim *s, struct sim_client *c, struct sim_sub *sub)
{
    if (sub->on)
        ask(s, c, sub);
}

/* What it gave from `next` on is not so any more. */
static void void_from(struct sim *s, struct sim_sub *sub, uint64_t next)
{
    if (sub->count > 0 && sub->blocks[sub->count - 1].seq >= next)
        sim_cover_add(s, SIM_STREAMS_VOID);
    while (sub->count > 0 && sub->blocks[sub->count - 1].seq >= next)
        sub->count--;
}

static void on_block(struct sim *s, struct sim_client *c, struct sim_sub *sub, const struct sim_msg *msg)
{
    struct sim_block b;
    memcpy(&b, msg->body, sizeof b);
    SIM_CHECK(s, b.seq > sub->after && b.hash == sim_block_hash(b.incarnation, b.number),
        "client %u was streamed block %llu of log %llu at %llu, behind %llu", c->number,
        (unsigned long long)b.number, (unsigned long long)b.incarnation, (unsigned long long)b.seq,
        (unsigned long long)sub->after);
    sim_cover_add(s, SIM_BLOCKS_STREAMED);
    SIM_TRACE(s, "  client %u%s: block %llu of log %llu at %llu, from %u", c->number,
        sub->of_flusher ? " (flusher)" : "", (unsigned long long)b.number, (unsigned long long)b.incarnation,
        (unsigned long long)b.seq, msg->from);
    if (sub->at != 255 && sub->at != msg->from)
        sim_cover_add(s, SIM_STREAMS_MOVED);
    sub->at = msg->from;
    sub->after = b.seq;
    *SIM_GROW(sub->blocks, sub->count, sub->capacity) = b;
}

/* Back: only when everything had died since. Forward: only over what is in the database. */
static void check_hole(struct sim *s, const struct sim_sub *sub, const struct sim_msg *msg)
{
    bool started = false;
    uint64_t from = sub->epoch == UINT64_MAX ? 1 : sub->epoch + 1;
    for (uint64_t e = from; e <= msg->epoch; e++)
        started = started || s->database.configs[e].start != 0;
    SIM_CHECK(s, msg->c > sub->after || started,
        "a stream of epoch %lld goes back from %llu to %llu at member %u, and nothing was lost",
        (long long)sub->epoch, (unsigned long long)sub->after, (unsigned long long)msg->c, msg->from);
    SIM_CHECK(s, msg->c <= sub->after + 1 || msg->c - 1 <= s->database.watermark,
        "a stream misses (%llu, %llu) at member %u, and the watermark is %llu",
        (unsigned long long)sub->after, (unsigned long long)msg->c, msg->from,
        (unsigned long long)s->database.watermark);
}

static void on_hole(struct sim *s, struct sim_sub *sub, const struct sim_msg *msg)
{
    sim_cover_add(s, SIM_RESYNCS_STREAMED);
    check_hole(s, sub, msg);
    SIM_TRACE(s, "  RESYNC of %u for %u: after %llu next %llu", msg->from, msg->to,
        (unsigned long long)sub->after, (unsigned long long)msg->c);
    if (msg->c > sub->after + 1) {
        sim_cover_add(s, SIM_STREAMS_BEHIND);
        *SIM_GROW(sub->holes, sub->hole_count, sub->hole_capacity) = (struct sim_hole){sub->after, msg->c};
    }
    void_from(s, sub, msg->c);
    sub->after = msg->c - 1;
}

bool sim_sub_message(struct sim *s, struct sim_client *c, struct sim_sub *sub, const struct sim_msg *msg)
{
    if (!sub->on || msg->tag != sub->tag || msg->b < sub->got)
        return false;
    if (msg->b > sub->got) { /* a real link does not lose one of many: it breaks */
        sim_cover_add(s, SIM_STREAMS_BROKEN);
        sub->got = UINT64_MAX; /* until it is asked for again */
        sub->heard_at = s->now - AGAIN_NS;
        return false;
    }
    sub->got++;
    sub->heard_at = s->now;
    if (msg->type == SIM_BLOCK)
        on_block(s, c, sub, msg);
    else
        on_hole(s, sub, msg);
    sub->epoch = msg->epoch;
    return true;
}

/* ---- at the end ---- */

static bool has(const struct sim_sub *sub, const struct sim_block *b)
{
    for (size_t i = 0; i < sub->count; i++)
        if (sub->blocks[i].seq == b->seq)
            return memcmp(&sub->blocks[i], b, sizeof *b) == 0;
    return false;
}

static bool is_excused(const struct sim_sub *sub, uint64_t seq)
{
    for (size_t i = 0; i < sub->hole_count; i++)
        if (seq > sub->holes[i].after && seq < sub->holes[i].next)
            return true;
    return false;
}

bool sim_sub_is_whole(const struct sim_sub *sub, const struct sim_member *head)
{
    size_t n = head->memory.block_count;
    return sub->after >= head->memory.notes.upto && (n == 0 || sub->after >= head->memory.blocks[n - 1].seq);
}

static void check_seen(struct sim *s, const struct sim_sub *sub, const struct sim_block *b)
{
    SIM_CHECK(s, has(sub, b) || is_excused(sub, b->seq),
        "block %llu of log %llu at %llu was not streamed, and no RESYNC named it",
        (unsigned long long)b->number, (unsigned long long)b->incarnation, (unsigned long long)b->seq);
}

void sim_sub_check(struct sim *s, const struct sim_sub *sub, const struct sim_member *head)
{
    const struct sim_image *hot = &head->memory;
    /* What was dropped may have gone before it was streamed, and be there again since the drop was lost with
     * everything. */
    for (size_t i = 0; i < hot->block_count; i++)
        if (!sim_was_dropped(s, &hot->blocks[i]))
            check_seen(s, sub, &hot->blocks[i]);
    for (size_t i = 0; i < s->database.cold_count; i++)
        if (!sim_was_dropped(s, &s->database.cold[i]))
            check_seen(s, sub, &s->database.cold[i]);
    for (size_t i = 0; i < sub->count; i++) {
        const struct sim_block *b = &sub->blocks[i];
        const struct sim_block *cold = sim_cold_find(s, b->seq), *there = first_behind(head, b->seq - 1);
        bool same = (there != NULL && memcmp(there, b, sizeof *b) == 0) ||
            (cold != NULL && memcmp(cold, b, sizeof *b) == 0) || sim_was_dropped(s, b);
        SIM_CHECK(s, same, "block %llu of log %llu was streamed at %llu, and is not there",
            (unsigned long long)b->number, (unsigned long long)b->incarnation, (unsigned long long)b->seq);
    }
}
