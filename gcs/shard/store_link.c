/* The member's connection to Redis: taking over what it holds, going on after its death, reads, and its
 * memory figure. */
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "common/base/log_value.h"

#define RETRY_PAUSE_NS (10 * MOB_MS)
#define RETRY_PAUSE_MAX_NS (500 * MOB_MS)
/* A pass of a store that nobody waits for may take more requests in for so long, and to so many bytes: one
 * command and one wake of Redis for all of them, on cores that those who are waited for need. */
#define GATHER_NS (500 * MOB_US)
#define GATHER_BYTES_MAX (64u << 10)
#define SHARED_BYTES_MAX (16u << 10) /* more is a pass of its own, beside those under way */

static void link_down(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    /* Who may end need not know what the next Redis has. */
    if (member_is_spare(sh) && !sh->stopping && sh->failure == MOB_OK)
        sh->failure = MOB_UNAVAILABLE;
    epoll_ctl(sh->epoll_fd, EPOLL_CTL_DEL, mob_redis_fd(st->link), NULL);
    struct mob_redis_link *link = st->link;
    st->link = NULL; /* first: a read that was half answered runs again at once */
    struct mob_redis_batch *kept = mob_redis_link_destroy(link);
    struct mob_redis_batch **tail = &st->kept_reads;
    while (*tail != NULL)
        tail = &(*tail)->next;
    *tail = kept;
    store_drop_unsent(sh);
    st->hold = st->broken = false;
    st->retry_pause_ns = RETRY_PAUSE_NS;
    if (st->retry_ns < sh->now_ns)
        st->retry_ns = sh->now_ns;
    sh->durable.rewrite = REWRITE_NONE;
    MOB_LOG_WARN("gcs", "redis_down", "committed=%llu applied=%llu",
        (unsigned long long)mob_chain_committed(sh->chain), (unsigned long long)mob_chain_applied(sh->chain));
}

/* Only the tail's clients wait for its store (GCS.md, 2); of the others it only says what they may forget.
 * But a store that is asked for something else is waited for. */
static bool only_told(const struct mob_shard *sh)
{
    if (!shard_has_masters(sh) || mob_chain_state(sh->chain) != MOB_CHAIN_SERVING ||
        mob_chain_is_tail(sh->chain) || sh->options.durability == MOB_GCS_ALWAYS || sh->stopping)
        return false;
    return sh->queries == NULL && !sh->durable.busy && sh->durable.rewrite == REWRITE_NONE &&
        sh->member.life_pass <= sh->store.stored_passes;
}

int64_t store_gathers_until(const struct mob_shard *sh)
{
    const struct mob_store *st = &sh->store;
    bool may_leave = st->link != NULL && st->passes < PASSES_MAX; /* else its time is of no use */
    bool gathers = may_leave && st->open != NULL && store_open_bytes(sh) < GATHER_BYTES_MAX && only_told(sh);
    return gathers ? st->open_ns + GATHER_NS : 0;
}

/* Who is waited for sends at once what is alone, and behind a pass that is under way what has come until its
 * answer: each pass is a command and a wake of Redis, of which a few entries each would be most of its work
 * (docs/performance.md, "gcs_ops"). */
bool store_pass_waits(const struct mob_shard *sh)
{
    const struct mob_store *st = &sh->store;
    if (only_told(sh))
        return sh->now_ns < store_gathers_until(sh);
    return st->passes > 0 && store_open_bytes(sh) < SHARED_BYTES_MAX;
}

/* A store that takes no more passes is waited for, too. */
static bool nobody_waits(const struct mob_shard *sh)
{
    const struct mob_store *st = &sh->store;
    return only_told(sh) && st->passes < (st->unwatched ? PASSES_MAX : 1u);
}

static void watch(struct mob_shard *sh, bool want_write, bool unwatched)
{
    struct mob_store *st = &sh->store;
    if (want_write == st->want_write && unwatched == st->unwatched)
        return;
    st->want_write = want_write;
    st->unwatched = unwatched;
    struct epoll_event event = {
        .events = (unwatched ? 0u : EPOLLIN) | (want_write ? EPOLLOUT : 0u), .data.ptr = st};
    epoll_ctl(sh->epoll_fd, EPOLL_CTL_MOD, mob_redis_fd(st->link), &event);
}

