/* Life of the scheduler and of its tasks: submission, states, completion, retries. */
#include <stdlib.h>

#include "runtime/sched/local_inner.h"

enum { FETCH_AHEAD = 4 };

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value > 0 ? value : otherwise;
}

static void options_fill(struct mob_sched_options *o)
{
    uint32_t cpus = (uint32_t)((o->cpu + MOB_SCHED_UNIT - 1) / MOB_SCHED_UNIT);
    cpus = cpus ? cpus : 1;
    o->tasks_max = o->tasks_max && o->tasks_max < MOB_SCHED_TASKS_MAX ? o->tasks_max : MOB_SCHED_TASKS_MAX;
    o->running_max = o->running_max ? o->running_max : 16 * cpus;
    o->blocked_max = o->blocked_max ? o->blocked_max : MOB_SCHED_BLOCKED_MAX_DEFAULT;
    o->idle_keep = o->idle_keep ? o->idle_keep : cpus;
    o->nest_max = o->nest_max < MOB_SCHED_NEST_MAX ? o->nest_max : MOB_SCHED_NEST_MAX;
    o->batch_ns_max = or_default(o->batch_ns_max, 500 * MOB_US);
    o->batch_ns_max = o->batch_ns_max < INT32_MAX ? o->batch_ns_max : INT32_MAX;
    o->wake_worth_ns = or_default(o->wake_worth_ns, 50 * MOB_US);
    o->take_back_ns = or_default(o->take_back_ns, 10 * MOB_MS);
    if (o->take_back_ns <
        o->batch_ns_max) /* else it would be given to a worker that is not late yet, again */
        o->take_back_ns = o->batch_ns_max;
    o->reap_after_ns = or_default(o->reap_after_ns, 10 * MOB_SEC);
    o->kill_grace_ns = or_default(o->kill_grace_ns, 5 * MOB_SEC);
    o->backoff_initial_ns = or_default(o->backoff_initial_ns, 10 * MOB_MS);
    o->backoff_max_ns = or_default(o->backoff_max_ns, 10 * MOB_SEC);
}

static enum mob_status init(struct mob_sched *s)
{
    s->stride = (s->options.record_bytes + 3u) & ~3u; /* sizeof holds the alignment already */
    s->fresh = 1; /* 0 is nil */
    s->objects.size = sizeof(struct sched_object);
    s->edges.size = sizeof(struct sched_edge);
    s->families.size = sizeof(struct sched_family);
    s->extras.size = sizeof(struct sched_extra);
    s->active = s->untold = s->following = s->piled = s->actor_list = SCHED_NIL16;
    s->reserved_until = MOB_FOREVER_NS;
    for (uint32_t i = 0; i < MOB_SCHED_RUNTIMES_MAX; i++)
        s->runtimes[i].idle_head = s->runtimes[i].idle_tail = SCHED_NIL16;
    s->kinds = calloc(MOB_SCHED_RESOURCES_MAX, sizeof *s->kinds);
    s->workers = calloc(MOB_SCHED_WORKERS_MAX, sizeof *s->workers);
    if (!s->kinds || !s->workers)
        return MOB_NO_MEMORY;
    uint16_t cpu, gpu, memory;
    if (mob_sched_resource(s, "CPU", 3, &cpu) || mob_sched_resource(s, "GPU", 3, &gpu) ||
        mob_sched_resource(s, "memory", 6, &memory))
        return MOB_INTERNAL;
    MOB_ASSERT(cpu == MOB_SCHED_CPU && gpu == MOB_SCHED_GPU && memory == MOB_SCHED_MEMORY);
    mob_sched_resource_total(s, cpu, s->options.cpu);
    mob_sched_resource_total(s, gpu, s->options.gpu);
    mob_sched_resource_total(s, memory, s->options.memory);
    s->function_count = 1; /* 0 is shared */
    struct mob_function_id none = {{0}};
    (void)mob_sched_function(s, none); /* makes the table */
    if (!s->functions)
        return MOB_NO_MEMORY;
    s->functions[0] = (struct sched_function){.estimate_ns = (uint32_t)s->options.batch_ns_max};
    return MOB_OK;
}

enum mob_status mob_sched_create(const struct mob_sched_options *options, struct mob_sched **sched_out)
{
    if (options->struct_size != sizeof *options || options->record_bytes < sizeof(struct mob_sched_task) ||
        options->record_bytes > 65536 || options->cpu < 0 || options->gpu < 0 || options->memory < 0)
        return MOB_INVALID;
    struct mob_sched *s = calloc(1, sizeof *s);
    if (!s)
        return MOB_NO_MEMORY;
    s->options = *options;
    options_fill(&s->options);
    enum mob_status status = init(s);
    if (status) {
        mob_sched_destroy(s);
        return status;
    }
    *sched_out = s;
    return MOB_OK;
}

