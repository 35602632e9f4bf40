/* The opening of a link: each end proves that it knows the cluster's secret, and neither says or believes
 * more before. Pure: frames in, frames out; sockets, waiting and giving up are the owner's.
 *
 *   dialer                                   acceptor
 *     HELLO who, cluster, versions, nonce  ->
 *                                          <- CHALLENGE who, version, nonce, proof(acceptor, HELLO,
 * CHALLENGE) PROOF proof(dialer, HELLO, CHALLENGE)->
 *                                          <- READY
 *
 * Links between members and masters open so (link.h), and links of clients to members (gcs/client, and
 * gcs/shard/conn.c); what is proved names the end and the kind, so a proof is good for nothing else. An end
 * that is refused is told why, in words too; the reason is in the log of both sides.
 *
 *   mob_opening_dial(&opening, &self, &say);            // or mob_opening_accept(&opening, &self)
 *   send `say`; then with each frame that comes:
 *   status = mob_opening_take(&opening, &frame, &say);  // send `say` if its type is not 0
 *   until opening.state is MOB_OPENING_PROVED, or _REFUSED, or status is not MOB_OK: close it
 *
 * One owner, no locks, no memory of its own.
 */
#ifndef MOB_GCS_LINK_OPENING_H
#define MOB_GCS_LINK_OPENING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/mac.h"
#include "common/base/status.h"
#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_peer.h"

#define MOB_OPENING_BYTES_MAX \
    4096u /* of a frame's payload: nobody sends more before it has proved itself \
           */
/* An end that has not proved itself so long after its last word is given up: five times the patience with a
 * process that waits for a processor. */
#define MOB_OPENING_SILENCE_NS (5 * 1000000000ll)

enum mob_link_kind { MOB_LINK_OF_MEMBERS = 0, MOB_LINK_OF_CLIENTS };

/* Who this end is. Kept by each link and opening. */
struct mob_link_self {
    enum mob_link_kind kind;
    uint64_t id; /* a member's; 0: a master, or a client */
    uint32_t shard;
    uint16_t protocol_min, protocol_max;
    struct mob_cluster_id cluster;
    uint8_t secret[MOB_MAC_KEY_BYTES];
    struct mob_gcs_place place; /* a member's */
};

enum mob_opening_state {
    MOB_OPENING_AWAITS_HELLO = 0, /* it was connected to */
    MOB_OPENING_AWAITS_CHALLENGE,
    MOB_OPENING_AWAITS_PROOF,
    MOB_OPENING_AWAITS_READY,
    MOB_OPENING_PROVED,
    MOB_OPENING_REFUSED /* by this end, which has to send why; or by the other */
};

struct mob_opening {
    const struct mob_link_self *self;
    enum mob_opening_state state;
    /* MOB_UNAUTHENTICATED (secret), MOB_DENIED (cluster), MOB_MISDIRECTED (shard), MOB_VERSION; MOB_OK: it
     * was not refused. */
    enum mob_status refused;
    char why[124]; /* the same in words, for people */
    uint64_t peer; /* who the other end is, once proved */
    struct mob_gcs_place place; /* the dialer's */
    struct mob_gcs_link_hello hello; /* as it was sent, or received */
    struct mob_gcs_link_challenge challenge;
};

/* A frame to be sent, without a body. */
struct mob_opening_say {
    uint8_t type; /* 0: nothing */
    uint32_t head_bytes;
    _Alignas(8) uint8_t head[sizeof(struct mob_gcs_link_hello)];
};

/* Of the end that connects: `say` is its HELLO. */
void mob_opening_dial(
    struct mob_opening *opening, const struct mob_link_self *self, struct mob_opening_say *say_out);
void mob_opening_accept(struct mob_opening *opening, const struct mob_link_self *self);
/* A frame that came while it is neither proved nor refused. MOB_OK: send what is said and look at the state.
 * MOB_CORRUPT: not a word of an opening; close it. */
MOB_MUST_USE enum mob_status mob_opening_take(
    struct mob_opening *opening, const struct mob_gcs_frame *frame, struct mob_opening_say *say_out);

#endif
