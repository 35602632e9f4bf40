/* Eviction, spilling, a full store and a full disk. ctest: threads */
#include "tests/unit/runtime/store/store_support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"

struct rig {
    char directory[64];
    struct mob_store *store;
    struct mob_store_client *client;
    uint32_t slot;
};

static struct rig rig_open(uint64_t bytes, uint64_t quota)
{
    struct rig rig;
    snprintf(rig.directory, sizeof rig.directory, "/tmp/mobula_evict_XXXXXX");
    assert_non_null(mkdtemp(rig.directory));
    rig.store = test_store(bytes, rig.directory, quota);
    rig.slot = test_open(rig.store, MOB_CLIENT_WORKER);
    rig.client = test_attach(rig.store, rig.slot);
    return rig;
}

static void rig_close(struct rig *rig)
{
    assert_store_ok(rig->store);
    mob_store_detach(rig->client);
    mob_store_destroy(rig->store);
    assert_int_equal(0, rmdir(rig->directory)); /* no file is left */
}

static void expect_bytes(struct rig *rig, struct mob_object_id id, uint64_t payload, uint8_t fill)
{
    struct test_got got = test_get(rig->client, id);
    assert_status(MOB_OK, got.status);
    struct mob_value_view value;
    assert_status(MOB_OK, mob_value_open(got.bytes, got.size, &value));
    assert_int_equal(payload, value.payload_bytes);
    assert_int_equal(fill, value.payload[0]);
    assert_int_equal(fill, value.payload[payload - 1]);
    mob_store_object_release(rig->client, got.pin);
}

static bool is_here(struct rig *rig, struct mob_object_id id)
{
    uint32_t tag;
    return mob_table_find(&rig->store->view, id, &tag) != UINT32_MAX;
}

static void the_least_recently_used_goes_to_disk_and_comes_back(void **state)
{
    (void)state;
    enum { BYTES = 300000, UNITS = 5, COUNT = 6 };
    struct rig rig = rig_open(4 << 20, 0);
    uint32_t free_units;
    uint64_t spare =
        mob_extent_largest(&rig.store->view, &free_units) - COUNT * UNITS; /* what they leave free */
    test_put(rig.client, test_id(2, 0, 0), (spare - 1) * MOB_UNIT_BYTES, 1);
    mob_store_object_keep(rig.store, test_id(2, 0, 0), true);
    for (uint32_t i = 0; i < COUNT; i++) {
        test_put(rig.client, test_id(1, i, 0), BYTES, (uint8_t)(i + 1));
        mob_store_object_committed(rig.store, test_id(1, i, 0), false);
        mob_epoch_advance(rig.store);
    }
    expect_bytes(&rig, test_id(1, 0, 0), BYTES, 1); /* used again: the oldest is now 1 */
    uint64_t room;
    assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, UNITS * MOB_UNIT_BYTES, &room));
    assert_true(is_here(&rig, test_id(1, 0, 0)));
    assert_false(is_here(&rig, test_id(1, 1, 0)));
    assert_true(is_here(&rig, test_id(1, 5, 0)));

    assert_status(MOB_NOT_FOUND, test_get(rig.client, test_id(1, 1, 0)).status);
    struct mob_object_info info;
    assert_true(mob_store_object_info(rig.store, test_id(1, 1, 0), &info));
    assert_true(info.spilled && info.committed && info.sealed);
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    assert_status(
        MOB_NOT_FOUND, mob_store_object_bytes(rig.store, test_id(1, 1, 0), false, &type, &bytes, &size));
    assert_status(MOB_OK, mob_store_object_bytes(rig.store, test_id(1, 1, 0), true, &type, &bytes, &size));
    assert_int_equal(MOB_TYPE_BYTES, type);
    expect_bytes(&rig, test_id(1, 1, 0), BYTES, 2);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_status(MOB_OK, mob_store_object_delete(rig.store, test_id(1, i, 0)));
    struct mob_store_stats stats;
    mob_store_stats(rig.store, &stats);
    assert_int_equal(0, stats.spilled_objects);
    assert_int_equal(1, stats.restores);
    rig_close(&rig);
}

