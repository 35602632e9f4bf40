#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "gcs/chain/beginning.h"
#include "gcs/master/master_inner.h"

#define TICK_NS (1 * MOB_MS)
#define TICK_SLOW_NS (150 * MOB_MS) /* all have said that they will be quiet, or there is one only */
#define TICK_STANDBY_NS (50 * MOB_MS)
#define TABLE_PATIENCE_NS (2 * MOB_SEC)
#define RELEASE_NS (150 * MOB_MS) /* of a stop */
#define PRIORITY 10

static const struct mob_mastership_times times = MOB_MASTERSHIP_TIMES;
/* Nobody asks the chain for anything: each beat is a commit on the disk. Still two in the time for which one
 * counts. */
static const struct mob_mastership_times times_at_rest = {
    950 * 1000000ll, 3000 * 1000000ll, 2000 * 1000000ll};

/* ---- the table ---- */

bool master_ask(struct master *m, struct mob_table_question *q, uint64_t *tag_out, int64_t *deadline_out)
{
    q->tag = ++m->next_tag;
    if (!mob_table_ask(m->table, q))
        return false;
    *tag_out = q->tag;
    *deadline_out = m->now_ns + TABLE_PATIENCE_NS;
    return true;
}

static void ask_newest(struct master *m)
{
    struct mob_table_question q = {.op = MOB_TABLE_NEWEST};
    if (!m->began && m->nodes.logs_tag != 0)
        return; /* that was read, and now the logs of nodes are */
    if (m->read_tag == 0 || m->now_ns >= m->read_deadline)
        (void)master_ask(m, &q, &m->read_tag, &m->read_deadline);
}

static void step_mastership(struct master *m)
{
    if (m->row_tag != 0 && m->now_ns >= m->row_deadline) { /* no answer: unknown */
        m->row_tag = 0;
        if (m->step == MOB_MASTERSHIP_LOOK)
            mob_mastership_on_no_row(&m->mastership, m->now_ns);
        else
            mob_mastership_on_set(&m->mastership, MOB_TIMEOUT, m->now_ns);
    }
    bool rests = m->mastership.active && mob_membership_pause_ns(m->membership) == TICK_SLOW_NS;
    enum mob_mastership_step step =
        mob_mastership_step(&m->mastership, rests ? &times_at_rest : &times, m->now_ns);
    if (step == MOB_MASTERSHIP_WAIT)
        return;
    m->step = step;
    struct mob_table_question q = {.op = step == MOB_MASTERSHIP_LOOK ? MOB_TABLE_ROW : MOB_TABLE_SET_ROW,
        .old_row = m->mastership.row,
        .row = m->mastership.next};
    if (!master_ask(m, &q, &m->row_tag, &m->row_deadline)) {
        m->row_tag = UINT64_MAX; /* as one that is not answered */
        m->row_deadline = m->now_ns + TABLE_PATIENCE_NS;
    }
}

static void on_row(struct master *m, const struct mob_table_answer *a)
{
    bool was = m->mastership.active;
    m->row_tag = 0;
    if (m->step != MOB_MASTERSHIP_LOOK)
        mob_mastership_on_set(&m->mastership, a->status, m->now_ns);
    else if (a->status == MOB_OK)
        mob_mastership_on_row(&m->mastership, &a->row, m->now_ns);
    else
        mob_mastership_on_no_row(&m->mastership, m->now_ns);
    if (m->mastership.active != was)
        MOB_LOG_INFO("master", m->mastership.active ? "active" : "standby", "term=%llu",
            (unsigned long long)m->mastership.row.term);
    if (m->mastership.active && !was)
        m->read_tag = m->nodes.logs_tag = 0; /* what was read before may be old */
}

static void on_newest(struct master *m, const struct mob_table_answer *a)
{
    m->read_tag = 0;
    if (a->status != MOB_OK || !m->mastership.active)
        return;
    if (m->began) {
        mob_membership_on_newest(m->membership, &a->config, m->now_ns);
        return;
    }
    m->newest = a->config;
    master_nodes_read(m);
}

/* Both were read under this term: whatever an older master did is in them. */
void master_begin(struct master *m, const struct mob_node_log *logs, uint32_t count)
{
    m->began = true;
    mob_membership_begin(m->membership, m->mastership.row.term, &m->newest, m->now_ns);
    mob_node_watch_begin(m->nodes.watch, logs, count, m->now_ns);
}

