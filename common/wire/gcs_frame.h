/* Frames of the control store's links (GCS.md "Protocol"): client to member, later member to member.
 *
 *   u32 magic "MGCF" | u8 version | u8 type | u16 head bytes | u32 payload bytes
 *   u32 shard | u64 epoch | u64 from | u32 crc32c | u32 header's crc32c | payload
 *
 * The payload is a head of fixed fields and a body (a block, a value, rows), so that neither is copied to be
 * sent. The crc is that of the 32 bytes before it, then the head's crc, then the body's; the header's is of
 * the same 32 bytes alone, so that nobody waits for the end of a payload whose length was spoiled on its way.
 * Decoding checks magic, version, lengths and both before anybody looks at the payload. Version 1 has 0
 * instead of the header's crc, and is read. Pure.
 */
#ifndef MOB_COMMON_WIRE_GCS_FRAME_H
#define MOB_COMMON_WIRE_GCS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define MOB_GCS_FRAME_MAGIC 0x4643474du /* "MGCF" */
#define MOB_GCS_FRAME_VERSION 2u
#define MOB_GCS_FRAME_HEADER_BYTES 40u
#define MOB_GCS_FRAME_HEAD_MAX 4096u
#define MOB_GCS_FRAME_CHAIN_MAX (1u << 20) /* payload on a link between members */
#define MOB_GCS_FRAME_CLIENT_MAX (4u << 20) /* payload on a client's link */

/* Numbers are on the wire: append only. C = from a client, M = from a member. */
enum mob_gcs_frame_type {
    /* 1 was of links that opened without a proof (gcs_peer.h), and is not given again */
    MOB_GCS_WELCOME = 2, /* M: the link is open */
    MOB_GCS_ATTACH = 3, /* C: I am this client (or log) and keep requests from here on */
    MOB_GCS_ATTACHED = 4, /* M: last request that is in the tables */
    MOB_GCS_PUT = 5, /* C: an ordered operation */
    MOB_GCS_REPLY = 6, /* M: one, or a run of, committed requests */
    MOB_GCS_DURABLE = 7, /* M: durable grew; memory figures */
    MOB_GCS_NACK = 8, /* M: not in this epoch; the configuration */
    MOB_GCS_GAP = 9, /* M: requests are missing after `last` */
    MOB_GCS_EXPIRED = 10, /* M: this client or log takes nothing any more */
    MOB_GCS_RESENT = 11, /* C: all that was above ATTACHED has been sent */
    MOB_GCS_GET = 12, /* C: a read */
    MOB_GCS_ROWS = 13, /* M: its answer */
    MOB_GCS_SUB = 14, /* C: stream of committed blocks after a position */
    MOB_GCS_UNSUB = 15, /* C */
    MOB_GCS_BLOCK = 16, /* M: one block of a stream */
    MOB_GCS_RESYNC = 17, /* M: a hole in a stream */
    MOB_GCS_BYE = 18, /* C: this client ends cleanly and may be forgotten */
    MOB_GCS_COLD = 19, /* C: this client reads what was flushed, for all others; and up to where that is */
    MOB_GCS_COLD_GET = 20, /* M: a read of that */
    MOB_GCS_COLD_ROWS = 21, /* C: its answer */
    MOB_GCS_LISTEN = 22, /* C: to the tail: answers to this client (or log) come here; M: it is noted */
    MOB_GCS_HURRY = 23, /* C: another member of this chain was asked for something */
    MOB_GCS_FRAME_TYPES
};
/* Between members (gcs_link.h). */
enum mob_gcs_link_type {
    MOB_GCS_UPD = 32, /* to the successor: one entry with its resolved effect */
    MOB_GCS_ACK = 33, /* to the predecessor: all up to here is committed */
    MOB_GCS_SYNC = 34, /* to the predecessor under a new epoch (HELLO in GCS.md): what is applied here */
    MOB_GCS_SYNCEND = 35, /* to the successor: the rest has been sent */
    MOB_GCS_POSITION = 36, /* to the successor, or to the joiner: what it should have by now */
    MOB_GCS_RESEND = 37, /* to the predecessor: send from here again */
    MOB_GCS_READ = 38, /* to the successor: a read that goes through the chain */
    MOB_GCS_CONFIG = 39, /* to whoever speaks of an older epoch */
    MOB_GCS_JOIN = 40, /* joiner to the tail: the next batch of the snapshot, please */
    MOB_GCS_SNAPSHOT = 41, /* tail to the joiner: a batch of rows */
    MOB_GCS_LOG = 42, /* tail to the joiner: one entry */
    MOB_GCS_JOINED = 43, /* joiner to the tail: applied up to here */
    MOB_GCS_LEAVE = 44, /* tail to the joiner: begin again */
    MOB_GCS_LINK_TYPES
};
/* The proof of the cluster's secret with which each link opens (gcs_peer.h), and links to a master. */
enum mob_gcs_peer_type {
    MOB_GCS_LINK_HELLO = 64, /* whoever connects, first */
    MOB_GCS_LINK_CHALLENGE = 65, /* its answer, with a proof */
    MOB_GCS_LINK_PROOF = 66, /* the other proof */
    MOB_GCS_LINK_READY = 67,
    MOB_GCS_LINK_REFUSED = 68, /* instead of any of them: why */
    MOB_GCS_REPORT = 69, /* member to master: a heartbeat */
    MOB_GCS_LEASE = 70, /* master to member: heard, and perhaps a read lease */
    MOB_GCS_BOOK = 71, /* master to member: the configuration, and where its members are */
    MOB_GCS_ENTER = 72, /* master to member: join the chain */
    MOB_GCS_ENROLL = 73, /* node to master: its next incarnation, please */
    MOB_GCS_ENROLLED = 74, /* master to node: which that is, or where its home is */
    MOB_GCS_NODE_BEAT = 75, /* node to master: it lives, or leaves */
    MOB_GCS_NODE_HEARD = 76, /* master to node: its answer */
    MOB_GCS_BEGIN_ANEW = 77, /* master to member: no store of the chain is left, so make one */
    MOB_GCS_PEER_TYPES
};

