/* The invariants of GCS.md, asserted after each step. */
#include <stdio.h>
#include <stdlib.h>

#include "gcs/chain/chain_replies.h"
#include "tests/sim/sim_internal.h"

/* What tables may hold at most here: three to four times what was the most in 2,000 seeds, and far below
 * their own limits. */
#define CLIENTS_MOST 50u
#define KEYS_MOST 150u
#define INCARNATIONS_MOST 60u
#define COLLECTED_MOST 400u
#define NOTICES_MOST 64u /* that is its limit */
#define WINDOWS_EACH 64u /* replies are looked at in one of so many steps of a member */
_Static_assert(CLIENTS_MOST <= MOB_CHAIN_CLIENTS_MAX && KEYS_MOST <= MOB_STATE_KEYS_MAX &&
        INCARNATIONS_MOST <= MOB_STATE_INCARNATIONS_MAX && COLLECTED_MOST <= MOB_CHAIN_ENTRIES_MAX,
    "the machine's own limits");

/* ---- histories ---- */

static bool digest_at(const struct sim_member *m, uint64_t seq, uint64_t *digest_out)
{
    if (seq == m->base_seq) {
        *digest_out = m->base_digest;
        return true;
    }
    size_t low = 0, high = m->hist_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->hist[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == m->hist_count || m->hist[low].seq != seq)
        return false;
    *digest_out = m->hist[low].digest;
    return true;
}

/* A version is one write's for good, also when that was lost with everything: whoever has read it compares
 * with it (docs/gcs.md, "After everything died"). */
static void check_version(struct sim *s, const struct sim_member *m, const struct mob_chain_entry *e)
{
    if (e->op != MOB_GCS_OP_PUT || e->status != MOB_OK)
        return;
    for (size_t i = s->version_count; i-- > 0;) {
        const struct sim_version *v = &s->versions[i];
        if (v->version != e->version)
            continue;
        SIM_CHECK(s, v->client == e->client && v->request == e->request,
            "member %u: version %llx of client %llx, request %llu, was client %llx's, request %llu", m->slot,
            (unsigned long long)e->version, (unsigned long long)e->client, (unsigned long long)e->request,
            (unsigned long long)v->client, (unsigned long long)v->request);
        return;
    }
    *SIM_GROW(s->versions, s->version_count, s->version_capacity) =
        (struct sim_version){e->version, e->client, e->request};
}

/* Each (client, request) once, in order, in every log. */
void sim_check_appended(struct sim *s, struct sim_member *m, const struct mob_chain_entry *e)
{
    if (m->hist_count > 0 && e->seq <= m->hist[m->hist_count - 1].seq)
        return; /* it is written again */
    *SIM_GROW(m->hist, m->hist_count, m->hist_capacity) = (struct sim_hist){e->seq, e->digest};
    check_version(s, m, e);
    if (e->op == MOB_GCS_OP_LOSS) {
        sim_cover_add(s, SIM_LOSSES);
        if (e->target != 0)
            sim_owner_client(s, m, e->target)->last_request = e->number;
    }
    if (e->op == MOB_GCS_OP_OPEN && mob_chain_synced(m->chain))
        SIM_CHECK(s, !sim_image_opened(&m->memory, e->version), "member %u: nonce %llx opens a second client",
            m->slot, (unsigned long long)e->version);
    if (e->client == 0 || e->request == 0)
        return;
    for (size_t i = 0; i < s->gone_for_good; i++)
        SIM_CHECK(s, s->gone[i].client != e->client || s->gone[i].request != e->request,
            "member %u: request %llu of client %llx, which an earlier start had lost, comes back at %llu "
            "over "
            "what was written since",
            m->slot, (unsigned long long)e->request, (unsigned long long)e->client,
            (unsigned long long)e->seq);
    struct sim_client_seen *seen = sim_owner_client(s, m, e->client);
    SIM_CHECK(s, seen->last_request == 0 || e->request == seen->last_request + 1,
        "member %u: request %llu of client %llx behind its %llu (each once, in order)", m->slot,
        (unsigned long long)e->request, (unsigned long long)e->client,
        (unsigned long long)seen->last_request);
    seen->last_request = e->request;
}

