#include "server/api/engine_runtime.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/wire/session.h"
#include "gcs/client/losses.h"
#include "server/api/engine_event_specs.h"
#include "server/api/engine_inner.h"
#include "server/api/engine_metrics.h"
#include "server/api/engine_whole.h"
#include "server/events/events.h"

#define RETRY_CONNECT_NS (20 * MOB_MS)
#define CONNECT_TIMEOUT_NS (500 * MOB_MS)
/* Looks at mailbox and ring before sleeping: cheaper than a wake-up while work is under way. */
#define LOOKS_BEFORE_SLEEP 1
#define ALIVE_INTERVAL_NS MOB_MS
#define END_SESSIONS_NS MOB_SEC

struct session *engine_session(struct engine *engine, bool has_job, struct mob_job_id job)
{
    if (engine->session_count == 0)
        return NULL;
    if (!has_job)
        return &engine->sessions[0];
    for (size_t i = 0; i < engine->session_count; i++)
        if (!engine->sessions[i].ended && memcmp(&engine->sessions[i].job, &job, sizeof job) == 0)
            return &engine->sessions[i];
    return NULL;
}

/* --- the mailbox; any thread --- */

static void post(struct mob_engine *base, struct mob_engine_op *op)
{
    struct engine *engine = (struct engine *)base;
    if (atomic_load(&engine->stopping) || atomic_load(&engine->queued) >= MOB_ENGINE_QUEUE_MAX) {
        mob_engine_op_fail(op, atomic_load(&engine->stopping) ? MOB_UNAVAILABLE : MOB_QUEUE_FULL, NULL,
            "%u operations wait already", MOB_ENGINE_QUEUE_MAX);
        op->done(op);
        return;
    }
    atomic_fetch_add(&engine->queued, 1);
    struct mob_engine_op *head = atomic_load_explicit(&engine->inbox, memory_order_relaxed);
    do
        op->next = head;
    while (!atomic_compare_exchange_weak(&engine->inbox, &head, op));
    engine_ring(engine);
}

static int64_t unacked_since(struct mob_engine *base)
{
    return atomic_load(&((struct engine *)base)->unacked_since_ns);
}

static int64_t store_away_since(struct mob_engine *base)
{
    struct engine *engine = (struct engine *)base;
    int64_t away = atomic_load(&engine->gcs_away_since_ns), silent = atomic_load(&engine->silence.since_ns);
    return away == 0 || (silent != 0 && silent < away) ? silent : away;
}

static bool ready(struct mob_engine *base)
{
    return atomic_load(&((struct engine *)base)->is_ready);
}

static void events_want(struct mob_engine *base)
{
    struct engine *engine = (struct engine *)base;
    atomic_store(&engine->events_unwanted, false);
    atomic_store(&engine->events_wanted, true);
    engine_ring(engine);
}

static void events_behind(struct mob_engine *base)
{
    struct engine *engine = (struct engine *)base;
    atomic_store(&engine->events_behind, true);
    engine_ring(engine);
}

static void events_stop(struct mob_engine *base)
{
    struct engine *engine = (struct engine *)base;
    atomic_store(&engine->events_unwanted, true);
    engine_ring(engine);
}

/* --- operations --- */

/* New work from outside. What runs already goes on, and may submit what it needs to finish. */
static bool makes_lineage(enum mob_engine_verb verb)
{
    return verb == MOB_ENGINE_SUBMIT || verb == MOB_ENGINE_BATCH || verb == MOB_ENGINE_OBJECT_PUT;
}

static bool refused_for_memory(struct flight *flight)
{
    struct mob_gcs_position at;
    mob_gcs_position(flight->engine->gcs, &at);
    if (!at.pressure || MOB_FAILPOINT("gateway.cap_unheard"))
        return false;
    flight->op->error.retry_after_s = 1;
    flight_fail(flight, MOB_GCS_FULL, NULL,
        "the control store holds %llu bytes of %llu: purge ended jobs (DELETE /api/v1/jobs/{id}?purge=true), "
        "or "
        "raise gcs-soft-bytes",
        (unsigned long long)at.memory_bytes, (unsigned long long)at.memory_soft_bytes);
    return true;
}

