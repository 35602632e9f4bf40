/* What goes wrong, and when: drawn from the seed. */
#include "common/base/hash.h"
#include "tests/sim/sim_internal.h"

#define STORM_LOSS 0.15
#define LONG_SEEDS 25u /* one of so many has a chain of 4 to 7 */

/* ---- the plan ---- */

static void plan_network(struct sim *s)
{
    struct sim_net *n = &s->net;
    n->delay_low = sim_between(s, 20 * SIM_US, 60 * SIM_US);
    n->delay_high = n->delay_low + sim_between(s, 10 * SIM_US, 400 * SIM_US);
    n->loss = sim_chance(s, 0.5) ? 0 : 0.03 * (double)sim_below(s, 100) / 100;
    n->doubling = sim_chance(s, 0.5) ? 0 : 0.03 * (double)sim_below(s, 100) / 100;
    n->reordering = sim_chance(s, 0.5) ? 0 : 0.05 * (double)sim_below(s, 100) / 100;
    n->corruption = sim_chance(s, 0.7) ? 0 : 0.003;
}

void sim_faults_plan(struct sim *s)
{
    struct sim_plan *p = &s->plan;
    uint64_t dice = sim_below(s, 10);
    p->replicas = dice < 1 ? 1 : dice < 6 ? 2 : 3;
    if (s->setup.seed % LONG_SEEDS == 7) /* so other seeds play as they did */
        p->replicas = 4 + (uint32_t)(s->setup.seed / LONG_SEEDS % (MOB_GCS_MEMBERS_MAX - 3));
    p->slots = p->replicas + 1 + (uint32_t)sim_below(s, 2);
    p->clients = 2 + (uint32_t)sim_below(s, 3);
    p->duration = sim_between(s, 300 * SIM_MS, 900 * SIM_MS);
    p->fault_every = sim_between(s, 15 * SIM_MS, 80 * SIM_MS);
    for (int i = 0; i < SIM_FAULT_KINDS; i++)
        p->faults[i] = sim_chance(s, 0.6) ? (double)sim_below(s, 100) : 0;
    p->faults[SIM_FAULT_POWER_ALL] /= 4;
    p->faults[SIM_FAULT_KILL_ALL] /= 4;
    p->dies_between = sim_chance(s, 0.5) ? 0 : 0.0004 * (double)sim_below(s, 100) / 100;
    dice = sim_below(s, 10);
    p->durability = dice < 7 ? MOB_GCS_EVERYSEC : dice < 9 ? MOB_GCS_ALWAYS : MOB_GCS_NO;
    p->sync_every = sim_between(s, 5 * SIM_MS, 60 * SIM_MS);
    p->store_low = sim_between(s, 20 * SIM_US, 80 * SIM_US);
    p->store_high = p->store_low + sim_between(s, 10 * SIM_US, 300 * SIM_US);
    p->restart_low = sim_between(s, 2 * SIM_MS, 20 * SIM_MS);
    p->restart_high = p->restart_low + sim_between(s, 1 * SIM_MS, 60 * SIM_MS);
    plan_network(s);
}

/* ---- members ---- */

static void count_role(struct sim *s, const struct sim_member *m)
{
    const struct mob_gcs_config *c = mob_chain_config(m->chain);
    uint64_t joiner, lag;
    if (mob_chain_state(m->chain) == MOB_CHAIN_JOINING)
        sim_cover_add(s, SIM_JOINER_DIES);
    if (mob_chain_join(m->chain, &joiner, &lag))
        sim_cover_add(s, SIM_SOURCE_DIES);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->members[i] == m->id)
            sim_cover_add(s,
                c->count == 1           ? SIM_SOLE_DIES
                    : i == 0            ? SIM_HEAD_DIES
                    : i + 1 == c->count ? SIM_TAIL_DIES
                                        : SIM_MIDDLE_DIES);
}

static void down(struct sim *s, struct sim_node *node, uint8_t number)
{
    node->up = false;
    node->life++;
    node->paused_until = 0;
    int64_t after = sim_between(s, s->plan.restart_low, s->plan.restart_high);
    sim_at(s, after, (struct sim_event){.type = SIM_EV_RESTART, .node = number, .life = node->life});
}

