/* Submission: a spec in the outbound ring. A task that differs from the one before it only in arguments and
 * index is a sibling record: 16 bytes and the arguments. */
#include "sdk/c/arg_list.h"
#include "sdk/c/options.h"

#include <stdlib.h>

#define CPU_UNITS 10000u
#define EXTS_BYTES_MAX 4096u

/* ---- options ---- */

/* What the caller's version of the struct does not have is zero. */
static struct mob_submit_options options_of(const struct mob_submit_options *given)
{
    struct mob_submit_options options = {0};
    if (given != NULL)
        memcpy(&options, given, given->struct_size < sizeof options ? given->struct_size : sizeof options);
    return options;
}

static int16_t clamp_priority(int priority)
{
    return (int16_t)(priority > INT16_MAX ? INT16_MAX : priority < INT16_MIN ? INT16_MIN : priority);
}

/* Times are part of what a task asks for: its replay must ask for the same. */
static int64_t submission_clock(struct mob_client *client)
{
    return mob_in_task(client) ? mob_clock_ns(client->call) : mob_wall_now();
}

/* What is submitted: the next child of the client's parent, or the one that a key stands for. */
struct child {
    struct mob_task_id task, parent;
    struct mob_future *future; /* of the first return */
    bool keyed, again;
};

/* Far away rather than in the past. */
static int64_t submission_time(struct mob_client *client, int64_t delay_ns)
{
    int64_t now = submission_clock(client);
    return delay_ns > INT64_MAX - now ? INT64_MAX : now + delay_ns;
}

static void head_of(struct mob_client *client, const struct mob_submission *s,
    const struct mob_submit_options *options, const struct child *child, struct mob_spec_head *head)
{
    *head = (struct mob_spec_head){.version = MOB_SPEC_VERSION,
        .kind = (uint8_t)s->kind,
        .runtime = MOB_RUNTIME_C,
        .num_returns = s->num_returns,
        .flags = (uint16_t)(s->flags | s->function->flags),
        .task.stream = child->task.stream,
        .parent = child->parent,
        .job = client->job,
        .function = s->function->id,
        .actor = s->actor,
        .max_retries = s->max_retries,
        .priority = clamp_priority(options->priority),
        .method = s->method,
        .cpu = s->cpu,
        .attempt = 1};
    if (s->kind != MOB_KIND_ACTOR_CREATE)
        head->max_retries = options->max_retries == 0 ? 3
            : options->max_retries == MOB_NO_RETRY    ? 0
                                                      : options->max_retries;
    if (options->retry_on_error)
        head->flags |= MOB_SPEC_RETRY_ON_ERROR;
    if (options->restart_on_divergence)
        head->flags |= MOB_SPEC_RESTART_ON_DIVERGENCE;
    if (options->deterministic)
        head->flags |= MOB_SPEC_DETERMINISTIC;
    if (options->timeout_ns > 0 && options->timeout_ns != MOB_FOREVER)
        head->deadline_wall_ns = submission_time(client, options->timeout_ns);
    if (options->delay_ns > 0)
        head->not_before_wall_ns = submission_time(client, options->delay_ns);
}

static void add_exts(struct mob_tail_builder *b, const struct mob_submission *s,
    const struct mob_submit_options *options, const struct mob_arg_list *list, uint32_t *cpu)
{
    if (list->pages > 0) {
        uint32_t pages[2] = {list->pages, list->count};
        mob_tail_add_ext(b, MOB_EXT_ARG_PAGES, pages, sizeof pages);
    }
    mob_resources_write(b, options->resources, options->resource_count, cpu);
    if (options->name != NULL)
        mob_tail_add_ext(b, MOB_EXT_NAME, options->name, (uint32_t)strlen(options->name));
    for (size_t i = 0; i < options->label_count; i++)
        mob_label_write(b, options->labels[i]);
    if (options->traceparent != NULL)
        mob_tail_add_ext(
            b, MOB_EXT_TRACEPARENT, options->traceparent, (uint32_t)strlen(options->traceparent));
    if (options->backoff_initial_ns > 0 || options->backoff_max_ns > 0) {
        uint64_t ns[2] = {(uint64_t)options->backoff_initial_ns, (uint64_t)options->backoff_max_ns};
        uint32_t factor = 2000;
        uint8_t payload[20];
        memcpy(payload, ns, sizeof ns);
        memcpy(payload + sizeof ns, &factor, sizeof factor);
        mob_tail_add_ext(b, MOB_EXT_BACKOFF, payload, sizeof payload);
    }
    const struct mob_actor_options *actor = s->actor_options;
    if (actor == NULL)
        return;
    if (actor->name != NULL)
        mob_tail_add_ext(b, MOB_EXT_NAME, actor->name, (uint32_t)strlen(actor->name));
    if (actor->traceparent != NULL)
        mob_tail_add_ext(b, MOB_EXT_TRACEPARENT, actor->traceparent, (uint32_t)strlen(actor->traceparent));
    if (actor->checkpoint_every > 0) {
        uint32_t every = (uint32_t)actor->checkpoint_every;
        mob_tail_add_ext(b, MOB_EXT_CHECKPOINT, &every, sizeof every);
    }
    mob_resources_write(b, actor->resources, actor->resource_count, cpu);
}

