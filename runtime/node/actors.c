/* Actors on this node: their creation, the order of calls, and what happens when a worker goes. */
#include "runtime/node/actors.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/checkpoint_row.h"
#include "common/wire/utf8.h"
#include "runtime/node/actor_needs.h"
#include "runtime/node/actor_record.h"
#include "runtime/node/actor_refs.h"
#include "runtime/node/actor_rows.h"
#include "runtime/node/complete.h"
#include "runtime/node/replay.h"
#include "runtime/node/shadow.h"
#include "runtime/node/state_json.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

/* The instance that runs this creation or call, or is to; NULL. */
static struct node_actor *actor_of(struct node *node, const struct node_task *task)
{
    const struct mob_spec_head *head = &task->template->head;
    if (node_task_is_shadow(task))
        return node_shadow_actor(node, task);
    return node_actor_find(
        node, head->kind == MOB_KIND_ACTOR_CALL ? head->actor : (struct mob_actor_id){task->sched.id});
}

static void log_event(
    struct node *node, const struct node_actor *actor, enum mob_actor_event event, enum mob_status reason)
{
    struct mob_entry_actor entry = {
        .actor = actor->id,
        .incarnation = actor->life.incarnation,
        .event = event,
        .position = actor->life.next_position,
        .reason = reason,
    };
    lineage_log_job(node->log, actor->job->id, actor->job->ns);
    lineage_log_other(node->log, MOB_ENTRY_ACTOR, &entry, sizeof entry, NULL, 0);
}

enum mob_status node_actor_create(struct node *node, struct node_task *task)
{
    struct mob_spec_head head;
    uint32_t tail_bytes;
    struct node_tail_room room;
    const uint8_t *tail = node_task_tail(task, &room, &tail_bytes);
    struct mob_ext_view ext;
    char name[ACTOR_NAME_MAX] = "";
    struct mob_actor_id taken;
    node_task_head(task, &head);
    if (actor_of(node, task)) {
        task->flags |= TASK_ACTOR_CREATE;
        return MOB_OK; /* another incarnation of a known actor, which has its name already */
    }
    if (mob_spec_find_ext(tail, MOB_EXT_NAME, &ext)) {
        if (ext.payload_bytes >= sizeof name)
            return MOB_TOO_LARGE;
        if (!json_utf8_ok(ext.payload, ext.payload_bytes))
            return MOB_INVALID; /* it is shown in JSON */
        memcpy(name, ext.payload, ext.payload_bytes);
        if (node_actor_by_name(node, task->template->job->ns, name, &taken))
            return MOB_EXISTS;
    }
    task->flags |= TASK_ACTOR_CREATE;
    struct node_actor *actor =
        node_actor_add(node, &head, tail, tail_bytes, task->template->job, task->template->function);
    if (!actor)
        return MOB_QUEUE_FULL;
    actor->needed_since_wall_ns = node_needed_since(task->submitted_ns);
    actor_refs_note(node, actor->id, 0, task->sched.id, tail);
    actor_row_new(node, actor);
    return MOB_OK;
}

static void log_edge(struct node *node, struct node_actor *actor, const struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    struct mob_entry_edge edge = {.actor = actor->id,
        .task = task->sched.id,
        .position = extra->position,
        .incarnation = actor->life.incarnation};
    uint32_t tail_bytes;
    struct node_tail_room room;
    node_actor_called(actor, task->template->job->id, extra->position, task->submitted_ns);
    actor_refs_note(
        node, actor->id, extra->position, task->sched.id, node_task_tail(task, &room, &tail_bytes));
    /* a recovered call's spec was not logged just before it */
    lineage_log_job(node->log, task->template->job->id, task->template->job->ns);
    lineage_log_edge(node->log, &edge);
}

enum mob_status node_actor_enqueue(struct node *node, struct node_task *task)
{
    struct node_actor *actor = actor_of(node, task);
    if (!actor) /* only living ones are read from the control store */
        return MOB_ACTOR_DIED;
    struct node_task_extra *extra = node_task_extra(node, task);
    if (task->flags & TASK_ACTOR_CALL)
        return MOB_OK; /* comes back with the position it has in the log */
    bool reads = node_task_reads(task);
    enum mob_status status = reads ? mob_actor_life_read(&actor->life, &extra->position)
                                   : mob_actor_life_call(&actor->life, &extra->position);
    if (status != MOB_OK)
        return status;
    task->flags |= TASK_ACTOR_CALL;
    extra->incarnation = actor->life.incarnation;
    actor->calls++;
    if (!reads)
        log_edge(node, actor, task);
    return MOB_OK;
}

uint32_t node_actor_number(struct node *node, const struct node_task *task)
{
    struct node_actor *actor = actor_of(node, task);
    return actor ? actor->number : 0;
}

