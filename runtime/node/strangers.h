/* Connections to the node's socket that have not said hello yet. Each costs a descriptor, so one that says
 * nothing is closed after a while, and the oldest gives way when there are too many. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_STRANGERS_H
#define MOB_RUNTIME_NODE_STRANGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"

struct node;

#define NODE_STRANGERS_MAX 256u
#define NODE_HELLO_NS (5 * MOB_SEC)

/* In the order in which they came. */
struct node_strangers {
    struct {
        int fd;
        int64_t since_ns;
    } at[NODE_STRANGERS_MAX];
    uint32_t count;
};

/* Takes the descriptor, and watches it for a hello. */
void node_stranger_add(struct node *node, int fd);
/* False: the loop tells of one that was closed a moment ago, and the number may be something else's now. */
bool node_is_stranger(const struct node *node, int fd);
/* It has said hello, or hung up: from here on it is the caller's. */
void node_stranger_take(struct node *node, int fd);
/* Closes those whose time is over; from time to time, while there are any. */
void node_strangers_tick(struct node *node);
void node_strangers_close(struct node *node);

#endif
