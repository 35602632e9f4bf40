/* Where a timeline shows something: a node's incarnation is a process of the trace, a worker a thread of it,
 * or several, its lanes (trace_lanes.h). A track that anything was noted on gets its name, as viewers show
 * them. Zero is empty; one thread.
 */
#ifndef MOB_SERVER_API_TRACE_TRACKS_H
#define MOB_SERVER_API_TRACE_TRACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/http/text.h"

/* Events of tasks that still run: their worker is not known. */
#define TRACE_TRACK_OF_RUNNING UINT32_MAX
#define TRACE_TRACK_OF_NODE 0u /* workers count from 1 */

/* Workers have 16 bits; the lanes behind the first stand far from all workers. */
uint32_t trace_track_of(uint32_t worker, uint32_t lane);

#define TRACE_TRACK_BUCKETS 1024u

struct trace_track;
struct trace_tracks {
    struct trace_track *buckets[TRACE_TRACK_BUCKETS];
};

void trace_tracks_note(struct trace_tracks *tracks, uint64_t incarnation, uint32_t worker, uint32_t lane);
/* Events with their names, behind others unless `first`. */
void trace_tracks_write(struct trace_tracks *tracks, bool first, struct mob_text *out);
void trace_tracks_fini(struct trace_tracks *tracks);

#endif