void node_actor_sent(struct node_worker *worker, const struct node_task *call)
{
    if (worker->actor && !node_task_reads(call))
        worker->actor->sent = node_extra_of(call)->position + 1;
}

void node_actor_placed(struct node *node, struct node_task *task, struct node_worker *worker)
{
    struct node_actor *actor = actor_of(node, task);
    if (!actor)
        return;
    actor->worker = worker;
    worker->actor = actor;
}

void node_actor_die(struct node *node, struct node_actor *actor, enum mob_status why)
{
    node_actor_note_death(node, actor, why);
    log_event(node, actor, MOB_ACTOR_EV_ENDED, why);
    actor_row_remove(node, actor);
    if (actor->worker) {
        actor->worker->actor = NULL;
        actor->worker = NULL;
    }
    if (actor->number)
        mob_sched_actor_close(node->sched, actor->number, MOB_ACTOR_DIED);
    node_shadow_resume(node, actor->id);
}

static void creation_ended(
    struct node *node, struct node_task *task, enum mob_status status, const char *message)
{
    struct node_actor *actor = node_actor_find(node, (struct mob_actor_id){task->sched.id});
    if (!actor || actor->life.state == MOB_ACTOR_DEAD)
        return;
    node_checkpoint_used(node, actor);
    if (status != MOB_OK) {
        snprintf(actor->why, sizeof actor->why, "its constructor failed: %.130s",
            message && *message ? message : mob_status_text(status));
        node_actor_die(node, actor, status);
        return;
    }
    if (!actor->worker || !mob_actor_life_up(&actor->life, node->now_ns))
        return;
    log_event(node, actor, MOB_ACTOR_EV_STARTED, MOB_OK);
    actor_row_change(node, actor);
    enum mob_status up = mob_sched_actor_up(node->sched, actor->number, (uint16_t)actor->worker->number);
    MOB_ASSERT(up == MOB_OK);
    node_shadow_resume(node, actor->id);
}

const char *node_actor_death(struct node *node, struct mob_actor_id id, char *text, size_t capacity)
{
    const struct node_actor *actor = node_actor_find(node, id);
    const char *why = actor ? actor->why : "it ended before this node began";
    snprintf(text, capacity, "%s%s%s", mob_status_text(MOB_ACTOR_DIED), why[0] ? ": " : "", why);
    return text;
}

bool node_call_skipped(const struct mob_completion_head *completion)
{
    bool ran = completion->started_ns != 0; /* else the node ended it */
    return !ran || completion->status == MOB_CANCELLED || completion->status == MOB_DEADLINE;
}

void node_actor_task_ended(struct node *node, struct node_task *task,
    const struct mob_completion_head *completion, const char *message)
{
    if (node_task_is_shadow(task)) {
        node_shadow_task_ended(node, task, (enum mob_status)completion->status);
        return;
    }
    if (task->flags & TASK_ACTOR_CREATE) {
        creation_ended(node, task, (enum mob_status)completion->status, message);
        return;
    }
    if (!(task->flags & TASK_ACTOR_CALL))
        return;
    struct node_actor *actor = node_actor_find(node, task->template->head.actor);
    const struct node_task_extra *extra = node_extra_of(task);
    if (!actor || !extra)
        return;
    if (node_task_reads(task)) { /* no replay leaves it out, for none has it */
        if (!node_call_skipped(completion) && !(task->flags & TASK_REMAKE))
            mob_actor_life_read_ended(&actor->life);
        return;
    }
    mob_actor_life_ended(&actor->life, extra->position, node_call_skipped(completion));
    if (task->flags & TASK_REMAKE)
        node_shadow_repeated(node, actor->id, extra->position);
    actor->last_call = task->sched.id;
    actor->last_position = extra->position;
    actor->last_submitted_ns = task->submitted_ns;
    if (node_call_skipped(completion) && !(task->flags & TASK_REMAKE)) {
        struct mob_entry_edge skip = {.actor = actor->id,
            .task = task->sched.id,
            .position = extra->position,
            .incarnation = actor->life.incarnation,
            .reason = completion->status};
        lineage_log_job(node->log, actor->job->id, actor->job->ns);
        lineage_log_other(node->log, MOB_ENTRY_SKIP, &skip, sizeof skip, NULL, 0);
    }
}

int32_t node_actor_restarts_left(struct node *node, const struct node_task *task)
{
    const struct node_actor *actor = actor_of(node, task);
    return actor ? actor->life.restarts_left : 0;
}

uint32_t node_actor_waits_for(struct node *node, const struct node_task *task)
{
    const struct node_actor *actor = actor_of(node, task);
    return actor ? mob_actor_life_waits_for(&actor->life) : 0;
}

