/* Reads. A query first picks its rows from tables and index; what is not in memory is fetched from Redis; the
 * answer leaves when everything that was applied when the rows were picked is committed (so a read never
 * shows what could still be lost). A row that changed between picking and fetching makes the query run again.
 */
#include "gcs/shard/query_inner.h"

#include <stdlib.h>

#define RUNS_MAX 16

/* ---- answering ---- */

static void query_free(struct query *q)
{
    struct query **link = &q->shard->queries;
    while (*link != q)
        link = &(*link)->next;
    *link = q->next;
    if (q->conn != NULL)
        q->conn->queries--;
    query_cold_free(q);
    free(q->argument);
    free(q->body);
    free(q->fetches);
    free(q);
}

void query_answer_if_committed(struct query *q)
{
    struct mob_shard *sh = q->shard;
    if (!q->ready || mob_chain_committed(sh->chain) < q->gate)
        return;
    enum mob_status may = q->by_chain ? MOB_OK : member_may_answer(sh);
    if (may != MOB_OK) { /* not here any more, or through the chain */
        q->body_bytes = 0;
        q->rows = (struct mob_gcs_rows){.tag = q->get.tag, .status = may};
    }
    struct conn *c = q->conn;
    uint8_t *at = c == NULL ? NULL : conn_frame_begin(c, sizeof q->rows, (uint32_t)q->body_bytes);
    if (at != NULL) {
        memcpy(at, &q->rows, sizeof q->rows);
        if (q->body_bytes > 0)
            memcpy(at + sizeof q->rows, q->body, q->body_bytes);
        conn_frame_end(c, MOB_GCS_ROWS, 0, sizeof q->rows, (uint32_t)q->body_bytes);
    }
    query_free(q);
}

static void on_fetched(void *arg, const redisReply *reply, uint32_t index)
{
    struct query *q = arg;
    const struct fetch *f = &q->fetches[index];
    if (reply->type != REDIS_REPLY_STRING || (size_t)reply->len != (size_t)f->length + f->skip ||
        (f->version != 0 && memcmp(&f->version, reply->str, sizeof f->version) != 0)) {
        q->stale = true;
        return;
    }
    memcpy(q->body + f->offset, reply->str + f->skip, f->length);
}

static void on_fetch_done(void *arg, struct mob_redis_batch *batch, enum mob_status status)
{
    (void)batch;
    struct query *q = arg;
    if (q->conn == NULL) {
        query_free(q);
        return;
    }
    if ((q->stale || status != MOB_OK) && q->runs < RUNS_MAX && !q->shard->stopping) {
        query_run(q);
        return;
    }
    if (q->stale || status != MOB_OK) {
        query_fail(q, MOB_UNAVAILABLE);
        return;
    }
    q->ready = true;
    query_answer_if_committed(q);
}

void query_fail(struct query *q, enum mob_status status)
{
    q->body_bytes = 0;
    query_cold_end(q);
    q->rows = (struct mob_gcs_rows){.tag = q->get.tag, .status = status};
    q->ready = true;
    query_answer_if_committed(q);
}

static bool says_of_itself(const struct mob_gcs_get *get)
{
    return get->table == MOB_GCS_HERE && (get->query == MOB_GCS_Q_STATS || get->query == MOB_GCS_Q_MARKS);
}

void query_go_on(struct query *q)
{
    struct mob_shard *sh = q->shard;
    q->ready = q->stale = false;
    if (query_cold_begin(q))
        return;
    q->rows.seq = mob_chain_applied(sh->chain);
    /* What a member says of itself is said also when nothing gets committed. */
    bool of_itself = says_of_itself(&q->get);
    q->gate = of_itself ? 0 : q->rows.seq;
    query_pick(q);
    if (q->batch == NULL) {
        q->ready = true;
        query_answer_if_committed(q);
        return;
    }
    struct mob_redis_batch *batch = q->batch;
    q->batch = NULL;
    batch->arg = q;
    batch->reply = on_fetched;
    batch->done = on_fetch_done;
    store_read(sh, batch);
}

