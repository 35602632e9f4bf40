/* Buckets: open and walk any bytes. A checksum and a compressor would keep a fuzzer out, so the input is
 * tried as it is, then with the right checksum, then as what is inside of a bucket that was not compressed.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/wire/bucket.h"

enum { FRONT_BYTES = 24, CRC_FROM = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct mob_bucket_reader *reader;
static struct mob_block_decoder *decoder;
static struct mob_zone_map zone;
static struct mob_entry entry;
static uint64_t touched;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    mob_log_threshold = (enum mob_log_level)(MOB_LOG_LEVEL_ERROR + 1); /* unknown versions are errors */
    reader = mob_bucket_reader_create();
    decoder = mob_block_decoder_create();
    MOB_ASSERT(reader && decoder);
    return 0;
}

static void walk(const uint8_t *data, size_t size)
{
    static struct mob_bucket_origin origins[MOB_BLOCK_ENTRIES_MAX];
    struct mob_bucket_block block;
    struct mob_block_header header;
    uint32_t blocks = 0, seen = 0;
    if (mob_bucket_open(reader, data, size, &blocks) != MOB_OK)
        return;
    while (mob_bucket_next(reader, &block)) {
        MOB_ASSERT(++seen <= blocks);
        touched += block.bytes[0] + block.bytes[block.length - 1];
        for (uint32_t i = 0; i < block.origin_bytes; i++)
            touched += block.origins[i];
        if (mob_bucket_origins(&block, origins, 1) == MOB_OK && !block.whole)
            MOB_ASSERT(origins[0].ordinal < MOB_BLOCK_ENTRIES_MAX);
        (void)!mob_bucket_origins(&block, origins, MOB_BLOCK_ENTRIES_MAX);
        if (mob_block_open(decoder, block.bytes, block.length, &header, &zone) != MOB_OK)
            continue;
        while (mob_block_next(decoder, &entry) == MOB_OK)
            touched++;
    }
    MOB_ASSERT(seen == blocks);
}

static void put_u32(uint8_t *at, size_t v)
{
    uint32_t n = (uint32_t)v;
    memcpy(at, &n, sizeof n);
}

static void walk_with_crc(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size);
    MOB_ASSERT(copy);
    memcpy(copy, data, size);
    put_u32(copy + 8, mob_crc32c(copy + CRC_FROM, size - CRC_FROM));
    walk(copy, size);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t front[8] = {'M', 'B', 'K', 'T', MOB_BUCKET_VERSION, 0, FRONT_BYTES, 0};
    walk(data, size);
    if (size >= FRONT_BYTES)
        walk_with_crc(data, size);
    if (size < 2 || size > MOB_BUCKET_RAW_MAX)
        return 0;
    /* The first two bytes: how many blocks it says it has. */
    size_t raw = size - 2;
    uint8_t *whole = malloc(FRONT_BYTES + raw);
    MOB_ASSERT(whole);
    memcpy(whole, front, sizeof front);
    put_u32(whole + 12, raw);
    put_u32(whole + 16, raw);
    put_u32(whole + 20, (size_t)(data[0] | data[1] << 8));
    memcpy(whole + FRONT_BYTES, data + 2, raw);
    walk_with_crc(whole, FRONT_BYTES + raw);
    free(whole);
    return 0;
}
