/* Choosing: which lane may give tasks to which worker, and mob_sched_next.
 *
 * Two ages keep big demands from starving behind small ones. A lane that has lacked resources for
 * SCHED_DRAIN_NS stops the refilling of busy workers, so that what they hold comes back. One that has lacked
 * them for SCHED_STARVE_NS keeps what it lacks for itself: no other lane takes those kinds, unless the sum of
 * what is stuck (held by actors, or by tasks that are blocked) means that waiting would not help. It keeps
 * them in rounds, and lets the others go on in between: what it waits for may be held by a task that never
 * ends, or by one that asks again and again for what those others would make.
 */
#include "runtime/sched/local_inner.h"

#define SCHED_DRAIN_NS (5 * MOB_MS)
/* The first round is as long as SCHED_STARVE_NS, each other one twice the one before, up to this; what lies
 * between is as long as the round. Tasks of up to a minute cannot starve a big demand. */
#define SCHED_KEEP_NS_MAX (64 * MOB_SEC)

enum choice { CHOICE_NONE, CHOICE_REFILL, CHOICE_FRESH };

/* Kinds that the lane lacks now; *hopeless_out: waiting for them does not help. */
static uint64_t lacking(const struct mob_sched *s, const struct sched_class *c, bool *hopeless_out)
{
    uint64_t kinds = 0;
    *hopeless_out = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct sched_kind *k = &s->kinds[c->demands[i].kind];
        if (k->total - k->taken < c->demands[i].amount)
            kinds |= 1ull << c->demands[i].kind;
        if (k->total - k->stuck < c->demands[i].amount)
            *hopeless_out = true;
    }
    return kinds;
}

/* Can its tasks be queued behind others? Those that last, or that make actors, wait for a worker of their
 * own. */
static bool joins_batches(const struct mob_sched *s, const struct sched_lane *l)
{
    return !l->create && sched_estimate(s, sched_queue_peek(s, l)->function) <= s->options.batch_ns_max / 2;
}

/* How much longer a lane that has lacked resources for `age` keeps them in this round; 0: it does not now. */
static int64_t keeps_for(int64_t age)
{
    int64_t round = SCHED_STARVE_NS, at = age - SCHED_STARVE_NS;
    for (; at >= 2 * round && round < SCHED_KEEP_NS_MAX; round *= 2)
        at -= 2 * round;
    at %= 2 * round;
    return at >= 0 && at < round ? round - at : 0;
}

/* Look over all lanes with work: who has been passed over for too long? */
static void survey(struct mob_sched *s, int64_t now)
{
    s->reserved = 0;
    s->reserved_until = MOB_FOREVER_NS;
    s->no_refill = false;
    for (uint16_t job = s->active; job != SCHED_NIL16; job = s->jobs[job].next)
        for (uint16_t i = s->jobs[job].first; i != SCHED_NIL16; i = s->lanes[i].next) {
            struct sched_lane *l = &s->lanes[i];
            const struct sched_class *c = &s->classes[l->class_id];
            bool hopeless;
            uint64_t kinds = lacking(s, c, &hopeless);
            if (!kinds || hopeless) {
                l->passed_over = 0;
                continue;
            }
            if (!l->passed_over)
                l->passed_over = now;
            if (now - l->passed_over >= SCHED_DRAIN_NS && (c->hungry == SCHED_NIL16 || !joins_batches(s, l)))
                s->no_refill = true;
            int64_t left = keeps_for(now - l->passed_over);
            if (!left)
                continue;
            s->reserved |= kinds;
            if (now + left < s->reserved_until)
                s->reserved_until = now + left;
        }
}

/* A hungry worker of the class that is not stuck in a long task. */
static uint16_t hungry_worker(struct mob_sched *s, struct sched_class *c)
{
    while (c->hungry != SCHED_NIL16) {
        uint16_t worker = c->hungry;
        if (!worker_lags(s, worker_at(s, worker)))
            return worker;
        sched_hungry_remove(s, worker); /* until it finishes something */
    }
    return SCHED_NIL16;
}

static void want_spawn(
    struct mob_sched *s, const struct sched_lane *l, const struct sched_class *c, uint64_t work)
{
    uint64_t count = work / (uint64_t)s->options.batch_ns_max + 1;
    uint32_t fit = sched_class_fit_count(s, c);
    count = count < l->count ? count : l->count;
    count = count < fit ? count : fit;
    if (count > s->spawn_want[c->runtime])
        s->spawn_want[c->runtime] = (uint32_t)count;
}