bool sim_kill_member(struct sim *s, struct sim_member *m, bool power, bool wipe)
{
    if (!m->node->up)
        return false;
    struct sim_disk *d = &m->disk;
    count_role(s, m);
    SIM_TRACE(s, "member %u dies%s%s, applied %llu committed %llu", m->slot, power ? " with its power" : "",
        wipe ? " and loses its store" : "", (unsigned long long)mob_chain_applied(m->chain),
        (unsigned long long)mob_chain_committed(m->chain));
    sim_member_stop(s, m);
    uint64_t low = power ? d->durable : d->stored;
    sim_disk_cut(d, low + sim_below(s, d->submitted - low + 1));
    if (wipe)
        sim_disk_wipe(d);
    down(s, m->node, (uint8_t)m->slot);
    return true;
}

void sim_client_ends(struct sim *s, struct sim_client *c)
{
    if (c->flusher.state == SIM_FLUSH_RUNS && c->flusher.written > c->flusher.flushed)
        sim_cover_add(s, SIM_FLUSHER_DIES);
    sim_client_stop(s, c);
    down(s, c->node, c->number);
}

void sim_member_ends(struct sim *s, struct sim_member *m)
{
    SIM_TRACE(s, "member %u ends: %s", m->slot, mob_chain_failure_text(mob_chain_failure(m->chain)));
    sim_member_stop(s, m);
    sim_disk_cut(&m->disk, m->disk.stored + sim_below(s, m->disk.submitted - m->disk.stored + 1));
    down(s, m->node, (uint8_t)m->slot);
}

bool sim_dies_here(struct sim *s, struct sim_member *m, enum mob_chain_action_type next)
{
    double p = s->plan.dies_between * (next == MOB_CHAIN_REPLY ? 8 : 1);
    bool planned = m->dies_at > 0 && --m->dies_at == 0;
    if (s->healing || (!sim_chance(s, p) && !planned))
        return false;
    sim_cover_add(s,
        next == MOB_CHAIN_STORE       ? SIM_DIES_BEFORE_STORE
            : next == MOB_CHAIN_SEND  ? SIM_DIES_BEFORE_SEND
            : next == MOB_CHAIN_REPLY ? SIM_DIES_BEFORE_REPLY
                                      : SIM_DIES_BEFORE_OTHER);
    sim_kill_member(s, m, false, false);
    return true;
}

bool sim_others_hold(struct sim *s, const struct mob_gcs_config *config, const struct sim_member *m)
{
    uint32_t others = 0;
    if (s->net.loss >= STORM_LOSS)
        return false; /* enough heartbeats in a row are lost that a master leaves out who is well */
    /* A configuration without those others may be on its way to the table. */
    for (size_t i = 0; i < s->heap_count; i++)
        if (s->heap[i].message != NULL && s->heap[i].message->type == SIM_DB &&
            s->heap[i].message->a == SIM_DB_INSERT)
            return false;
    for (uint32_t i = 0; i < config->count; i++) {
        const struct sim_member *o = &s->members[sim_node_of_member(config->members[i])];
        bool well = o->node->up && o->node->paused_until <= s->now;
        for (uint32_t k = 0; k < s->node_count; k++)
            well = well && s->net.cut_until[o->slot][k] <= s->now && s->net.cut_until[k][o->slot] <= s->now;
        others += o != m && well && o->id == config->members[i] && o->told_synced &&
            o->disk.durable >= o->synced_write;
    }
    return others > 0;
}

static struct sim_member *any_member(struct sim *s)
{
    /* Half of the time one that matters. */
    const struct mob_gcs_config *c = &s->database.configs[s->database.newest];
    if (c->count > 0 && sim_chance(s, 0.6))
        return &s->members[sim_node_of_member(c->members[sim_below(s, c->count)])];
    return &s->members[sim_below(s, s->plan.slots)];
}

#define MUTED_SEEDS 5u /* one of so many has such links */
#define MUTED_OF 4u /* and there one of so many, */
#define MUTED_MAX 2u /* at most so many */
#define MUTED_LOG_OF 2u /* and of joiners with their snapshot */
#define OVERTAKEN_OF 4u /* and one of so many nodes that are about to own a task, */
#define OVERTAKEN_MS 100u /* from a half to the whole of that */
#define MISSED_OF 4u /* one of so many configurations is missed */
#define DEAF_OF 2u /* one of so many starts, by a client */
#define DIES_OF 8u /* one of so many members dies while it puts back what it has collected, */
#define DIES_AT 12u /* at one of so many first actions */
#define AGAIN_OF 1u /* after one of so many starts that a client missed the power fails again, */
#define AGAIN_MS 60u /* in less than so long */

