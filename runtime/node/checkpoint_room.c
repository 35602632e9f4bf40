#include "runtime/node/checkpoint_room.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/notices.h"
#include "runtime/node/task.h"

struct checkpoint_wait {
    struct checkpoint_wait *next;
    struct mob_object_id id;
    enum mob_value_type type;
    uint32_t bytes;
    uint8_t value[];
};

static void drop(struct checkpoint_wait **at)
{
    struct checkpoint_wait *wait = *at;
    *at = wait->next;
    free(wait);
}

/* A creation that starts anew begins with another one. */
static void forget(struct node *node, struct mob_object_id id)
{
    struct checkpoint_wait **at = &node->checkpoint_waits;
    while (*at && !mob_object_id_eq((*at)->id, id))
        at = &(*at)->next;
    if (*at)
        drop(at);
}

static void wait_for_room(
    struct node *node, struct mob_object_id id, const struct actor_checkpoint *checkpoint)
{
    struct checkpoint_wait *wait = malloc(sizeof *wait + checkpoint->bytes);
    MOB_ASSERT(wait);
    *wait = (struct checkpoint_wait){
        .next = node->checkpoint_waits, .id = id, .type = checkpoint->type, .bytes = checkpoint->bytes};
    memcpy(wait->value, checkpoint->value, checkpoint->bytes);
    node->checkpoint_waits = wait;
}

void checkpoint_room_put(
    struct node *node, struct mob_object_id id, const struct actor_checkpoint *checkpoint)
{
    forget(node, id);
    enum mob_status status =
        node_restore_value(node, id, checkpoint->type, checkpoint->value, checkpoint->bytes);
    if (status == MOB_OK)
        return;
    char text[MOB_ID_TEXT_MAX];
    MOB_LOG_WARN("checkpoint", "not_restored", "object=%s bytes=%u status=%s", mob_object_id_format(id, text),
        checkpoint->bytes, mob_status_code(status));
    if (status != MOB_EXISTS) /* somebody still reads the one before: it serves */
        wait_for_room(node, id, checkpoint);
}

/* True: it waits no more. */
static bool try_again(struct node *node, const struct checkpoint_wait *wait)
{
    if (!node_task_find(node, wait->id.task))
        return true; /* its creation has ended otherwise */
    enum mob_status status = node_restore_value(node, wait->id, wait->type, wait->value, wait->bytes);
    if (status != MOB_OK && status != MOB_EXISTS)
        return false;
    struct ready_object object = {.id = wait->id,
        .type = wait->type,
        .flags = MOB_READY_COMMITTED,
        .committed = true,
        .size = wait->bytes};
    node_object_ready(node, &object, NODE_NOBODY, 0);
    return true;
}

void checkpoint_room_tick(struct node *node)
{
    struct checkpoint_wait **at = &node->checkpoint_waits;
    while (*at) {
        if (try_again(node, *at))
            drop(at);
        else
            at = &(*at)->next;
    }
}

bool checkpoint_room_waits(const struct node *node, struct mob_object_id id, uint32_t *bytes_out)
{
    const struct checkpoint_wait *wait = node->checkpoint_waits;
    while (wait && !mob_object_id_eq(wait->id, id))
        wait = wait->next;
    if (wait)
        *bytes_out = wait->bytes;
    return wait != NULL;
}

bool checkpoint_room_any(const struct node *node)
{
    return node->checkpoint_waits != NULL;
}

void checkpoint_room_drop(struct node *node)
{
    while (node->checkpoint_waits)
        drop(&node->checkpoint_waits);
}
