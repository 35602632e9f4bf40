/* Between query.c (running and answering), query_pick.c (which rows), query_index.c (what the index has of a
 * group) and query_cold.c (what was flushed).
 * Internal to gcs/shard; the loop's thread.
 */
#ifndef MOB_GCS_SHARD_QUERY_INNER_H
#define MOB_GCS_SHARD_QUERY_INNER_H

#include "gcs/shard/shard_internal.h"

struct fetch {
    size_t offset; /* in the answer's body */
    uint32_t length, skip; /* the value without its stored head of `skip` bytes */
    uint64_t version; /* keys: must still be this */
};
struct query {
    struct mob_shard *shard;
    struct conn *conn; /* NULL: gone */
    struct query *next;
    struct mob_gcs_get get; /* its position moves from what was flushed to what is here */
    uint64_t asked; /* the position in the request */
    uint8_t *argument; /* the request's body */
    uint32_t argument_bytes;
    uint32_t runs;
    bool ready, stale;
    bool by_chain; /* it passed every member on its way, so no lease is needed */
    uint64_t gate;
    struct mob_gcs_rows rows;
    uint8_t *body;
    size_t body_bytes, body_capacity;
    struct fetch *fetches;
    uint32_t fetch_count, fetch_capacity;
    struct mob_redis_batch *batch;
    enum query_cold { COLD_NO, COLD_WAITS, COLD_ASKED } cold; /* for a reader and a place; for its answer */
    bool cold_place; /* one of COLD_ANSWERS_MAX, until it is answered */
    uint64_t cold_tag, cold_upto, cold_order; /* `cold_order`: of asking */
    int64_t cold_deadline_ns; /* from the first time that it waited on; 0: it never did */
};

/* query.c */
void query_answer_if_committed(struct query *q);
/* From the beginning: forgets what was picked. */
void query_run(struct query *q);
/* From where its position is now, behind what it has already. */
void query_go_on(struct query *q);
/* The answer is this and nothing else. */
void query_fail(struct query *q, enum mob_status status);

/* query_pick.c: rows from tables and index, or what is to be fetched for them */
void query_pick(struct query *q);
uint8_t *query_body_add(struct query *q, const void *bytes, size_t length);
/* What a page behind the position begins after. */
uint32_t query_ordinal_before(const struct query *q);

/* query_index.c */
void query_pick_index(struct query *q);

/* query_cold.c */
/* The page begins in what was flushed: asked for; the query goes on when it is there. */
bool query_cold_begin(struct query *q);
/* It is answered, or has failed, and waits for nothing that was flushed. */
void query_cold_end(struct query *q);
/* It goes: its place is another's. */
void query_cold_free(struct query *q);
/* Behind the oldest rows in the member, newest first: where the flushed ones begin; 0 when nothing was. */
uint64_t query_cold_start(const struct mob_shard *sh);

#endif
