/* Sessions of drivers and the gateway: the unix socket, the handshake, and their end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/unix_socket.h"
#include "common/base/log.h"
#include "common/base/log_value.h"
#include "runtime/node/jobs.h"
#include "runtime/node/lane.h"
#include "runtime/node/loop_tag.h"
#include "runtime/node/notices.h"
#include "runtime/node/task.h"
#include "runtime/node/workers.h"

enum { LISTEN_BACKLOG = 128, REAPED_FOR_A_CLIENT = 8 };

enum mob_status node_listen(struct node *node)
{
    char path[sizeof node->options.directory + sizeof MOB_NODE_SOCKET_NAME];
    int fd;
    snprintf(path, sizeof path, "%s/" MOB_NODE_SOCKET_NAME, node->options.directory);
    enum mob_status status = mob_unix_bind(path, SOCK_SEQPACKET, LISTEN_BACKLOG, &fd);
    if (status != MOB_OK)
        return status;
    /* By edges: while there is no descriptor for them, those who connect must not keep the loop awake. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = loop_tag(LOOP_LISTEN, 0)};
    epoll_ctl(node->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    mob_listener_init(&node->listener, fd);
    return MOB_OK;
}

void node_accept(struct node *node)
{
    int fd;
    node->listener.rest_until_ns = 0;
    while ((fd = mob_listener_take(&node->listener, node->now_ns)) >= 0)
        node_stranger_add(node, fd);
}

void node_accept_tick(struct node *node)
{
    if (node->listener.rest_until_ns != 0 && node->now_ns >= node->listener.rest_until_ns)
        node_accept(node);
    node_strangers_tick(node);
}

static enum mob_status check_hello(
    const void *bytes, size_t length, struct mob_session_hello *hello_out, char detail[MOB_SESSION_DETAIL])
{
    enum mob_status status = mob_session_hello_decode(bytes, length, hello_out, detail);
    if (status != MOB_OK || hello_out->kind == MOB_CLIENT_DRIVER || hello_out->kind == MOB_CLIENT_GATEWAY)
        return status;
    snprintf(detail, MOB_SESSION_DETAIL, "malformed hello");
    return MOB_INVALID;
}

static void send_welcome(int fd, const struct mob_session_welcome *welcome, const int *fds, int fd_count)
{
    struct iovec piece = {(void *)(uintptr_t)welcome, sizeof *welcome};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (fd_count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)fd_count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN((size_t)fd_count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, (size_t)fd_count * sizeof(int));
    }
    if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof *welcome)
        MOB_LOG_WARN("session", "welcome_failed", "fd=%d errno=%d", fd, errno);
}

static void refuse(struct node *node, int fd, enum mob_status status, const char *detail)
{
    struct mob_session_welcome welcome = {
        .magic = MOB_SESSION_MAGIC, .version = MOB_SESSION_VERSION, .status = (uint16_t)status};
    snprintf(welcome.detail, sizeof welcome.detail, "%s", detail);
    send_welcome(fd, &welcome, NULL, 0);
    epoll_ctl(node->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
    MOB_LOG_WARN(
        "session", "refused", "status=%s why=\"%s\"", mob_status_code(status), MOB_LOG_VALUE(detail));
}

static struct node_job *standing_job(struct node *node, const char *ns)
{
    for (struct node_job *job = node->jobs.first; job; job = job->next)
        if (job->standing && strcmp(job->ns, ns) == 0)
            return job;
    struct node_job_options options = {
        .ns = ns, .name = "standing", .root = mob_root_id_random(), .standing = true, .detached = true};
    return node_job_open(node, &options);
}

static const char *ns_of(const struct mob_session_hello *hello)
{
    return hello->ns[0] ? hello->ns : "default";
}

static enum mob_status join(
    struct node *node, const struct mob_session_hello *hello, struct node_job **job_out)
{
    struct mob_job_id id;
    struct node_job *job = mob_job_id_parse(hello->job_name, &id) == MOB_OK ? node_job_by_id(node, id) : NULL;
    if (!(hello->flags & MOB_SESSION_GATEWAY))
        return MOB_DENIED;
    if (!job || job->deleted || strcmp(job->ns, ns_of(hello)) != 0)
        return MOB_NOT_FOUND;
    if (job->state == JOB_ENDED)
        return MOB_FINISHED;
    *job_out = job;
    return MOB_OK;
}

/* A driver's: a resumed one, a keyed one, or a new one. */
static struct node_job *own_job(
    struct node *node, int fd, const struct mob_session_hello *hello, bool *known_out)
{
    bool over_http = (hello->flags & MOB_SESSION_GATEWAY) != 0, keyed = hello->idempotency_key[0] != 0;
    struct driver_process driver = {0};
    if (!keyed && !over_http)
        driver = driver_process_of(fd);
    const char *ns = ns_of(hello);
    struct mob_task_id root = hello->resume_root;
    if (mob_task_id_is_zero(root))
        root = hello->idempotency_key[0]
            ? mob_root_id_keyed(node->secret, ns, "local", hello->idempotency_key)
            : mob_root_id_random();
    struct node_job *job = node_job_by_id(node, (struct mob_job_id){root.stream});
    if (job && strcmp(job->ns, ns) == 0) {
        node_job_rejoined(node, job, keyed, driver);
        node_job_set_weight(node, job, hello->job_weight);
        *known_out = true; /* its driver submits the same ids again: what is known is found, not run twice */
        return job;
    }
    *known_out = hello->resume_incarnation != 0;
    struct node_job_options options = {.ns = ns,
        .name = hello->job_name,
        .root = root,
        .weight = hello->job_weight,
        .detached = (hello->flags & MOB_SESSION_DETACHED) != 0,
        .over_http = over_http,
        .keyed = keyed,
        .driver = driver};
    return node_job_open(node, &options);
}

