/* What the node tells its clients: futures that became ready, replies, acknowledgements.
 *
 * A ring that has no room never stops the node: the client is marked `missed`, gets one MOB_IN_MISSED when
 * there is room again, and watches what it still waits for. Replies are asked for once, so they are kept for
 * it.
 */
#include "runtime/node/notices.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/alias.h"
#include "runtime/node/lane.h"
#include "runtime/node/large_hashes.h"
#include "runtime/node/taken.h"
#include "runtime/node/task.h"
#include "runtime/node/watches.h"

/* A list of 65,536 functions with what is told of each; all that a client has not read: that, and more behind
 * it. */
enum { REPLY_BYTES_MAX = 32 << 20, REPLIES_KEPT_BYTES_MAX = 48 << 20 };
enum { REPLY_PART_BYTES_MAX = MOB_RECORD_MAX - 64 };

struct kept_reply {
    struct kept_reply *next;
    struct mob_in_reply head;
    uint8_t payload[];
};

void node_watch_request(
    struct node *node, struct node_client *client, struct mob_object_id id, uint32_t request)
{
    struct watch *watch = watch_table_add(node->watches, id, client->slot, client->session);
    watch->request = request;
    watch->is_request = true;
}

void node_watch_made(struct node *node, struct node_client *client, struct mob_object_id id)
{
    watch_table_add(node->watches, id, client->slot, client->session);
}

bool node_watched(const struct node *node, struct mob_object_id id)
{
    return watch_table_has(node->watches, id);
}

void node_unwatch_client(struct node *node, struct node_client *client)
{
    watch_table_drop(node->watches, client->slot, client->session);
}

void node_mark_flush(struct node *node, struct node_client *client)
{
    if (client->flush_due)
        return;
    client->flush_due = true;
    node->flush_slots[node->flush_count++] = client->slot;
}

void node_flush_rings(struct node *node)
{
    for (uint32_t i = 0; i < node->flush_count; i++) {
        struct node_client *client = node->clients[node->flush_slots[i]];
        if (!client || !client->flush_due)
            continue;
        client->flush_due = false;
        mob_store_in_flush(node->store, client->slot);
    }
    node->flush_count = 0;
}

void *node_in_reserve(
    struct node *node, struct node_client *client, uint8_t type, uint8_t flags, uint16_t aux, uint32_t bytes)
{
    void *body = mob_store_in_reserve(node->store, client->slot, type, flags, aux, bytes);
    if (body)
        node_mark_flush(node, client);
    return body;
}

void *node_in_append(
    struct node *node, struct node_client *client, uint8_t type, uint8_t flags, uint16_t aux, uint32_t bytes)
{
    void *body = mob_store_in_append(node->store, client->slot, type, flags, aux, bytes);
    if (body)
        node_mark_flush(node, client);
    return body;
}

static void note_missed(struct node *node, struct node_client *client)
{
    if (!client->missed) {
        client->missed = true;
        node->missed_clients++;
    }
}

static bool put_reply(
    struct node *node, struct node_client *client, const struct mob_in_reply *head, const void *payload)
{
    uint8_t *body =
        node_in_reserve(node, client, MOB_IN_REPLY, 0, 0, (uint32_t)sizeof *head + head->payload_bytes);
    if (!body)
        return false;
    memcpy(body, head, sizeof *head);
    if (payload)
        memcpy(body + sizeof *head, payload, head->payload_bytes);
    return true;
}

/* False: more than a client that reads would ever leave. */
static bool keep_reply(
    struct node *node, struct node_client *client, const struct mob_in_reply *head, const void *payload)
{
    uint32_t bytes = (uint32_t)sizeof(struct kept_reply) + head->payload_bytes;
    if (client->replies_bytes + bytes > REPLIES_KEPT_BYTES_MAX)
        return false;
    struct kept_reply *kept = malloc(bytes);
    MOB_ASSERT(kept);
    kept->next = NULL;
    kept->head = *head;
    if (payload)
        memcpy(kept->payload, payload, head->payload_bytes);
    if (!client->replies)
        client->replies_end = &client->replies;
    *client->replies_end = kept;
    client->replies_end = &kept->next;
    client->replies_bytes += bytes;
    note_missed(node, client);
    return true;
}

