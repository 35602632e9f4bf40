/* What earlier incarnations of this node left: unfinished tasks run here, actors replay (GCS.md "Node logs
 * and the cut"). Runs before the node listens, so nobody is served from half of the state.
 */
#include <poll.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/wire/recover_row.h"
#include "gcs/client/client_sync.h"
#include "runtime/node/alias.h"
#include "runtime/node/directory.h"
#include "runtime/node/jobs.h"
#include "runtime/node/left_tasks.h"
#include "runtime/node/recovery.h"
#include "runtime/node/recovery_tidy.h"
#include "runtime/node/replay.h"
#include "runtime/node/submit.h"
#include "runtime/node/task.h"

enum {
    ANSWER_SECONDS_MAX = 120, /* of the control store; PostgreSQL is waited for as long as it takes */
    ALL_INCARNATIONS = 0,
    STEP_MS = 2,
    AGAIN_MS = 200,
    ABOVE_READS_MAX = 16384
};

/* Gives the answer only if it is a good one. */
static enum mob_status wait_for_page(
    struct node *node, struct mob_gcs_call *call, enum mob_status asked, struct mob_gcs_result **result_out)
{
    struct mob_gcs_result *result = NULL;
    int64_t deadline = mob_deadline_after(ANSWER_SECONDS_MAX * MOB_SEC);
    enum mob_status status = mob_gcs_call_wait(node->gcs, call, asked, deadline, &result);
    if (status == MOB_OK)
        *result_out = result;
    else
        mob_gcs_result_destroy(result);
    return status;
}

/* Some time is over, and nobody has told this node to end meanwhile. */
static enum mob_status rest(struct node *node)
{
    struct pollfd told = {node->signal_fd, POLLIN, 0};
    if (mob_node_life_over(node->life))
        return MOB_SEALED;
    return poll(&told, 1, AGAIN_MS) > 0 ? MOB_CANCELLED : MOB_OK;
}

/* What was flushed comes from PostgreSQL. A task that is not read is not known to be unfinished, so without
 * it nothing may run; and there is nobody who could do better than wait for it
 * (docs/adr/flush-unfinished.md). */
static enum mob_status wait_for_postgres(struct node *node)
{
    enum mob_status status = recovery_waits(node, true);
    return status == MOB_OK ? rest(node) : status;
}

/* Groups that are to be read whole, each once. */
struct group_list {
    struct mob_task_id *rows;
    uint32_t count, capacity;
};

static void want_group(struct left_tasks *left, struct group_list *list, struct mob_task_id group)
{
    if (!left_tasks_first_time(left, group))
        return;
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? list->capacity * 2 : MOB_GCS_GROUPS_MAX;
        list->rows = realloc(list->rows, list->capacity * sizeof *list->rows);
        MOB_ASSERT(list->rows);
    }
    list->rows[list->count++] = group;
}

static enum mob_status ask_page(struct node *node, const struct mob_task_id *groups, uint32_t count,
    uint64_t position, struct mob_gcs_call *call)
{
    struct mob_gcs_group_key keys[MOB_GCS_GROUPS_MAX];
    if (count == 1)
        return mob_gcs_group_blocks(
            node->gcs, groups->stream, groups->index, position, mob_gcs_call_done, call);
    for (uint32_t i = 0; i < count; i++)
        keys[i] = (struct mob_gcs_group_key){groups[i].stream, groups[i].index};
    return mob_gcs_groups_blocks(node->gcs, keys, count, position, mob_gcs_call_done, call);
}

/* One reading, in as many pages as it takes. */
static enum mob_status read_at_once(
    struct node *node, struct left_tasks *left, const struct mob_task_id *groups, uint32_t count)
{
    uint64_t position = 0;
    bool more = true;
    left->reading++;
    while (more) {
        struct mob_gcs_call *call = mob_gcs_call_create();
        struct mob_gcs_result *result = NULL;
        enum mob_status status = ask_page(node, groups, count, position, call);
        status = wait_for_page(node, call, status, &result);
        if (status == MOB_UNAVAILABLE && (status = wait_for_postgres(node)) == MOB_OK)
            continue; /* the same page again */
        if (status != MOB_OK)
            return status;
        const struct mob_gcs_answer *answer = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < answer->block_count; i++)
            left_tasks_note_groups(left, &answer->blocks[i], groups, count);
        position = answer->next;
        more = position != 0;
        mob_gcs_result_destroy(result);
    }
    return MOB_OK;
}

