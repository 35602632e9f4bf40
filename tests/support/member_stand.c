#include "tests/support/member_stand.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"

#define READY_NS (60 * MOB_SEC)
#define DIAL_PAUSE_NS (5 * MOB_MS)
#define NONCE \
    (MOB_GCS_CLIENT_BIT | 0x5eed) /* of the first; who asks again under its nonce is the same client */

static void die(const struct stand *s, const char *what)
{
    fprintf(stderr, "member_stand: %s (%s)\n", what, s->box.directory);
    abort();
}

/* ---- messages ---- */

static void send_message(struct stand *s, struct stand_neighbour *n, const struct mob_gcs_link_msg *m)
{
    uint8_t head[MOB_GCS_LINK_HEAD_MAX];
    struct mob_link_message message = {.type = m->type,
        .epoch = m->epoch,
        .head = head,
        .head_bytes = mob_gcs_link_encode(m, head),
        .body = m->body,
        .body_bytes = m->body_bytes};
    if (n->out == NULL || !mob_link_up(n->out))
        return; /* lost, as between members */
    if (mob_link_send(n->out, &message) != MOB_OK)
        die(s, "a link takes nothing more");
    mob_link_io(n->out, false);
}

static void drain(struct stand *s, struct stand_neighbour *n);

static void deliver(struct stand *s, struct stand_neighbour *from, const struct mob_gcs_link_msg *m)
{
    if (m->link.to == s->member) {
        if (s->filter == NULL || s->filter(s, from, m))
            send_message(s, from, m);
        return;
    }
    for (uint32_t i = 0; i < s->neighbours; i++)
        if (s->neighbour[i].id == m->link.to) {
            (void)!mob_chain_on_message(s->neighbour[i].chain, m, NULL);
            drain(s, &s->neighbour[i]);
        }
}

static void answer(struct stand *s, const struct mob_chain_action *a)
{
    for (uint32_t i = 0; i < s->puts; i++)
        if (a->client == s->put[i].put.client && a->reply.request == s->put[i].put.request.request)
            s->put[i].answered = a->reply.status == MOB_OK;
}

/* A neighbour's own store has everything at once, on its disk too. */
static void drain(struct stand *s, struct stand_neighbour *n)
{
    struct mob_chain_action a;
    for (;;) {
        bool any = mob_chain_next(n->chain, &a);
        if (!any) {
            mob_chain_on_stored(n->chain, mob_chain_applied(n->chain));
            mob_chain_on_durable(n->chain, mob_chain_applied(n->chain));
            any = mob_chain_next(n->chain, &a);
        }
        if (!any)
            return;
        if (a.type == MOB_CHAIN_SEND) {
            struct mob_gcs_link_msg m = *a.message;
            deliver(s, n, &m);
        } else if (a.type == MOB_CHAIN_REPLY) {
            answer(s, &a);
        } else if (a.type == MOB_CHAIN_ROWS) { /* what it has is in the machine's tables */
            struct mob_chain_rows rows = {.joiner = a.message->from, .token = a.message->link.token};
            mob_chain_on_rows(n->chain, &rows);
        }
    }
}

void stand_hold(struct stand *s, const struct mob_gcs_link_msg *m)
{
    if (s->held_count == STAND_HELD_MAX)
        die(s, "too many messages are held");
    s->held[s->held_count++].message = *m;
}

static void wait_for_link(struct stand *s, const struct stand_neighbour *from)
{
    for (int64_t deadline = mob_now() + READY_NS; from->out == NULL || !mob_link_up(from->out); stand_step(s))
        if (mob_now() > deadline)
            die(s, "a neighbour does not reach the process");
}

void stand_send(struct stand *s, struct stand_neighbour *from, const struct mob_gcs_link_msg *m)
{
    wait_for_link(s, from);
    send_message(s, from, m);
}

void stand_release(struct stand *s, struct stand_neighbour *from)
{
    wait_for_link(s, from);
    for (uint32_t i = 0; i < s->held_count; i++)
        send_message(s, from, &s->held[i].message);
    s->held_count = 0;
}

/* ---- neighbours ---- */

