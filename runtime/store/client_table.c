/* Node side of clients: opening a slot with its rings, and taking back everything when its process has ended.
 */
#include "runtime/store/store_internal.h"

#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

enum {
    RING_BYTES_MIN = 4096,
    RING_BYTES_MAX = 1 << 28,
    OTHER_RING_BYTES_MIN = 256 << 10, /* holds the largest record, 96 KiB, at any position */
    OTHER_RING_BYTES = 4 << 20,
    OTHER_RING_PART = 256, /* each takes at most this part of the segment */
    WORKER_PINS = 256,
    OTHER_PINS = 4096,
    PINS_MAX = 1 << 20,
    BLOCKED_WORKERS = 2048 /* whose rings, at the default bound, take at most half of the segment */
};

/* With their pins these take `units` and no more. A batch of 1,024 small tasks fits into the largest. */
static const struct {
    uint32_t units, out_bytes, in_bytes;
} worker_rings[] = {
    {7, 256 << 10, 128 << 10}, {4, 128 << 10, 64 << 10}, {2, 64 << 10, 32 << 10}, {1, 16 << 10, 32 << 10}};

static void size_worker_rings(const struct mob_view *view, struct mob_client_options *options)
{
    uint32_t i = 0;
    while (worker_rings[i].units > 1 && worker_rings[i].units > view->units / 2 / BLOCKED_WORKERS)
        i++;
    options->out_ring_bytes = options->out_ring_bytes ? options->out_ring_bytes : worker_rings[i].out_bytes;
    options->in_ring_bytes = options->in_ring_bytes ? options->in_ring_bytes : worker_rings[i].in_bytes;
    options->pins_max = options->pins_max ? options->pins_max : WORKER_PINS;
}

static void size_other_rings(const struct mob_view *view, struct mob_client_options *options)
{
    uint32_t bytes = OTHER_RING_BYTES;
    while (bytes > OTHER_RING_BYTES_MIN && bytes > view->bytes / OTHER_RING_PART)
        bytes /= 2;
    options->out_ring_bytes = options->out_ring_bytes ? options->out_ring_bytes : bytes;
    options->in_ring_bytes = options->in_ring_bytes ? options->in_ring_bytes : bytes;
    options->pins_max = options->pins_max ? options->pins_max : OTHER_PINS;
}

