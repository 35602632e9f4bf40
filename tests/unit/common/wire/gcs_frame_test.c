/* Frames of the control store's links: round trip, refusals, and the bytes of each version, which must decode
 * for ever (tests/golden/gcs; MOBULA_GOLDEN_WRITE=1 writes files that are missing and changes none).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/gcs_frame.h"
#include "common/wire/gcs_peer.h"
#include "common/wire/gcs_msg.h"

static size_t whole_frame(
    uint8_t *out, uint8_t type, const void *head, uint32_t head_bytes, const void *body, uint32_t body_bytes)
{
    struct mob_gcs_frame f = {.type = type,
        .shard = 3,
        .epoch = 0x1122334455667788,
        .from = 0x8877665544332211,
        .head_bytes = head_bytes,
        .body_bytes = body_bytes,
        .head = head,
        .body = body};
    mob_gcs_frame_encode(&f, out);
    memcpy(out + MOB_GCS_FRAME_HEADER_BYTES, head, head_bytes);
    if (body_bytes > 0)
        memcpy(out + MOB_GCS_FRAME_HEADER_BYTES + head_bytes, body, body_bytes);
    return (size_t)MOB_GCS_FRAME_HEADER_BYTES + head_bytes + body_bytes;
}

static void a_frame_comes_back_and_no_prefix_of_it_does(void **state)
{
    (void)state;
    static uint8_t bytes[20000], body[9000];
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (uint8_t)(i * 31);
    struct mob_gcs_request head = {.request = 5, .op = MOB_GCS_OP_APPEND};
    size_t n = whole_frame(bytes, MOB_GCS_PUT, &head, sizeof head, body, sizeof body), used = 0;
    struct mob_gcs_frame f;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(mob_gcs_frame_decode(bytes, i, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_AGAIN);
        assert_true(used > i && used <= n);
    }
    assert_int_equal(mob_gcs_frame_decode(bytes, n, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_OK);
    assert_int_equal(used, n);
    assert_int_equal(f.type, MOB_GCS_PUT);
    assert_int_equal(f.shard, 3);
    assert_int_equal(f.epoch, 0x1122334455667788);
    assert_int_equal(f.from, 0x8877665544332211);
    assert_int_equal(f.head_bytes, sizeof head);
    assert_memory_equal(f.head, &head, sizeof head);
    assert_int_equal(f.body_bytes, sizeof body);
    assert_memory_equal(f.body, body, sizeof body);
}

static void a_peek_sees_what_decoding_gives(void **state)
{
    (void)state;
    uint8_t bytes[400];
    size_t n = whole_frame(bytes, MOB_GCS_REPLY, "head", 4, "a body of some bytes", 20), used, peeked_used;
    struct mob_gcs_frame f, peeked;
    assert_int_equal(mob_gcs_frame_decode(bytes, n, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_OK);
    assert_true(mob_gcs_frame_peek(bytes, n + 7, &peeked, &peeked_used));
    assert_int_equal(peeked_used, used);
    assert_int_equal(peeked.type, f.type);
    assert_int_equal(peeked.head_bytes, f.head_bytes);
    assert_int_equal(peeked.body_bytes, f.body_bytes);
    assert_ptr_equal(peeked.head, f.head);
    assert_ptr_equal(peeked.body, f.body);
    for (size_t i = 0; i < n; i++)
        assert_false(mob_gcs_frame_peek(bytes, i, &peeked, &peeked_used));
}

static void every_changed_byte_is_noticed(void **state)
{
    (void)state;
    uint8_t bytes[400];
    size_t n = whole_frame(bytes, MOB_GCS_REPLY, "head", 4, "a body of some bytes", 20), used;
    struct mob_gcs_frame f;
    for (size_t i = 0; i < n; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1u << bit);
            enum mob_status status = mob_gcs_frame_decode(bytes, n, MOB_GCS_FRAME_CLIENT_MAX, &f, &used);
            if (status == MOB_OK || status == MOB_AGAIN)
                fail_msg("byte %zu bit %u: %s", i, bit, mob_status_code(status));
            bytes[i] ^= (uint8_t)(1u << bit);
        }
}

/* Nothing may follow for which it would wait: a length that was spoiled is known before the payload comes. */
static void a_changed_header_is_noticed_before_its_payload(void **state)
{
    (void)state;
    uint8_t bytes[400];
    size_t n = whole_frame(bytes, MOB_GCS_REPLY, "head", 4, "a body of some bytes", 20), used;
    struct mob_gcs_frame f;
    for (size_t length = MOB_GCS_FRAME_HEADER_BYTES; length < n; length++)
        for (size_t i = 0; i < 32; i++) {
            bytes[i] ^= 0x10;
            enum mob_status status = mob_gcs_frame_decode(bytes, length, MOB_GCS_FRAME_CLIENT_MAX, &f, &used);
            if (status == MOB_OK || status == MOB_AGAIN)
                fail_msg("byte %zu of %zu: %s", i, length, mob_status_code(status));
            bytes[i] ^= 0x10;
        }
}

