#include "tests/support/node_box.h"

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

#define READY_NS (20 * MOB_SEC)

static void print_log(const struct node_box *box)
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
    char *argv[] = {program, "--dir", box->directory, "--gcs-socket", box->gcs.socket, "--worker-binary",
        worker, "--segment-bytes", "268435456", "--slots", slots, NULL};
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
        print_log(box);
        abort();
    }
}

void node_box_start(struct node_box *box, int slots)
{
    *box = (struct node_box){.slots = slots, .incarnation = 1};
    gcs_box_init(&box->gcs, NULL);
    gcs_box_start(&box->gcs);
    snprintf(box->directory, sizeof box->directory, "%s/node", box->gcs.directory);
    mkdir(box->directory, 0700);
    spawn_node(box);
    wait_ready(box);
    setenv("MOBULA_DIR", box->directory, 1);
}

void node_box_kill(struct node_box *box)
{
    gcs_box_end(&box->node, SIGKILL);
}

/* The supervisor's part: the dead incarnation's log ends here. */
static void seal(struct node_box *box)
{
    struct mob_gcs *gcs = gcs_box_client(&box->gcs);
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = NULL;
    enum mob_status status = mob_gcs_log_seal(gcs, box->incarnation, mob_gcs_sync_done, &sync);
    if (status == MOB_OK)
        status = mob_gcs_sync_wait(gcs, &sync, mob_now() + READY_NS, &result);
    if (status != MOB_OK) {
        fprintf(stderr, "node_box: incarnation %llu is not sealed: %s\n",
            (unsigned long long)box->incarnation, mob_status_code(status));
        abort();
    }
    mob_gcs_result_destroy(result);
    mob_gcs_destroy(gcs);
}

void node_box_restart(struct node_box *box)
{
    seal(box);
    box->incarnation++;
    spawn_node(box);
    wait_ready(box);
}

void node_box_stop(struct node_box *box)
{
    if (getenv("MOBULA_SHOW_LOGS") != NULL)
        print_log(box);
    gcs_box_end(&box->node, SIGTERM);
    gcs_box_fini(&box->gcs);
}
