#include "gcs/life/node_life.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/client/client_sync.h"
#include "gcs/link/link.h"

#define ASK_NS (200 * MOB_MS) /* an ENROLL without an answer is sent again */
#define REDIAL_NS (50 * MOB_MS)
#define FULL_NS (1 * MOB_SEC)

/* A link to one master. The thread's own. */
struct master {
    const char *address;
    struct mob_link *link;
    int64_t dial_ns, ask_ns;
};

struct mob_node_life {
    char *text; /* addresses, cut into pieces */
    uint32_t shards;
    const char *first_of_shard[64];
    struct mob_link_self self;
    struct mob_chunk_pool pool;
    struct mob_gcs_enroll enroll;
    pthread_t thread;
    int stop_fd, over_fd;
    _Atomic int64_t at_ns;
    _Atomic bool over, leaves;
    struct master masters[MOB_NODE_LIFE_MASTERS_MAX];
    uint32_t master_count;
    int64_t ask_ns; /* not before */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool answered;
    enum mob_status status;
    uint64_t incarnation;
};

/* ---- addresses ---- */

static bool split_shards(struct mob_node_life *life, const char *text)
{
    life->text = strdup(text);
    for (char *at = life->text; at != NULL;) {
        char *end = strchr(at, ';');
        if (life->shards == sizeof life->first_of_shard / sizeof life->first_of_shard[0])
            return false;
        life->first_of_shard[life->shards++] = at;
        if (end != NULL)
            *end++ = 0;
        at = end;
    }
    return life->text != NULL && life->text[0] != 0;
}

static void drop_links(struct mob_node_life *life)
{
    for (uint32_t i = 0; i < life->master_count; i++) {
        mob_link_destroy(life->masters[i].link);
        free((char *)(uintptr_t)life->masters[i].address);
    }
    life->master_count = 0;
}

