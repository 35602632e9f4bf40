/* Reading the lineage back: everything the GCS holds of one group of 256 neighbours (ARCHITECTURE
 * "Identity").
 *
 * A read starts behind what this node has logged so far, so it sees its own entries; reads start in the order
 * in which they were asked for, and may end in any. One that fails is tried again for ten seconds before its
 * reader hears of it (a patient one for as long as it takes): the error is the control store's, and says
 * nothing of what is asked for. Callbacks run on the node's thread, never before the call returned. Node
 * thread only.
 */
#ifndef MOB_RUNTIME_NODE_DIRECTORY_H
#define MOB_RUNTIME_NODE_DIRECTORY_H

#include "runtime/node/node.h"

struct group_reader {
    /* Each entry of each block that touches the group, oldest first; also entries of other groups: filter. */
    void (*entry)(void *arg, const struct mob_entry *entry, const struct mob_block_header *block);
    void (*done)(void *arg, enum mob_status status);
    void (*drop)(void *arg); /* instead of done, when the node ends first: only frees */
    void *arg;
    bool patient; /* what PostgreSQL has is asked for until that answers */
};
void node_group_read(
    struct node *node, struct mob_stream stream, uint32_t group, const struct group_reader *reader);

/* In each pass: those whose time has come are asked again. */
void node_group_reads_again(struct node *node);
/* When the next one's has; INT64_MAX: there is none. */
int64_t node_group_reads_next(const struct node *node);

/* At the node's end, when neither log nor control store calls back any more. */
void node_group_reads_drop(struct node *node);

#endif
