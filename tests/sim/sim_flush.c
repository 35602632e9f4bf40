/* The flusher of gcs/flush as a client has it beside its requests: a session that asks the members and the
 * database where they are, follows the stream from there, writes durable blocks with the watermark's
 * compare-and-set, and lets the members drop what is written by a FLUSH. Several may be at it at once. */
#include <stdlib.h>

#include "tests/sim/sim_internal.h"

#define PAUSE_NS (8 * SIM_MS)
#define PATIENCE_NS (25 * SIM_MS)
#define BATCH_MAX 24u

/* ---- a session ---- */

static void end_session(struct sim *s, struct sim_flusher *f, const char *why)
{
    SIM_TRACE(s, "flusher: session ends: %s", why);
    sim_sub_stop(&f->stream);
    f->state = SIM_FLUSH_NONE;
    f->batch_count = f->writing = 0;
    f->busy = false;
    f->next_at = s->now + PAUSE_NS;
}

void sim_flusher_start(struct sim *s, struct sim_client *c)
{
    struct sim_flusher *f = &c->flusher;
    uint64_t tag = f->tag, sub_tag = f->stream.tag;
    *f = (struct sim_flusher){.tag = tag, .next_at = s->now + sim_between(s, 0, 2 * PAUSE_NS)};
    f->stream.tag = sub_tag;
}

void sim_flusher_stop(struct sim_client *c)
{
    struct sim_flusher *f = &c->flusher;
    sim_sub_stop(&f->stream);
    free(f->batch);
    f->batch = NULL;
    f->batch_count = f->batch_capacity = 0;
}

static struct sim_msg *ask_database(struct sim *s, struct sim_client *c, enum sim_db_op op, uint32_t bytes)
{
    struct sim_flusher *f = &c->flusher;
    struct sim_msg *msg = sim_msg_create(SIM_DB, c->number, s->database.number, f->batch, bytes);
    msg->a = op;
    msg->tag = ++f->tag;
    f->give_up_at = s->now + PATIENCE_NS;
    return msg;
}

static void begin(struct sim *s, struct sim_client *c)
{
    struct sim_flusher *f = &c->flusher;
    uint64_t tail = c->config.members[c->config.count - 1];
    struct sim_msg *msg = sim_msg_create(SIM_STATS, c->number, sim_node_of_member(tail), NULL, 0);
    msg->tag = ++f->tag;
    f->state = SIM_FLUSH_ASKS;
    f->give_up_at = s->now + PATIENCE_NS;
    sim_send(s, msg);
}

static void on_stats(struct sim *s, struct sim_client *c, const struct sim_msg *msg)
{
    struct sim_flusher *f = &c->flusher;
    if (msg->epoch >= c->floor_epoch && msg->epoch <= c->config.epoch && msg->a > c->durable)
        c->durable = msg->a; /* of a session that runs, too */
    if (f->state != SIM_FLUSH_ASKS || msg->tag != f->tag)
        return;
    f->flushed = msg->b;
    f->flushed_rows = msg->c;
    f->state = SIM_FLUSH_OPENS;
    sim_send(s, ask_database(s, c, SIM_DB_WATERMARK, 0));
}

static void opened(struct sim *s, struct sim_client *c, const struct sim_msg *msg)
{
    struct sim_flusher *f = &c->flusher;
    SIM_CHECK(s, msg->b >= f->flushed, "the watermark is %llu, and the members flushed up to %llu",
        (unsigned long long)msg->b, (unsigned long long)f->flushed);
    f->written = msg->b;
    f->rows = msg->c;
    f->state = SIM_FLUSH_RUNS;
    f->batch_count = f->writing = 0;
    f->busy = false;
    sim_cover_add(s, SIM_SESSIONS);
    sim_sub_start(s, c, &f->stream, f->flushed);
}

static void on_written(struct sim *s, struct sim_flusher *f, const struct sim_msg *msg)
{
    f->busy = false;
    if (msg->status != MOB_OK) {
        end_session(s, f, "overtaken");
        return;
    }
    f->written = f->write_upto;
    f->rows += f->writing;
    f->batch_count -= f->writing;
    memmove(f->batch, f->batch + f->writing, f->batch_count * sizeof *f->batch);
    f->writing = 0;
}

