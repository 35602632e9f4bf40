#include "runtime/node/left_tasks.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "runtime/node/lineage_log.h"

enum { LEFT_BUCKETS = 1 << 16 };

void left_tasks_init(struct left_tasks *left)
{
    *left = (struct left_tasks){.mask = LEFT_BUCKETS - 1};
    left->buckets = calloc(LEFT_BUCKETS, sizeof *left->buckets);
    left->decoder = mob_block_decoder_create();
    MOB_ASSERT(left->buckets && left->decoder);
}

void left_tasks_fini(struct left_tasks *left)
{
    for (uint32_t i = 0; i <= left->mask; i++)
        while (left->buckets[i]) {
            struct left_task *next = left->buckets[i]->next;
            while (left->buckets[i]->tails) {
                struct left_tail *tail = left->buckets[i]->tails->next;
                free(left->buckets[i]->tails);
                left->buckets[i]->tails = tail;
            }
            free(left->buckets[i]->spec);
            free(left->buckets[i]);
            left->buckets[i] = next;
        }
    free(left->buckets);
    free(left->checked.keys);
    mob_block_decoder_destroy(left->decoder);
}

struct left_task *left_tasks_find(const struct left_tasks *left, struct mob_task_id id)
{
    struct left_task *t = left->buckets[mob_task_id_mix(id) & left->mask];
    while (t && !mob_task_id_eq(t->id, id))
        t = t->next;
    return t;
}

static struct left_task *left_task(struct left_tasks *left, struct mob_task_id id)
{
    struct left_task **bucket = &left->buckets[mob_task_id_mix(id) & left->mask];
    struct left_task *t = left_tasks_find(left, id);
    if (t)
        return t;
    t = calloc(1, sizeof *t);
    MOB_ASSERT(t);
    t->id = id;
    t->next = *bucket;
    *bucket = t;
    left->count++;
    return t;
}

static void note_tails(struct left_task *t, const struct mob_completion *completion)
{
    struct mob_return_view r;
    uint32_t at = 0;
    t->generation = completion->head.generation;
    while (completion->head.status == MOB_OK && mob_completion_next(completion, &at, &r)) {
        if (r.type != MOB_TYPE_FUTURE || r.size != sizeof(struct mob_object_id) || !r.payload)
            continue;
        struct left_tail *tail = malloc(sizeof *tail);
        MOB_ASSERT(tail);
        tail->next = t->tails;
        tail->id = mob_object_of(t->id, r.slot);
        memcpy(&tail->target, r.payload, sizeof tail->target);
        t->tails = tail;
    }
}

/* The last reading of a group is a whole one, so each completion counts once. */
static void note_retry(const struct left_tasks *left, struct left_task *t, uint8_t flags)
{
    if (t->counted_in != left->reading)
        t->retries_spent = 0;
    t->counted_in = left->reading;
    t->retries_spent += (flags & MOB_COMPLETION_WILL_RETRY) && !(flags & MOB_COMPLETION_UNPAID);
}

static void note(struct left_tasks *left, const struct mob_entry *e, const struct mob_block_header *block,
    uint64_t incarnation)
{
    if (e->type == MOB_ENTRY_SPEC) {
        struct left_task *t = left_task(left, e->spec.head.task);
        if (t->spec)
            return;
        t->spec = malloc(sizeof *t->spec + e->spec.tail_bytes);
        MOB_ASSERT(t->spec);
        *t->spec = e->spec.head;
        memcpy(t->spec + 1, e->spec.tail, e->spec.tail_bytes);
        t->tail_bytes = e->spec.tail_bytes;
        t->submitted_wall_ns = lineage_log_wall_of(block, e->submitted_ns);
        t->place = left->at;
        if (t->attempt == 0)
            t->owner = incarnation;
    } else if (e->type == MOB_ENTRY_COMPLETION) {
        struct left_task *t = left_task(left, e->completion.head.task);
        bool final = e->completion.head.flags & MOB_COMPLETION_FINAL;
        t->attempt = e->completion.head.attempt;
        t->owner = incarnation;
        note_retry(left, t, e->completion.head.flags);
        if (final && !t->finished)
            note_tails(t, &e->completion);
        t->finished |= final;
        /* an attempt that ended in an application error is followed by the next generation */
        if (t->spec && !t->finished && e->completion.head.status != MOB_WORKER_DIED)
            t->spec->generation = e->completion.head.generation + 1;
    } else if (e->type == MOB_ENTRY_OUTCOME) {
        left_task(left, e->outcome.task)->outcomes = true;
    } else if (e->type == MOB_ENTRY_CANCEL) {
        struct left_task *t = left_task(left, e->cancel.task);
        t->cancelled = true;
        t->cancelled_kin |= e->cancel.recursive != 0;
    }
}

