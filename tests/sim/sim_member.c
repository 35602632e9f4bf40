/* A member's process around the real machine: its disk, its messages, its heartbeat. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/hash.h"
#include "tests/sim/sim_internal.h"

#define TICK_NS (1 * SIM_MS)
#define HEARTBEAT_NS (2 * SIM_MS)
#define HEARTBEAT_SLOW_NS (30 * SIM_MS)
#define WATCHFUL_NS (8 * SIM_MS) /* at the full rate, after work or a word of a master */

static void heartbeat(struct sim *s, struct sim_member *m);

/* Memory that the machine holds until RELEASE. */
struct hold {
    struct hold *next, **back;
    uint8_t bytes[];
};

static struct hold *hold_create(struct sim_member *m, const void *bytes, uint32_t n)
{
    struct hold *h = malloc(sizeof *h + n);
    if (n > 0)
        memcpy(h->bytes, bytes, n);
    h->next = m->holds;
    h->back = &m->holds;
    if (h->next != NULL)
        h->next->back = &h->next;
    m->holds = h;
    return h;
}

static void hold_free(struct hold *h)
{
    *h->back = h->next;
    if (h->next != NULL)
        h->next->back = h->back;
    free(h);
}

/* ---- life and death ---- */

static size_t drop_none(
    void *arg, const struct mob_gcs_request *request, uint64_t *seqs_out, size_t max, bool *more_out)
{
    /* The oldest blocks of the log that `target` names: a job's, as far as the machine is concerned. */
    struct sim_member *m = arg;
    size_t n = 0;
    *more_out = false;
    for (size_t i = 0; i < m->memory.block_count && !*more_out; i++)
        if (m->memory.blocks[i].incarnation == request->target) {
            if (n == max || n == 8)
                *more_out = true;
            else
                seqs_out[n++] = m->memory.blocks[i].seq;
        }
    return n;
}

static void on_state(void *arg, enum mob_chain_state from, enum mob_chain_state to)
{
    struct sim_member *m = arg;
    sim_owner_state(m->sim, m, from, to);
}

static void load(struct sim_member *m)
{
    const struct sim_image *i = &m->disk.image;
    m->stored_epoch = i->epoch;
    m->stored_seq = i->seq;
    m->stored_synced = i->synced;
    if (!i->synced)
        return;
    mob_chain_load_position(m->chain, i->part_epoch, i->seq);
    for (size_t k = 0; k < i->client_count; k++) {
        const struct sim_disk_client *c = &i->clients[k];
        MOB_ASSERT(mob_chain_load_client(m->chain, c->id, c->last) == MOB_OK);
        sim_owner_client(m->sim, m, c->id)->last_request = c->last;
        for (size_t r = 0; r < MOB_GCS_WINDOW; r++)
            if (c->replies[r].seq != 0)
                mob_chain_load_reply(m->chain, c->id, &c->replies[r]);
    }
    for (uint64_t after = 0;;) { /* the machine wants them in order */
        const struct mob_gcs_incarnation *next = NULL;
        for (size_t k = 0; k < i->incarnation_count; k++)
            if (i->incarnations[k].id > after && (next == NULL || i->incarnations[k].id < next->id))
                next = &i->incarnations[k];
        if (next == NULL)
            break;
        MOB_ASSERT(mob_state_register(m->state, next) == MOB_OK);
        after = next->id;
    }
    for (size_t k = 0; k < i->key_count; k++) {
        const struct sim_key *row = &i->keys[k];
        struct mob_gcs_kv kv = {
            row->bytes, row->bytes + row->key_length, row->key_length, row->value_length, row->version};
        MOB_ASSERT(mob_state_set(m->state, row->table, &kv) == MOB_OK);
    }
    mob_state_set_flushed(m->state, i->flushed);
    sim_image_copy(&m->memory, i);
}

static void submit(struct sim *s, struct sim_member *m, const struct sim_write *write)
{
    uint64_t number = m->disk.submitted;
    sim_disk_write(&m->disk, write);
    int64_t from = m->disk.last_answer_at > s->now ? m->disk.last_answer_at : s->now;
    m->disk.last_answer_at = from + sim_between(s, s->plan.store_low, s->plan.store_high);
    sim_at(s, m->disk.last_answer_at - s->now,
        (struct sim_event){
            .type = SIM_EV_STORED, .node = (uint8_t)m->slot, .life = m->node->life, .a = number});
}

