/* Ordered operations of this client: numbered, in a window, kept until durable. */
#include "gcs/client/client_internal.h"

#include <stdlib.h>
#include <sys/random.h>

#include "common/wire/block.h"

/* ---- streams ---- */

void stream_detach(struct stream *s, int64_t attach_ns)
{
    s->state = STREAM_DETACHED;
    s->attach_ns = attach_ns;
    s->heard = false;
}

static void stream_set(struct mob_gcs *g, struct stream *s, enum stream_state state)
{
    s->state = state;
    s->since_ns = g->now_ns;
}

void stream_tick(struct mob_gcs *g, struct stream *s)
{
    bool waits = s->state == STREAM_LISTENING || s->state == STREAM_OPENING || s->state == STREAM_ATTACHING;
    if (waits && g->head->chain && g->now_ns - s->since_ns > STREAM_PATIENCE_NS)
        stream_detach(s, g->now_ns);
}

bool stream_listens(struct mob_gcs *g, struct stream *s, uint64_t client)
{
    if (g->head == g->tail || s->heard)
        return true;
    out_frame(g->tail, MOB_GCS_LISTEN, client, g->position.epoch, NULL, 0, NULL, 0, NULL);
    stream_set(g, s, STREAM_LISTENING);
    return false;
}

void stream_heard(struct mob_gcs *g, uint64_t client)
{
    struct mob_gcs_log *log = log_find(g, client);
    struct stream *s = client == g->client || client == g->nonce ? &g->stream
        : log != NULL                                            ? &log->stream
                                                                 : NULL;
    if (s == NULL || s->state != STREAM_LISTENING)
        return;
    s->heard = true;
    s->state = STREAM_DETACHED; /* the next pump goes on */
    s->attach_ns = g->now_ns;
}

void stream_attach(struct mob_gcs *g, struct stream *s, uint64_t client, uint64_t answered, uint64_t kept)
{
    struct mob_gcs_attach attach = {.answered = answered, .kept = kept, .known = 1};
    out_frame(g->head, MOB_GCS_ATTACH, client, g->position.epoch, &attach, sizeof attach, NULL, 0, NULL);
    stream_set(g, s, STREAM_ATTACHING);
}

/* Ids are given by the chain, in order, so that one that was expired can never come back. The nonce stays the
 * same until there is a reply, so a reply that was lost, or is late, leaves no id that nobody uses: asked
 * again, the chain gives the one that this nonce has got. */
static void open_client(struct mob_gcs *g)
{
    struct mob_gcs_request head = {.op = MOB_GCS_OP_OPEN};
    if (g->nonce == 0) {
        MOB_ASSERT(getrandom(&g->nonce, sizeof g->nonce, 0) == sizeof g->nonce);
        g->nonce |= MOB_GCS_CLIENT_BIT;
        g->opens = 0;
    }
    if (!stream_listens(g, &g->stream, g->nonce))
        return;
    g->opens++;
    out_frame(g->head, MOB_GCS_PUT, g->nonce, g->position.epoch, &head, sizeof head, NULL, 0, NULL);
    stream_set(g, &g->stream, STREAM_OPENING);
}

void ops_opened(struct mob_gcs *g, const struct mob_gcs_reply *reply)
{
    if (g->stream.state != STREAM_OPENING)
        return;
    if (reply->seq == 0) {
        stream_detach(&g->stream, g->now_ns + REFUSED_PAUSE_NS);
        return;
    }
    g->client = reply->number;
    g->nonce = 0;
    /* The tail is to know it by its name; so is a member that may have given it on an earlier link, or have
     * restarted since and wait for it. */
    if (g->head != g->tail || g->opens > 1) {
        stream_detach(&g->stream, g->now_ns);
        return;
    }
    g->stream.state = STREAM_ATTACHED;
    g->stream.last = 0;
    g->stream.resent = false;
    g->op_cursor = g->op_first;
}

/* ---- submitting ---- */

void join(uint8_t *out, const void *a, uint32_t a_bytes, const void *b, uint32_t b_bytes)
{
    if (a_bytes > 0)
        memcpy(out, a, a_bytes);
    if (b_bytes > 0)
        memcpy(out + a_bytes, b, b_bytes);
}

