#include "tests/support/faults.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/process.h"

static bool standby_is_active(struct stage *s)
{
    char path[128];
    snprintf(path, sizeof path, "%s/master.1.log", s->box.directory);
    return stage_lines_with(path, " active ") > 0;
}

static pid_t first_of_master_1;
static bool master_1_died(struct stage *s)
{
    return s->box.master[1] != 0 && s->box.master[1] != first_of_master_1;
}

/* The second master takes over, makes one epoch, and dies before it tells anybody. */
void fault_master_after_insert(struct stage *s)
{
    s->box.masters = 2;
    s->box.master_failpoints[1] = "master.inserted=kill@1";
    chain_box_start_master(&s->box, 1);
    s->box.master_failpoints[1] = NULL;
    first_of_master_1 = s->box.master[1];
    gcs_load_for(&s->load, 300 * MOB_MS); /* it stands by */
    kill(s->box.master[0], SIGSTOP);
    stage_until(s, standby_is_active, "the standby does not take over");
    stage_end_member(s, stage_slot_at(s, stage_draw(s)));
    stage_until(s, master_1_died, "the master does not die");
    kill(s->box.master[0], SIGCONT);
    stage_steps(s);
}

/* One is stopped for longer than its lease of the row, and goes on when the other has decided things. */
void fault_two_masters(struct stage *s)
{
    pid_t first = s->box.master[0];
    s->box.masters = 2;
    chain_box_start_master(&s->box, 1);
    gcs_load_for(&s->load, 300 * MOB_MS);
    kill(first, SIGSTOP);
    stage_end_member(s, stage_slot_at(s, stage_draw(s)));
    stage_until(s, standby_is_active, "the standby does not take over");
    stage_steps(s);
    kill(first, SIGCONT);
    stage_pause_up_to(s, 50 * MOB_MS);
    stage_until(s, stage_is_whole, "the chain is not whole again");
    stage_end_member(s, stage_slot_at(s, !stage_draw(s)));
    stage_steps(s);
}

static bool master_1_has_stopped(struct stage *s)
{
    return mob_process_is_stopped(s->box.master[1]);
}

static bool master_1_was_overtaken(struct stage *s)
{
    char path[128];
    snprintf(path, sizeof path, "%s/master.1.log", s->box.directory);
    return stage_lines_with(path, " overtaken ") > 0;
}

/* The second one stops when it is about to make an epoch, and goes on when the first one has made it: its
 * compare-and-set finds it taken. */
void fault_master_inserts_late(struct stage *s)
{
    s->box.masters = 2;
    s->box.master_failpoints[1] = "master.before_insert=stop@1";
    chain_box_start_master(&s->box, 1);
    s->box.master_failpoints[1] = NULL;
    gcs_load_for(&s->load, 300 * MOB_MS); /* it stands by */
    kill(s->box.master[0], SIGSTOP);
    stage_until(s, standby_is_active, "the standby does not take over");
    stage_end_member(s, stage_slot_at(s, stage_draw(s)));
    stage_until(s, master_1_has_stopped, "the second master makes no epoch");
    kill(s->box.master[0], SIGCONT);
    stage_steps(s); /* with a configuration of the first one's */
    kill(s->box.master[1], SIGCONT);
    stage_until(s, master_1_was_overtaken, "the second master's epoch was not refused");
    stage_until(s, stage_is_whole, "the chain is not whole again");
    stage_end_member(s, stage_slot_at(s, !stage_draw(s)));
    stage_steps(s);
}

/* ---- the database ---- */

static bool something_is_flushed(struct stage *s)
{
    struct mob_gcs_stats stats;
    int head = chain_box_place(&s->box, false);
    return head >= 0 && stage_stats(s, head, &stats) && stats.flushed > 0;
}

/* Of a member that serves, whoever that is just now. */
static struct mob_gcs_stats stats_of_chain(struct stage *s)
{
    struct mob_gcs_stats stats = {0};
    for (int64_t deadline = mob_now() + PATIENCE_NS; !stage_stats(s, stage_slot_at(s, true), &stats);) {
        if (mob_now() > deadline)
            stage_failed(s, "no member says where it is");
        gcs_load_for(&s->load, 10 * MOB_MS);
    }
    return stats;
}

/* All of its processes are stopped, or it is killed, under a load that a flusher takes away: nothing that
 * comes meanwhile leaves the members, and all of it is in the database at the end. */
void fault_postgres_is_away(struct stage *s)
{
    bool stops = s->seed % 2 == 0 || getenv("MOBULA_CHAOS_AWAY_S") != NULL; /* the long one only stops it */
    stage_start_flusher(s);
    stage_until(s, something_is_flushed, "nothing is flushed");
    stage_pause_up_to(s, 100 * MOB_MS);
    if (stops)
        pg_box_signal_all(&s->pg, SIGSTOP);
    else
        pg_box_end_all(&s->pg, SIGKILL);
    uint64_t gone_at = stats_of_chain(s).applied;
    for (int64_t end = mob_now() + stage_seconds("MOBULA_CHAOS_AWAY_S", 4); mob_now() < end;) {
        stage_steps(s); /* without leases reads go through the chain */
        gcs_load_for(&s->load, 200 * MOB_MS);
    }
    struct mob_gcs_stats now = stats_of_chain(s);
    print_message("%s at %llu: flushed up to %llu of %llu when it comes back\n", stops ? "stopped" : "killed",
        (unsigned long long)gone_at, (unsigned long long)now.flushed, (unsigned long long)now.applied);
    if (now.flushed > gone_at || now.applied <= gone_at)
        stage_failed(s, "PostgreSQL was not away, or there was no load");
    if (stops)
        pg_box_signal_all(&s->pg, SIGCONT);
    else
        pg_box_start(&s->pg);
    stage_end_member(s, stage_slot_at(s, s->seed % 3 == 0));
    stage_steps(s);
}

/* Nothing can be decided until it is back: whoever asks is told in time, and nothing is lost. */
void fault_postgres_down_tail_dies(struct stage *s)
{
    stage_pause_up_to(s, 100 * MOB_MS);
    pg_box_end(&s->pg, SIGKILL);
    gcs_load_for(&s->load, 100 * MOB_MS);
    stage_end_member(s, stage_slot_at(s, true));
    gcs_load_for(&s->load, 300 * MOB_MS);
    stage_asks_in_vain(s);
    stage_good(s);
    pg_box_start(&s->pg);
    stage_steps(s);
}
