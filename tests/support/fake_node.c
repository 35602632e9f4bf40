#include "tests/support/fake_node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

void fake_node_open(struct fake_node *node, enum mob_client_kind kind, uint32_t ring_bytes)
{
    struct mob_store_options options = {
        .struct_size = sizeof options, .segment_bytes = 64u << 20, .object_entries = 65536, .incarnation = 1};
    struct mob_client_options client = {
        .kind = kind, .out_ring_bytes = ring_bytes, .in_ring_bytes = ring_bytes};
    memset(node, 0, sizeof *node);
    assert_int_equal(mob_store_create(&options, &node->store), MOB_OK);
    assert_int_equal(mob_store_client_open(node->store, &client, &node->slot), MOB_OK);
}

struct mob_client *fake_node_driver(struct fake_node *node)
{
    struct mob_client *client = mob_client_new();
    assert_non_null(client);
    assert_int_equal(mob_store_attach(mob_store_memfd(node->store), mob_store_eventfd(node->store),
                         node->slot, &client->store),
        MOB_OK);
    client->committed_only = true;
    struct mob_task_id root = {.stream = {{1, 2, 3}}, .index = 7};
    mob_client_enter(client, root, 0, (struct mob_job_id){root.stream});
    node->client = client;
    return client;
}

void fake_node_close(struct fake_node *node)
{
    mob_client_free(node->client);
    mob_store_destroy(node->store);
}

bool fake_node_take(struct fake_node *node)
{
    uint32_t slot, damaged = UINT32_MAX;
    const uint8_t *body;
    mob_store_pass_begin(node->store);
    bool taken = mob_store_next(node->store, &slot, &node->record, &body, &damaged);
    assert_int_equal(damaged, UINT32_MAX);
    if (taken) {
        assert_int_equal(slot, node->slot);
        node->bytes = node->record.bytes - (uint32_t)sizeof node->record;
        memcpy(node->body, body, node->bytes);
    }
    mob_store_pass_end(node->store);
    if (taken)
        mob_store_ack(node->store, node->slot, mob_store_taken(node->store, node->slot));
    return taken;
}

void fake_node_give(struct fake_node *node, uint8_t type, const void *a, size_t a_bytes, const void *b,
    size_t b_bytes, const void *c, size_t c_bytes)
{
    uint8_t *body = mob_store_in_reserve(
        node->store, node->slot, type, 0, node->give_aux, (uint32_t)(a_bytes + b_bytes + c_bytes));
    assert_non_null(body);
    if (a_bytes > 0)
        memcpy(body, a, a_bytes);
    if (b_bytes > 0)
        memcpy(body + a_bytes, b, b_bytes);
    if (c_bytes > 0)
        memcpy(body + a_bytes + b_bytes, c, c_bytes);
    mob_store_in_flush(node->store, node->slot);
}

void fake_node_ready(struct fake_node *node, struct mob_object_id id, enum mob_status status,
    enum mob_value_type type, const void *payload, size_t bytes)
{
    struct mob_in_ready ready = {.id = id,
        .status = (uint16_t)status,
        .type = (uint8_t)type,
        .flags = MOB_READY_COMMITTED,
        .size = bytes,
        .inline_bytes = payload == NULL ? 0 : (uint32_t)bytes};
    fake_node_give(node, MOB_IN_READY, &ready, sizeof ready, payload, payload == NULL ? 0 : bytes, NULL, 0);
}

void fake_node_ready_i64(struct fake_node *node, struct mob_object_id id, int64_t v)
{
    fake_node_ready(node, id, MOB_OK, MOB_TYPE_I64, &v, sizeof v);
}

const struct mob_function *fake_function(struct mob_client *client, const char *name, const char *signature)
{
    struct mob_function_entry entry = {.name = name, .signature = signature};
    const struct mob_function *function;
    struct mob_module_hash module = {{9}};
    assert_int_equal(mob_function_of_entry(client, name, module, &entry, &function), MOB_OK);
    return function;
}

struct mob_actor *fake_actor(struct mob_client *client, const struct mob_method_entry *methods)
{
    struct mob_function_entry entry = {.name = "t.Class", .signature = "-> ()", .methods = methods};
    const struct mob_function *cls;
    struct mob_module_hash module = {{9}};
    struct mob_actor *actor;
    assert_int_equal(mob_function_of_entry(client, entry.name, module, &entry, &cls), MOB_OK);
    /* as if the node had been asked just now; the client asks again when this grows old */
    client->functions->asked_ns = mob_now() + 3600 * MOB_SEC;
    assert_ptr_equal(client->functions, cls);
    assert_int_equal(mob_actor_create(client, entry.name, MOB_NO_ARGS, NULL, &actor), MOB_OK);
    return actor;
}