static void start(struct engine *engine, struct mob_engine_op *op, bool alive)
{
    static void (*const starters[])(struct flight *) = {
        [MOB_ENGINE_SUBMIT] = engine_start_submit,
        [MOB_ENGINE_BATCH] = engine_start_batch,
        [MOB_ENGINE_OBJECT_GET] = engine_start_object_get,
        [MOB_ENGINE_OBJECT_WAIT] = engine_start_object_wait,
        [MOB_ENGINE_OBJECT_PUT] = engine_start_object_put,
        [MOB_ENGINE_OBJECT_DELETE] = engine_start_object_delete,
        [MOB_ENGINE_TASK_CANCEL] = engine_start_cancel,
        [MOB_ENGINE_ACTOR_DELETE] = engine_start_actor_delete,
        [MOB_ENGINE_FUNCTION_PUT] = engine_start_function_put,
        [MOB_ENGINE_FUNCTION_DELETE] = engine_start_function_delete,
        [MOB_ENGINE_JOB_OPEN] = engine_start_job_open,
        [MOB_ENGINE_JOB_END] = engine_start_job_end,
        [MOB_ENGINE_ENDPOINT_PUT] = engine_start_endpoint_put,
        [MOB_ENGINE_ENDPOINT_DELETE] = engine_start_endpoint_delete,
        [MOB_ENGINE_INFER] = engine_start_infer,
        [MOB_ENGINE_DESCRIBE] = engine_start_describe,
        [MOB_ENGINE_LIST] = engine_start_list,
        [MOB_ENGINE_WHY] = engine_start_why,
        [MOB_ENGINE_ITEMS] = engine_start_items,
        [MOB_ENGINE_LINEAGE] = engine_start_lineage,
        [MOB_ENGINE_TIMELINE] = engine_start_timeline,
        [MOB_ENGINE_LOGS] = engine_start_logs,
        [MOB_ENGINE_CLUSTER] = engine_start_cluster,
        [MOB_ENGINE_METRICS] = engine_start_metrics,
        [MOB_ENGINE_READY] = engine_start_ready,
        [MOB_ENGINE_KEY_KEEP] = engine_start_key_keep,
    };
    struct flight *flight = flight_create(engine, op);
    bool asks_node = op->verb != MOB_ENGINE_METRICS; /* where it is one of those that are asked */
    if ((asks_node && !alive) || atomic_load(&engine->stopping)) {
        flight_fail(flight, MOB_UNAVAILABLE, NULL, "%s", engine_away_why(engine));
        return;
    }
    flight->client = alive ? engine->sessions[0].client : NULL;
    if (makes_lineage(op->verb) && refused_for_memory(flight))
        return;
    if (op->key && op->verb != MOB_ENGINE_KEY_KEEP)
        engine_key_claim(flight, starters[op->verb]);
    else
        starters[op->verb](flight);
}

static bool is_alive(struct engine *engine)
{
    int64_t now = mob_now();
    if (now - engine->alive_checked_ns > ALIVE_INTERVAL_NS) {
        engine->alive_checked_ns = now;
        engine->alive = mob_client_alive(engine->sessions[0].client);
    }
    return engine->alive;
}

static void take_inbox(struct engine *engine)
{
    struct mob_engine_op *newest = atomic_exchange(&engine->inbox, NULL), *oldest = NULL;
    while (newest) {
        struct mob_engine_op *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    uint32_t taken = 0;
    /* Some first steps wait for the node's answer, which a dead one does not give. */
    bool alive = oldest && engine->session_count > 0 && is_alive(engine);
    for (struct mob_engine_op *op = oldest, *next; op; op = next) {
        next = op->next;
        op->next = NULL;
        start(engine, op, alive);
        taken++;
    }
    if (taken > 0)
        atomic_fetch_sub(&engine->queued, taken);
    engine->worked += taken;
}

/* --- connections --- */

void engine_watch_session(struct engine *engine, struct session *session)
{
    if (session == &engine->sessions[0]) {
        mob_client_own_loop(session->client); /* engine_sleep.c */
        return;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = mob_client_fd(session->client)};
    session->in_epoll = epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event) == 0;
}

