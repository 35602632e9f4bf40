#include "runtime/node/shadow.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/functions.h"
#include "runtime/node/jobs.h"
#include "runtime/node/replay.h"
#include "runtime/node/resolve.h"
#include "runtime/node/shadow_wants.h"
#include "runtime/node/submit.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

#define NONE UINT64_MAX
enum { TRIES_MAX = 3 }; /* a replay that dies of the same call each time */

enum shadow_state {
    SHADOW_WAITING = 1, /* for the actor, which restarts; or just made */
    SHADOW_READING, /* the log, then a checkpoint */
    SHADOW_RUNNING,
    SHADOW_ENDED /* all of its tasks have; see node_shadows_step */
};
struct shadow {
    struct shadow_entry entry; /* first: node->shadows links it */
    struct node *node;
    enum shadow_state state;
    struct shadow_wants wants;
    struct node_actor actor; /* of the instance; in no table of actors */
    uint64_t from; /* first position that it runs */
    uint64_t upto; /* and behind the last. While it waits: first that the actor still has to repeat */
    uint64_t repeats; /* while it waits: last that the actor has to repeat before it can begin; else NONE */
    uint32_t left; /* tasks that have not ended */
    bool interrupted; /* stopped for a reason that is not its own */
    bool actor_waits; /* to restart */
};

static struct shadow *find(const struct node *node, struct mob_actor_id id)
{
    return (struct shadow *)shadow_table_find(&node->shadows, id);
}

static struct shadow *create(struct node *node, struct mob_actor_id id)
{
    struct shadow *shadow = calloc(1, sizeof *shadow);
    MOB_ASSERT(shadow);
    shadow_table_add(&node->shadows, &shadow->entry, id);
    shadow->node = node;
    shadow->state = SHADOW_WAITING;
    shadow->repeats = NONE;
    shadow->actor.id = id;
    return shadow;
}

/* What one instance has; the shadow may start another. */
static void instance_fini(struct shadow *shadow)
{
    struct mob_actor_id id = shadow->actor.id;
    node_job_release(shadow->actor.job);
    free(shadow->actor.tail);
    free(shadow->actor.restore);
    shadow->actor = (struct node_actor){.id = id};
}

static void destroy(struct shadow *shadow)
{
    shadow_table_remove(&shadow->node->shadows, &shadow->entry);
    shadow_wants_fini(&shadow->wants);
    instance_fini(shadow);
    free(shadow);
}

void node_shadows_destroy(struct node *node)
{
    while (shadow_table_take_ended(&node->shadows))
        continue;
    for (struct shadow_entry *entry = node->shadows.first, *next; entry; entry = next) {
        next = entry->next;
        destroy((struct shadow *)entry);
    }
    shadow_table_fini(&node->shadows);
}

/* The actor restarts: its own replay has the ids of its calls, and makes some of the results. */
static bool actor_restarts(const struct shadow *shadow)
{
    const struct node_actor *actor = node_actor_find(shadow->node, shadow->actor.id);
    return actor && (actor->life.state == MOB_ACTOR_PENDING || actor->life.state == MOB_ACTOR_RESTARTING);
}

/* ---- what is wanted ---- */

/* All of it is lost, for this reason. */
static void give_up(struct shadow *shadow, enum mob_status why)
{
    struct node *node = shadow->node;
    struct shadow_want *wants = shadow_wants_take(&shadow->wants);
    destroy(shadow); /* first: who hears of it may want it again */
    while (wants) {
        struct shadow_want *next = wants->next;
        node_ready_committed(node, wants->id, why, MOB_TYPE_ERROR, NODE_NOBODY, 0);
        shadow_want_free(wants);
        wants = next;
    }
}

static bool is_there(const struct node *node, struct mob_object_id id)
{
    struct mob_object_info info;
    return mob_store_object_info(node->store, id, &info) && info.sealed;
}

/* Takes out what was made and was told when its call ended, and what cannot be made. */
static struct shadow_want *sift(struct shadow *shadow)
{
    struct shadow_want *all = shadow_wants_take(&shadow->wants), *lost = NULL;
    while (all) {
        struct shadow_want *want = all;
        all = all->next;
        want->tries += !shadow->interrupted && shadow_want_upto(want) <= shadow->upto;
        if (is_there(shadow->node, want->id)) {
            shadow_want_free(want);
        } else if (want->tries < TRIES_MAX) {
            shadow_wants_put(&shadow->wants, want);
        } else {
            want->next = lost;
            lost = want;
        }
    }
    return lost;
}

/* ---- a run ---- */

