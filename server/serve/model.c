#include "server/serve/model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/wire/signature.h"

struct mob_serve {
    pthread_mutex_t lock;
    struct mob_model *models[MOB_MODELS_MAX];
    size_t count;
    _Atomic bool complete;
};

enum mob_status mob_serve_create(struct mob_serve **serve_out)
{
    struct mob_serve *serve = calloc(1, sizeof *serve);
    if (!serve)
        return MOB_NO_MEMORY;
    pthread_mutex_init(&serve->lock, NULL);
    *serve_out = serve;
    return MOB_OK;
}

void mob_serve_destroy(struct mob_serve *serve)
{
    if (!serve)
        return;
    for (size_t i = 0; i < serve->count; i++)
        mob_model_release(serve->models[i]);
    pthread_mutex_destroy(&serve->lock);
    free(serve);
}

static bool tensor_spec(const struct mob_sig_type *type, const char *direction, uint32_t index,
    struct mob_tensor_spec *out, char *why)
{
    if (type->type != MOB_TYPE_TENSOR || type->dtype == MOB_DTYPE_NONE || type->optional || type->variadic) {
        snprintf(why, 256, "%s %u of `infer` must be a tensor with an element type", direction, index);
        return false;
    }
    if (type->name[0])
        snprintf(out->name, sizeof out->name, "%s", type->name);
    else
        snprintf(out->name, sizeof out->name, "%s%u", direction, index);
    out->dtype = (enum mob_dtype)type->dtype;
    out->ndim = type->has_shape ? type->ndim : 1;
    for (uint32_t d = 0; d < out->ndim; d++) {
        int64_t dim = type->has_shape ? type->dims[d] : MOB_SIG_DIM_ANY;
        out->shape[d] = dim >= 0 ? dim : -1;
        out->dim_name[d] = dim < 0 && dim != MOB_SIG_DIM_ANY ? (uint32_t)-dim : 0;
    }
    return true;
}

static enum mob_status read_signature(struct mob_model *model, const char *signature, char *why)
{
    struct mob_signature *s = calloc(1, sizeof *s);
    if (!s)
        return MOB_NO_MEMORY;
    struct mob_signature_error error = {0};
    enum mob_status status = mob_signature_parse(signature, strlen(signature), s, &error);
    if (status != MOB_OK) {
        snprintf(why, 256, "%.250s", error.message);
    } else if (s->param_count == 0 || s->param_count > MOB_MODEL_TENSORS_MAX || s->return_count == 0 ||
        s->return_count > MOB_MODEL_TENSORS_MAX || s->stream || s->variadic_returns) {
        snprintf(why, 256, "`infer` must take and give 1 to %d tensors", MOB_MODEL_TENSORS_MAX);
        status = MOB_INVALID;
    }
    for (uint32_t i = 0; status == MOB_OK && i < s->param_count; i++)
        status = tensor_spec(&s->params[i], "input", i, &model->inputs[i], why) ? MOB_OK : MOB_INVALID;
    for (uint32_t i = 0; status == MOB_OK && i < s->return_count; i++)
        status = tensor_spec(&s->returns[i], "output", i, &model->outputs[i], why) ? MOB_OK : MOB_INVALID;
    model->input_count = s->param_count;
    model->output_count = s->return_count;
    free(s);
    return status;
}

/* Calls can be stacked only along a first dimension that is free in every tensor. */
static bool can_batch(const struct mob_model *model)
{
    for (uint32_t i = 0; i < model->input_count; i++)
        if (model->inputs[i].ndim == 0 || model->inputs[i].shape[0] != -1 ||
            model->inputs[i].dtype == MOB_DTYPE_BYTES)
            return false;
    for (uint32_t i = 0; i < model->output_count; i++)
        if (model->outputs[i].ndim == 0 || model->outputs[i].shape[0] != -1 ||
            model->outputs[i].dtype == MOB_DTYPE_BYTES)
            return false;
    return true;
}

