/* What a client is given of the log: every block decodes, none is passed over, and it is found by the groups
 * that it has something of. Each look-up reads blocks: so some are done, of groups from all over with equal
 * chances. All groups are compared by gcs_verify_index.c, with each member. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gcs_verify.h"
#include "common/base/mac.h"

#define LOOKUPS_MAX 1000u

struct sample {
    struct mob_stream stream;
    uint32_t group;
    uint64_t seq; /* of a block that has something of it */
};
struct chain_check {
    struct verify *v;
    struct sample *samples; /* LOOKUPS_MAX */
    uint64_t random;
    uint64_t groups; /* of all blocks */
    uint64_t wrong;
    uint64_t *passed_over; /* positions of known blocks that were not given */
    size_t passed_count, known_at;
};

static struct mob_gcs_result *scan_page(struct verify *v, uint64_t position, uint32_t limit)
{
    const struct mob_gcs_scan scan = {.position = position, .limit = limit};
    struct mob_gcs_sync sync = {0};
    return gcs_wait(v->g, mob_gcs_scan(v->g->gcs, &scan, mob_gcs_sync_done, &sync), &sync);
}

/* Is the block there, and not flushed? False in *answers_out: who knows. */
static bool is_here(struct verify *v, uint64_t seq, bool *answers_out)
{
    struct mob_gcs_result *r = scan_page(v, seq - 1, 1);
    *answers_out = r != NULL;
    if (r == NULL)
        return false;
    const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
    bool here = a->block_count > 0 && a->blocks[0].seq == seq && !a->blocks[0].recut;
    mob_gcs_result_destroy(r);
    return here;
}

/* ---- the index, in both directions: the block is among those of its group, and whatever is among them has
 * something of the group ---- */

struct group_answer {
    bool answers, found;
    uint64_t foreign; /* a block that has nothing of the group, or 0 */
};

static bool has_group(const struct mob_gcs_block_row *row, const struct sample *s)
{
    static struct mob_zone_map zone; /* too large for the stack */
    struct mob_block_header header;
    if (mob_block_peek(row->bytes, row->length, &header, &zone) != MOB_OK)
        return true; /* that it is damaged is said elsewhere */
    for (uint32_t k = 0; k < zone.group_count; k++)
        if (zone.groups[k].group == s->group && mob_stream_eq(zone.groups[k].stream, s->stream))
            return true;
    return false;
}

static struct group_answer ask_group(struct verify *v, const struct sample *s)
{
    struct group_answer out = {.answers = true};
    uint64_t position = 0;
    do {
        struct mob_gcs_sync sync = {0};
        struct mob_gcs_result *r = gcs_wait(v->g,
            mob_gcs_group_here(v->g->gcs, s->stream, s->group, position, mob_gcs_sync_done, &sync), &sync);
        if (r == NULL)
            return (struct group_answer){0};
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++) {
            out.found |= a->blocks[i].seq == s->seq;
            if (!has_group(&a->blocks[i], s))
                out.foreign = a->blocks[i].seq;
        }
        position = a->next;
        mob_gcs_result_destroy(r);
    } while (position != 0);
    return out;
}

/* False: the chain does not answer. */
static bool look_up(struct chain_check *c, const struct sample *s)
{
    bool answers = true;
    struct group_answer a = ask_group(c->v, s);
    /* It may have been flushed, or dropped, since it was seen: then it is not there, either. */
    bool lacks = a.answers && !a.found && is_here(c->v, s->seq, &answers);
    if (lacks) {
        a = ask_group(c->v, s);
        lacks = a.answers && !a.found && is_here(c->v, s->seq, &answers);
    }
    if (!a.answers || !answers)
        return false;
    if (lacks && c->wrong < VERIFY_NAMED_MAX)
        cli_say("the index lacks the block at %" PRIu64 " in a group of it", s->seq);
    if (a.foreign != 0 && c->wrong < VERIFY_NAMED_MAX)
        cli_say("the index has the block at %" PRIu64 " in a group that it has nothing of", a.foreign);
    c->wrong += lacks || a.foreign != 0;
    return true;
}

static uint64_t below(struct chain_check *c, uint64_t n)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return c->random % n;
}

/* A reservoir: each group of each block is in it with the same chance, however many come. */
static void take_samples(struct chain_check *c, const struct mob_zone_map *zone, uint64_t seq)
{
    for (uint32_t i = 0; i < zone->group_count; i++) {
        uint64_t at = c->groups++;
        if (at >= LOOKUPS_MAX)
            at = below(c, c->groups);
        if (at < LOOKUPS_MAX)
            c->samples[at] = (struct sample){zone->groups[i].stream, zone->groups[i].group, seq};
    }
}

