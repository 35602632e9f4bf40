/* Carries out what the local scheduler decided. */
#include "runtime/node/dispatch.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/actors.h"
#include "runtime/node/complete.h"
#include "runtime/node/notices.h"
#include "runtime/node/take_back.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

/* A spec with its arguments and extensions at their largest, and its function. */
enum { ROOM_BYTES = 16 * 1024 };
/* A cancel may end a million tasks: in between, acknowledgements make their errors' room free again, and
 * everybody else is served. */
enum { FAILED_PER_PASS_MAX = 1024 };
/* A retry's head differs from its siblings', and flags are sent with whole specs: nothing may follow those as
 * a sibling, so they have this head slot to themselves. */
enum { OTHERS_SLOT = MOB_HEAD_SLOTS - 1 };

/* Tasks that are sent in one go; two are not worth it. */
enum { TOGETHER_MIN = 3, TOGETHER_MAX = 64 };

/* Of MOB_IN_SIBLING, before the tail. */
struct sibling_front {
    uint64_t position;
    uint32_t index, caller_seq;
};
_Static_assert(sizeof(struct sibling_front) == 16, "layout of MOB_IN_SIBLING");

/* First attempt of the first generation: its head differs from its siblings' by the index only. */
static bool is_plain(const struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return !extra || (extra->attempt == 1 && extra->generation == task->template->head.generation);
}

static uint32_t incarnation_of(const struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return extra ? extra->incarnation : 0;
}

static bool knows(const struct node_worker *worker, const struct node_function *f)
{
    uint32_t byte = f->number >> 3;
    return byte < worker->functions_known_bytes && worker->functions_known[byte] >> (f->number & 7) & 1;
}

/* A worker learns a function's module before the first spec that needs it. */
static bool teach(struct node *node, struct node_client *client, const struct node_function *f)
{
    struct node_worker *worker = client->worker;
    if (knows(worker, f))
        return true;
    size_t name = strlen(f->name);
    struct mob_in_function head = {f->id, f->module};
    uint8_t *body = node_in_reserve(node, client, MOB_IN_FUNCTION, 0, 0, (uint32_t)(sizeof head + name));
    if (!body)
        return false;
    memcpy(body, &head, sizeof head);
    memcpy(body + sizeof head, f->name, name);
    node_worker_knows(worker, f->number);
    return true;
}

/* Where the head of a task's template stands in its worker's inbound ring, and if not, where it is to go. */
static bool find_slot(struct node_worker *worker, const struct node_task *task, uint16_t *slot_out)
{
    struct node_template *template = task->template;
    uint32_t slot = template->in_slot;
    if (worker->sent[slot].template != template)
        for (slot = 0; slot < OTHERS_SLOT && worker->sent[slot].template != template;)
            slot++;
    bool stands = slot < OTHERS_SLOT;
    if (!stands)
        slot = worker->next_slot++ % OTHERS_SLOT;
    template->in_slot = (uint8_t)slot;
    *slot_out = (uint16_t)slot;
    return stands && worker->sent[slot].incarnation == incarnation_of(task);
}

static bool send_sibling(
    struct node *node, struct node_client *client, const struct node_task *task, uint16_t slot)
{
    uint32_t tail_bytes;
    struct node_tail_room room;
    const uint8_t *tail = node_task_tail(task, &room, &tail_bytes);
    struct sibling_front front = {.index = task->sched.id.index};
    const struct node_task_extra *extra = node_extra_of(task);
    if (extra) {
        front.position = extra->position;
        front.caller_seq = extra->caller_seq;
    }
    uint8_t *body =
        node_in_reserve(node, client, MOB_IN_SIBLING, 0, slot, (uint32_t)sizeof front + tail_bytes);
    if (!body)
        return false;
    memcpy(body, &front, sizeof front);
    memcpy(body + sizeof front, tail, tail_bytes);
    return true;
}

