#include "common/wire/gcs_msg.h"

#include <stddef.h>

void mob_gcs_kv_row_encode(const struct mob_gcs_kv *kv, uint8_t out[MOB_GCS_KV_ROW_HEAD])
{
    struct mob_writer w = mob_writer_of(out, MOB_GCS_KV_ROW_HEAD);
    mob_write_u32(&w, kv->key_length);
    mob_write_u32(&w, kv->value_length);
    mob_write_u64(&w, kv->version);
}

void mob_gcs_block_row_encode(const struct mob_gcs_block_row *row, uint8_t out[MOB_GCS_BLOCK_ROW_HEAD])
{
    struct mob_writer w = mob_writer_of(out, MOB_GCS_BLOCK_ROW_HEAD);
    mob_write_u64(&w, row->seq);
    mob_write_u64(&w, row->incarnation);
    mob_write_u64(&w, row->number);
    mob_write_u32(&w, row->length);
    mob_write_u32(&w, row->recut);
}

enum mob_status mob_gcs_kv_row_decode(struct mob_reader *r, struct mob_gcs_kv *out)
{
    struct mob_gcs_kv kv = {.key_length = mob_read_u32(r)};
    kv.value_length = mob_read_u32(r);
    kv.version = mob_read_u64(r);
    kv.key = mob_read_bytes(r, kv.key_length);
    kv.value = mob_read_bytes(r, kv.value_length);
    if (!mob_reader_ok(r))
        return MOB_TRUNCATED;
    *out = kv;
    return MOB_OK;
}

enum mob_status mob_gcs_block_row_decode(struct mob_reader *r, struct mob_gcs_block_row *out)
{
    struct mob_gcs_block_row row = {.seq = mob_read_u64(r)};
    row.incarnation = mob_read_u64(r);
    row.number = mob_read_u64(r);
    row.length = mob_read_u32(r);
    row.recut = mob_read_u32(r);
    row.bytes = mob_read_bytes(r, row.length);
    if (!mob_reader_ok(r))
        return MOB_TRUNCATED;
    *out = row;
    return MOB_OK;
}

enum mob_status mob_gcs_incarnation_decode(struct mob_reader *r, struct mob_gcs_incarnation *out)
{
    struct mob_gcs_incarnation row;
    mob_read_into(r, &row, sizeof row);
    if (!mob_reader_ok(r))
        return MOB_TRUNCATED;
    row.name[MOB_GCS_NAME_MAX] = 0;
    *out = row;
    return MOB_OK;
}

enum mob_status mob_gcs_stats_decode(struct mob_reader *r, struct mob_gcs_stats *out)
{
    static const size_t ends[] = {offsetof(struct mob_gcs_stats, self),
        offsetof(struct mob_gcs_stats, state_ms), offsetof(struct mob_gcs_stats, newest_block),
        offsetof(struct mob_gcs_stats, store), offsetof(struct mob_gcs_stats, marks),
        offsetof(struct mob_gcs_stats, lease_ms), offsetof(struct mob_gcs_stats, joiner),
        offsetof(struct mob_gcs_stats, tells_index),
        sizeof(struct mob_gcs_stats)}; /* of what each version says */
    struct mob_gcs_stats stats = {0};
    size_t said = mob_reader_left(r), size = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && said >= ends[i]; i++)
        size = ends[i];
    if (size == 0)
        return MOB_TRUNCATED;
    mob_read_into(r, &stats, size);
    stats.state[sizeof stats.state - 1] = stats.store[sizeof stats.store - 1] = 0;
    *out = stats;
    return MOB_OK;
}
