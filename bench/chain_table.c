#include "bench/chain_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "common/base/log.h"

#define PLACE "/var/tmp"
#define COMMITS (int)(sizeof((struct chain_table *)0)->commits_us / sizeof(double))

static bool run(struct mob_database *db, const char *sql)
{
    return mob_database_run(db, sql) == MOB_OK;
}

/* One row each, as a configuration is. */
static void measure_commits(struct chain_table *t)
{
    struct mob_database *db = pg_box_open(&t->pg);
    MOB_ASSERT(run(db, "CREATE TABLE bench_commit (n bigint PRIMARY KEY)"));
    for (int i = 0; i < COMMITS; i++) {
        struct mob_database_param p;
        int64_t begin = bench_now();
        MOB_ASSERT(mob_database_query(
                       db, "INSERT INTO bench_commit VALUES ($1)", mob_param_i64(&p, i), 1, NULL) == MOB_OK);
        t->commits_us[i] = (double)(bench_now() - begin) / 1e3;
    }
    MOB_ASSERT(run(db, "DROP TABLE bench_commit"));
    mob_database_close(db);
}

bool chain_table_open(struct bench *b, const char *row, struct chain_table *t)
{
    const char *kind = getenv("MOBULA_BENCH_TABLE");
    *t = (struct chain_table){.is_file = kind != NULL && strcmp(kind, "file") == 0};
    if (t->is_file)
        return true;
    if (!pg_box_available()) {
        bench_miss(b, row, "there is no PostgreSQL 15; MOBULA_BENCH_TABLE=file does without");
        return false;
    }
    pg_box_init_in(&t->pg, PLACE);
    bench_remove_at_stop(t->pg.directory);
    pg_box_start(&t->pg);
    measure_commits(t);
    return true;
}

const char *chain_table_postgres(const struct chain_table *t)
{
    return t->is_file ? NULL : t->pg.data;
}

void chain_table_clear(struct chain_table *t)
{
    if (t->is_file)
        return; /* each chain has its own */
    struct mob_database *db = pg_box_open(&t->pg);
    MOB_ASSERT(run(db, "DROP SCHEMA IF EXISTS mobula CASCADE"));
    mob_database_close(db);
}

static const char *disk_of(const char *path)
{
    enum { TMPFS = 0x01021994, EXT = 0xef53, XFS = 0x58465342, OVERLAY = 0x794c7630 };
    struct statfs fs;
    if (statfs(path, &fs) != 0)
        return "unknown";
    return fs.f_type == TMPFS  ? "tmpfs"
        : fs.f_type == EXT     ? "ext4"
        : fs.f_type == XFS     ? "xfs"
        : fs.f_type == OVERLAY ? "overlay"
                               : "other";
}

void chain_table_tell(struct chain_table *t, char *out, size_t capacity)
{
    if (t->is_file) {
        snprintf(out, capacity, "\"table\": \"file\"");
        return;
    }
    snprintf(out, capacity,
        "\"table\": \"postgres\", \"table_disk\": \"%s\", \"commit_ms\": %.2f, "
        "\"commit_p99_ms\": %.2f",
        disk_of(t->pg.data), bench_percentile(t->commits_us, COMMITS, 50) / 1e3,
        bench_percentile(t->commits_us, COMMITS, 99) / 1e3);
}

void chain_table_close(struct chain_table *t)
{
    if (!t->is_file)
        pg_box_fini(&t->pg);
}
