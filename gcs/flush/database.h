/* A connection to PostgreSQL: short calls that block, with parameters and answers in binary, and COPY.
 *
 * One thread each. A failed call says why once in the log (a refusal to connect again only after 10 s, unless
 * its reason is another). MOB_UNAVAILABLE: the connection is gone or was
 * never there, nothing of an open transaction stays, connect again; MOB_CONFLICT: a constraint; MOB_TIMEOUT:
 * a lock; MOB_IO: anything else that the server refuses (its text is in the log), with the connection still
 * good.
 *
 *   mob_database_open(directory, &db);
 *   struct mob_database_param p[2];
 *   status = mob_database_query(db, "SELECT upto FROM mobula.watermark WHERE shard = $1", p, 1, &result);
 */
#ifndef MOB_GCS_FLUSH_DATABASE_H
#define MOB_GCS_FLUSH_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_DATABASE_PARAMS_MAX 20

struct mob_database;
struct mob_database_result;

/* A value to send; bytes NULL = SQL NULL. The numbers' places are in the struct itself. */
struct mob_database_param {
    const void *bytes;
    int length;
    uint8_t number[8];
};
/* Fill one in, and return it: bigint, integer; bytea or text, which is borrowed until the statement has run;
 * SQL NULL. */
struct mob_database_param *mob_param_i64(struct mob_database_param *p, int64_t v);
struct mob_database_param *mob_param_i32(struct mob_database_param *p, int32_t v);
struct mob_database_param *mob_param_bytes(struct mob_database_param *p, const void *bytes, size_t length);
struct mob_database_param *mob_param_null(struct mob_database_param *p);

/* `directory` holds the server's socket. Blocks until it answers or refuses. MOB_UNAVAILABLE. */
MOB_MUST_USE enum mob_status mob_database_open(const char *directory, struct mob_database **db_out);
/* The same for somebody who waits at a terminal: 2 s instead of 10. */
MOB_MUST_USE enum mob_status mob_database_open_soon(const char *directory, struct mob_database **db_out);
void mob_database_close(struct mob_database *db); /* NULL is fine */
/* False: the connection is gone, close it. */
bool mob_database_good(const struct mob_database *db);

/* From now on a statement that is not answered within `patience_ns` ends its connection (MOB_UNAVAILABLE):
 * the server's process may be stopped, and the next connection has another. 0: it is waited for. */
void mob_database_patience(struct mob_database *db, int64_t patience_ns);
/* From now on a connection ends when its server's process is found stopped 2 s after it was asked, and at
 * any 2 s after that. One that works, or waits for a lock, is waited for; one that was left is continued,
 * so that it ends, and what it held is free. */
void mob_database_leave_stopped(struct mob_database *db);
/* What others of its kind know it by, plain letters; and how long a statement waits for somebody's lock
 * (MOB_TIMEOUT). */
MOB_MUST_USE enum mob_status mob_database_name(
    struct mob_database *db, const char *name, uint32_t lock_seconds);
/* The server's process of this connection gets real-time priority, so that a short statement waits for the
 * disk only, on a busy machine, too. False: that is not allowed here, or the process that the server names is
 * not one that it has started. */
bool mob_database_realtime(struct mob_database *db, int priority);
/* Ends the connections of the same name whose transaction is older than `seconds`, so that their locks are
 * free: they can commit no more, or have. Who holds it may be stopped, and so may the server's process. */
MOB_MUST_USE enum mob_status mob_database_end_stopped(struct mob_database *db, uint32_t seconds);

/* One or several statements without parameters or rows. */
MOB_MUST_USE enum mob_status mob_database_run(struct mob_database *db, const char *sql);
/* One statement; parsed the first time by this connection, when `sql` is the same pointer. `result_out` may
 * be NULL; gives (mob_database_result_destroy). */
MOB_MUST_USE enum mob_status mob_database_query(struct mob_database *db, const char *sql,
    const struct mob_database_param *params, int count, struct mob_database_result **result_out);
/* The same for a text that is not used again. MOB_NOT_FOUND: it names a table that is not there. */
MOB_MUST_USE enum mob_status mob_database_query_once(struct mob_database *db, const char *sql,
    const struct mob_database_param *params, int count, struct mob_database_result **result_out);
/* ROLLBACK, when there is something to roll back. */
void mob_database_rollback(struct mob_database *db);

/* Of a result: rows and columns count from 0, and must be there. */
int mob_database_rows(const struct mob_database_result *r);
/* Rows changed by the statement. */
int64_t mob_database_changed(const struct mob_database_result *r);
bool mob_database_null(const struct mob_database_result *r, int row, int column);
/* bigint, integer, smallint, boolean. */
int64_t mob_database_number(const struct mob_database_result *r, int row, int column);
/* Borrowed from the result. */
const uint8_t *mob_database_bytes(
    const struct mob_database_result *r, int row, int column, size_t *length_out);
void mob_database_result_destroy(struct mob_database_result *r); /* NULL is fine */

/* COPY ... FROM STDIN (FORMAT binary). Between begin and end nothing else may run. Rows are buffered; what
 * goes wrong is kept and told by end, which must be called. */
MOB_MUST_USE enum mob_status mob_copy_begin(struct mob_database *db, const char *sql);
/* Opens a row; its columns must follow, each with the column's own type. Bytes are copied. */
void mob_copy_row(struct mob_database *db, int columns);
void mob_copy_i64(struct mob_database *db, int64_t v);
void mob_copy_i32(struct mob_database *db, int32_t v);
void mob_copy_i16(struct mob_database *db, int16_t v);
void mob_copy_bytes(struct mob_database *db, const void *bytes, size_t length);
void mob_copy_null(struct mob_database *db);
/* The closed range of two byte strings of one length, of the type id_range; `empty`: no value is in it. */
void mob_copy_range(struct mob_database *db, const void *first, const void *last, size_t length, bool empty);
MOB_MUST_USE enum mob_status mob_copy_end(struct mob_database *db);

#endif
