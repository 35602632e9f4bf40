#include "runtime/node/driver_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { START_FIELD = 22 }; /* of /proc/PID/stat, counted from 1 */

/* 0: nobody can tell. `ended_out`: it has, and only its parent has not asked for it. */
static uint64_t start_of(int32_t pid, bool *ended_out)
{
    char path[64], text[1024];
    *ended_out = false;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n < 0 ? 0 : n] = 0;
    const char *at = strrchr(text, ')'); /* the name before may hold anything */
    if (!at || at[1] == 0)
        return 0;
    *ended_out = at[2] == 'Z' || at[2] == 'X';
    for (int field = 2; at && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

struct driver_process driver_process_of(int socket)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    bool ended;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0)
        return (struct driver_process){0};
    return (struct driver_process){peer.pid, start_of(peer.pid, &ended)};
}

bool driver_process_gone(struct driver_process process)
{
    if (process.pid <= 0)
        return false;
    if (kill(process.pid, 0) != 0 && errno == ESRCH)
        return true;
    bool ended;
    uint64_t started = start_of(process.pid, &ended);
    return ended || (started != 0 && process.started != 0 && started != process.started);
}
