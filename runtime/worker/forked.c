#include "runtime/worker/forked.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/log.h"

static bool forked;
static pid_t forker; /* between the handlers before and after a fork, which one thread at a time runs */

static void before_fork(void)
{
    forker = getpid();
}

static void in_the_child(void)
{
    forked = true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != forker) /* it died before the line above */
        _exit(1);
}

void mob_worker_watch_forks(void)
{
    int failed = pthread_atfork(before_fork, NULL, in_the_child);
    MOB_ASSERT(failed == 0);
}

bool mob_worker_is_forked(void)
{
    return forked;
}
