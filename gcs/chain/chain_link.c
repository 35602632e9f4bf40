/* Predecessor and successor: updates down, acknowledgements up, and what is missing again. Links may lose,
 * double and reorder; whoever waits asks again at a tick. */
#include "gcs/chain/chain_internal.h"
#include "gcs/chain/chain_rules.h"

#include <stdlib.h>

#define DURABLE_TICKS 16u

/* On the disks of all members up to this one. */
static uint64_t disk_to_here(const struct mob_chain *c)
{
    return c->place == 0 || c->disk < c->above ? c->disk : c->above;
}

void mob_chain_settle(struct mob_chain *c)
{
    /* What a start after everything died has lost would be lost with the next one, too: who was not heard in
     * this one, and is in that, would bring old values over what was written since. So all of it, or none. */
    bool waits = mob_chain_start_waits(c) && MOB_RULE(START_DISK);
    if (!mob_chain_is_tail(c) || waits)
        return;
    uint64_t commit = c->stored;
    if (c->options.commit_on_disk && disk_to_here(c) < commit)
        commit = disk_to_here(c);
    if (commit > c->committed)
        c->committed = commit;
    uint64_t durable = disk_to_here(c) < c->committed ? disk_to_here(c) : c->committed;
    if (durable > c->durable)
        c->durable = durable;
}

/* ---- as a successor ---- */

static void ask(struct mob_chain *c, uint8_t type)
{
    struct mob_gcs_link_msg m = {.link = {.seq = c->applied}};
    if (type == MOB_GCS_SYNC)
        m.config = c->config; /* the predecessor may not have it yet */
    mob_chain_send(c, mob_chain_predecessor(c), type, &m);
    c->predecessor.asked = true;
}

void mob_chain_ask_sync(struct mob_chain *c)
{
    ask(c, MOB_GCS_SYNC);
}

static enum mob_status entry_of(
    const struct mob_gcs_link_msg *m, void *hold, struct mob_chain_entry *entry_out)
{
    const struct mob_gcs_entry *w = &m->entry;
    *entry_out = (struct mob_chain_entry){.epoch = w->epoch,
        .client = w->client,
        .request = w->request,
        .op = w->op,
        .table = w->table,
        .status = w->status,
        .body = m->body,
        .body_bytes = w->body_bytes,
        .key_length = w->key_length,
        .target = w->target,
        .version = w->version,
        .number = w->number,
        .next = w->next,
        .drop_count = w->drop_count,
        .body_crc = w->body_crc,
        .hold = hold};
    if (w->drop_count == 0)
        return MOB_OK;
    entry_out->drops = malloc(w->drop_count * sizeof *entry_out->drops);
    if (entry_out->drops == NULL)
        return MOB_NO_MEMORY;
    memcpy(entry_out->drops, m->drops, w->drop_count * sizeof *entry_out->drops);
    return MOB_OK;
}

enum mob_status mob_chain_take_entry(struct mob_chain *c, const struct mob_gcs_link_msg *m, void *hold)
{
    if (m->link.prev == c->applied && m->link.digest != c->digest) {
        mob_chain_fail(c, MOB_CHAIN_HISTORY);
        return MOB_FINISHED;
    }
    if (mob_chain_room(c) == 0)
        return MOB_QUEUE_FULL;
    struct mob_chain_entry entry;
    enum mob_status status = entry_of(m, hold, &entry);
    if (status == MOB_OK)
        status = mob_chain_append(c, &entry, m->link.seq);
    if (status != MOB_OK)
        free(entry.drops);
    return status;
}

static enum mob_status on_upd(struct mob_chain *c, const struct mob_gcs_link_msg *m, void *hold)
{
    if (m->link.durable > c->above)
        c->above = m->link.durable;
    if (m->link.seq <= c->applied) {
        c->duplicates++;
        return MOB_FINISHED;
    }
    if (MOB_RULE(SEQUENCE) && m->link.prev != c->applied) {
        if (!c->predecessor.asked)
            ask(c, c->state == MOB_CHAIN_SYNCING ? MOB_GCS_SYNC : MOB_GCS_RESEND);
        return MOB_FINISHED;
    }
    enum mob_status status = mob_chain_take_entry(c, m, hold);
    if (status == MOB_OK)
        c->predecessor.asked = false;
    return status;
}

