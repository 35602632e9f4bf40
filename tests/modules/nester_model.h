/* What nester.random computes, for those who check it without a cluster: the plan of a call follows from its
 * seed alone, its result from the plan and its inputs. */
#ifndef MOB_TESTS_MODULES_NESTER_MODEL_H
#define MOB_TESTS_MODULES_NESTER_MODEL_H

#include <stdbool.h>

#include "tests/modules/chaos_model.h"

enum { NESTER_CHILDREN_MAX = 5, NESTER_FAILED = -7 };
enum nester_kind { NESTER_PLAIN, NESTER_NEEDS, NESTER_TAIL, NESTER_FAILS, NESTER_STREAM, NESTER_KINDS };
enum nester_get { NESTER_IN_ORDER, NESTER_BACKWARDS, NESTER_ALL, NESTER_ANY, NESTER_TIMED, NESTER_GETS };

struct nester_plan {
    int count;
    enum nester_get get;
    enum nester_kind kind[NESTER_CHILDREN_MAX];
    int needs[NESTER_CHILDREN_MAX]; /* NESTER_NEEDS: an earlier child, whose result is its input */
    int64_t seed[NESTER_CHILDREN_MAX];
};

static inline uint32_t nester_draw(int64_t seed, int64_t what, uint32_t n)
{
    return (uint32_t)((uint64_t)chaos_mix(seed, what) >> 20) % n;
}

static inline struct nester_plan nester_plan(int64_t seed, int64_t depth)
{
    struct nester_plan plan = {.count = depth == 0 ? 0 : (int)(1 + nester_draw(seed, 1, NESTER_CHILDREN_MAX)),
        .get = (enum nester_get)nester_draw(seed, 2, NESTER_GETS)};
    for (int i = 0; i < plan.count; i++) {
        plan.kind[i] = (enum nester_kind)nester_draw(seed, 10 + i, NESTER_KINDS);
        if (i == 0 && plan.kind[i] == NESTER_NEEDS)
            plan.kind[i] = NESTER_PLAIN;
        plan.needs[i] = i == 0 ? 0 : (int)nester_draw(seed, 20 + i, (uint32_t)i);
        if (plan.kind[i] == NESTER_NEEDS && plan.kind[plan.needs[i]] == NESTER_STREAM)
            plan.kind[i] = NESTER_PLAIN;
        plan.seed[i] = chaos_mix(seed, 30 + i);
    }
    return plan;
}

/* Items of the stream of a seed, and their sum. */
static inline int64_t nester_items(int64_t seed)
{
    return nester_draw(seed, 3, 4);
}

static inline int64_t nester_value(int64_t seed, int64_t depth, int64_t input)
{
    struct nester_plan plan = nester_plan(seed, depth);
    int64_t values[NESTER_CHILDREN_MAX], result = chaos_mix(seed, input);
    for (int i = 0; i < plan.count; i++) {
        switch (plan.kind[i]) {
        case NESTER_NEEDS:
            values[i] = values[plan.needs[i]] == NESTER_FAILED
                ? NESTER_FAILED
                : nester_value(plan.seed[i], depth - 1, values[plan.needs[i]]);
            break;
        case NESTER_TAIL:
            values[i] = nester_value(chaos_mix(plan.seed[i], 5), depth - 1, 0);
            break;
        case NESTER_FAILS:
            values[i] = NESTER_FAILED;
            break;
        case NESTER_STREAM:
            values[i] = 0;
            for (int64_t n = 0; n < nester_items(plan.seed[i]); n++)
                values[i] += chaos_mix(plan.seed[i], n) % 1000;
            break;
        case NESTER_PLAIN:
        case NESTER_KINDS:
        default:
            values[i] = nester_value(plan.seed[i], depth - 1, 0);
        }
    }
    for (int i = 0; i < plan.count; i++)
        result = chaos_mix(result, values[i]);
    return result;
}

#endif
