/* Jobs: whom work belongs to, and when it ends. Rows of the GCS' JOBS table, cached here. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_value.h"
#include "common/wire/utf8.h"
#include "gcs/client/client_sync.h"
#include "runtime/node/actor_needs.h"
#include "runtime/node/actor_refs.h"
#include "runtime/node/actors.h"
#include "runtime/node/jobs.h"
#include "runtime/node/alias.h"
#include "runtime/node/checkpoint_sweep.h"
#include "runtime/node/known.h"
#include "runtime/node/node.h"
#include "runtime/node/notices.h"
#include "runtime/node/put_sweep.h"
#include "runtime/node/row_writes.h"
#include "runtime/node/task.h"
#include "runtime/node/value_cache.h"
#include "runtime/node/workers.h"

enum { LOAD_SECONDS = 30 };
_Static_assert(MOB_JOB_WEIGHT_MAX == MOB_SCHED_WEIGHT_MAX, "what sessions may ask for");

static const char *state_text(enum job_state state)
{
    return state == JOB_RUNNING ? "running" : state == JOB_GRACE ? "grace" : "ended";
}

static struct node_job **bucket_of(struct node *node, struct mob_job_id id)
{
    return &node->job_buckets[mob_stream_mix(id.root) % NODE_JOB_BUCKETS];
}

struct node_job *node_job_by_id(struct node *node, struct mob_job_id id)
{
    struct node_job *job = node->last_job;
    if (job && memcmp(&job->id, &id, sizeof id) == 0)
        return job;
    for (job = *bucket_of(node, id); job; job = job->next_of_bucket)
        if (memcmp(&job->id, &id, sizeof id) == 0) {
            node->last_job = job;
            return job;
        }
    return NULL;
}

static void index_add(struct node *node, struct node_job *job)
{
    struct node_job **bucket = bucket_of(node, job->id);
    job->next_of_bucket = *bucket;
    *bucket = job;
}

static void index_remove(struct node *node, const struct node_job *job)
{
    struct node_job **at = bucket_of(node, job->id);
    while (*at != job)
        at = &(*at)->next_of_bucket;
    *at = job->next_of_bucket;
    if (node->last_job == job)
        node->last_job = NULL;
}

static json_t *job_json(const struct node_job *job)
{
    char id[MOB_ID_TEXT_MAX], root[MOB_ID_TEXT_MAX];
    json_t *out = json_pack("{s:s,s:s,s:s,s:s,s:b,s:b,s:b,s:b,s:s,s:i,s:I,s:I,s:I,s:I,s:I}", "id",
        mob_job_id_format(job->id, id), "namespace", job->ns, "name", job->name, "state",
        state_text(job->state), "standing", (int)job->standing, "detached", (int)job->detached, "over_http",
        (int)job->over_http, "keyed", (int)job->keyed, "root", mob_task_id_format(job->root, root), "weight",
        (int)job->weight, "submitted", (json_int_t)job->submitted, "finished", (json_int_t)job->finished,
        "failed", (json_int_t)job->failed, "started_us", (json_int_t)(job->started_wall_ns / 1000),
        "ended_us", (json_int_t)(job->ended_wall_ns / 1000));
    if (job->driver.pid != 0)
        json_object_set_new(out, "driver",
            json_pack("{s:i,s:I}", "pid", (int)job->driver.pid, "started", (json_int_t)job->driver.started));
    return out;
}

void node_job_save(struct node *node, struct node_job *job)
{
    json_t *row = job_json(job);
    char *text = json_dumps(row, JSON_COMPACT);
    uint32_t bytes = (uint32_t)strlen(text);
    struct row_write *write = row_write_new(node, MOB_GCS_JOBS, &job->id, sizeof job->id, bytes);
    memcpy(write->value, text, bytes);
    row_write_send(write);
    free(text);
    json_decref(row);
}

static struct node_job *add_job(struct node *node, const struct node_job_options *options)
{
    struct node_job *job = calloc(1, sizeof *job);
    uint32_t weight = options->weight ? options->weight : MOB_JOB_WEIGHT_DEFAULT;
    if (!job || weight > MOB_JOB_WEIGHT_MAX) {
        free(job);
        return NULL;
    }
    job->id = (struct mob_job_id){options->root.stream};
    job->root = options->root;
    job->state = JOB_RUNNING;
    job->sched_job = JOB_NO_NUMBER;
    job->weight = weight;
    job->standing = options->standing;
    job->detached = options->detached;
    job->over_http = options->over_http;
    job->keyed = options->keyed;
    job->driver = options->driver;
    json_utf8_copy(job->ns, sizeof job->ns, options->ns);
    json_utf8_copy(job->name, sizeof job->name, options->name);
    job_list_push(&node->jobs, job);
    index_add(node, job);
    return job;
}

/* Numbers of jobs without tasks go back to the scheduler. Ended jobs too may get work again (a lost result
 * that is made once more, calls of detached actors), so it is not their end that decides. */