static void on_inserted(struct master *m, const struct mob_table_answer *a)
{
    m->insert_tag = 0;
    if (a->status == MOB_OK)
        (void)MOB_FAILPOINT("master.inserted");
    mob_membership_on_installed(m->membership, a->status, m->now_ns);
    const struct mob_gcs_config *c = mob_membership_config(m->membership);
    MOB_LOG_INFO("master", "configuration", "status=%s epoch=%llu members=%u start=%u head=%llx tail=%llx",
        mob_status_code(a->status), (unsigned long long)c->epoch, c->count, c->start,
        (unsigned long long)(c->count > 0 ? c->members[0] : 0),
        (unsigned long long)(c->count > 0 ? c->members[c->count - 1] : 0));
}

/* ---- a chain of which no store is left ---- */

static void ask_watermark(struct master *m, const struct mob_membership_action *a)
{
    struct mob_table_question q = {.op = MOB_TABLE_WATERMARK};
    if (m->anew.tag != 0 && m->now_ns < m->anew.deadline)
        return;
    m->anew.member = a->member;
    m->anew.seq = a->seq;
    if (!master_ask(m, &q, &m->anew.tag, &m->anew.deadline))
        m->anew.tag = 0;
}

/* What the database has stays readable; all else of the chain is lost, and no name of it is used again. */
static void on_watermark(struct master *m, const struct mob_table_answer *a)
{
    m->anew.tag = 0;
    struct member_link *l = master_link_of(m, m->anew.member);
    const struct mob_gcs_config *last = mob_membership_config(m->membership);
    if (a->status != MOB_OK || l == NULL || !m->began || mob_membership_waits(m->membership) == 0)
        return;
    uint64_t newest_log = mob_node_watch_newest(m->nodes.watch);
    uint64_t seq = a->watermark > m->anew.seq ? a->watermark : m->anew.seq;
    struct mob_beginning at = mob_beginning_behind(last->epoch, newest_log, seq);
    struct mob_gcs_begin_anew say = {.member = l->member,
        .epoch = at.epoch,
        .seq = at.seq,
        .flushed = a->watermark != 0 ? at.seq : 0,
        .lost_epoch = last->epoch,
        .lost_seq = seq,
        .newest_log = newest_log};
    MOB_LOG_WARN("master", "begins_anew",
        "member=%llx epoch=%llu seq=%llu lost_epoch=%llu lost_seq=%llu watermark=%llu newest_log=%llu "
        "why=\"no store is left, and gcs-start-without-all gives them up\"",
        (unsigned long long)l->member, (unsigned long long)at.epoch, (unsigned long long)at.seq,
        (unsigned long long)last->epoch, (unsigned long long)seq, (unsigned long long)a->watermark,
        (unsigned long long)newest_log);
    master_tell(l, MOB_GCS_BEGIN_ANEW, last->epoch, &say, sizeof say, NULL, 0);
}

static void table_answers(struct master *m)
{
    struct mob_table_answer a;
    while (mob_table_answer(m->table, &a)) {
        if (a.tag == m->row_tag)
            on_row(m, &a);
        else if (a.tag == m->read_tag)
            on_newest(m, &a);
        else if (a.tag == m->insert_tag)
            on_inserted(m, &a);
        else if (a.tag == m->anew.tag)
            on_watermark(m, &a);
        else
            (void)master_nodes_answer(m, &a);
        free(a.logs);
    }
}

/* ---- members ---- */

struct member_link *master_link_of(struct master *m, uint64_t member)
{
    for (uint32_t i = 0; i < LINKS_MAX; i++)
        if (m->links[i].link != NULL && m->links[i].member == member)
            return &m->links[i];
    return NULL;
}

static void remember_place(struct master *m, uint64_t member, const struct mob_gcs_place *place)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < MOB_MEMBERSHIP_MEMBERS_MAX; i++) {
        if (m->places[i].member == member) {
            at = i;
            break;
        }
        if (m->places[i].heard_ns < m->places[at].heard_ns)
            at = i;
    }
    m->places[at].member = member;
    m->places[at].place = *place;
    m->places[at].heard_ns = m->now_ns;
}

void master_tell(struct member_link *l, uint8_t type, uint64_t epoch, const void *head, uint32_t head_bytes,
    const void *body, uint32_t body_bytes)
{
    struct mob_link_message message = {.type = type,
        .epoch = epoch,
        .head = head,
        .head_bytes = head_bytes,
        .body = body,
        .body_bytes = body_bytes};
    if (mob_link_send(l->link, &message) != MOB_OK)
        MOB_LOG_WARN("master", "not_sent", "member=%llx", (unsigned long long)l->member);
}