static void a_full_store_never_loses_what_is_not_remakeable(void **state)
{
    (void)state;
    enum { BYTES = 200000, COUNT = 40 };
    struct rig rig = rig_open(4 << 20, 0);
    for (uint32_t i = 0; i < COUNT; i++) { /* 8 MB through 3 MB */
        struct mob_object_ref ref;
        enum mob_status status = test_create(rig.client, test_id(1, i, 0), BYTES, (uint8_t)(i + 1), &ref);
        if (status == MOB_STORE_FULL) {
            uint64_t room;
            assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, BYTES + 64, &room));
            status = test_create(rig.client, test_id(1, i, 0), BYTES, (uint8_t)(i + 1), &ref);
        }
        assert_status(MOB_OK, status);
        assert_status(MOB_OK, mob_store_object_seal(rig.client, ref));
        if (i % 2)
            mob_store_object_committed(rig.store, test_id(1, i, 0), false);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        enum mob_value_type type;
        const uint8_t *bytes;
        uint64_t size;
        assert_status(
            MOB_OK, mob_store_object_bytes(rig.store, test_id(1, i, 0), true, &type, &bytes, &size));
        expect_bytes(&rig, test_id(1, i, 0), BYTES, (uint8_t)(i + 1));
        struct mob_object_info info;
        assert_true(mob_store_object_info(rig.store, test_id(1, i, 0), &info));
        assert_int_equal(i % 2, info.committed);
    }
    rig_close(&rig);
}

/* The path of what alone stands in this folder. */
static void the_entry(const char *folder, char *path_out, size_t capacity)
{
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        if (entry->d_name[0] != '.')
            assert_true((size_t)snprintf(path_out, capacity, "%s/%s", folder, entry->d_name) < capacity);
    closedir(directory);
}

static void a_damaged_spill_file_is_noticed(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 0);
    test_put(rig.client, test_id(1, 0, 0), 100000, 7);
    uint32_t tag, index = mob_table_find(&rig.store->view, test_id(1, 0, 0), &tag);
    assert_status(MOB_OK, mob_spill_write(rig.store, index));
    assert_true(mob_evict_unpinned(rig.store, index));
    char path[600] = "";
    the_entry(rig.directory, path, sizeof path); /* the folder of this store */
    char folder[600];
    snprintf(folder, sizeof folder, "%s", path);
    the_entry(folder, path, sizeof path);
    struct stat stat_buffer;
    assert_int_equal(0, stat(path, &stat_buffer));
    assert_int_equal(0600, stat_buffer.st_mode & 0777);
    int fd = open(path, O_WRONLY);
    assert_int_equal(1, pwrite(fd, "x", 1, 5000));
    close(fd);
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    assert_status(
        MOB_CORRUPT, mob_store_object_bytes(rig.store, test_id(1, 0, 0), true, &type, &bytes, &size));
    assert_status(MOB_NOT_FOUND, test_get(rig.client, test_id(1, 0, 0)).status);
    rig_close(&rig);
}

static void the_quota_is_kept_and_typed(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 500000);
    for (uint32_t i = 0; i < 10; i++)
        test_put(rig.client, test_id(1, i, 0), 200000, (uint8_t)i);
    uint64_t room;
    assert_status(MOB_DISK_FULL, mob_store_make_room(rig.store, NULL, 3 << 20, &room));
    struct mob_store_full full;
    mob_store_full_details(rig.store, &full);
    assert_int_equal(3 << 20, full.needed_bytes);
    assert_true(full.spilled_bytes <= 500000 && full.spilled_bytes > 0);
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t size;
    for (uint32_t i = 0; i < 10; i++) /* nothing was lost */
        assert_status(
            MOB_OK, mob_store_object_bytes(rig.store, test_id(1, i, 0), true, &type, &bytes, &size));
    rig_close(&rig);
}

static void without_a_disk_only_the_remakeable_goes(void **state)
{
    (void)state;
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct mob_store_client *client = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    test_put(client, test_id(1, 0, 0), 1 << 20, 1);
    test_put(client, test_id(1, 1, 0), 1 << 20, 2);
    mob_store_object_committed(store, test_id(1, 0, 0), false);
    mob_store_object_committed(store, test_id(1, 1, 0), true);
    uint64_t room;
    assert_status(MOB_STORE_FULL, mob_store_make_room(store, NULL, 3 << 20, &room));
    assert_status(MOB_OK, test_get(client, test_id(1, 0, 0)).status);
    assert_status(MOB_NOT_FOUND, test_get(client, test_id(1, 1, 0)).status);
    assert_store_ok(store);
    mob_store_detach(client);
    mob_store_destroy(store);
}

