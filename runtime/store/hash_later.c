/* Content hashes of large objects, computed in steps of the node's spare time, so that nobody's put waits for
 * them. */
#include "runtime/store/store_internal.h"

#include <stdlib.h>

#include <xxhash.h>

enum { QUEUE_MAX = 4096, STEP_BYTES = 1 << 20 };

struct job {
    struct mob_object_id id;
    struct mob_hash128 hash;
    bool there;
};

/* Two rings of one array each: waiting jobs, finished ones. */
struct mob_hash_queue {
    struct job waiting[QUEUE_MAX], done[QUEUE_MAX];
    uint32_t waiting_head, waiting_tail, done_head, done_tail;
    XXH3_state_t *state;
    uint64_t at; /* bytes of the first waiting value hashed so far */
};

enum mob_status mob_hash_queue_create(struct mob_hash_queue **queue_out)
{
    struct mob_hash_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return MOB_NO_MEMORY;
    queue->state = XXH3_createState();
    if (!queue->state) {
        free(queue);
        return MOB_NO_MEMORY;
    }
    *queue_out = queue;
    return MOB_OK;
}

void mob_hash_queue_destroy(struct mob_hash_queue *queue)
{
    if (!queue)
        return;
    XXH3_freeState(queue->state);
    free(queue);
}

enum mob_status mob_store_hash_later(struct mob_store *store, struct mob_object_id id)
{
    struct mob_hash_queue *queue = store->hashes;
    struct mob_object_info info;
    if (!mob_store_object_info(store, id, &info))
        return MOB_NOT_FOUND;
    if (!info.sealed)
        return MOB_NOT_READY;
    uint32_t unread = queue->done_head - queue->done_tail;
    if (queue->waiting_head - queue->waiting_tail + unread >= QUEUE_MAX)
        return MOB_QUEUE_FULL;
    queue->waiting[queue->waiting_head++ % QUEUE_MAX] = (struct job){.id = id};
    return MOB_OK;
}

bool mob_store_next_hash(
    struct mob_store *store, struct mob_object_id *id_out, bool *there_out, struct mob_hash128 *hash_out)
{
    struct mob_hash_queue *queue = store->hashes;
    if (queue->done_head == queue->done_tail)
        return false;
    const struct job *job = &queue->done[queue->done_tail++ % QUEUE_MAX];
    *id_out = job->id;
    *there_out = job->there;
    *hash_out = job->hash;
    return true;
}

/* The first waiting job has ended. */
static void end(struct mob_hash_queue *queue)
{
    queue->done[queue->done_head++ % QUEUE_MAX] = queue->waiting[queue->waiting_tail++ % QUEUE_MAX];
    queue->at = 0;
}

/* Its turn comes again when the others had theirs. */
static void put_last(struct mob_hash_queue *queue)
{
    struct job job = queue->waiting[queue->waiting_tail++ % QUEUE_MAX];
    queue->waiting[queue->waiting_head++ % QUEUE_MAX] = job;
    queue->at = 0;
}

/* The value itself never changes after its seal, not even its header; the hash stands beside it in the entry.
 */
static void hashed(struct mob_store *store, struct job *job)
{
    struct mob_hash_queue *queue = store->hashes;
    XXH128_hash_t hash = XXH3_128bits_digest(queue->state);
    uint32_t tag;
    uint32_t index = mob_table_find(&store->view, job->id, &tag);
    job->hash = (struct mob_hash128){hash.low64, hash.high64};
    job->there = true;
    if (index != UINT32_MAX && !mob_tag_is_inline(tag))
        mob_entry_set_hash(&store->view.seg_table[index], job->hash);
    end(queue);
}

bool mob_hash_queue_step(struct mob_store *store)
{
    struct mob_hash_queue *queue = store->hashes;
    if (queue->waiting_head == queue->waiting_tail)
        return false;
    struct job *job = &queue->waiting[queue->waiting_tail % QUEUE_MAX];
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    struct mob_value_view value;
    /* Found anew in each step: it may have been spilled, or dropped, in between. Bytes of a sealed value
     * never change. */
    enum mob_status status = mob_store_object_bytes(store, job->id, true, &type, &bytes, &size);
    if (status == MOB_STORE_FULL || status == MOB_DISK_FULL) { /* spilled, and no room to read it back into */
        put_last(queue);
        return false;
    }
    if (status != MOB_OK || size < queue->at || mob_value_open(bytes, size, &value) != MOB_OK) {
        end(queue); /* gone: nothing will be committed of it */
        return true;
    }
    uint64_t length =
        (uint64_t)(value.payload - bytes) + value.payload_bytes; /* table ++ padding ++ payload */
    if (queue->at == 0) {
        XXH3_128bits_reset(queue->state);
        queue->at = MOB_VALUE_HEADER_BYTES;
    }
    if (queue->at > length)
        queue->at = length;
    uint64_t left = length - queue->at, step = left < STEP_BYTES ? left : STEP_BYTES;
    XXH3_128bits_update(queue->state, bytes + queue->at, step);
    queue->at += step;
    if (queue->at == length)
        hashed(store, job);
    return queue->waiting_head != queue->waiting_tail;
}
