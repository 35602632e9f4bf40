/* What version MOB_SEGMENT_VERSION of the segment is: where each field lies, what follows from a segment's
 * size, and the words of one in which a little has happened. Client and node may be of different builds and
 * share it, so what is kept here changes together with the version, or not at all. */
#include "tests/unit/runtime/store/store_support.h"

#include "common/base/log.h"
#include "tests/support/golden_file.h"

static struct golden_text text;

#define FIELD(type, field) golden_say(&text, "  %s %zu\n", #field, offsetof(struct type, field))
#define NUMBER(name) golden_say(&text, "%s %llu\n", #name, (unsigned long long)(name))

static void say_structs(void)
{
    golden_say(&text, "header %zu\n", sizeof(struct mob_seg_header));
    FIELD(mob_seg_header, magic);
    FIELD(mob_seg_header, version);
    FIELD(mob_seg_header, clients_max);
    FIELD(mob_seg_header, segment_bytes);
    FIELD(mob_seg_header, incarnation);
    FIELD(mob_seg_header, cluster);
    FIELD(mob_seg_header, entries);
    FIELD(mob_seg_header, units);
    FIELD(mob_seg_header, ticket);
    FIELD(mob_seg_header, node_sleeps);
    FIELD(mob_seg_header, epoch);
    FIELD(mob_seg_header, warm_units);
    FIELD(mob_seg_header, free_hint);
    FIELD(mob_seg_header, dirty);
    golden_say(&text, "client %zu\n", sizeof(struct mob_seg_client));
    FIELD(mob_seg_client, kind);
    FIELD(mob_seg_client, out_bytes);
    FIELD(mob_seg_client, in_bytes);
    FIELD(mob_seg_client, pins_max);
    FIELD(mob_seg_client, out_offset);
    FIELD(mob_seg_client, in_offset);
    FIELD(mob_seg_client, pins_offset);
    FIELD(mob_seg_client, in_urgent);
    FIELD(mob_seg_client, out_head);
    FIELD(mob_seg_client, out_released);
    FIELD(mob_seg_client, in_head);
    FIELD(mob_seg_client, in_released);
    FIELD(mob_seg_client, in_begun);
    FIELD(mob_seg_client, bell);
    FIELD(mob_seg_client, asleep);
    FIELD(mob_seg_client, creates_begun);
    FIELD(mob_seg_client, creates_ended);
    FIELD(mob_seg_client, pins_top);
    FIELD(mob_seg_client, current_chunk);
    golden_say(&text, "entry %zu\n", sizeof(struct mob_seg_entry));
    FIELD(mob_seg_entry, generation);
    FIELD(mob_seg_entry, id_slot);
    FIELD(mob_seg_entry, id_a);
    FIELD(mob_seg_entry, id_b);
    FIELD(mob_seg_entry, meta);
    FIELD(mob_seg_entry, used_epoch);
    FIELD(mob_seg_entry, offset);
    FIELD(mob_seg_entry, value);
}

static void say_numbers(void)
{
    NUMBER(MOB_SEGMENT_MAGIC);
    NUMBER(MOB_UNIT_BYTES);
    NUMBER(MOB_GROUP_ENTRIES);
    NUMBER(MOB_RUN_GROUPS);
    NUMBER(MOB_WINDOW_GROUPS);
    NUMBER(MOB_SLAB_OBJECT_MAX);
    NUMBER(MOB_CHUNK_HEADER_BYTES);
    NUMBER(MOB_CLASS_COUNT);
    NUMBER(MOB_OWNER_NODE);
    NUMBER(MOB_TAG(MOB_TAG_SEALED | MOB_TAG_INLINE, 5, 0x1234));
    NUMBER(MOB_UNIT_MARK(MOB_UNIT_CHUNK, 3, 7));
    NUMBER(MOB_UNIT_MARK(MOB_UNIT_CLIENT, 0, 7));
    NUMBER(MOB_UNIT_MARK(MOB_UNIT_CHUNK_ORPHAN, 3, 7));
    NUMBER(sizeof(struct mob_record));
}

static void say_layout(uint64_t bytes, uint32_t clients, uint32_t entries)
{
    struct mob_view view;
    uint8_t *base = (uint8_t *)(uintptr_t)(1ull << 40); /* never touched */
    golden_say(&text, "segment of %llu bytes, %u clients, %u entries\n", (unsigned long long)bytes, clients,
        entries);
    if (!mob_view_layout(&view, base, bytes, clients, entries)) {
        golden_say(&text, "  does not fit\n");
        return;
    }
    golden_say(&text, "  clients %zu home %zu tags %zu units %zu entries %zu arena %llu of %u units\n",
        (size_t)((uint8_t *)view.seg_clients - base), (size_t)((uint8_t *)view.seg_home - base),
        (size_t)((uint8_t *)view.seg_tags - base), (size_t)((uint8_t *)view.unit_map - base),
        (size_t)((uint8_t *)view.seg_table - base), (unsigned long long)view.arena_offset, view.units);
}

