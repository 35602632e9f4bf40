/* Frames of the control store's links: decode any bytes, and every message head and row that a frame can
 * carry. The checksum would keep a fuzzer out, so the input is tried as it is, and again with the right one.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_peer.h"
#include "common/wire/gcs_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    mob_log_threshold = MOB_LOG_LEVEL_ERROR;
    return 0;
}

static uint64_t touched;
static void touch(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        touched += bytes[i];
}

static void rows(const struct mob_gcs_frame *f)
{
    struct mob_gcs_kv kv;
    struct mob_gcs_block_row block;
    struct mob_gcs_incarnation incarnation;
    struct mob_reader r = mob_reader_of(f->body, f->body_bytes);
    while (mob_gcs_kv_row_decode(&r, &kv) == MOB_OK) {
        touch(kv.key, kv.key_length);
        touch(kv.value, kv.value_length);
    }
    r = mob_reader_of(f->body, f->body_bytes);
    while (mob_gcs_block_row_decode(&r, &block) == MOB_OK)
        touch(block.bytes, block.length);
    r = mob_reader_of(f->body, f->body_bytes);
    while (mob_gcs_incarnation_decode(&r, &incarnation) == MOB_OK)
        MOB_ASSERT(memchr(incarnation.name, 0, sizeof incarnation.name) != NULL);
}

static void heads(const struct mob_gcs_frame *f)
{
#define DECODE(name, n) \
    struct mob_gcs_##name name; \
    bool name##_good = mob_gcs_##name##_decode(f->head, f->head_bytes, &name) == MOB_OK; \
    MOB_ASSERT(name##_good == (f->head_bytes == (n))); \
    if (name##_good) \
        touch((const uint8_t *)&name, sizeof name);
    MOB_GCS_HEADS(DECODE)
#undef DECODE
}

/* Messages between members, and books: everything that a decoder says is there can be read. */
static void peers(const struct mob_gcs_frame *f)
{
    struct mob_gcs_link_msg m;
    struct mob_gcs_book book;
    if (mob_gcs_is_link_frame(f->type) && mob_gcs_link_decode(f, &m) == MOB_OK) {
        touch(m.body, m.body_bytes);
        if (mob_gcs_link_has_entry(m.type))
            touch(m.drops, (size_t)m.entry.drop_count * sizeof(uint64_t));
        MOB_ASSERT(
            !mob_gcs_link_has_config(m.type) || m.config.epoch == 0 || mob_gcs_config_valid(&m.config));
    }
    if (mob_gcs_book_decode(f->body, f->body_bytes, &book) == MOB_OK) {
        MOB_ASSERT(mob_gcs_book_bytes(&book) == f->body_bytes);
        for (uint32_t i = 0; i < book.config.count; i++)
            MOB_ASSERT(strlen(book.places[i].link) < MOB_GCS_ADDRESS_MAX);
    }
}

/* Numbers of types have gaps; every kind has its share. */
static uint8_t some_type(uint8_t n)
{
    unsigned clients = MOB_GCS_FRAME_TYPES - 1, links = MOB_GCS_LINK_TYPES - MOB_GCS_UPD,
             others = MOB_GCS_PEER_TYPES - MOB_GCS_LINK_HELLO, pick = n % (clients + links + others);
    if (pick < clients)
        return (uint8_t)(1 + pick);
    return (uint8_t)(pick < clients + links ? MOB_GCS_UPD + (pick - clients)
                                            : MOB_GCS_LINK_HELLO + (pick - clients - links));
}

static void try_frame(const uint8_t *bytes, size_t size)
{
    struct mob_gcs_frame f;
    size_t used = 0;
    enum mob_status status = mob_gcs_frame_decode(bytes, size, MOB_GCS_FRAME_CLIENT_MAX, &f, &used);
    if (status == MOB_AGAIN)
        MOB_ASSERT(used > size);
    if (status != MOB_OK)
        return;
    MOB_ASSERT(used <= size && used == (size_t)MOB_GCS_FRAME_HEADER_BYTES + f.head_bytes + f.body_bytes);
    MOB_ASSERT(mob_gcs_frame_name(f.type)[0] != '?');
    uint8_t again[MOB_GCS_FRAME_HEADER_BYTES];
    mob_gcs_frame_encode(&f, again);
    bool same = memcmp(again, bytes, sizeof again) == 0;
    MOB_ASSERT(same || bytes[4] != MOB_GCS_FRAME_VERSION); /* earlier ones are read, and not written */
    heads(&f);
    rows(&f);
    peers(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_frame(data, size);
    if (size < MOB_GCS_FRAME_HEADER_BYTES)
        return 0;
    /* The same as a frame: the first bytes choose type and lengths, the rest is payload. */
    size_t payload = size - MOB_GCS_FRAME_HEADER_BYTES;
    uint32_t head = (uint32_t)(data[6] | data[7] << 8);
    struct mob_gcs_frame f = {.type = some_type(data[5]),
        .head_bytes = head <= payload && head <= MOB_GCS_FRAME_HEAD_MAX ? head : 0};
    f.body_bytes = (uint32_t)payload - f.head_bytes;
    f.head = data + MOB_GCS_FRAME_HEADER_BYTES;
    f.body = f.head + f.head_bytes;
    uint8_t *copy = malloc(size);
    MOB_ASSERT(copy != NULL);
    memcpy(copy, data, size);
    mob_gcs_frame_encode(&f, copy);
    try_frame(copy, size);
    free(copy);
    return 0;
}
