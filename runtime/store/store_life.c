/* Node side: life of the segment, and its figures. */
#include "runtime/store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/log.h"

static const uint64_t segment_bytes_min = 2u << 20;
enum {
    BYTES_PER_ENTRY = 4096,
    /* A table of this many entries stays in the last-level cache. Results of small tasks run through all of
     * it, and one that does not fit costs each side 100 ns more a task; so beyond it the table grows with a
     * quarter of the pace. */
    ENTRIES_CACHED = 1 << 18,
    ENTRIES_MIN = 1024,
    ENTRIES_MAX = 4 << 20,
    BYTES_PER_CLIENT = 65536,
    CLIENTS_MIN = 16
};

static uint64_t memory_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint32_t entries_for(uint64_t bytes)
{
    uint32_t entries = ENTRIES_MIN;
    while (entries < ENTRIES_MAX) {
        uint32_t pace = entries < ENTRIES_CACHED ? BYTES_PER_ENTRY : 4 * BYTES_PER_ENTRY;
        if ((uint64_t)entries * 2 * pace > bytes)
            break;
        entries *= 2;
    }
    return entries;
}

static uint32_t clients_for(uint64_t bytes)
{
    uint64_t clients = bytes / BYTES_PER_CLIENT;
    if (clients < CLIENTS_MIN)
        return CLIENTS_MIN;
    return clients > MOB_STORE_CLIENTS_MAX ? MOB_STORE_CLIENTS_MAX : (uint32_t)clients;
}

