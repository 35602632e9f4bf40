#include "gcs/link/opening.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/log_value.h"

enum { ROLE_BYTES = 24 };
enum end { DIALER, ACCEPTOR };

/* What a proof begins with: of which end, on which kind of link. */
static const char roles[2][2][ROLE_BYTES] = {
    [MOB_LINK_OF_MEMBERS] = {[DIALER] = "mobula link dialer", [ACCEPTOR] = "mobula link acceptor"},
    [MOB_LINK_OF_CLIENTS] = {[DIALER] = "mobula client dialer", [ACCEPTOR] = "mobula client acceptor"},
};

static const char no_secret[] = "it does not know the cluster's secret";

static void say_frame(struct mob_opening_say *say, uint8_t type, const void *head, uint32_t bytes)
{
    MOB_ASSERT(bytes <= sizeof say->head);
    say->type = type;
    say->head_bytes = bytes;
    if (bytes > 0)
        memcpy(say->head, head, bytes);
}

static void prove(const struct mob_opening *o, enum end end, uint8_t proof_out[MOB_GCS_PROOF_BYTES])
{
    struct {
        char role[ROLE_BYTES];
        struct mob_gcs_link_hello hello;
        struct mob_gcs_link_challenge challenge;
    } all;
    memset(&all, 0, sizeof all);
    memcpy(all.role, roles[o->self->kind][end], sizeof all.role);
    all.hello = o->hello;
    all.challenge = o->challenge;
    memset(all.challenge.proof, 0, sizeof all.challenge.proof);
    mob_mac(o->self->secret, &all, sizeof all, proof_out);
}

