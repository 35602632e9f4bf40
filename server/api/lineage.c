#include "server/api/lineage.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/log.h"
#include "server/api/lineage_wants.h"

#define BUCKETS 4096u

struct lineage_set {
    struct task_record *buckets[BUCKETS];
    struct lineage_wants wants;
    struct actor_edge *edges;
    size_t edge_count, edge_capacity;
    uint32_t *edge_buckets; /* newest edge + 1, by actor and position; as many as there is room for edges */
    struct mob_actor_id edges_of;
    uint64_t seq; /* of the block that is taken now */
    struct mob_task_id items_of;
    uint32_t item_first, item_end;
    void (*each_spec)(void *arg, const struct mob_spec_head *head); /* NULL: nobody is told */
    void *each_spec_arg;
};

struct lineage_set *lineage_set_create(void)
{
    return calloc(1, sizeof(struct lineage_set));
}

static void record_destroy(struct task_record *r)
{
    for (size_t i = 0; i < r->put_count; i++)
        free(r->puts[i].payload);
    for (size_t i = 0; i < r->item_count; i++)
        free(r->items[i].payload);
    free(r->tail);
    free(r->body);
    free(r->puts);
    free(r->items);
    free(r->retried);
    free(r);
}

void lineage_set_destroy(struct lineage_set *set)
{
    if (!set)
        return;
    for (size_t b = 0; b < BUCKETS; b++) {
        for (struct task_record *r = set->buckets[b], *next; r; r = next) {
            next = r->next;
            record_destroy(r);
        }
    }
    lineage_wants_fini(&set->wants);
    free(set->edges);
    free(set->edge_buckets);
    free(set);
}

static void *grow(void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity ? *capacity * 2 : 16;
    void *grown = realloc(array, *capacity * size);
    MOB_ASSERT(grown != NULL);
    return grown;
}

void lineage_set_want_items(struct lineage_set *set, struct mob_task_id task, uint32_t first, uint32_t count)
{
    set->items_of = task;
    set->item_first = first;
    set->item_end = count > UINT32_MAX - first ? UINT32_MAX : first + count;
}

bool lineage_set_want(struct lineage_set *set, struct mob_stream stream, uint32_t group)
{
    return lineage_wants_add(&set->wants, LINEAGE_WANTS_GROUP, stream, group);
}

void lineage_set_want_task(struct lineage_set *set, struct mob_task_id task)
{
    lineage_wants_add(&set->wants, LINEAGE_WANTS_TASK, task.stream, task.index);
}

struct task_record *lineage_set_find(const struct lineage_set *set, struct mob_task_id id)
{
    struct task_record *r = set->buckets[mob_task_id_mix(id) % BUCKETS];
    while (r && !mob_task_id_eq(r->id, id))
        r = r->next;
    return r;
}

static struct task_record *record_of(
    struct lineage_set *set, struct mob_task_id id, const struct mob_block_header *header)
{
    struct task_record *r = lineage_set_find(set, id);
    if (r)
        return r;
    r = calloc(1, sizeof *r);
    MOB_ASSERT(r != NULL);
    r->id = id;
    r->job = header->job;
    struct task_record **bucket = &set->buckets[mob_task_id_mix(id) % BUCKETS];
    r->next = *bucket;
    *bucket = r;
    return r;
}

static uint8_t *copy_bytes(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n + 1);
    MOB_ASSERT(copy != NULL);
    if (n > 0)
        memcpy(copy, bytes, n);
    return copy;
}

