#include "gcs/flush/recut.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "gcs/flush/recut_inner.h"

#define DAY_NS (86400ll * 1000000000)
#define NONE UINT32_MAX

struct source {
    uint64_t seq;
    const uint8_t *bytes;
    uint32_t length;
    uint32_t class; /* of recut.classes */
    struct mob_block_header header;
};
struct class
{
    int32_t day;
    bool whole; /* kept as it is */
    uint32_t source_count, first_source; /* of recut.by_class */
    uint64_t bytes, failed;
    struct mob_block_header header; /* of its first block */
};
struct made;

struct mob_recut {
    struct source *sources;
    uint32_t source_count, source_capacity;
    struct class *classes;
    uint32_t class_count, class_capacity;
    uint32_t *class_order, *by_class; /* classes in order; sources by class */
    struct recut_sort sort;
    struct mob_bucket_builder *bucket;
    struct mob_block_encoder *encoder;
    struct mob_block_decoder *decoder;
    struct mob_zone_map zone;
    struct mob_entry entry;
    /* The blocks that the class that is being cut becomes, one behind the other. */
    struct made *made;
    uint32_t made_count, made_capacity;
    uint8_t *cut;
    size_t cut_used, cut_capacity;
    struct mob_bucket_origin origins[MOB_BLOCK_ENTRIES_MAX];
    uint8_t payload[MOB_BUCKET_BYTES_MAX];
    /* The bucket that is being filled. */
    uint32_t row_number; /* in the cut */
    int32_t row_day;
    bool row_shared;
    struct mob_job_id row_job;
    const struct mob_recut_events *events;
};

struct mob_recut *mob_recut_create(void)
{
    struct mob_recut *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->bucket = mob_bucket_builder_create();
    r->encoder = mob_block_encoder_create();
    r->decoder = mob_block_decoder_create();
    if (r->bucket == NULL || r->encoder == NULL || r->decoder == NULL) {
        mob_recut_destroy(r);
        return NULL;
    }
    return r;
}

void mob_recut_destroy(struct mob_recut *r)
{
    if (r == NULL)
        return;
    recut_sort_fini(&r->sort);
    mob_bucket_builder_destroy(r->bucket);
    mob_block_encoder_destroy(r->encoder);
    mob_block_decoder_destroy(r->decoder);
    free(r->sources);
    free(r->classes);
    free(r->class_order);
    free(r->by_class);
    free(r->made);
    free(r->cut);
    free(r);
}

void mob_recut_begin(struct mob_recut *r)
{
    r->source_count = r->class_count = r->row_number = 0;
    mob_bucket_begin(r->bucket);
}

/* ---- classes ---- */

int32_t mob_recut_day(int64_t wall_ns)
{
    return (int32_t)(wall_ns >= 0 ? wall_ns / DAY_NS : -((-(wall_ns + 1)) / DAY_NS) - 1);
}

static bool same_class(const struct class *c, const struct mob_block_header *h)
{
    const struct mob_block_header *o = &c->header;
    /* Times are kept as they are: failures are listed by them, here and in the members. */
    bool same_clock =
        (uint64_t)h->wall_ns - (uint64_t)h->mono_ns == (uint64_t)o->wall_ns - (uint64_t)o->mono_ns;
    return same_clock && c->day == mob_recut_day(h->wall_ns) && h->incarnation == o->incarnation &&
        mob_stream_eq(h->job.root, o->job.root) && strcmp(h->ns, o->ns) == 0 &&
        memcmp(&h->cluster, &o->cluster, sizeof h->cluster) == 0;
}

/* Newest first: a node's blocks are mostly of the job that it worked at last. */
static uint32_t find_class(const struct mob_recut *r, const struct mob_block_header *h)
{
    for (uint32_t i = r->class_count; i-- > 0;)
        if (same_class(&r->classes[i], h))
            return i;
    return NONE;
}

