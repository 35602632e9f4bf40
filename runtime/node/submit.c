/* A spec enters the node: logged, checked, given to the local scheduler. */
#include "runtime/node/submit.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/actors.h"
#include "runtime/node/borrowed.h"
#include "runtime/node/complete.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"
#include "runtime/node/task.h"

enum { MISSING_ON_STACK = 64, INPUTS_FETCHED = 8 };

/* What the arguments need. `missing` may be allocated; free with missing_fini. */
struct inputs {
    struct mob_object_id on_stack[MISSING_ON_STACK];
    struct mob_object_id *missing;
    uint32_t count, capacity;
};

static void inputs_fini(struct inputs *in)
{
    if (in->missing != in->on_stack)
        free(in->missing);
}

static void add_missing(struct inputs *in, struct mob_object_id id)
{
    if (in->count == in->capacity) {
        uint32_t capacity = in->capacity * 4;
        struct mob_object_id *bigger = malloc(capacity * sizeof *bigger);
        MOB_ASSERT(bigger);
        memcpy(bigger, in->missing, in->count * sizeof *bigger);
        inputs_fini(in);
        in->missing = bigger;
        in->capacity = capacity;
    }
    in->missing[in->count++] = id;
}

static void need(struct node *node, struct inputs *in, struct mob_object_id id)
{
    struct mob_object_info info;
    /* an error is ready too: the worker that opens it fails the task with the chain of causes */
    if (!mob_store_object_info(node->store, id, &info) || !info.sealed)
        add_missing(in, id);
}

/* Arguments that continue in pages: the pages are objects of the submitter, put before the spec. */
static void need_paged(struct node *node, struct inputs *in, struct mob_task_id task, uint32_t pages)
{
    for (uint32_t p = 0; p < pages; p++) {
        struct mob_object_id id = mob_object_of(task, MOB_SLOT_ARG_PAGE | p), ref;
        enum mob_value_type type;
        const uint8_t *bytes;
        uint64_t size, at = 0;
        struct mob_value_view value;
        if (mob_store_object_bytes(node->store, id, true, &type, &bytes, &size) != MOB_OK ||
            mob_value_open(bytes, size, &value) != MOB_OK) {
            add_missing(in, id);
            continue;
        }
        while (mob_arg_page_next_ref(value.payload, value.payload_bytes, &at, &ref))
            need(node, in, ref);
    }
}

static void collect_inputs(struct node *node, struct mob_task_id task, const uint8_t *tail, struct inputs *in)
{
    struct mob_arg_view arg;
    in->missing = in->on_stack;
    in->capacity = MISSING_ON_STACK;
    in->count = 0;
    struct mob_tail_iter it = mob_spec_args(tail);
    while (mob_tail_next_arg(&it, &arg))
        if (arg.is_ref)
            need(node, in, arg.ref);
    if (it.at < it.end)
        need_paged(node, in, task, mob_spec_arg_pages(tail));
}

static int64_t to_monotonic(int64_t wall_ns)
{
    if (wall_ns == 0)
        return 0;
    int64_t at = wall_ns - mob_wall_minus_mono();
    return at > 0 ? at : 1;
}

static void fill_timing(struct mob_sched_submit *in, const struct mob_spec_head *head, const uint8_t *tail)
{
    struct mob_ext_view ext;
    in->not_before = to_monotonic(head->not_before_wall_ns);
    in->deadline = to_monotonic(head->deadline_wall_ns);
    if (mob_spec_find_ext(tail, MOB_EXT_BACKOFF, &ext) && ext.payload_bytes >= 16) {
        memcpy(&in->backoff_initial_ns, ext.payload, 8);
        memcpy(&in->backoff_max_ns, ext.payload + 8, 8);
    }
}

/* One budget for all incarnations of the node: what its log says was spent does not come back with the next.
 */
static int32_t retries_left(const struct node_task *task)
{
    int32_t all = task->template->head.max_retries;
    const struct node_task_extra *extra = node_extra_of(task);
    uint32_t spent = extra ? extra->retries_spent : 0;
    if (all < 0)
        return all;
    return spent < (uint32_t)all ? all - (int32_t)spent : 0;
}

