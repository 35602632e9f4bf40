/* Acknowledgements: one request to the node for all that a round published. How long the oldest waits says
 * whether the control store takes writes: one whose disk is full refuses nothing, it tries again. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"

void flight_want_ack(struct flight *flight)
{
    struct engine *engine = flight->engine;
    for (size_t i = 0; i < engine->session_count; i++) {
        struct session *session = &engine->sessions[i];
        if (session->client != flight->client)
            continue;
        flight->next = session->to_ack;
        session->to_ack = flight;
        return;
    }
    flight_fail(flight, MOB_CLOSED, NULL, "the session with the runtime has ended");
}

/* The node keeps large puts on disk and says which it could not keep; all else of the group is committed. */
static bool was_kept(const struct flight *flight, const char *not_kept)
{
    char id[MOB_TEXT_ID_MAX];
    if (!flight->future)
        return true;
    mob_future_id(flight->future, id);
    return !strstr(not_kept, id);
}

static void forget(const struct ack_group *group)
{
    struct engine *engine = group->engine;
    struct ack_group **at = &engine->acks;
    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    if (engine->acks_end == &group->next)
        engine->acks_end = at;
    atomic_store(&engine->unacked_since_ns, engine->acks ? engine->acks->asked_ns : 0);
}

/* The oldest is first, and mostly the first to be answered. */
static void remember(struct ack_group *group)
{
    struct engine *engine = group->engine;
    if (!engine->acks) {
        engine->acks_end = &engine->acks;
        atomic_store(&engine->unacked_since_ns, group->asked_ns);
    }
    *engine->acks_end = group;
    engine->acks_end = &group->next;
}

static void acknowledged(void *arg, enum mob_status status, const char *text, size_t size)
{
    bool names_puts = (status == MOB_DISK_FULL || status == MOB_IO) && size >= strlen(MOB_FLUSH_NOT_KEPT) &&
        strncmp(text, MOB_FLUSH_NOT_KEPT, strlen(MOB_FLUSH_NOT_KEPT)) == 0;
    struct ack_group *group = arg;
    for (struct flight *flight = group->first, *next; flight; flight = next) {
        next = flight->next;
        flight->next = NULL;
        flight->acked = status == MOB_OK || (names_puts && was_kept(flight, text));
        if (flight->acked)
            engine_acked(flight);
        else if (names_puts)
            flight_fail(flight, status, NULL, "the value could not be kept on disk");
        else if (status == MOB_FINISHED)
            engine_job_has_ended(flight);
        else
            flight_fail(flight, status == MOB_CLOSED ? MOB_UNAVAILABLE : status, NULL,
                "the acknowledgement did not come; the outcome is not known");
    }
    group->engine->worked++;
    group->engine->silence.acked_ns = mob_now();
    forget(group);
    free(group);
}

void engine_ask_for_acks(struct engine *engine, int64_t now)
{
    for (size_t i = 0; i < engine->session_count; i++) {
        struct session *session = &engine->sessions[i];
        if (!session->to_ack)
            continue;
        struct ack_group *group = malloc(sizeof *group);
        MOB_ASSERT(group != NULL);
        *group = (struct ack_group){.engine = engine, .first = session->to_ack, .asked_ns = now};
        session->to_ack = NULL;
        remember(group);
        enum mob_status status = mob_ask(session->client, MOB_REQ_FLUSH, NULL, 0, acknowledged, group);
        if (status != MOB_OK)
            acknowledged(group, status, NULL, 0);
    }
}

void engine_forget_acks(mob_answer_fn *answer, void *arg)
{
    if (answer == acknowledged) {
        forget(arg);
        free(arg);
    }
}
