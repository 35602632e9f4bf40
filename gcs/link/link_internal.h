/* The parts of a link: its opening (link_open.c), frames and bytes (link.c), sockets (link_address.c).
 * Internal to gcs/link. */
#ifndef MOB_GCS_LINK_LINK_INTERNAL_H
#define MOB_GCS_LINK_LINK_INTERNAL_H

#include "gcs/link/link.h"

enum link_state {
    LINK_AWAITS_HELLO = 0, /* it was connected to */
    LINK_AWAITS_CHALLENGE,
    LINK_AWAITS_PROOF,
    LINK_AWAITS_READY,
    LINK_UP,
    LINK_REFUSED /* REFUSED is being sent, or was received */
};

struct link_piece {
    const uint8_t *ref; /* NULL: in the text */
    size_t offset, length;
    struct mob_chunk *chunk; /* held */
};

struct mob_link {
    const struct mob_link_self *self;
    struct mob_chunk_pool *pool;
    int fd;
    enum link_state state;
    enum mob_status refused, ended;
    uint64_t peer;
    struct mob_gcs_place place;
    struct mob_gcs_link_hello hello; /* as it was sent, or received */
    struct mob_gcs_link_challenge challenge;

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

/* link.c */
void link_queue(struct mob_link *link, const struct mob_link_message *message);

/* link_open.c */
void link_open(struct mob_link *link); /* of the end that connects: HELLO */
/* A frame while it is not up. MOB_OK: go on. */
MOB_MUST_USE enum mob_status link_opening(struct mob_link *link, const struct mob_gcs_frame *frame);

#endif
