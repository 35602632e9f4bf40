/* A driver whose node is gone goes on with the next one, and takes everything along that was not
 * acknowledged: also when that one dies, too, while it is being told. The nodes are segments in this process;
 * a thread answers at the socket. ctest: threads */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/fake_node.h"
#include "tests/support/written_over.h"

enum { NODES_MAX = 4, SPECS = 60 };
#define ROOT ((struct mob_task_id){{{1, 2, 3}}, 7})

struct cluster {
    char directory[64];
    int listen_fd;
    struct fake_node nodes[NODES_MAX];
    int lives_ms[NODES_MAX]; /* the node's session, from its welcome on; -1 = as long as the test */
    int socks[NODES_MAX];
    int count, welcomed;
    pthread_t thread;
    struct mob_client *client;
};

static void welcome(struct cluster *c, int sock)
{
    struct fake_node *node = &c->nodes[c->welcomed];
    struct mob_session_welcome w = {.magic = MOB_SESSION_MAGIC,
        .version = MOB_SESSION_VERSION,
        .slot = node->slot,
        .incarnation = (uint64_t)c->welcomed + 1,
        .job = {ROOT.stream},
        .root = ROOT};
    struct iovec piece = {&w, sizeof w};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int fds[2] = {mob_store_memfd(node->store), mob_store_eventfd(node->store)};
    *head =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
    memcpy(CMSG_DATA(head), fds, sizeof fds);
    MOB_ASSERT(sendmsg(sock, &message, MSG_NOSIGNAL) == (ssize_t)sizeof w);
}

/* One session after the other, a node each. */
static void *serve(void *arg)
{
    struct cluster *c = arg;
    for (; c->welcomed < c->count; __atomic_add_fetch(&c->welcomed, 1, __ATOMIC_RELEASE)) {
        struct mob_session_hello hello;
        int sock = accept(c->listen_fd, NULL, NULL);
        if (sock < 0)
            return NULL;
        MOB_ASSERT(recv(sock, &hello, sizeof hello, 0) == (ssize_t)sizeof hello);
        welcome(c, sock);
        c->socks[c->welcomed] = sock;
        if (c->lives_ms[c->welcomed] >= 0) {
            poll(NULL, 0, c->lives_ms[c->welcomed]);
            close(sock);
            c->socks[c->welcomed] = -1;
        }
    }
    return NULL;
}

static void open_cluster(struct cluster *c, int count, const uint32_t *ring_bytes, const int *lives_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *c = (struct cluster){.directory = "/tmp/mob-resume-XXXXXX", .count = count};
    assert_non_null(mkdtemp(c->directory));
    for (int i = 0; i < count; i++) {
        fake_node_open(&c->nodes[i], MOB_CLIENT_DRIVER, ring_bytes[i]);
        c->lives_ms[i] = lives_ms[i];
        c->socks[i] = -1;
    }
    snprintf(address.sun_path, sizeof address.sun_path, "%s/" MOB_NODE_SOCKET_NAME, c->directory);
    c->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(c->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(c->listen_fd, 8), 0);
    assert_int_equal(pthread_create(&c->thread, NULL, serve, c), 0);
    struct mob_connect_options options = {
        .struct_size = sizeof options, .directory = c->directory, .timeout_ns = 10 * MOB_SEC};
    assert_int_equal(mob_connect(&options, &c->client), MOB_OK);
}

static void close_cluster(struct cluster *c)
{
    mob_client_free(c->client); /* to disconnect is to wait for a node that says nothing */
    shutdown(c->listen_fd, SHUT_RDWR);
    pthread_join(c->thread, NULL);
    close(c->listen_fd);
    for (int i = 0; i < c->count; i++) {
        if (c->socks[i] >= 0)
            close(c->socks[i]);
        mob_store_destroy(c->nodes[i].store);
    }
    char path[128];
    snprintf(path, sizeof path, "%s/" MOB_NODE_SOCKET_NAME, c->directory);
    unlink(path);
    rmdir(c->directory);
}

/* The node at the other end is gone: the driver notices when it waits. Until it is with the last one. */
static void notice(struct cluster *c, struct mob_future *future)
{
    int64_t v, deadline = mob_now() + 20 * MOB_SEC;
    while (__atomic_load_n(&c->welcomed, __ATOMIC_ACQUIRE) < c->count) {
        assert_int_equal(mob_get_i64(future, 50 * MOB_MS, &v), MOB_TIMEOUT);
        assert_true(mob_now() < deadline);
    }
}

