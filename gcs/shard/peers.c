/* Links between members. Each member sends on links that it made itself, and hears on those that others made;
 * a message that finds no link is lost, which the chain's machine expects: it sends again what was not
 * answered. */
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "gcs/shard/ahead.h"

#define DIAL_PAUSE_NS (5 * MOB_MS)
#define CROWDED_BYTES (16u << 20)
/* An acknowledgement only lets the predecessor forget; no client waits for one. They are cumulative, so the
 * newest stands for all of that time. */
#define ACK_PAUSE_NS (500 * MOB_US)

/* ---- who is where ---- */

static struct peer *find(const struct mob_shard *sh, uint64_t member)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (member != 0 && sh->member.peers[i].member == member)
            return (struct peer *)(uintptr_t)&sh->member.peers[i];
    return NULL;
}

static void link_close(struct mob_shard *sh, struct mob_link **link)
{
    if (*link == NULL)
        return;
    epoll_ctl(sh->epoll_fd, EPOLL_CTL_DEL, mob_link_fd(*link), NULL);
    mob_link_destroy(*link);
    *link = NULL;
}

static struct peer *find_or_add(struct mob_shard *sh, uint64_t member)
{
    struct peer *p = find(sh, member), *oldest = NULL;
    for (uint32_t i = 0; p == NULL && i < PEERS_MAX; i++) {
        struct peer *other = &sh->member.peers[i];
        if (oldest == NULL || other->member == 0 || (oldest->member != 0 && other->used_ns < oldest->used_ns))
            oldest = other;
    }
    if (p == NULL) {
        link_close(sh, &oldest->link);
        p = oldest;
        *p = (struct peer){.member = member};
    }
    p->used_ns = sh->now_ns;
    return p;
}

void peers_learn(struct mob_shard *sh, uint64_t member, const struct mob_gcs_place *place)
{
    if (member == 0 || member == sh->member.self.id || place->link[0] == 0)
        return;
    find_or_add(sh, member)->place = *place;
}

bool peers_place(const struct mob_shard *sh, uint64_t member, struct mob_gcs_place *place_out)
{
    const struct peer *p = find(sh, member);
    if (member == sh->member.self.id)
        *place_out = sh->member.self.place;
    else if (p != NULL && p->place.link[0] != 0)
        *place_out = p->place;
    else
        return false;
    return true;
}

void peers_links(const struct mob_shard *sh, uint64_t member, bool *to_out, bool *from_out)
{
    const struct peer *p = find(sh, member);
    *to_out = p != NULL && p->link != NULL && mob_link_up(p->link);
    *from_out = false;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        const struct mob_link *link = sh->member.incoming[i].link;
        *from_out |= link != NULL && mob_link_up(link) && mob_link_peer(link) == member;
    }
}

/* ---- out ---- */

static void watch(struct mob_shard *sh, struct mob_link *link, bool *want_write, void *ptr, bool fresh)
{
    bool want = mob_link_wants_write(link);
    if (!fresh && want == *want_write)
        return;
    *want_write = want;
    struct epoll_event event = {.events = EPOLLIN | (want ? EPOLLOUT : 0u), .data.ptr = ptr};
    epoll_ctl(sh->epoll_fd, fresh ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, mob_link_fd(link), &event);
}

static void dial(struct mob_shard *sh, struct peer *p)
{
    if (p->link != NULL || p->place.link[0] == 0 || sh->now_ns < p->dial_ns)
        return;
    p->dial_ns = sh->now_ns + DIAL_PAUSE_NS;
    if (mob_link_dial(&sh->member.self, &sh->chunks, p->place.link, &p->link) != MOB_OK) {
        p->link = NULL;
        return;
    }
    mob_link_io(p->link, false);
    watch(sh, p->link, &p->want_write, p, true);
}

static void send_now(struct mob_shard *sh, struct peer *p, const struct mob_gcs_link_msg *m,
    const struct mob_chain_entry *entry)
{
    uint8_t head[MOB_GCS_LINK_HEAD_MAX];
    struct mob_link_message message = {.type = m->type,
        .epoch = m->epoch,
        .head = head,
        .head_bytes = mob_gcs_link_encode(m, head),
        .body = m->body,
        .body_bytes = m->body_bytes,
        .more = m->drops,
        .more_bytes = mob_gcs_link_has_entry(m->type) ? m->entry.drop_count * (uint32_t)sizeof(uint64_t) : 0,
        .chunk = entry == NULL ? NULL : entry->hold};
    if (mob_link_send(p->link, &message) != MOB_OK) {
        MOB_LOG_WARN("gcs", "link_given_up", "peer=%llx unsent=%zu", (unsigned long long)p->member,
            mob_link_unsent(p->link));
        link_close(sh, &p->link);
    }
    p->urgent = true;
}

