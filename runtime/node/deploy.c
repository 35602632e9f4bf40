/* Deploying a module: its bytes (an object) are written to modules/<hash>.so, a separate process loads the
 * file once and prints what is in it (user code never runs in the node), then every function is registered
 * (register_module.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/log_value.h"
#include "runtime/node/functions.h"
#include "runtime/node/loop_tag.h"
#include "runtime/node/notices.h"
#include "runtime/node/register_module.h"

enum { DESCRIPTION_BYTES_MIN = 64 << 10, DESCRIPTION_BYTES_MAX = 8 << 20, DESCRIBE_SECONDS_MAX = 10 };

/* A deployment on its way. */
struct deployment {
    struct deployment *next;
    pid_t pid;
    int pipe_fd;
    int64_t deadline_ns;
    struct mob_module_hash module;
    uint32_t slot, session, request;
    bool known; /* that content was deployed before */
    struct node *node;
    size_t used, capacity;
    char *text; /* what the describing process has printed */
};

extern char **environ;

static void finish(struct deployment *d, enum mob_status status, const char *message)
{
    struct node *node = d->node;
    char hash[64];
    mob_base32_encode(d->module.b, sizeof d->module.b, hash);
    char text[128];
    snprintf(text, sizeof text, "{\"hash\":\"%s\",\"created\":%s}", hash, d->known ? "false" : "true");
    const char *reply = status == MOB_OK ? text : message; /* an error is words */
    node_reply(node, d->slot, d->session, d->request, status, reply, (uint32_t)strlen(reply));
    if (status == MOB_OK)
        MOB_LOG_INFO("functions", "deployed", "module=%s", hash);
    else
        MOB_LOG_WARN("functions", "deploy_failed", "module=%s status=%s why=\"%s\"", hash,
            mob_status_code(status), MOB_LOG_VALUE(message));
    for (struct deployment **at = &node->deployments; *at; at = &(*at)->next)
        if (*at == d) {
            *at = d->next;
            break;
        }
    node->deploying--;
    free(d->text);
    free(d);
}

/* With what its constructors have started. */
static void kill_describing(const struct deployment *d)
{
    kill(-d->pid, SIGKILL);
}

void node_deployments_drop(struct node *node)
{
    node_registrations_drop(node);
    while (node->deployments) {
        struct deployment *next = node->deployments->next;
        if (node->deployments->pipe_fd >= 0) {
            kill_describing(node->deployments);
            close(node->deployments->pipe_fd);
        }
        free(node->deployments->text);
        free(node->deployments);
        node->deployments = next;
    }
}

static const char NOT_A_MODULE[] = "the file is not a function module";

/* "error CODE REASON", or nothing that can be understood. */
static void finish_refused(struct deployment *d, int wait_status)
{
    char message[400], *fields[DESCRIBED_FIELDS_MAX];
    if (WIFSIGNALED(wait_status)) {
        snprintf(message, sizeof message, "loading the module ended with signal %d", WTERMSIG(wait_status));
        finish(d, MOB_INVALID, message);
        return;
    }
    d->text[strcspn(d->text, "\n")] = '\0';
    int n = described_split(d->text, fields);
    if (n >= 3 && strcmp(fields[0], "error") == 0) {
        snprintf(message, sizeof message, "%.380s", fields[2]);
        finish(d, mob_status_from_code(fields[1]), message);
    } else {
        finish(d, MOB_INVALID, NOT_A_MODULE);
    }
}

static void registered(void *arg, enum mob_status status, const char *message)
{
    finish(arg, status, message);
}

/* The describing process is never waited for: what it runs may have closed the pipe and go on. One that has
 * ended, as it should have, keeps its exit status, whatever is sent to it. */
static int end_describing(struct deployment *d)
{
    int wait_status = 0;
    epoll_ctl(d->node->epoll_fd, EPOLL_CTL_DEL, d->pipe_fd, NULL);
    close(d->pipe_fd);
    d->pipe_fd = -1;
    kill_describing(d);
    waitpid(d->pid, &wait_status, 0);
    return wait_status;
}

static void described(struct deployment *d)
{
    int wait_status = end_describing(d);
    if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0) {
        finish_refused(d, wait_status);
        return;
    }
    char *text = d->text;
    d->text = NULL;
    node_register_module(d->node, d->module, text, registered, d);
}

/* Room for more of it, and for a NUL. False: it is too long. */
static bool make_room(struct deployment *d)
{
    if (d->used + 1 < d->capacity)
        return true;
    if (d->capacity == DESCRIPTION_BYTES_MAX)
        return false;
    d->capacity = d->capacity ? 2 * d->capacity : DESCRIPTION_BYTES_MIN;
    d->text = realloc(d->text, d->capacity);
    MOB_ASSERT(d->text);
    return true;
}

enum description { DESCRIPTION_GOES_ON, DESCRIPTION_ENDS, DESCRIPTION_TOO_LONG };

static enum description read_description(struct deployment *d)
{
    for (;;) {
        if (!make_room(d))
            return DESCRIPTION_TOO_LONG;
        ssize_t n = read(d->pipe_fd, d->text + d->used, d->capacity - d->used - 1);
        if (n > 0)
            d->used += (size_t)n;
        d->text[d->used] = '\0';
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return DESCRIPTION_GOES_ON;
        if (n <= 0)
            return DESCRIPTION_ENDS;
    }
}

