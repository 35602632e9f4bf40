/* FLUSH: what PostgreSQL has leaves the member. In Redis a FLUSH sets the position and deletes the blocks in
 * one pass. What the flushed blocks leave unfinished is kept as a note of each FLUSH, and now and then as one
 * sum of all; a FLUSH that is written again after Redis died sets and deletes the same.
 */
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>

#define SUM_PART_GROUPS 40000u /* of a value: 800 KB */

struct sum_head {
    uint64_t upto, parts;
};

static uint32_t group_count(const struct mob_chain_entry *e)
{
    return e->body_bytes / (uint32_t)sizeof(struct mob_gcs_flush_group);
}

static struct mob_gcs_flush_group group_at(const uint8_t *rows, uint32_t i)
{
    struct mob_gcs_flush_group group; /* rows are not aligned */
    memcpy(&group, rows + i * sizeof group, sizeof group);
    return group;
}

enum mob_status flushed_check(
    const struct mob_shard *sh, const struct mob_gcs_request *r, uint32_t body_bytes)
{
    if (body_bytes % sizeof(struct mob_gcs_flush_group) != 0)
        return MOB_INVALID;
    if (body_bytes / sizeof(struct mob_gcs_flush_group) > MOB_GCS_FLUSH_GROUPS_MAX)
        return MOB_TOO_LARGE;
    return r->target > mob_chain_applied(sh->chain) ? MOB_INVALID : MOB_OK;
}

void flushed_apply(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    struct mob_flushed *f = &sh->flushed;
    uint64_t upto = mob_chain_flush_upto(e);
    if (upto <= f->applied)
        return;
    f->applied = upto;
    uint64_t dropped = mob_index_flush(sh->index, upto);
    f->blocks += dropped;
    for (uint32_t i = 0; i < group_count(e); i++) {
        struct mob_gcs_flush_group group = group_at(e->body, i);
        mob_index_flush_group(sh->index, &group);
    }
    sh->dropped_since_sweep += dropped;
    struct mob_index_figures figures;
    mob_index_figures(sh->index, &figures);
    /* As many dropped as are left: so a sweep costs each block a constant. Small numbers wait. */
    uint64_t enough = figures.blocks == 0 ? 0 : figures.blocks + 1024;
    if (sh->dropped_since_sweep > enough) {
        mob_index_sweep(sh->index);
        sh->dropped_since_sweep = 0;
    }
}

/* ---- in Redis ---- */

static void remember_note(struct mob_flushed *f, uint64_t number)
{
    for (uint32_t i = 0; i < f->note_count; i++)
        if (f->notes[i] == number)
            return; /* written again */
    /* One that is forgotten stays as garbage: it is in the sum, and not counted. */
    if (f->note_count < FLUSH_NOTES_KEPT)
        f->notes[f->note_count++] = number;
}

static void put_note(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    uint8_t key[9];
    if (e->body_bytes == 0)
        return;
    mob_redis_key(key, 'n', e->number);
    store_set(sh, key, sizeof key, e->body, e->body_bytes);
    remember_note(&sh->flushed, e->number);
}

/* All notes become one sum. Only when the index is as this entry leaves it. */
static void put_sum(struct mob_shard *sh)
{
    struct mob_flushed *f = &sh->flushed;
    size_t count;
    struct mob_gcs_flush_group *groups = mob_index_cold_groups(sh->index, false, &count);
    struct sum_head head = {.upto = f->applied, .parts = (count + SUM_PART_GROUPS - 1) / SUM_PART_GROUPS};
    size_t room = sizeof head + (count < SUM_PART_GROUPS ? count : SUM_PART_GROUPS) * sizeof *groups;
    uint8_t key[9], *value = malloc(room);
    MOB_ASSERT(value != NULL);
    memcpy(value, &head, sizeof head);
    for (uint64_t part = 0; part < head.parts; part++) {
        size_t at = part * SUM_PART_GROUPS, n = count - at < SUM_PART_GROUPS ? count - at : SUM_PART_GROUPS;
        memcpy(value + sizeof head, groups + at, n * sizeof *groups);
        mob_redis_key(key, 'N', part);
        store_set(sh, key, sizeof key, value, sizeof head + n * sizeof *groups);
    }
    for (uint64_t part = head.parts; part < f->sum_parts; part++) {
        mob_redis_key(key, 'N', part);
        store_delete(sh, key, sizeof key);
    }
    for (uint32_t i = 0; i < f->note_count; i++) {
        mob_redis_key(key, 'n', f->notes[i]);
        store_delete(sh, key, sizeof key);
    }
    f->sum_parts = head.parts;
    f->sum_upto = head.upto;
    f->note_count = 0;
    free(value);
    free(groups);
}

