/* A link between two members, or a member and a master: a socket whose two ends have proved to each other
 * that they know the cluster's secret (opening.h), with frames in both directions.
 *
 * An end that does not prove it, is of another cluster or shard, or speaks no common version, is told why and
 * closed; the reason is in the log of both sides. The proof is of the opening: bytes that come later are
 * covered by the frames' checksums only, so a network that others may write into needs TLS below this.
 *
 *   mob_link_dial(&self, &pool, address, &link);             // or _accept(&self, &pool, &listener, &link)
 *   add mob_link_fd() to a loop for reading and writing; when it is ready:
 *   mob_link_io(link, readable);
 *   while ((status = mob_link_next(link, &frame, &chunk)) == MOB_OK) ...   // anything but MOB_AGAIN: destroy
 * it mob_link_send(link, &message);                           // sent by mob_link_io
 *
 * One owner, no locks, no callbacks; never blocks. Limits: MOB_LINK_OUT_MAX bytes unsent, above which send
 * fails and the owner gives the link up.
 */
#ifndef MOB_GCS_LINK_LINK_H
#define MOB_GCS_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/base/listener.h"
#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_peer.h"
#include "gcs/link/chunk.h"
#include "gcs/link/opening.h"

#define MOB_LINK_OUT_MAX (64u << 20)
#define MOB_LINK_COPY_MAX 4096u /* longer bodies with a chunk under them are not copied */

struct mob_link;
/* An address is a path (a unix socket, made 0600) or host:port. Gives (fini). MOB_INVALID, MOB_TOO_LARGE (the
 * path), MOB_IO. */
MOB_MUST_USE enum mob_status mob_link_listen(const char *address, struct mob_listener *listener_out);
/* Begins to connect. MOB_UNAVAILABLE: nobody there. Gives (destroy). */
MOB_MUST_USE enum mob_status mob_link_dial(const struct mob_link_self *self, struct mob_chunk_pool *pool,
    const char *address, struct mob_link **link_out);
/* Takes the next of those who connect to a listening socket. MOB_AGAIN: there is none. */
MOB_MUST_USE enum mob_status mob_link_accept(const struct mob_link_self *self, struct mob_chunk_pool *pool,
    struct mob_listener *listener, struct mob_link **link_out);
/* Closes the socket; what is unsent is lost. NULL is fine. */
void mob_link_destroy(struct mob_link *link);
int mob_link_fd(const struct mob_link *link); /* the link's own */
/* Both ends have proved themselves. */
bool mob_link_up(const struct mob_link *link);
/* Of the other end, once it is up. */
uint64_t mob_link_peer(const struct mob_link *link);
const struct mob_gcs_place *mob_link_peer_place(const struct mob_link *link); /* borrowed from the link */
/* Nothing proves that the other end is a member, and it has said nothing since MOB_OPENING_SILENCE_NS: the
 * owner gives it up, since a place that it takes is one less for others. */
bool mob_link_silent(const struct mob_link *link, int64_t now_ns);
/* Of two that have proved nothing, which to give up for one more: true, when it is `link`. `than` may be
 * NULL. */
bool mob_link_more_silent(const struct mob_link *link, const struct mob_link *than);

struct mob_link_message {
    uint8_t type;
    uint64_t epoch;
    const void *head;
    uint32_t head_bytes;
    const void *body;
    uint32_t body_bytes;
    const void *more; /* behind the body */
    uint32_t more_bytes;
    struct mob_chunk *chunk; /* holds until sent: keeps the body alive; NULL: the body is copied */
};
/* Queues. MOB_UNAVAILABLE: not up, or full: nothing was queued. */
MOB_MUST_USE enum mob_status mob_link_send(struct mob_link *link, const struct mob_link_message *message);
size_t mob_link_unsent(const struct mob_link *link); /* bytes */
/* Writes what it can, and reads when `readable`. mob_link_next says how that went. */
void mob_link_io(struct mob_link *link, bool readable);
/* The socket took not all: wait until it is writable, too. */
bool mob_link_wants_write(const struct mob_link *link);
/* The next frame that was received, borrowed until the next call; its bytes are in `*chunk_out`, which may be
 * held. MOB_AGAIN: none now. MOB_CLOSED, MOB_CORRUPT, MOB_NO_MEMORY, or why it was refused: destroy it. */
MOB_MUST_USE enum mob_status mob_link_next(
    struct mob_link *link, struct mob_gcs_frame *frame_out, struct mob_chunk **chunk_out);
/* What mob_link_next will give next, as it was received; borrowed until then. */
const uint8_t *mob_link_ahead(const struct mob_link *link, size_t *length_out);

#endif
