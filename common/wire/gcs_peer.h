/* How each link of the control store opens, and what members of a chain and masters say to each other besides
 * the chain's own messages (gcs_link.h).
 *
 * A link, of members as of clients, is opened by HELLO, CHALLENGE, PROOF, READY: either side proves that it
 * knows the cluster's secret before it believes anything, and names itself, its cluster and the protocol
 * versions that it speaks. The proof is a keyed hash over the role and the kind of link, the HELLO and the
 * CHALLENGE (without the proof in it), so neither side's can be sent back, or used for another link.
 * Afterwards a member reports to the masters, and hears from them; a node does so to the masters of its home
 * shard. Heads are structs without holes; decoders check lengths. Pure.
 */
#ifndef MOB_COMMON_WIRE_GCS_PEER_H
#define MOB_COMMON_WIRE_GCS_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/id.h"
#include "common/base/status.h"
#include "common/wire/gcs_link.h"

/* 1: configurations did not say when the chain was last started, nor sources to a joiner that they are there;
 * 2: no member was told to begin anew */
#define MOB_GCS_PEER_PROTOCOL 3u
#define MOB_GCS_NONCE_BYTES 32u
#define MOB_GCS_PROOF_BYTES 32u
#define MOB_GCS_ADDRESS_MAX 112u /* with NUL: a path, or host:port */

/* Where a member is reached, by other members and by clients. */
struct mob_gcs_place {
    char link[MOB_GCS_ADDRESS_MAX], client[MOB_GCS_ADDRESS_MAX];
};
struct mob_gcs_link_hello {
    uint16_t protocol_min, protocol_max;
    uint32_t shard;
    struct mob_cluster_id cluster;
    uint64_t self; /* a member's id; 0 a master, or a client */
    uint8_t nonce[MOB_GCS_NONCE_BYTES];
    struct mob_gcs_place place;
};
struct mob_gcs_link_challenge {
    uint16_t protocol, zero;
    uint32_t shard;
    struct mob_cluster_id cluster;
    uint64_t self;
    uint8_t nonce[MOB_GCS_NONCE_BYTES];
    uint8_t proof[MOB_GCS_PROOF_BYTES];
};
struct mob_gcs_link_proof {
    uint8_t proof[MOB_GCS_PROOF_BYTES];
};
struct mob_gcs_link_refused {
    uint32_t reason; /* enum mob_status */
    char text[124];
};
/* A heartbeat: struct mob_member_report (gcs/chain/membership.h) without knowing it, and what only the
 * processes need. */
struct mob_gcs_report {
    uint64_t member, epoch;
    uint8_t state, busy;
    uint16_t pause_ms; /* the next one comes within so long; 0: at the full rate */
    uint32_t synced;
    uint64_t synced_on_disk;
    int64_t sent_ns, heard_ns;
    uint64_t applied, committed, joiner, joiner_lag, stored_epoch, stored_seq, stored_synced;
    uint64_t book_epoch; /* of the newest BOOK that it has */
    int64_t pid;
};
#define MOB_GCS_LEASE_READS 1u /* the read lease runs from sent_ns */
#define MOB_GCS_LEASE_HURRY 2u /* no answer: report at once, and at the full rate for a while */
struct mob_gcs_lease {
    uint64_t member, epoch;
    int64_t sent_ns, heard_ns;
    uint64_t flags; /* MOB_GCS_LEASE_* */
};
struct mob_gcs_enter {
    uint64_t member, epoch;
};
/* A store without anything, behind all that was ever given out; and what is known of what was lost. */
struct mob_gcs_begin_anew {
    uint64_t member;
    uint64_t epoch, seq; /* of the new store: its chain has a later epoch, its first entry seq + 1 */
    uint64_t flushed; /* blocks up to here are read from PostgreSQL; 0: it has none */
    uint64_t lost_epoch; /* of the last configuration */
    uint64_t lost_seq; /* the chain had come at least so far */
    uint64_t newest_log; /* incarnation */
};
/* A node and the master of its home shard (gcs/chain/node_watch.h). */
struct mob_gcs_enroll {
    uint64_t start; /* random number of this start of the process */
    int64_t pid;
    char node[MOB_GCS_NAME_MAX + 1u]; /* with NUL */
};
struct mob_gcs_enrolled {
    uint64_t incarnation;
    uint32_t status; /* enum mob_status; MOB_MISDIRECTED: the home is another shard */
    uint32_t home;
};
struct mob_gcs_node_beat {
    uint64_t incarnation;
    uint64_t leaving; /* 1: its log ends here */
};
struct mob_gcs_node_heard {
    uint64_t incarnation;
    uint64_t over; /* 1: it was declared dead, and its log is sealed, or is being sealed */
};
/* A log that takes nothing above its first `cut` blocks; UINT64_MAX: nobody was told the cut yet. The head of
 * a BOOK whose chain starts again after everything died. */
struct mob_gcs_seal {
    uint64_t incarnation, cut;
};
#define MOB_GCS_SEALS_MAX (MOB_GCS_FRAME_HEAD_MAX / 16u)
/* BOOK, and the body of a NACK to a client: the configuration, and where each of its members is. */
struct mob_gcs_book {
    struct mob_gcs_config config;
    struct mob_gcs_place places[MOB_GCS_MEMBERS_MAX];
};
_Static_assert(sizeof(struct mob_gcs_link_hello) == 288 && sizeof(struct mob_gcs_link_challenge) == 96 &&
        sizeof(struct mob_gcs_link_refused) == 128 && sizeof(struct mob_gcs_report) == 120 &&
        sizeof(struct mob_gcs_lease) == 40 && sizeof(struct mob_gcs_book) == 88 + 7 * 224 &&
        sizeof(struct mob_gcs_begin_anew) == 56 && sizeof(struct mob_gcs_enroll) == 80 &&
        sizeof(struct mob_gcs_enrolled) == 16 &&
        sizeof(struct mob_gcs_seal) * MOB_GCS_SEALS_MAX == MOB_GCS_FRAME_HEAD_MAX,
    "layouts on the wire");

static inline bool mob_gcs_address_ok(const char address[MOB_GCS_ADDRESS_MAX])
{
    return memchr(address, 0, MOB_GCS_ADDRESS_MAX) != NULL;
}
static inline bool mob_gcs_node_name_ok(const char node[MOB_GCS_NAME_MAX + 1u])
{
    return node[0] != 0 && memchr(node, 0, MOB_GCS_NAME_MAX + 1u) != NULL;
}
/* The bytes of a book with as many places as its configuration has members. */
static inline uint32_t mob_gcs_book_bytes(const struct mob_gcs_book *book)
{
    return (uint32_t)(sizeof book->config + book->config.count * sizeof book->places[0]);
}
MOB_MUST_USE static inline enum mob_status mob_gcs_book_decode(
    const uint8_t *bytes, uint32_t length, struct mob_gcs_book *out)
{
    struct mob_gcs_book book;
    memset(&book, 0, sizeof book);
    if (length < sizeof book.config || length > sizeof book)
        return MOB_TRUNCATED;
    memcpy(&book, bytes, length);
    if (!mob_gcs_config_valid(&book.config))
        return MOB_CORRUPT;
    if (length != mob_gcs_book_bytes(&book))
        return MOB_TRUNCATED;
    for (uint32_t i = 0; i < book.config.count; i++)
        if (!mob_gcs_address_ok(book.places[i].link) || !mob_gcs_address_ok(book.places[i].client))
            return MOB_CORRUPT;
    *out = book;
    return MOB_OK;
}

#endif