static void all_specs_arrive(struct fake_node *node)
{
    for (uint32_t i = 0; i < SPECS;) {
        assert_true(fake_node_take(node));
        if (node->record.type != MOB_OUT_SPEC && node->record.type != MOB_OUT_SIBLING)
            continue;
        uint32_t index;
        if (node->record.type == MOB_OUT_SPEC) {
            struct mob_spec_head head;
            memcpy(&head, node->body + 8, sizeof head);
            index = head.task.index;
        } else {
            memcpy(&index, node->body + 8, sizeof index);
        }
        assert_int_equal(index, i);
        i++;
    }
}

static struct mob_future *submit_all(struct cluster *c)
{
    const struct mob_function *function = fake_function(c->client, "t.run", "i64 -> i64");
    struct mob_future *future = NULL;
    for (int i = 0; i < SPECS; i++)
        assert_int_equal(
            mob_submit_function(c->client, function, MOB_ARGS(mob_i64(i)), NULL, &future), MOB_OK);
    return future;
}

static void everything_that_was_not_acknowledged_comes_along(void **state)
{
    (void)state;
    struct cluster c;
    open_cluster(&c, 2, (uint32_t[]){0, 0}, (int[]){50, -1});
    struct mob_future *last = submit_all(&c);
    notice(&c, last);
    all_specs_arrive(&c.nodes[1]);
    close_cluster(&c);
}

/* The second node's ring is too small for all of it, and it dies before it has read any: the third gets all.
 */
static void node_that_dies_while_it_is_told_leaves_nothing_behind(void **state)
{
    (void)state;
    struct cluster c;
    open_cluster(&c, 3, (uint32_t[]){0, 4096, 0}, (int[]){50, 300, -1});
    struct mob_future *last = submit_all(&c);
    notice(&c, last);
    all_specs_arrive(&c.nodes[2]);
    close_cluster(&c);
}

static int first_session(struct cluster *c)
{
    while (__atomic_load_n(&c->welcomed, __ATOMIC_ACQUIRE) == 0)
        poll(NULL, 0, 1);
    return c->socks[0];
}

static void says_that_it_comes_again(int sock)
{
    struct pollfd p = {sock, POLLIN, 0};
    uint8_t byte = 0;
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_int_equal(recv(sock, &byte, 1, 0), 1);
    assert_int_equal(byte, MOB_SESSION_AGAIN);
    assert_int_equal(recv(sock, &byte, 1, 0), 0);
}

/* Its node lives, and would end the job for a mere end of the session. */
static void rings_that_were_written_over_are_left_for_others(void **state)
{
    (void)state;
    struct cluster c;
    int64_t v, deadline = mob_now() + 20 * MOB_SEC;
    open_cluster(&c, 2, (uint32_t[]){0, 0}, (int[]){-1, -1});
    struct mob_future *last = submit_all(&c);
    struct pollfd p = {first_session(&c), POLLIN, 0};
    inbound_ring_written_over(c.client->store);
    while (poll(&p, 1, 0) == 0 && mob_now() < deadline)
        assert_int_equal(mob_get_i64(last, 50 * MOB_MS, &v), MOB_TIMEOUT);
    says_that_it_comes_again(c.socks[0]);
    close(c.socks[0]);
    c.socks[0] = -1;
    notice(&c, last);
    all_specs_arrive(&c.nodes[1]);
    close_cluster(&c);
}

/* The second node lives on, and its ring has no room for all of it. A loop does not wait for room: it begins
 * anew with the next one. */
static void session_that_does_not_take_all_is_no_good_bye(void **state)
{
    (void)state;
    struct cluster c;
    open_cluster(&c, 3, (uint32_t[]){0, 4096, 0}, (int[]){-1, -1, -1});
    (void)submit_all(&c);
    assert_true(mob_client_fd(c.client) >= 0);
    close(first_session(&c));
    for (int64_t deadline = mob_now() + 20 * MOB_SEC;
         __atomic_load_n(&c.welcomed, __ATOMIC_ACQUIRE) < c.count && mob_now() < deadline; poll(NULL, 0, 5))
        mob_client_step(c.client);
    says_that_it_comes_again(c.socks[1]);
    all_specs_arrive(&c.nodes[2]);
    c.socks[0] = -1;
    close_cluster(&c);
}

