#include "runtime/node/row_writes.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

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

static bool sent(struct node *node, const struct row_write *w)
{
    struct mob_gcs_put put = {.table = w->table,
        .key = w->key,
        .key_length = w->key_length,
        .value = w->value,
        .value_length = w->value_length,
        .if_version = MOB_GCS_ANY_VERSION};
    enum mob_status status =
        w->remove ? mob_gcs_delete(node->gcs, &put, NULL, NULL) : mob_gcs_put(node->gcs, &put, NULL, NULL);
    if (status != MOB_OK && status != MOB_QUEUE_FULL)
        MOB_LOG_ERROR("node", "row_not_written", "table=%d status=%s", w->table, mob_status_code(status));
    return status != MOB_QUEUE_FULL;
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

bool row_writes_waiting(const struct node *node)
{
    return node->row_writes.first != NULL;
}

void row_writes_drop(struct node *node)
{
    while (node->row_writes.first)
        pop(&node->row_writes);
}
