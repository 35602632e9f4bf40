/* ctest: timeout=300
 * Chains as processes, one named fault a run, under clients whose histories are checked (gcs_load.h): each
 * acknowledged operation is there, none twice, none invented, each key linearizable, each block once.
 *
 * Without settings: a short set, one seed each. MOBULA_CHAOS_ALL=1 all faults, MOBULA_CHAOS_FAULT=name one,
 * MOBULA_CHAOS_SEEDS=20 seeds each from MOBULA_CHAOS_SEED on; a failing one is printed.
 * MOBULA_CHAOS_AWAY_S: how long PostgreSQL is away, MOBULA_CHAOS_BUSY_S: how long the machine is full.
 */
#include <glob.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "gcs/client/member_link.h"
#include "tests/support/chain_box.h"
#include "tests/support/chain_compare.h"
#include "tests/support/flush_box.h"
#include "tests/support/gcs_load.h"
#include "tests/support/pg_box.h"

#define PATIENCE_NS (60 * MOB_SEC)
#define STEPS 20u

struct stage;
struct fault {
    const char *name;
    void (*run)(struct stage *s);
    /* A failpoint of the first life of the head, or of the tail, and up to which passage. */
    const char *head_point, *tail_point;
    uint32_t passages;
    uint32_t members;
    uint32_t window; /* of blocks; 0: 16 */
    bool proxied, postgres, flushed, short_set;
};
struct stage {
    const struct fault *fault;
    uint64_t seed;
    struct chain_box box;
    struct gcs_load load;
    struct fault_proxy *proxy;
    struct pg_box pg;
    pid_t flusher; /* 0: none */
    bool hold; /* what ended stays so */
    pid_t seen[CHAIN_BOX_MEMBERS_MAX];
    uint32_t deaths; /* of members */
};

/* ---- the stage ---- */

/* What has ended starts again; a failpoint is of one life. */
static void tend(void *arg)
{
    struct stage *s = arg;
    if (s->hold)
        return;
    chain_box_tend(&s->box);
    for (uint32_t i = 0; i < s->box.members; i++) {
        pid_t pid = s->box.member[i].gcs;
        if (s->seen[i] != 0 && pid != 0 && pid != s->seen[i]) {
            s->deaths++;
            s->box.member[i].failpoints = NULL;
        }
        s->seen[i] = pid != 0 ? pid : s->seen[i];
    }
}

static void failed(struct stage *s, const char *what)
{
    fail_msg("%s, seed %llu: %s (%s, %s)", s->fault->name, (unsigned long long)s->seed, what,
        s->box.directory, s->box.member[0].directory);
}

static void good(struct stage *s)
{
    if (s->load.wrong[0] != 0)
        failed(s, s->load.wrong);
}

static uint32_t lines_with(const char *path, const char *text)
{
    char line[1024];
    uint32_t count = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        count += strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return count;
}

/* The first chain has its members in the order in which the active master heard of them. */
static void start_in_order(struct stage *s, const char *head, const char *tail)
{
    char log[128];
    int64_t deadline = mob_now() + PATIENCE_NS;
    snprintf(log, sizeof log, "%s/master.0.log", s->box.directory);
    for (uint32_t i = 0; i < s->box.masters; i++)
        chain_box_start_master(&s->box, i);
    while (lines_with(log, " active ") == 0 && mob_now() < deadline)
        poll(NULL, 0, 5);
    for (uint32_t i = 0; i < s->box.members; i++) {
        s->box.member[i].failpoints = i == 0 ? head : i + 1 == s->box.members ? tail : NULL;
        chain_box_start_member(&s->box, i);
        s->box.member[i].failpoints = NULL;
        s->seen[i] = s->box.member[i].gcs;
        while (lines_with(log, "member_heard") <= i && mob_now() < deadline)
            poll(NULL, 0, 5);
    }
    if (!chain_box_wait_length(&s->box, s->box.members, deadline))
        failed(s, "the chain does not come up");
    bool in_order = s->deaths > 0 || chain_box_place(&s->box, false) == 0;
    if (!in_order)
        failed(s, "the first member is not the head");
}

static const char *point_text(struct stage *s, const char *point, char out[64])
{
    uint32_t passage = 1 + (uint32_t)(s->seed * 7919 % s->fault->passages);
    snprintf(out, 64, "%s=kill@%u", point, passage);
    return out;
}

