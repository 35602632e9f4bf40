/* A client of keys and values, pipelined; some also have a node log. */
#include <stdlib.h>

#include "common/base/hash.h"
#include "tests/sim/sim_internal.h"

#define TICK_NS (1 * SIM_MS)
#define ASK_NS (20 * SIM_MS)
#define GET_AGAIN_NS (8 * SIM_MS)
#define LOG_WINDOW 8u
#define VALUE_LARGE 1100u

static void sim_tick_later(struct sim *s, struct sim_client *c)
{
    sim_at(s, TICK_NS, (struct sim_event){.type = SIM_EV_TICK, .node = c->number, .life = c->node->life});
}

void sim_client_start(struct sim *s, struct sim_client *c)
{
    c->keys.node = c->log.node = c->number;
    c->log.is_log = true;
    sim_stream_reset(s, &c->keys);
    sim_stream_reset(s, &c->log);
    c->config = (struct mob_gcs_config){0};
    c->durable = c->floor_epoch = 0;
    memset(c->gets, 0, sizeof c->gets);
    memset(c->known_version, 0, sizeof c->known_version);
    c->log_registering = c->sealing = 0;
    c->ask_at = 0;
    c->leave_at = sim_chance(s, 0.3) ? s->now + sim_between(s, 50 * SIM_MS, 600 * SIM_MS) : INT64_MAX;
    if (c->watches)
        sim_sub_start(s, c, &c->watch, 0);
    if (c->flushes)
        sim_flusher_start(s, c);
    sim_tick_later(s, c);
}

/* Its node is gone; somebody is to seal its log. */
static void leave_log(struct sim *s, const struct sim_client *c)
{
    if (c->log.client != 0 && s->dead_log_count < SIM_SEALS_MAX)
        s->dead_logs[s->dead_log_count++] = c->log.client;
}

void sim_client_stop(struct sim *s, struct sim_client *c)
{
    if (s != NULL)
        leave_log(s, c);
    sim_tasks_forget(s, c);
    sim_stream_fini(&c->keys);
    sim_stream_fini(&c->log);
    sim_sub_stop(&c->watch);
    sim_flusher_stop(c);
}

void sim_client_fini(struct sim_client *c)
{
    sim_client_stop(NULL, c);
    sim_tasks_fini(c);
}

bool sim_client_idle(const struct sim_client *c)
{
    bool reads = false;
    for (size_t i = 0; i < SIM_GETS; i++)
        reads = reads || c->gets[i].active;
    return !reads && c->flusher.request == 0 && c->keys.state == SIM_STREAM_READY &&
        sim_stream_unanswered(&c->keys) == 0 && (c->log.client == 0 || sim_stream_unanswered(&c->log) == 0);
}

/* ---- what it asks ---- */

struct sim_request *sim_client_submit(
    struct sim *s, struct sim_client *c, const struct mob_gcs_request *head, const void *body, uint32_t bytes)
{
    struct sim_request *r = sim_stream_add(&c->keys, head, body, bytes);
    sim_stream_push(s, c, &c->keys);
    return sim_stream_find(&c->keys, r->head.request);
}

static void submit_write(struct sim *s, struct sim_client *c)
{
    uint8_t key = (uint8_t)sim_below(s, SIM_KEYS);
    uint8_t body[2 + VALUE_LARGE] = {'k', key};
    uint64_t value = ++s->next_value;
    uint32_t length = sim_chance(s, 0.03) ? VALUE_LARGE : 8 + (uint32_t)sim_below(s, 40);
    memcpy(body + 2, &value, sizeof value);
    struct sim_op op = {.key = key, .client = (uint8_t)(c->number), .value = value, .call_at = s->now};
    struct mob_gcs_request head = {
        .op = MOB_GCS_OP_PUT, .table = MOB_GCS_KV, .key_length = 2, .if_version = UINT64_MAX};
    uint64_t dice = sim_below(s, 10);
    op.type = SIM_OP_PUT;
    if (dice < 4) {
        op.type = SIM_OP_CAS;
        op.expect = head.if_version = sim_chance(s, 0.15) ? 0 : c->known_version[key];
    } else if (dice < 5) {
        op.type = SIM_OP_DELETE;
        head.op = MOB_GCS_OP_DELETE;
        length = 0;
    }
    size_t history = sim_history_call(s, &op);
    struct sim_request *r = sim_client_submit(s, c, &head, body, 2 + length);
    r->history = history + 1;
    s->history[history].chain_client = c->keys.client;
    s->history[history].request = r->head.request;
}