static void drop_first_reply(struct node_client *client)
{
    struct kept_reply *kept = client->replies;
    client->replies_bytes -= (uint32_t)sizeof *kept + kept->head.payload_bytes;
    client->replies = kept->next;
    free(kept);
}

void node_notices_forget(struct node *node, struct node_client *client)
{
    while (client->replies)
        drop_first_reply(client);
    if (client->missed)
        node->missed_clients--;
    client->missed = false;
}

/* Clients whose rings were full: their replies and one marker each as soon as there is room. */
void node_missed_retry(struct node *node)
{
    if (node->missed_clients == 0)
        return;
    for (uint32_t slot = 0; slot < node->client_top; slot++) {
        struct node_client *client = node->clients[slot];
        if (!client || !client->missed)
            continue;
        while (client->replies && put_reply(node, client, &client->replies->head, client->replies->payload))
            drop_first_reply(client);
        if (!client->replies && node_in_reserve(node, client, MOB_IN_MISSED, 0, 0, 0)) {
            client->missed = false;
            node->missed_clients--;
        }
    }
}

bool node_notice_ready(struct node *node, uint32_t slot, const struct ready_object *object)
{
    struct node_client *client = node->clients[slot];
    if (client->missed)
        return false; /* its ring is full: MOB_IN_MISSED covers this one too */
    uint32_t inline_bytes = object->small ? (uint32_t)object->size : 0;
    uint8_t *body = node_in_reserve(
        node, client, MOB_IN_READY, 0, 0, (uint32_t)sizeof(struct mob_in_ready) + inline_bytes);
    if (!body) {
        note_missed(node, client);
        return false;
    }
    struct mob_in_ready ready = {
        .id = object->id,
        .status = (uint16_t)object->status,
        .type = (uint8_t)object->type,
        .flags = object->flags,
        .size = object->size,
        .inline_bytes = inline_bytes,
    };
    memcpy(body, &ready, sizeof ready);
    if (inline_bytes > 0)
        memcpy(body + sizeof ready, object->small, inline_bytes);
    return true;
}

void node_reply(struct node *node, uint32_t slot, uint32_t session, uint32_t request, enum mob_status status,
    const void *payload, uint32_t bytes)
{
    if (!node_client_is(node, slot, session))
        return;
    struct node_client *client = node->clients[slot];
    if (bytes > REPLY_BYTES_MAX) {
        status = MOB_TOO_LARGE;
        bytes = 0;
    }
    const uint8_t *at = payload;
    bool there = true;
    struct mob_in_reply part = {.request = request, .status = (uint16_t)status, .more = 1};
    while (there && part.more) {
        part.payload_bytes = bytes < REPLY_PART_BYTES_MAX ? bytes : REPLY_PART_BYTES_MAX;
        bytes -= part.payload_bytes;
        part.more = bytes > 0;
        there =
            (!client->replies && put_reply(node, client, &part, at)) || keep_reply(node, client, &part, at);
        at += at ? part.payload_bytes : 0;
    }
    if (!there)
        MOB_LOG_WARN("node", "reply_dropped", "slot=%u request=%u", slot, request);
}

/* The effect that makes an object committed and tells `slot`. */
static struct effect ready_effect(const struct ready_object *object, uint32_t slot, uint32_t session)
{
    struct effect effect = {
        .kind = EFFECT_READY,
        .type = (uint8_t)object->type,
        .flags = object->flags | MOB_READY_COMMITTED,
        .remakeable = object->remakeable,
        .status = (uint16_t)object->status,
        .slot = slot,
        .session = session,
    };
    effect.ready.id = object->id;
    effect.ready.size = object->size;
    effect.inline_bytes = UINT16_MAX; /* in the store only */
    if (object->small && object->size <= EFFECT_INLINE_MAX) {
        effect.inline_bytes = (uint16_t)object->size;
        if (object->size > 0)
            memcpy(effect.ready.small, object->small, object->size);
    }
    return effect;
}

/* Behind the log, and behind the object's hash when that has an entry of its own. */
static void when_committed(struct node *node, struct effect *effect)
{
    if (!large_hashes_keep(node, effect->ready.id, effect))
        lineage_log_effect(node->log, effect);
}

