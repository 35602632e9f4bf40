/* Where a timeline shows something: a node's incarnation is a process of the trace, a worker a thread of it.
 * A track that anything was noted on gets its name, as viewers show them. Zero is empty; one thread.
 */
#ifndef MOB_SERVER_API_TRACE_TRACKS_H
#define MOB_SERVER_API_TRACE_TRACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/http/text.h"

/* Events of tasks that still run: their worker is not known. */
#define TRACE_TRACK_OF_RUNNING UINT32_MAX
#define TRACE_TRACK_OF_NODE 0u /* workers count from 1 */

#define TRACE_TRACK_BUCKETS 1024u

struct trace_track;
struct trace_tracks {
    struct trace_track *buckets[TRACE_TRACK_BUCKETS];
};

void trace_tracks_note(struct trace_tracks *tracks, uint64_t incarnation, uint32_t worker);
/* Events with their names, behind others unless `first`. */
void trace_tracks_write(struct trace_tracks *tracks, bool first, struct mob_text *out);
void trace_tracks_fini(struct trace_tracks *tracks);

#endif
