/* A hostile client, driven by bytes: it writes anywhere in the segment, and between its writes the node runs
 * all that it has. Used by the fuzz target and by a test with random bytes. What it looks for is a crash, a
 * hang, or a read outside of the mapping, which lies between guard pages.
 */
#ifndef MOB_TESTS_SEGMENT_HARNESS_H
#define MOB_TESTS_SEGMENT_HARNESS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/log.h"
#include "runtime/store/store_internal.h"

enum { HARNESS_CLIENTS = 3, HARNESS_IDS = 16, HARNESS_OPS_MAX = 400 };

struct harness {
    struct mob_store *store;
    struct mob_store_client
        *honest; /* makes the objects that the hostile one disturbs; may fail, must not crash */
    uint32_t slots[HARNESS_CLIENTS];
    char directory[64];
    uint8_t value[4096];
    uint64_t value_size, large_size;
    uint8_t *large;
};

static inline struct mob_object_id harness_id(uint8_t n)
{
    struct mob_object_id id = {.slot = n & 1u};
    id.task.stream.b[0] = 1;
    id.task.index = n % HARNESS_IDS;
    return id;
}

static inline void harness_open(struct harness *h)
{
    memset(h, 0, sizeof *h);
    snprintf(h->directory, sizeof h->directory, "/tmp/mobula_segment_XXXXXX");
    MOB_ASSERT(mkdtemp(h->directory) != NULL);
    struct mob_store_options options = {
        .struct_size = sizeof options,
        .segment_bytes = 3 << 20,
        .spill_dir = h->directory,
        .spill_quota_bytes = 4 << 20,
    };
    MOB_ASSERT(mob_store_create(&options, &h->store) == MOB_OK);
    static const enum mob_client_kind kinds[] = {MOB_CLIENT_WORKER, MOB_CLIENT_DRIVER, MOB_CLIENT_GATEWAY};
    for (int i = 0; i < HARNESS_CLIENTS; i++) {
        struct mob_client_options client = {
            .kind = kinds[i], .out_ring_bytes = 4096, .in_ring_bytes = 4096, .pins_max = 8};
        MOB_ASSERT(mob_store_client_open(h->store, &client, &h->slots[i]) == MOB_OK);
    }
    MOB_ASSERT(mob_store_attach(mob_store_memfd(h->store), mob_store_eventfd(h->store), h->slots[0],
                   &h->honest) == MOB_OK);
    uint8_t *payload;
    h->value_size = sizeof h->value;
    MOB_ASSERT(
        mob_value_init(h->value, h->value_size, MOB_TYPE_BYTES, 4000, NULL, 0, NULL, 0, &payload) == MOB_OK);
    h->large_size = 200000;
    h->large = calloc(1, h->large_size);
    MOB_ASSERT(h->large &&
        mob_value_init(h->large, h->large_size, MOB_TYPE_BYTES, h->large_size - 64, NULL, 0, NULL, 0,
            &payload) == MOB_OK);
}

static inline void harness_close(struct harness *h)
{
    mob_store_detach(h->honest);
    mob_store_destroy(h->store);
    rmdir(h->directory);
    free(h->large);
}

/* Somewhere that matters: one of the tables, a ring, a chunk's header, or anywhere. */
static inline uint8_t *harness_place(const struct harness *h, uint8_t region, uint32_t at)
{
    const struct mob_view *view = &h->store->view;
    const struct mob_node_client *client = &h->store->clients[h->slots[at % HARNESS_CLIENTS]];
    uint32_t used = view->entries; /* entries of the few ids lie anywhere */
    switch (region % 10) {
    case 0:
        return view->base + at % sizeof(struct mob_seg_header);
    case 1:
        return (uint8_t *)view->seg_clients + at % (HARNESS_CLIENTS * sizeof(struct mob_seg_client));
    case 2:
        return (uint8_t *)view->seg_home + at % (used / MOB_GROUP_ENTRIES * 4);
    case 3:
        return (uint8_t *)view->seg_tags + at % (used * 4);
    case 4:
        return (uint8_t *)view->unit_map + at % (view->units * 4);
    case 5:
    case 6: { /* the entry of an id that may be there */
        uint32_t tag;
        uint32_t index = mob_table_find(view, harness_id((uint8_t)at), &tag);
        return (uint8_t *)&view->seg_table[index == UINT32_MAX ? at % used : index] + (at >> 8) % 64;
    }
    case 7:
        /* half of them right where the node reads next */
        return view->base + (client->out.bytes - view->base) +
            (at & 1u ? (client->out.taken + (at >> 2) % 64) & (client->out.size - 1)
                     : (at >> 2) % client->out.size);
    case 8:
        return (uint8_t *)mob_view_chunk(view, at % view->units) + (at >> 8) % 300;
    default:
        return view->base + (uint64_t)at * 8 % view->bytes;
    }
}

static inline void harness_write(
    const struct harness *h, uint8_t region, uint32_t at, uint64_t bits, uint8_t how)
{
    uint8_t *place = harness_place(h, region, at);
    uint32_t length = 1u << (how & 3u);
    if (how & 4u)
        place = h->store->view.base + ((uint64_t)(place - h->store->view.base) & ~(uint64_t)(length - 1));
    if (place + length > h->store->view.base + h->store->view.bytes)
        return;
    uint64_t old = 0;
    memcpy(&old, place, length);
    /* A bit, a small step, small numbers, or all of it. */
    uint64_t value = how & 8u ? old ^ 1ull << (bits % 64)
        : how & 16u           ? old + (bits & 255u) - 128
        : how & 32u           ? bits % 4096
                              : bits;
    memcpy(place, &value, length);
}

