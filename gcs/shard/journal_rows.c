#include "gcs/shard/journal_rows.h"

#include "common/base/bytes.h"
#include "common/base/log.h"
#include "gcs/shard/redis_keys.h"

void mob_journal_row_encode(const struct mob_journal_row *row, uint8_t head_out[MOB_JOURNAL_ROW_BYTES])
{
    MOB_ASSERT(row->key_length <= MOB_REDIS_KEY_MAX);
    struct mob_writer w = mob_writer_of(head_out, MOB_JOURNAL_ROW_BYTES);
    mob_write_u8(&w, row->kind);
    mob_write_u8(&w, 0);
    mob_write_u16(&w, (uint16_t)row->key_length);
    mob_write_u32(&w, row->value_length);
}

void mob_journal_pass_encode(const struct mob_journal_pass *pass, uint8_t head_out[MOB_JOURNAL_PASS_BYTES])
{
    MOB_ASSERT(pass->length <= UINT32_MAX - MOB_JOURNAL_PASS_BYTES);
    struct mob_writer w = mob_writer_of(head_out, MOB_JOURNAL_PASS_BYTES);
    mob_write_u32(&w, MOB_JOURNAL_PASS_BYTES + (uint32_t)pass->length);
    mob_write_u32(&w, 0);
    mob_write_u64(&w, pass->epoch);
    mob_write_u64(&w, pass->seq);
}

enum mob_status mob_journal_pass_next(
    const uint8_t *bytes, size_t length, size_t *at, struct mob_journal_pass *pass_out)
{
    if (*at == length)
        return MOB_FINISHED;
    struct mob_reader r = mob_reader_of(bytes + *at, length - *at);
    uint32_t whole = mob_read_u32(&r), zero = mob_read_u32(&r);
    pass_out->epoch = mob_read_u64(&r);
    pass_out->seq = mob_read_u64(&r);
    if (!mob_reader_ok(&r) || zero != 0 || whole < MOB_JOURNAL_PASS_BYTES || whole > length - *at)
        return MOB_CORRUPT;
    pass_out->rows = bytes + *at + MOB_JOURNAL_PASS_BYTES;
    pass_out->length = whole - MOB_JOURNAL_PASS_BYTES;
    *at += whole;
    return MOB_OK;
}

/* What kinds of keys there may be, so that nobody who reads a row looks behind its end. */
static bool row_good(const struct mob_journal_row *row)
{
    switch (row->key[0]) {
    case 'k':
        if (row->key_length <= 2 || row->key_length > MOB_REDIS_KEY_MAX)
            return false;
        return row->kind == MOB_JOURNAL_SET ? row->value_length >= sizeof(uint64_t) : row->value_length == 0;
    case 'r':
        return row->key_length == 10 && row->kind == MOB_JOURNAL_SET &&
            row->value_length == sizeof(struct mob_gcs_reply);
    case 'c':
        return row->key_length == 9 && row->kind == MOB_JOURNAL_GONE && row->value_length == 0;
    default:
        return false;
    }
}

enum mob_status mob_journal_row_next(
    const struct mob_journal_pass *pass, size_t *at, struct mob_journal_row *row_out)
{
    if (*at == pass->length)
        return MOB_FINISHED;
    struct mob_reader r = mob_reader_of(pass->rows + *at, pass->length - *at);
    row_out->kind = mob_read_u8(&r);
    uint8_t zero = mob_read_u8(&r);
    row_out->key_length = mob_read_u16(&r);
    row_out->value_length = mob_read_u32(&r);
    row_out->key = mob_read_bytes(&r, row_out->key_length);
    row_out->value = mob_read_bytes(&r, row_out->value_length);
    bool good = mob_reader_ok(&r) && zero == 0 && row_out->key_length > 0 &&
        row_out->kind >= MOB_JOURNAL_SET && row_out->kind <= MOB_JOURNAL_OUTSIDE && row_good(row_out);
    if (!good)
        return MOB_CORRUPT;
    *at = pass->length - mob_reader_left(&r);
    return MOB_OK;
}