void mob_sched_destroy(struct mob_sched *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->chunk_count; i++)
        free(s->chunks[i]);
    free(s->chunks);
    free(s->ids.slots);
    free(s->ids.distance);
    free(s->waits.slots);
    free(s->waits.distance);
    free(s->objects.base);
    free(s->edges.base);
    free(s->families.base);
    free(s->extras.base);
    for (uint32_t i = 0; s->workers && i < MOB_SCHED_WORKERS_MAX; i++) {
        free(s->workers[i].ring);
        free(s->workers[i].below);
    }
    free(s->workers);
    free(s->actors);
    free(s->heap);
    free(s->notes);
    sched_names_fini(s);
    free(s);
}

/* ---- states ---- */

#define BIT(state) (1u << MOB_SCHED_##state)
static const uint8_t legal[MOB_SCHED_STATE_COUNT] = {
    [MOB_SCHED_NEW] = BIT(WAITING) | BIT(DELAYED) | BIT(READY),
    [MOB_SCHED_WAITING] = BIT(READY) | BIT(DISPATCHED) | BIT(DONE),
    [MOB_SCHED_DELAYED] = BIT(WAITING) | BIT(READY) | BIT(DONE),
    [MOB_SCHED_READY] = BIT(DISPATCHED) | BIT(DONE),
    [MOB_SCHED_DISPATCHED] = BIT(READY) | BIT(WAITING) | BIT(BLOCKED) | BIT(DELAYED) | BIT(DONE),
    [MOB_SCHED_BLOCKED] = BIT(DISPATCHED),
    [MOB_SCHED_DONE] = 0,
};
#undef BIT

void sched_set_state(struct mob_sched *s, struct mob_sched_task *t, enum mob_sched_state state)
{
    MOB_ASSERT(legal[t->state] >> state & 1);
    s->by_state[t->state]--;
    s->by_state[state]++;
    t->state = (uint8_t)state;
}

void sched_become_ready(struct mob_sched *s, struct mob_sched_task *t)
{
    sched_set_state(s, t, MOB_SCHED_READY);
    if (t->marks & MARK_CALL)
        sched_actor_mark(s, t->lane);
    else
        sched_queue_push(s, t);
}

/* Not running any more: undo what queued or delayed states link. */
static void sched_unlink_queued(struct mob_sched *s, struct mob_sched_task *t)
{
    if (t->marks & MARK_CALL) {
        if (t->state == MOB_SCHED_READY || t->state == MOB_SCHED_WAITING || t->state == MOB_SCHED_DELAYED)
            sched_actor_remove(s, t);
    } else if (t->state == MOB_SCHED_READY) {
        sched_queue_remove(s, t);
    }
    if (!(t->marks & MARK_KIDS))
        sched_wait_drop(s, t);
}

static void notes_forget(struct mob_sched *s, uint32_t task)
{
    for (uint32_t i = 0; i < s->note_count; i++) {
        struct sched_note *n = &s->notes[(s->note_head + i) & (s->note_capacity - 1)];
        if (n->task == task)
            n->task = 0;
    }
}

void sched_notes_forget_worker(struct mob_sched *s, uint16_t worker)
{
    for (uint32_t i = 0; i < s->note_count; i++) {
        struct sched_note *n = &s->notes[(s->note_head + i) & (s->note_capacity - 1)];
        if (n->kind == MOB_DECIDE_REAP && n->worker == worker)
            n->kind = 0;
    }
}

void sched_note_push(struct mob_sched *s, struct sched_note note)
{
    if (s->note_count == s->note_capacity) {
        uint32_t capacity = s->note_capacity ? 2 * s->note_capacity : 64;
        struct sched_note *notes = malloc(capacity * sizeof *notes);
        if (!notes)
            abort(); /* a decision must not get lost; the system recovers as from any crash */
        for (uint32_t i = 0; i < s->note_count; i++)
            notes[i] = s->notes[(s->note_head + i) & (s->note_capacity - 1)];
        free(s->notes);
        s->notes = notes;
        s->note_capacity = capacity;
        s->note_head = 0;
    }
    s->notes[(s->note_head + s->note_count++) & (s->note_capacity - 1)] = note;
}