static void write_meta(struct sim *s, struct sim_member *m, bool synced, uint64_t part_epoch, uint64_t seq)
{
    struct sim_write w = {
        .type = SIM_WRITE_META, .member = m->id, .synced = synced, .part_epoch = part_epoch, .seq = seq};
    submit(s, m, &w);
}

void sim_owner_add_base(struct sim *s, struct sim_member *m)
{
    struct sim_write w = {
        .type = SIM_WRITE_BASE, .base = {mob_chain_epoch(m->chain), mob_chain_history(m->chain)}};
    sim_image_add_base(&m->memory, &w.base);
    submit(s, m, &w);
}

void sim_member_start(struct sim *s, struct sim_member *m)
{
    m->sim = s;
    uint64_t store = s->next_store << 8 | (m->slot + 1);
    m->id = m->disk.image.member != 0 ? m->disk.image.member + 1 : store << MOB_GCS_MEMBER_LIFE_BITS | 1;
    s->next_store += m->disk.image.member == 0;
    m->state = mob_state_create();
    uint32_t snapshot_bytes = (uint32_t)sim_between(s, 200, 4000);
    m->chain = mob_chain_create(&(struct mob_chain_options){.self = m->id,
        .state = m->state,
        .drop = drop_none,
        .drop_arg = m,
        .on_state = on_state,
        .state_arg = m,
        .stall_ns = 300 * SIM_MS,
        .snapshot_bytes = snapshot_bytes,
        .join_rest_ns = snapshot_bytes % 2 == 0 ? 0 : 3 * TICK_NS, /* of half of them */
        .join_pace_ns = snapshot_bytes % 4 < 2 ? 0 : 10 * SIM_MS,
        .join_log_max = 20 + snapshot_bytes / 10,
        .commit_on_disk = s->plan.durability == MOB_GCS_ALWAYS});
    load(m);
    m->base_seq = mob_chain_applied(m->chain);
    m->base_digest = mob_chain_digest(m->chain);
    m->hist_count = 0;
    m->seen_epoch = 0;
    m->seen_committed = 0;
    m->written_seq = m->base_seq;
    m->disk_seq = 0;
    m->places = 0;
    m->wiped_at = 0;
    m->disk.last_answer_at = s->now;
    uint8_t node = (uint8_t)m->slot;
    uint32_t life = m->node->life;
    sim_at(
        s, sim_between(s, 0, TICK_NS), (struct sim_event){.type = SIM_EV_TICK, .node = node, .life = life});
    sim_at(s, sim_between(s, 0, HEARTBEAT_NS),
        (struct sim_event){.type = SIM_EV_HEARTBEAT, .node = node, .life = life});
    sim_at(s, sim_between(s, 500 * SIM_US, 2 * SIM_MS),
        (struct sim_event){.type = SIM_EV_SYNC, .node = node, .life = life});
    SIM_TRACE(s, "member %u starts as %llx, seq %llu synced %d", m->slot, (unsigned long long)m->id,
        (unsigned long long)m->stored_seq, m->stored_synced);
    /* Its name must be on the disk before anybody hears it. */
    write_meta(s, m, m->stored_synced, m->disk.image.part_epoch, 0);
}

void sim_member_stop(struct sim *s, struct sim_member *m)
{
    (void)s;
    mob_chain_destroy(m->chain);
    mob_state_destroy(m->state);
    m->chain = NULL;
    m->state = NULL;
    for (struct hold *h = m->holds, *next; h != NULL; h = next) {
        next = h->next;
        free(h);
    }
    m->holds = NULL;
    sim_image_clear(&m->memory);
    free(m->reads);
    free(m->clients);
    m->reads = NULL;
    m->clients = NULL;
    m->read_count = m->read_capacity = m->client_count = m->client_capacity = 0;
    m->rows.joiner = 0;
    m->sub_count = 0;
    m->told_synced = m->formatted = false;
    memset(m->heard_ns, 0, sizeof m->heard_ns);
}

void sim_member_fini(struct sim_member *m)
{
    if (m->chain != NULL)
        sim_member_stop(NULL, m);
    sim_disk_fini(&m->disk);
    free(m->hist);
}

/* ---- the disk ---- */

