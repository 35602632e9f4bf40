/* Processes that a function forks: they are no workers, and end with theirs.
 *
 * Call mob_worker_watch_forks() once in a worker, before it runs a function. From then on a child of fork(2)
 * gets SIGKILL when the thread that forked it ends (whoever starts another program may rely on that too), and
 * mob_worker_is_forked() tells it that it must not go on as the worker, whose rings it shares.
 */
#ifndef MOB_RUNTIME_WORKER_FORKED_H
#define MOB_RUNTIME_WORKER_FORKED_H

#include <stdbool.h>

void mob_worker_watch_forks(void);
/* Any thread; a load. */
bool mob_worker_is_forked(void);

#endif
