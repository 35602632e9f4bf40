#include "runtime/node/actor_refs.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/actor_needs.h"
#include "runtime/node/actors.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"

enum {
    REF_DEPTH_MAX = 16,
    NOTED_MAX = 16384, /* then they are looked up, whether anything is to go or not */
    ASKED_MAX = 1024
};
/* Times of records and of blocks differ by how long a record waits for its block, and clocks are set. */
#define SLACK_NS (60 * MOB_SEC)

struct ref_need {
    struct mob_actor_id actor;
    struct mob_object_id object;
    uint32_t depth; /* tasks that would have to run again before the call can */
    uint64_t position;
};
struct ref_list {
    struct ref_need *rows;
    size_t count, capacity;
};
struct ref_question {
    struct ref_question *next_free;
    struct node *node;
    struct ref_need need;
};
struct ref_waiter {
    struct ref_waiter *next;
    void (*done)(void *arg, enum mob_status status);
    void (*drop)(void *arg);
    void *arg;
};
struct ref_waiters {
    struct ref_waiter *first, **end;
};
struct actor_refs {
    struct ref_list noted; /* for the next round */
    struct ref_list asking; /* of this round, up to `at` asked */
    struct ref_list found; /* by this round's answers: it goes on with those */
    size_t at;
    uint32_t asked; /* answers that are missing */
    struct ref_question questions[ASKED_MAX], *free;
    bool under_way;
    enum mob_status status; /* of this round */
    struct ref_waiters now, next; /* for the round that is under way, and the one behind it */
};

struct actor_refs *actor_refs_create(void)
{
    struct actor_refs *refs = calloc(1, sizeof *refs);
    MOB_ASSERT(refs);
    refs->now.end = &refs->now.first;
    refs->next.end = &refs->next.first;
    for (int i = 0; i < ASKED_MAX; i++) {
        refs->questions[i].next_free = refs->free;
        refs->free = &refs->questions[i];
    }
    return refs;
}

static void drop_waiters(struct ref_waiters *waiters)
{
    while (waiters->first) {
        struct ref_waiter *waiter = waiters->first;
        waiters->first = waiter->next;
        waiter->drop(waiter->arg);
        free(waiter);
    }
}

void actor_refs_destroy(struct actor_refs *refs)
{
    if (!refs)
        return;
    drop_waiters(&refs->now);
    drop_waiters(&refs->next);
    free(refs->noted.rows);
    free(refs->asking.rows);
    free(refs->found.rows);
    free(refs);
}

static void add(struct ref_list *list, const struct ref_need *need)
{
    struct ref_need *last = list->count > 0 ? &list->rows[list->count - 1] : NULL;
    if (last && last->depth == need->depth && mob_object_id_eq(last->object, need->object) &&
        mob_actor_id_eq(last->actor, need->actor)) { /* as with calls one after the other */
        last->position = need->position > last->position ? need->position : last->position;
        return;
    }
    bool room = mob_array_room((void **)&list->rows, list->count + 1, &list->capacity, sizeof *list->rows);
    MOB_ASSERT(room && list->rows);
    list->rows[list->count++] = *need;
}

/* Each object that the task's arguments name. A page of them is an object, too, and asked for as one. */
static void add_arguments(
    struct ref_list *list, struct ref_need need, struct mob_task_id task, const uint8_t *tail)
{
    struct mob_arg_view arg;
    struct mob_tail_iter it = mob_spec_args(tail);
    while (mob_tail_next_arg(&it, &arg))
        if (arg.is_ref) {
            need.object = arg.ref;
            add(list, &need);
        }
    uint32_t pages = it.at < it.end ? mob_spec_arg_pages(tail) : 0;
    for (uint32_t page = 0; page < pages; page++) {
        need.object = mob_object_of(task, MOB_SLOT_ARG_PAGE | page);
        add(list, &need);
    }
}

/* ---- an answer ---- */

static bool is_page(struct mob_object_id id)
{
    return id.slot - MOB_SLOT_ARG_PAGE < MOB_ARG_PAGES_MAX;
}

