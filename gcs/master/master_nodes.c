/* Nodes whose home is this shard: what they say, what the table and the chain answer, and the machine that
 * decides (gcs/chain/node_watch.h). Logs are sealed, and incarnations registered, by a client of the chain
 * that keeps what was not answered, over fail-overs and restarts of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "gcs/client/client.h"
#include "gcs/master/master_inner.h"

#define END_AFTER_NS (1 * MOB_SEC) /* a process whose incarnation is over may end by itself before that */

/* What the chain's client has under way. */
struct chain_op {
    struct master *m;
    struct mob_node_log log;
};

enum mob_status master_nodes_open(struct master *m)
{
    m->nodes.watch = mob_node_watch_create(&(struct mob_node_watch_options){
        .silence_ns = m->options.silence_ns, .tick_ns = MOB_NODE_BEAT_NS, .end_after_ns = END_AFTER_NS});
    return m->nodes.watch == NULL ? MOB_NO_MEMORY : MOB_OK;
}

void master_nodes_close(struct master *m)
{
    mob_gcs_destroy(m->nodes.gcs);
    for (uint32_t i = 0; i < CHAIN_OPS_MAX; i++)
        free(m->nodes.ops[i]);
    mob_node_watch_destroy(m->nodes.watch);
}

/* ---- the chain ---- */

static struct mob_gcs *chain_client(struct master *m)
{
    struct mob_gcs_options options = {.socket_path = m->options.gcs_socket,
        .cluster = m->options.cluster,
        .secret = m->options.secret,
        .shard = m->options.shard};
    if (m->nodes.gcs == NULL && m->options.gcs_socket != NULL &&
        mob_gcs_create(&options, &m->nodes.gcs) != MOB_OK)
        m->nodes.gcs = NULL;
    return m->nodes.gcs;
}

static struct chain_op *op_create(struct master *m, const struct mob_node_log *log)
{
    for (uint32_t i = 0; i < CHAIN_OPS_MAX; i++) {
        if (m->nodes.ops[i] != NULL)
            continue;
        struct chain_op *op = malloc(sizeof *op);
        if (op != NULL)
            *op = (struct chain_op){m, *log};
        m->nodes.ops[i] = op;
        return op;
    }
    return NULL;
}

static void op_free(struct chain_op *op)
{
    for (uint32_t i = 0; i < CHAIN_OPS_MAX; i++)
        if (op->m->nodes.ops[i] == op)
            op->m->nodes.ops[i] = NULL;
    free(op);
}

static void on_sealed(void *arg, const struct mob_gcs_answer *answer)
{
    struct chain_op *op = arg;
    struct master *m = op->m;
    MOB_LOG_INFO("master", "node_log_sealed", "node=%s incarnation=%llu status=%s cut=%llu", op->log.node,
        (unsigned long long)op->log.incarnation, mob_status_code(answer->status),
        (unsigned long long)answer->number);
    (void)MOB_FAILPOINT("master.node_sealed");
    mob_node_watch_on_cut(m->nodes.watch, op->log.incarnation, answer->status, answer->number, m->now_ns);
    op_free(op);
}

static void on_registered(void *arg, const struct mob_gcs_answer *answer)
{
    struct chain_op *op = arg;
    mob_node_watch_on_registered(
        op->m->nodes.watch, op->log.node, answer->status, answer->number, op->m->now_ns);
    op_free(op);
}

static void seal(struct master *m, const struct mob_node_log *log)
{
    struct mob_gcs *gcs = chain_client(m);
    struct chain_op *op = gcs == NULL ? NULL : op_create(m, log);
    (void)MOB_FAILPOINT("master.node_noted");
    if (op != NULL && mob_gcs_log_seal(gcs, log->incarnation, on_sealed, op) == MOB_OK)
        return;
    if (op != NULL)
        op_free(op);
    mob_node_watch_on_cut(m->nodes.watch, log->incarnation, MOB_UNAVAILABLE, 0, m->now_ns);
}

