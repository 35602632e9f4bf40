#include "runtime/node/put_sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/known.h"

enum { ASKED_MAX = 64 };
#define AGE_EVERY_NS (3600 * MOB_SEC) /* each file costs a look-up */

struct put_sweep {
    struct mob_object_id *ids;
    uint32_t count, capacity;
    uint32_t at, asked; /* next to ask about; answers that are missing */
    uint32_t gone;
    int64_t next_before_ns; /* of the one that follows; INT64_MIN = none */
};

static void folder_of(const struct node *node, char *out, size_t capacity)
{
    snprintf(out, capacity, "%s/objects", node->options.directory);
}

static void path_of(const struct node *node, struct mob_object_id id, char *out, size_t capacity)
{
    char text[MOB_ID_TEXT_MAX];
    snprintf(out, capacity, "%s/objects/%s", node->options.directory, mob_object_id_format(id, text));
}

static void add(struct put_sweep *sweep, struct mob_object_id id)
{
    if (sweep->count == sweep->capacity) {
        sweep->capacity = sweep->capacity ? 2 * sweep->capacity : 64;
        sweep->ids = realloc(sweep->ids, sweep->capacity * sizeof *sweep->ids);
        MOB_ASSERT(sweep->ids);
    }
    sweep->ids[sweep->count++] = id;
}

static void list_files(const struct node *node, struct put_sweep *sweep, int64_t before_wall_ns)
{
    char folder[NODE_PATH_MAX + 16];
    folder_of(node, folder, sizeof folder);
    DIR *dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct mob_object_id id;
        struct stat info;
        if (mob_object_id_parse(d->d_name, &id) != MOB_OK) /* one that is being written has another name */
            continue;
        if (before_wall_ns != INT64_MAX &&
            (fstatat(dirfd(dir), d->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
                info.st_mtim.tv_sec >= before_wall_ns / MOB_SEC))
            continue;
        add(sweep, id);
    }
    if (dir)
        closedir(dir);
}

static void ask(struct node *node);

static void finish(struct node *node)
{
    struct put_sweep *sweep = node->put_sweep;
    int64_t next = sweep->next_before_ns;
    if (sweep->gone > 0)
        MOB_LOG_INFO("puts", "swept", "files=%u gone=%u", sweep->count, sweep->gone);
    node_puts_sweep_destroy(node);
    if (next != INT64_MIN)
        node_puts_sweep(node, next);
}

static void on_known(void *arg, enum mob_status status, const struct known *known)
{
    struct node *node = arg;
    struct put_sweep *sweep = node->put_sweep;
    char path[NODE_PATH_MAX + 80];
    sweep->asked--;
    if (status == MOB_OK && (!known->put || known->deleted)) {
        path_of(node, known->id, path, sizeof path);
        sweep->gone += unlink(path) == 0;
    }
    ask(node);
}

static void ask(struct node *node)
{
    struct put_sweep *sweep = node->put_sweep;
    while (sweep->at < sweep->count && sweep->asked < ASKED_MAX) {
        sweep->asked++;
        known_ask(node, sweep->ids[sweep->at++], on_known, node);
    }
    if (sweep->asked == 0)
        finish(node);
}

void node_puts_sweep(struct node *node, int64_t before_wall_ns)
{
    struct put_sweep *sweep = node->put_sweep;
    if (sweep) {
        if (before_wall_ns > sweep->next_before_ns)
            sweep->next_before_ns = before_wall_ns;
        return;
    }
    sweep = calloc(1, sizeof *sweep);
    MOB_ASSERT(sweep);
    sweep->next_before_ns = INT64_MIN;
    node->put_sweep = sweep;
    list_files(node, sweep, before_wall_ns);
    ask(node);
}

void node_puts_age(struct node *node, int64_t before_wall_ns)
{
    if (node->now_ns < node->next_put_age_ns)
        return;
    node->next_put_age_ns = node->now_ns + AGE_EVERY_NS;
    node_puts_sweep(node, before_wall_ns);
}

void node_puts_sweep_destroy(struct node *node)
{
    if (node->put_sweep)
        free(node->put_sweep->ids);
    free(node->put_sweep);
    node->put_sweep = NULL;
}
