/* Control requests of clients: rare, answered from the node's tables. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/actors.h"
#include "runtime/node/alias.h"
#include "runtime/node/cancel_below.h"
#include "runtime/node/durable_puts.h"
#include "runtime/node/full_store.h"
#include "runtime/node/functions.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/notices.h"
#include "runtime/node/state_json.h"
#include "runtime/node/task.h"
#include "runtime/node/value_cache.h"

enum { LIVE_TASKS_MAX = 1000, TEXT_MAX = 512 };

struct request {
    struct node *node;
    struct node_client *client;
    uint32_t number;
    const uint8_t *payload;
    uint32_t bytes;
};

static void reply(const struct request *r, enum mob_status status, const void *payload, uint32_t bytes)
{
    node_reply(r->node, r->client->slot, r->client->session, r->number, status, payload, bytes);
}

static void reply_json(const struct request *r, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    reply(r, MOB_OK, text, (uint32_t)strlen(text));
    free(text);
    json_decref(value);
}

static void reply_text(const struct request *r, char *text, enum mob_status if_null)
{
    if (text)
        reply(r, MOB_OK, text, (uint32_t)strlen(text));
    else
        reply(r, if_null, NULL, 0);
    free(text);
}

static bool payload_text(const struct request *r, char out[TEXT_MAX])
{
    if (r->bytes >= TEXT_MAX)
        return false;
    memcpy(out, r->payload, r->bytes);
    out[r->bytes] = '\0';
    return true;
}

static bool payload_task(const struct request *r, struct mob_task_id *out)
{
    if (r->bytes < sizeof *out)
        return false;
    memcpy(out, r->payload, sizeof *out);
    return true;
}

static void function_request(const struct request *r)
{
    char name[TEXT_MAX];
    struct node_function *f = payload_text(r, name) ? node_function_by_name(r->node, name) : NULL;
    if (!f) {
        reply(r, MOB_NOT_FOUND, NULL, 0);
        return;
    }
    const uint32_t flags = f->flags, signature = (uint32_t)strlen(f->signature),
                   bytes = (uint32_t)sizeof(struct mob_function_info) + signature + (uint32_t)sizeof flags;
    struct mob_function_info info = {f->id, f->module, f->kind, f->method_count, signature};
    uint8_t *out = malloc(bytes);
    MOB_ASSERT(out);
    memcpy(out, &info, sizeof info);
    memcpy(out + sizeof info, f->signature, signature);
    memcpy(out + sizeof info + signature, &flags, sizeof flags);
    reply(r, MOB_OK, out, bytes);
    free(out);
}

/* ---- flush: the reply waits for the commit of all that came before ---- */

struct flush {
    struct node *node;
    uint32_t slot, session, request;
    struct mob_task_id task; /* that asks, when a task does */
    uint64_t newest_put;
};

/* Of the task that asks: did its replay ask for something else, and does it want to start over then? */
static enum mob_status replay_state(struct node *node, struct mob_task_id id)
{
    const struct node_task *task = node_task_find(node, id);
    bool tells = task && (task->template->head.flags & MOB_SPEC_RESTART_ON_DIVERGENCE);
    return tells && node_extra_of(task) && node_extra_of(task)->diverged ? MOB_REPLAY_DIVERGED : MOB_OK;
}

/* A gateway's session lives on when another one has ended its job, and what it submits there is refused. */
static enum mob_status job_state_of(const struct flush *flush)
{
    if (!node_client_is(flush->node, flush->slot, flush->session))
        return MOB_OK;
    const struct node_client *client = node_client_at(flush->node, flush->slot);
    bool tells = (client->flags & MOB_SESSION_GATEWAY) && client->job;
    return tells && client->job->state == JOB_ENDED ? MOB_FINISHED : MOB_OK;
}

