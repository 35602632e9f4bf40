#include "runtime/node/cancel_below.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/alias.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"
#include "runtime/node/origins.h"
#include "runtime/node/task.h"

enum { ASKED_AT_ONCE = 256 };
enum verdict { UNKNOWN = 0, BELOW, ELSEWHERE };

struct below_due {
    struct mob_task_id task;
    struct mob_job_id job_id;
    bool force;
    bool ended; /* so nothing below it was found from above */
};

struct below_facts {
    struct mob_job_id job_id;
    struct origins origins;
};

struct below {
    struct below *next;
    struct node *node;
    struct mob_task_id *tops; /* sorted: what lives below any of them is cancelled */
    uint32_t top_count;
    bool force;
    bool from_above; /* living children of the tops, and theirs, were cancelled before */
    bool shared; /* of cancels that came together: there is one for a job at a time */
    bool walking; /* the task was looked up: this is its job */
    bool met_ended; /* some of what lives has ended tasks above it */
    struct mob_job_id job_id;
    uint32_t slot, session;
    below_done_fn *done;
    void *arg;
    struct origins origins;
    struct origins facts; /* of the walk of the job before this one: need not be looked up again */
    struct mob_task_id *to_ask; /* ended tasks above living ones */
    uint32_t to_ask_count, to_ask_capacity;
    uint32_t asking, asked;
    enum mob_status status;
};

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct mob_task_id));
}

static bool is_top(const struct below *below, struct mob_task_id id)
{
    return bsearch(&id, below->tops, below->top_count, sizeof id, by_id) != NULL;
}

/* ---- the way up ---- */

static void push_to_ask(struct below *below, struct mob_task_id task)
{
    if (below->to_ask_count == below->to_ask_capacity) {
        below->to_ask_capacity = 2 * below->to_ask_capacity + 64;
        below->to_ask = realloc(below->to_ask, below->to_ask_capacity * sizeof *below->to_ask);
        MOB_ASSERT(below->to_ask);
    }
    below->to_ask[below->to_ask_count++] = task;
}

/* Whose children stream by stream are, as far as that can be known here: up to an ended task, which is to be
 * asked for, or to what was noted before. */
static void note(struct below *below, struct mob_stream stream, struct mob_task_id parent)
{
    while (origins_add(&below->origins, stream, parent)) {
        if (mob_task_id_is_zero(parent) || is_top(below, parent))
            return;
        const struct node_task *task = node_task_find(below->node, parent);
        if (!task) {
            if (origins_add(&below->origins, parent.stream, (struct mob_task_id){0}))
                push_to_ask(below, parent);
            return;
        }
        stream = parent.stream;
        parent = task->template->head.parent;
    }
}

/* Iterative, since a tree may be as deep as memory: up to what is known, then the way back. */
static enum verdict judge(const struct below *below, struct mob_stream stream)
{
    enum verdict verdict = UNKNOWN;
    if (below->origins.count == 0)
        return ELSEWHERE;
    struct origin *at = origins_place(&below->origins, stream);
    for (uint32_t steps = 0; verdict == UNKNOWN && steps <= below->origins.count; steps++) {
        if (!at->used)
            verdict = ELSEWHERE;
        else if (at->verdict != UNKNOWN)
            verdict = (enum verdict)at->verdict;
        else if (is_top(below, at->parent))
            verdict = BELOW;
        else if (mob_task_id_is_zero(at->parent))
            verdict = ELSEWHERE;
        else
            at = origins_place(&below->origins, at->parent.stream);
    }
    verdict = verdict == UNKNOWN ? ELSEWHERE : verdict;
    for (at = origins_place(&below->origins, stream); at->used && at->verdict == UNKNOWN;
         at = origins_place(&below->origins, at->parent.stream)) {
        at->verdict = (uint8_t)verdict;
        if (mob_task_id_is_zero(at->parent) || is_top(below, at->parent))
            break; /* the task's own stream is that of its siblings */
    }
    return verdict;
}

/* ---- the walk ---- */

static bool is_of(const struct below *below, const struct mob_sched_task *task)
{
    const struct node_template *template = ((const struct node_task *)task)->template;
    return memcmp(&template->job->id, &below->job_id, sizeof below->job_id) == 0 &&
        task->state != MOB_SCHED_DONE && !(task->flags & MOB_SCHED_REPEATS);
}

static void below_free(struct below *below)
{
    free(below->tops);
    origins_free(&below->origins);
    origins_free(&below->facts);
    free(below->to_ask);
    free(below);
}

/* For the next walk of this job, if cancels wait for one. */
static void leave_facts(struct below *below, enum mob_status status)
{
    struct node *node = below->node;
    if (status != MOB_OK || node->below_due_count == 0)
        return;
    if (!node->below_facts)
        node->below_facts = calloc(1, sizeof *node->below_facts);
    MOB_ASSERT(node->below_facts);
    origins_free(&node->below_facts->origins);
    *node->below_facts = (struct below_facts){below->job_id, below->origins};
    below->origins = (struct origins){0};
}

