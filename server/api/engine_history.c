/* Readers of events whose place is older than what the hub keeps: the log is read for each of them page by
 * page, from PostgreSQL what was flushed and behind that from the members, until the reader has what it asked
 * for or has come to the present. Of several shards the one goes on whose log is the furthest behind by time.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_event_entries.h"

#define BLOCKS_A_ROUND 16 /* other requests have their turn in between */

struct history_row {
    uint64_t seq;
    size_t offset;
    uint32_t length;
    bool recut;
};
/* One reader. */
struct history {
    struct engine *engine;
    unsigned slot;
    bool reads; /* somebody's */
    bool waits; /* for what was asked */
    struct event_specs *specs; /* made at the first reader */
    struct mob_job_id job; /* of a filter by job; else zero */
    /* Of each shard: where the reading goes on (mob_gcs_scan), and how far it has come by time. */
    uint64_t next[MOB_GCS_SHARDS_MAX];
    int64_t wall_ns[MOB_GCS_SHARDS_MAX];
    bool done[MOB_GCS_SHARDS_MAX]; /* the present was reached */
    /* The page in hand. */
    uint32_t shard;
    uint8_t *bytes;
    size_t capacity;
    struct history_row *rows;
    uint32_t count, at;
    uint32_t from; /* entries of the row in hand that are done */
    bool named; /* its names were asked for */
    uint64_t page_next, page_seq;
};

/* --- asking --- */

static bool keep_page(struct history *h, const struct mob_gcs_answer *answer)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < answer->block_count; i++)
        bytes += answer->blocks[i].length;
    if (bytes > h->capacity) {
        uint8_t *grown = realloc(h->bytes, bytes);
        if (!grown)
            return false;
        h->bytes = grown;
        h->capacity = bytes;
    }
    bytes = 0;
    for (uint32_t i = 0; i < answer->block_count; i++) {
        const struct mob_gcs_block_row *row = &answer->blocks[i];
        memcpy(h->bytes + bytes, row->bytes, row->length);
        h->rows[i] = (struct history_row){row->seq, bytes, row->length, row->recut};
        bytes += row->length;
    }
    h->count = answer->block_count;
    return true;
}

/* Days whose time was over, or, at the end, positions that were lost with all members. */
static bool tell_gap(struct history *h, const struct mob_gcs_answer *answer)
{
    uint64_t to = answer->block_count > 0        ? answer->blocks[0].seq
        : (answer->next & MOB_GCS_COLD_BIT) != 0 ? mob_gcs_cold_seq(answer->next) + 1
                                                 : answer->seq + 1;
    return mob_events_behind_gap(h->engine->options.events, h->slot, h->shard, to);
}

static void pause_reader(struct history *h)
{
    mob_events_behind_pause(h->engine->options.events, h->slot, mob_now());
    h->reads = false;
    atomic_store(&h->engine->events_behind, true); /* to look when that is over */
}

static void on_page(void *arg, const struct mob_gcs_answer *answer)
{
    struct history *h = arg;
    h->waits = false;
    h->engine->worked++;
    h->count = h->at = h->from = 0;
    h->named = false;
    if (answer->status != MOB_OK) {
        pause_reader(h);
        return;
    }
    bool lost = answer->next == 0 && h->next[h->shard] != 0 && answer->block_count == 0 &&
        (h->next[h->shard] & MOB_GCS_COLD_BIT) == 0 && h->next[h->shard] > answer->seq;
    if ((answer->tie != 0 || lost) && !tell_gap(h, answer)) {
        h->reads = false;
        return;
    }
    h->page_next = answer->next;
    h->page_seq = answer->seq;
    if (!keep_page(h, answer))
        pause_reader(h);
}

/* False: nothing is left to ask for. */
static bool choose_shard(struct history *h)
{
    bool any = false;
    for (uint32_t i = 0; i < mob_gcs_shard_count(h->engine->gcs); i++)
        if (!h->done[i] && (!any || h->wall_ns[i] < h->wall_ns[h->shard])) {
            h->shard = i;
            any = true;
        }
    return any;
}

static void ask(struct history *h)
{
    if (!choose_shard(h)) { /* and the ring has gone on meanwhile */
        memset(h->done, 0, sizeof h->done);
        h->shard = 0;
    }
    const struct mob_gcs_scan scan = {
        .shard = h->shard, .history = true, .job = h->job, .position = h->next[h->shard]};
    h->waits = mob_gcs_scan(h->engine->gcs, &scan, on_page, h) == MOB_OK;
    if (!h->waits)
        pause_reader(h);
}

/* --- giving --- */

static bool give(void *arg, const struct mob_event *event)
{
    struct history *h = arg;
    return mob_events_behind_give(h->engine->options.events, h->slot, event);
}

static void asked_is_there(void *arg)
{
    struct history *h = arg;
    h->waits = false;
    h->engine->worked++;
}

static void note_time(struct history *h, const struct history_row *row)
{
    struct mob_block_header header;
    static struct mob_zone_map zone; /* too large for the stack; the engine's thread only */
    if (mob_block_peek(h->bytes + row->offset, row->length, &header, &zone) == MOB_OK)
        h->wall_ns[h->shard] = header.wall_ns;
}

