/* Jobs over HTTP. Each job that is used here has a session of its own with the node, which is opened when it
 * is needed first: a job that another gateway opened, or this one before it was restarted, is joined by its
 * id. Sessions that nothing uses make room for others; the job does not notice. Connecting waits for the
 * node, so it is an errand.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"

#define CONNECT_NS (2 * MOB_SEC)
/* The node has sent the job's row to the control store before it welcomes the session. */
#define ROW_AGAIN_NS (2 * MOB_MS)
#define ROW_TRIES 2500u

struct joining_flight {
    struct joining_flight *next;
    struct flight *flight;
    void (*then)(struct flight *flight);
};

struct job_errand {
    struct errand errand; /* first */
    struct engine *engine;
    struct job_errand *next; /* of the engine's joins */
    struct mob_connect_options options; /* borrows from here: */
    char name[64], key[MOB_ID_TEXT_MAX];
    struct flight *opens; /* or: */
    struct mob_job_id joins;
    struct joining_flight *first, **last;
    struct mob_client *client; /* the outcome */
    enum mob_status status;
    char error[256];
};

/* --- sessions --- */

static bool is_used(const struct engine *engine, const struct session *session)
{
    if (session->to_ack || session->drop_count > 0 || mob_asks_pending(session->client))
        return true;
    for (const struct flight *f = engine->all; f; f = f->all_next)
        if (f->client == session->client)
            return true;
    return false;
}

static void drop_session(struct engine *engine, size_t i)
{
    struct mob_client *client = engine->sessions[i].client;
    engine->sessions[i] = engine->sessions[--engine->session_count];
    mob_client_abandon(client);
}

/* The node that took over does not know the job any more: what waits there waits in vain. */
static void end_refused(struct engine *engine, struct session *session)
{
    if (!mob_client_refused(session->client))
        return;
    session->ended = true;
    mob_asks_fail(session->client, MOB_NOT_FOUND);
    mob_client_turn(session->client);
    for (struct flight *f = engine->all, *next; f; f = next) {
        next = f->all_next;
        if (f->client == session->client && f->future)
            flight_fail(f, MOB_NOT_FOUND, "/job", "the job has been deleted");
    }
}

void engine_jobs_tick(struct engine *engine)
{
    for (size_t i = engine->session_count; i-- > 1;) {
        end_refused(engine, &engine->sessions[i]);
        if (engine->sessions[i].ended && !is_used(engine, &engine->sessions[i]))
            drop_session(engine, i);
    }
}

static bool has_room_for_session(struct engine *engine)
{
    for (size_t i = 1; i < engine->session_count && engine->session_count > ENGINE_JOBS_MAX; i++)
        if (!is_used(engine, &engine->sessions[i]))
            drop_session(engine, i);
    return engine->session_count <= ENGINE_JOBS_MAX;
}

/* MOB_QUEUE_FULL: every session is in use. Takes the client. */
static enum mob_status keep_session(struct engine *engine, struct mob_client *client, struct mob_job_id job)
{
    enum mob_status status = MOB_OK;
    if (!engine_session(engine, true, job)) {
        status = has_room_for_session(engine) ? MOB_OK : MOB_QUEUE_FULL;
        if (status == MOB_OK) {
            struct session *session = &engine->sessions[engine->session_count++];
            *session = (struct session){.job = job, .client = client};
            mob_client_asks_room(client, true);
            engine_watch_session(engine, session);
            return MOB_OK;
        }
    }
    mob_client_abandon(client);
    return status;
}

/* --- connecting --- */

static void connect_job(struct errand *errand)
{
    struct job_errand *job = (struct job_errand *)errand;
    job->status = mob_connect(&job->options, &job->client);
    if (job->status != MOB_OK)
        snprintf(job->error, sizeof job->error, "%s", mob_connect_error());
}

static struct job_errand *errand_new(struct engine *engine, void (*done)(struct errand *errand))
{
    struct job_errand *job = calloc(1, sizeof *job);
    MOB_ASSERT(job != NULL);
    job->errand = (struct errand){.run = connect_job, .done = done};
    job->engine = engine;
    job->last = &job->first;
    job->options = (struct mob_connect_options){.struct_size = sizeof job->options,
        .directory = engine->options.directory,
        .gateway = true,
        .timeout_ns = CONNECT_NS};
    return job;
}

/* --- opening --- */

static void look_for_row(struct flight *flight);

static void on_row(void *arg, const struct mob_gcs_answer *answer)
{
    struct flight *flight = arg;
    flight->engine->worked++;
    if (answer->status == MOB_OK)
        flight_done(flight);
    else if (answer->status == MOB_NOT_FOUND && flight->step++ < ROW_TRIES)
        flight_set_deadline(flight, mob_now() + ROW_AGAIN_NS, look_for_row);
    else
        flight_fail(flight, MOB_UNAVAILABLE, NULL, "the control store does not say that it has the job");
}

