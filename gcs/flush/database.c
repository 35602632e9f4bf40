#include "gcs/flush/database.h"

#include <endian.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/log_value.h"
#include "common/base/process.h"
#include "gcs/flush/postgres_conf.h"

#define COPY_BUFFER_BYTES (256u << 10)
#define PREPARED_MAX 32
#define LOCK_NOT_AVAILABLE "55P03"
#define STOPPED_NS (2 * MOB_SEC)
/* Who waits for PostgreSQL asks it many times a second: the same refusal is told again after so long. */
#define REFUSAL_AGAIN_NS (10 * MOB_SEC)

struct mob_database {
    PGconn *conn;
    int64_t patience_ns; /* of a statement; 0: for ever */
    bool leaves_stopped; /* only then: who works, or waits for a lock, is waited for again */
    const char *prepared[PREPARED_MAX]; /* the n-th is statement "n" */
    int prepared_count;
    uint8_t *copy;
    size_t copy_used;
    enum mob_status copy_status;
};

/* ---- parameters ---- */

struct mob_database_param *mob_param_i64(struct mob_database_param *p, int64_t v)
{
    uint64_t big = htobe64((uint64_t)v);
    memcpy(p->number, &big, sizeof big);
    p->bytes = p->number;
    p->length = sizeof big;
    return p;
}

struct mob_database_param *mob_param_i32(struct mob_database_param *p, int32_t v)
{
    uint32_t big = htobe32((uint32_t)v);
    memcpy(p->number, &big, sizeof big);
    p->bytes = p->number;
    p->length = sizeof big;
    return p;
}

struct mob_database_param *mob_param_bytes(struct mob_database_param *p, const void *bytes, size_t length)
{
    p->bytes = bytes;
    p->length = (int)length;
    return p;
}

struct mob_database_param *mob_param_null(struct mob_database_param *p)
{
    p->bytes = NULL;
    p->length = 0;
    return p;
}

/* ---- connection ---- */

/* libpq's messages end with a newline, and may have several. */
static void log_failure(const char *event, const char *message)
{
    MOB_LOG_WARN("flush", event, "message=\"%s\"", MOB_LOG_VALUE(message));
}

/* Shared by the process' threads; one that comes between costs or saves a line. */
static struct told {
    _Atomic uint64_t message;
    _Atomic int64_t until_ns;
} told_refusal, told_failure;