static void look_alive(struct engine *engine)
{
    bool alive = engine->session_count > 0 && mob_client_alive(engine->sessions[0].client);
    atomic_store(&engine->is_ready, alive && engine->gcs_up && engine_models_loaded(engine));
}

static void connect_runtime(struct engine *engine, int64_t now)
{
    char path[512];
    engine->retry_connect_ns = now + RETRY_CONNECT_NS;
    snprintf(path, sizeof path, "%s/%s", engine->options.directory, MOB_NODE_SOCKET_NAME);
    if (access(path, F_OK) != 0)
        return;
    struct mob_connect_options options = {.struct_size = sizeof options,
        .directory = engine->options.directory,
        .job_name = "gateway",
        .standing_job = true,
        .gateway = true,
        .timeout_ns = CONNECT_TIMEOUT_NS};
    struct session *session = &engine->sessions[0];
    if (mob_connect(&options, &session->client) != MOB_OK)
        return;
    char job[MOB_TEXT_ID_MAX];
    mob_client_job(session->client, job);
    if (mob_job_id_parse(job, &session->job) != MOB_OK)
        memset(&session->job, 0, sizeof session->job);
    engine->session_count = 1;
    mob_client_asks_room(session->client, true);
    engine_watch_session(engine, session);
    MOB_LOG_INFO("engine", "connected", "job=%s", job);
    engine_functions_refresh(engine, NULL, NULL);
    engine_models_load(engine);
    look_alive(engine);
}

static void on_gcs_link(void *arg, enum mob_status status)
{
    struct engine *engine = arg;
    engine->gcs_up = status == MOB_OK;
    if (engine->gcs_up)
        atomic_store(&engine->gcs_away_since_ns, 0);
    else if (atomic_load(&engine->gcs_away_since_ns) == 0)
        atomic_store(&engine->gcs_away_since_ns, mob_now());
    look_alive(engine);
    engine->worked++;
    if (engine->gcs_up && engine->session_count > 0)
        engine_functions_refresh(engine, NULL, NULL);
}

/* The control store has lost the standing job, and with it all that this process knows of: functions, models,
 * sessions. The next process begins with what there is. */
static void end_if_refused(const struct engine *engine)
{
    if (engine->session_count == 0 || !mob_client_refused(engine->sessions[0].client))
        return;
    MOB_LOG_ERROR("engine", "ends", "why=\"the node does not know the standing job any more\"");
    kill(getpid(), SIGTERM); /* as a person would: who waits is answered 503 */
}

static void step_gcs(struct engine *engine, int64_t now)
{
    engine->gcs_next_ns = mob_gcs_step(engine->gcs, now);
    /* at each step: an older one would hold answers that have come meanwhile for silence */
    atomic_store_explicit(&engine->silence.since_ns, mob_gcs_silent_since(engine->gcs), memory_order_relaxed);
}

static void each_second(struct engine *engine, int64_t now)
{
    engine_jobs_tick(engine);
    end_if_refused(engine);
    engine->next_second_ns = now + MOB_SEC;
    step_gcs(engine, now);
    engine_silence_tick(engine, now);
    look_alive(engine);
    if (engine->session_count > 0)
        engine_models_load(engine);
    engine_orphans_tick(engine, now);
    engine_keys_sweep(engine, now);
    mob_events_tick(engine->options.events, now);
}

/* --- the loop --- */