enum mob_status mob_model_create(const char *name, const char *class_name, const char *signature,
    uint32_t max_batch_size, uint32_t max_queue_delay_us, struct mob_model **model_out, char *why_out)
{
    struct mob_model *model = calloc(1, sizeof *model);
    if (!model)
        return MOB_NO_MEMORY;
    atomic_init(&model->references, 1);
    snprintf(model->name, sizeof model->name, "%s", name);
    snprintf(model->class_name, sizeof model->class_name, "%s", class_name);
    model->max_batch_size = max_batch_size > 0 ? max_batch_size : 1;
    model->max_queue_delay_us = max_queue_delay_us;
    model->timeout_ms = MOB_MODEL_TIMEOUT_MS_DEFAULT;
    enum mob_status status = read_signature(model, signature, why_out);
    if (status == MOB_OK && model->max_batch_size > 1 && !can_batch(model)) {
        snprintf(why_out, 256,
            "max_batch_size needs tensors whose first dimension is free and whose elements have one size, as "
            "in tensor<f32>[n,4]");
        status = MOB_INVALID;
    }
    if (status != MOB_OK) {
        free(model);
        return status;
    }
    *model_out = model;
    return MOB_OK;
}

void mob_model_hold(struct mob_model *model)
{
    atomic_fetch_add(&model->references, 1);
}

void mob_model_release(struct mob_model *model)
{
    if (!model || atomic_fetch_sub(&model->references, 1) != 1)
        return;
    if (model->engine_free)
        model->engine_free(model->engine_data);
    free(model);
}

/* Lock held. Its index, or count. */
static size_t index_of(const struct mob_serve *serve, const char *name)
{
    size_t i = 0;
    while (i < serve->count && strcmp(serve->models[i]->name, name) != 0)
        i++;
    return i;
}

enum mob_status mob_serve_put(struct mob_serve *serve, struct mob_model *model)
{
    pthread_mutex_lock(&serve->lock);
    size_t i = index_of(serve, model->name);
    struct mob_model *old = i < serve->count ? serve->models[i] : NULL;
    bool full = !old && serve->count == MOB_MODELS_MAX;
    if (!full) {
        serve->models[i] = model;
        serve->count += old == NULL;
    }
    pthread_mutex_unlock(&serve->lock);
    mob_model_release(full ? model : old);
    return full ? MOB_QUEUE_FULL : MOB_OK;
}

bool mob_serve_remove(struct mob_serve *serve, const char *name)
{
    pthread_mutex_lock(&serve->lock);
    size_t i = index_of(serve, name);
    struct mob_model *old = i < serve->count ? serve->models[i] : NULL;
    if (old)
        serve->models[i] = serve->models[--serve->count];
    pthread_mutex_unlock(&serve->lock);
    mob_model_release(old);
    return old != NULL;
}

struct mob_model *mob_serve_find(struct mob_serve *serve, const char *name)
{
    pthread_mutex_lock(&serve->lock);
    size_t i = index_of(serve, name);
    struct mob_model *model = i < serve->count ? serve->models[i] : NULL;
    if (model)
        mob_model_hold(model);
    pthread_mutex_unlock(&serve->lock);
    return model;
}

void mob_serve_set_complete(struct mob_serve *serve)
{
    atomic_store(&serve->complete, true);
}

bool mob_serve_is_complete(const struct mob_serve *serve)
{
    return atomic_load(&serve->complete);
}

void mob_serve_each(struct mob_serve *serve, void (*each)(void *cls, struct mob_model *model), void *cls)
{
    pthread_mutex_lock(&serve->lock);
    for (size_t i = 0; i < serve->count; i++)
        each(cls, serve->models[i]);
    pthread_mutex_unlock(&serve->lock);
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void mob_model_count_success(struct mob_model *model, uint64_t rows, int64_t queue_ns, int64_t compute_ns)
{
    add(&model->success_count, 1);
    add(&model->success_ns, (uint64_t)(queue_ns + compute_ns));
    add(&model->inference_count, rows);
    add(&model->queue_ns, (uint64_t)queue_ns);
    add(&model->compute_ns, (uint64_t)compute_ns);
}

void mob_model_count_failure(struct mob_model *model, int64_t ns)
{
    add(&model->fail_count, 1);
    add(&model->fail_ns, (uint64_t)ns);
}

void mob_model_count_execution(struct mob_model *model)
{
    add(&model->execution_count, 1);
    atomic_store(&model->last_inference_ms, mob_wall_now() / MOB_MS);
}
