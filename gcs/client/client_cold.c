/* What the flusher says to a member: what is in PostgreSQL, and what is read there. */
#include "gcs/client/client_internal.h"

#include <stdlib.h>

void mob_gcs_cold_serve(struct mob_gcs *g, mob_gcs_cold_fn *query, void *arg)
{
    MOB_ASSERT(g->shard_count == 0);
    g->cold = query;
    g->cold_arg = arg;
}

/* Members count their tags each for itself, so an answer to one must never reach another, or its successor.
 */
#define TIME_SHIFT 48

static void say(struct mob_gcs *g)
{
    const struct mob_gcs_cold head = {.watermark = g->watermark};
    out_frame(g->tail, MOB_GCS_COLD, g->client, g->position.epoch, g->watermark_known ? &head : NULL,
        g->watermark_known ? sizeof head : 0, (const uint8_t *)&g->database,
        g->watermark_known ? sizeof g->database : 0, NULL);
}

void mob_gcs_cold_watermark(struct mob_gcs *g, uint64_t watermark, const struct mob_gcs_database *figures)
{
    MOB_ASSERT(g->cold != NULL);
    g->watermark_known = true;
    g->watermark = watermark;
    g->database = *figures;
    if (g->up && g->cold_said)
        say(g);
}

void cold_pump(struct mob_gcs *g)
{
    if (g->cold == NULL || g->cold_said || g->collecting || g->now_ns < g->reads_ns)
        return;
    g->cold_said = true;
    g->cold_time++;
    say(g);
}

void cold_down(struct mob_gcs *g)
{
    g->cold_said = false;
}

void cold_frame(struct mob_gcs *g, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_cold_get head;
    struct mob_gcs_group_key groups[MOB_GCS_GROUPS_MAX];
    if (mob_gcs_cold_get_decode(frame->head, frame->head_bytes, &head) != MOB_OK || g->cold == NULL ||
        frame->body_bytes > sizeof groups || frame->body_bytes % sizeof *groups != 0) {
        link_fail(g->tail, MOB_CORRUPT);
        return;
    }
    head.get.tag |= (uint64_t)g->cold_time << TIME_SHIFT;
    if (frame->body_bytes > 0)
        memcpy(groups, frame->body, frame->body_bytes);
    if (g->cold_said)
        g->cold(g->cold_arg, &head, groups, frame->body_bytes / (uint32_t)sizeof *groups);
}

enum mob_status mob_gcs_cold_answer(struct mob_gcs *g, const struct mob_gcs_cold_answer *answer)
{
    if (!g->up || !g->cold_said || answer->tag >> TIME_SHIFT != g->cold_time)
        return MOB_CLOSED;
    struct mob_gcs_rows head = {.tag = answer->tag & ((1ull << TIME_SHIFT) - 1),
        .status = answer->status,
        .kind = answer->status == MOB_OK ? MOB_GCS_ROWS_BLOCKS : MOB_GCS_ROWS_NONE,
        .count = answer->block_count,
        .tie = answer->tie,
        .next = answer->next};
    size_t bytes = 0;
    for (uint32_t i = 0; i < answer->block_count; i++)
        bytes += MOB_GCS_BLOCK_ROW_HEAD + answer->blocks[i].length;
    if (answer->block_count > MOB_GCS_ROWS_MAX || bytes + sizeof head > MOB_GCS_FRAME_CLIENT_MAX)
        return MOB_TOO_LARGE;
    uint8_t *body = malloc(bytes + 1), *at = body;
    if (body == NULL)
        return MOB_NO_MEMORY;
    for (uint32_t i = 0; i < answer->block_count; i++) {
        mob_gcs_block_row_encode(&answer->blocks[i], at);
        memcpy(at + MOB_GCS_BLOCK_ROW_HEAD, answer->blocks[i].bytes, answer->blocks[i].length);
        at += MOB_GCS_BLOCK_ROW_HEAD + answer->blocks[i].length;
    }
    out_frame(g->tail, MOB_GCS_COLD_ROWS, g->client, g->position.epoch, &head, sizeof head, body,
        (uint32_t)bytes, NULL);
    free(body);
    return MOB_OK;
}
