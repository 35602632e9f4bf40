/* Deploying a module: its bytes (an object) are written to modules/<hash>.so, a separate process loads the
 * file once and prints what is in it (user code never runs in the node), then every function is registered
 * under its name and under "name@hash", so that a name means the newest and a pinned one stays.
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

enum { DESCRIPTION_MAX = 256 * 1024, DESCRIBE_SECONDS_MAX = 10 };

/* A deployment on its way. */
struct deployment {
    struct deployment *next;
    pid_t pid;
    int pipe_fd;
    int64_t deadline_ns;
    struct mob_module_hash module;
    uint32_t slot, session, request;
    uint32_t puts_waiting;
    bool known; /* that content was deployed before */
    enum mob_status status;
    struct node *node;
    size_t used;
    char text[DESCRIPTION_MAX];
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
    free(d);
}

void node_deployments_drop(struct node *node)
{
    while (node->deployments) {
        struct deployment *next = node->deployments->next;
        if (node->deployments->pipe_fd >= 0) {
            kill(node->deployments->pid, SIGKILL);
            close(node->deployments->pipe_fd);
        }
        free(node->deployments);
        node->deployments = next;
    }
}

static void put_done(void *arg, const struct mob_gcs_answer *answer)
{
    struct deployment *d = arg;
    if (answer->status != MOB_OK)
        d->status = answer->status;
    if (--d->puts_waiting == 0)
        finish(d, d->status, "the control store refused the function table's rows");
}

static void put_row(struct deployment *d, const char *key, const void *value, uint32_t bytes)
{
    struct mob_gcs_put put = {
        .table = MOB_GCS_FUNCTIONS,
        .key = key,
        .key_length = (uint32_t)strlen(key),
        .value = value,
        .value_length = bytes,
        .if_version = MOB_GCS_ANY_VERSION,
    };
    d->puts_waiting++;
    enum mob_status status = mob_gcs_put(d->node->gcs, &put, put_done, d);
    if (status != MOB_OK) {
        d->puts_waiting--;
        d->status = status;
    }
}

/* A function or class on its way into the table, with its methods' lines. */
struct described {
    char name[160];
    uint16_t kind, methods, flags;
    char *signature;
    size_t length;
};

static void register_function(struct deployment *d, const char *module, const struct described *one)
{
    char key[MOB_GCS_KEY_MAX], pinned[MOB_GCS_KEY_MAX + 80], hash[64];
    if (snprintf(key, sizeof key, "%s.%s", module, one->name) >= (int)sizeof key - 60) {
        d->status = MOB_TOO_LARGE;
        return;
    }
    struct function_record record = {.version = FUNCTION_RECORD_VERSION,
        .kind = one->kind,
        .method_count = one->methods,
        .flags = one->flags,
        .id = mob_function_id(d->module, one->name),
        .module = d->module};
    char *value = malloc(sizeof record + one->length);
    MOB_ASSERT(value);
    memcpy(value, &record, sizeof record);
    memcpy(value + sizeof record, one->signature, one->length);
    mob_base32_encode(d->module.b, sizeof d->module.b, hash);
    snprintf(pinned, sizeof pinned, "%s@%s", key, hash);
    put_row(d, key, value, (uint32_t)(sizeof record + one->length));
    put_row(d, pinned, value, (uint32_t)(sizeof record + one->length));
    if (!node_function_add(d->node, key, strlen(key), &record, one->signature, one->length, true))
        d->status = MOB_QUEUE_FULL;
    free(value);
}

enum { FIELDS_MAX = 6 };

static int split(char *line, char *fields[FIELDS_MAX])
{
    int n = 0;
    for (char *at = line; at && n < FIELDS_MAX; n++) {
        fields[n] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
    }
    return n;
}

static void described_end(struct deployment *d, const char *module, struct described *one)
{
    if (one->kind)
        register_function(d, module, one);
    one->kind = 0;
}

static void described_begin(struct described *one, char *fields[FIELDS_MAX], uint16_t kind)
{
    one->kind = kind;
    one->methods = 0;
    one->flags = (uint16_t)strtoul(fields[2], NULL, 10);
    snprintf(one->name, sizeof one->name, "%s", fields[1]);
    one->length = strlen(fields[3]);
    memcpy(one->signature, fields[3], one->length);
}

/* Lines of runtime/worker/inspect.h. A class' signature is its constructor's, then a line "method signature"
 * each. */
static void register_all(struct deployment *d)
{
    char module[160] = "", *save = NULL, *fields[FIELDS_MAX];
    struct described one = {.signature = malloc(d->used + 1)};
    MOB_ASSERT(one.signature);
    d->puts_waiting = 1; /* ours, so that no early answer finishes it */
    for (char *line = strtok_r(d->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int n = split(line, fields);
        if (n >= 2 && strcmp(fields[0], "module") == 0) {
            snprintf(module, sizeof module, "%s", fields[1]);
        } else if (n >= 4 && strcmp(fields[0], "method") == 0 && one.kind) {
            one.length += (size_t)sprintf(one.signature + one.length, "\n%s %s", fields[1], fields[3]);
            one.methods++;
        } else if (n >= 4) {
            described_end(d, module, &one);
            bool class = strcmp(fields[0], "class") == 0;
            described_begin(&one, fields, class ? MOB_KIND_ACTOR_CREATE : MOB_KIND_TASK);
        }
    }
    described_end(d, module, &one);
    free(one.signature);
    if (--d->puts_waiting == 0)
        finish(d, d->status == MOB_OK ? MOB_INVALID : d->status, "the module has no functions");
}

static const char NOT_A_MODULE[] = "the file is not a function module";

/* "error CODE REASON", or nothing that can be understood. */
static void finish_refused(struct deployment *d, int wait_status)
{
    char message[400], *fields[FIELDS_MAX];
    if (WIFSIGNALED(wait_status)) {
        snprintf(message, sizeof message, "loading the module ended with signal %d", WTERMSIG(wait_status));
        finish(d, MOB_INVALID, message);
        return;
    }
    d->text[strcspn(d->text, "\n")] = '\0';
    int n = split(d->text, fields);
    if (n >= 3 && strcmp(fields[0], "error") == 0) {
        snprintf(message, sizeof message, "%.380s", fields[2]);
        finish(d, mob_status_from_code(fields[1]), message);
    } else {
        finish(d, MOB_INVALID, NOT_A_MODULE);
    }
}

void node_describe_readable(struct node *node, int fd)
{
    struct deployment *d = node->deployments;
    while (d && d->pipe_fd != fd)
        d = d->next;
    if (!d)
        return;
    ssize_t n = read(fd, d->text + d->used, sizeof d->text - 1 - d->used);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        d->used += (size_t)n;
        if (d->used < sizeof d->text - 1)
            return;
    }
    epoll_ctl(node->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
    d->pipe_fd = -1;
    int wait_status = 0;
    if (d->used >= sizeof d->text - 1 || n != 0)
        kill(d->pid, SIGKILL);
    waitpid(d->pid, &wait_status, 0); /* its end of the pipe is closed: it is ending */
    d->text[d->used] = '\0';
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
        register_all(d);
        return;
    }
    finish_refused(d, wait_status);
}

void node_deployments_tick(struct node *node)
{
    for (struct deployment *d = node->deployments; d; d = d->next)
        if (d->pipe_fd >= 0 && node->now_ns > d->deadline_ns)
            kill(d->pid, SIGKILL);
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
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    char *argv[] = {node->options.worker_binary, (char *)"--inspect", (char *)(uintptr_t)path, NULL};
    int failed = posix_spawn(&d->pid, node->options.worker_binary, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
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
