#include "cli/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/replicas.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_value.h"

/* While somebody is not ready: first often, since a start takes some 100 ms, then at leisure. */
enum { WATCH_FAST_MS = 3, WATCH_SLOW_MS = 100 };
#define WATCH_FAST_NS (3 * MOB_SEC)
#define POSTGRES_PATIENCE_NS (3 * MOB_SEC)
#define WAITED_NS (20 * MOB_SEC) /* who ends after this waited for somebody: a node does for 30 s */

/* Patience with a graceful stop, and with sealing; together below 2 s. Those that stop beside the others have
 * the whole time. */
static const uint64_t patience_ms[SUPERVISED_COUNT] = {
    [SUPERVISED_POSTGRES] = 1850,
    [SUPERVISED_FLUSH] = 1850,
    [SUPERVISED_REDIS] = 250,
    [SUPERVISED_GCS] = 300,
    [SUPERVISED_MASTER] = 200,
    [SUPERVISED_NODE] = 750,
    [SUPERVISED_GATEWAY] = 350,
};
/* What asks for a graceful stop: PostgreSQL would wait for its clients to leave by themselves at a SIGTERM.
 */
static const int stop_signal[SUPERVISED_COUNT] = {
    [SUPERVISED_POSTGRES] = SIGINT,
    [SUPERVISED_FLUSH] = SIGTERM,
    [SUPERVISED_REDIS] = SIGTERM,
    [SUPERVISED_GCS] = SIGTERM,
    [SUPERVISED_MASTER] = SIGTERM,
    [SUPERVISED_NODE] = SIGTERM,
    [SUPERVISED_GATEWAY] = SIGTERM,
};
enum { SEAL_PATIENCE_MS = 200 };

static void set_state(struct process *process, enum process_state state);
static void stop_next(struct supervisor *supervisor);
static bool seal_before_down(struct process *node);
static void watch(struct supervisor *supervisor);

/* ---- states ---- */

static bool legal(enum process_state from, enum process_state to)
{
    static const unsigned next[] = {
        [PROCESS_DOWN] = 1u << PROCESS_STARTING | 1u << PROCESS_SEALING | 1u << PROCESS_PREPARING,
        [PROCESS_PREPARING] =
            1u << PROCESS_STARTING | 1u << PROCESS_WAITING | 1u << PROCESS_STOPPING | 1u << PROCESS_DOWN,
        [PROCESS_SEALING] = 1u << PROCESS_STARTING | 1u << PROCESS_DOWN | 1u << PROCESS_WAITING,
        [PROCESS_STARTING] =
            1u << PROCESS_READY | 1u << PROCESS_WAITING | 1u << PROCESS_STOPPING | 1u << PROCESS_DOWN,
        [PROCESS_READY] = 1u << PROCESS_WAITING | 1u << PROCESS_STOPPING | 1u << PROCESS_DOWN,
        [PROCESS_WAITING] =
            1u << PROCESS_STARTING | 1u << PROCESS_SEALING | 1u << PROCESS_PREPARING | 1u << PROCESS_DOWN,
        [PROCESS_STOPPING] = 1u << PROCESS_DOWN | 1u << PROCESS_SEALING,
    };
    return (next[from] & 1u << to) != 0;
}

static void set_state(struct process *process, enum process_state state)
{
    MOB_ASSERT(legal(process->state, state));
    MOB_LOG_DEBUG("supervisor", "state", "process=%s from=%s to=%s", process_name(process->which),
        process_state_name(process->state), process_state_name(state));
    process->state = state;
}

static void give_up(struct supervisor *supervisor, const struct process *process)
{
    if (supervisor->stopping)
        return;
    supervisor->failed = true;
    MOB_LOG_ERROR("supervisor", "gave_up", "process=%s deaths=%u", process_name(process->which),
        process->unready_deaths);
    snprintf(supervisor->failure, sizeof supervisor->failure, "%s does not start (%s): %s; its log is %s",
        process_name(process->which), process->last_exit, process->last_line, process->log.path);
    stop_next(supervisor);
}

/* ---- starting ---- */

static void on_pause_over(uv_timer_t *timer)
{
    process_start(timer->data);
}

static void wait_and_start(struct process *process)
{
    uint32_t pause_ms = backoff_after_death(&process->backoff, mob_now() - process->started_ns);
    set_state(process, PROCESS_WAITING);
    MOB_LOG_WARN("supervisor", "restarting", "process=%s in_ms=%u restarts=%u", process_name(process->which),
        pause_ms, process->starts);
    uv_timer_start(&process->timer, on_pause_over, pause_ms, 0);
}

