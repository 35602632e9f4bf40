/* Who the clients are: links, logs, the processes behind them; collecting after a restart; expiry. */
#include "gcs/shard/shard_internal.h"

#include <stdlib.h>

#include "common/base/process.h"

#define COLLECT_LONGEST_NS (10 * MOB_SEC)

/* Is it a process of this boot of this machine? Then the two below say what is so; of others they say no. */
static bool is_of_here(const struct mob_redis_identity *identity)
{
    uint8_t boot[16];
    mob_callers_boot(boot);
    return identity->pid != 0 && memcmp(boot, identity->boot, sizeof boot) == 0;
}

static bool is_over(const struct mob_redis_identity *identity)
{
    return is_of_here(identity) && mob_process_is_over(identity->pid, identity->pid_start);
}

static bool runs(const struct mob_redis_identity *identity)
{
    return is_of_here(identity) && !mob_process_is_over(identity->pid, identity->pid_start);
}

static struct attached *find(struct mob_shard *sh, uint64_t client)
{
    for (size_t i = 0; i < sh->attached_count; i++) {
        if (sh->attached[i].client != client)
            continue;
        if (i > 0) { /* the busy ones come to the front */
            struct attached up = sh->attached[i];
            sh->attached[i] = sh->attached[i - 1];
            sh->attached[i - 1] = up;
            i--;
        }
        return &sh->attached[i];
    }
    return NULL;
}

