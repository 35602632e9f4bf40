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
#include "tests/support/golden_file.h"
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

/* ---- versions ---- */

static const struct mob_store_facts FACTS = {
    .cluster = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
    .shard = 17,
    .epoch = 18,
    .seq = 19,
    .seq_limit = 20,
    .watermark = 21,
    .blocks = 22,
    .keys = 23,
    .clients = 24,
    .logs = 25,
    .newest_log = 26,
    .wall_ns = 27,
    .refused_wall_ns = 28};
static struct golden_text file;

static void read_file(void)
{
    int fd = open(f.path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, file.bytes, sizeof file.bytes);
    assert_true(n > 0);
    file.used = (size_t)n;
    close(fd);
}

static void write_file(void)
{
    int fd = open(f.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, file.bytes, file.used), file.used);
    close(fd);
}

static void one_is_written_as_its_version_says(void **state)
{
    struct mob_store_facts older = FACTS;
    (void)state;
    older.seq--;
    assert_int_equal(mob_store_note_write(f.note, &older, true), MOB_OK);
    assert_int_equal(mob_store_note_write(f.note, &FACTS, false), MOB_OK);
    read_file();
    golden_compare("gcs/store_note_v1.bin", &file);
}

/* As it was written once; and written on, the newest counts. */
static void one_of_version_1_is_read_for_ever(void **state)
{
    struct mob_store_facts facts;
    (void)state;
    golden_read("gcs/store_note_v1.bin", &file);
    write_file();
    assert_int_equal(mob_store_note_read(f.note, &facts), MOB_OK);
    assert_memory_equal(&facts, &FACTS, sizeof facts);
    assert_int_equal(mob_store_note_unknown(f.note), 0);
    write_seq(100, true);
    assert_int_equal(seq_of_next_life(), 100);
}

/* In place of the digit of both records, or of one: the program that wrote it knows what the other means. */
static void set_version(const char *version, bool both)
{
    golden_read("gcs/store_note_v1.bin", &file);
    for (int i = both ? 0 : 1; i < 2; i++)
        memcpy(file.bytes + i * 4096 + strlen("mobula stored "), version, strlen(version));
    write_file();
}

static void one_of_an_unknown_version_is_refused_with_both_named(void **state)
{
    static const struct {
        const char *text;
        uint32_t number;
    } versions[] = {{"2", 2}, {"9", 9}, {"10", 10}, {"99", 99}};
    char text[MOB_STORE_NOTE_TEXT_MAX], words[64];
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct mob_store_facts facts = {.seq = 5};
        set_version(versions[i / 2].text, i % 2 == 0);
        assert_int_equal(mob_store_note_read(f.note, &facts), MOB_VERSION);
        assert_int_equal(facts.seq, 5);
        assert_int_equal(mob_store_note_unknown(f.note), versions[i / 2].number);
        assert_true(mob_store_note_refuses(f.socket, text));
        snprintf(words, sizeof words, " is of version %u, and this program knows version 1. ",
            versions[i / 2].number);
        if (strstr(text, words) == NULL)
            fail_msg("\"%s\" is not in: %s", words, text);
    }
}

static void one_whose_version_is_no_number_is_damaged(void **state)
{
    char text[MOB_STORE_NOTE_TEXT_MAX];
    struct mob_store_facts facts;
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        set_version((const char *[]){"x", "1x", "-", "0"}[i], true);
        assert_int_equal(mob_store_note_read(f.note, &facts), MOB_CORRUPT);
        assert_false(mob_store_note_refuses(f.socket, text));
    }
}

static void one_refuses_when_it_says_so(void **state)
{
    char text[MOB_STORE_NOTE_TEXT_MAX], expected[MOB_STORE_NOTE_TEXT_MAX];
    (void)state;
    assert_false(mob_store_note_refuses(f.socket, text)); /* there is none */
    write_seq(1, true);
    assert_false(mob_store_note_refuses(f.socket, text));
    assert_int_equal(mob_store_note_write(f.note, &FACTS, true), MOB_OK);
    assert_true(mob_store_note_refuses(f.socket, text));
    mob_store_note_refusal(&FACTS, expected);
    assert_string_equal(text, expected);
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
        cmocka_unit_test_setup_teardown(one_is_written_as_its_version_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_of_version_1_is_read_for_ever, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            one_of_an_unknown_version_is_refused_with_both_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_whose_version_is_no_number_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_refuses_when_it_says_so, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
