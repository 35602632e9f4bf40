/* What a task gave, told: each of its returns and items, or the error that stands in their places. */
#include "runtime/node/announce.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "runtime/node/alias.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/notices.h"
#include "runtime/node/remade.h"
#include "runtime/node/task.h"

/* Readiness of one return. Small results are in the completion, all are in the store. */
static struct ready_object ready_of(
    const struct node_task *task, const struct mob_return_view *r, enum mob_status status)
{
    return (struct ready_object){
        .id = mob_object_of(task->sched.id, r->slot),
        .status = status,
        .type = r->type,
        .remakeable =
            !(r->flags & MOB_RETURN_STORED) || (task->template->head.flags & MOB_SPEC_DETERMINISTIC),
        .committed = (task->flags & (TASK_UNLOGGED | TASK_REMAKE)) != 0,
        .size = r->size,
        .small = r->flags & MOB_RETURN_STORED ? NULL : r->payload,
    };
}

static void announce(struct node *node, const struct node_task *task, const struct ready_object *object)
{
    bool told = node_object_ready(node, object,
        task->submitter == TASK_NO_SUBMITTER ? NODE_NOBODY : task->submitter, task->submitter_session);
    /* The log has it already, so nothing commits it a second time, unless its hash is compared first. */
    if ((task->flags & TASK_REMAKE) && object->committed)
        mob_store_object_committed(node->store, object->id, object->remakeable);
    if (!(task->flags & TASK_UNLOGGED))
        return;
    /* No log will commit it. What its caller has got whole is nobody's any more. */
    if (told && object->small)
        mob_store_object_free(node->store, object->id);
    else
        mob_store_object_committed(node->store, object->id, object->small != NULL);
}

struct error_value {
    enum mob_status status;
    const uint8_t *payload; /* of the value */
    uint32_t bytes;
    const void *value;
    uint64_t size;
};

static void announce_error_at(
    struct node *node, struct node_task *task, uint32_t slot, const struct error_value *e)
{
    struct mob_return_view r = {
        .slot = slot, .type = MOB_TYPE_ERROR, .size = e->size, .flags = MOB_RETURN_STORED};
    struct ready_object object = ready_of(task, &r, e->status);
    struct mob_object_info there;
    bool exists = mob_store_object_info(node->store, object.id, &there) && there.sealed;
    /* What an attempt left that did not come to its end is not the outcome. */
    if (exists && there.type != MOB_TYPE_ERROR)
        mob_store_object_free(node->store, object.id);
    enum mob_status put = exists && there.type == MOB_TYPE_ERROR
        ? MOB_OK
        : mob_store_object_put(node->store, object.id, MOB_TYPE_ERROR, false, e->value, e->size);
    if (put != MOB_OK) { /* the full store may be why it failed: the notice has it */
        MOB_LOG_WARN("complete", "error_not_stored", "status=%s", mob_status_code(put));
        object.size = e->bytes;
        object.small = e->payload;
    }
    object.remakeable = true; /* it is in the completion */
    announce(node, task, &object);
}

struct slots {
    uint32_t first, count;
};

/* Where the error of this task stands. Of a generator that is where the next item would; of one that runs
 * again, whose end is in the log, all that it did not come to. */
static struct slots error_slots(const struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    uint32_t slots = task->template->head.num_returns;
    if (slots != MOB_RETURNS_STREAM)
        return (struct slots){0, slots == 0 ? 1 : slots};
    if (!extra)
        return (struct slots){0, 1};
    if (!extra->logged)
        return (struct slots){extra->yielded, 1};
    uint32_t first = extra->yielded < extra->items ? extra->yielded : extra->items;
    return (struct slots){first, extra->items - first + 1};
}

struct error_room {
    uint8_t value[NODE_ERROR_BYTES_MAX + 256] __attribute__((aligned(64)));
};

/* The value of an error, in `room`. */
static bool error_fill(struct error_value *e, struct error_room *room)
{
    uint8_t *at;
    if (mob_value_full_size(e->bytes, 0, 0, &e->size) != MOB_OK || e->size > sizeof room->value ||
        mob_value_init(room->value, e->size, MOB_TYPE_ERROR, e->bytes, NULL, 0, NULL, 0, &at) != MOB_OK)
        return false;
    memcpy(at, e->payload, e->bytes);
    mob_value_hash(room->value);
    e->value = room->value;
    return true;
}