/* Calls that have not run fail, silently; node_shadows_step goes on when the last task has ended. Returns the
 * worker, which is nobody's now. */
static struct node_worker *close_instance(struct shadow *shadow)
{
    struct node_worker *worker = shadow->actor.worker;
    if (shadow->actor.number)
        mob_sched_actor_close(shadow->node->sched, shadow->actor.number, MOB_ACTOR_DIED);
    shadow->actor.number = 0;
    shadow->actor.worker = NULL;
    if (worker)
        worker->actor = NULL;
    return worker;
}

/* And what runs. */
static void stop(struct shadow *shadow)
{
    struct node *node = shadow->node;
    struct node_worker *worker = close_instance(shadow);
    struct node_task *creation = node_task_find(node, shadow->actor.id.creation);
    if (worker)
        node_worker_kill(node, worker, MOB_ACTOR_DIED, "its shadow replay was stopped");
    else if (creation && node_task_is_shadow(creation)) /* not placed yet */
        mob_sched_cancel(node->sched, &creation->sched, true, false, node->now_ns);
}

static void one_ended(struct shadow *shadow)
{
    MOB_ASSERT(shadow->left > 0);
    if (--shadow->left > 0)
        return;
    shadow->state = SHADOW_ENDED;
    shadow_table_ended(&shadow->node->shadows, &shadow->entry);
}

static bool enter(struct shadow *shadow, enum mob_status status, struct node_task *task)
{
    if (status != MOB_OK) {
        MOB_LOG_WARN("shadow", "task_refused", "status=%s", mob_status_code(status));
        return false;
    }
    node_task_extra(shadow->node, task)->shadow = true;
    shadow->left++;
    node_enter(shadow->node, task);
    return true;
}

static bool enter_creation(struct shadow *shadow)
{
    struct node *node = shadow->node;
    struct node_actor *actor = &shadow->actor;
    struct mob_spec spec = {.head = actor->head, .tail = actor->tail, .tail_bytes = actor->tail_bytes};
    struct node_task *task = NULL;
    uint8_t *restore_tail = node_checkpoint_tail(node, actor, &spec.tail_bytes);
    if (restore_tail)
        spec.tail = restore_tail;
    uint8_t flags = (uint8_t)(TASK_REMAKE | (restore_tail ? TASK_RESTORE : 0));
    enum mob_status status = node_resubmit(node, &spec, node->now_ns, flags, &task);
    free(restore_tail);
    return enter(shadow, status, task);
}

static bool is_to_run(const struct shadow *shadow, const struct replay_call *call)
{
    return call->position >= shadow->from && !call->skipped && call->finished;
}

static int by_position(const void *a, const void *b)
{
    uint64_t x = (*(struct shadow_want *const *)a)->position, y = (*(struct shadow_want *const *)b)->position;
    return x < y ? -1 : x > y;
}

/* What is wanted of calls that have no edges, each to its place among the others. One that cannot be entered
 * is not made. */
static void enter_reads(struct shadow *shadow)
{
    uint32_t count = 0;
    struct shadow_want **reads = malloc((shadow->wants.count + 1) * sizeof(struct shadow_want *));
    MOB_ASSERT(reads);
    for (struct shadow_want *want = shadow->wants.first; want; want = want->next)
        if (want->read && shadow_want_upto(want) <= shadow->upto)
            reads[count++] = want;
    qsort(reads, count, sizeof *reads, by_position); /* then no place is looked for from the beginning */
    for (uint32_t i = 0; i < count; i++) {
        struct node_task *task = NULL;
        enum mob_status status = node_replay_call(shadow->node, reads[i]->read, &task);
        if (status != MOB_EXISTS) /* for another of its results */
            (void)enter(shadow, status, task);
    }
    free(reads);
}

/* Its calls in order, then the creation, as for a restart. */
static void run(struct shadow *shadow, const struct replay_log *log)
{
    bool good = true;
    uint32_t calls = 0;
    shadow->state = SHADOW_RUNNING;
    shadow->left = 1; /* ours: a task may fail at once */
    shadow->actor.sent = shadow->from;
    for (uint32_t i = 0; i < log->count && good && log->calls[i].position < shadow->upto; i++) {
        const struct replay_call *call = &log->calls[i];
        struct node_task *task = NULL;
        if (!is_to_run(shadow, call))
            continue;
        enum mob_status status = call->spec ? node_replay_call(shadow->node, call, &task) : MOB_LINEAGE_GONE;
        good = enter(shadow, status, task);
        calls++;
    }
    if (good)
        enter_reads(shadow);
    good = good && enter_creation(shadow);
    MOB_LOG_INFO(
        "shadow", "queued", "calls=%u from=%lu upto=%lu good=%d", calls, shadow->from, shadow->upto, good);
    if (!good)
        stop(shadow);
    one_ended(shadow);
}

