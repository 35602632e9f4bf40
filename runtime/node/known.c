#include "runtime/node/known.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/directory.h"
#include "runtime/node/known_groups.h"
#include "runtime/node/remade.h"
#include "runtime/node/value_cache.h"

enum { BUCKETS = 1024, ANSWERS_MAX = 4096 /* in one pass, from memory */ };

struct known_question {
    struct known_question *next; /* of its look-up, or of those that are answered from memory */
    struct known_question *by_task; /* chain of the table */
    struct known known;
    bool in_puts; /* about a put that has a group of its own, which is read first */
    bool reading; /* its look-up was started: what is logged from here on may be missing in the answer */
    bool answered, outdated, forgotten;
    enum mob_status status;
    known_done_fn *done;
    void *arg;
};
/* A group being read. */
struct lookup {
    struct lookup *next; /* in order of asking, until it starts */
    struct lookup *by_group; /* chain of the table, until it has ended */
    struct lookup *behind; /* of the same group, and starts when this one has ended */
    bool started;
    struct node *node;
    struct mob_stream stream;
    uint32_t group;
    struct mob_task_id putter; /* of a group of puts: whose they are; else zero */
    struct known_group *group_memory; /* takes all of it; NULL = is not remembered */
    struct known_question *questions, **end;
};
struct known_table {
    struct known_question *by_task[BUCKETS];
    struct lookup *by_group[BUCKETS];
    struct lookup *first, **end; /* not started */
    struct known_question *remembered, **remembered_end; /* answered by known_start */
    struct known_groups *groups;
    uint32_t questions;
};

struct known_table *known_table_create(void)
{
    struct known_table *table = calloc(1, sizeof *table);
    MOB_ASSERT(table);
    table->end = &table->first;
    table->remembered_end = &table->remembered;
    table->groups = known_groups_create();
    return table;
}

/* Nobody who asked hears of it any more. Look-ups that were started have ended, or were dropped. */
void known_table_destroy(struct known_table *table)
{
    if (!table)
        return;
    for (int i = 0; i < BUCKETS; i++)
        for (struct known_question *q = table->by_task[i], *next; q; q = next) {
            next = q->by_task;
            known_free(&q->known);
            free(q);
        }
    while (table->first) {
        struct lookup *lookup = table->first;
        table->first = lookup->next;
        free(lookup);
    }
    known_groups_destroy(table->groups);
    free(table);
}

static struct known_question **task_bucket(const struct node *node, struct mob_task_id task)
{
    return &node->known->by_task[mob_task_id_mix(task) % BUCKETS];
}

static struct lookup **group_bucket(const struct node *node, struct mob_stream stream, uint32_t group)
{
    return &node->known->by_group[(mob_stream_mix(stream) + group) % BUCKETS];
}

static bool in_group(const struct lookup *lookup, struct mob_task_id id)
{
    return lookup->group == id.index >> MOB_GROUP_SHIFT && mob_stream_eq(lookup->stream, id.stream);
}

static void enqueue(struct known_table *table, struct lookup *lookup)
{
    lookup->next = NULL;
    *table->end = lookup;
    table->end = &lookup->next;
}

/* Of the group that `member` belongs to, and not started. */
static struct lookup *lookup_for(struct node *node, struct mob_task_id member)
{
    struct known_table *table = node->known;
    uint32_t group = member.index >> MOB_GROUP_SHIFT;
    struct lookup **bucket = group_bucket(node, member.stream, group);
    for (struct lookup *l = *bucket; l; l = l->by_group)
        if (!l->started && in_group(l, member))
            return l;
    struct lookup *lookup = calloc(1, sizeof *lookup);
    MOB_ASSERT(lookup);
    *lookup = (struct lookup){.by_group = *bucket, .node = node, .stream = member.stream, .group = group};
    lookup->end = &lookup->questions;
    *bucket = lookup;
    enqueue(table, lookup);
    return lookup;
}

static void join_lookup(struct node *node, struct known_question *q)
{
    struct mob_object_id id = q->known.id;
    struct lookup *lookup = lookup_for(node, q->in_puts ? mob_put_group(id) : id.task);
    if (q->in_puts)
        lookup->putter = id.task;
    q->next = NULL;
    *lookup->end = q;
    lookup->end = &q->next;
}

static void join(struct node *node, struct known_question *q)
{
    q->reading = q->answered = q->outdated = false;
    q->in_puts = mob_put_has_group(q->known.id);
    join_lookup(node, q);
}

static void *copy_two(const void *head, size_t head_bytes, const void *rest, size_t rest_bytes)
{
    uint8_t *copy = malloc(head_bytes + rest_bytes);
    MOB_ASSERT(copy);
    memcpy(copy, head, head_bytes);
    if (rest_bytes > 0)
        memcpy(copy + head_bytes, rest, rest_bytes);
    return copy;
}

