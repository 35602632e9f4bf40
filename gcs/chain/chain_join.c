/* A new member takes the state of the tail: first the tables, in batches which it asks for one by one, while
 * they go on changing; then the log from the moment at which the first batch was read. Entries have absolute
 * effects, so replaying them over rows that are newer ends in the same state. */
#include "gcs/chain/chain_internal.h"
#include "gcs/chain/chain_rules.h"

#include <stdlib.h>

#include "gcs/chain/chain_rows.h"

#define SOURCE_IDLE_NS (500 * 1000000ll) /* the joiner is gone */
#define SOURCE_SAYS_NS (50 * 1000000ll) /* how often the joiner hears how far the log goes */
#define STALL_LOOKS \
    10 /* a source is silent when so many looks at least, over the whole of a stall, find nothing */
/* Each question for a batch is a batch made at the source, so one that is not answered is asked again after
 * twice as long each time, up to so long: a source that is busy is not kept busy with the same batch. */
#define ASK_PAUSE_MAX_NS (32 * 1000000ll)
#define GIVE_UP_ENTRIES (MOB_CHAIN_ENTRIES_MAX / 8 * 7) /* of the log, kept for a joiner */
#define LAG_SHRINKS 16 /* by this part at least from one position that is told to the next */
#define CLIENTS_AT_ONCE 32u
#define CLIENT_ROW_MAX (20u + MOB_GCS_WINDOW * sizeof(struct mob_gcs_reply))

/* What a cursor begins with. */
enum section { SECTION_INCARNATIONS = 1, SECTION_CLIENTS, SECTION_KEYS, SECTION_OWNER };

/* ---- the tail ---- */

void mob_chain_source_end(struct mob_chain *c)
{
    c->source = (struct mob_chain_source){0};
}

bool mob_chain_join(const struct mob_chain *c, uint64_t *joiner_out, uint64_t *lag_out)
{
    if (c->source.joiner == 0)
        return false;
    *joiner_out = c->source.joiner;
    /* Who is taken in commits what it has: not before the start that it has joined is on the disk. */
    bool waits = mob_chain_start_waits(c) && MOB_RULE(START_DISK);
    bool ready = c->source.ready > 0 && c->source.ready <= c->applied + 1 && !waits;
    *lag_out = ready ? c->applied + 1 - c->source.ready : UINT64_MAX;
    return true;
}

static void cursor_set(struct mob_chain_cursor *cursor, enum section section, const void *after, uint32_t n)
{
    MOB_ASSERT(1u + n <= sizeof cursor->bytes);
    cursor->bytes[0] = (uint8_t)section;
    if (n > 0)
        memcpy(cursor->bytes + 1, after, n);
    cursor->length = 1u + n;
}

static uint64_t cursor_number(const struct mob_chain_cursor *cursor)
{
    uint64_t n = 0;
    if (cursor->length == 1u + sizeof n)
        memcpy(&n, cursor->bytes + 1, sizeof n);
    return n;
}

static bool batch_full(const struct mob_chain *c, const struct mob_writer *w)
{
    return mob_writer_length(w) >= c->options.snapshot_bytes;
}

static void write_incarnations(struct mob_chain *c, struct mob_chain_cursor *cursor, struct mob_writer *w)
{
    uint64_t after = cursor_number(cursor);
    if (after == 0) {
        uint64_t flushed = mob_state_flushed(c->options.state);
        mob_chain_row_write(w, MOB_CHAIN_ROW_FLUSHED, &flushed, sizeof flushed);
    }
    const struct mob_gcs_incarnation *row;
    while (!batch_full(c, w) && (row = mob_state_incarnation_next(c->options.state, after)) != NULL) {
        mob_chain_row_write(w, MOB_CHAIN_ROW_INCARNATION, row, sizeof *row);
        after = row->id;
    }
    if (mob_state_incarnation_next(c->options.state, after) == NULL)
        cursor_set(cursor, SECTION_CLIENTS, NULL, 0);
    else
        cursor_set(cursor, SECTION_INCARNATIONS, &after, sizeof after);
}