static void send_book(struct master *m, struct member_link *l, const struct mob_gcs_config *config)
{
    struct mob_gcs_book book = {.config = *config};
    struct mob_gcs_seal seals[MOB_GCS_SEALS_MAX];
    uint32_t seal_count = 0;
    if (config->start != 0 && !master_nodes_seals(m, config, seals, &seal_count))
        return; /* with its next report */
    for (uint32_t i = 0; i < config->count; i++)
        for (uint32_t k = 0; k < MOB_MEMBERSHIP_MEMBERS_MAX; k++)
            if (m->places[k].member == config->members[i])
                book.places[i] = m->places[k].place;
    master_tell(l, MOB_GCS_BOOK, config->epoch, seals, seal_count * (uint32_t)sizeof seals[0], &book,
        mob_gcs_book_bytes(&book));
    l->book_epoch = config->epoch;
}

static void on_report(struct master *m, struct member_link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_report r;
    if (frame->head_bytes != sizeof r)
        return;
    memcpy(&r, frame->head, sizeof r);
    if (r.member == 0 || r.member != mob_link_peer(l->link))
        return;
    if (l->member == 0)
        MOB_LOG_INFO("master", "member_heard", "member=%llx pid=%lld state=%s", (unsigned long long)r.member,
            (long long)r.pid, mob_chain_state_name(r.state));
    l->member = r.member;
    l->pid = r.pid;
    l->heard_ns = m->now_ns;
    remember_place(m, r.member, mob_link_peer_place(l->link));
    struct mob_member_report report = {.member = r.member,
        .epoch = r.epoch,
        .state = r.state,
        .synced = r.synced,
        .busy = r.busy,
        .pause_ns = r.pause_ms * MOB_MS,
        .synced_on_disk = r.synced_on_disk,
        .sent_ns = r.sent_ns,
        .heard_ns = r.heard_ns,
        .applied = r.applied,
        .committed = r.committed,
        .joiner = r.joiner,
        .joiner_lag = r.joiner_lag,
        .stored_epoch = r.stored_epoch,
        .stored_seq = r.stored_seq,
        .stored_synced = r.stored_synced};
    mob_membership_on_report(
        m->membership, &report, mob_mastership_fresh(&m->mastership, &times, m->now_ns), m->now_ns);
    const struct mob_gcs_config *config = mob_membership_config(m->membership);
    bool lacks =
        m->began && config->epoch != 0 && r.book_epoch < config->epoch && l->book_epoch < config->epoch;
    if (lacks && mob_membership_may_tell(m->membership))
        send_book(m, l, config);
}

static void link_close(struct member_link *l)
{
    mob_link_destroy(l->link);
    *l = (struct member_link){.link = NULL};
}

static void link_event(struct master *m, struct member_link *l, bool readable)
{
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    enum mob_status status;
    mob_link_io(l->link, readable);
    while ((status = mob_link_next(l->link, &frame, &chunk)) == MOB_OK)
        if (frame.type == MOB_GCS_REPORT)
            on_report(m, l, &frame);
        else
            master_nodes_frame(m, l, &frame);
    if (status != MOB_AGAIN) {
        master_nodes_closed(m, l);
        link_close(l);
    }
}

/* A free one, or that of the stranger who is silent for longest: those who say nothing keep nobody out. */
static struct member_link *place_for_one(struct master *m)
{
    struct member_link *stranger = NULL;
    for (uint32_t i = 0; i < LINKS_MAX; i++) {
        struct member_link *l = &m->links[i];
        if (l->link == NULL)
            return l;
        if (mob_link_more_silent(l->link, stranger == NULL ? NULL : stranger->link))
            stranger = l;
    }
    if (stranger != NULL) {
        MOB_LOG_WARN("master", "link_given_up", "why=\"too many have proved nothing\"");
        link_close(stranger);
    }
    return stranger;
}

static void accept_links(struct master *m)
{
    struct mob_link *link;
    while (mob_link_accept(&m->self, &m->pool, &m->listener, &link) == MOB_OK) {
        struct member_link *place = place_for_one(m);
        if (place != NULL) {
            *place = (struct member_link){.link = link};
            continue;
        }
        MOB_LOG_WARN("master", "link_refused", "why=\"too many\" links=%u", LINKS_MAX);
        mob_link_destroy(link);
    }
}

/* ---- the loop ---- */

