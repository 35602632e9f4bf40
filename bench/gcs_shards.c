#include "bench/gcs_shards.h"

#include <string.h>

#include "bench/cores.h"
#include "common/base/log.h"

/* What a process starts inherits its cores. */
static bool open_bound(struct chain_box *box, const struct gcs_chain *chain, const cpu_set_t *cores)
{
    cpu_set_t before;
    if (cores != NULL && !cores_bind(cores, &before))
        return false;
    bool opened = gcs_chain_open(box, chain);
    return (cores == NULL || cores_bind(&before, NULL)) && opened;
}

static void add_clients(struct gcs_shards *shards, const char *clients)
{
    size_t used = strlen(shards->clients);
    int added =
        snprintf(shards->clients + used, sizeof shards->clients - used, "%s%s", used > 0 ? ";" : "", clients);
    MOB_ASSERT((size_t)added < sizeof shards->clients - used);
}

bool gcs_shards_open(struct gcs_shards *shards, const struct gcs_shards_options *options)
{
    MOB_ASSERT(options->count <= GCS_SHARDS_MAX);
    memset(shards, 0, sizeof *shards);
    while (shards->count < options->count) {
        uint32_t i = shards->count++;
        struct gcs_chain chain = {.members = GCS_SHARD_MEMBERS, .shard = i, .normal = options->normal};
        if (!open_bound(&shards->box[i], &chain, options->cores == NULL ? NULL : &options->cores[i]))
            return false;
        add_clients(shards, shards->box[i].clients);
    }
    return true;
}

static bool box_holds(const struct chain_box *box, const cpu_set_t *cores)
{
    bool hold = true;
    for (uint32_t i = 0; i < box->masters; i++)
        hold = hold && cores_hold(box->master[i], cores);
    for (uint32_t i = 0; i < box->members; i++)
        hold = hold && cores_hold(box->member[i].gcs, cores) && cores_hold(box->member[i].redis, cores);
    return hold;
}

bool gcs_shards_hold(const struct gcs_shards *shards, const cpu_set_t *cores)
{
    bool hold = true;
    for (uint32_t i = 0; i < shards->count; i++)
        hold = hold && box_holds(&shards->box[i], &cores[i]);
    return hold;
}

uint64_t gcs_shards_epochs(struct gcs_shards *shards)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < shards->count; i++) {
        struct chain_box_config config = chain_box_config(&shards->box[i], 0);
        if (config.members != GCS_SHARD_MEMBERS)
            return 0;
        sum += config.epoch;
    }
    return sum;
}

void gcs_shards_close(struct gcs_shards *shards)
{
    for (uint32_t i = 0; i < shards->count; i++)
        if (shards->box[i].directory[0] != 0)
            chain_box_fini(&shards->box[i]);
    shards->count = 0;
}
