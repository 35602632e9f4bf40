#include "runtime/worker/inspect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "runtime/worker/module_cache.h"
#include "runtime/worker/pool_internal.h"

#define TEXT_MAX (4u << 20)
#define PATIENCE_NS (5 * MOB_SEC)

/* ---- in mobula-worker ---- */

static int refuse(enum mob_status status, const char *reason)
{
    printf("error\t%s\t%s\n", mob_status_code(status), reason);
    return 1;
}

/* Signatures and names must not break the lines they are printed in. */
static bool printable(const char *text)
{
    if (text == NULL || *text == 0)
        return false;
    for (; *text != 0; text++)
        if ((unsigned char)*text < 32)
            return false;
    return true;
}

static bool known_signature(const char *signature, struct mob_signature_error *error)
{
    static struct mob_signature parsed;
    snprintf(
        error->message, sizeof error->message, "a name or signature is missing or has control characters");
    return printable(signature) &&
        mob_signature_parse(signature, strlen(signature), &parsed, error) == MOB_OK;
}

static int print_entry(const struct mob_function_entry *entry)
{
    struct mob_signature_error error;
    char reason[640];
    if (!printable(entry->name) || entry->main == NULL || !known_signature(entry->signature, &error)) {
        snprintf(reason, sizeof reason, "%.100s: %s", entry->name, error.message);
        return refuse(MOB_INVALID, reason);
    }
    if (entry->methods == NULL) {
        printf("function\t%s\t%u\t%s\n", entry->name, entry->flags, entry->signature);
        return 0;
    }
    printf("class\t%s\t%u\t%s\t%s%s%s\n", entry->name, entry->flags, entry->signature,
        entry->checkpoint == NULL ? "" : "c", entry->restore == NULL ? "" : "r",
        entry->checkpoint == NULL && entry->restore == NULL ? "-" : "");
    for (const struct mob_method_entry *m = entry->methods; m->name != NULL; m++) {
        if (!printable(m->name) || m->main == NULL || !known_signature(m->signature, &error)) {
            snprintf(reason, sizeof reason, "%.100s.%.100s: %s", entry->name, m->name, error.message);
            return refuse(MOB_INVALID, reason);
        }
        printf("method\t%s\t%u\t%s\n", m->name, m->flags, m->signature);
    }
    return 0;
}

int mob_inspect_print(const char *path)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const struct mob_module *module;
    char reason[256];
    enum mob_status status = mob_module_open(path, NULL, &module, reason);
    if (status != MOB_OK)
        return refuse(status, reason);
    if (!printable(module->name) || strchr(module->name, '.') != NULL)
        return refuse(MOB_INVALID, "a module's name has no dots and no control characters");
    printf("module\t%s\t%u\t%s\n", module->name, module->abi, module->machine);
    for (const struct mob_function_entry *entry = module->functions; entry->name != NULL; entry++)
        if (print_entry(entry) != 0)
            return 1;
    return 0;
}

/* ---- in the node ---- */

static enum mob_status read_all(int fd, int64_t deadline_ns, char *text, size_t *bytes_out)
{
    size_t bytes = 0;
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        int64_t left = (deadline_ns - mob_now()) / MOB_MS;
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return MOB_TIMEOUT;
        ssize_t n = read(fd, text + bytes, TEXT_MAX - bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || bytes + (size_t)n == TEXT_MAX)
            return MOB_TOO_LARGE;
        if (n == 0)
            break;
        bytes += (size_t)n;
    }
    text[bytes] = 0;
    *bytes_out = bytes;
    return MOB_OK;
}

static enum mob_status status_of_error(const char *text)
{
    const char *line = strstr(text, "error\t");
    char code[64];
    if (line == NULL || sscanf(line, "error\t%63[^\t]", code) != 1)
        return MOB_WORKER_DIED; /* a constructor that crashes */
    return mob_status_from_code(code);
}

enum mob_status mob_module_inspect(
    const char *worker_path, const char *path, char **text_out, size_t *bytes_out)
{
    char own[512];
    int ends[2];
    if (worker_path == NULL && !mob_beside_own_file(own, sizeof own))
        return MOB_NOT_FOUND;
    *text_out = NULL;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return MOB_IO;
    char *const argv[] = {"mobula-worker", "--inspect", (char *)path, NULL};
    char *const envp[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "ASAN_OPTIONS=detect_leaks=0", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    pid_t pid;
    int reason = posix_spawn(&pid, worker_path == NULL ? own : worker_path, &actions, NULL, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    char *text = reason == 0 ? malloc(TEXT_MAX + 1) : NULL;
    enum mob_status status = reason != 0 ? MOB_NOT_FOUND : text == NULL ? MOB_NO_MEMORY : MOB_OK;
    if (status == MOB_OK)
        status = read_all(ends[0], mob_now() + PATIENCE_NS, text, bytes_out);
    close(ends[0]);
    int wait_status = 0;
    if (reason == 0) {
        if (status != MOB_OK)
            kill(pid, SIGKILL);
        while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
        }
    }
    if (status == MOB_OK && wait_status != 0)
        status = status_of_error(text);
    *text_out = text;
    return status;
}
