#include "runtime/node/checkpoint_sweep.h"

#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "runtime/node/actor_record.h"
#include "runtime/node/jobs.h"
#include "runtime/node/known.h"

enum { ASKED_MAX = 64 };
#define LOOK_EVERY_NS (3600 * MOB_SEC)
/* A rest is a hundred times what a look costs: some 0.1 ms for each row that the lineage is asked about, and
 * a microsecond for each that is read. By count and not by the clock, since a look mostly waits. */
#define REST_NS_MIN (10 * MOB_MS)
#define REST_NS_EACH_ASKED (10 * MOB_MS)
#define REST_NS_EACH_SEEN (MOB_MS / 10)
#define REST_NS_FAILED (60 * MOB_SEC)

struct checkpoint_row {
    struct checkpoint_sweep *sweep;
    struct mob_actor_id actor;
    uint64_t version; /* as it was listed */
};
struct checkpoint_sweep {
    struct node *node;
    int64_t begins_ns; /* INT64_MAX while one is under way */
    int64_t rests_until_ns;
    bool again; /* what is under way may have come past what is to go now */
    bool failed; /* something could not be asked: again, but later */
    int64_t began_ns;
    /* a page */
    struct checkpoint_row *rows;
    uint32_t count, at, asked; /* next row to ask about; answers that are missing */
    bool more; /* pages, behind this key */
    uint8_t after[MOB_GCS_KEY_MAX];
    uint32_t after_length;
    uint32_t seen, looked_up, gone; /* of this look */
};

struct checkpoint_sweep *checkpoint_sweep_create(struct node *node)
{
    struct checkpoint_sweep *sweep = calloc(1, sizeof *sweep);
    MOB_ASSERT(sweep);
    sweep->node = node; /* which begins with a look: for what a node that was killed has left */
    return sweep;
}

void checkpoint_sweep_destroy(struct checkpoint_sweep *sweep)
{
    if (sweep)
        free(sweep->rows);
    free(sweep);
}

static bool under_way(const struct checkpoint_sweep *sweep)
{
    return sweep->begins_ns == INT64_MAX;
}

static void begin_soon(struct checkpoint_sweep *sweep)
{
    if (sweep->rests_until_ns < sweep->begins_ns)
        sweep->begins_ns = sweep->rests_until_ns;
}

static int64_t rest_of(const struct checkpoint_sweep *sweep)
{
    int64_t rest = REST_NS_MIN + sweep->looked_up * REST_NS_EACH_ASKED + sweep->seen * REST_NS_EACH_SEEN;
    return sweep->failed && rest < REST_NS_FAILED ? REST_NS_FAILED : rest;
}

static void end(struct checkpoint_sweep *sweep)
{
    int64_t now = mob_now();
    if (sweep->gone > 0)
        MOB_LOG_INFO("checkpoint", "swept", "rows=%u gone=%u ms=%lld", sweep->seen, sweep->gone,
            (long long)((now - sweep->began_ns) / MOB_MS));
    sweep->rests_until_ns = now + rest_of(sweep);
    sweep->begins_ns = now + LOOK_EVERY_NS;
    if (sweep->again || sweep->failed)
        begin_soon(sweep);
    sweep->again = sweep->failed = false;
}

void checkpoint_sweep_due(struct node *node)
{
    struct checkpoint_sweep *sweep = node->checkpoint_sweep;
    sweep->again = under_way(sweep);
    if (!sweep->again)
        begin_soon(sweep);
}

int64_t checkpoint_sweep_next(const struct node *node)
{
    return node->checkpoint_sweep->begins_ns;
}

/* ---- the rows of a page ---- */

static void go_on(struct checkpoint_sweep *sweep);

static void row_done(struct checkpoint_sweep *sweep)
{
    sweep->asked--;
    go_on(sweep);
}

static bool lives_here(struct node *node, struct mob_actor_id id)
{
    const struct node_actor *actor = node_actor_find(node, id);
    return actor && actor->life.state != MOB_ACTOR_DEAD;
}

static void on_removed(void *arg, const struct mob_gcs_answer *answer)
{
    struct checkpoint_sweep *sweep = arg;
    sweep->gone += answer->status == MOB_OK;
    sweep->again |= answer->status != MOB_OK;
    row_done(sweep);
}

/* As it was listed: written again, it is a checkpoint that nobody has looked at yet. */
static void remove_row(const struct checkpoint_row *row)
{
    struct checkpoint_sweep *sweep = row->sweep;
    struct mob_gcs_put put = {.table = MOB_GCS_CHECKPOINTS,
        .key = &row->actor,
        .key_length = sizeof row->actor,
        .if_version = row->version};
    if (mob_gcs_delete(sweep->node->gcs, &put, on_removed, sweep) == MOB_OK)
        return;
    sweep->failed = true;
    row_done(sweep);
}

