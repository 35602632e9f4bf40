/* Large puts of drivers while the disk is full: a small file system of the test's own. */
#include "tests/unit/runtime/node/node_fixture.h"

#include <sched.h>
#include <sys/mount.h>

#include "runtime/node/durable_puts.h"

enum { BYTES = 100000 };

static bool may_mount;

/* The folder of puts with room for one of them. Where one may not mount, there is nothing to test with. */
static void open_small(struct nx *nx)
{
    char folder[96];
    if (!may_mount)
        skip();
    nx_open(nx, 0);
    snprintf(folder, sizeof folder, "%s/objects", nx->directory);
    assert_int_equal(mount("small", folder, "tmpfs", 0, "size=160k"), 0);
}

static void set_size(const struct nx *nx, const char *options)
{
    char folder[96];
    snprintf(folder, sizeof folder, "%s/objects", nx->directory);
    assert_int_equal(mount("small", folder, "tmpfs", MS_REMOUNT, options), 0);
}

static void close_small(struct nx *nx)
{
    char folder[96];
    snprintf(folder, sizeof folder, "%s/objects", nx->directory);
    nx_end(nx); /* the writer has ended */
    assert_int_equal(umount(folder), 0);
    fake_gcs_reset();
    assert_int_equal(rmdir(folder), 0);
    char command[128];
    snprintf(command, sizeof command, "rm -rf -- %s", nx->directory);
    assert_int_equal(system(command), 0);
}

static struct mob_object_id put_large(struct nx_driver *driver, uint32_t counter)
{
    struct mob_object_id id = mob_object_of(driver->welcome.root, MOB_SLOT_PUT | counter);
    uint64_t size;
    struct mob_object_ref ref;
    void *full;
    uint8_t *payload;
    assert_int_equal(mob_value_full_size(BYTES, 0, 0, &size), MOB_OK);
    assert_int_equal(mob_store_object_create(driver->store, id, size, &ref, &full), MOB_OK);
    assert_int_equal(mob_value_init(full, size, MOB_TYPE_BYTES, BYTES, NULL, 0, NULL, 0, &payload), MOB_OK);
    memset(payload, (int)counter, BYTES);
    mob_value_hash(full);
    struct mob_out_put put = {.id = id, .type = MOB_TYPE_BYTES, .size = size};
    nx_publish(driver->store, MOB_OUT_PUT, &put, sizeof put, NULL, 0);
    mob_store_object_seal(driver->store, ref);
    return id;
}

static void ask_flush(struct nx_driver *driver, uint32_t request)
{
    struct mob_out_request flush = {.op = MOB_REQ_FLUSH, .request = request};
    nx_publish(driver->store, MOB_OUT_REQUEST, &flush, sizeof flush, NULL, 0);
}

/* Waits for the reply to `request`, which is the next one. */
static enum mob_status flushed(struct nx *nx, struct nx_driver *driver, uint32_t request, char text[512])
{
    for (int i = 0; i < 5000; i++) {
        struct mob_record record;
        const uint8_t *body;
        while ((body = mob_store_in_peek(driver->store, &record)) != NULL) {
            struct mob_in_reply reply = {0};
            bool is_reply = record.type == MOB_IN_REPLY;
            if (is_reply) {
                memcpy(&reply, body, sizeof reply);
                assert_true(reply.payload_bytes < 512);
                memcpy(text, body + sizeof reply, reply.payload_bytes);
                text[reply.payload_bytes] = '\0';
            }
            mob_store_in_pop(driver->store);
            mob_store_in_release(driver->store);
            if (!is_reply)
                continue;
            assert_int_equal(reply.request, request);
            return (enum mob_status)reply.status;
        }
        nx_turn(nx, 1);
        durable_puts_step(nx->node->puts);
        usleep(1000);
    }
    fail_msg("no reply to %u", request);
    return MOB_OK;
}

static bool names(const char *text, struct mob_object_id id)
{
    char name[MOB_ID_TEXT_MAX];
    return strstr(text, mob_object_id_format(id, name)) != NULL;
}

