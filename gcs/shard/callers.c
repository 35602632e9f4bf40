#include "gcs/shard/callers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/process.h"

#define MAGIC "mobula callers 1"

struct head {
    char magic[16];
    uint8_t boot[16];
    uint32_t vouches; /* 1: all who called since nothing was outstanding are in here */
    uint32_t life;
    uint64_t zero;
};
struct caller {
    int32_t pid; /* 0: no more */
    uint32_t zero;
    uint64_t started;
};
_Static_assert(sizeof(struct head) == 48 && sizeof(struct caller) == 16 && sizeof MAGIC == 17, "file layout");

/* As the file is. */
struct image {
    struct head head;
    struct caller callers[MOB_CALLERS_MAX];
};
struct mob_callers {
    int fd; /* -1: there is no file, and what would be in it is not known any more */
    bool over;
    uint32_t count;
    struct image image;
    char path[PATH_MAX];
};

static size_t read_text(const char *path, char *out, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, capacity);
    if (fd >= 0)
        close(fd);
    return n > 0 ? (size_t)n : 0;
}

void mob_callers_boot(uint8_t out[16])
{
    char text[256] = "";
    size_t used = read_text("/proc/sys/kernel/random/boot_id", text, 64);
    ssize_t n = readlink("/proc/self/ns/pid", text + used, sizeof text - used);
    struct mob_hash128 hash = {0};
    if (used > 0 && n > 0) /* else all zero, which mob_callers_open does not take for any */
        hash = mob_hash128(text, used + (size_t)n);
    memcpy(out, &hash, 16);
}

/* ---- the file ---- */

/* Whatever it says from now on would be less than there was. False: and it goes on saying it. */
static bool give_up(struct mob_callers *c, const char *why)
{
    if (c->fd < 0)
        return true;
    MOB_LOG_WARN("gcs", "callers_unknown", "why=\"%s\" count=%u", why, c->count);
    c->image.head.vouches = 0;
    bool gone = unlink(c->path) == 0 || errno == ENOENT ||
        pwrite(c->fd, &c->image.head, sizeof c->image.head, 0) == sizeof c->image.head;
    if (gone) {
        close(c->fd);
        c->fd = -1;
    }
    return gone;
}

/* All of it, in the place of what is there: another name first, so that a life which ends meanwhile leaves
 * the old or the new. Its room is taken now, so that a full disk does not matter later. */
static bool write_whole(struct mob_callers *c)
{
    char other[PATH_MAX + 8];
    snprintf(other, sizeof other, "%s.new", c->path);
    int fd = open(other, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write(fd, &c->image, sizeof c->image) == (ssize_t)sizeof c->image &&
        rename(other, c->path) == 0;
    if (good && c->fd >= 0)
        close(c->fd);
    if (good) {
        c->fd = fd;
        return true;
    }
    if (fd >= 0)
        close(fd);
    unlink(other);
    return false;
}

static bool drop_those_over(struct mob_callers *c)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        struct caller one = c->image.callers[i];
        if (!mob_process_is_over(one.pid, one.started))
            c->image.callers[kept++] = one;
    }
    bool fewer = kept < c->count;
    memset(&c->image.callers[kept], 0, (c->count - kept) * sizeof c->image.callers[0]);
    c->count = kept;
    return fewer;
}

/* ---- public ---- */

static bool read_before(struct mob_callers *c, const uint8_t boot[16], uint32_t life)
{
    static const uint8_t unknown[16];
    int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    bool read_all = fd >= 0 && read(fd, &c->image, sizeof c->image) == (ssize_t)sizeof c->image;
    if (fd >= 0)
        close(fd);
    const struct head *head = &c->image.head;
    return read_all && memcmp(head->magic, MAGIC, sizeof head->magic) == 0 &&
        memcmp(head->boot, boot, 16) == 0 && memcmp(unknown, boot, 16) != 0 && head->life == life &&
        head->vouches == 1;
}

enum mob_status mob_callers_open(
    const char *path, uint32_t life_before, uint32_t life, struct mob_callers **callers_out)
{
    uint8_t boot[16];
    struct mob_callers *c = calloc(1, sizeof *c);
    if (c == NULL)
        return MOB_NO_MEMORY;
    c->fd = -1;
    snprintf(c->path, sizeof c->path, "%s", path);
    mob_callers_boot(boot);
    bool believed = read_before(c, boot, life_before);
    if (!believed)
        memset(&c->image, 0, sizeof c->image);
    while (c->count < MOB_CALLERS_MAX && c->image.callers[c->count].pid != 0)
        c->count++;
    memcpy(c->image.head.magic, MAGIC, sizeof c->image.head.magic);
    memcpy(c->image.head.boot, boot, sizeof boot);
    c->image.head.life = life;
    drop_those_over(c);
    c->over = believed && c->count == 0;
    if (!write_whole(c) && unlink(path) != 0 && errno != ENOENT) {
        free(c);
        return MOB_IO;
    }
    *callers_out = c;
    return MOB_OK;
}

bool mob_callers_over(const struct mob_callers *c)
{
    return c->over;
}

static bool is_known(const struct mob_callers *c, int32_t pid, uint64_t started)
{
    for (uint32_t i = c->count; i-- > 0;)
        if (c->image.callers[i].pid == pid && c->image.callers[i].started == started)
            return true;
    return false;
}

bool mob_callers_add(struct mob_callers *c, int32_t pid, uint64_t started)
{
    if (c->fd < 0 || (pid > 0 && started != 0 && is_known(c, pid, started)))
        return true;
    if (pid <= 0 || started == 0)
        return give_up(c, "one of them is not known by its process");
    if (c->count == MOB_CALLERS_MAX && (!drop_those_over(c) || !write_whole(c)))
        return give_up(c, "too many of them live");
    struct caller *one = &c->image.callers[c->count];
    *one = (struct caller){.pid = pid, .started = started};
    off_t at = (const char *)one - (const char *)&c->image;
    if (pwrite(c->fd, one, sizeof *one, at) != (ssize_t)sizeof *one)
        return give_up(c, "the file cannot be written");
    c->count++;
    return true;
}

void mob_callers_vouch(struct mob_callers *c)
{
    if (c->image.head.vouches == 1 && c->fd >= 0)
        return;
    c->image.head.vouches = 1;
    if (c->fd >= 0 && pwrite(c->fd, &c->image.head, sizeof c->image.head, 0) != sizeof c->image.head)
        (void)give_up(c, "the file cannot be written"); /* one that does not vouch does no harm */
}

void mob_callers_destroy(struct mob_callers *c)
{
    if (c == NULL)
        return;
    if (c->fd >= 0)
        close(c->fd);
    free(c);
}
