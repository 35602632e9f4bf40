/* A node and its control store for tests of restarts: one driver, what kills what, and the files in which
 * tasks leave traces. Included by one test program each.
 */
#ifndef MOB_TESTS_CHAOS_RESTART_FIXTURE_H
#define MOB_TESTS_CHAOS_RESTART_FIXTURE_H

#include <mobula/mobula.h>

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/modules/chaos_model.h"
#include "tests/support/driver.h"
#include "tests/support/node_box.h"

#define PATIENCE (100 * MOB_SEC)

static struct node_box box;
static struct mob_client *client;
static char trace[160], gate[160];

static inline void connect_with(const char *key)
{
    struct mob_connect_options options = {
        .struct_size = sizeof options, .idempotency_key = key, .timeout_ns = PATIENCE};
    client = driver_connect(&options);
}

static inline int set_up(void **state)
{
    (void)state;
    node_box_start(&box, 2);
    box.gcs.args[0] = "--gcs-expire-ms";
    box.gcs.args[1] = "2000";
    snprintf(trace, sizeof trace, "%s/trace", box.gcs.directory);
    snprintf(gate, sizeof gate, "%s/gate", box.gcs.directory);
    connect_with(NULL);
    driver_deploy(client, "chaos");
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    mob_disconnect(client);
    node_box_stop(&box);
    return 0;
}

static inline int lines(const char *what)
{
    return trace_lines(trace, what);
}

static inline void wait_for_lines(const char *what, int count)
{
    for (int64_t deadline = mob_now() + PATIENCE; lines(what) < count; poll(NULL, 0, 2))
        if (mob_now() > deadline)
            fail_msg("%d lines \"%s\" instead of %d", lines(what), what, count);
}

static inline void open_gate(void)
{
    gate_open(gate);
}

static inline void kill_everything(void)
{
    gcs_box_end(&box.gcs.redis, SIGKILL);
    gcs_box_end(&box.gcs.gcs, SIGKILL);
    node_box_kill(&box);
    node_box_revive(&box);
}

static inline void kill_node(void)
{
    node_box_kill(&box);
    node_box_revive(&box);
}

static inline int64_t get_of(struct mob_future *future)
{
    int64_t v = -1;
    enum mob_status status = mob_get_i64(future, PATIENCE, &v);
    if (status != MOB_OK)
        fail_msg("%s: %s", mob_status_code(status), status == MOB_TIMEOUT ? "" : mob_future_error(future));
    return v;
}

static inline void check_bytes(struct mob_future *future, int64_t seed, size_t expected)
{
    struct mob_value *value;
    const void *data;
    size_t size;
    enum mob_status status = mob_get(future, PATIENCE, &value);
    if (status != MOB_OK)
        fail_msg("%s: %s", mob_status_code(status), status == MOB_TIMEOUT ? "" : mob_future_error(future));
    OK(mob_value_data(value, &data, &size));
    assert_int_equal(size, expected);
    uint8_t *model = malloc(expected);
    chaos_fill(seed, model, expected);
    assert_memory_equal(data, model, expected);
    free(model);
    mob_value_release(value);
}

static inline void kill_workers(void)
{
    pid_t workers[64];
    int n = node_box_workers(&box, workers, 64);
    assert_true(n > 0);
    for (int i = 0; i < n; i++)
        kill(workers[i], SIGKILL);
}

#endif