static void assert_readable(struct nx *nx, struct mob_object_id id, uint8_t filled_with)
{
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    struct mob_value_view view;
    assert_int_equal(mob_store_object_bytes(nx->node->store, id, true, &type, &bytes, &size), MOB_OK);
    assert_int_equal(mob_value_open(bytes, size, &view), MOB_OK);
    assert_int_equal(view.payload_bytes, BYTES);
    for (int i = 0; i < BYTES; i++)
        if (((const uint8_t *)view.payload)[i] != filled_with)
            fail_msg("byte %d is %d", i, ((const uint8_t *)view.payload)[i]);
}

/* Who flushes hears which puts were not kept, once; they are still there to read; with room again all is
 * well. */
static void put_that_finds_the_disk_full_is_told_to_its_putter(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    char text[512];
    open_small(&nx);
    nx_connect(&nx, &driver, NULL);
    struct mob_object_id first = put_large(&driver, 1);
    ask_flush(&driver, 1);
    assert_int_equal(flushed(&nx, &driver, 1, text), MOB_OK);
    struct mob_object_id second = put_large(&driver, 2);
    ask_flush(&driver, 2);
    assert_int_equal(flushed(&nx, &driver, 2, text), MOB_DISK_FULL);
    assert_true(names(text, second));
    assert_false(names(text, first));
    ask_flush(&driver, 3);
    assert_int_equal(flushed(&nx, &driver, 3, text), MOB_OK);
    assert_readable(&nx, first, 1);
    assert_readable(&nx, second, 2);
    set_size(&nx, "size=1m");
    struct mob_object_id third = put_large(&driver, 3);
    ask_flush(&driver, 4);
    assert_int_equal(flushed(&nx, &driver, 4, text), MOB_OK);
    assert_readable(&nx, third, 3);
    nx_disconnect(&driver);
    close_small(&nx);
}

/* The one before a flush is not blamed for what came behind it, whatever ended first. */
static void flush_answers_for_what_came_before_it(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver;
    char text[512];
    open_small(&nx);
    nx_connect(&nx, &driver, NULL);
    put_large(&driver, 1);
    ask_flush(&driver, 1);
    struct mob_object_id second = put_large(&driver, 2);
    ask_flush(&driver, 2);
    nx_turn(&nx, 3);
    usleep(50000); /* both writes have ended when the node looks */
    assert_int_equal(flushed(&nx, &driver, 1, text), MOB_OK);
    assert_int_equal(flushed(&nx, &driver, 2, text), MOB_DISK_FULL);
    assert_true(names(text, second));
    nx_disconnect(&driver);
    close_small(&nx);
}

/* What was kept is there after the end of the node; what was not is asked of its driver again. */
static void what_was_kept_outlives_the_node(void **state)
{
    (void)state;
    struct nx nx;
    struct nx_driver driver, other;
    char text[512];
    open_small(&nx);
    nx_connect(&nx, &driver, NULL);
    struct mob_object_id kept = put_large(&driver, 1);
    struct mob_object_id not_kept = put_large(&driver, 2);
    ask_flush(&driver, 1);
    assert_int_equal(flushed(&nx, &driver, 1, text), MOB_DISK_FULL);
    nx_restart(&nx, 0);
    nx_connect(&nx, &other, NULL);
    nx_watch(other.store, kept);
    nx_watch(other.store, not_kept);
    nx_turn(&nx, 20);
    enum mob_status status = MOB_IO;
    assert_true(nx_told(other.store, kept, &status));
    assert_int_equal(status, MOB_OK);
    assert_readable(&nx, kept, 1);
    struct mob_object_info info;
    assert_false(mob_store_object_info(nx.node->store, not_kept, &info) && info.sealed);
    nx_disconnect(&driver);
    nx_disconnect(&other);
    close_small(&nx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_that_finds_the_disk_full_is_told_to_its_putter),
        cmocka_unit_test(flush_answers_for_what_came_before_it),
        cmocka_unit_test(what_was_kept_outlives_the_node),
    };
    /* Before there are threads: each has the mounts of the one that made it. What is mounted goes with the
     * process. */
    may_mount = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
