#include "gcs/flush/kept_refs.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/wire/block.h"
#include "gcs/client/client_sync.h"

#define ANSWER_NS (20 * MOB_SEC)
#define GENERATIONS_MAX 16u /* of one task, whose children are kept */

/* Ids of one kind. Those of tasks are the beginnings of those of their objects. */
struct ids {
    uint8_t *rows;
    size_t count, capacity, size;
};
struct object_state {
    bool there; /* its bytes are in the log, or in a file */
    bool put, made; /* in the log; by a task or call whose spec is */
    bool called;
    struct mob_actor_id actor; /* called: its */
};
struct kept_refs {
    struct mob_gcs *gcs;
    struct mob_block_decoder *decoder;
    struct ids tasks, tasks_done; /* whose arguments are wanted */
    struct ids objects, objects_done;
    struct ids actors, actors_done;
    struct ids found; /* objects, for the next step */
    struct ids children, asked; /* groups of children by their first id: there; looked for */
    struct object_state *states; /* of `objects` */
    enum mob_status status; /* of what entries led to */
};

static enum mob_status ids_add(struct ids *ids, const void *id)
{
    if (!mob_array_room((void **)&ids->rows, ids->count + 1, &ids->capacity, ids->size) || ids->rows == NULL)
        return MOB_NO_MEMORY;
    memcpy(ids->rows + ids->count++ * ids->size, id, ids->size);
    return MOB_OK;
}

static const void *ids_at(const struct ids *ids, size_t i)
{
    return ids->rows + i * ids->size;
}

static int by_task(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct mob_task_id));
}

static int by_object(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct mob_object_id));
}

static int compare(const struct ids *ids, const void *a, const void *b)
{
    return memcmp(a, b, ids->size);
}

/* Sorted, each once. */
static void ids_sort(struct ids *ids)
{
    size_t count = 0;
    if (ids->count > 0)
        qsort(
            ids->rows, ids->count, ids->size, ids->size == sizeof(struct mob_task_id) ? by_task : by_object);
    for (size_t i = 0; i < ids->count; i++)
        if (count == 0 || compare(ids, ids_at(ids, count - 1), ids_at(ids, i)) != 0)
            memmove(ids->rows + count++ * ids->size, ids_at(ids, i), ids->size);
    ids->count = count;
}

