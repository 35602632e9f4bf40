/* Tasks in node logs, and the recovery of a log that was sealed (GCS.md "Node logs and the cut"): a live node
 * takes the RECOVER record by compare-and-set, reads the log up to its cut, gives each unfinished task a new
 * owner, itself, and then says RECOVERED. When it dies, and its own log is sealed, another takes the record
 * over. The node that logged a task's spec owns attempt 1; later ones own what the directory says, by
 * compare-and-set, after the block that says so is committed in their own log.
 */
#include <stdlib.h>

#include "tests/sim/sim_internal.h"

#define READ_AGAIN_NS (8 * SIM_MS)
#define GIVE_UP_NS (120 * SIM_MS)

/* ---- records in blocks ---- */

uint32_t sim_record_write(uint8_t *body, const struct sim_record *record)
{
    memcpy(body, record, sizeof *record);
    return sizeof *record;
}

static struct sim_task *task_of(struct sim_client *c, uint32_t task)
{
    for (size_t i = 0; i < c->task_count; i++)
        if (c->tasks[i].id == task)
            return &c->tasks[i];
    return NULL;
}

static struct sim_task *add_task(
    struct sim_client *c, uint32_t task, uint32_t attempt, enum sim_task_state state)
{
    struct sim_task *t = SIM_GROW(c->tasks, c->task_count, c->task_capacity);
    *t = (struct sim_task){.id = task, .attempt = attempt, .state = state};
    return t;
}

/* What the next block of this node's log says. */
struct sim_record sim_tasks_next_record(struct sim *s, struct sim_client *c)
{
    struct sim_record r = {.kind = SIM_RECORD_NONE};
    struct sim_task *t = NULL;
    for (size_t i = 0; i < c->task_count && t == NULL; i++)
        if (c->tasks[i].state == SIM_TASK_OWNED && (s->healing || sim_chance(s, 0.1)))
            t = &c->tasks[i];
    if (t != NULL) {
        t->state = SIM_TASK_ENDS;
        r = (struct sim_record){.task = t->id, .attempt = t->attempt, .kind = SIM_RECORD_DONE};
    } else if (!s->healing && s->next_task + 1 < SIM_TASKS_MAX && sim_chance(s, 0.3)) {
        t = add_task(c, ++s->next_task, 1, SIM_TASK_BEGINS);
        r = (struct sim_record){.task = t->id, .attempt = 1, .kind = SIM_RECORD_SPEC};
    }
    if (t != NULL)
        t->request = c->log.next;
    return r;
}

bool sim_tasks_want_a_block(const struct sim_client *c)
{
    for (size_t i = 0; i < c->task_count; i++)
        if (c->tasks[i].state == SIM_TASK_OWNED)
            return true;
    return false;
}

/* Its log is acknowledged up to some block: what waited for one of them goes on. */
void sim_tasks_acknowledged(struct sim *s, struct sim_client *c)
{
    for (size_t i = 0; i < c->task_count; i++) {
        struct sim_task *t = &c->tasks[i];
        if (t->request > c->log.answered)
            continue;
        if (t->state == SIM_TASK_BEGINS) {
            t->state = SIM_TASK_OWNED;
        } else if (t->state == SIM_TASK_ENDS) { /* now the world outside may see it */
            t->state = SIM_TASK_ENDED;
            sim_cover_add(s, SIM_TASKS_ENDED);
            SIM_CHECK(s, s->task_seen[t->id]++ == 0 || s->tasks_tainted || s->task_dropped[t->id],
                "task %u ends again, as attempt %u at node %u, and was seen to end before", t->id, t->attempt,
                c->number);
        }
    }
}

/* The node is dead, or its log is sealed: it forgets what it was at. */
void sim_tasks_forget(struct sim *s, struct sim_client *c)
{
    if (c->recovery.state != SIM_RECOVER_NONE && s != NULL)
        sim_cover_add(s, SIM_RECOVERER_DIES);
    c->task_count = 0;
    free(c->recovery.blocks);
    uint64_t tag = c->recovery.tag;
    c->recovery = (struct sim_recovery){.tag = tag};
}

void sim_tasks_fini(struct sim_client *c)
{
    free(c->tasks);
    c->tasks = NULL;
    c->task_capacity = 0;
}

/* ---- a recovery ---- */

