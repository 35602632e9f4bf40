#include "gcs/client/losses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/log.h"

#define KEY_BYTES 8u
#define ROW_TEXT_MAX 1024u

/* One shard's. */
struct part {
    struct mob_losses *losses;
    struct mob_gcs *gcs;
    uint64_t epoch; /* of the chain whose rows were read */
    uint8_t last[KEY_BYTES]; /* key up to which they were read, */
    uint32_t last_length; /* 0: none was */
    int64_t newest_wall_ns;
};
struct mob_losses {
    int64_t retention_ns;
    int64_t fresh_until_ns; /* 0: never read */
    struct mob_losses_wait *waits; /* while it is read */
    uint32_t awaited; /* shards that have not answered */
    enum mob_status status; /* of the reading: the first error */
    uint32_t shards;
    struct part parts[MOB_GCS_SHARDS_MAX];
};

/* ---- rows ---- */

int64_t mob_losses_row_time(const void *value, uint32_t bytes)
{
    char text[ROW_TEXT_MAX];
    if (bytes >= sizeof text)
        bytes = sizeof text - 1;
    if (bytes > 0)
        memcpy(text, value, bytes);
    text[bytes] = 0;
    const char *at = strstr(text, "\"wall_ns\":");
    if (at == NULL || strstr(text, "\"kind\":\"client\"") != NULL)
        return 0;
    return strtoll(at + strlen("\"wall_ns\":"), NULL, 10);
}

const char *mob_losses_text(const char *what, int64_t wall_ns, char out[MOB_LOSSES_TEXT_MAX])
{
    char when[32] = "an unknown time";
    struct tm tm;
    if (gmtime_r(&(time_t){wall_ns / MOB_SEC}, &tm) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(out, MOB_LOSSES_TEXT_MAX,
        "no log knows this %s; the control store named a loss of acknowledged records at %s, and it may have "
        "been among them: see `mobula gcs status`",
        what, when);
    return out;
}

/* ---- reading ---- */

static uint64_t epoch_of(const struct mob_gcs *gcs)
{
    struct mob_gcs_config chain;
    struct mob_gcs_position at;
    mob_gcs_chain(gcs, &chain);
    if (chain.epoch != 0)
        return chain.epoch;
    mob_gcs_position(gcs, &at);
    return at.epoch;
}

static void end(struct mob_losses *losses, enum mob_status status)
{
    struct mob_losses_wait *waits = losses->waits;
    losses->waits = NULL;
    while (waits != NULL) {
        struct mob_losses_wait *wait = waits;
        waits = wait->next;
        wait->done(wait, status);
    }
}

static void part_ended(struct mob_losses *losses, enum mob_status status)
{
    if (losses->status == MOB_OK)
        losses->status = status;
    if (--losses->awaited > 0)
        return;
    if (losses->status == MOB_OK)
        losses->fresh_until_ns = mob_now() + MOB_LOSSES_FRESH_NS;
    end(losses, losses->status);
}

static void on_rows(void *arg, const struct mob_gcs_answer *answer);

static enum mob_status ask(struct part *part)
{
    const struct mob_gcs_list list = {
        .table = MOB_GCS_LOSSES, .after = part->last, .after_length = part->last_length};
    return mob_gcs_list(part->gcs, &list, on_rows, part);
}

/* From its beginning, when the chain is another one: that may have lost rows, and have given their keys to
 * others. */
static enum mob_status ask_first(struct part *part)
{
    uint64_t epoch = epoch_of(part->gcs);
    if (epoch != part->epoch) {
        part->epoch = epoch;
        part->last_length = 0;
        part->newest_wall_ns = 0;
    }
    return ask(part);
}

static void take(struct part *part, const struct mob_gcs_kv *row)
{
    int64_t wall_ns = mob_losses_row_time(row->value, row->value_length);
    if (wall_ns > part->newest_wall_ns)
        part->newest_wall_ns = wall_ns;
    if (row->key_length != KEY_BYTES)
        return;
    memcpy(part->last, row->key, KEY_BYTES);
    part->last_length = KEY_BYTES;
}

static void on_rows(void *arg, const struct mob_gcs_answer *answer)
{
    struct part *part = arg;
    enum mob_status status = answer->status == MOB_NOT_FOUND ? MOB_OK : answer->status;
    for (uint32_t i = 0; status == MOB_OK && i < answer->kv_count; i++)
        take(part, &answer->kvs[i]);
    bool another = epoch_of(part->gcs) != part->epoch; /* which may have answered, or not */
    bool more = status == MOB_OK && (another || (answer->next != 0 && answer->kv_count > 0));
    if (more)
        status = another ? ask_first(part) : ask(part);
    if (!more || status != MOB_OK)
        part_ended(part->losses, status);
}

enum mob_status mob_losses_read(struct mob_losses *losses, struct mob_losses_wait *wait)
{
    if (losses->awaited == 0) {
        losses->status = MOB_OK;
        for (uint32_t i = 0; i < losses->shards; i++) {
            enum mob_status status = ask_first(&losses->parts[i]);
            if (status == MOB_OK)
                losses->awaited++;
            else if (losses->awaited == 0)
                return status;
            else if (losses->status == MOB_OK)
                losses->status = status; /* those that were asked answer, and then it is told */
        }
    }
    wait->next = losses->waits;
    losses->waits = wait;
    return MOB_OK;
}

/* ---- what was read ---- */

int64_t mob_losses_last(const struct mob_losses *losses)
{
    int64_t newest = 0;
    for (uint32_t i = 0; i < losses->shards; i++)
        if (losses->parts[i].newest_wall_ns > newest)
            newest = losses->parts[i].newest_wall_ns;
    return newest < mob_wall_now() - losses->retention_ns - MOB_LOSSES_RESERVE_NS ? 0 : newest;
}

bool mob_losses_known(struct mob_losses *losses, int64_t *wall_ns_out)
{
    if (mob_now() >= losses->fresh_until_ns)
        return false;
    for (uint32_t i = 0; i < losses->shards; i++)
        if (epoch_of(losses->parts[i].gcs) != losses->parts[i].epoch)
            return false;
    *wall_ns_out = mob_losses_last(losses);
    return true;
}

/* ---- life ---- */

enum mob_status mob_losses_create(struct mob_gcs *gcs, int64_t retention_ns, struct mob_losses **losses_out)
{
    struct mob_losses *losses = calloc(1, sizeof *losses);
    if (losses == NULL)
        return MOB_NO_MEMORY;
    losses->retention_ns = retention_ns;
    losses->shards = mob_gcs_shard_count(gcs);
    for (uint32_t i = 0; i < losses->shards; i++)
        losses->parts[i] = (struct part){.losses = losses, .gcs = mob_gcs_shard(gcs, i)};
    *losses_out = losses;
    return MOB_OK;
}

void mob_losses_destroy(struct mob_losses *losses)
{
    if (losses == NULL)
        return;
    end(losses, MOB_CLOSED);
    free(losses);
}
