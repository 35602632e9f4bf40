/* Heads and rows of the control store's messages, without a frame around them: the first byte chooses the
 * head. A head that is taken is, byte for byte, what it was read from; rows are walked to their end and
 * written again. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/gcs_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one_head(uint8_t which, const uint8_t *bytes, size_t size)
{
    unsigned number = 0;
#define TRY(name, n) \
    if (which == number++) { \
        struct mob_gcs_##name head; \
        bool good = mob_gcs_##name##_decode(bytes, (uint32_t)size, &head) == MOB_OK; \
        MOB_ASSERT(good == (size == (n))); \
        MOB_ASSERT(!good || memcmp(&head, bytes, size) == 0); \
    }
    MOB_GCS_HEADS(TRY)
#undef TRY
}

static void kv_rows(const uint8_t *bytes, size_t size)
{
    struct mob_reader r = mob_reader_of(bytes, size);
    struct mob_gcs_kv kv;
    const uint8_t *at = bytes;
    while (mob_gcs_kv_row_decode(&r, &kv) == MOB_OK) {
        uint8_t again[MOB_GCS_KV_ROW_HEAD];
        mob_gcs_kv_row_encode(&kv, again);
        MOB_ASSERT(memcmp(again, at, sizeof again) == 0);
        MOB_ASSERT(kv.key == at + sizeof again && kv.value == kv.key + kv.key_length);
        at = kv.value + kv.value_length;
        MOB_ASSERT(at <= bytes + size && r.at == at);
    }
}

static void block_rows(const uint8_t *bytes, size_t size)
{
    struct mob_reader r = mob_reader_of(bytes, size);
    struct mob_gcs_block_row row;
    const uint8_t *at = bytes;
    while (mob_gcs_block_row_decode(&r, &row) == MOB_OK) {
        MOB_ASSERT(row.bytes >= at && row.bytes + row.length <= bytes + size);
        uint8_t again[MOB_GCS_BLOCK_ROW_HEAD];
        mob_gcs_block_row_encode(&row, again);
        MOB_ASSERT(memcmp(again, row.bytes - sizeof again, sizeof again) == 0);
        MOB_ASSERT(r.at > at);
        at = r.at;
    }
}

static void incarnations(const uint8_t *bytes, size_t size)
{
    struct mob_reader r = mob_reader_of(bytes, size);
    struct mob_gcs_incarnation row;
    size_t rows = 0;
    while (mob_gcs_incarnation_decode(&r, &row) == MOB_OK) {
        MOB_ASSERT(memchr(row.name, 0, sizeof row.name) != NULL);
        MOB_ASSERT(++rows * sizeof row <= size);
    }
}

static void figures(const uint8_t *bytes, size_t size)
{
    struct mob_reader r = mob_reader_of(bytes, size);
    struct mob_gcs_stats stats;
    memset(&stats, 0xff, sizeof stats);
    if (mob_gcs_stats_decode(&r, &stats) != MOB_OK)
        return;
    size_t taken =
        size < sizeof stats ? offsetof(struct mob_gcs_stats, self) : offsetof(struct mob_gcs_stats, state);
    MOB_ASSERT(memchr(stats.state, 0, sizeof stats.state) != NULL);
    MOB_ASSERT(memcmp(&stats, bytes, taken) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    one_head(data[0], data + 1, size - 1);
    kv_rows(data + 1, size - 1);
    block_rows(data + 1, size - 1);
    incarnations(data + 1, size - 1);
    figures(data + 1, size - 1);
    return 0;
}
