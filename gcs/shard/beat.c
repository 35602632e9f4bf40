#include "gcs/shard/beat.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/process.h"

#define REDIAL_NS (20 * MOB_MS)
#define STARVED_PASSES 5 /* times hung_ns that a pass may wait for a core */

/* A link to one master. The thread's own. */
struct master_link {
    struct mob_link *link;
    int64_t dial_ns;
    int64_t heard_ns; /* by the master's clock; comes back with the next report */
};

struct mob_beat {
    struct mob_beat_options options;
    pthread_t thread;
    int stop_fd, wake_fd;
    int speed_fd; /* the thread is to speak at once */
    int64_t hurried_ns; /* by a master; the thread's own */
    _Atomic int64_t busy_since_ns; /* 0: the loop sleeps */
    _Atomic bool realtime;
    pid_t loop_thread;
    clockid_t loop_cpu;
    int64_t pass_since_ns, pass_cpu_ns; /* of the pass that was seen last; the thread's own */
    struct mob_chunk_pool pool;
    struct master_link masters[MOB_BEAT_MASTERS_MAX];

    pthread_mutex_t lock; /* inherits priority: the loop may hold it */
    struct mob_gcs_report report;
    bool reports, often;
    bool has_book, has_enter, has_lease, has_beginning;
    struct mob_gcs_begin_anew beginning;
    struct mob_gcs_book book;
    struct mob_gcs_seal seals[MOB_GCS_SEALS_MAX]; /* that came with it */
    uint32_t seal_count;
    uint64_t enter_epoch, lease_epoch;
    int64_t lease_sent_ns;
};

static void raise_flag(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* full: it is raised */
}

static void take_flag(int fd)
{
    uint64_t count;
    ssize_t n = read(fd, &count, sizeof count);
    (void)n;
}

/* ---- the loop's side ---- */

void mob_beat_publish(struct mob_beat *b, const struct mob_gcs_report *report, bool often)
{
    pthread_mutex_lock(&b->lock);
    bool faster = !b->often && (often || report->busy);
    b->report = *report;
    b->reports = true;
    b->often = often || report->busy;
    pthread_mutex_unlock(&b->lock);
    if (faster)
        raise_flag(b->speed_fd);
}

void mob_beat_busy(struct mob_beat *b, bool busy)
{
    atomic_store_explicit(&b->busy_since_ns, busy ? mob_now() : 0, memory_order_relaxed);
}

bool mob_beat_take_book(struct mob_beat *b, struct mob_gcs_book *book_out,
    struct mob_gcs_seal seals_out[MOB_GCS_SEALS_MAX], uint32_t *seal_count_out)
{
    take_flag(b->wake_fd); /* before looking, so that nothing is missed */
    pthread_mutex_lock(&b->lock);
    bool has = b->has_book;
    if (has) {
        *book_out = b->book;
        *seal_count_out = b->seal_count;
        memcpy(seals_out, b->seals, b->seal_count * sizeof b->seals[0]);
    }
    b->has_book = false;
    pthread_mutex_unlock(&b->lock);
    return has;
}

bool mob_beat_take_enter(struct mob_beat *b, uint64_t *epoch_out)
{
    pthread_mutex_lock(&b->lock);
    bool has = b->has_enter;
    *epoch_out = b->enter_epoch;
    b->has_enter = false;
    pthread_mutex_unlock(&b->lock);
    return has;
}

bool mob_beat_take_beginning(struct mob_beat *b, struct mob_gcs_begin_anew *out)
{
    pthread_mutex_lock(&b->lock);
    bool has = b->has_beginning;
    *out = b->beginning;
    b->has_beginning = false;
    pthread_mutex_unlock(&b->lock);
    return has;
}

bool mob_beat_lease(struct mob_beat *b, uint64_t *epoch_out, int64_t *sent_ns_out)
{
    pthread_mutex_lock(&b->lock);
    bool has = b->has_lease;
    *epoch_out = b->lease_epoch;
    *sent_ns_out = b->lease_sent_ns;
    pthread_mutex_unlock(&b->lock);
    return has;
}

bool mob_beat_realtime(const struct mob_beat *b)
{
    return atomic_load_explicit(&b->realtime, memory_order_relaxed);
}

int mob_beat_fd(const struct mob_beat *b)
{
    return b->wake_fd;
}

/* ---- the thread ---- */

static void on_lease(struct mob_beat *b, struct master_link *m, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_lease lease;
    if (frame->head_bytes != sizeof lease)
        return;
    memcpy(&lease, frame->head, sizeof lease);
    if (lease.member != b->options.self->id)
        return;
    m->heard_ns = lease.heard_ns;
    if ((lease.flags & MOB_GCS_LEASE_HURRY) != 0) {
        b->hurried_ns = mob_now();
        raise_flag(b->speed_fd);
    }
    if ((lease.flags & MOB_GCS_LEASE_READS) == 0)
        return;
    pthread_mutex_lock(&b->lock);
    bool newer = !b->has_lease || lease.epoch > b->lease_epoch ||
        (lease.epoch == b->lease_epoch && lease.sent_ns > b->lease_sent_ns);
    if (newer) {
        b->has_lease = true;
        b->lease_epoch = lease.epoch;
        b->lease_sent_ns = lease.sent_ns;
    }
    pthread_mutex_unlock(&b->lock);
}