void node_describe_readable(struct node *node, int fd)
{
    struct deployment *d = node->deployments;
    while (d && d->pipe_fd != fd)
        d = d->next;
    enum description read = d ? read_description(d) : DESCRIPTION_GOES_ON;
    if (read == DESCRIPTION_TOO_LONG) {
        end_describing(d);
        finish(d, MOB_TOO_LARGE, "what the module has takes more than 8 MiB to describe");
    } else if (read == DESCRIPTION_ENDS) {
        described(d);
    }
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* One that has ended, and whose end of the pipe something else holds, has said all. */
static void look_at(struct deployment *d)
{
    if (has_ended(d->pid) && read_description(d) == DESCRIPTION_GOES_ON) {
        described(d);
    } else if (d->node->now_ns > d->deadline_ns) {
        end_describing(d);
        finish(d, MOB_INVALID, "loading the module did not end in 10 s");
    }
}

void node_deployments_tick(struct node *node)
{
    for (struct deployment *d = node->deployments, *next; d; d = next) {
        next = d->next;
        if (d->pipe_fd >= 0)
            look_at(d);
    }
    node_registrations_tick(node);
}

static enum mob_status write_module(struct node *node, struct mob_module_hash hash, const void *bytes,
    uint64_t size, char path[NODE_PATH_MAX + 128])
{
    char name[64], temporary[NODE_PATH_MAX + 160];
    mob_base32_encode(hash.b, sizeof hash.b, name);
    snprintf(path, NODE_PATH_MAX + 128, "%s/modules", node->options.directory);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return MOB_IO;
    snprintf(path, NODE_PATH_MAX + 128, "%s/modules/%s.so", node->options.directory, name);
    if (access(path, R_OK) == 0)
        return MOB_OK;
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int fd = open(temporary, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0500);
    if (fd < 0)
        return MOB_IO;
    const uint8_t *p = bytes;
    while (size > 0) {
        ssize_t n = write(fd, p, size);
        if (n <= 0) {
            enum mob_status status = errno == ENOSPC ? MOB_DISK_FULL : MOB_IO;
            close(fd);
            unlink(temporary);
            return status;
        }
        p += n;
        size -= (uint64_t)n;
    }
    fsync(fd);
    close(fd);
    return rename(temporary, path) == 0 ? MOB_OK : MOB_IO;
}

static enum mob_status start_describing(struct node *node, struct deployment *d, const char *path)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return MOB_IO;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t own_group;
    posix_spawnattr_init(&own_group);
    posix_spawnattr_setflags(&own_group, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    char *argv[] = {node->options.worker_binary, (char *)"--inspect", (char *)(uintptr_t)path, NULL};
    int failed = posix_spawn(&d->pid, node->options.worker_binary, &actions, &own_group, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&own_group);
    close(fds[1]);
    if (failed != 0) {
        close(fds[0]);
        return MOB_IO;
    }
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    d->pipe_fd = fds[0];
    d->deadline_ns = mob_deadline_after(DESCRIBE_SECONDS_MAX * MOB_SEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = loop_tag(LOOP_DESCRIBE, (uint32_t)fds[0])};
    epoll_ctl(node->epoll_fd, EPOLL_CTL_ADD, fds[0], &event);
    return MOB_OK;
}

void node_deploy(
    struct node *node, struct node_client *client, uint32_t request, const uint8_t *payload, uint32_t bytes)
{
    struct mob_object_id id;
    enum mob_value_type type;
    const uint8_t *object;
    uint64_t size;
    struct mob_value_view value;
    char path[NODE_PATH_MAX + 128];
    struct deployment *d = calloc(1, sizeof *d);
    MOB_ASSERT(d);
    *d = (struct deployment){
        .slot = client->slot, .session = client->session, .request = request, .node = node};
    d->pipe_fd = -1;
    d->next = node->deployments;
    node->deployments = d;
    node->deploying++;
    if (bytes != sizeof id) {
        finish(d, MOB_INVALID, "malformed request");
        return;
    }
    if (node->undeploying > 0) {
        finish(d, MOB_AGAIN, "a module is being deleted");
        return;
    }
    memcpy(&id, payload, sizeof id);
    enum mob_status status = mob_store_object_bytes(node->store, id, true, &type, &object, &size);
    if (status != MOB_OK) {
        finish(d, status, "the module's bytes are not in the store");
        return;
    }
    if (mob_value_open(object, size, &value) != MOB_OK || value.type != MOB_TYPE_BYTES) {
        finish(d, MOB_INVALID, NOT_A_MODULE); /* so short that it stands inside the object table's entry */
        return;
    }
    d->module = mob_module_hash(value.payload, value.payload_bytes);
    d->known = node_module_is_known(node, d->module);
    status = write_module(node, d->module, value.payload, value.payload_bytes, path);
    if (status == MOB_OK)
        status = start_describing(node, d, path);
    if (status != MOB_OK)
        finish(d, status, "the module could not be written or inspected");
}
