/* Who needs room in a full store waits here, in order, while everybody else is served.
 *
 * The first one asks the node, which evicts and spills, and tries again when there is room; until it has it,
 * or is told that there is none to be had, those behind it do not try. So large values do not starve behind
 * small ones that come later, and the node is asked for one at a time.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "server/api/engine_inner.h"

/* Others (drivers, workers) may take what was made free. */
#define ROOM_TRIES 8u

struct room_wait {
    struct room_wait *next;
    struct flight *flight;
    void (*again)(struct flight *flight);
    void (*refused)(struct flight *flight, enum mob_status status, const char *text, size_t size);
    unsigned tries;
};

static void ask(struct engine *engine);

static struct room_wait *leave(struct engine *engine)
{
    struct room_wait *wait = engine->room.first;
    engine->room.first = wait->next;
    if (!engine->room.first)
        engine->room.last = NULL;
    return wait;
}

static void refuse(struct engine *engine, enum mob_status status, const char *text, size_t size)
{
    struct room_wait *wait = leave(engine);
    wait->refused(wait->flight, status, text, size);
    free(wait);
}

/* The first one tries. */
static bool has_room_now(struct engine *engine)
{
    struct room_wait *first = engine->room.first;
    engine->room.trying = first->flight;
    engine->room.missed = false;
    first->again(first->flight);
    engine->room.trying = NULL;
    return !engine->room.missed;
}

/* One after the other, until one has to ask again. */
static void go_on(struct engine *engine)
{
    while (engine->room.first) {
        if (!has_room_now(engine)) {
            if (engine->room.first->tries++ < ROOM_TRIES) {
                ask(engine);
                return;
            }
            refuse(engine, MOB_STORE_FULL, NULL, 0);
        } else {
            free(leave(engine));
        }
    }
}

static void on_room(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct engine *engine = arg;
    engine->worked++;
    if (engine->closing)
        return;
    if (status != MOB_OK)
        refuse(engine, status, text, size);
    go_on(engine);
}

/* For the first one, whose try has just found none. */
static void ask(struct engine *engine)
{
    enum mob_status status = mob_ask_room(engine->room.first->flight->client, on_room, engine);
    if (status == MOB_OK)
        return;
    refuse(engine, status, NULL, 0);
    go_on(engine);
}

bool engine_room_is_awaited(const struct engine *engine)
{
    return engine->room.first != NULL && engine->room.trying == NULL;
}

void flight_want_room(struct flight *flight, void (*again)(struct flight *flight),
    void (*refused)(struct flight *flight, enum mob_status status, const char *text, size_t size))
{
    struct engine *engine = flight->engine;
    if (engine->room.trying == flight) {
        engine->room.missed = true;
        return;
    }
    struct room_wait *wait = malloc(sizeof *wait);
    MOB_ASSERT(wait != NULL);
    *wait = (struct room_wait){
        .flight = flight, .again = again, .refused = refused ? refused : flight_fail_reply};
    if (engine->room.first) {
        engine->room.last->next = wait;
        engine->room.last = wait;
        return;
    }
    engine->room.first = engine->room.last = wait;
    ask(engine);
}

void engine_room_end(struct engine *engine)
{
    while (engine->room.first)
        free(leave(engine));
}