/* Give a task that has its record to the scheduler. */
static enum mob_status schedule(struct node *node, struct node_task *task, const struct inputs *inputs)
{
    struct node_template *template = task->template;
    const struct mob_spec_head *head = &template->head;
    uint32_t tail_bytes;
    struct node_tail_room room;
    const uint8_t *tail = node_task_tail(task, &room, &tail_bytes);
    struct node_task *parent = node_template_parent(node, template);
    uint16_t job;
    enum mob_status status = node_job_number(node, template->job, &job);
    if (status != MOB_OK)
        return status;
    struct mob_sched_submit in = {
        .id = task->sched.id,
        .parent = parent ? &parent->sched : NULL,
        .missing = inputs->missing,
        .missing_count = inputs->count,
        .job = job,
        .class_id = template->sched_class,
        .function = template->sched_function,
        .priority = head->priority,
        .max_retries = retries_left(task),
    };
    if (head->flags & MOB_SPEC_RETRY_ON_ERROR &&
        head->kind == MOB_KIND_TASK) /* no call's: options.h of sdk/c */
        in.flags |= MOB_SCHED_RETRY_ON_ERROR;
    if (task->flags & TASK_ACTOR_CREATE) {
        in.flags |= MOB_SCHED_ACTOR_CREATE;
        in.max_retries = node_actor_restarts_left(node, task);
        in.failures = node_actor_waits_for(node, task);
    }
    if (task->flags & TASK_LOOK_UP)
        in.flags |= MOB_SCHED_RAN;
    if (task->flags & TASK_ACTOR_CALL) {
        in.flags |= node_task_reads(task) ? MOB_SCHED_SPENDS : 0;
        in.actor = node_actor_number(node, task);
        in.flags |= task->flags & TASK_LOOK_UP ? MOB_SCHED_REPLAY : 0; /* it may have a place already */
        in.flags |= task->flags & TASK_REMAKE ? MOB_SCHED_REPEATS : 0;
    }
    if (head->not_before_wall_ns | head->deadline_wall_ns || tail_bytes > MOB_SPEC_WORD_TAIL)
        fill_timing(&in, head, tail);
    if (task->flags & TASK_REMAKE)
        in.deadline = 0; /* the first run kept it */
    task->ready_us =
        inputs->count == 0 ? node_elapsed_us(task->submitted_ns, node->now_ns) : TASK_INPUTS_MISSING;
    status = mob_sched_submit(node->sched, &task->sched, &in, node->now_ns);
    if (status != MOB_OK)
        return status;
    if ((parent || (task->flags & TASK_LOOK_UP)) && !(task->flags & TASK_BORROWS))
        node_borrow(node, task);
    for (uint32_t i = 0; i < inputs->count; i++)
        if (!mob_sched_find(node->sched, inputs->missing[i].task))
            node_resolve(node, inputs->missing[i]);
    return MOB_OK;
}

/* A known id that comes again: the same spec is a replay or a resend, another one is an error of its
 * submitter. */
static void submitted_again(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    const uint8_t *tail, uint32_t tail_bytes, bool keyed)
{
    struct node_task *known = node_task_find(node, head->task);
    struct mob_spec_head known_head;
    struct node_tail_room room;
    uint32_t known_bytes;
    node->duplicates++;
    if (!known)
        return;
    const uint8_t *known_tail = node_task_tail(known, &room, &known_bytes);
    node_task_head(known, &known_head);
    known_head.caller_seq = head->caller_seq;
    known_head.generation = head->generation;
    node_spec_reads_alike(&known_head, head);
    struct mob_hash128 a = mob_spec_digest(&known_head, known_tail, known_bytes);
    struct mob_hash128 b = mob_spec_digest(head, tail, tail_bytes);
    if (keyed || mob_hash128_eq(a, b)) {
        known->submitter = (uint16_t)client->slot; /* it waits for the result now */
        known->submitter_session = client->session;
        return;
    }
    node_tell_diverged(node, client, head);
}