/* The first spec stands; of completions the final one, else the newest. */
static void take_spec(struct lineage_set *set, struct task_record *r, const struct mob_entry *entry,
    const struct mob_block_header *header)
{
    const int64_t wall_minus_mono_ns = header->wall_ns - header->mono_ns;
    if (!r->has_completion)
        r->wall_minus_mono_ns = wall_minus_mono_ns;
    r->seq = r->seq > set->seq ? r->seq : set->seq;
    int64_t wall_ns = entry->submitted_ns ? entry->submitted_ns + wall_minus_mono_ns : 0;
    if (wall_ns > 0 && (r->submitted_wall_ns == 0 || wall_ns < r->submitted_wall_ns))
        r->submitted_wall_ns = wall_ns;
    if (r->has_spec && entry->spec.head.attempt <= r->spec.attempt)
        return;
    free(r->tail);
    r->has_spec = true;
    r->spec = entry->spec.head;
    r->tail = copy_bytes(entry->spec.tail, entry->spec.tail_bytes);
    r->tail_bytes = entry->spec.tail_bytes;
    if (!r->has_completion)
        r->incarnation = header->incarnation;
}

/* Blocks may come in any order, and twice. */
static void note_retried(struct task_record *r, const struct mob_completion_head *head)
{
    size_t at = r->retried_count;
    while (at > 0 && r->retried[at - 1].attempt >= head->attempt)
        at--;
    if (at < r->retried_count && r->retried[at].attempt == head->attempt)
        return;
    r->retried = grow(r->retried, r->retried_count, &r->retried_capacity, sizeof *r->retried);
    memmove(r->retried + at + 1, r->retried + at, (r->retried_count++ - at) * sizeof *r->retried);
    r->retried[at] = (struct lineage_attempt){head->attempt, head->worker};
}

static void take_completion(struct lineage_set *set, struct task_record *r, const struct mob_entry *entry,
    const struct mob_block_header *header)
{
    const struct mob_completion_head *head = &entry->completion.head;
    if (!(head->flags & MOB_COMPLETION_FINAL))
        note_retried(r, head);
    if (r->has_completion && (r->completion.flags & MOB_COMPLETION_FINAL) &&
        !(head->flags & MOB_COMPLETION_FINAL))
        return;
    free(r->body);
    r->seq = r->seq > set->seq ? r->seq : set->seq;
    r->has_completion = true;
    r->completion = *head;
    r->body = copy_bytes(entry->completion.body, head->body_bytes);
    r->wall_minus_mono_ns = header->wall_ns - header->mono_ns;
    r->incarnation = header->incarnation;
}

static bool is_argument_page(struct mob_object_id id)
{
    return (id.slot & MOB_SLOT_ARG_PAGE) == MOB_SLOT_ARG_PAGE;
}

static void take_put(
    struct lineage_set *set, const struct mob_entry *entry, const struct mob_block_header *header)
{
    struct task_record *r = record_of(set, entry->put.id.task, header);
    r->puts = grow(r->puts, r->put_count, &r->put_capacity, sizeof *r->puts);
    struct lineage_put *put = &r->puts[r->put_count++];
    *put = (struct lineage_put){.put = entry->put};
    if (is_argument_page(entry->put.id) && entry->put.inline_bytes > 0)
        put->payload = copy_bytes(entry->payload, entry->put.inline_bytes);
}

/* A generator that was run again gives the same items: the first of each stands. */
static void take_item(
    struct lineage_set *set, const struct mob_entry *entry, const struct mob_block_header *header)
{
    struct task_record *r = record_of(set, entry->yield.task, header);
    uint32_t index = entry->yield.item;
    bool wanted = mob_task_id_eq(set->items_of, r->id) && index >= set->item_first && index < set->item_end;
    bool again = index < r->items_logged;
    if (index >= r->items_logged)
        r->items_logged = index + 1;
    for (size_t i = 0; wanted && again && i < r->item_count; i++)
        wanted = r->items[i].index != index;
    if (!wanted)
        return;
    const struct mob_return_view *ret = &entry->ret;
    r->items = grow(r->items, r->item_count, &r->item_capacity, sizeof *r->items);
    struct lineage_item *item = &r->items[r->item_count++];
    *item = (struct lineage_item){.index = index,
        .type = ret->type,
        .flags = ret->flags,
        .size = ret->size,
        .hash = ret->hash,
        .seq = set->seq};
    if (!(ret->flags & MOB_RETURN_STORED))
        item->payload = copy_bytes(ret->payload, ret->size);
}

