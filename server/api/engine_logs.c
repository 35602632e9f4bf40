/* What a task or an actor wrote: the node keeps it by worker and task; an actor's log is its construction's
 * output and then that of its calls, in order.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"

#define POLL_NS (100 * MOB_MS)
/* Calls of an actor that one request reads. */
#define PLACES_MAX 4096u

struct output_place {
    struct mob_task_id task;
    uint32_t worker;
};

struct log_reading {
    struct flight *flight;
    struct mob_actor_id actor; /* whose log it is, or zero */
    struct output_place *places;
    size_t count, next;
    uint64_t asked_from; /* of the place's output */
    size_t got;
    bool wanted_more;
    uint64_t length; /* of all output so far, also of what is before the offset */
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

static void on_log(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct log_reading *reading = arg;
    uint64_t total = 0;
    if (status == MOB_OK && size >= sizeof total) { /* else: rotated away */
        memcpy(&total, text, sizeof total);
        mob_text_put(&reading->flight->op->json, text + sizeof total, size - sizeof total);
        reading->length += total;
        reading->got = size - sizeof total;
        reading->wanted_more = total > reading->asked_from + reading->got;
    } else {
        reading->got = 0;
        reading->wanted_more = false;
    }
    /* A node's answer holds less than a page of ours may. */
    if (!reading->wanted_more || reading->got == 0 ||
        reading->flight->op->json.length >= reading->flight->op->query.limit)
        reading->next++;
    else
        reading->length -= total; /* of the same place again */
    read_next(reading);
}

static void read_next(struct log_reading *reading)
{
    struct flight *flight = reading->flight;
    struct mob_engine_query *query = &flight->op->query;
    if (reading->next == reading->count) {
        log_end(reading);
        return;
    }
    /* The next byte that is wanted, and where in this place's output it is. */
    uint64_t at = query->offset + flight->op->json.length;
    reading->asked_from = at > reading->length ? at - reading->length : 0;
    struct mob_log_question question = {.task = reading->places[reading->next].task,
        .actor = reading->actor,
        .offset = reading->asked_from,
        .max = (uint32_t)(query->limit - flight->op->json.length),
        .worker = reading->places[reading->next].worker};
    enum mob_status status =
        mob_ask(flight->client, MOB_REQ_LOGS, &question, sizeof question, on_log, reading);
    if (status != MOB_OK) {
        free(reading->places);
        free(reading);
        flight_fail_client(flight, status, NULL);
        return;
    }
}

/* Where the output of a task, or of an actor's construction and of its calls in order, was written, as far as
 * the lineage knows: the node knows better while they live. */
static size_t places_of(
    const struct engine_found *found, struct mob_task_id task, bool actor, struct output_place **places_out)
{
    const struct task_record *record = found->record;
    struct actor_edge *edges = NULL;
    size_t n = actor ? lineage_set_edges(found->set, (struct mob_actor_id){task}, &edges) : 0;
    uint32_t worker = record && record->has_completion ? record->completion.worker : MOB_LOG_NO_WORKER;
    struct output_place *places = calloc(n + 1, sizeof *places);
    MOB_ASSERT(places != NULL);
    places[0] = (struct output_place){task, worker};
    for (size_t i = 0; i < n; i++)
        places[i + 1] = (struct output_place){edges[i].task, worker};
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
    if (found->known == ENGINE_NEVER || (of_actor && !engine_is_actor(found))) {
        flight_fail(flight, MOB_NOT_FOUND, NULL, of_actor ? "no such actor" : "no such task");
        return;
    }
    struct log_reading *reading = calloc(1, sizeof *reading);
    MOB_ASSERT(reading != NULL);
    reading->flight = flight;
    reading->finished = found->known == ENGINE_FINISHED && !of_actor;
    if (of_actor)
        reading->actor = actor;
    reading->count = places_of(found, task, of_actor, &reading->places);
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
