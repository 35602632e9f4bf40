/* Clients' requests at the head, and reads that go through the chain. */
#include "gcs/chain/chain_internal.h"
#include "gcs/chain/chain_stream.h"

#include <stdio.h>
#include <stdlib.h>

static enum mob_status why_absent(const struct mob_chain *c, uint64_t client, uint64_t *last_out)
{
    const struct mob_gcs_incarnation *log = mob_state_incarnation(c->options.state, client);
    *last_out = log != NULL ? log->blocks : 0;
    return log != NULL ? MOB_SEALED : MOB_EXPIRED;
}

/* Not said when too many wait already: whoever asks asks again. */
static void notify_expired(struct mob_chain *c, uint64_t client)
{
    if (c->notice_end - c->notice_first == MOB_CHAIN_NOTICES_MAX)
        return;
    struct mob_chain_notice *n = &c->notices[c->notice_end++ % MOB_CHAIN_NOTICES_MAX];
    *n = (struct mob_chain_notice){.client = client, .gate = c->collecting ? 0 : c->applied};
    n->reply.status = why_absent(c, client, &n->reply.request);
}

/* ---- attaching ---- */

/* What was answered, and is not here: GCS.md 4, "that gap is named". */
static enum mob_status attach_hole(
    struct mob_chain *c, struct mob_chain_client *client, const struct mob_chain_attach *attach)
{
    bool is_log = (client->id & MOB_GCS_CLIENT_BIT) == 0;
    uint64_t first = client->last + 1, id = client->id, missing = attach->kept - first;
    char text[MOB_CHAIN_LOSS_TEXT_MAX];
    mob_chain_loss_text(id, first, &missing, attach->wall_ns, text);
    MOB_LOG_ERROR("gcs", "committed_requests_lost", "what=%s", text);
    struct mob_chain_skip skip = {id, attach->kept - 1};
    if (!is_log && c->collecting) { /* what it keeps comes back first, and there is no other member yet */
        mob_chain_client_set_last(&c->clients, client, skip.last);
        client->collected = skip.last;
    }
    return mob_chain_name_loss(c, text, is_log ? id : 0, is_log || c->collecting ? NULL : &skip);
}

/* Neither its opening nor its registration is in the history, though it was in one that ended: so nothing
 * that it was answered is here either. An id says in which epoch and at which seq its client was opened; of a
 * log each registration leaves a row. */
static bool was_lost(const struct mob_chain *c, const struct mob_chain_attach *attach)
{
    if ((attach->client & MOB_GCS_CLIENT_BIT) == 0)
        return attach->base_count > 0 && mob_state_incarnation(c->options.state, attach->client) == NULL;
    uint64_t low = (1ull << MOB_CHAIN_CLIENT_SEQ_BITS) - 1;
    uint64_t epoch = (attach->client & ~MOB_GCS_CLIENT_BIT) >> MOB_CHAIN_CLIENT_SEQ_BITS;
    uint64_t end = mob_chain_stream_end(attach->bases, attach->base_count, epoch, UINT64_MAX);
    return end != UINT64_MAX && (attach->client & low) > (end & low);
}

/* It comes when collecting is over. What it kept cannot be put back any more, and is named, once. */
static enum mob_status name_late(struct mob_chain *c, const struct mob_chain_attach *attach)
{
    if (c->collecting || attach->answered == 0 || !was_lost(c, attach))
        return MOB_OK;
    for (uint32_t i = 0; i < MOB_CHAIN_LATE_MAX; i++)
        if (c->late[i] == attach->client)
            return MOB_OK;
    if (mob_chain_room(c) == 0)
        return MOB_QUEUE_FULL;
    char text[MOB_CHAIN_LOSS_TEXT_MAX];
    mob_chain_loss_text(attach->client, 1, &attach->answered, attach->wall_ns, text);
    MOB_LOG_ERROR("gcs", "came_after_collecting", "what=%s", text);
    enum mob_status status = mob_chain_append_loss(c, c->applied + 1, text, NULL);
    if (status == MOB_OK)
        c->late[c->late_count++ % MOB_CHAIN_LATE_MAX] = attach->client;
    mob_chain_settle(c);
    return status;
}

enum mob_status mob_chain_on_attach(
    struct mob_chain *c, const struct mob_chain_attach *attach, struct mob_gcs_attached *attached_out)
{
    if (!mob_chain_is_head(c) && c->state != MOB_CHAIN_COLLECTING)
        return MOB_WRONG_EPOCH;
    struct mob_chain_client *client = mob_chain_clients_find(&c->clients, attach->client);
    if (client == NULL && c->collecting)
        client = mob_chain_collect_open(c, attach->client);
    if (client != NULL && attach->kept > client->last + 1) {
        enum mob_status status = attach_hole(c, client, attach);
        if (status != MOB_OK)
            return status;
        if ((attach->client & MOB_GCS_CLIENT_BIT) == 0)
            client = NULL; /* sealed, now or at the end of collecting */
    }
    if (client == NULL) {
        enum mob_status status = name_late(c, attach);
        if (status == MOB_OK)
            notify_expired(c, attach->client);
        return status == MOB_OK ? MOB_FINISHED : status;
    }
    if (!c->collecting || client->collected < client->last) /* it may attach again in the middle of it */
        client->collected = client->last;
    *attached_out = (struct mob_gcs_attached){.last = client->collected};
    return MOB_OK;
}

