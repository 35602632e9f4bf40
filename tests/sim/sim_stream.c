/* One sequence of requests: numbered, sent in order, kept until durable, sent again under the same numbers.
 * The rules are those of gcs/client. */
#include <stdlib.h>

#include "tests/sim/sim_internal.h"

#define AGAIN_NS (10 * SIM_MS)

void sim_stream_fini(struct sim_stream *st)
{
    for (size_t i = 0; i < st->count; i++)
        free(st->kept[i].body);
    free(st->kept);
    st->kept = NULL;
    st->count = st->capacity = 0;
}

void sim_stream_reset(struct sim *s, struct sim_stream *st)
{
    (void)s;
    uint8_t node = st->node;
    bool is_log = st->is_log;
    sim_stream_fini(st);
    *st = (struct sim_stream){.node = node, .is_log = is_log, .next = 1, .cut = UINT64_MAX};
}

struct sim_request *sim_stream_add(
    struct sim_stream *st, const struct mob_gcs_request *head, const void *body, uint32_t body_bytes)
{
    struct sim_request *r = SIM_GROW(st->kept, st->count, st->capacity);
    *r = (struct sim_request){.head = *head, .body = malloc(body_bytes + 1u), .body_bytes = body_bytes};
    if (body_bytes > 0)
        memcpy(r->body, body, body_bytes);
    r->head.request = st->next++;
    return r;
}

struct sim_request *sim_stream_find(struct sim_stream *st, uint64_t request)
{
    if (st->count == 0 || request < st->kept[0].head.request)
        return NULL;
    size_t i = (size_t)(request - st->kept[0].head.request);
    return i < st->count ? &st->kept[i] : NULL;
}

size_t sim_stream_unanswered(const struct sim_stream *st)
{
    return (size_t)(st->next - 1 - st->answered);
}

void sim_stream_durable(struct sim_stream *st, uint64_t durable)
{
    size_t gone = 0;
    while (gone < st->count && st->kept[gone].answered && st->kept[gone].seq <= durable)
        free(st->kept[gone++].body);
    if (gone == 0)
        return;
    memmove(st->kept, st->kept + gone, (st->count - gone) * sizeof *st->kept);
    st->count -= gone;
}

/* ---- sending ---- */

static uint8_t head_of(const struct sim_client *c)
{
    return c->config.epoch == 0 ? 255 : sim_node_of_member(c->config.members[0]);
}

static void send_request(struct sim *s, struct sim_client *c, struct sim_stream *st, struct sim_request *r)
{
    struct sim_msg *msg = sim_msg_create(SIM_PUT, st->node, head_of(c), r->body, r->body_bytes);
    msg->epoch = c->config.epoch;
    msg->client = st->client;
    msg->request = r->head;
    r->sent = true;
    r->sent_at = s->now;
    sim_send(s, msg);
}

static void send_above(
    struct sim *s, struct sim_client *c, struct sim_stream *st, uint64_t last, bool answered_too)
{
    for (size_t i = 0; i < st->count; i++) {
        struct sim_request *r = &st->kept[i];
        if (r->head.request > last && (!r->answered || answered_too))
            send_request(s, c, st, r);
    }
}

static void send_open(struct sim *s, struct sim_client *c, struct sim_stream *st)
{
    st->asked_again = st->nonce != 0;
    if (!st->asked_again)
        st->nonce = MOB_GCS_CLIENT_BIT | (sim_random(s) >> 16 << 8) | st->node;
    struct sim_msg *msg = sim_msg_create(SIM_PUT, st->node, head_of(c), NULL, 0);
    msg->epoch = c->config.epoch;
    msg->client = st->nonce;
    msg->request = (struct mob_gcs_request){.op = MOB_GCS_OP_OPEN};
    sim_send(s, msg);
}