/* ---- futures of the returns ---- */

/* The newest child's slot goes back: its spec was never published. */
static void undo_child(struct mob_client *client, struct mob_future *future)
{
    struct mob_chunk *chunk = mob_chunk_of(future);
    future->state = MOB_FUTURE_FREE;
    chunk->issued--;
    chunk->live--;
    client->next_child--;
}

static enum mob_status futures_of(struct mob_client *client, const struct mob_submission *s,
    const struct child *child, struct mob_future **futures_out)
{
    struct mob_future *first = child->future;
    if (s->num_returns == MOB_RETURNS_STREAM && !child->keyed) {
        struct mob_stream_state *stream = calloc(1, sizeof *stream);
        if (stream == NULL)
            return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
        stream->last = UINT32_MAX;
        first->as.stream = stream;
        first->state = MOB_FUTURE_STREAM;
    }
    futures_out[0] = first;
    if (s->num_returns < 2 || s->num_returns == MOB_RETURNS_STREAM)
        return MOB_OK;
    struct mob_task_id task = mob_future_object(first).task;
    for (uint32_t i = 1; i < s->num_returns; i++) {
        futures_out[i] = mob_future_new_general(client, mob_object_of(task, i), true);
        if (futures_out[i] != NULL)
            continue;
        while (--i > 0)
            mob_release(futures_out[i]);
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    }
    return MOB_OK;
}

/* ---- the record ---- */

static inline bool plain_head_stands(const struct mob_client *client, const struct mob_submission *s)
{
    const struct mob_head_slot *slot = &client->heads[s->head_slot];
    return s->plain && slot->plain == s->signature && slot->plain_epoch == client->plain_epoch;
}

/* A task like the one before it, with a few scalars: the path of tight loops. False = take the general one.
 */
static inline bool submit_scalars(struct mob_client *client, const struct mob_submission *s,
    struct mob_future **future_out, enum mob_status *status_out)
{
    const struct mob_signature_info *signature = s->signature;
    size_t count = s->args.count;
    if (count == 0 || signature->scalar_count != count || s->num_returns != 1)
        return false;
    for (size_t i = 0; i < count; i++)
        if (s->args.items[i].kind != signature->scalars[i])
            return false;
    uint32_t tail_bytes = (uint32_t)(8 + 16 * count), body_bytes = 16 + tail_bytes;
    uint32_t index;
    struct mob_future *future = mob_future_new_child(client, &index);
    if (future == NULL) {
        *status_out = mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
        return true;
    }
    if (!plain_head_stands(client, s)) { /* a continued stream */
        undo_child(client, future);
        return false;
    }
    void *body;
    *status_out = mob_client_reserve(client, body_bytes, &body);
    if (*status_out != MOB_OK) {
        undo_child(client, future);
        return true;
    }
    if (!plain_head_stands(client, s)) { /* it waited, and the session moved to another node */
        undo_child(client, future);
        return false;
    }
    uint8_t *at = body;
    int64_t now = mob_client_now(client);
    uint64_t index_seq = (uint64_t)s->caller_seq << 32 | index;
    uint64_t tail_head = (uint64_t)tail_bytes << 32 | (uint64_t)count;
    memcpy(at, &now, 8);
    memcpy(at + 8, &index_seq, 8);
    memcpy(at + 16, &tail_head, 8);
    at += 24;
    for (size_t i = 0; i < count; i++, at += 16) {
        const struct mob_arg *arg = &s->args.items[i];
        uint64_t bytes = arg->kind == MOB_TYPE_BOOL ? 1 : 8;
        uint64_t head = bytes << 32 | (uint64_t)(uint8_t)arg->kind << 8;
        uint64_t payload = 0;
        if (arg->kind == MOB_TYPE_BOOL)
            payload = arg->as.boolean;
        else
            memcpy(&payload, &arg->as, 8);
        memcpy(at, &head, 8);
        memcpy(at + 8, &payload, 8);
    }
    mob_client_commit(client, MOB_OUT_SIBLING, (uint16_t)s->head_slot, body_bytes);
    *future_out = future;
    return true;
}

