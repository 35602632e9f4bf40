/* The part of a query that was flushed. One client (the flusher, gcs/flush) reads PostgreSQL for all others:
 * it gets the query with the position up to which blocks are there and not here, and its rows become the
 * beginning (oldest first) or the end (newest first) of the answer. While there is none, queries wait; and
 * while COLD_ANSWERS_MAX answers are under way: what the member holds of them has a bound that does not
 * depend on how many ask. Connections take turns, so that one with hundreds of questions does not keep out
 * another's only one; of one connection the oldest question goes first.
 */
#include "gcs/shard/query_inner.h"

uint64_t query_cold_start(const struct mob_shard *sh)
{
    return sh->flushed.applied == 0 ? 0
                                    : mob_gcs_cold_position(sh->flushed.applied + 1, MOB_GCS_COLD_ROW_MAX);
}

/* False: what the query asks for from its position on is here. */
static bool cold_position(const struct query *q, uint64_t *out)
{
    uint64_t p = q->get.position, flushed = q->shard->flushed.applied;
    bool scan = q->get.query == MOB_GCS_Q_SCAN || q->get.query == MOB_GCS_Q_HISTORY;
    bool group = q->get.query == MOB_GCS_Q_GROUP || q->get.query == MOB_GCS_Q_GROUPS,
         down = scan && q->get.newest_first, here_only = group && q->get.newest_first;
    if (flushed == 0 || here_only || q->get.table == MOB_GCS_HERE || !(scan || group))
        return false;
    if ((p & MOB_GCS_COLD_BIT) != 0)
        *out = p;
    else if (down && p != 0 && p <= flushed + 1)
        *out = mob_gcs_cold_position(p, MOB_GCS_COLD_ROW_MAX);
    else if (!down && p < flushed)
        *out = mob_gcs_cold_position(p, 0);
    else
        return false;
    return true;
}

/* ---- places ---- */

static void set_cold(struct query *q, enum query_cold cold)
{
    struct mob_shard *sh = q->shard;
    sh->cold_waiting += (uint32_t)(cold == COLD_WAITS) - (uint32_t)(q->cold == COLD_WAITS);
    q->cold = cold;
}

static void set_place(struct query *q, bool has)
{
    struct mob_shard *sh = q->shard;
    sh->cold_places += (uint32_t)has - (uint32_t)q->cold_place;
    MOB_ASSERT(sh->cold_places <= COLD_ANSWERS_MAX);
    q->cold_place = has;
}

void query_cold_end(struct query *q)
{
    set_cold(q, COLD_NO);
}

void query_cold_free(struct query *q)
{
    set_cold(q, COLD_NO);
    set_place(q, false);
}

static void ask(struct query *q)
{
    struct mob_shard *sh = q->shard;
    set_cold(q, COLD_ASKED);
    set_place(q, true);
    q->conn->cold_turn = ++sh->next_cold_order;
    q->cold_tag = ++sh->next_cold_tag;
    q->cold_upto = sh->flushed.applied;
    sh->cold_reads++;
    struct mob_gcs_cold_get head = {.upto = q->cold_upto, .get = q->get};
    head.get.tag = q->cold_tag;
    conn_send_body(sh->cold_reader, MOB_GCS_COLD_GET, &head, sizeof head, q->argument,
        q->get.query == MOB_GCS_Q_GROUPS ? q->argument_bytes : 0);
}

static bool goes_before(const struct query *a, const struct query *b)
{
    uint64_t of_a = a->conn->cold_turn, of_b = b->conn->cold_turn;
    return of_a != of_b ? of_a < of_b : a->cold_order < b->cold_order;
}

/* NULL: nobody can be served now. */
static struct query *next_waiting(const struct mob_shard *sh)
{
    struct query *next = NULL;
    for (struct query *q = sh->queries; q != NULL; q = q->next)
        if (q->cold == COLD_WAITS && conn_out_bytes(q->conn) <= COLD_OUT_BYTES &&
            (next == NULL || goes_before(q, next)))
            next = q;
    return next;
}

bool query_cold_step(struct mob_shard *sh)
{
    bool any = false;
    struct query *q;
    while (sh->cold_waiting > 0 && sh->cold_reader != NULL && sh->cold_places < COLD_ANSWERS_MAX &&
        (q = next_waiting(sh)) != NULL) {
        ask(q);
        any = true;
    }
    return any;
}

/* ---- the question ---- */

