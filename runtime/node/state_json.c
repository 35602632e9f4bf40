#include "runtime/node/state_json.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/wire/spec_json.h"
#include "runtime/node/actors.h"
#include "runtime/node/alias.h"
#include "runtime/node/checkpoint_room.h"
#include "runtime/node/recovery.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

/* The number by which records, events and log files know a worker; the scheduler's own are used again. */
static uint32_t worker_serial(struct node *node, uint32_t number)
{
    const struct node_worker *worker = node_worker_at(node, number);
    return worker ? worker->serial : 0;
}

/* The checkpoint that an actor begins with is its creation's one input. */
static void say_what_has_no_room(const struct node *node, const struct mob_why *why, json_t *out)
{
    uint32_t bytes;
    if (why->input_count != 1 || !checkpoint_room_waits(node, why->inputs[0], &bytes))
        return;
    json_object_set_new(out, "reason", json_string("checkpoint-room"));
    json_object_set_new(out, "needed_bytes", json_integer(bytes));
}

json_t *node_task_why_json(struct node *node, const struct node_task *task)
{
    struct mob_why why;
    char id[MOB_ID_TEXT_MAX];
    mob_sched_why(node->sched, &task->sched, &why);
    json_t *out = json_pack("{s:s,s:s,s:b}", "task", mob_task_id_format(task->sched.id, id), "reason",
        mob_why_text(why.reason), "stopping", (int)why.stopping);
    if (why.reason == MOB_WHY_INPUTS) {
        json_t *inputs = json_array();
        for (uint32_t i = 0; i < why.input_count && i < MOB_SCHED_WHY_INPUTS; i++)
            json_array_append_new(inputs, json_string(mob_object_id_format(why.inputs[i], id)));
        json_object_set_new(out, "inputs", inputs);
        json_object_set_new(out, "input_count", json_integer(why.input_count));
        say_what_has_no_room(node, &why, out);
    } else if (why.reason == MOB_WHY_RESOURCES || why.reason == MOB_WHY_UNSATISFIABLE) {
        const char *name = mob_sched_resource_name(node->sched, why.resource);
        json_object_set_new(out, "resource", json_string(name ? name : "?"));
        json_object_set_new(out, "needed", json_real((double)why.needed / MOB_SCHED_UNIT));
        json_object_set_new(out, "free", json_real((double)why.free / MOB_SCHED_UNIT));
        json_object_set_new(out, "total", json_real((double)why.total / MOB_SCHED_UNIT));
    } else if (why.reason == MOB_WHY_DELAYED ||
        (why.reason == MOB_WHY_ACTOR_PENDING && node_actor_restarts_at(node, task, &why.until))) {
        json_object_set_new(out, "until_us", json_integer(lineage_log_wall(node->log, why.until) / 1000));
    } else if (why.reason == MOB_WHY_QUEUED || why.reason == MOB_WHY_ACTOR_ORDER ||
        why.reason == MOB_WHY_BATCH) {
        json_object_set_new(out, "ahead", json_integer(why.ahead));
    }
    if (why.reason == MOB_WHY_RUNNING || why.reason == MOB_WHY_BLOCKED || why.reason == MOB_WHY_BATCH) {
        json_object_set_new(out, "worker", json_integer(worker_serial(node, why.worker)));
        json_object_set_new(out, "since_us", json_integer((node->now_ns - why.since) / 1000));
    }
    return out;
}

static const char *state_text(const struct node_task *task)
{
    static const char *const texts[] = {"new", "waiting", "delayed", "ready", "running", "blocked", "done"};
    return texts[task->sched.state];
}

static const char *kind_text(uint8_t kind)
{
    return kind == MOB_KIND_ACTOR_CREATE ? "actor_create"
        : kind == MOB_KIND_ACTOR_CALL    ? "actor_call"
                                         : "task";
}

void node_spec_options_into(json_t *object, const struct mob_spec_head *head, const uint8_t *tail)
{
    char *text;
    uint64_t length;
    if (mob_spec_options_json(head, tail, &text, &length) != MOB_OK)
        return;
    json_t *options = json_loadb(text, length, 0, NULL);
    json_object_update(object, options);
    json_decref(options);
    free(text);
}

static int64_t submitted_us(const struct node *node, const struct node_task *task)
{
    return lineage_log_wall(node->log, task->submitted_ns) / 1000;
}

