#include "bench/cores.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

/* Of the hardware threads of its core it is the first, or the kernel does not say. */
static bool is_core(unsigned cpu)
{
    char path[96];
    unsigned first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "re");
    if (file != NULL && fscanf(file, "%u", &first) != 1)
        first = cpu;
    if (file != NULL)
        fclose(file);
    return first == cpu;
}

static uint32_t cores_of(unsigned cores_out[CPU_SETSIZE])
{
    cpu_set_t allowed;
    uint32_t count = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 0;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && is_core(cpu))
            cores_out[count++] = cpu;
    return count;
}

bool cores_share(uint32_t count, cpu_set_t *shares_out)
{
    unsigned cores[CPU_SETSIZE];
    uint32_t each = cores_of(cores) / count;
    if (each == 0)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        CPU_ZERO(&shares_out[i]);
        for (uint32_t k = 0; k < each; k++)
            CPU_SET(cores[i * each + k], &shares_out[i]);
    }
    return true;
}

bool cores_bind(const cpu_set_t *cores, cpu_set_t *before_out)
{
    if (before_out != NULL && sched_getaffinity(0, sizeof *before_out, before_out) != 0)
        return false;
    return sched_setaffinity(0, sizeof *cores, cores) == 0;
}

/* Threads that ended meanwhile have left nothing. */
static bool thread_holds(pid_t thread, const cpu_set_t *cores)
{
    cpu_set_t its, both;
    if (sched_getaffinity(thread, sizeof its, &its) != 0)
        return true;
    CPU_AND(&both, &its, cores);
    return CPU_EQUAL(&both, &its);
}

bool cores_hold(pid_t pid, const cpu_set_t *cores)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    bool hold = tasks != NULL;
    for (struct dirent *one; hold && (one = readdir(tasks)) != NULL;)
        hold = one->d_name[0] == '.' || thread_holds(atoi(one->d_name), cores);
    if (tasks != NULL)
        closedir(tasks);
    return hold;
}

/* ---- loads ---- */

struct running {
    pid_t pid;
    int fd; /* it says 1 when it is open, hears a byte when all are, and says what it did a second */
};

static void tell(int fd, struct cores_rate rate)
{
    if (write(fd, &rate, sizeof rate) != sizeof rate)
        _exit(1);
}

/* `done` 0: it has failed. */
static struct cores_rate hear(int fd)
{
    struct cores_rate rate;
    return read(fd, &rate, sizeof rate) == sizeof rate ? rate : (struct cores_rate){0};
}

/* Ends with the parent, whose directories it leaves alone. */
static void load_main(const struct cores_load *load, double seconds, int fd)
{
    char go;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (!cores_bind(load->cores, NULL) || !load->open(load->arg))
        _exit(1);
    tell(fd, (struct cores_rate){.done = 1});
    if (read(fd, &go, 1) != 1) /* another one is not open */
        _exit(1);
    int64_t before_ns = mob_thread_cpu_now();
    struct cores_rate rate = {.done = load->run(seconds)};
    rate.cpu_ns = (double)(mob_thread_cpu_now() - before_ns) / seconds;
    tell(fd, cores_hold(getpid(), load->cores) ? rate : (struct cores_rate){0});
    _exit(0);
}

static struct running load_start(const struct cores_load *load, double seconds)
{
    int ends[2];
    MOB_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t pid = fork();
    MOB_ASSERT(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        load_main(load, seconds, ends[1]);
    }
    close(ends[1]);
    return (struct running){.pid = pid, .fd = ends[0]};
}

/* A load that waits for the others hears by this that there is nothing to wait for. */
static void load_end(const struct running *load)
{
    close(load->fd);
    waitpid(load->pid, NULL, 0);
}

bool cores_run(const struct cores_load *loads, uint32_t count, double seconds, struct cores_rate *rates_out)
{
    struct running running[CORES_LOADS_MAX];
    bool good = true;
    MOB_ASSERT(count <= CORES_LOADS_MAX);
    for (uint32_t i = 0; i < count; i++)
        running[i] = load_start(&loads[i], seconds);
    for (uint32_t i = 0; i < count; i++)
        good &= hear(running[i].fd).done > 0;
    for (uint32_t i = 0; good && i < count; i++)
        good = write(running[i].fd, "", 1) == 1;
    for (uint32_t i = 0; good && i < count; i++)
        good = (rates_out[i] = hear(running[i].fd)).done > 0;
    for (uint32_t i = 0; i < count; i++)
        load_end(&running[i]);
    return good;
}
