#include "runtime/node/plain.h"

#include "common/wire/sibling.h"
#include "runtime/node/actors.h"
#include "runtime/node/complete.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"
#include "runtime/node/notices.h"
#include "runtime/node/submit.h"
#include "runtime/node/task.h"

enum { FETCH_MORE = 8 }; /* tasks behind those that end now */

/* ---- beginnings ---- */

static bool under_pressure(const struct node *node)
{
    struct mob_gcs_position at;
    mob_gcs_position(node->gcs, &at);
    return at.pressure;
}

/* What siblings have in common. */
static bool may_begin(struct node *node, const struct node_client *client, struct node_template *template,
    struct node_task **parent_out)
{
    if (!template->plain || template->refused != MOB_OK || !template->function || client->look_up ||
        template->head.not_before_wall_ns != 0 || template->head.deadline_wall_ns != 0 ||
        !mob_stream_eq(client->stream, template->head.task.stream))
        return false;
    *parent_out = NULL;
    if (client->kind != MOB_CLIENT_WORKER)
        return !under_pressure(node) && template->job->state != JOB_ENDED;
    *parent_out = node_template_parent(node, template);
    return *parent_out && !((*parent_out)->flags & TASK_LOOK_UP);
}

static struct node_task *begin_one(struct node *node, struct node_client *client,
    struct node_template *template, const struct mob_sibling_word *sibling)
{
    /* ids of one stream come in growing order from their client: nobody knows it yet */
    if (sibling->index < client->next_index || !mob_spec_tail_is_word(sibling->tail))
        return NULL;
    const struct mob_task_id id = {template->head.task.stream, sibling->index};
    struct node_task *task = node_task_create_word(node, template, id, sibling->tail);
    if (!task)
        return NULL;
    client->next_index = sibling->index + 1;
    task->submitted_ns = sibling->submitted_ns;
    task->submitter = (uint16_t)client->slot;
    task->submitter_session = client->session;
    task->ready_us = node_elapsed_us(task->submitted_ns, node->now_ns);
    return task;
}

/* The node's ring position follows: when a block closes in between, it acknowledges what is in it. */
static void log_begun(struct node *node, const struct node_template *template,
    const struct mob_store_run *run, const struct mob_sibling_word *siblings, uint32_t from, uint32_t to)
{
    while (from < to) {
        node->intake_from = run->from + (uint64_t)from * run->record.bytes;
        from += lineage_log_specs(node->log, &template->head, siblings + from, to - from);
    }
}

static void note_begun(struct node *node, struct mob_sched_task *const *tasks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        known_logged(node, tasks[i]->id);
}

static enum mob_status submission(
    struct node *node, struct node_template *template, struct node_task *parent, struct mob_sched_submit *out)
{
    const struct mob_spec_head *head = &template->head;
    const bool retries = head->flags & MOB_SPEC_RETRY_ON_ERROR && head->kind == MOB_KIND_TASK;
    *out = (struct mob_sched_submit){
        .parent = parent ? &parent->sched : NULL,
        .class_id = template->sched_class,
        .function = template->sched_function,
        .priority = head->priority,
        .max_retries = head->max_retries,
        .flags = retries ? MOB_SCHED_RETRY_ON_ERROR : 0,
    };
    return node_job_number(node, template->job, &out->job);
}

/* Actor calls have places of their own: one by one. */
static void schedule_calls(struct node *node, struct node_task *parent, struct mob_sched_task *const *tasks,
    const struct mob_sibling_word *siblings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct node_task *task = (struct node_task *)tasks[i];
        struct mob_sched_submit in;
        node_task_extra(node, task)->caller_seq = siblings[i].caller_seq;
        enum mob_status status = node_actor_enqueue(node, task);
        if (status == MOB_OK)
            status = submission(node, task->template, parent, &in);
        if (status == MOB_OK) {
            in.id = task->sched.id;
            in.actor = node_actor_number(node, task);
            in.flags |= node_task_reads(task) ? MOB_SCHED_SPENDS : 0;
            status = mob_sched_submit(node->sched, &task->sched, &in, node->now_ns);
        }
        if (status != MOB_OK)
            node_submit_refused(node, task, status);
    }
}

static void schedule(struct node *node, struct node_template *template, struct node_task *parent,
    struct mob_sched_task *const *tasks, uint32_t count)
{
    struct mob_sched_submit in;
    enum mob_status status = submission(node, template, parent, &in);
    for (uint32_t i = 0; i < count;) {
        struct mob_sched_task *first = tasks[i++];
        in.id = first->id;
        enum mob_status one =
            status == MOB_OK ? mob_sched_submit(node->sched, first, &in, node->now_ns) : status;
        if (one == MOB_OK)
            i += mob_sched_submit_more(node->sched, first, tasks + i, count - i, in.parent);
        else
            node_submit_refused(node, (struct node_task *)first, one);
    }
}

