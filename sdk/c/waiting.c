/* How a client waits (LIMITS "Wait policy"): poll, yield, then sleep on the doorbell. A task first asks
 * whether what it waits for may run on top of it (MOB_OUT_SUSPENDED); else its worker gives back its CPU
 * before it sleeps, so that what it waits for can run in its place. */
#include "sdk/c/client.h"

#include <stdlib.h>

#define POLL_TURNS 128u /* some microseconds: results that another core makes */
/* A task shares its core, more often than not, with the node or with the worker that it waits for: a turn
 * that polls holds up what is polled for. Yields of one who is alone on a core come back at once, so they
 * poll as well, and only a result that is as good as there is worth a look before them. */
#define POLL_TURNS_IN_TASK 8u
#define YIELD_TURNS 60u /* lets node and workers run where cores are few */

#define RECHECK_NS (100 * MOB_MS)
#define RECHECK_TURNS \
    1024u /* of a wait that never sleeps: notices without end, or a segment that was damaged */
#define TOO_LATE "not ready before the time-out has passed"

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

struct mob_waiting mob_waiting_begin(struct mob_client *client, int64_t timeout_ns)
{
    return (struct mob_waiting){
        .client = client, .deadline_ns = timeout_ns == 0 ? 0 : mob_deadline_after(timeout_ns)};
}

void mob_waiting_needs(struct mob_waiting *waiting, struct mob_future *const *futures, size_t count)
{
    if (!mob_in_task(waiting->client) || waiting->deadline_ns != INT64_MAX)
        return;
    waiting->needs = futures;
    waiting->need_count = count;
}

bool mob_session_recheck(struct mob_client *client)
{
    if (client->worker || client->sock < 0)
        return false; /* a worker ends with its node */
    int64_t now = mob_now();
    if (now - client->seen_alive_ns < RECHECK_NS)
        return false;
    client->seen_alive_ns = now;
    return !mob_session_alive(client) && mob_client_resume(client, now) == MOB_OK;
}

/* Whoever waits in short pieces never sleeps for long enough to be told of the node's end. */
static enum mob_status timed_out(struct mob_waiting *waiting, const char *text)
{
    if (mob_session_recheck(waiting->client))
        return MOB_OK; /* once more: what was sent again may be ready */
    return mob_client_fail(waiting->client, MOB_TIMEOUT, "%s", text);
}

static enum mob_status give_back_cpu(struct mob_waiting *waiting)
{
    struct mob_client *client = waiting->client;
    if (waiting->blocked || !mob_in_task(client))
        return MOB_OK;
    waiting->blocked = true;
    waiting->suspended = 0; /* the answer may still come: it is no longer wanted */
    if (client->hooks != NULL && client->hooks->blocked != NULL)
        client->hooks->blocked(client);
    return mob_client_publish(client, MOB_OUT_BLOCKED, 0, &client->parent, sizeof client->parent, NULL, 0);
}

/* ---- a task on top of this one ---- */

static enum mob_status suspend(struct mob_waiting *waiting)
{
    struct mob_client *client = waiting->client;
    struct mob_object_id ids[MOB_SUSPENDED_IDS_MAX];
    uint16_t count = 0;
    while (waiting->need_count > 0 && mob_future_settled(waiting->needs[0])) { /* not looked at again */
        waiting->needs++;
        waiting->need_count--;
    }
    for (size_t i = 0; i < waiting->need_count && count < MOB_SUSPENDED_IDS_MAX; i++)
        if (!mob_future_settled(waiting->needs[i]))
            ids[count++] = mob_future_object(waiting->needs[i]);
    waiting->refused = count == 0 || client->hooks == NULL || client->hooks->suspends == NULL ||
        !client->hooks->suspends(client);
    if (waiting->refused)
        return MOB_OK;
    if (++client->suspensions == 0)
        client->suspensions = 1;
    waiting->suspended = client->suspensions;
    struct mob_out_suspended head = {.task = client->parent, .number = waiting->suspended};
    return mob_client_publish(
        client, MOB_OUT_SUSPENDED, count, &head, sizeof head, ids, count * (uint32_t)sizeof ids[0]);
}

/* True: look again, another task has run. */
static bool another_ran(struct mob_waiting *waiting)
{
    struct mob_client *client = waiting->client;
    enum mob_status status = client->hooks->on_top(client, waiting->suspended);
    if (status == MOB_AGAIN)
        return false;
    waiting->suspended = 0;
    waiting->refused = status != MOB_OK;
    if (waiting->refused)
        return false;
    waiting->turns = 0;
    return true;
}

static enum mob_status sleep_turn(struct mob_waiting *waiting)
{
    struct mob_client *client = waiting->client;
    enum mob_status status = give_back_cpu(waiting);
    if (status != MOB_OK)
        return status;
    status = mob_client_flush_releases(client);
    if (status != MOB_OK)
        return status;
    if (client->event_fd != NULL) {
        int64_t left = waiting->deadline_ns == INT64_MAX ? 100 * MOB_MS : waiting->deadline_ns - mob_now();
        if (left <= 0)
            return timed_out(waiting, TOO_LATE);
        mob_event_fd_wait(client, (int)((left < 100 * MOB_MS ? left : 100 * MOB_MS) / MOB_MS) + 1);
        return mob_session_alive(client) ? MOB_OK : mob_client_resume(client, waiting->deadline_ns);
    }
    status = mob_store_sleep(client->store, waiting->deadline_ns, mob_session_alive, client);
    if (status == MOB_UNAVAILABLE)
        return mob_client_resume(client, waiting->deadline_ns);
    return status == MOB_OK ? MOB_OK : timed_out(waiting, TOO_LATE);
}