/* Sealed against shrinking: a client that truncates it would kill the node at its next access. */
static enum mob_status open_segment(struct mob_store *store, uint64_t bytes)
{
    store->memfd = memfd_create("mobula-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (store->memfd < 0)
        return MOB_IO;
    if (ftruncate(store->memfd, (off_t)bytes) != 0)
        return MOB_NO_MEMORY;
    if (fcntl(store->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return MOB_IO;
    store->eventfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return store->eventfd < 0 ? MOB_IO : MOB_OK;
}

static enum mob_status map_segment(struct mob_store *store, uint64_t bytes, uint32_t entries)
{
    uint32_t clients_max = clients_for(bytes);
    uint8_t *base = mob_segment_map(store->memfd, bytes);
    if (!base)
        return MOB_NO_MEMORY;
    if (!mob_view_layout(&store->view, base, bytes, clients_max, entries)) {
        mob_segment_unmap(base, bytes);
        MOB_LOG_ERROR(
            "store", "segment_too_small", "bytes=%llu entries=%u", (unsigned long long)bytes, entries);
        return MOB_INVALID;
    }
    struct mob_seg_header header = {
        .magic = MOB_SEGMENT_MAGIC,
        .version = MOB_SEGMENT_VERSION,
        .clients_max = clients_max,
        .segment_bytes = bytes,
        .incarnation = store->options.incarnation,
        .cluster = store->options.cluster,
        .entries = entries,
        .units = store->view.units,
    };
    MOB_SEG_COPY(store->view.seg_header, &header, sizeof header);
    mob_epoch_advance(store);
    return MOB_OK;
}

static enum mob_status allocate_private(struct mob_store *store)
{
    uint32_t clients_max = store->view.clients_max;
    store->clients = calloc(clients_max, sizeof *store->clients);
    store->active = calloc(clients_max, sizeof *store->active);
    store->touched = calloc(clients_max, sizeof *store->touched);
    store->record = aligned_alloc(MOB_CACHE_LINE, mob_round_up(MOB_RECORD_MAX, MOB_CACHE_LINE));
    store->entry_flags = calloc(store->view.entries, 1);
    store->entry_epochs = calloc(store->view.entries, sizeof *store->entry_epochs);
    if (!store->clients || !store->active || !store->touched || !store->record || !store->entry_flags ||
        !store->entry_epochs)
        return MOB_NO_MEMORY;
    mob_arena_user_init(&store->arena, &store->view, MOB_OWNER_NODE, NULL);
    enum mob_status status = mob_hash_queue_create(&store->hashes);
    if (status == MOB_OK && store->options.spill_dir)
        status = mob_spill_create(store->options.spill_dir, store->options.spill_quota_bytes, &store->spill);
    return status;
}

enum mob_status mob_store_create(const struct mob_store_options *options, struct mob_store **store_out)
{
    if (options->struct_size != sizeof *options)
        return MOB_INVALID;
    struct mob_store *store = calloc(1, sizeof *store);
    if (!store)
        return MOB_NO_MEMORY;
    store->options = *options;
    store->memfd = store->eventfd = -1;
    store->current = UINT32_MAX;
    uint64_t bytes = options->segment_bytes ? options->segment_bytes : memory_bytes() / 10 * 3;
    bytes = mob_round_up(bytes < segment_bytes_min ? segment_bytes_min : bytes, MOB_UNIT_BYTES);
    uint32_t entries = options->object_entries ? options->object_entries : entries_for(bytes);
    enum mob_status status = open_segment(store, bytes);
    if (status == MOB_OK)
        status = map_segment(store, bytes, entries);
    if (status == MOB_OK)
        status = allocate_private(store);
    if (status != MOB_OK) {
        mob_store_destroy(store);
        return status;
    }
    mob_audit_begin(store);
    if (options->prefault) {
        store->prefault.view = &store->view;
        store->prefault_runs =
            pthread_create(&store->prefault_thread, NULL, mob_segment_prefault_main, &store->prefault) == 0;
    }
    *store_out = store;
    return MOB_OK;
}

void mob_store_destroy(struct mob_store *store)
{
    if (!store)
        return;
    if (store->prefault_runs) {
        MOB_SEG_STORE(&store->prefault.stop, 1);
        pthread_join(store->prefault_thread, NULL);
    }
    mob_spill_destroy(store->spill);
    mob_hash_queue_destroy(store->hashes);
    mob_arena_user_fini(&store->arena);
    free(store->entry_flags);
    free(store->entry_epochs);
    for (uint32_t slot = 0; store->clients && slot < store->clients_top; slot++) {
        free(store->clients[slot].backlog.bytes);
        free(store->clients[slot].parts.bytes);
    }
    free(store->record);
    free(store->touched);
    free(store->active);
    free(store->clients);
    if (store->view.base)
        mob_segment_unmap(store->view.base, store->view.bytes);
    if (store->eventfd >= 0)
        close(store->eventfd);
    if (store->memfd >= 0)
        close(store->memfd);
    free(store);
}

int mob_store_memfd(const struct mob_store *store)
{
    return store->memfd;
}

int mob_store_eventfd(const struct mob_store *store)
{
    return store->eventfd;
}

void mob_store_stats(struct mob_store *store, struct mob_store_stats *stats_out)
{
    const struct mob_view *view = &store->view;
    uint32_t free_units;
    mob_extent_largest(view, &free_units);
    uint32_t warm_units = MOB_SEG_LOAD_RELAXED(&view->seg_header->warm_units);
    *stats_out = (struct mob_store_stats){
        .segment_bytes = view->bytes,
        .warm_bytes = (uint64_t)warm_units * MOB_UNIT_BYTES,
        .arena_free_bytes = (uint64_t)free_units * MOB_UNIT_BYTES,
        .arena_used_bytes = (uint64_t)(view->units - free_units) * MOB_UNIT_BYTES,
        .object_entries = view->entries,
        .evictions = store->evictions,
        .restores = store->restores,
        .pins = mob_pins_count(store),
        .spill_quota_bytes = store->options.spill_quota_bytes,
        .clients = store->clients_open,
    };
    uint32_t used, inlined;
    mob_table_count(view, &used, &inlined);
    stats_out->objects = used;
    stats_out->objects_inline = inlined;
    mob_spill_count(store->spill, &stats_out->spilled_objects, &stats_out->spilled_bytes);
}

void mob_store_full_details(struct mob_store *store, struct mob_store_full *details_out)
{
    const struct mob_view *view = &store->view;
    struct mob_store_stats stats;
    mob_store_stats(store, &stats);
    uint32_t free_units;
    uint32_t largest = mob_extent_largest(view, &free_units);
    *details_out = (struct mob_store_full){
        .needed_bytes = store->needed_bytes,
        .arena_bytes = (uint64_t)view->units * MOB_UNIT_BYTES,
        .free_bytes = (uint64_t)free_units * MOB_UNIT_BYTES,
        .largest_free_bytes = (uint64_t)largest * MOB_UNIT_BYTES,
        .pinned_bytes = mob_pins_bytes(store),
        .spilled_bytes = stats.spilled_bytes,
        .spill_quota_bytes = stats.spill_quota_bytes,
        .entries = view->entries,
        .entries_used = (uint32_t)stats.objects,
    };
}
