/* What gcs/shard does around the machine: reads, clients that come and go, collecting after everything died,
 * the owner's rows of a snapshot. */
#include <stdlib.h>

#include "gcs/chain/chain_rows.h"
#include "tests/sim/sim_internal.h"

#define EXPIRE_NS (300 * SIM_MS)
#define EXPIRE_CHECK_NS (20 * SIM_MS)
#define COLLECT_SHORTEST_NS (30 * SIM_MS)
#define COLLECT_LONGEST_NS (250 * SIM_MS)

struct sim_client_seen *sim_owner_client(struct sim *s, struct sim_member *m, uint64_t client)
{
    for (size_t i = 0; i < m->client_count; i++)
        if (m->clients[i].client == client)
            return &m->clients[i];
    struct sim_client_seen *seen = SIM_GROW(m->clients, m->client_count, m->client_capacity);
    *seen = (struct sim_client_seen){.client = client, .heard_ns = s->now};
    return seen;
}

/* ---- reads ---- */

/* Keys of clients ('k', kind 0) and records of recovery, by their number. */
static void add_read(
    struct sim *s, struct sim_member *m, struct sim_read *read, uint8_t kind, uint64_t number)
{
    uint8_t name[9] = {kind == 0 ? (uint8_t)'k' : kind, (uint8_t)number};
    uint32_t length = kind == 0 ? 2 : sizeof name;
    enum mob_gcs_table table = kind == 0 ? MOB_GCS_KV : MOB_GCS_NODES;
    if (kind != 0)
        memcpy(name + 1, &number, sizeof number);
    struct mob_state_key row;
    read->gate = mob_chain_applied(m->chain);
    read->status = MOB_NOT_FOUND;
    if (mob_state_get(m->state, table, name, length, &row)) {
        const uint8_t *value = row.value;
        for (size_t i = 0; value == NULL && i < m->memory.key_count; i++) {
            const struct sim_key *large = &m->memory.keys[i];
            if (large->table == MOB_GCS_KV && large->version == row.version)
                value = large->bytes + large->key_length;
        }
        SIM_CHECK(s, value != NULL, "member %u has no value of version %llu", m->slot,
            (unsigned long long)row.version);
        read->status = MOB_OK;
        read->version = row.version;
        memcpy(&read->value, value, sizeof read->value);
        if (kind != 0)
            memcpy(&read->more, value + sizeof read->value, sizeof read->more);
    }
    *SIM_GROW(m->reads, m->read_count, m->read_capacity) = *read;
}

static void send_value(struct sim *s, struct sim_member *m, const struct sim_read *r)
{
    struct sim_msg *msg = sim_msg_create(SIM_VALUE, m->slot, r->node, NULL, 0);
    msg->tag = r->tag;
    msg->status = r->status;
    msg->a = r->value;
    msg->b = r->version;
    msg->c = r->more;
    msg->epoch = mob_chain_epoch(m->chain);
    sim_send(s, msg);
}

static void send_config(struct sim *s, struct sim_member *m, uint8_t node)
{
    if (mob_chain_epoch(m->chain) == 0)
        return;
    struct sim_msg *msg = sim_msg_create(SIM_NACK, m->slot, node, NULL, 0);
    msg->config = *mob_chain_config(m->chain);
    sim_send(s, msg);
}

void sim_owner_get(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    if (msg->client != 0)
        sim_owner_client(s, m, msg->client)->heard_ns = s->now;
    uint8_t kind = (uint8_t)msg->c;
    if (msg->b != 0) { /* through the chain */
        uint8_t body[10] = {kind, msg->from};
        memcpy(body + 2, &msg->a, sizeof msg->a);
        struct mob_chain_read read = {.epoch = msg->epoch,
            .client = msg->from + 1u,
            .tag = msg->tag,
            .body = body,
            .body_bytes = sizeof body};
        if (mob_chain_on_read(m->chain, &read) != MOB_OK)
            send_config(s, m, msg->from);
        sim_member_drain(s, m); /* while `body` lives */
        return;
    }
    if (!mob_chain_is_tail(m->chain)) {
        send_config(s, m, msg->from);
        return;
    }
    struct sim_read read = {.tag = msg->tag, .node = msg->from};
    add_read(s, m, &read, kind, msg->a);
}

