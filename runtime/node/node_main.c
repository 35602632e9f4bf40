/* mobula-node: settings, cluster files, run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/settings/daemon_start.h"
#include "common/settings/settings_daemon.h"
#include "runtime/node/node_run.h"

extern char **environ;

enum { EXIT_USAGE = 2, EXIT_FENCED = 3, EXIT_DAMAGED = 4 };

static struct {
    const char *gcs_socket, *worker_binary, *name, *masters;
    bool help;
} links = {.name = "node"};
static const struct mob_daemon_link known_links[] = {
    {.name = "gcs-socket",
        .text_out = &links.gcs_socket,
        .help = "where the control store listens (DIR/gcs.sock)"},
    {.name = "worker-binary", .text_out = &links.worker_binary, .help = "mobula-worker; needed"},
    {.name = "name", .text_out = &links.name, .help = "of this node in the cluster (node)"},
    {.name = "masters",
        .text_out = &links.masters,
        .help = "that nodes enroll at: of a shard with commas, shards with semicolons (none)"},
    {.name = "help", .given_out = &links.help, .help = "this"},
    {.name = NULL},
};

static bool keep(char *out, size_t capacity, const char *what, const char *text)
{
    if (snprintf(out, capacity, "%s", text) < (int)capacity)
        return true;
    fprintf(stderr, "mobula-node: %s is longer than %zu bytes\n", what, capacity - 1);
    return false;
}

/* False after a message. */
static bool configure(const struct mob_settings *settings, struct node_options *o)
{
    const char *directory = mob_setting_text(settings, MOB_SETTING_DIR);
    char socket[NODE_PATH_MAX + sizeof "/gcs.sock"];
    snprintf(socket, sizeof socket, "%.*s/gcs.sock", NODE_PATH_MAX, directory);
    *o = (struct node_options){
        .segment_bytes = (uint64_t)mob_setting_number(settings, MOB_SETTING_SEGMENT_BYTES),
        .spill_quota_bytes = (uint64_t)mob_setting_number(settings, MOB_SETTING_SPILL_QUOTA_BYTES),
        .worker_memory_bytes = (uint64_t)mob_setting_number(settings, MOB_SETTING_WORKER_MEMORY_BYTES),
        .retention_s = (uint64_t)mob_setting_number(settings, MOB_SETTING_RETENTION_S),
        .slots = (uint32_t)mob_setting_number(settings, MOB_SETTING_SLOTS),
        .blocked_max = (uint32_t)mob_setting_number(settings, MOB_SETTING_BLOCKED_MAX),
        .nest_max = (uint32_t)mob_setting_number(settings, MOB_SETTING_NEST_MAX),
        .idle_reap_ms = (uint32_t)mob_setting_number(settings, MOB_SETTING_IDLE_REAP_MS)};
    if (!links.worker_binary) {
        fprintf(stderr, "mobula-node: --worker-binary is needed\n");
        return false;
    }
    /* Nothing is spilled with a quota of 0, and then the directory needs not be there. */
    const char *spill = o->spill_quota_bytes == 0 ? "" : mob_setting_text(settings, MOB_SETTING_SPILL_DIR);
    return keep(o->directory, sizeof o->directory, "dir", directory) &&
        keep(o->gcs_socket, sizeof o->gcs_socket, "gcs-socket",
            links.gcs_socket ? links.gcs_socket : socket) &&
        keep(o->worker_binary, sizeof o->worker_binary, "worker-binary", links.worker_binary) &&
        keep(o->spill_directory, sizeof o->spill_directory, "spill-dir", spill) &&
        keep(o->resources, sizeof o->resources, "resources",
            mob_setting_text(settings, MOB_SETTING_RESOURCES)) &&
        keep(o->name, sizeof o->name, "name", links.name);
}

int main(int argc, char **argv)
{
    static struct node node; /* a table of every client slot: not for the stack */
    static struct mob_settings settings;
    enum mob_status status =
        mob_settings_read_daemon(&settings, MOB_SETTINGS_NODE, known_links, argc, argv, environ);
    if (status != MOB_OK) {
        fprintf(stderr, "mobula-node: %s (mobula-node --help lists what there is)\n", settings.error);
        return EXIT_USAGE;
    }
    if (links.help) {
        mob_settings_daemon_help("mobula-node", MOB_SETTINGS_NODE, known_links, stdout);
        return EXIT_SUCCESS;
    }
    if (!configure(&settings, &node.options))
        return EXIT_USAGE;
    node.options.masters = links.masters;
    prctl(PR_SET_DUMPABLE, 0); /* the cluster's secret is in memory */
    if (!mob_daemon_identity(node.options.directory, &node.cluster, node.secret)) {
        fprintf(stderr, "mobula-node: %s has no cluster-id and cluster-secret\n", node.options.directory);
        return EXIT_USAGE;
    }
    status = node_open(&node);
    if (status != MOB_OK) {
        MOB_LOG_ERROR("node", "start_failed", "status=%s", mob_status_code(status));
        return EXIT_FAILURE;
    }
    MOB_LOG_INFO("node", "ready", "incarnation=%lu slots=%u", node.incarnation, node.options.slots);
    node_loop(&node);
    bool sealed = node.sealed, damaged = mob_store_damaged(node.store);
    if (node.stopping &&
        lineage_log_idle(node.log)) /* the supervisor knows by this line that nothing is lost */
        MOB_LOG_INFO("node", "stopped", "incarnation=%lu log=acknowledged", node.incarnation);
    node_close(&node);
    return sealed ? EXIT_FENCED : damaged ? EXIT_DAMAGED : EXIT_SUCCESS;
}
