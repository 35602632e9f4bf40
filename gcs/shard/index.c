#include "gcs/shard/index.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "gcs/shard/index_groups.h"

/* Groups of a block whose places are fetched before their turn: as many as memory brings at a time. */
enum { FETCH_AHEAD = 8 };

#define PAGE_SLOTS 1024u

struct page {
    uint32_t live;
    struct mob_index_slot *slots; /* NULL once all were dropped */
    uint64_t last_seq;
};
struct job {
    struct mob_job_id id;
    uint32_t newest;
    uint64_t blocks;
};
/* One incarnation's blocks: ordinals by number. */
struct log {
    uint64_t incarnation, base, count;
    size_t capacity;
    uint32_t *ordinals;
};

struct mob_index {
    struct page *pages;
    size_t page_count, page_capacity;
    uint32_t first, end; /* all below first are dropped */
    struct mob_index_groups groups;
    struct job *jobs;
    size_t job_count, job_capacity;
    uint32_t *job_slots; /* open addressing: row + 1 */
    size_t job_slot_capacity;
    struct log *logs; /* by incarnation */
    size_t log_count, log_capacity;
    uint64_t blocks, block_bytes;
    size_t log_bytes;
    uint64_t loaded; /* the store ended there when it was read; UINT64_MAX: it was not */
};

struct mob_index *mob_index_create(void)
{
    struct mob_index *ix = calloc(1, sizeof *ix);
    if (ix != NULL)
        ix->loaded = UINT64_MAX;
    return ix;
}

void mob_index_destroy(struct mob_index *ix)
{
    if (ix == NULL)
        return;
    for (size_t i = 0; i < ix->page_count; i++)
        free(ix->pages[i].slots);
    for (size_t i = 0; i < ix->log_count; i++)
        free(ix->logs[i].ordinals);
    free(ix->pages);
    free(ix->jobs);
    free(ix->job_slots);
    free(ix->logs);
    mob_index_groups_fini(&ix->groups);
    free(ix);
}

/* Doubles an array that is full; the process does not go on without memory. */
static void *grown(void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity == 0 ? 16 : *capacity * 2;
    array = realloc(array, *capacity * size);
    MOB_ASSERT(array != NULL);
    return array;
}

/* ---- jobs ---- */

static size_t job_probe(const struct mob_index *ix, struct mob_job_id id)
{
    size_t i = (size_t)mob_stream_mix(id.root) & (ix->job_slot_capacity - 1);
    while (ix->job_slots[i] != 0 && !mob_stream_eq(ix->jobs[ix->job_slots[i] - 1].id.root, id.root))
        i = (i + 1) & (ix->job_slot_capacity - 1);
    return i;
}

static void job_rehash(struct mob_index *ix)
{
    free(ix->job_slots);
    ix->job_slot_capacity = ix->job_slot_capacity == 0 ? 64 : ix->job_slot_capacity * 2;
    ix->job_slots = calloc(ix->job_slot_capacity, sizeof *ix->job_slots);
    MOB_ASSERT(ix->job_slots != NULL);
    for (uint32_t row = 0; row < ix->job_count; row++)
        ix->job_slots[job_probe(ix, ix->jobs[row].id)] = row + 1;
}

static uint32_t job_row(struct mob_index *ix, struct mob_job_id id)
{
    if (2 * (ix->job_count + 1) > ix->job_slot_capacity)
        job_rehash(ix);
    size_t i = job_probe(ix, id);
    if (ix->job_slots[i] != 0)
        return ix->job_slots[i] - 1;
    ix->jobs = grown(ix->jobs, ix->job_count, &ix->job_capacity, sizeof *ix->jobs);
    ix->jobs[ix->job_count] = (struct job){.id = id, .newest = MOB_INDEX_NONE};
    ix->job_slots[i] = (uint32_t)++ix->job_count;
    return (uint32_t)ix->job_count - 1;
}

uint32_t mob_index_job_newest(const struct mob_index *ix, struct mob_job_id job)
{
    if (ix->job_count == 0)
        return MOB_INDEX_NONE;
    uint32_t row = ix->job_slots[job_probe(ix, job)];
    return row == 0 ? MOB_INDEX_NONE : ix->jobs[row - 1].newest;
}

struct mob_job_id mob_index_job(const struct mob_index *ix, const struct mob_index_slot *slot)
{
    return ix->jobs[slot->job].id;
}

/* ---- logs ---- */