/* The first that is not below this task or object. */
static size_t ids_from(const struct ids *ids, const void *id, size_t size)
{
    size_t low = 0, high = ids->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(ids_at(ids, middle), id, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool ids_have(const struct ids *ids, const void *id)
{
    size_t at = ids_from(ids, id, ids->size);
    return at < ids->count && compare(ids, ids_at(ids, at), id) == 0;
}

/* Each once, and none that was done before; they count as done from here on. */
static enum mob_status ids_new(struct ids *ids, struct ids *done)
{
    size_t count = 0;
    enum mob_status status = MOB_OK;
    ids_sort(ids);
    for (size_t i = 0; i < ids->count; i++)
        if (!ids_have(done, ids_at(ids, i)))
            memmove(ids->rows + count++ * ids->size, ids_at(ids, i), ids->size);
    ids->count = count;
    for (size_t i = 0; i < count && status == MOB_OK; i++)
        status = ids_add(done, ids_at(ids, i));
    ids_sort(done);
    return status;
}

struct kept_refs *kept_refs_create(struct mob_gcs *gcs)
{
    struct kept_refs *refs = calloc(1, sizeof *refs);
    if (refs == NULL)
        return NULL;
    refs->gcs = gcs;
    refs->decoder = mob_block_decoder_create();
    refs->tasks.size = refs->tasks_done.size = sizeof(struct mob_task_id);
    refs->objects.size = refs->objects_done.size = refs->found.size = sizeof(struct mob_object_id);
    refs->children.size = refs->asked.size = sizeof(struct mob_task_id);
    refs->actors.size = refs->actors_done.size = sizeof(struct mob_actor_id);
    if (refs->decoder != NULL)
        return refs;
    free(refs);
    return NULL;
}

void kept_refs_destroy(struct kept_refs *refs)
{
    if (refs == NULL)
        return;
    mob_block_decoder_destroy(refs->decoder);
    free(refs->tasks.rows);
    free(refs->tasks_done.rows);
    free(refs->objects.rows);
    free(refs->objects_done.rows);
    free(refs->actors.rows);
    free(refs->actors_done.rows);
    free(refs->found.rows);
    free(refs->children.rows);
    free(refs->asked.rows);
    free(refs);
}

enum mob_status kept_refs_add(struct kept_refs *refs, struct mob_task_id task)
{
    return ids_add(&refs->tasks, &task);
}

enum mob_status kept_refs_actor_read(struct kept_refs *refs, struct mob_actor_id actor)
{
    return ids_add(&refs->actors_done, &actor);
}

bool kept_refs_next_actor(struct kept_refs *refs, struct mob_actor_id *actor_out)
{
    if (refs->actors.count == 0)
        return false;
    memcpy(actor_out, ids_at(&refs->actors, --refs->actors.count), sizeof *actor_out);
    return true;
}

/* ---- reading groups ---- */

struct groups {
    struct mob_gcs_group_key *rows;
    size_t count, capacity;
};
typedef void entry_fn(struct kept_refs *refs, const struct mob_entry *entry);

static enum mob_status add_group(struct groups *groups, struct mob_task_id member)
{
    struct mob_gcs_group_key key = {member.stream, member.index >> MOB_GROUP_SHIFT};
    if (groups->count > 0 && memcmp(&groups->rows[groups->count - 1], &key, sizeof key) == 0)
        return MOB_OK;
    if (!mob_array_room((void **)&groups->rows, groups->count + 1, &groups->capacity, sizeof *groups->rows) ||
        groups->rows == NULL)
        return MOB_NO_MEMORY;
    groups->rows[groups->count++] = key;
    return MOB_OK;
}

static int by_key(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct mob_gcs_group_key));
}

static enum mob_status note_block(
    struct kept_refs *refs, const struct mob_gcs_block_row *row, entry_fn *entry)
{
    static _Thread_local struct mob_zone_map zone;
    static _Thread_local struct mob_entry one;
    struct mob_block_header header;
    enum mob_status status = mob_block_open(refs->decoder, row->bytes, row->length, &header, &zone);
    while (status == MOB_OK && (status = mob_block_next(refs->decoder, &one)) == MOB_OK)
        entry(refs, &one);
    return status == MOB_CLOSED ? refs->status : status;
}

static enum mob_status ask_page(struct kept_refs *refs, const struct mob_gcs_group_key *keys, uint32_t count,
    uint64_t position, struct mob_gcs_result **result_out)
{
    struct mob_gcs_call *call = mob_gcs_call_create();
    enum mob_status status = count == 1
        ? mob_gcs_group_blocks(refs->gcs, keys->stream, keys->group, position, mob_gcs_call_done, call)
        : mob_gcs_groups_blocks(refs->gcs, keys, count, position, mob_gcs_call_done, call);
    return mob_gcs_call_wait(refs->gcs, call, status, mob_now() + ANSWER_NS, result_out);
}

static enum mob_status read_some(
    struct kept_refs *refs, const struct mob_gcs_group_key *keys, uint32_t count, entry_fn *entry)
{
    uint64_t position = 0;
    enum mob_status status;
    do {
        struct mob_gcs_result *result = NULL;
        status = ask_page(refs, keys, count, position, &result);
        const struct mob_gcs_answer *a = result != NULL ? mob_gcs_result_answer(result) : NULL;
        for (uint32_t i = 0; status == MOB_OK && a != NULL && i < a->block_count; i++)
            status = note_block(refs, &a->blocks[i], entry);
        position = status == MOB_OK && a != NULL ? a->next : 0;
        mob_gcs_result_destroy(result);
    } while (position != 0);
    return status == MOB_NOT_FOUND ? MOB_OK : status;
}

