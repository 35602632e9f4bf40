/* What examples/quickstart.sh calls: two functions and a class. */
#include <mobula/mobula.h>

#include <stdlib.h>
#include <time.h>

#define SLICE_MS 20

static enum mob_status add(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0) + mob_arg_i64(call, 1));
}

/* Sleeps in slices: a task that is asked to stop should look now and then. */
static enum mob_status pause_for(struct mob_call *call)
{
    const int64_t milliseconds = mob_arg_i64(call, 0);
    for (int64_t slept = 0; slept < milliseconds; slept += SLICE_MS) {
        if (mob_call_cancelled(call))
            return MOB_CANCELLED;
        nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000}, NULL);
    }
    return mob_return_i64(call, milliseconds);
}

static enum mob_status counter_create(struct mob_call *call)
{
    int64_t *count = malloc(sizeof *count);
    if (count == NULL)
        return MOB_NO_MEMORY;
    *count = mob_arg_i64(call, 0);
    mob_call_set_self(call, count);
    return MOB_OK;
}

static enum mob_status counter_add(struct mob_call *call)
{
    int64_t *count = mob_call_self(call);
    *count += mob_arg_i64(call, 0);
    return mob_return_i64(call, *count);
}

static enum mob_status counter_value(struct mob_call *call)
{
    return mob_return_i64(call, *(const int64_t *)mob_call_self(call));
}

/* clang-format off */
MOB_MODULE("quickstart",
    MOB_FUNCTION("add", add, "i64 a, i64 b -> i64"),
    MOB_FUNCTION("pause", pause_for, "i64 milliseconds -> i64"),
    MOB_ACTOR_CLASS("Counter", counter_create, "i64 start -> ()", free,
        MOB_METHOD("add", counter_add, "i64 amount -> i64"),
        {.name = "value", .main = counter_value, .signature = "-> i64", .flags = MOB_METHOD_READ_ONLY}))
/* clang-format on */
