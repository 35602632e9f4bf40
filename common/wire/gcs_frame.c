#include "common/wire/gcs_frame.h"

#include <stdbool.h>

#include "common/base/bytes.h"
#include "common/base/hash.h"
#include "common/base/log.h"

#define TYPE_AT 5u /* behind magic and version */
#define CHECKED_BYTES 32u /* of the header, before its two sums */

static uint32_t frame_crc(
    const uint8_t header[CHECKED_BYTES], const uint8_t *head, uint32_t head_bytes, uint32_t body_crc)
{
    uint8_t all[40];
    struct mob_writer w = mob_writer_of(all, sizeof all);
    mob_write_bytes(&w, header, CHECKED_BYTES);
    mob_write_u32(&w, mob_crc32c(head, head_bytes));
    mob_write_u32(&w, body_crc);
    return mob_crc32c(all, sizeof all);
}

void mob_gcs_frame_encode(const struct mob_gcs_frame *frame, uint8_t header_out[MOB_GCS_FRAME_HEADER_BYTES])
{
    MOB_ASSERT(frame->head_bytes <= MOB_GCS_FRAME_HEAD_MAX);
    struct mob_writer w = mob_writer_of(header_out, MOB_GCS_FRAME_HEADER_BYTES);
    mob_write_u32(&w, MOB_GCS_FRAME_MAGIC);
    mob_write_u8(&w, MOB_GCS_FRAME_VERSION);
    mob_write_u8(&w, frame->type);
    mob_write_u16(&w, (uint16_t)frame->head_bytes);
    mob_write_u32(&w, frame->head_bytes + frame->body_bytes);
    mob_write_u32(&w, frame->shard);
    mob_write_u64(&w, frame->epoch);
    mob_write_u64(&w, frame->from);
    uint32_t body_crc = mob_crc32c(frame->body, frame->body_bytes);
    mob_write_u32(&w, frame_crc(header_out, frame->head, frame->head_bytes, body_crc));
    mob_write_u32(&w, mob_crc32c(header_out, CHECKED_BYTES));
}

enum mob_status mob_gcs_frame_decode(const uint8_t *bytes, size_t length, uint32_t length_max,
    struct mob_gcs_frame *frame_out, size_t *used_out)
{
    if (length < MOB_GCS_FRAME_HEADER_BYTES) {
        *used_out = MOB_GCS_FRAME_HEADER_BYTES;
        return MOB_AGAIN;
    }
    struct mob_reader r = mob_reader_of(bytes, MOB_GCS_FRAME_HEADER_BYTES);
    uint32_t magic = mob_read_u32(&r);
    uint8_t version = mob_read_u8(&r);
    struct mob_gcs_frame f = {.type = mob_read_u8(&r)};
    f.head_bytes = mob_read_u16(&r);
    uint32_t payload_bytes = mob_read_u32(&r);
    f.shard = mob_read_u32(&r);
    f.epoch = mob_read_u64(&r);
    f.from = mob_read_u64(&r);
    uint32_t crc = mob_read_u32(&r), header_crc = mob_read_u32(&r);
    if (magic != MOB_GCS_FRAME_MAGIC)
        return MOB_CORRUPT;
    if (version == 0 || version > MOB_GCS_FRAME_VERSION) {
        MOB_LOG_WARN("gcs", "frame_version", "got=%u known=%u", version, MOB_GCS_FRAME_VERSION);
        return MOB_VERSION;
    }
    bool known = (f.type >= MOB_GCS_WELCOME && f.type < MOB_GCS_FRAME_TYPES) ||
        (f.type >= MOB_GCS_UPD && f.type < MOB_GCS_LINK_TYPES) ||
        (f.type >= MOB_GCS_LINK_HELLO && f.type < MOB_GCS_PEER_TYPES);
    if (!known || header_crc != (version == 1 ? 0 : mob_crc32c(bytes, CHECKED_BYTES)))
        return MOB_CORRUPT;
    if (payload_bytes > length_max)
        return MOB_TOO_LARGE;
    if (f.head_bytes > payload_bytes || f.head_bytes > MOB_GCS_FRAME_HEAD_MAX)
        return MOB_CORRUPT;
    *used_out = (size_t)MOB_GCS_FRAME_HEADER_BYTES + payload_bytes;
    if (length < *used_out)
        return MOB_AGAIN;
    f.head = bytes + MOB_GCS_FRAME_HEADER_BYTES;
    f.body = f.head + f.head_bytes;
    f.body_bytes = payload_bytes - f.head_bytes;
    f.body_crc = mob_crc32c(f.body, f.body_bytes);
    if (crc != frame_crc(bytes, f.head, f.head_bytes, f.body_crc))
        return MOB_CORRUPT;
    *frame_out = f;
    return MOB_OK;
}

bool mob_gcs_frame_peek(
    const uint8_t *bytes, size_t length, struct mob_gcs_frame *frame_out, size_t *used_out)
{
    if (length < MOB_GCS_FRAME_HEADER_BYTES)
        return false;
    struct mob_reader r = mob_reader_of(bytes + TYPE_AT, MOB_GCS_FRAME_HEADER_BYTES - TYPE_AT);
    struct mob_gcs_frame f = {.type = mob_read_u8(&r)};
    f.head_bytes = mob_read_u16(&r);
    uint32_t payload_bytes = mob_read_u32(&r);
    *used_out = (size_t)MOB_GCS_FRAME_HEADER_BYTES + payload_bytes;
    if (f.head_bytes > payload_bytes || length < *used_out)
        return false;
    f.head = bytes + MOB_GCS_FRAME_HEADER_BYTES;
    f.body = f.head + f.head_bytes;
    f.body_bytes = payload_bytes - f.head_bytes;
    *frame_out = f;
    return true;
}

const char *mob_gcs_frame_name(uint8_t type)
{
    static const char *const names[MOB_GCS_FRAME_TYPES] = {"?", "?", "WELCOME", "ATTACH", "ATTACHED", "PUT",
        "REPLY", "DURABLE", "NACK", "GAP", "EXPIRED", "RESENT", "GET", "ROWS", "SUB", "UNSUB", "BLOCK",
        "RESYNC", "BYE", "COLD", "COLD_GET", "COLD_ROWS", "LISTEN", "HURRY"};
    static const char *const links[MOB_GCS_LINK_TYPES - MOB_GCS_UPD] = {"UPD", "ACK", "SYNC", "SYNCEND",
        "POSITION", "RESEND", "READ", "CONFIG", "JOIN", "SNAPSHOT", "LOG", "JOINED", "LEAVE"};
    static const char *const peers[MOB_GCS_PEER_TYPES - MOB_GCS_LINK_HELLO] = {"LINK_HELLO", "LINK_CHALLENGE",
        "LINK_PROOF", "LINK_READY", "LINK_REFUSED", "REPORT", "LEASE", "BOOK", "ENTER", "ENROLL", "ENROLLED",
        "NODE_BEAT", "NODE_HEARD", "BEGIN_ANEW"};
    if (type >= MOB_GCS_LINK_HELLO && type < MOB_GCS_PEER_TYPES)
        return peers[type - MOB_GCS_LINK_HELLO];
    if (type >= MOB_GCS_UPD && type < MOB_GCS_LINK_TYPES)
        return links[type - MOB_GCS_UPD];
    return type < MOB_GCS_FRAME_TYPES ? names[type] : names[0];
}
