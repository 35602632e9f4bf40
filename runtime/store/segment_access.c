#include "runtime/store/segment_access.h"

#include <signal.h>
#include <unistd.h>

static uint64_t kill_at, passages;

void mob_segment_passage(void)
{
    if (kill_at == 0)
        return;
    if (++passages == kill_at)
        kill(getpid(), SIGKILL);
}

void mob_segment_kill_at(uint64_t passage)
{
    kill_at = passage;
    passages = 0;
}

uint64_t mob_segment_passages(void)
{
    return passages;
}
