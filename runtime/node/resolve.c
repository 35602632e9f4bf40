/* Objects and tasks that this node does not hold: looked up in the lineage, then restored from it, made again
 * by running their task again, or said to be lost (papers, 4.2.3 "Object reconstruction"). Never by
 * recursion: a task that runs again waits for its inputs like any other, and they are resolved in turn.
 */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/directory.h"
#include "runtime/node/durable_puts.h"
#include "runtime/node/node.h"

#define RESTORE_PATIENCE_NS (10 * MOB_SEC)

/* Somebody wants to know one task of a group. */
struct want {
    struct want *next;
    struct mob_object_id id; /* OBJECT wants: which; SUBMIT wants: slot 0 */
    bool is_submit;
    bool again; /* the lineage was read a second time */
    /* SUBMIT: what was submitted */
    uint32_t slot, session;
    struct mob_spec_head head;
    struct node_template *template;
    int64_t submitted_ns;
    uint8_t *tail;
    uint32_t tail_bytes;
    /* what the lineage says */
    struct mob_spec_head *spec_head; /* followed by its tail */
    uint32_t spec_tail_bytes;
    int64_t spec_submitted_ns;
    struct mob_completion_head *completion; /* followed by its body; final */
    struct mob_out_put *put; /* followed by its inline value */
    struct mob_completion_head *yield; /* a generator's item as a completion of one return */
};
/* A group being looked up. */
struct lookup {
    struct lookup *next;
    struct node *node;
    struct mob_stream stream;
    uint32_t group;
    bool started;
    struct want *wants;
};
struct resolver {
    struct lookup *lookups;
};

struct resolver *resolver_create(struct node *node)
{
    (void)node;
    return calloc(1, sizeof(struct resolver));
}

static void want_destroy(struct node *node, struct want *want)
{
    if (want->template)
        node_template_drop(node, want->template);
    free(want->tail);
    free(want->spec_head);
    free(want->completion);
    free(want->put);
    free(want->yield);
    free(want);
}