/* Head without what siblings differ in. */
static bool same_head(const struct mob_head_slot *slot, const struct mob_spec_head *head)
{
    return slot->valid && memcmp(&slot->head, head, sizeof *head) == 0;
}

static enum mob_status publish_spec(struct mob_client *client, const struct mob_submission *s,
    struct mob_spec_head *head, const struct child *child, const uint8_t *tail, uint32_t tail_bytes)
{
    void *body;
    bool sibling;
    uint32_t body_bytes;
    struct mob_head_slot *slot = &client->heads[s->head_slot];
    struct mob_ext_view ext;
    /* The node keeps what siblings need with their head, and resources stand behind it: nobody's sibling. */
    bool alone = !s->plain &&
        (mob_spec_find_ext(tail, MOB_EXT_RESOURCES, &ext) ||
            mob_spec_find_ext(tail, MOB_EXT_WIDE_RESOURCES, &ext));
    do { /* waiting for room may end in another segment, whose node has not seen this head */
        sibling = !alone && same_head(slot, head);
        body_bytes = (sibling ? 16 : 8 + (uint32_t)sizeof *head) + tail_bytes;
        enum mob_status status = mob_client_reserve(client, body_bytes, &body);
        if (status != MOB_OK)
            return status;
    } while (sibling && !same_head(slot, head));
    struct mob_writer w = mob_writer_of(body, body_bytes);
    mob_write_i64(&w, mob_client_now(client));
    if (sibling) {
        mob_write_u32(&w, child->task.index);
        mob_write_u32(&w, s->caller_seq);
    } else {
        slot->head = *head;
        slot->valid = !alone;
        head->task.index = child->task.index;
        head->caller_seq = s->caller_seq;
        mob_write_bytes(&w, head, sizeof *head);
        mob_client_note_spec(client, s->head_slot, head, mob_store_out_published(client->store));
    }
    mob_write_bytes(&w, tail, tail_bytes);
    uint16_t aux = (uint16_t)(s->head_slot | (child->again ? MOB_SPEC_KEYED : 0));
    mob_client_commit(client, sibling ? MOB_OUT_SIBLING : MOB_OUT_SPEC, aux, body_bytes);
    slot->plain = s->plain && !child->keyed ? s->signature : NULL;
    slot->plain_epoch = client->plain_epoch;
    return MOB_OK;
}

static enum mob_status submit_list(struct mob_client *client, const struct mob_submission *s,
    const struct mob_submit_options *options, struct mob_arg_list *list, const struct child *child)
{
    struct mob_spec_head head;
    head_of(client, s, options, child, &head);
    enum mob_status status = mob_arg_list_put_pages(client, list, child->task);
    if (status != MOB_OK)
        return status;
    _Alignas(8) uint8_t tail[MOB_SPEC_TAIL_MAX];
    struct mob_tail_builder b;
    mob_tail_begin(&b, tail, sizeof tail);
    /* The arguments are in wire form already. */
    memcpy(b.base + b.used, list->bytes, list->inline_bytes);
    b.used += list->inline_bytes;
    b.arg_count = (uint16_t)list->inline_count;
    add_exts(&b, s, options, list, &head.cpu);
    uint32_t tail_bytes = mob_tail_end(&b);
    if (tail_bytes == 0)
        return mob_client_fail(client, MOB_TOO_LARGE,
            "names, labels and resources of a task take up to %u bytes", EXTS_BYTES_MAX);
    return publish_spec(client, s, &head, child, tail, tail_bytes);
}

/* Whether a replay may need the arguments after the task has ended: an actor's calls run again with it, a
 * deterministic task when its results were dropped. What stands in pages is not counted by the node. */
static bool keeps_arguments(
    const struct mob_submission *s, const struct mob_submit_options *options, const struct mob_arg_list *list)
{
    if (list->pages > 0 || s->kind == MOB_KIND_ACTOR_CREATE)
        return true;
    if (s->kind == MOB_KIND_ACTOR_CALL)
        return (s->flags & MOB_SPEC_READ_ONLY) == 0;
    return options->deterministic || (s->function->flags & MOB_SPEC_DETERMINISTIC);
}