static void store_entry(struct sim *s, struct sim_member *m, const struct mob_chain_entry *e)
{
    struct sim_write w = {.type = SIM_WRITE_ENTRY, .entry = *e};
    uint8_t *body = malloc(e->body_bytes + 1u);
    if (e->body_bytes > 0)
        memcpy(body, e->body, e->body_bytes);
    w.entry.body = body;
    w.entry.drops = NULL;
    if (e->drop_count > 0) {
        w.entry.drops = malloc(e->drop_count * sizeof *e->drops);
        memcpy(w.entry.drops, e->drops, e->drop_count * sizeof *e->drops);
    }
    submit(s, m, &w);
}

static void on_stored(struct sim *s, struct sim_member *m, uint64_t number)
{
    const struct sim_write *w = &m->disk.writes[number - m->disk.first];
    m->disk.stored = number + 1;
    if (number < m->wiped_at)
        return;
    uint64_t seq = w->type == SIM_WRITE_ENTRY ? w->entry.seq : w->type == SIM_WRITE_META ? w->seq : 0;
    if (seq > m->written_seq)
        m->written_seq = seq;
    if (seq > 0)
        mob_chain_on_stored(m->chain, m->written_seq);
    if (s->plan.durability == MOB_GCS_NO) {
        m->disk.durable = m->disk.stored;
        m->formatted = true;
        m->disk_seq = m->written_seq;
        mob_chain_on_durable(m->chain, m->disk_seq);
    }
}

/* Alternately a sync begins and ends. */
static void on_sync(struct sim *s, struct sim_member *m, const struct sim_event *event)
{
    int64_t next =
        s->plan.durability == MOB_GCS_ALWAYS ? sim_between(s, 0, 300 * SIM_US) : s->plan.sync_every;
    struct sim_event then = {.type = SIM_EV_SYNC, .node = (uint8_t)m->slot, .life = m->node->life};
    if (event->a == 0) {
        m->sync_number = m->disk.stored;
        m->sync_seq = m->written_seq;
        then.a = 1;
        next = sim_between(s, 100 * SIM_US, 2 * SIM_MS);
    } else if (m->sync_number > m->disk.durable) {
        m->disk.durable = m->sync_number;
        m->formatted = true;
        m->disk_seq = m->sync_seq;
        mob_chain_on_durable(m->chain, m->disk_seq);
    }
    sim_at(s, next, then);
}

/* ---- actions ---- */

static void send_link(struct sim *s, struct sim_member *m, const struct mob_chain_action *a)
{
    const struct mob_gcs_link_msg *l = a->message;
    uint8_t head[MOB_GCS_LINK_HEAD_MAX];
    uint32_t drops = mob_gcs_link_has_entry(l->type) ? l->entry.drop_count * 8u : 0;
    struct mob_gcs_frame frame = {.type = l->type, .epoch = l->epoch, .from = l->from};
    frame.head = head;
    frame.head_bytes = mob_gcs_link_encode(l, head);
    frame.body_bytes = l->body_bytes + drops;
    uint32_t total = MOB_GCS_FRAME_HEADER_BYTES + frame.head_bytes + frame.body_bytes;
    struct sim_msg *msg = sim_msg_create(SIM_CHAIN, m->slot, sim_node_of_member(l->link.to), NULL, 0);
    msg = realloc(msg, sizeof *msg + total);
    uint8_t *at = msg->body + MOB_GCS_FRAME_HEADER_BYTES;
    memcpy(at, head, frame.head_bytes);
    if (l->body_bytes > 0)
        memcpy(at + frame.head_bytes, l->body, l->body_bytes);
    if (drops > 0)
        memcpy(at + frame.head_bytes + l->body_bytes, l->drops, drops);
    frame.body = at + frame.head_bytes;
    mob_gcs_frame_encode(&frame, msg->body);
    msg->body_bytes = total;
    SIM_TRACE(s, "  %u -> %u %s epoch %llu seq %llu prev %llu", m->slot, msg->to, mob_gcs_frame_name(l->type),
        (unsigned long long)l->epoch, (unsigned long long)l->link.seq, (unsigned long long)l->link.prev);
    sim_send(s, msg);
}