static void give_numbers_back(struct node *node, struct job_list jobs)
{
    for (struct node_job *job = jobs.first; job; job = job->next)
        if (job->sched_job != JOB_NO_NUMBER && mob_sched_job_idle(node->sched, job->sched_job)) {
            mob_sched_job_close(node->sched, job->sched_job);
            job->sched_job = JOB_NO_NUMBER;
        }
}

enum mob_status node_job_number(struct node *node, struct node_job *job, uint16_t *number_out)
{
    enum mob_status status = MOB_OK;
    if (job->sched_job == JOB_NO_NUMBER) {
        status = mob_sched_job_open(node->sched, job->weight, &job->sched_job);
        if (status == MOB_QUEUE_FULL) {
            give_numbers_back(node, node->jobs);
            give_numbers_back(node, node->ended_jobs);
            status = mob_sched_job_open(node->sched, job->weight, &job->sched_job);
        }
    }
    *number_out = job->sched_job;
    return status;
}

void node_job_hold(struct node_job *job)
{
    if (job)
        job->users++;
}

void node_job_release(struct node_job *job)
{
    MOB_ASSERT(!job || job->users > 0);
    if (job)
        job->users--;
}

static void free_all(struct job_list *jobs)
{
    while (jobs->first) {
        struct node_job *job = jobs->first;
        job_list_remove(jobs, job);
        free(job);
    }
}

void node_jobs_free(struct node *node)
{
    free_all(&node->jobs);
    free_all(&node->ended_jobs);
    memset(node->job_buckets, 0, sizeof node->job_buckets);
    node->last_job = NULL;
}

struct node_job *node_job_open(struct node *node, const struct node_job_options *options)
{
    struct node_job *job = add_job(node, options);
    if (!job)
        return NULL;
    job->started_wall_ns = mob_wall_now();
    node_job_save(node, job);
    return job;
}

void node_job_set_weight(struct node *node, struct node_job *job, uint32_t weight)
{
    if (weight == 0 || weight == job->weight || weight > MOB_JOB_WEIGHT_MAX)
        return;
    if (job->sched_job != JOB_NO_NUMBER &&
        mob_sched_job_weight(node->sched, job->sched_job, weight) != MOB_OK)
        return;
    job->weight = weight;
    node_job_save(node, job);
}

void node_job_rejoined(struct node *node, struct node_job *job, bool keyed, struct driver_process driver)
{
    bool other =
        job->keyed != keyed || job->driver.pid != driver.pid || job->driver.started != driver.started;
    bool revived = job->state == JOB_ENDED;
    job->state = JOB_RUNNING;
    job->keyed = keyed;
    job->driver = driver;
    if (revived) {
        job_list_remove(&node->ended_jobs, job);
        job_list_push(&node->jobs, job);
        job->ended_wall_ns = 0;
        job->aged &= job->deleted; /* what comes now is dropped in its turn */
    }
    if (revived || other)
        node_job_save(node, job);
}

/* A session that was ended because of damage to its rings, by the node or by its process, may be opened again
 * by that process as after a restart of the node. */