void sim_owner_chain_read(struct sim *s, struct sim_member *m, const struct mob_gcs_link_msg *msg)
{
    struct sim_read read = {.tag = msg->link.token, .node = msg->body[1], .by_chain = true};
    uint64_t number;
    memcpy(&number, msg->body + 2, sizeof number);
    add_read(s, m, &read, msg->body[0], number);
}

static void finish_read(struct sim *s, struct sim_member *m, struct sim_read *r)
{
    enum mob_status may = r->by_chain ? MOB_OK : mob_chain_may_answer(m->chain, sim_clock(s, m->node));
    if (may == MOB_WRONG_EPOCH) {
        sim_cover_add(s, SIM_READS_LATE);
        send_config(s, m, r->node);
        return;
    }
    if (may == MOB_AGAIN) {
        sim_cover_add(s, SIM_READS_NO_LEASE);
        r->status = MOB_AGAIN;
    } else if (r->by_chain) {
        sim_cover_add(s, SIM_READS_CHAIN);
    } else {
        sim_cover_add(s, mob_chain_config(m->chain)->count == 1 ? SIM_READS_SOLE : SIM_READS_LEASE);
    }
    send_value(s, m, r);
}

void sim_owner_committed(struct sim *s, struct sim_member *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->read_count; i++) {
        struct sim_read r = m->reads[i];
        if (r.gate > mob_chain_committed(m->chain))
            m->reads[kept++] = r;
        else
            finish_read(s, m, &r);
    }
    m->read_count = kept;
}

/* All blocks of a log that is sealed; nothing of it changes any more but where it is. */
void sim_owner_scan(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    const struct mob_gcs_incarnation *log = mob_state_incarnation(m->state, msg->a);
    bool sealed = log != NULL && log->state != MOB_GCS_LIVE;
    if (!mob_chain_is_tail(m->chain) || (log != NULL && !sealed && s->setup.without != SIM_RULE_CUT))
        return;
    struct sim_block *rows = malloc((m->memory.block_count + 1) * sizeof *rows);
    size_t n = 0;
    for (size_t i = 0; i < m->memory.block_count; i++)
        if (m->memory.blocks[i].incarnation == msg->a)
            rows[n++] = m->memory.blocks[i];
    struct sim_msg *answer = sim_msg_create(SIM_ROWS, m->slot, msg->from, rows, (uint32_t)(n * sizeof *rows));
    free(rows);
    answer->tag = msg->tag;
    sim_send(s, answer);
}

/* ---- clients ---- */

void sim_owner_attach(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    struct mob_chain_attach attach = {.client = msg->client,
        .answered = msg->attach.answered,
        .kept = msg->attach.kept,
        .bases = m->memory.bases,
        .base_count = m->memory.base_count};
    struct mob_gcs_attached attached;
    enum mob_status status = msg->epoch != mob_chain_epoch(m->chain)
        ? MOB_WRONG_EPOCH
        : mob_chain_on_attach(m->chain, &attach, &attached);
    if (status == MOB_WRONG_EPOCH)
        send_config(s, m, msg->from);
    if (status != MOB_OK)
        return;
    SIM_TRACE(s, "%u <- %u ATTACH client %llx answered %llu kept %llu: %s last %llu", m->slot, msg->from,
        (unsigned long long)msg->client, (unsigned long long)attach.answered, (unsigned long long)attach.kept,
        mob_status_code((enum mob_status)attached.status), (unsigned long long)attached.last);
    struct sim_client_seen *seen = sim_owner_client(s, m, msg->client);
    seen->heard_ns = s->now;
    seen->awaited = seen->awaited || mob_chain_collecting(m->chain); /* also one that is in no table yet */
    struct sim_msg *answer = sim_msg_create(SIM_ATTACHED, m->slot, msg->from, NULL, 0);
    answer->client = msg->client;
    answer->epoch = mob_chain_epoch(m->chain);
    answer->attached = attached;
    answer->tag = msg->tag;
    answer->a = mob_chain_collecting(m->chain);
    sim_send(s, answer);
}