/* Out of everything but a batch; DONE. The caller says what happens to it. */
static void sched_retire(struct mob_sched *s, struct mob_sched_task *t)
{
    if (t->state != MOB_SCHED_DISPATCHED || (t->waits && !(t->marks & MARK_KIDS)))
        sched_unlink_queued(s, t);
    if (t->extra)
        sched_extra_free(s, t);
    if (s->note_count)
        notes_forget(s, t->handle);
    if (!(t->marks & MARK_CALL))
        sched_lane_release(s, t->lane);
    sched_set_state(s, t, MOB_SCHED_DONE);
}

/* DONE, and mob_sched_next will say so; until then its id is known: it has an outcome that nobody has heard.
 */
void sched_fail(struct mob_sched *s, struct mob_sched_task *t, enum mob_status status)
{
    sched_retire(s, t);
    t->worker = (uint16_t)status;
    t->next = 0;
    if (s->failed_tail)
        task_at(s, s->failed_tail)->next = t->handle;
    else
        s->failed_head = t->handle;
    s->failed_tail = t->handle;
}

/* ---- submission ---- */

/* Give it to the global scheduler instead? Calls and children of this node's tasks that fit stay. */
static bool forwards(const struct mob_sched *s, const struct mob_sched_task *t)
{
    if (!s->options.may_forward || t->marks & MARK_CALL)
        return false;
    const struct sched_lane *l = &s->lanes[t->lane];
    uint16_t kind;
    return mob_sched_class_check(s, l->class_id, &kind) ||
        (s->options.forward_threshold && l->count >= s->options.forward_threshold);
}

static bool runs_now(const struct mob_sched *s, const struct mob_sched_task *t)
{
    return (t->state == MOB_SCHED_DISPATCHED || t->state == MOB_SCHED_BLOCKED) &&
        worker_runs(worker_at(s, t->worker), t);
}

/* The tree that this task's children belong to: its own tree, or that of which it is the root. */
static uint32_t tree_below(struct mob_sched *s, const struct mob_sched_task *parent)
{
    if (!(parent->marks & MARK_CALL) && s->lanes[parent->lane].tree)
        return s->lanes[parent->lane].tree;
    if (!runs_now(s, parent) && parent->state != MOB_SCHED_BLOCKED)
        return SCHED_TREE_SHARED;
    struct sched_worker *w = worker_at(s, parent->worker);
    if (!w->tree) {
        s->trees_given += s->trees_given < SCHED_TREE_SHARED ? 2 : 1; /* it may wrap */
        w->tree = s->trees_given;
    }
    return w->tree;
}

static enum mob_status take_lane(
    struct mob_sched *s, struct mob_sched_task *t, const struct mob_sched_submit *in)
{
    struct sched_lane_key key = {in->job, in->class_id, in->priority,
        (in->flags & MOB_SCHED_ACTOR_CREATE) != 0, in->parent ? tree_below(s, in->parent) : 0};
    /* Runs of siblings have one lane. */
    if (in->job < s->job_count && s->jobs[in->job].last_lane != SCHED_NIL16 && s->jobs[in->job].open &&
        sched_lane_is(&s->lanes[s->jobs[in->job].last_lane], &key)) {
        t->lane = s->jobs[in->job].last_lane;
        return MOB_OK;
    }
    enum mob_status status = sched_lane_get(s, &key, &t->lane);
    if (status == MOB_QUEUE_FULL && key.tree) {
        key.tree = SCHED_TREE_SHARED;
        status = sched_lane_get(s, &key, &t->lane);
    }
    return status;
}

static enum mob_status take_names(
    struct mob_sched *s, struct mob_sched_task *t, const struct mob_sched_submit *in)
{
    uint16_t kind;
    if (in->function >= s->function_count)
        return MOB_NOT_FOUND;
    t->function = in->function;
    if (in->actor) {
        if (in->actor > s->actor_count || !s->actors[in->actor - 1].used || s->actors[in->actor - 1].closed)
            return MOB_NOT_FOUND;
        t->lane = (uint16_t)(in->actor - 1);
        t->marks |= MARK_CALL;
        return MOB_OK;
    }
    if (in->class_id < s->class_count && s->options.refuse_unsatisfiable && !s->options.may_forward &&
        mob_sched_class_check(s, in->class_id, &kind))
        return MOB_UNSATISFIABLE;
    return take_lane(s, t, in);
}

