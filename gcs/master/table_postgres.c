/* The table in PostgreSQL: a master's row, and the configurations, of each shard. Each question is one
 * statement. An INSERT holds the master's row while it looks at its term, so a new master that took the row
 * has read every configuration of the old one. */
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/log.h"
#include "gcs/flush/migrate.h"
#include "gcs/flush/postgres_conf.h"
#include "gcs/master/table_inner.h"

/* An answer that nobody waits for any more is worth nothing: less than the owner's patience. */
#define PATIENCE_NS (1800 * 1000000ll)
#define LOCK_SECONDS 1u

static const char make_row_sql[] =
    "INSERT INTO mobula.master (shard, term, beat) SELECT $1, 0, 0 "
    "WHERE NOT EXISTS (SELECT 1 FROM mobula.master WHERE shard = $1) ON CONFLICT DO NOTHING";
static const char row_sql[] = "SELECT term, beat FROM mobula.master WHERE shard = $1";
static const char set_sql[] =
    "UPDATE mobula.master SET term = $3, beat = $4 WHERE term = $1 AND beat = $2 AND shard = $5";
static const char newest_sql[] =
    "SELECT epoch, term, start, members, started FROM mobula.chain_epoch WHERE shard = $1 "
    "ORDER BY epoch DESC LIMIT 1";
static const char insert_sql[] =
    "WITH mine AS (SELECT 1 FROM mobula.master WHERE shard = $1 AND term = $3 FOR SHARE) "
    "INSERT INTO mobula.chain_epoch (shard, epoch, term, start, members, started) "
    "SELECT $1, $2, $3, $4::integer <> 0, $5, $6 FROM mine "
    "WHERE NOT EXISTS (SELECT 1 FROM mobula.chain_epoch WHERE shard = $1 AND epoch >= $2)";

static const char watermark_sql[] = "SELECT upto FROM mobula.watermark WHERE shard = $1";

static enum mob_status take_config(const struct mob_database_result *r, struct mob_gcs_config *out)
{
    size_t length;
    memset(out, 0, sizeof *out);
    if (mob_database_rows(r) == 0)
        return MOB_OK;
    out->epoch = (uint64_t)mob_database_number(r, 0, 0);
    out->term = (uint64_t)mob_database_number(r, 0, 1);
    out->start = mob_database_number(r, 0, 2) != 0;
    const uint8_t *members = mob_database_bytes(r, 0, 3, &length);
    if (length % sizeof out->members[0] != 0 || length > sizeof out->members)
        return MOB_CORRUPT;
    out->count = (uint32_t)(length / sizeof out->members[0]);
    memcpy(out->members, members, length);
    out->started = (uint64_t)mob_database_number(r, 0, 4);
    return mob_gcs_config_valid(out) ? MOB_OK : MOB_CORRUPT;
}

static enum mob_status ask(
    struct mob_database *db, uint32_t shard, const struct mob_table_question *q, struct mob_table_answer *a)
{
    struct mob_database_param p[6] = {{.length = 0}};
    struct mob_database_result *r = NULL;
    const struct mob_gcs_config *c = &q->config;
    enum mob_status status = MOB_INVALID;
    switch (q->op) {
    case MOB_TABLE_ROW:
        status = mob_database_query(db, row_sql, mob_param_i32(&p[0], (int32_t)shard), 1, &r);
        if (status == MOB_OK && mob_database_rows(r) != 1)
            status = MOB_CORRUPT;
        if (status == MOB_OK)
            a->row = (struct mob_master_row){
                (uint64_t)mob_database_number(r, 0, 0), (uint64_t)mob_database_number(r, 0, 1)};
        break;
    case MOB_TABLE_SET_ROW:
        mob_param_i64(&p[0], (int64_t)q->old_row.term);
        mob_param_i64(&p[1], (int64_t)q->old_row.beat);
        mob_param_i64(&p[2], (int64_t)q->row.term);
        mob_param_i64(&p[3], (int64_t)q->row.beat);
        mob_param_i32(&p[4], (int32_t)shard);
        status = mob_database_query(db, set_sql, p, 5, &r);
        if (status == MOB_OK && mob_database_changed(r) != 1)
            status = MOB_CONFLICT;
        break;
    case MOB_TABLE_NEWEST:
        mob_param_i32(&p[0], (int32_t)shard);
        status = mob_database_query(db, newest_sql, p, 1, &r);
        if (status == MOB_OK)
            status = take_config(r, &a->config);
        break;
    case MOB_TABLE_INSERT:
        mob_param_i32(&p[0], (int32_t)shard);
        mob_param_i64(&p[1], (int64_t)c->epoch);
        mob_param_i64(&p[2], (int64_t)c->term);
        mob_param_i32(&p[3], (int32_t)c->start);
        mob_param_bytes(&p[4], c->members, c->count * sizeof c->members[0]);
        mob_param_i64(&p[5], (int64_t)c->started);
        status = mob_database_query(db, insert_sql, p, 6, &r);
        if (status == MOB_OK && mob_database_changed(r) != 1)
            status = MOB_CONFLICT;
        break;
    case MOB_TABLE_WATERMARK:
        status = mob_database_query(db, watermark_sql, mob_param_i32(&p[0], (int32_t)shard), 1, &r);
        if (status == MOB_OK && mob_database_rows(r) == 1)
            a->watermark = (uint64_t)mob_database_number(r, 0, 0);
        break;
    case MOB_TABLE_LOGS:
    case MOB_TABLE_SET_LOG:
    case MOB_TABLE_HOME:
        status = table_nodes_postgres_ask(db, shard, q, a);
        break;
    }
    mob_database_result_destroy(r);
    return status;
}

