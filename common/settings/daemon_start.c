#include "common/settings/daemon_start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

bool mob_daemon_number(const char *text, uint32_t otherwise, uint32_t most, uint32_t *out)
{
    *out = otherwise;
    if (text == NULL)
        return true;
    if (text[0] < '0' || text[0] > '9') /* strtoull takes blanks and signs */
        return false;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    *out = (uint32_t)n;
    return errno == 0 && *end == '\0' && n <= most;
}

bool mob_daemon_ms(const char *text, int64_t otherwise_ns, int64_t *ns_out)
{
    uint32_t ms;
    *ns_out = otherwise_ns;
    if (text == NULL)
        return true;
    if (!mob_daemon_number(text, 0, UINT32_MAX, &ms) || ms == 0)
        return false;
    *ns_out = ms * (int64_t)MOB_MS;
    return true;
}

bool mob_daemon_cluster(const char *text, struct mob_cluster_id *out)
{
    enum { DIGITS = 2 * sizeof out->b };
    if (text == NULL || strlen(text) != DIGITS || strspn(text, "0123456789abcdefABCDEF") != DIGITS)
        return false;
    for (size_t i = 0; i < sizeof out->b; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        out->b[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static bool read_bytes(const char *path, void *out, size_t bytes)
{
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    size_t length = file == NULL ? 0 : fread(out, 1, bytes, file);
    if (file != NULL)
        fclose(file);
    return length == bytes;
}

bool mob_daemon_secret(const char *path, uint8_t out[MOB_CLUSTER_SECRET_BYTES])
{
    return read_bytes(path, out, MOB_CLUSTER_SECRET_BYTES);
}

bool mob_daemon_identity(
    const char *directory, struct mob_cluster_id *cluster_out, uint8_t secret_out[MOB_CLUSTER_SECRET_BYTES])
{
    char id[4096], secret[4096];
    int id_length = snprintf(id, sizeof id, "%s/cluster-id", directory),
        secret_length = snprintf(secret, sizeof secret, "%s/cluster-secret", directory);
    if (id_length >= (int)sizeof id || secret_length >= (int)sizeof secret)
        return false;
    return read_bytes(id, cluster_out, sizeof *cluster_out) && mob_daemon_secret(secret, secret_out);
}

bool mob_daemon_begin(bool die_with_parent)
{
    prctl(PR_SET_DUMPABLE, 0);
    signal(SIGPIPE, SIG_IGN);
    if (!die_with_parent)
        return true;
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == parent; /* else it ended before it was watched */
}

int mob_daemon_stop_fd(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}