static enum mob_status submit(struct mob_gcs *g, const struct mob_gcs_request *head, const void *a,
    uint32_t a_bytes, const void *b, uint32_t b_bytes, mob_gcs_done_fn *done, void *arg)
{
    if (g->closed)
        return MOB_CLOSED;
    if (g->op_count - g->op_kept + g->read_count >= MOB_GCS_OPS_MAX || g->op_kept >= MOB_GCS_OPS_KEPT_MAX)
        return MOB_QUEUE_FULL;
    struct op *op = malloc(sizeof *op + a_bytes + b_bytes);
    if (op == NULL)
        return MOB_NO_MEMORY;
    *op = (struct op){.head = *head, .body_bytes = a_bytes + b_bytes, .done = done, .arg = arg};
    op->head.request = g->next_request++;
    join(op->body, a, a_bytes, b, b_bytes);
    if (g->op_last != NULL)
        g->op_last->next = op;
    else
        g->op_first = op;
    g->op_last = op;
    if (g->op_cursor == NULL)
        g->op_cursor = op;
    if (g->op_wait == NULL)
        g->op_wait = op;
    g->op_count++;
    return MOB_OK;
}

static enum mob_status submit_key(
    struct mob_gcs *g, enum mob_gcs_op op, const struct mob_gcs_put *put, mob_gcs_done_fn *done, void *arg)
{
    uint32_t value_length = op == MOB_GCS_OP_PUT ? put->value_length : 0;
    if (put->key_length == 0 || put->table <= 0 || put->table >= MOB_GCS_LOSSES)
        return MOB_INVALID;
    if (put->key_length > MOB_GCS_KEY_MAX || value_length > MOB_GCS_VALUE_MAX)
        return MOB_TOO_LARGE;
    struct mob_gcs_request head = {.op = (uint8_t)op,
        .table = (uint8_t)put->table,
        .key_length = put->key_length,
        .if_version = put->if_version};
    g = shard_of_key(g, put->table, put->key, put->key_length);
    return submit(g, &head, put->key, put->key_length, put->value, value_length, done, arg);
}

enum mob_status mob_gcs_put(
    struct mob_gcs *g, const struct mob_gcs_put *put, mob_gcs_done_fn *done, void *arg)
{
    return submit_key(g, MOB_GCS_OP_PUT, put, done, arg);
}

enum mob_status mob_gcs_delete(
    struct mob_gcs *g, const struct mob_gcs_put *del, mob_gcs_done_fn *done, void *arg)
{
    return submit_key(g, MOB_GCS_OP_DELETE, del, done, arg);
}

enum mob_status ops_register(
    struct mob_gcs *g, const char *name, uint32_t shard, uint32_t shards, mob_gcs_done_fn *done, void *arg)
{
    struct mob_gcs_request head = {
        .op = MOB_GCS_OP_REGISTER, .target = shard, .if_version = shards > 1 ? shards : 0};
    return submit(g, &head, name, (uint32_t)strlen(name), NULL, 0, done, arg);
}

enum mob_status mob_gcs_node_register(struct mob_gcs *g, const char *name, mob_gcs_done_fn *done, void *arg)
{
    size_t length = strlen(name);
    if (length == 0 || length > MOB_GCS_NAME_MAX)
        return MOB_INVALID;
    return g->shard_count > 0 ? gather_register(g, name, done, arg) : ops_register(g, name, 0, 1, done, arg);
}

enum mob_status mob_gcs_node_register_at(
    struct mob_gcs *g, const char *name, uint32_t shard, uint32_t shards, mob_gcs_done_fn *done, void *arg)
{
    size_t length = strlen(name);
    if (length == 0 || length > MOB_GCS_NAME_MAX || g->shard_count > 0)
        return MOB_INVALID;
    return ops_register(g, name, shard, shards, done, arg);
}

enum mob_status mob_gcs_log_seal(struct mob_gcs *g, uint64_t incarnation, mob_gcs_done_fn *done, void *arg)
{
    struct mob_gcs_request head = {.op = MOB_GCS_OP_SEAL, .target = incarnation};
    return submit(shard_of_log(g, incarnation), &head, NULL, 0, NULL, 0, done, arg);
}

