#include "gcs/chain/chain_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

struct mob_chain *mob_chain_create(const struct mob_chain_options *options)
{
    struct mob_chain *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->options = *options;
    c->epoch = 1;
    return c;
}

void mob_chain_destroy(struct mob_chain *c)
{
    if (c == NULL)
        return;
    for (uint64_t i = c->first; i < c->end; i++) {
        struct mob_chain_entry *e = mob_chain_at(c, i);
        free(e->drops);
        if (e->own_body)
            free((void *)(uintptr_t)e->body);
    }
    free(c->ring);
    free(c->actions);
    free(c->collected);
    free(c->losses);
    mob_chain_clients_fini(&c->clients);
    free(c);
}

uint64_t mob_chain_epoch(const struct mob_chain *c)
{
    return c->epoch;
}
uint64_t mob_chain_applied(const struct mob_chain *c)
{
    return c->applied;
}
uint64_t mob_chain_committed(const struct mob_chain *c)
{
    return c->committed;
}
uint64_t mob_chain_durable(const struct mob_chain *c)
{
    return c->durable;
}
size_t mob_chain_clients(const struct mob_chain *c)
{
    return c->clients.count;
}
size_t mob_chain_entries(const struct mob_chain *c)
{
    return (size_t)(c->end - c->first);
}
uint64_t mob_chain_duplicates(const struct mob_chain *c)
{
    return c->duplicates;
}
size_t mob_chain_room(const struct mob_chain *c)
{
    size_t used = mob_chain_entries(c) + c->collected_count;
    return used >= MOB_CHAIN_ENTRIES_MAX ? 0 : MOB_CHAIN_ENTRIES_MAX - used;
}
size_t mob_chain_bytes(const struct mob_chain *c)
{
    return sizeof *c + c->capacity * sizeof *c->ring + c->action_capacity * sizeof *c->actions +
        c->clients.count * sizeof(struct mob_chain_client) + c->collected_capacity * sizeof *c->collected;
}

