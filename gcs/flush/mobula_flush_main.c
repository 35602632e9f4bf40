/* mobula-flush: the flusher of one shard. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/settings/settings_daemon.h"
#include "gcs/flush/flusher.h"

extern char **environ;

#define EXIT_REFUSED 3 /* the database is another cluster's, or a newer program's */

static struct {
    const char *socket, *database, *cluster, *shard, *ready;
    bool die_with_parent, help;
} links;
static const struct mob_daemon_link known_links[] = {
    {.name = "gcs-socket", .text_out = &links.socket, .help = "of the control store's member"},
    {.name = "postgres-dir", .text_out = &links.database, .help = "folder of PostgreSQL's socket"},
    {.name = "cluster", .text_out = &links.cluster, .help = "32 hex digits"},
    {.name = "shard", .text_out = &links.shard, .help = "its number, default 0"},
    {.name = "ready-file", .text_out = &links.ready, .help = "made when it is at work"},
    {.name = "die-with-parent",
        .given_out = &links.die_with_parent,
        .help = "end when the process that started this one ends"},
    {.name = "help", .given_out = &links.help, .help = "this"},
    {.name = NULL},
};

static bool parse_shard(const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    *out = (uint32_t)n;
    return errno == 0 && end != text && *end == '\0' && text[0] != '-' && n <= INT32_MAX;
}

static bool parse_cluster(const char *text, struct mob_cluster_id *out)
{
    if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
        return false;
    for (int i = 0; i < 16; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};
        out->b[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

/* False after a message. */
static bool configure(const struct mob_settings *settings, struct mob_flusher_options *o)
{
    *o = (struct mob_flusher_options){.gcs_socket = links.socket,
        .database = links.database,
        .batch_bytes = (size_t)mob_setting_number(settings, MOB_SETTING_FLUSH_BATCH_BYTES),
        .delay_ns = mob_setting_number(settings, MOB_SETTING_FLUSH_DELAY_MS) * MOB_MS,
        .hot_percent = (uint32_t)mob_setting_number(settings, MOB_SETTING_FLUSH_HOT_PERCENT),
        .retention_s = mob_setting_number(settings, MOB_SETTING_RETENTION_S),
        .maintain_ns = mob_setting_number(settings, MOB_SETTING_FLUSH_MAINTAIN_MS) * MOB_MS,
        .ready_path = links.ready};
    const char *wrong = NULL;
    if (!links.socket || !links.database || !links.cluster)
        wrong = "--gcs-socket, --postgres-dir and --cluster are needed";
    else if (!parse_cluster(links.cluster, &o->cluster))
        wrong = "--cluster takes 32 hex digits";
    else if (links.shard && !parse_shard(links.shard, &o->shard))
        wrong = "--shard takes a number";
    if (wrong)
        fprintf(stderr, "mobula-flush: %s\n", wrong);
    return !wrong;
}

static int run(struct mob_flusher_options *options)
{
    sigset_t signals;
    bool clean = true;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    int stop_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
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
    prctl(PR_SET_DUMPABLE, 0); /* it holds other people's data */
    if (links.die_with_parent) {
        pid_t parent = getppid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    return run(&options);
}
