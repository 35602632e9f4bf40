/* Reads, sent again after a reconnection until answered; subscriptions, which resume at their position. */
#include "gcs/client/client_internal.h"

#include <stdlib.h>

enum mob_status read_submit(struct mob_gcs *g, const struct mob_gcs_get *head, const void *a,
    uint32_t a_bytes, const void *b, uint32_t b_bytes, mob_gcs_done_fn *done, void *arg)
{
    if (g->closed)
        return MOB_CLOSED;
    if (a_bytes > MOB_GCS_KEY_MAX || b_bytes > MOB_GCS_KEY_MAX)
        return MOB_TOO_LARGE;
    if (g->op_count - g->op_kept + g->read_count >= MOB_GCS_OPS_MAX)
        return MOB_QUEUE_FULL;
    struct read_op *op = malloc(sizeof *op + a_bytes + b_bytes);
    if (op == NULL)
        return MOB_NO_MEMORY;
    *op = (struct read_op){.head = *head, .body_bytes = a_bytes + b_bytes, .done = done, .arg = arg};
    join(op->body, a, a_bytes, b, b_bytes);
    op->head.tag = ++g->next_tag;
    if (g->read_last != NULL)
        g->read_last->next = op;
    else
        g->read_first = op;
    g->read_last = op;
    g->read_count++;
    return MOB_OK;
}

enum mob_status mob_gcs_incarnations(struct mob_gcs *g, uint64_t after, mob_gcs_done_fn *done, void *arg)
{
    if (g->shard_count > 0)
        return gather_incarnations(g, after, done, arg);
    struct mob_gcs_get head = {.query = MOB_GCS_Q_INCARNATIONS, .incarnation = after};
    return read_submit(g, &head, NULL, 0, NULL, 0, done, arg);
}

enum mob_status mob_gcs_get(struct mob_gcs *g, enum mob_gcs_table table, const void *key, uint32_t key_length,
    mob_gcs_done_fn *done, void *arg)
{
    struct mob_gcs_get head = {.query = MOB_GCS_Q_GET, .table = (uint8_t)table};
    g = shard_of_key(g, table, key, key_length);
    return read_submit(g, &head, key, key_length, NULL, 0, done, arg);
}

enum mob_status mob_gcs_list(
    struct mob_gcs *g, const struct mob_gcs_list *list, mob_gcs_done_fn *done, void *arg)
{
    if (g->shard_count > 0)
        return gather_list(g, list, done, arg);
    struct mob_gcs_get head = {.query = MOB_GCS_Q_LIST,
        .table = (uint8_t)list->table,
        .newest_first = list->keys_only,
        .limit = list->limit,
        .prefix_length = list->prefix_length};
    return read_submit(
        g, &head, list->prefix, list->prefix_length, list->after, list->after_length, done, arg);
}

static enum mob_status read_pages(
    struct mob_gcs *g, const struct mob_gcs_get *head, mob_gcs_done_fn *done, void *arg)
{
    return g->shard_count > 0 ? gather_pages(g, head, NULL, 0, done, arg)
                              : read_submit(g, head, NULL, 0, NULL, 0, done, arg);
}

enum mob_status mob_gcs_group_blocks(struct mob_gcs *g, struct mob_stream stream, uint32_t group,
    uint64_t position, mob_gcs_done_fn *done, void *arg)
{
    return mob_gcs_group_page(g, stream, group, position, 0, done, arg);
}

enum mob_status mob_gcs_group_page(struct mob_gcs *g, struct mob_stream stream, uint32_t group,
    uint64_t position, uint32_t limit, mob_gcs_done_fn *done, void *arg)
{
    struct mob_gcs_get head = {
        .query = MOB_GCS_Q_GROUP, .limit = limit, .stream = stream, .group = group, .position = position};
    return read_pages(g, &head, done, arg);
}

enum mob_status read_groups(struct mob_gcs *g, const struct mob_gcs_get *head,
    const struct mob_gcs_group_key *groups, uint32_t count, mob_gcs_done_fn *done, void *arg)
{
    uint32_t half = count / 2, size = (uint32_t)sizeof *groups;
    return read_submit(g, head, groups, half * size, groups + half, (count - half) * size, done, arg);
}

enum mob_status mob_gcs_groups_blocks(struct mob_gcs *g, const struct mob_gcs_group_key *groups,
    uint32_t count, uint64_t position, mob_gcs_done_fn *done, void *arg)
{
    struct mob_gcs_get head = {.query = MOB_GCS_Q_GROUPS, .position = position};
    if (count == 0 || count > MOB_GCS_GROUPS_MAX)
        return MOB_INVALID;
    return g->shard_count > 0 ? gather_pages(g, &head, groups, count, done, arg)
                              : read_groups(g, &head, groups, count, done, arg);
}

