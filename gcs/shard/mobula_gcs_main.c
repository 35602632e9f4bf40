/* mobula-gcs: one member of one shard of the control store. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/settings/daemon_start.h"
#include "common/settings/settings_daemon.h"
#include "common/settings/settings_forms.h"
#include "gcs/chain/chain.h"
#include "gcs/shard/redis_conf.h"
#include "gcs/shard/shard.h"
#include "gcs/shard/store_note.h"

extern char **environ;

static struct {
    const char *socket, *redis_directory, *redis, *redis_user, *password_file, *cluster, *shard,
        *conf_directory, *link, *link_told, *client_told, *masters, *secret_file, *lease_ms, *suspicion_ms;
    bool die_with_parent, help;
} links;
static const struct mob_daemon_link known_links[] = {
    {.name = "socket", .text_out = &links.socket, .help = "where clients connect (created, mode 0600)"},
    {.name = "redis-dir",
        .text_out = &links.redis_directory,
        .help = "folder of the private redis-server: redis.sock, redis.pass, appendonlydir"},
    {.name = "redis", .text_out = &links.redis, .help = "its socket, if not there"},
    {.name = "redis-user", .text_out = &links.redis_user, .help = "default " MOB_REDIS_USER},
    {.name = "redis-password-file",
        .text_out = &links.password_file,
        .help = "if not there; without that file no AUTH is sent"},
    {.name = "cluster",
        .text_out = &links.cluster,
        .help = "32 hex digits; clients and blocks of another cluster are refused"},
    {.name = "shard", .text_out = &links.shard, .help = "its number, default 0"},
    {.name = "masters",
        .text_out = &links.masters,
        .help = "addresses of masters, with commas: a member of a chain; without, the only member"},
    {.name = "link", .text_out = &links.link, .help = "where other members connect: a path, or host:port"},
    {.name = "link-advertised", .text_out = &links.link_told, .help = "where they find that, if not there"},
    {.name = "socket-advertised",
        .text_out = &links.client_told,
        .help = "and where clients find --socket: what is forwarded"},
    {.name = "secret-file",
        .text_out = &links.secret_file,
        .help = "the cluster's secret, 32 bytes: who does not prove that he knows it is refused"},
    {.name = "lease-ms", .text_out = &links.lease_ms, .help = "of reads, as the masters know it; default 10"},
    {.name = "suspicion-ms", .text_out = &links.suspicion_ms, .help = "the masters' too; default 12"},
    {.name = "die-with-parent",
        .given_out = &links.die_with_parent,
        .help = "end when the process that started this one ends"},
    {.name = "redis-conf",
        .text_out = &links.conf_directory,
        .help = "only write redis.conf, redis.acl, redis.pass in that folder"},
    {.name = "help", .given_out = &links.help, .help = "this"},
    {.name = NULL},
};

/* What is wrong, or NULL. */
static const char *configure_chain(struct mob_shard_chain *chain)
{
    static char masters[512];
    if (links.link == NULL)
        return "--masters needs --link";
    if (!mob_daemon_ms(links.lease_ms, MOB_CHAIN_LEASE_NS, &chain->lease_ns) ||
        !mob_daemon_ms(links.suspicion_ms, chain->lease_ns + 2 * MOB_MS, &chain->suspicion_ns) ||
        chain->suspicion_ns < chain->lease_ns + 2 * MOB_MS)
        return "--suspicion-ms is at least --lease-ms and 2";
    if (strlen(links.masters) >= sizeof masters)
        return "--masters is too long";
    chain->link = links.link;
    chain->link_told = links.link_told;
    chain->client_told = links.client_told;
    memcpy(masters, links.masters, strlen(links.masters) + 1);
    char *rest = masters;
    for (char *one; (one = strsep(&rest, ",")) != NULL && chain->master_count < MOB_SHARD_MASTERS_MAX;)
        chain->masters[chain->master_count++] = one;
    return rest == NULL ? NULL : "--masters names too many";
}

static enum mob_gcs_durability durability_of(const char *text)
{
    static const char *const names[] = {"everysec", "always", "no"};
    unsigned i = 0;
    while (i < 2 && strcmp(text, names[i]) != 0)
        i++;
    MOB_ASSERT(strcmp(text, names[i]) == 0); /* the table has these choices */
    return (enum mob_gcs_durability)i;
}

