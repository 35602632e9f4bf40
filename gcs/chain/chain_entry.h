/* What a chain's log consists of: operations with their resolved effects. Part of chain.h.
 */
#ifndef MOB_GCS_CHAIN_CHAIN_ENTRY_H
#define MOB_GCS_CHAIN_CHAIN_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/gcs_msg.h"

/* One operation: absolute values and deletions, never a condition, so that every member that applies it has
 * the same state. `status` other than MOB_OK: no effect, only a consumed request. */
struct mob_chain_entry {
    uint64_t seq, epoch; /* epoch in which the head gave it its seq */
    uint64_t client, request; /* client 0: made by the chain itself */
    uint8_t op; /* enum mob_gcs_op */
    uint8_t table;
    uint16_t zero;
    uint32_t status; /* enum mob_status of the reply */
    const uint8_t *body; /* block, or key then value, or node name */
    uint32_t body_bytes, key_length;
    uint64_t target; /* SEAL, RECOVERED: incarnation; EXPIRE: client; OPEN: nonce; FLUSH: asked for, 0 = it
                        changes nothing, whatever its reply says */
    uint64_t version; /* reply; SEAL: 1 = recovered already; OPEN: the nonce, 0 = collected */
    uint64_t number; /* reply; REGISTER: the new incarnation; SEAL: the cut; JOB_DROP: blocks dropped; OPEN:
                        the new client; FLUSH: all blocks up to here are gone */
    uint64_t next; /* reply of JOB_DROP: 1 = there is more to drop */
    uint64_t *drops; /* JOB_DROP: seqs of the blocks that go */
    uint32_t drop_count;
    uint32_t body_crc; /* crc32c of the body */
    uint64_t digest; /* of the history up to and with this entry */
    void *hold; /* the owner's handle of the memory under `body`; given back by RELEASE */
    bool own_body; /* body is the chain's own memory (hold is NULL) */
    bool awaited; /* this member, not the tail, owes its client the reply */
};

/* Of an OPEN its version is the nonce, so that the reply that is kept says whose it is. */
struct mob_gcs_reply mob_chain_reply_of(const struct mob_chain_entry *e);

/* Whose row keeps the reply, 0: nobody's. That of an OPEN is kept as its new client's request 0, until the
 * client has had a window of others, so an OPEN that is sent again is answered with the same client. */
static inline uint64_t mob_chain_entry_keeper(const struct mob_chain_entry *e)
{
    if (e->op == MOB_GCS_OP_OPEN)
        return e->status == MOB_OK && e->version != 0 ? e->number : 0;
    return e->request == 0 ? 0 : e->client;
}

/* Of a FLUSH: all blocks up to there go; 0: none. Its reply may say otherwise: one that was answered before
 * everything died keeps that answer, also when what it began from is not here any more. */
static inline uint64_t mob_chain_flush_upto(const struct mob_chain_entry *entry)
{
    return entry->target == 0 ? 0 : entry->number;
}

#endif