static void end(struct below *below, enum mob_status status, uint32_t told)
{
    struct node *node = below->node;
    struct below **at = &node->below;
    while (*at != below)
        at = &(*at)->next;
    *at = below->next;
    node->below_due_looked = 0; /* there is room for one */
    if (below->shared)
        leave_facts(below, status);
    if (below->done)
        below->done(node, below->arg, status, told);
    else if (status != MOB_OK && status != MOB_NOT_FOUND)
        MOB_LOG_WARN("cancel", "not_below", "status=%s", mob_status_code(status));
    below_free(below);
}

static uint32_t cancel_all(struct below *below)
{
    struct node *node = below->node;
    struct mob_sched_task *task;
    uint32_t told = 0;
    for (uint32_t at = 0; (task = mob_sched_each(node->sched, &at));)
        told += is_of(below, task) && judge(below, task->id.stream) == BELOW;
    node_tail_walk_begin(node);
    for (uint32_t at = 0; told > 0 && (task = mob_sched_each(node->sched, &at));)
        if (is_of(below, task) && judge(below, task->id.stream) == BELOW)
            mob_sched_cancel(node->sched, task, below->force, true, node->now_ns);
    return told;
}

/* Those of cancels that share a walk are in the log since they came. */
static void log_top(const struct below *below)
{
    const struct node_job *job = node_job_by_id(below->node, below->job_id);
    struct mob_out_cancel cancel = {.task = below->tops[0], .recursive = 1, .force = below->force};
    if (job)
        node_cancel_log(below->node, job, &cancel);
}

struct question {
    struct below *below;
    struct mob_task_id task;
};

static void ask_on(struct below *below);

static void on_parent(void *arg, enum mob_status status, const struct known *known)
{
    struct question *q = arg;
    struct below *below = q->below;
    below->asking--;
    if (status != MOB_OK)
        below->status = status;
    else if (known->spec) /* else a session's root, which has none above it */
        note(below, q->task.stream, known->spec->parent);
    free(q);
    ask_on(below);
}

static void ask(struct below *below, struct mob_task_id task)
{
    struct question *q = malloc(sizeof *q);
    MOB_ASSERT(q);
    *q = (struct question){below, task};
    below->asking++;
    known_ask(below->node, mob_object_of(task, 0), on_parent, q);
}

static void ask_on(struct below *below)
{
    while (below->to_ask_count > 0 && below->asking < ASKED_AT_ONCE && below->status == MOB_OK) {
        struct mob_task_id task = below->to_ask[--below->to_ask_count];
        below->met_ended = true;
        struct mob_task_id fact = origins_parent(&below->facts, task.stream);
        if (!mob_task_id_is_zero(origins_parent(&below->origins, task.stream)))
            continue; /* a living sibling of it has said it meanwhile */
        if (!mob_task_id_is_zero(fact))
            note(below, task.stream, fact);
        else if (below->asked++ == BELOW_ASKED_MAX)
            below->status = MOB_QUEUE_FULL;
        else
            ask(below, task);
    }
    if (below->asking > 0)
        return;
    /* With no ended task met all between the tops and what lives below them lives, and was found from above.
     */
    bool found = below->status == MOB_OK && (!below->from_above || below->met_ended);
    uint32_t told = found ? cancel_all(below) : 0;
    if (told > 0 && !below->shared)
        log_top(below);
    end(below, below->status, told);
}

static bool may_cancel(struct node *node, uint32_t slot, uint32_t session, struct mob_job_id job)
{
    const struct node_client *client =
        node_client_is(node, slot, session) ? node_client_at(node, slot) : NULL;
    return client &&
        (client->kind == MOB_CLIENT_WORKER || (client->flags & MOB_SESSION_GATEWAY) ||
            (client->job && memcmp(&client->job->id, &job, sizeof job) == 0));
}

/* Siblings often follow each other: each stream is noted once in a row. */
static void walk(struct below *below)
{
    struct mob_sched_task *task;
    struct mob_stream last = {0};
    below->walking = true;
    for (uint32_t at = 0; (task = mob_sched_each(below->node->sched, &at));) {
        if (mob_stream_eq(task->id.stream, last) || !is_of(below, task))
            continue;
        last = task->id.stream;
        note(below, last, ((struct node_task *)task)->template->head.parent);
    }
    ask_on(below);
}

static void on_task(void *arg, enum mob_status status, const struct known *known)
{
    struct below *below = arg;
    if (status == MOB_OK && !known->spec)
        status = MOB_NOT_FOUND;
    if (status == MOB_OK) {
        below->job_id = known->spec->job;
        status = may_cancel(below->node, below->slot, below->session, below->job_id) ? MOB_OK : MOB_DENIED;
    }
    if (status == MOB_OK)
        walk(below);
    else
        end(below, status, 0);
}

