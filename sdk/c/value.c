/* Values of ready objects, read in place. */
#include "sdk/c/client.h"

#include <stdlib.h>

#include "common/wire/tensor.h"

struct mob_value *mob_value_new(struct mob_client *client)
{
    struct mob_value *value = client->free_values;
    if (value != NULL)
        client->free_values = value->next;
    else
        value = malloc(sizeof *value);
    if (value == NULL)
        return NULL;
    value->client = client;
    value->pinned = false;
    value->block = NULL;
    value->next = client->used_values;
    value->previous = &client->used_values;
    if (value->next != NULL)
        value->next->previous = &value->next;
    client->used_values = value;
    return value;
}

void mob_old_store_release(struct mob_client *client, const struct mob_store_client *store)
{
    struct mob_old_store **place = &client->old_stores;
    while (*place != NULL && (*place)->store != store)
        place = &(*place)->next;
    struct mob_old_store *old = *place;
    if (old == NULL || --old->users > 0)
        return;
    *place = old->next;
    mob_store_detach(old->store);
    free(old);
}

void mob_value_release(struct mob_value *value)
{
    if (value == NULL)
        return;
    struct mob_client *client = value->client;
    if (value->pinned) {
        if (value->store == client->store)
            mob_store_object_release(client->store, value->pin);
        else
            mob_old_store_release(client, value->store);
    }
    if (value->block != NULL && --value->block->refs == 0)
        free(value->block);
    value->block = NULL;
    *value->previous = value->next;
    if (value->next != NULL)
        value->next->previous = value->previous;
    value->next = client->free_values;
    client->free_values = value;
}

/* Whatever a task still holds at its end. */
void mob_values_free(struct mob_client *client)
{
    while (client->used_values != NULL)
        mob_value_release(client->used_values);
    while (client->free_values != NULL) {
        struct mob_value *value = client->free_values;
        client->free_values = value->next;
        free(value);
    }
}

/* What it has put it may read at once. What others make, a driver reads when it is committed: bytes that are
 * made again may be refused until then. */
static bool committed_only(const struct mob_client *client, struct mob_object_id id)
{
    bool own = (id.slot & MOB_SLOT_PUT) != 0 && mob_task_id_eq(id.task, client->parent);
    return client->committed_only && !own;
}

static enum mob_status read_object(
    struct mob_client *client, struct mob_object_id id, struct mob_value *value)
{
    const void *bytes;
    uint64_t size;
    enum mob_status status = mob_store_object_get(client->store, id, committed_only(client, id), &value->type,
        value->small, &bytes, &size, &value->pin);
    if (status != MOB_OK)
        return status;
    if (value->pin.entry == UINT32_MAX) {
        value->payload = value->small;
        value->payload_bytes = size;
        return MOB_OK;
    }
    struct mob_value_view view;
    status = mob_value_open(bytes, size, &view);
    if (status != MOB_OK) {
        mob_store_object_release(client->store, value->pin);
        return status;
    }
    value->pinned = true;
    value->store = client->store;
    value->type = view.type;
    value->payload = view.payload;
    value->payload_bytes = view.payload_bytes;
    return MOB_OK;
}

enum mob_status mob_value_read(struct mob_client *client, struct mob_object_id *id, struct mob_value *value)
{
    for (int steps = 0; steps < MOB_TAIL_CALLS_MAX; steps++) {
        enum mob_status status = read_object(client, *id, value);
        if (status != MOB_OK || value->type != MOB_TYPE_FUTURE || value->payload_bytes != sizeof *id)
            return status;
        memcpy(id, value->payload, sizeof *id); /* the result of a tail call is another object */
        if (value->pinned)
            mob_store_object_release(client->store, value->pin);
        value->pinned = false;
    }
    return MOB_CYCLE;
}

enum mob_status mob_tensor_decode(const uint8_t *payload, uint64_t bytes, struct mob_tensor *out)
{
    struct mob_tensor_view view;
    enum mob_status status = mob_tensor_open(payload, bytes, &view);
    if (status != MOB_OK)
        return status;
    *out = (struct mob_tensor){
        .dtype = (enum mob_tensor_dtype)view.dtype, .dims = (int32_t)view.ndim, .data = view.data};
    memcpy(out->shape, view.shape, sizeof out->shape);
    return MOB_OK;
}

const char *mob_value_type(const struct mob_value *value)
{
    return value == NULL ? "none" : mob_value_type_name(value->type);
}

static enum mob_status mismatch(const struct mob_value *value, const char *wanted)
{
    return mob_client_fail(value->client, MOB_TYPE_MISMATCH, "the value is of type %s, not %s",
        mob_value_type_name(value->type), wanted);
}

enum mob_status mob_value_i64(const struct mob_value *value, int64_t *out)
{
    MOB_GIVEN(NULL, value);
    MOB_GIVEN(value->client, out);
    if (value->type != MOB_TYPE_I64 || value->payload_bytes != 8)
        return mismatch(value, "i64");
    memcpy(out, value->payload, 8);
    return MOB_OK;
}

enum mob_status mob_value_f64(const struct mob_value *value, double *out)
{
    MOB_GIVEN(NULL, value);
    MOB_GIVEN(value->client, out);
    if (value->type != MOB_TYPE_F64 || value->payload_bytes != 8)
        return mismatch(value, "f64");
    memcpy(out, value->payload, 8);
    return MOB_OK;
}

enum mob_status mob_value_bool(const struct mob_value *value, bool *out)
{
    MOB_GIVEN(NULL, value);
    MOB_GIVEN(value->client, out);
    if (value->type != MOB_TYPE_BOOL || value->payload_bytes != 1)
        return mismatch(value, "bool");
    *out = value->payload[0] != 0;
    return MOB_OK;
}

enum mob_status mob_value_data(const struct mob_value *value, const void **data_out, size_t *size_out)
{
    MOB_GIVEN(NULL, value);
    MOB_GIVEN(value->client, data_out);
    MOB_GIVEN(value->client, size_out);
    if (value->type != MOB_TYPE_BYTES && value->type != MOB_TYPE_UTF8 && value->type != MOB_TYPE_JSON &&
        value->type != MOB_TYPE_TABLE && value->type != MOB_TYPE_PICKLE5)
        return mismatch(value, "bytes, utf8, json, table or pickle5");
    *data_out = value->payload;
    *size_out = value->payload_bytes;
    return MOB_OK;
}

enum mob_status mob_value_tensor(const struct mob_value *value, struct mob_tensor *out)
{
    MOB_GIVEN(NULL, value);
    MOB_GIVEN(value->client, out);
    if (value->type != MOB_TYPE_TENSOR)
        return mismatch(value, "tensor");
    return mob_tensor_decode(value->payload, value->payload_bytes, out);
}

enum mob_status mob_value_actor(
    struct mob_client *client, const struct mob_value *value, struct mob_actor **actor_out)
{
    MOB_GIVEN_CLIENT(client);
    MOB_GIVEN(client, value);
    MOB_GIVEN(client, actor_out);
    struct mob_actor_id id;
    if (value->type != MOB_TYPE_ACTOR || value->payload_bytes != sizeof id)
        return mismatch(value, "actor");
    memcpy(&id, value->payload, sizeof id);
    struct mob_actor *actor = mob_actor_of_id(client, id);
    if (actor == NULL)
        return mob_client_fail(client, MOB_NO_MEMORY, "out of memory");
    *actor_out = actor;
    return MOB_OK;
}
