#include "gcs/shard/noted.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gcs/chain/incarnation.h"
#include "gcs/shard/shard_internal.h"

/* Positions that are given out before the note is written again: hours of the highest rate. */
#define SEQS_AT_ONCE (1ull << 28)
#define REFRESH_NS (10 * MOB_SEC)
/* Incarnations that may have come since the note was brought up to date. */
#define LOGS_UNTOLD 256u

/* Nor is it written over, though Redis may have all: what it says cannot be read. */
static enum mob_status refuse_version(const struct mob_shard *sh)
{
    char text[MOB_STORE_NOTE_TEXT_MAX];
    uint32_t found = mob_store_note_unknown(sh->noted.note);
    mob_store_note_version_refusal(found, text);
    MOB_LOG_ERROR("gcs", "note_version_unknown",
        "file=\"%s" MOB_STORE_NOTE_SUFFIX "\" found=%" PRIu32 " known=%d why=\"%s\"", sh->options.socket_path,
        found, MOB_STORE_NOTE_VERSION, text);
    return MOB_VERSION;
}

enum mob_status noted_open(struct mob_shard *sh)
{
    struct mob_noted *n = &sh->noted;
    enum mob_status status = mob_store_note_open(sh->options.socket_path, &n->note);
    if (status != MOB_OK)
        return status;
    status = mob_store_note_read(n->note, &n->facts);
    if (status == MOB_VERSION)
        return refuse_version(sh);
    bool ours = memcmp(&n->facts.cluster, &sh->options.cluster, sizeof n->facts.cluster) == 0 &&
        n->facts.shard == sh->options.shard;
    n->known = status == MOB_OK && ours;
    n->unreadable = status == MOB_CORRUPT;
    if (status == MOB_OK && !ours)
        MOB_LOG_WARN("gcs", "note_of_another",
            "shard=%" PRIu64 " why=\"a store of another cluster was here\"", n->facts.shard);
    return status == MOB_IO ? MOB_IO : MOB_OK;
}

static struct mob_store_facts facts_now(const struct mob_shard *sh)
{
    const struct mob_noted *n = &sh->noted;
    struct mob_index_figures f;
    uint64_t newest_log = mob_state_incarnation_last(sh->state);
    mob_index_figures(sh->index, &f);
    if (n->known && n->facts.newest_log > newest_log) /* which was lost */
        newest_log = n->facts.newest_log;
    return (struct mob_store_facts){.cluster = sh->options.cluster,
        .shard = sh->options.shard,
        .epoch = mob_chain_epoch(sh->chain),
        .seq = mob_chain_durable(sh->chain),
        .seq_limit = n->known ? n->facts.seq_limit : 0,
        .watermark = sh->watermark,
        .blocks = f.blocks,
        .keys = mob_state_keys(sh->state),
        .clients = mob_chain_clients(sh->chain),
        .logs = mob_state_incarnations(sh->state),
        .newest_log = newest_log,
        .wall_ns = mob_wall_now()};
}

static enum mob_status write_note(struct mob_shard *sh, const struct mob_store_facts *facts, bool synced)
{
    struct mob_noted *n = &sh->noted;
    enum mob_status status = mob_store_note_write(n->note, facts, synced);
    if (status == MOB_OK) {
        n->facts = *facts;
        n->known = true;
    }
    return status;
}

/* ---- a Redis that comes back empty ---- */

static enum mob_status refuse(struct mob_shard *sh)
{
    struct mob_store_facts facts = sh->noted.facts;
    char text[MOB_STORE_NOTE_TEXT_MAX];
    mob_store_note_refusal(&facts, text);
    MOB_LOG_ERROR("gcs", "store_is_empty",
        "epoch=%" PRIu64 " seq=%" PRIu64 " blocks=%" PRIu64 " keys=%" PRIu64 " clients=%" PRIu64
        " logs=%" PRIu64 " newest_log=%" PRIu64 " why=\"%s\"",
        facts.epoch, facts.seq, facts.blocks, facts.keys, facts.clients, facts.logs, facts.newest_log, text);
    if (facts.refused_wall_ns == 0) {
        facts.refused_wall_ns = mob_wall_now();
        if (write_note(sh, &facts, false) != MOB_OK)
            MOB_LOG_WARN("gcs", "refusal_not_noted", "hint=\"mobula gcs status will not know of it\"");
    }
    return MOB_LOST_UNCOMMITTED;
}