/* From what the last reads came by; answered when the pass ends. */
static bool remember(struct node *node, struct known_question *q)
{
    struct known_table *table = node->known;
    struct known *to = &q->known;
    const struct known *from =
        to->id.slot & MOB_SLOT_PUT ? NULL : known_groups_find(table->groups, to->id.task);
    if (!from || from->hashes || (from->spec && from->spec->num_returns == MOB_RETURNS_STREAM))
        return false; /* items of a generator are not remembered, nor is which return has which hash */
    if (from->spec) {
        to->spec = copy_two(from->spec, sizeof *from->spec, from->spec + 1, from->spec_tail_bytes);
        to->spec_tail_bytes = from->spec_tail_bytes;
        to->spec_submitted_wall_ns = from->spec_submitted_wall_ns;
    }
    if (from->completion)
        to->completion = copy_two(
            from->completion, sizeof *from->completion, from->completion + 1, from->completion->body_bytes);
    to->outcomes = from->outcomes;
    to->attempt = from->attempt;
    to->generation = from->generation;
    to->retries_spent = from->retries_spent;
    q->reading = true;
    *table->remembered_end = q;
    table->remembered_end = &q->next;
    return true;
}

struct known_question *known_ask(struct node *node, struct mob_object_id id, known_done_fn *done, void *arg)
{
    struct known_question *q = calloc(1, sizeof *q);
    MOB_ASSERT(q);
    q->known.id = id;
    q->done = done;
    q->arg = arg;
    struct known_question **bucket = task_bucket(node, id.task);
    q->by_task = *bucket;
    *bucket = q;
    node->known->questions++;
    if (!remember(node, q))
        join(node, q);
    return q;
}

bool known_asked(const struct node *node, struct mob_object_id id, known_done_fn *done)
{
    for (const struct known_question *q = *task_bucket(node, id.task); q; q = q->by_task)
        if (q->done == done && mob_object_id_eq(q->known.id, id))
            return true;
    return false;
}

void known_free(struct known *known)
{
    free(known->spec);
    free(known->completion);
    free(known->put);
    free(known->item);
    free(known->hashes);
    free(known->stored_items);
    free(known->stored_puts.puts);
    *known = (struct known){.id = known->id};
}

static void question_destroy(struct node *node, struct known_question *q)
{
    struct known_question **at = task_bucket(node, q->known.id.task);
    while (*at != q)
        at = &(*at)->by_task;
    *at = q->by_task;
    node->known->questions--;
    known_free(&q->known);
    free(q);
}

bool known_answered(struct node *node, struct known_question *q, enum mob_status *status_out)
{
    if (!q->answered)
        return false;
    if (q->outdated && q->status == MOB_OK) {
        known_free(&q->known);
        join(node, q);
        return false;
    }
    *status_out = q->status;
    return true;
}

const struct known *known_of(const struct known_question *q)
{
    return &q->known;
}

void known_forget(struct node *node, struct known_question *q)
{
    if (!q)
        return;
    if (q->answered)
        question_destroy(node, q);
    else
        q->forgotten = true; /* its look-up has it */
}

bool known_any(const struct node *node)
{
    return node->known->questions > 0 || known_groups_any(node->known->groups);
}

void known_logged(struct node *node, struct mob_task_id task)
{
    known_groups_logged(node->known->groups, task);
    if (node->known->questions == 0)
        return;
    for (struct known_question *q = *task_bucket(node, task); q; q = q->by_task)
        if (q->reading && mob_task_id_eq(q->known.id.task, task))
            q->outdated = true;
}

/* ---- reading ---- */

/* A promise is the put that it became, once there is one. */
static void note_put(struct known *known, const struct mob_entry *e, uint64_t incarnation)
{
    if (e->put.flags & MOB_PUT_DELETED) {
        known->deleted = true;
        return;
    }
    if (known->put && (!(known->put->flags & MOB_PUT_PROMISE) || (e->put.flags & MOB_PUT_PROMISE)))
        return;
    free(known->put);
    known->put = copy_two(&e->put, sizeof e->put, e->payload, e->payload_bytes);
    known->put_incarnation = incarnation;
}

/* A generator that ran again gave the same: the first of each item stands. */
static void note_item(struct known *known, const struct mob_entry *e)
{
    struct node_stored_items all = {known->stored_items, known->stored_item_count, known->items};
    node_remade_note_item(&all, e->yield.item, &e->ret);
    known->stored_items = all.stored;
    known->stored_item_count = all.count;
    known->items = all.items;
    if (e->yield.item != known->id.slot || known->item)
        return;
    bool stored = e->ret.flags & MOB_RETURN_STORED;
    uint32_t bytes = stored ? 0 : (uint32_t)e->ret.size;
    struct known_item head = {.type = e->ret.type, .stored = stored, .bytes = bytes};
    known->item = copy_two(&head, sizeof head, e->ret.payload, bytes);
}

