/* Taking back what a worker holds and has not begun.
 *
 * Batches rest on estimates. When the first task of one runs for much longer, those behind it would wait for
 * it though they could run elsewhere, or be told that they are cancelled. So the node asks how far the worker
 * has got (TAKE_BACK), and the others go back to the front of their queues, as when it blocks. Whether
 * another worker is free just now does not matter: who waits in a queue is given to whoever becomes free
 * first, and a worker whose task lasted 10 ms can wait for the next one for some microseconds.
 */
#include "runtime/sched/local_inner.h"

void sched_piled_add(struct mob_sched *s, uint16_t worker)
{
    struct sched_worker *w = worker_at(s, worker);
    int64_t due = w->since + s->options.take_back_ns;
    s->piled_due = s->piled == SCHED_NIL16 || due < s->piled_due ? due : s->piled_due;
    if (w->piled)
        return;
    w->piled = true;
    w->piled_next = s->piled;
    s->piled = worker;
}

void sched_hurry(struct mob_sched *s, uint16_t worker)
{
    worker_at(s, worker)->hurry = true;
    s->piled_due = s->now;
}

static bool may_be_asked(const struct sched_worker *w)
{
    return worker_load(w) > 1 && (w->state == WORKER_BUSY || w->state == WORKER_ACTOR);
}

/* An actor's calls have nowhere else to go. */
static int64_t due_of(const struct mob_sched *s, const struct sched_worker *w)
{
    if (!may_be_asked(w) || (w->state == WORKER_ACTOR && !w->hurry))
        return MOB_FOREVER_NS;
    if (w->hurry)
        return 0;
    return (w->asked > w->since ? w->asked : w->since) + s->options.take_back_ns;
}

/* Those that have nothing behind the first leave the list here, and come again with the next task. */
bool sched_next_take_back(struct mob_sched *s, int64_t now, struct mob_decision *d)
{
    int64_t next = MOB_FOREVER_NS;
    for (uint16_t *link = &s->piled; *link != SCHED_NIL16;) {
        uint16_t worker = *link;
        struct sched_worker *w = worker_at(s, worker);
        if (worker_load(w) <= 1) {
            w->piled = w->hurry = false;
            *link = w->piled_next;
            continue;
        }
        int64_t due = due_of(s, w);
        if (due <= now) {
            w->hurry = false;
            w->asked = now;
            d->kind = MOB_DECIDE_TAKE_BACK;
            d->worker = worker;
            d->runtime = w->runtime;
            return true; /* piled_due stays: the rest is looked at next */
        }
        next = due < next ? due : next;
        link = &w->piled_next;
    }
    s->piled_due = next;
    return false;
}

uint32_t mob_sched_take_back(struct mob_sched *s, uint16_t worker, uint32_t begun, int64_t now)
{
    struct sched_worker *w = worker_at(s, worker);
    MOB_ASSERT(worker < MOB_SCHED_WORKERS_MAX);
    if (!may_be_asked(w))
        return 0;
    s->now = now;
    s->late_family = 0;
    uint32_t count = sched_worker_revoke(s, worker, begun > 0 ? begun : 1);
    if (w->state == WORKER_ACTOR)
        sched_actor_mark(s, w->actor - 1);
    else
        sched_hungry_update(s, worker);
    s->dirty = true;
    return count;
}

uint32_t mob_sched_told(const struct mob_sched *s, uint16_t worker)
{
    const struct sched_worker *w = worker_at(s, worker);
    return may_be_asked(w) ? w->told - w->head : 0;
}
