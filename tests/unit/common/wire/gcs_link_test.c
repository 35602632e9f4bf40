/* Messages between members: what does not add up is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/hash.h"
#include "common/wire/gcs_link.h"
#include "common/wire/gcs_msg.h"

static enum mob_status decode(const struct mob_gcs_link_msg *m, const uint8_t *body, uint32_t body_bytes)
{
    uint8_t head[MOB_GCS_LINK_HEAD_MAX], header[MOB_GCS_FRAME_HEADER_BYTES];
    struct mob_gcs_frame frame = {.type = m->type,
        .epoch = 1,
        .from = 2,
        .head = head,
        .head_bytes = mob_gcs_link_encode(m, head),
        .body = body,
        .body_bytes = body_bytes};
    struct mob_gcs_link_msg back;
    mob_gcs_frame_encode(&frame, header);
    frame.body_crc = mob_crc32c(body, body_bytes);
    return mob_gcs_link_decode(&frame, &back);
}

/* An entry with `drops` sums up its own body only, the frame everything. */
static void the_sum_of_an_entry_is_checked(void **state)
{
    (void)state;
    uint8_t body[16 + 2 * sizeof(uint64_t)] = "0123456789abcdef";
    for (uint32_t drops = 0; drops <= 2; drops += 2) {
        struct mob_gcs_link_msg m = {.type = MOB_GCS_UPD,
            .link = {.to = 3, .seq = 8, .prev = 7},
            .entry = {.epoch = 1,
                .client = 4,
                .request = 5,
                .body_bytes = 16,
                .drop_count = drops,
                .body_crc = mob_crc32c(body, 16),
                .op = drops > 0 ? MOB_GCS_OP_JOB_DROP : MOB_GCS_OP_APPEND}};
        uint32_t bytes = 16 + drops * (uint32_t)sizeof(uint64_t);
        assert_int_equal(decode(&m, body, bytes), MOB_OK);
        m.entry.body_crc ^= 1;
        assert_int_equal(decode(&m, body, bytes), MOB_CORRUPT);
        m.entry.body_crc ^= 1;
        m.entry.body_bytes++; /* more than there is */
        assert_int_equal(decode(&m, body, bytes), MOB_CORRUPT);
        m.entry.body_bytes = UINT32_MAX;
        assert_int_equal(decode(&m, body, bytes), MOB_CORRUPT);
    }
}

static void a_configuration_names_its_last_start_truly(void **state)
{
    (void)state;
    static const struct {
        uint64_t epoch, started;
        uint32_t start;
        bool valid;
    } rows[] = {{1, 0, 0, true}, {9, 7, 0, true}, {9, 9, 1, true}, {9, 9, 0, false}, {9, 7, 1, false},
        {9, 0, 1, false}, {9, 10, 0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mob_gcs_link_msg m = {.type = MOB_GCS_SYNC,
            .config = {.epoch = rows[i].epoch,
                .count = 1,
                .start = rows[i].start,
                .started = rows[i].started,
                .members = {5}}};
        enum mob_status status = decode(&m, NULL, 0);
        if (status != (rows[i].valid ? MOB_OK : MOB_CORRUPT))
            fail_msg("row %zu: %s", i, mob_status_code(status));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_of_an_entry_is_checked),
        cmocka_unit_test(a_configuration_names_its_last_start_truly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