static void register_node(struct master *m, const struct mob_node_log *log)
{
    struct mob_gcs *gcs = chain_client(m);
    struct chain_op *op = gcs == NULL ? NULL : op_create(m, log);
    if (op != NULL &&
        mob_gcs_node_register_at(gcs, log->node, m->options.shard, m->options.shards, on_registered, op) ==
            MOB_OK)
        return;
    if (op != NULL)
        op_free(op);
    mob_node_watch_on_registered(m->nodes.watch, log->node, MOB_UNAVAILABLE, 0, m->now_ns);
}

int master_nodes_fd(const struct master *m)
{
    return m->nodes.gcs == NULL ? -1 : mob_gcs_fd(m->nodes.gcs);
}

/* ---- the table ---- */

static void record(struct master *m, const struct mob_node_watch_action *a)
{
    struct mob_table_question q = {
        .op = MOB_TABLE_SET_LOG, .row = m->mastership.row, .log = a->log, .old_state = a->old_state};
    if (a->log.state == MOB_NODE_LOG_DEAD)
        (void)MOB_FAILPOINT("master.node_decided");
    if (!master_ask(m, &q, &m->nodes.note_tag, &m->nodes.note_deadline))
        mob_node_watch_on_noted(m->nodes.watch, MOB_UNAVAILABLE, m->now_ns);
}

void master_nodes_read(struct master *m)
{
    struct mob_table_question q = {.op = MOB_TABLE_LOGS};
    if (m->nodes.logs_tag == 0)
        (void)master_ask(m, &q, &m->nodes.logs_tag, &m->nodes.logs_deadline);
}

/* True: this was a question about nodes. */
bool master_nodes_answer(struct master *m, const struct mob_table_answer *a)
{
    if (a->tag == m->nodes.note_tag) {
        m->nodes.note_tag = 0;
        mob_node_watch_on_noted(m->nodes.watch, a->status, m->now_ns);
    } else if (a->tag == m->nodes.home_tag) {
        m->nodes.home_tag = 0;
        if (a->status == MOB_OK)
            master_nodes_home(m, a->home);
    } else if (a->tag == m->nodes.logs_tag) {
        m->nodes.logs_tag = 0;
        if (a->status == MOB_OK && m->began)
            mob_node_watch_on_logs(m->nodes.watch, a->logs, a->log_count, m->now_ns);
        else if (a->status == MOB_OK && m->mastership.active)
            master_begin(m, a->logs, a->log_count);
    } else {
        return false;
    }
    return true;
}

static void give_up_questions(struct master *m)
{
    struct master_nodes *n = &m->nodes;
    if (n->logs_tag != 0 && m->now_ns >= n->logs_deadline)
        n->logs_tag = 0;
    if (n->home_tag != 0 && m->now_ns >= n->home_deadline)
        n->home_tag = 0;
    if (n->note_tag != 0 && m->now_ns >= n->note_deadline) {
        n->note_tag = 0;
        mob_node_watch_on_noted(n->watch, MOB_TIMEOUT, m->now_ns);
    }
}

/* ---- nodes ---- */

static struct member_link *link_of_token(struct master *m, uint64_t token)
{
    for (uint32_t i = 0; i < LINKS_MAX; i++)
        if (m->links[i].link != NULL && m->links[i].token == token)
            return &m->links[i];
    return NULL;
}

static void tell_enrolled(
    struct master *m, uint64_t token, enum mob_status status, uint64_t incarnation, uint32_t home)
{
    struct member_link *l = link_of_token(m, token);
    struct mob_gcs_enrolled e = {.incarnation = incarnation, .status = status, .home = home};
    if (l != NULL) /* else it asks again, over another one */
        master_tell(l, MOB_GCS_ENROLLED, 0, &e, sizeof e, NULL, 0);
}

static void enroll(struct master *m, const struct mob_node_log *log, uint64_t token)
{
    enum mob_status status = mob_node_watch_on_enroll(m->nodes.watch, log, token, m->now_ns);
    if (status != MOB_OK)
        tell_enrolled(m, token, status, 0, m->options.shard);
}

/* The table knows where the home is of the one that was asked for. */
void master_nodes_home(struct master *m, uint32_t home)
{
    if (!m->began)
        return;
    if (home == m->options.shard)
        enroll(m, &m->nodes.homeless, m->nodes.homeless_token);
    else
        tell_enrolled(m, m->nodes.homeless_token, MOB_MISDIRECTED, 0, home);
}