static uint32_t submit_run(struct node *node, struct node_client *client, struct node_template *template,
    struct node_task *parent, const struct mob_store_run *run, const struct mob_sibling_word *siblings)
{
    struct mob_sched_task *tasks[MOB_STORE_RUN_MAX];
    const struct node_job *job = template->job;
    bool calls = template->head.kind == MOB_KIND_ACTOR_CALL;
    uint32_t count = 0;
    for (; count < run->count; count++) {
        struct node_task *task = begin_one(node, client, template, &siblings[count]);
        if (!task)
            break;
        tasks[count] = &task->sched;
    }
    lineage_log_job(node->log, job->id, job->ns);
    log_begun(node, template, run, siblings, 0, count);
    if (calls || known_any(node))
        note_begun(node, tasks, count);
    if (calls)
        schedule_calls(node, parent, tasks, siblings, count);
    else
        schedule(node, template, parent, tasks, count);
    return count;
}

uint32_t node_submit_plain(struct node *node, struct node_client *client, struct node_template *template,
    const struct mob_store_run *run)
{
    struct mob_sibling_word siblings[MOB_STORE_RUN_MAX];
    struct node_task *parent;
    if (run->record.bytes != sizeof run->record + sizeof *siblings ||
        !may_begin(node, client, template, &parent))
        return 0;
    memcpy(siblings, run->bodies, run->count * sizeof *siblings);
    uint32_t count = submit_run(node, client, template, parent, run, siblings);
    node->submitted += count;
    template->job->submitted += count;
    return count;
}

/* ---- ends ---- */

/* It is plain, and was dispatched once. */
static bool runs_plainly(const struct node_task *task, const struct mob_completion_word *word)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return mob_task_id_eq(task->sched.id, word->task) && task->template->plain &&
        (task->flags & (uint8_t) ~(TASK_ACTOR_CALL | TASK_BORROWS)) == 0 &&
        task->sched.state == MOB_SCHED_DISPATCHED && (!extra || (extra->attempt == 1 && !extra->shadow));
}

/* What is known together of tasks that end one after the other. */
struct ending {
    struct mob_completion_word words[MOB_STORE_RUN_MAX];
    struct mob_sched_task *tasks[MOB_STORE_RUN_MAX];
    int64_t run_ns[MOB_STORE_RUN_MAX];
};

/* For each end a record that is dispatched soon is fetched; which one comes next stands in the one before. So
 * that this has come by then, every other one is fetched in the first loop over a run, the rest in the last.
 */
static void fetch_queued(struct node *node, const struct ending *ending, uint32_t i)
{
    if (i % 2 == 0)
        mob_sched_fetch_queued(node->sched, ending->tasks[i]);
}

/* The first ones of a worker's batch, of one job, that these completions are of. */
static uint32_t match(struct node *node, const struct node_worker *worker, const struct mob_store_run *run,
    struct ending *ending)
{
    uint16_t number = (uint16_t)worker->number;
    const struct node_job *job = NULL;
    uint32_t bytes = run->record.bytes - (uint32_t)sizeof run->record, count = 0;
    mob_sched_batch_fetch(node->sched, number, run->count + FETCH_MORE);
    uint32_t in_batch = mob_sched_batch(node->sched, number, ending->tasks, run->count);
    for (; count < run->count && count < in_batch; count++) {
        struct mob_completion_word *word = &ending->words[count];
        const struct node_task *task = (struct node_task *)ending->tasks[count];
        if (mob_completion_word_open(run->bodies + (size_t)count * bytes, bytes, word) != MOB_OK ||
            !runs_plainly(task, word) || (job && task->template->job != job))
            break;
        job = task->template->job;
        ending->run_ns[count] = word->finished_ns - word->started_ns;
        fetch_queued(node, ending, count);
    }
    return count;
}

/* What the log says of it; `head` has what the one before it had. */
static void log_end(struct node *node, struct node_task *task, const struct mob_completion_word *word,
    struct mob_completion_head *head, bool asked)
{
    const struct mob_return_word ret = {.type = word->type, .size = sizeof word->value, .value = word->value};
    head->task = word->task;
    head->generation = word->generation;
    head->started_ns = word->started_ns;
    head->finished_ns = word->finished_ns;
    head->cpu_ns = word->cpu_ns;
    head->position = 0;
    head->incarnation = 0;
    node_fill_times(task, head);
    lineage_log_completion(node->log, head, (const uint8_t *)&ret);
    if (asked || task->flags & TASK_ACTOR_CALL)
        known_logged(node, head->task);
    if (!(task->flags & TASK_ACTOR_CALL))
        return;
    const struct node_job *job = task->template->job;
    node_actor_task_ended(node, task, head, NULL);
    lineage_log_job(node->log, job->id, job->ns); /* that may have told the log of the actor's job */
}

