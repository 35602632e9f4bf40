#include "runtime/node/known_groups.h"

#include <stdlib.h>

#include "common/base/log.h"

enum { GROUPS = 8, MEMBERS = 1 << MOB_GROUP_SHIFT, SEEN = 64 };

struct known_group {
    struct mob_stream stream;
    uint32_t group;
    bool used, whole, outdated;
    struct known *members; /* by index; NULL: not remembered */
};
struct known_groups {
    struct known_group slots[GROUPS];
    uint32_t next; /* slot that goes next */
    uint32_t used; /* slots */
    struct {
        struct mob_stream stream;
        uint32_t group;
    } seen[SEEN]; /* read lately */
    uint32_t seen_count;
};

struct known_groups *known_groups_create(void)
{
    struct known_groups *groups = calloc(1, sizeof *groups);
    MOB_ASSERT(groups);
    return groups;
}

static void drop(struct known_groups *groups, struct known_group *g)
{
    groups->used -= g->used;
    for (uint32_t i = 0; g->members && i < MEMBERS; i++)
        known_free(&g->members[i]);
    free(g->members);
    *g = (struct known_group){0};
}

void known_groups_clear(struct known_groups *groups)
{
    for (uint32_t i = 0; i < GROUPS; i++)
        if (groups->slots[i].whole)
            drop(groups, &groups->slots[i]);
        else
            groups->slots[i].outdated = true; /* being read */
}

void known_groups_destroy(struct known_groups *groups)
{
    for (uint32_t i = 0; groups && i < GROUPS; i++)
        drop(groups, &groups->slots[i]);
    free(groups);
}

static bool seen_before(struct known_groups *groups, struct mob_stream stream, uint32_t group)
{
    for (uint32_t i = 0; i < SEEN; i++)
        if (groups->seen[i].group == group && mob_stream_eq(groups->seen[i].stream, stream))
            return true;
    groups->seen[groups->seen_count % SEEN].stream = stream;
    groups->seen[groups->seen_count++ % SEEN].group = group;
    return false;
}

static struct known_group *slot_of(struct known_groups *groups, struct mob_stream stream, uint32_t group)
{
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct known_group *g = &groups->slots[i];
        if (g->used && g->group == group && mob_stream_eq(g->stream, stream))
            return g;
    }
    return NULL;
}

/* The oldest that is not being read. */
static struct known_group *free_slot(struct known_groups *groups)
{
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct known_group *g = &groups->slots[groups->next++ % GROUPS];
        if (g->used && !g->whole)
            continue;
        drop(groups, g);
        return g;
    }
    return NULL;
}

struct known_group *known_groups_begin(struct known_groups *groups, struct mob_stream stream, uint32_t group)
{
    if (!seen_before(groups, stream, group) || slot_of(groups, stream, group))
        return NULL;
    struct known_group *g = free_slot(groups);
    struct known *members = g ? calloc(MEMBERS, sizeof *members) : NULL;
    if (!members)
        return NULL;
    *g = (struct known_group){.stream = stream, .group = group, .used = true, .members = members};
    groups->used++;
    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i].id.task = (struct mob_task_id){stream, group << MOB_GROUP_SHIFT | i};
    return g;
}

static bool task_of(const struct mob_entry *e, struct mob_task_id *task_out)
{
    if (e->type == MOB_ENTRY_SPEC)
        *task_out = e->spec.head.task;
    else if (e->type == MOB_ENTRY_COMPLETION)
        *task_out = e->completion.head.task;
    else if (e->type == MOB_ENTRY_OUTCOME)
        *task_out = e->outcome.task;
    else if (e->type == MOB_ENTRY_HASH && !(e->hash.id.slot & MOB_SLOT_PUT))
        *task_out = e->hash.id.task;
    else
        return false;
    return true;
}

void known_group_entry(
    struct known_group *g, const struct mob_entry *entry, const struct mob_block_header *block)
{
    struct mob_task_id task;
    if (task_of(entry, &task) && task.index >> MOB_GROUP_SHIFT == g->group &&
        mob_stream_eq(task.stream, g->stream))
        known_note(&g->members[task.index & (MEMBERS - 1)], entry, block);
}

void known_groups_end(struct known_groups *groups, struct known_group *g, bool whole)
{
    if (whole && !g->outdated)
        g->whole = true;
    else
        drop(groups, g);
}

const struct known *known_groups_find(struct known_groups *groups, struct mob_task_id task)
{
    const struct known_group *g = slot_of(groups, task.stream, task.index >> MOB_GROUP_SHIFT);
    return g && g->whole ? &g->members[task.index & (MEMBERS - 1)] : NULL;
}

bool known_groups_any(const struct known_groups *groups)
{
    return groups->used > 0;
}

void known_groups_logged(struct known_groups *groups, struct mob_task_id task)
{
    if (groups->used == 0)
        return;
    struct known_group *g = slot_of(groups, task.stream, task.index >> MOB_GROUP_SHIFT);
    if (g && g->whole)
        drop(groups, g);
    else if (g)
        g->outdated = true;
}
