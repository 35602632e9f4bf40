/* Puts what a module has into the function table: first its rows in the control store, each function's under
 * its name and under "name@hash", so that a name means the newest and a pinned one stays; then the node's
 * table. One module at a time, in the order in which they came, so that both tables agree about what is
 * newest. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_REGISTER_MODULE_H
#define MOB_RUNTIME_NODE_REGISTER_MODULE_H

#include "runtime/node/functions.h"

/* Takes `text`, lines of runtime/worker/inspect.h. `done` is called once, perhaps before this returns.
 * MOB_INVALID, MOB_TOO_LARGE, MOB_QUEUE_FULL (the function table is full), or why the control store does not
 * take the rows. */
void node_register_module(struct node *node, struct mob_module_hash module, char *text,
    void (*done)(void *arg, enum mob_status status, const char *message), void *arg);
/* Rows that the control store had no room for are sent again. */
void node_registrations_tick(struct node *node);
/* At the node's own end; nobody is told. */
void node_registrations_drop(struct node *node);

/* The tab-separated fields of a line, which is cut into them; their number. */
enum { DESCRIBED_FIELDS_MAX = 6 };
int described_split(char *line, char *fields[DESCRIBED_FIELDS_MAX]);

#endif