static void stage_open(struct stage *s, const struct fault *fault, uint64_t seed)
{
    char head[64], tail[64];
    *s = (struct stage){.fault = fault, .seed = seed};
    chain_box_init(&s->box, fault->members, fault->members, "everysec");
    const char *suspicion = getenv("MOBULA_CHAOS_SUSPICION_MS");
    if (suspicion != NULL) {
        s->box.suspicion_ms = atoi(suspicion);
        s->box.lease_ms = s->box.suspicion_ms - 2;
    }
    if (fault->postgres) {
        pg_box_init(&s->pg);
        pg_box_start(&s->pg);
        s->box.postgres = s->pg.data;
    }
    if (fault->proxied) {
        s->proxy = fault_proxy_create(seed);
        chain_box_proxied(&s->box, s->proxy);
    }
    start_in_order(s, fault->head_point == NULL ? NULL : point_text(s, fault->head_point, head),
        fault->tail_point == NULL ? NULL : point_text(s, fault->tail_point, tail));
    struct gcs_load_options load = {.sockets = s->box.clients,
        .seed = seed,
        .window = fault->window == 0 ? 16 : fault->window,
        .flushed = fault->flushed,
        .tend = tend,
        .arg = s};
    gcs_load_init(&s->load, &load);
    gcs_load_steps(&s->load, STEPS, PATIENCE_NS);
    good(s);
}

static void steps(struct stage *s)
{
    gcs_load_steps(&s->load, STEPS, PATIENCE_NS);
    good(s);
}

static void pause_up_to(struct stage *s, int64_t ns)
{
    gcs_load_for(&s->load, (int64_t)(gcs_load_random(&s->load) % (uint64_t)ns));
    good(s);
}

/* Under load, until a condition holds. */
static void until(struct stage *s, bool (*holds)(struct stage *s), const char *what)
{
    for (int64_t deadline = mob_now() + PATIENCE_NS; !holds(s);) {
        if (mob_now() > deadline)
            failed(s, what);
        gcs_load_for(&s->load, 10 * MOB_MS);
        good(s);
    }
}

static bool is_whole(struct stage *s)
{
    return chain_box_wait_length(&s->box, s->box.members, mob_now() - 1);
}

static bool has_died(struct stage *s)
{
    return s->deaths > 0;
}

static void whole_again(struct stage *s)
{
    until(s, is_whole, "the chain is not whole again");
    steps(s);
}

static void check_flushed(struct stage *s);

static void stage_close(struct stage *s)
{
    if (s->proxy != NULL)
        fault_proxy_set(s->proxy, &(struct fault_rates){0});
    whole_again(s);
    gcs_load_finish(&s->load, PATIENCE_NS);
    good(s);
    if (s->flusher != 0)
        check_flushed(s);
    const struct gcs_history_verdict *v = &s->load.verdict;
    print_message("%s seed %llu: %zu operations, %zu unknown, %zu keys, %llu blocks, longest pause %lld ms, "
                  "deaths %u\n",
        s->fault->name, (unsigned long long)s->seed, v->done, v->unknown, v->keys,
        (unsigned long long)s->load.acked, (long long)(s->load.longest_ns / MOB_MS), s->deaths);
    assert_true(v->done >= 3 * STEPS && s->load.acked >= 2 * STEPS); /* else it shows nothing */
    gcs_load_fini(&s->load);
    gcs_box_end(&s->flusher, SIGKILL);
    chain_box_fini(&s->box);
    fault_proxy_destroy(s->proxy);
    if (s->fault->postgres)
        pg_box_fini(&s->pg);
}

static int slot_at(struct stage *s, bool tail)
{
    int slot = chain_box_place(&s->box, tail);
    if (slot < 0)
        failed(s, "nobody knows who is where");
    return slot;
}

static void end_member(struct stage *s, int slot)
{
    gcs_box_end(&s->box.member[slot].gcs, SIGKILL);
}

static bool is_stopped(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *state = strrchr(text, ')');
    return state != NULL && state[2] == 'T';
}