/* One of them is a call, or has a place or an incarnation of its own. */
static void log_ends_singly(
    struct node *node, const struct node_worker *worker, const struct ending *ending, uint32_t count)
{
    struct mob_return_word unused;
    struct mob_completion_head head = mob_completion_of_word(&ending->words[0], &unused).head;
    bool asked = known_any(node);
    head.worker = worker->serial;
    for (uint32_t i = 0; i < count; i++)
        log_end(node, (struct node_task *)ending->tasks[i], &ending->words[i], &head, asked);
}

/* What the node knows of a task; false when node_fill_times would say more. */
static bool queue_times(const struct node_task *task, struct mob_queue_times *times_out)
{
    times_out->submitted_ns = task->submitted_ns;
    times_out->ready_us = task->ready_us;
    times_out->dispatched_us = task->dispatched_us;
    return !node_extra_of(task) && !(task->flags & TASK_ACTOR_CALL);
}

static void log_ends(
    struct node *node, const struct node_worker *worker, struct ending *ending, uint32_t count)
{
    struct mob_queue_times times[MOB_STORE_RUN_MAX];
    const struct node_job *job = ((struct node_task *)ending->tasks[0])->template->job;
    bool alike = true, awaited = node_awaits_any(node);
    for (uint32_t i = 0; i < count; i++) {
        const struct node_task *task = (struct node_task *)ending->tasks[i];
        struct mob_completion_word *word = &ending->words[i];
        if (awaited || task->flags & TASK_BORROWS)
            node_complete_fetch(node, task);
        alike &= queue_times(task, &times[i]);
        word->started_ns = node_started_ns(task, word->started_ns);
    }
    lineage_log_job(node->log, job->id, job->ns);
    if (!alike) {
        log_ends_singly(node, worker, ending, count);
        return;
    }
    lineage_log_completions(node->log, worker->serial, ending->words, times, count);
    if (known_any(node))
        for (uint32_t i = 0; i < count; i++)
            known_logged(node, ending->words[i].task);
}

static bool follows(const struct ending *ending, uint32_t i)
{
    const struct node_task *task = (struct node_task *)ending->tasks[i],
                           *before = (struct node_task *)ending->tasks[i - 1];
    const struct mob_task_id *id = &ending->words[i].task, *id_before = &ending->words[i - 1].task;
    return task->submitter == before->submitter && task->submitter_session == before->submitter_session &&
        ending->words[i].type == ending->words[i - 1].type && id->index == id_before->index + 1 &&
        mob_stream_eq(id->stream, id_before->stream);
}

/* The results from `first` on that belong to neighbours of one submitter. Returns how many. */
static uint32_t tell_results(struct node *node, const struct node_worker *worker, const struct ending *ending,
    uint32_t first, uint32_t count)
{
    uint64_t values[MOB_STORE_RUN_MAX];
    const struct node_task *task = (struct node_task *)ending->tasks[first];
    uint32_t some = 0;
    do
        values[some] = ending->words[first + some].value;
    while (first + ++some < count && follows(ending, first + some));
    const struct log_result result = {
        .worker = worker->number,
        .slot = task->submitter == TASK_NO_SUBMITTER ? NODE_NOBODY : task->submitter,
        .session = task->submitter_session,
        .type = ending->words[first].type,
        .task = ending->words[first].task,
        .value = values[0],
    };
    node_results_ready(node, &result, values, some);
    return some;
}

uint32_t node_complete_plain(struct node *node, struct node_client *client, const struct mob_store_run *run)
{
    struct ending ending;
    struct node_worker *worker = client->worker;
    uint32_t count = worker && !client->closing ? match(node, worker, run, &ending) : 0;
    if (count == 0)
        return 0;
    uint32_t ended =
        mob_sched_finished_run(node->sched, (uint16_t)worker->number, ending.run_ns, count, node->now_ns);
    if (ended == 0) { /* something about the first of them is not as it mostly is */
        (void)mob_sched_finished(node->sched, ending.tasks[0], MOB_OK, ending.run_ns[0], node->now_ns);
        ended = 1;
    }
    struct node_job *job = ((struct node_task *)ending.tasks[0])->template->job;
    worker->ended += ended;
    node->finished += ended;
    job->finished += ended;
    log_ends(node, worker, &ending, ended);
    if (node_awaits_any(node))
        for (uint32_t i = 0; i < ended; i++)
            node_complete_fetch_more(node, (struct node_task *)ending.tasks[i]);
    for (uint32_t told = 0; told < ended;)
        told += tell_results(node, worker, &ending, told, ended);
    for (uint32_t i = 0; i < ended; i++) {
        fetch_queued(node, &ending, i);
        node_task_destroy(node, (struct node_task *)ending.tasks[i]);
    }
    return ended;
}