/* ---- requests ---- */

enum mob_status mob_chain_accept(struct mob_chain *c, const struct mob_chain_put *put, uint64_t seq)
{
    struct mob_chain_entry entry = {.epoch = c->config.epoch,
        .client = put->client,
        .request = put->request.request,
        .op = put->request.op,
        .table = put->request.table,
        .body = put->body,
        .body_bytes = put->body_bytes,
        .body_crc = put->body_crc,
        .key_length = put->request.key_length,
        .target = put->request.target,
        .hold = put->hold};
    if (put->request.op == MOB_GCS_OP_OPEN) { /* the nonce is only for the reply */
        entry.target = put->client;
        entry.client = 0;
    }
    enum mob_status status = mob_chain_resolve(c, put, seq, &entry);
    if (status == MOB_OK)
        status = mob_chain_append(c, &entry, seq);
    if (status != MOB_OK)
        free(entry.drops);
    return status;
}

/* `to`: who asks; while a client has not heard its id, the nonce of its OPEN. */
static void on_duplicate(
    struct mob_chain *c, const struct mob_chain_client *client, uint64_t to, uint64_t request)
{
    const struct mob_gcs_reply *reply = &client->replies[request % MOB_GCS_WINDOW];
    c->duplicates++;
    /* Uncommitted: the reply comes with the commit, to whatever connection the client has then. If it is the
     * tail that replies, its message may be lost, so this member says it, too. */
    if (reply->request == request && reply->seq > c->committed) {
        struct mob_chain_entry *e = mob_chain_find(c, reply->seq);
        if (e != NULL)
            e->awaited = true;
        return;
    }
    struct mob_gcs_reply answer = *reply;
    if (reply->request != request) /* older than the window; only a broken client can ask */
        answer = (struct mob_gcs_reply){.request = request, .count = 1, .status = MOB_EXPIRED};
    mob_chain_answer(c, MOB_CHAIN_REPLY, to, &answer);
}

static enum mob_status new_request(struct mob_chain *c, const struct mob_chain_put *put)
{
    if (mob_chain_room(c) == 0)
        return MOB_QUEUE_FULL;
    if (put->full && put->request.op == MOB_GCS_OP_APPEND)
        return MOB_GCS_FULL;
    enum mob_status status = mob_chain_accept(c, put, c->applied + 1);
    mob_chain_settle(c);
    return status;
}

/* Who has not heard the reply asks again under the same nonce, and gets the place that is its own: another
 * one would leave that with nobody in it, whom a restarted member waits for. */
static enum mob_status on_open(struct mob_chain *c, const struct mob_chain_put *put)
{
    const struct mob_chain_client *opened = mob_chain_clients_opened(&c->clients, put->client);
    if (MOB_RULE(DEDUP) && opened != NULL) {
        on_duplicate(c, opened, put->client, 0);
        return MOB_FINISHED;
    }
    return c->collecting ? MOB_QUEUE_FULL : new_request(c, put);
}

enum mob_status mob_chain_on_put(struct mob_chain *c, const struct mob_chain_put *put)
{
    uint64_t request = put->request.request;
    bool takes = mob_chain_is_head(c) || c->state == MOB_CHAIN_COLLECTING;
    if (!takes || (MOB_RULE(EPOCH) && put->epoch != c->config.epoch)) {
        mob_chain_answer(c, MOB_CHAIN_NACK, put->client, &(struct mob_gcs_reply){.request = request});
        return MOB_FINISHED;
    }
    if (put->request.op == MOB_GCS_OP_OPEN)
        return on_open(c, put);
    struct mob_chain_client *client = mob_chain_clients_find(&c->clients, put->client);
    if (client == NULL) {
        notify_expired(c, put->client);
        return MOB_FINISHED;
    }
    if (c->collecting)
        return mob_chain_collect(c, client, put);
    if (MOB_RULE(DEDUP) && request <= client->last) {
        on_duplicate(c, client, put->client, request);
        return MOB_FINISHED;
    }
    if (request > client->last + 1) {
        mob_chain_answer(c, MOB_CHAIN_GAP, put->client, &(struct mob_gcs_reply){.request = client->last});
        return MOB_FINISHED;
    }
    return new_request(c, put);
}

enum mob_status mob_chain_on_internal(struct mob_chain *c, enum mob_gcs_op op, uint64_t target)
{
    if (!mob_chain_is_head(c))
        return MOB_WRONG_EPOCH;
    struct mob_chain_put put = {.request = {.op = (uint8_t)op, .target = target}};
    return mob_chain_accept(c, &put, c->applied + 1);
}

enum mob_status mob_chain_on_read(struct mob_chain *c, const struct mob_chain_read *read)
{
    if (!mob_chain_is_head(c) || (MOB_RULE(EPOCH) && read->epoch != c->config.epoch))
        return MOB_WRONG_EPOCH;
    struct mob_gcs_link_msg m = {.link = {.token = read->tag, .client = read->client},
        .body = read->body,
        .body_bytes = read->body_bytes};
    if (mob_chain_last(c))
        mob_chain_point(c, &(struct mob_chain_action){.type = MOB_CHAIN_READ}, &m);
    else
        mob_chain_send(c, mob_chain_successor(c), MOB_GCS_READ, &m);
    return MOB_OK;
}
