/* Templates that a client used lately, so that calls on several actors in turn do not make one each: a caller
 * that goes round 32 actors sends a whole spec every time, and only index and order differ from the one 32
 * calls ago.
 */
#include "common/base/log.h"
#include "runtime/node/node.h"

/* What siblings share is equal: all of the head but index and place in the caller's order. */
static bool same_family(const struct mob_spec_head *a, const struct mob_spec_head *b)
{
    struct mob_spec_head x = *a, y = *b;
    x.task.index = y.task.index = 0;
    x.caller_seq = y.caller_seq = 0;
    return memcmp(&x, &y, sizeof x) == 0;
}

static struct node_template **place_of(struct node_client *client, const struct mob_spec_head *head)
{
    uint64_t mix = mob_task_id_mix(head->actor.creation) ^ mob_task_id_mix(head->parent) ^ head->method;
    return &client->recent[(mix * 0x9e3779b97f4a7c15ull) >> (64 - RECENT_TEMPLATES_SHIFT)];
}

enum mob_status node_template_of(struct node *node, struct node_client *client,
    const struct mob_spec_head *head, const uint8_t *tail, struct node_job *job, struct node_template **out)
{
    struct mob_ext_view ext;
    struct node_template **place = place_of(client, head);
    struct node_template *known = *place;
    /* resources stand behind the head, and a function may have come since */
    bool usual = head->kind == MOB_KIND_ACTOR_CALL && !mob_spec_find_ext(tail, MOB_EXT_RESOURCES, &ext);
    if (usual && known && known->job == job && same_family(&known->head, head)) {
        node_template_hold(known);
        *out = known;
        return MOB_OK;
    }
    enum mob_status status = node_template_make(node, head, tail, job, out);
    if (status != MOB_OK || !usual || !(*out)->function)
        return status;
    if (known)
        node_template_drop(node, known);
    node_template_hold(*out);
    *place = *out;
    return MOB_OK;
}

void node_recent_templates_drop(struct node *node, struct node_client *client)
{
    for (uint32_t i = 0; i < 1u << RECENT_TEMPLATES_SHIFT; i++) {
        if (client->recent[i])
            node_template_drop(node, client->recent[i]);
        client->recent[i] = NULL;
    }
}
