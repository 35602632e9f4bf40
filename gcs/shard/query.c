/* Reads. A query first picks its rows from tables and index; what is not in memory is fetched from Redis; the
 * answer leaves when everything that was applied when the rows were picked is committed (so a read never
 * shows what could still be lost). A row that changed between picking and fetching makes the query run again.
 */
#include "gcs/shard/query_inner.h"

#include <stdlib.h>

#define RUNS_MAX 16

/* ---- answering ---- */

void query_free(struct query *q)
{
    struct query **link = &q->shard->queries;
    while (*link != q)
        link = &(*link)->next;
    *link = q->next;
    if (q->conn != NULL)
        q->conn->queries--;
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
    q->cold = COLD_NO;
    q->rows = (struct mob_gcs_rows){.tag = q->get.tag, .status = status};
    q->ready = true;
    query_answer_if_committed(q);
}

void query_go_on(struct query *q)
{
    struct mob_shard *sh = q->shard;
    q->ready = q->stale = false;
    if (query_cold_begin(q))
        return;
    q->gate = mob_chain_applied(sh->chain);
    q->rows.seq = q->gate;
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

void query_serve(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_shard *sh = c->shard;
    struct query *q = calloc(1, sizeof *q);
    MOB_ASSERT(q != NULL);
    if (mob_gcs_get_decode(frame->head, frame->head_bytes, &q->get) != MOB_OK ||
        frame->body_bytes > 2 * MOB_GCS_KEY_MAX) {
        free(q);
        conn_close(c, MOB_BAD_REQUEST);
        return;
    }
    q->shard = sh;
    q->asked = q->get.position;
    q->conn = c;
    c->queries++;
    q->argument = malloc(frame->body_bytes + 1u);
    MOB_ASSERT(q->argument != NULL);
    memcpy(q->argument, frame->body, frame->body_bytes);
    q->argument_bytes = frame->body_bytes;
    q->next = sh->queries;
    sh->queries = q;
    sh->reads++;
    query_run(q);
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