void sim_owner_resent(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    uint64_t last;
    if (!mob_chain_collecting(m->chain) || msg->epoch != mob_chain_epoch(m->chain) ||
        !mob_chain_collected(m->chain, msg->client, &last))
        return;
    SIM_TRACE(s, "%u <- %u RESENT client %llx up to %llu, has %llu", m->slot, msg->from,
        (unsigned long long)msg->client, (unsigned long long)msg->a, (unsigned long long)last);
    if (last >= msg->a) {
        sim_owner_client(s, m, msg->client)->answered = true;
        return;
    }
    struct sim_msg *gap = sim_msg_create(SIM_GAP, m->slot, msg->from, NULL, 0);
    gap->client = msg->client;
    gap->epoch = msg->epoch;
    gap->b = last;
    sim_send(s, gap);
}

/* It may be late, or come twice: who is in no table any more has gone already. One that is lost, or comes to
 * who is not the head, is nothing: the client's silence ends it. */
void sim_owner_bye(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    uint64_t last;
    bool known = mob_chain_collected(m->chain, msg->client, &last);
    if (!known || !mob_chain_is_head(m->chain) || mob_chain_room(m->chain) == 0)
        return;
    MOB_ASSERT(mob_chain_on_internal(m->chain, MOB_GCS_OP_EXPIRE, msg->client) == MOB_OK);
    SIM_TRACE(s, "member %u: client %llx has left", m->slot, (unsigned long long)msg->client);
    m->places++;
    sim_cover_add(s, SIM_CLIENTS_LEFT);
}

struct visitor {
    struct sim *sim;
    struct sim_member *member;
};

static void await_client(void *arg, uint64_t client, uint64_t last)
{
    (void)last;
    struct visitor *v = arg;
    struct sim_client_seen *seen = sim_owner_client(v->sim, v->member, client);
    seen->awaited = true;
    seen->answered = false;
}

static void touch_client(void *arg, uint64_t client, uint64_t last)
{
    (void)last;
    struct visitor *v = arg;
    sim_owner_client(v->sim, v->member, client)->heard_ns = v->sim->now;
}

