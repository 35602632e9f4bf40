/* Functions and a class that end in unusual ways, for tests of what their callers are told. */
#include <mobula/mobula.h>

static enum mob_status unknown_status(struct mob_call *call)
{
    (void)call;
    return (enum mob_status)1234;
}

static enum mob_status bare(struct mob_call *call)
{
    (void)call;
    return MOB_TYPE_MISMATCH;
}

static enum mob_status after_a_failed_get(struct mob_call *call)
{
    struct mob_future *future;
    return mob_submit(mob_call_client(call), "nowhere.f", MOB_ARGS(mob_i64(1)), NULL, &future);
}

static enum mob_status refuses(struct mob_call *call)
{
    return mob_fail(call, "not today");
}

static enum mob_status infer(struct mob_call *call)
{
    return mob_return(call, mob_tensor(mob_arg_tensor(call, 0)));
}

MOB_MODULE("http_ends", MOB_FUNCTION("unknown_status", unknown_status, "-> i64"),
    MOB_FUNCTION("bare", bare, "-> i64"), MOB_FUNCTION("after_a_failed_get", after_a_failed_get, "-> i64"),
    MOB_ACTOR_CLASS("Refuses", refuses, "-> ()", NULL,
        MOB_METHOD("infer", infer, "tensor<f32>[n,4] x -> tensor<f32>[n,4] y")))