void node_job_left(struct node *node, struct node_job *job, bool for_good)
{
    if (job->standing || job->detached || job->over_http || job->state != JOB_RUNNING || node->stopping)
        return;
    if (for_good && !job->keyed) {
        node_job_end(node, job, true);
        return;
    }
    job->state = JOB_GRACE;
    node->jobs_in_grace = true;
    job->grace_until_ns = node->now_ns + NODE_DRIVER_GRACE_NS;
}

/* A detached actor outlives its job; it may be starting again. */
static bool ends_with_job(const struct node_task *task)
{
    const struct mob_spec_head *head = &task->template->head;
    return head->kind != MOB_KIND_ACTOR_CREATE || !(head->flags & MOB_SPEC_DETACHED);
}

static void cancel_task_of(struct node *node, struct mob_sched_task *task)
{
    if (ends_with_job((struct node_task *)task))
        mob_sched_cancel(node->sched, task, false, true, node->now_ns);
}

static void cancel_tasks_of(struct node *node, const struct node_job *job)
{
    uint16_t number = job->sched_job == JOB_NO_NUMBER ? MOB_SCHED_NO_JOB : job->sched_job;
    struct mob_sched_job_walk walk = mob_sched_job_walk(node->sched, number, job->calls);
    struct mob_sched_task *each;
    node_tail_walk_begin(node);
    while ((each = mob_sched_job_next(node->sched, &walk)))
        if (((struct node_task *)each)->template->job == job)
            cancel_task_of(node, each);
}

static void join_ended(struct node *node, struct node_job *job)
{
    job_list_remove(&node->jobs, job);
    if (job->deleted)
        job_list_unshift(&node->ended_jobs, job);
    else
        job_list_insert(&node->ended_jobs, job);
}

void node_job_end(struct node *node, struct node_job *job, bool cancel_tasks)
{
    if (job->state == JOB_ENDED)
        return;
    job->state = JOB_ENDED;
    int64_t now_ns = mob_wall_now(); /* the clock may have been set back since */
    job->ended_wall_ns = now_ns > job->started_wall_ns ? now_ns : job->started_wall_ns;
    join_ended(node, job);
    MOB_LOG_INFO("jobs", "ended", "name=\"%s\" submitted=%lu finished=%lu failed=%lu",
        MOB_LOG_VALUE(job->name), job->submitted, job->finished, job->failed);
    if (cancel_tasks)
        cancel_tasks_of(node, job);
    node_actors_end_job(node, job);
    node_job_save(node, job);
}

static void delete_row(struct node *node, struct mob_job_id job)
{
    struct row_write *write = row_write_new(node, MOB_GCS_JOBS, &job, sizeof job, 0);
    write->remove = true;
    row_write_send(write);
}

struct deletion {
    struct node *node;
    struct mob_job_id job;
    uint32_t slot, session, request;
    uint64_t blocks;
};

static void deleted(void *arg, const struct mob_gcs_answer *answer)
{
    struct deletion *d = arg;
    char text[64];
    d->blocks += answer->number;
    if (answer->status == MOB_OK && answer->next != 0 &&
        mob_gcs_job_drop(d->node->gcs, d->job, false, INT64_MAX, deleted, d) == MOB_OK)
        return; /* a page of blocks a time */
    int n = snprintf(text, sizeof text, "{\"blocks\":%lu}", d->blocks);
    if (answer->status == MOB_OK) {
        struct node_job *job = node_job_by_id(d->node, d->job);
        delete_row(d->node, d->job);
        if (job)
            job->aged = true;
    }
    value_cache_clear(d->node->values);
    known_clear(d->node);
    if (answer->status == MOB_OK) {
        node_puts_sweep(d->node, INT64_MAX);
        checkpoint_sweep_due(d->node);
    }
    node_reply(d->node, d->slot, d->session, d->request, answer->status, text, (uint32_t)n);
    free(d);
}

/* The flusher, if there is one, deletes what PostgreSQL has of it; told first, so that it is not forgotten.
 */