/* ---- all blocks ---- */

/* Decodes every entry. */
static struct verify_sums sums_of(
    struct verify *v, const struct mob_gcs_block_row *row, struct mob_zone_map *zone)
{
    static struct mob_entry entry;
    struct mob_block_header header;
    struct verify_sums s = {.blocks = 1};
    enum mob_status status = mob_block_open(v->decoder, row->bytes, row->length, &header, zone);
    while (status == MOB_OK && (status = mob_block_next(v->decoder, &entry)) == MOB_OK)
        verify_add_entry(&s, &entry);
    s.damaged = status != MOB_CLOSED;
    if (s.damaged)
        cli_say("the block at %" PRIu64 " does not decode: %s", row->seq, mob_status_text(status));
    return s;
}

static void add(struct verify_sums *to, const struct verify_sums *s)
{
    to->blocks += s->blocks;
    to->specs += s->specs;
    to->finals += s->finals;
    to->failed += s->failed;
    to->others += s->others;
    to->damaged += s->damaged;
}

/* Known blocks before `seq` were not given. */
static void pass_to(struct chain_check *c, uint64_t seq)
{
    const struct verify *v = c->v;
    for (; c->known_at < v->known_count && v->known[c->known_at] < seq; c->known_at++)
        c->passed_over[c->passed_count++] = v->known[c->known_at];
    if (c->known_at < v->known_count && v->known[c->known_at] == seq)
        c->known_at++;
}

static void take_block(struct chain_check *c, const struct mob_gcs_block_row *row)
{
    static struct mob_zone_map zone; /* too large for the stack */
    struct verify *v = c->v;
    struct verify_sums s = sums_of(v, row, &zone);
    if (row->recut && row->seq <= v->flushed_upto)
        add(&v->flushed, &s);
    if (row->recut)
        return; /* others since */
    add(&v->here, &s);
    pass_to(c, row->seq);
    if (s.damaged == 0)
        take_samples(c, &zone, row->seq);
}

static bool scan(struct chain_check *c)
{
    uint64_t position = 0;
    do {
        struct mob_gcs_result *r = scan_page(c->v, position, 0);
        if (r == NULL)
            return false;
        const struct mob_gcs_answer *a = mob_gcs_result_answer(r);
        for (uint32_t i = 0; i < a->block_count; i++)
            take_block(c, &a->blocks[i]);
        position = a->next;
        mob_gcs_result_destroy(r);
    } while (position != 0);
    pass_to(c, UINT64_MAX);
    return true;
}

/* Those that were not given have gone since they were known, or it is wrong. */
static bool check_blocks(struct chain_check *c)
{
    char figures[VERIFY_FIGURES_MAX];
    struct verify *v = c->v;
    uint64_t passed = 0;
    bool answers = true;
    for (size_t i = 0; i < c->passed_count && answers; i++)
        if (is_here(v, c->passed_over[i], &answers) && passed++ < VERIFY_NAMED_MAX)
            cli_say("the block at %" PRIu64 " is there, and is not given with the others", c->passed_over[i]);
    if (!answers)
        return false;
    snprintf(figures, sizeof figures,
        "%" PRIu64 " blocks, %" PRIu64 " damaged, %" PRIu64 " of the %zu up to %" PRIu64 " passed over",
        v->here.blocks, v->here.damaged, passed, v->known_count, v->known_upto);
    verify_say(
        v, v->here.damaged == 0 && passed == 0 ? VERIFY_GOOD : VERIFY_BAD, "blocks of the member", figures);
    return true;
}

static bool check_index(struct chain_check *c)
{
    char figures[VERIFY_FIGURES_MAX];
    uint64_t count = c->groups < LOOKUPS_MAX ? c->groups : LOOKUPS_MAX;
    for (uint64_t i = 0; i < count; i++)
        if (!look_up(c, &c->samples[i]))
            return false;
    snprintf(figures, sizeof figures,
        "%" PRIu64 " of %" PRIu64 " groups of blocks are wrong, of %" PRIu64 " in all", c->wrong, count,
        c->groups);
    verify_say(c->v, c->wrong == 0 ? VERIFY_GOOD : VERIFY_BAD, "index of the member", figures);
    return true;
}

bool verify_chain(struct verify *v)
{
    struct chain_check c = {.v = v,
        .samples = calloc(LOOKUPS_MAX, sizeof *c.samples),
        .passed_over = calloc(v->known_count + 1, sizeof *c.passed_over)};
    mob_random_bytes(&c.random, sizeof c.random);
    c.random |= 1;
    bool good = c.samples != NULL && c.passed_over != NULL && scan(&c) && check_blocks(&c) && check_index(&c);
    free(c.samples);
    free(c.passed_over);
    return good;
}