static int64_t with_slack(int64_t wall_ns)
{
    return wall_ns > SLACK_NS ? wall_ns - SLACK_NS : 0;
}

static void tell(struct node *node, const struct ref_need *need, struct mob_job_id job, int64_t since_wall_ns)
{
    struct node_actor *actor = node_actor_find(node, need->actor);
    if (actor && actor->life.state != MOB_ACTOR_DEAD)
        node_actor_refers(actor, job, need->position, since_wall_ns);
}

static bool put_is_whole(const struct mob_out_put *put)
{
    return put->inline_bytes == put->size && !(put->flags & MOB_PUT_PROMISE);
}

static void note_page(struct actor_refs *refs, const struct ref_need *need, const struct mob_out_put *put)
{
    struct ref_need one = *need;
    uint64_t at = 0;
    while (mob_arg_page_next_ref((const uint8_t *)(put + 1), put->inline_bytes, &at, &one.object))
        add(&refs->found, &one);
}

/* The bytes of this return are in the log, or it is another object, which *target_out says. */
static bool return_is_there(const struct known *known, struct mob_object_id *target_out, bool *is_other_out)
{
    struct mob_completion completion = {*known->completion, (const uint8_t *)(known->completion + 1)};
    struct mob_return_view r;
    uint32_t at = 0;
    if (completion.head.status != MOB_OK)
        return true; /* the error is */
    if (known->item)
        return !known->item->stored;
    while (mob_completion_next(&completion, &at, &r)) {
        if (r.slot != known->id.slot)
            continue;
        *is_other_out = r.type == MOB_TYPE_FUTURE && r.size == sizeof *target_out && r.payload;
        if (*is_other_out)
            memcpy(target_out, r.payload, sizeof *target_out);
        return !(r.flags & MOB_RETURN_STORED);
    }
    return false;
}

static bool can_run_again(const struct known *known)
{
    return known->spec && (known->spec->kind == MOB_KIND_TASK || known->spec->kind == MOB_KIND_ACTOR_CALL);
}

static bool bytes_are_there(struct actor_refs *refs, const struct ref_need *need, const struct known *known)
{
    struct ref_need other = *need;
    bool is_other = false;
    if (known->deleted)
        return true;
    if (known->id.slot & MOB_SLOT_PUT)
        return known->put && (put_is_whole(known->put) || !can_run_again(known)); /* else it has a file */
    if (!known->completion || !return_is_there(known, &other.object, &is_other))
        return false;
    if (is_other && other.depth++ < REF_DEPTH_MAX)
        add(&refs->found, &other);
    return true;
}

/* Its task would run again. */
static void needs_its_task(
    struct node *node, const struct ref_need *need, const struct known *known, int64_t since_wall_ns)
{
    struct ref_need next = *need;
    const struct node_job *job = node_job_by_id(node, known->spec->job);
    tell(node, need, known->spec->job, job && job->standing ? since_wall_ns : 0);
    if (next.depth++ < REF_DEPTH_MAX)
        add_arguments(&node->actor_refs->found, next, known->id.task, (const uint8_t *)(known->spec + 1));
}

static void learn(struct node *node, const struct ref_need *need, const struct known *known)
{
    struct actor_refs *refs = node->actor_refs;
    int64_t since = known->spec ? with_slack(known->spec_submitted_wall_ns) : 0;
    if (known->put)
        tell(node, need, known->put_job, with_slack(known->put_wall_ns));
    if (known->put && is_page(known->id) && put_is_whole(known->put))
        note_page(refs, need, known->put);
    else if (!bytes_are_there(refs, need, known) && can_run_again(known))
        needs_its_task(node, need, known, since);
    else if (known->spec && !known->put)
        tell(node, need, known->spec->job, since);
}

/* ---- rounds ---- */

static int in_order(const void *a, const void *b)
{
    const struct ref_need *x = a, *y = b;
    int order = memcmp(&x->object, &y->object, sizeof x->object);
    if (order == 0)
        order = memcmp(&x->actor, &y->actor, sizeof x->actor);
    if (order == 0)
        order = (x->depth > y->depth) - (x->depth < y->depth);
    return order;
}

