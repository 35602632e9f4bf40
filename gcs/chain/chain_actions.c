/* What is to be done next, in the order in which it helps most: the store and the successor work while this
 * member goes on. */
#include "gcs/chain/chain_internal.h"

#include <stdlib.h>

/* ---- single answers and messages ---- */

void mob_chain_point(
    struct mob_chain *c, const struct mob_chain_action *action, const struct mob_gcs_link_msg *message)
{
    MOB_ASSERT(c->point_count < MOB_CHAIN_POINTS_MAX); /* the owner drains after each event */
    struct mob_chain_point *p = &c->points[c->point_count++];
    p->action = *action;
    if (message == NULL)
        return;
    p->message = *message;
    p->action.message = &p->message;
}

void mob_chain_answer(
    struct mob_chain *c, enum mob_chain_action_type type, uint64_t client, const struct mob_gcs_reply *reply)
{
    mob_chain_point(c, &(struct mob_chain_action){.type = type, .client = client, .reply = *reply}, NULL);
}

void mob_chain_send(struct mob_chain *c, uint64_t to, uint8_t type, const struct mob_gcs_link_msg *message)
{
    struct mob_gcs_link_msg m = *message;
    m.type = type;
    m.epoch = c->config.epoch;
    m.from = c->options.self;
    m.link.to = to;
    mob_chain_point(c, &(struct mob_chain_action){.type = MOB_CHAIN_SEND}, &m);
}

/* ---- positions in the ring ---- */

static bool next_store(struct mob_chain *c, struct mob_chain_action *out)
{
    if (c->store_at >= c->end)
        return false;
    *out = (struct mob_chain_action){.type = MOB_CHAIN_STORE, .entry = mob_chain_at(c, c->store_at++)};
    return true;
}

static bool next_point(struct mob_chain *c, struct mob_chain_action *out)
{
    if (c->point_next == c->point_count) {
        c->point_next = c->point_count = 0;
        return false;
    }
    *out = c->points[c->point_next++].action;
    return true;
}

static void send_entry(
    struct mob_chain *c, uint64_t to, uint8_t type, uint64_t ordinal, struct mob_chain_action *out)
{
    const struct mob_chain_entry *e = mob_chain_at(c, ordinal);
    c->out = (struct mob_gcs_link_msg){.type = type,
        .epoch = c->config.epoch,
        .from = c->options.self,
        .link = {.to = to,
            .seq = e->seq,
            .prev = mob_chain_seq_before(c, ordinal),
            .committed = c->committed,
            .durable = c->successor.told_durable,
            .digest = mob_chain_digest_before(c, ordinal)},
        .entry = {.epoch = e->epoch,
            .client = e->client,
            .request = e->request,
            .target = e->target,
            .version = e->version,
            .number = e->number,
            .next = e->next,
            .status = e->status,
            .body_bytes = e->body_bytes,
            .key_length = e->key_length,
            .drop_count = e->drop_count,
            .body_crc = e->body_crc,
            .op = e->op,
            .table = e->table},
        .body = e->body,
        .body_bytes = e->body_bytes,
        .drops = (const uint8_t *)e->drops};
    *out = (struct mob_chain_action){.type = MOB_CHAIN_SEND, .entry = e, .message = &c->out};
}

static bool next_forward(struct mob_chain *c, struct mob_chain_action *out)
{
    uint64_t successor = mob_chain_successor(c);
    if (successor == 0 || !c->successor.open)
        return false;
    if (c->forward_at < c->first) /* acknowledged meanwhile */
        c->forward_at = c->first;
    if (c->forward_at < c->end) {
        c->successor.told_durable = c->place == 0 || c->disk < c->above ? c->disk : c->above;
        send_entry(c, successor, MOB_GCS_UPD, c->forward_at++, out);
        return true;
    }
    if (c->successor.told_end || c->state != MOB_CHAIN_SERVING)
        return false;
    c->successor.told_end = true;
    c->out = (struct mob_gcs_link_msg){.type = MOB_GCS_SYNCEND,
        .epoch = c->config.epoch,
        .from = c->options.self,
        .link = {.to = successor,
            .seq = c->applied,
            .committed = c->committed,
            .digest = c->digest,
            .state_digest = mob_chain_state_digest(c)}};
    *out = (struct mob_chain_action){.type = MOB_CHAIN_SEND, .message = &c->out};
    return true;
}

static bool next_log(struct mob_chain *c, struct mob_chain_action *out)
{
    struct mob_chain_source *s = &c->source;
    if (s->joiner == 0 || !s->replays || s->joiner == mob_chain_successor(c))
        return false;
    if (s->log_at < c->first)
        s->log_at = c->first;
    if (s->log_at >= c->end || mob_chain_seq_before(c, s->log_at) >= s->acked + s->window)
        return false;
    send_entry(c, s->joiner, MOB_GCS_LOG, s->log_at++, out);
    c->out.link.token = s->token;
    return true;
}