/* False after a message. */
static bool configure(const struct mob_settings *settings, struct mob_shard_options *o)
{
    *o = (struct mob_shard_options){.socket_path = links.socket,
        .forwarded = links.client_told != NULL,
        .redis_user = links.redis_user ? links.redis_user : MOB_REDIS_USER,
        .durability = durability_of(mob_setting_text(settings, MOB_SETTING_GCS_DURABILITY)),
        .soft_bytes = (uint64_t)mob_setting_number(settings, MOB_SETTING_GCS_SOFT_BYTES),
        .hard_bytes = (uint64_t)mob_setting_number(settings, MOB_SETTING_GCS_HARD_BYTES),
        .rewrite_bytes = (uint64_t)mob_setting_number(settings, MOB_SETTING_GCS_REWRITE_BYTES),
        .collect_ns = mob_setting_number(settings, MOB_SETTING_GCS_COLLECT_MS) * MOB_MS,
        .expire_ns = mob_setting_number(settings, MOB_SETTING_GCS_EXPIRE_MS) * MOB_MS,
        .start_without_all = strcmp(mob_setting_text(settings, MOB_SETTING_GCS_START_WITHOUT_ALL), "on") == 0,
        .cold_wait_ns = mob_setting_number(settings, MOB_SETTING_GCS_COLD_WAIT_MS) * MOB_MS};
    char message[MOB_FORM_MESSAGE_MAX];
    MOB_ASSERT(mob_cpus_parse(mob_setting_text(settings, MOB_SETTING_GCS_CPUS), &o->cpus, message) == MOB_OK);
    const char *wrong = NULL;
    if (!links.socket || !links.redis_directory || !links.secret_file)
        wrong = "--socket, --redis-dir and --secret-file are needed";
    else if (!mob_daemon_secret(links.secret_file, o->secret))
        wrong = "--secret-file cannot be read, or has not 32 bytes";
    else if (links.cluster && !mob_daemon_cluster(links.cluster, &o->cluster))
        wrong = "--cluster takes 32 hex digits";
    else if (!mob_daemon_number(links.shard, 0, UINT32_MAX, &o->shard))
        wrong = "--shard takes a number";
    static struct mob_shard_chain chain;
    if (!wrong && links.masters) {
        wrong = configure_chain(&chain);
        o->chain = &chain;
    }
    if (wrong)
        fprintf(stderr, "mobula-gcs: %s\n", wrong);
    return !wrong;
}

/* The last line is what a supervisor shows of it. */
static void say_end(enum mob_status status, const char *socket)
{
    struct mob_store_facts facts;
    char text[MOB_STORE_NOTE_TEXT_MAX] = "Redis is empty, and had data";
    enum mob_status note = mob_store_note_look(socket, &facts);
    if (status == MOB_LOST_UNCOMMITTED && note == MOB_OK)
        mob_store_note_refusal(&facts, text); /* also when it could not be noted that it refuses */
    else if (status == MOB_VERSION && note == MOB_VERSION)
        (void)mob_store_note_refuses(socket, text);
    else if (status != MOB_LOST_UNCOMMITTED)
        snprintf(text, sizeof text, "ended: %s (%s)", mob_status_text(status), mob_status_code(status));
    fprintf(stderr, "mobula-gcs: %s\n", text);
}

static int run(struct mob_shard_options *options)
{
    static char redis[4096], aof[4096], password_path[4096], password[160];
    snprintf(redis, sizeof redis, "%s/" MOB_REDIS_SOCKET_NAME, links.redis_directory);
    snprintf(aof, sizeof aof, "%s/" MOB_REDIS_AOF_DIR_NAME, links.redis_directory);
    snprintf(password_path, sizeof password_path, "%s/" MOB_REDIS_PASSWORD_NAME, links.redis_directory);
    enum mob_status status = mob_redis_password_read(
        links.password_file != NULL ? links.password_file : password_path, password, sizeof password);
    if (status != MOB_OK && (status != MOB_NOT_FOUND || links.password_file != NULL)) {
        fprintf(stderr, "mobula-gcs: cannot read the Redis password: %s\n", mob_status_text(status));
        return 1;
    }
    options->redis_path = links.redis != NULL ? links.redis : redis;
    options->aof_directory = aof;
    options->redis_password = status == MOB_OK ? password : NULL;
    static int stop_fd;
    stop_fd = mob_daemon_stop_fd();
    options->stop_fd = &stop_fd;
    status = mob_shard_run(options);
    if (status != MOB_OK)
        say_end(status, options->socket_path);
    return status == MOB_OK || status == MOB_CANCELLED ? 0 : 1;
}

/* What a pass needs for a moment (batches for Redis, rows of the journal) would go back to the system with
 * each, and be cleared by it again for the next. */
static void keep_freed_memory(void)
{
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

int main(int argc, char **argv)
{
    static struct mob_settings settings;
    struct mob_shard_options options;
    enum mob_status status =
        mob_settings_read_daemon(&settings, MOB_SETTINGS_GCS, known_links, argc, argv, environ);
    if (status != MOB_OK) {
        fprintf(stderr, "mobula-gcs: %s (mobula-gcs --help lists what there is)\n", settings.error);
        return 2;
    }
    if (links.help) {
        mob_settings_daemon_help("mobula-gcs", MOB_SETTINGS_GCS, known_links, stdout);
        return 0;
    }
    if (links.conf_directory != NULL)
        return mob_redis_conf_write(links.conf_directory) == MOB_OK ? 0 : 1;
    if (!configure(&settings, &options))
        return 2;
    if (!mob_daemon_begin(links.die_with_parent))
        return 1;
    keep_freed_memory();
    return run(&options);
}
