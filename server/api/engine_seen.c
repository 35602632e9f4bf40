/* What a scan knows of tasks whose entries it has met. */
#include <stdlib.h>

#include "common/base/log.h"
#include "server/api/engine_scan.h"

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
    scan->seen_count++;
    return s;
}

void scan_seen_drop(struct scan *scan, struct mob_task_id id)
{
    struct seen **at = &scan->seen[mob_task_id_mix(id) % SEEN_BUCKETS];
    while (*at && !mob_task_id_eq((*at)->id, id))
        at = &(*at)->next;
    struct seen *s = *at;
    if (!s)
        return;
    *at = s->next;
    free(s);
    scan->seen_count--;
}

void scan_seen_clear(struct scan *scan)
{
    for (size_t b = 0; b < SEEN_BUCKETS; b++) {
        for (struct seen *s = scan->seen[b], *next; s; s = next) {
            next = s->next;
            free(s);
        }
        scan->seen[b] = NULL;
    }
    scan->seen_count = 0;
}

void scan_seen_init(struct scan *scan)
{
    scan->seen = calloc(SEEN_BUCKETS, sizeof *scan->seen);
    MOB_ASSERT(scan->seen != NULL);
}

void scan_seen_fini(struct scan *scan)
{
    scan_seen_clear(scan);
    free(scan->seen);
    scan->seen = NULL;
    scan_met_clear(scan);
}

/* ---- ids that were met, without more: the last ones ---- */

#define MET_SLOTS_MIN 1024u

static bool is_free(struct mob_task_id id)
{
    return mob_task_id_is_zero(id);
}

/* Where it is, or would be. */
static struct mob_task_id *slot_of(const struct met_ids *ids, struct mob_task_id id)
{
    uint32_t at = (uint32_t)(mob_task_id_mix(id) >> 20) & (ids->slots - 1);
    while (!is_free(ids->ids[at]) && !mob_task_id_eq(ids->ids[at], id))
        at = (at + 1) & (ids->slots - 1);
    return &ids->ids[at];
}

static bool has(const struct met_ids *ids, struct mob_task_id id)
{
    return ids->slots > 0 && !is_free(*slot_of(ids, id));
}

static void grow(struct met_ids *ids)
{
    struct met_ids larger = {.slots = ids->slots ? 2 * ids->slots : MET_SLOTS_MIN, .count = ids->count};
    larger.ids = calloc(larger.slots, sizeof *larger.ids);
    MOB_ASSERT(larger.ids != NULL);
    for (uint32_t i = 0; i < ids->slots; i++)
        if (!is_free(ids->ids[i]))
            *slot_of(&larger, ids->ids[i]) = ids->ids[i];
    free(ids->ids);
    *ids = larger;
}

bool scan_met(struct scan *scan, struct mob_task_id id)
{
    struct met_ids *newest = &scan->met[0], *before = &scan->met[1];
    if (has(newest, id) || has(before, id))
        return true;
    if (newest->count == MET_MAX) {
        free(before->ids);
        *before = *newest;
        *newest = (struct met_ids){0};
    }
    if (2 * newest->count >= newest->slots)
        grow(newest);
    *slot_of(newest, id) = id;
    newest->count++;
    return false;
}

void scan_met_clear(struct scan *scan)
{
    for (size_t i = 0; i < 2; i++) {
        free(scan->met[i].ids);
        scan->met[i] = (struct met_ids){0};
    }
}
