/* The table in a file: for masters on one machine without PostgreSQL. Only the newest configuration is kept.
 *
 * A fail-over waits for the insert of its configuration, so that writes one block which the file has already,
 * and syncs its data only: no journal, which on a busy disk has others' data to write first (1.8 to 2.8 ms
 * instead of 6 to 8 at a load of 20, p90 5 to 8 instead of 14 to 20). The file has three slots, and its
 * content is the valid one with the highest number. Changes that must stay go to the first two in turn, so
 * that the one before is whole while a slot is written; beats, which are not synced, have the third. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "gcs/master/table_inner.h"

#define FILE_MAGIC 0x4c42544d42554f4dull /* "MOUBMTBL" */
#define FILE_VERSION 3u
#define SLOT_BYTES 4096u
#define LOCK_TRIES 100 /* a second: a change takes the time of one fsync */
#define LOCK_PAUSE_NS (10 * 1000000)

enum slot { SLOT_FIRST, SLOT_SECOND, SLOT_BEAT, SLOTS };

struct content {
    uint64_t magic, version;
    uint64_t number; /* of the change, from 1 */
    struct mob_master_row row;
    struct mob_gcs_config newest;
    uint64_t hash; /* of all before */
};
_Static_assert(sizeof(struct content) <= SLOT_BYTES, "a slot is one block");

/* A configuration of versions 1 and 2, which did not say when the chain was last started. */
struct config_2 {
    uint64_t epoch, term;
    uint32_t count, start;
    uint64_t members[MOB_GCS_MEMBERS_MAX];
};
struct content_2 {
    uint64_t magic, version, number;
    struct mob_master_row row;
    struct config_2 newest;
    uint64_t hash;
};
/* Version 1: the whole file, replaced by each change. */
struct content_1 {
    uint64_t magic, version;
    struct mob_master_row row;
    struct config_2 newest;
    uint64_t hash;
};

struct table {
    const char *path;
    struct content content;
    enum slot next; /* of the first two, the one that is older */
    bool has_slots; /* else the file is to be made */
};

static uint64_t hash_of(const struct content *c)
{
    return mob_hash64(c, offsetof(struct content, hash));
}

/* An earlier start is not in the file. Nobody needs it: who heard of that chain speaks another protocol. */
static struct mob_gcs_config config_of_2(const struct config_2 *old)
{
    struct mob_gcs_config config = {.epoch = old->epoch,
        .term = old->term,
        .count = old->count,
        .start = old->start,
        .started = old->start != 0 ? old->epoch : 0};
    memcpy(config.members, old->members, sizeof config.members);
    return config;
}

static enum mob_status load_1(const uint8_t *bytes, struct table *t)
{
    struct content_1 old;
    memcpy(&old, bytes, sizeof old);
    if (old.magic != FILE_MAGIC || old.hash != mob_hash64(&old, offsetof(struct content_1, hash)))
        return MOB_CORRUPT;
    if (old.version != 1)
        return MOB_VERSION;
    t->content.row = old.row;
    t->content.newest = config_of_2(&old.newest);
    return MOB_OK;
}

/* False: torn, or never written. The slots of a file may be of two versions. */
static bool load_slot(const uint8_t *bytes, struct content *out)
{
    struct content_2 old;
    memcpy(out, bytes, sizeof *out);
    memcpy(&old, bytes, sizeof old);
    if (out->magic != FILE_MAGIC)
        return false;
    if (out->version == FILE_VERSION)
        return out->hash == hash_of(out);
    if (old.version != 2 || old.hash != mob_hash64(&old, offsetof(struct content_2, hash)))
        return false;
    *out = (struct content){.magic = FILE_MAGIC,
        .version = FILE_VERSION,
        .number = old.number,
        .row = old.row,
        .newest = config_of_2(&old.newest)};
    return true;
}

/* One slot may be torn, by a power cut during a change that nobody was told of. */
static enum mob_status load_slots(const uint8_t *bytes, struct table *t)
{
    uint64_t numbers[SLOTS] = {0};
    for (int i = 0; i < SLOTS; i++) {
        struct content c;
        bool whole = load_slot(bytes + (size_t)i * SLOT_BYTES, &c);
        if (c.magic == FILE_MAGIC && c.version > FILE_VERSION)
            return MOB_VERSION;
        if (!whole)
            continue;
        numbers[i] = c.number;
        if (c.number > t->content.number)
            t->content = c;
    }
    t->has_slots = true;
    t->next = numbers[SLOT_FIRST] <= numbers[SLOT_SECOND] ? SLOT_FIRST : SLOT_SECOND;
    return t->content.number > 0 ? MOB_OK : MOB_CORRUPT;
}

