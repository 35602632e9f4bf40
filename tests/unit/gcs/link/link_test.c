/* Two ends of a link: who proves the secret is let in, who does not is told why, and frames arrive whole. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/link/link.h"

struct pair {
    char directory[64], address[112];
    struct mob_listener listener;
    struct mob_chunk_pool pool;
    struct mob_link_self near, far; /* far: the end that is connected to */
    struct mob_link *dialer, *acceptor;
    enum mob_status dialer_end, acceptor_end;
    uint32_t frames;
    uint64_t sum;
};

static struct mob_link_self self_of(uint64_t id)
{
    struct mob_link_self self = {.id = id, .shard = 3, .protocol_min = 1, .protocol_max = 1};
    memset(&self.cluster, 7, sizeof self.cluster);
    memset(self.secret, 9, sizeof self.secret);
    snprintf(self.place.link, sizeof self.place.link, "/link/%llu", (unsigned long long)id);
    return self;
}

static void pair_init(struct pair *p)
{
    memset(p, 0, sizeof *p);
    snprintf(p->directory, sizeof p->directory, "/tmp/mob-link-XXXXXX");
    assert_non_null(mkdtemp(p->directory));
    snprintf(p->address, sizeof p->address, "%s/s", p->directory);
    p->near = self_of(11);
    p->far = self_of(22);
    assert_int_equal(mob_link_listen(p->address, &p->listener), MOB_OK);
}

static void pair_fini(struct pair *p)
{
    mob_link_destroy(p->dialer);
    mob_link_destroy(p->acceptor);
    assert_int_equal(p->pool.live_bytes, 0);
    mob_chunk_pool_fini(&p->pool);
    mob_listener_fini(&p->listener);
    unlink(p->address);
    rmdir(p->directory);
}

static void pair_open(struct pair *p)
{
    assert_int_equal(mob_link_dial(&p->near, &p->pool, p->address, &p->dialer), MOB_OK);
    struct pollfd ready = {.fd = p->listener.fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 5000), 1);
    assert_int_equal(mob_link_accept(&p->far, &p->pool, &p->listener, &p->acceptor), MOB_OK);
}

static void drain(struct pair *p, struct mob_link *link, enum mob_status *end)
{
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    if (*end != MOB_OK)
        return;
    mob_link_io(link, true);
    enum mob_status status;
    while ((status = mob_link_next(link, &frame, &chunk)) == MOB_OK) {
        p->frames++;
        for (uint32_t i = 0; i < frame.body_bytes; i++)
            p->sum += frame.body[i];
    }
    if (status != MOB_AGAIN)
        *end = status;
}

static void exchange(struct pair *p)
{
    for (int i = 0; i < 200; i++) {
        drain(p, p->dialer, &p->dialer_end);
        drain(p, p->acceptor, &p->acceptor_end);
    }
}

static void who_knows_the_secret_is_let_in(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    pair_open(&p);
    exchange(&p);
    assert_true(mob_link_up(p.dialer) && mob_link_up(p.acceptor));
    assert_int_equal(mob_link_peer(p.dialer), 22);
    assert_int_equal(mob_link_peer(p.acceptor), 11);
    assert_string_equal(mob_link_peer_place(p.acceptor)->link, "/link/11");
    pair_fini(&p);
}

static void expect_refusal(struct pair *p, enum mob_status reason)
{
    pair_open(p);
    exchange(p);
    assert_false(mob_link_up(p->dialer));
    assert_false(mob_link_up(p->acceptor));
    assert_int_equal(p->dialer_end, reason);
    assert_int_equal(p->acceptor_end, reason);
    pair_fini(p);
}

static void a_wrong_secret_is_refused_on_both_sides(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    p.near.secret[31] ^= 1;
    expect_refusal(&p, MOB_UNAUTHENTICATED);
}

static void a_foreign_cluster_is_refused_on_both_sides(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    p.near.cluster.b[0] ^= 1;
    expect_refusal(&p, MOB_DENIED);
}

static void another_shard_is_refused_on_both_sides(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    p.far.shard++; /* the dialer's frames are told from others by the number that it sends */
    expect_refusal(&p, MOB_MISDIRECTED);
}

static void no_common_version_is_refused_on_both_sides(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    p.near.protocol_min = p.near.protocol_max = 2;
    expect_refusal(&p, MOB_VERSION);
}

static void the_newest_common_version_is_taken(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    p.near.protocol_max = 5;
    pair_open(&p);
    exchange(&p);
    assert_true(mob_link_up(p.dialer) && mob_link_up(p.acceptor));
    pair_fini(&p);
}

