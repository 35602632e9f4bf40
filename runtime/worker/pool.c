#include "runtime/worker/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "runtime/worker/pool_internal.h"

/* ---- the zygote ---- */

/* A worker's environment is the same wherever the node was started from; what sanitizers, failpoints
 * and a test's clock need passes. */
static char *const fixed_environment[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", NULL};
static const char *const passed_environment[] = {"MOBULA_FAILPOINTS", "MOBULA_TEST_WALL_OFFSET_S",
    "MOBULA_LOG", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "TZ", "OPENBLAS_CORETYPE",
    "LD_LIBRARY_PATH"};
#define PASSED (sizeof passed_environment / sizeof passed_environment[0])
#define FIXED (sizeof fixed_environment / sizeof fixed_environment[0] - 1)

extern char **environ;

static void environment_of(char **out)
{
    size_t n = 0;
    for (size_t i = 0; i < FIXED; i++)
        out[n++] = fixed_environment[i];
    for (size_t i = 0; i < PASSED; i++) {
        size_t length = strlen(passed_environment[i]);
        for (char **e = environ; *e != NULL; e++)
            if (strncmp(*e, passed_environment[i], length) == 0 && (*e)[length] == '=')
                out[n++] = *e;
    }
    out[n] = NULL;
}

static enum mob_status spawn_zygote(struct mob_pool *pool, int their_end)
{
    char parent[16], log_bytes[24], address_space[24], oom[16];
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    snprintf(log_bytes, sizeof log_bytes, "%llu", (unsigned long long)pool->config.log_bytes_max);
    snprintf(
        address_space, sizeof address_space, "%llu", (unsigned long long)pool->config.address_space_bytes);
    snprintf(oom, sizeof oom, "%d", pool->config.oom_score_adj);
    char *const argv[] = {pool->worker_path, "--zygote", parent, pool->config.state_dir, pool->config.log_dir,
        log_bytes, address_space, oom, NULL};
    char *envp[FIXED + PASSED + 1];
    environment_of(envp);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, their_end, MOB_ZYGOTE_FD);
    posix_spawn_file_actions_addclosefrom_np(&actions, MOB_ZYGOTE_FD + 1);
    posix_spawn_file_actions_addchdir_np(&actions, "/");
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int reason = posix_spawn(&pool->zygote, pool->worker_path, &actions, &attributes, argv, envp);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (reason == 0)
        return MOB_OK;
    MOB_LOG_ERROR("pool", "zygote_not_spawned", "path=%s reason=\"%s\"", pool->worker_path, strerror(reason));
    pool->zygote = 0;
    return reason == ENOENT ? MOB_NOT_FOUND : MOB_IO;
}

static enum mob_status start_zygote(struct mob_pool *pool)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return MOB_IO;
    /* dup2 of a descriptor onto itself would keep it close-on-exec. */
    int theirs = ends[1] == MOB_ZYGOTE_FD ? fcntl(ends[1], F_DUPFD_CLOEXEC, MOB_ZYGOTE_FD + 1) : ends[1];
    enum mob_status status = theirs < 0 ? MOB_IO : spawn_zygote(pool, theirs);
    close(ends[1]);
    if (theirs != ends[1] && theirs >= 0)
        close(theirs);
    if (status != MOB_OK) {
        close(ends[0]);
        return status;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (pool->fd >= 0)
        close(pool->fd);
    pool->fd = ends[0];
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(pool->poll_fd, EPOLL_CTL_ADD, pool->fd, &event) == 0 ? MOB_OK : MOB_IO;
}

static void end_zygote(struct mob_pool *pool)
{
    if (pool->zygote <= 0)
        return;
    kill(pool->zygote, SIGKILL);
    while (waitpid(pool->zygote, NULL, 0) < 0 && errno == EINTR) {
    }
    pool->zygote = 0;
}

/* ---- life ---- */

static bool beside_own_file(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n <= 0)
        return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (slash == NULL || (size_t)(slash - out) + sizeof "/mobula-worker" > size)
        return false;
    memcpy(slash, "/mobula-worker", sizeof "/mobula-worker");
    return true;
}

/* The zygote runs in another directory. */
static enum mob_status absolute(const char *path, char *out, size_t size)
{
    char *full = realpath(path, NULL);
    if (full == NULL)
        return errno == ENOENT ? MOB_NOT_FOUND : MOB_IO;
    bool fits = strlen(full) < size;
    if (fits)
        memcpy(out, full, strlen(full) + 1);
    free(full);
    return fits ? MOB_OK : MOB_TOO_LARGE;
}

static enum mob_status configure(struct mob_pool *pool, const struct mob_pool_options *options)
{
    struct mob_worker_config *config = &pool->config;
    char path[512];
    const char *binary = options->worker_path;
    if (binary == NULL) {
        if (!beside_own_file(path, sizeof path))
            return MOB_NOT_FOUND;
        binary = path;
    }
    enum mob_status status = absolute(binary, pool->worker_path, sizeof pool->worker_path);
    if (status == MOB_OK)
        status = absolute(options->state_dir, config->state_dir, sizeof config->state_dir);
    if (status != MOB_OK)
        return status;
    const char *log_dir = options->log_dir;
    if (log_dir == NULL) {
        snprintf(path, sizeof path, "%s/logs", config->state_dir);
        log_dir = path;
    }
    if (mkdir(log_dir, 0700) != 0 && errno != EEXIST)
        return MOB_IO;
    config->log_bytes_max = options->log_bytes_max == 0 ? 1u << 20 : options->log_bytes_max;
    config->address_space_bytes = options->address_space_bytes;
    config->oom_score_adj = options->oom_score_adj == 0 ? 500 : options->oom_score_adj;
    return absolute(log_dir, config->log_dir, sizeof config->log_dir);
}