static bool send_spec(
    struct node *node, struct node_client *client, struct node_task *task, uint16_t slot, uint32_t flags)
{
    const struct node_task_extra *extra = node_extra_of(task);
    struct mob_in_spec prefix = {extra ? extra->position : 0, incarnation_of(task), flags};
    struct mob_spec_head head;
    uint32_t tail_bytes;
    struct node_tail_room room;
    const uint8_t *tail = node_task_tail(task, &room, &tail_bytes);
    node_task_head(task, &head);
    uint8_t *body = node_in_reserve(
        node, client, MOB_IN_SPEC, 0, slot, (uint32_t)(sizeof prefix + sizeof head) + tail_bytes);
    if (!body)
        return false;
    memcpy(body, &prefix, sizeof prefix);
    memcpy(body + sizeof prefix, &head, sizeof head);
    memcpy(body + sizeof prefix + sizeof head, tail, tail_bytes);
    struct node_sent_head *sent = &client->worker->sent[slot];
    if (slot != OTHERS_SLOT)
        node_template_hold(task->template);
    node_template_place(node, &sent->template, slot != OTHERS_SLOT ? task->template : NULL);
    sent->incarnation = prefix.incarnation;
    return true;
}

static bool send_task(struct node *node, struct node_client *client, struct node_task *task)
{
    uint32_t flags = task->flags & TASK_LOOK_UP ? MOB_IN_SPEC_LOOK_UP : 0;
    if (task->flags & TASK_RESTORE)
        flags |= MOB_IN_SPEC_RESTORE;
    if (task->flags & TASK_REMAKE)
        flags |= MOB_IN_SPEC_REMAKES;
    uint16_t slot = OTHERS_SLOT;
    if (flags == 0 && is_plain(task) && find_slot(client->worker, task, &slot))
        return send_sibling(node, client, task, slot);
    return send_spec(node, client, task, slot, flags);
}

bool node_send_task(struct node *node, struct node_client *client, struct node_task *task)
{
    return teach(node, client, task->template->function) && send_task(node, client, task);
}

/* A first attempt whose head stands in its worker's ring, in *slot_out. */
static bool goes_plainly(const struct node_worker *worker, const struct node_task *task, uint16_t *slot_out)
{
    uint32_t slot = task->template->in_slot;
    if ((task->flags & (uint8_t) ~(TASK_BORROWS | TASK_ACTOR_CALL)) != 0 || worker->held ||
        slot >= OTHERS_SLOT || worker->sent[slot].template != task->template ||
        worker->sent[slot].incarnation != incarnation_of(task) || !is_plain(task) ||
        !knows(worker, task->template->function))
        return false;
    *slot_out = (uint16_t)slot;
    return true;
}

/* The first task and those that go as it does: one template, no place among an actor's calls, and an argument
 * of eight bytes, as most are. Returns how many went. */
static uint32_t send_together(struct node *node, struct node_client *client, const struct node_worker *worker,
    struct mob_sched_task *const *tasks, uint32_t count)
{
    struct node_task *first = (struct node_task *)tasks[0];
    uint16_t slot;
    uint32_t alike = 1;
    if (first->form == TASK_TAIL_SHARED || (first->form & TASK_HAS_EXTRA) ||
        !goes_plainly(worker, first, &slot))
        return 0;
    for (; alike < count; alike++) {
        const struct node_task *task = (const struct node_task *)tasks[alike];
        if (task->template != first->template || task->form != first->form || task->flags != first->flags)
            break;
    }
    const uint32_t body_bytes = (uint32_t)sizeof(struct sibling_front) + MOB_SPEC_WORD_TAIL;
    uint8_t *body =
        mob_store_in_reserve_run(node->store, client->slot, MOB_IN_SIBLING, slot, body_bytes, &alike);
    if (!body)
        return 0;
    for (uint32_t i = 0; i < alike; i++, body += sizeof(struct mob_record) + body_bytes) {
        struct node_task *task = (struct node_task *)tasks[i];
        const struct sibling_front front = {.index = task->sched.id.index};
        task->dispatched_us = node_elapsed_us(task->submitted_ns, node->now_ns);
        memcpy(body, &front, sizeof front);
        uint64_t tail[MOB_SPEC_WORD_TAIL / sizeof(uint64_t)];
        mob_spec_word_tail((enum mob_value_type)task->form, task->own.word, tail);
        memcpy(body + sizeof front, tail, sizeof tail);
    }
    node_mark_flush(node, client);
    return alike;
}

