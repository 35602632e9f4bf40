/* Values that come over HTTP: room, copy, record, acknowledgement, without holding up others. Large ones are
 * copied by an errand. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/tensor.h"
#include "server/api/engine_inner.h"

/* About 20 us of copying: a hand-over to another thread and back costs as much. */
#define COPY_AT_ONCE_MAX (256u << 10)

struct copy {
    struct errand errand; /* first */
    struct flight *flight;
};

static void end_put(struct flight *flight)
{
    struct mob_put_buffer *buffer = flight->put;
    flight->put = NULL;
    enum mob_status status = mob_put_end(buffer, &flight->future);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
    else
        flight->then(flight);
}

static void run_copy(struct errand *errand)
{
    mob_put_write(((struct copy *)errand)->flight->put);
}

static void copied(struct errand *errand)
{
    struct flight *flight = ((struct copy *)errand)->flight;
    free(errand);
    end_put(flight);
}

static void write_put(struct flight *flight)
{
    if (mob_put_bytes(flight->put) <= COPY_AT_ONCE_MAX) {
        mob_put_write(flight->put);
        end_put(flight);
        return;
    }
    struct copy *copy = malloc(sizeof *copy);
    MOB_ASSERT(copy != NULL);
    *copy = (struct copy){{.run = run_copy, .done = copied}, flight};
    engine_errand(flight->engine, &copy->errand);
}

static void find_room(struct flight *flight)
{
    /* Those who wait already come first. */
    bool behind = mob_put_bytes(flight->put) > 0 && engine_room_is_awaited(flight->engine);
    enum mob_status status = behind ? MOB_STORE_FULL : mob_put_room(flight->put);
    if (status == MOB_STORE_FULL)
        flight_want_room(flight, find_room, NULL);
    else if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
    else
        write_put(flight);
}

void engine_put(struct flight *flight, const struct mob_arg *value, void (*then)(struct flight *flight))
{
    flight->then = then;
    engine_key_use(flight, 0);
    enum mob_status status = mob_put_prepare(flight->client, value, &flight->put);
    engine_key_unused(flight);
    if (status != MOB_OK)
        flight_fail_client(flight, status, NULL);
    else
        find_room(flight);
}

/* --- POST /objects --- */

/* The value that the body stands for. MOB_INVALID: npy that is none. */
static enum mob_status read_value(struct mob_engine_put *put, struct mob_arg *out)
{
    struct mob_tensor tensor;
    uint8_t head[MOB_TENSOR_HEAD_MAX];
    if (strcmp(put->type, "npy") != 0) {
        *out = mob_bytes(put->payload, put->size);
        put->value_bytes = put->size;
        return MOB_OK;
    }
    enum mob_status status = engine_npy_to_tensor(put->payload, put->size, &tensor);
    if (status != MOB_OK)
        return status;
    size_t data_bytes = put->size - (size_t)((const uint8_t *)tensor.data - (const uint8_t *)put->payload);
    put->value_bytes = data_bytes +
        mob_tensor_head_encode(
            head, sizeof head, (enum mob_dtype)tensor.dtype, tensor.shape, (uint32_t)tensor.dims, data_bytes);
    *out = mob_tensor(tensor);
    return MOB_OK;
}

static bool read_value_or_fail(struct flight *flight, struct mob_arg *out)
{
    if (read_value(&flight->op->put, out) == MOB_OK)
        return true;
    flight_fail(flight, MOB_INVALID, NULL, "not a row-major little-endian .npy of numbers");
    return false;
}

static void put_object(struct flight *flight)
{
    struct mob_engine_put *put = &flight->op->put;
    struct mob_arg value;
    if (!read_value_or_fail(flight, &value))
        return;
    for (int type = MOB_TYPE_BYTES; type < MOB_TYPE_COUNT; type++)
        if (strcmp(mob_value_type_name((enum mob_value_type)type), put->type) == 0)
            value.kind = type;
    engine_put(flight, &value, flight_want_ack);
}

/* Of an earlier run with the same key. Deleted since: it was put all the same. */
static void on_put_before(struct flight *flight, const struct engine_found *found)
{
    struct mob_object_id id = mob_object_of(flight->key_root, MOB_SLOT_PUT);
    if (!found->record || task_record_put_state(found->record, id) == LINEAGE_PUT_NEVER) {
        put_object(flight);
        return;
    }
    struct mob_arg value;
    if (!read_value_or_fail(flight, &value))
        return;
    flight->op->put.id = id;
    flight_done(flight);
}

void engine_start_object_put(struct flight *flight)
{
    if (flight->key_again)
        engine_find_object(flight, mob_object_of(flight->key_root, MOB_SLOT_PUT), on_put_before);
    else
        put_object(flight);
}
