#include "runtime/node/replay.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "runtime/node/actor_needs.h"
#include "runtime/node/actor_refs.h"
#include "runtime/node/actors.h"
#include "runtime/node/directory.h"
#include "runtime/node/jobs.h"
#include "runtime/node/remade.h"
#include "runtime/node/submit.h"
#include "runtime/node/task.h"

struct replay {
    struct node *node;
    struct mob_actor_id actor;
    replay_read_fn *done;
    void (*drop)(void *arg);
    void *arg;
    bool patient; /* an actor does not die of a database that does not answer */
    struct replay_call *calls;
    uint32_t count, capacity;
    struct replay_unlogged *unlogged;
    uint32_t unlogged_count, unlogged_capacity;
    uint32_t reads; /* groups being read */
    struct mob_spec_head *creation;
    uint32_t creation_tail_bytes;
    struct replay_found found;
};

static struct mob_spec_head *copy_spec(const struct mob_spec *spec)
{
    struct mob_spec_head *copy = malloc(sizeof *copy + spec->tail_bytes);
    MOB_ASSERT(copy);
    *copy = spec->head;
    memcpy(copy + 1, spec->tail, spec->tail_bytes);
    return copy;
}

/* A block may be read for the creation and again for the edges: merge_edges makes one of the same. */
static void note_edge(
    struct replay *replay, const struct mob_entry_edge *edge, bool skip, const struct mob_block_header *block)
{
    if (!mob_actor_id_eq(edge->actor, replay->actor))
        return;
    if (replay->count == replay->capacity) {
        replay->capacity = replay->capacity ? replay->capacity * 2 : 64;
        replay->calls = realloc(replay->calls, replay->capacity * sizeof *replay->calls);
        MOB_ASSERT(replay->calls);
    }
    replay->calls[replay->count++] = (struct replay_call){.position = edge->position,
        .task = edge->task,
        .skipped = skip,
        .incarnation = block->incarnation,
        .block = block->sequence};
}

static void note_unlogged(struct replay *replay, const struct mob_entry_actor *entry)
{
    if (replay->unlogged_count == replay->unlogged_capacity) {
        replay->unlogged_capacity = replay->unlogged_capacity ? replay->unlogged_capacity * 2 : 16;
        replay->unlogged = realloc(replay->unlogged, replay->unlogged_capacity * sizeof *replay->unlogged);
        MOB_ASSERT(replay->unlogged);
    }
    uint64_t count = entry->reason < entry->position ? entry->reason : entry->position;
    replay->unlogged[replay->unlogged_count++] =
        (struct replay_unlogged){entry->position - count, entry->position};
}