static struct sim_seal *seal_of(struct sim *s, uint64_t incarnation)
{
    for (uint32_t i = 0; i < s->database.seal_count; i++)
        if (s->database.seals[i].incarnation == incarnation)
            return &s->database.seals[i];
    return NULL;
}

static void enter(struct sim *s, struct sim_client *c, enum sim_recover_state state)
{
    struct sim_recovery *r = &c->recovery;
    SIM_TRACE(s, "client %u: recovery of log %llu: state %d -> %d", c->number, (unsigned long long)r->log,
        r->state, state);
    r->state = state;
    r->since = s->now;
    r->request = 0;
    r->asked_at = s->now - READ_AGAIN_NS;
    r->tag++;
}

static void give_up(struct sim_client *c, int64_t until)
{
    struct sim_recovery *r = &c->recovery;
    free(r->blocks);
    *r = (struct sim_recovery){.tag = r->tag + 1, .next_at = until};
}

static uint32_t name_of(uint8_t kind, uint64_t number, uint8_t name[9])
{
    name[0] = kind;
    memcpy(name + 1, &number, sizeof number);
    return 9;
}

/* Compare-and-set of a record {incarnation, attempt}. */
static void set(
    struct sim *s, struct sim_client *c, uint8_t kind, uint64_t number, uint64_t version, uint32_t attempt)
{
    uint8_t body[9 + 16];
    uint64_t value[2] = {c->log.client, attempt};
    uint32_t n = name_of(kind, number, body);
    memcpy(body + n, value, sizeof value);
    struct mob_gcs_request head = {
        .op = MOB_GCS_OP_PUT, .table = MOB_GCS_NODES, .key_length = n, .if_version = version};
    c->recovery.request = sim_client_submit(s, c, &head, body, n + sizeof value)->head.request;
}

/* Asked until it is answered: GET of the record, or the blocks of the log. */
static void ask(struct sim *s, struct sim_client *c, uint8_t kind, uint64_t number, bool database)
{
    struct sim_recovery *r = &c->recovery;
    if (s->now - r->asked_at < READ_AGAIN_NS || c->config.epoch == 0)
        return;
    r->asked_at = s->now;
    uint64_t member = c->config.members[r->by_chain ? 0 : c->config.count - 1];
    uint8_t to = database ? s->database.number : sim_node_of_member(member);
    uint8_t type = database ? SIM_DB : kind == 0 ? SIM_SCAN : SIM_GET;
    struct sim_msg *msg = sim_msg_create(type, c->number, to, NULL, 0);
    msg->epoch = c->config.epoch;
    msg->tag = r->tag << 8 | SIM_TAG_RECOVERY;
    msg->a = database ? SIM_DB_ROWS : number;
    msg->b = database ? number : r->by_chain;
    msg->c = kind;
    sim_send(s, msg);
}

bool sim_log_is_sealed(struct sim *s, uint64_t log)
{
    const struct sim_seal *seal = seal_of(s, log);
    return seal != NULL && seal->cut != UINT64_MAX;
}

/* A sealed log that nobody has recovered; 0: none now. */
static uint64_t log_to_recover(struct sim *s)
{
    uint32_t n = s->database.seal_count;
    if (s->setup.without == SIM_RULE_CUT)
        return s->clients[sim_below(s, s->plan.clients)].log.client;
    const struct sim_seal *seal = n == 0 ? NULL : &s->database.seals[sim_below(s, n)];
    return seal == NULL || seal->cut == UINT64_MAX || seal->recovered ? 0 : seal->incarnation;
}

static void pick(struct sim *s, struct sim_client *c)
{
    struct sim_recovery *r = &c->recovery;
    uint64_t log = s->now < r->next_at || !sim_chance(s, 0.2) ? 0 : log_to_recover(s);
    if (log == 0 || log == c->log.client)
        return;
    r->log = log;
    sim_cover_add(s, SIM_RECOVERIES);
    enter(s, c, SIM_RECOVER_CLAIM);
}

static void add_blocks(struct sim_recovery *r, const struct sim_msg *msg)
{
    for (uint32_t at = 0; at + sizeof(struct sim_block) <= msg->body_bytes; at += sizeof(struct sim_block))
        memcpy(SIM_GROW(r->blocks, r->count, r->capacity), msg->body + at, sizeof(struct sim_block));
}

