/* mobula-gateway: HTTP in front of a cluster. Starts without a runtime and connects when there is one. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/settings/daemon_start.h"
#include "common/settings/settings_daemon.h"
#include "common/settings/settings_forms.h"
#include "gcs/client/client.h"
#include "server/api/engine_runtime.h"
#include "server/gateway.h"

extern char **environ;

static struct {
    const char *gcs_socket, *node_socket, *token_file;
    bool help;
} links;
static const struct mob_daemon_link known_links[] = {
    {.name = "gcs-socket",
        .text_out = &links.gcs_socket,
        .help = "where the control store listens (DIR/gcs.sock)"},
    {.name = "node-socket", .text_out = &links.node_socket, .help = "where the node listens (DIR/node.sock)"},
    {.name = "token-file",
        .text_out = &links.token_file,
        .help = "the keys (DIR/token, 0600), made with one key if it is not there"},
    {.name = "help", .given_out = &links.help, .help = "this"},
    {.name = NULL},
};

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

static int serve(const struct mob_settings *settings)
{
    const char *directory = mob_setting_text(settings, MOB_SETTING_DIR);
    char host[MOB_LISTEN_HOST_MAX], token_file[512], gcs_socket[512], message[MOB_FORM_MESSAGE_MAX];
    uint16_t port;
    struct mob_listed_hosts hosts;
    if (mob_listen_parse(mob_setting_text(settings, MOB_SETTING_LISTEN), host, &port, message) != MOB_OK ||
        mob_hosts_parse(mob_setting_text(settings, MOB_SETTING_HOSTS), &hosts, message) != MOB_OK) {
        fprintf(stderr, "mobula-gateway: %s\n", message); /* checked when the settings were read */
        return 2;
    }
    snprintf(token_file, sizeof token_file, "%s/token", directory);
    snprintf(gcs_socket, sizeof gcs_socket, "%s/gcs.sock", directory);
    struct mob_cluster_id cluster;
    uint8_t secret[MOB_CLUSTER_SECRET_BYTES];
    if (!mob_daemon_identity(directory, &cluster, secret)) {
        fprintf(stderr, "mobula-gateway: %s has no cluster-id and cluster-secret\n", directory);
        return 2;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    struct mob_engine_runtime_options engine = {.directory = directory,
        .gcs_socket = links.gcs_socket ? links.gcs_socket : gcs_socket,
        .cluster = cluster,
        .secret = secret,
        .idempotency_ns = mob_setting_number(settings, MOB_SETTING_IDEMPOTENCY_S) * MOB_SEC,
        .retention_ns = mob_setting_number(settings, MOB_SETTING_RETENTION_S) * MOB_SEC};
    struct mob_gateway_options options = {.host = host,
        .port = port,
        .token_file = links.token_file ? links.token_file : token_file,
        .extra_hosts = hosts.names,
        .extra_host_count = hosts.count,
        .shards = mob_gcs_shards_in(engine.gcs_socket),
        .rate_limit = (uint32_t)mob_setting_number(settings, MOB_SETTING_RATE_LIMIT),
        .rate_burst = (uint32_t)mob_setting_number(settings, MOB_SETTING_RATE_BURST),
        .away_ns = mob_setting_number(settings, MOB_SETTING_GCS_AWAY_MS) * MOB_MS,
        .idempotency_ns = engine.idempotency_ns};
    struct mob_gateway *gateway;
    enum mob_status status = mob_gateway_open(&options, make_engine, &engine, &gateway);
    if (status != MOB_OK) {
        fprintf(stderr, "mobula-gateway: cannot serve on %s:%u: %s\n", host, port,
            status != MOB_IO             ? mob_status_text(status)
                : errno == EADDRINUSE    ? "another process does; give another --listen, or one with port 0"
                : errno == EADDRNOTAVAIL ? "that is no address of this machine; give another --listen"
                                         : strerror(errno));
        return 1;
    }
    if (!write_address(directory, host, mob_gateway_port(gateway))) {
        fprintf(stderr, "mobula-gateway: %s/gateway.addr: %s\n", directory, strerror(errno));
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
    static struct mob_settings settings;
    enum mob_status status =
        mob_settings_read_daemon(&settings, MOB_SETTINGS_GATEWAY, known_links, argc, argv, environ);
    if (status != MOB_OK) {
        fprintf(stderr, "mobula-gateway: %s (mobula-gateway --help lists what there is)\n", settings.error);
        return 2;
    }
    if (links.help) {
        mob_settings_daemon_help("mobula-gateway", MOB_SETTINGS_GATEWAY, known_links, stdout);
        return 0;
    }
    prepare_process();
    return serve(&settings);
}
