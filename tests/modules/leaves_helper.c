/* Loading it starts a process that holds its output and stays, as some libraries do. */
#include <mobula/mobula.h>

#include <unistd.h>

__attribute__((constructor)) static void leave_helper(void)
{
    if (fork() != 0)
        return;
    alarm(60);
    for (;;)
        pause();
}

static enum mob_status one(struct mob_call *call)
{
    return mob_return_i64(call, 1);
}

MOB_MODULE("leaves_helper", MOB_FUNCTION("one", one, "-> i64"))