static struct attached *find_or_add(struct mob_shard *sh, uint64_t client)
{
    struct attached *a = find(sh, client);
    if (a != NULL)
        return a;
    if (sh->attached_count == sh->attached_capacity) {
        size_t capacity = sh->attached_capacity == 0 ? 16 : sh->attached_capacity * 2;
        struct attached *grown = realloc(sh->attached, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        sh->attached = grown;
        sh->attached_capacity = capacity;
    }
    a = &sh->attached[sh->attached_count++];
    *a = (struct attached){.client = client, .since_ns = sh->now_ns};
    return a;
}

struct conn *attach_conn(struct mob_shard *sh, uint64_t client)
{
    struct attached *a = find(sh, client);
    return a == NULL ? NULL : a->conn;
}

bool attach_name_is_held(struct mob_shard *sh, const struct conn *c, const uint8_t *name, uint32_t length)
{
    const struct mob_gcs_incarnation *log;
    for (uint64_t after = 0; (log = mob_state_incarnation_next(sh->state, after)) != NULL; after = log->id) {
        bool same = log->state == MOB_GCS_LIVE && strnlen(log->name, sizeof log->name) == length &&
            memcmp(log->name, name, length) == 0;
        const struct conn *holder = same ? attach_conn(sh, log->id) : NULL;
        if (holder != NULL && !holder->closing &&
            (holder->pid != c->pid || holder->pid_start != c->pid_start))
            return true;
    }
    return false;
}

void attach_forget(struct mob_shard *sh, uint64_t client)
{
    struct attached *a = find(sh, client);
    if (a != NULL)
        *a = sh->attached[--sh->attached_count];
}

/* Who is in the tables stays, with who its process is: whoever has them may be the one that waits for it, or
 * expires it, also when it only listened here. */
void attach_gone(struct conn *c)
{
    struct mob_shard *sh = c->shard;
    uint64_t last;
    for (size_t i = sh->attached_count; i-- > 0;) {
        struct attached *a = &sh->attached[i];
        if (a->conn != c)
            continue;
        a->conn = NULL;
        a->since_ns = sh->now_ns;
        if (!mob_chain_collected(sh->chain, a->client, &last))
            *a = sh->attached[--sh->attached_count];
    }
}

void attach_fini(struct mob_shard *sh)
{
    free(sh->attached);
}

/* ---- frames ---- */

void attach_welcome(struct conn *c)
{
    struct mob_shard *sh = c->shard;
    struct mob_gcs_welcome welcome = {.protocol = c->opening.challenge.protocol,
        .collecting = (uint8_t)((mob_chain_collecting(sh->chain) ? MOB_GCS_WELCOME_COLLECTING : 0) |
            (shard_has_masters(sh) ? MOB_GCS_WELCOME_CHAIN : 0)),
        .durability = (uint8_t)sh->options.durability,
        .cluster = sh->options.cluster,
        .committed = mob_chain_committed(sh->chain),
        .durable = mob_chain_durable(sh->chain)};
    conn_send(c, MOB_GCS_WELCOME, 0, &welcome, sizeof welcome);
    c->open = true;
    struct mob_gcs_durable d = {.committed = welcome.committed,
        .durable = welcome.durable,
        .memory_bytes = sh->memory_bytes,
        .soft_bytes = sh->options.soft_bytes,
        .hard_bytes = sh->options.hard_bytes};
    conn_send(c, MOB_GCS_DURABLE, 0, &d, sizeof d);
    c->durable_sent = d.durable;
    if (shard_has_masters(sh))
        member_tell(c, 0);
}

static struct mob_redis_identity identity_of(const struct conn *c)
{
    bool known = c->pid_start != 0 && !c->shard->options.forwarded;
    struct mob_redis_identity identity = {.pid = known ? c->pid : 0, .pid_start = known ? c->pid_start : 0};
    mob_callers_boot(identity.boot);
    return identity;
}

enum mob_status attach_nonce(struct conn *c, uint64_t nonce)
{
    struct attached *a = find_or_add(c->shard, nonce);
    if (a == NULL)
        return MOB_NO_MEMORY;
    a->conn = c; /* whose link broke asks again on another */
    a->nonce = true;
    return MOB_OK;
}

struct mob_redis_identity attach_opened(struct mob_shard *sh, uint64_t nonce, uint64_t client)
{
    struct mob_redis_identity identity = {0};
    struct conn *c = attach_conn(sh, nonce);
    struct attached *a = find_or_add(sh, client);
    MOB_ASSERT(a != NULL); /* its expiry is this member's to see to */
    if (c != NULL && a->conn == NULL) {
        a->conn = c;
        a->identity = identity_of(c);
    }
    return a->conn != NULL ? a->identity : identity;
}

static void remember(struct conn *c, struct attached *a)
{
    struct mob_redis_identity identity = identity_of(c);
    a->conn = c;
    a->answered = a->leaves = false;
    if (memcmp(&identity, &a->identity, sizeof identity) == 0)
        return;
    a->identity = identity;
    store_identity(c->shard, a);
}

/* It is told that it is over, and sends nothing more: who collects waits for no RESENT of it. */
static void let_go(struct conn *c, struct attached *a)
{
    a->conn = c;
    a->answered = true;
}

void attach_client(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_shard *sh = c->shard;
    struct mob_gcs_attach head;
    struct mob_gcs_attached attached;
    if (mob_gcs_attach_decode(frame->head, frame->head_bytes, &head) != MOB_OK || frame->from == 0 ||
        head.kept == 0) {
        conn_close(c, MOB_BAD_REQUEST);
        return;
    }
    struct mob_chain_stream_base bases[MOB_REDIS_BASES_MAX];
    struct mob_chain_attach event = {.client = frame->from,
        .answered = head.answered,
        .kept = head.kept,
        .wall_ns = mob_wall_now(),
        .bases = bases,
        .base_count = shard_bases(sh, bases)};
    bool late = shard_has_masters(sh) && frame->epoch != mob_chain_epoch(sh->chain);
    enum mob_status status = late ? MOB_WRONG_EPOCH : mob_chain_on_attach(sh->chain, &event, &attached);
    if (status == MOB_WRONG_EPOCH && shard_has_masters(sh)) {
        member_tell(c, frame->from);
        return;
    }
    bool known = status == MOB_OK || status == MOB_FINISHED;
    struct attached *a = known ? find_or_add(sh, frame->from) : NULL;
    if (a == NULL) {
        conn_close(c, known ? MOB_NO_MEMORY : status);
        return;
    }
    if (status == MOB_OK)
        remember(c, a);
    else
        let_go(c, a);
    serve_actions(sh);
    if (status == MOB_OK)
        conn_send(c, MOB_GCS_ATTACHED, frame->from, &attached, sizeof attached);
}

void attach_resent(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct attached *a = find(c->shard, frame->from);
    if (a != NULL && a->conn == c)
        a->answered = true;
}

/* The answer says that answers will come here, so the client may send its requests to the head. */
void attach_listen(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct attached *a = frame->from == 0 ? NULL : find_or_add(c->shard, frame->from);
    if (a == NULL) {
        conn_close(c, MOB_BAD_REQUEST);
        return;
    }
    a->conn = c;
    conn_send(c, MOB_GCS_LISTEN, frame->from, NULL, 0);
}

void attach_bye(struct conn *c, const struct mob_gcs_frame *frame)
{
    struct mob_shard *sh = c->shard;
    struct attached *a = find(sh, frame->from);
    if (a == NULL || a->conn != c || (frame->from & MOB_GCS_CLIENT_BIT) == 0)
        return;
    a->leaves = true;
    if (mob_chain_collecting(sh->chain) || mob_chain_room(sh->chain) == 0)
        return; /* attach_tick does it */
    if (mob_chain_on_internal(sh->chain, MOB_GCS_OP_EXPIRE, frame->from) == MOB_OK)
        serve_actions(sh);
}

/* ---- after a restart ---- */

enum mob_status attach_load(struct mob_shard *sh, uint64_t client, const struct mob_redis_identity *identity)
{
    struct attached *a = find_or_add(sh, client);
    if (a == NULL)
        return MOB_NO_MEMORY;
    a->identity = *identity;
    return MOB_OK;
}

static void await(void *arg, uint64_t client, uint64_t last)
{
    (void)last;
    struct mob_shard *sh = arg;
    struct attached *a = find_or_add(sh, client);
    MOB_ASSERT(a != NULL);
    a->awaited = true;
}

static void gone_since_now(void *arg, uint64_t client, uint64_t last)
{
    (void)last;
    struct mob_shard *sh = arg;
    struct attached *a = find_or_add(sh, client);
    MOB_ASSERT(a != NULL);
    if (a->conn == NULL)
        a->since_ns = sh->now_ns;
}

void attach_all(struct mob_shard *sh)
{
    mob_chain_each_client(sh->chain, gone_since_now, sh);
}

/* With masters: the chain starts from the member that has most, and what was committed is on every member of
 * its last configuration. One of them that stopped cleanly had all that it ever took on its disk, and nothing
 * was committed in that configuration afterwards. Only an operator's word may have it start from another. */
static bool has_all(const struct mob_shard *sh)
{
    return shard_has_masters(sh) && sh->clean_before == 1 && !sh->options.start_without_all;
}

/* How long for those that are in no table. They are waited for unless it is proved that there are none. */
void attach_collect_begin(struct mob_shard *sh)
{
    bool complete = has_all(sh), over = sh->callers != NULL && mob_callers_over(sh->callers);
    size_t left = 0;
    if (!complete)
        mob_chain_each_client(sh->chain, await, sh);
    for (size_t i = 0; i < sh->attached_count; i++)
        left += sh->attached[i].awaited && !over && !is_over(&sh->attached[i].identity);
    int64_t now = mob_now(), wait = complete || over ? 0 : sh->options.collect_ns; /* loading took its time */
    sh->collect_until_ns = now + wait;
    sh->collect_late_ns = now + COLLECT_LONGEST_NS;
    MOB_LOG_WARN("gcs", "collecting", "clients=%zu may_live=%zu seq=%llu wait_ms=%lld why=%s",
        mob_chain_clients(sh->chain), left, (unsigned long long)mob_chain_applied(sh->chain),
        (long long)(wait / MOB_MS),
        complete   ? "nothing-is-missing"
            : over ? "all-who-called-are-over"
                   : "others-may-come");
}

/* The history up to here is that of before; positions above belong to an epoch that is over. */
static void add_base(struct mob_shard *sh)
{
    struct mob_redis_meta *m = &sh->store.meta;
    if (m->base_count == MOB_REDIS_BASES_MAX)
        memmove(&m->bases[0], &m->bases[1], --m->base_count * sizeof m->bases[0]);
    m->bases[m->base_count++] =
        (struct mob_redis_position){mob_chain_epoch(sh->chain), mob_chain_history(sh->chain)};
}

static enum mob_status name_absent(struct mob_shard *sh)
{
    enum mob_status status = MOB_OK;
    for (size_t i = 0; i < sh->attached_count && status == MOB_OK; i++) {
        const struct attached *a = &sh->attached[i];
        if (!a->awaited || a->answered)
            continue;
        MOB_LOG_WARN(
            "gcs", "client_absent", "client=%llx pid=%d", (unsigned long long)a->client, a->identity.pid);
        status = mob_chain_collect_absent(sh->chain, a->client, mob_wall_now());
    }
    return status;
}

static void collect_end(struct mob_shard *sh)
{
    enum mob_status status = name_absent(sh);
    if (status == MOB_OK)
        status = mob_chain_collect_end(sh->chain, mob_wall_now());
    if (status != MOB_OK) {
        sh->failure = status;
        return;
    }
    if (sh->callers != NULL)
        mob_callers_vouch(sh->callers); /* who still comes is expired, or named */
    add_base(sh);
    memcpy(sh->store.meta.run_id, sh->store.run_id, sizeof sh->store.run_id);
    store_meta(sh);
    serve_actions(sh);
    /* All who were told that it collects, attached or not: until they hear otherwise they send no reads. With
     * masters member_tick says it. */
    for (struct conn *c = sh->conns; c != NULL && !shard_has_masters(sh); c = c->next)
        if (c->open && !c->closing)
            member_tell(c, 0);
    conns_resume(sh);
}

static void collect_tick(struct mob_shard *sh)
{
    if (sh->now_ns < sh->collect_until_ns)
        return;
    bool late = sh->now_ns >= sh->collect_late_ns;
    for (size_t i = 0; i < sh->attached_count; i++) {
        struct attached *a = &sh->attached[i];
        /* one that is only about to get its id keeps nothing, and gets it after this */
        bool missing = (a->awaited || a->conn != NULL) && !a->answered && !a->nonce;
        if (missing && !late && (a->conn != NULL || runs(&a->identity)))
            return;
    }
    collect_end(sh);
}

void attach_tick(struct mob_shard *sh)
{
    if (mob_chain_collecting(sh->chain)) {
        if (sh->collect_until_ns == 0) /* a configuration of this pass said so */
            attach_collect_begin(sh);
        collect_tick(sh);
        return;
    }
    if (sh->now_ns < sh->second_ns || (shard_has_masters(sh) && !mob_chain_is_head(sh->chain)))
        return;
    for (size_t i = 0; i < sh->attached_count; i++) {
        struct attached *a = &sh->attached[i];
        bool keys = (a->client & MOB_GCS_CLIENT_BIT) != 0;
        bool gone = a->leaves || (a->conn == NULL && sh->now_ns >= a->since_ns + sh->options.expire_ns);
        if (!keys || !gone || mob_chain_room(sh->chain) == 0)
            continue;
        MOB_LOG_INFO(
            "gcs", "client_expired", "client=%llx pid=%d", (unsigned long long)a->client, a->identity.pid);
        if (mob_chain_on_internal(sh->chain, MOB_GCS_OP_EXPIRE, a->client) != MOB_OK)
            return;
        serve_actions(sh); /* removes the row */
        return;
    }
}
