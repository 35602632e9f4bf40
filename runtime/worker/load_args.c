/* Arguments of a task that is about to run: inline ones in place (in the copied tail), references from the
 * store. They are checked against the signature once more: what a reference stands for is known only here. */
#include "runtime/worker/worker.h"

#include <stdlib.h>
#include <string.h>

#define FOLLOW_MAX 64 /* tail calls behind a reference; the node has resolved longer ones */

static struct mob_call_arg *next_arg(struct mob_call *call)
{
    if (call->arg_count == call->arg_capacity) {
        uint32_t capacity = call->arg_capacity * 4;
        struct mob_call_arg *args = call->args == call->few_args
            ? calloc(capacity, sizeof *args)
            : realloc(call->args, capacity * sizeof *args);
        if (args == NULL)
            return NULL;
        if (call->args == call->few_args)
            memcpy(args, call->few_args, sizeof call->few_args);
        for (uint32_t i = 0; i < call->arg_count; i++)
            if (args[i].in_place) /* small values lie in the argument itself */
                args[i].payload = args[i].small;
        call->args = args;
        call->arg_capacity = capacity;
    }
    struct mob_call_arg *arg = &call->args[call->arg_count++];
    arg->pinned = arg->in_place = false;
    return arg;
}

static bool from_hint(struct mob_worker *worker, struct mob_object_id id, struct mob_call_arg *arg)
{
    for (uint32_t i = 0; i < MOB_HINTS; i++) {
        const struct mob_hint *hint = &worker->hints[i];
        if (hint->type == MOB_TYPE_NONE || !mob_object_id_eq(hint->id, id))
            continue;
        arg->type = hint->type;
        arg->payload = hint->payload; /* hints change only between tasks */
        arg->bytes = hint->bytes;
        return true;
    }
    return false;
}

static enum mob_status from_store(
    struct mob_worker *worker, struct mob_object_id id, struct mob_call_arg *arg)
{
    struct mob_store_client *store = worker->client->store;
    const void *bytes;
    uint64_t size;
    enum mob_status status =
        mob_store_object_get(store, id, false, &arg->type, arg->small, &bytes, &size, &arg->pin);
    if (status != MOB_OK)
        return status;
    if (arg->pin.entry == UINT32_MAX) {
        arg->payload = arg->small;
        arg->in_place = true;
        arg->bytes = size;
        return MOB_OK;
    }
    struct mob_value_view view;
    status = mob_value_open(bytes, size, &view);
    if (status != MOB_OK) {
        mob_store_object_release(store, arg->pin);
        return status;
    }
    arg->pinned = true;
    worker->call->pinned_args++;
    arg->type = view.type;
    arg->payload = view.payload;
    arg->bytes = view.payload_bytes;
    return MOB_OK;
}

/* The node says why, and no error value does. What is lost for good is the cause as such a value would be. */
static enum mob_status not_fetched(struct mob_worker *worker, struct mob_object_id id, enum mob_status status)
{
    struct mob_client *client = worker->client;
    const char *words = mob_client_error(client);
    struct mob_error_link link = {
        .status = status, .task = id.task, .message = words, .message_bytes = (uint32_t)strlen(words)};
    bool lost = status == MOB_LOST_UNCOMMITTED || status == MOB_OBJECT_LOST;
    if (lost)
        client->cause_bytes = mob_error_encode(client->cause, sizeof client->cause, &link, NULL, 0);
    char text[MOB_ID_TEXT_MAX];
    return mob_call_fail(worker->call, MOB_DEPENDENCY_FAILED, "the argument %s could not be fetched: %s",
        mob_object_id_format(id, text), lost ? mob_status_text(status) : words);
}

static enum mob_status resolve(struct mob_worker *worker, struct mob_object_id id, struct mob_call_arg *arg)
{
    struct mob_call *call = worker->call;
    char text[MOB_ID_TEXT_MAX];
    for (int steps = 0; steps < FOLLOW_MAX; steps++) {
        enum mob_status status = from_store(worker, id, arg);
        if ((status == MOB_NOT_FOUND || status == MOB_NOT_READY) && from_hint(worker, id, arg))
            status = MOB_OK;
        for (struct mob_looks looks = {0}; mob_look_again(&looks, status);) {
            status = mob_request(worker->client, MOB_REQ_FETCH, &id, sizeof id, MOB_FOREVER, NULL, NULL);
            if (status == MOB_OK)
                status = from_store(worker, id, arg);
            else
                return not_fetched(worker, id, status);
        }
        if (status != MOB_OK)
            return mob_call_fail(call, status, "an argument could not be read: %s", mob_status_text(status));
        if (arg->type != MOB_TYPE_FUTURE || arg->bytes != sizeof id)
            break;
        memcpy(&id, arg->payload, sizeof id); /* the result of a tail call */
        if (arg->pinned) { /* it came back from the node with a header of its own */
            mob_store_object_release(worker->client->store, arg->pin);
            arg->pinned = false;
            call->pinned_args--;
        }
    }
    if (arg->type != MOB_TYPE_ERROR)
        return MOB_OK;
    call->cause = arg->payload;
    call->cause_bytes = arg->bytes > UINT32_MAX ? 0 : (uint32_t)arg->bytes;
    return mob_call_fail(call, MOB_DEPENDENCY_FAILED, "the argument %s is the result of a failed task",
        mob_object_id_format(id, text));
}

