/* When the segment has no room for another worker, and nothing moves without one.
 *
 * A task that blocks keeps its worker, and the worker its rings, so a nested program can fill a segment with
 * workers that wait. Mostly some of them go on and end. When none has for a while, all wait for what cannot
 * start: then the one that blocked last ends with the error that it would have got at the bound of blocked
 * workers, with the numbers, and those above it can end in turn.
 */
#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/node.h"
#include "runtime/node/workers.h"

/* A wake takes this long on the busiest machine; until then a result may be on its way to who waits for it.
 */
static const int64_t patience_ns = 2 * MOB_SEC;

/* Anything that a worker has started or was told to, or that ended since the last look. */
static bool moves(struct node *node)
{
    struct mob_sched_stats stats;
    mob_sched_stats(node->sched, &stats);
    uint64_t ended = stats.finished + stats.dispatched;
    bool moved =
        stats.by_state[MOB_SCHED_DISPATCHED] > 0 || stats.blocked == 0 || ended != node->crowded.ended;
    node->crowded.ended = ended;
    return moved;
}

/* The blocked worker that waits for the shortest time; NULL = none. */
static struct node_worker *blocked_last(struct node *node)
{
    struct node_worker *last = NULL;
    int64_t since = INT64_MIN;
    for (uint32_t i = 0; i < node->worker_capacity; i++) {
        struct node_worker *worker = node->workers[i];
        struct mob_sched_task *task;
        if (!worker || worker->actor || worker->state != WORKER_READY || worker->kill_reason ||
            mob_sched_batch(node->sched, (uint16_t)i, &task, 1) == 0 || task->state != MOB_SCHED_BLOCKED)
            continue;
        struct mob_why why;
        mob_sched_why(node->sched, task, &why);
        if (why.since >= since) {
            since = why.since;
            last = worker;
        }
    }
    return last;
}

void node_workers_crowded(struct node *node)
{
    bool quiet = !moves(node) && lineage_log_idle(node->log);
    if (!quiet || node->crowded.since_ns == 0) {
        node->crowded.since_ns = quiet ? node->now_ns : 0;
        return;
    }
    if (node->now_ns - node->crowded.since_ns < patience_ns)
        return;
    struct node_worker *worker = blocked_last(node);
    if (!worker)
        return;
    struct mob_sched_stats stats;
    struct mob_store_full full;
    mob_sched_stats(node->sched, &stats);
    mob_store_full_details(node->store, &full);
    snprintf(worker->kill_text, sizeof worker->kill_text,
        "%u workers wait, and there is no room for another: %llu bytes needed, %llu of %llu free",
        stats.blocked, (unsigned long long)full.needed_bytes, (unsigned long long)full.free_bytes,
        (unsigned long long)full.arena_bytes);
    node_worker_kill(node, worker, MOB_TOO_MANY_BLOCKED, worker->kill_text);
    node->crowded.since_ns = 0; /* its end gives room; then it is seen anew */
}

void node_worker_over_bound(struct node *node, struct node_worker *worker)
{
    snprintf(worker->kill_text, sizeof worker->kill_text, "%u workers wait, and no more may at a time",
        node->options.blocked_max);
    node_worker_kill(node, worker, MOB_TOO_MANY_BLOCKED, worker->kill_text);
}
