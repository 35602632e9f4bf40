/* What follows from how the running cluster is. Pure. */
#include <inttypes.h>
#include <string.h>

#include "cli/doctor.h"
#include "common/base/clock.h"

#define RESTARTS_MANY 3u
#define SETTLED_US (600 * 1000000ll) /* who has run for so long does not restart again and again */
#define BEHIND_MANY 100000u /* blocks */

static bool is_beside(const char *name)
{
    return strncmp(name, "postgres", 8) == 0 || strncmp(name, "flush", 5) == 0;
}

static void judge_state(const struct doctor_cluster *c, struct doctor_report *out)
{
    bool serves = c->gateway_ready, ready = strcmp(c->state.state, "ready") == 0;
    struct doctor_check *check = doctor_add(out, "cluster",
        !serves      ? DOCTOR_FAIL
            : !ready ? DOCTOR_WARN
                     : DOCTOR_OK,
        "%s, and the gateway %s at %s", c->state.state, serves ? "takes work" : "takes no work",
        c->state.address[0] != 0 ? c->state.address : "no address");
    if (check->verdict == DOCTOR_OK)
        return;
    doctor_means(check, serves ? "it works without what is not ready below" : "clients are refused");
    doctor_todo(check, "see what follows, `mobula status` and DIR/logs");
}

static void judge_process(
    const struct doctor_cluster *c, const struct cluster_process *p, struct doctor_report *out)
{
    bool waits = strcmp(p->state, "waiting") == 0, ready = strcmp(p->state, "ready") == 0;
    bool young = c->wall_us - p->started_us < SETTLED_US, again = p->restarts >= RESTARTS_MANY && young;
    struct doctor_check *check;
    if (waits || (!ready && again)) {
        check = doctor_add(out, "processes", DOCTOR_FAIL, "%s is %s after %u restarts; last: %s: %.200s",
            p->name, p->state, p->restarts, p->last_exit, p->last_line);
        doctor_means(check,
            is_beside(p->name) ? "lineage stays in memory until it is back"
                               : "what it does is not done until it stays");
        doctor_todo(check, "DIR/logs/%s.log says why", p->name);
    } else if (again) {
        check = doctor_add(out, "processes", DOCTOR_WARN,
            "%s was restarted %u times, last %" PRId64 " s ago: %s: %.200s", p->name, p->restarts,
            (c->wall_us - p->started_us) / 1000000, p->last_exit, p->last_line);
        doctor_means(check, "it does not stay: each time work stops for a moment");
        doctor_todo(check, "DIR/logs/%s.log says why", p->name);
    } else if (strcmp(p->state, CLUSTER_PROCESS_GONE) == 0) {
        check = doctor_add(
            out, "processes", DOCTOR_FAIL, "%s has ended, and the supervisor has not said so", p->name);
        doctor_means(
            check, "the supervisor is stopped, or cannot write its state: nothing may be started again");
        doctor_todo(
            check, "look for a full disk, and at the state of the supervisor; DIR/logs/supervisor.log");
    } else if (!ready) {
        check = doctor_add(out, "processes", DOCTOR_WARN, "%s is %s", p->name, p->state);
        doctor_means(
            check, is_beside(p->name) ? "lineage stays in memory until it is back" : "it is not at work yet");
        doctor_todo(check, "look again; DIR/logs/%s.log", p->name);
    }
}

static void judge_processes(const struct doctor_cluster *c, struct doctor_report *out)
{
    int before = out->count;
    uint32_t restarts = 0;
    for (int i = 0; i < c->state.count; i++) {
        judge_process(c, &c->state.processes[i], out);
        restarts += c->state.processes[i].restarts;
    }
    if (out->count == before)
        doctor_add(out, "processes", DOCTOR_OK, "%d are ready; %u restarts since the start", c->state.count,
            restarts);
}

static const char *what_store_is(const char *store)
{
    if (strcmp(store, "away") == 0)
        return "is not connected to its Redis";
    return strcmp(store, "refuses") == 0 ? "has a Redis that takes no writes (memory, or the disk is full)"
                                         : "has a Redis whose file cannot be written";
}

static void judge_member(const struct doctor_member *m, struct doctor_report *out)
{
    struct doctor_check *check;
    if (m->status != MOB_OK) {
        check = doctor_add(
            out, "members", DOCTOR_FAIL, "%s does not answer: %s", m->name, mob_status_text(m->status));
        doctor_means(check, "its chain is not whole, or it hangs");
        doctor_todo(check, "the master has it replaced; if it stays so: DIR/logs/%.*s.log",
            (int)strcspn(m->name, "."), m->name);
    } else if (m->store[0] != 0 && strcmp(m->store, "ok") != 0) {
        check = doctor_add(out, "members", DOCTOR_FAIL, "%s %s", m->name, what_store_is(m->store));
        doctor_means(check, "nothing is acknowledged by its chain meanwhile");
        doctor_todo(check, "make room on the disk and in memory; see disk-room and memory");
    } else if (strcmp(m->state, "idle") == 0) {
        check = doctor_add(out, "members", DOCTOR_WARN, "%s waits for the master's word", m->name);
        doctor_means(check, "its chain does not serve with it");
        doctor_todo(check,
            "look again in some seconds; after everything died a chain waits for each member that may have "
            "what was written last: DIR/logs/master.log names those (waits_for_members), and if their data "
            "is "
            "lost for good, mobula down, then up with --gcs-start-without-all on");
    } else if (strcmp(m->state, "serving") != 0) {
        check = doctor_add(out, "members", DOCTOR_WARN, "%s is %s", m->name, m->state);
        doctor_means(check, "its chain is not whole: another failure may stop it");
        doctor_todo(check, "look again: a joiner takes some seconds a GiB; else DIR/logs/master.log");
    } else if (m->hard_bytes > 0 && m->redis_bytes + m->member_bytes > m->soft_bytes) {
        check = doctor_add(out, "members", DOCTOR_WARN, "%s has %s in memory, above the soft cap of %s",
            m->name, doctor_bytes(m->redis_bytes + m->member_bytes), doctor_bytes(m->soft_bytes));
        doctor_means(
            check, "new roots are refused (429), above %s all new work", doctor_bytes(m->hard_bytes));
        doctor_todo(check, "see that PostgreSQL takes lineage, delete jobs, or raise --gcs-soft-bytes");
    }
}

