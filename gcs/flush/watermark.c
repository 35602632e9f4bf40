#include "gcs/flush/watermark.h"

#include <inttypes.h>

#include "common/base/log.h"

enum mob_status mob_watermark_read(
    struct mob_database *db, uint32_t shard, uint64_t *upto_out, uint64_t *epoch_out)
{
    static const char make[] =
        "INSERT INTO mobula.watermark (shard, upto, epoch) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING";
    static const char read[] = "SELECT upto, epoch FROM mobula.watermark WHERE shard = $1";
    struct mob_database_param p;
    struct mob_database_result *rows = NULL;
    mob_param_i32(&p, (int32_t)shard);
    enum mob_status status = mob_database_query(db, read, &p, 1, &rows);
    if (status == MOB_OK && mob_database_rows(rows) == 0) {
        mob_database_result_destroy(rows);
        rows = NULL;
        status = mob_database_query(db, make, &p, 1, NULL);
        if (status == MOB_OK)
            status = mob_database_query(db, read, &p, 1, &rows);
    }
    if (status == MOB_OK && mob_database_rows(rows) == 1) {
        *upto_out = (uint64_t)mob_database_number(rows, 0, 0);
        *epoch_out = (uint64_t)mob_database_number(rows, 0, 1);
    }
    mob_database_result_destroy(rows);
    return status;
}

enum mob_status mob_watermark_move(
    struct mob_database *db, uint32_t shard, uint64_t after, uint64_t upto, uint64_t epoch)
{
    static const char sql[] = "UPDATE mobula.watermark SET upto = $3, epoch = $4 "
                              "WHERE shard = $1 AND upto = $2 AND epoch <= $4";
    struct mob_database_param p[4];
    struct mob_database_result *result = NULL;
    mob_param_i32(&p[0], (int32_t)shard);
    mob_param_i64(&p[1], (int64_t)after);
    mob_param_i64(&p[2], (int64_t)upto);
    mob_param_i64(&p[3], (int64_t)epoch);
    enum mob_status status = mob_database_query(db, sql, p, 4, &result);
    if (status == MOB_OK && mob_database_changed(result) != 1) {
        MOB_LOG_WARN("flush", "overtaken", "shard=%u after=%" PRIu64 " upto=%" PRIu64 " epoch=%" PRIu64,
            shard, after, upto, epoch);
        status = MOB_CONFLICT;
    }
    mob_database_result_destroy(result);
    return status;
}

enum mob_status mob_watermark_batches(struct mob_database *db, uint32_t shard, uint64_t after, uint64_t upto,
    uint64_t *uptos_out, int max, int *count_out)
{
    static const char sql[] =
        "SELECT upto FROM mobula.batch WHERE shard = $1 AND upto > $2 AND upto <= $3 ORDER BY upto LIMIT $4";
    struct mob_database_param p[4];
    struct mob_database_result *rows = NULL;
    mob_param_i32(&p[0], (int32_t)shard);
    mob_param_i64(&p[1], (int64_t)after);
    mob_param_i64(&p[2], (int64_t)upto);
    mob_param_i64(&p[3], max);
    enum mob_status status = mob_database_query(db, sql, p, 4, &rows);
    *count_out = status == MOB_OK ? mob_database_rows(rows) : 0;
    for (int i = 0; i < *count_out; i++)
        uptos_out[i] = (uint64_t)mob_database_number(rows, i, 0);
    mob_database_result_destroy(rows);
    return status;
}

enum mob_status mob_watermark_gap(struct mob_database *db, uint32_t shard, uint64_t after, uint64_t upto)
{
    static const char sql[] =
        "INSERT INTO mobula.gap (shard, after, upto) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    struct mob_database_param p[3];
    mob_param_i32(&p[0], (int32_t)shard);
    mob_param_i64(&p[1], (int64_t)after);
    mob_param_i64(&p[2], (int64_t)upto);
    return mob_database_query(db, sql, p, 3, NULL);
}

enum mob_status mob_watermark_skip(
    struct mob_database *db, uint32_t shard, uint64_t after, uint64_t upto, uint64_t epoch)
{
    enum mob_status status = mob_database_run(db, "BEGIN");
    if (status == MOB_OK)
        status = mob_watermark_move(db, shard, after, upto, epoch);
    if (status == MOB_OK)
        status = mob_watermark_gap(db, shard, after, upto);
    if (status == MOB_OK)
        status = mob_database_run(db, "COMMIT");
    if (status != MOB_OK)
        mob_database_rollback(db);
    return status;
}