/* By position, then as they were logged. */
static int by_log(const void *a, const void *b)
{
    const struct replay_call *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    if (x->incarnation != y->incarnation)
        return x->incarnation < y->incarnation ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

/* One of each position, the first that was logged; skipped when any says so. */
static void merge_edges(struct replay *replay)
{
    uint32_t count = 0;
    if (replay->count > 0)
        qsort(replay->calls, replay->count, sizeof *replay->calls, by_log);
    for (uint32_t i = 0; i < replay->count; i++) {
        if (count > 0 && replay->calls[count - 1].position == replay->calls[i].position)
            replay->calls[count - 1].skipped |= replay->calls[i].skipped;
        else
            replay->calls[count++] = replay->calls[i];
    }
    replay->count = count;
}

/* A creation that failed is the actor's end; so is what its node says. */
static void note_life(struct replay *replay, const struct mob_entry *e)
{
    struct replay_found *found = &replay->found;
    struct mob_task_id creation = replay->actor.creation;
    if (e->type == MOB_ENTRY_SPEC) {
        if (found->created || !mob_task_id_eq(e->spec.head.task, creation))
            return;
        found->created = true;
        replay->creation = copy_spec(&e->spec);
        replay->creation_tail_bytes = e->spec.tail_bytes;
    } else if (e->type == MOB_ENTRY_COMPLETION) {
        const struct mob_completion_head *c = &e->completion.head;
        if (!mob_task_id_eq(c->task, creation) || !(c->flags & MOB_COMPLETION_FINAL) || c->status == MOB_OK)
            return;
        found->ended = true;
        found->end = (enum mob_status)c->status;
    } else if (e->type == MOB_ENTRY_ACTOR && e->actor.event == MOB_ACTOR_EV_ENDED &&
        mob_actor_id_eq(e->actor.actor, replay->actor)) {
        found->ended = true;
        found->end = (enum mob_status)e->actor.reason;
    } else if (e->type == MOB_ENTRY_ACTOR && e->actor.event == MOB_ACTOR_EV_UNLOGGED &&
        mob_actor_id_eq(e->actor.actor, replay->actor)) {
        note_unlogged(replay, &e->actor);
    }
}

static void on_edge(void *arg, const struct mob_entry *e, const struct mob_block_header *block)
{
    if (e->type == MOB_ENTRY_EDGE || e->type == MOB_ENTRY_SKIP)
        note_edge(arg, &e->edge, e->type == MOB_ENTRY_SKIP, block);
    else
        note_life(arg, e);
}

/* Neighbours next to each other, so that each group is read once. */
static int by_task(const void *a, const void *b)
{
    const struct mob_task_id *x = &((const struct replay_call *)a)->task,
                             *y = &((const struct replay_call *)b)->task;
    int streams = memcmp(&x->stream, &y->stream, sizeof x->stream);
    return streams ? streams : x->index < y->index ? -1 : x->index > y->index;
}
static int by_position(const void *a, const void *b)
{
    uint64_t x = ((const struct replay_call *)a)->position, y = ((const struct replay_call *)b)->position;
    return x < y ? -1 : x > y;
}

static struct replay_call *find(struct replay *replay, struct mob_task_id task)
{
    struct replay_call key = {.task = task};
    if (replay->count == 0)
        return NULL;
    return bsearch(&key, replay->calls, replay->count, sizeof key, by_task);
}

static void note_item(struct replay_call *call, const struct mob_entry *e)
{
    struct node_stored_items stored = {call->stored, call->stored_count, call->items};
    node_remade_note_item(&stored, e->yield.item, &e->ret);
    call->stored = stored.stored;
    call->stored_count = stored.count;
    call->items = stored.items;
}

static void on_call_entry(void *arg, const struct mob_entry *e, const struct mob_block_header *block)
{
    struct replay *replay = arg;
    if (e->type == MOB_ENTRY_SPEC) {
        struct replay_call *call = find(replay, e->spec.head.task);
        if (!call || call->spec)
            return;
        call->spec = copy_spec(&e->spec);
        call->tail_bytes = e->spec.tail_bytes;
        call->submitted_wall_ns = lineage_log_wall_of(block, e->submitted_ns);
    } else if (e->type == MOB_ENTRY_OUTCOME) {
        struct replay_call *call = find(replay, e->outcome.task);
        if (call)
            call->outcomes = true;
    } else if (e->type == MOB_ENTRY_YIELD) {
        struct replay_call *call = find(replay, e->yield.task);
        if (call)
            note_item(call, e);
    } else if (e->type == MOB_ENTRY_COMPLETION && (e->completion.head.flags & MOB_COMPLETION_FINAL)) {
        struct replay_call *call = find(replay, e->completion.head.task);
        if (call) {
            if (!call->stored)
                call->stored = node_remade_stored(&e->completion, &call->stored_count);
            call->ended_well = e->completion.head.status == MOB_OK;
            call->digest = node_remade_digest(&e->completion);
            call->finished = true;
            call->attempt = e->completion.head.attempt;
            call->skipped |= node_call_skipped(&e->completion.head); /* its SKIP may lie behind the cut */
        }
    } else if (e->type == MOB_ENTRY_PUT) {
        struct replay_call *call = find(replay, e->put.id.task);
        if (call)
            node_remade_note_put(&call->puts, &e->put);
    } else if (e->type == MOB_ENTRY_HASH) {
        struct replay_call *call = find(replay, e->hash.id.task);
        if (call && (e->hash.id.slot & MOB_SLOT_PUT))
            node_remade_put_hashed(&call->puts, e->hash.id.slot, e->hash.hash);
        else if (call)
            node_remade_hashed(call->stored, call->stored_count, e->hash.id.slot, e->hash.hash);
    }
}

static void replay_destroy(struct replay *replay)
{
    for (uint32_t i = 0; i < replay->count; i++) {
        free(replay->calls[i].spec);
        free(replay->calls[i].stored);
        free(replay->calls[i].puts.puts);
    }
    free(replay->calls);
    free(replay->unlogged);
    free(replay->creation);
    free(replay);
}

static int by_first(const void *a, const void *b)
{
    uint64_t x = ((const struct replay_unlogged *)a)->first, y = ((const struct replay_unlogged *)b)->first;
    return x < y ? -1 : x > y;
}

bool node_replay_gap(const struct replay_log *log, uint64_t from, uint64_t behind, uint64_t *missing_out)
{
    uint32_t call = 0, range = 0;
    while (from < behind) {
        while (call < log->count && log->calls[call].position < from)
            call++;
        while (range < log->unlogged_count && log->unlogged[range].behind <= from)
            range++;
        const struct replay_call *at = call < log->count ? &log->calls[call] : NULL;
        if (at && at->position == from && (at->skipped || at->spec))
            from++;
        else if (range < log->unlogged_count && log->unlogged[range].first <= from)
            from = log->unlogged[range].behind;
        else
            break;
    }
    *missing_out = from;
    return from < behind;
}

static void finish(struct replay *replay)
{
    if (replay->unlogged_count > 0)
        qsort(replay->unlogged, replay->unlogged_count, sizeof *replay->unlogged, by_first);
    if (replay->count > 0)
        qsort(replay->calls, replay->count, sizeof *replay->calls, by_position);
    for (uint32_t i = 0; i < replay->count; i++) {
        struct replay_call *call = &replay->calls[i];
        replay->found.next_position = call->position + 1;
        node_remade_add_puts(&call->stored, &call->stored_count, &call->puts);
    }
    struct replay_log log = {.found = replay->found,
        .calls = replay->calls,
        .count = replay->count,
        .unlogged = replay->unlogged,
        .unlogged_count = replay->unlogged_count,
        .creation = replay->creation,
        .creation_tail_bytes = replay->creation_tail_bytes};
    replay->done(replay->arg, &log);
    replay_destroy(replay);
}

static void drop_all(void *arg)
{
    struct replay *replay = arg;
    if (replay->drop)
        replay->drop(replay->arg);
    replay_destroy(replay);
}

static void drop_calls_read(void *arg)
{
    struct replay *replay = arg;
    if (--replay->reads == 0)
        drop_all(replay);
}

static void on_calls_read(void *arg, enum mob_status status)
{
    struct replay *replay = arg;
    if (status != MOB_OK)
        replay->found.status = status;
    if (--replay->reads == 0)
        finish(replay);
}

static void on_edges_read(void *arg, enum mob_status status)
{
    struct replay *replay = arg;
    struct group_reader reader = {on_call_entry, on_calls_read, drop_calls_read, replay, replay->patient};
    replay->found.status = status;
    replay->reads = 1; /* ours */
    merge_edges(replay);
    if (replay->count > 0)
        qsort(replay->calls, replay->count, sizeof *replay->calls, by_task);
    for (uint32_t i = 0; i < replay->count && status == MOB_OK; i++) {
        struct mob_task_id task = replay->calls[i].task;
        uint32_t group = task.index >> MOB_GROUP_SHIFT;
        if (i > 0 && mob_stream_eq(replay->calls[i - 1].task.stream, task.stream) &&
            replay->calls[i - 1].task.index >> MOB_GROUP_SHIFT == group)
            continue;
        replay->reads++;
        node_group_read(replay->node, task.stream, group, &reader);
    }
    on_calls_read(replay, status);
}

/* The creation and the actor's end; of blocks that were written before edges had groups of their own, those.
 */
static void on_life_read(void *arg, enum mob_status status)
{
    struct replay *replay = arg;
    if (status != MOB_OK) {
        on_edges_read(replay, status);
        return;
    }
    struct mob_task_id edges = mob_edge_group(replay->actor);
    struct group_reader reader = {on_edge, on_edges_read, drop_all, replay, replay->patient};
    node_group_read(replay->node, edges.stream, edges.index >> MOB_GROUP_SHIFT, &reader);
}

static void read_life(struct replay *replay)
{
    struct mob_task_id creation = replay->actor.creation;
    struct group_reader reader = {on_edge, on_life_read, drop_all, replay, replay->patient};
    node_group_read(replay->node, creation.stream, creation.index >> MOB_GROUP_SHIFT, &reader);
}

void node_replay_read(
    struct node *node, struct mob_actor_id id, replay_read_fn *done, void (*drop)(void *arg), void *arg)
{
    struct replay *replay = calloc(1, sizeof *replay);
    MOB_ASSERT(replay);
    *replay = (struct replay){.node = node, .actor = id, .done = done, .drop = drop, .arg = arg};
    read_life(replay);
}

/* ---- the replay of an incarnation ---- */

enum mob_status node_replay_call(
    struct node *node, const struct replay_call *call, struct node_task **task_out)
{
    struct mob_spec spec = {
        .head = *call->spec, .tail = (const uint8_t *)(call->spec + 1), .tail_bytes = call->tail_bytes};
    spec.head.attempt = call->attempt + 1;
    if (!call->reads) /* it has its edge, whatever its method is declared to be now or was then */
        spec.head.flags &= (uint16_t)~MOB_SPEC_READ_ONLY;
    uint8_t flags = (uint8_t)(TASK_ACTOR_CALL | (call->finished ? TASK_REMAKE : 0) |
        (call->outcomes ? 0 : TASK_NO_OUTCOMES));
    enum mob_status status = node_resubmit(
        node, &spec, lineage_log_mono(node->log, call->submitted_wall_ns, node->now_ns), flags, task_out);
    if (status != MOB_OK)
        return status;
    struct node_task_extra *extra = node_task_extra(node, *task_out);
    extra->position = call->position;
    extra->logged = call->finished;
    /* one with a deadline may have ended early because of it; its replay has none */
    extra->compared = call->ended_well && !call->skipped && spec.head.deadline_wall_ns == 0;
    extra->digest = call->digest;
    if (call->finished)
        node_remade_expect(node, *task_out, call->stored, call->stored_count, call->items);
    return MOB_OK;
}

struct restart {
    struct node *node;
    struct mob_actor_id actor;
    uint64_t from, ended;
    uint16_t unknown_version;
};

static enum mob_status queue_call(struct node *node, const struct replay_call *call)
{
    struct node_task *task;
    if (!call->finished && node->ready)
        return MOB_OK; /* it waits here all the time, or was cancelled while the log was read */
    enum mob_status status = node_replay_call(node, call, &task);
    if (status == MOB_OK)
        node_enter(node, task);
    return status == MOB_EXISTS ? MOB_OK : status; /* queued here all the time */
}

/* A call whose job was deleted cannot run again. */
static bool job_is_gone(const struct restart *r, const struct replay_log *log, uint64_t *missing_out)
{
    for (uint32_t i = 0; i < log->count; i++) {
        const struct replay_call *call = &log->calls[i];
        *missing_out = call->position;
        if (!call->skipped && call->position >= r->from && !node_job_by_id(r->node, call->spec->job))
            return true;
    }
    return false;
}

/* All of it or nothing: what follows a call that is lost would find another state. */
static void queue_calls(const struct restart *r, const struct replay_log *log, struct replay_found *found)
{
    uint64_t behind = found->next_position > r->ended ? found->next_position : r->ended;
    if (node_replay_gap(log, r->from, behind, &found->missing) || job_is_gone(r, log, &found->missing)) {
        found->status = MOB_LINEAGE_GONE;
        return;
    }
    for (uint32_t i = 0; i < log->count && found->status == MOB_OK; i++) {
        const struct replay_call *call = &log->calls[i];
        if (call->skipped || !call->spec || (call->position < r->from && call->finished))
            continue;
        found->status = queue_call(r->node, call);
        found->missing = call->position;
    }
}

/* Positions from which on calls are known, whose they are and what they were given: that lineage stays. */
static void note_callers(const struct restart *r, const struct replay_log *log)
{
    struct node_actor *actor = node_actor_find(r->node, r->actor);
    if (actor && log->creation && r->from == 0)
        actor_refs_note(r->node, r->actor, 0, r->actor.creation, (const uint8_t *)(log->creation + 1));
    for (uint32_t i = 0; actor && i < log->count; i++) {
        const struct replay_call *call = &log->calls[i];
        if (!call->spec || call->position < r->from)
            continue;
        node_actor_called(actor, call->spec->job, call->position, 0);
        if (!call->skipped)
            actor_refs_note(r->node, r->actor, call->position, call->task, (const uint8_t *)(call->spec + 1));
    }
}

static void restart(void *arg, const struct replay_log *log)
{
    struct restart *r = arg;
    struct replay_found found = log->found;
    note_callers(r, log);
    if (found.status == MOB_OK && !found.ended && r->unknown_version != 0) {
        found.status = MOB_VERSION;
        found.unknown_version = r->unknown_version;
    }
    if (found.status == MOB_OK && !found.ended)
        queue_calls(r, log, &found);
    if (found.status == MOB_OK)
        MOB_LOG_INFO("replay", "queued", "calls=%u next=%lu", log->count, found.next_position);
    else
        MOB_LOG_ERROR("replay", "not_complete", "calls=%u from=%lu next=%lu missing=%lu status=%s",
            log->count, r->from, found.next_position, found.missing, mob_status_code(found.status));
    node_actor_replay_ready(r->node, r->actor, &found);
    free(r);
}

void node_replay_actor(
    struct node *node, struct mob_actor_id id, uint64_t from, uint64_t ended, uint16_t unknown_version)
{
    struct restart *r = malloc(sizeof *r);
    MOB_ASSERT(r);
    *r = (struct restart){node, id, from, ended, unknown_version};
    struct replay *replay = calloc(1, sizeof *replay);
    MOB_ASSERT(replay);
    *replay =
        (struct replay){.node = node, .actor = id, .done = restart, .drop = free, .arg = r, .patient = true};
    read_life(replay);
}
