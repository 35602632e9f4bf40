#include "gcs/flush/flush_marks.h"

#include <stdlib.h>

void marks_clear(struct flush_marks *m)
{
    for (uint32_t i = 0; i < m->count; i++)
        flush_nets_fini(&m->rows[i].nets);
    free(m->rows);
    *m = (struct flush_marks){0};
}

static struct flush_mark *add(struct flush_marks *m, uint64_t upto)
{
    if (m->count == m->capacity) {
        uint32_t capacity = m->capacity == 0 ? 64 : m->capacity * 2;
        struct flush_mark *rows = realloc(m->rows, capacity * sizeof *rows);
        if (rows == NULL)
            return NULL;
        m->rows = rows;
        m->capacity = capacity;
    }
    m->rows[m->count] = (struct flush_mark){.upto = upto};
    return &m->rows[m->count++];
}

enum mob_status marks_begin(struct flush_marks *m, const uint64_t *ends, uint32_t count)
{
    marks_clear(m);
    for (uint32_t i = 0; i < count; i++)
        if (add(m, ends[i]) == NULL)
            return MOB_NO_MEMORY;
    return MOB_OK;
}

void marks_seen(struct flush_marks *m, uint64_t upto)
{
    while (m->ready < m->count && m->rows[m->ready].upto <= upto)
        flush_nets_close(&m->rows[m->ready++].nets);
}

enum mob_status marks_add_block(struct flush_marks *m, const struct mob_gcs_block_row *row)
{
    static _Thread_local struct mob_zone_map zone;
    struct mob_block_header header;
    enum mob_status status = MOB_OK;
    marks_seen(m, row->seq - 1);
    if (m->ready == m->count)
        return MOB_OK; /* behind the last batch; the caller would not have asked */
    struct flush_mark *mark = &m->rows[m->ready];
    mark->bytes += row->length;
    if (mob_block_peek(row->bytes, row->length, &header, &zone) == MOB_OK)
        status = flush_nets_add_block(&mark->nets, &zone);
    marks_seen(m, row->seq);
    return status;
}

enum mob_status marks_add_batch(struct flush_marks *m, struct flush_batch *batch)
{
    marks_seen(m, batch->after);
    struct flush_mark *mark = add(m, batch->upto);
    if (mark == NULL)
        return MOB_NO_MEMORY;
    mark->bytes = batch->used;
    mark->nets = batch->nets;
    batch->nets = (struct flush_nets){0};
    marks_seen(m, batch->upto);
    return MOB_OK;
}

uint32_t marks_ready(const struct flush_marks *m)
{
    return m->ready;
}

uint64_t marks_bytes(const struct flush_marks *m)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->ready; i++)
        bytes += m->rows[i].bytes;
    return bytes;
}

enum mob_status marks_oldest(
    const struct flush_marks *m, uint64_t bytes, struct flush_nets *nets, uint64_t *upto_out)
{
    uint64_t taken = 0, rows = 0;
    enum mob_status status = MOB_OK;
    *upto_out = 0;
    for (uint32_t i = 0; i < m->ready && (i == 0 || taken < bytes) && status == MOB_OK; i++) {
        rows += m->rows[i].nets.count;
        if (rows > MOB_GCS_FLUSH_GROUPS_MAX && i > 0)
            break;
        status = flush_nets_add(nets, &m->rows[i].nets);
        taken += m->rows[i].bytes;
        *upto_out = m->rows[i].upto;
    }
    flush_nets_close(nets);
    return status;
}

void marks_drop(struct flush_marks *m, uint64_t upto)
{
    uint32_t gone = 0;
    while (gone < m->ready && m->rows[gone].upto <= upto)
        flush_nets_fini(&m->rows[gone++].nets);
    m->count -= gone;
    m->ready -= gone;
    memmove(m->rows, m->rows + gone, m->count * sizeof *m->rows);
}