static void want_spawn_ahead(struct mob_sched *s, const struct sched_lane *l, const struct sched_class *c)
{
    uint32_t count = l->count < SCHED_SPAWN_AHEAD ? l->count : SCHED_SPAWN_AHEAD,
             idle = s->runtimes[c->runtime].idle;
    if (count > idle && count - idle > s->spawn_want[c->runtime])
        s->spawn_want[c->runtime] = count - idle;
}

static enum choice choose(struct mob_sched *s, const struct sched_lane *l)
{
    struct sched_class *c = &s->classes[l->class_id];
    if (c->mask & s->reserved && !(l->passed_over && s->now - l->passed_over >= SCHED_STARVE_NS))
        return CHOICE_NONE;
    uint32_t estimate = sched_estimate(s, sched_queue_peek(s, l)->function);
    uint64_t work = (uint64_t)estimate * l->count;
    bool fits = sched_class_fits(s, c);
    bool idle = s->runtimes[c->runtime].idle > 0;
    bool cpu_owed = c->cpu && s->kinds[MOB_SCHED_CPU].taken > s->kinds[MOB_SCHED_CPU].total;
    bool worth_a_wake = work >= (uint64_t)s->options.wake_worth_ns;
    if (!s->no_refill && !cpu_owed && joins_batches(s, l) && !(fits && idle && worth_a_wake) &&
        hungry_worker(s, c) != SCHED_NIL16)
        return CHOICE_REFILL;
    if (l->create && (fits || s->creating_count))
        want_spawn_ahead(s, l, c);
    if (!fits)
        return CHOICE_NONE;
    if (idle)
        return CHOICE_FRESH;
    if (!l->create)
        want_spawn(s, l, c, work);
    return CHOICE_NONE;
}

/* How many tasks of this lane one worker should get. */
static uint32_t share(
    const struct mob_sched *s, const struct sched_lane *l, uint32_t estimate, enum choice choice)
{
    if (l->create)
        return 1;
    const struct sched_class *c = &s->classes[l->class_id];
    /* Those that are idle, and those that could be started. */
    uint32_t workers = sched_class_fit_count(s, c) + (choice == CHOICE_REFILL ? c->busy : 0);
    uint32_t part = workers > 1 ? (l->count + workers - 1) / workers : l->count;
    uint32_t worth = (uint32_t)(s->options.wake_worth_ns / (estimate ? estimate : 1));
    part = part > worth ? part : worth;
    return part ? part : 1;
}

static void fill(struct mob_sched *s, uint16_t lane, enum choice choice)
{
    struct sched_lane *l = &s->lanes[lane];
    struct sched_class *c = &s->classes[l->class_id];
    uint32_t estimate = sched_estimate(s, sched_queue_peek(s, l)->function);
    uint32_t limit = share(s, l, estimate, choice), given = 0;
    uint16_t worker = choice == CHOICE_REFILL ? c->hungry : s->runtimes[c->runtime].idle_head;
    if (choice == CHOICE_FRESH)
        sched_worker_take(s, worker, l);
    struct sched_worker *w = worker_at(s, worker);
    while (given < limit && l->count && worker_load(w) < MOB_SCHED_BATCH_MAX) {
        uint32_t many = sched_queue_give(s, lane, worker, limit - given);
        given += many;
        if (many)
            continue;
        struct mob_sched_task *t = sched_queue_peek(s, l);
        if (worker_load(w) && w->estimate_sum + sched_estimate(s, t->function) > s->options.batch_ns_max)
            break;
        sched_queue_remove(s, t);
        sched_worker_append(s, worker, t);
        given++;
    }
    l->passed_over = 0;
    w->follow_run = 0;
    l->fetched = 0;
    struct sched_job *j = &s->jobs[l->job];
    if (s->virtual_pass < j->pass)
        s->virtual_pass = j->pass;
    j->pass += (uint64_t)j->stride * given;
    if (!l->create)
        sched_follow_scan(s, worker);
    sched_hungry_update(s, worker);
    sched_lane_rotate(s, lane);
    if (!given) /* no room for even one: ask again when it has finished something */
        sched_hungry_remove(s, worker);
}

struct pick {
    uint16_t lane; /* SCHED_NIL16 = none */
    uint16_t held; /* roots whose turn goes to this lane, which is of a tree; SCHED_NIL16 = none */
    enum choice choice;
};

/* Each root that starts now may open one more tree. With many of them at work, roots wait for a round, for
 * two, for four, ...: programs are finished before too many are begun, and still everyone's turn comes. */
