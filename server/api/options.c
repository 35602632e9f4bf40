#include "server/api/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/option_bounds.h"
#include "server/http/trace_context.h"

#define TIMES_MS_MAX \
    (1000ll * 86400 * 365) /* a year, from now: deadlines are instants in 63 bits of nanoseconds */

static char *copy(const char *text)
{
    return text ? strdup(text) : NULL;
}

static size_t takes_cpus_unasked(const json_t *resources)
{
    return json_object_get(resources, "CPU") == NULL;
}

static void read_resources(
    struct mob_body *body, json_t *resources, const char *prefix, struct mob_engine_options *out)
{
    if (!resources)
        return;
    if (json_object_size(resources) + takes_cpus_unasked(resources) > MOB_TASK_RESOURCES_MAX) {
        mob_body_error(body, prefix, NULL,
            "at most %u resources, with the CPU that is taken unless \"CPU\" says otherwise",
            MOB_TASK_RESOURCES_MAX);
        return;
    }
    out->resources = calloc(json_object_size(resources) + 1, sizeof *out->resources);
    if (!out->resources)
        return;
    const char *name;
    json_t *amount;
    json_object_foreach(resources, name, amount)
    {
        double value = json_number_value(amount);
        double most = strcmp(name, "CPU") == 0 ? MOB_CPUS_MAX : (double)MOB_AMOUNT_MAX;
        if (*name == 0 || strlen(name) > MOB_RESOURCE_NAME_MAX) {
            mob_body_error(
                body, prefix, NULL, "names of resources have 1 to %u bytes", MOB_RESOURCE_NAME_MAX);
            continue;
        }
        if (!json_is_number(amount) || !(value >= 0) || value > most ||
            (value > 0 && value < MOB_AMOUNT_MIN)) {
            mob_body_error(
                body, prefix, name, "must be 0, or a number from %g to %.15g", MOB_AMOUNT_MIN, most);
            continue;
        }
        struct mob_engine_resource *resource = &out->resources[out->resource_count++];
        resource->name = copy(name);
        resource->amount = (uint64_t)llround(value * MOB_AMOUNT_UNITS);
    }
}

static void read_labels(
    struct mob_body *body, json_t *labels, const char *prefix, struct mob_engine_options *out)
{
    if (json_object_size(labels) > MOB_LABELS_MAX) {
        mob_body_error(body, prefix, NULL, "at most %u labels", MOB_LABELS_MAX);
        return;
    }
    const char *key;
    json_t *value;
    json_object_foreach(labels, key, value)
    {
        const char *text = json_string_value(value);
        if (!*key || strchr(key, '='))
            mob_body_error(body, prefix, key, "the key of a label is not empty and has no \"=\"");
        else if (!text || strlen(text) != json_string_length(value))
            mob_body_error(body, prefix, key, "must be a string without NUL");
        else if (strlen(key) + 1 + strlen(text) > MOB_LABEL_BYTES_MAX)
            mob_body_error(body, prefix, key, "a label has at most %u bytes, with its key and \"=\"",
                MOB_LABEL_BYTES_MAX);
        else if (asprintf(&out->labels[out->label_count], "%s=%s", key, text) >= 0)
            out->label_count++;
    }
}

/* Fields by kind; a name that the kind does not have is an unknown field. */
static const char task_fields[] =
    "name\0resources\0num_returns\0max_retries\0retry_on_error\0timeout_ms\0delay_ms\0"
    "priority\0deterministic\0labels\0backoff_initial_ms\0backoff_max_ms\0restart_on_divergence\0";
static const char actor_fields[] = "name\0resources\0max_restarts\0detached\0if_exists\0checkpoint_every\0";
static const char call_fields[] = "name\0timeout_ms\0priority\0num_returns\0max_retries\0labels\0";

static void read_actor(
    struct mob_body *body, const json_t *options, const char *at, struct mob_engine_options *out)
{
    out->actor_name =
        copy(mob_body_string(body, options, at, "name", MOB_BODY_OPTIONAL, MOB_ACTOR_NAME_BYTES_MAX));
    const char *exists = mob_body_string(body, options, at, "if_exists", MOB_BODY_OPTIONAL, 8);
    if (exists && strcmp(exists, "fail") != 0 && strcmp(exists, "return") != 0)
        mob_body_error(body, at, "if_exists", "must be fail or return");
    out->return_existing = exists && strcmp(exists, "return") == 0;
    out->detached = mob_body_bool(body, options, at, "detached", false);
    out->has_max_restarts = json_object_get(options, "max_restarts") != NULL;
    out->max_restarts = (int32_t)mob_body_int(body, options, at, "max_restarts", -1, MOB_RETRIES_MAX, 0);
    out->checkpoint_every =
        (uint32_t)mob_body_int(body, options, at, "checkpoint_every", 0, MOB_CHECKPOINT_EVERY_MAX, 0);
}

