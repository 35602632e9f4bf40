/* Frames on their way to the socket. */
#include "gcs/client/client_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define IOV_PER_WRITE 256

static void piece_add(struct link *l, struct out_piece piece)
{
    if (piece.length == 0)
        return;
    if (l->piece_first + l->piece_count == l->piece_capacity) {
        if (l->piece_first > l->piece_capacity / 2) {
            MOB_ASSERT(l->pieces != NULL);
            memmove(l->pieces, l->pieces + l->piece_first, l->piece_count * sizeof *l->pieces);
            l->piece_first = 0;
        } else {
            l->piece_capacity = l->piece_capacity == 0 ? 256 : l->piece_capacity * 2;
            l->pieces = realloc(l->pieces, l->piece_capacity * sizeof *l->pieces);
        }
    }
    MOB_ASSERT(l->pieces != NULL);
    l->pieces[l->piece_first + l->piece_count++] = piece;
}

static void text_add(struct link *l, const void *bytes, size_t length)
{
    if (length == 0)
        return;
    while (l->text_used + length > l->text_capacity) {
        l->text_capacity = l->text_capacity == 0 ? 16384 : l->text_capacity * 2;
        l->text = realloc(l->text, l->text_capacity);
        MOB_ASSERT(l->text != NULL);
    }
    memcpy(l->text + l->text_used, bytes, length);
    struct out_piece *last = l->piece_count > 0 ? &l->pieces[l->piece_first + l->piece_count - 1] : NULL;
    if (last != NULL && last->ref == NULL && last->offset + last->length == l->text_used)
        last->length += length;
    else
        piece_add(l, (struct out_piece){.offset = l->text_used, .length = length});
    l->text_used += length;
}

void out_frame(struct link *l, uint8_t type, uint64_t from, uint64_t epoch, const void *head,
    uint32_t head_bytes, const void *body, uint32_t body_bytes, struct mob_gcs_block *block)
{
    uint8_t header[MOB_GCS_FRAME_HEADER_BYTES];
    struct mob_gcs_frame frame = {.type = type,
        .shard = l->gcs->options.shard,
        .epoch = epoch,
        .from = from,
        .head_bytes = head_bytes,
        .body_bytes = body_bytes,
        .head = head,
        .body = body};
    mob_gcs_frame_encode(&frame, header);
    text_add(l, header, sizeof header);
    text_add(l, head, head_bytes);
    if (block == NULL) {
        text_add(l, body, body_bytes);
        return;
    }
    block->queued++;
    piece_add(l, (struct out_piece){.ref = body, .length = body_bytes, .block = block});
}

void out_reset(struct link *l)
{
    for (size_t i = 0; i < l->piece_count; i++)
        if (l->pieces[l->piece_first + i].block != NULL)
            l->pieces[l->piece_first + i].block->queued--;
    l->piece_first = l->piece_count = l->piece_offset = l->text_used = 0;
}

static void written(struct link *l, size_t n)
{
    while (n > 0) {
        struct out_piece *p = &l->pieces[l->piece_first];
        size_t left = p->length - l->piece_offset;
        if (n < left) {
            l->piece_offset += n;
            return;
        }
        n -= left;
        if (p->block != NULL)
            p->block->queued--;
        l->piece_first++;
        l->piece_count--;
        l->piece_offset = 0;
    }
    if (l->piece_count == 0)
        l->piece_first = l->text_used = 0;
}

enum mob_status watch_open(struct mob_gcs *g)
{
    g->epoll_fd = g->options.watch_fd > 0 ? g->options.watch_fd : epoll_create1(EPOLL_CLOEXEC);
    return g->epoll_fd < 0 ? MOB_IO : MOB_OK;
}

void watch_close(struct mob_gcs *g)
{
    if (g->options.watch_fd <= 0 && g->epoll_fd >= 0)
        close(g->epoll_fd);
}

bool out_watch(struct link *l, int op, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.u64 = l->gcs->options.watch_data};
    return epoll_ctl(l->gcs->epoll_fd, op, l->fd, &event) == 0;
}

static void want_write(struct link *l, bool want)
{
    if (l->want_write == want)
        return;
    l->want_write = want;
    out_watch(l, EPOLL_CTL_MOD, EPOLLIN | (want ? EPOLLOUT : 0u));
}

void out_flush(struct link *l)
{
    while (l->state != LINK_DOWN && l->piece_count > 0) {
        struct iovec iov[IOV_PER_WRITE];
        size_t n = 0;
        for (; n < l->piece_count && n < IOV_PER_WRITE; n++) {
            const struct out_piece *p = &l->pieces[l->piece_first + n];
            size_t skip = n == 0 ? l->piece_offset : 0;
            const uint8_t *base = p->ref != NULL ? p->ref : l->text + p->offset;
            iov[n] = (struct iovec){(void *)(uintptr_t)(base + skip), p->length - skip};
        }
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = n};
        ssize_t sent = sendmsg(l->fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (sent < 0) {
            link_fail(l, MOB_UNAVAILABLE);
            return;
        }
        written(l, (size_t)sent);
    }
    if (l->state != LINK_DOWN)
        want_write(l, l->piece_count > 0);
}