/* One of the stream, in its order. */
static void on_stream(struct sim *s, struct sim_flusher *f, const struct sim_msg *msg)
{
    struct sim_block b;
    if (msg->type == SIM_RESYNC) { /* more was dropped than it knew, or the history is another one */
        end_session(s, f, "resync");
        return;
    }
    memcpy(&b, msg->body, sizeof b);
    if (b.seq > f->written && b.seq > (f->busy ? f->write_upto : 0))
        *SIM_GROW(f->batch, f->batch_count, f->batch_capacity) = b;
}

void sim_flusher_started(struct sim *s, struct sim_client *c)
{
    if (c->flusher.state != SIM_FLUSH_NONE && s->setup.without != SIM_RULE_SESSION)
        end_session(s, &c->flusher, "everything had died");
}

void sim_flusher_message(struct sim *s, struct sim_client *c, const struct sim_msg *msg)
{
    struct sim_flusher *f = &c->flusher;
    if (!c->flushes)
        return;
    if (msg->type == SIM_STATS_ANSWER)
        on_stats(s, c, msg);
    else if (msg->type != SIM_DB_ANSWER)
        on_stream(s, f, msg);
    else if (msg->tag == f->tag && f->state == SIM_FLUSH_OPENS)
        opened(s, c, msg);
    else if (msg->tag == f->tag && f->state == SIM_FLUSH_RUNS && f->busy)
        on_written(s, f, msg);
}

/* ---- what it writes, and what then goes ---- */

static void write_some(struct sim *s, struct sim_client *c)
{
    struct sim_flusher *f = &c->flusher;
    size_t n = 0;
    while (n < f->batch_count && n < BATCH_MAX &&
        (f->batch[n].seq <= c->durable || s->setup.without == SIM_RULE_DURABLE))
        n++;
    if (n == 0 || f->busy || !sim_chance(s, 0.3))
        return;
    struct sim_msg *msg = ask_database(s, c, SIM_DB_WRITE, (uint32_t)(n * sizeof *f->batch));
    msg->b = f->written;
    msg->c = f->write_upto = f->batch[n - 1].seq;
    f->writing = n;
    f->busy = true;
    sim_send(s, msg);
}

static void flush_some(struct sim *s, struct sim_client *c)
{
    struct sim_flusher *f = &c->flusher;
    if (f->request != 0 || f->busy || f->written <= f->flushed || c->keys.client == 0 || !sim_chance(s, 0.1))
        return;
    struct mob_gcs_request head = {.op = MOB_GCS_OP_FLUSH, .target = f->written, .if_version = f->flushed};
    uint64_t rows = f->rows - f->flushed_rows;
    f->request_upto = f->written;
    f->request_rows = rows;
    f->request = sim_client_submit(s, c, &head, &rows, sizeof rows)->head.request;
}

void sim_flusher_flushed(struct sim *s, struct sim_client *c, const struct mob_gcs_reply *reply)
{
    struct sim_flusher *f = &c->flusher;
    f->request = 0;
    if (f->state != SIM_FLUSH_RUNS)
        return;
    if (reply == NULL || reply->status != MOB_OK || reply->number != f->request_upto) {
        if (reply != NULL)
            sim_cover_add(s, SIM_FLUSHES_LATE);
        end_session(s, f, "FLUSH changed nothing");
        return;
    }
    f->flushed = f->request_upto;
    f->flushed_rows += f->request_rows;
}

void sim_flusher_tick(struct sim *s, struct sim_client *c)
{
    struct sim_flusher *f = &c->flusher;
    bool waits = f->state == SIM_FLUSH_ASKS || f->state == SIM_FLUSH_OPENS || f->busy;
    if (waits && s->now > f->give_up_at) /* committed or not, the watermark tells the next session */
        end_session(s, f, "no answer");
    if (f->state == SIM_FLUSH_NONE) {
        if (s->now >= f->next_at && f->request == 0 && c->config.epoch != 0)
            begin(s, c);
        return;
    }
    if (f->state != SIM_FLUSH_RUNS)
        return;
    sim_sub_tick(s, c, &f->stream);
    write_some(s, c);
    flush_some(s, c);
}

/* ---- what must hold ---- */

const struct sim_block *sim_cold_find(const struct sim *s, uint64_t seq)
{
    for (size_t i = 0; i < s->database.cold_count; i++)
        if (s->database.cold[i].seq == seq)
            return &s->database.cold[i];
    return NULL;
}

bool sim_was_dropped(const struct sim *s, const struct sim_block *block)
{
    for (size_t i = 0; i < s->dropped_count; i++)
        if (s->dropped[i].incarnation == block->incarnation && s->dropped[i].number == block->number)
            return true;
    return false;
}

