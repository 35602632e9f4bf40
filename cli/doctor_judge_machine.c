/* What follows from what the machine is. Pure. */
#include <inttypes.h>
#include <string.h>

#include "cli/doctor.h"
#include "common/base/clock.h"
#include "gcs/shard/beat.h"
#include "gcs/shard/shard.h"

#define MEMORY_LEFT_MIN (512ull << 20) /* for the system, while a cluster runs */
#define MEMORY_LEFT_NONE (64ull << 20)
#define FILES_BESIDE 512u /* links of members, logs, libraries */
#define FILES_MIN 256u
#define WALL_MIN_NS (1704067200ll * MOB_SEC) /* 2024: before this program was */

static void judge_realtime(
    const struct doctor_machine *m, const struct doctor_wants *wants, struct doctor_report *out)
{
    struct realtime_times fast = realtime_times(true), slow = realtime_times(false);
    if (m->realtime) {
        doctor_add(out, "realtime", DOCTOR_OK,
            "SCHED_FIFO %d is allowed: a chain's lease is %u ms, its suspicion %u ms", MOB_BEAT_PRIORITY,
            fast.lease_ms, fast.suspicion_ms);
        return;
    }
    struct doctor_check *check = doctor_add(out, "realtime", DOCTOR_WARN,
        "SCHED_FIFO %d is not allowed (RLIMIT_RTPRIO %" PRIu64 ")", MOB_BEAT_PRIORITY, m->rtprio_limit);
    if (wants->replicas > 1)
        doctor_means(check,
            "the chain's lease is %u ms instead of %u, and a dead member is suspected after %u ms instead of "
            "%u: a fail-over takes that much longer",
            slow.lease_ms, fast.lease_ms, slow.suspicion_ms, fast.suspicion_ms);
    else
        doctor_means(check,
            "nothing for a control store of one member; one of several suspects after %u ms "
            "instead of %u",
            slow.suspicion_ms, fast.suspicion_ms);
    doctor_todo(check, "allow it: `ulimit -r %d`, LimitRTPRIO=%d in a systemd unit, or CAP_SYS_NICE",
        MOB_BEAT_PRIORITY, MOB_BEAT_PRIORITY);
}

static void judge_cores(
    const struct doctor_machine *m, const struct doctor_wants *wants, struct doctor_report *out)
{
    bool alone = m->cores < 2 && wants->replicas > 1, crowded = wants->slots > 2 * m->cores;
    struct doctor_check *check = doctor_add(out, "cores", alone || crowded ? DOCTOR_WARN : DOCTOR_OK,
        "%" PRIu64 " cores for %" PRIu64 " slots", m->cores, wants->slots);
    if (alone) {
        doctor_means(check, "members of a chain wait for each other's core, and a busy one may look dead");
        doctor_todo(check, "use two cores, or --gcs-replicas 1 in a new directory");
    } else if (crowded) {
        doctor_means(check, "tasks that compute share cores, and the control store waits behind them");
        doctor_todo(check, "--slots %" PRIu64 ", unless tasks mostly wait", m->cores);
    }
}

/* Each member of each chain has its own copy. */
static uint64_t store_bytes(const struct doctor_wants *wants, uint64_t each)
{
    return each * wants->shards * wants->replicas;
}

static void judge_memory(
    const struct doctor_machine *m, const struct doctor_wants *wants, struct doctor_report *out)
{
    struct doctor_check *check;
    if (wants->runs) {
        enum doctor_verdict verdict = m->available_bytes < MEMORY_LEFT_NONE ? DOCTOR_FAIL
            : m->available_bytes < MEMORY_LEFT_MIN                          ? DOCTOR_WARN
                                                                            : DOCTOR_OK;
        check = doctor_add(out, "memory", verdict, "%s of %s are free while it runs",
            doctor_bytes(m->available_bytes), doctor_bytes(m->memory_bytes));
    } else {
        uint64_t soft = store_bytes(wants, wants->soft_bytes), hard = store_bytes(wants, wants->hard_bytes);
        enum doctor_verdict verdict = wants->segment_bytes > m->memory_bytes ? DOCTOR_FAIL
            : wants->segment_bytes + soft > m->available_bytes               ? DOCTOR_WARN
                                                                             : DOCTOR_OK;
        check = doctor_add(out, "memory", verdict,
            "%s of %s are free; the segment may take %s, and the control store %s (at most %s)",
            doctor_bytes(m->available_bytes), doctor_bytes(m->memory_bytes),
            doctor_bytes(wants->segment_bytes), doctor_bytes(soft), doctor_bytes(hard));
    }
    if (check->verdict == DOCTOR_OK)
        return;
    doctor_means(check, "what fills up is ended by the kernel before the caps refuse work");
    doctor_todo(check, "free memory, or lower --segment-bytes, --gcs-soft-bytes and --gcs-hard-bytes");
}