/* The first one stands: what came back later was compared with it. */
static void note_hash(struct known *known, const struct mob_entry_hash *entry)
{
    if (mob_task_id_eq(entry->id.task, known->id.task)) {
        known->hashes = node_remade_room(known->hashes, known->hash_count, sizeof *known->hashes);
        known->hashes[known->hash_count++] = *entry;
    }
    if (known->hashed || !mob_object_id_eq(entry->id, known->id))
        return;
    known->hashed = true;
    known->hash = entry->hash;
}

/* An attempt that ended in an application error is followed by the next generation. */
static void note_completion(struct known *known, const struct mob_completion *c)
{
    if (c->head.flags & MOB_COMPLETION_FINAL) {
        if (!known->completion)
            known->completion = copy_two(&c->head, sizeof c->head, c->body, c->head.body_bytes);
        return;
    }
    known->attempt = c->head.attempt;
    known->generation = c->head.generation + (c->head.status != MOB_WORKER_DIED);
    known->retries_spent +=
        (c->head.flags & MOB_COMPLETION_WILL_RETRY) && !(c->head.flags & MOB_COMPLETION_UNPAID);
}

void known_note(struct known *known, const struct mob_entry *e, const struct mob_block_header *block)
{
    switch ((int)e->type) {
    case MOB_ENTRY_SPEC:
        if (mob_task_id_eq(e->spec.head.task, known->id.task) && !known->spec) {
            known->spec = copy_two(&e->spec.head, sizeof e->spec.head, e->spec.tail, e->spec.tail_bytes);
            known->spec_tail_bytes = e->spec.tail_bytes;
            known->spec_submitted_wall_ns = lineage_log_wall_of(block, e->submitted_ns);
        }
        return;
    case MOB_ENTRY_COMPLETION:
        if (mob_task_id_eq(e->completion.head.task, known->id.task))
            note_completion(known, &e->completion);
        return;
    case MOB_ENTRY_PUT:
        if (mob_object_id_eq(e->put.id, known->id))
            note_put(known, e, block->incarnation);
        if (mob_task_id_eq(e->put.id.task, known->id.task))
            node_remade_note_put(&known->stored_puts, &e->put);
        return;
    case MOB_ENTRY_YIELD:
        if (mob_task_id_eq(e->yield.task, known->id.task))
            note_item(known, e);
        return;
    case MOB_ENTRY_HASH:
        note_hash(known, &e->hash);
        return;
    case MOB_ENTRY_OUTCOME:
        known->outcomes |= mob_task_id_eq(e->outcome.task, known->id.task);
        return;
    default:
        return;
    }
}

static void keep_put(const struct lookup *lookup, const struct mob_entry *e)
{
    struct mob_object_id id = e->put.id;
    bool ours = mob_put_has_group(id) ? (id.slot & ~MOB_SLOT_PUT) >> MOB_GROUP_SHIFT == lookup->group &&
            mob_task_id_eq(id.task, lookup->putter)
                                      : in_group(lookup, id.task);
    if (e->put.flags & MOB_PUT_DELETED)
        value_cache_drop(lookup->node->values, id);
    else if (ours && e->put.inline_bytes == e->put.size && !(e->put.flags & MOB_PUT_PROMISE))
        value_cache_note(
            lookup->node->values, id, (enum mob_value_type)e->put.type, e->payload, e->put.inline_bytes);
}

static void keep_returns(const struct lookup *lookup, const struct mob_entry *e)
{
    const struct mob_completion_head *head = &e->completion.head;
    struct mob_return_view r;
    uint32_t at = 0;
    if (!(head->flags & MOB_COMPLETION_FINAL) || head->status != MOB_OK || !in_group(lookup, head->task))
        return;
    while (mob_completion_next(&e->completion, &at, &r))
        if (!(r.flags & MOB_RETURN_STORED) && r.type != MOB_TYPE_FUTURE && r.type != MOB_TYPE_ERROR &&
            r.size <= VALUE_CACHE_BYTES_MAX)
            value_cache_note(
                lookup->node->values, mob_object_of(head->task, r.slot), r.type, r.payload, (uint32_t)r.size);
}

/* Small values of the whole group: whoever asked for one asks for its neighbours next (fetch.c). */
static void keep_values(const struct lookup *lookup, const struct mob_entry *entry)
{
    if (entry->type == MOB_ENTRY_PUT)
        keep_put(lookup, entry);
    else if (entry->type == MOB_ENTRY_COMPLETION)
        keep_returns(lookup, entry);
}

