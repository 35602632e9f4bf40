/* ctest: timeout=300
 * Chains as processes, one named fault a run, under clients whose histories are checked (gcs_load.h): each
 * acknowledged operation is there, none twice, none invented, each key linearizable, each block once.
 *
 * Without settings: a short set, one seed each. MOBULA_CHAOS_ALL=1 all faults, MOBULA_CHAOS_FAULT=name one,
 * MOBULA_CHAOS_SEEDS=20 seeds each from MOBULA_CHAOS_SEED on; a failing one is printed.
 * MOBULA_CHAOS_AWAY_S: how long PostgreSQL is away, MOBULA_CHAOS_BUSY_S: how long the machine is full,
 * MOBULA_CHAOS_RESIDENT_MIB: how much the large members hold. With even seeds masters have their table in
 * PostgreSQL, with every third one some faults have TCP between members and masters. Faults that are not here
 * are in tests/support/faults.h.
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
#include "common/base/process.h"
#include "tests/support/faults.h"

/* ---- deaths ---- */

static void dies_by_itself(struct stage *s)
{
    stage_until(s, stage_has_died, "the failpoint was not met");
    stage_steps(s);
}

/* The writer keeps what is not durable, and sends no more than so much. */
static bool may_send_200(struct stage *s)
{
    return s->load.appended - s->load.released + 200 < 16 * (uint64_t)s->load.options.window;
}

#define TRIES 5

/* All that the head has sent waits for a tail that is stopped for less than a suspicion. False: on a slow
 * machine fewer than 100 were, and it goes on. */
static bool wait_for_stopped_tail(struct stage *s, pid_t tail)
{
    kill(tail, SIGSTOP);
    for (int64_t deadline = mob_now() + 60 * MOB_MS;
         mob_now() < deadline && s->load.appended - s->load.acked < 100;)
        gcs_load_for(&s->load, 2 * MOB_MS);
    if (s->load.appended - s->load.acked >= 100)
        return true;
    kill(tail, SIGCONT);
    return false;
}

/* Who is where is looked up each time: one that had no core for long may have been left out. */
static void middle_with_100_sent(struct stage *s)
{
    stage_pause_up_to(s, 50 * MOB_MS);
    for (int tries = 0; tries < TRIES; tries++) {
        stage_until(s, stage_is_whole, "the chain is not whole");
        stage_until(s, may_send_200, "nothing becomes durable");
        int head = stage_slot_at(s, false), tail = stage_slot_at(s, true), middle = 3 - head - tail;
        pid_t pid = s->box.member[tail].gcs;
        if (!wait_for_stopped_tail(s, pid))
            continue;
        gcs_load_for(&s->load, 5 * MOB_MS);
        stage_end_member(s, middle);
        kill(pid, SIGCONT);
        stage_steps(s);
        return;
    }
    stage_failed(s, "fewer than 100 were on their way");
}

static void joiner_dies(struct stage *s, const char *point, uint32_t passages)
{
    char text[64];
    int slot = stage_slot_at(s, gcs_load_random(&s->load) % 2 == 0);
    snprintf(text, sizeof text, "%s=kill@%u", point, 1 + (uint32_t)(s->seed % passages));
    s->box.member[slot].failpoints = text; /* of the life that joins */
    stage_end_member(s, slot);
    stage_until(s, stage_has_died, "it does not come back");
    s->deaths = 0;
    stage_until(s, stage_has_died, "the joiner does not die");
    stage_steps(s);
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
    return mob_process_is_stopped(stopped_joiner);
}

/* The joiner stops in the middle of the transfer, until the tail that streams it is dead. */
static void source_of_snapshot(struct stage *s)
{
    char text[64];
    int slot = stage_slot_at(s, gcs_load_random(&s->load) % 2 == 0);
    snprintf(text, sizeof text, "gcs.joiner_rows=stop@%u", 1 + (uint32_t)(s->seed % 3));
    s->box.member[slot].failpoints = text;
    stage_end_member(s, slot);
    stage_until(s, stage_has_died, "it does not come back");
    stopped_joiner = s->box.member[slot].gcs;
    stage_until(s, joiner_stopped, "the joiner does not get so far");
    int source = stage_slot_at(s, true);
    assert_int_not_equal(source, slot);
    stage_end_member(s, source);
    kill(stopped_joiner, SIGCONT);
    stage_steps(s);
}

/* ---- a joiner while the log is written and flushed ---- */

/* 0: it does not answer. */
static uint64_t flushed_at(struct stage *s, int slot)
{
    struct mob_gcs_stats stats = {0};
    return stage_stats(s, slot, &stats) ? stats.flushed : 0;
}

