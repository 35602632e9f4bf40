/* Rows of actors, their names and jobs on their way to the control store, in the order in which they were
 * made. What it has no place for at the moment is kept, and sent by a later pass.
 *
 * Bounded by what the rows are of: a few for each actor and each job that the node has. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_ROW_WRITES_H
#define MOB_RUNTIME_NODE_ROW_WRITES_H

#include "runtime/node/node.h"

struct row_write {
    struct row_write *next;
    struct node *node;
    bool remove; /* the row goes */
    struct row_first *first; /* what the log waits for, or NULL */
    enum mob_gcs_table table;
    uint32_t key_length, value_length;
    uint8_t key[MOB_GCS_KEY_MAX];
    uint8_t value[];
};

/* The caller fills in the value. free() drops one that was not sent. */
struct row_write *row_write_new(
    struct node *node, enum mob_gcs_table table, const void *key, uint32_t key_length, uint32_t value_length);
/* Takes `write`, a struct row_write: behind those that wait. */
void row_write_send(void *write);
/* The same of a row that must be there before anything that is logged from here on: blocks of the log wait
 * for its acknowledgement. Not for ever, since a control store that is full may take blocks and no rows. */
void row_write_send_first(struct row_write *write);
/* This row has been sent otherwise: its removal does not come behind that, if it waits here still. */
void row_writes_keep(struct node *node, enum mob_gcs_table table, const void *key, uint32_t key_length);
/* Those that wait, as many as there is room for; once a pass. */
void row_writes_step(struct node *node);
bool row_writes_waiting(const struct node *node);
/* When the log waits no longer; INT64_MAX: it does not wait. */
int64_t row_writes_patience_end(const struct node *node);
/* Those that were not sent, at the node's end. */
void row_writes_drop(struct node *node);

#endif
