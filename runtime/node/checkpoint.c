/* Checkpoints of actors: kept in the GCS' CHECKPOINTS table under the actor's id, newest only; a torn or
 * refused one leaves the one before. What a checkpoint covers is not replayed (GCS.md "Actors", 6).
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/wire/checkpoint_row.h"
#include "runtime/node/actor_record.h"
#include "runtime/node/actor_needs.h"
#include "runtime/node/actors.h"
#include "runtime/node/checkpoint_room.h"
#include "runtime/node/checkpoint_sweep.h"
#include "runtime/node/replay.h"
#include "runtime/node/row_writes.h"

/* One on its way to the GCS. */
struct saving {
    struct node *node;
    struct mob_actor_id actor;
    uint64_t position;
    int64_t submitted_wall_ns; /* of the call at `position`; 0: not known */
    uint32_t bytes;
    uint8_t value[]; /* row and state */
};

static void saved(void *arg, const struct mob_gcs_answer *answer)
{
    struct saving *saving = arg;
    struct node_actor *actor = node_actor_find(saving->node, saving->actor);
    if (answer->status != MOB_OK)
        MOB_LOG_WARN("checkpoint", "refused", "status=%s", mob_status_code(answer->status));
    else if (actor && actor->life.state != MOB_ACTOR_DEAD) {
        mob_actor_life_checkpointed(&actor->life, saving->position + 1);
        if (saving->submitted_wall_ns != 0) /* calls behind it were submitted no earlier */
            actor->needed_since_wall_ns = saving->submitted_wall_ns;
    }
    if (answer->status == MOB_OK && (!actor || actor->job->deleted))
        checkpoint_sweep_due(saving->node); /* which may have come past its row */
    free(saving);
}

/* Behind the completions of the calls that it covers: a checkpoint ahead of the log would have them run
 * twice. */
static void send(void *arg)
{
    struct saving *saving = arg;
    struct node *node = saving->node;
    const struct mob_actor_id actor = saving->actor;
    struct mob_gcs_put put = {.table = MOB_GCS_CHECKPOINTS,
        .key = &actor,
        .key_length = sizeof actor,
        .value = saving->value,
        .value_length = saving->bytes,
        .if_version = MOB_GCS_ANY_VERSION};
    enum mob_status status = mob_gcs_put(node->gcs, &put, saved, saving);
    if (status == MOB_OK) {
        row_writes_keep(node, put.table, &actor, sizeof actor); /* actor_row_new */
        return;
    }
    MOB_LOG_WARN("checkpoint", "not_sent", "status=%s", mob_status_code(status));
    free(saving);
}

static void save(struct node *node, const struct mob_out_checkpoint *head, enum mob_value_type type,
    const void *state, uint64_t bytes)
{
    struct mob_checkpoint_row row = {.version = MOB_CHECKPOINT_ROW_VERSION,
        .type = (uint16_t)type,
        .bytes = (uint32_t)bytes,
        .position = head->position};
    if (bytes > MOB_GCS_VALUE_MAX - sizeof row) {
        MOB_LOG_WARN(
            "checkpoint", "too_large", "bytes=%lu max=%zu", bytes, (size_t)MOB_GCS_VALUE_MAX - sizeof row);
        return;
    }
    row.hash = mob_hash128(state, bytes);
    struct saving *saving = malloc(sizeof *saving + sizeof row + bytes);
    MOB_ASSERT(saving);
    const struct node_actor *actor = node_actor_find(node, head->actor);
    bool newest = actor && actor->last_submitted_ns != 0 && actor->last_position == head->position;
    *saving = (struct saving){node, head->actor, head->position,
        newest ? node_needed_since(actor->last_submitted_ns) : 0, (uint32_t)(sizeof row + bytes)};
    memcpy(saving->value, &row, sizeof row);
    memcpy(saving->value + sizeof row, state, bytes);
    struct effect effect = {.kind = EFFECT_CALL, .slot = NODE_NOBODY};
    effect.call.fn = send;
    effect.call.drop = free;
    effect.call.arg = saving;
    lineage_log_effect(node->log, &effect);
}

/* One that did not fit into the record: an object of the call before it, which has been of use when its bytes
 * are on their way. */
