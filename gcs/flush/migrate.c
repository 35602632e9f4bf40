#include "gcs/flush/migrate.h"

#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"

/* Any number that no other program locks in this database. */
#define LOCK "SELECT pg_advisory_xact_lock(7238547)"

static const char begin_text[] =
    "BEGIN; " LOCK "; "
    "CREATE SCHEMA IF NOT EXISTS mobula; "
    "CREATE TABLE IF NOT EXISTS mobula.migration (version integer PRIMARY KEY, name text NOT NULL, "
    "digest bytea NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";
static const char list_text[] = "SELECT version, digest FROM mobula.migration ORDER BY version";
static const char note_text[] = "INSERT INTO mobula.migration (version, name, digest) VALUES ($1, $2, $3)";

/* What is there must be the beginning of what is known. */
static enum mob_status check_applied(
    struct mob_database *db, const struct mob_migration *migrations, int *version_out)
{
    struct mob_database_result *rows = NULL;
    enum mob_status status = mob_database_query(db, list_text, NULL, 0, &rows);
    int count = status == MOB_OK ? mob_database_rows(rows) : 0;
    for (int i = 0; i < count && status == MOB_OK; i++) {
        int version = (int)mob_database_number(rows, i, 0);
        size_t length;
        const uint8_t *digest = mob_database_bytes(rows, i, 1, &length);
        if (migrations[i].version == 0) {
            MOB_LOG_ERROR("flush", "schema_is_newer", "found=%d known=%d", version, i);
            status = MOB_VERSION;
            break;
        }
        struct mob_module_hash own = mob_module_hash(migrations[i].sql, migrations[i].length);
        if (version != i + 1 || length != sizeof own || memcmp(digest, &own, sizeof own) != 0) {
            MOB_LOG_ERROR("flush", "schema_differs", "version=%d expected=%d name=%s", version, i + 1,
                migrations[i].name);
            status = MOB_CORRUPT;
        }
    }
    mob_database_result_destroy(rows);
    *version_out = count;
    return status;
}

static enum mob_status apply(struct mob_database *db, const struct mob_migration *m)
{
    struct mob_module_hash digest = mob_module_hash(m->sql, m->length);
    struct mob_database_param p[3];
    enum mob_status status = mob_database_run(db, m->sql);
    if (status != MOB_OK)
        return status;
    mob_param_i32(&p[0], m->version);
    mob_param_bytes(&p[1], m->name, strlen(m->name));
    mob_param_bytes(&p[2], &digest, sizeof digest);
    return mob_database_query(db, note_text, p, 3, NULL);
}

/* Under the lock: what is there, and with `apply_next` the one behind it. *version_out: where the database is
 * then. */
static enum mob_status step(
    struct mob_database *db, const struct mob_migration *migrations, bool apply_next, int *version_out)
{
    int version = 0;
    enum mob_status status = mob_database_run(db, begin_text);
    if (status == MOB_OK)
        status = check_applied(db, migrations, &version);
    const struct mob_migration *next = &migrations[version];
    bool applies = status == MOB_OK && apply_next && next->version != 0; /* else somebody else did it */
    if (applies)
        status = apply(db, next);
    if (status == MOB_OK)
        status = mob_database_run(db, "COMMIT");
    if (status != MOB_OK)
        mob_database_rollback(db);
    else if (applies)
        MOB_LOG_INFO("flush", "migrated", "version=%d name=%s", next->version, next->name);
    *version_out = version + applies;
    return status;
}

/* Without the lock, which somebody who was stopped may hold. *version_out: 0 where there is nothing yet. */
static enum mob_status look(struct mob_database *db, const struct mob_migration *migrations, int *version_out)
{
    struct mob_database_result *rows = NULL;
    enum mob_status status =
        mob_database_query(db, "SELECT to_regclass('mobula.migration') IS NOT NULL", NULL, 0, &rows);
    bool there = status == MOB_OK && mob_database_number(rows, 0, 0) != 0;
    mob_database_result_destroy(rows);
    *version_out = 0;
    return there ? check_applied(db, migrations, version_out) : status;
}

enum mob_status mob_migrate(
    struct mob_database *db, const struct mob_migration *migrations, int *from_out, int *to_out)
{
    int known = 0, from = 0, version = 0;
    while (migrations[known].version != 0)
        known++;
    enum mob_status status = look(db, migrations, &from);
    if (status == MOB_OK && from < known)
        status = step(db, migrations, false, &from);
    for (version = from; status == MOB_OK && version < known;)
        status = step(db, migrations, true, &version);
    if (status == MOB_OK) {
        *from_out = from;
        *to_out = version;
    }
    return status;
}

enum mob_status mob_migrate_claim(struct mob_database *db, struct mob_cluster_id cluster)
{
    static const char claim[] = "INSERT INTO mobula.cluster (id) VALUES ($1) ON CONFLICT DO NOTHING";
    static const char whose[] = "SELECT id FROM mobula.cluster";
    struct mob_database_param p;
    struct mob_database_result *rows = NULL;
    enum mob_status status =
        mob_database_query(db, claim, mob_param_bytes(&p, &cluster, sizeof cluster), 1, NULL);
    if (status == MOB_OK)
        status = mob_database_query(db, whose, NULL, 0, &rows);
    if (status != MOB_OK)
        return status;
    size_t length = 0;
    const uint8_t *id = mob_database_rows(rows) == 1 ? mob_database_bytes(rows, 0, 0, &length) : NULL;
    if (length != sizeof cluster || memcmp(id, &cluster, sizeof cluster) != 0) {
        MOB_LOG_ERROR("flush", "foreign_database", "why=\"it holds another cluster's lineage\"");
        status = MOB_DENIED;
    }
    mob_database_result_destroy(rows);
    return status;
}
