#include "runtime/node/actor_needs.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/actors.h"
#include "runtime/node/jobs.h"
#include "runtime/node/lineage_log.h"

enum { REFERRED_MAX = 16 }; /* of one job and actor */

int64_t node_needed_since(int64_t mono_ns)
{
    return mono_ns + mob_wall_minus_mono() - 2 * LOG_CLOCK_DRIFT_NS;
}

static bool same_job(struct mob_job_id a, struct mob_job_id b)
{
    return mob_stream_eq(a.root, b.root);
}

static bool calls_of(const struct actor_caller *caller, struct mob_job_id job)
{
    return !caller->refers && same_job(caller->job, job);
}

static struct actor_caller *caller_of(struct node_actor *actor, struct mob_job_id job)
{
    if (actor->caller_at < actor->caller_count && calls_of(&actor->callers[actor->caller_at], job))
        return &actor->callers[actor->caller_at]; /* mostly that of the call before */
    for (uint32_t i = 0; i < actor->caller_count; i++)
        if (calls_of(&actor->callers[i], job)) {
            actor->caller_at = i;
            return &actor->callers[i];
        }
    return NULL;
}

static bool covered(const struct node_actor *actor, const struct actor_caller *caller)
{
    return actor->life.has_checkpoint && caller->newest < actor->life.checkpoint;
}

/* The place of one that no replay needs any more, or a new one. */
static struct actor_caller *add_caller(struct node_actor *actor)
{
    for (uint32_t i = 0; i < actor->caller_count; i++)
        if (covered(actor, &actor->callers[i]))
            return &actor->callers[i];
    if (actor->caller_count == actor->caller_capacity) {
        actor->caller_capacity = actor->caller_capacity ? 2 * actor->caller_capacity : 4;
        actor->callers = realloc(actor->callers, actor->caller_capacity * sizeof *actor->callers);
        MOB_ASSERT(actor->callers);
    }
    return &actor->callers[actor->caller_count++];
}

void node_actor_called(
    struct node_actor *actor, struct mob_job_id job, uint64_t position, int64_t submitted_ns)
{
    struct actor_caller *caller = caller_of(actor, job);
    if (caller && !covered(actor, caller)) {
        if (position > caller->newest)
            caller->newest = position;
        return;
    }
    if (!caller)
        caller = add_caller(actor);
    int64_t since = submitted_ns ? node_needed_since(submitted_ns) : 0;
    *caller = (struct actor_caller){.job = job, .newest = position, .since_wall_ns = since};
}

/* One for each checkpoint that came between, so that what is old goes when one covers it; of too many that
 * are not covered the last takes the rest. */
static struct actor_caller *referred_of(const struct node_actor *actor, struct mob_job_id job)
{
    struct actor_caller *last = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < actor->caller_count; i++) {
        struct actor_caller *caller = &actor->callers[i];
        if (!caller->refers || !same_job(caller->job, job) || covered(actor, caller))
            continue;
        count++;
        last = !last || caller->opened > last->opened ? caller : last;
    }
    return last && (last->opened == actor->life.checkpoint || count >= REFERRED_MAX) ? last : NULL;
}

void node_actor_refers(
    struct node_actor *actor, struct mob_job_id job, uint64_t position, int64_t since_wall_ns)
{
    if (actor->life.has_checkpoint && position < actor->life.checkpoint)
        return;
    struct actor_caller *caller = referred_of(actor, job);
    if (!caller) {
        caller = add_caller(actor);
        *caller = (struct actor_caller){.job = job,
            .refers = true,
            .newest = position,
            .since_wall_ns = since_wall_ns,
            .opened = actor->life.checkpoint};
    }
    caller->newest = position > caller->newest ? position : caller->newest;
    caller->since_wall_ns = since_wall_ns < caller->since_wall_ns ? since_wall_ns : caller->since_wall_ns;
}

static bool lives(const struct node_actor *actor)
{
    return actor->life.state != MOB_ACTOR_DEAD;
}

/* Since when this actor needs lineage of the job. */
static int64_t need_since(const struct node_actor *actor, const struct node_job *job)
{
    int64_t since = INT64_MAX;
    if (actor->recovering)
        return 0; /* who called it is being read */
    if (actor->job == job)
        since = actor->needed_since_wall_ns;
    for (uint32_t i = 0; i < actor->caller_count; i++) {
        const struct actor_caller *caller = &actor->callers[i];
        if (!same_job(caller->job, job->id) || covered(actor, caller))
            continue;
        bool behind = caller->since_wall_ns > actor->needed_since_wall_ns;
        int64_t from = behind || caller->refers ? caller->since_wall_ns : actor->needed_since_wall_ns;
        since = from < since ? from : since;
    }
    return since;
}

int64_t node_actors_need_since(const struct node *node, const struct node_job *job)
{
    int64_t since = INT64_MAX;
    for (const struct node_actor *a = node_actor_next(node, NULL); a; a = node_actor_next(node, a)) {
        int64_t need = lives(a) ? need_since(a, job) : INT64_MAX;
        since = need < since ? need : since;
    }
    return since;
}

const struct node_actor *node_actor_needing(const struct node *node, const struct node_job *job)
{
    for (const struct node_actor *a = node_actor_next(node, NULL); a; a = node_actor_next(node, a))
        if (lives(a) && (a->job == job || need_since(a, job) != INT64_MAX))
            return a;
    return NULL;
}
