/* A joiner takes its source's rows: the chain's, which go into its own Redis here, and the owner's, which go
 * into index and tables too. */
#include <stdlib.h>

#include "common/base/failpoint.h"
#include "gcs/chain/chain_rows.h"
#include "gcs/shard/snapshot_rows.h"

static bool load_block(struct mob_shard *sh, const struct mob_chain_row *row)
{
    uint64_t seq;
    struct mob_redis_block head;
    struct mob_block_header header;
    struct mob_zone_map zone;
    if (row->bytes <= sizeof seq + sizeof head)
        return false;
    memcpy(&seq, row->content, sizeof seq);
    memcpy(&head, row->content + sizeof seq, sizeof head);
    const uint8_t *block = row->content + sizeof seq + sizeof head;
    uint32_t length = row->bytes - (uint32_t)(sizeof seq + sizeof head);
    if (mob_block_peek(block, length, &header, &zone) != MOB_OK)
        return false;
    if (seq > sh->member.loaded_blocks) { /* a batch may come twice */
        mob_index_add(sh->index, seq, length, &header, &zone);
        sh->member.loaded_blocks = seq;
    }
    uint8_t key[9];
    mob_redis_key(key, 'b', seq);
    store_set(sh, key, sizeof key, row->content + sizeof seq, row->bytes - sizeof seq);
    return true;
}

static bool load_cold(struct mob_shard *sh, const struct mob_chain_row *row)
{
    if (row->bytes % sizeof(struct mob_gcs_flush_group) != 0)
        return false;
    for (uint32_t at = 0; at < row->bytes; at += (uint32_t)sizeof(struct mob_gcs_flush_group)) {
        struct mob_gcs_flush_group group;
        memcpy(&group, row->content + at, sizeof group);
        mob_index_load_group(sh->index, &group);
    }
    return true;
}

static bool load_owner_row(struct mob_shard *sh, const struct mob_chain_row *row)
{
    uint8_t key[9];
    switch (row->kind) {
    case ROW_BLOCK:
        return load_block(sh, row);
    case ROW_IDENTITY: {
        uint64_t client;
        struct mob_redis_identity identity;
        if (row->bytes != sizeof client + sizeof identity)
            return false;
        memcpy(&client, row->content, sizeof client);
        memcpy(&identity, row->content + sizeof client, sizeof identity);
        mob_redis_key(key, 'c', client);
        store_set(sh, key, sizeof key, &identity, sizeof identity);
        return attach_load(sh, client, &identity) == MOB_OK;
    }
    case ROW_BASES:
        if (row->bytes > sizeof sh->store.meta.bases || row->bytes % sizeof sh->store.meta.bases[0] != 0)
            return false;
        memcpy(sh->store.meta.bases, row->content, row->bytes);
        sh->store.meta.base_count = row->bytes / (uint32_t)sizeof sh->store.meta.bases[0];
        store_meta(sh);
        return true;
    case ROW_COLD:
        return load_cold(sh, row);
    case ROW_COLD_UPTO: {
        uint64_t upto;
        if (row->bytes != sizeof upto)
            return false;
        memcpy(&upto, row->content, sizeof upto);
        flushed_join(sh, upto);
        return true;
    }
    default:
        return false;
    }
}

/* The chain has taken it into its tables; here it goes to Redis. */
static bool load_row(struct mob_shard *sh, const struct mob_chain_row *row)
{
    uint8_t key[MOB_REDIS_KEY_MAX];
    if (row->kind == MOB_CHAIN_ROW_INCARNATION) {
        struct mob_gcs_incarnation incarnation;
        if (mob_chain_row_incarnation(row, &incarnation) != MOB_OK)
            return false;
        mob_redis_key(key, 'i', incarnation.id);
        store_set(sh, key, 9, &incarnation, sizeof incarnation);
        return true;
    }
    if (row->kind == MOB_CHAIN_ROW_CLIENT) {
        struct mob_chain_row_client client;
        struct mob_gcs_reply replies[MOB_GCS_WINDOW];
        if (mob_chain_row_client(row, &client) != MOB_OK)
            return false;
        memcpy(replies, client.replies, client.count * sizeof replies[0]);
        store_client_rows(sh, client.id, replies, client.count);
        return true;
    }
    if (row->kind == MOB_CHAIN_ROW_KEY) {
        uint8_t table, value_head[sizeof(uint64_t)];
        struct mob_gcs_kv kv;
        if (mob_chain_row_key(row, &table, &kv) != MOB_OK)
            return false;
        key[0] = 'k';
        key[1] = table;
        memcpy(key + 2, kv.key, kv.key_length);
        memcpy(value_head, &kv.version, sizeof value_head);
        uint8_t *value = malloc(sizeof value_head + kv.value_length);
        MOB_ASSERT(value != NULL);
        memcpy(value, value_head, sizeof value_head);
        memcpy(value + sizeof value_head, kv.value, kv.value_length);
        store_set(sh, key, 2 + kv.key_length, value, sizeof value_head + kv.value_length);
        free(value);
        return true;
    }
    return row->kind == MOB_CHAIN_ROW_FLUSHED || load_owner_row(sh, row);
}

void snapshot_load(struct mob_shard *sh, const struct mob_gcs_link_msg *m)
{
    struct mob_reader r = mob_reader_of(m->body, m->body_bytes);
    struct mob_chain_row row;
    (void)MOB_FAILPOINT("gcs.joiner_rows");
    while (mob_chain_row_next(&r, &row)) {
        store_before_set(sh);
        if (!load_row(sh, &row)) {
            MOB_LOG_ERROR("gcs", "snapshot_row_bad", "kind=%u bytes=%u", row.kind, row.bytes);
            sh->failure = MOB_CORRUPT;
            return;
        }
    }
    if (mob_chain_applied(sh->chain) == 0 && m->link.seq != 0)
        return;
    /* The last batch: from here on the store is a state, as of where the snapshot began. */
    sh->indexed = sh->taken = m->link.seq;
    store_position(sh, mob_chain_epoch(sh->chain), m->link.seq);
    sh->member.life_pass = store_open_pass(sh); /* synced at once: nobody counts on it before */
    MOB_LOG_INFO("gcs", "snapshot_taken", "seq=%llu blocks_upto=%llu keys=%zu",
        (unsigned long long)m->link.seq, (unsigned long long)sh->member.loaded_blocks,
        mob_state_keys(sh->state));
    (void)MOB_FAILPOINT("gcs.joiner_whole");
}

void snapshot_wipe(struct mob_shard *sh)
{
    mob_index_destroy(sh->index);
    sh->index = mob_index_create();
    MOB_ASSERT(sh->index != NULL);
    sh->flushed = (struct mob_flushed){0};
    sh->indexed = sh->taken = sh->told_committed = 0;
    sh->member.loaded_blocks = 0;
    sh->store.meta = (struct mob_redis_meta){.base_count = 0};
    for (size_t i = sh->attached_count; i-- > 0;)
        if (sh->attached[i].conn == NULL)
            sh->attached[i] = sh->attached[--sh->attached_count];
    store_wipe(sh);
    life_set_synced(sh, false);
}