enum mob_status mob_gcs_log_recovered(
    struct mob_gcs *g, uint64_t incarnation, mob_gcs_done_fn *done, void *arg)
{
    struct mob_gcs_request head = {.op = MOB_GCS_OP_RECOVERED, .target = incarnation};
    return submit(shard_of_log(g, incarnation), &head, NULL, 0, NULL, 0, done, arg);
}

enum mob_status mob_gcs_job_drop(struct mob_gcs *g, struct mob_job_id job, bool finished_only,
    int64_t before_wall_ns, mob_gcs_done_fn *done, void *arg)
{
    if (g->shard_count > 0)
        return gather_job_drop(g, job, finished_only, before_wall_ns, done, arg);
    struct mob_gcs_request head = {.op = MOB_GCS_OP_JOB_DROP,
        .job = job,
        .finished_only = finished_only,
        .before_wall_ns = before_wall_ns};
    return submit(g, &head, NULL, 0, NULL, 0, done, arg);
}

enum mob_status mob_gcs_flush(
    struct mob_gcs *g, const struct mob_gcs_flush *flush, mob_gcs_done_fn *done, void *arg)
{
    if (g->shard_count > 0)
        return MOB_INVALID;
    if (flush->group_count > MOB_GCS_FLUSH_GROUPS_MAX)
        return MOB_TOO_LARGE;
    struct mob_gcs_request head = {.op = MOB_GCS_OP_FLUSH, .target = flush->upto, .if_version = flush->from};
    uint32_t bytes = flush->group_count * (uint32_t)sizeof *flush->groups;
    return submit(g, &head, flush->groups, bytes, NULL, 0, done, arg);
}

/* ---- sending ---- */

void ops_pump(struct mob_gcs *g)
{
    struct stream *s = &g->stream;
    stream_tick(g, s);
    if (s->state == STREAM_DETACHED && g->now_ns >= s->attach_ns && g->client == 0)
        open_client(g);
    if (s->state == STREAM_DETACHED && g->now_ns >= s->attach_ns && g->client != 0 &&
        stream_listens(g, s, g->client)) {
        uint64_t kept = g->op_first != NULL ? g->op_first->head.request : g->next_request;
        uint64_t answered = kept - 1;
        for (struct op *op = g->op_first; op != NULL && op->answered; op = op->next)
            answered = op->head.request;
        stream_attach(g, s, g->client, answered, kept);
    }
    if (s->state != STREAM_ATTACHED)
        return;
    while (g->op_cursor != NULL && !out_full(g->head)) {
        struct op *op = g->op_cursor;
        bool again = op->head.request <= s->sent;
        if (!again && g->op_unanswered >= OPS_WINDOW)
            break;
        g->op_cursor = op->next;
        if (op->answered && op->head.request <= s->last)
            continue;
        if (!again) {
            s->sent = op->head.request;
            g->op_unanswered++;
        }
        out_frame(g->head, MOB_GCS_PUT, g->client, g->position.epoch, &op->head, sizeof op->head, op->body,
            op->body_bytes, NULL);
    }
    bool all_again = g->op_cursor == NULL || g->op_cursor->head.request > s->sent;
    if (!s->resent && all_again) {
        s->resent = true;
        out_frame(g->head, MOB_GCS_RESENT, g->client, g->position.epoch, NULL, 0, NULL, 0, NULL);
    }
}

void ops_attached(struct mob_gcs *g, const struct mob_gcs_attached *attached)
{
    struct stream *s = &g->stream;
    if (s->state != STREAM_ATTACHING)
        return;
    if (attached->status != MOB_OK) {
        ops_expired(g);
        return;
    }
    s->state = STREAM_ATTACHED;
    s->last = attached->last;
    s->resent = false;
    g->op_cursor = g->op_first;
}

/* ---- answers ---- */

static void op_done(struct op *op, const struct mob_gcs_answer *answer)
{
    mob_gcs_done_fn *done = op->done;
    op->done = NULL;
    if (done != NULL)
        done(op->arg, answer);
}

