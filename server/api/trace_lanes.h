/* On which tracks the slices of a timeline lie. Viewers show slices of one track that nest, and leave out of
 * two that overlap otherwise the later one: each such gets a lane of its own, a track beside its worker's.
 *
 *   trace_lanes_assign(&items);   // behind the last trace_items_slice, before trace_items_compose
 *
 * Tasks lie on lane 0, and their spans where they nest with what began before them, on the lowest lane where
 * they do. What reaches beyond TRACE_LANES_MAX lanes lies on the last as it is. Pure; one thread.
 */
#ifndef MOB_SERVER_API_TRACE_LANES_H
#define MOB_SERVER_API_TRACE_LANES_H

#include "server/api/trace_items.h"

#define TRACE_LANES_MAX 64u
/* A span and its task are told by the clocks of different blocks: by so much it may seem to reach beyond the
 * task that it lies in, and is cut. */
#define TRACE_SLACK_US 1000

void trace_lanes_assign(struct trace_items *items);

#endif
