/* What is in the member and in PostgreSQL, block by block and entry by entry: blocks that were written and
 * have not left memory. Both go on meanwhile, so what differs is looked at again until it is the same or one
 * of the two is over with the block: it was flushed, or its job was deleted. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gcs_verify.h"
#include "common/base/array.h"
#include "common/base/hash.h"
#include "gcs/flush/cold.h"
#include "gcs/flush/cold_page.h"

#define AGAIN_MAX 30u /* times; readers look for deleted jobs each two seconds */

/* What the flusher's reader gives of the blocks that the member still has, one by one. */
struct history {
    struct mob_gcs_cold_get query;
    struct mob_gcs_cold_answer page;
    uint32_t at;
    bool failed;
};
struct both_check {
    struct verify *v;
    struct mob_cold *cold;
    struct history h;
    uint64_t flushed, watermark, same;
    uint64_t *differ; /* positions */
    size_t count, capacity;
    bool no_memory;
};

static uint64_t digest_of(struct verify *v, const struct mob_entry *e)
{
    static uint8_t bytes[MOB_BLOCK_BYTES_MAX];
    static const struct mob_block_header none = {.ns = "v"};
    mob_block_begin(v->encoder, &none);
    if (cold_page_encode(v->encoder, e) != MOB_OK)
        return 0;
    return mob_hash64(bytes, mob_block_end(v->encoder, bytes));
}

/* Of what the entries say, wherever they stand; *job_out: whose block it is. */
static uint64_t content_of(struct verify *v, const struct mob_gcs_block_row *row, struct mob_job_id *job_out)
{
    static struct mob_zone_map zone; /* too large for the stack */
    static struct mob_entry entry;
    struct mob_block_header h = {0};
    uint64_t digest = 0;
    enum mob_status status = mob_block_open(v->decoder, row->bytes, row->length, &h, &zone);
    *job_out = h.job;
    while (status == MOB_OK && (status = mob_block_next(v->decoder, &entry)) == MOB_OK) {
        uint64_t both[2] = {digest, digest_of(v, &entry)};
        digest = mob_hash64(both, sizeof both);
    }
    return status == MOB_CLOSED ? digest : 0;
}

static struct mob_gcs_result *scan_page(struct verify *v, uint64_t position, uint32_t limit)
{
    const struct mob_gcs_scan scan = {.position = position, .limit = limit};
    struct mob_gcs_sync sync = {0};
    return gcs_wait(v->g, mob_gcs_scan(v->g->gcs, &scan, mob_gcs_sync_done, &sync), &sync);
}

/* ---- side by side ---- */

static const struct mob_gcs_block_row *history_row(struct both_check *b)
{
    struct history *h = &b->h;
    while (h->at == h->page.block_count && h->query.get.position != 0 && !h->failed) {
        h->failed = mob_cold_read(b->cold, b->v->g->db, &h->query, &h->page) != MOB_OK;
        h->query.get.position = h->page.next;
        h->at = 0;
    }
    return h->failed || h->at == h->page.block_count ? NULL : &h->page.blocks[h->at];
}

static void differs(struct both_check *b, uint64_t seq)
{
    if (!mob_array_room((void **)&b->differ, b->count + 1, &b->capacity, sizeof *b->differ)) {
        b->no_memory = true;
        return;
    }
    b->differ[b->count++] = seq;
}

/* Blocks of PostgreSQL before `seq` are not in the member. */
static const struct mob_gcs_block_row *pass_to(struct both_check *b, uint64_t seq)
{
    const struct mob_gcs_block_row *there = history_row(b);
    for (; there != NULL && there->seq < seq; there = history_row(b)) {
        differs(b, there->seq);
        b->h.at++;
    }
    return there;
}

static void compare_block(struct both_check *b, const struct mob_gcs_block_row *here)
{
    struct mob_job_id job;
    const struct mob_gcs_block_row *there = pass_to(b, here->seq);
    bool found = there != NULL && there->seq == here->seq;
    bool same = found && content_of(b->v, here, &job) == content_of(b->v, there, &job);
    b->same += same;
    if (found)
        b->h.at++;
    if (!same)
        differs(b, here->seq);
}

static bool compare_all(struct both_check *b)
{
    uint64_t position = b->flushed;
    while (position < b->watermark) {
        struct mob_gcs_result *r = scan_page(b->v, position, 0);
        if (r == NULL)
            return false;
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count && a->blocks[i].seq <= b->watermark; i++)
            if (a->blocks[i].seq > b->flushed && !a->blocks[i].recut)
                compare_block(b, &a->blocks[i]);
        position = a->next == 0 ? UINT64_MAX : a->next;
        mob_gcs_result_destroy(r);
    }
    (void)pass_to(b, b->watermark + 1);
    return !b->h.failed;
}

/* ---- looked at again ---- */

/* One block as either has it. */
struct side {
    bool there;
    uint64_t content;
    struct mob_job_id job;
};

