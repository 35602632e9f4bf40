#include "gcs/flush/cold_page.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

struct cold_page *cold_page_create(void)
{
    struct cold_page *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->reader = mob_bucket_reader_create();
    p->decoder = mob_block_decoder_create();
    p->encoder = mob_block_encoder_create();
    if (p->reader == NULL || p->decoder == NULL || p->encoder == NULL) {
        cold_page_destroy(p);
        return NULL;
    }
    return p;
}

void cold_page_destroy(struct cold_page *p)
{
    if (p == NULL)
        return;
    mob_bucket_reader_destroy(p->reader);
    mob_block_decoder_destroy(p->decoder);
    mob_block_encoder_destroy(p->encoder);
    free(p->bytes);
    free(p);
}

void cold_page_begin(struct cold_page *p)
{
    p->count = 0;
    p->used = 0;
}

bool cold_page_full(const struct cold_page *p, uint32_t limit)
{
    uint32_t most = limit == 0 || limit > MOB_GCS_ROWS_MAX ? MOB_GCS_ROWS_MAX : limit;
    return p->count >= most || p->used >= COLD_PAGE_BYTES;
}

void cold_page_end(struct cold_page *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        p->rows[i].bytes = p->bytes + p->offsets[i];
}

/* ---- whether a block has any of it ---- */

static bool zone_has_group(const struct mob_zone_map *z, struct mob_stream stream, uint32_t group)
{
    for (uint32_t i = 0; i < z->group_count; i++)
        if (z->groups[i].group == group && mob_stream_eq(z->groups[i].stream, stream))
            return true;
    return false;
}

int cold_by_group(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct mob_gcs_group_key));
}

static bool zone_has_any_group(const struct mob_zone_map *z, const struct cold_wanted *w)
{
    for (uint32_t i = 0; i < z->group_count && w->group_count > 0; i++) {
        struct mob_gcs_group_key key = {z->groups[i].stream, z->groups[i].group};
        if (bsearch(&key, w->groups, w->group_count, sizeof key, cold_by_group) != NULL)
            return true;
    }
    return w->group_count == 0;
}

static bool zone_has_function(const struct mob_zone_map *z, struct mob_function_id function)
{
    if (z->function_count > MOB_ZONE_FUNCTIONS_MAX)
        return true;
    for (uint32_t i = 0; i < z->function_count; i++)
        if (memcmp(&z->functions[i], &function, sizeof function) == 0)
            return true;
    return false;
}

static bool zone_in_time(
    const struct mob_zone_map *z, const struct mob_block_header *h, const struct cold_wanted *w)
{
    if (w->from_wall_ns == 0 && w->to_wall_ns == 0)
        return true;
    uint64_t to_wall = (uint64_t)h->wall_ns - (uint64_t)h->mono_ns;
    bool timed = z->specs + z->finals > 0;
    int64_t first = timed ? (int64_t)((uint64_t)z->time_min_ns + to_wall) : h->wall_ns,
            last = timed ? (int64_t)((uint64_t)z->time_max_ns + to_wall) : h->wall_ns;
    return last >= w->from_wall_ns && first < w->to_wall_ns;
}

static bool zone_has_task(const struct mob_zone_map *z, const struct cold_wanted *w)
{
    for (uint32_t i = 0; i < w->task_count; i++)
        if (zone_has_group(z, w->tasks[i].id.stream, w->tasks[i].id.index >> MOB_GROUP_SHIFT))
            return true;
    return w->task_count == 0;
}

static bool block_wanted(
    const struct mob_zone_map *z, const struct mob_block_header *h, const struct cold_wanted *w)
{
    return !(w->by_group && !zone_has_group(z, w->stream, w->group)) && zone_has_any_group(z, w) &&
        zone_has_task(z, w) && !(w->by_job && !mob_stream_eq(h->job.root, w->job.root)) &&
        !(w->by_function && !zone_has_function(z, w->function)) && !(w->failed && z->failed == 0) &&
        zone_in_time(z, h, w) && !(w->gone != NULL && w->gone(w->gone_arg, h->job));
}

/* ---- taking a block, or some of its entries ---- */

