#include "common/base/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void mob_listener_init(struct mob_listener *l, int fd)
{
    *l = (struct mob_listener){.fd = fd, .spare_fd = open_spare()};
}

void mob_listener_fini(struct mob_listener *l)
{
    if (l == NULL || l->fd <= 0)
        return;
    close(l->fd);
    if (l->spare_fd >= 0)
        close(l->spare_fd);
    *l = (struct mob_listener){.fd = -1, .spare_fd = -1};
}

static bool lacks_descriptors(int why)
{
    return why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM;
}

/* One connection is taken and closed: 0. Else why not: without a descriptor the kernel does not say whether
 * anybody is there. */
static int refuse_one(struct mob_listener *l)
{
    if (l->spare_fd >= 0)
        close(l->spare_fd);
    int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int why = fd >= 0 ? 0 : errno;
    if (fd >= 0)
        close(fd);
    l->spare_fd = open_spare();
    return why;
}

int mob_listener_take(struct mob_listener *l, int64_t now_ns)
{
    for (;;) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 && l->spare_fd < 0)
            l->spare_fd = open_spare();
        if (fd >= 0)
            return fd;
        int why = lacks_descriptors(errno) ? refuse_one(l) : errno;
        if (why == 0)
            MOB_LOG_WARN("listener", "connection_refused", "why=\"no more descriptors\"");
        else if (lacks_descriptors(why))
            l->rest_until_ns = now_ns + MOB_LISTENER_REST_NS;
        if (why != 0 && why != EINTR && why != ECONNABORTED)
            return -1;
    }
}

int mob_listener_poll_fd(const struct mob_listener *l, int64_t now_ns)
{
    return now_ns < l->rest_until_ns ? -1 : l->fd;
}
