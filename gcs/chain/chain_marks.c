#include "gcs/chain/chain_internal.h"

_Static_assert((MOB_CHAIN_MARKS_STEP & (MOB_CHAIN_MARKS_STEP - 1)) == 0, "a mask tells a multiple");

void mob_chain_mark(struct mob_chain *c)
{
    struct mob_chain_mark_rings *m = &c->marks;
    const struct mob_gcs_mark mark = {c->applied, c->digest, mob_chain_state_digest(c)};
    m->each[m->each_end++ % MOB_CHAIN_MARKS_EACH] = mark;
    if ((mark.seq & (MOB_CHAIN_MARKS_STEP - 1)) == 0)
        m->far[m->far_end++ % MOB_CHAIN_MARKS_FAR] = mark;
}

void mob_chain_marks_clear(struct mob_chain *c)
{
    c->marks.each_end = c->marks.far_end = 0;
}

static size_t held(uint64_t end, size_t capacity)
{
    return end < capacity ? (size_t)end : capacity;
}

size_t mob_chain_marks(const struct mob_chain *c, struct mob_gcs_mark *out)
{
    size_t each = held(c->marks.each_end, MOB_CHAIN_MARKS_EACH),
           far = held(c->marks.far_end, MOB_CHAIN_MARKS_FAR);
    /* The tables of a joiner are of several positions at once until it has all. */
    if (c->state == MOB_CHAIN_JOINING)
        return 0;
    if (out != NULL) {
        memcpy(out, c->marks.each, each * sizeof *out);
        memcpy(out + each, c->marks.far, far * sizeof *out);
    }
    return each + far;
}