static void on_enroll(struct master *m, struct member_link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_enroll e;
    if (frame->head_bytes != sizeof e || !m->began)
        return; /* it asks again, and others */
    memcpy(&e, frame->head, sizeof e);
    if (!mob_gcs_node_name_ok(e.node) || m->options.gcs_socket == NULL)
        return;
    struct mob_node_log log = {.start = e.start, .pid = e.pid};
    memcpy(log.node, e.node, strlen(e.node));
    if (l->token == 0)
        l->token = ++m->nodes.next_token;
    if (m->options.shard != 0) { /* it was sent here */
        enroll(m, &log, l->token);
    } else if (m->nodes.home_tag == 0) { /* one after the other: they ask again */
        struct mob_table_question q = {
            .op = MOB_TABLE_HOME, .row = m->mastership.row, .log = log, .shards = m->options.shards};
        m->nodes.homeless = log;
        m->nodes.homeless_token = l->token;
        (void)master_ask(m, &q, &m->nodes.home_tag, &m->nodes.home_deadline);
    }
}

static void on_beat(struct master *m, struct member_link *l, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_node_beat b;
    if (frame->head_bytes != sizeof b)
        return;
    memcpy(&b, frame->head, sizeof b);
    l->incarnation = b.incarnation;
    bool over = mob_node_watch_on_beat(m->nodes.watch, b.incarnation, b.leaving != 0, m->now_ns);
    struct mob_gcs_node_heard heard = {.incarnation = b.incarnation, .over = over};
    if (over)
        master_tell(l, MOB_GCS_NODE_HEARD, 0, &heard, sizeof heard, NULL, 0);
}

void master_nodes_frame(struct master *m, struct member_link *l, const struct mob_gcs_frame *frame)
{
    if (frame->type == MOB_GCS_ENROLL)
        on_enroll(m, l, frame);
    else if (frame->type == MOB_GCS_NODE_BEAT)
        on_beat(m, l, frame);
}

void master_nodes_closed(struct master *m, const struct member_link *l)
{
    if (l->incarnation != 0)
        mob_node_watch_on_gone(m->nodes.watch, l->incarnation, m->now_ns);
}

/* ---- each pass ---- */

static void drain(struct master *m)
{
    struct mob_node_watch_action a;
    while (mob_node_watch_next(m->nodes.watch, &a)) {
        switch (a.type) {
        case MOB_NODE_WATCH_NOTE:
            record(m, &a);
            break;
        case MOB_NODE_WATCH_READ:
            master_nodes_read(m);
            break;
        case MOB_NODE_WATCH_SEAL:
            seal(m, &a.log);
            break;
        case MOB_NODE_WATCH_REGISTER:
            register_node(m, &a.log);
            break;
        case MOB_NODE_WATCH_ENROLLED:
            tell_enrolled(m, a.token, a.status, a.log.incarnation, m->options.shard);
            break;
        case MOB_NODE_WATCH_END:
            master_ask_to_end(m, a.log.node, a.log.pid, a.again);
            break;
        }
    }
}

void master_nodes_tick(struct master *m)
{
    give_up_questions(m);
    if (m->nodes.gcs != NULL)
        (void)mob_gcs_step(m->nodes.gcs, m->now_ns);
    mob_node_watch_on_tick(m->nodes.watch, m->now_ns);
    drain(m);
    if (m->nodes.gcs != NULL)
        (void)mob_gcs_send(m->nodes.gcs);
}

/* A chain that starts again must know what is sealed: what this master knows is all when no record is under
 * way, and none of a later master's can be, since its term would be that of the configuration. */
bool master_nodes_seals(const struct master *m, const struct mob_gcs_config *config,
    struct mob_gcs_seal seals_out[MOB_GCS_SEALS_MAX], uint32_t *count_out)
{
    if (config->term > m->mastership.row.term || !mob_node_watch_settled(m->nodes.watch))
        return false;
    *count_out = mob_node_watch_seals(m->nodes.watch, seals_out);
    return true;
}
