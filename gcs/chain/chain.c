#include "gcs/chain/chain_internal.h"

#include <stdlib.h>

#include "common/base/hash.h"

struct mob_chain *mob_chain_create(const struct mob_chain_options *options)
{
    struct mob_chain *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->options = *options;
    if (c->options.lease_ns == 0)
        c->options.lease_ns = MOB_CHAIN_LEASE_NS;
    if (c->options.resend_ns == 0)
        c->options.resend_ns = MOB_CHAIN_RESEND_NS;
    if (c->options.stall_ns == 0)
        c->options.stall_ns = MOB_CHAIN_STALL_NS;
    if (c->options.snapshot_bytes == 0)
        c->options.snapshot_bytes = MOB_CHAIN_SNAPSHOT_BYTES;
    if (options->self == 0) {
        c->config = (struct mob_gcs_config){.epoch = 1, .count = 1};
        c->state = MOB_CHAIN_SERVING;
        c->synced = true;
    }
    return c;
}

static void entry_free(struct mob_chain_entry *e)
{
    free(e->drops);
    if (e->own_body)
        free((void *)(uintptr_t)e->body);
}

void mob_chain_destroy(struct mob_chain *c)
{
    if (c == NULL)
        return;
    for (uint64_t i = c->first; i < c->end; i++)
        entry_free(mob_chain_at(c, i));
    free(c->ring);
    free(c->rows);
    mob_chain_collect_fini(c);
    mob_chain_clients_fini(&c->clients);
    free(c);
}

/* ---- figures ---- */