/* What is declared for the next argument. */
static enum mob_status check(
    struct mob_call *call, struct mob_signature_check *declared, const struct mob_call_arg *arg)
{
    struct mob_tensor_view tensor;
    struct mob_signature_error error;
    const struct mob_arg_view value = {.type = arg->type,
        .payload = arg->payload,
        .payload_bytes = arg->bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)arg->bytes};
    /* a view's length has 32 bits, a tensor's has 64 */
    bool large = arg->type == MOB_TYPE_TENSOR && arg->bytes > UINT32_MAX &&
        mob_tensor_open(arg->payload, arg->bytes, &tensor) == MOB_OK;
    enum mob_status status = large ? mob_signature_check_tensor(declared, &tensor, &error)
                                   : mob_signature_check_next(declared, &value, &error);
    return status == MOB_OK ? MOB_OK : mob_call_fail(call, status, "%s", error.message);
}

/* `declared`: NULL when the arguments are not those of the signature. */
static enum mob_status add_view(
    struct mob_worker *worker, struct mob_signature_check *declared, const struct mob_arg_view *view)
{
    struct mob_call *call = worker->call;
    struct mob_call_arg *arg = next_arg(call);
    if (arg == NULL)
        return mob_call_fail(call, MOB_NO_MEMORY, "no memory for %u arguments", call->arg_count);
    if (view->is_ref) {
        enum mob_status status = resolve(worker, view->ref, arg);
        if (status != MOB_OK)
            return status;
    } else {
        arg->type = view->type;
        arg->payload = view->payload;
        arg->bytes = view->payload_bytes;
    }
    return declared == NULL ? MOB_OK : check(call, declared, arg);
}

/* A page's arguments, checked as they are read: another process wrote them. */
static enum mob_status load_page(
    struct mob_worker *worker, struct mob_signature_check *declared, const uint8_t *payload, uint64_t bytes)
{
    struct mob_reader r = mob_reader_of(payload, bytes);
    while (mob_reader_left(&r) > 0) {
        uint8_t kind = mob_read_u8(&r), type = mob_read_u8(&r);
        uint16_t zero = mob_read_u16(&r);
        uint32_t size = mob_read_u32(&r);
        const uint8_t *at = mob_read_bytes(&r, mob_round_up(size, 8));
        struct mob_arg_view view = {.is_ref = kind == 1, .type = (enum mob_value_type)type};
        if (!mob_reader_ok(&r) || zero != 0 || (view.is_ref && size != sizeof view.ref))
            return mob_call_fail(worker->call, MOB_CORRUPT, "a page of arguments is damaged");
        view.payload = at;
        view.payload_bytes = size;
        if (view.is_ref)
            memcpy(&view.ref, at, sizeof view.ref);
        enum mob_status status = add_view(worker, declared, &view);
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

static enum mob_status load_pages(
    struct mob_worker *worker, struct mob_signature_check *declared, uint32_t pages)
{
    struct mob_call *call = worker->call;
    call->pages = calloc(pages, sizeof *call->pages);
    if (call->pages == NULL)
        return mob_call_fail(call, MOB_NO_MEMORY, "no memory for %u pages of arguments", pages);
    for (uint32_t page = 0; page < pages; page++) {
        struct mob_call_arg *bytes = &call->pages[call->page_count++];
        enum mob_status status =
            resolve(worker, mob_object_of(call->head.task, MOB_SLOT_ARG_PAGE | page), bytes);
        if (status == MOB_OK)
            status = load_page(worker, declared, bytes->payload, bytes->bytes);
        if (status != MOB_OK)
            return status;
    }
    return MOB_OK;
}

/* The only argument, in place. */
static void load_word(struct mob_call *call, uint64_t head)
{
    call->arg_count = 1;
    call->args[0].pinned = call->args[0].in_place = false;
    call->args[0].type = (enum mob_value_type)(head >> 8 & UINT8_MAX);
    call->args[0].payload = call->tail + MOB_SPEC_WORD_TAIL - 8;
    call->args[0].bytes = 8;
}

enum mob_status mob_worker_load_args(struct mob_worker *worker)
{
    struct mob_call *call = worker->call;
    uint64_t words[MOB_SPEC_WORD_TAIL / 8];
    if (call->tail_bytes == sizeof words) {
        memcpy(words, call->tail, sizeof words);
        if (mob_spec_tail_is_word(words)) {
            load_word(call, words[1]);
            return MOB_OK;
        }
    }
    struct mob_tail_iter it = mob_spec_args(call->tail);
    struct mob_arg_view view;
    struct mob_signature_check list, *declared = NULL;
    if (call->signature != NULL && !(call->in.flags & MOB_IN_SPEC_RESTORE)) { /* that gets a checkpoint */
        mob_signature_check_begin(&list, &call->signature->parsed);
        declared = &list;
    }
    while (mob_tail_next_arg(&it, &view)) {
        enum mob_status status = add_view(worker, declared, &view);
        if (status != MOB_OK)
            return status;
    }
    struct mob_ext_view ext;
    uint32_t pages;
    if (it.at == it.end || !mob_spec_find_ext(call->tail, MOB_EXT_ARG_PAGES, &ext))
        return MOB_OK;
    if (ext.payload_bytes < 8 || (memcpy(&pages, ext.payload, sizeof pages), pages > MOB_ARG_PAGES_MAX))
        return mob_call_fail(call, MOB_CORRUPT, "the spec's argument pages are damaged");
    return load_pages(worker, declared, pages);
}

void mob_worker_drop_args(struct mob_worker *worker)
{
    struct mob_call *call = worker->call;
    struct mob_store_client *store = worker->client->store;
    for (uint32_t i = 0; call->pinned_args > 0 && i < call->arg_count; i++)
        if (call->args[i].pinned)
            mob_store_object_release(store, call->args[i].pin);
    for (uint32_t i = 0; i < call->page_count; i++)
        if (call->pages[i].pinned)
            mob_store_object_release(store, call->pages[i].pin);
    free(call->pages);
    call->pages = NULL;
    call->page_count = 0;
    call->pinned_args = 0;
    call->arg_count = 0;
}