static void on_syncend(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    if (c->state != MOB_CHAIN_SYNCING && MOB_RULE(SYNCEND))
        return;
    if (m->link.seq > c->applied) { /* the rest was lost on its way */
        if (!c->predecessor.asked)
            mob_chain_ask_sync(c);
        return;
    }
    bool differs = m->link.seq == c->applied &&
        (m->link.digest != c->digest || m->link.state_digest != mob_chain_state_digest(c));
    if (differs) {
        mob_chain_fail(c, MOB_CHAIN_STATE);
        return;
    }
    c->synced = true;
    mob_chain_set_state(c, MOB_CHAIN_SERVING);
}

static void on_position(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    if (m->link.durable > c->above)
        c->above = m->link.durable;
    if (m->link.seq > c->applied && !c->predecessor.asked)
        ask(c, c->state == MOB_CHAIN_SYNCING ? MOB_GCS_SYNC : MOB_GCS_RESEND);
    c->predecessor.again = true; /* it asks because it has not heard enough */
}

/* ---- as a predecessor ---- */

static void on_ack(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    uint64_t committed = m->link.committed;
    if (committed > c->applied) {
        mob_chain_fail(c, MOB_CHAIN_SHORT);
        return;
    }
    if (committed > c->committed)
        c->committed = committed;
    if (c->source.joiner == m->from) {
        mob_chain_source_end(c); /* it serves: what this member had committed as the tail is there, too */
        c->hurries = false;
    }
    if (m->link.durable > c->durable)
        c->durable = m->link.durable;
    mob_chain_pace_heard(c, m->link.prev != 0);
    c->predecessor.again |= c->successor.memory != m->link.token; /* the head is to know */
    c->successor.memory = m->link.token;
}

static void on_resend(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    if (!MOB_RULE(RESEND))
        return;
    if (m->link.seq < c->base_seq || m->link.seq > c->applied)
        return; /* asked long ago, or of a member that has to leave */
    c->forward_at = mob_chain_ordinal_above(c, m->link.seq);
}

static void on_sync(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    uint64_t has = m->link.seq;
    if (has < c->base_seq || has > c->applied) {
        struct mob_gcs_link_msg leave = {.link = {.seq = c->base_seq}};
        mob_chain_send(c, m->from, MOB_GCS_LEAVE, &leave); /* a synced one knows that its message was old */
        return;
    }
    c->successor.open = true;
    c->successor.told_end = false;
    c->forward_at = MOB_RULE(RESEND) ? mob_chain_ordinal_above(c, has) : c->end;
}

/* ---- memory ---- */

void mob_chain_on_memory(struct mob_chain *c, uint64_t bytes, bool measured)
{
    c->memory = bytes;
    c->predecessor.again |= measured;
}

uint64_t mob_chain_memory(const struct mob_chain *c)
{
    return c->memory > c->successor.memory ? c->memory : c->successor.memory;
}

/* ---- all of them ---- */

static void tell_config(struct mob_chain *c, uint64_t to)
{
    struct mob_gcs_link_msg m = {.config = c->config};
    mob_chain_send(c, to, MOB_GCS_CONFIG, &m);
}

static enum mob_status from_predecessor(struct mob_chain *c, const struct mob_gcs_link_msg *m, void *hold)
{
    if (m->type == MOB_GCS_UPD)
        return on_upd(c, m, hold);
    if (m->type == MOB_GCS_SYNCEND)
        on_syncend(c, m);
    else if (m->type == MOB_GCS_POSITION)
        on_position(c, m);
    else if (m->type == MOB_GCS_READ && mob_chain_is_tail(c))
        mob_chain_point(c, &(struct mob_chain_action){.type = MOB_CHAIN_READ}, m);
    else if (m->type == MOB_GCS_READ && c->state == MOB_CHAIN_SERVING)
        mob_chain_send(c, mob_chain_successor(c), MOB_GCS_READ, m);
    return MOB_FINISHED;
}

