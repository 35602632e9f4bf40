/* What a queue is given arrives whole and in order, however little the socket takes at once, and what was
 * kept is let go once. */
#include "gcs/link/out_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define BLOCKS 300
#define BLOCK_BYTES 5000u

static struct block {
    uint8_t bytes[BLOCK_BYTES];
    int let_go;
} blocks[BLOCKS];

static void let_go(void *holder)
{
    ((struct block *)holder)->let_go++;
}

struct fixture {
    int ends[2];
    struct mob_out_queue out;
    uint8_t expected[BLOCKS * (BLOCK_BYTES + 8)];
    size_t expected_bytes;
};

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){.out = {.let_go = let_go}};
    memset(blocks, 0, sizeof blocks);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, f.ends), 0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    mob_out_fini(&f->out);
    close(f->ends[0]);
    close(f->ends[1]);
    return 0;
}

static void expect(struct fixture *f, const void *bytes, size_t length)
{
    memcpy(f->expected + f->expected_bytes, bytes, length);
    f->expected_bytes += length;
}

/* Each block behind a head of two copies. */
static void fill(struct fixture *f)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        memset(blocks[i].bytes, (int)(i * 7), BLOCK_BYTES);
        mob_out_copy(&f->out, &i, sizeof i);
        mob_out_copy(&f->out, "head", 4);
        mob_out_keep(&f->out, blocks[i].bytes, BLOCK_BYTES, &blocks[i]);
        expect(f, &i, sizeof i);
        expect(f, "head", 4);
        expect(f, blocks[i].bytes, BLOCK_BYTES);
    }
    assert_int_equal(f->out.count, 2 * BLOCKS);
    assert_int_equal(f->out.unsent, f->expected_bytes);
}

static void all_arrives_in_order_at_a_slow_reader(void **state)
{
    struct fixture *f = *state;
    static uint8_t got[sizeof f->expected];
    size_t got_bytes = 0;
    int again = 0;
    fill(f);
    while (got_bytes < f->expected_bytes) {
        enum mob_status status = mob_out_write(&f->out, f->ends[0]);
        assert_int_equal(status, f->out.count > 0 ? MOB_AGAIN : MOB_OK);
        again += status == MOB_AGAIN;
        ssize_t n = read(f->ends[1], got + got_bytes, 7777);
        assert_true(n > 0);
        got_bytes += (size_t)n;
        assert_true(got_bytes + f->out.unsent <= f->expected_bytes);
        for (int i = 1; i < BLOCKS; i++)
            assert_true(blocks[i].let_go <= blocks[i - 1].let_go);
    }
    assert_true(again > 0); /* else the socket took all at once, and this showed nothing */
    assert_int_equal(f->out.unsent, 0);
    assert_memory_equal(got, f->expected, f->expected_bytes);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(blocks[i].let_go, 1);
}

static void what_is_dropped_is_let_go_and_the_queue_goes_on(void **state)
{
    struct fixture *f = *state;
    char got[8];
    fill(f);
    assert_int_equal(mob_out_write(&f->out, f->ends[0]), MOB_AGAIN);
    mob_out_drop(&f->out);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(blocks[i].let_go, 1);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(f->out.unsent, 0);
    while (read(f->ends[1], f->expected, sizeof f->expected) > 0)
        ;
    mob_out_copy(&f->out, "anew", 4);
    assert_int_equal(mob_out_write(&f->out, f->ends[0]), MOB_OK);
    assert_int_equal(read(f->ends[1], got, sizeof got), 4);
    assert_memory_equal(got, "anew", 4);
}

static void nothing_to_keep_is_let_go_at_once(void **state)
{
    struct fixture *f = *state;
    mob_out_keep(&f->out, blocks[0].bytes, 0, &blocks[0]);
    assert_int_equal(blocks[0].let_go, 1);
    assert_int_equal(mob_out_write(&f->out, f->ends[0]), MOB_OK);
}

static void a_socket_without_an_other_end_fails(void **state)
{
    struct fixture *f = *state;
    close(f->ends[1]);
    f->ends[1] = -1;
    mob_out_keep(&f->out, blocks[0].bytes, BLOCK_BYTES, &blocks[0]);
    assert_int_equal(mob_out_write(&f->out, f->ends[0]), MOB_IO);
    assert_int_equal(blocks[0].let_go, 0);
    mob_out_drop(&f->out);
    assert_int_equal(blocks[0].let_go, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_arrives_in_order_at_a_slow_reader, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_dropped_is_let_go_and_the_queue_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_to_keep_is_let_go_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_socket_without_an_other_end_fails, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
