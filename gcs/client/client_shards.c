/* The client of several shards: a client for each, stepped together. */
#include "gcs/client/client_internal.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/wire/home.h"

/* ---- which shard ---- */

uint32_t mob_gcs_shards_in(const char *socket_path)
{
    uint32_t count = 1;
    for (const char *at = socket_path; (at = strchr(at, ';')) != NULL; at++)
        count++;
    return count;
}

uint32_t mob_gcs_shard_count(const struct mob_gcs *g)
{
    return g->shard_count > 0 ? g->shard_count : 1;
}

struct mob_gcs *mob_gcs_shard(struct mob_gcs *g, uint32_t shard)
{
    MOB_ASSERT(shard < mob_gcs_shard_count(g));
    return g->shard_count > 0 ? g->shards[shard] : g;
}

uint32_t mob_gcs_key_shard(
    const struct mob_gcs *g, enum mob_gcs_table table, const void *key, uint32_t key_length)
{
    return mob_home_of_key((uint32_t)table, key, key_length, g->shard_count);
}

uint32_t mob_gcs_home_shard(const struct mob_gcs *g, uint64_t incarnation)
{
    return mob_home_of_id(incarnation, g->shard_count);
}

/* ---- life ---- */

/* Its number is where its client stands among the others. */
static void on_shard_link(void *arg, enum mob_status status)
{
    struct mob_gcs **place = arg, *g = (*place)->parent;
    uint32_t shard = (uint32_t)(place - g->shards);
    g->shard_told[shard] = status;
    enum mob_status all = MOB_OK;
    for (uint32_t i = 0; i < g->shard_count && all == MOB_OK; i++)
        all = g->shard_told[i];
    if (all == g->told)
        return;
    g->told = all;
    if (status != MOB_OK)
        MOB_LOG_WARN("gcs_client", "shard_down", "shard=%u status=%s", shard, mob_status_code(status));
    if (g->options.on_link != NULL)
        g->options.on_link(g->options.arg, all);
}

static enum mob_status add_shard(struct mob_gcs *g, const struct mob_gcs_options *options, const char *paths)
{
    if (g->shard_count == MOB_GCS_SHARDS_MAX)
        return MOB_INVALID;
    uint32_t shard = g->shard_count;
    struct mob_gcs_options own = *options;
    own.socket_path = paths;
    own.shard = options->shard + shard;
    own.on_link = on_shard_link;
    own.arg = &g->shards[shard];
    g->shard_told[shard] = MOB_UNAVAILABLE;
    enum mob_status status = mob_gcs_create(&own, &g->shards[shard]);
    if (status != MOB_OK)
        return status;
    g->shard_count++;
    g->shards[shard]->parent = g;
    if (options->watch_fd > 0)
        return MOB_OK; /* its sockets are in there already */
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(g->epoll_fd, EPOLL_CTL_ADD, g->shards[shard]->epoll_fd, &event) == 0 ? MOB_OK : MOB_IO;
}

enum mob_status shards_create(const struct mob_gcs_options *options, struct mob_gcs **gcs_out)
{
    struct mob_gcs *g = calloc(1, sizeof *g);
    char *paths = strdup(options->socket_path), *rest = paths;
    enum mob_status status = g == NULL || paths == NULL ? MOB_NO_MEMORY : MOB_OK;
    if (status != MOB_OK)
        goto err_free;
    g->options = *options;
    g->options.socket_path = NULL;
    g->options.secret = NULL;
    g->told = MOB_UNAVAILABLE;
    status = watch_open(g);
    for (char *one; status == MOB_OK && (one = strsep(&rest, ";")) != NULL;)
        status = add_shard(g, options, one);
    if (status != MOB_OK) {
        shards_destroy(g);
        g = NULL;
        goto err_free;
    }
    free(paths);
    *gcs_out = g;
    return MOB_OK;
err_free:
    free(paths);
    free(g);
    return status;
}

void shards_destroy(struct mob_gcs *g)
{
    for (uint32_t i = 0; i < g->shard_count; i++)
        mob_gcs_destroy(g->shards[i]);
    gathers_destroy(g);
    watch_close(g);
    free(g);
}

/* ---- together ---- */

int64_t shards_step(struct mob_gcs *g, int64_t now_ns)
{
    g->in_step = true;
    for (uint32_t i = 0; i < g->shard_count; i++)
        (void)mob_gcs_step(g->shards[i], now_ns);
    g->in_step = false;
    return shards_send(g); /* what a callback of one has submitted to one before it */
}

int64_t shards_send(struct mob_gcs *g)
{
    int64_t next = MOB_FOREVER_NS;
    for (uint32_t i = 0; i < g->shard_count; i++) {
        int64_t at = mob_gcs_send(g->shards[i]);
        next = at < next ? at : next;
    }
    return next;
}

bool shards_connected(const struct mob_gcs *g)
{
    for (uint32_t i = 0; i < g->shard_count; i++)
        if (!mob_gcs_connected(g->shards[i]))
            return false;
    return true;
}

void shards_position(const struct mob_gcs *g, struct mob_gcs_position *out)
{
    uint64_t fullest = 0;
    *out = g->shards[0]->position;
    for (uint32_t i = 0; i < g->shard_count; i++) {
        const struct mob_gcs_position *p = &g->shards[i]->position;
        uint64_t per_mille =
            p->memory_soft_bytes == 0 ? 0 : p->memory_bytes / (p->memory_soft_bytes / 1000 + 1);
        if (per_mille > fullest) {
            fullest = per_mille;
            *out = *p;
        }
    }
}