/* While nothing can be decided, whoever waits with a deadline hears so by then. */
static void asks_in_vain(struct stage *s)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    struct mob_gcs *gcs = chain_box_client(&s->box);
    struct mob_gcs_put put = {.table = MOB_GCS_KV,
        .key = "nobody",
        .key_length = 6,
        .value = "v",
        .value_length = 1,
        .if_version = MOB_GCS_ANY_VERSION};
    int64_t before = mob_now();
    enum mob_status status = mob_gcs_put(gcs, &put, mob_gcs_sync_done, &sync);
    if (status == MOB_OK)
        status = mob_gcs_sync_wait(gcs, &sync, before + 200 * MOB_MS, &result);
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(gcs);
    if (status == MOB_OK || mob_now() - before > 10 * MOB_SEC)
        failed(s, "a request to nobody was not told so in time");
}

/* ---- deaths ---- */

static void dies_by_itself(struct stage *s)
{
    until(s, has_died, "the failpoint was not met");
    steps(s);
}

/* The writer keeps what is not durable, and sends no more than so much. */
static bool may_send_200(struct stage *s)
{
    return s->load.appended - s->load.released + 200 < 16 * (uint64_t)s->load.options.window;
}

/* All that the head has sent waits for a tail that is stopped for less than a suspicion. */
static void middle_with_100_sent(struct stage *s)
{
    int head = slot_at(s, false), tail = slot_at(s, true), middle = 3 - head - tail;
    pause_up_to(s, 50 * MOB_MS);
    until(s, may_send_200, "nothing becomes durable");
    pid_t pid = s->box.member[tail].gcs;
    kill(pid, SIGSTOP);
    for (int64_t deadline = mob_now() + 60 * MOB_MS;
         mob_now() < deadline && s->load.appended - s->load.acked < 100;)
        gcs_load_for(&s->load, 2 * MOB_MS);
    uint64_t sent = s->load.appended - s->load.acked;
    gcs_load_for(&s->load, 5 * MOB_MS);
    end_member(s, middle);
    kill(pid, SIGCONT);
    if (sent < 100)
        failed(s, "fewer than 100 were on their way");
    steps(s);
}

static void joiner_dies(struct stage *s, const char *point, uint32_t passages)
{
    char text[64];
    int slot = slot_at(s, gcs_load_random(&s->load) % 2 == 0);
    snprintf(text, sizeof text, "%s=kill@%u", point, 1 + (uint32_t)(s->seed % passages));
    s->box.member[slot].failpoints = text; /* of the life that joins */
    end_member(s, slot);
    until(s, has_died, "it does not come back");
    s->deaths = 0;
    until(s, has_died, "the joiner does not die");
    steps(s);
}

static void joiner_in_transfer(struct stage *s)
{
    joiner_dies(s, "gcs.joiner_rows", 3);
}
static void joiner_before_syncend(struct stage *s)
{
    joiner_dies(s, "gcs.joiner_syncing", 1);
}

static pid_t stopped_joiner;
static bool joiner_stopped(struct stage *s)
{
    (void)s;
    return is_stopped(stopped_joiner);
}

/* The joiner stops in the middle of the transfer, until the tail that streams it is dead. */
static void source_of_snapshot(struct stage *s)
{
    char text[64];
    int slot = slot_at(s, gcs_load_random(&s->load) % 2 == 0);
    snprintf(text, sizeof text, "gcs.joiner_rows=stop@%u", 1 + (uint32_t)(s->seed % 3));
    s->box.member[slot].failpoints = text;
    end_member(s, slot);
    until(s, has_died, "it does not come back");
    stopped_joiner = s->box.member[slot].gcs;
    until(s, joiner_stopped, "the joiner does not get so far");
    int source = slot_at(s, true);
    assert_int_not_equal(source, slot);
    end_member(s, source);
    kill(stopped_joiner, SIGCONT);
    steps(s);
}

/* ---- a joiner while the log is written and flushed ---- */

/* What a serving member says; 0 when it does not answer. */
static uint64_t flushed_at(struct stage *s, int slot)
{
    struct mob_member_link *link = NULL;
    struct mob_gcs_stats stats = {0};
    if (gcs_box_member(s->box.member[slot].socket, s->box.shard, &link) != MOB_OK ||
        mob_member_stats(link, &stats) != MOB_OK)
        stats.flushed = 0;
    mob_member_close(link);
    return stats.flushed;
}

static void compare_members(struct stage *s)
{
    struct chain_compared c = chain_compare(&s->box, mob_now() + PATIENCE_NS);
    if (c.wrong[0] != 0)
        failed(s, c.wrong);
    print_message("equal at %llu: flushed up to %llu, %llu blocks left\n", (unsigned long long)c.applied,
        (unsigned long long)c.flushed, (unsigned long long)c.blocks);
}