static uint32_t *edge_bucket(struct lineage_set *set, struct mob_actor_id actor, uint64_t position)
{
    uint64_t mix = (mob_task_id_mix(actor.creation) ^ position) * 0x9e3779b97f4a7c15ull;
    return &set->edge_buckets[(mix >> 32) % set->edge_capacity];
}

static void grow_edges(struct lineage_set *set)
{
    size_t before = set->edge_capacity;
    set->edges = grow(set->edges, set->edge_count, &set->edge_capacity, sizeof *set->edges);
    if (set->edge_capacity == before)
        return;
    free(set->edge_buckets);
    set->edge_buckets = calloc(set->edge_capacity, sizeof *set->edge_buckets);
    MOB_ASSERT(set->edge_buckets != NULL);
    for (size_t i = 0; i < set->edge_count; i++) {
        struct actor_edge *e = &set->edges[i];
        uint32_t *bucket = edge_bucket(set, e->actor, e->position);
        e->next = *bucket;
        *bucket = (uint32_t)i + 1;
    }
}

/* A block may come twice: for its tasks, and for an actor's edges. */
static bool has_edge(struct lineage_set *set, const struct mob_entry_edge *edge)
{
    for (uint32_t at = *edge_bucket(set, edge->actor, edge->position); at > 0; at = set->edges[at - 1].next) {
        const struct actor_edge *e = &set->edges[at - 1];
        if (e->position == edge->position && e->incarnation == edge->incarnation &&
            mob_actor_id_eq(e->actor, edge->actor) && mob_task_id_eq(e->task, edge->task))
            return true;
    }
    return false;
}

static void take_edge(struct lineage_set *set, const struct mob_entry_edge *edge)
{
    grow_edges(set);
    if (has_edge(set, edge))
        return;
    uint32_t *bucket = edge_bucket(set, edge->actor, edge->position);
    set->edges[set->edge_count++] =
        (struct actor_edge){*bucket, edge->actor, edge->task, edge->position, edge->incarnation};
    *bucket = (uint32_t)set->edge_count;
}

void lineage_set_want_edges(struct lineage_set *set, struct mob_actor_id actor)
{
    set->edges_of = actor;
}

void lineage_set_each_spec(
    struct lineage_set *set, void (*each)(void *arg, const struct mob_spec_head *head), void *arg)
{
    set->each_spec = each;
    set->each_spec_arg = arg;
}

static void take_entry(
    struct lineage_set *set, const struct mob_entry *entry, const struct mob_block_header *header)
{
    if (entry->type == MOB_ENTRY_SPEC && set->each_spec)
        set->each_spec(set->each_spec_arg, &entry->spec.head);
    if (entry->type == MOB_ENTRY_SPEC && lineage_wants(&set->wants, entry->spec.head.task))
        take_spec(set, record_of(set, entry->spec.head.task, header), entry, header);
    else if (entry->type == MOB_ENTRY_COMPLETION && lineage_wants(&set->wants, entry->completion.head.task))
        take_completion(set, record_of(set, entry->completion.head.task, header), entry, header);
    else if (entry->type == MOB_ENTRY_PUT && lineage_wants(&set->wants, mob_put_group(entry->put.id)))
        take_put(set, entry, header);
    else if (entry->type == MOB_ENTRY_YIELD && lineage_wants(&set->wants, entry->yield.task))
        take_item(set, entry, header);
    else if (entry->type == MOB_ENTRY_EDGE && mob_actor_id_eq(set->edges_of, entry->edge.actor))
        take_edge(set, &entry->edge);
}

