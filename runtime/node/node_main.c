/* mobula-node: options, cluster files, run. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "runtime/node/node_run.h"

enum { EXIT_USAGE = 2, EXIT_FENCED = 3, RETENTION_S_DEFAULT = 24 * 60 * 60 };

static const struct option long_options[] = {
    {"dir", required_argument, NULL, 'd'},
    {"slots", required_argument, NULL, 's'},
    {"segment-bytes", required_argument, NULL, 'b'},
    {"gcs-socket", required_argument, NULL, 'g'},
    {"worker-binary", required_argument, NULL, 'w'},
    {"spill-dir", required_argument, NULL, 'p'},
    {"spill-quota-bytes", required_argument, NULL, 'q'},
    {"resources", required_argument, NULL, 'r'},
    {"blocked-max", required_argument, NULL, 'm'},
    {"idle-reap-ms", required_argument, NULL, 'i'},
    {"name", required_argument, NULL, 'n'},
    {"retention-s", required_argument, NULL, 't'},
    {NULL, 0, NULL, 0},
};

static bool number(const char *text, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *out <= max;
}

static bool take_option(int c, const char *value, struct node_options *o)
{
    uint64_t n;
    switch (c) {
    case 'd':
        return snprintf(o->directory, sizeof o->directory, "%s", value) < (int)sizeof o->directory;
    case 'g':
        return snprintf(o->gcs_socket, sizeof o->gcs_socket, "%s", value) < (int)sizeof o->gcs_socket;
    case 'w':
        return snprintf(o->worker_binary, sizeof o->worker_binary, "%s", value) <
            (int)sizeof o->worker_binary;
    case 'p':
        return snprintf(o->spill_directory, sizeof o->spill_directory, "%s", value) <
            (int)sizeof o->spill_directory;
    case 'r':
        return snprintf(o->resources, sizeof o->resources, "%s", value) < (int)sizeof o->resources;
    case 'n':
        return snprintf(o->name, sizeof o->name, "%s", value) < (int)sizeof o->name;
    case 'b':
        return number(value, UINT64_MAX, &o->segment_bytes);
    case 'q':
        return number(value, UINT64_MAX, &o->spill_quota_bytes);
    case 's':
        return number(value, 4096, &n) && n > 0 && (o->slots = (uint32_t)n, true);
    case 't':
        return number(value, INT32_MAX, &o->retention_s);
    case 'm':
        return number(value, 4000, &n) && (o->blocked_max = (uint32_t)n, true);
    case 'i':
        return number(value, UINT32_MAX, &n) && (o->idle_reap_ms = (uint32_t)n, true);
    default:
        return false;
    }
}

static bool parse(int argc, char **argv, struct node_options *o)
{
    int c, which = 0;
    *o = (struct node_options){
        .slots = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), .name = "node", .retention_s = RETENTION_S_DEFAULT};
    while ((c = getopt_long(argc, argv, "", long_options, &which)) != -1)
        if (c == '?' || !take_option(c, optarg, o)) {
            fprintf(stderr, "mobula-node: bad option %s\n", c == '?' ? "" : long_options[which].name);
            return false;
        }
    if (optind < argc || !o->directory[0] || !o->gcs_socket[0] || !o->worker_binary[0]) {
        fprintf(stderr,
            "usage: mobula-node --dir D --gcs-socket P --worker-binary P [--slots N] [--segment-bytes B] "
            "[--spill-dir P] [--spill-quota-bytes B] [--resources NAME=AMOUNT,...] [--blocked-max N] "
            "[--idle-reap-ms N] [--name NAME] [--retention-s N]\n");
        return false;
    }
    return true;
}

/* Files of the state directory that the supervisor made; absent ones stay zero (tests). */
static void read_file(const char *directory, const char *name, void *out, size_t bytes)
{
    char path[NODE_PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, out, bytes) != (ssize_t)bytes)
        memset(out, 0, bytes);
    close(fd);
}

int main(int argc, char **argv)
{
    static struct node node; /* a table of every client slot: not for the stack */
    if (!parse(argc, argv, &node.options))
        return EXIT_USAGE;
    prctl(PR_SET_DUMPABLE, 0); /* the cluster's secret is in memory */
    read_file(node.options.directory, "cluster-id", &node.cluster, sizeof node.cluster);
    read_file(node.options.directory, "cluster-secret", node.secret, sizeof node.secret);
    enum mob_status status = node_open(&node);
    if (status != MOB_OK) {
        MOB_LOG_ERROR("node", "start_failed", "status=%s", mob_status_code(status));
        return EXIT_FAILURE;
    }
    MOB_LOG_INFO("node", "ready", "incarnation=%lu slots=%u", node.incarnation, node.options.slots);
    node_loop(&node);
    bool sealed = node.sealed;
    node_close(&node);
    return sealed ? EXIT_FENCED : EXIT_SUCCESS;
}
