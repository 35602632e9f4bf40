#include "gcs/flush/figures.h"

#include "gcs/flush/cold.h"

/* The numbers of the only row, as they come; nothing is 0. */
static enum mob_status numbers(struct mob_database *db, const char *sql,
    const struct mob_database_param *params, int param_count, uint64_t *out, int count)
{
    struct mob_database_result *rows = NULL;
    enum mob_status status = mob_database_query(db, sql, params, param_count, &rows);
    if (status == MOB_OK && mob_database_rows(rows) != 1)
        status = MOB_CORRUPT;
    for (int i = 0; i < count && status == MOB_OK; i++)
        out[i] = mob_database_null(rows, 0, i) ? 0 : (uint64_t)mob_database_number(rows, 0, i);
    mob_database_result_destroy(rows);
    return status;
}

enum mob_status mob_figures_count(struct mob_database *db, uint32_t shard, struct mob_gcs_database *f)
{
    static const char sql[] =
        "SELECT count(*), sum(specs)::bigint, sum(failed)::bigint FROM mobula.batch WHERE shard = $1";
    struct mob_database_param p;
    uint64_t n[3];
    enum mob_status status = numbers(db, sql, mob_param_i32(&p, (int32_t)shard), 1, n, 3);
    if (status != MOB_OK)
        return status;
    f->batches = n[0];
    f->tasks = n[1];
    f->failed = n[2];
    return MOB_OK;
}

enum mob_status mob_figures_days(struct mob_database *db, uint32_t shard, struct mob_gcs_database *f)
{
    static const char sql[] = "SELECT (SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = "
                              "i.inhrelid WHERE i.inhparent = "
                              "'mobula.bucket'::regclass AND c.relname <> 'bucket_d2000000'), "
                              "(SELECT count(*) FROM mobula.gap WHERE shard = $1)";
    _Static_assert(MOB_COLD_DAY_KEPT == 2000000, "as in the statement");
    struct mob_database_param p;
    uint64_t n[2];
    enum mob_status status = numbers(db, sql, mob_param_i32(&p, (int32_t)shard), 1, n, 2);
    if (status != MOB_OK)
        return status;
    f->days = n[0];
    f->gaps = n[1];
    return MOB_OK;
}

enum mob_status mob_figures_size(struct mob_database *db, struct mob_gcs_database *f)
{
    return numbers(db, "SELECT pg_database_size(current_database())", NULL, 0, &f->bytes, 1);
}
