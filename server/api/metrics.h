/* Counters of the gateway in Prometheus' text format. Thread-safe, no locks: relaxed counters, read while
 * they move.
 */
#ifndef MOB_SERVER_API_METRICS_H
#define MOB_SERVER_API_METRICS_H

#include <stdint.h>

#include "server/api/api.h"
#include "server/http/text.h"

MOB_MUST_USE enum mob_status mob_metrics_create(size_t routes, struct mob_metrics **metrics_out);
void mob_metrics_destroy(struct mob_metrics *metrics);
/* `route` = routes for requests that found none. */
void mob_metrics_request(struct mob_metrics *metrics, size_t route, int status, int64_t duration_ns);
void mob_metrics_tasks(struct mob_metrics *metrics, uint64_t submitted);
/* Name, type and help of the family that says which shards answer: also written when none is asked. */
#define MOB_METRICS_GCS_UP "gcs_up", "gauge", "1: the shard of the control store answers."
void mob_metrics_write(const struct mob_metrics *metrics, struct mob_text *out);

#endif