static size_t log_find(const struct mob_index *ix, uint64_t incarnation)
{
    size_t low = 0, high = ix->log_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ix->logs[middle].incarnation < incarnation)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum mob_index_gap log_add(
    struct mob_index *ix, uint64_t incarnation, uint64_t number, uint32_t ordinal)
{
    size_t at = log_find(ix, incarnation);
    enum mob_index_gap gap = MOB_INDEX_WHOLE;
    if (at == ix->log_count || ix->logs[at].incarnation != incarnation) {
        ix->logs = grown(ix->logs, ix->log_count, &ix->log_capacity, sizeof *ix->logs);
        memmove(&ix->logs[at + 1], &ix->logs[at], (ix->log_count - at) * sizeof *ix->logs);
        ix->logs[at] = (struct log){.incarnation = incarnation, .base = number};
        ix->log_count++;
        gap = number > 0 ? MOB_INDEX_NO_BEGIN : MOB_INDEX_WHOLE;
    }
    struct log *log = &ix->logs[at];
    MOB_ASSERT(number >= log->base + log->count);
    if (number > log->base + log->count)
        gap = MOB_INDEX_GAP;
    /* Numbers between were dropped before a restart. */
    while (log->base + log->count <= number) {
        size_t before = log->capacity;
        log->ordinals = grown(log->ordinals, log->count, &log->capacity, sizeof *log->ordinals);
        ix->log_bytes += (log->capacity - before) * sizeof *log->ordinals;
        bool last = log->base + log->count == number;
        log->ordinals[log->count++] = last ? ordinal : MOB_INDEX_NONE;
    }
    return gap;
}

uint32_t mob_index_log_next(const struct mob_index *ix, uint64_t incarnation, uint64_t number)
{
    size_t at = log_find(ix, incarnation);
    if (at == ix->log_count || ix->logs[at].incarnation != incarnation)
        return MOB_INDEX_NONE;
    const struct log *log = &ix->logs[at];
    for (uint64_t n = number > log->base ? number - log->base : 0; n < log->count; n++)
        if (mob_index_slot(ix, log->ordinals[n]) != NULL)
            return log->ordinals[n];
    return MOB_INDEX_NONE;
}

/* ---- blocks ---- */

static struct mob_index_slot *slot_at(const struct mob_index *ix, uint32_t ordinal)
{
    if (ordinal >= ix->end || ix->pages[ordinal / PAGE_SLOTS].slots == NULL)
        return NULL;
    return &ix->pages[ordinal / PAGE_SLOTS].slots[ordinal % PAGE_SLOTS];
}

const struct mob_index_slot *mob_index_slot(const struct mob_index *ix, uint32_t ordinal)
{
    const struct mob_index_slot *slot = slot_at(ix, ordinal);
    return slot != NULL && slot->length != 0 ? slot : NULL;
}

uint32_t mob_index_end(const struct mob_index *ix)
{
    return ix->end;
}

uint64_t mob_index_newest(const struct mob_index *ix)
{
    return ix->page_count == 0 ? 0 : ix->pages[ix->page_count - 1].last_seq;
}