static bool held_back(const struct mob_sched *s, const struct sched_lane *l)
{
    uint32_t trees = s->jobs[l->job].trees;
    if (l->tree || trees < MOB_SCHED_TREES_AT_ONCE)
        return false;
    uint32_t more = trees - MOB_SCHED_TREES_AT_ONCE;
    return l->held_rounds < 1u << (more < SCHED_HOLD_SHIFT_MAX ? more : SCHED_HOLD_SHIFT_MAX);
}

/* The lane of a job whose turn it is, of those that can get a worker. */
static struct pick pick_lane(struct mob_sched *s, const struct sched_job *j)
{
    struct pick held = {SCHED_NIL16, SCHED_NIL16, CHOICE_NONE};
    for (uint16_t lane = j->first; lane != SCHED_NIL16; lane = s->lanes[lane].next) {
        const struct sched_lane *l = &s->lanes[lane];
        bool waits = held.lane != SCHED_NIL16;
        if (waits && s->lanes[held.lane].priority != l->priority)
            break; /* it waits for its equals, and for nobody below */
        enum choice choice = choose(s, l);
        if (choice == CHOICE_NONE || (waits && !l->tree))
            continue;
        if (!held_back(s, l))
            return (struct pick){lane, held.lane, choice};
        held = (struct pick){lane, SCHED_NIL16, choice};
    }
    return held;
}

/* One worker gets work; false: nobody can. */
static bool fill_one(struct mob_sched *s, int64_t now)
{
    memset(s->spawn_want, 0, sizeof s->spawn_want);
    survey(s, now);
    struct pick best = {SCHED_NIL16, SCHED_NIL16, CHOICE_NONE};
    uint64_t best_pass = UINT64_MAX;
    for (uint16_t job = s->active; job != SCHED_NIL16; job = s->jobs[job].next) {
        if (s->jobs[job].pass >= best_pass)
            continue;
        struct pick pick = pick_lane(s, &s->jobs[job]);
        if (pick.lane == SCHED_NIL16)
            continue;
        best = pick;
        best_pass = s->jobs[job].pass;
    }
    if (best.lane == SCHED_NIL16)
        return false;
    s->lanes[best.lane].held_rounds = 0;
    fill(s, best.lane, best.choice);
    if (best.held != SCHED_NIL16) {
        s->lanes[best.held].held_rounds++;
        sched_lane_rotate(s, best.held);
    }
    return true;
}

static void sched_pick(struct mob_sched *s, int64_t now)
{
    sched_actors_release(s);
    while (s->following != SCHED_NIL16) {
        uint16_t worker = s->following;
        struct sched_worker *w = worker_at(s, worker);
        s->following = w->follow_next;
        sched_follow_scan(s, worker);
        w->following = false;
    }
    s->dirty |= now >= s->reserved_until;
    while (s->dirty)
        s->dirty = fill_one(s, now);
}

/* ---- decisions ---- */

static bool next_note(struct mob_sched *s, struct mob_decision *d)
{
    while (s->note_count) {
        struct sched_note n = s->notes[s->note_head];
        s->note_head = (s->note_head + 1) & (s->note_capacity - 1);
        s->note_count--;
        bool about_task =
            n.kind == MOB_DECIDE_STOP || n.kind == MOB_DECIDE_KILL || n.kind == MOB_DECIDE_RETRY;
        if (!n.kind || (about_task && !n.task))
            continue; /* that worker or task has ended meanwhile */
        d->task = n.task ? task_at(s, n.task) : NULL;
        /* It was taken back from that worker meanwhile. */
        if ((n.kind == MOB_DECIDE_STOP || n.kind == MOB_DECIDE_KILL) && d->task->worker != n.worker)
            continue;
        d->kind = n.kind;
        d->status = n.status;
        d->worker = n.worker;
        d->actor = n.actor;
        d->unpaid = n.unpaid;
        return true;
    }
    return false;
}

static bool next_failed(struct mob_sched *s, struct mob_decision *d)
{
    if (!s->failed_head)
        return false;
    struct mob_sched_task *t = task_at(s, s->failed_head);
    s->failed_head = t->next;
    if (!s->failed_head)
        s->failed_tail = 0;
    sched_ids_remove(s, t);
    d->task = t;
    d->kind = t->worker == MOB_STATUS_COUNT ? MOB_DECIDE_FORWARD : MOB_DECIDE_FAIL;
    d->status = t->worker == MOB_STATUS_COUNT ? MOB_OK : (enum mob_status)t->worker;
    t->worker = SCHED_NIL16;
    return true;
}