static bool side_here(struct verify *v, uint64_t seq, struct side *out)
{
    *out = (struct side){0};
    struct mob_gcs_result *r = scan_page(v, seq - 1, 1);
    if (r == NULL)
        return false;
    const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
    out->there = a->block_count > 0 && a->blocks[0].seq == seq && !a->blocks[0].recut;
    if (out->there)
        out->content = content_of(v, &a->blocks[0], &out->job);
    mob_gcs_result_destroy(r);
    return true;
}

static bool side_there(struct both_check *b, uint64_t seq, struct side *out)
{
    const struct mob_gcs_cold_get query = {.upto = seq,
        .get = {.query = MOB_GCS_Q_HISTORY, .limit = 1, .position = mob_gcs_cold_position(seq - 1, 0)}};
    struct mob_gcs_cold_answer answer;
    *out = (struct side){0};
    if (mob_cold_read(b->cold, b->v->g->db, &query, &answer) != MOB_OK)
        return false;
    out->there = answer.block_count > 0 && answer.blocks[0].seq == seq;
    if (out->there)
        out->content = content_of(b->v, &answer.blocks[0], &out->job);
    return true;
}

/* The members have dropped it, and the flusher is told to (runtime/node/jobs.c). */
static bool to_be_deleted(struct verify *v, struct mob_job_id job)
{
    uint8_t key[sizeof MOB_GCS_KEY_FLUSH_GONE - 1 + sizeof job];
    struct mob_gcs_result *row = NULL;
    memcpy(key, MOB_GCS_KEY_FLUSH_GONE, sizeof MOB_GCS_KEY_FLUSH_GONE - 1);
    memcpy(key + sizeof MOB_GCS_KEY_FLUSH_GONE - 1, &job, sizeof job);
    enum mob_status status =
        mob_gcs_get_wait(v->g->gcs, MOB_GCS_KV, key, sizeof key, mob_now() + GCS_ANSWER_NS, &row);
    mob_gcs_result_destroy(row);
    return status == MOB_OK;
}

/* *wrong_out: what is wrong with it now, or NULL. False: one of them does not answer. */
static bool look_at(struct both_check *b, uint64_t seq, const char **wrong_out)
{
    struct mob_gcs_stats now;
    struct side here, there;
    *wrong_out = NULL;
    if (!side_there(b, seq, &there) || !side_here(b->v, seq, &here))
        return false;
    bool differ = here.there != there.there || here.content != there.content;
    if (!differ || (there.there && !here.there && to_be_deleted(b->v, there.job)))
        return true;
    if (!gcs_stats(b->v->g, &now))
        return false;
    if (now.flushed < seq) /* else it is in PostgreSQL only, and looked at there */
        *wrong_out = here.there && there.there ? "another in PostgreSQL"
            : here.there                       ? "not in PostgreSQL"
                                               : "in PostgreSQL and not in the member";
    return true;
}

static bool look_again(struct both_check *b)
{
    const char *wrong;
    for (unsigned times = 0; verify_again(b->count, times, AGAIN_MAX); times++) {
        size_t left = 0;
        if (times > 0)
            verify_pause();
        for (size_t i = 0; i < b->count; i++) {
            if (!look_at(b, b->differ[i], &wrong))
                return false;
            if (wrong != NULL)
                b->differ[left++] = b->differ[i];
        }
        b->count = left;
    }
    for (size_t i = 0; i < b->count && i < VERIFY_NAMED_MAX; i++) {
        if (!look_at(b, b->differ[i], &wrong))
            return false;
        if (wrong != NULL)
            cli_say("the block at %" PRIu64 " is %s", b->differ[i], wrong);
    }
    return true;
}

bool verify_both(struct verify *v)
{
    char figures[VERIFY_FIGURES_MAX];
    struct mob_gcs_stats now;
    struct both_check b = {.v = v, .cold = mob_cold_create(v->g->shard)};
    bool good = b.cold != NULL && gcs_stats(v->g, &now);
    if (good) {
        b.flushed = now.flushed;
        b.watermark = (uint64_t)gcs_shard_number(v->g, "SELECT upto FROM mobula.watermark WHERE shard = $1");
        if (b.watermark > b.flushed)
            b.h.query = (struct mob_gcs_cold_get){.upto = b.watermark,
                .get = {.query = MOB_GCS_Q_HISTORY, .position = mob_gcs_cold_position(b.flushed, 0)}};
        good = compare_all(&b) && look_again(&b) && !b.no_memory;
    }
    if (good) {
        snprintf(figures, sizeof figures, "%" PRIu64 " blocks the same, %zu not", b.same, b.count);
        verify_say(
            v, b.count == 0 ? VERIFY_GOOD : VERIFY_BAD, "what is in both places, entry by entry", figures);
    } else {
        cli_say("PostgreSQL or the member does not answer");
    }
    mob_cold_destroy(b.cold);
    free(b.differ);
    return good;
}