static void pinned_and_kept_objects_stay(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 0);
    for (uint32_t i = 0; i < 3; i++) {
        test_put(rig.client, test_id(1, i, 0), 500000, (uint8_t)i);
        mob_store_object_committed(rig.store, test_id(1, i, 0), true);
    }
    struct test_got pinned = test_get(rig.client, test_id(1, 0, 0));
    mob_store_object_keep(rig.store, test_id(1, 1, 0), true);
    uint64_t room;
    assert_status(MOB_STORE_FULL, mob_store_make_room(rig.store, NULL, 3 << 20, &room));
    assert_true(is_here(&rig, test_id(1, 0, 0)));
    assert_true(is_here(&rig, test_id(1, 1, 0)));
    assert_false(is_here(&rig, test_id(1, 2, 0)));
    struct mob_store_full full;
    mob_store_full_details(rig.store, &full);
    assert_int_equal(pinned.size, full.pinned_bytes);
    mob_store_object_release(rig.client, pinned.pin);
    mob_store_object_keep(rig.store, test_id(1, 1, 0), false);
    assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, 2500000, &room));
    rig_close(&rig);
}

/* A disk of 1 MB: a tmpfs in a mount namespace of our own. */
static void a_full_disk_is_typed_and_nothing_is_lost(void **state)
{
    (void)state;
    char directory[] = "/tmp/mobula_disk_XXXXXX";
    assert_non_null(mkdtemp(directory));
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", directory, "tmpfs", 0, "size=1m") != 0) {
        rmdir(directory);
        skip(); /* needs the right to mount */
    }
    struct mob_store *store = test_store(4 << 20, directory, 0);
    struct mob_store_client *client = test_attach(store, test_open(store, MOB_CLIENT_WORKER));
    for (uint32_t i = 0; i < 10; i++)
        test_put(client, test_id(1, i, 0), 250000, (uint8_t)i);
    uint64_t room;
    assert_status(MOB_DISK_FULL, mob_store_make_room(store, NULL, 3 << 20, &room));
    struct mob_store_stats stats;
    mob_store_stats(store, &stats);
    assert_int_equal(4, stats.spilled_objects);
    for (uint32_t i = 0; i < 10; i++) {
        enum mob_value_type type;
        const uint8_t *bytes;
        uint64_t size;
        assert_status(MOB_OK, mob_store_object_bytes(store, test_id(1, i, 0), true, &type, &bytes, &size));
        assert_int_equal(i, bytes[size - 1]);
    }
    assert_store_ok(store);
    mob_store_detach(client);
    mob_store_destroy(store);
    umount(directory);
    rmdir(directory);
}

static void committed_small_objects_are_swept_at_the_fill_mark(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 0);
    uint32_t entries = rig.store->view.entries;
    mob_store_object_keep(rig.store, test_id(9, 0, 0), true); /* not there: no effect */
    test_put_i64(rig.client, test_id(9, 1, 0), 1);
    mob_store_object_committed(rig.store, test_id(9, 1, 0), true);
    mob_store_object_keep(rig.store, test_id(9, 1, 0), true);
    test_put_i64(rig.client, test_id(9, 2, 0), 1); /* not committed */
    for (uint32_t i = 0; i < entries * 8; i++) {
        struct mob_object_id id = test_id(1, i, 0);
        test_put_i64(rig.client, id, i);
        mob_store_object_committed(rig.store, id, true);
        struct test_got got = test_get(rig.client, id); /* the newest is always there */
        assert_status(MOB_OK, got.status);
        if (i % 16 == 0)
            mob_store_maintain(rig.store, MOB_MS);
    }
    struct mob_store_stats stats;
    mob_store_stats(rig.store, &stats);
    assert_in_range(stats.objects, entries / 16, entries / 8 * 5);
    assert_true(is_here(&rig, test_id(9, 1, 0)));
    assert_true(is_here(&rig, test_id(9, 2, 0)));
    rig_close(&rig);
}

/* Made and committed at once, as a driver's put is in the end. */
static void put_committed(struct rig *rig, struct mob_object_id id)
{
    test_put_i64(rig->client, id, (int64_t)id.task.index);
    mob_store_object_committed(rig->store, id, true);
}

static uint32_t count_here(struct rig *rig, uint32_t stream, uint32_t from, uint32_t to)
{
    uint32_t here = 0;
    for (uint32_t i = from; i < to; i++)
        here += is_here(rig, test_id(stream, i, 0));
    return here;
}

static void the_oldest_small_objects_go_first(void **state)
{
    (void)state;
    struct rig rig = rig_open(8 << 20, 0);
    uint32_t entries = rig.store->view.entries, made = entries * 4;
    for (uint32_t i = 0; i < made; i++) {
        put_committed(&rig, test_id(1, i, 0));
        if (i % 64 == 0)
            mob_store_maintain(rig.store, 0);
    }
    while (mob_store_maintain(rig.store, 0)) {
    }
    assert_int_equal(entries / 8, count_here(&rig, 1, made - entries / 8, made));
    assert_int_equal(0, count_here(&rig, 1, 0, made - entries)); /* older than the table is large */
    /* What is here is a tail: nobody is gone that is younger than somebody who stayed, but for the grain of
     * an epoch. */
    uint32_t first = 0;
    while (!is_here(&rig, test_id(1, first, 0)))
        first++;
    uint32_t grain = entries / 64 + 1;
    assert_int_equal(made - first - grain, count_here(&rig, 1, first + grain, made));
    rig_close(&rig);
}

