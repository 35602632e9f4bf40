/* Errands: what would hold up everybody in the engine's thread (copying a large value, connecting) runs in a
 * few threads beside it, and comes back to it when it is done. */
#include <stdlib.h>

#include "common/base/log.h"
#include "server/api/engine_inner.h"

/* A connection that waits for a node that is away takes one for up to two seconds; copies take the others. */
#define ERRAND_THREADS 4

struct errands {
    struct engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct errand *first, **last; /* under the lock, as `stop` */
    bool stop;
    _Atomic(struct errand *) done; /* newest first */
    pthread_t threads[ERRAND_THREADS];
    unsigned started;
};

static struct errand *next_errand(struct errands *errands)
{
    pthread_mutex_lock(&errands->lock);
    while (!errands->first && !errands->stop)
        pthread_cond_wait(&errands->more, &errands->lock);
    struct errand *errand = errands->first;
    if (errand) {
        errands->first = errand->next;
        if (!errands->first)
            errands->last = &errands->first;
    }
    pthread_mutex_unlock(&errands->lock);
    return errand; /* also when stopping: what was begun ends */
}

static void *errand_thread(void *arg)
{
    struct errands *errands = arg;
    struct errand *errand;
    pthread_setname_np(pthread_self(), "errand");
    while ((errand = next_errand(errands))) {
        errand->run(errand);
        struct errand *head = atomic_load_explicit(&errands->done, memory_order_relaxed);
        do
            errand->next = head;
        while (!atomic_compare_exchange_weak(&errands->done, &head, errand));
        engine_ring(errands->engine);
    }
    return NULL;
}

enum mob_status engine_errands_start(struct engine *engine)
{
    struct errands *errands = calloc(1, sizeof *errands);
    if (!errands)
        return MOB_NO_MEMORY;
    errands->engine = engine;
    errands->last = &errands->first;
    pthread_mutex_init(&errands->lock, NULL);
    pthread_cond_init(&errands->more, NULL);
    engine->errands = errands;
    for (; errands->started < ERRAND_THREADS; errands->started++)
        if (pthread_create(&errands->threads[errands->started], NULL, errand_thread, errands) != 0)
            return MOB_IO;
    return MOB_OK;
}

void engine_errand(struct engine *engine, struct errand *errand)
{
    struct errands *errands = engine->errands;
    errand->next = NULL;
    pthread_mutex_lock(&errands->lock);
    *errands->last = errand;
    errands->last = &errand->next;
    pthread_cond_signal(&errands->more);
    pthread_mutex_unlock(&errands->lock);
}

bool engine_errands_news(const struct engine *engine)
{
    return atomic_load(&engine->errands->done) != NULL;
}

void engine_errands_step(struct engine *engine)
{
    if (!atomic_load_explicit(&engine->errands->done, memory_order_relaxed))
        return;
    for (struct errand *e = atomic_exchange(&engine->errands->done, NULL), *next; e; e = next) {
        next = e->next;
        engine->worked++;
        e->done(e);
    }
}

void engine_errands_stop(struct engine *engine)
{
    struct errands *errands = engine->errands;
    pthread_mutex_lock(&errands->lock);
    errands->stop = true;
    pthread_cond_broadcast(&errands->more);
    pthread_mutex_unlock(&errands->lock);
    for (unsigned i = 0; i < errands->started; i++)
        pthread_join(errands->threads[i], NULL);
    engine_errands_step(engine);
}

void engine_errands_end(struct engine *engine)
{
    if (!engine->errands)
        return;
    pthread_cond_destroy(&engine->errands->more);
    pthread_mutex_destroy(&engine->errands->lock);
    free(engine->errands);
    engine->errands = NULL;
}
