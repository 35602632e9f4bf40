#include "runtime/node/actor_names.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/log.h"

/* Living actors are MOB_SCHED_ACTORS_MAX at most: four in a bucket then. */
enum { NAME_BUCKETS = 16384 };

struct actor_names {
    struct node_actor *buckets[NAME_BUCKETS];
    uint64_t looked_at;
};

struct actor_names *actor_names_create(void)
{
    struct actor_names *names = calloc(1, sizeof *names);
    MOB_ASSERT(names);
    return names;
}

void actor_names_destroy(struct actor_names *names)
{
    free(names);
}

static struct node_actor **bucket_of(struct actor_names *names, const char *ns, const char *name)
{
    uint64_t hash = mob_hash64(name, strlen(name)) ^ (mob_hash64(ns, strlen(ns)) << 1);
    return &names->buckets[hash % NAME_BUCKETS];
}

void actor_names_add(struct actor_names *names, struct node_actor *actor)
{
    if (!actor->name[0])
        return;
    struct node_actor **bucket = bucket_of(names, actor->job->ns, actor->name);
    actor->by_name = *bucket;
    *bucket = actor;
}

void actor_names_remove(struct actor_names *names, struct node_actor *actor)
{
    if (!actor->name[0])
        return;
    struct node_actor **at = bucket_of(names, actor->job->ns, actor->name);
    for (; *at && *at != actor; at = &(*at)->by_name)
        names->looked_at++;
    if (!*at)
        return;
    names->looked_at++;
    *at = actor->by_name;
    actor->by_name = NULL;
}

struct node_actor *actor_names_find(struct actor_names *names, const char *ns, const char *name)
{
    struct node_actor *actor = *bucket_of(names, ns, name);
    for (; actor; actor = actor->by_name) {
        names->looked_at++;
        if (strcmp(actor->name, name) == 0 && strcmp(actor->job->ns, ns) == 0)
            return actor;
    }
    return NULL;
}

uint64_t actor_names_looked_at(const struct actor_names *names)
{
    return names->looked_at;
}
