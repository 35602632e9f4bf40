/* Does the control store take writes? Asked of the tail of each shard, which knows without one being made: an
 * entry is committed when the tail's Redis has it. A question waits behind the writes before it, so tails
 * that do not answer soon are asked beside the chain (engine_metrics_members.c). For /readyz, which needs no
 * key: what one look found serves all who ask within LOOK_FRESH_NS, and during the next look. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/api/engine_metrics.h"

#define LOOK_FRESH_NS (MOB_SEC / 2)
#define SOON_NS (300 * MOB_MS) /* a tail that is well answers within milliseconds */

/* Lives until all that were asked have answered, which may be after the flight's end. */
struct store_look {
    struct engine *engine;
    struct flight *flight; /* NULL: it has ended */
    uint32_t count, pending;
    struct member_figures *members; /* NULL: they have not been asked */
    char trouble[ENGINE_TROUBLE_BYTES]; /* of the first shard that has one */
    struct asked_tail {
        struct store_look *look;
        bool answered;
    } of[MOB_GCS_SHARDS_MAX];
};

/* NULL: it takes writes. At its memory cap it refuses what is new and takes what makes room. */
static const char *trouble_of_store(const char *word)
{
    static const struct {
        const char *word, *trouble;
    } words[] = {{"refuses", "its Redis refuses writes: its disk or memory is full"},
        {"cannot-write", "its Redis cannot write its file: the disk is full, or fails"},
        {"away", "its Redis is not connected"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i].word) == 0)
            return words[i].trouble;
    return NULL;
}

static void note(struct store_look *look, uint32_t shard, const char *trouble)
{
    if (trouble && !look->trouble[0])
        snprintf(look->trouble, sizeof look->trouble, "the control store takes no writes (shard %u): %s",
            shard, trouble);
}

static void answer(struct flight *flight)
{
    if (flight->engine->store_trouble[0])
        flight_fail(flight, MOB_UNAVAILABLE, NULL, "%s", flight->engine->store_trouble);
    else
        flight_done(flight);
}

static void tell(struct store_look *look)
{
    struct flight *flight = look->flight;
    for (uint32_t i = 0; i < look->count; i++)
        note(look, i, look->of[i].answered ? NULL : "its tail does not answer");
    look->flight = NULL;
    memcpy(look->engine->store_trouble, look->trouble, sizeof look->trouble);
    look->engine->store_looked_ns = mob_now();
    look->engine->store_looking = false;
    answer(flight);
}

static void one_less(struct store_look *look)
{
    if (--look->pending > 0)
        return;
    if (look->flight)
        tell(look);
    free(look);
}

static void on_stats(void *arg, const struct mob_gcs_answer *reply)
{
    struct asked_tail *one = arg;
    one->answered = reply->status == MOB_OK && reply->stats;
    if (one->answered)
        note(one->look, (uint32_t)(one - one->look->of), trouble_of_store(reply->stats->store));
    one_less(one->look);
}

/* Who says here that all is well has more to do than to answer: that is no trouble. */
static void on_members(void *arg)
{
    struct store_look *look = arg;
    for (uint32_t i = 0; i < look->count; i++) {
        const char *word = look->of[i].answered ? NULL : engine_tail_store(look->members, i);
        look->of[i].answered |= word != NULL;
        note(look, i, word ? trouble_of_store(word) : NULL);
    }
    free(look->members);
    if (look->flight)
        tell(look);
    one_less(look);
}

static void on_slow(struct flight *flight)
{
    struct store_look *look = flight->context;
    look->pending++;
    look->members = engine_ask_members(look->engine, on_members, look);
}

void engine_start_ready(struct flight *flight)
{
    struct engine *engine = flight->engine;
    bool fresh = engine->store_looking || mob_now() - engine->store_looked_ns < LOOK_FRESH_NS;
    if (engine->store_looked_ns && fresh) {
        answer(flight);
        return;
    }
    struct store_look *look = calloc(1, sizeof *look);
    MOB_ASSERT(look != NULL);
    *look = (struct store_look){
        .engine = engine, .flight = flight, .count = mob_gcs_shard_count(engine->gcs), .pending = 1};
    flight->context = look;
    engine->store_looking = true;
    flight_set_deadline(flight, mob_deadline_after(SOON_NS), on_slow);
    for (uint32_t i = 0; i < look->count; i++) {
        look->of[i].look = look;
        look->pending += mob_gcs_stats(mob_gcs_shard(engine->gcs, i), on_stats, &look->of[i]) == MOB_OK;
    }
    one_less(look);
}
