#include "tests/support/flush_box.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t flush_box_spawn(const struct flush_box *box, const char *failpoints)
{
    char program[512], log[128], secret[96];
    const char *bin = getenv("MOBULA_BIN_DIR");
    snprintf(program, sizeof program, "%s/mobula-flush", bin == NULL ? "build/release/bin" : bin);
    snprintf(secret, sizeof secret, "%s/cluster-secret", box->gcs->directory);
    snprintf(log, sizeof log, "%s/flush.log", box->gcs->directory);
    const char *argv[] = {program, "--dir", box->gcs->directory, "--gcs-socket",
        box->sockets ? box->sockets : box->gcs->socket, "--postgres-dir", box->pg->data, "--cluster",
        box->cluster ? box->cluster : FLUSH_BOX_CLUSTER, "--secret-file", secret, "--flush-batch-bytes",
        box->batch_bytes ? box->batch_bytes : "8MiB", "--flush-delay-ms",
        box->delay_ms ? box->delay_ms : "5s", "--flush-hot-percent",
        box->hot_percent ? box->hot_percent : "50", "--flush-maintain-ms",
        box->maintain_ms ? box->maintain_ms : "100", "--retention-s",
        box->retention_s ? box->retention_s : "24h", NULL};
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (getppid() != parent || output < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0)
        _exit(126);
    if (failpoints != NULL)
        setenv("MOBULA_FAILPOINTS", failpoints, 1);
    else
        unsetenv("MOBULA_FAILPOINTS");
    execv(program, (char *const *)(uintptr_t)argv);
    _exit(127);
}
