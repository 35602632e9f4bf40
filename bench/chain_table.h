/* Where the masters of a bench's chains keep their configurations: a PostgreSQL of its own as `mobula up` has
 * one (fsync and synchronous_commit on), or, to compare with it, a file (MOBULA_BENCH_TABLE=file).
 *
 * PostgreSQL lies in /var/tmp, not in $TMPDIR: what a commit on a disk costs is a part of each fail-over, and
 * the members' data may be in memory. One thread.
 */
#ifndef MOB_BENCH_CHAIN_TABLE_H
#define MOB_BENCH_CHAIN_TABLE_H

#include "bench/harness.h"
#include "tests/support/pg_box.h"

struct chain_table {
    bool is_file;
    struct pg_box pg;
    double commits_us[101];
};

/* Also measures what a commit takes, before there is anything else. False after bench_miss: there is no
 * PostgreSQL. */
bool chain_table_open(struct bench *b, const char *row, struct chain_table *table);
/* For chain_box.postgres: the folder of the socket; NULL: a file. */
const char *chain_table_postgres(const struct chain_table *table);
/* Empty again, for the next chain; the masters of the last one have ended. */
void chain_table_clear(struct chain_table *table);
/* Members of a row's `extra`, without a comma at either end. */
void chain_table_tell(struct chain_table *table, char *out, size_t capacity);
void chain_table_close(struct chain_table *table);

#endif
