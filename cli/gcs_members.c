#include "cli/gcs_members.h"

#include <stdio.h>
#include <string.h>

uint32_t gcs_member_places(const struct gcs_call *g, struct gcs_member_place out[STATE_REPLICAS_MAX])
{
    char addresses[STATE_ADDRESSES_MAX];
    char *save_shard = NULL, *save = NULL;
    uint32_t count = 0;
    char *list = strtok_r(state_gcs_addresses(cli_directory(g->call), addresses), ";", &save_shard);
    for (uint32_t shard = 0; shard < g->shard && list != NULL; shard++)
        list = strtok_r(NULL, ";", &save_shard);
    for (char *path = list == NULL ? NULL : strtok_r(list, ",", &save);
         path != NULL && count < STATE_REPLICAS_MAX; path = strtok_r(NULL, ",", &save)) {
        struct gcs_member_place *one = &out[count++];
        snprintf(one->path, sizeof one->path, "%s", path);
        const char *slash = strrchr(one->path, '/');
        one->name = slash == NULL ? one->path : slash + 1;
    }
    return count;
}

bool gcs_member_options(
    const struct gcs_call *g, uint8_t secret[STATE_SECRET_BYTES], struct mob_member_options *out)
{
    const char *directory = cli_directory(g->call);
    *out = (struct mob_member_options){.shard = g->shard, .secret = secret};
    enum mob_status status = state_dir_cluster(directory, &out->cluster);
    if (status == MOB_OK)
        status = state_dir_secret(directory, secret);
    if (status != MOB_OK)
        cli_say("the cluster's secret cannot be read: %s", mob_status_text(status));
    return status == MOB_OK;
}
