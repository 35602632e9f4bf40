#include "gcs/flush/postgres_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

#define TITLE_MAX 63
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define TITLE_CHARS NAME_CHARS "/"

static const char hba_text[] = "# Written at each start; changes are overwritten.\n"
                               "local all " MOB_POSTGRES_ROLE " peer map=mobula\n";

static enum mob_status finish(int written, size_t capacity)
{
    return written < 0 || (size_t)written >= capacity ? MOB_TOO_LARGE : MOB_OK;
}

/* The end of a long title says more than its beginning. */
static void plain_title(const char *title, char out[TITLE_MAX + 1])
{
    size_t length = strlen(title);
    snprintf(out, TITLE_MAX + 1, "%s", length > TITLE_MAX ? title + length - TITLE_MAX : title);
    for (char *c = out; *c != 0; c++)
        if (strchr(TITLE_CHARS, *c) == NULL)
            *c = '.';
}

enum mob_status mob_postgres_conf_text(const struct mob_postgres_conf *conf, char *out, size_t capacity)
{
    char title[TITLE_MAX + 1];
    plain_title(conf->title, title);
    int n = snprintf(out, capacity,
        "# Written at each start; changes are overwritten.\n"
        "include 'postgresql.conf' # what initdb found out about this machine\n"
        "listen_addresses = ''\n"
        "port = " MOB_POSTGRES_PORT "\n"
        "unix_socket_directories = '.'\n"
        "unix_socket_permissions = 0600\n"
        "cluster_name = '%s'\n"
        "# The flusher's connections, the master's, and one to look.\n"
        "max_connections = 16\n"
        "superuser_reserved_connections = 1\n"
        "shared_buffers = 24MB\n"
        "# Not in /dev/shm, where it would outlive a server that was killed.\n"
        "dynamic_shared_memory_type = mmap\n"
        "work_mem = 8MB\n"
        "maintenance_work_mem = 32MB\n"
        "wal_buffers = 4MB\n"
        "min_wal_size = 32MB\n"
        "max_wal_size = 256MB\n"
        "checkpoint_timeout = 15min\n"
        "# Nobody replicates it: what is not flushed is in the chain.\n"
        "wal_level = minimal\n"
        "max_wal_senders = 0\n"
        "# The control store drops what is committed here.\n"
        "fsync = on\n"
        "synchronous_commit = on\n"
        "full_page_writes = on\n"
        "# Payloads are compressed already.\n"
        "wal_compression = off\n"
        "max_worker_processes = 0\n"
        "max_logical_replication_workers = 0\n"
        "max_parallel_workers_per_gather = 0\n"
        "autovacuum_max_workers = 1\n"
        "autovacuum_naptime = 10min\n"
        "bgwriter_delay = 2s\n"
        "jit = off\n"
        "timezone = 'UTC'\n"
        "log_timezone = 'UTC'\n"
        "logging_collector = off\n"
        "log_destination = 'stderr'\n"
        "log_checkpoints = off\n",
        title);
    return finish(n, capacity);
}

enum mob_status mob_postgres_ident_text(const struct mob_postgres_conf *conf, char *out, size_t capacity)
{
    size_t length = strlen(conf->user);
    if (length == 0 || strspn(conf->user, NAME_CHARS) != length)
        return MOB_INVALID;
    return finish(snprintf(out, capacity,
                      "# Written at each start; changes are overwritten.\n"
                      "mobula %s " MOB_POSTGRES_ROLE "\n",
                      conf->user),
        capacity);
}

static enum mob_status write_file(int directory, const char *name, const char *text)
{
    char temporary[64];
    snprintf(temporary, sizeof temporary, ".%s.new", name);
    unlinkat(directory, temporary, 0);
    int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return MOB_IO;
    size_t length = strlen(text);
    bool written = write(fd, text, length) == (ssize_t)length && fsync(fd) == 0;
    close(fd);
    return written && renameat(directory, temporary, directory, name) == 0 ? MOB_OK : MOB_IO;
}

enum mob_status mob_postgres_conf_write(const char *directory, const struct mob_postgres_conf *conf)
{
    char main_text[2048], ident_text[512];
    enum mob_status status = mob_postgres_conf_text(conf, main_text, sizeof main_text);
    if (status == MOB_OK)
        status = mob_postgres_ident_text(conf, ident_text, sizeof ident_text);
    if (status != MOB_OK)
        return status;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return MOB_IO;
    status = write_file(fd, MOB_POSTGRES_CONF_NAME, main_text);
    if (status == MOB_OK)
        status = write_file(fd, MOB_POSTGRES_HBA_NAME, hba_text);
    if (status == MOB_OK)
        status = write_file(fd, MOB_POSTGRES_IDENT_NAME, ident_text);
    close(fd);
    if (status != MOB_OK)
        MOB_LOG_ERROR("flush", "postgres_conf_failed", "directory=%s errno=%d", directory, errno);
    return status;
}
