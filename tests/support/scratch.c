#include "tests/support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACE_MAX 40

void scratch_make(char *out, size_t capacity, const char *name)
{
    const char *place = getenv("TMPDIR");
    if (place == NULL || strlen(place) > PLACE_MAX)
        place = "/tmp";
    scratch_make_in(out, capacity, place, name);
}

void scratch_make_in(char *out, size_t capacity, const char *place, const char *name)
{
    int length = snprintf(out, capacity, "%s/%s-XXXXXX", place, name);
    if (length < 0 || (size_t)length >= capacity || mkdtemp(out) == NULL) {
        perror(out);
        abort();
    }
}

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