enum mob_chain_state mob_chain_state(const struct mob_chain *c)
{
    return c->state;
}
const struct mob_gcs_config *mob_chain_config(const struct mob_chain *c)
{
    return &c->config;
}
uint64_t mob_chain_epoch(const struct mob_chain *c)
{
    return c->config.epoch;
}
bool mob_chain_is_head(const struct mob_chain *c)
{
    return c->state == MOB_CHAIN_SERVING && c->place == 0;
}
bool mob_chain_is_tail(const struct mob_chain *c)
{
    return c->state == MOB_CHAIN_SERVING && mob_chain_last(c);
}
bool mob_chain_synced(const struct mob_chain *c)
{
    return c->synced;
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
uint64_t mob_chain_digest(const struct mob_chain *c)
{
    return c->digest;
}
uint64_t mob_chain_state_digest(const struct mob_chain *c)
{
    return mob_state_digest(c->options.state) + c->clients.digest;
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
    return sizeof *c + c->capacity * sizeof *c->ring + c->clients.count * sizeof(struct mob_chain_client) +
        c->collected_capacity * sizeof *c->collected;
}

uint64_t mob_chain_ordinal_above(const struct mob_chain *c, uint64_t seq)
{
    uint64_t low = c->first, high = c->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (mob_chain_at(c, middle)->seq <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct mob_chain_entry *mob_chain_find(const struct mob_chain *c, uint64_t seq)
{
    uint64_t at = seq == 0 ? c->end : mob_chain_ordinal_above(c, seq - 1);
    return at < c->end && mob_chain_at(c, at)->seq == seq ? mob_chain_at(c, at) : NULL;
}

const struct mob_chain_entry *mob_chain_kept(const struct mob_chain *c, uint64_t seq)
{
    return mob_chain_find(c, seq);
}

struct mob_chain_waiting mob_chain_waiting(const struct mob_chain *c)
{
    return (struct mob_chain_waiting){.collected = c->collected_count,
        .losses = c->loss_count,
        .seals = c->seal_count,
        .dropped = c->dropped_count,
        .notices = c->notice_end - c->notice_first};
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
    mob_chain_marks_clear(c);
    if (c->options.self == 0)
        c->config.epoch = epoch;
    c->part_epoch = epoch;
    c->applied = c->committed = c->durable = c->stored = c->disk = c->above = c->base_seq = seq;
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
        mob_chain_client_set_last(&c->clients, row, last);
    return MOB_OK;
}

void mob_chain_load_reply(struct mob_chain *c, uint64_t client, const struct mob_gcs_reply *reply)
{
    struct mob_chain_client *row = mob_chain_clients_find(&c->clients, client);
    if (row == NULL)
        return;
    if (row->last < reply->request)
        mob_chain_client_set_last(&c->clients, row, reply->request);
    const struct mob_gcs_reply *slot = &row->replies[reply->request % MOB_GCS_WINDOW];
    if (slot->seq == 0 || slot->request < reply->request)
        mob_chain_client_set_reply(&c->clients, row, reply);
}

/* ---- the ring ---- */

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

struct mob_gcs_reply mob_chain_reply_of(const struct mob_chain_entry *e)
{
    return (struct mob_gcs_reply){.request = e->request,
        .count = 1,
        .status = e->status,
        .seq = e->seq,
        .version = e->version,
        .number = e->number,
        .next = e->next};
}

static uint64_t digest_of(const struct mob_chain *c, const struct mob_chain_entry *e)
{
    struct {
        uint64_t before, seq, epoch, client, request, target, version, number, next, drops;
        uint32_t status, body_crc, body_bytes, key_length;
        uint64_t op, table;
    } row = {c->digest, e->seq, e->epoch, e->client, e->request, e->target, e->version, e->number, e->next,
        e->drop_count == 0 ? 0 : mob_hash64(e->drops, e->drop_count * sizeof *e->drops), e->status,
        e->body_crc, e->body_bytes, e->key_length, e->op, e->table};
    return mob_hash64(&row, sizeof row);
}

/* The client's row as the entry leaves it. */
static void remember(struct mob_chain *c, const struct mob_chain_entry *e)
{
    uint64_t keeper = mob_chain_entry_keeper(e);
    struct mob_chain_client *client = keeper == 0 ? NULL : mob_chain_clients_find(&c->clients, keeper);
    if (client == NULL)
        return;
    struct mob_gcs_reply reply = mob_chain_reply_of(e);
    mob_chain_client_set_last(&c->clients, client, e->request);
    mob_chain_client_set_reply(&c->clients, client, &reply);
}

enum mob_status mob_chain_append(struct mob_chain *c, const struct mob_chain_entry *entry, uint64_t seq)
{
    MOB_ASSERT(seq > c->applied && !c->void_ring);
    if (c->end - c->first == c->capacity) {
        enum mob_status status = ring_grow(c);
        if (status != MOB_OK)
            return status;
    }
    struct mob_chain_entry *e = mob_chain_at(c, c->end);
    *e = *entry;
    e->seq = seq;
    enum mob_status status = mob_chain_apply(c, e);
    if (status != MOB_OK)
        return status;
    remember(c, e);
    c->applied = seq;
    c->digest = e->digest = digest_of(c, e);
    c->end++;
    c->kept_bytes += e->body_bytes;
    c->ever_bytes += e->body_bytes;
    mob_chain_mark(c);
    return MOB_OK;
}

void mob_chain_forget(struct mob_chain *c)
{
    mob_chain_marks_clear(c);
    mob_chain_clients_fini(&c->clients);
    mob_state_clear(c->options.state);
    mob_chain_source_end(c);
    c->applied = c->committed = c->durable = c->stored = c->disk = c->above = c->start_end = 0;
    c->base_seq = c->base_digest = c->digest = 0;
    c->synced = false;
    c->void_ring = c->end > c->first;
    c->store_at = c->reply_at = c->forward_at = c->end;
}

/* ---- events of the store ---- */

void mob_chain_on_stored(struct mob_chain *c, uint64_t seq)
{
    MOB_ASSERT(seq <= c->applied);
    if (seq > c->stored)
        c->stored = seq;
    mob_chain_settle(c);
}

void mob_chain_on_durable(struct mob_chain *c, uint64_t seq)
{
    MOB_ASSERT(seq <= c->stored);
    if (seq > c->disk)
        c->disk = seq;
    mob_chain_settle(c);
}

enum mob_status mob_chain_on_store_back(struct mob_chain *c, uint64_t seq)
{
    if (c->config.count != 1 || !mob_chain_in_config(c))
        return MOB_WRONG_EPOCH;
    if (seq < c->disk || seq > c->applied)
        return MOB_CORRUPT;
    c->store_at = mob_chain_ordinal_above(c, seq);
    return MOB_OK;
}
