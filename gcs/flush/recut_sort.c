/* The entries of one class: decoded into memory, sorted by task, encoded again. */
#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/log.h"
#include "gcs/flush/recut_inner.h"

/* What the arena holds of an item; the parts follow each other, each padded to 8. */
struct stored_spec {
    int64_t submitted_ns;
    struct mob_spec_head head;
    uint64_t tail_bytes;
};
struct stored_completion {
    struct mob_completion_head head;
};
struct stored_other {
    uint16_t fixed_bytes, has_payload; /* a put without one is not inline */
    uint32_t payload_bytes;
};

void recut_sort_fini(struct recut_sort *s)
{
    free(s->items);
    free(s->other);
    free(s->groups);
    free(s->slots);
    free(s->order);
    free(s->starts);
    free(s->arena);
    *s = (struct recut_sort){.items = NULL};
}

void recut_sort_begin(struct recut_sort *s)
{
    s->item_count = s->group_count = s->arena_used = 0;
    s->last_group = 0;
    if (s->slots != NULL)
        memset(s->slots, 0, s->slot_capacity * sizeof *s->slots);
}

/* ---- the arena ---- */

/* The next `bytes`, 8-aligned; NULL when out of memory. Moves what was there. */
static uint8_t *arena_take(struct recut_sort *s, size_t bytes)
{
    bytes = (size_t)mob_round_up(bytes, 8);
    if (s->arena_used + bytes > s->arena_capacity) {
        size_t capacity = s->arena_capacity == 0 ? 1u << 20 : 2 * s->arena_capacity;
        while (capacity < s->arena_used + bytes)
            capacity *= 2;
        uint8_t *arena = realloc(s->arena, capacity);
        if (arena == NULL)
            return NULL;
        s->arena = arena;
        s->arena_capacity = capacity;
    }
    uint8_t *at = s->arena + s->arena_used;
    s->arena_used += bytes;
    return at;
}

static const uint8_t *at_item(const struct recut_sort *s, const struct recut_item *item)
{
    return s->arena + 8 * (size_t)item->at;
}

const struct mob_spec_head *recut_item_spec(const struct recut_sort *s, const struct recut_item *item)
{
    MOB_ASSERT(item->type == MOB_ENTRY_SPEC);
    return &((const struct stored_spec *)at_item(s, item))->head;
}

const struct mob_completion_head *recut_item_completion(
    const struct recut_sort *s, const struct recut_item *item)
{
    MOB_ASSERT(item->type == MOB_ENTRY_COMPLETION);
    return &((const struct stored_completion *)at_item(s, item))->head;
}

static bool store_spec(struct recut_sort *s, const struct mob_entry *e)
{
    uint8_t *at = arena_take(s, sizeof(struct stored_spec) + e->spec.tail_bytes);
    if (at == NULL)
        return false;
    struct stored_spec *stored = (struct stored_spec *)at;
    stored->submitted_ns = e->submitted_ns;
    stored->head = e->spec.head;
    stored->tail_bytes = e->spec.tail_bytes;
    memcpy(stored + 1, e->spec.tail, e->spec.tail_bytes);
    return true;
}

static bool store_completion(struct recut_sort *s, const struct mob_entry *e)
{
    uint8_t *at = arena_take(s, sizeof(struct stored_completion) + e->completion.head.body_bytes);
    if (at == NULL)
        return false;
    struct stored_completion *stored = (struct stored_completion *)at;
    stored->head = e->completion.head;
    if (e->completion.head.body_bytes > 0)
        memcpy(stored + 1, e->completion.body, e->completion.head.body_bytes);
    return true;
}

/* The fixed struct of each type but specs and completions, and the task that such an entry belongs to: as
 * the zone map has it, so an edge belongs to the group of its actor's. */
