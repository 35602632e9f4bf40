/* Records of unfinished tasks: templates that siblings share, tails, and the few extras. */
#include "runtime/node/task.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/wire/option_bounds.h"
#include "runtime/node/borrowed.h"
#include "runtime/node/cancel_below.h"
#include "runtime/node/functions.h"
#include "runtime/node/jobs.h"

enum { DEMANDS_MAX = MOB_SCHED_DEMANDS_MAX };
_Static_assert(MOB_SCHED_DEMANDS_MAX == MOB_TASK_RESOURCES_MAX, "what submissions are checked for");
_Static_assert(MOB_SCHED_AMOUNT_MAX == MOB_AMOUNT_MAX * MOB_AMOUNT_UNITS, "the same");

/* Demand set of a spec: CPU from the head, the rest from its extensions. */
static enum mob_status class_of(
    struct node *node, const struct mob_spec_head *head, const uint8_t *tail, uint16_t *class_out)
{
    struct mob_sched_demand demands[DEMANDS_MAX];
    uint32_t count = 0;
    if (head->cpu > 0 && head->kind != MOB_KIND_ACTOR_CALL)
        demands[count++] = (struct mob_sched_demand){MOB_SCHED_CPU, head->cpu};
    struct mob_tail_iter it = mob_spec_args(tail);
    struct mob_arg_view arg;
    struct mob_ext_view ext;
    while (mob_tail_next_arg(&it, &arg))
        continue;
    while (mob_tail_next_ext(&it, &ext)) {
        uint64_t amount = 0;
        uint32_t amount_bytes = ext.tag == MOB_EXT_RESOURCES ? sizeof(uint32_t)
            : ext.tag == MOB_EXT_WIDE_RESOURCES              ? sizeof(uint64_t)
                                                             : UINT32_MAX;
        if (ext.payload_bytes <= amount_bytes)
            continue;
        if (count == DEMANDS_MAX)
            return MOB_TOO_LARGE;
        memcpy(&amount, ext.payload, amount_bytes);
        if (amount > INT64_MAX)
            return MOB_INVALID;
        enum mob_status status = mob_sched_resource(node->sched, (const char *)ext.payload + amount_bytes,
            ext.payload_bytes - amount_bytes, &demands[count].kind);
        if (status != MOB_OK)
            return status;
        demands[count++].amount = (int64_t)amount;
    }
    return mob_sched_class(node->sched, head->runtime, demands, count, class_out);
}

void node_template_find_function(struct node *node, struct node_template *template)
{
    const struct node_function *function = template->function;
    if (function && !function->leaving && !function->gone)
        return;
    template->function = node_function_by_id(node, template->head.function);
    function = template->function;
    if (function && (function->leaving || function->gone))
        template->function = NULL;
}

void node_template_ask_class(struct node_template *template)
{
    struct mob_spec_head *head = &template->head;
    const struct node_function *class = template->function;
    if (head->kind != MOB_KIND_ACTOR_CALL || !class)
        return;
    head->flags &= (uint16_t)~MOB_SPEC_READ_ONLY;
    if ((head->flags & MOB_SPEC_UNLOGGED) || node_function_reads(class, head->method))
        head->flags |= MOB_SPEC_READ_ONLY;
}

struct node_template *node_template_make(
    struct node *node, const struct mob_spec_head *head, const uint8_t *tail, struct node_job *job)
{
    struct node_template *template = room_take(&node->templates, sizeof *template);
    *template = (struct node_template){.head = *head, .job = job};
    if (node->below)
        node_below_note(node, head);
    node_job_hold(job);
    if (job)
        job->calls |= head->kind == MOB_KIND_ACTOR_CALL;
    node_template_find_function(node, template);
    template->refs = 1;
    template->parent_handle = PARENT_UNKNOWN;
    template->refused = class_of(node, head, tail, &template->sched_class);
    template->sched_function = mob_sched_function(node->sched, head->function);
    template->plain = (head->kind == MOB_KIND_TASK || head->kind == MOB_KIND_ACTOR_CALL) &&
        head->num_returns == 1 && !(head->flags & MOB_SPEC_UNLOGGED);
    return template;
}

/* Up to three references, or as much of anything else, lie in rooms of the pool. */
enum { TAIL_ROOM_BYTES = 128 };

static struct node_tail *tail_take(struct node *node, uint32_t bytes)
{
    size_t size = sizeof(struct node_tail) + bytes;
    return size <= TAIL_ROOM_BYTES ? room_take(&node->tails, TAIL_ROOM_BYTES) : malloc(size);
}

static void tail_drop(struct node *node, struct node_tail *tail)
{
    if (!tail || --tail->refs > 0)
        return;
    if (sizeof *tail + tail->bytes <= TAIL_ROOM_BYTES)
        room_give(&node->tails, tail);
    else
        free(tail);
}

void node_template_hold(struct node_template *template)
{
    template->refs++;
}

void node_template_drop(struct node *node, struct node_template *template)
{
    if (!template || --template->refs > 0)
        return;
    tail_drop(node, template->last_tail);
    node_job_release(template->job);
    if (template->refused == MOB_OK)
        mob_sched_class_release(node->sched, template->sched_class);
    room_give(&node->templates, template);
}

void node_template_place(struct node *node, struct node_template **slot, struct node_template *template)
{
    node_template_drop(node, *slot);
    *slot = template;
}

/* Siblings come in runs, so the template remembers the parent's handle. */
struct node_task *node_template_parent(struct node *node, struct node_template *template)
{
    if (template->parent_handle == PARENT_NONE)
        return NULL;
    struct mob_task_id id = template->head.parent;
    if (template->parent_handle != PARENT_UNKNOWN) {
        struct mob_sched_task *task = mob_sched_task_of(node->sched, template->parent_handle);
        if (task && mob_task_id_eq(task->id, id) && task->state != MOB_SCHED_DONE)
            return (struct node_task *)task;
    }
    struct node_task *parent = node_task_find(node, id);
    template->parent_handle = parent ? parent->sched.handle : PARENT_NONE;
    return parent;
}

