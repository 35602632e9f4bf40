/* Objects that this node does not hold: looked up in the lineage, then restored from it, made again by
 * running their task again, waited for, or said to be lost (papers, 4.2.3 "Object reconstruction"). Never by
 * recursion: a task that runs again waits for its inputs like any other, and they are resolved in turn.
 */
#include "runtime/node/resolve.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/client/losses.h"
#include "runtime/node/alias.h"
#include "runtime/node/awaited_puts.h"
#include "runtime/node/durable_puts.h"
#include "runtime/node/full_store.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/lost.h"
#include "runtime/node/notices.h"
#include "runtime/node/read_again.h"
#include "runtime/node/remade.h"
#include "runtime/node/shadow.h"
#include "runtime/node/submit.h"
#include "runtime/node/taken.h"
#include "runtime/node/task.h"

/* A small or full value from its bytes in the lineage, into the store. */
enum mob_status node_restore_value(struct node *node, struct mob_object_id id, enum mob_value_type type,
    const uint8_t *payload, uint64_t bytes)
{
    if (bytes <= MOB_OBJECT_INLINE_MAX && type != MOB_TYPE_ERROR)
        return mob_store_object_put(node->store, id, type, true, payload, bytes);
    uint64_t size;
    uint8_t *at;
    enum mob_status status = mob_value_full_size(bytes, 0, 0, &size);
    if (status != MOB_OK)
        return status;
    void *value = aligned_alloc(MOB_VALUE_ALIGN, mob_round_up(size, MOB_VALUE_ALIGN));
    if (!value)
        return MOB_NO_MEMORY;
    status = mob_value_init(value, size, type, bytes, NULL, 0, NULL, 0, &at);
    if (status == MOB_OK) {
        memcpy(at, payload, bytes);
        mob_value_hash(value);
        status = mob_store_object_put(node->store, id, type, false, value, size);
    }
    free(value);
    return status;
}

void node_ready_committed(struct node *node, struct mob_object_id id, enum mob_status status,
    enum mob_value_type type, uint32_t slot, uint32_t session)
{
    struct mob_object_info info;
    bool there = mob_store_object_info(node->store, id, &info) && info.sealed;
    struct ready_object object = {
        .id = id,
        .status = status,
        .type = type,
        .flags = MOB_READY_COMMITTED,
        .committed = true,
        .remakeable = true,
        .size = there ? info.size : 0,
    };
    if (status == MOB_OK && large_hashes_waits(node, id)) {
        object.flags = 0;
        object.committed = false;
        node_object_ready(node, &object, slot, session);
        return;
    }
    node_object_ready(node, &object, slot, session);
    if (there) /* else somebody may be making it */
        mob_store_object_committed(node->store, id, true);
}

/* Sealed since it was asked for. Its commit comes behind its record, and that when it was taken. */
static void ready_sealed(struct node *node, struct mob_object_id id, const struct mob_object_info *info)
{
    struct ready_object object = {.id = id,
        .status = info->type == MOB_TYPE_ERROR ? MOB_TASK_FAILED : MOB_OK,
        .type = info->type,
        .flags = info->committed ? MOB_READY_COMMITTED : 0,
        .committed = info->committed,
        .size = info->size};
    if (node_object_taken(node, id, info))
        node_object_ready(node, &object, NODE_NOBODY, 0);
}

/* A value from the lineage that found the store full of what waits for its commit: again when that is there.
 */
struct restore_later {
    struct node *node;
    struct mob_object_id id;
    enum mob_value_type type;
    uint32_t slot, session;
    int64_t give_up_ns;
    uint64_t bytes;
    uint8_t payload[];
};

static void restore(struct node *node, const struct restore_later *r);

static void restore_after_commit(void *arg)
{
    struct restore_later *later = arg;
    restore(later->node, later);
    free(later);
}