const struct mob_chain_entry *mob_chain_kept(const struct mob_chain *c, uint64_t seq)
{
    uint64_t low = c->first, high = c->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (mob_chain_at(c, middle)->seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->end && mob_chain_at(c, low)->seq == seq ? mob_chain_at(c, low) : NULL;
}

void mob_chain_each_client(
    const struct mob_chain *c, void (*visit)(void *arg, uint64_t client, uint64_t last), void *arg)
{
    for (size_t i = 0; i < c->clients.capacity; i++)
        if (c->clients.slots[i] != NULL)
            visit(arg, c->clients.slots[i]->id, c->clients.slots[i]->last);
}

/* ---- loading ---- */

void mob_chain_load_position(struct mob_chain *c, uint64_t epoch, uint64_t seq)
{
    MOB_ASSERT(c->end == 0);
    c->epoch = epoch;
    c->applied = c->committed = c->durable = seq;
}

enum mob_status mob_chain_load_client(struct mob_chain *c, uint64_t client, uint64_t last)
{
    struct mob_chain_client *row = mob_chain_clients_find(&c->clients, client);
    if (row == NULL) {
        enum mob_status status = mob_chain_clients_add(&c->clients, client, &row);
        if (status != MOB_OK)
            return status;
    }
    if (row->last < last)
        row->last = last;
    return MOB_OK;
}

void mob_chain_load_reply(struct mob_chain *c, uint64_t client, const struct mob_gcs_reply *reply)
{
    struct mob_chain_client *row = mob_chain_clients_find(&c->clients, client);
    if (row == NULL)
        return;
    if (row->last < reply->request)
        row->last = reply->request;
    struct mob_gcs_reply *slot = &row->replies[reply->request % MOB_GCS_WINDOW];
    if (slot->request < reply->request)
        *slot = *reply;
}

/* ---- actions and entries ---- */

bool mob_chain_next(struct mob_chain *c, struct mob_chain_action *action_out)
{
    if (c->action_next == c->action_count) {
        c->action_next = c->action_count = 0;
        return false;
    }
    *action_out = c->actions[c->action_next++];
    if (action_out->type == MOB_CHAIN_STORE)
        action_out->entry = mob_chain_at(c, action_out->reply.request);
    return true;
}

enum mob_status mob_chain_reserve(struct mob_chain *c, size_t actions)
{
    size_t need = c->action_count + actions;
    if (need <= c->action_capacity)
        return MOB_OK;
    size_t capacity = c->action_capacity == 0 ? 64 : c->action_capacity;
    while (capacity < need)
        capacity *= 2;
    struct mob_chain_action *grown = realloc(c->actions, capacity * sizeof *grown);
    if (grown == NULL)
        return MOB_NO_MEMORY;
    c->actions = grown;
    c->action_capacity = capacity;
    return MOB_OK;
}

void mob_chain_push(struct mob_chain *c, const struct mob_chain_action *action)
{
    /* Without memory for an answer the member cannot keep its promises: it dies, and recovers as from any
     * crash. */
    MOB_ASSERT(mob_chain_reserve(c, 1) == MOB_OK);
    c->actions[c->action_count++] = *action;
}

static enum mob_status ring_grow(struct mob_chain *c)
{
    size_t capacity = c->capacity == 0 ? 256 : c->capacity * 2;
    struct mob_chain_entry *ring = malloc(capacity * sizeof *ring);
    if (ring == NULL)
        return MOB_NO_MEMORY;
    for (uint64_t i = c->first; i < c->end; i++)
        ring[i & (capacity - 1)] = *mob_chain_at(c, i);
    free(c->ring);
    c->ring = ring;
    c->capacity = capacity;
    return MOB_OK;
}

/* By ordinal: the ring may move before the action is taken. */
static void push_store(struct mob_chain *c, uint64_t ordinal)
{
    mob_chain_push(c, &(struct mob_chain_action){.type = MOB_CHAIN_STORE, .reply = {.request = ordinal}});
}

enum mob_status mob_chain_append(struct mob_chain *c, const struct mob_chain_entry *entry, uint64_t seq)
{
    MOB_ASSERT(seq > c->applied);
    if (c->end - c->first == c->capacity) {
        enum mob_status status = ring_grow(c);
        if (status != MOB_OK)
            return status;
    }
    enum mob_status status = mob_chain_reserve(c, 1);
    if (status == MOB_OK)
        status = mob_chain_apply(c, entry);
    if (status != MOB_OK)
        return status;
    struct mob_chain_entry *e = mob_chain_at(c, c->end);
    *e = *entry;
    e->seq = seq;
    c->applied = seq;
    push_store(c, c->end++);
    return MOB_OK;
}

static struct mob_gcs_reply reply_of(const struct mob_chain_entry *e)
{
    return (struct mob_gcs_reply){.request = e->request,
        .count = 1,
        .status = e->status,
        .seq = e->seq,
        .version = e->version,
        .number = e->number,
        .next = e->next};
}

/* ---- events ---- */

static void push_to(
    struct mob_chain *c, enum mob_chain_action_type type, uint64_t client, const struct mob_gcs_reply *reply)
{
    mob_chain_push(c, &(struct mob_chain_action){.type = type, .client = client, .reply = *reply});
}

static enum mob_status why_absent(const struct mob_chain *c, uint64_t client, uint64_t *last_out)
{
    const struct mob_gcs_incarnation *log = mob_state_incarnation(c->options.state, client);
    *last_out = log != NULL ? log->blocks : 0;
    return log != NULL ? MOB_SEALED : MOB_EXPIRED;
}

/* What was answered, and is not here: GCS.md 4, "that gap is named". */
static enum mob_status attach_hole(
    struct mob_chain *c, struct mob_chain_client *client, const struct mob_chain_attach *attach)
{
    bool is_log = (client->id & MOB_GCS_CLIENT_BIT) == 0;
    uint64_t first = client->last + 1, id = client->id;
    char text[256];
    snprintf(text, sizeof text,
        "{\"kind\":\"%s\",\"%s\":%llu,\"first_missing\":%llu,\"missing\":%llu,\"wall_ns\":%lld}",
        is_log ? "log" : "client", is_log ? "incarnation" : "client", (unsigned long long)id,
        (unsigned long long)(is_log ? first - 1 : first), (unsigned long long)(attach->kept - first),
        (long long)attach->wall_ns);
    MOB_LOG_ERROR("gcs", "committed_requests_lost", "what=%s", text);
    if (!is_log)
        client->last = client->collected = attach->kept - 1;
    return mob_chain_name_loss(c, text, is_log ? id : 0);
}

enum mob_status mob_chain_on_attach(
    struct mob_chain *c, const struct mob_chain_attach *attach, struct mob_gcs_attached *attached_out)
{
    struct mob_gcs_attached attached = {0};
    struct mob_chain_client *client = mob_chain_clients_find(&c->clients, attach->client);
    enum mob_status status = MOB_OK;
    if (client == NULL && (attach->client & MOB_GCS_CLIENT_BIT) != 0 && !attach->known && attach->kept == 1)
        status = mob_chain_clients_add(&c->clients, attach->client, &client);
    if (status != MOB_OK)
        return status;
    if (client != NULL && attach->kept > client->last + 1) {
        status = attach_hole(c, client, attach);
        if (status != MOB_OK)
            return status;
        if ((attach->client & MOB_GCS_CLIENT_BIT) == 0)
            client = NULL; /* sealed, now or at the end of collecting */
    }
    if (client == NULL && mob_chain_clients_find(&c->clients, attach->client) != NULL) {
        attached = (struct mob_gcs_attached){.status = MOB_SEALED};
        (void)why_absent(c, attach->client, &attached.last);
    } else if (client == NULL) {
        attached.status = why_absent(c, attach->client, &attached.last);
    } else {
        attached.last = client->last;
        client->collected = client->last;
    }
    *attached_out = attached;
    return MOB_OK;
}

enum mob_status mob_chain_accept(struct mob_chain *c, const struct mob_chain_put *put, uint64_t seq)
{
    struct mob_chain_entry entry = {.client = put->client,
        .request = put->request.request,
        .op = put->request.op,
        .table = put->request.table,
        .body = put->body,
        .body_bytes = put->body_bytes,
        .key_length = put->request.key_length,
        .target = put->request.target,
        .hold = put->hold};
    enum mob_status status = mob_chain_resolve(c, put, seq, &entry);
    if (status == MOB_OK)
        status = mob_chain_append(c, &entry, seq);
    if (status != MOB_OK) {
        free(entry.drops);
        return status;
    }
    struct mob_chain_client *client = mob_chain_clients_find(&c->clients, put->client);
    if (client != NULL) {
        client->last = entry.request;
        entry.seq = seq;
        client->replies[entry.request % MOB_GCS_WINDOW] = reply_of(&entry);
    }
    return MOB_OK;
}

static void on_duplicate(struct mob_chain *c, const struct mob_chain_client *client, uint64_t request)
{
    const struct mob_gcs_reply *reply = &client->replies[request % MOB_GCS_WINDOW];
    c->duplicates++;
    /* Uncommitted: the reply comes with the commit, to whatever connection the client has then. */
    if (reply->request == request && reply->seq > c->committed)
        return;
    struct mob_gcs_reply answer = *reply;
    if (reply->request != request) /* older than the window; only a broken client can ask */
        answer = (struct mob_gcs_reply){.request = request, .count = 1, .status = MOB_EXPIRED};
    push_to(c, MOB_CHAIN_REPLY, client->id, &answer);
}

enum mob_status mob_chain_on_put(struct mob_chain *c, const struct mob_chain_put *put)
{
    if (put->epoch != c->epoch) {
        push_to(c, MOB_CHAIN_NACK, put->client, &(struct mob_gcs_reply){.request = put->request.request});
        return MOB_FINISHED;
    }
    struct mob_chain_client *client = mob_chain_clients_find(&c->clients, put->client);
    if (client == NULL) {
        struct mob_gcs_reply answer = {0};
        answer.status = why_absent(c, put->client, &answer.request);
        push_to(c, MOB_CHAIN_EXPIRED, put->client, &answer);
        return MOB_FINISHED;
    }
    if (c->collecting)
        return mob_chain_collect(c, client, put);
    uint64_t request = put->request.request;
    if (request <= client->last) {
        on_duplicate(c, client, request);
        return MOB_FINISHED;
    }
    if (request > client->last + 1) {
        push_to(c, MOB_CHAIN_GAP, put->client, &(struct mob_gcs_reply){.request = client->last});
        return MOB_FINISHED;
    }
    if (mob_chain_room(c) == 0)
        return MOB_QUEUE_FULL;
    if (put->full && put->request.op == MOB_GCS_OP_APPEND)
        return MOB_GCS_FULL;
    return mob_chain_accept(c, put, c->applied + 1);
}

enum mob_status mob_chain_on_internal(struct mob_chain *c, enum mob_gcs_op op, uint64_t target)
{
    struct mob_chain_put put = {.request = {.op = (uint8_t)op, .target = target}};
    return mob_chain_accept(c, &put, c->applied + 1);
}

void mob_chain_on_stored(struct mob_chain *c, uint64_t seq)
{
    MOB_ASSERT(seq <= c->applied);
    while (c->stored < c->end && mob_chain_at(c, c->stored)->seq <= seq) {
        const struct mob_chain_entry *e = mob_chain_at(c, c->stored++);
        c->committed = e->seq;
        struct mob_gcs_reply reply = reply_of(e);
        if (e->client != 0)
            push_to(c, MOB_CHAIN_REPLY, e->client, &reply);
    }
}

void mob_chain_on_durable(struct mob_chain *c, uint64_t seq)
{
    MOB_ASSERT(seq <= c->committed);
    while (c->first < c->stored && mob_chain_at(c, c->first)->seq <= seq) {
        struct mob_chain_entry *e = mob_chain_at(c, c->first++);
        if (e->hold != NULL)
            mob_chain_push(c, &(struct mob_chain_action){.type = MOB_CHAIN_RELEASE, .hold = e->hold});
        free(e->drops);
        if (e->own_body)
            free((void *)(uintptr_t)e->body);
    }
    if (c->durable < seq)
        c->durable = seq;
    if (c->first == c->end && c->capacity > 4096) { /* give back what a burst took */
        free(c->ring);
        c->ring = NULL;
        c->capacity = 0;
    }
}

enum mob_status mob_chain_on_store_back(struct mob_chain *c, uint64_t seq)
{
    if (seq < c->durable || seq > c->applied)
        return MOB_CORRUPT;
    for (uint64_t i = c->first; i < c->end; i++)
        if (mob_chain_at(c, i)->seq > seq)
            push_store(c, i);
    return MOB_OK;
}
