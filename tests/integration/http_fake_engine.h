/* An engine without a runtime, for tests of the HTTP layer: echoes, sleeps, fails and keeps objects in a
 * table.
 *
 * Functions: "test.echo" gives its first argument, "test.never" never ends, "test.fail" fails,
 * "test.contested" never ends and its Idempotency-Key is never decided, "test.holds" keeps the thread that
 * submits it for FAKE_HOLD_S; others do not exist. Every submission
 * is an event of its task. One thread; it exists for one test program.
 */
#ifndef TESTS_INTEGRATION_HTTP_FAKE_ENGINE_H
#define TESTS_INTEGRATION_HTTP_FAKE_ENGINE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "server/events/events.h"
#include "server/gateway.h"

#define FAKE_OBJECTS_MAX 4096
#define FAKE_HOLD_S 3

struct fake_object {
    struct mob_object_id id;
    enum mob_engine_object_state state;
    char *bytes;
    size_t size;
    bool json;
};

struct fake_engine {
    struct mob_engine base;
    struct mob_engine_context context;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct mob_engine_op *inbox, *waiting;
    bool stopping, events_wanted;
    uint64_t events_after, seq;
    uint32_t next;
    struct fake_object objects[FAKE_OBJECTS_MAX];
    size_t object_count;
};

static struct fake_object *fake_object(struct fake_engine *e, struct mob_object_id id)
{
    for (size_t i = 0; i < e->object_count; i++)
        if (mob_object_id_eq(e->objects[i].id, id))
            return &e->objects[i];
    return NULL;
}

static struct fake_object *fake_add(struct fake_engine *e, struct mob_object_id id,
    enum mob_engine_object_state state, const char *bytes, size_t size, bool json)
{
    struct fake_object *o = &e->objects[e->object_count++ % FAKE_OBJECTS_MAX];
    *o = (struct fake_object){id, state, malloc(size + 1), size, json};
    memcpy(o->bytes, bytes, size);
    o->bytes[size] = 0;
    return o;
}

static struct mob_task_id fake_task(struct fake_engine *e)
{
    struct mob_task_id id = {.index = e->next++};
    memcpy(id.stream.b, "fake-stream!", 12);
    return id;
}

static void fake_event(struct fake_engine *e, struct mob_task_id task, const char *type)
{
    char text[MOB_ID_TEXT_MAX];
    mob_task_id_format(task, text);
    e->seq++;
    if (!e->events_wanted)
        return;
    struct mob_event event = {.place = {e->seq, 0},
        .wall_us = mob_wall_now() / 1000,
        .type = type,
        .subject = text,
        .task = text,
        .function = "test.echo",
        .data = "{\"n\":1}",
        .per_task = true};
    mob_events_publish(e->context.events, &event);
    mob_events_pass(e->context.events, 0, e->seq);
}

static bool fake_accept(
    struct fake_engine *e, const char *function, struct mob_engine_error *error, struct mob_task_id *task_out)
{
    if (strncmp(function, "test.", 5) != 0) {
        error->status = MOB_NOT_FOUND;
        error->detail = strdup("no such function");
        error->pointer = strdup("/function");
        return false;
    }
    *task_out = fake_task(e);
    return true;
}

/* Its key is never decided. */
static bool fake_contested(const struct mob_engine_op *op)
{
    return op->verb == MOB_ENGINE_SUBMIT && strcmp(op->submit.function, "test.contested") == 0;
}