/* From here on it speaks with the masters of this shard. */
static void go_to(struct mob_node_life *life, uint32_t shard)
{
    drop_links(life);
    life->self.shard = shard;
    for (const char *at = life->first_of_shard[shard]; at != NULL;) {
        size_t length = strcspn(at, ",");
        if (life->master_count < MOB_NODE_LIFE_MASTERS_MAX)
            life->masters[life->master_count++] = (struct master){.address = strndup(at, length)};
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
}

/* ---- what masters say ---- */

static void answer(struct mob_node_life *life, enum mob_status status, uint64_t incarnation)
{
    pthread_mutex_lock(&life->lock);
    life->answered = true;
    life->status = status;
    life->incarnation = incarnation;
    pthread_cond_signal(&life->changed);
    pthread_mutex_unlock(&life->lock);
}

/* True: the links were exchanged. */
static bool on_enrolled(struct mob_node_life *life, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_enrolled e;
    if (frame->head_bytes != sizeof e || life->answered)
        return false;
    memcpy(&e, frame->head, sizeof e);
    if (e.status == MOB_MISDIRECTED && e.home < life->shards && e.home != life->self.shard) {
        go_to(life, e.home);
        return true;
    }
    if (e.status == MOB_QUEUE_FULL)
        life->ask_ns = mob_now() + FULL_NS;
    else
        answer(life, (enum mob_status)e.status, e.incarnation);
    return false;
}

static void on_heard(struct mob_node_life *life, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_node_heard h;
    uint64_t one = 1;
    if (frame->head_bytes != sizeof h)
        return;
    memcpy(&h, frame->head, sizeof h);
    if (h.over == 0 || h.incarnation != life->incarnation || atomic_exchange(&life->over, true))
        return;
    ssize_t n = write(life->over_fd, &one, sizeof one);
    (void)n; /* it is the only one */
}

static bool hear(struct mob_node_life *life, struct master *m)
{
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    enum mob_status status;
    while ((status = mob_link_next(m->link, &frame, &chunk)) == MOB_OK) {
        if (frame.type == MOB_GCS_ENROLLED && on_enrolled(life, &frame))
            return true;
        if (frame.type == MOB_GCS_NODE_HEARD)
            on_heard(life, &frame);
    }
    if (status != MOB_AGAIN) {
        mob_link_destroy(m->link);
        m->link = NULL;
        m->ask_ns = 0;
    }
    return false;
}

/* ---- what they are told ---- */

static void say(struct master *m, uint8_t type, const void *head, uint32_t bytes)
{
    struct mob_link_message message = {.type = type, .head = head, .head_bytes = bytes};
    /* One that does not read gets no old heartbeats later. */
    if (mob_link_unsent(m->link) == 0 && mob_link_send(m->link, &message) != MOB_OK)
        MOB_LOG_DEBUG("node", "heartbeat_not_sent", "master=%s", m->address);
    mob_link_io(m->link, false);
}

static void speak(struct mob_node_life *life, struct master *m, int64_t now)
{
    if (m->link == NULL && now >= m->dial_ns) {
        m->dial_ns = now + REDIAL_NS;
        if (mob_link_dial(&life->self, &life->pool, m->address, &m->link) != MOB_OK)
            m->link = NULL;
    }
    if (m->link == NULL)
        return;
    if (!mob_link_up(m->link)) {
        mob_link_io(m->link, false);
    } else if (life->answered) {
        struct mob_gcs_node_beat beat = {
            .incarnation = life->incarnation, .leaving = atomic_load(&life->leaves)};
        say(m, MOB_GCS_NODE_BEAT, &beat, sizeof beat);
    } else if (now >= m->ask_ns && now >= life->ask_ns) {
        m->ask_ns = now + ASK_NS;
        say(m, MOB_GCS_ENROLL, &life->enroll, sizeof life->enroll);
    }
}

/* False while the loop hangs: then nobody speaks for it. */
static bool loop_lives(const struct mob_node_life *life, int64_t now)
{
    int64_t at = atomic_load_explicit(&life->at_ns, memory_order_relaxed);
    return at == 0 || now - at < MOB_NODE_LIFE_HUNG_NS;
}

/* False: the thread is to end. */
static bool wait_for_masters(struct mob_node_life *life, int64_t until_ns)
{
    int64_t left_ns = until_ns - mob_now();
    do { /* once at least: a thread that is late hears, too */
        struct pollfd fds[MOB_NODE_LIFE_MASTERS_MAX + 1] = {{.fd = life->stop_fd, .events = POLLIN}};
        struct master *of[MOB_NODE_LIFE_MASTERS_MAX + 1];
        nfds_t n = 1;
        for (uint32_t i = 0; i < life->master_count; i++)
            if (life->masters[i].link != NULL) {
                of[n] = &life->masters[i];
                fds[n++] = (struct pollfd){.fd = mob_link_fd(life->masters[i].link), .events = POLLIN};
            }
        left_ns = left_ns > 0 ? left_ns : 0;
        struct timespec left = {left_ns / MOB_SEC, left_ns % MOB_SEC};
        if (ppoll(fds, n, &left, NULL) > 0 && fds[0].revents != 0)
            return false;
        for (nfds_t i = 1; i < n; i++)
            if (fds[i].revents != 0) {
                mob_link_io(of[i]->link, true);
                if (hear(life, of[i]))
                    return true;
            }
        left_ns = until_ns - mob_now();
    } while (left_ns > 0);
    return true;
}

static void *run(void *arg)
{
    struct mob_node_life *life = arg;
    for (bool goes_on = true; goes_on;) {
        int64_t now = mob_now();
        for (uint32_t i = 0; i < life->master_count && loop_lives(life, now); i++)
            speak(life, &life->masters[i], now);
        /* Links open in several steps, and nothing is known yet: sooner. */
        goes_on = wait_for_masters(life, now + (life->answered ? MOB_NODE_LIFE_BEAT_NS : REDIAL_NS / 5));
    }
    if (atomic_load(&life->leaves))
        for (uint32_t i = 0; i < life->master_count; i++)
            speak(life, &life->masters[i], mob_now());
    return NULL;
}

/* ---- the loop's side ---- */

static void destroy(struct mob_node_life *life)
{
    drop_links(life);
    mob_chunk_pool_fini(&life->pool);
    if (life->stop_fd >= 0)
        close(life->stop_fd);
    if (life->over_fd >= 0)
        close(life->over_fd);
    free(life->text);
    free(life);
}

static enum mob_status start_thread(struct mob_node_life *life)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&life->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&life->lock, NULL);
    life->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    life->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool good =
        life->stop_fd >= 0 && life->over_fd >= 0 && pthread_create(&life->thread, NULL, run, life) == 0;
    return good ? MOB_OK : MOB_IO;
}

