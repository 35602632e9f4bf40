#include "server/api/engine_scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

#define SEEN_BUCKETS 65536u

struct seen *scan_seen(struct scan *scan, struct mob_task_id id, bool make)
{
    struct seen **bucket = &scan->seen[mob_task_id_mix(id) % SEEN_BUCKETS], *s = *bucket;
    while (s && !mob_task_id_eq(s->id, id))
        s = s->next;
    if (s || !make)
        return s;
    s = calloc(1, sizeof *s);
    MOB_ASSERT(s != NULL);
    s->id = id;
    s->next = *bucket;
    *bucket = s;
    return s;
}

static void forget_seen(struct scan *scan)
{
    for (size_t b = 0; b < SEEN_BUCKETS; b++) {
        for (struct seen *s = scan->seen[b], *next; s; s = next) {
            next = s->next;
            free(s);
        }
        scan->seen[b] = NULL;
    }
}

struct scan *scan_create(struct flight *flight, const struct scan_methods *methods, void *context)
{
    struct scan *scan = calloc(1, sizeof *scan);
    MOB_ASSERT(scan != NULL);
    *scan = (struct scan){.flight = flight,
        .methods = methods,
        .context = context,
        .seen = calloc(SEEN_BUCKETS, sizeof(struct seen *))};
    MOB_ASSERT(scan->seen != NULL);
    return scan;
}

static void scan_destroy(struct scan *scan)
{
    forget_seen(scan);
    free(scan->seen);
    scan->methods->destroy(scan);
    free(scan);
}

void scan_refuse(struct scan *scan, enum mob_status status, const char *why)
{
    struct flight *flight = scan->flight;
    scan_destroy(scan);
    flight_fail(flight, status, NULL, "%s", why);
}

/* --- names --- */

const char *scan_function_name(struct scan *scan, struct mob_function_id id)
{
    const struct function_name *f = engine_function_of(scan->flight->engine, id);
    if (!f && !scan->names_read)
        scan->names_missing |= engine_function_is_missing(scan->flight->engine, id);
    return f ? f->name : NULL;
}

void scan_full_name(
    struct scan *scan, struct mob_function_id id, uint8_t kind, uint16_t method, char *out, size_t capacity)
{
    struct lineage_names names = engine_names(scan->flight->engine);
    const char *function = scan_function_name(scan, id);
    char called[128];
    const char *name =
        kind == MOB_KIND_ACTOR_CALL ? names.method(names.cls, id, method, called, sizeof called) : NULL;
    snprintf(out, capacity, "%s%s%s", function ? function : "", name ? "." : "", name ? name : "");
}

int64_t scan_wall_us(const struct mob_block_header *header, int64_t mono_ns)
{
    return mono_ns ? (mono_ns + header->wall_ns - header->mono_ns) / 1000 : 0;
}

/* --- shards --- */

static struct mob_gcs *gcs_of(const struct scan *scan)
{
    return scan->flight->engine->gcs;
}

static uint64_t seq_of(const struct scan *scan, uint64_t seq)
{
    return mob_gcs_shard_position(mob_gcs_shard_count(gcs_of(scan)), scan->request.shard, seq);
}

bool scan_begin_before(struct scan *scan, uint64_t seq, bool with_it, uint32_t entries)
{
    uint32_t shards = mob_gcs_shard_count(gcs_of(scan));
    uint64_t shard = shards < 2 ? 1 : seq >> MOB_GCS_POSITION_SHARD_SHIFT;
    if (shard == 0 || shard > shards)
        return false;
    scan->placed = true;
    scan->request.shard = (uint32_t)shard - 1;
    scan->request.cut_seq = shards < 2 ? seq : seq & ((1ull << MOB_GCS_POSITION_SHARD_SHIFT) - 1);
    scan->request.position = scan->request.cut_seq + with_it;
    scan->request.cut_entries = entries;
    return true;
}

