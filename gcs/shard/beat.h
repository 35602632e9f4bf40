/* The thread that speaks with the masters: it sends heartbeats that say how far the member's loop is, and
 * brings leases, configurations and orders back.
 *
 * It runs beside the loop, at real-time priority where that is allowed, so that a busy loop is not taken for
 * a dead one; but a loop that does not come back from one pass for `hung_ns` is not spoken for any more,
 * unless it only waits for a core. The loop publishes its report after each pass, takes what has come when
 * beat_fd is readable, and asks for the lease when it reads. All functions but the thread's own are for the
 * loop's thread.
 */
#ifndef MOB_GCS_SHARD_BEAT_H
#define MOB_GCS_SHARD_BEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/gcs_peer.h"
#include "gcs/link/link.h"

#define MOB_BEAT_MASTERS_MAX 3u
#define MOB_BEAT_SLOW_NS (250 * 1000000ll) /* nothing is under way: an idle cluster is to be idle */
#define MOB_BEAT_PRIORITY 10 /* of SCHED_FIFO; the master's is the same */
#define MOB_BEAT_HURRY_NS (200 * 1000000ll) /* at the full rate, after something was under way anywhere */

struct mob_beat;
struct mob_beat_options {
    const struct mob_link_self *self; /* keeps */
    const char *masters[MOB_BEAT_MASTERS_MAX]; /* keeps; addresses */
    uint32_t master_count;
    int64_t hung_ns, beat_ns;
};
/* By the loop's thread. Gives (destroy). MOB_IO, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_beat_create(
    const struct mob_beat_options *options, struct mob_beat **beat_out);
void mob_beat_destroy(struct mob_beat *beat); /* NULL is fine; waits for the thread */
int mob_beat_fd(const struct mob_beat *beat);
/* What the next heartbeats say; sent_ns, heard_ns, pause_ms and pid are filled in. They come at the full rate
 * while the report says busy, or `often`, or a master asked for it not long ago; else each MOB_BEAT_SLOW_NS.
 * One that is newly busy is sent at once. */
void mob_beat_publish(struct mob_beat *beat, const struct mob_gcs_report *report, bool often);
/* The loop begins a pass, or is about to sleep. */
void mob_beat_busy(struct mob_beat *beat, bool busy);
/* The newest book or order since the last call; false: none. A book of a chain that starts again has the
 * seals of node logs with it. */
bool mob_beat_take_book(struct mob_beat *beat, struct mob_gcs_book *book_out,
    struct mob_gcs_seal seals_out[MOB_GCS_SEALS_MAX], uint32_t *seal_count_out);
bool mob_beat_take_enter(struct mob_beat *beat, uint64_t *epoch_out);
bool mob_beat_take_beginning(struct mob_beat *beat, struct mob_gcs_begin_anew *beginning_out);
/* Has its thread, which has begun, real-time priority? */
bool mob_beat_realtime(const struct mob_beat *beat);
/* The newest lease: in which epoch, and from when by this machine's monotonic clock. */
bool mob_beat_lease(struct mob_beat *beat, uint64_t *epoch_out, int64_t *sent_ns_out);

#endif