static void neighbour_open(struct stand *s, uint32_t i)
{
    struct stand_neighbour *n = &s->neighbour[i];
    n->id = ((uint64_t)(0x100 + i) << MOB_GCS_MEMBER_LIFE_BITS) | 1;
    snprintf(n->path, sizeof n->path, "%s/neighbour.%u", s->box.directory, i);
    n->self = s->master_self;
    n->self.id = n->id;
    struct mob_gcs_place *place = &n->self.place;
    snprintf(place->link, sizeof place->link, "%s/neighbour.%u", s->box.directory, i);
    snprintf(place->client, sizeof place->client, "%s/neighbour.%u.client", s->box.directory, i);
    if (mob_link_listen(n->path, &n->listener) != MOB_OK)
        die(s, "a neighbour cannot listen");
    n->state = mob_state_create();
    n->chain = mob_chain_create(&(struct mob_chain_options){.self = n->id, .state = n->state});
    if (n->state == NULL || n->chain == NULL)
        die(s, "no memory");
}

static void neighbour_close(struct stand_neighbour *n)
{
    for (uint32_t i = 0; i < STAND_LINKS_MAX; i++)
        mob_link_destroy(n->heard[i]);
    mob_link_destroy(n->out);
    mob_listener_fini(&n->listener);
    mob_chain_destroy(n->chain);
    mob_state_destroy(n->state);
}

static void neighbour_accept(struct stand *s, struct stand_neighbour *n)
{
    for (uint32_t i = 0; i < STAND_LINKS_MAX && !n->deaf; i++)
        if (n->heard[i] == NULL &&
            mob_link_accept(&n->self, &s->pool, &n->listener, &n->heard[i]) != MOB_OK) {
            n->heard[i] = NULL;
            return;
        }
}

static void neighbour_hear(struct stand *s, struct stand_neighbour *n, struct mob_link **link)
{
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    enum mob_status status;
    mob_link_io(*link, true);
    while ((status = mob_link_next(*link, &frame, &chunk)) == MOB_OK) {
        struct mob_gcs_link_msg m;
        if (!mob_gcs_is_link_frame(frame.type) || mob_gcs_link_decode(&frame, &m) != MOB_OK)
            die(s, "the process sends what is no message of members");
        n->syncs += m.type == MOB_GCS_SYNC;
        n->configs += m.type == MOB_GCS_CONFIG;
        if (s->hears != NULL)
            s->hears(s, n, &m);
        /* No neighbour is behind the process, so none takes entries of it. */
        (void)!mob_chain_on_message(n->chain, &m, NULL);
        drain(s, n);
    }
    if (status == MOB_AGAIN)
        return;
    mob_link_destroy(*link);
    *link = NULL;
}

static void neighbour_dial(struct stand *s, struct stand_neighbour *n)
{
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    int64_t now = mob_now();
    char place[96];
    if (n->out == NULL && now >= n->dial_ns) {
        n->dial_ns = now + DIAL_PAUSE_NS;
        snprintf(place, sizeof place, "%s/link", s->box.directory);
        if (mob_link_dial(&n->self, &s->pool, place, &n->out) != MOB_OK)
            n->out = NULL;
    }
    if (n->out == NULL)
        return;
    mob_link_io(n->out, true);
    if (mob_link_next(n->out, &frame, &chunk) == MOB_AGAIN)
        return;
    mob_link_destroy(n->out);
    n->out = NULL;
}

static void neighbour_step(struct stand *s, struct stand_neighbour *n)
{
    neighbour_accept(s, n);
    neighbour_dial(s, n);
    for (uint32_t i = 0; i < STAND_LINKS_MAX; i++)
        if (n->heard[i] != NULL)
            neighbour_hear(s, n, &n->heard[i]);
    mob_chain_on_tick(n->chain, mob_now());
    drain(s, n);
}

/* ---- the master ---- */

