#include "tests/support/node_box.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/process.h"

#define READY_NS (60 * MOB_SEC)
#define NODE_BOX_ARGS_MAX 16

void node_box_print_log(const struct node_box *box)
{
    char path[128], text[4096];
    snprintf(path, sizeof path, "%s/node.log", box->directory);
    FILE *file = fopen(path, "r");
    size_t n;
    while (file != NULL && (n = fread(text, 1, sizeof text, file)) > 0)
        fwrite(text, 1, n, stderr);
    if (file != NULL)
        fclose(file);
}

static void spawn_node(struct node_box *box)
{
    const char *binaries = getenv("MOBULA_BIN_DIR");
    char program[512], worker[512], slots[16], log[128];
    snprintf(program, sizeof program, "%s/mobula-node", binaries == NULL ? "build/release/bin" : binaries);
    snprintf(worker, sizeof worker, "%s/mobula-worker", binaries == NULL ? "build/release/bin" : binaries);
    snprintf(slots, sizeof slots, "%d", box->slots);
    snprintf(log, sizeof log, "%s/node.log", box->directory);
    char *argv[14 + NODE_BOX_ARGS_MAX] = {program, "--dir", box->directory, "--gcs-socket", box->gcs.socket,
        "--worker-binary", worker, "--segment-bytes", "268435456", "--slots", slots, "--spill-quota-bytes",
        "0", NULL};
    for (int i = 0; box->args != NULL && box->args[i] != NULL && i < NODE_BOX_ARGS_MAX; i++)
        argv[13 + i] = (char *)(uintptr_t)box->args[i];
    pid_t parent = getpid();
    box->node = fork();
    if (box->node != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    execv(argv[0], argv);
    _exit(127);
}

static bool accepts(const struct node_box *box)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/node.sock", box->directory);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool good = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return good;
}

static void wait_ready(struct node_box *box)
{
    for (int64_t deadline = mob_now() + READY_NS; !accepts(box); poll(NULL, 0, 5)) {
        if (mob_now() < deadline && waitpid(box->node, NULL, WNOHANG) == 0)
            continue;
        fprintf(stderr, "node_box: the node did not start\n");
        node_box_print_log(box);
        abort();
    }
}

void node_box_start(struct node_box *box, int slots)
{
    node_box_start_with(box, slots, NULL);
}

void node_box_start_with(struct node_box *box, int slots, const char *const *args)
{
    *box = (struct node_box){.slots = slots, .args = args};
    gcs_box_init(&box->gcs, NULL);
    gcs_box_start(&box->gcs);
    snprintf(box->directory, sizeof box->directory, "%s/node", box->gcs.directory);
    mkdir(box->directory, 0700);
    gcs_box_write_identity(box->directory);
    spawn_node(box);
    wait_ready(box);
    setenv("MOBULA_DIR", box->directory, 1);
}

void node_box_kill(struct node_box *box)
{
    gcs_box_end(&box->node, SIGKILL);
}

/* The supervisor's part: the logs of dead incarnations end here. */
static void seal(struct node_box *box)
{
    struct mob_gcs *gcs = gcs_box_client(&box->gcs);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    int64_t deadline = mob_now() + READY_NS;
    enum mob_status status = mob_gcs_incarnations(gcs, box->sealed, mob_gcs_sync_done, &sync);
    if (status == MOB_OK)
        status = mob_gcs_sync_wait(gcs, &sync, deadline, &result);
    const struct mob_gcs_answer *answer = status == MOB_OK ? mob_gcs_result_answer(result) : NULL;
    for (uint32_t i = 0; status == MOB_OK && i < answer->incarnation_count; i++) {
        uint64_t cut;
        status = mob_gcs_log_seal_wait(gcs, answer->incarnations[i].id, deadline, &cut);
        box->sealed = answer->incarnations[i].id;
    }
    if (status != MOB_OK) {
        fprintf(stderr, "node_box: the dead node is not sealed: %s\n", mob_status_code(status));
        abort();
    }
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(gcs);
}

void node_box_restart(struct node_box *box)
{
    seal(box);
    spawn_node(box);
    wait_ready(box);
}

void node_box_restart_to_die(struct node_box *box, const char *failpoints)
{
    int status = 0;
    seal(box);
    setenv("MOBULA_FAILPOINTS", failpoints, 1);
    spawn_node(box);
    unsetenv("MOBULA_FAILPOINTS");
    int64_t deadline = mob_now() + READY_NS;
    pid_t ended = 0;
    while ((ended = waitpid(box->node, &status, WNOHANG)) == 0 && mob_now() < deadline)
        poll(NULL, 0, 2);
    if (ended != box->node || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
        fprintf(stderr, "node_box: the node did not die at %s\n", failpoints);
        node_box_print_log(box);
        abort();
    }
    box->node = 0;
}

void node_box_revive(struct node_box *box)
{
    if (box->gcs.redis == 0)
        gcs_box_start_redis(&box->gcs);
    if (box->gcs.gcs == 0)
        gcs_box_start_gcs(&box->gcs);
    if (box->node == 0)
        node_box_restart(box);
}

int64_t node_box_end(struct node_box *box, int *status_out)
{
    int64_t begin = mob_now();
    *status_out = gcs_box_end(&box->node, SIGTERM);
    return mob_now() - begin;
}

/* ---- who is below it ---- */

static int children_of(pid_t parent, pid_t *out, int max)
{
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *d; proc != NULL && (d = readdir(proc)) != NULL;) {
        struct mob_process process;
        pid_t pid = (pid_t)atoi(d->d_name);
        if (mob_process_look(pid, &process) && process.parent == parent && process.state != 'Z' &&
            count < max)
            out[count++] = pid;
    }
    if (proc != NULL)
        closedir(proc);
    return count;
}

int node_box_zygote(const struct node_box *box, pid_t *zygote_out)
{
    return box->node > 0 ? children_of(box->node, zygote_out, 1) : 0;
}

int node_box_workers(const struct node_box *box, pid_t *pids_out, int max)
{
    pid_t zygote;
    return node_box_zygote(box, &zygote) == 1 ? children_of(zygote, pids_out, max) : 0;
}

void node_box_stop(struct node_box *box)
{
    if (getenv("MOBULA_SHOW_LOGS") != NULL)
        node_box_print_log(box);
    int status = gcs_box_end(&box->node, SIGTERM);
    if (status != 0) {
        fprintf(stderr, "node_box: the node ended with %s %d\n", WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        node_box_print_log(box);
        abort();
    }
    gcs_box_fini(&box->gcs);
}