static enum mob_status read_singly(
    struct kept_refs *refs, const struct mob_gcs_group_key *keys, size_t count, entry_fn *entry)
{
    enum mob_status status = MOB_OK;
    for (size_t i = 0; i < count && status == MOB_OK; i++)
        status = read_some(refs, &keys[i], 1, entry);
    return status;
}

/* Frees the list. */
static enum mob_status read_groups(struct kept_refs *refs, struct groups *groups, entry_fn *entry)
{
    enum mob_status status = MOB_OK;
    size_t count = 0;
    if (groups->count > 0)
        qsort(groups->rows, groups->count, sizeof *groups->rows, by_key);
    for (size_t i = 0; i < groups->count; i++)
        if (count == 0 || by_key(&groups->rows[count - 1], &groups->rows[i]) != 0)
            groups->rows[count++] = groups->rows[i];
    for (size_t at = 0, some; at < count && status == MOB_OK; at += some) {
        some = count - at < MOB_GCS_GROUPS_MAX ? count - at : MOB_GCS_GROUPS_MAX;
        status = read_some(refs, groups->rows + at, (uint32_t)some, entry);
        if (status == MOB_INVALID && some > 1) /* a member of an earlier version */
            status = read_singly(refs, groups->rows + at, some, entry);
    }
    free(groups->rows);
    *groups = (struct groups){0};
    return status;
}

/* ---- from tasks to what they need ---- */

static void find_object(struct kept_refs *refs, struct mob_object_id id)
{
    if (refs->status == MOB_OK)
        refs->status = ids_add(&refs->found, &id);
}

/* ---- their children, which a run that repeats them finds in the log, and does not run again ---- */

static enum mob_status add_children(struct kept_refs *refs, struct mob_task_id task, uint32_t generation)
{
    struct mob_task_id first = {mob_stream_of_children(task, generation, 0), 0};
    return ids_add(&refs->children, &first);
}

static void on_child(struct kept_refs *refs, const struct mob_entry *entry)
{
    struct mob_task_id first = entry->spec.head.task;
    if (entry->type != MOB_ENTRY_SPEC || refs->status != MOB_OK)
        return;
    first.index &= ~((1u << MOB_GROUP_SHIFT) - 1);
    if (ids_have(&refs->asked, &first))
        refs->status = ids_add(&refs->children, &first);
}

/* How many they are nobody says, so behind each group that is there the next one is looked for. The first is
 * needed unseen: mostly there is none, and no row of it. */
static enum mob_status need_children(struct kept_refs *refs, struct kept_needs *needs)
{
    enum mob_status status = MOB_OK;
    while (status == MOB_OK && refs->children.count > 0) {
        struct groups groups = {0};
        ids_sort(&refs->children);
        refs->asked.count = 0;
        for (size_t i = 0; i < refs->children.count && status == MOB_OK; i++) {
            struct mob_task_id first;
            memcpy(&first, ids_at(&refs->children, i), sizeof first);
            status = kept_need_group(needs, first);
            first.index += 1u << MOB_GROUP_SHIFT;
            if (status == MOB_OK)
                status = add_group(&groups, first);
            if (status == MOB_OK)
                status = ids_add(&refs->asked, &first);
        }
        ids_sort(&refs->asked);
        refs->children.count = 0;
        if (status == MOB_OK)
            status = read_groups(refs, &groups, on_child);
        free(groups.rows);
    }
    return status;
}

/* ---- what they were given ---- */

static void on_spec(struct kept_refs *refs, const struct mob_entry *entry)
{
    struct mob_task_id task = entry->spec.head.task;
    struct mob_arg_view arg;
    if (!ids_have(&refs->tasks, &task))
        return;
    struct mob_tail_iter it = mob_spec_args(entry->spec.tail);
    while (mob_tail_next_arg(&it, &arg))
        if (arg.is_ref)
            find_object(refs, arg.ref);
    uint32_t pages = it.at < it.end ? mob_spec_arg_pages(entry->spec.tail) : 0;
    for (uint32_t page = 0; page < pages; page++)
        find_object(refs, mob_object_of(task, MOB_SLOT_ARG_PAGE | page));
}

