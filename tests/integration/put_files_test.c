/* Files of large puts go with their job, and no sooner. */
#include <mobula/mobula.h>

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/node_box.h"

#define PATIENCE (30 * MOB_SEC)
#define OK(call) assert_int_equal((call), MOB_OK)

enum { BYTES = 300000, PUTS = 3 };

static struct node_box box;

static int files(void)
{
    char path[128];
    int count = 0;
    snprintf(path, sizeof path, "%s/objects", box.directory);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        count += d->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void wait_for_files(int expected)
{
    for (int64_t deadline = mob_now() + PATIENCE; files() != expected; poll(NULL, 0, 5))
        if (mob_now() > deadline)
            fail_msg("%d files instead of %d", files(), expected);
}

static struct mob_client *connect_as(const char *name)
{
    struct mob_client *client = NULL;
    struct mob_connect_options options = {
        .struct_size = sizeof options, .job_name = name, .timeout_ns = PATIENCE};
    OK(mob_connect(&options, &client));
    return client;
}

static void put_some(struct mob_client *client, struct mob_future *puts[PUTS])
{
    static uint8_t bytes[BYTES];
    for (int i = 0; i < PUTS; i++) {
        memset(bytes, i + 1, sizeof bytes);
        OK(mob_put(client, mob_bytes(bytes, sizeof bytes), &puts[i]));
    }
    OK(mob_flush(client, PATIENCE));
}

static void check(struct mob_future *put, int i)
{
    struct mob_value *value;
    const void *data;
    size_t size;
    OK(mob_get(put, PATIENCE, &value));
    OK(mob_value_data(value, &data, &size));
    assert_int_equal(size, BYTES);
    assert_int_equal(((const uint8_t *)data)[BYTES - 1], i + 1);
    mob_value_release(value);
}

/* The first "end" ends the job of this name, the second one deletes its lineage. */
static void end_and_purge(struct mob_client *client, const char *name)
{
    char *jobs, *reply, pattern[64], request[128];
    OK(mob_query(client, "job", "{\"op\":\"list\"}", PATIENCE, &jobs));
    snprintf(pattern, sizeof pattern, "\"name\":\"%s\"", name);
    char *at = strstr(jobs, pattern);
    assert_non_null(at);
    while (at > jobs && *at != '{') /* its object */
        at--;
    at = strstr(at, "\"id\":\"");
    assert_non_null(at);
    at += strlen("\"id\":\"");
    static const char *const ops[] = {"end", "purge"};
    for (int i = 0; i < 2; i++) {
        snprintf(
            request, sizeof request, "{\"op\":\"%s\",\"id\":\"%.*s\"}", ops[i], (int)strcspn(at, "\""), at);
        OK(mob_query(client, "job", request, PATIENCE, &reply));
        free(reply);
    }
    free(jobs);
}

static void files_of_a_job_go_with_it(void **state)
{
    (void)state;
    struct mob_client *stays = connect_as("stays"), *goes = connect_as("goes");
    struct mob_future *kept[PUTS], *gone[PUTS];
    put_some(stays, kept);
    put_some(goes, gone);
    assert_int_equal(files(), 2 * PUTS);
    mob_disconnect(goes);
    end_and_purge(stays, "goes");
    wait_for_files(PUTS);
    node_box_kill(&box);
    node_box_restart(&box);
    for (int i = 0; i < PUTS; i++)
        check(kept[i], i); /* from their files */
    wait_for_files(PUTS);
    mob_disconnect(stays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_of_a_job_go_with_it)};
    node_box_start(&box, 1);
    int failed = cmocka_run_group_tests_name("put_files", tests, NULL, NULL);
    node_box_stop(&box);
    return failed;
}