static struct sim_msg *to_client(struct sim *s, struct sim_member *m, uint8_t type, uint64_t client)
{
    uint8_t node = sim_node_of_client(s, client);
    if (node == 255)
        return NULL;
    struct sim_msg *msg = sim_msg_create(type, m->slot, node, NULL, 0);
    msg->client = client;
    msg->epoch = mob_chain_epoch(m->chain);
    msg->a = mob_chain_durable(m->chain);
    return msg;
}

static void answer(struct sim *s, struct sim_member *m, const struct mob_chain_action *a)
{
    static const uint8_t types[] = {[MOB_CHAIN_REPLY] = SIM_REPLY,
        [MOB_CHAIN_NACK] = SIM_NACK,
        [MOB_CHAIN_GAP] = SIM_GAP,
        [MOB_CHAIN_EXPIRED] = SIM_EXPIRED};
    if (a->type == MOB_CHAIN_REPLY && a->reply.seq != 0)
        sim_check_replied(s, m, &a->reply, a->client);
    struct sim_msg *msg = to_client(s, m, types[a->type], a->client);
    if (msg == NULL)
        return;
    msg->b = a->type == MOB_CHAIN_NACK ? 0 : a->reply.request;
    msg->status = a->reply.status;
    if (a->type == MOB_CHAIN_NACK)
        msg->config = *mob_chain_config(m->chain);
    else
        msg->reply = a->reply;
    sim_send(s, msg);
}

static void on_store(struct sim *s, struct sim_member *m, const struct mob_chain_entry *e)
{
    sim_check_appended(s, m, e);
    if (e->op == MOB_GCS_OP_OPEN) {
        sim_name_client(s, e->number, (uint8_t)(e->target & 255));
        if (m->places > 0 && mob_chain_is_head(m->chain)) {
            m->places--;
            sim_cover_add(s, SIM_PLACES_AGAIN);
        }
    }
    if (e->op == MOB_GCS_OP_REGISTER && e->status == MOB_OK) {
        sim_check_registered(s, e);
        if (sim_node_of_client(s, e->client) != 255)
            sim_name_client(s, e->number, sim_node_of_client(s, e->client));
    }
    if (e->op == MOB_GCS_OP_PUT && e->status == MOB_OK &&
        e->body_bytes - e->key_length > MOB_STATE_INLINE_MAX)
        sim_cover_add(s, SIM_LARGE_VALUES);
    if (e->op == MOB_GCS_OP_FLUSH && e->status == MOB_OK)
        sim_check_flush(s, m, e);
    if (e->op == MOB_GCS_OP_JOB_DROP)
        sim_check_dropped(s, m, e);
    /* A joiner's rows are of later moments than the log that it replays. */
    if (e->op == MOB_GCS_OP_RECOVERED && e->status == MOB_OK && mob_chain_synced(m->chain))
        sim_check_recovered(s, m, e->target);
    sim_image_apply_entry(&m->memory, e);
    store_entry(s, m, e);
}

static void on_load(struct sim *s, struct sim_member *m, const struct mob_gcs_link_msg *load)
{
    struct sim_write w = {.type = SIM_WRITE_ROWS, .length = load->body_bytes};
    w.bytes = malloc(load->body_bytes + 1u);
    memcpy(w.bytes, load->body, load->body_bytes);
    sim_image_apply_rows(&m->memory, load->body, load->body_bytes);
    submit(s, m, &w);
    if (mob_chain_applied(m->chain) == 0 && load->link.seq != 0)
        return;
    /* The last batch: from here on the store is a state, as of where the snapshot began. */
    write_meta(s, m, false, 0, load->link.seq);
    m->base_seq = load->link.seq;
    m->base_digest = load->link.digest;
    sim_mute_log(s, m);
}

static void on_wipe(struct sim *s, struct sim_member *m)
{
    sim_image_clear(&m->memory);
    m->client_count = 0;
    m->sub_count = 0;
    m->hist_count = 0;
    m->base_seq = m->base_digest = m->written_seq = m->sync_seq = m->disk_seq = 0;
    m->wiped_at = m->disk.submitted;
    m->seen_committed = 0;
    m->rows.joiner = 0;
    struct sim_write w = {.type = SIM_WRITE_WIPE};
    submit(s, m, &w);
    write_meta(s, m, false, 0, 0);
}

