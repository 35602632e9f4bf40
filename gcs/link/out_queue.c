#include "gcs/link/out_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "common/base/log.h"

#define IOV_PER_WRITE 256
#define PIECES_AT_FIRST 64
#define TEXT_BYTES_AT_FIRST 4096

struct mob_out_piece {
    const uint8_t *kept; /* NULL: in the text */
    size_t offset, length;
    void *holder;
};

static void piece_add(struct mob_out_queue *out, struct mob_out_piece piece)
{
    if (out->first + out->count == out->capacity) {
        if (out->first > out->capacity / 2) {
            MOB_ASSERT(out->pieces != NULL);
            memmove(out->pieces, out->pieces + out->first, out->count * sizeof *out->pieces);
            out->first = 0;
        } else {
            out->capacity = out->capacity == 0 ? PIECES_AT_FIRST : out->capacity * 2;
            out->pieces = realloc(out->pieces, out->capacity * sizeof *out->pieces);
        }
    }
    MOB_ASSERT(out->pieces != NULL);
    out->pieces[out->first + out->count++] = piece;
    out->unsent += piece.length;
}

void mob_out_copy(struct mob_out_queue *out, const void *bytes, size_t length)
{
    if (length == 0)
        return;
    while (out->text_used + length > out->text_capacity) {
        out->text_capacity = out->text_capacity == 0 ? TEXT_BYTES_AT_FIRST : out->text_capacity * 2;
        out->text = realloc(out->text, out->text_capacity);
        MOB_ASSERT(out->text != NULL);
    }
    memcpy(out->text + out->text_used, bytes, length);
    struct mob_out_piece *last = out->count > 0 ? &out->pieces[out->first + out->count - 1] : NULL;
    if (last != NULL && last->kept == NULL && last->offset + last->length == out->text_used) {
        last->length += length;
        out->unsent += length;
    } else {
        piece_add(out, (struct mob_out_piece){.offset = out->text_used, .length = length});
    }
    out->text_used += length;
}

void mob_out_keep(struct mob_out_queue *out, const void *bytes, size_t length, void *holder)
{
    if (length > 0)
        piece_add(out, (struct mob_out_piece){.kept = bytes, .length = length, .holder = holder});
    else
        out->let_go(holder);
}

static void first_ends(struct mob_out_queue *out)
{
    const struct mob_out_piece *p = &out->pieces[out->first];
    if (p->kept != NULL)
        out->let_go(p->holder);
    out->first++;
    out->count--;
    out->offset = 0;
    if (out->count == 0)
        out->first = out->text_used = 0;
}

static void written(struct mob_out_queue *out, size_t bytes)
{
    out->unsent -= bytes;
    while (bytes > 0) {
        size_t left = out->pieces[out->first].length - out->offset;
        if (bytes < left) {
            out->offset += bytes;
            return;
        }
        bytes -= left;
        first_ends(out);
    }
}

/* One piece, as a small request is, costs less without the list. */
static ssize_t send_pieces(const struct mob_out_queue *out, int fd)
{
    struct iovec iov[IOV_PER_WRITE];
    size_t n = 0;
    for (; n < out->count && n < IOV_PER_WRITE; n++) {
        const struct mob_out_piece *p = &out->pieces[out->first + n];
        size_t skip = n == 0 ? out->offset : 0;
        const uint8_t *base = p->kept != NULL ? p->kept : out->text + p->offset;
        iov[n] = (struct iovec){(void *)(uintptr_t)(base + skip), p->length - skip};
    }
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = n};
    return n == 1 ? send(fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL)
                  : sendmsg(fd, &message, MSG_NOSIGNAL);
}

enum mob_status mob_out_write(struct mob_out_queue *out, int fd)
{
    while (out->count > 0) {
        ssize_t sent = send_pieces(out, fd);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? MOB_AGAIN : MOB_IO;
        written(out, (size_t)sent);
    }
    return MOB_OK;
}

void mob_out_drop(struct mob_out_queue *out)
{
    while (out->count > 0)
        first_ends(out);
    out->unsent = 0;
}

void mob_out_fini(struct mob_out_queue *out)
{
    mob_out_drop(out);
    free(out->text);
    free(out->pieces);
    out->text = NULL;
    out->pieces = NULL;
    out->text_capacity = out->capacity = 0;
}
