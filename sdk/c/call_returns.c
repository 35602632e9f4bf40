/* Inside a function: its results. Small ones wait in the call, others are written into the store at once,
 * unsealed; the worker publishes the completion that names them, then seals. */
#include "sdk/c/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define HASH_AT_ONCE_MAX (1u << 20)

static struct mob_call_return *slot_of(struct mob_call *call, size_t index)
{
    if (call->head.num_returns == MOB_RETURNS_STREAM) {
        mob_call_fail(call, MOB_INVALID, "a stream's items are given by mob_yield");
        return NULL;
    }
    if (index >= call->return_count) {
        mob_call_fail(
            call, MOB_INVALID, "return %zu was set, and the call has %u", index, call->return_count);
        return NULL;
    }
    return &call->returns[index];
}

static void drop(struct mob_call *call, struct mob_call_return *r)
{
    if (r->stored && !r->exists)
        mob_store_object_abort(call->client->store, r->ref);
    r->stored = r->exists = false;
    r->type = MOB_TYPE_NONE;
}

void mob_call_abort_returns(struct mob_call *call)
{
    for (uint32_t i = 0; i < call->return_count; i++)
        drop(call, &call->returns[i]);
}

/* A full store is told with the node's numbers. */
static const char *why_not(const struct mob_call *call, enum mob_status status)
{
    const char *told = status == MOB_STORE_FULL ? mob_client_error(call->client) : "";
    return *told ? told : mob_status_text(status);
}

/* A full, unsealed value under (task, slot). An earlier run may have made it: then the bytes go to private
 * memory and only their hash is compared by the node. */
static enum mob_status make_full(struct mob_call *call, uint32_t slot, enum mob_value_type type,
    uint64_t bytes, const struct mob_actor_id *actor, struct mob_call_return *out)
{
    struct mob_client *client = call->client;
    void *full;
    uint64_t full_bytes;
    enum mob_status status = mob_value_full_size(bytes, 0, actor != NULL, &full_bytes);
    if (status != MOB_OK)
        return status;
    struct mob_object_id id = mob_object_of(call->head.task, call->checkpoint ? MOB_SLOT_CHECKPOINT : slot);
    status = mob_store_room(client, id, full_bytes, &out->ref, &full);
    out->exists = status == MOB_EXISTS;
    if (out->exists) {
        full = aligned_alloc(MOB_VALUE_ALIGN, mob_round_up(full_bytes, MOB_VALUE_ALIGN));
        status = full == NULL ? MOB_NO_MEMORY : MOB_OK;
    }
    if (status != MOB_OK)
        return status;
    status =
        mob_value_init(full, full_bytes, type, bytes, NULL, 0, actor, actor == NULL ? 0 : 1, &out->payload);
    MOB_ASSERT(status == MOB_OK);
    out->full = full;
    out->full_bytes = full_bytes;
    out->stored = true;
    out->type = type;
    out->bytes = bytes;
    return MOB_OK;
}

/* Make one return value of the call's task under `slot`. */
static enum mob_status mob_call_make(
    struct mob_call *call, uint32_t slot, const struct mob_arg *value, struct mob_call_return *out)
{
    struct mob_encoded encoded;
    enum mob_status status = mob_encode(value, &encoded);
    if (status != MOB_OK)
        return status;
    if (encoded.is_ref)
        mob_future_escapes(value->as.future);
    if (encoded.bytes <= sizeof out->small && encoded.tensor == NULL) {
        out->type = encoded.type;
        out->stored = false;
        out->bytes = encoded.bytes;
        if (encoded.bytes > 0)
            memcpy(out->small, encoded.payload, encoded.bytes);
        return MOB_OK;
    }
    status = make_full(call, slot, encoded.type, encoded.bytes, NULL, out);
    if (status == MOB_OK)
        mob_encoded_write(&encoded, out->payload);
    return status;
}

