#include "sdk/c/arg_list.h"

#include <stdlib.h>

#define PAGE_BYTES 65536u
#define LIST_BYTES_MAX (PAGE_BYTES * (MOB_ARG_PAGES_MAX - 1u))

struct wire_arg {
    uint8_t kind, type;
    uint16_t zero;
    uint32_t payload_bytes;
};

static uint8_t *list_room(struct mob_arg_list *list, uint32_t bytes)
{
    if (bytes > LIST_BYTES_MAX - list->used)
        return NULL;
    if (list->used + bytes > list->capacity) {
        uint32_t capacity = list->capacity * 2;
        while (capacity < list->used + bytes)
            capacity *= 2;
        uint8_t *fresh = list->bytes == list->few ? malloc(capacity) : realloc(list->bytes, capacity);
        if (fresh == NULL)
            return NULL;
        if (list->bytes == list->few)
            memcpy(fresh, list->few, list->used);
        list->bytes = fresh;
        list->capacity = capacity;
    }
    return list->bytes + list->used;
}

/* Its bytes are nowhere yet: mob_encode has seen that it is one. */
static enum mob_status check_tensor(
    struct mob_signature_check *check, const struct mob_tensor *tensor, struct mob_signature_error *error_out)
{
    struct mob_tensor_view view = {.dtype = (enum mob_dtype)tensor->dtype, .ndim = (uint32_t)tensor->dims};
    memcpy(view.shape, tensor->shape, view.ndim * sizeof *view.shape);
    return mob_signature_check_tensor(check, &view, error_out);
}

static enum mob_status add(struct mob_client *client, struct mob_arg_list *list,
    struct mob_signature_check *check, const struct mob_arg *arg)
{
    struct mob_encoded value;
    if (mob_encode(arg, &value) != MOB_OK)
        return mob_client_fail(client, MOB_INVALID,
            "argument %u is no value of its type (text that is not UTF-8 or not JSON, or a stream, say)",
            list->count);
    uint32_t index = list->count;
    uint32_t bytes = value.bytes > MOB_ARG_VALUE_INLINE_MAX ? 0 : (uint32_t)value.bytes;
    uint32_t padded = (uint32_t)mob_round_up(bytes > 24 ? bytes : 24, 8);
    uint8_t *at = list_room(list, (uint32_t)sizeof(struct wire_arg) + padded);
    if (at == NULL)
        return mob_client_fail(client, MOB_TOO_LARGE, "the argument list is too long: put what is in it");
    uint8_t *payload = at + sizeof(struct wire_arg);
    struct mob_arg_view view = {.is_ref = value.is_ref,
        .type = value.is_ref ? MOB_TYPE_NONE : value.type,
        .ref = value.ref,
        .payload = payload};
    struct mob_signature_error error;
    if (value.bytes > MOB_ARG_VALUE_INLINE_MAX) {
        /* Too big for the spec: it is put first, and goes by id. Its type is checked on the bytes at hand. */
        view.payload = value.payload;
        view.payload_bytes = value.bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)value.bytes;
        if ((value.tensor != NULL ? check_tensor(check, value.tensor, &error)
                                  : mob_signature_check_next(check, &view, &error)) != MOB_OK)
            return mob_client_fail(client, MOB_TYPE_MISMATCH, "%s", error.message);
        struct mob_object_id id = mob_next_put(client);
        enum mob_status status = mob_put_encoded(client, id, &value);
        if (status != MOB_OK)
            return status;
        if (list->put_count < sizeof list->puts / sizeof *list->puts) {
            list->put_bytes[list->put_count] = value.bytes;
            list->puts[list->put_count++] = id;
        }
        value = (struct mob_encoded){.is_ref = true, .bytes = sizeof id};
        memcpy(payload, &id, sizeof id);
        bytes = sizeof id;
    } else {
        mob_encoded_write(&value, payload);
        view.payload_bytes = bytes;
        if (mob_signature_check_next(check, &view, &error) != MOB_OK)
            return mob_client_fail(client, MOB_TYPE_MISMATCH, "%s", error.message);
    }
    padded = (uint32_t)mob_round_up(bytes, 8);
    memset(payload + bytes, 0, padded - bytes);
    struct wire_arg head = {
        .kind = value.is_ref, .type = value.is_ref ? 0 : (uint8_t)value.type, .payload_bytes = bytes};
    memcpy(at, &head, sizeof head);
    list->used += (uint32_t)sizeof head + padded;
    list->count = index + 1;
    return MOB_OK;
}

/* Bytes of the whole arguments from `from` on that fit into `room`. */
static uint32_t whole_args(const struct mob_arg_list *list, uint32_t from, uint32_t room, uint32_t *count_out)
{
    uint32_t at = from, count = 0;
    while (at < list->used) {
        struct wire_arg head;
        memcpy(&head, list->bytes + at, sizeof head);
        uint32_t bytes = (uint32_t)(sizeof head + mob_round_up(head.payload_bytes, 8));
        if (at + bytes - from > room)
            break;
        at += bytes;
        count++;
    }
    *count_out = count;
    return at - from;
}

enum mob_status mob_arg_list_build(struct mob_client *client, const struct mob_signature_info *signature,
    struct mob_args args, struct mob_arg_list *list)
{
    list->bytes = list->few;
    list->capacity = sizeof list->few;
    list->used = list->count = list->pages = list->put_count = 0;
    struct mob_signature_check check;
    mob_signature_check_begin(&check, &signature->parsed);
    enum mob_status status = MOB_OK;
    for (size_t i = 0; i < args.count && status == MOB_OK; i++)
        status = add(client, list, &check, &args.items[i]);
    struct mob_signature_error error;
    if (status == MOB_OK && mob_signature_check_end(&check, &error) != MOB_OK)
        status = mob_client_fail(client, MOB_TYPE_MISMATCH, "%s", error.message);
    if (status != MOB_OK) {
        mob_arg_list_free(list);
        return status;
    }
    list->inline_bytes = whole_args(list, 0, MOB_SPEC_ARGS_INLINE_MAX, &list->inline_count);
    for (uint32_t at = list->inline_bytes, n; at < list->used; list->pages++)
        at += whole_args(list, at, PAGE_BYTES, &n);
    return MOB_OK;
}

enum mob_status mob_arg_list_put_pages(
    struct mob_client *client, struct mob_arg_list *list, struct mob_task_id task)
{
    uint32_t at = list->inline_bytes, n;
    for (uint32_t page = 0; page < list->pages; page++) {
        uint32_t bytes = whole_args(list, at, PAGE_BYTES, &n);
        struct mob_encoded value = {.type = MOB_TYPE_BYTES, .payload = list->bytes + at, .bytes = bytes};
        enum mob_status status =
            mob_put_encoded(client, mob_object_of(task, MOB_SLOT_ARG_PAGE | page), &value);
        if (status != MOB_OK)
            return status;
        at += bytes;
    }
    return MOB_OK;
}

void mob_arg_list_free(struct mob_arg_list *list)
{
    if (list->bytes != list->few)
        free(list->bytes);
    list->bytes = list->few;
}