static bool is_last_shard(const struct scan *scan)
{
    return scan->request.newest_first ? scan->request.shard == 0
                                      : scan->request.shard + 1 == mob_gcs_shard_count(gcs_of(scan));
}

/* The request for the beginning of the shard behind this one. */
static struct mob_gcs_scan of_next_shard(const struct scan *scan)
{
    struct mob_gcs_scan request = scan->request;
    request.shard = request.newest_first ? request.shard - 1 : request.shard + 1;
    request.position = request.cut_seq = 0;
    request.cut_entries = 0;
    return request;
}

/* --- cursors into what was flushed: "cPAGE.INCARNATION.NUMBER.INDEX.CUT_SEQ.CUT_ENTRIES", with ".SHARD" when
 * that is not the first; PAGE 0 is a shard's beginning --- */

bool scan_is_behind(const struct scan *scan, struct place place)
{
    bool same = place.incarnation == scan->begin_skip.incarnation && place.number == scan->begin_skip.number;
    return !same || place.index < scan->begin_skip.index;
}

char *scan_cursor(const struct scan *scan, const struct place *last)
{
    bool turns = last == NULL && scan->shard_done;
    struct mob_gcs_scan request = turns ? of_next_shard(scan) : scan->request;
    struct place here = scan->skipping ? scan->skip : (struct place){0};
    char *cursor = NULL, shard[16] = "";
    here.page = request.position;
    if (last == NULL)
        last = &here;
    if (last->page == 0 && !turns)
        return NULL;
    if (mob_gcs_shard_count(gcs_of(scan)) > 1)
        snprintf(shard, sizeof shard, ".%u", request.shard);
    int n = asprintf(&cursor, "c%llu.%llu.%llu.%u.%llu.%u%s", (unsigned long long)last->page,
        (unsigned long long)last->incarnation, (unsigned long long)last->number, last->index,
        (unsigned long long)request.cut_seq, request.cut_entries, shard);
    return n < 0 ? NULL : cursor;
}

bool scan_read_cursor(struct scan *scan, const char *cursor)
{
    unsigned long long page, incarnation, number, cut_seq;
    unsigned index, cut_entries, shard = 0, shards = mob_gcs_shard_count(gcs_of(scan));
    int end = 0, with_shard = 0;
    (void)!sscanf(cursor, "c%20llu.%20llu.%20llu.%10u.%20llu.%10u%n.%1u%n", &page, &incarnation, &number,
        &index, &cut_seq, &cut_entries, &end, &shard, &with_shard);
    if (shards > 1)
        end = with_shard;
    if (end == 0 || cursor[end] != 0 || shard >= shards || (page == 0 && shards == 1))
        return false;
    scan->placed = true;
    scan->request.shard = shard;
    scan->request.position = page;
    scan->request.cut_seq = cut_seq;
    scan->request.cut_entries = cut_entries;
    scan->skip = (struct place){.page = page, .incarnation = incarnation, .number = number, .index = index};
    return true;
}

/* --- pages --- */

/* Was this block given before? */
static bool passed_over(struct scan *scan, const struct mob_gcs_block_row *row)
{
    if (!scan->skipping)
        return false;
    if (row->incarnation != scan->skip.incarnation || row->number != scan->skip.number)
        return true;
    scan->skipping = false;
    return scan->skip.index == 0;
}

/* In the middle of a page of what was flushed one goes on by reading the page again. */
static void next_position(struct scan *scan, const struct mob_gcs_answer *answer, uint32_t read)
{
    const struct mob_gcs_block_row *last = read > 0 ? &answer->blocks[read - 1] : NULL;
    if (read == answer->block_count) {
        scan->request.position = answer->next;
    } else if (last && last->recut) {
        scan->skip = (struct place){.incarnation = last->incarnation, .number = last->number};
        scan->skipping = true;
    } else if (last) {
        scan->request.position = last->seq;
    }
}

static void on_page(void *arg, const struct mob_gcs_answer *answer);

