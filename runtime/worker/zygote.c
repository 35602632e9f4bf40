/* The zygote: small, single-threaded, and never runs user code, so that a fork of it is cheap and clean. */
#include "runtime/worker/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "runtime/worker/pool.h"

struct child {
    pid_t pid;
    uint32_t worker;
};
static struct child children[MOB_POOL_WORKERS_MAX];
static uint32_t child_count;

/* ---- in the new worker ---- */

static void die_with(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        _exit(1);
}

static void default_signals(void)
{
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* 0 = /dev/null, 1 and 2 = the zygote's stderr until the log is open, 3 = memfd, 4 = eventfd, nothing else.
 */
static void only_descriptors(int memfd, int eventfd)
{
    int high_memfd = fcntl(memfd, F_DUPFD, 10), high_eventfd = fcntl(eventfd, F_DUPFD, 10);
    if (high_memfd < 0 || high_eventfd < 0 || dup2(high_memfd, 3) != 3 || dup2(high_eventfd, 4) != 4)
        _exit(1);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    fcntl(4, F_SETFD, FD_CLOEXEC);
    close_range(5, ~0u, 0);
    close(0);
    if (open("/dev/null", O_RDONLY) != 0)
        _exit(1);
}

/* Sanitizers map terabytes for their shadow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITS_ADDRESS_SPACE false
#else
#define LIMITS_ADDRESS_SPACE true
#endif

static void limits(const struct mob_worker_config *config, int memfd)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    struct stat segment;
    if (LIMITS_ADDRESS_SPACE && config->address_space_bytes > 0 && fstat(memfd, &segment) == 0) {
        rlim_t bytes = config->address_space_bytes + (rlim_t)segment.st_size;
        struct rlimit as = {bytes, bytes};
        setrlimit(RLIMIT_AS, &as);
    }
    char text[16];
    int n = snprintf(text, sizeof text, "%d", config->oom_score_adj);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, text, (size_t)n) < 0)
            MOB_LOG_WARN("worker", "oom_score_not_set", "errno=%d", errno);
        close(fd);
    }
}

static _Noreturn void become_worker(const struct mob_worker_config *config, pid_t zygote,
    const struct mob_zygote_request *request, int memfd, int eventfd)
{
    die_with(zygote);
    setpgid(0, 0);
    default_signals();
    only_descriptors(memfd, eventfd);
    limits(config, 3);
    prctl(PR_SET_NAME, "mobula-worker");
    _exit(mob_worker_run(config, &request->welcome, 3, 4));
}

/* ---- in the zygote ---- */

static void report(const struct mob_zygote_report *r)
{
    if (send(MOB_ZYGOTE_FD, r, sizeof *r, MSG_NOSIGNAL) < 0 && errno == EPIPE)
        _exit(0);
}

static void start(
    const struct mob_worker_config *config, const struct mob_zygote_request *request, int memfd, int eventfd)
{
    pid_t zygote = getpid();
    pid_t pid = child_count < MOB_POOL_WORKERS_MAX ? fork() : -1;
    if (pid == 0)
        become_worker(config, zygote, request, memfd, eventfd);
    struct mob_zygote_report r = {.worker = request->worker, .pid = pid};
    if (pid < 0) {
        MOB_LOG_ERROR("zygote", "fork_failed", "worker=%u errno=%d", request->worker, errno);
        r.kind = MOB_POOL_EXITED;
        r.wait_status = 1 << 8; /* exit status 1 */
    } else {
        setpgid(pid, pid); /* here too: whoever hears of it may signal its group at once */
        children[child_count++] = (struct child){pid, request->worker};
        r.kind = MOB_POOL_STARTED;
    }
    report(&r);
}

/* False: the node is gone. */
static bool take_request(const struct mob_worker_config *config)
{
    struct mob_zygote_request request;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec iov = {&request, sizeof request};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(MOB_ZYGOTE_FD, &message, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    int fds[2] = {-1, -1};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fds))
        memcpy(fds, CMSG_DATA(c), sizeof fds);
    if (n == (ssize_t)sizeof request && fds[0] >= 0 && fds[1] >= 0)
        start(config, &request, fds[0], fds[1]);
    close(fds[0]);
    close(fds[1]);
    return true;
}

static void reap(int signals)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
    }
    for (;;) {
        int status;
        struct rusage usage;
        pid_t pid = wait4(-1, &status, WNOHANG, &usage);
        if (pid <= 0)
            return;
        uint32_t i = 0;
        while (i < child_count && children[i].pid != pid)
            i++;
        if (i == child_count)
            continue;
        struct mob_zygote_report r = {.kind = MOB_POOL_EXITED,
            .worker = children[i].worker,
            .pid = pid,
            .wait_status = status,
            .max_rss_kb = (uint64_t)usage.ru_maxrss};
        kill(-pid, SIGKILL); /* what user code started and left behind in the worker's group */
        children[i] = children[--child_count];
        report(&r);
    }
}

void mob_zygote_run(const struct mob_worker_config *config, int parent)
{
    die_with(parent);
    prctl(PR_SET_NAME, "mobula-zygote");
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    MOB_ASSERT(signals >= 0);
    fcntl(MOB_ZYGOTE_FD, F_SETFD, FD_CLOEXEC);
    struct pollfd fds[2] = {{MOB_ZYGOTE_FD, POLLIN, 0}, {signals, POLLIN, 0}};
    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents & POLLIN)
            reap(signals);
        if (fds[0].revents != 0 && !take_request(config))
            _exit(0); /* the workers' death signal is this exit */
    }
}
