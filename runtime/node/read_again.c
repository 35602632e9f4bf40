#include "runtime/node/read_again.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/actor_record.h"
#include "runtime/node/replay.h"
#include "runtime/node/resolve.h"
#include "runtime/node/shadow.h"
#include "runtime/node/submit.h"
#include "runtime/node/task.h"

/* What a replay would know of it if it had an edge. */
static struct replay_call *call_of(const struct known *known)
{
    struct replay_call *call = calloc(1, sizeof *call);
    struct mob_spec_head *spec = malloc(sizeof *spec + known->spec_tail_bytes);
    MOB_ASSERT(call && spec);
    *spec = *known->spec;
    memcpy(spec + 1, known->spec + 1, known->spec_tail_bytes);
    spec->generation = node_known_made_in(known);
    *call = (struct replay_call){.position = known->completion->position,
        .task = known->id.task,
        .reads = true,
        .finished = true,
        .outcomes = known->outcomes,
        .attempt = known->completion->attempt,
        .spec = spec,
        .tail_bytes = known->spec_tail_bytes,
        .submitted_wall_ns = known->spec_submitted_wall_ns,
        .items = known->items};
    call->stored = node_known_stored(known, &call->stored_count);
    return call;
}

void node_replay_call_free(struct replay_call *call)
{
    if (!call)
        return;
    free(call->spec);
    free(call->stored);
    free(call);
}

/* Into the queue of its actor: what that is to run has not been sent further than to where it stood. */
static bool goes_to_actor(struct node *node, const struct known *known, const struct replay_call *call)
{
    const struct node_actor *actor = node_actor_find(node, known->spec->actor);
    struct node_task *task;
    if (!actor || actor->life.state == MOB_ACTOR_DEAD || actor->sent > call->position ||
        node_replay_call(node, call, &task) != MOB_OK)
        return false;
    node_remake_wants(node, task, known->id.slot);
    node_enter(node, task);
    return true;
}

void node_read_again(struct node *node, const struct known *known)
{
    struct replay_call *call = call_of(known);
    if (goes_to_actor(node, known, call))
        node_replay_call_free(call);
    else
        node_shadow_want(node, known, call);
}
