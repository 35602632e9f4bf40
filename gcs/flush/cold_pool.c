#include "gcs/flush/cold_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

#define TRY_NS (5 * MOB_SEC) /* the member gives a read up later than that */
#define PAUSE_NS (50 * MOB_MS)

struct question {
    struct mob_gcs_cold_get get;
    struct mob_gcs_group_key *groups; /* its own */
    uint32_t group_count;
};
struct reader {
    struct cold_pool *pool;
    pthread_t thread;
    bool started, answered;
    struct mob_cold *cold;
    struct mob_database *db;
    struct mob_gcs_cold_answer answer;
};
struct cold_pool {
    struct cold_pool_options options;
    pthread_mutex_t lock;
    pthread_cond_t asked, sent;
    struct question queue[COLD_QUEUE_MAX]; /* a ring */
    uint32_t first, count;
    bool stop;
    struct reader readers[COLD_THREADS];
};

/* False: told to stop. */
static bool pause_between(struct cold_pool *p)
{
    int64_t until_ns = mob_now() + PAUSE_NS;
    const struct timespec until = {until_ns / MOB_SEC, until_ns % MOB_SEC};
    pthread_mutex_lock(&p->lock);
    while (!p->stop && pthread_cond_timedwait(&p->sent, &p->lock, &until) == 0)
        continue;
    bool stop = p->stop;
    pthread_mutex_unlock(&p->lock);
    return !stop;
}

/* A connection that has ended is made anew, for as long as somebody may wait. */
static void answer_query(struct reader *r, const struct question *q)
{
    int64_t deadline = mob_now() + TRY_NS;
    do {
        enum mob_status status = MOB_OK;
        if (r->db == NULL || !mob_database_good(r->db)) {
            mob_database_close(r->db);
            r->db = NULL;
            status = mob_database_open(r->pool->options.directory, &r->db);
            if (status == MOB_OK)
                mob_database_leave_stopped(r->db);
        }
        if (status == MOB_OK)
            status = mob_cold_read_groups(r->cold, r->db, &q->get, q->groups, q->group_count, &r->answer);
        if (status != MOB_UNAVAILABLE)
            return;
        mob_database_close(r->db);
        r->db = NULL;
    } while (mob_now() < deadline && pause_between(r->pool));
    r->answer = (struct mob_gcs_cold_answer){.tag = q->get.get.tag, .status = MOB_UNAVAILABLE};
}

static void *run(void *arg)
{
    struct reader *r = arg;
    struct cold_pool *p = r->pool;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (p->count == 0) {
            pthread_cond_wait(&p->asked, &p->lock);
            continue;
        }
        struct question question = p->queue[p->first];
        p->first = (p->first + 1) % COLD_QUEUE_MAX;
        p->count--;
        pthread_mutex_unlock(&p->lock);
        answer_query(r, &question);
        free(question.groups);
        pthread_mutex_lock(&p->lock);
        r->answered = true;
        uint64_t one = 1;
        ssize_t written = write(p->options.event_fd, &one, sizeof one);
        (void)written; /* full: it is readable */
        while (r->answered && !p->stop)
            pthread_cond_wait(&p->sent, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    mob_database_close(r->db);
    r->db = NULL;
    return NULL;
}

/* ---- for the loop ---- */

static void destroy(struct cold_pool *p)
{
    for (int i = 0; i < COLD_THREADS; i++)
        mob_cold_destroy(p->readers[i].cold);
    for (uint32_t i = 0; i < p->count; i++)
        free(p->queue[(p->first + i) % COLD_QUEUE_MAX].groups);
    free(p);
}

enum mob_status cold_pool_start(const struct cold_pool_options *options, struct cold_pool **pool_out)
{
    struct cold_pool *p = calloc(1, sizeof *p);
    if (p == NULL)
        return MOB_NO_MEMORY;
    p->options = *options;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->asked, NULL);
    pthread_condattr_t monotonic; /* the wall clock may be set back in between */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->sent, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (int i = 0; i < COLD_THREADS; i++) {
        struct reader *r = &p->readers[i];
        r->pool = p;
        r->cold = mob_cold_create(options->shard);
        r->started = r->cold != NULL && pthread_create(&r->thread, NULL, run, r) == 0;
        if (r->started)
            continue;
        bool stopped = cold_pool_stop(p, MOB_SEC);
        (void)stopped; /* nobody has asked anything yet */
        return MOB_NO_MEMORY;
    }
    *pool_out = p;
    return MOB_OK;
}

enum mob_status cold_pool_ask(struct cold_pool *p, const struct mob_gcs_cold_get *query,
    const struct mob_gcs_group_key *groups, uint32_t group_count)
{
    enum mob_status status = MOB_QUEUE_FULL;
    struct question question = {.get = *query, .group_count = group_count};
    if (group_count > 0) {
        question.groups = malloc(group_count * sizeof *groups);
        if (question.groups == NULL)
            return MOB_NO_MEMORY;
        memcpy(question.groups, groups, group_count * sizeof *groups);
    }
    pthread_mutex_lock(&p->lock);
    if (p->count < COLD_QUEUE_MAX) {
        p->queue[(p->first + p->count++) % COLD_QUEUE_MAX] = question;
        pthread_cond_signal(&p->asked);
        status = MOB_OK;
    }
    pthread_mutex_unlock(&p->lock);
    if (status != MOB_OK)
        free(question.groups);
    return status;
}

void cold_pool_answers(
    struct cold_pool *p, void (*send)(void *arg, const struct mob_gcs_cold_answer *answer), void *arg)
{
    bool any = false;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < COLD_THREADS; i++) {
        struct reader *r = &p->readers[i];
        if (!r->answered)
            continue;
        send(arg, &r->answer);
        r->answered = false;
        any = true;
    }
    if (any)
        pthread_cond_broadcast(&p->sent);
    pthread_mutex_unlock(&p->lock);
}

bool cold_pool_stop(struct cold_pool *p, int64_t wait_ns)
{
    int64_t until_ns = mob_now() + wait_ns;
    const struct timespec until = {until_ns / MOB_SEC, until_ns % MOB_SEC};
    bool all = true;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->asked);
    pthread_cond_broadcast(&p->sent);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < COLD_THREADS; i++)
        all = (!p->readers[i].started ||
                  pthread_clockjoin_np(p->readers[i].thread, NULL, CLOCK_MONOTONIC, &until) == 0) &&
            all;
    if (all)
        destroy(p);
    return all;
}