/* A member joins; how many positions were flushed from its first row to its last, as its source tells. */
static uint64_t join_under_flush(struct stage *s)
{
    char log[128];
    int slot = slot_at(s, gcs_load_random(&s->load) % 2 == 0);
    struct gcs_box *joiner = &s->box.member[slot];
    snprintf(log, sizeof log, "%s/gcs.log", joiner->directory);
    uint32_t joined = lines_with(log, "to=joining"), taken = lines_with(log, "to=syncing");
    joiner->failpoints = "gcs.joiner_rows=delay:80"; /* a batch takes so long, and flushing goes on */
    end_member(s, slot);
    for (int64_t deadline = mob_now() + PATIENCE_NS; lines_with(log, "to=joining") == joined;) {
        gcs_load_for(&s->load, 2 * MOB_MS);
        if (mob_now() > deadline)
            failed(s, "it does not come back");
    }
    uint64_t before = flushed_at(s, 1 - slot);
    for (int64_t deadline = mob_now() + PATIENCE_NS; lines_with(log, "to=syncing") == taken;) {
        gcs_load_for(&s->load, 2 * MOB_MS);
        good(s);
        if (mob_now() > deadline)
            failed(s, "it does not join");
    }
    uint64_t after = flushed_at(s, 1 - slot);
    whole_again(s);
    return after > before ? after - before : 0;
}

/* Blocks gather, then a flusher takes them away while a member joins, and writes go on: what the joiner has
 * is what the others have. At the end everything is in the database, once. */
static void joiner_under_flush(struct stage *s)
{
    uint64_t meanwhile = 0;
    struct flush_box flush = {.gcs = &s->box.member[0],
        .pg = &s->pg,
        .sockets = s->box.clients,
        .cluster = CHAIN_BOX_CLUSTER,
        .batch_bytes = "64KiB",
        .delay_ms = "20",
        .hot_percent = "0",
        .maintain_ms = "1h"}; /* which is a client that comes and goes: positions would never stand still */
    gcs_load_for(&s->load, 300 * MOB_MS + (int64_t)(gcs_load_random(&s->load) % (uint64_t)(300 * MOB_MS)));
    s->flusher = flush_box_spawn(&flush, NULL);
    for (int i = 0; i < 2 || (meanwhile == 0 && i < 6); i++) {
        meanwhile += join_under_flush(s);
        compare_members(s);
    }
    print_message("%llu positions were flushed during joins\n", (unsigned long long)meanwhile);
    if (meanwhile == 0)
        failed(s, "nothing was flushed during a join");
    steps(s);
}

static bool all_flushed(struct stage *s, struct mob_database *db)
{
    return pg_box_number(db, "SELECT coalesce(sum(blocks), 0)::bigint FROM mobula.batch") ==
        (int64_t)s->load.appended;
}

/* After the load: each block is in the database, once. */
static void check_flushed(struct stage *s)
{
    struct mob_database *db = pg_box_open(&s->pg);
    for (int64_t deadline = mob_now() + PATIENCE_NS; !all_flushed(s, db); poll(NULL, 0, 50)) {
        chain_box_tend(&s->box);
        if (mob_now() > deadline)
            failed(s, "not everything comes to the database");
    }
    if (pg_box_number(db, "SELECT sum(specs)::bigint FROM mobula.bucket") !=
        (int64_t)(s->load.appended * GCS_LOAD_TASKS))
        failed(s, "tasks are missing in the database, or twice there");
    if (pg_box_number(db, "SELECT count(*) FROM mobula.gap") != 0)
        failed(s, "the database has a gap");
    mob_database_close(db);
    compare_members(s);
}

static void redis_comes_back_empty(struct stage *s)
{
    int slot = slot_at(s, s->seed % 2 == 0);
    struct gcs_box *m = &s->box.member[slot];
    char path[128];
    glob_t found;
    pause_up_to(s, 100 * MOB_MS);
    gcs_box_end(&m->redis, SIGKILL);
    snprintf(path, sizeof path, "%s/appendonlydir/*", m->directory);
    if (glob(path, 0, NULL, &found) == 0)
        for (size_t k = 0; k < found.gl_pathc; k++)
            unlink(found.gl_pathv[k]);
    globfree(&found);
    snprintf(path, sizeof path, "%s/redis.sock", m->directory);
    unlink(path);
    steps(s);
}

