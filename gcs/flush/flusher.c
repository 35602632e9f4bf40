#include "gcs/flush/flusher.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "gcs/flush/cold_pool.h"
#include "gcs/flush/flusher_inner.h"

#define STOP_NS (500 * MOB_MS)

/* ---- what a session gathers ---- */

static void destroy_batches(struct flusher *f)
{
    flush_batch_destroy(f->open);
    f->open = NULL;
    for (struct flush_batch *b = f->closed_first, *next; b != NULL; b = next) {
        next = b->next;
        flush_batch_destroy(b);
    }
    f->closed_first = f->closed_last = NULL;
    f->gathered_bytes = 0;
}

static void flusher_restart(struct flusher *f, const char *why, enum mob_status status)
{
    if (f->state == SESSION_NONE)
        return;
    MOB_LOG_WARN("flush", "session_ended", "why=%s status=%s written=%" PRIu64 " flushed=%" PRIu64, why,
        mob_status_code(status), f->written, f->flushed);
    mob_gcs_unsubscribe(f->sub);
    f->sub = NULL;
    destroy_batches(f);
    marks_clear(&f->marks);
    f->state = SESSION_NONE;
    f->retry_ns = mob_now() + f->pause_ns;
    f->pause_ns = f->pause_ns * 2 < PAUSE_MAX_NS ? f->pause_ns * 2 : PAUSE_MAX_NS;
}

static void close_open(struct flusher *f)
{
    struct flush_batch *b = f->open;
    f->open = NULL;
    if (f->closed_last != NULL)
        f->closed_last->next = b;
    else
        f->closed_first = b;
    f->closed_last = b;
}

static void gather(struct flusher *f, const struct mob_gcs_block_row *row)
{
    if (f->open == NULL)
        f->open = flush_batch_create(f->gathered, mob_now());
    enum mob_status status =
        f->open == NULL ? MOB_NO_MEMORY : flush_batch_add(f->open, row->seq, row->bytes, row->length);
    if (status == MOB_NO_MEMORY) {
        flusher_restart(f, "memory", status);
        return;
    }
    f->gathered = row->seq;
    f->gathered_bytes += row->length;
    if (flush_batch_full(f->open, f->options.batch_bytes))
        close_open(f);
}

static void on_block(void *arg, const struct mob_gcs_block_row *row)
{
    struct flusher *f = arg;
    if (f->state != SESSION_RUNS)
        return;
    f->last_seen = row->seq;
    f->seen_ns = mob_now();
    if (row->seq > f->written_at_begin) {
        marks_seen(&f->marks, f->written_at_begin);
        gather(f, row);
    } else if (marks_add_block(&f->marks, row) != MOB_OK) { /* written before this session began */
        flusher_restart(f, "memory", MOB_NO_MEMORY);
    }
}

/* The member dropped more than this session knew, or has another history: both are looked at anew. */
static void on_resync(void *arg, uint64_t after, uint64_t next)
{
    MOB_LOG_INFO("flush", "resync", "after=%" PRIu64 " next=%" PRIu64, after, next);
    flusher_restart(arg, "resync", MOB_OK);
}

/* Of either client: what was not durable may be another block when the members are back, and what one of them
 * then says is durable must not be taken for what the other had heard before. */
static void on_link(void *arg, enum mob_status status)
{
    if (status != MOB_OK)
        flusher_restart(arg, "link", status);
}

/* ---- were those that are written already all there? The last of a batch may have been dropped with its
 * job, and then nothing says so but that the newest block of all has been seen ---- */

static void on_newest(void *arg, const struct mob_gcs_answer *answer)
{
    struct flusher *f = arg;
    f->looking = false;
    f->seen_ns = mob_now();
    bool all = answer->status == MOB_NOT_FOUND || (answer->status == MOB_OK && answer->block_count == 0) ||
        (answer->status == MOB_OK && answer->blocks[0].seq <= f->last_seen);
    if (all && f->state == SESSION_RUNS && f->looking_session == f->session)
        marks_seen(&f->marks, f->written_at_begin);
}

