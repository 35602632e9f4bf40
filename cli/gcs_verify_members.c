/* All members of a chain: equal digests at one position, and block by block the same bytes, each decoded. A
 * block that the index of a member has and its Redis does not, or the other way round, is named.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/gcs_members.h"
#include "cli/gcs_verify.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "gcs/shard/redis_scan.h"

#define PAUSE_NS (100 * MOB_MS)
#define EQUAL_NS (5 * MOB_SEC) /* until all stand at one position, while others write */
#define PATIENCE_NS (30 * MOB_SEC) /* with a member that is being replaced */
#define GONE_BLOCKS_MAX 4096u /* positions tried behind a block that cannot be read */

struct member_block {
    uint64_t seq, digest;
};
struct member {
    const char *path, *name;
    struct mob_member_link *link;
    struct mob_gcs_stats stats;
    struct member_block *blocks;
    size_t count, capacity;
    uint64_t missing, damaged, not_indexed;
};
struct members {
    struct verify *v;
    struct mob_member_place places[STATE_REPLICAS_MAX];
    struct member all[STATE_REPLICAS_MAX];
    uint32_t count;
    struct mob_gcs_block_row *rows;
    struct mob_member_options options;
    uint8_t secret[STATE_SECRET_BYTES];
};
typedef enum mob_status (*ask_fn)(struct members *m, struct member *one);

/* ---- who they are ---- */

static enum mob_status open_member(struct members *m, struct member *one)
{
    m->options.path = one->path;
    return mob_member_open(&m->options, &one->link);
}

/* A member that was left out of its chain, rightly or not, ends and is back within seconds as another one at
 * the same place. So one that is not there is asked again, over a new link. */
