/* The parts of a link: frames and bytes (link.c), sockets (link_address.c); how it opens: opening.h.
 * Internal to gcs/link. */
#ifndef MOB_GCS_LINK_LINK_INTERNAL_H
#define MOB_GCS_LINK_LINK_INTERNAL_H

#include "gcs/link/link.h"

struct link_piece {
    const uint8_t *ref; /* NULL: in the text */
    size_t offset, length;
    struct mob_chunk *chunk; /* held */
};

struct mob_link {
    const struct mob_link_self *self;
    struct mob_chunk_pool *pool;
    int fd;
    struct mob_opening opening;
    enum mob_status ended;
    int64_t heard_ns; /* when its opening last went on */

    struct mob_chunk *in;
    uint32_t parsed;
    uint8_t *text;
    size_t text_used, text_capacity;
    struct link_piece *pieces;
    size_t piece_first, piece_count, piece_capacity;
    size_t piece_offset; /* written of the first */
    size_t unsent;
    bool wants_write;
};

/* link_address.c */
void link_tune(int fd);
MOB_MUST_USE enum mob_status link_connect(const char *address, int *fd_out);

#endif