static void write_client(const struct mob_chain_client *client, struct mob_writer *w)
{
    uint8_t content[CLIENT_ROW_MAX];
    struct mob_writer row = mob_writer_of(content, sizeof content);
    uint32_t count = 0;
    for (size_t i = 0; i < MOB_GCS_WINDOW; i++)
        count += client->replies[i].seq != 0;
    mob_write_u64(&row, client->id);
    mob_write_u64(&row, client->last);
    mob_write_u32(&row, count);
    for (size_t i = 0; i < MOB_GCS_WINDOW; i++)
        if (client->replies[i].seq != 0)
            mob_write_bytes(&row, &client->replies[i], sizeof client->replies[i]);
    mob_chain_row_write(w, MOB_CHAIN_ROW_CLIENT, content, (uint32_t)mob_writer_length(&row));
}

static void write_clients(struct mob_chain *c, struct mob_chain_cursor *cursor, struct mob_writer *w)
{
    uint64_t after = cursor_number(cursor);
    const struct mob_chain_client *found[CLIENTS_AT_ONCE];
    size_t count = mob_chain_clients_after(&c->clients, after, found, CLIENTS_AT_ONCE), i = 0;
    for (; i < count && !batch_full(c, w); i++) {
        write_client(found[i], w);
        after = found[i]->id;
    }
    if (i == count && count < CLIENTS_AT_ONCE)
        cursor_set(cursor, SECTION_KEYS, NULL, 0);
    else
        cursor_set(cursor, SECTION_CLIENTS, &after, sizeof after);
}

static void write_keys(struct mob_chain *c, struct mob_chain_cursor *cursor, struct mob_writer *w)
{
    struct mob_state_key key;
    uint8_t after[1 + MOB_GCS_KEY_MAX];
    uint32_t length = cursor->length - 1;
    memcpy(after, cursor->bytes + 1, length);
    while (mob_state_after(c->options.state, after, length, &key)) {
        if (batch_full(c, w)) {
            cursor_set(cursor, SECTION_KEYS, after, length);
            return;
        }
        if (key.value != NULL) { /* large values are with the owner */
            struct mob_gcs_kv kv = {.key = key.bytes + 1,
                .key_length = key.length - 1,
                .value = key.value,
                .value_length = key.value_length,
                .version = key.version};
            mob_chain_row_write_key(w, key.bytes[0], &kv);
        }
        memcpy(after, key.bytes, key.length);
        length = key.length;
    }
    cursor_set(cursor, SECTION_OWNER, NULL, 0);
}

static void send_rows(struct mob_chain *c, const struct mob_writer *rows, const struct mob_chain_cursor *next)
{
    uint8_t *front = c->rows + MOB_CHAIN_CURSOR_MAX - next->length;
    uint16_t length = (uint16_t)next->length;
    MOB_ASSERT(!rows->failed);
    c->source.rest_until_ns = c->now_ns + mob_chain_rest(c);
    c->source.given_at = c->applied;
    memcpy(front, &length, sizeof length);
    memcpy(front + sizeof length, next->bytes, next->length);
    struct mob_gcs_link_msg m = {.link = {.seq = c->source.begin_seq,
                                     .prev = c->source.batch,
                                     .digest = c->source.begin_digest,
                                     .token = c->source.token},
        .body = front,
        .body_bytes = (uint32_t)(sizeof length + next->length + mob_writer_length(rows))};
    mob_chain_send(c, c->source.joiner, MOB_GCS_SNAPSHOT, &m);
}

static struct mob_writer rows_writer(struct mob_chain *c)
{
    return mob_writer_of(c->rows + MOB_CHAIN_CURSOR_MAX + sizeof(uint16_t), MOB_CHAIN_SNAPSHOT_MAX);
}