static bool next_dispatch(struct mob_sched *s, struct mob_decision *d)
{
    while (s->untold != SCHED_NIL16) {
        uint16_t worker = s->untold;
        struct sched_worker *w = worker_at(s, worker);
        if (w->state == WORKER_NONE || w->told == w->tail || w->no_room) {
            s->untold = w->untold_next;
            w->untold = false;
            continue;
        }
        d->kind = MOB_DECIDE_DISPATCH;
        d->task = task_at(s, worker_place(w, w->told++)->task);
        d->worker = worker;
        d->runtime = w->runtime;
        d->last = w->told == w->tail;
        return true;
    }
    return false;
}

uint32_t mob_sched_next_of(
    struct mob_sched *s, uint16_t worker, struct mob_sched_task **tasks_out, uint32_t max)
{
    struct sched_worker *w = worker_at(s, worker);
    uint32_t count = 0;
    if (s->untold != worker || w->no_room || s->note_count || s->failed_head || w->state == WORKER_NONE)
        return 0;
    for (; count < max && w->told != w->tail; count++)
        tasks_out[count] = task_at(s, worker_place(w, w->told++)->task);
    return count;
}

static bool next_spawn(struct mob_sched *s, int64_t now, struct mob_decision *d)
{
    for (uint8_t i = 0; i < MOB_SCHED_RUNTIMES_MAX; i++) {
        struct sched_runtime *r = &s->runtimes[i];
        if (s->spawn_want[i] <= r->starting || now < r->spawn_after)
            continue;
        uint32_t count = s->spawn_want[i] - r->starting;
        uint32_t alive = s->worker_count - s->leaving_count, starting = 0;
        for (uint32_t k = 0; k < MOB_SCHED_RUNTIMES_MAX; k++)
            starting += s->runtimes[k].starting;
        uint32_t running = alive - s->blocked_count - s->actor_worker_count + starting;
        uint32_t room = running < s->options.running_max ? s->options.running_max - running : 0;
        uint32_t slots = MOB_SCHED_WORKERS_MAX - 1 - s->worker_count;
        room = room < slots ? room : slots;
        count = count < room ? count : room;
        if (!count)
            continue;
        r->starting += count;
        s->spawned += count;
        d->kind = MOB_DECIDE_SPAWN;
        d->count = count;
        d->runtime = i;
        return true;
    }
    return false;
}

static bool next_reap(struct mob_sched *s, int64_t now, struct mob_decision *d)
{
    for (uint8_t i = 0; i < MOB_SCHED_RUNTIMES_MAX; i++) {
        struct sched_runtime *r = &s->runtimes[i];
        if (r->idle <= s->options.idle_keep)
            continue;
        if (s->reap_now > 0)
            s->reap_now--;
        else if (now - worker_at(s, r->idle_tail)->since < s->options.reap_after_ns)
            continue;
        d->kind = MOB_DECIDE_REAP;
        d->worker = r->idle_tail;
        d->runtime = i;
        sched_idle_remove(s, d->worker);
        worker_at(s, d->worker)->state = WORKER_LEAVING;
        s->leaving_count++;
        return true;
    }
    return false;
}

bool mob_sched_next(struct mob_sched *s, int64_t now, struct mob_decision *d)
{
    s->now = now;
    *d = (struct mob_decision){0};
    if (s->heap_count)
        sched_timers_run(s, now);
    if (s->piled != SCHED_NIL16 && now >= s->piled_due && sched_next_take_back(s, now, d))
        return true;
    /* Ends before new work, so that the node's records are free for it; dispatches in worker order, one wake
     * each. */
    if (next_note(s, d) || next_failed(s, d) || next_dispatch(s, d))
        return true;
    sched_pick(s, now);
    return next_dispatch(s, d) || next_spawn(s, now, d) || next_reap(s, now, d);
}

int64_t mob_sched_next_timer(const struct mob_sched *s)
{
    int64_t when = MOB_FOREVER_NS;
    if (s->heap_count) {
        const struct sched_extra *e = pool_at(&s->extras, s->heap[0]);
        when = e->wake && (!e->deadline || e->wake < e->deadline) ? e->wake : e->deadline;
    }
    if (s->piled != SCHED_NIL16 && s->piled_due < when)
        when = s->piled_due;
    if (s->reserved_until < when)
        when = s->reserved_until;
    for (uint32_t i = 0; i < MOB_SCHED_RUNTIMES_MAX; i++) {
        const struct sched_runtime *r = &s->runtimes[i];
        if (r->idle > s->options.idle_keep) {
            int64_t reap =
                s->reap_now > 0 ? s->now : worker_at(s, r->idle_tail)->since + s->options.reap_after_ns;
            when = reap < when ? reap : when;
        }
        if (s->spawn_want[i] > r->starting && r->spawn_after < when && r->spawn_after > s->now)
            when = r->spawn_after;
    }
    return when;
}
