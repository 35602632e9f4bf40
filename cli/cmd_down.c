#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/state_dir.h"
#include "common/base/clock.h"

/* The supervisor's own patience ends before 2 s; past this, something is wrong with it. */
enum { STOP_WAIT_MS = 10000 };

enum cli_exit cmd_down(struct cli_call *call)
{
    pid_t pid = state_dir_supervisor(cli_directory(call));
    if (pid == 0) {
        cli_say("nothing runs in %s", cli_directory(call));
        return CLI_OK;
    }
    int64_t started_ns = mob_now();
    /* A descriptor of the process: its number cannot be reused under us. */
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process < 0 || state_dir_supervisor(cli_directory(call)) != pid) {
        if (process >= 0)
            close(process);
        cli_say("it has just stopped");
        return CLI_OK;
    }
    if (syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0) != 0) {
        cli_say("cannot stop process %d: %s", (int)pid, strerror(errno));
        close(process);
        return errno == EPERM ? CLI_DENIED : CLI_FAILED;
    }
    struct pollfd ended = {.fd = process, .events = POLLIN};
    int ready = poll(&ended, 1, STOP_WAIT_MS);
    close(process);
    if (ready <= 0) {
        cli_say("process %d still runs after %d s; see logs/supervisor.log in %s", (int)pid,
            STOP_WAIT_MS / 1000, cli_directory(call));
        return CLI_TIMEOUT;
    }
    cli_say("stopped in %lld ms", (long long)((mob_now() - started_ns) / MOB_MS));
    return CLI_OK;
}