static void master_tell(
    struct stand *s, uint8_t type, uint64_t epoch, const void *head, uint32_t head_bytes, bool with_book)
{
    struct mob_link_message m = {.type = type,
        .epoch = epoch,
        .head = head,
        .head_bytes = head_bytes,
        .body = with_book ? &s->book : NULL,
        .body_bytes = with_book ? mob_gcs_book_bytes(&s->book) : 0};
    if (mob_link_send(s->master, &m) != MOB_OK)
        die(s, "the process takes nothing from its master");
}

static bool book_has(const struct stand *s, uint64_t member)
{
    for (uint32_t i = 0; i < s->book.config.count; i++)
        if (s->book.config.members[i] == member)
            return true;
    return false;
}

/* As mobula-master does (gcs/chain/membership.c): the configuration, and a lease for the tail that serves. */
static void on_report(struct stand *s, const struct mob_gcs_frame *frame)
{
    const struct mob_gcs_config *c = &s->book.config;
    memcpy(&s->report, frame->head, sizeof s->report);
    s->member = s->report.member;
    struct mob_gcs_lease lease = {
        .member = s->member, .epoch = s->report.epoch, .sent_ns = s->report.sent_ns, .heard_ns = mob_now()};
    bool tail = c->count > 0 && c->members[c->count - 1] == s->member && s->report.epoch == c->epoch &&
        s->report.state == MOB_CHAIN_SERVING;
    lease.flags = (tail ? MOB_GCS_LEASE_READS : 0u) | MOB_GCS_LEASE_HURRY;
    master_tell(s, MOB_GCS_LEASE, c->epoch, &lease, sizeof lease, false);
    if (s->told_epoch < c->epoch && (s->enters || book_has(s, s->member))) {
        master_tell(s, MOB_GCS_BOOK, c->epoch, NULL, 0, true);
        s->told_epoch = c->epoch;
    }
    struct mob_gcs_enter enter = {.member = s->member, .epoch = c->epoch};
    if (s->enters && s->report.state == MOB_CHAIN_IDLE && c->epoch != 0)
        master_tell(s, MOB_GCS_ENTER, c->epoch, &enter, sizeof enter, false);
    mob_link_io(s->master, false);
}

static void master_step(struct stand *s)
{
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    enum mob_status status = MOB_AGAIN;
    if (s->master == NULL &&
        mob_link_accept(&s->master_self, &s->pool, &s->master_listener, &s->master) != MOB_OK)
        s->master = NULL;
    if (s->master == NULL)
        return;
    mob_link_io(s->master, true);
    while ((status = mob_link_next(s->master, &frame, &chunk)) == MOB_OK)
        if (frame.type == MOB_GCS_REPORT && frame.head_bytes == sizeof s->report)
            on_report(s, &frame);
    if (status != MOB_AGAIN)
        die(s, "the process leaves its master");
}

/* ---- the stand ---- */

void stand_step(struct stand *s)
{
    if (gcs_box_ended(&s->box.gcs))
        die(s, "the process has ended");
    master_step(s);
    for (uint32_t i = 0; i < s->neighbours; i++)
        neighbour_step(s, &s->neighbour[i]);
    poll(NULL, 0, 1);
}

void stand_open(struct stand *s, const char *program, uint32_t neighbours)
{
    static char link[96];
    *s = (struct stand){.neighbours = neighbours};
    gcs_box_init(&s->box, "everysec");
    s->box.program = program;
    s->master_self =
        (struct mob_link_self){.protocol_min = MOB_GCS_PEER_PROTOCOL, .protocol_max = MOB_GCS_PEER_PROTOCOL};
    memcpy(s->master_self.secret, gcs_box_secret, sizeof s->master_self.secret);
    snprintf(s->master_path, sizeof s->master_path, "%s/master", s->box.directory);
    snprintf(link, sizeof link, "%s/link", s->box.directory);
    if (mob_link_listen(s->master_path, &s->master_listener) != MOB_OK)
        die(s, "the master cannot listen");
    for (uint32_t i = 0; i < neighbours; i++)
        neighbour_open(s, i);
    const char *args[GCS_BOX_ARGS_MAX] = {"--masters", s->master_path, "--link", link, "--cluster",
        "00000000000000000000000000000000", "--lease-ms", "90", "--suspicion-ms", "100"};
    memcpy(s->box.args, args, sizeof args);
    gcs_box_start_redis(&s->box);
    gcs_box_spawn_gcs(&s->box);
    for (int64_t deadline = mob_now() + READY_NS; s->member == 0; stand_step(s))
        if (mob_now() > deadline)
            die(s, "the process does not report");
}

