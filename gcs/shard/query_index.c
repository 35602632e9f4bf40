/* Where the index has blocks of some groups: for tools that compare it with the blocks. */
#include "gcs/shard/query_inner.h"

#include <stdlib.h>

#define ROWS_MAX 1024u /* in a page, and what the last block has more */

struct ref {
    uint32_t ordinal, key;
};

static int by_ordinal(const void *a, const void *b)
{
    const struct ref *x = a, *y = b;
    return x->ordinal != y->ordinal ? (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal)
                                    : (x->key > y->key) - (x->key < y->key);
}

/* Of each group one more than fill a page. */
static size_t find_refs(const struct query *q, uint32_t keys, struct ref *out)
{
    uint32_t ordinals[ROWS_MAX + 1], after = query_ordinal_before(q);
    size_t count = 0;
    for (uint32_t i = 0; i < keys; i++) {
        struct mob_gcs_group_key key;
        memcpy(&key, q->argument + i * sizeof key, sizeof key);
        size_t n = mob_index_group(q->shard->index, key.stream, key.group, after, ordinals, ROWS_MAX + 1);
        for (size_t k = 0; k < n; k++)
            out[count++] = (struct ref){ordinals[k], i};
    }
    return count;
}

/* A page ends between two blocks, since the next one begins behind one. */
void query_pick_index(struct query *q)
{
    uint32_t keys = q->argument_bytes / (uint32_t)sizeof(struct mob_gcs_group_key);
    q->rows.kind = MOB_GCS_ROWS_INDEX;
    if (q->argument_bytes % sizeof(struct mob_gcs_group_key) != 0 || keys == 0 || keys > MOB_GCS_GROUPS_MAX) {
        q->rows.status = MOB_INVALID;
        return;
    }
    struct ref *refs = malloc(keys * (ROWS_MAX + 1) * sizeof *refs);
    MOB_ASSERT(refs != NULL);
    size_t count = find_refs(q, keys, refs), i = 0;
    if (count > 0)
        qsort(refs, count, sizeof *refs, by_ordinal);
    for (; i < count && (i < ROWS_MAX || refs[i].ordinal == refs[i - 1].ordinal); i++) {
        struct mob_gcs_index_row row = {
            mob_index_slot(q->shard->index, refs[i].ordinal)->seq, refs[i].key, 0};
        query_body_add(q, &row, sizeof row);
        q->rows.next = row.seq;
    }
    q->rows.count = (uint32_t)i;
    if (i == count)
        q->rows.next = 0;
    free(refs);
}
