/* Why the node is not there: what the records of who recovers its dead incarnations say (common/wire/
 * recover_row.h). Looked up while requests fail for it, once a second at most, and told with the next of
 * them.
 */
#include <stdio.h>

#include "common/base/clock.h"
#include "common/wire/recover_row.h"
#include "server/api/engine_inner.h"

#define ASK_EVERY_NS MOB_SEC

static void on_records(void *arg, const struct mob_gcs_answer *answer)
{
    struct engine *engine = arg;
    struct mob_recover_row row;
    engine->away_asked = false;
    engine->away_why[0] = 0;
    for (uint32_t i = 0; answer->status == MOB_OK && i < answer->kv_count; i++) {
        const struct mob_gcs_kv *kv = &answer->kvs[i];
        if (mob_recover_row_open(kv->value, kv->value_length, &row) != MOB_OK ||
            row.state != MOB_RECOVER_RUNS)
            continue;
        const char *why = row.waits_for == MOB_RECOVER_WAITS_POSTGRES
            ? ", and waits for PostgreSQL, where tasks of it lie"
            : "";
        snprintf(engine->away_why, sizeof engine->away_why,
            "not connected to the runtime: its incarnation %llu recovers what incarnation %llu left%s",
            (unsigned long long)row.by, (unsigned long long)row.incarnation, why);
    }
}

const char *engine_away_why(struct engine *engine)
{
    int64_t now = mob_now();
    const struct mob_gcs_list list = {
        .table = MOB_GCS_NODES, .prefix = MOB_RECOVER_PREFIX, .prefix_length = sizeof MOB_RECOVER_PREFIX - 1};
    if (now - engine->away_asked_ns > 4 * ASK_EVERY_NS)
        engine->away_why[0] = 0; /* of another time */
    if (!engine->away_asked && now - engine->away_asked_ns > ASK_EVERY_NS) {
        engine->away_asked_ns = now;
        engine->away_asked = mob_gcs_list(engine->gcs, &list, on_records, engine) == MOB_OK;
    }
    return engine->away_why[0] ? engine->away_why : "not connected to the runtime";
}