void query_run(struct query *q)
{
    q->runs++;
    q->body_bytes = q->fetch_count = 0;
    q->gate = 0;
    q->get.position = q->asked;
    q->rows = (struct mob_gcs_rows){.tag = q->get.tag};
    query_go_on(q);
}

static void begin(struct conn *c, const struct mob_gcs_get *get, const uint8_t *argument,
    uint32_t argument_bytes, bool by_chain)
{
    struct mob_shard *sh = c->shard;
    struct query *q = calloc(1, sizeof *q);
    MOB_ASSERT(q != NULL);
    q->get = *get;
    q->shard = sh;
    q->asked = q->get.position;
    q->by_chain = by_chain;
    q->conn = c;
    c->queries++;
    q->argument = malloc(argument_bytes + 1u);
    MOB_ASSERT(q->argument != NULL);
    if (argument_bytes > 0)
        memcpy(q->argument, argument, argument_bytes);
    q->argument_bytes = argument_bytes;
    q->next = sh->queries;
    sh->queries = q;
    sh->reads++;
    query_run(q);
}

/* From the head down, and read at the tail when it arrives there. */
static void through_the_chain(
    struct conn *c, const struct mob_gcs_frame *frame, const struct mob_gcs_get *get)
{
    struct mob_shard *sh = c->shard;
    uint8_t body[sizeof *get + 2 * MOB_GCS_KEY_MAX];
    memcpy(body, get, sizeof *get);
    if (frame->body_bytes > 0)
        memcpy(body + sizeof *get, frame->body, frame->body_bytes);
    struct mob_chain_read read = {.epoch = frame->epoch,
        .client = frame->from,
        .tag = get->tag,
        .body = body,
        .body_bytes = (uint32_t)sizeof *get + frame->body_bytes};
    if (mob_chain_on_read(sh->chain, &read) != MOB_OK)
        member_refuse(c, frame);
    serve_actions(sh); /* while `body` lives */
}

void query_serve(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_shard *sh = c->shard;
    struct mob_gcs_get get;
    if (mob_gcs_get_decode(frame->head, frame->head_bytes, &get) != MOB_OK ||
        frame->body_bytes > 2 * MOB_GCS_KEY_MAX) {
        conn_close(c, MOB_BAD_REQUEST);
        return;
    }
    bool tail = member_is_tail(sh), scan = get.query == MOB_GCS_Q_SCAN;
    bool index = get.query == MOB_GCS_Q_INDEX && get.table == MOB_GCS_HERE;
    if (index || (scan && get.table == MOB_GCS_HERE) || says_of_itself(&get)) {
        begin(c, &get, frame->body, index ? frame->body_bytes : 0, true);
        return;
    }
    if (!tail && mob_chain_is_head(sh->chain))
        through_the_chain(c, frame, &get);
    else if (!tail)
        member_refuse(c, frame);
    else
        begin(c, &get, frame->body, frame->body_bytes, false);
}

void query_chain_read(struct mob_shard *sh, const struct mob_gcs_link_msg *m)
{
    struct conn *c = attach_conn(sh, m->link.client);
    struct mob_gcs_get get;
    bool good = c != NULL && !c->closing && m->body_bytes >= sizeof get &&
        m->body_bytes <= sizeof get + 2 * MOB_GCS_KEY_MAX;
    if (!good)
        return; /* the client asks again when it is here */
    memcpy(&get, m->body, sizeof get);
    begin(c, &get, m->body + sizeof get, m->body_bytes - (uint32_t)sizeof get, true);
}

void query_gone(struct conn *c)
{
    for (struct query *q = c->shard->queries, *next; q != NULL; q = next) {
        next = q->next;
        if (q->conn != c)
            continue;
        if (q->ready || q->cold != COLD_NO)
            query_free(q);
        else
            q->conn = NULL; /* its fetch is under way */
    }
}

void queries_committed(struct mob_shard *sh)
{
    for (struct query *q = sh->queries, *next; q != NULL; q = next) {
        next = q->next;
        query_answer_if_committed(q);
    }
}

void queries_fini(struct mob_shard *sh)
{
    for (struct query *q = sh->queries, *next; q != NULL; q = next) {
        next = q->next;
        q->conn = NULL;
        query_free(q);
    }
    free(sh->unfinished);
    free(sh->cold_groups);
}
