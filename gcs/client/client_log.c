/* Node logs: blocks in order, kept until durable. */
#include "gcs/client/client_internal.h"

#include <stdlib.h>

#include "common/wire/block.h"

enum mob_status mob_gcs_log_open(struct mob_gcs *g, uint64_t incarnation, uint64_t first_number,
    const struct mob_gcs_log_events *events, struct mob_gcs_log **log_out)
{
    g = shard_of_log(g, incarnation);
    if (incarnation == 0 || (incarnation & MOB_GCS_CLIENT_BIT) != 0 || log_find(g, incarnation) != NULL)
        return MOB_INVALID;
    if (g->log_count == MOB_GCS_LOGS_MAX)
        return MOB_QUEUE_FULL;
    struct mob_gcs_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return MOB_NO_MEMORY;
    log->gcs = g;
    log->incarnation = incarnation;
    log->events = *events;
    log->appended = log->acked = log->released = first_number;
    log->stream.sent = first_number;
    g->logs[g->log_count++] = log;
    *log_out = log;
    return MOB_OK;
}

struct mob_gcs_log *log_find(struct mob_gcs *g, uint64_t incarnation)
{
    for (uint32_t i = 0; i < g->log_count; i++)
        if (g->logs[i]->incarnation == incarnation)
            return g->logs[i];
    return NULL;
}

enum mob_status mob_gcs_log_append(struct mob_gcs_log *log, struct mob_gcs_block *block)
{
    struct mob_gcs *g = log->gcs;
    if (log->sealed)
        return MOB_SEALED;
    if (block->length == 0 || block->length > MOB_BLOCK_BYTES_MAX)
        return MOB_TOO_LARGE;
    if (g->kept_bytes + block->length > g->options.keep_bytes_max)
        return MOB_QUEUE_FULL;
    block->number = log->appended++;
    block->next = NULL;
    block->seq = 0;
    block->queued = 0;
    if (log->last != NULL)
        log->last->next = block;
    else
        log->first = block;
    log->last = block;
    if (log->cursor == NULL)
        log->cursor = block;
    if (log->unacked == NULL)
        log->unacked = block;
    g->kept_bytes += block->length;
    return MOB_OK;
}

static void send_block(struct mob_gcs_log *log, struct mob_gcs_block *block)
{
    struct mob_gcs_request head = {.request = block->number + 1, .op = MOB_GCS_OP_APPEND};
    if (block->number < log->acked) { /* sent again after a loss: as it was answered */
        head.old_seq = block->seq;
        head.old_number = block->number;
    }
    out_frame(log->gcs->head, MOB_GCS_PUT, log->incarnation, log->gcs->position.epoch, &head, sizeof head,
        block->bytes, block->length, block);
}

void log_pump(struct mob_gcs_log *log)
{
    struct mob_gcs *g = log->gcs;
    struct stream *s = &log->stream;
    stream_tick(g, s);
    if (s->state == STREAM_DETACHED && g->now_ns >= s->attach_ns && !log->sealed &&
        stream_listens(g, s, log->incarnation)) {
        uint64_t kept = log->first != NULL ? log->first->number + 1 : log->appended + 1;
        stream_attach(g, s, log->incarnation, log->acked, kept);
    }
    if (s->state != STREAM_ATTACHED)
        return;
    while (log->cursor != NULL && !out_full(g->head)) {
        struct mob_gcs_block *block = log->cursor;
        uint64_t request = block->number + 1;
        bool again = request <= s->sent;
        if (!again && request > log->acked + MOB_GCS_LOG_WINDOW)
            break;
        log->cursor = block->next;
        if (request <= s->last && request <= log->acked)
            continue; /* there, and answered */
        if (!again)
            s->sent = request;
        send_block(log, block);
    }
    bool all_again = log->cursor == NULL || log->cursor->number + 1 > s->sent;
    if (!s->resent && all_again) {
        s->resent = true;
        out_frame(g->head, MOB_GCS_RESENT, log->incarnation, g->position.epoch, NULL, 0, NULL, 0, NULL);
    }
}

static void release(struct mob_gcs_log *log, struct mob_gcs_block *block)
{
    log->first = block->next;
    if (log->first == NULL)
        log->last = NULL;
    if (log->cursor == block)
        log->cursor = block->next;
    if (log->unacked == block)
        log->unacked = block->next;
    log->released = block->number + 1;
    log->gcs->kept_bytes -= block->length;
    log->events.released(log->events.arg, block);
}

void log_durable(struct mob_gcs_log *log)
{
    uint64_t durable = log->gcs->position.durable;
    /* A block that waits in the socket's queue to be sent once more must stay until it is written. */
    while (log->first != NULL && log->first->queued == 0) {
        struct mob_gcs_block *block = log->first;
        bool safe = block->number < log->acked && block->seq <= durable;
        bool refused = log->sealed && block->number >= log->cut;
        if (!safe && !refused)
            break;
        release(log, block);
    }
    if (log->sealed && !log->sealed_told) {
        log->sealed_told = true;
        log->events.sealed(log->events.arg, log->why, log->cut);
    }
}

static void set_acked(struct mob_gcs_log *log, uint64_t count)
{
    if (count > log->appended)
        count = log->appended;
    if (count <= log->acked)
        return;
    log->acked = count;
    while (log->unacked != NULL && log->unacked->number < count)
        log->unacked = log->unacked->next;
    log->events.acked(log->events.arg, count);
}

void log_reply(struct mob_gcs_log *log, const struct mob_gcs_reply *reply)
{
    if (reply->seq == 0) {
        /* Not taken. Full: try again later; anything else is a block that can never be taken. */
        if (reply->status == MOB_GCS_FULL || reply->status == MOB_QUEUE_FULL ||
            reply->status == MOB_NO_MEMORY)
            stream_detach(&log->stream, log->gcs->now_ns + REFUSED_PAUSE_NS);
        else
            log_expired(log, reply->status, log->acked);
        return;
    }
    uint64_t from = reply->request - 1, end = from + reply->count;
    struct mob_gcs_block *start = from >= log->acked ? log->unacked : log->first;
    for (struct mob_gcs_block *b = start; b != NULL && b->number < end; b = b->next)
        if (b->number >= from)
            b->seq = reply->seq + (b->number - from);
        else if (b->seq == 0) /* its own answer was lost with a connection */
            b->seq = reply->seq;
    set_acked(log, end);
}

void log_expired(struct mob_gcs_log *log, enum mob_status why, uint64_t cut)
{
    if (log->sealed)
        return;
    set_acked(log, cut);
    log->sealed = true;
    log->why = why;
    log->cut = cut;
    log->cursor = NULL;
    log_durable(log);
}

void log_attached(struct mob_gcs_log *log, const struct mob_gcs_attached *attached)
{
    struct stream *s = &log->stream;
    if (s->state != STREAM_ATTACHING)
        return;
    if (attached->status != MOB_OK) {
        log_expired(log, (enum mob_status)attached->status, attached->last);
        return;
    }
    s->state = STREAM_ATTACHED;
    s->last = attached->last;
    s->resent = false;
    log->cursor = log->first;
}

void log_destroy(struct mob_gcs_log *log)
{
    while (log->first != NULL)
        release(log, log->first);
    free(log);
}
