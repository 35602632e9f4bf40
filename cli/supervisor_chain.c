/* The control store as shards, each a chain of one or several members: each a mobula-gcs with its own Redis,
 * and, of several members, one mobula-master a chain, which says what hangs and is to be ended. What ends is
 * started again, and is then another, empty member. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/realtime.h"
#include "cli/supervisor.h"
#include "common/base/clock.h"
#include "common/base/unix_socket.h"
#include "common/base/log.h"
#include "common/base/log_value.h"
#include "common/base/process.h"

enum supervised process_kind(enum supervised which)
{
    static const enum supervised kinds[] = {SUPERVISED_GATEWAY, SUPERVISED_NODE, SUPERVISED_MASTER,
        SUPERVISED_GCS, SUPERVISED_REDIS, SUPERVISED_FLUSH};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (which >= kinds[i])
            return kinds[i];
    return SUPERVISED_POSTGRES;
}

bool process_is_redis(enum supervised which)
{
    return process_kind(which) == SUPERVISED_REDIS;
}

bool process_is_gcs(enum supervised which)
{
    return process_kind(which) == SUPERVISED_GCS;
}

uint32_t process_shard(enum supervised which)
{
    uint32_t place = (uint32_t)(which - process_kind(which));
    return process_is_redis(which) || process_is_gcs(which) ? place / STATE_REPLICAS_MAX : place;
}

/* Which member of its chain: 0 = the first. */
static uint32_t process_replica(enum supervised which)
{
    uint32_t place = (uint32_t)(which - process_kind(which));
    return process_is_redis(which) || process_is_gcs(which) ? place % STATE_REPLICAS_MAX : 0;
}

char *process_file(enum supervised which, const char *kind, const char *suffix, char out[STATE_NAME_MAX])
{
    return state_member_name(kind, process_shard(which), process_replica(which), suffix, out);
}

static void write_addresses(struct supervisor *supervisor)
{
    char name[STATE_NAME_MAX];
    size_t all = 0;
    for (uint32_t shard = 0; shard < supervisor->shards; shard++) {
        char *own = supervisor->shard_addresses[shard];
        size_t used = 0;
        for (uint32_t i = 0; i < supervisor->replicas; i++)
            used += (size_t)snprintf(own + used, STATE_PATH_MAX - used, "%s%s/%s", i == 0 ? "" : ",",
                supervisor->directory, state_member_name("gcs", shard, i, ".sock", name));
        MOB_ASSERT(used < STATE_PATH_MAX); /* STATE_DIR_LENGTH_MAX */
        all += (size_t)snprintf(
            supervisor->gcs_addresses + all, STATE_ADDRESSES_MAX - all, "%s%s", shard == 0 ? "" : ";", own);
        MOB_ASSERT(all < STATE_ADDRESSES_MAX);
    }
}

static void write_masters(struct supervisor *supervisor)
{
    char name[STATE_NAME_MAX];
    size_t used = 0;
    for (uint32_t shard = 0; shard < supervisor->shards; shard++)
        used += (size_t)snprintf(supervisor->masters + used, sizeof supervisor->masters - used, "%s%s/%s",
            shard == 0 ? "" : ";", supervisor->directory,
            state_member_name("master", shard, 0, ".sock", name));
    MOB_ASSERT(used < sizeof supervisor->masters);
}

bool chain_has_masters(const struct supervisor *supervisor)
{
    return supervisor->replicas > 1;
}

void chain_choose(struct supervisor *supervisor)
{
    supervisor->shards = (uint32_t)mob_setting_number(supervisor->settings, MOB_SETTING_GCS_SHARDS);
    supervisor->replicas = (uint32_t)mob_setting_number(supervisor->settings, MOB_SETTING_GCS_REPLICAS);
    supervisor->replace_fd = -1;
    for (int i = 0; i < SUPERVISED_COUNT; i++) {
        struct process *process = &supervisor->processes[i];
        if (process_shard(process->which) >= supervisor->shards ||
            process_replica(process->which) >= supervisor->replicas)
            process->enabled = false;
        if (process_kind(process->which) == SUPERVISED_MASTER && supervisor->replicas == 1)
            process->enabled = false;
        if (process_is_redis(process->which))
            process->user = supervisor->processes[SUPERVISED_REDIS].user;
    }
    supervisor->realtime = supervisor->replicas > 1 && realtime_is_allowed();
    write_addresses(supervisor);
    write_masters(supervisor);
}

#define UNHEARD_AFTER_NS (2 * MOB_SEC) /* a member that runs for so long has made itself heard */
#define STOPPED_PATIENCE_MS 3000 /* who is stopped for less than that goes on */

