/* Between the thread (table.c) and what it asks (table_file.c, table_postgres.c). */
#ifndef MOB_GCS_MASTER_TABLE_INNER_H
#define MOB_GCS_MASTER_TABLE_INNER_H

#include "gcs/master/table.h"

struct mob_database;

/* Each fills in status, row and config. */
void table_file_ask(const char *path, const struct mob_table_question *q, struct mob_table_answer *a);
/* `*db` is opened, and closed when it fails. */
void table_postgres_ask(const char *directory, uint32_t shard, struct mob_database **db,
    const struct mob_table_question *q, struct mob_table_answer *a);
void table_postgres_close(struct mob_database *db);

#endif