static void both_members(struct stage *s)
{
    int first = (int)(s->seed % 2);
    pause_up_to(s, 200 * MOB_MS);
    s->hold = true;
    end_member(s, first);
    struct timespec gap = {0, (long)(gcs_load_random(&s->load) % 5000000)};
    nanosleep(&gap, NULL);
    end_member(s, 1 - first);
    asks_in_vain(s);
    s->hold = false;
    steps(s);
}

/* ---- stops and partitions ---- */

static void tail_stopped(struct stage *s)
{
    pid_t tail = s->box.member[slot_at(s, true)].gcs;
    bool is_long = getenv("MOBULA_CHAOS_ALL") != NULL || getenv("MOBULA_CHAOS_FAULT") != NULL;
    pause_up_to(s, 100 * MOB_MS);
    kill(tail, SIGSTOP);
    steps(s); /* readers, too */
    gcs_load_for(&s->load, is_long ? 5 * MOB_SEC : MOB_SEC);
    kill(tail, SIGCONT);
    steps(s);
}

static void cut_off(struct stage *s, bool tail, bool mute, bool deafen)
{
    pid_t pid = s->box.member[slot_at(s, tail)].gcs;
    pause_up_to(s, 100 * MOB_MS);
    if (mute)
        fault_proxy_mute(s->proxy, pid);
    if (deafen)
        fault_proxy_deafen(s->proxy, pid);
    steps(s);
    pause_up_to(s, MOB_SEC);
    fault_proxy_heal(s->proxy);
    steps(s);
}
static void head_cannot_send(struct stage *s)
{
    cut_off(s, false, true, false);
}
static void tail_cannot_send(struct stage *s)
{
    cut_off(s, true, true, false);
}
static void head_cannot_hear(struct stage *s)
{
    cut_off(s, false, false, true);
}
static void tail_cannot_hear(struct stage *s)
{
    cut_off(s, true, false, true);
}
static void member_is_cut_off(struct stage *s)
{
    cut_off(s, s->seed % 2 == 0, true, true);
}

/* Every link of members, masters and clients. A connection that was spoiled ends, and is made again. */
static void links_are_hostile(struct stage *s)
{
    static const struct fault_rates rates = {.delay = 20000,
        .slice = 50000,
        .reset = 500,
        .corrupt = 500,
        .twice = 1000,
        .reorder = 1000,
        .delay_us_max = 3000};
    struct fault_counts counts;
    fault_proxy_set(s->proxy, &rates);
    for (int i = 0; i < 3; i++) {
        gcs_load_for(&s->load, 700 * MOB_MS);
        gcs_load_crash_client(&s->load, (uint32_t)i);
        steps(s);
    }
    fault_proxy_counts(s->proxy, &counts);
    print_message(
        "%llu pieces: %llu delayed, %llu sliced, %llu doubled, %llu reordered, %llu corrupted, %llu "
        "resets; %llu connections\n",
        (unsigned long long)counts.pieces, (unsigned long long)counts.delays,
        (unsigned long long)counts.slices, (unsigned long long)counts.twices,
        (unsigned long long)counts.reorders, (unsigned long long)counts.corrupts,
        (unsigned long long)counts.resets, (unsigned long long)counts.connections);
    assert_true(counts.corrupts > 0 && counts.slices > 0);
}

/* ---- masters ---- */

static bool standby_is_active(struct stage *s)
{
    char path[128];
    snprintf(path, sizeof path, "%s/master.1.log", s->box.directory);
    return lines_with(path, " active ") > 0;
}

static pid_t first_of_master_1;
static bool master_1_died(struct stage *s)
{
    return s->box.master[1] != 0 && s->box.master[1] != first_of_master_1;
}

/* The second master takes over, makes one epoch, and dies before it tells anybody. */
static void master_after_insert(struct stage *s)
{
    s->box.masters = 2;
    s->box.master_failpoints[1] = "master.inserted=kill@1";
    chain_box_start_master(&s->box, 1);
    s->box.master_failpoints[1] = NULL;
    first_of_master_1 = s->box.master[1];
    gcs_load_for(&s->load, 300 * MOB_MS); /* it stands by */
    kill(s->box.master[0], SIGSTOP);
    until(s, standby_is_active, "the standby does not take over");
    end_member(s, slot_at(s, s->seed % 2 == 0));
    until(s, master_1_died, "the master does not die");
    kill(s->box.master[0], SIGCONT);
    steps(s);
}

