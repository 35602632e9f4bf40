/* What runs in the state directory: its supervisor's word, its gateway, and each member of each chain. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "cli/gcs_members.h"
#include "cli/http_client.h"
#include "common/base/clock.h"
#include "gcs/flush/database.h"
#include "gcs/flush/postgres_conf.h"

#define ANSWER_NS (2 * MOB_SEC)

static bool gateway_is_ready(const char *address)
{
    static struct http_response response;
    struct http_request request = {
        .address = address, .method = "GET", .path = "/readyz", .timeout_ns = ANSWER_NS};
    if (address[0] == '\0')
        return false;
    bool ready = http_exchange(&request, &response) == MOB_OK && response.status == 200;
    http_response_fini(&response);
    return ready;
}

static void note_member(const struct mob_member_place *place, uint32_t shard,
    const struct mob_member_answer *said, struct doctor_member *out)
{
    const struct mob_gcs_stats *s = &said->stats;
    *out = (struct doctor_member){.shard = shard, .status = said->status};
    snprintf(out->name, sizeof out->name, "%s", place->name);
    if (said->status != MOB_OK)
        return;
    snprintf(out->state, sizeof out->state, "%s", s->state);
    snprintf(out->store, sizeof out->store, "%s", s->store);
    out->realtime = s->realtime != 0;
    out->lease_ms = s->lease_ms;
    out->suspicion_ms = s->suspicion_ms;
    out->redis_bytes = s->redis_bytes;
    out->member_bytes = s->member_bytes;
    out->soft_bytes = s->soft_bytes;
    out->hard_bytes = s->hard_bytes;
    out->losses = s->losses;
    out->watermark_known = s->watermark_known != 0;
    out->behind = s->newest_block > s->watermark ? s->newest_block - s->watermark : 0;
}

static void ask_members(struct cli_call *call, struct doctor_cluster *c)
{
    struct mob_member_place places[STATE_REPLICAS_MAX];
    struct mob_member_options options[STATE_REPLICAS_MAX];
    struct mob_member_answer said[STATE_REPLICAS_MAX];
    uint8_t secret[STATE_SECRET_BYTES];
    struct gcs_call g = {.call = call};
    if (state_dir_shards(cli_directory(call), &g.shards) != MOB_OK || g.shards == 0)
        g.shards = 1;
    for (g.shard = 0; g.shard < g.shards; g.shard++) {
        uint32_t count = gcs_member_places(&g, places);
        for (uint32_t i = 0; i < count; i++) {
            if (!gcs_member_options(&g, secret, &options[i]))
                return;
            options[i].path = places[i].path;
        }
        mob_members_ask(options, count, mob_deadline_after(ANSWER_NS), said);
        for (uint32_t i = 0; i < count; i++)
            note_member(&places[i], g.shard, &said[i], &c->members[c->member_count++]);
    }
}

/* One that refuses does so at once. */
static bool postgres_is_silent(const char *directory)
{
    char path[STATE_PATH_MAX];
    struct mob_database *db = NULL;
    int64_t began = mob_now();
    if (access(state_path(directory, STATE_POSTGRES_DIR_NAME "/" MOB_POSTGRES_SOCKET_NAME, path), F_OK) != 0)
        return false;
    enum mob_status status =
        mob_database_open_soon(state_path(directory, STATE_POSTGRES_DIR_NAME, path), &db);
    mob_database_close(db);
    return status != MOB_OK && mob_now() - began > ANSWER_NS / 2;
}

void doctor_look_cluster(struct cli_call *call, struct doctor_cluster *out)
{
    *out = (struct doctor_cluster){.runs = state_dir_supervisor(cli_directory(call)) != 0};
    if (!out->runs)
        return;
    out->unreadable = cluster_state_read(cli_directory(call), &out->state) != MOB_OK;
    out->wall_us = mob_wall_now() / MOB_US;
    if (out->unreadable)
        return;
    out->gateway_ready = gateway_is_ready(out->state.address);
    out->postgres_silent = postgres_is_silent(cli_directory(call));
    ask_members(call, out);
    if (state_dir_supervisor(cli_directory(call)) == 0) /* it ended meanwhile, and all with it */
        *out = (struct doctor_cluster){0};
}