/* Of each generation: one that failed, and was tried again, has children of its own. */
static void on_end(struct kept_refs *refs, const struct mob_completion_head *head)
{
    uint32_t last = head->generation < GENERATIONS_MAX ? head->generation : GENERATIONS_MAX;
    for (uint32_t i = 1; i <= last && ids_have(&refs->tasks, &head->task) && refs->status == MOB_OK; i++)
        refs->status = add_children(refs, head->task, i);
}

static void on_task(struct kept_refs *refs, const struct mob_entry *entry)
{
    if (entry->type == MOB_ENTRY_SPEC)
        on_spec(refs, entry);
    else if (entry->type == MOB_ENTRY_COMPLETION)
        on_end(refs, &entry->completion.head);
}

static enum mob_status open_tasks(struct kept_refs *refs, struct kept_needs *needs)
{
    struct groups groups = {0};
    enum mob_status status = ids_new(&refs->tasks, &refs->tasks_done);
    refs->children.count = 0;
    for (size_t i = 0; i < refs->tasks.count && status == MOB_OK; i++) {
        struct mob_task_id task;
        memcpy(&task, ids_at(&refs->tasks, i), sizeof task);
        status = add_group(&groups, task);
        if (status == MOB_OK)
            status = add_children(refs, task, 0);
    }
    if (status == MOB_OK)
        status = read_groups(refs, &groups, on_task);
    free(groups.rows);
    refs->tasks.count = 0;
    return status == MOB_OK ? need_children(refs, needs) : status;
}

/* ---- from objects to the tasks that would make them again ---- */

static struct object_state *state_of(struct kept_refs *refs, struct mob_object_id id)
{
    size_t at = ids_from(&refs->objects, &id, sizeof id);
    bool found = at < refs->objects.count && by_object(ids_at(&refs->objects, at), &id) == 0;
    return found ? &refs->states[at] : NULL;
}

static struct mob_object_id object_at(const struct kept_refs *refs, size_t i)
{
    struct mob_object_id id;
    memcpy(&id, ids_at(&refs->objects, i), sizeof id);
    return id;
}

static bool of_task(const struct kept_refs *refs, size_t i, struct mob_task_id task)
{
    return i < refs->objects.count && by_task(ids_at(&refs->objects, i), &task) == 0;
}

static void note_maker(struct kept_refs *refs, const struct mob_spec_head *head)
{
    for (size_t i = ids_from(&refs->objects, &head->task, sizeof head->task); of_task(refs, i, head->task);
         i++) {
        refs->states[i].made = head->kind == MOB_KIND_TASK || head->kind == MOB_KIND_ACTOR_CALL;
        refs->states[i].called = head->kind == MOB_KIND_ACTOR_CALL;
        refs->states[i].actor = head->actor;
    }
}

static bool is_page(struct mob_object_id id)
{
    return id.slot - MOB_SLOT_ARG_PAGE < MOB_ARG_PAGES_MAX;
}

static void note_put(struct kept_refs *refs, const struct mob_entry *entry)
{
    const struct mob_out_put *put = &entry->put;
    struct object_state *state = state_of(refs, put->id);
    struct mob_object_id ref;
    uint64_t at = 0;
    if (state == NULL)
        return;
    state->put = true;
    if (put->inline_bytes != put->size || put->flags & MOB_PUT_PROMISE)
        return;
    state->there = true;
    while (is_page(put->id) && mob_arg_page_next_ref(entry->payload, entry->payload_bytes, &at, &ref))
        find_object(refs, ref);
}

static void note_return(struct kept_refs *refs, struct mob_object_id id, const struct mob_return_view *r)
{
    struct object_state *state = state_of(refs, id);
    struct mob_object_id target;
    if (state == NULL || r->flags & MOB_RETURN_STORED)
        return;
    state->there = true;
    if (r->type != MOB_TYPE_FUTURE || r->size != sizeof target || r->payload == NULL)
        return;
    memcpy(&target, r->payload, sizeof target); /* a tail call: it is what that one is */
    find_object(refs, target);
}