/* One is stopped for longer than its lease of the row, and goes on when the other has decided things. */
static void two_masters(struct stage *s)
{
    pid_t first = s->box.master[0];
    s->box.masters = 2;
    chain_box_start_master(&s->box, 1);
    gcs_load_for(&s->load, 300 * MOB_MS);
    kill(first, SIGSTOP);
    end_member(s, slot_at(s, s->seed % 2 == 0));
    until(s, standby_is_active, "the standby does not take over");
    steps(s);
    kill(first, SIGCONT);
    pause_up_to(s, 50 * MOB_MS);
    until(s, is_whole, "the chain is not whole again");
    end_member(s, slot_at(s, s->seed % 2 == 1));
    steps(s);
}

/* ---- the database ---- */

static int64_t seconds_of(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return (text == NULL ? otherwise : atoi(text)) * MOB_SEC;
}

static void postgres_is_away(struct stage *s)
{
    pid_t server = s->pg.pid;
    pause_up_to(s, 100 * MOB_MS);
    if (s->seed % 2 == 0)
        kill(server, SIGSTOP); /* its children go on; a new connection hangs */
    else
        pg_box_end(&s->pg, SIGKILL);
    for (int64_t end = mob_now() + seconds_of("MOBULA_CHAOS_AWAY_S", 4); mob_now() < end;) {
        steps(s); /* without leases reads go through the chain */
        gcs_load_for(&s->load, 200 * MOB_MS);
    }
    if (s->seed % 2 == 0)
        kill(server, SIGCONT);
    else
        pg_box_start(&s->pg);
    end_member(s, slot_at(s, s->seed % 3 == 0));
    steps(s);
}

/* Nothing can be decided until it is back: whoever asks is told in time, and nothing is lost. */
static void postgres_down_tail_dies(struct stage *s)
{
    pause_up_to(s, 100 * MOB_MS);
    pg_box_end(&s->pg, SIGKILL);
    gcs_load_for(&s->load, 100 * MOB_MS);
    end_member(s, slot_at(s, true));
    gcs_load_for(&s->load, 300 * MOB_MS);
    asks_in_vain(s);
    good(s);
    pg_box_start(&s->pg);
    steps(s);
}

/* ---- the machine ---- */

/* Configurations that lost a member, in all masters' logs. */
static uint32_t evictions(struct stage *s)
{
    char path[128], line[1024];
    uint32_t count = 0, before = 0, members;
    snprintf(path, sizeof path, "%s/master.0.log", s->box.directory);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, "configuration status=ok");
        if (at == NULL || sscanf(strstr(at, "members="), "members=%u", &members) != 1)
            continue;
        count += members < before;
        before = members;
    }
    if (file != NULL)
        fclose(file);
    return count;
}

static void four_busy_loops(struct stage *s)
{
    pid_t loops[4];
    int64_t time = seconds_of("MOBULA_CHAOS_BUSY_S", 3);
    for (int i = 0; i < 4; i++) {
        loops[i] = fork();
        if (loops[i] == 0)
            for (int64_t end = mob_now() + time + MOB_SEC;;)
                if (mob_now() > end) /* whatever becomes of the test */
                    _exit(0);
    }
    gcs_load_for(&s->load, time);
    for (int i = 0; i < 4; i++)
        gcs_box_end(&loops[i], SIGKILL);
    uint32_t count = evictions(s);
    print_message("%u evictions in %lld s of four busy loops\n", count, (long long)(time / MOB_SEC));
    good(s); /* each was safe */
    assert_true(count <= 1 + (uint32_t)(time / (60 * MOB_SEC)));
}

/* All of it is killed, and starts again with its clock an hour off, both ways. */
static void whole_box(struct stage *s)
{
    pause_up_to(s, 200 * MOB_MS);
    s->hold = true;
    for (uint32_t i = 0; i < s->box.masters; i++)
        gcs_box_end(&s->box.master[i], SIGKILL);
    for (uint32_t i = 0; i < s->box.members; i++) {
        end_member(s, (int)i);
        gcs_box_end(&s->box.member[i].redis, SIGKILL);
        char path[128];
        snprintf(path, sizeof path, "%s/redis.sock", s->box.member[i].directory);
        unlink(path);
    }
    asks_in_vain(s);
    setenv("MOBULA_TEST_WALL_OFFSET_S", s->seed % 2 == 0 ? "3600" : "-3600", 1);
    s->hold = false;
    for (uint32_t i = 0; i < s->box.masters; i++)
        chain_box_start_master(&s->box, i);
    for (uint32_t i = 0; i < s->box.members; i++)
        chain_box_start_member(&s->box, i);
    steps(s);
    unsetenv("MOBULA_TEST_WALL_OFFSET_S");
}