static void look_for_newest(struct flusher *f)
{
    const struct mob_gcs_scan scan = {.newest_first = true, .limit = 1};
    if (f->looking || mob_now() < f->seen_ns + QUIET_NS)
        return;
    f->seen_ns = mob_now();
    f->looking_session = f->session;
    f->looking = mob_gcs_scan(f->control, &scan, on_newest, f) == MOB_OK;
}

static bool some_not_seen(const struct flusher *f)
{
    return f->state == SESSION_RUNS && marks_ready(&f->marks) < f->marks.count;
}

/* ---- a session begins ---- */

static void on_stats(void *arg, const struct mob_gcs_answer *answer)
{
    struct flusher *f = arg;
    f->asking = false;
    if (f->state == SESSION_RUNS && answer->status == MOB_OK)
        flusher_keep_hot(f, answer->stats->redis_bytes + answer->stats->member_bytes);
    if (f->state != SESSION_ASKS)
        return;
    if (answer->status != MOB_OK) {
        flusher_restart(f, "stats", answer->status);
        return;
    }
    f->flushed = answer->stats->flushed;
    f->applied = answer->stats->applied;
    f->job = (struct flush_job){.kind = FLUSH_JOB_OPEN, .flushed = f->flushed, .epoch = answer->stats->epoch};
    f->state = SESSION_OPENS;
    f->busy = true;
    flush_thread_give(f->thread, &f->job);
}

static bool ask_stats(struct flusher *f)
{
    if (f->asking)
        return true;
    f->asking = mob_gcs_stats(f->control, on_stats, f) == MOB_OK;
    return f->asking;
}

/* Answers of the session before are waited for: what they changed is known then. */
static void begin_session(struct flusher *f)
{
    if (f->state != SESSION_NONE || f->busy || f->flushing || f->asking || mob_now() < f->retry_ns ||
        !mob_gcs_connected(f->control))
        return;
    f->state = SESSION_ASKS;
    if (!ask_stats(f))
        flusher_restart(f, "stats", MOB_NO_MEMORY);
}

static void tell_ready(struct flusher *f)
{
    if (f->told_ready || f->options.ready_path == NULL)
        return;
    int fd = open(f->options.ready_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, "ready\n", 6) == 6;
    if (fd >= 0)
        close(fd);
    if (!written)
        MOB_LOG_WARN("flush", "ready_not_told", "path=%s errno=%d", f->options.ready_path, errno);
    f->told_ready = written;
}

static void opened(struct flusher *f)
{
    const struct mob_gcs_sub_events events = {on_block, on_resync, f};
    const struct flush_job *job = &f->job;
    if (job->status == MOB_VERSION || job->status == MOB_CORRUPT || job->status == MOB_DENIED)
        f->refused = job->status;
    enum mob_status status = job->status;
    if (status == MOB_OK && job->upto > f->applied) {
        /* Never by itself: it was written only when it was durable there. */
        MOB_LOG_ERROR(
            "flush", "member_is_older", "watermark=%" PRIu64 " applied=%" PRIu64, job->upto, f->applied);
        status = MOB_CONFLICT;
    }
    if (status == MOB_OK)
        status = marks_begin(&f->marks, job->ends, job->end_count);
    if (status == MOB_OK)
        status = mob_gcs_subscribe(f->stream, f->flushed, &events, &f->sub);
    if (status != MOB_OK) {
        flusher_restart(f, "open", status);
        return;
    }
    f->written = f->written_at_begin = f->gathered = job->upto;
    mob_gcs_cold_watermark(f->control, f->written, &job->figures);
    f->state = SESSION_RUNS;
    f->session++;
    f->last_seen = f->flushed;
    f->seen_ns = mob_now();
    MOB_LOG_INFO("flush", "session", "written=%" PRIu64 " flushed=%" PRIu64 " epoch=%" PRIu64, f->written,
        f->flushed, job->epoch);
    tell_ready(f);
}

