/* Lineage that is older than the retention goes, and with it jobs that have ended. */
#include "common/base/log.h"
#include "runtime/node/actor_needs.h"
#include "runtime/node/actor_refs.h"
#include "runtime/node/checkpoint_sweep.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"
#include "runtime/node/put_sweep.h"
#include "runtime/node/value_cache.h"
#include "runtime/node/workers.h"

static void on_dropped(void *arg, const struct mob_gcs_answer *answer)
{
    if (answer->status == MOB_OK && answer->number > 0)
        checkpoint_sweep_due(arg);
}

static void drop_old(struct node *node, struct mob_job_id job, bool finished_only, int64_t before)
{
    enum mob_status status = mob_gcs_job_drop(node->gcs, job, finished_only, before, on_dropped, node);
    if (status != MOB_OK)
        MOB_LOG_WARN("jobs", "not_aged", "status=%s", mob_status_code(status));
}

/* Whether nobody needs it or can ask for it: its number in the scheduler is given back then. */
static bool forgettable(struct node *node, struct node_job *job)
{
    if (!job->aged || job->ageing || job->state != JOB_ENDED || job->standing || job->sessions > 0 ||
        node_actor_needing(node, job))
        return false;
    if (job->users > 0)
        node_workers_forget_job(node, job);
    if (job->users > 0)
        return false;
    if (job->sched_job == JOB_NO_NUMBER)
        return true;
    if (!mob_sched_job_idle(node->sched, job->sched_job))
        return false;
    mob_sched_job_close(node->sched, job->sched_job);
    job->sched_job = JOB_NO_NUMBER;
    return true;
}

/* Deleted, or it ended before this: all that are so come before the others. */
static bool is_old(const struct node_job *job, int64_t before)
{
    return job->deleted || job->ended_wall_ns < before;
}

/* Jobs that ended, and whose lineage has been dropped since. */
static void forget_aged(struct node *node, int64_t before)
{
    for (struct node_job *job = node->ended_jobs.first, *next; job && is_old(job, before); job = next) {
        next = job->next;
        if (job->dropped)
            checkpoint_sweep_due(node);
        job->dropped = false;
        if (forgettable(node, job))
            node_job_forget(node, job);
        else
            job->aged &= job->deleted; /* what came meanwhile is dropped in its turn */
    }
}

/* A page of an ended job's lineage was dropped; `next`: there is more, for the next turn. It may have run
 * again meanwhile. */
static void on_aged(void *arg, const struct mob_gcs_answer *answer)
{
    struct node_job *job = arg;
    job->ageing = false;
    job->dropped |= answer->status == MOB_OK && answer->number > 0;
    job->aged =
        answer->status == MOB_OK && answer->next == 0 && job->ended_wall_ns == job->ageing_end_wall_ns;
}

static void age_ended(struct node *node, struct node_job *job)
{
    if (job->ageing)
        return;
    enum mob_status status = mob_gcs_job_drop(node->gcs, job->id, false, INT64_MAX, on_aged, job);
    job->ageing = status == MOB_OK;
    job->ageing_end_wall_ns = job->ended_wall_ns;
    if (status != MOB_OK)
        MOB_LOG_WARN("jobs", "not_aged", "status=%s", mob_status_code(status));
}

/* Of an ended job all goes, of a standing one what is finished and old; of both what living actors need
 * stays.
 */
static void age(struct node *node, struct node_job *job, int64_t before)
{
    bool ended = job->state == JOB_ENDED;
    int64_t needed = node_actors_need_since(node, job);
    value_cache_clear(node->values);
    known_clear(node);
    if (ended && needed == INT64_MAX)
        age_ended(node, job);
    else
        drop_old(node, job->id, true, ended || needed < before ? needed : before);
}

/* What aged out is a page at most; the next turn takes the next. */
static void age_all(struct node *node)
{
    int64_t before = mob_wall_now() - (int64_t)node->options.retention_s * MOB_SEC;
    forget_aged(node, before);
    node_puts_age(node, before);
    for (struct node_job *job = node->jobs.first; job; job = job->next)
        if (job->standing && !job->deleted)
            age(node, job, before);
    for (struct node_job *job = node->ended_jobs.first; job && is_old(job, before); job = job->next)
        if (!job->deleted && job->ended_wall_ns > 0)
            age(node, job, before);
    drop_old(node, mob_job_system(), true, before);
}

/* Who is not known to need nothing may need it: then the next turn takes it. */
static void on_settled(void *arg, enum mob_status status)
{
    if (status == MOB_OK)
        age_all(arg);
}

static void on_dropped_waiter(void *arg)
{
    (void)arg;
}

void node_jobs_age(struct node *node)
{
    if (node->now_ns < node->next_age_ns)
        return;
    int64_t retention_ns = (int64_t)node->options.retention_s * MOB_SEC;
    int64_t every_ns = retention_ns / 2 < MOB_SEC ? MOB_SEC : retention_ns / 2;
    node->next_age_ns = node->now_ns + (every_ns < NODE_AGE_EVERY_NS ? every_ns : NODE_AGE_EVERY_NS);
    if (actor_refs_settle(node, on_settled, on_dropped_waiter, node))
        age_all(node);
}
