/* What a client's frame does, and what the chain's actions do. */
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>

#include "common/base/failpoint.h"

/* What a write costs until the next measurement: its bytes here until they are durable, its value in Redis,
 * its places in the tables. */
#define MEMORY_OF(bytes) (2ull * (bytes) + 512)

#define DURABLE_OUT_MAX \
    (64u << 10) /* unsent bytes of a connection above which it is not told what is durable */

/* ---- requests ---- */

/* A block must say of itself what the request says of it, or recovery would read another's log. */
static enum mob_status check_block(struct mob_shard *sh, const struct mob_gcs_frame *frame, uint64_t request)
{
    if (frame->body_bytes == 0 || frame->body_bytes > MOB_BLOCK_BYTES_MAX)
        return MOB_TOO_LARGE;
    enum mob_status status =
        mob_block_peek(frame->body, frame->body_bytes, &sh->peeked_header, &sh->peeked_zone);
    if (status != MOB_OK)
        return status;
    const struct mob_block_header *h = &sh->peeked_header;
    struct mob_cluster_id any = {0};
    bool foreign = memcmp(&sh->options.cluster, &any, sizeof any) != 0 &&
        memcmp(&sh->options.cluster, &h->cluster, sizeof any) != 0;
    if (foreign || h->incarnation != frame->from || h->sequence != request - 1)
        return MOB_INVALID;
    sh->peeked = frame->body;
    return MOB_OK;
}

/* Where no master decides who has a node's name, its link does: two processes under one name would end each
 * other's logs in turn. Whoever starts a node's process again has seen the one before end. */
static enum mob_status check_name(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_shard *sh = c->shard;
    if (frame->body_bytes == 0 || frame->body_bytes > MOB_GCS_NAME_MAX)
        return MOB_INVALID;
    bool held = !shard_has_masters(sh) && attach_name_is_held(sh, c, frame->body, frame->body_bytes);
    return held ? MOB_EXISTS : MOB_OK;
}

static enum mob_status check_request(
    struct conn *c, const struct mob_gcs_frame *frame, const struct mob_gcs_request *r)
{
    struct mob_shard *sh = c->shard;
    bool is_log = (frame->from & MOB_GCS_CLIENT_BIT) == 0, opens = r->op == MOB_GCS_OP_OPEN;
    if ((r->request == 0) != opens || is_log != (r->op == MOB_GCS_OP_APPEND))
        return MOB_INVALID;
    switch (r->op) {
    case MOB_GCS_OP_APPEND:
        return check_block(sh, frame, r->request);
    case MOB_GCS_OP_PUT:
    case MOB_GCS_OP_DELETE:
        if (r->table == 0 || r->table >= MOB_GCS_TABLES || r->table == MOB_GCS_LOSSES || r->key_length == 0)
            return MOB_INVALID;
        if (r->key_length > MOB_GCS_KEY_MAX || r->key_length > frame->body_bytes ||
            frame->body_bytes - r->key_length > MOB_GCS_VALUE_MAX)
            return MOB_TOO_LARGE;
        return MOB_OK;
    case MOB_GCS_OP_REGISTER:
        if (r->if_version > MOB_GCS_SHARDS_MAX || (r->if_version > 0 && r->target != sh->options.shard))
            return MOB_INVALID;
        return check_name(c, frame);
    case MOB_GCS_OP_SEAL:
    case MOB_GCS_OP_RECOVERED:
    case MOB_GCS_OP_JOB_DROP:
    case MOB_GCS_OP_OPEN:
        return MOB_OK;
    case MOB_GCS_OP_FLUSH:
        return flushed_check(sh, r, frame->body_bytes);
    default:
        return MOB_INVALID;
    }
}

static void reply_refusal(struct conn *c, uint64_t client, uint64_t request, enum mob_status status)
{
    struct mob_gcs_reply reply = {.request = request, .count = 1, .status = status};
    conn_send(c, MOB_GCS_REPLY, client, &reply, sizeof reply);
}

static bool has_room(const struct mob_shard *sh)
{
    /* Received, not durable. While the link to Redis is down this is what stops the clients. */
    return mob_chain_room(sh->chain) > 0 && sh->chunks.live_bytes < sh->options.hold_bytes &&
        !(shard_has_masters(sh) && (peers_crowded(sh) || mob_chain_paced(sh->chain)));
}

