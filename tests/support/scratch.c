#include "tests/support/scratch.h"

#include <sys/wait.h>
#include <unistd.h>

bool scratch_remove(const char *directory)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", "--", directory, (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}