/* Before the run that follows so many failures. */
static int64_t backoff_ns(const struct mob_sched *s, const struct sched_extra *e, uint32_t failures)
{
    int64_t initial = e->backoff_initial ? e->backoff_initial : s->options.backoff_initial_ns;
    int64_t max = e->backoff_max ? e->backoff_max : s->options.backoff_max_ns;
    uint32_t doublings = failures - 1;
    return doublings < 32 && initial < max >> doublings ? initial << doublings : max;
}

static void count_failure(struct mob_sched_task *t, uint32_t failures)
{
    t->failures = (uint8_t)(failures < UINT8_MAX ? failures : UINT8_MAX);
}

static enum mob_status take_times(
    struct mob_sched *s, struct mob_sched_task *t, const struct mob_sched_submit *in, int64_t now)
{
    if (!in->deadline && in->not_before <= now && !in->backoff_initial_ns && !in->backoff_max_ns &&
        !in->failures)
        return MOB_OK;
    struct sched_extra *e = sched_extra_of(s, t);
    if (!e)
        return MOB_NO_MEMORY;
    e->deadline = in->deadline;
    e->wake = in->not_before > now ? in->not_before : 0;
    e->backoff_initial = in->backoff_initial_ns;
    e->backoff_max = in->backoff_max_ns;
    if (in->failures > 0) {
        int64_t at = now + backoff_ns(s, e, in->failures);
        e->wake = at > e->wake ? at : e->wake;
        count_failure(t, in->failures);
    }
    return MOB_OK;
}

/* DONE before it was queued. */
static void fail_at_submit(struct mob_sched *s, struct mob_sched_task *t, enum mob_status status)
{
    if (t->marks & MARK_CALL)
        sched_actor_append(s, t); /* where a call is looked for when it goes */
    sched_set_state(s, t, MOB_SCHED_WAITING);
    sched_fail(s, t, status);
}

static void enter(struct mob_sched *s, struct mob_sched_task *t, const struct mob_sched_submit *in)
{
    const struct mob_sched_task *parent = in->parent;
    bool running_parent = parent && runs_now(s, parent);
    if (running_parent && (in->parent->waits == 0 || parent->marks & MARK_KIDS)) {
        in->parent->marks |= MARK_KIDS;
        if (t->id.index >= parent->waits)
            in->parent->waits = t->id.index + 1;
    }
    if (t->marks & MARK_CALL)
        sched_actor_append(s, t);
    if (t->extra) {
        bool delayed = ((struct sched_extra *)pool_at(&s->extras, t->extra))->wake != 0;
        sched_extra_schedule(s, t);
        if (delayed) {
            sched_set_state(s, t, MOB_SCHED_DELAYED);
            return;
        }
    }
    if (t->waits) {
        sched_set_state(s, t, MOB_SCHED_WAITING);
        sched_follow_at_submit(s, t);
        return;
    }
    s->late_family = 0;
    if (running_parent && !(t->marks & MARK_CALL)) {
        sched_set_state(s, t, MOB_SCHED_READY);
        sched_queue_push_child(s, t, parent);
    } else {
        sched_become_ready(s, t);
    }
    s->late_family = 0;
}

enum mob_status mob_sched_submit(
    struct mob_sched *s, struct mob_sched_task *t, const struct mob_sched_submit *in, int64_t now)
{
    MOB_ASSERT(t->state == MOB_SCHED_NEW);
    s->now = now;
    t->id = in->id;
    t->flags = in->flags;
    t->marks = in->parent ? MARK_NESTED : 0;
    t->retries_left = (int16_t)(in->max_retries < 0 ? -1
            : in->max_retries > INT16_MAX           ? INT16_MAX
                                                    : in->max_retries);
    t->worker = SCHED_NIL16;
    enum mob_status status = take_names(s, t, in);
    if (status)
        return status;
    status = take_times(s, t, in, now);
    if (status)
        return status;
    if (in->missing_count)
        status = sched_wait_add(s, t, in->missing, in->missing_count);
    if (!status && !sched_ids_add(s, t)) {
        sched_wait_drop(s, t);
        status = MOB_NO_MEMORY;
    }
    if (status) {
        if (t->extra)
            sched_extra_free(s, t);
        return status;
    }
    if (!(t->marks & MARK_CALL))
        sched_lane_hold(s, t->lane);
    if (in->parent && in->parent->flags & FLAG_CANCEL_KIN && !(in->flags & MOB_SCHED_REPEATS))
        fail_at_submit(s, t, MOB_CANCELLED);
    else if (forwards(s, t))
        fail_at_submit(s, t, MOB_STATUS_COUNT); /* stands for FORWARD */
    else
        enter(s, t, in);
    return MOB_OK;
}