static void not_started(struct process *process)
{
    snprintf(process->last_exit, sizeof process->last_exit, "not started");
    MOB_LOG_ERROR("supervisor", "not_started", "process=%s why=\"%s\"", process_name(process->which),
        MOB_LOG_VALUE(process->last_line));
    process->started_ns = mob_now();
    wait_and_start(process);
}

/* initdb, the first time. */
static void prepare_postgres(struct process *process)
{
    set_state(process, PROCESS_PREPARING);
    if (postgres_prepare(process) != MOB_OK || process_spawn(process) != MOB_OK)
        not_started(process);
}

static void launch(struct process *process)
{
    set_state(process, PROCESS_STARTING);
    memcpy(process->last_words, process->last_line, sizeof process->last_words);
    process->last_line[0] = '\0';
    if (process->which == SUPERVISED_POSTGRES && postgres_configure(process) != MOB_OK) {
        not_started(process);
        return;
    }
    /* A gateway keeps its address, so that clients find it again, unless somebody else has taken it
     * meanwhile. */
    if (process->which == SUPERVISED_GATEWAY && process->unready_exits >= SUPERVISOR_ADDRESS_FAILURES)
        snprintf(process->supervisor->listen, sizeof process->supervisor->listen, "%s",
            mob_setting_text(process->supervisor->settings, MOB_SETTING_LISTEN));
    if (process_spawn(process) != MOB_OK) {
        not_started(process);
        return;
    }
    MOB_LOG_INFO(
        "supervisor", "started", "process=%s pid=%d", process_name(process->which), (int)process->pid);
    watch(process->supervisor);
}

static void on_sealed(struct node_seal *seal)
{
    struct supervisor *supervisor = (struct supervisor *)((char *)seal - offsetof(struct supervisor, seal));
    struct process *node = &supervisor->processes[SUPERVISED_NODE];
    MOB_LOG_INFO("supervisor", "node_logs_sealed", "incarnations=%u", seal->sealed_count);
    if (node->state != PROCESS_SEALING)
        return;
    if (supervisor->stopping) {
        uv_timer_stop(&node->timer);
        set_state(node, PROCESS_DOWN);
        stop_next(supervisor);
        return;
    }
    launch(node);
    supervisor_write_status(supervisor);
}

/* For the node: what its last process has logged is closed. False: not now, for want of memory. */
static bool seal(struct process *node)
{
    struct supervisor *supervisor = node->supervisor;
    set_state(node, PROCESS_SEALING);
    return supervisor->seal.gcs != NULL || /* at it already */
        node_seal_start(&supervisor->seal, &supervisor->loop,
            &(struct node_seal_options){supervisor->directory, supervisor->gcs_addresses}, on_sealed);
}

/* A node may leave an incarnation behind only if the control store has been there before. */
static bool has_history(const struct supervisor *supervisor)
{
    char path[STATE_PATH_MAX];
    return supervisor->processes[SUPERVISED_NODE].starts > 0 ||
        access(state_path(supervisor->directory, STATE_GCS_DIR_NAME "/appendonlydir", path), F_OK) == 0;
}

void process_start(struct process *process)
{
    struct supervisor *supervisor = process->supervisor;
    if (process->which == SUPERVISED_POSTGRES && !postgres_is_made(supervisor)) {
        prepare_postgres(process);
    } else if (process->which != SUPERVISED_NODE || chain_has_masters(supervisor) ||
        !has_history(supervisor)) {
        launch(process);
    } else if (!seal(process)) {
        snprintf(process->last_line, sizeof process->last_line, "its log cannot be sealed: out of memory");
        process->started_ns = mob_now();
        wait_and_start(process);
    }
    supervisor_write_status(supervisor);
}

/* ---- readiness ---- */

static void became_ready(struct process *process)
{
    struct supervisor *supervisor = process->supervisor;
    char path[STATE_PATH_MAX], address[sizeof supervisor->listen];
    set_state(process, PROCESS_READY);
    supervisor->stale = true;
    process->unready_deaths = process->unready_exits = 0;
    MOB_LOG_INFO("supervisor", "ready", "process=%s pid=%d after_ms=%lld", process_name(process->which),
        (int)process->pid, (long long)((mob_now() - process->started_ns) / MOB_MS));
    for (int i = SUPERVISED_FLUSH; process->which == SUPERVISED_POSTGRES && i < SUPERVISED_REDIS; i++)
        if (supervisor->processes[i].enabled && supervisor->processes[i].state == PROCESS_DOWN)
            process_start(&supervisor->processes[i]);
    if (process->which == SUPERVISED_GATEWAY &&
        state_read_line(
            state_path(supervisor->directory, STATE_ADDRESS_NAME, path), address, sizeof address) == MOB_OK)
        memcpy(supervisor->listen, address, sizeof address);
}

