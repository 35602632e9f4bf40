/* The proof that what Redis answered is on disk: a thread that syncs Redis' append-only files.
 *
 * Redis (appendonly yes, appendfsync no) writes a command to its file before it answers. So all that was
 * answered before a sync of every file that the manifest may name has begun is on disk when that sync is
 * done. The thread lists the folder, syncs each base, increment and manifest, and the folder itself when a
 * name is new; a file that vanishes meanwhile was replaced by a rewrite whose result Redis synced before it
 * removed it, and the listing starts again. Owner: one thread, which requests and polls; the syncing thread
 * is inside. That Redis did write, and not only answer, is asked before (durable.c).
 */
#ifndef MOB_GCS_SHARD_AOF_SYNC_H
#define MOB_GCS_SHARD_AOF_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

struct mob_aof_sync;

/* `directory` (copies) is Redis' appenddirname. MOB_NO_MEMORY, MOB_IO. Gives (destroy). */
MOB_MUST_USE enum mob_status mob_aof_sync_create(const char *directory, struct mob_aof_sync **sync_out);
/* Waits for a sync that is under way. */
void mob_aof_sync_destroy(struct mob_aof_sync *s);
/* Readable when a result is there. */
int mob_aof_sync_fd(const struct mob_aof_sync *s);
/* Starts a sync; `seq` comes back with it. False while one is under way. */
bool mob_aof_sync_request(struct mob_aof_sync *s, uint64_t seq);
struct mob_aof_sync_result {
    enum mob_status status; /* MOB_IO: nothing may be believed any more, not even by trying again */
    uint64_t seq;
    int64_t took_ns;
};
/* True when there was one. */
bool mob_aof_sync_result(struct mob_aof_sync *s, struct mob_aof_sync_result *out);

#endif
