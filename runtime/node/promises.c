/* Promised puts: objects whose ids are known and whose values come later, from the client that promised them.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/node.h"
#include "runtime/node/notices.h"

enum { PROMISES_MAX = 65536 };

struct node_promise {
    struct node_promise *next;
    struct mob_object_id id;
    uint32_t slot, session;
};

static struct node_promise *find(const struct node *node, struct mob_object_id id)
{
    struct node_promise *p = node->promises;
    while (p && !mob_object_id_eq(p->id, id))
        p = p->next;
    return p;
}

/* The session that had it is the driver's own, which has opened another one: this one keeps it. */
static bool is_moved(struct node *node, const struct node_promise *promise, const struct node_client *client)
{
    const struct node_client *before = node_client_at(node, promise->slot);
    return client->kind != MOB_CLIENT_WORKER && before && before != client &&
        before->session == promise->session && mob_task_id_eq(before->root, client->root) &&
        mob_task_id_eq(promise->id.task, client->root);
}

bool node_promise_make(struct node *node, const struct node_client *client, struct mob_object_id id)
{
    struct node_promise *known = find(node, id);
    if (known && is_moved(node, known, client)) {
        known->slot = client->slot;
        known->session = client->session;
        return true;
    }
    if (node->promise_count >= PROMISES_MAX || known)
        return false;
    struct node_promise *promise = malloc(sizeof *promise);
    MOB_ASSERT(promise);
    *promise = (struct node_promise){node->promises, id, client->slot, client->session};
    node->promises = promise;
    node->promise_count++;
    return true;
}

bool node_promised(const struct node *node, struct mob_object_id id)
{
    return find(node, id) != NULL;
}

void node_promise_kept(struct node *node, struct mob_object_id id)
{
    for (struct node_promise **at = &node->promises; *at; at = &(*at)->next)
        if (mob_object_id_eq((*at)->id, id)) {
            struct node_promise *kept = *at;
            *at = kept->next;
            free(kept);
            node->promise_count--;
            return;
        }
}

/* The client is gone: whoever waits for its promises is told so. */
void node_promises_broken(struct node *node, const struct node_client *client)
{
    for (struct node_promise **at = &node->promises; *at;) {
        struct node_promise *p = *at;
        if (p->slot != client->slot || p->session != client->session) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        node->promise_count--;
        struct ready_object lost = {.id = p->id,
            .status = MOB_OBJECT_LOST,
            .type = MOB_TYPE_ERROR,
            .flags = MOB_READY_COMMITTED,
            .committed = true};
        free(p);
        node_object_ready(node, &lost, NODE_NOBODY, 0);
        at = &node->promises; /* the list may have changed meanwhile */
    }
}
