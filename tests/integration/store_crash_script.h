/* Everything that a client does to the segment, as a script for a process that is killed in the middle of it:
 * each place in the source that a client can store from is passed at least once (store_crash_test.c checks
 * it), some of them by the help of a rival, another client that acts at the worst moment. Fills no ring:
 * nobody drains while it runs. */
#ifndef MOB_TESTS_STORE_CRASH_SCRIPT_H
#define MOB_TESTS_STORE_CRASH_SCRIPT_H

#include <unistd.h>

#include "tests/unit/runtime/store/store_support.h"

enum {
    IDS = 4096,
    OTHERS = 8,
    VICTIM_STREAM = 1000,
    RIVAL_STREAM = 3000,
    CONTESTED = 180,
    ORPHAN_SIZE = 10800,
    OUT_RING_BYTES = 16384
};

/* What an object is follows from its index. */
enum kind { SMALL, SLAB, LARGE };
static enum kind kind_of(uint32_t index)
{
    return index % 8 < 4 ? SMALL : index % 8 < 7 ? SLAB : LARGE;
}
static uint64_t payload_of(uint32_t index)
{
    return kind_of(index) == LARGE ? 150000 + index : 40 + index % 60 * 37;
}

static void fail_in_child(const char *what)
{
    fprintf(stderr, "child %d: %s\n", (int)getpid(), what);
    abort();
}
#define CHILD_CHECK(x) \
    do { \
        if (!(x)) \
            fail_in_child(#x); \
    } while (0)

static enum mob_status make(
    struct mob_store_client *client, struct mob_object_id id, struct mob_object_ref *ref_out)
{
    uint32_t index = id.task.index;
    if (kind_of(index) == SMALL) {
        int64_t n = (int64_t)index * 7;
        return mob_store_put_small(client, id, MOB_TYPE_I64, &n, sizeof n, ref_out);
    }
    uint64_t payload = payload_of(index), size;
    void *bytes;
    uint8_t *at;
    CHILD_CHECK(mob_value_full_size(payload, 0, 0, &size) == MOB_OK);
    enum mob_status status = mob_store_object_create(client, id, size, ref_out, &bytes);
    if (status != MOB_OK)
        return status;
    CHILD_CHECK(mob_value_init(bytes, size, MOB_TYPE_BYTES, payload, NULL, 0, NULL, 0, &at) == MOB_OK);
    memset(at, (int)index, payload);
    return MOB_OK;
}

static bool publish(struct mob_store_client *client, struct mob_object_id id)
{
    struct mob_out_put put = {.id = id};
    struct mob_piece piece = {&put, sizeof put};
    return mob_store_publish(client, MOB_OUT_PUT, 0, 0, &piece, 1) == MOB_OK;
}

static void make_publish_seal(struct mob_store_client *client, struct mob_object_id id)
{
    struct mob_object_ref ref;
    CHILD_CHECK(make(client, id, &ref) == MOB_OK);
    CHILD_CHECK(publish(client, id));
    CHILD_CHECK(mob_store_object_seal(client, ref) == MOB_OK);
}

static void batch_of_puts(struct mob_store_client *client, uint32_t stream, uint32_t first)
{
    struct mob_object_ref refs[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct mob_out_put put = {.id = test_id(stream, first + i, 0)};
        CHILD_CHECK(make(client, put.id, &refs[i]) == MOB_OK);
        void *body = mob_store_out_reserve(client, sizeof put);
        CHILD_CHECK(body);
        memcpy(body, &put, sizeof put);
        mob_store_out_commit(client, MOB_OUT_PUT, 0, 0, sizeof put);
    }
    for (uint32_t i = 0; i < 3; i++)
        CHILD_CHECK(mob_store_object_seal(client, refs[i]) == MOB_OK);
}

static void pin_and_release(struct mob_store_client *client)
{
    struct test_got got[OTHERS];
    for (uint32_t i = 0; i < OTHERS; i++) {
        got[i] = test_get(client, test_id(1, i, 0));
        CHILD_CHECK(got[i].status == MOB_OK);
    }
    for (uint32_t i = 0; i < OTHERS; i += 2)
        mob_store_object_release(client, got[i].pin);
    struct test_got again = test_get(client, test_id(1, 5, 0)); /* stays pinned */
    CHILD_CHECK(again.status == MOB_OK);
}

/* The last record is to be read before anything begins. */
static void read_inbound(struct mob_store_client *client)
{
    struct mob_record record;
    CHILD_CHECK(!mob_store_in_begin(client));
    for (int i = 0; i < 3; i++) {
        CHILD_CHECK(mob_store_in_peek(client, &record) != NULL);
        mob_store_in_pop(client);
    }
    mob_store_in_release(client);
    CHILD_CHECK(mob_store_in_begin(client));
    client->fences = true; /* as where the node cannot do it */
    CHILD_CHECK(mob_store_in_begin(client));
}

static void create(
    struct mob_store_client *client, uint32_t index, uint64_t size, struct mob_object_ref *ref_out)
{
    void *bytes;
    CHILD_CHECK(
        mob_store_object_create(client, test_id(VICTIM_STREAM, index, 0), size, ref_out, &bytes) == MOB_OK);
}

/* With no unit left, a chunk that a dead client left half empty does. No other object of the script has its
 * class: the client has no chunk of it. */
static void adopt_an_orphan(struct mob_store_client *client)
{
    struct mob_object_ref ref;
    void *bytes;
    uint32_t index = 200;
    for (uint64_t size = 1 << 20; size >= MOB_UNIT_BYTES; size /= 4)
        while (
            mob_store_object_create(client, test_id(VICTIM_STREAM, index, 0), size, &ref, &bytes) == MOB_OK)
            index++;
    create(client, index, ORPHAN_SIZE, &ref);
}

/* The node looked at a chunk when it lay empty, and made it an orphan when objects had come into it. */
static void last_block_of_an_orphan(struct mob_store_client *client)
{
    const uint64_t size = 21000;
    const uint32_t blocks = MOB_UNIT_BYTES / 21760;
    struct mob_object_ref refs[MOB_UNIT_BYTES / 21760 + 1];
    for (uint32_t i = 0; i <= blocks; i++)
        create(client, 150 + i, size, &refs[i]); /* the last one in the next chunk */
    const struct mob_view *view = &client->view;
    uint64_t offset = MOB_SEG_LOAD(&view->seg_table[refs[0].entry].offset) - view->arena_offset;
    uint64_t unit = offset / MOB_UNIT_BYTES;
    uint32_t mark = MOB_SEG_LOAD(&view->unit_map[unit].v);
    /* as the node would: no store of this client */
    atomic_store(&view->unit_map[unit].v, MOB_UNIT_MARK(MOB_UNIT_CHUNK_ORPHAN, MOB_UNIT_CLASS(mark), 0));
    for (uint32_t i = 0; i <= blocks; i++)
        mob_store_object_abort(client, refs[i]);
}

/* The next look for a free unit begins there. */
static void space_below_comes_back(struct mob_store_client *client)
{
    struct mob_object_ref below, above;
    create(client, 160, 2 * MOB_UNIT_BYTES, &below);
    create(client, 161, MOB_UNIT_BYTES, &above);
    mob_store_object_abort(client, below);
}

/* A record that its ring does not hold in one piece. */
static void publish_in_parts(struct mob_store_client *client)
{
    struct mob_out_put put = {.id = test_id(VICTIM_STREAM, 0, 0)};
    static const uint8_t more[OUT_RING_BYTES / 2 + 1000];
    struct mob_piece pieces[2] = {{&put, sizeof put}, {more, sizeof more}};
    CHILD_CHECK(mob_store_publish(client, MOB_OUT_PUT, 0, 0, pieces, 2) == MOB_OK);
}

static bool news_by_poke(void *client)
{
    mob_store_poke(client);
    return true;
}

/* The last takes 100 ms: nobody gives it space. */
static void sleep_in_all_ways(struct mob_store_client *client)
{
    CHILD_CHECK(mob_store_sleep(client, 0, NULL, NULL) == MOB_TIMEOUT);
    mob_store_sleep_or(client, INT64_MAX, news_by_poke, client);
    mob_store_wait_space(client);
}

/* ---- what another client does in the middle of that ---- */

struct rival {
    struct mob_store_client *client;
    uint32_t seen; /* passages of the site that it waits for */
    uint32_t next;
    bool takes_a_unit, makes_the_same;
};

/* A unit of the range that the victim is about to mark, after it marked the first. */
static void take_a_unit(struct rival *rival)
{
    struct mob_object_ref ref;
    void *bytes;
    struct mob_object_id id = test_id(RIVAL_STREAM, rival->next++, 0);
    CHILD_CHECK(mob_store_object_create(rival->client, id, MOB_UNIT_BYTES, &ref, &bytes) == MOB_OK);
}

/* The id that the victim is about to make known. */
static void make_the_same(struct rival *rival)
{
    struct mob_object_ref ref;
    CHILD_CHECK(make(rival->client, test_id(VICTIM_STREAM, CONTESTED, 0), &ref) == MOB_OK);
}

static void rival_acts(const struct mob_segment_site *site, void *arg)
{
    struct rival *rival = arg;
    if (rival->takes_a_unit && strcmp(site->function, "claim_range") == 0 && ++rival->seen == 2) {
        rival->takes_a_unit = false;
        take_a_unit(rival);
    } else if (rival->makes_the_same && strcmp(site->function, "claim_entry") == 0) {
        rival->makes_the_same = false;
        make_the_same(rival);
    }
}

static void lose_to_a_rival(struct mob_store_client *client, struct rival *rival)
{
    struct mob_object_ref ref;
    mob_segment_set_rival(rival_acts, rival);
    rival->takes_a_unit = true;
    create(client, 170, 3 * MOB_UNIT_BYTES, &ref);
    rival->makes_the_same = true;
    CHILD_CHECK(make(client, test_id(VICTIM_STREAM, CONTESTED, 0), &ref) == MOB_EXISTS);
    CHILD_CHECK(!rival->takes_a_unit && !rival->makes_the_same);
    mob_segment_set_rival(NULL, NULL);
}

/* Everything once, some of it along the rare paths. Fills no ring: nobody drains while it runs. */
static void script(struct mob_store_client *client, struct rival *rival)
{
    const uint32_t s = VICTIM_STREAM;
    struct mob_object_ref ref;
    for (uint32_t i = 0; i < 8; i++)
        make_publish_seal(client, test_id(s, i, 0));
    CHILD_CHECK(make(client, test_id(s, 3, 0), &ref) == MOB_EXISTS);
    publish_in_parts(client);
    lose_to_a_rival(client, rival);
    last_block_of_an_orphan(client);
    space_below_comes_back(client);
    for (uint32_t i = 8; i < 16; i++) { /* aborted */
        CHILD_CHECK(make(client, test_id(s, i, 0), &ref) == MOB_OK);
        mob_store_object_abort(client, ref);
    }
    batch_of_puts(client, s, 20);
    pin_and_release(client);
    read_inbound(client);
    /* A run of one class until a second chunk is needed, then more than there is. */
    uint64_t size;
    void *bytes;
    CHILD_CHECK(mob_value_full_size(13000, 0, 0, &size) == MOB_OK);
    for (uint32_t i = 0; i < 7; i++)
        CHILD_CHECK(mob_store_object_create(client, test_id(s, 100 + i, 1), size, &ref, &bytes) == MOB_OK);
    mob_store_object_abort(client, ref);
    CHILD_CHECK(
        mob_store_object_create(client, test_id(s, 120, 0), 64 << 20, &ref, &bytes) == MOB_STORE_FULL);
    CHILD_CHECK(mob_store_object_create(client, test_id(s, 121, 0), 5 << 20, &ref, &bytes) == MOB_STORE_FULL);
    for (uint32_t i = 24; i < 32; i++) /* returns of one task; published, never sealed */
        CHILD_CHECK(make(client, test_id(s, i, 0), &ref) == MOB_OK && publish(client, test_id(s, i, 0)));
    for (uint32_t i = 32; i < 40; i++) /* never published */
        CHILD_CHECK(make(client, test_id(s, i, 0), &ref) == MOB_OK);
    adopt_an_orphan(client);
    for (uint32_t i = 0; i < 40; i++) { /* bodies of any length */
        struct mob_out_put put = {.id = test_id(s, 0, 0)};
        struct mob_piece pieces[2] = {{&put, sizeof put}, {"padding", i % 8}};
        CHILD_CHECK(mob_store_publish(client, MOB_OUT_PUT, 0, 0, pieces, 2) == MOB_OK);
    }
    sleep_in_all_ways(client);
}

#endif
