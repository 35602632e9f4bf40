/* A member of a chain with masters: what it hears from them, and what it tells them and its clients. */
#include "gcs/chain/membership.h"
#include "gcs/shard/shard_internal.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/failpoint.h"

#define HUNG_NS (100 * MOB_MS)
#define STUCK_NS (2 * MOB_SEC) /* less than the master's patience with it (MOB_MEMBERSHIP_STALL_NS) */
#define TICK_NS (1 * MOB_MS) /* while somebody waits for somebody */
#define TICK_SETTLING_NS (20 * MOB_MS) /* while only disks are behind */
#define TICK_IDLE_NS (250 * MOB_MS)

enum mob_status member_open(struct mob_shard *sh)
{
    struct mob_member *m = &sh->member;
    const struct mob_shard_chain *chain = sh->options.chain;
    if (chain == NULL)
        return MOB_OK;
    enum mob_status status = mob_link_listen(chain->link, &m->listener);
    if (status != MOB_OK)
        return status;
    /* A loop that waits for a processor does not hang: so more patience than with a member that is silent. */
    int64_t hung_ns = chain->suspicion_ns > HUNG_NS ? chain->suspicion_ns : HUNG_NS;
    struct mob_beat_options beat = {.self = &m->self,
        .master_count = chain->master_count,
        .hung_ns = hung_ns,
        .beat_ns = chain->suspicion_ns / MOB_MEMBERSHIP_BEATS};
    memcpy(beat.masters, chain->masters, sizeof chain->masters);
    status = mob_beat_create(&beat, &m->beat);
    if (status != MOB_OK)
        return status;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &m->listener};
    if (epoll_ctl(sh->epoll_fd, EPOLL_CTL_ADD, m->listener.fd, &event) != 0)
        return MOB_IO;
    event.events = EPOLLIN;
    event.data.ptr = &m->beat;
    return epoll_ctl(sh->epoll_fd, EPOLL_CTL_ADD, mob_beat_fd(m->beat), &event) == 0 ? MOB_OK : MOB_IO;
}

void member_close(struct mob_shard *sh)
{
    mob_beat_destroy(sh->member.beat);
    sh->member.beat = NULL;
    peers_fini(sh);
    snapshot_fini(sh);
}

/* ---- clients ---- */

/* The configuration with all its places; false while one is not known. */
static bool make_book(struct mob_shard *sh)
{
    struct mob_gcs_book book = {.config = *mob_chain_config(sh->chain)};
    if (book.config.epoch == 0)
        return false;
    for (uint32_t i = 0; i < book.config.count; i++)
        if (!peers_place(sh, book.config.members[i], &book.places[i]))
            return false;
    sh->member.book = book;
    return true;
}

void member_tell(struct conn *c, uint64_t client)
{
    struct mob_shard *sh = c->shard;
    const struct mob_gcs_book *book = &sh->member.book;
    struct mob_gcs_nack nack = {.epoch = mob_chain_epoch(sh->chain),
        .reason = mob_chain_collecting(sh->chain) ? MOB_AGAIN : MOB_WRONG_EPOCH,
        .members = 1};
    if (!shard_has_masters(sh)) {
        conn_send(c, MOB_GCS_NACK, client, &nack, sizeof nack);
        return;
    }
    if (book->config.epoch == 0)
        return; /* it hears when there is one */
    nack.epoch = book->config.epoch;
    nack.members = book->config.count;
    uint32_t bytes = mob_gcs_book_bytes(book);
    uint8_t *at = conn_frame_begin(c, sizeof nack, bytes);
    if (at == NULL)
        return;
    memcpy(at, &nack, sizeof nack);
    memcpy(at + sizeof nack, book, bytes);
    conn_frame_end(c, MOB_GCS_NACK, client, sizeof nack, bytes);
}

void member_refuse(struct conn *c, const struct mob_gcs_frame *frame)
{
    /* who has no id yet is told, too: 0 would be news, and no refusal */
    member_tell(c, frame->from != 0 ? frame->from : UINT64_MAX);
}

bool member_is_spare(const struct mob_shard *sh)
{
    return shard_has_masters(sh) && (mob_chain_config(sh->chain)->count != 1 || !mob_chain_synced(sh->chain));
}

bool member_is_tail(const struct mob_shard *sh)
{
    return !shard_has_masters(sh) || mob_chain_is_tail(sh->chain);
}