enum mob_status mob_gcs_group_here(struct mob_gcs *g, struct mob_stream stream, uint32_t group,
    uint64_t position, mob_gcs_done_fn *done, void *arg)
{
    struct mob_gcs_get head = {
        .query = MOB_GCS_Q_GROUP, .newest_first = 1, .stream = stream, .group = group, .position = position};
    return read_pages(g, &head, done, arg);
}

enum mob_status mob_gcs_scan(
    struct mob_gcs *g, const struct mob_gcs_scan *scan, mob_gcs_done_fn *done, void *arg)
{
    if (scan->shard >= mob_gcs_shard_count(g))
        return MOB_INVALID;
    g = mob_gcs_shard(g, scan->shard);
    struct mob_gcs_get head = {.query = scan->history ? MOB_GCS_Q_HISTORY : MOB_GCS_Q_SCAN,
        .failed = scan->failed,
        .newest_first = scan->newest_first,
        .limit = scan->limit,
        .prefix_length = scan->tie,
        .job = scan->job,
        .function = scan->function,
        .from_wall_ns = scan->from_wall_ns,
        .to_wall_ns = scan->to_wall_ns,
        .incarnation = scan->cut_seq,
        .group = scan->cut_entries,
        .position = scan->position};
    return read_submit(g, &head, NULL, 0, NULL, 0, done, arg);
}

enum mob_status mob_gcs_unfinished(
    struct mob_gcs *g, uint64_t incarnation, uint64_t position, mob_gcs_done_fn *done, void *arg)
{
    struct mob_gcs_get head = {
        .query = MOB_GCS_Q_UNFINISHED, .incarnation = incarnation, .position = position};
    return read_pages(g, &head, done, arg);
}

enum mob_status mob_gcs_log_read(
    struct mob_gcs *g, uint64_t incarnation, uint64_t number, mob_gcs_done_fn *done, void *arg)
{
    struct mob_gcs_get head = {.query = MOB_GCS_Q_LOG, .incarnation = incarnation, .position = number};
    return read_submit(shard_of_log(g, incarnation), &head, NULL, 0, NULL, 0, done, arg);
}

enum mob_status mob_gcs_stats(struct mob_gcs *g, mob_gcs_done_fn *done, void *arg)
{
    if (g->shard_count > 0)
        return MOB_INVALID;
    struct mob_gcs_get head = {.query = MOB_GCS_Q_STATS};
    return read_submit(g, &head, NULL, 0, NULL, 0, done, arg);
}

void reads_pump(struct mob_gcs *g)
{
    if (g->collecting) /* a member that collects answers no reads, and would hold what is behind them */
        return;
    if (g->now_ns < g->reads_ns)
        return;
    for (struct read_op *op = g->read_first; op != NULL && !out_full(g->tail); op = op->next) {
        if (op->sent && op->by_chain && g->now_ns - op->sent_ns > CHAIN_READ_NS)
            op->sent = op->by_chain = false; /* lost on its way, perhaps */
        if (op->sent || (op->by_chain && g->stream.state != STREAM_ATTACHED))
            continue;
        op->sent = true;
        op->sent_ns = g->now_ns;
        out_frame(op->by_chain ? g->head : g->tail, MOB_GCS_GET, g->client, g->position.epoch, &op->head,
            sizeof op->head, op->body, op->body_bytes, NULL);
    }
}

void reads_again(struct mob_gcs *g, int64_t at_ns)
{
    for (struct read_op *op = g->read_first; op != NULL; op = op->next)
        op->sent = op->by_chain = false;
    g->reads_ns = at_ns;
}

void reads_down(struct mob_gcs *g)
{
    for (struct read_op *op = g->read_first; op != NULL; op = op->next)
        op->sent = op->by_chain = false;
    for (uint32_t i = 0; i < g->sub_count; i++)
        g->subs[i]->sent = false;
}

/* ---- answers ---- */

union rows {
    struct mob_gcs_kv kvs[MOB_GCS_ROWS_MAX];
    struct mob_gcs_block_row blocks[MOB_GCS_ROWS_MAX];
    struct mob_gcs_incarnation incarnations[MOB_GCS_ROWS_MAX];
    struct mob_gcs_stats stats;
    struct mob_gcs_flush_group groups[MOB_GCS_ROWS_MAX];
};