static void set_word(struct node_task *task, const uint64_t tail[3])
{
    task->form = (uint8_t)mob_spec_word_type(tail);
    task->own.word = tail[2];
}

static bool set_tail(struct node *node, struct node_task *task, const uint8_t *tail, uint32_t bytes)
{
    uint64_t words[MOB_SPEC_WORD_TAIL / sizeof(uint64_t)];
    if (bytes == sizeof words) {
        memcpy(words, tail, sizeof words);
        if (mob_spec_tail_is_word(words)) {
            set_word(task, words);
            return true;
        }
    }
    struct node_template *template = task->template;
    struct node_tail *shared = template->last_tail;
    if (!shared || shared->bytes != bytes || memcmp(shared->data, tail, bytes) != 0) {
        shared = tail_take(node, bytes);
        if (!shared)
            return false;
        shared->refs = 1;
        shared->bytes = bytes;
        memcpy(shared->data, tail, bytes);
        tail_drop(node, template->last_tail);
        template->last_tail = shared;
    }
    shared->refs++;
    task->form = TASK_TAIL_SHARED;
    task->own.shared = shared;
    return true;
}

struct node_task *node_task_create_word(
    struct node *node, struct node_template *template, struct mob_task_id id, const uint64_t tail[3])
{
    struct node_task *task = mob_sched_task_alloc(node->sched);
    if (!task)
        return NULL;
    set_word(task, tail);
    task->template = template;
    template->refs++;
    task->sched.id = id;
    task->submitter = TASK_NO_SUBMITTER;
    return task;
}

struct node_task *node_task_create(struct node *node, struct node_template *template, struct mob_task_id id,
    const uint8_t *tail, uint32_t tail_bytes)
{
    struct node_task *task = mob_sched_task_alloc(node->sched);
    if (!task)
        return NULL;
    task->template = template;
    if (!set_tail(node, task, tail, tail_bytes)) {
        mob_sched_task_free(node->sched, &task->sched);
        return NULL;
    }
    template->refs++;
    task->sched.id = id;
    task->submitter = TASK_NO_SUBMITTER;
    return task;
}

static const union node_task_own *tail_of(const struct node_task *task)
{
    return task->form & TASK_HAS_EXTRA ? &task->own.extra->tail : &task->own;
}

static bool shares_tail(const struct node_task *task)
{
    return (task->form & ~TASK_HAS_EXTRA) == TASK_TAIL_SHARED;
}

static void let_go(struct node *node, struct node_task *task)
{
    if (shares_tail(task))
        tail_drop(node, tail_of(task)->shared);
    node_template_drop(node, task->template);
}

void node_task_destroy(struct node *node, struct node_task *task)
{
    if (task->flags & TASK_BORROWS)
        node_unborrow(node, task);
    let_go(node, task);
    struct node_task_extra *extra = node_extra_of(task);
    if (extra) {
        free(extra->stored);
        free(extra->wanted);
        room_give(&node->extras, extra);
    }
    mob_sched_task_free(node->sched, &task->sched);
}

void node_tasks_free(struct node *node)
{
    uint32_t at = 0;
    struct mob_sched_task *task;
    while ((task = mob_sched_each(node->sched, &at))) {
        struct node_task *left = (struct node_task *)task;
        let_go(node, left);
        if (node_extra_of(left)) {
            free(node_extra_of(left)->stored);
            free(node_extra_of(left)->wanted);
        }
    }
}

void node_task_rooms_free(struct node *node)
{
    room_pool_free(&node->templates);
    room_pool_free(&node->tails);
    room_pool_free(&node->extras);
}

struct node_task_extra *node_task_extra(struct node *node, struct node_task *task)
{
    if (!(task->form & TASK_HAS_EXTRA)) {
        struct node_task_extra *extra = room_take(&node->extras, sizeof *extra);
        *extra = (struct node_task_extra){
            .tail = task->own, .attempt = 1, .generation = task->template->head.generation};
        task->own.extra = extra;
        task->form |= TASK_HAS_EXTRA;
    }
    return task->own.extra;
}

uint32_t node_task_attempt(const struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return extra ? extra->attempt : 1;
}

bool node_task_is_shadow(const struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return extra && extra->shadow;
}

uint32_t node_task_generation(const struct node_task *task)
{
    const struct node_task_extra *extra = node_extra_of(task);
    return extra ? extra->generation : task->template->head.generation;
}

const uint8_t *node_task_tail(const struct node_task *task, struct node_tail_room *room, uint32_t *bytes_out)
{
    const union node_task_own *tail = tail_of(task);
    if (shares_tail(task)) {
        *bytes_out = tail->shared->bytes;
        return tail->shared->data;
    }
    mob_spec_word_tail((enum mob_value_type)(task->form & ~TASK_HAS_EXTRA), tail->word, room->words);
    *bytes_out = sizeof room->words;
    return (const uint8_t *)room->words;
}

void node_task_head(const struct node_task *task, struct mob_spec_head *head_out)
{
    *head_out = task->template->head;
    head_out->task = task->sched.id;
    head_out->attempt = 1;
    const struct node_task_extra *extra = node_extra_of(task);
    if (extra) {
        head_out->attempt = extra->attempt;
        head_out->generation = extra->generation;
        head_out->caller_seq = extra->caller_seq;
    }
}

struct node_task *node_task_find(struct node *node, struct mob_task_id id)
{
    return (struct node_task *)mob_sched_find(node->sched, id);
}