static void judge_files(
    const struct doctor_machine *m, const struct doctor_wants *wants, struct doctor_report *out)
{
    uint64_t node = wants->blocked_max + wants->slots, member = MOB_SHARD_CONNECTIONS_MAX;
    uint64_t wanted = FILES_BESIDE + (node > member ? node : member);
    enum doctor_verdict verdict = m->files_soft < FILES_MIN ? DOCTOR_FAIL
        : m->files_soft < wanted                            ? DOCTOR_WARN
                                                            : DOCTOR_OK;
    struct doctor_check *check = doctor_add(out, "descriptors", verdict,
        "%" PRIu64 " of at most %" PRIu64 " for each process, and %" PRIu64 " are used under full load",
        m->files_soft, m->files_hard, wanted);
    if (verdict == DOCTOR_OK)
        return;
    doctor_means(
        check, verdict == DOCTOR_FAIL ? "processes do not start" : "who connects under load is sent away");
    doctor_todo(
        check, "`ulimit -n %" PRIu64 "`, or LimitNOFILE=%" PRIu64 " in a systemd unit", wanted, wanted);
}

static void judge_segment(
    const struct doctor_machine *m, const struct doctor_wants *wants, struct doctor_report *out)
{
    if (m->segment_errno == 0) {
        doctor_add(out, "shared-memory", DOCTOR_OK, "a sealed memfd of %s can be made",
            doctor_bytes(wants->segment_bytes));
        return;
    }
    struct doctor_check *check =
        doctor_add(out, "shared-memory", DOCTOR_FAIL, "a sealed memfd of %s cannot be made: %s: %s",
            doctor_bytes(wants->segment_bytes), m->segment_step, strerror(m->segment_errno));
    doctor_means(check, "the node does not start");
    doctor_todo(
        check, "allow memfd_create in this container (kernel 4.14 or newer), or lower --segment-bytes");
}

static void judge_kernel(const struct doctor_machine *m, struct doctor_report *out)
{
    if (m->kernel_lacks == NULL) {
        doctor_add(
            out, "kernel", DOCTOR_OK, "/proc, peers' credentials, eventfd, signalfd and close_range work");
        return;
    }
    struct doctor_check *check = doctor_add(out, "kernel", DOCTOR_FAIL, "no %s", m->kernel_lacks);
    doctor_means(check, "processes cannot tell each other apart, or do not start");
    doctor_todo(check, "mount /proc, and allow it in this container (kernel 5.9 or newer)");
}

static void judge_clock(const struct doctor_machine *m, struct doctor_report *out)
{
    bool sane = m->mono_step_ns >= 0 && m->boot_step_ns >= 0 && m->boot_minus_mono_ns >= -MOB_MS;
    bool coarse = m->resolution_ns > MOB_MS, early = m->wall_ns < WALL_MIN_NS;
    struct doctor_check *check = doctor_add(out, "clock",
        !sane                 ? DOCTOR_FAIL
            : coarse || early ? DOCTOR_WARN
                              : DOCTOR_OK,
        "monotonic +%" PRId64 " ns, boot time +%" PRId64 " ns between two readings; steps of %" PRId64
        " ns; suspended for %" PRId64 " s",
        m->mono_step_ns, m->boot_step_ns, m->resolution_ns, (int64_t)(m->boot_minus_mono_ns / MOB_SEC));
    if (!sane) {
        doctor_means(check, "a clock that goes back makes leases worthless: reads may be old");
        doctor_todo(check, "another clock source (/sys/devices/system/clocksource), or another machine");
    } else if (coarse) {
        doctor_means(check, "leases and heartbeats are of a few milliseconds");
        doctor_todo(check, "another clock source (/sys/devices/system/clocksource)");
    } else if (early) {
        doctor_means(check, "the wall clock is before 2024: times of tasks, and retention, are wrong");
        doctor_todo(check, "set the clock");
    }
}

void doctor_judge_machine(
    const struct doctor_machine *m, const struct doctor_wants *wants, struct doctor_report *out)
{
    judge_realtime(m, wants, out);
    judge_cores(m, wants, out);
    judge_memory(m, wants, out);
    judge_files(m, wants, out);
    judge_segment(m, wants, out);
    judge_kernel(m, out);
    judge_clock(m, out);
}