static void fail(struct scan *scan, enum mob_status status)
{
    struct flight *flight = scan->flight;
    scan_destroy(scan);
    mob_text_fini(&flight->op->json);
    flight_fail(flight, status, NULL, "the control store does not answer");
}

static void read_page(struct scan *scan)
{
    if (scan->shard_done)
        scan->request = of_next_shard(scan);
    scan->shard_done = false;
    enum mob_status status = mob_gcs_scan(gcs_of(scan), &scan->request, on_page, scan);
    if (status != MOB_OK)
        fail(scan, status);
}

void scan_start(struct scan *scan)
{
    if (!scan->placed && scan->request.newest_first)
        scan->request.shard = mob_gcs_shard_count(gcs_of(scan)) - 1;
    scan->begin = scan->request;
    scan->begin_skip = scan->skip;
    scan->skipping = scan->skip.incarnation != 0;
    read_page(scan);
}

static void begin_again(void *arg)
{
    struct scan *scan = arg;
    forget_seen(scan);
    scan->names_missing = scan->full = scan->more = false;
    scan->names_read = true;
    scan->blocks = 0;
    scan->request = scan->begin;
    scan->shard_done = false;
    scan->skip = scan->begin_skip;
    scan->skipping = scan->skip.incarnation != 0;
    mob_text_fini(&scan->flight->op->json);
    scan->methods->restart(scan);
    read_page(scan);
}

static void end(struct scan *scan)
{
    struct flight *flight = scan->flight;
    if (scan->names_missing) {
        engine_functions_refresh(flight->engine, begin_again, scan);
        return;
    }
    scan->methods->finish(scan);
    scan_destroy(scan);
    flight_done(flight);
}

void scan_go_on(struct scan *scan, enum mob_status status)
{
    if (status != MOB_OK)
        fail(scan, status);
    else if (scan->full || !scan->more || scan->blocks >= SCAN_BLOCKS_MAX)
        end(scan);
    else
        read_page(scan);
}

static void read_block(struct scan *scan, const struct mob_gcs_block_row *row)
{
    struct mob_block_decoder *decoder = scan->flight->engine->decoder;
    struct mob_block_header header;
    struct mob_zone_map *zone = malloc(sizeof *zone);
    struct mob_entry *entry = malloc(sizeof *entry);
    MOB_ASSERT(zone && entry);
    enum mob_status status = mob_block_open(decoder, row->bytes, row->length, &header, zone);
    struct place place = {.seq = seq_of(scan, row->seq),
        .recut = row->recut != 0,
        .page = scan->request.position,
        .incarnation = row->incarnation,
        .number = row->number};
    scan->recut = place.recut;
    while (status == MOB_OK && (status = mob_block_next(decoder, entry)) == MOB_OK) {
        scan->methods->entry(scan, entry, &header, place);
        place.index += 1u << PLACE_SUB_BITS;
    }
    free(zone);
    free(entry);
    scan->blocks++;
    if (scan->methods->block_end)
        scan->methods->block_end(scan);
}

static void on_page(void *arg, const struct mob_gcs_answer *answer)
{
    struct scan *scan = arg;
    enum mob_status status = answer->status == MOB_NOT_FOUND ? MOB_OK : answer->status;
    uint32_t i = 0;
    scan->more = false; /* a method may say so, too: of what a block still holds */
    for (; status == MOB_OK && i < answer->block_count && !scan->full && scan->blocks < SCAN_BLOCKS_MAX; i++)
        if (!passed_over(scan, &answer->blocks[i]))
            read_block(scan, &answer->blocks[i]);
    scan->shard_done = i == answer->block_count && answer->next == 0 && !is_last_shard(scan);
    scan->more |= i < answer->block_count || answer->next != 0 || scan->shard_done;
    next_position(scan, answer, i);
    if (status == MOB_OK && scan->methods->page_end && !scan->methods->page_end(scan))
        return;
    scan_go_on(scan, status);
}
