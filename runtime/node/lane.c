#include "runtime/node/lane.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/known.h"

enum { RUN_MAX = 4096 }; /* records in one go: decisions and acknowledgements are not held up by a flood */

struct waiting {
    struct waiting *next; /* in the lane */
    struct waiting *next_of_client;
    struct node_client *client;
    uint64_t from; /* position in its ring */
    struct known_question *question; /* of a submission */
    void (*fn)(struct node *node, struct node_client *client, const void *argument); /* else a record */
    struct mob_record record;
    uint32_t bytes;
    _Alignas(8) uint8_t body[];
};
struct lane {
    struct waiting *first, **end;
    uint64_t bytes;
    bool running;
};

struct lane *lane_create(void)
{
    struct lane *lane = calloc(1, sizeof *lane);
    MOB_ASSERT(lane);
    lane->end = &lane->first;
    return lane;
}

void lane_destroy(struct lane *lane)
{
    while (lane && lane->first) {
        struct waiting *next = lane->first->next;
        free(lane->first);
        lane->first = next;
    }
    free(lane);
}

static struct waiting *push(
    struct node *node, struct node_client *client, const void *body, uint32_t bytes, uint64_t from)
{
    struct lane *lane = node->lane;
    struct waiting *w = malloc(sizeof *w + bytes);
    MOB_ASSERT(w);
    *w = (struct waiting){.client = client, .from = from, .bytes = bytes};
    if (bytes > 0)
        memcpy(w->body, body, bytes);
    *lane->end = w;
    lane->end = &w->next;
    lane->bytes += sizeof *w + bytes;
    if (client->waiting)
        client->waiting_last->next_of_client = w;
    else
        client->waiting = w;
    client->waiting_last = w;
    return w;
}

static void pop(struct node *node)
{
    struct lane *lane = node->lane;
    struct waiting *w = lane->first;
    MOB_ASSERT(w->client->waiting == w);
    lane->first = w->next;
    if (!lane->first)
        lane->end = &lane->first;
    lane->bytes -= sizeof *w + w->bytes;
    w->client->waiting = w->next_of_client;
    if (!w->client->waiting) {
        w->client->waiting_last = NULL;
        memset(w->client->foreseen, 0, sizeof w->client->foreseen);
    }
}

/* What it asks for in passing (intake_question) stays with the record. */
static bool take(struct node *node, struct node_client *client, const struct mob_record *record,
    const uint8_t *body, uint64_t from, struct known_question **question)
{
    node->acks_due |= client->kind != MOB_CLIENT_WORKER;
    node->intake_client = client;
    node->intake_from = from;
    node->intake_question = *question;
    bool taken = node_intake(node, client, record, body);
    *question = node->intake_question;
    node->intake_client = NULL;
    node->intake_question = NULL;
    return taken;
}

/* Those of a run, from the first on, that begin or end plain tasks. Returns how many. */
static uint32_t take_plain(
    struct node *node, struct node_client *client, const struct mob_store_run *run, uint32_t first)
{
    struct mob_store_run rest;
    if (first > 0) {
        rest = *run;
        rest.bodies += (size_t)first * (run->record.bytes - sizeof run->record);
        rest.from += (uint64_t)first * run->record.bytes;
        rest.count -= first;
        run = &rest;
    }
    node->acks_due |= client->kind != MOB_CLIENT_WORKER;
    node->intake_client = client;
    node->intake_from = run->from;
    uint32_t taken = node_intake_plain(node, client, run);
    node->intake_client = NULL;
    return taken;
}

/* One that is not plain, or waits behind others that do. */
static void take_one(
    struct node *node, struct node_client *client, const struct mob_store_run *run, uint32_t number)
{
    struct known_question *question = NULL;
    uint32_t bytes = run->record.bytes - (uint32_t)sizeof run->record;
    const uint8_t *body = run->bodies + (size_t)number * bytes;
    uint64_t from = run->from + (uint64_t)number * run->record.bytes;
    if (!node->lane->first && take(node, client, &run->record, body, from, &question))
        return;
    struct waiting *w = push(node, client, body, bytes, from);
    w->record = run->record;
    w->question = question ? question : node_foresee(node, client, &run->record, body);
}

void node_take(struct node *node, const struct mob_store_run *run)
{
    for (uint32_t taken = 0; taken < run->count;) {
        struct node_client *client = node->clients[run->slot];
        if (!client || client->damaged)
            return;
        uint32_t plain = node->lane->first ? 0 : take_plain(node, client, run, taken);
        if (plain == 0)
            take_one(node, client, run, taken);
        taken += plain > 0 ? plain : 1;
    }
}

bool node_lane_then(struct node *node, struct node_client *client,
    void (*fn)(struct node *node, struct node_client *client, const void *argument), const void *argument,
    uint32_t bytes)
{
    if (!client->waiting)
        return false;
    push(node, client, argument, bytes, client->waiting_last->from)->fn = fn;
    return true;
}

static bool run_first(struct node *node, struct waiting *w)
{
    struct node_client *client = w->client;
    if (w->fn) {
        pop(node);
        w->fn(node, client, w->body); /* may end the client */
    } else if (client->damaged) {
        pop(node); /* its session ends with what it published before */
    } else {
        if (!take(node, client, &w->record, w->body, w->from, &w->question))
            return false;
        pop(node); /* not before: until it is in a block its place in the ring is its client's */
    }
    known_forget(node, w->question);
    free(w);
    return true;
}

uint32_t node_lane_run(struct node *node)
{
    uint32_t taken = 0;
    if (node->lane->running)
        return 0;
    node->lane->running = true;
    while (node->lane->first && taken < RUN_MAX && !lineage_log_blocked(node->log) &&
        run_first(node, node->lane->first))
        taken++;
    node->lane->running = false;
    return taken;
}

bool node_lane_full(const struct node *node)
{
    return node->lane->bytes >= LANE_BYTES_MAX;
}

bool node_lane_from(const struct node_client *client, uint64_t *position_out)
{
    if (!client->waiting)
        return false;
    *position_out = client->waiting->from;
    return true;
}