/* A member joins; how many positions were flushed from its first row to its last, as its source tells. */
static uint64_t join_under_flush(struct stage *s)
{
    char log[128];
    int slot = stage_slot_at(s, gcs_load_random(&s->load) % 2 == 0);
    struct gcs_box *joiner = &s->box.member[slot];
    snprintf(log, sizeof log, "%s/gcs.log", joiner->directory);
    uint32_t joined = stage_lines_with(log, "to=joining"), taken = stage_lines_with(log, "to=syncing");
    joiner->failpoints = "gcs.joiner_rows=delay:250"; /* a batch takes so long, and the flusher finds back */
    stage_end_member(s, slot);
    for (int64_t deadline = mob_now() + PATIENCE_NS; stage_lines_with(log, "to=joining") == joined;) {
        gcs_load_for(&s->load, 2 * MOB_MS);
        if (mob_now() > deadline)
            stage_failed(s, "it does not come back");
    }
    uint64_t before = flushed_at(s, 1 - slot);
    for (int64_t deadline = mob_now() + PATIENCE_NS; stage_lines_with(log, "to=syncing") == taken;) {
        gcs_load_for(&s->load, 2 * MOB_MS);
        stage_good(s);
        if (mob_now() > deadline)
            stage_failed(s, "it does not join");
    }
    uint64_t after = flushed_at(s, 1 - slot);
    stage_whole_again(s);
    return after > before ? after - before : 0;
}

/* Blocks gather, then a flusher takes them away while a member joins, and writes go on: what the joiner has
 * is what the others have. At the end everything is in the database, once. */
static void joiner_under_flush(struct stage *s)
{
    uint64_t meanwhile = 0;
    gcs_load_for(&s->load, 300 * MOB_MS + (int64_t)(gcs_load_random(&s->load) % (uint64_t)(300 * MOB_MS)));
    stage_start_flusher(s);
    for (int i = 0; i < 2 || (meanwhile == 0 && i < 10); i++) {
        meanwhile += join_under_flush(s);
        stage_compare_members(s);
    }
    print_message("%llu positions were flushed during joins\n", (unsigned long long)meanwhile);
    if (meanwhile == 0)
        stage_failed(s, "nothing was flushed during a join");
    stage_steps(s);
}

static void redis_comes_back_empty(struct stage *s)
{
    int slot = stage_slot_at(s, stage_draw(s));
    struct gcs_box *m = &s->box.member[slot];
    char path[128];
    glob_t found;
    stage_pause_up_to(s, 100 * MOB_MS);
    gcs_box_end(&m->redis, SIGKILL);
    snprintf(path, sizeof path, "%s/appendonlydir/*", m->directory);
    if (glob(path, 0, NULL, &found) == 0)
        for (size_t k = 0; k < found.gl_pathc; k++)
            unlink(found.gl_pathv[k]);
    globfree(&found);
    snprintf(path, sizeof path, "%s/redis.sock", m->directory);
    unlink(path);
    stage_steps(s);
}

static void both_members(struct stage *s)
{
    int first = stage_draw(s);
    stage_pause_up_to(s, 200 * MOB_MS);
    s->hold = true;
    struct timespec gap = {0, (long)(gcs_load_random(&s->load) % 5000000)};
    kill(s->box.member[first].gcs, SIGKILL);
    nanosleep(&gap, NULL);
    kill(s->box.member[1 - first].gcs, SIGKILL);
    for (int slot = 0; slot < 2; slot++)
        stage_end_member(s, slot); /* waits for the end */
    stage_nobody_is_there(s);
    s->hold = false;
    stage_steps(s);
}

/* ---- stops and partitions ---- */

static void tail_stopped(struct stage *s)
{
    pid_t tail = s->box.member[stage_slot_at(s, true)].gcs;
    bool is_long = getenv("MOBULA_CHAOS_ALL") != NULL || getenv("MOBULA_CHAOS_FAULT") != NULL;
    stage_pause_up_to(s, 100 * MOB_MS);
    kill(tail, SIGSTOP);
    stage_steps(s); /* readers, too */
    gcs_load_for(&s->load, is_long ? 5 * MOB_SEC : MOB_SEC);
    kill(tail, SIGCONT);
    stage_steps(s);
}

static struct {
    int slot;
    pid_t pid;
} cut;
static bool cut_is_alone(struct stage *s)
{
    struct chain_box_config c = chain_box_config(&s->box, 0);
    return c.members == 1 && c.head == cut.slot && s->box.member[cut.slot].gcs == cut.pid;
}
static bool cut_is_decided(struct stage *s)
{
    struct chain_box_config c = chain_box_config(&s->box, 0);
    return s->box.member[cut.slot].gcs != cut.pid || (c.head != cut.slot && c.tail != cut.slot) ||
        cut_is_alone(s);
}