static void give_batch(struct mob_chain *c, struct mob_chain_cursor *cursor)
{
    struct mob_writer w = rows_writer(c);
    switch ((enum section)cursor->bytes[0]) {
    case SECTION_INCARNATIONS:
        write_incarnations(c, cursor, &w);
        break;
    case SECTION_CLIENTS:
        write_clients(c, cursor, &w);
        break;
    case SECTION_KEYS:
        write_keys(c, cursor, &w);
        break;
    case SECTION_OWNER:
    default:
        return;
    }
    send_rows(c, &w, cursor);
}

static bool source_begin(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    if (c->rows == NULL)
        c->rows = malloc(MOB_CHAIN_CURSOR_MAX + sizeof(uint16_t) + MOB_CHAIN_SNAPSHOT_MAX);
    if (c->rows == NULL)
        return false;
    c->source = (struct mob_chain_source){.joiner = m->from,
        .token = m->link.token,
        .begin_seq = c->applied,
        .begin_digest = c->digest,
        .begin_bytes = c->ever_bytes,
        .acked = c->applied,
        .begun_ns = c->now_ns,
        .given_at = c->applied,
        .window = MOB_CHAIN_JOIN_WINDOW_MIN,
        .lag_then = UINT64_MAX,
        .heard_ns = c->now_ns};
    return true;
}

static void tell_leave(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    struct mob_gcs_link_msg leave = {.link = {.token = m->link.token}};
    mob_chain_send(c, m->from, MOB_GCS_LEAVE, &leave);
}

/* The joiner's hold on the log must not stop the chain. What is kept for this member's own disk, or is not
 * committed, would be kept without it, too: a joiner that were sent away for it would only begin anew. */
static bool source_affordable(const struct mob_chain *c)
{
    uint64_t own = c->committed < c->disk ? c->committed : c->disk;
    return c->source.acked >= own || mob_chain_entries(c) <= GIVE_UP_ENTRIES;
}

static void begin_batch(struct mob_chain *c, uint64_t batch)
{
    struct mob_chain_source *s = &c->source;
    s->waiting = 0;
    if (s->cursor.bytes[0] != SECTION_OWNER) {
        s->batch = batch;
        struct mob_chain_cursor cursor = s->cursor;
        give_batch(c, &cursor);
        return;
    }
    if (s->owner_busy && s->batch == batch)
        return;
    s->batch = batch;
    s->owner_busy = true;
    struct mob_gcs_link_msg ask = {.type = MOB_GCS_JOIN,
        .epoch = c->config.epoch,
        .from = s->joiner,
        .link = {.prev = batch, .token = s->token},
        .body = s->cursor.bytes + 1,
        .body_bytes = s->cursor.length - 1};
    mob_chain_point(c, &(struct mob_chain_action){.type = MOB_CHAIN_ROWS}, &ask);
}

static void on_join(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    struct mob_chain_source *s = &c->source;
    bool known = s->joiner == m->from && s->token == m->link.token;
    bool starts = m->link.prev == 1 && m->body_bytes == 0 && s->joiner == 0;
    bool again = m->link.prev == 1 && m->body_bytes == 0 && s->joiner == m->from && s->token < m->link.token;
    if (!mob_chain_is_tail(c))
        return;
    if (!known && !starts && !again) {
        if (s->joiner != m->from || s->token < m->link.token)
            tell_leave(c, m);
        return;
    }
    if (!known && !source_begin(c, m))
        return;
    if (s->replays || m->link.prev < s->batch || m->body_bytes > MOB_CHAIN_CURSOR_MAX)
        return;
    s->heard_ns = c->now_ns;
    if (m->body_bytes == 0)
        cursor_set(&s->cursor, SECTION_INCARNATIONS, NULL, 0);
    else
        cursor_set(&s->cursor, m->body[0], m->body + 1, m->body_bytes - 1);
    if (m->link.prev > s->batch && c->now_ns < s->rest_until_ns)
        s->waiting = m->link.prev;
    else
        begin_batch(c, m->link.prev);
}

int64_t mob_chain_rests_until(const struct mob_chain *c)
{
    return c->source.waiting == 0 ? INT64_MAX : c->source.rest_until_ns;
}