/* The server makes its socket before it answers. Without one it is not asked: a refusal is written to the
 * log, and a standby asks each few milliseconds while a cluster starts. */
static bool listens(const char *directory)
{
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    int n = snprintf(path, sizeof path, "%s/" MOB_POSTGRES_SOCKET_NAME, directory);
    return n < 0 || (size_t)n >= sizeof path || access(path, F_OK) == 0; /* too long: let it say so */
}

/* For the first INSERT of a connection the server reads its catalogues and makes a plan, which takes longer
 * than the INSERT: so there was one already, of a term that nobody has. */
static enum mob_status insert_in_vain(struct mob_database *db, uint32_t shard)
{
    const struct mob_table_question q = {.op = MOB_TABLE_INSERT, .config.term = UINT64_MAX};
    struct mob_table_answer a = {.tag = 0};
    enum mob_status status = ask(db, shard, &q, &a);
    return status == MOB_CONFLICT ? MOB_OK : status == MOB_OK ? MOB_CORRUPT : status;
}

/* The tables are made here, when nobody else has: that may take longer than an answer. */
static enum mob_status connect_and_migrate(const char *directory, uint32_t shard, struct mob_database **db)
{
    int from, to;
    char name[32];
    struct mob_database_param p;
    snprintf(name, sizeof name, "mobula-master-%u", shard);
    enum mob_status status = listens(directory) ? mob_database_open(directory, db) : MOB_UNAVAILABLE;
    if (status == MOB_OK)
        status = mob_database_name(*db, name, LOCK_SECONDS);
    if (status == MOB_OK)
        status = mob_migrate(*db, mob_migrations, &from, &to);
    if (status != MOB_OK)
        return status;
    mob_database_patience(*db, PATIENCE_NS);
    status = mob_database_query(*db, make_row_sql, mob_param_i32(&p, (int32_t)shard), 1, NULL);
    if (status == MOB_OK)
        status = insert_in_vain(*db, shard);
    if (status == MOB_OK)
        MOB_LOG_INFO("master", "database", "realtime=%d", mob_database_realtime(*db, MASTER_PRIORITY));
    return status;
}

static void drop(struct mob_database **db)
{
    mob_database_close(*db);
    *db = NULL;
}

/* A server process that was stopped answers nobody: its connection ends, and the next question has another.
 * If it holds the master's row it is made to end, so that no other master waits for it. */
void table_postgres_ask(const char *directory, uint32_t shard, struct mob_database **db,
    const struct mob_table_question *q, struct mob_table_answer *a)
{
    a->status = *db != NULL ? MOB_OK : connect_and_migrate(directory, shard, db);
    if (a->status != MOB_OK) {
        drop(db);
        return;
    }
    a->status = ask(*db, shard, q, a);
    if (a->status == MOB_TIMEOUT) {
        enum mob_status ended = mob_database_end_stopped(*db, LOCK_SECONDS);
        (void)ended; /* as bad as before: it is asked again */
    }
    if (!mob_database_good(*db))
        drop(db);
}

void table_postgres_close(struct mob_database *db)
{
    mob_database_close(db);
}