/* In a task: arguments that were put for this submission alone have no handle, so they go with its end. */
static void let_arguments_go(struct mob_client *client, const struct mob_submission *s,
    const struct mob_submit_options *options, const struct mob_arg_list *list)
{
    if (!client->worker)
        return;
    if (!keeps_arguments(s, options, list)) {
        for (uint32_t i = 0; i < list->put_count; i++)
            mob_client_release_id(client, list->puts[i], list->put_bytes[i]);
        return;
    }
    for (size_t i = 0; i < s->args.count; i++)
        if (s->args.items[i].kind == MOB_TYPE_FUTURE)
            mob_future_escapes(s->args.items[i].as.future);
}

void mob_client_key(struct mob_client *client, const struct mob_task_id *root, uint32_t index, bool again)
{
    client->key = (struct mob_client_key){.set = root != NULL, .again = again, .index = index};
    if (root != NULL)
        client->key.root = *root;
}

struct mob_task_id mob_key_child(struct mob_task_id root, uint32_t index)
{
    return (struct mob_task_id){mob_stream_of_children(root, 0, 0), index};
}

/* Takes the key, if there is one. */
static enum mob_status child_begin(
    struct mob_client *client, const struct mob_client_key *key, struct child *out)
{
    *out = (struct child){.parent = client->parent, .keyed = key->set, .again = key->set && key->again};
    if (key->set) {
        out->parent = key->root;
        out->task = mob_key_child(key->root, key->index);
        out->future = mob_future_new_general(client, mob_object_of(out->task, 0), true);
    } else {
        out->future = mob_future_new_child(client, &out->task.index);
        if (out->future != NULL)
            out->task.stream = client->family->stream;
    }
    return out->future == NULL ? mob_client_fail(client, MOB_NO_MEMORY, "out of memory") : MOB_OK;
}

static void child_undo(struct mob_client *client, const struct child *child)
{
    if (child->keyed)
        mob_release(child->future);
    else if (child->future != NULL)
        undo_child(client, child->future);
}

enum mob_status mob_submission_publish(
    struct mob_client *client, const struct mob_submission *s, struct mob_future **futures_out)
{
    enum mob_status status;
    if (__builtin_expect(s->args.items == NULL && s->args.count > 0, 0))
        return mob_say_null(client, "args.items");
    struct mob_client_key key = client->key;
    client->key.set = false; /* also what this submission has to put first is nobody's */
    if (!key.set && plain_head_stands(client, s) && submit_scalars(client, s, futures_out, &status))
        return status;
    struct mob_submit_options options = options_of(s->options);
    struct mob_arg_list list;
    status =
        s->options == NULL ? MOB_OK : mob_options_size_check(client, s->options->struct_size, sizeof options);
    if (status == MOB_OK && s->options != NULL)
        status = mob_options_check(client, &options);
    if (status == MOB_OK && s->kind == MOB_KIND_ACTOR_CALL)
        status = mob_call_options_check(client, &options);
    if (status == MOB_OK)
        status = mob_arg_list_build(client, s->signature, s->args, &list);
    if (status != MOB_OK)
        return status;
    struct child child;
    status = child_begin(client, &key, &child);
    if (status == MOB_OK)
        status = submit_list(client, s, &options, &list, &child);
    if (status == MOB_OK)
        let_arguments_go(client, s, &options, &list);
    mob_arg_list_free(&list);
    if (status == MOB_OK)
        return futures_of(client, s, &child, futures_out);
    child_undo(client, &child);
    return status;
}

enum mob_status mob_submission_returns(struct mob_client *client, struct mob_submission *s, const char *name)
{
    const struct mob_signature_info *signature = s->signature;
    const uint32_t wanted = s->options == NULL ? 0 : options_of(s->options).num_returns;
    const bool variadic = signature->parsed.variadic_returns;
    if (wanted == 0 || (wanted == signature->num_returns && !signature->parsed.stream))
        return MOB_OK;
    if (!variadic || wanted > MOB_RETURNS_MAX || wanted < signature->parsed.return_count - 1)
        return mob_client_fail(client, MOB_INVALID,
            "%s cannot have %u returns (num_returns chooses how many of a variadic one, at most %u): its "
            "signature is \"%s\"",
            name, wanted, MOB_RETURNS_MAX, signature->text);
    s->num_returns = (uint16_t)wanted;
    return MOB_OK;
}