static void store_sum(struct mob_shard *sh)
{
    if (sh->flushed.applied == 0)
        return;
    store_set(sh, "f", 1, &sh->flushed.applied, sizeof sh->flushed.applied);
    put_sum(sh);
    sh->flushed.stored = sh->flushed.applied;
}

/* Blocks that were flushed while they were on their way to this joiner are in its Redis: the FLUSH comes in
 * the log, and takes what is behind this position only. */
static void delete_flushed_blocks(struct mob_shard *sh, uint64_t upto)
{
    uint8_t key[9];
    for (uint32_t at = mob_index_after(sh->index, 0); at < mob_index_after(sh->index, upto); at++) {
        const struct mob_index_slot *slot = mob_index_slot(sh->index, at);
        if (slot == NULL)
            continue;
        mob_redis_key(key, 'b', slot->seq);
        store_delete(sh, key, sizeof key);
    }
}

void flushed_join(struct mob_shard *sh, uint64_t upto)
{
    if (sh->store.link != NULL)
        delete_flushed_blocks(sh, upto);
    sh->flushed.applied = upto;
    mob_index_flush(sh->index, upto);
    store_sum(sh);
}

void flushed_store(struct mob_shard *sh, const struct mob_chain_entry *e)
{
    struct mob_flushed *f = &sh->flushed;
    uint8_t key[9];
    if (mob_chain_flush_upto(e) <= f->stored)
        return;
    bool newest = e->seq == sh->indexed;
    store_set(sh, "f", 1, &e->number, sizeof e->number);
    if (f->note_count >= FLUSH_NOTES_MAX && newest)
        put_sum(sh);
    else
        put_note(sh, e);
    /* Positions that are no blocks are not there, which costs less than to know. */
    for (uint64_t seq = f->stored + 1; seq <= e->number; seq++) {
        mob_redis_key(key, 'b', seq);
        store_delete(sh, key, sizeof key);
    }
    f->stored = e->number;
}

/* ---- from Redis: the sum, then the notes, each once ---- */

static enum mob_status load_groups(struct mob_shard *sh, const uint8_t *rows, size_t bytes)
{
    if (bytes % sizeof(struct mob_gcs_flush_group) != 0)
        return MOB_CORRUPT;
    for (uint32_t i = 0; i < bytes / sizeof(struct mob_gcs_flush_group); i++) {
        struct mob_gcs_flush_group group = group_at(rows, i);
        mob_index_load_group(sh->index, &group);
    }
    return MOB_OK;
}

void flushed_load_position(struct mob_shard *sh, uint64_t upto)
{
    sh->flushed = (struct mob_flushed){.applied = upto, .stored = upto};
    mob_state_set_flushed(sh->state, upto);
}

enum mob_status flushed_load_sum(struct mob_shard *sh, uint64_t part, const uint8_t *value, size_t length)
{
    struct sum_head head;
    if (length < sizeof head)
        return MOB_CORRUPT;
    memcpy(&head, value, sizeof head);
    if (part >= head.parts || (part > 0 && head.upto != sh->flushed.sum_upto))
        return MOB_CORRUPT;
    sh->flushed.sum_upto = head.upto;
    sh->flushed.sum_parts++;
    return load_groups(sh, value + sizeof head, length - sizeof head);
}

enum mob_status flushed_load_note(struct mob_shard *sh, uint64_t number, const uint8_t *value, size_t length)
{
    struct mob_flushed *f = &sh->flushed;
    remember_note(f, number);
    if (number <= f->sum_upto)
        return MOB_OK; /* left over from a moment at which Redis died; goes with the next sum */
    return load_groups(sh, value, length);
}
