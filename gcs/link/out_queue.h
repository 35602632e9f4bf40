/* Bytes on their way to a socket, in order: copies, and what is kept by others until it has left.
 *
 *   struct mob_out_queue out = {.let_go = release};      // zeroed is empty
 *   mob_out_copy(&out, header, sizeof header);
 *   mob_out_keep(&out, block->bytes, block->length, block);
 *   status = mob_out_write(&out, fd);                    // MOB_AGAIN: when the socket is writable
 *
 * Part of its owner, on the owner's thread. It grows: who adds looks at `unsent` or `count` before.
 */
#ifndef MOB_GCS_LINK_OUT_QUEUE_H
#define MOB_GCS_LINK_OUT_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

struct mob_out_piece;
struct mob_out_queue {
    void (*let_go)(void *holder); /* its bytes have left, or will not */
    size_t unsent; /* bytes */
    size_t count; /* pieces: neighbouring copies are one */
    /* private */
    struct mob_out_piece *pieces;
    size_t first, capacity;
    size_t offset; /* written of the first */
    uint8_t *text;
    size_t text_used, text_capacity;
};

void mob_out_copy(struct mob_out_queue *out, const void *bytes, size_t length);
/* Keeps `bytes` until let_go(holder), which comes once. */
void mob_out_keep(struct mob_out_queue *out, const void *bytes, size_t length, void *holder);
/* Never blocks. MOB_OK: all has left. MOB_AGAIN: the socket takes no more now. MOB_IO: it failed, see errno.
 */
MOB_MUST_USE enum mob_status mob_out_write(struct mob_out_queue *out, int fd);
/* Nothing of it is written any more. */
void mob_out_drop(struct mob_out_queue *out);
/* Drops it, and gives its memory back. */
void mob_out_fini(struct mob_out_queue *out);

#endif
