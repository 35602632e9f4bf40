/* Puts of drivers whose bytes did not outlive the node, and that their drivers send again (ARCHITECTURE "The
 * node's shared segment": a put stays the driver's until the acked counter passes it).
 *
 * The log says that there was such a put (or a promise), its bytes were neither in the log nor on disk when
 * the node ended: so its driver was never told that it is kept, and still has it. Whoever needs it waits for
 * the driver, for as long as a driver may stay away (its session's grace); then it is lost. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_AWAITED_PUTS_H
#define MOB_RUNTIME_NODE_AWAITED_PUTS_H

#include "runtime/node/node.h"

struct awaited_puts *awaited_puts_create(void);
void awaited_puts_destroy(struct awaited_puts *awaited);

/* False: its job has ended, nobody sends it again. Twice is once. */
MOB_MUST_USE bool awaited_puts_add(struct node *node, struct mob_object_id id);
/* It came. */
void awaited_puts_remove(struct node *node, struct mob_object_id id);
/* Once a second: those whose drivers stayed away, or whose jobs ended, are lost. */
void awaited_puts_tick(struct node *node);
bool awaited_puts_any(const struct node *node);

#endif