enum mob_status mob_submit_function(struct mob_client *client, const struct mob_function *function,
    struct mob_args args, const struct mob_submit_options *options, struct mob_future **futures_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, function);
    MOB_GIVEN(client, futures_out);
    if (function->kind == MOB_KIND_ACTOR_CREATE)
        return mob_client_fail(client, MOB_INVALID,
            "%s is a class: create an actor of it (mob_actor_create, POST /api/v1/actors)", function->name);
    struct mob_submission s = {.function = function,
        .kind = MOB_KIND_TASK,
        .num_returns = function->signature.num_returns,
        .cpu = options == NULL ? CPU_UNITS : mob_cpu_units(options_of(options).cpus, CPU_UNITS),
        .signature = &function->signature,
        .args = args,
        .options = options,
        .plain = options == NULL};
    enum mob_status status = mob_submission_returns(client, &s, function->name);
    if (status != MOB_OK)
        return status;
    return mob_submission_publish(client, &s, futures_out);
}

enum mob_status mob_submit(struct mob_client *client, const char *function, struct mob_args args,
    const struct mob_submit_options *options, struct mob_future **futures_out)
{
    MOB_GIVEN_CLIENT(client);
    const struct mob_function *found;
    enum mob_status status = mob_function_resolve(client, function, &found);
    return status == MOB_OK ? mob_submit_function(client, found, args, options, futures_out) : status;
}

enum mob_status mob_cancel(struct mob_future *future, bool force)
{
    MOB_GIVEN(NULL, future);
    struct mob_client *client = mob_future_client(future);
    struct mob_out_cancel cancel = {
        .task = mob_future_object(future).task, .force = force ? 1 : 0, .recursive = 1};
    return mob_client_publish(client, MOB_OUT_CANCEL, 0, &cancel, sizeof cancel, NULL, 0);
}

/* ---- streams ---- */

/* The generator's own words, where the next item would stand. */
static const char *failure_at(struct mob_client *client, struct mob_object_id id, enum mob_status status)
{
    char text[MOB_ID_TEXT_MAX];
    struct mob_future *error;
    if (mob_future_from_id(client, mob_object_id_format(id, text), &error) != MOB_OK)
        return "{}";
    mob_future_settle(client, error, status, MOB_TYPE_ERROR, NULL, 0, false);
    const char *json = mob_future_error(error); /* the client's */
    mob_release(error);
    return json;
}

const char *mob_stream_error(struct mob_future *stream)
{
    const struct mob_stream_state *state = stream->as.stream;
    if (state->status == MOB_OK || state->next < state->last)
        return "{}";
    return failure_at(
        mob_future_client(stream), mob_object_of(mob_future_object(stream).task, state->next), state->status);
}

static enum mob_status stream_failed(
    struct mob_client *client, struct mob_object_id id, enum mob_status status)
{
    char message[256] = "";
    (void)mob_json_text_field(failure_at(client, id, status), "message", message, sizeof message);
    return mob_client_fail(
        client, status, "the generator failed: %s", message[0] != 0 ? message : mob_status_text(status));
}

/* After notices were left out, or at another node, items do not come by themselves any more. */
static enum mob_status pull(
    struct mob_client *client, struct mob_stream_state *state, struct mob_object_id id)
{
    if (!state->pulls || id.slot < state->pulled)
        return MOB_OK;
    state->pulled = id.slot + 1;
    return mob_client_watch(client, id);
}

enum mob_status mob_stream_next(struct mob_future *stream, int64_t timeout_ns, struct mob_future **item_out)
{
    MOB_GIVEN(NULL, stream);
    struct mob_client *client = mob_future_client(stream);
    MOB_GIVEN(client, item_out);
    if (stream->state != MOB_FUTURE_STREAM)
        return mob_client_fail(client, MOB_INVALID, "this future is not a stream");
    struct mob_stream_state *state = stream->as.stream;
    struct mob_object_id id = mob_object_of(mob_future_object(stream).task, state->next);
    mob_client_pump(client);
    struct mob_waiting waiting = mob_waiting_begin(client, timeout_ns);
    enum mob_status status = MOB_OK;
    while (state->next >= state->seen && state->next < state->last && status == MOB_OK) {
        status = pull(client, state, id);
        if (status == MOB_OK)
            status = mob_waiting_turn(&waiting);
    }
    mob_waiting_end(&waiting);
    mob_run_callbacks(client);
    if (state->next >= state->seen && state->next < state->last)
        return status;
    if (state->next >= state->seen)
        return state->status == MOB_OK ? mob_client_fail(client, MOB_NOT_FOUND, "the stream has ended")
                                       : stream_failed(client, id, state->status);
    struct mob_general_future *item = mob_future_find_general(client, id);
    MOB_ASSERT(item != NULL);
    state->next++;
    *item_out = &item->future;
    return MOB_OK;
}