enum mob_status mob_waiting_turn(struct mob_waiting *waiting)
{
    struct mob_client *client = waiting->client;
    if (++waiting->all_turns % RECHECK_TURNS == 0)
        (void)mob_session_recheck(client);
    if (mob_client_pump(client) > 0)
        return MOB_OK;
    if (waiting->deadline_ns == 0)
        return timed_out(waiting, "not ready yet");
    if (waiting->suspended != 0 && another_ran(waiting))
        return MOB_OK;
    if (waiting->need_count > 0 && waiting->suspended == 0 && !waiting->blocked && !waiting->refused)
        return suspend(waiting);
    const bool in_task = mob_in_task(client);
    const uint32_t polls = in_task ? POLL_TURNS_IN_TASK : POLL_TURNS;
    uint32_t turn = waiting->turns++;
    if (turn < polls) {
        cpu_relax();
        return MOB_OK;
    }
    if (turn < polls + YIELD_TURNS && (in_task || waiting->deadline_ns != INT64_MAX)) {
        if (waiting->deadline_ns != INT64_MAX && mob_now() >= waiting->deadline_ns)
            return timed_out(waiting, TOO_LATE);
        if (!mob_yield_briefly())
            waiting->turns = polls + YIELD_TURNS;
        return MOB_OK;
    }
    return sleep_turn(waiting);
}

void mob_waiting_end(struct mob_waiting *waiting)
{
    struct mob_client *client = waiting->client;
    if (!waiting->blocked && waiting->suspended == 0)
        return;
    waiting->blocked = false;
    waiting->suspended = 0;
    enum mob_status status =
        mob_client_publish(client, MOB_OUT_UNBLOCKED, 0, &client->parent, sizeof client->parent, NULL, 0);
    if (status != MOB_OK)
        MOB_LOG_ERROR("sdk", "unblocked_not_sent", "status=%s", mob_status_code(status));
}

bool mob_future_probe(struct mob_client *client, struct mob_future *future)
{
    if (future->flags & MOB_FUTURE_TOLD)
        return false;
    struct mob_object_id id = mob_future_object(future);
    uint8_t small[MOB_OBJECT_INLINE_MAX];
    enum mob_value_type type;
    const void *bytes;
    uint64_t size;
    struct mob_object_ref pin;
    enum mob_status status =
        mob_store_object_get(client->store, id, client->committed_only, &type, small, &bytes, &size, &pin);
    if (status != MOB_OK || type == MOB_TYPE_FUTURE) {
        if (status == MOB_OK && pin.entry != UINT32_MAX)
            mob_store_object_release(client->store, pin);
        return false; /* of a tail call the node tells the outcome */
    }
    bool inlined = pin.entry == UINT32_MAX;
    struct mob_value_view view = {.payload = small, .payload_bytes = size};
    bool error = type == MOB_TYPE_ERROR;
    if (!inlined && error && mob_value_open(bytes, size, &view) != MOB_OK)
        view.payload_bytes = 0;
    mob_future_settle(client, future, MOB_OK, type, view.payload, view.payload_bytes, inlined || error);
    if (!inlined)
        mob_store_object_release(client->store, pin);
    return true;
}

enum mob_status mob_future_watch(struct mob_client *client, struct mob_future *future)
{
    if (future->flags & MOB_FUTURE_WATCHED)
        return MOB_OK;
    future->flags |= MOB_FUTURE_WATCHED;
    if (mob_future_probe(client, future))
        return MOB_OK;
    enum mob_status status = mob_client_watch(client, mob_future_object(future));
    if (status != MOB_OK)
        future->flags &= (uint8_t)~MOB_FUTURE_WATCHED; /* nobody has asked yet */
    return status;
}

enum mob_status mob_future_await(struct mob_future *future, int64_t timeout_ns)
{
    struct mob_client *client = mob_future_client(future);
    if (mob_future_settled(future))
        return MOB_OK;
    if (future->state == MOB_FUTURE_STREAM)
        return mob_client_fail(client, MOB_INVALID, "this is a stream: take its items with mob_stream_next");
    mob_client_pump(client);
    enum mob_status status = mob_future_watch(client, future);
    struct mob_waiting waiting = mob_waiting_begin(client, timeout_ns);
    mob_waiting_needs(&waiting, &future, 1);
    while (status == MOB_OK && !mob_future_settled(future)) {
        /* A worker sees a result as soon as it is sealed, before the node has passed it on. */
        if (client->worker && mob_future_probe(client, future))
            break;
        status = mob_waiting_turn(&waiting);
    }
    mob_waiting_end(&waiting);
    mob_run_callbacks(client);
    return status;
}