static enum mob_status read_some(
    struct node *node, struct left_tasks *left, const struct mob_task_id *groups, uint32_t count)
{
    enum mob_status status = MOB_OK;
    if (!left->singly)
        status = read_at_once(node, left, groups, count);
    left->singly |= status == MOB_INVALID && count > 1;
    if (left->singly)
        status = MOB_OK;
    for (uint32_t i = 0; i < count && left->singly && status == MOB_OK; i++)
        status = read_at_once(node, left, &groups[i], 1);
    return status;
}

/* A task with an Idempotency-Key is the only one of its group, so there may be as many groups as tasks: what
 * was flushed of them is asked for in few questions, each of which opens a row of PostgreSQL once. */
static enum mob_status read_wanted(struct node *node, struct left_tasks *left, struct group_list *list)
{
    enum mob_status status = MOB_OK;
    if (list->count > 0)
        qsort(list->rows, list->count, sizeof *list->rows, left_tasks_by_group);
    for (uint32_t at = 0, some; at < list->count && status == MOB_OK; at += some) {
        some = list->count - at < MOB_GCS_GROUPS_MAX ? list->count - at : MOB_GCS_GROUPS_MAX;
        status = read_some(node, left, list->rows + at, some);
    }
    list->count = 0;
    return status;
}

/* What is in the members is noted; groups of what was flushed are to be read. */
static enum mob_status read_unfinished(
    struct node *node, struct left_tasks *left, struct group_list *groups, uint64_t incarnation)
{
    uint64_t position = 0;
    do {
        struct mob_gcs_call *call = mob_gcs_call_create();
        struct mob_gcs_result *result = NULL;
        enum mob_status status =
            mob_gcs_unfinished(node->gcs, incarnation, position, mob_gcs_call_done, call);
        status = wait_for_page(node, call, status, &result);
        if (status != MOB_OK)
            return status == MOB_NOT_FOUND ? MOB_OK : status;
        const struct mob_gcs_answer *answer = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < answer->block_count; i++)
            left_tasks_note_block(left, &answer->blocks[i]);
        for (uint32_t i = 0; i < answer->group_count; i++) {
            struct mob_task_id group = {answer->groups[i].stream, answer->groups[i].group};
            want_group(left, groups, group);
        }
        position = answer->next;
        mob_gcs_result_destroy(result);
    } while (position != 0);
    return MOB_OK;
}

/* Earlier logs of this node are sealed, if the supervisor did not do it; those that may have left something
 * are noted. Out: the last of them, 0 = there is
 * none, and where it was cut. */
static enum mob_status seal_earlier(
    struct node *node, int64_t deadline, uint64_t *previous_out, uint64_t *cut_out)
{
    uint64_t after = 0;
    do {
        struct mob_gcs_call *call = mob_gcs_call_create();
        struct mob_gcs_result *result = NULL;
        enum mob_status status = mob_gcs_incarnations(node->gcs, after, mob_gcs_call_done, call);
        status = wait_for_page(node, call, status, &result);
        if (status != MOB_OK)
            return status;
        const struct mob_gcs_answer *answer = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < answer->incarnation_count && status == MOB_OK; i++) {
            const struct mob_gcs_incarnation *in = &answer->incarnations[i];
            uint64_t cut = in->blocks;
            if (!mob_recover_is_earlier(in->id, node->incarnation) ||
                strcmp(in->name, node->options.name) != 0)
                continue;
            if (in->state == MOB_GCS_LIVE)
                status = mob_gcs_log_seal_wait(node->gcs, in->id, deadline, &cut);
            if (in->state != MOB_GCS_RECOVERED)
                recovery_add(node, in->id);
            *previous_out = in->id; /* oldest first */
            *cut_out = cut;
        }
        after = answer->next;
        mob_gcs_result_destroy(result);
        if (status != MOB_OK)
            return status;
    } while (after != 0);
    return MOB_OK;
}

