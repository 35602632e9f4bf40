/* What a lone member's store had is known as long as one of two records is whole. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/shard/store_note.h"
#include "tests/support/scratch.h"

static struct {
    char directory[64], socket[96], path[112];
    struct mob_store_note *note;
} f;

static int set_up(void **state)
{
    (void)state;
    scratch_make(f.directory, sizeof f.directory, "mob-note");
    snprintf(f.socket, sizeof f.socket, "%s/gcs.sock", f.directory);
    snprintf(f.path, sizeof f.path, "%s" MOB_STORE_NOTE_SUFFIX, f.socket);
    return mob_store_note_open(f.socket, &f.note) == MOB_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    mob_store_note_destroy(f.note);
    scratch_remove(f.directory);
    return 0;
}

static void write_seq(uint64_t seq, bool synced)
{
    struct mob_store_facts facts = {.epoch = 3, .seq = seq, .seq_limit = 1000};
    assert_int_equal(mob_store_note_write(f.note, &facts, synced), MOB_OK);
}

static uint64_t seq_of_next_life(void)
{
    struct mob_store_facts facts = {0};
    mob_store_note_destroy(f.note);
    assert_int_equal(mob_store_note_open(f.socket, &f.note), MOB_OK);
    assert_int_equal(mob_store_note_read(f.note, &facts), MOB_OK);
    return facts.seq;
}

/* A byte of the record at that place is another one. */
static void damage(off_t at)
{
    uint8_t byte;
    int fd = open(f.path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, at + 50), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at + 50), 1);
    close(fd);
}

static void where_nothing_was_stored_there_is_none(void **state)
{
    struct mob_store_facts facts;
    (void)state;
    assert_int_equal(mob_store_note_read(f.note, &facts), MOB_NOT_FOUND);
    assert_int_equal(mob_store_note_look(f.socket, &facts), MOB_NOT_FOUND);
}

static void the_newest_counts_synced_or_not(void **state)
{
    (void)state;
    write_seq(1, true);
    assert_int_equal(seq_of_next_life(), 1);
    write_seq(2, false);
    assert_int_equal(seq_of_next_life(), 2);
    write_seq(3, true);
    assert_int_equal(seq_of_next_life(), 3);
    write_seq(4, true);
    write_seq(5, false);
    write_seq(6, false);
    assert_int_equal(seq_of_next_life(), 6);
}

/* What need not be on the disk is never written over what must be. */
static void one_that_is_torn_leaves_the_other(void **state)
{
    struct mob_store_facts facts;
    (void)state;
    write_seq(1, true);
    write_seq(2, false);
    damage(4096);
    assert_int_equal(seq_of_next_life(), 1);
    write_seq(3, false);
    damage(0);
    assert_int_equal(seq_of_next_life(), 3);
    damage(4096);
    assert_int_equal(mob_store_note_look(f.socket, &facts), MOB_CORRUPT);
    write_seq(4, true);
    assert_int_equal(seq_of_next_life(), 4);
}

/* As a life leaves it that ends between making the file and writing what it stored. */
static void one_without_a_record_says_nothing(void **state)
{
    static const uint8_t zeros[8192];
    struct mob_store_facts facts;
    (void)state;
    int fd = open(f.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, zeros, sizeof zeros), sizeof zeros);
    close(fd);
    assert_int_equal(mob_store_note_look(f.socket, &facts), MOB_NOT_FOUND);
}

static void one_that_ends_too_early_is_damaged(void **state)
{
    struct mob_store_facts facts;
    (void)state;
    write_seq(1, true);
    for (off_t length = 1; length < 100; length += 7) {
        assert_int_equal(truncate(f.path, length), 0);
        assert_int_equal(mob_store_note_look(f.socket, &facts), MOB_CORRUPT);
        write_seq(1, true);
    }
}

static void one_that_is_removed_is_made_again(void **state)
{
    struct mob_store_facts facts;
    (void)state;
    write_seq(1, true);
    assert_int_equal(mob_store_note_remove(f.note), MOB_OK);
    assert_int_equal(mob_store_note_look(f.socket, &facts), MOB_NOT_FOUND);
    assert_int_equal(mob_store_note_remove(f.note), MOB_OK);
    write_seq(2, false);
    assert_int_equal(seq_of_next_life(), 2);
}

/* It stands in one line of a log that a supervisor keeps, whatever the numbers are. */
static void a_refusal_fits_and_says_what_helps(void **state)
{
    char text[MOB_STORE_NOTE_TEXT_MAX];
    struct mob_store_facts facts = {
        .epoch = 7, .seq = 12345, .logs = 2, .clients = 3, .keys = 4, .wall_ns = 1700000000 * MOB_SEC};
    (void)state;
    mob_store_note_refusal(&facts, text);
    assert_string_equal(text,
        "Redis is empty, and had data: epoch 7, seq 12345, 2 logs, 3 clients, 4 keys at "
        "2023-11-14T22:13:20Z. "
        "Put its files back; or start with nothing: gcs-start-without-all on");
    facts.epoch = facts.seq = 1ull << 40;
    facts.logs = facts.clients = facts.keys = 1000000;
    mob_store_note_refusal(&facts, text);
    assert_non_null(strstr(text, "gcs-start-without-all on"));
}

/* The disk was full, or the member was killed, when it was made. */
static void one_that_was_half_made_gets_the_rest_of_its_room(void **state)
{
    (void)state;
    struct stat whole, now;
    write_seq(7, true);
    assert_int_equal(stat(f.path, &whole), 0);
    const off_t made[] = {0, 100, 4096};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        assert_int_equal(truncate(f.path, made[i]), 0);
        write_seq(8 + i, true);
        assert_int_equal(stat(f.path, &now), 0);
        assert_int_equal(now.st_size, whole.st_size);
        assert_int_equal(seq_of_next_life(), 8 + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(where_nothing_was_stored_there_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_counts_synced_or_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_torn_leaves_the_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_without_a_record_says_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_ends_too_early_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_removed_is_made_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_was_half_made_gets_the_rest_of_its_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_fits_and_says_what_helps, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