/* Where ids lie, which every client works out by itself: in the first run of a stream, in later ones, and the
 * returns of one task. */
static void say_places(void)
{
    static const uint32_t numbers[] = {0, 7, 8, 63, 64, 1000, 100000, UINT32_MAX};
    struct mob_view view = {.entries = 65536, .group_mask = 65536 / MOB_GROUP_ENTRIES - 1};
    golden_say(&text, "places\n");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct mob_object_key of_task = mob_object_key(&view, test_id(1, numbers[i], 0));
        struct mob_object_key of_slot = mob_object_key(&view, test_id(1, 2, numbers[i]));
        golden_say(&text, "  %u: %u %u %u, slot: %u %u %u\n", numbers[i], of_task.group, of_task.position,
            of_task.fingerprint, of_slot.group, of_slot.position, of_slot.fingerprint);
    }
}

/* Words that are not 0, up to the end of the entries. What a driver does that opens a slot, puts a small
 * value and one of a slab, and publishes a record. */
static void say_words(void)
{
    struct mob_store *store = test_store(4 << 20, NULL, 0);
    struct mob_store_client *client = test_attach(store, test_open(store, MOB_CLIENT_DRIVER));
    test_put_i64(client, test_id(1, 2, 3), 77);
    test_put(client, test_id(1, 3, 0), 500, 9);
    struct mob_piece piece = {"golden", 6};
    assert_status(MOB_OK, mob_store_publish(client, MOB_OUT_EVENT, 1, 2, &piece, 1));
    const uint64_t *words = (const uint64_t *)(const void *)store->view.base;
    golden_say(&text, "words\n");
    for (uint64_t i = 0; i < store->view.arena_offset / 8; i++)
        if (words[i] != 0)
            golden_say(&text, "  %llu %016llx\n", (unsigned long long)i * 8, (unsigned long long)words[i]);
    const uint8_t *ring = store->view.base + MOB_SEG_LOAD(&store->view.seg_clients[0].out_offset);
    golden_say(&text, "record");
    for (uint64_t i = 0; i < MOB_SEG_LOAD(&store->view.seg_clients[0].out_head); i++)
        golden_say(&text, " %02x", ring[i]);
    golden_say(&text, "\n");
    mob_store_detach(client);
    mob_store_destroy(store);
}

static void the_layout_is_the_one_kept_for_its_version(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "segment/segment_v%u.txt", MOB_SEGMENT_VERSION);
    golden_say(&text, "version %u\n", MOB_SEGMENT_VERSION);
    say_structs();
    say_numbers();
    say_layout(4 << 20, 64, 4096);
    say_layout(64 << 20, 256, 65536);
    say_layout(1ull << 34, 4000, 1 << 22);
    say_layout(65536, 64, 4096);
    say_places();
    say_words();
    golden_compare(name, &text);
}

/* ---- versions before this one: a build that has them may share a machine with this one ---- */

#define OLDEST_KEPT 2u

/* The words that stood in a segment of that version, into one of this version. */
static void write_words(struct mob_store *store, unsigned version)
{
    char name[64];
    snprintf(name, sizeof name, "segment/segment_v%u.txt", version);
    golden_read(name, &text);
    const char *line = strstr(text.bytes, "\nwords\n");
    assert_non_null(line);
    unsigned long long at, word;
    int length;
    for (line += strlen("\nwords\n"); sscanf(line, " %llu %llx\n%n", &at, &word, &length) == 2;
         line += length) {
        uint64_t stored = word;
        assert_true(at + sizeof stored <= store->view.arena_offset);
        memcpy(store->view.base + at, &stored, sizeof stored);
    }
}

static char logged[256];

static void keep_line(void *arg, enum mob_log_level level, const char *line, size_t bytes)
{
    (void)arg, (void)level, (void)bytes;
    if (strstr(line, "segment_version"))
        snprintf(logged, sizeof logged, "%s", line);
}

static void segments_of_other_versions_are_refused(void **state)
{
    (void)state;
    for (unsigned version = OLDEST_KEPT; version < MOB_SEGMENT_VERSION; version++) {
        struct mob_store *store = test_store(4 << 20, NULL, 0);
        struct mob_store_client *client = NULL;
        char words[64];
        uint32_t slot = test_open(store, MOB_CLIENT_DRIVER);
        write_words(store, version);
        logged[0] = '\0';
        mob_log_set_sink(keep_line, NULL);
        assert_status(MOB_VERSION, mob_store_attach(mob_store_memfd(store), -1, slot, &client));
        mob_log_set_sink(NULL, NULL);
        assert_null(client);
        snprintf(words, sizeof words, "segment=%u supported=%u", version, MOB_SEGMENT_VERSION);
        assert_non_null(strstr(logged, words));
        mob_store_destroy(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_the_one_kept_for_its_version),
        cmocka_unit_test(segments_of_other_versions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