/* The table of actors has who lives, from before the creation was logged until the end was. */
static void on_actor(void *arg, const struct mob_gcs_answer *answer)
{
    const struct checkpoint_row *row = arg;
    row->sweep->failed |= answer->status != MOB_OK && answer->status != MOB_NOT_FOUND;
    if (answer->status == MOB_NOT_FOUND && !lives_here(row->sweep->node, row->actor))
        remove_row(row);
    else
        row_done(row->sweep);
}

/* A job that is being deleted may still be found for a moment where its lineage was flushed. */
static bool is_deleted(struct node *node, struct mob_job_id id)
{
    const struct node_job *job = node_job_by_id(node, id);
    return job && job->deleted;
}

static void on_creation(void *arg, enum mob_status status, const struct known *known)
{
    struct checkpoint_row *row = arg;
    struct node *node = row->sweep->node;
    row->sweep->failed |= status != MOB_OK;
    bool needed = status != MOB_OK || (known->spec && !is_deleted(node, known->spec->job));
    if (!needed &&
        mob_gcs_get(node->gcs, MOB_GCS_ACTORS, &row->actor, sizeof row->actor, on_actor, row) == MOB_OK)
        return;
    row->sweep->failed |= !needed;
    row_done(row->sweep);
}

static void ask_about(struct checkpoint_row *row)
{
    struct node *node = row->sweep->node;
    if (lives_here(node, row->actor))
        return;
    row->sweep->asked++;
    row->sweep->looked_up++;
    known_ask(node, mob_object_of(row->actor.creation, 0), on_creation, row);
}

/* ---- pages ---- */

static void note_row(struct checkpoint_sweep *sweep, const struct mob_gcs_kv *kv)
{
    struct checkpoint_row *row = &sweep->rows[sweep->count];
    if (kv->key_length != sizeof row->actor)
        return;
    *row = (struct checkpoint_row){.sweep = sweep, .version = kv->version};
    memcpy(&row->actor, kv->key, sizeof row->actor);
    sweep->count++;
}

static void take_page(struct checkpoint_sweep *sweep, const struct mob_gcs_answer *answer)
{
    const struct mob_gcs_kv *last = answer->kv_count > 0 ? &answer->kvs[answer->kv_count - 1] : NULL;
    sweep->rows = realloc(sweep->rows, (answer->kv_count + 1u) * sizeof *sweep->rows);
    MOB_ASSERT(sweep->rows);
    known_clear(sweep->node); /* what is remembered may be older than these rows, or than what was dropped */
    for (uint32_t i = 0; i < answer->kv_count; i++)
        note_row(sweep, &answer->kvs[i]);
    sweep->seen += sweep->count;
    sweep->more = answer->next != 0 && last;
    if (!sweep->more)
        return;
    memcpy(sweep->after, last->key, last->key_length);
    sweep->after_length = last->key_length;
}

static void on_page(void *arg, const struct mob_gcs_answer *answer)
{
    struct checkpoint_sweep *sweep = arg;
    sweep->count = sweep->at = 0;
    sweep->more = false;
    if (answer->status == MOB_OK)
        take_page(sweep, answer);
    else
        sweep->failed = true;
    go_on(sweep);
}

static void ask_page(struct checkpoint_sweep *sweep)
{
    struct mob_gcs_list list = {.table = MOB_GCS_CHECKPOINTS,
        .after = sweep->after,
        .after_length = sweep->after_length,
        .keys_only = true};
    if (mob_gcs_list(sweep->node->gcs, &list, on_page, sweep) == MOB_OK)
        return;
    sweep->failed = true;
    end(sweep);
}

/* Once each answer came, and when a page is there. */
static void go_on(struct checkpoint_sweep *sweep)
{
    while (sweep->at < sweep->count && sweep->asked < ASKED_MAX)
        ask_about(&sweep->rows[sweep->at++]);
    if (sweep->asked > 0)
        return;
    if (sweep->more)
        ask_page(sweep);
    else
        end(sweep);
}

void checkpoint_sweep_step(struct node *node)
{
    struct checkpoint_sweep *sweep = node->checkpoint_sweep;
    if (node->now_ns < sweep->begins_ns)
        return;
    sweep->begins_ns = INT64_MAX;
    sweep->began_ns = node->now_ns;
    sweep->seen = sweep->looked_up = sweep->gone = sweep->after_length = 0;
    ask_page(sweep);
}