static void tell_clients(struct mob_shard *sh)
{
    struct mob_member *m = &sh->member;
    bool collecting = mob_chain_collecting(sh->chain);
    if (m->told_epoch == mob_chain_epoch(sh->chain) && m->was_collecting == collecting)
        return;
    if (!make_book(sh))
        return;
    m->told_epoch = m->book.config.epoch;
    m->was_collecting = collecting;
    for (struct conn *c = sh->conns; c != NULL; c = c->next)
        if (c->open && !c->closing)
            member_tell(c, 0);
}

enum mob_status member_may_answer(struct mob_shard *sh)
{
    uint64_t epoch;
    int64_t sent_ns;
    if (!shard_has_masters(sh))
        return MOB_OK;
    if (mob_beat_lease(sh->member.beat, &epoch, &sent_ns))
        mob_chain_on_lease(sh->chain, epoch, sent_ns);
    return mob_chain_may_answer(sh->chain, mob_now());
}

/* ---- states ---- */

void member_on_state(struct mob_shard *sh, enum mob_chain_state from, enum mob_chain_state to)
{
    MOB_LOG_INFO("gcs", "member", "self=%llx from=%s to=%s epoch=%llu applied=%llu",
        (unsigned long long)sh->member.self.id, mob_chain_state_name(from), mob_chain_state_name(to),
        (unsigned long long)mob_chain_epoch(sh->chain), (unsigned long long)mob_chain_applied(sh->chain));
    if (from == MOB_CHAIN_JOINING && to == MOB_CHAIN_SYNCING)
        (void)MOB_FAILPOINT("gcs.joiner_syncing");
    if (to == MOB_CHAIN_EVICTED)
        sh->failure = MOB_CANCELLED; /* the next life of this store is another member */
}

static void after_changes(struct mob_shard *sh)
{
    struct mob_member *m = &sh->member;
    bool head = mob_chain_is_head(sh->chain);
    if (head && !m->was_head)
        attach_all(sh);
    m->was_head = head;
    if (mob_chain_synced(sh->chain) && !m->told_synced && !m->disowned)
        life_set_synced(sh, true);
    tell_clients(sh);
}

/* ---- masters ---- */

/* A chain that starts again takes nothing that was sealed before, however much its node has kept. */
static void take_seals(struct mob_shard *sh, const struct mob_gcs_seal *seals, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        MOB_LOG_INFO("gcs", "sealed_before", "incarnation=%llu cut=%lld",
            (unsigned long long)seals[i].incarnation, (long long)seals[i].cut);
        enum mob_status status = mob_chain_collect_seal(sh->chain, seals[i].incarnation, seals[i].cut);
        if (status != MOB_OK)
            sh->failure = status; /* it must not serve without */
    }
}

void member_wake(struct mob_shard *sh)
{
    struct mob_member *m = &sh->member;
    struct mob_gcs_book book;
    struct mob_gcs_seal seals[MOB_GCS_SEALS_MAX];
    uint32_t seal_count;
    uint64_t epoch;
    if (mob_beat_take_book(m->beat, &book, seals, &seal_count)) {
        bool fresh = book.config.epoch > mob_chain_epoch(sh->chain);
        for (uint32_t i = 0; i < book.config.count; i++)
            peers_learn(sh, book.config.members[i], &book.places[i]);
        if (book.config.epoch > m->book_epoch)
            m->book_epoch = book.config.epoch;
        mob_chain_on_config(sh->chain, &book.config);
        if (fresh && mob_chain_collecting(sh->chain))
            take_seals(sh, seals, seal_count);
        serve_actions(sh);
    }
    struct mob_gcs_begin_anew beginning;
    if (mob_beat_take_beginning(m->beat, &beginning))
        anew_begin(sh, &beginning);
    if (mob_beat_take_enter(m->beat, &epoch)) {
        mob_chain_on_join(sh->chain, epoch);
        serve_actions(sh);
    }
}

/* What this member waits for does not come. Said once, so that what the master decides on is explained here,
 * where the links are known. */
