/* Which keys are seen in bytes that nobody has checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_link.h"
#include "gcs/shard/ahead.h"

static size_t frame(uint8_t *out, uint8_t type, const void *head, size_t head_bytes, const char *body)
{
    struct mob_gcs_frame f = {.type = type,
        .head_bytes = (uint32_t)head_bytes,
        .body_bytes = (uint32_t)strlen(body),
        .head = head,
        .body = (const uint8_t *)body};
    mob_gcs_frame_encode(&f, out);
    memcpy(out + MOB_GCS_FRAME_HEADER_BYTES, head, head_bytes);
    memcpy(out + MOB_GCS_FRAME_HEADER_BYTES + head_bytes, body, strlen(body));
    return MOB_GCS_FRAME_HEADER_BYTES + head_bytes + strlen(body);
}

static size_t put(uint8_t *out, uint8_t op, uint32_t key_length, const char *body)
{
    struct mob_gcs_request r = {.request = 1, .op = op, .table = MOB_GCS_KV, .key_length = key_length};
    return frame(out, MOB_GCS_PUT, &r, sizeof r, body);
}

static size_t update(uint8_t *out, uint8_t op, uint32_t key_length, const char *body)
{
    struct {
        struct mob_gcs_link link;
        struct mob_gcs_entry entry;
    } head = {.entry = {.op = op, .table = MOB_GCS_KV, .key_length = key_length}};
    return frame(out, MOB_GCS_UPD, &head, sizeof head, body);
}

static void is_key(const struct mob_state_ahead *key, const char *text)
{
    assert_int_equal(key->length, strlen(text));
    assert_memory_equal(key->key, text, key->length);
    assert_int_equal(key->table, MOB_GCS_KV);
}

static void keys_of_puts_and_updates_are_seen(void **state)
{
    (void)state;
    uint8_t bytes[2000];
    struct ahead ahead = {.count = 0};
    size_t n = put(bytes, MOB_GCS_OP_PUT, 3, "onevalue");
    n += put(bytes + n, MOB_GCS_OP_SEAL, 3, "no key");
    n += update(bytes + n, MOB_GCS_OP_DELETE, 3, "two");
    n += update(bytes + n, MOB_GCS_OP_APPEND, 0, "a block");
    n += put(bytes + n, MOB_GCS_OP_PUT, 9, "tooshort");
    size_t last = put(bytes + n, MOB_GCS_OP_PUT, 5, "three and the rest");
    assert_int_equal(ahead_look(&ahead, bytes, n + last - 1), 5); /* the last one is not whole */
    assert_int_equal(ahead.count, 2);
    assert_int_equal(ahead_look(&ahead, bytes + n, last), 1);
    assert_int_equal(ahead.count, 3);
    is_key(&ahead.keys[0], "one");
    is_key(&ahead.keys[1], "two");
    is_key(&ahead.keys[2], "three");
}

static void no_more_are_taken_than_there_is_room_for(void **state)
{
    (void)state;
    static uint8_t bytes[(MOB_STATE_AHEAD + 4) * 200];
    struct ahead ahead = {.count = 0};
    size_t n = 0;
    for (size_t i = 0; i < MOB_STATE_AHEAD + 4; i++)
        n += put(bytes + n, MOB_GCS_OP_PUT, 1, "k");
    assert_int_equal(ahead_look(&ahead, bytes, n), MOB_STATE_AHEAD);
    assert_int_equal(ahead_look(&ahead, bytes, n), 0);
    assert_int_equal(ahead.count, MOB_STATE_AHEAD);
}

/* Allocated to the byte, so that a sanitizer sees a look behind it. */
static void look_at_a_copy(const uint8_t *bytes, size_t length, struct mob_state *tables)
{
    uint8_t *copy = malloc(length);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    struct ahead ahead = {.count = 0};
    (void)ahead_look(&ahead, copy, length);
    for (size_t i = 0; i < ahead.count; i++) {
        const struct mob_state_ahead *key = &ahead.keys[i];
        assert_true(key->length <= MOB_GCS_KEY_MAX);
        assert_true(key->key >= copy && key->key + key->length <= copy + length);
    }
    ahead_ask(&ahead, tables);
    free(copy);
}

static void spoiled_bytes_give_keys_within_them(void **state)
{
    (void)state;
    struct mob_state *tables = mob_state_create();
    assert_non_null(tables);
    struct mob_gcs_kv kv = {
        .key = (const uint8_t *)"one", .key_length = 3, .value = (const uint8_t *)"value", .value_length = 5};
    assert_int_equal(mob_state_set(tables, MOB_GCS_KV, &kv), MOB_OK);
    uint64_t digest = mob_state_digest(tables);
    srand(11);
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[1000];
        size_t n = put(bytes, MOB_GCS_OP_PUT, 3, "onevalue");
        n += update(bytes + n, MOB_GCS_OP_PUT, 3, "onevalue");
        for (int i = rand() % 6; i > 0; i--)
            bytes[(size_t)rand() % n] = (uint8_t)rand();
        look_at_a_copy(bytes, 1 + (size_t)rand() % n, tables);
    }
    assert_int_equal(mob_state_digest(tables), digest);
    mob_state_destroy(tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_puts_and_updates_are_seen),
        cmocka_unit_test(no_more_are_taken_than_there_is_room_for),
        cmocka_unit_test(spoiled_bytes_give_keys_within_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