/* Fails before it ran: with its error in the store, the log, and whoever waits. */
static void refuse(struct node *node, struct node_task *task, enum mob_status status, const char *message)
{
    node_task_fail(node, task, status, message, NULL, 0, 0, NULL);
}

static const char *why_refused(enum mob_status status)
{
    /* in words that say what to do, where there are some */
    switch ((int)status) {
    case MOB_QUEUE_FULL:
        return "too many tasks are queued on this node";
    case MOB_UNSATISFIABLE:
        return "no node has the resources it asks for";
    case MOB_NOT_FOUND:
        return "its job or function is not known here";
    case MOB_EXISTS:
        return "an actor of that name lives already";
    default:
        return mob_status_text(status);
    }
}

void node_submit_refused(struct node *node, struct node_task *task, enum mob_status status)
{
    char death[NODE_ACTOR_DEATH_BYTES];
    if (status == MOB_AGAIN)
        return; /* the actor is being read from the control store */
    refuse(node, task, status,
        status == MOB_ACTOR_DIED ? node_actor_death(node, task->template->head.actor, death, sizeof death)
                                 : why_refused(status));
}

static void enter(struct node *node, struct node_task *task)
{
    struct inputs inputs;
    uint32_t tail_bytes;
    struct node_tail_room room;
    const uint8_t *tail = node_task_tail(task, &room, &tail_bytes);
    collect_inputs(node, task->sched.id, tail, &inputs);
    const struct mob_spec_head *head = &task->template->head;
    enum mob_status status = MOB_OK;
    const struct node_function *function = task->template->function;
    if (!function || function->leaving || function->gone)
        status = MOB_NOT_FOUND;
    else if (head->kind == MOB_KIND_ACTOR_CREATE)
        status = node_actor_create(node, task);
    else if (head->kind == MOB_KIND_ACTOR_CALL)
        status = node_actor_enqueue(node, task);
    if (status == MOB_OK)
        status = schedule(node, task, &inputs);
    inputs_fini(&inputs);
    if (status != MOB_OK)
        node_submit_refused(node, task, status);
}

/* Ids of one stream come in growing order from their client, so most are new without a look at the table. */
static bool may_be_known(struct node_client *client, struct mob_task_id id)
{
    bool fresh = mob_stream_eq(client->stream, id.stream) && id.index >= client->next_index;
    client->stream = id.stream;
    client->next_index = id.index + 1;
    return !fresh;
}

bool node_looks_up(const struct node_client *client, const struct node_task *parent, struct mob_task_id task)
{
    if (client->kind == MOB_CLIENT_WORKER) /* only first attempts under first-attempt ancestors run ahead */
        return parent && (parent->flags & TASK_LOOK_UP);
    return client->look_up &&
        !(mob_stream_eq(task.stream, client->fresh_stream) && task.index >= client->fresh_index);
}

/* Roots meet the control store's soft cap; what runs may still submit what it needs to finish. Not logged:
 * the control store has no room for it, and its submitter may send it again. */
static bool refused_for_memory(
    struct node *node, struct node_client *client, const struct mob_spec_head *head)
{
    struct mob_gcs_position at;
    mob_gcs_position(node->gcs, &at);
    if (!at.pressure)
        return false;
    char message[200];
    snprintf(message, sizeof message, "the control store holds %lu bytes of %lu: end jobs and delete them",
        at.memory_bytes, at.memory_soft_bytes);
    node_refuse_root(node, client, head, MOB_GCS_FULL, message);
    return true;
}

/* By somebody else than this session, which lives on; what runs may still submit. Not logged. */
static bool refused_for_end(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    const struct node_template *template)
{
    if (template->job->state != JOB_ENDED)
        return false;
    node_refuse_root(node, client, head, MOB_FINISHED, "the job has ended");
    return true;
}

/* Its inputs, and whoever makes them, are looked up in four tables, each at random: fetched here, their
 * places have come by the time the spec is in the log. */
