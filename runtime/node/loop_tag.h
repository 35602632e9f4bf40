/* What a descriptor in the node's epoll set is: kind and number in one word. */
#ifndef MOB_RUNTIME_NODE_LOOP_TAG_H
#define MOB_RUNTIME_NODE_LOOP_TAG_H

#include <stdint.h>

enum loop_source {
    LOOP_LISTEN = 1,
    LOOP_HELLO = 2, /* number = descriptor */
    LOOP_SESSION = 3, /* number = client slot */
    LOOP_GCS = 4,
    LOOP_POOL = 5,
    LOOP_STORE = 6,
    LOOP_SIGNAL = 7,
    LOOP_PUTS = 9,
    LOOP_LIFE = 10, /* the incarnation is over */
    LOOP_DESCRIBE = 8 /* number = descriptor of a module inspection */
};
static inline uint64_t loop_tag(enum loop_source source, uint32_t number)
{
    return (uint64_t)source << 32 | number;
}

#endif