/* False: there is no room, and it is told again, with those behind it, when the ring has emptied. */
static bool dispatch(struct node *node, struct node_worker *worker, struct node_task *task)
{
    struct node_client *client = node->clients[worker->slot];
    uint16_t slot;
    task->dispatched_us = node_elapsed_us(task->submitted_ns, node->now_ns);
    if (task->ready_us == TASK_INPUTS_MISSING) /* it follows their tasks, and finds them at its worker */
        task->ready_us = task->dispatched_us;
    if (task->flags & TASK_ACTOR_CALL)
        node_actor_sent(worker, task);
    if (goes_plainly(worker, task, &slot) && send_sibling(node, client, task, slot))
        return true;
    if (task->flags & TASK_ACTOR_CREATE)
        node_actor_placed(node, task, worker);
    if (worker->held || (task->flags & (TASK_LOOK_UP | TASK_NO_OUTCOMES)) == TASK_LOOK_UP) {
        node_send_in_order(node, client, task);
    } else if (!node_send_task(node, client, task)) {
        mob_sched_no_room(node->sched, &task->sched);
        node_worker_no_room(node, worker);
        return false;
    }
    return true;
}

static bool dispatch_many(
    struct node *node, struct node_worker *worker, struct mob_sched_task *const *tasks, uint32_t count)
{
    for (uint32_t done = 0; done < count;) {
        uint32_t together = count - done < TOGETHER_MIN
            ? 0
            : send_together(node, node->clients[worker->slot], worker, tasks + done, count - done);
        if (together == 0 && !dispatch(node, worker, (struct node_task *)tasks[done]))
            return false;
        done += together > 0 ? together : 1;
    }
    return true;
}

/* This task and those that its worker gets behind it. */
static void dispatch_run(struct node *node, struct node_task *task, uint16_t number)
{
    struct node_worker *worker = node_worker_at(node, number);
    struct mob_sched_task *tasks[TOGETHER_MAX] = {&task->sched};
    MOB_ASSERT(worker);
    uint32_t count = 1 + mob_sched_next_of(node->sched, number, tasks + 1, TOGETHER_MAX - 1);
    while (count > 0 && dispatch_many(node, worker, tasks, count))
        count = mob_sched_next_of(node->sched, number, tasks, TOGETHER_MAX);
}

/* It ran when the worker ended whose death is being handled. */
static bool died_with_worker(const struct node *node, const struct node_task *task)
{
    return mob_task_id_eq(node->death.task, task->sched.id);
}

/* Its worker was killed because it waits, as too many do. Those below it on its stack do not. */
static bool one_too_many(const struct node *node, const struct node_task *task)
{
    return node->death.status == MOB_TOO_MANY_BLOCKED && died_with_worker(node, task);
}

static void fail(struct node *node, struct node_task *task, enum mob_status status)
{
    char detail[1024] = "";
    int signal = 0;
    const char *message = mob_status_text(status);
    char death[NODE_ACTOR_DEATH_BYTES];
    if (status == MOB_WORKER_DIED || (status == MOB_ACTOR_DIED && died_with_worker(node, task)))
        message = node_death_notice(node, &signal, detail, sizeof detail);
    if (status == MOB_ACTOR_DIED && task->template->head.kind == MOB_KIND_ACTOR_CALL)
        message = node_actor_death(node, task->template->head.actor, death, sizeof death);
    if (status == MOB_WORKER_DIED && one_too_many(node, task))
        status = node->death.status; /* nobody's crash: the caller can do something about it */
    node_task_fail(node, task, status, message, NULL, 0, signal, detail);
}

/* Retried after its worker died: the attempt is in the log, the same generation goes on. Not when the worker
 * was killed because too many wait: the task would only come to wait again. */