static void save_object(struct node *node, const struct node_client *maker,
    const struct mob_out_checkpoint *head, const struct node_actor *actor, bool commits)
{
    enum mob_value_type type;
    const uint8_t *full;
    uint64_t size;
    struct mob_value_view view;
    if (actor->last_position != head->position)
        return;
    struct mob_object_id id = mob_object_of(actor->last_call, MOB_SLOT_CHECKPOINT);
    (void)mob_store_seal_published(node->store, id, maker->slot);
    if (commits && mob_store_object_bytes(node->store, id, true, &type, &full, &size) == MOB_OK &&
        mob_value_open(full, size, &view) == MOB_OK)
        save(node, head, view.type, view.payload, view.payload_bytes);
    mob_store_object_free(node->store, id);
}

void node_actor_checkpoint(struct node *node, struct node_client *client, const uint8_t *body, uint32_t bytes)
{
    struct mob_out_checkpoint head;
    struct mob_completion one = {.head = {.return_count = 1}};
    struct mob_return_view r;
    uint32_t at = 0;
    struct node_actor *actor = client->worker ? client->worker->actor : NULL;
    if (bytes < sizeof head || !actor)
        return;
    bool commits = actor == node_actor_find(node, actor->id); /* a shadow's does not */
    memcpy(&head, body, sizeof head);
    one.body = body + sizeof head;
    one.head.body_bytes = bytes - (uint32_t)sizeof head;
    if (!mob_actor_id_eq(head.actor, actor->id) || !mob_completion_next(&one, &at, &r))
        return;
    if (r.flags & MOB_RETURN_STORED)
        save_object(node, client, &head, actor, commits);
    else if (commits)
        save(node, &head, r.type, r.payload, r.size);
}

struct checkpoint_reading {
    struct checkpoint_reading *next; /* of those that failed */
    struct node *node;
    struct mob_actor_id actor;
    checkpoint_read_fn *done;
    void (*drop)(void *arg);
    void *arg;
    bool failed; /* and that was logged */
};

/* Of a read that did not fail. */
static struct actor_checkpoint *checkpoint_of(
    const struct mob_gcs_answer *answer, uint16_t *unknown_version_out)
{
    struct mob_checkpoint_row row;
    *unknown_version_out = 0;
    if (answer->status == MOB_NOT_FOUND || answer->kv_count != 1)
        return NULL;
    const uint8_t *value = answer->kvs[0].value;
    enum mob_status status = mob_checkpoint_row_open(value, answer->kvs[0].value_length, &row);
    if (status == MOB_VERSION) {
        MOB_LOG_ERROR("checkpoint", "checkpoint_version", "checkpoint=%u supported=%u", row.version,
            MOB_CHECKPOINT_ROW_VERSION);
        *unknown_version_out = row.version;
        return NULL;
    }
    if (status != MOB_OK) {
        MOB_LOG_ERROR("checkpoint", "unusable", "bytes=%u why=\"replay from the beginning\"",
            answer->kvs[0].value_length);
        return NULL;
    }
    struct actor_checkpoint *checkpoint = malloc(sizeof *checkpoint + row.bytes);
    MOB_ASSERT(checkpoint);
    *checkpoint = (struct actor_checkpoint){row.position, (enum mob_value_type)row.type, row.bytes};
    memcpy(checkpoint->value, value + sizeof row, row.bytes);
    return checkpoint;
}

/* That there is no checkpoint is an answer, and has the actor begin anew; that nobody could say is none. */
static void ask_again_later(struct checkpoint_reading *reading, enum mob_status status)
{
    struct node *node = reading->node;
    char id[MOB_ID_TEXT_MAX];
    if (!reading->failed)
        MOB_LOG_WARN("checkpoint", "not_read", "actor=%s status=%s then=\"asked again each second\"",
            mob_actor_id_format(reading->actor, id), mob_status_code(status));
    reading->failed = true;
    reading->next = node->checkpoint_reads;
    node->checkpoint_reads = reading;
}

static void checkpoint_answered(void *arg, const struct mob_gcs_answer *answer)
{
    struct checkpoint_reading *reading = arg;
    uint16_t unknown_version;
    if (answer->status != MOB_OK && answer->status != MOB_NOT_FOUND) {
        ask_again_later(reading, answer->status);
        return;
    }
    struct actor_checkpoint *checkpoint = checkpoint_of(answer, &unknown_version);
    reading->done(reading->arg, checkpoint, unknown_version);
    free(reading);
}