static enum mob_status decode_rows(
    const struct mob_gcs_rows *head, struct mob_reader *r, union rows *rows, struct mob_gcs_answer *answer)
{
    enum mob_status status = MOB_OK;
    if (head->count > MOB_GCS_ROWS_MAX)
        return MOB_TOO_LARGE;
    switch ((enum mob_gcs_rows_kind)head->kind) {
    case MOB_GCS_ROWS_NONE:
        break;
    case MOB_GCS_ROWS_KV:
        for (uint32_t i = 0; i < head->count && status == MOB_OK; i++)
            status = mob_gcs_kv_row_decode(r, &rows->kvs[i]);
        answer->kvs = rows->kvs;
        answer->kv_count = head->count;
        break;
    case MOB_GCS_ROWS_BLOCKS:
        for (uint32_t i = 0; i < head->count && status == MOB_OK; i++)
            status = mob_gcs_block_row_decode(r, &rows->blocks[i]);
        answer->blocks = rows->blocks;
        answer->block_count = head->count;
        break;
    case MOB_GCS_ROWS_INCARNATIONS:
        for (uint32_t i = 0; i < head->count && status == MOB_OK; i++)
            status = mob_gcs_incarnation_decode(r, &rows->incarnations[i]);
        answer->incarnations = rows->incarnations;
        answer->incarnation_count = head->count;
        break;
    case MOB_GCS_ROWS_STATS:
        status = mob_gcs_stats_decode(r, &rows->stats);
        answer->stats = &rows->stats;
        break;
    case MOB_GCS_ROWS_GROUPS:
        mob_read_into(r, rows->groups, head->count * sizeof rows->groups[0]);
        status = mob_reader_ok(r) ? MOB_OK : MOB_TRUNCATED;
        answer->groups = rows->groups;
        answer->group_count = head->count;
        break;
    case MOB_GCS_ROWS_MARKS: /* member_link.h asks for these two */
    case MOB_GCS_ROWS_INDEX:
    default:
        return MOB_CORRUPT;
    }
    return status;
}

static struct read_op *take_read(struct mob_gcs *g, uint64_t tag)
{
    struct read_op *before = NULL;
    for (struct read_op **link = &g->read_first; *link != NULL; before = *link, link = &before->next) {
        struct read_op *op = *link;
        if (op->head.tag != tag)
            continue;
        *link = op->next;
        if (g->read_last == op)
            g->read_last = before;
        g->read_count--;
        return op;
    }
    return NULL;
}

/* The tail has no lease, so the read goes through the chain; or it is the tail no more. */
static void read_elsewhere(struct mob_gcs *g, const struct mob_gcs_rows *head)
{
    for (struct read_op *op = g->read_first; op != NULL; op = op->next)
        if (op->head.tag == head->tag) {
            op->by_chain = head->status == MOB_AGAIN;
            op->sent = false;
            if (!op->by_chain)
                g->reads_ns = g->now_ns + WRONG_MEMBER_NS;
            return;
        }
}

void reads_answer(struct mob_gcs *g, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_rows head;
    if (mob_gcs_rows_decode(frame->head, frame->head_bytes, &head) != MOB_OK) {
        link_fail(g->tail, MOB_CORRUPT);
        return;
    }
    if (head.status == MOB_AGAIN || head.status == MOB_WRONG_EPOCH) {
        read_elsewhere(g, &head);
        return;
    }
    g->heard = true;
    struct mob_gcs_answer answer = {
        .status = (enum mob_status)head.status, .seq = head.seq, .next = head.next, .tie = head.tie};
    struct mob_reader r = mob_reader_of(frame->body, frame->body_bytes);
    union rows *rows = malloc(sizeof *rows);
    enum mob_status status = rows == NULL ? MOB_NO_MEMORY : decode_rows(&head, &r, rows, &answer);
    if (status != MOB_OK)
        answer = (struct mob_gcs_answer){.status = status};
    if (answer.kv_count == 1)
        answer.version = answer.kvs[0].version;
    struct read_op *op = take_read(g, head.tag);
    if (op != NULL) {
        if (op->done != NULL)
            op->done(op->arg, &answer);
        free(op);
    }
    free(rows);
}

void reads_close(struct mob_gcs *g)
{
    struct mob_gcs_answer answer = {.status = MOB_CLOSED};
    while (g->read_first != NULL) {
        struct read_op *op = take_read(g, g->read_first->head.tag);
        if (op->done != NULL)
            op->done(op->arg, &answer);
        free(op);
    }
}

void reads_destroy(struct mob_gcs *g)
{
    for (struct read_op *op = g->read_first, *next; op != NULL; op = next) {
        next = op->next;
        free(op);
    }
    for (uint32_t i = 0; i < g->sub_count; i++)
        free(g->subs[i]);
}