struct mob_gcs_frame {
    uint8_t type; /* enum mob_gcs_frame_type, mob_gcs_link_type or mob_gcs_peer_type */
    uint32_t shard;
    uint64_t epoch;
    uint64_t from; /* client id, or log incarnation; 0 from a member */
    uint32_t head_bytes, body_bytes;
    const uint8_t *head, *body; /* decode: into the input */
    uint32_t body_crc; /* decode: crc32c of the body */
};

/* Writes the header; whoever sends it sends head and body behind it. head_bytes is at most
 * MOB_GCS_FRAME_HEAD_MAX. */
void mob_gcs_frame_encode(const struct mob_gcs_frame *frame, uint8_t header_out[MOB_GCS_FRAME_HEADER_BYTES]);
/* One frame at the start of `bytes`. MOB_OK: `*used_out` bytes of it. MOB_AGAIN: more input is needed, at
 * least
 * `*used_out` bytes in all. MOB_CORRUPT (magic, type, crc), MOB_VERSION, MOB_TOO_LARGE (`length_max`): close
 * the link. */
MOB_MUST_USE enum mob_status mob_gcs_frame_decode(const uint8_t *bytes, size_t length, uint32_t length_max,
    struct mob_gcs_frame *frame_out, size_t *used_out);
/* What stands there if it is a frame, for who wants to guess what comes: nothing is checked but that all of
 * it is there. False: it is not, or it would be longer than `length`. */
bool mob_gcs_frame_peek(
    const uint8_t *bytes, size_t length, struct mob_gcs_frame *frame_out, size_t *used_out);
const char *mob_gcs_frame_name(uint8_t type);

#endif