static bool wait_for_commits(struct node *node, const struct restore_later *r)
{
    if (node->now_ns > r->give_up_ns)
        return false;
    struct restore_later *later = malloc(sizeof *later + r->bytes);
    if (!later)
        return false;
    memcpy(later, r, sizeof *later + r->bytes);
    if (full_store_call_later(node, restore_after_commit, free, later))
        return true;
    free(later);
    return false;
}

static void restore(struct node *node, const struct restore_later *r)
{
    enum mob_status status = node_restore_value(node, r->id, r->type, r->payload, r->bytes);
    if (status == MOB_STORE_FULL && wait_for_commits(node, r))
        return;
    if (status != MOB_OK && status != MOB_EXISTS) {
        node_ready_committed(node, r->id, status, MOB_TYPE_ERROR, r->slot, r->session);
        return;
    }
    if (status == MOB_EXISTS)
        (void)node_seal_for_maker(node, r->id); /* else it is told as ready, and without a size */
    struct mob_error_link link;
    enum mob_status outcome = MOB_OK;
    if (r->type == MOB_TYPE_ERROR && mob_error_decode(r->payload, r->bytes, &link, 1) == 1)
        outcome = link.status;
    node_ready_committed(node, r->id, outcome, r->type, r->slot, r->session);
}

static void restored(struct node *node, struct mob_object_id id, enum mob_value_type type,
    const uint8_t *payload, uint64_t bytes, uint32_t slot, uint32_t session)
{
    struct restore_later *r = malloc(sizeof *r + bytes);
    if (!r) {
        node_ready_committed(node, id, MOB_NO_MEMORY, MOB_TYPE_ERROR, slot, session);
        return;
    }
    *r = (struct restore_later){.node = node,
        .id = id,
        .type = type,
        .slot = slot,
        .session = session,
        .give_up_ns = node->now_ns + FULL_STORE_PATIENCE_NS,
        .bytes = bytes};
    memcpy(r->payload, payload, bytes);
    restore(node, r);
    free(r);
}

/* That its task's function has put, and not the library for it. */
static bool is_own_put(uint32_t slot)
{
    return (slot & MOB_SLOT_PUT) && slot != MOB_SLOT_CHECKPOINT &&
        slot - MOB_SLOT_ARG_PAGE >= MOB_ARG_PAGES_MAX;
}

static void set_submitter(struct node_task *task, uint32_t slot, uint32_t session)
{
    if (slot == NODE_NOBODY)
        return;
    task->submitter = (uint16_t)slot;
    task->submitter_session = session;
}

/* Those that were logged by themselves. */
static void note_hashes(struct node_stored_return *stored, uint32_t count, const struct known *known)
{
    for (uint32_t i = 0; i < known->hash_count; i++)
        node_remade_hashed(stored, count, known->hashes[i].id.slot, known->hashes[i].hash);
}

struct node_stored_return *node_known_stored(const struct known *known, uint32_t *count_out)
{
    uint32_t count;
    struct node_stored_return *stored;
    if (known->spec->num_returns == MOB_RETURNS_STREAM) {
        count = known->stored_item_count;
        stored = malloc((count + 1) * sizeof *stored);
        MOB_ASSERT(stored);
        if (count > 0)
            memcpy(stored, known->stored_items, count * sizeof *stored);
    } else {
        struct mob_completion first = {*known->completion, (const uint8_t *)(known->completion + 1)};
        stored = node_remade_stored(&first, &count);
    }
    node_remade_add_puts(&stored, &count, &known->stored_puts);
    note_hashes(stored, count, known);
    *count_out = count;
    return stored;
}

static void expect_the_same(struct node *node, struct node_task *task, const struct known *known)
{
    uint32_t count;
    struct node_stored_return *stored = node_known_stored(known, &count);
    node_remade_expect(node, task, stored, count, known->items);
    free(stored);
}

/* Each makes its own puts. An earlier one than that which ended the task fails again and is followed by the
 * next, as it was the first time. */
uint32_t node_known_made_in(const struct known *known)
{
    uint32_t generation = mob_put_generation(known->id.slot), last = known->completion->generation;
    return is_own_put(known->id.slot) && generation < last ? generation : last;
}

