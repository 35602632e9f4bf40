#include "gcs/client/member_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/wire/gcs_frame.h"

#define SILENCE_S 20
#define IN_BYTES (MOB_GCS_FRAME_CLIENT_MAX + MOB_GCS_FRAME_HEADER_BYTES + 4096u)

struct mob_member_link {
    int fd;
    uint32_t shard;
    uint64_t tag;
    uint8_t *in;
    size_t begin, end;
};

/* ---- frames ---- */

static enum mob_status send_frame(
    struct mob_member_link *l, enum mob_gcs_frame_type type, const void *head, uint32_t head_bytes)
{
    uint8_t bytes[MOB_GCS_FRAME_HEADER_BYTES + MOB_GCS_HEAD_MAX];
    const struct mob_gcs_frame frame = {
        .type = (uint8_t)type, .shard = l->shard, .head_bytes = head_bytes, .head = head};
    mob_gcs_frame_encode(&frame, bytes);
    memcpy(bytes + MOB_GCS_FRAME_HEADER_BYTES, head, head_bytes);
    size_t length = MOB_GCS_FRAME_HEADER_BYTES + head_bytes, sent = 0;
    while (sent < length) {
        ssize_t n = send(l->fd, bytes + sent, length - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return MOB_UNAVAILABLE;
        sent += (size_t)n;
    }
    return MOB_OK;
}

static enum mob_status read_more(struct mob_member_link *l)
{
    if (l->begin > 0)
        memmove(l->in, l->in + l->begin, l->end - l->begin);
    l->end -= l->begin;
    l->begin = 0;
    ssize_t n;
    do
        n = recv(l->fd, l->in + l->end, IN_BYTES - l->end, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return MOB_UNAVAILABLE;
    l->end += (size_t)n;
    return MOB_OK;
}

/* The next frame of a type; what else the member tells its clients is passed over. */
static enum mob_status receive(
    struct mob_member_link *l, enum mob_gcs_frame_type type, struct mob_gcs_frame *out)
{
    for (;;) {
        size_t used;
        enum mob_status status =
            mob_gcs_frame_decode(l->in + l->begin, l->end - l->begin, MOB_GCS_FRAME_CLIENT_MAX, out, &used);
        if (status == MOB_OK) {
            l->begin += used;
            if (out->type == type)
                return MOB_OK;
        } else if (status != MOB_AGAIN) {
            return status;
        } else if ((status = read_more(l)) != MOB_OK) {
            return status;
        }
    }
}

/* ---- opening ---- */

static enum mob_status greet(struct mob_member_link *l)
{
    const struct mob_gcs_hello hello = {.protocol_min = MOB_GCS_PROTOCOL, .protocol_max = MOB_GCS_PROTOCOL};
    struct mob_gcs_frame frame;
    struct mob_gcs_welcome welcome;
    enum mob_status status = send_frame(l, MOB_GCS_HELLO, &hello, sizeof hello);
    if (status == MOB_OK)
        status = receive(l, MOB_GCS_WELCOME, &frame);
    if (status == MOB_OK)
        status = mob_gcs_welcome_decode(frame.head, frame.head_bytes, &welcome);
    return status == MOB_OK ? (enum mob_status)welcome.reason : status;
}

enum mob_status mob_member_open(const char *path, uint32_t shard, struct mob_member_link **link_out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval silence = {.tv_sec = SILENCE_S};
    if (strlen(path) >= sizeof address.sun_path)
        return MOB_INVALID;
    struct mob_member_link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return MOB_NO_MEMORY;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    l->shard = shard;
    l->in = malloc(IN_BYTES);
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = l->in != NULL && l->fd >= 0 &&
        setsockopt(l->fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence) == 0 &&
        setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof silence) == 0 &&
        connect(l->fd, (const struct sockaddr *)&address, sizeof address) == 0;
    enum mob_status status = good ? greet(l) : MOB_UNAVAILABLE;
    if (status != MOB_OK) {
        mob_member_close(l);
        return status;
    }
    *link_out = l;
    return MOB_OK;
}

void mob_member_close(struct mob_member_link *l)
{
    if (l == NULL)
        return;
    if (l->fd >= 0)
        close(l->fd);
    free(l->in);
    free(l);
}

/* ---- asking ---- */

static enum mob_status ask(struct mob_member_link *l, struct mob_gcs_get *get, struct mob_gcs_rows *rows,
    struct mob_gcs_frame *frame)
{
    get->tag = ++l->tag;
    get->table = MOB_GCS_HERE;
    enum mob_status status = send_frame(l, MOB_GCS_GET, get, sizeof *get);
    if (status == MOB_OK)
        status = receive(l, MOB_GCS_ROWS, frame);
    if (status == MOB_OK)
        status = mob_gcs_rows_decode(frame->head, frame->head_bytes, rows);
    return status == MOB_OK ? (enum mob_status)rows->status : status;
}

enum mob_status mob_member_stats(struct mob_member_link *l, struct mob_gcs_stats *out)
{
    struct mob_gcs_get get = {.query = MOB_GCS_Q_STATS};
    struct mob_gcs_rows rows;
    struct mob_gcs_frame frame;
    enum mob_status status = ask(l, &get, &rows, &frame);
    if (status == MOB_OK && (rows.kind != MOB_GCS_ROWS_STATS || frame.body_bytes != sizeof *out))
        status = MOB_CORRUPT;
    if (status == MOB_OK)
        memcpy(out, frame.body, sizeof *out);
    return status;
}

enum mob_status mob_member_scan(struct mob_member_link *l, uint64_t position, uint32_t limit,
    struct mob_gcs_block_row *rows_out, uint32_t *count_out, uint64_t *next_out)
{
    struct mob_gcs_get get = {.query = MOB_GCS_Q_SCAN, .limit = limit, .position = position};
    struct mob_gcs_rows rows;
    struct mob_gcs_frame frame;
    enum mob_status status = ask(l, &get, &rows, &frame);
    if (status != MOB_OK)
        return status;
    if (rows.kind != MOB_GCS_ROWS_BLOCKS || rows.count > MOB_GCS_ROWS_MAX)
        return MOB_CORRUPT;
    struct mob_reader r = mob_reader_of(frame.body, frame.body_bytes);
    for (uint32_t i = 0; i < rows.count && status == MOB_OK; i++)
        status = mob_gcs_block_row_decode(&r, &rows_out[i]);
    if (status != MOB_OK)
        return status;
    *count_out = rows.count;
    *next_out = rows.next;
    return MOB_OK;
}
