/* A task on top of the one that waits for it, on the same stack: docs/adr/nested-stack.md. Each has a call
 * and a part of the client of its own; the worker's log, clock and CPU time are divided between them. */
#include "runtime/worker/worker.h"

#include <stdlib.h>

#include "common/base/clock.h"

/* ---- frames ---- */

static struct mob_frame *frame_new(struct mob_client *client)
{
    struct mob_frame *frame = calloc(1, sizeof *frame);
    if (frame == NULL)
        return NULL;
    struct mob_call *call = &frame->call;
    call->client = client;
    call->args = call->few_args;
    call->arg_capacity = MOB_CALL_ARGS_FEW;
    call->returns = call->few_returns;
    call->return_capacity = MOB_CALL_RETURNS_FEW;
    call->tail = frame->tail;
    return frame;
}

static void frame_use(struct mob_worker *worker, uint32_t depth)
{
    worker->depth = depth;
    worker->frame = worker->frames[depth];
    worker->call = &worker->frame->call;
}

static bool frame_have(struct mob_worker *worker, uint32_t depth)
{
    if (worker->frames[depth] == NULL)
        worker->frames[depth] = frame_new(worker->client);
    return worker->frames[depth] != NULL;
}

enum mob_status mob_frame_open(struct mob_worker *worker)
{
    if (!frame_have(worker, 0))
        return MOB_NO_MEMORY;
    frame_use(worker, 0);
    return MOB_OK;
}

void mob_frames_free(struct mob_worker *worker)
{
    for (uint32_t i = 0; i <= MOB_NEST_MAX; i++) {
        struct mob_frame *frame = worker->frames[i];
        if (frame == NULL)
            continue;
        if (frame->call.args != frame->call.few_args)
            free(frame->call.args);
        if (frame->call.returns != frame->call.few_returns)
            free(frame->call.returns);
        free(frame);
    }
}

/* ---- on top ---- */

/* An actor's calls keep its worker to themselves. */
bool mob_worker_suspends(struct mob_client *client)
{
    struct mob_worker *worker = client->owner;
    if (worker->depth >= worker->nest_max || worker->actor.lives || worker->revokes > 0 ||
        worker->call->head.kind != MOB_KIND_TASK || worker->call->cancelled ||
        !frame_have(worker, worker->depth + 1))
        return false;
    worker->suspends++;
    return true;
}

void mob_worker_take_nest(struct mob_worker *worker, const uint8_t *body, uint32_t bytes)
{
    if (bytes < sizeof worker->nest)
        return;
    memcpy(&worker->nest, body, sizeof worker->nest);
    worker->suspends -= worker->suspends > 0;
    if (worker->nest.status == MOB_OK)
        mob_worker_forget_stash(worker);
}

enum mob_status mob_worker_on_top(struct mob_client *client, uint32_t number)
{
    struct mob_worker *worker = client->owner;
    struct mob_task_id task;
    if (worker->nest.number != number)
        return MOB_AGAIN;
    if (worker->nest.status != MOB_OK)
        return MOB_CONFLICT;
    if (!mob_worker_stashed_task(worker, &task) || !mob_task_id_eq(task, worker->nest.task))
        return MOB_AGAIN; /* not here yet, or cancelled on its way */
    if (mob_store_in_has_urgent(client->store)) {
        mob_worker_read_urgent(worker);
        return MOB_AGAIN; /* is it still this worker's? */
    }
    if (mob_level_push(client) != MOB_OK)
        return MOB_AGAIN; /* it runs afterwards, or elsewhere when this worker blocks */
    if (!mob_store_in_begin(client->store)) {
        mob_level_pop(client);
        return MOB_AGAIN;
    }
    mob_worker_pause_task(worker);
    frame_use(worker, worker->depth + 1);
    mob_worker_run_stashed(worker);
    frame_use(worker, worker->depth - 1);
    mob_level_pop(client);
    mob_worker_resume_task(worker);
    return MOB_OK;
}