bool query_cold_begin(struct query *q)
{
    uint64_t position;
    if (!cold_position(q, &position))
        return false;
    q->get.position = position;
    if (q->cold_deadline_ns == 0) {
        q->cold_deadline_ns = q->shard->now_ns + q->shard->options.cold_wait_ns;
        q->cold_order = ++q->shard->next_cold_order;
    }
    if (q->cold_place && q->shard->cold_reader != NULL) {
        ask(q); /* more of the same answer */
    } else {
        set_cold(q, COLD_WAITS);
        query_cold_step(q->shard);
    }
    return true;
}

void query_cold_serve(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_shard *sh = c->shard;
    struct mob_gcs_cold head;
    if (mob_gcs_cold_decode(frame->head, frame->head_bytes, &head) == MOB_OK) {
        sh->watermark_known = true;
        sh->watermark = head.watermark;
    }
    if (frame->body_bytes == sizeof sh->database) {
        sh->database_known = true;
        memcpy(&sh->database, frame->body, sizeof sh->database);
    }
    if (sh->cold_reader != c)
        MOB_LOG_INFO("gcs", "cold_reader", "flushed=%llu", (unsigned long long)sh->flushed.applied);
    sh->cold_reader = c;
    query_cold_step(sh);
}

void query_cold_gone(struct conn *c)
{
    struct mob_shard *sh = c->shard;
    if (sh->cold_reader != c)
        return;
    sh->cold_reader = NULL;
    for (struct query *q = sh->queries; q != NULL; q = q->next)
        if (q->cold == COLD_ASKED) {
            set_cold(q, COLD_WAITS);
            set_place(q, false);
        }
}

static bool rows_valid(const struct mob_gcs_rows *head, const struct mob_gcs_frame *frame)
{
    struct mob_reader r = mob_reader_of(frame->body, frame->body_bytes);
    struct mob_gcs_block_row row;
    if (head->status != MOB_OK)
        return frame->body_bytes == 0;
    if (head->kind != MOB_GCS_ROWS_BLOCKS || head->count > MOB_GCS_ROWS_MAX)
        return false;
    for (uint32_t i = 0; i < head->count; i++)
        if (mob_gcs_block_row_decode(&r, &row) != MOB_OK)
            return false;
    return mob_reader_left(&r) == 0 && (head->next == 0 || (head->next & MOB_GCS_COLD_BIT) != 0);
}

/* Oldest first goes on with what is here, or was flushed meanwhile. */
static void add_rows(struct query *q, const struct mob_gcs_rows *head, const struct mob_gcs_frame *frame)
{
    bool down = q->get.query == MOB_GCS_Q_SCAN && q->get.newest_first;
    set_cold(q, COLD_NO);
    query_body_add(q, frame->body, frame->body_bytes);
    q->rows.kind = MOB_GCS_ROWS_BLOCKS;
    q->rows.count += head->count;
    /* What is gone was told of an earlier part too, when more was flushed since; of failures it is a place.
     */
    q->rows.tie = q->get.query == MOB_GCS_Q_HISTORY ? (q->rows.tie | head->tie) : head->tie;
    if (head->next == 0 && !down) {
        q->get.position = q->cold_upto;
        query_go_on(q);
        return;
    }
    q->rows.next = head->next;
    q->rows.seq = mob_chain_committed(q->shard->chain);
    q->ready = true;
    query_answer_if_committed(q);
}

void query_cold_rows(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_shard *sh = c->shard;
    struct mob_gcs_rows head;
    if (mob_gcs_rows_decode(frame->head, frame->head_bytes, &head) != MOB_OK || !rows_valid(&head, frame)) {
        conn_close(c, MOB_BAD_REQUEST);
        return;
    }
    struct query *q = sh->queries;
    while (q != NULL && (q->cold != COLD_ASKED || q->cold_tag != head.tag))
        q = q->next;
    if (q == NULL)
        return; /* asked again elsewhere, or given up */
    if (head.status == MOB_OK)
        add_rows(q, &head, frame);
    else
        query_fail(q, (enum mob_status)head.status);
}

void query_cold_tick(struct mob_shard *sh)
{
    for (struct query *q = sh->queries, *next; q != NULL; q = next) {
        next = q->next;
        if (q->cold != COLD_NO && sh->now_ns >= q->cold_deadline_ns)
            query_fail(q, MOB_UNAVAILABLE);
    }
}