void lineage_set_block(struct lineage_set *set, struct mob_block_decoder *decoder, uint64_t seq,
    const uint8_t *bytes, size_t length)
{
    set->seq = seq;
    struct mob_block_header header;
    struct mob_zone_map *zone = malloc(sizeof *zone);
    MOB_ASSERT(zone != NULL);
    struct mob_entry *entry = malloc(sizeof *entry);
    MOB_ASSERT(entry != NULL);
    enum mob_status status = mob_block_open(decoder, bytes, length, &header, zone);
    while (status == MOB_OK && (status = mob_block_next(decoder, entry)) == MOB_OK)
        take_entry(set, entry, &header);
    if (status != MOB_CLOSED)
        MOB_LOG_WARN("lineage", "block_skipped", "code=%s", mob_status_code(status));
    free(entry);
    free(zone);
}

const struct actor_edge *lineage_set_edge(
    struct lineage_set *set, struct mob_actor_id actor, uint64_t position)
{
    const struct actor_edge *found = NULL;
    if (set->edge_count == 0)
        return NULL;
    for (uint32_t at = *edge_bucket(set, actor, position); at > 0; at = set->edges[at - 1].next) {
        const struct actor_edge *e = &set->edges[at - 1];
        if (e->position == position && mob_actor_id_eq(e->actor, actor) &&
            (!found || e->incarnation < found->incarnation))
            found = e;
    }
    return found;
}