/* Whoever starts again has another link. */
static void mute(struct sim *s, uint32_t from, const struct sim_member *m, enum sim_cover what)
{
    s->net.mute[from][m->slot].unfelt = what;
    s->net.mute[from][m->slot].from = s->nodes[from].life;
    s->net.mute[from][m->slot].to = m->node->life;
}

void sim_mute(struct sim *s, struct sim_member *m, enum mob_chain_state state)
{
    const struct mob_gcs_config *c = mob_chain_config(m->chain);
    uint64_t dice[] = {s->setup.seed, m->id, mob_chain_epoch(m->chain), (uint64_t)state}, other = 0;
    if (s->healing || s->setup.seed % MUTED_SEEDS != 3 || s->muted >= MUTED_MAX ||
        mob_hash64(dice, sizeof dice) % MUTED_OF != 0)
        return;
    if (state == MOB_CHAIN_JOINING)
        other = c->members[c->count - 1];
    for (uint32_t i = 1; i < c->count && state == MOB_CHAIN_SYNCING; i++)
        if (c->members[i] == m->id)
            other = c->members[i - 1];
    if (other == 0)
        return;
    SIM_TRACE(s, "member %u hears no more of member %u", m->slot, sim_node_of_member(other));
    s->muted++;
    mute(s, sim_node_of_member(other), m, state == MOB_CHAIN_JOINING ? SIM_MUTED_JOINING : SIM_MUTED_SYNCING);
}

void sim_mute_log(struct sim *s, struct sim_member *m)
{
    const struct mob_gcs_config *c = mob_chain_config(m->chain);
    uint64_t dice[] = {s->setup.seed, m->id};
    if (s->healing || s->setup.seed % MUTED_SEEDS != 1 || s->muted >= MUTED_MAX || c->count == 0 ||
        mob_hash64(dice, sizeof dice) % MUTED_LOG_OF != 0)
        return;
    uint32_t other = sim_node_of_member(c->members[c->count - 1]);
    SIM_TRACE(s, "member %u hears no more of member %u, and has its snapshot", m->slot, other);
    s->muted++;
    mute(s, other, m, SIM_MUTED_LOG);
    m->log_muted = m->node->life;
}

/* Somebody else of the chain who may die without it: not the head, and not the one that is taken in. */
static struct sim_member *beside(struct sim *s, const struct mob_gcs_config *config, uint32_t place)
{
    uint32_t other = config->epoch == 1 ? config->count - 1 : place - 1;
    if (config->count < 3 || place == 0 || other == place || other == 0)
        return NULL;
    return &s->members[sim_node_of_member(config->members[other])];
}

static void miss_config(struct sim *s, const struct mob_gcs_config *config, uint32_t place)
{
    struct sim_member *other = beside(s, config, place);
    if (other == NULL || !other->node->up)
        return;
    uint32_t who = sim_node_of_member(config->members[place]);
    SIM_TRACE(s, "member %u misses epoch %llu", who, (unsigned long long)config->epoch);
    s->net.missed[who] = config->epoch;
    sim_kill_member(s, other, false, false);
}

void sim_config_made(struct sim *s, const struct mob_gcs_config *config, const struct mob_gcs_config *before)
{
    uint64_t dice[] = {s->setup.seed, config->epoch, config->members[0]};
    uint64_t drawn = mob_hash64(dice, sizeof dice);
    if (s->healing || drawn % (config->start != 0 ? DEAF_OF : MISSED_OF) != 0)
        return;
    if (config->start != 0) {
        uint32_t client = s->clients[drawn / MISSED_OF % s->plan.clients].number;
        SIM_TRACE(
            s, "client %u hears nothing until epoch %llu", client, (unsigned long long)config->epoch + 1);
        s->net.deaf_until[client] = config->epoch + 1;
    } else if (config->epoch == 1) {
        miss_config(s, config, 1);
    } else if (config->count > before->count) {
        miss_config(s, config, config->count - 1);
    }
}

void sim_start_served(struct sim *s, uint64_t epoch)
{
    uint64_t dice[] = {s->setup.seed, epoch, 2};
    uint64_t drawn = mob_hash64(dice, sizeof dice);
    bool deaf = false;
    for (uint32_t i = 0; i < s->plan.clients; i++)
        deaf |= s->net.deaf_until[s->clients[i].number] == epoch + 1;
    if (s->healing || !deaf || drawn % AGAIN_OF != 0)
        return;
    sim_at(s, (int64_t)(drawn / AGAIN_OF % AGAIN_MS) * SIM_MS + SIM_MS,
        (struct sim_event){.type = SIM_EV_ALL_OFF});
}

