#include "runtime/node/take_back.h"

#include "common/base/log.h"
#include "runtime/node/workers.h"

/* Tasks at the front of its batch that have begun, or may have: what it began, less what is known to have
 * ended, and less those that wait below on its stack. Never too few, or they would run twice. A completion
 * that it could not publish makes it one too many from then on. */
static uint32_t begun_of(struct node *node, const struct node_worker *worker, uint64_t begun)
{
    uint64_t others = worker->ended + mob_sched_below(node->sched, (uint16_t)worker->number, NULL, 0);
    uint64_t running = begun > others ? begun - others : 0;
    return running < MOB_SCHED_BATCH_MAX ? (uint32_t)running : MOB_SCHED_BATCH_MAX;
}

void node_take_back(struct node *node, uint32_t number)
{
    struct node_worker *worker = node_worker_at(node, number);
    struct mob_sched_task *batch[MOB_SCHED_BATCH_MAX];
    uint32_t told = worker ? mob_sched_told(node->sched, (uint16_t)number) : 0;
    /* What is held was told and has not been sent: only its order says where it stands. */
    if (told == 0 || worker->state != WORKER_READY || worker->held || worker->kill_reason)
        return;
    uint64_t begun;
    uint8_t *last =
        mob_store_in_halt(node->store, worker->slot, MOB_IN_TAKEN_BACK, sizeof(struct mob_task_id), &begun);
    if (!last)
        return;
    uint32_t keep = begun_of(node, worker, begun);
    keep = keep > told ? told : keep > 0 ? keep : 1;
    mob_sched_batch(node->sched, (uint16_t)number, batch, MOB_SCHED_BATCH_MAX);
    memcpy(last, &batch[keep - 1]->id, sizeof(struct mob_task_id));
    mob_store_in_flush(node->store, worker->slot);
    uint32_t count = mob_sched_take_back(node->sched, (uint16_t)number, keep, node->now_ns);
    MOB_LOG_DEBUG("dispatch", "taken_back", "worker=%u tasks=%u", worker->serial, count);
}
