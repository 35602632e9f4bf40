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
struct node_client;
struct durable_puts;

/* Makes the folder and starts the writer. MOB_IO, MOB_NO_MEMORY. */
MOB_MUST_USE enum mob_status durable_puts_create(struct node *node, struct durable_puts **out);
/* Waits for what is being written. NULL is fine. */
void durable_puts_destroy(struct durable_puts *puts);
/* Readable when writes have ended: call durable_puts_step. */
int durable_puts_fd(const struct durable_puts *puts);
void durable_puts_step(struct durable_puts *puts);
/* A sealed object is to be kept; holds the effects that follow. One that could not be (a full disk) lets them
 * go all the same: its putter hears of it when it asks, which is what its 201, or its mob_flush, waits for.
 */
void durable_puts_write(struct durable_puts *puts, const struct node_client *client, struct mob_object_id id);
/* Of the puts so far, for durable_puts_failed. */
uint64_t durable_puts_newest(const struct durable_puts *puts);
/* Those of this client that failed, up to `newest`, each told once: MOB_DISK_FULL or MOB_IO (of one of them),
 * with their ids in `text`, which needs DURABLE_PUTS_TEXT_MAX for all; MOB_OK = none. */
enum { DURABLE_PUTS_TEXT_MAX = 256 * 48 + 64 };
MOB_MUST_USE enum mob_status durable_puts_failed(
    struct durable_puts *puts, uint32_t slot, uint32_t session, uint64_t newest, char *text, size_t capacity);
/* Back into the store. MOB_NOT_FOUND: it was never kept; MOB_OBJECT_LOST: it was removed; MOB_CORRUPT,
 * MOB_STORE_FULL. */
MOB_MUST_USE enum mob_status durable_puts_restore(struct durable_puts *puts, struct mob_object_id id);
/* Its bytes go; that it was removed stays, so that nobody waits for its driver to send it again. */
void durable_puts_remove(struct durable_puts *puts, struct mob_object_id id);

#endif