/* A buffer that is being filled stays where it is, and what was written into it arrives. */
static void put_goes_on_in_the_next_segment(void **state)
{
    (void)state;
    enum { BYTES = 200000 };
    struct cluster c;
    void *data;
    struct mob_put_buffer *buffer;
    struct mob_future *put, *last;
    open_cluster(&c, 2, (uint32_t[]){0, 0}, (int[]){50, -1});
    assert_int_equal(mob_put_begin(c.client, BYTES, &data, &buffer), MOB_OK);
    memset(data, 1, BYTES / 2);
    last = submit_all(&c);
    notice(&c, last);
    memset((uint8_t *)data + BYTES / 2, 2, BYTES - BYTES / 2);
    assert_int_equal(mob_put_finish(buffer, &put), MOB_OK);
    assert_null(c.client->old_stores); /* unmapped when nobody needed it any more */
    struct mob_value *value;
    const void *read;
    size_t size;
    assert_int_equal(mob_get(put, MOB_SEC, &value), MOB_OK);
    assert_int_equal(mob_value_data(value, &read, &size), MOB_OK);
    assert_int_equal(size, BYTES);
    assert_int_equal(((const uint8_t *)read)[0], 1);
    assert_int_equal(((const uint8_t *)read)[BYTES - 1], 2);
    mob_value_release(value);
    struct mob_object_info info;
    char text[MOB_TEXT_ID_MAX];
    struct mob_object_id id;
    mob_future_id(put, text);
    assert_int_equal(mob_object_id_parse(text, &id), MOB_OK);
    assert_true(mob_store_object_info(c.nodes[1].store, id, &info) && info.sealed);
    close_cluster(&c);
}

/* The ring is full when the node dies: the put that waits for room goes to the next one, bytes and record. */
static void put_that_waits_for_room_goes_to_the_next_node(void **state)
{
    (void)state;
    enum { BYTES = 3000, PUTS = 12 };
    static uint8_t bytes[BYTES];
    struct cluster c;
    struct mob_future *puts[PUTS];
    open_cluster(&c, 2, (uint32_t[]){8192, 262144}, (int[]){200, -1});
    for (int i = 0; i < PUTS; i++) {
        memset(bytes, i + 1, BYTES);
        assert_int_equal(mob_put(c.client, mob_bytes(bytes, BYTES), &puts[i]), MOB_OK);
    }
    for (int i = 0; i < PUTS; i++) {
        struct mob_object_info info;
        char text[MOB_TEXT_ID_MAX];
        struct mob_object_id id;
        mob_future_id(puts[i], text);
        assert_int_equal(mob_object_id_parse(text, &id), MOB_OK);
        if (!mob_store_object_info(c.nodes[1].store, id, &info) || !info.sealed)
            fail_msg("put %d is not in the next segment", i);
    }
    int records = 0;
    while (fake_node_take(&c.nodes[1]))
        records += c.nodes[1].record.type == MOB_OUT_PUT;
    assert_int_equal(records, PUTS);
    close_cluster(&c);
}

/* The heads of the calls were acknowledged long ago, those of one actor with another method than before: what
 * is sent again has each its own. */
static void calls_whose_heads_are_gone_are_sent_again_whole(void **state)
{
    (void)state;
    enum { ACTORS = 3, CALLS = 600, TAKEN = 401 };
    static const struct mob_method_entry methods[] = {{.name = "inc", .signature = "i64 by -> i64"},
        {.name = "dec", .signature = "i64 by -> i64"}, {.name = NULL}};
    struct mob_actor *actors[ACTORS];
    struct mob_future *last = NULL;
    struct cluster c;
    open_cluster(&c, 2, (uint32_t[]){0, 0}, (int[]){50, -1});
    for (int i = 0; i < ACTORS; i++)
        actors[i] = fake_actor(c.client, methods);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(
            mob_actor_call(actors[i % ACTORS], i % ACTORS == 1 && i / 50 % 2 == 1 ? "dec" : "inc",
                MOB_ARGS(mob_i64(i)), NULL, &last),
            MOB_OK);
    for (int i = 0; i < ACTORS + TAKEN; i++)
        assert_true(fake_node_take(&c.nodes[0]));
    notice(&c, last);
    for (int i = TAKEN; i < CALLS; i++) {
        struct mob_spec_head head;
        do
            assert_true(fake_node_take(&c.nodes[1]));
        while (c.nodes[1].record.type != MOB_OUT_SPEC);
        memcpy(&head, c.nodes[1].body + 8, sizeof head);
        assert_int_equal(head.task.index, ACTORS + i);
        assert_true(mob_actor_id_eq(head.actor, mob_actor_identity(actors[i % ACTORS])));
        assert_int_equal(head.caller_seq, i / ACTORS);
        assert_int_equal(head.method, i % ACTORS == 1 && i / 50 % 2 == 1);
    }
    close_cluster(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_that_was_not_acknowledged_comes_along),
        cmocka_unit_test(calls_whose_heads_are_gone_are_sent_again_whole),
        cmocka_unit_test(node_that_dies_while_it_is_told_leaves_nothing_behind),
        cmocka_unit_test(rings_that_were_written_over_are_left_for_others),
        cmocka_unit_test(session_that_does_not_take_all_is_no_good_bye),
        cmocka_unit_test(put_goes_on_in_the_next_segment),
        cmocka_unit_test(put_that_waits_for_room_goes_to_the_next_node),
    };
    cmocka_set_test_filter(getenv("MOBULA_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