static void drop_job(void *arg, const struct mob_gcs_answer *answer)
{
    struct deletion *d = arg;
    enum mob_status status = answer->status;
    if (status == MOB_OK) {
        uint8_t key[sizeof MOB_GCS_KEY_FLUSH_GONE - 1 + sizeof d->job];
        struct mob_gcs_put row = {.table = MOB_GCS_KV,
            .key = key,
            .key_length = sizeof key,
            .value = "1",
            .value_length = 1,
            .if_version = MOB_GCS_ANY_VERSION};
        memcpy(key, MOB_GCS_KEY_FLUSH_GONE, sizeof MOB_GCS_KEY_FLUSH_GONE - 1);
        memcpy(key + sizeof MOB_GCS_KEY_FLUSH_GONE - 1, &d->job, sizeof d->job);
        status = mob_gcs_put(d->node->gcs, &row, NULL, NULL);
    }
    if (status == MOB_OK || status == MOB_NOT_FOUND)
        status = mob_gcs_job_drop(d->node->gcs, d->job, false, INT64_MAX, deleted, d);
    if (status == MOB_OK)
        return;
    node_reply(d->node, d->slot, d->session, d->request, status, NULL, 0);
    free(d);
}

/* The calls of a job are part of the state of the actors that it called, until a checkpoint covers them, and
 * so is what those calls were given of others. */
static bool is_needed(struct node *node, const struct deletion *d, const struct node_job *job)
{
    char id[MOB_ID_TEXT_MAX], why[256];
    const struct node_actor *actor = node_actor_needing(node, job);
    if (!actor)
        return false;
    int n = snprintf(why, sizeof why, "%s, which lives, %s", mob_actor_id_format(actor->id, id),
        actor->job == job ? "is of this job"
                          : "needs this job's calls or results to come back after a death");
    node_reply(node, d->slot, d->session, d->request, MOB_IN_USE, why, (uint32_t)n);
    return true;
}

/* Whether nothing needs it, and it is there still and has not begun anew. One that is being deleted may be
 * deleted once more: who asks hears when it is done. */
static bool may_go(struct node *node, const struct deletion *d, const struct node_job *job)
{
    if (job && job->state == JOB_ENDED)
        return job->deleted || !is_needed(node, d, job);
    node_reply(node, d->slot, d->session, d->request, job ? MOB_IN_USE : MOB_NOT_FOUND, NULL, 0);
    return false;
}

static void delete_settled(void *arg, enum mob_status status)
{
    struct deletion *d = arg;
    struct node *node = d->node;
    struct node_job *job = node_job_by_id(node, d->job);
    if (status == MOB_OK && !may_go(node, d, job)) {
        free(d);
        return;
    }
    if (status == MOB_OK) {
        job->deleted = true;
        job_list_remove(&node->ended_jobs, job);
        job_list_unshift(&node->ended_jobs, job);
        status = mob_gcs_get(node->gcs, MOB_GCS_KV, MOB_GCS_KEY_FLUSH_PRESENT,
            sizeof MOB_GCS_KEY_FLUSH_PRESENT - 1, drop_job, d);
    }
    if (status != MOB_OK) {
        node_reply(node, d->slot, d->session, d->request, status, NULL, 0);
        free(d);
    }
}

void node_job_delete(struct node *node, struct node_client *client, uint32_t request, struct node_job *job)
{
    struct deletion *d = malloc(sizeof *d);
    MOB_ASSERT(d);
    *d = (struct deletion){node, job->id, client->slot, client->session, request, 0};
    MOB_ASSERT(job->state == JOB_ENDED);
    if (actor_refs_settle(node, delete_settled, free, d))
        delete_settled(d, MOB_OK);
}

void node_job_forget(struct node *node, struct node_job *job)
{
    if (!job->deleted)
        delete_row(node, job->id);
    job_list_remove(&node->ended_jobs, job);
    index_remove(node, job);
    free(job);
}

static bool is_abandoned(const struct node *node, const struct node_job *job)
{
    return job->state == JOB_GRACE &&
        (node->now_ns >= job->grace_until_ns || (!job->keyed && driver_process_gone(job->driver)));
}