/* Tell one client: at once when it lives and dies with the node, else when the commit is there. */
static void tell(struct node *node, uint32_t slot, uint32_t session, const struct ready_object *object)
{
    if (!node_client_is(node, slot, session))
        return;
    if (object->committed || node_sees_uncommitted(node->clients[slot])) {
        node_notice_ready(node, slot, object);
        return;
    }
    struct effect effect = ready_effect(object, slot, session);
    when_committed(node, &effect);
}

/* For who wants the value: the end of a generator is none. */
static enum mob_status outcome_of(const struct ready_object *object)
{
    return object->flags & MOB_READY_LAST ? MOB_NOT_FOUND : object->status;
}

/* Of an error that stands in no store: whoever asked for the bytes gets its words. */
static struct mob_error_link words_of(const struct ready_object *object)
{
    struct mob_error_link link = {0};
    if (object->type == MOB_TYPE_ERROR && object->small &&
        mob_error_decode(object->small, object->size, &link, 1) != 1)
        link.message_bytes = 0;
    return link;
}

static void reply_outcome(struct node *node, const struct watch *watch, const struct ready_object *object)
{
    struct mob_error_link words = words_of(object);
    node_reply(node, watch->slot, watch->session, watch->request, outcome_of(object), words.message,
        words.message_bytes);
}

static void tell_watchers(struct node *node, const struct ready_object *object)
{
    struct watch watch;
    while (watch_table_take(node->watches, object->id, &watch)) {
        if (watch.is_request)
            reply_outcome(node, &watch, object);
        else
            tell(node, watch.slot, watch.session, object);
    }
}

bool node_object_ready(
    struct node *node, const struct ready_object *object, uint32_t submitter, uint32_t session)
{
    mob_sched_object_ready(node->sched, object->id);
    bool told = false, live = submitter != NODE_NOBODY && node_client_is(node, submitter, session);
    if (live && (object->committed || node_sees_uncommitted(node->clients[submitter]))) {
        told = node_notice_ready(node, submitter, object);
        live = false;
    }
    if (!object->committed) {
        struct effect effect = ready_effect(object, live ? submitter : NODE_NOBODY, session);
        when_committed(node, &effect);
    }
    if (node->watches->count > 0)
        tell_watchers(node, object);
    node_alias_ready(node, object);
    return told;
}

bool node_awaits_any(const struct node *node)
{
    return node->watches->count > 0 || mob_sched_awaits_any(node->sched) || node_alias_any(node);
}

/* Who asked for it by name, or stands for it. */
static void result_awaited(struct node *node, const struct ready_object *object)
{
    mob_sched_object_ready(node->sched, object->id);
    if (node->watches->count > 0)
        tell_watchers(node, object);
    node_alias_ready(node, object);
}

void node_results_ready(
    struct node *node, const struct log_result *first, const uint64_t *values, uint32_t count)
{
    struct log_result told = *first;
    struct ready_object object = {
        .id = mob_object_of(first->task, 0),
        .type = (enum mob_value_type)first->type,
        .remakeable = true,
        .size = sizeof *values,
    };
    bool live = told.slot != NODE_NOBODY && node_client_is(node, told.slot, told.session);
    bool at_once = live && node_sees_uncommitted(node->clients[told.slot]);
    if (!live || at_once)
        told.slot = NODE_NOBODY;
    lineage_log_results(node->log, &told, values, count);
    bool awaited = node_awaits_any(node);
    if (!awaited && !at_once)
        return;
    for (uint32_t i = 0; i < count; i++, object.id.task.index++) {
        object.small = (const uint8_t *)&values[i];
        if (at_once)
            node_notice_ready(node, first->slot, &object);
        if (awaited)
            result_awaited(node, &object);
    }
}