static void replace(struct process *process, const char *why)
{
    MOB_LOG_WARN("supervisor", "replacing", "process=%s pid=%ld why=\"%s\"", process_name(process->which),
        (long)process->pid, MOB_LOG_VALUE(why));
    kill(-process->pid, SIGKILL); /* its end is seen like any other */
}

/* A stopped member is the master's to find, and so is a stopped node. A stopped master is found by nobody;
 * the member of a stopped Redis lives, waits for it, and the whole chain with it; and while a flusher is
 * stopped nobody reads what was flushed. One that a debugger holds is left alone. */
static bool is_replaced_when_stopped(const struct process *process)
{
    bool runs = process->state == PROCESS_STARTING || process->state == PROCESS_READY;
    enum supervised kind = process_kind(process->which);
    bool of_chain = kind == SUPERVISED_MASTER || kind == SUPERVISED_REDIS;
    return runs && (kind == SUPERVISED_FLUSH || (of_chain && chain_has_masters(process->supervisor)));
}

static void on_stopped_for_long(uv_timer_t *timer)
{
    struct process *process = timer->data;
    struct mob_process look;
    if (process->pid > 0 && mob_process_look(process->pid, &look) && look.state == 'T')
        replace(process, "it was stopped, and nobody else does its work");
}

void supervisor_note_stopped(struct supervisor *supervisor)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0) {
        for (int i = 0; i < SUPERVISED_COUNT && !supervisor->stopping; i++) {
            struct process *process = &supervisor->processes[i];
            if (process->pid == info.si_pid && is_replaced_when_stopped(process))
                uv_timer_start(&process->timer, on_stopped_for_long, STOPPED_PATIENCE_MS, 0);
        }
        info.si_pid = 0;
    }
}

static bool is_named(const char *pids, pid_t pid)
{
    for (char *end; *pids != 0; pids = end) {
        long named = strtol(pids, &end, 10);
        if (end == pids)
            return false;
        if (named == pid)
            return true;
    }
    return false;
}

/* "lacks SHARD PID..", from a master whose chain is too short: all whom it hears. */
static void replace_unheard(struct supervisor *supervisor, const char *text)
{
    char *pids;
    long shard = strtol(text, &pids, 10);
    for (int i = SUPERVISED_GCS; i < SUPERVISED_MASTER; i++) {
        struct process *process = &supervisor->processes[i];
        bool runs = process->pid > 0 && process->state == PROCESS_READY &&
            mob_now() - process->started_ns > UNHEARD_AFTER_NS;
        if (runs && process_shard(process->which) == shard && !is_named(pids, process->pid))
            replace(process, "the master does not hear it, and lacks a member");
    }
}

/* "end PID", from the master: a member that is left out of the chain, or a node that was declared dead, and
 * that does not end by itself. */
static void replace_one(struct supervisor *supervisor, const char *text)
{
    long pid = strtol(text, NULL, 10);
    for (int i = SUPERVISED_GCS; i < SUPERVISED_MASTER; i++)
        if (pid > 0 && supervisor->processes[i].pid == pid)
            replace(&supervisor->processes[i], "the master asked for it");
    struct process *node = &supervisor->processes[SUPERVISED_NODE];
    if (pid > 0 && node->pid == pid)
        replace(node, "the master asked for it: it was declared dead");
}

static void on_replace(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct supervisor *supervisor = poll->data;
    char text[512];
    ssize_t length;
    while ((length = recv(supervisor->replace_fd, text, sizeof text - 1, 0)) > 0) {
        text[length] = 0;
        if (supervisor->stopping)
            continue;
        if (strncmp(text, "end ", 4) == 0)
            replace_one(supervisor, text + 4);
        else if (strncmp(text, "lacks ", 6) == 0)
            replace_unheard(supervisor, text + 6);
    }
}

enum mob_status chain_prepare(struct supervisor *supervisor)
{
    char path[STATE_PATH_MAX];
    int fd;
    if (supervisor->replicas == 1)
        return MOB_OK;
    state_path(supervisor->directory, STATE_REPLACE_SOCKET_NAME, path);
    enum mob_status status = mob_unix_bind(path, SOCK_DGRAM, 0, &fd);
    if (status != MOB_OK)
        return status;
    if (uv_poll_init(&supervisor->loop, &supervisor->replace, fd) != 0) {
        close(fd);
        return MOB_IO;
    }
    supervisor->replace_fd = fd;
    supervisor->replace.data = supervisor;
    uv_poll_start(&supervisor->replace, UV_READABLE, on_replace);
    return MOB_OK;
}

void chain_fini(struct supervisor *supervisor)
{
    if (supervisor->replace_fd < 0)
        return;
    uv_poll_stop(&supervisor->replace);
    close(supervisor->replace_fd);
    supervisor->replace_fd = -1;
}