void sim_check_dropped(struct sim *s, const struct sim_member *m, const struct mob_chain_entry *e)
{
    SIM_CHECK(s, e->op != MOB_GCS_OP_JOB_DROP || e->drop_count <= e->number,
        "member %u drops %u blocks at %llu, and the answer is that %llu went", m->slot, e->drop_count,
        (unsigned long long)e->seq, (unsigned long long)e->number);
    for (uint32_t d = 0; d < e->drop_count; d++)
        for (size_t i = 0; i < m->memory.block_count; i++)
            if (m->memory.blocks[i].seq == e->drops[d] && !sim_was_dropped(s, &m->memory.blocks[i])) {
                *SIM_GROW(s->dropped, s->dropped_count, s->dropped_capacity) = m->memory.blocks[i];
                s->task_dropped[m->memory.blocks[i].record.task] = true;
            }
}

void sim_check_flush(struct sim *s, const struct sim_member *m, const struct mob_chain_entry *e)
{
    bool drops = false;
    for (size_t i = 0; i < m->memory.block_count && m->memory.blocks[i].seq <= mob_chain_flush_upto(e); i++) {
        const struct sim_block *b = &m->memory.blocks[i], *cold = sim_cold_find(s, b->seq);
        drops = true;
        SIM_CHECK(s, (cold != NULL && memcmp(cold, b, sizeof *b) == 0) || sim_was_dropped(s, b),
            "member %u drops block %llu of log %llu at %llu, and the database does not have it", m->slot,
            (unsigned long long)b->number, (unsigned long long)b->incarnation, (unsigned long long)b->seq);
    }
    if (drops)
        sim_cover_add(s, SIM_FLUSHES);
    SIM_CHECK(s, e->number <= s->database.watermark,
        "member %u flushes up to %llu, and the watermark is %llu", m->slot, (unsigned long long)e->number,
        (unsigned long long)s->database.watermark);
}

static void check_row(struct sim *s, const struct sim_member *head, size_t i)
{
    const struct sim_block *b = &s->database.cold[i];
    const struct mob_gcs_incarnation *log = mob_state_incarnation(head->state, b->incarnation);
    for (size_t k = 0; k < i; k++) {
        const struct sim_block *o = &s->database.cold[k];
        SIM_CHECK(s, o->seq < b->seq && (o->incarnation != b->incarnation || o->number < b->number),
            "the database has block %llu of log %llu at %llu twice, or out of order",
            (unsigned long long)b->number, (unsigned long long)b->incarnation, (unsigned long long)b->seq);
    }
    SIM_CHECK(s, log != NULL && b->number < log->blocks,
        "the database has block %llu of log %llu, and the chain does not know it",
        (unsigned long long)b->number, (unsigned long long)b->incarnation);
}

void sim_check_cold(struct sim *s, const struct sim_member *head)
{
    const struct sim_database *d = &s->database;
    const struct sim_image *hot = &head->memory;
    uint64_t rows = 0;
    for (size_t i = 0; i < d->cold_count; i++) {
        check_row(s, head, i);
        rows += d->cold[i].seq <= hot->notes.upto;
        for (size_t k = 0; k < hot->block_count; k++) {
            const struct sim_block *b = &hot->blocks[k];
            bool one = b->incarnation == d->cold[i].incarnation && b->number == d->cold[i].number;
            SIM_CHECK(s, one == (b->seq == d->cold[i].seq),
                "block %llu of log %llu is at %llu, and in the database at %llu",
                (unsigned long long)b->number, (unsigned long long)b->incarnation, (unsigned long long)b->seq,
                (unsigned long long)d->cold[i].seq);
        }
    }
    for (size_t k = 0; k < hot->block_count && hot->blocks[k].seq <= d->watermark; k++)
        SIM_CHECK(s, sim_cold_find(s, hot->blocks[k].seq) != NULL || sim_was_dropped(s, &hot->blocks[k]),
            "the watermark is %llu, and block %llu of log %llu at %llu is not in the database",
            (unsigned long long)d->watermark, (unsigned long long)hot->blocks[k].number,
            (unsigned long long)hot->blocks[k].incarnation, (unsigned long long)hot->blocks[k].seq);
    SIM_CHECK(s, rows == hot->notes.rows, "%llu rows were flushed, and the notes say %llu",
        (unsigned long long)rows, (unsigned long long)hot->notes.rows);
}