static struct sim_member *member_of(struct sim *s, uint64_t id)
{
    uint8_t slot = sim_node_of_member(id);
    struct sim_member *m = id == 0 || slot >= s->plan.slots ? NULL : &s->members[slot];
    return m != NULL && m->node->up && m->id == id ? m : NULL;
}

static bool in_chain(const struct sim_member *m)
{
    enum mob_chain_state state = mob_chain_state(m->chain);
    return state == MOB_CHAIN_SYNCING || state == MOB_CHAIN_SERVING;
}

/* Hist of the first is Hist of the second and the first one's sent list: what the second lacks is kept. */
static void check_sent(struct sim *s, const struct sim_member *p, const struct sim_member *n)
{
    uint64_t has = mob_chain_applied(n->chain);
    for (size_t i = p->hist_count; i-- > 0 && p->hist[i].seq > has;)
        SIM_CHECK(s, mob_chain_kept(p->chain, p->hist[i].seq) != NULL,
            "member %u has dropped %llu, which its successor %u lacks", p->slot,
            (unsigned long long)p->hist[i].seq, n->slot);
}

/* Neighbours' histories are prefixes, and what the second lacks is in the first one's sent list. */
static void check_pair(struct sim *s, const struct sim_member *p, const struct sim_member *n)
{
    if (!in_chain(p) || !in_chain(n) || mob_chain_epoch(p->chain) != mob_chain_epoch(n->chain))
        return;
    uint64_t has = mob_chain_applied(n->chain), before = mob_chain_applied(p->chain), a, b;
    SIM_CHECK(s, has <= before, "member %u has applied %llu, its predecessor %u only %llu", n->slot,
        (unsigned long long)has, p->slot, (unsigned long long)before);
    bool same = !digest_at(p, has, &a) || !digest_at(n, has, &b) || a == b;
    SIM_CHECK(
        s, same, "members %u and %u differ at or before seq %llu", p->slot, n->slot, (unsigned long long)has);
    if (!mob_chain_synced(n->chain))
        return;
    check_sent(s, p, n);
    SIM_CHECK(s, has != before || mob_chain_state_digest(p->chain) == mob_chain_state_digest(n->chain),
        "members %u and %u have other tables at seq %llu", p->slot, n->slot, (unsigned long long)has);
}

static void check_epoch(struct sim *s, struct sim_member *m)
{
    uint64_t epoch = mob_chain_epoch(m->chain);
    SIM_CHECK(
        s, epoch >= m->seen_epoch, "member %u went back to epoch %llu", m->slot, (unsigned long long)epoch);
    if (epoch == m->seen_epoch)
        return;
    m->seen_epoch = epoch;
    const struct mob_gcs_config *made = &s->database.configs[epoch];
    SIM_CHECK(s, memcmp(made, mob_chain_config(m->chain), sizeof *made) == 0,
        "member %u has another configuration of epoch %llu than the table", m->slot,
        (unsigned long long)epoch);
}

/* What is committed and on its own disk is needed by nobody but a joiner: it goes. Without this the fixed
 * limit of entries would be reached in hours, and in no run here. */
static void check_kept(struct sim *s, const struct sim_member *m)
{
    uint64_t joiner, lag, limit = mob_chain_committed(m->chain);
    limit = m->disk_seq < limit ? m->disk_seq : limit;
    for (size_t i = m->hist_count; i-- > 0;) {
        if (m->hist[i].seq > limit)
            continue;
        SIM_CHECK(s,
            mob_chain_join(m->chain, &joiner, &lag) || mob_chain_kept(m->chain, m->hist[i].seq) == NULL,
            "member %u still keeps %llu, which is committed and on its disk", m->slot,
            (unsigned long long)m->hist[i].seq);
        break;
    }
    SIM_CHECK(s, mob_chain_entries(m->chain) <= MOB_CHAIN_ENTRIES_MAX && mob_chain_bytes(m->chain) < 4u << 20,
        "member %u keeps %zu entries in %zu bytes", m->slot, mob_chain_entries(m->chain),
        mob_chain_bytes(m->chain));
}