/* As a LOSS entry has it (GCS.md 8). */
static size_t loss_row(const struct mob_store_facts *was, uint64_t seq, char *out, size_t capacity)
{
    int length = snprintf(out, capacity,
        "{\"kind\":\"store\",\"epoch\":%" PRIu64 ",\"seq\":%" PRIu64 ",\"to_seq\":%" PRIu64
        ",\"blocks\":%" PRIu64 ",\"keys\":%" PRIu64 ",\"clients\":%" PRIu64 ",\"logs\":%" PRIu64
        ",\"newest_log\":%" PRIu64 ",\"known_wall_ns\":%" PRId64 ",\"wall_ns\":%" PRId64 "}",
        was->epoch, was->seq, seq, was->blocks, was->keys, was->clients, was->logs, was->newest_log,
        was->wall_ns, mob_wall_now());
    MOB_ASSERT(length > 0 && (size_t)length < capacity);
    return (size_t)length;
}

/* One command, so that Redis has all of it or nothing. */
static enum mob_status write_beginning(
    redisContext *context, const struct redis_state *redis, const char *loss, size_t loss_bytes)
{
    uint8_t key[2 + 8] = {'k', MOB_GCS_LOSSES}, value[8 + 512];
    MOB_ASSERT(loss_bytes <= sizeof value - 8);
    mob_redis_key_number(key + 2, redis->position.seq); /* so that LIST gives them in order */
    memcpy(value, &redis->position.seq, 8);
    memcpy(value + 8, loss, loss_bytes);
    const char *argv[] = {"MSET", "s", (const char *)&redis->position, "m", (const char *)&redis->meta,
        (const char *)key, (const char *)value, "f", (const char *)&redis->flushed};
    const size_t lengths[] = {4, 1, sizeof redis->position, 1, sizeof redis->meta, sizeof key, 8 + loss_bytes,
        1, sizeof redis->flushed};
    redisReply *reply = redisCommandArgv(context, redis->flushed != 0 ? 9 : 7, argv, lengths);
    bool written = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    return written ? MOB_OK : MOB_UNAVAILABLE;
}

/* An epoch has room for some incarnations and may have given out more, up to those of later ones. */
static uint64_t epoch_behind(const struct mob_store_facts *was)
{
    uint64_t epoch = mob_chain_epoch_above(was->newest_log + LOGS_UNTOLD);
    return epoch > was->epoch ? epoch : was->epoch + 1;
}

/* No id and no position of before is given out again: those who have one would be taken for others, and a
 * database would take new blocks for those that it has. What it has stays readable, if there is one. */
static enum mob_status begin_anew(struct mob_shard *sh, redisContext *context, struct redis_state *redis)
{
    const struct mob_store_facts *was = &sh->noted.facts;
    char loss[512];
    size_t loss_bytes = loss_row(was, was->seq_limit, loss, sizeof loss);
    redis->position = (struct mob_redis_position){epoch_behind(was), was->seq_limit};
    redis->meta =
        (struct mob_redis_meta){.base_count = 1, .bases[0] = {.epoch = redis->position.epoch, .seq = 0}};
    memcpy(redis->meta.run_id, redis->run_id, sizeof redis->meta.run_id);
    redis->flushed = was->watermark != 0 ? was->seq_limit : 0;
    enum mob_status status = write_beginning(context, redis, loss, loss_bytes);
    if (status != MOB_OK)
        return status;
    redis->has_position = redis->has_meta = redis->same_redis = true;
    MOB_LOG_ERROR("gcs", "store_lost", "what=%s why=\"gcs-start-without-all\"", loss);
    return MOB_OK;
}