static void what_is_read_stays_and_what_nobody_wants_goes_first(void **state)
{
    (void)state;
    struct rig rig = rig_open(8 << 20, 0);
    uint32_t entries = rig.store->view.entries, few = entries / 32;
    for (uint32_t i = 0; i < few; i++) {
        put_committed(&rig, test_id(1, i, 0)); /* read now and then */
        put_committed(&rig, test_id(2, i, 0)); /* never again */
        put_committed(&rig, test_id(3, i, 0)); /* held, not read */
    }
    assert_true(few > 0);
    for (uint32_t i = 0; i < entries * 2; i++) {
        put_committed(&rig, test_id(4, i, 0));
        mob_store_object_unwanted(rig.store, test_id(4, i, 0));
        if (i % 4 == 0) /* few is not 0 here. NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
            assert_status(MOB_OK, test_get(rig.client, test_id(1, i / 4 % few, 0)).status);
    }
    assert_int_equal(few, count_here(&rig, 1, 0, few));
    assert_int_equal(few, count_here(&rig, 3, 0, few)); /* those that nobody wants made room enough */
    for (uint32_t i = 0; i < entries * 2; i++) {
        put_committed(&rig, test_id(5, i, 0));
        if (i % 4 == 0)
            assert_status(MOB_OK, test_get(rig.client, test_id(1, i / 4 % few, 0)).status);
    }
    assert_int_equal(few, count_here(&rig, 1, 0, few));
    assert_int_equal(0, count_here(&rig, 2, 0, few));
    assert_int_equal(0, count_here(&rig, 3, 0, few));
    rig_close(&rig);
}

/* Those of stream 1, and of stream `*arg`. */
static bool needed_by_streams(void *arg, struct mob_object_id id)
{
    const uint32_t *stream = arg;
    struct mob_object_id one = test_id(1, 0, 0), other = test_id(*stream, 0, 0);
    return mob_stream_eq(id.task.stream, one.task.stream) || mob_stream_eq(id.task.stream, other.task.stream);
}

static bool some_are_needed(void *arg)
{
    (void)arg;
    return true;
}

static void what_a_waiting_task_needs_stays_while_others_can_go(void **state)
{
    (void)state;
    struct rig rig = rig_open(8 << 20, 0);
    uint32_t entries = rig.store->view.entries, few = entries / 32, stream = 1;
    rig.store->options.needed = needed_by_streams;
    rig.store->options.needs_any = some_are_needed;
    rig.store->options.arg = &stream;
    for (uint32_t i = 0; i < few; i++) {
        put_committed(&rig, test_id(1, i, 0));
        put_committed(&rig, test_id(2, i, 0));
    }
    for (uint32_t i = 0; i < entries * 4; i++)
        put_committed(&rig, test_id(3, i, 0));
    assert_int_equal(few, count_here(&rig, 1, 0, few));
    assert_int_equal(0, count_here(&rig, 2, 0, few));

    stream = 4; /* more than the table holds: the oldest of them go, and nobody finds it full */
    for (uint32_t i = 0; i < entries * 4; i++)
        put_committed(&rig, test_id(4, i, 0));
    assert_int_equal(entries / 8, count_here(&rig, 4, entries * 4 - entries / 8, entries * 4));
    assert_int_equal(0, count_here(&rig, 1, 0, few));
    rig_close(&rig);
}

/* A flood that is committed late: what is committed after a turn began is younger than what the turn is for.
 */
static void a_burst_of_commits_does_not_take_the_newest(void **state)
{
    (void)state;
    struct rig rig = rig_open(8 << 20, 0);
    uint32_t entries = rig.store->view.entries, burst = entries / 8, made = 0;
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < burst; i++)
            test_put_i64(rig.client, test_id(1, made + i, 0), i);
        for (uint32_t i = 0; i < burst; i++)
            mob_store_object_committed(rig.store, test_id(1, made + i, 0), true);
        made += burst;
        assert_int_equal(burst, count_here(&rig, 1, made - burst, made));
    }
    rig_close(&rig);
}