static bool can_send(const struct peer *p)
{
    return p->link != NULL && mob_link_up(p->link);
}

static bool is_crowded(const struct peer *p)
{
    return p->link != NULL && mob_link_unsent(p->link) > CROWDED_BYTES;
}

/* A joiner that does not hear asks for the same part of the log each 2 ms. It is lost to it anyway. */
static bool is_worth_sending(const struct peer *p, const struct mob_gcs_link_msg *m)
{
    return can_send(p) && !(m->type == MOB_GCS_LOG && is_crowded(p));
}

void peers_send(struct mob_shard *sh, const struct mob_gcs_link_msg *m, const struct mob_chain_entry *entry)
{
    struct peer *p = find_or_add(sh, m->link.to);
    dial(sh, p);
    if (!is_worth_sending(p, m))
        return;
    if (m->type != MOB_GCS_ACK) {
        send_now(sh, p, m, entry);
        return;
    }
    if (p->ack.link.to == 0)
        p->ack_ns = sh->now_ns;
    p->ack = *m;
}

static void send_ack(struct mob_shard *sh, struct peer *p)
{
    struct mob_gcs_link_msg ack = p->ack;
    p->ack.link.to = 0;
    if (can_send(p))
        send_now(sh, p, &ack, NULL);
}

/* Clients wait for members of the chain; not for a joiner, which is none yet. */
bool peers_crowded(const struct mob_shard *sh)
{
    const struct mob_gcs_config *config = mob_chain_config(sh->chain);
    for (uint32_t i = 0; i < config->count; i++) {
        const struct peer *p = find(sh, config->members[i]);
        if (p != NULL && is_crowded(p))
            return true;
    }
    return false;
}

void peers_flush(struct mob_shard *sh, bool acks_in_time)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        struct peer *p = &sh->member.peers[i];
        bool late = acks_in_time && sh->now_ns - p->ack_ns >= ACK_PAUSE_NS;
        if (p->ack.link.to != 0 && (p->urgent || late))
            send_ack(sh, p);
        p->urgent = false;
        if (p->link == NULL || mob_link_unsent(p->link) == 0)
            continue;
        mob_link_io(p->link, false);
        watch(sh, p->link, &p->want_write, p, false);
    }
}

int64_t peers_next_ns(const struct mob_shard *sh)
{
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        const struct peer *p = &sh->member.peers[i];
        if (p->ack.link.to != 0 && p->ack_ns + ACK_PAUSE_NS < next)
            next = p->ack_ns + ACK_PAUSE_NS;
    }
    return next;
}

/* ---- in ---- */

/* A block is checked once more: what is in the index must be readable. */
static bool body_good(struct mob_shard *sh, const struct mob_gcs_link_msg *m)
{
    bool is_block =
        mob_gcs_link_has_entry(m->type) && m->entry.op == MOB_GCS_OP_APPEND && m->entry.status == MOB_OK;
    if (!is_block)
        return true;
    if (mob_block_peek(m->body, m->body_bytes, &sh->peeked_header, &sh->peeked_zone) != MOB_OK)
        return false;
    sh->peeked = m->body;
    return true;
}

/* That a chain starts again with this member is for the master to say: it knows what is sealed. */
static bool starts_here(const struct mob_shard *sh, const struct mob_gcs_link_msg *m)
{
    return mob_gcs_link_has_config(m->type) && m->config.start != 0 &&
        m->config.epoch > mob_chain_epoch(sh->chain) && m->config.members[0] == sh->member.self.id;
}

static enum mob_status take(struct mob_shard *sh, const struct mob_gcs_frame *frame, struct mob_chunk *chunk)
{
    struct mob_gcs_link_msg m;
    if (!mob_gcs_is_link_frame(frame->type))
        return MOB_CORRUPT;
    enum mob_status status = mob_gcs_link_decode(frame, &m);
    if (status != MOB_OK || !body_good(sh, &m))
        return MOB_CORRUPT;
    if (starts_here(sh, &m))
        return MOB_OK;
    if (mob_gcs_link_has_entry(m.type) || m.type == MOB_GCS_READ)
        sh->member.asked_ns = sh->now_ns;
    status = mob_chain_on_message(sh->chain, &m, mob_gcs_link_has_entry(m.type) ? chunk : NULL);
    if (status == MOB_OK && mob_gcs_link_has_entry(m.type))
        mob_chunk_hold(chunk);
    serve_actions(sh);
    sh->peeked = NULL; /* the bytes may be another block's tomorrow */
    return MOB_OK; /* what had no room is sent again */
}

