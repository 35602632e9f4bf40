/* The opening of a link: each end proves that it knows the secret, and neither says or believes more before.
 *
 *   dialer                                   acceptor
 *     HELLO who, cluster, versions, nonce  ->
 *                                          <- CHALLENGE who, version, nonce, proof(acceptor, HELLO,
 * CHALLENGE) PROOF proof(dialer, HELLO, CHALLENGE)->
 *                                          <- READY
 */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "gcs/link/link_internal.h"

static const char acceptor_role[24] = "mobula link acceptor";
static const char dialer_role[24] = "mobula link dialer";

static void send_head(struct mob_link *link, uint8_t type, const void *head, uint32_t bytes)
{
    struct mob_link_message message = {.type = type, .head = head, .head_bytes = bytes};
    link_queue(link, &message);
}

static void prove(const struct mob_link *link, const char role[24], uint8_t proof_out[MOB_GCS_PROOF_BYTES])
{
    struct {
        char role[24];
        struct mob_gcs_link_hello hello;
        struct mob_gcs_link_challenge challenge;
    } all;
    memset(&all, 0, sizeof all);
    memcpy(all.role, role, sizeof all.role);
    all.hello = link->hello;
    all.challenge = link->challenge;
    memset(all.challenge.proof, 0, sizeof all.challenge.proof);
    mob_mac(link->self->secret, &all, sizeof all, proof_out);
}

