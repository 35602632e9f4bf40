#include "gcs/client/member_link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/unix_socket.h"
#include "common/base/log.h"
#include "common/wire/gcs_frame.h"
#include "gcs/link/opening.h"

#define SILENCE_S 20
#define BODY_MAX (MOB_GCS_GROUPS_MAX * sizeof(struct mob_gcs_group_key)) /* of what is sent */
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

static enum mob_status send_with(struct mob_member_link *l, struct mob_gcs_frame frame)
{
    uint8_t bytes[MOB_GCS_FRAME_HEADER_BYTES + MOB_GCS_HEAD_MAX + BODY_MAX];
    MOB_ASSERT(frame.head_bytes <= MOB_GCS_HEAD_MAX && frame.body_bytes <= BODY_MAX);
    frame.shard = l->shard;
    mob_gcs_frame_encode(&frame, bytes);
    memcpy(bytes + MOB_GCS_FRAME_HEADER_BYTES, frame.head, frame.head_bytes);
    if (frame.body_bytes > 0)
        memcpy(bytes + MOB_GCS_FRAME_HEADER_BYTES + frame.head_bytes, frame.body, frame.body_bytes);
    size_t length = MOB_GCS_FRAME_HEADER_BYTES + frame.head_bytes + frame.body_bytes, sent = 0;
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

static enum mob_status send_frame(
    struct mob_member_link *l, uint8_t type, const void *head, uint32_t head_bytes)
{
    return send_with(l, (struct mob_gcs_frame){.type = type, .head_bytes = head_bytes, .head = head});
}

/* MOB_AGAIN: there is nothing now (`flags`: MSG_DONTWAIT). */
static enum mob_status read_more(struct mob_member_link *l, int flags)
{
    if (l->begin > 0)
        memmove(l->in, l->in + l->begin, l->end - l->begin);
    l->end -= l->begin;
    l->begin = 0;
    ssize_t n;
    do
        n = recv(l->fd, l->in + l->end, IN_BYTES - l->end, flags);
    while (n < 0 && errno == EINTR);
    if (n < 0 && flags != 0 && errno == EAGAIN)
        return MOB_AGAIN;
    l->broken = n <= 0;
    if (l->broken)
        return MOB_UNAVAILABLE;
    l->end += (size_t)n;
    return MOB_OK;
}

/* MOB_AGAIN: no whole one has come. */
static enum mob_status frame_here(struct mob_member_link *l, struct mob_gcs_frame *out)
{
    uint32_t payload_max =
        l->opening.state == MOB_OPENING_PROVED ? MOB_GCS_FRAME_CLIENT_MAX : MOB_OPENING_BYTES_MAX;
    size_t used;
    enum mob_status status =
        mob_gcs_frame_decode(l->in + l->begin, l->end - l->begin, payload_max, out, &used);
    if (status == MOB_OK)
        l->begin += used;
    return status;
}

static enum mob_status next_frame(struct mob_member_link *l, struct mob_gcs_frame *out)
{
    for (;;) {
        enum mob_status status = frame_here(l, out);
        if (status != MOB_AGAIN)
            return status;
        status = read_more(l, 0);
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

static enum mob_status dial(struct mob_member_link *l)
{
    struct mob_opening_say words;
    mob_opening_dial(&l->opening, &l->self, &words);
    return say(l, &words);
}

static enum mob_status proof_step(struct mob_member_link *l, const struct mob_gcs_frame *frame)
{
    struct mob_opening_say words;
    enum mob_status status = mob_opening_take(&l->opening, frame, &words);
    if (status == MOB_OK)
        status = say(l, &words);
    return status == MOB_OK && l->opening.state == MOB_OPENING_REFUSED ? l->opening.refused : status;
}

/* Until the member has proved itself and taken this end's proof. */
static enum mob_status prove(struct mob_member_link *l)
{
    struct mob_gcs_frame frame;
    enum mob_status status = dial(l);
    while (status == MOB_OK && l->opening.state != MOB_OPENING_PROVED) {
        status = next_frame(l, &frame);
        if (status == MOB_OK)
            status = proof_step(l, &frame);
    }
    return status;
}

static enum mob_status greet(struct mob_member_link *l)
{
    struct mob_gcs_frame frame;
    enum mob_status status = prove(l);
    return status == MOB_OK ? receive(l, MOB_GCS_WELCOME, &frame) : status;
}

/* NULL: out of memory. */
static struct mob_member_link *link_create(const struct mob_member_options *options)
{
    struct mob_member_link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->shard = options->shard;
    l->self = (struct mob_link_self){.kind = MOB_LINK_OF_CLIENTS,
        .shard = options->shard,
        .protocol_min = MOB_GCS_PROTOCOL,
        .protocol_max = MOB_GCS_PROTOCOL,
        .cluster = options->cluster};
    memcpy(l->self.secret, options->secret, sizeof l->self.secret);
    l->in = malloc(IN_BYTES);
    l->fd = -1;
    if (l->in == NULL) {
        free(l);
        return NULL;
    }
    return l;
}

enum mob_status mob_member_open(const struct mob_member_options *options, struct mob_member_link **link_out)
{
    struct sockaddr_un address;
    struct timeval silence = {.tv_sec = options->silence_s > 0 ? options->silence_s : SILENCE_S};
    if (mob_unix_address(options->path, &address) != MOB_OK)
        return MOB_INVALID;
    struct mob_member_link *l = link_create(options);
    if (l == NULL)
        return MOB_NO_MEMORY;
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = l->fd >= 0 && setsockopt(l->fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence) == 0 &&
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

static enum mob_status send_get(struct mob_member_link *l, struct mob_gcs_get *get)
{
    get->tag = ++l->tag;
    get->table = MOB_GCS_HERE;
    return send_frame(l, MOB_GCS_GET, get, sizeof *get);
}

static enum mob_status answer(
    struct mob_member_link *l, struct mob_gcs_rows *rows, struct mob_gcs_frame *frame)
{
    enum mob_status status = receive(l, MOB_GCS_ROWS, frame);
    if (status == MOB_OK)
        status = mob_gcs_rows_decode(frame->head, frame->head_bytes, rows);
    return status == MOB_OK ? (enum mob_status)rows->status : status;
}

static enum mob_status ask(struct mob_member_link *l, struct mob_gcs_get *get, struct mob_gcs_rows *rows,
    struct mob_gcs_frame *frame)
{
    enum mob_status status = send_get(l, get);
    return status == MOB_OK ? answer(l, rows, frame) : status;
}

static enum mob_status read_stats(
    const struct mob_gcs_rows *rows, const struct mob_gcs_frame *frame, struct mob_gcs_stats *out)
{
    if (rows->kind != MOB_GCS_ROWS_STATS)
        return MOB_CORRUPT;
    struct mob_reader r = mob_reader_of(frame->body, frame->body_bytes);
    return mob_gcs_stats_decode(&r, out);
}

enum mob_status mob_member_stats(struct mob_member_link *l, struct mob_gcs_stats *out)
{
    struct mob_gcs_get get = {.query = MOB_GCS_Q_STATS};
    struct mob_gcs_rows rows;
    struct mob_gcs_frame frame;
    enum mob_status status = ask(l, &get, &rows, &frame);
    return status == MOB_OK ? read_stats(&rows, &frame, out) : status;
}

enum mob_status mob_member_marks(
    struct mob_member_link *l, struct mob_gcs_mark out[MOB_GCS_MARKS_MAX], uint32_t *count_out)
{
    struct mob_gcs_get get = {.query = MOB_GCS_Q_MARKS};
    struct mob_gcs_rows rows;
    struct mob_gcs_frame frame;
    enum mob_status status = ask(l, &get, &rows, &frame);
    if (status != MOB_OK)
        return status;
    if (rows.kind != MOB_GCS_ROWS_MARKS || rows.count > MOB_GCS_MARKS_MAX ||
        frame.body_bytes != rows.count * sizeof out[0])
        return MOB_CORRUPT;
    if (rows.count > 0)
        memcpy(out, frame.body, frame.body_bytes);
    *count_out = rows.count;
    return MOB_OK;
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

enum mob_status mob_member_index(struct mob_member_link *l, const struct mob_gcs_group_key *keys,
    uint32_t count, uint64_t position, struct mob_member_index *out)
{
    struct mob_gcs_get get = {
        .tag = ++l->tag, .query = MOB_GCS_Q_INDEX, .table = MOB_GCS_HERE, .position = position};
    struct mob_gcs_rows rows;
    struct mob_gcs_frame frame;
    if (count > MOB_GCS_GROUPS_MAX)
        return MOB_INVALID;
    enum mob_status status = send_with(l,
        (struct mob_gcs_frame){.type = MOB_GCS_GET,
            .head_bytes = sizeof get,
            .body_bytes = count * (uint32_t)sizeof keys[0],
            .head = (const uint8_t *)&get,
            .body = (const uint8_t *)keys});
    if (status == MOB_OK)
        status = answer(l, &rows, &frame);
    if (status != MOB_OK)
        return status;
    if (rows.kind != MOB_GCS_ROWS_INDEX || rows.count > MOB_MEMBER_INDEX_MAX ||
        frame.body_bytes != rows.count * sizeof out->rows[0])
        return MOB_CORRUPT;
    if (rows.count > 0)
        memcpy(out->rows, frame.body, frame.body_bytes);
    for (uint32_t i = 0; i < rows.count; i++)
        if (out->rows[i].key >= count)
            return MOB_CORRUPT;
    out->count = rows.count;
    out->next = rows.next;
    return MOB_OK;
}

/* ---- all members of a shard ---- */

uint32_t mob_members_of(const char *addresses, uint32_t shard, struct mob_member_place *out, uint32_t max)
{
    uint32_t count = 0;
    for (; shard > 0 && addresses != NULL; shard--) {
        addresses = strchr(addresses, ';');
        addresses = addresses == NULL ? NULL : addresses + 1;
    }
    while (addresses != NULL && *addresses != '\0' && *addresses != ';' && count < max) {
        size_t length = strcspn(addresses, ",;");
        struct mob_member_place *one = &out[count];
        if (length > 0 && length < sizeof one->path) {
            memcpy(one->path, addresses, length);
            one->path[length] = '\0';
            const char *slash = strrchr(one->path, '/');
            one->name = slash == NULL ? one->path : slash + 1;
            count++;
        }
        addresses += length + (addresses[length] == ',');
    }
    return count;
}

const char *mob_member_role(const struct mob_gcs_config *chain, uint64_t member)
{
    for (uint32_t i = 0; i < chain->count; i++)
        if (chain->members[i] == member)
            return chain->count == 1 ? "sole" : i == 0 ? "head" : i + 1 < chain->count ? "middle" : "tail";
    return NULL;
}

/* One of several that are asked at once: answered when its status is not MOB_AGAIN. */
struct asked {
    struct mob_member_link *link; /* NULL: there is none */
    bool greeted;
};

static enum mob_status ask_begin(const struct mob_member_options *options, struct asked *a)
{
    struct sockaddr_un address;
    *a = (struct asked){0};
    if (mob_unix_address(options->path, &address) != MOB_OK || (a->link = link_create(options)) == NULL)
        return MOB_UNAVAILABLE;
    a->link->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (a->link->fd < 0 || connect(a->link->fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return MOB_UNAVAILABLE;
    enum mob_status status = dial(a->link);
    return status == MOB_OK ? MOB_AGAIN : status;
}

/* What the member tells its clients and was not asked for is passed over. */
static enum mob_status ask_frame(
    struct asked *a, const struct mob_gcs_frame *frame, struct mob_gcs_stats *out)
{
    struct mob_member_link *l = a->link;
    struct mob_gcs_get get = {.query = MOB_GCS_Q_STATS};
    struct mob_gcs_rows rows;
    enum mob_status status = MOB_OK;
    if (l->opening.state != MOB_OPENING_PROVED) {
        status = proof_step(l, frame);
    } else if (!a->greeted && frame->type == MOB_GCS_WELCOME) {
        a->greeted = true;
        status = send_get(l, &get);
    } else if (a->greeted && frame->type == MOB_GCS_ROWS) {
        status = mob_gcs_rows_decode(frame->head, frame->head_bytes, &rows);
        if (status == MOB_OK)
            status = (enum mob_status)rows.status;
        return status == MOB_OK ? read_stats(&rows, frame, out) : status;
    }
    return status == MOB_OK ? MOB_AGAIN : status;
}

/* Something has come from it. */
static enum mob_status ask_step(struct asked *a, struct mob_gcs_stats *out)
{
    struct mob_gcs_frame frame;
    enum mob_status status = read_more(a->link, MSG_DONTWAIT);
    while (status == MOB_OK && (status = frame_here(a->link, &frame)) == MOB_OK) {
        status = ask_frame(a, &frame, out);
        if (status != MOB_AGAIN)
            return status;
        status = MOB_OK;
    }
    return status;
}

/* Until somebody has said something, or the deadline. False: nobody is left who might. */
static bool wait_for_any(const struct asked *asked, uint32_t count, const struct mob_member_answer *answers,
    int64_t deadline_ns, struct pollfd *fds)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        bool waits = answers[i].status == MOB_AGAIN;
        fds[i] = (struct pollfd){.fd = waits ? asked[i].link->fd : -1, .events = POLLIN};
        any = any || waits;
    }
    int64_t left = deadline_ns - mob_now();
    if (!any || left <= 0)
        return false;
    return poll(fds, count, (int)((left + MOB_MS - 1) / MOB_MS)) >= 0 || errno == EINTR;
}

void mob_members_ask(const struct mob_member_options *options, uint32_t count, int64_t deadline_ns,
    struct mob_member_answer *out)
{
    struct asked asked[MOB_MEMBERS_ASKED_MAX];
    struct pollfd fds[MOB_MEMBERS_ASKED_MAX];
    MOB_ASSERT(count <= MOB_MEMBERS_ASKED_MAX);
    for (uint32_t i = 0; i < count; i++)
        out[i].status = ask_begin(&options[i], &asked[i]);
    while (wait_for_any(asked, count, out, deadline_ns, fds))
        for (uint32_t i = 0; i < count; i++)
            if (asked[i].link != NULL && fds[i].revents != 0)
                out[i].status = ask_step(&asked[i], &out[i].stats);
    for (uint32_t i = 0; i < count; i++) {
        if (out[i].status == MOB_AGAIN)
            out[i].status = MOB_UNAVAILABLE;
        mob_member_close(asked[i].link);
    }
}