static enum mob_status grow(void **array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return MOB_OK;
    uint32_t wanted = *capacity == 0 ? 64 : 2 * *capacity;
    void *grown = realloc(*array, wanted * size);
    if (grown == NULL)
        return MOB_NO_MEMORY;
    *array = grown;
    *capacity = wanted;
    return MOB_OK;
}

enum mob_status mob_recut_add(struct mob_recut *r, uint64_t seq, const uint8_t *block, uint32_t length)
{
    if (r->source_count == MOB_RECUT_BLOCKS_MAX)
        return MOB_QUEUE_FULL;
    enum mob_status status =
        grow((void **)&r->sources, r->source_count, &r->source_capacity, sizeof *r->sources);
    if (status == MOB_OK)
        status = grow((void **)&r->classes, r->class_count, &r->class_capacity, sizeof *r->classes);
    struct source *s = status == MOB_OK ? &r->sources[r->source_count] : NULL;
    if (status == MOB_OK)
        status = mob_block_peek(block, length, &s->header, &r->zone);
    if (status != MOB_OK)
        return status;
    s->seq = seq;
    s->bytes = block;
    s->length = length;
    s->class = find_class(r, &s->header);
    if (s->class == NONE) {
        s->class = r->class_count++;
        r->classes[s->class] = (struct class){.day = mob_recut_day(s->header.wall_ns), .header = s->header};
    }
    struct class *c = &r->classes[s->class];
    c->source_count++;
    c->bytes += length;
    c->failed += r->zone.failed;
    c->whole |= length >= MOB_RECUT_WHOLE_BYTES;
    r->source_count++;
    return MOB_OK;
}

/* By day and job, so that what shares rows is together; then as they came. */
static int by_day_and_job(const void *a, const void *b, void *classes)
{
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct class *x = (const struct class *)classes + i, *y = (const struct class *)classes + k;
    if (x->day != y->day)
        return x->day < y->day ? -1 : 1;
    int order = memcmp(&x->header.job, &y->header.job, sizeof x->header.job);
    return order != 0 ? order : (i > k) - (i < k);
}

/* class_order and by_class. */
static enum mob_status order_classes(struct mob_recut *r)
{
    uint32_t *order = realloc(r->class_order, (r->class_count + 1u) * sizeof *order);
    if (order != NULL)
        r->class_order = order;
    uint32_t *by_class = realloc(r->by_class, (r->source_count + 1u) * sizeof *by_class);
    if (by_class != NULL)
        r->by_class = by_class;
    if (order == NULL || by_class == NULL)
        return MOB_NO_MEMORY;
    uint32_t first = 0;
    for (uint32_t i = 0; i < r->class_count; i++) {
        order[i] = i;
        r->classes[i].first_source = first;
        first += r->classes[i].source_count;
        r->classes[i].source_count = 0;
    }
    for (uint32_t i = 0; i < r->source_count; i++) {
        struct class *c = &r->classes[r->sources[i].class];
        by_class[c->first_source + c->source_count++] = i;
    }
    if (r->class_count > 0)
        qsort_r(order, r->class_count, sizeof *order, by_day_and_job, r->classes);
    return MOB_OK;
}

/* ---- rows ---- */

static enum mob_status end_row(struct mob_recut *r)
{
    if (mob_bucket_blocks(r->bucket) == 0)
        return MOB_OK;
    struct mob_recut_row row = {
        .payload = r->payload, .day = r->row_day, .shared = r->row_shared, .job = r->row_job};
    row.payload_bytes = mob_bucket_end(r->bucket, r->payload, &row.summary);
    if (row.shared)
        row.job = (struct mob_job_id){0};
    enum mob_status status = r->events->row(r->events->arg, &row);
    mob_bucket_begin(r->bucket);
    r->row_number++;
    return status;
}