void left_tasks_note_block(struct left_tasks *left, const struct mob_gcs_block_row *row)
{
    static struct mob_zone_map zone;
    struct mob_block_header header;
    struct mob_entry entry;
    enum mob_status status = mob_block_open(left->decoder, row->bytes, row->length, &header, &zone);
    left->at = (struct log_place){row->incarnation, row->number, 0};
    for (; status == MOB_OK && (status = mob_block_next(left->decoder, &entry)) == MOB_OK; left->at.entry++)
        note(left, &entry, &header, row->incarnation);
    if (status != MOB_CLOSED)
        MOB_LOG_ERROR(
            "recover", "block_corrupt", "incarnation=%lu number=%lu", row->incarnation, row->number);
}

static struct mob_task_id task_of(const struct mob_entry *e)
{
    struct mob_task_id none = {0};
    return e->type == MOB_ENTRY_SPEC      ? e->spec.head.task
        : e->type == MOB_ENTRY_COMPLETION ? e->completion.head.task
        : e->type == MOB_ENTRY_CANCEL     ? e->cancel.task
                                          : none;
}

int left_tasks_by_group(const void *a, const void *b)
{
    const struct mob_task_id *x = a, *y = b;
    int order = memcmp(&x->stream, &y->stream, sizeof x->stream);
    return order != 0 ? order : x->index < y->index ? -1 : x->index > y->index;
}

void left_tasks_note_groups(struct left_tasks *left, const struct mob_gcs_block_row *row,
    const struct mob_task_id *groups, uint32_t count)
{
    static struct mob_zone_map zone;
    struct mob_block_header header;
    struct mob_entry entry;
    enum mob_status status = mob_block_open(left->decoder, row->bytes, row->length, &header, &zone);
    left->at = (struct log_place){row->incarnation, row->number, 0};
    for (; status == MOB_OK && (status = mob_block_next(left->decoder, &entry)) == MOB_OK; left->at.entry++) {
        struct mob_task_id group = left_tasks_group_of(task_of(&entry));
        if (bsearch(&group, groups, count, sizeof group, left_tasks_by_group) != NULL)
            note(left, &entry, &header, row->incarnation);
    }
}

static bool add_group(struct checked_groups *checked, struct mob_task_id key)
{
    if (checked->count * 2 >= checked->mask) {
        struct checked_groups bigger = {.mask = checked->mask * 2 + 1023};
        bigger.mask |= bigger.mask >> 1, bigger.mask |= bigger.mask >> 2, bigger.mask |= bigger.mask >> 4;
        bigger.mask |= bigger.mask >> 8, bigger.mask |= bigger.mask >> 16; /* a power of two, less one */
        bigger.keys = malloc(((size_t)bigger.mask + 1) * sizeof *bigger.keys);
        MOB_ASSERT(bigger.keys);
        memset(bigger.keys, 0xff, ((size_t)bigger.mask + 1) * sizeof *bigger.keys);
        for (uint32_t i = 0; checked->keys && i <= checked->mask; i++)
            if (checked->keys[i].index != UINT32_MAX)
                add_group(&bigger, checked->keys[i]);
        free(checked->keys);
        *checked = bigger;
    }
    uint32_t at = (uint32_t)mob_task_id_mix(key) & checked->mask;
    for (; checked->keys[at].index != UINT32_MAX; at = (at + 1) & checked->mask)
        if (mob_task_id_eq(checked->keys[at], key))
            return false;
    checked->keys[at] = key;
    checked->count++;
    return true;
}

struct mob_task_id left_tasks_group_of(struct mob_task_id id)
{
    return (struct mob_task_id){id.stream, id.index >> MOB_GROUP_SHIFT};
}

bool left_tasks_first_time(struct left_tasks *left, struct mob_task_id group)
{
    return add_group(&left->checked, group);
}
