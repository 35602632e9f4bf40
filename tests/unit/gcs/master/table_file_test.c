/* The masters' table in a file: what stays when a slot is torn, when the newest was not synced, and of a file
 * of version 1. What both forms of the table have in common: integration/gcs_master. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/hash.h"
#include "gcs/master/table_inner.h"

#define SLOT_BYTES 4096

static char directory[32], path[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/mob-table-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/table", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char lock[80];
    snprintf(lock, sizeof lock, "%s.lock", path);
    unlink(lock);
    unlink(path);
    return rmdir(directory);
}

static struct mob_table_answer ask(struct mob_table_question q)
{
    struct mob_table_answer a = {.status = MOB_UNAVAILABLE};
    table_file_ask(path, &q, &a);
    return a;
}

static enum mob_status set_row(struct mob_master_row from, struct mob_master_row to)
{
    return ask((struct mob_table_question){.op = MOB_TABLE_SET_ROW, .old_row = from, .row = to}).status;
}

static enum mob_status insert(uint64_t epoch, uint64_t term)
{
    struct mob_gcs_config config = {.epoch = epoch, .term = term, .count = 1, .members = {100 + epoch}};
    return ask((struct mob_table_question){.op = MOB_TABLE_INSERT, .config = config}).status;
}

static uint64_t newest_epoch(void)
{
    struct mob_table_answer a = ask((struct mob_table_question){.op = MOB_TABLE_NEWEST});
    assert_int_equal(a.status, MOB_OK);
    assert_true(a.config.epoch == 0 || a.config.members[0] == 100 + a.config.epoch);
    return a.config.epoch;
}

static uint64_t beat(void)
{
    struct mob_table_answer a = ask((struct mob_table_question){.op = MOB_TABLE_ROW});
    assert_int_equal(a.status, MOB_OK);
    return a.row.beat;
}

static void spoil(int slot)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && pwrite(fd, "spoiled", 7, (off_t)slot * SLOT_BYTES + 40) == 7);
    close(fd);
}

static void read_slots(uint8_t out[3 * SLOT_BYTES])
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && read(fd, out, 3 * SLOT_BYTES) == 3 * SLOT_BYTES);
    close(fd);
}

/* The one slot whose bytes differ; -1: none. */
static int changed_slot(const uint8_t *before, const uint8_t *after)
{
    int changed = -1;
    for (int i = 0; i < 3; i++)
        if (memcmp(before + i * SLOT_BYTES, after + i * SLOT_BYTES, SLOT_BYTES) != 0) {
            assert_int_equal(changed, -1); /* one only */
            changed = i;
        }
    return changed;
}

static void each_change_leaves_the_one_before_whole(void **state)
{
    (void)state;
    static uint8_t before[3 * SLOT_BYTES], after[3 * SLOT_BYTES];
    assert_int_equal(newest_epoch(), 0);
    assert_int_equal(set_row((struct mob_master_row){0, 0}, (struct mob_master_row){1, 0}), MOB_OK);
    int last = 0;
    for (uint64_t epoch = 1; epoch <= 6; epoch++) {
        read_slots(before);
        assert_int_equal(insert(epoch, 1), MOB_OK);
        read_slots(after);
        int slot = changed_slot(before, after);
        assert_int_equal(slot, 1 - last);
        last = slot;
        assert_int_equal(
            set_row((struct mob_master_row){1, epoch - 1}, (struct mob_master_row){1, epoch}), MOB_OK);
        read_slots(before);
        assert_int_equal(changed_slot(before, after), 2);
    }
    assert_int_equal(newest_epoch(), 6);
    assert_int_equal(beat(), 6);
    assert_int_equal(insert(6, 1), MOB_CONFLICT);
    assert_int_equal(insert(7, 2), MOB_CONFLICT);
    assert_int_equal(set_row((struct mob_master_row){1, 5}, (struct mob_master_row){2, 0}), MOB_CONFLICT);
}