static enum mob_status load(struct table *t)
{
    uint8_t bytes[SLOTS * SLOT_BYTES];
    int fd = open(t->path, O_RDONLY | O_CLOEXEC);
    t->content = (struct content){.magic = FILE_MAGIC, .version = FILE_VERSION};
    t->has_slots = false;
    if (fd < 0)
        return errno == ENOENT ? MOB_OK : MOB_IO;
    ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    if (n < 0)
        return MOB_IO;
    enum mob_status status = n == (ssize_t)sizeof bytes ? load_slots(bytes, t)
        : n == (ssize_t)sizeof(struct content_1)        ? load_1(bytes, t)
                                                        : MOB_CORRUPT;
    if (status == MOB_CORRUPT)
        MOB_LOG_ERROR("master", "table_corrupt", "path=%s", t->path);
    return status;
}

static enum mob_status sync_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    snprintf(
        folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path), slash == NULL ? "." : path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return synced ? MOB_OK : MOB_IO;
}

enum mob_status table_file_store(const char *path, const void *bytes, size_t length)
{
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return MOB_IO;
    bool written = write(fd, bytes, length) == (ssize_t)length && fsync(fd) == 0;
    close(fd);
    if (!written)
        return MOB_IO;
    return rename(temporary, path) == 0 ? sync_folder(path) : MOB_IO;
}

/* A file with its slots, and with this content in the first, in the place of what was there. */
static enum mob_status make(const struct table *t)
{
    uint8_t bytes[SLOTS * SLOT_BYTES] = {0};
    memcpy(bytes, &t->content, sizeof t->content);
    return table_file_store(t->path, bytes, sizeof bytes);
}

static enum mob_status write_slot(const struct table *t, enum slot slot, bool synced)
{
    off_t at = (off_t)slot * SLOT_BYTES;
    int fd = open(t->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return MOB_IO;
    bool written = pwrite(fd, &t->content, sizeof t->content, at) == (ssize_t)sizeof t->content &&
        (!synced || fdatasync(fd) == 0);
    if (!written) { /* what may not be on the disk is not to be read as if it were */
        static const struct content nothing;
        ssize_t n = pwrite(fd, &nothing, sizeof nothing, at);
        (void)n;
    }
    close(fd);
    return written ? MOB_OK : MOB_IO;
}

static enum mob_status store(struct table *t, bool synced)
{
    t->content.number++;
    t->content.hash = hash_of(&t->content);
    if (!t->has_slots)
        return make(t);
    return write_slot(t, synced ? t->next : SLOT_BEAT, synced);
}

static enum mob_status change(struct table *t, const struct mob_table_question *q)
{
    struct content *c = &t->content;
    if (q->op == MOB_TABLE_SET_ROW) {
        if (memcmp(&c->row, &q->old_row, sizeof c->row) != 0)
            return MOB_CONFLICT;
        /* A beat says only that the master lives, which it does not after a power cut. */
        bool beat_only = c->row.term == q->row.term;
        c->row = q->row;
        return store(t, !beat_only);
    }
    if (q->config.term != c->row.term || q->config.epoch <= c->newest.epoch)
        return MOB_CONFLICT;
    c->newest = q->config;
    return store(t, true);
}

/* A master that was stopped inside of a change would keep the others out until it goes on, and must not go on
 * behind their backs either: it is ended. One that is only slow is waited for. */
static void end_if_stopped(pid_t pid)
{
    if (!mob_process_is_stopped(pid))
        return;
    MOB_LOG_WARN("master", "ended_a_stopped_master", "pid=%d why=\"it holds the lock of the table\"", pid);
    (void)kill(pid, SIGKILL);
}

/* Of this process, which has one table: released when `fd` is closed. */
static enum mob_status lock_table(int fd)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(fd, F_SETLK, &lock) == 0)
            return MOB_OK;
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return MOB_IO;
        struct timespec pause = {0, LOCK_PAUSE_NS};
        nanosleep(&pause, NULL);
        if (i >= LOCK_TRIES / 2 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
            end_if_stopped(lock.l_pid);
    }
    return MOB_TIMEOUT; /* nothing was asked */
}

void table_file_ask(const char *path, const struct mob_table_question *q, struct mob_table_answer *a)
{
    char lock_path[4096];
    struct table t = {.path = path};
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    a->status = lock >= 0 ? lock_table(lock) : MOB_IO;
    if (a->status == MOB_OK)
        a->status = load(&t);
    if (a->status == MOB_OK && (q->op == MOB_TABLE_SET_ROW || q->op == MOB_TABLE_INSERT))
        a->status = change(&t, q);
    if (a->status == MOB_OK) {
        a->row = t.content.row;
        a->config = t.content.newest;
        if (q->op == MOB_TABLE_LOGS || q->op == MOB_TABLE_SET_LOG || q->op == MOB_TABLE_HOME)
            table_nodes_file_ask(path, t.content.row.term, q, a);
    }
    if (lock >= 0)
        close(lock);
}
