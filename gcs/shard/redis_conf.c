#include "gcs/shard/redis_conf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/log.h"

#define PASSWORD_CHARS 48
#define PATH_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%=:,"
#define PASSWORD_ALPHABET "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static enum mob_status finish(int written, size_t capacity)
{
    return written < 0 || (size_t)written >= capacity ? MOB_TOO_LARGE : MOB_OK;
}

enum mob_status mob_redis_conf_text(const struct mob_redis_conf *conf, char *out, size_t capacity)
{
    const char *d = conf->directory;
    if (d[0] != '/' || strspn(d, PATH_CHARS) != strlen(d))
        return MOB_INVALID;
    int n = snprintf(out, capacity,
        "# Written by mobula-gcs --redis-conf; changes are overwritten.\n"
        "port 0\n"
        "unixsocket %s/" MOB_REDIS_SOCKET_NAME "\n"
        "unixsocketperm 600\n"
        "dir %s\n"
        "aclfile %s/" MOB_REDIS_ACL_NAME "\n"
        "protected-mode yes\n"
        "daemonize no\n"
        "databases 1\n"
        "save \"\"\n"
        "# Redis writes the file before it answers; the member syncs it, and asks for rewrites.\n"
        "appendonly yes\n"
        "appenddirname " MOB_REDIS_AOF_DIR_NAME "\n"
        "appendfsync no\n"
        "auto-aof-rewrite-percentage 0\n"
        "aof-load-truncated yes\n"
        "aof-use-rdb-preamble yes\n"
        "aof-rewrite-incremental-fsync yes\n"
        "rdbcompression no\n"
        "# Never evict: full is the member's decision, an error to whom it concerns.\n"
        "maxmemory 0\n"
        "maxmemory-policy noeviction\n"
        "lazyfree-lazy-user-del yes\n"
        "proto-max-bulk-len 16mb\n"
        "client-query-buffer-limit 64mb\n"
        "hz 10\n"
        "loglevel notice\n",
        d, d, d);
    return finish(n, capacity);
}

enum mob_status mob_redis_acl_text(const struct mob_redis_conf *conf, char *out, size_t capacity)
{
    size_t length = strlen(conf->password);
    if (length < 32 || length > 128 || strspn(conf->password, PASSWORD_ALPHABET) != length)
        return MOB_INVALID;
    /* What the member sends, and nothing else: no scripts, no CONFIG, no other users; FLUSHDB, since a member
     * that joins a chain begins empty. The
     * default user is off, so nobody can be it, but Redis 7.0 loads its append-only file in its name and
     * silently skips an EXEC of what it may not do: so it has the commands that are in that file. */
    int n = snprintf(out, capacity,
        "user default off ~* -@all +select +set +mset +append +unlink +flushdb +multi +exec\n"
        "user " MOB_REDIS_USER
        " on >%s ~* -@all +auth +get +set +mset +append +unlink +flushdb +scan +multi +exec +info "
        "+bgrewriteaof +ping\n",
        conf->password);
    return finish(n, capacity);
}

static enum mob_status write_file(const char *directory, const char *name, const char *text)
{
    char path[4096], temporary[4096];
    if (finish(snprintf(path, sizeof path, "%s/%s", directory, name), sizeof path) != MOB_OK ||
        finish(snprintf(temporary, sizeof temporary, "%s/.%s.new", directory, name), sizeof temporary) !=
            MOB_OK)
        return MOB_TOO_LARGE;
    /* The directory may be another user's, who must not lead us elsewhere. */
    unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        goto err;
    size_t length = strlen(text);
    bool written = write(fd, text, length) == (ssize_t)length && fsync(fd) == 0;
    close(fd);
    if (!written || rename(temporary, path) != 0)
        goto err;
    return MOB_OK;
err:
    MOB_LOG_ERROR("gcs", "redis_conf_failed", "path=%s errno=%d", path, errno);
    return MOB_IO;
}

enum mob_status mob_redis_password_read(const char *path, char *out, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? MOB_NOT_FOUND : MOB_IO;
    ssize_t n = read(fd, out, capacity - 1);
    close(fd);
    if (n < 0)
        return MOB_IO;
    out[n] = 0;
    out[strcspn(out, "\r\n")] = 0;
    return out[0] == 0 ? MOB_INVALID : MOB_OK;
}

/* A Redis that is killed while it rewrites its file leaves the half of the new one behind, for ever. */
static void remove_unfinished_rewrites(const char *directory)
{
    DIR *listing = opendir(directory);
    if (listing == NULL)
        return;
    for (struct dirent *e; (e = readdir(listing)) != NULL;)
        if (strncmp(e->d_name, "temp-rewriteaof-", 16) == 0)
            unlinkat(dirfd(listing), e->d_name, 0);
    closedir(listing);
}

enum mob_status mob_redis_conf_write(const char *directory)
{
    return mob_redis_conf_write_seen_as(directory, directory);
}

enum mob_status mob_redis_conf_write_seen_as(const char *directory, const char *seen_as)
{
    char path[4096], password[160], text[4096];
    if (finish(snprintf(path, sizeof path, "%s/" MOB_REDIS_PASSWORD_NAME, directory), sizeof path) != MOB_OK)
        return MOB_TOO_LARGE;
    struct mob_redis_conf conf = {seen_as, password};
    enum mob_status status = mob_redis_password_read(path, password, sizeof password);
    if (status != MOB_OK) {
        /* 62 characters of 48 random bytes: well over 256 bits, the slight bias does not matter. */
        uint8_t random[PASSWORD_CHARS];
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
            return MOB_IO;
        for (int i = 0; i < PASSWORD_CHARS; i++)
            password[i] = PASSWORD_ALPHABET[random[i] % (sizeof PASSWORD_ALPHABET - 1)];
        password[PASSWORD_CHARS] = 0;
        status = write_file(directory, MOB_REDIS_PASSWORD_NAME, password);
    }
    if (status == MOB_OK)
        status = mob_redis_acl_text(&conf, text, sizeof text);
    if (status == MOB_OK)
        status = write_file(directory, MOB_REDIS_ACL_NAME, text);
    if (status == MOB_OK)
        status = mob_redis_conf_text(&conf, text, sizeof text);
    if (status == MOB_OK)
        status = write_file(directory, MOB_REDIS_CONF_NAME, text);
    remove_unfinished_rewrites(directory);
    explicit_bzero(password, sizeof password);
    explicit_bzero(text, sizeof text);
    return status;
}