static void a_torn_slot_costs_what_was_not_acknowledged_only(void **state)
{
    (void)state;
    assert_int_equal(
        set_row((struct mob_master_row){0, 0}, (struct mob_master_row){1, 0}), MOB_OK); /* slot 0 */
    assert_int_equal(insert(1, 1), MOB_OK); /* slot 1 */
    assert_int_equal(insert(2, 1), MOB_OK); /* slot 0 */
    spoil(0); /* as if the power had gone while it was written */
    assert_int_equal(newest_epoch(), 1);
    assert_int_equal(insert(2, 1), MOB_OK); /* slot 0 again: 1 is the only good one */
    spoil(1);
    assert_int_equal(newest_epoch(), 2);
    assert_int_equal(set_row((struct mob_master_row){1, 0}, (struct mob_master_row){1, 1}), MOB_OK);
    spoil(2); /* a beat that came to the disk in part */
    assert_int_equal(newest_epoch(), 2);
    assert_int_equal(beat(), 0);
    spoil(0);
    assert_int_equal(ask((struct mob_table_question){.op = MOB_TABLE_NEWEST}).status, MOB_CORRUPT);
}

/* As versions 1 and 2 wrote it. */
struct config_2 {
    uint64_t epoch, term;
    uint32_t count, start;
    uint64_t members[7];
};

/* Its first slot is torn; the second has a chain that was just started, the third a newer beat. */
static void a_file_of_version_2_is_taken_over(void **state)
{
    (void)state;
    static uint8_t bytes[3 * SLOT_BYTES];
    struct {
        uint64_t magic, version, number;
        struct mob_master_row row;
        struct config_2 newest;
        uint64_t hash;
    } slot = {.magic = 0x4c42544d42554f4dull,
        .version = 2,
        .newest = {.epoch = 5, .term = 7, .count = 1, .start = 1, .members = {105}}};
    for (uint64_t i = 0; i < 3; i++) {
        slot.number = 8 - i % 2 + i;
        slot.row = (struct mob_master_row){7, 20 + i};
        slot.hash = mob_hash64(&slot, sizeof slot - sizeof slot.hash);
        memcpy(bytes + i * SLOT_BYTES, &slot, sizeof slot);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, bytes, sizeof bytes) == sizeof bytes);
    close(fd);
    spoil(0);
    struct mob_table_answer a = ask((struct mob_table_question){.op = MOB_TABLE_NEWEST});
    assert_int_equal(a.status, MOB_OK);
    assert_int_equal(a.config.epoch, 5);
    assert_int_equal(a.config.members[0], 105);
    assert_int_equal(a.config.started, 5);
    assert_int_equal(beat(), 22);
    assert_int_equal(insert(6, 7), MOB_OK); /* beside slots of the version before */
    assert_int_equal(newest_epoch(), 6);
    assert_int_equal(beat(), 22);
}

static void other_versions_are_taken_over_or_refused(void **state)
{
    (void)state;
    struct {
        uint64_t magic, version;
        struct mob_master_row row;
        struct config_2 newest;
        uint64_t hash;
    } old = {.magic = 0x4c42544d42554f4dull,
        .version = 1,
        .row = {7, 9},
        .newest = {.epoch = 5, .term = 7, .count = 1, .members = {105}}};
    old.hash = mob_hash64(&old, sizeof old - sizeof old.hash);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, &old, sizeof old) == sizeof old);
    close(fd);
    assert_int_equal(newest_epoch(), 5);
    assert_int_equal(insert(6, 7), MOB_OK);
    assert_int_equal(newest_epoch(), 6);
    assert_int_equal(beat(), 9);
    assert_int_equal(insert(7, 7), MOB_OK);
    uint64_t newer = 4;
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && pwrite(fd, &newer, sizeof newer, sizeof newer) == sizeof newer);
    close(fd);
    assert_int_equal(ask((struct mob_table_question){.op = MOB_TABLE_NEWEST}).status, MOB_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_change_leaves_the_one_before_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_torn_slot_costs_what_was_not_acknowledged_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_of_version_2_is_taken_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_versions_are_taken_over_or_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