static void note_end(struct kept_refs *refs, const struct mob_completion *completion)
{
    const struct mob_completion_head *head = &completion->head;
    struct mob_return_view r;
    uint32_t at = 0;
    size_t i = ids_from(&refs->objects, &head->task, sizeof head->task);
    if (!(head->flags & MOB_COMPLETION_FINAL) || !of_task(refs, i, head->task))
        return;
    for (; head->status != MOB_OK && of_task(refs, i, head->task); i++)
        refs->states[i].there |= !(object_at(refs, i).slot & MOB_SLOT_PUT); /* the error is */
    while (head->status == MOB_OK && mob_completion_next(completion, &at, &r))
        note_return(refs, mob_object_of(head->task, r.slot), &r);
}

static void on_entry(struct kept_refs *refs, const struct mob_entry *entry)
{
    if (entry->type == MOB_ENTRY_SPEC)
        note_maker(refs, &entry->spec.head);
    else if (entry->type == MOB_ENTRY_PUT)
        note_put(refs, entry);
    else if (entry->type == MOB_ENTRY_COMPLETION)
        note_end(refs, &entry->completion);
    else if (entry->type == MOB_ENTRY_YIELD)
        note_return(refs, mob_object_of(entry->yield.task, entry->yield.item), &entry->ret);
}

/* Their groups are needed, and are read. */
static enum mob_status read_objects(struct kept_refs *refs, struct kept_needs *needs)
{
    struct groups groups = {0};
    enum mob_status status = MOB_OK;
    for (size_t i = 0; i < refs->objects.count && status == MOB_OK; i++) {
        struct mob_object_id id = object_at(refs, i);
        struct mob_task_id own = mob_put_has_group(id) ? mob_put_group(id) : id.task;
        status = kept_need_group(needs, id.task);
        if (status == MOB_OK)
            status = add_group(&groups, id.task);
        if (status == MOB_OK && mob_put_has_group(id))
            status = kept_need_group(needs, own);
        if (status == MOB_OK && mob_put_has_group(id))
            status = add_group(&groups, own);
    }
    if (status == MOB_OK)
        status = read_groups(refs, &groups, on_entry);
    free(groups.rows);
    return status;
}

static enum mob_status add_makers(struct kept_refs *refs)
{
    enum mob_status status = MOB_OK;
    for (size_t i = 0; i < refs->objects.count && status == MOB_OK; i++) {
        const struct object_state *state = &refs->states[i];
        struct mob_object_id id = object_at(refs, i);
        if (state->there || !state->made)
            continue;
        status = ids_add(&refs->tasks, &id.task);
        if (status == MOB_OK && state->called)
            status = ids_add(&refs->actors, &state->actor);
    }
    return status;
}

static enum mob_status open_objects(struct kept_refs *refs, struct kept_needs *needs)
{
    struct ids none = refs->objects;
    refs->objects = refs->found;
    refs->found = none;
    refs->found.count = 0;
    enum mob_status status = ids_new(&refs->objects, &refs->objects_done);
    if (status != MOB_OK || refs->objects.count == 0)
        return status;
    refs->states = calloc(refs->objects.count, sizeof *refs->states);
    status = refs->states == NULL ? MOB_NO_MEMORY : read_objects(refs, needs);
    if (status == MOB_OK)
        status = add_makers(refs);
    free(refs->states);
    refs->states = NULL;
    return status;
}

enum mob_status kept_refs_follow(struct kept_refs *refs, struct kept_needs *needs)
{
    enum mob_status status = MOB_OK;
    uint32_t depth = 0;
    while (status == MOB_OK && refs->tasks.count + refs->found.count > 0) {
        if (depth++ > KEPT_REFS_DEPTH_MAX) {
            MOB_LOG_WARN("flush", "references_too_deep", "depth=%u tasks=%zu objects=%zu",
                KEPT_REFS_DEPTH_MAX, refs->tasks.count, refs->found.count);
            refs->tasks.count = refs->found.count = 0;
            break;
        }
        status = open_tasks(refs, needs);
        if (status == MOB_OK)
            status = open_objects(refs, needs);
    }
    return status == MOB_OK ? ids_new(&refs->actors, &refs->actors_done) : status;
}
