/* Block by block the same bytes in all members, each decoded; and each member's index against its Redis, in
 * both directions. Up to the position that all had applied at the beginning: what came later is not looked
 * for. Blocks go meanwhile, flushed or with their job, in one member a moment before the other: so what
 * differs is looked at again until it is the same, or has stayed so for some seconds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gcs_verify_members.h"
#include "common/base/array.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "gcs/shard/redis_scan.h"

#define AGAIN_MAX 10u /* times; members differ for milliseconds */
#define GONE_BLOCKS_MAX 4096u /* positions tried behind a block that cannot be read */

enum suspicion {
    BLOCK_NOT_IN_REDIS, /* and in the index of `member` */
    BLOCK_NOT_INDEXED, /* and in the Redis of `member` */
    BLOCK_DIFFERS, /* between `member` and the next */
    SUSPICIONS
};
struct suspect {
    enum suspicion what;
    uint32_t member;
    uint64_t seq;
    bool there; /* BLOCK_NOT_INDEXED: in Redis still */
    bool another; /* BLOCK_DIFFERS: the next has it, with other bytes */
};
struct blocks_check {
    struct members *m;
    uint64_t upto;
    struct suspect *list;
    size_t count, capacity;
    bool no_memory;
    uint32_t member; /* whose Redis is read */
};

static void suspect(struct blocks_check *c, enum suspicion what, uint32_t member, uint64_t seq)
{
    if (!mob_array_room((void **)&c->list, c->count + 1, &c->capacity, sizeof *c->list)) {
        c->no_memory = true;
        return;
    }
    c->list[c->count++] = (struct suspect){.what = what, .member = member, .seq = seq};
}

/* ---- what a member has ---- */

static bool keep(struct member *one, uint64_t seq, uint64_t digest)
{
    if (!mob_array_room((void **)&one->blocks, one->count + 1, &one->capacity, sizeof *one->blocks))
        return false;
    one->blocks[one->count++] = (struct member_block){seq, digest};
    return true;
}

static bool decodes(struct members *m, const struct member *one, const struct mob_gcs_block_row *row,
    struct mob_zone_map *zone)
{
    static struct mob_entry entry; /* too large for the stack */
    struct mob_block_header header;
    struct mob_block_decoder *decoder = m->v->decoder;
    enum mob_status status = mob_block_open(decoder, row->bytes, row->length, &header, zone);
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
 * taken; 0 at the end. *missing_out: a block before that, or 0. */
static enum mob_status next_page(
    struct members *m, struct member *one, uint64_t *position, uint32_t *count_out, uint64_t *missing_out)
{
    *missing_out = 0;
    enum mob_status status = mob_member_scan(one->link, *position, 0, m->rows, count_out, position);
    if (status != MOB_UNAVAILABLE || mob_member_broken(one->link))
        return status;
    uint64_t at = *position, first = at;
    while ((status = mob_member_scan(one->link, at, 1, m->rows, count_out, position)) == MOB_UNAVAILABLE &&
        !mob_member_broken(one->link) && at - first < GONE_BLOCKS_MAX)
        at++;
    if (status == MOB_OK && at > first) /* the last position that was refused was that before it */
        *missing_out = at;
    return status;
}

static bool take_block(struct members *m, struct member *one, const struct mob_gcs_block_row *row)
{
    static struct mob_zone_map zone; /* too large for the stack */
    bool good = decodes(m, one, row, &zone);
    one->damaged += !good;
    return keep(one, row->seq, mob_hash64(row->bytes, row->length)) &&
        (!good || members_index_take(m, one, &zone, row->seq));
}

/* Until it has no more, or what it has is beyond what is compared. */
static enum mob_status read_blocks(struct blocks_check *c, uint32_t member)
{
    struct members *m = c->m;
    struct member *one = &m->all[member];
    uint64_t position = 0;
    do {
        uint32_t count = 0;
        uint64_t missing;
        enum mob_status status = next_page(m, one, &position, &count, &missing);
        if (status != MOB_OK)
            return status;
        if (missing != 0 && missing <= c->upto)
            suspect(c, BLOCK_NOT_IN_REDIS, member, missing);
        for (uint32_t i = 0; i < count; i++) {
            const struct mob_gcs_block_row *row = &m->rows[i];
            if (row->seq > c->upto)
                return MOB_OK;
            if (!take_block(m, one, row))
                return MOB_NO_MEMORY;
        }
    } while (position != 0);
    return MOB_OK;
}

/* From the beginning, also when it is asked again: then it is another member, with what it has. */
static enum mob_status ask_blocks(struct members *m, struct member *one)
{
    struct blocks_check *c = m->blocks;
    uint32_t member = (uint32_t)(one - m->all);
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].member != member)
            c->list[kept++] = c->list[i];
    c->count = kept;
    one->count = one->ref_count = 0;
    one->ref_part = 0;
    one->damaged = 0;
    return read_blocks(c, member);
}