static int64_t next_wake(const struct engine *engine, int64_t wake)
{
    if (engine->timer_count > 0 && engine->timers[0]->deadline_ns < wake)
        wake = engine->timers[0]->deadline_ns;
    if (engine->gcs_next_ns < wake)
        wake = engine->gcs_next_ns;
    if (engine->session_count == 0 && engine->retry_connect_ns < wake)
        wake = engine->retry_connect_ns;
    if (engine->gcs_up && engine->history_next_ns < wake)
        wake = engine->history_next_ns;
    if (engine->next_second_ns < wake)
        wake = engine->next_second_ns;
    return wake;
}

/* The control store has sent something, or the node has, to a job's session. */
static void step_descriptors(struct engine *engine, int64_t now)
{
    for (size_t i = 1; i < engine->session_count; i++)
        engine->worked += (uint64_t)mob_client_step(engine->sessions[i].client);
    step_gcs(engine, now);
    engine_descriptors_read(engine);
}

/* One round, in this order: what came in is published, then one acknowledgement is asked for all of it, then
 * what has become ready is answered. Returns when there is something to do by time. */
static int64_t round_of(struct engine *engine, int64_t now)
{
    uint64_t before = engine->worked;
    take_inbox(engine);
    engine_errands_step(engine);
    int64_t wake = engine_models_step(engine, now);
    engine_ask_for_acks(engine, now);
    /* Reading the rings costs no system call; a whole step of the clients does, and is for before the sleep.
     */
    for (size_t i = 0; i < engine->session_count; i++)
        engine->worked += mob_client_turn(engine->sessions[i].client);
    if (engine_descriptor_news(engine))
        step_descriptors(engine, now);
    else if (now >= engine->gcs_next_ns)
        step_gcs(engine, now);
    else
        engine->gcs_next_ns = mob_gcs_send(engine->gcs); /* what this round asked */
    engine_events_step(engine);
    engine_history_step(engine, now);
    engine_run_deadlines(engine, now);
    engine_whole_step(engine, now, engine->worked != before);
    engine_drop_returned(engine);
    engine_infer_flush_drops(engine);
    if (engine->session_count == 0 && now >= engine->retry_connect_ns)
        connect_runtime(engine, now);
    if (now >= engine->next_second_ns)
        each_second(engine, now);
    else if (!atomic_load(&engine->is_ready)) /* private: engine */
        look_alive(engine);
    return wake;
}

/* What may be put off while there is work: releases go out, doorbells are armed, a node that is gone is
 * noticed.
 */
static void step_clients(struct engine *engine)
{
    for (size_t i = 0; i < engine->session_count; i++)
        engine->worked += (uint64_t)mob_client_step(engine->sessions[i].client);
}

static void *engine_thread(void *argument)
{
    struct engine *engine = argument;
    pthread_setname_np(pthread_self(), "engine");
    unsigned looks = 0;
    while (!atomic_load(&engine->stopping)) {
        uint64_t before = engine->worked;
        int64_t wake = round_of(engine, mob_now());
        if (engine->worked != before) {
            looks = 0;
        } else if (engine->flights > 0 && looks < LOOKS_BEFORE_SLEEP) {
            looks++;
            sched_yield();
        } else {
            step_clients(engine);
            if (engine->worked == before)
                engine_sleep(engine, next_wake(engine, wake));
            looks = 0;
        }
    }
    return NULL;
}

/* --- life --- */

/* Whoever asked frees what it would have been answered with; each knows its own. */
static void forget_answer(mob_answer_fn *answer, void *arg)
{
    engine_forget_acks(answer, arg);
    engine_metrics_forget(answer, arg);
    engine_wait_forget(answer, arg);
}

/* What the control store owes is answered, so that it frees what it holds. From then on nothing may call
 * back: every flight ends, and what is still asked of the node is forgotten. */
static void end_all(struct engine *engine)
{
    mob_gcs_close(engine->gcs);
    for (size_t i = 0; i < engine->session_count; i++)
        mob_asks_forget(engine->sessions[i].client, forget_answer);
    engine->closing = true;
    engine_whole_close(engine);
    while (engine->all)
        flight_fail(engine->all, MOB_UNAVAILABLE, NULL, "the gateway is shutting down");
}