static enum serve_result serve_put(struct conn *c, const struct mob_gcs_frame *frame, struct mob_chunk *chunk)
{
    struct mob_shard *sh = c->shard;
    struct mob_chain_put put = {.epoch = frame->epoch,
        .client = frame->from,
        .body = frame->body,
        .body_bytes = frame->body_bytes,
        .body_crc = frame->body_crc,
        .hold = chunk,
        .full = sh->full};
    enum mob_status status = mob_gcs_request_decode(frame->head, frame->head_bytes, &put.request);
    if (status == MOB_OK && put.request.op == MOB_GCS_OP_OPEN)
        status = attach_nonce(c, frame->from);
    bool elsewhere = shard_has_masters(sh) && status == MOB_OK && !mob_chain_is_head(sh->chain) &&
        !mob_chain_collecting(sh->chain);
    if (elsewhere) {
        member_tell(c, frame->from);
        return SERVE_OK;
    }
    if (status != MOB_OK || attach_conn(sh, frame->from) != c) {
        conn_close(c, status != MOB_OK ? status : MOB_INVALID);
        return SERVE_OK;
    }
    if (!has_room(sh))
        return SERVE_NO_ROOM;
    status = check_request(c, frame, &put.request);
    if (status != MOB_OK) {
        MOB_LOG_WARN("gcs", "request_refused", "client=%llx request=%llu op=%u why=%s",
            (unsigned long long)frame->from, (unsigned long long)put.request.request, put.request.op,
            mob_status_code(status));
        reply_refusal(c, frame->from, put.request.request, status);
        return SERVE_OK;
    }
    status = mob_chain_on_put(sh->chain, &put);
    if (status == MOB_OK) {
        (void)MOB_FAILPOINT("gcs.after_apply");
        mob_chunk_hold(chunk);
    } else if (status != MOB_FINISHED) {
        reply_refusal(c, frame->from, put.request.request, status);
    }
    serve_actions(sh);
    sh->peeked = NULL; /* the bytes may be another block's tomorrow */
    return SERVE_OK;
}

enum serve_result serve_frame(struct conn *c, const struct mob_gcs_frame *frame, struct mob_chunk *chunk)
{
    if (!c->open) {
        conn_opening(c, frame);
        return SERVE_OK;
    }
    c->shard->member.asked_ns = c->shard->now_ns;
    bool is_read = frame->type == MOB_GCS_GET, collecting = mob_chain_collecting(c->shard->chain);
    /* Who asked before it heard that this member collects. Its attachment, which that waits for, may stand
     * behind the question on the same link, so the question is not kept. Without masters each link says it
     * before anybody can ask. */
    if (is_read && collecting && shard_has_masters(c->shard)) {
        member_tell(c, UINT64_MAX);
        return SERVE_OK;
    }
    /* Reads wait while the client does not read, or asks too much at once. */
    if (is_read && (conn_out_bytes(c) > CONN_OUT_MAX || c->queries >= CONN_QUERIES_MAX || collecting))
        return SERVE_STALL;
    switch ((enum mob_gcs_frame_type)frame->type) {
    case MOB_GCS_ATTACH:
        attach_client(c, frame);
        return SERVE_OK;
    case MOB_GCS_RESENT:
        attach_resent(c, frame);
        return SERVE_OK;
    case MOB_GCS_BYE:
        attach_bye(c, frame);
        return SERVE_OK;
    case MOB_GCS_PUT:
        return serve_put(c, frame, chunk);
    case MOB_GCS_GET:
        query_serve(c, frame);
        return SERVE_OK;
    case MOB_GCS_SUB:
        subscribe_serve(c, frame);
        return SERVE_OK;
    case MOB_GCS_UNSUB:
        unsubscribe_serve(c, frame);
        return SERVE_OK;
    case MOB_GCS_LISTEN:
        attach_listen(c, frame);
        return SERVE_OK;
    case MOB_GCS_COLD:
        if (member_is_tail(c->shard))
            query_cold_serve(c, frame);
        else
            member_refuse(c, frame);
        return SERVE_OK;
    case MOB_GCS_COLD_ROWS:
        query_cold_rows(c, frame);
        return SERVE_OK;
    case MOB_GCS_HURRY: /* has done its work above */
        return SERVE_OK;
    case MOB_GCS_COLD_GET:
    case MOB_GCS_WELCOME:
    case MOB_GCS_ATTACHED:
    case MOB_GCS_REPLY:
    case MOB_GCS_DURABLE:
    case MOB_GCS_NACK:
    case MOB_GCS_GAP:
    case MOB_GCS_EXPIRED:
    case MOB_GCS_ROWS:
    case MOB_GCS_BLOCK:
    case MOB_GCS_RESYNC:
    case MOB_GCS_FRAME_TYPES:
    default:
        conn_close(c, MOB_BAD_REQUEST);
        return SERVE_OK;
    }
}

/* ---- actions ---- */