/* ---- what is unfinished for certain ----
 * The blocks of unfinished groups also hold specs of groups that are finished, whose completions are in other
 * blocks. So before anything runs, the group of each candidate is read whole. */

static enum mob_status read_groups(struct node *node, struct left_tasks *left, struct group_list *groups)
{
    for (uint32_t i = 0; i <= left->mask; i++)
        for (struct left_task *t = left->buckets[i]; t; t = t->next)
            if (t->spec && !t->finished)
                want_group(left, groups, left_tasks_group_of(t->id));
    return read_wanted(node, left, groups);
}

/* ---- what ended tasks became ----
 * A cancel finds what a task became by its tail call, and what is below it (cancel.c), also when nobody has
 * asked for its object since; and one of an ended task may have come whose walk did not end with the node. So
 * the tasks above unfinished ones are looked at: those that have ended are what a cancel would have to pass,
 * or is of. A look takes some 50 us. */

static bool is_root(struct node *node, const struct left_task *t, struct mob_task_id parent)
{
    const struct node_job *job = node_job_by_id(node, t->spec->job);
    return mob_task_id_is_zero(parent) || (job && mob_task_id_eq(job->root, parent));
}

static bool has_ended(const struct left_task *t)
{
    return t && t->spec && t->finished;
}

/* Is the group of the task above it to be read? Of one that has ended, too: by a block of it, and a cancel
 * may be in another. */
static bool above_is_wanted(struct node *node, const struct left_tasks *left, const struct left_task *t)
{
    const struct left_task *above = left_tasks_find(left, t->spec->parent);
    return !is_root(node, t, t->spec->parent) && (!above || !above->spec || above->finished);
}

/* All that are left, to climb from; gives. */
static struct left_task **all_unfinished(const struct left_tasks *left, uint32_t *count_out)
{
    struct left_task **list = malloc((left->count + 1) * sizeof(struct left_task *));
    MOB_ASSERT(list);
    *count_out = 0;
    for (uint32_t i = 0; i <= left->mask; i++)
        for (struct left_task *t = left->buckets[i]; t; t = t->next)
            if (t->spec && !t->finished)
                list[(*count_out)++] = t;
    return list;
}

/* Generation after generation, so that each takes few questions. */
static enum mob_status read_above(struct node *node, struct left_tasks *left, struct group_list *groups)
{
    uint32_t reads = 0, count, next;
    struct left_task **at = all_unfinished(left, &count);
    enum mob_status status = MOB_OK;
    for (; count > 0 && status == MOB_OK; count = next) {
        for (uint32_t i = 0; i < count && reads + groups->count < ABOVE_READS_MAX; i++)
            if (above_is_wanted(node, left, at[i]))
                want_group(left, groups, left_tasks_group_of(at[i]->spec->parent));
        reads += groups->count;
        status = read_wanted(node, left, groups);
        next = 0;
        for (uint32_t i = 0; i < count; i++) {
            struct left_task *above = left_tasks_find(left, at[i]->spec->parent);
            if (!is_root(node, at[i], at[i]->spec->parent) && has_ended(above) && !above->climbed) {
                above->climbed = true;
                at[next++] = above;
            }
        }
    }
    free(at);
    if (reads >= ABOVE_READS_MAX)
        /* the rest is found when it is cancelled anew, but no cancel of before */
        MOB_LOG_WARN("recover", "climb_cut", "groups=%u", reads);
    return status;
}

static void tail_again(struct node *node, const struct left_tasks *left, const struct left_task *t)
{
    for (const struct left_tail *tail = t->tails; tail; tail = tail->next) {
        const struct left_task *next = left_tasks_find(left, tail->target.task);
        if (!node_task_find(node, tail->target.task) && !(next && next->tails))
            continue; /* it is a value by now */
        struct node_tail_call call = {.id = tail->id,
            .target = tail->target,
            .submitter = NODE_NOBODY,
            .job = t->spec ? node_job_by_id(node, t->spec->job) : NULL,
            .generation = t->generation,
            .children = NODE_CHILDREN_UNKNOWN};
        node_alias(node, &call);
    }
}

