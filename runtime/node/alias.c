/* Tail calls: an object that becomes what another one becomes. Resolved one after the other from a queue,
 * never by recursion, so a chain may be as long as memory.
 *
 * An alias lies in two tables: by its target, whose readiness resolves it, and by the task that ended with
 * it, which is how a cancel finds what that task became.
 */
#include "runtime/node/alias.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/notices.h"
#include "runtime/node/taken.h"
#include "runtime/node/task.h"

struct alias {
    struct alias *next; /* with the same hash of its target */
    struct alias *next_of_task; /* with the same hash of its task */
    struct node_tail_call call;
    uint32_t seen, followed; /* walks of a cancel that came by */
};
struct pending {
    struct mob_object_id id, target;
    struct ready_object object;
    uint8_t small[EFFECT_INLINE_MAX];
    uint32_t submitter, session;
};
struct alias_table {
    struct alias **buckets; /* by target */
    struct alias **of_task; /* by task; as many */
    uint32_t mask, count;
    uint32_t walk; /* number of the last cancel */
    struct room_pool rooms; /* of aliases */
    struct pending *queue; /* aliases whose target is ready */
    uint32_t head, tail, capacity;
    bool running;
};

enum { ALIAS_BUCKETS_FIRST = 1024, ERROR_VALUE_MAX = 4096 + 256 };

/* Who asks wants an answer now: behind so many a chain counts as living, and as no circle. */
#define HOPS_MAX 1024

struct alias_table *alias_table_create(void)
{
    struct alias_table *table = calloc(1, sizeof *table);
    MOB_ASSERT(table);
    table->mask = ALIAS_BUCKETS_FIRST - 1;
    table->buckets = calloc(ALIAS_BUCKETS_FIRST, sizeof *table->buckets);
    table->of_task = calloc(ALIAS_BUCKETS_FIRST, sizeof *table->of_task);
    MOB_ASSERT(table->buckets && table->of_task);
    return table;
}

void alias_table_destroy(struct alias_table *table)
{
    if (!table)
        return;
    room_pool_free(&table->rooms);
    free(table->buckets);
    free(table->of_task);
    free(table->queue);
    free(table);
}

static struct alias **bucket_of(const struct alias_table *table, struct mob_object_id target)
{
    return &table->buckets[(mob_task_id_mix(target.task) ^ target.slot) & table->mask];
}

static struct alias **bucket_of_task(const struct alias_table *table, struct mob_task_id task)
{
    return &table->of_task[mob_task_id_mix(task) & table->mask];
}

static void link_in(struct alias_table *table, struct alias *alias)
{
    struct alias **by_target = bucket_of(table, alias->call.target);
    struct alias **by_task = bucket_of_task(table, alias->call.id.task);
    alias->next = *by_target;
    *by_target = alias;
    alias->next_of_task = *by_task;
    *by_task = alias;
}

/* It is out of the other table already. */
static void unlink_of_task(struct alias_table *table, struct alias *alias)
{
    struct alias **at = bucket_of_task(table, alias->call.id.task);
    while (*at != alias)
        at = &(*at)->next_of_task;
    *at = alias->next_of_task;
}

static void grow(struct alias_table *table)
{
    struct alias_table bigger = *table;
    bigger.mask = table->mask * 2 + 1;
    bigger.buckets = calloc((size_t)bigger.mask + 1, sizeof *bigger.buckets);
    bigger.of_task = calloc((size_t)bigger.mask + 1, sizeof *bigger.of_task);
    if (!bigger.buckets || !bigger.of_task) { /* longer chains, still right */
        free(bigger.buckets);
        free(bigger.of_task);
        return;
    }
    for (uint32_t i = 0; i <= table->mask; i++)
        while (table->buckets[i]) {
            struct alias *alias = table->buckets[i];
            table->buckets[i] = alias->next;
            link_in(&bigger, alias);
        }
    free(table->buckets);
    free(table->of_task);
    table->buckets = bigger.buckets;
    table->of_task = bigger.of_task;
    table->mask = bigger.mask;
}

static void push(struct alias_table *table, const struct pending *pending)
{
    if (table->head == table->tail)
        table->head = table->tail = 0;
    if (table->tail == table->capacity) {
        table->capacity = table->capacity ? table->capacity * 2 : 256;
        table->queue = realloc(table->queue, table->capacity * sizeof *table->queue);
        MOB_ASSERT(table->queue);
    }
    struct pending *to = &table->queue[table->tail++];
    *to = *pending;
}

/* A large value is referred to. */
static enum mob_status put_reference(
    struct node *node, struct mob_object_id id, struct mob_object_id target, uint64_t *size_out)
{
    uint8_t value[256] __attribute__((aligned(64))), *at;
    enum mob_status status = mob_value_full_size(sizeof target, 0, 0, size_out);
    MOB_ASSERT(status == MOB_OK && *size_out <= sizeof value);
    status = mob_value_init(value, *size_out, MOB_TYPE_FUTURE, sizeof target, NULL, 0, NULL, 0, &at);
    MOB_ASSERT(status == MOB_OK);
    memcpy(at, &target, sizeof target);
    mob_value_hash(value);
    return mob_store_object_put(node->store, id, MOB_TYPE_FUTURE, false, value, *size_out);
}