static void index_entry(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    if (e->status != MOB_OK)
        return;
    if (e->op == MOB_GCS_OP_APPEND) {
        /* It was in the snapshot, or was dropped or flushed before that ended. */
        if (e->seq <= sh->member.loaded_blocks || e->seq <= sh->flushed.applied)
            return;
        if (e->body != sh->peeked) /* collected earlier: it was checked then */
            MOB_ASSERT(
                mob_block_peek(e->body, e->body_bytes, &sh->peeked_header, &sh->peeked_zone) == MOB_OK);
        if (mob_chain_is_head(sh->chain) && MOB_FAILPOINT("gcs.head_index_lacks"))
            sh->peeked_zone.group_count = 0; /* what tools must find, and no client would */
        mob_index_add(sh->index, e->seq, e->body_bytes, &sh->peeked_header, &sh->peeked_zone);
        sh->peeked = NULL;
    } else if (e->op == MOB_GCS_OP_FLUSH) {
        flushed_apply(sh, e);
    } else if (e->op == MOB_GCS_OP_JOB_DROP) {
        for (size_t i = 0; i < e->drop_count; i++)
            sh->dropped_since_sweep += mob_index_drop(sh->index, e->drops[i]);
        if (sh->dropped_since_sweep > 0 &&
            (e->next == 0 || sh->dropped_since_sweep > 16 * MOB_CHAIN_DROP_MAX)) {
            mob_index_sweep(sh->index);
            sh->dropped_since_sweep = 0;
        }
    }
}

static void seal_later(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    if (e->op != MOB_GCS_OP_SEAL || e->status != MOB_OK || sh->seal_count == 16)
        return; /* a client that misses the notice learns it from its next block */
    sh->seals[sh->seal_count].incarnation = e->target;
    sh->seals[sh->seal_count].seq = e->seq;
    sh->seals[sh->seal_count++].cut = e->number;
}

/* By what is applied, not by what was asked: whichever member tells its figures, they are the chain's. */
static void count_entry(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    bool append = e->op == MOB_GCS_OP_APPEND;
    if (e->client == 0) /* the head's own */
        return;
    sh->appends += append;
    sh->append_bytes += append ? e->body_bytes : 0;
    sh->puts += !append;
}

static void index_once(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    if (e->seq <= sh->indexed)
        return;
    sh->indexed = e->seq;
    index_entry(sh, e);
}

void serve_index_applied(struct mob_shard *sh)
{
    for (uint64_t seq = sh->indexed + 1; seq <= mob_chain_applied(sh->chain); seq++) {
        const struct mob_chain_entry *e = mob_chain_kept(sh->chain, seq);
        if (e != NULL) /* else a hole, which a LOSS names */
            index_once(sh, e);
    }
}

static void first_store(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    sh->taken = e->seq;
    count_entry(sh, e);
    sh->own_bytes += MEMORY_OF(e->body_bytes); /* until it is measured again */
    mob_chain_on_memory(sh->chain, sh->own_bytes, false);
    index_once(sh, e);
    seal_later(sh, e);
    if (e->op == MOB_GCS_OP_EXPIRE)
        attach_forget(sh, e->target);
}

static void flush_run(struct conn *c)
{
    if (c->run.reply.count == 0)
        return;
    c->run.reply.durable = c->durable_sent = mob_chain_durable(c->shard->chain);
    conn_send(c, MOB_GCS_REPLY, c->run.client, &c->run.reply, sizeof c->run.reply);
    c->run.reply.count = 0;
}

/* Acknowledged blocks of one log become one frame. */
static void send_reply(struct mob_shard *sh, uint64_t client, const struct mob_gcs_reply *reply)
{
    struct conn *c = attach_conn(sh, client);
    if (c == NULL || c->closing)
        return;
    struct reply_run *run = &c->run;
    bool mergeable = (client & MOB_GCS_CLIENT_BIT) == 0 && reply->status == MOB_OK;
    bool extends = mergeable && run->reply.count > 0 && run->client == client &&
        reply->request == run->reply.request + run->reply.count &&
        reply->seq == run->reply.seq + run->reply.count;
    if (extends) {
        run->reply.count++;
        return;
    }
    flush_run(c);
    run->client = client;
    run->reply = *reply;
    conn_touch(c);
    if (!mergeable)
        flush_run(c);
    if (reply->request == 0) /* of an OPEN: the nonce has done its work */
        attach_forget(sh, client);
}

/* sends what reply runs hold */
static void serve_runs(struct mob_shard *sh)
{
    for (struct conn *c = sh->touched; c != NULL; c = c->next_touched)
        flush_run(c);
}

static void send_other(struct mob_shard *sh, const struct mob_chain_action *a)
{
    struct conn *c = attach_conn(sh, a->client);
    if (c == NULL || c->closing)
        return;
    flush_run(c);
    if (a->type == MOB_CHAIN_NACK) {
        member_tell(c, a->client);
        return;
    }
    struct mob_gcs_attached last = {.last = a->reply.request, .status = a->reply.status};
    conn_send(c, a->type == MOB_CHAIN_GAP ? MOB_GCS_GAP : MOB_GCS_EXPIRED, a->client, &last, sizeof last);
}

