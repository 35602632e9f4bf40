#include "cli/gcs_members.h"

#include "gcs/shard/store_note.h"

uint32_t gcs_member_places(const struct gcs_call *g, struct mob_member_place out[STATE_REPLICAS_MAX])
{
    char addresses[STATE_ADDRESSES_MAX];
    return mob_members_of(
        state_gcs_addresses(cli_directory(g->call), addresses), g->shard, out, STATE_REPLICAS_MAX);
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

bool gcs_say_refusals(const struct cli_call *call)
{
    char name[STATE_NAME_MAX], path[STATE_PATH_MAX], text[MOB_STORE_NOTE_TEXT_MAX];
    bool said = false;
    for (uint32_t shard = 0; shard < STATE_SHARDS_MAX; shard++) {
        state_path(cli_directory(call), state_member_name("gcs", shard, 0, ".sock", name), path);
        if (!mob_store_note_refuses(path, text))
            continue;
        cli_say("the control store does not serve at %s: %s", path, text);
        said = true;
    }
    return said;
}