/* The error, but for its value. Of a task that ran again it stands where the first bytes are lost. */
static void announce_error_in(
    struct node *node, struct node_task *task, struct slots slots, struct error_value e)
{
    struct error_room room;
    if (!error_fill(&e, &room))
        return;
    for (uint32_t slot = slots.first; slot < slots.first + slots.count; slot++)
        if (node_remade_in_log(task, slot) || node_remade_kept(node, task, slot))
            node_remade_from_log(node, task, slot);
        else
            announce_error_at(node, task, slot, &e);
}

void node_announce_error(
    struct node *node, struct node_task *task, enum mob_status status, const uint8_t *payload, uint32_t bytes)
{
    struct error_value e = {.status = status, .payload = payload, .bytes = bytes};
    announce_error_in(node, task, error_slots(task), e);
}

void node_announce_logged(struct node *node, const struct node_task *task)
{
    struct slots slots = error_slots(task);
    for (uint32_t slot = slots.first; slot < slots.first + slots.count; slot++)
        node_remade_from_log(node, task, slot);
}

/* Tail call: the result is what another object becomes; told when that one is ready (alias.c). */
static bool is_tail_call(const struct mob_return_view *r)
{
    return r->type == MOB_TYPE_FUTURE && r->size == sizeof(struct mob_object_id) && r->payload;
}

static void continue_as(struct node *node, const struct node_task *task, const struct mob_return_view *r)
{
    struct node_tail_call call = {
        .id = mob_object_of(task->sched.id, r->slot),
        .submitter = task->submitter == TASK_NO_SUBMITTER ? NODE_NOBODY : task->submitter,
        .session = task->submitter_session,
        .job = task->template->job,
        .generation = node_task_generation(task),
        .children = mob_sched_children(&task->sched),
    };
    memcpy(&call.target, r->payload, sizeof call.target);
    mob_sched_function_defers(node->sched, task->template->sched_function);
    node_alias(node, &call);
}

/* A value over 1 MiB is committed behind its hash. One that is made again must have the hash of the first,
 * but for a task that may give something else then; mostly its maker has compared already. */
static void announce_value(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r)
{
    struct ready_object object = ready_of(task, r, MOB_OK);
    const struct mob_spec_head *head = &task->template->head;
    const struct node_job *job = task->template->job;
    node_remade_seal(node, task, maker, r);
    if ((r->flags & MOB_RETURN_HASH_LATER) && !(task->flags & TASK_UNLOGGED) &&
        !node_remade_hash_known(task, r)) {
        struct large_hash_wanted wanted = {.id = object.id,
            .job = job->id,
            .ns = job->ns,
            .slot = NODE_NOBODY,
            .again = (task->flags & TASK_REMAKE) && !(head->flags & MOB_SPEC_RESTART_ON_DIVERGENCE)};
        /* sealed by its maker after its record, perhaps not yet */
        (void)mob_store_seal_published(node->store, object.id, maker->slot);
        if (large_hashes_want(node, &wanted))
            object.committed = false;
    }
    announce(node, task, &object);
}

struct diverged {
    struct error_value error;
    uint8_t payload[512];
};

static void diverged_fill(struct diverged *d, const struct node_task *task)
{
    static const char message[] = "its bytes were lost, and its function gave others when it ran again: the "
                                  "value cannot be had any more";
    struct mob_error_link link = {.status = MOB_REPLAY_DIVERGED,
        .task = task->sched.id,
        .message = message,
        .message_bytes = sizeof message - 1};
    d->error = (struct error_value){.status = MOB_REPLAY_DIVERGED,
        .payload = d->payload,
        .bytes = mob_error_encode(d->payload, sizeof d->payload, &link, NULL, 0)};
}

static void log_diverged(const struct node_task *task)
{
    char id[MOB_ID_TEXT_MAX];
    MOB_LOG_WARN("complete", "remade_otherwise", "task=%s", mob_task_id_format(task->sched.id, id));
}

/* Its results were there before, and are lost with their node: what it gives now is something else. */
static void announce_diverged_in(struct node *node, struct node_task *task, struct slots slots)
{
    struct diverged diverged;
    diverged_fill(&diverged, task);
    log_diverged(task);
    announce_error_in(node, task, slots, diverged.error);
}