static void act(struct sim *s, struct sim_member *m, const struct mob_chain_action *a)
{
    switch (a->type) {
    case MOB_CHAIN_STORE:
        on_store(s, m, a->entry);
        break;
    case MOB_CHAIN_SEND:
        send_link(s, m, a);
        break;
    case MOB_CHAIN_REPLY:
    case MOB_CHAIN_NACK:
    case MOB_CHAIN_GAP:
    case MOB_CHAIN_EXPIRED:
        answer(s, m, a);
        break;
    case MOB_CHAIN_RELEASE:
        hold_free(a->hold);
        break;
    case MOB_CHAIN_READ:
        sim_owner_chain_read(s, m, a->message);
        break;
    case MOB_CHAIN_ROWS:
        m->rows.joiner = a->message->from;
        m->rows.token = a->message->link.token;
        m->rows.cursor_bytes = a->message->body_bytes;
        memcpy(m->rows.cursor, a->message->body, a->message->body_bytes);
        sim_at(s, sim_between(s, 10 * SIM_US, 500 * SIM_US),
            (struct sim_event){.type = SIM_EV_ROWS, .node = (uint8_t)m->slot, .life = m->node->life});
        break;
    case MOB_CHAIN_LOAD:
        on_load(s, m, a->message);
        break;
    case MOB_CHAIN_WIPE:
        on_wipe(s, m);
        break;
    }
}

void sim_member_drain(struct sim *s, struct sim_member *m)
{
    struct mob_chain_action a;
    if (m->chain == NULL) /* it died meanwhile */
        return;
    while (mob_chain_next(m->chain, &a)) {
        if (sim_dies_here(s, m, a.type))
            return;
        act(s, m, &a);
    }
    if (mob_chain_synced(m->chain) && !m->told_synced) {
        m->told_synced = true;
        write_meta(s, m, true, mob_chain_epoch(m->chain), 0);
        m->synced_write = m->disk.submitted;
    }
    sim_owner_committed(s, m);
    sim_owner_feed(s, m);
    sim_check_member(s, m);
    if (mob_chain_state(m->chain) == MOB_CHAIN_EVICTED)
        sim_member_ends(s, m);
}

/* ---- events ---- */