static uint32_t walks_of(const struct node *node)
{
    uint32_t walks = 0;
    for (const struct below *each = node->below; each; each = each->next)
        walks++;
    return walks;
}

static struct below *below_new(struct node *node, uint32_t tops, bool force)
{
    struct below *below = calloc(1, sizeof *below);
    MOB_ASSERT(below);
    *below = (struct below){
        .next = node->below, .node = node, .tops = calloc(tops, sizeof *below->tops), .force = force};
    MOB_ASSERT(below->tops);
    node->below = below;
    return below;
}

/* ---- cancels that share a walk ---- */

static void due_later(struct node *node, struct below_due due)
{
    if (node->below_due_count >= BELOW_DUE_MAX) {
        MOB_LOG_WARN("cancel", "not_below", "status=%s", mob_status_code(MOB_QUEUE_FULL));
        return;
    }
    if (node->below_due_count == node->below_due_capacity) {
        node->below_due_capacity = 2 * node->below_due_capacity + 16;
        node->below_due = realloc(node->below_due, node->below_due_capacity * sizeof(struct below_due));
        MOB_ASSERT(node->below_due);
    }
    node->below_due[node->below_due_count++] = due;
}

void node_below_later(struct node *node, const struct node_job *job, const struct mob_out_cancel *cancel)
{
    due_later(node, (struct below_due){cancel->task, job->id, cancel->force != 0, false});
}

void node_below_ended(struct node *node, const struct node_job *job, const struct mob_out_cancel *cancel)
{
    due_later(node, (struct below_due){cancel->task, job->id, cancel->force != 0, true});
}

static bool same_job(struct mob_job_id a, struct mob_job_id b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* One walk takes all of its job, and leaves the others in the list. */
static struct below *take_due(struct node *node, struct below_due first)
{
    struct below *below = below_new(node, node->below_due_count, first.force);
    uint32_t kept = 0;
    below->job_id = first.job_id;
    below->from_above = true;
    below->shared = true;
    for (uint32_t i = 0; i < node->below_due_count; i++) {
        const struct below_due *due = &node->below_due[i];
        if (due->force == first.force && same_job(due->job_id, first.job_id)) {
            below->tops[below->top_count++] = due->task;
            below->from_above &= !due->ended;
        } else {
            node->below_due[kept++] = *due;
        }
    }
    node->below_due_count = kept;
    node->below_due_looked = 0;
    qsort(below->tops, below->top_count, sizeof *below->tops, by_id);
    if (node->below_facts && same_job(node->below_facts->job_id, first.job_id)) {
        below->facts = node->below_facts->origins;
        node->below_facts->origins = (struct origins){0};
    }
    return below;
}

/* Those that come while a walk of their job is under way have the next one, together. */
static bool must_wait(const struct node *node, const struct below_due *due)
{
    uint32_t walks = 0;
    for (const struct below *each = node->below; each; each = each->next) {
        walks++;
        if (each->shared && same_job(each->job_id, due->job_id))
            return true;
    }
    return walks >= BELOW_WALKS_MAX;
}

static void facts_free(struct node *node)
{
    if (node->below_facts)
        origins_free(&node->below_facts->origins);
    free(node->below_facts);
    node->below_facts = NULL;
}

bool node_below_due(const struct node *node)
{
    return node->below_due_looked < node->below_due_count;
}

void node_below_start(struct node *node)
{
    while (node_below_due(node)) {
        struct below_due due = node->below_due[node->below_due_looked];
        if (must_wait(node, &due))
            node->below_due_looked++;
        else
            walk(take_due(node, due));
    }
    if (node->below_due_count == 0)
        facts_free(node);
}

void node_cancel_below(struct node *node, const struct node_client *client,
    const struct mob_out_cancel *cancel, below_done_fn *done, void *arg)
{
    if (walks_of(node) == BELOW_WALKS_MAX) {
        done(node, arg, MOB_QUEUE_FULL, 0);
        return;
    }
    struct below *below = below_new(node, 1, cancel->force != 0);
    below->tops[below->top_count++] = cancel->task;
    below->slot = client->slot;
    below->session = client->session;
    below->done = done;
    below->arg = arg;
    known_ask(node, mob_object_of(cancel->task, 0), on_task, below);
}

void node_below_note(struct node *node, const struct mob_spec_head *head)
{
    for (struct below *below = node->below; below; below = below->next)
        if (below->walking && memcmp(&head->job, &below->job_id, sizeof below->job_id) == 0)
            note(below, head->task.stream, head->parent);
}

void node_below_free(struct node *node)
{
    while (node->below) {
        struct below *next = node->below->next;
        below_free(node->below);
        node->below = next;
    }
    facts_free(node);
    free(node->below_due);
}
