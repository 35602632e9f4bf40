#include "server/api/engine_whole.h"

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

/* ---- the engine's, in order ---- */

static void push(struct whole *whole)
{
    struct engine *engine = whole->flight->engine;
    whole->next = NULL;
    whole->prev = engine->wholes.last;
    *(whole->prev ? &whole->prev->next : &engine->wholes.first) = whole;
    engine->wholes.last = whole;
}

static void leave(struct whole *whole)
{
    struct engine *engine = whole->flight->engine;
    *(whole->prev ? &whole->prev->next : &engine->wholes.first) = whole->next;
    *(whole->next ? &whole->next->prev : &engine->wholes.last) = whole->prev;
}

static struct whole *first_in(const struct engine *engine, enum whole_state state)
{
    struct whole *whole = engine->wholes.first;
    while (whole && whole->state != state)
        whole = whole->next;
    return whole;
}

/* ---- turns ---- */

static void begin_slice(struct whole *whole)
{
    whole->state = WHOLE_RUNS;
    whole->slice_end_ns = mob_deadline_after(WHOLE_SLICE_NS);
}

static void take_turn(struct whole *whole)
{
    whole->flight->engine->wholes.running++;
    whole->deadline_ns = mob_deadline_after(WHOLE_NS);
    begin_slice(whole);
    whole->begin(whole->context);
}

static void let_begin(struct engine *engine)
{
    struct whole *whole;
    while (!atomic_load(&engine->stopping) && engine->wholes.running < WHOLE_AT_ONCE &&
        (whole = first_in(engine, WHOLE_WAITS)) != NULL) {
        engine->wholes.waiting--;
        take_turn(whole);
    }
}

static void forget(struct whole *whole)
{
    struct engine *engine = whole->flight->engine;
    if (whole->state == WHOLE_WAITS)
        engine->wholes.waiting--;
    else
        engine->wholes.running--;
    leave(whole);
    whole->state = WHOLE_NONE;
}

static void refuse(struct whole *whole, enum mob_status status)
{
    forget(whole);
    whole->refused(whole->context, status);
}

void whole_begin(struct whole *whole, struct flight *flight, void (*begin)(void *context),
    void (*refused)(void *context, enum mob_status status), void *context)
{
    struct engine *engine = flight->engine;
    *whole = (struct whole){.flight = flight, .begin = begin, .refused = refused, .context = context};
    if (engine->wholes.waiting >= WHOLE_WAITING_MAX) {
        refused(context, MOB_QUEUE_FULL);
        return;
    }
    whole->state = WHOLE_WAITS;
    whole->deadline_ns = mob_deadline_after(WHOLE_NS);
    engine->wholes.waiting++;
    push(whole);
    let_begin(engine);
}

void whole_end(struct whole *whole)
{
    if (whole->state == WHOLE_NONE)
        return;
    struct engine *engine = whole->flight->engine;
    forget(whole);
    let_begin(engine);
}

/* ---- slices ---- */

bool whole_is_late(const struct whole *whole)
{
    return mob_now() >= whole->deadline_ns || MOB_FAILPOINT("gateway.whole_late");
}

bool whole_slice_is_over(const struct whole *whole)
{
    return mob_now() >= whole->slice_end_ns;
}

void whole_pause(struct whole *whole, void (*go_on)(void *context))
{
    MOB_ASSERT(whole->state == WHOLE_RUNS);
    whole->state = WHOLE_PAUSED;
    whole->go_on = go_on;
    whole->flight->engine->worked++; /* it is not to sleep now */
}

static void give_slice(struct whole *whole)
{
    struct engine *engine = whole->flight->engine;
    leave(whole);
    push(whole);
    begin_slice(whole);
    whole->go_on(whole->context);
    engine->wholes.rests_until_ns = mob_deadline_after(WHOLE_REST_NS);
}

static void refuse_late(struct engine *engine, int64_t now_ns)
{
    struct whole *whole;
    while ((whole = first_in(engine, WHOLE_WAITS)) != NULL && now_ns >= whole->deadline_ns)
        refuse(whole, MOB_QUEUE_FULL);
}

void engine_whole_step(struct engine *engine, int64_t now_ns, bool busy)
{
    struct whole *whole = first_in(engine, WHOLE_PAUSED);
    if (whole && (!busy || now_ns >= engine->wholes.rests_until_ns))
        give_slice(whole);
    engine->worked += whole != NULL;
    refuse_late(engine, now_ns);
}

void engine_whole_close(struct engine *engine)
{
    while (engine->wholes.first)
        refuse(engine->wholes.first, MOB_UNAVAILABLE);
}

/* ---- words ---- */

void whole_fail(struct flight *flight, enum mob_status status)
{
    bool timed = flight->op->query.kind == MOB_ITEM_TASK;
    if (status == MOB_TOO_MUCH)
        flight_fail(flight, status, NULL,
            "there is more than can be sorted in %lld s: narrow it in the filter, with job:ID%s; or ask "
            "without "
            "sort, page by page",
            (long long)(WHOLE_NS / MOB_SEC),
            timed ? " or times, as in submitted_us:>=1700000000000000 or finished_us:<=1700000000000000"
                  : "");
    else if (status == MOB_QUEUE_FULL)
        flight_fail(flight, status, NULL, "%u sorted lists are being read, and others wait", WHOLE_AT_ONCE);
    else
        flight_fail(flight, status, NULL, "the gateway is shutting down");
}