enum mob_status node_resubmit_known(
    struct node *node, const struct known *known, uint8_t flags, struct node_task **task_out)
{
    struct mob_spec spec = {.head = *known->spec,
        .tail = (const uint8_t *)(known->spec + 1),
        .tail_bytes = known->spec_tail_bytes};
    if (known->completion) {
        spec.head.attempt = known->completion->attempt;
        spec.head.generation = node_known_made_in(known);
        flags |= TASK_REMAKE;
    } else if (known->attempt > 0) {
        spec.head.attempt = known->attempt;
        spec.head.generation = known->generation;
    }
    spec.head.attempt++;
    enum mob_status status = node_resubmit(node, &spec,
        lineage_log_mono(node->log, known->spec_submitted_wall_ns, node->now_ns), flags, task_out);
    if (status == MOB_OK && known->completion)
        expect_the_same(node, *task_out, known);
    else if (status == MOB_OK)
        node_task_extra(node, *task_out)->retries_spent = known->retries_spent;
    return status;
}

/* Returns are told when the task ends, whatever they are; a put only if it makes it. */
void node_remake_wants(struct node *node, struct node_task *task, uint32_t slot)
{
    if (is_own_put(slot))
        node_remade_want_put(node, task, slot);
}

/* Its bytes were in the store and are gone, or it never ran to its end: run its task (again). */
static void remake(struct node *node, const struct known *known, uint32_t slot, uint32_t session)
{
    struct node_task *task = node_task_find(node, known->id.task);
    if (task) { /* on its way already */
        node_remake_wants(node, task, known->id.slot);
        set_submitter(task, slot, session);
        return;
    }
    if (known->completion && known->spec && known->spec->kind == MOB_KIND_ACTOR_CALL) {
        if (slot != NODE_NOBODY && node_client_is(node, slot, session))
            node_watch_made(node, node_client_at(node, slot), known->id);
        if (known->spec->flags & MOB_SPEC_READ_ONLY)
            node_read_again(node, known);
        else
            node_shadow_want(node, known, NULL);
        return;
    }
    enum mob_status status = MOB_OBJECT_LOST;
    if (known->spec && known->spec->kind == MOB_KIND_TASK)
        status = node_resubmit_known(node, known, known->outcomes ? 0 : TASK_NO_OUTCOMES, &task);
    if (status != MOB_OK) {
        node_ready_committed(node, known->id, status, MOB_TYPE_ERROR, slot, session);
        return;
    }
    node_remake_wants(node, task, known->id.slot);
    set_submitter(task, slot, session);
    node_enter(node, task);
}

/* May the task that has ended have made this object? Returns are counted in its spec, puts are in the log. */
static bool may_be_of(const struct known *known)
{
    uint32_t slot = known->id.slot;
    if (slot == MOB_SLOT_CHECKPOINT || known->completion->status != MOB_OK)
        return true; /* of a task that failed every return is the error */
    if (slot & MOB_SLOT_PUT)
        return known->put != NULL;
    if (!known->spec)
        return true;
    uint32_t count = known->spec->num_returns;
    return slot < (count > 0 ? count : 1); /* one that declares none is waited for by its first */
}

/* No item at or above this one: how whoever takes items one by one learns that it has them all. */
static void stream_ended(struct node *node, struct mob_object_id id, uint32_t slot, uint32_t session)
{
    struct ready_object end = {
        .id = id, .type = MOB_TYPE_NONE, .flags = MOB_READY_COMMITTED | MOB_READY_LAST, .committed = true};
    node_object_ready(node, &end, slot, session);
}

