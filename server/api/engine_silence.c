/* Links to the control store may be up, and nobody answer: its members are stopped, or a chain stands still
 * (nobody can decide who leads it, or its Redis hangs). What this process asks of it itself tells (client.h,
 * mob_gcs_silent_since), but a read may wait for PostgreSQL, and tasks are written by the node, which may be
 * the one that hangs. So when no answer or acknowledgement comes, each shard is asked for a write that
 * changes nothing: a control store that is well answers that.
 */
#include "common/base/clock.h"
#include "server/api/engine_inner.h"

#define ASK_AFTER_NS \
    MOB_SEC /* a store that is well acknowledges in milliseconds, and on a full machine goes on */
#define NO_KEY "gateway/nothing-has-this-key"

static void on_changed(void *arg, const struct mob_gcs_answer *answer)
{
    (void)answer; /* any will do */
    *(bool *)arg = false;
}

static void ask_for_a_write(struct engine *engine)
{
    struct mob_gcs_put none = {.table = MOB_GCS_KV,
        .key = NO_KEY,
        .key_length = sizeof NO_KEY - 1,
        .if_version = MOB_GCS_ANY_VERSION};
    for (uint32_t i = 0; i < mob_gcs_shard_count(engine->gcs); i++) {
        bool *asked = &engine->silence.asked[i];
        if (!*asked)
            *asked = mob_gcs_delete(mob_gcs_shard(engine->gcs, i), &none, on_changed, asked) == MOB_OK;
    }
}

static bool acks_fail_to_come(const struct engine *engine, int64_t now)
{
    return engine->acks && now - engine->acks->asked_ns > ASK_AFTER_NS &&
        now - engine->silence.acked_ns > ASK_AFTER_NS;
}

void engine_silence_tick(struct engine *engine, int64_t now)
{
    int64_t since = mob_gcs_silent_since(engine->gcs);
    if (acks_fail_to_come(engine, now) || (since != 0 && now - since > ASK_AFTER_NS))
        ask_for_a_write(engine);
}
