#include "gcs/chain/node_watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "gcs/chain/chain_rules.h"

#define ACTIONS_MAX 64u
#define AGAIN_NS (200 * 1000000ll) /* what the table, or the chain, refused is asked again */
#define REREAD_NS (1000 * 1000000ll) /* a record that seemed lost may come to the table late */

struct watched {
    struct mob_node_log log; /* as recorded */
    int64_t heard_ns;
    int64_t beat_ns; /* it beat last; 0: not to this master */
    bool gone; /* the link over which it did was closed since */
    int64_t end_ns; /* when its process is to be ended; 0: it is not sealed */
    bool end_asked; /* once at least */
    bool leaving, sealing, has_cut;
    uint64_t cut; /* told by the chain, perhaps not recorded */
};
struct enrolling {
    struct mob_node_log log; /* incarnation 0: not registered */
    uint64_t token;
    bool registering;
    int64_t next_ns;
    int64_t asked_ns; /* first, by a start that has no answer yet: two of them may take turns */
};

struct mob_node_watch {
    struct mob_node_watch_options options;
    bool active;
    int64_t tick_ns, read_ns;
    struct watched logs[MOB_NODE_LOGS_MAX];
    uint32_t log_count;
    struct enrolling enrolling[MOB_NODE_ENROLLING_MAX];
    uint32_t enrolling_count;
    bool noting; /* one record at a time is under way */
    bool unknown; /* and how it ended is not known: the table is to be read */
    bool reading; /* and no record was made since that was asked */
    struct mob_node_log note;
    struct mob_node_watch_action actions[ACTIONS_MAX];
    uint32_t action_count, action_next;
};

struct mob_node_watch *mob_node_watch_create(const struct mob_node_watch_options *options)
{
    struct mob_node_watch *w = calloc(1, sizeof *w);
    if (w != NULL)
        w->options = *options;
    return w;
}

void mob_node_watch_destroy(struct mob_node_watch *w)
{
    free(w);
}

/* ---- actions ---- */

static bool push(struct mob_node_watch *w, const struct mob_node_watch_action *action)
{
    if (w->action_count == ACTIONS_MAX)
        return false;
    w->actions[w->action_count++] = *action;
    return true;
}

bool mob_node_watch_next(struct mob_node_watch *w, struct mob_node_watch_action *action_out)
{
    if (w->action_next == w->action_count) {
        w->action_next = w->action_count = 0;
        return false;
    }
    *action_out = w->actions[w->action_next++];
    return true;
}

static void note(struct mob_node_watch *w, const struct mob_node_log *log, uint32_t old_state)
{
    struct mob_node_watch_action a = {.type = MOB_NODE_WATCH_NOTE, .old_state = old_state, .log = *log};
    if (w->noting || !push(w, &a))
        return;
    w->noting = true;
    w->reading = false;
    w->note = *log;
}

/* ---- what is known ---- */

static struct watched *find(struct mob_node_watch *w, uint64_t incarnation)
{
    for (uint32_t i = 0; i < w->log_count; i++)
        if (w->logs[i].log.incarnation == incarnation)
            return &w->logs[i];
    return NULL;
}

static bool same_node(const struct mob_node_log *a, const struct mob_node_log *b)
{
    return strcmp(a->node, b->node) == 0;
}

static struct enrolling *enrolling_of(struct mob_node_watch *w, const struct mob_node_log *log)
{
    for (uint32_t i = 0; i < w->enrolling_count; i++)
        if (same_node(&w->enrolling[i].log, log))
            return &w->enrolling[i];
    return NULL;
}

static uint32_t live_count(const struct mob_node_watch *w)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < w->log_count; i++)
        live += w->logs[i].log.state != MOB_NODE_LOG_SEALED;
    return live;
}

/* A place for one more: the oldest sealed one is forgotten. Live ones are bounded when they enroll. */
static struct watched *add(struct mob_node_watch *w)
{
    if (w->log_count < MOB_NODE_LOGS_MAX)
        return &w->logs[w->log_count++];
    struct watched *oldest = NULL;
    for (uint32_t i = 0; i < w->log_count; i++) {
        struct watched *l = &w->logs[i];
        bool sealed = l->log.state == MOB_NODE_LOG_SEALED;
        if (sealed && (oldest == NULL || l->log.incarnation < oldest->log.incarnation))
            oldest = l;
    }
    MOB_ASSERT(oldest != NULL);
    return oldest;
}