/* Which replies are kept of a client: one in each place of its window, of what it has sent. */
static void check_window(void *arg, uint64_t client, uint64_t last)
{
    const struct sim_member *m = arg;
    for (uint64_t slot = 0; slot < MOB_GCS_WINDOW; slot++) {
        const struct mob_gcs_reply *r = mob_chain_reply(m->chain, client, slot);
        SIM_CHECK(m->sim, r == NULL || (r->request % MOB_GCS_WINDOW == slot && r->request <= last),
            "member %u keeps a reply to request %llu of client %llx, whose last is %llu", m->slot,
            (unsigned long long)r->request, (unsigned long long)client, (unsigned long long)last);
    }
}

/* Every table of the machine, against the limit that it has and against what the few clients of a run can
 * fill: one whose rows are not taken out again would reach its own limit in days only. */
static void check_tables(struct sim *s, struct sim_member *m)
{
    struct mob_chain_waiting w = mob_chain_waiting(m->chain);
    size_t clients = mob_chain_clients(m->chain), keys = mob_state_keys(m->state);
    size_t incarnations = mob_state_incarnations(m->state);
    SIM_CHECK(s, clients <= CLIENTS_MOST, "member %u has %zu clients", m->slot, clients);
    SIM_CHECK(s, keys <= KEYS_MOST, "member %u has %zu keys", m->slot, keys);
    SIM_CHECK(s, incarnations <= INCARNATIONS_MOST, "member %u has %zu logs", m->slot, incarnations);
    SIM_CHECK(s, w.notices <= NOTICES_MOST, "member %u has %zu notices", m->slot, w.notices);
    bool collects = mob_chain_collecting(m->chain);
    SIM_CHECK(s,
        collects ? w.collected <= COLLECTED_MOST && w.losses <= clients && w.seals <= SIM_SEALS_MAX
                 : w.collected + w.losses + w.seals + w.dropped == 0,
        "member %u %s, and has %zu requests, %zu losses, %zu seals and %zu to drop", m->slot,
        collects ? "collects" : "does not collect", w.collected, w.losses, w.seals, w.dropped);
    if (m->table_checks++ % WINDOWS_EACH == 0 && mob_chain_synced(m->chain))
        mob_chain_each_client(m->chain, check_window, m);
}

/* What was replied is in all synced live members of the newest configuration. */
static void check_replied(struct sim *s, struct sim_member *m)
{
    uint64_t digest;
    if (!mob_chain_synced(m->chain) || mob_chain_collecting(m->chain) ||
        mob_chain_state(m->chain) == MOB_CHAIN_EVICTED)
        return;
    const struct mob_gcs_config *c = &s->database.configs[s->database.newest];
    bool is_member = false;
    for (uint32_t i = 0; i < c->count; i++)
        is_member = is_member || c->members[i] == m->id;
    if (!is_member)
        return;
    SIM_CHECK(s, mob_chain_applied(m->chain) >= s->replied.seq,
        "seq %llu was replied, and synced member %u has only %llu", (unsigned long long)s->replied.seq,
        m->slot, (unsigned long long)mob_chain_applied(m->chain));
    if (s->replied.seq ==
        0) /* nothing yet, of this history: a chain that started again has a digest of its own */
        return;
    SIM_CHECK(s, !digest_at(m, s->replied.seq, &digest) || digest == s->replied.digest,
        "seq %llu was replied, and member %u has another history", (unsigned long long)s->replied.seq,
        m->slot);
}

void sim_check_member(struct sim *s, struct sim_member *m)
{
    uint64_t applied = mob_chain_applied(m->chain), committed = mob_chain_committed(m->chain);
    SIM_CHECK(s, committed <= applied, "member %u committed %llu, applied %llu", m->slot,
        (unsigned long long)committed, (unsigned long long)applied);
    SIM_CHECK(s, committed >= m->seen_committed, "member %u committed %llu after %llu", m->slot,
        (unsigned long long)committed, (unsigned long long)m->seen_committed);
    m->seen_committed = committed;
    check_kept(s, m);
    check_tables(s, m);
    check_epoch(s, m);
    check_replied(s, m);
    const struct mob_gcs_config *c = mob_chain_config(m->chain);
    for (uint32_t i = 0; i + 1 < c->count; i++) {
        if (c->members[i] != m->id && c->members[i + 1] != m->id)
            continue;
        struct sim_member *p = member_of(s, c->members[i]), *n = member_of(s, c->members[i + 1]);
        if (p != NULL && n != NULL)
            check_pair(s, p, n);
    }
}

