#include "runtime/node/taken.h"

#include "runtime/node/task.h"

bool node_object_taken(struct node *node, struct mob_object_id id, const struct mob_object_info *info)
{
    if (info->committed)
        return true;
    if (node->promise_count > 0 && node_promised(node, id))
        return false;
    if (id.slot & MOB_SLOT_PUT)
        return true; /* whoever knows its id has it from a record behind that of the put */
    const struct node_task *maker = node_task_find(node, id.task);
    if (!maker)
        return true; /* its record went with the completion */
    if (maker->template->head.num_returns == MOB_RETURNS_STREAM)
        return node_extra_of(maker) && id.slot < node_extra_of(maker)->yielded;
    return false;
}

bool node_sees_uncommitted(const struct node_client *client)
{
    return client->kind == MOB_CLIENT_WORKER || client->read_local;
}
