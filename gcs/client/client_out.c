/* Frames on their way to the socket. */
#include "gcs/client/client_internal.h"

#include <sys/epoll.h>
#include <unistd.h>

void out_block_left(void *block)
{
    ((struct mob_gcs_block *)block)->queued--;
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
    mob_out_copy(&l->out, header, sizeof header);
    mob_out_copy(&l->out, head, head_bytes);
    if (block == NULL) {
        mob_out_copy(&l->out, body, body_bytes);
        return;
    }
    block->queued++;
    mob_out_keep(&l->out, body, body_bytes, block);
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
    if (l->state == LINK_DOWN)
        return;
    enum mob_status status = mob_out_write(&l->out, l->fd);
    if (status == MOB_IO)
        link_fail(l, MOB_UNAVAILABLE);
    else
        want_write(l, status == MOB_AGAIN);
}