enum mob_status noted_settle(struct mob_shard *sh, redisContext *context, struct redis_state *redis)
{
    struct mob_noted *n = &sh->noted;
    const struct mob_store_facts *was = &n->facts;
    bool empty = !redis->has_meta && !redis->has_position;
    if (empty && n->unreadable) {
        MOB_LOG_ERROR("gcs", "note_unreadable",
            "file=\"%s" MOB_STORE_NOTE_SUFFIX
            "\" why=\"Redis has nothing, and whether it had something cannot be "
            "read\" hint=\"put back the files of Redis; or, for a new store, remove this one\"",
            sh->options.socket_path);
        return MOB_CORRUPT;
    }
    if (!n->known)
        return MOB_OK;
    if (empty)
        return sh->options.start_without_all ? begin_anew(sh, context, redis) : refuse(sh);
    redis->older = was->epoch > redis->position.epoch || was->seq > redis->position.seq;
    bool asks = redis->older && !redis->same_redis; /* its clients, and has the next epoch then */
    uint64_t least = asks ? epoch_behind(was) - 1 : was->epoch;
    if (redis->position.epoch < least && !shard_has_masters(sh))
        redis->position.epoch = least;
    return MOB_OK;
}

/* ---- what the note says ---- */

enum mob_status noted_serves(struct mob_shard *sh)
{
    struct mob_noted *n = &sh->noted;
    if (shard_has_masters(sh))
        return mob_store_note_remove(n->note);
    if (!n->known || n->facts.refused_wall_ns == 0)
        return MOB_OK;
    struct mob_store_facts facts = n->facts;
    facts.refused_wall_ns = 0;
    return write_note(sh, &facts, false);
}

/* There is a database, and the note does not say so yet. */
static bool keeps_quiet_of_database(const struct mob_shard *sh)
{
    return sh->watermark != 0 && sh->noted.facts.watermark == 0;
}

bool noted_before(struct mob_shard *sh, uint64_t seq)
{
    struct mob_noted *n = &sh->noted;
    if (shard_has_masters(sh) || seq == 0)
        return true;
    bool covered = n->known && n->facts.epoch == mob_chain_epoch(sh->chain) && seq <= n->facts.seq_limit;
    if (covered && (n->of_this_life || mob_chain_collecting(sh->chain)))
        return true;
    struct mob_store_facts facts = facts_now(sh);
    if (facts.seq_limit < seq)
        facts.seq_limit = seq + SEQS_AT_ONCE;
    enum mob_status status = write_note(sh, &facts, true);
    n->of_this_life = true;
    n->refresh_ns = sh->now_ns + MOB_SEC;
    if (status == MOB_OK)
        return true;
    MOB_LOG_ERROR("gcs", "note_not_written", "file=\"%s" MOB_STORE_NOTE_SUFFIX "\" goes_on=%d",
        sh->options.socket_path, covered);
    if (!covered)
        sh->failure = status;
    return covered;
}

/* Not synced: a machine that loses its power may know less then. */
void noted_tick(struct mob_shard *sh)
{
    struct mob_noted *n = &sh->noted;
    bool due = sh->now_ns >= n->refresh_ns && n->facts.seq != mob_chain_durable(sh->chain);
    if (!n->of_this_life || !n->known || mob_chain_collecting(sh->chain) ||
        !(due || keeps_quiet_of_database(sh)))
        return;
    struct mob_store_facts facts = facts_now(sh);
    n->refresh_ns = sh->now_ns + REFRESH_NS;
    if (facts.epoch == n->facts.epoch)
        (void)!write_note(sh, &facts, false);
}

void noted_at_stop(struct mob_shard *sh)
{
    if (shard_has_masters(sh) || !sh->noted.known)
        return;
    struct mob_store_facts facts = facts_now(sh);
    if (write_note(sh, &facts, true) != MOB_OK)
        MOB_LOG_WARN("gcs", "note_not_written", "file=\"%s" MOB_STORE_NOTE_SUFFIX "\" goes_on=1",
            sh->options.socket_path);
}

void noted_fini(struct mob_shard *sh)
{
    mob_store_note_destroy(sh->noted.note);
    sh->noted.note = NULL;
}