/* What the function declares to return. */
static bool type_fits(struct mob_call *call, uint32_t index, enum mob_value_type kind)
{
    if (call->signature == NULL || kind == MOB_TYPE_FUTURE)
        return true;
    const struct mob_sig_type *type = mob_signature_return(&call->signature->parsed, index);
    if (type == NULL || type->type == MOB_TYPE_NONE || type->type == kind ||
        (type->optional && kind == MOB_TYPE_NULL))
        return true;
    mob_call_fail(call, MOB_TYPE_MISMATCH, "return %u is declared as %s, and %s was returned", index,
        mob_value_type_name((enum mob_value_type)type->type), mob_value_type_name(kind));
    return false;
}

/* Of a tensor that is made: element type and shape. One that is not as declared is given up. */
static bool tensor_fits(struct mob_call *call, uint32_t index, struct mob_call_return *r)
{
    struct mob_signature_error error;
    const struct mob_arg_view value = {
        .type = MOB_TYPE_TENSOR, .payload = r->payload, .payload_bytes = (uint32_t)r->bytes};
    if (r->type != MOB_TYPE_TENSOR || call->signature == NULL || r->bytes > UINT32_MAX ||
        mob_signature_check_return(&call->signature->parsed, index, &value, &error) == MOB_OK)
        return true;
    if (r->exists)
        free(r->full);
    drop(call, r);
    mob_call_fail(call, MOB_TYPE_MISMATCH, "%s", error.message);
    return false;
}

/* Set a return from an encoded value. */
static enum mob_status mob_call_set_return(struct mob_call *call, uint32_t index, const struct mob_arg *value)
{
    struct mob_call_return *r = slot_of(call, index);
    if (r == NULL || !type_fits(call, index, (enum mob_value_type)value->kind))
        return MOB_OK;
    drop(call, r);
    enum mob_status status = mob_call_make(call, index, value, r);
    if (status != MOB_OK)
        mob_call_fail(call, status, "return %u could not be stored: %s", index, why_not(call, status));
    else
        (void)tensor_fits(call, index, r);
    return MOB_OK;
}

enum mob_status mob_return_i64(struct mob_call *call, int64_t v)
{
    MOB_GIVEN(NULL, call);
    /* The short way of the most frequent return. */
    if (call->return_count > 0 && call->returns[0].type == MOB_TYPE_NONE &&
        call->head.num_returns != MOB_RETURNS_STREAM &&
        (call->signature == NULL || call->signature->parsed.returns[0].type == MOB_TYPE_I64)) {
        struct mob_call_return *r = &call->returns[0];
        r->type = MOB_TYPE_I64;
        r->bytes = sizeof v;
        memcpy(r->small, &v, sizeof v);
        return MOB_OK;
    }
    return mob_return_at(call, 0, mob_i64(v));
}

enum mob_status mob_return_f64(struct mob_call *call, double v)
{
    return mob_return_at(call, 0, mob_f64(v));
}

enum mob_status mob_return(struct mob_call *call, struct mob_arg v)
{
    return mob_return_at(call, 0, v);
}

enum mob_status mob_return_at(struct mob_call *call, size_t index, struct mob_arg v)
{
    MOB_GIVEN(NULL, call);
    return mob_call_set_return(call, index > UINT32_MAX ? UINT32_MAX : (uint32_t)index, &v);
}

void *mob_return_buffer(struct mob_call *call, size_t index, size_t size)
{
    struct mob_call_return *r = call == NULL ? NULL : slot_of(call, index);
    if (r == NULL || !type_fits(call, (uint32_t)index, MOB_TYPE_BYTES))
        return NULL;
    drop(call, r);
    enum mob_status status = make_full(call, (uint32_t)index, MOB_TYPE_BYTES, size, NULL, r);
    if (status == MOB_OK)
        return r->payload;
    mob_call_fail(call, status, "no room for a return of %zu bytes: %s", size, why_not(call, status));
    return NULL;
}