/* True: done. */
static bool fake_submit(struct fake_engine *e, struct mob_engine_op *op)
{
    struct mob_engine_submit *s = &op->submit;
    if (!s->accepted) {
        if (!fake_accept(
                e, s->call == MOB_CALL_ACTOR_METHOD ? "test.echo" : s->function, &op->error, &s->task))
            return true;
        s->accepted = true;
        s->return_count = 1;
        fake_event(e, s->task, "task.submitted");
        json_t *argument = json_array_get(s->arguments, 0);
        char *text = argument ? json_dumps(argument, JSON_ENCODE_ANY | JSON_COMPACT) : strdup("null");
        enum mob_engine_object_state state =
            strcmp(s->function, "test.never") == 0 || fake_contested(op) ? MOB_OBJ_PENDING : MOB_OBJ_READY;
        if (strcmp(s->function, "test.fail") == 0)
            state = MOB_OBJ_FAILED;
        fake_add(e, mob_object_of(s->task, 0), state, text, strlen(text), true);
        free(text);
    }
    struct fake_object *o = fake_object(e, mob_object_of(s->task, 0));
    s->value.state = o->state;
    if (!s->wait_deadline_ns)
        return true;
    if (o->state == MOB_OBJ_FAILED)
        mob_engine_op_fail(op, MOB_TASK_FAILED, NULL, "it was told to");
    if (o->state == MOB_OBJ_READY)
        s->value.json = strdup(o->bytes);
    s->value.type = "json";
    return o->state != MOB_OBJ_PENDING || mob_now() >= s->wait_deadline_ns;
}

static void fake_batch(struct fake_engine *e, struct mob_engine_op *op)
{
    struct mob_engine_batch *b = &op->batch;
    b->count = json_array_size(b->rows ? b->rows : b->items);
    b->tasks = calloc(b->count + 1, sizeof *b->tasks);
    b->return_counts = calloc(b->count + 1, sizeof *b->return_counts);
    b->errors = calloc(b->count + 1, sizeof *b->errors);
    for (size_t i = 0; i < b->count; i++) {
        const char *function = b->function;
        if (b->items)
            function = json_string_value(json_object_get(json_array_get(b->items, i), "function"));
        b->return_counts[i] = 1;
        fake_accept(e, function, &b->errors[i], &b->tasks[i]);
    }
}

static bool fake_get(struct fake_engine *e, struct mob_engine_op *op)
{
    struct fake_object *o = fake_object(e, op->object.id);
    if (!o) {
        mob_engine_op_fail(op, MOB_NOT_FOUND, NULL, "no such object");
        return true;
    }
    struct mob_engine_value *v = &op->object.value;
    v->state = o->state;
    if (o->state == MOB_OBJ_PENDING)
        return mob_now() >= op->object.wait_deadline_ns;
    if (o->state == MOB_OBJ_FAILED) {
        v->state = MOB_OBJ_FAILED;
        mob_engine_op_fail(op, MOB_TASK_FAILED, NULL, "it was told to");
        return true;
    }
    struct mob_hash128 hash = mob_hash128(o->bytes, o->size);
    v->type = o->json ? "json" : "bytes";
    v->media_type = o->json ? "application/json" : "application/octet-stream";
    v->payload = o->bytes;
    v->size = o->size;
    v->hash_lo = hash.lo;
    v->hash_hi = hash.hi;
    if (op->object.want_json && o->json)
        v->json = strdup(o->bytes);
    return true;
}

static bool fake_wait(struct fake_engine *e, struct mob_engine_op *op)
{
    size_t ready = 0;
    for (size_t i = 0; i < op->wait.count; i++) {
        struct fake_object *o = fake_object(e, op->wait.ids[i]);
        op->wait.ready[i] = o && o->state != MOB_OBJ_PENDING;
        ready += op->wait.ready[i];
    }
    return ready >= op->wait.num_returns || mob_now() >= op->wait.deadline_ns;
}

static void fake_list(struct mob_engine_op *op)
{
    unsigned begin = op->query.cursor ? (unsigned)atoi(op->query.cursor) : 0, end = begin + op->query.limit;
    if (end > 250)
        end = 250;
    mob_text_puts(&op->json, "{\"items\":[");
    for (unsigned i = begin; i < end; i++)
        mob_text_printf(&op->json, "%s{\"n\":%u}", i > begin ? "," : "", i);
    char *next = NULL;
    if (end < 250 && asprintf(&next, "%u", end) < 0)
        next = NULL;
    mob_engine_next_cursor(&op->query, next);
    mob_text_puts(&op->json, "],\"next_cursor\":");
    mob_text_puts(&op->json, op->query.cursor ? "\"more\"" : "null");
    mob_text_puts(&op->json, ",\"truncated\":false}\n");
}

static void fake_destroy_result(struct mob_infer_result *result)
{
    free(result);
}