static void send_get(struct sim *s, struct sim_client *c, struct sim_get *g)
{
    if (c->config.epoch == 0)
        return;
    uint64_t to = g->by_chain ? c->config.members[0] : c->config.members[c->config.count - 1];
    struct sim_msg *msg = sim_msg_create(SIM_GET, c->number, sim_node_of_member(to), NULL, 0);
    msg->epoch = c->config.epoch;
    msg->client = c->keys.client;
    msg->tag = g->tag;
    msg->a = g->key;
    msg->b = g->by_chain;
    g->sent_at = s->now;
    sim_send(s, msg);
}

static void submit_get(struct sim *s, struct sim_client *c)
{
    for (size_t i = 0; i < SIM_GETS; i++) {
        struct sim_get *g = &c->gets[i];
        if (g->active)
            continue;
        *g = (struct sim_get){.active = true,
            .by_chain = sim_chance(s, 0.05),
            .tag = ++c->next_tag << 8 | i,
            .key = (uint32_t)sim_below(s, SIM_KEYS)};
        struct sim_op op = {
            .type = SIM_OP_GET, .key = (uint8_t)g->key, .client = c->number, .call_at = s->now};
        g->history = sim_history_call(s, &op);
        send_get(s, c, g);
        return;
    }
}

static void submit_seal_of(struct sim *s, struct sim_client *c, uint64_t incarnation)
{
    if (c->sealing != 0 || incarnation == 0 || !sim_database_seal(s, incarnation, UINT64_MAX))
        return;
    struct mob_gcs_request head = {.op = MOB_GCS_OP_SEAL, .target = incarnation};
    struct sim_request *r = sim_client_submit(s, c, &head, NULL, 0);
    c->sealing = r->head.request;
    c->sealing_log = incarnation;
}

/* Of a node that lives: somebody was wrong about it. */
static void submit_seal(struct sim *s, struct sim_client *c)
{
    struct sim_client *other = &s->clients[sim_below(s, s->plan.clients)];
    if (other->node->up && other->log.client != 0 && c->sealing == 0)
        sim_cover_add(s, SIM_SEALED_LIVE);
    submit_seal_of(s, c, other->log.client);
}

bool sim_client_seal_of(struct sim *s, const struct sim_client *owner)
{
    for (uint32_t i = 0; i < s->plan.clients; i++) {
        struct sim_client *c = &s->clients[i];
        if (c == owner || !c->node->up || c->keys.client == 0 || c->sealing != 0)
            continue;
        submit_seal_of(s, c, owner->log.client);
        if (c->sealing == 0)
            continue;
        sim_cover_add(s, SIM_SEALED_LIVE);
        return true;
    }
    return false;
}

/* The master has logs of dead nodes sealed, and asks again whoever it can when nothing is heard of it. */
static void seal_dead_ones(struct sim *s, struct sim_client *c)
{
    if (c->sealing != 0 || c->keys.client == 0 || !sim_chance(s, 0.1))
        return;
    if (s->dead_log_count > 0) {
        submit_seal_of(s, c, s->dead_logs[sim_below(s, s->dead_log_count)]);
        return;
    }
    for (uint32_t i = 0; i < s->database.seal_count; i++)
        if (s->database.seals[i].cut == UINT64_MAX && !s->database.seals[i].recovered) {
            submit_seal_of(s, c, s->database.seals[i].incarnation);
            return;
        }
}

static void sealed(struct sim *s, const struct sim_client *c, const struct mob_gcs_reply *reply)
{
    sim_cover_add(s, SIM_SEALS);
    uint64_t cut = reply->status == MOB_OK ? reply->number : UINT64_MAX;
    (void)sim_database_seal(s, c->sealing_log, cut);
    for (uint32_t i = 0; i < s->dead_log_count; i++)
        if (s->dead_logs[i] == c->sealing_log)
            s->dead_logs[i--] = s->dead_logs[--s->dead_log_count];
    for (uint32_t i = 0; i < s->database.seal_count; i++) /* nobody knows it: there is nothing to recover */
        if (reply->status == MOB_NOT_FOUND && s->database.seals[i].incarnation == c->sealing_log)
            s->database.seals[i].recovered = true;
}

uint64_t sim_block_hash(uint64_t incarnation, uint64_t number)
{
    uint64_t pair[2] = {incarnation, number};
    return mob_hash64(pair, sizeof pair);
}