/* As the table has it. */
static void take(struct mob_node_watch *w, const struct mob_node_log *log, int64_t now_ns)
{
    struct watched *l = find(w, log->incarnation);
    if (l == NULL) {
        l = add(w);
        *l = (struct watched){.heard_ns = now_ns};
    }
    if (log->state == MOB_NODE_LOG_SEALED && l->log.state != MOB_NODE_LOG_SEALED)
        l->end_ns = now_ns + w->options.end_after_ns;
    l->log = *log;
}

static void take_all(
    struct mob_node_watch *w, const struct mob_node_log *logs, uint32_t count, int64_t now_ns)
{
    for (uint32_t i = 0; i < count; i++)
        take(w, &logs[i], now_ns);
    w->noting = w->unknown = w->reading = false;
}

void mob_node_watch_begin(
    struct mob_node_watch *w, const struct mob_node_log *logs, uint32_t count, int64_t now_ns)
{
    w->active = true;
    w->log_count = w->enrolling_count = 0;
    w->tick_ns = w->read_ns = now_ns;
    take_all(w, logs, count, now_ns);
}

void mob_node_watch_end(struct mob_node_watch *w)
{
    w->active = false;
    w->enrolling_count = 0;
    w->action_count = w->action_next = 0;
}

void mob_node_watch_on_logs(
    struct mob_node_watch *w, const struct mob_node_log *logs, uint32_t count, int64_t now_ns)
{
    if (w->active && w->reading) /* else it was asked before what is under way */
        take_all(w, logs, count, now_ns);
}

bool mob_node_watch_settled(const struct mob_node_watch *w)
{
    return w->active && (!w->noting || !MOB_RULE(NODE_SETTLED));
}

uint64_t mob_node_watch_newest(const struct mob_node_watch *w)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < w->log_count; i++)
        if (w->logs[i].log.incarnation > newest)
            newest = w->logs[i].log.incarnation;
    return newest;
}

uint32_t mob_node_watch_seals(const struct mob_node_watch *w, struct mob_gcs_seal *seals_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->log_count; i++) {
        const struct mob_node_log *log = &w->logs[i].log;
        if (log->state == MOB_NODE_LOG_LIVE || !MOB_RULE(NODE_TOLD))
            continue;
        uint64_t cut = log->state == MOB_NODE_LOG_SEALED ? log->cut : UINT64_MAX;
        seals_out[count++] = (struct mob_gcs_seal){log->incarnation, cut};
    }
    return count;
}

/* ---- decisions ---- */

/* The holder of the name has beaten since another start asked for it, and not with a beat that was on its way
 * when it died. */
static bool has_answered(const struct watched *l, const struct enrolling *next)
{
    return l->beat_ns - next->asked_ns > MOB_NODE_BEAT_NS / 2;
}

/* Why an incarnation is over; NULL: it is not. Silence counts from when this master began to listen. */
static const char *why_dead(struct mob_node_watch *w, const struct watched *l, int64_t now_ns)
{
    const struct enrolling *next = enrolling_of(w, &l->log);
    if (l->leaving)
        return "it left";
    if (next != NULL && next->log.start != l->log.start && !has_answered(l, next) &&
        (l->gone || (l->beat_ns == 0 && now_ns - next->asked_ns >= MOB_NODE_CHALLENGE_NS)))
        return "its node has started again";
    return now_ns - l->heard_ns >= w->options.silence_ns ? "it is silent" : NULL;
}

static void declare_dead(struct mob_node_watch *w, const struct watched *l, const char *why)
{
    struct mob_node_log log = l->log;
    log.state = MOB_NODE_LOG_DEAD;
    MOB_LOG_WARN("master", "node_is_dead", "node=%s incarnation=%llu pid=%lld why=\"%s\"", log.node,
        (unsigned long long)log.incarnation, (long long)log.pid, why);
    note(w, &log, MOB_NODE_LOG_LIVE);
}