static bool ended_in(const struct sim_block *blocks, size_t count, const struct sim_record *begun)
{
    for (size_t i = 0; i < count; i++)
        if (blocks[i].record.kind == SIM_RECORD_DONE && blocks[i].record.task == begun->task &&
            blocks[i].record.attempt == begun->attempt)
            return true;
    return false;
}

/* The next unfinished task of the log, if any is left. */
static void next_task(struct sim *s, struct sim_client *c)
{
    struct sim_recovery *r = &c->recovery;
    for (; r->at < r->count; r->at++) {
        const struct sim_record *begun = &r->blocks[r->at].record;
        bool begins = begun->kind == SIM_RECORD_SPEC || begun->kind == SIM_RECORD_ACCEPT;
        /* A later attempt than its own: its own log is sealed, and it has not heard of that yet. */
        const struct sim_task *own = task_of(c, begun->task);
        if (!begins || s->task_dropped[begun->task] || ended_in(r->blocks, r->count, begun) ||
            (own != NULL && own->attempt >= begun->attempt))
            continue;
        enter(s, c, SIM_RECOVER_OWNER);
        return;
    }
    enter(s, c, SIM_RECOVER_SAY);
}

static void skip_task(struct sim *s, struct sim_client *c)
{
    c->recovery.at++;
    next_task(s, c);
}

static void on_owner(
    struct sim *s, struct sim_client *c, bool found, uint64_t version, const uint64_t value[2])
{
    struct sim_recovery *r = &c->recovery;
    const struct sim_record *begun = &r->blocks[r->at].record;
    if (found && value[0] == c->log.client && task_of(c, begun->task) == NULL) /* asked for before */
        add_task(c, begun->task, (uint32_t)value[1], SIM_TASK_OWNED);
    /* What the dead node told the directory may still be on its way: the row is as it was found when the task
     * was accepted. A row of this node's own makes that come too late. */
    bool may_come = version == begun->replaces && s->setup.without != SIM_RULE_LATE_OWNER;
    bool dead_ones = found ? value[0] == r->log && value[1] == begun->attempt : begun->attempt == 1;
    if (!dead_ones && !may_come) { /* it moved on already */
        skip_task(s, c);
        return;
    }
    r->version = version;
    r->attempt = begun->attempt + 1;
    enter(s, c, SIM_RECOVER_ACCEPT);
}

/* The record of who recovers this log is another's. */
static void on_recoverer(struct sim *s, struct sim_client *c, uint64_t version, uint64_t recoverer)
{
    struct sim_recovery *r = &c->recovery;
    bool mine = recoverer == c->log.client;
    if (!mine && (!sim_log_is_sealed(s, recoverer) || s->setup.without == SIM_RULE_TAKEOVER)) {
        give_up(c, s->now + 10 * SIM_MS);
        return;
    }
    if (!mine)
        sim_cover_add(s, SIM_RECOVERIES_TAKEN);
    r->version = version;
    enter(s, c, mine ? SIM_RECOVER_READ : SIM_RECOVER_CLAIM);
}

/* An answer to ask(). */
void sim_recovery_message(struct sim *s, struct sim_client *c, const struct sim_msg *msg)
{
    struct sim_recovery *r = &c->recovery;
    if (msg->tag != (r->tag << 8 | SIM_TAG_RECOVERY))
        return;
    if (msg->type == SIM_VALUE && msg->status == MOB_AGAIN) {
        r->by_chain = true;
        r->asked_at = s->now - READ_AGAIN_NS;
    } else if (msg->type == SIM_VALUE && r->state == SIM_RECOVER_WHO) {
        if (msg->status == MOB_OK)
            on_recoverer(s, c, msg->b, msg->a);
        else
            enter(s, c, SIM_RECOVER_CLAIM);
    } else if (msg->type == SIM_VALUE && r->state == SIM_RECOVER_OWNER) {
        const uint64_t value[2] = {msg->a, msg->c};
        on_owner(s, c, msg->status == MOB_OK, msg->status == MOB_OK ? msg->b : 0, value);
    } else if (msg->type == SIM_ROWS && r->state == SIM_RECOVER_READ) {
        add_blocks(r, msg);
        enter(s, c, SIM_RECOVER_READ_COLD); /* behind: what left the members since is there */
    } else if (msg->type == SIM_DB_ANSWER && r->state == SIM_RECOVER_READ_COLD) {
        add_blocks(r, msg);
        next_task(s, c);
    }
}