uint64_t sim_client_append(struct sim *s, struct sim_client *c, const struct sim_record *record)
{
    struct mob_gcs_request head = {.op = MOB_GCS_OP_APPEND};
    enum { MORE = 50 }; /* bytes that mean nothing */
    uint8_t body[sizeof(uint64_t) + sizeof *record + MORE] = {0};
    uint64_t hash = sim_block_hash(c->log.client, c->log.next - 1);
    memcpy(body, &hash, sizeof hash);
    uint32_t n = sizeof hash + sim_record_write(body + sizeof hash, record);
    uint64_t request = sim_stream_add(&c->log, &head, body, n + (uint32_t)sim_below(s, MORE))->head.request;
    sim_stream_push(s, c, &c->log);
    return request;
}

static bool some_are_not_recovered(const struct sim *s)
{
    for (uint32_t i = 0; i < s->database.seal_count; i++)
        if (!s->database.seals[i].recovered)
            return true;
    return false;
}

static void submit_blocks(struct sim *s, struct sim_client *c)
{
    struct sim_stream *log = &c->log;
    if (log->client == 0) {
        if (c->log_registering == 0 && (!s->healing || some_are_not_recovered(s))) {
            struct mob_gcs_request head = {.op = MOB_GCS_OP_REGISTER};
            c->log_registering = sim_client_submit(s, c, &head, "node", 4)->head.request;
        }
        return;
    }
    for (uint64_t n = sim_below(s, 4); n > 0 && sim_stream_unanswered(log) < LOG_WINDOW; n--) {
        /* One whose log was sealed hears it with its next block; a real node also from its master. */
        if (s->healing && !sim_tasks_want_a_block(c) && !sim_log_is_sealed(s, log->client))
            return;
        struct sim_record record = sim_tasks_next_record(s, c);
        (void)sim_client_append(s, c, &record);
    }
}

static void submit_some(struct sim *s, struct sim_client *c)
{
    if (c->keys.client == 0 || s->now < c->think_until)
        return;
    if (s->healing) {
        if (c->has_log)
            submit_blocks(s, c);
        return;
    }
    c->think_until = s->now + sim_between(s, 0, c->think_ns);
    uint64_t n = 1 + sim_below(s, c->window);
    for (; n > 0; n--) {
        if (sim_chance(s, c->get_share))
            submit_get(s, c);
        else if (sim_stream_unanswered(&c->keys) < c->window)
            submit_write(s, c);
    }
    if (sim_chance(s, 0.004))
        submit_seal(s, c);
    if (sim_chance(s, 0.01)) {
        struct mob_gcs_request head = {.op = MOB_GCS_OP_JOB_DROP, .target = c->log.client};
        sim_client_submit(s, c, &head, NULL, 0);
    }
    if (c->has_log)
        submit_blocks(s, c);
}

/* It asks for nothing more, waits for what it has asked for, and says good-bye. */
static bool is_leaving(const struct sim *s, const struct sim_client *c)
{
    return !s->healing && s->now >= c->leave_at;
}

static void leave(struct sim *s, struct sim_client *c)
{
    struct sim_msg *msg =
        sim_msg_create(SIM_BYE, c->number, sim_node_of_member(c->config.members[0]), NULL, 0);
    msg->epoch = c->config.epoch;
    msg->client = c->keys.client;
    SIM_TRACE(s, "client %u leaves: %llx", c->number, (unsigned long long)c->keys.client);
    sim_send(s, msg);
    sim_client_ends(s, c);
}

static void ask_where(struct sim *s, struct sim_client *c)
{
    uint32_t n = s->plan.slots + SIM_MASTERS;
    struct sim_msg *msg = sim_msg_create(SIM_WHERE, c->number, (uint32_t)sim_below(s, n), NULL, 0);
    sim_send(s, msg);
}

void sim_client_tick(struct sim *s, struct sim_client *c)
{
    sim_tick_later(s, c);
    if (s->now >= c->ask_at) {
        c->ask_at = s->now + (c->config.epoch == 0 ? 3 * SIM_MS : sim_between(s, SIM_MS, ASK_NS));
        ask_where(s, c);
    }
    if (!is_leaving(s, c)) {
        submit_some(s, c);
        seal_dead_ones(s, c);
    }
    sim_recovery_tick(s, c);
    sim_stream_tick(s, c, &c->keys);
    sim_stream_tick(s, c, &c->log);
    if (c->watch.on)
        sim_sub_tick(s, c, &c->watch);
    if (c->flushes)
        sim_flusher_tick(s, c);
    for (size_t i = 0; i < SIM_GETS; i++) {
        struct sim_get *g = &c->gets[i];
        if (g->active && s->now - g->sent_at > GET_AGAIN_NS) {
            g->by_chain = g->by_chain ? sim_chance(s, 0.5) : sim_chance(s, 0.2);
            send_get(s, c, g);
        }
    }
    if (is_leaving(s, c) && sim_client_idle(c))
        leave(s, c);
}

