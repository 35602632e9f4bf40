/* Objects whose bytes went to disk: one file each, named by the id, with a checksum of its own.
 *
 * A file stays while its object is back in memory, since the bytes never change: leaving again costs nothing.
 * When the quota is reached, files of objects that are in memory go first. Files do not outlive the node's
 * segment; what an incarnation that was killed left is removed by the next one (spill_home.h).
 */
#include "runtime/store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "runtime/store/spill_home.h"

#define SPILL_MAGIC 0x4c4c495053424f4dull
enum { SPILL_VERSION = 1, BUCKETS_MIN = 64 };

struct file_header {
    uint64_t magic;
    uint32_t version, type;
    uint64_t size;
    struct mob_hash128 checksum; /* of the bytes that follow */
    struct mob_object_id id;
    uint32_t zero;
};
_Static_assert(sizeof(struct file_header) == 64, "spill file layout");

struct record {
    struct record *next;
    struct mob_object_id id;
    enum mob_value_type type;
    uint64_t size;
    struct mob_hash128 hash;
    uint32_t slot_owner;
    bool committed, remakeable, keep;
};

struct mob_spill {
    struct mob_spill_home *home;
    uint64_t quota, bytes, objects;
    struct record **buckets;
    uint32_t bucket_count;
};

static struct record **find(const struct mob_spill *spill, struct mob_object_id id)
{
    uint64_t mix = (mob_task_id_mix(id.task) + id.slot) * 0x9e3779b97f4a7c15ull;
    struct record **at = &spill->buckets[(mix >> 32) & (spill->bucket_count - 1)];
    while (*at && !mob_object_id_eq((*at)->id, id))
        at = &(*at)->next;
    return at;
}

static void path_of(const struct mob_spill *spill, struct mob_object_id id, char *path)
{
    char text[MOB_ID_TEXT_MAX];
    snprintf(path, PATH_MAX, "%s/%s" MOB_SPILL_SUFFIX, mob_spill_home_path(spill->home),
        mob_object_id_format(id, text));
}

enum mob_status mob_spill_create(const char *directory, uint64_t quota_bytes, struct mob_spill **spill_out)
{
    struct mob_spill *spill = calloc(1, sizeof *spill);
    if (!spill)
        return MOB_NO_MEMORY;
    spill->quota = quota_bytes;
    spill->bucket_count = BUCKETS_MIN;
    spill->buckets = calloc(spill->bucket_count, sizeof *spill->buckets);
    enum mob_status status = MOB_NO_MEMORY;
    if (!spill->buckets)
        goto err_free;
    status = mob_spill_home_open(directory, &spill->home);
    if (status != MOB_OK)
        goto err_free;
    *spill_out = spill;
    return MOB_OK;
err_free:
    free(spill->buckets);
    free(spill);
    return status;
}

void mob_spill_destroy(struct mob_spill *spill)
{
    if (!spill)
        return;
    for (uint32_t i = 0; i < spill->bucket_count; i++)
        for (struct record *record = spill->buckets[i], *next; record; record = next) {
            next = record->next;
            free(record);
        }
    mob_spill_home_close(spill->home);
    free(spill->buckets);
    free(spill);
}

static void grow(struct mob_spill *spill)
{
    if (spill->objects < spill->bucket_count)
        return;
    struct mob_spill larger = *spill;
    larger.bucket_count *= 2;
    larger.buckets = calloc(larger.bucket_count, sizeof *larger.buckets);
    if (!larger.buckets)
        return; /* longer chains do as well */
    for (uint32_t i = 0; i < spill->bucket_count; i++)
        for (struct record *record = spill->buckets[i], *next; record; record = next) {
            next = record->next;
            struct record **at = find(&larger, record->id);
            record->next = NULL;
            *at = record;
        }
    free(spill->buckets);
    *spill = larger;
}

static void forget(struct mob_spill *spill, struct record **at)
{
    struct record *record = *at;
    char path[PATH_MAX];
    path_of(spill, record->id, path);
    unlink(path);
    spill->bytes -= record->size;
    spill->objects--;
    *at = record->next;
    free(record);
}

bool mob_spill_forget(struct mob_spill *spill, struct mob_object_id id)
{
    struct record **at = spill ? find(spill, id) : NULL;
    if (!at || !*at)
        return false;
    forget(spill, at);
    return true;
}