/* Only what the table says is dead is sealed: else a chain that starts again would not know of the seal. */
static void seal(struct mob_node_watch *w, struct watched *l)
{
    if (!l->has_cut) {
        l->sealing = l->sealing ||
            push(w, &(struct mob_node_watch_action){.type = MOB_NODE_WATCH_SEAL, .log = l->log});
        return;
    }
    struct mob_node_log log = l->log;
    log.state = MOB_NODE_LOG_SEALED;
    log.cut = l->cut;
    note(w, &log, MOB_NODE_LOG_DEAD);
}

static bool is_newest(const struct mob_node_watch *w, const struct mob_node_log *log)
{
    for (uint32_t i = 0; i < w->log_count; i++)
        if (same_node(&w->logs[i].log, log) && w->logs[i].log.incarnation > log->incarnation)
            return false;
    return true;
}

static void end_process(struct mob_node_watch *w, struct watched *l, int64_t now_ns)
{
    if (l->end_ns == 0 || now_ns < l->end_ns || l->leaving)
        return;
    l->end_ns = now_ns + w->options.end_after_ns;
    if (!is_newest(w, &l->log) || enrolling_of(w, &l->log) != NULL)
        return;
    l->end_asked |= push(
        w, &(struct mob_node_watch_action){.type = MOB_NODE_WATCH_END, .again = l->end_asked, .log = l->log});
}

static void step_log(struct mob_node_watch *w, struct watched *l, int64_t now_ns)
{
    const char *why;
    switch ((enum mob_node_log_state)l->log.state) {
    case MOB_NODE_LOG_LIVE:
        why = w->noting ? NULL : why_dead(w, l, now_ns);
        if (why != NULL)
            declare_dead(w, l, why);
        return;
    case MOB_NODE_LOG_DEAD:
        seal(w, l);
        return;
    case MOB_NODE_LOG_SEALED:
        end_process(w, l, now_ns);
        return;
    case MOB_NODE_LOG_NONE:
        return;
    }
}

/* Of the log before: nobody can bring it back. */
static bool is_out_of_the_way(const struct watched *l)
{
    bool dead = l->log.state != MOB_NODE_LOG_LIVE;
    return MOB_RULE(NODE_SEAL) ? l->log.state == MOB_NODE_LOG_SEALED : dead;
}

/* True: answered, and to be forgotten. */
static bool step_enrolling(struct mob_node_watch *w, struct enrolling *e, int64_t now_ns)
{
    bool free_to_go = true;
    for (uint32_t i = 0; i < w->log_count; i++) {
        const struct mob_node_log *log = &w->logs[i].log;
        if (!same_node(log, &e->log))
            continue;
        if (log->start == e->log.start) { /* given out, by this master or the one before */
            struct mob_node_watch_action a = {.type = MOB_NODE_WATCH_ENROLLED,
                .token = e->token,
                .status = log->state == MOB_NODE_LOG_LIVE ? MOB_OK : MOB_SEALED,
                .log = *log};
            return push(w, &a);
        }
        if (log->state == MOB_NODE_LOG_LIVE && has_answered(&w->logs[i], e)) {
            struct mob_node_watch_action a = {
                .type = MOB_NODE_WATCH_ENROLLED, .token = e->token, .status = MOB_EXISTS, .log = *log};
            MOB_LOG_WARN("master", "name_is_taken",
                "node=%s pid=%lld refused_pid=%lld why=\"two processes under one name; the one that lives "
                "keeps "
                "it\"",
                log->node, (long long)log->pid, (long long)e->log.pid);
            return push(w, &a);
        }
        free_to_go = free_to_go && is_out_of_the_way(&w->logs[i]);
    }
    if (!free_to_go || now_ns < e->next_ns)
        return false;
    if (e->log.incarnation != 0) {
        e->log.state = MOB_NODE_LOG_LIVE;
        note(w, &e->log, MOB_NODE_LOG_NONE);
    } else if (!e->registering) {
        struct mob_node_watch_action a = {.type = MOB_NODE_WATCH_REGISTER, .log = e->log};
        e->registering = push(w, &a);
    }
    return false;
}

static void step(struct mob_node_watch *w, int64_t now_ns)
{
    for (uint32_t i = 0; i < w->log_count; i++)
        step_log(w, &w->logs[i], now_ns);
    for (uint32_t i = w->enrolling_count; i-- > 0;)
        if (step_enrolling(w, &w->enrolling[i], now_ns))
            w->enrolling[i] = w->enrolling[--w->enrolling_count];
}

/* ---- events ---- */

