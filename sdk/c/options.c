#include "sdk/c/options.h"

#include <string.h>

#include "common/wire/utf8.h"

/* ---- checks ---- */

/* Names are shown in JSON. */
static enum mob_status check_text(struct mob_client *client, const char *text, size_t most, const char *what)
{
    if (text == NULL || text[0] == 0)
        return mob_client_fail(client, MOB_INVALID, "%s is missing", what);
    size_t bytes = strnlen(text, most + 1);
    if (bytes > most)
        return mob_client_fail(client, MOB_INVALID, "%s is longer than %zu bytes", what, most);
    if (!json_utf8_ok(text, bytes))
        return mob_client_fail(client, MOB_INVALID, "%s is not UTF-8", what);
    return MOB_OK;
}

/* What would round to nothing was meant as something. */
static bool rounds_away(double amount)
{
    return amount > 0 && amount < MOB_AMOUNT_MIN;
}

static enum mob_status check_cpus(struct mob_client *client, double cpus)
{
    if (cpus <= MOB_CPUS_MAX && !rounds_away(cpus)) /* false for what is no number */
        return MOB_OK;
    return mob_client_fail(client, MOB_INVALID, "cpus is a number of 1/%d up to %.10g, not %.10g",
        MOB_AMOUNT_UNITS, MOB_CPUS_MAX, cpus);
}

static enum mob_status check_range(
    struct mob_client *client, const char *what, int64_t v, int64_t least, int64_t most)
{
    return v >= least && v <= most
        ? MOB_OK
        : mob_client_fail(client, MOB_INVALID, "%s is a number from %lld to %lld, not %lld", what,
              (long long)least, (long long)most, (long long)v);
}

enum mob_status mob_options_size_check(struct mob_client *client, size_t given, size_t here)
{
    if (given >= sizeof(size_t) && given <= here)
        return MOB_OK;
    return mob_client_fail(client, MOB_INVALID,
        "struct_size is %zu: it is sizeof of the options, %zu here and less in older versions", given, here);
}

/* CPU is one of them, given as `cpus` or by its name. */
static enum mob_status check_count(
    struct mob_client *client, double cpus, const struct mob_resource *resources, size_t count)
{
    size_t others = 0;
    uint32_t cpu = mob_cpu_units(cpus, 1);
    for (size_t i = 0; i < count; i++)
        if (strcmp(resources[i].name, "CPU") == 0)
            cpu = mob_cpu_units(resources[i].amount, 0);
        else
            others++;
    if (others + (cpu > 0) <= MOB_TASK_RESOURCES_MAX)
        return MOB_OK;
    return mob_client_fail(client, MOB_INVALID,
        "a task has up to %u resources, CPU among them, and these are %zu", MOB_TASK_RESOURCES_MAX,
        others + (cpu > 0));
}

static bool is_named_before(const struct mob_resource *resources, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(resources[i].name, resources[at].name) == 0)
            return true;
    return false;
}

static enum mob_status check_resources(
    struct mob_client *client, double cpus, const struct mob_resource *resources, size_t count)
{
    if (count > 0 && resources == NULL)
        return mob_say_null(client, "resources");
    for (size_t i = 0; i < count; i++) {
        double amount = resources[i].amount;
        enum mob_status status =
            check_text(client, resources[i].name, MOB_RESOURCE_NAME_MAX, "a resource's name");
        if (status != MOB_OK)
            return status;
        if (is_named_before(resources, i))
            return mob_client_fail(
                client, MOB_INVALID, "the resource \"%s\" is named twice", resources[i].name);
        if (!(amount >= 0 && amount <= (double)MOB_AMOUNT_MAX) || rounds_away(amount))
            return mob_client_fail(client, MOB_INVALID,
                "the amount of resource \"%s\" is 0, or a number from 0.0001 to %lld", resources[i].name,
                (long long)MOB_AMOUNT_MAX);
        if (strcmp(resources[i].name, "CPU") == 0 && (status = check_cpus(client, amount)) != MOB_OK)
            return status;
    }
    return check_count(client, cpus, resources, count);
}

static enum mob_status check_labels(struct mob_client *client, const char *const *labels, size_t count)
{
    if (count > 0 && labels == NULL)
        return mob_say_null(client, "labels");
    for (size_t i = 0; i < count; i++) {
        enum mob_status status = check_text(client, labels[i], MOB_LABEL_BYTES_MAX, "a label");
        if (status != MOB_OK)
            return status;
        if (strchr(labels[i], '=') == NULL)
            return mob_client_fail(client, MOB_INVALID, "label \"%s\" is not key=value", labels[i]);
    }
    return MOB_OK;
}

static enum mob_status check_optional(
    struct mob_client *client, const char *text, size_t most, const char *what)
{
    return text == NULL || text[0] == 0 ? MOB_OK : check_text(client, text, most, what);
}