static const void *fixed_of(const struct mob_entry *e, uint32_t *bytes_out, struct mob_task_id *task_out)
{
#define FIXED(member, id) \
    *bytes_out = sizeof e->member; \
    *task_out = e->member.id; \
    return &e->member
    switch (e->type) {
    case MOB_ENTRY_PUT:
        FIXED(put, id.task); /* unless it has a group of its own: in_group */
    case MOB_ENTRY_YIELD:
        FIXED(yield, task);
    case MOB_ENTRY_OUTCOME:
        FIXED(outcome, task);
    case MOB_ENTRY_EVENT:
        FIXED(event, task);
    case MOB_ENTRY_EDGE:
    case MOB_ENTRY_SKIP:
        *bytes_out = sizeof e->edge;
        *task_out = mob_edge_group(e->edge.actor);
        return &e->edge;
    case MOB_ENTRY_ACTOR:
        FIXED(actor, actor.creation);
    case MOB_ENTRY_HASH:
        FIXED(hash, id.task);
    case MOB_ENTRY_CANCEL:
        FIXED(cancel, task);
    case MOB_ENTRY_SPEC:
    case MOB_ENTRY_COMPLETION:
    case MOB_ENTRY_JOB:
    default:
        *bytes_out = 0;
        *task_out = (struct mob_task_id){0};
        return NULL;
    }
#undef FIXED
}

/* mob_put_group, with the stream of the last putter kept. */
static struct mob_task_id in_group(struct recut_sort *s, struct mob_object_id id)
{
    if (!mob_put_has_group(id))
        return id.task;
    if (!mob_task_id_eq(s->putter, id.task)) {
        s->putter = id.task;
        s->puts = mob_stream_of_puts(id.task);
    }
    return (struct mob_task_id){s->puts, id.slot & ~MOB_SLOT_PUT};
}

static bool store_other(struct recut_sort *s, const struct mob_entry *e, struct mob_task_id *task_out)
{
    uint32_t fixed_bytes, payload_bytes = e->payload_bytes;
    const void *fixed = fixed_of(e, &fixed_bytes, task_out);
    bool is_yield = e->type == MOB_ENTRY_YIELD;
    size_t padded = (size_t)mob_round_up(fixed_bytes, 8);
    uint8_t *at =
        arena_take(s, sizeof(struct stored_other) + padded + (is_yield ? MOB_RECORD_MAX : payload_bytes));
    if (at == NULL)
        return false;
    uint8_t *payload = at + sizeof(struct stored_other) + padded;
    if (is_yield) { /* its item as the encoder wants it; what is not needed of the room goes back */
        payload_bytes = mob_return_encode(payload, 0, MOB_RECORD_MAX, &e->ret);
        MOB_ASSERT(payload_bytes > 0); /* the decoder has done the same */
        s->arena_used = (size_t)(payload - s->arena) + (size_t)mob_round_up(payload_bytes, 8);
    } else if (payload_bytes > 0) {
        memcpy(payload, e->payload, payload_bytes);
    }
    *(struct stored_other *)at =
        (struct stored_other){(uint16_t)fixed_bytes, e->payload != NULL, payload_bytes};
    if (fixed_bytes > 0)
        memcpy(at + sizeof(struct stored_other), fixed, fixed_bytes);
    return true;
}

/* ---- groups ---- */

static size_t group_slot(const struct recut_sort *s, struct mob_stream stream, uint32_t group)
{
    size_t mask = s->slot_capacity - 1,
           i = (size_t)mob_task_id_mix((struct mob_task_id){stream, group}) & mask;
    while (s->slots[i] != 0) {
        const struct recut_group *g = &s->groups[s->slots[i] - 1];
        if (g->group == group && mob_stream_eq(g->stream, stream))
            break;
        i = (i + 1) & mask;
    }
    return i;
}

