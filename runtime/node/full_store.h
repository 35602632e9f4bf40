/* What the node does when the store has no room: it waits for commits, after which more may go, and says with
 * numbers that it is full. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_FULL_STORE_H
#define MOB_RUNTIME_NODE_FULL_STORE_H

#include "common/base/clock.h"
#include "runtime/node/node.h"

#define FULL_STORE_TEXT_MAX 256u
/* Who brings a value back goes on asking for room so long, from commit to commit. */
#define FULL_STORE_PATIENCE_NS (10 * MOB_SEC)

/* `fn` runs when what was put and logged until now is committed, and may leave the store. False: nothing
 * waits for its commit, and no call comes. `drop` frees `arg` when the node ends first. */
MOB_MUST_USE bool full_store_call_later(
    struct node *node, void (*fn)(void *arg), void (*drop)(void *arg), void *arg);
/* How full it is, as one sentence without its beginning. */
void full_store_text(const struct node *node, char text_out[FULL_STORE_TEXT_MAX]);

#endif
