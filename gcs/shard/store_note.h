/* What a lone member's store had, in a file beside its socket: so that a Redis which comes back without
 * anything is not taken for a new one (GCS.md 8: what may be missing is named).
 *
 * Nobody else can tell: there is no master with a table, and what is gone cannot say that it was there. The
 * file is on the disk before the first entry of a store is, and says with which epoch and up to which
 * position entries may have been acknowledged; the rest (how much there was, as of when) is for people, and
 * may be older. Whoever removes it with the store has a new one.
 *
 *   mob_store_note_open(socket, &note);
 *   if (mob_store_note_read(note, &facts) == MOB_OK) ...        // somebody has stored something here
 *   mob_store_note_write(note, &facts, true);                   // before what it says becomes true
 *
 * Two records, each with a sum of its own: one for what must be on the disk, one for what need not; the one
 * with the higher turn counts, so a torn one leaves the other. Their room is taken when the file is made, so
 * that a full disk does not matter later. One thread, blocks for as long as a sync takes.
 */
#ifndef MOB_GCS_SHARD_STORE_NOTE_H
#define MOB_GCS_SHARD_STORE_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/status.h"

#define MOB_STORE_NOTE_SUFFIX ".stored" /* of the file, behind the name of the member's socket */
#define MOB_STORE_NOTE_VERSION 1
#define MOB_STORE_NOTE_TEXT_MAX 240 /* a supervisor keeps 255 bytes of a line */

struct mob_store_facts {
    struct mob_cluster_id cluster;
    uint64_t shard;
    uint64_t epoch; /* the newest in which anything was stored */
    uint64_t seq; /* as of wall_ns; more may have come */
    uint64_t seq_limit; /* no entry has ever had a higher position */
    uint64_t watermark; /* up to here blocks are in PostgreSQL; 0: there is none, or nothing yet */
    uint64_t blocks, keys, clients, logs, newest_log; /* newest_log: an incarnation; 0: none */
    int64_t wall_ns;
    int64_t
        refused_wall_ns; /* since then the member does not serve, because its Redis has nothing; 0: it does */
};

struct mob_store_note;
/* Makes nothing; the file is made by the first write. Copies the path. Gives (destroy). MOB_NO_MEMORY,
 * MOB_TOO_LARGE. */
MOB_MUST_USE enum mob_status mob_store_note_open(const char *socket, struct mob_store_note **note_out);
/* MOB_NOT_FOUND: there is none. MOB_CORRUPT: there is one, and neither record is whole. MOB_VERSION: another
 * program has written it (mob_store_note_unknown says which), whatever else is in it. MOB_IO. */
MOB_MUST_USE enum mob_status mob_store_note_read(struct mob_store_note *note, struct mob_store_facts *out);
/* The version that the last read has found and does not know; 0: it knew it. */
uint32_t mob_store_note_unknown(const struct mob_store_note *note);
/* `synced`: it is on the disk when this returns MOB_OK. After MOB_IO the file says what it said before. */
MOB_MUST_USE enum mob_status mob_store_note_write(
    struct mob_store_note *note, const struct mob_store_facts *facts, bool synced);
/* There is nothing to be noted here any more. MOB_IO. */
MOB_MUST_USE enum mob_status mob_store_note_remove(struct mob_store_note *note);
void mob_store_note_destroy(struct mob_store_note *note); /* the file stays; NULL is fine */

/* For others than the member: what it says of its socket. As _read. */
MOB_MUST_USE enum mob_status mob_store_note_look(const char *socket, struct mob_store_facts *out);
/* Why a member with such a note, and nothing in its Redis, does not serve, and what to do: one sentence. */
void mob_store_note_refusal(const struct mob_store_facts *facts, char out[MOB_STORE_NOTE_TEXT_MAX]);
/* The same of a note that is of this version, unknown here. */
void mob_store_note_version_refusal(uint32_t version, char out[MOB_STORE_NOTE_TEXT_MAX]);
/* Does a member with this socket not serve because of its note? Then why, of the two. */
bool mob_store_note_refuses(const char *socket, char out[MOB_STORE_NOTE_TEXT_MAX]);

#endif