/* PostgreSQL and the flusher: nobody waits for them. */
static bool process_stands_beside(enum supervised which)
{
    return which < SUPERVISED_REDIS;
}

bool supervisor_serves(const struct supervisor *supervisor)
{
    for (int i = 0; i < SUPERVISED_COUNT; i++)
        if (!process_stands_beside((enum supervised)i) && supervisor->processes[i].enabled &&
            supervisor->processes[i].state != PROCESS_READY)
            return false;
    return true;
}

static bool all_ready(const struct supervisor *supervisor)
{
    for (int i = 0; i < SUPERVISED_COUNT; i++)
        if (supervisor->processes[i].enabled && supervisor->processes[i].state != PROCESS_READY)
            return false;
    return true;
}

static void look(struct supervisor *supervisor);

static void on_probed(struct ready_probe *probe, bool ready)
{
    struct supervisor *supervisor = probe->arg;
    struct process *gateway = &supervisor->processes[SUPERVISED_GATEWAY];
    if (!ready || gateway->state != PROCESS_STARTING)
        return;
    became_ready(gateway);
    look(supervisor);
}

static void became_of_service(struct supervisor *supervisor)
{
    supervisor->was_ready = true;
    MOB_LOG_INFO("supervisor", "cluster_ready", "address=%s after_ms=%lld", supervisor->listen,
        (long long)((mob_now() - supervisor->started_ns) / MOB_MS));
    if (replicas_record(supervisor->directory, supervisor->replicas) != MOB_OK)
        MOB_LOG_WARN("supervisor", "not_recorded", "replicas=%u", supervisor->replicas);
}

static void look(struct supervisor *supervisor)
{
    for (int i = 0; i < SUPERVISED_COUNT; i++) {
        struct process *process = &supervisor->processes[i];
        char path[STATE_PATH_MAX], address[64];
        if (process->state != PROCESS_STARTING || !process_made_its_file(process))
            continue;
        if (process->which != SUPERVISED_GATEWAY) {
            became_ready(process);
        } else if (!supervisor->probe.busy &&
            state_read_line(state_path(supervisor->directory, STATE_ADDRESS_NAME, path), address,
                sizeof address) == MOB_OK) {
            ready_probe_start(&supervisor->probe, &supervisor->loop, address, on_probed);
        }
    }
    if (all_ready(supervisor))
        uv_timer_stop(&supervisor->watch);
    bool serves = supervisor_serves(supervisor);
    if (serves && !supervisor->was_ready)
        became_of_service(supervisor);
    if (supervisor->stale)
        supervisor_write_status(supervisor);
    if (serves)
        supervisor_notify(supervisor, "ready");
}

static void on_watch(uv_timer_t *timer)
{
    struct supervisor *supervisor = timer->data;
    look(supervisor);
    if (uv_is_active((uv_handle_t *)timer) && uv_timer_get_repeat(timer) == WATCH_FAST_MS &&
        mob_now() - supervisor->watch_since_ns > WATCH_FAST_NS)
        uv_timer_start(timer, on_watch, WATCH_SLOW_MS, WATCH_SLOW_MS);
}

static void watch(struct supervisor *supervisor)
{
    supervisor->watch_since_ns = mob_now();
    uv_timer_start(&supervisor->watch, on_watch, WATCH_FAST_MS, WATCH_FAST_MS);
}

/* ---- the end of a process ---- */

/* A process that was to stop runs no more: go on with the next. */
static void stopped(struct process *process)
{
    MOB_LOG_INFO("supervisor", "ended", "process=%s %s", process_name(process->which), process->last_exit);
    if (process_stands_beside(process->which) && !process->supervisor->only_beside_left) {
        set_state(process, PROCESS_DOWN); /* before the others: nobody waits for it */
        return;
    }
    if (process->which == SUPERVISED_NODE && seal_before_down(process))
        return;
    set_state(process, PROCESS_DOWN);
    stop_next(process->supervisor);
}

/* What a node says when its log is acknowledged: after that it only gives memory back. */
static bool said_its_last_word(const struct process *process)
{
    return process->which == SUPERVISED_NODE && strstr(process->last_line, " node stopped ") != NULL &&
        strstr(process->last_line, " log=acknowledged") != NULL;
}