static void sizes_and_versions_are_refused_by_name(void **state)
{
    (void)state;
    uint8_t bytes[200];
    struct mob_gcs_frame f;
    size_t used, n = whole_frame(bytes, MOB_GCS_WELCOME, "head", 4, "body", 4);
    assert_int_equal(mob_gcs_frame_decode(bytes, n, 7, &f, &used), MOB_TOO_LARGE);
    bytes[4] = MOB_GCS_FRAME_VERSION + 1;
    assert_int_equal(mob_gcs_frame_decode(bytes, n, 1000, &f, &used), MOB_VERSION);
    bytes[4] = 0;
    assert_int_equal(mob_gcs_frame_decode(bytes, n, 1000, &f, &used), MOB_VERSION);
    bytes[4] = MOB_GCS_FRAME_VERSION;
    bytes[0] = 'X';
    assert_int_equal(mob_gcs_frame_decode(bytes, n, 1000, &f, &used), MOB_CORRUPT);
}

static void rows_come_back(void **state)
{
    (void)state;
    uint8_t bytes[400];
    struct mob_gcs_kv kv = {(const uint8_t *)"key", (const uint8_t *)"value", 3, 5, 42}, kv2;
    mob_gcs_kv_row_encode(&kv, bytes);
    memcpy(bytes + MOB_GCS_KV_ROW_HEAD, "keyvalue", 8);
    struct mob_reader r = mob_reader_of(bytes, MOB_GCS_KV_ROW_HEAD + 8);
    assert_int_equal(mob_gcs_kv_row_decode(&r, &kv2), MOB_OK);
    assert_int_equal(kv2.version, 42);
    assert_memory_equal(kv2.value, "value", 5);
    for (size_t i = 0; i < MOB_GCS_KV_ROW_HEAD + 8; i++) {
        r = mob_reader_of(bytes, i);
        assert_int_equal(mob_gcs_kv_row_decode(&r, &kv2), MOB_TRUNCATED);
    }
    struct mob_gcs_block_row row = {.seq = 9, .incarnation = 2, .number = 7, .length = 5}, row2;
    mob_gcs_block_row_encode(&row, bytes);
    memcpy(bytes + MOB_GCS_BLOCK_ROW_HEAD, "block", 5);
    r = mob_reader_of(bytes, MOB_GCS_BLOCK_ROW_HEAD + 5);
    assert_int_equal(mob_gcs_block_row_decode(&r, &row2), MOB_OK);
    assert_int_equal(row2.number, 7);
    assert_memory_equal(row2.bytes, "block", 5);
}

/* ---- golden files: one frame of each type, with a head whose fields all differ ---- */

static void fill(uint8_t *bytes, size_t n, uint8_t from)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(from + i * 7);
}