void sim_owner_state(struct sim *s, struct sim_member *m, enum mob_chain_state from, enum mob_chain_state to)
{
    static const struct {
        enum mob_chain_state from, to;
        enum sim_cover cover;
    } changes[] = {{MOB_CHAIN_IDLE, MOB_CHAIN_JOINING, SIM_IDLE_JOINING},
        {MOB_CHAIN_IDLE, MOB_CHAIN_SYNCING, SIM_IDLE_SYNCING},
        {MOB_CHAIN_IDLE, MOB_CHAIN_COLLECTING, SIM_IDLE_COLLECTING},
        {MOB_CHAIN_IDLE, MOB_CHAIN_SERVING, SIM_IDLE_SERVING},
        {MOB_CHAIN_IDLE, MOB_CHAIN_EVICTED, SIM_IDLE_EVICTED},
        {MOB_CHAIN_JOINING, MOB_CHAIN_SYNCING, SIM_JOINING_SYNCING},
        {MOB_CHAIN_JOINING, MOB_CHAIN_EVICTED, SIM_JOINING_EVICTED},
        {MOB_CHAIN_SYNCING, MOB_CHAIN_SERVING, SIM_SYNCING_SERVING},
        {MOB_CHAIN_SYNCING, MOB_CHAIN_EVICTED, SIM_SYNCING_EVICTED},
        {MOB_CHAIN_COLLECTING, MOB_CHAIN_SERVING, SIM_COLLECTING_SERVING},
        {MOB_CHAIN_SERVING, MOB_CHAIN_SYNCING, SIM_SERVING_SYNCING},
        {MOB_CHAIN_SERVING, MOB_CHAIN_EVICTED, SIM_SERVING_EVICTED}};
    /* Not collecting -> evicted: it takes two lives of one member at once, as only a person can start them,
     * and here a slot has one process (unit/gcs/chain/chain_join has it). */
    bool known = false;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        if (changes[i].from == from && changes[i].to == to) {
            sim_cover_add(s, changes[i].cover);
            known = true;
        }
    SIM_CHECK(s, known, "member %u: %s -> %s", m->slot, mob_chain_state_name(from), mob_chain_state_name(to));
    SIM_TRACE(s, "member %u: %s -> %s, epoch %llu applied %llu", m->slot, mob_chain_state_name(from),
        mob_chain_state_name(to), (unsigned long long)mob_chain_epoch(m->chain),
        (unsigned long long)mob_chain_applied(m->chain));
    if (to == MOB_CHAIN_EVICTED) {
        enum mob_chain_failure why = mob_chain_failure(m->chain);
        SIM_CHECK(s, why < MOB_CHAIN_HISTORY, "member %u: %s", m->slot, mob_chain_failure_text(why));
        if (why == MOB_CHAIN_STALLED)
            sim_cover_add(s, m->log_muted == m->node->life ? SIM_STALLED_LOG : SIM_STALLED_JOINING);
        else if (from == MOB_CHAIN_JOINING && why == MOB_CHAIN_NOT_READY)
            sim_cover_add(s, SIM_JOINER_EVICTED);
        else if (from == MOB_CHAIN_SYNCING && sim_is_muted(s, m))
            sim_cover_add(s, SIM_STALLED_SYNCING);
    }
    if (to == MOB_CHAIN_JOINING || to == MOB_CHAIN_SYNCING)
        sim_mute(s, m, to);
    struct visitor v = {s, m};
    if (to == MOB_CHAIN_COLLECTING) {
        mob_chain_each_client(m->chain, await_client, &v);
        m->collect_since = s->now;
    } else if (to == MOB_CHAIN_SERVING) {
        mob_chain_each_client(m->chain, touch_client, &v);
    }
}

static void end_collecting(struct sim *s, struct sim_member *m)
{
    for (size_t i = 0; i < m->client_count; i++) {
        struct sim_client_seen *seen = &m->clients[i];
        if (!seen->awaited || seen->answered)
            continue;
        SIM_TRACE(s, "member %u: client %llx did not answer", m->slot, (unsigned long long)seen->client);
        sim_cover_add(s, SIM_COLLECT_ABSENT);
        MOB_ASSERT(mob_chain_collect_absent(m->chain, seen->client, s->now) == MOB_OK);
    }
    uint64_t applied = mob_chain_applied(m->chain);
    MOB_ASSERT(mob_chain_collect_end(m->chain, s->now) == MOB_OK);
    sim_owner_add_base(s, m);
    s->result->cover[SIM_COLLECTED_AGAIN] += mob_chain_applied(m->chain) - applied;
    uint32_t life = m->node->life;
    sim_check_collected(s, m);
    sim_start_served(s, mob_chain_epoch(m->chain));
    sim_collect_ends(s, m);
    sim_member_drain(s, m);
    m->dies_at = 0;
    if (m->node->life == life)
        sim_check_named(s, m);
    else
        sim_cover_add(s, SIM_DIES_COLLECTING);
}

static void collect_tick(struct sim *s, struct sim_member *m)
{
    int64_t since = s->now - m->collect_since;
    bool all = true;
    for (size_t i = 0; i < m->client_count; i++)
        all = all && (!m->clients[i].awaited || m->clients[i].answered);
    if ((since >= COLLECT_SHORTEST_NS && all) || since >= COLLECT_LONGEST_NS)
        end_collecting(s, m);
}