static void send_attach(struct sim *s, struct sim_client *c, struct sim_stream *st)
{
    struct sim_msg *msg = sim_msg_create(SIM_ATTACH, st->node, head_of(c), NULL, 0);
    uint64_t kept = st->count > 0 ? st->kept[0].head.request : st->next;
    msg->epoch = c->config.epoch;
    msg->client = st->client;
    msg->tag = ++st->attach_tag;
    msg->attach = (struct mob_gcs_attach){.answered = st->answered, .kept = kept, .known = 1};
    st->attach_answered = st->answered;
    sim_send(s, msg);
}

static bool waits_long(const struct sim *s, const struct sim_stream *st)
{
    for (size_t i = 0; i < st->count; i++)
        if (!st->kept[i].answered)
            return !st->kept[i].sent || s->now - st->kept[i].sent_at > AGAIN_NS;
    return false;
}

void sim_stream_tick(struct sim *s, struct sim_client *c, struct sim_stream *st)
{
    if (c->config.epoch == 0 || (st->is_log && st->client == 0))
        return;
    if (st->state == SIM_STREAM_READY) {
        if (waits_long(s, st))
            send_above(s, c, st, 0, false);
        return;
    }
    if (s->now < st->attach_at)
        return;
    st->attach_at = s->now + AGAIN_NS;
    if (st->client == 0)
        send_open(s, c, st);
    else
        send_attach(s, c, st);
}

/* Sends what was added since. */
void sim_stream_push(struct sim *s, struct sim_client *c, struct sim_stream *st)
{
    if (st->state != SIM_STREAM_READY)
        return;
    for (size_t i = st->count; i > 0 && !st->kept[i - 1].sent; i--)
        if (i == 1 || st->kept[i - 2].sent) {
            for (size_t k = i - 1; k < st->count; k++)
                send_request(s, c, st, &st->kept[k]);
            return;
        }
}

/* ---- hearing ---- */

/* Who asked more than once may have been given its id before a restart, and says what it keeps: nothing. */
void sim_stream_opened(struct sim *s, struct sim_client *c, struct sim_stream *st)
{
    st->state = st->asked_again ? SIM_STREAM_ATTACHING : SIM_STREAM_READY;
    st->attach_at = s->now;
    sim_stream_push(s, c, st);
}

/* Another epoch: introduce yourself again. */
void sim_stream_config(struct sim *s, struct sim_stream *st)
{
    if (st->client == 0 || (st->is_log && st->cut != UINT64_MAX))
        return;
    st->state = SIM_STREAM_ATTACHING;
    st->attach_at = s->now;
}

void sim_stream_attached(
    struct sim *s, struct sim_client *c, struct sim_stream *st, const struct sim_msg *msg)
{
    if (st->state != SIM_STREAM_ATTACHING || msg->tag != st->attach_tag || msg->epoch != c->config.epoch)
        return;
    uint64_t last = msg->attached.last;
    bool collecting = msg->a != 0;
    SIM_CHECK(s, collecting || last >= st->attach_answered,
        "client %llx: request %llu was answered, and the head has only %llu", (unsigned long long)st->client,
        (unsigned long long)st->attach_answered, (unsigned long long)last);
    if (!collecting) {
        st->state = SIM_STREAM_READY;
        send_above(s, c, st, last, false);
        for (size_t i = 0; i < st->count; i++) /* answered meanwhile: the reply was lost */
            if (st->kept[i].head.request <= last && !st->kept[i].answered)
                send_request(s, c, st, &st->kept[i]);
        return;
    }
    c->floor_epoch = msg->epoch;
    send_above(s, c, st, last, true);
    struct sim_msg *resent = sim_msg_create(SIM_RESENT, st->node, msg->from, NULL, 0);
    resent->client = st->client;
    resent->epoch = c->config.epoch;
    resent->a = st->next - 1;
    sim_send(s, resent);
}

void sim_stream_gap(struct sim *s, struct sim_client *c, struct sim_stream *st, uint64_t last)
{
    if (s->now - st->gap_at < SIM_MS)
        return;
    st->gap_at = s->now;
    if (st->state == SIM_STREAM_READY)
        send_above(s, c, st, last, false);
}
