#include "runtime/node/cancel_below.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/alias.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"
#include "runtime/node/task.h"

enum { ORIGINS_FIRST = 1024, ASKED_AT_ONCE = 256 };

enum verdict { UNKNOWN = 0, BELOW, ELSEWHERE };
/* Whose children a stream is of. */
struct origin {
    struct mob_stream stream;
    bool used;
    uint8_t verdict;
    struct mob_task_id parent; /* zero: nobody's, or not known yet */
};

struct below_due {
    struct mob_task_id task;
    struct mob_job_id job_id;
    bool force;
};

struct below {
    struct below *next;
    struct node *node;
    struct mob_task_id *tops; /* sorted: what lives below any of them is cancelled */
    uint32_t top_count;
    bool force;
    bool from_above; /* living children of the tops, and theirs, were cancelled before */
    bool walking; /* the task was looked up: this is its job */
    struct mob_job_id job_id;
    uint32_t slot, session;
    below_done_fn *done;
    void *arg;
    struct origin *origins;
    uint32_t mask, count;
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

/* ---- origins ---- */

static struct origin *place_of(const struct below *below, struct mob_stream stream)
{
    uint32_t at = (uint32_t)mob_stream_mix(stream) & below->mask;
    while (below->origins[at].used && !mob_stream_eq(below->origins[at].stream, stream))
        at = (at + 1) & below->mask;
    return &below->origins[at];
}

static void grow(struct below *below)
{
    struct below bigger = *below;
    bigger.mask = below->mask ? below->mask * 2 + 1 : ORIGINS_FIRST - 1;
    bigger.origins = calloc((size_t)bigger.mask + 1, sizeof *bigger.origins);
    MOB_ASSERT(bigger.origins);
    for (uint32_t i = 0; below->origins && i <= below->mask; i++)
        if (below->origins[i].used)
            *place_of(&bigger, below->origins[i].stream) = below->origins[i];
    free(below->origins);
    below->origins = bigger.origins;
    below->mask = bigger.mask;
}

/* True: it was not there. */
static bool add_origin(struct below *below, struct mob_stream stream, struct mob_task_id parent)
{
    if (below->count * 2 >= below->mask)
        grow(below);
    struct origin *origin = place_of(below, stream);
    if (origin->used)
        return false;
    *origin = (struct origin){.stream = stream, .used = true, .parent = parent};
    below->count++;
    return true;
}

static void push_to_ask(struct below *below, struct mob_task_id task)
{
    if (below->to_ask_count == below->to_ask_capacity) {
        below->to_ask_capacity = 2 * below->to_ask_capacity + 64;
        below->to_ask = realloc(below->to_ask, below->to_ask_capacity * sizeof *below->to_ask);
        MOB_ASSERT(below->to_ask);
    }
    below->to_ask[below->to_ask_count++] = task;
}

/* Goes up from a stream whose parent is known, as far as that can be known here. */
static void note_parent(struct below *below, struct mob_task_id parent)
{
    if (mob_task_id_is_zero(parent) || is_top(below, parent))
        return;
    const struct node_task *task = node_task_find(below->node, parent);
    struct mob_task_id above = task ? task->template->head.parent : (struct mob_task_id){0};
    if (add_origin(below, parent.stream, above) && !task)
        push_to_ask(below, parent); /* a living one is met by itself */
}

/* Iterative, since a tree may be as deep as memory: up to what is known, then the way back. */
static enum verdict judge(const struct below *below, struct mob_stream stream)
{
    enum verdict verdict = UNKNOWN;
    struct origin *at = place_of(below, stream);
    for (uint32_t steps = 0; verdict == UNKNOWN && steps <= below->count; steps++) {
        if (!at->used)
            verdict = ELSEWHERE;
        else if (at->verdict != UNKNOWN)
            verdict = (enum verdict)at->verdict;
        else if (is_top(below, at->parent))
            verdict = BELOW;
        else if (mob_task_id_is_zero(at->parent))
            verdict = ELSEWHERE;
        else
            at = place_of(below, at->parent.stream);
    }
    verdict = verdict == UNKNOWN ? ELSEWHERE : verdict;
    for (at = place_of(below, stream); at->used && at->verdict == UNKNOWN;
         at = place_of(below, at->parent.stream)) {
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
    free(below->origins);
    free(below->to_ask);
    free(below);
}

static void end(struct below *below, enum mob_status status, uint32_t told)
{
    struct node *node = below->node;
    struct below **at = &node->below;
    while (*at != below)
        at = &(*at)->next;
    *at = below->next;
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
    else if (known->spec) { /* else a session's root, which has none above it */
        place_of(below, q->task.stream)->parent = known->spec->parent;
        note_parent(below, known->spec->parent);
    }
    free(q);
    ask_on(below);
}

static void ask_on(struct below *below)
{
    while (below->to_ask_count > 0 && below->asking < ASKED_AT_ONCE && below->status == MOB_OK) {
        if (below->asked++ == BELOW_ASKED_MAX) {
            below->status = MOB_QUEUE_FULL;
            break;
        }
        struct question *q = malloc(sizeof *q);
        MOB_ASSERT(q);
        *q = (struct question){below, below->to_ask[--below->to_ask_count]};
        below->asking++;
        known_ask(below->node, mob_object_of(q->task, 0), on_parent, q);
    }
    if (below->asking > 0)
        return;
    /* With nobody asked all between the tops and what lives below them lives, and was found from above. */
    bool found = below->status == MOB_OK && (!below->from_above || below->asked > 0);
    uint32_t told = found ? cancel_all(below) : 0;
    end(below, below->status, told);
}

static bool may_cancel(const struct below *below)
{
    const struct node_client *client = node_client_is(below->node, below->slot, below->session)
        ? node_client_at(below->node, below->slot)
        : NULL;
    return client &&
        (client->kind == MOB_CLIENT_WORKER || (client->flags & MOB_SESSION_GATEWAY) ||
            (client->job && memcmp(&client->job->id, &below->job_id, sizeof below->job_id) == 0));
}

/* Siblings often follow each other: each stream is noted once in a row. */
static void walk(struct below *below)
{
    struct node *node = below->node;
    struct mob_sched_task *task;
    struct mob_stream last = {0};
    below->walking = true;
    for (uint32_t at = 0; (task = mob_sched_each(node->sched, &at));) {
        if (mob_stream_eq(task->id.stream, last) || !is_of(below, task))
            continue;
        last = task->id.stream;
        add_origin(below, task->id.stream, ((struct node_task *)task)->template->head.parent);
    }
    last = (struct mob_stream){0};
    for (uint32_t at = 0; (task = mob_sched_each(node->sched, &at));) {
        if (mob_stream_eq(task->id.stream, last) || !is_of(below, task))
            continue;
        last = task->id.stream;
        note_parent(below, ((struct node_task *)task)->template->head.parent);
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
        status = may_cancel(below) ? MOB_OK : MOB_DENIED;
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

void node_cancel_below(struct node *node, const struct node_client *client,
    const struct mob_out_cancel *cancel, below_done_fn *done, void *arg)
{
    if (walks_of(node) == BELOW_WALKS_MAX) {
        if (done)
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

/* ---- of living tasks ---- */

void node_below_later(struct node *node, const struct node_job *job, const struct mob_out_cancel *cancel)
{
    if (node->below_due_count == BELOW_DUE_MAX) {
        MOB_LOG_WARN("cancel", "not_below", "status=%s", mob_status_code(MOB_QUEUE_FULL));
        return;
    }
    if (node->below_due_count == node->below_due_capacity) {
        node->below_due_capacity = 2 * node->below_due_capacity + 16;
        node->below_due = realloc(node->below_due, node->below_due_capacity * sizeof(struct below_due));
        MOB_ASSERT(node->below_due);
    }
    node->below_due[node->below_due_count++] = (struct below_due){cancel->task, job->id, cancel->force != 0};
}

static bool same_walk(const struct below_due *a, const struct below_due *b)
{
    return a->force == b->force && memcmp(&a->job_id, &b->job_id, sizeof a->job_id) == 0;
}

/* One walk takes all of its job, and leaves the others in the list. */
static struct below *take_due(struct node *node)
{
    struct below_due first = node->below_due[0];
    struct below *below = below_new(node, node->below_due_count, first.force);
    uint32_t kept = 0;
    below->job_id = first.job_id;
    below->from_above = true;
    for (uint32_t i = 0; i < node->below_due_count; i++) {
        if (same_walk(&node->below_due[i], &first))
            below->tops[below->top_count++] = node->below_due[i].task;
        else
            node->below_due[kept++] = node->below_due[i];
    }
    node->below_due_count = kept;
    qsort(below->tops, below->top_count, sizeof *below->tops, by_id);
    return below;
}

void node_below_start(struct node *node)
{
    while (node->below_due_count > 0 && walks_of(node) < BELOW_WALKS_MAX)
        walk(take_due(node));
}

void node_below_note(struct node *node, const struct mob_spec_head *head)
{
    for (struct below *below = node->below; below; below = below->next)
        if (below->walking && memcmp(&head->job, &below->job_id, sizeof below->job_id) == 0)
            add_origin(below, head->task.stream, head->parent);
}

void node_below_free(struct node *node)
{
    while (node->below) {
        struct below *next = node->below->next;
        below_free(node->below);
        node->below = next;
    }
    free(node->below_due);
}
