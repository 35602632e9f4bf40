#include "common/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

#define EXITS_FLAG 0x4u /* of the kernel's flags: PF_EXITING */

/* The fields of the line behind the name, which may hold anything. */
static bool read_line(pid_t pid, char *text, size_t capacity, const char **fields_out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, capacity - 1);
    close(fd);
    text[n < 0 ? 0 : n] = '\0';
    const char *name_end = strrchr(text, ')');
    *fields_out = name_end == NULL ? NULL : name_end + 1;
    return name_end != NULL;
}

bool mob_process_look(pid_t pid, struct mob_process *out)
{
    char text[1024];
    const char *fields;
    unsigned flags;
    uint64_t user, system;
    *out = (struct mob_process){0};
    if (pid <= 0 || !read_line(pid, text, sizeof text, &fields))
        return false;
    struct mob_process p = {0};
    int read = sscanf(fields,
        " %c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %" SCNu64 " %" SCNu64 " %*d %*d %*d %*d %d %*d %" SCNu64,
        &p.state, &p.parent, &flags, &user, &system, &p.threads, &p.started);
    if (read != 7)
        return false;
    p.exits = p.state == 'Z' || p.state == 'X' || (flags & EXITS_FLAG) != 0;
    p.cpu_ns = (int64_t)(user + system) * (MOB_SEC / sysconf(_SC_CLK_TCK));
    *out = p;
    return true;
}

uint64_t mob_process_started(pid_t pid)
{
    struct mob_process p;
    (void)mob_process_look(pid, &p);
    return p.state == 'Z' || p.state == 'X' ? 0 : p.started;
}

bool mob_process_is_over(pid_t pid, uint64_t started)
{
    struct mob_process p;
    if (pid <= 0 || started == 0)
        return false;
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return true;
    if (!mob_process_look(pid, &p))
        return false;
    return p.started != started || ((p.state == 'Z' || p.state == 'X') && p.threads <= 1);
}

bool mob_process_is_stopped(pid_t pid)
{
    struct mob_process p;
    (void)mob_process_look(pid, &p);
    return p.state == 'T' || p.state == 't';
}