/* ---- before a run: the log, and where to start ---- */

static enum mob_status prepare(struct shadow *shadow, const struct replay_log *log)
{
    struct node *node = shadow->node;
    struct node_actor *actor = &shadow->actor;
    if (log->found.status != MOB_OK)
        return log->found.status;
    uint64_t missing;
    if (!log->creation || node_replay_gap(log, shadow->from, shadow->upto, &missing))
        return MOB_LINEAGE_GONE;
    actor->head = *log->creation;
    actor->tail_bytes = log->creation_tail_bytes;
    actor->tail = malloc(actor->tail_bytes);
    MOB_ASSERT(actor->tail);
    memcpy(actor->tail, log->creation + 1, actor->tail_bytes);
    actor->job = node_job_by_id(node, actor->head.job);
    node_job_hold(actor->job);
    actor->class = node_function_by_id(node, actor->head.function);
    mob_actor_life_init(&actor->life, 0);
    return mob_sched_actor_open(node->sched, &actor->number);
}

/* The actor has calls to repeat itself, whose ids it has queued: a shadow runs none of them. True = one of
 * them stands before everything that is wanted. */
static bool waits_for_actor(
    struct shadow *shadow, const struct replay_log *log, const struct shadow_range *range)
{
    shadow->upto = range->upto;
    for (uint32_t i = 0; i < log->count && log->calls[i].position < shadow->upto; i++)
        if (is_to_run(shadow, &log->calls[i]) && node_task_find(shadow->node, log->calls[i].task))
            shadow->upto = log->calls[i].position;
    if (range->least <= shadow->upto)
        return false;
    for (uint32_t i = 0; i < log->count && log->calls[i].position < range->least; i++)
        if (is_to_run(shadow, &log->calls[i]) && node_task_find(shadow->node, log->calls[i].task))
            shadow->repeats = log->calls[i].position;
    return true;
}

static void on_log(void *arg, const struct replay_log *log)
{
    struct shadow *shadow = arg;
    struct shadow_range range = shadow_wants_range(&shadow->wants);
    if (actor_restarts(shadow)) { /* since the reading began */
        instance_fini(shadow);
        shadow->state = SHADOW_WAITING;
        return;
    }
    if (shadow->actor.restore && shadow->actor.restore->position >= range.first) {
        free(shadow->actor.restore);
        shadow->actor.restore = NULL; /* too new: from the beginning */
    }
    shadow->from = shadow->actor.restore ? shadow->actor.restore->position + 1 : 0;
    if (log->found.status == MOB_OK && waits_for_actor(shadow, log, &range)) {
        instance_fini(shadow);
        shadow->state = SHADOW_WAITING;
        return;
    }
    enum mob_status status = prepare(shadow, log);
    if (status == MOB_OK)
        run(shadow, log);
    else
        give_up(shadow, status);
}

/* Without one a shadow runs every call from the first on, and gives up when one of them is gone. */
static void on_checkpoint(void *arg, struct actor_checkpoint *checkpoint, uint16_t unknown_version)
{
    struct shadow *shadow = arg;
    (void)unknown_version;
    shadow->actor.restore = checkpoint;
    node_replay_read(shadow->node, shadow->actor.id, on_log, NULL, shadow);
}

static void start(struct shadow *shadow)
{
    if (actor_restarts(shadow)) {
        shadow->state = SHADOW_WAITING;
        return;
    }
    shadow->state = SHADOW_READING;
    shadow->interrupted = false;
    shadow->repeats = NONE;
    node_checkpoint_read(shadow->node, shadow->actor.id, on_checkpoint, NULL, shadow);
}

/* ---- from outside ---- */

/* What runs may need this. In its place, if the instance is not past it: a replay that waits for it goes on.
 */
static void want_while_running(struct shadow *shadow, uint64_t position, const struct replay_call *read)
{
    struct node_task *task = NULL;
    if (shadow->interrupted || !shadow->actor.number ||
        (read ? position > shadow->upto : position >= shadow->from))
        return; /* the next run makes it, or this one, and nothing of this one needs it before */
    if (read && shadow->actor.sent <= position) {
        enum mob_status status = node_replay_call(shadow->node, read, &task);
        if (status != MOB_EXISTS)
            (void)enter(shadow, status, task);
        return;
    }
    shadow->interrupted = true; /* again, with it */
    stop(shadow);
}

