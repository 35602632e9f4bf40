/* What this machine is. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "common/base/clock.h"
#include "common/base/process.h"

/* The number behind `name` in a file of lines like /proc/meminfo, or the first one of it; 0: none. */
static uint64_t number_in(const char *path, const char *name)
{
    char line[256];
    unsigned long long number = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && number == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            (void)sscanf(line + strlen(name), " %llu", &number);
    if (file != NULL)
        fclose(file);
    return number;
}

static void look_memory(struct doctor_machine *m)
{
    m->memory_bytes = number_in("/proc/meminfo", "MemTotal:") * 1024;
    m->available_bytes = number_in("/proc/meminfo", "MemAvailable:") * 1024;
    uint64_t most = number_in("/sys/fs/cgroup/memory.max", "");
    uint64_t used = number_in("/sys/fs/cgroup/memory.current", "");
    uint64_t cache = number_in("/sys/fs/cgroup/memory.stat", "inactive_file");
    if (most == 0 || most >= m->memory_bytes)
        return;
    m->memory_bytes = most;
    used = used > cache ? used - cache : 0;
    uint64_t left = most > used ? most - used : 0;
    m->available_bytes = left < m->available_bytes ? left : m->available_bytes;
}

/* As the store makes it. */
static void look_segment(uint64_t bytes, struct doctor_machine *m)
{
    m->segment_step = "memfd_create";
    int fd = memfd_create("mobula-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool made = fd >= 0;
    if (made) {
        m->segment_step = "ftruncate";
        made = ftruncate(fd, (off_t)bytes) == 0;
    }
    if (made) {
        m->segment_step = "sealing";
        made = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    }
    void *map = MAP_FAILED;
    if (made) {
        m->segment_step = "mmap";
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        made = map != MAP_FAILED;
    }
    m->segment_errno = made ? 0 : errno;
    if (map != MAP_FAILED)
        munmap(map, bytes);
    if (fd >= 0)
        close(fd);
}

static bool peers_are_known(void)
{
    int ends[2];
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    bool known = getsockopt(ends[0], SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid();
    close(ends[0]);
    close(ends[1]);
    return known;
}

static bool works(int fd)
{
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static const char *first_lacking(void)
{
    sigset_t none;
    sigemptyset(&none);
    if (mob_process_started(getpid()) == 0)
        return "/proc of this pid namespace";
    if (!peers_are_known())
        return "SO_PEERCRED on unix sockets";
    if (!works(eventfd(0, EFD_CLOEXEC)))
        return "eventfd";
    if (!works(signalfd(-1, &none, SFD_CLOEXEC)))
        return "signalfd";
    if (close_range(~0u - 1, ~0u, 0) != 0)
        return "close_range";
    return NULL;
}

static void look_clocks(struct doctor_machine *m)
{
    struct timespec resolution = {0};
    int64_t mono = mob_now(), boot = mob_clock_of(CLOCK_BOOTTIME);
    for (volatile int i = 0; i < 100000; i++)
        continue;
    m->mono_step_ns = mob_now() - mono;
    m->boot_step_ns = mob_clock_of(CLOCK_BOOTTIME) - boot;
    m->boot_minus_mono_ns = boot - mono;
    (void)clock_getres(CLOCK_MONOTONIC, &resolution);
    m->resolution_ns = resolution.tv_sec * MOB_SEC + resolution.tv_nsec;
    m->wall_ns = mob_wall_now();
}

void doctor_look_machine(const struct doctor_wants *wants, struct doctor_machine *out)
{
    struct rlimit limit;
    cpu_set_t cpus;
    *out = (struct doctor_machine){.realtime = realtime_is_allowed()};
    if (getrlimit(RLIMIT_RTPRIO, &limit) == 0)
        out->rtprio_limit = limit.rlim_cur;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        out->files_soft = limit.rlim_cur;
        out->files_hard = limit.rlim_max;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    out->cores = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (uint64_t)CPU_COUNT(&cpus)
        : online > 0                                           ? (uint64_t)online
                                                               : 1;
    look_memory(out);
    look_segment(wants->segment_bytes, out);
    out->kernel_lacks = first_lacking();
    look_clocks(out);
}