/* What the dialer said of itself was changed on its way: its proof is of something else. */
static void a_changed_opening_is_refused(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    assert_int_equal(mob_link_dial(&p.near, &p.pool, p.address, &p.dialer), MOB_OK);
    mob_link_io(p.dialer, false);
    int fd = accept4(p.listener.fd, NULL, NULL, SOCK_CLOEXEC);
    uint8_t bytes[1024];
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    assert_true(n > (ssize_t)MOB_GCS_FRAME_HEADER_BYTES);
    struct mob_gcs_frame frame;
    size_t used;
    assert_int_equal(mob_gcs_frame_decode(bytes, (size_t)n, 4096, &frame, &used), MOB_OK);
    struct mob_gcs_link_hello hello;
    memcpy(&hello, frame.head, sizeof hello);
    snprintf(hello.place.link, sizeof hello.place.link, "/elsewhere");
    frame.head = (const uint8_t *)&hello;
    uint8_t header[MOB_GCS_FRAME_HEADER_BYTES];
    mob_gcs_frame_encode(&frame, header);
    /* the acceptor behind a second socket */
    struct mob_listener back;
    struct mob_link *middle;
    char address[112];
    snprintf(address, sizeof address, "%s/m", p.directory);
    assert_int_equal(mob_link_listen(address, &back), MOB_OK);
    assert_int_equal(mob_link_dial(&p.near, &p.pool, address, &middle), MOB_OK);
    assert_int_equal(mob_link_accept(&p.far, &p.pool, &back, &p.acceptor), MOB_OK);
    /* `middle` is only a socket to the acceptor here: its own opening is not sent */
    int out = mob_link_fd(middle);
    assert_int_equal(send(out, header, sizeof header, 0), sizeof header);
    assert_int_equal(send(out, &hello, sizeof hello, 0), sizeof hello);
    drain(&p, p.acceptor, &p.acceptor_end);
    n = recv(out, bytes, sizeof bytes, 0);
    assert_true(n > 0);
    assert_int_equal(send(fd, bytes, (size_t)n, 0), n); /* the challenge, as it is */
    drain(&p, p.dialer, &p.dialer_end);
    assert_int_equal(p.dialer_end, MOB_UNAUTHENTICATED); /* its proof covers another HELLO */
    assert_false(mob_link_up(p.acceptor));
    mob_link_destroy(middle);
    close(fd);
    mob_listener_fini(&back);
    unlink(address);
    pair_fini(&p);
}

static void large_and_small_frames_arrive_whole(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    pair_open(&p);
    exchange(&p);
    struct mob_chunk *chunk = mob_chunk_create(&p.pool, 900000);
    uint64_t expected = 0;
    for (uint32_t i = 0; i < 900000; i++)
        chunk->bytes[i] = (uint8_t)(i * 7);
    for (uint32_t i = 0; i < 900000; i++)
        expected += 2u * chunk->bytes[i];
    uint8_t more[16] = {1, 2, 3};
    expected += 50 * 6 + 50u * chunk->bytes[1];
    for (int i = 0; i < 2; i++) {
        struct mob_link_message m = {
            .type = MOB_GCS_UPD, .body = chunk->bytes, .body_bytes = 900000, .chunk = chunk};
        assert_int_equal(mob_link_send(p.dialer, &m), MOB_OK);
    }
    for (int i = 0; i < 50; i++) {
        struct mob_link_message m = {.type = MOB_GCS_ACK,
            .body = chunk->bytes + 1,
            .body_bytes = 1,
            .more = more,
            .more_bytes = sizeof more};
        assert_int_equal(mob_link_send(p.dialer, &m), MOB_OK);
    }
    mob_chunk_release(chunk);
    exchange(&p);
    assert_int_equal(p.frames, 52);
    assert_int_equal(p.sum, expected);
    assert_int_equal(mob_link_unsent(p.dialer), 0);
    pair_fini(&p);
}

static void nothing_is_sent_before_both_are_proved(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    pair_open(&p);
    struct mob_link_message m = {.type = MOB_GCS_ACK};
    assert_int_equal(mob_link_send(p.dialer, &m), MOB_UNAVAILABLE);
    exchange(&p);
    assert_int_equal(mob_link_send(p.dialer, &m), MOB_OK);
    pair_fini(&p);
}

/* An end that was connected to and hears nothing, or only the first word, is for its owner to give up; one
 * that is up may be silent for ever. */
