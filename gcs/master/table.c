#include "gcs/master/table.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "gcs/master/table_inner.h"

struct mob_table {
    struct mob_table_options options;
    pthread_t thread;
    int fd;
    struct mob_database *db; /* the thread's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
    struct mob_table_question questions[MOB_TABLE_QUESTIONS_MAX];
    struct mob_table_answer answers[MOB_TABLE_QUESTIONS_MAX]; /* never more than were asked */
    uint32_t question_count, answer_count, asked; /* asked: and not taken */
};

static void ask(struct mob_table *t, const struct mob_table_question *q, struct mob_table_answer *a)
{
    if (q->op == MOB_TABLE_INSERT)
        (void)MOB_FAILPOINT("master.before_insert");
    if (t->options.postgres != NULL)
        table_postgres_ask(t->options.postgres, t->options.shard, &t->db, q, a);
    else
        table_file_ask(t->options.file, q, a);
    if (q->op == MOB_TABLE_INSERT && a->status == MOB_CONFLICT)
        MOB_LOG_WARN("master", "overtaken", "epoch=%llu term=%llu", (unsigned long long)q->config.epoch,
            (unsigned long long)q->config.term);
}

static void *run(void *arg)
{
    struct mob_table *t = arg;
    /* A fail-over waits for what is asked here; where that is not allowed it goes on without. */
    struct sched_param priority = {.sched_priority = MASTER_PRIORITY};
    (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
    pthread_mutex_lock(&t->lock);
    while (!t->stopping) {
        if (t->question_count == 0) {
            pthread_cond_wait(&t->changed, &t->lock);
            continue;
        }
        struct mob_table_question q = t->questions[0];
        memmove(&t->questions[0], &t->questions[1], --t->question_count * sizeof q);
        pthread_mutex_unlock(&t->lock);
        struct mob_table_answer a = {.op = q.op, .tag = q.tag, .status = MOB_UNAVAILABLE};
        ask(t, &q, &a);
        pthread_mutex_lock(&t->lock);
        t->answers[t->answer_count++] = a;
        uint64_t one = 1;
        ssize_t n = write(t->fd, &one, sizeof one);
        (void)n;
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

enum mob_status mob_table_create(const struct mob_table_options *options, struct mob_table **table_out)
{
    struct mob_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return MOB_NO_MEMORY;
    t->options = *options;
    t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    if (t->fd < 0 || pthread_create(&t->thread, NULL, run, t) != 0) {
        close(t->fd);
        free(t);
        return MOB_IO;
    }
    *table_out = t;
    return MOB_OK;
}

void mob_table_destroy(struct mob_table *t)
{
    if (t == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    int64_t until_ns = mob_now() + MOB_TABLE_STOP_NS;
    const struct timespec until = {until_ns / MOB_SEC, until_ns % MOB_SEC};
    if (pthread_clockjoin_np(t->thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
        MOB_LOG_WARN("master", "table_left", "why=\"a question is not answered\"");
        return;
    }
    table_postgres_close(t->db);
    for (uint32_t i = 0; i < t->answer_count; i++)
        free(t->answers[i].logs);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    close(t->fd);
    free(t);
}

int mob_table_fd(const struct mob_table *t)
{
    return t->fd;
}

bool mob_table_ask(struct mob_table *t, const struct mob_table_question *question)
{
    pthread_mutex_lock(&t->lock);
    bool room = t->asked < MOB_TABLE_QUESTIONS_MAX;
    if (room) {
        t->questions[t->question_count++] = *question;
        t->asked++;
        pthread_cond_signal(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    return room;
}

bool mob_table_answer(struct mob_table *t, struct mob_table_answer *answer_out)
{
    uint64_t count;
    ssize_t n = read(t->fd, &count, sizeof count); /* before looking, so that nothing is missed */
    (void)n;
    pthread_mutex_lock(&t->lock);
    bool has = t->answer_count > 0;
    if (has) {
        *answer_out = t->answers[0];
        memmove(&t->answers[0], &t->answers[1], --t->answer_count * sizeof t->answers[0]);
        t->asked--;
    }
    pthread_mutex_unlock(&t->lock);
    return has;
}
