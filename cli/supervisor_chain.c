/* The control store as a chain of several members: each a mobula-gcs with its own Redis, and one
 * mobula-master, which says what hangs and is to be ended. What ends is started again, and is then another,
 * empty member. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/supervisor.h"
#include "common/base/log.h"

bool process_is_redis(enum supervised which)
{
    return which >= SUPERVISED_REDIS && which <= SUPERVISED_REDIS_2;
}

bool process_is_gcs(enum supervised which)
{
    return which >= SUPERVISED_GCS && which <= SUPERVISED_GCS_2;
}

uint32_t process_replica(enum supervised which)
{
    return (uint32_t)(which - (process_is_redis(which) ? SUPERVISED_REDIS : SUPERVISED_GCS));
}

/* Tried, since a container may forbid it to root, too. */
static bool realtime_is_allowed(void)
{
    struct sched_param high = {.sched_priority = 1}, normal = {.sched_priority = 0};
    return sched_setscheduler(0, SCHED_FIFO, &high) == 0 && sched_setscheduler(0, SCHED_OTHER, &normal) == 0;
}

void chain_choose(struct supervisor *supervisor)
{
    static const char *const sockets[STATE_REPLICAS_MAX] = {
        STATE_GCS_SOCKET_NAME, STATE_GCS_1_SOCKET_NAME, STATE_GCS_2_SOCKET_NAME};
    supervisor->replicas = (uint32_t)mob_setting_number(supervisor->settings, MOB_SETTING_GCS_REPLICAS);
    supervisor->replace_fd = -1;
    for (int i = 0; i < SUPERVISED_COUNT; i++) {
        struct process *process = &supervisor->processes[i];
        bool of_chain = process_is_redis(process->which) || process_is_gcs(process->which);
        if (of_chain)
            process->enabled = process_replica(process->which) < supervisor->replicas;
        if (process_is_redis(process->which))
            process->user = supervisor->processes[SUPERVISED_REDIS].user;
    }
    supervisor->processes[SUPERVISED_MASTER].enabled = supervisor->replicas > 1;
    supervisor->realtime = supervisor->replicas > 1 && realtime_is_allowed();
    size_t used = 0;
    for (uint32_t i = 0; i < supervisor->replicas; i++)
        used += (size_t)snprintf(supervisor->gcs_addresses + used, sizeof supervisor->gcs_addresses - used,
            "%s%s/%s", i == 0 ? "" : ",", supervisor->directory, sockets[i]);
    MOB_ASSERT(used < sizeof supervisor->gcs_addresses); /* STATE_DIR_LENGTH_MAX */
}

/* "end PID", from the master: a member that is left out of the chain and does not end by itself. */
static void on_replace(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct supervisor *supervisor = poll->data;
    char text[64];
    ssize_t length;
    while ((length = recv(supervisor->replace_fd, text, sizeof text - 1, 0)) > 0) {
        text[length] = 0;
        long pid = strncmp(text, "end ", 4) == 0 ? strtol(text + 4, NULL, 10) : 0;
        for (int i = SUPERVISED_GCS; i <= SUPERVISED_GCS_2; i++) {
            struct process *process = &supervisor->processes[i];
            if (pid <= 0 || process->pid != pid || supervisor->stopping)
                continue;
            MOB_LOG_WARN("supervisor", "replacing", "process=%s pid=%ld why=\"the master asked for it\"",
                process_name(process->which), pid);
            kill(-process->pid, SIGKILL); /* its end is seen like any other */
        }
    }
}

enum mob_status chain_prepare(struct supervisor *supervisor)
{
    char path[STATE_PATH_MAX];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (supervisor->replicas == 1)
        return MOB_OK;
    state_path(supervisor->directory, STATE_REPLACE_SOCKET_NAME, path);
    if (strlen(path) >= sizeof address.sun_path)
        return MOB_TOO_LARGE;
    memcpy(address.sun_path, path, strlen(path) + 1);
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return MOB_IO;
    mode_t mask = umask(0177);
    int bound = bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(mask);
    if (bound != 0 || uv_poll_init(&supervisor->loop, &supervisor->replace, fd) != 0) {
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
