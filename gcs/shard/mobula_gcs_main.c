/* mobula-gcs: one member of one shard of the control store. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/log.h"
#include "gcs/shard/redis_conf.h"
#include "gcs/shard/shard.h"

static const char usage[] =
    "usage: mobula-gcs --socket PATH --redis-dir DIR [option...]\n"
    "       mobula-gcs --redis-conf DIR     write redis.conf, redis.acl, redis.pass there and exit\n"
    "\n"
    "  --socket PATH           where clients connect (created, mode 0600)\n"
    "  --redis-dir DIR         folder of the private redis-server: redis.sock, redis.pass, appendonlydir\n"
    "  --redis PATH            its socket, if not DIR/redis.sock\n"
    "  --redis-user NAME       default mobula\n"
    "  --redis-password-file F default DIR/redis.pass; without that file no AUTH is sent\n"
    "  --durability MODE       everysec (default), always, no\n"
    "  --cluster HEX           32 hex digits; clients and blocks of another cluster are refused\n"
    "  --shard N               default 0\n"
    "  --memory-soft BYTES     above it answers carry pressure (default 768 MiB)\n"
    "  --memory-hard BYTES     above it writes are refused (default 1 GiB)\n"
    "  --rewrite-min BYTES     never rewrite a smaller append-only file (default 64 MiB)\n"
    "  --collect-ms N          after a restart that may have lost something, wait so long for clients "
    "(default 500)\n"
    "  --expire-ms N           forget clients that are gone for so long (default 60000)\n"
    "  --cold-wait-ms N        a read of flushed blocks waits so long for PostgreSQL (default 10000)\n"
    "  --die-with-parent       end when the process that started this one ends\n";

enum {
    OPT_SOCKET = 1000,
    OPT_REDIS_DIR,
    OPT_REDIS,
    OPT_USER,
    OPT_PASSWORD,
    OPT_DURABILITY,
    OPT_CLUSTER,
    OPT_SHARD,
    OPT_SOFT,
    OPT_HARD,
    OPT_REWRITE,
    OPT_COLLECT,
    OPT_EXPIRE,
    OPT_COLD_WAIT,
    OPT_PARENT,
    OPT_CONF,
    OPT_HELP
};
static const struct option options[] = {{"socket", required_argument, NULL, OPT_SOCKET},
    {"redis-dir", required_argument, NULL, OPT_REDIS_DIR}, {"redis", required_argument, NULL, OPT_REDIS},
    {"redis-user", required_argument, NULL, OPT_USER},
    {"redis-password-file", required_argument, NULL, OPT_PASSWORD},
    {"durability", required_argument, NULL, OPT_DURABILITY},
    {"cluster", required_argument, NULL, OPT_CLUSTER}, {"shard", required_argument, NULL, OPT_SHARD},
    {"memory-soft", required_argument, NULL, OPT_SOFT}, {"memory-hard", required_argument, NULL, OPT_HARD},
    {"rewrite-min", required_argument, NULL, OPT_REWRITE},
    {"collect-ms", required_argument, NULL, OPT_COLLECT}, {"expire-ms", required_argument, NULL, OPT_EXPIRE},
    {"cold-wait-ms", required_argument, NULL, OPT_COLD_WAIT},
    {"die-with-parent", no_argument, NULL, OPT_PARENT}, {"redis-conf", required_argument, NULL, OPT_CONF},
    {"help", no_argument, NULL, OPT_HELP}, {NULL, 0, NULL, 0}};

struct arguments {
    struct mob_shard_options shard;
    const char *redis_directory, *redis, *password_file, *conf_directory;
    bool help, die_with_parent;
};

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || text[0] == '-' || n > max)
        return false;
    *out = n;
    return true;
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

static bool parse_durability(const char *text, enum mob_gcs_durability *out)
{
    static const char *const names[] = {"everysec", "always", "no"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum mob_gcs_durability)i;
            return true;
        }
    return false;
}

static bool parse_one(struct arguments *a, int option)
{
    uint64_t n = 0;
    bool good = true;
    switch (option) {
    case OPT_SOCKET:
        a->shard.socket_path = optarg;
        break;
    case OPT_REDIS_DIR:
        a->redis_directory = optarg;
        break;
    case OPT_REDIS:
        a->redis = optarg;
        break;
    case OPT_USER:
        a->shard.redis_user = optarg;
        break;
    case OPT_PASSWORD:
        a->password_file = optarg;
        break;
    case OPT_DURABILITY:
        return parse_durability(optarg, &a->shard.durability);
    case OPT_CLUSTER:
        return parse_cluster(optarg, &a->shard.cluster);
    case OPT_SHARD:
        good = parse_number(optarg, UINT32_MAX, &n);
        a->shard.shard = (uint32_t)n;
        break;
    case OPT_SOFT:
        return parse_number(optarg, UINT64_MAX, &a->shard.soft_bytes);
    case OPT_HARD:
        return parse_number(optarg, UINT64_MAX, &a->shard.hard_bytes);
    case OPT_REWRITE:
        return parse_number(optarg, UINT64_MAX, &a->shard.rewrite_bytes);
    case OPT_COLLECT:
        good = parse_number(optarg, 3600000, &n);
        a->shard.collect_ns = (int64_t)n * 1000000;
        break;
    case OPT_EXPIRE:
        good = parse_number(optarg, 86400000, &n);
        a->shard.expire_ns = (int64_t)n * 1000000;
        break;
    case OPT_COLD_WAIT:
        good = parse_number(optarg, 3600000, &n);
        a->shard.cold_wait_ns = (int64_t)n * 1000000;
        break;
    case OPT_PARENT:
        a->die_with_parent = true;
        break;
    case OPT_CONF:
        a->conf_directory = optarg;
        break;
    case OPT_HELP:
        a->help = true;
        break;
    default:
        return false;
    }
    return good;
}

static bool parse_arguments(int argc, char **argv, struct arguments *a)
{
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (!parse_one(a, option)) {
            if (option != '?')
                fprintf(stderr, "mobula-gcs: bad value \"%s\"\n", optarg);
            return false;
        }
    if (optind != argc)
        return false;
    return a->help || a->conf_directory != NULL ||
        (a->shard.socket_path != NULL && a->redis_directory != NULL);
}

static int run(struct arguments *a)
{
    static char redis[4096], aof[4096], password_path[4096], password[160];
    snprintf(redis, sizeof redis, "%s/" MOB_REDIS_SOCKET_NAME, a->redis_directory);
    snprintf(aof, sizeof aof, "%s/" MOB_REDIS_AOF_DIR_NAME, a->redis_directory);
    snprintf(password_path, sizeof password_path, "%s/" MOB_REDIS_PASSWORD_NAME, a->redis_directory);
    enum mob_status status = mob_redis_password_read(
        a->password_file != NULL ? a->password_file : password_path, password, sizeof password);
    if (status != MOB_OK && (status != MOB_NOT_FOUND || a->password_file != NULL)) {
        fprintf(stderr, "mobula-gcs: cannot read the Redis password: %s\n", mob_status_text(status));
        return 1;
    }
    a->shard.redis_path = a->redis != NULL ? a->redis : redis;
    a->shard.aof_directory = aof;
    a->shard.redis_password = status == MOB_OK ? password : NULL;
    if (a->shard.redis_user == NULL)
        a->shard.redis_user = MOB_REDIS_USER;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    static int stop_fd;
    stop_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    a->shard.stop_fd = &stop_fd;
    status = mob_shard_run(&a->shard);
    if (status != MOB_OK)
        fprintf(stderr, "mobula-gcs: ended: %s (%s)\n", mob_status_text(status), mob_status_code(status));
    return status == MOB_OK || status == MOB_CANCELLED ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct arguments a = {0};
    if (!parse_arguments(argc, argv, &a)) {
        fputs(usage, stderr);
        return 2;
    }
    if (a.help) {
        fputs(usage, stdout);
        return 0;
    }
    if (a.conf_directory != NULL)
        return mob_redis_conf_write(a.conf_directory) == MOB_OK ? 0 : 1;
    prctl(PR_SET_DUMPABLE, 0); /* it holds the password and other people's data */
    if (a.die_with_parent) {
        pid_t parent = getppid();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    return run(&a);
}