static void unlink_op(struct mob_gcs *g, struct op *op)
{
    struct op **link = &g->op_first, *before = NULL;
    while (*link != op) {
        before = *link;
        link = &before->next;
    }
    *link = op->next;
    if (g->op_last == op)
        g->op_last = before;
    if (g->op_cursor == op)
        g->op_cursor = op->next;
    if (g->op_wait == op)
        g->op_wait = op->next;
    g->op_kept -= op->answered;
    g->op_count--;
}

/* Not taken, and never will be: its number goes to the next, which the member refused too (a gap). */
static void refuse(struct mob_gcs *g, struct op *op, enum mob_status status)
{
    struct op *behind = op->next;
    unlink_op(g, op);
    for (; behind != NULL; behind = behind->next)
        behind->head.request--;
    g->next_request--;
    g->stream.sent--;
    g->op_unanswered--;
    stream_detach(&g->stream, g->now_ns);
    struct mob_gcs_answer answer = {.status = status};
    op_done(op, &answer);
    free(op);
}

void ops_reply(struct mob_gcs *g, const struct mob_gcs_reply *reply)
{
    bool awaited = g->op_wait != NULL && reply->request >= g->op_wait->head.request;
    struct op *op = awaited ? g->op_wait : g->op_first;
    while (op != NULL && op->head.request != reply->request)
        op = op->next;
    if (op == NULL)
        return;
    g->heard = true;
    if (reply->seq == 0) {
        if (g->stream.state != STREAM_ATTACHED || op->answered)
            return;
        bool later = reply->status == MOB_GCS_FULL || reply->status == MOB_QUEUE_FULL ||
            reply->status == MOB_NO_MEMORY;
        if (later)
            stream_detach(&g->stream, g->now_ns + REFUSED_PAUSE_NS);
        else
            refuse(g, op, (enum mob_status)reply->status);
        return;
    }
    op->seq = reply->seq;
    if (op->answered)
        return;
    op->answered = true;
    g->op_kept++;
    while (g->op_wait != NULL && g->op_wait->answered)
        g->op_wait = g->op_wait->next;
    op->head.old_seq = reply->seq;
    op->head.old_status = reply->status;
    op->head.old_version = reply->version;
    op->head.old_number = reply->number;
    g->op_unanswered--;
    struct mob_gcs_answer answer = {.status = (enum mob_status)reply->status,
        .version = reply->version,
        .seq = reply->seq,
        .number = reply->number,
        .next = reply->next};
    op_done(op, &answer);
}

void ops_durable(struct mob_gcs *g)
{
    while (g->op_first != NULL && g->op_first->answered && g->op_first->seq <= g->position.durable) {
        struct op *op = g->op_first;
        unlink_op(g, op);
        free(op);
    }
}

/* The member has forgotten this client (it was away too long): what was sent and not answered is unknown; the
 * rest goes on under a new id. */
void ops_expired(struct mob_gcs *g)
{
    struct op *unknown = NULL, **tail = &unknown;
    uint64_t sent = g->stream.sent;
    while (g->op_first != NULL && g->op_first->head.request <= sent) {
        struct op *op = g->op_first;
        unlink_op(g, op);
        op->next = NULL;
        *tail = op;
        tail = &op->next;
    }
    MOB_LOG_WARN("gcs_client", "expired", "client=%llx", (unsigned long long)g->client);
    g->client = g->nonce = 0;
    g->stream = (struct stream){.attach_ns = g->now_ns};
    g->next_request = 1;
    g->op_unanswered = 0;
    for (struct op *op = g->op_first; op != NULL; op = op->next)
        op->head.request = g->next_request++;
    struct mob_gcs_answer answer = {.status = MOB_EXPIRED};
    for (struct op *op = unknown, *next; op != NULL; op = next) {
        next = op->next;
        op_done(op, &answer);
        free(op);
    }
}

void ops_close(struct mob_gcs *g)
{
    struct mob_gcs_answer answer = {.status = MOB_CLOSED};
    for (struct op *op = g->op_first; op != NULL; op = op->next)
        op_done(op, &answer); /* nothing is submitted or taken off the list any more */
}

void ops_destroy(struct mob_gcs *g)
{
    for (struct op *op = g->op_first, *next; op != NULL; op = next) {
        next = op->next;
        free(op);
    }
    g->op_first = NULL;
}