void mob_chain_source_rested(struct mob_chain *c)
{
    struct mob_chain_source *s = &c->source;
    if (s->waiting == 0 || c->now_ns < s->rest_until_ns || !mob_chain_is_tail(c))
        return;
    begin_batch(c, s->waiting);
}

void mob_chain_on_rows(struct mob_chain *c, const struct mob_chain_rows *rows)
{
    struct mob_chain_source *s = &c->source;
    if (s->joiner != rows->joiner || s->token != rows->token || !s->owner_busy)
        return;
    s->owner_busy = false;
    struct mob_chain_cursor next = {.length = 0};
    if (rows->cursor_bytes > 0)
        cursor_set(&next, SECTION_OWNER, rows->cursor, rows->cursor_bytes);
    struct mob_writer w = rows_writer(c);
    mob_write_bytes(&w, rows->rows, rows->row_bytes);
    send_rows(c, &w, &next);
}

/* Where nobody writes there is no LOG to send, and a joiner that hears nothing is to know why. */
static void say_position(struct mob_chain *c)
{
    struct mob_chain_source *s = &c->source;
    if (c->now_ns - s->said_ns < SOURCE_SAYS_NS)
        return;
    s->said_ns = c->now_ns;
    uint64_t lag = c->applied - s->acked;
    if (lag > s->lag_then - s->lag_then / LAG_SHRINKS && s->window < MOB_CHAIN_JOIN_WINDOW_MAX)
        s->window *= 2;
    s->lag_then = lag;
    struct mob_gcs_link_msg m = {.link = {.seq = c->applied, .token = s->token}};
    mob_chain_send(c, s->joiner, MOB_GCS_POSITION, &m);
}

static void on_joined(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    struct mob_chain_source *s = &c->source;
    if (s->joiner != m->from || s->token != m->link.token) {
        if (mob_chain_is_tail(c))
            tell_leave(c, m);
        return;
    }
    s->heard_ns = c->now_ns;
    uint64_t has = m->link.seq;
    if (has < c->base_seq || has > c->applied)
        return;
    bool lost = s->replays && has == s->acked && s->log_at > mob_chain_ordinal_above(c, has);
    if (!s->replays)
        s->replay_seq = c->applied;
    bool nearer = m->link.committed > 0 ? m->link.committed > s->ready : has > s->acked;
    if (!s->replays || nearer)
        s->moved_ns = c->now_ns;
    if (!s->replays || lost)
        s->log_at = mob_chain_ordinal_above(c, has);
    s->replays = true;
    if (has > s->acked)
        s->acked = has;
    s->ready = m->link.committed;
    say_position(c);
}

/* ---- the joiner ---- */

static void ask_batch(struct mob_chain *c)
{
    struct mob_chain_joiner *j = &c->join;
    struct mob_gcs_link_msg m = {.link = {.prev = j->batch, .token = j->token},
        .body = j->cursor.bytes,
        .body_bytes = j->cursor.length};
    mob_chain_send(c, j->source, MOB_GCS_JOIN, &m);
    int64_t pause = j->ask_pause_ns == 0 ? c->options.resend_ns : j->ask_pause_ns;
    j->ask_ns = c->now_ns + pause;
    j->ask_pause_ns = 2 * pause < ASK_PAUSE_MAX_NS ? 2 * pause : ASK_PAUSE_MAX_NS;
}

/* Ready for a place in the chain is what its own store has; and not before the snapshot is on its disk, or
 * what all the others call durable would not be on this member's. */
static void say_joined(struct mob_chain *c)
{
    uint64_t ready = c->disk >= c->join.begin_seq ? c->stored + 1 : 0;
    struct mob_gcs_link_msg m = {.link = {.seq = c->applied, .committed = ready, .token = c->join.token}};
    mob_chain_send(c, c->join.source, MOB_GCS_JOINED, &m);
}