void store_io(struct mob_shard *sh, bool readable)
{
    struct mob_store *st = &sh->store;
    if (st->link == NULL || !(readable || st->broken || mob_redis_unsent(st->link)))
        return;
    bool want_write = false;
    enum mob_status status = mob_redis_io(st->link, readable, &want_write);
    if (status != MOB_OK || st->broken) {
        link_down(sh);
        return;
    }
    watch(sh, want_write, nobody_waits(sh));
}

bool store_answers_wait(const struct mob_shard *sh)
{
    const struct mob_store *st = &sh->store;
    return st->link != NULL && st->unwatched && mob_redis_link_batches(st->link) != NULL;
}

void store_read(struct mob_shard *sh, struct mob_redis_batch *batch)
{
    struct mob_store *st = &sh->store;
    batch->keep = true;
    if (st->link != NULL) {
        mob_redis_submit(st->link, batch);
        return;
    }
    batch->next = NULL;
    struct mob_redis_batch **tail = &st->kept_reads;
    while (*tail != NULL)
        tail = &(*tail)->next;
    *tail = batch;
}

/* ---- connecting ---- */

static enum mob_status get_bytes(
    redisContext *context, const char *key, void *out, size_t length, bool *found)
{
    redisReply *reply = redisCommand(context, "GET %s", key);
    if (reply == NULL)
        return MOB_UNAVAILABLE;
    enum mob_status status = MOB_OK;
    *found = reply->type == REDIS_REPLY_STRING;
    if (*found && (size_t)reply->len == length)
        memcpy(out, reply->str, length);
    else if (reply->type != REDIS_REPLY_NIL)
        status = MOB_CORRUPT;
    freeReplyObject(reply);
    return status;
}

/* Said in a command of its own, before anything is appended: a Redis with the permissions of a version that
 * knows no journal skips each command and each EXEC that appends when it loads its file, and that version
 * must see at least this. */
static enum mob_status set_format(redisContext *context)
{
    redisReply *reply = redisCommand(context, "SET format %s", MOB_REDIS_FORMAT);
    enum mob_status status = reply != NULL && reply->type == REDIS_REPLY_STATUS ? MOB_OK : MOB_UNAVAILABLE;
    freeReplyObject(reply);
    return status;
}

static enum mob_status check_format(redisContext *context)
{
    redisReply *reply = redisCommand(context, "GET format");
    if (reply == NULL)
        return MOB_UNAVAILABLE;
    bool none = reply->type == REDIS_REPLY_NIL;
    const char *found = reply->type == REDIS_REPLY_STRING ? reply->str : "";
    bool present = strcmp(found, MOB_REDIS_FORMAT) == 0;
    bool older =
        strcmp(found, MOB_REDIS_FORMAT_FLUSHED) == 0 || strcmp(found, MOB_REDIS_FORMAT_UNFLUSHED) == 0;
    if (!none && !present && !older)
        MOB_LOG_ERROR(
            "gcs", "format_unknown", "found=\"%s\" known=\"%s\"", MOB_LOG_VALUE(found), MOB_REDIS_FORMAT);
    freeReplyObject(reply);
    if (present)
        return MOB_OK;
    return none || older ? set_format(context) : MOB_VERSION;
}

static enum mob_status get_run_id(redisContext *context, char out[MOB_REDIS_RUN_ID_BYTES])
{
    redisReply *reply = redisCommand(context, "INFO server");
    if (reply == NULL || reply->type != REDIS_REPLY_STRING) {
        if (reply != NULL)
            freeReplyObject(reply);
        return MOB_UNAVAILABLE;
    }
    const char *at = strstr(reply->str, "run_id:");
    bool found = at != NULL && strlen(at) >= 7 + MOB_REDIS_RUN_ID_BYTES;
    if (found)
        memcpy(out, at + 7, MOB_REDIS_RUN_ID_BYTES);
    freeReplyObject(reply);
    return found ? MOB_OK : MOB_CORRUPT;
}

/* How far Redis is: by the rows, or by the journal, whichever was written later. */
static enum mob_status get_position(
    struct mob_shard *sh, redisContext *context, struct mob_redis_position *out, bool *found)
{
    const struct mob_redis_position *journal = &sh->store.journal.position;
    enum mob_status status = get_bytes(context, "s", out, sizeof *out, found);
    if (status == MOB_OK)
        status = journal_read(sh, context);
    if (status != MOB_OK || sh->store.journal.touched.count == 0)
        return status;
    if (!*found || journal->seq > out->seq || (journal->seq == out->seq && journal->epoch > out->epoch))
        *out = *journal;
    *found = true;
    return MOB_OK;
}