static void fetch_inputs(const struct node *node, const uint8_t *tail)
{
    struct mob_arg_view arg;
    struct mob_tail_iter it = mob_spec_args(tail);
    for (uint32_t refs = 0; refs < INPUTS_FETCHED && mob_tail_next_arg(&it, &arg);) {
        if (!arg.is_ref)
            continue;
        refs++;
        mob_store_object_fetch(node->store, arg.ref);
        mob_sched_object_fetch(node->sched, arg.ref);
        mob_sched_find_fetch(node->sched, arg.ref.task);
        node_borrow_fetch(node, arg.ref);
    }
}

/* A spec that no log knows: logged, then entered. */
static void submit_new(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes)
{
    struct node_job *job = template->job;
    fetch_inputs(node, tail);
    node->submitted++;
    job->submitted++;
    if (!(head->flags & MOB_SPEC_UNLOGGED)) {
        lineage_log_job(node->log, job->id, job->ns);
        lineage_log_spec(node->log, head, tail, tail_bytes, submitted_ns);
        known_logged(node, head->task);
    }
    struct node_task *task = node_task_create(node, template, head->task, tail, tail_bytes);
    if (!task) {
        node_fail_without_record(
            node, client->slot, client->session, head, MOB_QUEUE_FULL, why_refused(MOB_QUEUE_FULL));
        return;
    }
    task->submitted_ns = submitted_ns;
    task->submitter = (uint16_t)client->slot;
    task->submitter_session = client->session;
    if (head->flags & MOB_SPEC_UNLOGGED)
        task->flags |= TASK_UNLOGGED;
    if (head->generation != template->head.generation || head->kind == MOB_KIND_ACTOR_CALL) {
        struct node_task_extra *extra = node_task_extra(node, task);
        extra->generation = head->generation;
        extra->caller_seq = head->caller_seq;
    }
    enter(node, task);
}

void node_submit_fresh(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes)
{
    if (client->kind == MOB_CLIENT_WORKER ||
        !(refused_for_end(node, client, head, template) || refused_for_memory(node, client, head)))
        submit_new(node, client, head, template, submitted_ns, tail, tail_bytes);
}

bool node_submit(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes,
    bool keyed)
{
    const struct node_task *parent =
        client->kind == MOB_CLIENT_WORKER ? node_template_parent(node, template) : NULL;
    bool look_up = keyed || node_looks_up(client, parent, head->task);
    bool may_live = may_be_known(client, head->task) || look_up;
    if (may_live && mob_sched_find(node->sched, head->task)) {
        submitted_again(node, client, head, tail, tail_bytes, keyed);
        return true;
    }
    if (look_up)
        return node_submit_looked_up(node, client, head, template, submitted_ns, tail, tail_bytes, keyed);
    node_submit_fresh(node, client, head, template, submitted_ns, tail, tail_bytes);
    return true;
}

enum mob_status node_resubmit(struct node *node, const struct mob_spec *spec, int64_t submitted_ns,
    uint8_t flags, struct node_task **task_out)
{
    struct node_job *job = node_job_by_id(node, spec->head.job);
    if (!job)
        return MOB_LINEAGE_GONE;
    if (mob_sched_find(node->sched, spec->head.task))
        return MOB_EXISTS;
    struct node_template *template = node_template_make(node, &spec->head, spec->tail, job);
    enum mob_status refused = template->refused;
    struct node_task *task = refused != MOB_OK
        ? NULL
        : node_task_create(node, template, spec->head.task, spec->tail, spec->tail_bytes);
    node_template_drop(node, template);
    if (!task)
        return refused != MOB_OK ? refused : MOB_QUEUE_FULL;
    task->submitted_ns = submitted_ns;
    task->flags = flags | TASK_LOOK_UP;
    struct node_task_extra *extra = node_task_extra(node, task);
    extra->attempt = spec->head.attempt;
    extra->generation = extra->first_generation = spec->head.generation;
    extra->caller_seq = spec->head.caller_seq;
    extra->repeats = true; /* its first attempt may have run */
    *task_out = task;
    return MOB_OK;
}

void node_enter(struct node *node, struct node_task *task)
{
    enter(node, task);
}