static bool groups_grow(struct recut_sort *s)
{
    if (s->group_count == s->group_capacity) {
        size_t capacity = s->group_capacity == 0 ? 1024 : 2 * s->group_capacity;
        struct recut_group *groups = realloc(s->groups, capacity * sizeof *groups);
        if (groups == NULL)
            return false;
        s->groups = groups;
        s->group_capacity = capacity;
    }
    if (2 * (s->group_count + 1) <= s->slot_capacity)
        return true;
    size_t capacity = s->slot_capacity == 0 ? 4096 : 2 * s->slot_capacity;
    uint32_t *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    free(s->slots);
    s->slots = slots;
    s->slot_capacity = capacity;
    for (uint32_t i = 0; i < s->group_count; i++)
        s->slots[group_slot(s, s->groups[i].stream, s->groups[i].group)] = i + 1;
    return true;
}

static bool find_group(struct recut_sort *s, struct mob_task_id task, uint32_t *group_out)
{
    uint32_t number = task.index >> MOB_GROUP_SHIFT;
    if (s->group_count > 0 && s->groups[s->last_group].group == number &&
        mob_stream_eq(s->groups[s->last_group].stream, task.stream)) {
        *group_out = s->last_group;
        return true;
    }
    if (!groups_grow(s))
        return false;
    size_t slot = group_slot(s, task.stream, number);
    if (s->slots[slot] == 0) {
        struct recut_group *g = &s->groups[s->group_count];
        *g = (struct recut_group){.stream = task.stream, .group = number};
        for (unsigned i = 0; i < 8; i++)
            g->stream_high = g->stream_high << 8 | task.stream.b[i];
        for (unsigned i = 8; i < 12; i++)
            g->stream_low = g->stream_low << 8 | task.stream.b[i];
        s->slots[slot] = (uint32_t)++s->group_count;
    }
    *group_out = s->last_group = s->slots[slot] - 1;
    return true;
}

/* ---- decoding ---- */

static bool items_grow(struct recut_sort *s)
{
    if (s->item_count + MOB_BLOCK_ENTRIES_MAX <= s->item_capacity)
        return true;
    size_t capacity = s->item_capacity == 0 ? 16384 : 2 * s->item_capacity;
    struct recut_item *items = realloc(s->items, capacity * sizeof *items);
    if (items == NULL)
        return false;
    s->items = items;
    items = realloc(s->other, capacity * sizeof *items);
    if (items == NULL)
        return false;
    s->other = items;
    s->item_capacity = capacity;
    return true;
}

static enum mob_status keep(struct recut_sort *s, uint32_t source, uint16_t ordinal)
{
    const struct mob_entry *e = &s->entry;
    struct recut_item *item = &s->items[s->item_count];
    struct mob_task_id task;
    size_t at = s->arena_used / 8;
    bool stored;
    if (e->type == MOB_ENTRY_SPEC) {
        task = e->spec.head.task;
        stored = store_spec(s, e);
    } else if (e->type == MOB_ENTRY_COMPLETION) {
        task = e->completion.head.task;
        stored = store_completion(s, e);
    } else {
        stored = store_other(s, e, &task);
        if (e->type == MOB_ENTRY_PUT)
            task = in_group(s, e->put.id);
        else if (e->type == MOB_ENTRY_HASH)
            task = in_group(s, e->hash.id);
    }
    if (!stored || at > UINT32_MAX || !find_group(s, task, &item->group))
        return MOB_NO_MEMORY;
    item->at = (uint32_t)at;
    item->source = source;
    item->ordinal = ordinal;
    item->low = (uint8_t)task.index;
    item->type = (uint8_t)e->type;
    s->item_count++;
    return MOB_OK;
}

enum mob_status recut_sort_add(struct recut_sort *s, struct mob_block_decoder *decoder, uint32_t source,
    const uint8_t *block, uint32_t length)
{
    struct mob_block_header header;
    static _Thread_local struct mob_zone_map zone; /* 10 KiB */
    enum mob_status status = mob_block_open(decoder, block, length, &header, &zone);
    if (status == MOB_OK && !items_grow(s))
        status = MOB_NO_MEMORY;
    for (uint16_t ordinal = 0; status == MOB_OK; ordinal++) {
        status = mob_block_next(decoder, &s->entry);
        if (status == MOB_OK)
            status = keep(s, source, ordinal);
    }
    return status == MOB_CLOSED ? MOB_OK : status;
}

