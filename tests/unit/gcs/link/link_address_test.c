/* Links over TCP: two ends on ports of 127.0.0.1, which the kernel picks. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/link/link.h"

#define PATIENCE_NS (20 * MOB_SEC)
#define BODY_BYTES 900000u

struct end {
    struct mob_link_self self;
    struct mob_link *link;
    enum mob_status ended; /* MOB_OK: it goes on */
    uint32_t frames;
    uint64_t sum; /* of all bytes of bodies */
};
struct pair {
    char address[32];
    struct mob_listener listener;
    struct mob_chunk_pool pool;
    struct end dialer, acceptor;
};

static struct mob_link_self self_of(uint64_t id)
{
    struct mob_link_self self = {.id = id, .shard = 3, .protocol_min = 1, .protocol_max = 1};
    memset(&self.cluster, 7, sizeof self.cluster);
    memset(self.secret, 9, sizeof self.secret);
    snprintf(self.place.link, sizeof self.place.link, "127.0.0.1:%llu", (unsigned long long)id);
    return self;
}

static void address_of(int fd, char out[32])
{
    struct sockaddr_in address = {0};
    socklen_t length = sizeof address;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(address.sin_family, AF_INET);
    assert_int_equal(address.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    snprintf(out, 32, "127.0.0.1:%u", ntohs(address.sin_port));
}

static void pair_init(struct pair *p)
{
    *p = (struct pair){.dialer.self = self_of(11), .acceptor.self = self_of(22)};
    assert_int_equal(mob_link_listen("127.0.0.1:0", &p->listener), MOB_OK);
    address_of(p->listener.fd, p->address);
}

static void pair_close(struct pair *p)
{
    mob_link_destroy(p->dialer.link);
    mob_link_destroy(p->acceptor.link);
    p->dialer.link = p->acceptor.link = NULL;
    p->dialer.ended = p->acceptor.ended = MOB_OK;
}

static void pair_fini(struct pair *p)
{
    pair_close(p);
    assert_int_equal(p->pool.live_bytes, 0);
    mob_chunk_pool_fini(&p->pool);
    mob_listener_fini(&p->listener);
}

static void pair_open(struct pair *p)
{
    assert_int_equal(mob_link_dial(&p->dialer.self, &p->pool, p->address, &p->dialer.link), MOB_OK);
    struct pollfd ready = {.fd = p->listener.fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 10000), 1);
    assert_int_equal(mob_link_accept(&p->acceptor.self, &p->pool, &p->listener, &p->acceptor.link), MOB_OK);
}

static void drain(struct end *e)
{
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    enum mob_status status = MOB_AGAIN;
    if (e->link == NULL || e->ended != MOB_OK)
        return;
    mob_link_io(e->link, true);
    while ((status = mob_link_next(e->link, &frame, &chunk)) == MOB_OK) {
        e->frames++;
        for (uint32_t i = 0; i < frame.body_bytes; i++)
            e->sum += frame.body[i];
    }
    e->ended = status == MOB_AGAIN ? MOB_OK : status;
}

static void wait_for(struct end *e, struct pollfd *out)
{
    bool watched = e->link != NULL && e->ended == MOB_OK;
    bool write = watched && mob_link_wants_write(e->link);
    *out = (struct pollfd){
        .fd = watched ? mob_link_fd(e->link) : -1, .events = (short)(POLLIN | (write ? POLLOUT : 0))};
}

/* As a loop does it, until a condition holds. */
static void run_until(struct pair *p, bool (*holds)(const struct pair *p))
{
    for (int64_t deadline = mob_now() + PATIENCE_NS;;) {
        struct pollfd fds[2];
        drain(&p->dialer);
        drain(&p->acceptor);
        if (holds(p))
            return;
        assert_true(mob_now() < deadline);
        wait_for(&p->dialer, &fds[0]);
        wait_for(&p->acceptor, &fds[1]);
        assert_true(poll(fds, 2, 1000) >= 0);
    }
}

static bool both_up(const struct pair *p)
{
    return mob_link_up(p->dialer.link) && mob_link_up(p->acceptor.link);
}
static bool both_ended(const struct pair *p)
{
    return p->dialer.ended != MOB_OK && p->acceptor.ended != MOB_OK;
}
static bool dialer_ended(const struct pair *p)
{
    return p->dialer.ended != MOB_OK;
}
static bool all_came(const struct pair *p)
{
    return p->acceptor.frames == 8 && p->dialer.frames == 1;
}

static void who_knows_the_secret_is_let_in(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    pair_open(&p);
    run_until(&p, both_up);
    assert_int_equal(mob_link_peer(p.dialer.link), 22);
    assert_int_equal(mob_link_peer(p.acceptor.link), 11);
    assert_string_equal(mob_link_peer_place(p.acceptor.link)->link, "127.0.0.1:11");
    pair_fini(&p);
}