static void on_book(struct mob_beat *b, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_book book;
    if (mob_gcs_book_decode(frame->body, frame->body_bytes, &book) != MOB_OK ||
        frame->head_bytes % sizeof b->seals[0] != 0 || frame->head_bytes > sizeof b->seals)
        return;
    pthread_mutex_lock(&b->lock);
    if (!b->has_book || book.config.epoch >= b->book.config.epoch) {
        b->book = book;
        b->seal_count = frame->head_bytes / (uint32_t)sizeof b->seals[0];
        memcpy(b->seals, frame->head, frame->head_bytes);
        b->has_book = true;
    }
    pthread_mutex_unlock(&b->lock);
    raise_flag(b->wake_fd);
}

static void on_enter(struct mob_beat *b, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_enter enter;
    if (frame->head_bytes != sizeof enter)
        return;
    memcpy(&enter, frame->head, sizeof enter);
    if (enter.member != b->options.self->id)
        return;
    pthread_mutex_lock(&b->lock);
    b->has_enter = true;
    b->enter_epoch = enter.epoch;
    pthread_mutex_unlock(&b->lock);
    raise_flag(b->wake_fd);
}

static void on_begin_anew(struct mob_beat *b, const struct mob_gcs_frame *frame)
{
    struct mob_gcs_begin_anew beginning;
    if (frame->head_bytes != sizeof beginning)
        return;
    memcpy(&beginning, frame->head, sizeof beginning);
    if (beginning.member != b->options.self->id)
        return;
    pthread_mutex_lock(&b->lock);
    b->has_beginning = true;
    b->beginning = beginning;
    pthread_mutex_unlock(&b->lock);
    raise_flag(b->wake_fd);
}

static void hear(struct mob_beat *b, struct master_link *m)
{
    struct mob_gcs_frame frame;
    struct mob_chunk *chunk;
    enum mob_status status;
    while ((status = mob_link_next(m->link, &frame, &chunk)) == MOB_OK) {
        if (frame.type == MOB_GCS_LEASE)
            on_lease(b, m, &frame);
        else if (frame.type == MOB_GCS_BOOK)
            on_book(b, &frame);
        else if (frame.type == MOB_GCS_ENTER)
            on_enter(b, &frame);
        else if (frame.type == MOB_GCS_BEGIN_ANEW)
            on_begin_anew(b, &frame);
    }
    if (status == MOB_AGAIN)
        return;
    mob_link_destroy(m->link);
    m->link = NULL;
    m->heard_ns = 0;
}

static int64_t cpu_of_loop(const struct mob_beat *b)
{
    struct timespec t = {0};
    (void)clock_gettime(b->loop_cpu, &t);
    return t.tv_sec * MOB_SEC + t.tv_nsec;
}

/* A loop that has had no core for its pass does not hang: it is runnable, and has used little. Beyond some
 * time it is of no more use than one that does. */
static bool waits_for_a_core(const struct mob_beat *b, int64_t pass_ns)
{
    struct mob_process loop;
    return pass_ns < STARVED_PASSES * b->options.hung_ns &&
        cpu_of_loop(b) - b->pass_cpu_ns < b->options.hung_ns && mob_process_look(b->loop_thread, &loop) &&
        loop.state == 'R';
}

static bool hangs(struct mob_beat *b, int64_t since_ns, int64_t now_ns)
{
    if (since_ns != 0 && since_ns != b->pass_since_ns) {
        b->pass_since_ns = since_ns;
        b->pass_cpu_ns = cpu_of_loop(b);
    }
    return since_ns != 0 && now_ns - since_ns >= b->options.hung_ns &&
        !waits_for_a_core(b, now_ns - since_ns);
}

/* False while the loop hangs: then nobody speaks for it. */
static bool next_report(struct mob_beat *b, int64_t now, struct mob_gcs_report *report_out, bool *often_out)
{
    int64_t since = atomic_load_explicit(&b->busy_since_ns, memory_order_relaxed);
    pthread_mutex_lock(&b->lock);
    bool reports = b->reports;
    *report_out = b->report;
    *often_out = b->often;
    pthread_mutex_unlock(&b->lock);
    report_out->sent_ns = now;
    report_out->pid = getpid();
    return reports && !hangs(b, since, now);
}