/* The job that this session works in. */
static enum mob_status job_of(struct node *node, int fd, const struct mob_session_hello *hello,
    struct node_job **job_out, bool *known_out)
{
    if (hello->flags & MOB_SESSION_JOIN)
        return join(node, hello, job_out);
    *job_out = hello->flags & MOB_SESSION_STANDING_JOB ? standing_job(node, ns_of(hello))
                                                       : own_job(node, fd, hello, known_out);
    return *job_out ? MOB_OK : MOB_QUEUE_FULL;
}

/* Sessions of gateways come and go, and several may share a job: each submits under a root of its own, as
 * parallel submitters do. */
static bool shares_job(const struct mob_session_hello *hello, const struct node_job *job)
{
    return job->standing || (hello->flags & (MOB_SESSION_JOIN | MOB_SESSION_GATEWAY)) != 0;
}

static void welcome_client(struct node *node, int fd, const struct mob_session_hello *hello)
{
    if (node->stopping || !node->ready) {
        refuse(node, fd, MOB_UNAVAILABLE, node->stopping ? "the node is stopping" : "the node is starting");
        return;
    }
    bool known = false;
    struct node_job *job;
    struct mob_client_options options = {.kind = (enum mob_client_kind)hello->kind};
    uint32_t slot;
    enum mob_status status = job_of(node, fd, hello, &job, &known);
    if (status != MOB_OK) {
        refuse(node, fd, status,
            status == MOB_NOT_FOUND      ? "no such job"
                : status == MOB_DENIED   ? "only a gateway joins other jobs"
                : status == MOB_FINISHED ? "the job has ended"
                                         : "too many jobs");
        return;
    }
    status = node_rings_open(node, &options, &slot);
    if (status != MOB_OK) { /* workers that have waited have their rings for a while: when it comes again,
                               some have gone */
        mob_sched_reap_now(node->sched, REAPED_FOR_A_CLIENT);
        refuse(node, fd, status, "no room for another client in the segment");
        return;
    }
    struct node_client *client = node_client_add(node, slot, (enum mob_client_kind)hello->kind);
    client->fd = fd;
    client->pid = (pid_t)hello->pid;
    client->flags = hello->flags;
    client->read_local = (hello->flags & MOB_SESSION_READ_LOCAL) != 0;
    client->job = job;
    client->root = job->root;
    client->look_up = known;
    job->sessions++;
    job->drivers += client->kind == MOB_CLIENT_DRIVER;
    client->fresh_stream = hello->resume_stream;
    /* under a key an earlier process may have used them */
    bool knows = hello->resume_incarnation != 0 && !hello->idempotency_key[0];
    client->fresh_index = knows ? hello->resume_next_child : UINT32_MAX;
    struct mob_session_welcome welcome = {
        .magic = MOB_SESSION_MAGIC,
        .version = MOB_SESSION_VERSION,
        .status = MOB_OK,
        .slot = slot,
        .incarnation = node->incarnation,
        .cluster = node->cluster,
        .job = job->id,
        .root = job->root,
        .next_child = job->standing ? job->next_child : 0,
    };
    if (shares_job(hello, job)) {
        welcome.root = mob_task_id_is_zero(hello->resume_root) ? mob_root_id_random() : hello->resume_root;
        client->look_up = !mob_task_id_is_zero(hello->resume_root);
        welcome.next_child = 0;
        client->root = welcome.root;
    }
    int fds[2] = {mob_store_memfd(node->store), mob_store_eventfd(node->store)};
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = loop_tag(LOOP_SESSION, slot)};
    epoll_ctl(node->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    send_welcome(fd, &welcome, fds, 2);
    MOB_LOG_INFO("session", "opened", "slot=%u pid=%u kind=%u ns=\"%s\" job=\"%s\"", slot, hello->pid,
        hello->kind, MOB_LOG_VALUE(job->ns), MOB_LOG_VALUE(job->name));
}