/* At most one member passes its lease check at an instant. */
void sim_check_step(struct sim *s)
{
    const struct sim_member *first = NULL;
    for (uint32_t i = 0; i < s->plan.slots; i++) {
        const struct sim_member *m = &s->members[i];
        if (!m->node->up || m->node->paused_until > s->now ||
            mob_chain_may_answer(m->chain, sim_clock(s, m->node)) != MOB_OK)
            continue;
        SIM_CHECK(s, first == NULL, "members %u (epoch %llu) and %u (epoch %llu) both may answer reads",
            first->slot, (unsigned long long)mob_chain_epoch(first->chain), m->slot,
            (unsigned long long)mob_chain_epoch(m->chain));
        first = m;
    }
}

static void check_replied_everywhere(struct sim *s)
{
    for (uint32_t i = 0; i < s->plan.slots; i++)
        if (s->members[i].node->up)
            check_replied(s, &s->members[i]);
}

void sim_check_replied(
    struct sim *s, struct sim_member *m, const struct mob_gcs_reply *reply, uint64_t client)
{
    uint64_t digest;
    SIM_CHECK(s, reply->seq <= mob_chain_committed(m->chain), "member %u replies to uncommitted %llu",
        m->slot, (unsigned long long)reply->seq);
    if (reply->request != 0)
        *SIM_GROW(s->answers, s->answer_count, s->answer_capacity) =
            (struct sim_answer){reply->seq, client, reply->request};
    /* One that stood still, and was left out, may reply when the chain has started again already: that has a
     * digest of its own. */
    uint64_t started = s->database.configs[s->database.newest].started;
    bool before = mob_chain_config(m->chain)->started != started;
    if (before || reply->seq <= s->replied.seq || !digest_at(m, reply->seq, &digest))
        return;
    s->replied.seq = reply->seq;
    s->replied.digest = digest;
    check_replied_everywhere(s);
}

void sim_check_config(struct sim *s, const struct mob_gcs_config *config)
{
    const struct mob_gcs_config *before = &s->database.configs[config->epoch - 1];
    SIM_CHECK(s, mob_gcs_config_valid(config) && (config->epoch == 1 || before->epoch == config->epoch - 1),
        "epoch %llu is no configuration, or not the next", (unsigned long long)config->epoch);
    uint64_t started = config->start != 0 ? config->epoch : config->epoch > 1 ? before->started : 0;
    SIM_CHECK(s, config->started == started, "epoch %llu: started with %llu, and says %llu",
        (unsigned long long)config->epoch, (unsigned long long)started, (unsigned long long)config->started);
    if (config->count > 3)
        sim_cover_add(s, config->count == MOB_GCS_MEMBERS_MAX ? SIM_LONGEST : SIM_LONG);
    if (config->start != 0) {
        sim_cover_add(s, SIM_STARTS);
        return;
    }
    if (config->epoch > 1 && config->count > before->count)
        sim_cover_add(s, SIM_APPENDS);
    for (uint32_t i = 0; i < before->count && config->epoch > 1; i++) {
        bool stays = false;
        for (uint32_t k = 0; k < config->count; k++)
            stays = stays || config->members[k] == before->members[i];
        if (stays)
            continue;
        sim_cover_add(s, SIM_EVICTIONS);
        if (member_of(s, before->members[i]) != NULL)
            sim_cover_add(s, SIM_FALSE_EVICTIONS);
    }
    check_replied_everywhere(s);
}

/* ---- after everything died ---- */

void sim_check_started(struct sim *s, struct sim_member *m)
{
    uint64_t has = mob_chain_applied(m->chain);
    for (uint32_t i = 0; i < s->plan.clients; i++)
        SIM_CHECK(s, s->clients[i].durable <= has,
            "durable up to %llu, as client %u was told; %llu came back",
            (unsigned long long)s->clients[i].durable, i, (unsigned long long)has);
    s->started_seq = has;
    if (s->replied.seq == 0) /* nobody has seen the history of the start before: it may have all back */
        s->gone_count = s->gone_for_good;
    s->gone_for_good = s->gone_count;
    if (s->gone_count > 0)
        sim_cover_add(s, SIM_LOST_BEFORE);
    s->replied.seq = 0;
}

