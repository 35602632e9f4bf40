#include "runtime/node/strangers.h"

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/log.h"
#include "runtime/node/loop_tag.h"
#include "runtime/node/node.h"

static void remove_at(struct node_strangers *strangers, uint32_t i)
{
    strangers->count--;
    memmove(&strangers->at[i], &strangers->at[i + 1], (strangers->count - i) * sizeof strangers->at[0]);
}

static void close_first(struct node *node)
{
    int fd = node->strangers.at[0].fd;
    remove_at(&node->strangers, 0);
    epoll_ctl(node->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
}

void node_stranger_add(struct node *node, int fd)
{
    struct node_strangers *strangers = &node->strangers;
    if (strangers->count == NODE_STRANGERS_MAX) /* perhaps it has said hello, and nobody has looked yet */
        node_hello(node, strangers->at[0].fd);
    if (strangers->count == NODE_STRANGERS_MAX) {
        MOB_LOG_WARN("session", "stranger_closed", "why=\"too many connections that say nothing\"");
        close_first(node);
    }
    strangers->at[strangers->count].fd = fd;
    strangers->at[strangers->count++].since_ns = node->now_ns;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = loop_tag(LOOP_HELLO, (uint32_t)fd)};
    epoll_ctl(node->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static uint32_t place_of(const struct node_strangers *strangers, int fd)
{
    uint32_t i = 0;
    while (i < strangers->count && strangers->at[i].fd != fd)
        i++;
    return i;
}

bool node_is_stranger(const struct node *node, int fd)
{
    return place_of(&node->strangers, fd) < node->strangers.count;
}

void node_stranger_take(struct node *node, int fd)
{
    remove_at(&node->strangers, place_of(&node->strangers, fd));
}

void node_strangers_tick(struct node *node)
{
    const struct node_strangers *strangers = &node->strangers;
    while (strangers->count > 0 && node->now_ns - strangers->at[0].since_ns >= NODE_HELLO_NS) {
        MOB_LOG_WARN("session", "stranger_closed", "why=\"it said nothing\"");
        close_first(node);
    }
}

void node_strangers_close(struct node *node)
{
    while (node->strangers.count > 0)
        close_first(node);
}