enum mob_status mob_options_check(struct mob_client *client, const struct mob_submit_options *options)
{
    if (options->max_retries < MOB_NO_RETRY)
        return mob_client_fail(client, MOB_INVALID,
            "max_retries is a number, -1 (for ever) or MOB_NO_RETRY, not %d", options->max_retries);
    enum mob_status status =
        check_range(client, "max_retries", options->max_retries, MOB_NO_RETRY, MOB_RETRIES_MAX);
    if (status == MOB_OK)
        status = check_range(client, "priority", options->priority, MOB_PRIORITY_MIN, MOB_PRIORITY_MAX);
    if (status == MOB_OK)
        status = check_range(client, "timeout_ns", options->timeout_ns, 0, MOB_FOREVER);
    if (status == MOB_OK)
        status = check_range(client, "delay_ns", options->delay_ns, 0, MOB_FOREVER);
    if (status != MOB_OK)
        return status;
    if (options->backoff_initial_ns < 0 || options->backoff_max_ns < 0)
        return mob_client_fail(client, MOB_INVALID, "a back-off is not negative");
    status = check_cpus(client, options->cpus);
    if (status == MOB_OK)
        status = check_resources(client, options->cpus, options->resources, options->resource_count);
    if (status == MOB_OK)
        status = check_labels(client, options->labels, options->label_count);
    if (status == MOB_OK)
        status = check_optional(client, options->name, MOB_TASK_NAME_BYTES_MAX, "the name");
    if (status == MOB_OK)
        status = check_optional(client, options->traceparent, MOB_SPEC_TAIL_MAX, "traceparent");
    return status;
}

enum mob_status mob_call_options_check(struct mob_client *client, const struct mob_submit_options *options)
{
    const char *field = options->cpus != 0 ? "cpus"
        : options->resource_count > 0      ? "resources"
        : options->retry_on_error          ? "retry_on_error"
        : options->deterministic           ? "deterministic"
        : options->restart_on_divergence   ? "restart_on_divergence"
                                           : NULL;
    if (field == NULL)
        return MOB_OK;
    return mob_client_fail(client, MOB_INVALID, "%s is an option of tasks, and of no actor's call", field);
}

enum mob_status mob_actor_options_check(struct mob_client *client, const struct mob_actor_options *options)
{
    if (options->max_restarts < -1)
        return mob_client_fail(
            client, MOB_INVALID, "max_restarts is a number or -1 (for ever), not %d", options->max_restarts);
    enum mob_status status = check_range(client, "max_restarts", options->max_restarts, -1, MOB_RETRIES_MAX);
    if (status == MOB_OK)
        status =
            check_range(client, "checkpoint_every", options->checkpoint_every, 0, MOB_CHECKPOINT_EVERY_MAX);
    if (status == MOB_OK)
        status = check_cpus(client, options->cpus);
    if (status == MOB_OK)
        status = check_resources(client, options->cpus, options->resources, options->resource_count);
    if (status == MOB_OK && options->name != NULL)
        status = check_text(client, options->name, MOB_ACTOR_NAME_BYTES_MAX, "the actor's name");
    if (status == MOB_OK)
        status = check_optional(client, options->traceparent, MOB_SPEC_TAIL_MAX, "traceparent");
    return status;
}

/* ---- writing ---- */

uint32_t mob_cpu_units(double cpus, uint32_t by_default)
{
    if (cpus == 0)
        return by_default;
    if (cpus < 0)
        return 0;
    return cpus < MOB_CPUS_MAX ? (uint32_t)(cpus * MOB_AMOUNT_UNITS + 0.5) : UINT32_MAX;
}

/* Bytes of memory do not fit in 32 bits of 1/10000: such amounts have a wider extension. */
static void write_amount(struct mob_tail_builder *b, const struct mob_resource *resource)
{
    uint8_t payload[sizeof(uint64_t) + MOB_RESOURCE_NAME_MAX];
    size_t name_bytes = strlen(resource->name);
    uint64_t wide = (uint64_t)(resource->amount * MOB_AMOUNT_UNITS + 0.5);
    uint32_t narrow = (uint32_t)wide;
    bool fits = wide <= UINT32_MAX;
    size_t head = fits ? sizeof narrow : sizeof wide;
    memcpy(payload, fits ? (const void *)&narrow : (const void *)&wide, head);
    memcpy(payload + head, resource->name, name_bytes);
    mob_tail_add_ext(
        b, fits ? MOB_EXT_RESOURCES : MOB_EXT_WIDE_RESOURCES, payload, (uint32_t)(head + name_bytes));
}

void mob_resources_write(
    struct mob_tail_builder *b, const struct mob_resource *resources, size_t count, uint32_t *cpu)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(resources[i].name, "CPU") == 0)
            *cpu = mob_cpu_units(resources[i].amount, 0);
        else
            write_amount(b, &resources[i]);
}

void mob_label_write(struct mob_tail_builder *b, const char *label)
{
    char payload[MOB_LABEL_BYTES_MAX];
    size_t bytes = strlen(label), key = (size_t)(strchr(label, '=') - label);
    memcpy(payload, label, bytes);
    payload[key] = 0;
    mob_tail_add_ext(b, MOB_EXT_LABEL, payload, (uint32_t)bytes);
}
