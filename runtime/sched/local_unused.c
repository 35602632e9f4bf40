/* Numbers of demands and resources that nobody needs any more are given to others. Looked for only when all
 * are given out: then everything that names one is looked at, which is cheaper than to count on each task's
 * way. */
#include "runtime/sched/local_inner.h"

#define KINDS_OF_OURS 3u /* CPU, GPU, memory: mob_sched_create */

struct class_marks {
    uint64_t bits[MOB_SCHED_CLASSES_MAX / 64];
};

static void mark(struct class_marks *marks, uint16_t class_id)
{
    marks->bits[class_id / 64] |= 1ull << class_id % 64;
}

static bool is_marked(const struct class_marks *marks, uint32_t class_id)
{
    return marks->bits[class_id / 64] >> class_id % 64 & 1;
}

/* A worker that is idle remembers the class of its last batch, and asks nothing about it. */
static void mark_needed(const struct mob_sched *s, struct class_marks *marks)
{
    for (uint32_t i = 0; i < s->lane_count; i++)
        if (s->lanes[i].used)
            mark(marks, s->lanes[i].class_id);
    for (uint32_t i = 0; i < MOB_SCHED_WORKERS_MAX; i++)
        if (s->workers[i].state != WORKER_NONE && s->workers[i].state != WORKER_IDLE)
            mark(marks, s->workers[i].class_id);
    for (uint32_t i = 0; i < s->class_count; i++)
        if (s->classes[i].users > 0)
            mark(marks, (uint16_t)i);
}

void sched_classes_sweep(struct mob_sched *s)
{
    struct class_marks marks = {{0}};
    sched_lanes_sweep(s); /* those without tasks would keep theirs */
    mark_needed(s, &marks);
    for (uint32_t i = 0; i < s->class_count; i++) {
        struct sched_class *c = &s->classes[i];
        if (!c->used || is_marked(&marks, i))
            continue;
        MOB_ASSERT(c->busy == 0 && c->hungry == SCHED_NIL16);
        c->used = false;
        s->classes_free++;
    }
}

void sched_kinds_sweep(struct mob_sched *s)
{
    uint64_t needed = s->kinds_asked;
    sched_classes_sweep(s);
    for (uint32_t i = 0; i < s->class_count; i++)
        if (s->classes[i].used)
            needed |= s->classes[i].mask;
    for (uint32_t i = KINDS_OF_OURS; i < s->kind_count; i++) {
        struct sched_kind *k = &s->kinds[i];
        if (needed >> i & 1 || k->total > 0 || k->name[0] == '\0')
            continue;
        MOB_ASSERT(k->taken == 0 && k->stuck == 0);
        memset(k, 0, sizeof *k);
    }
}

void mob_sched_class_release(struct mob_sched *s, uint16_t class_id)
{
    MOB_ASSERT(class_id < s->class_count && s->classes[class_id].users > 0);
    s->classes[class_id].users--;
}
