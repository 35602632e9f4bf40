/* Functions and a class that end in unusual ways, for tests of what their callers are told. */
#include <mobula/mobula.h>

#include <stdio.h>
#include <unistd.h>

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

/* Words and output that are no UTF-8. */
static enum mob_status spoiled_words(struct mob_call *call)
{
    fwrite("\xff caf\xc3", 1, 6, stdout);
    return mob_fail(call, "caf\xc3\xa9 \"\xff\xc3\x01\"");
}

static enum mob_status own_pid(struct mob_call *call)
{
    return mob_return_i64(call, getpid());
}

/* Both processes return from it. */
static enum mob_status forks(struct mob_call *call)
{
    return fork() < 0 ? mob_fail(call, "no process") : own_pid(call);
}

/* The child's id; it stays. */
static enum mob_status leaves_a_child(struct mob_call *call)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    return mob_return_i64(call, child);
}

static enum mob_status refuses(struct mob_call *call)
{
    return mob_fail(call, "not today");
}

static enum mob_status infer(struct mob_call *call)
{
    return mob_return(call, mob_tensor(mob_arg_tensor(call, 0)));
}

static enum mob_status returns_status(struct mob_call *call)
{
    return (enum mob_status)mob_arg_i64(call, 0);
}

static enum mob_status refuser_create(struct mob_call *call)
{
    (void)call;
    return MOB_OK;
}

/* Fails with the status that its first number is. */
static enum mob_status infer_status(struct mob_call *call)
{
    return (enum mob_status)((const float *)mob_arg_tensor(call, 0).data)[0];
}

MOB_MODULE("http_ends", MOB_FUNCTION("returns_status", returns_status, "i64 status -> i64"),
    MOB_ACTOR_CLASS("Refuser", refuser_create, "-> ()", NULL,
        MOB_METHOD("infer", infer_status, "tensor<f32>[n] x -> tensor<f32>[n] y")),
    MOB_FUNCTION("unknown_status", unknown_status, "-> i64"), MOB_FUNCTION("bare", bare, "-> i64"),
    MOB_FUNCTION("spoiled_words", spoiled_words, "-> i64"), MOB_FUNCTION("own_pid", own_pid, "-> i64"),
    MOB_FUNCTION("forks", forks, "-> i64"), MOB_FUNCTION("leaves_a_child", leaves_a_child, "-> i64"),
    MOB_FUNCTION("after_a_failed_get", after_a_failed_get, "-> i64"),
    MOB_ACTOR_CLASS("Refuses", refuses, "-> ()", NULL,
        MOB_METHOD("infer", infer, "tensor<f32>[n,4] x -> tensor<f32>[n,4] y")))