void stand_close(struct stand *s)
{
    gcs_box_end(&s->box.gcs, SIGKILL);
    for (uint32_t i = 0; i < s->neighbours; i++)
        neighbour_close(&s->neighbour[i]);
    mob_link_destroy(s->master);
    mob_listener_fini(&s->master_listener);
    mob_chunk_pool_fini(&s->pool);
    gcs_box_fini(&s->box);
}

void stand_configure(struct stand *s, const uint64_t *members, uint32_t count)
{
    struct mob_gcs_config *c = &s->book.config;
    *c = (struct mob_gcs_config){.epoch = c->epoch + 1, .term = 1, .count = count};
    memcpy(c->members, members, count * sizeof *members);
    memset(s->book.places, 0, sizeof s->book.places);
    for (uint32_t i = 0; i < count; i++) {
        struct mob_gcs_place *place = &s->book.places[i];
        if (members[i] == s->member) {
            snprintf(place->link, sizeof place->link, "%s/link", s->box.directory);
            snprintf(place->client, sizeof place->client, "%s", s->box.socket);
        }
        for (uint32_t k = 0; k < s->neighbours; k++)
            if (members[i] == s->neighbour[k].id)
                *place = s->neighbour[k].self.place;
    }
    for (uint32_t k = 0; k < s->neighbours; k++)
        if (book_has(s, s->neighbour[k].id)) {
            mob_chain_on_config(s->neighbour[k].chain, c);
            drain(s, &s->neighbour[k]);
        }
}

/* ---- puts ---- */

static void take(struct stand *s, struct stand_neighbour *head, struct mob_chain_put *put)
{
    put->epoch = mob_chain_epoch(head->chain);
    put->body_crc = put->body_bytes == 0 ? 0 : mob_crc32c(put->body, put->body_bytes);
    if (mob_chain_on_put(head->chain, put) != MOB_OK)
        die(s, "the head does not take a put");
}

void stand_open_client(struct stand *s, struct stand_neighbour *head)
{
    struct mob_chain_put open = {.client = NONCE + s->opened++, .request = {.op = MOB_GCS_OP_OPEN}};
    take(s, head, &open);
    head->client = mob_chain_kept(head->chain, mob_chain_applied(head->chain))->number;
    head->last = 0;
    drain(s, head);
}

void stand_put(struct stand *s, struct stand_neighbour *head, const char *key, const char *value)
{
    if (head->client == 0)
        stand_open_client(s, head);
    if (s->puts == STAND_PUTS_MAX)
        die(s, "too many puts");
    struct stand_put *p = &s->put[s->puts++];
    int length = snprintf(p->body, sizeof p->body, "%s%s", key, value);
    p->put = (struct mob_chain_put){.client = head->client,
        .request = {.request = ++head->last,
            .op = MOB_GCS_OP_PUT,
            .table = MOB_GCS_KV,
            .key_length = (uint32_t)strlen(key),
            .if_version = MOB_GCS_ANY_VERSION},
        .body = (const uint8_t *)p->body,
        .body_bytes = (uint32_t)length};
    take(s, head, &p->put);
    drain(s, head);
}

bool stand_answered(struct stand *s, struct stand_neighbour *head)
{
    bool all = true;
    for (uint32_t i = 0; i < s->puts; i++) {
        struct stand_put *p = &s->put[i];
        p->put.epoch = mob_chain_epoch(head->chain);
        if (!p->answered && mob_chain_on_put(head->chain, &p->put) != MOB_FINISHED)
            die(s, "the head does not know a put any more");
        drain(s, head);
        all = all && p->answered;
    }
    return all;
}

bool stand_is(const struct stand *s, uint64_t epoch, enum mob_chain_state state)
{
    return s->report.epoch == epoch && s->report.state == (uint8_t)state;
}
