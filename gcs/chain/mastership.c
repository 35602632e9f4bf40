/* The lease row of the master (membership.h). No wall clock: a standby measures with its own how long the row
 * has not changed; the active one measures its lease from before it sent the beat. */
#include "gcs/chain/membership.h"

enum mob_mastership_step mob_mastership_step(
    struct mob_mastership *m, const struct mob_mastership_times *times, int64_t now_ns)
{
    if (m->busy || now_ns < m->step_ns)
        return MOB_MASTERSHIP_WAIT;
    m->busy = true;
    m->sent_ns = now_ns;
    m->step_ns = now_ns + times->beat_ns;
    if (m->active && !m->unsure) {
        m->next = (struct mob_master_row){m->row.term, m->row.beat + 1};
        return MOB_MASTERSHIP_BEAT;
    }
    /* Term 0: there was no master yet, so nobody's lease is to be waited for. */
    bool held = m->row.term != 0 && m->row.beat != MOB_MASTER_RELEASED;
    bool fresh = held && now_ns - m->seen_ns < times->takeover_ns;
    if (m->active || m->seen_ns == 0 || fresh)
        return MOB_MASTERSHIP_LOOK;
    m->next = (struct mob_master_row){m->row.term + 1, 0};
    return MOB_MASTERSHIP_TAKE;
}

void mob_mastership_on_row(struct mob_mastership *m, const struct mob_master_row *row, int64_t now_ns)
{
    m->busy = false;
    bool changed = m->seen_ns == 0 || row->term != m->row.term || row->beat != m->row.beat;
    if (m->active && row->term != m->row.term)
        m->active = false;
    m->unsure = false;
    m->row = *row;
    if (changed)
        m->seen_ns = now_ns;
}

void mob_mastership_on_set(struct mob_mastership *m, enum mob_status status, int64_t now_ns)
{
    m->busy = false;
    if (status == MOB_OK) {
        m->row = m->next;
        m->active = true;
        m->fresh_ns = m->sent_ns;
        return;
    }
    /* Unknown: it stays what it was, its lease runs out by itself, and the row tells. */
    m->unsure = status != MOB_CONFLICT;
    m->active = m->active && m->unsure;
    m->seen_ns = m->active ? now_ns : 0;
    m->step_ns = now_ns;
}

bool mob_mastership_fresh(
    const struct mob_mastership *m, const struct mob_mastership_times *times, int64_t now_ns)
{
    return m->active && now_ns - m->fresh_ns < times->fresh_ns;
}
