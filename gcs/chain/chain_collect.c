/* After the restart of a sole member: what its clients still keep, put back in order (GCS.md 4). */
#include "gcs/chain/chain_internal.h"
#include "gcs/chain/chain_rules.h"

#include <stdio.h>
#include <stdlib.h>

void mob_chain_collect_begin(struct mob_chain *c)
{
    c->collecting = true;
}

uint64_t mob_chain_history(const struct mob_chain *c)
{
    return c->history;
}

bool mob_chain_start_waits(const struct mob_chain *c)
{
    return c->disk < c->start_end;
}

bool mob_chain_collecting(const struct mob_chain *c)
{
    return c->collecting;
}

void mob_chain_collect_fini(struct mob_chain *c)
{
    free(c->collected);
    free(c->losses);
    free(c->seals);
    free(c->dropped);
    c->collected = NULL;
    c->losses = NULL;
    c->seals = NULL;
    c->collected_count = c->collected_capacity = c->loss_count = c->seal_count = 0;
}

static enum mob_status keep(struct mob_chain *c, const struct mob_chain_put *put)
{
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
    c->collected[c->collected_count] = (struct mob_chain_collected){*put, c->collected_count, 0};
    c->collected_count++;
    return MOB_OK;
}

static struct mob_chain_client *add_provisional(struct mob_chain *c, uint64_t client)
{
    struct mob_chain_client *row;
    if (mob_chain_clients_add(&c->clients, client, &row) != MOB_OK)
        return NULL;
    row->provisional = true;
    return row;
}

/* A client's id says at which seq it was opened. The REGISTER of a log comes with its registrar's requests.
 */
struct mob_chain_client *mob_chain_collect_open(struct mob_chain *c, uint64_t client)
{
    if ((client & MOB_GCS_CLIENT_BIT) == 0)
        return client > mob_state_incarnation_last(c->options.state) && MOB_RULE(PROVISIONAL)
            ? add_provisional(c, client)
            : NULL;
    uint64_t low = (1ull << MOB_CHAIN_CLIENT_SEQ_BITS) - 1;
    uint64_t seq = (c->applied & ~low) | (client & low);
    if (seq + low / 2 < c->applied)
        seq += low + 1;
    if (seq <= c->applied)
        return NULL;
    struct mob_chain_put open = {.request = {.op = MOB_GCS_OP_OPEN, .old_seq = seq, .old_number = client}};
    struct mob_chain_client *row = add_provisional(c, client);
    if (row == NULL || keep(c, &open) == MOB_OK)
        return row;
    mob_chain_clients_remove(&c->clients, client);
    return NULL;
}

static const struct mob_chain_seal *seal_of(const struct mob_chain *c, uint64_t incarnation)
{
    for (size_t i = 0; i < c->seal_count; i++)
        if (c->seals[i].incarnation == incarnation)
            return &c->seals[i];
    return NULL;
}

enum mob_status mob_chain_collect_seal(struct mob_chain *c, uint64_t incarnation, uint64_t cut)
{
    const struct mob_gcs_incarnation *log = mob_state_incarnation(c->options.state, incarnation);
    if (!c->collecting || seal_of(c, incarnation) != NULL || (log != NULL && log->state != MOB_GCS_LIVE))
        return MOB_OK;
    if (c->seal_count >= MOB_CHAIN_CLIENTS_MAX)
        return MOB_QUEUE_FULL;
    struct mob_chain_seal *grown = realloc(c->seals, (c->seal_count + 1) * sizeof *grown);
    if (grown == NULL)
        return MOB_NO_MEMORY;
    c->seals = grown;
    c->seals[c->seal_count++] = (struct mob_chain_seal){incarnation, cut};
    return MOB_OK;
}

bool mob_chain_collected(const struct mob_chain *c, uint64_t client, uint64_t *last_out)
{
    const struct mob_chain_client *row = mob_chain_clients_find(&c->clients, client);
    if (row == NULL)
        return false;
    *last_out = row->collected > row->last ? row->collected : row->last;
    return true;
}

