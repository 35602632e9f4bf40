/* How the engine's thread sleeps, and who wakes it.
 *
 * What comes often must cost little: notices from the node, and operations from the fronts. Both ring the
 * doorbell of the standing job's session, on which the thread sleeps: the node rings it anyway, and the
 * fronts, which are threads of this process, poke it (mob_client_poke). What comes seldom (answers of the
 * control store, notices of other jobs' sessions) comes through descriptors; a thread waits for those, and
 * pokes too.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "server/api/engine_inner.h"

enum { AWAKE, ASLEEP, POKED };
#define ALIVE_CHECK_NS (100 * MOB_MS)

/* Both of this process alone: while there is no session, and for the thread that waits for descriptors. */
static void wait_while(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = timeout_ns / MOB_SEC, .tv_nsec = timeout_ns % MOB_SEC};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &timeout, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void engine_ring(struct engine *engine)
{
    struct engine_rest *rest = &engine->rest;
    int asleep = ASLEEP;
    if (!atomic_compare_exchange_strong(&rest->state, &asleep, POKED))
        return; /* awake, and looks again before it sleeps; or somebody wakes it */
    /* The session's segment stays until the state is AWAKE again. */
    if (rest->bell_of) {
        mob_client_poke(rest->bell_of);
    } else {
        atomic_fetch_add(&rest->bell, 1);
        wake(&rest->bell);
    }
    atomic_store(&rest->state, AWAKE);
}

/* What is wanted of a control store that is away is done when that is back. */
static bool has_event_news(const struct engine *engine)
{
    return engine->gcs_up && (atomic_load(&engine->events_wanted) || atomic_load(&engine->events_behind));
}

static bool has_news(void *arg)
{
    struct engine *engine = arg;
    return atomic_load(&engine->inbox) || atomic_load(&engine->returned) || has_event_news(engine) ||
        atomic_load(&engine->stopping) || atomic_load(&engine->rest.readable) || engine_errands_news(engine);
}

void engine_sleep(struct engine *engine, int64_t deadline_ns)
{
    struct engine_rest *rest = &engine->rest;
    int64_t now = mob_now();
    if (deadline_ns > now + ALIVE_CHECK_NS) /* a node that is gone rings nobody */
        deadline_ns = now + ALIVE_CHECK_NS;
    rest->bell_of = engine->session_count > 0 ? engine->sessions[0].client : NULL;
    uint32_t seen = atomic_load(&rest->bell);
    atomic_store(&rest->state, ASLEEP);
    if (rest->bell_of)
        mob_client_sleep(rest->bell_of, deadline_ns, has_news, engine);
    else if (deadline_ns > now && !has_news(engine))
        wait_while(&rest->bell, seen, deadline_ns - now);
    for (int asleep = ASLEEP; !atomic_compare_exchange_strong(&rest->state, &asleep, AWAKE);
         asleep = ASLEEP) {
        if (asleep == AWAKE)
            break;
        sched_yield(); /* somebody is in the middle of a poke */
    }
}

/* --- descriptors --- */

static void *watch_descriptors(void *arg)
{
    struct engine *engine = arg;
    struct engine_rest *rest = &engine->rest;
    struct epoll_event events[8];
    pthread_setname_np(pthread_self(), "engine-fds");
    for (;;) {
        (void)MOB_FAILPOINT("gateway.before_watch");
        int n = epoll_wait(engine->epoll_fd, events, 8, -1);
        if (atomic_load(&engine->stopping))
            return NULL;
        if (n <= 0)
            continue;
        atomic_store(&rest->readable, 1);
        engine_ring(engine);
        while (atomic_load(&rest->readable) && !atomic_load(&engine->stopping))
            wait_while(&rest->readable, 1, MOB_SEC);
    }
}

bool engine_descriptor_news(struct engine *engine)
{
    return atomic_load_explicit(&engine->rest.readable, memory_order_relaxed) != 0;
}

void engine_descriptors_read(struct engine *engine)
{
    engine->worked++;
    atomic_store(&engine->rest.readable, 0);
    wake(&engine->rest.readable);
}

enum mob_status engine_rest_start(struct engine *engine)
{
    struct epoll_event event = {.events = EPOLLIN};
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    engine->rest.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->epoll_fd < 0 || engine->rest.stop_fd < 0 ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->rest.stop_fd, &event) < 0 ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, mob_gcs_fd(engine->gcs), &event) < 0 ||
        pthread_create(&engine->rest.thread, NULL, watch_descriptors, engine) != 0)
        return MOB_IO;
    return MOB_OK;
}

void engine_rest_stop(struct engine *engine)
{
    uint64_t one = 1;
    while (write(engine->rest.stop_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    atomic_store(&engine->rest.readable, 0);
    wake(&engine->rest.readable);
    pthread_join(engine->rest.thread, NULL);
    close(engine->rest.stop_fd);
    close(engine->epoll_fd);
}
