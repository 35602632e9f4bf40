/* What each member of the control store says of itself, as `mobula gcs status` asks it: beside the engine's
 * thread, all at once, and none for longer than a second. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gcs/client/member_link.h"
#include "server/api/engine_metrics.h"

#define MEMBER_WAIT_NS MOB_SEC /* of one that hangs: the master has it replaced before long */
#define MEMBERS_MAX MOB_MEMBERS_ASKED_MAX
_Static_assert(MOB_GCS_SHARDS_MAX *MOB_GCS_MEMBERS_MAX <= MEMBERS_MAX, "members of all chains");

struct member_figures {
    struct errand errand;
    struct engine *engine;
    void (*then)(void *arg);
    void *arg;
    bool is_done; /* until then the answers are the other thread's */
    uint32_t count;
    struct one_member {
        uint32_t shard, of_shard; /* so many members has its chain */
    } members[MEMBERS_MAX];
    struct mob_member_place places[MEMBERS_MAX];
    struct mob_member_answer answers[MEMBERS_MAX];
};

/* ---- asking ---- */

static void run(struct errand *errand)
{
    struct member_figures *f = (struct member_figures *)errand;
    const struct mob_engine_runtime_options *o = &f->engine->options;
    struct mob_member_options options[MEMBERS_MAX];
    for (uint32_t i = 0; i < f->count; i++)
        options[i] = (struct mob_member_options){.path = f->places[i].path,
            .shard = f->members[i].shard,
            .cluster = o->cluster,
            .secret = o->secret};
    mob_members_ask(options, f->count, mob_deadline_after(MEMBER_WAIT_NS), f->answers);
}

static void done(struct errand *errand)
{
    struct member_figures *f = (struct member_figures *)errand;
    f->is_done = true;
    f->then(f->arg);
}

struct member_figures *engine_ask_members(struct engine *engine, void (*then)(void *arg), void *arg)
{
    struct member_figures *f = calloc(1, sizeof *f);
    MOB_ASSERT(f != NULL);
    f->errand = (struct errand){.run = run, .done = done};
    f->engine = engine;
    f->then = then;
    f->arg = arg;
    for (uint32_t shard = 0; shard < mob_gcs_shard_count(engine->gcs); shard++) {
        uint32_t count =
            mob_members_of(engine->options.gcs_socket, shard, &f->places[f->count], MOB_GCS_MEMBERS_MAX);
        for (uint32_t i = 0; i < count; i++)
            f->members[f->count++] = (struct one_member){.shard = shard, .of_shard = count};
    }
    engine_errand(engine, &f->errand);
    return f;
}

/* ---- telling ---- */

struct member_figure {
    const char *name, *type, *help;
    uint64_t (*value)(const struct mob_gcs_stats *s, uint64_t newest);
};
#define FIGURE(name) \
    static uint64_t get_##name(const struct mob_gcs_stats *s, uint64_t newest) \
    { \
        (void)newest; \
        return s->name; \
    }
FIGURE(epoch)
FIGURE(applied)
FIGURE(committed)
FIGURE(durable)
FIGURE(redis_bytes)
FIGURE(member_bytes)
FIGURE(duplicates)
FIGURE(paced_ms)
FIGURE(realtime)
FIGURE(lease_ms)
FIGURE(suspicion_ms)
#undef FIGURE
static uint64_t get_lag(const struct mob_gcs_stats *s, uint64_t newest)
{
    return newest - s->applied;
}

static uint64_t get_joins(const struct mob_gcs_stats *s, uint64_t newest)
{
    (void)newest;
    return s->joiner != 0;
}

static const struct member_figure figures[] = {
    {"epoch", "gauge", "Epoch of the configuration that it knows.", get_epoch},
    {"applied_position", "gauge", "Newest entry that the member has applied.", get_applied},
    {"lag", "gauge", "Entries that it is behind the newest of its chain.", get_lag},
    {"committed_position", "gauge", "Newest entry that it knows to be committed.", get_committed},
    {"durable_position", "gauge", "Newest entry that is on its disk.", get_durable},
    {"redis_memory_bytes", "gauge", "Memory of its Redis.", get_redis_bytes},
    {"source", "gauge", "1: a member that joins takes its state from this one.", get_joins},
    {"paced_milliseconds_total", "counter", "So long its clients have waited for members that join.",
        get_paced_ms},
    {"memory_bytes", "gauge", "Heap of its process, and the buffers of its links.", get_member_bytes},
    {"duplicates_total", "counter", "Requests that it answered from the table of those that are known.",
        get_duplicates}};

static bool answered(const struct member_figures *f, uint32_t i)
{
    return f->is_done && f->answers[i].status == MOB_OK;
}