static void all_tails_again(struct node *node, const struct left_tasks *left)
{
    for (uint32_t i = 0; i <= left->mask; i++)
        for (const struct left_task *t = left->buckets[i]; t; t = t->next)
            tail_again(node, left, t);
}

static struct left_task *parent_of(const struct left_tasks *left, const struct left_task *t)
{
    return t->spec ? left_tasks_find(left, t->spec->parent) : NULL;
}

/* It, or a task above it; as far up as the logs that were read know. Each task of the tree is passed once. */
static bool is_cancelled(const struct left_tasks *left, struct left_task *t)
{
    struct left_task *at = t;
    enum above above = ABOVE_LIVES;
    for (; at && at->above == ABOVE_UNKNOWN; at = parent_of(left, at)) {
        const struct left_task *parent = parent_of(left, at);
        if (parent && parent->cancelled_kin)
            break;
    }
    if (at)
        above = at->above == ABOVE_UNKNOWN ? ABOVE_CANCELLED : at->above;
    for (struct left_task *each = t; each && each->above == ABOVE_UNKNOWN; each = parent_of(left, each)) {
        each->above = above;
        if (each == at)
            break;
    }
    return t->cancelled || t->above == ABOVE_CANCELLED;
}

/* What an incarnation began is in no log when it dies with it. So each incarnation after the one that logged
 * the task's last word counts as an owner with an attempt of its own, whether it came to run the task or not:
 * no two attempts have one number (GCS.md, "Node logs and the cut": a new owner, attempt + 1). */
static uint32_t next_attempt(const struct node *node, const struct left_task *t)
{
    uint64_t owners = node->incarnation > t->owner ? node->incarnation - t->owner : 1;
    uint64_t attempt = t->attempt + 1 + owners;
    return attempt < UINT32_MAX ? (uint32_t)attempt : UINT32_MAX;
}

static bool run_again(struct node *node, const struct left_tasks *left, struct left_task *t)
{
    struct mob_spec spec = {
        .head = *t->spec, .tail = (const uint8_t *)(t->spec + 1), .tail_bytes = t->tail_bytes};
    struct node_task *task;
    spec.head.attempt = next_attempt(node, t);
    int64_t submitted_ns = lineage_log_mono(node->log, t->submitted_wall_ns, node->now_ns);
    enum mob_status status =
        node_resubmit(node, &spec, submitted_ns, t->outcomes ? 0 : TASK_NO_OUTCOMES, &task);
    if (status != MOB_OK) {
        char id[MOB_ID_TEXT_MAX];
        MOB_LOG_ERROR("recover", "task_left", "task=%s status=%s", mob_task_id_format(t->id, id),
            mob_status_code(status));
        recovery_lacks(node, t->place.incarnation);
        return false;
    }
    recovery_took(node, t->place.incarnation, t->id);
    node_task_extra(node, task)->retries_spent = t->retries_spent;
    node_enter(node, task);
    struct mob_sched_task *live = mob_sched_find(node->sched, t->id);
    if (live && is_cancelled(left, t))
        mob_sched_cancel(node->sched, live, false, false, node->now_ns);
    return true;
}

static bool is_call(const struct left_task *t)
{
    return t->spec->kind == MOB_KIND_ACTOR_CALL;
}

/* Those that came back with their actors, and were cancelled before. */
static void cancel_calls_again(struct node *node, const struct left_tasks *left)
{
    for (uint32_t i = 0; i <= left->mask; i++)
        for (struct left_task *t = left->buckets[i]; t; t = t->next) {
            struct mob_sched_task *live =
                t->spec && !t->finished && is_call(t) ? mob_sched_find(node->sched, t->id) : NULL;
            if (live && is_cancelled(left, t))
                mob_sched_cancel(node->sched, live, false, false, node->now_ns);
        }
}

