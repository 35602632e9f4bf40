/* Large puts of drivers, kept where the end of the node does not lose them (ARCHITECTURE "How long things
 * live").
 *
 * A put by a driver or over HTTP has no parent whose replay could make it again. Up to MOB_PUT_INLINE_MAX it
 * is in the lineage; a larger one is written to objects/<id> in the state directory by a thread of its own,
 * straight from the segment. Until it is there, no effect logged after it leaves the node (lineage_log_hold).
 * Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_DURABLE_PUTS_H
#define MOB_RUNTIME_NODE_DURABLE_PUTS_H

#include "common/base/id.h"

struct node;
struct durable_puts;

/* Makes the folder and starts the writer. MOB_IO, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status durable_puts_create(struct node *node, struct durable_puts **out);
/* Waits for what is being written. NULL is fine. */
void durable_puts_destroy(struct durable_puts *puts);
/* Readable when writes have ended: call durable_puts_step. */
int durable_puts_fd(const struct durable_puts *puts);
void durable_puts_step(struct durable_puts *puts);
/* A sealed object of this size is to be kept; holds the effects that follow. */
void durable_puts_write(struct durable_puts *puts, struct mob_object_id id);
/* Back into the store. MOB_NOT_FOUND: it was never kept; MOB_OBJECT_LOST: it was removed; MOB_CORRUPT,
 * MOB_STORE_FULL. */
MOB_MUST_USE enum mob_status durable_puts_restore(struct durable_puts *puts, struct mob_object_id id);
/* Its bytes go; that it was removed stays, so that nobody waits for its driver to send it again. */
void durable_puts_remove(struct durable_puts *puts, struct mob_object_id id);

#endif