enum mob_status cold_page_put(struct cold_page *p, uint64_t seq, const struct mob_block_header *h,
    const uint8_t *bytes, uint32_t length)
{
    if (p->count == MOB_GCS_ROWS_MAX || p->used + length > COLD_PAGE_BYTES_MAX)
        return MOB_QUEUE_FULL;
    if (p->used + length > p->capacity) {
        size_t capacity = p->capacity == 0 ? 256u << 10 : p->capacity;
        while (capacity < p->used + length)
            capacity *= 2;
        uint8_t *grown = realloc(p->bytes, capacity);
        if (grown == NULL)
            return MOB_NO_MEMORY;
        p->bytes = grown;
        p->capacity = capacity;
    }
    memcpy(p->bytes + p->used, bytes, length);
    p->offsets[p->count] = p->used;
    p->times_ns[p->count] = p->time_ns;
    p->rows[p->count++] = (struct mob_gcs_block_row){
        .seq = seq, .incarnation = h->incarnation, .number = h->sequence, .length = length, .recut = 1};
    p->used += length;
    return MOB_OK;
}

/* The task that an entry says something of; of an edge the call, not the actor whose group it is in. */
static struct mob_task_id task_of(const struct mob_entry *e)
{
    switch (e->type) {
    case MOB_ENTRY_SPEC:
        return e->spec.head.task;
    case MOB_ENTRY_COMPLETION:
        return e->completion.head.task;
    case MOB_ENTRY_PUT:
        return e->put.id.task;
    case MOB_ENTRY_YIELD:
        return e->yield.task;
    case MOB_ENTRY_OUTCOME:
        return e->outcome.task;
    case MOB_ENTRY_EVENT:
        return e->event.task;
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
        return e->edge.task;
    case MOB_ENTRY_ACTOR:
        return e->actor.actor.creation;
    case MOB_ENTRY_HASH:
        return e->hash.id.task;
    case MOB_ENTRY_CANCEL:
        return e->cancel.task;
    case MOB_ENTRY_JOB:
    default:
        return (struct mob_task_id){0};
    }
}

static enum mob_status encode_other(struct mob_block_encoder *to, const struct mob_entry *e)
{
    const void *fixed = NULL;
    uint32_t bytes = 0;
#define FIXED(member) \
    fixed = &e->member; \
    bytes = sizeof e->member; \
    break
    switch (e->type) {
    case MOB_ENTRY_OUTCOME:
        FIXED(outcome);
    case MOB_ENTRY_EVENT:
        FIXED(event);
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
        FIXED(edge);
    case MOB_ENTRY_ACTOR:
        FIXED(actor);
    case MOB_ENTRY_HASH:
        FIXED(hash);
    case MOB_ENTRY_CANCEL:
        FIXED(cancel);
    case MOB_ENTRY_SPEC:
    case MOB_ENTRY_COMPLETION:
    case MOB_ENTRY_PUT:
    case MOB_ENTRY_YIELD:
    case MOB_ENTRY_JOB:
    default:
        break;
    }
#undef FIXED
    return mob_block_add_other(to, e->type, fixed, bytes, e->payload, e->payload_bytes);
}

enum mob_status cold_page_encode(struct mob_block_encoder *to, const struct mob_entry *e)
{
    static _Thread_local uint8_t item[MOB_RECORD_MAX];
    if (e->type == MOB_ENTRY_SPEC)
        return mob_block_add_spec(to, &e->spec.head, e->spec.tail, e->spec.tail_bytes, e->submitted_ns);
    if (e->type == MOB_ENTRY_COMPLETION)
        return mob_block_add_completion(to, &e->completion.head, e->completion.body);
    if (e->type == MOB_ENTRY_PUT)
        return mob_block_add_put(to, &e->put, e->payload);
    if (e->type == MOB_ENTRY_YIELD)
        return mob_block_add_other(
            to, e->type, &e->yield, sizeof e->yield, item, mob_return_encode(item, 0, sizeof item, &e->ret));
    return encode_other(to, e);
}

static bool origin_wanted(const struct mob_bucket_origin *origin, const struct cold_wanted *w)
{
    bool cut = w->cut_entries != 0 && origin->seq == w->cut_seq && origin->ordinal >= w->cut_entries;
    return origin->seq > w->above && origin->seq <= w->upto && !cut;
}

/* NULL: it is not among them. */
static struct cold_task *wanted_task(const struct cold_wanted *w, struct mob_task_id id)
{
    for (uint32_t i = 0; i < w->task_count; i++)
        if (mob_task_id_eq(w->tasks[i].id, id))
            return &w->tasks[i];
    return NULL;
}