static void retry(struct node *node, struct node_task *task, enum mob_status status, bool unpaid)
{
    if (status == MOB_WORKER_DIED && one_too_many(node, task)) {
        fail(node, task, status);
        return;
    }
    char id[MOB_ID_TEXT_MAX];
    MOB_LOG_INFO("dispatch", "retry", "task=%s why=%s", mob_task_id_format(task->sched.id, id),
        mob_status_code(status));
    struct mob_completion_head head = {
        .version = MOB_COMPLETION_VERSION,
        .flags = (uint8_t)(MOB_COMPLETION_WILL_RETRY | (unpaid ? MOB_COMPLETION_UNPAID : 0)),
        .status = (uint16_t)status,
        .task = task->sched.id,
        .attempt = node_task_attempt(task),
        .generation = node_task_generation(task),
        .worker = status == MOB_WORKER_DIED ? node->death.serial : 0,
        .submitted_ns = task->submitted_ns,
        .finished_ns = node->now_ns,
    };
    node_fill_death(node, task, &head);
    if (!(task->flags & (TASK_UNLOGGED | TASK_REMAKE))) {
        lineage_log_job(node->log, task->template->job->id, task->template->job->ns);
        lineage_log_completion(node->log, &head, (const uint8_t *)"");
    }
    node_attempt_lost(node, task);
    if (task->flags & TASK_ACTOR_CREATE)
        node_actor_creation_lost(node, task, unpaid);
}

static void ask_to_stop(struct node *node, struct node_task *task, uint32_t number, enum mob_status why)
{
    struct node_worker *worker = node_worker_at(node, number);
    if (!worker)
        return;
    node_cancel_note_stop(node, task, why);
    struct node_client *client = node->clients[worker->slot];
    uint8_t *body = node_in_append(node, client, MOB_IN_CANCEL, 0, 0, sizeof task->sched.id);
    if (!body)
        return;
    memcpy(body, &task->sched.id, sizeof task->sched.id);
    mob_store_in_urgent(node->store, worker->slot); /* it may stand in front of this, not started */
}

static void act(struct node *node, const struct mob_decision *d)
{
    struct node_task *task = (struct node_task *)d->task;
    switch (d->kind) {
    case MOB_DECIDE_DISPATCH:
        dispatch_run(node, task, d->worker);
        return;
    case MOB_DECIDE_FAIL:
        fail(node, task, d->status);
        return;
    case MOB_DECIDE_RETRY:
        retry(node, task, d->status, d->unpaid);
        return;
    case MOB_DECIDE_TAKE_BACK:
        node_take_back(node, d->worker);
        return;
    case MOB_DECIDE_STOP:
        ask_to_stop(node, task, d->worker, d->status);
        return;
    case MOB_DECIDE_KILL: {
        struct node_worker *worker = node_worker_at(node, d->worker);
        if (worker)
            node_worker_kill(node, worker, d->status, "its task did not stop when asked");
        return;
    }
    case MOB_DECIDE_SPAWN:
        node_worker_spawn(node, d->count);
        return;
    case MOB_DECIDE_REAP:
        node_worker_reap(node, d->worker);
        return;
    case MOB_DECIDE_ACTOR_DOWN:
        node_actor_down(node, d->actor, task, d->unpaid);
        return;
    case MOB_DECIDE_FORWARD:
        MOB_ASSERT(!"one node has nobody to forward to");
    }
}

void node_worker_no_room(struct node *node, struct node_worker *worker)
{
    if (worker->no_room)
        return;
    worker->no_room = true;
    node->no_room_workers++;
}

/* Workers whose rings were full: the scheduler tells their tasks again, held ones go on. */
static void retry_full_rings(struct node *node)
{
    for (uint32_t i = 0; i < node->worker_capacity && node->no_room_workers > 0; i++) {
        struct node_worker *worker = node->workers[i];
        if (!worker || !worker->no_room || !mob_store_in_room(node->store, worker->slot, ROOM_BYTES))
            continue;
        worker->no_room = false;
        node->no_room_workers--;
        node_send_held(node, worker);
        mob_sched_room(node->sched, (uint16_t)worker->number);
    }
}

/* A death's notice is at hand for this call only: whoever died of it must hear of it now. */
void node_dispatch_all(struct node *node)
{
    struct mob_decision decision;
    while (mob_sched_next(node->sched, node->now_ns, &decision))
        act(node, &decision);
}

bool node_dispatch(struct node *node)
{
    if (node->no_room_workers > 0)
        retry_full_rings(node);
    struct mob_decision decision;
    for (uint32_t failed = 0; failed < FAILED_PER_PASS_MAX;) {
        if (!mob_sched_next(node->sched, node->now_ns, &decision))
            return false;
        failed += decision.kind == MOB_DECIDE_FAIL;
        act(node, &decision);
    }
    return true;
}