/* An item of a generator that has ended. False: of one that failed, behind its last item. */
static bool from_stream(struct node *node, const struct known *known, uint32_t slot, uint32_t session)
{
    const struct mob_completion_head *head = known->completion;
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    uint32_t count = known->items;
    if (known->id.slot >= count) {
        if (head->status != MOB_OK)
            return false;
        if (known->id.slot == count)
            stream_ended(node, known->id, slot, session);
        else
            node_ready_committed(node, known->id, MOB_NOT_FOUND, MOB_TYPE_ERROR, slot, session);
    } else if (known->item && !known->item->stored) {
        restored(node, known->id, known->item->type, known->item->payload, known->item->bytes, slot, session);
    } else if (mob_store_object_bytes(node->store, known->id, true, &type, &bytes, &size) == MOB_OK) {
        node_ready_committed(node, known->id, MOB_OK, type, slot, session);
    } else {
        remake(node, known, slot, session);
    }
    return true;
}

static void from_completion(struct node *node, const struct known *known, uint32_t slot, uint32_t session)
{
    if (known->spec && known->spec->num_returns == MOB_RETURNS_STREAM && !(known->id.slot & MOB_SLOT_PUT) &&
        from_stream(node, known, slot, session))
        return;
    if (!may_be_of(known)) {
        node_ready_committed(node, known->id, MOB_NOT_FOUND, MOB_TYPE_ERROR, slot, session);
        return;
    }
    struct mob_completion completion = {*known->completion, (const uint8_t *)(known->completion + 1)};
    struct mob_return_view r;
    uint32_t at = 0;
    bool failed = completion.head.status != MOB_OK;
    while (mob_completion_next(&completion, &at, &r)) {
        if (r.slot != known->id.slot && !failed)
            continue;
        if (r.flags & MOB_RETURN_STORED)
            break;
        if (r.type == MOB_TYPE_FUTURE) {
            struct node_tail_call call = {.id = known->id,
                .submitter = slot,
                .session = session,
                .generation = completion.head.generation,
                .children = NODE_CHILDREN_UNKNOWN};
            memcpy(&call.target, r.payload, sizeof call.target);
            node_alias(node, &call);
            return;
        }
        restored(node, known->id, r.type, r.payload, r.size, slot, session);
        return;
    }
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    if (mob_store_object_bytes(node->store, known->id, true, &type, &bytes, &size) == MOB_OK)
        node_ready_committed(node, known->id, MOB_OK, type, slot, session);
    else
        remake(node, known, slot, session);
}

void node_result_known(struct node *node, const struct known *known, uint32_t slot, uint32_t session)
{
    if (known->completion)
        from_completion(node, known, slot, session);
    else
        remake(node, known, slot, session);
}

static bool is_promise(const struct mob_out_put *put)
{
    return put->flags & MOB_PUT_PROMISE;
}

static bool is_sealed(const struct node *node, struct mob_object_id id)
{
    struct mob_object_info info;
    return mob_store_object_info(node->store, id, &info) && info.sealed;
}

/* A put whose file found the store full of what waits for its commit. */
struct put_later {
    struct node *node;
    struct known known; /* of which only what stands here and the put are kept */
    struct mob_out_put put;
    int64_t give_up_ns;
};

static void from_put(struct node *node, const struct known *known, int64_t give_up_ns);

static void from_put_after_commit(void *arg)
{
    struct put_later *later = arg;
    from_put(later->node, &later->known, later->give_up_ns);
    free(later);
}

static bool put_waits_for_commits(struct node *node, const struct known *known, int64_t give_up_ns)
{
    struct put_later *later = node->now_ns > give_up_ns ? NULL : malloc(sizeof *later);
    if (!later)
        return false;
    *later = (struct put_later){.node = node, .known = *known, .put = *known->put, .give_up_ns = give_up_ns};
    later->known.put = &later->put;
    later->known.spec = NULL;
    later->known.completion = NULL;
    later->known.item = NULL;
    if (full_store_call_later(node, from_put_after_commit, free, later))
        return true;
    free(later);
    return false;
}