void node_shadow_want(struct node *node, const struct known *known, struct replay_call *read)
{
    struct mob_actor_id id = known->spec->actor;
    struct shadow *shadow = find(node, id);
    uint64_t position = known->completion->position;
    if (!shadow)
        shadow = create(node, id);
    if (!shadow_wants_add(&shadow->wants, known->id, position, read))
        return;
    if (shadow->state == SHADOW_WAITING) {
        uint64_t upto = read ? position : position + 1;
        if (shadow->repeats == NONE || upto <= shadow->upto)
            start(shadow);
    } else if (shadow->state == SHADOW_RUNNING) {
        want_while_running(shadow, position, read);
    }
}

void node_shadow_repeated(struct node *node, struct mob_actor_id actor, uint64_t position)
{
    struct shadow *shadow = node->shadows.count > 0 ? find(node, actor) : NULL;
    if (shadow && shadow->state == SHADOW_WAITING && shadow->repeats <= position)
        start(shadow);
}

struct node_actor *node_shadow_actor(struct node *node, const struct node_task *task)
{
    struct shadow *shadow = find(node,
        task->template->head.kind == MOB_KIND_ACTOR_CALL ? task->template->head.actor
                                                         : (struct mob_actor_id){task->sched.id});
    MOB_ASSERT(shadow); /* it stays until its last task has ended */
    return &shadow->actor;
}

void node_shadow_task_ended(struct node *node, struct node_task *task, enum mob_status status)
{
    struct node_actor *actor = node_shadow_actor(node, task);
    struct shadow *shadow = find(node, actor->id);
    if (task->template->head.kind != MOB_KIND_ACTOR_CALL) {
        enum mob_status up = MOB_ACTOR_DIED;
        node_checkpoint_used(node, actor);
        if (status == MOB_OK && actor->worker && actor->number &&
            mob_actor_life_up(&actor->life, node->now_ns))
            up = mob_sched_actor_up(node->sched, actor->number, (uint16_t)actor->worker->number);
        if (up != MOB_OK)
            close_instance(shadow); /* a worker that its constructor left goes on to other tasks */
    } else if (!node_task_reads(task)) {
        actor->last_call = task->sched.id;
        actor->last_position = node_extra_of(task)->position;
    }
    one_ended(shadow);
}

bool node_shadow_down(struct node *node, uint32_t number)
{
    for (struct shadow_entry *entry = node->shadows.first; entry; entry = entry->next) {
        struct shadow *shadow = (struct shadow *)entry;
        if (shadow->actor.number == number) {
            close_instance(shadow);
            return true;
        }
    }
    return false;
}

bool node_shadow_yield(struct node *node, struct mob_actor_id id)
{
    struct shadow *shadow = find(node, id);
    if (!shadow || (shadow->state != SHADOW_RUNNING && shadow->state != SHADOW_ENDED))
        return false;
    shadow->actor_waits = shadow->interrupted = true;
    if (shadow->state == SHADOW_RUNNING)
        stop(shadow);
    return true;
}

void node_shadow_resume(struct node *node, struct mob_actor_id id)
{
    struct shadow *shadow = find(node, id);
    if (!shadow || shadow->state != SHADOW_WAITING)
        return;
    struct shadow_want *wants = shadow_wants_take(&shadow->wants);
    destroy(shadow);
    while (wants) { /* a call that is queued again makes it; else this comes back */
        struct shadow_want *next = wants->next;
        node_resolve(node, wants->id);
        shadow_want_free(wants);
        wants = next;
    }
}

/* Its calls have ended, and who waited for them was told. */
static void end(struct shadow *shadow)
{
    struct node *node = shadow->node;
    struct node_actor *actor = shadow->actor_waits ? node_actor_find(node, shadow->actor.id) : NULL;
    close_instance(shadow); /* its worker leaves */
    instance_fini(shadow);
    shadow->actor_waits = false;
    struct shadow_want *lost = sift(shadow);
    shadow->state = SHADOW_WAITING;
    if (actor)
        node_actor_restore(node, actor);
    if (shadow->wants.first)
        start(shadow);
    else
        destroy(shadow);
    while (lost) {
        struct shadow_want *next = lost->next;
        node_ready_committed(node, lost->id, MOB_OBJECT_LOST, MOB_TYPE_ERROR, NODE_NOBODY, 0);
        shadow_want_free(lost);
        lost = next;
    }
}

bool node_shadows_step(struct node *node)
{
    struct shadow_entry *entry;
    bool any = false;
    while ((entry = shadow_table_take_ended(&node->shadows))) {
        end((struct shadow *)entry);
        any = true;
    }
    return any;
}
