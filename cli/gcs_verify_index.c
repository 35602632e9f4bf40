/* The index of each member by groups, against the blocks that it has: a block is among those of each group
 * that it has something of, and whatever is among them has. Only positions are asked for, 64 groups at a
 * time, so that all groups are looked up while their blocks are at most REFS_MAX; where they are more, those
 * of one group in two, in four, and so on. Blocks go meanwhile: what seems wrong is looked at again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/gcs_verify_members.h"
#include "common/base/array.h"
#include "common/base/hash.h"

#define REFS_MAX 200000u /* of a member */
#define AGAIN_MAX 10u

struct suspect {
    struct member_ref ref;
    uint32_t member;
    bool foreign; /* else: it is missing */
};
struct index_check {
    struct members *m;
    struct mob_member_index *page;
    struct member_ref *found; /* of the groups in hand */
    size_t found_count, found_capacity;
    struct suspect *list;
    size_t count, capacity;
    uint64_t looked_up, silent; /* groups; members of a version that does not tell */
    unsigned part; /* the largest of the members */
};

/* ---- what is to be there ---- */

static bool is_taken(const struct members *m, const struct member *one, const struct mob_gcs_group_key *key)
{
    struct {
        struct mob_gcs_group_key key;
        uint64_t salt;
    } salted = {*key, m->salt};
    return (mob_hash64(&salted, sizeof salted) & ((1ull << one->ref_part) - 1)) == 0;
}

static void take_fewer(const struct members *m, struct member *one)
{
    size_t left = 0;
    one->ref_part++;
    for (size_t i = 0; i < one->ref_count; i++)
        if (is_taken(m, one, &one->refs[i].group))
            one->refs[left++] = one->refs[i];
    one->ref_count = left;
}

bool members_index_take(struct members *m, struct member *one, const struct mob_zone_map *zone, uint64_t seq)
{
    for (uint32_t i = 0; i < zone->group_count; i++) {
        struct mob_gcs_group_key key = {zone->groups[i].stream, zone->groups[i].group};
        if (!is_taken(m, one, &key))
            continue;
        if (!mob_array_room((void **)&one->refs, one->ref_count + 1, &one->ref_capacity, sizeof *one->refs))
            return false;
        one->refs[one->ref_count++] = (struct member_ref){key, seq};
        while (one->ref_count > REFS_MAX && one->ref_part < 63)
            take_fewer(m, one);
    }
    return true;
}

static int by_group(const void *a, const void *b)
{
    const struct member_ref *x = a, *y = b;
    int order = memcmp(&x->group, &y->group, sizeof x->group);
    return order != 0 ? order : (x->seq > y->seq) - (x->seq < y->seq);
}

static bool same_group(const struct member_ref *a, const struct member_ref *b)
{
    return memcmp(&a->group, &b->group, sizeof a->group) == 0;
}

static bool is_among(const struct member_ref *refs, size_t count, const struct member_ref *ref)
{
    return count > 0 && bsearch(ref, refs, count, sizeof *ref, by_group) != NULL;
}

/* ---- what is there ---- */

/* In `found`, by group and position. */
static enum mob_status look_up(
    struct index_check *c, struct member *one, const struct mob_gcs_group_key *keys, uint32_t count)
{
    c->found_count = 0;
    c->page->next = 0;
    do {
        enum mob_status status = mob_member_index(one->link, keys, count, c->page->next, c->page);
        if (status != MOB_OK)
            return status;
        if (!mob_array_room((void **)&c->found, c->found_count + c->page->count + 1, &c->found_capacity,
                sizeof *c->found))
            return MOB_NO_MEMORY;
        for (uint32_t i = 0; i < c->page->count; i++)
            c->found[c->found_count++] =
                (struct member_ref){keys[c->page->rows[i].key], c->page->rows[i].seq};
    } while (c->page->next != 0);
    if (c->found_count > 0)
        qsort(c->found, c->found_count, sizeof *c->found, by_group);
    return MOB_OK;
}

static bool suspect(
    struct index_check *c, const struct member *one, const struct member_ref *ref, bool foreign)
{
    if (!mob_array_room((void **)&c->list, c->count + 1, &c->capacity, sizeof *c->list))
        return false;
    c->list[c->count++] =
        (struct suspect){.ref = *ref, .member = (uint32_t)(one - c->m->all), .foreign = foreign};
    return true;
}

/* The refs [from, end) are those of the groups in hand. */
static bool compare(struct index_check *c, const struct member *one, size_t from, size_t end)
{
    bool good = true;
    for (size_t i = from; i < end && good; i++)
        if (!is_among(c->found, c->found_count, &one->refs[i]))
            good = suspect(c, one, &one->refs[i], false);
    for (size_t i = 0; i < c->found_count && good; i++)
        if (c->found[i].seq <= c->m->upto && !is_among(one->refs + from, end - from, &c->found[i]))
            good = suspect(c, one, &c->found[i], true);
    return good;
}