/* A large put of a driver, not in the store: its bytes are on disk, or still with the driver. */
static void from_put(struct node *node, const struct known *known, int64_t give_up_ns)
{
    if (is_promise(known->put) && node_promised(node, known->id))
        return; /* promised here since it was asked for: its value comes */
    enum mob_value_type type = (enum mob_value_type)known->put->type;
    enum mob_status status =
        is_promise(known->put) ? MOB_NOT_FOUND : durable_puts_restore(node->puts, known->id);
    if (status == MOB_STORE_FULL && put_waits_for_commits(node, known, give_up_ns))
        return;
    if (status == MOB_NOT_FOUND && known->put_incarnation != node->incarnation &&
        awaited_puts_add(node, known->id))
        return;
    if (status == MOB_NOT_FOUND || status == MOB_CORRUPT)
        status = MOB_OBJECT_LOST;
    if (status == MOB_OK && !is_sealed(node, known->id)) {
        if (!awaited_puts_add(node, known->id))
            status = MOB_OBJECT_LOST;
        else
            return; /* its driver is sending it again: the record tells */
    }
    if (status == MOB_OK && (known->put->flags & MOB_PUT_HASH_LATER)) {
        struct large_hash_wanted wanted = {
            .id = known->id, .job = known->put_job, .ns = known->put_ns, .slot = NODE_NOBODY, .again = true};
        (void)!large_hashes_want(node, &wanted);
    }
    node_ready_committed(node, known->id, status, status == MOB_OK ? type : MOB_TYPE_ERROR, NODE_NOBODY, 0);
}

/* Whoever asks for it, or waits for it as an input, gets an error that says so. */
static void restore_deleted(struct node *node, struct mob_object_id id)
{
    static const char message[] = "it was deleted";
    uint8_t payload[256];
    struct mob_error_link link = {
        .status = MOB_OBJECT_LOST, .task = id.task, .message = message, .message_bytes = sizeof message - 1};
    uint32_t bytes = mob_error_encode(payload, sizeof payload, &link, NULL, 0);
    restored(node, id, MOB_TYPE_ERROR, payload, bytes, NODE_NOBODY, 0);
}

/* False: nothing is known of it. */
static bool from_lineage(struct node *node, const struct known *known)
{
    struct mob_object_info info;
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    if (mob_store_object_info(node->store, known->id, &info) && info.sealed && !info.spilled)
        ready_sealed(node, known->id, &info);
    else if (known->deleted)
        restore_deleted(node, known->id);
    else if (known->put && known->put->inline_bytes == known->put->size && !is_promise(known->put))
        restored(node, known->id, (enum mob_value_type)known->put->type, (const uint8_t *)(known->put + 1),
            known->put->size, NODE_NOBODY, 0);
    else if (known->completion || known->spec)
        node_result_known(node, known, NODE_NOBODY, 0);
    else if (mob_store_object_bytes(node->store, known->id, true, &type, &bytes, &size) == MOB_OK)
        node_ready_committed(node, known->id, MOB_OK, type, NODE_NOBODY, 0);
    else if (known->put)
        from_put(node, known, node->now_ns + FULL_STORE_PATIENCE_NS);
    else
        return node_task_find(node, known->id.task) != NULL;
    return true;
}

/* What was logged while the losses were read is known now. */
static void on_known_again(void *arg, enum mob_status status, const struct known *known)
{
    struct node *node = arg;
    if (status != MOB_OK)
        node_ready_committed(node, known->id, status, MOB_TYPE_ERROR, NODE_NOBODY, 0);
    else if (!from_lineage(node, known))
        node_lost_tell(node, known->id, mob_losses_last(node->losses));
}

static void on_known(void *arg, enum mob_status status, const struct known *known)
{
    struct node *node = arg;
    if (status != MOB_OK)
        node_ready_committed(node, known->id, status, MOB_TYPE_ERROR, NODE_NOBODY, 0);
    else if (!from_lineage(node, known))
        node_lost_ask(node, known->id, on_known_again);
}

void node_resolve(struct node *node, struct mob_object_id id)
{
    if (node->promise_count > 0 && node_promised(node, id))
        return; /* its value comes from the client that promised it */
    if (!known_asked(node, id, on_known))
        known_ask(node, id, on_known, node);
}