static void speak(struct mob_beat *b, struct master_link *m, const char *address,
    const struct mob_gcs_report *report, int64_t now)
{
    if (m->link != NULL && mob_link_silent(m->link, now)) {
        mob_link_destroy(m->link);
        m->link = NULL;
    }
    if (m->link == NULL && now >= m->dial_ns) {
        m->dial_ns = now + REDIAL_NS;
        if (mob_link_dial(b->options.self, &b->pool, address, &m->link) != MOB_OK)
            m->link = NULL;
    }
    if (m->link == NULL)
        return;
    if (report != NULL && mob_link_up(m->link)) {
        struct mob_gcs_report mine = *report;
        mine.heard_ns = m->heard_ns;
        struct mob_link_message message = {
            .type = MOB_GCS_REPORT, .epoch = mine.epoch, .head = &mine, .head_bytes = sizeof mine};
        /* A master that does not read gets no old heartbeats later. */
        if (mob_link_unsent(m->link) == 0 && mob_link_send(m->link, &message) != MOB_OK)
            MOB_LOG_WARN("gcs", "heartbeat_not_sent", "master=%s", address);
    }
    mob_link_io(m->link, false);
}

/* False: the thread is to end. */
static bool wait_for_masters(struct mob_beat *b, int64_t until_ns)
{
    int64_t left_ns;
    do { /* once at least: a thread that is late hears, too */
        struct pollfd fds[MOB_BEAT_MASTERS_MAX + 2] = {
            {.fd = b->stop_fd, .events = POLLIN}, {.fd = b->speed_fd, .events = POLLIN}};
        struct master_link *of[MOB_BEAT_MASTERS_MAX + 2];
        nfds_t n = 2;
        for (uint32_t i = 0; i < b->options.master_count; i++)
            if (b->masters[i].link != NULL) {
                of[n] = &b->masters[i];
                fds[n++] = (struct pollfd){.fd = mob_link_fd(b->masters[i].link), .events = POLLIN};
            }
        left_ns = until_ns - mob_now();
        left_ns = left_ns > 0 ? left_ns : 0;
        struct timespec left = {left_ns / MOB_SEC, left_ns % MOB_SEC};
        if (ppoll(fds, n, &left, NULL) > 0 && fds[0].revents != 0)
            return false;
        for (nfds_t i = 2; i < n; i++)
            if (fds[i].revents != 0) {
                mob_link_io(of[i]->link, true);
                hear(b, of[i]);
            }
        if (fds[1].revents != 0) {
            take_flag(b->speed_fd);
            return true;
        }
        left_ns = until_ns - mob_now();
    } while (left_ns > 0);
    return true;
}

static void *run(void *arg)
{
    struct mob_beat *b = arg;
    struct sched_param priority = {.sched_priority = MOB_BEAT_PRIORITY};
    bool realtime = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
    atomic_store_explicit(&b->realtime, realtime, memory_order_relaxed);
    MOB_LOG_INFO("gcs", "heartbeat", "masters=%u realtime=%d", b->options.master_count, realtime);
    int64_t next = mob_now();
    do {
        struct mob_gcs_report report;
        int64_t now = mob_now();
        bool often, speaks = next_report(b, now, &report, &often);
        bool fast = often || !speaks || now - b->hurried_ns < MOB_BEAT_HURRY_NS;
        int64_t pause = fast ? b->options.beat_ns : MOB_BEAT_SLOW_NS;
        report.pause_ms = fast ? 0 : MOB_BEAT_SLOW_NS / MOB_MS;
        for (uint32_t i = 0; i < b->options.master_count; i++)
            speak(b, &b->masters[i], b->options.masters[i], speaks ? &report : NULL, now);
        bool told = next > now; /* before its time: from here on */
        next = told || now - next > pause ? now + pause : next + pause;
    } while (wait_for_masters(b, next));
    return NULL;
}

enum mob_status mob_beat_create(const struct mob_beat_options *options, struct mob_beat **beat_out)
{
    struct mob_beat *b = calloc(1, sizeof *b);
    if (b == NULL)
        return MOB_NO_MEMORY;
    b->options = *options;
    b->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    b->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    b->speed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    b->hurried_ns = -MOB_BEAT_HURRY_NS;
    b->loop_thread = gettid();
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&b->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    bool good = b->stop_fd >= 0 && b->wake_fd >= 0 && b->speed_fd >= 0 &&
        pthread_getcpuclockid(pthread_self(), &b->loop_cpu) == 0 &&
        pthread_create(&b->thread, NULL, run, b) == 0;
    if (!good) {
        close(b->stop_fd);
        close(b->wake_fd);
        close(b->speed_fd);
        free(b);
        return MOB_IO;
    }
    *beat_out = b;
    return MOB_OK;
}

void mob_beat_destroy(struct mob_beat *b)
{
    if (b == NULL)
        return;
    uint64_t one = 1;
    ssize_t n = write(b->stop_fd, &one, sizeof one);
    MOB_ASSERT(n == sizeof one);
    pthread_join(b->thread, NULL);
    for (uint32_t i = 0; i < b->options.master_count; i++)
        mob_link_destroy(b->masters[i].link);
    mob_chunk_pool_fini(&b->pool);
    pthread_mutex_destroy(&b->lock);
    close(b->stop_fd);
    close(b->wake_fd);
    close(b->speed_fd);
    free(b);
}