/* ---- what it hears ---- */

/* Everything had died since it knew a configuration: all links are new ones, and the history is another. */
static bool hears_of_start(struct sim *s, const struct sim_client *c, const struct mob_gcs_config *config)
{
    uint64_t known = c->config.epoch;
    if (known == 0 || config->started <= known)
        return false;
    if (config->start == 0)
        sim_cover_add(s, SIM_STARTS_HEARD_LATE);
    return true;
}

static void on_config(struct sim *s, struct sim_client *c, const struct mob_gcs_config *config)
{
    if (config->epoch <= c->config.epoch)
        return;
    bool started = hears_of_start(s, c, config);
    c->config = *config;
    if (started) {
        c->floor_epoch = config->started;
        c->durable = 0;
        sim_flusher_started(s, c);
    }
    sim_stream_config(s, &c->keys);
    sim_stream_config(s, &c->log);
    sim_sub_config(s, c, &c->watch);
    sim_sub_config(s, c, &c->flusher.stream);
}

static void on_keys_reply(
    struct sim *s, struct sim_client *c, const struct sim_msg *msg, struct sim_request *r)
{
    const struct mob_gcs_reply *reply = &msg->reply;
    c->operations++;
    s->result->operations++;
    if (r->history != 0) {
        struct sim_op *op = &s->history[r->history - 1];
        sim_history_return(s, r->history - 1, reply->status, reply->version, 0, reply->seq);
        if (reply->status == MOB_CONFLICT)
            sim_cover_add(s, SIM_CONDITIONS_FAILED);
        bool there =
            (reply->status == MOB_OK && r->head.op == MOB_GCS_OP_PUT) || reply->status == MOB_CONFLICT;
        c->known_version[op->key] = there ? reply->version : 0;
    }
    if (r->head.op == MOB_GCS_OP_REGISTER && r->head.request == c->log_registering) {
        c->log_registering = 0;
        sim_tasks_forget(s, c);
        sim_stream_reset(s, &c->log);
        c->log.client = reply->number;
        c->log.state = SIM_STREAM_READY;
    }
    if (r->head.op == MOB_GCS_OP_FLUSH && r->head.request == c->flusher.request)
        sim_flusher_flushed(s, c, reply);
    if (r->head.op == MOB_GCS_OP_SEAL && r->head.request == c->sealing) {
        c->sealing = 0;
        sealed(s, c, reply);
    }
    sim_recovery_replied(s, c, reply);
}

static void on_reply(struct sim *s, struct sim_client *c, const struct sim_msg *msg)
{
    if (msg->epoch < c->floor_epoch)
        return;
    /* Of a chain that it has not heard of: there is no link to that yet. */
    if (msg->a > c->durable && msg->epoch <= c->config.epoch)
        c->durable = msg->a;
    const struct mob_gcs_reply *reply = &msg->reply;
    if (c->keys.client == 0 && msg->client == c->keys.nonce && reply->seq != 0) {
        c->keys.client = reply->number;
        sim_stream_opened(s, c, &c->keys);
        return;
    }
    struct sim_stream *st = msg->client == c->keys.client ? &c->keys
        : msg->client == c->log.client                    ? &c->log
                                                          : NULL;
    struct sim_request *r = st == NULL || msg->client == 0 ? NULL : sim_stream_find(st, reply->request);
    if (r == NULL || reply->seq == 0)
        return; /* not taken: it is sent again */
    if (r->answered) {
        SIM_CHECK(s,
            r->head.old_status == reply->status && r->head.old_version == reply->version &&
                r->head.old_number == reply->number,
            "client %llx request %llu: two answers, %s version %llu number %llu and %s version %llu number "
            "%llu",
            (unsigned long long)msg->client, (unsigned long long)reply->request,
            mob_status_code((enum mob_status)r->head.old_status), (unsigned long long)r->head.old_version,
            (unsigned long long)r->head.old_number, mob_status_code((enum mob_status)reply->status),
            (unsigned long long)reply->version, (unsigned long long)reply->number);
    } else {
        r->answered = true;
        r->head.old_status = reply->status;
        r->head.old_version = reply->version;
        r->head.old_number = reply->number;
        if (st == &c->keys)
            on_keys_reply(s, c, msg, r);
        st = msg->client == c->keys.client ? &c->keys : &c->log;
    }
    r = sim_stream_find(st, reply->request);
    if (r != NULL)
        r->seq = r->head.old_seq = reply->seq;
    while ((r = sim_stream_find(st, st->answered + 1)) != NULL && r->answered)
        st->answered++;
    sim_tasks_acknowledged(s, c);
    sim_stream_durable(&c->keys, c->durable);
    sim_stream_durable(&c->log, c->durable);
}