/* An error is copied: whoever looks at the alias sees that it has failed, without following it. */
static enum mob_status put_error(
    struct node *node, struct mob_object_id id, struct mob_object_id target, uint64_t *size_out)
{
    enum mob_value_type type;
    const uint8_t *bytes;
    uint8_t copy[ERROR_VALUE_MAX] __attribute__((aligned(64)));
    enum mob_status status = mob_store_object_bytes(node->store, target, false, &type, &bytes, size_out);
    if (status != MOB_OK || type != MOB_TYPE_ERROR || *size_out > sizeof copy)
        return put_reference(node, id, target, size_out);
    memcpy(copy, bytes, *size_out); /* putting may move what lies in the store */
    return mob_store_object_put(node->store, id, MOB_TYPE_ERROR, false, copy, *size_out);
}

/* The alias takes the target's value, as far as it is small. */
static void settle(struct node *node, struct pending *p)
{
    struct ready_object own = p->object;
    own.id = p->id;
    own.committed = false;
    own.flags = 0;
    own.remakeable = true;
    enum mob_status put;
    if (p->object.small) {
        own.small = p->small;
        put = mob_store_object_put(node->store, p->id, own.type, true, p->small, own.size);
    } else if (p->object.status != MOB_OK) {
        put = put_error(node, p->id, p->target, &own.size);
    } else {
        own.type = MOB_TYPE_FUTURE;
        large_hashes_follow(node, p->id, p->target);
        put = put_reference(node, p->id, p->target, &own.size);
    }
    if (put != MOB_OK && put != MOB_EXISTS) /* the completion in the log says it all the same */
        MOB_LOG_WARN("alias", "not_stored", "status=%s", mob_status_code(put));
    node_object_ready(node, &own, p->submitter, p->session);
}

static void run_queue(struct node *node)
{
    struct alias_table *table = node->aliases;
    if (table->running)
        return;
    table->running = true;
    while (table->head < table->tail) {
        struct pending p = table->queue[table->head++];
        settle(node, &p);
    }
    table->running = false;
}

static void queue_ready(
    struct node *node, const struct node_tail_call *call, const struct ready_object *object)
{
    /* where it will stand, and who waits for it: all at once, and not one after the other */
    mob_store_object_fetch(node->store, call->id);
    mob_sched_object_fetch(node->sched, call->id);
    node_alias_fetch(node, call->id);
    struct pending p = {.id = call->id,
        .target = object->id,
        .object = *object,
        .submitter = call->submitter,
        .session = call->session};
    p.object.small = NULL;
    if (object->small && object->size <= sizeof p.small) {
        memcpy(p.small, object->small, object->size);
        p.object.small = p.small; /* a mark: settle uses the copy */
    }
    push(node->aliases, &p);
}

void node_alias_fetch(const struct node *node, struct mob_object_id id)
{
    const struct alias_table *table = node->aliases;
    if (table->count > 0)
        __builtin_prefetch(bucket_of(table, id));
}

void node_alias_fetch_more(const struct node *node, struct mob_object_id id)
{
    const struct alias_table *table = node->aliases;
    const struct alias *alias = table->count > 0 ? *bucket_of(table, id) : NULL;
    if (alias)
        __builtin_prefetch(&alias->call);
}

bool node_alias_awaits(const struct node *node, struct mob_object_id id)
{
    const struct alias_table *table = node->aliases;
    const struct alias *alias = table->count > 0 ? *bucket_of(table, id) : NULL;
    while (alias && !mob_object_id_eq(alias->call.target, id))
        alias = alias->next;
    return alias != NULL;
}

bool node_alias_any(const struct node *node)
{
    const struct alias_table *table = node->aliases;
    return table->count > 0 || table->head < table->tail;
}

void node_alias_ready(struct node *node, const struct ready_object *object)
{
    struct alias_table *table = node->aliases;
    if (table->count > 0) {
        for (struct alias **at = bucket_of(table, object->id); *at;) {
            struct alias *alias = *at;
            if (!mob_object_id_eq(alias->call.target, object->id)) {
                at = &alias->next;
                continue;
            }
            *at = alias->next;
            table->count--;
            unlink_of_task(table, alias);
            queue_ready(node, &alias->call, object);
            room_give(&table->rooms, alias);
        }
    }
    if (table->head < table->tail)
        run_queue(node);
}

static struct alias *next_of(struct alias *alias, struct mob_task_id task)
{
    while (alias && !mob_task_id_eq(alias->call.id.task, task))
        alias = alias->next_of_task;
    return alias;
}