void node_announce_diverged(struct node *node, struct node_task *task)
{
    announce_diverged_in(node, task, error_slots(task));
}

/* Of a generator: no item at or above this slot. One that runs again ends where it did the first time. */
static void announce_end(struct node *node, struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    struct ready_object end = {.id = mob_object_of(task->sched.id, extra ? extra->yielded : 0),
        .type = MOB_TYPE_NONE,
        .flags = MOB_READY_LAST,
        .remakeable = true};
    if (!extra || !extra->logged)
        announce(node, task, &end);
    else if (extra->yielded < extra->items)
        node_announce_diverged(node, task);
    else
        node_remade_from_log(node, task, extra->items);
}

/* Whatever this run gave: the log has the value. */
static void announce_first(struct node *node, const struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r)
{
    node_remade_drop(node, task, maker, r);
    node_remade_from_log(node, task, r->slot);
}

void node_announce_returns(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion)
{
    struct mob_return_view r;
    uint32_t at = 0;
    while (mob_completion_next(completion, &at, &r))
        if (!node_remade_counts(task, r.slot))
            announce_first(node, task, maker, &r);
        else if (is_tail_call(&r))
            continue_as(node, task, &r);
        else
            announce_value(node, task, maker, &r);
    if (task->template->head.num_returns == MOB_RETURNS_STREAM)
        announce_end(node, task);
}

void node_announce_what_stands(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_completion *completion)
{
    struct mob_return_view r;
    uint32_t at = 0;
    if (completion->head.status != MOB_OK) {
        node_announce_diverged(node, task);
        return;
    }
    while (mob_completion_next(completion, &at, &r))
        if (r.flags & MOB_RETURN_STORED)
            announce_value(node, task, maker, &r);
        else
            announce_first(node, task, maker, &r);
}

void node_announce_item(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *r)
{
    if (node_remade_item_differs(task, r)) {
        node_remade_drop(node, task, maker, r);
        announce_diverged_in(node, task, (struct slots){r->slot, 1});
    } else if (!node_remade_counts(task, r->slot)) {
        announce_first(node, task, maker, r);
    } else {
        announce_value(node, task, maker, r);
    }
}

void node_announce_other_put(struct node *node, struct node_task *task, const struct node_client *maker,
    const struct mob_return_view *put)
{
    node_remade_drop(node, task, maker, put);
    announce_diverged_in(node, task, (struct slots){put->slot, 1});
}

/* ---- puts that did not come ---- */

struct later_resolve {
    struct node *node;
    struct mob_object_id id;
};

static void resolve_now(void *arg)
{
    struct later_resolve *later = arg;
    node_resolve(later->node, later->id);
    free(later);
}

/* When the log has the end of the task, which could else be taken for one that goes on. */
static void resolve_behind_the_log(struct node *node, struct mob_object_id id)
{
    struct effect effect = {.kind = EFFECT_CALL, .slot = NODE_NOBODY};
    struct later_resolve *later = malloc(sizeof *later);
    MOB_ASSERT(later);
    *later = (struct later_resolve){node, id};
    effect.call.fn = resolve_now;
    effect.call.drop = free;
    effect.call.arg = later;
    lineage_log_effect(node->log, &effect);
}

static void announce_missing(struct node *node, struct node_task *task, uint32_t slot, void *arg)
{
    if (mob_put_generation(slot) < node_extra_of(task)->first_generation) {
        resolve_behind_the_log(node, mob_object_of(task->sched.id, slot));
        return;
    }
    log_diverged(task);
    announce_error_at(node, task, slot, arg);
}

void node_announce_missing_puts(
    struct node *node, struct node_task *task, enum mob_status status, const uint8_t *payload, uint32_t bytes)
{
    const struct node_task_extra *extra = node_extra_of(task);
    struct error_room room;
    struct diverged diverged;
    struct error_value e = {.status = status, .payload = payload, .bytes = bytes};
    if (!extra || extra->stored_count + extra->wanted_count == 0)
        return;
    if (!payload) {
        diverged_fill(&diverged, task);
        e = diverged.error;
    }
    if (error_fill(&e, &room))
        node_remade_each_missing_put(node, task, announce_missing, &e);
}