static void who_proves_nothing_is_silent(void **state)
{
    (void)state;
    struct pair p;
    int64_t late = 10 * MOB_OPENING_SILENCE_NS;
    pair_init(&p);
    pair_open(&p);
    assert_false(mob_link_silent(p.acceptor, mob_now()));
    assert_true(mob_link_silent(p.acceptor, mob_now() + late));
    mob_link_io(p.dialer, false);
    drain(&p, p.acceptor, &p.acceptor_end);
    assert_true(mob_link_silent(p.acceptor, mob_now() + late)); /* a HELLO proves nothing */
    assert_true(mob_link_silent(p.dialer, mob_now() + late));
    exchange(&p);
    assert_false(mob_link_silent(p.acceptor, mob_now() + late));
    assert_false(mob_link_silent(p.dialer, mob_now() + late));
    pair_fini(&p);
}

/* ---- no descriptors ---- */

enum { SPARE_AND_ONE = 1, NOT_EVEN_THAT = 0 };

/* This process may open no descriptor above those that it has; `more`: how many of its own it may still use.
 */
static struct rlimit limit_descriptors(int highest, rlim_t more)
{
    struct rlimit before, now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = before;
    now.rlim_cur = more == NOT_EVEN_THAT ? 0 : (rlim_t)highest + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    return before;
}

/* All numbers up to that of the last one are taken afterwards. */
static int fill_descriptors(int *fds, int max)
{
    int highest = -1;
    for (int i = 0; i < max; i++) {
        fds[i] = dup(STDERR_FILENO);
        assert_true(fds[i] >= 0);
        highest = fds[i] > highest ? fds[i] : highest;
    }
    return highest;
}

static void without_descriptors_who_connects_sees_the_end(void **state)
{
    (void)state;
    struct pair p;
    int fds[64];
    uint8_t byte;
    pair_init(&p);
    for (int round = 0; round < 2; round++) { /* what was given up for the first is there for the second */
        assert_int_equal(mob_link_dial(&p.near, &p.pool, p.address, &p.dialer), MOB_OK);
        mob_link_io(p.dialer, false);
        struct rlimit before = limit_descriptors(fill_descriptors(fds, 64), SPARE_AND_ONE);
        assert_int_equal(mob_link_accept(&p.far, &p.pool, &p.listener, &p.acceptor), MOB_AGAIN);
        setrlimit(RLIMIT_NOFILE, &before);
        struct pollfd ended = {.fd = mob_link_fd(p.dialer), .events = POLLIN};
        assert_int_equal(poll(&ended, 1, 5000), 1);
        assert_true(recv(mob_link_fd(p.dialer), &byte, 1, 0) <= 0);
        assert_int_equal(mob_listener_poll_fd(&p.listener, mob_now()), p.listener.fd);
        for (int i = 0; i < 64; i++)
            close(fds[i]);
        mob_link_destroy(p.dialer);
    }
    pair_open(&p);
    exchange(&p);
    assert_true(mob_link_up(p.acceptor));
    pair_fini(&p);
}

/* Another thread has the last one: nothing can be said, and nobody asks again without end. */
static void without_the_spare_descriptor_a_listener_rests(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    assert_int_equal(mob_link_dial(&p.near, &p.pool, p.address, &p.dialer), MOB_OK);
    mob_link_io(p.dialer, false);
    struct rlimit before = limit_descriptors(0, NOT_EVEN_THAT);
    assert_int_equal(mob_link_accept(&p.far, &p.pool, &p.listener, &p.acceptor), MOB_AGAIN);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(mob_listener_poll_fd(&p.listener, p.listener.rest_until_ns - 1), -1);
    assert_int_equal(mob_listener_poll_fd(&p.listener, p.listener.rest_until_ns), p.listener.fd);
    assert_int_equal(mob_link_accept(&p.far, &p.pool, &p.listener, &p.acceptor), MOB_OK);
    assert_true(p.listener.spare_fd >= 0);
    exchange(&p);
    assert_true(mob_link_up(p.acceptor));
    pair_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_knows_the_secret_is_let_in),
        cmocka_unit_test(a_wrong_secret_is_refused_on_both_sides),
        cmocka_unit_test(a_foreign_cluster_is_refused_on_both_sides),
        cmocka_unit_test(another_shard_is_refused_on_both_sides),
        cmocka_unit_test(no_common_version_is_refused_on_both_sides),
        cmocka_unit_test(the_newest_common_version_is_taken),
        cmocka_unit_test(a_changed_opening_is_refused),
        cmocka_unit_test(large_and_small_frames_arrive_whole),
        cmocka_unit_test(nothing_is_sent_before_both_are_proved),
        cmocka_unit_test(who_proves_nothing_is_silent),
        cmocka_unit_test(without_descriptors_who_connects_sees_the_end),
        cmocka_unit_test(without_the_spare_descriptor_a_listener_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
