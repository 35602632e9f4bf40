/* Frames on their way to the socket. */
#include "gcs/client/client_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define IOV_PER_WRITE 256

static void piece_add(struct mob_gcs *g, struct out_piece piece)
{
    if (piece.length == 0)
        return;
    if (g->piece_first + g->piece_count == g->piece_capacity) {
        if (g->piece_first > g->piece_capacity / 2) {
            MOB_ASSERT(g->pieces != NULL);
            memmove(g->pieces, g->pieces + g->piece_first, g->piece_count * sizeof *g->pieces);
            g->piece_first = 0;
        } else {
            g->piece_capacity = g->piece_capacity == 0 ? 256 : g->piece_capacity * 2;
            g->pieces = realloc(g->pieces, g->piece_capacity * sizeof *g->pieces);
        }
    }
    MOB_ASSERT(g->pieces != NULL);
    g->pieces[g->piece_first + g->piece_count++] = piece;
}

static void text_add(struct mob_gcs *g, const void *bytes, size_t length)
{
    if (length == 0)
        return;
    while (g->text_used + length > g->text_capacity) {
        g->text_capacity = g->text_capacity == 0 ? 16384 : g->text_capacity * 2;
        g->text = realloc(g->text, g->text_capacity);
        MOB_ASSERT(g->text != NULL);
    }
    memcpy(g->text + g->text_used, bytes, length);
    struct out_piece *last = g->piece_count > 0 ? &g->pieces[g->piece_first + g->piece_count - 1] : NULL;
    if (last != NULL && last->ref == NULL && last->offset + last->length == g->text_used)
        last->length += length;
    else
        piece_add(g, (struct out_piece){.offset = g->text_used, .length = length});
    g->text_used += length;
}

void out_frame(struct mob_gcs *g, enum mob_gcs_frame_type type, uint64_t from, uint64_t epoch,
    const void *head, uint32_t head_bytes, const void *body, uint32_t body_bytes, struct mob_gcs_block *block)
{
    uint8_t header[MOB_GCS_FRAME_HEADER_BYTES];
    struct mob_gcs_frame frame = {.type = (uint8_t)type,
        .shard = g->options.shard,
        .epoch = epoch,
        .from = from,
        .head_bytes = head_bytes,
        .body_bytes = body_bytes,
        .head = head,
        .body = body};
    mob_gcs_frame_encode(&frame, header);
    text_add(g, header, sizeof header);
    text_add(g, head, head_bytes);
    if (block == NULL) {
        text_add(g, body, body_bytes);
        return;
    }
    block->queued++;
    piece_add(g, (struct out_piece){.ref = body, .length = body_bytes, .block = block});
}

void out_reset(struct mob_gcs *g)
{
    for (size_t i = 0; i < g->piece_count; i++)
        if (g->pieces[g->piece_first + i].block != NULL)
            g->pieces[g->piece_first + i].block->queued--;
    g->piece_first = g->piece_count = g->piece_offset = g->text_used = 0;
}

static void written(struct mob_gcs *g, size_t n)
{
    while (n > 0) {
        struct out_piece *p = &g->pieces[g->piece_first];
        size_t left = p->length - g->piece_offset;
        if (n < left) {
            g->piece_offset += n;
            return;
        }
        n -= left;
        if (p->block != NULL)
            p->block->queued--;
        g->piece_first++;
        g->piece_count--;
        g->piece_offset = 0;
    }
    if (g->piece_count == 0)
        g->piece_first = g->text_used = 0;
}

static void want_write(struct mob_gcs *g, bool want)
{
    if (g->want_write == want)
        return;
    g->want_write = want;
    struct epoll_event event = {.events = EPOLLIN | (want ? EPOLLOUT : 0u)};
    epoll_ctl(g->epoll_fd, EPOLL_CTL_MOD, g->fd, &event);
}

void out_flush(struct mob_gcs *g)
{
    while (g->link != LINK_DOWN && g->piece_count > 0) {
        struct iovec iov[IOV_PER_WRITE];
        size_t n = 0;
        for (; n < g->piece_count && n < IOV_PER_WRITE; n++) {
            const struct out_piece *p = &g->pieces[g->piece_first + n];
            size_t skip = n == 0 ? g->piece_offset : 0;
            const uint8_t *base = p->ref != NULL ? p->ref : g->text + p->offset;
            iov[n] = (struct iovec){(void *)(uintptr_t)(base + skip), p->length - skip};
        }
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = n};
        ssize_t sent = sendmsg(g->fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (sent < 0) {
            link_fail(g, MOB_UNAVAILABLE);
            return;
        }
        written(g, (size_t)sent);
    }
    if (g->link != LINK_DOWN)
        want_write(g, g->piece_count > 0);
}