static void note_with_job(
    struct known *known, const struct mob_entry *entry, const struct mob_block_header *block)
{
    bool had_put = known->put != NULL;
    known_note(known, entry, block);
    if (had_put || !known->put)
        return;
    known->put_job = block->job;
    known->put_wall_ns = block->wall_ns;
    memcpy(known->put_ns, block->ns, sizeof known->put_ns);
}

static void on_entry(void *arg, const struct mob_entry *entry, const struct mob_block_header *block)
{
    struct lookup *lookup = arg;
    keep_values(lookup, entry);
    if (lookup->group_memory)
        known_group_entry(lookup->group_memory, entry, block);
    for (struct known_question *q = lookup->questions; q; q = q->next)
        note_with_job(&q->known, entry, block);
}

/* A put whose own group does not have its bytes: the task that made it may make it again, so what is known of
 * that belongs to the answer. */
static bool read_maker(struct node *node, struct known_question *q)
{
    const struct mob_out_put *put = q->known.put;
    bool bytes = put && put->inline_bytes == put->size && !(put->flags & MOB_PUT_PROMISE);
    if (!q->in_puts || bytes || q->forgotten)
        return false;
    q->in_puts = false;
    q->known.retries_spent = 0; /* some may have stood beside the put */
    join_lookup(node, q);
    return true;
}

static void answer(struct node *node, struct known_question *q, enum mob_status status)
{
    if (status == MOB_OK && read_maker(node, q))
        return;
    q->answered = true;
    q->status = status;
    if (q->forgotten) {
        question_destroy(node, q);
        return;
    }
    if (!q->done || !known_answered(node, q, &status)) /* looked at by its asker, or being read again */
        return;
    q->done(q->arg, status, &q->known);
    question_destroy(node, q);
}

static void leave_bucket(struct lookup *lookup)
{
    struct lookup **at = group_bucket(lookup->node, lookup->stream, lookup->group);
    while (*at != lookup)
        at = &(*at)->by_group;
    *at = lookup->by_group;
}

static void on_done(void *arg, enum mob_status status)
{
    struct lookup *lookup = arg;
    leave_bucket(lookup);
    if (lookup->behind)
        enqueue(lookup->node->known, lookup->behind);
    if (lookup->group_memory)
        known_groups_end(lookup->node->known->groups, lookup->group_memory, status == MOB_OK);
    while (lookup->questions) {
        struct known_question *q = lookup->questions;
        lookup->questions = q->next;
        answer(lookup->node, q, status);
    }
    free(lookup);
}

static void on_drop(void *arg)
{
    struct lookup *lookup = arg;
    leave_bucket(lookup);
    if (lookup->behind)
        leave_bucket(lookup->behind);
    free(lookup->behind);
    free(lookup);
}

/* One read of a group at a time. A page of a group may be megabytes, and when thousands ask for neighbours
 * one by one, each would have its own: those that come while it is read share the next. */
static bool wait_for_running(struct node *node, struct lookup *lookup)
{
    for (struct lookup *l = *group_bucket(node, lookup->stream, lookup->group); l; l = l->by_group)
        if (l->started && l->group == lookup->group && mob_stream_eq(l->stream, lookup->stream)) {
            MOB_ASSERT(!l->behind); /* it would have been joined */
            l->behind = lookup;
            return true;
        }
    return false;
}

static void start(struct node *node, struct lookup *lookup)
{
    if (wait_for_running(node, lookup))
        return;
    lookup->started = true;
    for (struct known_question *q = lookup->questions; q; q = q->next)
        q->reading = true;
    lookup->group_memory = known_groups_begin(node->known->groups, lookup->stream, lookup->group);
    struct group_reader reader = {.entry = on_entry, .done = on_done, .drop = on_drop, .arg = lookup};
    node_group_read(node, lookup->stream, lookup->group, &reader);
}

/* Each may ask for what the next one is about: a chain goes on here, and not by recursion. */
static void answer_remembered(struct node *node)
{
    struct known_table *table = node->known;
    for (int i = 0; i < ANSWERS_MAX && table->remembered; i++) {
        struct known_question *q = table->remembered;
        table->remembered = q->next;
        if (!table->remembered)
            table->remembered_end = &table->remembered;
        q->next = NULL;
        answer(node, q, MOB_OK);
    }
}

void known_start(struct node *node)
{
    struct known_table *table = node->known;
    answer_remembered(node);
    while (table->first) {
        struct lookup *lookup = table->first;
        table->first = lookup->next;
        if (!table->first)
            table->end = &table->first;
        start(node, lookup);
    }
}

bool known_waiting(const struct node *node)
{
    return node->known->first != NULL || node->known->remembered != NULL;
}

void known_clear(struct node *node)
{
    known_groups_clear(node->known->groups);
}
