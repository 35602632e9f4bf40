/* Homes and logs of nodes in a file beside the table's, so that the row's beats, which are written in place,
 * are not mixed with what must not be lost. It is replaced whole by each change. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/wire/home.h"
#include "gcs/master/table_inner.h"

#define FILE_MAGIC 0x53444f4e42554f4dull /* "MOUBNODS" */
#define FILE_VERSION 1u
#define HOMES_MAX 128u

struct node_home {
    uint64_t shard;
    char node[MOB_GCS_NAME_MAX + 1];
};
struct content {
    uint64_t magic, version;
    uint64_t home_count, log_count;
    struct node_home homes[HOMES_MAX];
    struct mob_node_log logs[MOB_NODE_LOGS_MAX];
    uint64_t hash; /* of all before */
};

static enum mob_status load(const char *path, struct content *out)
{
    memset(out, 0, sizeof *out);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        out->magic = FILE_MAGIC;
        out->version = FILE_VERSION;
        return MOB_OK;
    }
    ssize_t n = fd < 0 ? -1 : read(fd, out, sizeof *out);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return MOB_IO;
    bool whole = n == (ssize_t)sizeof *out && out->magic == FILE_MAGIC &&
        out->hash == mob_hash64(out, offsetof(struct content, hash)) && out->home_count <= HOMES_MAX &&
        out->log_count <= MOB_NODE_LOGS_MAX;
    if (whole && out->version != FILE_VERSION)
        return MOB_VERSION;
    if (!whole)
        MOB_LOG_ERROR("master", "table_corrupt", "path=%s", path);
    return whole ? MOB_OK : MOB_CORRUPT;
}

static enum mob_status store(const char *path, struct content *c)
{
    c->hash = mob_hash64(c, offsetof(struct content, hash));
    return table_file_store(path, c, sizeof *c);
}

static struct mob_node_log *find_log(struct content *c, uint64_t incarnation)
{
    for (uint64_t i = 0; i < c->log_count; i++)
        if (c->logs[i].incarnation == incarnation)
            return &c->logs[i];
    return NULL;
}

/* No two of one node live. */
static bool another_lives(const struct content *c, const struct mob_node_log *log)
{
    for (uint64_t i = 0; i < c->log_count; i++)
        if (c->logs[i].state != MOB_NODE_LOG_SEALED && strcmp(c->logs[i].node, log->node) == 0)
            return true;
    return false;
}

/* NULL: full of those that are not sealed. The oldest sealed one makes room. */
static struct mob_node_log *place_for_log(struct content *c)
{
    struct mob_node_log *oldest = NULL;
    if (c->log_count < MOB_NODE_LOGS_MAX)
        return &c->logs[c->log_count++];
    for (uint64_t i = 0; i < c->log_count; i++) {
        struct mob_node_log *log = &c->logs[i];
        if (log->state == MOB_NODE_LOG_SEALED && (oldest == NULL || log->incarnation < oldest->incarnation))
            oldest = log;
    }
    return oldest;
}

static enum mob_status set_log(struct content *c, uint64_t term, const struct mob_table_question *q)
{
    struct mob_node_log *log = find_log(c, q->log.incarnation);
    if (q->row.term != term || (log == NULL ? MOB_NODE_LOG_NONE : log->state) != q->old_state)
        return MOB_CONFLICT;
    if (log == NULL && another_lives(c, &q->log))
        return MOB_CONFLICT;
    if (log == NULL)
        log = place_for_log(c);
    if (log == NULL)
        return MOB_QUEUE_FULL;
    *log = q->log;
    return MOB_OK;
}

static enum mob_status find_home(
    struct content *c, uint64_t term, const struct mob_table_question *q, uint32_t *home_out)
{
    uint64_t homes[64] = {0};
    uint32_t shards = q->shards < sizeof homes / sizeof homes[0] ? q->shards : sizeof homes / sizeof homes[0];
    for (uint64_t i = 0; i < c->home_count; i++) {
        if (strcmp(c->homes[i].node, q->log.node) == 0) {
            *home_out = (uint32_t)c->homes[i].shard;
            return MOB_OK;
        }
        if (c->homes[i].shard < sizeof homes / sizeof homes[0])
            homes[c->homes[i].shard]++;
    }
    if (q->row.term != term)
        return MOB_CONFLICT;
    if (c->home_count == HOMES_MAX)
        return MOB_QUEUE_FULL;
    struct node_home *home = &c->homes[c->home_count++];
    home->shard = mob_home_with_fewest(homes, shards);
    memcpy(home->node, q->log.node, sizeof home->node);
    *home_out = (uint32_t)home->shard;
    return MOB_OK;
}

static enum mob_status copy_logs(const struct content *c, struct mob_table_answer *a)
{
    a->logs = malloc((c->log_count + 1) * sizeof *a->logs);
    if (a->logs == NULL)
        return MOB_NO_MEMORY;
    memcpy(a->logs, c->logs, c->log_count * sizeof *a->logs);
    a->log_count = (uint32_t)c->log_count;
    return MOB_OK;
}

void table_nodes_file_ask(
    const char *path, uint64_t term, const struct mob_table_question *q, struct mob_table_answer *a)
{
    char nodes_path[4096];
    struct content *c = malloc(sizeof *c);
    snprintf(nodes_path, sizeof nodes_path, "%s.nodes", path);
    a->status = c == NULL ? MOB_NO_MEMORY : load(nodes_path, c);
    if (a->status == MOB_OK && q->op == MOB_TABLE_LOGS) {
        a->status = copy_logs(c, a);
    } else if (a->status == MOB_OK) {
        uint64_t homes = c->home_count;
        a->status = q->op == MOB_TABLE_HOME ? find_home(c, term, q, &a->home) : set_log(c, term, q);
        if (a->status == MOB_OK && (q->op == MOB_TABLE_SET_LOG || c->home_count != homes))
            a->status = store(nodes_path, c);
    }
    free(c);
}