static void watch_progress(struct mob_shard *sh)
{
    struct mob_member *m = &sh->member;
    const struct mob_gcs_config *config = mob_chain_config(sh->chain);
    uint64_t applied = mob_chain_applied(sh->chain), predecessor = 0;
    bool waits = mob_chain_state(sh->chain) == MOB_CHAIN_SYNCING;
    if (!waits || applied != m->moved_to || config->epoch != m->moved_epoch) {
        m->moved_to = applied;
        m->moved_epoch = config->epoch;
        m->moved_ns = sh->now_ns;
        m->told_stuck = false;
        return;
    }
    if (m->told_stuck || sh->now_ns - m->moved_ns < STUCK_NS)
        return;
    m->told_stuck = true;
    for (uint32_t i = 1; i < config->count; i++)
        if (config->members[i] == m->self.id)
            predecessor = config->members[i - 1];
    bool asks, hears;
    peers_links(sh, predecessor, &asks, &hears);
    MOB_LOG_WARN("gcs", "gets_no_further",
        "state=%s epoch=%llu applied=%llu predecessor=%llx link_to_it=%d link_from_it=%d for_ms=%lld",
        mob_chain_state_name(mob_chain_state(sh->chain)), (unsigned long long)config->epoch,
        (unsigned long long)applied, (unsigned long long)predecessor, asks, hears,
        (long long)((sh->now_ns - m->moved_ns) / MOB_MS));
}

void member_tick(struct mob_shard *sh)
{
    if (!shard_has_masters(sh) || sh->failure != MOB_OK)
        return;
    mob_chain_on_tick(sh->chain, sh->now_ns);
    serve_actions(sh);
    snapshot_step(sh);
    peers_tick(sh);
    watch_progress(sh);
    after_changes(sh);
    anew_tick(sh);
}

static bool alone(const struct mob_shard *sh)
{
    uint64_t joiner, lag;
    return mob_chain_state(sh->chain) == MOB_CHAIN_SERVING && mob_chain_config(sh->chain)->count == 1 &&
        !mob_chain_join(sh->chain, &joiner, &lag);
}

/* Somebody may wait for this chain, and would wait for a member of it that is dead. */
static bool busy(const struct mob_shard *sh)
{
    return !alone(sh) &&
        (sh->now_ns - sh->member.asked_ns < MOB_BEAT_HURRY_NS ||
            mob_chain_state(sh->chain) != MOB_CHAIN_SERVING ||
            mob_chain_committed(sh->chain) < mob_chain_applied(sh->chain) || sh->queries != NULL);
}

void member_publish(struct mob_shard *sh)
{
    struct mob_member *m = &sh->member;
    if (!shard_has_masters(sh))
        return;
    uint64_t joiner, lag;
    bool joins = mob_chain_join(sh->chain, &joiner, &lag);
    struct mob_gcs_report report = {.member = m->self.id,
        .epoch = mob_chain_epoch(sh->chain),
        .state = (uint8_t)mob_chain_state(sh->chain),
        .busy = busy(sh),
        .synced = mob_chain_synced(sh->chain),
        .synced_on_disk = life_on_disk(sh),
        .applied = mob_chain_applied(sh->chain),
        .committed = mob_chain_committed(sh->chain),
        .book_epoch = m->book_epoch};
    if (!mob_chain_is_tail(sh->chain) || !mob_chain_join(sh->chain, &report.joiner, &report.joiner_lag))
        report.joiner = 0;
    if (report.state == MOB_CHAIN_IDLE) {
        report.stored_epoch = m->stored_epoch;
        report.stored_seq = m->stored_seq;
        report.stored_synced = m->stored_synced;
    }
    mob_beat_publish(m->beat, &report, joins || sh->member.told_epoch != mob_chain_epoch(sh->chain));
}

int64_t member_next_ns(const struct mob_shard *sh, int64_t now_ns)
{
    enum mob_chain_state state = mob_chain_state(sh->chain);
    uint64_t joiner, lag, applied = mob_chain_applied(sh->chain);
    if (!shard_has_masters(sh))
        return INT64_MAX;
    bool moves = state == MOB_CHAIN_JOINING || state == MOB_CHAIN_SYNCING || sh->member.rows.joiner != 0 ||
        mob_chain_join(sh->chain, &joiner, &lag) ||
        (mob_chain_config(sh->chain)->count > 1 && mob_chain_committed(sh->chain) < applied) ||
        sh->member.told_epoch != mob_chain_epoch(sh->chain);
    if (moves)
        return now_ns + TICK_NS;
    bool settles = mob_chain_config(sh->chain)->count > 1 && mob_chain_durable(sh->chain) < applied;
    return now_ns + (settles ? TICK_SETTLING_NS : TICK_IDLE_NS);
}