static void on_claimed(struct sim *s, struct sim_client *c, const struct mob_gcs_reply *reply)
{
    enter(s, c, reply->status == MOB_OK ? SIM_RECOVER_READ : SIM_RECOVER_WHO);
}

static void on_moved(struct sim *s, struct sim_client *c, const struct mob_gcs_reply *reply)
{
    struct sim_recovery *r = &c->recovery;
    uint32_t task = r->blocks[r->at].record.task;
    if (reply->status != MOB_OK) {
        sim_cover_add(s, SIM_OWNER_CONFLICTS);
        enter(s, c, SIM_RECOVER_OWNER);
        return;
    }
    sim_cover_add(s, SIM_TASKS_MOVED);
    SIM_TRACE(s, "client %u: owns task %u, attempt %u, log %llu", c->number, task, r->attempt,
        (unsigned long long)c->log.client);
    if (task_of(c, task) == NULL)
        add_task(c, task, r->attempt, SIM_TASK_OWNED);
    skip_task(s, c);
}

void sim_recovery_replied(struct sim *s, struct sim_client *c, const struct mob_gcs_reply *reply)
{
    struct sim_recovery *r = &c->recovery;
    if (r->request == 0 || r->request != reply->request)
        return;
    if (r->state == SIM_RECOVER_CLAIM) {
        on_claimed(s, c, reply);
    } else if (r->state == SIM_RECOVER_MOVE) {
        on_moved(s, c, reply);
    } else if (r->state == SIM_RECOVER_SAY) {
        struct sim_seal *seal = seal_of(s, r->log);
        if (seal != NULL && (reply->status == MOB_OK || reply->status == MOB_NOT_FOUND)) {
            seal->recovered = true; /* the master notes it */
            sim_cover_add(s, SIM_RECOVERED);
        }
        give_up(c, s->now);
    }
}

static void accept(struct sim *s, struct sim_client *c)
{
    struct sim_recovery *r = &c->recovery;
    const struct sim_record *begun = &r->blocks[r->at].record;
    if (r->request == 0) {
        struct sim_record record = {
            .task = begun->task, .attempt = r->attempt, .kind = SIM_RECORD_ACCEPT, .replaces = r->version};
        r->request = sim_client_append(s, c, &record);
    }
    /* First it is in this node's log: whoever recovers that finds it. Then the directory says it. */
    if (c->log.answered >= r->request || s->setup.without == SIM_RULE_ACCEPT)
        enter(s, c, SIM_RECOVER_MOVE);
}

static void step(struct sim *s, struct sim_client *c)
{
    struct sim_recovery *r = &c->recovery;
    switch (r->state) {
    case SIM_RECOVER_NONE:
        pick(s, c);
        break;
    case SIM_RECOVER_CLAIM:
        if (r->request == 0)
            set(s, c, 'r', r->log, r->version, 0);
        break;
    case SIM_RECOVER_WHO:
        ask(s, c, 'r', r->log, false);
        break;
    case SIM_RECOVER_READ:
        ask(s, c, 0, r->log, false);
        break;
    case SIM_RECOVER_READ_COLD:
        ask(s, c, 0, r->log, true);
        break;
    case SIM_RECOVER_OWNER:
        ask(s, c, 'o', r->blocks[r->at].record.task, false);
        break;
    case SIM_RECOVER_ACCEPT:
        accept(s, c);
        break;
    case SIM_RECOVER_MOVE:
        if (r->request == 0 && !sim_is_overtaken(s, c, r->blocks[r->at].record.task))
            set(s, c, 'o', r->blocks[r->at].record.task, r->version, r->attempt);
        break;
    case SIM_RECOVER_SAY:
        if (r->request == 0) {
            struct mob_gcs_request head = {.op = MOB_GCS_OP_RECOVERED, .target = r->log};
            r->request = sim_client_submit(s, c, &head, NULL, 0)->head.request;
        }
        break;
    }
}