#define COUNTED(name, text, minimum) \
    _Static_assert((int)SIM_LINK_##name - (int)SIM_LINK_UPD == (int)MOB_GCS_##name - (int)MOB_GCS_UPD, #name);
SIM_LINKS(COUNTED)
#undef COUNTED
_Static_assert(SIM_LINK_LEAVE + 1 - SIM_LINK_UPD == (int)MOB_GCS_LINK_TYPES - (int)MOB_GCS_UPD,
    "a frame is not counted");

static void on_chain_message(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    struct mob_gcs_frame frame;
    struct mob_gcs_link_msg l;
    size_t used;
    enum mob_status status =
        mob_gcs_frame_decode(msg->body, msg->body_bytes, MOB_GCS_FRAME_CHAIN_MAX, &frame, &used);
    if (status == MOB_OK)
        status = mob_gcs_link_decode(&frame, &l);
    if (status != MOB_OK) { /* a real link would be closed; losing the message is the worse of it */
        sim_cover_add(s, SIM_NET_CORRUPTED);
        return;
    }
    sim_cover_add(s, (enum sim_cover)(SIM_LINK_UPD + (l.type - MOB_GCS_UPD)));
    SIM_TRACE(s, "%u <- %u %s epoch %llu seq %llu prev %llu", m->slot, msg->from, mob_gcs_frame_name(l.type),
        (unsigned long long)l.epoch, (unsigned long long)l.link.seq, (unsigned long long)l.link.prev);
    struct hold *h = NULL;
    if (mob_gcs_link_has_entry(l.type)) {
        h = hold_create(m, l.body, frame.body_bytes);
        l.drops = h->bytes + l.body_bytes;
        l.body = h->bytes;
    }
    status = mob_chain_on_message(m->chain, &l, h);
    if (h != NULL && status != MOB_OK)
        hold_free(h);
    SIM_CHECK(s, status == MOB_OK || status == MOB_FINISHED || status == MOB_QUEUE_FULL,
        "member %u: %s fails with %s", m->slot, mob_gcs_frame_name(l.type), mob_status_code(status));
}

static void refuse(struct sim *s, struct sim_member *m, const struct sim_msg *msg, enum mob_status status)
{
    struct sim_msg *reply = sim_msg_create(SIM_REPLY, m->slot, msg->from, NULL, 0);
    reply->client = msg->client;
    reply->reply = (struct mob_gcs_reply){.request = msg->request.request, .count = 1, .status = status};
    sim_send(s, reply);
}

static void on_put(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    struct hold *h = hold_create(m, msg->body, msg->body_bytes);
    struct mob_chain_put put = {.epoch = msg->epoch,
        .client = msg->client,
        .request = msg->request,
        .body = h->bytes,
        .body_bytes = msg->body_bytes,
        .body_crc = mob_crc32c(h->bytes, msg->body_bytes),
        .hold = h,
        .full = sim_chance(s, 0.001)};
    if (msg->request.op == MOB_GCS_OP_OPEN)
        sim_name_client(s, msg->client, msg->from);
    else
        sim_owner_client(s, m, msg->client)->heard_ns = s->now;
    uint64_t duplicates = mob_chain_duplicates(m->chain);
    bool paced = mob_chain_paced(m->chain);
    enum mob_status status = paced ? MOB_QUEUE_FULL : mob_chain_on_put(m->chain, &put);
    if (paced)
        sim_cover_add(s, mob_chain_is_tail(m->chain) ? SIM_PACED : SIM_PACED_TOLD);
    SIM_TRACE(s, "%u <- %u PUT client %llx request %llu op %u old seq %llu epoch %llu: %s", m->slot,
        msg->from, (unsigned long long)msg->client, (unsigned long long)msg->request.request, msg->request.op,
        (unsigned long long)msg->request.old_seq, (unsigned long long)msg->epoch, mob_status_code(status));
    if (mob_chain_duplicates(m->chain) > duplicates)
        sim_cover_add(s, msg->request.op == MOB_GCS_OP_OPEN ? SIM_OPENED_BEFORE : SIM_DUPLICATES);
    if (status != MOB_OK)
        hold_free(h);
    if (status != MOB_OK && status != MOB_FINISHED)
        refuse(s, m, msg, status);
}

static void tell_config(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    if (mob_chain_epoch(m->chain) == 0)
        return;
    struct sim_msg *answer_msg = sim_msg_create(SIM_NACK, m->slot, msg->from, NULL, 0);
    answer_msg->config = *mob_chain_config(m->chain);
    sim_send(s, answer_msg);
}

static void on_config(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    bool new_one = msg->config.epoch > mob_chain_epoch(m->chain);
    mob_chain_on_config(m->chain, &msg->config);
    if (!new_one || !mob_chain_collecting(m->chain))
        return;
    for (uint32_t at = 0; at < msg->body_bytes; at += sizeof(struct sim_seal)) {
        struct sim_seal seal;
        memcpy(&seal, msg->body + at, sizeof seal);
        MOB_ASSERT(mob_chain_collect_seal(m->chain, seal.incarnation, seal.cut) == MOB_OK);
    }
    sim_check_started(s, m);
}

void sim_member_message(struct sim *s, struct sim_member *m, const struct sim_msg *msg)
{
    switch ((enum sim_msg_type)msg->type) {
    case SIM_CHAIN:
        on_chain_message(s, m, msg);
        break;
    case SIM_PUT:
        on_put(s, m, msg);
        break;
    case SIM_GET:
        sim_owner_get(s, m, msg);
        break;
    case SIM_ATTACH:
        sim_owner_attach(s, m, msg);
        break;
    case SIM_RESENT:
        sim_owner_resent(s, m, msg);
        break;
    case SIM_BYE:
        sim_owner_bye(s, m, msg);
        break;
    case SIM_WHERE:
        tell_config(s, m, msg);
        break;
    case SIM_BOOK:
        on_config(s, m, msg);
        break;
    case SIM_LEASE:
        if (msg->client == m->id)
            m->heard_ns[msg->from - s->masters[0].number] = (int64_t)msg->b;
        if (msg->client == m->id && msg->c == SIM_LEASE_HURRY) {
            m->hurried_ns = sim_clock(s, m->node);
            sim_cover_add(s, SIM_HURRIED);
            heartbeat(s, m);
        } else if (msg->client == m->id && msg->c != 0)
            mob_chain_on_lease(m->chain, msg->epoch, (int64_t)msg->a);
        break;
    case SIM_ENTER:
        if (msg->client == m->id)
            mob_chain_on_join(m->chain, msg->epoch);
        break;
    case SIM_SUB:
        sim_owner_subscribe(s, m, msg);
        break;
    case SIM_STATS:
        sim_owner_stats(s, m, msg);
        break;
    case SIM_SCAN:
        sim_owner_scan(s, m, msg);
        break;
    case SIM_ROWS:
    case SIM_BLOCK:
    case SIM_RESYNC:
    case SIM_STATS_ANSWER:
    case SIM_REPLY:
    case SIM_NACK:
    case SIM_GAP:
    case SIM_EXPIRED:
    case SIM_ATTACHED:
    case SIM_VALUE:
    case SIM_REPORT:
    case SIM_DB:
    case SIM_DB_ANSWER:
    case SIM_MSG_TYPES:
        break;
    }
    sim_member_drain(s, m);
}

static bool busy(struct sim *s, struct sim_member *m)
{
    int64_t now = sim_clock(s, m->node);
    uint64_t applied = mob_chain_applied(m->chain);
    bool works = applied != m->worked_to || mob_chain_committed(m->chain) < applied ||
        mob_chain_state(m->chain) != MOB_CHAIN_SERVING;
    if (works)
        m->worked_ns = now;
    m->worked_to = applied;
    return now - m->worked_ns < WATCHFUL_NS;
}

static void heartbeat(struct sim *s, struct sim_member *m)
{
    if (!m->formatted)
        return;
    int64_t now = sim_clock(s, m->node);
    uint64_t joiner, lag;
    bool works = busy(s, m),
         fast = works || now - m->hurried_ns < WATCHFUL_NS || mob_chain_join(m->chain, &joiner, &lag);
    bool said = m->rests || s->setup.without == SIM_RULE_REST_SAID;
    if (!fast && said && now - m->spoke_ns < HEARTBEAT_SLOW_NS - HEARTBEAT_NS)
        return;
    m->spoke_ns = now;
    m->rests = !fast; /* the first of those says so, before it is silent for longer */
    sim_cover_add(s, fast ? SIM_BEATS_FAST : SIM_BEATS_SLOW);
    struct mob_member_report report = {.member = m->id,
        .epoch = mob_chain_epoch(m->chain),
        .state = mob_chain_state(m->chain),
        .synced = mob_chain_synced(m->chain),
        .busy = works,
        .pause_ns = fast ? 0 : HEARTBEAT_SLOW_NS,
        .synced_on_disk = m->told_synced && m->disk.durable >= m->synced_write,
        .sent_ns = sim_clock(s, m->node),
        .applied = mob_chain_applied(m->chain),
        .committed = mob_chain_committed(m->chain)};
    if (!mob_chain_join(m->chain, &report.joiner, &report.joiner_lag) || !mob_chain_is_tail(m->chain))
        report.joiner = 0;
    if (report.state == MOB_CHAIN_IDLE) {
        report.stored_epoch = m->stored_epoch;
        report.stored_seq = m->stored_seq;
        report.stored_synced = m->stored_synced;
    }
    for (uint32_t i = 0; i < SIM_MASTERS; i++) {
        struct sim_msg *msg = sim_msg_create(SIM_REPORT, m->slot, s->masters[i].number, NULL, 0);
        msg->report = report;
        msg->report.heard_ns = m->heard_ns[i];
        sim_send(s, msg);
    }
}

void sim_member_event(struct sim *s, struct sim_member *m, const struct sim_event *event)
{
    struct sim_event again = *event;
    switch ((enum sim_event_type)event->type) {
    case SIM_EV_TICK:
        mob_chain_on_tick(m->chain, sim_clock(s, m->node));
        sim_at(s, TICK_NS, again);
        sim_owner_tick(s, m);
        break;
    case SIM_EV_HEARTBEAT:
        heartbeat(s, m);
        sim_at(s, HEARTBEAT_NS, again);
        break;
    case SIM_EV_STORED:
        on_stored(s, m, event->a);
        break;
    case SIM_EV_SYNC:
        on_sync(s, m, event);
        break;
    case SIM_EV_ROWS:
        sim_owner_rows(s, m);
        break;
    case SIM_EV_MESSAGE:
    case SIM_EV_RESTART:
    case SIM_EV_FAULT:
    case SIM_EV_ALL_OFF:
    case SIM_EV_HEAL:
        break;
    }
    sim_member_drain(s, m);
}