/* What was acknowledged is in the log. The rest, cancels and releases, reaches a node that is well at once;
 * one that hangs must not keep the next gateway from serving. */
static void end_sessions(struct engine *engine)
{
    int64_t end_ns = mob_now() + END_SESSIONS_NS;
    for (size_t i = engine->session_count; i-- > 0;) {
        struct mob_client *client = engine->sessions[i].client;
        int64_t left = end_ns - mob_now();
        enum mob_status status = left > 0 && mob_client_alive(client) ? mob_flush(client, left) : MOB_OK;
        if (status != MOB_OK && status != MOB_FINISHED) /* that says its job has ended */
            MOB_LOG_WARN("engine", "session_unflushed", "slots=%zu", i + 1);
        mob_client_abandon(client);
    }
}

static void stop(struct mob_engine *base)
{
    struct engine *engine = (struct engine *)base;
    atomic_store(&engine->stopping, true);
    engine_ring(engine);
    pthread_join(engine->thread, NULL);
    engine_errands_stop(engine); /* rings the engine's bell */
    engine_rest_stop(engine);
    take_inbox(engine); /* answers MOB_UNAVAILABLE */
    end_all(engine);
    engine_drop_returned(engine);
    engine_models_destroy(engine);
    engine_events_unsubscribe(engine);
    end_sessions(engine);
    mob_gcs_destroy(engine->gcs);
    mob_losses_destroy(engine->losses);
    engine_keys_end(engine);
    mob_block_decoder_destroy(engine->decoder);
    mob_block_decoder_destroy(engine->event_decoder);
    engine_events_end(engine);
    event_specs_destroy(engine->event_specs);
    engine_history_destroy(engine);
    engine_functions_end(engine);
    engine_room_end(engine);
    engine_errands_end(engine);
    free(engine->timers);
    free(engine);
}

static const struct mob_engine_ops runtime_ops = {
    post, ready, unacked_since, store_away_since, events_want, events_behind, events_stop, stop};

static enum mob_status open_parts(struct engine *engine)
{
    engine->held_end = &engine->held;
    engine->timers = calloc(ENGINE_TIMERS_MAX, sizeof(struct flight *));
    engine->decoder = mob_block_decoder_create();
    engine->event_decoder = mob_block_decoder_create();
    engine->event_specs = event_specs_create(engine);
    if (!engine->timers || !engine->decoder || !engine->event_decoder || !engine->event_specs ||
        engine_models_create(engine) != MOB_OK || engine_history_create(engine) != MOB_OK)
        return MOB_NO_MEMORY;
    struct mob_gcs_options options = {.socket_path = engine->options.gcs_socket,
        .cluster = engine->options.cluster,
        .secret = engine->options.secret,
        .on_link = on_gcs_link,
        .arg = engine};
    enum mob_status status = engine_errands_start(engine);
    if (status == MOB_OK)
        status = mob_gcs_create(&options, &engine->gcs);
    if (status == MOB_OK)
        status = mob_losses_create(engine->gcs, engine->options.retention_ns, &engine->losses);
    return status == MOB_OK ? engine_rest_start(engine) : status;
}

enum mob_status mob_engine_runtime_start(
    const struct mob_engine_runtime_options *options, struct mob_engine **engine_out)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return MOB_NO_MEMORY;
    engine->base.ops = &runtime_ops;
    engine->options = *options;
    atomic_init(&engine->gcs_away_since_ns, mob_now());
    enum mob_status status = open_parts(engine);
    if (status == MOB_OK && pthread_create(&engine->thread, NULL, engine_thread, engine) != 0)
        status = MOB_IO;
    if (status != MOB_OK) { /* the gateway ends with it; parts that were opened go with the process */
        MOB_LOG_ERROR("engine", "start_failed", "code=%s", mob_status_code(status));
        free(engine);
        return status;
    }
    *engine_out = &engine->base;
    return MOB_OK;
}