enum mob_status mob_pool_create(const struct mob_pool_options *given, struct mob_pool **pool_out)
{
    struct mob_pool_options options = {0};
    memcpy(&options, given, given->struct_size < sizeof options ? given->struct_size : sizeof options);
    struct mob_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return MOB_NO_MEMORY;
    pool->fd = -1;
    pool->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    enum mob_status status = pool->poll_fd < 0 ? MOB_IO : configure(pool, &options);
    if (status == MOB_OK)
        status = start_zygote(pool);
    if (status != MOB_OK) {
        close(pool->poll_fd);
        free(pool);
        return status;
    }
    *pool_out = pool;
    return MOB_OK;
}

void mob_pool_destroy(struct mob_pool *pool)
{
    if (pool == NULL)
        return;
    end_zygote(pool);
    if (pool->fd >= 0)
        close(pool->fd);
    close(pool->poll_fd);
    free(pool->workers);
    free(pool);
}

int mob_pool_fd(const struct mob_pool *pool)
{
    return pool->poll_fd;
}

/* ---- workers ---- */

static struct mob_pool_worker *find(struct mob_pool *pool, uint32_t worker)
{
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->workers[i].number == worker)
            return &pool->workers[i];
    return NULL;
}

static struct mob_pool_worker *add(struct mob_pool *pool, uint32_t worker)
{
    if (pool->count == MOB_POOL_WORKERS_MAX)
        return NULL;
    if (pool->count == pool->capacity) {
        uint32_t capacity = pool->capacity == 0 ? 64 : pool->capacity * 2;
        struct mob_pool_worker *workers = realloc(pool->workers, capacity * sizeof *workers);
        if (workers == NULL)
            return NULL;
        pool->workers = workers;
        pool->capacity = capacity;
    }
    pool->workers[pool->count] = (struct mob_pool_worker){.number = worker};
    return &pool->workers[pool->count++];
}

enum mob_status mob_pool_start(
    struct mob_pool *pool, uint32_t worker, const struct mob_session_welcome *welcome, int memfd, int eventfd)
{
    if (pool->zygote == 0 && pool->count > 0)
        return MOB_AGAIN; /* the dead zygote's workers are told first: a new one would hide their end */
    if (pool->zygote == 0) {
        enum mob_status status = start_zygote(pool);
        if (status != MOB_OK)
            return status;
    }
    struct mob_zygote_request request = {.worker = worker, .welcome = *welcome};
    request.welcome.worker = worker;
    int fds[2] = {memfd, eventfd};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fds)];
    } control = {0};
    struct iovec iov = {&request, sizeof request};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(c), fds, sizeof fds);
    if (add(pool, worker) == NULL)
        return MOB_QUEUE_FULL;
    if (sendmsg(pool->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof request)
        return MOB_OK;
    pool->count--;
    return errno == EAGAIN || errno == EPIPE || errno == ECONNRESET ? MOB_AGAIN : MOB_IO;
}

/* One of the dead zygote's workers at a time; then the next zygote. */
static bool step_without_zygote(struct mob_pool *pool, struct mob_pool_event *event_out)
{
    end_zygote(pool);
    if (pool->count > 0) {
        struct mob_pool_worker *worker = &pool->workers[--pool->count];
        *event_out = (struct mob_pool_event){.kind = MOB_POOL_EXITED,
            .worker = worker->number,
            .pid = worker->pid,
            .wait_status = SIGKILL,
            .with_zygote = true};
        mob_pool_log_ended(pool, worker->number);
        return true;
    }
    enum mob_status status = start_zygote(pool);
    MOB_LOG_WARN("pool", "zygote_replaced", "status=%s", mob_status_code(status));
    return false;
}

bool mob_pool_step(struct mob_pool *pool, struct mob_pool_event *event_out)
{
    struct mob_zygote_report r;
    for (;;) {
        ssize_t n = pool->zygote == 0 ? 0 : recv(pool->fd, &r, sizeof r, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n != (ssize_t)sizeof r)
            return step_without_zygote(pool, event_out);
        struct mob_pool_worker *worker = find(pool, r.worker);
        if (worker == NULL)
            continue;
        *event_out = (struct mob_pool_event){.kind = (enum mob_pool_event_kind)r.kind,
            .worker = r.worker,
            .pid = r.pid,
            .wait_status = r.wait_status,
            .max_rss_kb = r.max_rss_kb};
        worker->pid = r.pid;
        if (r.kind == MOB_POOL_EXITED) {
            *worker = pool->workers[--pool->count];
            mob_pool_log_ended(pool, r.worker);
        }
        return true;
    }
}
