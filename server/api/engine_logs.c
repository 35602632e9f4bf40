/* What a task or an actor wrote: the node keeps it by worker and task. A task's log is the output of its
 * attempts, each in the worker that it ran in, and a line in front of each later one; an actor's log is its
 * construction's output and then that of its calls, in order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"

#define POLL_NS (100 * MOB_MS)
/* Calls of an actor, or attempts of a task, that one request reads. */
#define PLACES_MAX 4096u

struct output_place {
    struct mob_task_id task;
    uint32_t worker;
    uint32_t attempt; /* 0: of all in this worker */
};

struct log_reading {
    struct flight *flight;
    struct mob_actor_id actor; /* whose log it is, or zero */
    struct output_place *places;
    size_t count, next;
    uint64_t asked_from; /* of the place's output */
    uint64_t length; /* of all output so far, also of what is before the offset */
    bool marks; /* attempts, with lines between */
    char mark[48]; /* in front of the place's output, if it has any; not terminated */
    size_t mark_length;
    bool finished;
};

static void look(struct flight *flight);

static void log_end(struct log_reading *reading)
{
    struct flight *flight = reading->flight;
    struct mob_engine_query *query = &flight->op->query;
    bool nothing_new = flight->op->json.length == 0 && !reading->finished;
    query->total = reading->length;
    query->ended = reading->finished && query->offset + flight->op->json.length >= reading->length;
    free(reading->places);
    free(reading);
    if (nothing_new && query->follow && mob_now() < query->wait_deadline_ns)
        flight_set_deadline(flight, mob_now() + POLL_NS, look);
    else
        flight_done(flight);
}

static void read_next(struct log_reading *reading);

/* As much of it as the page has room for; how much. */
static size_t take(struct log_reading *reading, const char *text, size_t size)
{
    struct mob_engine_op *op = reading->flight->op;
    size_t room = op->query.limit > op->json.length ? op->query.limit - op->json.length : 0;
    size = size < room ? size : room;
    mob_text_put(&op->json, text, size);
    return size;
}

static void on_log(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct log_reading *reading = arg;
    const struct mob_engine_op *op = reading->flight->op;
    uint64_t total = 0;
    bool more = false; /* of the same place: a node's answer holds less than a page of ours may */
    if (status == MOB_OK && size >= sizeof total) /* else: rotated away */
        memcpy(&total, text, sizeof total);
    if (total > 0) {
        uint64_t at = op->query.offset + op->json.length;
        uint64_t skip = at > reading->length ? at - reading->length : 0;
        if (skip < reading->mark_length)
            take(reading, reading->mark + skip, reading->mark_length - skip);
        size_t got = take(reading, text + sizeof total, size - sizeof total);
        more = got > 0 && total > reading->asked_from + got && op->json.length < op->query.limit;
    }
    if (!more) {
        reading->length += total > 0 ? reading->mark_length + total : 0;
        reading->next++;
    }
    read_next(reading);
}

/* The line is a function of what was before it, so that places in the log stay what they are. */
static void write_mark(struct log_reading *reading, uint32_t attempt)
{
    reading->mark_length = 0;
    if (reading->marks && attempt > 1)
        reading->mark_length = (size_t)snprintf(reading->mark, sizeof reading->mark, "%s--- attempt %u ---\n",
            reading->length > 0 ? "\n" : "", attempt);
}

static void read_next(struct log_reading *reading)
{
    struct flight *flight = reading->flight;
    struct mob_engine_query *query = &flight->op->query;
    if (reading->next == reading->count) {
        log_end(reading);
        return;
    }
    const struct output_place *place = &reading->places[reading->next];
    write_mark(reading, place->attempt);
    /* The next byte that is wanted, and where in this place's output it is. */
    uint64_t at = query->offset + flight->op->json.length, begin = reading->length + reading->mark_length;
    reading->asked_from = at > begin ? at - begin : 0;
    struct mob_log_question question = {.task = place->task,
        .actor = reading->actor,
        .offset = reading->asked_from,
        .max = (uint32_t)(query->limit - flight->op->json.length),
        .worker = place->worker,
        .attempt = place->attempt};
    enum mob_status status =
        mob_ask(flight->client, MOB_REQ_LOGS, &question, sizeof question, on_log, reading);
    if (status != MOB_OK) {
        free(reading->places);
        free(reading);
        flight_fail_client(flight, status, NULL);
        return;
    }
}

