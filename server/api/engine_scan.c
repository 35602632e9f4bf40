#include "server/api/engine_scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"

/* What is logged so much later than it happened counts as of when it was logged: a shard is not held up for
 * longer by something that is old. */
#define LATE_NS (10 * MOB_SEC)

static void read_pages(struct scan *scan);
static void run(struct scan *scan);
static void begin_again(void *arg);

struct scan *scan_create(struct flight *flight, const struct scan_methods *methods, void *context)
{
    struct scan *scan = calloc(1, sizeof *scan);
    MOB_ASSERT(scan != NULL);
    *scan = (struct scan){
        .flight = flight, .methods = methods, .context = context, .blocks_max = SCAN_BLOCKS_MAX};
    scan_seen_init(scan);
    scan->lane_count = mob_gcs_shard_count(flight->engine->gcs);
    for (uint32_t i = 0; i < scan->lane_count; i++)
        scan->lanes[i].scan = scan;
    return scan;
}

static void forget_page(struct scan_lane *lane)
{
    mob_gcs_result_destroy(lane->page.result);
    lane->page = (struct mob_gcs_sync){0};
    lane->at = 0;
}

static void scan_destroy(struct scan *scan)
{
    whole_end(&scan->whole);
    for (uint32_t i = 0; i < scan->lane_count; i++)
        forget_page(&scan->lanes[i]);
    scan_seen_fini(scan);
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

/* NULL: no such name yet, the scan will find out. */
static const char *scan_function_name(struct scan *scan, struct mob_function_id id)
{
    const struct function_name *f = engine_function_of(scan->flight->engine, id);
    if (!f && !scan->names_read)
        scan->names_missing |= engine_function_is_missing(scan->flight->engine, id);
    return f ? f->name : NULL;
}

void scan_full_name(
    struct scan *scan, struct mob_function_id id, uint8_t kind, uint16_t method, char *out, size_t capacity)
{
    scan_function_name(scan, id); /* notes one that has to be asked for */
    engine_full_name(scan->flight->engine, id, kind, method, out, capacity);
}

int64_t scan_wall_us(const struct mob_block_header *header, int64_t mono_ns)
{
    return mono_ns ? (mono_ns + header->wall_ns - header->mono_ns) / 1000 : 0;
}

/* --- places --- */

/* The next block of a shard, as far as its page is there. */
static const struct mob_gcs_block_row *head_of(const struct scan_lane *lane)
{
    const struct mob_gcs_answer *a = lane->page.result ? mob_gcs_result_answer(lane->page.result) : NULL;
    return a && lane->at < a->block_count ? &a->blocks[lane->at] : NULL;
}

bool scan_has_more(const struct scan *scan)
{
    bool more = scan->more;
    for (uint32_t i = 0; i < scan->lane_count; i++)
        more |= scan->lanes[i].held || head_of(&scan->lanes[i]) || !scan->lanes[i].ended;
    return more;
}

static struct scan_mark flushed_mark(const struct scan_lane *lane, uint64_t position)
{
    return (struct scan_mark){.kind = SCAN_MARK_FLUSHED,
        .position = position,
        .cut_seq = lane->request.cut_seq,
        .cut_entries = lane->request.cut_entries,
        .time_ns = lane->time_ns};
}

struct scan_mark scan_mark_at(const struct scan *scan, struct place place)
{
    uint32_t index = place.index == SCAN_MARK_WHOLE ? SCAN_MARK_WHOLE : place.index + 1;
    if (!place.recut)
        return (struct scan_mark){
            .kind = SCAN_MARK_BLOCK, .position = place.seq, .index = index, .time_ns = place.turn_ns};
    struct scan_mark mark = flushed_mark(&scan->lanes[place.shard], place.page);
    mark.index = index;
    mark.incarnation = place.incarnation;
    mark.number = place.number;
    mark.time_ns = place.turn_ns;
    return mark;
}

static struct place place_of(const struct scan_lane *lane, const struct mob_gcs_block_row *row)
{
    return (struct place){.shard = (uint32_t)(lane - lane->scan->lanes),
        .seq = row->seq,
        .recut = row->recut != 0,
        .page = lane->page_position,
        .incarnation = row->incarnation,
        .number = row->number,
        .turn_ns = lane->time_ns};
}

/* Of a block that was not looked at: all that was not given before. */
static uint32_t entries_left(const struct scan_mark *begin, struct place place)
{
    bool is_first = place.recut ? begin->kind == SCAN_MARK_FLUSHED &&
            begin->incarnation == place.incarnation && begin->number == place.number
                                : begin->kind == SCAN_MARK_BLOCK && begin->position == place.seq;
    return is_first ? begin->index - 1 : SCAN_MARK_WHOLE;
}

struct scan_mark scan_mark_now(const struct scan *scan, uint32_t shard)
{
    const struct scan_lane *lane = &scan->lanes[shard];
    const struct mob_gcs_block_row *head = head_of(lane);
    if (head) {
        struct place place = place_of(lane, head);
        place.index = entries_left(&lane->begin, place);
        return scan_mark_at(scan, place);
    }
    if (lane->ended)
        return (struct scan_mark){.kind = SCAN_MARK_END};
    struct scan_mark mark = flushed_mark(lane, lane->request.position);
    if (lane->skipping) { /* it is in none of the pages so far */
        mark.index = lane->begin.index;
        mark.incarnation = lane->begin.incarnation;
        mark.number = lane->begin.number;
    }
    return mark;
}

static void begin_lane(struct scan_lane *lane)
{
    const struct scan_mark *m = &lane->begin;
    forget_page(lane);
    lane->request = lane->scan->request;
    lane->request.shard = (uint32_t)(lane - lane->scan->lanes);
    lane->held = false;
    lane->ended = m->kind == SCAN_MARK_END;
    lane->skipping = m->kind == SCAN_MARK_FLUSHED && m->incarnation != 0;
    if (m->kind == SCAN_MARK_BEGIN)
        lane->time_ns = lane->request.newest_first ? INT64_MAX : INT64_MIN;
    else
        lane->time_ns = m->time_ns;
    if (m->kind == SCAN_MARK_FLUSHED) {
        lane->request.position = m->position;
        lane->request.cut_seq = m->cut_seq;
        lane->request.cut_entries = m->cut_entries;
    } else if (m->kind == SCAN_MARK_BLOCK) { /* the block itself, too, when there is something left of it */
        uint32_t of_entry = (1u << PLACE_SUB_BITS) - 1; /* some of its rows are left: the entry, too */
        lane->request.position = m->position + (m->index > 0);
        lane->request.cut_seq = m->position;
        lane->request.cut_entries = (uint32_t)(((uint64_t)m->index + of_entry) >> PLACE_SUB_BITS);
    }
}

void scan_begin_at(struct scan *scan, const struct scan_mark *marks)
{
    for (uint32_t i = 0; i < scan->lane_count; i++)
        scan->lanes[i].begin = marks[i];
}

bool scan_is_behind(const struct scan *scan, struct place place)
{
    const struct scan_mark *m = &scan->lanes[place.shard].begin;
    if (m->kind == SCAN_MARK_BLOCK && !place.recut)
        return place.seq < m->position || (place.seq == m->position && place.index < m->index);
    bool same = m->kind == SCAN_MARK_FLUSHED && place.recut && place.incarnation == m->incarnation &&
        place.number == m->number;
    return !same || place.index < m->index;
}

/* --- pages --- */

/* Was this block given before? */
static bool passed_over(struct scan_lane *lane, const struct mob_gcs_block_row *row)
{
    if (!lane->skipping)
        return false;
    if (row->incarnation != lane->begin.incarnation || row->number != lane->begin.number)
        return true;
    lane->skipping = false;
    return lane->begin.index == 0;
}

int64_t scan_turn_ns(const struct mob_block_header *header, int64_t wall_ns)
{
    int64_t logged_ns = (int64_t)((uint64_t)header->wall_ns - LATE_NS);
    return wall_ns > logged_ns ? wall_ns : logged_ns;
}

/* A block's newest (oldest) time. */
static int64_t time_of(const struct mob_gcs_block_row *row, bool newest)
{
    static _Thread_local struct mob_zone_map zone;
    struct mob_block_header header;
    if (mob_block_peek(row->bytes, row->length, &header, &zone) != MOB_OK)
        return newest ? INT64_MIN : INT64_MAX; /* nothing will be read of it */
    int64_t mono_ns = newest ? zone.time_max_ns : zone.time_min_ns;
    /* Blocks say what times they like: the sum may wrap, and is then as good as any. */
    uint64_t wall_ns = (uint64_t)mono_ns + (uint64_t)header.wall_ns - (uint64_t)header.mono_ns;
    return scan_turn_ns(&header, mono_ns ? (int64_t)wall_ns : header.wall_ns);
}

void scan_lane_move(struct scan_lane *lane, int64_t time_ns)
{
    if (lane->request.newest_first ? time_ns < lane->time_ns : time_ns > lane->time_ns)
        lane->time_ns = time_ns;
}

void scan_lane_narrow(struct scan_lane *lane, int64_t from_wall_ns)
{
    struct mob_gcs_scan *request = &lane->request;
    if (lane->skipping || from_wall_ns <= request->from_wall_ns)
        return; /* skipping: the block that is looked for may be older */
    request->from_wall_ns = from_wall_ns;
    request->to_wall_ns = request->to_wall_ns ? request->to_wall_ns : INT64_MAX;
}

/* There may be another block in front. */
static void look_at_head(struct scan_lane *lane)
{
    const struct mob_gcs_block_row *row;
    while ((row = head_of(lane)) && passed_over(lane, row))
        lane->at++;
    if (row && lane->scan->lane_count > 1)
        scan_lane_move(lane, time_of(row, lane->request.newest_first));
}

static bool is_empty(const struct scan_lane *lane)
{
    return lane->ended && !lane->held && !head_of(lane);
}

static bool lacks_page(const struct scan_lane *lane)
{
    return !lane->ended && !lane->held && !head_of(lane);
}

/* The shard whose block or row is next; NULL: there is none, or it is not known before a page has come. */
static struct scan_lane *next_lane(struct scan *scan)
{
    struct scan_lane *next = NULL;
    for (uint32_t i = 0; i < scan->lane_count; i++) {
        struct scan_lane *lane = &scan->lanes[i];
        if (is_empty(lane))
            continue;
        if (lacks_page(lane))
            return NULL;
        bool sooner = next &&
            (scan->request.newest_first ? lane->time_ns > next->time_ns : lane->time_ns < next->time_ns);
        if (!next || sooner)
            next = lane;
    }
    return next;
}

bool scan_is_turn_of(struct scan *scan, const struct scan_lane *lane)
{
    return next_lane(scan) == lane;
}

void scan_each_entry(struct engine *engine, const struct mob_gcs_block_row *row, scan_entry_fn *fn, void *arg)
{
    struct mob_block_header header;
    struct mob_zone_map *zone = malloc(sizeof *zone);
    struct mob_entry *entry = malloc(sizeof *entry);
    MOB_ASSERT(zone && entry);
    enum mob_status status = mob_block_open(engine->decoder, row->bytes, row->length, &header, zone);
    while (status == MOB_OK && (status = mob_block_next(engine->decoder, entry)) == MOB_OK)
        fn(arg, entry, &header);
    free(zone);
    free(entry);
}

struct block_reading {
    struct scan *scan;
    struct place place; /* of the next entry */
};

static void read_entry(void *arg, const struct mob_entry *entry, const struct mob_block_header *header)
{
    struct block_reading *r = arg;
    r->scan->methods->entry(r->scan, entry, header, r->place);
    r->place.index += 1u << PLACE_SUB_BITS;
}

static void read_block(struct scan *scan, const struct mob_gcs_block_row *row, struct place place)
{
    struct block_reading r = {scan, place};
    scan->recut = place.recut;
    scan_each_entry(scan->flight->engine, row, read_entry, &r);
    scan->blocks++;
    if (scan->methods->block_end)
        scan->methods->block_end(scan, &scan->lanes[place.shard]);
}

static bool slice_is_over(const struct scan *scan)
{
    return scan->is_whole && whole_slice_is_over(&scan->whole);
}

static void read_blocks(struct scan *scan)
{
    struct scan_lane *lane;
    while (!scan->full && !slice_is_over(scan) && (lane = next_lane(scan))) {
        if (lane->held) {
            scan->methods->take(scan, lane);
        } else if (scan->blocks >= scan->blocks_max) {
            break;
        } else {
            const struct mob_gcs_block_row *row = head_of(lane);
            lane->at++;
            read_block(scan, row, place_of(lane, row));
        }
        if (!lane->held)
            look_at_head(lane);
    }
}

static void fail(struct scan *scan)
{
    struct flight *flight = scan->flight;
    enum mob_status status = scan->status;
    scan_destroy(scan);
    mob_text_fini(&flight->op->json);
    if (status == MOB_TOO_MUCH)
        whole_fail(flight, status);
    else
        flight_fail(flight, status, NULL,
            status == MOB_EXPIRED ? "the place that the cursor names is gone, with its job or its day"
                                  : "the control store does not answer");
}

/* From there on the scan has a beginning that does not move. */
static void pin(struct scan_lane *lane)
{
    if (lane->begin.kind != SCAN_MARK_BEGIN)
        return;
    lane->begin = scan_mark_now(lane->scan, lane->request.shard);
}

static void on_page(void *arg, const struct mob_gcs_answer *answer)
{
    struct scan_lane *lane = arg;
    struct scan *scan = lane->scan;
    bool good = answer->status == MOB_OK || answer->status == MOB_NOT_FOUND;
    forget_page(lane);
    mob_gcs_sync_done(&lane->page, answer);
    if (!good || !lane->page.result)
        scan->status = good ? MOB_NO_MEMORY : answer->status;
    lane->page_position = lane->request.position;
    lane->request.position = answer->next;
    lane->ended = answer->next == 0;
    look_at_head(lane);
    if (scan->request.newest_first)
        pin(lane);
    if (--scan->awaited == 0)
        run(scan);
}

/* Of all shards that lack one; run goes on when they are there. */
static void read_pages(struct scan *scan)
{
    scan->awaited = 1; /* this function */
    for (uint32_t i = 0; i < scan->lane_count && scan->status == MOB_OK; i++) {
        struct scan_lane *lane = &scan->lanes[i];
        if (!lacks_page(lane))
            continue;
        scan->status = mob_gcs_scan(scan->flight->engine->gcs, &lane->request, on_page, lane);
        scan->awaited += scan->status == MOB_OK;
    }
    if (--scan->awaited == 0)
        fail(scan); /* not one was asked for, and one was lacking */
}

static void begin_again(void *arg)
{
    struct scan *scan = arg;
    scan_seen_clear(scan);
    scan_met_clear(scan);
    scan->names_missing = scan->full = scan->more = false;
    scan->names_read = true;
    scan->blocks = 0;
    for (uint32_t i = 0; i < scan->lane_count; i++)
        begin_lane(&scan->lanes[i]);
    mob_text_fini(&scan->flight->op->json);
    scan->methods->restart(scan);
    run(scan);
}

void scan_start(struct scan *scan)
{
    for (uint32_t i = 0; i < scan->lane_count; i++)
        begin_lane(&scan->lanes[i]);
    run(scan);
}

static void begin_turn(void *context)
{
    scan_start(context);
}

static void refuse_turn(void *context, enum mob_status status)
{
    struct scan *scan = context;
    struct flight *flight = scan->flight;
    scan_destroy(scan);
    mob_text_fini(&flight->op->json);
    whole_fail(flight, status);
}

void scan_start_whole(struct scan *scan)
{
    scan->is_whole = true;
    scan->blocks_max = UINT32_MAX;
    whole_begin(&scan->whole, scan->flight, begin_turn, refuse_turn, scan);
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

static bool needs_page(const struct scan *scan)
{
    for (uint32_t i = 0; i < scan->lane_count; i++)
        if (lacks_page(&scan->lanes[i]))
            return true;
    return false;
}

static bool nothing_left(const struct scan *scan)
{
    for (uint32_t i = 0; i < scan->lane_count; i++)
        if (!is_empty(&scan->lanes[i]))
            return false;
    return true;
}

/* The block that a cursor names was not found: what is behind it is not known. */
static bool lost_place(const struct scan *scan)
{
    for (uint32_t i = 0; i < scan->lane_count; i++)
        if (is_empty(&scan->lanes[i]) && scan->lanes[i].skipping)
            return true;
    return false;
}

static bool is_over(const struct scan *scan)
{
    return scan->full || scan->blocks >= scan->blocks_max || nothing_left(scan);
}

void scan_start_over(struct scan *scan)
{
    scan_seen_clear(scan);
    scan_met_clear(scan);
    scan->full = scan->more = false;
    scan->blocks = 0;
    for (uint32_t i = 0; i < scan->lane_count; i++) {
        scan->lanes[i].begin = (struct scan_mark){0};
        begin_lane(&scan->lanes[i]);
    }
}

/* There is more to read of what is here. */
static bool is_cut_by_slice(const struct scan *scan)
{
    return slice_is_over(scan) && !is_over(scan) && !needs_page(scan);
}

enum over { OVER_ENDED, OVER_AWAITED, OVER_AGAIN };

/* ENDED: the scan is gone, or will be. */
static enum over step_over(struct scan *scan)
{
    bool done = !scan->methods->over || scan->methods->over(scan);
    if (done && is_over(scan)) {
        end(scan);
        return OVER_ENDED;
    }
    return done || scan->resumed ? OVER_AGAIN : OVER_AWAITED;
}

static void go_on(void *context)
{
    run(context);
}

/* False: it is not to go on now. */
static bool may_go_on(struct scan *scan)
{
    if (scan->status == MOB_OK && lost_place(scan))
        scan->status = MOB_EXPIRED;
    if (scan->status == MOB_OK && scan->is_whole && whole_is_late(&scan->whole))
        scan->status = MOB_TOO_MUCH;
    if (scan->status != MOB_OK) {
        fail(scan);
        return false;
    }
    if (scan->is_whole && scan->names_missing) {
        scan->names_missing = false;
        scan->runs = false;
        engine_functions_refresh(scan->flight->engine, begin_again, scan);
        return false;
    }
    if (slice_is_over(scan)) {
        scan->runs = false;
        whole_pause(&scan->whole, go_on);
        return false;
    }
    return true;
}

/* Until a page is awaited, or what a method waits for, or the end, or its next slice. */
static void run(struct scan *scan)
{
    const struct scan_methods *methods = scan->methods;
    scan->runs = true;
    for (bool going = true; going;) {
        if (!may_go_on(scan))
            return;
        scan->resumed = false;
        if (is_over(scan)) {
            switch (step_over(scan)) {
            case OVER_ENDED:
                return;
            case OVER_AWAITED:
                going = false;
                break;
            case OVER_AGAIN:
                break;
            }
        } else if (needs_page(scan)) {
            scan->runs = false;
            read_pages(scan);
            return;
        } else {
            read_blocks(scan);
            if (is_cut_by_slice(scan))
                continue;
            going = !methods->page_end || methods->page_end(scan) || scan->resumed;
        }
    }
    scan->runs = false;
}

void scan_go_on(struct scan *scan, enum mob_status status)
{
    scan->status = status;
    scan->resumed = true;
    if (!scan->runs)
        run(scan);
}