/* ---- subscriptions ---- */

enum mob_status mob_gcs_subscribe(struct mob_gcs *g, uint64_t after_seq,
    const struct mob_gcs_sub_events *events, struct mob_gcs_sub **sub_out)
{
    if (g->shard_count > 0)
        return MOB_INVALID;
    if (g->sub_count == MOB_GCS_SUBS_MAX)
        return MOB_QUEUE_FULL;
    struct mob_gcs_sub *sub = calloc(1, sizeof *sub);
    if (sub == NULL)
        return MOB_NO_MEMORY;
    *sub = (struct mob_gcs_sub){.gcs = g,
        .events = *events,
        .tag = ++g->next_tag,
        .after = after_seq,
        .newest = after_seq == MOB_GCS_NEWEST,
        .epoch = UINT64_MAX};
    g->subs[g->sub_count++] = sub;
    *sub_out = sub;
    return MOB_OK;
}

void mob_gcs_unsubscribe(struct mob_gcs_sub *sub)
{
    if (sub == NULL || sub->closed)
        return;
    struct mob_gcs *g = sub->gcs;
    struct mob_gcs_sub_head head = {.tag = sub->tag};
    if (sub->sent && g->tail->state == LINK_UP)
        out_frame(g->tail, MOB_GCS_UNSUB, g->client, g->position.epoch, &head, sizeof head, NULL, 0, NULL);
    sub->closed = true;
    if (!g->in_step)
        subs_reap(g);
}

void subs_reap(struct mob_gcs *g)
{
    for (uint32_t i = g->sub_count; i-- > 0;)
        if (g->subs[i]->closed) {
            free(g->subs[i]);
            g->subs[i] = g->subs[--g->sub_count];
        }
}

void subs_pump(struct mob_gcs *g)
{
    for (uint32_t i = 0; i < g->sub_count; i++) {
        struct mob_gcs_sub *sub = g->subs[i];
        if (sub->sent || sub->closed || g->collecting || g->now_ns < g->reads_ns)
            continue;
        sub->sent = true;
        struct mob_gcs_sub_head head = {.tag = sub->tag, .after = sub->after};
        out_frame(g->tail, MOB_GCS_SUB, g->client, sub->epoch, &head, sizeof head, NULL, 0, NULL);
    }
}

void subs_leave(struct mob_gcs *g, struct link *tail)
{
    for (uint32_t i = 0; i < g->sub_count; i++) {
        struct mob_gcs_sub *sub = g->subs[i];
        struct mob_gcs_sub_head head = {.tag = sub->tag};
        if (sub->sent && tail->state == LINK_UP)
            out_frame(tail, MOB_GCS_UNSUB, g->client, g->position.epoch, &head, sizeof head, NULL, 0, NULL);
        sub->sent = false;
    }
}

static struct mob_gcs_sub *find_sub(struct mob_gcs *g, uint64_t tag)
{
    for (uint32_t i = 0; i < g->sub_count; i++)
        if (g->subs[i]->tag == tag && !g->subs[i]->closed)
            return g->subs[i];
    return NULL;
}

void subs_frame(struct mob_gcs *g, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_sub_head head;
    if (mob_gcs_sub_head_decode(frame->head, frame->head_bytes, &head) != MOB_OK) {
        link_fail(g->tail, MOB_CORRUPT);
        return;
    }
    struct mob_gcs_sub *sub = find_sub(g, head.tag);
    if (sub == NULL)
        return;
    bool start = sub->newest;
    if (!start && head.after > sub->after) { /* what stands between is lost on its way: again from `after` */
        link_fail(g->tail, MOB_CORRUPT);
        return;
    }
    sub->epoch = frame->epoch;
    if (frame->type == MOB_GCS_RESYNC) {
        if (!start && head.after < sub->after && head.next <= sub->after + 1)
            return; /* doubled on its way, or of an earlier subscription: it says nothing new */
        uint64_t before = sub->after;
        sub->newest = false;
        sub->after = head.next - 1;
        if (!start)
            sub->events.resync(sub->events.arg, before, head.next);
        return;
    }
    struct mob_reader r = mob_reader_of(frame->body, frame->body_bytes);
    struct mob_gcs_block_row row;
    if (mob_gcs_block_row_decode(&r, &row) != MOB_OK) {
        link_fail(g->tail, MOB_CORRUPT);
        return;
    }
    if (row.seq <= sub->after)
        return;
    sub->after = row.seq;
    sub->newest = false;
    sub->events.block(sub->events.arg, &row);
}
