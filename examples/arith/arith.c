/* The module of the first lines of <mobula/mobula.h>: arithmetic, a failure, a generator, and a counter with
 * a state. */
#include <mobula/mobula.h>

#include <stdlib.h>

static enum mob_status add(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0) + mob_arg_i64(call, 1));
}

static enum mob_status same(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0));
}

static enum mob_status divide(struct mob_call *call)
{
    double divisor = mob_arg_f64(call, 1);
    if (divisor == 0)
        return mob_fail(call, "cannot divide %g by zero", mob_arg_f64(call, 0));
    return mob_return_f64(call, mob_arg_f64(call, 0) / divisor);
}

/* Two returns. */
static enum mob_status divmod(struct mob_call *call)
{
    int64_t a = mob_arg_i64(call, 0), b = mob_arg_i64(call, 1);
    if (b == 0)
        return mob_fail(call, "cannot divide %lld by zero", (long long)a);
    mob_return_at(call, 0, mob_i64(a / b));
    return mob_return_at(call, 1, mob_i64(a % b));
}

/* A generator: 0, 1, 2, ... */
static enum mob_status count_to(struct mob_call *call)
{
    for (int64_t i = 0; i < mob_arg_i64(call, 0); i++)
        if (mob_yield(call, mob_i64(i)) != MOB_OK)
            return MOB_OK; /* the reason is in the call */
    return MOB_OK;
}

/* A counter: an actor. */
static enum mob_status counter_create(struct mob_call *call)
{
    int64_t *total = malloc(sizeof *total);
    if (total == NULL)
        return MOB_NO_MEMORY;
    *total = mob_arg_i64(call, 0);
    mob_call_set_self(call, total);
    return MOB_OK;
}

static enum mob_status counter_add(struct mob_call *call)
{
    int64_t *total = mob_call_self(call);
    *total += mob_arg_i64(call, 0);
    return mob_return_i64(call, *total);
}

static enum mob_status counter_get(struct mob_call *call)
{
    const int64_t *total = mob_call_self(call);
    return mob_return_i64(call, *total);
}

MOB_MODULE("arith", MOB_FUNCTION("add", add, "i64 a, i64 b -> i64"),
    MOB_FUNCTION("same", same, "i64 a -> i64"), MOB_FUNCTION("divide", divide, "f64 a, f64 b -> f64"),
    MOB_FUNCTION("divmod", divmod, "i64 a, i64 b -> (i64 quotient, i64 remainder)"),
    MOB_FUNCTION("count_to", count_to, "i64 n -> stream i64"),
    MOB_ACTOR_CLASS("Counter", counter_create, "i64 start -> ()", free,
        MOB_METHOD("add", counter_add, "i64 n -> i64"), MOB_METHOD("get", counter_get, "-> i64")))
