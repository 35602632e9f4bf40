/* Whose children the tasks of a stream are, for walks up a tree of tasks whose records may be gone
 * (cancel_below.c). Streams are hashes, so they are their own. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_ORIGINS_H
#define MOB_RUNTIME_NODE_ORIGINS_H

#include <stdbool.h>

#include "common/base/id.h"

struct origin {
    struct mob_stream stream;
    bool used;
    uint8_t verdict; /* the walk's own; 0 at first */
    struct mob_task_id parent; /* zero: nobody's, or not known yet */
};
/* Zeroed = empty. */
struct origins {
    struct origin *places;
    uint32_t mask, count;
};

/* True: nothing was known of the stream's parent, and now there is a place for it (its parent may be zero
 * yet) or it is known. */
bool origins_add(struct origins *origins, struct mob_stream stream, struct mob_task_id parent);
/* Its place, valid until the next add; `used` is false when there is none. Not of an empty table. */
struct origin *origins_place(const struct origins *origins, struct mob_stream stream);
/* Zero: not known. */
struct mob_task_id origins_parent(const struct origins *origins, struct mob_stream stream);
void origins_free(struct origins *origins);

#endif