/* Killed, it runs no more, though the kernel may take seconds to free a large segment: that is not waited
 * for. */
static void on_patience_over(uv_timer_t *timer)
{
    struct process *process = timer->data;
    if (said_its_last_word(process))
        MOB_LOG_INFO("supervisor", "left", "process=%s pid=%d while=\"its memory is given back\"",
            process_name(process->which), (int)process->pid);
    else
        MOB_LOG_WARN("supervisor", "killed", "process=%s pid=%d why=\"did not stop in time\"",
            process_name(process->which), (int)process->pid);
    kill(-process->pid, SIGKILL);
    snprintf(process->last_exit, sizeof process->last_exit, "killed");
    process->pid = 0;
    stopped(process);
}

static void on_seal_patience_over(uv_timer_t *timer)
{
    struct process *node = timer->data;
    MOB_LOG_WARN("supervisor", "not_sealed", "why=\"no answer in time\"");
    node_seal_stop(&node->supervisor->seal);
    set_state(node, PROCESS_DOWN);
    stop_next(node->supervisor);
}

/* A log that is closed now need not be waited for when the cluster starts again. */
static bool seal_before_down(struct process *node)
{
    if (chain_has_masters(node->supervisor) || /* it has told its master that it leaves */
        node->supervisor->processes[SUPERVISED_GCS].state != PROCESS_READY || !seal(node))
        return false;
    uv_timer_start(&node->timer, on_seal_patience_over, SEAL_PATIENCE_MS, 0);
    return true;
}

/* What is flushed is committed already, and the rest is in the control store, so they can leave while the
 * others do. */
static void stop_beside(struct process *process)
{
    uv_timer_stop(&process->timer);
    if (process->pid == 0) {
        if (process->state != PROCESS_DOWN)
            set_state(process, PROCESS_DOWN);
        return;
    }
    set_state(process, PROCESS_STOPPING);
    kill(process->pid, stop_signal[process_kind(process->which)]);
}

static void await_beside(struct process *process)
{
    struct supervisor *supervisor = process->supervisor;
    int64_t gone_ms = (mob_now() - supervisor->stop_began_ns) / MOB_MS,
            left_ms = (int64_t)patience_ms[process_kind(process->which)] - gone_ms;
    supervisor->only_beside_left = true;
    uv_timer_start(&process->timer, on_patience_over, left_ms < 0 ? 0 : (uint64_t)left_ms, 0);
}

/* True when it takes time, and stop_next comes again. */
static bool stop_one(struct process *process)
{
    uv_timer_stop(&process->timer);
    if (process->state == PROCESS_SEALING) {
        uv_timer_start(&process->timer, on_seal_patience_over, SEAL_PATIENCE_MS, 0);
        return true;
    }
    if (process->pid == 0) {
        set_state(process, PROCESS_DOWN);
        return false;
    }
    set_state(process, PROCESS_STOPPING);
    kill(process->pid, stop_signal[process_kind(process->which)]);
    uv_timer_start(&process->timer, on_patience_over, patience_ms[process_kind(process->which)], 0);
    supervisor_write_status(process->supervisor);
    return true;
}

static bool masters_have_left(const struct supervisor *supervisor)
{
    for (int i = SUPERVISED_MASTER; i < SUPERVISED_NODE; i++)
        if (supervisor->processes[i].state != PROCESS_DOWN)
            return false;
    return true;
}

/* A master gives its mastership back in PostgreSQL when it leaves, and the next one, which would wait for the
 * old one's time to run out otherwise, begins at once: so PostgreSQL stays until the masters are gone. */
static void stop_those_beside(struct supervisor *supervisor)
{
    for (int i = 0; process_stands_beside((enum supervised)i); i++) {
        struct process *process = &supervisor->processes[i];
        if (process->state != PROCESS_DOWN && process->state != PROCESS_STOPPING &&
            (i != SUPERVISED_POSTGRES || masters_have_left(supervisor)))
            stop_beside(process);
    }
}

static void stop_next(struct supervisor *supervisor)
{
    bool left = false;
    if (!supervisor->stopping)
        supervisor->stop_began_ns = mob_now();
    supervisor->stopping = true;
    stop_those_beside(supervisor);
    uv_timer_stop(&supervisor->watch);
    for (int i = SUPERVISED_COUNT; --i >= SUPERVISED_REDIS;)
        if (supervisor->processes[i].state != PROCESS_DOWN && stop_one(&supervisor->processes[i]))
            return;
    stop_those_beside(supervisor);
    for (int i = 0; process_stands_beside((enum supervised)i); i++)
        if (supervisor->processes[i].state != PROCESS_DOWN) {
            await_beside(&supervisor->processes[i]);
            left = true;
        }
    if (left)
        return;
    MOB_LOG_INFO("supervisor", "stopped", "pid=%d", (int)getpid());
    uv_stop(&supervisor->loop);
}

