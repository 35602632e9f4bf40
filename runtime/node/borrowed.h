/* Objects that unfinished tasks take as arguments, and whose makers may let go of them meanwhile.
 *
 * A worker's handle that is gone (MOB_OUT_RELEASE) means that nobody will ask for the object's bytes: its
 * maker never gave the id away, or it would not have said so (sdk/c: MOB_FUTURE_ESCAPED). What is left are
 * the tasks that were submitted with it. With the last of them the object is freed. So the warm memory of
 * what a task puts, passes and drops serves its next put, and results that were read are not written to disk
 * one by one.
 *
 * Counted are references in the spec itself, of tasks that were submitted by tasks. Thread: the node's.
 */
#ifndef MOB_RUNTIME_NODE_BORROWED_H
#define MOB_RUNTIME_NODE_BORROWED_H

#include "runtime/node/node.h"

struct borrow_table;
struct borrow_table *borrow_table_create(void);
void borrow_table_destroy(struct borrow_table *table);

/* A hint that a task is about to take this object, or to end that did: fetches its place. */
void node_borrow_fetch(const struct node *node, struct mob_object_id id);
/* The task has entered the scheduler; its record remembers whether it is counted. */
void node_borrow(struct node *node, struct node_task *task);
/* It has ended. */
void node_unborrow(struct node *node, const struct node_task *task);
/* Whether such a task, not ended yet, takes it. `arg` is the struct node: the store asks (store.h, needed).
 */
bool node_borrowed(void *arg, struct mob_object_id id);
bool node_borrows_any(void *arg); /* store.h, needs_any */
/* The handle of its maker is gone: freed now, or with the last task that takes it. */
void node_let_go(struct node *node, struct mob_object_id id);

#endif
