/* Clients that are connected and never read: they cost the member a bounded amount of memory, and hear the
 * present state when they read again. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/gcs_box.h"

#define READERS 24
#define WARM_PUTS 12000 /* fills the sockets: each takes up to 8 MiB, a small frame 768 bytes of it */
#define PUTS 6000

static int64_t soon(void)
{
    return mob_now() + 60 * MOB_SEC;
}

static void put_many(struct mob_gcs *gcs, int count)
{
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = "k",
        .key_length = 1,
        .value = "v",
        .value_length = 1,
        .if_version = MOB_GCS_ANY_VERSION};
    for (int i = 0; i < count; i++)
        assert_int_equal(mob_gcs_put_wait(gcs, &put, soon(), NULL), MOB_OK);
}

/* Without what other processes share with it. */
static int64_t private_bytes(pid_t pid)
{
    char path[64], line[256];
    long long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        (void)sscanf(line, "RssAnon: %lld", &kb);
    fclose(file);
    assert_true(kb > 0);
    return kb << 10;
}

static void who_does_not_read_costs_little(void **state)
{
    (void)state;
    static struct gcs_box box;
    struct mob_gcs *readers[READERS], *writer;
    struct mob_gcs_position at, last;
    gcs_box_init(&box, "no"); /* durable with each commit, so there is always news */
    gcs_box_start(&box);
    writer = gcs_box_client(&box);
    for (int i = 0; i < READERS; i++) {
        readers[i] = gcs_box_client(&box);
        for (int64_t deadline = soon(); !mob_gcs_connected(readers[i]); poll(NULL, 0, 1)) {
            assert_true(mob_now() < deadline);
            mob_gcs_step(readers[i], mob_now());
        }
    }
    put_many(writer, WARM_PUTS);
    int64_t before = private_bytes(box.gcs);
    put_many(writer, PUTS);
    int64_t grown = private_bytes(box.gcs) - before;
    print_message(
        "%d puts beside %d that do not read: %lld KiB more\n", PUTS, READERS, (long long)grown >> 10);
    /* each could hold 64 KiB; told of every put it would be 13 MiB */
    const char *sanitize = getenv("MOBULA_SANITIZE"); /* its allocator keeps what is freed */
    if (sanitize == NULL || *sanitize == 0)
        assert_true(grown < 6 << 20);
    mob_gcs_position(writer, &last);
    for (int i = 0; i < READERS; i++) {
        for (int64_t deadline = soon();;) {
            mob_gcs_step(readers[i], mob_now());
            mob_gcs_position(readers[i], &at);
            if (at.durable >= last.durable && at.durable > PUTS)
                break;
            assert_true(mob_now() < deadline);
            struct pollfd fd = {.fd = mob_gcs_fd(readers[i]), .events = POLLIN};
            poll(&fd, 1, 10);
        }
        mob_gcs_destroy(readers[i]);
    }
    mob_gcs_destroy(writer);
    gcs_box_fini(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_read_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