/* The chain goes on without it. Unless a loaded machine had the others left out in that moment: the last one
 * never is, so nothing can go on before it is heard again. */
static void cut_off(struct stage *s, bool tail, bool mute, bool deafen)
{
    stage_until(s, stage_is_whole, "the chain is not whole before the fault");
    cut.slot = stage_slot_at(s, tail);
    cut.pid = s->box.member[cut.slot].gcs;
    stage_pause_up_to(s, 100 * MOB_MS);
    if (mute)
        fault_proxy_mute(s->proxy, cut.pid);
    if (deafen)
        fault_proxy_deafen(s->proxy, cut.pid);
    stage_until(s, cut_is_decided, "who is cut off is not left out");
    if (cut_is_alone(s)) {
        print_message("the others were left out before: nothing to show\n");
    } else {
        stage_steps(s);
        stage_pause_up_to(s, MOB_SEC);
    }
    fault_proxy_heal(s->proxy);
    stage_steps(s);
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
    cut_off(s, stage_draw(s), true, true);
}

static struct {
    int slot[2];
    pid_t pid[2];
} severed;
static bool severed_has_ended(struct stage *s)
{
    return s->box.member[severed.slot[0]].gcs != severed.pid[0] ||
        s->box.member[severed.slot[1]].gcs != severed.pid[1];
}

/* Nothing passes between these two processes, though the master hears both. So one of them has to go: that
 * which waits, or, where a loaded machine takes it for dead, the other. The next one's links are its own. */
static void sever(struct stage *s, int slot, int other)
{
    severed.slot[0] = slot;
    severed.slot[1] = other;
    for (int i = 0; i < 2; i++)
        severed.pid[i] = s->box.member[severed.slot[i]].gcs;
    fault_proxy_sever(s->proxy, severed.pid[0], severed.pid[1]);
}

/* Head and tail of three do not reach each other, which nobody notices before the middle dies: then the tail
 * waits for a SYNCEND that never comes. */
static void neighbours_are_severed(struct stage *s)
{
    int head = stage_slot_at(s, false), tail = stage_slot_at(s, true), middle = 3 - head - tail;
    sever(s, tail, head);
    stage_pause_up_to(s, 100 * MOB_MS);
    stage_end_member(s, middle);
    stage_until(s, severed_has_ended, "the tail that gets no further stays");
    stage_steps(s);
}

/* A joiner stops where it meets the failpoint, under load. Returns its slot. */
static int stop_joiner_at(struct stage *s, const char *point)
{
    int slot = stage_slot_at(s, gcs_load_random(&s->load) % 2 == 0);
    s->box.member[slot].failpoints = point; /* of the life that joins */
    stage_end_member(s, slot);
    stage_until(s, stage_has_died, "it does not come back");
    stopped_joiner = s->box.member[slot].gcs;
    stage_until(s, joiner_stopped, "the joiner does not get so far");
    stage_pause_up_to(s, 100 * MOB_MS);
    s->box.member[slot].failpoints = NULL;
    return slot;
}

/* From there on it and its source do not reach each other. */
static void joiner_severed_at(struct stage *s, const char *point)
{
    int slot = stop_joiner_at(s, point);
    sever(s, slot, 1 - slot);
    kill(stopped_joiner, SIGCONT);
    stage_until(s, severed_has_ended, "the joiner that hears nothing stays");
    stage_steps(s);
}

/* In the middle of the transfer its source says no more. */
static void joiner_is_severed(struct stage *s)
{
    char text[64];
    snprintf(text, sizeof text, "gcs.joiner_rows=stop@%u", 1 + (uint32_t)(s->seed % 3));
    joiner_severed_at(s, text);
}

/* The snapshot is whole, and what was written since does not come. */
static void log_is_severed(struct stage *s)
{
    joiner_severed_at(s, "gcs.joiner_whole=stop@1");
}

static bool joiner_has_ended(struct stage *s)
{
    return s->box.member[severed.slot[0]].gcs != severed.pid[0];
}

/* It has the snapshot and says so again and again, and hears nothing of the log, until it gives up after 5 s.
 * Clients, whose pace is a joiner's, do not wait for this one. */
