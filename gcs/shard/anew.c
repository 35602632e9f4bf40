/* A member of a chain of which no store is left, and which a person gave up: it makes one that is empty,
 * behind all that was ever given out, and ends. Its next life has that store, which is all there is, and is
 * the one from which the master starts the chain. */
#include "gcs/shard/shard_internal.h"

#include <inttypes.h>
#include <stdio.h>

/* As a LOSS entry has it (GCS.md 8): what exactly there was nobody knows any more. */
static size_t loss_row(const struct mob_gcs_begin_anew *b, char *out, size_t capacity)
{
    int length = snprintf(out, capacity,
        "{\"kind\":\"store\",\"epoch\":%" PRIu64 ",\"seq\":%" PRIu64 ",\"to_seq\":%" PRIu64
        ",\"newest_log\":%" PRIu64 ",\"wall_ns\":%" PRId64 "}",
        b->lost_epoch, b->lost_seq, b->seq, b->newest_log, mob_wall_now());
    MOB_ASSERT(length > 0 && (size_t)length < capacity);
    return (size_t)length;
}

static void store_loss(struct mob_shard *sh, const struct mob_gcs_begin_anew *b)
{
    uint8_t key[2 + 8] = {'k', MOB_GCS_LOSSES}, value[8 + 256];
    size_t bytes = loss_row(b, (char *)value + 8, sizeof value - 8);
    mob_redis_key_number(key + 2, b->seq); /* so that LIST gives them in order */
    memcpy(value, &b->seq, 8);
    store_set(sh, key, sizeof key, value, 8 + bytes);
    MOB_LOG_ERROR("gcs", "store_lost", "what=%.*s why=\"gcs-start-without-all\"", (int)bytes, value + 8);
}

/* One pass, so that Redis has all of it or nothing. */
void anew_begin(struct mob_shard *sh, const struct mob_gcs_begin_anew *b)
{
    struct mob_member *m = &sh->member;
    if (m->begins_anew || m->stored_synced != 0 || mob_chain_state(sh->chain) != MOB_CHAIN_IDLE)
        return; /* an order that is late: it has a store, or is to join a chain that has one */
    m->begins_anew = true;
    snapshot_wipe(sh);
    mob_chain_load_position(sh->chain, b->epoch, b->seq); /* what is written is of there */
    sh->store.meta = (struct mob_redis_meta){.base_count = 1, .bases[0] = {.epoch = b->epoch, .seq = 0}};
    store_meta(sh);
    store_loss(sh, b);
    if (b->flushed != 0)
        store_set(sh, "f", 1, &b->flushed, sizeof b->flushed);
    store_position(sh, b->epoch, b->seq);
    life_set_whole(sh, b->epoch);
}

void anew_tick(struct mob_shard *sh)
{
    if (!sh->member.begins_anew || !life_on_disk(sh))
        return;
    MOB_LOG_INFO("gcs", "begun_anew", "member=%llx", (unsigned long long)sh->member.self.id);
    sh->failure = MOB_CANCELLED;
}