enum mob_status mob_chain_collect(
    struct mob_chain *c, struct mob_chain_client *client, const struct mob_chain_put *put)
{
    uint64_t request = put->request.request;
    if (client->collected < client->last)
        client->collected = client->last;
    if (request <= client->collected) {
        /* In the tables: its reply is sent now, if it is still there. */
        const struct mob_gcs_reply *reply = &client->replies[request % MOB_GCS_WINDOW];
        c->duplicates++;
        if (reply->request == request)
            mob_chain_answer(c, MOB_CHAIN_REPLY, client->id, reply);
        return MOB_FINISHED;
    }
    if (request > client->collected + 1) {
        mob_chain_answer(c, MOB_CHAIN_GAP, client->id, &(struct mob_gcs_reply){.request = client->collected});
        return MOB_FINISHED;
    }
    const struct mob_chain_seal *seal = seal_of(c, client->id);
    if (seal != NULL && request > seal->cut) {
        struct mob_gcs_reply sealed = {.request = client->collected, .status = MOB_SEALED};
        mob_chain_answer(c, MOB_CHAIN_EXPIRED, client->id, &sealed);
        return MOB_FINISHED;
    }
    enum mob_status status = keep(c, put);
    if (status == MOB_OK)
        client->collected = request;
    return status;
}

static int by_old_order(const void *a, const void *b)
{
    const struct mob_chain_collected *x = a, *y = b;
    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    return (x->arrival > y->arrival) - (x->arrival < y->arrival);
}

/* An answered request comes at its old seq. One whose answer was lost, but which has an answered one of its
 * client behind it, was in the log too, before that one. The others may never have been there: they come
 * last.
 */
static void sort_collected(struct mob_chain *c)
{
    for (size_t i = 0; i < c->clients.capacity; i++)
        if (c->clients.slots[i] != NULL)
            c->clients.slots[i]->before = UINT64_MAX;
    for (size_t i = c->collected_count; i-- > 0;) {
        struct mob_chain_collected *one = &c->collected[i];
        struct mob_chain_client *client = mob_chain_clients_find(&c->clients, one->put.client);
        one->before = one->put.request.old_seq != 0 ? one->put.request.old_seq
            : client != NULL                        ? client->before
                                                    : UINT64_MAX;
        if (client != NULL)
            client->before = one->before;
    }
    if (c->collected_count > 0)
        qsort(c->collected, c->collected_count, sizeof *c->collected, by_old_order);
}

static enum mob_status fill_hole(struct mob_chain *c, uint64_t next, int64_t wall_ns)
{
    char text[200];
    snprintf(text, sizeof text, "{\"kind\":\"hole\",\"from_seq\":%llu,\"to_seq\":%llu,\"wall_ns\":%lld}",
        (unsigned long long)(c->applied + 1), (unsigned long long)(next - 1), (long long)wall_ns);
    MOB_LOG_WARN("gcs", "entries_missing", "what=%s", text);
    return mob_chain_append_loss(c, next - 1, text, NULL);
}

static enum mob_status put_back(struct mob_chain *c, struct mob_chain_put *put, int64_t wall_ns)
{
    struct mob_chain_client *client = mob_chain_clients_find(&c->clients, put->client);
    bool opens = put->request.op == MOB_GCS_OP_OPEN;
    if (!opens && (client == NULL || client->provisional || put->request.request != client->last + 1))
        return MOB_GAP; /* its log was sealed, or one before it is gone */
    uint64_t seq = put->request.old_seq > c->applied ? put->request.old_seq : c->applied + 1;
    enum mob_status status = MOB_OK;
    if (seq > c->applied + 1)
        status = fill_hole(c, seq, wall_ns);
    return status == MOB_OK ? mob_chain_accept(c, put, seq) : status;
}

