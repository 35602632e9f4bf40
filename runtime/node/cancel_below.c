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

struct below {
    struct below *next;
    struct node *node;
    struct mob_out_cancel cancel;
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
    if (mob_task_id_is_zero(parent) || mob_task_id_eq(parent, below->cancel.task))
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
        else if (mob_task_id_eq(at->parent, below->cancel.task))
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
        if (mob_task_id_is_zero(at->parent) || mob_task_id_eq(at->parent, below->cancel.task))
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
    free(below->origins);
    free(below->to_ask);
    free(below);
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
            mob_sched_cancel(node->sched, task, below->cancel.force != 0, true, node->now_ns);
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
    uint32_t told = below->status == MOB_OK ? cancel_all(below) : 0;
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

static void on_task(void *arg, enum mob_status status, const struct known *known)
{
    struct below *below = arg;
    struct node *node = below->node;
    struct mob_sched_task *task;
    if (status == MOB_OK && !known->spec)
        status = MOB_NOT_FOUND;
    if (status == MOB_OK) {
        below->job_id = known->spec->job;
        status = may_cancel(below) ? MOB_OK : MOB_DENIED;
    }
    if (status != MOB_OK) {
        end(below, status, 0);
        return;
    }
    below->walking = true;
    for (uint32_t at = 0; (task = mob_sched_each(node->sched, &at));)
        if (is_of(below, task))
            add_origin(below, task->id.stream, ((struct node_task *)task)->template->head.parent);
    for (uint32_t at = 0; (task = mob_sched_each(node->sched, &at));)
        if (is_of(below, task))
            note_parent(below, ((struct node_task *)task)->template->head.parent);
    ask_on(below);
}

void node_cancel_below(struct node *node, const struct node_client *client,
    const struct mob_out_cancel *cancel, below_done_fn *done, void *arg)
{
    uint32_t walks = 0;
    for (const struct below *each = node->below; each; each = each->next)
        walks++;
    if (walks == BELOW_WALKS_MAX) {
        if (done)
            done(node, arg, MOB_QUEUE_FULL, 0);
        return;
    }
    struct below *below = calloc(1, sizeof *below);
    MOB_ASSERT(below);
    *below = (struct below){.next = node->below,
        .node = node,
        .cancel = *cancel,
        .slot = client->slot,
        .session = client->session,
        .done = done,
        .arg = arg};
    node->below = below;
    known_ask(node, mob_object_of(cancel->task, 0), on_task, below);
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
        free(node->below->origins);
        free(node->below->to_ask);
        free(node->below);
        node->below = next;
    }
}
