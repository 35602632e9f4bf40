/* The network: each message is lost, doubled, late or in time; links between two nodes keep their order
 * unless this one is told to overtake. */
#include <stdlib.h>

#include "tests/sim/sim_internal.h"

struct sim_msg *sim_msg_create(
    uint8_t type, uint32_t from, uint32_t to, const void *body, uint32_t body_bytes)
{
    struct sim_msg *m = calloc(1, sizeof *m + body_bytes);
    m->type = type;
    m->from = (uint8_t)from;
    m->to = (uint8_t)to;
    m->body_bytes = body_bytes;
    if (body_bytes > 0)
        memcpy(m->body, body, body_bytes);
    return m;
}

static void deliver(struct sim *s, struct sim_msg *m)
{
    struct sim_net *n = &s->net;
    int64_t at = s->now + sim_between(s, n->delay_low, n->delay_high);
    if (sim_chance(s, n->reordering)) {
        at += sim_between(s, 0, 10 * n->delay_high);
        sim_cover_add(s, SIM_NET_REORDERED);
    } else {
        if (at < n->last_at[m->from][m->to])
            at = n->last_at[m->from][m->to];
        n->last_at[m->from][m->to] = at;
    }
    sim_at(s, at - s->now, (struct sim_event){.type = SIM_EV_MESSAGE, .node = m->to, .message = m});
}

/* 0: it carries none. */
static uint64_t epoch_of_config(const struct sim_msg *m)
{
    struct mob_gcs_frame frame;
    size_t used;
    if (m->type == SIM_NACK || m->type == SIM_BOOK)
        return m->config.epoch;
    if (m->type != SIM_CHAIN ||
        mob_gcs_frame_decode(m->body, m->body_bytes, MOB_GCS_FRAME_CHAIN_MAX, &frame, &used) != MOB_OK ||
        !mob_gcs_link_has_config(frame.type))
        return 0;
    return frame.epoch;
}

static void feel(struct sim *s, uint64_t *felt, uint64_t now, enum sim_cover what)
{
    if (*felt != now)
        sim_cover_add(s, what);
    *felt = now;
}

static bool does_not_arrive(struct sim *s, const struct sim_msg *m)
{
    struct sim_net *n = &s->net;
    uint64_t missed = n->missed[m->to], deaf_until = n->deaf_until[m->to];
    if (s->healing)
        return false;
    if (missed != 0 && epoch_of_config(m) == missed) {
        feel(s, &n->missed_felt[m->to], missed, SIM_MISSED_CONFIG);
        return true;
    }
    if (deaf_until <= s->database.newest)
        return false;
    feel(s, &n->deaf_felt[m->to], deaf_until, SIM_DEAF_CLIENTS);
    return true;
}

uint32_t sim_cut_begin(struct sim *s, enum sim_fault_kind kind)
{
    struct sim_net *n = &s->net;
    if (n->cut_count + 1 >= SIM_CUTS_MAX)
        return 0;
    n->cuts[++n->cut_count] = (struct sim_cut){.kind = kind};
    return n->cut_count;
}

void sim_cut(struct sim *s, uint32_t cut, uint32_t from, uint32_t to, int64_t until)
{
    struct sim_net *n = &s->net;
    if (n->cut_until[from][to] >= until)
        return;
    n->cut_until[from][to] = until;
    n->cut_by[from][to] = (uint8_t)cut;
}

/* One that nobody speaks into is no fault. */
static void feel_cut(struct sim *s, uint32_t from, uint32_t to)
{
    struct sim_cut *cut = &s->net.cuts[s->net.cut_by[from][to]];
    sim_cover_add(s, SIM_NET_CUT);
    if (!cut->felt)
        sim_cover_add(s, (enum sim_cover)(SIM_COVER_FAULT_KILL_MEMBER + (unsigned)cut->kind));
    cut->felt = true;
}

void sim_send(struct sim *s, struct sim_msg *m)
{
    struct sim_net *n = &s->net;
    if (m->to >= s->node_count) { /* it knows of no chain yet */
        free(m);
        return;
    }
    if (n->cut_until[m->from][m->to] > s->now) {
        feel_cut(s, m->from, m->to);
        free(m);
        return;
    }
    bool same =
        n->mute[m->from][m->to].from == s->nodes[m->from].life || s->setup.without == SIM_RULE_LINK_ENDS;
    bool muted = same && n->mute[m->from][m->to].to == s->nodes[m->to].life;
    if (m->type == SIM_CHAIN && muted) {
        sim_cover_add(s, SIM_NET_MUTE);
        if (n->mute[m->from][m->to].unfelt != SIM_COVERS)
            sim_cover_add(s, n->mute[m->from][m->to].unfelt);
        n->mute[m->from][m->to].unfelt = SIM_COVERS;
        free(m);
        return;
    }
    if (does_not_arrive(s, m)) {
        free(m);
        return;
    }
    if (sim_chance(s, n->loss)) {
        sim_cover_add(s, SIM_NET_LOST);
        free(m);
        return;
    }
    if (sim_chance(s, n->doubling)) {
        struct sim_msg *twin = malloc(sizeof *m + m->body_bytes);
        memcpy(twin, m, sizeof *m + m->body_bytes);
        sim_cover_add(s, SIM_NET_DOUBLED);
        deliver(s, twin);
    }
    if (m->type == SIM_CHAIN && sim_chance(s, n->corruption))
        m->body[sim_below(s, m->body_bytes)] ^= (uint8_t)(1u << sim_below(s, 8));
    deliver(s, m);
}