enum mob_status mob_return_future(struct mob_call *call, struct mob_future *future)
{
    MOB_GIVEN(NULL, call);
    if (future == NULL)
        return mob_call_fail(call, MOB_INVALID, "mob_return_future was called with NULL");
    return mob_return_at(call, 0, mob_ref(future));
}

enum mob_status mob_fail(struct mob_call *call, const char *format, ...)
{
    MOB_GIVEN(NULL, call);
    MOB_GIVEN(call->client, format);
    if (call->failure != MOB_OK)
        return call->failure;
    call->failure = MOB_TASK_FAILED;
    call->failed_by_function = true;
    va_list list;
    va_start(list, format);
    vsnprintf(call->message, sizeof call->message, format, list);
    va_end(list);
    return MOB_TASK_FAILED;
}

/* ---- record form ---- */

void mob_call_return_finish(const struct mob_call *call, struct mob_call_return *r)
{
    if (!r->stored)
        return;
    struct mob_value_header header;
    if (r->full_bytes <= HASH_AT_ONCE_MAX || mob_call_remakes(call))
        mob_value_hash(r->full);
    memcpy(&header, r->full, sizeof header);
    r->hash = header.hash;
}

uint32_t mob_call_return_encode(
    const struct mob_call_return *r, uint32_t slot, uint32_t inline_max, uint8_t *out, uint32_t capacity)
{
    bool inlined = !r->stored || r->bytes <= inline_max;
    struct mob_return_view view = {.slot = slot, .type = r->type};
    if (inlined) {
        view.size = r->bytes;
        view.payload = r->stored ? r->payload : r->small;
    } else {
        view.flags = MOB_RETURN_STORED | (r->full_bytes > HASH_AT_ONCE_MAX ? MOB_RETURN_HASH_LATER : 0);
        view.size = r->full_bytes;
        view.hash = r->hash;
    }
    return mob_return_encode(out, 0, capacity, &view);
}

/* ---- generators ---- */

enum mob_status mob_yield(struct mob_call *call, struct mob_arg item)
{
    MOB_GIVEN(NULL, call);
    if (call->head.num_returns != MOB_RETURNS_STREAM)
        return mob_call_fail(
            call, MOB_INVALID, "mob_yield was called in a function that does not return a stream");
    if (!type_fits(call, 0, (enum mob_value_type)item.kind))
        return call->failure;
    struct mob_client *client = call->client;
    struct mob_call_return r = {0};
    uint32_t slot = call->yielded;
    enum mob_status status = mob_call_make(call, slot, &item, &r);
    if (status != MOB_OK)
        return mob_call_fail(call, status, "item %u could not be stored: %s", slot, mob_status_text(status));
    if (!tensor_fits(call, 0, &r))
        return call->failure;
    if (!r.stored) {
        status = mob_store_put_small(
            client->store, mob_object_of(call->head.task, slot), r.type, r.small, (uint32_t)r.bytes, &r.ref);
        r.exists = status != MOB_OK; /* no room in the table either: the record carries the value */
    }
    mob_call_return_finish(call, &r);
    struct mob_out_yield head = {.task = call->head.task, .attempt = call->head.attempt, .item = slot};
    uint8_t body[64 + MOB_RESULT_INLINE_MAX];
    uint32_t bytes = mob_call_return_encode(&r, slot, MOB_RESULT_INLINE_MAX, body, sizeof body);
    status = mob_client_publish(client, MOB_OUT_YIELD, 0, &head, sizeof head, body, bytes);
    if (status != MOB_OK)
        return mob_call_fail(
            call, status, "item %u could not be published: %s", slot, mob_status_text(status));
    if (r.exists && r.stored)
        free(r.full);
    else if (!r.exists && !mob_call_remakes(call))
        mob_store_object_seal(client->store, r.ref);
    call->yielded++;
    return MOB_OK;
}