/* ---- ends ---- */

/* Another attempt, as if it had just been submitted, after its back-off. */
static bool run_again(struct mob_sched *s, struct mob_sched_task *t, int64_t now)
{
    if (t->marks & MARK_STOPPING)
        return false;
    if (t->marks & MARK_CALL && s->actors[t->lane].closed)
        return false;
    s->retried++;
    if (!(t->marks & MARK_KIDS))
        sched_wait_drop(s, t);
    t->marks &= (uint8_t)~MARK_KIDS;
    t->waits = 0;
    t->worker = SCHED_NIL16;
    count_failure(t, t->failures + 1u);
    sched_set_state(s, t, MOB_SCHED_DELAYED);
    if (t->marks & MARK_CALL)
        sched_actor_put_back(s, t);
    struct sched_extra *e = sched_extra_of(s, t);
    if (!e) { /* no memory: at once */
        sched_become_ready(s, t);
        return true;
    }
    e->wake = now + backoff_ns(s, e, t->failures);
    sched_extra_schedule(s, t);
    return true;
}

bool sched_retry(struct mob_sched *s, struct mob_sched_task *t, bool pays, int64_t now)
{
    if ((pays && t->retries_left == 0) || !run_again(s, t, now))
        return false;
    if (t->retries_left > 0)
        t->retries_left -= pays;
    return true;
}

/* A record lies cold from its submission until a worker has room, and again until it has run: thousands of
 * others come between. So each end of a task fetches one that ends soon, and one that is dispatched soon. */
static void fetch_next(struct mob_sched *s, const struct sched_worker *w, const struct mob_sched_task *ended)
{
    if (worker_load(w) > FETCH_AHEAD)
        sched_fetch(s, worker_place(w, w->head + FETCH_AHEAD)->task);
    mob_sched_fetch_queued(s, ended);
}

void mob_sched_fetch_queued(struct mob_sched *s, const struct mob_sched_task *ended)
{
    if (ended->marks & MARK_CALL)
        return;
    struct sched_lane *l = &s->lanes[ended->lane];
    if (l->count == 0)
        return;
    uint32_t next = l->fetched ? task_at(s, l->fetched)->next : sched_queue_peek(s, l)->handle;
    if (next == 0)
        return;
    sched_fetch(s, next);
    l->fetched = next;
}

static void leave_worker(
    struct mob_sched *s, struct mob_sched_task *t, enum mob_status status, int64_t run_ns, int64_t now)
{
    MOB_ASSERT(t->state == MOB_SCHED_DISPATCHED || t->state == MOB_SCHED_BLOCKED);
    s->now = now;
    s->late_family = 0;
    if (t->state == MOB_SCHED_BLOCKED)
        mob_sched_unblocked(s, t, now);
    if (run_ns >= 0)
        sched_measure(s, t->function, run_ns);
    struct sched_worker *w = worker_at(s, t->worker);
    w->ended = status ? 0 : t->function;
    fetch_next(s, w, t);
    sched_worker_remove(s, t, now, status == MOB_OK && t->flags & MOB_SCHED_ACTOR_CREATE);
    s->finished++;
}

static enum mob_sched_after end(struct mob_sched *s, struct mob_sched_task *t)
{
    sched_retire(s, t);
    sched_ids_remove(s, t);
    return MOB_SCHED_FINAL;
}

enum mob_sched_after mob_sched_finished(
    struct mob_sched *s, struct mob_sched_task *t, enum mob_status status, int64_t run_ns, int64_t now)
{
    leave_worker(s, t, status, run_ns, now);
    bool again = status == MOB_WORKER_DIED || (status && t->flags & MOB_SCHED_RETRY_ON_ERROR);
    return again && sched_retry(s, t, true, now) ? MOB_SCHED_RETRY : end(s, t);
}

enum mob_sched_after mob_sched_diverged(
    struct mob_sched *s, struct mob_sched_task *t, int64_t run_ns, int64_t now)
{
    leave_worker(s, t, MOB_REPLAY_DIVERGED, run_ns, now);
    return run_again(s, t, now) ? MOB_SCHED_RETRY : end(s, t);
}

enum mob_status mob_sched_drop(struct mob_sched *s, struct mob_sched_task *t)
{
    if (t->state == MOB_SCHED_DISPATCHED || t->state == MOB_SCHED_BLOCKED)
        return MOB_CONFLICT;
    sched_retire(s, t);
    sched_ids_remove(s, t);
    return MOB_OK;
}
