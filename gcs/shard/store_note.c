#include "gcs/shard/store_note.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"

/* Then the version, in one or two digits. */
#define MAGIC_NAME "mobula stored "
#define MAGIC MAGIC_NAME "1"

struct record {
    char magic[16];
    uint64_t turn; /* of writing */
    struct mob_store_facts facts;
    uint64_t sum; /* of all before it */
};
/* A block of a disk apart, so that one write cannot tear both. */
#define UNSYNCED_AT 4096
#define FILE_BYTES (UNSYNCED_AT + sizeof(struct record))
_Static_assert(sizeof(struct mob_store_facts) == 16 + 12 * 8 && sizeof(struct record) == 16 + 8 + 112 + 8 &&
        sizeof MAGIC == 16 && MOB_STORE_NOTE_VERSION == 1,
    "file layout");

struct mob_store_note {
    uint64_t turn; /* newest in the file */
    uint32_t unknown; /* version */
    char path[PATH_MAX];
};

static uint64_t sum_of(const struct record *r)
{
    return mob_hash64(r, offsetof(struct record, sum));
}

static bool is_whole(const struct record *r)
{
    return memcmp(r->magic, MAGIC, sizeof r->magic) == 0 && r->sum == sum_of(r);
}

/* The version of a record that another program has written; 0: it is none. Nothing else of it can be read, so
 * its sum cannot be looked at either. */
static uint32_t unknown_version_of(const struct record *r)
{
    const size_t name = sizeof MAGIC_NAME - 1;
    uint32_t version = 0;
    if (memcmp(r->magic, MAGIC_NAME, name) != 0)
        return 0;
    for (size_t i = name; i < sizeof r->magic && r->magic[i] != 0; i++) {
        if (r->magic[i] < '0' || r->magic[i] > '9')
            return 0;
        version = 10 * version + (uint32_t)(r->magic[i] - '0');
    }
    return version == MOB_STORE_NOTE_VERSION ? 0 : version;
}

enum mob_status mob_store_note_open(const char *socket, struct mob_store_note **note_out)
{
    struct mob_store_note *note = calloc(1, sizeof *note);
    if (note == NULL)
        return MOB_NO_MEMORY;
    int length = snprintf(note->path, sizeof note->path, "%s" MOB_STORE_NOTE_SUFFIX, socket);
    if (length < 0 || (size_t)length >= sizeof note->path) {
        free(note);
        return MOB_TOO_LARGE;
    }
    *note_out = note;
    return MOB_OK;
}