void sim_collect_ends(struct sim *s, struct sim_member *m)
{
    uint64_t dice[] = {s->setup.seed, m->id, 3};
    uint64_t drawn = mob_hash64(dice, sizeof dice);
    m->dies_at = s->healing || drawn % DIES_OF != 0 ? 0 : 1 + (uint32_t)(drawn / DIES_OF % DIES_AT);
}

void sim_all_off(struct sim *s)
{
    if (s->healing)
        return;
    SIM_TRACE(s, "the power of all members fails again");
    for (uint32_t i = 0; i < s->plan.slots; i++)
        sim_kill_member(s, &s->members[i], true, false);
    sim_cover_add(s, SIM_STARTS_AGAIN);
}

bool sim_is_overtaken(struct sim *s, struct sim_client *c, uint32_t task)
{
    uint64_t dice[] = {s->setup.seed, c->log.client, task};
    uint64_t drawn = mob_hash64(dice, sizeof dice);
    if (s->healing || c->overtaken == c->log.client || drawn % OVERTAKEN_OF != 0 || !sim_client_seal_of(s, c))
        return false;
    c->overtaken = c->log.client;
    c->node->paused_until =
        s->now + (int64_t)(OVERTAKEN_MS / 2 + drawn / OVERTAKEN_OF % (OVERTAKEN_MS / 2)) * SIM_MS;
    SIM_TRACE(s, "client %u is stopped before it owns task %u", c->number, task);
    return true;
}

bool sim_is_muted(const struct sim *s, const struct sim_member *m)
{
    for (uint32_t i = 0; i < s->node_count; i++)
        if (s->net.mute[i][m->slot].to == m->node->life)
            return true;
    return false;
}

/* ---- the others: each says whether it had an effect ---- */

static bool pause_node(struct sim *s, struct sim_node *node, int64_t low, int64_t high)
{
    if (!node->up || node->paused_until > s->now)
        return false;
    node->paused_until = s->now + sim_between(s, low, high);
    return true;
}

static bool kill_all(struct sim *s, bool power)
{
    bool some = false;
    for (uint32_t i = 0; i < s->plan.slots; i++)
        some |= sim_kill_member(s, &s->members[i], power, false);
    if (power && sim_chance(s, 0.3)) /* the clients were on the same machines */
        for (uint32_t i = 0; i < s->plan.clients; i++)
            if (s->clients[i].node->up && sim_chance(s, 0.5))
                sim_client_ends(s, &s->clients[i]);
    return some;
}

/* Never so that no synced member is left: then nothing could bring the data back. */
static bool wipe(struct sim *s, struct sim_member *m)
{
    return sim_others_hold(s, &s->database.configs[s->database.newest], m) &&
        sim_kill_member(s, m, false, true);
}

static bool one_client(struct sim *s, enum sim_fault_kind kind)
{
    struct sim_client *c = &s->clients[sim_below(s, s->plan.clients)];
    if (kind == SIM_FAULT_PAUSE_CLIENT)
        return pause_node(s, c->node, SIM_MS, 100 * SIM_MS);
    if (!c->node->up)
        return false;
    sim_client_ends(s, c);
    return true;
}

static bool one_master(struct sim *s, enum sim_fault_kind kind)
{
    struct sim_master *m = &s->masters[sim_below(s, SIM_MASTERS)];
    bool active = m->mastership.active;
    if (kind == SIM_FAULT_PAUSE_MASTER) {
        bool stops = pause_node(s, m->node, SIM_MS, 200 * SIM_MS);
        if (stops && active)
            sim_cover_add(s, SIM_ACTIVE_STOPS);
        return stops;
    }
    if (!m->node->up)
        return false;
    if (active)
        sim_cover_add(s, SIM_ACTIVE_DIES);
    sim_master_stop(s, m);
    down(s, m->node, m->number);
    return true;
}

static bool storm(struct sim *s)
{
    bool rages = s->net.loss >= STORM_LOSS, rises = !sim_chance(s, 0.5);
    s->net.loss = s->net.doubling = s->net.reordering = rises ? STORM_LOSS : 0;
    if (rages && !rises)
        sim_cover_add(s, SIM_NET_CALMED);
    return rises && !rages;
}