json_t *node_task_json(struct node *node, const struct node_task *task)
{
    char id[MOB_ID_TEXT_MAX], parent[MOB_ID_TEXT_MAX], job[MOB_ID_TEXT_MAX];
    const struct mob_spec_head *head = &task->template->head;
    struct node_function *f = task->template->function;
    json_t *out = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:I}", "id",
        mob_task_id_format(task->sched.id, id), "state", state_text(task), "kind", kind_text(head->kind),
        "function", f ? f->name : "", "parent", mob_task_id_format(head->parent, parent), "job",
        mob_job_id_format(head->job, job), "attempt", (int)node_task_attempt(task), "method",
        head->kind == MOB_KIND_ACTOR_CALL ? (int)head->method : -1, "submitted_us",
        (json_int_t)submitted_us(node, task));
    if (task->sched.state == MOB_SCHED_DISPATCHED || task->sched.state == MOB_SCHED_BLOCKED) {
        struct node_worker *worker = node_worker_at(node, task->sched.worker);
        json_object_set_new(out, "worker", json_integer(worker_serial(node, task->sched.worker)));
        json_object_set_new(out, "pid", json_integer(worker ? worker->pid : 0));
    }
    return out;
}

static bool has_worker(const struct node_task *task)
{
    return task->sched.state == MOB_SCHED_DISPATCHED || task->sched.state == MOB_SCHED_BLOCKED;
}

/* Of this attempt; 0: it has no worker, or others of its worker come first. */
static int64_t started_us(struct node *node, const struct node_task *task)
{
    struct mob_why why;
    if (!has_worker(task))
        return 0;
    mob_sched_why(node->sched, &task->sched, &why);
    if (why.reason != MOB_WHY_RUNNING && why.reason != MOB_WHY_BLOCKED)
        return 0;
    int64_t at_us = lineage_log_wall(node->log, why.since) / 1000;
    int64_t earliest_us = submitted_us(node, task) + task->dispatched_us;
    return at_us > earliest_us ? at_us : earliest_us;
}

void node_task_live(struct node *node, struct mob_task_id id, struct mob_live_task *out)
{
    static const uint8_t states[MOB_SCHED_STATE_COUNT] = {[MOB_SCHED_WAITING] = MOB_LIVE_WAITING,
        [MOB_SCHED_DELAYED] = MOB_LIVE_DELAYED,
        [MOB_SCHED_READY] = MOB_LIVE_READY,
        [MOB_SCHED_DISPATCHED] = MOB_LIVE_RUNNING,
        [MOB_SCHED_BLOCKED] = MOB_LIVE_BLOCKED};
    const struct node_task *task = node_task_find(node, id);
    *out = (struct mob_live_task){0};
    if (task == NULL || states[task->sched.state] == MOB_LIVE_NOT) {
        out->state = task == NULL && node_tail_call_of(node, id) ? MOB_LIVE_CONTINUED : MOB_LIVE_NOT;
        return;
    }
    out->state = states[task->sched.state];
    out->attempt = node_task_attempt(task);
    out->has_worker = has_worker(task);
    out->worker = out->has_worker ? worker_serial(node, task->sched.worker) : 0;
    out->started_us = started_us(node, task);
}

/* How far this attempt has come, as its completion will say. */
static void times_into(json_t *out, struct node *node, const struct node_task *task)
{
    int64_t at_us = json_integer_value(json_object_get(out, "submitted_us")),
            begun_us = started_us(node, task);
    if (!has_worker(task))
        return;
    json_object_set_new(out, "inputs_ready_us", json_integer(at_us + task->ready_us));
    json_object_set_new(out, "dispatched_us", json_integer(at_us + task->dispatched_us));
    if (begun_us > 0)
        json_object_set_new(out, "started_us", json_integer(begun_us));
}

json_t *node_task_whole_json(struct node *node, const struct node_task *task)
{
    uint32_t tail_bytes;
    struct node_tail_room room;
    json_t *out = node_task_json(node, task);
    times_into(out, node, task);
    json_object_set_new(out, "generation", json_integer(node_task_generation(task)));
    node_spec_options_into(out, &task->template->head, node_task_tail(task, &room, &tail_bytes));
    return out;
}

