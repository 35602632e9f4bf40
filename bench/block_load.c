#include "bench/block_load.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/wire/block_format.h"
#include "tests/support/gcs_box.h"

#define POOL_BLOCKS 65536u

struct block_load_slot {
    struct mob_gcs_block block;
    struct block_load_slot *next;
    uint8_t bytes[];
};

static void on_acked(void *arg, uint64_t count)
{
    ((struct block_load *)arg)->acked = count;
}
static void on_released(void *arg, struct mob_gcs_block *block)
{
    struct block_load *r = arg;
    struct block_load_slot *slot = (struct block_load_slot *)block;
    slot->next = r->free;
    r->free = slot;
    r->released++;
}
static void on_sealed(void *arg, enum mob_status why, uint64_t cut)
{
    (void)arg;
    fprintf(stderr, "block load: log sealed: %s at %llu\n", mob_status_code(why), (unsigned long long)cut);
    exit(1);
}

/* The template with another sequence and stream, so that each block has groups of its own. */
static void stamp(uint8_t *bytes, uint64_t sequence)
{
    struct block_front front;
    memcpy(&front, bytes, sizeof front);
    front.sequence = sequence;
    uint8_t *stream = bytes + front.front_bytes;
    struct mob_stream plain = gcs_block_stream(1, 1);
    stream = memmem(stream, front.zone_bytes, &plain, 2);
    if (stream != NULL)
        memcpy(stream + 2, &sequence, sizeof sequence);
    memcpy(bytes, &front, sizeof front);
    front.front_crc =
        mob_crc32c(bytes + BLOCK_CRC_FROM, front.front_bytes - BLOCK_CRC_FROM + front.zone_bytes);
    memcpy(bytes, &front, sizeof front);
}

static bool append_one(struct block_load *r)
{
    struct block_load_slot *slot = r->free;
    if (slot == NULL) {
        if (r->appended - r->released >= POOL_BLOCKS)
            return false;
        slot = malloc(sizeof *slot + r->length);
        memcpy(slot->bytes, r->template_bytes, r->length);
    } else {
        r->free = slot->next;
    }
    stamp(slot->bytes, r->appended);
    slot->block = (struct mob_gcs_block){.bytes = slot->bytes, .length = r->length};
    if (mob_gcs_log_append(r->log, &slot->block) != MOB_OK) {
        slot->next = r->free;
        r->free = slot;
        return false;
    }
    r->appended++;
    return true;
}

void block_load_wait(struct block_load *r, bool durable)
{
    while (durable ? r->released < r->appended : r->acked < r->appended) {
        struct pollfd p = {.fd = mob_gcs_fd(r->gcs), .events = POLLIN};
        mob_gcs_step(r->gcs, mob_now());
        poll(&p, 1, 100);
    }
}

void block_load_run(struct block_load *r, double seconds)
{
    int64_t end = mob_now() + (int64_t)(seconds * 1e9);
    while (mob_now() < end) {
        while (r->appended - r->acked < r->window && append_one(r)) {
        }
        mob_gcs_step(r->gcs, mob_now());
        if (r->appended - r->acked >= r->window || r->appended - r->released >= POOL_BLOCKS) {
            struct pollfd p = {.fd = mob_gcs_fd(r->gcs), .events = POLLIN};
            poll(&p, 1, 100);
        }
    }
    block_load_wait(r, false);
}

void block_load_open(struct block_load *r, struct mob_gcs *gcs, uint64_t window, uint32_t argument_bytes)
{
    uint64_t incarnation = 0;
    *r = (struct block_load){.gcs = gcs, .window = window, .template_bytes = malloc(MOB_BLOCK_BYTES_MAX)};
    MOB_ASSERT(r->template_bytes != NULL);
    MOB_ASSERT(mob_gcs_node_register_wait(gcs, "bench", mob_now() + 10 * MOB_SEC, &incarnation) == MOB_OK);
    struct gcs_block_spec spec = {.incarnation = incarnation,
        .job = 1,
        .stream = 1,
        .tasks = BLOCK_LOAD_TASKS,
        .specs = true,
        .finals = true,
        .argument_bytes = argument_bytes};
    r->length = gcs_block_make(&spec, r->template_bytes, MOB_BLOCK_BYTES_MAX);
    struct mob_gcs_log_events events = {on_acked, on_released, on_sealed, r};
    MOB_ASSERT(mob_gcs_log_open(gcs, incarnation, 0, &events, &r->log) == MOB_OK);
}

void block_load_fini(struct block_load *r)
{
    for (struct block_load_slot *slot = r->free, *next; slot != NULL; slot = next) {
        next = slot->next;
        free(slot);
    }
    free(r->template_bytes);
}