static void flushed(void *arg)
{
    struct flush *flush = arg;
    static char text[DURABLE_PUTS_TEXT_MAX];
    text[0] = '\0';
    enum mob_status status = durable_puts_failed(
        flush->node->puts, flush->slot, flush->session, flush->newest_put, text, sizeof text);
    if (status == MOB_OK)
        status = replay_state(flush->node, flush->task);
    if (status == MOB_OK)
        status = job_state_of(flush);
    node_reply(
        flush->node, flush->slot, flush->session, flush->request, status, text, (uint32_t)strlen(text));
    free(flush);
}

static void done_request(void *arg)
{
    struct flush *flush = arg;
    node_reply(flush->node, flush->slot, flush->session, flush->request, MOB_OK, "{}", 2);
    free(flush);
}

/* Says that it is done when the log says so, too (ARCHITECTURE "Output commit"). */
static void reply_after_commit(
    const struct request *r, void (*say)(void *arg), const struct mob_task_id *task)
{
    struct flush *flush = malloc(sizeof *flush);
    MOB_ASSERT(flush);
    *flush = (struct flush){.node = r->node,
        .slot = r->client->slot,
        .session = r->client->session,
        .request = r->number,
        .newest_put = durable_puts_newest(r->node->puts)};
    if (task)
        flush->task = *task;
    struct effect effect = {.kind = EFFECT_CALL, .slot = NODE_NOBODY};
    effect.call.fn = say;
    effect.call.drop = free;
    effect.call.arg = flush;
    if (!large_hashes_after(r->node, flush->slot, flush->session, &effect))
        lineage_log_effect(r->node->log, &effect);
}

static void flush_request(const struct request *r)
{
    struct mob_task_id task;
    if (r->bytes >= sizeof task)
        memcpy(&task, r->payload, sizeof task);
    reply_after_commit(r, flushed, r->bytes >= sizeof task ? &task : NULL);
}

/* ---- why, task, live tasks ---- */

static void task_request(const struct request *r, bool why)
{
    struct mob_task_id id;
    bool known = payload_task(r, &id);
    struct node_task *task = known ? node_task_find(r->node, id) : NULL;
    const struct node_tail_call *call = known && !task ? node_tail_call_of(r->node, id) : NULL;
    if (call && node_tail_call_lives(r->node, call))
        reply_json(r, node_task_continued_json(call, why));
    else if (!task)
        reply(r, MOB_NOT_FOUND, NULL, 0);
    else
        reply_json(r, why ? node_task_why_json(r->node, task) : node_task_whole_json(r->node, task));
}

/* The secret stays here. */
static void keyed_root(const struct request *r)
{
    char key[TEXT_MAX];
    if (!(r->client->flags & MOB_SESSION_GATEWAY) || !r->client->job || !payload_text(r, key)) {
        reply(r, MOB_DENIED, NULL, 0);
        return;
    }
    struct mob_task_id root = mob_root_id_keyed(r->node->secret, r->client->job->ns, "http", key);
    reply(r, MOB_OK, &root, sizeof root);
}

/* Of many tasks at once, for lists, which ask for 1,000 at most (CANDIDATES_MAX of server/api). */
static void live(const struct request *r)
{
    uint32_t count = r->bytes / (uint32_t)sizeof(struct mob_task_id);
    struct mob_live_task *tasks = calloc(count + 1, sizeof *tasks);
    MOB_ASSERT(tasks);
    for (uint32_t i = 0; i < count; i++) {
        struct mob_task_id id;
        memcpy(&id, r->payload + i * sizeof id, sizeof id);
        node_task_live(r->node, id, &tasks[i]);
    }
    reply(r, MOB_OK, tasks, count * (uint32_t)sizeof *tasks);
    free(tasks);
}

static void live_tasks(const struct request *r)
{
    json_t *items = json_array();
    uint32_t at = 0, taken = 0;
    struct mob_sched_task *task;
    while ((task = mob_sched_each(r->node->sched, &at)) && taken < LIVE_TASKS_MAX) {
        json_array_append_new(items, node_task_json(r->node, (struct node_task *)task));
        if (++taken >= 200) /* a reply is one record: 200 x about 400 bytes */
            break;
    }
    reply_json(r, items);
}