/* y = 2 x */
static void fake_infer(struct mob_engine_op *op)
{
    const struct mob_infer_tensor *in = &op->infer.request->inputs[0];
    struct mob_infer_result *result = malloc(sizeof *result + in->bytes);
    *result = (struct mob_infer_result){1, fake_destroy_result};
    float *out = (float *)(result + 1);
    for (size_t i = 0; i < in->bytes / 4; i++) {
        float v;
        memcpy(&v, in->data + 4 * i, 4);
        out[i] = 2 * v;
    }
    op->infer.result = result;
    op->infer.outputs = calloc(1, sizeof *op->infer.outputs);
    op->infer.outputs[0] = *in;
    op->infer.outputs[0].data = (const uint8_t *)out;
    mob_model_count_success(op->infer.model, op->infer.request->rows, 1000, 1000);
    mob_model_count_execution(op->infer.model);
}

static void fake_endpoint(struct fake_engine *e, struct mob_engine_op *op)
{
    struct mob_model *model;
    char why[256];
    enum mob_status status = mob_model_create(op->endpoint.name, op->endpoint.actor_class,
        "tensor<f32>[n,2] x -> tensor<f32>[n,2] y", op->endpoint.max_batch_size,
        op->endpoint.max_queue_delay_us, &model, why);
    if (status == MOB_OK)
        atomic_store(&model->ready, true);
    if (status == MOB_OK)
        status = mob_serve_put(e->context.serve, model);
    if (status != MOB_OK)
        mob_engine_op_fail(op, status, "/class", "%s", why);
    op->endpoint.created = true;
    mob_text_puts(&op->json, "{\"state\":\"ready\"}\n");
}

static bool fake_step(struct fake_engine *e, struct mob_engine_op *op)
{
    switch ((int)op->verb) {
    case MOB_ENGINE_SUBMIT:
        return fake_submit(e, op);
    case MOB_ENGINE_BATCH:
        fake_batch(e, op);
        return true;
    case MOB_ENGINE_OBJECT_GET:
        return fake_get(e, op);
    case MOB_ENGINE_OBJECT_WAIT:
        return fake_wait(e, op);
    case MOB_ENGINE_OBJECT_PUT:
        op->put.id = mob_object_of(fake_task(e), MOB_SLOT_PUT);
        fake_add(
            e, op->put.id, MOB_OBJ_READY, op->put.payload, op->put.size, strcmp(op->put.type, "json") == 0);
        return true;
    case MOB_ENGINE_JOB_OPEN:
        memset(op->job.id.root.b, 7, 12);
        return true;
    case MOB_ENGINE_FUNCTION_PUT:
        op->upload.created = true;
        mob_text_puts(&op->json, "{\"functions\":[]}\n");
        return true;
    case MOB_ENGINE_LIST:
        fake_list(op);
        return true;
    case MOB_ENGINE_LOGS:
        op->query.total = 10;
        op->query.ended = true;
        if (op->query.offset < 10)
            mob_text_puts(&op->json, &"0123456789"[op->query.offset]);
        return true;
    case MOB_ENGINE_ENDPOINT_PUT:
        fake_endpoint(e, op);
        return true;
    case MOB_ENGINE_ENDPOINT_DELETE:
        if (!mob_serve_remove(e->context.serve, op->query.id))
            mob_engine_op_fail(op, MOB_NOT_FOUND, NULL, "no such endpoint");
        return true;
    case MOB_ENGINE_INFER:
        fake_infer(op);
        return true;
    default:
        mob_text_puts(&op->json, "{\"fake\":true}\n");
        return true;
    }
}

/* Lock held: one round over everything that waits. */
static struct mob_engine_op *fake_round(struct fake_engine *e)
{
    struct mob_engine_op *done = NULL, **at = &e->waiting;
    while (*at) {
        struct mob_engine_op *op = *at;
        if (e->stopping || fake_step(e, op)) {
            *at = op->next;
            op->next = done;
            done = op;
        } else {
            at = &op->next;
        }
    }
    return done;
}