static void notice_run(
    struct node *node, struct node_client *client, const struct effect_run *run, enum mob_value_type type)
{
    struct mob_in_ready_run head = {
        .stream = run->stream, .first = run->first, .type = (uint8_t)type, .flags = MOB_READY_COMMITTED};
    uint32_t values_bytes = run->count * (uint32_t)sizeof run->values[0];
    if (client->missed)
        return; /* as in node_notice_ready */
    uint8_t *body = node_in_reserve(
        node, client, MOB_IN_READY_RUN, 0, (uint16_t)run->count, (uint32_t)sizeof head + values_bytes);
    if (!body) {
        note_missed(node, client);
        return;
    }
    memcpy(body, &head, sizeof head);
    memcpy(body + sizeof head, run->values, values_bytes);
}

static void effect_run(struct node *node, const struct effect *effect)
{
    const struct effect_run *run = effect->run;
    struct mob_task_id first = {run->stream, run->first};
    mob_store_results_committed(node->store, first, run->count);
    if (effect->slot == NODE_NOBODY || !node_client_is(node, effect->slot, effect->session))
        return;
    notice_run(node, node->clients[effect->slot], run, (enum mob_value_type)effect->type);
}

static void effect_ready(struct node *node, const struct effect *effect)
{
    mob_store_object_committed(node->store, effect->ready.id, effect->remakeable);
    if (effect->slot == NODE_NOBODY || !node_client_is(node, effect->slot, effect->session))
        return;
    struct ready_object object = {
        .id = effect->ready.id,
        .status = (enum mob_status)effect->status,
        .type = (enum mob_value_type)effect->type,
        .flags = effect->flags,
        .size = effect->ready.size,
        .small = effect->inline_bytes == UINT16_MAX ? NULL : effect->ready.small,
    };
    node_notice_ready(node, effect->slot, &object);
}

void node_run_effect(void *arg, const struct effect *effect)
{
    struct node *node = arg;
    switch (effect->kind) {
    case EFFECT_READY:
        effect_ready(node, effect);
        break;
    case EFFECT_RING_ACK:
        if (node_client_is(node, effect->slot, effect->session))
            mob_store_ack(node->store, effect->slot, effect->position);
        break;
    case EFFECT_RUN:
        effect_run(node, effect);
        break;
    case EFFECT_CALL:
        effect->call.fn(effect->call.arg);
        break;
    default:
        MOB_ASSERT(!"effect kind");
    }
}

void node_fetch_effect(void *arg, const struct effect *effect)
{
    const struct node *node = arg;
    if (effect->kind == EFFECT_READY)
        mob_store_object_fetch(node->store, effect->ready.id);
    else if (effect->kind == EFFECT_RUN)
        __builtin_prefetch(effect->run);
}

/* Drivers' ring space is theirs until the block that holds their records is acknowledged. */
void node_before_block_close(void *arg)
{
    struct node *node = arg;
    node->acks_due = false;
    for (uint32_t slot = 0; slot < node->client_top; slot++) {
        struct node_client *client = node->clients[slot];
        if (!client || client->kind == MOB_CLIENT_WORKER)
            continue;
        uint64_t taken =
            client == node->intake_client ? node->intake_from : mob_store_taken(node->store, slot);
        uint64_t waiting;
        if (node_lane_from(client, &waiting) && taken > waiting)
            taken = waiting;
        if (taken <= client->acked_queued)
            continue;
        client->acked_queued = taken;
        struct effect effect = {.kind = EFFECT_RING_ACK, .slot = slot, .session = client->session};
        effect.position = taken;
        lineage_log_effect(node->log, &effect);
    }
}

void node_acknowledge_rings(struct node *node)
{
    if (node->acks_due && !lineage_log_open(node->log))
        node_before_block_close(node);
}

void node_watch(struct node *node, struct node_client *client, struct mob_object_id id)
{
    struct mob_object_info info;
    if (mob_store_object_info(node->store, id, &info) && info.sealed &&
        (node_sees_uncommitted(client) || node_object_taken(node, id, &info))) {
        struct ready_object object = {
            .id = id,
            .status = info.type == MOB_TYPE_ERROR ? MOB_TASK_FAILED : MOB_OK,
            .type = info.type,
            .size = info.size,
            .committed = info.committed,
            .flags = info.committed ? MOB_READY_COMMITTED : 0,
        };
        tell(node, client->slot, client->session, &object);
        return;
    }
    watch_table_add(node->watches, id, client->slot, client->session);
    if (!node_task_find(node, id.task))
        node_resolve(node, id);
}