struct below_reply {
    struct node *node;
    uint32_t slot, session, number;
    enum mob_status status;
    uint32_t told;
};

static void reply_below(void *arg)
{
    struct below_reply *reply = arg;
    char text[32];
    int n = snprintf(text, sizeof text, "{\"told\":%u}", reply->told);
    node_reply(reply->node, reply->slot, reply->session, reply->number, reply->status, text, (uint32_t)n);
    free(reply);
}

/* Behind the log, which says what was cancelled. */
static void told_below(struct node *node, void *arg, enum mob_status status, uint32_t told)
{
    struct below_reply *reply = arg;
    reply->status = status;
    reply->told = told;
    struct effect effect = {.kind = EFFECT_CALL, .slot = NODE_NOBODY};
    effect.call.fn = reply_below;
    effect.call.drop = free;
    effect.call.arg = reply;
    lineage_log_effect(node->log, &effect);
}

/* Of a task that has ended: how many that live below it were told to stop. */
static void cancel_below(const struct request *r, const json_t *in)
{
    const char *text = json_string_value(json_object_get(in, "id"));
    struct mob_out_cancel cancel = {.force = json_is_true(json_object_get(in, "force")), .recursive = 1};
    struct below_reply *to = malloc(sizeof *to);
    MOB_ASSERT(to);
    *to = (struct below_reply){
        .node = r->node, .slot = r->client->slot, .session = r->client->session, .number = r->number};
    if (text && mob_task_id_parse(text, &cancel.task) == MOB_OK)
        node_cancel_below(r->node, r->client, &cancel, told_below, to);
    else
        told_below(r->node, to, MOB_INVALID, 0);
}

/* Asked again, it has ended. */
static void end_job(const struct request *r, struct node_job *job)
{
    static const char why[] = "the standing job takes the work that names no job, so it does not end";
    if (job && job->standing && job->state != JOB_ENDED) {
        reply(r, MOB_DENIED, why, sizeof why - 1);
        return;
    }
    if (job)
        node_job_end(r->node, job, true);
    reply(r, job ? MOB_OK : MOB_NOT_FOUND, job ? "{}" : NULL, job ? 2 : 0);
}

/* Its lineage goes. In a request of its own: that of its end may be sent again by anything on the way. */
static void purge_job(const struct request *r, struct node_job *job)
{
    static const char why[] = "the job has not ended; without purge, this request ends it";
    if (!job)
        reply(r, MOB_NOT_FOUND, NULL, 0);
    else if (job->state != JOB_ENDED)
        reply(r, MOB_IN_USE, why, sizeof why - 1);
    else
        node_job_delete(r->node, r->client, r->number, job);
}

