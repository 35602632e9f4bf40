/* After the restart of a sole member: what its clients still keep, put back in order (GCS.md 4). */
#include "gcs/chain/chain_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

void mob_chain_collect_begin(struct mob_chain *c)
{
    c->collecting = true;
}

uint64_t mob_chain_history(const struct mob_chain *c)
{
    return c->history;
}

bool mob_chain_collecting(const struct mob_chain *c)
{
    return c->collecting;
}

enum mob_status mob_chain_collect(
    struct mob_chain *c, struct mob_chain_client *client, const struct mob_chain_put *put)
{
    uint64_t request = put->request.request;
    if (client->collected < client->last)
        client->collected = client->last;
    if (request <= client->collected) {
        /* In the tables: its reply is sent when serving begins and the client asks again. */
        c->duplicates++;
        mob_chain_push(c,
            &(struct mob_chain_action){.type = MOB_CHAIN_REPLY,
                .client = client->id,
                .reply = client->replies[request % MOB_GCS_WINDOW]});
        if (c->actions[c->action_count - 1].reply.request != request)
            c->action_count--;
        return MOB_FINISHED;
    }
    if (request > client->collected + 1) {
        mob_chain_push(c,
            &(struct mob_chain_action){
                .type = MOB_CHAIN_GAP, .client = client->id, .reply = {.request = client->collected}});
        return MOB_FINISHED;
    }
    if (mob_chain_room(c) == 0)
        return MOB_QUEUE_FULL;
    if (c->collected_count == c->collected_capacity) {
        size_t capacity = c->collected_capacity == 0 ? 256 : c->collected_capacity * 2;
        struct mob_chain_collected *grown = realloc(c->collected, capacity * sizeof *grown);
        if (grown == NULL)
            return MOB_NO_MEMORY;
        c->collected = grown;
        c->collected_capacity = capacity;
    }
    c->collected[c->collected_count] = (struct mob_chain_collected){*put, c->collected_count};
    c->collected_count++;
    client->collected = request;
    return MOB_OK;
}

static int by_old_order(const void *a, const void *b)
{
    const struct mob_chain_collected *x = a, *y = b;
    uint64_t sx = x->put.request.old_seq - 1, sy = y->put.request.old_seq - 1; /* never answered (0): last */
    if (sx != sy)
        return sx < sy ? -1 : 1;
    return (x->arrival > y->arrival) - (x->arrival < y->arrival);
}

static enum mob_status fill_hole(struct mob_chain *c, uint64_t next, int64_t wall_ns)
{
    char text[200];
    snprintf(text, sizeof text, "{\"kind\":\"hole\",\"from_seq\":%llu,\"to_seq\":%llu,\"wall_ns\":%lld}",
        (unsigned long long)(c->applied + 1), (unsigned long long)(next - 1), (long long)wall_ns);
    MOB_LOG_WARN("gcs", "entries_missing", "what=%s", text);
    return mob_chain_append_loss(c, next - 1, text);
}

static enum mob_status put_back(struct mob_chain *c, struct mob_chain_put *put, int64_t wall_ns)
{
    struct mob_chain_client *client = mob_chain_clients_find(&c->clients, put->client);
    if (client == NULL || put->request.request != client->last + 1)
        return MOB_GAP; /* its log was sealed, or the request before was never answered and comes later */
    uint64_t seq = put->request.old_seq > c->applied ? put->request.old_seq : c->applied + 1;
    enum mob_status status = MOB_OK;
    if (seq > c->applied + 1)
        status = fill_hole(c, seq, wall_ns);
    return status == MOB_OK ? mob_chain_accept(c, put, seq) : status;
}

enum mob_status mob_chain_name_loss(struct mob_chain *c, const char *text, uint64_t seal)
{
    if (c->collecting) {
        for (size_t i = 0; i < c->loss_count; i++)
            if (seal != 0 && c->losses[i].seal == seal)
                return MOB_OK;
        if (c->loss_count >= MOB_CHAIN_CLIENTS_MAX)
            return MOB_QUEUE_FULL;
        struct mob_chain_loss *grown = realloc(c->losses, (c->loss_count + 1) * sizeof *grown);
        if (grown == NULL)
            return MOB_NO_MEMORY;
        c->losses = grown;
        struct mob_chain_loss *loss = &grown[c->loss_count++];
        loss->seal = seal;
        snprintf(loss->text, sizeof loss->text, "%s", text);
        return MOB_OK;
    }
    enum mob_status status = mob_chain_append_loss(c, c->applied + 1, text);
    return status == MOB_OK && seal != 0 ? mob_chain_on_internal(c, MOB_GCS_OP_SEAL, seal) : status;
}

enum mob_status mob_chain_collect_end(struct mob_chain *c, int64_t wall_ns)
{
    MOB_ASSERT(c->collecting);
    c->collecting = false;
    c->epoch++;
    c->history = c->applied;
    if (c->collected_count > 0)
        qsort(c->collected, c->collected_count, sizeof *c->collected, by_old_order);
    enum mob_status status = MOB_OK;
    size_t back = 0;
    for (size_t i = 0; i < c->collected_count; i++) {
        struct mob_chain_put *put = &c->collected[i].put;
        enum mob_status one = status != MOB_OK ? status : put_back(c, put, wall_ns);
        if (one == MOB_OK) {
            c->history = put->request.old_seq != 0 ? c->applied : c->history;
            back++;
            continue;
        }
        if (put->hold != NULL)
            mob_chain_push(c, &(struct mob_chain_action){.type = MOB_CHAIN_RELEASE, .hold = put->hold});
        if (one != MOB_GAP && one != MOB_INVALID)
            status = one;
    }
    for (size_t i = 0; i < c->loss_count && status == MOB_OK; i++)
        status = mob_chain_name_loss(c, c->losses[i].text, c->losses[i].seal);
    free(c->losses);
    c->losses = NULL;
    c->loss_count = 0;
    MOB_LOG_INFO("gcs", "collected", "requests=%zu applied_again=%zu epoch=%llu seq=%llu", c->collected_count,
        back, (unsigned long long)c->epoch, (unsigned long long)c->applied);
    free(c->collected);
    c->collected = NULL;
    c->collected_count = c->collected_capacity = 0;
    return status;
}
