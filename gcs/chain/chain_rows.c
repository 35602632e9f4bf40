#include "gcs/chain/chain_rows.h"

bool mob_chain_row_next(struct mob_reader *r, struct mob_chain_row *row_out)
{
    if (!mob_reader_ok(r) || mob_reader_left(r) == 0)
        return false;
    struct mob_chain_row row = {.kind = mob_read_u8(r)};
    row.bytes = mob_read_u32(r);
    row.content = mob_read_bytes(r, row.bytes);
    if (row.content == NULL)
        return false;
    *row_out = row;
    return true;
}

void mob_chain_row_write(struct mob_writer *w, uint8_t kind, const void *content, uint32_t bytes)
{
    if (mob_writer_left(w) < 5u + (size_t)bytes) {
        w->failed = true;
        return;
    }
    mob_write_u8(w, kind);
    mob_write_u32(w, bytes);
    mob_write_bytes(w, content, bytes);
}

void mob_chain_row_write_key(struct mob_writer *w, uint8_t table, const struct mob_gcs_kv *kv)
{
    uint32_t bytes = 1u + 4u + 8u + kv->key_length + kv->value_length;
    if (mob_writer_left(w) < 5u + (size_t)bytes) {
        w->failed = true;
        return;
    }
    mob_write_u8(w, MOB_CHAIN_ROW_KEY);
    mob_write_u32(w, bytes);
    mob_write_u8(w, table);
    mob_write_u32(w, kv->key_length);
    mob_write_u64(w, kv->version);
    mob_write_bytes(w, kv->key, kv->key_length);
    mob_write_bytes(w, kv->value, kv->value_length);
}

enum mob_status mob_chain_row_client(const struct mob_chain_row *row, struct mob_chain_row_client *out)
{
    struct mob_reader r = mob_reader_of(row->content, row->bytes);
    struct mob_chain_row_client client = {.id = mob_read_u64(&r)};
    client.last = mob_read_u64(&r);
    client.count = mob_read_u32(&r);
    client.replies = mob_read_bytes(&r, (uint64_t)client.count * sizeof(struct mob_gcs_reply));
    if (!mob_reader_ok(&r) || mob_reader_left(&r) != 0 || client.count > MOB_GCS_WINDOW || client.id == 0)
        return MOB_CORRUPT;
    *out = client;
    return MOB_OK;
}

enum mob_status mob_chain_row_incarnation(const struct mob_chain_row *row, struct mob_gcs_incarnation *out)
{
    if (row->bytes != sizeof *out)
        return MOB_CORRUPT;
    memcpy(out, row->content, sizeof *out);
    bool good = out->id != 0 && out->state >= MOB_GCS_LIVE && out->state <= MOB_GCS_RECOVERED;
    return good ? MOB_OK : MOB_CORRUPT;
}

enum mob_status mob_chain_row_key(
    const struct mob_chain_row *row, uint8_t *table_out, struct mob_gcs_kv *kv_out)
{
    struct mob_reader r = mob_reader_of(row->content, row->bytes);
    uint8_t table = mob_read_u8(&r);
    struct mob_gcs_kv kv = {.key_length = mob_read_u32(&r)};
    kv.version = mob_read_u64(&r);
    kv.key = mob_read_bytes(&r, kv.key_length);
    if (!mob_reader_ok(&r) || kv.key_length > MOB_GCS_KEY_MAX || table == 0 || table >= MOB_GCS_TABLES)
        return MOB_CORRUPT;
    kv.value_length = (uint32_t)mob_reader_left(&r);
    kv.value = mob_read_bytes(&r, kv.value_length);
    *table_out = table;
    *kv_out = kv;
    return MOB_OK;
}
