/* Processes that are no members any more and do not end by themselves: whoever started them is told. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "common/base/unix_socket.h"
#include "common/base/log.h"
#include "gcs/master/master_inner.h"

#define REPLACE_NS \
    (1 * MOB_SEC) /* out of the chain, and its process has not ended by then: have it ended \
                   */
#define HEARD_NS (500 * MOB_MS) /* so lately reported: it is heard of */

static bool in_config(const struct mob_gcs_config *config, uint64_t member)
{
    for (uint32_t i = 0; i < config->count; i++)
        if (config->members[i] == member)
            return true;
    return false;
}

static bool tell_supervisor(const struct master *m, const char *text, size_t length)
{
    struct sockaddr_un address;
    if (mob_unix_address(m->options.replace_socket, &address) != MOB_OK)
        return false;
    ssize_t sent = sendto(m->replace_fd, text, length, 0, (struct sockaddr *)&address, sizeof address);
    return sent == (ssize_t)length;
}

void master_ask_to_end(struct master *m, const char *who, int64_t pid, bool again)
{
    char text[64];
    if (m->replace_fd < 0 || pid <= 0)
        return;
    int n = snprintf(text, sizeof text, "end %lld", (long long)pid);
    bool sent = tell_supervisor(m, text, (size_t)n);
    MOB_LOG_AT(again ? MOB_LOG_LEVEL_DEBUG : MOB_LOG_LEVEL_WARN, "master", "asked_to_end",
        "who=%s pid=%lld sent=%d", who, (long long)pid, sent);
}

static bool is_heard(const struct master *m, const struct member_link *l)
{
    return l->link != NULL && l->member != 0 && m->now_ns - l->heard_ns < HEARD_NS;
}

/* Too short, though every member of it is there: somebody else is missing. */
static bool lacks_a_member(struct master *m)
{
    const struct mob_gcs_config *config = mob_membership_config(m->membership);
    if (!m->began || config->epoch == 0 || config->count >= m->options.replicas)
        return false;
    for (uint32_t i = 0; i < config->count; i++) {
        const struct member_link *l = master_link_of(m, config->members[i]);
        if (l == NULL || !is_heard(m, l))
            return false;
    }
    return true;
}

/* A process that was stopped, or hung, before this master heard of it has no link by which its pid would be
 * known. So the supervisor is told whom this master hears, and ends who has been at it for long and is not
 * among them. Never while a member of the chain is silent: that may be the only one that has everything. */
void master_look_for_unheard(struct master *m)
{
    char text[512];
    if (m->replace_fd < 0 || !lacks_a_member(m)) {
        m->short_ns = 0;
        return;
    }
    if (m->short_ns == 0)
        m->short_ns = m->now_ns;
    if (m->now_ns - m->short_ns < REPLACE_NS)
        return;
    m->short_ns = m->now_ns; /* and again */
    size_t used = (size_t)snprintf(text, sizeof text, "lacks %u", m->options.shard);
    for (uint32_t i = 0; i < LINKS_MAX; i++)
        if (is_heard(m, &m->links[i]) && used + 24 < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " %lld", (long long)m->links[i].pid);
    bool sent = tell_supervisor(m, text, used);
    MOB_LOG_DEBUG("master", "chain_is_short", "told=\"%s\" sent=%d", text, sent);
}

/* A process that was a member, and has been left out, is to end and to come back as another one. One that is
 * stopped or hangs does not do so by itself. */
void master_look_for_zombies(struct master *m)
{
    const struct mob_gcs_config *config = mob_membership_config(m->membership);
    for (uint32_t i = 0; i < LINKS_MAX; i++) {
        struct member_link *l = &m->links[i];
        if (l->link == NULL || l->member == 0)
            continue;
        bool is_in = in_config(config, l->member);
        if (is_in || !l->was_in) {
            l->was_in = is_in;
            l->out_ns = 0;
            l->end_asked = false;
        } else if (l->out_ns == 0) {
            l->out_ns = m->now_ns;
        } else if (m->now_ns - l->out_ns >= REPLACE_NS) {
            char member[20];
            snprintf(member, sizeof member, "%llx", (unsigned long long)l->member);
            master_ask_to_end(m, member, l->pid, l->end_asked);
            l->end_asked = true;
            l->out_ns = m->now_ns;
        }
    }
}
