/* Inside a function: its arguments, and what it may ask about itself. */
#include "sdk/c/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>

enum mob_status mob_call_fail(struct mob_call *call, enum mob_status status, const char *format, ...)
{
    if (call->failure != MOB_OK)
        return call->failure;
    call->failure = status;
    va_list list;
    va_start(list, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(call->message, sizeof call->message, format, list);
    va_end(list);
    return status;
}

struct mob_client *mob_call_client(struct mob_call *call)
{
    return call == NULL ? NULL : call->client;
}

size_t mob_arg_count(const struct mob_call *call)
{
    return call == NULL ? 0 : call->arg_count;
}

static const struct mob_call_arg *argument(struct mob_call *call, size_t i, enum mob_value_type type)
{
    if (call == NULL) {
        (void)mob_say_null(NULL, "call");
        return NULL;
    }
    if (i >= call->arg_count) {
        mob_call_fail(call, MOB_TYPE_MISMATCH, "argument %zu was read, and there are %u", i, call->arg_count);
        return NULL;
    }
    const struct mob_call_arg *arg = &call->args[i];
    if (arg->type == type)
        return arg;
    mob_call_fail(call, MOB_TYPE_MISMATCH, "argument %zu was read as %s, and it is %s", i,
        mob_value_type_name(type), mob_value_type_name(arg->type));
    return NULL;
}

int64_t mob_arg_i64(struct mob_call *call, size_t i)
{
    int64_t v = 0;
    const struct mob_call_arg *arg = argument(call, i, MOB_TYPE_I64);
    if (arg != NULL && arg->bytes == sizeof v)
        memcpy(&v, arg->payload, sizeof v);
    return v;
}

double mob_arg_f64(struct mob_call *call, size_t i)
{
    double v = 0;
    const struct mob_call_arg *arg = argument(call, i, MOB_TYPE_F64);
    if (arg != NULL && arg->bytes == sizeof v)
        memcpy(&v, arg->payload, sizeof v);
    return v;
}

bool mob_arg_bool(struct mob_call *call, size_t i)
{
    const struct mob_call_arg *arg = argument(call, i, MOB_TYPE_BOOL);
    return arg != NULL && arg->bytes == 1 && arg->payload[0] != 0;
}

/* An optional argument that was left out is null. */
bool mob_arg_is_null(struct mob_call *call, size_t i)
{
    return call == NULL || i >= call->arg_count || call->args[i].type == MOB_TYPE_NULL;
}

const char *mob_arg_type(const struct mob_call *call, size_t i)
{
    if (call == NULL)
        return "";
    return mob_value_type_name(i < call->arg_count ? call->args[i].type : MOB_TYPE_NULL);
}

static const void *data(struct mob_call *call, size_t i, enum mob_value_type type, size_t *size_out)
{
    const struct mob_call_arg *arg = argument(call, i, type);
    if (size_out != NULL)
        *size_out = arg == NULL ? 0 : arg->bytes;
    return arg == NULL ? NULL : arg->payload;
}

const char *mob_arg_utf8(struct mob_call *call, size_t i, size_t *size_out)
{
    bool json = call != NULL && i < call->arg_count && call->args[i].type == MOB_TYPE_JSON;
    return data(call, i, json ? MOB_TYPE_JSON : MOB_TYPE_UTF8, size_out);
}

const void *mob_arg_bytes(struct mob_call *call, size_t i, size_t *size_out)
{
    enum mob_value_type type = MOB_TYPE_BYTES;
    if (call != NULL && i < call->arg_count &&
        (call->args[i].type == MOB_TYPE_TABLE || call->args[i].type == MOB_TYPE_PICKLE5))
        type = call->args[i].type;
    return data(call, i, type, size_out);
}

struct mob_tensor mob_arg_tensor(struct mob_call *call, size_t i)
{
    struct mob_tensor tensor = {0};
    const struct mob_call_arg *arg = argument(call, i, MOB_TYPE_TENSOR);
    if (arg == NULL)
        return tensor;
    enum mob_status status = mob_tensor_decode(arg->payload, arg->bytes, &tensor);
    if (status != MOB_OK)
        mob_call_fail(call, status, "argument %zu is no readable tensor", i);
    return tensor;
}

struct mob_actor *mob_arg_actor(struct mob_call *call, size_t i)
{
    struct mob_actor_id id;
    const struct mob_call_arg *arg = argument(call, i, MOB_TYPE_ACTOR);
    if (arg == NULL || arg->bytes != sizeof id)
        return NULL;
    memcpy(&id, arg->payload, sizeof id);
    struct mob_actor *actor = mob_actor_of_id(call->client, id);
    if (actor != NULL)
        mob_actor_release(actor); /* borrowed: the client keeps it until the task ends */
    return actor;
}

void mob_call_task_id(const struct mob_call *call, char text_out[MOB_TEXT_ID_MAX])
{
    if (text_out == NULL)
        return;
    text_out[0] = 0;
    if (call != NULL)
        mob_task_id_format(call->head.task, text_out);
}

uint32_t mob_call_attempt(const struct mob_call *call)
{
    return call == NULL ? 0 : call->head.attempt;
}

int64_t mob_call_deadline_ns(const struct mob_call *call)
{
    return call == NULL ? 0 : call->head.deadline_wall_ns;
}

bool mob_call_cancelled(struct mob_call *call)
{
    if (call == NULL)
        return false;
    if (!call->cancelled)
        mob_client_pump(call->client);
    return call->cancelled;
}

void *mob_call_self(struct mob_call *call)
{
    return call == NULL || call->self == NULL ? NULL : *call->self;
}

void mob_call_set_self(struct mob_call *call, void *instance)
{
    if (call == NULL)
        (void)mob_say_null(NULL, "call");
    else if (call->self == NULL)
        mob_call_fail(call, MOB_INVALID, "mob_call_set_self was called in a function that is no actor's");
    else
        *call->self = instance;
}

int64_t mob_clock_ns(struct mob_call *call)
{
    if (call == NULL) /* no task's, and so nobody's to repeat */
        return mob_wall_now();
    int64_t now;
    uint32_t bytes;
    if (mob_outcome_replay(call->client, MOB_OUTCOME_CLOCK, &now, sizeof now, &bytes) && bytes == sizeof now)
        return now;
    now = mob_wall_now();
    mob_outcome_log(call->client, MOB_OUTCOME_CLOCK, &now, sizeof now);
    return now;
}

uint64_t mob_random(struct mob_call *call)
{
    if (call == NULL) {
        (void)mob_say_null(NULL, "call");
        return 0;
    }
    uint64_t x;
    uint32_t bytes;
    if (mob_outcome_replay(call->client, MOB_OUTCOME_RANDOM, &x, sizeof x, &bytes) && bytes == sizeof x)
        return x;
    if (call->random_state == 0 &&
        getrandom(&call->random_state, sizeof call->random_state, 0) != sizeof call->random_state)
        call->random_state = (uint64_t)mob_now(); /* early boot only */
    x = call->random_state += 0x9e3779b97f4a7c15ull; /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    mob_outcome_log(call->client, MOB_OUTCOME_RANDOM, &x, sizeof x);
    return x;
}
