/* Messages between the members of a chain (GCS.md "Protocol").
 *
 * A message is a frame (gcs_frame.h) whose `from` is the sending member and whose `epoch` is that of the
 * sender's configuration. Its head is a struct mob_gcs_link; UPD and LOG have a struct mob_gcs_entry behind
 * it, CONFIG and SYNC a struct mob_gcs_config. The body is the entry's body and then the seqs that it drops,
 * or rows of a snapshot, or what a read asks. Decoders check every length, never allocate and point into the
 * input. Pure.
 */
#ifndef MOB_COMMON_WIRE_GCS_LINK_H
#define MOB_COMMON_WIRE_GCS_LINK_H

#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/status.h"
#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_msg.h"

#define MOB_GCS_MEMBERS_MAX 7u

/* A member is one start of one store: the store has a random name, given when it is formatted, and counts its
 * starts; both are on its disk before anybody hears of them. So a member's id is never used again, and the
 * next life of a member can be told from it. */
#define MOB_GCS_MEMBER_LIFE_BITS 24u
static inline uint64_t mob_gcs_member_store(uint64_t member)
{
    return member >> MOB_GCS_MEMBER_LIFE_BITS;
}

/* What the chain of a shard consists of; the master makes one after the other, each with epoch + 1. */
struct mob_gcs_config {
    uint64_t epoch, term; /* epoch 0: none yet; term of the master that made it */
    uint32_t count;
    uint32_t start; /* 1: everything had died; the only member first collects what clients keep */
    uint64_t members[MOB_GCS_MEMBERS_MAX]; /* head first, tail last */
    uint64_t started; /* epoch of the newest configuration, up to this one, with `start`; 0: none was. So who
                         missed that one hears of it from any later one */
};
struct mob_gcs_link {
    uint64_t to; /* whom it is for: member ids are never used again */
    uint64_t seq; /* UPD, LOG: the entry's; else how far the sender (SYNC: the receiver of resends) is */
    uint64_t prev; /* UPD, LOG: seq of the entry before; JOIN, SNAPSHOT: number of the batch;
                      ACK: 1: clients are to wait (mob_chain_paced) */
    uint64_t committed;
    uint64_t durable; /* downstream: on the disk of all up to here; ACK: of the whole chain */
    uint64_t digest; /* of the history: UPD, LOG at prev; SYNCEND, SNAPSHOT at seq */
    uint64_t state_digest; /* SYNCEND: of the tables at seq */
    uint64_t token; /* JOIN to LEAVE, POSITION to a joiner: which attempt; READ: the reader's tag; ACK: bytes
                       of memory of the fullest member from the sender on (0: of an earlier version) */
    uint64_t client; /* READ */
};
/* An entry without its body. */
struct mob_gcs_entry {
    uint64_t epoch; /* in which its head gave it its seq */
    uint64_t client, request, target, version, number, next;
    uint32_t status, body_bytes, key_length, drop_count;
    uint32_t body_crc;
    uint8_t op, table;
    uint16_t zero;
};
_Static_assert(sizeof(struct mob_gcs_config) == 88 && sizeof(struct mob_gcs_link) == 72 &&
        sizeof(struct mob_gcs_entry) == 80,
    "layouts on the wire");

/* The longest head of a member's message. */
#define MOB_GCS_LINK_HEAD_MAX (sizeof(struct mob_gcs_link) + sizeof(struct mob_gcs_config))

/* A decoded message. Pointers go into the frame's input. */
struct mob_gcs_link_msg {
    uint8_t type; /* enum mob_gcs_link_type */
    uint64_t epoch, from;
    struct mob_gcs_link link;
    struct mob_gcs_entry entry; /* UPD, LOG */
    struct mob_gcs_config config; /* CONFIG, SYNC */
    const uint8_t *body; /* UPD, LOG: the entry's body; else all of the frame's */
    uint32_t body_bytes;
    const uint8_t *drops; /* UPD, LOG: entry.drop_count u64, not aligned */
};
static inline bool mob_gcs_link_has_entry(uint8_t type)
{
    return type == MOB_GCS_UPD || type == MOB_GCS_LOG;
}
static inline bool mob_gcs_link_has_config(uint8_t type)
{
    return type == MOB_GCS_CONFIG || type == MOB_GCS_SYNC;
}
/* Between members, so nobody else may send it. */
static inline bool mob_gcs_is_link_frame(uint8_t type)
{
    return type >= MOB_GCS_UPD && type < MOB_GCS_LINK_TYPES;
}
/* Writes the head (at most MOB_GCS_LINK_HEAD_MAX) and returns its length; the body follows as it is. */
uint32_t mob_gcs_link_encode(const struct mob_gcs_link_msg *msg, uint8_t *head_out);
/* MOB_TRUNCATED, MOB_CORRUPT (lengths that do not add up, unknown numbers): close the link. */
MOB_MUST_USE enum mob_status mob_gcs_link_decode(
    const struct mob_gcs_frame *frame, struct mob_gcs_link_msg *msg_out);
/* Members are distinct and not 0, their number fits, and the last start is not of the future. */
bool mob_gcs_config_valid(const struct mob_gcs_config *config);

#endif