/* What the members really have, whatever is allowed now. */
static void judge_beats(const struct doctor_member *m, struct doctor_report *out)
{
    struct realtime_times fast = realtime_times(true);
    if (m->status != MOB_OK || m->lease_ms == 0)
        return; /* alone, it sends no heartbeats */
    bool slow = m->lease_ms > fast.lease_ms, bare = !slow && !m->realtime;
    struct doctor_check *check = doctor_add(out, "heartbeats",
        bare       ? DOCTOR_FAIL
            : slow ? DOCTOR_WARN
                   : DOCTOR_OK,
        "%s: real-time %s, lease %" PRIu64 " ms, suspicion %" PRIu64 " ms", m->name,
        m->realtime ? "yes" : "no", m->lease_ms, m->suspicion_ms);
    if (bare) {
        doctor_means(
            check, "its heartbeats wait for a core for longer than that: it is left out though it lives");
        doctor_todo(check, "`mobula down` and `mobula up`, which sets the times anew");
    } else if (slow) {
        doctor_means(check, "a dead member is suspected after %" PRIu64 " ms instead of %u", m->suspicion_ms,
            fast.suspicion_ms);
        doctor_todo(check, "allow real-time priority (see realtime), then `mobula down` and `mobula up`");
    }
}

static void judge_members(
    const struct doctor_cluster *c, const struct doctor_wants *wants, struct doctor_report *out)
{
    int before = out->count, wanted = (int)(wants->shards * wants->replicas);
    for (int i = 0; i < c->member_count; i++)
        judge_member(&c->members[i], out);
    if (c->member_count < wanted) {
        struct doctor_check *check =
            doctor_add(out, "members", DOCTOR_WARN, "%d of %d members are there", c->member_count, wanted);
        doctor_means(check, "a chain is not whole: another failure may stop it");
        doctor_todo(check, "look again; then `mobula status` and DIR/logs/master.log");
    }
    if (out->count == before)
        doctor_add(out, "members", DOCTOR_OK, "all %d serve, and their Redis keep what they are given",
            c->member_count);
    for (int i = 0; i < c->member_count; i++)
        judge_beats(&c->members[i], out);
}

static void judge_postgres(const struct doctor_cluster *c, struct doctor_report *out)
{
    if (!c->postgres_silent)
        return;
    struct doctor_check *check = doctor_add(out, "postgres", DOCTOR_FAIL, "it does not answer within 2 s");
    doctor_means(
        check, "nothing is flushed, and no chain changes: when a member dies, writes wait until it is back");
    doctor_todo(
        check, "see whether it is stopped, or its disk hangs (`ps` shows T or D); DIR/logs/postgres.log");
}

static void judge_flush(
    const struct doctor_cluster *c, const struct doctor_wants *wants, struct doctor_report *out)
{
    uint64_t behind = 0;
    bool known = false;
    for (int i = 0; i < c->member_count; i++) {
        known |= c->members[i].watermark_known;
        if (c->members[i].watermark_known && c->members[i].behind > behind)
            behind = c->members[i].behind;
    }
    if (!wants->postgres || c->member_count == 0)
        return;
    struct doctor_check *check =
        doctor_add(out, "flushing", known && behind < BEHIND_MANY ? DOCTOR_OK : DOCTOR_WARN,
            known ? "PostgreSQL is %" PRIu64 " positions behind"
                  : "nobody has said how far PostgreSQL is (%" PRIu64 ")",
            behind);
    if (check->verdict == DOCTOR_OK)
        return;
    doctor_means(check, "lineage stays in memory, up to the caps");
    doctor_todo(check, "see that postgres and flush are ready; DIR/logs/flush.log");
}

void doctor_judge_cluster(
    const struct doctor_cluster *c, const struct doctor_wants *wants, struct doctor_report *out)
{
    if (!c->runs) {
        doctor_add(out, "cluster", DOCTOR_OK, "none runs there");
        return;
    }
    if (c->unreadable) {
        struct doctor_check *check =
            doctor_add(out, "cluster", DOCTOR_WARN, "a supervisor, which has not said yet what it has");
        doctor_means(check, "it is just starting");
        doctor_todo(check, "look again");
        return;
    }
    judge_state(c, out);
    judge_processes(c, out);
    judge_members(c, wants, out);
    judge_postgres(c, out);
    judge_flush(c, wants, out);
}