/* Do the two ever speak to each other? */
static bool speak(const struct sim_node *a, const struct sim_node *b)
{
    enum sim_node_kind low = a->kind < b->kind ? a->kind : b->kind,
                       high = a->kind < b->kind ? b->kind : a->kind;
    return a != b && (low != SIM_MEMBER || high != SIM_DATABASE) && (low != high || low == SIM_MEMBER);
}

/* Counted when somebody speaks into it: sim_send. */
static void cut_links(struct sim *s, enum sim_fault_kind kind)
{
    int64_t until = s->now + sim_between(s, SIM_MS, 80 * SIM_MS);
    uint32_t fault = sim_cut_begin(s, kind), a = 0, b = 0;
    if (fault == 0)
        return;
    if (kind != SIM_FAULT_ISOLATE) {
        do {
            a = (uint32_t)sim_below(s, s->node_count);
            b = (uint32_t)sim_below(s, s->node_count);
        } while (!speak(&s->nodes[a], &s->nodes[b]));
        sim_cut(s, fault, a, b, until);
        if (kind == SIM_FAULT_CUT_BOTH_WAYS)
            sim_cut(s, fault, b, a, until);
        return;
    }
    a = any_member(s)->slot;
    bool in = sim_chance(s, 0.7), out = !in || sim_chance(s, 0.7);
    for (b = 0; b < s->node_count; b++) {
        if (out)
            sim_cut(s, fault, a, b, until);
        if (in)
            sim_cut(s, fault, b, a, until);
    }
}

static bool happens(struct sim *s, enum sim_fault_kind kind)
{
    SIM_TRACE(s, "fault: %s", sim_cover_rows[SIM_COVER_FAULT_KILL_MEMBER + (unsigned)kind].text);
    switch (kind) {
    case SIM_FAULT_KILL_MEMBER:
    case SIM_FAULT_POWER_MEMBER:
        return sim_kill_member(s, any_member(s), kind == SIM_FAULT_POWER_MEMBER, false);
    case SIM_FAULT_WIPE_MEMBER:
        return wipe(s, any_member(s));
    case SIM_FAULT_PAUSE_MEMBER:
        return pause_node(s, any_member(s)->node, SIM_MS, 60 * SIM_MS);
    case SIM_FAULT_CUT_ONE_WAY:
    case SIM_FAULT_CUT_BOTH_WAYS:
    case SIM_FAULT_ISOLATE:
        cut_links(s, kind);
        return false;
    case SIM_FAULT_POWER_ALL:
    case SIM_FAULT_KILL_ALL:
        return kill_all(s, kind == SIM_FAULT_POWER_ALL);
    case SIM_FAULT_KILL_MASTER:
    case SIM_FAULT_PAUSE_MASTER:
        return one_master(s, kind);
    case SIM_FAULT_PAUSE_DATABASE:
        return pause_node(s, s->database.node, SIM_MS, 150 * SIM_MS);
    case SIM_FAULT_KILL_CLIENT:
    case SIM_FAULT_PAUSE_CLIENT:
        return one_client(s, kind);
    case SIM_FAULT_STORM:
        return storm(s);
    case SIM_FAULT_KINDS:
        break;
    }
    return false;
}

void sim_fault(struct sim *s)
{
    double sum = 0;
    for (int i = 0; i < SIM_FAULT_KINDS; i++)
        sum += s->plan.faults[i];
    double at = sum * (double)sim_below(s, 1u << 20) / (1u << 20);
    for (unsigned i = 0; i < SIM_FAULT_KINDS && sum > 0; i++) {
        at -= s->plan.faults[i];
        if (at >= 0)
            continue;
        if (happens(s, (enum sim_fault_kind)i))
            sim_cover_add(s, (enum sim_cover)(SIM_COVER_FAULT_KILL_MEMBER + i));
        break;
    }
    sim_at(s, sim_between(s, 0, 2 * s->plan.fault_every), (struct sim_event){.type = SIM_EV_FAULT});
}

void sim_heal(struct sim *s)
{
    SIM_TRACE(s, "healing");
    s->healing = true;
    memset(s->net.cut_until, 0, sizeof s->net.cut_until);
    s->net.loss = s->net.doubling = s->net.reordering = s->net.corruption = 0;
    for (uint32_t i = 0; i < s->node_count; i++)
        s->nodes[i].paused_until = 0;
}
