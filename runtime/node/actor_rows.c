#include "runtime/node/actor_rows.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/client/client_sync.h"
#include "runtime/node/actors.h"
#include "runtime/node/functions.h"
#include "runtime/node/jobs.h"
#include "runtime/node/row_writes.h"

enum { LOAD_SECONDS = 30, ROW_VERSION = 1 };

/* Value of a row; the creation's spec follows. */
struct actor_row {
    uint16_t version;
    uint16_t state;
    int32_t restarts_left;
    uint32_t incarnation;
    uint32_t detached;
};

static void behind_the_log(struct node *node, struct row_write *w)
{
    struct effect effect = {.kind = EFFECT_CALL, .slot = NODE_NOBODY};
    effect.call.fn = row_write_send;
    effect.call.drop = free;
    effect.call.arg = w;
    lineage_log_effect(node->log, &effect);
}

static struct row_write *row_of(struct node *node, const struct node_actor *actor)
{
    struct actor_row row = {ROW_VERSION, (uint16_t)actor->life.state, actor->life.restarts_left,
        actor->life.incarnation, actor->detached};
    struct row_write *w = row_write_new(node, MOB_GCS_ACTORS, &actor->id, sizeof actor->id,
        (uint32_t)(sizeof row + sizeof actor->head) + actor->tail_bytes);
    memcpy(w->value, &row, sizeof row);
    memcpy(w->value + sizeof row, &actor->head, sizeof actor->head);
    memcpy(w->value + sizeof row + sizeof actor->head, actor->tail, actor->tail_bytes);
    return w;
}

/* Key: "namespace/name". */
static struct row_write *name_of(struct node *node, const struct node_actor *actor)
{
    char key[MOB_GCS_KEY_MAX];
    int length = snprintf(key, sizeof key, "%s/%s", actor->job->ns, actor->name);
    struct row_write *w =
        row_write_new(node, MOB_GCS_NAMES, key, (uint32_t)length, (uint32_t)sizeof actor->id);
    memcpy(w->value, &actor->id, sizeof actor->id);
    return w;
}

static struct row_write *removal_of(struct node *node, enum mob_gcs_table table, struct mob_actor_id id)
{
    struct row_write *w = row_write_new(node, table, &id, sizeof id, 0);
    w->remove = true;
    return w;
}

/* An id that comes of a key comes again when no lineage knows it any more. What the actor of before has left
 * would be taken for this one's state. */
void actor_row_new(struct node *node, const struct node_actor *actor)
{
    row_write_send(removal_of(node, MOB_GCS_CHECKPOINTS, actor->id));
    row_write_send_first(row_of(node, actor));
    if (actor->name[0])
        behind_the_log(node, name_of(node, actor));
}

void actor_row_change(struct node *node, const struct node_actor *actor)
{
    behind_the_log(node, row_of(node, actor));
}

void actor_row_remove(struct node *node, const struct node_actor *actor)
{
    struct mob_actor_id other;
    behind_the_log(node, removal_of(node, MOB_GCS_ACTORS, actor->id));
    if (!actor->name[0] || node_actor_by_name(node, actor->job->ns, actor->name, &other))
        return;
    struct row_write *name = name_of(node, actor);
    name->remove = true;
    behind_the_log(node, name);
}

void actor_row_forget(struct node *node, const struct node_actor *actor)
{
    row_write_send(removal_of(node, MOB_GCS_ACTORS, actor->id));
}

void actor_row_back(struct node *node, const struct node_actor *actor)
{
    if (actor->name[0])
        row_write_send(name_of(node, actor));
}

/* ---- at the node's start ---- */

/* Left by an earlier incarnation of this node: the actor restarts and replays its logged calls. */
static void load_row(void *arg, const struct mob_gcs_kv *kv)
{
    struct node *node = arg;
    struct actor_row row;
    struct mob_spec spec;
    if (kv->value_length < sizeof row)
        return;
    memcpy(&row, kv->value, sizeof row);
    if (row.version != ROW_VERSION ||
        mob_spec_open(kv->value + sizeof row, kv->value_length - sizeof row, &spec) != MOB_OK) {
        MOB_LOG_WARN("actors", "row_skipped", "version=%u known=%d", row.version, ROW_VERSION);
        return;
    }
    struct node_job *job = node_job_by_id(node, spec.head.job);
    struct node_function *class = node_function_by_id(node, spec.head.function);
    if (job && job->state == JOB_ENDED && !row.detached) { /* it ended with its job, whose row was first */
        row_write_send(removal_of(node, MOB_GCS_ACTORS, (struct mob_actor_id){spec.head.task}));
        return;
    }
    if (!job)
        return;
    struct node_actor *actor = node_actor_add(node, &spec.head, spec.tail, spec.tail_bytes, job, class);
    if (!actor)
        return;
    actor->life.incarnation = row.incarnation;
    actor->life.restarts_left = row.restarts_left;
    /* the end of the node is not the actor's fault: no restart is spent on it */
    if (row.incarnation > 0)
        actor->life.state = MOB_ACTOR_RESTARTING;
}

enum mob_status node_actors_load(struct node *node)
{
    return mob_gcs_each_row_wait(
        node->gcs, MOB_GCS_ACTORS, mob_deadline_after(LOAD_SECONDS * MOB_SEC), load_row, node);
}
