/* What the tests of the store share. */
#ifndef MOB_TESTS_STORE_SUPPORT_H
#define MOB_TESTS_STORE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/store/store_internal.h"

#define assert_status(expected, got) assert_string_equal(mob_status_code(expected), mob_status_code(got))
#define assert_store_ok(store) \
    do { \
        const char *problem_ = mob_store_check(store); \
        if (problem_) \
            fail_msg("store check: %s", problem_); \
    } while (0)

static inline struct mob_object_id test_id(uint32_t stream, uint32_t index, uint32_t slot)
{
    struct mob_object_id id = {.slot = slot};
    memcpy(id.task.stream.b, &stream, sizeof stream);
    id.task.index = index;
    return id;
}

static inline struct mob_store *test_store(uint64_t bytes, const char *spill_dir, uint64_t quota)
{
    struct mob_store_options options = {
        .struct_size = sizeof options,
        .segment_bytes = bytes,
        .spill_dir = spill_dir,
        .spill_quota_bytes = quota,
        .incarnation = 7,
    };
    struct mob_store *store = NULL;
    assert_status(MOB_OK, mob_store_create(&options, &store));
    return store;
}

static inline uint32_t test_open(struct mob_store *store, enum mob_client_kind kind)
{
    struct mob_client_options options = {
        .kind = kind, .out_ring_bytes = 8192, .in_ring_bytes = 8192, .pins_max = 16};
    uint32_t slot = UINT32_MAX;
    assert_status(MOB_OK, mob_store_client_open(store, &options, &slot));
    return slot;
}

static inline struct mob_store_client *test_attach(struct mob_store *store, uint32_t slot)
{
    struct mob_store_client *client = NULL;
    assert_status(MOB_OK, mob_store_attach(mob_store_memfd(store), mob_store_eventfd(store), slot, &client));
    return client;
}

/* A full bytes value of `payload` bytes of `fill`; malloc'ed. */
static inline void *test_value(uint64_t payload, uint8_t fill, uint64_t *size_out)
{
    uint64_t size;
    assert_status(MOB_OK, mob_value_full_size(payload, 0, 0, &size));
    void *value = malloc(size);
    uint8_t *at;
    assert_status(MOB_OK, mob_value_init(value, size, MOB_TYPE_BYTES, payload, NULL, 0, NULL, 0, &at));
    memset(at, fill, payload);
    *size_out = size;
    return value;
}

/* create + fill, unsealed */
static inline enum mob_status test_create(struct mob_store_client *client, struct mob_object_id id,
    uint64_t payload, uint8_t fill, struct mob_object_ref *ref_out)
{
    uint64_t size;
    void *value = test_value(payload, fill, &size), *bytes;
    enum mob_status status = mob_store_object_create(client, id, size, ref_out, &bytes);
    if (status == MOB_OK)
        memcpy(bytes, value, size);
    free(value);
    return status;
}

static inline void test_put(
    struct mob_store_client *client, struct mob_object_id id, uint64_t payload, uint8_t fill)
{
    struct mob_object_ref ref;
    assert_status(MOB_OK, test_create(client, id, payload, fill, &ref));
    assert_status(MOB_OK, mob_store_object_seal(client, ref));
}

static inline void test_put_i64(struct mob_store_client *client, struct mob_object_id id, int64_t n)
{
    struct mob_object_ref ref;
    assert_status(MOB_OK, mob_store_put_small(client, id, MOB_TYPE_I64, &n, sizeof n, &ref));
    assert_status(MOB_OK, mob_store_object_seal(client, ref));
}

struct test_got {
    enum mob_status status;
    enum mob_value_type type;
    uint8_t small[MOB_OBJECT_INLINE_MAX];
    const void *bytes;
    uint64_t size;
    struct mob_object_ref pin;
};

static inline struct test_got test_get(struct mob_store_client *client, struct mob_object_id id)
{
    struct test_got got = {0};
    got.status =
        mob_store_object_get(client, id, false, &got.type, got.small, &got.bytes, &got.size, &got.pin);
    return got;
}

#endif