static int by_place(const void *a, const void *b)
{
    const struct log_place *x = &(*(struct left_task *const *)a)->place,
                           *y = &(*(struct left_task *const *)b)->place;
    if (x->incarnation != y->incarnation)
        return x->incarnation < y->incarnation ? -1 : 1;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Calls of actors come back through their actor's replay, in order of position; everything else at once. What
 * is left of the calls then has no edge in the log: it never had a position, and gets one now. In the order
 * of the logs, so that each caller's calls keep theirs. */
static void run_all_again(struct node *node, struct left_tasks *left, bool calls, uint32_t *count_out)
{
    struct left_task **again = malloc((left->count + 1) * sizeof(struct left_task *));
    uint32_t count = 0;
    MOB_ASSERT(again);
    for (uint32_t i = 0; i <= left->mask; i++)
        for (struct left_task *t = left->buckets[i]; t; t = t->next)
            if (t->spec && !t->finished && is_call(t) == calls) {
                if (calls && node_task_find(node, t->id))
                    recovery_took(node, t->place.incarnation, t->id); /* with its actor */
                else
                    again[count++] = t;
            }
    qsort(again, count, sizeof(struct left_task *), by_place);
    for (uint32_t i = 0; i < count; i++)
        *count_out += run_again(node, left, again[i]);
    free(again);
}

/* The edges of all actors, through the loop's own means: their reads wait behind the open log. */
static enum mob_status read_actors(struct node *node, uint32_t *count_out)
{
    enum mob_status status = MOB_OK;
    int64_t deadline = mob_deadline_after(ANSWER_SECONDS_MAX * MOB_SEC);
    struct pollfd gcs = {mob_gcs_fd(node->gcs), POLLIN, 0};
    *count_out = node_actors_restart_loaded(node);
    while (node_actors_recovering(node) > 0) {
        node->now_ns = mob_now();
        if (node->reads.unavailable) {
            status = wait_for_postgres(node);
            deadline = mob_deadline_after(ANSWER_SECONDS_MAX * MOB_SEC);
        }
        if (status == MOB_OK && node->now_ns > deadline)
            status = MOB_TIMEOUT;
        if (status != MOB_OK)
            return status;
        lineage_log_pump(node->log, node->now_ns, LOG_TURN_FLUSH);
        mob_gcs_step(node->gcs, node->now_ns);
        node_group_reads_again(node);
        if (node_actors_recovering(node) > 0)
            poll(&gcs, 1, STEP_MS);
    }
    return MOB_OK;
}

enum mob_status node_recover(struct node *node)
{
    int64_t started = mob_now(), deadline = mob_deadline_after(ANSWER_SECONDS_MAX * MOB_SEC);
    struct left_tasks left;
    struct group_list groups = {0};
    uint32_t tasks = 0, actors = 0;
    left_tasks_init(&left);
    uint64_t previous = 0, cut = 0;
    enum mob_status status = seal_earlier(node, deadline, &previous, &cut);
    if (status == MOB_OK)
        status = recovery_claim(node, deadline);
    if (status == MOB_OK)
        status = recovery_tidy(node, deadline);
    if (status == MOB_OK)
        node_event_started(node, previous, cut, deadline);
    if (status == MOB_OK)
        status = read_unfinished(node, &left, &groups, ALL_INCARNATIONS); /* one scan for all of them */
    if (status == MOB_OK)
        status = read_groups(node, &left, &groups);
    if (status == MOB_OK)
        status = read_above(node, &left, &groups);
    if (status == MOB_OK && MOB_FAILPOINT("node.recover_read"))
        status = MOB_IO;
    if (status == MOB_OK) {
        run_all_again(node, &left, false, &tasks);
        status = read_actors(node, &actors);
    }
    if (status == MOB_OK)
        status = recovery_waits(node, false);
    if (status == MOB_OK) {
        cancel_calls_again(node, &left);
        run_all_again(node, &left, true, &tasks);
        all_tails_again(node, &left);
        if (MOB_FAILPOINT("node.recover_ran"))
            status = MOB_IO;
    }
    if (status == MOB_OK)
        recovery_begun(node);
    left_tasks_fini(&left);
    free(groups.rows);
    MOB_LOG_INFO("recover", "done", "status=%s tasks=%u actors=%u ms=%lld", mob_status_code(status), tasks,
        actors, (mob_now() - started) / MOB_MS);
    return status;
}