/* Only some of the entries: in a block of their own, at the newest of their positions. */
static enum mob_status put_some(struct cold_page *p, const struct mob_bucket_block *b,
    const struct mob_bucket_origin *origins, const struct cold_wanted *w)
{
    struct mob_block_header h;
    uint64_t newest = 0;
    enum mob_status status = mob_block_open(p->decoder, b->bytes, b->length, &h, &p->zone);
    mob_block_begin(p->encoder, &h);
    for (uint32_t i = 0; status == MOB_OK; i++) {
        status = mob_block_next(p->decoder, &p->entry);
        bool in_range = status == MOB_OK && origin_wanted(&origins[i], w);
        struct cold_task *task = in_range && w->task_count > 0 ? wanted_task(w, task_of(&p->entry)) : NULL;
        bool other = w->specs_only && p->entry.type != MOB_ENTRY_SPEC;
        if (!in_range || other || (w->task_count > 0 && task == NULL))
            continue;
        status = cold_page_encode(p->encoder, &p->entry);
        if (task != NULL && p->entry.type == MOB_ENTRY_SPEC)
            task->has_spec = true;
        newest = origins[i].seq > newest ? origins[i].seq : newest;
    }
    if (status != MOB_CLOSED)
        return status == MOB_QUEUE_FULL ? MOB_CORRUPT : status; /* fewer than there were always fit */
    if (mob_block_entries(p->encoder) == 0)
        return MOB_OK;
    return cold_page_put(p, newest, &h, p->block, mob_block_end(p->encoder, p->block));
}

static enum mob_status put_wanted(
    struct cold_page *p, const struct mob_bucket_block *b, const struct cold_wanted *w)
{
    struct mob_block_header h;
    struct mob_bucket_origin origins[MOB_BLOCK_ENTRIES_MAX];
    enum mob_status status = mob_block_peek(b->bytes, b->length, &h, &p->zone);
    if (status != MOB_OK)
        return status;
    if (!block_wanted(&p->zone, &h, w))
        return MOB_OK;
    /* Blocks say what times they like: the sum may wrap, and is then as good as any. */
    p->time_ns = p->zone.time_max_ns == 0
        ? h.wall_ns
        : (int64_t)((uint64_t)p->zone.time_max_ns + (uint64_t)h.wall_ns - (uint64_t)h.mono_ns);
    status = mob_bucket_origins(b, origins, h.entry_count);
    if (status != MOB_OK)
        return status;
    uint32_t inside = 0;
    for (uint32_t i = 0; i < h.entry_count; i++)
        inside += origin_wanted(&origins[i], w);
    if (inside == 0)
        return MOB_OK;
    if (inside < h.entry_count || w->task_count > 0)
        return put_some(p, b, origins, w);
    return cold_page_put(p, b->seq, &h, b->bytes, b->length);
}

static void swap_rows(struct cold_page *p, uint32_t a, uint32_t b)
{
    struct mob_gcs_block_row row = p->rows[a];
    size_t offset = p->offsets[a];
    int64_t time_ns = p->times_ns[a];
    p->rows[a] = p->rows[b];
    p->offsets[a] = p->offsets[b];
    p->times_ns[a] = p->times_ns[b];
    p->rows[b] = row;
    p->offsets[b] = offset;
    p->times_ns[b] = time_ns;
}

/* Of one bucket, whose blocks do not change: so this order does not, either. They lie class by class, each
 * mostly from the oldest to the newest: turned round there is little left to do. */
static void newest_first(struct cold_page *p, uint32_t first)
{
    for (uint32_t low = first, high = p->count; low + 1 < high; low++)
        swap_rows(p, low, --high);
    for (uint32_t i = first + 1; i < p->count; i++)
        for (uint32_t k = i; k > first && p->times_ns[k - 1] < p->times_ns[k]; k--)
            swap_rows(p, k - 1, k);
}

enum mob_status cold_page_add(
    struct cold_page *p, const uint8_t *payload, size_t length, const struct cold_wanted *wanted)
{
    uint32_t blocks, count_before = p->count;
    size_t used_before = p->used;
    struct mob_bucket_block b;
    enum mob_status status = mob_bucket_open(p->reader, payload, length, &blocks);
    while (status == MOB_OK && mob_bucket_next(p->reader, &b))
        status = put_wanted(p, &b, wanted);
    if (status != MOB_OK) {
        p->count = count_before;
        p->used = used_before;
    } else if (wanted->down) {
        newest_first(p, count_before);
    }
    return status;
}
