/* What each operation means: first resolved against the tables into absolute values, then applied. */
#include "gcs/chain/chain_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/hash.h"
#include "gcs/chain/chain_rules.h"
#include "gcs/chain/incarnation.h"

#define ANY_VERSION UINT64_MAX /* in if_version: on no condition */

static enum mob_status condition(uint64_t if_version, bool found, uint64_t present)
{
    if (if_version == ANY_VERSION)
        return MOB_OK;
    return if_version == (found ? present : 0) ? MOB_OK : MOB_CONFLICT;
}

static uint64_t version_at(uint64_t epoch, uint64_t seq)
{
    return MOB_RULE(VERSION) ? epoch << MOB_CHAIN_VERSION_SEQ_BITS | mob_chain_version_seq(seq) : seq;
}

static void resolve_key(
    const struct mob_chain *c, const struct mob_chain_put *put, uint64_t seq, struct mob_chain_entry *entry)
{
    struct mob_state_key now;
    if (entry->op == MOB_GCS_OP_PUT && put->request.if_version == ANY_VERSION && !put->full) {
        entry->version = version_at(entry->epoch, seq); /* whatever is there: it is not looked up twice */
        return;
    }
    bool found = mob_state_get(c->options.state, entry->table, put->body, entry->key_length, &now);
    enum mob_status status = condition(put->request.if_version, found, found ? now.version : 0);
    if (status == MOB_OK && entry->op == MOB_GCS_OP_DELETE && !found)
        status = MOB_NOT_FOUND;
    if (status == MOB_OK && put->full && entry->op == MOB_GCS_OP_PUT)
        status = MOB_GCS_FULL;
    entry->status = status;
    entry->version = status == MOB_OK ? version_at(entry->epoch, seq) : found ? now.version : 0;
}

static enum mob_status resolve_drop(
    struct mob_chain *c, const struct mob_chain_put *put, struct mob_chain_entry *entry)
{
    entry->drops = malloc(MOB_CHAIN_DROP_MAX * sizeof *entry->drops);
    if (entry->drops == NULL)
        return MOB_NO_MEMORY;
    bool more = false;
    /* When it was answered before a restart: as many as then; the oldest go first, so they are the same. */
    size_t max =
        put->request.old_seq != 0 && put->request.old_number < MOB_CHAIN_DROP_MAX && MOB_RULE(DROP_AGAIN)
        ? (size_t)put->request.old_number
        : MOB_CHAIN_DROP_MAX;
    size_t n = c->options.drop(c->options.drop_arg, &put->request, entry->drops, max, &more);
    MOB_ASSERT(n <= max);
    entry->drop_count = (uint32_t)n;
    entry->number = n;
    entry->next = more;
    return MOB_OK;
}

static void resolve_log(const struct mob_chain *c, struct mob_chain_entry *entry)
{
    const struct mob_gcs_incarnation *log = mob_state_incarnation(c->options.state, entry->target);
    entry->status = log == NULL ? MOB_NOT_FOUND : MOB_OK;
    if (log == NULL)
        return;
    if (entry->op == MOB_GCS_OP_RECOVERED && log->state == MOB_GCS_LIVE)
        entry->status = MOB_CONFLICT;
    if (entry->op == MOB_GCS_OP_SEAL)
        entry->version = log->state == MOB_GCS_RECOVERED; /* sealing again does not undo that */
    entry->number = log->blocks;
}

/* One that knew another position than there is now changes nothing: its notes of what is left unfinished
 * count blocks that another flusher's FLUSH has counted. */
static void resolve_flush(const struct mob_chain *c, const struct mob_gcs_request *request, uint64_t seq,
    struct mob_chain_entry *entry)
{
    uint64_t flushed = mob_state_flushed(c->options.state);
    entry->number = flushed;
    if (request->if_version != flushed && MOB_RULE(FLUSH_FROM))
        return;
    if (entry->target > flushed)
        entry->number = entry->target < seq ? entry->target : seq - 1;
}

/* A FLUSH that was answered before everything died drops blocks again only if it did so then, and if what it
 * began from is here. The one before it may not be: its answer was lost, so it comes last, and if this one
 * went first, its notes of what the blocks leave unfinished would count for nothing. */
static bool flush_stands(const struct mob_chain *c, const struct mob_gcs_request *request)
{
    return request->if_version == mob_state_flushed(c->options.state) &&
        request->old_number == request->target;
}

