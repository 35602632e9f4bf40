/* Configurations and states. Why a wrong eviction is safe: each new chain holds a synced member of the old
 * one, which by taking epoch e + 1 refuses everything of e, and every write passes every member. */
#include "gcs/chain/chain_internal.h"

const char *mob_chain_state_name(enum mob_chain_state state)
{
    static const char *const names[MOB_CHAIN_STATES] = {
        "idle", "joining", "syncing", "collecting", "serving", "evicted"};
    return (unsigned)state < MOB_CHAIN_STATES ? names[state] : "?";
}

/* One bit for each state that may follow. */
static const uint8_t legal[MOB_CHAIN_STATES] = {[MOB_CHAIN_IDLE] = 1u << MOB_CHAIN_JOINING |
        1u << MOB_CHAIN_SYNCING | 1u << MOB_CHAIN_COLLECTING | 1u << MOB_CHAIN_SERVING |
        1u << MOB_CHAIN_EVICTED,
    [MOB_CHAIN_JOINING] = 1u << MOB_CHAIN_SYNCING | 1u << MOB_CHAIN_EVICTED,
    [MOB_CHAIN_SYNCING] = 1u << MOB_CHAIN_SERVING | 1u << MOB_CHAIN_EVICTED,
    [MOB_CHAIN_COLLECTING] = 1u << MOB_CHAIN_SERVING | 1u << MOB_CHAIN_EVICTED,
    [MOB_CHAIN_SERVING] = 1u << MOB_CHAIN_SYNCING | 1u << MOB_CHAIN_EVICTED,
    [MOB_CHAIN_EVICTED] = 0};

void mob_chain_set_state(struct mob_chain *c, enum mob_chain_state state)
{
    if (c->state == state)
        return;
    MOB_ASSERT(legal[c->state] & 1u << state);
    enum mob_chain_state from = c->state;
    c->state = state;
    if (from == MOB_CHAIN_JOINING)
        mob_chain_marks_clear(c);
    MOB_LOG_DEBUG("chain", "state", "member=%llx from=%s to=%s epoch=%llu applied=%llu",
        (unsigned long long)c->options.self, mob_chain_state_name(from), mob_chain_state_name(state),
        (unsigned long long)c->config.epoch, (unsigned long long)c->applied);
    if (c->options.on_state != NULL)
        c->options.on_state(c->options.state_arg, from, state);
}

const char *mob_chain_failure_text(enum mob_chain_failure failure)
{
    static const char *const texts[MOB_CHAIN_FAILURES] = {"fine", "a newer configuration is without it",
        "in a chain of which it has not the state", "its predecessor no longer has what it lacks",
        "nothing more of the snapshot, or of the log behind it, comes",
        "another history than its predecessor's", "another state than its predecessor's",
        "its successor has committed more than it has", "an unsynced member was made head",
        "it cannot take the snapshot"};
    return (unsigned)failure < MOB_CHAIN_FAILURES ? texts[failure] : "?";
}

enum mob_chain_failure mob_chain_failure(const struct mob_chain *c)
{
    return c->failure;
}

void mob_chain_fail(struct mob_chain *c, enum mob_chain_failure why)
{
    MOB_LOG_AT(why >= MOB_CHAIN_HISTORY ? MOB_LOG_LEVEL_ERROR : MOB_LOG_LEVEL_WARN, "chain", "member_ends",
        "member=%llx why=\"%s\" epoch=%llu applied=%llu", (unsigned long long)c->options.self,
        mob_chain_failure_text(why), (unsigned long long)c->config.epoch, (unsigned long long)c->applied);
    c->failure = why;
    c->lease_until_ns = 0;
    mob_chain_source_end(c);
    mob_chain_set_state(c, MOB_CHAIN_EVICTED);
}

static bool find_place(const struct mob_gcs_config *config, uint64_t self, uint32_t *place_out)
{
    for (uint32_t i = 0; i < config->count; i++)
        if (config->members[i] == self) {
            *place_out = i;
            return true;
        }
    return false;
}