static bool next_reply(struct mob_chain *c, struct mob_chain_action *out)
{
    while (c->reply_at < c->end && mob_chain_at(c, c->reply_at)->seq <= c->committed) {
        struct mob_chain_entry *e = mob_chain_at(c, c->reply_at++);
        bool mine = e->awaited || mob_chain_is_tail(c);
        uint64_t to = e->op == MOB_GCS_OP_OPEN ? e->target : e->client;
        e->awaited = false;
        if (to == 0 || !mine)
            continue;
        *out =
            (struct mob_chain_action){.type = MOB_CHAIN_REPLY, .client = to, .reply = mob_chain_reply_of(e)};
        return true;
    }
    return false;
}

static bool next_notice(struct mob_chain *c, struct mob_chain_action *out)
{
    const struct mob_chain_notice *n = &c->notices[c->notice_first % MOB_CHAIN_NOTICES_MAX];
    if (c->notice_first == c->notice_end || n->gate > c->committed)
        return false;
    *out = (struct mob_chain_action){.type = MOB_CHAIN_EXPIRED, .client = n->client, .reply = n->reply};
    c->notice_first++;
    return true;
}

/* Cumulative, so one for all that an event committed. While clients are to wait it is said again each tick:
 * that holds for a short time only, so that a word that is lost stops nobody for good. */
static bool next_ack(struct mob_chain *c, struct mob_chain_action *out)
{
    uint64_t predecessor = mob_chain_predecessor(c);
    bool news = c->committed > c->predecessor.committed || c->durable > c->predecessor.durable;
    bool paced = mob_chain_paced(c), turns = paced != c->predecessor.told_paced;
    if (predecessor == 0 || c->state != MOB_CHAIN_SERVING || !(news || turns || c->predecessor.again))
        return false;
    c->predecessor.committed = c->committed;
    c->predecessor.durable = c->durable;
    c->predecessor.again = false;
    c->predecessor.told_paced = paced;
    c->out = (struct mob_gcs_link_msg){.type = MOB_GCS_ACK,
        .epoch = c->config.epoch,
        .from = c->options.self,
        .link = {.to = predecessor,
            .seq = c->applied,
            .prev = paced,
            .committed = c->committed,
            .durable = c->durable,
            .token = mob_chain_memory(c)}};
    *out = (struct mob_chain_action){.type = MOB_CHAIN_SEND, .message = &c->out};
    return true;
}

static void pop(struct mob_chain *c)
{
    struct mob_chain_entry *e = mob_chain_at(c, c->first);
    c->base_seq = e->seq;
    c->base_digest = e->digest;
    c->kept_bytes -= e->body_bytes;
    free(e->drops);
    if (e->own_body)
        free((void *)(uintptr_t)e->body);
    c->first++;
    if (c->first == c->end && c->capacity > 4096) { /* give back what a burst took */
        free(c->ring);
        c->ring = NULL;
        c->capacity = 0;
    }
}

static uint64_t release_limit(const struct mob_chain *c)
{
    if (c->void_ring)
        return UINT64_MAX;
    uint64_t limit = c->committed < c->disk ? c->committed : c->disk;
    if (c->source.joiner != 0 && c->source.acked < limit)
        limit = c->source.acked;
    return limit;
}

static bool next_release(struct mob_chain *c, struct mob_chain_action *out)
{
    if (c->dropped_count > 0) {
        *out = (struct mob_chain_action){.type = MOB_CHAIN_RELEASE, .hold = c->dropped[--c->dropped_count]};
        return true;
    }
    uint64_t limit = release_limit(c);
    while (c->first < c->store_at && c->first < c->reply_at && mob_chain_at(c, c->first)->seq <= limit) {
        void *hold = mob_chain_at(c, c->first)->hold;
        pop(c);
        if (hold == NULL)
            continue;
        *out = (struct mob_chain_action){.type = MOB_CHAIN_RELEASE, .hold = hold};
        return true;
    }
    if (c->void_ring) {
        c->void_ring = false;
        c->base_seq = c->base_digest = 0;
    }
    return false;
}

bool mob_chain_next(struct mob_chain *c, struct mob_chain_action *action_out)
{
    return (!c->void_ring && next_store(c, action_out)) || next_point(c, action_out) ||
        next_forward(c, action_out) || next_log(c, action_out) || next_reply(c, action_out) ||
        next_notice(c, action_out) || next_ack(c, action_out) || next_release(c, action_out);
}