/* ---- batches ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void written(struct flusher *f, struct flush_batch *batch)
{
    const struct mob_flush_written *w = &f->job.written;
    f->written = batch->upto;
    mob_gcs_cold_watermark(f->control, f->written, &f->job.figures);
    f->maintain_ns = earlier(f->maintain_ns, mob_now() + f->options.maintain_ns);
    f->pause_ns = PAUSE_MIN_NS;
    f->gathered_bytes -= batch->used;
    MOB_LOG_DEBUG("flush", "written",
        "upto=%" PRIu64 " blocks=%u bytes=%" PRIu64 " payload=%" PRIu64 " failures=%u", batch->upto,
        batch->count, w->block_bytes, w->payload_bytes, w->failures);
    if (marks_add_batch(&f->marks, batch) != MOB_OK)
        flusher_restart(f, "memory", MOB_NO_MEMORY);
}

static void job_ended(struct flusher *f)
{
    struct flush_job *job = flush_thread_take(f->thread);
    if (job == NULL)
        return;
    f->busy = false;
    if (job->kind == FLUSH_JOB_OPEN) {
        if (f->state == SESSION_OPENS)
            opened(f);
        free(job->ends);
        return;
    }
    if (job->kind == FLUSH_JOB_MAINTAIN) {
        if (job->status == MOB_UNAVAILABLE && f->state == SESSION_RUNS) /* the connection is gone, perhaps */
            flusher_restart(f, "maintain", job->status);
        else if (f->state == SESSION_RUNS)
            mob_gcs_cold_watermark(f->control, f->written, &job->figures);
        return;
    }
    struct flush_batch *batch = job->batch;
    if (f->state == SESSION_RUNS && job->status == MOB_OK)
        written(f, batch);
    else if (f->state == SESSION_RUNS) /* committed or not, its watermark tells the next session */
        flusher_restart(f, job->status == MOB_CONFLICT ? "overtaken" : "write", job->status);
    flush_batch_destroy(batch);
}

/* An idle cluster is to be idle, and each look asks the whole chain. Where nothing was written only time has
 * passed, by which days and jobs go, in hours; where they go after seconds it counts as well. */
static int64_t maintain_pause(const struct flusher *f)
{
    int64_t pause = f->options.maintain_ns,
            seldom = earlier(MAINTAIN_SELDOM * pause, f->options.retention_s * MOB_SEC / 10);
    return f->written == f->maintained && seldom > pause ? seldom : pause;
}

static void give_batch(struct flusher *f)
{
    struct mob_gcs_position at;
    if (f->state != SESSION_RUNS)
        return;
    if (f->open != NULL && mob_now() >= f->open->opened_ns + f->options.delay_ns)
        close_open(f);
    struct flush_batch *b = f->closed_first;
    mob_gcs_position(f->control, &at);
    if (f->busy)
        return;
    if (mob_now() >= f->maintain_ns) {
        f->maintain_ns = mob_now() + maintain_pause(f);
        f->maintained = f->written;
        f->job = (struct flush_job){.kind = FLUSH_JOB_MAINTAIN};
        f->busy = true;
        flush_thread_give(f->thread, &f->job);
        return;
    }
    if (b == NULL || b->upto > at.durable)
        return;
    f->closed_first = b->next;
    if (b->next == NULL)
        f->closed_last = NULL;
    b->next = NULL;
    flush_batch_close(b, at.epoch);
    f->job = (struct flush_job){.kind = FLUSH_JOB_WRITE, .batch = b};
    f->busy = true;
    flush_thread_give(f->thread, &f->job);
}

/* ---- FLUSH ---- */

static void on_flushed(void *arg, const struct mob_gcs_answer *answer)
{
    struct flusher *f = arg;
    f->flushing = false;
    if (f->state != SESSION_RUNS)
        return;
    if (answer->status != MOB_OK || answer->number != f->flushing_upto) {
        flusher_restart(f, "flush", answer->status);
        return;
    }
    f->flushed = f->flushing_upto;
    marks_drop(&f->marks, f->flushed);
}