void node_hello(struct node *node, int fd)
{
    struct mob_session_hello hello;
    uint8_t sent[sizeof hello];
    char detail[MOB_SESSION_DETAIL] = "";
    if (!node_is_stranger(node, fd))
        return;
    ssize_t bytes = recv(fd, sent, sizeof sent, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    node_stranger_take(node, fd);
    if (bytes <= 0) {
        epoll_ctl(node->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        close(fd);
        return;
    }
    enum mob_status status = check_hello(sent, (size_t)bytes, &hello, detail);
    if (status != MOB_OK)
        refuse(node, fd, status, detail);
    else
        welcome_client(node, fd, &hello);
}

void node_session_readable(struct node *node, struct node_client *client)
{
    uint8_t byte;
    ssize_t n = recv(client->fd, &byte, 1, MSG_DONTWAIT);
    if (n < 0 && errno == ECONNRESET) /* it closed with our welcome unread; what it said stands behind that */
        n = recv(client->fd, &byte, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    client->comes_again = n == 1 && byte == MOB_SESSION_AGAIN;
    epoll_ctl(node->epoll_fd, EPOLL_CTL_DEL, client->fd, NULL);
    client->closing = true;
    node->closing_clients++;
    mob_store_client_ended(node->store, client->slot); /* what it published last is taken by the next pass */
}

struct node_client *node_client_add(struct node *node, uint32_t slot, enum mob_client_kind kind)
{
    struct node_client *client = calloc(1, sizeof *client);
    MOB_ASSERT(client && slot <= MOB_STORE_CLIENTS_MAX && !node->clients[slot]);
    client->slot = slot;
    client->session = ++node->sessions_given;
    client->kind = (uint16_t)kind;
    client->fd = -1;
    node->clients[slot] = client;
    if (slot >= node->client_top)
        node->client_top = slot + 1;
    return client;
}

struct node_client *node_client_at(struct node *node, uint32_t slot)
{
    return slot <= MOB_STORE_CLIENTS_MAX ? node->clients[slot] : NULL;
}

bool node_client_is(struct node *node, uint32_t slot, uint32_t session)
{
    struct node_client *client = node_client_at(node, slot);
    return client && client->session == session;
}

void node_client_end(struct node *node, struct node_client *client, const char *why)
{
    struct node_job *job = client->job;
    MOB_LOG_INFO(
        "session", "ended", "slot=%u pid=%d why=\"%s\"", client->slot, client->pid, MOB_LOG_VALUE(why));
    if (client->fd >= 0) {
        epoll_ctl(node->epoll_fd, EPOLL_CTL_DEL, client->fd, NULL);
        close(client->fd);
    }
    node_unwatch_client(node, client);
    node_promises_broken(node, client);
    mob_store_client_close(node->store, client->slot);
    for (uint32_t i = 0; i < MOB_HEAD_SLOTS; i++)
        node_template_drop(node, client->templates[i]);
    node_notices_forget(node, client);
    if (job && client->kind != MOB_CLIENT_WORKER)
        job->sessions--;
    node->clients[client->slot] = NULL;
    free(client);
}

/* A gateway's session of a job does not keep it. */
static void session_over(struct node *node, struct node_client *client, const void *argument)
{
    (void)argument;
    struct node_job *job = client->job;
    bool last = client->kind == MOB_CLIENT_DRIVER && --job->drivers == 0;
    bool for_good = !client->damaged && !client->comes_again;
    node_client_end(node, client, "its process closed the session");
    if (last)
        node_job_left(node, job, for_good);
}

/* Sessions whose sockets ended: what their rings still hold was taken by the pass before this is called. */
void node_sessions_close(struct node *node)
{
    if (node->closing_clients == 0)
        return;
    for (uint32_t slot = 0; slot < node->client_top; slot++) {
        struct node_client *client = node->clients[slot];
        if (!client || !client->closing || client->ending || client->kind == MOB_CLIENT_WORKER)
            continue;
        client->ending = true;
        if (!node_lane_then(node, client, session_over, NULL, 0))
            session_over(node, client, NULL);
    }
    node->closing_clients = 0;
}