json_t *node_task_continued_json(const struct node_tail_call *call, bool why)
{
    char id[MOB_ID_TEXT_MAX], target[MOB_ID_TEXT_MAX];
    return json_pack("{s:s,s:s,s:[s]}", why ? "task" : "id", mob_task_id_format(call->id.task, id),
        why ? "reason" : "state", "continued", "inputs", mob_object_id_format(call->target, target));
}

static json_t *resources_json(struct node *node)
{
    json_t *out = json_object();
    const char *name;
    for (uint16_t kind = 0; (name = mob_sched_resource_name(node->sched, kind)); kind++) {
        int64_t total, free_now;
        mob_sched_resource_get(node->sched, kind, &total, &free_now);
        if (total == 0)
            continue;
        json_object_set_new(out, name,
            json_pack("{s:f,s:f}", "total", (double)total / MOB_SCHED_UNIT, "free",
                (double)free_now / MOB_SCHED_UNIT));
    }
    return out;
}

static json_t *store_json(struct node *node)
{
    struct mob_store_stats s;
    mob_store_stats(node->store, &s);
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:i}", "segment_bytes",
        (json_int_t)s.segment_bytes, "warm_bytes", (json_int_t)s.warm_bytes, "used_bytes",
        (json_int_t)s.arena_used_bytes, "free_bytes", (json_int_t)s.arena_free_bytes, "objects",
        (json_int_t)s.objects, "entries", (json_int_t)s.object_entries, "spilled_objects",
        (json_int_t)s.spilled_objects, "spilled_bytes", (json_int_t)s.spilled_bytes, "evictions",
        (json_int_t)s.evictions, "restores", (json_int_t)s.restores, "clients", (int)s.clients);
}

json_t *node_stats_json(struct node *node)
{
    struct lineage_log_stats log;
    struct mob_sched_stats s;
    struct mob_gcs_position gcs;
    lineage_log_stats(node->log, &log);
    mob_sched_stats(node->sched, &s);
    mob_gcs_position(node->gcs, &gcs);
    json_t *out = json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "name", node->options.name,
        "incarnation", (json_int_t)node->incarnation, "passes", (json_int_t)node->passes, "submitted",
        (json_int_t)node->submitted, "finished", (json_int_t)node->finished, "failed",
        (json_int_t)node->failed, "retried", (json_int_t)node->retried, "duplicates",
        (json_int_t)node->duplicates, "resources", resources_json(node), "store", store_json(node));
    json_object_set_new(out, "queue",
        json_pack("{s:i,s:i,s:i,s:i,s:i,s:i}", "tasks", (int)s.tasks, "waiting",
            (int)s.by_state[MOB_SCHED_WAITING], "ready", (int)s.by_state[MOB_SCHED_READY], "running",
            (int)s.by_state[MOB_SCHED_DISPATCHED], "blocked", (int)s.by_state[MOB_SCHED_BLOCKED], "delayed",
            (int)s.by_state[MOB_SCHED_DELAYED]));
    json_object_set_new(out, "workers",
        json_pack("{s:i,s:i,s:i,s:i,s:i,s:I,s:I}", "all", (int)s.workers, "idle", (int)s.idle, "busy",
            (int)s.busy, "blocked", (int)s.blocked, "actors", (int)s.actors, "nested", (json_int_t)s.nested,
            "revoked", (json_int_t)s.revoked));
    json_object_set_new(out, "log",
        json_pack("{s:I,s:I,s:I,s:I,s:I,s:I}", "entries", (json_int_t)log.entries, "blocks",
            (json_int_t)log.blocks, "bytes", (json_int_t)log.bytes, "acked", (json_int_t)log.acked, "durable",
            (json_int_t)log.durable, "in_flight", (json_int_t)log.in_flight));
    json_object_set_new(out, "gcs",
        json_pack("{s:b,s:b,s:I,s:I,s:I}", "connected", (int)mob_gcs_connected(node->gcs), "pressure",
            (int)gcs.pressure, "memory_bytes", (json_int_t)gcs.memory_bytes, "soft_bytes",
            (json_int_t)gcs.memory_soft_bytes, "hard_bytes", (json_int_t)gcs.memory_hard_bytes));
    json_object_set_new(out, "recoveries", recovery_json(node));
    return out;
}