static void drain(struct master *m)
{
    struct mob_membership_action a;
    while (mob_membership_next(m->membership, &a)) {
        struct member_link *l = master_link_of(m, a.member);
        struct mob_table_question q = {.op = MOB_TABLE_INSERT, .config = a.config};
        if (a.type == MOB_MEMBERSHIP_INSTALL) {
            if (!master_ask(m, &q, &m->insert_tag, &m->insert_deadline))
                mob_membership_on_installed(m->membership, MOB_TIMEOUT, m->now_ns);
        } else if (a.type == MOB_MEMBERSHIP_READ) {
            ask_newest(m);
        } else if (a.type == MOB_MEMBERSHIP_BEGIN_ANEW) {
            ask_watermark(m, &a);
        } else if (l != NULL && a.type == MOB_MEMBERSHIP_PUSH) {
            send_book(m, l, &a.config);
        } else if (l != NULL && a.type == MOB_MEMBERSHIP_ANSWER) {
            struct mob_gcs_lease lease = {.member = a.member,
                .epoch = mob_membership_config(m->membership)->epoch,
                .sent_ns = a.sent_ns,
                .heard_ns = a.heard_ns,
                .flags = a.lease ? MOB_GCS_LEASE_READS : 0};
            master_tell(l, MOB_GCS_LEASE, lease.epoch, &lease, sizeof lease, NULL, 0);
        } else if (l != NULL && a.type == MOB_MEMBERSHIP_HURRY) {
            struct mob_gcs_lease hurry = {
                .member = a.member, .heard_ns = a.heard_ns, .flags = MOB_GCS_LEASE_HURRY};
            master_tell(l, MOB_GCS_LEASE, 0, &hurry, sizeof hurry, NULL, 0);
        } else if (l != NULL && a.type == MOB_MEMBERSHIP_JOIN) {
            struct mob_gcs_enter enter = {.member = a.member, .epoch = a.config.epoch};
            send_book(m, l, &a.config); /* before: it is to know where the tail is */
            master_tell(l, MOB_GCS_ENTER, enter.epoch, &enter, sizeof enter, NULL, 0);
        }
    }
}

static void tick(struct master *m)
{
    step_mastership(m);
    if (m->mastership.active && !m->began) {
        ask_newest(m);
    } else if (!m->mastership.active && m->began) {
        m->began = false;
        mob_membership_end(m->membership);
        mob_node_watch_end(m->nodes.watch);
    }
    if (m->insert_tag != 0 && m->now_ns >= m->insert_deadline) {
        m->insert_tag = 0;
        mob_membership_on_installed(m->membership, MOB_TIMEOUT, m->now_ns);
    }
    mob_membership_on_tick(m->membership, m->now_ns);
    drain(m);
    master_nodes_tick(m);
    master_look_for_zombies(m);
    master_look_for_unheard(m);
    for (uint32_t i = 0; i < LINKS_MAX; i++) {
        struct member_link *l = &m->links[i];
        if (l->link != NULL && mob_link_silent(l->link, m->now_ns))
            link_close(l); /* its place may be a member's */
        else if (l->link != NULL && mob_link_unsent(l->link) > 0)
            link_event(m, l, false);
    }
}

static int64_t pause_ns(struct master *m)
{
    if (m->mastership.active)
        return mob_membership_pause_ns(m->membership);
    int64_t step_ns = mob_mastership_pause_ns(&m->mastership, m->now_ns);
    return step_ns < TICK_STANDBY_NS ? step_ns : TICK_STANDBY_NS;
}

#define OWN_FDS 4 /* of what the master waits for besides links */

/* What has come is read before anybody is found silent. While all is even only the first OWN_FDS wake. */
static bool wait_and_read(struct master *m)
{
    struct pollfd fds[LINKS_MAX + OWN_FDS] = {
        {.fd = mob_listener_poll_fd(&m->listener, mob_now()), .events = POLLIN},
        {.fd = mob_table_fd(m->table), .events = POLLIN},
        {.fd = m->options.stop_fd == NULL ? -1 : *m->options.stop_fd, .events = POLLIN},
        {.fd = master_nodes_fd(m), .events = POLLIN}}; /* the tick reads it */
    struct member_link *of[LINKS_MAX + OWN_FDS];
    nfds_t n = OWN_FDS;
    for (uint32_t i = 0; i < LINKS_MAX; i++)
        if (m->links[i].link != NULL) {
            of[n] = &m->links[i];
            bool write = mob_link_wants_write(m->links[i].link);
            fds[n++] = (struct pollfd){
                .fd = mob_link_fd(m->links[i].link), .events = (short)(POLLIN | (write ? POLLOUT : 0))};
        }
    int64_t pause = pause_ns(m);
    struct timespec left = {pause / MOB_SEC, pause % MOB_SEC};
    if (m->mastership.active && mob_membership_even(m->membership)) {
        (void)ppoll(fds, OWN_FDS, &left, NULL);
        left = (struct timespec){0};
    }
    int ready = ppoll(fds, n, &left, NULL);
    m->now_ns = mob_now();
    if (ready <= 0)
        return true;
    if (fds[0].revents != 0)
        accept_links(m);
    if (fds[1].revents != 0)
        table_answers(m);
    for (nfds_t i = OWN_FDS; i < n; i++)
        if (fds[i].revents != 0)
            link_event(m, of[i], (fds[i].revents & ~POLLOUT) != 0);
    return fds[2].revents == 0;
}

