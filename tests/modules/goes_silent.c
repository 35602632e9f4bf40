/* Loading it never ends, and its output has: refused after a while, and nobody else waits for that. */
#include <mobula/mobula.h>

#include <unistd.h>

__attribute__((constructor)) static void go_silent(void)
{
    close(STDOUT_FILENO);
    for (;;)
        pause();
}

static enum mob_status nothing(struct mob_call *call)
{
    return mob_return_i64(call, 0);
}

MOB_MODULE("goes_silent", MOB_FUNCTION("nothing", nothing, "-> i64"))