static inline void harness_pass(struct harness *h)
{
    uint32_t slot, damaged;
    struct mob_record record;
    const uint8_t *body;
    int limit = 10000;
    volatile uint8_t sum = 0;
    mob_store_pass_begin(h->store);
    while (mob_store_next(h->store, &slot, &record, &body, &damaged)) {
        MOB_ASSERT(--limit > 0);
        for (uint32_t i = 0; i + sizeof record < record.bytes; i++)
            sum = (uint8_t)(sum + body[i]);
        mob_store_ack(h->store, slot, mob_store_taken(h->store, slot));
    }
    mob_store_pass_end(h->store);
}

static inline void harness_reopen(struct harness *h, uint8_t which)
{
    uint32_t i = which % HARNESS_CLIENTS;
    if (i == 0)
        return;
    mob_store_client_ended(h->store, h->slots[i]);
    harness_pass(h);
    mob_store_client_close(h->store, h->slots[i]);
    struct mob_client_options client = {
        .kind = MOB_CLIENT_WORKER, .out_ring_bytes = 4096, .in_ring_bytes = 4096, .pins_max = 8};
    uint32_t slot;
    if (mob_store_client_open(h->store, &client, &slot) == MOB_OK)
        h->slots[i] = slot;
}

static inline void harness_object(struct harness *h, uint8_t op, struct mob_object_id id, uint8_t arg)
{
    struct mob_object_info info;
    struct mob_hash128 hash;
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size, room;
    bool there;
    volatile uint8_t sum = 0;
    int64_t n = arg;
    switch (op) {
    case 0:
        (void)mob_store_object_info(h->store, id, &info);
        break;
    case 1:
        if (mob_store_object_bytes(h->store, id, arg & 1, &type, &bytes, &size) == MOB_OK)
            for (uint64_t i = 0; i < size; i += 61)
                sum = (uint8_t)(sum + bytes[i]);
        break;
    case 2:
        (void)!mob_store_object_put(h->store, id, MOB_TYPE_I64, true, &n, sizeof n);
        break;
    case 3:
        (void)!mob_store_object_put(h->store, id, MOB_TYPE_BYTES, false, h->value, h->value_size);
        break;
    case 4:
        (void)!mob_store_object_put(h->store, id, MOB_TYPE_BYTES, false, h->large, h->large_size);
        break;
    case 5:
        mob_store_seal_published(h->store, id, h->slots[arg % HARNESS_CLIENTS]);
        break;
    case 6:
        mob_store_object_committed(h->store, id, arg & 1);
        break;
    case 7:
        mob_store_object_keep(h->store, id, arg & 1);
        break;
    case 8:
        mob_store_object_delete(h->store, id);
        break;
    case 9:
        (void)!mob_store_make_room(h->store, arg & 1 ? &id : NULL, (uint64_t)arg << 12, &room);
        break;
    case 10:
        (void)!mob_store_hash_later(h->store, id);
        break;
    case 12:
        mob_store_object_unwanted(h->store, id);
        break;
    case 11:
        mob_store_maintain(h->store, 0);
        (void)mob_store_next_hash(h->store, &id, &there, &hash);
        break;
    default:
        break;
    }
}

static inline void harness_honest(struct harness *h, uint8_t op, struct mob_object_id id)
{
    struct mob_object_ref ref;
    int64_t n = 1;
    void *to;
    struct mob_piece piece = {h->value, (uint32_t)(op * 7)};
    switch (op % 4) {
    case 0:
        if (mob_store_put_small(h->honest, id, MOB_TYPE_I64, &n, sizeof n, &ref) == MOB_OK && (op & 4))
            mob_store_object_seal(h->honest, ref);
        break;
    case 1:
        if (mob_store_object_create(h->honest, id, h->value_size, &ref, &to) == MOB_OK) {
            memcpy(to, h->value, h->value_size);
            if (op & 4)
                mob_store_object_seal(h->honest, ref);
        }
        break;
    case 2:
        if (mob_store_object_create(h->honest, id, h->large_size, &ref, &to) == MOB_OK) {
            memcpy(to, h->large, h->large_size);
            if (op & 4)
                mob_store_object_seal(h->honest, ref);
        }
        break;
    default:
        (void)!mob_store_publish(h->honest, MOB_OUT_EVENT, 0, 0, &piece, 1);
        break;
    }
}

/* One step out of the input; false at its end. */
static inline bool harness_step(struct harness *h, struct mob_reader *in)
{
    uint8_t op = mob_read_u8(in), arg = mob_read_u8(in);
    if (!mob_reader_ok(in))
        return false;
    struct mob_store_stats stats;
    struct mob_store_full full;
    if (op < 112) {
        uint8_t how = mob_read_u8(in);
        uint32_t at = mob_read_u32(in);
        harness_write(h, arg, at, mob_read_u64(in), how);
    } else if (op < 192) {
        harness_object(h, (uint8_t)(op % 13), harness_id(arg), (uint8_t)(arg >> 4));
    } else if (op < 224) {
        harness_honest(h, (uint8_t)(op & 15u), harness_id(arg));
    } else if (op < 240) {
        harness_pass(h);
    } else if (op < 248) {
        uint32_t slot = h->slots[arg % HARNESS_CLIENTS];
        void *body = mob_store_in_reserve(h->store, slot, MOB_IN_REPLY, 0, 0, arg * 8u);
        if (body)
            memset(body, arg, arg * 8u);
        mob_store_in_flush(h->store, slot);
    } else if (op < 252) {
        harness_reopen(h, arg);
    } else {
        mob_store_announce_sleep(h->store);
        (void)mob_store_has_news(h->store);
        mob_store_announce_awake(h->store);
        mob_store_stats(h->store, &stats);
        mob_store_full_details(h->store, &full);
        (void)mob_store_check(h->store);
    }
    return true;
}

#endif
