/* A model as documents of the inference protocol, and its counters. */
#include "server/serve/model.h"

static void write_tensors(
    const struct mob_tensor_spec *specs, uint32_t count, bool config, struct mob_text *out)
{
    for (uint32_t i = 0; i < count; i++) {
        mob_text_puts(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        mob_text_json_cstring(out, specs[i].name);
        mob_text_printf(out,
            config ? ",\"data_type\":\"TYPE_%s\",\"dims\":[" : ",\"datatype\":\"%s\",\"shape\":[",
            mob_dtype_v2_name(specs[i].dtype));
        for (uint32_t d = 0; d < specs[i].ndim; d++)
            mob_text_printf(out, "%s%lld", d > 0 ? "," : "", (long long)specs[i].shape[d]);
        mob_text_puts(out, "]}");
    }
}

void mob_model_write_metadata(const struct mob_model *model, struct mob_text *out)
{
    mob_text_puts(out, "{\"name\":");
    mob_text_json_cstring(out, model->name);
    mob_text_puts(out, ",\"versions\":[\"1\"],\"platform\":\"mobula_actor\",\"inputs\":[");
    write_tensors(model->inputs, model->input_count, false, out);
    mob_text_puts(out, "],\"outputs\":[");
    write_tensors(model->outputs, model->output_count, false, out);
    mob_text_puts(out, "]}\n");
}

void mob_model_write_config(const struct mob_model *model, struct mob_text *out)
{
    mob_text_puts(out, "{\"name\":");
    mob_text_json_cstring(out, model->name);
    mob_text_puts(out, ",\"platform\":\"mobula_actor\",\"backend\":\"mobula\",\"class\":");
    mob_text_json_cstring(out, model->class_name);
    /* Shapes are written whole, with their batch dimension, so the protocol's implicit one is off. */
    mob_text_puts(out, ",\"max_batch_size\":0,\"input\":[");
    write_tensors(model->inputs, model->input_count, true, out);
    mob_text_puts(out, "],\"output\":[");
    write_tensors(model->outputs, model->output_count, true, out);
    mob_text_printf(out,
        "],\"parameters\":{\"max_batch_size\":{\"string_value\":\"%u\"},"
        "\"max_queue_delay_us\":{\"string_value\":\"%u\"},\"timeout_ms\":{\"string_value\":\"%u\"}}}\n",
        model->max_batch_size, model->max_queue_delay_us, model->timeout_ms);
}

static unsigned long long get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)counter, memory_order_relaxed);
}

static void write_duration(
    struct mob_text *out, const char *name, unsigned long long count, unsigned long long ns)
{
    mob_text_printf(out, "\"%s\":{\"count\":%llu,\"ns\":%llu}", name, count, ns);
}

static void write_stats_of(const struct mob_model *model, struct mob_text *out)
{
    mob_text_puts(out, "{\"name\":");
    mob_text_json_cstring(out, model->name);
    mob_text_printf(out,
        ",\"version\":\"1\",\"last_inference\":%lld,\"inference_count\":%llu,\"execution_count\":%llu,"
        "\"inference_stats\":{",
        (long long)atomic_load((_Atomic int64_t *)(uintptr_t)&model->last_inference_ms),
        get(&model->inference_count), get(&model->execution_count));
    write_duration(out, "success", get(&model->success_count), get(&model->success_ns));
    mob_text_putc(out, ',');
    write_duration(out, "fail", get(&model->fail_count), get(&model->fail_ns));
    mob_text_putc(out, ',');
    write_duration(out, "queue", get(&model->success_count), get(&model->queue_ns));
    mob_text_putc(out, ',');
    write_duration(out, "compute_infer", get(&model->success_count), get(&model->compute_ns));
    mob_text_puts(out, "}}");
}

void mob_model_write_stats(const struct mob_model *model, struct mob_text *out)
{
    mob_text_puts(out, "{\"model_stats\":[");
    write_stats_of(model, out);
    mob_text_puts(out, "]}\n");
}

struct stats_list {
    struct mob_text *out;
    bool begun;
};

static void add_stats(void *cls, struct mob_model *model)
{
    struct stats_list *list = cls;
    if (list->begun)
        mob_text_putc(list->out, ',');
    list->begun = true;
    write_stats_of(model, list->out);
}

void mob_serve_write_stats(struct mob_serve *serve, struct mob_text *out)
{
    struct stats_list list = {.out = out};
    mob_text_puts(out, "{\"model_stats\":[");
    mob_serve_each(serve, add_stats, &list);
    mob_text_puts(out, "]}\n");
}

static unsigned long long figure_of(const struct mob_model *model, enum mob_model_figure figure)
{
    switch (figure) {
    case MOB_MODEL_SUCCESS:
        return get(&model->success_count);
    case MOB_MODEL_FAILURE:
        return get(&model->fail_count);
    case MOB_MODEL_INFERENCES:
        return get(&model->inference_count);
    case MOB_MODEL_EXECUTIONS:
        return get(&model->execution_count);
    case MOB_MODEL_REQUEST_US:
        return get(&model->success_ns) / 1000;
    case MOB_MODEL_QUEUE_US:
        return get(&model->queue_ns) / 1000;
    case MOB_MODEL_COMPUTE_US:
        return get(&model->compute_ns) / 1000;
    case MOB_MODEL_PENDING:
        return get(&model->pending_count);
    case MOB_MODEL_FIGURES:
        break;
    }
    return 0;
}

/* Triton's names. */
static const struct {
    const char *name, *type, *help;
} figures[MOB_MODEL_FIGURES] = {
    [MOB_MODEL_SUCCESS] = {"nv_inference_request_success", "counter",
        "Requests of a model that were answered with outputs."},
    [MOB_MODEL_FAILURE] = {"nv_inference_request_failure", "counter",
        "Requests of a model that reached its queue, or found it full, and got no outputs."},
    [MOB_MODEL_INFERENCES] = {"nv_inference_count", "counter", "Rows of the requests that succeeded."},
    [MOB_MODEL_EXECUTIONS] = {"nv_inference_exec_count", "counter",
        "Times that the model ran, each for a batch of one request or more."},
    [MOB_MODEL_REQUEST_US] = {"nv_inference_request_duration_us", "counter",
        "Time of the requests that succeeded, in its queue and in the model."},
    [MOB_MODEL_QUEUE_US] = {"nv_inference_queue_duration_us", "counter",
        "Time that requests that succeeded waited to be sent to the model."},
    [MOB_MODEL_COMPUTE_US] = {"nv_inference_compute_infer_duration_us", "counter",
        "Time of the batches that requests that succeeded were in, all of it for each."},
    [MOB_MODEL_PENDING] = {"nv_inference_pending_request_count", "gauge",
        "Requests that wait to be sent to the model."},
};

void mob_model_write_family(enum mob_model_figure figure, struct mob_text *out)
{
    mob_text_family(out, "", figures[figure].name, figures[figure].type, figures[figure].help);
}

void mob_model_write_figure(const struct mob_model *model, enum mob_model_figure figure, struct mob_text *out)
{
    mob_text_printf(out, "%s{model=\"%s\",version=\"1\"} %llu\n", figures[figure].name, model->name,
        figure_of(model, figure));
}