static void take_place(struct mob_chain *c)
{
    memset(&c->successor, 0, sizeof c->successor);
    c->predecessor.committed = c->predecessor.durable = 0;
    c->predecessor.asked = c->predecessor.again = false;
    if (c->place > 0) {
        mob_chain_set_state(c, MOB_CHAIN_SYNCING);
        mob_chain_ask_sync(c);
        if (!MOB_RULE(SYNCEND))
            mob_chain_set_state(c, MOB_CHAIN_SERVING);
    } else if (!c->synced) {
        mob_chain_fail(c, MOB_CHAIN_UNSYNCED_HEAD);
    } else {
        mob_chain_set_state(c, MOB_CHAIN_SERVING);
    }
}

/* The first configuration of this life. */
static void enter(struct mob_chain *c)
{
    if (c->state == MOB_CHAIN_JOINING) {
        if (c->join.replays && c->place > 0 && c->config.members[c->place - 1] == c->join.source)
            take_place(c);
        else
            mob_chain_fail(c, MOB_CHAIN_NOT_READY);
        return;
    }
    bool first_of_all = c->config.epoch == 1 && c->applied == 0;
    if (!first_of_all && c->config.count != 1) {
        mob_chain_fail(c, MOB_CHAIN_NOT_READY);
        return;
    }
    c->synced = true;
    if (c->config.start != 0) {
        mob_chain_collect_begin(c);
        mob_chain_set_state(c, MOB_CHAIN_COLLECTING);
        return;
    }
    take_place(c);
}

void mob_chain_on_config(struct mob_chain *c, const struct mob_gcs_config *config)
{
    if (config->epoch <= c->config.epoch || c->options.self == 0 || c->state == MOB_CHAIN_EVICTED)
        return;
    bool was_in = mob_chain_in_config(c);
    uint64_t successor = mob_chain_successor(c);
    c->notice_first = c->notice_end;
    c->config = *config;
    c->lease_until_ns = 0;
    bool is_in = find_place(&c->config, c->options.self, &c->place);
    if (is_in && was_in && c->state != MOB_CHAIN_COLLECTING) {
        take_place(c);
    } else if (is_in && !was_in) {
        enter(c);
    } else if (was_in) {
        mob_chain_fail(c, MOB_CHAIN_LEFT_OUT);
    } else {
        bool other_tail = c->config.members[c->config.count - 1] != c->join.source;
        if (c->join.wanted && (c->state == MOB_CHAIN_IDLE || other_tail))
            mob_chain_join_begin(c);
    }
    /* Only a tail gives its state, and it keeps its log for a joiner that was appended until that one serves.
     */
    bool appended = c->source.joiner != 0 && c->source.joiner == mob_chain_successor(c) && MOB_RULE(JOIN_LOG);
    if (!appended && (c->source.joiner == successor || !mob_chain_is_tail(c)))
        mob_chain_source_end(c);
    mob_chain_settle(c);
}

void mob_chain_on_join(struct mob_chain *c, uint64_t epoch)
{
    if (c->state != MOB_CHAIN_IDLE || c->options.self == 0 || (epoch <= c->part_epoch && MOB_RULE(JOIN_PART)))
        return;
    c->join.wanted = true;
    if (c->config.epoch != 0)
        mob_chain_join_begin(c);
}

void mob_chain_on_lease(struct mob_chain *c, uint64_t epoch, int64_t sent_ns)
{
    bool good = epoch == c->config.epoch && mob_chain_is_tail(c);
    if (good && sent_ns + c->options.lease_ns > c->lease_until_ns)
        c->lease_until_ns = sent_ns + c->options.lease_ns;
}

enum mob_status mob_chain_may_answer(const struct mob_chain *c, int64_t now_ns)
{
    if (!mob_chain_is_tail(c))
        return MOB_WRONG_EPOCH;
    if (c->config.count == 1 || !MOB_RULE(LEASE))
        return MOB_OK; /* every write passes the sole member */
    return now_ns < c->lease_until_ns ? MOB_OK : MOB_AGAIN;
}