static void a_wrong_secret_is_refused_on_both_sides(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    p.dialer.self.secret[31] ^= 1;
    pair_open(&p);
    run_until(&p, both_ended);
    assert_int_equal(p.dialer.ended, MOB_UNAUTHENTICATED);
    assert_int_equal(p.acceptor.ended, MOB_UNAUTHENTICATED);
    pair_fini(&p);
}

/* A small frame does not wait for the acknowledgement of the one before. */
static void neither_end_waits_to_fill_a_segment(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    pair_open(&p);
    for (int i = 0; i < 2; i++) {
        int on = 0;
        socklen_t length = sizeof on;
        int fd = mob_link_fd(i == 0 ? p.dialer.link : p.acceptor.link);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &length), 0);
        assert_int_not_equal(on, 0);
    }
    pair_fini(&p);
}

static void more_than_a_socket_holds_arrives_whole(void **state)
{
    (void)state;
    struct pair p;
    uint64_t expected = 0;
    pair_init(&p);
    pair_open(&p);
    run_until(&p, both_up);
    struct mob_chunk *chunk = mob_chunk_create(&p.pool, BODY_BYTES);
    for (uint32_t i = 0; i < BODY_BYTES; i++) {
        chunk->bytes[i] = (uint8_t)(i * 7);
        expected += 8u * chunk->bytes[i];
    }
    struct mob_link_message m = {
        .type = MOB_GCS_UPD, .body = chunk->bytes, .body_bytes = BODY_BYTES, .chunk = chunk};
    for (int i = 0; i < 8; i++)
        assert_int_equal(mob_link_send(p.dialer.link, &m), MOB_OK);
    m = (struct mob_link_message){.type = MOB_GCS_ACK, .body = "\3", .body_bytes = 1};
    assert_int_equal(mob_link_send(p.acceptor.link, &m), MOB_OK);
    mob_chunk_release(chunk);
    run_until(&p, all_came);
    assert_int_equal(p.acceptor.sum, expected);
    assert_int_equal(p.dialer.sum, 3);
    assert_int_equal(mob_link_unsent(p.dialer.link), 0);
    pair_fini(&p);
}

/* Who connects to a port where nobody listens hears it at once, or from the link. */
static void nobody_there_is_an_end(void **state)
{
    (void)state;
    struct pair p;
    struct sockaddr_in free_port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair_init(&p);
    assert_int_equal(bind(silent, (struct sockaddr *)&free_port, sizeof free_port), 0);
    address_of(silent, p.address);
    enum mob_status status = mob_link_dial(&p.dialer.self, &p.pool, p.address, &p.dialer.link);
    if (status == MOB_OK) {
        run_until(&p, dialer_ended);
        status = p.dialer.ended == MOB_CLOSED ? MOB_UNAVAILABLE : p.dialer.ended;
    }
    assert_int_equal(status, MOB_UNAVAILABLE);
    close(silent);
    pair_fini(&p);
}

/* A member that was killed and starts again has its port back, though connections of before still end. */
static void the_next_life_listens_on_the_same_port(void **state)
{
    (void)state;
    struct pair p;
    pair_init(&p);
    pair_open(&p);
    run_until(&p, both_up);
    mob_listener_fini(&p.listener);
    mob_link_destroy(p.acceptor.link); /* closed by this side first: the port stays in TIME_WAIT */
    p.acceptor.link = NULL;
    run_until(&p, dialer_ended);
    pair_close(&p);
    assert_int_equal(mob_link_listen(p.address, &p.listener), MOB_OK);
    pair_open(&p);
    run_until(&p, both_up);
    pair_fini(&p);
}

/* A name would block in the resolver; another port than the one that was meant is nobody's. */
static void only_numbers_are_addresses(void **state)
{
    (void)state;
    static const char *const wrong[] = {"127.0.0.1", "localhost:80", "127.0.0.1:http",
        "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:-1", "127.0.0.1:+80", ":4711", "256.0.0.1:1", ""};
    struct pair p;
    struct mob_listener listener;
    pair_init(&p);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        enum mob_status listens = mob_link_listen(wrong[i], &listener);
        enum mob_status dials = mob_link_dial(&p.dialer.self, &p.pool, wrong[i], &p.dialer.link);
        if (listens != MOB_INVALID || dials != MOB_INVALID)
            fail_msg("\"%s\": %s, %s", wrong[i], mob_status_code(listens), mob_status_code(dials));
    }
    pair_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_knows_the_secret_is_let_in),
        cmocka_unit_test(a_wrong_secret_is_refused_on_both_sides),
        cmocka_unit_test(neither_end_waits_to_fill_a_segment),
        cmocka_unit_test(more_than_a_socket_holds_arrives_whole),
        cmocka_unit_test(nobody_there_is_an_end),
        cmocka_unit_test(the_next_life_listens_on_the_same_port),
        cmocka_unit_test(only_numbers_are_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