static size_t head_size(uint8_t type)
{
    static const size_t sizes[MOB_GCS_PEER_TYPES] = {[MOB_GCS_WELCOME] = sizeof(struct mob_gcs_welcome),
        [MOB_GCS_ATTACH] = sizeof(struct mob_gcs_attach),
        [MOB_GCS_ATTACHED] = sizeof(struct mob_gcs_attached),
        [MOB_GCS_PUT] = sizeof(struct mob_gcs_request),
        [MOB_GCS_REPLY] = sizeof(struct mob_gcs_reply),
        [MOB_GCS_DURABLE] = sizeof(struct mob_gcs_durable),
        [MOB_GCS_NACK] = sizeof(struct mob_gcs_nack),
        [MOB_GCS_GAP] = sizeof(struct mob_gcs_attached),
        [MOB_GCS_EXPIRED] = sizeof(struct mob_gcs_attached),
        [MOB_GCS_GET] = sizeof(struct mob_gcs_get),
        [MOB_GCS_ROWS] = sizeof(struct mob_gcs_rows),
        [MOB_GCS_SUB] = sizeof(struct mob_gcs_sub_head),
        [MOB_GCS_UNSUB] = sizeof(struct mob_gcs_sub_head),
        [MOB_GCS_BLOCK] = sizeof(struct mob_gcs_sub_head),
        [MOB_GCS_RESYNC] = sizeof(struct mob_gcs_sub_head),
        [MOB_GCS_COLD_GET] = sizeof(struct mob_gcs_cold_get),
        [MOB_GCS_COLD_ROWS] = sizeof(struct mob_gcs_rows),
        [MOB_GCS_LINK_HELLO] = sizeof(struct mob_gcs_link_hello),
        [MOB_GCS_LINK_CHALLENGE] = sizeof(struct mob_gcs_link_challenge),
        [MOB_GCS_LINK_PROOF] = sizeof(struct mob_gcs_link_proof),
        [MOB_GCS_LINK_REFUSED] = sizeof(struct mob_gcs_link_refused),
        [MOB_GCS_REPORT] = sizeof(struct mob_gcs_report),
        [MOB_GCS_LEASE] = sizeof(struct mob_gcs_lease),
        [MOB_GCS_ENTER] = sizeof(struct mob_gcs_enter),
        [MOB_GCS_ENROLL] = sizeof(struct mob_gcs_enroll),
        [MOB_GCS_ENROLLED] = sizeof(struct mob_gcs_enrolled),
        [MOB_GCS_NODE_BEAT] = sizeof(struct mob_gcs_node_beat),
        [MOB_GCS_NODE_HEARD] = sizeof(struct mob_gcs_node_heard),
        [MOB_GCS_BEGIN_ANEW] = sizeof(struct mob_gcs_begin_anew)};
    return sizes[type];
}

#define GOLDEN_MAX 8192u

static FILE *golden(const char *version, const char *name, const char *mode)
{
    const char *source = getenv("MOBULA_SOURCE_DIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/gcs/frames_%s%s.bin", source == NULL ? "." : source, version,
        name);
    return fopen(path, mode);
}

/* What the golden file of that name holds; returns how much. */
static size_t stored(const char *version, const char *name, uint8_t there[GOLDEN_MAX])
{
    FILE *file = golden(version, name, "rb");
    assert_non_null(file);
    size_t m = fread(there, 1, GOLDEN_MAX, file);
    fclose(file);
    return m;
}