static void on_expired(struct sim *s, struct sim_client *c, const struct sim_msg *msg)
{
    if (msg->client == c->keys.client && msg->client != 0) {
        SIM_TRACE(s, "client %u: expired", c->number);
        c->log_registering = c->sealing = 0;
        sim_flusher_flushed(s, c, NULL);
        c->recovery.request = 0; /* asked again, or given up after its time */
        sim_stream_reset(s, &c->keys); /* what was not answered is unknown for ever */
    } else if (msg->client == c->log.client && msg->client != 0) {
        uint64_t cut = msg->type == SIM_ATTACHED ? msg->attached.last : msg->b;
        SIM_TRACE(s, "client %u: log %llu sealed at %llu, acknowledged %llu", c->number,
            (unsigned long long)c->log.client, (unsigned long long)cut, (unsigned long long)c->log.answered);
        SIM_CHECK(s, cut >= c->log.answered || sim_log_is_excused(s, c->log.client),
            "log %llu: %llu blocks were acknowledged, and the cut is %llu", (unsigned long long)c->log.client,
            (unsigned long long)c->log.answered, (unsigned long long)cut);
        leave_log(s, c); /* until the master knows */
        sim_tasks_forget(s, c);
        sim_stream_reset(s, &c->log);
    }
}

static void on_value(struct sim *s, struct sim_client *c, const struct sim_msg *msg)
{
    if ((msg->tag & 255) == SIM_TAG_RECOVERY) {
        sim_recovery_message(s, c, msg);
        return;
    }
    struct sim_get *g = &c->gets[msg->tag & 255];
    if (!g->active || g->tag != msg->tag)
        return;
    if (msg->status == MOB_AGAIN) {
        g->by_chain = true;
        send_get(s, c, g);
        return;
    }
    g->active = false;
    c->operations++;
    s->result->operations++;
    c->known_version[g->key] = msg->status == MOB_OK ? msg->b : 0;
    sim_history_return(s, g->history, msg->status, msg->b, msg->a, 0);
}

void sim_client_message(struct sim *s, struct sim_client *c, const struct sim_msg *msg)
{
    switch ((enum sim_msg_type)msg->type) {
    case SIM_REPLY:
        on_reply(s, c, msg);
        break;
    case SIM_NACK:
        on_config(s, c, &msg->config);
        break;
    case SIM_GAP:
        if (msg->client == c->keys.client)
            sim_stream_gap(s, c, &c->keys, msg->b);
        else if (msg->client == c->log.client)
            sim_stream_gap(s, c, &c->log, msg->b);
        break;
    case SIM_EXPIRED:
        on_expired(s, c, msg);
        break;
    case SIM_ATTACHED:
        if (msg->attached.status != MOB_OK)
            on_expired(s, c, msg);
        else if (msg->client == c->keys.client)
            sim_stream_attached(s, c, &c->keys, msg);
        else if (msg->client == c->log.client)
            sim_stream_attached(s, c, &c->log, msg);
        break;
    case SIM_VALUE:
        on_value(s, c, msg);
        break;
    case SIM_BLOCK:
    case SIM_RESYNC:
        if (!sim_sub_message(s, c, &c->watch, msg) && sim_sub_message(s, c, &c->flusher.stream, msg))
            sim_flusher_message(s, c, msg);
        break;
    case SIM_DB_ANSWER:
        if (msg->a == SIM_DB_ROWS) {
            sim_recovery_message(s, c, msg);
            break;
        } /* fall through */
    case SIM_STATS_ANSWER:
        sim_flusher_message(s, c, msg);
        break;
    case SIM_ROWS:
        sim_recovery_message(s, c, msg);
        break;
    case SIM_SCAN:
    case SIM_SUB:
    case SIM_STATS:
    case SIM_CHAIN:
    case SIM_PUT:
    case SIM_ATTACH:
    case SIM_RESENT:
    case SIM_BYE:
    case SIM_GET:
    case SIM_WHERE:
    case SIM_REPORT:
    case SIM_LEASE:
    case SIM_BOOK:
    case SIM_ENTER:
    case SIM_DB:
    case SIM_MSG_TYPES:
        break;
    }
}