uint32_t mob_index_after(const struct mob_index *ix, uint64_t seq)
{
    size_t low = 0, high = ix->page_count;
    while (low < high) { /* the first page that ends above seq */
        size_t middle = low + (high - low) / 2;
        if (ix->pages[middle].last_seq <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t ordinal = (uint32_t)low * PAGE_SLOTS;
    if (low == ix->page_count || ix->pages[low].slots == NULL)
        return ordinal < ix->end ? ordinal : ix->end;
    while (ordinal < ix->end && slot_at(ix, ordinal)->seq <= seq)
        ordinal++;
    return ordinal;
}

bool mob_index_is_gone(const struct mob_index *ix, uint32_t ordinal, const struct mob_index_lookout *lookout)
{
    const struct mob_index_slot *slot = slot_at(ix, ordinal);
    if (slot == NULL) /* a page of nothing else */
        return ordinal < ix->end;
    if (slot->length == 0)
        return !lookout->by_job || mob_stream_eq(ix->jobs[slot->job].id.root, lookout->job.root);
    bool gap = slot->gap == MOB_INDEX_GAP || (slot->gap == MOB_INDEX_NO_BEGIN && !lookout->flushed);
    uint64_t last = slot->seq > ix->loaded ? ix->loaded : slot->seq - 1; /* where what is missing may be */
    return gap && lookout->above < last;
}

void mob_index_loaded(struct mob_index *ix, uint64_t seq)
{
    ix->loaded = seq;
}

uint64_t mob_index_function_bits(struct mob_function_id function)
{
    return 1ull << (function.b[0] & 63) | 1ull << (function.b[1] & 63);
}

static uint64_t functions_of(const struct mob_zone_map *zone)
{
    if (zone->function_count > MOB_ZONE_FUNCTIONS_MAX)
        return UINT64_MAX;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < zone->function_count; i++)
        bits |= mob_index_function_bits(zone->functions[i]);
    return bits;
}

static struct mob_index_slot *slot_new(struct mob_index *ix, uint64_t seq)
{
    MOB_ASSERT(ix->end < MOB_INDEX_NONE - 1);
    if (ix->end % PAGE_SLOTS == 0) {
        ix->pages = grown(ix->pages, ix->page_count, &ix->page_capacity, sizeof *ix->pages);
        struct page *page = &ix->pages[ix->page_count++];
        *page = (struct page){.slots = calloc(PAGE_SLOTS, sizeof(struct mob_index_slot))};
        MOB_ASSERT(page->slots != NULL);
    }
    struct page *page = &ix->pages[ix->end / PAGE_SLOTS];
    MOB_ASSERT(seq > page->last_seq);
    page->last_seq = seq;
    page->live++;
    return &page->slots[ix->end++ % PAGE_SLOTS];
}

void mob_index_add(struct mob_index *ix, uint64_t seq, uint32_t length, const struct mob_block_header *header,
    const struct mob_zone_map *zone)
{
    MOB_ASSERT(length > 0);
    uint32_t ordinal = ix->end, row = job_row(ix, header->job);
    struct mob_index_slot *slot = slot_new(ix, seq);
    uint64_t to_wall = (uint64_t)header->wall_ns - (uint64_t)header->mono_ns;
    bool timed = zone->specs + zone->finals > 0;
    *slot = (struct mob_index_slot){.seq = seq,
        .incarnation = header->incarnation,
        .number = header->sequence,
        .time_min_ns = timed ? (int64_t)((uint64_t)zone->time_min_ns + to_wall) : header->wall_ns,
        .time_max_ns = timed ? (int64_t)((uint64_t)zone->time_max_ns + to_wall) : header->wall_ns,
        .functions = functions_of(zone),
        .length = length,
        .failed = zone->failed < UINT16_MAX ? (uint16_t)zone->failed : UINT16_MAX,
        .job = row,
        .job_older = ix->jobs[row].newest};
    ix->jobs[row].newest = ordinal;
    ix->jobs[row].blocks++;
    slot->gap = (uint16_t)log_add(ix, header->incarnation, header->sequence, ordinal);
    for (uint32_t i = 0; i < zone->group_count; i++) {
        if (i + FETCH_AHEAD < zone->group_count)
            mob_index_groups_fetch(&ix->groups, &zone->groups[i + FETCH_AHEAD]);
        mob_index_groups_add(&ix->groups, &zone->groups[i], ordinal);
    }
    ix->blocks++;
    ix->block_bytes += length;
}

static void drop_slot(struct mob_index *ix, uint32_t ordinal, struct mob_index_slot *slot)
{
    ix->blocks--;
    ix->block_bytes -= slot->length;
    slot->length = 0;
    ix->jobs[slot->job].blocks--;
    ix->pages[ordinal / PAGE_SLOTS].live--;
}

bool mob_index_drop(struct mob_index *ix, uint64_t seq)
{
    uint32_t ordinal = seq == 0 ? ix->end : mob_index_after(ix, seq - 1);
    struct mob_index_slot *slot = slot_at(ix, ordinal);
    if (slot == NULL || slot->seq != seq || slot->length == 0)
        return false;
    drop_slot(ix, ordinal, slot);
    return true;
}

uint64_t mob_index_flush(struct mob_index *ix, uint64_t upto)
{
    uint64_t dropped = 0;
    for (uint32_t end = mob_index_after(ix, upto); ix->first < end; ix->first++) {
        struct mob_index_slot *slot = slot_at(ix, ix->first);
        if (slot == NULL || slot->length == 0)
            continue;
        drop_slot(ix, ix->first, slot);
        dropped++;
    }
    return dropped;
}

void mob_index_flush_group(struct mob_index *ix, const struct mob_gcs_flush_group *group)
{
    mob_index_groups_flush(&ix->groups, group->stream, group->group, group->net);
}

void mob_index_load_group(struct mob_index *ix, const struct mob_gcs_flush_group *group)
{
    mob_index_groups_load(&ix->groups, group->stream, group->group, group->net);
}

struct mob_gcs_flush_group *mob_index_cold_groups(const struct mob_index *ix, bool open, size_t *count_out)
{
    struct mob_gcs_flush_group *rows = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < ix->groups.capacity; i++) {
        const struct mob_index_group *g = &ix->groups.slots[i];
        bool wanted = g->used != 0 && (open ? g->open > 0 && g->cold > 0 : g->cold != 0);
        if (!wanted)
            continue;
        rows = grown(rows, count, &capacity, sizeof *rows);
        rows[count++] = (struct mob_gcs_flush_group){.stream = g->stream, .group = g->group, .net = g->cold};
    }
    *count_out = count;
    return rows;
}

static bool ref_lives(const void *arg, uint32_t ordinal)
{
    return mob_index_slot(arg, ordinal) != NULL;
}

