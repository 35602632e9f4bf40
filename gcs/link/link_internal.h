/* The parts of a link: frames and bytes (link.c), sockets (link_address.c); how it opens: opening.h.
 * Internal to gcs/link. */
#ifndef MOB_GCS_LINK_LINK_INTERNAL_H
#define MOB_GCS_LINK_LINK_INTERNAL_H

#include "gcs/link/link.h"
#include "gcs/link/out_queue.h"

struct mob_link {
    const struct mob_link_self *self;
    struct mob_chunk_pool *pool;
    int fd;
    struct mob_opening opening;
    enum mob_status ended;
    int64_t heard_ns; /* when its opening last went on */

    struct mob_chunk *in;
    uint32_t parsed;
    struct mob_out_queue out; /* keeps chunks */
    bool wants_write;
};

/* link_address.c */
void link_tune(int fd);
MOB_MUST_USE enum mob_status link_connect(const char *address, int *fd_out);

#endif
