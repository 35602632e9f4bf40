/* The one place where inference meets the runtime: tensors go into the segment once, as objects that no log
 * knows, and the call refers to them (ARCHITECTURE "Output commit": bodies of inference calls never enter the
 * control store). What is small goes inside the call. Inputs and outputs are dropped when the answers have
 * left.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_inner.h"

static uint64_t input_bytes(const struct engine_infer_call *call, uint32_t input)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < call->request_count; i++)
        bytes += call->requests[i]->inputs[input].bytes;
    return bytes;
}

/* Calls one behind the other along the first dimension. */
static void write_rows(const struct engine_infer_call *call, uint32_t input, uint8_t *out)
{
    for (size_t i = 0; i < call->request_count; i++) {
        const struct mob_infer_tensor *t = &call->requests[i]->inputs[input];
        memcpy(out, t->data, t->bytes);
        out += t->bytes;
    }
}

struct input_tensor {
    const struct engine_infer_call *call;
    uint32_t input;
    uint8_t head[MOB_TENSOR_HEAD_MAX];
    uint32_t head_bytes;
};

static void write_tensor(void *arg, uint8_t *payload)
{
    const struct input_tensor *tensor = arg;
    memcpy(payload, tensor->head, tensor->head_bytes);
    write_rows(tensor->call, tensor->input, payload + tensor->head_bytes);
}

static enum mob_status write_object(
    struct engine_infer_call *call, struct input_tensor *tensor, uint64_t data_bytes)
{
    struct mob_object_id id;
    char text[MOB_ID_TEXT_MAX];
    enum mob_status status = mob_put_unlogged(
        call->client, MOB_TYPE_TENSOR, tensor->head_bytes + data_bytes, write_tensor, tensor, &id);
    if (status != MOB_OK)
        return status;
    call->inputs[call->input_count++] = id;
    return mob_future_from_id(call->client, mob_object_id_format(id, text), &call->refs[tensor->input]);
}

static enum mob_status make_input(
    struct engine_infer_call *call, uint32_t input, struct mob_arg *out, uint8_t **small_out)
{
    const struct mob_infer_tensor *first = &call->requests[0]->inputs[input];
    uint64_t data_bytes = input_bytes(call, input);
    struct mob_tensor tensor = {.dtype = (enum mob_tensor_dtype)first->dtype, .dims = (int32_t)first->ndim};
    memcpy(tensor.shape, first->shape, sizeof tensor.shape);
    if (call->batched)
        tensor.shape[0] = (int64_t)call->rows;
    struct input_tensor in = {.call = call, .input = input};
    in.head_bytes =
        mob_tensor_head_encode(in.head, sizeof in.head, first->dtype, tensor.shape, first->ndim, data_bytes);
    if (in.head_bytes == 0)
        return MOB_INVALID;
    /* An argument does not say how many bytes the elements of BYTES have. */
    if (first->dtype != MOB_DTYPE_BYTES && in.head_bytes + data_bytes <= MOB_ARG_VALUE_INLINE_MAX) {
        *small_out = malloc(data_bytes + 1);
        MOB_ASSERT(*small_out != NULL);
        write_rows(call, input, *small_out);
        tensor.data = *small_out;
        *out = mob_tensor(tensor);
        return MOB_OK;
    }
    enum mob_status status = write_object(call, &in, data_bytes);
    *out = mob_ref(call->refs[input]);
    return status;
}

enum mob_status engine_infer_send(struct engine_infer_call *call, struct mob_actor *actor,
    const struct mob_function *class, struct mob_future **futures_out)
{
    struct mob_arg items[MOB_MODEL_TENSORS_MAX];
    uint8_t *small[MOB_MODEL_TENSORS_MAX] = {0};
    enum mob_status status = MOB_OK;
    for (uint32_t i = 0; status == MOB_OK && i < call->tensor_count; i++)
        status = make_input(call, i, &items[i], &small[i]);
    if (status == MOB_OK)
        status = mob_call_unlogged(
            actor, class, "infer", (struct mob_args){items, call->tensor_count}, futures_out);
    for (uint32_t i = 0; i < MOB_MODEL_TENSORS_MAX; i++)
        free(small[i]);
    if (status != MOB_OK)
        engine_infer_drop(call);
    return status;
}

/* Told in batches; what finds no room in the ring waits for the next round. */
void engine_infer_flush_drops(struct engine *engine)
{
    for (size_t i = 0; i < engine->session_count; i++) {
        struct session *session = &engine->sessions[i];
        if (session->drop_count > 0 &&
            mob_drop_unlogged(session->client, session->drops, session->drop_count))
            session->drop_count = 0;
    }
}

void engine_infer_drop_object(struct engine *engine, struct mob_client *client, struct mob_object_id id)
{
    for (size_t i = 0; i < engine->session_count; i++) {
        struct session *session = &engine->sessions[i];
        if (session->client != client)
            continue;
        if (session->drop_count == ENGINE_DROPS_MAX)
            engine_infer_flush_drops(engine);
        if (session->drop_count < ENGINE_DROPS_MAX) /* else the store's age takes it */
            session->drops[session->drop_count++] = id;
        return;
    }
}

void engine_infer_drop(struct engine_infer_call *call)
{
    for (uint32_t i = 0; i < MOB_MODEL_TENSORS_MAX; i++) {
        mob_release(call->refs[i]);
        call->refs[i] = NULL;
    }
    for (uint32_t i = 0; i < call->input_count; i++)
        engine_infer_drop_object(call->engine, call->client, call->inputs[i]);
    call->input_count = 0;
}