static bool ring_bytes_ok(uint32_t bytes)
{
    return bytes >= RING_BYTES_MIN && bytes <= RING_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

static uint32_t closed_slot(const struct mob_store *store)
{
    for (uint32_t slot = 0; slot < store->view.clients_max; slot++)
        if (!store->clients[slot].open)
            return slot;
    return UINT32_MAX;
}

static void reset_shared(struct mob_seg_client *shared)
{
    MOB_SEG_STORE(&shared->out_head, 0);
    MOB_SEG_STORE(&shared->out_released, 0);
    MOB_SEG_STORE(&shared->in_head, 0);
    MOB_SEG_STORE(&shared->in_urgent, 0);
    MOB_SEG_STORE(&shared->in_released, 0);
    MOB_SEG_STORE(&shared->in_begun, 0);
    MOB_SEG_STORE(&shared->asleep, 0);
    MOB_SEG_STORE(&shared->creates_begun, 0);
    MOB_SEG_STORE(&shared->creates_ended, 0);
    MOB_SEG_STORE(&shared->pins_top, 0);
    for (int i = 0; i < MOB_CLASS_COUNT; i++)
        MOB_SEG_STORE(&shared->current_chunk[i], 0);
}

enum mob_status mob_store_client_open(
    struct mob_store *store, const struct mob_client_options *options, uint32_t *slot_out)
{
    struct mob_client_options sized = *options;
    if (options->kind == MOB_CLIENT_WORKER)
        size_worker_rings(&store->view, &sized);
    else
        size_other_rings(&store->view, &sized);
    uint32_t out_bytes = sized.out_ring_bytes, in_bytes = sized.in_ring_bytes, pins_max = sized.pins_max;
    if (!ring_bytes_ok(out_bytes) || !ring_bytes_ok(in_bytes) || pins_max > PINS_MAX)
        return MOB_INVALID;
    uint32_t slot = closed_slot(store);
    if (slot == UINT32_MAX)
        return MOB_QUEUE_FULL;
    const struct mob_view *view = &store->view;
    uint64_t bytes = (uint64_t)out_bytes + in_bytes + (uint64_t)pins_max * sizeof(struct mob_seg_pin);
    uint32_t units = (uint32_t)((bytes + MOB_UNIT_BYTES - 1) / MOB_UNIT_BYTES);
    uint32_t first = mob_extent_claim(view, units, MOB_UNIT_MARK(MOB_UNIT_CLIENT, 0, slot), NULL);
    if (first == UINT32_MAX) {
        store->needed_bytes = bytes;
        return MOB_STORE_FULL;
    }

    uint64_t out_offset = view->arena_offset + (uint64_t)first * MOB_UNIT_BYTES;
    uint64_t in_offset = out_offset + out_bytes, pins_offset = in_offset + in_bytes;
    struct mob_seg_client *shared = &view->seg_clients[slot];
    struct mob_node_client *client = &store->clients[slot];
    *client = (struct mob_node_client){
        .seg_client = shared,
        .kind = options->kind,
        .open = true,
        .first_unit = first,
        .units = units,
        .pins_max = pins_max,
        .seg_pins = (struct mob_seg_pin *)(view->base + pins_offset),
        .out = {.bytes = view->base + out_offset, .size = out_bytes},
        .in = {.bytes = view->base + in_offset, .size = in_bytes},
    };
    for (uint32_t i = 0; i < pins_max; i++)
        MOB_SEG_STORE_RELAXED(&client->seg_pins[i].v, 0);
    reset_shared(shared);
    MOB_SEG_STORE(&shared->out_offset, out_offset);
    MOB_SEG_STORE(&shared->in_offset, in_offset);
    MOB_SEG_STORE(&shared->pins_offset, pins_offset);
    MOB_SEG_STORE(&shared->out_bytes, out_bytes);
    MOB_SEG_STORE(&shared->in_bytes, in_bytes);
    MOB_SEG_STORE(&shared->pins_max, pins_max);
    MOB_SEG_STORE(&shared->kind, (uint32_t)options->kind);
    store->clients_open++;
    if (slot >= store->clients_top)
        store->clients_top = slot + 1;
    *slot_out = slot;
    return MOB_OK;
}

void mob_store_client_ended(struct mob_store *store, uint32_t slot)
{
    MOB_ASSERT(slot < store->view.clients_max);
    if (store->clients[slot].open && !store->clients[slot].damaged)
        store->pending[slot / 64] |= 1ull << (slot % 64);
}

/* Half-made objects of a dead client carry its slot in their tags. Looking at all of them costs 0.1 ms a
 * megabyte. */
static void abort_unsealed(struct mob_store *store, uint32_t slot)
{
    const struct mob_view *view = &store->view;
    for (uint32_t index = 0; index < view->entries; index++) {
        uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[index].v);
        uint32_t state = mob_tag_state(tag);
        if ((state == MOB_TAG_CLAIMED || state == MOB_TAG_CREATING) && mob_tag_owner(tag) == slot)
            mob_entry_drop(store, index, tag);
    }
}

void mob_store_client_close(struct mob_store *store, uint32_t slot)
{
    MOB_ASSERT(slot < store->view.clients_max);
    struct mob_node_client *client = &store->clients[slot];
    if (!client->open)
        return;
    struct mob_seg_client *shared = client->seg_client;
    MOB_SEG_STORE(&shared->kind, 0);
    client->open = false; /* from here on its pins do not count */
    mob_inbound_close(store, client);
    free(client->parts.bytes);
    client->parts = (struct mob_parts){0};
    if (client->damaged || MOB_SEG_LOAD(&shared->creates_begun) != MOB_SEG_LOAD(&shared->creates_ended))
        abort_unsealed(store, slot);
    mob_slab_disown(&store->view, slot);
    mob_extent_free(&store->view, client->first_unit, client->units, MOB_UNIT_MARK(MOB_UNIT_CLIENT, 0, slot));
    store->pending[slot / 64] &= ~(1ull << (slot % 64));
    for (uint32_t i = 0; i < store->active_count; i++)
        if (store->active[i] == slot) {
            store->active[i--] = store->active[--store->active_count];
            store->current = UINT32_MAX;
        }
    if (client->damaged && !client->damage_reported)
        store->damages--;
    for (uint32_t i = 0; client->touched && i < store->touched_count; i++)
        if (store->touched[i] == slot) {
            store->touched[i] = store->touched[--store->touched_count];
            client->touched = false;
        }
    store->clients_open--;
}

bool mob_store_client_damaged(const struct mob_store *store, uint32_t slot)
{
    return slot < store->view.clients_max && store->clients[slot].open && store->clients[slot].damaged;
}

bool mob_store_damaged(const struct mob_store *store)
{
    return store->damaged;
}