/* True: the row in hand is done, and the reader is there. */
static bool row_goes(struct history *h)
{
    const struct history_row *row = &h->rows[h->at];
    const struct event_sink sink = {h->engine, h->specs, give, h};
    const struct event_block block = {h->shard, row->seq, h->bytes + row->offset, row->length, row->recut};
    if (!h->named && engine_event_names_missing(h->engine, block.bytes, block.length)) {
        h->named = h->waits = true;
        engine_functions_refresh(h->engine, asked_is_there, h);
        return false;
    }
    switch (engine_event_block(&sink, &block, &h->from)) {
    case EVENT_BLOCK_LACKS_SPECS:
        h->waits = true;
        event_specs_read(h->specs, &block, asked_is_there, h);
        return false;
    case EVENT_BLOCK_STOPPED:
        h->reads = false;
        break;
    case EVENT_BLOCK_DONE:
    default:
        h->reads = mob_events_behind_pass(h->engine->options.events, h->slot, h->shard, row->seq);
        break;
    }
    h->from = 0;
    h->named = false;
    return h->reads;
}

static void end_page(struct history *h)
{
    h->done[h->shard] = h->page_next == 0;
    h->next[h->shard] = h->page_next != 0 ? h->page_next : h->page_seq;
    if (h->count > 0)
        note_time(h, &h->rows[h->count - 1]);
    h->reads = (!h->done[h->shard] ||
                   mob_events_behind_pass(h->engine->options.events, h->slot, h->shard, h->page_seq)) &&
        mob_events_behind_turn(h->engine->options.events, h->slot, mob_now());
    h->count = h->at = 0;
    if (h->reads)
        ask(h);
}

static void go_on(struct history *h)
{
    for (unsigned n = 0; n < BLOCKS_A_ROUND && h->at < h->count; n++) {
        if (!row_goes(h))
            break;
        h->at++;
    }
    if (h->reads && !h->waits && h->at == h->count)
        end_page(h);
    if (!h->reads) { /* the slot is free */
        event_specs_block_end(h->specs);
        atomic_store(&h->engine->events_behind, true);
    }
}

/* --- a reader comes --- */

static bool begin(struct history *h, const struct mob_events_behind *reader)
{
    if (!h->specs)
        h->specs = event_specs_create(h->engine);
    if (!h->rows)
        h->rows = calloc(MOB_GCS_ROWS_MAX, sizeof *h->rows);
    if (!h->specs || !h->rows)
        return false;
    memset(h->done, 0, sizeof h->done);
    memset(h->wall_ns, 0, sizeof h->wall_ns);
    memset(&h->job, 0, sizeof h->job);
    if (strncmp(reader->key, "job:", 4) == 0 && mob_job_id_parse(reader->key + 4, &h->job) != MOB_OK)
        memset(&h->job, 0, sizeof h->job);
    for (uint32_t i = 0; i < reader->at.shards; i++) {
        /* A block that it has seen a part of comes again; what it has seen of it is passed over. */
        const struct mob_event_place *place = &reader->at.at[i];
        h->next[i] = place->index == UINT32_MAX || place->seq == 0 ? place->seq : place->seq - 1;
    }
    h->reads = true;
    h->shard = 0;
    h->count = h->at = h->from = 0;
    ask(h);
    return true;
}

static void take_readers(struct engine *engine, int64_t now_ns)
{
    struct mob_events_behind reader;
    int64_t wake_ns = INT64_MAX;
    engine->history_next_ns = INT64_MAX;
    for (unsigned i = 0; i < MOB_EVENTS_BEHIND_MAX; i++) {
        struct history *h = &engine->history[i];
        if (h->reads || h->waits)
            continue;
        if (!mob_events_behind_take(engine->options.events, i, now_ns, &reader, &wake_ns))
            break;
        if (!begin(h, &reader))
            mob_events_behind_pause(engine->options.events, i, now_ns);
    }
    if (wake_ns < engine->history_next_ns)
        engine->history_next_ns = wake_ns;
}

void engine_history_step(struct engine *engine, int64_t now_ns)
{
    if (!engine->gcs_up)
        return; /* as it comes up, this is called */
    if (now_ns >= engine->history_next_ns ||
        (atomic_load_explicit(&engine->events_behind, memory_order_relaxed) &&
            atomic_exchange(&engine->events_behind, false)))
        take_readers(engine, now_ns);
    for (unsigned i = 0; i < MOB_EVENTS_BEHIND_MAX; i++) {
        struct history *h = &engine->history[i];
        if (h->reads && !h->waits)
            go_on(h);
    }
}

enum mob_status engine_history_create(struct engine *engine)
{
    engine->history = calloc(MOB_EVENTS_BEHIND_MAX, sizeof *engine->history);
    engine->history_next_ns = INT64_MAX;
    for (unsigned i = 0; engine->history && i < MOB_EVENTS_BEHIND_MAX; i++) {
        engine->history[i].engine = engine;
        engine->history[i].slot = i;
    }
    return engine->history ? MOB_OK : MOB_NO_MEMORY;
}

void engine_history_destroy(struct engine *engine)
{
    for (unsigned i = 0; engine->history && i < MOB_EVENTS_BEHIND_MAX; i++) {
        event_specs_destroy(engine->history[i].specs);
        free(engine->history[i].bytes);
        free(engine->history[i].rows);
    }
    free(engine->history);
}