/* By the notes, entry by entry: what the sweep counts a group at a time. */
static void expect_histogram(const struct mob_store *store)
{
    uint32_t ages[MOB_SWEEP_AGES] = {0};
    for (uint32_t i = 0; i < store->view.entries; i++) {
        uint32_t tag = MOB_SEG_LOAD(&store->view.seg_tags[i].v);
        if (mob_tag_state(tag) != MOB_TAG_COMMITTED || !mob_tag_is_inline(tag) ||
            (store->entry_flags[i] & MOB_NODE_KEEP))
            continue;
        uint16_t age = (uint16_t)(store->epoch - store->entry_epochs[i]);
        ages[(store->epoch - (age < MOB_SWEEP_AGES ? age : MOB_SWEEP_AGES - 1)) % MOB_SWEEP_AGES]++;
    }
    for (uint32_t i = 0; i < MOB_SWEEP_AGES; i++)
        assert_int_equal(ages[i], store->sweep.ages[i]);
}

/* By nothing, by what is not committed, or by a large one that is: its neighbours' notes say nothing of it.
 */
static void replace_in_its_place(struct rig *rig, struct mob_object_id id, uint32_t how)
{
    uint32_t tag, index = mob_table_find(&rig->store->view, id, &tag);
    assert_status(MOB_OK, mob_store_object_delete(rig->store, id));
    if (how == 1)
        test_put_i64(rig->client, id, 0);
    if (how == 2) {
        test_put(rig->client, id, 100, 1);
        mob_store_object_committed(rig->store, id, false);
    }
    if (how > 0)
        assert_int_equal(index, mob_table_find(&rig->store->view, id, &tag));
}

static void a_turn_counts_each_that_stays_at_its_age(void **state)
{
    (void)state;
    struct rig rig = rig_open(8 << 20, 0);
    uint32_t entries = rig.store->view.entries, late = entries / 16, turns = 0;
    for (uint32_t i = 0; i < entries * 3; i++) {
        uint32_t before =
            i - late; /* in every other page neighbours are used and committed in different epochs */
        bool waits = i % 13 == 0 && i / 64 % 2 == 0;
        test_put_i64(rig.client, test_id(1, i, 0), i);
        if (i % 29 == 0)
            mob_store_object_keep(rig.store, test_id(1, i, 0), true);
        for (int again = 0; again < 2; again++) {
            bool turned = rig.store->sweep.left > 0;
            if (again == 0 && !waits)
                mob_store_object_committed(rig.store, test_id(1, i, 0), true);
            if (again == 1 && i >= late && before % 13 == 0 && before / 64 % 2 == 0) {
                assert_status(MOB_OK, test_get(rig.client, test_id(1, before, 0)).status);
                mob_store_object_committed(rig.store, test_id(1, before, 0), true);
            }
            if (turned && rig.store->sweep.left == 0) {
                expect_histogram(rig.store);
                turns++;
            }
        }
        /* Between turns, so that the next one has no news of it but by its look. */
        if (rig.store->sweep.left == 0 && !waits && i % 17 == 0)
            mob_store_object_keep(rig.store, test_id(1, i, 0), i % 2 == 0);
        if (rig.store->sweep.left == 0 && !waits && i % 19 == 0)
            replace_in_its_place(&rig, test_id(1, i, 0), i / 19 % 3);
    }
    assert_in_range(turns, 4, 64);
    rig_close(&rig);
}

/* Ids whose window is the same one, in order. */
static struct mob_object_id same_window(struct rig *rig, uint32_t *stream)
{
    const struct mob_view *view = &rig->store->view;
    for (;; ++*stream)
        if (mob_object_key(view, test_id(*stream, 0, 0)).group == 5)
            return test_id((*stream)++, 0, 0);
}

static void a_full_window_gives_up_its_oldest(void **state)
{
    (void)state;
    struct rig rig = rig_open(8 << 20, 0);
    uint32_t stream = 1;
    struct mob_object_id first = same_window(&rig, &stream), id = first;
    for (uint32_t i = 0; i < MOB_WINDOW_ENTRIES; i++, id = same_window(&rig, &stream)) {
        put_committed(&rig, id);
        if (i % 16 == 0)
            mob_epoch_advance(rig.store);
    }
    struct mob_object_ref ref;
    int64_t n = 77;
    assert_status(MOB_STORE_FULL, mob_store_put_small(rig.client, id, MOB_TYPE_I64, &n, sizeof n, &ref));
    uint64_t room;
    assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, 0, &room));
    assert_status(MOB_STORE_FULL, mob_store_put_small(rig.client, id, MOB_TYPE_I64, &n, sizeof n, &ref));
    assert_true(is_here(&rig, first));
    assert_status(MOB_OK, mob_store_object_put(rig.store, id, MOB_TYPE_I64, true, &n, sizeof n));
    assert_false(is_here(&rig, first));
    assert_true(is_here(&rig, id));
    rig_close(&rig);
}

