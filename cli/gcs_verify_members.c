/* All members of a chain: equal digests of the history and of the tables at one position. Members go on while
 * they are asked one after the other, and keep what their digests were: the newest position that all have is
 * compared. */
#include "cli/gcs_verify_members.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/mac.h"

#define APART_NS (5 * MOB_SEC) /* until all have a position in common */
#define PATIENCE_NS (30 * MOB_SEC) /* with a member that is being replaced */

/* ---- who they are ---- */

static enum mob_status open_member(struct members *m, struct member *one)
{
    m->options.path = one->path;
    return mob_member_open(&m->options, &one->link);
}

bool members_ask(struct members *m, struct member *one, ask_fn ask)
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
        verify_pause();
    }
}

/* ---- digests at one position ---- */

static enum mob_status ask_stats(struct members *m, struct member *one)
{
    (void)m;
    return mob_member_stats(one->link, &one->stats);
}

bool members_read_stats(struct members *m)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (!members_ask(m, &m->all[i], ask_stats))
            return false;
    return true;
}

static int by_seq(const void *a, const void *b)
{
    const struct mob_gcs_mark *x = a, *y = b;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* Where it is now is one more, and the only one of an earlier version. Who does not have all yet, a joiner or
 * one that waits to be told, has none. */
static enum mob_status ask_marks(struct members *m, struct member *one)
{
    enum mob_status status = ask_stats(m, one);
    const struct mob_gcs_stats *s = &one->stats;
    one->mark_count = 0;
    if (status == MOB_OK && members_lacks_some(s))
        return MOB_OK;
    if (status == MOB_OK && s->marks > 0)
        status = mob_member_marks(one->link, one->marks, &one->mark_count);
    if (status != MOB_OK)
        return status;
    one->marks[one->mark_count++] = (struct mob_gcs_mark){s->applied, s->history_digest, s->state_digest};
    qsort(one->marks, one->mark_count, sizeof *one->marks, by_seq);
    return MOB_OK;
}

static const struct mob_gcs_mark *mark_at(const struct member *one, uint64_t seq)
{
    const struct mob_gcs_mark wanted = {.seq = seq};
    return one->mark_count == 0 ? NULL : bsearch(&wanted, one->marks, one->mark_count, sizeof wanted, by_seq);
}

/* The newest position that all have; 0: none. */
static bool common_position(const struct members *m, uint64_t *seq_out)
{
    const struct member *first = &m->all[0];
    for (uint32_t i = first->mark_count; i-- > 0;) {
        bool all = true;
        for (uint32_t k = 1; k < m->count && all; k++)
            all = mark_at(&m->all[k], first->marks[i].seq) != NULL;
        *seq_out = first->marks[i].seq;
        if (all)
            return true;
    }
    return false;
}

/* In one configuration: one that joins takes longer. */
static bool read_marks(struct members *m, bool *common_out, uint64_t *seq_out)
{
    int64_t began = mob_now();
    for (;;) {
        bool one_epoch = true;
        for (uint32_t i = 0; i < m->count; i++) {
            if (!members_ask(m, &m->all[i], ask_marks))
                return false;
            (void)MOB_FAILPOINT("verify.next_member"); /* others write meanwhile */
            one_epoch &= m->all[i].stats.epoch == m->all[0].stats.epoch;
        }
        *common_out = one_epoch && common_position(m, seq_out);
        if (*common_out || mob_now() - began >= (one_epoch ? APART_NS : PATIENCE_NS))
            return true;
        verify_pause();
    }
}

static void compare_digests(struct members *m, bool common, uint64_t seq)
{
    char figures[VERIFY_FIGURES_MAX];
    if (!common) {
        snprintf(figures, sizeof figures, "%u members (no position in common: not compared)", m->count);
        verify_say(m->v, VERIFY_NOT_COMPARED, "digests of the members", figures);
        return;
    }
    bool same = true;
    const struct mob_gcs_mark *first = mark_at(&m->all[0], seq);
    for (uint32_t i = 1; i < m->count; i++) {
        const struct mob_gcs_mark *other = mark_at(&m->all[i], seq);
        bool equal = memcmp(first, other, sizeof *first) == 0;
        if (!equal)
            cli_say("%s and %s differ at %" PRIu64, m->all[0].name, m->all[i].name, seq);
        same &= equal;
    }
    snprintf(figures, sizeof figures, "%u members at %" PRIu64 ", history %016" PRIx64 ", tables %016" PRIx64,
        m->count, seq, first->history_digest, first->state_digest);
    verify_say(m->v, same ? VERIFY_GOOD : VERIFY_BAD, "digests of the members", figures);
}

/* ---- all of it ---- */

static bool begin(struct members *m)
{
    m->rows = calloc(MOB_GCS_ROWS_MAX, sizeof *m->rows);
    mob_random_bytes(&m->salt, sizeof m->salt);
    m->count = gcs_member_places(m->v->g, m->places);
    bool good = m->rows != NULL && m->count > 0 && gcs_member_options(m->v->g, m->secret, &m->options);
    for (uint32_t i = 0; i < m->count; i++) {
        struct member *one = &m->all[i];
        one->path = m->places[i].path;
        one->name = m->places[i].name;
        one->marks = calloc(MOB_GCS_MARKS_MAX + 1, sizeof *one->marks);
        good = good && one->marks != NULL;
    }
    return good;
}

bool verify_members(struct verify *v)
{
    struct members m = {.v = v};
    bool common = false;
    uint64_t seq = 0;
    bool good = begin(&m) && read_marks(&m, &common, &seq);
    if (good) {
        compare_digests(&m, common, seq);
        good = members_check_blocks(&m) && members_check_index(&m);
    }
    for (uint32_t i = 0; i < m.count; i++) {
        mob_member_close(m.all[i].link);
        free(m.all[i].marks);
        free(m.all[i].blocks);
        free(m.all[i].refs);
    }
    free(m.rows);
    return good;
}
