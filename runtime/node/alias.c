/* Tail calls: an object that becomes what another one becomes. Resolved one after the other from a queue,
 * never by recursion, so a chain may be as long as memory.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/node.h"

struct alias {
    struct alias *next;
    struct mob_object_id target;
    struct mob_object_id id;
    uint32_t submitter, session;
};
struct pending {
    struct mob_object_id id, target;
    struct ready_object object;
    uint8_t small[EFFECT_INLINE_MAX];
    uint32_t submitter, session;
};
struct alias_table {
    struct alias **buckets;
    uint32_t mask, count;
    struct pending *queue; /* aliases whose target is ready */
    uint32_t head, tail, capacity;
    bool running;
};

enum { ALIAS_BUCKETS_FIRST = 1024 };

struct alias_table *alias_table_create(void)
{
    struct alias_table *table = calloc(1, sizeof *table);
    MOB_ASSERT(table);
    table->mask = ALIAS_BUCKETS_FIRST - 1;
    table->buckets = calloc(ALIAS_BUCKETS_FIRST, sizeof *table->buckets);
    MOB_ASSERT(table->buckets);
    return table;
}

void alias_table_destroy(struct alias_table *table)
{
    if (!table)
        return;
    for (uint32_t i = 0; i <= table->mask; i++)
        while (table->buckets[i]) {
            struct alias *next = table->buckets[i]->next;
            free(table->buckets[i]);
            table->buckets[i] = next;
        }
    free(table->buckets);
    free(table->queue);
    free(table);
}

static struct alias **bucket_of(struct alias_table *table, struct mob_object_id target)
{
    return &table->buckets[(mob_task_id_mix(target.task) ^ target.slot) & table->mask];
}

static void grow(struct alias_table *table)
{
    struct alias_table bigger = *table;
    bigger.mask = table->mask * 2 + 1;
    bigger.buckets = calloc((size_t)bigger.mask + 1, sizeof *bigger.buckets);
    if (!bigger.buckets)
        return;
    for (uint32_t i = 0; i <= table->mask; i++)
        while (table->buckets[i]) {
            struct alias *alias = table->buckets[i];
            table->buckets[i] = alias->next;
            struct alias **to = bucket_of(&bigger, alias->target);
            alias->next = *to;
            *to = alias;
        }
    free(table->buckets);
    table->buckets = bigger.buckets;
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

/* The alias takes the target's value: a small one is copied, a large one is referred to. */
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
    } else {
        uint64_t size;
        uint8_t value[256] __attribute__((aligned(64))), *at;
        enum mob_status status = mob_value_full_size(sizeof p->target, 0, 0, &size);
        MOB_ASSERT(status == MOB_OK && size <= sizeof value);
        status = mob_value_init(value, size, MOB_TYPE_FUTURE, sizeof p->target, NULL, 0, NULL, 0, &at);
        MOB_ASSERT(status == MOB_OK);
        memcpy(at, &p->target, sizeof p->target);
        mob_value_hash(value);
        if (p->object.status == MOB_OK)
            own.type = MOB_TYPE_FUTURE;
        put = mob_store_object_put(node->store, p->id, MOB_TYPE_FUTURE, false, value, size);
        own.size = size;
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

static void queue_ready(struct node *node, struct mob_object_id id, const struct ready_object *object,
    uint32_t submitter, uint32_t session)
{
    struct pending p = {
        .id = id, .target = object->id, .object = *object, .submitter = submitter, .session = session};
    p.object.small = NULL;
    if (object->small && object->size <= sizeof p.small) {
        memcpy(p.small, object->small, object->size);
        p.object.small = p.small; /* a mark: settle uses the copy */
    }
    push(node->aliases, &p);
}

void node_alias_ready(struct node *node, const struct ready_object *object)
{
    struct alias_table *table = node->aliases;
    if (table->count > 0) {
        for (struct alias **at = bucket_of(table, object->id); *at;) {
            struct alias *alias = *at;
            if (!mob_object_id_eq(alias->target, object->id)) {
                at = &alias->next;
                continue;
            }
            *at = alias->next;
            table->count--;
            queue_ready(node, alias->id, object, alias->submitter, alias->session);
            free(alias);
        }
    }
    if (table->head < table->tail)
        run_queue(node);
}

void node_alias(struct node *node, struct mob_object_id id, struct mob_object_id target, uint32_t submitter,
    uint32_t session)
{
    struct alias_table *table = node->aliases;
    if (mob_object_id_eq(id, target)) { /* a task that returns its own future */
        struct ready_object self = {.id = id, .status = MOB_CYCLE, .type = MOB_TYPE_ERROR};
        node_object_ready(node, &self, submitter, session);
        return;
    }
    struct mob_object_info info;
    uint8_t small[EFFECT_INLINE_MAX];
    if (mob_store_object_info(node->store, target, &info) && info.sealed) {
        struct ready_object ready = {.id = target,
            .status = info.type == MOB_TYPE_ERROR ? MOB_TASK_FAILED : MOB_OK,
            .type = info.type,
            .size = info.size};
        if (info.inline_value) {
            enum mob_value_type type;
            const uint8_t *bytes;
            uint64_t size;
            if (mob_store_object_bytes(node->store, target, false, &type, &bytes, &size) == MOB_OK &&
                size <= sizeof small) {
                memcpy(small, bytes, size);
                ready.small = small;
            }
        }
        queue_ready(node, id, &ready, submitter, session);
        run_queue(node);
        return;
    }
    struct alias *alias = malloc(sizeof *alias);
    MOB_ASSERT(alias);
    if (table->count > table->mask)
        grow(table);
    struct alias **bucket = bucket_of(table, target);
    *alias = (struct alias){*bucket, target, id, submitter, session};
    *bucket = alias;
    table->count++;
    if (!node_task_find(node, target.task))
        node_resolve(node, target);
}
