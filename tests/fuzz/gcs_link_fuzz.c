/* Messages between the members of a chain: the first byte chooses the type, two more the length of the head,
 * and the rest is head and body. What is taken points into the input, adds up, and is written again as it was
 * read. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/gcs_link.h"

enum { FRONT_BYTES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
static uint64_t touched;

static void check(const struct mob_gcs_frame *frame)
{
    struct mob_gcs_link_msg m;
    if (mob_gcs_link_decode(frame, &m) != MOB_OK)
        return;
    uint8_t head[MOB_GCS_LINK_HEAD_MAX];
    uint32_t bytes = mob_gcs_link_encode(&m, head);
    MOB_ASSERT(bytes == frame->head_bytes && memcmp(head, frame->head, bytes) == 0);
    MOB_ASSERT(m.body == frame->body && m.body_bytes <= frame->body_bytes);
    for (uint32_t i = 0; i < m.body_bytes; i++)
        touched += m.body[i];
    if (mob_gcs_link_has_config(m.type))
        MOB_ASSERT(mob_gcs_config_valid(&m.config));
    if (!mob_gcs_link_has_entry(m.type))
        return;
    MOB_ASSERT(m.drops + (uint64_t)m.entry.drop_count * 8 == frame->body + frame->body_bytes);
    MOB_ASSERT(m.entry.key_length <= m.body_bytes && m.link.seq > m.link.prev);
    for (uint64_t i = 0; i < (uint64_t)m.entry.drop_count * 8; i++)
        touched += m.drops[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < FRONT_BYTES)
        return 0;
    size_t rest = size - FRONT_BYTES, head = (size_t)(data[1] | data[2] << 8);
    head = head <= rest ? head : rest;
    struct mob_gcs_frame frame = {.type = data[0],
        .from = 7,
        .epoch = 3,
        .head = data + FRONT_BYTES,
        .head_bytes = (uint16_t)head,
        .body = data + FRONT_BYTES + head,
        .body_bytes = (uint32_t)(rest - head)};
    check(&frame);
    frame.type = (uint8_t)(MOB_GCS_UPD + data[0] % (MOB_GCS_LINK_TYPES - MOB_GCS_UPD));
    check(&frame);
    /* An entry's own checksum and length would keep a fuzzer out. */
    uint8_t fixed[MOB_GCS_LINK_HEAD_MAX];
    if (!mob_gcs_link_has_entry(frame.type) ||
        head != sizeof(struct mob_gcs_link) + sizeof(struct mob_gcs_entry))
        return 0;
    struct mob_gcs_entry entry;
    memcpy(fixed, frame.head, head);
    memcpy(&entry, fixed + sizeof(struct mob_gcs_link), sizeof entry);
    entry.body_crc = frame.body_crc;
    entry.drop_count %= frame.body_bytes / 8 + 1;
    entry.body_bytes = frame.body_bytes - entry.drop_count * 8;
    entry.zero = 0;
    memcpy(fixed + sizeof(struct mob_gcs_link), &entry, sizeof entry);
    frame.head = fixed;
    check(&frame);
    return 0;
}
