/* The schema of the database: numbered files of migrations/, compiled in, applied forward only.
 *
 * Each is applied in a transaction of its own, and its number and hash are kept. A database that knows a
 * newer number than this program, or another content for a number, is refused: it is another program's. Two
 * that migrate at once take turns.
 */
#ifndef MOB_GCS_FLUSH_MIGRATE_H
#define MOB_GCS_FLUSH_MIGRATE_H

#include "common/base/id.h"
#include "gcs/flush/database.h"

struct mob_migration {
    int version; /* from 1, without gaps */
    const char *name;
    const char *sql;
    size_t length;
};
/* In order; ended by version 0. */
extern const struct mob_migration mob_migrations[];

/* Applies what of `migrations` the database lacks; *from_out, *to_out: its version before and after (0: it
 * was empty). MOB_VERSION: it is newer. MOB_CORRUPT: a number has another content there, or one is missing.
 */
MOB_MUST_USE enum mob_status mob_migrate(
    struct mob_database *db, const struct mob_migration *migrations, int *from_out, int *to_out);
/* The first time the database becomes this cluster's. MOB_DENIED: it is another's. */
MOB_MUST_USE enum mob_status mob_migrate_claim(struct mob_database *db, struct mob_cluster_id cluster);

#endif