static enum mob_status ask_index(struct members *m, struct member *one)
{
    struct index_check *c = m->index;
    struct mob_gcs_group_key keys[MOB_GCS_GROUPS_MAX];
    while (c->count > 0 && c->list[c->count - 1].member == (uint32_t)(one - m->all))
        c->count--; /* of a link that has ended meanwhile */
    for (size_t i = 0, end; i < one->ref_count; i = end) {
        uint32_t count = 0;
        for (end = i; end < one->ref_count; end++) {
            bool another = end == i || !same_group(&one->refs[end], &one->refs[end - 1]);
            if (another && count == MOB_GCS_GROUPS_MAX)
                break;
            if (another)
                keys[count++] = one->refs[end].group;
        }
        enum mob_status status = look_up(c, one, keys, count);
        if (status == MOB_OK && !compare(c, one, i, end))
            status = MOB_NO_MEMORY;
        if (status != MOB_OK)
            return status;
        c->looked_up += count;
    }
    return MOB_OK;
}

/* ---- looked at again ---- */

/* A block that cannot be read is said elsewhere. */
static bool has_group(const struct mob_gcs_block_row *row, const struct mob_gcs_group_key *key)
{
    static struct mob_zone_map zone; /* too large for the stack */
    struct mob_block_header header;
    if (mob_block_peek(row->bytes, row->length, &header, &zone) != MOB_OK)
        return true;
    for (uint32_t i = 0; i < zone.group_count; i++)
        if (zone.groups[i].group == key->group && mob_stream_eq(zone.groups[i].stream, key->stream))
            return true;
    return false;
}

/* False: as it ought to be. */
static bool still_wrong(struct index_check *c, const struct suspect *s)
{
    struct members *m = c->m;
    struct member *one = &m->all[s->member];
    uint32_t count = 0;
    uint64_t next = 0;
    if (one->link == NULL || look_up(c, one, &s->ref.group, 1) != MOB_OK)
        return true;
    bool listed = is_among(c->found, c->found_count, &s->ref);
    if (listed != s->foreign)
        return false;
    if (mob_member_scan(one->link, s->ref.seq - 1, 1, m->rows, &count, &next) != MOB_OK)
        return true;
    bool there = count > 0 && m->rows[0].seq == s->ref.seq;
    return there && has_group(&m->rows[0], &s->ref.group) != s->foreign;
}

static bool look_again(struct index_check *c)
{
    for (unsigned times = 0; verify_again(c->count, times, AGAIN_MAX); times++) {
        size_t left = 0;
        if (times > 0)
            verify_pause();
        if (!members_read_stats(c->m)) /* which opens links that have ended */
            return false;
        for (size_t i = 0; i < c->count; i++)
            if (still_wrong(c, &c->list[i]))
                c->list[left++] = c->list[i];
        c->count = left;
    }
    return true;
}

/* ---- the answer ---- */

static void tell(const struct index_check *c, bool replaced)
{
    char figures[VERIFY_FIGURES_MAX], part[64] = "";
    bool unsure = c->silent > 0 || (c->count > 0 && replaced);
    for (size_t i = 0; i < c->count && i < VERIFY_NAMED_MAX; i++)
        cli_say(c->list[i].foreign ? "%s: the index has the block at %" PRIu64
                                     " in a group that it has nothing of"
                                   : "%s: the index lacks the block at %" PRIu64 " in a group of it",
            c->m->all[c->list[i].member].name, c->list[i].ref.seq);
    if (c->part > 0)
        snprintf(part, sizeof part, ", one of %" PRIu64, UINT64_C(1) << c->part);
    snprintf(figures, sizeof figures, "%" PRIu64 " groups%s, %zu wrong%s%s", c->looked_up, part, c->count,
        c->count > 0 && replaced ? " (a member was replaced meanwhile: not compared)" : "",
        c->silent > 0 ? " (a member of an earlier version does not tell: not compared)" : "");
    verify_say(c->m->v,
        c->count > 0 && !replaced ? VERIFY_BAD
            : unsure              ? VERIFY_NOT_COMPARED
                                  : VERIFY_GOOD,
        "index of each member", figures);
}

static bool check(struct index_check *c)
{
    struct members *m = c->m;
    bool replaced = false, good = members_read_stats(m);
    for (uint32_t i = 0; i < m->count && good; i++) {
        struct member *one = &m->all[i];
        if (one->ref_count > 0)
            qsort(one->refs, one->ref_count, sizeof *one->refs, by_group);
        c->part = one->ref_part > c->part ? one->ref_part : c->part;
        if (one->stats.tells_index == 0)
            c->silent++;
        else
            good = members_ask(m, one, ask_index);
    }
    good = good && look_again(c) && members_read_stats(m);
    for (uint32_t i = 0; i < m->count; i++)
        replaced |= m->all[i].stats.self != m->all[i].self || members_lacks_some(&m->all[i].stats);
    if (good)
        tell(c, replaced);
    return good;
}

bool members_check_index(struct members *m)
{
    struct index_check c = {.m = m, .page = malloc(sizeof *c.page)};
    m->index = &c;
    bool good = c.page != NULL && check(&c);
    m->index = NULL;
    free(c.page);
    free(c.found);
    free(c.list);
    return good;
}