void mob_chain_join_begin(struct mob_chain *c)
{
    struct mob_chain_joiner *j = &c->join;
    mob_chain_forget(c);
    *j = (struct mob_chain_joiner){.source = c->config.members[c->config.count - 1],
        .token = j->token + 1,
        .wanted = true,
        .batch = 1,
        .heard_ns = c->now_ns,
        .looked_ns = c->now_ns};
    mob_chain_set_state(c, MOB_CHAIN_JOINING);
    mob_chain_point(c, &(struct mob_chain_action){.type = MOB_CHAIN_WIPE}, NULL);
}

static enum mob_status load_row(struct mob_chain *c, const struct mob_chain_row *row)
{
    if (row->kind == MOB_CHAIN_ROW_INCARNATION) {
        struct mob_gcs_incarnation incarnation;
        enum mob_status status = mob_chain_row_incarnation(row, &incarnation);
        return status == MOB_OK ? mob_state_register(c->options.state, &incarnation) : status;
    }
    if (row->kind == MOB_CHAIN_ROW_KEY) {
        struct mob_gcs_kv kv;
        uint8_t table;
        enum mob_status status = mob_chain_row_key(row, &table, &kv);
        return status == MOB_OK ? mob_state_set(c->options.state, table, &kv) : status;
    }
    if (row->kind == MOB_CHAIN_ROW_FLUSHED && row->bytes == sizeof(uint64_t)) {
        uint64_t upto;
        memcpy(&upto, row->content, sizeof upto);
        mob_state_set_flushed(c->options.state, upto);
        return MOB_OK;
    }
    if (row->kind != MOB_CHAIN_ROW_CLIENT)
        return row->kind >= MOB_CHAIN_ROW_OWNER ? MOB_OK : MOB_CORRUPT;
    struct mob_chain_row_client client;
    enum mob_status status = mob_chain_row_client(row, &client);
    if (status == MOB_OK)
        status = mob_chain_load_client(c, client.id, client.last);
    for (uint32_t i = 0; i < client.count && status == MOB_OK; i++) {
        struct mob_gcs_reply reply;
        memcpy(&reply, client.replies + i * sizeof reply, sizeof reply);
        mob_chain_load_reply(c, client.id, &reply);
    }
    return status;
}

/* The log follows from where the snapshot began. */
static void begin_replay(struct mob_chain *c)
{
    c->join.replays = true;
    c->applied = c->committed = c->base_seq = c->join.begin_seq;
    c->digest = c->base_digest = c->join.begin_digest;
    say_joined(c);
}

static void on_snapshot(struct mob_chain *c, const struct mob_gcs_link_msg *m)
{
    struct mob_chain_joiner *j = &c->join;
    if (j->replays || m->link.prev != j->batch)
        return;
    struct mob_reader r = mob_reader_of(m->body, m->body_bytes);
    uint16_t cursor_bytes;
    mob_read_into(&r, &cursor_bytes, sizeof cursor_bytes);
    const uint8_t *cursor = mob_read_bytes(&r, cursor_bytes);
    const uint8_t *rows = r.at;
    bool same = !j->begun || (j->begin_seq == m->link.seq && j->begin_digest == m->link.digest);
    if (!same) { /* the source had given it up, and a late JOIN made it begin anew: its log is another one */
        mob_chain_join_begin(c);
        return;
    }
    enum mob_status status = cursor == NULL || cursor_bytes > MOB_CHAIN_CURSOR_MAX ? MOB_CORRUPT : MOB_OK;
    struct mob_chain_row row;
    while (status == MOB_OK && mob_chain_row_next(&r, &row))
        status = load_row(c, &row);
    if (status != MOB_OK || !mob_reader_ok(&r)) {
        mob_chain_fail(c, MOB_CHAIN_SNAPSHOT);
        return;
    }
    j->begun = true;
    j->begin_seq = m->link.seq;
    j->begin_digest = m->link.digest;
    j->batch++;
    j->ask_pause_ns = 0;
    memcpy(j->cursor.bytes, cursor, cursor_bytes);
    j->cursor.length = cursor_bytes;
    struct mob_gcs_link_msg load = {
        .link = m->link, .body = rows, .body_bytes = (uint32_t)(m->body + m->body_bytes - rows)};
    mob_chain_point(c, &(struct mob_chain_action){.type = MOB_CHAIN_LOAD}, &load);
    if (cursor_bytes == 0)
        begin_replay(c);
    else
        ask_batch(c);
}

