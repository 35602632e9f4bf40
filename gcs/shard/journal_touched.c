#include "gcs/shard/journal_touched.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"

#define PLACES_AT_LEAST 1024u
#define REPLACED 0x8000u /* in the length of a key */

/* Before each key. */
struct head {
    uint64_t version;
    uint16_t key_length;
};
#define HEAD_BYTES 10u

static struct head head_read(const uint8_t *at)
{
    struct head h;
    memcpy(&h.version, at, sizeof h.version);
    memcpy(&h.key_length, at + sizeof h.version, sizeof h.key_length);
    return h;
}

static void head_write(uint8_t *at, struct head h)
{
    memcpy(at, &h.version, sizeof h.version);
    memcpy(at + sizeof h.version, &h.key_length, sizeof h.key_length);
}

void mob_touched_begin(struct mob_touched *t)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity == 0 ? 16 : t->capacity * 2;
        t->segments = realloc(t->segments, t->capacity * sizeof *t->segments);
    }
    MOB_ASSERT(t->segments != NULL);
    t->segments[t->count++] = t->spare;
    t->spare = (struct mob_touched_segment){0};
}

struct mob_touched_segment *mob_touched_newest(struct mob_touched *t)
{
    return t->count == 0 ? NULL : &t->segments[t->count - 1];
}

/* Twice as many places as rows; those of before are forgotten, and found in the tables. */
static void places_grow(struct mob_touched *t)
{
    size_t count = t->place_count == 0 ? PLACES_AT_LEAST : t->place_count;
    while (count < 2 * t->row_count)
        count *= 2;
    if (count == t->place_count)
        return;
    free(t->places);
    t->places = calloc(count, sizeof *t->places);
    MOB_ASSERT(t->places != NULL);
    t->place_count = count;
}

/* The row that was last added of those whose hash leads here; NULL: there is none any more. */
static uint8_t *row_at(const struct mob_touched *t, struct mob_touched_place place)
{
    uint32_t at = place.segment - (uint32_t)t->first;
    if (place.segment == 0 || at >= t->count || place.row >= t->segments[at].length)
        return NULL;
    return t->segments[at].rows + place.row;
}

/* That one, if it has this key; else NULL. */
static uint8_t *row_before(
    const struct mob_touched *t, struct mob_touched_place place, const struct mob_touched_row *row)
{
    uint8_t *before = row_at(t, place);
    bool same = before != NULL && head_read(before).key_length == row->key_length &&
        memcmp(before + HEAD_BYTES, row->key, row->key_length) == 0;
    return same ? before : NULL;
}

static uint8_t *append(struct mob_touched_segment *segment, size_t bytes)
{
    if (segment->length + bytes > segment->capacity) {
        segment->capacity = 2 * segment->capacity + bytes + 1024;
        segment->rows = realloc(segment->rows, segment->capacity);
        MOB_ASSERT(segment->rows != NULL);
    }
    segment->length += bytes;
    return segment->rows + segment->length - bytes;
}

static void add(struct mob_touched *t, const struct mob_touched_row *row, struct mob_touched_place *place)
{
    struct mob_touched_segment *newest = mob_touched_newest(t);
    uint8_t *before = row_before(t, *place, row);
    if (before != NULL) {
        struct head replaced = head_read(before);
        replaced.key_length |= REPLACED;
        head_write(before, replaced);
    }
    *place = (struct mob_touched_place){
        .segment = (uint32_t)(t->first + t->count - 1), .row = (uint32_t)newest->length};
    uint8_t *at = append(newest, HEAD_BYTES + row->key_length);
    head_write(at, (struct head){.version = row->version, .key_length = (uint16_t)row->key_length});
    memcpy(at + HEAD_BYTES, row->key, row->key_length);
}

/* Place and row before are mostly in no cache: all rows' are asked for before the first is waited for. */
void mob_touched_add(struct mob_touched *t, const struct mob_touched_row *rows, size_t count)
{
    struct mob_touched_place *places[MOB_TOUCHED_TOGETHER];
    MOB_ASSERT(mob_touched_newest(t) != NULL && count <= MOB_TOUCHED_TOGETHER);
    t->row_count += count;
    places_grow(t);
    for (size_t i = 0; i < count; i++) {
        MOB_ASSERT(rows[i].key_length < REPLACED);
        places[i] = &t->places[mob_hash64(rows[i].key, rows[i].key_length) & (t->place_count - 1)];
        __builtin_prefetch(places[i], 1);
    }
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(row_at(t, *places[i]), 1);
    for (size_t i = 0; i < count; i++)
        add(t, &rows[i], places[i]);
}

bool mob_touched_left(const struct mob_touched *t, size_t *at, struct mob_touched_row *row_out)
{
    const struct mob_touched_segment *oldest = &t->segments[0];
    while (*at < oldest->length) {
        const uint8_t *row = oldest->rows + *at;
        struct head h = head_read(row);
        uint32_t key_length = h.key_length & (REPLACED - 1u);
        *at += HEAD_BYTES + key_length;
        if ((h.key_length & REPLACED) != 0)
            continue;
        *row_out =
            (struct mob_touched_row){.key = row + HEAD_BYTES, .key_length = key_length, .version = h.version};
        return true;
    }
    return false;
}

static size_t rows_of(const struct mob_touched_segment *segment)
{
    size_t rows = 0;
    for (size_t at = 0; at < segment->length; rows++)
        at += HEAD_BYTES + (head_read(segment->rows + at).key_length & (REPLACED - 1u));
    return rows;
}

void mob_touched_drop(struct mob_touched *t)
{
    MOB_ASSERT(t->count > 0);
    t->row_count -= rows_of(&t->segments[0]);
    free(t->spare.rows);
    t->spare = (struct mob_touched_segment){.rows = t->segments[0].rows, .capacity = t->segments[0].capacity};
    memmove(t->segments, t->segments + 1, --t->count * sizeof *t->segments);
    t->first++;
}

void mob_touched_fini(struct mob_touched *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        free(t->segments[i].rows);
    free(t->segments);
    free(t->spare.rows);
    free(t->places);
    *t = (struct mob_touched){.first = 1};
}