static bool within_quota(struct mob_store *store, uint64_t size)
{
    struct mob_spill *spill = store->spill;
    if (spill->quota == 0 || (size <= spill->quota && spill->bytes <= spill->quota - size))
        return true;
    if (size > spill->quota)
        return false;
    for (uint32_t i = 0; i < spill->bucket_count && spill->bytes > spill->quota - size; i++)
        for (struct record **at = &spill->buckets[i]; *at && spill->bytes > spill->quota - size;) {
            uint32_t tag;
            if (mob_table_find(&store->view, (*at)->id, &tag) != UINT32_MAX &&
                mob_tag_state(tag) >= MOB_TAG_SEALED)
                forget(spill, at);
            else
                at = &(*at)->next;
        }
    return spill->bytes <= spill->quota - size;
}

static bool write_all(int fd, const void *bytes, uint64_t length)
{
    const uint8_t *at = bytes;
    while (length > 0) {
        ssize_t n = write(fd, at, length < (1u << 30) ? length : (1u << 30));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        length -= (uint64_t)n;
    }
    return true;
}

static enum mob_status write_file(
    struct mob_spill *spill, const struct file_header *header, const void *bytes)
{
    char path[PATH_MAX];
    path_of(spill, header->id, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && write_all(fd, header, sizeof *header) && write_all(fd, bytes, header->size);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok)
        return MOB_OK;
    unlink(path);
    MOB_LOG_WARN("store", "spill_failed", "path=%s bytes=%llu error=\"%s\"", path,
        (unsigned long long)header->size, strerror(error));
    return error == ENOSPC || error == EDQUOT || error == EFBIG ? MOB_DISK_FULL : MOB_IO;
}

enum mob_status mob_spill_write(struct mob_store *store, uint32_t entry_index)
{
    struct mob_spill *spill = store->spill;
    if (!spill)
        return MOB_STORE_FULL;
    const struct mob_view *view = &store->view;
    struct mob_seg_entry *entry = &view->seg_table[entry_index];
    uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[entry_index].v), state = mob_tag_state(tag);
    struct mob_object_id id = mob_entry_id(entry);
    uint64_t offset, size;
    if (mob_tag_is_inline(tag) || !mob_entry_range(view, entry, &offset, &size))
        return MOB_CORRUPT;
    struct record **at = find(spill, id);
    bool committed = state == MOB_TAG_COMMITTED || state == MOB_TAG_EVICT_COMMITTED;
    struct mob_value_view value;
    if (mob_entry_value(view, entry, &value) != MOB_OK)
        return MOB_CORRUPT;
    if (*at && (*at)->size == size) {
        (*at)->committed |= committed;
        (*at)->hash = mob_entry_hash(entry, &value); /* perhaps computed since it was written */
        return MOB_OK;
    }
    if (*at)
        forget(spill, at); /* only a client that writes at random changes a size */
    if (!within_quota(store, size)) {
        MOB_LOG_WARN("store", "spill_quota", "needed=%llu used=%llu quota=%llu", (unsigned long long)size,
            (unsigned long long)spill->bytes, (unsigned long long)spill->quota);
        return MOB_DISK_FULL;
    }
    struct record *record = calloc(1, sizeof *record);
    if (!record)
        return MOB_NO_MEMORY;
    const uint8_t *bytes = view->base + offset;
    struct file_header header = {
        .magic = SPILL_MAGIC,
        .version = SPILL_VERSION,
        .type = (uint32_t)value.type,
        .size = size,
        .checksum = mob_hash128(bytes, size),
        .id = id,
    };
    enum mob_status status = write_file(spill, &header, bytes);
    if (status != MOB_OK) {
        free(record);
        return status;
    }
    *record = (struct record){
        .id = id,
        .type = value.type,
        .size = size,
        .hash = mob_entry_hash(entry, &value),
        .slot_owner = mob_tag_owner(tag),
        .committed = committed,
        .remakeable = (store->entry_flags[entry_index] & MOB_NODE_REMAKEABLE) != 0,
    };
    grow(spill);
    at = find(spill, id);
    *at = record;
    spill->bytes += size;
    spill->objects++;
    return MOB_OK;
}