static enum mob_status on_log(struct mob_chain *c, const struct mob_gcs_link_msg *m, void *hold)
{
    if (!c->join.replays || m->link.prev != c->applied)
        return MOB_FINISHED;
    enum mob_status status = mob_chain_take_entry(c, m, hold);
    if (status == MOB_OK && m->link.committed > c->committed)
        c->committed = m->link.committed < c->applied ? m->link.committed : c->applied;
    if (status == MOB_OK)
        say_joined(c);
    return status;
}

enum mob_status mob_chain_join_message(struct mob_chain *c, const struct mob_gcs_link_msg *m, void *hold)
{
    if (m->type == MOB_GCS_JOIN) {
        on_join(c, m);
        return MOB_FINISHED;
    }
    if (m->type == MOB_GCS_JOINED) {
        on_joined(c, m);
        return MOB_FINISHED;
    }
    bool too_late = m->type == MOB_GCS_LEAVE && c->state == MOB_CHAIN_SYNCING && !c->synced &&
        m->epoch == c->config.epoch && m->from == mob_chain_predecessor(c);
    if (too_late)
        mob_chain_fail(c, MOB_CHAIN_TOO_LATE);
    bool mine = c->state == MOB_CHAIN_JOINING && m->from == c->join.source && m->link.token == c->join.token;
    /* Who hears of a log that does not come has not been answered. */
    if (!mine || (m->type == MOB_GCS_POSITION && m->link.seq > c->applied))
        return MOB_FINISHED;
    c->join.heard_ns = c->now_ns;
    if (m->type == MOB_GCS_POSITION)
        return MOB_FINISHED;
    if (m->type == MOB_GCS_LOG)
        return on_log(c, m, hold);
    if (m->type == MOB_GCS_SNAPSHOT)
        on_snapshot(c, m);
    else if (c->join.begun) /* LEAVE; the next tick asks again */
        mob_chain_join_begin(c);
    return MOB_FINISHED;
}

/* While this process does not run it hears nothing, whatever the source says: of the time between two looks
 * no more counts as silence than if they had been on time. */
static bool source_is_silent(struct mob_chain *c)
{
    struct mob_chain_joiner *j = &c->join;
    if (j->heard_ns == 0) /* before the first tick */
        j->heard_ns = j->looked_ns = c->now_ns;
    int64_t late = c->now_ns - j->looked_ns - c->options.stall_ns / STALL_LOOKS;
    if (late > 0)
        j->heard_ns += late;
    j->looked_ns = c->now_ns;
    return c->now_ns - j->heard_ns >= c->options.stall_ns;
}

void mob_chain_join_tick(struct mob_chain *c)
{
    struct mob_chain_source *s = &c->source;
    bool gone =
        s->joiner != 0 && s->joiner != mob_chain_successor(c) && c->now_ns - s->heard_ns > SOURCE_IDLE_NS;
    bool given_up = s->joiner != 0 && !source_affordable(c);
    c->hurries |= given_up;
    if (gone || given_up)
        mob_chain_source_end(c);
    if (c->state != MOB_CHAIN_JOINING)
        return;
    /* A source answers each question, if only that it has another joiner: this one is not heard, or does not
     * hear. It has nothing that anybody needs, and its place is needed. */
    bool stalled = source_is_silent(c);
    if (stalled && (c->join.replays ? MOB_RULE(LOG_STALLED) : MOB_RULE(JOIN_STALLED)))
        mob_chain_fail(c, MOB_CHAIN_STALLED);
    else if (c->join.replays)
        say_joined(c);
    else if (c->now_ns >= c->join.ask_ns)
        ask_batch(c);
}
