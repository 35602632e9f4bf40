/* Actors that begin again: in a new worker, or on a new incarnation of the node, with the calls that they had
 * (GCS.md "Actors, exactly once"); and replays that cannot be. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/log_value.h"
#include "common/wire/checkpoint_row.h"
#include "runtime/node/actor_record.h"
#include "runtime/node/actor_rows.h"
#include "runtime/node/actors.h"
#include "runtime/node/replay.h"
#include "runtime/node/submit.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

/* The creation runs again: in a new worker, first of all calls. */
static void start_again(struct node *node, struct node_actor *actor)
{
    struct mob_spec spec = {.head = actor->head, .tail = actor->tail, .tail_bytes = actor->tail_bytes};
    struct node_task *task;
    uint32_t restore_bytes = 0;
    uint8_t *restore_tail = node_checkpoint_tail(node, actor, &restore_bytes);
    if (restore_tail) {
        spec.tail = restore_tail;
        spec.tail_bytes = restore_bytes;
    }
    spec.head.attempt = actor->life.incarnation + 1;
    enum mob_status status = node_resubmit(
        node, &spec, node->now_ns, (uint8_t)(TASK_REMAKE | (restore_tail ? TASK_RESTORE : 0)), &task);
    free(restore_tail);
    if (status == MOB_OK)
        node_enter(node, task);
    else if (status != MOB_EXISTS)
        node_actor_die(node, actor, status);
}

static void forget(struct node *node, struct node_actor *actor)
{
    mob_sched_actor_close(node->sched, actor->number, MOB_ACTOR_DIED);
    actor_row_forget(node, actor);
    node_actor_let_go(node, actor);
}

/* It has ended, says the log; its row had not been taken out yet. */
static void ended_before(struct node *node, struct node_actor *actor, enum mob_status why)
{
    snprintf(actor->why, sizeof actor->why, "%s", mob_status_text(why));
    node_actor_note_death(node, actor, why);
    actor_row_remove(node, actor);
    mob_sched_actor_close(node->sched, actor->number, MOB_ACTOR_DIED);
}

/* Its row is there before the block with its creation leaves, so that no creation in the log lacks one (but
 * when the control store had no room for rows, row_writes.h); other changes of it are written behind the log.
 * So the log decides: true = it lives. */
static bool lives_in_log(struct node *node, struct node_actor *actor, const struct replay_found *found)
{
    bool aged = actor->life.incarnation > 0; /* its creation may be gone from the log by now */
    if (!found->created && !aged && !(actor->head.flags & MOB_SPEC_UNLOGGED)) {
        forget(node, actor);
        return false;
    }
    if (!found->ended) {
        actor_row_back(node, actor);
        return true;
    }
    ended_before(node, actor, found->end);
    return false;
}

/* What the log holds of it has been read: replays are queued in front, then the creation. */
void node_actor_replay_ready(struct node *node, struct mob_actor_id id, const struct replay_found *found)
{
    struct node_actor *actor = node_actor_find(node, id);
    if (actor && actor->recovering) {
        node_actor_set_recovering(node, actor, false);
        if (found->status == MOB_OK && actor->life.state != MOB_ACTOR_DEAD &&
            !lives_in_log(node, actor, found))
            return;
    }
    if (!actor || (actor->life.state != MOB_ACTOR_RESTARTING && actor->life.state != MOB_ACTOR_PENDING))
        return;
    if (found->status != MOB_OK) {
        if (found->status == MOB_LINEAGE_GONE)
            snprintf(actor->why, sizeof actor->why, "the lineage of its call at position %lu is gone",
                found->missing);
        else if (found->unknown_version != 0)
            snprintf(actor->why, sizeof actor->why, "its checkpoint is of version %u, and this node reads %u",
                found->unknown_version, MOB_CHECKPOINT_ROW_VERSION);
        else
            snprintf(
                actor->why, sizeof actor->why, "its log cannot be read: %s", mob_status_text(found->status));
        node_actor_die(node, actor, found->status);
        return;
    }
    actor->sent = actor->restore ? actor->restore->position + 1 : 0;
    if (actor->life.next_position < found->next_position)
        actor->life.next_position = found->next_position;
    if (actor->life.state == MOB_ACTOR_PENDING && !node_task_find(node, actor->id.creation)) {
        actor->life.state = MOB_ACTOR_RESTARTING; /* its creation had ended, and its row did not say so yet */
        actor->life.incarnation = 1;
    }
    if (actor->life.state == MOB_ACTOR_RESTARTING)
        start_again(node, actor); /* a pending one's creation is an unfinished task and runs as one */
}

/* Its replay came to another state than the one that was. */
static void replay_failed(struct node *node, struct node_actor *actor, enum mob_status why)
{
    struct node_worker *worker = actor->worker;
    char text[MOB_ID_TEXT_MAX];
    MOB_LOG_WARN("actors", "replay_failed", "actor=%s why=\"%s\"", mob_actor_id_format(actor->id, text),
        MOB_LOG_VALUE(actor->why));
    node_actor_die(node, actor, why);
    if (worker)
        node_worker_kill(node, worker, MOB_ACTOR_DIED, "its replay gave another result");
}

void node_actor_diverged(struct node *node, struct mob_actor_id id, uint64_t position)
{
    struct node_actor *actor = node_actor_find(node, id);
    if (!actor || actor->life.state == MOB_ACTOR_DEAD)
        return;
    snprintf(actor->why, sizeof actor->why,
        "it is nondeterministic: its call at position %lu gave another result when it was replayed",
        position);
    replay_failed(node, actor, MOB_NONDETERMINISTIC);
}

void node_actor_input_gone(
    struct node *node, struct mob_actor_id id, uint64_t position, struct mob_task_id call, const char *what)
{
    struct node_actor *actor = node_actor_find(node, id);
    char text[MOB_ID_TEXT_MAX];
    if (!actor || actor->life.state == MOB_ACTOR_DEAD)
        return;
    snprintf(actor->why, sizeof actor->why, "its call %s at position %lu cannot be repeated: %s",
        mob_task_id_format(call, text), position, what);
    replay_failed(node, actor, MOB_OBJECT_LOST);
}

static void restart_loaded(struct node *node, struct node_actor *actor)
{
    if (actor->life.state == MOB_ACTOR_DEAD)
        return;
    node_actor_set_recovering(node, actor, true);
    actor->sent = UINT64_MAX;
    node_actor_restore(node, actor);
}

uint32_t node_actors_restart_loaded(struct node *node)
{
    for (const struct node_actor *a = node_actor_next(node, NULL); a; a = node_actor_next(node, a))
        restart_loaded(node, node_actor_find(node, a->id));
    return node_actors_recovering(node);
}