/* 201 means that the control store has it. */
static void look_for_row(struct flight *flight)
{
    const struct mob_job_id *id = &flight->op->job.id;
    enum mob_status status = mob_gcs_get(flight->engine->gcs, MOB_GCS_JOBS, id, sizeof *id, on_row, flight);
    if (status != MOB_OK)
        flight_fail(flight, status, NULL, "the control store does not answer");
}

static void opened(struct errand *errand)
{
    struct job_errand *job = (struct job_errand *)errand;
    struct flight *flight = job->opens;
    struct mob_job_id *id = &flight->op->job.id;
    char text[MOB_TEXT_ID_MAX];
    if (job->status == MOB_OK) {
        mob_client_job(job->client, text);
        job->status = mob_job_id_parse(text, id);
        MOB_ASSERT(job->status == MOB_OK);
        job->status = keep_session(job->engine, job->client, *id);
        snprintf(job->error, sizeof job->error, "%d jobs are in use here already", ENGINE_JOBS_MAX);
    }
    flight->step = 0;
    if (job->status == MOB_OK)
        look_for_row(flight);
    else
        flight_fail(flight, job->status, NULL, "%s", job->error);
    free(job);
}

void engine_start_job_open(struct flight *flight)
{
    const struct mob_engine_job *asked = &flight->op->job;
    struct job_errand *job = errand_new(flight->engine, opened);
    snprintf(job->name, sizeof job->name, "%s", asked->name);
    job->options.job_name = job->name;
    job->options.idempotency_key = flight->keyed ? mob_task_id_format(flight->key_root, job->key) : NULL;
    job->options.detached = asked->detached;
    job->options.job_weight = asked->weight;
    job->opens = flight;
    engine_errand(flight->engine, &job->errand);
}

/* --- joining --- */

static void tell_joined(const struct job_errand *job, struct flight *flight, void (*then)(struct flight *))
{
    if (job->status == MOB_OK)
        then(flight);
    else if (job->status == MOB_NOT_FOUND)
        flight_fail(flight, MOB_NOT_FOUND, "/job", "no such job");
    else if (job->status == MOB_FINISHED)
        flight_fail(flight, MOB_FINISHED, "/job", "the job has ended");
    else
        flight_fail(flight, job->status, NULL, "%s", job->error);
}

static void joined(struct errand *errand)
{
    struct job_errand *job = (struct job_errand *)errand;
    struct job_errand **place = &job->engine->joins;
    while (*place != job)
        place = &(*place)->next;
    *place = job->next;
    if (job->status == MOB_OK) {
        job->status = keep_session(job->engine, job->client, job->joins);
        snprintf(job->error, sizeof job->error, "%d jobs are in use here already", ENGINE_JOBS_MAX);
    }
    for (struct joining_flight *f = job->first, *next; f; f = next) {
        next = f->next;
        tell_joined(job, f->flight, f->then);
        free(f);
    }
    free(job);
}

void engine_job_join(struct flight *flight, struct mob_job_id id, void (*then)(struct flight *flight))
{
    struct engine *engine = flight->engine;
    struct job_errand *job = engine->joins;
    while (job && memcmp(&job->joins, &id, sizeof id) != 0)
        job = job->next;
    if (!job) {
        job = errand_new(engine, joined);
        job->joins = id;
        job->options.join_job = mob_job_id_format(id, job->name);
        job->next = engine->joins;
        engine->joins = job;
        engine_errand(engine, &job->errand);
    }
    struct joining_flight *waiting = malloc(sizeof *waiting);
    MOB_ASSERT(waiting != NULL);
    *waiting = (struct joining_flight){.flight = flight, .then = then};
    *job->last = waiting;
    job->last = &waiting->next;
}

/* --- ending --- */

static void on_job_ended(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct flight *flight = arg;
    struct mob_job_id job;
    struct session *session = mob_job_id_parse(flight->op->query.id, &job) == MOB_OK
        ? engine_session(flight->engine, true, job)
        : NULL;
    if (status == MOB_OK && session && session != &flight->engine->sessions[0])
        session->ended = true;
    if (status == MOB_OK)
        flight_done(flight);
    else
        flight_fail_reply(flight, status, text, size);
}

/* Says the node, of a job that another gateway has ended. */
void engine_job_has_ended(struct flight *flight)
{
    struct engine *engine = flight->engine;
    for (size_t i = 1; i < engine->session_count; i++)
        if (engine->sessions[i].client == flight->client)
            engine->sessions[i].ended = true;
    flight_fail(flight, MOB_FINISHED, "/job", "the job has ended");
}

void engine_start_job_end(struct flight *flight)
{
    char request[128];
    snprintf(request, sizeof request, "{\"op\":\"%s\",\"id\":\"%s\"}",
        flight->op->query.purge ? "purge" : "end", flight->op->query.id);
    flight_ask(flight, "job", request, on_job_ended);
}