/* The newest attempt, and the worker that it ended in, if it has. */
static struct output_place newest_attempt(const struct engine_found *found, struct mob_task_id task)
{
    const struct task_record *record = found->record;
    json_int_t live = json_integer_value(json_object_get(found->live, "attempt"));
    bool ended = record && record->has_completion && (live == 0 || found->known == ENGINE_FINISHED);
    if (ended)
        return (struct output_place){task, record->completion.worker, record->completion.attempt};
    uint32_t logged = record && record->has_spec ? record->spec.attempt : 1;
    return (struct output_place){task, MOB_LOG_NO_WORKER, live > 0 ? (uint32_t)live : logged};
}

/* Where the attempts of a task were written, as far as the lineage knows, or the one that is asked for. Of
 * one that died with its node nobody knows the worker. */
static size_t attempts_of(const struct engine_found *found, struct mob_task_id task, uint32_t wanted,
    struct output_place **places_out)
{
    const struct task_record *record = found->record;
    size_t retried = record ? record->retried_count : 0, n = 0;
    struct output_place *places = calloc(retried + 1, sizeof *places), last = newest_attempt(found, task);
    MOB_ASSERT(places != NULL);
    for (size_t i = 0; i < retried; i++) {
        const struct lineage_attempt *a = &record->retried[i];
        if (a->attempt < last.attempt && (wanted == 0 || a->attempt == wanted))
            places[n++] = (struct output_place){task, a->worker, a->attempt};
    }
    if (wanted == 0 || last.attempt == wanted)
        places[n++] = last;
    *places_out = places;
    return n;
}

/* Where the output of an actor's construction and of its calls in order was written, as far as the lineage
 * knows: the node knows better while it lives. */
static size_t calls_of(
    const struct engine_found *found, struct mob_task_id task, struct output_place **places_out)
{
    const struct task_record *record = found->record;
    struct actor_edge *edges = NULL;
    size_t n = lineage_set_edges(found->set, (struct mob_actor_id){task}, &edges);
    uint32_t worker = record && record->has_completion ? record->completion.worker : MOB_LOG_NO_WORKER;
    struct output_place *places = calloc(n + 1, sizeof *places);
    MOB_ASSERT(places != NULL);
    places[0] = (struct output_place){.task = task, .worker = worker};
    for (size_t i = 0; i < n; i++)
        places[i + 1] = (struct output_place){.task = edges[i].task, .worker = worker};
    free(edges);
    *places_out = places;
    return n + 1;
}

static void on_found(struct flight *flight, const struct engine_found *found)
{
    struct mob_task_id task = {0};
    struct mob_actor_id actor;
    bool of_actor = mob_actor_id_parse(flight->op->query.id, &actor) == MOB_OK;
    if (of_actor)
        task = actor.creation;
    else if (mob_task_id_parse(flight->op->query.id, &task) != MOB_OK)
        MOB_ASSERT(!"an id that was parsed before");
    if (found->known == ENGINE_NEVER && !of_actor) {
        flight_fail_unknown(flight, "task");
        return;
    }
    if (of_actor && !engine_is_actor(found)) {
        engine_fail_no_actor(flight, found);
        return;
    }
    uint32_t wanted = flight->op->query.attempt, newest = newest_attempt(found, task).attempt;
    if (wanted > newest) {
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such attempt: the newest is %u", newest);
        return;
    }
    struct log_reading *reading = calloc(1, sizeof *reading);
    MOB_ASSERT(reading != NULL);
    reading->flight = flight;
    reading->finished = (found->known == ENGINE_FINISHED && !of_actor) || (wanted > 0 && wanted < newest);
    reading->marks = !of_actor && wanted == 0;
    if (of_actor)
        reading->actor = actor;
    reading->count = of_actor ? calls_of(found, task, &reading->places)
                              : attempts_of(found, task, wanted, &reading->places);
    if (reading->count > PLACES_MAX)
        reading->count = PLACES_MAX;
    read_next(reading);
}

static void look(struct flight *flight)
{
    struct mob_task_id task;
    struct mob_actor_id actor;
    if (mob_actor_id_parse(flight->op->query.id, &actor) == MOB_OK)
        engine_find(flight, actor.creation, ENGINE_FIND_CALLS, on_found);
    else if (mob_task_id_parse(flight->op->query.id, &task) == MOB_OK)
        engine_find(flight, task, ENGINE_FIND_RECORD, on_found);
    else
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such log");
}

void engine_start_logs(struct flight *flight)
{
    look(flight);
}
