/* The lease row of the master (membership.h). No wall clock: a standby measures with its own how long the row
 * has not changed; the active one measures its lease from before it sent the beat. */
#include "gcs/chain/membership.h"

/* Behind a look that brought nothing: a sixteenth of the time for which that has been so, and this. So a
 * database that takes 0.2 s to start is met some 15 ms later, and one that is away for long is asked as
 * seldom as anybody asks. */
#define AGAIN_NS (3 * 1000000ll)
#define AGAIN_PART 16

/* Term 0: there was no master yet. Either way nobody's lease is to be waited for. */
static bool is_held(const struct mob_master_row *row)
{
    return row->term != 0 && row->beat != MOB_MASTER_RELEASED;
}

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
    bool fresh = is_held(&m->row) && now_ns - m->seen_ns < times->takeover_ns;
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
    m->vain_ns = 0;
    if (changed)
        m->seen_ns = now_ns;
    if (!m->active && !is_held(row))
        m->step_ns = now_ns;
}

void mob_mastership_on_no_row(struct mob_mastership *m, int64_t now_ns)
{
    m->busy = false;
    if (m->vain_ns == 0)
        m->vain_ns = m->sent_ns;
    int64_t again_ns = now_ns + AGAIN_NS + (now_ns - m->vain_ns) / AGAIN_PART;
    if (!m->active && again_ns < m->step_ns)
        m->step_ns = again_ns;
}

int64_t mob_mastership_pause_ns(const struct mob_mastership *m, int64_t now_ns)
{
    return m->busy ? INT64_MAX : m->step_ns > now_ns ? m->step_ns - now_ns : 0;
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