static enum mob_status open_all(struct master *m)
{
    const struct mob_master_options *o = &m->options;
    m->self = (struct mob_link_self){.shard = o->shard,
        .protocol_min = MOB_GCS_PEER_PROTOCOL,
        .protocol_max = MOB_GCS_PEER_PROTOCOL,
        .cluster = o->cluster};
    memcpy(m->self.secret, o->secret, sizeof m->self.secret);
    snprintf(m->self.place.link, sizeof m->self.place.link, "%s", o->listen);
    m->membership = mob_membership_create(&(struct mob_membership_options){.replicas = o->replicas,
        .suspicion_ns = o->suspicion_ns,
        .lease_ns = o->lease_ns,
        .tick_ns = TICK_NS,
        .tick_slow_ns = TICK_SLOW_NS,
        .stall_ns = MOB_MEMBERSHIP_STALL_NS,
        .reread_ns = 3 * MOB_SEC,
        .gather_ns = o->gather_ns,
        .start_without_all = o->start_without_all});
    if (m->membership == NULL || master_nodes_open(m) != MOB_OK)
        return MOB_NO_MEMORY;
    struct mob_table_options table = {.shard = o->shard, .postgres = o->postgres, .file = o->file};
    enum mob_status status = mob_table_create(&table, &m->table);
    if (status == MOB_OK)
        status = mob_link_listen(o->listen, &m->listener);
    m->replace_fd =
        o->replace_socket == NULL ? -1 : socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return status;
}

/* So that the next master need not wait. Not done in time: it waits. */
static void release_row(struct master *m)
{
    int64_t deadline = mob_now() + RELEASE_NS;
    while (m->row_tag != 0 && mob_now() < deadline) { /* a beat is under way */
        struct pollfd ready = {.fd = mob_table_fd(m->table), .events = POLLIN};
        poll(&ready, 1, 10);
        m->now_ns = mob_now();
        table_answers(m);
    }
    if (!m->mastership.active || m->mastership.unsure || m->row_tag != 0)
        return;
    struct mob_table_question q = {.op = MOB_TABLE_SET_ROW,
        .tag = ++m->next_tag,
        .old_row = m->mastership.row,
        .row = {m->mastership.row.term, MOB_MASTER_RELEASED}};
    struct mob_table_answer a = {.tag = 0};
    if (!mob_table_ask(m->table, &q))
        return;
    while (a.tag != q.tag && mob_now() < deadline) {
        struct pollfd ready = {.fd = mob_table_fd(m->table), .events = POLLIN};
        poll(&ready, 1, 10);
        if (mob_table_answer(m->table, &a))
            free(a.logs);
    }
    MOB_LOG_INFO("master", "released", "term=%llu done=%d", (unsigned long long)m->mastership.row.term,
        a.tag == q.tag && a.status == MOB_OK);
}

enum mob_status mob_master_run(const struct mob_master_options *options)
{
    struct master *m = calloc(1, sizeof *m);
    if (m == NULL)
        return MOB_NO_MEMORY;
    m->options = *options;
    m->listener.fd = m->replace_fd = -1;
    enum mob_status status = open_all(m);
    struct sched_param priority = {.sched_priority = PRIORITY};
    bool realtime = status == MOB_OK && sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
    if (status == MOB_OK)
        MOB_LOG_INFO("master", "listening", "address=%s shard=%u replicas=%u realtime=%d", options->listen,
            options->shard, options->replicas, realtime);
    m->now_ns = mob_now();
    while (status == MOB_OK && wait_and_read(m))
        tick(m);
    for (uint32_t i = 0; i < LINKS_MAX; i++)
        if (m->links[i].link != NULL)
            link_close(&m->links[i]);
    if (status == MOB_OK)
        release_row(m);
    mob_table_destroy(m->table);
    mob_membership_destroy(m->membership);
    master_nodes_close(m);
    mob_chunk_pool_fini(&m->pool);
    mob_listener_fini(&m->listener);
    if (m->replace_fd >= 0)
        close(m->replace_fd);
    free(m);
    return status;
}
