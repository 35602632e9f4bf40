/* mobula-flush: the flusher of one shard. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/settings/daemon_start.h"
#include "common/settings/settings_daemon.h"
#include "gcs/flush/flusher.h"

extern char **environ;

#define EXIT_REFUSED 3 /* the database is another cluster's, or a newer program's */

static struct {
    const char *socket, *all_shards, *database, *cluster, *secret_file, *shard, *ready;
    bool die_with_parent, help;
} links;
static const struct mob_daemon_link known_links[] = {
    {.name = "gcs-socket", .text_out = &links.socket, .help = "of the control store's member"},
    {.name = "all-shards",
        .text_out = &links.all_shards,
        .help = "members of every shard, when there are several: the first shard's flusher drops old days "
                "for all"},
    {.name = "postgres-dir", .text_out = &links.database, .help = "folder of PostgreSQL's socket"},
    {.name = "cluster", .text_out = &links.cluster, .help = "32 hex digits"},
    {.name = "secret-file", .text_out = &links.secret_file, .help = "the cluster's secret, 32 bytes"},
    {.name = "shard", .text_out = &links.shard, .help = "its number, default 0"},
    {.name = "ready-file", .text_out = &links.ready, .help = "made when it is at work"},
    {.name = "die-with-parent",
        .given_out = &links.die_with_parent,
        .help = "end when the process that started this one ends"},
    {.name = "help", .given_out = &links.help, .help = "this"},
    {.name = NULL},
};

/* False after a message. */
static bool configure(const struct mob_settings *settings, struct mob_flusher_options *o)
{
    *o = (struct mob_flusher_options){.gcs_socket = links.socket,
        .all_shards = links.all_shards,
        .database = links.database,
        .batch_bytes = (size_t)mob_setting_number(settings, MOB_SETTING_FLUSH_BATCH_BYTES),
        .delay_ns = mob_setting_number(settings, MOB_SETTING_FLUSH_DELAY_MS) * MOB_MS,
        .hot_percent = (uint32_t)mob_setting_number(settings, MOB_SETTING_FLUSH_HOT_PERCENT),
        .retention_s = mob_setting_number(settings, MOB_SETTING_RETENTION_S),
        .maintain_ns = mob_setting_number(settings, MOB_SETTING_FLUSH_MAINTAIN_MS) * MOB_MS,
        .ready_path = links.ready};
    const char *wrong = NULL;
    if (!links.socket || !links.database || !links.cluster || !links.secret_file)
        wrong = "--gcs-socket, --postgres-dir, --cluster and --secret-file are needed";
    else if (!mob_daemon_secret(links.secret_file, o->secret))
        wrong = "--secret-file cannot be read, or has not 32 bytes";
    else if (!mob_daemon_cluster(links.cluster, &o->cluster))
        wrong = "--cluster takes 32 hex digits";
    else if (!mob_daemon_number(links.shard, 0, INT32_MAX, &o->shard))
        wrong = "--shard takes a number";
    if (wrong)
        fprintf(stderr, "mobula-flush: %s\n", wrong);
    return !wrong;
}

static int run(struct mob_flusher_options *options)
{
    bool clean = true;
    int stop_fd = mob_daemon_stop_fd();
    options->stop_fd = &stop_fd;
    enum mob_status status = mob_flusher_run(options, &clean);
    options->stop_fd = NULL; /* it points into this frame */
    if (status != MOB_OK)
        fprintf(stderr, "mobula-flush: ended: %s (%s)\n", mob_status_text(status), mob_status_code(status));
    bool refused = status == MOB_VERSION || status == MOB_DENIED || status == MOB_CORRUPT;
    int code = status == MOB_OK ? 0 : refused ? EXIT_REFUSED : 1;
    if (!clean) /* a thread waits for PostgreSQL: what it has begun is rolled back with its connection */
        _exit(code);
    close(stop_fd);
    return code;
}

int main(int argc, char **argv)
{
    static struct mob_settings settings;
    struct mob_flusher_options options;
    enum mob_status status =
        mob_settings_read_daemon(&settings, MOB_SETTINGS_FLUSH, known_links, argc, argv, environ);
    if (status != MOB_OK) {
        fprintf(stderr, "mobula-flush: %s (mobula-flush --help lists what there is)\n", settings.error);
        return 2;
    }
    if (links.help) {
        mob_settings_daemon_help("mobula-flush", MOB_SETTINGS_FLUSH, known_links, stdout);
        return 0;
    }
    if (!configure(&settings, &options))
        return 2;
    if (!mob_daemon_begin(links.die_with_parent))
        return 1;
    return run(&options);
}