/* Also of a sealed log, and of blocks that were dropped since. */
static bool block_there(const struct sim_member *m, uint64_t incarnation, uint64_t number)
{
    const struct mob_gcs_incarnation *log = mob_state_incarnation(m->state, incarnation);
    return log != NULL && number < log->blocks;
}

/* Is there a LOSS record for this client, or for a hole with this seq? */
static bool loss_names(const struct sim_member *m, uint64_t client, uint64_t seq)
{
    char name[32];
    bool is_log = (client & MOB_GCS_CLIENT_BIT) == 0;
    snprintf(name, sizeof name, is_log ? ":%llu," : ":\"%llx\",", (unsigned long long)client);
    for (size_t i = 0; i < m->memory.key_count; i++) {
        const struct sim_key *k = &m->memory.keys[i];
        if (k->table != MOB_GCS_LOSSES)
            continue;
        char text[300];
        uint32_t n = k->value_length < sizeof text - 1 ? k->value_length : (uint32_t)sizeof text - 1;
        memcpy(text, k->bytes + k->key_length, n);
        text[n] = 0;
        unsigned long long from, to;
        if (strstr(text, name) != NULL)
            return true;
        const char *hole = strstr(text, "\"from_seq\":");
        if (hole != NULL && sscanf(hole, "\"from_seq\":%llu,\"to_seq\":%llu", &from, &to) == 2 &&
            from <= seq && seq <= to)
            return true;
    }
    return false;
}

/* Did its client hear the reply? */
static bool was_heard(struct sim *s, const struct sim_answer *a)
{
    for (uint32_t i = 0; i < s->plan.clients; i++) {
        struct sim_client *c = &s->clients[i];
        struct sim_stream *st = c->keys.client == a->client ? &c->keys
            : c->log.client == a->client                    ? &c->log
                                                            : NULL;
        const struct sim_request *r = st == NULL || !c->node->up ? NULL : sim_stream_find(st, a->request);
        if (st != NULL && c->node->up && (a->request <= st->answered || (r != NULL && r->answered)))
            return true;
    }
    return false;
}

void sim_check_registered(struct sim *s, const struct mob_chain_entry *e)
{
    for (size_t i = 0; i < s->registered_count; i++)
        if (s->registered[i].log == e->number)
            return;
    *SIM_GROW(s->registered, s->registered_count, s->registered_capacity) =
        (struct sim_registered){e->number, e->client, e->request};
}

/* Nobody can say again that there was this log: its registration is gone, or its blocks are. */
static void excuse(struct sim *s, const struct sim_answer *a)
{
    if ((a->client & MOB_GCS_CLIENT_BIT) == 0)
        *SIM_GROW(s->excused, s->excused_count, s->excused_capacity) = a->client;
    for (size_t i = 0; i < s->registered_count; i++)
        if (s->registered[i].client == a->client && s->registered[i].request == a->request)
            *SIM_GROW(s->excused, s->excused_count, s->excused_capacity) = s->registered[i].log;
}

static void lose(struct sim *s, const struct sim_member *m, const struct sim_answer *a)
{
    s->tasks_tainted = true;
    struct sim_lost lost = {.answer = *a};
    for (size_t i = 0; i < m->client_count; i++)
        if (m->clients[i].client == a->client) {
            lost.alive = m->clients[i].answered;
            lost.known = m->clients[i].awaited;
        }
    if (was_heard(s, a)) {
        *SIM_GROW(s->lost, s->lost_count, s->lost_capacity) = lost;
        if (lost.known) /* others are in no table, and nobody can say of them that they are gone */
            *SIM_GROW(s->gone, s->gone_count, s->gone_capacity) = *a;
    }
    excuse(s, a);
    for (size_t i = 0; i < s->history_count; i++)
        if (s->history[i].chain_client == a->client && s->history[i].request == a->request)
            sim_history_taint(s, s->history[i].key);
}

