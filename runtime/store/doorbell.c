/* Sleeping without lost wake-ups.
 *
 * Both directions are the same argument. The sleeper stores "asleep", then looks at the news once more, then
 * sleeps; the other side stores the news, then looks at "asleep". All four are sequentially consistent, so in
 * their single total order either the sleeper's second look comes after the news (it does not sleep), or the
 * news come after that look, so after "asleep" was stored, and the other side sees it and wakes. Between the
 * sleeper's look and the moment it really sleeps, the wake-up is kept: the node's by the eventfd's counter, a
 * client's by the futex word, which the waker changes and which the sleeper read before it announced.
 *
 * Who wakes resets "asleep", so of many wakers one pays for the system call.
 */
#include "runtime/store/store_internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/clock.h"

enum { YIELDS = 20 };
static const int64_t alive_check_ns = 100 * MOB_MS;

void mob_bell_ring(struct mob_seg_client *client, uint32_t kinds)
{
    uint32_t asleep = MOB_SEG_LOAD_SC(&client->asleep) & kinds;
    if (asleep == 0)
        return;
    if (MOB_SEG_XCHG(&client->asleep, 0) == 0)
        return;
    MOB_SEG_ADD(&client->bell, 1);
    syscall(SYS_futex, &client->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_wait(struct mob_seg_client *client, uint32_t seen, int64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = timeout_ns / MOB_SEC, .tv_nsec = timeout_ns % MOB_SEC};
    syscall(SYS_futex, &client->bell, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

/* Who sleeps. The owner knows what it popped; its watcher is another thread, which must not look at that, and
 * knows what was released. */
struct sleeper {
    struct mob_store_client *client;
    bool watcher;
    const _Atomic bool *stop; /* a watcher's: set before a poke */
};

static bool is_stopped(const struct sleeper *s)
{
    return s->stop && atomic_load(s->stop);
}

static bool space_came(struct mob_store_client *client)
{
    uint64_t full_at = atomic_load_explicit(&client->full_at, memory_order_relaxed);
    if (full_at == CLIENT_HAS_SPACE || MOB_SEG_LOAD_SC(&client->seg_client->out_released) == full_at)
        return false;
    /* Not when the owner found it full anew meanwhile. */
    atomic_compare_exchange_strong(&client->full_at, &full_at, CLIENT_HAS_SPACE); /* private: this process */
    return true;
}

static bool has_news(const struct sleeper *s)
{
    struct mob_seg_client *shared = s->client->seg_client;
    if (mob_store_rings_damaged(s->client))
        return false; /* what the cursors say is none; only whether the node lets go is of interest */
    if (space_came(s->client))
        return true;
    uint64_t seen = s->watcher ? MOB_SEG_LOAD(&shared->in_released) : s->client->in.taken;
    return MOB_SEG_LOAD_SC(&shared->in_head) != seen;
}

static uint32_t kinds_of_news(struct mob_store_client *client)
{
    bool full = atomic_load_explicit(&client->full_at, memory_order_relaxed) != CLIENT_HAS_SPACE;
    return MOB_ASLEEP_RECORDS | (full ? MOB_ASLEEP_SPACE : 0u);
}

static enum mob_status sleep_until_news(
    const struct sleeper *s, int64_t deadline_ns, bool (*node_alive)(void *), void *arg)
{
    struct mob_store_client *client = s->client;
    struct mob_seg_client *shared = client->seg_client;
    for (int i = 0; i < YIELDS; i++) {
        if (has_news(s))
            return MOB_OK;
        if (!mob_yield_briefly())
            break;
    }
    for (;;) {
        uint32_t seen = MOB_SEG_LOAD(&shared->bell);
        MOB_SEG_XCHG(&shared->asleep, kinds_of_news(client));
        int64_t left = 0;
        bool news = has_news(s);
        if (!news && !is_stopped(s)) {
            left = deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - mob_now();
            if (left > 0)
                futex_wait(shared, seen, left < alive_check_ns ? left : alive_check_ns);
        }
        MOB_SEG_STORE(&shared->asleep, 0);
        if (news || has_news(s))
            return MOB_OK;
        if (is_stopped(s))
            return MOB_UNAVAILABLE;
        if (left <= 0 || (deadline_ns != INT64_MAX && mob_now() >= deadline_ns))
            return MOB_TIMEOUT;
        if (node_alive && !node_alive(arg))
            return MOB_UNAVAILABLE;
    }
}

enum mob_status mob_store_sleep(
    struct mob_store_client *client, int64_t deadline_ns, bool (*node_alive)(void *), void *arg)
{
    struct sleeper owner = {.client = client};
    return sleep_until_news(&owner, deadline_ns, node_alive, arg);
}

enum mob_status mob_store_watch(
    struct mob_store_client *client, const _Atomic bool *stop, bool (*go_on)(void *), void *arg)
{
    struct sleeper watcher = {.client = client, .watcher = true, .stop = stop};
    return sleep_until_news(&watcher, INT64_MAX, go_on, arg);
}

void mob_store_wait_space(struct mob_store_client *client)
{
    struct mob_seg_client *shared = client->seg_client;
    for (int i = 0; i < YIELDS; i++) {
        if (MOB_SEG_LOAD_SC(&shared->out_released) != client->out.released)
            return;
        if (!mob_yield_briefly())
            break;
    }
    uint32_t seen = MOB_SEG_LOAD(&shared->bell);
    MOB_SEG_XCHG(&shared->asleep, MOB_ASLEEP_SPACE);
    if (MOB_SEG_LOAD_SC(&shared->out_released) == client->out.released)
        futex_wait(shared, seen, alive_check_ns);
    MOB_SEG_STORE(&shared->asleep, 0);
}

void mob_store_sleep_or(
    struct mob_store_client *client, int64_t deadline_ns, bool (*other_news)(void *), void *arg)
{
    struct mob_seg_client *shared = client->seg_client;
    struct sleeper owner = {.client = client};
    uint32_t seen = MOB_SEG_LOAD(&shared->bell);
    MOB_SEG_XCHG(&shared->asleep, kinds_of_news(client));
    if (!has_news(&owner) && !other_news(arg)) {
        int64_t left = deadline_ns == INT64_MAX ? INT64_MAX : deadline_ns - mob_now();
        if (left > 0)
            futex_wait(shared, seen, left);
    }
    MOB_SEG_STORE(&shared->asleep, 0);
}

void mob_store_poke(struct mob_store_client *client)
{
    struct mob_seg_client *shared = client->seg_client;
    if (MOB_SEG_XCHG(&shared->asleep, 0) == 0)
        return; /* not asleep yet: it looks again before it sleeps; or somebody wakes it already */
    MOB_SEG_ADD(&shared->bell, 1);
    syscall(SYS_futex, &shared->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* ---- node side ---- */

bool mob_store_has_news(struct mob_store *store)
{
    uint32_t words = (store->clients_top + 63) / 64;
    for (uint32_t i = 0; i < words; i++)
        if (store->pending[i] != 0 || MOB_SEG_LOAD_SC(&store->view.seg_header->dirty[i]) != 0)
            return true;
    return false;
}

void mob_store_announce_sleep(struct mob_store *store)
{
    MOB_SEG_XCHG(&store->view.seg_header->node_sleeps, 1);
}

void mob_store_announce_awake(struct mob_store *store)
{
    if (MOB_SEG_XCHG(&store->view.seg_header->node_sleeps, 0) == 1)
        return;
    uint64_t wakes; /* a client reset it and wrote, or is about to: then the next sleep ends early, once */
    ssize_t n = read(store->eventfd, &wakes, sizeof wakes);
    (void)n;
}
