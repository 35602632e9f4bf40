/* mobula-master: makes the configurations of a shard's chain. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/settings/daemon_start.h"
#include "common/settings/settings_daemon.h"
#include "gcs/chain/membership.h"
#include "gcs/chain/node_watch.h"
#include "gcs/master/master.h"

extern char **environ;

static struct {
    const char *listen, *postgres, *file, *replace, *cluster, *secret_file, *shard, *replicas, *lease_ms,
        *suspicion_ms, *gather_ms, *gcs_socket, *shards, *silence_ms;
    bool start_without_all, die_with_parent, help;
} links;
static const struct mob_daemon_link known_links[] = {
    {.name = "listen", .text_out = &links.listen, .help = "where members connect: a path, or host:port"},
    {.name = "postgres",
        .text_out = &links.postgres,
        .help = "folder of PostgreSQL's socket: configurations are there"},
    {.name = "table-file", .text_out = &links.file, .help = "or in this file, on one machine"},
    {.name = "replace-socket",
        .text_out = &links.replace,
        .help = "who starts members: is told what hangs, and is to be ended"},
    {.name = "cluster", .text_out = &links.cluster, .help = "32 hex digits"},
    {.name = "secret-file", .text_out = &links.secret_file, .help = "the cluster's secret, 32 bytes"},
    {.name = "shard", .text_out = &links.shard, .help = "its number, default 0"},
    {.name = "shards", .text_out = &links.shards, .help = "how many there are, default 1"},
    {.name = "gcs-socket",
        .text_out = &links.gcs_socket,
        .help = "clients' sockets of the shard's members, with commas: nodes may enroll here"},
    {.name = "node-silence-ms",
        .text_out = &links.silence_ms,
        .help = "silence after which a node is declared dead, default 3000"},
    {.name = "replicas", .text_out = &links.replicas, .help = "members of the chain, default 2"},
    {.name = "lease-ms", .text_out = &links.lease_ms, .help = "of reads at the tail, default 10"},
    {.name = "suspicion-ms",
        .text_out = &links.suspicion_ms,
        .help = "silence after which a member is left out; at least the lease and 2, default 12"},
    {.name = "gather-ms",
        .text_out = &links.gather_ms,
        .help = "after everything died: how long all of the last chain are waited for, default 10000"},
    {.name = "start-without-all",
        .given_out = &links.start_without_all,
        .help = "and then start with the best that is there: what only others had is lost"},
    {.name = "die-with-parent",
        .given_out = &links.die_with_parent,
        .help = "end when the process that started this one ends"},
    {.name = "help", .given_out = &links.help, .help = "this"},
    {.name = NULL},
};

/* What is wrong, or NULL. */
static const char *configure(struct mob_master_options *o)
{
    *o = (struct mob_master_options){.listen = links.listen,
        .postgres = links.postgres,
        .file = links.file,
        .replace_socket = links.replace,
        .gcs_socket = links.gcs_socket,
        .start_without_all = links.start_without_all};
    if (links.listen == NULL || (links.postgres == NULL) == (links.file == NULL))
        return "--listen is needed, and either --postgres or --table-file";
    if (!mob_daemon_cluster(links.cluster, &o->cluster))
        return "--cluster takes 32 hex digits";
    if (!mob_daemon_secret(links.secret_file, o->secret))
        return "--secret-file cannot be read, or has not 32 bytes";
    if (!mob_daemon_number(links.shard, 0, UINT32_MAX, &o->shard) ||
        !mob_daemon_number(links.replicas, 2, MOB_GCS_MEMBERS_MAX, &o->replicas) || o->replicas == 0)
        return "--replicas takes 1 to 7, --shard a number";
    if (!mob_daemon_ms(links.lease_ms, 10 * MOB_MS, &o->lease_ns) ||
        !mob_daemon_ms(links.suspicion_ms, o->lease_ns + 2 * MOB_MS, &o->suspicion_ns) ||
        o->suspicion_ns < o->lease_ns + 2 * MOB_MS)
        return "--suspicion-ms is at least --lease-ms and 2";
    if (!mob_daemon_number(links.shards, 1, 64, &o->shards) ||
        o->shard >= (o->shards > 1 ? o->shards : UINT32_MAX))
        return "--shards takes 1 to 64, above --shard";
    if (!mob_daemon_ms(links.silence_ms, MOB_NODE_SILENCE_NS, &o->silence_ns) ||
        o->silence_ns < MOB_NODE_SILENCE_MIN_NS)
        return "--node-silence-ms is at least 1000";
    if (!mob_daemon_ms(links.gather_ms, 10 * MOB_SEC, &o->gather_ns))
        return "--gather-ms takes a number above 0";
    return NULL;
}

int main(int argc, char **argv)
{
    static struct mob_settings settings;
    struct mob_master_options options;
    enum mob_status status =
        mob_settings_read_daemon(&settings, MOB_SETTINGS_CLI, known_links, argc, argv, environ);
    if (status != MOB_OK) {
        fprintf(stderr, "mobula-master: %s (mobula-master --help lists what there is)\n", settings.error);
        return 2;
    }
    if (links.help) {
        mob_settings_daemon_help("mobula-master", MOB_SETTINGS_CLI, known_links, stdout);
        return 0;
    }
    const char *wrong = configure(&options);
    if (wrong != NULL) {
        fprintf(stderr, "mobula-master: %s\n", wrong);
        return 2;
    }
    if (!mob_daemon_begin(links.die_with_parent))
        return 1;
    int stop_fd = mob_daemon_stop_fd();
    options.stop_fd = &stop_fd;
    status = mob_master_run(&options);
    if (status != MOB_OK)
        fprintf(stderr, "mobula-master: ended: %s (%s)\n", mob_status_text(status), mob_status_code(status));
    return status == MOB_OK ? 0 : 1;
}
