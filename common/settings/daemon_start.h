/* What daemons have in common before they do their work: links that are numbers, ids and secrets, and the
 * process' manners. Main thread, before others start.
 */
#ifndef MOB_COMMON_SETTINGS_DAEMON_START_H
#define MOB_COMMON_SETTINGS_DAEMON_START_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/id.h"

enum { MOB_CLUSTER_SECRET_BYTES = 32 };

/* A decimal number up to `most`; NULL is `otherwise`. false: it is none, and *out is not to be used. */
bool mob_daemon_number(const char *text, uint32_t otherwise, uint32_t most, uint32_t *out);
/* The same in milliseconds, at least one; into nanoseconds. */
bool mob_daemon_ms(const char *text, int64_t otherwise_ns, int64_t *ns_out);
/* 32 hex digits. false: it is NULL or something else. */
bool mob_daemon_cluster(const char *text, struct mob_cluster_id *out);
/* The first bytes of that file. false: NULL, not readable, or shorter. */
bool mob_daemon_secret(const char *path, uint8_t out[MOB_CLUSTER_SECRET_BYTES]);
/* Of a state directory: DIR/cluster-id and DIR/cluster-secret. false: one of them is not readable, or
 * shorter. */
bool mob_daemon_identity(
    const char *directory, struct mob_cluster_id *cluster_out, uint8_t secret_out[MOB_CLUSTER_SECRET_BYTES]);

/* No core files and no tracing by the same user, since it holds secrets or people's data; a peer that is gone
 * is an error of write() and no signal; with `die_with_parent` it ends when the process does that started it.
 * false: that one has ended already, so it is to end, too. */
bool mob_daemon_begin(bool die_with_parent);
/* Becomes readable at SIGTERM and SIGINT, which do nothing else from here on. Not blocking; the caller's. */
int mob_daemon_stop_fd(void);

#endif