static void ask(struct checkpoint_reading *reading)
{
    enum mob_status status = mob_gcs_get(reading->node->gcs, MOB_GCS_CHECKPOINTS, &reading->actor,
        sizeof reading->actor, checkpoint_answered, reading);
    if (status != MOB_OK)
        ask_again_later(reading, status);
}

void node_checkpoint_read(
    struct node *node, struct mob_actor_id id, checkpoint_read_fn *done, void (*drop)(void *arg), void *arg)
{
    struct checkpoint_reading *reading = calloc(1, sizeof *reading);
    MOB_ASSERT(reading);
    *reading = (struct checkpoint_reading){.node = node, .actor = id, .done = done, .drop = drop, .arg = arg};
    ask(reading);
}

void node_checkpoint_reads_tick(struct node *node)
{
    struct checkpoint_reading *reading = node->checkpoint_reads;
    node->checkpoint_reads = NULL;
    while (reading) {
        struct checkpoint_reading *next = reading->next;
        ask(reading);
        reading = next;
    }
}

void node_checkpoint_reads_drop(struct node *node)
{
    while (node->checkpoint_reads) {
        struct checkpoint_reading *reading = node->checkpoint_reads;
        node->checkpoint_reads = reading->next;
        if (reading->drop)
            reading->drop(reading->arg);
        free(reading);
    }
}

struct restoring {
    struct node *node;
    struct mob_actor_id actor;
    uint64_t ended;
};

static void loaded(void *arg, struct actor_checkpoint *checkpoint, uint16_t unknown_version)
{
    struct restoring restoring = *(struct restoring *)arg;
    struct node_actor *actor = node_actor_find(restoring.node, restoring.actor);
    free(arg);
    if (!actor) {
        free(checkpoint);
        return;
    }
    free(actor->restore);
    actor->restore = checkpoint;
    node_replay_actor(restoring.node, actor->id, checkpoint ? checkpoint->position + 1 : 0, restoring.ended,
        unknown_version);
}

void node_actor_restore(struct node *node, struct node_actor *actor)
{
    struct restoring *restoring = malloc(sizeof *restoring);
    MOB_ASSERT(restoring);
    *restoring = (struct restoring){node, actor->id, actor->life.ended};
    node_checkpoint_read(node, actor->id, loaded, free, restoring);
}

static struct mob_object_id restored_object(const struct node_actor *actor)
{
    return mob_object_of(actor->id.creation, MOB_SLOT_CHECKPOINT);
}

void node_checkpoint_used(struct node *node, const struct node_actor *actor)
{
    if (actor->restore && actor->restore->bytes > MOB_RESULT_INLINE_MAX)
        mob_store_object_free(node->store, restored_object(actor));
}

/* Into the store, perhaps later, in the place of the one that an earlier incarnation began with. */
static struct mob_object_id put_restored(struct node *node, const struct node_actor *actor)
{
    const struct actor_checkpoint *c = actor->restore;
    struct mob_object_id id = restored_object(actor);
    mob_store_object_free(node->store, id);
    checkpoint_room_put(node, id, c);
    return id;
}

/* A small state travels in the spec; a larger one is an object of the creation. */
uint8_t *node_checkpoint_tail(struct node *node, struct node_actor *actor, uint32_t *bytes_out)
{
    const struct actor_checkpoint *c = actor->restore;
    struct mob_tail_builder builder;
    struct mob_ext_view ext;
    if (!c)
        return NULL;
    uint8_t *tail = aligned_alloc(8, MOB_SPEC_TAIL_MAX);
    MOB_ASSERT(tail);
    mob_tail_begin(&builder, tail, MOB_SPEC_TAIL_MAX);
    if (c->bytes <= MOB_RESULT_INLINE_MAX) {
        mob_tail_add_value(&builder, c->type, c->value, c->bytes);
    } else {
        struct mob_object_id id = put_restored(node, actor);
        mob_tail_add_ref(&builder, id);
    }
    if (mob_spec_find_ext(actor->tail, MOB_EXT_CHECKPOINT, &ext))
        mob_tail_add_ext(&builder, ext.tag, ext.payload, ext.payload_bytes);
    *bytes_out = mob_tail_end(&builder);
    MOB_ASSERT(*bytes_out > 0);
    return tail;
}