static bool same_cluster(const struct mob_cluster_id *a, const struct mob_cluster_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* MOB_OK, so that the caller's bytes with the reason still leave. */
static enum mob_status refuse(struct mob_link *link, enum mob_status reason, const char *text)
{
    MOB_LOG_ERROR("gcs", "link_refused", "peer=%llx reason=%s why=\"%s\"", (unsigned long long)link->peer,
        mob_status_code(reason), text);
    struct mob_gcs_link_refused refused = {.reason = reason};
    snprintf(refused.text, sizeof refused.text, "%s", text);
    send_head(link, MOB_GCS_LINK_REFUSED, &refused, sizeof refused);
    link->state = LINK_REFUSED;
    link->refused = reason;
    return MOB_OK;
}

void link_open(struct mob_link *link)
{
    const struct mob_link_self *self = link->self;
    memset(&link->hello, 0, sizeof link->hello);
    link->hello.protocol_min = self->protocol_min;
    link->hello.protocol_max = self->protocol_max;
    link->hello.shard = self->shard;
    link->hello.cluster = self->cluster;
    link->hello.self = self->id;
    link->hello.place = self->place;
    mob_random_bytes(link->hello.nonce, sizeof link->hello.nonce);
    send_head(link, MOB_GCS_LINK_HELLO, &link->hello, sizeof link->hello);
    link->state = LINK_AWAITS_CHALLENGE;
}

static enum mob_status on_hello(struct mob_link *link, const struct mob_gcs_frame *frame)
{
    const struct mob_link_self *self = link->self;
    struct mob_gcs_link_hello *h = &link->hello;
    if (frame->head_bytes != sizeof *h)
        return MOB_CORRUPT;
    memcpy(h, frame->head, sizeof *h);
    link->peer = h->self;
    if (!mob_gcs_address_ok(h->place.link) || !mob_gcs_address_ok(h->place.client))
        return MOB_CORRUPT;
    if (h->protocol_min > self->protocol_max || h->protocol_max < self->protocol_min) {
        char text[100];
        snprintf(text, sizeof text, "this end speaks versions %u to %u, the other %u to %u",
            self->protocol_min, self->protocol_max, h->protocol_min, h->protocol_max);
        return refuse(link, MOB_VERSION, text);
    }
    if (!same_cluster(&h->cluster, &self->cluster))
        return refuse(link, MOB_DENIED, "of another cluster");
    if (h->shard != self->shard)
        return refuse(link, MOB_MISDIRECTED, "of another shard");
    struct mob_gcs_link_challenge *c = &link->challenge;
    memset(c, 0, sizeof *c);
    c->protocol = h->protocol_max < self->protocol_max ? h->protocol_max : self->protocol_max;
    c->shard = self->shard;
    c->cluster = self->cluster;
    c->self = self->id;
    mob_random_bytes(c->nonce, sizeof c->nonce);
    prove(link, acceptor_role, c->proof);
    send_head(link, MOB_GCS_LINK_CHALLENGE, c, sizeof *c);
    link->state = LINK_AWAITS_PROOF;
    return MOB_OK;
}

static enum mob_status on_challenge(struct mob_link *link, const struct mob_gcs_frame *frame)
{
    const struct mob_link_self *self = link->self;
    struct mob_gcs_link_challenge *c = &link->challenge;
    uint8_t expected[MOB_GCS_PROOF_BYTES];
    if (frame->head_bytes != sizeof *c)
        return MOB_CORRUPT;
    memcpy(c, frame->head, sizeof *c);
    link->peer = c->self;
    if (c->protocol < self->protocol_min || c->protocol > self->protocol_max)
        return refuse(link, MOB_VERSION, "a version that was not offered");
    if (!same_cluster(&c->cluster, &self->cluster))
        return refuse(link, MOB_DENIED, "of another cluster");
    prove(link, acceptor_role, expected);
    if (!mob_mac_equal(expected, c->proof))
        return refuse(link, MOB_UNAUTHENTICATED, "it does not know the cluster's secret");
    struct mob_gcs_link_proof proof;
    prove(link, dialer_role, proof.proof);
    send_head(link, MOB_GCS_LINK_PROOF, &proof, sizeof proof);
    link->state = LINK_AWAITS_READY;
    return MOB_OK;
}

static enum mob_status on_proof(struct mob_link *link, const struct mob_gcs_frame *frame)
{
    uint8_t expected[MOB_GCS_PROOF_BYTES];
    if (frame->head_bytes != sizeof(struct mob_gcs_link_proof))
        return MOB_CORRUPT;
    prove(link, dialer_role, expected);
    if (!mob_mac_equal(expected, frame->head))
        return refuse(link, MOB_UNAUTHENTICATED, "it does not know the cluster's secret");
    link->place = link->hello.place;
    link->state = LINK_UP;
    send_head(link, MOB_GCS_LINK_READY, NULL, 0);
    return MOB_OK;
}

static enum mob_status on_refused(struct mob_link *link, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_link_refused refused;
    if (frame->head_bytes != sizeof refused)
        return MOB_CORRUPT;
    memcpy(&refused, frame->head, sizeof refused);
    refused.text[sizeof refused.text - 1] = 0;
    bool known = refused.reason != MOB_OK && refused.reason < MOB_STATUS_COUNT;
    link->state = LINK_REFUSED;
    link->refused = known ? (enum mob_status)refused.reason : MOB_DENIED;
    MOB_LOG_ERROR(
        "gcs", "link_refused_by_peer", "reason=%s why=\"%s\"", mob_status_code(link->refused), refused.text);
    return link->refused;
}

enum mob_status link_opening(struct mob_link *link, const struct mob_gcs_frame *frame)
{
    if (frame->body_bytes != 0)
        return MOB_CORRUPT;
    if (frame->type == MOB_GCS_LINK_REFUSED && link->state != LINK_AWAITS_HELLO)
        return on_refused(link, frame);
    if (link->state == LINK_AWAITS_HELLO && frame->type == MOB_GCS_LINK_HELLO)
        return on_hello(link, frame);
    if (link->state == LINK_AWAITS_CHALLENGE && frame->type == MOB_GCS_LINK_CHALLENGE)
        return on_challenge(link, frame);
    if (link->state == LINK_AWAITS_PROOF && frame->type == MOB_GCS_LINK_PROOF)
        return on_proof(link, frame);
    if (link->state == LINK_AWAITS_READY && frame->type == MOB_GCS_LINK_READY) {
        link->state = LINK_UP;
        return MOB_OK;
    }
    return MOB_CORRUPT;
}
