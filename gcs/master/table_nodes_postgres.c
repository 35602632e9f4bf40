/* Homes and logs of nodes in PostgreSQL. As with configurations, each change holds the master's row while it
 * looks at its term. */
#include <stdlib.h>
#include <string.h>

#include "gcs/flush/database.h"
#include "gcs/master/table_inner.h"

static const char logs_sql[] =
    "SELECT incarnation, start, pid, coalesce(cut, 0), state, node FROM mobula.node_log WHERE shard = $1 "
    "ORDER BY state = 3, incarnation DESC LIMIT $2";
static const char insert_sql[] =
    "WITH mine AS (SELECT 1 FROM mobula.master WHERE shard = $1 AND term = $2 FOR SHARE) "
    "INSERT INTO mobula.node_log (shard, incarnation, node, start, pid, state, cut, term) "
    "SELECT $1, $3, convert_from($4, 'UTF8'), $5, $6, $7::integer, $8, $2 FROM mine";
static const char update_sql[] =
    "WITH mine AS (SELECT 1 FROM mobula.master WHERE shard = $1 AND term = $2 FOR SHARE) "
    "UPDATE mobula.node_log SET state = $4::integer, cut = $5, term = $2, changed_at = now() "
    "WHERE shard = $1 AND incarnation = $3 AND state = $6::integer AND EXISTS (SELECT 1 FROM mine)";
static const char home_sql[] = "SELECT shard FROM mobula.node_home WHERE node = convert_from($1, 'UTF8')";
static const char make_home_sql[] =
    "WITH mine AS (SELECT 1 FROM mobula.master WHERE shard = $1 AND term = $2 FOR SHARE), "
    "fewest AS (SELECT s FROM generate_series(0, $3 - 1) s LEFT JOIN mobula.node_home h ON h.shard = s "
    "GROUP BY s ORDER BY count(h.node), s LIMIT 1) "
    "INSERT INTO mobula.node_home (node, shard) SELECT convert_from($4, 'UTF8'), s FROM fewest, mine "
    "ON CONFLICT DO NOTHING";

static enum mob_status take_logs(const struct mob_database_result *r, struct mob_table_answer *a)
{
    int rows = mob_database_rows(r);
    struct mob_node_log *logs = calloc((size_t)rows + 1, sizeof *logs);
    if (logs == NULL)
        return MOB_NO_MEMORY;
    for (int i = 0; i < rows; i++) {
        size_t length;
        const uint8_t *node = mob_database_bytes(r, i, 5, &length);
        if (length == 0 || length > MOB_GCS_NAME_MAX) {
            free(logs);
            return MOB_CORRUPT;
        }
        logs[i] = (struct mob_node_log){.incarnation = (uint64_t)mob_database_number(r, i, 0),
            .start = (uint64_t)mob_database_number(r, i, 1),
            .pid = mob_database_number(r, i, 2),
            .cut = (uint64_t)mob_database_number(r, i, 3),
            .state = (uint32_t)mob_database_number(r, i, 4)};
        memcpy(logs[i].node, node, length);
    }
    a->logs = logs;
    a->log_count = (uint32_t)rows;
    return MOB_OK;
}

static enum mob_status read_logs(struct mob_database *db, uint32_t shard, struct mob_table_answer *a)
{
    struct mob_database_param p[2];
    struct mob_database_result *r = NULL;
    mob_param_i32(&p[0], (int32_t)shard);
    mob_param_i64(&p[1], MOB_NODE_LOGS_MAX);
    enum mob_status status = mob_database_query(db, logs_sql, p, 2, &r);
    if (status == MOB_OK)
        status = take_logs(r, a);
    mob_database_result_destroy(r);
    return status;
}

static enum mob_status set_log(struct mob_database *db, uint32_t shard, const struct mob_table_question *q)
{
    struct mob_database_param p[8], cut;
    struct mob_database_result *r = NULL;
    const struct mob_node_log *log = &q->log;
    bool fresh = q->old_state == MOB_NODE_LOG_NONE;
    if (log->state == MOB_NODE_LOG_SEALED)
        mob_param_i64(&cut, (int64_t)log->cut);
    else
        mob_param_null(&cut);
    mob_param_i32(&p[0], (int32_t)shard);
    mob_param_i64(&p[1], (int64_t)q->row.term);
    mob_param_i64(&p[2], (int64_t)log->incarnation);
    if (fresh) {
        mob_param_bytes(&p[3], log->node, strlen(log->node));
        mob_param_i64(&p[4], (int64_t)log->start);
        mob_param_i64(&p[5], log->pid);
        mob_param_i32(&p[6], (int32_t)log->state);
        p[7] = cut;
    } else {
        mob_param_i32(&p[3], (int32_t)log->state);
        p[4] = cut;
        mob_param_i32(&p[5], (int32_t)q->old_state);
    }
    enum mob_status status = mob_database_query(db, fresh ? insert_sql : update_sql, p, fresh ? 8 : 6, &r);
    if (status == MOB_OK && mob_database_changed(r) != 1)
        status = MOB_CONFLICT;
    mob_database_result_destroy(r);
    return status;
}

/* MOB_NOT_FOUND: it has none yet. */
static enum mob_status read_home(struct mob_database *db, const char *node, uint32_t *home_out)
{
    struct mob_database_param p;
    struct mob_database_result *r = NULL;
    enum mob_status status = mob_database_query(db, home_sql, mob_param_bytes(&p, node, strlen(node)), 1, &r);
    if (status == MOB_OK && mob_database_rows(r) == 0)
        status = MOB_NOT_FOUND;
    if (status == MOB_OK)
        *home_out = (uint32_t)mob_database_number(r, 0, 0);
    mob_database_result_destroy(r);
    return status;
}

static enum mob_status find_home(
    struct mob_database *db, uint32_t shard, const struct mob_table_question *q, uint32_t *home_out)
{
    struct mob_database_param p[4];
    enum mob_status status = read_home(db, q->log.node, home_out);
    if (status != MOB_NOT_FOUND)
        return status;
    mob_param_i32(&p[0], (int32_t)shard);
    mob_param_i64(&p[1], (int64_t)q->row.term);
    mob_param_i32(&p[2], (int32_t)q->shards);
    mob_param_bytes(&p[3], q->log.node, strlen(q->log.node));
    status = mob_database_query(db, make_home_sql, p, 4, NULL);
    if (status == MOB_OK)
        status = read_home(db, q->log.node, home_out);
    return status == MOB_NOT_FOUND ? MOB_CONFLICT : status;
}

enum mob_status table_nodes_postgres_ask(
    struct mob_database *db, uint32_t shard, const struct mob_table_question *q, struct mob_table_answer *a)
{
    if (q->op == MOB_TABLE_LOGS)
        return read_logs(db, shard, a);
    return q->op == MOB_TABLE_HOME ? find_home(db, shard, q, &a->home) : set_log(db, shard, q);
}