/* Jobs whose driver did not come back within its grace, or cannot any more, end. */
void node_jobs_tick(struct node *node)
{
    bool any = false;
    if (!node->jobs_in_grace)
        return;
    for (struct node_job *job = node->jobs.first, *next; job; job = next) {
        next = job->next;
        if (is_abandoned(node, job))
            node_job_end(node, job, true);
        else
            any |= job->state == JOB_GRACE;
    }
    node->jobs_in_grace = any;
}

void node_jobs_recovered(struct node *node)
{
    uint32_t at = 0;
    struct mob_sched_task *each;
    node_tail_walk_begin(node);
    while ((each = mob_sched_each(node->sched, &at)))
        if (((struct node_task *)each)->template->job->state == JOB_ENDED)
            cancel_task_of(node, each);
}

/* Rows of older versions do not say which driver is whose. */
static struct driver_process driver_of(const json_t *row)
{
    const json_t *driver = json_object_get(row, "driver");
    return (struct driver_process){(int32_t)json_integer_value(json_object_get(driver, "pid")),
        (uint64_t)json_integer_value(json_object_get(driver, "started"))};
}

static void load_row(void *arg, const struct mob_gcs_kv *kv)
{
    struct node *node = arg;
    json_t *row = json_loadb((const char *)kv->value, kv->value_length, 0, NULL);
    const char *ns, *name, *state, *root_text;
    int standing, detached, weight = 0, over_http = 0, keyed = 1; /* rows of older versions lack the last */
    json_int_t submitted, finished, failed, started, ended;
    struct mob_task_id root;
    if (row &&
        json_unpack(row, "{s:s,s:s,s:s,s:s,s:b,s:b,s?i,s?b,s?b,s:I,s:I,s:I,s:I,s:I}", "namespace", &ns,
            "name", &name, "state", &state, "root", &root_text, "standing", &standing, "detached", &detached,
            "weight", &weight, "over_http", &over_http, "keyed", &keyed, "submitted", &submitted, "finished",
            &finished, "failed", &failed, "started_us", &started, "ended_us", &ended) == 0 &&
        mob_task_id_parse(root_text, &root) == MOB_OK) {
        struct node_job_options options = {.ns = ns,
            .name = name,
            .root = root,
            .weight = (uint32_t)weight,
            .standing = standing,
            .detached = detached,
            .over_http = over_http,
            .keyed = keyed,
            .driver = driver_of(row)};
        struct node_job *job = add_job(node, &options);
        if (job) {
            job->submitted = (uint64_t)submitted;
            job->finished = (uint64_t)finished;
            job->failed = (uint64_t)failed;
            job->started_wall_ns = started * 1000;
            job->ended_wall_ns = ended * 1000;
            job->state = strcmp(state, "ended") == 0 ? JOB_ENDED
                : standing || detached || over_http  ? JOB_RUNNING
                                                     : JOB_GRACE;
            node->jobs_in_grace |= job->state == JOB_GRACE;
            job->grace_until_ns = mob_deadline_after(NODE_DRIVER_GRACE_NS);
            if (job->state == JOB_ENDED) {
                job_list_remove(&node->jobs, job);
                job_list_push(&node->ended_jobs, job); /* to be sorted */
            }
        }
    } else {
        MOB_LOG_WARN("jobs", "row_skipped", "bytes=%u", kv->value_length);
    }
    json_decref(row);
}

enum mob_status node_jobs_load(struct node *node)
{
    enum mob_status status = mob_gcs_each_row_wait(
        node->gcs, MOB_GCS_JOBS, mob_deadline_after(LOAD_SECONDS * MOB_SEC), load_row, node);
    job_list_sort(&node->ended_jobs);
    return status;
}

static void list_jobs(struct job_list jobs, json_t *items)
{
    for (const struct node_job *job = jobs.first; job; job = job->next)
        if (!job->deleted)
            json_array_append_new(items, job_json(job));
}

char *node_jobs_json(struct node *node)
{
    json_t *items = json_array();
    list_jobs(node->jobs, items);
    list_jobs(node->ended_jobs, items);
    char *text = json_dumps(items, JSON_COMPACT);
    json_decref(items);
    return text;
}
