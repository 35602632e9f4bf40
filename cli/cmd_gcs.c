#include "cli/cmd_gcs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/gcs_members.h"
#include "common/base/clock.h"
#include "gcs/flush/postgres_conf.h"

#define LOOK_AGAIN_NS (200 * MOB_MS)

/* Looks now and then whether it does not serve any more, which is said then. */
static enum mob_status wait_for(
    struct gcs_call *g, struct mob_gcs_sync *sync, struct mob_gcs_result **result_out)
{
    for (int64_t deadline = mob_now() + GCS_ANSWER_NS;;) {
        enum mob_status status = mob_gcs_sync_wait(g->gcs, sync, mob_now() + LOOK_AGAIN_NS, result_out);
        if (sync->done)
            return status;
        g->gone = gcs_say_refusals(g->call) || mob_now() >= deadline;
        if (g->gone)
            return MOB_TIMEOUT;
    }
}

struct mob_gcs_result *gcs_wait(struct gcs_call *g, enum mob_status submitted, struct mob_gcs_sync *sync)
{
    struct mob_gcs_result *result = NULL;
    if (g->gone)
        return NULL;
    enum mob_status status = submitted;
    if (status == MOB_OK)
        status = wait_for(g, sync, &result);
    if (status == MOB_OK)
        return result;
    mob_gcs_result_destroy(result);
    cli_say("the control store does not answer: %s", mob_status_text(status));
    return NULL;
}

bool gcs_stats(struct gcs_call *g, struct mob_gcs_stats *out)
{
    struct mob_gcs_sync sync = {0};
    struct mob_gcs_result *result = gcs_wait(g, mob_gcs_stats(g->gcs, mob_gcs_sync_done, &sync), &sync);
    if (result == NULL)
        return false;
    *out = *mob_gcs_result_answer(result)->stats;
    mob_gcs_result_destroy(result);
    return true;
}

static int64_t number_of(
    struct gcs_call *g, const char *sql, const struct mob_database_param *params, int param_count)
{
    struct mob_database_result *rows = NULL;
    int64_t number = 0;
    if (mob_database_query_once(g->db, sql, params, param_count, &rows) == MOB_OK &&
        mob_database_rows(rows) > 0 && !mob_database_null(rows, 0, 0))
        number = mob_database_number(rows, 0, 0);
    mob_database_result_destroy(rows);
    return number;
}

int64_t gcs_number(struct gcs_call *g, const char *sql)
{
    return number_of(g, sql, NULL, 0);
}

int64_t gcs_shard_number(struct gcs_call *g, const char *sql)
{
    struct mob_database_param p;
    return number_of(g, sql, mob_param_i32(&p, (int32_t)g->shard), 1);
}

/* ---- the command ---- */

/* For each shard; the worst that one of them says. JSON of several is a line for each. */
static enum cli_exit each_shard(struct gcs_call *all, enum cli_exit (*tell)(struct gcs_call *g))
{
    enum cli_exit worst = CLI_OK;
    for (uint32_t shard = 0; shard < all->shards; shard++) {
        struct gcs_call one = *all;
        one.gcs = mob_gcs_shard(all->gcs, shard);
        one.shard = shard;
        enum cli_exit code = tell(&one);
        if (code != CLI_OK && all->shards > 1)
            cli_say("that was shard %u", shard);
        if (code != CLI_OK && (code != CLI_PARTIAL || worst == CLI_OK))
            worst = code;
    }
    return worst;
}

static bool is_known(const struct cli_call *call)
{
    const char *what = call->arguments[0];
    bool dumps = strcmp(what, "dump") == 0;
    if (!dumps && strcmp(what, "status") != 0 && strcmp(what, "verify") != 0)
        cli_say("mobula gcs knows status, verify and dump, and not %s", what);
    else if (dumps != (call->count == 2))
        cli_say("usage: mobula gcs status | verify | dump TASK|OBJECT|ACTOR");
    else
        return true;
    return false;
}

static enum cli_exit run(struct gcs_call *g)
{
    const char *what = g->call->arguments[0];
    if (strcmp(what, "dump") == 0)
        return gcs_dump(g, g->call->arguments[1]);
    return each_shard(g, strcmp(what, "status") == 0 ? gcs_status : gcs_verify);
}

/* Of the control store; false after a message. One that only does not answer is each question's to tell. One
 * whose store is gone says so when it has looked, which may be after this began. */
static bool let_in(struct gcs_call *g)
{
    int64_t deadline = mob_now() + GCS_ANSWER_NS;
    enum mob_status status = MOB_TIMEOUT;
    const char *why;
    while (status == MOB_TIMEOUT && mob_now() < deadline) {
        if (gcs_say_refusals(g->call))
            return false;
        status = mob_gcs_connect_wait(g->gcs, mob_now() + LOOK_AGAIN_NS);
    }
    if (status == MOB_OK || mob_gcs_refusal(g->gcs, &why) == MOB_OK)
        return true;
    cli_say("the control store and this program refuse each other: %s (%s)", why, mob_status_code(status));
    return false;
}

enum cli_exit cmd_gcs(struct cli_call *call)
{
    char path[STATE_PATH_MAX], addresses[STATE_ADDRESSES_MAX];
    struct gcs_call g = {.call = call};
    uint8_t secret[STATE_SECRET_BYTES];
    struct mob_gcs_options options = {
        .socket_path = state_gcs_addresses(cli_directory(call), addresses), .secret = secret};
    if (!is_known(call))
        return CLI_USAGE;
    if (state_dir_cluster(cli_directory(call), &options.cluster) != MOB_OK ||
        state_dir_secret(cli_directory(call), secret) != MOB_OK) {
        cli_say("%s has no cluster-id and cluster-secret that you may read", cli_directory(call));
        return CLI_UNREACHABLE;
    }
    if (gcs_say_refusals(call))
        return CLI_UNREACHABLE;
    if (state_dir_supervisor(cli_directory(call)) == 0 || mob_gcs_create(&options, &g.gcs) != MOB_OK) {
        cli_say("nothing runs in %s", cli_directory(call));
        return CLI_UNREACHABLE;
    }
    if (!let_in(&g)) {
        mob_gcs_destroy(g.gcs);
        return CLI_UNREACHABLE;
    }
    g.shards = mob_gcs_shard_count(g.gcs);
    enum mob_status status = MOB_NOT_FOUND;
    char socket[STATE_PATH_MAX];
    if (access(state_path(cli_directory(call), STATE_POSTGRES_DIR_NAME "/" MOB_POSTGRES_SOCKET_NAME, socket),
            F_OK) == 0)
        status =
            mob_database_open_soon(state_path(cli_directory(call), STATE_POSTGRES_DIR_NAME, path), &g.db);
    if (status != MOB_OK && status != MOB_NOT_FOUND) /* the member's side is shown */
        cli_say("PostgreSQL does not answer (within 2 s), so nothing of it is here");
    enum cli_exit code = run(&g);
    mob_database_close(g.db);
    mob_gcs_destroy(g.gcs);
    return code;
}