static enum mob_status add_to_row(struct mob_recut *r, const struct class *c, uint64_t seq,
    const uint8_t *block, uint32_t length, const struct mob_bucket_origin *origins)
{
    enum mob_status status = MOB_OK;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (mob_bucket_blocks(r->bucket) == 0) {
            r->row_day = c->day;
            r->row_job = c->header.job;
            r->row_shared = false;
        }
        status = mob_bucket_add(r->bucket, seq, block, length, origins);
        if (status == MOB_OK)
            r->row_shared |= !mob_stream_eq(r->row_job.root, c->header.job.root);
        if (status != MOB_QUEUE_FULL)
            return status;
        status = end_row(r);
        if (status != MOB_OK)
            return status;
    }
    return MOB_TOO_LARGE; /* of no block: an empty bucket takes any */
}

/* ---- what is told of each task and stream ---- */

static enum mob_status tell_failure(struct mob_recut *r, const struct class *c,
    const struct mob_completion_head *h, const struct mob_function_id *function, uint64_t seq)
{
    if ((h->flags & MOB_COMPLETION_FINAL) == 0 || h->status == MOB_OK)
        return MOB_OK;
    int64_t to_wall = (int64_t)((uint64_t)c->header.wall_ns - (uint64_t)c->header.mono_ns);
    struct mob_recut_failure failure = {.row = r->row_number,
        .day = c->day,
        .job = c->header.job,
        .task = h->task,
        .has_function = function != NULL,
        .status = h->status,
        .finished_wall_ns =
            h->finished_ns == 0 ? c->header.wall_ns : (int64_t)((uint64_t)h->finished_ns + (uint64_t)to_wall),
        .seq = seq};
    if (function != NULL)
        failure.function = *function;
    return r->events->failure(r->events->arg, &failure);
}