/* The oldest batches that hold about `bytes` leave the member. */
static void flush_some(struct flusher *f, uint64_t bytes)
{
    struct flush_nets nets = {0};
    uint64_t upto = 0;
    if (f->flushing || f->state != SESSION_RUNS)
        return;
    enum mob_status status = marks_oldest(&f->marks, bytes, &nets, &upto);
    if (status == MOB_OK && upto > f->flushed) {
        struct mob_gcs_flush flush = {
            .from = f->flushed, .upto = upto, .groups = nets.rows, .group_count = nets.count};
        (void)MOB_FAILPOINT("flush.before_flush");
        f->flushing_upto = upto;
        status = mob_gcs_flush(f->control, &flush, on_flushed, f);
        f->flushing = status == MOB_OK;
    }
    flush_nets_fini(&nets);
    if (status != MOB_OK)
        flusher_restart(f, "flush", status);
}

static uint64_t hot_bytes(const struct flusher *f, const struct mob_gcs_position *at)
{
    return at->memory_soft_bytes / 100 * f->options.hot_percent;
}

void flusher_keep_hot(struct flusher *f, uint64_t memory_bytes)
{
    struct mob_gcs_position at;
    mob_gcs_position(f->control, &at);
    f->look_ns = mob_now() + LOOK_NS;
    if (memory_bytes > hot_bytes(f, &at))
        flush_some(f, memory_bytes - hot_bytes(f, &at));
}

/* Under pressure all that may go, at once; else so much that the rest may stay. What this client was told
 * last may be old: the member is asked. Returns when to come again. */
static int64_t flush_what_must(struct flusher *f)
{
    struct mob_gcs_position at;
    if (f->state != SESSION_RUNS || f->flushing || marks_ready(&f->marks) == 0)
        return MOB_FOREVER_NS;
    mob_gcs_position(f->control, &at);
    if (at.pressure || f->options.hot_percent == 0) {
        flush_some(f, UINT64_MAX);
    } else if (marks_ready(&f->marks) > MARKS_KEPT_MAX) {
        flush_some(f, marks_bytes(&f->marks) / 2);
    } else if (at.memory_bytes > hot_bytes(f, &at)) {
        if (mob_now() < f->look_ns)
            return f->look_ns;
        if (!f->asking && !ask_stats(f))
            return f->look_ns = mob_now() + LOOK_NS;
    }
    return MOB_FOREVER_NS;
}

/* ---- reads for others ---- */

static void on_cold(void *arg, const struct mob_gcs_cold_get *query, const struct mob_gcs_group_key *groups,
    uint32_t group_count)
{
    struct flusher *f = arg;
    enum mob_status status = cold_pool_ask(f->pool, query, groups, group_count);
    if (status == MOB_OK)
        return;
    struct mob_gcs_cold_answer answer = {.tag = query->get.tag, .status = status};
    enum mob_status sent = mob_gcs_cold_answer(f->control, &answer);
    (void)sent; /* the link is gone: it is asked again */
}

static void send_answer(void *arg, const struct mob_gcs_cold_answer *answer)
{
    struct flusher *f = arg;
    enum mob_status status = mob_gcs_cold_answer(f->control, answer);
    if (status == MOB_OK || status == MOB_CLOSED)
        return;
    struct mob_gcs_cold_answer refusal = {.tag = answer->tag, .status = status};
    status = mob_gcs_cold_answer(f->control, &refusal);
    if (status != MOB_OK)
        MOB_LOG_WARN("flush", "not_answered", "status=%s", mob_status_code(status));
}

/* ---- the loop ---- */

static bool stream_has_room(const struct flusher *f)
{
    return f->gathered_bytes < GATHERED_BATCHES_MAX * f->options.batch_bytes;
}

static int64_t next_time(const struct flusher *f)
{
    if (f->state == SESSION_NONE && !f->busy && !f->flushing && !f->asking && mob_gcs_connected(f->control))
        return f->retry_ns;
    int64_t next = MOB_FOREVER_NS;
    if (f->state == SESSION_RUNS && f->open != NULL)
        next = f->open->opened_ns + f->options.delay_ns;
    if (f->state == SESSION_RUNS && !f->busy)
        next = earlier(next, f->maintain_ns);
    if (some_not_seen(f) && !f->looking)
        next = earlier(next, f->seen_ns + QUIET_NS);
    return next;
}