static void stop_thread(struct mob_node_life *life)
{
    uint64_t one = 1;
    ssize_t n = write(life->stop_fd, &one, sizeof one);
    MOB_ASSERT(n == sizeof one);
    pthread_join(life->thread, NULL);
    pthread_mutex_destroy(&life->lock);
    pthread_cond_destroy(&life->changed);
}

static enum mob_status await_answer(
    struct mob_node_life *life, int64_t deadline_ns, uint64_t *incarnation_out)
{
    struct timespec until = {deadline_ns / MOB_SEC, deadline_ns % MOB_SEC};
    enum mob_status status = MOB_OK;
    pthread_mutex_lock(&life->lock);
    while (!life->answered && status == MOB_OK)
        if (pthread_cond_timedwait(&life->changed, &life->lock, &until) != 0)
            status = MOB_TIMEOUT;
    if (life->answered) {
        status = life->status;
        *incarnation_out = life->incarnation;
    }
    pthread_mutex_unlock(&life->lock);
    return status;
}

enum mob_status mob_node_life_begin(const struct mob_node_life_options *options, struct mob_gcs *gcs,
    int64_t deadline_ns, struct mob_node_life **life_out, uint64_t *incarnation_out)
{
    struct mob_node_life *life = calloc(1, sizeof *life);
    if (life == NULL)
        return MOB_NO_MEMORY;
    life->stop_fd = life->over_fd = -1;
    enum mob_status status = MOB_OK;
    if (options->masters == NULL) {
        status = mob_gcs_node_register_wait(gcs, options->node, deadline_ns, incarnation_out);
    } else if (!split_shards(life, options->masters) ||
        strlen(options->node) - 1 >= sizeof life->enroll.node - 1) {
        status = MOB_INVALID;
    } else {
        life->self = (struct mob_link_self){.protocol_min = MOB_GCS_PEER_PROTOCOL,
            .protocol_max = MOB_GCS_PEER_PROTOCOL,
            .cluster = options->cluster};
        memcpy(life->self.secret, options->secret, sizeof life->self.secret);
        mob_random_bytes((uint8_t *)&life->enroll.start, sizeof life->enroll.start);
        life->enroll.pid = getpid();
        memcpy(life->enroll.node, options->node, strlen(options->node) + 1);
        go_to(life, 0);
        status = start_thread(life);
        if (status == MOB_OK) {
            status = await_answer(life, deadline_ns, incarnation_out);
            if (status != MOB_OK)
                stop_thread(life);
        }
    }
    if (status != MOB_OK) {
        destroy(life);
        return status;
    }
    *life_out = life;
    return MOB_OK;
}

void mob_node_life_end(struct mob_node_life *life, bool leaves)
{
    if (life == NULL)
        return;
    atomic_store(&life->leaves, leaves);
    if (life->over_fd >= 0)
        stop_thread(life);
    destroy(life);
}

int mob_node_life_fd(const struct mob_node_life *life)
{
    return life->over_fd;
}

bool mob_node_life_over(const struct mob_node_life *life)
{
    return atomic_load(&life->over);
}

void mob_node_life_at(struct mob_node_life *life, int64_t now_ns)
{
    if (life != NULL)
        atomic_store_explicit(&life->at_ns, now_ns, memory_order_relaxed);
}
