/* The actors that this node knows, the living and the last ones that died: by id, by their number in the
 * scheduler, and the living by name. */
#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/actor_names.h"
#include "runtime/node/actor_record.h"
#include "runtime/node/actors.h"
#include "runtime/node/jobs.h"
#include "runtime/node/replay.h"

enum { ACTOR_BUCKETS = 4096 };

struct actor_table {
    struct node_actor *by_id[ACTOR_BUCKETS];
    struct node_actor *by_number[ACTOR_BUCKETS];
    struct actor_names *names; /* of the living */
    uint32_t count;
    struct node_actor *died_first, **died_end; /* in the order of their deaths */
    uint32_t died_count;
    uint32_t recovering; /* left by an earlier incarnation of the node, their edges not read yet */
};

struct actor_table *actor_table_create(void)
{
    struct actor_table *table = calloc(1, sizeof *table);
    MOB_ASSERT(table);
    table->names = actor_names_create();
    table->died_end = &table->died_first;
    return table;
}

static void actor_free(struct node_actor *actor)
{
    free(actor->tail);
    free(actor->callers);
    free(actor->restore);
    free(actor);
}

void actor_table_destroy(struct actor_table *table)
{
    if (!table)
        return;
    for (int i = 0; i < ACTOR_BUCKETS; i++)
        while (table->by_id[i]) {
            struct node_actor *next = table->by_id[i]->next;
            actor_free(table->by_id[i]);
            table->by_id[i] = next;
        }
    actor_names_destroy(table->names);
    free(table);
}

static struct node_actor **bucket_of(struct node *node, struct mob_actor_id id)
{
    return &node->actors->by_id[mob_task_id_mix(id.creation) % ACTOR_BUCKETS];
}

struct node_actor *node_actor_find(struct node *node, struct mob_actor_id id)
{
    struct node_actor *actor = *bucket_of(node, id);
    while (actor && !mob_actor_id_eq(actor->id, id))
        actor = actor->next;
    return actor;
}

const struct node_actor *node_actor_next(const struct node *node, const struct node_actor *actor)
{
    if (actor && actor->next)
        return actor->next;
    uint32_t bucket = actor ? (uint32_t)(mob_task_id_mix(actor->id.creation) % ACTOR_BUCKETS) + 1 : 0;
    while (bucket < ACTOR_BUCKETS && !node->actors->by_id[bucket])
        bucket++;
    return bucket < ACTOR_BUCKETS ? node->actors->by_id[bucket] : NULL;
}

struct node_actor *node_actor_numbered(struct node *node, uint32_t number)
{
    struct node_actor *actor = node->actors->by_number[number % ACTOR_BUCKETS];
    while (actor && actor->number != number)
        actor = actor->by_number;
    return actor;
}

bool node_actor_by_name(struct node *node, const char *ns, const char *name, struct mob_actor_id *id_out)
{
    const struct node_actor *actor = actor_names_find(node->actors->names, ns, name);
    if (actor)
        *id_out = actor->id;
    return actor != NULL;
}

struct node_actor *node_actor_add(struct node *node, const struct mob_spec_head *head, const uint8_t *tail,
    uint32_t tail_bytes, struct node_job *job, struct node_function *class)
{
    struct node_actor *actor = calloc(1, sizeof *actor);
    if (!actor || mob_sched_actor_open(node->sched, &actor->number) != MOB_OK) {
        free(actor);
        return NULL;
    }
    actor->tail = malloc(tail_bytes);
    MOB_ASSERT(actor->tail);
    memcpy(actor->tail, tail, tail_bytes);
    actor->tail_bytes = tail_bytes;
    actor->id = (struct mob_actor_id){head->task};
    actor->head = *head;
    actor->job = job;
    node_job_hold(job);
    actor->class = class;
    actor->detached = (head->flags & MOB_SPEC_DETACHED) != 0;
    mob_actor_life_init(&actor->life, head->max_retries);
    struct mob_ext_view ext;
    if (mob_spec_find_ext(tail, MOB_EXT_NAME, &ext) && ext.payload_bytes < ACTOR_NAME_MAX)
        memcpy(actor->name, ext.payload, ext.payload_bytes);
    struct node_actor **bucket = bucket_of(node, actor->id);
    actor->next = *bucket;
    *bucket = actor;
    actor->by_number = node->actors->by_number[actor->number % ACTOR_BUCKETS];
    node->actors->by_number[actor->number % ACTOR_BUCKETS] = actor;
    actor_names_add(node->actors->names, actor);
    node->actors->count++;
    return actor;
}

void node_actor_let_go(struct node *node, struct node_actor *actor)
{
    struct node_actor **at = bucket_of(node, actor->id);
    while (*at != actor)
        at = &(*at)->next;
    *at = actor->next;
    at = &node->actors->by_number[actor->number % ACTOR_BUCKETS];
    while (*at != actor)
        at = &(*at)->by_number;
    *at = actor->by_number;
    actor_names_remove(node->actors->names, actor);
    node->actors->count--;
    node_job_release(actor->job);
    actor_free(actor);
}

void node_actor_note_death(struct node *node, struct node_actor *actor, enum mob_status why)
{
    struct actor_table *table = node->actors;
    uint32_t max = node->options.dead_actors_max ? node->options.dead_actors_max : NODE_DEAD_ACTORS_MAX;
    mob_actor_life_end(&actor->life, why);
    actor_names_remove(table->names, actor);
    *table->died_end = actor;
    table->died_end = &actor->died_next;
    if (table->died_count++ < max)
        return;
    struct node_actor *first = table->died_first;
    table->died_first = first->died_next;
    table->died_count--;
    node_actor_let_go(node, first);
}

bool node_actor_of_class(struct node *node, const struct node_function *class, struct mob_actor_id *id_out)
{
    for (const struct node_actor *a = node_actor_next(node, NULL); a; a = node_actor_next(node, a))
        if (a->class == class && a->life.state != MOB_ACTOR_DEAD) {
            *id_out = a->id;
            return true;
        }
    return false;
}

void node_actor_set_recovering(struct node *node, struct node_actor *actor, bool recovering)
{
    if (actor->recovering == recovering)
        return;
    actor->recovering = recovering;
    if (recovering)
        node->actors->recovering++;
    else
        node->actors->recovering--;
}

uint32_t node_actors_recovering(const struct node *node)
{
    return node->actors->recovering;
}