/* One pass. Answers of threads come before what they allow; what was submitted is sent before the sleep. */
static bool pass(struct flusher *f)
{
    (void)mob_gcs_step(f->control, mob_now());
    bool room = stream_has_room(f);
    if (room)
        (void)mob_gcs_step(f->stream, mob_now());
    job_ended(f);
    cold_pool_answers(f->pool, send_answer, f);
    begin_session(f);
    if (some_not_seen(f))
        look_for_newest(f);
    give_batch(f);
    int64_t next = earlier(flush_what_must(f), next_time(f));
    next = earlier(next, mob_gcs_send(f->control));
    if (room)
        next = earlier(next, mob_gcs_send(f->stream));
    if (f->refused != MOB_OK)
        return false;
    struct pollfd p[] = {{.fd = mob_gcs_fd(f->control), .events = POLLIN},
        {.fd = stream_has_room(f) ? mob_gcs_fd(f->stream) : -1, .events = POLLIN},
        {.fd = f->event_fd, .events = POLLIN},
        {.fd = f->options.stop_fd == NULL ? -1 : *f->options.stop_fd, .events = POLLIN}};
    int64_t now = mob_now(), ms = next <= now ? 0 : (next - now) / MOB_MS + 1;
    poll(p, 4, ms > INT32_MAX / 2 ? -1 : (int)ms);
    uint64_t events;
    ssize_t n = read(f->event_fd, &events, sizeof events); /* without blocking */
    (void)n;
    return (p[3].revents & POLLIN) == 0;
}

static enum mob_status start(struct flusher *f)
{
    const struct mob_flusher_options *o = &f->options;
    f->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->event_fd < 0)
        return MOB_IO;
    struct mob_gcs_options gcs = {.socket_path = o->gcs_socket,
        .cluster = o->cluster,
        .secret = o->secret,
        .shard = o->shard,
        .on_link = on_link,
        .arg = f};
    enum mob_status status = mob_gcs_create(&gcs, &f->control);
    if (status == MOB_OK)
        status = mob_gcs_create(&gcs, &f->stream);
    if (status == MOB_OK)
        status = flush_thread_start(&(struct flush_thread_options){o->database, o->cluster, o->secret,
                                        o->shard, o->gcs_socket, o->all_shards, o->retention_s, f->event_fd},
            &f->thread);
    if (status == MOB_OK)
        status = cold_pool_start(&(struct cold_pool_options){o->database, o->shard, f->event_fd}, &f->pool);
    if (status == MOB_OK)
        mob_gcs_cold_serve(f->control, on_cold, f);
    return status;
}

/* False: a thread waits for PostgreSQL, so nothing that it uses may go. */
static bool stop(struct flusher *f)
{
    bool clean = f->pool == NULL || cold_pool_stop(f->pool, STOP_NS);
    clean = (f->thread == NULL || flush_thread_stop(f->thread, STOP_NS)) && clean;
    mob_gcs_destroy(f->control);
    mob_gcs_destroy(f->stream);
    if (!clean)
        return false;
    if (f->busy && f->job.kind == FLUSH_JOB_WRITE)
        flush_batch_destroy(f->job.batch);
    else if (f->busy)
        free(f->job.ends);
    destroy_batches(f);
    marks_clear(&f->marks);
    close(f->event_fd);
    return true;
}

enum mob_status mob_flusher_run(const struct mob_flusher_options *options, bool *clean_out)
{
    struct flusher *f = calloc(1, sizeof *f);
    *clean_out = true;
    if (f == NULL)
        return MOB_NO_MEMORY;
    f->options = *options;
    f->pause_ns = PAUSE_MIN_NS;
    f->maintain_ns = mob_now(); /* before anything is written: from then on deletions of jobs are noted */
    enum mob_status status = start(f);
    while (status == MOB_OK && pass(f))
        continue;
    if (status == MOB_OK)
        status = f->refused;
    *clean_out = stop(f);
    if (*clean_out)
        free(f); /* else a thread that still waits for PostgreSQL uses it until the process ends */
    return status; /* NOLINT(clang-analyzer-unix.Malloc): see above */
}