/* ---- sorting: each pass keeps the order of equals, so the last one decides ---- */

static int by_id(const void *a, const void *b, void *groups)
{
    const struct recut_group *all = groups;
    const struct recut_group *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
    if (x->stream_high != y->stream_high)
        return x->stream_high < y->stream_high ? -1 : 1;
    if (x->stream_low != y->stream_low)
        return x->stream_low < y->stream_low ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

static bool rank_groups(struct recut_sort *s)
{
    if (s->group_count + 1 > s->order_capacity) {
        size_t capacity = s->group_capacity + 1;
        uint32_t *order = realloc(s->order, capacity * sizeof *order);
        if (order == NULL)
            return false;
        s->order = order;
        order = realloc(s->starts, capacity * sizeof *order);
        if (order == NULL)
            return false;
        s->starts = order;
        s->order_capacity = capacity;
    }
    for (uint32_t i = 0; i < s->group_count; i++)
        s->order[i] = i;
    if (s->group_count > 0)
        qsort_r(s->order, s->group_count, sizeof *s->order, by_id, s->groups);
    for (uint32_t rank = 0; rank < s->group_count; rank++)
        s->groups[s->order[rank]].rank = rank;
    return true;
}

static void sort_by_low(struct recut_sort *s)
{
    uint32_t starts[257] = {0};
    for (size_t i = 0; i < s->item_count; i++)
        starts[s->items[i].low + 1]++;
    for (unsigned k = 0; k < 256; k++)
        starts[k + 1] += starts[k];
    for (size_t i = 0; i < s->item_count; i++)
        s->other[starts[s->items[i].low]++] = s->items[i];
}

static void sort_by_rank(struct recut_sort *s)
{
    memset(s->starts, 0, (s->group_count + 1) * sizeof *s->starts);
    for (size_t i = 0; i < s->item_count; i++)
        s->starts[s->groups[s->other[i].group].rank + 1]++;
    for (size_t k = 0; k < s->group_count; k++)
        s->starts[k + 1] += s->starts[k];
    for (size_t i = 0; i < s->item_count; i++)
        s->items[s->starts[s->groups[s->other[i].group].rank]++] = s->other[i];
}

enum mob_status recut_sort_items(struct recut_sort *s)
{
    if (!rank_groups(s))
        return MOB_NO_MEMORY;
    if (s->item_count > 0) {
        sort_by_low(s);
        sort_by_rank(s);
    }
    return MOB_OK;
}

/* ---- encoding ---- */

enum mob_status recut_sort_encode(
    const struct recut_sort *s, const struct recut_item *item, struct mob_block_encoder *encoder)
{
    const uint8_t *at = at_item(s, item);
    if (item->type == MOB_ENTRY_SPEC) {
        const struct stored_spec *stored = (const struct stored_spec *)at;
        return mob_block_add_spec(encoder, &stored->head, (const uint8_t *)(stored + 1),
            (uint32_t)stored->tail_bytes, stored->submitted_ns);
    }
    if (item->type == MOB_ENTRY_COMPLETION) {
        const struct stored_completion *stored = (const struct stored_completion *)at;
        return mob_block_add_completion(encoder, &stored->head, (const uint8_t *)(stored + 1));
    }
    const struct stored_other *stored = (const struct stored_other *)at;
    const uint8_t *fixed = at + sizeof *stored, *payload = fixed + mob_round_up(stored->fixed_bytes, 8);
    if (item->type == MOB_ENTRY_PUT)
        return mob_block_add_put(
            encoder, (const struct mob_out_put *)fixed, stored->has_payload ? payload : NULL);
    return mob_block_add_other(
        encoder, (enum mob_entry_type)item->type, fixed, stored->fixed_bytes, payload, stored->payload_bytes);
}