static bool is_news(struct told *told, const char *message)
{
    uint64_t hash = mob_hash64(message, strlen(message));
    int64_t now_ns = mob_now();
    if (told->message == hash && now_ns < told->until_ns)
        return false;
    told->message = hash;
    told->until_ns = now_ns + REFUSAL_AGAIN_NS;
    return true;
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/* libpq takes no less than 2 s. */
static enum mob_status open_within(const char *directory, const char *seconds, struct mob_database **db_out)
{
    static const char *const keys[] = {
        "host", "port", "user", "dbname", "application_name", "connect_timeout", NULL};
    const char *const values[] = {
        directory, MOB_POSTGRES_PORT, MOB_POSTGRES_ROLE, MOB_POSTGRES_DATABASE, "mobula", seconds, NULL};
    struct mob_database *db = calloc(1, sizeof *db);
    if (db == NULL)
        return MOB_NO_MEMORY;
    db->conn = PQconnectdbParams(keys, values, 0);
    if (PQstatus(db->conn) != CONNECTION_OK) {
        if (is_news(&told_refusal, PQerrorMessage(db->conn)))
            log_failure("postgres_refuses", PQerrorMessage(db->conn));
        mob_database_close(db);
        return MOB_UNAVAILABLE;
    }
    told_refusal.until_ns = 0; /* the next one is news */
    PQsetNoticeReceiver(db->conn, ignore_notice, NULL);
    *db_out = db;
    return MOB_OK;
}

enum mob_status mob_database_open(const char *directory, struct mob_database **db_out)
{
    return open_within(directory, "10", db_out);
}

enum mob_status mob_database_open_soon(const char *directory, struct mob_database **db_out)
{
    return open_within(directory, "2", db_out);
}

void mob_database_close(struct mob_database *db)
{
    if (db == NULL)
        return;
    PQfinish(db->conn);
    free(db->copy);
    free(db);
}

bool mob_database_good(const struct mob_database *db)
{
    return db != NULL && PQstatus(db->conn) == CONNECTION_OK;
}

void mob_database_patience(struct mob_database *db, int64_t patience_ns)
{
    db->patience_ns = patience_ns;
    db->leaves_stopped = false;
}

void mob_database_leave_stopped(struct mob_database *db)
{
    db->patience_ns = STOPPED_NS;
    db->leaves_stopped = true;
}

/* ---- statements ---- */

/* The time is over. False: the connection has no end yet, the time begins anew. */
static bool give_up(struct mob_database *db)
{
    pid_t server = PQbackendPID(db->conn);
    if (db->leaves_stopped && !mob_process_is_stopped(server))
        return false;
    MOB_LOG_WARN(
        "flush", "postgres_is_silent", "ms=%lld pid=%d", (long long)(db->patience_ns / MOB_MS), (int)server);
    shutdown(PQsocket(db->conn), SHUT_RDWR);
    if (db->leaves_stopped) /* what it holds is free when it has found out */
        (void)kill(server, SIGCONT);
    return true;
}

/* Until one of the events, which libpq would wait for without end. Who does not answer in time loses the
 * connection, and what is read then says so. True: there is something to read. */
static bool await(struct mob_database *db, short events, int64_t *deadline_ns)
{
    struct pollfd answer = {.fd = PQsocket(db->conn), .events = events};
    int64_t left_ns = *deadline_ns - mob_now();
    if (db->patience_ns == 0 || left_ns > 0)
        poll(&answer, 1, db->patience_ns == 0 ? -1 : (int)(left_ns / MOB_MS) + 1);
    bool late = db->patience_ns != 0 && mob_now() >= *deadline_ns;
    if (late && poll(&answer, 1, 0) == 0) {
        if (give_up(db))
            return true;
        *deadline_ns = mob_now() + db->patience_ns;
    }
    return (answer.revents & ~POLLOUT) != 0;
}

static void await_answer(struct mob_database *db, int64_t deadline_ns)
{
    while (PQisBusy(db->conn))
        if (await(db, POLLIN, &deadline_ns) && PQconsumeInput(db->conn) != 1)
            return;
}

/* The last answer to what was sent, as PQexec() gives it; NULL: the connection is gone. */
static PGresult *take_answer(struct mob_database *db, int sent)
{
    int64_t deadline_ns = mob_now() + db->patience_ns;
    PGresult *last = NULL;
    bool more = sent == 1;
    while (more) {
        await_answer(db, deadline_ns);
        PGresult *next = PQgetResult(db->conn);
        more = next != NULL && PQresultStatus(next) != PGRES_COPY_IN && PQstatus(db->conn) == CONNECTION_OK;
        if (next != NULL) {
            PQclear(last);
            last = next;
        }
    }
    return last;
}

static enum mob_status status_of(struct mob_database *db, const PGresult *result, const char *sql)
{
    ExecStatusType type = PQresultStatus(result); /* of NULL: a fatal error */
    if (type == PGRES_COMMAND_OK || type == PGRES_TUPLES_OK || type == PGRES_COPY_IN)
        return MOB_OK;
    const char *state = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (is_news(&told_failure, PQerrorMessage(db->conn))) {
        log_failure("postgres_failed", PQerrorMessage(db->conn));
        MOB_LOG_WARN("flush", "statement_failed", "sqlstate=%s sql=\"%.60s\"", state == NULL ? "" : state,
            MOB_LOG_VALUE(sql));
    }
    if (PQstatus(db->conn) != CONNECTION_OK)
        return MOB_UNAVAILABLE;
    if (state == NULL)
        return MOB_IO;
    if (strcmp(state, "42P01") == 0)
        return MOB_NOT_FOUND;
    if (strncmp(state, "57P", 3) == 0 || strncmp(state, "08", 2) == 0)
        return MOB_UNAVAILABLE; /* it stops, or starts */
    if (strcmp(state, LOCK_NOT_AVAILABLE) == 0)
        return MOB_TIMEOUT;
    if (strncmp(state, "53", 2) == 0)
        return MOB_DISK_FULL; /* no space, no memory, no connection */
    return strncmp(state, "23", 2) == 0 ? MOB_CONFLICT : MOB_IO;
}

enum mob_status mob_database_run(struct mob_database *db, const char *sql)
{
    PGresult *result = take_answer(db, PQsendQuery(db->conn, sql));
    enum mob_status status = status_of(db, result, sql);
    PQclear(result);
    return status;
}

static enum mob_status prepare(struct mob_database *db, const char *sql, char name[16])
{
    int i = 0;
    while (i < db->prepared_count && db->prepared[i] != sql)
        i++;
    snprintf(name, 16, "s%d", i);
    if (i < db->prepared_count)
        return MOB_OK;
    if (i == PREPARED_MAX) {
        name[0] = 0; /* the unnamed one */
        i = -1;
    }
    PGresult *result = take_answer(db, PQsendPrepare(db->conn, name, sql, 0, NULL));
    enum mob_status status = status_of(db, result, sql);
    PQclear(result);
    if (status == MOB_OK && i >= 0)
        db->prepared[db->prepared_count++] = sql;
    return status;
}

struct sent {
    const char *values[MOB_DATABASE_PARAMS_MAX];
    int lengths[MOB_DATABASE_PARAMS_MAX], formats[MOB_DATABASE_PARAMS_MAX];
};

static void to_send(struct sent *s, const struct mob_database_param *params, int count)
{
    MOB_ASSERT(count <= MOB_DATABASE_PARAMS_MAX);
    for (int i = 0; i < count; i++) {
        s->values[i] = params[i].bytes;
        s->lengths[i] = params[i].length;
        s->formats[i] = 1;
    }
}

static enum mob_status answered(
    struct mob_database *db, PGresult *result, const char *sql, struct mob_database_result **result_out)
{
    enum mob_status status = status_of(db, result, sql);
    if (status == MOB_OK && result_out != NULL)
        *result_out = (struct mob_database_result *)result;
    else
        PQclear(result);
    return status;
}

enum mob_status mob_database_query(struct mob_database *db, const char *sql,
    const struct mob_database_param *params, int count, struct mob_database_result **result_out)
{
    struct sent s;
    char name[16];
    enum mob_status status = prepare(db, sql, name);
    if (status != MOB_OK)
        return status;
    to_send(&s, params, count);
    int sent = PQsendQueryPrepared(db->conn, name, count, s.values, s.lengths, s.formats, 1);
    return answered(db, take_answer(db, sent), sql, result_out);
}

enum mob_status mob_database_query_once(struct mob_database *db, const char *sql,
    const struct mob_database_param *params, int count, struct mob_database_result **result_out)
{
    struct sent s;
    to_send(&s, params, count);
    int sent = PQsendQueryParams(db->conn, sql, count, NULL, s.values, s.lengths, s.formats, 1);
    return answered(db, take_answer(db, sent), sql, result_out);
}

void mob_database_rollback(struct mob_database *db)
{
    if (!mob_database_good(db) || PQtransactionStatus(db->conn) == PQTRANS_IDLE)
        return;
    enum mob_status status = mob_database_run(db, "ROLLBACK");
    (void)status; /* the connection is gone: so is the transaction */
}

/* ---- who holds what others wait for ---- */

enum mob_status mob_database_name(struct mob_database *db, const char *name, uint32_t lock_seconds)
{
    char text[128];
    snprintf(text, sizeof text, "SET application_name = '%s'; SET lock_timeout = '%us'", name, lock_seconds);
    return mob_database_run(db, text);
}

/* Who listens is the server's first process, the parent of all that serve. */
bool mob_database_realtime(struct mob_database *db, int priority)
{
    struct ucred first;
    socklen_t length = sizeof first;
    struct mob_process server;
    pid_t pid = PQbackendPID(db->conn);
    const struct sched_param param = {.sched_priority = priority};
    return getsockopt(PQsocket(db->conn), SOL_SOCKET, SO_PEERCRED, &first, &length) == 0 &&
        mob_process_look(pid, &server) && server.parent == first.pid &&
        sched_setscheduler(pid, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0;
}

enum mob_status mob_database_end_stopped(struct mob_database *db, uint32_t seconds)
{
    static const char sql[] =
        "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND application_name = current_setting('application_name') "
        "AND xact_start < now() - $1::integer * interval '1 s'";
    struct mob_database_param p;
    struct mob_database_result *rows = NULL;
    enum mob_status status = mob_database_query(db, sql, mob_param_i32(&p, (int32_t)seconds), 1, &rows);
    int count = status == MOB_OK ? mob_database_rows(rows) : 0;
    for (int i = 0; i < count; i++) {
        pid_t server = (pid_t)mob_database_number(rows, i, 0);
        bool stopped = mob_process_is_stopped(server);
        MOB_LOG_WARN("flush", "transaction_ended", "pid=%d server_is_stopped=%d", (int)server, stopped);
        if (stopped) /* it ends only when it goes on */
            (void)kill(server, SIGCONT);
    }
    mob_database_result_destroy(rows);
    return status;
}

/* ---- answers ---- */

static const PGresult *pg(const struct mob_database_result *r)
{
    return (const PGresult *)r;
}

int mob_database_rows(const struct mob_database_result *r)
{
    return PQntuples(pg(r));
}

int64_t mob_database_changed(const struct mob_database_result *r)
{
    return strtoll(PQcmdTuples((PGresult *)(uintptr_t)r), NULL, 10);
}

bool mob_database_null(const struct mob_database_result *r, int row, int column)
{
    return PQgetisnull(pg(r), row, column) != 0;
}

int64_t mob_database_number(const struct mob_database_result *r, int row, int column)
{
    const char *value = PQgetvalue(pg(r), row, column);
    uint64_t v64;
    uint32_t v32;
    uint16_t v16;
    switch (PQgetlength(pg(r), row, column)) {
    case 8:
        memcpy(&v64, value, 8);
        return (int64_t)be64toh(v64);
    case 4:
        memcpy(&v32, value, 4);
        return (int32_t)be32toh(v32);
    case 2:
        memcpy(&v16, value, 2);
        return (int16_t)be16toh(v16);
    case 1:
        return *value;
    default:
        return 0;
    }
}

const uint8_t *mob_database_bytes(
    const struct mob_database_result *r, int row, int column, size_t *length_out)
{
    *length_out = (size_t)PQgetlength(pg(r), row, column);
    return (const uint8_t *)PQgetvalue(pg(r), row, column);
}

void mob_database_result_destroy(struct mob_database_result *r)
{
    PQclear((PGresult *)r);
}

/* ---- COPY ---- */

/* What libpq has taken is on its way; false: the connection is gone. */
static bool send_all(struct mob_database *db)
{
    int64_t deadline_ns = mob_now() + db->patience_ns;
    int unsent;
    while ((unsent = PQflush(db->conn)) == 1)
        if (await(db, POLLIN | POLLOUT, &deadline_ns) && PQconsumeInput(db->conn) != 1)
            return false;
    return unsent == 0;
}

static void copy_send(struct mob_database *db)
{
    bool sent = db->copy_status != MOB_OK || db->copy_used == 0 ||
        (PQputCopyData(db->conn, (const char *)db->copy, (int)db->copy_used) == 1 && send_all(db));
    if (!sent)
        db->copy_status = MOB_UNAVAILABLE;
    db->copy_used = 0;
}

static void copy_put(struct mob_database *db, const void *bytes, size_t length)
{
    const uint8_t *from = bytes;
    while (length > 0) {
        size_t room = COPY_BUFFER_BYTES - db->copy_used, n = length < room ? length : room;
        memcpy(db->copy + db->copy_used, from, n);
        db->copy_used += n;
        from += n;
        length -= n;
        if (db->copy_used == COPY_BUFFER_BYTES)
            copy_send(db);
    }
}

enum mob_status mob_copy_begin(struct mob_database *db, const char *sql)
{
    static const uint8_t head[19] = "PGCOPY\n\377\r\n\0"; /* signature, flags, no extension */
    if (db->copy == NULL && (db->copy = malloc(COPY_BUFFER_BYTES)) == NULL)
        return MOB_NO_MEMORY;
    PGresult *result = take_answer(db, PQsendQuery(db->conn, sql));
    enum mob_status status = status_of(db, result, sql);
    PQclear(result);
    db->copy_status = MOB_OK;
    db->copy_used = 0;
    if (status != MOB_OK)
        return status;
    PQsetnonblocking(db->conn, 1); /* else what does not fit is waited for without end */
    copy_put(db, head, sizeof head);
    return MOB_OK;
}

void mob_copy_row(struct mob_database *db, int columns)
{
    uint16_t big = htobe16((uint16_t)columns);
    copy_put(db, &big, sizeof big);
}

static void copy_length(struct mob_database *db, size_t length)
{
    uint32_t big = htobe32((uint32_t)length);
    copy_put(db, &big, sizeof big);
}

void mob_copy_bytes(struct mob_database *db, const void *bytes, size_t length)
{
    copy_length(db, length);
    copy_put(db, bytes, length);
}

void mob_copy_i64(struct mob_database *db, int64_t v)
{
    uint64_t big = htobe64((uint64_t)v);
    mob_copy_bytes(db, &big, sizeof big);
}

void mob_copy_i32(struct mob_database *db, int32_t v)
{
    uint32_t big = htobe32((uint32_t)v);
    mob_copy_bytes(db, &big, sizeof big);
}

void mob_copy_i16(struct mob_database *db, int16_t v)
{
    uint16_t big = htobe16((uint16_t)v);
    mob_copy_bytes(db, &big, sizeof big);
}

void mob_copy_null(struct mob_database *db)
{
    copy_length(db, UINT32_MAX);
}

void mob_copy_range(struct mob_database *db, const void *first, const void *last, size_t length, bool empty)
{
    /* The server's own binary form: flags, then each bound as a value. */
    enum { RANGE_EMPTY = 1, RANGE_LOWER_IN = 2, RANGE_UPPER_IN = 4 };
    uint8_t flags = empty ? RANGE_EMPTY : RANGE_LOWER_IN | RANGE_UPPER_IN;
    copy_length(db, empty ? 1 : 1 + 2 * (4 + length));
    copy_put(db, &flags, 1);
    if (empty)
        return;
    mob_copy_bytes(db, first, length);
    mob_copy_bytes(db, last, length);
}

enum mob_status mob_copy_end(struct mob_database *db)
{
    uint16_t end = UINT16_MAX;
    copy_put(db, &end, sizeof end);
    copy_send(db);
    bool ended = PQputCopyEnd(db->conn, NULL) == 1 && send_all(db);
    enum mob_status status = db->copy_status != MOB_OK ? db->copy_status : ended ? MOB_OK : MOB_UNAVAILABLE;
    PGresult *result = take_answer(db, 1);
    if (status == MOB_OK || PQresultStatus(result) == PGRES_FATAL_ERROR)
        status = status_of(db, result, "COPY");
    PQclear(result);
    PQsetnonblocking(db->conn, 0);
    return mob_database_good(db) ? status : MOB_UNAVAILABLE;
}