/* The job's list without what was dropped, so that its pages can go. */
static void job_relink(struct mob_index *ix, struct job *job)
{
    uint32_t *link = &job->newest;
    while (*link != MOB_INDEX_NONE) {
        struct mob_index_slot *slot = slot_at(ix, *link);
        MOB_ASSERT(slot != NULL);
        if (slot->length == 0)
            *link = slot->job_older;
        else
            link = &slot->job_older;
    }
}

/* A log's numbers without the dropped ones at its beginning, once they are the most of it. */
static void log_trim(struct mob_index *ix, struct log *log)
{
    uint64_t gone = 0;
    while (gone < log->count && mob_index_slot(ix, log->ordinals[gone]) == NULL)
        gone++;
    if (2 * gone <= log->count)
        return;
    memmove(log->ordinals, log->ordinals + gone, (log->count - gone) * sizeof *log->ordinals);
    log->base += gone;
    log->count -= gone;
    size_t capacity = log->count < 16 ? 16 : log->count;
    uint32_t *fewer = realloc(log->ordinals, capacity * sizeof *fewer);
    if (fewer == NULL)
        return;
    ix->log_bytes -= (log->capacity - capacity) * sizeof *fewer;
    log->ordinals = fewer;
    log->capacity = capacity;
}

void mob_index_sweep(struct mob_index *ix)
{
    mob_index_groups_filter(&ix->groups, ref_lives, ix);
    for (size_t i = 0; i < ix->job_count; i++)
        job_relink(ix, &ix->jobs[i]);
    for (size_t i = 0; i < ix->log_count; i++)
        log_trim(ix, &ix->logs[i]);
    for (size_t i = 0; i + 1 < ix->page_count; i++)
        if (ix->pages[i].live == 0) {
            free(ix->pages[i].slots);
            ix->pages[i].slots = NULL;
        }
}

size_t mob_index_group(const struct mob_index *ix, struct mob_stream stream, uint32_t group, uint32_t after,
    uint32_t *ordinals_out, size_t max)
{
    const struct mob_index_group *g = mob_index_groups_find(&ix->groups, stream, group);
    size_t n = 0;
    for (uint32_t i = 0; g != NULL && i < g->ref_count && n < max; i++) {
        uint32_t ordinal = mob_index_group_refs(g)[i];
        bool wanted = after == MOB_INDEX_NONE || ordinal > after;
        if (wanted && mob_index_slot(ix, ordinal) != NULL)
            ordinals_out[n++] = ordinal;
    }
    return n;
}

static int by_ordinal(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool group_is_open(const struct mob_index *ix, const struct mob_index_group *g, uint64_t incarnation)
{
    if (g->ref_count == 0 || g->open <= 0)
        return false;
    for (uint32_t i = 0; i < g->ref_count; i++) {
        const struct mob_index_slot *slot = mob_index_slot(ix, mob_index_group_refs(g)[i]);
        if (slot != NULL && (incarnation == 0 || slot->incarnation == incarnation))
            return true;
    }
    return false;
}

uint32_t *mob_index_unfinished(const struct mob_index *ix, uint64_t incarnation, size_t *count_out)
{
    uint32_t *found = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < ix->groups.capacity; i++) {
        const struct mob_index_group *g = &ix->groups.slots[i];
        if (!group_is_open(ix, g, incarnation))
            continue;
        for (uint32_t k = 0; k < g->ref_count; k++) {
            if (mob_index_slot(ix, mob_index_group_refs(g)[k]) == NULL)
                continue;
            found = grown(found, count, &capacity, sizeof *found);
            found[count++] = mob_index_group_refs(g)[k];
        }
    }
    if (count > 0)
        qsort(found, count, sizeof *found, by_ordinal);
    size_t unique = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || found[i] != found[i - 1])
            found[unique++] = found[i];
    *count_out = unique;
    return found;
}

void mob_index_figures(const struct mob_index *ix, struct mob_index_figures *out)
{
    size_t pages = 0;
    for (size_t i = 0; i < ix->page_count; i++)
        pages += ix->pages[i].slots != NULL;
    *out = (struct mob_index_figures){.blocks = ix->blocks,
        .block_bytes = ix->block_bytes,
        .groups = ix->groups.count,
        .cold_groups = ix->groups.cold_count,
        .jobs = ix->job_count,
        .heap_bytes = pages * PAGE_SLOTS * sizeof(struct mob_index_slot) +
            ix->page_capacity * sizeof(struct page) + ix->groups.capacity * sizeof(struct mob_index_group) +
            ix->groups.more_bytes + ix->job_capacity * sizeof(struct job) +
            ix->job_slot_capacity * sizeof(uint32_t) + ix->log_capacity * sizeof(struct log) + ix->log_bytes};
}