bool mob_node_watch_on_beat(struct mob_node_watch *w, uint64_t incarnation, bool leaving, int64_t now_ns)
{
    struct watched *l = w->active ? find(w, incarnation) : NULL;
    if (l == NULL)
        return false;
    l->heard_ns = l->beat_ns = now_ns;
    l->gone = false;
    l->leaving = l->leaving || leaving;
    return l->log.state != MOB_NODE_LOG_LIVE;
}

void mob_node_watch_on_gone(struct mob_node_watch *w, uint64_t incarnation, int64_t now_ns)
{
    struct watched *l = w->active ? find(w, incarnation) : NULL;
    if (l == NULL)
        return;
    l->gone = true;
    step(w, now_ns);
}

enum mob_status mob_node_watch_on_enroll(
    struct mob_node_watch *w, const struct mob_node_log *log, uint64_t token, int64_t now_ns)
{
    if (!w->active)
        return MOB_UNAVAILABLE;
    struct enrolling *e = enrolling_of(w, log);
    if (e == NULL) {
        if (w->enrolling_count == MOB_NODE_ENROLLING_MAX || live_count(w) >= MOB_NODE_LOGS_MAX / 2)
            return MOB_QUEUE_FULL;
        e = &w->enrolling[w->enrolling_count++];
        *e = (struct enrolling){.log = *log, .asked_ns = now_ns};
    } else if (e->log.start != log->start) { /* what was registered for the start before is nobody's */
        *e = (struct enrolling){.log = *log, .registering = e->registering, .asked_ns = e->asked_ns};
    }
    e->token = token;
    step(w, now_ns);
    return MOB_OK;
}

void mob_node_watch_on_tick(struct mob_node_watch *w, int64_t now_ns)
{
    if (!w->active)
        return;
    /* What arrived while this process was not running has not been read yet. */
    int64_t late = now_ns - w->tick_ns - w->options.tick_ns;
    w->tick_ns = now_ns;
    for (uint32_t i = 0; late > 0 && i < w->log_count; i++)
        w->logs[i].heard_ns += late;
    for (uint32_t i = 0; late > 0 && i < w->enrolling_count; i++)
        w->enrolling[i].asked_ns += late;
    bool settled = !w->noting && now_ns - w->read_ns >= REREAD_NS;
    if (settled || (w->unknown && now_ns - w->read_ns >= AGAIN_NS)) {
        w->read_ns = now_ns;
        w->reading = push(w, &(struct mob_node_watch_action){.type = MOB_NODE_WATCH_READ});
    }
    step(w, now_ns);
}

void mob_node_watch_on_noted(struct mob_node_watch *w, enum mob_status status, int64_t now_ns)
{
    if (!w->active || !w->noting || w->unknown)
        return;
    if (status != MOB_OK) { /* also after a conflict: somebody else's is there */
        w->unknown = true;
        w->read_ns = now_ns - AGAIN_NS;
        return;
    }
    w->noting = false;
    MOB_LOG_INFO("master", "node_log", "node=%s incarnation=%llu state=%u cut=%llu", w->note.node,
        (unsigned long long)w->note.incarnation, w->note.state, (unsigned long long)w->note.cut);
    take(w, &w->note, now_ns);
    step(w, now_ns);
}

void mob_node_watch_on_cut(
    struct mob_node_watch *w, uint64_t incarnation, enum mob_status status, uint64_t cut, int64_t now_ns)
{
    struct watched *l = w->active ? find(w, incarnation) : NULL;
    if (l == NULL)
        return;
    l->sealing = false;
    if (status != MOB_OK && status != MOB_NOT_FOUND)
        return;
    l->has_cut = true;
    l->cut = status == MOB_OK ? cut : 0;
    step(w, now_ns);
}

void mob_node_watch_on_registered(
    struct mob_node_watch *w, const char *node, enum mob_status status, uint64_t incarnation, int64_t now_ns)
{
    for (uint32_t i = 0; i < w->enrolling_count && w->active; i++) {
        struct enrolling *e = &w->enrolling[i];
        if (strcmp(e->log.node, node) != 0)
            continue;
        e->registering = false;
        if (status == MOB_OK)
            e->log.incarnation = incarnation;
        else
            e->next_ns = now_ns + AGAIN_NS;
    }
    step(w, now_ns);
}