static void describe_exit(struct process *process, const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED)
        snprintf(process->last_exit, sizeof process->last_exit, "exit status %d", info->si_status);
    else
        snprintf(process->last_exit, sizeof process->last_exit, "signal %d (%s)", info->si_status,
            sigabbrev_np(info->si_status) ? sigabbrev_np(info->si_status) : "?");
}

/* The data directory is made. False: it is not, as after any other death. */
static bool prepared(struct process *process, const siginfo_t *info)
{
    if (process->state != PROCESS_PREPARING || process->supervisor->stopping)
        return false;
    if (info->si_code != CLD_EXITED || info->si_status != 0 || postgres_prepared(process) != MOB_OK)
        return false;
    MOB_LOG_INFO("supervisor", "prepared", "process=%s after_ms=%lld", process_name(process->which),
        (long long)((mob_now() - process->started_ns) / MOB_MS));
    process->last_exit[0] = '\0'; /* that was another program's */
    launch(process);
    supervisor_write_status(process->supervisor);
    return true;
}

/* Masters have their table in PostgreSQL, so nothing is ready without it. What a killed one has left in
 * memory may keep the next from starting for a moment, so it has some time besides its tries. */
static bool is_hopeless(const struct process *process)
{
    const struct supervisor *supervisor = process->supervisor;
    bool waited_for = !process_stands_beside(process->which) ||
        (process->which == SUPERVISED_POSTGRES && chain_has_masters(supervisor) &&
            mob_now() - supervisor->started_ns > POSTGRES_PATIENCE_NS);
    return !supervisor->was_ready && waited_for && process->unready_deaths >= SUPERVISOR_FAILURES_MAX;
}

/* It ended because what it needs is not there yet: a control store that waits for a member, or for
 * PostgreSQL. That may last, and is no reason to end those that wait with it. */
static bool waited_for_others(const struct process *process)
{
    bool needs = process->which == SUPERVISED_NODE || process->which == SUPERVISED_GATEWAY;
    return needs && mob_now() - process->started_ns > WAITED_NS;
}

static void ended(struct process *process, const siginfo_t *info)
{
    struct supervisor *supervisor = process->supervisor;
    describe_exit(process, info);
    uv_timer_stop(&process->timer);
    process->pid = 0;
    if (process->state == PROCESS_STOPPING) {
        stopped(process);
        return;
    }
    if (prepared(process, info))
        return;
    MOB_LOG_ERROR("supervisor", "died", "process=%s how=\"%s\" lived_ms=%lld last_line=\"%s\"",
        process_name(process->which), MOB_LOG_VALUE(process->last_exit),
        (long long)((mob_now() - process->started_ns) / MOB_MS), MOB_LOG_VALUE(process->last_line));
    if (supervisor->stopping) {
        set_state(process, PROCESS_DOWN);
        return;
    }
    if (process->state == PROCESS_STARTING || process->state == PROCESS_PREPARING) {
        process->unready_deaths += !waited_for_others(process);
        process->unready_exits += info->si_code == CLD_EXITED;
    }
    process_remove_its_file(process);
    wait_and_start(process);
    supervisor_write_status(supervisor);
    if (is_hopeless(process))
        give_up(supervisor, process);
}

void supervisor_reap(struct supervisor *supervisor)
{
    siginfo_t info = {0};
    /* Looked at first and taken after: while it is a zombie its number, and its group's, are nobody else's.
     */
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        pid_t pid = info.si_pid;
        for (int i = 0; i < SUPERVISED_COUNT; i++)
            if (supervisor->processes[i].pid == pid)
                kill(-pid, SIGKILL);
        waitpid(pid, NULL, 0);
        for (int i = 0; i < SUPERVISED_COUNT; i++) {
            if (supervisor->processes[i].pid != pid)
                continue;
            ended(&supervisor->processes[i], &info);
            break;
        }
        info.si_pid = 0;
    }
}

void supervisor_stop(struct supervisor *supervisor, int signal_number)
{
    if (supervisor->stopping)
        return;
    MOB_LOG_INFO("supervisor", "stopping", "signal=%d", signal_number);
    snprintf(supervisor->failure, sizeof supervisor->failure, "stopped by a signal");
    stop_next(supervisor);
}
