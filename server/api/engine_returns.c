/* A submission that waits for several returns: the first is waited for like a single one, then the others,
 * one after the other. They come together, but for those that became another task's (a tail call). */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "server/api/engine_submit.h"

/* Of all values of one answer; what is beyond is named. */
#define ANSWER_BYTES_MAX (1u << 20)

struct more_returns {
    struct mob_future **futures; /* behind the first; those up to `at` are not ours any more */
    uint32_t count, at;
    struct mob_text values; /* elements of an array, as JSON */
};

void engine_returns_drop(struct flight *flight)
{
    struct more_returns *more = flight->more;
    if (!more)
        return;
    for (uint32_t i = more->at; i < more->count; i++)
        mob_release(more->futures[i]);
    free(more->futures);
    mob_text_fini(&more->values);
    free(more);
    flight->more = NULL;
}

void engine_returns_keep(struct flight *flight, struct mob_future **futures, uint32_t count)
{
    struct more_returns *more = calloc(1, sizeof *more);
    MOB_ASSERT(more != NULL);
    more->futures = calloc(count, sizeof(struct mob_future *));
    MOB_ASSERT(more->futures != NULL);
    more->count = count;
    memcpy(more->futures, futures, count * sizeof(struct mob_future *));
    flight->more = more;
}

static void add_value(struct more_returns *more, struct mob_object_id id, const char *json)
{
    char text[MOB_ID_TEXT_MAX];
    mob_text_putc(&more->values, more->values.length == 0 ? '[' : ',');
    if (json && more->values.length + strlen(json) < ANSWER_BYTES_MAX)
        mob_text_puts(&more->values, json);
    else
        mob_text_printf(&more->values, "{\"$ref\":\"%s\"}", mob_object_id_format(id, text));
}

static void take_next(struct flight *flight);

static void on_next(struct mob_future *future, void *arg)
{
    struct flight *flight = arg;
    flight->engine->worked++;
    if (flight->ack_wanted)
        return;
    char *json = NULL;
    struct mob_object_id id = mob_future_object(future);
    if (!engine_return_read(flight, &json, NULL)) { /* it failed, and so has the submission */
        flight_done(flight);
        return;
    }
    add_value(flight->more, id, json);
    free(json);
    take_next(flight);
}

static void take_next(struct flight *flight)
{
    struct more_returns *more = flight->more;
    if (more->at == more->count) {
        size_t length;
        mob_text_putc(&more->values, ']');
        flight->op->submit.results_json = mob_text_take(&more->values, &length);
        flight_done(flight);
        return;
    }
    mob_release(flight->future);
    flight->future = more->futures[more->at++];
    enum mob_status status = flight_listen(flight, on_next);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
}

void engine_returns_follow(struct flight *flight)
{
    add_value(flight->more, mob_future_object(flight->future), flight->op->submit.value.json);
    take_next(flight);
}