bool node_actor_restarts_at(struct node *node, const struct node_task *call, int64_t *at_ns_out)
{
    const struct node_actor *actor = actor_of(node, call);
    const struct node_task *creation = actor ? node_task_find(node, actor->id.creation) : NULL;
    struct mob_why why = {0};
    if (creation)
        mob_sched_why(node->sched, &creation->sched, &why);
    *at_ns_out = why.until;
    return why.reason == MOB_WHY_DELAYED;
}

void node_actor_creation_lost(struct node *node, struct node_task *task, bool unpaid)
{
    struct node_actor *actor = node_actor_find(node, (struct mob_actor_id){task->sched.id});
    if (!actor)
        return;
    if (!unpaid && actor->life.restarts_left > 0)
        actor->life.restarts_left--;
    if (actor->worker)
        actor->worker->actor = NULL;
    actor->worker = NULL;
    actor_row_change(node, actor);
}

void node_actor_down(struct node *node, uint32_t number, struct node_task *running, bool unpaid)
{
    struct node_actor *actor = node_actor_numbered(node, number);
    uint64_t replay_from;
    if (running)
        node_attempt_lost(node, running);
    if (!actor && node_shadow_down(node, number))
        return;
    if (!actor || actor->life.state == MOB_ACTOR_DEAD)
        return;
    if (actor->worker) {
        actor->worker->actor = NULL;
        actor->worker = NULL;
    }
    bool pays = !unpaid || actor->life.failures >= MOB_SCHED_UNPAID_MAX;
    if (!mob_actor_life_down(&actor->life, pays, node->now_ns, &replay_from)) {
        int signal;
        snprintf(actor->why, sizeof actor->why, "%s, and no restarts are left",
            node_death_notice(node, &signal, NULL, 0));
        node_actor_die(node, actor, MOB_ACTOR_DIED);
        return;
    }
    actor->sent = UINT64_MAX;
    log_event(node, actor, MOB_ACTOR_EV_DIED, MOB_WORKER_DIED);
    actor_row_change(node, actor);
    if (!node_shadow_yield(node, actor->id))
        node_actor_restore(node, actor);
}

enum mob_status node_actor_kill(struct node *node, struct mob_actor_id id, bool no_restart)
{
    struct node_actor *actor = node_actor_find(node, id);
    if (!actor)
        return MOB_NOT_FOUND;
    if (actor->life.state == MOB_ACTOR_DEAD)
        return MOB_FINISHED;
    struct node_worker *worker = actor->worker;
    if (no_restart) {
        snprintf(actor->why, sizeof actor->why, "it was killed");
        node_actor_die(node, actor, MOB_ACTOR_DIED);
    }
    if (worker)
        node_worker_kill(node, worker, MOB_ACTOR_DIED, "its actor was killed");
    struct node_task *creation = no_restart && !worker ? node_task_find(node, id.creation) : NULL;
    if (creation) /* not placed yet: it would take a worker for nobody */
        mob_sched_cancel(node->sched, &creation->sched, true, false, node->now_ns);
    return MOB_OK;
}

static json_t *actor_json(const struct node_actor *actor)
{
    char id[MOB_ID_TEXT_MAX], job[MOB_ID_TEXT_MAX];
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:b,s:s}", "id",
        mob_actor_id_format(actor->id, id), "class", actor->class ? actor->class->name : "", "name",
        actor->name, "state", mob_actor_state_text(actor->life.state), "job",
        mob_job_id_format(actor->job->id, job), "namespace", actor->job->ns, "incarnation",
        (json_int_t)actor->life.incarnation, "calls", (json_int_t)actor->calls, "next_position",
        (json_int_t)actor->life.next_position, "restarts_left", (json_int_t)actor->life.restarts_left, "pid",
        (json_int_t)(actor->worker ? actor->worker->pid : 0), "detached", (int)actor->detached, "why",
        actor->why);
}

static char *dump(json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    json_decref(value);
    return text;
}

char *node_actor_json(struct node *node, struct mob_actor_id id)
{
    struct node_actor *actor = node_actor_find(node, id);
    if (!actor)
        return NULL;
    json_t *out = actor_json(actor);
    node_spec_options_into(out, &actor->head, actor->tail);
    return dump(out);
}

char *node_actors_json(struct node *node, const struct node_job *job)
{
    json_t *items = json_array();
    for (const struct node_actor *a = node_actor_next(node, NULL); a; a = node_actor_next(node, a))
        if (!job || a->job == job)
            json_array_append_new(items, actor_json(a));
    return dump(items);
}

void node_actors_end_job(struct node *node, const struct node_job *job)
{
    for (const struct node_actor *a = node_actor_next(node, NULL); a; a = node_actor_next(node, a))
        if (a->job == job && !a->detached && a->life.state != MOB_ACTOR_DEAD)
            (void)node_actor_kill(node, a->id, true);
}