static void from_successor(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    if (m->type == MOB_GCS_SYNC)
        on_sync(c, m);
    else if (m->type == MOB_GCS_ACK)
        on_ack(c, m);
    else if (m->type == MOB_GCS_RESEND)
        on_resend(c, m);
}

static enum mob_status dispatch(struct mob_chain *c, const struct mob_gcs_link_msg *m, void *hold)
{
    bool joins = m->type == MOB_GCS_JOIN || m->type == MOB_GCS_SNAPSHOT || m->type == MOB_GCS_LOG ||
        m->type == MOB_GCS_JOINED || m->type == MOB_GCS_LEAVE ||
        (m->type == MOB_GCS_POSITION && m->link.token != 0);
    if (joins)
        return mob_chain_join_message(c, m, hold);
    if (MOB_RULE(EPOCH) && m->epoch != c->config.epoch) {
        if (m->epoch < c->config.epoch)
            tell_config(c, m->from);
        return MOB_FINISHED;
    }
    bool downstream = m->type == MOB_GCS_UPD || m->type == MOB_GCS_SYNCEND || m->type == MOB_GCS_POSITION ||
        m->type == MOB_GCS_READ;
    uint64_t expected = downstream ? mob_chain_predecessor(c) : mob_chain_successor(c);
    if (expected == 0 || (MOB_RULE(EPOCH) && m->from != expected))
        return MOB_FINISHED;
    if (downstream)
        return from_predecessor(c, m, hold);
    from_successor(c, m);
    return MOB_FINISHED;
}

enum mob_status mob_chain_on_message(struct mob_chain *c, const struct mob_gcs_link_msg *message, void *hold)
{
    if (message->link.to != c->options.self || c->options.self == 0 || c->state == MOB_CHAIN_EVICTED)
        return MOB_FINISHED;
    if (mob_gcs_link_has_config(message->type))
        mob_chain_on_config(c, &message->config);
    enum mob_status status = message->type == MOB_GCS_CONFIG ? MOB_FINISHED : dispatch(c, message, hold);
    mob_chain_settle(c);
    return status;
}

static void mob_chain_link_tick(struct mob_chain *c)
{
    bool syncs = MOB_RULE(SYNCEND) ? c->state == MOB_CHAIN_SYNCING : mob_chain_predecessor(c) != 0;
    if (syncs)
        mob_chain_ask_sync(c);
    c->predecessor.asked = false; /* at most one question a tick, and one each tick */
    c->predecessor.again |= mob_chain_paced(c);
    uint64_t successor = mob_chain_successor(c);
    if (successor == 0 || !c->successor.open)
        return;
    bool stuck = c->committed < c->applied && c->committed == c->successor.seen_committed;
    c->successor.seen_committed = c->committed;
    uint64_t disk = disk_to_here(c);
    /* What is on all disks is said once, and again now and then while the others have not answered. */
    bool behind = disk > c->durable && ++c->successor.quiet >= DURABLE_TICKS;
    if (!stuck && !behind && disk == c->successor.told_durable)
        return;
    c->successor.told_durable = disk;
    c->successor.quiet = 0;
    struct mob_gcs_link_msg m = {.link = {.seq = c->applied, .committed = c->committed, .durable = disk}};
    mob_chain_send(c, successor, MOB_GCS_POSITION, &m);
}

void mob_chain_on_tick(struct mob_chain *c, int64_t now_ns)
{
    c->now_ns = now_ns;
    if (c->options.self != 0 && now_ns >= c->retry_ns) {
        c->retry_ns = now_ns + c->options.resend_ns;
        mob_chain_link_tick(c);
        mob_chain_join_tick(c);
    }
    mob_chain_source_rested(c); /* last: what it points to is the joiner's, who may have been given up */
}