/* Two runs of frames say the same, whatever their headers' version. */
static void frames_equal(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
    struct mob_gcs_frame f, g;
    assert_int_equal(a_bytes, b_bytes);
    for (size_t at = 0, used, same; at < a_bytes; at += used) {
        assert_int_equal(
            mob_gcs_frame_decode(a + at, a_bytes - at, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_OK);
        assert_int_equal(
            mob_gcs_frame_decode(b + at, b_bytes - at, MOB_GCS_FRAME_CLIENT_MAX, &g, &same), MOB_OK);
        assert_int_equal(used, same);
        assert_true(f.type == g.type && f.shard == g.shard && f.epoch == g.epoch && f.from == g.from);
        assert_int_equal(f.head_bytes, g.head_bytes);
        assert_memory_equal(f.head, g.head, f.head_bytes + f.body_bytes);
    }
}

/* A file that is missing is written when that is asked for. */
static void store_new(const char *name, const uint8_t *made, size_t n)
{
    FILE *file = golden("v2", name, "rb");
    if (file == NULL && getenv("MOBULA_GOLDEN_WRITE") != NULL) {
        file = golden("v2", name, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(made, 1, n, file), n);
    }
    assert_non_null(file);
    fclose(file);
}

/* The newest version's file is what is made now, and version 1's reads as the same. Returns how much. */
static size_t compare(const char *name, const uint8_t *made, size_t n, uint8_t there[GOLDEN_MAX])
{
    store_new(name, made, n);
    size_t m = stored("v1", name, there);
    assert_int_equal(there[4], 1);
    frames_equal(there, m, made, n);
    m = stored("v2", name, there);
    assert_int_equal(m, n);
    assert_memory_equal(there, made, n);
    return m;
}

/* The frames of types [first, end), in a file of their own: types are added behind the others. */
static void bytes_stay(const char *name, uint8_t first, uint8_t end)
{
    uint8_t made[GOLDEN_MAX], there[GOLDEN_MAX], head[512], body[64];
    size_t n = 0;
    for (uint8_t type = first; type < end; type++) {
        fill(head, sizeof head, type);
        fill(body, sizeof body, (uint8_t)(type * 3));
        n += whole_frame(
            made + n, type, head, (uint32_t)head_size(type), body, type % 3 == 0 ? 0 : sizeof body);
    }
    size_t m = compare(name, made, n, there);
    for (size_t at = 0, used; at < m; at += used) {
        struct mob_gcs_frame f;
        assert_int_equal(
            mob_gcs_frame_decode(there + at, m - at, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_OK);
    }
}

static const struct mob_gcs_config config_there = {
    .epoch = 9, .term = 4, .count = 2, .started = 7, .members = {0x1100000001, 0x2200000003}};

/* What protocol 4 of clients, and 2 of members, says of a configuration: in a member's SYNC, and with the
 * places of its members in a NACK. */
static void the_bytes_of_a_configuration_stay(void **state)
{
    (void)state;
    uint8_t made[GOLDEN_MAX], there[GOLDEN_MAX], head[MOB_GCS_LINK_HEAD_MAX];
    struct mob_gcs_link_msg sync = {
        .type = MOB_GCS_SYNC, .link = {.to = 5, .seq = 6}, .config = config_there};
    struct mob_gcs_nack nack = {.reason = MOB_WRONG_EPOCH};
    struct mob_gcs_book book = {.config = config_there,
        .places = {{.link = "/run/a.link", .client = "/run/a"}, {.link = "b:7001", .client = "/run/b"}}};
    size_t n = whole_frame(made, MOB_GCS_SYNC, head, mob_gcs_link_encode(&sync, head), NULL, 0), used;
    n += whole_frame(made + n, MOB_GCS_NACK, &nack, sizeof nack, &book, mob_gcs_book_bytes(&book));
    size_t m = compare("_config", made, n, there);
    struct mob_gcs_frame f;
    assert_int_equal(mob_gcs_frame_decode(there, m, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_OK);
    assert_int_equal(mob_gcs_link_decode(&f, &sync), MOB_OK);
    assert_memory_equal(&sync.config, &config_there, sizeof config_there);
    assert_int_equal(
        mob_gcs_frame_decode(there + used, m - used, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_OK);
    assert_int_equal(mob_gcs_book_decode(f.body, f.body_bytes, &book), MOB_OK);
    assert_memory_equal(&book.config, &config_there, sizeof config_there);
    assert_string_equal(book.places[1].client, "/run/b");
}

/* COLD has a head only when the watermark is known. The file `cold` has it without. */
static void the_bytes_of_a_watermark_stay(void **state)
{
    (void)state;
    uint8_t made[256], there[GOLDEN_MAX];
    struct mob_gcs_cold said = {.watermark = 0x0102030405060708}, heard;
    size_t used, n = whole_frame(made, MOB_GCS_COLD, &said, sizeof said, NULL, 0);
    size_t m = compare("_watermark", made, n, there);
    struct mob_gcs_frame f;
    assert_int_equal(mob_gcs_frame_decode(there, m, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_OK);
    assert_int_equal(used, m);
    assert_int_equal(f.type, MOB_GCS_COLD);
    assert_int_equal(f.head_bytes, sizeof heard);
    memcpy(&heard, f.head, sizeof heard);
    assert_int_equal(heard.watermark, said.watermark);
}

/* With the figures of the database behind it, which an earlier version's member passes over: the frame of the
 * newest version only, as that is the first that says them. */
static void the_bytes_of_a_databases_figures_stay(void **state)
{
    (void)state;
    uint8_t made[256], there[GOLDEN_MAX];
    struct mob_gcs_cold said = {.watermark = 0x0102030405060708};
    const struct mob_gcs_database figures = {1, 2, 3, 4, 5, 0x60708090a0b0c0d0};
    size_t used, n = whole_frame(made, MOB_GCS_COLD, &said, sizeof said, &figures, sizeof figures);
    store_new("_figures", made, n);
    size_t m = stored("v2", "_figures", there);
    assert_int_equal(m, n);
    assert_memory_equal(there, made, n);
    struct mob_gcs_frame f;
    assert_int_equal(mob_gcs_frame_decode(there, m, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_OK);
    assert_int_equal(f.head_bytes, sizeof said);
    assert_int_equal(f.body_bytes, sizeof figures);
    assert_memory_equal(f.body, &figures, sizeof figures);
}

/* Newer than version 1 of the header, so there is no file of that. */
static void the_bytes_of_a_beginning_stay(void **state)
{
    (void)state;
    uint8_t made[256], there[GOLDEN_MAX];
    const struct mob_gcs_begin_anew said = {0x1100000001, 4104, 1ull << 32, 1ull << 32, 8, 77, 513};
    size_t used, n = whole_frame(made, MOB_GCS_BEGIN_ANEW, &said, sizeof said, NULL, 0);
    store_new("_anew", made, n);
    size_t m = stored("v2", "_anew", there);
    assert_int_equal(m, n);
    assert_memory_equal(there, made, n);
    struct mob_gcs_frame f;
    assert_int_equal(mob_gcs_frame_decode(there, m, MOB_GCS_FRAME_CLIENT_MAX, &f, &used), MOB_OK);
    assert_int_equal(f.head_bytes, sizeof said);
    assert_memory_equal(f.head, &said, sizeof said);
}

/* A member of an earlier version says less of itself, one of a later version more. */
static void figures_of_other_versions_are_understood(void **state)
{
    (void)state;
    uint8_t bytes[sizeof(struct mob_gcs_stats) + 8];
    struct mob_gcs_stats said = {.applied = 7,
                             .state_digest = 9,
                             .self = 5,
                             .state_ms = 11,
                             .watermark = 13,
                             .marks = 17,
                             .database = {.bytes = 19},
                             .lease_ms = 90,
                             .realtime = 1,
                             .joiner = 21,
                             .paced_ms = 23,
                             .tells_index = 25},
                         heard;
    size_t first = offsetof(struct mob_gcs_stats, self);
    memset(said.state, 'x', sizeof said.state);
    memset(said.store, 'y', sizeof said.store);
    memset(bytes, 1, sizeof bytes);
    memcpy(bytes, &said, sizeof said);
    for (size_t length = 0; length <= sizeof bytes; length++) {
        struct mob_reader r = mob_reader_of(bytes, length);
        memset(&heard, 0xff, sizeof heard);
        enum mob_status status = mob_gcs_stats_decode(&r, &heard);
        assert_int_equal(status, length < first ? MOB_TRUNCATED : MOB_OK);
        if (status != MOB_OK)
            continue;
        assert_int_equal(heard.applied, 7);
        assert_int_equal(heard.state_digest, 9);
        bool names_itself = length >= offsetof(struct mob_gcs_stats, state_ms);
        assert_int_equal(heard.self, names_itself ? 5 : 0);
        assert_int_equal(strlen(heard.state), names_itself ? sizeof heard.state - 1 : 0);
        assert_int_equal(heard.state_ms, length >= offsetof(struct mob_gcs_stats, newest_block) ? 11 : 0);
        assert_int_equal(heard.watermark, length >= offsetof(struct mob_gcs_stats, store) ? 13 : 0);
        bool says_store = length >= offsetof(struct mob_gcs_stats, marks);
        bool says_marks = length >= offsetof(struct mob_gcs_stats, lease_ms);
        assert_int_equal(strlen(heard.store), says_store ? sizeof heard.store - 1 : 0);
        assert_int_equal(heard.marks, says_marks ? 17 : 0);
        assert_int_equal(heard.database.bytes, says_marks ? 19 : 0);
        bool says_times = length >= offsetof(struct mob_gcs_stats, joiner);
        assert_int_equal(heard.lease_ms, says_times ? 90 : 0);
        assert_int_equal(heard.realtime, says_times);
        bool says_joins = length >= offsetof(struct mob_gcs_stats, tells_index);
        assert_int_equal(heard.joiner, says_joins ? 21 : 0);
        assert_int_equal(heard.paced_ms, says_joins ? 23 : 0);
        assert_int_equal(heard.tells_index, length >= sizeof said ? 25 : 0);
    }
}

static void the_bytes_of_each_type_stay(void **state)
{
    (void)state;
    bytes_stay("", MOB_GCS_WELCOME, MOB_GCS_COLD);
    bytes_stay("_cold", MOB_GCS_COLD, MOB_GCS_LISTEN);
    bytes_stay("_listen", MOB_GCS_LISTEN, MOB_GCS_HURRY);
    bytes_stay("_hurry", MOB_GCS_HURRY, MOB_GCS_FRAME_TYPES);
    bytes_stay("_peer", MOB_GCS_LINK_HELLO, MOB_GCS_ENROLL);
    bytes_stay("_node", MOB_GCS_ENROLL, MOB_GCS_BEGIN_ANEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_comes_back_and_no_prefix_of_it_does),
        cmocka_unit_test(a_peek_sees_what_decoding_gives),
        cmocka_unit_test(every_changed_byte_is_noticed),
        cmocka_unit_test(a_changed_header_is_noticed_before_its_payload),
        cmocka_unit_test(sizes_and_versions_are_refused_by_name),
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(figures_of_other_versions_are_understood),
        cmocka_unit_test(the_bytes_of_each_type_stay),
        cmocka_unit_test(the_bytes_of_a_configuration_stay),
        cmocka_unit_test(the_bytes_of_a_watermark_stay),
        cmocka_unit_test(the_bytes_of_a_databases_figures_stay),
        cmocka_unit_test(the_bytes_of_a_beginning_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