void resolver_destroy(struct resolver *resolver)
{
    free(resolver);
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

static void note_entry(struct want *want, const struct mob_entry *e)
{
    switch ((int)e->type) {
    case MOB_ENTRY_SPEC:
        if (mob_task_id_eq(e->spec.head.task, want->id.task) && !want->spec_head) {
            want->spec_head = copy_two(&e->spec.head, sizeof e->spec.head, e->spec.tail, e->spec.tail_bytes);
            want->spec_tail_bytes = e->spec.tail_bytes;
            want->spec_submitted_ns = e->submitted_ns;
        }
        return;
    case MOB_ENTRY_COMPLETION:
        if (mob_task_id_eq(e->completion.head.task, want->id.task) && !want->completion &&
            (e->completion.head.flags & MOB_COMPLETION_FINAL))
            want->completion = copy_two(&e->completion.head, sizeof e->completion.head, e->completion.body,
                e->completion.head.body_bytes);
        return;
    case MOB_ENTRY_PUT:
        if (mob_object_id_eq(e->put.id, want->id) && !want->put)
            want->put = copy_two(&e->put, sizeof e->put, e->payload, e->payload_bytes);
        return;
    default:
        return;
    }
}

static void on_entry(void *arg, const struct mob_entry *entry, const struct mob_block_header *block)
{
    struct lookup *lookup = arg;
    (void)block;
    for (struct want *want = lookup->wants; want; want = want->next)
        note_entry(want, entry);
}

/* The node's own put, which evicts before it gives up. */
static enum mob_status put_with_room(struct node *node, struct mob_object_id id, enum mob_value_type type,
    bool small, const void *bytes, uint64_t size)
{
    uint64_t free_now;
    enum mob_status status = mob_store_object_put(node->store, id, type, small, bytes, size);
    if (status == MOB_STORE_FULL && mob_store_make_room(node->store, size, &free_now) == MOB_OK)
        status = mob_store_object_put(node->store, id, type, small, bytes, size);
    return status;
}

/* A small or full value from its bytes in the lineage, into the store. */
enum mob_status node_restore_value(struct node *node, struct mob_object_id id, enum mob_value_type type,
    const uint8_t *payload, uint64_t bytes)
{
    if (bytes <= MOB_OBJECT_INLINE_MAX && type != MOB_TYPE_ERROR)
        return put_with_room(node, id, type, true, payload, bytes);
    uint64_t size;
    uint8_t *at;
    enum mob_status status = mob_value_full_size(bytes, 0, 0, &size);
    if (status != MOB_OK)
        return status;
    void *value = aligned_alloc(MOB_VALUE_ALIGN, mob_round_up(size, MOB_VALUE_ALIGN));
    if (!value)
        return MOB_NO_MEMORY;
    status = mob_value_init(value, size, type, bytes, NULL, 0, NULL, 0, &at);
    if (status == MOB_OK) {
        memcpy(at, payload, bytes);
        mob_value_hash(value);
        status = put_with_room(node, id, type, false, value, size);
    }
    free(value);
    return status;
}

static void ready_committed(struct node *node, struct mob_object_id id, enum mob_status status,
    enum mob_value_type type, uint32_t slot, uint32_t session)
{
    struct mob_object_info info;
    bool there = mob_store_object_info(node->store, id, &info) && info.sealed;
    struct ready_object object = {
        .id = id,
        .status = status,
        .type = type,
        .flags = MOB_READY_COMMITTED,
        .committed = true,
        .size = there ? info.size : 0,
    };
    node_object_ready(node, &object, slot, session);
    mob_store_object_committed(node->store, id, true);
}

/* A value from the lineage that found the store full of what waits for its commit: again when that is there.
 */
struct restore_later {
    struct node *node;
    struct mob_object_id id;
    enum mob_value_type type;
    uint32_t slot, session;
    int64_t give_up_ns;
    uint64_t bytes;
    uint8_t payload[];
};

static void restore(struct node *node, const struct restore_later *r);

static void restore_after_commit(void *arg)
{
    struct restore_later *later = arg;
    restore(later->node, later);
    free(later);
}

static bool wait_for_commits(struct node *node, const struct restore_later *r)
{
    if (lineage_log_idle(node->log) || node->now_ns > r->give_up_ns)
        return false;
    struct restore_later *later = malloc(sizeof *later + r->bytes);
    if (!later)
        return false;
    memcpy(later, r, sizeof *later + r->bytes);
    struct effect effect = {.kind = EFFECT_CALL, .slot = NODE_NOBODY};
    effect.call.fn = restore_after_commit;
    effect.call.arg = later;
    node->commit_wanted = true;
    lineage_log_effect_later(node->log, &effect);
    return true;
}

static void restore(struct node *node, const struct restore_later *r)
{
    enum mob_status status = node_restore_value(node, r->id, r->type, r->payload, r->bytes);
    if (status == MOB_STORE_FULL && wait_for_commits(node, r))
        return;
    if (status != MOB_OK && status != MOB_EXISTS) {
        ready_committed(node, r->id, status, MOB_TYPE_ERROR, r->slot, r->session);
        return;
    }
    struct mob_error_link link;
    enum mob_status outcome = MOB_OK;
    if (r->type == MOB_TYPE_ERROR && mob_error_decode(r->payload, r->bytes, &link, 1) == 1)
        outcome = link.status;
    ready_committed(node, r->id, outcome, r->type, r->slot, r->session);
}

static void restored(struct node *node, struct mob_object_id id, enum mob_value_type type,
    const uint8_t *payload, uint64_t bytes, uint32_t slot, uint32_t session)
{
    struct restore_later *r = malloc(sizeof *r + bytes);
    if (!r) {
        ready_committed(node, id, MOB_NO_MEMORY, MOB_TYPE_ERROR, slot, session);
        return;
    }
    *r = (struct restore_later){.node = node,
        .id = id,
        .type = type,
        .slot = slot,
        .session = session,
        .give_up_ns = node->now_ns + RESTORE_PATIENCE_NS,
        .bytes = bytes};
    memcpy(r->payload, payload, bytes);
    restore(node, r);
    free(r);
}

/* Its bytes were in the store and are gone: run its task again. */
static void remake(struct node *node, struct want *want, uint32_t slot, uint32_t session)
{
    struct node_task *task = node_task_find(node, want->id.task);
    enum mob_status status = MOB_OBJECT_LOST;
    if (want->spec_head && want->spec_head->kind == MOB_KIND_TASK && !task) {
        struct mob_spec spec = {.head = *want->spec_head,
            .tail = (const uint8_t *)(want->spec_head + 1),
            .tail_bytes = want->spec_tail_bytes};
        spec.head.attempt = want->completion ? want->completion->attempt + 1 : spec.head.attempt + 1;
        spec.head.generation = want->completion ? want->completion->generation : spec.head.generation;
        uint8_t flags = want->completion ? TASK_REMAKE : 0;
        status = node_resubmit(node, &spec, want->spec_submitted_ns, flags, &task);
        if (status == MOB_OK) {
            if (slot != NODE_NOBODY) {
                task->submitter = (uint16_t)slot;
                task->submitter_session = session;
            }
            node_enter(node, task);
            return;
        }
    }
    if (task) { /* on its way already */
        if (slot != NODE_NOBODY) {
            task->submitter = (uint16_t)slot;
            task->submitter_session = session;
        }
        return;
    }
    ready_committed(node, want->id, status, MOB_TYPE_ERROR, slot, session);
}

/* May the task that has ended have made this object? Returns are counted in its spec, puts are in the log. */
static bool may_be_of(const struct want *want)
{
    uint32_t slot = want->id.slot;
    if (slot == MOB_SLOT_CHECKPOINT || want->completion->status != MOB_OK)
        return true; /* of a task that failed every return is the error */
    if (slot & MOB_SLOT_PUT)
        return want->put != NULL;
    if (!want->spec_head)
        return true;
    uint32_t count = want->spec_head->num_returns;
    if (count == MOB_RETURNS_STREAM)
        count = want->completion->return_count;
    return slot < (count > 0 ? count : 1); /* one that declares none is waited for by its first */
}

static void from_completion(struct node *node, struct want *want, uint32_t slot, uint32_t session)
{
    if (!may_be_of(want)) {
        ready_committed(node, want->id, MOB_NOT_FOUND, MOB_TYPE_ERROR, slot, session);
        return;
    }
    struct mob_completion completion = {*want->completion, (const uint8_t *)(want->completion + 1)};
    struct mob_return_view r;
    uint32_t at = 0;
    bool failed = completion.head.status != MOB_OK;
    while (mob_completion_next(&completion, &at, &r)) {
        if (r.slot != want->id.slot && !failed)
            continue;
        if (r.flags & MOB_RETURN_STORED)
            break;
        if (r.type == MOB_TYPE_FUTURE) {
            struct node_tail_call call = {.id = want->id,
                .submitter = slot,
                .session = session,
                .generation = completion.head.generation,
                .children = NODE_CHILDREN_UNKNOWN};
            memcpy(&call.target, r.payload, sizeof call.target);
            node_alias(node, &call);
            return;
        }
        restored(node, want->id, r.type, r.payload, r.size, slot, session);
        return;
    }
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    if (mob_store_object_bytes(node->store, want->id, true, &type, &bytes, &size) == MOB_OK)
        ready_committed(node, want->id, MOB_OK, type, slot, session);
    else
        remake(node, want, slot, session);
}

/* A task whose submission is itself being looked up: it will tell who watches it. */
static bool being_submitted(struct node *node, struct mob_task_id task)
{
    for (const struct lookup *lookup = node->resolver->lookups; lookup; lookup = lookup->next) {
        if (lookup->group != task.index >> MOB_GROUP_SHIFT || !mob_stream_eq(lookup->stream, task.stream))
            continue;
        for (const struct want *want = lookup->wants; want; want = want->next)
            if (want->is_submit && mob_task_id_eq(want->id.task, task))
                return true;
    }
    return false;
}

static void finish_object(struct node *node, struct want *want)
{
    struct mob_object_info info;
    if (mob_store_object_info(node->store, want->id, &info) && info.sealed && !info.spilled) {
        ready_committed(node, want->id, MOB_OK, info.type, NODE_NOBODY, 0);
    } else if (want->put && want->put->inline_bytes == want->put->size) {
        restored(node, want->id, (enum mob_value_type)want->put->type, (const uint8_t *)(want->put + 1),
            want->put->size, NODE_NOBODY, 0);
    } else if (want->put && durable_puts_restore(node->puts, want->id) == MOB_OK) {
        ready_committed(node, want->id, MOB_OK, (enum mob_value_type)want->put->type, NODE_NOBODY, 0);
    } else if (want->completion) {
        from_completion(node, want, NODE_NOBODY, 0);
    } else if (want->spec_head) {
        remake(node, want, NODE_NOBODY, 0);
    } else {
        enum mob_value_type type;
        const uint8_t *bytes;
        uint64_t size;
        enum mob_status status = mob_store_object_bytes(node->store, want->id, true, &type, &bytes, &size);
        if (status == MOB_OK)
            ready_committed(node, want->id, MOB_OK, type, NODE_NOBODY, 0);
        else if (!node_task_find(node, want->id.task) && !being_submitted(node, want->id.task))
            ready_committed(
                node, want->id, want->put ? MOB_OBJECT_LOST : MOB_NOT_FOUND, MOB_TYPE_ERROR, NODE_NOBODY, 0);
    }
}

static bool same_submission(const struct want *want)
{
    struct mob_spec_head known = *want->spec_head;
    known.caller_seq = want->head.caller_seq;
    known.generation = want->head.generation;
    struct mob_hash128 a =
        mob_spec_digest(&known, (const uint8_t *)(want->spec_head + 1), want->spec_tail_bytes);
    struct mob_hash128 b = mob_spec_digest(&want->head, want->tail, want->tail_bytes);
    return mob_hash128_eq(a, b);
}

static void tell_diverged(struct node *node, const struct want *want)
{
    char id[MOB_ID_TEXT_MAX];
    MOB_LOG_WARN("submit", "replay_diverged", "task=%s", mob_task_id_format(want->id.task, id));
    uint32_t returns = want->head.num_returns == MOB_RETURNS_STREAM ? 1 : want->head.num_returns;
    for (uint32_t slot = 0; slot < (returns > 0 ? returns : 1); slot++) {
        struct ready_object object = {.id = mob_object_of(want->id.task, slot),
            .status = MOB_REPLAY_DIVERGED,
            .type = MOB_TYPE_ERROR,
            .flags = MOB_READY_COMMITTED,
            .committed = true};
        if (node_client_is(node, want->slot, want->session))
            node_notice_ready(node, want->slot, &object);
    }
}

/* Logged, and not queued behind its actor's other calls: the node died between its spec and its edge, so it
 * never had a position. */
static void call_again(struct node *node, struct want *want)
{
    struct mob_spec spec = {.head = *want->spec_head,
        .tail = (const uint8_t *)(want->spec_head + 1),
        .tail_bytes = want->spec_tail_bytes};
    struct node_task *task;
    enum mob_status status = node_resubmit(node, &spec, want->spec_submitted_ns, 0, &task);
    if (status != MOB_OK) {
        ready_committed(node, want->id, status, MOB_TYPE_ERROR, want->slot, want->session);
        return;
    }
    task->submitter = (uint16_t)want->slot;
    task->submitter_session = want->session;
    node_enter(node, task);
}

static void finish_submit(struct node *node, struct want *want)
{
    struct node_task *live = node_task_find(node, want->id.task);
    if (want->spec_head && !same_submission(want)) {
        tell_diverged(node, want);
        return;
    }
    if (live) {
        live->submitter = (uint16_t)want->slot;
        live->submitter_session = want->session;
        return;
    }
    if (!want->spec_head) {
        node_submit_new(node, want->slot, want->session, &want->head, want->template, want->submitted_ns,
            want->tail, want->tail_bytes);
        return;
    }
    node->duplicates++;
    if (!want->completion && want->head.kind == MOB_KIND_ACTOR_CALL) {
        call_again(node, want);
        return;
    }
    uint32_t returns = want->head.num_returns == MOB_RETURNS_STREAM ? 1 : want->head.num_returns;
    for (uint32_t slot = 0; slot < (returns > 0 ? returns : 1); slot++) {
        want->id.slot = slot;
        if (want->completion)
            from_completion(node, want, want->slot, want->session);
        else
            remake(node, want, want->slot, want->session);
    }
}

static struct lookup *lookup_for(struct node *node, struct mob_task_id task);
static void add_want(struct lookup *lookup, struct want *want);

/* Unfinished in the lineage, and not running here: it ended while the lineage was read. Then it says so now,
 * and to run it again would be to run it twice. */
static bool read_again(struct node *node, struct want *want)
{
    if (!want->spec_head || want->completion || want->again || node_task_find(node, want->id.task))
        return false;
    free(want->spec_head);
    free(want->put);
    want->spec_head = NULL;
    want->put = NULL;
    want->again = true;
    want->next = NULL;
    add_want(lookup_for(node, want->id.task), want);
    return true;
}

static void on_done(void *arg, enum mob_status status)
{
    struct lookup *lookup = arg;
    struct node *node = lookup->node;
    for (struct lookup **at = &node->resolver->lookups; *at; at = &(*at)->next)
        if (*at == lookup) {
            *at = lookup->next;
            break;
        }
    while (lookup->wants) {
        struct want *want = lookup->wants;
        lookup->wants = want->next;
        if (status == MOB_OK && read_again(node, want))
            continue;
        if (want->is_submit && node_client_is(node, want->slot, want->session))
            node->clients[want->slot]->parked--;
        if (status != MOB_OK)
            ready_committed(node, want->id, status, MOB_TYPE_ERROR, NODE_NOBODY, 0);
        else if (want->is_submit)
            finish_submit(node, want);
        else
            finish_object(node, want);
        want_destroy(node, want);
    }
    free(lookup);
}

static struct lookup *lookup_for(struct node *node, struct mob_task_id task)
{
    uint32_t group = task.index >> MOB_GROUP_SHIFT;
    for (struct lookup *l = node->resolver->lookups; l; l = l->next)
        if (!l->started && l->group == group && mob_stream_eq(l->stream, task.stream))
            return l;
    struct lookup *lookup = calloc(1, sizeof *lookup);
    MOB_ASSERT(lookup);
    lookup->node = node;
    lookup->stream = task.stream;
    lookup->group = group;
    lookup->next = node->resolver->lookups;
    node->resolver->lookups = lookup;
    return lookup;
}

/* Wants that come in one pass share a look-up: it starts when the node's pass ends. */
void node_resolver_start(struct node *node)
{
    struct lookup *lookup = node->resolver->lookups;
    for (; lookup && !lookup->started; lookup = lookup->next) {
        lookup->started = true;
        struct group_reader reader = {on_entry, on_done, lookup};
        node_group_read(node, lookup->stream, lookup->group, &reader);
    }
}

bool node_resolver_waiting(const struct node *node)
{
    return node->resolver->lookups && !node->resolver->lookups->started;
}

static void add_want(struct lookup *lookup, struct want *want)
{
    struct want **at = &lookup->wants;
    while (*at)
        at = &(*at)->next;
    *at = want; /* in order: calls of one actor keep theirs */
}

void node_resolve(struct node *node, struct mob_object_id id)
{
    if (node->promise_count > 0 && node_promised(node, id))
        return; /* its value comes from the client that promised it */
    struct lookup *lookup = lookup_for(node, id.task);
    for (struct want *w = lookup->wants; w; w = w->next)
        if (!w->is_submit && mob_object_id_eq(w->id, id))
            return;
    struct want *want = calloc(1, sizeof *want);
    MOB_ASSERT(want);
    want->id = id;
    add_want(lookup, want);
}

bool node_resolve_known(struct node *node, struct node_client *client, const struct mob_spec_head *head,
    struct node_template *template, int64_t submitted_ns, const uint8_t *tail, uint32_t tail_bytes)
{
    struct want *want = calloc(1, sizeof *want);
    if (!want)
        return false;
    *want = (struct want){.id = mob_object_of(head->task, 0),
        .is_submit = true,
        .slot = client->slot,
        .session = client->session,
        .head = *head,
        .template = template,
        .submitted_ns = submitted_ns,
        .tail = copy_two(tail, tail_bytes, NULL, 0),
        .tail_bytes = tail_bytes};
    node_template_hold(template);
    node_park(node, client);
    add_want(lookup_for(node, head->task), want);
    return true;
}

void node_fetch(struct node *node, struct node_client *client, uint32_t request, struct mob_object_id id)
{
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    enum mob_status status = mob_store_object_bytes(node->store, id, true, &type, &bytes, &size);
    if (status == MOB_OK || status == MOB_STORE_FULL || status == MOB_CORRUPT) {
        node_reply(node, client->slot, client->session, request, status, NULL, 0);
        return;
    }
    struct node_task *maker = node_task_find(node, id.task);
    if (maker && (id.slot & MOB_SLOT_PUT) && !(maker->flags & (TASK_LOOK_UP | TASK_REMAKE)) &&
        !node_promised(node, id)) {
        /* Put and let go: its task runs on and puts it once. */
        node_reply(node, client->slot, client->session, request, MOB_OBJECT_LOST, NULL, 0);
        return;
    }
    node_watch_request(node, client, id, request);
    if (!maker)
        node_resolve(node, id);
}