void serve_actions(struct mob_shard *sh)
{
    struct mob_chain_action action;
    while (mob_chain_next(sh->chain, &action)) {
        switch (action.type) {
        case MOB_CHAIN_STORE:
            if (action.entry->seq > sh->taken) /* else it is written again, after Redis came back */
                first_store(sh, action.entry);
            store_entry(sh, action.entry);
            break;
        case MOB_CHAIN_REPLY:
            send_reply(sh, action.client, &action.reply);
            break;
        case MOB_CHAIN_NACK:
        case MOB_CHAIN_GAP:
        case MOB_CHAIN_EXPIRED:
            send_other(sh, &action);
            break;
        case MOB_CHAIN_RELEASE:
            mob_chunk_release(action.hold);
            break;
        case MOB_CHAIN_SEND:
            peers_send(sh, action.message, action.entry);
            break;
        case MOB_CHAIN_READ:
            query_chain_read(sh, action.message);
            break;
        case MOB_CHAIN_ROWS:
            snapshot_ask(sh, action.message);
            break;
        case MOB_CHAIN_LOAD:
            snapshot_load(sh, action.message);
            break;
        case MOB_CHAIN_WIPE:
            snapshot_wipe(sh);
            break;
        }
    }
    serve_memory(sh);
}

static void tell_seals(struct mob_shard *sh)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sh->seal_count; i++) {
        if (sh->seals[i].seq > mob_chain_committed(sh->chain)) {
            sh->seals[kept++] = sh->seals[i];
            continue;
        }
        struct conn *c = attach_conn(sh, sh->seals[i].incarnation);
        struct mob_gcs_attached last = {.last = sh->seals[i].cut, .status = MOB_SEALED};
        if (c != NULL) {
            flush_run(c);
            conn_send(c, MOB_GCS_EXPIRED, sh->seals[i].incarnation, &last, sizeof last);
        }
        attach_forget(sh, sh->seals[i].incarnation);
    }
    sh->seal_count = kept;
}

static void send_durable(struct mob_shard *sh, struct conn *c)
{
    /* Only the newest counts, so whoever does not read is told when he does again. */
    c->durable_owed = conn_out_bytes(c) > DURABLE_OUT_MAX;
    if (c->durable_owed) {
        conn_touch(c);
        return;
    }
    struct mob_gcs_durable d = {.committed = mob_chain_committed(sh->chain),
        .durable = mob_chain_durable(sh->chain),
        .memory_bytes = sh->memory_bytes,
        .soft_bytes = sh->options.soft_bytes,
        .hard_bytes = sh->options.hard_bytes};
    c->durable_sent = d.durable;
    conn_send(c, MOB_GCS_DURABLE, 0, &d, sizeof d);
}

void serve_owed(struct conn *c)
{
    if (!c->durable_owed || c->closing || conn_out_bytes(c) > 0)
        return;
    send_durable(c->shard, c);
    conn_flush(c);
}

void serve_committed(struct mob_shard *sh)
{
    serve_actions(sh);
    if (mob_chain_committed(sh->chain) > sh->told_committed) {
        sh->told_committed = mob_chain_committed(sh->chain);
        (void)MOB_FAILPOINT("gcs.before_reply");
        if (member_is_tail(sh))
            (void)MOB_FAILPOINT("gcs.tail_before_reply");
    }
    serve_runs(sh);
    if (sh->seal_count > 0)
        tell_seals(sh);
    queries_committed(sh);
    uint64_t durable = mob_chain_durable(sh->chain);
    if (durable == sh->told_durable)
        return;
    sh->told_durable = durable;
    for (struct conn *c = sh->conns; c != NULL; c = c->next)
        if (c->open && (c->durable_owed || c->durable_sent < durable))
            send_durable(sh, c);
}

void serve_memory(struct mob_shard *sh)
{
    sh->memory_bytes = mob_chain_memory(sh->chain);
    bool pressure = sh->memory_bytes > sh->options.soft_bytes,
         full = sh->memory_bytes > sh->options.hard_bytes;
    if (pressure == sh->pressure && full == sh->full)
        return;
    MOB_LOG_WARN("gcs", "memory", "bytes=%llu soft=%llu hard=%llu pressure=%d full=%d",
        (unsigned long long)sh->memory_bytes, (unsigned long long)sh->options.soft_bytes,
        (unsigned long long)sh->options.hard_bytes, pressure, full);
    sh->pressure = pressure;
    sh->full = full;
    for (struct conn *c = sh->conns; c != NULL; c = c->next)
        if (c->open)
            send_durable(sh, c);
}