static enum mob_status read_file(const char *path, const struct record *record, void *to)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return MOB_IO;
    struct file_header header;
    enum mob_status status = MOB_CORRUPT;
    if (read(fd, &header, sizeof header) != (ssize_t)sizeof header)
        goto out;
    if (header.magic != SPILL_MAGIC || header.version != SPILL_VERSION || header.size != record->size ||
        !mob_object_id_eq(header.id, record->id))
        goto out;
    for (uint64_t at = 0; at < record->size;) {
        uint64_t left = record->size - at;
        ssize_t n = read(fd, (uint8_t *)to + at, left < (1u << 30) ? left : (1u << 30));
        if (n < 0 && errno == EINTR)
            continue;
        status = n < 0 ? MOB_IO : MOB_CORRUPT;
        if (n <= 0)
            goto out;
        at += (uint64_t)n;
    }
    status = mob_hash128_eq(mob_hash128(to, record->size), header.checksum) ? MOB_OK : MOB_CORRUPT;
out:
    close(fd);
    return status;
}

enum mob_status mob_spill_restore(struct mob_store *store, struct mob_object_id id)
{
    struct mob_spill *spill = store->spill;
    struct record **at = spill ? find(spill, id) : NULL;
    if (!at || !*at)
        return MOB_NOT_FOUND;
    struct mob_object_ref ref;
    void *bytes;
    enum mob_status status = mob_node_create(store, id, (*at)->size, &ref, &bytes);
    if (status == MOB_EXISTS)
        return MOB_OK; /* a replay has just made it again */
    if (status != MOB_OK)
        return status;
    at = find(spill, id); /* making room may have grown the index */
    char path[PATH_MAX];
    path_of(spill, id, path);
    const struct mob_view *view = &store->view;
    uint32_t tag = MOB_SEG_LOAD(&view->seg_tags[ref.entry].v);
    status = *at ? read_file(path, *at, bytes) : MOB_NOT_FOUND;
    struct mob_value_view value;
    if (status == MOB_OK)
        status = mob_entry_value(view, &view->seg_table[ref.entry], &value);
    if (status != MOB_OK) {
        mob_entry_drop(store, ref.entry, tag);
        MOB_LOG_ERROR("store", "restore_failed", "path=%s status=%s", path, mob_status_code(status));
        if (status == MOB_CORRUPT && *at)
            forget(spill, at);
        return status;
    }
    const struct record *record = *at;
    if (!mob_hash128_eq(record->hash, value.hash))
        mob_entry_set_hash(&view->seg_table[ref.entry], record->hash);
    store->entry_flags[ref.entry] =
        (uint8_t)((record->remakeable ? MOB_NODE_REMAKEABLE : 0) | (record->keep ? MOB_NODE_KEEP : 0));
    store->committed += record->committed;
    store->restores++;
    MOB_SEG_STORE(&view->seg_tags[ref.entry].v,
        mob_tag_with(tag, record->committed ? MOB_TAG_COMMITTED : MOB_TAG_SEALED));
    return MOB_OK;
}

bool mob_spill_info(const struct mob_spill *spill, struct mob_object_id id, struct mob_object_info *info_out)
{
    struct record **at = spill ? find(spill, id) : NULL;
    if (!at || !*at)
        return false;
    const struct record *record = *at;
    *info_out = (struct mob_object_info){
        .type = record->type,
        .size = record->size,
        .sealed = true,
        .committed = record->committed,
        .spilled = true,
        .hash = record->hash,
        .slot_owner = record->slot_owner,
    };
    return true;
}

void mob_spill_committed(struct mob_spill *spill, struct mob_object_id id, bool remakeable)
{
    struct record **at = spill ? find(spill, id) : NULL;
    if (at && *at) {
        (*at)->committed = true;
        (*at)->remakeable = remakeable;
    }
}

void mob_spill_keep(struct mob_spill *spill, struct mob_object_id id, bool keep)
{
    struct record **at = spill ? find(spill, id) : NULL;
    if (at && *at)
        (*at)->keep = keep;
}

void mob_spill_count(const struct mob_spill *spill, uint64_t *objects_out, uint64_t *bytes_out)
{
    *objects_out = spill ? spill->objects : 0;
    *bytes_out = spill ? spill->bytes : 0;
}