static void a_table_full_of_kept_objects_is_a_typed_error(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 0);
    enum mob_status status = MOB_OK;
    struct mob_object_ref ref;
    int64_t n = 0;
    for (uint32_t i = 0; status == MOB_OK; i++)
        status = mob_store_put_small(rig.client, test_id(1, i, 0), MOB_TYPE_I64, &n, sizeof n, &ref);
    assert_status(MOB_STORE_FULL, status);
    uint64_t room;
    assert_status(MOB_STORE_FULL, mob_store_make_room(rig.store, NULL, 0, &room));
    struct mob_store_full full;
    mob_store_full_details(rig.store, &full);
    assert_true(full.entries_used > full.entries / 2);
    rig_close(&rig);
}

static void a_table_full_of_large_ones_spills(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 0);
    uint32_t made = 0;
    enum mob_status status = MOB_OK;
    for (struct mob_object_ref ref; status == MOB_OK; made += status == MOB_OK) {
        status = test_create(rig.client, test_id(1, made, 0), 10, (uint8_t)made, &ref);
        if (status == MOB_OK)
            assert_status(MOB_OK, mob_store_object_seal(rig.client, ref));
    }
    assert_status(MOB_STORE_FULL, status);
    uint64_t room;
    assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, 74, &room));
    for (uint32_t i = 0; i < 64; i++)
        test_put(rig.client, test_id(2, i, 0), 10, 1);
    for (uint32_t i = 0; i < made; i++) {
        enum mob_value_type type;
        const uint8_t *bytes;
        uint64_t size;
        assert_status(
            MOB_OK, mob_store_object_bytes(rig.store, test_id(1, i, 0), true, &type, &bytes, &size));
        assert_int_equal((uint8_t)i, bytes[MOB_VALUE_HEADER_BYTES]);
    }
    rig_close(&rig);
}

static void a_node_with_nothing_to_drop_comes_to_rest(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 0);
    for (uint32_t i = 0; i < rig.store->view.entries / 2; i++) {
        test_put_i64(rig.client, test_id(1, i, 0), i);
        mob_store_object_keep(rig.store, test_id(1, i, 0), true);
        mob_store_object_committed(rig.store, test_id(1, i, 0), true);
    }
    for (int i = 0; i < 10; i++)
        mob_store_maintain(rig.store, MOB_SEC);
    assert_false(mob_store_maintain(rig.store, 0));
    assert_int_equal(rig.store->view.entries / 2, rig.store->committed);
    rig_close(&rig);
}

static void what_nobody_wants_goes_as_soon_as_it_may(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 0);
    struct mob_object_id id = test_id(1, 0, 0);
    test_put(rig.client, id, 500000, 1);
    mob_store_object_unwanted(rig.store, id);
    assert_true(is_here(&rig, id)); /* not committed: its bytes are the only ones */
    mob_store_object_keep(rig.store, id, true);
    mob_store_object_committed(rig.store, id, true);
    assert_true(is_here(&rig, id)); /* somebody is writing it down */
    mob_store_object_keep(rig.store, id, false);
    assert_false(is_here(&rig, id));

    test_put(rig.client, id, 500000, 2); /* a new object does not inherit the hint */
    mob_store_object_committed(rig.store, id, true);
    assert_true(is_here(&rig, id));
    struct test_got pinned = test_get(rig.client, id);
    mob_store_object_unwanted(rig.store, id);
    assert_true(is_here(&rig, id)); /* somebody reads it */
    mob_store_object_release(rig.client, pinned.pin);
    mob_store_object_unwanted(rig.store, id);
    assert_false(is_here(&rig, id));

    test_put(rig.client, id, 500000, 3);
    mob_store_object_committed(rig.store, id, false);
    mob_store_object_unwanted(rig.store, id);
    assert_true(is_here(&rig, id)); /* only the disk may have it */
    mob_store_object_unwanted(rig.store, test_id(9, 9, 9));
    rig_close(&rig);
}

static void what_nobody_can_ask_for_is_freed_and_never_written_to_disk(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 64 << 20);
    struct mob_object_id id = test_id(1, 0, 0);
    test_put(rig.client, id, 500000, 1);
    mob_store_object_free(rig.store, id);
    assert_false(is_here(&rig, id)); /* not committed, and nobody needs it to be */

    test_put(rig.client, id, 500000, 2);
    struct test_got pinned = test_get(rig.client, id);
    mob_store_object_free(rig.store, id);
    expect_bytes(&rig, id, 500000, 2); /* somebody reads it */
    mob_store_object_release(rig.client, pinned.pin);
    uint64_t room;
    assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, 3900000, &room));
    assert_false(is_here(&rig, id));
    struct mob_object_info info;
    assert_false(mob_store_object_info(rig.store, id, &info)); /* nor on disk */

    test_put(rig.client, id, 500000, 3);
    mob_store_object_keep(rig.store, id, true);
    mob_store_object_free(rig.store, id);
    assert_true(is_here(&rig, id)); /* it is being written down */
    mob_store_object_keep(rig.store, id, false);

    assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, 3900000, &room));
    assert_true(mob_store_object_info(rig.store, id, &info) && info.spilled);
    mob_store_object_free(rig.store, id); /* its file goes */
    assert_false(mob_store_object_info(rig.store, id, &info));
    rig_close(&rig);
}

