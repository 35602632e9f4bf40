#include "runtime/node/row_writes.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"

/* As long as a control store without room for rows is waited for before blocks leave without them. */
#define ROW_FIRST_PATIENCE_NS (5 * MOB_SEC)

struct row_write *row_write_new(
    struct node *node, enum mob_gcs_table table, const void *key, uint32_t key_length, uint32_t value_length)
{
    struct row_write *w = malloc(sizeof *w + value_length);
    MOB_ASSERT(w && key_length <= sizeof w->key);
    *w = (struct row_write){
        .node = node, .table = table, .key_length = key_length, .value_length = value_length};
    memcpy(w->key, key, key_length);
    return w;
}

struct row_first {
    struct row_first *next;
    struct node *node;
    uint64_t block; /* the first that may say something that needs the row */
    int64_t since_ns;
    bool over; /* it is there, or is refused */
};

int64_t row_writes_patience_end(const struct node *node)
{
    const struct row_first *oldest = node->row_writes.firsts;
    int64_t end = oldest ? oldest->since_ns + ROW_FIRST_PATIENCE_NS : INT64_MAX;
    return end > node->now_ns ? end : INT64_MAX;
}

static void set_gate(struct node *node)
{
    bool waits = row_writes_patience_end(node) != INT64_MAX;
    lineage_log_keep_from(node->log, waits ? node->row_writes.firsts->block : UINT64_MAX);
}

static void drop_oldest(struct row_writes *writes)
{
    struct row_first *oldest = writes->firsts;
    writes->firsts = oldest->next;
    free(oldest);
}

/* Of several shards the answers come in any order. */
static void on_written(void *arg, const struct mob_gcs_answer *answer)
{
    struct row_first *first = arg;
    struct node *node = first->node;
    (void)answer;
    first->over = true;
    while (node->row_writes.firsts && node->row_writes.firsts->over)
        drop_oldest(&node->row_writes);
    set_gate(node);
}

static bool sent(struct node *node, const struct row_write *w)
{
    struct mob_gcs_put put = {.table = w->table,
        .key = w->key,
        .key_length = w->key_length,
        .value = w->value,
        .value_length = w->value_length,
        .if_version = MOB_GCS_ANY_VERSION};
    enum mob_status status = w->remove ? mob_gcs_delete(node->gcs, &put, NULL, NULL)
                                       : mob_gcs_put(node->gcs, &put, w->first ? on_written : NULL, w->first);
    if (status == MOB_OK || status == MOB_QUEUE_FULL)
        return status == MOB_OK;
    MOB_LOG_ERROR("node", "row_not_written", "table=%d status=%s", w->table, mob_status_code(status));
    if (w->first)
        on_written(w->first, NULL);
    return true;
}

static void pop(struct row_writes *writes)
{
    struct row_write *first = writes->first;
    writes->first = first->next;
    free(first);
}

void row_writes_step(struct node *node)
{
    while (node->row_writes.first && sent(node, node->row_writes.first))
        pop(&node->row_writes);
    if (node->row_writes.firsts)
        set_gate(node);
}

void row_write_send(void *write)
{
    struct row_write *w = write;
    struct row_writes *writes = &w->node->row_writes;
    bool alone = !writes->first;
    if (alone)
        writes->end = &writes->first;
    *writes->end = w;
    writes->end = &w->next;
    if (alone)
        row_writes_step(w->node);
}

void row_writes_keep(struct node *node, enum mob_gcs_table table, const void *key, uint32_t key_length)
{
    struct row_writes *writes = &node->row_writes;
    for (struct row_write **at = &writes->first, *w; (w = *at) != NULL;) {
        bool same = w->remove && w->table == table && w->key_length == key_length &&
            memcmp(w->key, key, key_length) == 0;
        if (!same) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        if (*at == NULL)
            writes->end = at;
        free(w);
    }
}

void row_write_send_first(struct row_write *w)
{
    struct node *node = w->node;
    struct row_writes *writes = &node->row_writes;
    struct lineage_log_stats log;
    struct row_first *first = malloc(sizeof *first);
    MOB_ASSERT(first);
    lineage_log_stats(node->log, &log);
    *first = (struct row_first){.node = node, .block = log.blocks, .since_ns = node->now_ns};
    if (!writes->firsts)
        writes->firsts_end = &writes->firsts;
    *writes->firsts_end = first;
    writes->firsts_end = &first->next;
    w->first = first;
    row_write_send(w);
    if (writes->firsts)
        set_gate(node);
}

bool row_writes_waiting(const struct node *node)
{
    return node->row_writes.first != NULL;
}

void row_writes_drop(struct node *node)
{
    while (node->row_writes.first)
        pop(&node->row_writes);
    while (node->row_writes.firsts)
        drop_oldest(&node->row_writes);
}