/* How many frames come next whose keys it asked for. */
static uint32_t look_ahead(const struct mob_shard *sh, const struct mob_link *link)
{
    struct ahead ahead = {.count = 0};
    size_t length;
    const uint8_t *bytes = mob_link_ahead(link, &length);
    uint32_t frames = ahead_look(&ahead, bytes, length);
    ahead_ask(&ahead, sh->state);
    return frames;
}

static enum mob_status hear(struct mob_shard *sh, struct mob_link *link)
{
    uint32_t looked = look_ahead(sh, link);
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    enum mob_status status;
    bool learned = false;
    while ((status = mob_link_next(link, &frame, &chunk)) == MOB_OK) {
        if (!learned)
            peers_learn(sh, mob_link_peer(link), mob_link_peer_place(link));
        learned = true;
        status = take(sh, &frame, chunk);
        if (status != MOB_OK)
            return status;
        looked = looked > 1 ? looked - 1 : look_ahead(sh, link);
    }
    if (status == MOB_AGAIN && mob_link_up(link))
        peers_learn(sh, mob_link_peer(link), mob_link_peer_place(link));
    return status;
}

/* A free one, or that of the stranger who is silent for longest: those who say nothing keep nobody out. */
static struct incoming *place_for_one(struct mob_shard *sh)
{
    struct incoming *stranger = NULL;
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        struct incoming *in = &sh->member.incoming[i];
        if (in->link == NULL)
            return in;
        if (mob_link_more_silent(in->link, stranger == NULL ? NULL : stranger->link))
            stranger = in;
    }
    if (stranger != NULL) {
        MOB_LOG_WARN("gcs", "link_given_up", "why=\"too many have proved nothing\"");
        link_close(sh, &stranger->link);
    }
    return stranger;
}

void peers_accept(struct mob_shard *sh)
{
    struct mob_link *link;
    while (mob_link_accept(&sh->member.self, &sh->chunks, &sh->member.listener, &link) == MOB_OK) {
        struct incoming *in = place_for_one(sh);
        if (in == NULL) {
            MOB_LOG_WARN("gcs", "link_refused", "why=\"too many\"");
            mob_link_destroy(link);
            continue;
        }
        in->link = link;
        watch(sh, link, &in->want_write, in, true);
    }
}

bool peers_owns(const struct mob_shard *sh, const void *ptr)
{
    const uint8_t *at = ptr;
    const struct mob_member *m = &sh->member;
    return at >= (const uint8_t *)m->peers && at < (const uint8_t *)(m->incoming + PEERS_MAX);
}

static void outgoing_event(struct mob_shard *sh, struct peer *p, bool readable)
{
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    if (p->link == NULL)
        return;
    mob_link_io(p->link, readable);
    enum mob_status status = mob_link_next(p->link, &frame, &chunk);
    if (status == MOB_AGAIN) {
        watch(sh, p->link, &p->want_write, p, false);
        return;
    }
    if (status != MOB_CLOSED) /* refused, or it speaks where it is to listen: not asked again in a hurry */
        p->dial_ns = sh->now_ns + MOB_SEC;
    link_close(sh, &p->link);
}

void peers_event(struct mob_shard *sh, void *ptr, uint32_t events)
{
    bool readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
    struct mob_member *m = &sh->member;
    if ((uint8_t *)ptr < (uint8_t *)m->incoming) {
        outgoing_event(sh, ptr, readable);
        return;
    }
    struct incoming *in = ptr;
    if (in->link == NULL)
        return;
    mob_link_io(in->link, readable);
    enum mob_status status = hear(sh, in->link);
    if (status == MOB_AGAIN)
        watch(sh, in->link, &in->want_write, in, false);
    else
        link_close(sh, &in->link);
}

/* They hold places that others may need. */
static void drop_silent(struct mob_shard *sh)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        struct incoming *in = &sh->member.incoming[i];
        struct peer *p = &sh->member.peers[i];
        if (in->link != NULL && mob_link_silent(in->link, sh->now_ns))
            link_close(sh, &in->link);
        if (p->link != NULL && mob_link_silent(p->link, sh->now_ns))
            link_close(sh, &p->link);
    }
}

void peers_tick(struct mob_shard *sh)
{
    drop_silent(sh);
    const struct mob_gcs_config *config = mob_chain_config(sh->chain);
    for (uint32_t i = 0; i < config->count; i++) {
        bool next = i > 0 && config->members[i - 1] == sh->member.self.id;
        bool before = i + 1 < config->count && config->members[i + 1] == sh->member.self.id;
        struct peer *p = find(sh, config->members[i]);
        if (p != NULL && (next || before)) {
            p->used_ns = sh->now_ns;
            dial(sh, p);
        }
    }
}

void peers_fini(struct mob_shard *sh)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        link_close(sh, &sh->member.peers[i].link);
        link_close(sh, &sh->member.incoming[i].link);
    }
    mob_listener_fini(&sh->member.listener);
}