/* JSON {"op": "open"|"end"|"purge"|"list"|"get"|"functions"|"actors"|"cancel_below", ...} */
static void job_request(const struct request *r)
{
    json_t *in = json_loadb((const char *)r->payload, r->bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *op = "list", *name = "", *id_text = "", *ns = "default";
    struct mob_job_id id;
    struct node_job *job = NULL;
    int weight = 0;
    if (in)
        (void)json_unpack(in, "{s?s,s?s,s?s,s?s,s?i}", "op", &op, "name", &name, "id", &id_text, "namespace",
            &ns, "weight", &weight);
    if (mob_job_id_parse(id_text, &id) == MOB_OK)
        job = node_job_by_id(r->node, id);
    if (strcmp(op, "open") == 0) {
        struct node_job_options options = {.ns = ns,
            .name = name,
            .root = mob_root_id_random(),
            .weight = (uint32_t)weight,
            .detached = true};
        job = node_job_open(r->node, &options);
        char text[MOB_ID_TEXT_MAX], root[MOB_ID_TEXT_MAX];
        if (job)
            reply_json(r,
                json_pack("{s:s,s:s,s:s}", "id", mob_job_id_format(job->id, text), "root",
                    mob_task_id_format(job->root, root), "name", job->name));
        else
            reply(r, MOB_QUEUE_FULL, NULL, 0);
    } else if (strcmp(op, "end") == 0) {
        end_job(r, job);
    } else if (strcmp(op, "purge") == 0) {
        purge_job(r, job);
    } else if (strcmp(op, "cancel_below") == 0) {
        cancel_below(r, in);
    } else if (strcmp(op, "functions") == 0) {
        reply_text(r, node_functions_json(r->node), MOB_INTERNAL);
    } else if (strcmp(op, "actors") == 0) {
        reply_text(r, node_actors_json(r->node, job), MOB_INTERNAL);
    } else {
        reply_text(r, node_jobs_json(r->node), MOB_INTERNAL);
    }
    json_decref(in);
}

static void name_request(const struct request *r)
{
    char name[TEXT_MAX];
    struct mob_actor_id id;
    const char *ns = r->client->job ? r->client->job->ns : "default";
    if (payload_text(r, name) && node_actor_by_name(r->node, ns, name, &id))
        reply(r, MOB_OK, &id, sizeof id);
    else
        reply(r, MOB_NOT_FOUND, NULL, 0);
}

static void actor_request(const struct request *r, bool kill)
{
    struct mob_actor_id id;
    uint32_t no_restart = 1;
    if (!payload_task(r, &id.creation)) {
        reply(r, MOB_INVALID, NULL, 0);
        return;
    }
    if (!kill) {
        reply_text(r, node_actor_json(r->node, id), MOB_NOT_FOUND);
        return;
    }
    if (r->bytes >= sizeof id + sizeof no_restart)
        memcpy(&no_restart, r->payload + sizeof id, sizeof no_restart);
    enum mob_status status = node_actor_kill(r->node, id, no_restart != 0);
    if (status == MOB_OK)
        reply_after_commit(r, done_request, NULL);
    else
        reply(r, status, NULL, 0);
}

/* Room asked for while everything that could go waits for its commit: answered when that is there. */
struct space {
    struct flush to;
    uint64_t bytes;
    struct mob_object_id id; /* of the object that needs it */
};

static enum mob_status make_space(const struct space *space, uint64_t *free_out)
{
    return mob_store_make_room(space->to.node->store, &space->id, space->bytes, free_out);
}

static void reply_space(const struct space *space, enum mob_status status, uint64_t free_now)
{
    struct node *node = space->to.node;
    char text[FULL_STORE_TEXT_MAX];
    if (status != MOB_OK)
        full_store_text(node, text);
    const void *payload = status == MOB_OK ? (const void *)&free_now : text;
    uint32_t bytes = status == MOB_OK ? (uint32_t)sizeof free_now : (uint32_t)strlen(text);
    node_reply(node, space->to.slot, space->to.session, space->to.request, status, payload, bytes);
}

static void space_after_commit(void *arg)
{
    struct space *space = arg;
    uint64_t free_now = 0;
    enum mob_status status = make_space(space, &free_now);
    reply_space(space, status, free_now);
    free(space);
}

static void space_request(const struct request *r)
{
    struct space space = {
        .to = {
            .node = r->node, .slot = r->client->slot, .session = r->client->session, .request = r->number}};
    if (r->bytes < sizeof space.bytes + sizeof space.id) {
        reply(r, MOB_INVALID, NULL, 0);
        return;
    }
    memcpy(&space.bytes, r->payload, sizeof space.bytes);
    memcpy(&space.id, r->payload + sizeof space.bytes, sizeof space.id);
    uint64_t free_now = 0;
    enum mob_status status = make_space(&space, &free_now);
    struct space *later = status == MOB_STORE_FULL ? malloc(sizeof *later) : NULL;
    if (later)
        *later = space;
    if (later && full_store_call_later(r->node, space_after_commit, free, later))
        return;
    free(later);
    reply_space(&space, status, free_now);
}

static bool is_put(struct mob_object_id id)
{
    return (id.slot & MOB_SLOT_ARG_PAGE) == MOB_SLOT_PUT && id.slot != MOB_SLOT_CHECKPOINT;
}

/* The bytes go. A put for good: the log says that it is gone, so that nobody finds it there either; what a
 * task returned can be made again. */
static void delete_object(const struct request *r, struct mob_object_id id, bool for_good)
{
    struct node *node = r->node;
    enum mob_status status = mob_store_object_delete(node->store, id);
    if (status != MOB_OK && status != MOB_NOT_FOUND) { /* it stays, and so does its file */
        static const char read[] = "somebody reads it now";
        reply(r, status, read, status == MOB_AGAIN ? sizeof read - 1 : 0);
        return;
    }
    durable_puts_remove(node->puts, id);
    value_cache_drop(node->values, id);
    if (!for_good || !is_put(id)) {
        reply(r, status, NULL, 0);
        return;
    }
    if (!(r->client->flags & MOB_SESSION_GATEWAY) && !mob_task_id_eq(id.task, r->client->root)) {
        reply(r, MOB_DENIED, NULL, 0);
        return;
    }
    struct mob_out_put gone = {.id = id, .type = MOB_TYPE_NULL, .flags = MOB_PUT_DELETED};
    lineage_log_job(node->log, r->client->job->id, r->client->job->ns);
    lineage_log_put(node->log, &gone, NULL);
    known_logged(node, id.task);
    reply_after_commit(r, flushed, NULL);
}

static void object_request(const struct request *r, bool fetch)
{
    struct mob_object_id id;
    if (r->bytes < sizeof id) {
        reply(r, MOB_INVALID, NULL, 0);
        return;
    }
    memcpy(&id, r->payload, sizeof id);
    uint32_t for_good = 0;
    if (r->bytes >= sizeof id + sizeof for_good)
        memcpy(&for_good, r->payload + sizeof id, sizeof for_good);
    if (fetch)
        node_fetch(r->node, r->client, r->number, id);
    else
        delete_object(r, id, for_good != 0);
}

void node_request(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes)
{
    struct mob_out_request head;
    if (bytes < sizeof head) {
        node_client_damaged(node, client);
        return;
    }
    memcpy(&head, body, sizeof head);
    if (head.payload_bytes > bytes - sizeof head) {
        node_client_damaged(node, client);
        return;
    }
    struct request r = {node, client, head.request, body + sizeof head, head.payload_bytes};
    switch ((enum mob_request_op)head.op) {
    case MOB_REQ_FUNCTION:
        function_request(&r);
        return;
    case MOB_REQ_DEPLOY:
        node_deploy(node, client, head.request, r.payload, r.bytes);
        return;
    case MOB_REQ_FLUSH:
        flush_request(&r);
        return;
    case MOB_REQ_NAME:
        name_request(&r);
        return;
    case MOB_REQ_ACTOR_KILL:
        actor_request(&r, true);
        return;
    case MOB_REQ_ACTOR_STATE:
        actor_request(&r, false);
        return;
    case MOB_REQ_WHY:
        task_request(&r, true);
        return;
    case MOB_REQ_TASK:
        task_request(&r, false);
        return;
    case MOB_REQ_STATS:
        reply_json(&r, node_stats_json(node));
        return;
    case MOB_REQ_JOB:
        job_request(&r);
        return;
    case MOB_REQ_SPACE:
        space_request(&r);
        return;
    case MOB_REQ_FETCH:
        object_request(&r, true);
        return;
    case MOB_REQ_DELETE:
        object_request(&r, false);
        return;
    case MOB_REQ_LOGS:
        node_logs(node, client, head.request, r.payload, r.bytes);
        return;
    case MOB_REQ_LIVE_TASKS:
        live_tasks(&r);
        return;
    case MOB_REQ_UNDEPLOY:
        node_undeploy(node, client, head.request, r.payload, r.bytes);
        return;
    case MOB_REQ_LIVE:
        live(&r);
        return;
    case MOB_REQ_KEYED_ROOT:
        keyed_root(&r);
        return;
    }
    reply(&r, MOB_INVALID, NULL, 0);
}