void sim_recovery_tick(struct sim *s, struct sim_client *c)
{
    struct sim_recovery *r = &c->recovery;
    if (c->log.client == 0 || c->keys.client == 0) {
        return;
    }
    /* Not while it is unknown whether a task is its own now. */
    if (r->state != SIM_RECOVER_NONE && r->state != SIM_RECOVER_MOVE && s->now - r->since > GIVE_UP_NS) {
        give_up(c, s->now);
        return;
    }
    step(s, c);
}

/* ---- what must hold ---- */

static struct sim_block *gather(
    const struct sim *s, const struct sim_member *m, uint64_t log, size_t *count_out)
{
    size_t n = 0;
    struct sim_block *all = malloc((m->memory.block_count + s->database.cold_count + 1) * sizeof *all);
    for (size_t i = 0; i < m->memory.block_count; i++)
        if (log == 0 || m->memory.blocks[i].incarnation == log)
            all[n++] = m->memory.blocks[i];
    for (size_t i = 0; i < s->database.cold_count; i++)
        if (s->database.cold[i].seq <= m->memory.notes.upto && /* else it is in both */
            (log == 0 || s->database.cold[i].incarnation == log))
            all[n++] = s->database.cold[i];
    *count_out = n;
    return all;
}

static bool owner_of(const struct sim_member *m, uint32_t task, uint64_t value_out[2])
{
    uint8_t name[9];
    struct mob_state_key row;
    if (!mob_state_get(m->state, MOB_GCS_NODES, name, name_of('o', task, name), &row))
        return false;
    memcpy(value_out, row.value, 2 * sizeof *value_out);
    return true;
}

/* A log counts as recovered only when somebody else owns what it left unfinished. */
void sim_check_recovered(struct sim *s, const struct sim_member *m, uint64_t log)
{
    size_t n;
    struct sim_block *blocks = gather(s, m, log, &n);
    uint32_t left = 0;
    for (size_t i = 0; i < n && !s->tasks_tainted; i++) {
        const struct sim_record *r = &blocks[i].record;
        uint64_t owner[2];
        if (s->task_dropped[r->task] || r->kind != SIM_RECORD_SPEC || ended_in(blocks, n, r))
            continue;
        if (!owner_of(m, r->task, owner) || owner[0] == log)
            left = r->task;
    }
    free(blocks);
    SIM_CHECK(s, left == 0, "log %llu is said to be recovered, and nobody else owns its task %u",
        (unsigned long long)log, left);
}

/* Each task that was logged has ended once, as the attempt of its owner. */
void sim_check_tasks(struct sim *s, const struct sim_member *m)
{
    size_t n;
    struct sim_block *blocks = gather(s, m, 0, &n);
    uint32_t wrong = 0, ends = 0;
    for (size_t i = 0; i < n && !s->tasks_tainted && wrong == 0; i++) {
        const struct sim_record *r = &blocks[i].record;
        uint64_t owner[2] = {blocks[i].incarnation, 1};
        if (r->kind != SIM_RECORD_SPEC || s->task_dropped[r->task])
            continue;
        (void)owner_of(m, r->task, owner);
        ends = 0;
        for (size_t k = 0; k < n; k++)
            ends += blocks[k].record.kind == SIM_RECORD_DONE && blocks[k].record.task == r->task &&
                blocks[k].record.attempt == owner[1] && blocks[k].incarnation == owner[0];
        wrong = ends == 1 ? 0 : r->task;
    }
    free(blocks);
    SIM_CHECK(s, wrong == 0, "task %u has ended %u times as its owner's attempt", wrong, ends);
    if (s->tasks_tainted)
        sim_cover_add(s, SIM_TASKS_TAINTED);
}

/* Some node is there that can recover, and nothing is left to be recovered, nor to be ended. */
bool sim_tasks_whole(struct sim *s)
{
    bool logs = false;
    for (uint32_t i = 0; i < s->plan.clients; i++) {
        struct sim_client *c = &s->clients[i];
        logs = logs || c->has_log;
        for (size_t k = 0; k < c->task_count; k++)
            if (c->tasks[k].state != SIM_TASK_ENDED)
                return false;
    }
    if (!logs)
        return true;
    bool room = s->database.seal_count < SIM_SEALS_MAX;
    for (uint32_t i = 0; i < s->database.seal_count; i++)
        if (!s->database.seals[i].recovered)
            return false;
    return !room || s->dead_log_count == 0;
}