static int by_seq(const void *a, const void *b)
{
    const struct member_block *x = a, *y = b;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static const struct member_block *block_of(const struct member *one, uint64_t seq)
{
    const struct member_block wanted = {.seq = seq};
    return one->count == 0 ? NULL : bsearch(&wanted, one->blocks, one->count, sizeof wanted, by_seq);
}

static void look_at_key(void *arg, uint64_t seq)
{
    struct blocks_check *c = arg;
    if (block_of(&c->m->all[c->member], seq) == NULL)
        suspect(c, BLOCK_NOT_INDEXED, c->member, seq);
}

/* Whatever the index says. Blocks that came since are suspects for a moment. */
static bool read_keys(struct member *one, void (*key)(void *arg, uint64_t seq), void *arg)
{
    char directory[STATE_PATH_MAX]; /* beside its socket, of the same name */
    snprintf(directory, sizeof directory, "%.*s", (int)(strlen(one->path) - strlen(".sock")), one->path);
    bool good = mob_redis_each_block(directory, key, arg) == MOB_OK;
    if (!good)
        cli_say("the Redis of %s does not answer", one->name);
    return good;
}

/* Blocks of one that the other has not, or otherwise. */
static void compare_with_next(struct blocks_check *c, uint32_t member)
{
    const struct member *one = &c->m->all[member], *next = &c->m->all[(member + 1) % c->m->count];
    for (size_t i = 0; i < one->count; i++) {
        const struct member_block *there = block_of(next, one->blocks[i].seq);
        if (there == NULL || there->digest != one->blocks[i].digest)
            suspect(c, BLOCK_DIFFERS, member, one->blocks[i].seq);
    }
}

/* ---- looked at again ---- */

struct probe {
    enum { PROBE_FAILED, PROBE_ABSENT, PROBE_THERE, PROBE_UNREADABLE } is;
    uint64_t digest;
};

static struct probe probe(struct members *m, struct member *one, uint64_t seq)
{
    uint32_t count = 0;
    uint64_t next = 0;
    enum mob_status status =
        one->link == NULL ? MOB_UNAVAILABLE : mob_member_scan(one->link, seq - 1, 1, m->rows, &count, &next);
    if (one->link == NULL ||
        (status != MOB_OK && (status != MOB_UNAVAILABLE || mob_member_broken(one->link))))
        return (struct probe){.is = PROBE_FAILED};
    if (status != MOB_OK)
        return (struct probe){.is = PROBE_UNREADABLE};
    if (count == 0 || m->rows[0].seq != seq)
        return (struct probe){.is = PROBE_ABSENT};
    return (struct probe){PROBE_THERE, mob_hash64(m->rows[0].bytes, m->rows[0].length)};
}

/* False: as it ought to be. */
static bool still_wrong(struct members *m, struct suspect *s)
{
    struct probe a = probe(m, &m->all[s->member], s->seq);
    switch (s->what) {
    case BLOCK_NOT_IN_REDIS:
        return a.is == PROBE_FAILED || a.is == PROBE_UNREADABLE;
    case BLOCK_NOT_INDEXED: /* one behind it that cannot be read hides that it is not */
        return s->there && a.is != PROBE_THERE;
    case BLOCK_DIFFERS: {
        struct probe b = probe(m, &m->all[(s->member + 1) % m->count], s->seq);
        s->another = b.is == PROBE_THERE;
        return a.is == PROBE_FAILED || b.is == PROBE_FAILED || a.is != b.is ||
            (a.is == PROBE_THERE && a.digest != b.digest);
    }
    case SUSPICIONS:
    default:
        return true;
    }
}

static int by_key(const void *a, const void *b)
{
    const struct suspect *x = a, *y = b;
    if (x->what != y->what)
        return (x->what > y->what) - (x->what < y->what);
    return x->member != y->member ? (x->member > y->member) - (x->member < y->member)
                                  : (x->seq > y->seq) - (x->seq < y->seq);
}

static void note_key(void *arg, uint64_t seq)
{
    struct blocks_check *c = arg;
    struct suspect wanted = {.what = BLOCK_NOT_INDEXED, .member = c->member, .seq = seq};
    struct suspect *s = bsearch(&wanted, c->list, c->count, sizeof wanted, by_key);
    if (s != NULL)
        s->there = true;
}

/* Which of the keys are in Redis still. */
static bool read_keys_again(struct blocks_check *c)
{
    bool of_member[STATE_REPLICAS_MAX] = {false};
    for (size_t i = 0; i < c->count; i++) {
        of_member[c->list[i].member] |= c->list[i].what == BLOCK_NOT_INDEXED;
        c->list[i].there = false;
    }
    if (c->count > 0)
        qsort(c->list, c->count, sizeof *c->list, by_key);
    for (uint32_t i = 0; i < c->m->count; i++) {
        c->member = i;
        if (of_member[i] && !read_keys(&c->m->all[i], note_key, c))
            return false;
    }
    return true;
}

static bool look_again(struct blocks_check *c)
{
    for (unsigned times = 0; verify_again(c->count, times, AGAIN_MAX); times++) {
        size_t left = 0;
        if (times > 0)
            verify_pause();
        if (!members_read_stats(c->m) || !read_keys_again(c)) /* which opens links that have ended */
            return false;
        for (size_t i = 0; i < c->count; i++)
            if (still_wrong(c->m, &c->list[i]))
                c->list[left++] = c->list[i];
        c->count = left;
    }
    return true;
}

/* ---- the answer ---- */

static void name(const struct members *m, const struct suspect *s)
{
    MOB_ASSERT(s->member < m->count);
    const struct member *one = &m->all[s->member], *next = &m->all[(s->member + 1) % m->count];
    if (s->what == BLOCK_NOT_IN_REDIS)
        cli_say("%s: the block at %" PRIu64 " is in the index and not in Redis", one->name, s->seq);
    else if (s->what == BLOCK_NOT_INDEXED)
        cli_say("%s: the block at %" PRIu64 " is in Redis and not in the index", one->name, s->seq);
    else
        cli_say("the block at %" PRIu64 " of %s is %s in %s", s->seq, one->name,
            s->another ? "another" : "not", next->name);
}

static void tell(struct blocks_check *c, bool replaced)
{
    char figures[VERIFY_FIGURES_MAX];
    uint64_t damaged = 0, blocks = 0, of[SUSPICIONS] = {0};
    for (uint32_t i = 0; i < c->m->count; i++) {
        damaged += c->m->all[i].damaged;
        blocks += c->m->all[i].count;
    }
    for (size_t i = 0; i < c->count; i++)
        if (of[c->list[i].what]++ < VERIFY_NAMED_MAX)
            name(c->m, &c->list[i]);
    bool unsure = c->count > 0 && replaced;
    snprintf(figures, sizeof figures,
        "%" PRIu64 " blocks up to %" PRIu64 ", %" PRIu64 " damaged, %" PRIu64 " missing, %" PRIu64
        " not indexed, %" PRIu64 " differ%s",
        blocks, c->upto, damaged, of[BLOCK_NOT_IN_REDIS], of[BLOCK_NOT_INDEXED], of[BLOCK_DIFFERS],
        unsure ? " (a member was replaced meanwhile: not compared)" : "");
    verify_say(c->m->v,
        damaged > 0         ? VERIFY_BAD
            : c->count == 0 ? VERIFY_GOOD
            : unsure        ? VERIFY_NOT_COMPARED
                            : VERIFY_BAD,
        "blocks of each member", figures);
}

bool members_lacks_some(const struct mob_gcs_stats *s)
{
    return strcmp(s->state, "idle") == 0 || strcmp(s->state, "joining") == 0;
}

/* For gcs_verify_chain.c. */
static void give_known(struct blocks_check *c)
{
    struct verify *v = c->m->v;
    const struct member *one = &c->m->all[0];
    v->known = calloc(one->count + 1, sizeof *v->known);
    v->known_upto = c->upto;
    for (size_t i = 0; i < one->count && v->known != NULL; i++)
        v->known[v->known_count++] = one->blocks[i].seq;
}

bool members_check_blocks(struct members *m)
{
    struct blocks_check c = {.m = m, .upto = UINT64_MAX};
    for (uint32_t i = 0; i < m->count; i++) {
        c.upto = m->all[i].stats.applied < c.upto ? m->all[i].stats.applied : c.upto;
        m->all[i].self = m->all[i].stats.self;
    }
    bool good = true, replaced = false;
    m->upto = c.upto;
    m->blocks = &c;
    for (uint32_t i = 0; i < m->count && good; i++) {
        c.member = i;
        good = members_ask(m, &m->all[i], ask_blocks) && read_keys(&m->all[i], look_at_key, &c);
    }
    for (uint32_t i = 0; i < m->count && good && m->count > 1; i++)
        compare_with_next(&c, i);
    good = good && look_again(&c) && members_read_stats(m) && !c.no_memory;
    for (uint32_t i = 0; i < m->count; i++)
        replaced |= m->all[i].stats.self != m->all[i].self || members_lacks_some(&m->all[i].stats);
    if (good) {
        tell(&c, replaced);
        give_known(&c);
    }
    m->blocks = NULL;
    free(c.list);
    return good;
}