static void space_that_a_client_does_not_use_goes_to_another(void **state)
{
    (void)state;
    enum { BYTES = 12900 };
    struct rig rig = rig_open(5 << 20, 0);
    struct mob_store_client *other = test_attach(rig.store, test_open(rig.store, MOB_CLIENT_WORKER));
    uint32_t made = 0;
    for (struct mob_object_ref ref; test_create(rig.client, test_id(1, made, 0), BYTES, 1, &ref) == MOB_OK;
         made++)
        mob_store_object_seal(rig.client, ref);
    for (uint32_t i = 0; i < made; i++)
        assert_status(MOB_OK, mob_store_object_delete(rig.store, test_id(1, i, 0)));
    /* All its chunks are empty, and still its own. The node takes them back, but for the current one. */
    struct mob_object_ref ref;
    uint64_t room;
    assert_status(MOB_STORE_FULL, test_create(other, test_id(2, 0, 0), 1000000, 1, &ref));
    assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, 1000064, &room));
    assert_status(MOB_OK, test_create(other, test_id(2, 0, 0), 1000000, 1, &ref));
    assert_status(MOB_OK, test_create(rig.client, test_id(3, 0, 0), BYTES, 1, &ref));
    assert_store_ok(rig.store);
    mob_store_detach(other);
    rig_close(&rig);
}

static void a_client_that_rests_gives_back_empty_slabs(void **state)
{
    (void)state;
    struct rig rig = rig_open(4 << 20, 0);
    struct mob_store_stats before, stats;
    mob_store_stats(rig.store, &before);
    for (uint32_t i = 0; i < 8; i++) /* each of another class */
        test_put(rig.client, test_id(1, i, 0), (1u << i) * 100, 1);
    mob_store_rest(rig.client);
    mob_store_stats(rig.store, &stats);
    assert_int_equal(before.arena_used_bytes + 8 * MOB_UNIT_BYTES, stats.arena_used_bytes);
    for (uint32_t i = 1; i < 8; i++)
        assert_status(MOB_OK, mob_store_object_delete(rig.store, test_id(1, i, 0)));
    mob_store_rest(rig.client);
    mob_store_stats(rig.store, &stats);
    assert_int_equal(before.arena_used_bytes + MOB_UNIT_BYTES, stats.arena_used_bytes);
    test_put(rig.client, test_id(2, 0, 0), 800, 2);
    expect_bytes(&rig, test_id(1, 0, 0), 100, 1);
    expect_bytes(&rig, test_id(2, 0, 0), 800, 2);
    rig_close(&rig);
}

/* Sealed without a hash. */
static void test_put_later(struct rig *rig, struct mob_object_id id, uint64_t payload_bytes)
{
    uint64_t size;
    uint8_t *value = test_value(payload_bytes, 9, &size);
    struct mob_object_ref ref;
    void *bytes;
    assert_status(MOB_OK, mob_store_object_create(rig->client, id, size, &ref, &bytes));
    memcpy(bytes, value, size);
    assert_status(MOB_OK, mob_store_object_seal(rig->client, ref));
    free(value);
}