static bool ask_member(struct members *m, struct member *one, ask_fn ask)
{
    int64_t deadline = mob_now() + PATIENCE_NS;
    for (;;) {
        enum mob_status status = one->link == NULL ? open_member(m, one) : MOB_OK;
        bool opened = status == MOB_OK;
        if (opened)
            status = ask(m, one);
        if (status == MOB_OK)
            return true;
        bool gone = status == MOB_UNAVAILABLE && (!opened || mob_member_broken(one->link));
        if (!gone || mob_now() >= deadline) {
            cli_say("the member %s does not answer: %s", one->name, mob_status_text(status));
            return false;
        }
        mob_member_close(one->link);
        one->link = NULL;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

/* ---- digests at one position ---- */

static enum mob_status ask_stats(struct members *m, struct member *one)
{
    (void)m;
    return mob_member_stats(one->link, &one->stats);
}

/* Asked until all stand at the same position, in one configuration: one that joins takes longer. */
static bool read_stats(struct members *m, bool *equal_out)
{
    int64_t began = mob_now(), patience;
    for (;;) {
        bool one_epoch = true;
        *equal_out = true;
        for (uint32_t i = 0; i < m->count; i++) {
            if (!ask_member(m, &m->all[i], ask_stats))
                return false;
            one_epoch &= m->all[i].stats.epoch == m->all[0].stats.epoch;
            *equal_out &= one_epoch && m->all[i].stats.applied == m->all[0].stats.applied;
        }
        patience = one_epoch ? EQUAL_NS : PATIENCE_NS;
        if (*equal_out || mob_now() - began >= patience)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

static void compare_digests(struct members *m, bool at_one_position)
{
    char figures[VERIFY_FIGURES_MAX];
    bool same = true;
    const struct mob_gcs_stats *first = &m->all[0].stats;
    for (uint32_t i = 0; i < m->count && at_one_position; i++) {
        const struct mob_gcs_stats *s = &m->all[i].stats;
        bool equal = s->history_digest == first->history_digest && s->state_digest == first->state_digest &&
            s->blocks == first->blocks && s->flushed == first->flushed;
        if (!equal)
            cli_say("%s and %s differ at %" PRIu64, m->all[0].name, m->all[i].name, first->applied);
        same &= equal;
    }
    if (at_one_position)
        snprintf(figures, sizeof figures,
            "%u members at %" PRIu64 ", history %016" PRIx64 ", tables %016" PRIx64, m->count, first->applied,
            first->history_digest, first->state_digest);
    else
        snprintf(figures, sizeof figures, "%u members (they went on meanwhile: not compared)", m->count);
    verify_say(m->v, same, "digests of the members", figures);
}

/* ---- blocks ---- */

static bool keep(struct member *one, uint64_t seq, uint64_t digest)
{
    if (one->count == one->capacity) {
        size_t capacity = one->capacity == 0 ? 4096 : 2 * one->capacity;
        struct member_block *grown = realloc(one->blocks, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        one->blocks = grown;
        one->capacity = capacity;
    }
    one->blocks[one->count++] = (struct member_block){seq, digest};
    return true;
}

static bool decodes(struct members *m, const struct member *one, const struct mob_gcs_block_row *row)
{
    static struct mob_zone_map zone; /* too large for the stack */
    static struct mob_entry entry;
    struct mob_block_header header;
    struct mob_block_decoder *decoder = m->v->decoder;
    enum mob_status status = mob_block_open(decoder, row->bytes, row->length, &header, &zone);
    while (status == MOB_OK)
        status = mob_block_next(decoder, &entry);
    if (status == MOB_CLOSED)
        return true;
    if (one->damaged < VERIFY_NAMED_MAX)
        cli_say(
            "%s: the block at %" PRIu64 " does not decode: %s", one->name, row->seq, mob_status_text(status));
    return false;
}

/* A page with a block that is not in Redis is refused whole: then block by block. *position: behind what was
 * taken; 0 at the end. */
static enum mob_status next_page(
    struct members *m, struct member *one, uint64_t *position, uint32_t *count_out)
{
    enum mob_status status = mob_member_scan(one->link, *position, 0, m->rows, count_out, position);
    if (status != MOB_UNAVAILABLE || mob_member_broken(one->link))
        return status;
    uint64_t at = *position, first = at;
    while ((status = mob_member_scan(one->link, at, 1, m->rows, count_out, position)) == MOB_UNAVAILABLE &&
        !mob_member_broken(one->link) && at - first < GONE_BLOCKS_MAX)
        at++;
    if (status == MOB_OK && at > first) { /* the last position that was refused was that before it */
        one->missing++;
        cli_say("%s: the block at %" PRIu64 " is in the index and not in Redis", one->name, at);
    }
    return status;
}

/* From the beginning, also when it is asked again: then it is another member, with what it has. */
static enum mob_status ask_blocks(struct members *m, struct member *one)
{
    uint64_t position = 0;
    one->count = 0;
    one->missing = one->damaged = 0;
    do {
        uint32_t count = 0;
        enum mob_status status = next_page(m, one, &position, &count);
        if (status != MOB_OK)
            return status;
        for (uint32_t i = 0; i < count; i++) {
            const struct mob_gcs_block_row *row = &m->rows[i];
            one->damaged += !decodes(m, one, row);
            if (!keep(one, row->seq, mob_hash64(row->bytes, row->length)))
                return MOB_NO_MEMORY;
        }
    } while (position != 0);
    return MOB_OK;
}

/* ---- what its Redis has, whatever the index says ---- */

static int by_seq(const void *a, const void *b)
{
    const struct member_block *x = a, *y = b;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static void look_at_key(void *arg, uint64_t seq)
{
    struct member *one = arg;
    struct member_block wanted = {.seq = seq};
    if (one->count > 0 && bsearch(&wanted, one->blocks, one->count, sizeof wanted, by_seq) != NULL)
        return;
    if (one->not_indexed++ < VERIFY_NAMED_MAX)
        cli_say("%s: the block at %" PRIu64 " is in Redis and not in the index", one->name, seq);
}

static bool read_keys(struct member *one)
{
    char directory[STATE_PATH_MAX]; /* beside its socket, of the same name */
    snprintf(directory, sizeof directory, "%.*s", (int)(strlen(one->path) - strlen(".sock")), one->path);
    bool good = mob_redis_each_block(directory, look_at_key, one) == MOB_OK;
    if (!good)
        cli_say("the Redis of %s does not answer", one->name);
    return good;
}

/* Blocks of `one` that `other` has not, or otherwise. */
static uint64_t compare_blocks(const struct member *one, const struct member *other)
{
    uint64_t wrong = 0;
    size_t at = 0;
    for (size_t i = 0; i < one->count; i++) {
        const struct member_block *b = &one->blocks[i];
        while (at < other->count && other->blocks[at].seq < b->seq)
            at++;
        bool there = at < other->count && other->blocks[at].seq == b->seq;
        if (there && other->blocks[at].digest == b->digest)
            continue;
        if (wrong++ < VERIFY_NAMED_MAX)
            cli_say("the block at %" PRIu64 " of %s is %s in %s", b->seq, one->name,
                there ? "another" : "not", other->name);
    }
    return wrong;
}

static void compare_all(struct members *m, bool quiet)
{
    char figures[VERIFY_FIGURES_MAX];
    uint64_t wrong = 0, missing = 0, damaged = 0, blocks = 0, more = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        struct member *one = &m->all[i], *next = &m->all[(i + 1) % m->count];
        missing += one->missing;
        more += one->not_indexed;
        damaged += one->damaged;
        blocks += one->count;
        if (m->count > 1 && quiet)
            wrong += compare_blocks(one, next);
    }
    snprintf(figures, sizeof figures,
        "%" PRIu64 " blocks, %" PRIu64 " damaged, %" PRIu64 " missing, %" PRIu64 " not indexed, %" PRIu64
        " differ%s",
        blocks, damaged, missing, more, wrong, quiet ? "" : " (they went on meanwhile: not compared)");
    verify_say(m->v, damaged == 0 && ((missing == 0 && more == 0) || !quiet) && wrong == 0,
        "blocks of each member", figures);
}

bool verify_members(struct verify *v)
{
    struct members m = {.v = v, .rows = calloc(MOB_GCS_ROWS_MAX, sizeof *m.rows)};
    bool equal = false, after = false;
    m.count = gcs_member_places(v->g, m.places);
    for (uint32_t i = 0; i < m.count; i++) {
        m.all[i].path = m.places[i].path;
        m.all[i].name = m.places[i].name;
    }
    bool good = m.rows != NULL && m.count > 0 && gcs_member_options(v->g, m.secret, &m.options) &&
        read_stats(&m, &equal);
    if (good)
        compare_digests(&m, equal);
    struct mob_gcs_stats before = m.all[0].stats;
    for (uint32_t i = 0; i < m.count && good; i++)
        good = ask_member(&m, &m.all[i], ask_blocks) && read_keys(&m.all[i]);
    if (good)
        good = read_stats(&m, &after);
    /* In one configuration throughout: no member was replaced by one that was still taking its copy. */
    const struct mob_gcs_stats *now = &m.all[0].stats;
    if (good)
        compare_all(&m, equal && after && before.applied == now->applied && before.epoch == now->epoch);
    for (uint32_t i = 0; i < m.count; i++) {
        mob_member_close(m.all[i].link);
        free(m.all[i].blocks);
    }
    free(m.rows);
    return good;
}