static enum mob_status tell_streams(struct mob_recut *r, const struct class *c)
{
    const struct mob_stream none = {{0}};
    const struct recut_sort *s = &r->sort;
    for (uint32_t i = 0; i < s->group_count; i++) {
        const struct mob_stream stream = s->groups[s->order[i]].stream;
        bool again = i > 0 && mob_stream_eq(stream, s->groups[s->order[i - 1]].stream);
        if (again || mob_stream_eq(stream, none))
            continue;
        enum mob_status status = r->events->stream(r->events->arg, c->day, stream);
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

/* ---- a class that is kept as it is ---- */

static enum mob_status tell_of_whole(struct mob_recut *r, const struct class *c, const struct source *source)
{
    struct mob_block_header header;
    enum mob_status status = mob_block_open(r->decoder, source->bytes, source->length, &header, &r->zone);
    for (uint32_t i = 0; status == MOB_OK && i < r->zone.group_count; i++)
        if (i == 0 || !mob_stream_eq(r->zone.groups[i].stream, r->zone.groups[i - 1].stream))
            status = r->events->stream(r->events->arg, c->day, r->zone.groups[i].stream);
    while (status == MOB_OK && (status = mob_block_next(r->decoder, &r->entry)) == MOB_OK)
        if (r->entry.type == MOB_ENTRY_COMPLETION)
            status = tell_failure(r, c, &r->entry.completion.head, NULL, source->seq);
    return status == MOB_CLOSED ? MOB_OK : status;
}

static enum mob_status keep_whole(struct mob_recut *r, const struct class *c)
{
    for (uint32_t i = 0; i < c->source_count; i++) {
        const struct source *source = &r->sources[r->by_class[c->first_source + i]];
        enum mob_status status = add_to_row(r, c, source->seq, source->bytes, source->length, NULL);
        if (status == MOB_OK)
            status = tell_of_whole(r, c, source);
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

/* ---- a class that is sorted ---- */

/* The blocks of a class, made before any of them is given away. */
struct made {
    uint32_t length, entries;
    size_t at, origins_at;
};

/* The n-th block takes over what the n-th of the class was. MOB_TOO_LARGE: there are more than there were,
 * which takes entries that cost several times as much in this order as in the old. */
static enum mob_status begin_block(struct mob_recut *r, const struct class *c)
{
    if (r->made_count == c->source_count)
        return MOB_TOO_LARGE;
    mob_block_begin(r->encoder, &r->sources[r->by_class[c->first_source + r->made_count]].header);
    return MOB_OK;
}

static enum mob_status end_block(struct mob_recut *r, size_t items_before)
{
    enum mob_status status = grow((void **)&r->made, r->made_count, &r->made_capacity, sizeof *r->made);
    uint32_t entries = mob_block_entries(r->encoder);
    if (status != MOB_OK || entries == 0)
        return status;
    if (r->cut_used + MOB_BLOCK_BYTES_MAX > r->cut_capacity) {
        size_t capacity = r->cut_capacity == 0 ? 4u << 20 : 2 * r->cut_capacity;
        uint8_t *cut = realloc(r->cut, capacity);
        if (cut == NULL)
            return MOB_NO_MEMORY;
        r->cut = cut;
        r->cut_capacity = capacity;
    }
    uint32_t length = mob_block_end(r->encoder, r->cut + r->cut_used);
    r->made[r->made_count++] = (struct made){length, entries, r->cut_used, items_before - entries};
    r->cut_used += length;
    return MOB_OK;
}

static enum mob_status encode_class(struct mob_recut *r, const struct class *c)
{
    const struct recut_sort *s = &r->sort;
    r->made_count = 0;
    r->cut_used = 0;
    enum mob_status status = s->item_count > 0 ? begin_block(r, c) : MOB_OK;
    for (size_t i = 0; i < s->item_count && status == MOB_OK; i++) {
        bool full = mob_block_entries(r->encoder) == MOB_BLOCK_ENTRIES_MAX;
        status = full ? MOB_QUEUE_FULL : recut_sort_encode(s, &s->items[i], r->encoder);
        if (status != MOB_QUEUE_FULL)
            continue;
        status = end_block(r, i);
        if (status == MOB_OK)
            status = begin_block(r, c);
        if (status == MOB_OK)
            status = recut_sort_encode(s, &s->items[i], r->encoder);
    }
    return status == MOB_OK && s->item_count > 0 ? end_block(r, s->item_count) : status;
}

/* Of the block that was just given. A task's spec stands before its completion, perhaps in the block before:
 * *spec is the last one. */
static enum mob_status tell_failures(
    struct mob_recut *r, const struct class *c, const struct made *m, const struct mob_spec_head **spec)
{
    const struct recut_sort *s = &r->sort;
    enum mob_status status = MOB_OK;
    for (uint32_t k = 0; k < m->entries && status == MOB_OK; k++) {
        const struct recut_item *item = &s->items[m->origins_at + k];
        if (item->type == MOB_ENTRY_SPEC)
            *spec = recut_item_spec(s, item);
        if (item->type != MOB_ENTRY_COMPLETION)
            continue;
        const struct mob_completion_head *head = recut_item_completion(s, item);
        bool known = *spec != NULL && mob_task_id_eq(head->task, (*spec)->task);
        status = tell_failure(r, c, head, known ? &(*spec)->function : NULL, r->sources[item->source].seq);
    }
    return status;
}

static enum mob_status give_class(struct mob_recut *r, const struct class *c)
{
    const struct mob_spec_head *spec = NULL;
    enum mob_status status = MOB_OK;
    for (uint32_t i = 0; i < r->made_count && status == MOB_OK; i++) {
        const struct made *m = &r->made[i];
        for (uint32_t k = 0; k < m->entries; k++) {
            const struct recut_item *item = &r->sort.items[m->origins_at + k];
            r->origins[k] = (struct mob_bucket_origin){r->sources[item->source].seq, item->ordinal};
        }
        uint64_t seq = r->sources[r->by_class[c->first_source + i]].seq;
        status = add_to_row(r, c, seq, r->cut + m->at, m->length, r->origins);
        if (status == MOB_OK && c->failed > 0)
            status = tell_failures(r, c, m, &spec);
    }
    return status;
}

static enum mob_status sort_class(struct mob_recut *r, const struct class *c)
{
    recut_sort_begin(&r->sort);
    enum mob_status status = MOB_OK;
    for (uint32_t i = 0; i < c->source_count && status == MOB_OK; i++) {
        uint32_t number = r->by_class[c->first_source + i];
        const struct source *source = &r->sources[number];
        status = recut_sort_add(&r->sort, r->decoder, number, source->bytes, source->length);
    }
    return status == MOB_OK ? recut_sort_items(&r->sort) : status;
}

static enum mob_status cut_class(struct mob_recut *r, const struct class *c)
{
    enum mob_status status = sort_class(r, c);
    if (status == MOB_OK)
        status = encode_class(r, c);
    if (status == MOB_TOO_LARGE)
        return keep_whole(r, c);
    if (status == MOB_OK)
        status = tell_streams(r, c);
    return status == MOB_OK ? give_class(r, c) : status;
}

/* ---- all of it ---- */

/* Bytes of the job on the day of the class at `at` in the order; *next_out = behind its classes. */
static uint64_t job_bytes(const struct mob_recut *r, uint32_t at, uint32_t *next_out)
{
    const struct class *first = &r->classes[r->class_order[at]];
    uint64_t bytes = 0;
    for (; at < r->class_count; at++) {
        const struct class *c = &r->classes[r->class_order[at]];
        if (c->day != first->day || !mob_stream_eq(c->header.job.root, first->header.job.root))
            break;
        bytes += c->bytes;
    }
    *next_out = at;
    return bytes;
}

static enum mob_status cut_job(struct mob_recut *r, uint32_t from, uint32_t to)
{
    enum mob_status status = MOB_OK;
    for (uint32_t at = from; at < to && status == MOB_OK; at++) {
        const struct class *c = &r->classes[r->class_order[at]];
        status = c->whole ? keep_whole(r, c) : cut_class(r, c);
    }
    return status;
}

enum mob_status mob_recut_finish(struct mob_recut *r, const struct mob_recut_events *events)
{
    r->events = events;
    enum mob_status status = order_classes(r);
    for (uint32_t at = 0, next; at < r->class_count && status == MOB_OK; at = next) {
        bool own = job_bytes(r, at, &next) >= MOB_RECUT_OWN_BYTES;
        bool other_day = mob_bucket_blocks(r->bucket) > 0 && r->row_day != r->classes[r->class_order[at]].day;
        if (own || other_day)
            status = end_row(r);
        if (status == MOB_OK)
            status = cut_job(r, at, next);
        if (own && status == MOB_OK)
            status = end_row(r);
    }
    return status == MOB_OK ? end_row(r) : status;
}

enum mob_status mob_recut_function(struct mob_recut *r, struct mob_task_id task, struct mob_function_id *out)
{
    struct mob_block_header header;
    for (uint32_t i = 0; i < r->source_count; i++) {
        enum mob_status status =
            mob_block_open(r->decoder, r->sources[i].bytes, r->sources[i].length, &header, &r->zone);
        bool here = false;
        for (uint32_t g = 0; status == MOB_OK && g < r->zone.group_count && !here; g++)
            here = r->zone.groups[g].specs > 0 && r->zone.groups[g].group == task.index >> MOB_GROUP_SHIFT &&
                mob_stream_eq(r->zone.groups[g].stream, task.stream);
        while (here && status == MOB_OK && (status = mob_block_next(r->decoder, &r->entry)) == MOB_OK) {
            if (r->entry.type != MOB_ENTRY_SPEC || !mob_task_id_eq(r->entry.spec.head.task, task))
                continue;
            *out = r->entry.spec.head.function;
            return MOB_OK;
        }
    }
    return MOB_NOT_FOUND;
}