static uint64_t new_incarnation(const struct mob_chain *c, const struct mob_gcs_request *request)
{
    uint64_t last = mob_state_incarnation_last(c->options.state);
    return mob_chain_next_incarnation(last, c->config.epoch, request->target, request->if_version);
}

static uint64_t new_client(const struct mob_chain *c, uint64_t seq)
{
    uint64_t low = (1ull << MOB_CHAIN_CLIENT_SEQ_BITS) - 1;
    return MOB_GCS_CLIENT_BIT | (c->config.epoch << MOB_CHAIN_CLIENT_SEQ_BITS & ~MOB_GCS_CLIENT_BIT) |
        (seq & low);
}

enum mob_status mob_chain_resolve(
    struct mob_chain *c, const struct mob_chain_put *put, uint64_t seq, struct mob_chain_entry *entry)
{
    entry->status = MOB_OK;
    switch ((enum mob_gcs_op)entry->op) {
    case MOB_GCS_OP_APPEND:
        entry->number = entry->request - 1;
        break;
    case MOB_GCS_OP_PUT:
    case MOB_GCS_OP_DELETE:
        resolve_key(c, put, seq, entry);
        break;
    case MOB_GCS_OP_REGISTER:
        entry->number = new_incarnation(c, &put->request);
        break;
    case MOB_GCS_OP_SEAL:
    case MOB_GCS_OP_RECOVERED:
        resolve_log(c, entry);
        break;
    case MOB_GCS_OP_JOB_DROP:
        if (resolve_drop(c, put, entry) != MOB_OK)
            return MOB_NO_MEMORY;
        break;
    case MOB_GCS_OP_OPEN:
        entry->number = new_client(c, seq);
        entry->version = entry->target;
        break;
    case MOB_GCS_OP_FLUSH:
        resolve_flush(c, &put->request, seq, entry);
        break;
    case MOB_GCS_OP_EXPIRE:
    case MOB_GCS_OP_LOSS:
        break;
    case MOB_GCS_OPS:
        return MOB_INVALID;
    default:
        return MOB_INVALID;
    }
    /* An operation that was answered before a restart has the effect that it had then. */
    if (put->request.old_seq != 0) {
        entry->status = put->request.old_status;
        entry->version = put->request.old_version;
        entry->number = put->request.old_number;
        if (put->request.op == MOB_GCS_OP_FLUSH && !flush_stands(c, &put->request))
            entry->target = 0;
    }
    return MOB_OK;
}

/* ---- applying. On the tables of an unsynced member, which hold rows of later moments than its log, an old
 * effect is put over a newer one, and the newer ones follow; only there may a row lack or be there already
 * ---- */

static enum mob_status add_client(struct mob_chain *c, uint64_t id)
{
    struct mob_chain_client *client = mob_chain_clients_find(&c->clients, id);
    if (client == NULL)
        return mob_chain_clients_add(&c->clients, id, &client);
    MOB_ASSERT(!c->synced || client->provisional);
    if (!client->provisional)
        mob_chain_client_reset(&c->clients, client);
    client->provisional = false;
    return MOB_OK;
}

static enum mob_status apply_register(struct mob_chain *c, const struct mob_chain_entry *entry)
{
    struct mob_gcs_incarnation row = {.id = entry->number, .state = MOB_GCS_LIVE};
    memcpy(
        row.name, entry->body, entry->body_bytes < MOB_GCS_NAME_MAX ? entry->body_bytes : MOB_GCS_NAME_MAX);
    bool known = mob_state_incarnation(c->options.state, row.id) != NULL;
    if (known && c->synced)
        return MOB_CONFLICT;
    if (c->clients.count >= MOB_CHAIN_CLIENTS_MAX)
        return MOB_QUEUE_FULL;
    enum mob_status status = mob_state_register(c->options.state, &row);
    return status == MOB_OK ? add_client(c, row.id) : status;
}

static enum mob_status apply_append(struct mob_chain *c, const struct mob_chain_entry *entry)
{
    const struct mob_gcs_incarnation *log = mob_state_incarnation(c->options.state, entry->client);
    MOB_ASSERT(log != NULL && (log->state == MOB_GCS_LIVE || !c->synced));
    struct mob_gcs_incarnation row = *log;
    row.blocks = entry->request;
    return mob_state_register(c->options.state, &row);
}

