/* Connections to the node's socket that say nothing: they keep nobody out, and not for ever. */
#include "tests/unit/runtime/node/node_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

static int connect_silently(const struct nx *nx)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/" MOB_NODE_SOCKET_NAME, nx->directory);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static bool was_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    assert_true(n == 0 || (n < 0 && errno == EAGAIN));
    return n == 0;
}

static void the_oldest_gives_way_to_one_too_many(void **state)
{
    (void)state;
    enum { MORE = 3 };
    static int silent[NODE_STRANGERS_MAX + MORE];
    struct nx nx;
    struct nx_driver driver;
    nx_open(&nx, 0);
    for (uint32_t i = 0; i < NODE_STRANGERS_MAX + MORE; i++) {
        silent[i] = connect_silently(&nx);
        nx_turn(&nx, 1);
    }
    assert_int_equal(nx.node->strangers.count, NODE_STRANGERS_MAX);
    for (uint32_t i = 0; i < NODE_STRANGERS_MAX + MORE; i++)
        assert_int_equal(was_closed(silent[i]), i < MORE);
    nx_connect(&nx, &driver, NULL); /* its place is another one's, and free again after its hello */
    assert_true(was_closed(silent[MORE]));
    assert_int_equal(nx.node->strangers.count, NODE_STRANGERS_MAX - 1);
    for (uint32_t i = 0; i < NODE_STRANGERS_MAX + MORE; i++)
        close(silent[i]);
    nx_turn(&nx, NODE_STRANGERS_MAX);
    assert_int_equal(nx.node->strangers.count, 0);
    nx_close_with(&nx, &driver);
}

static void who_says_nothing_is_closed_after_a_while(void **state)
{
    (void)state;
    struct nx nx;
    nx_open(&nx, 0);
    int first = connect_silently(&nx), second = connect_silently(&nx);
    nx_turn(&nx, 2);
    assert_int_equal(nx.node->strangers.count, 2);
    nx.node->strangers.at[0].since_ns -= NODE_HELLO_NS;
    nx.node->next_tick_ns = 0;
    nx_turn(&nx, 1);
    assert_true(was_closed(first));
    assert_false(was_closed(second));
    close(first);
    close(second);
    nx_close(&nx);
}

/* So that an open of anything fails from here on. */
static struct rlimit leave_no_descriptors(void)
{
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next >= 0);
    close(next);
    none = (struct rlimit){(rlim_t)next, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

static void without_descriptors_who_connects_sees_the_end(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    nx_open(&nx, 0);
    int refused = connect_silently(&nx);
    struct rlimit before = leave_no_descriptors();
    nx_turn(&nx, 2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(was_closed(refused));
    assert_int_equal(nx.node->strangers.count, 0);
    nx_connect(&nx, &driver, NULL);
    close(refused);
    nx_close_with(&nx, &driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_gives_way_to_one_too_many),
        cmocka_unit_test(who_says_nothing_is_closed_after_a_while),
        cmocka_unit_test(without_descriptors_who_connects_sees_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