/* ---- */

static const struct fault faults[] = {
    {.name = "head_applied_not_forwarded",
        .members = 2,
        .run = dies_by_itself,
        .head_point = "gcs.after_apply",
        .passages = 2000,
        .short_set = true},
    {.name = "head_forwarded",
        .members = 2,
        .run = dies_by_itself,
        .head_point = "gcs.head_forwarded",
        .passages = 1000},
    {.name = "tail_before_reply",
        .members = 2,
        .run = dies_by_itself,
        .tail_point = "gcs.tail_before_reply",
        .passages = 1000,
        .short_set = true},
    {.name = "middle_with_100_sent",
        .members = 3,
        .run = middle_with_100_sent,
        .window = 160,
        .short_set = true},
    {.name = "tail_stopped", .members = 2, .run = tail_stopped},
    {.name = "head_cannot_send", .members = 2, .run = head_cannot_send, .proxied = true, .short_set = true},
    {.name = "tail_cannot_send", .members = 2, .run = tail_cannot_send, .proxied = true},
    {.name = "head_cannot_hear", .members = 2, .run = head_cannot_hear, .proxied = true},
    {.name = "tail_cannot_hear", .members = 2, .run = tail_cannot_hear, .proxied = true},
    {.name = "member_is_cut_off", .members = 3, .run = member_is_cut_off, .proxied = true},
    {.name = "joiner_in_transfer", .members = 2, .run = joiner_in_transfer},
    {.name = "joiner_before_syncend", .members = 2, .run = joiner_before_syncend, .short_set = true},
    {.name = "source_of_snapshot", .members = 3, .run = source_of_snapshot},
    {.name = "joiner_under_flush",
        .members = 2,
        .run = joiner_under_flush,
        .postgres = true,
        .flushed = true,
        .short_set = true},
    {.name = "redis_comes_back_empty", .members = 2, .run = redis_comes_back_empty},
    {.name = "both_members", .members = 2, .run = both_members},
    {.name = "links_are_hostile", .members = 3, .run = links_are_hostile, .proxied = true, .short_set = true},
    {.name = "master_after_insert", .members = 2, .run = master_after_insert},
    {.name = "two_masters", .members = 2, .run = two_masters},
    {.name = "postgres_is_away", .members = 2, .run = postgres_is_away, .postgres = true},
    {.name = "postgres_down_tail_dies", .members = 2, .run = postgres_down_tail_dies, .postgres = true},
    {.name = "four_busy_loops", .members = 2, .run = four_busy_loops},
    {.name = "whole_box_of_1", .members = 1, .run = whole_box},
    {.name = "whole_box_of_2", .members = 2, .run = whole_box, .short_set = true},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static void fault_runs(void **state)
{
    const struct fault *fault = *state;
    const char *count = getenv("MOBULA_CHAOS_SEEDS"), *first = getenv("MOBULA_CHAOS_SEED");
    uint64_t seed = first == NULL ? 1 : strtoull(first, NULL, 10);
    if (fault->postgres && !pg_box_available())
        skip();
    for (int i = 0; i < (count == NULL ? 1 : atoi(count)); i++) {
        static struct stage s;
        stage_open(&s, fault, seed + (uint64_t)i);
        fault->run(&s);
        stage_close(&s);
    }
}

int main(void)
{
    static struct CMUnitTest tests[FAULTS];
    size_t count = 0;
    const char *only = getenv("MOBULA_CHAOS_FAULT");
    bool all = getenv("MOBULA_CHAOS_ALL") != NULL;
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < FAULTS; i++)
        if (only != NULL ? strcmp(only, faults[i].name) == 0 : all || faults[i].short_set)
            tests[count++] = (struct CMUnitTest){.name = faults[i].name,
                .test_func = fault_runs,
                .initial_state = (void *)(uintptr_t)&faults[i]};
    if (count == 0) {
        fprintf(stderr, "no fault is called %s\n", only);
        return 2;
    }
    return _cmocka_run_group_tests("gcs_faults", tests, count, NULL, NULL);
}
