/* mobula-gateway: HTTP in front of a cluster. Starts without a runtime and connects when there is one. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/api/engine_runtime.h"
#include "server/gateway.h"

#define EXTRA_HOSTS_MAX 8

struct settings {
    const char *directory, *listen, *gcs_socket, *token_file, *node_socket;
    const char *hosts[EXTRA_HOSTS_MAX];
    unsigned host_count;
    bool print_help;
};

static const char usage[] =
    "usage: mobula-gateway --dir STATE_DIR [--listen ADDRESS:PORT] [--gcs-socket PATH] [--node-socket PATH]\n"
    "                      [--token-file PATH] [--host NAME]...\n"
    "\n"
    "Serves the HTTP API of the cluster in STATE_DIR. PORT 0 takes any free one; the address is written to\n"
    "STATE_DIR/gateway.addr. Every request but /livez and /readyz needs a key of the token file (0600), "
    "which is made\n"
    "with one key if it is not there. --host: one more name under which the gateway may be addressed.\n";

static bool read_options(int argc, char **argv, struct settings *out)
{
    static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
        {"listen", required_argument, NULL, 'l'}, {"gcs-socket", required_argument, NULL, 'g'},
        {"node-socket", required_argument, NULL, 'n'}, {"token-file", required_argument, NULL, 't'},
        {"host", required_argument, NULL, 'H'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'd':
            out->directory = optarg;
            break;
        case 'l':
            out->listen = optarg;
            break;
        case 'g':
            out->gcs_socket = optarg;
            break;
        case 'n':
            out->node_socket = optarg; /* sdk/c finds it in the directory */
            break;
        case 't':
            out->token_file = optarg;
            break;
        case 'H':
            if (out->host_count == EXTRA_HOSTS_MAX)
                return false;
            out->hosts[out->host_count++] = optarg;
            break;
        case 'h':
            out->print_help = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc && (out->directory || out->print_help);
}

/* "127.0.0.1:0" or "[::1]:0" */
static bool split_listen(const char *text, char *host, size_t capacity, uint16_t *port_out)
{
    const char *colon = strrchr(text, ':');
    char *end;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (!colon || end == colon + 1 || *end || port > 65535)
        return false;
    bool bracketed = text[0] == '[' && colon > text && colon[-1] == ']';
    int n = snprintf(host, capacity, "%.*s", (int)(colon - text - (bracketed ? 2 : 0)), text + bracketed);
    *port_out = (uint16_t)port;
    return n > 0 && (size_t)n < capacity;
}

/* Whole or not at all: readers poll for it. */
static bool write_address(const char *directory, const char *host, uint16_t port)
{
    char path[512], fresh[520], line[128];
    snprintf(path, sizeof path, "%s/gateway.addr", directory);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    int length = snprintf(line, sizeof line, strchr(host, ':') ? "[%s]:%u\n" : "%s:%u\n", host, port);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool ok = write(fd, line, (size_t)length) == length;
    close(fd);
    return ok && rename(fresh, path) == 0;
}

static void prepare_process(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_DUMPABLE, 0); /* tokens pass through this process */
    /* Few threads, many small blocks that cross them: a heap for each would hold on to what the others freed.
     */
    mallopt(M_ARENA_MAX, 4);
    mallopt(M_TRIM_THRESHOLD, 16 << 20);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

static enum mob_status make_engine(
    void *cls, const struct mob_engine_context *context, struct mob_engine **engine_out)
{
    struct mob_engine_runtime_options *options = cls;
    options->events = context->events;
    options->serve = context->serve;
    return mob_engine_runtime_start(options, engine_out);
}

static int serve(const struct settings *settings)
{
    char host[64], token_file[512], gcs_socket[512];
    uint16_t port;
    if (!split_listen(settings->listen ? settings->listen : "127.0.0.1:0", host, sizeof host, &port)) {
        fprintf(stderr, "mobula-gateway: --listen takes ADDRESS:PORT\n");
        return 2;
    }
    snprintf(token_file, sizeof token_file, "%s/token", settings->directory);
    snprintf(gcs_socket, sizeof gcs_socket, "%s/gcs.sock", settings->directory);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    struct mob_engine_runtime_options engine = {.directory = settings->directory,
        .gcs_socket = settings->gcs_socket ? settings->gcs_socket : gcs_socket};
    struct mob_gateway_options options = {.host = host,
        .port = port,
        .token_file = settings->token_file ? settings->token_file : token_file,
        .extra_hosts = settings->hosts,
        .extra_host_count = settings->host_count};
    struct mob_gateway *gateway;
    enum mob_status status = mob_gateway_open(&options, make_engine, &engine, &gateway);
    if (status != MOB_OK) {
        fprintf(stderr, "mobula-gateway: cannot serve on %s:%u: %s\n", host, port, mob_status_text(status));
        return 1;
    }
    if (!write_address(settings->directory, host, mob_gateway_port(gateway))) {
        fprintf(stderr, "mobula-gateway: %s/gateway.addr: %s\n", settings->directory, strerror(errno));
        mob_gateway_close(gateway);
        return 1;
    }
    MOB_LOG_INFO("gateway", "serving", "address=%s:%u", host, mob_gateway_port(gateway));
    int signal_number;
    sigwait(&signals, &signal_number);
    MOB_LOG_INFO("gateway", "stopping", "signal=%d", signal_number);
    mob_gateway_close(gateway);
    return 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {0};
    if (!read_options(argc, argv, &settings)) {
        fputs(usage, stderr);
        return 2;
    }
    if (settings.print_help) {
        fputs(usage, stdout);
        return 0;
    }
    prepare_process();
    return serve(&settings);
}