static void *fake_thread(void *argument)
{
    struct fake_engine *e = argument;
    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (e->inbox) {
            struct mob_engine_op *op = e->inbox;
            e->inbox = op->next;
            if (op->key && op->key->decided && !fake_contested(op))
                op->key->decided(op->key);
            op->next = e->waiting;
            e->waiting = op;
        }
        bool stopping = e->stopping;
        struct mob_engine_op *done = fake_round(e);
        pthread_mutex_unlock(&e->lock);
        while (done) {
            struct mob_engine_op *next = done->next;
            done->done(done);
            done = next;
        }
        pthread_mutex_lock(&e->lock);
        if (stopping && !e->inbox)
            break;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 2000000; /* deadlines of waits */
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        if (!e->inbox && e->waiting)
            pthread_cond_timedwait(&e->wake, &e->lock, &until);
        else if (!e->inbox && !e->stopping)
            pthread_cond_wait(&e->wake, &e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static void fake_post(struct mob_engine *engine, struct mob_engine_op *op)
{
    struct fake_engine *e = (struct fake_engine *)engine;
    if (op->verb == MOB_ENGINE_SUBMIT && op->submit.call != MOB_CALL_ACTOR_METHOD &&
        strcmp(op->submit.function, "test.holds") == 0)
        nanosleep(&(struct timespec){.tv_sec = FAKE_HOLD_S}, NULL);
    pthread_mutex_lock(&e->lock);
    op->next = e->inbox;
    e->inbox = op;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
}

static bool fake_ready(struct mob_engine *engine)
{
    (void)engine;
    return true;
}

static int64_t fake_unacked_since(struct mob_engine *engine)
{
    (void)engine;
    return 0;
}

static int64_t fake_store_away_since(struct mob_engine *engine)
{
    (void)engine;
    return 0;
}

/* Called under the hub's lock, so the answer comes from another thread. */
static void *fake_start_events(void *argument)
{
    struct fake_engine *e = argument;
    pthread_mutex_lock(&e->lock);
    e->events_wanted = true;
    uint64_t seq = e->seq + 100;
    e->seq = seq;
    pthread_mutex_unlock(&e->lock);
    mob_events_started(e->context.events, &seq);
    return NULL;
}

static void fake_events_want(struct mob_engine *engine)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fake_start_events, engine) == 0)
        pthread_detach(thread);
}

/* It keeps no log: whoever is behind is told so, and goes on with what is new. */
static void *fake_tell_behind(void *argument)
{
    struct fake_engine *e = argument;
    struct mob_events_behind reader;
    int64_t wake_ns;
    pthread_mutex_lock(&e->lock);
    uint64_t seq = e->seq;
    pthread_mutex_unlock(&e->lock);
    while (mob_events_behind_take(e->context.events, 0, mob_now(), &reader, &wake_ns))
        if (mob_events_behind_gap(e->context.events, 0, 0, seq + 1) &&
            mob_events_behind_turn(e->context.events, 0, mob_now()))
            mob_events_behind_pause(e->context.events, 0, mob_now());
    return NULL;
}

static void fake_events_behind(struct mob_engine *engine)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, fake_tell_behind, engine) == 0)
        pthread_detach(thread);
}

static void fake_events_stop(struct mob_engine *engine)
{
    (void)engine;
}

static void fake_stop(struct mob_engine *engine)
{
    struct fake_engine *e = (struct fake_engine *)engine;
    pthread_mutex_lock(&e->lock);
    e->stopping = true;
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    for (size_t i = 0; i < e->object_count && i < FAKE_OBJECTS_MAX; i++)
        free(e->objects[i].bytes);
    free(e);
}

static const struct mob_engine_ops fake_ops = {fake_post, fake_ready, fake_unacked_since,
    fake_store_away_since, fake_events_want, fake_events_behind, fake_events_stop, fake_stop};

static enum mob_status fake_engine_make(
    void *cls, const struct mob_engine_context *context, struct mob_engine **engine_out)
{
    (void)cls;
    struct fake_engine *e = calloc(1, sizeof *e);
    e->base.ops = &fake_ops;
    e->context = *context;
    mob_serve_set_complete(context->serve); /* there were no models before */
    e->seq = 1;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    pthread_create(&e->thread, NULL, fake_thread, e);
    *engine_out = &e->base;
    return MOB_OK;
}

#endif
