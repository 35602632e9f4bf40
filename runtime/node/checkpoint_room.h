/* A large checkpoint on its way into the store, where its actor's next incarnation reads it.
 *
 * A store that is full takes it when there is room: it is tried again once a second, for as long as the
 * creation that needs it waits. Each fits into an empty store: it has at most MOB_GCS_VALUE_MAX (960 KiB),
 * and the smallest segment has 2 MiB. Node thread only.
 */
#ifndef MOB_RUNTIME_NODE_CHECKPOINT_ROOM_H
#define MOB_RUNTIME_NODE_CHECKPOINT_ROOM_H

#include "runtime/node/actor_record.h"

/* Copies it into the object `id` of its creation, now or when there is room. */
void checkpoint_room_put(
    struct node *node, struct mob_object_id id, const struct actor_checkpoint *checkpoint);
/* Once a second. */
void checkpoint_room_tick(struct node *node);
bool checkpoint_room_any(const struct node *node);
/* Does this object wait for room? Then so many bytes of it. */
bool checkpoint_room_waits(const struct node *node, struct mob_object_id id, uint32_t *bytes_out);
/* At the node's end. */
void checkpoint_room_drop(struct node *node);

#endif