void sim_check_named(struct sim *s, const struct sim_member *m)
{
    for (size_t i = 0; i < s->lost_count; i++) {
        const struct sim_answer *a = &s->lost[i].answer;
        bool named = loss_names(m, a->client, a->seq);
        /* A log can be carried on only when its registrar, who may be unknown too, was heard as well. */
        bool is_log = (a->client & MOB_GCS_CLIENT_BIT) == 0;
        SIM_CHECK(s, !s->lost[i].alive || (is_log && named),
            "request %llu of client %llx was replied as %llu and is gone, though it was sent again",
            (unsigned long long)a->request, (unsigned long long)a->client, (unsigned long long)a->seq);
        SIM_CHECK(s, !s->lost[i].known || named,
            "request %llu of client %llx was replied as %llu and is gone, and nothing names it",
            (unsigned long long)a->request, (unsigned long long)a->client, (unsigned long long)a->seq);
    }
}

/* A write that was committed, whose client has not heard of it, comes back among the last, though somebody
 * may have read it: the one thing that collecting cannot put back in its place (docs/gcs.md). */
static void taint_unheard(struct sim *s, const struct sim_answer *a)
{
    s->tasks_tainted = s->tasks_tainted || !was_heard(s, a);
    for (size_t i = 0; i < s->history_count; i++) {
        const struct sim_op *op = &s->history[i];
        if (op->chain_client == a->client && op->request == a->request && op->return_at == INT64_MAX)
            sim_history_taint(s, op->key);
    }
}

/* What was sealed stays sealed, at its cut, also when the entry that did it is lost with everything. */
static void check_seals(struct sim *s, const struct sim_member *m)
{
    for (uint32_t i = 0; i < s->database.seal_count; i++) {
        const struct sim_seal *seal = &s->database.seals[i];
        const struct mob_gcs_incarnation *log = mob_state_incarnation(m->state, seal->incarnation);
        if (seal->cut == UINT64_MAX || log == NULL)
            continue;
        SIM_CHECK(s, log->state != MOB_GCS_LIVE && log->blocks <= seal->cut,
            "log %llu was sealed at %llu, and is in state %u with %llu blocks after everything had died",
            (unsigned long long)seal->incarnation, (unsigned long long)seal->cut, log->state,
            (unsigned long long)log->blocks);
    }
}

void sim_check_collected(struct sim *s, struct sim_member *m)
{
    check_seals(s, m);
    size_t kept = 0;
    s->lost_count = 0;
    for (size_t i = 0; i < s->answer_count; i++) {
        struct sim_answer a = s->answers[i];
        uint64_t last;
        bool is_log = (a.client & MOB_GCS_CLIENT_BIT) == 0;
        if (a.seq > s->started_seq)
            taint_unheard(s, &a);
        bool there = a.seq <= s->started_seq ||
            (mob_chain_collected(m->chain, a.client, &last) && last >= a.request) ||
            (is_log && block_there(m, a.client, a.request - 1));
        if (there)
            s->answers[kept++] = a;
        else
            lose(s, m, &a);
    }
    s->answer_count = kept;
    /* A client whose OPEN is gone with it, or whose log is, cannot be asked any more. */
    for (size_t i = 0; i < m->client_count; i++)
        if (m->clients[i].awaited && !m->clients[i].answered &&
            (m->clients[i].client & MOB_GCS_CLIENT_BIT) == 0)
            *SIM_GROW(s->excused, s->excused_count, s->excused_capacity) = m->clients[i].client;
}

bool sim_log_is_excused(const struct sim *s, uint64_t incarnation)
{
    for (size_t i = 0; i < s->excused_count; i++)
        if (s->excused[i] == incarnation)
            return true;
    return false;
}

/* ---- at the end ---- */

/* What is still missing, for the message. */
void sim_tell_missing(struct sim *s, char *out, size_t size)
{
    const struct mob_gcs_config *c = &s->database.configs[s->database.newest];
    size_t n = (size_t)snprintf(
        out, size, "epoch %llu, %u of %u members", (unsigned long long)c->epoch, c->count, s->plan.replicas);
    for (uint32_t i = 0; i < s->plan.slots && n < size; i++) {
        const struct sim_member *m = &s->members[i];
        if (m->node->up)
            n += (size_t)snprintf(out + n, size - n, "; member %u %s epoch %llu applied %llu committed %llu",
                i, mob_chain_state_name(mob_chain_state(m->chain)),
                (unsigned long long)mob_chain_epoch(m->chain),
                (unsigned long long)mob_chain_applied(m->chain),
                (unsigned long long)mob_chain_committed(m->chain));
    }
    for (uint32_t i = 0; i < s->database.seal_count && n < size; i++)
        if (!s->database.seals[i].recovered)
            n += (size_t)snprintf(out + n, size - n, "; log %llu not recovered",
                (unsigned long long)s->database.seals[i].incarnation);
    for (uint32_t i = 0; i < s->plan.clients && n < size; i++) {
        const struct sim_client *k = &s->clients[i];
        if (k->watch.on)
            n += (size_t)snprintf(
                out + n, size - n, "; client %u has seen %llu", i, (unsigned long long)k->watch.after);
        if (n < size && !sim_client_idle(k))
            n += (size_t)snprintf(out + n, size - n, "; client %u state %d unanswered %zu, log %zu", i,
                k->keys.state, sim_stream_unanswered(&k->keys), sim_stream_unanswered(&k->log));
    }
}

