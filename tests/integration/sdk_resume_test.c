/* A driver whose node is killed goes on with the next one: every future becomes ready, with the right value.
 * ctest: timeout=240
 */
#include <mobula/mobula.h>

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define SECONDS 1000000000ll
#define PATIENCE (60 * SECONDS)

static struct node_box box;
static struct mob_client *client;
static pthread_t killer;
static sem_t please_kill, killed, test_ends;
static void *killer_main(void *arg);

static int set_up(void **state)
{
    (void)state;
    sem_init(&please_kill, 0, 0);
    sem_init(&killed, 0, 0);
    sem_init(&test_ends, 0, 0);
    if (pthread_create(&killer, NULL, killer_main, NULL) != 0)
        return -1;
    node_box_start(&box, 2);
    client = driver_connect(NULL);
    driver_deploy(client, "probe");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mob_disconnect(client);
    sem_post(&test_ends);
    sem_post(&please_kill);
    pthread_join(killer, NULL);
    node_box_stop(&box);
    return 0;
}

/* Kills and restarts the node while the test's thread waits in the library. It stays until the end: a process
 * that it started dies with it. */
static void *killer_main(void *arg)
{
    (void)arg;
    for (int delay_ms = 5; sem_wait(&please_kill) == 0 && sem_trywait(&test_ends) != 0; delay_ms += 20) {
        poll(NULL, 0, delay_ms);
        node_box_kill(&box);
        poll(NULL, 0, 50);
        node_box_restart(&box);
        sem_post(&killed);
    }
    return NULL;
}

static void futures_survive_their_node(void **state)
{
    (void)state;
    enum { N = 20000, WINDOW = 2000, KILLS = 3 };
    static struct mob_future *futures[WINDOW];
    for (int kill = 0; kill < KILLS; kill++) {
        int64_t sum = 0, v;
        sem_post(&please_kill);
        for (int i = 0; i < N + WINDOW; i++) {
            if (i >= WINDOW) {
                OK(mob_get_i64(futures[i % WINDOW], PATIENCE, &v));
                assert_int_equal(v, i - WINDOW);
                sum += v;
                mob_release(futures[i % WINDOW]);
            }
            if (i < N)
                OK(mob_submit(client, "probe.echo_i64", MOB_ARGS(mob_i64(i)), NULL, &futures[i % WINDOW]));
        }
        assert_int_equal(sum, (int64_t)N * (N - 1) / 2);
        sem_wait(&killed);
    }
}

static void puts_and_references_survive_too(void **state)
{
    (void)state;
    struct mob_future *big, *small, *echo, *sum, *promise;
    struct mob_value *value;
    const void *data;
    size_t size;
    int64_t v;
    uint8_t bytes[20000];
    memset(bytes, 5, sizeof bytes);
    OK(mob_put(client, mob_bytes(bytes, sizeof bytes), &big));
    OK(mob_put(client, mob_i64(30), &small));
    node_box_kill(&box);
    OK(mob_promise(client, &promise));
    node_box_restart(&box);
    OK(mob_submit(client, "probe.echo_bytes", MOB_ARGS(mob_ref(big)), NULL, &echo));
    OK(mob_submit(client, "probe.sum_all", MOB_ARGS(mob_ref(small), mob_ref(promise)), NULL, &sum));
    OK(mob_get(echo, PATIENCE, &value));
    OK(mob_value_data(value, &data, &size));
    assert_int_equal(size, sizeof bytes);
    assert_memory_equal(data, bytes, size);
    mob_value_release(value);
    OK(mob_fulfil(promise, mob_i64(12)));
    OK(mob_get_i64(sum, PATIENCE, &v));
    assert_int_equal(v, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(futures_survive_their_node),
        cmocka_unit_test(puts_and_references_survive_too),
    };
    return cmocka_run_group_tests_name("sdk_resume", tests, set_up, tear_down);
}
