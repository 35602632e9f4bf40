/* Between the thread (table.c) and what it asks (table_file.c, table_postgres.c). */
#ifndef MOB_GCS_MASTER_TABLE_INNER_H
#define MOB_GCS_MASTER_TABLE_INNER_H

#include "gcs/master/table.h"

#define MASTER_PRIORITY 10 /* real-time, of who has a part in a fail-over */

struct mob_database;

/* Each fills in what was asked for. */
void table_file_ask(const char *path, const struct mob_table_question *q, struct mob_table_answer *a);
/* `*db` is opened, and closed when it fails. */
void table_postgres_ask(const char *directory, uint32_t shard, struct mob_database **db,
    const struct mob_table_question *q, struct mob_table_answer *a);
/* table_nodes_file.c: of files, under their lock. `term` is the row's. */
void table_nodes_file_ask(
    const char *path, uint64_t term, const struct mob_table_question *q, struct mob_table_answer *a);
/* table_file.c: replaces a file, which is on disk then. */
MOB_MUST_USE enum mob_status table_file_store(const char *path, const void *bytes, size_t length);
/* table_nodes_postgres.c */
MOB_MUST_USE enum mob_status table_nodes_postgres_ask(
    struct mob_database *db, uint32_t shard, const struct mob_table_question *q, struct mob_table_answer *a);
void table_postgres_close(struct mob_database *db);

#endif
