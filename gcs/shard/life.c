/* The name of a store, and of each life of it. Both are on its disk before anybody hears of them, so no two
 * members ever have one id; and whether the store holds all that was committed is on its disk before a master
 * counts on it (GCS.md 8). */
#include "gcs/shard/shard_internal.h"

static enum mob_status read_life(redisContext *context, struct mob_redis_life *out, bool *found_out)
{
    redisReply *reply = redisCommand(context, "GET l");
    if (reply == NULL)
        return MOB_UNAVAILABLE;
    enum mob_status status = MOB_OK;
    *found_out = reply->type == REDIS_REPLY_STRING;
    if (*found_out && (size_t)reply->len == sizeof *out)
        memcpy(out, reply->str, sizeof *out);
    else if (reply->type != REDIS_REPLY_NIL)
        status = MOB_CORRUPT;
    freeReplyObject(reply);
    return status;
}

static enum mob_status write_life(redisContext *context, const struct mob_redis_life *life)
{
    redisReply *reply = redisCommand(context, "SET l %b", life, sizeof *life);
    bool written = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    return written ? MOB_OK : MOB_UNAVAILABLE;
}

static uint64_t new_store(void)
{
    uint64_t store = 0;
    while (store == 0) {
        mob_random_bytes(&store, sizeof store);
        store >>= MOB_GCS_MEMBER_LIFE_BITS;
    }
    return store;
}

enum mob_status life_begin(
    struct mob_shard *sh, redisContext *context, const struct mob_redis_position *position, bool found)
{
    struct mob_member *m = &sh->member;
    struct mob_redis_life life = {0};
    bool had_life;
    enum mob_status status = read_life(context, &life, &had_life);
    if (status != MOB_OK)
        return status;
    if (!shard_has_masters(sh)) {
        if (!had_life)
            return MOB_OK;
        MOB_LOG_ERROR("gcs", "store_of_a_chain",
            "member=%llx why=\"others may have more: start it with masters\"",
            (unsigned long long)life.member);
        return MOB_VERSION;
    }
    if (!had_life) /* a new store, or that of a member that was alone: then all there is */
        life = (struct mob_redis_life){.member = new_store() << MOB_GCS_MEMBER_LIFE_BITS,
            .part_epoch = found ? position->epoch : 0,
            .synced = found};
    life.member++;
    status = write_life(context, &life);
    if (status != MOB_OK)
        return status;
    m->life = life;
    m->self.id = life.member;
    m->stored_epoch = position->epoch;
    m->stored_seq = position->seq;
    m->stored_synced = life.synced;
    return MOB_OK;
}

static void write_later(struct mob_shard *sh)
{
    store_set(sh, "l", 1, &sh->member.life, sizeof sh->member.life);
    sh->member.life_pass = store_open_pass(sh);
}

static void set_synced(struct mob_shard *sh, bool synced, uint64_t epoch)
{
    struct mob_redis_life *life = &sh->member.life;
    life->synced = synced;
    life->part_epoch = epoch;
    sh->member.told_synced = synced;
    write_later(sh);
}

void life_set_synced(struct mob_shard *sh, bool synced)
{
    set_synced(sh, synced, synced ? mob_chain_epoch(sh->chain) : 0);
}

void life_set_whole(struct mob_shard *sh, uint64_t epoch)
{
    set_synced(sh, true, epoch);
}

bool life_on_disk(const struct mob_shard *sh)
{
    const struct mob_member *m = &sh->member;
    uint64_t passes =
        sh->options.durability == MOB_GCS_NO ? sh->store.stored_passes : sh->durable.synced_passes;
    return m->told_synced && passes >= m->life_pass;
}