static void large_values_are_hashed_later(void **state)
{
    (void)state;
    struct rig rig = rig_open(16 << 20, 0);
    uint64_t size;
    uint8_t *value = test_value(5000000, 3, &size);
    struct mob_object_ref ref;
    void *bytes;
    assert_status(MOB_OK, mob_store_object_create(rig.client, test_id(1, 0, 0), size, &ref, &bytes));
    memcpy(bytes, value, size);
    assert_status(MOB_NOT_READY, mob_store_hash_later(rig.store, test_id(1, 0, 0)));
    assert_status(MOB_OK, mob_store_object_seal(rig.client, ref));
    assert_status(MOB_OK, mob_store_hash_later(rig.store, test_id(1, 0, 0)));
    struct mob_object_id id;
    struct mob_hash128 hash;
    bool there;
    assert_false(mob_store_next_hash(rig.store, &id, &there, &hash));
    int steps = 1;
    while (mob_store_maintain(rig.store, 0))
        steps++;
    assert_in_range(steps, 4, 6); /* a megabyte each */
    assert_true(mob_store_next_hash(rig.store, &id, &there, &hash));
    assert_true(there);
    mob_value_hash(value);
    struct mob_value_view view;
    assert_status(MOB_OK, mob_value_open(value, size, &view));
    assert_true(mob_hash128_eq(view.hash, hash));
    struct mob_object_info info;
    assert_true(mob_store_object_info(rig.store, test_id(1, 0, 0), &info));
    assert_true(mob_hash128_eq(view.hash, info.hash));
    assert_false(mob_store_next_hash(rig.store, &id, &there, &hash));

    /* One that goes before it is hashed is told of, too. */
    assert_status(MOB_OK, mob_store_hash_later(rig.store, test_id(1, 0, 0)));
    assert_status(MOB_OK, mob_store_object_delete(rig.store, test_id(1, 0, 0)));
    mob_store_maintain(rig.store, 0);
    assert_true(mob_store_next_hash(rig.store, &id, &there, &hash));
    assert_false(there);
    assert_true(mob_object_id_eq(id, test_id(1, 0, 0)));
    free(value);
    rig_close(&rig);
}

/* Its file was written before its hash was known. */
static void a_hash_that_comes_late_outlives_the_memory(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    struct rig rig = rig_open(8 << 20, 0);
    struct mob_object_id id = test_id(1, 0, 0), done;
    struct mob_object_info info;
    struct mob_hash128 hash;
    bool there;
    enum mob_value_type type;
    const uint8_t *bytes;
    uint64_t room, size;
    test_put_later(&rig, id, BYTES);
    mob_store_object_committed(rig.store, id, false);
    assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, 7 << 20, &room));
    assert_false(is_here(&rig, id));
    assert_status(MOB_OK, mob_store_hash_later(rig.store, id));
    while (mob_store_maintain(rig.store, 0)) {
    }
    assert_true(mob_store_next_hash(rig.store, &done, &there, &hash));
    assert_true(there);
    assert_true(is_here(&rig, id));
    assert_status(MOB_OK, mob_store_make_room(rig.store, NULL, 7 << 20, &room));
    assert_false(is_here(&rig, id));
    assert_true(mob_store_object_info(rig.store, id, &info)); /* of its file */
    assert_true(mob_hash128_eq(hash, info.hash));
    assert_status(MOB_OK, mob_store_object_bytes(rig.store, id, true, &type, &bytes, &size));
    assert_true(mob_store_object_info(rig.store, id, &info));
    assert_false(info.spilled);
    assert_true(mob_hash128_eq(hash, info.hash));
    assert_status(MOB_OK, mob_store_object_delete(rig.store, id));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recently_used_goes_to_disk_and_comes_back),
        cmocka_unit_test(a_full_store_never_loses_what_is_not_remakeable),
        cmocka_unit_test(a_damaged_spill_file_is_noticed), cmocka_unit_test(the_quota_is_kept_and_typed),
        cmocka_unit_test(without_a_disk_only_the_remakeable_goes),
        cmocka_unit_test(pinned_and_kept_objects_stay),
        cmocka_unit_test(committed_small_objects_are_swept_at_the_fill_mark),
        cmocka_unit_test(the_oldest_small_objects_go_first),
        cmocka_unit_test(what_is_read_stays_and_what_nobody_wants_goes_first),
        cmocka_unit_test(what_a_waiting_task_needs_stays_while_others_can_go),
        cmocka_unit_test(a_burst_of_commits_does_not_take_the_newest),
        cmocka_unit_test(a_turn_counts_each_that_stays_at_its_age),
        cmocka_unit_test(a_full_window_gives_up_its_oldest),
        cmocka_unit_test(a_table_full_of_kept_objects_is_a_typed_error),
        cmocka_unit_test(a_table_full_of_large_ones_spills),
        cmocka_unit_test(a_node_with_nothing_to_drop_comes_to_rest),
        cmocka_unit_test(what_nobody_wants_goes_as_soon_as_it_may),
        cmocka_unit_test(what_nobody_can_ask_for_is_freed_and_never_written_to_disk),
        cmocka_unit_test(space_that_a_client_does_not_use_goes_to_another),
        cmocka_unit_test(a_client_that_rests_gives_back_empty_slabs),
        cmocka_unit_test(large_values_are_hashed_later),
        cmocka_unit_test(a_hash_that_comes_late_outlives_the_memory),
        cmocka_unit_test(a_full_disk_is_typed_and_nothing_is_lost), /* last: it leaves the mount namespace */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