static enum mob_status apply_log(struct mob_chain *c, const struct mob_chain_entry *entry)
{
    const struct mob_gcs_incarnation *log = mob_state_incarnation(c->options.state, entry->target);
    if (log == NULL)
        return MOB_OK;
    struct mob_gcs_incarnation row = *log;
    row.blocks = entry->number;
    row.state = entry->op == MOB_GCS_OP_RECOVERED || entry->version != 0 ? MOB_GCS_RECOVERED : MOB_GCS_SEALED;
    mob_chain_clients_remove(&c->clients, entry->target);
    return mob_state_register(c->options.state, &row);
}

enum mob_status mob_chain_apply(struct mob_chain *c, const struct mob_chain_entry *entry)
{
    if (entry->status != MOB_OK)
        return MOB_OK;
    struct mob_state *state = c->options.state;
    switch ((enum mob_gcs_op)entry->op) {
    case MOB_GCS_OP_APPEND:
        return apply_append(c, entry);
    case MOB_GCS_OP_PUT:
    case MOB_GCS_OP_LOSS: {
        struct mob_chain_client *lost = entry->target == 0 || entry->op != MOB_GCS_OP_LOSS
            ? NULL
            : mob_chain_clients_find(&c->clients, entry->target);
        if (lost != NULL)
            mob_chain_client_set_last(&c->clients, lost, entry->number);
        struct mob_gcs_kv kv = {.key = entry->body,
            .key_length = entry->key_length,
            .value = entry->body + entry->key_length,
            .value_length = entry->body_bytes - entry->key_length,
            .version = entry->version};
        return mob_state_set(state, entry->table, &kv);
    }
    case MOB_GCS_OP_DELETE:
        mob_state_remove(state, entry->table, entry->body, entry->key_length);
        return MOB_OK;
    case MOB_GCS_OP_REGISTER:
        return apply_register(c, entry);
    case MOB_GCS_OP_SEAL:
    case MOB_GCS_OP_RECOVERED:
        return apply_log(c, entry);
    case MOB_GCS_OP_EXPIRE:
        mob_chain_clients_remove(&c->clients, entry->target);
        return MOB_OK;
    case MOB_GCS_OP_OPEN:
        return add_client(c, entry->number);
    case MOB_GCS_OP_FLUSH: /* the rows are the owner's */
        if (mob_chain_flush_upto(entry) > mob_state_flushed(state))
            mob_state_set_flushed(state, entry->number);
        return MOB_OK;
    case MOB_GCS_OP_JOB_DROP: /* the rows are the owner's: it drops them at the STORE */
    case MOB_GCS_OPS:
    default:
        return MOB_OK;
    }
}

void mob_chain_loss_text(uint64_t client, uint64_t next, const uint64_t *missing, int64_t wall_ns,
    char out[MOB_CHAIN_LOSS_TEXT_MAX])
{
    char id[48], count[24] = "null";
    bool is_log = (client & MOB_GCS_CLIENT_BIT) == 0;
    if (missing != NULL)
        snprintf(count, sizeof count, "%llu", (unsigned long long)*missing);
    snprintf(
        id, sizeof id, is_log ? "\"incarnation\":%llu" : "\"client\":\"%llx\"", (unsigned long long)client);
    /* A log's first request is its registration, so its blocks count from one behind. */
    snprintf(out, MOB_CHAIN_LOSS_TEXT_MAX,
        "{\"kind\":\"%s\",%s,\"first_missing\":%llu,\"missing\":%s,\"wall_ns\":%lld}",
        is_log ? "log" : "client", id, (unsigned long long)(is_log ? next - 1 : next), count,
        (long long)wall_ns);
}

enum mob_status mob_chain_append_loss(
    struct mob_chain *c, uint64_t seq, const char *text, const struct mob_chain_skip *skip)
{
    size_t length = strlen(text);
    uint8_t *body = malloc(8 + length);
    if (body == NULL)
        return MOB_NO_MEMORY;
    for (int i = 0; i < 8; i++) /* big-endian, so that LIST gives them in order */
        body[i] = (uint8_t)(seq >> (56 - 8 * i));
    memcpy(body + 8, text, length);
    struct mob_chain_entry entry = {.epoch = c->config.epoch,
        .op = MOB_GCS_OP_LOSS,
        .table = MOB_GCS_LOSSES,
        .target = skip == NULL ? 0 : skip->client,
        .number = skip == NULL ? 0 : skip->last,
        .body = body,
        .key_length = 8,
        .body_bytes = (uint32_t)(8 + length),
        .body_crc = mob_crc32c(body, 8 + length),
        .version = version_at(c->config.epoch, seq),
        .own_body = true};
    enum mob_status status = mob_chain_append(c, &entry, seq);
    if (status != MOB_OK)
        free(body);
    return status;
}
