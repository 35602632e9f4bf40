/* Content hashes of values over 1 MiB, computed off everybody's path and logged by themselves (ARCHITECTURE
 * "The node's shared segment").
 *
 * The store computes them in steps of its spare time (mob_store_hash_later), beginning LARGE_REST_NS after
 * the value came, or as soon as somebody waits for it. Until the HASH entry of an
 * object is acknowledged the object is not committed: what would tell a driver of it is kept here. Tasks of
 * this node do not wait, and no other entry does. One whose bytes are gone before they are hashed is
 * committed as its record says it is, without a hash: nobody can read them. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_LARGE_HASHES_H
#define MOB_RUNTIME_NODE_LARGE_HASHES_H

#include "runtime/node/node.h"

/* What takes a core for milliseconds on behalf of a large value begins so long after the value came: whoever
 * sealed it may be off its core, which the node's wake took, or a thread that the node woke. Many times what
 * is left of a put then. */
#define LARGE_REST_NS 1000000

struct large_hash_wanted {
    struct mob_object_id id;
    struct mob_job_id job; /* whose log entry it is */
    const char *ns;
    uint32_t slot, session; /* whose flush waits for it; NODE_NOBODY = no one's */
    bool again; /* bytes that came back: the log may have their hash, and then they must have it, too */
};

struct large_hashes *large_hashes_create(void);
void large_hashes_destroy(struct large_hashes *hashes); /* after the log */

/* The object's record was logged; node_object_ready comes next. False: its bytes are not there, nothing
 * waits. */
MOB_MUST_USE bool large_hashes_want(struct node *node, const struct large_hash_wanted *wanted);
/* `alias` stands for `target`, and is committed with it. Nothing happens when nothing waits for that. */
void large_hashes_follow(struct node *node, struct mob_object_id alias, struct mob_object_id target);
/* Does its commit wait for its hash? */
bool large_hashes_waits(const struct node *node, struct mob_object_id id);
/* READY, or CALL: runs when the object is committed. False: its commit waits for nothing here. */
MOB_MUST_USE bool large_hashes_keep(struct node *node, struct mob_object_id id, const struct effect *effect);
/* A CALL: runs when all that this session put until now (NODE_NOBODY: all there is) is committed. False:
 * nothing of it waits here. */
MOB_MUST_USE bool large_hashes_after(
    struct node *node, uint32_t slot, uint32_t session, const struct effect *effect);
/* There is another copy of it now: true, and its commit will say so; false: nothing waits for its hash. */
MOB_MUST_USE bool large_hashes_copied(struct node *node, struct mob_object_id id);
/* Takes what the store has computed, and asks it for more. Whether something happened. */
bool large_hashes_step(struct node *node);
bool large_hashes_any(const struct node *node);
/* Is it time for a step although the node has no time to spare, or none for this? Once true, not again for 2
 * ms. */
bool large_hashes_due(struct node *node);
/* Is spare time not for this now? For LARGE_REST_NS after a client put a value, unless somebody waits for
 * one.
 */
bool large_hashes_rest(const struct node *node);

#endif
