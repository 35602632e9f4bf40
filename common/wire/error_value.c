/* Payload of an error value: u16 version | u16 links | u32 zero, then per link, newest first:
 * u16 status | u16 zero | i32 signal | task id (16) | u32 message_bytes | u32 detail_bytes | message |
 * detail.
 */
#include "common/wire/completion.h"

#include <string.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

enum {
    ERROR_VERSION = 1,
    ERROR_HEAD_BYTES = 8,
    LINK_HEAD_BYTES = 32,
    MESSAGE_KEPT_BYTES = 160,
    DETAIL_KEPT_BYTES = 512
};

/* Longest prefix of at most `most` bytes that does not end inside a UTF-8 sequence. */
static uint32_t cut_utf8(const char *text, uint32_t bytes, uint32_t most)
{
    if (bytes <= most)
        return bytes;
    while (most > 0 && ((uint8_t)text[most] & 0xc0) == 0x80)
        most--;
    return most;
}

static uint32_t total_of(const struct mob_error_link *links, int count)
{
    uint64_t total = ERROR_HEAD_BYTES;
    for (int i = 0; i < count; i++)
        total += (uint64_t)LINK_HEAD_BYTES + links[i].message_bytes + links[i].detail_bytes;
    return total > UINT32_MAX ? UINT32_MAX : (uint32_t)total;
}

static void cut_link(struct mob_error_link *l, uint32_t message_most, uint32_t detail_most)
{
    l->message_bytes = cut_utf8(l->message, l->message_bytes, message_most);
    l->detail_bytes = cut_utf8(l->detail, l->detail_bytes, detail_most);
}

/* The newest link and the root cause say most, so what is between them goes first. */
static int cut_to_fit(struct mob_error_link *links, int count, uint32_t capacity)
{
    for (int i = 1; i < count - 1 && total_of(links, count) > capacity; i++)
        cut_link(&links[i], UINT32_MAX, 0);
    for (int i = count - 1; i >= 0 && total_of(links, count) > capacity; i--)
        cut_link(&links[i], UINT32_MAX, DETAIL_KEPT_BYTES);
    for (int i = 0; i < count && total_of(links, count) > capacity; i++)
        cut_link(&links[i], MESSAGE_KEPT_BYTES, DETAIL_KEPT_BYTES);
    while (count > 2 && total_of(links, count) > capacity) {
        links[count - 2] = links[count - 1];
        count--;
    }
    for (int i = 0; i < count && total_of(links, count) > capacity; i++)
        cut_link(&links[i], MESSAGE_KEPT_BYTES, 0);
    if (count > 1 && total_of(links, count) > capacity)
        count = 1;
    uint32_t fixed = ERROR_HEAD_BYTES + LINK_HEAD_BYTES;
    if (total_of(links, count) > capacity && capacity >= fixed)
        cut_link(&links[0], capacity - fixed, 0);
    return count;
}

static void write_link(struct mob_writer *w, const struct mob_error_link *l)
{
    mob_write_u16(w, (uint16_t)l->status);
    mob_write_u16(w, 0);
    mob_write_u32(w, (uint32_t)l->signal);
    mob_write_bytes(w, &l->task, sizeof l->task);
    mob_write_u32(w, l->message_bytes);
    mob_write_u32(w, l->detail_bytes);
    mob_write_bytes(w, l->message, l->message_bytes);
    mob_write_bytes(w, l->detail, l->detail_bytes);
}

uint32_t mob_error_encode(
    void *out, uint32_t capacity, const struct mob_error_link *link, const void *cause, uint32_t cause_bytes)
{
    struct mob_error_link links[MOB_ERROR_LINKS_MAX + 1];
    int causes = cause ? mob_error_decode(cause, cause_bytes, links + 1, MOB_ERROR_LINKS_MAX) : 0;
    int count = 1 + (causes > 0 ? causes : 0);
    links[0] = *link;
    if (count > MOB_ERROR_LINKS_MAX) {
        links[MOB_ERROR_LINKS_MAX - 1] = links[MOB_ERROR_LINKS_MAX];
        count = MOB_ERROR_LINKS_MAX;
    }
    if (capacity > MOB_ERROR_BYTES_MAX)
        capacity = MOB_ERROR_BYTES_MAX;
    count = cut_to_fit(links, count, capacity);
    if (total_of(links, count) > capacity)
        return 0;
    /* the cause may be what `out` held before, so the result is put together elsewhere */
    uint8_t bytes[MOB_ERROR_BYTES_MAX];
    struct mob_writer w = mob_writer_of(bytes, capacity);
    mob_write_u16(&w, ERROR_VERSION);
    mob_write_u16(&w, (uint16_t)count);
    mob_write_u32(&w, 0);
    for (int i = 0; i < count; i++)
        write_link(&w, &links[i]);
    MOB_ASSERT(mob_writer_ok(&w));
    memcpy(out, bytes, mob_writer_length(&w));
    return (uint32_t)mob_writer_length(&w);
}

static bool read_link(struct mob_reader *r, struct mob_error_link *out)
{
    uint16_t status = mob_read_u16(r);
    uint16_t zero = mob_read_u16(r);
    out->status = status < MOB_STATUS_COUNT ? (enum mob_status)status : MOB_INTERNAL;
    out->signal = (int32_t)mob_read_u32(r);
    mob_read_into(r, &out->task, sizeof out->task);
    out->message_bytes = mob_read_u32(r);
    out->detail_bytes = mob_read_u32(r);
    out->message = (const char *)mob_read_bytes(r, out->message_bytes);
    out->detail = (const char *)mob_read_bytes(r, out->detail_bytes);
    return mob_reader_ok(r) && zero == 0;
}

int mob_error_decode(const void *payload, uint64_t bytes, struct mob_error_link *links_out, int max)
{
    if (bytes > MOB_ERROR_BYTES_MAX)
        return -1;
    struct mob_reader r = mob_reader_of(payload, bytes);
    uint16_t version = mob_read_u16(&r);
    int count = mob_read_u16(&r);
    (void)mob_read_u32(&r);
    if (!mob_reader_ok(&r))
        return -1;
    if (version != ERROR_VERSION) {
        MOB_LOG_WARN("wire", "error_version", "found=%u supported=%d", version, ERROR_VERSION);
        return -1;
    }
    if (count < 1 || count > MOB_ERROR_LINKS_MAX)
        return -1;
    for (int i = 0; i < count; i++) {
        struct mob_error_link link;
        if (!read_link(&r, &link))
            return -1;
        if (i < max)
            links_out[i] = link;
    }
    if (mob_reader_left(&r) != 0)
        return -1;
    return count < max ? count : max;
}
