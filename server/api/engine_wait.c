/* The papers' wait over HTTP: the first k of n objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"

static bool is_ready(struct mob_future *future)
{
    return mob_ready(future) && !engine_not_now(future);
}

static void fail_one(struct flight *flight, size_t i, enum mob_status status, const char *words)
{
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/ids/%zu", i);
    flight_fail(flight, status, pointer, "%s", words);
}

static void wait_done(struct flight *flight)
{
    struct mob_engine_wait *wait = &flight->op->wait;
    for (size_t i = 0; i < wait->count; i++) {
        if (engine_never_was(flight->futures[i])) {
            fail_one(flight, i, MOB_NOT_FOUND, "no such object");
            return;
        }
        wait->ready[i] = is_ready(flight->futures[i]);
    }
    flight_done(flight);
}

static void one_ready(struct mob_future *future, void *arg)
{
    struct flight *flight = arg;
    flight->engine->worked++;
    flight->ready_count += is_ready(future);
    if (flight->ready_count == flight->op->wait.num_returns || engine_never_was(future))
        wait_done(flight);
}

/* --- the time is over: is what is not ready pending, or can it not be looked up? --- */

#define LIVE_IDS_MAX 1000 /* that the node is asked about at once */

/* Of those that are not ready: what lives here is pending; the others the node still looks up in the lineage,
 * and whether that can be read now is seen by reading it. */
struct look {
    struct flight *flight;
    size_t next; /* of the ids: those before it were asked about */
    uint32_t count, at; /* of those that are asked about now, in `ids`; up to where they are done */
    size_t ids[LIVE_IDS_MAX];
    bool live[LIVE_IDS_MAX];
    struct mob_task_id readable; /* its group of the lineage was read last */
    bool any_readable;
};

static void ask_node(struct look *look);

static struct mob_task_id task_of(const struct look *look, uint32_t at)
{
    return look->flight->op->wait.ids[look->ids[at]].task;
}

static bool is_readable(const struct look *look, struct mob_task_id task)
{
    return look->any_readable && mob_stream_eq(look->readable.stream, task.stream) &&
        look->readable.index >> MOB_GROUP_SHIFT == task.index >> MOB_GROUP_SHIFT;
}

static void not_now(struct look *look, enum mob_status status)
{
    fail_one(look->flight, look->ids[look->at], status, "the control store does not answer");
    free(look);
}

static void read_groups(struct look *look);
static void on_blocks(void *arg, const struct mob_gcs_answer *answer);

static void read_group(struct look *look, uint64_t position)
{
    struct mob_task_id task = task_of(look, look->at);
    enum mob_status status = mob_gcs_group_blocks(
        look->flight->engine->gcs, task.stream, task.index >> MOB_GROUP_SHIFT, position, on_blocks, look);
    if (status != MOB_OK)
        not_now(look, status);
}

static void on_blocks(void *arg, const struct mob_gcs_answer *answer)
{
    struct look *look = arg;
    if (answer->status != MOB_OK && answer->status != MOB_NOT_FOUND) {
        not_now(look, answer->status);
    } else if (answer->next != 0) {
        read_group(look, answer->next);
    } else {
        look->readable = task_of(look, look->at);
        look->any_readable = true;
        read_groups(look);
    }
}

static void read_groups(struct look *look)
{
    while (look->at < look->count && (look->live[look->at] || is_readable(look, task_of(look, look->at))))
        look->at++;
    if (look->at < look->count)
        read_group(look, 0);
    else
        ask_node(look);
}

static void on_live(void *arg, enum mob_status status, const char *text, size_t size)
{
    struct look *look = arg;
    for (uint32_t i = 0; status == MOB_OK && i < look->count; i++) {
        struct mob_live_task task;
        if ((i + 1) * sizeof task > size)
            break;
        memcpy(&task, text + i * sizeof task, sizeof task);
        look->live[i] = task.state != MOB_LIVE_NOT;
    }
    read_groups(look);
}

/* About the next of them. */
static void ask_node(struct look *look)
{
    struct flight *flight = look->flight;
    const struct mob_engine_wait *wait = &flight->op->wait;
    struct mob_task_id tasks[LIVE_IDS_MAX];
    look->count = look->at = 0;
    for (; look->next < wait->count && look->count < LIVE_IDS_MAX; look->next++) {
        if (mob_ready(flight->futures[look->next]))
            continue;
        look->live[look->count] = false;
        look->ids[look->count] = look->next;
        tasks[look->count++] = wait->ids[look->next].task;
    }
    if (look->count == 0) {
        wait_done(flight);
        free(look);
        return;
    }
    enum mob_status status =
        mob_ask(flight->client, MOB_REQ_LIVE, tasks, look->count * (uint32_t)sizeof *tasks, on_live, look);
    if (status != MOB_OK) {
        flight_fail_client(flight, status, NULL);
        free(look);
    }
}

void engine_wait_forget(mob_answer_fn *answer, void *arg)
{
    if (answer == on_live)
        free(arg);
}

static void on_time(struct flight *flight)
{
    for (size_t i = 0; flight->futures[i]; i++) {
        mob_unlisten(flight->client, &flight->waiters[i]); /* the answer is the look's from here on */
        if (engine_not_now(flight->futures[i])) {
            enum mob_status status = mob_future_look(flight->futures[i]).status;
            fail_one(flight, i, status, mob_status_text(status));
            return;
        }
    }
    struct look *look = calloc(1, sizeof *look);
    MOB_ASSERT(look != NULL);
    look->flight = flight;
    ask_node(look);
}

void engine_start_object_wait(struct flight *flight)
{
    struct mob_engine_wait *wait = &flight->op->wait;
    flight->futures = calloc(wait->count + 1, sizeof(struct mob_future *));
    flight->waiters = calloc(wait->count + 1, sizeof(struct mob_waiter));
    MOB_ASSERT(flight->futures != NULL && flight->waiters != NULL);
    for (size_t i = 0; i < wait->count; i++) {
        char id[MOB_ID_TEXT_MAX];
        enum mob_status status =
            mob_future_from_id(flight->client, mob_object_id_format(wait->ids[i], id), &flight->futures[i]);
        if (status == MOB_OK && !mob_ready(flight->futures[i]))
            status = mob_listen(flight->futures[i], &flight->waiters[i], one_ready, flight);
        else if (status == MOB_OK)
            flight->ready_count += is_ready(flight->futures[i]);
        if (status != MOB_OK) {
            flight_fail_client(flight, status, NULL);
            return;
        }
    }
    if (flight->ready_count >= wait->num_returns) {
        wait_done(flight);
        return;
    }
    /* Even without a time-out the node gets the moment it needs to say what is there. */
    int64_t least = mob_now() + 20 * MOB_MS;
    flight_set_deadline(flight, wait->deadline_ns > least ? wait->deadline_ns : least, on_time);
}
