/* What the control store has lost, for whoever meets an id that no log knows: it may have been (GCS.md 8).
 *
 * A chain that starts again from less than was acknowledged names what may be missing, as rows of LOSSES. Of
 * those that can have held a task, an object or an actor only the time of the newest counts here: ids are
 * random or hashes, so nothing in one tells whether it was in the part that is missing. Rows of clients do
 * not count: theirs are keys and values, and no log. Nor do old ones: what was lost then would have aged out
 * since.
 *
 * Nothing is read before somebody asks. What was read is believed for MOB_LOSSES_FRESH_NS while the chains of
 * all shards are those of then: a start that lost something has an epoch of its own. Beginnings of the table
 * are read once for each of these, since it only grows.
 *
 *     if (mob_losses_known(losses, &at_ns))
 *         answer(at_ns);
 *     else
 *         status = mob_losses_read(losses, &wait->base); // wait->base.done is called, and asks again
 *
 * One thread, that of its client; nothing blocks.
 */
#ifndef MOB_GCS_CLIENT_LOSSES_H
#define MOB_GCS_CLIENT_LOSSES_H

#include "gcs/client/client.h"

#define MOB_LOSSES_FRESH_NS (5 * 1000000000ll)
/* Behind the retention: lineage goes by whole days. */
#define MOB_LOSSES_RESERVE_NS (86400 * 1000000000ll)
#define MOB_LOSSES_TEXT_MAX 256

struct mob_losses;

/* Embed it in what waits; keeps it until `done`. */
struct mob_losses_wait {
    /* Once, within mob_gcs_step, or mob_losses_destroy (MOB_CLOSED). MOB_OK: they have been read. Else the
     * control store's error: whether there is a loss is not known. May ask again, and free the wait. */
    void (*done)(struct mob_losses_wait *wait, enum mob_status status);
    struct mob_losses_wait *next; /* private */
};

/* `gcs`: keeps, must outlive the last call but destroy. `retention_ns`: how long lineage is kept. Gives (free
 * with mob_losses_destroy). MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status mob_losses_create(
    struct mob_gcs *gcs, int64_t retention_ns, struct mob_losses **losses_out);
/* Behind the end of its client, which calls back no more. Tells who waits. NULL is fine. */
void mob_losses_destroy(struct mob_losses *losses);

/* Wall time of the newest loss that an unknown id may have been in, 0: there is none. False: they have to be
 * read first, and there is nothing in *wall_ns_out. */
MOB_MUST_USE bool mob_losses_known(struct mob_losses *losses, int64_t *wall_ns_out);
/* The same as it was last read, however long ago. */
int64_t mob_losses_last(const struct mob_losses *losses);
/* All who wait share one reading. Not MOB_OK: `done` is not called. MOB_QUEUE_FULL, MOB_CLOSED. */
MOB_MUST_USE enum mob_status mob_losses_read(struct mob_losses *losses, struct mob_losses_wait *wait);

/* For people: what it means that nothing is known of this `what` ("task"). Returns `out`. */
const char *mob_losses_text(const char *what, int64_t wall_ns, char out[MOB_LOSSES_TEXT_MAX]);
/* A row's time; 0: of a client, so that no id can have been in it. */
int64_t mob_losses_row_time(const void *value, uint32_t bytes);

#endif
