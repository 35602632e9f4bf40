#include "runtime/node/lost.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/wire/completion.h"
#include "gcs/client/losses.h"
#include "runtime/node/notices.h"
#include "runtime/node/resolve.h"

struct unknown {
    struct mob_losses_wait wait;
    struct node *node;
    struct mob_object_id id;
    known_done_fn *again;
};

static void fails(struct node *node, struct mob_object_id id, enum mob_status status)
{
    node_ready_committed(node, id, status, MOB_TYPE_ERROR, NODE_NOBODY, 0);
}

/* The words are in the notice, and not in the store as an error of its task would be: whoever was to make the
 * object may yet send that again, under this id. */
void node_lost_tell(struct node *node, struct mob_object_id id, int64_t lost_wall_ns)
{
    char message[MOB_LOSSES_TEXT_MAX];
    uint8_t payload[sizeof message + 128];
    if (lost_wall_ns == 0) {
        fails(node, id, MOB_NOT_FOUND);
        return;
    }
    mob_losses_text("object", lost_wall_ns, message);
    struct mob_error_link link = {.status = MOB_LOST_UNCOMMITTED,
        .task = id.task,
        .message = message,
        .message_bytes = (uint32_t)strlen(message)};
    struct ready_object object = {.id = id,
        .status = MOB_LOST_UNCOMMITTED,
        .type = MOB_TYPE_ERROR,
        .flags = MOB_READY_COMMITTED,
        .committed = true,
        .size = mob_error_encode(payload, sizeof payload, &link, NULL, 0),
        .small = payload};
    node_object_ready(node, &object, NODE_NOBODY, 0);
}

static void on_losses(struct mob_losses_wait *wait, enum mob_status status)
{
    struct unknown *unknown = (struct unknown *)wait;
    if (status == MOB_OK)
        known_ask(unknown->node, unknown->id, unknown->again, unknown->node);
    else if (status != MOB_CLOSED) /* the node ends */
        fails(unknown->node, unknown->id, status);
    free(unknown);
}

void node_lost_ask(struct node *node, struct mob_object_id id, known_done_fn *again)
{
    int64_t lost_wall_ns;
    if (mob_losses_known(node->losses, &lost_wall_ns)) {
        node_lost_tell(node, id, lost_wall_ns);
        return;
    }
    struct unknown *unknown = malloc(sizeof *unknown);
    MOB_ASSERT(unknown);
    *unknown = (struct unknown){.wait = {.done = on_losses}, .node = node, .id = id, .again = again};
    enum mob_status status = mob_losses_read(node->losses, &unknown->wait);
    if (status == MOB_OK)
        return;
    free(unknown);
    fails(node, id, status);
}
