#include "tests/support/raw_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_msg.h"
#include "gcs/link/opening.h"
#include "tests/support/gcs_box.h"

#define SILENCE_S 20
#define IN_BYTES (1u << 20)

struct raw_reader {
    int fd;
    struct mob_link_self self;
    struct mob_opening opening;
    uint64_t tag;
    size_t begin, end;
    uint8_t in[IN_BYTES];
};

static enum mob_status send_from(struct raw_reader *r, uint64_t from, uint8_t type, const void *head,
    uint32_t head_bytes, const void *body, uint32_t body_bytes)
{
    uint8_t bytes[MOB_GCS_FRAME_HEADER_BYTES + MOB_GCS_HEAD_MAX + 256];
    const struct mob_gcs_frame frame = {.type = type,
        .from = from,
        .head = head,
        .head_bytes = head_bytes,
        .body = body,
        .body_bytes = body_bytes};
    if (body_bytes > 256)
        return MOB_TOO_LARGE;
    mob_gcs_frame_encode(&frame, bytes);
    if (head_bytes > 0)
        memcpy(bytes + MOB_GCS_FRAME_HEADER_BYTES, head, head_bytes);
    if (body_bytes > 0)
        memcpy(bytes + MOB_GCS_FRAME_HEADER_BYTES + head_bytes, body, body_bytes);
    size_t length = (size_t)MOB_GCS_FRAME_HEADER_BYTES + head_bytes + body_bytes;
    return send(r->fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length ? MOB_OK : MOB_UNAVAILABLE;
}

static enum mob_status send_frame(struct raw_reader *r, uint8_t type, const void *head, uint32_t head_bytes,
    const void *body, uint32_t body_bytes)
{
    return send_from(r, 0, type, head, head_bytes, body, body_bytes);
}

static enum mob_status next_frame(struct raw_reader *r, struct mob_gcs_frame *out)
{
    for (;;) {
        size_t used;
        enum mob_status status =
            mob_gcs_frame_decode(r->in + r->begin, r->end - r->begin, MOB_GCS_FRAME_CLIENT_MAX, out, &used);
        if (status == MOB_OK)
            r->begin += used;
        if (status != MOB_AGAIN)
            return status;
        memmove(r->in, r->in + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->begin = 0;
        ssize_t n = recv(r->fd, r->in + r->end, IN_BYTES - r->end, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return MOB_UNAVAILABLE;
        r->end += (size_t)n;
    }
}

static enum mob_status greet(struct raw_reader *r)
{
    struct mob_opening_say say;
    struct mob_gcs_frame frame;
    mob_opening_dial(&r->opening, &r->self, &say);
    enum mob_status status = send_frame(r, say.type, say.head, say.head_bytes, NULL, 0);
    while (status == MOB_OK && r->opening.state != MOB_OPENING_PROVED) {
        status = next_frame(r, &frame);
        if (status == MOB_OK)
            status = mob_opening_take(&r->opening, &frame, &say);
        if (status == MOB_OK && say.type != 0)
            status = send_frame(r, say.type, say.head, say.head_bytes, NULL, 0);
        if (status == MOB_OK && r->opening.state == MOB_OPENING_REFUSED)
            status = r->opening.refused;
    }
    return status;
}

enum mob_status raw_reader_open(const char *socket_path, struct raw_reader **reader_out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval silence = {.tv_sec = SILENCE_S};
    struct raw_reader *r = calloc(1, sizeof *r);
    if (r == NULL || strlen(socket_path) >= sizeof address.sun_path) {
        free(r);
        return MOB_NO_MEMORY;
    }
    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    r->self = (struct mob_link_self){
        .kind = MOB_LINK_OF_CLIENTS, .protocol_min = MOB_GCS_PROTOCOL, .protocol_max = MOB_GCS_PROTOCOL};
    memcpy(r->self.secret, gcs_box_secret, sizeof r->self.secret);
    r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = r->fd >= 0 && setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence) == 0 &&
        connect(r->fd, (const struct sockaddr *)&address, sizeof address) == 0;
    enum mob_status status = good ? greet(r) : MOB_UNAVAILABLE;
    if (status != MOB_OK) {
        raw_reader_close(r);
        return status;
    }
    *reader_out = r;
    return MOB_OK;
}

void raw_reader_close(struct raw_reader *r)
{
    if (r == NULL)
        return;
    if (r->fd >= 0)
        close(r->fd);
    free(r);
}

static enum mob_status value_of(const struct mob_gcs_frame *frame, char value_out[RAW_READER_VALUE_MAX + 1u])
{
    struct mob_gcs_kv kv;
    struct mob_reader body = mob_reader_of(frame->body, frame->body_bytes);
    enum mob_status status = mob_gcs_kv_row_decode(&body, &kv);
    if (status != MOB_OK || kv.value_length > RAW_READER_VALUE_MAX)
        return MOB_CORRUPT;
    memcpy(value_out, kv.value, kv.value_length);
    value_out[kv.value_length] = 0;
    return MOB_OK;
}

enum mob_status raw_reader_get(
    struct raw_reader *r, const char *key, char value_out[RAW_READER_VALUE_MAX + 1u])
{
    /* Refusals of what was asked come with this number; news of a configuration with 0. */
    struct mob_gcs_get get = {.tag = ++r->tag, .query = MOB_GCS_Q_GET, .table = MOB_GCS_KV};
    struct mob_gcs_frame frame;
    enum mob_status status = send_frame(r, MOB_GCS_GET, &get, sizeof get, key, (uint32_t)strlen(key));
    while (status == MOB_OK) {
        struct mob_gcs_rows rows;
        status = next_frame(r, &frame);
        if (status == MOB_OK && frame.type == MOB_GCS_NACK && frame.from != 0)
            return MOB_WRONG_EPOCH;
        if (status != MOB_OK || frame.type != MOB_GCS_ROWS)
            continue;
        status = mob_gcs_rows_decode(frame.head, frame.head_bytes, &rows);
        if (status != MOB_OK || rows.tag != get.tag)
            continue;
        if (rows.status != MOB_OK)
            return (enum mob_status)rows.status;
        return rows.count == 1 ? value_of(&frame, value_out) : MOB_NOT_FOUND;
    }
    return status;
}

enum mob_status raw_reader_listen(struct raw_reader *r, uint64_t client)
{
    struct mob_gcs_frame frame = {0};
    enum mob_status status = send_from(r, client, MOB_GCS_LISTEN, NULL, 0, NULL, 0);
    while (status == MOB_OK && (frame.type != MOB_GCS_LISTEN || frame.from != client))
        status = next_frame(r, &frame);
    return status;
}