static bool same_cluster(const struct mob_cluster_id *a, const struct mob_cluster_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static const char *kind_name(const struct mob_opening *o)
{
    return o->self->kind == MOB_LINK_OF_CLIENTS ? "client" : "member";
}

/* MOB_OK, so that the reason is still sent. */
static enum mob_status refuse(
    struct mob_opening *o, enum mob_status reason, const char *text, struct mob_opening_say *say_out)
{
    MOB_LOG_ERROR("gcs", "link_refused", "link=%s peer=%llx reason=%s why=\"%s\"", kind_name(o),
        (unsigned long long)o->peer, mob_status_code(reason), MOB_LOG_VALUE(text));
    struct mob_gcs_link_refused refused = {.reason = reason};
    snprintf(refused.text, sizeof refused.text, "%s", text);
    memcpy(o->why, refused.text, sizeof o->why);
    say_frame(say_out, MOB_GCS_LINK_REFUSED, &refused, sizeof refused);
    o->state = MOB_OPENING_REFUSED;
    o->refused = reason;
    return MOB_OK;
}

void mob_opening_dial(
    struct mob_opening *o, const struct mob_link_self *self, struct mob_opening_say *say_out)
{
    *o = (struct mob_opening){.self = self, .state = MOB_OPENING_AWAITS_CHALLENGE};
    o->hello.protocol_min = self->protocol_min;
    o->hello.protocol_max = self->protocol_max;
    o->hello.shard = self->shard;
    o->hello.cluster = self->cluster;
    o->hello.self = self->id;
    o->hello.place = self->place;
    mob_random_bytes(o->hello.nonce, sizeof o->hello.nonce);
    say_frame(say_out, MOB_GCS_LINK_HELLO, &o->hello, sizeof o->hello);
}

void mob_opening_accept(struct mob_opening *o, const struct mob_link_self *self)
{
    *o = (struct mob_opening){.self = self, .state = MOB_OPENING_AWAITS_HELLO};
}

static enum mob_status on_hello(
    struct mob_opening *o, const struct mob_gcs_frame *frame, struct mob_opening_say *say_out)
{
    const struct mob_link_self *self = o->self;
    struct mob_gcs_link_hello *h = &o->hello;
    if (frame->head_bytes != sizeof *h)
        return MOB_CORRUPT;
    memcpy(h, frame->head, sizeof *h);
    o->peer = h->self;
    if (!mob_gcs_address_ok(h->place.link) || !mob_gcs_address_ok(h->place.client))
        return MOB_CORRUPT;
    if (h->protocol_min > self->protocol_max || h->protocol_max < self->protocol_min) {
        char text[100];
        snprintf(text, sizeof text, "this end speaks versions %u to %u, the other %u to %u",
            self->protocol_min, self->protocol_max, h->protocol_min, h->protocol_max);
        return refuse(o, MOB_VERSION, text, say_out);
    }
    if (!same_cluster(&h->cluster, &self->cluster))
        return refuse(o, MOB_DENIED, "of another cluster", say_out);
    if (h->shard != self->shard)
        return refuse(o, MOB_MISDIRECTED, "of another shard", say_out);
    struct mob_gcs_link_challenge *c = &o->challenge;
    memset(c, 0, sizeof *c);
    c->protocol = h->protocol_max < self->protocol_max ? h->protocol_max : self->protocol_max;
    c->shard = self->shard;
    c->cluster = self->cluster;
    c->self = self->id;
    mob_random_bytes(c->nonce, sizeof c->nonce);
    prove(o, ACCEPTOR, c->proof);
    say_frame(say_out, MOB_GCS_LINK_CHALLENGE, c, sizeof *c);
    o->state = MOB_OPENING_AWAITS_PROOF;
    return MOB_OK;
}

static enum mob_status on_challenge(
    struct mob_opening *o, const struct mob_gcs_frame *frame, struct mob_opening_say *say_out)
{
    const struct mob_link_self *self = o->self;
    struct mob_gcs_link_challenge *c = &o->challenge;
    uint8_t expected[MOB_GCS_PROOF_BYTES];
    if (frame->head_bytes != sizeof *c)
        return MOB_CORRUPT;
    memcpy(c, frame->head, sizeof *c);
    o->peer = c->self;
    if (c->protocol < self->protocol_min || c->protocol > self->protocol_max)
        return refuse(o, MOB_VERSION, "a version that was not offered", say_out);
    if (!same_cluster(&c->cluster, &self->cluster))
        return refuse(o, MOB_DENIED, "of another cluster", say_out);
    prove(o, ACCEPTOR, expected);
    if (!mob_mac_equal(expected, c->proof))
        return refuse(o, MOB_UNAUTHENTICATED, no_secret, say_out);
    struct mob_gcs_link_proof proof;
    prove(o, DIALER, proof.proof);
    say_frame(say_out, MOB_GCS_LINK_PROOF, &proof, sizeof proof);
    o->state = MOB_OPENING_AWAITS_READY;
    return MOB_OK;
}

static enum mob_status on_proof(
    struct mob_opening *o, const struct mob_gcs_frame *frame, struct mob_opening_say *say_out)
{
    uint8_t expected[MOB_GCS_PROOF_BYTES];
    if (frame->head_bytes != sizeof(struct mob_gcs_link_proof))
        return MOB_CORRUPT;
    prove(o, DIALER, expected);
    if (!mob_mac_equal(expected, frame->head))
        return refuse(o, MOB_UNAUTHENTICATED, no_secret, say_out);
    o->place = o->hello.place;
    o->state = MOB_OPENING_PROVED;
    say_frame(say_out, MOB_GCS_LINK_READY, NULL, 0);
    return MOB_OK;
}

/* The words come from an end that has proved nothing: only what can be printed is kept. */
static void keep_printable(char *text)
{
    for (; *text != 0; text++)
        if (*text < ' ' || *text > '~' || *text == '"')
            *text = '?';
}

static enum mob_status on_refused(struct mob_opening *o, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_link_refused refused;
    if (frame->head_bytes != sizeof refused)
        return MOB_CORRUPT;
    memcpy(&refused, frame->head, sizeof refused);
    refused.text[sizeof refused.text - 1] = 0;
    keep_printable(refused.text);
    bool known = refused.reason == MOB_UNAUTHENTICATED || refused.reason == MOB_DENIED ||
        refused.reason == MOB_MISDIRECTED || refused.reason == MOB_VERSION;
    o->state = MOB_OPENING_REFUSED;
    o->refused = known ? (enum mob_status)refused.reason : MOB_DENIED;
    memcpy(o->why, refused.text, sizeof o->why);
    MOB_LOG_ERROR("gcs", "link_refused_by_peer", "link=%s reason=%s why=\"%s\"", kind_name(o),
        mob_status_code(o->refused), MOB_LOG_VALUE(o->why));
    return MOB_OK;
}

enum mob_status mob_opening_take(
    struct mob_opening *o, const struct mob_gcs_frame *frame, struct mob_opening_say *say_out)
{
    MOB_ASSERT(o->state != MOB_OPENING_PROVED && o->state != MOB_OPENING_REFUSED);
    say_out->type = 0;
    if (frame->body_bytes != 0)
        return MOB_CORRUPT;
    if (frame->type == MOB_GCS_LINK_REFUSED && o->state != MOB_OPENING_AWAITS_HELLO)
        return on_refused(o, frame);
    if (o->state == MOB_OPENING_AWAITS_HELLO && frame->type == MOB_GCS_LINK_HELLO)
        return on_hello(o, frame, say_out);
    if (o->state == MOB_OPENING_AWAITS_CHALLENGE && frame->type == MOB_GCS_LINK_CHALLENGE)
        return on_challenge(o, frame, say_out);
    if (o->state == MOB_OPENING_AWAITS_PROOF && frame->type == MOB_GCS_LINK_PROOF)
        return on_proof(o, frame, say_out);
    if (o->state == MOB_OPENING_AWAITS_READY && frame->type == MOB_GCS_LINK_READY) {
        o->state = MOB_OPENING_PROVED;
        return MOB_OK;
    }
    return MOB_CORRUPT;
}
