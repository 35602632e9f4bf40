/* Lineage blocks: mob_block_peek, open and next on any bytes. Checksums would keep a fuzzer out, so the input
 * is tried as it is, and again with the right ones. What decodes is encoded again and must decode to the
 * same.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/block_format.h"
#include "tests/support/wire_samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct mob_block_encoder *encoder;
static struct mob_block_decoder *first, *second;
static struct mob_block_header header;
static struct mob_zone_map zone;
static struct sample_entry sample;
static struct mob_entry again;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    mob_log_threshold = MOB_LOG_LEVEL_ERROR;
    encoder = mob_block_encoder_create();
    first = mob_block_decoder_create();
    second = mob_block_decoder_create();
    MOB_ASSERT(encoder && first && second);
    return 0;
}

/* The entry as the encoder wants it: in a block of its own, which must give it back. */
static void encode_again(void)
{
    static uint8_t block[MOB_BLOCK_BYTES_MAX];
    static struct sample_entry copy;
    struct mob_block_header other;
    memcpy(&copy.entry, &sample.entry, sizeof copy.entry);
    struct mob_entry *e = &copy.entry;
    const uint8_t *from = e->payload;
    if (e->type == MOB_ENTRY_SPEC) {
        memcpy(copy.tail, e->spec.tail, e->spec.tail_bytes);
    } else if (e->type == MOB_ENTRY_COMPLETION) {
        if (e->completion.head.body_bytes > sizeof copy.body)
            return;
        memcpy(copy.body, e->completion.body, e->completion.head.body_bytes);
    } else if (e->type == MOB_ENTRY_YIELD) {
        e->payload_bytes = mob_return_encode(copy.payload, 0, sizeof copy.payload, &e->ret);
        MOB_ASSERT(e->payload_bytes > 0);
    } else if (e->type != MOB_ENTRY_PUT && from) {
        if (e->payload_bytes > sizeof copy.payload)
            return;
        memcpy(copy.payload, from, e->payload_bytes);
    }
    mob_block_begin(encoder, &header);
    MOB_ASSERT(sample_add(encoder, &copy) == MOB_OK);
    uint32_t bytes = mob_block_end(encoder, block);
    MOB_ASSERT(mob_block_open(second, block, bytes, &other, &zone) == MOB_OK);
    MOB_ASSERT(mob_block_next(second, &again) == MOB_OK);
    MOB_ASSERT(sample_difference(&sample.entry, &again) == NULL);
    MOB_ASSERT(mob_block_next(second, &again) == MOB_CLOSED);
}

static void decode(const uint8_t *data, size_t size)
{
    enum mob_status peeked = mob_block_peek(data, size, &header, &zone);
    enum mob_status opened = mob_block_open(first, data, size, &header, &zone);
    MOB_ASSERT(opened != MOB_OK || peeked == MOB_OK);
    if (opened != MOB_OK)
        return;
    uint32_t entries = 0;
    memset(&sample.entry, 0, sizeof sample.entry);
    while (mob_block_next(first, &sample.entry) == MOB_OK) {
        MOB_ASSERT(++entries <= MOB_BLOCK_ENTRIES_MAX);
        encode_again();
        memset(&sample.entry, 0, sizeof sample.entry);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct block_front front;
    decode(data, size);
    if (size < sizeof front || size > MOB_BLOCK_BYTES_MAX)
        return 0;
    uint8_t *fixed = malloc(size);
    MOB_ASSERT(fixed);
    memcpy(fixed, data, size);
    memcpy(&front, data, sizeof front);
    uint64_t upto = (uint64_t)front.front_bytes + front.zone_bytes;
    if (upto <= size && upto > sizeof front) {
        front.entries_bytes = (uint32_t)(size - upto);
        front.entries_crc = mob_crc32c(fixed + upto, size - upto);
        memcpy(fixed, &front, sizeof front);
        front.front_crc = mob_crc32c(fixed + BLOCK_CRC_FROM, upto - BLOCK_CRC_FROM);
        memcpy(fixed, &front, sizeof front);
        decode(fixed, size);
    }
    free(fixed);
    return 0;
}
