/* When an entry is committed and when it is durable, and the rewriting of the append-only file.
 *
 *   everysec  committed when Redis answered;
 *             durable when the files were synced after that: each second, or each 32 MiB
 *   always    both when synced; one sync serves all passes that were answered before it began
 *   no        both when Redis answered
 */
#include "gcs/shard/shard_internal.h"

#include <poll.h>
#include <stdlib.h>

#include "common/base/failpoint.h"

#define MEASURE_ONLY UINT64_MAX
#define CANNOT_WRITE_PAUSE_NS (200 * MOB_MS)
#define SLOW_SYNC_NS (2 * MOB_SEC)
#define REWRITE_CHECK_NS MOB_SEC
#define REWRITE_AGAIN_NS (5 * MOB_SEC) /* while the last one may still run */

enum mob_status durable_open(struct mob_shard *sh)
{
    return mob_aof_sync_create(sh->options.aof_directory, &sh->durable.sync);
}

void durable_fini(struct mob_shard *sh)
{
    mob_aof_sync_destroy(sh->durable.sync);
}

enum mob_status durable_before_serving(struct mob_shard *sh, redisContext *context)
{
    if (sh->options.durability == MOB_GCS_NO)
        return MOB_OK;
    redisReply *reply = redisCommand(context, "INFO persistence");
    bool whole = reply != NULL && reply->type == REDIS_REPLY_STRING &&
        strstr(reply->str, "aof_last_write_status:ok") != NULL;
    if (reply != NULL)
        freeReplyObject(reply);
    if (!whole)
        return MOB_UNAVAILABLE;
    struct mob_aof_sync *sync = sh->durable.sync;
    struct mob_aof_sync_result result;
    MOB_ASSERT(!sh->durable.busy);
    if (!mob_aof_sync_request(sync, 0))
        return MOB_UNAVAILABLE;
    while (!mob_aof_sync_result(sync, &result)) {
        struct pollfd ready = {.fd = mob_aof_sync_fd(sync), .events = POLLIN};
        poll(&ready, 1, -1);
    }
    sh->durable.syncs++;
    return result.status;
}

void durable_stored(struct mob_shard *sh, size_t bytes)
{
    sh->durable.unsynced_bytes += bytes;
    mob_chain_on_stored(sh->chain, sh->store.stored);
    if (sh->options.durability == MOB_GCS_NO)
        mob_chain_on_durable(sh->chain, sh->store.stored);
}

/* Redis answers also when it could not write its file (a full disk), keeps the rest in memory and says so in
 * INFO. So what was answered before this INFO was sent is in the file if the last write went well when it is
 * answered. */
static void on_persistence(void *arg, const redisReply *reply, uint32_t index)
{
    (void)index;
    struct mob_shard *sh = arg;
    sh->durable.file_is_whole =
        reply->type == REDIS_REPLY_STRING && strstr(reply->str, "aof_last_write_status:ok") != NULL;
    const char *size = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "aof_current_size:") : NULL;
    if (size != NULL)
        sh->durable.aof_bytes = strtoull(size + 17, NULL, 10);
    sh->durable.cannot_write = !sh->durable.file_is_whole;
    if (sh->durable.cannot_write)
        MOB_LOG_ERROR("gcs", "redis_cannot_write", "directory=%s durable=%llu", sh->options.aof_directory,
            (unsigned long long)mob_chain_durable(sh->chain));
}

static void on_persistence_done(void *arg, struct mob_redis_batch *batch, enum mob_status status)
{
    struct mob_shard *sh = arg;
    struct mob_durable *d = &sh->durable;
    d->last_ns = sh->now_ns;
    bool sync = status == MOB_OK && d->file_is_whole && batch->seq != MEASURE_ONLY;
    if (!sync || !mob_aof_sync_request(d->sync, batch->seq))
        d->busy = false; /* durable_step asks again */
}

static void request_sync(struct mob_shard *sh, uint64_t seq)
{
    struct mob_durable *d = &sh->durable;
    if (d->busy || sh->store.link == NULL)
        return;
    struct mob_redis_batch *b = mob_redis_batch_create();
    b->arg = sh;
    b->reply = on_persistence;
    b->done = on_persistence_done;
    b->seq = seq;
    mob_redis_command(b, 2);
    mob_redis_arg(b, "INFO", 4);
    mob_redis_arg(b, "persistence", 11);
    mob_redis_submit(sh->store.link, b);
    d->busy = true;
    d->asked_passes = sh->store.stored_passes;
    d->file_is_whole = false;
    d->unsynced_bytes = 0;
    d->last_ns = sh->now_ns;
}