static enum mob_status name_later(struct mob_chain *c, const struct mob_chain_loss *what, const char *text)
{
    for (size_t i = 0; i < c->loss_count; i++)
        if ((what->seal != 0 && c->losses[i].seal == what->seal) ||
            (what->expire != 0 && c->losses[i].expire == what->expire))
            return MOB_OK;
    if (c->loss_count >= MOB_CHAIN_CLIENTS_MAX)
        return MOB_QUEUE_FULL;
    struct mob_chain_loss *grown = realloc(c->losses, (c->loss_count + 1) * sizeof *grown);
    if (grown == NULL)
        return MOB_NO_MEMORY;
    c->losses = grown;
    struct mob_chain_loss *loss = &grown[c->loss_count++];
    *loss = *what;
    snprintf(loss->text, sizeof loss->text, "%s", text);
    return MOB_OK;
}

/* `next`: its first request that is not here. */
static enum mob_status name_client(struct mob_chain *c, uint64_t client, uint64_t next, int64_t wall_ns)
{
    bool is_log = (client & MOB_GCS_CLIENT_BIT) == 0;
    char text[MOB_CHAIN_LOSS_TEXT_MAX];
    mob_chain_loss_text(client, next, NULL, wall_ns, text);
    struct mob_chain_loss what = {.seal = is_log ? client : 0, .expire = is_log ? 0 : client};
    return name_later(c, &what, text);
}

enum mob_status mob_chain_collect_absent(struct mob_chain *c, uint64_t client, int64_t wall_ns)
{
    const struct mob_chain_client *row = mob_chain_clients_find(&c->clients, client);
    if (!c->collecting || row == NULL)
        return MOB_OK;
    return name_client(c, client, row->collected > row->last ? row->collected + 1 : row->last + 1, wall_ns);
}

enum mob_status mob_chain_name_loss(
    struct mob_chain *c, const char *text, uint64_t seal, const struct mob_chain_skip *skip)
{
    if (c->collecting)
        return name_later(c, &(struct mob_chain_loss){.seal = seal}, text);
    enum mob_status status = mob_chain_append_loss(c, c->applied + 1, text, skip);
    return status == MOB_OK && seal != 0 ? mob_chain_on_internal(c, MOB_GCS_OP_SEAL, seal) : status;
}

/* What the master sealed before; blocks that its log had and that nobody has any more are named. */
static enum mob_status seal_again(struct mob_chain *c, const struct mob_chain_seal *seal, int64_t wall_ns)
{
    const struct mob_gcs_incarnation *log = mob_state_incarnation(c->options.state, seal->incarnation);
    if (log == NULL || log->state != MOB_GCS_LIVE)
        return MOB_OK;
    char text[256];
    snprintf(text, sizeof text,
        "{\"kind\":\"log\",\"incarnation\":%llu,\"first_missing\":%llu,\"missing\":%llu,\"wall_ns\":%lld}",
        (unsigned long long)seal->incarnation, (unsigned long long)log->blocks,
        (unsigned long long)(seal->cut - log->blocks), (long long)wall_ns);
    enum mob_status status = MOB_OK;
    if (seal->cut != UINT64_MAX && log->blocks < seal->cut)
        status = mob_chain_append_loss(c, c->applied + 1, text, NULL);
    return status == MOB_OK ? mob_chain_on_internal(c, MOB_GCS_OP_SEAL, seal->incarnation) : status;
}