static enum mob_status get_state(struct mob_shard *sh, redisContext *context, struct redis_state *out)
{
    bool has_flushed;
    *out = (struct redis_state){.position = {.epoch = 1}};
    enum mob_status status = check_format(context);
    if (status == MOB_OK)
        status = get_position(sh, context, &out->position, &out->has_position);
    if (status == MOB_OK)
        status = get_bytes(context, "m", &out->meta, sizeof out->meta, &out->has_meta);
    if (status == MOB_OK)
        status = get_bytes(context, "f", &out->flushed, sizeof out->flushed, &has_flushed);
    if (status == MOB_OK)
        status = get_run_id(context, out->run_id);
    out->same_redis =
        status == MOB_OK && out->has_meta && memcmp(out->meta.run_id, out->run_id, sizeof out->run_id) == 0;
    return status;
}

/* Something that was answered may be missing, and no other member has it. It cannot in a fresh store, after a
 * clean stop, unless the file is one of before that, and in the Redis that held it all along. */
static bool may_lack(const struct mob_shard *sh, const struct redis_state *redis)
{
    bool fresh = !redis->has_position && !sh->noted.known;
    bool lossless = fresh || redis->same_redis || (redis->meta.clean == 1 && !redis->older);
    return !lossless && !shard_has_masters(sh);
}

static enum mob_status load_tables(
    struct mob_shard *sh, redisContext *context, const struct redis_state *redis)
{
    struct mob_store *st = &sh->store;
    uint64_t seq = redis->position.seq, epoch = redis->position.epoch;
    st->open_epoch = epoch;
    mob_chain_load_position(sh->chain, shard_has_masters(sh) ? sh->member.life.part_epoch : epoch, seq);
    st->stored = sh->durable.synced = sh->indexed = sh->taken = seq;
    flushed_load_position(sh, redis->flushed);
    enum mob_status status = load_all(sh, context);
    if (status != MOB_OK)
        return status;
    mob_index_loaded(sh->index, seq);
    if (may_lack(sh, redis))
        mob_chain_collect_begin(sh->chain);
    return MOB_OK;
}

/* Before anything is served, and so on the disk before anything that is answered: that it runs. Until it has
 * collected it does not say with which Redis, which a next life would take for one that held all. */
static enum mob_status begin_meta(
    struct mob_shard *sh, redisContext *context, const struct redis_state *redis)
{
    struct mob_redis_meta *m = &sh->store.meta;
    sh->clean_before = redis->meta.clean;
    *m = redis->meta;
    m->clean = sh->life;
    memset(m->run_id, 0, sizeof m->run_id);
    if (!may_lack(sh, redis))
        memcpy(m->run_id, redis->run_id, sizeof m->run_id);
    redisReply *reply = redisCommand(context, "SET m %b", m, sizeof *m);
    bool written = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    return written ? MOB_OK : MOB_UNAVAILABLE;
}

static enum mob_status begin_with(struct mob_shard *sh, redisContext *context, struct redis_state *redis)
{
    enum mob_status status = noted_settle(sh, context, redis);
    if (status == MOB_OK)
        status = life_begin(sh, context, &redis->position, redis->has_position);
    if (status == MOB_OK)
        status = begin_meta(sh, context, redis);
    if (status == MOB_OK)
        status = durable_before_serving(sh, context); /* the name of this life, too */
    if (status == MOB_OK)
        status = noted_serves(sh);
    if (status == MOB_OK)
        status = shard_tables_create(sh);
    if (status != MOB_OK)
        return status;
    if (!shard_has_masters(sh) || sh->member.life.synced != 0)
        return load_tables(sh, context, redis);
    sh->store.meta.base_count = 0; /* part of a snapshot: worth nothing */
    return MOB_OK;
}

static enum mob_status go_on_with(struct mob_shard *sh, const struct redis_state *redis)
{
    struct mob_store *st = &sh->store;
    st->restarts += !redis->same_redis;
    enum mob_status status = mob_chain_on_store_back(sh->chain, redis->position.seq);
    if (status != MOB_OK) {
        /* Only the clients can have it: as after a restart of this process, so restart it. */
        MOB_LOG_ERROR("gcs", "redis_lost_durable", "redis_seq=%llu durable=%llu applied=%llu",
            (unsigned long long)redis->position.seq, (unsigned long long)mob_chain_durable(sh->chain),
            (unsigned long long)mob_chain_applied(sh->chain));
        sh->failure = status;
        return status;
    }
    if (redis->position.seq > st->stored)
        st->stored = redis->position.seq;
    sh->flushed.stored = redis->flushed;
    st->meta.clean = sh->life;
    if (!mob_chain_collecting(sh->chain))
        memcpy(st->meta.run_id, redis->run_id, sizeof redis->run_id);
    return MOB_OK;
}

