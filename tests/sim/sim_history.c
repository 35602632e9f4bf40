/* What clients saw, and whether each key's history is linearizable. */
#include <stdlib.h>

#include "tests/sim/lincheck.h"
#include "tests/sim/sim_internal.h"

#define STATES_MAX 100000u

size_t sim_history_call(struct sim *s, const struct sim_op *op)
{
    struct sim_op *o = SIM_GROW(s->history, s->history_count, s->history_capacity);
    *o = *op;
    o->return_at = INT64_MAX;
    return s->history_count - 1;
}

void sim_history_return(
    struct sim *s, size_t index, uint32_t status, uint64_t version, uint64_t value, uint64_t seq)
{
    struct sim_op *o = &s->history[index];
    if (o->return_at != INT64_MAX)
        return;
    o->return_at = s->now;
    o->status = status;
    o->version = version;
    o->seq = seq;
    if (o->type == SIM_OP_GET)
        o->value = value;
    SIM_TRACE(s, "  client %u key %u op %u value %llu expect %llu: %s version %llu value %llu (called %.6f)",
        o->client, o->key, o->type, (unsigned long long)o->value, (unsigned long long)o->expect,
        mob_status_code((enum mob_status)status), (unsigned long long)version, (unsigned long long)value,
        (double)o->call_at / 1e6);
}

void sim_history_taint(struct sim *s, uint8_t key)
{
    s->tainted[key] = true;
}

/* False: nothing to check of it. */
static bool convert(const struct sim_op *o, struct lincheck_op *out)
{
    *out = (struct lincheck_op){.type = (enum lincheck_type)o->type,
        .outcome = LINCHECK_DONE,
        .value = o->value,
        .version = o->version,
        .expect = o->expect,
        .call_at = o->call_at,
        .return_at = o->return_at};
    if (o->return_at == INT64_MAX)
        out->outcome = LINCHECK_UNKNOWN;
    else if (o->status == MOB_NOT_FOUND)
        out->outcome = LINCHECK_ABSENT;
    else if (o->status == MOB_CONFLICT)
        out->outcome = LINCHECK_CONFLICT;
    else if (o->status != MOB_OK)
        return false; /* refused: no effect */
    return out->outcome != LINCHECK_UNKNOWN || o->type != SIM_OP_GET;
}

static void check_key(struct sim *s, uint8_t key)
{
    static struct lincheck_op ops[LINCHECK_OPS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < s->history_count; i++) {
        struct lincheck_op op;
        if (s->history[i].key != key || !convert(&s->history[i], &op))
            continue;
        if (count == LINCHECK_OPS_MAX) { /* its first ones alone may lack a write that one of them reads */
            sim_cover_add(s, SIM_CHECKS_TOO_LONG);
            return;
        }
        ops[count++] = op;
    }
    enum lincheck_result result = lincheck(ops, count, STATES_MAX);
    if (result == LINCHECK_GAVE_UP)
        sim_cover_add(s, SIM_CHECKS_GIVEN_UP);
    else
        sim_cover_add(s, SIM_CHECKS_DONE);
    SIM_CHECK(s, result != LINCHECK_VIOLATED, "key %u: its history of %zu operations is not linearizable",
        key, count);
}

void sim_history_check(struct sim *s)
{
    for (uint8_t key = 0; key < SIM_KEYS; key++)
        if (!s->tainted[key])
            check_key(s, key);
        else
            sim_cover_add(s, SIM_CHECKS_TAINTED);
}