enum mob_status mob_store_note_read(struct mob_store_note *note, struct mob_store_facts *out)
{
    struct record found[2] = {0};
    int fd = open(note->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? MOB_NOT_FOUND : MOB_IO;
    bool read_all = pread(fd, &found[0], sizeof found[0], 0) >= 0 &&
        pread(fd, &found[1], sizeof found[1], UNSYNCED_AT) >= 0;
    close(fd);
    if (!read_all)
        return MOB_IO;
    if (found[0].magic[0] == 0 && found[1].magic[0] == 0)
        return MOB_NOT_FOUND; /* it was made, and nothing was written yet */
    note->unknown = 0;
    for (int i = 0; i < 2 && note->unknown == 0; i++)
        note->unknown = unknown_version_of(&found[i]);
    if (note->unknown != 0)
        return MOB_VERSION;
    const struct record *newest = NULL;
    for (int i = 0; i < 2; i++)
        if (is_whole(&found[i]) && (newest == NULL || found[i].turn > newest->turn))
            newest = &found[i];
    if (newest == NULL)
        return MOB_CORRUPT;
    note->turn = newest->turn;
    *out = newest->facts;
    return MOB_OK;
}

uint32_t mob_store_note_unknown(const struct mob_store_note *note)
{
    return note->unknown;
}

static bool sync_folder_of(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return synced;
}

/* All of its room, and its name, on the disk; what there is of it stays. */
static bool make_file(const char *path)
{
    static const uint8_t zeros[FILE_BYTES];
    struct stat now;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool made = fd >= 0 && fstat(fd, &now) == 0;
    size_t from = !made || now.st_size >= (off_t)FILE_BYTES ? FILE_BYTES : (size_t)now.st_size;
    size_t lacks = FILE_BYTES - from;
    made = made && pwrite(fd, zeros, lacks, (off_t)from) == (ssize_t)lacks && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return made && sync_folder_of(path);
}

/* A disk that was full then may have left less. */
static bool is_made(const char *path)
{
    struct stat now;
    return stat(path, &now) == 0 ? now.st_size >= (off_t)FILE_BYTES : errno != ENOENT;
}

enum mob_status mob_store_note_write(
    struct mob_store_note *note, const struct mob_store_facts *facts, bool synced)
{
    struct record r = {.magic = MAGIC, .turn = note->turn + 1, .facts = *facts};
    r.sum = sum_of(&r);
    if (!is_made(note->path) && !make_file(note->path))
        return MOB_IO;
    int fd = open(note->path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && pwrite(fd, &r, sizeof r, synced ? 0 : UNSYNCED_AT) == (ssize_t)sizeof r;
    if (synced)
        written = written && fdatasync(fd) == 0;
    if (fd >= 0)
        close(fd);
    if (written)
        note->turn++;
    return written ? MOB_OK : MOB_IO;
}

enum mob_status mob_store_note_remove(struct mob_store_note *note)
{
    return unlink(note->path) == 0 || errno == ENOENT ? MOB_OK : MOB_IO;
}

void mob_store_note_destroy(struct mob_store_note *note)
{
    free(note);
}

enum mob_status mob_store_note_look(const char *socket, struct mob_store_facts *out)
{
    struct mob_store_note *note;
    enum mob_status status = mob_store_note_open(socket, &note);
    if (status != MOB_OK)
        return status;
    status = mob_store_note_read(note, out);
    mob_store_note_destroy(note);
    return status;
}

void mob_store_note_refusal(const struct mob_store_facts *facts, char out[MOB_STORE_NOTE_TEXT_MAX])
{
    char when[32] = "?";
    struct tm tm;
    if (gmtime_r(&(time_t){facts->wall_ns / MOB_SEC}, &tm) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(out, MOB_STORE_NOTE_TEXT_MAX,
        "Redis is empty, and had data: epoch %" PRIu64 ", seq %" PRIu64 ", %" PRIu64 " logs, %" PRIu64
        " clients, %" PRIu64
        " keys at %s. Put its files back; or start with nothing: gcs-start-without-all on",
        facts->epoch, facts->seq, facts->logs, facts->clients, facts->keys, when);
}

void mob_store_note_version_refusal(uint32_t version, char out[MOB_STORE_NOTE_TEXT_MAX])
{
    snprintf(out, MOB_STORE_NOTE_TEXT_MAX,
        "The note of what its Redis has (" MOB_STORE_NOTE_SUFFIX ", beside its socket) is of version %" PRIu32
        ", and this program knows version %d. Start the program that wrote it",
        version, MOB_STORE_NOTE_VERSION);
}

bool mob_store_note_refuses(const char *socket, char out[MOB_STORE_NOTE_TEXT_MAX])
{
    struct mob_store_note *note;
    struct mob_store_facts facts;
    if (mob_store_note_open(socket, &note) != MOB_OK)
        return false;
    enum mob_status status = mob_store_note_read(note, &facts);
    bool refuses = status == MOB_VERSION || (status == MOB_OK && facts.refused_wall_ns != 0);
    if (refuses && status == MOB_VERSION)
        mob_store_note_version_refusal(note->unknown, out);
    else if (refuses)
        mob_store_note_refusal(&facts, out);
    mob_store_note_destroy(note);
    return refuses;
}