void durable_result(struct mob_shard *sh)
{
    struct mob_durable *d = &sh->durable;
    struct mob_aof_sync_result result;
    if (!mob_aof_sync_result(d->sync, &result))
        return;
    d->busy = false;
    d->syncs++;
    bool counts = !d->void_sync;
    d->void_sync = false;
    if (result.status != MOB_OK) {
        /* What the kernel dropped after a failed sync it will call clean in the next one: believe nothing,
         * restart. */
        sh->failure = result.status;
        return;
    }
    (void)MOB_FAILPOINT("gcs.after_sync");
    if (result.took_ns > SLOW_SYNC_NS)
        MOB_LOG_WARN("gcs", "sync_slow", "ms=%lld kept_bytes=%zu", (long long)(result.took_ns / MOB_MS),
            sh->chunks.live_bytes);
    d->synced_passes = d->asked_passes;
    if (counts && result.seq > d->synced)
        d->synced = result.seq;
    if (sh->options.durability != MOB_GCS_NO)
        mob_chain_on_durable(sh->chain, d->synced);
}

/* ---- rewriting. Redis starts a new file at its fork; the old one must be whole on disk before, or a power
 * cut would leave a torn file that is not the last, which Redis refuses to load. So: no pass under way, sync,
 * ask, go on ---- */

static void rewrite_reply(void *arg, const redisReply *reply, uint32_t index)
{
    (void)index;
    struct mob_shard *sh = arg;
    MOB_LOG_INFO("gcs", "rewrite", "answer=%s aof_bytes=%llu", reply->str == NULL ? "" : reply->str,
        (unsigned long long)sh->durable.aof_bytes);
}

static void rewrite_done(void *arg, struct mob_redis_batch *batch, enum mob_status status)
{
    (void)batch;
    struct mob_shard *sh = arg;
    sh->durable.rewrites += status == MOB_OK;
    sh->durable.rewrite_check_ns = sh->now_ns + REWRITE_AGAIN_NS;
    sh->durable.rewrite = REWRITE_NONE;
    sh->store.hold = false;
}

static bool worth_rewriting(const struct mob_shard *sh)
{
    struct mob_index_figures f;
    mob_index_figures(sh->index, &f);
    /* About what a rewritten file has; the measured figure is up to a second old. */
    bool memory_is_old = sh->durable.wiped || sh->store.used_memory < f.block_bytes;
    uint64_t live = memory_is_old ? f.block_bytes : sh->store.used_memory;
    return sh->durable.aof_bytes > sh->options.rewrite_bytes &&
        sh->durable.aof_bytes > 2 * live + sh->options.rewrite_bytes / 2;
}

static void rewrite_step(struct mob_shard *sh)
{
    struct mob_durable *d = &sh->durable;
    struct mob_store *st = &sh->store;
    switch (d->rewrite) {
    case REWRITE_NONE:
        /* Before a joiner's rows come: later the same takes a fork of all of them, and writes them twice. */
        if (st->link == NULL || (d->wiped ? d->aof_bytes == 0 : sh->now_ns < d->rewrite_check_ns))
            return;
        d->rewrite_check_ns = sh->now_ns + REWRITE_CHECK_NS;
        if (sh->options.durability == MOB_GCS_NO && d->unsynced_bytes > 0)
            request_sync(sh, MEASURE_ONLY);
        bool worth = worth_rewriting(sh);
        d->wiped = false;
        if (!worth)
            return;
        st->hold = true;
        d->rewrite = REWRITE_DRAIN;
        return;
    case REWRITE_DRAIN:
        if (st->passes == 0 && !d->busy) {
            d->rewrite = REWRITE_SYNC;
            request_sync(sh, st->stored); /* were it to fail: durable_step asks again */
        }
        return;
    case REWRITE_SYNC:
        if (d->busy || d->synced < st->stored)
            return;
        (void)MOB_FAILPOINT("gcs.before_rewrite");
        struct mob_redis_batch *b = mob_redis_batch_create();
        b->arg = sh;
        b->reply = rewrite_reply;
        b->done = rewrite_done;
        mob_redis_command(b, 1);
        mob_redis_arg(b, "BGREWRITEAOF", 12);
        mob_redis_submit(st->link, b);
        d->rewrite = REWRITE_ASK;
        return;
    case REWRITE_ASK:
        return;
    }
}

int64_t durable_pause(const struct mob_shard *sh)
{
    return sh->pressure ? PRESSURE_PAUSE_NS : MOB_SEC;
}

void durable_step(struct mob_shard *sh)
{
    struct mob_durable *d = &sh->durable;
    rewrite_step(sh);
    bool life_waits =
        sh->member.life_pass > d->synced_passes && sh->member.life_pass <= sh->store.stored_passes;
    if (d->busy || (d->synced >= sh->store.stored && !life_waits))
        return;
    bool wanted = sh->options.durability != MOB_GCS_NO || sh->stopping || d->rewrite == REWRITE_SYNC;
    bool at_once = sh->options.durability == MOB_GCS_ALWAYS || sh->stopping || d->rewrite == REWRITE_SYNC ||
        d->unsynced_bytes >= SYNC_BYTES || life_waits || mob_chain_start_waits(sh->chain);
    /* A file that cannot be written is not asked for in a loop. */
    int64_t pause = !at_once ? durable_pause(sh) : d->file_is_whole ? 0 : CANNOT_WRITE_PAUSE_NS;
    if (wanted && sh->now_ns >= d->last_ns + pause)
        request_sync(sh, sh->store.stored);
}
