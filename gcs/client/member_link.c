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
#include "gcs/link/opening.h"

#define SILENCE_S 20
#define IN_BYTES (MOB_GCS_FRAME_CLIENT_MAX + MOB_GCS_FRAME_HEADER_BYTES + 4096u)

struct mob_member_link {
    int fd;
    uint32_t shard;
    struct mob_link_self self;
    struct mob_opening opening;
    uint64_t tag;
    bool broken;
    uint8_t *in;
    size_t begin, end;
};

/* ---- frames ---- */

static enum mob_status send_frame(
    struct mob_member_link *l, uint8_t type, const void *head, uint32_t head_bytes)
{
    uint8_t bytes[MOB_GCS_FRAME_HEADER_BYTES + MOB_GCS_HEAD_MAX];
    const struct mob_gcs_frame frame = {
        .type = type, .shard = l->shard, .head_bytes = head_bytes, .head = head};
    mob_gcs_frame_encode(&frame, bytes);
    memcpy(bytes + MOB_GCS_FRAME_HEADER_BYTES, head, head_bytes);
    size_t length = MOB_GCS_FRAME_HEADER_BYTES + head_bytes, sent = 0;
    while (sent < length) {
        ssize_t n = send(l->fd, bytes + sent, length - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        l->broken = n <= 0;
        if (l->broken)
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
    l->broken = n <= 0;
    if (l->broken)
        return MOB_UNAVAILABLE;
    l->end += (size_t)n;
    return MOB_OK;
}

static enum mob_status next_frame(struct mob_member_link *l, struct mob_gcs_frame *out)
{
    uint32_t payload_max =
        l->opening.state == MOB_OPENING_PROVED ? MOB_GCS_FRAME_CLIENT_MAX : MOB_OPENING_BYTES_MAX;
    for (;;) {
        size_t used;
        enum mob_status status =
            mob_gcs_frame_decode(l->in + l->begin, l->end - l->begin, payload_max, out, &used);
        if (status == MOB_OK)
            l->begin += used;
        if (status != MOB_AGAIN)
            return status;
        status = read_more(l);
        if (status != MOB_OK)
            return status;
    }
}

/* The next frame of a type; what else the member tells its clients is passed over. */
static enum mob_status receive(
    struct mob_member_link *l, enum mob_gcs_frame_type type, struct mob_gcs_frame *out)
{
    enum mob_status status;
    do
        status = next_frame(l, out);
    while (status == MOB_OK && out->type != type);
    return status;
}

/* ---- opening ---- */

static enum mob_status say(struct mob_member_link *l, const struct mob_opening_say *what)
{
    return what->type == 0 ? MOB_OK : send_frame(l, what->type, what->head, what->head_bytes);
}

/* Until the member has proved itself and taken this end's proof. */
static enum mob_status prove(struct mob_member_link *l)
{
    struct mob_opening_say words;
    struct mob_gcs_frame frame;
    mob_opening_dial(&l->opening, &l->self, &words);
    enum mob_status status = say(l, &words);
    while (status == MOB_OK && l->opening.state != MOB_OPENING_PROVED) {
        status = next_frame(l, &frame);
        if (status == MOB_OK)
            status = mob_opening_take(&l->opening, &frame, &words);
        if (status == MOB_OK)
            status = say(l, &words);
        if (status == MOB_OK && l->opening.state == MOB_OPENING_REFUSED)
            status = l->opening.refused;
    }
    return status;
}

static enum mob_status greet(struct mob_member_link *l)
{
    struct mob_gcs_frame frame;
    enum mob_status status = prove(l);
    return status == MOB_OK ? receive(l, MOB_GCS_WELCOME, &frame) : status;
}

enum mob_status mob_member_open(const struct mob_member_options *options, struct mob_member_link **link_out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval silence = {.tv_sec = options->silence_s > 0 ? options->silence_s : SILENCE_S};
    if (strlen(options->path) >= sizeof address.sun_path)
        return MOB_INVALID;
    struct mob_member_link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return MOB_NO_MEMORY;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", options->path);
    l->shard = options->shard;
    l->self = (struct mob_link_self){.kind = MOB_LINK_OF_CLIENTS,
        .shard = options->shard,
        .protocol_min = MOB_GCS_PROTOCOL,
        .protocol_max = MOB_GCS_PROTOCOL,
        .cluster = options->cluster};
    memcpy(l->self.secret, options->secret, sizeof l->self.secret);
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

bool mob_member_broken(const struct mob_member_link *l)
{
    return l->broken;
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
    if (status != MOB_OK)
        return status;
    if (rows.kind != MOB_GCS_ROWS_STATS)
        return MOB_CORRUPT;
    struct mob_reader r = mob_reader_of(frame.body, frame.body_bytes);
    return mob_gcs_stats_decode(&r, out);
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
