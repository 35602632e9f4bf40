/* Arguments, values, futures and what a function may ask about its call: the accessors of module_double.h,
 * which includes this where its structs are known. */
#ifndef TESTS_UNIT_EXAMPLES_MODULE_DOUBLE_VALUES_H
#define TESTS_UNIT_EXAMPLES_MODULE_DOUBLE_VALUES_H

/* ------------------------------------------------------------------------------------------------ values */

static size_t double_tensor_bytes(const struct mob_tensor *tensor)
{
    assert(tensor->dtype == MOB_F32 || tensor->dtype == MOB_F64);
    size_t bytes = tensor->dtype == MOB_F32 ? sizeof(float) : sizeof(double);
    for (int i = 0; i < tensor->dims; i++)
        bytes *= (size_t)tensor->shape[i];
    return bytes;
}

static const void *double_copy(const void *data, size_t size)
{
    char *copy = double_alloc(size + 1);
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

static struct mob_value double_value(struct mob_arg arg)
{
    if (arg.kind == DOUBLE_FUTURE) {
        assert(arg.as.future->status == MOB_OK);
        return *arg.as.future->value;
    }
    if (arg.kind == DOUBLE_TENSOR)
        arg.as.tensor.data = double_copy(arg.as.tensor.data, double_tensor_bytes(&arg.as.tensor));
    else if (arg.kind >= DOUBLE_UTF8 && arg.kind <= DOUBLE_BYTES)
        arg.as.bytes.data = double_copy(arg.as.bytes.data, arg.as.bytes.size);
    return (struct mob_value){arg};
}

static struct double_args double_take_args(struct mob_args args)
{
    struct double_args taken = {double_alloc(args.count * sizeof(struct mob_value)), args.count};
    for (size_t i = 0; i < args.count; i++)
        taken.values[i] = double_value(args.items[i]);
    return taken;
}

struct mob_arg mob_i64(int64_t v)
{
    return (struct mob_arg){DOUBLE_I64, {.i64 = v}};
}
struct mob_arg mob_f64(double v)
{
    return (struct mob_arg){DOUBLE_F64, {.f64 = v}};
}
struct mob_arg mob_null(void)
{
    return (struct mob_arg){DOUBLE_NULL, {.i64 = 0}};
}
struct mob_arg mob_utf8(const char *text)
{
    return (struct mob_arg){DOUBLE_UTF8, {.bytes = {text, strlen(text)}}};
}
struct mob_arg mob_json(const char *text)
{
    return (struct mob_arg){DOUBLE_JSON, {.bytes = {text, strlen(text)}}};
}
struct mob_arg mob_bytes(const void *data, size_t size)
{
    return (struct mob_arg){DOUBLE_BYTES, {.bytes = {data, size}}};
}
struct mob_arg mob_tensor(struct mob_tensor tensor)
{
    return (struct mob_arg){DOUBLE_TENSOR, {.tensor = tensor}};
}
struct mob_arg mob_tensor_f32(const float *data, int64_t rows, int64_t columns)
{
    return mob_tensor((struct mob_tensor){
        .dtype = MOB_F32, .dims = columns == 0 ? 1 : 2, .shape = {rows, columns}, .data = data});
}
struct mob_arg mob_ref(const struct mob_future *future)
{
    return (struct mob_arg){DOUBLE_FUTURE, {.future = future}};
}
struct mob_arg mob_actor_handle(const struct mob_actor *actor)
{
    return (struct mob_arg){DOUBLE_ACTOR, {.actor = actor}};
}

/* ------------------------------------------------------------------------------------------------ futures */

enum mob_status mob_get(struct mob_future *future, int64_t timeout_ns, struct mob_value **value_out)
{
    (void)timeout_ns;
    assert(future != NULL);
    if (future->status == MOB_OK)
        *value_out = future->value;
    return future->status;
}
enum mob_status mob_get_i64(struct mob_future *future, int64_t timeout_ns, int64_t *value_out)
{
    (void)timeout_ns;
    assert(future != NULL);
    return future->status != MOB_OK ? future->status : mob_value_i64(future->value, value_out);
}
enum mob_status mob_get_f64(struct mob_future *future, int64_t timeout_ns, double *value_out)
{
    (void)timeout_ns;
    assert(future != NULL);
    return future->status != MOB_OK ? future->status : mob_value_f64(future->value, value_out);
}
const char *mob_future_error(struct mob_future *future)
{
    return future->error;
}
void mob_future_id(const struct mob_future *future, char text_out[MOB_TEXT_ID_MAX])
{
    snprintf(text_out, MOB_TEXT_ID_MAX, "obj_%" PRIu64 "x%u", future->task, future->index);
}
void mob_release(struct mob_future *future)
{
    (void)future;
}
enum mob_status mob_value_i64(const struct mob_value *value, int64_t *out)
{
    if (value->arg.kind != DOUBLE_I64)
        return MOB_TYPE_MISMATCH;
    *out = value->arg.as.i64;
    return MOB_OK;
}
enum mob_status mob_value_f64(const struct mob_value *value, double *out)
{
    if (value->arg.kind != DOUBLE_F64)
        return MOB_TYPE_MISMATCH;
    *out = value->arg.as.f64;
    return MOB_OK;
}
enum mob_status mob_value_tensor(const struct mob_value *value, struct mob_tensor *out)
{
    assert(value != NULL);
    if (value->arg.kind != DOUBLE_TENSOR)
        return MOB_TYPE_MISMATCH;
    *out = value->arg.as.tensor;
    return MOB_OK;
}
enum mob_status mob_value_data(const struct mob_value *value, const void **data_out, size_t *size_out)
{
    assert(value != NULL);
    if (value->arg.kind < DOUBLE_UTF8 || value->arg.kind > DOUBLE_BYTES)
        return MOB_TYPE_MISMATCH;
    *data_out = value->arg.as.bytes.data;
    *size_out = value->arg.as.bytes.size;
    return MOB_OK;
}
void mob_value_release(struct mob_value *value)
{
    (void)value;
}

/* ------------------------------------------------------------------------------------------------ calls */

static const struct mob_arg *double_arg(struct mob_call *call, size_t i, int kind)
{
    static const struct mob_arg none;
    if (i < call->args.count && call->args.values[i].arg.kind == kind)
        return &call->args.values[i].arg;
    call->accessor_failed = true;
    return &none;
}

struct mob_client *mob_call_client(struct mob_call *call)
{
    return call->client;
}
size_t mob_arg_count(const struct mob_call *call)
{
    return call->args.count;
}
int64_t mob_arg_i64(struct mob_call *call, size_t i)
{
    return double_arg(call, i, DOUBLE_I64)->as.i64;
}
bool mob_arg_is_null(struct mob_call *call, size_t i)
{
    return i >= call->args.count || call->args.values[i].arg.kind == DOUBLE_NULL;
}
const char *mob_arg_utf8(struct mob_call *call, size_t i, size_t *size_out)
{
    const struct mob_arg *arg = double_arg(call, i, DOUBLE_UTF8);
    *size_out = arg->as.bytes.size;
    return arg->as.bytes.data;
}
const void *mob_arg_bytes(struct mob_call *call, size_t i, size_t *size_out)
{
    const struct mob_arg *arg = double_arg(call, i, DOUBLE_BYTES);
    *size_out = arg->as.bytes.size;
    return arg->as.bytes.data;
}
struct mob_tensor mob_arg_tensor(struct mob_call *call, size_t i)
{
    return double_arg(call, i, DOUBLE_TENSOR)->as.tensor;
}
struct mob_actor *mob_arg_actor(struct mob_call *call, size_t i)
{
    return (struct mob_actor *)double_arg(call, i, DOUBLE_ACTOR)->as.actor;
}
enum mob_status mob_return_at(struct mob_call *call, size_t index, struct mob_arg v)
{
    assert(index < call->return_count);
    call->returns[index] = double_alloc(sizeof(struct mob_value));
    *call->returns[index] = double_value(v);
    return MOB_OK;
}
enum mob_status mob_return(struct mob_call *call, struct mob_arg v)
{
    return mob_return_at(call, 0, v);
}
enum mob_status mob_return_i64(struct mob_call *call, int64_t v)
{
    return mob_return(call, mob_i64(v));
}
enum mob_status mob_return_f64(struct mob_call *call, double v)
{
    return mob_return(call, mob_f64(v));
}
enum mob_status mob_return_future(struct mob_call *call, struct mob_future *future)
{
    call->tail = future;
    return MOB_OK;
}
enum mob_status mob_fail(struct mob_call *call, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(call->error, sizeof call->error, format, list);
    va_end(list);
    return MOB_TASK_FAILED;
}
void *mob_call_self(struct mob_call *call)
{
    return call->self;
}
void mob_call_set_self(struct mob_call *call, void *instance)
{
    call->self = instance;
}
enum mob_status mob_event(struct mob_call *call, const char *type, const char *json)
{
    assert(call->client->event_count < DOUBLE_EVENTS_MAX);
    struct double_event *event = &call->client->events[call->client->event_count++];
    snprintf(event->type, sizeof event->type, "%s", type);
    snprintf(event->json, sizeof event->json, "%s", json);
    return MOB_OK;
}
enum mob_status mob_progress(struct mob_call *call, double fraction, const char *message)
{
    assert(fraction >= 0 && fraction <= 1 && message != NULL);
    call->client->progress = fraction;
    return MOB_OK;
}
int64_t mob_clock_ns(struct mob_call *call)
{
    return (int64_t)++call->client->tasks * 1000;
}

#endif
