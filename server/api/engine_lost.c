/* An id that nobody knows: it never was, or the control store has lost it (gcs/client/losses.h). */
#include <stdlib.h>

#include "common/base/log.h"
#include "gcs/client/losses.h"
#include "server/api/engine_inner.h"

struct unknown {
    struct mob_losses_wait wait;
    struct flight *flight;
    const char *what;
};

static void fail(struct flight *flight, const char *what, int64_t lost_wall_ns)
{
    char text[MOB_LOSSES_TEXT_MAX];
    if (lost_wall_ns == 0)
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such %s", what);
    else
        flight_fail(flight, MOB_LOST_UNCOMMITTED, NULL, "%s", mob_losses_text(what, lost_wall_ns, text));
}

static void on_read(struct mob_losses_wait *wait, enum mob_status status)
{
    struct unknown *unknown = (struct unknown *)wait;
    struct flight *flight = unknown->flight;
    flight->engine->worked++;
    if (status == MOB_OK)
        fail(flight, unknown->what, mob_losses_last(flight->engine->losses));
    else
        flight_fail(flight, status == MOB_CLOSED ? MOB_UNAVAILABLE : status, NULL,
            "the control store does not answer");
    free(unknown);
}

void flight_fail_unknown(struct flight *flight, const char *what)
{
    int64_t lost_wall_ns;
    if (mob_losses_known(flight->engine->losses, &lost_wall_ns)) {
        fail(flight, what, lost_wall_ns);
        return;
    }
    struct unknown *unknown = malloc(sizeof *unknown);
    MOB_ASSERT(unknown != NULL);
    *unknown = (struct unknown){.wait = {.done = on_read}, .flight = flight, .what = what};
    enum mob_status status = mob_losses_read(flight->engine->losses, &unknown->wait);
    if (status == MOB_OK)
        return;
    free(unknown);
    flight_fail(flight, status, NULL, "the control store does not answer");
}

void engine_fail_no_actor(struct flight *flight, const struct engine_found *found)
{
    if (found->known == ENGINE_NEVER)
        flight_fail_unknown(flight, "actor");
    else
        flight_fail(flight, MOB_NOT_FOUND, NULL, "no such actor");
}
