#include "tests/support/chain_compare.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "gcs/client/member_link.h"
#include "gcs/shard/redis_scan.h"

#define STORE_LOOKS 20 /* 100 ms apart */

struct holding {
    struct mob_gcs_stats stats;
    uint64_t *seqs, digest; /* digest of positions and bytes */
    size_t count, capacity;
    uint64_t in_redis, strange; /* keys of blocks in its Redis; of those, not in the member */
};

__attribute__((format(printf, 2, 3))) static void wrong(struct chain_compared *c, const char *format, ...)
{
    va_list arguments;
    if (c->wrong[0] != 0)
        return;
    va_start(arguments, format);
    vsnprintf(c->wrong, sizeof c->wrong, format, arguments);
    va_end(arguments);
}

static bool read_stats(struct chain_box *box, struct holding *all)
{
    bool good = true;
    for (uint32_t i = 0; i < box->members && good; i++) {
        struct mob_member_link *link = NULL;
        good = gcs_box_member(box->member[i].socket, box->shard, &link) == MOB_OK &&
            mob_member_stats(link, &all[i].stats) == MOB_OK;
        mob_member_close(link);
    }
    return good;
}

/* Whole, and at one position: that of `*last` if it is not 0, which becomes it. */
static bool at_one_position(struct chain_box *box, struct holding *all, uint64_t *last)
{
    bool same = chain_box_wait_length(box, box->members, mob_now() - 1) && read_stats(box, all);
    for (uint32_t i = 1; i < box->members && same; i++)
        same = all[i].stats.applied == all[0].stats.applied && all[i].stats.flushed == all[0].stats.flushed;
    same = same && (*last == 0 || all[0].stats.applied == *last);
    *last = all[0].stats.applied;
    return same;
}

static void keep(struct holding *h, const struct mob_gcs_block_row *row)
{
    if (h->count == h->capacity) {
        h->capacity = h->capacity == 0 ? 4096 : 2 * h->capacity;
        h->seqs = realloc(h->seqs, h->capacity * sizeof *h->seqs);
        MOB_ASSERT(h->seqs != NULL);
    }
    h->seqs[h->count++] = row->seq; /* ascending */
    uint64_t both[3] = {h->digest, row->seq, mob_hash64(row->bytes, row->length)};
    h->digest = mob_hash64(both, sizeof both);
}

static bool read_blocks(struct chain_box *box, uint32_t i, struct holding *h)
{
    struct mob_gcs_block_row *rows = calloc(MOB_GCS_ROWS_MAX, sizeof *rows);
    struct mob_member_link *link = NULL;
    MOB_ASSERT(rows != NULL);
    bool good = gcs_box_member(box->member[i].socket, box->shard, &link) == MOB_OK;
    uint64_t position = 0;
    do {
        uint32_t count = 0;
        good = good && mob_member_scan(link, position, 0, rows, &count, &position) == MOB_OK;
        for (uint32_t k = 0; k < count && good; k++)
            keep(h, &rows[k]);
    } while (good && position != 0);
    mob_member_close(link);
    free(rows);
    return good;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void look_at_key(void *arg, uint64_t seq)
{
    struct holding *h = arg;
    h->in_redis++;
    h->strange += h->count == 0 || bsearch(&seq, h->seqs, h->count, sizeof seq, by_number) == NULL;
}

static void compare_two(struct chain_compared *c, const struct holding *a, const struct holding *b)
{
    if (a->stats.history_digest != b->stats.history_digest)
        wrong(c, "other histories at %llu", (unsigned long long)c->applied);
    if (a->stats.state_digest != b->stats.state_digest)
        wrong(c, "other tables at %llu", (unsigned long long)c->applied);
    if (a->stats.flushed != b->stats.flushed)
        wrong(c, "flushed up to %llu and %llu", (unsigned long long)a->stats.flushed,
            (unsigned long long)b->stats.flushed);
    if (a->count != b->count || a->digest != b->digest)
        wrong(c, "%zu and %zu blocks, or with another content", a->count, b->count);
    if (a->stats.cold_groups != b->stats.cold_groups)
        wrong(c, "%llu and %llu groups with unfinished tasks in what was flushed",
            (unsigned long long)a->stats.cold_groups, (unsigned long long)b->stats.cold_groups);
}

/* Does a member's Redis hold other blocks than the member? Its writes follow what it has applied, and only
 * the tail waits for them. */
static bool store_differs(const struct holding *h)
{
    return h->strange > 0 || h->in_redis < h->count;
}

static void look(struct chain_box *box, struct chain_compared *c, struct holding *all)
{
    c->applied = all[0].stats.applied;
    c->flushed = all[0].stats.flushed;
    for (uint32_t i = 0; i < box->members; i++) {
        struct holding *h = &all[i];
        if (!read_blocks(box, i, h) ||
            mob_redis_each_block(box->member[i].directory, look_at_key, h) != MOB_OK)
            wrong(c, "member %u cannot be read, or lacks a block in its Redis", i);
        if (store_differs(h))
            wrong(c, "member %u has %zu blocks, its Redis %llu, %llu of them others", i, h->count,
                (unsigned long long)h->in_redis, (unsigned long long)h->strange);
    }
    c->blocks = all[0].count;
    for (uint32_t i = 1; i < box->members; i++)
        compare_two(c, &all[0], &all[i]);
}

static bool a_store_differs(const struct chain_box *box, const struct holding *all)
{
    for (uint32_t i = 0; i < box->members; i++)
        if (store_differs(&all[i]))
            return true;
    return false;
}

struct chain_compared chain_compare(struct chain_box *box, int64_t deadline_ns)
{
    struct chain_compared c;
    uint64_t last = 0;
    bool still = false;
    int looks = 0;
    do { /* a FLUSH comes a second after the last write, when that is durable */
        struct holding all[CHAIN_BOX_MEMBERS_MAX] = {0};
        c = (struct chain_compared){.wrong = ""};
        if (at_one_position(box, all, &last)) {
            look(box, &c, all);
            still = at_one_position(box, all, &last);
            still = still && (!a_store_differs(box, all) || ++looks > STORE_LOOKS);
        }
        for (uint32_t i = 0; i < box->members; i++)
            free(all[i].seqs);
        if (!still) {
            chain_box_tend(box);
            poll(NULL, 0, 100);
        }
    } while (!still && mob_now() < deadline_ns);
    if (!still) {
        c.wrong[0] = 0;
        wrong(&c, "they do not come to stand at one position: %llu and others", (unsigned long long)last);
    }
    return c;
}