static int by_position(const void *a, const void *b)
{
    const struct actor_edge *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

size_t lineage_set_edges(
    const struct lineage_set *set, struct mob_actor_id actor, struct actor_edge **edges_out)
{
    struct actor_edge *edges = calloc(set->edge_count + 1, sizeof *edges);
    size_t n = 0;
    MOB_ASSERT(edges != NULL);
    for (size_t i = 0; i < set->edge_count; i++)
        if (mob_actor_id_eq(set->edges[i].actor, actor))
            edges[n++] = set->edges[i];
    qsort(edges, n, sizeof *edges, by_position);
    *edges_out = edges;
    return n;
}

/* --- arguments --- */

struct argument_walk task_record_arguments(const struct task_record *record)
{
    struct argument_walk walk = {.record = record};
    struct mob_ext_view ext;
    if (!record->has_spec)
        return walk;
    walk.inline_args = mob_spec_args(record->tail);
    if (mob_spec_find_ext(record->tail, MOB_EXT_ARG_PAGES, &ext) && ext.payload_bytes >= sizeof walk.pages)
        memcpy(&walk.pages, ext.payload, sizeof walk.pages);
    return walk;
}

static const struct lineage_put *page_of(const struct task_record *record, uint32_t page)
{
    for (size_t i = 0; i < record->put_count; i++)
        if (record->puts[i].put.id.slot == (MOB_SLOT_ARG_PAGE | page) && record->puts[i].payload)
            return &record->puts[i];
    return NULL;
}

bool task_record_missing_page(const struct task_record *record, uint32_t from, uint32_t *page_out)
{
    struct argument_walk walk = task_record_arguments(record);
    for (uint32_t page = from; page < walk.pages && page < MOB_ARG_PAGES_MAX; page++)
        if (!page_of(record, page)) {
            *page_out = page;
            return true;
        }
    return false;
}

void task_record_add_page(struct task_record *record, uint32_t page, const uint8_t *bytes, uint32_t length)
{
    record->puts = grow(record->puts, record->put_count, &record->put_capacity, sizeof *record->puts);
    struct lineage_put *put = &record->puts[record->put_count++];
    *put = (struct lineage_put){.put = {.id = mob_object_of(record->id, MOB_SLOT_ARG_PAGE | page),
                                    .size = length,
                                    .inline_bytes = length},
        .payload = copy_bytes(bytes, length)};
}

/* Pages hold arguments as the spec's tail does: kind, type, u16 zero, u32 bytes, the bytes padded to 8. */
static bool next_in_page(struct argument_walk *walk, const struct lineage_put *page, struct mob_arg_view *out)
{
    enum { HEAD = 8, REFERENCE = 1 };
    uint32_t bytes, left = page->put.inline_bytes - walk->at;
    if (walk->at > page->put.inline_bytes || left < HEAD)
        return false;
    const uint8_t *arg = page->payload + walk->at;
    memcpy(&bytes, arg + 4, sizeof bytes);
    if (bytes > left - HEAD || (arg[0] == REFERENCE && bytes != sizeof out->ref))
        return false;
    *out = (struct mob_arg_view){.is_ref = arg[0] == REFERENCE,
        .type = (enum mob_value_type)arg[1],
        .payload = arg + HEAD,
        .payload_bytes = bytes};
    if (out->is_ref)
        memcpy(&out->ref, arg + HEAD, sizeof out->ref);
    walk->at += HEAD + (uint32_t)mob_round_up(bytes, 8);
    return true;
}

bool argument_next(struct argument_walk *walk, struct mob_arg_view *out)
{
    if (!walk->record->has_spec)
        return false;
    if (mob_tail_next_arg(&walk->inline_args, out))
        return true;
    while (walk->page < walk->pages) {
        const struct lineage_put *page = page_of(walk->record, walk->page);
        if (!page) {
            walk->missing = true;
            return false;
        }
        if (next_in_page(walk, page, out))
            return true;
        walk->page++;
        walk->at = 0;
    }
    return false;
}

static void mentioned_inputs(
    const struct task_record *record, void (*each)(void *cls, struct mob_object_id id), void *cls)
{
    struct mob_tail_iter it = mob_spec_args(record->tail);
    struct mob_ext_view ext;
    while (mob_tail_next_ext(&it, &ext)) {
        for (uint32_t at = 0;
             ext.tag == MOB_EXT_CONTAINS && at + sizeof(struct mob_object_id) <= ext.payload_bytes;
             at += sizeof(struct mob_object_id)) {
            struct mob_object_id id;
            memcpy(&id, ext.payload + at, sizeof id);
            each(cls, id);
        }
    }
}

static void returned_futures(
    const struct task_record *record, void (*each)(void *cls, struct mob_object_id id), void *cls)
{
    struct mob_completion completion = {record->completion, record->body};
    struct mob_return_view ret;
    uint32_t at = 0;
    while (record->has_completion && mob_completion_next(&completion, &at, &ret)) {
        struct mob_object_id id;
        if (ret.type != MOB_TYPE_FUTURE || !ret.payload || ret.size != sizeof id)
            continue;
        memcpy(&id, ret.payload, sizeof id);
        each(cls, id);
    }
}

void task_record_inputs(
    const struct task_record *record, void (*each)(void *cls, struct mob_object_id id), void *cls)
{
    if (!record->has_spec)
        return;
    struct argument_walk walk = task_record_arguments(record);
    struct mob_arg_view arg;
    while (argument_next(&walk, &arg))
        if (arg.is_ref)
            each(cls, arg.ref);
    mentioned_inputs(record, each, cls);
    returned_futures(record, each, cls);
}

bool task_record_returns(const struct task_record *record, struct mob_object_id id)
{
    if (!record->has_spec)
        return record->has_completion; /* its spec has aged out */
    uint32_t count =
        record->spec.num_returns == MOB_RETURNS_STREAM ? record->items_logged : record->spec.num_returns;
    return id.slot < (count > 0 ? count : 1); /* one that declares none is waited for by its first */
}

enum lineage_put_state task_record_put_state(const struct task_record *record, struct mob_object_id id)
{
    enum lineage_put_state state = LINEAGE_PUT_NEVER;
    for (size_t i = 0; i < record->put_count; i++)
        if (mob_object_id_eq(record->puts[i].put.id, id))
            state = record->puts[i].put.flags & MOB_PUT_DELETED ? LINEAGE_PUT_DELETED : LINEAGE_PUT_THERE;
    return state;
}
