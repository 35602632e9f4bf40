/* A module of C++: a function and a class. */
#include <mobula/mobula.h>

struct Counter {
    int64_t value;
};

static enum mob_status add(struct mob_call *call)
{
    return mob_return_i64(call, mob_arg_i64(call, 0) + mob_arg_i64(call, 1));
}

static enum mob_status create(struct mob_call *call)
{
    mob_call_set_self(call, new Counter{mob_arg_i64(call, 0)});
    return MOB_OK;
}

static enum mob_status inc(struct mob_call *call)
{
    Counter *self = static_cast<Counter *>(mob_call_self(call));
    return mob_return_i64(call, self->value += mob_arg_i64(call, 0));
}

static enum mob_status get(struct mob_call *call)
{
    return mob_return_i64(call, static_cast<Counter *>(mob_call_self(call))->value);
}

static void destroy(void *self)
{
    delete static_cast<Counter *>(self);
}

MOB_MODULE("counting", MOB_FUNCTION("add", add, "i64 a, i64 b -> i64"),
    MOB_ACTOR_CLASS("Counter", create, "i64 start -> ()", destroy, MOB_METHOD("inc", inc, "i64 by -> i64"),
        MOB_METHOD("get", get, "-> i64")))
