/* What the loop does between two passes: it looks a few times more while others use the core, then sleeps. */
#include "gcs/shard/shard_internal.h"

#include <poll.h>
#include <sys/epoll.h>

/* Waking a process that sleeps on another core costs its waker 9 us, and it runs 30 to 60 us later
 * (docs/performance.md, "What a hop costs"); an answer is there within such a time. */
#define LOOK_NS (100 * MOB_US)

/* Yields first: whoever is to send or to answer may wait for this core. */
static int look(struct mob_shard *sh, struct epoll_event *events, int max)
{
    int n = 0;
    int64_t end = mob_now() + LOOK_NS;
    while (n == 0 && mob_yield_seldom_long(&sh->idle.yielder) && mob_now() < end)
        n = epoll_wait(sh->epoll_fd, events, max, 0);
    return n;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int sleep_ms(const struct mob_shard *sh)
{
    int64_t now = mob_now(), at = sh->second_ns;
    const struct mob_durable *d = &sh->durable;
    if (sh->store.link != NULL && !sh->store.want_write && mob_redis_unsent(sh->store.link))
        return 0;
    bool unsynced = !d->busy && d->synced < sh->store.stored && sh->options.durability != MOB_GCS_NO;
    int64_t pause = sh->options.durability == MOB_GCS_ALWAYS ? 200 * MOB_MS
                                                             : durable_pause(sh); /* after a failed write */
    if (unsynced)
        at = earlier(at, d->last_ns + pause);
    if (sh->store.link == NULL)
        at = earlier(at, sh->store.retry_ns);
    if (mob_chain_collecting(sh->chain))
        at = earlier(at, now + 50 * MOB_MS);
    if (d->rewrite != REWRITE_NONE || store_answers_wait(sh))
        at = earlier(at, now + MOB_MS);
    int64_t gathers = store_gathers_until(sh);
    if (gathers != 0)
        at = earlier(at, gathers);
    at = earlier(at, earlier(member_next_ns(sh, now), peers_next_ns(sh)));
    return at <= now ? 0 : (int)((at - now + MOB_MS - 1) / MOB_MS);
}

/* A joiner's rests are shorter than what epoll_wait can sleep: with a put now and then each would take a
 * millisecond and more, and a join five times as long. */
static int sleep_until(struct mob_shard *sh, int64_t until_ns, struct epoll_event *events, int max)
{
    int64_t ns = until_ns - mob_now();
    struct timespec left = {.tv_nsec = ns > 0 ? ns : 0};
    struct pollfd any = {.fd = sh->epoll_fd, .events = POLLIN};
    (void)ppoll(&any, 1, &left, NULL);
    return epoll_wait(sh->epoll_fd, events, max, 0);
}

int idle_wait(struct mob_shard *sh, struct epoll_event *events, int max)
{
    int n = 0, pause = sleep_ms(sh);
    int64_t rests = mob_chain_rests_until(sh->chain);
    if (sh->idle.lively && pause > 0)
        n = look(sh, events, max);
    if (n == 0 && pause > 0 && rests < mob_now() + MOB_MS)
        n = sleep_until(sh, rests, events, max);
    else if (n == 0)
        n = epoll_wait(sh->epoll_fd, events, max, pause);
    sh->idle.lively = n > 0;
    return n;
}