static void expire_one(void *arg, uint64_t client, uint64_t last)
{
    (void)last;
    struct visitor *v = arg;
    struct sim_client_seen *seen = sim_owner_client(v->sim, v->member, client);
    if ((client & MOB_GCS_CLIENT_BIT) != 0 && v->sim->now - seen->heard_ns > EXPIRE_NS && !seen->awaited)
        seen->awaited = true; /* marked: the table must not change under the visit */
}

void sim_owner_tick(struct sim *s, struct sim_member *m)
{
    if (mob_chain_state(m->chain) == MOB_CHAIN_COLLECTING) {
        collect_tick(s, m);
        return;
    }
    if (s->now < m->expire_check || !mob_chain_is_head(m->chain))
        return;
    m->expire_check = s->now + EXPIRE_CHECK_NS;
    for (size_t i = 0; i < m->client_count; i++)
        m->clients[i].awaited = false;
    struct visitor v = {s, m};
    mob_chain_each_client(m->chain, expire_one, &v);
    for (size_t i = 0; i < m->client_count; i++)
        if (m->clients[i].awaited && mob_chain_room(m->chain) > 0) {
            m->clients[i].awaited = false;
            MOB_ASSERT(mob_chain_on_internal(m->chain, MOB_GCS_OP_EXPIRE, m->clients[i].client) == MOB_OK);
            sim_cover_add(s, SIM_EXPIRED_CLIENTS);
        }
}

/* ---- the owner's rows: blocks, then values that the tables do not hold ---- */

void sim_owner_rows(struct sim *s, struct sim_member *m)
{
    uint64_t blocks_after = 0, keys_from = 0;
    bool blocks_done = false;
    if (m->rows.joiner == 0)
        return;
    if (m->rows.cursor_bytes >= 9) {
        blocks_done = m->rows.cursor[0] == 1;
        memcpy(blocks_done ? &keys_from : &blocks_after, m->rows.cursor + 1, 8);
    }
    static uint8_t bytes[64 * 1024];
    struct mob_writer w = mob_writer_of(bytes, sizeof bytes);
    size_t limit = (size_t)sim_between(s, 100, 3000);
    if (m->rows.cursor_bytes < 9) {
        struct sim_notes notes = sim_image_notes(&m->memory);
        mob_chain_row_write(&w, MOB_CHAIN_ROW_OWNER, &notes, sizeof notes);
    }
    for (size_t i = 0; !blocks_done && i <= m->memory.block_count; i++) {
        if (i == m->memory.block_count) {
            blocks_done = true;
        } else if (m->memory.blocks[i].seq > blocks_after) {
            if (mob_writer_length(&w) > limit)
                break;
            mob_chain_row_write(&w, MOB_CHAIN_ROW_OWNER, &m->memory.blocks[i], sizeof m->memory.blocks[i]);
            blocks_after = m->memory.blocks[i].seq;
        }
    }
    /* Large values all at once: their order in `memory` changes with every removal. */
    struct mob_chain_rows rows = {.joiner = m->rows.joiner, .token = m->rows.token, .rows = bytes};
    uint8_t cursor[9] = {blocks_done};
    memcpy(cursor + 1, &blocks_after, 8);
    if (blocks_done && mob_writer_length(&w) <= limit) {
        for (size_t i = 0; i < m->memory.key_count; i++) {
            const struct sim_key *k = &m->memory.keys[i];
            struct mob_gcs_kv kv = {
                k->bytes, k->bytes + k->key_length, k->key_length, k->value_length, k->version};
            if (k->value_length > MOB_STATE_INLINE_MAX)
                mob_chain_row_write_key(&w, k->table, &kv);
        }
    } else {
        rows.cursor = cursor;
        rows.cursor_bytes = sizeof cursor;
    }
    MOB_ASSERT(!w.failed);
    rows.row_bytes = (uint32_t)mob_writer_length(&w);
    m->rows.joiner = 0;
    mob_chain_on_rows(m->chain, &rows);
}