/* As the gateway last heard of the chain. */
static const char *role_of(const struct member_figures *f, uint32_t i)
{
    struct mob_gcs_config chain;
    if (!answered(f, i))
        return "unknown";
    if (f->members[i].of_shard == 1)
        return "sole";
    mob_gcs_chain(mob_gcs_shard(f->engine->gcs, f->members[i].shard), &chain);
    const char *role = mob_member_role(&chain, f->answers[i].stats.self);
    return role ? role : "none";
}

const char *engine_tail_store(const struct member_figures *f, uint32_t shard)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (f->members[i].shard == shard &&
            (strcmp(role_of(f, i), "tail") == 0 || strcmp(role_of(f, i), "sole") == 0))
            return f->answers[i].stats.store;
    return NULL;
}

static void write_family(struct mob_text *t, const char *name, const char *type, const char *help)
{
    mob_text_family(t, "mobula_gcs_member_", name, type, help);
}

/* The name and its labels, up to the closing brace. */
static void write_name(const struct member_figures *f, uint32_t i, const char *name, struct mob_text *t)
{
    mob_text_printf(t, "mobula_gcs_member_%s{shard=\"%u\",member=", name, f->members[i].shard);
    mob_text_json_cstring(t, f->places[i].name);
    mob_text_printf(t, ",role=\"%s\"", role_of(f, i));
}

static uint64_t newest_of(const struct member_figures *f, uint32_t shard)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < f->count; i++)
        if (answered(f, i) && f->members[i].shard == shard && f->answers[i].stats.applied > newest)
            newest = f->answers[i].stats.applied;
    return newest;
}

static void write_figure(
    const struct member_figures *f, const struct member_figure *figure, struct mob_text *t)
{
    write_family(t, figure->name, figure->type, figure->help);
    for (uint32_t i = 0; i < f->count; i++) {
        if (!answered(f, i))
            continue;
        write_name(f, i, figure->name, t);
        mob_text_printf(t, "} %llu\n",
            (unsigned long long)figure->value(&f->answers[i].stats, newest_of(f, f->members[i].shard)));
    }
}

static void write_states(const struct member_figures *f, struct mob_text *t)
{
    write_family(t, "state", "gauge", "1, with what it is in its chain as the label.");
    for (uint32_t i = 0; i < f->count; i++) {
        if (!answered(f, i))
            continue;
        write_name(f, i, "state", t);
        mob_text_puts(t, ",state=");
        mob_text_json_cstring(t, f->answers[i].stats.state);
        mob_text_puts(t, "} 1\n");
    }
    write_family(
        t, "store", "gauge", "1, with what keeps its Redis from keeping what it is given as the label.");
    for (uint32_t i = 0; i < f->count; i++) {
        if (!answered(f, i) || f->answers[i].stats.store[0] == 0) /* an earlier version does not say it */
            continue;
        write_name(f, i, "store", t);
        mob_text_puts(t, ",store=");
        mob_text_json_cstring(t, f->answers[i].stats.store);
        mob_text_puts(t, "} 1\n");
    }
    write_family(t, "state_seconds", "gauge", "For so long it has been that.");
    for (uint32_t i = 0; i < f->count; i++) {
        if (!answered(f, i))
            continue;
        write_name(f, i, "state_seconds", t);
        mob_text_printf(t, "} %.3f\n", (double)f->answers[i].stats.state_ms / 1e3);
    }
}

/* Of those that send heartbeats: a sole member does not, and an earlier version does not say it. */
static void write_heartbeats(const struct member_figures *f, struct mob_text *t)
{
    static const struct member_figure beats[] = {
        {"realtime", "gauge", "1: its heartbeats have real-time priority.", get_realtime},
        {"lease_milliseconds", "gauge", "So long it may answer reads after a heartbeat.", get_lease_ms},
        {"suspicion_milliseconds", "gauge", "After so long a silence it is left out.", get_suspicion_ms}};
    for (size_t k = 0; k < sizeof beats / sizeof *beats; k++) {
        write_family(t, beats[k].name, beats[k].type, beats[k].help);
        for (uint32_t i = 0; i < f->count; i++) {
            if (!answered(f, i) || f->answers[i].stats.lease_ms == 0)
                continue;
            write_name(f, i, beats[k].name, t);
            mob_text_printf(t, "} %llu\n", (unsigned long long)beats[k].value(&f->answers[i].stats, 0));
        }
    }
}

void engine_write_members(const struct member_figures *f, struct mob_text *t)
{
    write_family(t, "up", "gauge", "1: the member answers.");
    for (uint32_t i = 0; i < f->count; i++) {
        write_name(f, i, "up", t);
        mob_text_printf(t, "} %d\n", answered(f, i));
    }
    write_states(f, t);
    write_heartbeats(f, t);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        write_figure(f, &figures[i], t);
}
