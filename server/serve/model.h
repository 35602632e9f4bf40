/* Models that the gateway serves: one for each endpoint, made from the signature of its class' `infer`
 * method.
 *
 * Inputs and outputs are the method's parameters and returns; their first dimension is the batch when
 * max_batch_size is above 1. The registry is read by the fronts' threads and changed by the engine's. Models
 * are reference-counted: a call that runs keeps its model while the endpoint is replaced. Limits:
 * MOB_MODELS_MAX models, MOB_MODEL_TENSORS_MAX tensors each way.
 */
#ifndef MOB_SERVER_SERVE_MODEL_H
#define MOB_SERVER_SERVE_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/tensor.h"
#include "server/http/text.h"

#define MOB_MODELS_MAX 256
#define MOB_MODEL_TENSORS_MAX 16
/* How long the model may take for a call (`timeout_ms` of its endpoint). */
#define MOB_MODEL_TIMEOUT_MS_MIN 1
#define MOB_MODEL_TIMEOUT_MS_MAX 3600000
#define MOB_MODEL_TIMEOUT_MS_DEFAULT 30000
#define MOB_MODEL_NAME_MAX \
    102 /* with its NUL: its actor's name has 26 bytes more (engine_models.c), and 127 at most */

struct mob_tensor_spec {
    char name[64];
    enum mob_dtype dtype;
    uint32_t ndim;
    int64_t shape[MOB_TENSOR_DIMS_MAX]; /* -1: any */
    uint32_t dim_name[MOB_TENSOR_DIMS_MAX]; /* those with the same number are the same in a call; 0: none */
};

struct mob_model {
    _Atomic int references;
    char name[MOB_MODEL_NAME_MAX], class_name[256];
    struct mob_tensor_spec inputs[MOB_MODEL_TENSORS_MAX], outputs[MOB_MODEL_TENSORS_MAX];
    uint32_t input_count, output_count;
    uint32_t max_batch_size, max_queue_delay_us;
    uint32_t timeout_ms; /* the default, until it is published with another */
    _Atomic bool ready;
    void *engine_data; /* the engine's, freed by engine_free */
    void (*engine_free)(void *engine_data);
    /* For /stats and /metrics, as Triton counts. Of requests that succeeded: their rows, and their times. */
    _Atomic uint64_t success_count, success_ns, inference_count, queue_ns, compute_ns;
    _Atomic uint64_t fail_count,
        fail_ns; /* requests that its queue took or refused, and that got no outputs */
    _Atomic uint64_t execution_count; /* of the model, each for one or more requests, that have ended */
    _Atomic uint64_t pending_count; /* requests that wait to be sent */
    _Atomic int64_t last_inference_ms;
};

struct mob_serve;
MOB_MUST_USE enum mob_status mob_serve_create(struct mob_serve **serve_out);
void mob_serve_destroy(struct mob_serve *serve);

/* From the text of the method's signature. MOB_INVALID: `why_out` (256 bytes) says what a model must have.
 * Gives one reference. */
MOB_MUST_USE enum mob_status mob_model_create(const char *name, const char *class_name, const char *signature,
    uint32_t max_batch_size, uint32_t max_queue_delay_us, struct mob_model **model_out, char *why_out);
void mob_model_hold(struct mob_model *model);
void mob_model_release(struct mob_model *model);

/* Takes the reference; replaces a model of that name. MOB_QUEUE_FULL at the limit. */
MOB_MUST_USE enum mob_status mob_serve_put(struct mob_serve *serve, struct mob_model *model);
bool mob_serve_remove(struct mob_serve *serve, const char *name);
/* Held (release with mob_model_release); NULL when there is none. */
struct mob_model *mob_serve_find(struct mob_serve *serve, const char *name);
/* Every model that there was when the gateway started is in the registry: only from then on does a name that
 * is not there name no model. */
void mob_serve_set_complete(struct mob_serve *serve);
bool mob_serve_is_complete(const struct mob_serve *serve);
/* Calls back under the lock for each model; the callback must not call the registry. */
void mob_serve_each(struct mob_serve *serve, void (*each)(void *cls, struct mob_model *model), void *cls);

/* Documents of the inference protocol. */
void mob_model_write_metadata(const struct mob_model *model, struct mob_text *out);
void mob_model_write_config(const struct mob_model *model, struct mob_text *out);
void mob_model_write_stats(const struct mob_model *model, struct mob_text *out);
void mob_serve_write_stats(
    struct mob_serve *serve, struct mob_text *out); /* of all models, in one document */
/* The same counters in Prometheus' text format, under Triton's names: how a family begins, then its line of
 * each model. */
enum mob_model_figure {
    MOB_MODEL_SUCCESS,
    MOB_MODEL_FAILURE,
    MOB_MODEL_INFERENCES,
    MOB_MODEL_EXECUTIONS,
    MOB_MODEL_REQUEST_US,
    MOB_MODEL_QUEUE_US,
    MOB_MODEL_COMPUTE_US,
    MOB_MODEL_PENDING,
    MOB_MODEL_FIGURES
};
void mob_model_write_family(enum mob_model_figure figure, struct mob_text *out);
void mob_model_write_figure(
    const struct mob_model *model, enum mob_model_figure figure, struct mob_text *out);
/* A request was answered with outputs. */
void mob_model_count_success(struct mob_model *model, uint64_t rows, int64_t queue_ns, int64_t compute_ns);
/* A request failed, so long after it came. */
void mob_model_count_failure(struct mob_model *model, int64_t ns);
/* The model ran for a batch, well or not. */
void mob_model_count_execution(struct mob_model *model);

#endif