bool sim_is_whole(struct sim *s)
{
    const struct mob_gcs_config *c = &s->database.configs[s->database.newest];
    if (c->count < s->plan.replicas)
        return false;
    for (uint32_t i = 0; i < c->count; i++) {
        struct sim_member *m = member_of(s, c->members[i]);
        if (m == NULL || mob_chain_epoch(m->chain) != c->epoch ||
            mob_chain_state(m->chain) != MOB_CHAIN_SERVING ||
            mob_chain_committed(m->chain) != mob_chain_applied(m->chain))
            return false;
        struct sim_member *head = member_of(s, c->members[0]);
        if (mob_chain_applied(head->chain) != mob_chain_applied(m->chain))
            return false;
    }
    const struct sim_member *head = member_of(s, c->members[0]);
    for (uint32_t i = 0; i < s->plan.clients; i++)
        if (!sim_client_idle(&s->clients[i]) ||
            (s->clients[i].watch.on && !sim_sub_is_whole(&s->clients[i].watch, head)))
            return false;
    return sim_tasks_whole(s);
}

static void check_blocks(struct sim *s, const struct sim_member *m)
{
    for (size_t i = 0; i < m->memory.block_count; i++) {
        const struct sim_block *b = &m->memory.blocks[i];
        SIM_CHECK(s, b->hash == sim_block_hash(b->incarnation, b->number),
            "block %llu of log %llu has other bytes", (unsigned long long)b->number,
            (unsigned long long)b->incarnation);
        for (size_t k = 0; k < i; k++)
            SIM_CHECK(s,
                m->memory.blocks[k].incarnation != b->incarnation || m->memory.blocks[k].number < b->number,
                "block %llu of log %llu is there twice, or out of order", (unsigned long long)b->number,
                (unsigned long long)b->incarnation);
    }
    for (uint32_t i = 0; i < s->database.seal_count; i++) {
        uint64_t id = s->database.seals[i].incarnation, cut = s->database.seals[i].cut;
        const struct mob_gcs_incarnation *log = mob_state_incarnation(m->state, id);
        SIM_CHECK(s,
            cut == UINT64_MAX || sim_log_is_excused(s, id) ||
                (log != NULL && log->state != MOB_GCS_LIVE && log->blocks == cut),
            "log %llu was cut at %llu and is not", (unsigned long long)id, (unsigned long long)cut);
    }
}

void sim_check_whole(struct sim *s)
{
    const struct mob_gcs_config *c = &s->database.configs[s->database.newest];
    const struct sim_member *head = member_of(s, c->members[0]);
    check_blocks(s, head);
    sim_check_cold(s, head);
    sim_check_tasks(s, head);
    for (uint32_t i = 0; i < s->plan.clients; i++)
        if (s->clients[i].watch.on)
            sim_sub_check(s, &s->clients[i].watch, head);
    for (uint32_t i = 1; i < c->count; i++) {
        const struct sim_member *m = member_of(s, c->members[i]);
        SIM_CHECK(s,
            mob_chain_digest(head->chain) == mob_chain_digest(m->chain) &&
                mob_chain_state_digest(head->chain) == mob_chain_state_digest(m->chain),
            "members %u and %u have other digests at seq %llu", head->slot, m->slot,
            (unsigned long long)mob_chain_applied(head->chain));
        SIM_CHECK(s, sim_image_same_blocks(&head->memory, &m->memory), "members %u and %u have other blocks",
            head->slot, m->slot);
    }
}