static struct alias *first_of(const struct alias_table *table, struct mob_task_id task)
{
    return table->count > 0 ? next_of(*bucket_of_task(table, task), task) : NULL;
}

/* The same again, as after a restart by whoever looks it up: one is enough, unless two wait to be told. */
static bool is_known(const struct alias_table *table, const struct node_tail_call *call)
{
    for (struct alias *a = first_of(table, call->id.task); a; a = next_of(a->next_of_task, call->id.task)) {
        if (!mob_object_id_eq(a->call.id, call->id) || !mob_object_id_eq(a->call.target, call->target))
            continue;
        if (a->call.submitter == NODE_NOBODY) {
            a->call.submitter = call->submitter;
            a->call.session = call->session;
            return true;
        }
        if (call->submitter == NODE_NOBODY)
            return true;
    }
    return false;
}

/* Does what it stands for stand for it, or is it itself? Mostly the target is no alias yet. */
static bool closes_circle(const struct node *node, const struct node_tail_call *call)
{
    struct mob_object_id end = call->target;
    for (int hops = 0; hops < HOPS_MAX; hops++) {
        if (mob_object_id_eq(end, call->id))
            return true;
        if (!node_tail_target(node, end, &end))
            return false;
    }
    return false;
}

void node_alias(struct node *node, const struct node_tail_call *call)
{
    struct alias_table *table = node->aliases;
    if (closes_circle(node, call)) { /* who waits for one of the others hears of it from this one */
        struct ready_object self = {.id = call->id, .status = MOB_CYCLE, .type = MOB_TYPE_ERROR};
        node_object_ready(node, &self, call->submitter, call->session);
        return;
    }
    struct mob_object_info info;
    uint8_t small[EFFECT_INLINE_MAX];
    if (mob_store_object_info(node->store, call->target, &info) && info.sealed &&
        node_object_taken(node, call->target, &info)) {
        struct ready_object ready = {.id = call->target,
            .status = info.type == MOB_TYPE_ERROR ? MOB_TASK_FAILED : MOB_OK,
            .type = info.type,
            .size = info.size};
        if (info.inline_value) {
            enum mob_value_type type;
            const uint8_t *bytes;
            uint64_t size;
            if (mob_store_object_bytes(node->store, call->target, false, &type, &bytes, &size) == MOB_OK &&
                size <= sizeof small) {
                memcpy(small, bytes, size);
                ready.small = small;
            }
        }
        queue_ready(node, call, &ready);
        run_queue(node);
        return;
    }
    if (is_known(table, call))
        return;
    struct alias *alias = room_take(&table->rooms, sizeof *alias);
    *alias = (struct alias){.call = *call};
    if (table->count > table->mask)
        grow(table);
    link_in(table, alias);
    table->count++;
    if (!node_task_find(node, call->target.task))
        node_resolve(node, call->target);
}

/* ---- what a task became ---- */

const struct node_tail_call *node_tail_call_of(const struct node *node, struct mob_task_id task)
{
    const struct alias *alias = first_of(node->aliases, task);
    return alias ? &alias->call : NULL;
}

bool node_tail_target(const struct node *node, struct mob_object_id id, struct mob_object_id *target_out)
{
    struct alias *alias = first_of(node->aliases, id.task);
    while (alias && alias->call.id.slot != id.slot)
        alias = next_of(alias->next_of_task, id.task);
    if (alias)
        *target_out = alias->call.target;
    return alias != NULL;
}

bool node_tail_call_lives(struct node *node, const struct node_tail_call *call)
{
    struct mob_object_id end = call->target;
    for (int hops = 0; hops < HOPS_MAX; hops++) {
        if (node_task_find(node, end.task))
            return true;
        if (!node_tail_target(node, end, &end))
            return node_promised(node, end);
    }
    return true;
}

void node_tail_walk_begin(struct node *node)
{
    node->aliases->walk++;
}

bool node_tail_walk_kin(const struct node *node, struct mob_task_id task, struct mob_sched_kin *kin_out)
{
    struct alias *alias = first_of(node->aliases, task);
    if (!alias || alias->seen == node->aliases->walk)
        return false;
    alias->seen = node->aliases->walk;
    kin_out->stream = mob_stream_of_children(task, alias->call.generation, 0);
    kin_out->sparse = alias->call.children == NODE_CHILDREN_UNKNOWN;
    kin_out->count = kin_out->sparse ? 0 : alias->call.children;
    return true;
}

uint32_t node_tail_walk_targets(
    const struct node *node, struct mob_task_id task, struct mob_task_id *targets_out, uint32_t max)
{
    uint32_t count = 0;
    for (struct alias *a = first_of(node->aliases, task); a && count < max;
         a = next_of(a->next_of_task, task))
        if (a->followed != node->aliases->walk) {
            a->followed = node->aliases->walk;
            targets_out[count++] = a->call.target.task;
        }
    return count;
}
