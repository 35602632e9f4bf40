#include "tests/support/chain_fill.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"

#define WINDOW 32u
#define TASKS 128u
#define JOB 2 /* not that of other loads */

static void on_acked(void *arg, uint64_t count)
{
    ((struct chain_fill *)arg)->acked = count;
}

static void on_released(void *arg, struct mob_gcs_block *block)
{
    ((struct chain_fill *)arg)->released++;
    free(block);
}

static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    struct chain_fill *f = arg;
    snprintf(f->wrong, sizeof f->wrong, "the log of what fills it was sealed: %s, cut %llu",
        mob_status_code(why), (unsigned long long)cut);
}

void chain_fill_open(struct chain_fill *f, struct chain_box *box)
{
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, f};
    *f = (struct chain_fill){.gcs = chain_box_client(box)};
    f->hashes = calloc(CHAIN_FILL_BLOCKS_MAX, sizeof *f->hashes);
    MOB_ASSERT(f->hashes != NULL);
    enum mob_status status =
        mob_gcs_node_register_wait(f->gcs, "filler", mob_now() + 40 * MOB_SEC, &f->incarnation);
    if (status == MOB_OK)
        status = mob_gcs_log_open(f->gcs, f->incarnation, 0, &events, &f->log);
    if (status != MOB_OK)
        snprintf(f->wrong, sizeof f->wrong, "no log to fill it: %s", mob_status_code(status));
}

static void append(struct chain_fill *f)
{
    struct gcs_block_spec spec = {.incarnation = f->incarnation,
        .sequence = f->appended,
        .job = JOB,
        .stream = 1,
        .first_index = (uint32_t)f->appended * TASKS,
        .tasks = TASKS,
        .specs = true,
        .finals = true,
        .argument_bytes = 400};
    struct mob_gcs_block *block = gcs_block_new(&spec);
    uint32_t length = block->length;
    uint64_t hash = mob_hash64(block->bytes, length);
    if (mob_gcs_log_append(f->log, block) != MOB_OK) {
        free(block); /* later, then */
        return;
    }
    f->hashes[f->appended++] = hash;
    f->bytes += length;
}

bool chain_fill_step(struct chain_fill *f, uint64_t bytes)
{
    while (f->bytes < bytes && f->appended - f->acked < WINDOW && f->appended < CHAIN_FILL_BLOCKS_MAX &&
        f->wrong[0] == 0) {
        uint64_t before = f->appended;
        append(f);
        if (f->appended == before)
            break;
    }
    if (f->wrong[0] == 0)
        gcs_box_step(f->gcs, 0);
    if (f->wrong[0] == 0 && (f->bytes < bytes || f->released < f->appended))
        return false;
    mob_gcs_destroy(f->gcs);
    f->gcs = NULL;
    return true;
}

const char *chain_fill_check(struct chain_fill *f, struct chain_box *box, int64_t deadline_ns)
{
    struct mob_gcs *gcs = chain_box_client(box);
    uint64_t number = 0, next = 0;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *result = NULL;
        enum mob_status status = mob_gcs_log_read(gcs, f->incarnation, next, mob_gcs_sync_done, &sync);
        if (status == MOB_OK)
            status = mob_gcs_sync_wait(gcs, &sync, deadline_ns, &result);
        if (status != MOB_OK) {
            snprintf(f->wrong, sizeof f->wrong, "what filled it cannot be read: %s", mob_status_code(status));
            break;
        }
        const struct mob_gcs_answer *a = mob_gcs_result_answer(result);
        for (uint32_t i = 0; i < a->block_count && f->wrong[0] == 0; i++, number++)
            if (a->blocks[i].number != number || number >= f->appended ||
                mob_hash64(a->blocks[i].bytes, a->blocks[i].length) != f->hashes[number])
                snprintf(f->wrong, sizeof f->wrong, "block %llu stands at place %llu, or has another content",
                    (unsigned long long)a->blocks[i].number, (unsigned long long)number);
        next = a->next;
        mob_gcs_result_destroy(result);
    } while (next != 0 && f->wrong[0] == 0);
    if (f->wrong[0] == 0 && number != f->appended)
        snprintf(f->wrong, sizeof f->wrong, "%llu blocks filled it, and %llu are there",
            (unsigned long long)f->appended, (unsigned long long)number);
    mob_gcs_destroy(gcs);
    return f->wrong;
}

void chain_fill_close(struct chain_fill *f)
{
    mob_gcs_destroy(f->gcs);
    free(f->hashes);
}
