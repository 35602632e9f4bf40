/* The event-loop form. A futex cannot be polled, so a helper thread sleeps on the doorbell and writes an
 * eventfd. It does so only while the fd is armed, that is after a step that left nothing to do: a busy loop
 * pays for neither. */
#include "sdk/c/client.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/log_value.h"

struct mob_event_fd {
    struct mob_client *client;
    int fd;
    sem_t arm;
    pthread_t thread;
    _Atomic bool armed; /* private: two threads of this process */
    _Atomic bool stop; /* private: two threads of this process */
};

static void *helper_main(void *arg)
{
    struct mob_event_fd *e = arg;
    for (;;) {
        while (sem_wait(&e->arm) != 0) {
        }
        if (e->stop)
            return NULL;
        /* Whatever ends the sleep is for the loop to look at: a record, or the end of the node. */
        enum mob_status status = mob_store_watch(e->client->store, &e->stop, mob_session_alive, e->client);
        (void)status;
        e->armed = false;
        uint64_t one = 1;
        if (write(e->fd, &one, sizeof one) < 0)
            MOB_LOG_ERROR("sdk", "eventfd_write_failed", "fd=%d", e->fd);
    }
}

static struct mob_event_fd *event_fd_new(struct mob_client *client)
{
    struct mob_event_fd *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->client = client;
    e->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (e->fd < 0)
        goto err_free;
    sem_init(&e->arm, 0, 0);
    if (pthread_create(&e->thread, NULL, helper_main, e) != 0)
        goto err_close;
    return e;
err_close:
    close(e->fd);
err_free:
    free(e);
    return NULL;
}

static void mob_event_fd_arm(struct mob_client *client)
{
    struct mob_event_fd *e = client->event_fd;
    if (e == NULL || e->armed)
        return;
    e->armed = true;
    sem_post(&e->arm);
}

int mob_client_fd(struct mob_client *client)
{
    if (client == NULL) {
        (void)mob_say_null(NULL, "client");
        return -1;
    }
    if (client->event_fd == NULL) {
        client->event_fd = event_fd_new(client);
        if (client->event_fd == NULL)
            return -1;
        mob_event_fd_arm(client);
    }
    return client->event_fd->fd;
}

/* Instead of sleeping on the doorbell, which has one sleeper. */
void mob_event_fd_wait(struct mob_client *client, int timeout_ms)
{
    struct mob_event_fd *e = client->event_fd;
    mob_event_fd_arm(client);
    struct pollfd p = {e->fd, POLLIN, 0};
    poll(&p, 1, timeout_ms);
}

void mob_event_fd_quiesce(struct mob_client *client)
{
    while (client->event_fd != NULL && client->event_fd->armed) {
        mob_store_poke(client->store); /* else it looks at the socket ten times a second */
        poll(NULL, 0, 1);
    }
}

/* Long enough for a node that is there to answer; the only time that a step blocks. */
#define RESUME_STEP_NS (100 * MOB_MS)

#define ALIVE_INTERVAL_NS (50 * MOB_MS)

void mob_client_own_loop(struct mob_client *client)
{
    client->own_loop = true;
}

/* Is this step to look whether the node is still there? */
static bool looks_alive(struct mob_client *client)
{
    struct mob_event_fd *e = client->event_fd;
    if (client->own_loop) {
        int64_t now = mob_now();
        if (now - client->alive_checked_ns < ALIVE_INTERVAL_NS)
            return false;
        client->alive_checked_ns = now;
        return true;
    }
    if (e == NULL || e->armed)
        return false;
    uint64_t count;
    ssize_t n = read(e->fd, &count, sizeof count);
    (void)n;
    return true;
}

int mob_client_step(struct mob_client *client)
{
    if (client == NULL) {
        (void)mob_say_null(NULL, "client");
        return 0;
    }
    uint32_t settled = client->settled;
    if (looks_alive(client) && !mob_session_alive(client) &&
        mob_client_resume(client, mob_now() + RESUME_STEP_NS) != MOB_OK)
        MOB_LOG_WARN("sdk", "node_away", "reason=\"%s\"", MOB_LOG_VALUE(client->error));
    mob_client_pump(client);
    mob_requests_run(client);
    mob_run_callbacks(client);
    if (mob_client_flush_releases(client) != MOB_OK)
        MOB_LOG_WARN("sdk", "releases_dropped", "reason=\"%s\"", MOB_LOG_VALUE(client->error));
    mob_event_fd_arm(client);
    return (int)(client->settled - settled);
}

void mob_event_fd_free(struct mob_client *client)
{
    struct mob_event_fd *e = client->event_fd;
    if (e == NULL)
        return;
    e->stop = true;
    mob_store_poke(client->store); /* a loop that serves many must not wait for a look at the socket */
    sem_post(&e->arm);
    pthread_join(e->thread, NULL);
    close(e->fd);
    sem_destroy(&e->arm);
    free(e);
    client->event_fd = NULL;
}