/* In their old order; a client's later requests follow its earlier ones, whatever is missing between. */
static enum mob_status put_all_back(struct mob_chain *c, int64_t wall_ns, size_t *back_out)
{
    enum mob_status status = MOB_OK;
    for (size_t i = 0; i < c->collected_count; i++) {
        struct mob_chain_put *put = &c->collected[i].put;
        enum mob_status one = status != MOB_OK ? status : put_back(c, put, wall_ns);
        if (one == MOB_OK) {
            /* Up to the first hole only: whoever has seen what was there is to be told. And only what is at
             * its old place: one from a history that ended before may have pushed it away. */
            bool next = put->request.old_seq == c->history + 1 || !MOB_RULE(HISTORY_HOLE);
            bool in_place = put->request.old_seq == c->applied;
            if (put->request.old_seq > c->history && next && in_place)
                c->history = put->request.old_seq;
            (*back_out)++;
            continue;
        }
        if (put->hold != NULL)
            c->dropped[c->dropped_count++] = put->hold;
        /* What it was answered is of a history that a start in between had lost: another log has been
         * registered behind that place. So is what comes behind it, and its client is over. */
        const struct mob_chain_client *client =
            one == MOB_CONFLICT ? mob_chain_clients_find(&c->clients, put->client) : NULL;
        if (client != NULL)
            status = name_client(c, client->id, client->last + 1, wall_ns);
        else if (one != MOB_GAP && one != MOB_INVALID)
            status = one;
    }
    return status;
}

/* Logs whose registration nobody sent: their nodes hear that they are sealed, before the first block. */
static enum mob_status drop_provisional(struct mob_chain *c, int64_t wall_ns)
{
    const struct mob_chain_client *found[32];
    for (uint64_t after = 0;;) {
        size_t count = mob_chain_clients_after(&c->clients, after, found, 32);
        if (count == 0)
            return MOB_OK;
        uint64_t ids[32], drops = 0;
        for (size_t i = 0; i < count; i++)
            if (found[i]->provisional)
                ids[drops++] = found[i]->id;
        after = found[count - 1]->id;
        for (size_t i = 0; i < drops; i++) {
            char text[160];
            snprintf(text, sizeof text,
                "{\"kind\":\"log\",\"incarnation\":%llu,\"first_missing\":0,\"missing\":null,\"wall_ns\":%"
                "lld}",
                (unsigned long long)ids[i], (long long)wall_ns);
            mob_chain_clients_remove(&c->clients, ids[i]);
            enum mob_status status = mob_chain_append_loss(c, c->applied + 1, text, NULL);
            if (status != MOB_OK)
                return status;
        }
    }
}

enum mob_status mob_chain_collect_end(struct mob_chain *c, int64_t wall_ns)
{
    MOB_ASSERT(c->collecting);
    c->dropped = malloc((c->collected_count + 1) * sizeof *c->dropped);
    if (c->dropped == NULL)
        return MOB_NO_MEMORY;
    c->collecting = false;
    c->history = c->applied;
    if (c->options.self == 0)
        c->config.epoch++;
    else
        mob_chain_set_state(c, MOB_CHAIN_SERVING);
    sort_collected(c);
    size_t back = 0, requests = c->collected_count;
    enum mob_status status = put_all_back(c, wall_ns, &back);
    if (status == MOB_OK)
        status = drop_provisional(c, wall_ns);
    for (size_t i = 0; i < c->loss_count && status == MOB_OK; i++) {
        status = mob_chain_name_loss(c, c->losses[i].text, c->losses[i].seal, NULL);
        if (status == MOB_OK && c->losses[i].expire != 0)
            status = mob_chain_on_internal(c, MOB_GCS_OP_EXPIRE, c->losses[i].expire);
    }
    for (size_t i = 0; i < c->seal_count && status == MOB_OK; i++)
        status = seal_again(c, &c->seals[i], wall_ns);
    void **dropped = c->dropped;
    c->dropped = NULL;
    mob_chain_collect_fini(c);
    c->dropped = dropped;
    c->start_end = c->applied;
    MOB_LOG_INFO("gcs", "collected", "requests=%zu applied_again=%zu epoch=%llu seq=%llu", requests, back,
        (unsigned long long)c->config.epoch, (unsigned long long)c->applied);
    mob_chain_settle(c);
    return status;
}