/* The first connection loads everything; a later one only learns how far Redis is. */
static enum mob_status take_over(struct mob_shard *sh, redisContext *context, bool first)
{
    struct redis_state redis;
    enum mob_status status = get_state(sh, context, &redis);
    if (status == MOB_OK)
        status = first ? begin_with(sh, context, &redis) : go_on_with(sh, &redis);
    if (status == MOB_OK)
        memcpy(sh->store.run_id, redis.run_id, sizeof redis.run_id);
    return status;
}

enum mob_status store_connect(struct mob_shard *sh, bool first)
{
    struct mob_store *st = &sh->store;
    struct mob_redis_options options = {
        sh->options.redis_path, sh->options.redis_user, sh->options.redis_password};
    redisContext *context;
    enum mob_status status = mob_redis_connect(&options, &context);
    if (status != MOB_OK)
        return status;
    status = take_over(sh, context, first);
    journal_loaded(sh);
    if (status != MOB_OK) {
        redisFree(context);
        return status;
    }
    st->link = mob_redis_link_create(context);
    MOB_ASSERT(st->link != NULL);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = st};
    st->want_write = st->unwatched = false;
    if (epoll_ctl(sh->epoll_fd, EPOLL_CTL_ADD, mob_redis_fd(st->link), &event) != 0)
        return MOB_IO;
    st->open_seq = st->stored;
    if (!first) {
        serve_actions(sh); /* the STOREs of all that it lacks */
        durable_stored(sh, 0); /* what it has and had not answered */
    }
    store_meta(sh);
    for (struct mob_redis_batch *b = st->kept_reads, *next; b != NULL; b = next) {
        next = b->next;
        mob_redis_submit(st->link, b);
    }
    st->kept_reads = NULL;
    MOB_LOG_INFO("gcs", "redis_up", "first=%d epoch=%llu seq=%llu applied=%llu", first,
        (unsigned long long)mob_chain_epoch(sh->chain), (unsigned long long)st->stored,
        (unsigned long long)mob_chain_applied(sh->chain));
    return MOB_OK;
}

/* ---- once a second, and retries ---- */

static void info_reply(void *arg, const redisReply *reply, uint32_t index)
{
    (void)index;
    struct mob_shard *sh = arg;
    if (reply->type != REDIS_REPLY_STRING)
        return;
    const char *at = strstr(reply->str, "used_memory:");
    if (at == NULL)
        return;
    sh->store.used_memory = strtoull(at + 12, NULL, 10);
    shard_measure(sh); /* now: in a second it would be old */
}

static void info_done(void *arg, struct mob_redis_batch *batch, enum mob_status status)
{
    (void)arg;
    (void)batch;
    (void)status;
}

void store_tick(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    if (st->link == NULL && sh->now_ns >= st->retry_ns) {
        enum mob_status status = store_connect(sh, false);
        st->retry_pause_ns *= 2;
        if (st->retry_pause_ns > RETRY_PAUSE_MAX_NS)
            st->retry_pause_ns = RETRY_PAUSE_MAX_NS;
        st->retry_ns = mob_now() + st->retry_pause_ns;
        if (status == MOB_VERSION || status == MOB_DENIED)
            sh->failure = status;
    }
    if (st->link == NULL || sh->now_ns < sh->second_ns)
        return;
    struct mob_redis_batch *info = mob_redis_batch_create();
    info->arg = sh;
    info->reply = info_reply;
    info->done = info_done;
    mob_redis_command(info, 2);
    mob_redis_arg(info, "INFO", 4);
    mob_redis_arg(info, "memory", 6);
    mob_redis_submit(st->link, info);
}

void store_fini(struct mob_shard *sh)
{
    struct mob_store *st = &sh->store;
    if (st->link != NULL)
        link_down(sh);
    for (struct mob_redis_batch *b = st->kept_reads, *next; b != NULL; b = next) {
        next = b->next;
        b->done(b->arg, b, MOB_UNAVAILABLE);
        mob_redis_batch_destroy(b);
    }
    journal_reset(sh);
    free(st->deletes);
}