static void read_task(
    struct mob_body *body, const json_t *options, const char *at, struct mob_engine_options *out)
{
    out->name = copy(mob_body_string(body, options, at, "name", MOB_BODY_OPTIONAL, MOB_TASK_NAME_BYTES_MAX));
    out->num_returns = (uint32_t)mob_body_int(body, options, at, "num_returns", 1, MOB_RETURNS_MAX, 0);
    out->has_max_retries = json_object_get(options, "max_retries") != NULL;
    out->max_retries = (int32_t)mob_body_int(body, options, at, "max_retries", -1, MOB_RETRIES_MAX, 3);
    out->retry_on_error = mob_body_bool(body, options, at, "retry_on_error", false);
    out->timeout_ms = mob_body_int(body, options, at, "timeout_ms", 1, TIMES_MS_MAX, 0);
    out->delay_ms = mob_body_int(body, options, at, "delay_ms", 0, TIMES_MS_MAX, 0);
    out->priority =
        (int32_t)mob_body_int(body, options, at, "priority", MOB_PRIORITY_MIN, MOB_PRIORITY_MAX, 0);
    out->deterministic = mob_body_bool(body, options, at, "deterministic", false);
    out->restart_on_divergence = mob_body_bool(body, options, at, "restart_on_divergence", false);
    out->backoff_initial_ms = mob_body_int(body, options, at, "backoff_initial_ms", 1, TIMES_MS_MAX, 0);
    out->backoff_max_ms = mob_body_int(body, options, at, "backoff_max_ms", 1, TIMES_MS_MAX, 0);
    char at_labels[96];
    snprintf(at_labels, sizeof at_labels, "%s/labels", at);
    read_labels(body, mob_body_object(body, options, at, "labels", MOB_BODY_OPTIONAL), at_labels, out);
}

void mob_options_read(struct mob_body *body, const json_t *object, const char *prefix, enum mob_options_of of,
    struct mob_engine_options *out)
{
    const char *job = mob_body_string(body, object, prefix, "job", MOB_BODY_OPTIONAL, MOB_ID_TEXT_MAX);
    if (job) {
        out->has_job = mob_job_id_parse(job, &out->job) == MOB_OK;
        if (!out->has_job)
            mob_body_error(body, prefix, "job", "is not a job id");
    }
    const char *trace = body->request->headers ? mob_http_header(body->request, "traceparent") : NULL;
    if (trace && !mob_traceparent_take(trace, out->traceparent))
        out->traceparent[0] = 0;
    json_t *options = mob_body_object(body, object, prefix, "options", MOB_BODY_OPTIONAL);
    if (!options)
        return;
    char at[64], at_resources[96];
    snprintf(at, sizeof at, "%s/options", prefix);
    snprintf(at_resources, sizeof at_resources, "%s/resources", at);
    mob_body_fields(body, options, at,
        of == MOB_OPTIONS_OF_TASK        ? task_fields
            : of == MOB_OPTIONS_OF_ACTOR ? actor_fields
                                         : call_fields);
    read_resources(
        body, mob_body_object(body, options, at, "resources", MOB_BODY_OPTIONAL), at_resources, out);
    if (of == MOB_OPTIONS_OF_ACTOR)
        read_actor(body, options, at, out);
    else
        read_task(body, options, at, out);
}

json_t *mob_options_arguments(struct mob_body *body, const json_t *object, const char *prefix)
{
    json_t *arguments =
        mob_body_array(body, object, prefix, "arguments", MOB_BODY_OPTIONAL, MOB_ARGUMENTS_MAX);
    return arguments ? json_incref(arguments) : json_array();
}

char *mob_options_function(struct mob_body *body, const json_t *object, const char *prefix, const char *field)
{
    return copy(mob_body_string(body, object, prefix, field, MOB_BODY_REQUIRED, 512));
}
