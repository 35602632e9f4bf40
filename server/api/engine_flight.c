/* Operations on their way, and their deadlines. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "server/api/engine_submit.h"

/* --- flights --- */

struct flight *flight_create(struct engine *engine, struct mob_engine_op *op)
{
    struct flight *flight = calloc(1, sizeof *flight);
    MOB_ASSERT(flight != NULL);
    flight->engine = engine;
    flight->op = op;
    flight->all_next = engine->all;
    if (engine->all)
        engine->all->all_prev = flight;
    engine->all = flight;
    engine->flights++;
    return flight;
}

void flight_done(struct flight *flight)
{
    flight_clear_deadline(flight);
    if (flight->future) {
        mob_unlisten(flight->client, &flight->waiter);
        mob_release(flight->future);
    }
    if (flight->futures) {
        for (size_t i = 0; flight->futures[i]; i++) {
            if (flight->waiters)
                mob_unlisten(flight->client, &flight->waiters[i]);
            mob_release(flight->futures[i]);
        }
        free(flight->futures);
        free(flight->waiters);
    }
    engine_returns_drop(flight);
    mob_put_drop(flight->put);
    mob_actor_release(flight->actor);
    free(flight->learns);
    *(flight->all_prev ? &flight->all_prev->all_next : &flight->engine->all) = flight->all_next;
    if (flight->all_next)
        flight->all_next->all_prev = flight->all_prev;
    flight->engine->flights--;
    struct mob_engine_op *op = flight->op;
    free(flight);
    op->done(op);
}

void flight_fail(struct flight *flight, enum mob_status status, const char *pointer, const char *format, ...)
{
    char detail[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    mob_engine_op_fail(flight->op, status, pointer, "%s", detail);
    flight_done(flight);
}

void flight_fail_client(struct flight *flight, enum mob_status status, const char *pointer)
{
    mob_engine_op_fail(flight->op, status, pointer, "%s",
        flight->client ? mob_client_error(flight->client) : mob_status_text(status));
    flight_done(flight);
}

void flight_fail_reply(struct flight *flight, enum mob_status status, const char *text, size_t size)
{
    flight_fail(flight, status, NULL, "%s%s%.*s", mob_status_text(status), size ? ": " : "",
        (int)(size < 400 ? size : 400), text ? text : "");
}

void flight_done_json(struct flight *flight, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    json_decref(value);
    if (text) {
        mob_text_puts(&flight->op->json, text);
        mob_text_putc(&flight->op->json, '\n');
    }
    free(text);
    flight_done(flight);
}

void flight_ask(struct flight *flight, const char *what, const char *subject,
    void (*callback)(void *arg, enum mob_status, const char *json, size_t size))
{
    enum mob_status status = mob_query_async(flight->client, what, subject, callback, flight);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
}

enum mob_status flight_listen(
    struct flight *flight, void (*callback)(struct mob_future *future, void *flight))
{
    return mob_listen(flight->future, &flight->waiter, callback, flight);
}

/* The check of a whole list names the argument in words: what is missing is none of those that came. */
static const char *argument_pointer(const struct flight *flight, const char *said, char *out, size_t capacity)
{
    unsigned index;
    if (sscanf(said, "argument %u", &index) != 1 || index >= json_array_size(flight->op->submit.arguments))
        return "/arguments";
    snprintf(out, capacity, "/arguments/%u", index);
    return out;
}

void flight_fail_submission(struct flight *flight, enum mob_status status, const char *pointer)
{
    char place[40];
    if (status == MOB_TYPE_MISMATCH)
        pointer = argument_pointer(flight, mob_client_error(flight->client), place, sizeof place);
    flight_fail_client(flight, status, pointer);
}

/* --- deadlines: a binary heap, each flight knows its place --- */

static void timer_place(struct engine *engine, size_t at, struct flight *flight)
{
    engine->timers[at] = flight;
    flight->timer = at + 1;
}

static void timer_up(struct engine *engine, size_t at)
{
    struct flight *flight = engine->timers[at];
    while (at > 0 && engine->timers[(at - 1) / 2]->deadline_ns > flight->deadline_ns) {
        timer_place(engine, at, engine->timers[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    timer_place(engine, at, flight);
}

static void timer_down(struct engine *engine, size_t at)
{
    struct flight *flight = engine->timers[at];
    for (size_t child; (child = 2 * at + 1) < engine->timer_count; at = child) {
        if (child + 1 < engine->timer_count &&
            engine->timers[child + 1]->deadline_ns < engine->timers[child]->deadline_ns)
            child++;
        if (engine->timers[child]->deadline_ns >= flight->deadline_ns)
            break;
        timer_place(engine, at, engine->timers[child]);
    }
    timer_place(engine, at, flight);
}

void flight_set_deadline(
    struct flight *flight, int64_t deadline_ns, void (*on_deadline)(struct flight *flight))
{
    struct engine *engine = flight->engine;
    flight_clear_deadline(flight);
    flight->on_deadline = on_deadline;
    flight->deadline_ns = deadline_ns;
    if (engine->timer_count == ENGINE_TIMERS_MAX)
        return; /* more than there can be requests; the request's own deadline ends it */
    timer_place(engine, engine->timer_count, flight);
    timer_up(engine, engine->timer_count++);
}

void flight_clear_deadline(struct flight *flight)
{
    struct engine *engine = flight->engine;
    if (flight->timer == 0)
        return;
    size_t at = flight->timer - 1;
    flight->timer = 0;
    struct flight *last = engine->timers[--engine->timer_count];
    if (last == flight)
        return;
    timer_place(engine, at, last);
    timer_up(engine, at);
    timer_down(engine, last->timer - 1);
}

void engine_run_deadlines(struct engine *engine, int64_t now)
{
    while (engine->timer_count > 0 && engine->timers[0]->deadline_ns <= now) {
        struct flight *flight = engine->timers[0];
        flight_clear_deadline(flight);
        flight->on_deadline(flight);
        engine->worked++;
    }
}