static void joiner_cannot_hear(struct stage *s)
{
    severed.slot[0] = stop_joiner_at(s, "gcs.joiner_whole=stop@1");
    severed.pid[0] = stopped_joiner;
    fault_proxy_deafen(s->proxy, stopped_joiner);
    s->load.longest_ns = 0;
    kill(stopped_joiner, SIGCONT);
    stage_until(s, joiner_has_ended, "the joiner that hears nothing stays");
    fault_proxy_heal(s->proxy);
    stage_steps(s);
    assert_true(s->load.longest_ns < 4 * MOB_SEC);
}

#define HOSTILE_ROUNDS_MAX 20u /* on a slow machine less passes in each */

/* To links of the kind that this seed gives to members and masters. */
static bool each_happened(struct stage *s, struct fault_counts *c)
{
    fault_proxy_counts(s->proxy, s->over_tcp, c);
    return c->delays > 0 && c->slices > 0 && c->resets > 0 && c->corrupts > 0 && c->twices > 0 &&
        c->reorders > 0;
}

/* Every link of members, masters and clients (whose are unix sockets always). A connection that was spoiled
 * ends, and is made again. */
static void links_are_hostile(struct stage *s)
{
    static const struct fault_rates rates = {.delay = 20000,
        .slice = 50000,
        .reset = 500,
        .corrupt = 500,
        .twice = 1000,
        .reorder = 1000,
        .delay_us_max = 3000};
    struct fault_counts counts = {0};
    fault_proxy_set(s->proxy, &rates);
    for (uint32_t i = 0; i < 3 || (!each_happened(s, &counts) && i < HOSTILE_ROUNDS_MAX); i++) {
        gcs_load_for(&s->load, 700 * MOB_MS);
        gcs_load_crash_client(&s->load, i % s->load.client_count);
        stage_steps(s);
    }
    bool happened = each_happened(s, &counts);
    print_message(
        "%llu pieces over %s: %llu delayed, %llu sliced, %llu doubled, %llu reordered, %llu corrupted, %llu "
        "resets; %llu connections\n",
        (unsigned long long)counts.pieces, s->over_tcp ? "TCP" : "unix sockets",
        (unsigned long long)counts.delays, (unsigned long long)counts.slices,
        (unsigned long long)counts.twices, (unsigned long long)counts.reorders,
        (unsigned long long)counts.corrupts, (unsigned long long)counts.resets,
        (unsigned long long)counts.connections);
    assert_true(happened);
}

/* ---- the machine ---- */

/* All of it is killed, and starts again with its clock an hour off, both ways. */
static void whole_box(struct stage *s)
{
    stage_pause_up_to(s, 200 * MOB_MS);
    s->hold = true;
    for (uint32_t i = 0; i < s->box.masters; i++)
        gcs_box_end(&s->box.master[i], SIGKILL);
    for (uint32_t i = 0; i < s->box.members; i++) {
        stage_end_member(s, (int)i);
        stage_end_redis(s, (int)i);
    }
    stage_nobody_is_there(s);
    setenv("MOBULA_TEST_WALL_OFFSET_S", stage_draw(s) ? "3600" : "-3600", 1);
    s->hold = false;
    for (uint32_t i = 0; i < s->box.masters; i++)
        chain_box_start_master(&s->box, i);
    for (uint32_t i = 0; i < s->box.members; i++)
        chain_box_start_member(&s->box, i);
    stage_steps(s);
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
    {.name = "large_tail_dies", .members = 2, .run = fault_large_tail_dies, .large = true, .short_set = true},
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
    {.name = "neighbours_are_severed", .members = 3, .run = neighbours_are_severed, .proxied = true},
    {.name = "joiner_is_severed", .members = 2, .run = joiner_is_severed, .proxied = true},
    {.name = "log_is_severed", .members = 2, .run = log_is_severed, .proxied = true},
    {.name = "joiner_cannot_hear", .members = 2, .run = joiner_cannot_hear, .proxied = true},
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
    {.name = "links_are_hostile",
        .members = 3,
        .run = links_are_hostile,
        .proxied = true,
        .some_over_tcp = true,
        .short_set = true},
    {.name = "master_after_insert", .members = 2, .run = fault_master_after_insert},
    {.name = "master_inserts_late", .members = 2, .run = fault_master_inserts_late},
    {.name = "two_masters", .members = 2, .run = fault_two_masters},
    {.name = "postgres_is_away",
        .members = 2,
        .run = fault_postgres_is_away,
        .postgres = true,
        .flushed = true},
    {.name = "postgres_down_tail_dies", .members = 2, .run = fault_postgres_down_tail_dies, .postgres = true},
    {.name = "four_busy_loops", .members = 2, .run = fault_four_busy_loops},
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
