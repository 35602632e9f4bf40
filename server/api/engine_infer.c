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

static enum mob_status write_object(struct engine_infer_call *call, uint32_t input, const uint8_t *head,
    uint32_t head_bytes, uint64_t data_bytes)
{
    struct mob_client *client = call->client;
    struct mob_object_id id = mob_next_put(client);
    struct mob_object_ref ref;
    uint64_t full_bytes;
    void *full;
    uint8_t *payload;
    char text[MOB_ID_TEXT_MAX];
    enum mob_status status = mob_value_full_size(head_bytes + data_bytes, 0, 0, &full_bytes);
    if (status == MOB_OK)
        status = mob_store_room(client, id, full_bytes, &ref, &full);
    if (status != MOB_OK)
        return status;
    status = mob_value_init(
        full, full_bytes, MOB_TYPE_TENSOR, head_bytes + data_bytes, NULL, 0, NULL, 0, &payload);
    MOB_ASSERT(status == MOB_OK);
    memcpy(payload, head, head_bytes);
    write_rows(call, input, payload + head_bytes);
    mob_store_object_seal(client->store, ref);
    call->inputs[call->input_count++] = id;
    return mob_future_from_id(client, mob_object_id_format(id, text), &call->refs[input]);
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
    uint8_t head[MOB_TENSOR_HEAD_MAX];
    uint32_t head_bytes =
        mob_tensor_head_encode(head, sizeof head, first->dtype, tensor.shape, first->ndim, data_bytes);
    if (head_bytes == 0)
        return MOB_INVALID;
    if (head_bytes + data_bytes <= MOB_ARG_VALUE_INLINE_MAX) {
        *small_out = malloc(data_bytes + 1);
        MOB_ASSERT(*small_out != NULL);
        write_rows(call, input, *small_out);
        tensor.data = *small_out;
        *out = mob_tensor(tensor);
        return MOB_OK;
    }
    enum mob_status status = write_object(call, input, head, head_bytes, data_bytes);
    *out = mob_ref(call->refs[input]);
    return status;
}

/* The node gives ring space back when a block of its log is acknowledged, and calls that are not logged close
 * none: with nothing else to log a small value makes one. */
#define UNACKED_BYTES_MAX (128u << 10)
#define TRIM_INTERVAL_NS (2 * MOB_MS)

static void keep_ring_moving(struct mob_client *client)
{
    static int64_t last_ns; /* the engine's thread only */
    int64_t now = mob_now();
    if (mob_store_out_published(client->store) - mob_store_out_acked(client->store) < UNACKED_BYTES_MAX ||
        now - last_ns < TRIM_INTERVAL_NS)
        return;
    struct mob_future *mark = NULL;
    last_ns = now;
    if (mob_put(client, mob_null(), &mark) == MOB_OK)
        mob_release(mark);
}

enum mob_status engine_infer_send(struct engine_infer_call *call, struct mob_actor *actor,
    const struct mob_function *class, struct mob_future **futures_out)
{
    struct mob_arg items[MOB_MODEL_TENSORS_MAX];
    uint8_t *small[MOB_MODEL_TENSORS_MAX] = {0};
    uint16_t index = 0;
    const struct mob_method_info *method = mob_function_method(class, "infer", &index);
    enum mob_status status = method ? MOB_OK : MOB_NOT_FOUND;
    for (uint32_t i = 0; status == MOB_OK && i < call->tensor_count; i++)
        status = make_input(call, i, &items[i], &small[i]);
    if (status == MOB_OK) {
        struct mob_submission submission = {.function = class,
            .kind = MOB_KIND_ACTOR_CALL,
            .actor = mob_actor_identity(actor),
            .method = index,
            .num_returns = method->signature.num_returns,
            .flags = MOB_SPEC_READ_ONLY | MOB_SPEC_UNLOGGED,
            .signature = &method->signature,
            .args = {items, call->tensor_count}};
        status = mob_submission_publish(call->client, &submission, futures_out);
    }
    for (uint32_t i = 0; i < MOB_MODEL_TENSORS_MAX; i++)
        free(small[i]);
    keep_ring_moving(call->client);
    if (status != MOB_OK)
        engine_infer_drop(call);
    return status;
}

/* Told in batches; what finds no room in the ring waits for the next round. */
void engine_infer_flush_drops(struct engine *engine)
{
    for (size_t i = 0; i < engine->session_count; i++) {
        struct session *session = &engine->sessions[i];
        uint32_t bytes = session->drop_count * (uint32_t)sizeof *session->drops;
        void *body = bytes > 0 ? mob_store_out_reserve(session->client->store, bytes) : NULL;
        if (!body)
            continue;
        memcpy(body, session->drops, bytes);
        mob_store_out_commit(session->client->store, MOB_OUT_RELEASE, MOB_RELEASE_UNLOGGED,
            (uint16_t)session->drop_count, bytes);
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