/* Of each actor and object the one that is least deep, for the newest call. */
static void each_once(struct ref_list *list)
{
    size_t count = 0;
    if (list->count > 0)
        qsort(list->rows, list->count, sizeof *list->rows, in_order);
    for (size_t i = 0; i < list->count; i++) {
        struct ref_need *last = count > 0 ? &list->rows[count - 1] : NULL;
        const struct ref_need *need = &list->rows[i];
        if (!last || !mob_object_id_eq(last->object, need->object) ||
            !mob_actor_id_eq(last->actor, need->actor))
            list->rows[count++] = *need;
        else if (need->position > last->position)
            last->position = need->position;
    }
    list->count = count;
}

static void swap(struct ref_list *a, struct ref_list *b)
{
    struct ref_list kept = *a;
    *a = *b;
    *b = kept;
}

static void ask(struct node *node);

static void on_known(void *arg, enum mob_status status, const struct known *known)
{
    struct ref_question *q = arg;
    struct node *node = q->node;
    struct actor_refs *refs = node->actor_refs;
    refs->asked--;
    if (status == MOB_OK) {
        learn(node, &q->need, known);
    } else {
        refs->status = status;
        add(&refs->noted, &q->need); /* in the next round */
    }
    q->next_free = refs->free;
    refs->free = q;
    ask(node);
}

static void end_round(struct node *node)
{
    struct actor_refs *refs = node->actor_refs;
    struct ref_waiter *waiters = refs->now.first;
    enum mob_status status = refs->status;
    refs->now.first = NULL;
    refs->now.end = &refs->now.first;
    refs->under_way = false;
    while (waiters) {
        struct ref_waiter *waiter = waiters;
        waiters = waiter->next;
        waiter->done(waiter->arg, status);
        free(waiter);
    }
}

static void begin_round(struct node *node)
{
    struct actor_refs *refs = node->actor_refs;
    *refs->now.end = refs->next.first;
    refs->now.end = refs->next.first ? refs->next.end : refs->now.end;
    refs->next.first = NULL;
    refs->next.end = &refs->next.first;
    swap(&refs->found, &refs->noted);
    refs->under_way = true;
    refs->status = MOB_OK;
    ask(node);
}

/* As many as may be under way; then what their answers lead to. */
static void ask(struct node *node)
{
    struct actor_refs *refs = node->actor_refs;
    if (refs->at == refs->asking.count && refs->asked == 0 && refs->found.count > 0) {
        refs->asking.count = refs->at = 0;
        swap(&refs->asking, &refs->found);
        each_once(&refs->asking);
    }
    while (refs->at < refs->asking.count && refs->asked < ASKED_MAX) {
        struct ref_question *q = refs->free;
        MOB_ASSERT(q);
        refs->free = q->next_free;
        *q = (struct ref_question){.node = node, .need = refs->asking.rows[refs->at++]};
        refs->asked++;
        known_ask(node, q->need.object, on_known, q);
    }
    if (refs->asked > 0 || !refs->under_way)
        return;
    end_round(node);
    if (!refs->under_way && refs->next.first)
        begin_round(node);
}

void actor_refs_note(struct node *node, struct mob_actor_id actor, uint64_t position, struct mob_task_id task,
    const uint8_t *tail)
{
    struct actor_refs *refs = node->actor_refs;
    add_arguments(&refs->noted, (struct ref_need){.actor = actor, .position = position}, task, tail);
    if (refs->noted.count >= NOTED_MAX && !refs->under_way)
        begin_round(node);
}

bool actor_refs_settle(
    struct node *node, void (*done)(void *arg, enum mob_status status), void (*drop)(void *arg), void *arg)
{
    struct actor_refs *refs = node->actor_refs;
    if (!refs->under_way && refs->noted.count == 0)
        return true;
    struct ref_waiter *waiter = malloc(sizeof *waiter);
    MOB_ASSERT(waiter);
    *waiter = (struct ref_waiter){.done = done, .drop = drop, .arg = arg};
    *refs->next.end = waiter;
    refs->next.end = &waiter->next;
    if (!refs->under_way)
        begin_round(node);
    return false;
}
